//! Places in which an erasure could leave personal data behind: exports and their stores, the
//! database's own files, and links of carriers. The tests also cover its proofs: the audit and the
//! receipts.

use std::path::Path;
use std::time::Duration;

use config::{Config, Mode, Settings};
use domain::privacy::{Decided, link};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use store::notifications;
use store::privacy_requests::{self, RequestEntry};
use uuid::Uuid;

use crate::both::privacy::erasure::places;
use crate::support::backend::{is_distributed, statement};
use crate::support::canary::{Found, Gaps, compress_nothing, scan_database_files, word};
use crate::support::delivery::{Delivery, SHOP, storefront};
use crate::support::login::desk;
use crate::support::object_store::{Bucket, Fault};
use crate::support::operator::{items, json as json_of, ran, refused, said, waybill};
use crate::support::order::{body, deliver, fulfilment, order_delivery, post_all, with};
use crate::support::payment::{declined, event};
use crate::support::process::run;
use crate::support::requests::{decide, document, request};
use crate::support::{
    Options, PAYMENT_SECRET, STOREFRONT_SECRET, Service, eventually, pause, service, within,
};

const MINUTE: Duration = Duration::from_mins(1);
/// Within this time after an erasure the files are cleared, and how often they are looked at.
const CLEARED: Duration = Duration::from_secs(150);
const LOOK: Duration = Duration::from_secs(1);

fn data_request(customer: &Value, orders: &[i64]) -> Delivery {
    let body = json!({
        "shop_id": 1, "shop_domain": SHOP, "customer": customer, "orders_requested": orders,
        "data_request": {"id": 3},
    });
    storefront("customers/data_request", body.to_string())
}

fn redact(customer: &Value, orders: &[i64]) -> Delivery {
    let body = json!({
        "shop_id": 1, "shop_domain": SHOP, "customer": customer, "orders_to_redact": orders,
    });
    storefront("customers/redact", body.to_string())
}

/// Posts a request; its id.
pub async fn ask(service: &Service, delivery: &Delivery) -> Uuid {
    let response = service.post(delivery).await;
    assert_eq!(response.status(), 200);
    let id = response.headers()["x-request-id"].to_str().unwrap();
    id.parse().unwrap()
}

async fn entry(service: &Service, id: Uuid) -> RequestEntry {
    let entry = privacy_requests::find(service.db(), id).await.unwrap();
    entry.expect("the request is in the ledger")
}

async fn is_done(service: &Service, id: Uuid) -> RequestEntry {
    eventually("the request is done", async || {
        entry(service, id).await.state == "done"
    })
    .await;
    entry(service, id).await
}

/// What an operator says of a request by an address that a customer has, should it be held.
async fn is_customer_77(service: &Service, id: Uuid) {
    eventually("the request was looked at", async || {
        entry(service, id).await.state != "received"
    })
    .await;
    if entry(service, id).await.state == "held" {
        let said = Decided {
            customers: [77].into(),
            ..Decided::default()
        };
        decide(service, id, &said).await;
    }
}

/// Waits for a run that failed; why.
async fn failed(service: &Service, id: Uuid) -> String {
    eventually("a run has failed", async || {
        entry(service, id).await.attempts > 0
    })
    .await;
    entry(service, id).await.last_error.expect("it says why")
}

fn keeps_in(folder: &Path, options: Options) -> Options {
    options.setting(
        "PRIVACY_EXPORT_URL",
        &format!("file://{}", folder.display()),
    )
}

/// The order of customer 77.
fn order(id: i64) -> Delivery {
    order_delivery("orders/create", &body(id, 1, "paid"))
}

