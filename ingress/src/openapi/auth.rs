//! The operations of device logins, and those that need an access token.

use std::time::Duration;

use providers::identity::GRANT_TYPE;
use serde_json::{Value, json};

use super::operation::{Operation, Shape, get, in_query, post};
use crate::error::Error;
use crate::routes::{AuthorizationServer, DeviceCode, Login, Templates};
use crate::validation::Validated;

const WAIT: Duration = Duration::from_mins(1);

/// The errors of every request that asks the identity provider.
const OF_THE_PROVIDER: [Error; 5] = [
    Error::RateLimited(WAIT),
    Error::ProviderUnavailable(WAIT),
    Error::LoginNotSetUp,
    Error::Unavailable,
    Error::Internal,
];

const OF_A_POLL: [Error; 8] = [
    Error::AuthorizationPending,
    Error::SlowDown(WAIT),
    Error::DeviceCodeInvalid,
    Error::DeviceCodeExpired,
    Error::DeviceCodeParameter,
    Error::AccessDenied,
    Error::GrantType,
    Error::GrantTypeTwice,
];

const OF_A_FORM: [Error; 5] = [
    Error::FormEncoding,
    Error::NotAnObject,
    Error::BodyTooLarge,
    Error::BodyTooSlow,
    Error::BodyIncomplete,
];

const OF_A_TOKEN: [Error; 5] = [
    Error::AuthHeader,
    Error::TokenInvalid,
    Error::TokenRevoked,
    Error::NoVerifiedEmail,
    Error::AccountSuspended,
];

pub fn operations() -> Vec<Operation> {
    let code = login(post("/auth/device/code", "beginLogin", "Begin a login"))
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
    let poll = poll(post(
        "/auth/device/token",
        "pollLogin",
        "What has become of a login",
    ))
    .about("Not more often than every `interval` seconds. A body may also be JSON.")
    .takes(form())
    .errors(&OF_A_FORM);
    let legacy = self::poll(get(
        "/auth/device/token",
        "pollLoginByQuery",
        "The same with a query, for old clients",
    ))
    .about("A proxy's access log shows the code: prefer the form.")
    .parameters(query());
    let validate = by_token(get("/auth/validate", "validateToken", "Whose a token is"))
        .about("Remember an answer for 5 to 10 seconds. A token is validated 100 times a minute at most.")
        .answers::<Validated>(200, "The user and their licence.");
    let templates = by_token(get(
        "/templates/list",
        "listTemplates",
        "The templates of the caller's tier",
    ))
    .answers::<Templates>(200, "The templates.");
    let discovery = login(get(
        "/.well-known/oauth-authorization-server",
        "discoverLogin",
        "Where OAuth clients log in (RFC 8414)",
    ))
    .answers::<AuthorizationServer>(200, "The endpoints, and what they take.")
    .errors(&[Error::LoginNotSetUp]);
    vec![code, poll, legacy, validate, templates, discovery]
}

fn login(operation: Operation) -> Operation {
    operation.tag("Login").errors_as(Shape::DeviceLogin)
}

fn poll(operation: Operation) -> Operation {
    login(operation)
        .answers::<Login>(200, "The token, the user and their tier.")
        .errors(&OF_A_POLL)
        .errors(&[
            Error::NoVerifiedEmail,
            Error::AccountSuspended,
            Error::TokenInvalid,
        ])
        .errors(&OF_THE_PROVIDER[1..])
}

fn by_token(operation: Operation) -> Operation {
    operation
        .tag("Login")
        .needs("accessToken")
        .errors(&OF_A_TOKEN)
        .errors(&OF_THE_PROVIDER)
}

fn code_schema() -> Value {
    json!({"type": "string", "minLength": 1, "description": "From `beginLogin`."})
}

fn grant_type() -> Value {
    json!({"type": "string", "enum": [GRANT_TYPE], "default": GRANT_TYPE})
}

fn form() -> Value {
    let schema = json!({
        "type": "object",
        "required": ["device_code"],
        "properties": {"device_code": code_schema(), "grant_type": grant_type()},
    });
    let example = json!({"device_code": DEVICE_CODE, "grant_type": GRANT_TYPE});
    json!({
        "application/x-www-form-urlencoded": {"schema": schema, "example": example},
        "application/json": {"schema": schema, "example": example},
    })
}

fn query() -> [Value; 2] {
    let mut code = in_query(
        "device_code",
        "From `beginLogin`.",
        &code_schema(),
        DEVICE_CODE,
    );
    code["required"] = true.into();
    let kind = in_query("grant_type", "May be left out.", &grant_type(), GRANT_TYPE);
    [code, kind]
}

const DEVICE_CODE: &str = "3584d83530557fdd1f46af8289938c8ef79f9dc5";
