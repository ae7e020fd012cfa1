//! The control requests, with which people and tests see the state, set faults and start storms,
//! and the page that explains them.

mod identity;
mod payment;

use std::time::Duration;

use askama::Template;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::fault::Fault;
use crate::fault_injector::{FaultInjector, Provider};
use crate::identity::Route;
use crate::page;
use crate::poster::Report;
use crate::server::App;
use crate::storm::Storm;
use crate::{IDENTITY_CLIENT_ID, IDENTITY_CLIENT_SECRET, PAYMENT_KEY, STOREFRONT_TOKEN, sample};

/// The most orders of a storm. All bodies are in memory while they are posted.
const MOST_ORDERS: u64 = 20_000;
const MOST_REPEATS: u32 = 100;
const CONCURRENCY: usize = 16;
/// How many orders or payments a button of the first page posts.
const ORDERS_OF_A_BUTTON: u64 = 20;
const MOST_SECONDS: f64 = 3600.0;

pub fn routes(app: App) -> Router {
    let buttons = Router::new()
        .route("/storms/orders", post(order_storm))
        .route("/storms/payments", post(payment_storm))
        .layer(middleware::from_fn(page::own_forms_only));
    Router::new()
        .merge(buttons)
        .route("/", get(front))
        .route("/_control/state", get(state))
        .route("/_control/faults", post(set_fault).delete(clear_faults))
        .route("/_control/storm", post(storm))
        .merge(identity::routes())
        .merge(payment::routes())
        .with_state(app)
}

type Shown = Result<Json<Value>, Unusable>;

/// The request is wrong. The text says what it should be.
struct Unusable(String);

impl IntoResponse for Unusable {
    fn into_response(self) -> Response {
        let body = Json(json!({"detail": self.0}));
        (StatusCode::UNPROCESSABLE_ENTITY, body).into_response()
    }
}

#[derive(Template)]
#[template(path = "front.html")]
struct Front {
    /// What is where: a name, an address, and the credentials.
    places: Vec<(&'static str, String, String)>,
    /// Whether webhooks are posted.
    posts: Option<String>,
    orders: u64,
    text: String,
}

/// The first page: for browsers with links, and as plain text for everybody else.
async fn front(State(app): State<App>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).map(HeaderValue::as_bytes);
    let text = help(&app);
    if accept.is_some_and(|it| it.windows(9).any(|it| it == b"text/html")) {
        let places = vec![
            (
                "Storefront API",
                app.storefront_url(),
                format!("X-Storefront-Access-Token: {STOREFRONT_TOKEN}"),
            ),
            (
                "Payment API",
                app.payment_url(),
                format!("Authorization: Bearer {PAYMENT_KEY}"),
            ),
            (
                "Identity",
                app.identity_url(),
                format!("client id {IDENTITY_CLIENT_ID}, secret {IDENTITY_CLIENT_SECRET}"),
            ),
        ];
        let sender = app.webhook_sender.as_ref();
        let front = Front {
            places,
            posts: sender.map(|it| it.poster.webhooks.base_url.clone()),
            orders: ORDERS_OF_A_BUTTON,
            text,
        };
        return page::page(StatusCode::OK, &front);
    }
    text.into_response()
}

