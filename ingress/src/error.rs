//! All errors of the HTTP API: one table with the status, code, reason and text of each.
//!
//! The texts are for the sender and say what to do. They contain nothing internal.

use std::borrow::Cow;
use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::api_key::Scope;
use domain::code::Code;
use flows::deliveries::Unreadable;
use operators::endpoints::Refused;
use providers::endpoints::AddressError;
use qr::{QrConfigError, QrError};
use serde::Serialize;
use store::checkouts::Refusal;
use store::privacy_requests::ActionRefused;
use utoipa::ToSchema;

use crate::checkout::problem::CheckoutError;
use crate::intake::Unavailable;

/// Declares the errors. Each row says the status of the answer, the code of the application (`-`: none),
/// a short name for logs and the metric's label, and the text, which is empty where [`Error::text`]
/// makes it.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident $(($value:ty))? $({ $($field:ident: $of:ty),* })?:
        $status:ident $code:tt $reason:literal $text:literal;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Error {
            $($(#[$doc])* $name $(($value))? $({ $($field: $of),* })?,)*
        }

        impl Error {
            fn row(self) -> (StatusCode, Option<Code>, &'static str, &'static str) {
                match self {
                    $(Error::$name { .. } => (StatusCode::$status, errors!(@code $code), $reason, $text),)*
                }
            }
        }
    };
    (@code -) => { None };
    (@code $code:ident) => { Some(Code::$code) };
}

