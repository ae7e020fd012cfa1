//! `GET /auth/validate`, and the extractors of the bearer token and of the client's address.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use providers::identity;

use crate::App;
use crate::api_key;
use crate::error::Error;
use crate::openapi::operation::{Input, Operation, get, tagged};
use crate::validation::{self, Validated};
use server::client_address;

/// How long a validation may take: longer than the provider's deadline and those of the database
/// before and after it.
const DEADLINE: Duration = Duration::from_secs(25);

/// The errors of every request that asks the identity provider.
pub const OF_THE_PROVIDER: [Error; 5] = [
    Error::RateLimited(DEADLINE),
    Error::ProviderUnavailable(DEADLINE),
    Error::LoginNotSetUp,
    Error::Unavailable,
    Error::Internal,
];

pub fn routes() -> Vec<Operation> {
    let validate = get("/auth/validate", validate)
        .is("validateToken", "Whose a token is")
        .about("Remember an answer for 5 to 10 seconds. A token is validated 100 times a minute at most.")
        .answers::<Validated>(200, "The user and their licence.");
    tagged("Login", [validate])
}

/// A bearer token that has the form of a token.
pub struct Bearer(pub String);

impl FromRequestParts<Arc<App>> for Bearer {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Error> {
        let token = api_key::bearer(parts).filter(|token| identity::is_token(token));
        let token = token.ok_or(Error::AuthHeader)?;
        Ok(Bearer(token.to_owned()))
    }
}

impl Input for Bearer {
    fn describe(operation: Operation) -> Operation {
        operation
            .needs("accessToken")
            .errors(&OF_THE_PROVIDER)
            .errors(&[
                Error::AuthHeader,
                Error::TokenInvalid,
                Error::TokenRevoked,
                Error::TokenExpired,
                Error::NoVerifiedEmail,
                Error::AccountSuspended,
            ])
    }
}

/// The client's address.
pub struct Client(pub IpAddr);

impl Input for Client {}

impl FromRequestParts<Arc<App>> for Client {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Error> {
        let trusted = &app.config.trusted_proxies;
        let client = client_address::of(&parts.extensions, &parts.headers, trusted);
        Ok(Client(client))
    }
}

/// The tier of who has the token.
pub async fn validate(
    State(app): State<Arc<App>>,
    Bearer(token): Bearer,
    Client(client): Client,
) -> Result<Response, Error> {
    let holder = validation::validate(&app, &token, client).await?;
    let json = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, json)], holder.json.clone()).into_response())
}

/// Wraps these routes: no answer may be stored in a cache (RFC 6749, section 5.1), and every
/// request gets an answer within the deadline.
pub async fn guard(request: Request, next: Next) -> Response {
    let is_device_login = request.uri().path().starts_with("/auth/device/");
    let answered = tokio::time::timeout(DEADLINE, next.run(request)).await;
    let mut response = answered.unwrap_or_else(|_| {
        if is_device_login {
            Error::Unavailable.of_device_login()
        } else {
            Error::Unavailable.into_response()
        }
    });
    let headers = response.headers_mut();
    headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
    response
}
