//! Device login (RFC 8628). Waybill gives the provider's device code to the client. It asks the
//! provider about a code for one poll at a time and never faster than the provider allows,
//! whatever the number of clients and replicas.
//!
//! 1. [`begin`] gets a code from the provider and stores a row of `device_codes`.
//! 2. [`poll`] finds the row. A code without a row was not given out by Waybill, and is refused
//!    without asking the provider.
//! 3. A poll that comes too early, or while another one asks, gets `slow_down`. One that comes less
//!    than [`EARLY`] too early is answered as pending: its client counts the interval from when it
//!    sends, and Waybill from the provider's answer. Otherwise the poll takes the turn in the database.
//! 4. The provider is asked, not earlier than its interval and [`MARGIN`] after the last time; a
//!    poll that comes a moment too early waits for that moment. If the provider answers
//!    `slow_down`, the interval becomes longer.
//! 5. A token is stored, encrypted under a key made of the code, before anything else is done with
//!    it, because the provider gives it out only once. Until the code's own end, or for
//!    [`LEAST_KEPT`] if that is longer, a poll with the code can fetch the token, even if it takes
//!    long to find out whose it is.
//! 6. `validation` finds out whose the token is and which tier this person has.
//! 7. After the first answer with the token, polls can fetch it for [`KEPT`] only, so that a
//!    client that did not receive the answer can ask again.
//!
//! Whatever fails in between is answered as pending for [`PASSING`], since clients give a login up
//! that gets another answer than those of RFC 8628, section 3.5. An outage that lasts longer is said.
//!
//! All of this runs in tasks that go on when a client disconnects.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::time::Timestamp;
use platform::crash_point::{self, Point};
use platform::lock::lock;
use platform::task;
use platform::token::Token;
use providers::identity::{
    self, DeviceCode, Granted, Identity, IdentityError, LONGEST_PAUSE, Polled,
};
use serde::{Deserialize, Serialize};
use store::device_code_requests;
use store::device_codes::{self, Hash, Login, Next, State};

use crate::App;
use crate::database;
use crate::error::Error;
use crate::validation::{self, Validated, report};
use server::network;

/// How much longer than the interval Waybill waits. The provider counts the interval from its own
/// answer and by its own clock.
const MARGIN: Duration = Duration::from_millis(500);
/// A poll that is less than this too early does not get `slow_down`, because its client would stay
/// slower for good.
const EARLY: Duration = Duration::from_millis(900);
/// How long a poll holds the turn at most: the margin, the provider's deadline, and the time for
/// the database.
const TURN: Duration = Duration::from_secs(20);
/// How long a token can be fetched again after it was first given out.
const KEPT: Duration = Duration::from_mins(1);
/// How long a token is kept at least before it was given out: one wait of [`LONGEST_PAUSE`], and
/// some time for the client to come back.
const LEAST_KEPT: Duration = Duration::from_mins(2);
/// How long the provider or the database may be away before polls are told so.
const PASSING: Duration = Duration::from_mins(1);
/// The period of `AUTH_DEVICE_CODES_PER_15_MINUTES`.
const PERIOD: Duration = Duration::from_mins(15);
/// How much a `slow_down` adds to the interval if the provider names no new interval (RFC 8628,
/// section 3.5).
const SLOWER: Duration = Duration::from_secs(5);

/// Since when polls fail, whoever polls.
#[derive(Default)]
pub struct Outage(Mutex<Option<Failing>>);

/// The first and the last failure in a row, by the clock's elapsed time.
#[derive(Clone, Copy)]
struct Failing {
    since: Duration,
    last: Duration,
}

impl Outage {
    fn ends(&self) {
        *lock(&self.0) = None;
    }

    /// Notes a failure, and returns whether it may pass soon. A failure long after the last one is the
    /// first of another outage.
    fn may_pass(&self, now: Duration) -> bool {
        let mut failing = lock(&self.0);
        let known = failing.filter(|it| now.saturating_sub(it.last) < PASSING);
        let since = known.map_or(now, |it| it.since);
        *failing = Some(Failing { since, last: now });
        now.saturating_sub(since) < PASSING
    }
}

