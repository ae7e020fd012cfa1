//! What can be done from a page: a button for those who may, and beside it the command that does the same.
//! Where something is for good or concerns many, the button leads to a page that asks once more.
//!
//! What was done is shown by the page to which the answer leads. Its address has only the name of a sentence.

use std::borrow::Cow;

use askama::Template;
use axum::response::{Html, IntoResponse, Redirect, Response};
use domain::api_key::Role;
use lists::form::{Field, Values};
use lists::shown::Cell;

use crate::access::{Needs, Visit};
use crate::act::said::Sentence;
use crate::frame::Frame;
use crate::listing::Table;
use crate::writes;

pub struct Act {
    /// What it does, in a sentence.
    pub what: String,
    pub button: Option<Button>,
    pub command: String,
}

/// How a button looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    #[default]
    Usual,
    /// What it does cannot be undone.
    Danger,
}

impl Look {
    /// The class for the style.
    pub fn class(self) -> &'static str {
        match self {
            Look::Usual => "",
            Look::Danger => "danger",
        }
    }
}

pub struct Button {
    pub label: &'static str,
    /// Where it leads, or where its form is sent.
    pub to: String,
    /// It leads to a page that asks.
    pub asks: bool,
    /// The form's hidden fields.
    pub fields: Hidden,
    pub look: Look,
}

/// The hidden fields of a form.
pub type Hidden = Vec<(Cow<'static, str>, String)>;

impl Button {
    /// A button that does it at once.
    pub fn does(label: &'static str, to: String) -> Self {
        Button {
            label,
            to,
            asks: false,
            fields: Vec::new(),
            look: Look::Usual,
        }
    }

    /// A button that leads to a page that asks.
    pub fn asks(label: &'static str, to: String) -> Self {
        Button {
            asks: true,
            ..Button::does(label, to)
        }
    }
}

impl Act {
    /// The button is there for those who have the role.
    pub fn of<R>(
        visit: &Visit<R>,
        role: Role,
        what: impl Into<String>,
        button: Button,
        command: String,
    ) -> Self {
        Act {
            what: what.into(),
            button: visit.may(role).then_some(button),
            command,
        }
    }
}

/// A field that people fill in.
pub struct Input {
    pub name: &'static str,
    pub label: &'static str,
    /// `text`, `number`, ..
    pub kind: &'static str,
    pub value: String,
    pub help: &'static str,
}

impl Input {
    /// A field for a text, which is empty at first.
    pub fn text(name: &'static str, label: &'static str, help: &'static str) -> Self {
        Input {
            name,
            label,
            kind: "text",
            value: String::new(),
            help,
        }
    }
}

/// A page that asks before it is done.
#[derive(Default)]
pub struct Question {
    /// The list to which it belongs.
    pub here: String,
    pub title: String,
    pub about: Vec<String>,
    pub facts: Vec<(&'static str, Cell)>,
    pub tables: Vec<(&'static str, Table)>,
    /// Where the form is sent, by those who may. None when there is nothing to do.
    pub to: Option<String>,
    pub label: &'static str,
    pub look: Look,
    pub fields: Hidden,
    /// The arguments of the command, as fields to fill in.
    pub form: Vec<Field>,
    /// What else is to be filled in.
    pub inputs: Vec<Input>,
    /// Where those go who change their mind.
    pub back: String,
    pub command: String,
}

#[derive(Template)]
#[template(path = "question.html")]
struct QuestionPage<'a> {
    frame: Frame<'a>,
    question: &'a Question,
    to: Option<&'a String>,
}

impl Question {
    pub fn answer<R: Needs>(&self, visit: &Visit<R>) -> Response {
        let page = QuestionPage {
            frame: Frame::of(visit, &self.here),
            question: self,
            to: self.to.as_ref().filter(|_| visit.may(R::ROLE)),
        };
        Html(page.to_string()).into_response()
    }
}

/// The answer to a write that made a secret. It is shown once, on this page alone.
pub struct Secret {
    /// The list to which it belongs.
    pub here: String,
    pub title: &'static str,
    pub about: String,
    pub secret: String,
    /// Where to go on.
    pub next: String,
}

#[derive(Template)]
#[template(path = "secret.html")]
struct SecretPage<'a> {
    frame: Frame<'a>,
    shown: &'a Secret,
}

impl Secret {
    pub fn answer<R>(&self, visit: &Visit<R>) -> Response {
        let page = SecretPage {
            frame: Frame::of(visit, &self.here),
            shown: self,
        };
        Html(page.to_string()).into_response()
    }
}

/// What is said of what is no deed of its own, and of all deeds.
pub mod said {
    use lists::deeds;

    /// The name by which an address has it, and the sentence.
    #[derive(Clone, Copy)]
    pub struct Sentence(pub &'static str, pub &'static str);

    pub const CHANGED: Sentence = Sentence("changed", deeds::CHANGED);
    pub const SHOWN: Sentence = Sentence("shown", deeds::SHOWN);

    pub const CONFIRMED: Sentence = Sentence(
        "confirmed",
        "The operation was confirmed. It begins ten seconds later, and can be undone until then. You may close this \
         page: it goes on without it.",
    );
    pub const ALL: &[Sentence] = &[CHANGED, SHOWN, CONFIRMED];
}

/// What the page says of what was done before it.
pub fn done<R>(visit: &Visit<R>) -> Option<&'static str> {
    writes::sentence(visit.query.get("done"))
}

/// The answer to a write: it leads to a page that says what was done.
pub fn see(path: &str, Sentence(name, _): Sentence) -> Response {
    lead(path, name)
}

/// The same with the name of the sentence.
pub fn lead(path: &str, name: &str) -> Response {
    let and = if path.contains('?') { '&' } else { '?' };
    Redirect::to(&format!("{path}{and}done={name}")).into_response()
}
