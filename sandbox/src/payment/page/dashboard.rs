//! The merchant's dashboard. It lists payments with their states, and can refund and cancel them.

use std::collections::BTreeMap;

use askama::Template;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use domain::money::Money;

use super::amount;
use crate::page::{page, see_other};
use crate::payment::Payment;
use crate::payment::desk::Desk;
use crate::payment::error::Error;
use crate::payment::intents::{Record, State as Paid};
use crate::payment::objects::Wish;

const PATH: &str = "/payment/dashboard";

/// How many payments the page shows.
const MOST: usize = 200;

#[derive(Template)]
#[template(path = "dashboard.html")]
struct Dashboard<'a> {
    /// Why the last action was not carried out.
    problem: Option<&'a str>,
    /// The newest payments.
    payments: Vec<Row<'a>>,
    /// How many payments there are in all.
    count: usize,
}

struct Row<'a> {
    id: &'a str,
    amount: String,
    state: String,
    is_paid: bool,
    metadata: &'a BTreeMap<String, String>,
    /// What was bought, if a checkout sold it.
    goods: Vec<String>,
    /// How much can be refunded; `None` if nothing can.
    refundable: Option<Money>,
    is_open: bool,
}

pub async fn show(State(payment): State<Payment>) -> Response {
    payment.at_desk(|desk| page(StatusCode::OK, &Dashboard::new(desk, None)))
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

/// Carries out an action on the intent that a form names. `act` also gets the form's amount.
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
                let dashboard = Dashboard::new(desk, Some(error.message()));
                page(StatusCode::BAD_REQUEST, &dashboard)
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

impl<'a> Dashboard<'a> {
    fn new(desk: &'a Desk, problem: Option<&'a str>) -> Self {
        let mut records: Vec<_> = desk.ledger.intents.values().collect();
        records.sort_by_key(|record| std::cmp::Reverse(record.created));
        let newest = records.iter().take(MOST);
        Dashboard {
            problem,
            payments: newest.map(|record| Row::new(desk, record)).collect(),
            count: records.len(),
        }
    }
}

impl<'a> Row<'a> {
    fn new(desk: &Desk, record: &'a Record) -> Self {
        let left = Money {
            minor: record.money.minor - record.refunded,
            currency: record.money.currency,
        };
        let is_paid = record.state == Paid::Succeeded;
        Row {
            id: &record.id,
            amount: amount(record.money),
            state: state(record),
            is_paid,
            metadata: &record.metadata,
            goods: goods(desk, record),
            refundable: (is_paid && left.minor > 0).then_some(left),
            is_open: record.is_open(),
        }
    }
}

/// `2 × Enamel mug`
fn goods(desk: &Desk, record: &Record) -> Vec<String> {
    let session = record.session.as_deref();
    let session = session.and_then(|id| desk.session(id).ok());
    let lines = session.into_iter().flat_map(|session| &session.lines);
    lines
        .map(|line| format!("{} × {}", line.quantity, line.name))
        .collect()
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
