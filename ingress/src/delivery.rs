//! Webhook authentication as extractors. When a handler gets a [`StorefrontDelivery`] or a
//! [`PaymentDelivery`] as an argument, the body was limited in size, its signature was verified
//! over the raw bytes, it was counted against its rate limits, and it was found to be JSON, in
//! that order. A signature header that cannot be right for any body is refused before the body is
//! read.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use bytes::Bytes;
use domain::job::{Source, State};
use domain::privacy::{PERIOD, Request as PrivacyRequest, Topic};
use domain::signature::{PaymentSignature, SignatureError, StorefrontSignature};
use domain::time::Timestamp;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::value::RawValue;
use store::jobs::NewJob;
use store::orders::CHECKOUT;
use tokio::time::timeout;

use crate::App;
use crate::api_version;
use crate::client_address;
use crate::error::Error;
use crate::intake::{ByteBudgetPermit, Size};
use crate::request_id::RequestId;

const BODY_DEADLINE: Duration = Duration::from_secs(10);
const LONGEST_ID: usize = 255;
const LONGEST_TOPIC: usize = 100;

const HMAC: HeaderName = HeaderName::from_static("x-storefront-hmac-sha256");
const TOPIC: HeaderName = HeaderName::from_static("x-storefront-topic");
const WEBHOOK_ID: HeaderName = HeaderName::from_static("x-storefront-webhook-id");
const SHOP: HeaderName = HeaderName::from_static("x-storefront-shop-domain");
const API_VERSION: HeaderName = HeaderName::from_static("x-storefront-api-version");
const PAYMENT_SIGNATURE: HeaderName = HeaderName::from_static("payment-signature");

/// A verified delivery of the storefront, as the job that will be stored.
pub struct StorefrontDelivery(pub NewJob, pub ByteBudgetPermit);

/// A verified event of the payment provider, as the job that will be stored.
pub struct PaymentDelivery(pub NewJob, pub ByteBudgetPermit);

impl FromRequest<Arc<App>> for StorefrontDelivery {
    type Rejection = Error;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Error> {
        let (parts, body) = request.into_parts();
        let announced = announced(app, &parts.headers)?;
        let refused = |refused| {
            count_refused(Source::Storefront, refused);
            Error::StorefrontSignature
        };
        let signature = StorefrontSignature::read(header_values(&parts.headers, HMAC));
        let signature = signature.map_err(refused)?;
        let (body, budget) = read_body(app, &parts, announced, body).await?;
        let matched = signature.verify(&app.config.storefront_secrets, &body);
        count_match(Source::Storefront, matched.map_err(refused)?);
        let topic = text(&parts.headers, &TOPIC)
            .map_err(|()| Error::TopicHeader)?
            .filter(|topic| is_topic(topic))
            .ok_or(Error::TopicHeader)?;
        let shop = known(app, shop(&parts.headers)?)?;
        let webhook_id = text(&parts.headers, &WEBHOOK_ID)
            .map_err(|()| Error::WebhookIdHeader)?
            .filter(|id| !id.is_empty());
        if webhook_id.as_ref().is_some_and(|id| id.len() > LONGEST_ID) {
            return Err(Error::WebhookIdHeader);
        }
        app.limits
            .storefront(shop.as_deref().unwrap_or(""), signature.digest())?;
        let envelope: StorefrontEnvelope = parse(&body)?;
        let request = privacy_request(&topic, shop.as_deref(), &body)?;
        let shop = match &request {
            Some(request) => known(app, Some(request.shop.clone()))?,
            None => shop,
        };
        let request_id = parts.extensions.get::<RequestId>();
        let object_id = envelope.id.and_then(digits);
        let subject = envelope.customer.and_then(|customer| digits(customer.id?));
        let mut job = NewJob {
            shop,
            external_id: webhook_id,
            object_id,
            subject,
            api_version: text(&parts.headers, &API_VERSION)
                .ok()
                .flatten()
                .and_then(|text| api_version::read(&text)),
            ..new_job(app, request_id, Source::Storefront, topic, body)
        };
        if request.is_some_and(|request| request.topic == Topic::ShopRedact) {
            job.run_at = job.created_at.plus(app.config.privacy.shop_hold);
        }
        Ok(StorefrontDelivery(job, budget))
    }
}

