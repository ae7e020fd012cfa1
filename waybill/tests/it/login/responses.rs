//! Every recorded or documented answer of the identity provider is given to Waybill word for word,
//! and the tests check what Waybill does then.

use sandbox::{Answer, Route};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::login::{self, Desk, desk, desk_with};

const RESPONSES: &str = include_str!("../../fixtures/github/responses.json");

#[derive(Deserialize)]
struct Responses {
    responses: Vec<Response>,
}

#[derive(Deserialize)]
struct Response {
    name: String,
    endpoint: String,
    status: u16,
    headers: serde_json::Map<String, Value>,
    body: Value,
}

fn responses() -> Vec<Response> {
    let all: Responses = serde_json::from_str(RESPONSES).unwrap();
    all.responses
}

impl Response {
    fn named(name: &str) -> Self {
        let mut all = responses().into_iter();
        all.find(|one| one.name == name).unwrap()
    }

    fn answer(&self) -> Answer {
        let headers = self.headers.iter();
        Answer {
            status: self.status,
            headers: headers
                .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
                .collect(),
            body: match &self.body {
                Value::String(text) => text.clone(),
                json => json.to_string(),
            },
        }
    }

    /// The route that answers so; none of what we never ask.
    fn route(&self) -> Option<Route> {
        match self.endpoint.as_str() {
            "POST /login/device/code" => Some(Route::DeviceCode),
            "POST /login/oauth/access_token" => Some(Route::AccessToken),
            "GET /user" => Some(Route::User),
            "GET /user/emails" => Some(Route::Emails),
            "POST /applications/{client_id}/token" => Some(Route::CheckToken),
            _ => None,
        }
    }
}

/// What must follow: a status and an excerpt of the body. None: we never ask.
fn expected(name: &str) -> Option<(u16, Value)> {
    let login = |email: &str| json!({"email": email, "username": "octocat"});
    Some(match name {
        "device_code_json" | "device_code_form_default" => (
            200,
            json!({
                "device_code": "3584d83530557fdd1f46af8289938c8ef79f9dc5",
                "user_code": "WDJB-MJHT",
                "verification_uri": "https://github.com/login/device",
                "expires_in": 900, "interval": 5,
            }),
        ),
        "device_code_expires_899" => (200, json!({"expires_in": 899, "interval": 5})),
        "rfc8628_device_code_no_interval" => (
            200,
            json!({
                "interval": 5, "user_code": "NCDB-TTGD",
                "verification_uri_complete":
                    "http://127.0.0.1:18930/login/device?user_code=NCDB-TTGD",
            }),
        ),
        // Our settings are wrong, or nobody answers: nothing that a person did.
        "device_flow_disabled" | "unknown_client_id" => {
            (503, json!({"error": "temporarily_unavailable"}))
        }
        "token_json" | "token_form_default" => (200, json!({"scope": "repo gist"})),
        "token_json_our_scopes" => (
            200,
            json!({
                "access_token": "gho_16C7e42F292c6912E7710c838347Ae178B4a",
                "token_type": "bearer", "scope": "read:user user:email",
            }),
        ),
        "token_reduced_scope" => (200, json!({"scope": "read:user"})),
        // The first four are of a poll, whose client would give the login up; of the last two: said once, it may be
        // the moment after the approval.
        "unsupported_grant_type"
        | "incorrect_client_credentials"
        | "token_missing_scope_and_error"
        | "server_error_html"
        | "authorization_pending"
        | "rfc8628_pending_400"
        | "incorrect_device_code"
        | "rfc8628_unknown_code_400" => (428, json!({"error": "authorization_pending"})),
        "slow_down" | "slow_down_form" => (429, json!({"error": "slow_down"})),
        "expired_token" => (
            400,
            json!({"error": "expired_token", "detail": "expired_token"}),
        ),
        "access_denied" => (
            400,
            json!({"error": "access_denied", "detail": "access_denied"}),
        ),
        "user_private_profile" | "user_public_profile" | "user_email_null" => {
            (200, login("octavia@example.com"))
        }
        "emails_official" => (200, json!({"email": "octocat@github.com"})),
        "emails_many" => (200, json!({"email": "octocat@example.com"})),
        "emails_primary_unverified" | "emails_empty" | "emails_scope_missing" => {
            (403, json!({"detail": "No verified e-mail"}))
        }
        "bad_credentials"
        | "bad_credentials_old_form"
        | "no_authorization"
        | "check_token_invalid" => (401, json!({"detail": "Invalid GitHub token"})),
        "failed_login_limit"
        | "primary_rate_limit"
        | "secondary_rate_limit"
        | "secondary_rate_limit_429_no_retry_after"
        | "unsupported_api_version" => (503, json!({})),
        "check_token_ok" => (200, json!({"username": "octavia"})),
        "orgs_official" | "orgs_scope_missing" | "memberships_official" | "public_orgs_of_user" => {
            return None;
        }
        other => panic!("{other}: nobody has said what must follow"),
    })
}

