//! Webhook authentication. The body of a [`Delivery`] was limited in size, its signature was
//! verified over the raw bytes, it was counted against its rate limits, and it was found to be
//! JSON, in that order. A signature header that cannot be right for any body is refused before the
//! body is read. What differs from provider to provider is in its profile (`domain::profile`).

mod headers;
mod refused;
mod wording;

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, header};
use bytes::Bytes;
use config::connection::{PaymentConnection, Registry, StorefrontConnection};
use domain::connection::DEFAULT;
use domain::job::{Source, State};
use domain::privacy::{Request as PrivacyRequest, Topic};
use domain::profile::{Bodies, DeliveryId, StorefrontProfile};
use domain::signature::{Secrets, Signature, SignatureError};
use flows::deliveries::{self, Event, LONGEST_ID, body, is_topic, is_visible, named};
use http_body_util::BodyExt;
use providers::is_loopback;
use sha2::{Digest as _, Sha256};
use store::jobs::NewJob;
use store::orders::CHECKOUT;
use store::webhook_ids::BodyHash;
use tokio::time::timeout;

pub use refused::{About, By, Refused};

use crate::App;
use crate::error::Error;
use crate::intake::{ByteBudgetPermit, Size};
use crate::request_id::RequestId;
use server::client_address;

pub(crate) const BODY_DEADLINE: Duration = Duration::from_secs(10);

/// How old a signed time may be where no setting says it, in seconds. The libraries of Standard
/// Webhooks accept the same age.
const STANDARD_TOLERANCE: u64 = 300;

/// The form that `WooCommerce` sends when a webhook is set up has at most so many bytes.
const LONGEST_PING: u64 = 64;

/// What tunnels and proxies add to a request.
const FORWARDED: [&str; 4] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
];

/// Why the provider's sample of a privacy request is not understood.
const SAMPLE: &str =
    "its shop_domain is the provider's placeholder, so it is a sample, which asks for nothing";

/// A verified delivery, as the job that will be stored.
pub struct Delivery {
    pub job: NewJob,
    /// The name of the profile of its connection.
    pub profile: &'static str,
    /// The status of the answer if it is a duplicate.
    pub duplicate_status: u16,
    /// The hash of the body, where the signature does not say to which id it belongs.
    pub body_hash: Option<BodyHash>,
    pub budget: ByteBudgetPermit,
    /// The connected account of the payment provider that it is of.
    pub account: Option<String>,
    /// Why the delivery has no effect although its topic or type has a handler.
    pub not_understood: Option<&'static str>,
}

/// Reads and verifies a delivery of a storefront: at the address of the connection `name`, or at the common one. `None` is
/// the unsigned request with which `WooCommerce` checks an address; nothing of it is stored.
pub async fn storefront(
    app: &App,
    name: Option<&str>,
    request: Request,
) -> Result<Option<Delivery>, Refused> {
    let (parts, body) = request.into_parts();
    let connections = known_connections(app)?;
    let candidates = candidates(&connections, name, &parts.headers);
    let about = |connection: &StorefrontConnection, refused: Refused| {
        let names = &connection.headers;
        Refused {
            about: About::read(&parts.headers, names.topic.as_ref(), names.shop.as_ref()),
            by: Box::new(By {
                connection: in_log(&connection.name),
                profile: Some(connection.profile.name),
                detail: Some(wording::storefront(connection, refused.error)),
            }),
            ..refused
        }
    };
    let Some(first) = candidates.first() else {
        return Err(Error::ConnectionUnknown.into());
    };
    let verified = verify(app, &candidates, &parts, body).await;
    let Some(verified) = verified.map_err(|(of, refused)| about(of.unwrap_or(first), refused))?
    else {
        return Ok(None);
    };
    let connection = verified.connection.clone();
    let read = read_storefront(app, &connections, &parts, verified);
    let read = read.map_err(|refused| about(&connection, refused))?;
    Ok(Some(read))
}

/// The connections at this moment. While it is not known which there are, the secret of the settings could speak for a shop
/// that has one of its own.
fn known_connections(app: &App) -> Result<Arc<Registry>, Error> {
    let connections = app.connections.now();
    if connections.is_read() {
        Ok(connections)
    } else {
        Err(Error::NotAccepted)
    }
}

