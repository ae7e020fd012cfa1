//! The caller of the API as an extractor. When a handler gets a [`Caller`] as an argument, the
//! request has a good token, and its user is known. All checks that refuse a call are here, in the
//! order of the real provider.

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use domain::time::Timestamp;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::error::ApiError;
use super::limits::{Limit, Rate};
use super::tokens::Token;
use super::users::User;
use super::{Books, Identity};
use crate::lock;

/// The versions of the API that the stand-in supports.
const VERSIONS: [&str; 1] = ["2022-11-28"];

pub struct Caller {
    pub user: User,
    pub token: Token,
    /// The tag of the answer that the caller has already.
    known: Option<HeaderValue>,
    /// The headers of every answer to this caller.
    headers: HeaderMap,
}

impl Caller {
    pub fn answer(&self, accepted_scopes: &'static str, answer: impl IntoResponse) -> Response {
        let mut answer = answer.into_response();
        answer.headers_mut().extend(self.headers.clone());
        let accepted = HeaderValue::from_static(accepted_scopes);
        let name = HeaderName::from_static("x-accepted-oauth-scopes");
        answer.headers_mut().insert(name, accepted);
        answer
    }

    /// The answer with its tag, or 304 where the caller has it already. A 304 is not counted.
    pub fn tagged(&self, identity: &Identity, accepted: &'static str, body: &Value) -> Response {
        let tag = hex::encode(Sha256::digest(body.to_string()));
        let tag = HeaderValue::try_from(format!("W/\"{tag}\"")).expect("hexadecimal digits");
        let answer = if self.known.as_ref() == Some(&tag) {
            lock(&identity.books).limits.take_back(&self.token.login);
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            Json(body).into_response()
        };
        ([(header::ETAG, tag)], self.answer(accepted, answer)).into_response()
    }
}

impl FromRequestParts<Identity> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, identity: &Identity) -> Result<Self, ApiError> {
        well_formed(&parts.headers)?;
        let now = identity.clock.now();
        let token = given_token(&parts.headers);
        let mut caller = lock(&identity.books).admit(token, now, parts.uri.path())?;
        caller.known = parts.headers.get(header::IF_NONE_MATCH).cloned();
        Ok(caller)
    }
}

/// The checks that every request must pass, whoever the caller is.
pub fn well_formed(headers: &HeaderMap) -> Result<(), ApiError> {
    let agent = headers.get(header::USER_AGENT);
    if agent.is_none_or(HeaderValue::is_empty) {
        return Err(ApiError::no_agent());
    }
    let version = headers.get("X-GitHub-Api-Version");
    match version.map(|version| version.to_str().unwrap_or_default()) {
        Some(version) if !VERSIONS.contains(&version) => Err(ApiError::version(version)),
        _ => Ok(()),
    }
}

impl Books {
    fn admit(
        &mut self,
        token: Option<&str>,
        now: Timestamp,
        path: &str,
    ) -> Result<Caller, ApiError> {
        let known = token.and_then(|text| self.tokens.get(text, now).cloned());
        let owner = known.as_ref().and_then(|token| self.user(&token.login));
        let owner = owner.cloned();
        let login = owner.as_ref().map(|user| user.login.as_str());
        let (rate, too_many) = self.limits.call(&self.rules, login, now);
        if let Some((limit, until)) = self.limits.imposed(now) {
            return Err(limited(limit, until, rate, owner.as_ref()));
        }
        let refused = |error: ApiError| Err(error.with(rate.headers()));
        if token.is_some() && self.limits.is_locked(now) {
            return refused(ApiError::locked_out());
        }
        match (token, known, owner) {
            (None, _, _) => refused(ApiError::requires_authentication(path)),
            (Some(_), Some(_), Some(user)) if too_many => {
                refused(ApiError::used_up(StatusCode::FORBIDDEN, Some(&user)))
            }
            (Some(_), Some(token), Some(user)) => Ok(Caller {
                headers: headers(rate, &token),
                known: None,
                user,
                token,
            }),
            (Some(_), _, _) => {
                self.limits.bad_token(&self.rules, now);
                refused(ApiError::bad_credentials())
            }
        }
    }

    /// The checks of calls that come with the app's own credentials.
    pub fn admit_app(&self, now: Timestamp) -> Result<(), ApiError> {
        match self.limits.imposed(now) {
            Some((limit, until)) => {
                let rate = Rate::uncounted(self.rules.calls_per_hour, until);
                Err(limited(limit, until, rate, None))
            }
            None => Ok(()),
        }
    }
}

fn limited(limit: Limit, until: Timestamp, rate: Rate, user: Option<&User>) -> ApiError {
    let status_of = |status| StatusCode::from_u16(status).unwrap_or(StatusCode::FORBIDDEN);
    match limit {
        Limit::Primary { status } => {
            let error = ApiError::used_up(status_of(status), user);
            error.with(rate.used_up(until).headers())
        }
        Limit::Secondary {
            status,
            retry_after,
        } => {
            let mut headers = rate.headers();
            if let Some(after) = retry_after {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs()));
            }
            ApiError::secondary(status_of(status)).with(headers)
        }
    }
}

fn headers(rate: Rate, token: &Token) -> HeaderMap {
    let mut headers = rate.headers();
    let mut put = |name, value| {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    };
    put("x-github-api-version-selected", VERSIONS[0]);
    put("x-github-media-type", "github.v3; format=json");
    if let Ok(scopes) = HeaderValue::from_str(&token.scopes.join(", ")) {
        headers.insert(HeaderName::from_static("x-oauth-scopes"), scopes);
    }
    headers
}

/// The token after `Bearer` or the older `token`. Any other text in the header counts as a bad
/// token.
fn given_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?;
    let value = value.to_str().unwrap_or_default();
    let (scheme, token) = value.split_once(' ').unwrap_or_default();
    let known = ["bearer", "token"].contains(&scheme.to_ascii_lowercase().as_str());
    Some(if known { token.trim() } else { "" })
}
