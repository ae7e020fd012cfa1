//! `shop/redact` erases a shop with all its data, however often the erasure is interrupted, and
//! other shops keep theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use domain::job::{Queue, Source, State};
use domain::pause::Target;
use domain::privacy::{State as RequestState, SubjectKey};
use domain::reconciliation::Cause;
use operators::{operations, pauses};
use providers::exports::Exports;
use serde_json::{Value, json};
use store::endpoints::{self, Waiting};
use store::jobs::ended::Filter;
use store::jobs::operate::Action;
use store::orders::checkout_key;
use store::privacy_requests::{self, By, RequestEntry};
use store::reconciliations::Reconciled;
use store::sql::{Db, Row, column};
use store::{audit, jobs, reconciliations, tombstones};
use uuid::Uuid;
use workers::Worker;

use crate::support::backend::{is_distributed, statement};
use crate::support::delivery::{Delivery, SHOP, storefront};
use crate::support::order::{
    at, body, cancelled, captured, deliver, fulfilment, naming_agreement, order_delivery, post_all,
    rows, with,
};
use crate::support::payment::{balances, event, intent, session};
use crate::support::records;
use crate::support::requests::{place, posted};
use crate::support::{Options, Service, eventually, pause, service, within};

const OTHER: &str = "other.example";

/// An erasure rests four times as long as it works, so that others are worked on beside it.
const A_WHILE: Duration = Duration::from_secs(90);

/// What stays of a shop: that it was erased, and for whom.
const EVIDENCE: [&str; 4] = [
    "audit",
    "erasure_subjects",
    "privacy_requests",
    "tombstones",
];

/// What has nothing of a shop before somebody is erased.
const UNFILLED: [&str; 2] = ["audit", "erasure_subjects"];

/// Erasures begin at once.
fn at_once() -> Options {
    service()
        .manual_clock()
        .setting("PRIVACY_SHOP_REDACT_HOLD_SECONDS", "0")
}

fn redaction(shop: &str) -> Delivery {
    let body = json!({"shop_id": 1, "shop_domain": shop});
    storefront("shop/redact", body.to_string()).of_shop(shop)
}

/// Posts the request; its id.
async fn redact(service: &Service, delivery: &Delivery) -> Uuid {
    post_all(service, std::slice::from_ref(delivery)).await;
    let row = service
        .db()
        .query("select id from privacy_requests order by received_at desc, id desc limit 1")
        .fetch_one();
    row.await.unwrap().get("id").unwrap()
}

async fn entry(service: &Service, id: Uuid) -> RequestEntry {
    let entry = privacy_requests::find(service.db(), id).await.unwrap();
    entry.expect("the request is in the ledger")
}

async fn is_done(service: &Service, id: Uuid) -> bool {
    entry(service, id).await.state == "done"
}

/// The tables with a column `shop`.
async fn tables(db: &Db) -> BTreeSet<String> {
    let sql = if is_distributed() {
        "select cast(table_name as text) as name from information_schema.columns
         where column_name = 'shop' and table_schema = current_schema()"
    } else {
        "select tables.name as name from sqlite_master tables, pragma_table_info(tables.name) columns
         where tables.type = 'table' and columns.name = 'shop'"
    };
    let rows = db.query(sql).fetch_all().await.unwrap();
    rows.iter().map(|row| row.get("name").unwrap()).collect()
}

/// How many rows of each table are of a shop.
async fn held(service: &Service, shop: &str) -> BTreeMap<String, i64> {
    let mut held = BTreeMap::new();
    for table in tables(service.db()).await {
        let count = format!("select count(*) as n from {table} where shop = '{shop}'");
        held.insert(table, service.count(statement(count)).await);
    }
    held
}

