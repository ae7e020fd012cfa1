//! A storm of orders, payments and privacy requests to real processes, which are killed one after
//! the other. No personal data is left anywhere of people who were erased before, during or after
//! their deliveries, and the data of all others is complete.
//!
//! In the embedded half the one process with its ingress is killed; in the distributed half the
//! workers are killed in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use platform::clock::Clock;
use platform::token::Token;
use sandbox::{Delivery, Poster, Webhooks, storm};
use serde_json::{Value, json};
use store::sql::{Db, Row};
use store::{audit, ledger, privacy_keys};
use tempfile::TempDir;

use crate::support::backend::{Backend, PRIVACY_KEY, environment, is_distributed};
use crate::support::canary::{
    Found, Gaps, address, billing_details, broker_folder, compress_nothing, email, phone, scan,
    scan_database, scan_database_files, scan_files, spaced_phone, word,
};
use crate::support::job;
use crate::support::order::{self, fulfilment, with};
use crate::support::process::{Process, free_port, is_ready, settings};
use crate::support::storm::{Kills, LONGEST_TAIL, count};
use crate::support::{PAYMENT_SECRET, STOREFRONT_SECRET, pause, within};

/// The time of an order's version: before any redaction, because an address says nothing of
/// orders that are made after it was erased.
fn at(second: u32) -> String {
    order::at(second).replacen("2027", "2025", 1)
}

/// Customers; a hundred have every fate that there is. `STORM_PEOPLE=1000` makes a storm of three
/// minutes and more.
fn people() -> usize {
    let given = environment("STORM_PEOPLE");
    let given = given.map(|text| text.parse().expect("STORM_PEOPLE is a number"));
    let people: usize = given.unwrap_or(100);
    assert!(
        people > 0 && people.is_multiple_of(100),
        "hundreds, so that every fate is among them"
    );
    people
}
const SHOP: &str = "shop.example";
const BETWEEN_KILLS: Duration = Duration::from_secs(2);
/// Then all may end.
const MOST_KILLS: usize = 15;
/// Within this time after an erasure the database's files are cleared of what it erased.
const CLEARED: Duration = Duration::from_mins(4);
const BETWEEN_LOOKS: Duration = Duration::from_secs(3);
/// How long the jobs of the stuck orders fail.
const STUCK_FOR: Duration = Duration::from_secs(5);

/// Jobs that something is to be done about now. Links and deferred retries are not.
const READY: &str = "select count(*) as n from jobs
    where state = 'ready' and not (kind in ('payments/link', 'payments/retry', 'payments/end_wait')
      and attempts = 0 and unfinished_attempts = 0 and last_error is null)";

/// One of the customers, by number. What becomes of them is decided by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Person(usize);

/// What a redaction names a person by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Fully,
    ById,
    ByEmail,
    ByPhone,
    WithOrders,
}

impl Person {
    fn all() -> impl Iterator<Item = Person> {
        (0..people()).map(Person)
    }

    fn is_redacted(self) -> bool {
        self.0.is_multiple_of(2)
    }

    /// Among those of the same fate: even ones are redacted, odd ones are not.
    fn place(self) -> usize {
        self.0 / 2
    }

    fn named(self) -> Named {
        match self.place() % 5 {
            0 => Named::Fully,
            1 => Named::ById,
            2 => Named::ByEmail,
            3 => Named::ByPhone,
            _ => Named::WithOrders,
        }
    }

    /// An address alone leads to orders without a customer.
    fn is_guest(self) -> bool {
        self.named() == Named::ByEmail
    }

    /// An export of theirs is there before the redaction: one of ten, named in every way.
    fn is_asked_about(self) -> bool {
        self.is_redacted() && self.place() % 10 == (self.place() / 10) % 5
    }

    /// The redaction comes before anything else of theirs: one of ten, named in every way.
    fn is_early(self) -> bool {
        self.is_redacted() && self.place() % 10 == 5 + (self.place() / 10) % 5
    }

    /// Their order is not taken by the database for a while.
    fn is_stuck(self) -> bool {
        self.0.is_multiple_of(9) && !self.is_asked_about()
    }

    fn has_unreadable_order(self) -> bool {
        self.0.is_multiple_of(7)
    }

    fn has_unreadable_payment(self) -> bool {
        self.0.is_multiple_of(11)
    }

    fn is_cancelled(self) -> bool {
        self.0 % 3 == 1
    }

    fn has_session(self) -> bool {
        self.place().is_multiple_of(4)
    }

    fn has_invoice(self) -> bool {
        self.place() % 4 == 2
    }

    fn id(self) -> i64 {
        7_000_000 + self.number()
    }

    fn order_id(self) -> i64 {
        5_000_000 + self.number()
    }

    fn number(self) -> i64 {
        i64::try_from(self.0).unwrap()
    }

    fn agreement(self) -> String {
        format!("pact-{}", self.0)
    }

    fn payment(self) -> String {
        format!("pi_{}", self.0)
    }

    fn session(self) -> String {
        format!("cs_{}", self.0)
    }

    fn word(self, field: &str) -> String {
        word(self.0, field)
    }