impl FromRequest<Arc<App>> for PaymentDelivery {
    type Rejection = Error;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Error> {
        let (parts, body) = request.into_parts();
        let announced = announced(app, &parts.headers)?;
        let refused = |refused| {
            count_refused(Source::Payment, refused);
            Error::PaymentSignature
        };
        let signature = PaymentSignature::read(header_values(&parts.headers, PAYMENT_SIGNATURE));
        let signature = signature.map_err(refused)?;
        let (body, budget) = read_body(app, &parts, announced, body).await?;
        let matched = signature.verify(
            &app.config.payment_secrets,
            &body,
            app.clock.now().unix_seconds(),
            app.config.payment_tolerance.as_secs(),
        );
        count_match(Source::Payment, matched.map_err(refused)?);
        app.limits.payment()?;
        let envelope: PaymentEnvelope = parse(&body)?;
        let (Some(id), Some(kind)) = (envelope.id, envelope.kind) else {
            return Err(Error::Envelope);
        };
        if !is_visible(&id, LONGEST_ID) || !is_topic(&kind) {
            return Err(Error::Envelope);
        }
        let request_id = parts.extensions.get::<RequestId>();
        let object = envelope
            .data
            .and_then(|data| data.object)
            .unwrap_or_default();
        let object_id = object.id.and_then(provider_id);
        let subject = object.customer.and_then(provider_id);
        let version: Option<String> = envelope.api_version;
        let job = NewJob {
            external_id: Some(id),
            object_id,
            subject,
            api_version: version.and_then(|text| api_version::read(&text)),
            ..new_job(app, request_id, Source::Payment, kind, body)
        };
        Ok(PaymentDelivery(job, budget))
    }
}

/// Reads the privacy request from the body of a privacy topic. The headers with topic and shop are
/// not signed, so the body is refused if it belongs to another topic or another shop.
fn privacy_request(
    topic: &str,
    shop: Option<&str>,
    body: &[u8],
) -> Result<Option<PrivacyRequest>, Error> {
    let Some(topic) = Topic::parse(topic) else {
        return Ok(None);
    };
    let request = PrivacyRequest::read(topic, body).map_err(|_| Error::PrivacyBody)?;
    if request.is_about_nobody() {
        return Err(Error::PrivacyBody);
    }
    if shop.is_some_and(|shop| shop != request.shop) {
        return Err(Error::PrivacyShop);
    }
    Ok(Some(request))
}

/// Checks the shop of a delivery. The shop's header is not signed. If `STOREFRONT_SHOPS` lists
/// shops, a header that names another shop is refused, so that a captured body cannot be sent
/// again in the name of an invented shop. If it lists exactly one shop, a delivery without the
/// header belongs to that shop.
fn known(app: &App, shop: Option<String>) -> Result<Option<String>, Error> {
    match (app.config.storefront_shops.as_slice(), shop) {
        // This is the shop of the orders that Waybill makes for checkouts, so no delivery may name
        // it.
        (_, Some(shop)) if shop == CHECKOUT => Err(Error::ShopHeader),
        ([], shop) => Ok(shop),
        ([only], None) => Ok(Some(only.clone())),
        (_, None) => Ok(None),
        (shops, Some(shop)) if shops.contains(&shop) => Ok(Some(shop)),
        _ => Err(Error::ShopUnknown),
    }
}

/// The length of the body as the headers announce it; `None` if it comes in chunks. A request that
/// can be refused by its headers is refused here, before any of the body is read.
fn announced(app: &App, headers: &HeaderMap) -> Result<Option<u64>, Error> {
    let encoding = headers.get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(Error::ContentEncoding);
    }
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|announced| announced > app.config.max_body_bytes as u64) {
        return Err(Error::BodyTooLarge);
    }
    Ok(announced)
}

/// The whole body as it was sent, and the share of the byte budget that it holds. A body over the
/// limit is an error.
async fn read_body(
    app: &App,
    parts: &Parts,
    announced: Option<u64>,
    body: Body,
) -> Result<(Bytes, ByteBudgetPermit), Error> {
    timeout(BODY_DEADLINE, collect(app, parts, announced, body))
        .await
        .map_err(|_| Error::BodyTooSlow)?
}

/// Reads the body frame by frame, so that a sender takes only as much memory as it has sent bytes.
/// Nearly all bodies come in one frame; such a body is not copied and is verified at once. A body
/// of several frames counts for the network that sends it until it is complete.
async fn collect(
    app: &App,
    parts: &Parts,
    announced: Option<u64>,
    mut body: Body,
) -> Result<(Bytes, ByteBudgetPermit), Error> {
    let mut budget = app.intake.reserve(Size::announced(announced))?;
    let mut unverified = None;
    let mut first = Bytes::new();
    let mut rest = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Error::BodyIncomplete)?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let size = first.len() + rest.len() + data.len();
        if size > app.config.max_body_bytes {
            return Err(Error::BodyTooLarge);
        }
        budget.grow(&app.intake, size)?;
        if !body.is_end_stream() {
            let unverified = unverified.get_or_insert_with(|| {
                let trusted = &app.config.trusted_proxies;
                let client = client_address::of(&parts.extensions, &parts.headers, trusted);
                app.limits.unverified.begin(client)
            });
            unverified.grow(size)?;
        }
        if first.is_empty() && rest.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            append(&mut rest, &std::mem::take(&mut first));
        }
        append(&mut rest, &data);
    }
    if rest.is_empty() {
        return Ok((first, budget));
    }
    Ok((rest.into(), budget))
}