#[tokio::test]
async fn an_export_that_an_order_alone_asked_for_goes_with_whom_it_is_about() {
    for (asked, named, orders) in [
        (data_request(&json!({}), &[1]), json!({"id": 77}), vec![]),
        (data_request(&json!({"id": 77}), &[]), json!({}), vec![1]),
        (
            data_request(&json!({"email": "canary@example.com"}), &[]),
            json!({"id": 77}),
            vec![],
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let service = keeps_in(folder.path(), service()).start().await;
        deliver(&service, &order(1)).await;
        let stranger = json!({"id": 2, "email": "somebody@else.example", "phone": null,
            "customer": {"id": 88}, "shipping_address": null});
        deliver(
            &service,
            &order_delivery("orders/create", &with(body(2, 1, "paid"), &stranger)),
        )
        .await;
        let export = ask(&service, &asked).await;
        is_customer_77(&service, export).await;
        is_done(&service, export).await;
        let others = ask(&service, &data_request(&json!({"id": 88}), &[2])).await;
        is_done(&service, others).await;
        let document = document(folder.path(), export);
        assert!(
            std::fs::read_to_string(&document)
                .unwrap()
                .contains("Canary")
        );
        let erasure = ask(&service, &redact(&named, &orders)).await;
        let done = is_done(&service, erasure).await;
        assert_eq!(done.progress["exports"], 1, "{}", done.progress);
        assert!(
            !document.exists(),
            "{named}: the export is in the store still"
        );
        let removed = entry(&service, export).await.export.unwrap().removed_at;
        assert!(removed.is_some());
        let whole = entry(&service, others).await.export.unwrap();
        assert_eq!(whole.removed_at, None, "another customer's export stays");
        service.stop().await;
    }
}

#[tokio::test]
async fn an_export_that_is_not_in_the_store_that_is_configured_now_is_not_called_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let mut first = keeps_in(&old, service()).start().await;
    deliver(&first, &order(1)).await;
    let export = ask(&first, &data_request(&json!({"id": 77}), &[])).await;
    is_done(&first, export).await;
    first.halt().await;

    let mut second = keeps_in(&new, service()).start_beside(&first).await;
    let erasure = ask(&second, &redact(&json!({"id": 77}), &[])).await;
    let error = failed(&second, erasure).await;
    assert!(error.contains("PRIVACY_EXPORT_URL"), "{error}");
    assert_eq!(
        entry(&second, export).await.export.unwrap().removed_at,
        None
    );
    assert_eq!(
        places(&second, "anary").await,
        Vec::<String>::new(),
        "rows are erased all the same"
    );
    let shown = said(&second, &["privacy", "show", &export.to_string()]).await;
    assert!(shown.contains("not removed"), "{shown}");
    assert!(document(&old, export).exists());
    second.halt().await;

    // Moved with its mark it is the same store, whatever it is called.
    std::fs::remove_dir_all(&new).ok();
    std::fs::rename(&old, &new).unwrap();
    let third = keeps_in(&new, service()).start_beside(&first).await;
    said(&third, &["jobs", "show", &erasure.to_string()]).await;
    third
        .execute("update jobs set run_at = 0 where kind = 'customers/redact'")
        .await;
    is_done(&third, erasure).await;
    assert!(!new.join(export.to_string()).exists());
    third.stop().await;
}

#[tokio::test]
async fn an_emptied_store_is_refused_until_an_operator_says_what_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("exports");
    let service = keeps_in(&store, service().manual_clock()).start().await;
    deliver(&service, &order(1)).await;
    let export = ask(&service, &data_request(&json!({"id": 77}), &[])).await;
    is_done(&service, export).await;
    // Another host's folder of the same name, or a disk that is not mounted.
    std::fs::remove_dir_all(&store).unwrap();
    let erasure = ask(&service, &redact(&json!({"id": 77}), &[])).await;
    let error = failed(&service, erasure).await;
    assert!(error.contains("mark"), "{error}");
    assert_eq!(
        entry(&service, export).await.export.unwrap().removed_at,
        None
    );
    let new = ask(&service, &data_request(&json!({"id": 88}), &[])).await;
    let error = failed(&service, new).await;
    assert!(error.contains("mark"), "nothing is written to it: {error}");

    let gone = ["privacy", "export-gone", &export.to_string(), "--by", "ann"];
    said(&service, &gone).await;
    assert!(
        entry(&service, export)
            .await
            .export
            .unwrap()
            .removed_at
            .is_some()
    );
    let (code, again) = refused(&service, &gone).await;
    assert_eq!(code, 1, "{again}");
    service.clock().advance(5 * MINUTE);
    is_done(&service, erasure).await;
    is_done(&service, new).await;
    let by_hand = "select count(*) as n from audit
                   where action = 'export.removed' and actor = 'operator:ann'";
    assert_eq!(service.count(by_hand).await, 1);
    service.stop().await;
}

