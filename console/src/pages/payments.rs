//! One payment with its books: each entry of the ledger, and what happened.

use axum::response::Response;
use domain::money::decimal;
use store::ledger;
use store::payments;
use store::story::Story;

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::Table;
use crate::pages::object::{self, Object};
use crate::shown::{self, Cell};

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
    let books = books(&ledger::of_payment(db, id).await?);
    let object = Object {
        here: "",
        kind: "Payment",
        title: id.to_owned(),
        facts,
        chains: object::chains(&story.jobs, &story.events),
        tables: (!books.rows.is_empty())
            .then_some(("Books", books))
            .into_iter()
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