fn help(app: &App) -> String {
    let (url, identity) = (&app.url, app.identity_url());
    let webhooks = match &app.webhook_sender {
        Some(webhook_sender) => {
            format!("are posted to {}", webhook_sender.poster.webhooks.base_url)
        }
        None => "are not posted: it was started without".to_owned(),
    };
    format!(
        "Waybill's sandbox: stand-ins for the providers, for development. All of its state is\n\
         in memory. Webhooks {webhooks}.\n\
         \n\
         storefront API  {}\n\
         \x20               X-Storefront-Access-Token: {STOREFRONT_TOKEN}\n\
         payment API     {}\n\
         \x20               Authorization: Bearer {PAYMENT_KEY}\n\
         payments        {}/dashboard\n\
         identity        {identity}\n\
         \x20               client id {IDENTITY_CLIENT_ID}, secret {IDENTITY_CLIENT_SECRET}\n\
         identity API    {}\n\
         sign in         {identity}/login/device\n\
         \n\
         What was asked and done, and which faults are set:\n\
         \x20 curl {url}/_control/state\n\
         \n\
         Make requests fail; \"times\" says how many, without it all do until cleared:\n\
         \x20 curl {url}/_control/faults --json '{{\"provider\":\"storefront\",\"fault\":\"lose\",\"times\":2}}'\n\
         \x20 provider  storefront, payment or identity\n\
         \x20 route     of identity alone, where each route goes wrong without it: device_code,\n\
         \x20           access_token, user, emails, check_token or revoke_token\n\
         \x20 fault     status      answered with \"status\", 500 without it; no effect\n\
         \x20           slow        the effect happens, its answer comes \"seconds\" later\n\
         \x20           timeout     never answered; no effect\n\
         \x20           lose        the effect happens, then the connection is closed\n\
         \x20           rate_limit  429 with Retry-After: 1; no effect\n\
         \x20           html        502 with a page of HTML; no effect\n\
         \x20 curl -X DELETE {url}/_control/faults\n\
         \n\
         Post sample orders in five topics, each up to \"repeat\" times, all shuffled:\n\
         \x20 curl {url}/_control/storm --json '{{\"orders\":20,\"repeat\":3,\"seed\":5000}}'\n\
         \x20 also \"first_seed\", \"shop\", \"concurrency\", and \"topics\", a list\n\
         \n\
         Bill a subscription's next period, and make a price known that a checkout can name:\n\
         \x20 curl {url}/_control/invoice --json '{{\"subscription\":\"sub_..\",\"months\":1}}'\n\
         \x20 curl {url}/_control/price --json \\\n\
         \x20   '{{\"id\":\"price_1\",\"name\":\"Mug\",\"amount\":1450,\"currency\":\"usd\",\"months\":1}}'\n\
         \n\
         Post payments of every kind, each event up to \"repeat\" times, all shuffled:\n\
         \x20 curl {url}/_control/payment_storm --json '{{\"payments\":20,\"repeat\":3,\"seed\":5000}}'\n\
         \n\
         How the payment provider's events come; what is not named is as usual:\n\
         \x20 curl {url}/_control/delivery_faults --json '{{\"duplicates\":2,\"delay_ms\":500}}'\n\
         \x20 duplicates       how often each is posted under its one id\n\
         \x20 shuffle          {{\"hold\":5,\"seed\":1}}: as soon as 5 wait, in another order;\n\
         \x20                  curl -X POST {url}/_control/release posts what waits\n\
         \x20 wrong_signature  true: a v1 that is of no secret comes before the right one\n\
         \x20 old_secret       a v1 of this secret comes after the right one\n\
         \x20 generation       legacy, acacia or basil: which API's shapes, until set again\n\
         \n\
         {}",
        app.storefront_url(),
        app.payment_url(),
        app.payment_url(),
        app.identity_api_url(),
        identity::help(url),
    )
}

