//! What intake needs of the bodies of deliveries: whom and what they are about, and whether
//! anything can be made of them. Everything else is left to the worker.

use bytes::Bytes;
use domain::order::Topic;
use domain::payment::thin;
use domain::profile::{Bodies, StorefrontProfile};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{LONGEST_ID, Unreadable, is_topic, is_visible};

/// What a delivery of the storefront is about.
pub struct Storefront {
    /// In our words, where its body can be read.
    pub topic: String,
    /// The order's, or whatever else it is of.
    pub object_id: Option<String>,
    /// The customer's id.
    pub subject: Option<String>,
    /// The order itself when the body has it in an envelope.
    pub body: Bytes,
}

/// `topic` is in the provider's words; `None`: the body has it.
pub fn storefront(
    profile: &StorefrontProfile,
    topic: Option<String>,
    body: Bytes,
) -> Result<Storefront, Unreadable> {
    match profile.bodies {
        Bodies::Plain => {
            let topic = topic.ok_or(Unreadable::NoTopic)?;
            plain(profile.topic(topic), body)
        }
        Bodies::Enveloped => {
            let (kind, data) = opened(&body)?;
            plain(profile.topic(kind), data)
        }
        Bodies::WooCommerce => {
            let topic = topic.ok_or(Unreadable::NoTopic)?;
            woocommerce(profile.topic(topic), body)
        }
    }
}

/// An order of the storefront's API, which has no envelope.
pub fn listed(profile: &StorefrontProfile, order: Bytes) -> Result<Storefront, Unreadable> {
    let topic = Topic::Updated.into_str().to_owned();
    match profile.bodies {
        Bodies::Plain | Bodies::Enveloped => plain(topic, order),
        Bodies::WooCommerce => woocommerce(topic, order),
    }
}

fn woocommerce(topic: String, body: Bytes) -> Result<Storefront, Unreadable> {
    let order: WooCommerceEnvelope = parse(&body)?;
    Ok(Storefront {
        topic,
        object_id: order.id.and_then(digits),
        // A guest's is 0.
        subject: order.customer_id.and_then(digits).filter(|id| id != "0"),
        body,
    })
}

fn plain(topic: String, body: Bytes) -> Result<Storefront, Unreadable> {
    let envelope: StorefrontEnvelope = parse(&body)?;
    Ok(Storefront {
        topic,
        object_id: envelope.id.and_then(digits),
        subject: envelope.customer.and_then(|customer| digits(customer.id?)),
        body,
    })
}

/// The topic and the order of a body that has both. One without `data` is the order itself.
fn opened(body: &Bytes) -> Result<(String, Bytes), Unreadable> {
    let envelope: Envelope = parse(body)?;
    let kind = envelope.kind.filter(|kind| is_topic(kind));
    let kind = kind.ok_or(Unreadable::Envelope)?;
    let data = envelope.data.filter(|data| data.get().starts_with('{'));
    let data = data.map_or_else(
        || body.clone(),
        |data| body.slice_ref(data.get().as_bytes()),
    );
    Ok((kind, data))
}

/// What the payment provider's event is about.
pub struct Payment {
    pub id: Option<String>,
    pub kind: Option<String>,
    pub api_version: Option<String>,
    /// When it happened, in seconds since 1970.
    pub created: Option<i64>,
    pub object_id: Option<String>,
    /// The customer's id.
    pub subject: Option<String>,
    pub has_object: bool,
    /// It is of the provider's test mode.
    pub is_test: bool,
    /// The connected account that it is of.
    pub account: Option<String>,
    /// It names its object instead (`domain::payment::thin`).
    pub is_thin: bool,
}

pub fn payment(body: &[u8]) -> Result<Payment, Unreadable> {
    let envelope: PaymentEnvelope = parse(body)?;
    let object = envelope.data.and_then(|data| data.object);
    let has_object = object.is_some();
    let related = || envelope.related_object.unwrap_or_default();
    let object = object.unwrap_or_else(related);
    Ok(Payment {
        id: envelope.id,
        kind: envelope.kind,
        api_version: envelope.api_version,
        created: envelope.created,
        object_id: object.id.and_then(provider_id),
        subject: object.customer.and_then(provider_id),
        has_object,
        is_test: envelope.livemode == Some(false),
        account: envelope.account.or(envelope.context),
        is_thin: envelope.object.is_some_and(is_thin),
    })
}

fn is_thin(object: &RawValue) -> bool {
    thin::is_thin(object.get().trim_matches('"'))
}

/// `webhook_id=12`, and nothing else.
pub fn is_ping(form: &[u8]) -> bool {
    let id = form.strip_prefix(b"webhook_id=");
    id.is_some_and(|id| (1..=20).contains(&id.len()) && id.iter().all(u8::is_ascii_digit))
}

#[derive(Deserialize)]
struct StorefrontEnvelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    customer: Option<Customer<'a>>,
}

#[derive(Deserialize)]
struct Customer<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WooCommerceEnvelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    customer_id: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct PaymentEnvelope<'a> {
    id: Option<String>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    api_version: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    created: Option<i64>,
    #[serde(default, deserialize_with = "lenient")]
    livemode: Option<bool>,
    #[serde(default, deserialize_with = "lenient")]
    account: Option<String>,
    /// A thin event has it in place of `account`.
    #[serde(default, deserialize_with = "lenient")]
    context: Option<String>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    data: Option<Data<'a>>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    related_object: Option<Object<'a>>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow, default, deserialize_with = "lenient")]
    object: Option<Object<'a>>,
}

#[derive(Default, Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    customer: Option<&'a RawValue>,
}

/// A part of the body that is not shaped as expected is as good as missing: intake does not
/// judge what a worker will read with more care.
fn lenient<'de: 'a, 'a, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'a>,
{
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Unreadable> {
    let text = std::str::from_utf8(body).map_err(|_| Unreadable::NotJson)?;
    let is_object = text.trim_ascii_start().starts_with('{');
    match serde_json::from_str(text) {
        // serde would also read a struct from an array of its fields.
        Ok(_) if !is_object => Err(Unreadable::NotAnObject),
        Ok(envelope) => Ok(envelope),
        Err(error) if error.is_data() && is_object => Err(Unreadable::Envelope),
        Err(error) if error.is_data() => Err(Unreadable::NotAnObject),
        Err(_) => Err(Unreadable::NotJson),
    }
}

/// An integer id as text, whether it came as a number or as a string of digits.
fn digits(raw: &RawValue) -> Option<String> {
    let digits = raw.get().trim_matches('"');
    let fits = (1..=20).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| digits.to_owned())
}

/// A payment provider's id, or the `id` of the object that stands in its place.
fn provider_id(raw: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Link {
        Id(String),
        Object { id: String },
    }
    let (Link::Id(id) | Link::Object { id }) = serde_json::from_str(raw.get()).ok()?;
    is_visible(&id, LONGEST_ID).then_some(id)
}
