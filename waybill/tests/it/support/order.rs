//! The deliveries of an order, and everything that Waybill has stored because of them.

use std::collections::BTreeMap;

use domain::order::own::Fulfillment;
use domain::order::record::Record;
use domain::time::Timestamp;
use futures_util::future::join_all;
use serde_json::{Value, json};
use store::sql::Db;

use super::backend::{is_distributed, statement};
use super::delivery::{Delivery, payment_at, storefront};
use super::{Service, records};

pub const TOPICS: [&str; 5] = [
    "orders/create",
    "orders/updated",
    "orders/paid",
    "orders/fulfilled",
    "orders/cancelled",
];

/// The time of an order's version, so many seconds into it.
pub fn at(second: u32) -> String {
    format!("2027-01-15T07:{:02}:{:02}Z", second / 60, second % 60)
}

/// An order of 30 dollars, two of line 1 and one of line 2, with a person in it.
pub fn body(id: i64, second: u32, financial: &str) -> Value {
    let open = ["pending", "authorized"].contains(&financial);
    json!({
        "id": id,
        "name": format!("#{id}"),
        "created_at": at(0),
        "updated_at": at(second),
        "currency": "USD",
        "total_price": "30.00",
        "subtotal_price": "28.00",
        "total_tax": "2.00",
        "total_outstanding": if open { "30.00" } else { "0.00" },
        "financial_status": financial,
        "fulfillment_status": null,
        "cancelled_at": null,
        "cancel_reason": null,
        "line_items": [
            {"id": 1, "variant_id": 101, "title": "Mug", "quantity": 2, "price": "10.00", "sku": "MUG"},
            {"id": 2, "variant_id": null, "title": "Apron", "quantity": 1, "price": "8.00", "sku": null},
        ],
        "email": "canary@example.com",
        "phone": "+12025550123",
        "customer": {"id": 77, "email": "canary@example.com", "first_name": "Canary", "last_name": "Canary"},
        "shipping_address": {"first_name": "Canary", "address1": "1 Canary Street", "city": "Canaryton"},
        "note": "Canary",
        "note_attributes": [],
        "fulfillments": [],
        "refunds": [],
    })
}

/// The same with other fields.
pub fn with(mut body: Value, fields: &Value) -> Value {
    let fields = fields.as_object().expect("fields").clone();
    body.as_object_mut().expect("a body").extend(fields);
    body
}

/// An order that was cancelled in its newest version.
pub fn cancelled(id: i64, second: u32, financial: &str) -> Value {
    let fields = json!({"cancelled_at": at(second), "cancel_reason": "customer"});
    with(body(id, second, financial), &fields)
}

/// The name by which payments find an order.
pub fn naming_agreement(id: &str) -> Value {
    json!({"note_attributes": [{"name": "pact_id", "value": id}]})
}

/// One of the storefront's fulfilments, which ships these units by line.
pub fn fulfilment(id: i64, numbers: &[&str], lines: &[(i64, i64)]) -> Value {
    let urls: Vec<String> = numbers
        .iter()
        .map(|number| format!("https://carrier.example/{number}"))
        .collect();
    let lines: Vec<Value> = lines
        .iter()
        .map(|(id, quantity)| json!({"id": id, "quantity": quantity}))
        .collect();
    json!({
        "id": id, "status": "success", "tracking_company": "Post",
        "tracking_numbers": numbers, "tracking_urls": urls, "line_items": lines,
    })
}

/// A delivery of a body.
pub fn order_delivery(topic: &str, body: &Value) -> Delivery {
    storefront(topic, body.to_string())
}

/// What [`captured`] takes, in minor units.
pub const CAPTURED: i64 = 3000;

/// The event of a captured payment of thirty dollars, as an order of [`body`] costs, `pi_<nth>`, sent at `now`.
pub fn captured(now: Timestamp, nth: i64, agreement: &str) -> Delivery {
    let event = json!({
        "id": format!("evt_{nth}"),
        "object": "event",
        "type": "payment_intent.succeeded",
        "created": now.unix_seconds(),
        "data": {"object": {
            "id": format!("pi_{nth}"), "object": "payment_intent", "amount": CAPTURED,
            "amount_received": CAPTURED, "currency": "usd", "status": "succeeded",
            "receipt_email": "canary@example.com", "metadata": {"pact_id": agreement},
        }},
    });
    payment_at(now.unix_seconds(), event.to_string())
}

/// Posts deliveries at the same time; each is accepted.
pub async fn post_all(service: &Service, deliveries: &[Delivery]) {
    let each = deliveries.iter().map(async |delivery| {
        let (status, body) = service.answer(delivery).await;
        assert_eq!(status, 200, "{body}");
    });
    join_all(each).await;
}

/// Posts a delivery and waits until all work is done.
pub async fn deliver(service: &Service, delivery: &Delivery) {
    post_all(service, std::slice::from_ref(delivery)).await;
    service.settled().await;
}

/// Posts the first delivery of each history at the same time, waits until all work is done, then posts the
/// second of each, and so on.
pub async fn deliver_in_step(service: &Service, histories: &[Vec<Delivery>]) {
    let longest = histories.iter().map(Vec::len).max().unwrap_or(0);
    for step in 0..longest {
        let next: Vec<Delivery> = histories
            .iter()
            .filter_map(|history| history.get(step).cloned())
            .collect();
        for some in next.chunks(50) {
            post_all(service, some).await;
        }
        service.settled().await;
    }
}

/// The order as the API shows it.
pub async fn shown(service: &Service, key: &str, shop: &str, id: i64) -> Value {
    let path = format!("/api/commerce/orders/{id}?shop={shop}");
    let answer = service.get(&path).bearer_auth(key).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    without_texts(answer.json().await.unwrap())
}

