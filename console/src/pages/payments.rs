//! Payments, and one payment with its books: each entry of the ledger, Waybill's retries, the notifications of its
//! customer, and what happened.

use axum::response::Response;
use domain::money::decimal;
use store::payments;
use store::story::Story;
use store::{ledger, notifications, payment_retries};

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Rows as _, Table};
use crate::pages::PAGE_ROWS;
use crate::pages::object::{self, Object};
use lists::shown::{self, Cell};

const HERE: &str = "/payments";

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let (db, id) = (visit.db(), visit.path("id"));
    let story = Story::of_payment(db, id).await?;
    let payment = payments::find(db, id).await?;
    if payment.is_none() && story.jobs.is_empty() {
        return Err(Error::Unknown("payment"));
    }
    let mut facts = vec![("Payment", Cell::code(id))];
    if let Some(it) = &payment {
        let amount =
            |minor| Cell::text(format!("{} {}", decimal(minor, &it.currency), it.currency));
        facts.extend([
            ("State", shown::state(it.state.as_str())),
            ("Amount", amount(it.amount_minor)),
            ("Received", amount(it.received_minor)),
            ("Refunded", amount(it.refunded_minor)),
            ("Agreement", Cell::maybe(it.pact_id.as_deref())),
            (
                "Customer at the provider",
                Cell::maybe(it.customer_id.as_deref()),
            ),
            ("First seen", Cell::time(it.created_at)),
            ("Changed", Cell::time(it.updated_at)),
        ]);
    }
    let tables = [
        ("Books", books(&ledger::of_payment(db, id).await?)),
        ("Retries", retries(&payment_retries::list(db, id).await?)),
        (
            "Notifications of the customer",
            notified(&notifications::list(db, id, PAGE_ROWS).await?),
        ),
    ];
    let object = Object {
        here: HERE,
        kind: "Payment",
        title: id.to_owned(),
        facts,
        chains: object::chains(&visit, &story.jobs, &story.events).await?,
        tables: object::filled(tables),
        note: story.is_cut().then(|| CUT.to_owned()),
        commands: vec![
            ("Show it", format!("waybill payments show {id}")),
            ("Check the books", "waybill ledger verify".to_owned()),
        ],
        ..Object::default()
    };
    Ok(object.answer(&visit))
}

/// Said where only the newest were read.
pub const CUT: &str =
    "There are more deliveries or events than are shown here: these are the newest.";

pub fn books(lines: &[ledger::Line]) -> Table {
    lines.table(&[
        ("Written", &|line| Cell::time(line.created_at)),
        ("Entry", &|line| Cell::text(line.entry.as_str())),
        ("Account", &|line| Cell::code(line.account.as_str())),
        ("Amount", &|line| Cell::text(line.amount.as_str())),
        ("Currency", &|line| Cell::text(line.currency.as_str())),
        ("Payment", &|line| {
            Cell::link(line.payment_id.as_str(), shown::payment(&line.payment_id))
        }),
    ])
}

fn retries(all: &[payment_retries::Summary]) -> Table {
    all.table(&[
        ("Retry", &|it| Cell::Number(it.number)),
        ("Due", &|it| Cell::time(it.due_at)),
        ("State", &|it| shown::state(it.state.as_str())),
        ("Code", &|it| Cell::maybe(it.code.as_deref())),
        ("Job", &|it| Cell::job(it.job_id)),
    ])
}

fn notified(all: &[notifications::Summary]) -> Table {
    all.table(&[
        ("Written", &|it| Cell::time(it.created_at)),
        ("Kind", &|it| Cell::text(it.kind.as_str())),
        ("State", &|it| shown::state(it.state.as_str())),
        ("Why", &|it| Cell::maybe(it.error.as_deref())),
        ("Notification", &|it| Cell::code(it.id.to_string())),
    ])
}
