//! All errors of the HTTP API: one enum, and one match that gives each variant its status, code
//! and text.
//!
//! The texts are for the sender and say what to do. They contain nothing internal.

use std::borrow::Cow;
use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::api_key::Scope;
use domain::code::Code;
use operators::endpoints::Refused;
use providers::endpoints::AddressError;
use qr::{QrConfigError, QrError};
use serde::Serialize;
use store::checkouts::Refusal;
use store::privacy_requests::ActionRefused;
use utoipa::ToSchema;

use crate::checkout::problem::CheckoutError;
use crate::intake::Unavailable;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    StorefrontSignature,
    PaymentSignature,
    Duplicate,
    BodyTooLarge,
    BodyIncomplete,
    BodyTooSlow,
    ContentEncoding,
    TopicHeader,
    ShopHeader,
    ShopUnknown,
    PrivacyBody,
    PrivacyShop,
    WebhookIdHeader,
    NotJson,
    NotAnObject,
    /// A field of a JSON body is not known, is there twice, or has another type.
    Field {
        line: u32,
        column: u32,
    },
    Envelope,
    RateLimited(Duration),
    /// A delivery cannot be stored now. Waybill then does not know whether it is a duplicate
    /// either.
    NotAccepted,
    /// The database does not answer.
    Unavailable,
    /// The database may not be served: it does not know every erasure of the journal, or nobody
    /// could look yet.
    NotServed,
    ApiKey,
    /// The API key lacks the scope for this call.
    MissingScope(Scope),
    ShopQuery,
    OrdersQuery,
    OrderNotFound,
    OrderAmbiguous,
    ParcelNotFound,
    QrNotFound,
    /// The order has no such parcel, or the parcel has no QR code.
    Qr(QrError),
    QrSize(QrConfigError),
    /// The request for a checkout is wrong; the text says how.
    Checkout(CheckoutError),
    /// The key does not open the shop of the orders that checkouts make.
    CheckoutShop,
    CheckoutNotSetUp,
    /// What answers at a provider's address is not the provider's API.
    CheckoutAddress,
    /// The payment provider refuses the checkout.
    CheckoutAmount,
    CheckoutCurrency,
    CheckoutRefused,
    /// Somebody has already paid on the page of this checkout.
    CheckoutPaid,
    /// The order of this checkout is cancelled for good.
    CheckoutCancelled,
    /// The `Idempotency-Key` was used for another checkout.
    IdempotencyKeyReused,
    /// The storefront's or the payment provider's API does not answer. The client may ask again
    /// after this time.
    ProviderTimeout(Duration),
    EndpointNotFound,
    /// The text cannot be the address of an endpoint.
    EndpointAddress(AddressError),
    EndpointTypes,
    EndpointTooLong,
    TooManyEndpoints,
    /// The key is limited to shops, and endpoints get the events of all shops.
    EndpointShops,
    EventsQuery,
    /// The key, or all together, have too many streams and waiting requests.
    TooManyWait,
    PrivacyRequestNotFound,
    PrivacyQuery,
    /// The privacy request has not failed, so it cannot be retried.
    PrivacyNotFailed,
    /// The privacy request is a customer's, so it cannot be cancelled.
    PrivacyDuty,
    /// The privacy request is not held, so it cannot be cancelled.
    PrivacyNotHeld,
    /// The privacy request failed, so it has no export.
    PrivacyFailed,
    NoExport,
    ExportExpired,
    ExportUnreadable,
    /// The link was not made by Waybill, or has ended.
    ExportLink,
    /// The request has no bearer token, or a text that cannot be one.
    AuthHeader,
    TokenInvalid,
    /// The token was valid before, so it was revoked.
    TokenRevoked,
    NoVerifiedEmail,
    AccountSuspended,
    DeviceCodeInvalid,
    DeviceCodeExpired,
    DeviceCodeParameter,
    GrantType,
    GrantTypeTwice,
    FormEncoding,
    AuthorizationPending,
    AccessDenied,
    /// A poll came before the interval had passed.
    SlowDown(Duration),
    /// The identity provider does not answer. The client may ask again after this time.
    ProviderUnavailable(Duration),
    LoginNotSetUp,
    RouteNotFound,
    Method,
    Internal,
}

