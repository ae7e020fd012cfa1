//! The identity provider: device codes, tokens, and who a token belongs to. Shapes:
//! GitHub's docs "Authorizing OAuth apps" (device flow) and its REST API.
//!
//! Invariant: only what the provider says about a token means that it is worth nothing: a 401
//! to a question asked with it, or, to our application's question about it, a 404 of an API
//! whose address is proved. Whatever else is not an answer (403, 422, 429, 5xx, silence, a page
//! of HTML) is [`IdentityError`], and a token stays what it was. Of 403s, limits are known by their
//! headers, and the two that come without by their words; others are about the person or the
//! application, and are none of everyone's. Errors of the login come with HTTP 200, so the body
//! decides, whatever the status.
//!
//! Each question is asked once: behind it a person waits. While the provider limits or refuses
//! the whole application a question of that kind is not asked at all ([`LeftAlone`]).

pub mod form;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::{self, HeaderMap};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::probe::{self, ProbeError, Probed};
use super::{ANSWER_DEADLINE, Breaker, client, count, traced};
use domain::account::Account;
use domain::time::Timestamp;
use platform::clock::Clock;
use platform::token::Token;

/// The identity provider and our application there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityProvider {
    /// Without a slash at its end, as the next.
    pub url: String,
    pub api_url: String,
    pub api_version: String,
    pub client_id: String,
    /// `None`: tokens of other applications are taken too.
    pub client_secret: Option<Token>,
    /// Its tokens end with a checksum, so of one that is wrong nobody need be asked.
    pub has_checksums: bool,
}

pub const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:device_code";
const SCOPE: &str = "read:user user:email";

/// RFC 8628, section 3.2: what holds when the provider does not say.
const DEFAULT_INTERVAL: u64 = 5;
const DEFAULT_LIFE: u64 = 900;
/// Longer ones are a mistake of the provider's.
const LONGEST_INTERVAL: u64 = 300;
const LONGEST_LIFE: u64 = 86_400;
/// What the provider asks for that limits us without saying for how long.
const LIMITED: Duration = Duration::from_mins(1);
const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// However long it wants to be left alone, logins under way are asked about again.
pub const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// After any other trouble.
const SOON: Duration = Duration::from_secs(5);
/// So many failures in a row, and the provider is left alone for a moment.
const STRIKES: u32 = 5;
const LARGEST_ANSWER: usize = 256 * 1024;
const LONGEST_TOKEN: usize = 2048;
const LONGEST_DEVICE_CODE: usize = 512;

/// A login that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCode {
    pub device_code: Token,
    pub user_code: String,
    pub verification_uri: String,
    /// With the user code in it; some providers have it.
    pub verification_uri_complete: Option<String>,
    /// Seconds, as the next.
    pub expires_in: u64,
    pub interval: u64,
}

/// What a poll came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled {
    Pending,
    /// Too early; the interval, in seconds, is now this.
    SlowDown(Option<u64>),
    Expired,
    Denied,
    /// The provider does not know the code. It also says so for a moment of one that was just
    /// approved (cli/cli#9302).
    Unknown,
    Granted(Granted),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    pub token: Token,
    /// Separated by spaces (RFC 6749, section 3.3). It may be less than was asked for.
    pub scope: String,
}

/// Whose a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Unknown, revoked, or of another application.
    Nobody,
    /// The account has no primary, verified e-mail, or does not let us see it, or the
    /// application may not.
    WithoutEmail,
    /// The provider has suspended the account. The token may be good again later.
    Suspended,
    Person(Person),
}

/// Debug does not show the e-mail.
#[derive(Clone, PartialEq, Eq)]
pub struct Person {
    pub account: Account,
    /// Primary and verified.
    pub email: String,
}

impl std::fmt::Debug for Person {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Person")
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}

/// The provider gave no answer to the question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    #[error("the identity provider {what}")]
    Unavailable { what: String, wait: Duration },
    /// Too many questions.
    #[error("the identity provider limits us: it {what}")]
    Limited { what: String, wait: Duration },
    /// It does not take our application or settings. Nothing is wrong with the person.
    #[error("the identity provider refuses us: {what}; check {setting}")]
    Misconfigured { what: String, setting: &'static str },
    /// It answered this one question amiss, which says nothing of the token, of us or of others.
    #[error("the identity provider {what}, which says nothing about the token")]
    Unclear { what: String, wait: Duration },
    /// It was not asked, because of a trouble before this one.
    #[error("the identity provider is left alone for a while")]
    LeftAlone { wait: Duration },
}

