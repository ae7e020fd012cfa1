//! `POST /api/webhooks/storefront` and `POST /api/webhooks/payment` (docs/http-api.md).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use config::Config;
use domain::connection::{DEFAULT, PAYMENT_PATH as PAYMENT, STOREFRONT_PATH as STOREFRONT};
use domain::job::{Kind, Source};
use domain::profile;
use domain::signature::SignatureError;
use domain::trace::{TraceContext, TraceId};
use platform::counted::Counted;
use process::measures;
use server::Peer;
use tokio_util::sync::CancellationToken;
use utoipa::{IntoParams, ToSchema};

use crate::App;
use crate::api_version;
use crate::delivery::{self, Delivery, Refused};
use crate::error::{DetailBody, Error};
use crate::intake::Verdict;
use crate::openapi::bodies;
use crate::openapi::operation::{Operation, post, tagged};
use crate::request_id::RequestId;
use server::client_address;

/// The errors of every delivery, in the order of the checks.
const OF_A_DELIVERY: [Error; 9] = [
    Error::NotThisMachine,
    Error::ContentEncoding,
    Error::BodyTooLarge,
    Error::BodyTooSlow,
    Error::BodyIncomplete,
    Error::RateLimited(Duration::ZERO),
    Error::NotJson,
    Error::NotAnObject,
    Error::NotAccepted,
];

const OF_THE_STOREFRONT: [Error; 11] = [
    Error::StorefrontSignature,
    Error::TopicHeader,
    Error::ShopHeader,
    Error::ShopUnknown,
    Error::ShopBound,
    Error::ShopOfAnother,
    Error::WebhookIdHeader,
    Error::Envelope,
    Error::PrivacyBody,
    Error::PrivacyShop,
    Error::Duplicate,
];

const OF_A_PAYMENT: [Error; 3] = [
    Error::PaymentSignature,
    Error::Envelope,
    Error::AccountOfAnother,
];

const STOREFRONT_OF: &str = "/api/webhooks/storefront/{connection}";
const PAYMENT_OF: &str = "/api/webhooks/payment/{connection}";

/// The connection of an address.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "only described")]
struct Connection {
    /// Its name, as `waybill connections list` has it.
    #[param(example = "shop-b")]
    connection: String,
}

pub fn routes() -> Vec<Operation> {
    let storefront = post(STOREFRONT, storefront)
        .is("receiveStorefrontWebhook", "A delivery of the storefront")
        .needs("storefrontSignature")
        .about(&format!(
            "Topics that are acted on: {}. Bodies of orders are read \
             by need: a field that is missing or of another kind does not make them fail. A privacy topic needs \
             its own body, of the shop that the header names.",
            acted_on(|kind| matches!(kind, Kind::Order(_) | Kind::Privacy(_)))
        ))
        .in_header::<Headers>()
        .takes(&bodies::any([
            "StorefrontOrder",
            "CustomerDataRequest",
            "CustomerRedaction",
            "ShopRedaction",
        ]))
        .errors(&OF_THE_STOREFRONT);
    let payment = post(PAYMENT, payment)
        .is("receivePaymentEvent", "An event of the payment provider")
        .needs("paymentSignature")
        .about(&format!(
            "Types that are acted on: {}. An event that came before is answered like a new one.",
            acted_on(|kind| matches!(kind, Kind::Payment(_)))
        ))
        .takes(&bodies::any(["PaymentEvent"]))
        .errors(&OF_A_PAYMENT);
    let of_connection = |it: Operation| {
        it.about("The same at the address of a connection, with the same bodies. Only the secret of the connection opens it.")
            .in_path::<Connection>()
            .errors(&[Error::ConnectionUnknown])
    };
    let to_storefront = of_connection(post(STOREFRONT_OF, self::storefront))
        .is(
            "receiveStorefrontWebhookOfConnection",
            "A delivery of a connected storefront",
        )
        .needs("storefrontSignature")
        .in_header::<Headers>()
        .errors(&OF_THE_STOREFRONT);
    let to_payment = of_connection(post(PAYMENT_OF, self::payment))
        .is(
            "receivePaymentEventOfConnection",
            "An event of a connected payment provider",
        )
        .needs("paymentSignature")
        .errors(&OF_A_PAYMENT);
    let of_a_delivery = |it: Operation| {
        it.answers::<Accepted>(200, "It is committed, or needs not be.")
            .errors(&OF_A_DELIVERY)
    };
    let all = [storefront, to_storefront, payment, to_payment];
    tagged("Webhooks", all.map(of_a_delivery))
}