/// Fills every table of a shop. Payments are `pi_<base + ..>`.
async fn fill(service: &Service, shop: &str, base: i64) {
    let named = |id: i64| format!("{shop}-{id}");
    let hour_at = service.clock().now().0 + base;
    let refused = format!(
        "insert into refused_deliveries (hour_at, source, connection, profile, reason, signature, header,
             advice, status, deliveries, first_at, last_at, headers, shop)
         values ({hour_at}, 'storefront', '', 'generic', 'signature', 'missing', '', '', 401, 1, 1, 1, '',
             '{shop}')"
    );
    service.execute(statement(refused)).await;
    let connected = format!(
        "insert into connection_shops (shop, connection, added_at) values ('{shop}', 'one of {shop}', 0)"
    );
    service.execute(statement(connected)).await;
    let waiting = Waiting {
        position: 1,
        object: (shop.to_owned(), "1".to_owned()),
        job_id: service.clock().id(),
    };
    let endpoint = service.clock().id();
    let mut tx = service.db().begin().await.unwrap();
    tx.query(
        "insert into endpoints (id, url, kinds, state, secret, position, failures, created_at, updated_at)
         values ($1, 'https://shop.example/', '*', 'paused', $2, 0, 0, 0, 0)",
    )
    .bind(endpoint)
    .bind(Vec::<u8>::new())
    .execute()
    .await
    .unwrap();
    endpoints::insert_waiting(&mut tx, endpoint, &[waiting])
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let post = async |topic: &str, body: Value, id: &str| {
        let delivery = order_delivery(topic, &body)
            .of_shop(shop)
            .id(&named_id(shop, id));
        deliver(service, &delivery).await;
    };
    let shipped = json!({
        "fulfillment_status": "fulfilled",
        "fulfillments": [fulfilment(9, &["T-1", "T-2"], &[(1, 2), (2, 1)])],
    });
    post("orders/create", body(1, 1, "paid"), "created").await;
    let fulfilled = with(body(1, 2, "paid"), &shipped);
    post("orders/fulfilled", fulfilled, "fulfilled").await;
    // Paid by a payment of its agreement, then cancelled: a refund and stock.
    let second = with(body(2, 1, "pending"), &naming_agreement(&named(2)));
    post("orders/create", second, "second").await;
    let now = service.clock().now();
    for nth in [1, 2, 3] {
        deliver(service, &captured(now, base + nth, &named(2))).await;
    }
    let second = with(cancelled(2, 2, "paid"), &naming_agreement(&named(2)));
    post("orders/cancelled", second, "cancelled").await;
    // Its checkout session came first, so an order was made of it.
    let link = json!({
        "metadata": {"pact_id": named(3)}, "payment_intent": format!("pi_{}", base + 4),
        "client_reference_id": format!("cart of {shop}"),
    });
    let session = session(&format!("cs_{base}"), "paid", 3000, &link);
    let completed = event(service, "checkout.session.completed", base, &session);
    deliver(service, &completed).await;
    let third = with(body(3, 1, "pending"), &naming_agreement(&named(3)));
    post("orders/create", third, "third").await;
    // A further cycle of its agreement is paid, and one of its bodies leaves a status to its topic.
    let pi = format!("pi_{}", base + 5);
    let mut cycle = intent(&pi, "succeeded", 3000, Some(&named(3)));
    cycle["metadata"]["fulfillment_cycle"] = json!("2");
    let paid = event(service, "payment_intent.succeeded", base, &cycle);
    deliver(service, &paid).await;
    let mut cut = with(body(3, 2, "pending"), &naming_agreement(&named(3)));
    cut.as_object_mut().unwrap().remove("cancelled_at");
    post("orders/updated", cut, "cut").await;
    // One that is dead, one that will wait, one whose delivery had no id.
    let unreadable = storefront("orders/updated", r#"{"id":"none"}"#).of_shop(shop);
    let delivery = unreadable.id(&named_id(shop, "dead"));
    deliver(service, &delivery).await;
    post("orders/updated", body(1, 1, "paid"), "later").await;
    let nameless = order_delivery("orders/updated", &body(2, 1, "pending")).of_shop(shop);
    deliver(service, &nameless).await;
}

/// Makes one of the jobs of a shop wait for its next run.
async fn defer(service: &Service, shop: &str) {
    let later = format!(
        "update jobs set state = 'ready', attempts = 3, run_at = created_at + 86400000,
                         finished_at = null
         where id in (select id from deliveries where external_id = '{}')",
        named_id(shop, "later")
    );
    service.execute(statement(later)).await;
}

