//! The control requests of the identity provider.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Sent, Shown, Unusable};
use crate::fault::Answer;
use crate::identity::{CodeError, Email, Limit, LoginRules, Route, User};
use crate::server::App;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

pub fn routes() -> Router<App> {
    Router::new()
        .route("/_control/identity/approve", post(approve))
        .route("/_control/identity/deny", post(deny))
        .route("/_control/identity/expire", post(expire))
        .route("/_control/identity/slow_down", post(slow_down))
        .route("/_control/identity/rules", post(rules))
        .route("/_control/identity/limit", post(limit).delete(lift_limits))
        .route("/_control/identity/answer", post(answer))
        .route("/_control/identity/token", post(token))
        .route("/_control/identity/revoke", post(revoke))
        .route("/_control/identity/user", post(user))
}

/// The settings as the page for people shows them.
pub fn help(url: &str) -> String {
    let url = format!("{url}/_control/identity");
    format!(
        "Decide about a device's code without the page, or end it; sign in without a device:\n\
         \x20 curl {url}/approve --json '{{\"user_code\":\"WDJB-MJHT\",\"login\":\"octavia\"}}'\n\
         \x20 curl {url}/deny --json '{{\"user_code\":\"WDJB-MJHT\"}}'\n\
         \x20 curl {url}/expire --json '{{\"user_code\":\"WDJB-MJHT\"}}'\n\
         \x20 curl {url}/token --json '{{\"login\":\"octavia\",\"scopes\":[\"read:user\"]}}'\n\
         \x20 curl {url}/revoke --json '{{\"token\":\"gho_..\"}}'\n\
         \x20 curl {url}/user --json \\\n\
         \x20   '{{\"login\":\"ada\",\"emails\":[{{\"email\":\"ada@example.com\",\"primary\":true,\"verified\":true}}]}}'\n\
         \n\
         What logins go by; what is not named is as usual:\n\
         \x20 curl {url}/rules --json '{{\"interval\":1,\"expires_in\":60}}'\n\
         \x20 expires_in              seconds that a device code is good\n\
         \x20 interval                seconds between two polls\n\
         \x20 device_flow             false: device_flow_disabled\n\
         \x20 unknown_after_approval  polls that still get incorrect_device_code\n\
         \x20 granted                 [\"read:user\"]: no more than these scopes\n\
         \x20 token_life              seconds that a token is good, as that of a GitHub App\n\
         \x20 calls_per_hour          of one user to the API\n\
         \x20 lock_after              bad tokens, then every token gets 403 for \"lock_seconds\"\n\
         \x20 curl {url}/slow_down --json '{{\"polls\":2}}' answers the next polls slow_down\n\
         \n\
         Let the API refuse every call for so many seconds, with 403 or 429:\n\
         \x20 curl {url}/limit --json '{{\"limit\":\"primary\",\"seconds\":60,\"status\":429}}'\n\
         \x20 curl {url}/limit --json '{{\"limit\":\"secondary\",\"seconds\":60,\"retry_after\":5}}'\n\
         \x20 curl -X DELETE {url}/limit\n\
         \n\
         Answer the next calls of a route word for word:\n\
         \x20 curl {url}/answer --json \\\n\
         \x20   '{{\"route\":\"user\",\"times\":2,\"status\":502,\"headers\":{{}},\"body\":\"Bad gateway\"}}'\n"
    )
}

type Done = Result<StatusCode, Unusable>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Approval {
    user_code: String,
    login: String,
}