/// The table has this where the text contains values; [`Error::text`] makes it.
const UNREADABLE: &str = "Request body cannot be used";
const INVALID_TOKEN: &str = "Invalid GitHub token";

/// The answer to an API key without the scope.
fn missing(scope: Scope) -> &'static str {
    match scope {
        Scope::OrdersRead => "This API key lacks the scope orders:read",
        Scope::CheckoutWrite => "This API key lacks the scope checkout:write",
        Scope::QrWrite => "This API key lacks the scope qr:write",
        Scope::EventsRead => "This API key lacks the scope events:read",
        Scope::EndpointsRead => "This API key lacks the scope endpoints:read",
        Scope::EndpointsWrite => "This API key lacks the scope endpoints:write",
        Scope::DeliveriesRead => "This API key lacks the scope deliveries:read",
        Scope::PrivacyRead => "This API key lacks the scope privacy:read",
        Scope::PrivacyWrite => "This API key lacks the scope privacy:write",
        Scope::Console(_) => "This API key lacks a scope of the console",
    }
}

/// What is wrong with the address of an endpoint. Which settings would allow it is the operator's
/// business alone.
fn address(error: AddressError) -> &'static str {
    match error {
        AddressError::NotAUrl => "url must be https:// and a host",
        AddressError::Credentials => "url must not have a user or a password in it",
        AddressError::Cleartext => "url must be https://",
        AddressError::Private => "url must not lead into a private network",
    }
}

