//! Finds out whose a token is and which tier this person has. Recent answers come from memory.
//!
//! A text that cannot be a token is refused by its form. Tokens are remembered by their SHA-256.
//! An answer is valid for [`FRESH`], so a revoked token or a changed licence takes effect after
//! that time at the latest. The answer that a token is bad is valid for [`WORTHLESS`]. If the
//! token was good before, the first such answer is valid only for [`FRESH`], because it may be a
//! mistake of the provider. Only one request at a time asks the provider about a token; the others
//! wait for its answer. `limit/tokens.rs` decides how many questions about bad tokens the provider
//! may get. While the provider does not answer, an account that it confirmed less than
//! `AUTH_STALE_SECONDS` ago is still accepted; its licences are read from the database all the
//! same.
//!
//! The memory is written here and does not use a library such as `moka`, for three reasons. The
//! time comes from `Clock`, which a test can move, while the library reads a clock of its own.
//! Some facts about a token are remembered for longer than the answer: whose it was, how often it
//! was refused in a row, and its validations of the last minute. And tokens that were never good
//! are forgotten first, so that somebody who sends many invented tokens does not displace the good
//! ones. The library would replace only the map, which is about 40 lines of this file.
//!
//! The application to which a token belongs never changes, and each question about it counts
//! against our limit. So it is asked only once and remembered as long as the token is in use, and
//! for [`KEPT`] after that, when the person is already forgotten. That a token was confirmed is also in
//! the database, so that a process that starts knows it ([`recall`]).
//!
//! The question whose a token is counts against the person's own allowance at the provider, unless nothing
//! has changed. When that allowance is used up, the provider still tells our application whether the token is
//! good, and the person is who it was before.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use domain::license::{Status, Tier, resolve};
use domain::time::Timestamp;
use platform::lock::lock;
use platform::task;
use providers::identity::{Identity, IdentityError, Person, Who};
use serde::Serialize;
use sha2::{Digest, Sha256};
use store::confirmed_tokens::{self, Confirmed, KEPT};
use store::{licenses, users};
use utoipa::ToSchema;

use crate::App;
use crate::database;
use crate::error::Error;

/// How long an answer is valid.
const FRESH: Duration = Duration::from_secs(10);
/// How long the answer that a token is bad is valid.
const WORTHLESS: Duration = Duration::from_mins(1);
/// How long a token is not asked about whose account the provider has named before, and does not name now.
const UNNAMED: Duration = Duration::from_mins(1);
/// How long a person is remembered after the token was last used.
const PERSON_KEPT: Duration = Duration::from_hours(1);
/// How often it is written that a token was confirmed.
const NOTED: Duration = Duration::from_hours(1);
/// How long waiting requests share the result that the provider gave no answer.
const AFTER_IDENTITY_ERROR: Duration = Duration::from_secs(1);
/// The period of `AUTH_VALIDATIONS_PER_MINUTE`.
const PERIOD: Duration = Duration::from_mins(1);
/// When more tokens than this are remembered, those that were unused for longest are forgotten.
const MOST_TOKENS: usize = 100_000;
/// How many are forgotten at a time, because looking through all of them takes a moment.
const FORGOTTEN_AT_ONCE: usize = MOST_TOKENS / 100;

// No Debug: the e-mail would be in it.
/// A person's tier, as `GET /auth/validate` shows it.
#[derive(Serialize, ToSchema)]
pub struct Validated {
    pub tier: Tier,
    pub status: Status,
    #[schema(example = "octavia@example.com")]
    pub email: String,
    #[schema(example = "octavia")]
    pub username: String,
    /// Whose licence it is, when it is an organization's.
    pub org_name: Option<String>,
    /// All of it as JSON.
    #[schema(ignore)]
    #[serde(skip)]
    pub json: Bytes,
}

impl Validated {
    /// The tier that may be used now, and the organization that it comes from.
    pub fn usable(&self) -> (Tier, Option<&str>) {
        let tier = self.status.usable(self.tier);
        let is_active = self.status == Status::Active;
        (tier, self.org_name.as_deref().filter(|_| is_active))
    }
}

type Answer = Result<Arc<Validated>, Error>;

/// The tokens that were used lately.
#[derive(Default)]
pub struct Validations {
    tokens: Mutex<HashMap<[u8; 32], Arc<Token>>>,
}

#[derive(Default)]
struct Token {
    /// By which the database knows it.
    hash: [u8; 32],
    known: Mutex<Known>,
    /// The lock that the request holds which asks the provider.
    asking: tokio::sync::Mutex<()>,
}

