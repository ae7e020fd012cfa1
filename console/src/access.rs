//! Who may see what. People sign in with an operator's key, with the account of the identity provider that a key names,
//! or with the one-time link of a development start, and get a session: a cookie of 256 random bits, of which the database has only a keyed hash.
//!
//! [`Visit`] is what a handler of a page gets. It names the role that the page needs, and it alone gives
//! the database. [`Write`] is the same for a request that changes something: it has also shown that it
//! comes from a page of this session.

use std::marker::PhantomData;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::request::Parts as RequestParts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use config::Config;
use domain::api_key::Role;
use domain::privacy::Keys;
use domain::time::Timestamp;
use platform::clock::Clock;
use platform::lock::lock;
use process::Parts;
use providers::identity::Identity;
use serde_json::{Value, json};
use server::client_address;
use server::guesses::Guesses;
use store::audit::{self, By};
use store::sql::{self, Access, Db};
use store::{api_keys, console_sessions};
use subtle::ConstantTimeEq as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use uuid::Uuid;

use crate::Console;
use crate::address;
use crate::error::Error;
use crate::fields::Fields;
use crate::form;
use crate::known::{Counts, Known};
use crate::pages::live::Watched;
use crate::routes::LIVE_EVENTS;

/// A session ends when it was not used for this long.
const IDLE: Duration = Duration::from_mins(30);
/// And at the latest after this time.
const LONGEST: Duration = Duration::from_hours(12);
/// The end of a session is moved at most this often.
const MOVED: Duration = Duration::from_mins(1);
/// How long a page waits for that.
const EXTENDING: Duration = Duration::from_millis(500);
/// How long a page waits to hear whether the database takes writes.
const ASKED: Duration = Duration::from_millis(500);
/// How long it may take to find out whether somebody is still signed in.
const LOOKED_UP: Duration = Duration::from_secs(5);
/// The cookie of a session.
const SESSION: &str = "waybill-console";
/// The cookie of a sign-in that has begun, and for how long it is kept.
const ATTEMPT: &str = "waybill-sign-in";
const ATTEMPT_SECONDS: u32 = 600;

/// The role that a page needs.
pub trait Needs: Send + Sync + 'static {
    const ROLE: Role;
}

macro_rules! roles {
    ($($role:ident)*) => {$(
        pub struct $role;

        impl Needs for $role {
            const ROLE: Role = Role::$role;
        }
    )*};
}

roles!(Reader Operator Privacy Owner);

/// Whether somebody with these roles has another one. Everybody who may sign in may read.
pub fn have(roles: &[Role], wanted: Role) -> bool {
    match wanted {
        Role::Reader => !roles.is_empty(),
        _ => roles.contains(&wanted) || roles.contains(&Role::Owner),
    }
}

/// Lets people in.
pub struct Gate {
    db: Db,
    clock: Clock,
    keys: Arc<Keys>,
    guesses: Guesses,
    /// The one-time link that was not used yet: the hash of its code, and its key.
    link: Mutex<Option<([u8; 32], Uuid)>>,
    /// `None`: nobody signs in through an identity provider.
    identity: Option<Identity>,
}

/// Somebody who is signed in.
pub struct SignedIn {
    /// The name of the key.
    pub name: String,
    pub roles: Vec<Role>,
    key: Uuid,
    hash: [u8; 32],
    form_token: String,
}

impl SignedIn {
    /// What a form of this session has in it. A page elsewhere cannot know it.
    pub fn form_token(&self) -> &str {
        &self.form_token
    }

    /// The strongest of the roles, for the page's heading.
    pub fn role(&self) -> &'static str {
        self.roles.iter().max().map_or("", |role| role.into_str())
    }
}

impl Gate {
    pub fn new(parts: &Parts) -> Self {
        Gate {
            db: parts.db.clone(),
            clock: parts.clock.clone(),
            keys: parts.keys.clone(),
            guesses: Guesses::new(&parts.clock),
            link: Mutex::default(),
            identity: parts
                .config
                .identity
                .as_ref()
                .map(|settings| Identity::new(settings, &parts.clock))
                .filter(Identity::signs_browsers_in),
        }
    }

