//! Every answer that is not a success: one enum, one table to status, code and text.
//!
//! Texts are for the sender and say what to do; nothing internal is in them.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

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
    WebhookIdHeader,
    NotJson,
    NotAnObject,
    Envelope,
    RateLimited(Duration),
    /// The database cannot take deliveries now.
    Unavailable,
    ApiKey,
    OrderId,
    ShopQuery,
    OrderNotFound,
    OrderAmbiguous,
    ParcelNotFound,
    QrNotFound,
    RouteNotFound,
    Method,
    Internal,
}

/// The application codes of the spec that ingress answers with, in `X-Error-Code`.
mod code {
    pub const AUTH_INVALID: &str = "AUTH_001";
    pub const AUTH_RATE: &str = "AUTH_006";
    pub const SIGNATURE: &str = "COMMERCE_004";
    pub const ORDER_NOT_FOUND: &str = "COMMERCE_006";
    pub const DEDUPLICATION: &str = "COMMERCE_009";
}

impl Error {
    /// Status, application code and text of the answer.
    fn answer(self) -> (StatusCode, Option<&'static str>, &'static str) {
        use StatusCode as S;
        match self {
            Error::StorefrontSignature => (
                S::UNAUTHORIZED,
                Some(code::SIGNATURE),
                "Invalid HMAC signature",
            ),
            Error::PaymentSignature => (
                S::UNAUTHORIZED,
                Some(code::SIGNATURE),
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
            Error::Envelope => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "Request body lacks an id or type, or repeats a key",
            ),
            Error::RateLimited(_) => (
                S::TOO_MANY_REQUESTS,
                Some(code::AUTH_RATE),
                "Rate limit exceeded",
            ),
            Error::Unavailable => (
                S::SERVICE_UNAVAILABLE,
                Some(code::DEDUPLICATION),
                "Not accepted, try again later",
            ),
            Error::ApiKey => (S::UNAUTHORIZED, Some(code::AUTH_INVALID), "Invalid API key"),
            Error::OrderId => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "The order id is a positive integer",
            ),
            Error::ShopQuery => (
                S::UNPROCESSABLE_ENTITY,
                None,
                "?shop= is a shop domain; give it at most once",
            ),
            Error::OrderNotFound => (S::NOT_FOUND, Some(code::ORDER_NOT_FOUND), "Order not found"),
            Error::OrderAmbiguous => (
                S::CONFLICT,
                None,
                "Several shops have an order with this id; add ?shop=<shop domain>",
            ),
            Error::ParcelNotFound => (S::NOT_FOUND, None, "Parcel not found"),
            Error::QrNotFound => (S::NOT_FOUND, None, "There is no such QR code"),
            Error::RouteNotFound => (S::NOT_FOUND, None, "Not found"),
            Error::Method => (S::METHOD_NOT_ALLOWED, None, "Method not allowed"),
            Error::Internal => (S::INTERNAL_SERVER_ERROR, None, "Internal error"),
        }
    }

    /// The answer with a body of another kind: a page for people.
    pub fn with_body(self, body: impl IntoResponse) -> Response {
        let (status, code, _) = self.answer();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        if let Some(code) = code {
            headers.insert("x-error-code", HeaderValue::from_static(code));
        }
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    fn retry_after(self) -> Option<u64> {
        match self {
            Error::RateLimited(wait) => {
                let begun = u64::from(wait.subsec_nanos() > 0);
                Some((wait.as_secs() + begun).max(1))
            }
            Error::Unavailable => Some(2),
            _ => None,
        }
    }

    /// A short name for logs and the metric's label.
    pub fn reason(self) -> &'static str {
        match self {
            Error::StorefrontSignature | Error::PaymentSignature => "signature",
            Error::Duplicate => "duplicate",
            Error::BodyTooLarge => "too_large",
            Error::BodyIncomplete | Error::BodyTooSlow => "body",
            Error::ContentEncoding => "encoding",
            Error::TopicHeader
            | Error::ShopHeader
            | Error::ShopUnknown
            | Error::WebhookIdHeader => "header",
            Error::NotJson | Error::NotAnObject | Error::Envelope => "json",
            Error::RateLimited(_) => "rate",
            Error::Unavailable => "unavailable",
            Error::ApiKey => "api_key",
            Error::OrderId | Error::ShopQuery | Error::OrderAmbiguous => "request",
            Error::OrderNotFound
            | Error::ParcelNotFound
            | Error::QrNotFound
            | Error::RouteNotFound => "not_found",
            Error::Method => "method",
            Error::Internal => "internal",
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (_, _, text) = self.answer();
        self.with_body(Json(json!({ "detail": text })))
    }
}

impl From<Unavailable> for Error {
    fn from(_: Unavailable) -> Self {
        Error::Unavailable
    }
}

/// A database that does not answer a read: logged here, once, and hidden from the client.
impl From<common::sql::Error> for Error {
    fn from(error: common::sql::Error) -> Self {
        tracing::error!(%error, "the database did not answer");
        if common::sql::is_connection_error(&error) {
            Error::Unavailable
        } else {
            Error::Internal
        }
    }
}