    fn email(self) -> String {
        email(self.0)
    }

    fn phone(self) -> String {
        phone(self.0)
    }

    /// The order as of a second of its life, a canary in every personal field.
    fn order(self, second: u32, financial: &str) -> Value {
        let order = self.registered_order(second, financial);
        if self.is_guest() {
            return with(order, &json!({"customer": null}));
        }
        order
    }

    fn registered_order(self, second: u32, financial: &str) -> Value {
        let is_open = financial == "pending";
        let name = if self.is_stuck() { "#stuck" } else { "#1" };
        json!({
            "id": self.order_id(), "name": name,
            "created_at": at(0), "updated_at": at(second),
            "currency": "USD", "total_price": "30.00", "subtotal_price": "28.00", "total_tax": "2.00",
            "total_outstanding": if is_open { "30.00" } else { "0.00" },
            "financial_status": financial, "fulfillment_status": null,
            "cancelled_at": null, "cancel_reason": null,
            "line_items": [
                {"id": 1, "variant_id": 101, "title": "Mug", "quantity": 2, "price": "10.00", "sku": "MUG",
                 "properties": [{"name": "engraving", "value": self.word("engraving")}]},
                {"id": 2, "variant_id": null, "title": "Apron", "quantity": 1, "price": "8.00", "sku": null,
                 "properties": [{"name": "for", "value": self.word("for")}]},
            ],
            "email": self.email(), "contact_email": self.email(), "phone": self.phone(),
            "customer": {
                "id": self.id(), "email": self.email(), "phone": self.phone(),
                "first_name": self.word("first"), "last_name": self.word("last"),
                "note": self.word("customer-note"), "tags": self.word("customer-tags"),
                "default_address": address(self.0, "home"),
            },
            "shipping_address": address(self.0, "shipping"),
            "billing_address": address(self.0, "billing"),
            "note": self.word("note"), "tags": self.word("tags"),
            "note_attributes": [
                {"name": "pact_id", "value": self.agreement()},
                {"name": "gift", "value": self.word("gift")},
            ],
            "browser_ip": self.word("ip"),
            "client_details": {
                "browser_ip": self.word("client-ip"), "user_agent": self.word("agent"),
                "session_hash": self.word("session"), "accept_language": self.word("language"),
            },
            "landing_site": format!("/?from={}", self.word("landing")),
            "referring_site": format!("https://example.com/{}", self.word("referrer")),
            "order_status_url": format!("https://example.com/{}", self.word("status")),
            "source_identifier": self.word("source"), "checkout_token": self.word("checkout"),
            "cart_token": self.word("cart"), "customer_locale": self.word("locale"),
            "payment_details": {"credit_card_name": self.word("card")},
            "shipping_lines": [{"id": 3, "title": "Post", "price": "0.00", "phone": self.phone()}],
            "fulfillments": [], "refunds": [],
        })
    }

    /// Its last version.
    fn last_order(self) -> (&'static str, Value) {
        if self.is_cancelled() {
            let gone = json!({"cancelled_at": at(4), "cancel_reason": "customer"});
            return ("orders/cancelled", with(self.order(4, "refunded"), &gone));
        }
        if self.0.is_multiple_of(3) {
            let mut shipped = fulfilment(70, &["T-1"], &[(1, 2), (2, 1)]);
            shipped["destination"] = address(self.0, "destination");
            shipped["receipt"] = json!({"signed_by": self.word("signed")});
            let shipped = json!({"fulfillment_status": "fulfilled", "fulfillments": [shipped]});
            return ("orders/fulfilled", with(self.order(4, "paid"), &shipped));
        }
        ("orders/updated", self.order(4, "paid"))
    }

    /// Topics and bodies of the storefront.
    fn orders(self) -> Vec<(&'static str, Value)> {
        let mut life = vec![
            ("orders/create", self.order(1, "pending")),
            ("orders/paid", self.order(2, "paid")),
            ("orders/updated", self.order(3, "paid")),
            self.last_order(),
        ];
        if self.has_unreadable_order() {
            let lines = json!({"order_id": 7, "line_items": self.word("not-a-list")});
            life.push(("orders/updated", with(self.order(5, "paid"), &lines)));
        }
        life
    }

    fn intent(self, status: &str) -> Value {
        let received = if status == "succeeded" { 3000 } else { 0 };
        json!({
            "id": self.payment(), "object": "payment_intent", "amount": 3000,
            "amount_received": received, "currency": "usd", "status": status,
            "customer": format!("cus_{}", self.0), "receipt_email": self.email(),
            "description": self.word("description"),
            "statement_descriptor": self.word("statement"),
            "shipping": billing_details(self.0),
            "metadata": {"pact_id": self.agreement(), "remark": self.word("remark")},
        })
    }

    fn declined(self) -> Value {
        let mut intent = self.intent("requires_payment_method");
        intent["last_payment_error"] = json!({
            "type": "card_error", "code": "card_declined", "decline_code": "insufficient_funds",
            "charge": format!("ch_{}_1", self.0), "message": self.word("declined"),
            "payment_method": {
                "id": "pm_1", "object": "payment_method", "billing_details": billing_details(self.0),
            },
        });
        intent
    }

