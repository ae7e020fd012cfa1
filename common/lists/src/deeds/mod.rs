//! What operators do. A deed is described here once: its arguments and what they mean, whose right it is, what is asked
//! before it, how it is done, and what is said afterwards. From that come the command with its help, and in the console
//! the button, the question with its form, and the sentence on the next page. A new deed is an implementation of [`Deed`],
//! a line in the commands and a line in the console's table of writes.
//!
//! The first paragraph of a deed's comment says what it does: it is the help of the command, and stands beside the
//! button. The others are the rest of the help, and of the question.

use std::future::{Future, ready};
use std::time::Duration;

use bus::Bus;
use clap::Args;
use config::{Config, Mistakes, Settings};
use domain::api_key::Role;
use domain::time::Timestamp;
use platform::clock::Clock;
use platform::token::Token;
use providers::endpoints::Allowed;
use providers::identity::IdentityProvider;
use serde_json::Value;
use store::audit::By;
use store::sql::{self, Db};
use uuid::Uuid;

use crate::form::Empty;
use crate::shown::Cell;

pub mod attention;
pub mod connections;
pub mod endpoints;
pub mod keys;
pub mod licenses;
pub mod operations;
pub mod pauses;
pub mod privacy;

/// Something that operators do.
pub trait Deed: Args + Send + Sync + Sized + 'static {
    /// The words of its command after `waybill`.
    const COMMAND: &'static str;
    /// Where the console asks, and where the answer goes. `{id}` or `{name}` in it is the argument of this name.
    const PATH: &'static str;
    const ROLE: Role;
    /// What its button says.
    const BUTTON: &'static str;
    /// What the console asks before. `None`: the button does it at once.
    const QUESTION: Option<Question> = None;
    const UNDO: Undo;
    /// All that may be said afterwards.
    const SAYS: &'static [Sentence];
    /// What an empty field of its form means.
    const EMPTY: Empty = Empty::LeftOut;
    /// What is typed in and is no argument, because arguments are in the history of a shell and in lists of processes.
    const TYPED: Option<Typed> = None;
    /// What is said on a terminal while it goes on, where that takes long.
    const MEANWHILE: Option<&'static str> = None;

    /// What the question shows of what it is about. `target` is what the path names, or nothing.
    fn look(
        _site: &Site<'_>,
        _target: &str,
    ) -> impl Future<Output = Result<Looked, Refused>> + Send {
        ready(Ok(Looked::default()))
    }

    /// Whether that which is typed in is needed.
    fn needs_typed(&self) -> bool {
        false
    }

    fn run(self, desk: &Desk<'_>) -> impl Future<Output = Result<Done, Refused>> + Send;
}

/// What the console asks before a deed.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    pub title: &'static str,
    /// The button that answers it.
    pub button: &'static str,
}

/// How a deed is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undo {
    /// It cannot be.
    Never,
    /// By another deed; the words of its command after `waybill`.
    By(&'static str),
    /// There is nothing to take back.
    Needless,
}

/// A text that is asked for, which is on no command line.
#[derive(Clone, Copy, Debug)]
pub struct Typed {
    pub name: &'static str,
    pub label: &'static str,
    pub help: &'static str,
}

/// What is said when something was done. An address has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sentence {
    pub name: &'static str,
    pub text: &'static str,
}

const fn says(name: &'static str, text: &'static str) -> Sentence {
    Sentence { name, text }
}

/// Nothing was done, because it was so before.
pub const CHANGED: Sentence = says(
    "changed",
    "Nothing more was done, because this has changed since you saw it. The page shows how it is now.",
);
/// A secret was shown before.
pub const SHOWN: Sentence = says(
    "shown",
    "This was done before. A secret is shown once; whoever did not store it makes another one.",
);