/// The connections that may have sent a request, in the sequence in which their secrets are tried: those that the shop has
/// of its own, as its header claims, and then the default one. Nothing but the secret decides which of them it was.
fn candidates(
    connections: &Registry,
    name: Option<&str>,
    headers: &HeaderMap,
) -> Vec<Arc<StorefrontConnection>> {
    if let Some(name) = name {
        return connections.storefront(name).into_iter().cloned().collect();
    }
    let mut candidates = Vec::new();
    for (header, holds) in connections.shop_headers() {
        let shop = headers::shop(headers, Some(header), *holds).ok().flatten();
        let bound = shop.map(|shop| connections.bound_to(&shop));
        let named = bound.unwrap_or_default().iter();
        candidates.extend(
            named
                .filter(|it| it.headers.shop.as_ref() == Some(header))
                .cloned(),
        );
    }
    candidates.push(connections.default_storefront().clone());
    candidates
}

/// Whether this process cannot read the secrets of a connection. Another process may, so the provider is told to come again.
fn is_unread(name: &str, secrets: &Secrets) -> bool {
    name != DEFAULT && secrets.fingerprints().is_empty()
}

/// The name of a connection as it stands in lists and metrics: empty for the default one.
fn in_log(name: &str) -> String {
    if name == DEFAULT {
        String::new()
    } else {
        name.to_owned()
    }
}

/// A request whose signature is one of this connection.
struct Verified<'a, C> {
    connection: &'a Arc<C>,
    signature: Signature<'a>,
    body: Bytes,
    budget: ByteBudgetPermit,
}

/// Why a request is refused, and which connection it is said of where that is known.
type Unverified<'a, C> = (Option<&'a Arc<C>>, Refused);

async fn verify<'a>(
    app: &App,
    candidates: &'a [Arc<StorefrontConnection>],
    parts: &'a Parts,
    body: Body,
) -> Result<Option<Verified<'a, StorefrontConnection>>, Unverified<'a, StorefrontConnection>> {
    let of_none = |error: Error| (None, Refused::from(error));
    let is_default = |it: &Arc<StorefrontConnection>| it.is_default();
    if candidates.iter().all(is_default) {
        from_this_machine(app, Source::Storefront, parts).map_err(of_none)?;
    }
    let announced = announced(app, &parts.headers).map_err(of_none)?;
    let refused = |of: &'a Arc<StorefrontConnection>, why| {
        (
            Some(of),
            Refused::signature(Source::Storefront, of.profile.name, &parts.headers, why),
        )
    };
    let mut signed = Vec::with_capacity(candidates.len());
    let mut wrong = None;
    for connection in candidates {
        let names = &connection.headers;
        let scheme = connection.profile.scheme;
        match headers::signature(scheme, &parts.headers, &names.signature, names.id.as_ref()) {
            Ok(signature) => signed.push((connection, signature)),
            Err(SignatureError::Missing)
                if is_of_a_ping(connection.profile, &parts.headers, announced) =>
            {
                let (form, _budget) = read_body(app, parts, announced, body)
                    .await
                    .map_err(of_none)?;
                return if body::is_ping(&form) {
                    Ok(None)
                } else {
                    Err(refused(connection, SignatureError::Missing))
                };
            }
            Err(why) => {
                wrong.get_or_insert((connection, why));
            }
        }
    }
    if let ([], Some((connection, why))) = (signed.as_slice(), wrong) {
        return Err(refused(connection, why));
    }
    let (body, budget) = read_body(app, parts, announced, body)
        .await
        .map_err(of_none)?;
    let now = app.clock.now().unix_seconds();
    let mut wrong = None;
    for (connection, signature) in signed {
        match signature.verify(&connection.secrets, &body, now, STANDARD_TOLERANCE) {
            Ok(matched) => {
                if connection.is_default() {
                    from_this_machine(app, Source::Storefront, parts).map_err(of_none)?;
                }
                count_match(app, Source::Storefront, &connection.secrets, matched);
                return Ok(Some(Verified {
                    connection,
                    signature,
                    body,
                    budget,
                }));
            }
            Err(why) => {
                wrong.get_or_insert((connection, why, signature.signed_at()));
            }
        }
    }
    let (connection, why, signed_at) = wrong.expect("there is a signature that was tried");
    if is_unread(&connection.name, &connection.secrets) {
        return Err((Some(connection), Error::NotAccepted.into()));
    }
    let (of, refused) = refused(connection, why);
    Err((of, refused.of(&body, signed_at)))
}

