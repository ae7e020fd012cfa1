//! Why a request does not get what it asks for, in one place: the status, the heading, and what the reader
//! can do. It never quotes the request.

use std::borrow::Cow;
use std::fmt::Display;
use std::time::Duration;

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use domain::api_key::Role;
use process::journal::JournalState;
use providers::identity::IdentityError;
use store::sql;

use crate::fields::WrongFields;
use crate::frame::{self, SignInPage};

#[derive(Debug)]
pub enum Error {
    /// Nobody is signed in. The path is where the page for signing in leads.
    SignedOut(String),
    WrongKey,
    /// The key opens the API, and not the console.
    NoRole,
    UsedLink,
    /// Nobody signs in through an identity provider here.
    NoIdentity,
    /// A browser came back from the identity provider without having been sent there.
    NotBegun,
    /// Somebody did not let the identity provider say who they are.
    Denied,
    /// No key names this account of the identity provider.
    NoKeyOf(i64),
    /// The identity provider gave no answer.
    Identity(IdentityError),
    RateLimited(Duration),
    /// As many requests of the visitor's network are under way as may be.
    Crowded,
    /// The page needs a role that the visitor does not have.
    Role(Role),
    /// Nobody may change anything here.
    ReadOnly,
    /// What was asked for must not or cannot be done, for this reason. Nothing was changed.
    Refused(String),
    /// A write does not come from a page of this session.
    Elsewhere,
    /// The request names another host.
    Host,
    NotFound,
    /// There is no such order, job, ..
    Unknown(&'static str),
    Fields,
    /// What a list is asked for makes no sense, for this reason.
    Asked(String),
    Database(sql::Error),
    /// The database may not be served, for this reason.
    NotServed(JournalState),
    Late,
    /// As many watch as may.
    TooManyWatch,
}

impl From<WrongFields> for Error {
    fn from(_: WrongFields) -> Self {
        Error::Fields
    }
}

impl From<lists::Error> for Error {
    fn from(error: lists::Error) -> Self {
        match error {
            lists::Error::Wrong(why) => Error::Asked(why),
            lists::Error::Database(error) => Error::Database(error),
        }
    }
}

impl From<sql::Error> for Error {
    fn from(error: sql::Error) -> Self {
        Error::Database(error)
    }
}

impl From<IdentityError> for Error {
    fn from(error: IdentityError) -> Self {
        Error::Identity(error)
    }
}

impl Error {
    /// What was asked for is not possible, for this reason.
    pub fn impossible(why: impl Display) -> Self {
        Error::Refused(format!("This is not possible: {why}."))
    }

