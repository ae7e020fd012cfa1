//! The API's errors: `{"message": .., "documentation_url": .., "status": "401"}`.

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use serde_json::json;

use super::users::User;

const REST: &str = "https://docs.github.com/rest";
pub const USER: &str = "https://docs.github.com/rest/users/users#get-the-authenticated-user";
const EMAILS: &str = "https://docs.github.com/rest/users/emails\
                      #list-email-addresses-for-the-authenticated-user";
pub const CHECK_TOKEN: &str = "https://docs.github.com/rest/apps/oauth-applications#check-a-token";
const VERSIONS: &str = "https://docs.github.com/rest/about-the-rest-api/api-versions";
const PRIMARY: &str =
    "https://docs.github.com/rest/overview/resources-in-the-rest-api#rate-limiting";
const SECONDARY: &str = "https://docs.github.com/rest/overview/\
                         rate-limits-for-the-rest-api#about-secondary-rate-limits";
/// The error is an HTML page, because it comes from a proxy in front of the API.
const NO_AGENT: &str = "\r\nRequest forbidden by administrative rules. Please make sure your \
    request has a User-Agent header (https://docs.github.com/en/rest/overview/\
    resources-in-the-rest-api#user-agent-required). Check https://developer.github.com for \
    other possible causes.\r\n";

#[derive(Debug)]
pub struct ApiError(Box<Response>);

/// The answer as the API gives it.
pub fn error(status: StatusCode, message: &str) -> Response {
    ApiError::new(status, message, REST).into_response()
}

impl ApiError {
    pub fn new(status: StatusCode, message: &str, documentation_url: &str) -> Self {
        let body = json!({
            "message": message,
            "documentation_url": documentation_url,
            "status": status.as_u16().to_string(),
        });
        ApiError(Box::new((status, Json(body)).into_response()))
    }

    /// The error in the older form, which errors about limits still have.
    fn without_status(status: StatusCode, message: &str, documentation_url: &str) -> Self {
        let body = json!({"message": message, "documentation_url": documentation_url});
        ApiError(Box::new((status, Json(body)).into_response()))
    }

    #[must_use]
    pub fn with(mut self, headers: HeaderMap) -> Self {
        self.0.headers_mut().extend(headers);
        self
    }

    pub fn no_agent() -> Self {
        ApiError(Box::new(
            (StatusCode::FORBIDDEN, Html(NO_AGENT)).into_response(),
        ))
    }

    pub fn version(version: &str) -> Self {
        let message = format!("Version {version} is not supported.");
        ApiError::new(StatusCode::BAD_REQUEST, &message, VERSIONS)
    }

    pub fn not_found(documentation_url: &str) -> Self {
        ApiError::new(StatusCode::NOT_FOUND, "Not Found", documentation_url)
    }

    pub fn unknown_path() -> Self {
        ApiError::not_found(REST)
    }

    /// The token may not read e-mail addresses.
    pub fn no_emails() -> Self {
        ApiError::not_found(EMAILS)
    }

    pub fn bad_credentials() -> Self {
        ApiError::new(StatusCode::UNAUTHORIZED, "Bad credentials", REST)
    }

    pub fn requires_authentication(path: &str) -> Self {
        let documentation_url = match path {
            "/user" => USER,
            "/user/emails" => EMAILS,
            _ => CHECK_TOKEN,
        };
        let message = "Requires authentication";
        ApiError::new(StatusCode::UNAUTHORIZED, message, documentation_url)
    }

    pub fn locked_out() -> Self {
        let message = "Maximum number of login attempts exceeded. Please try again later.";
        ApiError::new(StatusCode::FORBIDDEN, message, REST)
    }

    /// The calls of this hour are used up. The status is 403 or 429.
    pub fn used_up(status: StatusCode, user: Option<&User>) -> Self {
        let whose = match user {
            Some(user) => format!("user ID {}", user.id),
            None => "127.0.0.1".to_owned(),
        };
        let message = format!("API rate limit exceeded for {whose}.");
        ApiError::without_status(status, &message, PRIMARY)
    }

    pub fn secondary(status: StatusCode) -> Self {
        let message = "You have exceeded a secondary rate limit. Please wait a few minutes \
                       before you try again.";
        ApiError::without_status(status, message, SECONDARY)
    }

    pub fn no_token_given() -> Self {
        let message = "Invalid request.\n\n\"access_token\" wasn't supplied.";
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, message, CHECK_TOKEN)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        *self.0
    }
}
