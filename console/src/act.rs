//! What can be done from a page: a button for those who may, and beside it the command that does the same.
//! Where something is for good or concerns many, the button leads to a page that asks once more.
//!
//! What was done is shown by the page to which the answer leads. Its address has only the name of a sentence.

use askama::Template;
use axum::response::{Html, IntoResponse, Redirect, Response};
use clap::Args;
use domain::api_key::Role;
use strum::{EnumString, IntoStaticStr};
use uuid::Uuid;

use crate::access::{Needs, Visit};
use crate::frame::Frame;
use crate::listing::Table;
use lists::form::{self, Field, Values};
use lists::shown::Cell;

pub struct Act {
    /// What it does, in a sentence.
    pub what: &'static str,
    pub button: Option<Button>,
    pub command: String,
}

/// How a button looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Usual,
    /// What it does cannot be undone.
    Danger,
}

impl Look {
    /// The last word of a path says what is done there.
    pub fn of(path: &str) -> Self {
        let path = path.split('?').next().unwrap_or_default();
        match path.rsplit('/').next().unwrap_or_default() {
            "discard" | "remove" | "revoke" | "confirm" => Look::Danger,
            _ => Look::Usual,
        }
    }

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
    pub fields: Vec<(&'static str, String)>,
}

impl Button {
    /// A button that does it at once.
    pub fn does(label: &'static str, to: String, fields: Vec<(&'static str, String)>) -> Self {
        Button {
            label,
            to,
            asks: false,
            fields,
        }
    }

    /// A button that leads to a page that asks.
    pub fn asks(label: &'static str, to: String) -> Self {
        Button {
            asks: true,
            ..Button::does(label, to, Vec::new())
        }
    }

    pub fn look(&self) -> Look {
        Look::of(&self.to)
    }
}

impl Act {
    /// The button is there for those who have the role.
    pub fn of<R>(
        visit: &Visit<R>,
        role: Role,
        what: &'static str,
        button: Button,
        command: String,
    ) -> Self {
        Act {
            what,
            button: visit.may(role).then_some(button),
            command,
        }
    }
}

/// Makes the acts of one thing: each by a word, which is at the end of its path and in its command.
pub fn of_one<R>(
    visit: &Visit<R>,
    role: Role,
    noun: &str,
    id: Uuid,
) -> impl Fn(&'static str, &'static str, &str, bool) -> Act {
    move |what, label, word, asks| {
        let button = Button {
            asks,
            ..Button::does(label, format!("/{noun}/{id}/{word}"), Vec::new())
        };
        let command = format!("waybill {noun} {word} {id}");
        Act::of(visit, role, what, button, command)
    }
}

/// A field that people fill in.
pub struct Input {
    pub name: &'static str,
    pub label: &'static str,
    /// `text`, `number`, ..
    pub kind: &'static str,
    pub value: String,
    /// The values to choose from; none for a field in which people write.
    pub choices: Vec<String>,
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
            choices: Vec::new(),
            help,
        }
    }
}

/// The fields of a form for these arguments. `given` has what is filled in already.
pub fn form<T: Args>(given: &[(&str, &str)]) -> Vec<Field> {
    form::fields::<T>(|name| Some(given.iter().find(|(field, _)| *field == name)?.1))
}

