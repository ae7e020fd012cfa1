//! Orders, and the one timeline of an order: its deliveries, their attempts, the calls that followed, its
//! events, its payments with their books, and the privacy requests of its customer.

use axum::response::Response;
use lists::people::PrivacyRequests;
use store::orders::view::{Order, Successor};
use store::orders::whose;
use store::story::{self, Meant, Story};
use store::{ledger, privacy_requests};

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Listing, Rows as _, Table};
use crate::pages::object::{self, Object};
use crate::pages::payments;
use lists::shown::{self, Cell};

/// The most payments whose books are shown.
pub const MOST_BOOKS: usize = 5;
const MOST_REQUESTS: i64 = 20;

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let given = visit.path("order");
    let shop = Some(visit.query.get("shop").to_ascii_lowercase()).filter(|shop| !shop.is_empty());
    match story::order(visit.db(), given, shop).await? {
        Meant::One(order) => one(&visit, &order).await,
        Meant::None => Err(Error::Unknown("order")),
        Meant::Shops(shops) => {
            let choices = shops.into_iter().map(|shop| (given.to_owned(), shop));
            Ok(choose(&visit, choices))
        }
        Meant::Named(named) => {
            let choices = named.into_iter().map(|(id, shop)| (id.to_string(), shop));
            Ok(choose(&visit, choices))
        }
    }
}

/// The orders that somebody may mean.
fn choose(visit: &Visit<Reader>, choices: impl Iterator<Item = (String, String)>) -> Response {
    let choices: Vec<(String, String)> = choices.collect();
    let listing = Listing {
        here: "/orders",
        title: "Which order?",
        about: "Several orders have this id or name.",
        command: "waybill orders show ID --shop SHOP".to_owned(),
        table: choices.table(&[
            ("Order", &|(id, shop)| {
                Cell::link(id.as_str(), shown::order(shop, id))
            }),
            ("Shop", &|(_, shop)| Cell::text(shop.as_str())),
        ]),
        ..Listing::default()
    };
    listing.answer(visit)
}

async fn one(visit: &Visit<Reader>, order: &Order) -> Result<Response, Error> {
    let db = visit.db();
    let story = Story::of_order(db, &order.shop, order.id).await?;
    let mut entries = Vec::new();
    for payment in story.payments.iter().take(MOST_BOOKS) {
        entries.extend(ledger::of_payment(db, payment).await?);
    }
    let customer = whose::customer(db, &order.shop, order.id).await?;
    let requests = match customer {
        None => Vec::new(),
        Some(customer) => {
            let filter = privacy_requests::Filter {
                shop: Some(order.shop.clone()),
                customer: Some(customer),
                ..privacy_requests::Filter::default()
            };
            privacy_requests::list(db, &filter, MOST_REQUESTS).await?
        }
    };
    let paid_by = story
        .payments
        .table(&[("Payment or checkout session", &|payment| {
            Cell::link(payment.as_str(), shown::payment(payment))
        })]);
    let tables = [
        ("Lines", lines(order)),
        ("Payments", paid_by),
        ("Books", payments::books(&entries)),
        ("Parcels", parcels(order)),
        (
            "Privacy requests of its customer",
            Table::of::<PrivacyRequests>(&requests),
        ),
    ];
    let id = order.id;
    let object = Object {
        here: "/orders",
        kind: "Order",
        title: order.name.clone().unwrap_or_else(|| id.to_string()),
        facts: facts(order, customer),
        chains: object::chains(visit, &story.jobs, &story.events).await?,
        tables: object::filled(tables),
        note: story.is_cut().then(|| payments::CUT.to_owned()),
        commands: vec![(
            "Show it",
            format!(
                "waybill orders show {id} --shop '{}'",
                order.shop.replace('\'', "")
            ),
        )],
        ..Object::default()
    };
    Ok(object.answer(visit))
}

fn facts(order: &Order, customer: Option<i64>) -> Vec<(&'static str, Cell)> {
    let fulfillment = order.fulfillment.as_ref();
    let total = shown::amount(order.total_price.as_deref(), order.currency.as_deref());
    let state = shown::maybe_state;
    let mut facts = vec![
        ("Order", Cell::code(order.id.to_string())),
        ("Shop", Cell::text(order.shop.as_str())),
        (
            "Customer",
            customer.map_or(Cell::None, |id| {
                Cell::link(id.to_string(), shown::customer(&order.shop, id))
            }),
        ),
        ("Total", total),
        ("Paid", state(order.financial_status.as_deref())),
        (
            "What the payments come to",
            state(order.payment_status.as_deref()),
        ),
        ("Fulfilment", state(fulfillment.map(|it| it.state.as_str()))),
        (
            "Shipped, says the storefront",
            state(order.fulfillment_status.as_deref()),
        ),
        ("Ordered", Cell::maybe_time(order.created_at)),
        ("Changed", Cell::time(order.updated_at)),
    ];
    if let Some(terms) = &order.payment_terms {
        facts.push(("Shipped before it is paid", Cell::text(terms.as_str())));
        facts.push(("To be paid until", Cell::maybe_time(order.payment_due_at)));
    }
    if order.test {
        facts.push(("Test", Cell::text("nothing of it is shipped")));
    }
    if order.held.is_some() {
        facts.push(("Held", state(order.held.as_deref())));
    }
    if !order.unread.is_empty() {
        facts.push(("Not read", Cell::text(order.unread.join(", "))));
    }
    if let Some(at) = order.cancelled_at {
        let owed = shown::amount(order.owed.as_deref(), order.currency.as_deref());
        facts.push(("Owed", owed));
        facts.push(("Cancelled", Cell::time(at)));
        facts.push(("Why", Cell::maybe(order.cancel_reason.as_deref())));
    }
    if let Some(Successor { shop, order_id }) = &order.superseded_by {
        facts.push((
            "Its place was taken by",
            Cell::link(order_id.as_str(), shown::order(shop, order_id)),
        ));
    }
    facts
}

fn lines(order: &Order) -> Table {
    order.line_items.table(&[
        ("Quantity", &|line| {
            line.quantity.map_or(Cell::None, Cell::Number)
        }),
        ("Left", &|line| {
            line.current_quantity.map_or(Cell::None, Cell::Number)
        }),
        ("To ship", &|line| Cell::Number(line.to_ship)),
        ("Shipped by", &|line| {
            Cell::maybe(line.fulfillment_service.as_deref())
        }),
        ("Title", &|line| Cell::maybe(line.title.as_deref())),
        ("SKU", &|line| Cell::maybe(line.sku.as_deref())),
        ("Price", &|line| Cell::maybe(line.price.as_deref())),
    ])
}

fn parcels(order: &Order) -> Table {
    let mut table = Table::new(&["Carrier", "Tracking number", "Status"]);
    for shipment in &order.shipments {
        for parcel in &shipment.parcels {
            table.row(vec![
                Cell::maybe(shipment.carrier.as_deref()),
                Cell::text(parcel.tracking_number.as_str()),
                Cell::maybe(
                    shipment
                        .delivery_status
                        .as_deref()
                        .or(shipment.status.as_deref()),
                ),
            ]);
        }
    }
    table
}