#[expect(
    clippy::result_large_err,
    reason = "refusals are few, and a box would stand in each signature on their way"
)]
fn read_storefront(
    app: &App,
    connections: &Registry,
    parts: &Parts,
    verified: Verified<'_, StorefrontConnection>,
) -> Result<Delivery, Refused> {
    let Verified {
        connection,
        signature,
        body,
        budget,
    } = verified;
    let (profile, names) = (connection.profile, &connection.headers);
    let topic = headers::topic(&parts.headers, names)?;
    let shop = headers::shop(&parts.headers, names.shop.as_ref(), profile.shop)?;
    let shop = known(connections, connection, shop)?;
    let webhook_id = headers::delivery_id(&parts.headers, names)?;
    let sha256 = Sha256::digest(&body).into();
    app.limits
        .storefront(connection, shop.as_deref().unwrap_or(""), sha256)?;
    let read = body::storefront(profile, topic, body).map_err(Error::from)?;
    let request = privacy_request(&read.topic, shop.as_deref(), &read.body)?;
    let is_of_a_shop = |request: &PrivacyRequest| !headers::is_placeholder(&request.shop);
    let is_sample = request.as_ref().is_some_and(|it| !is_of_a_shop(it));
    let request = request.filter(is_of_a_shop);
    let shop = match &request {
        Some(request) => known(connections, connection, Some(request.shop.clone()))?,
        None => shop,
    };
    let request_id = parts.extensions.get::<RequestId>();
    let mut job = NewJob {
        shop,
        external_id: webhook_id.map(|id| unique_id(profile, id, &signature)),
        object_id: read.object_id,
        subject: read.subject,
        api_version: headers::api_version(&parts.headers, names),
        connection: named(&connection.name),
        ..new_job(app, request_id, Source::Storefront, read.topic, read.body)
    };
    if request.is_some_and(|request| request.topic == Topic::ShopRedact) {
        job.run_at = job.created_at.plus(app.config.privacy.shop_hold);
    }
    if is_sample {
        (job.state, job.deadline_at, job.body) = (State::Done, None, Bytes::new());
    }
    let is_id_apart = profile.delivery_id == DeliveryId::Header;
    Ok(Delivery {
        job,
        profile: profile.name,
        duplicate_status: connection.duplicate_status,
        body_hash: is_id_apart.then(|| BodyHash::of(sha256)),
        budget,
        account: None,
        not_understood: is_sample.then_some(SAMPLE),
    })
}

/// Reads and verifies an event of a payment provider: at the address of the connection `name`, or at the common one.
pub async fn payment(app: &App, name: Option<&str>, request: Request) -> Result<Delivery, Refused> {
    let (parts, body) = request.into_parts();
    let connections = known_connections(app)?;
    let about = |connection: &PaymentConnection, refused: Refused| Refused {
        about: About::read(&parts.headers, None, None),
        by: Box::new(By {
            connection: in_log(&connection.name),
            profile: Some(connection.profile.name),
            detail: Some(wording::payment(connection, refused.error)),
        }),
        ..refused
    };
    let Some(at) = connections.payment(name.unwrap_or(DEFAULT)) else {
        return Err(Error::ConnectionUnknown.into());
    };
    let verified = verify_payment(app, &connections, (at, name), &parts, body).await;
    let verified = verified.map_err(|(of, refused)| about(of.unwrap_or(at), refused))?;
    let connection = verified.connection.clone();
    read_payment(app, &connections, &parts, verified).map_err(|refused| about(&connection, refused))
}

