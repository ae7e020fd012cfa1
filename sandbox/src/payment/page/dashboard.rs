//! The merchant's side: payments with their state, to be refunded or canceled.

use std::collections::BTreeMap;
use std::fmt::Write;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use domain::money::Money;

use super::amount;
use crate::page::{Text, page, see_other};
use crate::payment::Payment;
use crate::payment::desk::Desk;
use crate::payment::error::Error;
use crate::payment::intents::{Record, State as Paid};
use crate::payment::objects::Wish;

const PATH: &str = "/payment/dashboard";

/// Payments on the page.
const MOST: usize = 200;

pub async fn show(State(payment): State<Payment>) -> Response {
    payment.at_desk(|desk| page(StatusCode::OK, "Payments", &body(desk, None)))
}

pub async fn refund(State(payment): State<Payment>, body: Bytes) -> Response {
    act(&payment, &body, |desk, record, text| {
        let amount = match text {
            None => None,
            Some(text) => Some(read_amount(text, record)?),
        };
        let wish = Wish {
            intent: record.id.clone(),
            amount,
            reason: Some("requested_by_customer".to_owned()),
            metadata: BTreeMap::new(),
        };
        desk.refund(&wish).map(drop)
    })
}

pub async fn cancel(State(payment): State<Payment>, body: Bytes) -> Response {
    act(&payment, &body, |desk, record, _| {
        let reason = Some("requested_by_customer");
        desk.call_off(&record.id, reason).map(drop)
    })
}

/// Does something to the intent that a form names; `act` gets the form's amount too.
fn act(
    payment: &Payment,
    form: &[u8],
    act: impl FnOnce(&mut Desk, &Record, Option<&str>) -> Result<(), Error>,
) -> Response {
    let fields: BTreeMap<String, String> = form_urlencoded::parse(form).into_owned().collect();
    let field = |name: &str| fields.get(name).map(|text| text.trim());
    payment.at_desk(|desk| {
        let record = desk.intent(field("intent").unwrap_or_default()).cloned();
        let amount = field("amount").filter(|amount| !amount.is_empty());
        match record.and_then(|record| act(desk, &record, amount)) {
            Ok(()) => see_other(PATH),
            Err(error) => {
                let body = body(desk, Some(error.message()));
                page(StatusCode::BAD_REQUEST, "Payments", &body)
            }
        }
    })
}

fn read_amount(text: &str, record: &Record) -> Result<i64, Error> {
    let money = Money::parse_decimal(text, record.money.currency);
    let money = money.ok().filter(|money| money.minor > 0);
    let money = money.ok_or_else(|| {
        let example = amount(record.money);
        Error::invalid(format!("“{text}” is no amount to refund; one is {example}"))
    })?;
    Ok(money.minor)
}

fn body(desk: &Desk, wrong: Option<&str>) -> String {
    let mut body = "<h1>Payments</h1>".to_owned();
    if let Some(wrong) = wrong {
        let _ = write!(
            body,
            r#"<p class="notice" role="alert"><strong>Nothing was done.</strong> {}</p>"#,
            Text(wrong)
        );
    }
    let mut records: Vec<_> = desk.ledger.intents.values().collect();
    records.sort_by_key(|record| std::cmp::Reverse(record.created));
    if records.is_empty() {
        body += "<p>There are none yet.</p>";
    }
    for record in records.iter().take(MOST) {
        payment(&mut body, record);
    }
    if records.len() > MOST {
        let _ = write!(
            body,
            "<p>These are the newest {MOST} of {}.</p>",
            records.len()
        );
    }
    body
}

fn payment(body: &mut String, record: &Record) {
    let id = Text(&record.id);
    let _ = write!(
        body,
        r#"<section><h2>{} <span class="status{}">{}</span></h2><p class="number">{id}</p>"#,
        Text(amount(record.money)),
        if record.state == Paid::Succeeded {
            ""
        } else {
            " ended"
        },
        Text(state(record))
    );
    for (key, value) in &record.metadata {
        let _ = write!(
            body,
            r#"<p class="number">{}: {}</p>"#,
            Text(key),
            Text(value)
        );
    }
    let left = record.money.minor - record.refunded;
    if record.state == Paid::Succeeded && left > 0 {
        let _ = write!(
            body,
            r#"<form method="post" action="{PATH}/refund" class="row"><input type="hidden" name="intent" value="{id}"><label>Amount <input name="amount" inputmode="decimal" autocomplete="off" placeholder="{}"></label><button>Refund</button></form>"#,
            Text(Money {
                minor: left,
                currency: record.money.currency
            })
        );
    }
    if record.is_open() {
        let _ = write!(
            body,
            r#"<form method="post" action="{PATH}/cancel" class="row"><input type="hidden" name="intent" value="{id}"><button>Cancel</button></form>"#
        );
    }
    *body += "</section>";
}

fn state(record: &Record) -> String {
    let refunded = Money {
        minor: record.refunded,
        currency: record.money.currency,
    };
    match record.state {
        Paid::RequiresPaymentMethod(Some(_)) => "declined".to_owned(),
        Paid::RequiresPaymentMethod(None)
        | Paid::RequiresConfirmation(_)
        | Paid::RequiresAction => "open".to_owned(),
        Paid::Processing => "processing".to_owned(),
        Paid::Canceled { .. } => "canceled".to_owned(),
        Paid::Succeeded if record.refunded == 0 => "paid".to_owned(),
        Paid::Succeeded if record.refunded == record.money.minor => "refunded".to_owned(),
        Paid::Succeeded => format!("paid, {} refunded", amount(refunded)),
    }
}
