//! The export for a customer who asks for their data: its content, where and how long it is kept,
//! and how Waybill handles a store that fails.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::job::LEASE;
use domain::privacy::{Decided, SubjectKey};
use providers::exports::{Export, ExportStore, Exports};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use store::people::Sought;
use store::privacy_requests::{self, RequestEntry};
use store::{audit, jobs, people, person_data, tombstones};
use tempfile::TempDir;
use uuid::Uuid;

use crate::support::delivery::{Delivery, SHOP, storefront};
use crate::support::object_store::{Bucket, Fault};
use crate::support::order::{
    body, cancelled, deliver, fulfilment, naming_agreement, order_delivery, post_all, with,
};
use crate::support::payment::{charge, declined, event, intent, session};
use crate::support::records;
use crate::support::requests::{decide, document};
use crate::support::{Options, Service, eventually, pause, service};

use super::erasure::{insert_events, overtake};

const SUCCEEDED: &str = "payment_intent.succeeded";

/// A request about somebody, as its body names them.
fn request(customer: &Value) -> Delivery {
    let body = json!({
        "shop_id": 7, "shop_domain": SHOP, "orders_requested": [], "customer": customer,
        "data_request": {"id": 3},
    });
    storefront("customers/data_request", body.to_string())
}

async fn ids(service: &Service) -> BTreeSet<Uuid> {
    let rows = service.db().query("select id from privacy_requests");
    let rows = rows.fetch_all().await.unwrap();
    rows.iter().map(|row| row.get("id").unwrap()).collect()
}