/// `at` is the connection of the address, and `name` the one that the address names.
async fn verify_payment<'a>(
    app: &App,
    connections: &'a Registry,
    (at, name): (&'a Arc<PaymentConnection>, Option<&str>),
    parts: &'a Parts,
    body: Body,
) -> Result<Verified<'a, PaymentConnection>, Unverified<'a, PaymentConnection>> {
    let of_none = |error: Error| (None, Refused::from(error));
    // At the common address the account decides which connection it is, and only the body names the account.
    let is_by_account = name.is_none() && connections.has_accounts();
    if at.is_default() && !is_by_account {
        from_this_machine(app, Source::Payment, parts).map_err(of_none)?;
    }
    let announced = announced(app, &parts.headers).map_err(of_none)?;
    let signature = |of: &Arc<PaymentConnection>| {
        let id = of.profile.id.map(HeaderName::from_static);
        let header = HeaderName::from_static(of.profile.signature);
        headers::signature(of.profile.scheme, &parts.headers, &header, id.as_ref())
    };
    let refused = |of: &'a Arc<PaymentConnection>, why| {
        (
            Some(of),
            Refused::signature(Source::Payment, of.profile.name, &parts.headers, why),
        )
    };
    let is_signed = || connections.payments().any(|it| signature(it).is_ok());
    if let Err(why) = signature(at)
        && !(is_by_account && is_signed())
    {
        return Err(refused(at, why));
    }
    let (body, budget) = read_body(app, parts, announced, body)
        .await
        .map_err(of_none)?;
    let account = || body::payment(&body).ok()?.account;
    let bound = is_by_account.then(account).flatten();
    let bound = bound.and_then(|account| connections.of_account(&account));
    let now = app.clock.now().unix_seconds();
    let mut wrong = None;
    for connection in bound.into_iter().chain([at]) {
        let tolerance = app.config.payment_tolerance.as_secs();
        let matched = signature(connection)
            .map_err(|why| (why, None))
            .and_then(|signature| {
                let matched = signature.verify(&connection.secrets, &body, now, tolerance);
                let matched = matched.map_err(|why| (why, signature.signed_at()))?;
                Ok((signature, matched))
            });
        match matched {
            Ok((signature, matched)) => {
                if connection.is_default() {
                    from_this_machine(app, Source::Payment, parts).map_err(of_none)?;
                }
                count_match(app, Source::Payment, &connection.secrets, matched);
                return Ok(Verified {
                    connection,
                    signature,
                    body,
                    budget,
                });
            }
            Err((why, signed_at)) => {
                wrong.get_or_insert((connection, why, signed_at));
            }
        }
    }
    let (connection, why, signed_at) = wrong.expect("a connection was tried");
    if is_unread(&connection.name, &connection.secrets) {
        return Err((Some(connection), Error::NotAccepted.into()));
    }
    let (of, refused) = refused(connection, why);
    Err((of, refused.of(&body, signed_at)))
}

#[expect(
    clippy::result_large_err,
    reason = "refusals are few, and a box would stand in each signature on their way"
)]
fn read_payment(
    app: &App,
    connections: &Registry,
    parts: &Parts,
    verified: Verified<'_, PaymentConnection>,
) -> Result<Delivery, Refused> {
    let Verified {
        connection,
        body,
        budget,
        ..
    } = verified;
    let profile = connection.profile;
    app.limits
        .payment(connection, Sha256::digest(&body).into())?;
    let event = body::payment(&body).map_err(Error::from)?;
    let id = match profile.id.map(HeaderName::from_static) {
        Some(name) => headers::text(&parts.headers, &name).ok().flatten(),
        None => event.id.clone(),
    };
    let (Some(id), Some(kind)) = (id, event.kind.clone()) else {
        return Err(Error::Envelope.into());
    };
    if !is_visible(&id, LONGEST_ID) || !is_topic(&kind) {
        return Err(Error::Envelope.into());
    }
    if let Some(account) = &event.account {
        let bound = connections.of_account(account);
        let is_anothers = bound.is_some_and(|bound| bound.name != connection.name);
        let own = connection.account.as_ref();
        if is_anothers || own.is_some_and(|own| own != account) {
            return Err(Error::AccountOfAnother.into());
        }
    }
    let request_id = parts.extensions.get::<RequestId>();
    let new = new_job(app, request_id, Source::Payment, kind, body);
    let Event {
        job,
        not_understood,
    } = deliveries::event(connection, &event, id, new);
    Ok(Delivery {
        job,
        profile: profile.name,
        duplicate_status: 200,
        body_hash: None,
        budget,
        account: event.account,
        not_understood,
    })
}

/// Whether the request can be the form that `WooCommerce` posts when a webhook is set up. Its body
/// is not read yet.
fn is_of_a_ping(profile: &StorefrontProfile, headers: &HeaderMap, announced: Option<u64>) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    profile.bodies == Bodies::WooCommerce
        && announced.is_some_and(|announced| announced <= LONGEST_PING)
        && kind.is_some_and(|kind| {
            kind.as_bytes()
                .starts_with(b"application/x-www-form-urlencoded")
        })
}