    /// The identity provider, where it can sign somebody in.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    pub fn forget_idle(&self) {
        self.guesses.forget_idle();
    }

    /// A code that signs in once, with this key.
    pub fn once(&self, key: Uuid) -> String {
        let code = hex::encode(self.clock.secret());
        let hash = self.hash("link", &code);
        *lock(&self.link) = Some((hash, key));
        code
    }

    fn hash(&self, what: &str, secret: &str) -> [u8; 32] {
        self.keys
            .code("console", &[what.as_bytes(), secret.as_bytes()])
    }

    /// Begins a session with a key, and returns its cookie.
    async fn sign_in(&self, key: &str, client: IpAddr) -> Result<String, Error> {
        self.guesses.admit(client).map_err(Error::RateLimited)?;
        let now = self.clock.now();
        let known = api_keys::authenticate(&self.db, api_keys::hash(key), now).await?;
        let Some(known) = known else {
            self.refused(client);
            tracing::info!("somebody gave the console a key that opens nothing");
            return Err(Error::WrongKey);
        };
        if known.rights.roles().is_empty() {
            return Err(Error::NoRole);
        }
        self.begin(known.id, &known.name, now, json!({})).await
    }

    /// Counts what opens nothing.
    fn refused(&self, client: IpAddr) {
        self.guesses.worthless(client);
        metrics::counter!("waybill_console_sign_ins_refused_total").increment(1);
    }

    /// Begins a session with the key of an account of the identity provider.
    async fn sign_in_account(&self, account: i64, client: IpAddr) -> Result<String, Error> {
        let now = self.clock.now();
        let keys = api_keys::of_account(&self.db, account, now).await?;
        let key = keys.iter().find(|key| !key.rights.roles().is_empty());
        let Some(key) = key else {
            self.refused(client);
            tracing::info!("somebody signed in to the console with an account that opens nothing");
            return Err(Error::NoKeyOf(account));
        };
        let with = json!({"with": "account"});
        self.begin(key.id, &key.name, now, with).await
    }

    /// Begins a session with the code of the one-time link. A wrong code is not counted: nobody can guess one, and any
    /// page that an operator visits can have their browser ask for this address.
    async fn sign_in_once(&self, code: &str) -> Result<String, Error> {
        let hash = self.hash("link", code);
        let key = {
            let mut link = lock(&self.link);
            let fits = link.is_some_and(|(own, _)| own.ct_eq(&hash).into());
            if fits { link.take() } else { None }
        };
        let Some((_, key)) = key else {
            return Err(Error::UsedLink);
        };
        let now = self.clock.now();
        let Some(name) = api_keys::good_name(&self.db, key, now).await? else {
            return Err(Error::UsedLink);
        };
        self.begin(key, &name, now, json!({})).await
    }

    async fn begin(
        &self,
        key: Uuid,
        name: &str,
        now: Timestamp,
        details: Value,
    ) -> Result<String, Error> {
        let cookie = hex::encode(self.clock.secret());
        let hash = self.hash("session", &cookie);
        let mut tx = self.db.begin().await?;
        console_sessions::insert(&mut tx, hash, key, now, now.plus(IDLE)).await?;
        let by = By {
            keys: &self.keys,
            actor: &actor(name),
            now,
        };
        by.note(&mut tx, "console.signed_in", key, details).await?;
        tx.commit().await?;
        api_keys::note_use(&self.db, key, now).await?;
        tracing::info!(key = %key, "somebody signed in to the console");
        Ok(cookie)
    }

    async fn session(&self, cookie: &str) -> sql::Result<Option<SignedIn>> {
        let (hash, now) = (self.hash("session", cookie), self.clock.now());
        let Some(session) = console_sessions::find(&self.db, hash, now).await? else {
            return Ok(None);
        };
        let ends = now.plus(IDLE).min(session.created_at.plus(LONGEST));
        if ends.since(session.expires_at) >= MOVED {
            // People look most when the database takes no writes.
            let extended = console_sessions::extend(&self.db, hash, now, ends);
            match timeout(EXTENDING, extended).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "the end of a session was not moved"),
                Err(_) => tracing::debug!("the end of a session was not moved in time"),
            }
        }
        let token = self.keys.code("console", &[b"form", &hash]);
        Ok(Some(SignedIn {
            name: session.name,
            roles: session.rights.roles(),
            key: session.key,
            hash,
            form_token: hex::encode(token),
        }))
    }

    /// Whether somebody is still signed in. This is no use of the session, so who only watches is signed
    /// out when the session was not used for long.
    async fn is_in(&self, db: &Db, who: &SignedIn) -> sql::Result<bool> {
        let found = console_sessions::find(db, who.hash, self.clock.now()).await?;
        Ok(found.is_some_and(|session| !session.rights.roles().is_empty()))
    }
}