/// What is remembered of one token. Times are those of `Clock::elapsed`.
#[derive(Default)]
struct Known {
    answer: Option<Answer>,
    answer_until: Duration,
    /// Whose the token was when the provider last confirmed it, and when that was.
    person: Option<(Person, Duration)>,
    /// The provider has said that the token belongs to our application, or has given the token to
    /// us.
    is_ours: bool,
    /// When the token ends by itself, if the provider has said so.
    expires_at: Option<Timestamp>,
    /// When it was written last that the token was confirmed.
    noted_at: Option<Timestamp>,
    /// Until when the provider is not asked about this token.
    left_alone_until: Duration,
    /// The reason for that: the person has used up what they may ask.
    is_used_up: bool,
    /// The provider has confirmed the token at some time.
    was_valid: bool,
    /// How often in a row the provider has said that the token is bad.
    refusals: u32,
    /// The times of its validations within the last minute.
    validated: VecDeque<Duration>,
    seen: Duration,
}

/// Validates a token for `GET /auth/validate`. It counts against the token's limit.
pub async fn validate(app: &Arc<App>, token: &str, client: IpAddr) -> Answer {
    let entry = app.validations.token(app, token, client)?;
    entry.count(app)?;
    current(app, entry, token, Some(client)).await
}

/// Validates a token for another endpoint, without counting it against the token's limit.
pub async fn holder(app: &Arc<App>, token: &str, client: IpAddr) -> Answer {
    let entry = app.validations.token(app, token, client)?;
    current(app, entry, token, Some(client)).await
}

/// Validates a token that the provider has just given out, and that ends by itself at that time. The
/// provider's API may not know this token yet, so if it says at first that the token is bad, the login is
/// still pending.
pub async fn holder_of_own(app: &Arc<App>, token: &str, expires_at: Option<Timestamp>) -> Answer {
    let entry = app.validations.own_token(app, token, expires_at);
    let answer = current(app, entry.clone(), token, None).await;
    match answer {
        Err(Error::TokenInvalid) if lock(&entry.known).refusals == 1 => {
            Err(Error::AuthorizationPending)
        }
        answer => answer,
    }
}

async fn current(app: &Arc<App>, entry: Arc<Token>, token: &str, client: Option<IpAddr>) -> Answer {
    if let Some(answer) = entry.fresh(app) {
        return answer;
    }
    let (of_app, of_token) = (app.clone(), token.to_owned());
    let asked = task::finish("validation", async move {
        let _asking = entry.asking.lock().await;
        if let Some(answer) = entry.fresh(&of_app) {
            return (answer, false);
        }
        let Some(identity) = &of_app.identity else {
            return (Err(Error::LoginNotSetUp), false);
        };
        let place = match client.filter(|_| !lock(&entry.known).is_trusted()) {
            Some(client) => match of_app.limits.tokens.place(client).await {
                Ok(place) => Some(place),
                Err(error) => return (Err(error), false),
            },
            None => None,
        };
        let begun = of_app.clock.elapsed();
        let reported = question(&of_app, identity, &entry, &of_token).await;
        let is_wasted = matches!(
            reported,
            Ok(Who::Nobody | Who::Unnamed) | Err(IdentityError::Unclear { .. })
        );
        if let Some(client) = client.filter(|_| is_wasted) {
            of_app.limits.tokens.worthless(client);
        }
        // The provider has answered; the following steps need only the database.
        drop(place);
        (answer(&of_app, &entry, begun, reported).await, true)
    });
    let (answer, asked) = asked.await.ok_or(Error::Internal)?;
    if asked {
        let outcome = answer.as_ref().map_or_else(Error::reason, |_| "valid");
        metrics::counter!("waybill_tokens_asked_total", "outcome" => outcome).increment(1);
    }
    answer
}