impl Error {
    /// Status, application code and text of the answer.
    pub fn answer(self) -> (StatusCode, Option<Code>, &'static str) {
        use StatusCode as S;
        match self {
            Error::StorefrontSignature => (
                S::UNAUTHORIZED,
                Some(Code::Signature),
                "Invalid HMAC signature",
            ),
            Error::PaymentSignature => (
                S::UNAUTHORIZED,
                Some(Code::Signature),
                "Invalid payment signature",
            ),
            Error::Duplicate => (S::CONFLICT, None, "Duplicate webhook"),
            Error::BodyTooLarge => (S::PAYLOAD_TOO_LARGE, None, "Request body too large"),
            Error::BodyIncomplete => (S::BAD_REQUEST, None, "Request body ended early"),
            Error::BodyTooSlow => (S::REQUEST_TIMEOUT, None, "Request body took too long"),
            Error::ContentEncoding => (
                S::UNSUPPORTED_MEDIA_TYPE,
                None,
                "Content-Encoding is not supported; send the body as it was signed",
            ),
            Error::TopicHeader => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "X-Storefront-Topic is missing or is not a topic like orders/create",
            ),
            Error::ShopHeader => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "X-Storefront-Shop-Domain is not a domain",
            ),
            Error::ShopUnknown => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "X-Storefront-Shop-Domain is not one of STOREFRONT_SHOPS",
            ),
            Error::PrivacyBody => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "Request body is not one of this privacy topic",
            ),
            Error::PrivacyShop => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "X-Storefront-Shop-Domain is not the shop_domain of the body",
            ),
            Error::WebhookIdHeader => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "X-Storefront-Webhook-Id is not an id of at most 255 visible characters",
            ),
            Error::NotJson => (S::UNPROCESSABLE_ENTITY, None, "Request body is not JSON"),
            Error::NotAnObject => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "Request body is not a JSON object",
            ),
            Error::Field { .. } => (S::UNPROCESSABLE_ENTITY, None, UNREADABLE),
            Error::Qr(error) => (S::UNPROCESSABLE_ENTITY, Some(error.code()), UNREADABLE),
            Error::QrSize(_) => (S::UNPROCESSABLE_ENTITY, Some(Code::Qr), UNREADABLE),
            Error::Envelope => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "Request body lacks an id or type, or repeats a key",
            ),
            Error::RateLimited(_) | Error::SlowDown(_) => (
                S::TOO_MANY_REQUESTS,
                Some(Code::RateLimit),
                "Rate limit exceeded",
            ),
            Error::NotAccepted => (
                S::SERVICE_UNAVAILABLE,
                Some(Code::Deduplication),
                "Not accepted, try again later",
            ),
            Error::Unavailable => (
                S::SERVICE_UNAVAILABLE,
                None,
                "Temporarily unavailable, try again later",
            ),
            Error::NotServed => (
                S::SERVICE_UNAVAILABLE,
                None,
                "Not in use until the database is compared with the journal of erasures; nothing is lost, \
                 try again later. Operators: waybill doctor says what to do",
            ),
            Error::ApiKey => (S::UNAUTHORIZED, Some(Code::NoToken), "Invalid API key"),
            Error::MissingScope(scope) => (S::FORBIDDEN, None, missing(scope)),
            Error::ShopQuery => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "?shop= is a shop domain; give it at most once",
            ),
            Error::OrdersQuery => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "?after= is next of the page before; ?created_after= and ?updated_after= are times like \
                 2027-01-31T12:00:00Z; ?state= is initiated, requested, fulfilled, cancelled or none; ?limit= \
                 is 1 to 1000; ?name= and the statuses are not empty, and a # in them is written %23; give \
                 each at most once",
            ),
            Error::OrderNotFound => (S::NOT_FOUND, Some(Code::OrderNotFound), "Order not found"),
            Error::OrderAmbiguous => (
                S::CONFLICT,
                None,
                "Several shops have an order with this id; add ?shop=<shop domain>",
            ),
            Error::ParcelNotFound => (S::NOT_FOUND, None, "Parcel not found"),
            Error::QrNotFound => (S::NOT_FOUND, None, "There is no such QR code"),
            Error::Checkout(problem) => (S::BAD_REQUEST, problem.code(), UNREADABLE),
            Error::CheckoutShop => (
                S::FORBIDDEN,
                None,
                "This API key may not touch the orders of checkouts; make one with --shop checkout",
            ),
            Error::CheckoutNotSetUp => (
                S::SERVICE_UNAVAILABLE,
                None,
                "Checkout is not set up here: PAYMENT_API_URL and PAYMENT_API_KEY are not set",
            ),
            Error::CheckoutAddress => (
                S::SERVICE_UNAVAILABLE,
                None,
                "Checkout is set up wrongly here: an operator must correct PAYMENT_API_URL or \
                 STOREFRONT_API_URL, see the log; the Idempotency-Key can be used after that",
            ),
            Error::CheckoutAmount => (
                S::BAD_REQUEST,
                Some(Code::Amount),
                "The payment provider does not take this amount",
            ),
            Error::CheckoutCurrency => (
                S::BAD_REQUEST,
                Some(Code::Currency),
                "Currency not supported: use USD, EUR, GBP or MXN, and one of them throughout",
            ),
            Error::CheckoutRefused => (
                S::BAD_REQUEST,
                None,
                "The payment provider does not take this checkout; check the ids of prices, and \
                 customer_email",
            ),
            Error::CheckoutPaid => (
                S::CONFLICT,
                Some(Code::AlreadyProcessed),
                "This checkout has been paid already; for another one use a new Idempotency-Key",
            ),
            Error::CheckoutCancelled => (
                S::CONFLICT,
                None,
                "The order of this checkout is cancelled; for another one use a new Idempotency-Key",
            ),
            Error::IdempotencyKeyReused => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "This Idempotency-Key was used for another checkout; use a new one",
            ),
            Error::ProviderTimeout(_) => (
                S::SERVICE_UNAVAILABLE,
                Some(Code::ProviderTimeout),
                "A provider does not answer; try again with the same Idempotency-Key",
            ),
            Error::EndpointNotFound => (S::NOT_FOUND, None, "Endpoint not found"),
            Error::EndpointAddress(error) => (S::UNPROCESSABLE_ENTITY, None, address(error)),
            Error::EndpointTypes => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "types must be patterns like order.* or payment.#",
            ),
            Error::EndpointTooLong => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "url has at most 2000 characters, and types has at most 20 patterns",
            ),
            Error::TooManyEndpoints => (
                S::CONFLICT,
                None,
                "There are already 100 endpoints, which is the most; remove one first",
            ),
            Error::EndpointShops => (
                S::FORBIDDEN,
                None,
                "This API key is limited to shops, and endpoints get the events of all shops",
            ),
            Error::EventsQuery => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "?after= (or Last-Event-ID) is an event's id or latest; ?type= is one or more patterns \
                 like order.* between commas; ?limit= is 1 to 1000; ?wait= is 0 to 30 seconds; give each \
                 at most once",
            ),
            Error::TooManyWait => (
                S::TOO_MANY_REQUESTS,
                Some(Code::RateLimit),
                "Too many requests wait for events already; end one of this API key, or try again later",
            ),
            Error::PrivacyRequestNotFound => (S::NOT_FOUND, None, "Privacy request not found"),
            Error::PrivacyQuery => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "?state= is received, held, done, cancelled, failed or all; ?limit= is 1 to 1000; \
                 give each at most once",
            ),
            Error::PrivacyNotFailed => (
                S::CONFLICT,
                None,
                "Only a request that failed is retried by hand",
            ),
            Error::PrivacyDuty => (
                S::CONFLICT,
                None,
                "A customer's request cannot be cancelled: answering it is a legal duty",
            ),
            Error::PrivacyNotHeld => (
                S::CONFLICT,
                None,
                "Only the erasure of a shop that is held can be cancelled; this one has begun, or \
                 is over",
            ),
            Error::PrivacyFailed => (
                S::CONFLICT,
                Some(Code::Privacy),
                "The request failed, so it has no export; mend what last_error says, then retry it",
            ),
            Error::NoExport => (
                S::CONFLICT,
                Some(Code::Privacy),
                "The request has no export: only a customers/data_request that is done has one",
            ),
            Error::ExportExpired => (
                S::GONE,
                Some(Code::Privacy),
                "The export has expired; the customer must ask again for a new one",
            ),
            Error::ExportUnreadable => (
                S::SERVICE_UNAVAILABLE,
                Some(Code::Privacy),
                "The export cannot be read now; the operator's log says why",
            ),
            Error::ExportLink => (S::NOT_FOUND, None, "Export not found"),
            Error::AuthHeader => (
                S::UNAUTHORIZED,
                Some(Code::NoToken),
                "Missing or invalid Authorization header",
            ),
            Error::TokenInvalid => (S::UNAUTHORIZED, Some(Code::ForeignToken), INVALID_TOKEN),
            Error::TokenRevoked => (S::UNAUTHORIZED, Some(Code::Revoked), INVALID_TOKEN),
            Error::NoVerifiedEmail => (S::FORBIDDEN, None, "No verified e-mail"),
            Error::AccountSuspended => (
                S::FORBIDDEN,
                None,
                "This account is suspended at the identity provider",
            ),
            Error::DeviceCodeInvalid => {
                (S::NOT_FOUND, Some(Code::DeviceCode), "Invalid device code")
            }
            Error::DeviceCodeExpired => (S::BAD_REQUEST, Some(Code::Expired), "expired_token"),
            Error::DeviceCodeParameter => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "device_code is missing or given twice",
            ),
            Error::GrantType => (
                S::BAD_REQUEST,
                None,
                "grant_type must be urn:ietf:params:oauth:grant-type:device_code",
            ),
            Error::GrantTypeTwice => (S::UNPROCESSABLE_ENTITY, None, "grant_type is given twice"),
            Error::FormEncoding => (
                S::UNSUPPORTED_MEDIA_TYPE,
                None,
                "Content-Encoding is not supported",
            ),
            Error::AuthorizationPending => (
                S::PRECONDITION_REQUIRED,
                Some(Code::Pending),
                "Authorization pending",
            ),
            Error::AccessDenied => (S::BAD_REQUEST, None, "access_denied"),
            Error::ProviderUnavailable(_) => (
                S::SERVICE_UNAVAILABLE,
                None,
                "The identity provider is not available, try again later",
            ),
            Error::LoginNotSetUp => (S::SERVICE_UNAVAILABLE, None, "Login is not set up here"),
            Error::RouteNotFound => (S::NOT_FOUND, None, "Not found"),
            Error::Method => (S::METHOD_NOT_ALLOWED, None, "Method not allowed"),
            Error::Internal => (S::INTERNAL_SERVER_ERROR, None, "Internal error"),
        }
    }

    /// The text with the values of this error.
    pub fn text(self) -> Cow<'static, str> {
        match self {
            Error::Field { line, column } => format!(
                "Line {line}, column {column}: this field is not known, is given twice, or has a \
                 value of another type"
            )
            .into(),
            Error::Qr(error) => error.to_string().into(),
            Error::QrSize(error) => error.to_string().into(),
            Error::Checkout(problem) => problem.to_string().into(),
            other => {
                let (_, _, text) = other.answer();
                text.into()
            }
        }
    }

    /// The answer with a page for people as its body.
    pub fn with_body(self, body: impl IntoResponse) -> Response {
        let (status, code, _) = self.answer();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        if let Some(code) = code {
            headers.insert("x-error-code", HeaderValue::from_static(code.id()));
        }
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(challenge) = self.challenge() {
            let challenge = HeaderValue::from_static(challenge);
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }

    /// The answer of a device login. Beside `detail` it has the field `error`, which standard
    /// clients read.
    pub fn of_device_login(self) -> Response {
        self.with_body(Json(LoginErrorBody::from(self)))
    }

    /// The answer of a checkout, which also has a `message`.
    pub fn of_checkout(self) -> Response {
        self.with_body(Json(CheckoutErrorBody::from(self)))
    }

    /// The header of a 401 that names the scheme of authentication (RFC 6750, section 3).
    pub fn challenge(self) -> Option<&'static str> {
        match self {
            Error::AuthHeader => Some("Bearer"),
            Error::TokenInvalid | Error::TokenRevoked => Some("Bearer error=\"invalid_token\""),
            Error::MissingScope(_) => Some("Bearer error=\"insufficient_scope\""),
            _ => None,
        }
    }

    /// How long the client should wait, in seconds.
    pub fn retry_after(self) -> Option<u64> {
        match self {
            Error::RateLimited(wait)
            | Error::SlowDown(wait)
            | Error::ProviderUnavailable(wait)
            | Error::ProviderTimeout(wait) => {
                let begun = u64::from(wait.subsec_nanos() > 0);
                Some((wait.as_secs() + begun).max(1))
            }
            Error::NotAccepted | Error::Unavailable => Some(2),
            Error::TooManyWait => Some(5),
            Error::NotServed => Some(30),
            Error::LoginNotSetUp
            | Error::CheckoutNotSetUp
            | Error::CheckoutAddress
            | Error::ExportUnreadable => Some(60),
            _ => None,
        }
    }

    /// A short name for logs and the metric's label.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::StorefrontSignature | Error::PaymentSignature => "signature",
            Error::Duplicate => "duplicate",
            Error::BodyTooLarge => "too_large",
            Error::BodyIncomplete | Error::BodyTooSlow => "body",
            Error::ContentEncoding | Error::FormEncoding => "encoding",
            Error::TopicHeader
            | Error::ShopHeader
            | Error::ShopUnknown
            | Error::WebhookIdHeader => "header",
            Error::NotJson | Error::NotAnObject | Error::Field { .. } | Error::Envelope => "json",
            Error::Qr(_) | Error::QrSize(_) => "qr",
            Error::PrivacyBody | Error::PrivacyShop => "privacy",
            Error::RateLimited(_) | Error::SlowDown(_) | Error::TooManyWait => "rate",
            Error::NotAccepted
            | Error::Unavailable
            | Error::NotServed
            | Error::LoginNotSetUp
            | Error::CheckoutNotSetUp
            | Error::CheckoutAddress => "unavailable",
            Error::ProviderUnavailable(_) | Error::ProviderTimeout(_) => "provider",
            Error::CheckoutAmount | Error::CheckoutCurrency | Error::CheckoutRefused => "refused",
            Error::CheckoutPaid => "paid",
            Error::CheckoutCancelled => "cancelled",
            Error::AuthHeader | Error::TokenInvalid | Error::TokenRevoked => "token",
            Error::NoVerifiedEmail => "email",
            Error::AccountSuspended => "suspended",
            Error::DeviceCodeInvalid | Error::DeviceCodeExpired => "device_code",
            Error::AuthorizationPending => "pending",
            Error::AccessDenied => "denied",
            Error::ApiKey | Error::MissingScope(_) | Error::CheckoutShop | Error::EndpointShops => {
                "api_key"
            }
            Error::Checkout(_)
            | Error::IdempotencyKeyReused
            | Error::ShopQuery
            | Error::OrderAmbiguous
            | Error::DeviceCodeParameter
            | Error::GrantType
            | Error::GrantTypeTwice
            | Error::EventsQuery
            | Error::EndpointAddress(_)
            | Error::EndpointTypes
            | Error::EndpointTooLong
            | Error::TooManyEndpoints
            | Error::OrdersQuery
            | Error::PrivacyQuery => "request",
            Error::PrivacyNotFailed
            | Error::PrivacyDuty
            | Error::PrivacyNotHeld
            | Error::PrivacyFailed => "state",
            Error::NoExport | Error::ExportExpired | Error::ExportUnreadable => "export",
            Error::OrderNotFound
            | Error::ParcelNotFound
            | Error::QrNotFound
            | Error::PrivacyRequestNotFound
            | Error::EndpointNotFound
            | Error::ExportLink
            | Error::RouteNotFound => "not_found",
            Error::Method => "method",
            Error::Internal => "internal",
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        self.with_body(Json(DetailBody::from(self)))
    }
}