/// Makes the buffer larger by a quarter, and not twice as large, so that the memory that is
/// counted is about the memory that is used.
fn append(body: &mut Vec<u8>, data: &[u8]) {
    let room = body.capacity() - body.len();
    if room < data.len() {
        body.reserve_exact(data.len().max(body.len() / 4));
    }
    body.extend_from_slice(data);
}

fn header_values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &[u8]> {
    let values = headers.get_all(name).into_iter();
    values.map(axum::http::HeaderValue::as_bytes)
}

/// Counts deliveries that were signed with an old secret, so that an operator sees when this
/// secret can be removed.
fn count_match(source: Source, matched: usize) {
    if matched > 0 {
        let secret = matched.to_string();
        metrics::counter!(
            "waybill_old_secret_matches_total",
            "source" => source.as_str(), "secret" => secret
        )
        .increment(1);
    }
}

fn count_refused(source: Source, refused: SignatureError) {
    metrics::counter!(
        "waybill_signatures_refused_total",
        "source" => source.as_str(), "reason" => refused.label()
    )
    .increment(1);
}

/// A header that may be missing, but must be visible text if it is there.
fn text(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, ()> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let text = value.to_str().map_err(|_| ())?;
    Ok(Some(text.trim().to_owned()))
}

/// The shop domain in lower case, because the limits, the keys and the privacy checks compare it
/// in that form.
fn shop(headers: &HeaderMap) -> Result<Option<String>, Error> {
    let shop = text(headers, &SHOP).map_err(|()| Error::ShopHeader)?;
    let Some(shop) = shop.filter(|shop| !shop.is_empty()) else {
        return Ok(None);
    };
    let fits = shop.len() <= LONGEST_ID
        && shop
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte));
    if !fits {
        return Err(Error::ShopHeader);
    }
    Ok(Some(shop.to_ascii_lowercase()))
}

/// Whether a text has the form of a kind, such as `orders/create` or `payment_intent.succeeded`,
/// so that it can be used in a routing key and a label.
fn is_topic(text: &str) -> bool {
    is_visible(text, LONGEST_TOPIC)
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
}

fn is_visible(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The fields of a storefront body that intake needs. The worker reads all others.
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

/// The fields of a payment event that intake needs.
#[derive(Deserialize)]
struct PaymentEnvelope<'a> {
    id: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    api_version: Option<String>,
    #[serde(borrow, default, deserialize_with = "lenient")]
    data: Option<Data<'a>>,
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

/// Reads a part of the body. If it does not have the expected type, it counts as missing: intake
/// does not refuse it, because a worker checks it more carefully later.
fn lenient<'de: 'a, 'a, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'a>,
{
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok())
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Error> {
    let text = std::str::from_utf8(body).map_err(|_| Error::NotJson)?;
    let is_object = text.trim_ascii_start().starts_with('{');
    match serde_json::from_str(text) {
        // serde would also accept an array with the fields of the struct, so this checks for an
        // object.
        Ok(_) if !is_object => Err(Error::NotAnObject),
        Ok(envelope) => Ok(envelope),
        Err(error) if error.is_data() && is_object => Err(Error::Envelope),
        Err(error) if error.is_data() => Err(Error::NotAnObject),
        Err(_) => Err(Error::NotJson),
    }
}

/// An integer id as text. The body may have it as a number or as a string of digits.
fn digits(raw: &RawValue) -> Option<String> {
    let digits = raw.get().trim_matches('"');
    let fits = (1..=20).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| digits.to_owned())
}

/// An id of the payment provider. The body may have the whole object in its place, and then this
/// is the object's `id`.
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

fn new_job(
    app: &App,
    request_id: Option<&RequestId>,
    source: Source,
    kind: String,
    body: Bytes,
) -> NewJob {
    let created_at = app.clock.now();
    let queue = source.queue(&kind);
    // No worker will ever read a body of a kind that has no handler, and it may contain personal
    // data, so it is not stored.
    let body = if queue.is_some() { body } else { Bytes::new() };
    NewJob {
        id: match request_id {
            Some(id) => id.own,
            None => app.clock.id(),
        },
        queue: queue.unwrap_or(source.home()),
        kind,
        source,
        shop: None,
        external_id: None,
        object_id: None,
        subject: None,
        api_version: None,
        body,
        // A delivery of a topic without a handler is stored as done, so that the provider does not
        // send it again for ever.
        state: if queue.is_some() {
            State::Ready
        } else {
            State::Done
        },
        run_at: created_at,
        notified_at: None,
        deadline_at: deadline(queue, created_at),
        trace: request_id.and_then(|id| id.given.clone()),
        // If the client sent no trace, a trace begins with this job and has its id.
        traceparent: request_id.and_then(|id| id.parent.map(|_| id.context())),
        created_at,
    }
}

fn deadline(queue: Option<domain::job::Queue>, created_at: Timestamp) -> Option<Timestamp> {
    (queue == Some(domain::job::Queue::Privacy)).then(|| created_at.plus(PERIOD))
}