#[tokio::test]
async fn one_export_that_cannot_be_removed_keeps_no_other_and_no_row() {
    let folder = tempfile::tempdir().unwrap();
    let service = keeps_in(folder.path(), service().manual_clock())
        .start()
        .await;
    deliver(&service, &order(1)).await;
    let mut exports = Vec::new();
    for _ in 0..3 {
        let export = ask(&service, &data_request(&json!({"id": 77}), &[])).await;
        is_done(&service, export).await;
        exports.push(export);
    }
    exports.sort_unstable();
    // The first is of a store that is elsewhere.
    service
        .execute(statement(format!(
            "update privacy_requests set export_store = body_key where {}",
            if is_distributed() {
                format!("id = '{}'", exports[0])
            } else {
                format!("id = x'{}'", exports[0].simple())
            }
        )))
        .await;
    let erasure = ask(&service, &redact(&json!({"id": 77}), &[])).await;
    failed(&service, erasure).await;
    assert_eq!(places(&service, "anary").await, Vec::<String>::new());
    let mut removed = Vec::new();
    for export in &exports {
        let export = entry(&service, *export).await.export.unwrap();
        removed.push(export.removed_at.is_some());
    }
    assert_eq!(removed, [false, true, true]);
    assert_eq!(entry(&service, erasure).await.state, "received");
    service.stop().await;
}

#[tokio::test]
async fn rows_are_erased_although_the_store_of_exports_does_not_answer() {
    let bucket = Bucket::start().await;
    let settings = bucket.settings().into_iter();
    let options = settings.fold(service().manual_clock(), |options, (name, value)| {
        options.setting(name, &value)
    });
    let service = options.start().await;
    deliver(&service, &order(1)).await;
    let export = ask(&service, &data_request(&json!({"id": 77}), &[])).await;
    is_done(&service, export).await;
    bucket.fails(Some(Fault::Status(503)));
    let erasure = ask(&service, &redact(&json!({"id": 77}), &[])).await;
    failed(&service, erasure).await;
    assert_eq!(places(&service, "anary").await, Vec::<String>::new());
    bucket.fails(None);
    service.clock().advance(5 * MINUTE);
    is_done(&service, erasure).await;
    let left = bucket.objects().into_keys();
    let left: Vec<String> = left
        .filter(|name| name.contains(&export.to_string()))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    service.stop().await;
}

#[tokio::test]
async fn a_carriers_link_is_made_of_carrier_and_number_and_the_shops_own_is_erased() {
    let service = service().start().await;
    let shipped = |id: i64, carrier: &str, number: &str| {
        let mut shipment = fulfilment(id, &[number], &[(1, 1)]);
        shipment["tracking_company"] = json!(carrier);
        shipment["tracking_urls"] =
            json!([format!("https://carrier.example/{number}?zip=CanaryZip")]);
        shipment
    };
    let fields = json!({"fulfillments": [
        shipped(1, "UPS", "1Z999AA10123456784"), shipped(2, "Sunshine Couriers", "SC-1"),
    ]});
    deliver(
        &service,
        &order_delivery("orders/fulfilled", &with(body(1, 1, "paid"), &fields)),
    )
    .await;
    for path in [
        "/orders/1/track",
        "/tracking/1Z999AA10123456784",
        "/tracking/SC-1",
    ] {
        let page = service
            .get(path)
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        assert!(
            !page.contains("CanaryZip") && !page.contains("carrier.example"),
            "{path}: {page}"
        );
        let is_known = !path.ends_with("SC-1");
        assert_eq!(
            page.contains("https://www.ups.com/track?tracknum=1Z999AA10123456784"),
            is_known,
            "{path}"
        );
        assert!(path.ends_with("84") || page.contains("SC-1"));
    }
    assert!(
        places(&service, "CanaryZip")
            .await
            .contains(&"orders.record".to_owned())
    );
    let erasure = ask(&service, &redact(&json!({"id": 77}), &[])).await;
    is_done(&service, erasure).await;
    service.settled().await;
    assert_eq!(places(&service, "CanaryZip").await, Vec::<String>::new());
    // Nor does it come back with what comes late.
    deliver(
        &service,
        &order_delivery("orders/updated", &with(body(1, 2, "paid"), &fields)),
    )
    .await;
    assert_eq!(places(&service, "CanaryZip").await, Vec::<String>::new());
    service.stop().await;
}