/// An order without the ids that stand there as text too, after each was compared with its number.
pub fn without_texts(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            let texts: Vec<String> = fields
                .keys()
                .filter_map(|name| name.strip_suffix("_text").map(str::to_owned))
                .collect();
            for name in texts {
                let text = fields.remove(&format!("{name}_text"));
                let number = fields[&name].as_i64().map(|id| id.to_string());
                assert_eq!(text.as_ref().and_then(Value::as_str), number.as_deref());
            }
            for field in fields.values_mut() {
                *field = without_texts(field.take());
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = without_texts(item.take());
            }
        }
        _ => {}
    }
    value
}

/// Kinds and bodies of an order's events, in the order of their ids.
pub async fn events(db: &Db, shop: &str, id: i64) -> Vec<(String, Value)> {
    let rows = db
        .query("select kind, body from events where shop = $1 and object_id = $2 order by position")
        .bind(shop)
        .bind(id.to_string())
        .fetch_all();
    let rows = rows.await.unwrap();
    rows.iter()
        .map(|row| {
            let body: String = row.get("body").unwrap();
            let body = serde_json::from_str(&body).unwrap();
            (row.get("kind").unwrap(), body)
        })
        .collect()
}

/// The kinds alone.
pub async fn kinds(db: &Db, shop: &str, id: i64) -> Vec<String> {
    let events = events(db, shop, id).await;
    events.into_iter().map(|(kind, _)| kind).collect()
}

/// What the tables say, a line a row.
pub type Rows = BTreeMap<&'static str, Vec<String>>;

/// When something was received or written and how often, which depends on how the
/// deliveries came, and what the record has too.
const VOLATILE: [&str; 9] = [
    "shop",
    "created_at",
    "updated_at",
    "listed_at",
    "disputed_at",
    "tried_at",
    "key_number",
    "provider_id",
    "record of orders",
];

/// The same in an order's record.
fn without_times(mut order: Record) -> Record {
    order.own.known_at = 0;
    order.own.fulfillment = Fulfillment::default();
    order.own.cycles.clear();
    order.own.bodies.clear();
    order.own.shipments_at.clear();
    order
}

/// Every row of every order by shop, as far as it follows from the deliveries alone.
pub async fn rows(db: &Db) -> BTreeMap<String, Rows> {
    let mut found: BTreeMap<String, Rows> = BTreeMap::new();
    for table in ["orders", "tracking_numbers", "customers", "refunds"] {
        let mut columns = columns(db, table).await;
        columns.retain(|column| {
            let of_table = format!("{column} of {table}");
            !VOLATILE.contains(&column.as_str()) && !VOLATILE.contains(&of_table.as_str())
        });
        assert!(columns.len() >= 2, "{table} has columns");
        let values: Vec<String> = columns
            .iter()
            .map(|column| format!("'{column}=' || coalesce(cast({column} as text), '-')"))
            .collect();
        let values = values.join(" || ' ' || ");
        collect(
            db,
            table,
            format!("select shop, {values} as line from {table}"),
            &mut found,
        )
        .await;
    }
    for ((shop, id), order) in records::orders(db).await {
        let record = serde_json::to_string(&without_times(order)).unwrap();
        let of_shop = found.entry(shop).or_default();
        let lines = of_shop.entry("records").or_default();
        lines.push(format!("{id} {record}"));
    }
    let sums = "select shop, cast(order_id as text) || ' ' || cast(line_id as text) || ' ' ||
                       cast(cast(sum(quantity) as bigint) as text) as line
                from inventory_movements group by shop, order_id, line_id
                having sum(quantity) <> 0";
    collect(db, "inventory_movements", sums.to_owned(), &mut found).await;
    found
}

async fn collect(db: &Db, table: &'static str, sql: String, found: &mut BTreeMap<String, Rows>) {
    let rows = db.query(statement(sql)).fetch_all().await.unwrap();
    for row in rows {
        let of_shop = found.entry(row.get("shop").unwrap()).or_default();
        let lines = of_shop.entry(table).or_default();
        lines.push(row.get("line").unwrap());
        lines.sort();
    }
}

async fn columns(db: &Db, table: &str) -> Vec<String> {
    let sql = if is_distributed() {
        "select cast(column_name as text) as name from information_schema.columns
         where table_name = $1 and table_schema = current_schema() order by 1"
    } else {
        "select name from pragma_table_info($1) order by 1"
    };
    let rows = db.query(sql).bind(table).fetch_all().await.unwrap();
    rows.iter().map(|row| row.get("name").unwrap()).collect()
}

/// How often a kind is among them.
pub fn times(kinds: &[String], kind: &str) -> usize {
    kinds.iter().filter(|it| *it == kind).count()
}

/// Nobody's name, address, mail or phone is in what is sent to others or shown to operators.
pub async fn no_person_in_events_and_jobs(service: &Service) {
    let order_delivery = "select 'event' as place, body as text from events
                union all
                select 'error' as place, last_error as text from jobs where last_error is not null";
    let rows = service
        .db()
        .query(order_delivery)
        .fetch_all()
        .await
        .unwrap();
    for row in rows {
        let (place, text): (String, String) = (row.get("place").unwrap(), row.get("text").unwrap());
        let lower = text.to_lowercase();
        assert!(
            !lower.contains("canary") && !lower.contains("2025550123"),
            "{place}: {text}"
        );
    }
    let jobs = "select body from deliveries where source = 'internal' and body is not null";
    for row in service.db().query(jobs).fetch_all().await.unwrap() {
        let body = String::from_utf8(row.get::<Vec<u8>>("body").unwrap()).unwrap();
        assert!(!body.to_lowercase().contains("canary"), "{body}");
    }
}