/// Makes the answer from what the provider said and from the licences, and remembers it.
async fn answer(
    app: &App,
    entry: &Token,
    begun: Duration,
    reported: Result<Who, IdentityError>,
) -> Answer {
    // Until when the person is believed whom the provider did not confirm, and when it may be asked again.
    let mut believed = None;
    let person = match reported {
        Ok(Who::Person(person)) => {
            entry.confirmed(&person, begun);
            entry.note(app).await;
            person
        }
        Ok(Who::WithoutEmail) => return entry.unusable(app, Error::NoVerifiedEmail),
        Ok(Who::Suspended) => return entry.unusable(app, Error::AccountSuspended),
        Ok(Who::Nobody | Who::Unnamed) => {
            if lock(&entry.known).noted_at.take().is_some() {
                let _ = database::step(confirmed_tokens::delete(&app.db, &entry.hash)).await;
            }
            let (error, period) = entry.refused(app.clock.now());
            return entry.remember(Err(error), app.clock.elapsed() + period);
        }
        Err(identity_error) => {
            report(&identity_error, "a token could not be validated");
            let Some((person, until)) = entry.believed(begun, app.config.auth_stale) else {
                let error = Error::ProviderUnavailable(identity_error.wait());
                return entry.remember(Err(error), app.clock.elapsed() + AFTER_IDENTITY_ERROR);
            };
            believed = Some((until, identity_error.wait()));
            person
        }
    };
    let read = app.clock.elapsed();
    match tier(app, &person, believed.map(|(_, wait)| wait)).await {
        Ok(validated) => {
            let until = believed.map_or(Duration::MAX, |(until, _)| until);
            let until = until.min(read + FRESH);
            entry.remember(Ok(Arc::new(validated)), until)
        }
        Err(error) => entry.remember(Err(error), app.clock.elapsed() + AFTER_IDENTITY_ERROR),
    }
}

/// Asks the provider with the token, unless it limits such requests, and otherwise as our application. A
/// limit on the token applies to this token only. A limit on questions about applications applies to all
/// tokens, and `Identity` observes it.
async fn question(
    app: &App,
    identity: &Identity,
    entry: &Token,
    token: &str,
) -> Result<Who, IdentityError> {
    let left_alone_until = lock(&entry.known).left_alone_until;
    let wait = left_alone_until.saturating_sub(app.clock.elapsed());
    if wait > Duration::ZERO {
        let error = IdentityError::LeftAlone { wait };
        return vouched_for(identity, entry, token, error).await;
    }
    let who = match confirm(identity, entry, token).await {
        // It was named before, so this may pass.
        Ok(Who::Unnamed) if lock(&entry.known).is_trusted() => Err(IdentityError::Unclear {
            what: "names no account any more".to_owned(),
            wait: UNNAMED,
        }),
        who => who,
    };
    let Some(identity_error) = who.as_ref().err().filter(|it| it.is_lasting()) else {
        return who;
    };
    entry.leave_alone(app, identity_error);
    vouched_for(identity, entry, token, identity_error.clone()).await
}

async fn confirm(identity: &Identity, entry: &Token, token: &str) -> Result<Who, IdentityError> {
    let is_ours = lock(&entry.known).is_ours;
    if !is_ours && identity.application().is_some() {
        let Some(ours) = identity.ours(token).await? else {
            return Ok(Who::Nobody);
        };
        let mut known = lock(&entry.known);
        (known.is_ours, known.expires_at) = (true, ours.expires_at);
    }
    let known = lock(&entry.known).person.clone();
    identity.who(token, known.as_ref().map(|it| &it.0)).await
}

/// What the provider tells our application of a token with which nobody may ask for a while, if the person is
/// known. It is the error otherwise.
async fn vouched_for(
    identity: &Identity,
    entry: &Token,
    token: &str,
    identity_error: IdentityError,
) -> Result<Who, IdentityError> {
    let is_asked = lock(&entry.known).is_used_up && identity.application().is_some();
    let person = lock(&entry.known).person.clone().filter(|_| is_asked);
    let Some((mut person, _)) = person else {
        return Err(identity_error);
    };
    match identity.ours(token).await {
        Ok(Some(ours)) => {
            person.account.login = ours.login.unwrap_or(person.account.login);
            Ok(Who::Person(person))
        }
        Ok(None) => Ok(Who::Nobody),
        Err(_) => Err(identity_error),
    }
}

/// The tier that a person has now. With `wait` the person comes from memory, and the provider may be asked again after
/// that time. Then the login may belong to somebody else by now, so nothing is written to the database; and it may not have
/// the person, who could not be stored or was forgotten since.
async fn tier(app: &App, person: &Person, wait: Option<Duration>) -> Result<Validated, Error> {
    let user = match wait {
        None => database::step(users::seen(&app.db, &app.clock, &person.account)).await?,
        Some(wait) => {
            let known = users::known(&app.db, person.account.provider_id);
            let known = database::step(known).await?;
            known.ok_or(Error::ProviderUnavailable(wait))?
        }
    };
    let candidates = database::step(licenses::candidates(
        &app.db,
        user,
        app.config.license_grace,
    ))
    .await?;
    let resolved = resolve(&candidates, app.clock.now());
    let mut validated = Validated {
        tier: resolved.tier,
        status: resolved.status,
        email: person.email.clone(),
        username: person.account.login.clone(),
        org_name: resolved.org_name,
        json: Bytes::new(),
    };
    let json = serde_json::to_vec(&validated).map_err(|_| Error::Internal)?;
    validated.json = json.into();
    Ok(validated)
}