#[test]
fn postgresql_is_not_used_without_a_key_of_its_own() {
    let mut settings = Settings::defaults();
    settings.set("STOREFRONT_WEBHOOK_SECRET", "storefront-secret");
    settings.set("PAYMENT_WEBHOOK_SECRET", "payment-secret");
    settings.set("DATABASE_URL", "postgres://waybill@127.0.0.1/waybill");
    let wrong = Config::load(&settings, Mode::Production)
        .unwrap_err()
        .to_string();
    assert!(
        wrong.contains("PRIVACY_KEY") && wrong.contains("openssl rand -hex 32"),
        "{wrong}"
    );
    assert!(wrong.contains("waybill privacy key"), "{wrong}");
    settings.set("PRIVACY_KEY", "a-key-of-at-least-thirty-two-characters");
    Config::load(&settings, Mode::Production).unwrap();
    let mut embedded = Settings::defaults();
    embedded.set("STOREFRONT_WEBHOOK_SECRET", "storefront-secret");
    embedded.set("PAYMENT_WEBHOOK_SECRET", "payment-secret");
    Config::load(&embedded, Mode::Production).unwrap();
}

#[tokio::test]
async fn a_link_to_an_export_is_good_when_it_was_given_out_and_for_five_minutes_only() {
    let folder = tempfile::tempdir().unwrap();
    let service = keeps_in(folder.path(), service().manual_clock())
        .start()
        .await;
    let export = ask(&service, &data_request(&json!({"id": 77}), &[])).await;
    is_done(&service, export).await;
    let now = service.clock().now().unix_seconds();
    let fetched = async |path: &str| service.get(path).send().await.unwrap().status().as_u16();
    // Signed with the right key, but by nobody who was asked for it.
    for seconds in [60, 300, 301, 86_400] {
        let path = link::path(&service.parts.keys, export, now + seconds);
        assert_eq!(fetched(&path).await, 404, "{seconds}");
    }
    let key = service.api_key().await;
    let path = format!("/api/privacy/requests/{export}/export-link");
    let given = service
        .post_to(&path)
        .bearer_auth(&key)
        .send()
        .await
        .unwrap();
    let given: Value = given.json().await.unwrap();
    let given = given["url"]
        .as_str()
        .unwrap()
        .strip_prefix(&service.url)
        .unwrap()
        .to_owned();
    assert_eq!(fetched(&given).await, 200);
    service.stop().await;
}

/// Audit entries of three requests.
async fn audited() -> Service {
    let service = service().without_workers().start().await;
    for seed in 1..4 {
        ask(&service, &request("customers/data_request", seed)).await;
    }
    service
}

#[tokio::test]
async fn an_audit_that_was_cut_is_found_and_intake_goes_on() {
    let cuts: [(&str, &[&str]); 5] = [
        (
            "the tail, and the head set back",
            &[
                "delete from audit where number = 3",
                "update audit_head set number = 1, roots = (select hash from audit where number = 1)",
            ],
        ),
        (
            "everything",
            &["delete from audit", "delete from audit_head"],
        ),
        ("the head alone", &["delete from audit_head"]),
        ("the head set back", &["update audit_head set number = 1"]),
        ("the beginning", &["delete from audit where number < 3"]),
    ];
    for (what, meddling) in cuts {
        let service = audited().await;
        said(&service, &["audit", "verify"]).await;
        for sql in meddling {
            service.execute(statement((*sql).to_owned())).await;
        }
        let (code, before) = refused(&service, &["audit", "verify"]).await;
        assert_eq!(code, 1, "{what}: {before}");
        for seed in 10..12 {
            ask(&service, &request("customers/data_request", seed)).await;
        }
        let (code, after) = refused(&service, &["audit", "verify"]).await;
        assert_eq!(code, 1, "{what}: {after}");
        assert!(
            after.contains("entry") || after.contains("request"),
            "{what}: {after}"
        );
        service.stop().await;
    }
}

#[tokio::test]
async fn requests_and_the_audit_must_agree_and_an_outside_head_is_checked() {
    let service = audited().await;
    let verified = json_of(&service, &["audit", "verify"]).await;
    let (number, hash) = (
        verified["entries"].clone(),
        verified["head"].as_str().unwrap().to_owned(),
    );
    ask(&service, &request("customers/data_request", 9)).await;
    let head = format!("{number}:{hash}");
    let reported = said(&service, &["audit", "verify", "--head", &head]).await;
    assert!(reported.contains(&format!("entry {number}")), "{reported}");
    for wrong in [
        format!("{number}:{}=", "A".repeat(43)),
        format!("99:{hash}"),
    ] {
        let (code, reported) = refused(&service, &["audit", "verify", "--head", &wrong]).await;
        assert_eq!(code, 1, "{reported}");
        assert!(reported.contains("entry"), "{reported}");
    }
    let usage = ran(&service, &["audit", "verify", "--head", "seven"]).await;
    assert_eq!(usage.status.code(), Some(2));

    // A request whose entry was never there, and an entry whose request is gone.
    service.execute("delete from jobs").await;
    service.execute("delete from deliveries").await;
    service.execute("delete from webhook_ids").await;
    service
        .execute("update privacy_requests set state = 'cancelled', finished_at = 1 where customer_id is not null")
        .await;
    let (_, reported) = refused(&service, &["audit", "verify"]).await;
    assert!(reported.contains("request"), "{reported}");
    service.execute("delete from privacy_requests").await;
    let (_, reported) = refused(&service, &["audit", "verify"]).await;
    assert!(reported.contains("request"), "{reported}");
    service.stop().await;
}