/// The body of an error.
#[derive(Serialize, ToSchema)]
#[schema(as = Error)]
pub struct DetailBody {
    /// What is wrong, and what to do about it.
    pub detail: Cow<'static, str>,
}

impl From<Error> for DetailBody {
    fn from(error: Error) -> Self {
        let detail = error.text();
        DetailBody { detail }
    }
}

/// The body of an error of a checkout.
#[derive(Serialize, ToSchema)]
#[schema(as = CheckoutError)]
pub struct CheckoutErrorBody {
    /// What is wrong, and what to do about it.
    pub message: Cow<'static, str>,
    /// The same, where clients of the other calls look for it.
    pub detail: Cow<'static, str>,
}

impl From<Error> for CheckoutErrorBody {
    fn from(error: Error) -> Self {
        CheckoutErrorBody {
            message: error.text(),
            detail: error.text(),
        }
    }
}

/// The body of an error of a device login.
#[derive(Serialize, ToSchema)]
#[schema(as = LoginError)]
pub struct LoginErrorBody {
    /// What is wrong.
    pub detail: &'static str,
    /// For OAuth libraries (RFC 6749, section 5.2; RFC 8628, section 3.5):
    /// `authorization_pending`, `slow_down`, `expired_token`, `access_denied`, `invalid_grant`,
    /// `unsupported_grant_type`, `invalid_request`, `temporarily_unavailable` or `server_error`.
    pub error: &'static str,
}