/// A request for a page, of somebody who has the role `R`.
pub struct Visit<R> {
    console: Arc<Console>,
    pub who: SignedIn,
    path: Vec<(String, String)>,
    pub query: Fields,
    headers: HeaderMap,
    /// Held while the page is made, so that only so many read at a time.
    turn: Option<OwnedSemaphorePermit>,
    /// The numbers of the menu.
    pub counts: Arc<Counts>,
    role: PhantomData<R>,
}

impl<R> Visit<R> {
    /// For reading alone.
    pub fn db(&self) -> &Db {
        &self.console.reads
    }

    /// What is known of the installation.
    pub fn known(&self) -> &Known {
        &self.console.known
    }

    pub fn config(&self) -> &Arc<Config> {
        &self.console.parts.config
    }

    /// Whether the connections of the process, which write, can do so. `None`: that could not be found out soon,
    /// for instance because all of them are in use.
    pub async fn access(&self) -> Option<Access> {
        let asked = timeout(ASKED, self.console.parts.db.access()).await;
        asked.ok()?.ok()
    }

    /// Where the process hears of deliveries, for a visit that goes on.
    pub fn watched(&self) -> &Watched {
        &self.console.watched
    }

    /// A header of the request, of those that a page reads.
    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Lets others read, until the next [`Visit::take_turn`].
    pub fn give_turn_back(&mut self) {
        self.turn = None;
    }

    /// Whether this visitor is still signed in. `None`: that could not be found out.
    pub async fn is_still_let_in(&self) -> Option<bool> {
        let find = async {
            let _turn = self.console.turns.acquire().await;
            let gate = &self.console.gate;
            gate.is_in(&self.console.reads, &self.who).await
        };
        timeout(LOOKED_UP, find).await.ok()?.ok()
    }

    pub fn now(&self) -> Timestamp {
        self.console.parts.clock.now()
    }

    /// How long a subscription's licence stays active after its end.
    pub fn license_grace(&self) -> Duration {
        self.console.parts.config.license_grace
    }

    /// An id for what a form of this page will make, so that it is made once, however often it is sent.
    pub fn new_id(&self) -> Uuid {
        self.console.parts.clock.id()
    }

    /// Whether they may do what this role may do. Where the console is read-only, nobody may.
    pub fn may(&self, role: Role) -> bool {
        !self.console.parts.config.console.is_read_only && have(&self.who.roles, role)
    }

    /// A part of the path. A route without it is a mistake that each test of the page finds.
    pub fn path(&self, name: &str) -> &str {
        let mut parts = self.path.iter();
        parts
            .find(|(part, _)| part == name)
            .map_or("", |(_, value)| value)
    }

    /// The part of the path that is an id.
    pub fn id(&self) -> Result<Uuid, Error> {
        Uuid::parse_str(self.path("id")).map_err(|_| Error::NotFound)
    }
}

/// A cookie of a request. The name depends on the address, so that a cookie that somebody set without
/// https counts for nothing with it.
fn cookie<'a>(console: &Console, headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let name = cookie_name(console, name);
    let all = headers.get_all(COOKIE).into_iter();
    all.filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(given, _)| *given == name)
        .map(|(_, value)| value)
}

/// With this prefix a browser takes a cookie only over https, for this host alone, and for no path but all.
fn cookie_name(console: &Console, name: &str) -> String {
    let prefix = if console.address.is_encrypted() {
        "__Host-"
    } else {
        ""
    };
    format!("{prefix}{name}")
}

/// The header that sets the cookie of a session, or takes it away when it is empty.
fn session_cookie(console: &Console, value: &str) -> HeaderValue {
    let age = if value.is_empty() { "; Max-Age=0" } else { "" };
    set_cookie(console, SESSION, value, &format!("SameSite=Strict{age}"))
}

fn set_cookie(console: &Console, name: &str, value: &str, rest: &str) -> HeaderValue {
    let name = cookie_name(console, name);
    let secure = if console.address.is_encrypted() {
        "; Secure"
    } else {
        ""
    };
    let cookie = format!("{name}={value}; Path=/; HttpOnly; {rest}{secure}");
    HeaderValue::try_from(cookie).expect("hex and what is percent-encoded is visible ASCII")
}

