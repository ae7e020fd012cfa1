//! What operators do. A deed is described here once: its arguments and what they mean, whose right it is, what is asked
//! before it, how it is done, and what is said afterwards. From that come the command with its help, and in the console
//! the button, the question with its form, and the sentence on the next page. A new deed is an implementation of [`Deed`],
//! a line in the commands and a line in the console's table of writes.
//!
//! The first paragraph of a deed's comment says what it does: it is the help of the command, and stands beside the
//! button. The others are the rest of the help; the console shows them where it asks, or beside the button as well.

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
pub mod jobs;
pub mod keys;
pub mod licenses;
pub mod operations;
pub mod pauses;
pub mod privacy;
pub mod reconcile;

/// Something that operators do.
pub trait Deed: Args + Send + Sync + Sized + 'static {
    const ABOUT: About;
    /// All that may be said afterwards, beside [`CHANGED`] and [`SHOWN`].
    const SAYS: &'static [&'static str];
    /// What is typed in and is no argument, because arguments are in the history of a shell and in lists of processes.
    const TYPED: Option<Typed> = None;

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

/// What is the same however often something is done.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The words of its command after `waybill`: what it is done to, and what is done.
    pub command: &'static str,
    /// What its address names: the argument of this name, or the id of a pause.
    pub target: Option<&'static str>,
    pub role: Role,
    /// What its button says.
    pub button: &'static str,
    /// What may stand after the command and what it names, as an example.
    pub example: &'static str,
    /// A form must say what its page showed of it, and nothing is done to what has changed since.
    pub is_of_seen: bool,
    /// Workers are to hear of it at once.
    pub notifies: bool,
    /// What the console asks before. `None`: the button does it at once.
    pub question: Option<Question>,
    pub undo: Undo,
    /// What an empty field of its form means.
    pub empty: Empty,
    /// It takes long.
    pub is_slow: bool,
}

impl About {
    const fn new(command: &'static str, role: Role, button: &'static str) -> Self {
        About {
            command,
            target: None,
            example: "",
            is_of_seen: false,
            notifies: false,
            role,
            button,
            question: None,
            undo: Undo::Needless,
            empty: Empty::LeftOut,
            is_slow: false,
        }
    }

    /// It is done to the one that this argument names.
    const fn of(mut self, target: &'static str) -> Self {
        self.target = Some(target);
        self
    }

    const fn like(mut self, example: &'static str) -> Self {
        self.example = example;
        self
    }

    const fn of_seen(mut self) -> Self {
        self.is_of_seen = true;
        self
    }

    const fn notifies(mut self) -> Self {
        self.notifies = true;
        self
    }

    /// The console asks before it: the question, and the button that answers it.
    const fn asks(mut self, title: &'static str, button: &'static str) -> Self {
        self.question = Some(Question { title, button });
        self
    }

    /// It cannot be taken back.
    const fn for_good(mut self) -> Self {
        self.undo = Undo::Never;
        self
    }

    /// Another deed takes it back; the words of its command after `waybill`.
    const fn undone_by(mut self, command: &'static str) -> Self {
        self.undo = Undo::By(command);
        self
    }

    const fn slow(mut self) -> Self {
        self.is_slow = true;
        self
    }

    /// An empty field is an empty text, and not one that is left out.
    const fn takes_empty_texts(mut self) -> Self {
        self.empty = Empty::Text;
        self
    }
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
    /// The kind of the input: `email`, ..
    pub kind: &'static str,
}

/// Nothing was done, because it was so before.
pub const CHANGED: &str = "Nothing more was done, because this has changed since you saw it. The page shows how it is now.";
/// A secret was shown before.
pub const SHOWN: &str =
    "This was done before. A secret is shown once; whoever did not store it makes another one.";

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
    /// How workers hear of it, as the end of a sentence.
    pub heard: &'static str,
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
    pub says: &'static str,
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
    pub fn new(says: &'static str, page: String, json: Value) -> Self {
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

impl Refused {
    /// The same with the option that helps on a command line.
    fn option(self, option: impl Into<String>) -> Self {
        Refused::Advised(Box::new(self), option.into())
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
    /// It is refused for this reason, and on a command line this option helps.
    #[error("{0}: {1}")]
    Advised(Box<Refused>, String),
    /// It is not any more as it was, so there is nothing to do: the page of the console that shows how it is, and why.
    #[error("{1}")]
    Changed(String, String),
    #[error(transparent)]
    Settings(#[from] Mistakes),
    #[error(transparent)]
    Database(#[from] sql::Error),
}

impl About {
    /// Where the console asks, and where the answer goes, for this one: `/licenses/ID/revoke`. A command of one word
    /// asks: `/reconcile/ask`.
    pub fn path(&self, target: &str) -> String {
        let words = self.command.split_once(' ');
        let (noun, word) = words.unwrap_or((self.command, "ask"));
        match self.target {
            None => format!("/{noun}/{word}"),
            Some(_) => format!("/{noun}/{target}/{word}"),
        }
    }

    /// The same for any one: `/licenses/{id}/revoke`.
    pub fn route(&self) -> String {
        let target = self.target.unwrap_or_default();
        self.path(&format!("{{{target}}}"))
    }

    /// The page of the list to which it belongs.
    pub fn list(&self) -> String {
        let noun = self.command.split(' ').next();
        format!("/{}", noun.unwrap_or_default())
    }
}
