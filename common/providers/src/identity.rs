//! The identity provider: device codes, tokens, and who a token belongs to. The shapes are from
//! GitHub's docs "Authorizing OAuth apps" (device flow, and web application flow) and its REST API.
//!
//! Invariant: a token counts as worthless only if the provider says so. That is a 401 to a
//! question that was asked with the token, or a 404 to our application's question about the
//! token, from an API whose address was proved to be right. Every other response without an
//! answer (403, 422, 429, 5xx, no response, a page of HTML) is an [`IdentityError`], and nothing
//! changes for the token. A 403 that means a rate limit is recognized by its headers, or by its
//! words for the two kinds that come without such headers. Any other 403 is about the token, the person or
//! the application and does not affect others. Errors of a login come with HTTP 200, so the body
//! decides, whatever the status is.
//!
//! Each question is asked only once, because a person waits for the answer. While the provider
//! limits or refuses the whole application, questions of that kind are not asked at all
//! ([`LeftAlone`]).

pub mod answer;
pub mod form;
mod web;

pub use web::Back;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use reqwest::header::{self, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::json;
use tokio::time::Instant;

use self::answer::{Answer, Reply};
use super::probe::{self, ProbeError, Probed};
use super::{ANSWER_DEADLINE, Breaker, client, count, sent};
use domain::account::Account;
use domain::time::Timestamp;
use platform::clock::Clock;
use platform::token::Token;

/// The settings for the identity provider and for our application there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityProvider {
    /// Without a slash at its end, as is `api_url`.
    pub url: String,
    pub api_url: String,
    pub api_version: String,
    pub client_id: String,
    /// `None` means that tokens of other applications are accepted too.
    pub client_secret: Option<Token>,
    /// True when the provider's tokens end with a checksum, so that a mistyped token is
    /// recognized without asking the provider.
    pub has_checksums: bool,
    /// True when the primary address of an account counts although the provider has not verified it.
    pub takes_unverified: bool,
}

pub const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// What every login asks the provider for, with spaces between the scopes.
pub const SCOPE: &str = "read:user user:email";

/// How long to wait when the provider limits us without saying for how long.
const LIMITED: Duration = Duration::from_mins(1);
const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// However long the provider wants to be left alone, it is asked about logins that are under way
/// after this time.
pub const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The pause after any other failure.
const SOON: Duration = Duration::from_secs(5);
/// After this many failures in a row the provider is left alone for a moment.
const STRIKES: u32 = 5;
/// How old the address of a person may be.
const EMAIL_FRESH: Duration = Duration::from_mins(5);
const LARGEST_ANSWER: usize = 256 * 1024;
const LONGEST_TOKEN: usize = 2048;
const LONGEST_DEVICE_CODE: usize = 512;

/// A login that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCode {
    pub device_code: Token,
    pub user_code: String,
    pub verification_uri: String,
    /// The address with the user code in it, if the provider gives one.
    pub verification_uri_complete: Option<String>,
    /// In seconds, as is `interval`.
    pub expires_in: u64,
    pub interval: u64,
}

/// The result of a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled {
    Pending,
    /// The poll was too early. The interval, in seconds, is now this one.
    SlowDown(Option<u64>),
    Expired,
    Denied,
    /// The provider does not know the code. For a moment it also says so about a code that was
    /// just approved (cli/cli#9302).
    Unknown,
    Granted(Granted),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    pub token: Token,
    /// The granted scopes, separated by spaces (RFC 6749, section 3.3). They may be fewer than
    /// were requested.
    pub scope: String,
    /// For a token that ends by itself, as that of a GitHub App does: after how many seconds, and the
    /// token with which the person's client gets the next one from the provider.
    pub expires_in: Option<u64>,
    pub refresh_token: Option<Token>,
    pub refresh_token_expires_in: Option<u64>,
}

/// Who a token belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// The token is unknown, was revoked, or belongs to another application.
    Nobody,
    /// The account has no primary, verified e-mail address, or we may not see it because the
    /// person or the application's settings do not allow it.
    WithoutEmail,
    /// The provider has suspended the account. The token may become good again.
    Suspended,
    /// The provider knows the token, and names no account for it: it is of a program, or may not see who it is of.
    Unnamed,
    Person(Person),
}

/// Debug does not show the e-mail address.
#[derive(Clone, PartialEq, Eq)]
pub struct Person {
    pub account: Account,
    /// The primary and verified address.
    pub email: String,
    tags: Tags,
}

/// The tags of the answers about a person. A question with one of them is answered with 304 if nothing
/// has changed, and GitHub does not count that ("Best practices for using the REST API").
#[derive(Clone, Default, PartialEq, Eq)]
struct Tags {
    account: Option<HeaderValue>,
    email: Option<HeaderValue>,
    /// When the address was asked for, by `Clock::elapsed`.
    email_asked: Duration,
}

