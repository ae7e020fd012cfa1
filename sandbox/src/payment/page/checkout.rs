//! The hosted checkout. It shows the articles, and has two buttons in place of a card: one pays,
//! and one is declined.

use askama::Template;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use domain::money::Money;

use super::amount;
use crate::page::{page, problem, see_other};
use crate::payment::Payment;
use crate::payment::desk::Desk;
use crate::payment::intents::{self, Card, Decline};
use crate::payment::sessions::{self, Session, Status};

#[derive(Template)]
#[template(path = "checkout.html")]
struct Checkout<'a> {
    id: &'a str,
    total: String,
    lines: Vec<Line<'a>>,
    is_open: bool,
    is_declined: bool,
    /// The links of the page. Both addresses were checked to be http or https when the session was
    /// made.
    cancel_url: Option<&'a str>,
    paid_url: Option<String>,
}

struct Line<'a> {
    quantity: i64,
    name: &'a str,
    every: String,
    amount: String,
}

pub async fn show(State(payment): State<Payment>, Path(id): Path<String>) -> Response {
    payment.at_desk(|desk| match desk.session(&id) {
        Ok(session) => page(StatusCode::OK, &Checkout::new(desk, session)),
        Err(_) => unknown(),
    })
}

/// Pays and redirects to the merchant. If the session was already paid, for example because the
/// button was pressed twice, it only redirects.
pub async fn pay(State(payment): State<Payment>, Path(id): Path<String>) -> Response {
    payment.at_desk(|desk| match play(desk, &id, Card::Good) {
        Some(session) if session.status == Status::Complete => see_other(&success_url(&session)),
        other => back(other),
    })
}

pub async fn decline(State(payment): State<Payment>, Path(id): Path<String>) -> Response {
    payment.at_desk(|desk| back(play(desk, &id, Card::Bad(Decline::Generic))))
}

/// Charges the card if the session is open, and returns the session after that.
fn play(desk: &mut Desk, id: &str, card: Card) -> Option<Session> {
    let session = desk.session(id).ok()?;
    if session.status_at(desk.now) == Status::Open {
        let intent = session.intent.clone();
        if let Err(error) = desk.charge(&intent, card) {
            tracing::debug!(session = id, error = error.message(), "not paid");
        }
    }
    desk.session(id).ok().cloned()
}

fn back(session: Option<Session>) -> Response {
    match session {
        Some(session) => see_other(&format!("/payment/checkout/{}", session.id)),
        None => unknown(),
    }
}

fn unknown() -> Response {
    problem(StatusCode::NOT_FOUND, "There is no such checkout")
}

/// The address in a form that a header can hold.
fn success_url(session: &Session) -> String {
    let url = session.success_url();
    match reqwest::Url::parse(&url) {
        Ok(parsed) => parsed.into(),
        Err(_) => url,
    }
}

impl<'a> Checkout<'a> {
    fn new(desk: &Desk, session: &'a Session) -> Self {
        let status = session.status_at(desk.now);
        let intent = desk.intent(&session.intent);
        Checkout {
            id: &session.id,
            total: amount(session.total),
            lines: session.lines.iter().map(Line::new).collect(),
            is_open: status == Status::Open,
            is_declined: intent.is_ok_and(|record| {
                matches!(record.state, intents::State::RequiresPaymentMethod(Some(_)))
            }),
            cancel_url: session.cancel_url.as_deref(),
            paid_url: (status == Status::Complete).then(|| session.success_url()),
        }
    }
}

impl<'a> Line<'a> {
    fn new(line: &'a sessions::Line) -> Self {
        Line {
            quantity: line.quantity,
            name: &line.name,
            every: every(line.months),
            amount: amount(Money {
                minor: line.total().unwrap_or_default(),
                ..line.price
            }),
        }
    }
}

fn every(months: Option<u32>) -> String {
    match months {
        None => String::new(),
        Some(1) => ", every month".to_owned(),
        Some(12) => ", every year".to_owned(),
        Some(months) => format!(", every {months} months"),
    }
}