impl<R: Needs> Visit<R> {
    /// A visit of somebody who is signed in and has the role.
    async fn begin(parts: &mut RequestParts, console: &Arc<Console>) -> Result<Self, Error> {
        let who = match cookie(console, &parts.headers, SESSION) {
            Some(cookie) => console.gate.session(cookie).await?,
            None => None,
        };
        let Some(who) = who else {
            return Err(Error::SignedOut(next(&parts.uri)));
        };
        if !have(&who.roles, R::ROLE) {
            return Err(Error::Role(R::ROLE));
        }
        let path = RawPathParams::from_request_parts(parts, console).await;
        let path = path.map_err(|_| Error::NotFound)?;
        let path: Vec<(String, String)> = path
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        // No database takes it, so nothing has it in its id.
        if path.iter().any(|(_, value)| value.contains('\0')) {
            return Err(Error::NotFound);
        }
        Ok(Visit {
            console: console.clone(),
            who,
            path,
            query: Fields::of_query(parts.uri.query().unwrap_or_default())?,
            headers: parts.headers.clone(),
            turn: None,
            counts: Arc::default(),
            role: PhantomData,
        })
    }

    /// Waits until this visit may read.
    pub async fn take_turn(mut self) -> Self {
        // It is never closed.
        self.turn = self.console.turns.clone().acquire_owned().await.ok();
        self
    }
}

impl<R: Needs> FromRequestParts<Arc<Console>> for Visit<R> {
    type Rejection = Error;

    async fn from_request_parts(
        parts: &mut RequestParts,
        console: &Arc<Console>,
    ) -> Result<Self, Error> {
        let visit = Visit::begin(parts, console).await?;
        let mut visit = visit.take_turn().await;
        // What is no page has no menu.
        if visit.query.get("format").is_empty() && parts.uri.path() != LIVE_EVENTS {
            visit.counts = console.known.counts(&visit).await;
        }
        Ok(visit)
    }
}

/// A request that changes something, or whose text belongs into no address. It comes from a page of this
/// session.
pub struct Write<R> {
    visit: Visit<R>,
    /// As the audit has it.
    actor: String,
    pub fields: Fields,
}

impl<R> Write<R> {
    /// What outlives the handler of this write.
    pub fn console(&self) -> Arc<Console> {
        self.visit.console.clone()
    }

    /// Everything with which something is changed: the database, the bus, the clock.
    pub fn parts(&self) -> &Parts {
        &self.visit.console.parts
    }

    /// Lets others read, before something that takes long.
    pub fn end_turn(&mut self) {
        self.visit.turn = None;
    }

    /// Who changes it, for the audit. It is the same form as with `--by` on the command line.
    pub fn by(&self) -> By<'_> {
        By {
            keys: &self.parts().keys,
            actor: &self.actor,
            now: self.now(),
        }
    }
}

impl<R> Deref for Write<R> {
    type Target = Visit<R>;

    fn deref(&self) -> &Visit<R> {
        &self.visit
    }
}

impl<R: Needs> FromRequest<Arc<Console>> for Write<R> {
    type Rejection = Error;

    async fn from_request(request: Request, console: &Arc<Console>) -> Result<Self, Error> {
        let (mut parts, body) = of_own_page(request, console)?;
        let visit = Visit::<R>::begin(&mut parts, console).await?;
        let fields = form::read(body).await?;
        let token = fields.get("token").as_bytes();
        if !bool::from(token.ct_eq(visit.who.form_token().as_bytes())) {
            return Err(Error::Elsewhere);
        }
        // Whoever reads also searches and signs out.
        if R::ROLE != Role::Reader && !visit.may(R::ROLE) {
            return Err(Error::ReadOnly);
        }
        let mut visit = visit.take_turn().await;
        visit.counts = console.known.counts(&visit).await;
        Ok(Write {
            actor: actor(&visit.who.name),
            visit,
            fields,
        })
    }
}

/// A request of somebody who need not be signed in: to sign in. It has nothing but the gate.
pub struct Stranger {
    console: Arc<Console>,
    client: IpAddr,
    pub query: Fields,
    headers: HeaderMap,
}

impl FromRequestParts<Arc<Console>> for Stranger {
    type Rejection = Error;

    async fn from_request_parts(
        parts: &mut RequestParts,
        console: &Arc<Console>,
    ) -> Result<Self, Error> {
        let trusted = &console.parts.config.trusted_proxies;
        Ok(Stranger {
            client: client_address::of(&parts.extensions, &parts.headers, trusted),
            console: console.clone(),
            query: Fields::of_query(parts.uri.query().unwrap_or_default())?,
            headers: parts.headers.clone(),
        })
    }
}

impl Stranger {
    pub async fn sign_in(&self, key: &str, next: &str) -> Result<Response, Error> {
        let cookie = self.console.gate.sign_in(key.trim(), self.client).await?;
        Ok(self.admitted(&cookie, next))
    }