impl From<Error> for LoginErrorBody {
    fn from(error: Error) -> Self {
        let name = match error {
            Error::AuthorizationPending => "authorization_pending",
            Error::SlowDown(_) | Error::RateLimited(_) => "slow_down",
            Error::DeviceCodeExpired => "expired_token",
            Error::AccessDenied | Error::NoVerifiedEmail | Error::AccountSuspended => {
                "access_denied"
            }
            Error::DeviceCodeInvalid | Error::TokenInvalid | Error::TokenRevoked => "invalid_grant",
            Error::GrantType => "unsupported_grant_type",
            Error::ProviderUnavailable(_)
            | Error::Unavailable
            | Error::NotServed
            | Error::LoginNotSetUp => "temporarily_unavailable",
            Error::Internal => "server_error",
            _ => "invalid_request",
        };
        let (_, _, detail) = error.answer();
        LoginErrorBody {
            detail,
            error: name,
        }
    }
}

impl From<Unavailable> for Error {
    fn from(_: Unavailable) -> Self {
        Error::NotAccepted
    }
}

impl From<QrError> for Error {
    fn from(error: QrError) -> Self {
        Error::Qr(error)
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Unknown => Error::EndpointNotFound,
            Refused::Address(error) => Error::EndpointAddress(error),
            Refused::TooLong => Error::EndpointTooLong,
            Refused::TooMany => Error::TooManyEndpoints,
            // Only the command can choose how long the former secret signs.
            Refused::Overlap | Refused::Changed => Error::Internal,
            Refused::Database(error) => error.into(),
        }
    }
}

