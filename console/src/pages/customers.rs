//! One customer of a shop, without personal data: the orders, what happened to them, and the requests about the data.

use axum::response::Response;
use lists::people::PrivacyRequests;
use store::customers;
use store::orders::whose;
use store::privacy_requests;
use store::story::{MOST_ORDERS, Story};

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Rows as _, Table};
use crate::pages::object::{self, Object};
use crate::pages::{PAGE_ROWS, payments};
use lists::shown::{self, Cell};

pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let unknown = Error::Unknown("customer");
    let Ok(id) = visit.path("id").parse::<i64>() else {
        return Err(unknown);
    };
    let (db, shop) = (visit.db(), visit.query.get("shop").to_ascii_lowercase());
    // Where requests are listed, no shop means every shop.
    if shop.is_empty() {
        return Err(unknown);
    }
    let known = customers::find(db, &shop, id).await?;
    let orders = whose::of_customer(db, &shop, id, PAGE_ROWS).await?;
    let filter = privacy_requests::Filter {
        shop: Some(shop.clone()),
        customer: Some(id),
        ..privacy_requests::Filter::default()
    };
    let requests = privacy_requests::list(db, &filter, PAGE_ROWS).await?;
    if known.is_none() && orders.is_empty() && requests.is_empty() {
        return Err(unknown);
    }
    let ids: Vec<i64> = orders.iter().map(|order| order.id).collect();
    let story = Story::of_orders(db, &shop, &ids).await?;
    let bought = orders.table(&[
        ("Name", &|it| Cell::maybe(it.name.as_deref())),
        ("Order", &|it| {
            Cell::link(it.id.to_string(), shown::order(&it.shop, it.id))
        }),
        ("Changed", &|it| Cell::time(it.updated_at)),
    ]);
    let of = shown::quoted(&shop);
    let object = Object {
        here: "/orders",
        kind: "Customer",
        title: id.to_string(),
        facts: vec![
            ("Customer", Cell::code(id.to_string())),
            ("Shop", Cell::text(shop.as_str())),
            ("Changed", Cell::maybe_time(known.map(|it| it.updated_at))),
            (
                "Erased",
                Cell::maybe_time(known.and_then(|it| it.redacted_at)),
            ),
        ],
        chains: object::chains(&visit, &story.jobs, &story.events).await?,
        tables: object::filled([
            ("Orders", bought),
            ("Privacy requests", Table::of::<PrivacyRequests>(&requests)),
        ]),
        note: (orders.len() > MOST_ORDERS || story.is_cut()).then(|| {
            format!(
                "What happened is shown for the newest {MOST_ORDERS} orders. {}",
                payments::CUT
            )
        }),
        commands: vec![(
            "Requests about the data",
            format!("waybill privacy list --shop {of} --customer {id}"),
        )],
        ..Object::default()
    };
    Ok(object.answer(&visit))
}