    pub async fn sign_in_once(&self) -> Result<Response, Error> {
        if address::is_from_elsewhere(&self.headers) {
            return Err(Error::Elsewhere);
        }
        let cookie = self
            .console
            .gate
            .sign_in_once(self.query.get("code"))
            .await?;
        Ok(self.admitted(&cookie, "/"))
    }

    /// The identity provider, where it can sign somebody in.
    pub fn identity(&self) -> Option<&Identity> {
        self.console.gate.identity()
    }

    /// Fails when this network has guessed too often.
    pub fn admit(&self) -> Result<(), Error> {
        let guesses = &self.console.gate.guesses;
        guesses.admit(self.client).map_err(Error::RateLimited)
    }

    /// What was sent opens nothing.
    pub fn worthless(&self) {
        self.console.gate.refused(self.client);
    }

    /// What nobody can know: 64 hexadecimal digits.
    pub fn secret(&self) -> String {
        hex::encode(self.console.gate.clock.secret())
    }

    /// What only this installation can make of a secret: 64 hexadecimal digits.
    pub fn code(&self, what: &str, secret: &str) -> String {
        hex::encode(self.console.gate.hash(what, secret))
    }

    /// The whole address of a path of the console.
    pub fn address_of(&self, path: &str) -> String {
        format!("{}{path}", self.console.address.url())
    }

    /// The cookie of a sign-in that has begun.
    pub fn attempt(&self) -> Option<&str> {
        cookie(&self.console, &self.headers, ATTEMPT)
    }

    /// The header that sets it, or takes it away when it is empty. The browser sends it when the provider sends the
    /// browser here, which it would not do with `Strict`.
    pub fn attempt_cookie(&self, value: &str) -> HeaderValue {
        let age = if value.is_empty() { 0 } else { ATTEMPT_SECONDS };
        let rest = format!("SameSite=Lax; Max-Age={age}");
        set_cookie(&self.console, ATTEMPT, value, &rest)
    }

    /// Begins a session for the holder of an account, and returns the header that sets its cookie.
    pub async fn sign_in_account(&self, account: i64) -> Result<HeaderValue, Error> {
        let cookie = self.console.gate.sign_in_account(account, self.client);
        Ok(session_cookie(&self.console, &cookie.await?))
    }

    fn admitted(&self, cookie: &str, next: &str) -> Response {
        let to = if is_own_path(next) { next } else { "/" };
        let cookie = session_cookie(&self.console, cookie);
        ([(SET_COOKIE, cookie)], Redirect::to(to)).into_response()
    }
}

/// A form for signing in, from a page of this console.
pub struct SignIn {
    pub stranger: Stranger,
    pub fields: Fields,
}

impl FromRequest<Arc<Console>> for SignIn {
    type Rejection = Error;

    async fn from_request(request: Request, console: &Arc<Console>) -> Result<Self, Error> {
        let (mut parts, body) = of_own_page(request, console)?;
        let stranger = Stranger::from_request_parts(&mut parts, console).await?;
        let fields = form::read(body).await?;
        Ok(SignIn { stranger, fields })
    }
}

/// The parts of a request that a page of this console has sent.
fn of_own_page(request: Request, console: &Console) -> Result<(RequestParts, Body), Error> {
    let (parts, body) = request.into_parts();
    if console.address.is_from_here(&parts.uri, &parts.headers) {
        Ok((parts, body))
    } else {
        Err(Error::Elsewhere)
    }
}

/// The holder of a key, as the audit has them.
fn actor(name: &str) -> String {
    format!("{}:{name}", audit::OPERATOR)
}

/// Ends the session of a visit.
pub async fn sign_out<R>(write: &Write<R>) -> Result<Response, Error> {
    let console = &write.console;
    let mut tx = console.gate.db.begin().await?;
    if console_sessions::end(&mut tx, write.who.hash).await? {
        let by = write.by();
        by.note(&mut tx, "console.signed_out", write.who.key, json!({}))
            .await?;
    }
    tx.commit().await?;
    let cookie = session_cookie(console, "");
    Ok(([(SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}

/// The path to which somebody wanted to go, and its query.
fn next(uri: &Uri) -> String {
    let path = uri.path_and_query().map_or("/", |it| it.as_str());
    if is_own_path(path) { path } else { "/" }.to_owned()
}

/// Whether a text is a path of this console, and leads nowhere else.
pub fn is_own_path(text: &str) -> bool {
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    text.starts_with('/') && !text.starts_with("//") && is_plain && text.len() <= 1000
}
