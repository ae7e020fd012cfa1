//! The errors when a device gets no code or no token, as the provider writes them. Most of them
//! have the HTTP status 200.

use axum::http::StatusCode;
use serde_json::{Value, json};

const ABOUT_DEVICES: &str = "https://docs.github.com/developers/apps/authorizing-oauth-apps#error-codes-for-the-device-flow";
const ABOUT_CODES: &str = "https://docs.github.com/apps/managing-oauth-apps/troubleshooting-oauth-app-access-token-request-errors";
const ABOUT_ANYTHING: &str = "https://docs.github.com";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An unknown client asks for a code.
    NotFound,
    DeviceFlowDisabled,
    AuthorizationPending,
    /// The new interval between polls in seconds.
    SlowDown(u64),
    ExpiredToken,
    AccessDenied,
    IncorrectDeviceCode,
    UnsupportedGrantType,
    IncorrectClientCredentials,
    /// The code with which a browser came back is wrong, used or expired.
    BadVerificationCode,
    RedirectUriMismatch,
}

impl Refusal {
    pub fn status(self) -> StatusCode {
        match self {
            Refusal::NotFound => StatusCode::NOT_FOUND,
            Refusal::DeviceFlowDisabled => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        }
    }

    pub fn code(self) -> &'static str {
        self.words().0
    }

    pub fn body(self) -> Value {
        let (error, description, uri) = self.words();
        match self {
            Refusal::NotFound => json!({"error": error}),
            Refusal::SlowDown(interval) => json!({
                "error": error,
                "error_description": description,
                "error_uri": uri,
                "interval": interval,
            }),
            _ => json!({"error": error, "error_description": description, "error_uri": uri}),
        }
    }

    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Refusal::NotFound => ("Not Found", "", ""),
            Refusal::DeviceFlowDisabled => (
                "device_flow_disabled",
                "Device Flow must be explicitly enabled for this App",
                ABOUT_ANYTHING,
            ),
            Refusal::AuthorizationPending => (
                "authorization_pending",
                "The authorization request is still pending.",
                ABOUT_DEVICES,
            ),
            Refusal::SlowDown(_) => (
                "slow_down",
                "Too many requests have been made in the same timeframe.",
                ABOUT_ANYTHING,
            ),
            Refusal::ExpiredToken => (
                "expired_token",
                "This 'device_code' has expired.",
                ABOUT_DEVICES,
            ),
            Refusal::AccessDenied => (
                "access_denied",
                "The authorization request was denied.",
                ABOUT_DEVICES,
            ),
            Refusal::IncorrectDeviceCode => (
                "incorrect_device_code",
                "The device_code provided is not valid.",
                ABOUT_DEVICES,
            ),
            Refusal::UnsupportedGrantType => (
                "unsupported_grant_type",
                "The grant type must be urn:ietf:params:oauth:grant-type:device_code.",
                ABOUT_DEVICES,
            ),
            Refusal::BadVerificationCode => (
                "bad_verification_code",
                "The code passed is incorrect or expired.",
                ABOUT_CODES,
            ),
            Refusal::RedirectUriMismatch => (
                "redirect_uri_mismatch",
                "The redirect_uri MUST match the registered callback URL for this application.",
                ABOUT_CODES,
            ),
            Refusal::IncorrectClientCredentials => (
                "incorrect_client_credentials",
                "The client_id and/or client_secret passed are incorrect.",
                ABOUT_DEVICES,
            ),
        }
    }
}
