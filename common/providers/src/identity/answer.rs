//! What the identity provider's responses say. Pure: a response that was read is all that counts, and no text of it gets
//! into an error, except the names of errors that are known.

use std::collections::BTreeMap;

use domain::account::Account;
use platform::token::Token;
use reqwest::StatusCode;
use reqwest::header::{self, HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    DeviceCode, Granted, IdentityError, OurToken, Polled, is_device_code, is_token, not_its_own,
    unavailable,
};

/// The interval and the lifetime, in seconds, if the provider names none (RFC 8628, section 3.2).
const DEFAULT_INTERVAL: u64 = 5;
const DEFAULT_LIFE: u64 = 900;
/// The longest interval and lifetime, in seconds, that are accepted. Longer ones are a mistake of
/// the provider.
const LONGEST_INTERVAL: u64 = 300;
const LONGEST_LIFE: u64 = 86_400;

/// A response that was read completely.
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Reply {
    fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, IdentityError> {
        serde_json::from_slice(&self.body).map_err(|_| not_its_own(self.status))
    }

    /// The response to a request of the login. A form is read as GitHub sends it to those who do not ask for JSON.
    pub fn into_answer(self) -> Answer {
        let is_form = self
            .headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form"));
        let fields = if is_form {
            form_urlencoded::parse(&self.body).into_owned().collect()
        } else {
            self.fields()
        };
        Answer {
            status: self.status,
            fields,
        }
    }

    /// The account of a `/user`.
    pub fn account(&self) -> Result<Account, IdentityError> {
        Ok(self.read::<User>()?.account())
    }

    /// The tag of this answer.
    pub(super) fn tag(&self) -> Option<HeaderValue> {
        self.headers.get(header::ETAG).cloned()
    }

    /// What the application learns of its own token.
    pub(super) fn our_token(&self) -> OurToken {
        let object = self.object().unwrap_or_default();
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(ToOwned::to_owned);
        OurToken {
            login: text(object.get("user").and_then(|user| user.get("login"))),
            expires_at: text(object.get("expires_at")).and_then(|text| text.parse().ok()),
        }
    }

    /// The primary and verified address of a `/user/emails`, if there is one.
    pub fn email(&self, takes_unverified: bool) -> Result<Option<String>, IdentityError> {
        let emails: Vec<Email> = self.read()?;
        let mut emails = emails.into_iter();
        let email = emails.find(|email| email.primary && (email.verified || takes_unverified));
        Ok(email.map(|email| email.email))
    }

    /// The JSON object in the body. None means that not the API has answered.
    pub(super) fn object(&self) -> Option<Map<String, Value>> {
        serde_json::from_slice(&self.body).ok()
    }

    /// The texts and numbers of the object.
    fn fields(&self) -> BTreeMap<String, String> {
        let fields = self.object().unwrap_or_default().into_iter();
        let texts = fields.filter_map(|(name, value)| match value {
            Value::String(text) => Some((name, text)),
            Value::Number(number) => Some((name, number.to_string())),
            _ => None,
        });
        texts.collect()
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.headers.get(name)?.to_str().ok()?.parse().ok()
    }

    pub(super) fn has_used_up_calls(&self) -> bool {
        self.number("x-ratelimit-remaining") == Some(0)
    }

    /// Whether the response means a rate limit: a 429, or a 403 that says so in its headers. The
    /// 403 after failed logins has no such header, and that of a secondary limit may lack it;
    /// both are recognized by their words (GitHub, "Rate limits for the REST API" and "Failed
    /// login limit"). A 403 without JSON comes from a proxy or a firewall, and is about us.
    pub(super) fn is_limit(&self) -> bool {
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => true,
            StatusCode::FORBIDDEN => {
                self.headers.contains_key(header::RETRY_AFTER)
                    || self.has_used_up_calls()
                    || self.object().is_none()
                    || self.mentions(&["rate limit", "login attempts", "abuse detection"])
            }
            _ => false,
        }
    }

    /// Whether the account is suspended. GitHub's words are "Sorry. Your account was suspended."
    pub(super) fn is_suspension(&self) -> bool {
        !self.is_limit() && self.mentions(&["suspended"])
    }

    /// Whether the message of the API's error has one of these words.
    fn mentions(&self, words: &[&str]) -> bool {
        let object = self.object().unwrap_or_default();
        let message = object.get("message").and_then(Value::as_str);
        let message = message.unwrap_or_default().to_ascii_lowercase();
        words.iter().any(|words| message.contains(words))
    }

    /// Whether the API's error names this field of the request.
    pub(super) fn is_about(&self, field: &str) -> bool {
        let object = self.object().unwrap_or_default();
        let errors = object.get("errors").and_then(Value::as_array);
        let mut errors = errors.into_iter().flatten();
        errors.any(|error| error["field"] == field)
    }
}

