//! Payments, and one payment with its books: each entry of the ledger, Waybill's retries, the notifications of its
//! customer, and what happened.

use axum::response::Response;
use domain::money::decimal;
use store::payments::{self, Filter};
use store::story::Story;
use store::{ledger, notifications, payment_retries};

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Listing, Table};
use crate::pages::PAGE_ROWS;
use crate::pages::object::{self, Object};
use crate::shown::{self, Cell};

const HERE: &str = "/payments";
const MOST: i64 = 500;

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let all = payments::list(visit.db(), &Filter::default(), MOST).await?;
    let mut table = Table::new(&[
        "Changed",
        "State",
        "Amount",
        "Received",
        "Refunded",
        "Currency",
        "Agreement",
        "Payment",
    ]);
    for it in &all {
        let amount = |minor| Cell::text(decimal(minor, &it.currency));
        table.row(vec![
            Cell::time(it.updated_at),
            shown::state(it.state.as_str()),
            amount(it.amount_minor),
            amount(it.received_minor),
            amount(it.refunded_minor),
            Cell::text(it.currency.as_str()),
            Cell::maybe(it.pact_id.as_deref()),
            Cell::link(it.id.as_str(), shown::payment(&it.id)),
        ]);
    }
    let is_cut = i64::try_from(all.len()).is_ok_and(|rows| rows == MOST);
    let listing = Listing {
        here: HERE,
        title: "Payments",
        about: "Those that changed last come first.",
        command: "waybill payments list".to_owned(),
        table,
        empty: "There is no payment.",
        note: is_cut.then(|| {
            format!("These are the {MOST} that changed last. Search for others by their ids.")
        }),
        ..Listing::default()
    };
    Ok(listing.answer(&visit))
}

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
        tables: tables
            .into_iter()
            .filter(|(_, table)| !table.rows.is_empty())
            .collect(),
        note: story.is_cut().then(|| CUT.to_owned()),
        acts: Vec::new(),
        commands: vec![
            ("Show it", format!("waybill payments show {id}")),
            ("Check the books", "waybill ledger verify".to_owned()),
        ],
    };
    Ok(object.answer(&visit))
}

/// Said where only the newest were read.
pub const CUT: &str =
    "There are more deliveries or events than are shown here: these are the newest.";

pub fn books(lines: &[ledger::Line]) -> Table {
    let mut table = Table::new(&[
        "Written", "Entry", "Account", "Amount", "Currency", "Payment",
    ]);
    for line in lines {
        table.row(vec![
            Cell::time(line.created_at),
            Cell::text(line.entry.as_str()),
            Cell::code(line.account.as_str()),
            Cell::text(line.amount.as_str()),
            Cell::text(line.currency.as_str()),
            Cell::link(line.payment_id.as_str(), shown::payment(&line.payment_id)),
        ]);
    }
    table
}

fn retries(all: &[payment_retries::Summary]) -> Table {
    let mut table = Table::new(&["Retry", "Due", "State", "Code", "Job"]);
    for it in all {
        table.row(vec![
            Cell::Number(it.number),
            Cell::time(it.due_at),
            shown::state(it.state.as_str()),
            Cell::maybe(it.code.as_deref()),
            Cell::job(it.job_id),
        ]);
    }
    table
}

fn notified(all: &[notifications::Summary]) -> Table {
    let mut table = Table::new(&["Written", "Kind", "State", "Why", "Notification"]);
    for it in all {
        table.row(vec![
            Cell::time(it.created_at),
            Cell::text(it.kind.as_str()),
            shown::state(it.state.as_str()),
            Cell::maybe(it.error.as_deref()),
            Cell::code(it.id.to_string()),
        ]);
    }
    table
}