/// A login that has ended well.
pub struct Authorized {
    pub granted: Granted,
    pub holder: Arc<Validated>,
}

/// The content that is stored encrypted.
#[derive(Serialize, Deserialize)]
struct Kept {
    token: String,
    scope: String,
    /// When the provider gave the token out: the seconds count from then.
    given_at: Timestamp,
    expires_in: Option<u64>,
    refresh_token: Option<String>,
    refresh_token_expires_in: Option<u64>,
}

/// Begins a login for a client, unless it has begun too many. A request during the pause after a
/// failure of the provider is not counted for the client, and the provider is not asked. A login
/// that the provider refused is counted, so that a client cannot make Waybill ask the provider
/// without end.
pub async fn begin(app: &Arc<App>, client: IpAddr) -> Result<DeviceCode, Error> {
    let app = app.clone();
    let begun = task::finish("login", async move {
        let identity = app.identity.as_ref().ok_or(Error::LoginNotSetUp)?;
        if let Some(wait) = identity.begins_left_alone() {
            return Err(Error::ProviderUnavailable(wait));
        }
        let refused = |identity_error: IdentityError| {
            report(&identity_error, "a login could not be begun");
            Error::ProviderUnavailable(identity_error.wait())
        };
        if app.config.device_codes == 0 {
            let code = identity.device_code().await.map_err(refused)?;
            return stored(&app, code).await;
        }
        let key = app.keys.client(&network(client).to_string());
        let (now, most) = (app.clock.now(), app.config.device_codes);
        database::step(device_code_requests::admit(
            &app.db, &key, now, PERIOD, most,
        ))
        .await?
        .map_err(Error::RateLimited)?;
        let asked = identity.device_code().await;
        let is_refused = asked.as_ref().is_err_and(IdentityError::is_refusal);
        let code = match asked.map_err(refused) {
            Ok(code) => stored(&app, code).await,
            Err(error) => Err(error),
        };
        if code.is_err() && !is_refused {
            database::step(device_code_requests::take_back(&app.db, &key, now)).await?;
        }
        code
    });
    begun.await.ok_or(Error::Internal)?
}

async fn stored(app: &App, code: DeviceCode) -> Result<DeviceCode, Error> {
    crash_point::reach(Point::CodeGiven).await;
    let now = app.clock.now();
    let expires_at = now.plus(Duration::from_secs(code.expires_in));
    let interval = Duration::from_secs(code.interval);
    let hash = Hash::of(code.device_code.expose());
    // The first poll need not wait for an interval.
    let first = now.minus(MARGIN);
    database::step(async {
        let mut tx = app.db.begin().await?;
        device_codes::insert(&mut tx, &hash, interval, expires_at, first).await?;
        tx.commit().await
    })
    .await?;
    Ok(code)
}

/// The result of a poll: the state of the login.
pub async fn poll(app: &Arc<App>, device_code: &str) -> Result<Authorized, Error> {
    if !identity::is_device_code(device_code) {
        return Err(Error::DeviceCodeInvalid);
    }
    let polled = task::finish("poll", completed(app.clone(), device_code.to_owned()));
    let polled = polled.await.ok_or(Error::Internal)?;
    let outcome = polled.as_ref().map_or_else(Error::reason, |_| "done");
    metrics::counter!("waybill_login_polls_total", "outcome" => outcome).increment(1);
    match polled {
        Err(Error::ProviderUnavailable(_) | Error::Unavailable)
            if app.login_outage.may_pass(app.clock.elapsed()) =>
        {
            Err(Error::AuthorizationPending)
        }
        polled => polled,
    }
}

