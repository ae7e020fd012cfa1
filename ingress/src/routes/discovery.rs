//! `GET /.well-known/oauth-authorization-server`: where OAuth clients find the endpoints of a device
//! login, and what these take (RFC 8414). Nothing in it is private, so every origin may read it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use providers::identity::{GRANT_TYPE, SCOPE};
use serde::Serialize;
use utoipa::ToSchema;

use crate::App;
use crate::error::Error;
use crate::openapi::operation::{Operation, Shape, get, tagged};

pub fn routes() -> Vec<Operation> {
    let show = get("/.well-known/oauth-authorization-server", show)
        .is("discoverLogin", "Where OAuth clients log in (RFC 8414)")
        .answers::<AuthorizationServer>(200, "The endpoints, and what they take.")
        .errors_as(Shape::DeviceLogin)
        .errors(&[Error::LoginNotSetUp]);
    tagged("Login", [show])
}

/// How OAuth clients log in here.
#[derive(Serialize, ToSchema)]
pub struct AuthorizationServer {
    /// `PUBLIC_URL`.
    #[schema(example = "https://waybill.example")]
    issuer: String,
    #[schema(example = "https://waybill.example/auth/device/code")]
    device_authorization_endpoint: String,
    #[schema(example = "https://waybill.example/auth/device/token")]
    token_endpoint: String,
    /// The device grant alone.
    grant_types_supported: [&'static str; 1],
    /// None: there is no page of ours that a client sends people to.
    response_types_supported: [&'static str; 0],
    /// `none`: every client may log people in.
    token_endpoint_auth_methods_supported: [&'static str; 1],
    /// What a login always has; a client need not ask for it.
    scopes_supported: Vec<&'static str>,
    #[schema(example = "https://waybill.example/docs")]
    service_documentation: String,
}

pub async fn show(State(app): State<Arc<App>>) -> Result<Response, Error> {
    if app.identity.is_none() {
        return Err(Error::LoginNotSetUp);
    }
    let url = &app.config.public_url;
    let headers = [
        (header::CACHE_CONTROL, "public, max-age=300"),
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    ];
    let found = AuthorizationServer {
        issuer: url.clone(),
        device_authorization_endpoint: format!("{url}/auth/device/code"),
        token_endpoint: format!("{url}/auth/device/token"),
        grant_types_supported: [GRANT_TYPE],
        response_types_supported: [],
        token_endpoint_auth_methods_supported: ["none"],
        scopes_supported: SCOPE.split(' ').collect(),
        service_documentation: format!("{url}/docs"),
    };
    Ok((headers, Json(found)).into_response())
}
