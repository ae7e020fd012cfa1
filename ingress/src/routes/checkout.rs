//! `POST /api/commerce/checkout` (docs/commerce.md). Errors have a `message`
//! and the same text as `detail`, where clients of the other calls look for it.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::origins::NotAllowed;
use domain::time::Timestamp;
use platform::task;
use serde::Serialize;
use serde_json::json;
use store::orders::CHECKOUT;
use utoipa::ToSchema;

use crate::App;
use crate::api_key::{CheckoutWrite, Holder};
use crate::body;
use crate::checkout::problem::{CheckoutError, CheckoutProblem};
use crate::checkout::request::CheckoutRequest;
use crate::checkout::{self, Caller, Opened};
use crate::error::Error;
use crate::openapi::bodies;
use crate::openapi::operation::{Operation, Shape, in_header, post, tagged};

const LARGEST_BODY: usize = 256 * 1024;
/// How long a client waits for the answer. The work goes on after that, and a client that asks
/// again with the same key gets the result.
const DEADLINE: Duration = Duration::from_secs(25);
const IDEMPOTENCY_KEY: &str = "idempotency-key";
const LONGEST_KEY: usize = 255;

const fn wrong(what: CheckoutProblem) -> Error {
    Error::Checkout(CheckoutError { item: None, what })
}

const ERRORS: [Error; 16] = [
    Error::CheckoutShop,
    wrong(CheckoutProblem::NotJson),
    wrong(CheckoutProblem::Items),
    wrong(CheckoutProblem::Article),
    wrong(CheckoutProblem::ReturnUrl(NotAllowed::OtherOrigin)),
    wrong(CheckoutProblem::Amount),
    wrong(CheckoutProblem::Currency),
    Error::CheckoutAmount,
    Error::CheckoutCurrency,
    Error::CheckoutRefused,
    Error::CheckoutPaid,
    Error::CheckoutCancelled,
    Error::IdempotencyKeyReused,
    Error::ProviderTimeout(DEADLINE),
    Error::CheckoutNotSetUp,
    Error::CheckoutAddress,
];

pub fn routes() -> Vec<Operation> {
    let key = json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"});
    let key = in_header(
        "Idempotency-Key",
        "Your own name for this checkout; it is remembered until 24 hours after its page has ended.",
        &key,
        "basket-7",
    );
    let item = json!({"name": "Enamel mug", "amount": 1450, "currency": "EUR", "quantity": 2});
    let named = json!({
        "line_items": [item],
        "return_url": "https://shop.example/thanks",
    });
    let variant = json!({
        "line_items": [{"variant_id": "44872223000001", "quantity": 1}],
        "return_url": "https://shop.example/thanks",
        "customer_email": "ada@example.com",
    });
    let create = post("/api/commerce/checkout", create)
        .is("openCheckout", "Open a page to pay on")
        .about(
            "And its order, which is pending until it is paid. Prices of variants are the \
             storefront's, never the caller's. Fields may be in camelCase too, `lineItems` and \
             `returnUrl`; one that is not known, or given in both spellings, is refused; of an item, \
             what is not known is passed over. Ask again with the same `Idempotency-Key` and the \
             same body, and the answer is the same, until its page has ended: then it is another \
             page for the same order.",
        )
        .with::<Holder<CheckoutWrite>>()
        .parameters([key])
        .takes(&bodies::one(
            "CheckoutRequest",
            [("named", named), ("variant", variant)],
        ))
        .answers::<CheckoutResponse>(201, "The page, and the order.")
        .link(
            "getOrder",
            "How the order stands.",
            &[("order_id", "$response.body#/order_id")],
        )
        .errors_as(Shape::Checkout)
        .errors(&body::UNREADABLE)
        .errors(&ERRORS);
    tagged("Orders", [create])
}

/// Where the buyer pays, and by what the order is found.
#[derive(Serialize, ToSchema)]
#[schema(as = Checkout)]
pub struct CheckoutResponse {
    /// Where the buyer goes.
    #[schema(example = "https://pay.example/c/cs_test_OCYbHzYT4wFKZIfc3pS5Jao4")]
    pub checkout_url: String,
    /// As text, for readers whose numbers end at 2^53.
    #[schema(example = "1893754821937465321")]
    pub order_id: String,
    #[schema(example = "cs_test_OCYbHzYT4wFKZIfc3pS5Jao4")]
    pub session_id: String,
    /// The agreement: events of the session and of its payment name it.
    #[schema(example = "pact_01a1f957035877c2b0f757af41d22cc2")]
    pub pact_id: String,
    pub expires_at: Option<Timestamp>,
}

pub async fn create(State(app): State<Arc<App>>, request: Request) -> Response {
    let answer = async {
        let answer = tokio::time::timeout(DEADLINE, answered(&app, request)).await;
        answer.unwrap_or(Err(Error::ProviderTimeout(Duration::from_secs(1))))
    };
    match answer.await {
        Ok(opened) => (StatusCode::CREATED, Json(opened)).into_response(),
        Err(error) => error.of_checkout(),
    }
}

async fn answered(app: &Arc<App>, request: Request) -> Result<CheckoutResponse, Error> {
    let (mut parts, body) = request.into_parts();
    let key = Holder::<CheckoutWrite>::from_request_parts(&mut parts, app).await?;
    if !key.shops.have(CHECKOUT) {
        return Err(Error::CheckoutShop);
    }
    let caller = Caller {
        api_key_id: key.id,
        idempotency_key: idempotency_key(&parts.headers)?,
    };
    let body = body::read(&parts.headers, body, LARGEST_BODY).await?;
    let request: CheckoutRequest = body::parse(&body).map_err(unreadable)?;
    let config = &app.config;
    let mut served = config.storefront.shops.clone();
    if !served.is_empty() {
        let connections = app.connections.now();
        served.extend(connections.storefronts().flat_map(|it| it.shops.clone()));
    }
    let wish = request.check(&config.return_origins, &key.shops, &served)?;
    let app = app.clone();
    let opened = task::finish("checkout", async move {
        checkout::open(&app, &caller, &wish).await
    });
    opened.await.ok_or(Error::Internal)?.map(Into::into)
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, CheckoutError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).into_iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => value.as_bytes(),
        (Some(_), Some(_)) => return Err(CheckoutProblem::IdempotencyKey.into()),
    };
    let fits = (1..=LONGEST_KEY).contains(&value.len()) && value.iter().all(u8::is_ascii_graphic);
    if !fits {
        return Err(CheckoutProblem::IdempotencyKey.into());
    }
    Ok(Some(String::from_utf8_lossy(value).into_owned()))
}

/// Reads the body. A body that cannot be used is answered 400 here, and not 422 as by the other
/// calls.
fn unreadable(error: Error) -> Error {
    let what = match error {
        Error::NotJson => CheckoutProblem::NotJson,
        Error::NotAnObject => CheckoutProblem::NotAnObject,
        Error::Field { line, column } => CheckoutProblem::Field { line, column },
        other => return other,
    };
    CheckoutError::from(what).into()
}

impl From<Opened> for CheckoutResponse {
    fn from(opened: Opened) -> Self {
        CheckoutResponse {
            checkout_url: opened.page.url,
            order_id: opened.order_id.to_string(),
            session_id: opened.page.session_id,
            pact_id: opened.pact_id,
            expires_at: opened.page.expires_at,
        }
    }
}