/// The id by which a repeated delivery is recognized.
fn unique_id(profile: &StorefrontProfile, id: String, signature: &Signature<'_>) -> String {
    match profile.delivery_id {
        DeliveryId::Header => id,
        DeliveryId::HeaderAndBody => format!("{id}/{}", hex::encode(&signature.digest()[..12])),
    }
}

/// Reads the privacy request from the body of a privacy topic. The headers with topic and shop are
/// not signed, so the body is refused if it belongs to another topic or another shop. The samples
/// that a provider sends as a test belong to no shop: they have a placeholder in its place.
fn privacy_request(
    topic: &str,
    shop: Option<&str>,
    body: &[u8],
) -> Result<Option<PrivacyRequest>, Error> {
    let Ok(topic) = topic.parse::<Topic>() else {
        return Ok(None);
    };
    let request = PrivacyRequest::read(topic, body).map_err(|_| Error::PrivacyBody)?;
    if request.is_about_nobody() {
        return Err(Error::PrivacyBody);
    }
    let is_other = shop.is_some_and(|shop| shop != request.shop);
    if is_other && !headers::is_placeholder(&request.shop) {
        return Err(Error::PrivacyShop);
    }
    Ok(Some(request))
}

/// Checks the shop of a delivery. The shop's header is not signed, so a secret counts for the shops of its connection
/// alone. If that is one shop, a delivery without the header belongs to it.
fn known(
    connections: &Registry,
    connection: &StorefrontConnection,
    shop: Option<String>,
) -> Result<Option<String>, Error> {
    let is_default = connection.is_default();
    match (connection.shops.as_slice(), shop) {
        // This is the shop of the orders that Waybill makes for checkouts, so no delivery may name
        // it.
        (_, Some(shop)) if shop == CHECKOUT => Err(Error::ShopHeader),
        (_, Some(shop)) if is_default && !connections.bound_to(&shop).is_empty() => {
            Err(Error::ShopBound)
        }
        ([], shop) if is_default => Ok(shop),
        ([only], None) if is_default && !connections.bound_to(only).is_empty() => {
            Err(Error::ShopBound)
        }
        ([only], None) => Ok(Some(only.clone())),
        (_, None) if is_default => Ok(None),
        (shops, Some(shop)) if shops.contains(&shop) => Ok(Some(shop)),
        _ if is_default => Err(Error::ShopUnknown),
        _ => Err(Error::ShopOfAnother),
    }
}

/// Refuses a request that came through a tunnel or a proxy while the source has the public secret of a development
/// start, with which everybody can sign.
fn from_this_machine(app: &App, source: Source, parts: &Parts) -> Result<(), Error> {
    if !app.config.has_public_secret(source) {
        return Ok(());
    }
    let is_forwarded = FORWARDED
        .iter()
        .any(|name| parts.headers.contains_key(*name));
    let host = parts.headers.get(header::HOST);
    let host = host.map(|host| host.to_str().unwrap_or_default());
    let host = host.or(parts.uri.authority().map(Authority::as_str));
    let is_ours = host.is_some_and(|host| is_loopback(&format!("http://{host}")));
    if is_ours && !is_forwarded {
        Ok(())
    } else {
        Err(Error::NotThisMachine)
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

/// Notes with which secret a delivery was signed, and counts those that were signed with an old one, so that an
/// operator sees when this secret can be removed.
fn count_match(app: &App, source: Source, secrets: &Secrets, matched: usize) {
    app.measures
        .verified(source, &secrets.fingerprints()[matched], app.clock.now());
    if matched > 0 {
        let secret = matched.to_string();
        metrics::counter!(
            "waybill_old_secret_matches_total",
            "source" => source.into_str(), "secret" => secret
        )
        .increment(1);
    }
}

fn new_job(
    app: &App,
    request_id: Option<&RequestId>,
    source: Source,
    kind: String,
    body: Bytes,
) -> NewJob {
    let id = match request_id {
        Some(id) => id.own,
        None => app.clock.id(),
    };
    NewJob {
        trace: request_id.and_then(|id| id.given.clone()),
        // If the client sent no trace, a trace begins with this job and has its id.
        traceparent: request_id.and_then(|id| id.parent.map(|_| id.context())),
        ..deliveries::job(id, app.clock.now(), source, kind, body)
    }
}
