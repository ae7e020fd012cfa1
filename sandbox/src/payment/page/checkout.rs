//! The hosted checkout: what is bought, and two buttons that play the card's part.

use std::fmt::Write;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use domain::money::Money;

use super::amount;
use crate::page::{Text, page, problem, see_other};
use crate::payment::Payment;
use crate::payment::desk::Desk;
use crate::payment::intents::{self, Card, Decline};
use crate::payment::sessions::{Session, Status};

pub async fn show(State(payment): State<Payment>, Path(id): Path<String>) -> Response {
    payment.at_desk(|desk| match desk.session(&id) {
        Ok(session) => {
            let body = body(desk, session);
            page(
                StatusCode::OK,
                &format!("Pay {}", amount(session.total)),
                &body,
            )
        }
        Err(_) => unknown(),
    })
}

/// Leads on to the merchant; also when it was paid before, as with a button pressed twice.
pub async fn pay(State(payment): State<Payment>, Path(id): Path<String>) -> Response {
    payment.at_desk(|desk| match play(desk, &id, Card::Good) {
        Some(session) if session.status == Status::Complete => see_other(&success_url(&session)),
        other => back(other),
    })
}

pub async fn decline(State(payment): State<Payment>, Path(id): Path<String>) -> Response {
    payment.at_desk(|desk| back(play(desk, &id, Card::Bad(Decline::Generic))))
}

/// Charges the card when the session is open. The session as it then is.
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

/// As a header can hold it.
fn success_url(session: &Session) -> String {
    let url = session.success_url();
    match reqwest::Url::parse(&url) {
        Ok(parsed) => parsed.into(),
        Err(_) => url,
    }
}

fn body(desk: &Desk, session: &Session) -> String {
    let mut body = format!(
        r#"<h1>{}</h1>
<ul class="lines">"#,
        Text(amount(session.total))
    );
    for line in &session.lines {
        let _ = write!(
            body,
            "<li><span>{} × {}{}</span><span>{}</span></li>",
            line.quantity,
            Text(&line.name),
            Text(every(line.months)),
            Text(amount(Money {
                minor: line.total().unwrap_or_default(),
                ..line.price
            }))
        );
    }
    body += "</ul>";
    match session.status_at(desk.now) {
        Status::Open => {
            let intent = desk.intent(&session.intent);
            let declined = intent.is_ok_and(|record| {
                matches!(record.state, intents::State::RequiresPaymentMethod(Some(_)))
            });
            if declined {
                body += r#"<p class="notice" role="alert"><strong>The card was declined.</strong> Nothing was taken. You can try again.</p>"#;
            }
            let id = Text(&session.id);
            let _ = write!(
                body,
                r#"<form method="post" action="/payment/checkout/{id}/pay"><button class="main">Pay</button></form>
<form method="post" action="/payment/checkout/{id}/decline"><button>Decline</button></form>"#
            );
            if let Some(url) = &session.cancel_url {
                let _ = write!(
                    body,
                    r#"<p><a href="{}">Cancel and go back to the shop</a></p>"#,
                    Text(url)
                );
            }
        }
        Status::Complete => {
            let _ = write!(
                body,
                r#"<p class="status">Paid. There is nothing left to do here.</p><p><a href="{}">Continue to the shop</a></p>"#,
                Text(session.success_url())
            );
        }
        Status::Expired => {
            body += r#"<p class="status ended">This checkout has expired. Nothing was taken.</p>"#;
            if let Some(url) = &session.cancel_url {
                let _ = write!(
                    body,
                    r#"<p><a href="{}">Back to the shop</a></p>"#,
                    Text(url)
                );
            }
        }
    }
    body
}

fn every(months: Option<u32>) -> String {
    match months {
        None => String::new(),
        Some(1) => ", every month".to_owned(),
        Some(12) => ", every year".to_owned(),
        Some(months) => format!(", every {months} months"),
    }
}