/// Posts a request; its id.
async fn ask(service: &Service, customer: &Value) -> Uuid {
    let before = ids(service).await;
    post_all(service, &[request(customer)]).await;
    let after = ids(service).await;
    *after.difference(&before).next().expect("it is entered")
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

/// Waits for so many failed runs; why the last one failed.
async fn failed(service: &Service, id: Uuid, runs: i64) -> String {
    eventually("a run has failed", async || {
        entry(service, id).await.attempts == runs
    })
    .await;
    let entry = entry(service, id).await;
    assert_eq!(entry.state, "received");
    assert!(entry.export.is_none(), "no export is noted");
    let error = entry.last_error.expect("it says why");
    assert!(
        !error.contains("canary") && !error.contains("AKID"),
        "{error}"
    );
    error
}

/// Waits until the request waits for an erasure, which is no failure.
async fn waits_for_the_erasure(service: &Service, id: Uuid) {
    eventually("it waits", async || {
        entry(service, id).await.last_error.is_some()
    })
    .await;
    let entry = entry(service, id).await;
    let why = entry.last_error.unwrap();
    assert!(why.contains("is being erased"), "{why}");
    assert_eq!((entry.attempts, entry.state.as_str()), (0, "received"));
}

/// The next try is due.
fn pause_is_over(service: &Service) {
    service.clock().advance(Duration::from_mins(5));
}

struct Folder {
    root: TempDir,
}

impl Folder {
    fn new() -> Self {
        Folder {
            root: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("deep/exports")
    }

    fn of(&self, id: Uuid) -> PathBuf {
        self.path().join(id.to_string())
    }

    fn keeps(&self, options: Options) -> Options {
        let url = format!("file://{}", self.path().display());
        options.setting("PRIVACY_EXPORT_URL", &url)
    }

    fn document(&self, id: Uuid) -> Vec<u8> {
        std::fs::read(document(&self.path(), id)).unwrap()
    }

    fn of_run(&self, id: Uuid, run: i64) -> PathBuf {
        self.of(id).join(run.to_string())
    }

    fn exports(&self) -> Exports {
        Exports::new(&ExportStore::Folder(self.path()))
    }
}

/// The export that the first run wrote for a request.
fn first_of(request: Uuid) -> Export {
    Export { request, run: 1 }
}

fn keeps_in(bucket: &Bucket, options: Options) -> Options {
    let settings = bucket.settings().into_iter();
    settings.fold(options, |options, (name, value)| {
        options.setting(name, &value)
    })
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Somebody else, in the same shop and in every table.
fn other(id: i64) -> Value {
    let fields = json!({
        "email": "somebody@else.example", "phone": "+12025550999",
        "customer": {"id": 88, "email": "somebody@else.example", "first_name": "Somebody",
                     "last_name": "Else"},
        "shipping_address": {"first_name": "Somebody", "address1": "2 Else Street"},
    });
    with(
        body(id, 0, "pending"),
        &with(naming_agreement("p9"), &fields),
    )
}

/// A customer with orders, parcels, payments, a refund, a session and a notification, and
/// somebody else with most of it.
async fn history(service: &Service) {
    let fields = json!({"fulfillments": [fulfilment(5, &["PARCEL-1"], &[(1, 2)])]});
    let order = with(
        body(41, 0, "pending"),
        &with(naming_agreement("p1"), &fields),
    );
    let theirs = session(
        "cs_9",
        "unpaid",
        700,
        &json!({
            "customer_details": {"email": "somebody@else.example"},
        }),
    );
    let mut payment = intent("pi_9", "succeeded", 3000, Some("p9"));
    payment["receipt_email"] = json!("somebody@else.example");
    payment["customer"] = json!("cus_9");
    let mut given_back = charge("pi_9", 3000, 100);
    given_back["customer"] = json!("cus_9");
    given_back["billing_details"] = json!({"email": "somebody@else.example"});
    for delivery in [
        order_delivery("orders/create", &order),
        order_delivery("orders/cancelled", &cancelled(42, 9, "refunded")),
        order_delivery("orders/create", &other(43)),
        event(
            service,
            SUCCEEDED,
            1,
            &intent("pi_1", "succeeded", 3000, Some("p1")),
        ),
        event(service, "charge.refunded", 2, &charge("pi_1", 3000, 1200)),
        event(
            service,
            "payment_intent.payment_failed",
            3,
            &declined("pi_2", 500, 1, "insufficient_funds"),
        ),
        event(
            service,
            "checkout.session.completed",
            4,
            &session("cs_1", "unpaid", 700, &json!({})),
        ),
        event(service, SUCCEEDED, 5, &payment),
        event(service, "charge.refunded", 6, &given_back),
        event(service, "checkout.session.completed", 7, &theirs),
    ] {
        deliver(service, &delivery).await;
    }
}

fn canary() -> Value {
    json!({"id": 77, "email": "canary@example.com", "phone": "+12025550123"})
}

/// The values of a column.
fn column<'a>(document: &'a Value, table: &str, name: &str) -> Vec<&'a Value> {
    let rows = document["data"][table].as_array().unwrap();
    rows.iter().map(|row| &row[name]).collect()
}

#[tokio::test]
async fn everything_held_on_a_customer_is_exported_and_nothing_of_anybody_else() {
    let folder = Folder::new();
    let service = folder.keeps(service().manual_clock()).start().await;
    history(&service).await;
    let id = ask(&service, &canary()).await;
    let entry = is_done(&service, id).await;

    let bytes = folder.document(id);
    let document = parsed(&bytes);
    assert_eq!(document["format"], "waybill-export/1");
    assert_eq!(document["request_id"], json!(id));
    assert_eq!(document["shop"], SHOP);
    assert_eq!(document["customer"], json!({"id": 77}));
    assert_eq!(document["generated_at"], json!(service.clock().now()));
    let customer = column(&document, "customers", "record")[0];
    assert_eq!(customer["email"]["value"], "canary@example.com");
    let orders = column(&document, "orders", "id");
    assert!(
        orders.contains(&&json!(41)) && orders.contains(&&json!(42)),
        "{orders:?}"
    );
    let orders = column(&document, "orders", "record");
    let of_41 = |order: &&&Value| order["name"]["value"] == "#41";
    let order = orders.iter().find(of_41).unwrap();
    let street = &order["addresses"]["value"]["shipping"]["address1"];
    assert_eq!(street, "1 Canary Street");
    assert_eq!(order["lines"]["value"][1]["title"], "Apron");
    let tracking = &order["shipments"]["5"]["value"]["tracking"];
    assert_eq!(tracking[0]["number"], "PARCEL-1");
    let page = order["own"]["page_url"].as_str().unwrap();
    assert!(page.contains("/orders/41/track"), "{page}");
    let numbers = column(&document, "tracking_numbers", "number");
    assert_eq!(numbers, ["PARCEL-1"]);
    assert_eq!(column(&document, "refunds", "order_id"), [42]);
    assert_eq!(column(&document, "payments", "id"), ["pi_1", "pi_2"]);
    let accounts = column(&document, "ledger_entries", "account");
    assert!(accounts.contains(&&json!("credited:cus_7")), "{accounts:?}");
    assert_eq!(column(&document, "checkout_sessions", "id"), ["cs_1"]);
    let notification = &document["data"]["notifications"][0];
    assert_eq!(notification["email"], "canary@example.com");
    let text = notification["text"].as_str().unwrap();
    assert!(text.contains("not enough funds"), "{text}");
    assert!(column(&document, "events", "kind").contains(&&json!("payment.refunded")));
    let mut kinds = column(&document, "deliveries", "kind");
    kinds.sort_by_key(|kind| kind.as_str());
    let expected = [
        "charge.refunded",
        "checkout.session.completed",
        "orders/cancelled",
        "orders/create",
        "payment_intent.payment_failed",
        "payment_intent.succeeded",
    ];
    assert_eq!(kinds, expected);
    let whole = document.to_string().to_lowercase();
    for foreign in ["else", "2025550999", "pi_9", "cs_9", "cus_9"] {
        assert!(!whole.contains(foreign), "{foreign} is in the export");
    }

    let export = entry.export.expect("the export is noted");
    assert_eq!(export.sha256, sha256(&bytes));
    assert_eq!(usize::try_from(export.bytes).unwrap(), bytes.len());
    let retention = service.parts.config.privacy.export_retention;
    assert_eq!(export.expires_at, service.clock().now().plus(retention));
    let manifest = parsed(&std::fs::read(folder.of_run(id, 1).join("manifest.json")).unwrap());
    let file = json!({"name": "export.json", "bytes": bytes.len(), "sha256": export.sha256});
    assert_eq!(manifest["files"], json!([file]));
    assert_eq!(manifest["counts"]["payments"], 2);
    assert_eq!(manifest["counts"], entry.progress);
    let job = jobs::show(service.db(), id).await.unwrap().unwrap();
    assert_eq!((job.state.as_str(), job.body_bytes), ("done", None));

    let files = std::fs::read_dir(folder.of_run(id, 1)).unwrap();
    let files: BTreeMap<String, u32> = files
        .map(|file| file.unwrap().path())
        .map(|file| {
            (
                file.file_name().unwrap().to_str().unwrap().to_owned(),
                mode(&file),
            )
        })
        .collect();
    let expected = [("export.json", 0o600), ("manifest.json", 0o600)];
    assert_eq!(
        files,
        expected.map(|(name, mode)| (name.to_owned(), mode)).into()
    );
    for folder in [folder.of_run(id, 1), folder.of(id), folder.path()] {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
    }
    service.stop().await;
}

#[tokio::test]
async fn an_export_of_the_same_data_at_the_same_time_is_the_same_byte_by_byte() {
    let folder = Folder::new();
    let service = folder.keeps(service().manual_clock()).start().await;
    history(&service).await;
    let id = ask(&service, &canary()).await;
    is_done(&service, id).await;
    let first = folder.document(id);
    std::fs::remove_dir_all(folder.of(id)).unwrap();

    let mut tx = service.db().begin().await.unwrap();
    tx.query("update privacy_requests set state = 'received', finished_at = null where id = $1")
        .bind(id)
        .execute()
        .await
        .unwrap();
    tx.query("update deliveries set body = $1 where id = $2")
        .bind(request(&canary()).body)
        .bind(id)
        .execute()
        .await
        .unwrap();
    tx.query(
        "update jobs set state = 'ready', notified_at = null, run_at = created_at where id = $1",
    )
    .bind(id)
    .execute()
    .await
    .unwrap();
    tx.commit().await.unwrap();
    is_done(&service, id).await;
    let second = folder.document(id);
    assert!(first == second, "both are the same");
    service.stop().await;
}

#[tokio::test]
async fn whom_an_address_or_a_number_alone_means_is_for_an_operator_to_say() {
    let folder = Folder::new();
    let service = folder.keeps(service().manual_clock()).start().await;
    history(&service).await;
    for customer in [
        json!({"email": "Canary@Example.com"}),
        json!({"phone": "1 (202) 555-0123"}),
    ] {
        let id = ask(&service, &customer).await;
        eventually("it is held", async || {
            entry(&service, id).await.state == "held"
        })
        .await;
        let document = parsed(&folder.document(id));
        assert_eq!(column(&document, "customers", "id"), [0; 0]);
        assert!(!column(&document, "orders", "id").contains(&&json!(41)));
        let held = entry(&service, id).await;
        assert!(held.export.is_some(), "what is certain can be fetched");
        assert_eq!(
            held.held.unwrap().customers.keys().collect::<Vec<_>>(),
            [&77]
        );
        let said = Decided {
            customers: [77].into(),
            ..Decided::default()
        };
        decide(&service, id, &said).await;
        is_done(&service, id).await;
        let document = parsed(&folder.document(id));
        assert_eq!(document["customer"], json!({"id": null}));
        assert_eq!(column(&document, "customers", "id"), [77]);
        let orders = column(&document, "orders", "id");
        assert!(orders.contains(&&json!(41)) && !orders.contains(&&json!(43)));
        assert!(column(&document, "payments", "id").contains(&&json!("pi_1")));
        assert!(!document.to_string().contains("somebody"));
        let requests = column(&document, "privacy_requests", "id");
        assert!(!requests.contains(&&json!(id)), "but for this one");
    }
    let third = ask(&service, &canary()).await;
    is_done(&service, third).await;
    let document = parsed(&folder.document(third));
    assert_eq!(
        column(&document, "privacy_requests", "id").len(),
        2,
        "earlier ones"
    );
    service.stop().await;
}

#[tokio::test]
async fn a_request_about_nobody_we_know_is_answered_too() {
    let folder = Folder::new();
    let service = folder.keeps(service().manual_clock()).start().await;
    let id = ask(&service, &json!({"id": 404})).await;
    is_done(&service, id).await;
    let document = parsed(&folder.document(id));
    let tables = document["data"].as_object().unwrap();
    assert!(tables.values().all(|rows| rows == &json!([])), "{tables:?}");
    assert_eq!(tables.len(), person_data::EXPORTED.len() + 1);
    service.stop().await;
}

#[tokio::test]
async fn deliveries_are_found_however_many_steps_the_scan_takes() {
    let folder = Folder::new();
    let service = folder.keeps(service().manual_clock()).start().await;
    history(&service).await;
    let (db, keys) = (service.db(), &service.parts.keys);
    let sought = Sought {
        shop: SHOP.to_owned(),
        customers: BTreeSet::from([77]),
        ..Sought::default()
    };
    let found = people::find(db, &sought).await.unwrap();
    let data = person_data::read(db, keys, &found, Uuid::nil()).await;
    assert!(!data.unwrap().is_empty());
    let mut scans = Vec::new();
    for step in [1, 3, 1000] {
        let mut scan = person_data::Scan::default();
        let mut steps = 0;
        while !scan.is_over {
            // As it is kept between two runs.
            let kept = serde_json::to_string(&scan).unwrap();
            scan = serde_json::from_str(&kept).unwrap();
            person_data::scan(db, &found, &mut scan, step)
                .await
                .unwrap();
            steps += 1;
        }
        // One for the shop, and one for what names no shop.
        assert_eq!(steps > 2, step < 1000, "{steps} steps of {step}");
        scans.push(scan.jobs);
    }
    assert_eq!(scans[0].len(), 6);
    assert_eq!(scans[0], scans[1]);
    assert_eq!(scans[0], scans[2]);
    service.stop().await;
}

#[tokio::test]
async fn what_another_run_has_found_is_in_the_export() {
    let folder = Folder::new();
    let service = folder.keeps(service().manual_clock()).start().await;
    insert_events(&service, 12_000).await;
    let row = service
        .db()
        .query("select id from deliveries order by id limit 1 offset 5");
    let foreign: Uuid = row.fetch_one().await.unwrap().get("id").unwrap();
    service.clock().pass_with_each_look(Duration::from_secs(1));
    post_all(
        &service,
        &[request(&json!({"email": "canary@example.com"}))],
    )
    .await;
    overtake(&service, |noted| {
        *noted = json!({
            "shops": 0, "after": Uuid::nil(), "jobs": [foreign], "is_over": false,
        });
    })
    .await;
    let id = ids(&service).await.into_iter().next().unwrap();
    is_done(&service, id).await;
    let document = parsed(&folder.document(id));
    assert!(column(&document, "deliveries", "id").contains(&&json!(foreign)));
    service.stop().await;
}

#[tokio::test]
async fn an_expired_export_is_removed_and_an_earlier_one_of_a_person_on_demand() {
    let folder = Folder::new();
    let service = folder.keeps(service().manual_clock()).start().await;
    let (parts, exports) = (&service.parts, folder.exports());
    let (first, second) = (
        ask(&service, &canary()).await,
        ask(&service, &canary()).await,
    );
    let by_mail = json!({"email": "canary@example.com"});
    let third = ask(&service, &by_mail).await;
    for id in [first, second, third] {
        is_done(&service, id).await;
        assert!(!exports.read(first_of(id)).await.unwrap().is_empty());
    }
    let about = async |subject: SubjectKey<'_>| {
        let keys = parts.keys.subject(SHOP, subject).into_iter().collect();
        privacy_requests::exports_about(service.db(), &keys)
            .await
            .unwrap()
    };
    let mail = SubjectKey::Email("canary@example.com");
    assert_eq!(
        about(SubjectKey::Customer(77)).await,
        [first, second].into()
    );
    assert!(about(mail).await.contains(&third));
    assert!(about(SubjectKey::Customer(88)).await.is_empty());

    workers::remove_all_of(parts, &exports, &[first])
        .await
        .unwrap();
    assert!(!folder.of(first).exists());
    assert_eq!(about(SubjectKey::Customer(77)).await, [second].into());
    assert!(about(mail).await.contains(&third));

    let retention = parts.config.privacy.export_retention;
    service
        .clock()
        .advance(retention.saturating_sub(Duration::from_millis(1)));
    assert_eq!(workers::remove_expired(parts, &exports).await.unwrap(), 0);
    assert!(folder.of(second).exists());
    service.clock().advance(Duration::from_millis(1));
    workers::remove_expired(parts, &exports).await.unwrap();
    for id in [first, second, third] {
        assert!(!folder.of(id).exists());
        let export = entry(&service, id).await.export.unwrap();
        assert!(export.removed_at.is_some());
        let audit = audit::list(service.db(), Some(&id.to_string()), 0, 100).await;
        let removals = audit.unwrap();
        let removals = removals.iter().filter(|it| it.action == "export.removed");
        assert_eq!(removals.count(), 1, "removed once");
    }
    assert_eq!(workers::remove_expired(parts, &exports).await.unwrap(), 0);
    service.stop().await;
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_tried_again() {
    let folder = Folder::new();
    // A file is where the folder should be.
    std::fs::create_dir_all(folder.path().parent().unwrap()).unwrap();
    std::fs::write(folder.path(), "in the way").unwrap();
    let service = folder.keeps(service().manual_clock()).start().await;
    history(&service).await;
    let id = ask(&service, &canary()).await;
    let error = failed(&service, id, 1).await;
    assert!(
        error.contains("COMMERCE_007") && error.contains("PRIVACY_EXPORT_URL"),
        "{error}"
    );
    std::fs::remove_file(folder.path()).unwrap();
    // Nor can a folder be replaced by the document.
    std::fs::create_dir_all(folder.of_run(id, 1).join("export.json")).unwrap();
    // What another version left.
    std::fs::write(folder.of_run(id, 1).join("export.json.part#1"), "half").unwrap();
    pause_is_over(&service);
    let entry = is_done(&service, id).await;
    assert_eq!(entry.export.unwrap().sha256, sha256(&folder.document(id)));
    assert_eq!(std::fs::read_dir(folder.of_run(id, 1)).unwrap().count(), 2);
    service.stop().await;
}

/// Names in the bucket of a request's exports.
fn names(bucket: &Bucket, id: Uuid) -> Vec<String> {
    let of_request = format!("some/prefix/{id}/");
    let objects = bucket.objects().into_keys();
    objects
        .filter_map(|name| Some(name.strip_prefix(&of_request)?.to_owned()))
        .collect()
}

/// The names of an export that one run wrote.
fn of_run(run: i64) -> [String; 2] {
    ["export.json", "manifest.json"].map(|name| format!("{run}/{name}"))
}

#[tokio::test]
async fn a_bucket_that_fails_is_tried_again_and_never_shows_half_an_export() {
    let bucket = Bucket::start().await;
    let service = keeps_in(&bucket, service().manual_clock()).start().await;
    history(&service).await;
    for (fault, reported) in [
        (Fault::Status(503), "status 503"),
        (Fault::Status(403), "refuses us"),
        (Fault::StatusOfWrites(507), "no room"),
        (Fault::StatusOfWrites(500), "status 500"),
        (Fault::NoCopies, "status 500"),
        (Fault::Cut, "COMMERCE_007"),
        (Fault::Corrupt, "other bytes"),
    ] {
        bucket.fails(Some(fault));
        let id = ask(&service, &canary()).await;
        let error = failed(&service, id, 1).await;
        assert!(error.contains(reported), "{fault:?}: {error}");
        assert_eq!(names(&bucket, id), [""; 0], "{fault:?}");
        bucket.fails(None);
        pause_is_over(&service);
        let entry = is_done(&service, id).await;
        let export = entry.export.unwrap();
        assert_eq!(names(&bucket, id), of_run(export.run));
        let document = &bucket.objects()[&format!("some/prefix/{id}/{}", of_run(export.run)[0])];
        assert_eq!(export.sha256, sha256(document));
        assert!(document.windows(6).any(|bytes| bytes == b"Canary"));
    }
    let done = ids(&service).await.into_iter().next().unwrap();
    let exports = Exports::new(&service.parts.config.privacy.exports);
    let export = Export {
        request: done,
        run: entry(&service, done).await.export.unwrap().run,
    };
    assert!(!exports.read(export).await.unwrap().is_empty());
    exports.remove_all(export).await.unwrap();
    exports.remove_all(export).await.unwrap();
    assert_eq!(names(&bucket, done), [""; 0]);
    assert_eq!(bucket.unsigned(), 0, "every request is signed");
    service.stop().await;
}

#[tokio::test]
async fn a_bucket_that_hangs_or_trickles_is_left_in_time() {
    let bucket = Bucket::start().await;
    let service = keeps_in(&bucket, service().manual_clock()).start().await;
    let mut requests = Vec::new();
    for fault in [Fault::Trickle, Fault::Hang] {
        bucket.fails(Some(fault));
        let id = ask(&service, &canary()).await;
        let error = failed(&service, id, 1).await;
        assert!(error.contains("does not answer"), "{fault:?}: {error}");
        requests.push(id);
    }
    bucket.fails(None);
    pause_is_over(&service);
    for id in requests {
        let export = is_done(&service, id).await.export.unwrap();
        assert_eq!(names(&bucket, id), of_run(export.run));
    }
    service.stop().await;
}

/// A service with a bucket that has its mark, because an export was written to it.
async fn with_marked_bucket() -> (Bucket, Service) {
    let bucket = Bucket::start().await;
    let service = keeps_in(&bucket, service().manual_clock()).start().await;
    history(&service).await;
    let first = ask(&service, &canary()).await;
    is_done(&service, first).await;
    (bucket, service)
}

#[tokio::test]
async fn a_run_that_goes_on_after_another_one_has_answered_writes_no_export() {
    let (bucket, service) = with_marked_bucket().await;
    bucket.fails(Some(Fault::HangOnce("GET")));
    let before = bucket.asked().len();
    let id = ask(&service, &canary()).await;
    // The person's data was read; it looks whether this is the right store.
    eventually("the store is asked for its mark", async || {
        let asked = bucket.asked();
        asked[before..].iter().any(|asked| asked.starts_with("GET"))
    })
    .await;
    service.clock().advance(LEASE);
    let export = is_done(&service, id).await.export.unwrap();
    let removals = bucket.asked().len();
    bucket.fails(None);
    pause(Duration::from_millis(500)).await;
    assert_eq!(names(&bucket, id), of_run(export.run));
    let document = &bucket.objects()[&format!("some/prefix/{id}/{}", of_run(export.run)[0])];
    assert_eq!(export.sha256, sha256(document));
    let asked = bucket.asked().split_off(removals);
    assert!(
        !asked.iter().any(|asked| asked.starts_with("PUT")),
        "{asked:?}"
    );
    let again = entry(&service, id).await.export.unwrap();
    assert_eq!(
        (again.run, again.expires_at),
        (export.run, export.expires_at)
    );
    service.stop().await;
}

#[tokio::test]
async fn a_run_that_goes_on_after_another_one_took_over_spoils_no_export() {
    let (bucket, service) = with_marked_bucket().await;
    bucket.fails(Some(Fault::HangOnce("PUT")));
    let id = ask(&service, &canary()).await;
    let asked = async |expected: String| {
        eventually("the store is asked", async || {
            bucket.asked().contains(&expected)
        })
        .await;
    };
    asked(format!("PUT some/prefix/{id}/1/export.json.part")).await;
    // Its claim ends, as that of a process that was stopped, and another run takes over.
    service.clock().advance(LEASE);
    let export = is_done(&service, id).await.export.unwrap();
    assert_eq!(export.run, 2);
    // Both runs have removed what may be there of the first one: it before it wrote, and the other
    // once its export was recorded. The first one goes on after that.
    let removal = format!("DELETE some/prefix/{id}/1/export.json.part");
    eventually(
        "the other run has removed what the first one left",
        async || {
            bucket
                .asked()
                .iter()
                .filter(|asked| **asked == removal)
                .count()
                == 2
        },
    )
    .await;
    bucket.fails(None);
    asked(format!("PUT some/prefix/{id}/1/manifest.json")).await;
    eventually("what the first run wrote is gone", async || {
        names(&bucket, id) == of_run(2)
    })
    .await;
    let document = &bucket.objects()[&format!("some/prefix/{id}/2/export.json")];
    assert_eq!(export.sha256, sha256(document));
    service.stop().await;
}

/// Waits until the export of a request is being written; what it holds has been read.
async fn is_writing(bucket: &Bucket) {
    eventually("the store is asked", async || {
        bucket.asked().iter().any(|asked| asked.starts_with("PUT"))
    })
    .await;
}

async fn write_tombstones(service: &Service) {
    let key = service.parts.keys.subject(SHOP, SubjectKey::Customer(77));
    let keys = BTreeMap::from([(SHOP, BTreeSet::from([key.unwrap()]))]);
    let mut tx = service.db().begin().await.unwrap();
    let now = service.clock().now();
    tombstones::write(&mut tx, &keys, now).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn an_export_that_an_erasure_passes_by_is_made_again() {
    let bucket = Bucket::start().await;
    let service = keeps_in(&bucket, service().manual_clock()).start().await;
    history(&service).await;
    bucket.fails(Some(Fault::Hang));
    let id = ask(&service, &canary()).await;
    is_writing(&bucket).await;
    write_tombstones(&service).await;
    records::edit(service.db(), "customers where id = 77", |_| "{}".to_owned()).await;
    bucket.fails(None);
    waits_for_the_erasure(&service, id).await;
    pause_is_over(&service);
    is_done(&service, id).await;
    let document = parsed(&bucket.objects()[&format!("some/prefix/{id}/2/export.json")]);
    assert_eq!(
        column(&document, "customers", "record"),
        [&json!({"schema": 1})]
    );
    service.stop().await;
}

#[tokio::test]
async fn an_export_waits_for_an_erasure_that_has_begun() {
    let folder = Folder::new();
    let service = folder.keeps(service().manual_clock()).start().await;
    write_tombstones(&service).await;
    let mut tx = service.db().begin().await.unwrap();
    tx.query(
        "insert into privacy_requests
            (id, topic, shop, customer_id, body_key, state, received_at, due_at)
         values ($1, 'customers/redact', $2, 77, $1, 'received', $3, $3)",
    )
    .bind(Uuid::from_u128(1))
    .bind(SHOP)
    .bind(service.clock().now().0)
    .execute()
    .await
    .unwrap();
    tx.commit().await.unwrap();
    let id = ask(&service, &canary()).await;
    waits_for_the_erasure(&service, id).await;
    service
        .execute(
            "update privacy_requests set state = 'done', finished_at = received_at
             where topic = 'customers/redact'",
        )
        .await;
    pause_is_over(&service);
    is_done(&service, id).await;
    service.stop().await;
}

#[tokio::test]
async fn a_request_for_data_and_an_erasure_that_come_together_get_in_no_ones_way() {
    let folder = Folder::new();
    let service = folder.keeps(service().manual_clock()).start().await;
    let customers: Vec<Value> = (100..120)
        .map(|id| json!({"id": id, "email": format!("nr{id}@example.com"), "phone": null}))
        .collect();
    let mut both = Vec::new();
    for customer in &customers {
        let redact = json!({
            "shop_id": 7, "shop_domain": SHOP, "customer": customer, "orders_to_redact": [],
        });
        both.push(request(customer));
        both.push(storefront("customers/redact", redact.to_string()));
    }
    post_all(&service, &both).await;
    let open = "select count(*) as n from privacy_requests where state <> 'done'";
    eventually("all are done", async || {
        // Slowly, because a claim lasts for a time on this clock.
        pause(Duration::from_millis(80)).await;
        service.clock().advance(Duration::from_secs(1));
        service.count(open).await == 0
    })
    .await;
    let failed = "select count(*) as n from jobs where queue = 'privacy' and attempts > 1";
    assert_eq!(service.count(failed).await, 0, "no run failed");
    service.stop().await;
}