async fn approve(State(app): State<App>, Sent(new): Sent<Approval>) -> Done {
    decided(app.identity.approve(&new.user_code, &new.login))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Code {
    user_code: String,
}

async fn deny(State(app): State<App>, Sent(code): Sent<Code>) -> Done {
    decided(app.identity.deny(&code.user_code))
}

async fn expire(State(app): State<App>, Sent(code): Sent<Code>) -> Done {
    decided(app.identity.expire(&code.user_code))
}

fn decided(done: Result<(), CodeError>) -> Done {
    let done = done.map(|()| StatusCode::NO_CONTENT);
    done.map_err(|error| Unusable(error.to_string()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SlowDown {
    polls: u32,
}

async fn slow_down(State(app): State<App>, Sent(new): Sent<SlowDown>) -> Done {
    app.identity.slow_down(new.polls);
    Ok(StatusCode::NO_CONTENT)
}

/// The rules to set. A rule that is not named gets its usual value.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRules {
    expires_in: Option<u64>,
    interval: Option<u64>,
    device_flow: Option<bool>,
    unknown_after_approval: Option<u32>,
    granted: Option<Vec<String>>,
    token_life: Option<u64>,
    calls_per_hour: Option<u32>,
    lock_after: Option<u32>,
    lock_seconds: Option<u64>,
}

async fn rules(State(app): State<App>, Sent(new): Sent<NewRules>) -> Done {
    let usual = LoginRules::default();
    app.identity.set_rules(LoginRules {
        expires_in: seconds("expires_in", new.expires_in, 1, DAY)?.unwrap_or(usual.expires_in),
        interval: seconds("interval", new.interval, 0, HOUR)?.unwrap_or(usual.interval),
        device_flow: new.device_flow.unwrap_or(usual.device_flow),
        unknown_after_approval: new.unknown_after_approval.unwrap_or_default(),
        granted: new.granted,
        token_life: seconds("token_life", new.token_life, 1, 365 * DAY)?,
        calls_per_hour: new.calls_per_hour.unwrap_or(usual.calls_per_hour),
        lock_after: new.lock_after,
        lock_for: seconds("lock_seconds", new.lock_seconds, 1, DAY)?.unwrap_or(usual.lock_for),
    });
    Ok(StatusCode::NO_CONTENT)
}

fn seconds(
    name: &str,
    given: Option<u64>,
    least: u64,
    most: u64,
) -> Result<Option<Duration>, Unusable> {
    match given {
        Some(seconds) if !(least..=most).contains(&seconds) => Err(Unusable(format!(
            "{name}: expected {least} to {most} seconds"
        ))),
        given => Ok(given.map(Duration::from_secs)),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewLimit {
    limit: LimitName,
    status: Option<u16>,
    seconds: u64,
    retry_after: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LimitName {
    Primary,
    Secondary,
}

async fn limit(State(app): State<App>, Sent(new): Sent<NewLimit>) -> Done {
    let status = new.status.unwrap_or(403);
    if ![403, 429].contains(&status) {
        return Err(Unusable("status: expected 403 or 429".to_owned()));
    }
    let retry_after = seconds("retry_after", new.retry_after, 0, DAY)?;
    let lasting = seconds("seconds", Some(new.seconds), 1, DAY)?;
    let limit = match new.limit {
        LimitName::Primary if retry_after.is_some() => {
            let expected = "retry_after: only the secondary limit has it";
            return Err(Unusable(expected.to_owned()));
        }
        LimitName::Primary => Limit::Primary { status },
        LimitName::Secondary => Limit::Secondary {
            status,
            retry_after,
        },
    };
    app.identity.limit(limit, lasting.unwrap_or_default());
    Ok(StatusCode::NO_CONTENT)
}

async fn lift_limits(State(app): State<App>) -> StatusCode {
    app.identity.lift_limits();
    StatusCode::NO_CONTENT
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewAnswer {
    route: Route,
    times: Option<u32>,
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The body of the answer. A text is sent as it is, and any other value as JSON.
    #[serde(default)]
    body: Value,
}

async fn answer(State(app): State<App>, Sent(new): Sent<NewAnswer>) -> Done {
    let status = new.status.unwrap_or(200);
    if !(200..=599).contains(&status) {
        return Err(Unusable("status: expected 200 to 599".to_owned()));
    }
    for (name, value) in &new.headers {
        let good = HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value).is_ok();
        if !good {
            return Err(Unusable(format!("headers: {name:?} cannot be sent")));
        }
    }
    let body = match new.body {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    };
    let answer = Answer {
        status,
        headers: new.headers.into_iter().collect(),
        body,
    };
    let times = new.times.unwrap_or(1);
    app.identity.answer_next(new.route, times, answer);
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewToken {
    login: String,
    scopes: Option<Vec<String>>,
}

async fn token(State(app): State<App>, Sent(new): Sent<NewToken>) -> Shown {
    let scopes = match &new.scopes {
        None => vec!["read:user", "user:email"],
        Some(scopes) => scopes.iter().map(String::as_str).collect(),
    };
    let token = app.identity.issue(&new.login, &scopes);
    let token = token.ok_or_else(|| Unusable(CodeError::UnknownUser.to_string()))?;
    Ok(Json(json!({"token": token})))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OldToken {
    token: String,
}

async fn revoke(State(app): State<App>, Sent(old): Sent<OldToken>) -> Done {
    if app.identity.revoke(&old.token) {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Unusable("there is no such good token".to_owned()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewUser {
    login: String,
    id: Option<u64>,
    name: Option<String>,
    #[serde(default)]
    emails: Vec<Email>,
}

async fn user(State(app): State<App>, Sent(new): Sent<NewUser>) -> Shown {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    if new.login.is_empty() || !new.login.chars().all(letter) {
        let expected = "login: expected letters, digits and hyphens";
        return Err(Unusable(expected.to_owned()));
    }
    let mut user = User::new(&new.login, new.name.as_deref(), new.emails);
    user.id = new.id.unwrap_or(user.id);
    let answer = json!({"login": user.login, "id": user.id});
    app.identity.add_user(user);
    Ok(Json(answer))
}
