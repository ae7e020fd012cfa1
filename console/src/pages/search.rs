//! One search for any id. It is sent as a form, because an e-mail address belongs into no address, log or
//! history. An id that leads to one thing leads there at once.

use std::collections::BTreeSet;

use askama::Template;
use axum::response::{Html, IntoResponse, Redirect, Response};
use domain::time::Timestamp;
use domain::trace::TraceId;
use store::orders::whose;
use store::sql::Db;
use store::story::{self, Meant};
use store::{endpoints, events, invoices, jobs, payments, subscriptions, traces};
use uuid::Uuid;

use crate::access::{Reader, Visit, Write};
use crate::error::Error;
use crate::frame::Frame;
use crate::listing::{self, Table};
use crate::pages::object;
use lists::shown::{self, Cell};

/// How many of each kind are found.
const MOST: i64 = 50;

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage<'a> {
    frame: Frame<'a>,
    /// What was searched; none for an e-mail address, which is not shown.
    what: &'a str,
    table: &'a Table,
    /// An e-mail address stands in the page's address, so nothing was searched.
    is_in_address: bool,
}

/// A search from a form.
pub async fn search(write: Write<Reader>) -> Result<Response, Error> {
    let what = write.fields.get("q");
    if !what.contains('@') {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("q", what)
            .finish();
        return Ok(Redirect::to(&format!("/search?{query}")).into_response());
    }
    let mut table = Table::new(&["Kind", "What", "Shop", "Changed"]);
    let orders = whose::of_email(write.db(), what, MOST).await?;
    let customers = orders
        .iter()
        .filter_map(|it| Some((&it.shop, it.customer?)));
    for (shop, id) in customers.collect::<BTreeSet<_>>() {
        table.row(vec![
            Cell::text("customer"),
            Cell::link(id.to_string(), shown::customer(shop, id)),
            Cell::text(shop.as_str()),
            Cell::None,
        ]);
    }
    for order in orders {
        let name = order.name.unwrap_or_else(|| order.id.to_string());
        table.row(vec![
            Cell::text("order"),
            Cell::link(name, shown::order(&order.shop, order.id)),
            Cell::text(order.shop),
            Cell::time(order.updated_at),
        ]);
    }
    Ok(page(&write, "", &table, false))
}

/// A search whose text is in the address.
pub async fn show(visit: Visit<Reader>) -> Result<Response, Error> {
    let what = visit.query.get("q");
    if what.contains('@') {
        return Ok(page(&visit, "", &Table::default(), true));
    }
    if what.is_empty() {
        return Ok(page(&visit, "", &Table::default(), false));
    }
    let table = found(&visit, what).await?;
    if let Some(answer) = listing::in_format(&visit, &table, "search") {
        return Ok(answer);
    }
    if let [row] = table.rows.as_slice()
        && let Some(Cell::Link { href, .. }) = row.get(1)
    {
        return Ok(Redirect::to(href).into_response());
    }
    Ok(page(&visit, what, &table, false))
}

fn page<R>(visit: &Visit<R>, what: &str, table: &Table, is_in_address: bool) -> Response {
    let page = SearchPage {
        frame: Frame::of(visit, "/search"),
        what,
        table,
        is_in_address,
    };
    Html(page.to_string()).into_response()
}

/// Everything that has this id, or belongs to it.
async fn found(visit: &Visit<Reader>, what: &str) -> Result<Table, Error> {
    let db = visit.db();
    let mut table = Table::new(&["Kind", "What", "Shop", "Changed"]);
    let mut order = |id: String, name: Option<String>, shop: String, at| {
        let href = shown::order(&shop, &id);
        table.row(vec![
            Cell::text("order"),
            Cell::link(name.unwrap_or(id), href),
            Cell::text(shop),
            Cell::maybe_time(at),
        ]);
    };
    match story::order(db, what, None).await? {
        Meant::One(it) => order(it.id.to_string(), it.name, it.shop, Some(it.updated_at)),
        Meant::None => {}
        Meant::Shops(shops) => {
            for shop in shops {
                order(what.to_owned(), None, shop, None);
            }
        }
        Meant::Named(named) => {
            for (id, shop) in named {
                order(id.to_string(), Some(what.to_owned()), shop, None);
            }
        }
    }
    if let Some(row) = at_the_payment_provider(db, what).await? {
        table.row(row);
    }
    if let Ok(id) = Uuid::parse_str(what) {
        if let Some(job) = jobs::show(db, id).await? {
            table.row(job_row(&job));
            return Ok(table);
        }
        if let Some(event) = events::by_ids(db, vec![id]).await?.pop() {
            let shop = event.shop.unwrap_or_default();
            let href = match event.object_id.parse::<i64>() {
                Ok(id) => shown::order(&shop, id),
                Err(_) => shown::of_provider(&event.object_id),
            };
            table.row(vec![
                Cell::text("event"),
                Cell::link(event.kind, format!("{href}#a{id}")),
                Cell::text(shop),
                Cell::time(event.created_at),
            ]);
        }
        if let Some(endpoint) = endpoints::find(db, id).await? {
            table.row(vec![
                Cell::text("endpoint"),
                Cell::link(endpoint.url, "/endpoints".to_owned()),
                Cell::None,
                Cell::time(endpoint.created_at),
            ]);
        }
    }
    let mut of = traces::of_indexed(db, what).await?;
    if let Ok(trace) = u128::from_str_radix(what, 16)
        && what.len() == 32
    {
        of.insert(TraceId::of(Uuid::from_u128(trace)));
    }
    for job in traces::jobs(db, &of, MOST).await? {
        table.row(job_row(&job));
    }
    Ok(table)
}

fn job_row(job: &jobs::Summary) -> Vec<Cell> {
    let (_, outcome) = object::outcome(job);
    vec![
        Cell::text(if job.source == "internal" {
            "call"
        } else {
            "delivery"
        }),
        Cell::link(format!("{}, {outcome}", job.kind), shown::job(job.id)),
        Cell::maybe(job.shop.as_deref()),
        Cell::time(job.created_at),
    ]
}

/// What the payment provider gave this id.
async fn at_the_payment_provider(db: &Db, id: &str) -> Result<Option<Vec<Cell>>, Error> {
    let row = |kind: &str, href: String, at: Option<Timestamp>| {
        let link = Cell::link(id, href);
        Some(vec![
            Cell::text(kind),
            link,
            Cell::None,
            Cell::maybe_time(at),
        ])
    };
    if let Some(it) = payments::find(db, id).await? {
        return Ok(row("payment", shown::payment(id), Some(it.updated_at)));
    }
    if let Some(it) = subscriptions::find(db, id).await? {
        let href = shown::subscription(id);
        return Ok(row("subscription", href, Some(it.updated_at)));
    }
    if let Some(it) = invoices::find(db, id).await? {
        let href = match (&it.subscription, &it.payment_id) {
            (Some(subscription), _) => shown::subscription(subscription),
            (None, Some(payment)) => shown::payment(payment),
            (None, None) => shown::payment(id),
        };
        return Ok(row("invoice", href, None));
    }
    // Something that leads to no order, such as a checkout session.
    let of = jobs::of_object(db, "", id, 1).await?;
    Ok(of
        .first()
        .and_then(|job| row(&job.kind, shown::of_provider(id), Some(job.created_at))))
}