/// A token of our application, as the provider describes it to the application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OurToken {
    pub login: Option<String>,
    pub expires_at: Option<Timestamp>,
}

impl std::fmt::Debug for Person {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Person")
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}

/// Why the provider gave no answer to the question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    #[error("the identity provider {what}")]
    Unavailable { what: String, wait: Duration },
    /// The application asked too many questions.
    #[error("the identity provider limits us: it {what}")]
    Limited { what: String, wait: Duration },
    /// The provider does not accept our application or our settings. This says nothing about the
    /// person.
    #[error("the identity provider refuses us: {what}; check {setting}")]
    Misconfigured { what: String, setting: &'static str },
    /// The provider gave no usable answer to this one question. This says nothing about the
    /// token, about us or about others.
    #[error("the identity provider {what}, which says nothing about the token")]
    Unclear { what: String, wait: Duration },
    /// The provider was not asked, because of an earlier failure.
    #[error("the identity provider is left alone for a while")]
    LeftAlone { wait: Duration },
}

impl IdentityError {
    /// A short name for the label of the metric.
    fn outcome(&self) -> &'static str {
        match self {
            IdentityError::Unavailable { .. } => "timeout",
            IdentityError::Limited { .. } => "limited",
            IdentityError::Misconfigured { .. } => "misconfigured",
            IdentityError::Unclear { .. } => "unclear",
            IdentityError::LeftAlone { .. } => "paused",
        }
    }

    /// How long to wait before asking again.
    pub fn wait(&self) -> Duration {
        match self {
            IdentityError::Unavailable { wait, .. }
            | IdentityError::Limited { wait, .. }
            | IdentityError::Unclear { wait, .. }
            | IdentityError::LeftAlone { wait } => *wait,
            IdentityError::Misconfigured { .. } => LIMITED,
        }
    }

    /// True when the provider answered, and does not want to be asked again before
    /// [`IdentityError::wait`] is over.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            IdentityError::Limited { .. } | IdentityError::Misconfigured { .. }
        )
    }

    /// True when at least this token must not be asked about again before [`IdentityError::wait`]
    /// is over.
    pub fn is_lasting(&self) -> bool {
        self.is_refusal() || matches!(self, IdentityError::Unclear { .. })
    }
}

/// The time until which a kind of question is not asked, in milliseconds of `Clock::elapsed`. One kind may
/// be refused while another is answered.
#[derive(Clone, Default)]
struct LeftAlone(Arc<AtomicU64>);

impl LeftAlone {
    /// How long the question must still not be asked. None when it may be asked.
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

/// Whether a text can be a token at all (RFC 6750, section 2.1). The provider is not asked about
/// others.
pub fn is_token(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    text.len() <= LONGEST_TOKEN
        && !body.is_empty()
        && body
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte))
}