/// Begins a login, approves it, or has a token validated, with the one answer in its place.
async fn shown(desk: &Desk, response: &Response, route: Route) -> login::Answer {
    let identity = desk.identity();
    match route {
        Route::DeviceCode => {
            identity.answer_next(route, 1, response.answer());
            desk.begin().await
        }
        Route::AccessToken => {
            let (device_code, _) = desk.code().await;
            identity.answer_next(route, 1, response.answer());
            for route in [Route::User, Route::Emails] {
                let name = match route {
                    Route::User => "user_public_profile",
                    _ => "emails_official",
                };
                identity.answer_next(route, 1, Response::named(name).answer());
            }
            desk.poll(&device_code).await
        }
        _ => {
            let token = identity.issue("octavia", &["read:user", "user:email"]);
            identity.answer_next(route, 1, response.answer());
            desk.validate(&token.unwrap()).await
        }
    }
}

fn contains(body: &Value, excerpt: &Value) -> bool {
    let excerpt = excerpt.as_object().unwrap();
    excerpt.iter().all(|(name, value)| body[name] == *value)
}

#[tokio::test]
async fn every_recorded_answer_leads_to_ours() {
    for response in responses() {
        let name = &response.name;
        let Some((status, excerpt)) = expected(name) else {
            assert_eq!(response.route(), None, "{name}: we never ask");
            continue;
        };
        let desk = desk().await;
        let answer = shown(&desk, &response, response.route().unwrap()).await;
        assert_eq!(answer.status, status, "{name}: {answer:?}");
        assert!(contains(&answer.body, &excerpt), "{name}: {answer:?}");
        let waits = [429, 503].contains(&status);
        assert_eq!(answer.retry_after.is_some(), waits, "{name}: {answer:?}");
        desk.stop().await;
    }
}

#[tokio::test]
async fn a_limit_says_how_long_and_is_at_least_a_minute_when_it_does_not() {
    for (name, wait) in [
        ("secondary_rate_limit", 60),
        ("secondary_rate_limit_429_no_retry_after", 60),
        ("failed_login_limit", 60),
        // It began anew before our clock's time.
        ("primary_rate_limit", 1),
        ("slow_down", 10),
    ] {
        let desk = desk().await;
        let response = Response::named(name);
        let answer = shown(&desk, &response, response.route().unwrap()).await;
        assert_eq!(answer.retry_after, Some(wait), "{name}");
        desk.stop().await;
    }
}

#[tokio::test]
async fn an_unknown_code_said_twice_is_true() {
    for name in ["incorrect_device_code", "rfc8628_unknown_code_400"] {
        let desk = desk().await;
        let (device_code, _) = desk.code().await;
        let answer = Response::named(name).answer();
        desk.identity().answer_next(Route::AccessToken, 2, answer);
        assert_eq!(desk.poll(&device_code).await.status, 428, "{name}");
        desk.pass(5);
        assert_eq!(desk.poll(&device_code).await.status, 404, "{name}");
        desk.stop().await;
    }
}

#[tokio::test]
async fn our_own_bad_credentials_are_not_the_tokens_fault() {
    let desk = desk_with(|options| options.setting("GITHUB_CLIENT_SECRET", "wrong-secret")).await;
    let token = desk.identity().issue("octavia", &["user"]).unwrap();
    assert_eq!(desk.validate(&token).await.status, 503);
    desk.stop().await;
}