/// The login, if its person has approved it.
async fn completed(app: Arc<App>, code: String) -> Result<Authorized, Error> {
    let (granted, until) = granted(&app, &code).await?;
    let end = |seconds| app.clock.now().plus(Duration::from_secs(seconds));
    let expires_at = granted.expires_in.map(end);
    let holder = validation::holder_of_own(&app, granted.token.expose(), expires_at).await;
    let holder = holder.map_err(|error| match error {
        Error::ProviderUnavailable(wait) => Error::ProviderUnavailable(wait.min(LONGEST_PAUSE)),
        error => error,
    })?;
    app.login_outage.ends();
    hand_out(&app, &code, until).await;
    Ok(Authorized { granted, holder })
}

/// Stores that the token is given out now, so that it is kept for only [`KEPT`] from now on. If
/// this cannot be stored, the token is kept longer.
async fn hand_out(app: &App, code: &str, kept_until: Timestamp) {
    let until = app.clock.now().plus(KEPT);
    if until < kept_until {
        let hash = Hash::of(code);
        let _ = database::step(device_codes::hand_out(&app.db, &hash, until)).await;
    }
}

/// The token of a login that was authorized by this poll or an earlier one, and until when it is
/// kept.
async fn granted(app: &App, code: &str) -> Result<(Granted, Timestamp), Error> {
    let identity = app.identity.as_ref().ok_or(Error::LoginNotSetUp)?;
    let hash = Hash::of(code);
    let login = database::step(device_codes::find(&app.db, &hash)).await?;
    let login = login.ok_or(Error::DeviceCodeInvalid)?;
    let now = app.clock.now();
    match login.state {
        State::Denied => return Err(Error::AccessDenied),
        State::Authorized => return kept(code, &login, now),
        State::Pending | State::Doubted => {}
    }
    if login.expires_at <= now {
        return Err(Error::DeviceCodeExpired);
    }
    // What is further ahead than any pause is of another clock, or of before this one was set back.
    let latest = now.plus(login.interval.max(LONGEST_PAUSE));
    let next_poll_at = match login.next_poll_at {
        at if at > latest => now,
        at => at,
    };
    let early = next_poll_at.since(now);
    if early > Duration::ZERO && login.is_paused {
        return Err(Error::ProviderUnavailable(early));
    }
    if early > Duration::ZERO && early < EARLY {
        return Err(Error::AuthorizationPending);
    }
    if early > Duration::ZERO {
        // Another poll asks at this moment, and nobody knows when it will be done.
        return Err(Error::SlowDown(early.min(login.interval)));
    }
    if let Some(wait) = identity.polls_left_alone() {
        return Err(Error::ProviderUnavailable(wait.min(LONGEST_PAUSE)));
    }
    let turn = now.plus(TURN);
    if !database::step(device_codes::take_turn(&app.db, &hash, now..=latest, turn)).await? {
        return Err(Error::SlowDown(login.interval));
    }
    tokio::time::sleep(next_poll_at.plus(MARGIN).since(now)).await;
    Turn {
        app,
        hash: &hash,
        login: &login,
        until: turn,
    }
    .ask(identity, code)
    .await
}

/// Decrypts a stored token with the code that the client sent.
fn kept(code: &str, login: &Login, now: Timestamp) -> Result<(Granted, Timestamp), Error> {
    let until = login.token_until.filter(|until| *until > now);
    let sealed = login.token.as_ref().zip(until);
    let (sealed, until) = sealed.ok_or(Error::DeviceCodeInvalid)?;
    let text = device_codes::unseal(code, sealed);
    let kept: Option<Kept> = text.and_then(|text| serde_json::from_str(&text).ok());
    let kept = kept.ok_or(Error::Internal)?;
    let passed = now.since(kept.given_at).as_secs();
    let left = |seconds: u64| seconds.saturating_sub(passed);
    let granted = Granted {
        token: Token::new(kept.token),
        scope: kept.scope,
        expires_in: kept.expires_in.map(left),
        refresh_token: kept.refresh_token.map(Token::new),
        refresh_token_expires_in: kept.refresh_token_expires_in.map(left),
    };
    Ok((granted, until))
}

/// The turn: the right to ask the provider about one login.
struct Turn<'a> {
    app: &'a App,
    hash: &'a Hash,
    login: &'a Login,
    until: Timestamp,
}