impl From<CheckoutError> for Error {
    fn from(problem: CheckoutError) -> Self {
        Error::Checkout(problem)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Amount => Error::CheckoutAmount,
            Refusal::Currency => Error::CheckoutCurrency,
            Refusal::Provider => Error::CheckoutRefused,
        }
    }
}

/// The error for a database that does not answer a read. It is logged here, once; the client sees
/// only that the service is not available.
impl From<store::sql::Error> for Error {
    fn from(error: store::sql::Error) -> Self {
        tracing::error!(%error, "the database did not answer");
        if store::sql::is_outage(&error) {
            Error::Unavailable
        } else {
            Error::Internal
        }
    }
}

/// A transaction that failed. What is not the database's doing is a defect of ours: it is logged
/// here, once, and hidden from the client.
impl From<flows::Error> for Error {
    fn from(error: flows::Error) -> Self {
        match error {
            flows::Error::Database(error) => error.into(),
            error => {
                tracing::error!(%error, "a transaction could not be written");
                Error::Internal
            }
        }
    }
}

/// The error for an export store that fails. The cause is for the operator only, so it is logged
/// here, once.
impl From<ActionRefused> for Error {
    fn from(refused: ActionRefused) -> Self {
        match refused {
            ActionRefused::Unknown => Error::PrivacyRequestNotFound,
            ActionRefused::NotFailed(_) => Error::PrivacyNotFailed,
            ActionRefused::Duty => Error::PrivacyDuty,
            ActionRefused::NotHeld(_) | ActionRefused::NotWaiting(_) => Error::PrivacyNotHeld,
            ActionRefused::Failed => Error::PrivacyFailed,
            ActionRefused::NoExport => Error::NoExport,
            ActionRefused::Expired(_) | ActionRefused::Removed(_) => Error::ExportExpired,
            ActionRefused::Altered | ActionRefused::Store(_) => {
                tracing::error!(error = %refused, code = %Code::Privacy, "an export was not handed out");
                Error::ExportUnreadable
            }
            ActionRefused::Database(error) => error.into(),
        }
    }
}