/// Logs why the provider gave no answer. It is logged only once, and not again during the pause in
/// which the provider is not asked.
pub fn report(identity_error: &IdentityError, what: &str) {
    match identity_error {
        IdentityError::LeftAlone { .. } => tracing::debug!(error = %identity_error, "{what}"),
        IdentityError::Unavailable { .. }
        | IdentityError::Limited { .. }
        | IdentityError::Unclear { .. } => {
            tracing::warn!(error = %identity_error, "{what}");
        }
        IdentityError::Misconfigured { .. } => tracing::error!(error = %identity_error, "{what}"),
    }
}

impl Validations {
    /// The remembered facts about a token. A new token gets an entry, if it has the form of a
    /// token and the client may ask about one more.
    fn token(&self, app: &App, token: &str, client: IpAddr) -> Result<Arc<Token>, Error> {
        let key = hash(app, token);
        if let Some(entry) = lock(&self.tokens).get(&key) {
            return Ok(entry.clone());
        }
        let identity = app.identity.as_ref();
        if identity.is_some_and(|identity| identity.rules_out(token)) {
            return Err(Error::TokenInvalid);
        }
        app.limits.tokens.admit(client)?;
        Ok(self.insert(app, key))
    }

    fn own_token(&self, app: &App, token: &str, expires_at: Option<Timestamp>) -> Arc<Token> {
        let entry = self.insert(app, hash(app, token));
        let mut known = lock(&entry.known);
        (known.is_ours, known.expires_at) = (true, expires_at);
        drop(known);
        entry
    }

    fn insert(&self, app: &App, key: [u8; 32]) -> Arc<Token> {
        let mut tokens = lock(&self.tokens);
        if tokens.len() >= MOST_TOKENS && !tokens.contains_key(&key) {
            forget_idlest(&mut tokens, FORGOTTEN_AT_ONCE);
        }
        let new = || {
            Arc::new(Token {
                hash: key,
                ..Token::default()
            })
        };
        let entry = tokens.entry(key).or_insert_with(new).clone();
        lock(&entry.known).seen = app.clock.elapsed();
        entry
    }

    /// Forgets tokens that were not used for a while and about which nothing must be remembered.
    pub fn forget_idle(&self, app: &App) {
        let now = app.clock.elapsed();
        let keep = app.config.auth_stale.max(PERSON_KEPT);
        lock(&self.tokens).retain(|_, entry| {
            let mut known = lock(&entry.known);
            let used = known
                .seen
                .max(known.answer_until)
                .max(known.left_alone_until);
            if now < used + PERIOD || (known.person.is_some() && now < used + keep) {
                return true;
            }
            known.person = None;
            known.answer = None;
            known.validated = VecDeque::new();
            (known.is_ours || known.was_valid) && now < used + KEPT
        });
    }
}

/// Forgets tokens when there are too many. Tokens that were never good go first, so that somebody
/// who sends many of them does not displace the good ones.
fn forget_idlest(tokens: &mut HashMap<[u8; 32], Arc<Token>>, most: usize) {
    let mut keys: Vec<(bool, Duration, [u8; 32])> = tokens
        .iter()
        .map(|(key, entry)| {
            let known = lock(&entry.known);
            (known.was_valid, known.seen, *key)
        })
        .collect();
    keys.sort_unstable();
    for (_, _, key) in keys.into_iter().take(most) {
        tokens.remove(&key);
    }
}

/// The hash by which a token is remembered. Where the provider has been asked whose application a token is of, another
/// application has other hashes.
fn hash(app: &App, token: &str) -> [u8; 32] {
    let application = app.identity.as_ref().and_then(Identity::application);
    let hash = Sha256::new()
        .chain_update(application.unwrap_or_default())
        .chain_update("\n");
    hash.chain_update(token).finalize().into()
}