/// The names of these kinds, as Markdown.
fn acted_on(is_one: impl Fn(&Kind) -> bool) -> String {
    let kinds = Kind::all().iter().copied().filter(is_one);
    let names: Vec<String> = kinds.map(|kind| format!("`{kind}`")).collect();
    names.join(", ")
}

/// The headers of the storefront's deliveries. `delivery::headers` reads them, under the names that the
/// provider gives them.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only described")]
struct Headers {
    /// The event's topic. One that is not known is accepted and kept.
    #[param(rename = "X-Storefront-Topic", example = "orders/create")]
    #[param(min_length = 1, max_length = 100, pattern = "^[A-Za-z0-9/._-]+$")]
    topic: String,
    /// The delivery's id: a second delivery with it is 409.
    #[param(rename = "X-Storefront-Webhook-Id", required = false)]
    #[param(max_length = 255, pattern = "^[!-~]*$")]
    #[param(example = "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043")]
    id: String,
    /// The shop. It is not signed: set `STOREFRONT_SHOPS`.
    #[param(rename = "X-Storefront-Shop-Domain", required = false)]
    #[param(
        max_length = 255,
        pattern = "^[A-Za-z0-9._:-]*$",
        example = "shop.example"
    )]
    shop: String,
    /// The provider's API version.
    #[param(
        rename = "X-Storefront-API-Version",
        required = false,
        example = "2026-10"
    )]
    version: String,
}

/// Accepts a delivery of the storefront. A duplicate is answered with `WEBHOOK_DUPLICATE_STATUS`.
pub async fn storefront(
    State(app): State<Arc<App>>,
    name: Option<Path<String>>,
    request: Request,
) -> Response {
    let sender = Sender::of(&request);
    let answer = async {
        let name = name.as_ref().map(|Path(name)| name.as_str());
        let Some(delivery) = delivery::storefront(&app, name, request).await? else {
            return Ok(ok());
        };
        let duplicate_status = delivery.duplicate_status;
        match accept(&app, delivery).await? {
            Verdict::Duplicate | Verdict::Held if duplicate_status == 409 => {
                Err(Error::Duplicate.into())
            }
            Verdict::Duplicate | Verdict::Held | Verdict::Accepted => Ok(ok()),
        }
    };
    answered(&app, Source::Storefront, &sender, answer.await)
}

/// Accepts an event of the payment provider. A duplicate is answered like a new event, because the
/// provider counts every answer except 2xx as a failure.
pub async fn payment(
    State(app): State<Arc<App>>,
    name: Option<Path<String>>,
    request: Request,
) -> Response {
    let sender = Sender::of(&request);
    let answer = async {
        let name = name.as_ref().map(|Path(name)| name.as_str());
        let delivery = delivery::payment(&app, name, request).await?;
        accept(&app, delivery).await?;
        Ok(ok())
    };
    answered(&app, Source::Payment, &sender, answer.await)
}

async fn accept(app: &App, delivery: Delivery) -> Result<Verdict, Refused> {
    let (job, profile, not_understood) = (&delivery.job, delivery.profile, delivery.not_understood);
    let (source, version) = (job.source, job.api_version.clone());
    let kind = Kind::of(job.source, &job.kind);
    let known = if kind.is_some() { "yes" } else { "no" };
    let id = job.id;
    let connection = job.connection.clone();
    let counted = |outcome| count(app, source, connection.as_deref(), outcome);
    tracing::debug!(
        job = %job.id, kind = job.kind, request_id = job.trace.clone().unwrap_or_else(|| job.id.to_string()),
        trace_id = %job.traceparent.map_or(TraceId::of(job.id), TraceContext::trace_id),
        "a delivery arrived"
    );
    let verdict = app.intake.accept(delivery).await?;
    match verdict {
        Verdict::Accepted => {
            app.measures.delivery(measures::Delivery::Accepted);
            counted("accepted");
            metrics::counter!(
                "waybill_deliveries_accepted_total",
                "source" => source.into_str(), "known" => known
            )
            .increment(1);
            api_version::count(source, version.as_deref());
            if let Some(why) = not_understood {
                count_not_understood(app, source, profile, why);
            }
        }
        Verdict::Held => {
            counted("held");
            let kind = kind.map(|kind| kind.to_string()).unwrap_or_default();
            metrics::counter!(
                "waybill_deliveries_held_total", "source" => source.into_str(),
                "kind" => kind.clone()
            )
            .increment(1);
            tracing::warn!(
                job = %id, kind,
                "a delivery came with the id of an earlier one and another body; it is kept, and \
                 `waybill dead requeue` runs it"
            );
            app.measures.delivery(measures::Delivery::Duplicate);
        }
        Verdict::Duplicate => {
            counted("duplicate");
            app.measures.delivery(measures::Delivery::Duplicate);
            metrics::counter!(
                "waybill_deliveries_duplicate_total", "source" => source.into_str()
            )
            .increment(1);
        }
    }
    Ok(verdict)
}