impl Turn<'_> {
    async fn ask(&self, identity: &Identity, code: &str) -> Result<(Granted, Timestamp), Error> {
        let interval = self.login.interval;
        crash_point::reach(Point::TokenAsk).await;
        let polled = identity.poll(code).await;
        if polled
            .as_ref()
            .is_ok_and(|polled| !matches!(polled, Polled::Granted(_)))
        {
            self.app.login_outage.ends();
        }
        match polled {
            Ok(Polled::Granted(granted)) => {
                crash_point::reach(Point::TokenGiven).await;
                let until = self.keep(code, &granted).await;
                Ok((granted, until))
            }
            Ok(Polled::Pending) => {
                self.end(State::Pending, interval, interval).await?;
                Err(Error::AuthorizationPending)
            }
            Ok(Polled::SlowDown(reported)) => {
                let reported = reported.map_or(Duration::ZERO, Duration::from_secs);
                let slower = reported.max(interval + SLOWER);
                self.end(self.login.state, slower, slower).await?;
                Err(Error::SlowDown(slower))
            }
            Ok(Polled::Expired) => {
                let now = self.app.clock.now();
                database::step(device_codes::expire(&self.app.db, self.hash, now)).await?;
                Err(Error::DeviceCodeExpired)
            }
            Ok(Polled::Denied) => {
                self.end(State::Denied, interval, interval).await?;
                Err(Error::AccessDenied)
            }
            // The provider has said so twice in a row, so Waybill believes it.
            Ok(Polled::Unknown) if self.login.state == State::Doubted => {
                database::step(device_codes::delete(&self.app.db, self.hash)).await?;
                Err(Error::DeviceCodeInvalid)
            }
            Ok(Polled::Unknown) => {
                self.end(State::Doubted, interval, interval).await?;
                Err(Error::AuthorizationPending)
            }
            Err(identity_error) => {
                report(&identity_error, "a login could not be asked about");
                let pause = identity_error.wait().min(LONGEST_PAUSE).max(interval);
                let state = self.login.state;
                self.ended(state, interval, pause, true).await?;
                Err(Error::ProviderUnavailable(pause))
            }
        }
    }

    /// Gives the turn back. The provider is asked again for a poll that comes after `pause`.
    async fn end(&self, state: State, interval: Duration, pause: Duration) -> Result<(), Error> {
        self.ended(state, interval, pause, false).await
    }

    async fn ended(
        &self,
        state: State,
        interval: Duration,
        pause: Duration,
        is_paused: bool,
    ) -> Result<(), Error> {
        let next = Next {
            state,
            interval,
            poll_at: self.app.clock.now().plus(pause),
            is_paused,
        };
        let end = device_codes::end_turn(&self.app.db, self.hash, self.until, next);
        database::step(end).await
    }

    /// Stores the token encrypted, without a deadline, and returns until when it is kept. If it
    /// cannot be stored, only the client that polls at this moment gets it.
    async fn keep(&self, code: &str, granted: &Granted) -> Timestamp {
        let least = self.app.clock.now().plus(LEAST_KEPT);
        let until = self.login.expires_at.max(least);
        let kept = Kept {
            token: granted.token.expose().to_owned(),
            scope: granted.scope.clone(),
            given_at: self.app.clock.now(),
            expires_in: granted.expires_in,
            refresh_token: granted
                .refresh_token
                .as_ref()
                .map(|it| it.expose().to_owned()),
            refresh_token_expires_in: granted.refresh_token_expires_in,
        };
        let text = serde_json::to_string(&kept).unwrap_or_default();
        let Some(sealed) = device_codes::seal(code, &text) else {
            tracing::error!("a token could not be encrypted; it cannot be fetched again");
            return until;
        };
        let stored = device_codes::authorize(&self.app.db, self.hash, &sealed, until);
        if let Err(error) = stored.await {
            tracing::error!(%error, "a token could not be stored; it cannot be fetched again");
        }
        until
    }
}
