//! A service whose identity provider is the sandbox, and people who log in with it.

use std::time::Duration;

use platform::clock::Clock;
use reqwest::Response;
use sandbox::{IDENTITY_CLIENT_ID, IDENTITY_CLIENT_SECRET, Identity, Route, Sandbox};
use serde_json::Value;

use super::{Options, START, Service, service};

pub struct Desk {
    pub sandbox: Sandbox,
    pub service: Service,
    pub clock: Clock,
}

/// An answer, read.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub code: Option<String>,
    /// Seconds.
    pub retry_after: Option<u64>,
    pub body: Value,
}

/// A desk whose clock stands still until it is moved.
pub async fn desk() -> Desk {
    desk_with(|options| options).await
}

pub async fn desk_with(options: impl FnOnce(Options) -> Options) -> Desk {
    let clock = Clock::manual(START);
    let sandbox = Sandbox::start(sandbox::Options {
        clock: clock.clone(),
        ..sandbox::Options::default()
    })
    .await
    .unwrap();
    let options = options(with_identity(service(), &sandbox).without_workers());
    let service = options.clock(&clock).start().await;
    Desk {
        sandbox,
        service,
        clock,
    }
}

/// The settings that lead to the sandbox's identity provider.
pub fn with_identity(options: Options, sandbox: &Sandbox) -> Options {
    options
        .setting("GITHUB_URL", &sandbox.identity_url())
        .setting("GITHUB_API_URL", &sandbox.identity_api_url())
        .setting("GITHUB_CLIENT_ID", IDENTITY_CLIENT_ID)
        .setting("GITHUB_CLIENT_SECRET", IDENTITY_CLIENT_SECRET)
        .setting("GITHUB_TOKEN_CHECKSUMS", "true")
}

impl Desk {
    pub fn identity(&self) -> &Identity {
        self.sandbox.identity()
    }

    pub async fn begin(&self) -> Answer {
        let request = self.service.post_to("/auth/device/code");
        read(request.send().await.unwrap()).await
    }

    /// Begins a login; its device code and user code.
    pub async fn code(&self) -> (String, String) {
        let answer = self.begin().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let text = |name: &str| answer.body[name].as_str().unwrap().to_owned();
        (text("device_code"), text("user_code"))
    }

    pub async fn poll(&self, device_code: &str) -> Answer {
        poll(&self.service, device_code).await
    }

    pub async fn validate(&self, token: &str) -> Answer {
        validate(&self.service, token).await
    }

    /// Logs someone in; their token.
    pub async fn log_in(&self, login: &str) -> String {
        let (device_code, user_code) = self.code().await;
        self.identity().approve(&user_code, login).unwrap();
        let answer = self.poll(&device_code).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body["access_token"].as_str().unwrap().to_owned()
    }

    /// Validates a token for a client behind a trusted proxy.
    pub async fn validate_for(&self, client: &str, token: &str) -> Answer {
        let request = self.service.get("/auth/validate").bearer_auth(token);
        let request = request.header("X-Forwarded-For", client);
        read(request.send().await.unwrap()).await
    }

    pub fn asked(&self, route: Route) -> u64 {
        self.identity().fault_injector(route).requests()
    }

    pub fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// The same with another process, which has only the database of the first one.
    pub async fn restarted(mut self, options: impl FnOnce(Options) -> Options) -> Self {
        let options = options(with_identity(service(), &self.sandbox).without_workers());
        let next = options.clock(&self.clock).start_beside(&self.service).await;
        std::mem::replace(&mut self.service, next).stop().await;
        self
    }

    pub async fn stop(self) {
        self.service.stop().await;
        self.sandbox.stop().await;
    }
}

pub async fn poll(service: &Service, device_code: &str) -> Answer {
    let form = [
        ("device_code", device_code),
        ("grant_type", providers::identity::GRANT_TYPE),
    ];
    let request = service.post_to("/auth/device/token").form(&form);
    read(request.send().await.unwrap()).await
}

pub async fn validate(service: &Service, token: &str) -> Answer {
    let request = service.get("/auth/validate").bearer_auth(token);
    read(request.send().await.unwrap()).await
}

pub async fn read(response: Response) -> Answer {
    let header = |name: &str| {
        let value = response.headers().get(name)?;
        Some(value.to_str().unwrap().to_owned())
    };
    Answer {
        status: response.status().as_u16(),
        code: header("x-error-code"),
        retry_after: header("retry-after").map(|text| text.parse().unwrap()),
        body: serde_json::from_str(&response.text().await.unwrap()).unwrap(),
    }
}