/// Counts a delivery for its connection.
fn count(app: &App, source: Source, connection: Option<&str>, outcome: &'static str) {
    let connections = app.connections.now();
    let connection = connections.label(connection.unwrap_or(DEFAULT)).clone();
    metrics::counter!(
        "waybill_connection_deliveries_total",
        "source" => source.into_str(), "connection" => connection, "outcome" => outcome
    )
    .increment(1);
}

/// Reports a delivery that has no effect although its topic or type has a handler, because nobody
/// would notice it otherwise.
fn count_not_understood(app: &App, source: Source, profile: &'static str, why: &'static str) {
    let source = source.into_str();
    metrics::counter!(
        "waybill_deliveries_not_understood_total", "source" => source, "profile" => profile
    )
    .increment(1);
    if app.not_understood.is_first((source, why)) {
        tracing::warn!(
            source,
            profile,
            why,
            "a delivery was accepted and nothing is made of it; `waybill jobs list` shows it"
        );
    }
}

/// One error of each reason for which a delivery may be refused.
const REASONS: [Error; 10] = [
    Error::NotThisMachine,
    Error::StorefrontSignature,
    Error::BodyTooLarge,
    Error::BodyIncomplete,
    Error::ContentEncoding,
    Error::TopicHeader,
    Error::NotJson,
    Error::PrivacyBody,
    Error::RateLimited(Duration::ZERO),
    Error::NotAccepted,
];

/// Shows the counters of deliveries before the first one comes. Otherwise the first one of each kind would
/// be no increase to Prometheus, and at low volume it may be the only one for hours.
pub fn count_from_zero(config: &Config) {
    let of_storefront = |kind: &&Kind| kind.row().source == Source::Storefront;
    for kind in Kind::all().iter().filter(of_storefront) {
        metrics::counter!(
            "waybill_deliveries_held_total",
            "source" => Source::Storefront.into_str(), "kind" => kind.to_string()
        )
        .increment(0);
    }
    let profiles = [
        (Source::Storefront, config.storefront.profile.name),
        (Source::Payment, config.payment.profile.name),
    ];
    for (source, profile) in profiles {
        let source = source.into_str();
        for known in ["yes", "no"] {
            metrics::counter!(
                "waybill_deliveries_accepted_total",
                "source" => source, "known" => known
            )
            .increment(0);
        }
        metrics::counter!(
            "waybill_deliveries_not_understood_total", "source" => source, "profile" => profile
        )
        .increment(0);
        for outcome in ["accepted", "held", "duplicate", "refused"] {
            metrics::counter!(
                "waybill_connection_deliveries_total",
                "source" => source, "connection" => DEFAULT, "outcome" => outcome
            )
            .increment(0);
        }
        for reason in REASONS.map(|error| error.reason()) {
            metrics::counter!(
                "waybill_deliveries_refused_total", "source" => source, "reason" => reason
            )
            .increment(0);
        }
        for reason in SignatureError::ALL.map(|it| it.into_str()) {
            metrics::counter!(
                "waybill_signatures_refused_total", "source" => source, "reason" => reason
            )
            .increment(0);
        }
        for header in profile::signature_headers() {
            metrics::counter!(
                "waybill_deliveries_of_another_profile_total",
                "source" => source, "header" => header
            )
            .increment(0);
        }
    }
}

/// The answer to a delivery that was accepted.
#[derive(ToSchema)]
pub struct Accepted {
    /// `ok`
    #[schema(example = "ok")]
    #[expect(dead_code, reason = "the answer is a constant text")]
    status: String,
}

fn ok() -> Response {
    let json = HeaderValue::from_static("application/json");
    (
        StatusCode::OK,
        [(header::CONTENT_TYPE, json)],
        r#"{"status":"ok"}"#,
    )
        .into_response()
}

/// The client of a request, for the log line of a refusal.
struct Sender {
    peer: Option<SocketAddr>,
    headers: HeaderMap,
    id: Option<RequestId>,
}