    fn refunded_charge(self) -> Value {
        json!({
            "id": format!("ch_{}", self.0), "object": "charge", "payment_intent": self.payment(),
            "amount": 3000, "amount_captured": 3000, "amount_refunded": 3000, "captured": true,
            "refunded": true, "currency": "usd", "customer": format!("cus_{}", self.0),
            "metadata": {"pact_id": self.agreement(), "remark": self.word("charge-remark")},
            "billing_details": billing_details(self.0), "shipping": billing_details(self.0),
            "receipt_email": self.email(), "description": self.word("charge"),
            "receipt_url": format!("https://example.com/{}", self.word("receipt")),
        })
    }

    fn checkout(self) -> Value {
        json!({
            "id": self.session(), "object": "checkout.session", "mode": "payment",
            "status": "complete", "payment_status": "paid", "amount_total": 3000,
            "currency": "usd", "payment_intent": self.payment(),
            "customer": format!("cus_{}", self.0), "customer_email": self.email(),
            "customer_details": billing_details(self.0), "shipping_details": billing_details(self.0),
            "metadata": {"pact_id": self.agreement(), "remark": self.word("session-remark")},
            "custom_fields": [{"key": "engraving", "text": {"value": self.word("custom")}}],
        })
    }

    fn invoice(self) -> Value {
        let details = billing_details(self.0);
        json!({
            "id": format!("in_{}", self.0), "object": "invoice", "status": "paid",
            "amount_paid": 500, "total": 500, "currency": "usd",
            "customer": format!("cus_{}", self.0), "customer_email": self.email(),
            "customer_name": details["name"], "customer_phone": details["phone"],
            "customer_address": details["address"], "customer_shipping": details,
            "description": self.word("invoice"), "footer": self.word("footer"),
            "metadata": {"remark": self.word("invoice-remark")},
            "parent": {"type": "subscription_details", "subscription_details": {
                "subscription": format!("sub_{}", self.0), "metadata": {"pact_id": self.agreement()},
            }},
            "lines": {"object": "list", "data": [{
                "id": "il_1", "amount": 500, "description": self.word("line"),
                "period": {"start": 1_799_000_000, "end": 1_801_000_000},
            }]},
        })
    }

    /// Types and objects of the payment provider.
    fn payments(self) -> Vec<(&'static str, Value)> {
        let mut life = vec![("payment_intent.succeeded", self.intent("succeeded"))];
        if self.place().is_multiple_of(3) {
            life.push(("payment_intent.payment_failed", self.declined()));
        }
        if self.is_cancelled() {
            life.push(("charge.refunded", self.refunded_charge()));
        }
        if self.has_session() {
            life.push(("checkout.session.completed", self.checkout()));
        }
        if self.has_invoice() {
            life.push(("invoice.payment_succeeded", self.invoice()));
        }
        if self.has_unreadable_payment() {
            let amount = json!({"amount": self.word("not-an-amount")});
            let spoilt = with(self.intent("processing"), &amount);
            life.push(("payment_intent.succeeded", spoilt));
        }
        life
    }

    /// Everything of theirs, each under an id that `round` tells from other rounds'.
    fn deliveries(self, clock: &Clock, round: &str) -> Vec<Delivery> {
        let orders = self.orders().into_iter().enumerate();
        let orders = orders.map(|(nth, (topic, body))| {
            let id = format!("w-{}-{nth}-{round}", self.0);
            Delivery::storefront(topic, &id, SHOP, body.to_string())
        });
        let payments = self.payments().into_iter().enumerate();
        let payments = payments.map(|(nth, (kind, object))| {
            let id = format!("evt_{}_{nth}_{round}", self.0);
            let body = json!({
                "id": id, "object": "event", "api_version": "2026-10-28.endive",
                "created": clock.now().unix_seconds() - 1000 + i64::try_from(nth).unwrap(),
                "type": kind, "data": {"object": object},
            });
            Delivery::payment(kind, &id, body.to_string())
        });
        orders.chain(payments).collect()
    }

    fn customer(self, named: Named) -> Value {
        match named {
            Named::Fully | Named::WithOrders => {
                json!({"id": self.id(), "email": self.email(), "phone": spaced_phone(self.0)})
            }
            Named::ById => json!({"id": self.id()}),
            Named::ByEmail => json!({"email": self.email().to_uppercase(), "phone": null}),
            Named::ByPhone => json!({"id": self.id(), "phone": spaced_phone(self.0)}),
        }
    }

    fn redaction(self) -> Delivery {
        let named = self.named();
        let orders = match named {
            Named::WithOrders => vec![self.order_id()],
            _ => Vec::new(),
        };
        let body = json!({
            "shop_id": 1, "shop_domain": SHOP, "customer": self.customer(named),
            "orders_to_redact": orders,
        });
        let id = format!("redact-{}", self.0);
        Delivery::storefront("customers/redact", &id, SHOP, body.to_string())
    }