    fn status(&self) -> StatusCode {
        match self {
            Error::SignedOut(_)
            | Error::WrongKey
            | Error::UsedLink
            | Error::NotBegun
            | Error::Denied => StatusCode::UNAUTHORIZED,
            Error::NoKeyOf(_)
            | Error::NoRole
            | Error::Role(_)
            | Error::ReadOnly
            | Error::Elsewhere => StatusCode::FORBIDDEN,
            Error::Refused(_) => StatusCode::CONFLICT,
            Error::RateLimited(_) | Error::Crowded => StatusCode::TOO_MANY_REQUESTS,
            Error::Host => StatusCode::MISDIRECTED_REQUEST,
            Error::NotFound | Error::Unknown(_) | Error::NoIdentity => StatusCode::NOT_FOUND,
            Error::Identity(_) => StatusCode::BAD_GATEWAY,
            Error::Fields | Error::Asked(_) => StatusCode::BAD_REQUEST,
            Error::Database(_) | Error::NotServed(_) | Error::Late | Error::TooManyWatch => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    fn words(&self) -> (&'static str, Cow<'static, str>) {
        match self {
            Error::SignedOut(_) => ("Sign in", Cow::default()),
            Error::WrongKey => (
                "This key opens nothing",
                "It is wrong, or it was revoked, or it has expired. `waybill keys list` shows which keys \
                 there are, and `waybill keys create` makes another.".into(),
            ),
            Error::NoRole => (
                "This key does not open the console",
                "It opens the API alone, or some shops alone. Make one for the console: \
                 `waybill keys create NAME --scope console:reader`.".into(),
            ),
            Error::UsedLink => (
                "This link was used before",
                "It signs in once. Start Waybill again for another one, or sign in with a key.".into(),
            ),
            Error::NoIdentity => (
                "Nobody signs in with GitHub here",
                "For that, set GITHUB_CLIENT_ID and GITHUB_CLIENT_SECRET. Until then sign in with a key.".into(),
            ),
            Error::NotBegun => (
                "This sign-in was not begun here, or took too long",
                "Begin again from this page, in one browser, within ten minutes.".into(),
            ),
            Error::Denied => (
                "GitHub did not say who you are",
                "You declined it, or the account is suspended. Begin again, or sign in with a key.".into(),
            ),
            Error::NoKeyOf(account) => (
                "This account does not open the console",
                format!(
                    "Its number is {account}. An owner lets it in with \
                     `waybill keys create NAME --scope console:reader --account {account}`."
                ).into(),
            ),
            Error::Identity(_) => (
                "GitHub gave no answer",
                "Try again in a minute, or sign in with a key. The log says what was wrong.".into(),
            ),
            Error::RateLimited(wait) => (
                "Too many wrong keys",
                format!(
                    "Your network has sent many keys that open nothing. Try again in {} seconds.",
                    wait.as_secs() + 1
                ).into(),
            ),
            Error::Crowded => (
                "Too many requests at once",
                "As many requests of your network are under way as may be. Try again in a moment.".into(),
            ),
            Error::Role(role) => (
                "Your key does not open this",
                format!(
                    "It needs the scope `console:{}`, or `console:owner`.",
                    role.into_str()
                ).into(),
            ),
            Error::ReadOnly => (
                "The console is read-only",
                "Nothing was changed. CONSOLE_READ_ONLY is set, so give the command that the page names in \
                 a terminal.".into(),
            ),
            Error::Refused(why) => ("Nothing was changed", why.clone().into()),
            Error::Asked(why) => ("This list cannot be shown", why.clone().into()),
            Error::Elsewhere => (
                "This did not come from a page of the console",
                "Nothing was done. Go back, load the page again, and repeat what you did.".into(),
            ),
            Error::Host => (
                "This is not the address of the console",
                "Open it at the address that Waybill names when it starts, or set CONSOLE_URL to this one.".into(),
            ),
            Error::NotFound => (
                "There is no such page",
                "The address is not one of the console.".into(),
            ),
            Error::Unknown(what) => (
                "Not found",
                format!(
                    "There is no such {what} here. It may have been deleted after its retention, or belong \
                     to another installation."
                ).into(),
            ),
            Error::Fields => (
                "This request cannot be read",
                "A field is there twice, is too long, or has characters that no text has.".into(),
            ),
            Error::TooManyWatch => (
                "Too many watch",
                "As many live views are open in this process as may be. Close one, or load the list of \
                 deliveries.".into(),
            ),
            Error::NotServed(state) => (
                "The database is not in use",
                format!("Here {state}. {}", state.mend()).into(),
            ),
            Error::Database(_) | Error::Late => (
                "The database did not answer in time",
                "Try again in a moment. `waybill doctor` says whether it can be reached.".into(),
            ),
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        self.response("/")
    }
}

impl Error {
    /// Its page. Whoever signs in on it goes on at this path.
    pub fn response(self, next: &str) -> Response {
        match &self {
            Error::Database(error) => {
                tracing::error!(%error, "the console cannot read from the database");
            }
            Error::Identity(error) => {
                tracing::warn!(%error, "nobody could sign in to the console through the identity provider");
            }
            Error::Late => tracing::error!("a page of the console was not read in time"),
            _ => {}
        }
        let (heading, advice) = self.words();
        let page = match &self {
            Error::SignedOut(next) => SignInPage::at(next).into_response(),
            Error::WrongKey
            | Error::NoRole
            | Error::UsedLink
            | Error::NoIdentity
            | Error::NotBegun
            | Error::Denied
            | Error::NoKeyOf(_)
            | Error::Identity(_)
            | Error::RateLimited(_) => {
                SignInPage::after(next, heading, advice.into_owned()).into_response()
            }
            _ => Html(frame::refusal(heading, &advice)).into_response(),
        };
        let mut response = (self.status(), page).into_response();
        if let Error::RateLimited(wait) = self {
            let seconds = HeaderValue::from(wait.as_secs() + 1);
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        response
    }
}