impl IdentityError {
    /// A short name for the metric's label.
    fn outcome(&self) -> &'static str {
        match self {
            IdentityError::Unavailable { .. } => "timeout",
            IdentityError::Limited { .. } => "limited",
            IdentityError::Misconfigured { .. } => "misconfigured",
            IdentityError::Unclear { .. } => "unclear",
            IdentityError::LeftAlone { .. } => "paused",
        }
    }

    /// When to ask again.
    pub fn wait(&self) -> Duration {
        match self {
            IdentityError::Unavailable { wait, .. }
            | IdentityError::Limited { wait, .. }
            | IdentityError::Unclear { wait, .. }
            | IdentityError::LeftAlone { wait } => *wait,
            IdentityError::Misconfigured { .. } => LIMITED,
        }
    }

    /// Whether the provider answered, and does not want to be asked before [`IdentityError::wait`].
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            IdentityError::Limited { .. } | IdentityError::Misconfigured { .. }
        )
    }

    /// Whether at least the token that was asked about is left alone until [`IdentityError::wait`].
    pub fn is_lasting(&self) -> bool {
        self.is_refusal() || matches!(self, IdentityError::Unclear { .. })
    }
}

/// Until when a kind of question is not asked, in milliseconds of `Clock::elapsed`. One kind
/// may be refused while another is answered.
#[derive(Clone, Default)]
struct LeftAlone(Arc<AtomicU64>);

impl LeftAlone {
    /// For how long yet. None: it may be asked.
    fn wait(&self, clock: &Clock) -> Option<Duration> {
        let until = Duration::from_millis(self.0.load(Ordering::Relaxed));
        let wait = until.saturating_sub(clock.elapsed());
        (wait > Duration::ZERO).then_some(wait)
    }

    /// Remembers a refusal, for `longest` at most.
    fn heed<T>(
        &self,
        clock: &Clock,
        answer: Result<T, IdentityError>,
        longest: Duration,
    ) -> Result<T, IdentityError> {
        if let Some(identity_error) = answer.as_ref().err().filter(|it| it.is_refusal()) {
            let until = clock.elapsed() + identity_error.wait().min(longest);
            let millis = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
            self.0.fetch_max(millis, Ordering::Relaxed);
        }
        answer
    }
}

/// Whether this can be a token at all (RFC 6750, section 2.1): nobody is asked about what
/// cannot.
pub fn is_token(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len() <= LONGEST_TOKEN
        && !body.is_empty()
        && body
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte))
}