/// A response to a request of the login, in whatever form and with whatever status it came.
pub struct Answer {
    status: StatusCode,
    pub(super) fields: BTreeMap<String, String>,
}

impl Answer {
    /// The login that has begun.
    pub fn device_code(&self) -> Result<DeviceCode, IdentityError> {
        if let Some(error) = self.fields.get("error") {
            return Err(self.refused(error));
        }
        let text = |name: &str| self.fields.get(name).filter(|text| !text.is_empty());
        let number = |name: &str| text(name).and_then(|text| text.parse::<u64>().ok());
        let is_link = |link: &&String| link.starts_with("https://") || link.starts_with("http://");
        let (Some(device_code), Some(user_code), Some(verification_uri)) = (
            text("device_code").filter(|code| is_device_code(code)),
            text("user_code"),
            text("verification_uri").filter(is_link),
        ) else {
            return Err(self.not_its_own());
        };
        let complete = text("verification_uri_complete").filter(is_link);
        Ok(DeviceCode {
            device_code: Token::new(device_code),
            user_code: user_code.clone(),
            verification_uri: verification_uri.clone(),
            verification_uri_complete: complete.cloned(),
            expires_in: number("expires_in").map_or(DEFAULT_LIFE, |it| it.clamp(1, LONGEST_LIFE)),
            interval: number("interval").map_or(DEFAULT_INTERVAL, interval),
        })
    }

    /// Whether a login was approved.
    pub fn polled(&self) -> Result<Polled, IdentityError> {
        let field = |name: &str| self.fields.get(name).map(String::as_str);
        let seconds = |name: &str| field(name).and_then(|text| text.parse().ok());
        match (field("error"), field("access_token")) {
            (Some("authorization_pending"), _) => Ok(Polled::Pending),
            (Some("slow_down"), _) => {
                let reported = field("interval").and_then(|text| text.parse().ok());
                Ok(Polled::SlowDown(reported.map(interval)))
            }
            (Some("expired_token" | "token_expired"), _) => Ok(Polled::Expired),
            (Some("access_denied"), _) => Ok(Polled::Denied),
            // An RFC 8628 server says this about a code that it does not know (RFC 6749, 5.2).
            (Some("incorrect_device_code" | "invalid_grant"), _) => Ok(Polled::Unknown),
            (Some(error), _) => Err(self.refused(error)),
            (None, Some(token)) if is_token(token) => Ok(Polled::Granted(Granted {
                token: Token::new(token),
                scope: scope(field("scope").unwrap_or_default()),
                expires_in: seconds("expires_in"),
                refresh_token: field("refresh_token")
                    .filter(|it| is_token(it))
                    .map(Token::new),
                refresh_token_expires_in: seconds("refresh_token_expires_in"),
            })),
            (None, _) => Err(self.not_its_own()),
        }
    }

    /// The error for a code that is about our application, or that we do not know.
    pub(super) fn refused(&self, error: &str) -> IdentityError {
        let setting = match error {
            "device_flow_disabled" | "unauthorized_client" => {
                "that the app of GITHUB_CLIENT_ID has device flow enabled"
            }
            "redirect_uri_mismatch" => {
                "that the callback URL of the app of GITHUB_CLIENT_ID is the console's address"
            }
            "Not Found"
            | "incorrect_client_credentials"
            | "invalid_client"
            | "unsupported_grant_type"
            | "invalid_scope" => "GITHUB_CLIENT_ID and GITHUB_URL",
            _ => return unavailable("answered with an error that is not its own"),
        };
        IdentityError::Misconfigured {
            what: format!("it answered {} {error}", self.status.as_u16()),
            setting,
        }
    }

    pub(super) fn not_its_own(&self) -> IdentityError {
        let status = self.status;
        if status.is_redirection() || status == StatusCode::NOT_FOUND {
            return IdentityError::Misconfigured {
                what: format!("it answered {}", status.as_u16()),
                setting: "GITHUB_URL",
            };
        }
        not_its_own(status)
    }
}

#[derive(Deserialize)]
struct User {
    id: i64,
    login: String,
    created_at: Option<String>,
}

impl User {
    fn account(self) -> Account {
        Account {
            provider_id: self.id,
            login: self.login,
            made_at: self.created_at.and_then(|text| text.parse().ok()),
        }
    }
}

#[derive(Deserialize)]
struct Email {
    email: String,
    #[serde(default)]
    primary: bool,
    #[serde(default)]
    verified: bool,
}

/// The scopes separated by spaces, as RFC 6749 has them. GitHub separates them by commas.
fn scope(reported: &str) -> String {
    let parts = reported.split([',', ' ']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" ")
}

/// The interval, which is never less than the default of RFC 8628, and never so long that a login
/// cannot end.
fn interval(seconds: u64) -> u64 {
    seconds.clamp(DEFAULT_INTERVAL, LONGEST_INTERVAL)
}