/// A page that asks before it is done.
#[derive(Default)]
pub struct Question {
    /// The list to which it belongs.
    pub here: &'static str,
    pub title: String,
    pub about: Vec<&'static str>,
    pub facts: Vec<(&'static str, Cell)>,
    pub tables: Vec<(&'static str, Table)>,
    /// Where the form is sent, by those who may. None when there is nothing to do.
    pub to: Option<String>,
    pub label: &'static str,
    pub fields: Vec<(&'static str, String)>,
    /// What was chosen before, by a field each.
    pub chosen: Vec<(String, String)>,
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
    look: Look,
}

impl Question {
    pub fn answer<R: Needs>(&self, visit: &Visit<R>) -> Response {
        let page = QuestionPage {
            frame: Frame::of(visit, self.here),
            question: self,
            to: self.to.as_ref().filter(|_| visit.may(R::ROLE)),
            look: self.to.as_deref().map_or(Look::Usual, Look::of),
        };
        Html(page.to_string()).into_response()
    }
}

/// The answer to a write that made a secret. It is shown once, on this page alone.
pub struct Secret {
    /// The list to which it belongs.
    pub here: &'static str,
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
            frame: Frame::of(visit, self.here),
            shown: self,
        };
        Html(page.to_string()).into_response()
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "kebab-case")]
pub enum Done {
    /// The job is due.
    RunNow,
    Requeued,
    Discarded,
    Confirmed,
    Stopped,
    Resumed,
    Undone,
    Paused,
    EndpointResumed,
    /// A pause was begun, or ended.
    Begun,
    Ended,
    Removed,
    Accepted,
    NotAccepted,
    NotSent,
    Retried,
    Cancelled,
    RequestConfirmed,
    Decided,
    Revoked,
    /// A licence was granted or lengthened.
    Granted,
    Suspended,
    LicenceResumed,
    LicenceRevoked,
    Entered,
    ConnectionAdded,
    ConnectionRotated,
    ConnectionChanged,
    /// Providers are asked what changed.
    Asked,
    /// Several jobs were chosen, and all of them were changed.
    ChosenRequeued,
    ChosenDiscarded,
    /// Several were chosen, and some were left as they are.
    SomeChanged,
    /// A secret was shown before.
    Shown,
    /// It has changed since it was seen, so nothing was done.
    Changed,
}

impl Done {
    fn sentence(self) -> &'static str {
        match self {
            Done::RunNow => "The job was made due, and workers were notified.",
            Done::Requeued => {
                "The job was made ready with its full number of tries, and workers were notified."
            }
            Done::Discarded => {
                "The job was discarded: it is never run again, and its body is gone."
            }
            Done::Confirmed => {
                "The operation was confirmed. It begins ten seconds later, and can be undone until then. You \
                 may close this page: it goes on without it."
            }
            Done::Stopped => "The operation was stopped. What it has done stays done.",
            Done::Resumed => "The operation goes on with what is left.",
            Done::Undone => "The operation was undone before it changed anything.",
            Done::Paused => "The endpoint is paused. It gets its events when it is resumed.",
            Done::EndpointResumed => {
                "The endpoint gets events again, beginning with those that wait for it."
            }
            Done::Begun => {
                "It is paused, as soon as workers have heard of it, which takes at most a second."
            }
            Done::Ended => "The pause has ended. What waited is due within some seconds.",
            Done::Removed => "The endpoint was removed, and what waited for it.",
            Done::Accepted => "The endpoint accepted the test event.",
            Done::NotAccepted => {
                "The endpoint did not accept the test event. The attempt below says why."
            }
            Done::NotSent => {
                "No worker has said yet what became of the test event. Load this page again in some seconds; see that the queue endpoints has a worker and is not paused."
            }
            Done::Retried => {
                "The request is tried again. Until its deadline it has as many tries as a new one."
            }
            Done::Cancelled => "The erasure of the shop was cancelled.",
            Done::RequestConfirmed => {
                "The erasure of the shop was confirmed. It runs when the rest of its hold is over."
            }
            Done::Decided => "This was decided. The request goes on within seconds.",
            Done::Revoked => "The key was revoked. It opens nothing any more.",
            Done::Granted => {
                "The licence was granted. Who is logged in sees it within ten seconds."
            }
            Done::Suspended => "The licence is suspended. It does not count until it is resumed.",
            Done::LicenceResumed => "The licence counts again.",
            Done::LicenceRevoked => "The licence was revoked for good.",
            Done::ConnectionAdded => {
                "The connection was added. All processes know it within a second."
            }
            Done::ConnectionChanged => {
                "The connection was changed. All processes know it within a second."
            }
            Done::Asked => "The providers are asked within seconds.",
            Done::ConnectionRotated => {
                "The connection has another secret. The former one is accepted for three days more."
            }
            Done::Entered => "The request was entered. It must be done within 30 days from now.",
            Done::ChosenRequeued => {
                "The jobs were made ready with their full number of tries, and workers were notified."
            }
            Done::ChosenDiscarded => "The jobs were discarded: they are never run again.",
            Done::SomeChanged => {
                "Some were left as they are, because they have changed since you saw them or may not be given up. The \
                 others were done."
            }
            Done::Shown => {
                "This was done before. A secret is shown once; whoever did not store it makes another one."
            }
            Done::Changed => {
                "Nothing more was done, because this has changed since you saw it. The page shows how it \
                 is now."
            }
        }
    }
}

/// What the page says of what was done before it.
pub fn done<R>(visit: &Visit<R>) -> Option<&'static str> {
    visit.query.get("done").parse().ok().map(Done::sentence)
}

/// The answer to a write: it leads to a page that says what was done.
pub fn see(path: &str, done: Done) -> Response {
    let and = if path.contains('?') { '&' } else { '?' };
    Redirect::to(&format!("{path}{and}done={}", done.into_str())).into_response()
}