async fn state(State(app): State<App>) -> Json<Value> {
    Json(json!({
        "storefront": app.storefront.view(),
        "payment": app.payment.view(),
        "identity": app.identity.view(),
        "webhooks": app.webhook_sender.as_ref().map(crate::webhook_sender::WebhookSender::view),
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewFault {
    provider: Provider,
    /// The route of the identity provider. `None`: all routes.
    route: Option<Route>,
    fault: FaultName,
    times: Option<u32>,
    seconds: Option<f64>,
    status: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FaultName {
    Status,
    Slow,
    Timeout,
    Lose,
    RateLimit,
    Html,
}

async fn set_fault(State(app): State<App>, Sent(new): Sent<NewFault>) -> Shown {
    let fault = new.fault()?;
    if new.times == Some(0) {
        return Err(Unusable("times: expected 1 or more".to_owned()));
    }
    let fault_injectors = app.fault_injectors(new.provider, new.route)?;
    for fault_injector in &fault_injectors {
        match new.times {
            Some(times) => fault_injector.fail_next(times, fault),
            None => fault_injector.fail(fault),
        }
    }
    Ok(Json(fault_injectors[0].view()["faults"].take()))
}

async fn clear_faults(State(app): State<App>) -> StatusCode {
    app.storefront.fault_injector.clear_faults();
    app.payment.fault_injector.clear_faults();
    app.identity.clear_faults();
    StatusCode::NO_CONTENT
}

impl App {
    /// The fault injectors of a provider, or of one route of it; there is at least one.
    fn fault_injectors(
        &self,
        provider: Provider,
        route: Option<Route>,
    ) -> Result<Vec<&FaultInjector>, Unusable> {
        match (provider, route) {
            (Provider::Storefront, None) => Ok(vec![&self.storefront.fault_injector]),
            (Provider::Payment, None) => Ok(vec![&self.payment.fault_injector]),
            (Provider::Identity, Some(route)) => Ok(vec![self.identity.fault_injector(route)]),
            (Provider::Identity, None) => Ok(Route::ALL
                .map(|route| self.identity.fault_injector(route))
                .to_vec()),
            (_, Some(_)) => {
                let expected = "route: only the identity provider has it";
                Err(Unusable(expected.to_owned()))
            }
        }
    }
}

impl NewFault {
    fn fault(&self) -> Result<Fault, Unusable> {
        let unusable = |expected: &str| Err(Unusable(expected.to_owned()));
        if self.seconds.is_some() && self.fault != FaultName::Slow {
            return unusable("seconds: only the fault slow has it");
        }
        if self.status.is_some() && self.fault != FaultName::Status {
            return unusable("status: only the fault status has it");
        }
        match self.fault {
            FaultName::Status => match self.status.unwrap_or(500) {
                status @ 400..=599 => Ok(Fault::Status(status)),
                _ => unusable("status: expected 400 to 599"),
            },
            FaultName::Slow => match self.seconds {
                Some(seconds) if (0.0..=MOST_SECONDS).contains(&seconds) => {
                    Ok(Fault::Slow(Duration::from_secs_f64(seconds)))
                }
                _ => unusable("seconds: expected 0 to 3600 with the fault slow"),
            },
            FaultName::Timeout => Ok(Fault::Timeout),
            FaultName::Lose => Ok(Fault::Lose),
            FaultName::RateLimit => Ok(Fault::RateLimit),
            FaultName::Html => Ok(Fault::Html),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewStorm {
    orders: u64,
    repeat: Option<u32>,
    seed: Option<u64>,
    first_seed: Option<u64>,
    topics: Option<Vec<String>>,
    shop: Option<String>,
    concurrency: Option<usize>,
}

async fn storm(State(app): State<App>, Sent(new): Sent<NewStorm>) -> Shown {
    let (seed, report) = post_storm(&app, new).await?;
    Ok(Json(json!({"seed": seed, "report": report})))
}

async fn post_storm(app: &App, new: NewStorm) -> Result<(u64, Report), Unusable> {
    let concurrency = new.concurrency.unwrap_or(CONCURRENCY);
    let seed = new.seed.unwrap_or(app.clock.now().0.unsigned_abs());
    let storm = new.storm(seed, app.storefront.shop())?;
    let deliveries = storm.deliveries(app.clock.now());
    let report = app.post(&deliveries, concurrency).await;
    let report = report.map_err(|error| Unusable(error.to_string()))?;
    Ok((seed, report))
}

#[derive(Template)]
#[template(path = "storm.html")]
struct Posted {
    seed: u64,
    report: Report,
}

/// A button of the first page posts a storm of orders.
async fn order_storm(State(app): State<App>) -> Response {
    let new = NewStorm {
        orders: ORDERS_OF_A_BUTTON,
        ..NewStorm::default()
    };
    posted(post_storm(&app, new).await)
}

/// The same of payments.
async fn payment_storm(State(app): State<App>) -> Response {
    let new = payment::NewStorm::of(ORDERS_OF_A_BUTTON);
    posted(payment::post_storm(&app, new).await)
}

fn posted(posted: Result<(u64, Report), Unusable>) -> Response {
    match posted {
        Ok((seed, report)) => page::page(StatusCode::OK, &Posted { seed, report }),
        Err(Unusable(what)) => page::problem(StatusCode::UNPROCESSABLE_ENTITY, &what),
    }
}

impl NewStorm {
    fn storm(self, seed: u64, shop: &str) -> Result<Storm, Unusable> {
        let usual = Storm::default();
        let repeat = self.repeat.unwrap_or(*usual.repeat.end());
        let topics = self.topics.unwrap_or(usual.topics);
        let known = sample::storefront_topics();
        let unknown = topics.iter().find(|topic| !known.contains(&topic.as_str()));
        if let Some(topic) = unknown {
            let known = known.join(", ");
            return Err(Unusable(format!("topics: {topic:?} is none of {known}")));
        }
        if !(1..=MOST_ORDERS).contains(&self.orders) {
            return Err(Unusable(format!("orders: expected 1 to {MOST_ORDERS}")));
        }
        if !(1..=MOST_REPEATS).contains(&repeat) {
            return Err(Unusable(format!("repeat: expected 1 to {MOST_REPEATS}")));
        }
        Ok(Storm {
            orders: self.orders,
            first_seed: self.first_seed.unwrap_or(seed),
            topics,
            repeat: 1..=repeat,
            seed,
            shop: self.shop.unwrap_or_else(|| shop.to_owned()),
        })
    }
}

/// What a control request sends. It must be JSON: a page of another site can post forms to this
/// address, but not JSON.
struct Sent<T>(T);

impl<T: DeserializeOwned> FromRequest<App> for Sent<T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        let content_type = request.headers().get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let is_json = content_type.is_some_and(|value| value.starts_with("application/json"));
        let body = Bytes::from_request(request, app).await;
        let body = body.map_err(IntoResponse::into_response)?;
        let unusable = |why: String| Unusable(why).into_response();
        if !is_json {
            let expected = "expected Content-Type: application/json (curl --json)";
            return Err(unusable(expected.to_owned()));
        }
        let sent = serde_json::from_slice(&body);
        sent.map(Sent)
            .map_err(|error| unusable(format!("expected JSON: {error}")))
    }
}