impl Sender {
    fn of(request: &Request) -> Self {
        const FORWARDED: HeaderName = HeaderName::from_static("x-forwarded-for");
        let forwarded = request.headers().get_all(FORWARDED);
        let named = |value: &HeaderValue| (FORWARDED, value.clone());
        Sender {
            peer: request.extensions().get().map(|Peer(peer)| *peer),
            id: request.extensions().get().cloned(),
            headers: forwarded.into_iter().map(named).collect(),
        }
    }
}

/// The numbers of refused deliveries since the last log line. Strangers can cause any number of
/// refusals, so not each is logged.
pub type Refusals = Counted<Cause>;

/// Why deliveries are refused, as the log says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    source: &'static str,
    reason: &'static str,
    /// The header of another provider.
    header: Option<&'static str>,
    /// The setting that would take them, or what else to do.
    advice: Option<&'static str>,
}

impl Cause {
    fn of(source: Source, refused: &Refused) -> Self {
        Cause {
            source: source.into_str(),
            reason: refused.error.reason(),
            header: refused.clue.map(|clue| clue.header),
            advice: Some(refused.advice(source)).filter(|advice| !advice.is_empty()),
        }
    }
}

/// The numbers of deliveries that were accepted and have no effect, by source and reason.
pub type NotUnderstood = Counted<(&'static str, &'static str)>;

/// Logs how many refusals were counted and not logged one by one.
pub fn report_counted(app: &App, shutdown: &CancellationToken) {
    let refusals = &app.refusals;
    refusals.report(shutdown, |cause, deliveries| {
        tracing::info!(
            source = cause.source,
            reason = cause.reason,
            header = cause.header,
            advice = cause.advice,
            deliveries,
            "more deliveries were refused"
        );
    });
    let not_understood = &app.not_understood;
    not_understood.report(shutdown, |(source, why), deliveries| {
        tracing::warn!(
            source,
            why,
            deliveries,
            "more deliveries were accepted that nothing is made of"
        );
    });
}

/// The answer to a delivery that is refused unread. None if the request is no delivery.
pub(super) fn refusal(app: &App, request: &Request, error: Error) -> Option<Response> {
    let is_at = |address: &str| {
        let rest = request.uri().path().strip_prefix(address);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let source = match () {
        () if is_at(STOREFRONT) => Source::Storefront,
        () if is_at(PAYMENT) => Source::Payment,
        () => return None,
    };
    let refused = Refused::from(error);
    Some(answered(app, source, &Sender::of(request), Err(refused)))
}

fn answered(
    app: &App,
    source: Source,
    sender: &Sender,
    answer: Result<Response, Refused>,
) -> Response {
    let refused = match answer {
        Ok(response) => return response,
        Err(refused) => refused,
    };
    let error = refused.error;
    let by = &refused.by;
    let detail = by.detail.clone().unwrap_or_else(|| error.text());
    if error != Error::Duplicate {
        let profile = by.profile.unwrap_or(match source {
            Source::Payment => app.config.payment.profile.name,
            Source::Storefront | Source::Internal => app.config.storefront.profile.name,
        });
        let now = app.clock.now();
        app.refused.add(source, profile, &refused, &app.keys, now);
        let cause = Cause::of(source, &refused);
        app.measures.delivery(measures::Delivery::Refused);
        let connection = Some(by.connection.as_str()).filter(|name| !name.is_empty());
        count(app, source, connection, "refused");
        metrics::counter!(
            "waybill_deliveries_refused_total", "source" => cause.source, "reason" => cause.reason
        )
        .increment(1);
        if app.refusals.is_first(cause) {
            log_refusal(app, cause, &refused, sender);
        }
    }
    error.with_body(Json(DetailBody { detail }))
}

fn log_refusal(app: &App, cause: Cause, refused: &Refused, sender: &Sender) {
    let client = sender.peer.map(|peer| {
        let trusted = &app.config.trusted_proxies;
        client_address::resolve(peer.ip(), &sender.headers, trusted).to_string()
    });
    let id = sender.id.as_ref();
    let request_id = id.map(RequestId::text);
    let trace_id = id.map(|id| id.context().trace_id().to_string());
    let signature = refused.signature.map(|it| it.into_str());
    if matches!(refused.error, Error::PrivacyBody | Error::PrivacyShop) {
        tracing::warn!(
            advice = cause.advice,
            client,
            request_id,
            trace_id,
            "a signed privacy request was refused, so nothing is done for the person"
        );
        return;
    }
    tracing::info!(
        source = cause.source,
        reason = cause.reason,
        signature,
        header = cause.header,
        advice = cause.advice,
        client,
        request_id,
        trace_id,
        "a delivery was refused"
    );
}
