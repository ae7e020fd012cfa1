//! `POST /auth/device/code`, `POST /auth/device/token` and its legacy form with a query. Bodies
//! are those of RFC 8628 with additional fields, so that any OAuth client can log in.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use domain::license::Tier;
use platform::token::Token;
use providers::identity::GRANT_TYPE;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::auth::{Client, OF_THE_PROVIDER};
use crate::App;
use crate::body;
use crate::error::Error;
use crate::login::{self, Authorized};
use crate::openapi::operation::{Operation, Shape, get, in_query, post, tagged};

const LARGEST_BODY: usize = 16 * 1024;

const OF_A_POLL: [Error; 15] = [
    Error::AuthorizationPending,
    Error::SlowDown(Duration::ZERO),
    Error::DeviceCodeInvalid,
    Error::DeviceCodeExpired,
    Error::DeviceCodeParameter,
    Error::AccessDenied,
    Error::GrantType,
    Error::GrantTypeTwice,
    Error::NoVerifiedEmail,
    Error::AccountSuspended,
    Error::TokenInvalid,
    Error::ProviderUnavailable(Duration::ZERO),
    Error::LoginNotSetUp,
    Error::Unavailable,
    Error::Internal,
];

pub fn routes() -> Vec<Operation> {
    let poll = |it: Operation| {
        it.answers::<Login>(200, "The token, the user and their tier.")
            .errors(&OF_A_POLL)
    };
    let begin = post("/auth/device/code", authorize)
        .is("beginLogin", "Begin a login")
        .about(
            "A person opens `verification_uri` in any browser and enters `user_code` there; meanwhile poll \
             with `device_code`. A client address begins five logins in 15 minutes.",
        )
        .answers::<DeviceCode>(200, "The codes.")
        .link(
            "pollLoginByQuery",
            "What has become of this login. `pollLogin` takes the same in a form.",
            &[("device_code", "$response.body#/device_code")],
        )
        .errors(&OF_THE_PROVIDER);
    let (code, kind) = (
        json!({"type": "string", "minLength": 1, "description": "From `beginLogin`."}),
        json!({"type": "string", "enum": [GRANT_TYPE], "default": GRANT_TYPE}),
    );
    let form = json!({
        "schema": {
            "type": "object",
            "required": ["device_code"],
            "properties": {"device_code": code, "grant_type": kind},
        },
        "example": {"device_code": DEVICE_CODE, "grant_type": GRANT_TYPE},
    });
    let by_form = post("/auth/device/token", token)
        .is("pollLogin", "What has become of a login")
        .about("Not more often than every `interval` seconds. The same as JSON is taken too, which some libraries send.")
        .takes(&json!({ "application/x-www-form-urlencoded": form }))
        .errors(&[Error::NotAnObject])
        .errors(&body::UNREADABLE);
    let mut code = in_query("device_code", "From `beginLogin`.", &code, DEVICE_CODE);
    code["required"] = true.into();
    let kind = in_query("grant_type", "May be left out.", &kind, GRANT_TYPE);
    let mut by_query = get("/auth/device/token", token_by_query)
        .is("pollLoginByQuery", "The same with a query, for old clients")
        .about("A proxy's access log shows the code: prefer the form.")
        .parameters([code, kind]);
    by_query.handler = by_query.handler.head(no_head);
    let all = [begin, poll(by_form), poll(by_query)];
    tagged("Login", all.map(|it| it.errors_as(Shape::DeviceLogin)))
}

const DEVICE_CODE: &str = "3584d83530557fdd1f46af8289938c8ef79f9dc5";

// No Debug: its code is as good as the token.
/// A login that has begun.
#[derive(Serialize, ToSchema)]
pub struct DeviceCode<'a> {
    /// Identifies the login; poll with it.
    #[schema(example = "3584d83530557fdd1f46af8289938c8ef79f9dc5")]
    device_code: &'a str,
    /// What the person types.
    #[schema(example = "WDJB-MJHT")]
    user_code: &'a str,
    /// Where the person types it.
    #[schema(example = "https://github.com/login/device")]
    verification_uri: &'a str,
    /// The same with the code in it, where the provider has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    verification_uri_complete: Option<&'a str>,
    /// Seconds.
    #[schema(example = 900)]
    expires_in: u64,
    /// Seconds between two polls, at least.
    #[schema(example = 5)]
    interval: u64,
}