/// What a question shows of what it is about.
#[derive(Default)]
pub struct Looked {
    pub facts: Vec<(&'static str, Cell)>,
    /// What is filled in of the form.
    pub given: Vec<(&'static str, String)>,
    /// The fields that make no sense of this one.
    pub left_out: &'static [&'static str],
}

/// The settings: of a command, for which only those that it reads must be right, or of a process, which has read all.
#[derive(Clone, Copy)]
pub enum Configured<'a> {
    Settings(&'a Settings),
    Config(&'a Config),
}

impl Configured<'_> {
    pub fn license_grace(self) -> Result<Duration, Mistakes> {
        match self {
            Configured::Settings(settings) => Config::license_grace(settings),
            Configured::Config(config) => Ok(config.license_grace),
        }
    }

    pub fn identity_provider(self) -> Result<Option<IdentityProvider>, Mistakes> {
        match self {
            Configured::Settings(settings) => Config::identity_provider(settings),
            Configured::Config(config) => Ok(config.identity.clone()),
        }
    }

    pub fn endpoints(self) -> Result<Allowed, Mistakes> {
        match self {
            Configured::Settings(settings) => Config::endpoints(settings),
            Configured::Config(config) => Ok(config.endpoints.clone()),
        }
    }

    pub fn secrets_keys(self) -> Result<Vec<Token>, Mistakes> {
        match self {
            Configured::Settings(settings) => Config::secrets_keys(settings),
            Configured::Config(config) => Ok(config.secrets_keys.clone()),
        }
    }

    pub fn cleartext_hosts(self) -> Vec<String> {
        match self {
            Configured::Settings(settings) => Config::cleartext_hosts(settings),
            Configured::Config(config) => config.cleartext_allowed.clone(),
        }
    }

    pub fn public_url(self) -> Result<String, Mistakes> {
        match self {
            Configured::Settings(settings) => Config::public_url(settings),
            Configured::Config(config) => Ok(config.public_url.clone()),
        }
    }

    pub fn shop_hold(self) -> Result<Duration, Mistakes> {
        match self {
            Configured::Settings(settings) => Ok(Config::privacy(settings)?.shop_hold),
            Configured::Config(config) => Ok(config.privacy.shop_hold),
        }
    }

    pub fn storefront_shops(self) -> Result<Vec<String>, Mistakes> {
        match self {
            Configured::Settings(settings) => Config::storefront_shops(settings),
            Configured::Config(config) => Ok(config.storefront.shops.clone()),
        }
    }
}

/// The installation, as operators see it.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    pub db: &'a Db,
    pub now: Timestamp,
    pub configured: Configured<'a>,
}

/// With what a deed is done.
#[derive(Clone, Copy)]
pub struct Desk<'a> {
    pub site: Site<'a>,
    pub by: By<'a>,
    pub clock: &'a Clock,
    /// Without a bus the workers' sweep finds what is made.
    pub bus: Option<&'a Bus>,
    /// The id of what is made. A form brings it, so that sending it again makes no second one.
    pub id: Uuid,
    /// When the form was made. Days are counted from then, however often it is sent.
    pub asked_at: Timestamp,
    /// What the page showed of that which changes with each such deed.
    pub seen: Option<i64>,
    /// How long something may be waited for.
    pub patience: Duration,
    /// How long the id is remembered with which a request is entered.
    pub remembered: Duration,
    /// What was typed in.
    pub typed: Option<&'a str>,
    /// Reads a secret: of a command from the file that its argument names, of a form as it was filled in.
    pub secret: &'a (dyn Fn(&str) -> Result<String, Refused> + Sync),
}

/// What came of a deed.
pub struct Done {
    pub says: Sentence,
    /// The page of the console that shows it.
    pub page: String,
    /// What a terminal shows in place of the sentence.
    pub text: Option<String>,
    /// What it shows besides, beside what may be piped into a program.
    pub advice: Option<String>,
    /// What the console shows in place of the page, once.
    pub secret: Option<Secret>,
    /// For programs.
    pub json: Value,
    /// Why the command fails all the same.
    pub failed: Option<String>,
}

/// A secret that was made.
pub struct Secret {
    pub title: &'static str,
    pub about: String,
    pub secret: String,
}

impl Done {
    pub fn new(says: Sentence, page: String, json: Value) -> Self {
        Done {
            says,
            page,
            text: None,
            advice: None,
            secret: None,
            json,
            failed: None,
        }
    }

    /// On a terminal this text is shown in place of the sentence.
    fn text(mut self, text: String) -> Self {
        self.text = Some(text);
        self
    }
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// There is no such thing: what it is, and why.
    #[error("{1}")]
    Unknown(&'static str, String),
    /// What is asked for makes no sense.
    #[error("{0}")]
    Wrong(String),
    /// It is not possible now.
    #[error("{0}")]
    Impossible(String),
    /// It is not any more as it was, so there is nothing to do: the page of the console that shows how it is, and why.
    #[error("{1}")]
    Changed(String, String),
    #[error(transparent)]
    Settings(#[from] Mistakes),
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// The path of a deed about this one.
pub fn path<D: Deed>(target: &str) -> String {
    D::PATH.replace("{id}", target).replace("{name}", target)
}

/// The argument that the path of a deed names.
pub fn target<D: Deed>() -> Option<&'static str> {
    let (_, rest) = D::PATH.split_once('{')?;
    rest.split_once('}').map(|(name, _)| name)
}