/// Reads which tokens were confirmed lately.
pub async fn recall(app: &App) {
    let most = i64::try_from(MOST_TOKENS - FORGOTTEN_AT_ONCE).unwrap_or(i64::MAX);
    let noted = confirmed_tokens::list(&app.db, app.clock.now(), most).await;
    let noted = noted.unwrap_or_else(|error| {
        tracing::warn!(%error, "the tokens that were confirmed lately cannot be read; they are asked about as new ones are");
        Vec::new()
    });
    for confirmed in noted {
        let Ok(key) = confirmed.hash.try_into() else {
            continue;
        };
        let entry = app.validations.insert(app, key);
        let mut known = lock(&entry.known);
        known.was_valid = true;
        known.is_ours = true;
        known.expires_at = confirmed.expires_at;
        known.noted_at = Some(confirmed.confirmed_at);
    }
}

impl Known {
    /// Whether the provider's last answer about the token was good.
    fn is_trusted(&self) -> bool {
        (self.was_valid || self.is_ours) && self.refusals == 0
    }
}

impl Token {
    fn confirmed(&self, person: &Person, at: Duration) {
        let mut known = lock(&self.known);
        known.person = Some((person.clone(), at));
        known.was_valid = true;
        known.refusals = 0;
    }

    fn leave_alone(&self, app: &App, identity_error: &IdentityError) {
        let mut known = lock(&self.known);
        known.left_alone_until = app.clock.elapsed() + identity_error.wait();
        known.is_used_up = matches!(identity_error, IdentityError::Limited { .. });
    }

    /// Writes that the token was confirmed, unless that was written lately.
    async fn note(&self, app: &App) {
        let now = app.clock.now();
        let (noted_at, expires_at) = {
            let known = lock(&self.known);
            (known.noted_at, known.expires_at)
        };
        if noted_at.is_some_and(|at| now.since(at) < NOTED) {
            return;
        }
        let confirmed = Confirmed {
            hash: self.hash.to_vec(),
            confirmed_at: now,
            expires_at,
        };
        let noted = database::step(confirmed_tokens::note(&app.db, &confirmed)).await;
        if noted.is_ok() {
            lock(&self.known).noted_at = Some(now);
        }
    }

    fn fresh(&self, app: &App) -> Option<Answer> {
        let known = lock(&self.known);
        let is_fresh = app.clock.elapsed() < known.answer_until;
        known.answer.clone().filter(|_| is_fresh)
    }

    /// The result when the provider does not know the token, and how long it is valid. If the
    /// provider knew the token before and says this for the first time, it may be a mistake.
    fn refused(&self, now: Timestamp) -> (Error, Duration) {
        let mut known = lock(&self.known);
        known.person = None;
        known.refusals = known.refusals.saturating_add(1);
        let error = if known.expires_at.is_some_and(|at| at <= now) {
            Error::TokenExpired
        } else if known.was_valid {
            Error::TokenRevoked
        } else {
            Error::TokenInvalid
        };
        let was_good = known.was_valid || known.is_ours;
        let is_slip = was_good && known.refusals == 1;
        (error, if is_slip { FRESH } else { WORTHLESS })
    }

    /// The result when the provider knows the token, but its owner may not log in.
    fn unusable(&self, app: &App, error: Error) -> Answer {
        let mut known = lock(&self.known);
        known.person = None;
        known.refusals = 0;
        drop(known);
        self.remember(Err(error), app.clock.elapsed() + FRESH)
    }

    fn remember(&self, answer: Answer, until: Duration) -> Answer {
        let mut known = lock(&self.known);
        known.answer = Some(answer.clone());
        known.answer_until = until;
        answer
    }

    /// The person that the provider last confirmed, if that was not too long ago, and until when
    /// this may be used.
    fn believed(&self, now: Duration, stale: Duration) -> Option<(Person, Duration)> {
        let known = lock(&self.known);
        let (person, confirmed) = known.person.as_ref()?;
        let until = *confirmed + stale;
        (now < until).then(|| (person.clone(), until))
    }

    /// Counts a validation, and refuses it if there were already as many in the last minute as the
    /// limit allows.
    fn count(&self, app: &App) -> Result<(), Error> {
        let now = app.clock.elapsed();
        let mut known = lock(&self.known);
        known.seen = now;
        let limit = app.config.validations as usize;
        if limit == 0 {
            return Ok(());
        }
        while known
            .validated
            .front()
            .is_some_and(|first| now >= *first + PERIOD)
        {
            known.validated.pop_front();
        }
        if known.validated.len() >= limit {
            let first = known.validated.front().copied().unwrap_or(now);
            let wait = (first + PERIOD).saturating_sub(now);
            return Err(Error::RateLimited(wait));
        }
        known.validated.push_back(now);
        Ok(())
    }
}

#[cfg(test)]
#[path = "../tests/unit/validation.rs"]
mod tests;
