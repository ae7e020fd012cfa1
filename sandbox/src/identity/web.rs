//! The web side over HTTP, where a device asks for a code and then for its token.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::middleware;
use axum::response::Response;
use axum::routing::post;

use super::encoding::Call;
use super::refusal::Refusal;
use super::{Identity, Route, authorize, page};
use crate::fault_injector;
use crate::page::problem;
use crate::{IDENTITY_CLIENT_ID, IDENTITY_CLIENT_SECRET};

const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";

pub fn routes(identity: Identity) -> Router {
    let fault_injector = |route| {
        middleware::from_fn_with_state(identity.fault_injector(route).clone(), fault_injector::pass)
    };
    let code = post(device_code).route_layer(fault_injector(Route::DeviceCode));
    let token = post(access_token).route_layer(fault_injector(Route::AccessToken));
    Router::new()
        .route("/login/device/code", code)
        .route("/login/oauth/access_token", token)
        .merge(page::routes())
        .merge(authorize::routes())
        .fallback(not_found)
        .method_not_allowed_fallback(not_found)
        .with_state(identity)
}

async fn not_found() -> Response {
    problem(
        StatusCode::NOT_FOUND,
        "This is not the page you are looking for",
    )
}

async fn device_code(State(identity): State<Identity>, call: Call) -> Response {
    let given = match call.field("client_id") {
        Some(IDENTITY_CLIENT_ID) => identity.open(call.field("scope").unwrap_or_default()),
        _ => Err(Refusal::NotFound),
    };
    call.answer(given)
}

async fn access_token(State(identity): State<Identity>, call: Call) -> Response {
    let secret = call.field("client_secret");
    let known = call.field("client_id") == Some(IDENTITY_CLIENT_ID)
        && secret.is_none_or(|secret| secret == IDENTITY_CLIENT_SECRET);
    let given = if !known {
        Err(Refusal::IncorrectClientCredentials)
    } else if let Some(code) = call.field("code") {
        let field = |name| call.field(name).unwrap_or_default();
        match secret {
            None => Err(Refusal::IncorrectClientCredentials),
            Some(_) => identity.token_of(code, field("redirect_uri"), field("code_verifier")),
        }
    } else if call.field("grant_type") != Some(DEVICE_CODE) {
        Err(Refusal::UnsupportedGrantType)
    } else {
        identity.poll(call.field("device_code").unwrap_or_default())
    };
    call.answer(given)
}