    fn data_request(self) -> Delivery {
        let body = json!({
            "shop_id": 1, "shop_domain": SHOP, "customer": self.customer(self.named()),
            "orders_requested": [], "data_request": {"id": self.number()},
        });
        let id = format!("request-{}", self.0);
        Delivery::storefront("customers/data_request", &id, SHOP, body.to_string())
    }
}

/// The processes of a product, and every place where one might leave something.
struct Product {
    backend: Backend,
    folder: TempDir,
    settings: Vec<(String, String)>,
    port: u16,
    db: Db,
    clock: Clock,
    poster: Poster,
    ingress: Option<Process>,
    workers: Vec<(Program, Process)>,
}

/// A binary and its arguments.
type Program = (&'static str, &'static [&'static str]);

impl Product {
    /// Ingress alone.
    async fn start() -> Self {
        let backend = Backend::create().await;
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let mut settings = settings(&backend, port);
        settings.retain(|(name, _)| name != "RUST_LOG");
        let exports = format!("file://{}", folder.path().join("exports").display());
        for (name, value) in [
            ("RUST_LOG", "trace"),
            ("LOG_FORMAT", "json"),
            ("PRIVACY_EXPORT_URL", &exports),
        ] {
            settings.push((name.to_owned(), value.to_owned()));
        }
        let webhooks = Webhooks {
            base_url: format!("http://127.0.0.1:{port}"),
            storefront_secret: STOREFRONT_SECRET.to_owned(),
            payment_secret: PAYMENT_SECRET.to_owned(),
            shop: String::new(),
        };
        let clock = Clock::system();
        let log = folder.path().join("log");
        let ingress = Process::start_logged("waybill-ingress", &[], &settings, &log);
        is_ready(port).await;
        compress_nothing(&backend).await;
        Product {
            db: Db::open(&backend.database_url, 2).await.unwrap(),
            poster: Poster::new(webhooks, clock.clone()).unwrap(),
            ingress: Some(ingress),
            workers: Vec::new(),
            backend,
            folder,
            settings,
            port,
            clock,
        }
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn exports(&self) -> PathBuf {
        self.folder.path().join("exports")
    }

    /// Embedded, one process is all, so the ingress of before makes room for it.
    async fn start_workers(&mut self) {
        let programs: &[Program] = if is_distributed() {
            &[
                ("waybill-orders", &[]),
                ("waybill-orders", &[]),
                ("waybill-payments", &[]),
                ("waybill-privacy", &[]),
            ]
        } else {
            self.ingress = None;
            &[("waybill", &["serve"])]
        };
        for program in programs {
            let process = self.started(*program);
            self.workers.push((*program, process));
        }
        is_ready(self.port).await;
    }

    fn started(&self, (name, arguments): Program) -> Process {
        Process::start_logged(name, arguments, &self.settings, &self.log())
    }

    /// Kills one after the other, and starts it again, until it is told that it is enough.
    async fn kill_until_over(&self, workers: &mut [(Program, Process)], kills: &Kills) {
        loop {
            pause(BETWEEN_KILLS).await;
            if kills.is_over() {
                return;
            }
            if kills.count() == MOST_KILLS {
                continue;
            }
            let turn = kills.count() % workers.len();
            let (program, process) = &mut workers[turn];
            process.kill();
            *process = self.started(*program);
            kills.add();
        }
    }

    async fn post(&self, deliveries: &[Delivery]) {
        let report = self.poster.post_all(deliveries, 64, |_| {}).await;
        assert_eq!((report.refused, report.given_up), (0, 0), "{report:?}");
    }

    async fn count(&self, sql: &'static str) -> i64 {
        count(&self.db, sql).await
    }

    async fn execute(&self, sql: &'static str) {
        let mut tx = self.db.begin().await.unwrap();
        tx.query(sql).execute().await.unwrap();
        tx.commit().await.unwrap();
    }

    /// The database takes no order of this name.
    async fn refuse_stuck_orders(&self) {
        if is_distributed() {
            self.execute(
                "create function refuse() returns trigger language plpgsql as
                 'begin raise exception ''stuck''; end'",
            )
            .await;
            self.execute(
                "create trigger stuck before insert on orders for each row
                 when (new.name = '#stuck') execute function refuse()",
            )
            .await;
        } else {
            self.execute(
                "create trigger stuck before insert on orders for each row
                 when new.name = '#stuck' begin select raise(abort, 'stuck'); end",
            )
            .await;
        }
    }

    async fn take_stuck_orders(&self) {
        if is_distributed() {
            self.execute("drop trigger stuck on orders").await;
        } else {
            self.execute("drop trigger stuck").await;
        }
    }

    async fn drained(&self) {
        let drained = tokio::time::timeout(2 * LONGEST_TAIL, async {
            while self.count(READY).await > 0 {
                pause(Duration::from_millis(50)).await;
            }
        });
        let is_drained = drained.await.is_ok();
        let waiting = self.waiting().await;
        assert!(is_drained, "not worked on in time: {waiting:#?}");
    }

    /// Kinds of jobs that are ready, with their last errors and how many there are.
    async fn waiting(&self) -> Vec<(String, String, i64)> {
        let rows = self.db.query(
            "select kind, coalesce(last_error, '') as error, count(*) as n from jobs
             where state = 'ready' group by kind, coalesce(last_error, '')",
        );
        let rows = rows.fetch_all().await.unwrap();
        let of = |row: &Row| {
            (
                row.get("kind").unwrap(),
                row.get("error").unwrap(),
                row.get("n").unwrap(),
            )
        };
        rows.iter().map(of).collect()
    }

    /// Whoever is found in the database.
    async fn in_database(&self) -> Found {
        let mut found = Found::new();
        scan_database(&self.backend, &mut found).await;
        found
    }

    /// Whoever is found in the database's own files, as they lie.
    async fn in_database_files(&self, gaps: Gaps) -> Found {
        let mut found = Found::new();
        scan_database_files(&self.backend, gaps, &mut found).await;
        found
    }

    fn in_files(path: &Path) -> Found {
        let mut found = Found::new();
        scan_files(path, &mut found);
        found
    }

    /// Whoever is found anywhere.
    async fn everywhere(&self) -> Found {
        let mut found = self.in_database().await;
        scan_files(self.folder.path(), &mut found);
        let url = format!("http://127.0.0.1:{}/metrics", self.port);
        let metrics = reqwest::get(url).await.unwrap().bytes().await.unwrap();
        assert!(metrics.starts_with(b"# "), "metrics are served");
        scan("metrics", &metrics, &mut found);
        if is_distributed() {
            self.scan_broker(&mut found);
        }
        found
    }

    fn scan_broker(&self, found: &mut Found) {
        let Some(folder) = broker_folder() else {
            eprintln!("the broker keeps its data elsewhere: not searched");
            return;
        };
        let files = crate::support::canary::files(&folder);
        let is_ours = files.iter().any(|file| {
            let bytes = std::fs::read(file).unwrap_or_default();
            let name = self.backend.name.as_bytes();
            bytes.windows(name.len()).any(|window| window == name)
        });
        assert!(is_ours, "{} is our broker's", folder.display());
        scan_files(&folder, found);
    }
}

fn numbers(found: &Found) -> BTreeSet<usize> {
    found.keys().copied().collect()
}

fn who(people: impl Fn(Person) -> bool) -> BTreeSet<usize> {
    let people = Person::all().filter(|person| people(*person));
    people.map(|person| person.0).collect()
}

/// Nobody who was redacted is among them.
fn no_redacted(found: &Found) {
    let redacted = found
        .iter()
        .filter(|(person, _)| Person(**person).is_redacted());
    let left: Vec<_> = redacted.collect();
    let sample = &left[..left.len().min(10)];
    assert!(left.is_empty(), "{} people, as {sample:#?}", left.len());
}

/// Half of it under ids that come once, the rest up to twice; in an order of its own.
fn repeated(deliveries: Vec<Delivery>, seed: u64) -> Vec<Delivery> {
    let mut all = Vec::new();
    for (nth, delivery) in deliveries.into_iter().enumerate() {
        if nth % 2 == 0 {
            all.push(delivery.clone());
        }
        all.push(delivery);
    }
    storm::shuffle(&mut all, seed);
    all
}

/// Customers whose order is in the database, by the order's id.
async fn known(product: &Product) -> BTreeSet<usize> {
    let rows = product.db.query("select id from orders where shop = $1");
    let rows = rows.bind(SHOP).fetch_all().await.unwrap();
    let ids = rows.iter().map(|row| row.get::<i64>("id").unwrap());
    ids.map(|id| usize::try_from(id - 5_000_000).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_no_canary_of_a_redacted_customer_is_left_anywhere_after_a_storm() {
    let mut product = Product::start().await;
    product.refuse_stuck_orders().await;

    // Ready jobs, of which no worker knows yet: all of those who will be asked about, a third
    // of the rest, and the redactions that come before anything else.
    let clock = product.clock.clone();
    let (mut now, mut later) = (Vec::new(), Vec::new());
    for person in Person::all() {
        for (nth, delivery) in person.deliveries(&clock, "a").into_iter().enumerate() {
            let is_now = person.is_asked_about() && nth < 3;
            let is_now = is_now || (!person.is_early() && (person.0 + nth) % 3 == 0);
            if is_now { &mut now } else { &mut later }.push(delivery);
        }
    }
    let sent = who(|person| !person.is_early());
    product.post(&repeated(now, 1)).await;
    let early: Vec<Delivery> = Person::all()
        .filter(|person| person.is_early())
        .map(Person::redaction)
        .collect();
    // The search finds everybody in the bodies of their jobs, and nobody else.
    assert_eq!(numbers(&product.in_database().await), sent);
    product.post(&early).await;

    product.start_workers().await;
    let taken = "select count(*) as n from jobs join deliveries on deliveries.id = jobs.id
                 where state = 'ready' and queue <> 'privacy' and attempts = 0 and source <> 'internal'";
    within(LONGEST_TAIL, "what was ready is done", async || {
        product.count(taken).await == 0
    })
    .await;
    let retried = "select count(*) as n from jobs where state = 'ready' and attempts > 0";
    assert!(product.count(retried).await > 0, "stuck orders are retried");
    let dead = "select count(*) as n from jobs where state = 'dead'";
    assert!(product.count(dead).await > 0, "unreadable bodies are dead");

    // Exports of some of those who will be redacted, and of nobody else in them.
    let asked = who(Person::is_asked_about);
    assert_eq!(asked.len(), people() / 20);
    let requests = asked.iter().map(|person| Person(*person).data_request());
    product.post(&requests.collect::<Vec<_>>()).await;
    let exported = "select count(*) as n from privacy_requests
                    where topic = 'customers/data_request' and state = 'done' and export_sha256 is not null";
    within(LONGEST_TAIL, "exports are written", async || {
        product.count(exported).await == i64::try_from(asked.len()).unwrap()
    })
    .await;
    assert_eq!(numbers(&Product::in_files(&product.exports())), asked);

    // The rest, with the redactions amid it, while one process after the other is killed.
    let known = known(&product).await;
    let late_redactions: Vec<Person> = Person::all()
        .filter(|person| person.is_redacted() && !person.is_early())
        .collect();
    let mut rest = repeated(later, 2);
    rest.extend(late_redactions.iter().map(|person| person.redaction()));
    storm::shuffle(&mut rest, 3);
    let kills = Kills::default();
    let mut workers = std::mem::take(&mut product.workers);
    let processes = workers.len();
    let storm = async {
        let taken = async {
            pause(STUCK_FOR).await;
            product.take_stuck_orders().await;
        };
        let posted = kills.post(&product.poster, &rest, processes);
        let (report, ()) = tokio::join!(posted, taken);
        assert_eq!((report.refused, report.given_up), (0, 0), "{report:?}");
        product.drained().await;
        kills.end();
    };
    tokio::join!(storm, product.kill_until_over(&mut workers, &kills));
    let kills = kills.count();
    product.workers = workers;
    assert!(kills >= processes, "each was killed: {kills} kills");
    eprintln!("{} deliveries amid {kills} kills", rest.len());

    // Everything once more under new ids, after all that was drained.
    is_ready(product.port).await;
    let again = Person::all().filter(|person| person.is_redacted() || person.0 % 10 == 1);
    let mut again: Vec<Delivery> = again
        .flat_map(|person| person.deliveries(&clock, "b"))
        .collect();
    storm::shuffle(&mut again, 4);
    product.post(&again).await;
    product.drained().await;

    no_redacted(&product.everywhere().await);
    // The files as they lie, while they are in use: the product clears a server's by itself, and rewrites
    // a file when it is quiet.
    product.db.rewrite_file().await.unwrap();
    let is_redacted = |person: &usize| Person(*person).is_redacted();
    let cleared = tokio::time::timeout(CLEARED, async {
        let look = || product.in_database_files(Gaps::ThatRowsFitIn);
        while look().await.keys().any(is_redacted) {
            pause(BETWEEN_LOOKS).await;
        }
    });
    let is_cleared = cleared.await.is_ok();
    let found = product.in_database_files(Gaps::ThatRowsFitIn).await;
    no_redacted(&found);
    assert!(is_cleared, "cleared too late");
    let gaps = product.in_database_files(Gaps::All).await;
    let gaps = gaps.keys().filter(|person| is_redacted(person)).count();
    eprintln!("{gaps} of those who were redacted are in gaps of pages of deliveries");
    let exports = Product::in_files(&product.exports());
    assert_eq!(numbers(&exports), [].into());
    assert!(
        std::fs::metadata(product.log()).unwrap().len() > 10_000,
        "every process logged"
    );
    everybody_else_is_complete(&product).await;
    requests_are_accounted_for(&product, &known, &late_redactions).await;
    nothing_is_lost(&product).await;

    // And when every process was killed.
    product.ingress = None;
    product.workers.clear();
    // What an operator does in a quiet hour leaves nothing in any gap either.
    let rewritten = product.db.on_server(&["vacuum (full) deliveries"]);
    rewritten.await.unwrap();
    let found = product.in_database_files(Gaps::All).await;
    no_redacted(&found);
    assert_eq!(numbers(&found), who(|person| !person.is_redacted()));
}

/// Every personal column of those who were not redacted holds their canary, none of them is
/// marked, and the bodies of their deliveries are kept.
async fn everybody_else_is_complete(product: &Product) {
    let others = who(|person| !person.is_redacted());
    let orders = "select cast(id - 5000000 as bigint) as n, record as text from orders
                  where shop = 'shop.example'";
    for part in [
        "/contact/value/email",
        "/contact/value/phone",
        "/addresses/value/shipping",
        "/addresses/value/billing",
    ] {
        assert_eq!(complete(product, orders, part).await, others, "{part}");
    }
    let payments = "select cast(substr(id, 4) as bigint) as n, record as text from payments";
    let found = complete(product, payments, "/receipt_email/value").await;
    assert_eq!(found, others);
    let customers = "select cast(id - 7000000 as bigint) as n, record as text from customers";
    let others = who(|person| !person.is_redacted() && !person.is_guest());
    for part in ["email", "phone", "first_name", "last_name"] {
        let part = format!("/{part}/value");
        let found = complete(product, customers, &part).await;
        assert_eq!(found, others, "{part}");
    }
    let sessions =
        "select cast(substr(id, 4) as bigint) as n, record as text from checkout_sessions";
    let with_session = who(|person| !person.is_redacted() && person.has_session());
    assert_eq!(
        complete(product, sessions, "/email/value").await,
        with_session
    );

    let cut = "select external_id from deliveries where source <> 'internal' and body is null";
    for row in product.db.query(cut).fetch_all().await.unwrap() {
        let id: String = row.get("external_id").unwrap();
        let person = id.split(['-', '_']).nth(1).unwrap().parse().unwrap();
        assert!(
            Person(person).is_redacted(),
            "the body of {id} was forgotten"
        );
    }
    let dead = "select body from jobs join deliveries on deliveries.id = jobs.id
                where state = 'dead' and body is not null";
    let mut found = Found::new();
    for row in product.db.query(dead).fetch_all().await.unwrap() {
        scan("dead", &row.get::<Vec<u8>>("body").unwrap(), &mut found);
    }
    let unreadable = who(|person| {
        !person.is_redacted() && (person.has_unreadable_order() || person.has_unreadable_payment())
    });
    assert_eq!(numbers(&found), unreadable);
}

/// The people whose row `n` holds a canary of theirs in this part of the record that `text` is; no row holds
/// anything else. Records that have no such part are left out.
async fn complete(product: &Product, sql: &'static str, part: &str) -> BTreeSet<usize> {
    let rows = product.db.query(sql).fetch_all().await.unwrap();
    let mut people = BTreeSet::new();
    for row in rows {
        let person = usize::try_from(row.get::<i64>("n").unwrap()).unwrap();
        let text: String = row.get("text").unwrap();
        let record: Value = serde_json::from_str(&text).unwrap();
        let value = record.pointer(part).filter(|value| !value.is_null());
        let Some(text) = value.map(Value::to_string) else {
            continue;
        };
        let mut found = Found::new();
        scan("row", text.as_bytes(), &mut found);
        assert_eq!(numbers(&found), [person].into(), "{sql}: {text:?}");
        people.insert(person);
    }
    people
}

/// Each request is done, and what its entry in the audit counted is what was redacted.
async fn requests_are_accounted_for(product: &Product, known: &BTreeSet<usize>, late: &[Person]) {
    let redacted = i64::try_from(people() / 2).unwrap();
    let done = "select count(*) as n from privacy_requests
                where topic = 'customers/redact' and state = 'done' and finished_at is not null";
    assert_eq!(product.count(done).await, redacted);
    let open = "select count(*) as n from privacy_requests where state <> 'done'";
    assert_eq!(product.count(open).await, 0);
    let kept = "select count(*) as n from privacy_requests
                where export_sha256 is not null and export_removed_at is null";
    assert_eq!(product.count(kept).await, 0, "exports are noted as removed");

    // One whose deliveries were all scrubbed before they ran has nothing personal, and no mark.
    let orders =
        "select count(*) as n from orders where redacted_at is not null and shop = 'shop.example'";
    let marked = product.count(orders).await;
    assert!(marked <= redacted && marked > redacted * 9 / 10, "{marked}");
    let marked = "select id from orders where redacted_at is not null and shop = 'shop.example'";
    for row in product.db.query(marked).fetch_all().await.unwrap() {
        let person = usize::try_from(row.get::<i64>("id").unwrap() - 5_000_000).unwrap();
        assert!(Person(person).is_redacted(), "{person}");
    }
    let customers = "select count(*) as n from customers where redacted_at is not null";
    assert!(product.count(customers).await <= redacted);

    let key = is_distributed().then(|| Token::new(PRIVACY_KEY));
    let keys = Arc::new(
        privacy_keys::load(&product.db, key.as_ref(), &product.clock)
            .await
            .unwrap(),
    );
    let chain = audit::verify(&product.db, &keys).await.unwrap();
    assert!(chain.broken.is_none(), "{:?}", chain.broken);
    let entries = audit::list(&product.db, None, 0, i64::from(i32::MAX))
        .await
        .unwrap();
    let erased: BTreeMap<&str, &Value> = entries
        .iter()
        .filter(|entry| entry.action == "customer.erased")
        .map(|entry| (entry.object_id.as_str(), &entry.details["counts"]))
        .collect();
    let times = entries
        .iter()
        .filter(|entry| entry.action == "customer.erased");
    assert_eq!(times.count(), people() / 2, "one entry a request");
    // A request whose job ran twice because its process was killed counts what the first run
    // did too: an order that was known before it came is counted once.
    let jobs = "select id, external_id from deliveries where kind = 'customers/redact'";
    let rows = product.db.query(jobs).fetch_all().await.unwrap();
    let requests: BTreeMap<String, String> = rows
        .iter()
        .map(|row| {
            let id: uuid::Uuid = row.get("id").unwrap();
            (row.get("external_id").unwrap(), id.to_string())
        })
        .collect();
    for person in late {
        let counts = erased[requests[&format!("redact-{}", person.0)].as_str()];
        let orders = counts["orders"].as_i64().unwrap();
        // The order, and the one that its session may have made before it came.
        assert!(orders <= 2, "{person:?}: {counts}");
        if known.contains(&person.0) {
            let customers = counts["customers"].as_i64().unwrap();
            let is_customer = i64::from(!person.is_guest());
            assert!(
                orders >= 1 && customers == is_customer,
                "{person:?}: {counts}"
            );
        }
    }
    // Orders that came after the redaction were marked as they were written, or erased again.
    let sum = |name: &str| -> i64 {
        let counts = erased.values();
        counts.map(|counts| counts[name].as_i64().unwrap()).sum()
    };
    assert!(sum("orders") <= 2 * redacted && sum("orders") > 0);
    assert!(sum("customers") <= redacted && sum("customers") > 0);
}

/// Whatever was accepted is done or dead, the books balance.
async fn nothing_is_lost(product: &Product) {
    let orphans = "select count(*) as n from webhook_ids
                   where not exists (select 1 from jobs where jobs.id = webhook_ids.job_id)";
    assert_eq!(product.count(orphans).await, 0);
    let ids = product.count("select count(*) as n from webhook_ids").await;
    assert_eq!(product.count(job::ALONE).await, 0);
    let ended = "select count(*) as n from jobs join deliveries on deliveries.id = jobs.id
                 where source <> 'internal' and state in ('done', 'dead')";
    assert_eq!(product.count(ended).await, ids);
    let dead = "select jobs.kind, external_id from jobs join deliveries on deliveries.id = jobs.id
                where state = 'dead'";
    for row in product.db.query(dead).fetch_all().await.unwrap() {
        let id: Option<String> = row.get("external_id").unwrap();
        let kind: String = row.get("kind").unwrap();
        let id = id.unwrap_or_default();
        let person: Option<usize> = id.split(['-', '_']).nth(1).and_then(|it| it.parse().ok());
        let person = Person(person.unwrap_or(1));
        let is_unreadable = match kind.as_str() {
            "orders/updated" => person.has_unreadable_order(),
            "payment_intent.succeeded" => person.has_unreadable_payment(),
            _ => false,
        };
        assert!(is_unreadable, "{kind} {id} is dead");
    }
    let books = ledger::verify(&product.db).await.unwrap();
    let wrong = (&books.wrong, &books.unbalanced);
    assert!(books.is_balanced(), "{wrong:?}");
    assert!(books.payments >= u64::try_from(people()).unwrap());
}

/// The search of the storm is as good as what it finds: everybody, in every place they can be.
#[tokio::test(flavor = "multi_thread")]
async fn the_search_finds_a_canary_in_rows_bodies_dead_jobs_files_and_in_any_spelling() {
    const SOME: usize = 24;
    let mut product = Product::start().await;
    product.start_workers().await;
    let clock = product.clock.clone();
    let deliveries = (0..SOME).flat_map(|person| Person(person).deliveries(&clock, "a"));
    product.post(&deliveries.collect::<Vec<_>>()).await;
    product.drained().await;
    let everybody: BTreeSet<usize> = (0..SOME).collect();
    assert_eq!(numbers(&product.in_database().await), everybody);
    let in_files = product.in_database_files(Gaps::All).await;
    assert_eq!(numbers(&in_files), everybody);

    // In rows alone, and in bodies alone.
    let unreadable = (0..SOME).filter(|person| Person(*person).has_unreadable_order());
    let unreadable: BTreeSet<usize> = unreadable.collect();
    product.execute("delete from webhook_ids where 1 = 1").await;
    let dead = "select count(*) as n from jobs where state = 'dead' and kind = 'orders/updated'";
    assert_eq!(
        product.count(dead).await,
        i64::try_from(unreadable.len()).unwrap()
    );
    product
        .execute(
            "update deliveries set body = null
             where id in (select id from jobs where state = 'done')",
        )
        .await;
    assert_eq!(numbers(&product.in_database().await), everybody);
    for personal in [
        "update orders set record = '{}', email_key = null, phone_key = null",
        "update customers set record = '{}', email_key = null, phone_key = null",
        "update payments set record = '{}', email_key = null",
        "update checkout_sessions set record = '{}', email_key = null",
        "update deliveries set body = null where kind <> 'orders/updated'",
    ] {
        product.execute(personal).await;
    }
    assert_eq!(numbers(&product.in_database().await), unreadable);
    product
        .execute("update deliveries set body = null where 1 = 1")
        .await;
    let left = product.everywhere().await;
    assert!(left.is_empty(), "{left:#?}");

    for (text, person) in [
        (word(1, "x"), 1),
        (word(2, "x").to_uppercase(), 2),
        (email(3).to_lowercase(), 3),
        (phone(4), 4),
        (phone(5).replace('+', ""), 5),
        (spaced_phone(6), 6),
    ] {
        let file = product.folder.path().join("exports/a/b.json");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, format!("{{\"x\":\"{text}\"}}")).unwrap();
        let found = numbers(&product.everywhere().await);
        assert_eq!(found, [person].into(), "{text}");
    }
}