/// An operation on the dead jobs of the shop, which nobody carries out, and a pause of it that is over.
async fn operation(service: &Service, shop: &str) {
    let now = service.clock().now();
    let by = By {
        keys: &service.parts.keys,
        actor: audit::OPERATOR,
        now,
    };
    let filter = Filter {
        shop: shop.to_owned(),
        ..Filter::default()
    };
    let id = service.clock().id();
    let confirmed = operations::confirm(service.db(), by, id, Action::Requeue, &filter, now, 50);
    assert!(confirmed.await.unwrap());
    let target = Target::Shop(shop.to_owned());
    let until = now.plus(Duration::from_hours(1));
    let begun = pauses::begin(service.db(), by, id, target.clone(), until);
    assert!(begun.await.unwrap());
    assert!(pauses::end(service.db(), by, &target).await.unwrap());
}

/// Its storefront was compared, and something that never came was found there.
async fn compare(service: &Service, shop: &str) {
    let now = service.clock().now();
    let target = reconciliations::Target {
        source: Source::Storefront,
        connection: "default".to_owned(),
        shop: shop.to_owned(),
    };
    let targets = [target];
    let begun = reconciliations::begin(service.db(), &targets, now, now);
    begun.await.unwrap();
    let found = Reconciled {
        job_id: service.clock().id(),
        source: "storefront".to_owned(),
        connection: "default".to_owned(),
        shop: shop.to_owned(),
        kind: "orders/updated".to_owned(),
        changed_at: now,
        found_at: now,
        cause: Cause::NotSent,
    };
    let mut tx = service.db().begin().await.unwrap();
    reconciliations::note(&mut tx, &[found]).await.unwrap();
    tx.commit().await.unwrap();
}

fn named_id(shop: &str, id: &str) -> String {
    format!("{shop}/{id}")
}

/// The store of the exports.
const STORE: Uuid = Uuid::from_u128(1);

/// A request of earlier that was done, with its export; its id.
async fn exported(service: &Service, shop: &str) -> Uuid {
    let now = service.clock().now();
    let id = service.clock().id();
    let mut tx = service.db().begin().await.unwrap();
    let row = [
        column("id", id),
        column("topic", "customers/data_request"),
        column("shop", shop),
        column("body_key", id),
        column("state", "done"),
        column("received_at", now.0 - 1),
        column("due_at", now.0),
        column("finished_at", now.0),
        column("export_sha256", "00"),
        column("export_runs", 1),
        column("export_run", 1),
        column("export_store", STORE),
        column("export_bytes", 2),
        column("export_expires_at", now.plus(Duration::from_hours(24)).0),
    ];
    tx.insert("privacy_requests", vec![row], "").await.unwrap();
    for action in ["request.received", "export.written"] {
        let new = audit::NewEntry {
            actor: audit::WORKER,
            action,
            object_id: &id.to_string(),
            shop: Some(shop),
            details: json!({}),
        };
        let keys = &service.parts.keys;
        audit::append(&mut tx, keys, new, now).await.unwrap();
    }
    tx.commit().await.unwrap();
    place(&service.backend.folder().join("exports"), id, "{}");
    let exports = Exports::new(&service.parts.config.privacy.exports);
    exports.set_mark(STORE).await.unwrap();
    id
}