/// Waits until a worker has deferred a request because nobody has confirmed it.
async fn is_deferred(service: &Service, id: Uuid) {
    service.execute("update jobs set last_error = null").await;
    eventually("it is deferred", async || {
        let reported = entry(service, id).await.last_error;
        reported.is_some_and(|reported| reported.contains("waybill privacy confirm"))
    })
    .await;
}

#[tokio::test]
async fn a_repeated_erasure_of_a_shop_waits_for_an_operator_and_its_deadline_runs() {
    let service = service().manual_clock().start().await;
    let shop = || {
        let body = json!({"shop_id": 1, "shop_domain": SHOP});
        storefront("shop/redact", body.to_string())
    };
    let first = ask(&service, &shop().id("a")).await;
    service.clock().advance(Duration::from_hours(1));
    is_done(&service, first).await;
    // The shop is back, and somebody sends the captured body once more.
    service.clock().advance(Duration::from_hours(24));
    let new = json!({"created_at": "2027-01-17T00:00:00Z"});
    deliver(
        &service,
        &order_delivery("orders/create", &with(body(1, 1, "paid"), &new)),
    )
    .await;
    let orders = "select count(*) as n from orders where shop = 'shop.example'";
    let again = ask(&service, &shop().id("b")).await;
    assert_eq!(entry(&service, again).await.state, "held");
    service.clock().advance(Duration::from_hours(24 * 28));
    is_deferred(&service, again).await;
    let waiting = entry(&service, again).await;
    assert_eq!(waiting.state, "held", "{waiting:?}");
    assert_eq!((waiting.held_until, waiting.attempts), (None, 0));
    assert_eq!(service.count(orders).await, 1);
    let deadlines = privacy_requests::open_deadlines(service.db()).await;
    assert_eq!(deadlines.unwrap(), (1, Some(waiting.due_at)));
    let shown = said(&service, &["privacy", "show", &again.to_string()]).await;
    assert!(shown.contains("waybill privacy confirm"), "{shown}");
    // Past its deadline as well.
    service.clock().advance(Duration::from_hours(24 * 5));
    is_deferred(&service, again).await;
    assert_eq!(entry(&service, again).await.state, "held");
    assert_eq!(service.count(orders).await, 1);
    let confirm = ["privacy", "confirm", &again.to_string(), "--by", "ann"];
    said(&service, &confirm).await;
    is_done(&service, again).await;
    assert_eq!(service.count(orders).await, 0);
    let (code, twice) = refused(&service, &confirm).await;
    assert_eq!(code, 1, "{twice}");
    let confirmed = "select count(*) as n from audit
                     where action = 'request.confirmed' and actor = 'operator:ann'";
    assert_eq!(service.count(confirmed).await, 1);
    service.stop().await;
}

#[tokio::test]
async fn a_receipt_of_a_request_by_address_serves_for_that_address_alone() {
    let service = service().start().await;
    deliver(&service, &order(1)).await;
    let erasure = ask(
        &service,
        &redact(
            &json!({"email": "Canary@example.com", "phone": "+1 202 555 0123"}),
            &[],
        ),
    )
    .await;
    is_customer_77(&service, erasure).await;
    let receipt = is_done(&service, erasure).await.receipt.unwrap();
    let text = receipt.to_string().to_lowercase();
    assert!(
        !text.contains("canary") && !text.contains("2025550123"),
        "{text}"
    );
    let file = service.backend.folder().join("receipt.json");
    std::fs::write(&file, receipt.to_string()).unwrap();
    let file = file.to_str().unwrap();
    for own in [
        ["--email", "canary@EXAMPLE.com"],
        ["--phone", "12025550123"],
    ] {
        let reported = said(
            &service,
            &[&["privacy", "verify-receipt", file], &own[..]].concat(),
        )
        .await;
        assert!(
            reported.contains("is of a request that named"),
            "{reported}"
        );
    }
    for foreign in [["--email", "ann@example.com"], ["--phone", "12025550199"]] {
        let (code, reported) = refused(
            &service,
            &[&["privacy", "verify-receipt", file], &foreign[..]].concat(),
        )
        .await;
        assert_eq!(code, 1);
        assert!(reported.contains("NOT"), "{reported}");
    }
    service.stop().await;
}

