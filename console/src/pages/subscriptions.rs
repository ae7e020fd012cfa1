//! Subscriptions of the payment provider: until when each is paid, its invoices, the licences that it extends, and what
//! happened.

use axum::response::Response;
use lists::people::Licenses;
use store::story::Story;
use store::{invoices, ledger, licenses, subscriptions};

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Rows as _, Table};
use crate::pages::object::{self, Object};
use crate::pages::orders::MOST_BOOKS;
use crate::pages::{PAGE_ROWS, licenses as shown_licenses, payments};
use lists::shown::{self, Cell};

const HERE: &str = "/subscriptions";

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let (db, id) = (visit.db(), visit.path("id"));
    let story = Story::of_subscription(db, id).await?;
    let found = subscriptions::find(db, id).await?;
    let billed = invoices::of_subscription(db, id, PAGE_ROWS).await?;
    if found.is_none() && billed.is_empty() && story.jobs.is_empty() {
        return Err(Error::Unknown("subscription"));
    }
    let extended = licenses::of_subscription(db, id, PAGE_ROWS).await?;
    let extended: Vec<_> = extended
        .into_iter()
        .map(|it| shown_licenses::listed(&visit, it))
        .collect();
    let mut entries = Vec::new();
    for payment in story.payments.iter().take(MOST_BOOKS) {
        entries.extend(ledger::of_payment(db, payment).await?);
    }
    let bills = billed.table(&[
        ("Invoice", &|it| {
            Cell::link(it.id.as_str(), shown::payment(&it.id))
        }),
        ("First", &|it| {
            Cell::text(if it.is_first { "yes" } else { "" })
        }),
        ("Paid with", &|it| {
            let paid = it.payment_id.as_deref();
            paid.map_or(Cell::None, |id| Cell::link(id, shown::payment(id)))
        }),
    ]);
    let mut facts = vec![("Subscription", Cell::code(id))];
    if let Some(it) = &found {
        facts.extend([
            ("Paid until", Cell::maybe_time(it.period_end_at)),
            (
                "Customer at the provider",
                Cell::maybe(it.customer_id.as_deref()),
            ),
            ("Agreement", Cell::maybe(it.pact_id.as_deref())),
            ("Changed", Cell::time(it.updated_at)),
        ]);
    }
    let object = Object {
        here: HERE,
        kind: "Subscription",
        title: id.to_owned(),
        facts,
        chains: object::chains(&visit, &story.jobs, &story.events).await?,
        tables: object::filled([
            ("Invoices", bills),
            ("Licences", Table::of::<Licenses>(&extended)),
            ("Books", payments::books(&entries)),
        ]),
        note: story.is_cut().then(|| payments::CUT.to_owned()),
        commands: vec![("List all", "waybill payments subscriptions".to_owned())],
        ..Object::default()
    };
    Ok(object.answer(&visit))
}
