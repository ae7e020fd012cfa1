//! A device that logs in at the identity provider, and the clock of its waits.

use std::time::Duration;

use platform::clock::Clock;
use reqwest::RequestBuilder;
use sandbox::{IDENTITY_CLIENT_ID, Options, Sandbox};
use serde_json::{Value, json};

use super::{NOW, client, read};

pub const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// A sandbox with its clock.
pub async fn clocked() -> (Sandbox, Clock) {
    let clock = Clock::manual(NOW);
    let options = Options {
        clock: clock.clone(),
        ..Options::default()
    };
    (Sandbox::start(options).await.unwrap(), clock)
}

/// A device that was given a code.
pub struct Device<'a> {
    sandbox: &'a Sandbox,
    clock: &'a Clock,
    pub code: String,
    pub user_code: String,
}

impl<'a> Device<'a> {
    pub async fn start(sandbox: &'a Sandbox, clock: &'a Clock) -> Self {
        let asked = ask_code(sandbox, "read:user user:email").send().await;
        let (status, given) = read(asked.unwrap()).await;
        assert_eq!(status, 200, "{given}");
        Device {
            sandbox,
            clock,
            code: given["device_code"].as_str().unwrap().to_owned(),
            user_code: given["user_code"].as_str().unwrap().to_owned(),
        }
    }

    /// Asks for the token. The provider answers 200 whatever it says.
    pub async fn poll(&self) -> Value {
        let (status, said) = read(ask_token(self.sandbox, &self.code).send().await.unwrap()).await;
        assert_eq!(status, 200, "{said}");
        said
    }

    pub async fn poll_after(&self, seconds: u64) -> Value {
        self.clock.advance(Duration::from_secs(seconds));
        self.poll().await
    }
}

pub fn ask_code(sandbox: &Sandbox, scope: &str) -> RequestBuilder {
    client()
        .post(format!("{}/login/device/code", sandbox.identity_url()))
        .header("Accept", "application/json")
        .form(&[("client_id", IDENTITY_CLIENT_ID), ("scope", scope)])
}

pub fn ask_token(sandbox: &Sandbox, device_code: &str) -> RequestBuilder {
    token_form(
        sandbox,
        &[
            ("client_id", IDENTITY_CLIENT_ID),
            ("device_code", device_code),
            ("grant_type", GRANT_TYPE),
        ],
    )
}

pub fn token_form(sandbox: &Sandbox, form: &[(&str, &str)]) -> RequestBuilder {
    client()
        .post(format!(
            "{}/login/oauth/access_token",
            sandbox.identity_url()
        ))
        .header("Accept", "application/json")
        .form(form)
}

/// A call to the API with a token.
pub fn api(sandbox: &Sandbox, path: &str, token: &str) -> RequestBuilder {
    api_without_token(sandbox, path).bearer_auth(token)
}

pub fn api_without_token(sandbox: &Sandbox, path: &str) -> RequestBuilder {
    client()
        .get(format!("{}{path}", sandbox.identity_api_url()))
        .header("User-Agent", "waybill")
        .header("Accept", "application/vnd.github+json")
        .header("X-GitHub-Api-Version", "2022-11-28")
}

/// A good token with the usual scopes.
pub fn token(sandbox: &Sandbox, login: &str) -> String {
    let token = sandbox
        .identity()
        .issue(login, &["read:user", "user:email"]);
    token.unwrap()
}

/// An error of the device flow, with what it is said with.
pub fn refusal(error: &str, description: &str) -> Value {
    let about = "https://docs.github.com/developers/apps/authorizing-oauth-apps\
                 #error-codes-for-the-device-flow";
    json!({"error": error, "error_description": description, "error_uri": about})
}