/// Whether a text can be a device code. Others are neither given out nor asked about.
pub fn is_device_code(text: &str) -> bool {
    (1..=LONGEST_DEVICE_CODE).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Asks a question, and measures how long the answer took.
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

/// The client of the identity provider. Clones share the connections and the knowledge about the
/// provider's health.
#[derive(Clone)]
pub struct Identity {
    settings: IdentityProvider,
    client: Client,
    clock: Clock,
    breaker: Breaker,
    strikes: Arc<AtomicU32>,
    /// One for each kind of question: for a device code, about a login, and whose application a
    /// token belongs to.
    begins: LeftAlone,
    polls: LeftAlone,
    checks: LeftAlone,
    /// True after the API has answered as itself, so its address is right.
    is_proved: Arc<AtomicBool>,
    /// True after the provider gave out a token whose checksum looks wrong.
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

    /// True when the form of a token alone shows that it is of no person, or that the provider never gave it out. After the
    /// provider gave out a token of another form, no token is judged by its form any more.
    pub fn rules_out(&self, token: &str) -> bool {
        !self.has_other_forms.load(Ordering::Relaxed)
            && (form::is_of_nobody(token)
                || (self.settings.has_checksums && form::is_misspelt(token)))
    }

    /// The id of our application, if [`Identity::ours`] asks the provider at all.
    pub fn application(&self) -> Option<&str> {
        let secret = self.settings.client_secret.as_ref();
        secret.map(|_| self.settings.client_id.as_str())
    }

    /// How long [`Identity::device_code`] would not ask the provider.
    pub fn begins_left_alone(&self) -> Option<Duration> {
        self.left_alone(&self.begins)
    }

    /// How long [`Identity::poll`] would not ask the provider.
    pub fn polls_left_alone(&self) -> Option<Duration> {
        self.left_alone(&self.polls)
    }

    fn left_alone(&self, kind: &LeftAlone) -> Option<Duration> {
        let broken = self.breaker.is_open().then_some(SOON);
        kind.wait(&self.clock).or(broken)
    }

    /// Asks a question, unless this kind of question is left alone.
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

    /// Asks, as our application, about a token that cannot exist. Without a client secret there
    /// is no credential to check, so any answer is a good one.
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
        self.login("/login/device/code", &form).await?.device_code()
    }

    /// Asks once whether a login was approved.
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
        let polled = answer.polled()?;
        if let Polled::Granted(granted) = &polled {
            self.learn_form(granted.token.expose());
        }
        Ok(polled)
    }

    fn learn_form(&self, given_out: &str) {
        if self.rules_out(given_out) && !self.has_other_forms.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the identity provider gives out tokens whose last digits are no checksum; from \
                 now on it is asked about every token. Set GITHUB_TOKEN_CHECKSUMS to false"
            );
        }
    }

    /// The token, if it was issued to our application and is good. Without a client secret every token
    /// counts as ours. The provider counts this question against the application and not against the
    /// person, so the caller should keep the answer: whose application it is never changes.
    pub async fn ours(&self, token: &str) -> Result<Option<OurToken>, IdentityError> {
        let Some(secret) = &self.settings.client_secret else {
            return Ok(Some(OurToken::default()));
        };
        let question = self.ask_whether_ours(token, secret);
        self.unless_left_alone("check", &self.checks, LONGEST_WAIT, question)
            .await
    }

    async fn ask_whether_ours(
        &self,
        token: &str,
        secret: &Token,
    ) -> Result<Option<OurToken>, IdentityError> {
        let path = format!("/applications/{}/token", self.settings.client_id);
        let request = self
            .api(Client::post, &path)
            .basic_auth(&self.settings.client_id, Some(secret.expose()))
            .json(&json!({ "access_token": token }));
        let reply = self.send_and_read(request).await?;
        match reply.status {
            StatusCode::OK if reply.object().is_some() => {
                self.is_proved.store(true, Ordering::Relaxed);
                Ok(Some(reply.our_token()))
            }
            StatusCode::OK => Err(not_its_own(reply.status)),
            StatusCode::NOT_FOUND if reply.object().is_some() => {
                self.prove_address(token).await?;
                Ok(None)
            }
            // The documentation says: "Validation failed, or the endpoint has been spammed". Only
            // the first can be about the token, and then the answer names the field.
            StatusCode::UNPROCESSABLE_ENTITY if reply.is_about("access_token") => Ok(None),
            StatusCode::UNAUTHORIZED => Err(IdentityError::Misconfigured {
                what: "it answered 401 to our own credentials".into(),
                setting: "GITHUB_CLIENT_ID and GITHUB_CLIENT_SECRET",
            }),
            _ => Err(self.no_answer(&reply)),
        }
    }

    /// Fails unless the address of the API is right, because at a wrong address every token is a
    /// 404. The real API answers any question that is asked with a token, even if only to say
    /// that it does not know the token. This costs one failed login at most, once for each
    /// process.
    async fn prove_address(&self, token: &str) -> Result<(), IdentityError> {
        if self.is_proved.load(Ordering::Relaxed) {
            return Ok(());
        }
        let reply = self.ask(token, "/user").await?;
        let is_itself = matches!(reply.status, StatusCode::OK | StatusCode::UNAUTHORIZED);
        if !is_itself || reply.object().is_none() {
            return Err(self.no_answer(&reply));
        }
        self.is_proved.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Who a token belongs to, as the provider says at this moment; the address may be [`EMAIL_FRESH`]
    /// old. `known` is what it said about this token before.
    pub async fn who(&self, token: &str, known: Option<&Person>) -> Result<Who, IdentityError> {
        counted("who", self.ask_who(token, known)).await
    }

    async fn ask_who(&self, token: &str, known: Option<&Person>) -> Result<Who, IdentityError> {
        let tags = known.map(|known| &known.tags);
        let tag = tags.and_then(|tags| tags.account.as_ref());
        let reply = self.ask_for_changes(token, "/user", tag).await?;
        let account = match (reply.status, known) {
            (StatusCode::OK, _) => reply.account()?,
            (StatusCode::NOT_MODIFIED, Some(known)) => known.account.clone(),
            (StatusCode::UNAUTHORIZED, _) if reply.object().is_some() => return Ok(Who::Nobody),
            (StatusCode::FORBIDDEN, _) if reply.is_suspension() => return Ok(Who::Suspended),
            (StatusCode::FORBIDDEN, _) if !reply.is_limit() && reply.object().is_some() => {
                return Ok(Who::Unnamed);
            }
            _ => return Err(self.no_answer(&reply)),
        };
        let (tag, now) = (reply.tag(), self.clock.elapsed());
        if let Some(known) = known.filter(|it| now < it.tags.email_asked + EMAIL_FRESH) {
            let mut person = known.clone();
            (person.account, person.tags.account) = (account, tag);
            return Ok(Who::Person(person));
        }
        let mut new = Tags {
            account: tag,
            email: None,
            email_asked: now,
        };
        let tag = tags.and_then(|tags| tags.email.as_ref());
        let path = "/user/emails?per_page=100";
        let reply = self.ask_for_changes(token, path, tag).await?;
        new.email = reply.tag();
        let email = match (reply.status, known) {
            (StatusCode::OK, _) => reply.email(self.settings.takes_unverified)?,
            (StatusCode::NOT_MODIFIED, Some(known)) => Some(known.email.clone()),
            (StatusCode::UNAUTHORIZED, _) if reply.object().is_some() => return Ok(Who::Nobody),
            (StatusCode::FORBIDDEN, _) if reply.is_suspension() => return Ok(Who::Suspended),
            (StatusCode::NOT_FOUND, _) => return Ok(Who::WithoutEmail),
            (StatusCode::FORBIDDEN, _) if !reply.is_limit() => return Ok(Who::WithoutEmail),
            _ => return Err(self.no_answer(&reply)),
        };
        let person = |email| Person {
            account,
            email,
            tags: new,
        };
        Ok(email.map_or(Who::WithoutEmail, |email| Who::Person(person(email))))
    }

    /// The account that has a login now. `None`: none has it.
    pub async fn account_named(&self, login: &str) -> Result<Option<Account>, IdentityError> {
        let mut request = self.api(Client::get, &format!("/users/{login}"));
        if let Some(secret) = &self.settings.client_secret {
            request = request.basic_auth(&self.settings.client_id, Some(secret.expose()));
        }
        let question = async {
            let reply = self.send_and_read(request).await?;
            match reply.status {
                StatusCode::OK => reply.account().map(Some),
                StatusCode::NOT_FOUND if reply.object().is_some() => Ok(None),
                _ => Err(self.no_answer(&reply)),
            }
        };
        counted("named", question).await
    }

    async fn ask(&self, token: &str, path: &str) -> Result<Reply, IdentityError> {
        self.ask_for_changes(token, path, None).await
    }

    /// Asks for what has changed since the answer with this tag.
    async fn ask_for_changes(
        &self,
        token: &str,
        path: &str,
        tag: Option<&HeaderValue>,
    ) -> Result<Reply, IdentityError> {
        let mut request = self.api(Client::get, path).bearer_auth(token);
        if let Some(tag) = tag {
            request = request.header(header::IF_NONE_MATCH, tag);
        }
        self.send_and_read(request).await
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
        let reply = self
            .send_and_read(request.header(header::ACCEPT, "application/json"))
            .await?;
        if reply.is_limit() {
            return Err(self.no_answer(&reply));
        }
        Ok(reply.into_answer())
    }

    /// Sends one request, and reads its response.
    async fn send_and_read(&self, request: RequestBuilder) -> Result<Reply, IdentityError> {
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
        Ok(Reply {
            status,
            headers,
            body,
        })
    }

    /// Sends one request. A server error is a failure of the provider; any other status is left
    /// to the caller.
    async fn send(&self, request: RequestBuilder) -> Result<Response, IdentityError> {
        if !self.breaker.admits() {
            return Err(IdentityError::LeftAlone { wait: SOON });
        }
        let sent = tokio::time::timeout(ANSWER_DEADLINE, sent("identity", request)).await;
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

    /// The error for a status that does not answer the question.
    fn no_answer(&self, reply: &Reply) -> IdentityError {
        let status = reply.status;
        let what = format!("answered {}", status.as_u16());
        if reply.is_limit() {
            let wait = self.announced_wait(reply).unwrap_or(LIMITED);
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

    /// How long the provider asks us to wait: `Retry-After` in seconds, or until the time at
    /// which a used-up limit begins anew.
    fn announced_wait(&self, reply: &Reply) -> Option<Duration> {
        if let Some(seconds) = reply.number("retry-after") {
            return Some(Duration::from_secs(seconds));
        }
        if !reply.has_used_up_calls() {
            return None;
        }
        let reset = i64::try_from(reply.number("x-ratelimit-reset")?).ok()?;
        Some(Timestamp(reset.saturating_mul(1000)).since(self.clock.now()))
    }
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
