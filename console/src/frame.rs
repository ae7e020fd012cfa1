//! What is around each page: who is signed in, the ways to the other pages, and the search. And the pages
//! for people who are not signed in.

use askama::Template;

use crate::access::SignedIn;

pub const STYLE: &str = include_str!("../templates/console.css");
pub const SCRIPT: &str = include_str!("../templates/console.js");

/// The ways to other pages: address and name.
const WAYS: [(&str, &str); 16] = [
    ("/", "Needs me now"),
    ("/deliveries", "Deliveries"),
    ("/live", "Live"),
    ("/orders", "Orders"),
    ("/failing", "Failing jobs"),
    ("/dead", "Dead jobs"),
    ("/operations", "Operations"),
    ("/pauses", "Pauses"),
    ("/refused", "Refused"),
    ("/held", "To decide"),
    ("/privacy", "Privacy"),
    ("/endpoints", "Endpoints"),
    ("/charts", "Charts"),
    ("/licenses", "Licences"),
    ("/keys", "Keys"),
    ("/audit", "Audit"),
];

pub struct Frame<'a> {
    pub who: &'a SignedIn,
    pub ways: Vec<Way>,
}

pub struct Way {
    pub href: &'static str,
    pub name: &'static str,
    pub is_here: bool,
}

impl<'a> Frame<'a> {
    /// `here` is the address of the page's list.
    pub fn new(who: &'a SignedIn, here: &str) -> Self {
        let way = |(href, name)| Way {
            href,
            name,
            is_here: href == here,
        };
        Frame {
            who,
            ways: WAYS.map(way).into(),
        }
    }
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    next: &'a str,
    problem: Option<(&'a str, &'a str)>,
}

/// The page for signing in, which leads to the path `next` afterwards.
pub fn sign_in(next: &str, problem: Option<(&str, &str)>) -> String {
    SignInPage { next, problem }.to_string()
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