async fn write_someones_tombstone(service: &Service, shop: &str) {
    let key = service
        .parts
        .keys
        .subject(shop, SubjectKey::Customer(7))
        .unwrap();
    let mut tx = service.db().begin().await.unwrap();
    let keys = BTreeMap::from([(shop, BTreeSet::from([key]))]);
    tombstones::write(&mut tx, &keys, service.clock().now())
        .await
        .unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn nothing_of_an_erased_shop_is_left_and_the_other_shop_is_whole() {
    let service = at_once().start().await;
    for (shop, base) in [(SHOP, 10), (OTHER, 20)] {
        fill(&service, shop, base).await;
        write_someones_tombstone(&service, shop).await;
        exported(&service, shop).await;
        operation(&service, shop).await;
        compare(&service, shop).await;
    }
    defer(&service, SHOP).await;
    defer(&service, OTHER).await;
    let before = held(&service, SHOP).await;
    let empty: Vec<&String> = before
        .iter()
        .filter(|(table, rows)| **rows == 0 && !UNFILLED.contains(&table.as_str()))
        .map(|(table, _)| table)
        .collect();
    assert_eq!(empty, Vec::<&String>::new(), "a table that was not filled");
    let (other, other_rows) = (held(&service, OTHER).await, rows(service.db()).await);
    let books = balances(service.db()).await;

    let id = redact(&service, &redaction(SHOP)).await;
    within(A_WHILE, "the shop is erased", async || {
        is_done(&service, id).await
    })
    .await;

    for (table, left) in held(&service, SHOP).await {
        let allowed = match table.as_str() {
            // The request's own job and the event that reports its end.
            "jobs" | "deliveries" | "events" => 1,
            table if EVIDENCE.contains(&table) => left,
            _ => 0,
        };
        assert_eq!(left, allowed, "{table}");
    }
    let own =
        "select count(*) as n from jobs join privacy_requests on privacy_requests.id = jobs.id
               join deliveries on deliveries.id = jobs.id
               where jobs.kind = 'shop/redact' and jobs.state = 'done' and body is null";
    assert_eq!(service.count(own).await, 1);
    assert_eq!(held(&service, OTHER).await, other);
    let left = rows(service.db()).await;
    assert_eq!(left.get(SHOP), None);
    assert_eq!(left.get(OTHER), other_rows.get(OTHER));
    let of_no_job = "select count(*) as n from webhook_ids
                     where job_id not in (select id from jobs)";
    assert_eq!(service.count(of_no_job).await, 0, "the erased shop's");
    let others = "select count(*) as n from webhook_ids
                  where job_id in (select id from jobs where shop = 'other.example')";
    assert_eq!(service.count(others).await, 8);
    let tried = "select count(*) as n from job_attempts";
    assert_eq!(service.count(tried).await, 1, "the other shop's");

    // The books are as they were, without the payers' addresses.
    assert_eq!(balances(service.db()).await, books);
    let payers = "select count(*) as n from payments where received_minor = 3000
                    and pact_id = 'shop.example-2' and email_key is null";
    assert_eq!(service.count(payers).await, 3);
    let payers = async |rows| {
        records::values(service.db(), rows, "receipt_email")
            .await
            .len()
    };
    assert_eq!(payers("payments where pact_id = 'shop.example-2'").await, 0);
    assert_eq!(
        payers("payments where pact_id = 'other.example-2'").await,
        3
    );
    let buyer = async |rows| {
        let session = &records::records(service.db(), rows).await[0];
        ["email", "client_reference_id"].map(|part| session[part]["value"].clone())
    };
    let erased = buyer("checkout_sessions where id = 'cs_10'").await;
    assert_eq!(erased, [Value::Null, Value::Null]);
    let [email, cart] = buyer("checkout_sessions where id = 'cs_20'").await;
    assert!(
        email.is_string() && cart == "cart of other.example",
        "{email}"
    );
    let placeholders =
        "select count(*) as n from orders where shop = 'checkout' and email_key is not null";
    assert_eq!(service.count(placeholders).await, 1, "the other shop's");

    let tombstones = service
        .db()
        .query("select key from tombstones where shop = $1")
        .bind(SHOP)
        .fetch_all()
        .await
        .unwrap();
    let tombstones: Vec<Option<Uuid>> = tombstones.iter().map(|row| row.get("key").ok()).collect();
    let own = service.parts.keys.subject(SHOP, SubjectKey::Shop);
    assert_eq!(tombstones, [own]);
    let removed = service
        .db()
        .query("select shop from privacy_requests where export_removed_at is not null")
        .fetch_all()
        .await
        .unwrap();
    let removed: Vec<String> = removed.iter().map(|row| row.get("shop").unwrap()).collect();
    assert_eq!(removed, [SHOP]);

    let entry = entry(&service, id).await;
    for (table, count) in [
        ("orders", 3),
        ("customers", 1),
        ("tracking_numbers", 2),
        ("refunds", 3),
        ("payments", 4),
        ("checkout_sessions", 1),
        ("exports", 1),
        ("webhook_ids", 8),
        ("job_attempts", 1),
    ] {
        assert_eq!(entry.progress[table], count, "{table}");
    }
    let receipt = entry.receipt.unwrap();
    let receipt: Value = serde_json::from_str(receipt["receipt"].as_str().unwrap()).unwrap();
    assert_eq!(receipt["action"], "shop.erased");
    assert_eq!(receipt["counts"], entry.progress);
    let chain = audit::verify(service.db(), &service.parts.keys).await;
    assert!(chain.unwrap().broken.is_none());
    let audited = audit::list(service.db(), Some(&id.to_string()), 0, 10).await;
    let actions: Vec<String> = audited.unwrap().into_iter().map(|it| it.action).collect();
    assert_eq!(actions, ["request.received", "shop.erased"]);
    service.stop().await;
}

/// Orders of a shop with a parcel each, customers and events, without all that deliveries bring along.
async fn insert_many(service: &Service, orders: i64) {
    let numbers = format!(
        "with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < {orders})"
    );
    for insert in [
        "insert into orders (shop, id, listed_at, state, is_paid, record, created_at, updated_at)
         select 'shop.example', n, 1, 'initiated', 0, '{}', 1, 1 from numbers",
        "insert into tracking_numbers (number, shop, order_id)
         select 'T-1', 'shop.example', n from numbers",
        "insert into customers (shop, id, record, created_at, updated_at)
         select 'shop.example', n, '{}', 1, 1 from numbers",
    ] {
        service
            .execute(statement(format!("{numbers} {insert}")))
            .await;
    }
    let now = service.clock().now().0;
    let mut tx = service.db().begin().await.unwrap();
    let rows = (0..orders).map(|order| {
        [
            column("position", 1_000_000 + order),
            column("kind", "order.created"),
            column("shop", SHOP),
            column("object_id", "1"),
            column("body", "{}"),
            column("created_at", now),
        ]
    });
    tx.insert("events", rows.collect(), "").await.unwrap();
    tx.commit().await.unwrap();
}

const MANY: i64 = 1203;

#[tokio::test]
async fn an_erasure_that_fails_half_way_goes_on_where_it_was() {
    let service = at_once().start().await;
    insert_many(&service, MANY).await;
    service
        .execute("alter table customers rename to customers_elsewhere")
        .await;
    let id = redact(&service, &redaction(SHOP)).await;
    within(A_WHILE, "the run has failed", async || {
        entry(&service, id).await.attempts == 1
    })
    .await;
    let noted = entry(&service, id).await;
    assert_eq!(noted.progress["phase"], "orders");
    assert_eq!(noted.progress["counts"]["orders"], MANY);
    assert_eq!(
        service.count("select count(*) as n from orders").await,
        0,
        "what was done is done"
    );
    service
        .execute("alter table customers_elsewhere rename to customers")
        .await;
    service.clock().advance(Duration::from_mins(2));
    within(A_WHILE, "the shop is erased", async || {
        is_done(&service, id).await
    })
    .await;
    let counts = entry(&service, id).await.progress;
    for table in ["orders", "tracking_numbers", "customers", "events"] {
        assert_eq!(counts[table], MANY, "{table}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_long_erasure_goes_on_in_many_short_runs_and_none_of_them_is_a_failure() {
    let service = at_once().start().await;
    insert_many(&service, MANY).await;
    let id = redact(&service, &redaction(SHOP)).await;
    let defer = "select count(*) as n from jobs where last_error = 'a part is done; it goes on'";
    eventually("a run has ended early", async || {
        // Slowly, because a claim lasts for a time on this clock.
        pause(Duration::from_millis(80)).await;
        service.clock().advance(Duration::from_secs(4));
        service.count(defer).await == 1 || is_done(&service, id).await
    })
    .await;
    assert_eq!(service.count(defer).await, 1);
    assert_eq!(entry(&service, id).await.attempts, 0);
    within(A_WHILE, "the shop is erased", async || {
        is_done(&service, id).await
    })
    .await;
    let counts = entry(&service, id).await.progress;
    for table in ["orders", "tracking_numbers", "customers", "events"] {
        assert_eq!(counts[table], MANY, "{table}");
    }
    service.stop().await;
}

#[tokio::test]
async fn what_another_run_has_counted_is_not_written_over() {
    let service = at_once().start().await;
    insert_many(&service, MANY).await;
    let id = redact(&service, &redaction(SHOP)).await;
    eventually("some orders are erased", async || {
        entry(&service, id).await.progress["counts"]["orders"].as_i64() > Some(0)
    })
    .await;
    // As a run notes that has taken over, because the one before was believed to be dead.
    let mut tx = service.db().begin().await.unwrap();
    privacy_requests::state(&mut tx, id).await.unwrap();
    let noted = entry(&service, id).await.progress;
    let mut counted = noted.clone();
    counted["counts"]["orders"] = json!(noted["counts"]["orders"].as_i64().unwrap() + 1000);
    privacy_requests::note_progress(&mut tx, id, &counted)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let ended = "select count(*) as n from jobs where last_error = 'a part is done; it goes on'";
    eventually("the run before has gone on or ended", async || {
        service.count(ended).await == 1 || entry(&service, id).await.progress != counted
    })
    .await;
    within(A_WHILE, "the shop is erased", async || {
        is_done(&service, id).await
    })
    .await;
    assert_eq!(entry(&service, id).await.progress["orders"], MANY + 1000);
    service.stop().await;
}

#[tokio::test]
async fn a_record_that_cannot_be_read_stays_and_all_else_is_erased() {
    let service = at_once().start().await;
    for nth in [1, 2] {
        let agreement = format!("p{nth}");
        let link =
            json!({"metadata": {"pact_id": agreement}, "payment_intent": format!("pi_{nth}")});
        let session = session(&format!("cs_{nth}"), "paid", 3000, &link);
        let completed = event(&service, "checkout.session.completed", nth, &session);
        deliver(&service, &completed).await;
        let order = with(body(nth, 1, "pending"), &naming_agreement(&agreement));
        deliver(
            &service,
            &order_delivery("orders/create", &order).id(&agreement),
        )
        .await;
    }
    let db = service.db();
    let (_, placeholder) = checkout_key("p1");
    let damaged = format!("orders where shop = 'checkout' and id = {placeholder}");
    let whole = records::texts(db, &damaged).await.remove(0);
    let sessions = "checkout_sessions where id = 'cs_2'";
    let session = records::texts(db, sessions).await.remove(0);
    for rows in [&*damaged, sessions] {
        records::edit(db, rows, |_| "{}}".to_owned()).await;
    }
    let id = redact(&service, &redaction(SHOP)).await;
    within(A_WHILE, "the erasure has failed", async || {
        entry(&service, id).await.state == "failed"
    })
    .await;
    let left = held(&service, SHOP).await;
    let left = left
        .iter()
        .filter(|(table, rows)| **rows > 0 && !EVIDENCE.contains(&table.as_str()));
    // The job that failed, and the session that cannot be read.
    let left: Vec<&String> = left.map(|(table, _)| table).collect();
    assert_eq!(left, ["checkout_sessions", "deliveries", "events", "jobs"]);
    assert_eq!(
        service
            .count("select count(*) as n from events where shop = 'shop.example'")
            .await,
        1
    );
    assert_eq!(records::texts(db, &damaged).await, ["{}}"]);
    let others =
        "select count(*) as n from orders where shop = 'checkout' and email_key is not null";
    assert_eq!(
        service.count(others).await,
        1,
        "that of the other agreement"
    );
    let dead = jobs::show(db, id).await.unwrap().unwrap();
    let why = dead.last_error.unwrap();
    assert!(
        why.contains("the record of cs_2 in checkout_sessions cannot be read"),
        "{why}"
    );

    records::edit(db, &damaged, |_| whole.clone()).await;
    records::edit(db, sessions, |_| session.clone()).await;
    let by = By {
        keys: &service.parts.keys,
        actor: "ann",
        now: service.clock().now(),
    };
    privacy_requests::retry(db, by, id).await.unwrap();
    within(A_WHILE, "the shop is erased", async || {
        is_done(&service, id).await
    })
    .await;
    assert_eq!(service.count(others).await, 0);
    assert_eq!(entry(&service, id).await.progress["checkout_sessions"], 2);
    let shops = "select count(*) as n from checkout_sessions where shop is not null";
    assert_eq!(service.count(shops).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn the_erasure_of_a_shop_that_is_in_use_waits_and_takes_nothing_that_came_after_the_request()
{
    let service = service().manual_clock().start().await;
    let made = |id: i64, second: u32| {
        let made = json!({"created_at": service.clock().now()});
        order_delivery("orders/create", &with(body(id, second, "paid"), &made))
    };
    for shop in [SHOP, OTHER] {
        deliver(&service, &made(1, 1).of_shop(shop).id(shop)).await;
    }
    service.clock().advance(Duration::from_hours(20));
    let ids = [
        posted(&service, &redaction(SHOP)).await,
        posted(&service, &redaction(OTHER)).await,
    ];
    let look = Worker::new(service.parts.clone(), Queue::Privacy, 1);
    look.send_deadline_notices().await.unwrap();
    let reported = async || {
        let rows = service
            .db()
            .query("select body from events where kind = 'privacy.request_held' order by position")
            .fetch_all();
        let rows = rows.await.unwrap();
        let bodies = rows.iter().map(|row| row.get::<String>("body").unwrap());
        let at = |body: String| serde_json::from_str::<Value>(&body).unwrap()["begins_at"].clone();
        bodies.map(at).collect::<Vec<_>>()
    };
    let hour = json!(service.clock().now().plus(Duration::from_hours(1)));
    assert_eq!(reported().await, [hour.clone(), hour]);
    service.clock().advance(Duration::from_secs(1));
    post_all(&service, &[made(2, 1).id("second")]).await;
    service.drained().await;
    service.clock().advance(Duration::from_hours(1));
    for id in ids {
        eventually("it is seen that the shop is in use", async || {
            entry(&service, id).await.living_at.is_some()
        })
        .await;
    }
    let held = entry(&service, ids[0]).await;
    let begins = held.due_at.minus(Duration::from_hours(48));
    assert_eq!((&*held.state, held.held_until), ("held", Some(begins)));
    look.send_deadline_notices().await.unwrap();
    assert_eq!(reported().await[2..], [json!(begins), json!(begins)]);

    let by = By {
        keys: &service.parts.keys,
        actor: "operator",
        now: service.clock().now(),
    };
    let hold = Duration::from_hours(1);
    privacy_requests::confirm(service.db(), by, ids[1], hold)
        .await
        .unwrap();
    eventually("the confirmed one is done", async || {
        is_done(&service, ids[1]).await
    })
    .await;
    service
        .clock()
        .advance(begins.since(service.clock().now().plus(Duration::from_millis(1))));
    let orders = async || {
        let orders = service
            .db()
            .query("select shop, id from orders order by shop, id");
        let orders = orders.fetch_all().await.unwrap();
        let key = |row: &Row| (row.get("shop").unwrap(), row.get("id").unwrap());
        orders.iter().map(key).collect::<Vec<(String, i64)>>()
    };
    assert_eq!(orders().await, [(SHOP.to_owned(), 1), (SHOP.to_owned(), 2)]);
    service.clock().advance(Duration::from_millis(1));
    eventually("nobody has decided", async || {
        is_done(&service, ids[0]).await
    })
    .await;
    assert_eq!(orders().await, [(SHOP.to_owned(), 2)]);
    let left = self::held(&service, SHOP).await;
    for (table, rows) in [("customers", 1), ("orders", 1)] {
        assert_eq!(left[table], rows, "{table}");
    }
    let delivered =
        "select count(*) as n from deliveries where shop = 'shop.example' and object_id";
    for (object, left) in [("1", 0), ("2", 1)] {
        let of = statement(format!(
            "{delivered} = '{object}' and source = 'storefront'"
        ));
        assert_eq!(
            service.count(of).await,
            left,
            "deliveries of order {object}"
        );
    }
    for id in [1, 2] {
        let update = with(body(id, 9, "paid"), &json!({"name": "new"}));
        let update = match id {
            1 => update,
            _ => with(
                update,
                &json!({"created_at": held.received_at.plus(Duration::from_secs(1))}),
            ),
        };
        deliver(
            &service,
            &order_delivery("orders/updated", &update).id(&format!("later {id}")),
        )
        .await;
    }
    let updated = "select count(*) as n from orders where name = 'new'";
    assert_eq!(service.count(updated).await, 1);
    service.stop().await;
}

#[tokio::test]
async fn an_erasure_waits_for_an_hour_and_one_after_it_keeps_its_own_job() {
    let service = service().manual_clock().start().await;
    let order = order_delivery("orders/create", &body(1, 1, "paid"));
    deliver(&service, &order).await;
    service.clock().advance(Duration::from_hours(49));
    let first = redact(&service, &redaction(SHOP)).await;
    service.clock().advance(Duration::from_mins(30));
    let second = redact(&service, &redaction(SHOP)).await;
    service.clock().advance(Duration::from_mins(29));
    // The sweep has looked at all that is due by now when it has found this one.
    let beside = order_delivery("orders/create", &body(1, 1, "paid")).of_shop(OTHER);
    post_all(&service, &[beside]).await;
    service.drained().await;
    for id in [first, second] {
        assert_eq!(entry(&service, id).await.state, "held");
    }
    let orders = "select count(*) as n from orders where shop = 'shop.example'";
    assert_eq!(service.count(orders).await, 1);

    service.clock().advance(Duration::from_mins(1));
    eventually("the first is done", async || is_done(&service, first).await).await;
    assert_eq!(service.count(orders).await, 0);
    let waiting = entry(&service, second).await;
    assert_eq!((&*waiting.state, waiting.held_until), ("held", None));
    assert_eq!(waiting.repeats, Some(first));
    assert!(waiting.next_run_at.is_some(), "its job is there");
    let by = By {
        keys: &service.parts.keys,
        actor: "operator",
        now: service.clock().now(),
    };
    let hold = Duration::from_hours(1);
    privacy_requests::confirm(service.db(), by, second, hold)
        .await
        .unwrap();
    let reported = entry(&service, second).await.held_until;
    assert_eq!(reported, Some(waiting.received_at.plus(hold)));
    service.clock().advance(Duration::from_mins(30));
    eventually("the second is done", async || {
        is_done(&service, second).await
    })
    .await;
    service.stop().await;
}

#[tokio::test]
async fn an_erasure_that_was_cancelled_in_time_erases_nothing() {
    let service = service().manual_clock().start().await;
    deliver(
        &service,
        &order_delivery("orders/create", &body(1, 1, "paid")),
    )
    .await;
    let id = redact(&service, &redaction(SHOP)).await;
    let mut tx = service.db().begin().await.unwrap();
    let (held, cancelled) = (RequestState::Held, RequestState::Cancelled);
    let now = service.clock().now();
    let was_held = privacy_requests::set_state(&mut tx, id, &[held], cancelled, now).await;
    assert!(was_held.unwrap());
    tx.commit().await.unwrap();
    service.clock().advance(Duration::from_hours(1));
    eventually("its job has ended", async || {
        let ready = jobs::count(service.db(), Queue::Privacy, State::Ready).await;
        ready.unwrap() == 0
    })
    .await;
    assert_eq!(entry(&service, id).await.state, "cancelled");
    assert_eq!(service.count("select count(*) as n from orders").await, 1);
    assert_eq!(
        service.count("select count(*) as n from tombstones").await,
        0
    );
    service.stop().await;
}

#[tokio::test]
async fn while_a_shop_is_erased_the_deliveries_of_others_are_worked_on() {
    let service = at_once().start().await;
    insert_many(&service, MANY).await;
    let others: Vec<Delivery> = (1..=60)
        .map(|id| {
            let body = with(body(id, 1, "paid"), &json!({"updated_at": at(1)}));
            order_delivery("orders/create", &body).of_shop(OTHER)
        })
        .collect();
    let id = redact(&service, &redaction(SHOP)).await;
    post_all(&service, &others).await;
    within(A_WHILE, "the shop is erased", async || {
        // A run that a deadlock ended is due again after a pause. Slowly, because a claim lasts for a time on this clock.
        pause(Duration::from_millis(80)).await;
        service.clock().advance(Duration::from_secs(1));
        is_done(&service, id).await
    })
    .await;
    service.drained().await;
    assert_eq!(held(&service, SHOP).await["orders"], 0);
    let held = held(&service, OTHER).await;
    assert_eq!(held["orders"], 60);
    assert_eq!(service.jobs(State::Dead).await, 0);
    service.stop().await;
}