// No Debug: the token is in it.
/// A login that has ended well.
#[derive(Serialize, ToSchema)]
pub struct Login<'a> {
    /// Opaque. Send it as `Authorization: Bearer <token>`.
    #[schema(example = "gho_..")]
    access_token: &'a str,
    /// `bearer`
    #[schema(example = "bearer")]
    token_type: &'static str,
    #[schema(example = "read:user,user:email")]
    scope: &'a str,
    /// Seconds, where the provider lets tokens end by themselves, as those of a GitHub App.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in: Option<u64>,
    /// Where tokens end: with it the client gets the next one from the provider itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_token: Option<&'a str>,
    /// Seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_token_expires_in: Option<u64>,
    /// The primary, verified address.
    #[schema(example = "octavia@example.com")]
    email: &'a str,
    #[schema(example = "octavia")]
    username: &'a str,
    /// The highest tier that the user may use now: `free` while no licence is active.
    tier: Tier,
    /// Whose licence that is, when it is an organization's.
    org_name: Option<&'a str>,
}

/// A device code, and a user code for a person to type at the provider.
pub async fn authorize(State(app): State<Arc<App>>, Client(client): Client) -> Response {
    match login::begin(&app, client).await {
        Err(error) => error.of_device_login(),
        Ok(code) => Json(DeviceCode {
            device_code: code.device_code.expose(),
            user_code: &code.user_code,
            verification_uri: &code.verification_uri,
            verification_uri_complete: code.verification_uri_complete.as_deref(),
            expires_in: code.expires_in,
            interval: code.interval,
        })
        .into_response(),
    }
}

/// What has become of the login with the `device_code` of the form.
pub async fn token(State(app): State<Arc<App>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let answer = async {
        let parameters = read(&parts.headers, body).await?;
        login::poll(&app, &device_code(parameters)?).await
    };
    answered(answer.await)
}

/// A poll with the code in the query, for old clients.
pub async fn token_by_query(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let answer = async {
        let query = uri.query().unwrap_or_default();
        login::poll(&app, &device_code(form(query.as_bytes()))?).await
    };
    answered(answer.await)
}

/// `HEAD` is refused, because a poll may hand out the token, and an answer without a body would
/// lose it.
pub async fn no_head() -> Response {
    let allow = [(header::ALLOW, "GET, POST")];
    (allow, Error::Method.of_device_login()).into_response()
}

fn answered(answer: Result<Authorized, Error>) -> Response {
    match answer {
        Err(error) => error.of_device_login(),
        Ok(login) => {
            let (tier, org_name) = login.holder.usable();
            Json(Login {
                access_token: login.granted.token.expose(),
                token_type: "bearer",
                scope: &login.granted.scope,
                expires_in: login.granted.expires_in,
                refresh_token: login.granted.refresh_token.as_ref().map(Token::expose),
                refresh_token_expires_in: login.granted.refresh_token_expires_in,
                email: &login.holder.email,
                username: &login.holder.username,
                tier,
                org_name,
            })
            .into_response()
        }
    }
}

type Parameters = Vec<(String, String)>;

/// Reads a form, as RFC 8628 demands, or JSON, which some libraries send.
async fn read(headers: &HeaderMap, body: Body) -> Result<Parameters, Error> {
    let body = body::read(headers, body, LARGEST_BODY).await?;
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let json = b"application/json";
    let is_json = kind
        .and_then(|kind| kind.get(..json.len()))
        .is_some_and(|kind| kind.eq_ignore_ascii_case(json));
    if !is_json {
        return Ok(form(&body));
    }
    let Ok(Value::Object(object)) = serde_json::from_slice(&body) else {
        return Err(Error::NotAnObject);
    };
    let texts = object.into_iter().filter_map(|(name, value)| match value {
        Value::String(text) => Some((name, text)),
        _ => None,
    });
    Ok(texts.collect())
}

fn form(text: &[u8]) -> Parameters {
    form_urlencoded::parse(text)
        .map(|(name, value)| (Cow::into_owned(name), Cow::into_owned(value)))
        .collect()
}

/// The device code, if the `grant_type` is one that Waybill supports. A parameter without a value
/// counts as omitted, and none may be given twice (RFC 6749, section 3.2).
fn device_code(mut parameters: Parameters) -> Result<String, Error> {
    parameters.retain(|(_, value)| !value.is_empty());
    let given = |wanted: &str| {
        let mut values = parameters.iter().filter(|(name, _)| name == wanted);
        (values.next().map(|(_, value)| value), values.next())
    };
    match given("grant_type") {
        (_, Some(_)) => return Err(Error::GrantTypeTwice),
        (Some(kind), None) if kind != GRANT_TYPE => return Err(Error::GrantType),
        _ => {}
    }
    match given("device_code") {
        (Some(code), None) => Ok(code.clone()),
        _ => Err(Error::DeviceCodeParameter),
    }
}
