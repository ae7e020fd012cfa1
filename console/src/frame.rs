//! What is around each page: who is signed in, the ways to the other pages, and the search. And the pages
//! for people who are not signed in.

use askama::Template;
use axum::response::{Html, IntoResponse, Response};

use crate::access::{SignedIn, Visit};
use crate::act;
use crate::known::Count;
use lists::shown::{self, Moment, bounded};

/// A number in the menu stops here.
const MOST_COUNTED: i64 = 10_000;

pub const STYLE: &str = concat!(
    include_str!("../../common/server/src/base.css"),
    include_str!("../templates/console.css"),
);
pub const SCRIPT: &str = include_str!("../templates/console.js");

/// The ways to other pages, in groups: address and name.
const GROUPS: [(&str, &[(&str, &str)]); 4] = [
    (
        "Needs me",
        &[
            ("/", "Needs me now"),
            ("/attention", "Conditions"),
            ("/failing", "Failing jobs"),
            ("/dead", "Dead jobs"),
            ("/refused", "Refused"),
            ("/held", "To decide"),
            ("/privacy", "Privacy"),
        ],
    ),
    (
        "Traffic",
        &[
            ("/live", "Live"),
            ("/deliveries", "Deliveries"),
            ("/events", "Events"),
            ("/jobs", "Jobs"),
            ("/repeated", "Repeated bodies"),
            ("/reconcile", "Reconciliation"),
            ("/endpoints", "Endpoints"),
            ("/operations", "Operations"),
            ("/pauses", "Pauses"),
            ("/charts", "Charts"),
        ],
    ),
    (
        "Business",
        &[
            ("/orders", "Orders"),
            ("/payments", "Payments"),
            ("/subscriptions", "Subscriptions"),
            ("/notifications", "Notifications"),
            ("/licenses", "Licences"),
            ("/orgs", "Organizations"),
        ],
    ),
    (
        "Settings",
        &[
            ("/connections", "Connections"),
            ("/secrets", "Signing secrets"),
            ("/keys", "Keys"),
            ("/audit", "Audit"),
        ],
    ),
];

pub struct Frame<'a> {
    pub who: &'a SignedIn,
    pub now: Moment,
    pub groups: Vec<Group>,
    /// How much needs somebody now; empty when nothing does.
    pub needs: String,
    /// What was done before the page.
    pub done: Option<&'static str>,
    /// The links to the same as JSON and as CSV.
    pub json: String,
    pub csv: String,
}

pub struct Group {
    pub name: &'static str,
    pub ways: Vec<Way>,
}

pub struct Way {
    pub href: &'static str,
    pub name: &'static str,
    /// How much waits there; empty when nothing does, or it is not counted.
    pub count: String,
    pub is_here: bool,
}

impl<'a> Frame<'a> {
    /// `here` is the address of the page's list.
    pub fn of<R>(visit: &'a Visit<R>, here: &str) -> Self {
        let count = |href: &str| match visit.counts.get(href) {
            None | Some(Count { number: 0, .. }) => String::new(),
            Some(count) if count.is_cut => bounded(count.number, count.number),
            Some(count) => bounded(count.number, MOST_COUNTED),
        };
        let way = |(href, name): &(&'static str, &'static str)| Way {
            href,
            name,
            count: count(href),
            // A page below a list of the menu is the list's.
            is_here: *href == here || (*href != "/" && here.starts_with(&format!("{href}/"))),
        };
        Frame {
            who: &visit.who,
            now: Moment(visit.now()),
            groups: GROUPS
                .map(|(name, ways)| Group {
                    name,
                    ways: ways.iter().map(way).collect(),
                })
                .into(),
            needs: count("/"),
            done: act::done(visit),
            json: visit.query.with("format", "json"),
            csv: visit.query.with("format", "csv"),
        }
    }
}

/// The page for signing in. Its text is made by the guard around all answers (`routes`), which knows the ways in which
/// somebody signs in here.
#[derive(Clone)]
pub struct SignInPage {
    /// The path to which it leads afterwards.
    next: String,
    /// What was wrong: a heading, and what the reader can do.
    problem: Option<(&'static str, String)>,
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInTemplate<'a> {
    next: &'a str,
    problem: Option<(&'a str, &'a str)>,
    /// Where to sign in through the identity provider.
    identity: Option<String>,
}

impl SignInPage {
    pub fn at(next: &str) -> Self {
        SignInPage {
            next: next.to_owned(),
            problem: None,
        }
    }

    pub fn after(next: &str, heading: &'static str, advice: String) -> Self {
        SignInPage {
            next: next.to_owned(),
            problem: Some((heading, advice)),
        }
    }

    pub fn text(&self, has_identity: bool) -> String {
        let problem = self.problem.as_ref();
        let page = SignInTemplate {
            next: &self.next,
            problem: problem.map(|(heading, advice)| (*heading, advice.as_str())),
            identity: has_identity
                .then(|| format!("/sign-in/identity?next={}", shown::escaped(&self.next))),
        };
        page.to_string()
    }
}

impl IntoResponse for SignInPage {
    fn into_response(self) -> Response {
        let mut response = Html(String::new()).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[derive(Template)]
#[template(path = "signed_in.html")]
struct SignedInPage<'a> {
    next: &'a str,
}

/// A page that leads on to the path `next` at once.
pub fn signed_in(next: &str) -> Html<String> {
    Html(SignedInPage { next }.to_string())
}

#[derive(Template)]
#[template(path = "refusal.html")]
struct Refusal<'a> {
    heading: &'a str,
    advice: &'a str,
}

pub fn refusal(heading: &str, advice: &str) -> String {
    Refusal { heading, advice }.to_string()
}