errors! {
    StorefrontSignature: UNAUTHORIZED Signature "signature" "Invalid HMAC signature";
    PaymentSignature: UNAUTHORIZED Signature "signature" "Invalid payment signature";
    Duplicate: CONFLICT - "duplicate" "Duplicate webhook";
    BodyTooLarge: PAYLOAD_TOO_LARGE - "too_large" "Request body too large";
    BodyIncomplete: BAD_REQUEST - "body" "Request body ended early";
    BodyTooSlow: REQUEST_TIMEOUT - "body" "Request body took too long";
    ContentEncoding: UNSUPPORTED_MEDIA_TYPE - "encoding"
        "Content-Encoding is not supported; send the body as it was signed";
    /// It came from elsewhere, and its signature is made with the public secret of a development start.
    NotThisMachine: MISDIRECTED_REQUEST - "development"
        "The public secret of a development start is good for this machine alone; set a signing secret of your own";
    TopicHeader: UNPROCESSABLE_ENTITY - "header"
        "X-Storefront-Topic is missing or is not a topic like orders/create";
    ShopHeader: UNPROCESSABLE_ENTITY - "header" "X-Storefront-Shop-Domain is not a domain";
    ShopUnknown: UNPROCESSABLE_ENTITY - "header" "X-Storefront-Shop-Domain is not one of STOREFRONT_SHOPS";
    /// The shop has a connection of its own, and the delivery was not signed with its secret.
    ShopBound: UNPROCESSABLE_ENTITY - "connection"
        "The shop has a connection of its own, and this is not signed with its secret";
    /// The connection proves other shops.
    ShopOfAnother: UNPROCESSABLE_ENTITY - "connection" "The shop is not one of this connection";
    /// The connection proves another account.
    AccountOfAnother: UNPROCESSABLE_ENTITY - "connection" "The account is not that of this connection";
    ConnectionUnknown: NOT_FOUND - "connection" "There is no connection of this name";
    ConnectionNotFound: NOT_FOUND - "not_found" "There is no such connection";
    /// Its name, a shop or the account has a connection.
    ConnectionTaken: CONFLICT - "request" "The name, a shop or the account has a connection already, or this one cannot have that";
    ConnectionWrong: UNPROCESSABLE_ENTITY - "request" "The connection is not right, as the text says";
    NoSecretsKey: SERVICE_UNAVAILABLE - "unavailable"
        "SECRETS_KEY is not set: make one with openssl rand -hex 32, and give it to every process";
    PrivacyBody: UNPROCESSABLE_ENTITY - "privacy" "Request body is not one of this privacy topic";
    PrivacyShop: UNPROCESSABLE_ENTITY - "privacy"
        "X-Storefront-Shop-Domain is not the shop_domain of the body";
    WebhookIdHeader: UNPROCESSABLE_ENTITY - "header"
        "X-Storefront-Webhook-Id is not an id of at most 255 visible characters";
    NotJson: UNPROCESSABLE_ENTITY - "json" "Request body is not JSON";
    NotAnObject: UNPROCESSABLE_ENTITY - "json" "Request body is not a JSON object";
    /// A field of a JSON body is not known, is there twice, or has another type.
    Field { line: u32, column: u32 }: UNPROCESSABLE_ENTITY - "json" "";
    Envelope: UNPROCESSABLE_ENTITY - "json" "Request body lacks an id or type, or repeats a key";
    RateLimited(Duration): TOO_MANY_REQUESTS RateLimit "rate" "Rate limit exceeded";
    /// A delivery cannot be stored now. Waybill then does not know whether it is a duplicate
    /// either.
    NotAccepted: SERVICE_UNAVAILABLE Deduplication "unavailable" "Not accepted, try again later";
    /// The shop or the account of a delivery has its share of what waits to be stored.
    OverShare: SERVICE_UNAVAILABLE Deduplication "share" "Not accepted, try again later";
    /// The database does not answer.
    Unavailable: SERVICE_UNAVAILABLE - "unavailable" "Temporarily unavailable, try again later";
    /// The database may not be served: it does not know every erasure of the journal, or nobody
    /// could look yet.
    NotServed: SERVICE_UNAVAILABLE - "unavailable"
        "Not in use until the database is compared with the journal of erasures; nothing is lost, try \
         again later. Operators: waybill doctor says what to do";
    ApiKey: UNAUTHORIZED NoToken "api_key" "Invalid API key";
    /// The API key lacks the scope for this call.
    MissingScope(Scope): FORBIDDEN - "api_key" "";
    ShopQuery: UNPROCESSABLE_ENTITY - "request" "?shop= is a shop domain; give it at most once";
    OrdersQuery: UNPROCESSABLE_ENTITY - "request"
        "?after= is next of the page before; ?created_after= and ?updated_after= are times like \
         2027-01-31T12:00:00Z; ?state= is initiated, requested, fulfilled, cancelled or none; ?limit= is \
         1 to 1000; ?name= and the statuses are not empty, and a # in them is written %23; give each at \
         most once";
    OrderNotFound: NOT_FOUND OrderNotFound "not_found" "Order not found";
    OrderAmbiguous: CONFLICT - "request" "Several shops have an order with this id; add ?shop=<shop domain>";
    ParcelNotFound: NOT_FOUND - "not_found" "Parcel not found";
    /// The order has no such parcel, or the parcel has no QR code.
    QrNotFound: NOT_FOUND - "not_found" "There is no such QR code";
    Qr(QrError): UNPROCESSABLE_ENTITY - "qr" "";
    QrSize(QrConfigError): UNPROCESSABLE_ENTITY Qr "qr" "";
    /// The request is wrong.
    Checkout(CheckoutError): BAD_REQUEST - "request" "";
    /// The key does not open the shop of the orders that checkouts make.
    CheckoutShop: FORBIDDEN - "api_key"
        "This API key may not touch the orders of checkouts; make one with --shop checkout";
    CheckoutNotSetUp: SERVICE_UNAVAILABLE - "unavailable"
        "Checkout is not set up here: PAYMENT_API_URL and PAYMENT_API_KEY are not set";
    /// What answers at a provider's address is not the provider's API.
    CheckoutAddress: SERVICE_UNAVAILABLE - "unavailable"
        "Checkout is set up wrongly here: an operator must correct PAYMENT_API_URL or \
         STOREFRONT_API_URL, see the log; the Idempotency-Key can be used after that";
    /// The payment provider refuses the checkout.
    CheckoutAmount: BAD_REQUEST Amount "refused" "The payment provider does not take this amount";
    CheckoutCurrency: BAD_REQUEST Currency "refused"
        "Currency not supported: use USD, EUR, GBP or MXN, and one of them throughout";
    CheckoutRefused: BAD_REQUEST - "refused"
        "The payment provider does not take this checkout; check the ids of prices, and customer_email";
    /// Somebody has already paid on the page of this checkout.
    CheckoutPaid: CONFLICT AlreadyProcessed "paid"
        "This checkout has been paid already; for another one use a new Idempotency-Key";
    /// The order of this checkout is cancelled for good.
    CheckoutCancelled: CONFLICT - "cancelled"
        "The order of this checkout is cancelled; for another one use a new Idempotency-Key";
    /// The `Idempotency-Key` was used for another checkout.
    IdempotencyKeyReused: UNPROCESSABLE_ENTITY - "request"
        "This Idempotency-Key was used for another checkout; use a new one";
    /// The storefront's or the payment provider's API does not answer. The client may ask again
    /// after this time.
    ProviderTimeout(Duration): SERVICE_UNAVAILABLE ProviderTimeout "provider"
        "A provider does not answer; try again with the same Idempotency-Key";
    EndpointNotFound: NOT_FOUND - "not_found" "Endpoint not found";
    /// The text cannot be the address of an endpoint.
    EndpointAddress(AddressError): UNPROCESSABLE_ENTITY - "request" "";
    EndpointTypes: UNPROCESSABLE_ENTITY - "request" "types must be patterns like order.* or payment.#";
    EndpointTooLong: UNPROCESSABLE_ENTITY - "request"
        "url has at most 2000 characters, and types has at most 20 patterns";
    TooManyEndpoints: CONFLICT - "request"
        "There are already 100 endpoints, which is the most; remove one first";
    /// The endpoint of RabbitMQ is there while `AMQP_URL` is set.
    EndpointIsBroker: CONFLICT - "request"
        "RabbitMQ has no secret here, and is removed when nothing sends to it any more; pause it";
    /// The key is limited to shops, and endpoints get the events of all shops.
    EndpointShops: FORBIDDEN - "api_key"
        "This API key is limited to shops, and endpoints get the events of all shops";
    EventsQuery: UNPROCESSABLE_ENTITY - "request"
        "?after= (or Last-Event-ID) is an event's id or latest; ?type= is one or more patterns like \
         order.* between commas; ?limit= is 1 to 1000; ?wait= is 0 to 30 seconds; give each at most once";
    /// The key, or all together, have too many streams and waiting requests.
    TooManyWait: TOO_MANY_REQUESTS RateLimit "rate"
        "Too many requests wait for events already; end one of this API key, or try again later";
    PrivacyRequestNotFound: NOT_FOUND - "not_found" "Privacy request not found";
    PrivacyQuery: UNPROCESSABLE_ENTITY - "request"
        "?state= is received, held, done, cancelled, failed or all; ?limit= is 1 to 1000; give each at \
         most once";
    /// The privacy request has not failed, so it cannot be retried.
    PrivacyNotFailed: CONFLICT - "state" "Only a request that failed is retried by hand";
    /// The privacy request is a customer's, so it cannot be cancelled.
    PrivacyDuty: CONFLICT - "state" "A customer's request cannot be cancelled: answering it is a legal duty";
    /// The privacy request is not held, so it cannot be cancelled.
    PrivacyNotHeld: CONFLICT - "state"
        "Only the erasure of a shop that is held can be cancelled; this one has begun, or is over";
    /// The privacy request failed, so it has no export.
    PrivacyFailed: CONFLICT Privacy "state"
        "The request failed, so it has no export; mend what last_error says, then retry it";
    NoExport: CONFLICT Privacy "export"
        "The request has no export: only a customers/data_request that is done has one";
    ExportExpired: GONE Privacy "export" "The export has expired; the customer must ask again for a new one";
    ExportUnreadable: SERVICE_UNAVAILABLE Privacy "export"
        "The export cannot be read now; the operator's log says why";
    /// The link was not made by Waybill, or has ended.
    ExportLink: NOT_FOUND - "not_found" "Export not found";
    /// The request has no bearer token, or a text that cannot be one.
    AuthHeader: UNAUTHORIZED NoToken "token" "Missing or invalid Authorization header";
    TokenInvalid: UNAUTHORIZED ForeignToken "token" "Invalid GitHub token";
    /// The token was valid before, so it was revoked.
    TokenRevoked: UNAUTHORIZED Revoked "token" "Invalid GitHub token";
    /// The token was good until its own end.
    TokenExpired: UNAUTHORIZED Expired "token" "Invalid GitHub token";
    NoVerifiedEmail: FORBIDDEN - "email" "No verified e-mail";
    AccountSuspended: FORBIDDEN - "suspended" "This account is suspended at the identity provider";
    DeviceCodeInvalid: NOT_FOUND DeviceCode "device_code" "Invalid device code";
    DeviceCodeExpired: BAD_REQUEST Expired "device_code" "expired_token";
    DeviceCodeParameter: UNPROCESSABLE_ENTITY - "request" "device_code is missing or given twice";
    GrantType: BAD_REQUEST - "request" "grant_type must be urn:ietf:params:oauth:grant-type:device_code";
    GrantTypeTwice: UNPROCESSABLE_ENTITY - "request" "grant_type is given twice";
    FormEncoding: UNSUPPORTED_MEDIA_TYPE - "encoding" "Content-Encoding is not supported";
    AuthorizationPending: PRECONDITION_REQUIRED Pending "pending" "Authorization pending";
    AccessDenied: BAD_REQUEST - "denied" "access_denied";
    /// A poll came before the interval had passed.
    SlowDown(Duration): TOO_MANY_REQUESTS RateLimit "rate" "Rate limit exceeded";
    /// The identity provider does not answer. The client may ask again after this time.
    ProviderUnavailable(Duration): SERVICE_UNAVAILABLE - "provider"
        "The identity provider is not available, try again later";
    LoginNotSetUp: SERVICE_UNAVAILABLE - "unavailable" "Login is not set up here";
    RouteNotFound: NOT_FOUND - "not_found" "Not found";
    Method: METHOD_NOT_ALLOWED - "method" "Method not allowed";
    Internal: INTERNAL_SERVER_ERROR - "internal" "Internal error";
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
    pub fn status(self) -> StatusCode {
        self.row().0
    }

    /// The application code.
    pub fn code(self) -> Option<Code> {
        match self {
            Error::Qr(error) => Some(error.code()),
            Error::Checkout(problem) => problem.code(),
            _ => self.row().1,
        }
    }

    /// A short name for logs and the metric's label.
    pub fn reason(&self) -> &'static str {
        self.row().2
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
            Error::MissingScope(scope) => format!("This API key lacks the scope {scope}").into(),
            Error::EndpointAddress(error) => address(error).into(),
            other => other.row().3.into(),
        }
    }

    /// The answer with a page for people as its body.
    pub fn with_body(self, body: impl IntoResponse) -> Response {
        let code = self.code();
        let mut response = (self.status(), body).into_response();
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
            Error::TokenInvalid | Error::TokenRevoked | Error::TokenExpired => {
                Some("Bearer error=\"invalid_token\"")
            }
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
            Error::NotAccepted | Error::OverShare | Error::Unavailable => Some(2),
            Error::TooManyWait => Some(5),
            Error::NotServed => Some(30),
            Error::LoginNotSetUp
            | Error::CheckoutNotSetUp
            | Error::CheckoutAddress
            | Error::ExportUnreadable => Some(60),
            _ => None,
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
    pub detail: Cow<'static, str>,
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
            Error::DeviceCodeInvalid
            | Error::TokenInvalid
            | Error::TokenRevoked
            | Error::TokenExpired => "invalid_grant",
            Error::GrantType => "unsupported_grant_type",
            Error::ProviderUnavailable(_)
            | Error::Unavailable
            | Error::NotServed
            | Error::LoginNotSetUp => "temporarily_unavailable",
            Error::Internal => "server_error",
            _ => "invalid_request",
        };
        LoginErrorBody {
            detail: error.text(),
            error: name,
        }
    }
}

impl From<Unreadable> for Error {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::NotJson => Error::NotJson,
            Unreadable::NotAnObject => Error::NotAnObject,
            Unreadable::Envelope => Error::Envelope,
            Unreadable::NoTopic => Error::TopicHeader,
        }
    }
}

impl From<Unavailable> for Error {
    fn from(unavailable: Unavailable) -> Self {
        match unavailable {
            Unavailable::NotStored => Error::NotAccepted,
            Unavailable::OverShare => Error::OverShare,
        }
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
            Refused::Broker => Error::EndpointIsBroker,
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