/// Whether this can be a device code: no other is given out or asked about.
pub fn is_device_code(text: &str) -> bool {
    (1..=LONGEST_DEVICE_CODE).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Asks, and counts how long it took.
async fn counted<T>(
    operation: &'static str,
    question: impl Future<Output = Result<T, IdentityError>>,
) -> Result<T, IdentityError> {
    let begun = Instant::now();
    let answer = question.await;
    let outcome = answer.as_ref().err().map_or("ok", IdentityError::outcome);
    count("identity", operation, outcome, begun.elapsed());
    answer
}

/// Clones share connections and what is known of the provider's health.
#[derive(Clone)]
pub struct Identity {
    settings: IdentityProvider,
    client: Client,
    clock: Clock,
    breaker: Breaker,
    strikes: Arc<AtomicU32>,
    /// By what is asked: a device code, what became of a login, whose application a token is of.
    begins: LeftAlone,
    polls: LeftAlone,
    checks: LeftAlone,
    /// The API has answered as itself, so its address is right.
    is_proved: Arc<AtomicBool>,
    /// The provider gave out a token that would have been called misspelt.
    has_other_forms: Arc<AtomicBool>,
}

impl Identity {
    pub fn new(settings: &IdentityProvider, clock: &Clock) -> Self {
        Identity {
            settings: settings.clone(),
            client: client(&settings.api_url),
            clock: clock.clone(),
            breaker: Breaker::new("identity", clock),
            strikes: Arc::default(),
            begins: LeftAlone::default(),
            polls: LeftAlone::default(),
            checks: LeftAlone::default(),
            is_proved: Arc::default(),
            has_other_forms: Arc::default(),
        }
    }

    /// Whether the form of a token alone says that the provider never gave it out. Once it was
    /// seen to give out others, nothing is judged by its form any more.
    pub fn rules_out(&self, token: &str) -> bool {
        self.settings.has_checksums
            && !self.has_other_forms.load(Ordering::Relaxed)
            && form::is_misspelt(token)
    }

    /// Whether [`Identity::is_ours`] asks at all.
    pub fn can_recognise_ours(&self) -> bool {
        self.settings.client_secret.is_some()
    }

    /// For how long [`Identity::device_code`] would not ask.
    pub fn begins_left_alone(&self) -> Option<Duration> {
        self.left_alone(&self.begins)
    }

    /// For how long [`Identity::poll`] would not ask.
    pub fn polls_left_alone(&self) -> Option<Duration> {
        self.left_alone(&self.polls)
    }

    fn left_alone(&self, kind: &LeftAlone) -> Option<Duration> {
        let broken = self.breaker.is_open().then_some(SOON);
        kind.wait(&self.clock).or(broken)
    }

    /// Asks, unless this kind of question is left alone.
    async fn unless_left_alone<T>(
        &self,
        operation: &'static str,
        kind: &LeftAlone,
        longest: Duration,
        question: impl Future<Output = Result<T, IdentityError>>,
    ) -> Result<T, IdentityError> {
        match kind.wait(&self.clock) {
            Some(wait) => Err(IdentityError::LeftAlone { wait }),
            None => kind.heed(&self.clock, counted(operation, question).await, longest),
        }
    }

    /// Asks, as our application, about a token that cannot be. Without a client secret there is
    /// nothing to prove: then any answer at all is one.
    pub async fn probe(&self) -> Result<Probed, ProbeError> {
        let Some(secret) = &self.settings.client_secret else {
            return probe::ask(self.api(Client::get, "/user")).await;
        };
        let path = format!("/applications/{}/token", self.settings.client_id);
        let request = self
            .api(Client::post, &path)
            .basic_auth(&self.settings.client_id, Some(secret.expose()))
            .json(&json!({ "access_token": "gho_waybilldoctor" }));
        probe::ask(request).await
    }

    /// Begins a login.
    pub async fn device_code(&self) -> Result<DeviceCode, IdentityError> {
        let question = self.ask_for_device_code();
        self.unless_left_alone("device_code", &self.begins, LONGEST_WAIT, question)
            .await
    }

    async fn ask_for_device_code(&self) -> Result<DeviceCode, IdentityError> {
        let form = [
            ("client_id", self.settings.client_id.as_str()),
            ("scope", SCOPE),
        ];
        let answer = self.login("/login/device/code", &form).await?;
        if let Some(error) = answer.fields.get("error") {
            return Err(answer.refused(error));
        }
        let text = |name: &str| answer.fields.get(name).filter(|text| !text.is_empty());
        let number = |name: &str| text(name).and_then(|text| text.parse::<u64>().ok());
        let is_link = |link: &&String| link.starts_with("https://") || link.starts_with("http://");
        let (Some(device_code), Some(user_code), Some(verification_uri)) = (
            text("device_code").filter(|code| is_device_code(code)),
            text("user_code"),
            text("verification_uri").filter(is_link),
        ) else {
            return Err(answer.not_its_own());
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

    /// Asks once what became of a login.
    pub async fn poll(&self, device_code: &str) -> Result<Polled, IdentityError> {
        let question = self.ask_about_login(device_code);
        self.unless_left_alone("poll", &self.polls, LONGEST_PAUSE, question)
            .await
    }

    async fn ask_about_login(&self, device_code: &str) -> Result<Polled, IdentityError> {
        let form = [
            ("client_id", self.settings.client_id.as_str()),
            ("device_code", device_code),
            ("grant_type", GRANT_TYPE),
        ];
        let answer = self.login("/login/oauth/access_token", &form).await?;
        let field = |name: &str| answer.fields.get(name).map(String::as_str);
        match (field("error"), field("access_token")) {
            (Some("authorization_pending"), _) => Ok(Polled::Pending),
            (Some("slow_down"), _) => {
                let reported = field("interval").and_then(|text| text.parse().ok());
                Ok(Polled::SlowDown(reported.map(interval)))
            }
            (Some("expired_token" | "token_expired"), _) => Ok(Polled::Expired),
            (Some("access_denied"), _) => Ok(Polled::Denied),
            // What an RFC 8628 server says of a code that it does not know (RFC 6749, 5.2).
            (Some("incorrect_device_code" | "invalid_grant"), _) => Ok(Polled::Unknown),
            (Some(error), _) => Err(answer.refused(error)),
            (None, Some(token)) if is_token(token) => {
                self.learn_form(token);
                Ok(Polled::Granted(Granted {
                    token: Token::new(token),
                    scope: scope(field("scope").unwrap_or_default()),
                }))
            }
            (None, _) => Err(answer.not_its_own()),
        }
    }

    fn learn_form(&self, given_out: &str) {
        if self.rules_out(given_out) && !self.has_other_forms.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the identity provider gives out tokens whose last digits are no checksum; from \
                 now on it is asked about every token. Set GITHUB_TOKEN_CHECKSUMS to false"
            );
        }
    }

    /// Whether a token was issued to our application; anyone's are, without a client secret.
    /// The provider counts this question against the application, not against the person, so
    /// the answer, which never changes, should be kept.
    pub async fn is_ours(&self, token: &str) -> Result<bool, IdentityError> {
        let Some(secret) = &self.settings.client_secret else {
            return Ok(true);
        };
        let question = self.ask_whether_ours(token, secret);
        self.unless_left_alone("check", &self.checks, LONGEST_WAIT, question)
            .await
    }

    async fn ask_whether_ours(&self, token: &str, secret: &Token) -> Result<bool, IdentityError> {
        let path = format!("/applications/{}/token", self.settings.client_id);
        let request = self
            .api(Client::post, &path)
            .basic_auth(&self.settings.client_id, Some(secret.expose()))
            .json(&json!({ "access_token": token }));
        let heard = self.hear(request).await?;
        match heard.status {
            StatusCode::OK if heard.object().is_some() => {
                self.is_proved.store(true, Ordering::Relaxed);
                Ok(true)
            }
            StatusCode::OK => Err(not_its_own(heard.status)),
            StatusCode::NOT_FOUND if heard.object().is_some() => {
                self.prove_address(token).await?;
                Ok(false)
            }
            // "Validation failed, or the endpoint has been spammed": only the first may be about
            // the token, and says so.
            StatusCode::UNPROCESSABLE_ENTITY if heard.is_about("access_token") => Ok(false),
            StatusCode::UNAUTHORIZED => Err(IdentityError::Misconfigured {
                what: "it answered 401 to our own credentials".into(),
                setting: "GITHUB_CLIENT_ID and GITHUB_CLIENT_SECRET",
            }),
            _ => Err(self.no_answer(&heard)),
        }
    }

    /// Fails unless the address of the API is right, for at a wrong one every token is a 404. The
    /// API answers a question that is asked with a token, if only that it does not know it. That
    /// costs a failed login at most, once a process.
    async fn prove_address(&self, token: &str) -> Result<(), IdentityError> {
        if self.is_proved.load(Ordering::Relaxed) {
            return Ok(());
        }
        let heard = self.ask(token, "/user").await?;
        let is_itself = matches!(heard.status, StatusCode::OK | StatusCode::UNAUTHORIZED);
        if !is_itself || heard.object().is_none() {
            return Err(self.no_answer(&heard));
        }
        self.is_proved.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whose a token is, by the provider's word of this moment.
    pub async fn who(&self, token: &str) -> Result<Who, IdentityError> {
        counted("who", self.ask_who(token)).await
    }

    async fn ask_who(&self, token: &str) -> Result<Who, IdentityError> {
        let heard = self.ask(token, "/user").await?;
        match heard.status {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED if heard.object().is_some() => return Ok(Who::Nobody),
            StatusCode::FORBIDDEN if heard.is_suspension() => return Ok(Who::Suspended),
            _ => return Err(self.no_answer(&heard)),
        }
        let user: User = heard.read()?;
        let heard = self.ask(token, "/user/emails?per_page=100").await?;
        match heard.status {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED if heard.object().is_some() => return Ok(Who::Nobody),
            StatusCode::FORBIDDEN if heard.is_suspension() => return Ok(Who::Suspended),
            StatusCode::NOT_FOUND => return Ok(Who::WithoutEmail),
            StatusCode::FORBIDDEN if !heard.is_limit() => return Ok(Who::WithoutEmail),
            _ => return Err(self.no_answer(&heard)),
        }
        let emails: Vec<Email> = heard.read()?;
        let mut emails = emails.into_iter();
        let Some(email) = emails.find(|email| email.primary && email.verified) else {
            return Ok(Who::WithoutEmail);
        };
        Ok(Who::Person(Person {
            account: Account {
                provider_id: user.id,
                login: user.login,
                made_at: user.created_at.and_then(|text| text.parse().ok()),
            },
            email: email.email,
        }))
    }

    async fn ask(&self, token: &str, path: &str) -> Result<Heard, IdentityError> {
        self.hear(self.api(Client::get, path).bearer_auth(token))
            .await
    }

    fn api(
        &self,
        method: impl Fn(&Client, String) -> RequestBuilder,
        path: &str,
    ) -> RequestBuilder {
        method(&self.client, format!("{}{path}", self.settings.api_url))
            .header(header::ACCEPT, "application/vnd.github+json")
            .header("X-GitHub-Api-Version", &self.settings.api_version)
    }

    async fn login(&self, path: &str, form: &[(&str, &str)]) -> Result<Answer, IdentityError> {
        let url = format!("{}{path}", self.settings.url);
        let request = self.client.post(url).form(form);
        let heard = self
            .hear(request.header(header::ACCEPT, "application/json"))
            .await?;
        if heard.is_limit() {
            return Err(self.no_answer(&heard));
        }
        let is_form = heard
            .headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form"));
        let fields = if is_form {
            form_urlencoded::parse(&heard.body).into_owned().collect()
        } else {
            heard.fields()
        };
        Ok(Answer {
            status: heard.status,
            fields,
        })
    }

    /// Sends one request and reads its answer.
    async fn hear(&self, request: RequestBuilder) -> Result<Heard, IdentityError> {
        let mut response = self.send(request).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Vec::new();
        let broken = |_| unavailable("broke off its answer");
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            body.extend_from_slice(&chunk);
            if body.len() > LARGEST_ANSWER {
                return Err(unavailable("answered without end"));
            }
        }
        Ok(Heard {
            status,
            headers,
            body,
        })
    }

    /// Sends one request. A failure of the server is trouble; any other status is the caller's.
    async fn send(&self, request: RequestBuilder) -> Result<Response, IdentityError> {
        if !self.breaker.admits() {
            return Err(IdentityError::LeftAlone { wait: SOON });
        }
        let sent = tokio::time::timeout(ANSWER_DEADLINE, traced(request).send()).await;
        let what = match sent {
            Ok(Ok(response)) if !response.status().is_server_error() => {
                self.strikes.store(0, Ordering::Relaxed);
                self.breaker.close();
                return Ok(response);
            }
            Ok(Ok(response)) => format!("answered {}", response.status().as_u16()),
            Ok(Err(error)) if error.is_connect() => "cannot be reached".to_owned(),
            Ok(Err(error)) if !error.is_timeout() => "broke off its answer".to_owned(),
            _ => "did not answer in time".to_owned(),
        };
        if self.strikes.fetch_add(1, Ordering::Relaxed) + 1 >= STRIKES {
            self.breaker.open();
        }
        Err(unavailable(&what))
    }

    /// What to make of a status that answers nothing.
    fn no_answer(&self, heard: &Heard) -> IdentityError {
        let status = heard.status;
        let what = format!("answered {}", status.as_u16());
        if heard.is_limit() {
            let wait = self.announced_wait(heard).unwrap_or(LIMITED);
            return IdentityError::Limited {
                what,
                wait: wait.clamp(Duration::from_secs(1), LONGEST_WAIT),
            };
        }
        match status {
            StatusCode::BAD_REQUEST | StatusCode::GONE => IdentityError::Misconfigured {
                what: format!("it {what}"),
                setting: "GITHUB_API_VERSION",
            },
            StatusCode::NOT_FOUND => IdentityError::Misconfigured {
                what: format!("it {what}"),
                setting: "GITHUB_API_URL",
            },
            _ if status.is_redirection() => IdentityError::Misconfigured {
                what: format!("it {what}"),
                setting: "GITHUB_URL and GITHUB_API_URL",
            },
            StatusCode::FORBIDDEN | StatusCode::UNPROCESSABLE_ENTITY => IdentityError::Unclear {
                what,
                wait: LIMITED,
            },
            _ => unavailable(&what),
        }
    }

    /// `Retry-After` in seconds, or the time at which a used-up limit begins anew.
    fn announced_wait(&self, heard: &Heard) -> Option<Duration> {
        if let Some(seconds) = heard.number("retry-after") {
            return Some(Duration::from_secs(seconds));
        }
        if !heard.has_used_up_calls() {
            return None;
        }
        let reset = i64::try_from(heard.number("x-ratelimit-reset")?).ok()?;
        Some(Timestamp(reset.saturating_mul(1000)).since(self.clock.now()))
    }
}

/// An answer, read.
struct Heard {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Heard {
    fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, IdentityError> {
        serde_json::from_slice(&self.body).map_err(|_| not_its_own(self.status))
    }

    /// The JSON object that it is; none: whoever answered, it is not the API.
    fn object(&self) -> Option<Map<String, Value>> {
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

    fn number(&self, name: &str) -> Option<u64> {
        self.headers.get(name)?.to_str().ok()?.parse().ok()
    }

    fn has_used_up_calls(&self) -> bool {
        self.number("x-ratelimit-remaining") == Some(0)
    }

    /// A limit: 429, or a 403 that says so in its headers. That of failed logins has no such
    /// header, and a secondary one may lack it: they are known by their words (GitHub, "Rate
    /// limits for the REST API" and "Failed login limit"). A 403 that is no JSON is a proxy's or
    /// a firewall's, and about us.
    fn is_limit(&self) -> bool {
        match self.status {
            StatusCode::TOO_MANY_REQUESTS => true,
            StatusCode::FORBIDDEN => {
                self.headers.contains_key(header::RETRY_AFTER)
                    || self.has_used_up_calls()
                    || self.object().is_none()
                    || self.says(&["rate limit", "login attempts", "abuse detection"])
            }
            _ => false,
        }
    }

    /// GitHub's words are "Sorry. Your account was suspended."
    fn is_suspension(&self) -> bool {
        !self.is_limit() && self.says(&["suspended"])
    }

    /// Whether the message of the API's error has one of these words.
    fn says(&self, words: &[&str]) -> bool {
        let object = self.object().unwrap_or_default();
        let message = object.get("message").and_then(Value::as_str);
        let message = message.unwrap_or_default().to_ascii_lowercase();
        words.iter().any(|words| message.contains(words))
    }

    /// Whether the API's error names this field of the question.
    fn is_about(&self, field: &str) -> bool {
        let object = self.object().unwrap_or_default();
        let errors = object.get("errors").and_then(Value::as_array);
        let mut errors = errors.into_iter().flatten();
        errors.any(|error| error["field"] == field)
    }
}

/// An answer of the login, whatever form and status it came with.
struct Answer {
    status: StatusCode,
    fields: BTreeMap<String, String>,
}

impl Answer {
    /// An error that is about our application, or none that we know.
    fn refused(&self, error: &str) -> IdentityError {
        let setting = match error {
            "device_flow_disabled" | "unauthorized_client" => {
                "that the app of GITHUB_CLIENT_ID has device flow enabled"
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

    fn not_its_own(&self) -> IdentityError {
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

#[derive(Deserialize)]
struct Email {
    email: String,
    #[serde(default)]
    primary: bool,
    #[serde(default)]
    verified: bool,
}

/// GitHub separates scopes by commas, the RFC by spaces.
fn scope(reported: &str) -> String {
    let parts = reported.split([',', ' ']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" ")
}

/// Never less than the default of RFC 8628, and never so long that a login cannot end.
fn interval(seconds: u64) -> u64 {
    seconds.clamp(DEFAULT_INTERVAL, LONGEST_INTERVAL)
}

fn not_its_own(status: StatusCode) -> IdentityError {
    let status = status.as_u16();
    unavailable(&format!(
        "answered {status} with a body that is not its own"
    ))
}

fn unavailable(what: &str) -> IdentityError {
    IdentityError::Unavailable {
        what: what.to_owned(),
        wait: SOON,
    }
}