#[tokio::test]
async fn who_sees_the_address_of_a_mail_is_in_the_audit() {
    let service = service().start().await;
    let mut intent = declined("pi_1", 3000, 1, "insufficient_funds");
    intent["receipt_email"] = json!("canary@example.com");
    let failed = event(&service, "payment_intent.payment_failed", 1, &intent);
    deliver(&service, &failed).await;
    let kept = notifications::list(service.db(), "", 10).await.unwrap();
    let id = kept[0].id.to_string();
    let mut show = waybill(&service, &["notifications", "show", &id, "--by", "ann"]);
    show.env("STOREFRONT_WEBHOOK_SECRET", STOREFRONT_SECRET);
    show.env("PAYMENT_WEBHOOK_SECRET", PAYMENT_SECRET);
    let shown = run(show).await;
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("canary@example.com"), "{shown:?}");
    let seen = items(&service, &["audit", "list", "--object", &id]).await;
    assert_eq!(seen[0]["action"], "notification.shown");
    assert_eq!(seen[0]["actor"], "operator:ann");
    assert!(!seen.to_string().contains("canary"), "{seen}");
    service.stop().await;
}

#[tokio::test]
async fn nobody_learns_from_the_tables_from_where_a_login_was_begun() {
    let desk = desk().await;
    desk.code().await;
    let rows = desk
        .service
        .db()
        .query("select client from device_code_requests");
    let rows = rows.fetch_all().await.unwrap();
    let client: Vec<u8> = rows[0].get("client").unwrap();
    assert_eq!(rows.len(), 1);
    assert_ne!(
        client,
        Sha256::digest("127.0.0.1").to_vec(),
        "anyone can try all addresses"
    );
    assert_eq!(client, desk.service.parts.keys.client("127.0.0.1"));
    desk.stop().await;
}

#[tokio::test]
async fn erased_text_is_in_none_of_the_databases_files_while_they_are_in_use() {
    const PEOPLE: i64 = 120;
    let service = service().new_files().start().await;
    compress_nothing(&service.backend).await;
    // Bodies of all sizes: in their rows, and beside them.
    let person = |id: i64| {
        let word = |field| word(usize::try_from(id).unwrap(), field);
        json!({
            "email": format!("{}@example.com", word("mail")), "phone": null, "note": word("note"),
            "customer": {"id": 1000 + id, "email": format!("{}@example.com", word("mail")),
                         "first_name": word("first"), "last_name": word("last"), "tags": word("tags").repeat(usize::try_from(id * id % 500).unwrap() + 1)},
            "shipping_address": {"address1": word("street"), "city": word("city").repeat(20)},
        })
    };
    for round in 1..=3 {
        let orders: Vec<Delivery> = (1..=PEOPLE)
            .map(|id| {
                order_delivery(
                    "orders/updated",
                    &with(body(id, round, "paid"), &person(id)),
                )
            })
            .collect();
        post_all(&service, &orders).await;
        service.settled().await;
    }
    let everybody = async || {
        let mut found = Found::new();
        scan_database_files(&service.backend, Gaps::ThatRowsFitIn, &mut found).await;
        found
    };
    assert_eq!(everybody().await.len(), usize::try_from(PEOPLE).unwrap());
    let redactions: Vec<Delivery> = (1..=PEOPLE)
        .filter(|id| id % 2 == 0)
        .map(|id| redact(&json!({"id": 1000 + id}), &[]))
        .collect();
    post_all(&service, &redactions).await;
    service.settled().await;
    if !is_distributed() {
        said(&service, &["privacy", "rewrite-file", "--by", "ann"]).await;
    }
    within(CLEARED, "what was erased is in no file", async || {
        pause(LOOK).await;
        everybody().await.into_keys().all(|person| person % 2 == 1)
    })
    .await;
    let left = everybody().await.len();
    assert_eq!(left, usize::try_from(PEOPLE / 2).unwrap());
    service.stop().await;
}
