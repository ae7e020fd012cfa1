//! The journal of erasures: a database that was restored from an older backup is not served, and
//! nobody who was erased is back once it is.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::job::State;
use domain::privacy::journal::{Entry, begin};
use domain::privacy::{Decided, Keys, verify};
use domain::time::Timestamp;
use process::journal::JournalState;
use providers::exports::{Added, ExportStore, Exports};
use serde_json::{Value, json};
use store::{erasures, privacy_requests};
use uuid::Uuid;

use crate::both::privacy::erasure::places;
use crate::support::backend::{Backend, Backup, is_distributed, statement};
use crate::support::canary::{Found, address, email, phone, scan, scan_database, scan_files, word};
use crate::support::delivery::{Delivery, SHOP, storefront};
use crate::support::object_store::{Bucket, Fault};
use crate::support::operator::{json as json_of, parsed, ran, said, waybill};
use crate::support::order::{body, deliver, order_delivery, post_all, with};
use crate::support::payment::{event, intent};
use crate::support::process::{Lines, Process, command, free_port, run, settings};
use crate::support::requests::{decide, entry, posted};
use crate::support::{self, Options, PAYMENT_SECRET, STOREFRONT_SECRET, Service, eventually};

fn redact(customer: &Value, orders: &[i64]) -> Delivery {
    let body = json!({
        "shop_id": 1, "shop_domain": SHOP, "customer": customer, "orders_to_redact": orders,
    });
    storefront("customers/redact", body.to_string())
}

/// The number of a person's customer.
fn customer(person: usize) -> i64 {
    100_000 + i64::try_from(person).unwrap()
}

/// The number of a person's order.
fn order_id(person: usize) -> i64 {
    1000 + i64::try_from(person).unwrap()
}

/// Every fourth is a guest, whom an address or an order alone leads to.
fn is_guest(person: usize) -> bool {
    person.is_multiple_of(4)
}

/// The order of a person who consists of canaries.
fn order(person: usize) -> Delivery {
    let customer = json!({
        "id": customer(person), "email": email(person), "first_name": word(person, "first"),
    });
    let fields = json!({
        "email": email(person), "phone": phone(person), "note": word(person, "note"),
        "created_at": "2025-01-01T00:00:00Z",
        "customer": if is_guest(person) { Value::Null } else { customer },
        "shipping_address": address(person, "ship"),
    });
    let body = with(body(order_id(person), 1, "paid"), &fields);
    order_delivery("orders/create", &body).id(&format!("order-{person}"))
}

/// What erases a person: each is named in another way.
fn erasure(person: usize) -> Delivery {
    let id = customer(person);
    let asked = match person % 4 {
        0 if person.is_multiple_of(8) => redact(&json!({"email": email(person)}), &[]),
        0 => redact(&json!({}), &[order_id(person)]),
        1 => redact(
            &json!({"id": id, "email": email(person), "phone": phone(person)}),
            &[],
        ),
        2 => redact(&json!({"id": id}), &[order_id(person)]),
        _ => redact(&json!({"id": id, "email": email(person)}), &[]),
    };
    asked.id(&format!("redact-{person}"))
}

async fn is_done(service: &Service, id: Uuid) {
    eventually("the request is done", async || {
        entry(service, id).await.state == "done"
    })
    .await;
}

/// Erases people, one after the other, so that the journal has them in this sequence.
async fn erase(service: &Service, people: &[usize]) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for person in people {
        let id = posted(service, &erasure(*person)).await;
        is_done(service, id).await;
        ids.push(id);
    }
    ids
}

/// A service with the orders of people, and a copy of its database from before anybody was erased.
async fn copied(options: Options, people: &[usize]) -> (Service, Backup) {
    let service = options.start().await;
    let orders: Vec<Delivery> = people.iter().map(|person| order(*person)).collect();
    post_all(&service, &orders).await;
    service.settled().await;
    let backup = service.backend.back_up().await;
    (service, backup)
}

/// The folder of a service's exports.
fn folder(service: &Service) -> PathBuf {
    match &service.parts.config.privacy.exports {
        ExportStore::Folder(folder) => folder.clone(),
        ExportStore::S3(_) => panic!("it has a bucket"),
    }
}

/// The file of an entry.
fn file(service: &Service, number: i64) -> PathBuf {
    folder(service).join(format!("erasures/{number:010}.json"))
}

fn exports(service: &Service) -> Exports {
    Exports::new(&service.parts.config.privacy.exports)
}

/// A service on a copy, with the exports of the service that was copied.
async fn restored(backup: &Backup, of: &Service, options: Options) -> Service {
    let backend = Arc::new(Backend::restored(backup).await);
    let url = format!("file://{}", folder(of).display());
    options
        .setting("PRIVACY_EXPORT_URL", &url)
        .start_on(backend)
        .await
}

async fn readiness(service: &Service) -> (u16, Value) {
    let response = service.get("/readyz").send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn is_ready(service: &Service) {
    eventually("it is ready", async || {
        readiness(service).await.1["status"] == "ready"
    })
    .await;
}

/// Whether all but deliveries is refused, which are taken and wait.
async fn is_not_served(service: &Service) -> bool {
    let (status, says) = readiness(service).await;
    status == 200 && says["status"] == "degraded" && says["erasures"] != "current"
}

/// The command, with the settings of the service.
fn with_settings(service: &Service, arguments: &[&str]) -> Command {
    let mut command = waybill(service, arguments);
    command.env("STOREFRONT_WEBHOOK_SECRET", STOREFRONT_SECRET);
    command.env("PAYMENT_WEBHOOK_SECRET", PAYMENT_SECRET);
    command
}

/// The exit code of a run of the command, and all that it says.
async fn reapply(service: &Service, arguments: &[&str]) -> (i32, String) {
    let arguments = [&["privacy", "reapply"], arguments].concat();
    let output = run(with_settings(service, &arguments)).await;
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap(),
        String::from_utf8(said).unwrap(),
    )
}

/// The people of whom anything is left in the database and in the store of exports.
async fn left(service: &Service) -> Found {
    let mut found = Found::new();
    scan_database(&service.backend, &mut found).await;
    scan_files(&folder(service), &mut found);
    found
}

/// The receipt of a request that is done says what was erased, and is signed.
async fn has_receipt(service: &Service, id: Uuid) {
    let entry = entry(service, id).await;
    assert_eq!(entry.state, "done", "{id}");
    let receipt = entry.receipt.unwrap();
    let text = receipt["receipt"].as_str().unwrap();
    let signature = STANDARD
        .decode(receipt["signature"].as_str().unwrap())
        .unwrap();
    assert!(verify(
        &service.parts.keys.public(),
        text.as_bytes(),
        &signature
    ));
    let says: Value = serde_json::from_str(text).unwrap();
    assert_eq!(says["request_id"], id.to_string());
}

async fn audit_is_whole(service: &Service) {
    let checked = json_of(service, &["audit", "verify"]).await;
    assert_eq!(checked["broken"], Value::Null, "{checked}");
}

/// How often the audit says that somebody was erased.
async fn erased(service: &Service) -> i64 {
    service
        .count("select count(*) as n from audit where action = 'customer.erased'")
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_people_who_were_erased_are_not_back_after_a_restore() {
    const WAITING: usize = 500;
    const NEW: usize = 600;
    let people: Vec<usize> = (1..=100).collect();
    let (mut service, _) = copied(support::service(), &people).await;
    service.halt().await;
    // The copy has a job that waits, too.
    let intake = support::service()
        .without_workers()
        .start_beside(&service)
        .await;
    post_all(&intake, &[order(WAITING)]).await;
    let backup = intake.backend.back_up().await;
    let mut intake = intake;
    intake.start_workers();
    let mut ids = Vec::new();
    for person in &people {
        ids.push(posted(&intake, &erasure(*person)).await);
    }
    for id in &ids {
        is_done(&intake, *id).await;
    }
    let mut only_waiting = left(&intake).await;
    only_waiting.remove(&WAITING);
    assert_eq!(only_waiting, Found::new());
    intake.halt().await;

    let service = restored(&backup, &intake, support::service()).await;
    assert_eq!(left(&service).await.len(), 101, "the copy has them all");
    let (status, says) = readiness(&service).await;
    assert_eq!(
        (status, &says["erasures"]),
        (200, &json!("older")),
        "{says}"
    );
    let reason = says["reason"].as_str().unwrap();
    assert!(reason.contains("waybill privacy reapply"), "{reason}");
    // Deliveries are taken and wait, of somebody new and of those who were erased.
    let meanwhile = people.iter().step_by(7);
    let meanwhile = meanwhile.map(|person| order(*person).id(&format!("meanwhile-{person}")));
    let meanwhile: Vec<Delivery> = meanwhile.chain([order(NEW)]).collect();
    post_all(&service, &meanwhile).await;
    let key = service.api_key().await;
    let refused = service.get("/api/commerce/orders").bearer_auth(&key);
    let refused = refused.send().await.unwrap();
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "30");
    assert!(refused.text().await.unwrap().contains("nothing is lost"));
    let page = format!("/orders/{}/track", order_id(1));
    let page = service.get(&page).send().await.unwrap();
    assert_eq!(page.status(), 503);
    let waiting = i64::try_from(1 + meanwhile.len()).unwrap();
    assert_eq!(service.jobs(State::Ready).await, waiting);

    let (code, dry) = reapply(&service, &["--dry-run"]).await;
    assert_eq!(code, 3, "{dry}");
    assert_eq!(dry.matches("customers/redact").count(), 100, "{dry}");
    assert_eq!(erased(&service).await, 0);
    let (code, text) = reapply(&service, &["--by", "ann"]).await;
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("100 of 100 erasures were done again"),
        "{text}"
    );
    let mut said = Found::new();
    scan("output", text.as_bytes(), &mut said);
    assert_eq!(said, Found::new());
    is_ready(&service).await;
    service.settled().await;
    // They come late once more, as a provider sends what it got no answer to.
    let again = people
        .iter()
        .map(|person| order(*person).id(&format!("again-{person}")));
    post_all(&service, &again.collect::<Vec<_>>()).await;
    service.settled().await;
    let mut found = left(&service).await;
    for nobody_erased in [WAITING, NEW] {
        assert!(found.remove(&nobody_erased).is_some(), "{nobody_erased}");
    }
    assert_eq!(found, Found::new());
    for id in &ids {
        has_receipt(&service, *id).await;
    }
    assert_eq!(erased(&service).await, 100);
    audit_is_whole(&service).await;
    let (code, text) = reapply(&service, &[]).await;
    assert_eq!(
        (code, text.contains("nothing was to be")),
        (0, true),
        "{text}"
    );
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_was_restored_after_its_last_erasure_is_served() {
    let (mut first, _) = copied(support::service(), &[1, 2]).await;
    erase(&first, &[1]).await;
    let backup = first.backend.back_up().await;
    first.halt().await;
    let second = restored(&backup, &first, support::service()).await;
    assert_eq!(readiness(&second).await.1["status"], "ready");
    erase(&second, &[2]).await;
    assert_eq!(left(&second).await, Found::new());
    assert!(file(&second, 2).exists());
    second.stop().await;
}

/// The journal of three people, the copy from before, and a service on it.
async fn three() -> (Service, Service) {
    let (mut first, backup) = copied(support::service(), &[1, 2, 3]).await;
    erase(&first, &[1, 2, 3]).await;
    first.halt().await;
    let second = restored(&backup, &first, support::service()).await;
    (first, second)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_missing_is_noticed_and_all_others_are_done_again() {
    let (_first, service) = three().await;
    let missing = file(&service, 2);
    let bytes = std::fs::read(&missing).unwrap();
    std::fs::remove_file(&missing).unwrap();
    let (code, text) = reapply(&service, &[]).await;
    assert_eq!(code, 4, "{text}");
    assert!(text.contains("entry 2 of the journal is missing"), "{text}");
    let found: Vec<usize> = left(&service).await.into_keys().collect();
    assert_eq!(found, [2]);
    assert!(is_not_served(&service).await);
    std::fs::write(&missing, bytes).unwrap();
    let (code, text) = reapply(&service, &[]).await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(left(&service).await, Found::new());
    assert_eq!(erased(&service).await, 3, "each was done once");
    is_ready(&service).await;
    audit_is_whole(&service).await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_that_were_changed_forged_or_moved_are_noticed() {
    let (_first, service) = three().await;
    let (one, two, three) = (file(&service, 1), file(&service, 2), file(&service, 3));
    let whole = [&one, &two, &three].map(|file| std::fs::read(file).unwrap());
    let text = String::from_utf8(whole[1].clone()).unwrap();
    let changed = text
        .replace("customers/redact", "customers/redacT")
        .into_bytes();
    assert_ne!(changed, whole[1]);
    let read = Entry::read(&service.parts.keys, 2, &whole[1], None).unwrap();
    let first = Entry::read(&service.parts.keys, 1, &whole[0], None).unwrap();
    let theirs = Keys::new(vec![7; 32]);
    let forged = Entry::new(&theirs, 2, &first.hash, read.erased.clone()).bytes;
    let apart = Entry::new(
        &service.parts.keys,
        2,
        &begin(&service.parts.keys),
        read.erased,
    )
    .bytes;
    for (bytes, problem) in [
        (changed, "is not as it was written"),
        (forged, "is not as it was written"),
        (whole[2].clone(), "has the place of another entry"),
        (apart, "does not follow the entry before it"),
        (b"{}".to_vec(), "is not as it was written"),
    ] {
        std::fs::write(&two, &bytes).unwrap();
        let (code, text) = reapply(&service, &["--dry-run"]).await;
        assert_eq!(code, 4, "{problem}: {text}");
        assert!(
            text.contains(&format!("entry 2 of the journal {problem}")),
            "{text}"
        );
        std::fs::write(&two, &whole[1]).unwrap();
    }
    // Forged at the end it is noticed by who only looks there.
    std::fs::write(file(&service, 4), b"{}").unwrap();
    eventually("it is broken", async || {
        readiness(&service).await.1["erasures"] == "broken"
    })
    .await;
    std::fs::remove_file(file(&service, 4)).unwrap();
    let (code, text) = reapply(&service, &[]).await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(left(&service).await, Found::new());
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_lost_its_newest_entry_or_all_of_them_is_noticed() {
    let (service, _) = copied(support::service(), &[1, 2]).await;
    erase(&service, &[1, 2]).await;
    let bytes = std::fs::read(file(&service, 2)).unwrap();
    std::fs::remove_file(file(&service, 2)).unwrap();
    eventually("it is not served", async || is_not_served(&service).await).await;
    let (_, says) = readiness(&service).await;
    assert_eq!(says["erasures"], "incomplete", "{says}");
    assert!(
        says["reason"].as_str().unwrap().contains("entry 2"),
        "{says}"
    );
    std::fs::write(file(&service, 2), &bytes).unwrap();
    is_ready(&service).await;
    // Another host's folder, or a disk that is not mounted.
    std::fs::remove_dir_all(folder(&service)).unwrap();
    eventually("it is not served", async || is_not_served(&service).await).await;
    let (code, text) = reapply(&service, &[]).await;
    assert_eq!((code, text.contains("--journal-gone")), (4, true), "{text}");
    let (code, text) = reapply(&service, &["--journal-gone"]).await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(std::fs::read(file(&service, 2)).unwrap(), bytes);
    is_ready(&service).await;
    service.stop().await;
}

/// Nothing can be recorded as done until [`allow_ends`].
async fn refuse_ends(service: &Service) {
    let refusals: &[&str] = if is_distributed() {
        &[
            "create function refuse() returns trigger language plpgsql as
             'begin raise exception ''refused''; end'",
            "create trigger refused before update of state on privacy_requests for each row
             when (new.state = 'done') execute function refuse()",
        ]
    } else {
        &[
            "create trigger refused before update of state on privacy_requests for each row
             when new.state = 'done' begin select raise(abort, 'refused'); end",
        ]
    };
    for sql in refusals {
        service.execute(statement((*sql).to_owned())).await;
    }
}

async fn allow_ends(service: &Service) {
    let drop = if is_distributed() {
        "drop trigger refused on privacy_requests"
    } else {
        "drop trigger refused"
    };
    service.execute(drop).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_that_ends_between_its_entry_and_its_receipt_is_one_entry() {
    let (service, _) = copied(support::service().manual_clock(), &[1]).await;
    refuse_ends(&service).await;
    let id = posted(&service, &erasure(1)).await;
    eventually("it has failed twice", async || {
        service.pass(Duration::from_mins(1)).await;
        entry(&service, id).await.attempts > 1
    })
    .await;
    assert!(file(&service, 1).exists(), "the entry comes first");
    assert_eq!(entry(&service, id).await.receipt, None);
    let bytes = std::fs::read(file(&service, 1)).unwrap();
    let backup = service.backend.back_up().await;
    allow_ends(&service).await;
    eventually("it is done", async || {
        service.pass(Duration::from_mins(1)).await;
        entry(&service, id).await.state == "done"
    })
    .await;
    has_receipt(&service, id).await;
    assert_eq!(std::fs::read(file(&service, 1)).unwrap(), bytes);
    assert!(!file(&service, 2).exists(), "it is the same entry");

    // A copy from in between knows the entry; its own job ends what was begun.
    let clock = service.clock().clone();
    let options = support::service().without_workers().clock(&clock);
    let mut second = restored(&backup, &service, options).await;
    assert_eq!(readiness(&second).await.1["status"], "ready");
    allow_ends(&second).await;
    second.start_workers();
    eventually("it is done there too", async || {
        second.pass(Duration::from_mins(1)).await;
        entry(&second, id).await.state == "done"
    })
    .await;
    assert!(!file(&service, 2).exists());
    second.stop().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_who_erase_again_at_once_do_it_once() {
    let people: Vec<usize> = (1..=12).collect();
    let (mut first, backup) = copied(support::service(), &people).await;
    let ids = erase(&first, &people).await;
    first.halt().await;
    let service = restored(&backup, &first, support::service()).await;
    let (one, two) = tokio::join!(reapply(&service, &[]), reapply(&service, &[]));
    assert_eq!((one.0, two.0), (0, 0), "{} {}", one.1, two.1);
    assert_eq!(left(&service).await, Found::new());
    assert_eq!(erased(&service).await, 12);
    let again = "select count(*) as n from audit where action = 'erasures.reapplied'";
    assert_eq!(service.count(again).await, 1);
    for id in ids {
        has_receipt(&service, id).await;
    }
    audit_is_whole(&service).await;
    is_ready(&service).await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_killed_is_started_again_and_goes_on() {
    let people: Vec<usize> = (1..=12).collect();
    let (mut first, backup) = copied(support::service(), &people).await;
    erase(&first, &people).await;
    first.halt().await;
    let service = restored(&backup, &first, support::service()).await;
    let mut killed = Lines::of(with_settings(&service, &["privacy", "reapply"]));
    killed.until("3 of 12").await;
    killed.kill();
    assert!(is_not_served(&service).await);
    let (code, text) = reapply(&service, &[]).await;
    assert_eq!(code, 0, "{text}");
    assert!(text.matches("was done before").count() >= 2, "{text}");
    assert_eq!(left(&service).await, Found::new());
    assert_eq!(erased(&service).await, 12);
    audit_is_whole(&service).await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_operator_had_decided_is_erased_again_and_nobody_else() {
    let (service, backup) = copied(support::service(), &[]).await;
    let same = json!({"email": email(1), "phone": phone(1)});
    for (id, person, customer) in [(1, 1, 11), (2, 2, 12), (3, 3, 13)] {
        let fields = json!({
            "email": email(1), "customer": {"id": customer, "email": email(1),
            "first_name": word(person, "first")}, "shipping_address": address(person, "ship"),
            "note": null, "phone": null,
        });
        let body = with(body(id, 1, "paid"), &fields);
        deliver(&service, &order_delivery("orders/create", &body)).await;
    }
    drop(backup);
    let backup = service.backend.back_up().await;
    let id = posted(&service, &redact(&same, &[])).await;
    eventually("it is held", async || {
        entry(&service, id).await.state == "held"
    })
    .await;
    let said = Decided {
        customers: [11, 12].into(),
        is_all: true,
        ..Decided::default()
    };
    decide(&service, id, &said).await;
    is_done(&service, id).await;
    let after: Vec<usize> = left(&service).await.into_keys().collect();
    let mut service = service;
    service.halt().await;

    let second = restored(&backup, &service, support::service()).await;
    let (code, text) = reapply(&second, &[]).await;
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("1 of 1 erasures"),
        "its two steps are one: {text}"
    );
    let again: Vec<usize> = left(&second).await.into_keys().collect();
    assert_eq!(again, after);
    has_receipt(&second, id).await;
    let decided = entry(&second, id).await.decided.unwrap();
    assert_eq!((decided.customers, decided.is_all), ([11, 12].into(), true));
    audit_is_whole(&second).await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_left_only_in_what_nobody_could_work_on_is_found_and_erased_again() {
    let (service, _) = copied(support::service(), &[]).await;
    // A dead letter that mentions an address, and a payment that no order leads to.
    let unreadable = json!({"id": "no number", "email": email(1), "note": word(1, "note")});
    let dead = order_delivery("orders/create", &unreadable);
    assert_eq!(service.answer(&dead).await.0, 200);
    let mut payment = intent("pi_1", "succeeded", 900, None);
    payment["receipt_email"] = json!(email(1));
    let paid = event(&service, "payment_intent.succeeded", 1, &payment);
    assert_eq!(service.answer(&paid).await.0, 200);
    service.settled().await;
    assert_eq!(service.jobs(State::Dead).await, 1);
    let backup = service.backend.back_up().await;
    let id = posted(&service, &redact(&json!({"id": 5, "email": email(1)}), &[])).await;
    is_done(&service, id).await;
    assert_eq!(left(&service).await, Found::new());
    let mut service = service;
    service.halt().await;
    let second = restored(&backup, &service, support::service()).await;
    assert_eq!(left(&second).await.len(), 1);
    let (code, text) = reapply(&second, &[]).await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(left(&second).await, Found::new());
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shop_that_was_erased_is_erased_again_without_its_hold() {
    let options = || support::service().setting("PRIVACY_SHOP_REDACT_HOLD_SECONDS", "0");
    let (service, backup) = copied(options(), &[1, 2]).await;
    let body = json!({"shop_id": 1, "shop_domain": SHOP}).to_string();
    let id = posted(&service, &storefront("shop/redact", body)).await;
    is_done(&service, id).await;
    let mut service = service;
    service.halt().await;
    let second = restored(&backup, &service, support::service()).await;
    let (code, text) = reapply(&second, &[]).await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(left(&second).await, Found::new());
    assert_eq!(second.count("select count(*) as n from orders").await, 0);
    has_receipt(&second, id).await;
    is_ready(&second).await;
    post_all(&second, &[order(1).id("late")]).await;
    second.settled().await;
    assert_eq!(
        left(&second).await,
        Found::new(),
        "the shop's tombstone is back"
    );
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_export_goes_out_of_a_database_that_is_older_than_its_journal() {
    let (service, _) = copied(support::service(), &[1, 3]).await;
    let asked = json!({
        "shop_id": 1, "shop_domain": SHOP, "customer": {"id": customer(3)},
        "orders_requested": [], "data_request": {"id": 3},
    });
    let export = posted(
        &service,
        &storefront("customers/data_request", asked.to_string()),
    )
    .await;
    is_done(&service, export).await;
    let backup = service.backend.back_up().await;
    erase(&service, &[1]).await;
    let mut service = service;
    service.halt().await;
    let mut second = restored(&backup, &service, support::service()).await;
    let printed = ran(&second, &["privacy", "export", &export.to_string()]).await;
    assert_eq!(printed.status.code(), Some(1));
    let why = String::from_utf8(printed.stderr).unwrap();
    assert!(why.contains("waybill privacy reapply"), "{why}");
    let mut found = Found::new();
    scan("output", &printed.stdout, &mut found);
    assert_eq!(found, Found::new());
    let key = second.api_key().await;
    let path = format!("/api/privacy/requests/{export}/export-link");
    let link = second
        .post_to(&path)
        .bearer_auth(&key)
        .send()
        .await
        .unwrap();
    assert_eq!(link.status(), 503);
    let console = second.console().await;
    let page = reqwest::get(format!("{}/privacy", console.url))
        .await
        .unwrap();
    assert_eq!(page.status(), 503);
    assert!(
        page.text()
            .await
            .unwrap()
            .contains("waybill privacy reapply")
    );
    assert_eq!(reapply(&second, &[]).await.0, 0);
    is_ready(&second).await;
    let whole = said(&second, &["privacy", "export", &export.to_string()]).await;
    assert!(whole.contains(&word(3, "note")), "{whole}");
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_names_what_is_wrong_with_the_journal_and_the_mend() {
    let (mut first, backup) = copied(support::service(), &[1]).await;
    erase(&first, &[1]).await;
    first.halt().await;
    let service = restored(&backup, &first, support::service()).await;
    let finding = async || {
        let report = parsed(&run(with_settings(&service, &["doctor", "--json"])).await);
        let findings = report["findings"].as_array().unwrap().clone();
        let mut of_journal = findings
            .into_iter()
            .filter(|it| it["check"] == "journal of erasures");
        of_journal.next().unwrap_or_else(|| panic!("{report}"))
    };
    let found = finding().await;
    assert_eq!(found["level"], "failed", "{found}");
    let advice = found["advice"].as_str().unwrap();
    assert!(advice.contains("waybill privacy reapply"), "{found}");
    assert_eq!(reapply(&service, &[]).await.0, 0);
    let found = finding().await;
    assert_eq!(found["level"], "ok", "{found}");
    service.stop().await;
}

fn in_bucket(bucket: &Bucket, options: Options) -> Options {
    let settings = bucket.settings().into_iter();
    settings.fold(options, |options, (name, value)| {
        options.setting(name, &value)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_keeps_the_journal_and_no_erasure_ends_without_it() {
    let bucket = Bucket::start().await;
    let options = || in_bucket(&bucket, support::service());
    let (service, backup) = copied(options().manual_clock(), &[1, 2, 3, 4, 5, 6, 7]).await;
    bucket.fails(Some(Fault::StatusOfWrites(503)));
    let id = posted(&service, &erasure(2)).await;
    eventually("it fails", async || {
        service.pass(Duration::from_mins(1)).await;
        entry(&service, id).await.attempts > 1
    })
    .await;
    let row = entry(&service, id).await;
    assert_eq!((row.state.as_str(), row.receipt), ("received", None));
    assert_eq!(
        places(&service, "nry-00002").await,
        Vec::<String>::new(),
        "rows are erased"
    );
    bucket.fails(None);
    eventually("it is done", async || {
        service.pass(Duration::from_mins(1)).await;
        entry(&service, id).await.state == "done"
    })
    .await;
    let mut ids = vec![id];
    for person in [1, 3, 4, 5, 6, 7] {
        ids.extend(erase(&service, &[person]).await);
    }
    let names = bucket.objects().into_keys();
    let entries = names.filter(|name| name.contains("/erasures/")).count();
    assert_eq!(entries, 7);
    let mut service = service;
    service.halt().await;

    let backend = Arc::new(Backend::restored(&backup).await);
    let second = options().start_on(backend).await;
    assert_eq!(
        second.parts.journal.state(),
        JournalState::Older {
            known: 0,
            newest: 7
        }
    );
    let mut command = with_settings(&second, &["privacy", "reapply"]);
    command.envs(bucket.settings());
    let output = run(command).await;
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let mut found = Found::new();
    scan_database(&second.backend, &mut found).await;
    for (name, bytes) in bucket.objects() {
        scan(&name, &bytes, &mut found);
    }
    assert_eq!(found, Found::new());
    for id in ids {
        has_receipt(&second, id).await;
    }
    is_ready(&second).await;
    assert_eq!(bucket.unsigned(), 0);
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_write_the_same_number_one_is_told() {
    let bucket = Bucket::start().await;
    let (service, _) = copied(in_bucket(&bucket, support::service()), &[1]).await;
    let exports = exports(&service);
    let (one, two) = tokio::join!(
        exports.add_erasure(1, b"one".to_vec()),
        exports.add_erasure(1, b"two".to_vec())
    );
    let mut added = [one.unwrap(), two.unwrap()];
    added.sort_by_key(|added| *added == Added::Taken);
    assert_eq!(added, [Added::Written, Added::Taken]);
    let kept = exports.erasure(1).await.unwrap().unwrap();
    assert!(kept == *b"one".as_slice() || kept == *b"two".as_slice());
    assert_eq!(exports.erasures_after(0).await.unwrap(), [1]);
    let probed = exports.probe(Uuid::from_u128(1)).await;
    assert_eq!(probed, Ok(true));
    bucket.fails(Some(Fault::Overwrites));
    let probed = exports.probe(Uuid::from_u128(1)).await;
    assert!(probed.unwrap_err().to_string().contains("If-None-Match"));
    bucket.fails(None);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_whose_number_another_one_has_taken_does_not_end() {
    // The clock stands still, so that nobody looks at the journal meanwhile.
    let (service, _) = copied(support::service().manual_clock(), &[1]).await;
    let taken = file(&service, 1);
    std::fs::create_dir_all(taken.parent().unwrap()).unwrap();
    std::fs::write(&taken, "of another database").unwrap();
    let id = posted(&service, &erasure(1)).await;
    eventually("it has failed", async || {
        entry(&service, id).await.attempts > 0
    })
    .await;
    let row = entry(&service, id).await;
    assert_eq!((row.state.as_str(), row.receipt), ("received", None));
    let error = row.last_error.unwrap();
    assert!(error.contains("another entry 1"), "{error}");
    assert_eq!(erased(&service).await, 0);
    assert_eq!(std::fs::read(&taken).unwrap(), b"of another database");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_databases_that_both_believe_to_be_the_one_in_use_one_notices() {
    // Both begin with the same copy, and neither has looked since the other has erased somebody.
    let (mut first, backup) = copied(support::service(), &[1, 2]).await;
    let second = restored(&backup, &first, support::service().without_workers()).await;
    assert_eq!(readiness(&second).await.1["status"], "ready");
    erase(&first, &[1]).await;
    first.halt().await;
    let mut second = second;
    // The second gives the number 1 to an erasure of its own.
    let mut tx = second.db().begin().await.unwrap();
    let bytes = std::fs::read(file(&second, 1)).unwrap();
    let entry = Entry::read(&second.parts.keys, 1, &bytes, None).unwrap();
    let other = domain::privacy::journal::Erased {
        job: Uuid::from_u128(1),
        ..entry.erased
    };
    erasures::add(&mut tx, &second.parts.keys, other)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    eventually("it is older", async || {
        readiness(&second).await.1["erasures"] == "older"
    })
    .await;
    second.start_workers();
    let (code, text) = reapply(&second, &[]).await;
    assert_eq!(code, 0, "{text}");
    is_ready(&second).await;
    // From then on its own erasures get the numbers after.
    erase(&second, &[2]).await;
    assert!(file(&second, 2).exists());
    assert_eq!(left(&second).await, Found::new());
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_could_not_look_yet_takes_deliveries_and_one_that_could_goes_on() {
    let bucket = Bucket::start().await;
    let options = || in_bucket(&bucket, support::service().without_workers());
    bucket.fails(Some(Fault::Status(503)));
    let late = options().start().await;
    let (status, says) = readiness(&late).await;
    assert_eq!(
        (status, &says["erasures"]),
        (200, &json!("unknown")),
        "{says}"
    );
    assert_eq!(late.answer(&order(1)).await.0, 200);
    assert_eq!(late.answer(&order(1)).await.0, 409, "it remembers them");
    let paid = event(
        &late,
        "payment_intent.succeeded",
        1,
        &intent("pi_1", "succeeded", 900, None),
    );
    assert_eq!(late.answer(&paid).await.0, 200);
    assert_eq!(
        late.get("/orders/1001/track")
            .send()
            .await
            .unwrap()
            .status(),
        503
    );
    bucket.fails(None);
    is_ready(&late).await;
    assert_eq!(late.answer(&order(2)).await.0, 200);
    bucket.fails(Some(Fault::Status(503)));
    let looked = bucket.asked().len();
    eventually("it has looked again", async || {
        bucket.asked().len() > looked + 1
    })
    .await;
    assert_eq!(
        readiness(&late).await.1["status"],
        "ready",
        "the last result counts"
    );
    bucket.fails(None);
    late.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_processes_refuse_and_are_served_again_without_a_restart() {
    let (mut first, backup) = copied(support::service(), &[1]).await;
    erase(&first, &[1]).await;
    first.halt().await;
    let backend = Backend::restored(&backup).await;
    let port = free_port();
    let mut settings = settings(&backend, port);
    let url = format!("file://{}", folder(&first).display());
    settings.retain(|(name, _)| name != "PRIVACY_EXPORT_URL");
    settings.push(("PRIVACY_EXPORT_URL".to_owned(), url));
    settings.push(("CONSOLE_ADDR".to_owned(), "off".to_owned()));
    let mut process = Process::start("waybill", &["serve"], &settings);
    let page = async |path: &str| {
        let asked = reqwest::get(format!("http://127.0.0.1:{port}{path}")).await;
        match asked {
            Ok(response) => response.text().await.unwrap_or_default(),
            Err(_) => String::new(),
        }
    };
    let status = async || page("/readyz").await;
    let is_current = async |value: &str| {
        let line = format!("\nwaybill_erasure_journal_current {value}\n");
        page("/metrics").await.contains(&line)
    };
    eventually("it listens", async || !status().await.is_empty()).await;
    assert!(status().await.contains("older"), "{}", status().await);
    assert!(is_current("0").await, "it is not served");
    let mut command = command("waybill", &[]);
    command.args(["privacy", "reapply", "--json"]);
    command.envs(settings.iter().cloned());
    let output = run(command).await;
    let done = parsed(&output);
    assert_eq!(output.status.code(), Some(0), "{done}");
    assert_eq!(
        (&done["erased"], &done["is_current"]),
        (&json!(1), &json!(true)),
        "{done}"
    );
    eventually("it is ready", async || status().await.contains("ready")).await;
    assert!(is_current("1").await, "it is served");
    assert!(process.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_the_copy_has_is_ended_with_the_job_that_is_there() {
    let (service, _) = copied(support::service(), &[1]).await;
    let mut service = service;
    service.halt().await;
    let intake = support::service()
        .without_workers()
        .start_beside(&service)
        .await;
    let id = posted(&intake, &erasure(1)).await;
    let backup = intake.backend.back_up().await;
    let mut intake = intake;
    intake.start_workers();
    is_done(&intake, id).await;
    intake.halt().await;
    let second = restored(&backup, &intake, support::service()).await;
    assert_eq!(entry(&second, id).await.state, "received");
    assert_eq!(reapply(&second, &[]).await.0, 0);
    has_receipt(&second, id).await;
    is_ready(&second).await;
    second.settled().await;
    assert_eq!(second.jobs(State::Dead).await, 0);
    assert_eq!(left(&second).await, Found::new());
    let received = "select count(*) as n from audit where action = 'request.received'";
    assert_eq!(second.count(received).await, 1);
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_leave_what_waits_in_a_database_that_is_older_than_its_journal() {
    let (mut service, _) = copied(support::service(), &[1]).await;
    service.halt().await;
    let mut intake = support::service()
        .without_workers()
        .start_beside(&service)
        .await;
    post_all(&intake, &[order(2), order(3)]).await;
    // A copy remembers when workers were notified. These jobs are as if nobody had been, so that the
    // first sweep after the restore notifies workers of them.
    intake
        .execute("update jobs set notified_at = null where state = 'ready'")
        .await;
    let backup = intake.backend.back_up().await;
    intake.start_workers();
    erase(&intake, &[1]).await;
    intake.halt().await;
    let second = restored(&backup, &intake, support::service()).await;
    assert!(is_not_served(&second).await);
    // Either job is seen as notified, or has ended since.
    let begun = "select count(*) as n from jobs join deliveries on deliveries.id = jobs.id
                 where external_id in ('order-2', 'order-3') and (notified_at is not null or state = 'done')";
    eventually("workers are notified of both", async || {
        second.count(begun).await == 2
    })
    .await;
    assert_eq!(reapply(&second, &[]).await.0, 0);
    is_ready(&second).await;
    second.settled().await;
    let after_it = "select count(*) as n from jobs join deliveries on deliveries.id = jobs.id
                    where external_id in ('order-2', 'order-3') and state = 'done'
                    and finished_at >= (select max(kept_at) from erasures)";
    assert_eq!(second.count(after_it).await, 2);
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_late_and_was_erased_is_erased_again() {
    let (service, _) = copied(support::service(), &[]).await;
    // A payment with an address of its own, to which only an order leads that is not here yet.
    let mut payment = intent("pi_1", "succeeded", 900, Some("PA-1"));
    payment["receipt_email"] = json!(email(2));
    let paid = event(&service, "payment_intent.succeeded", 1, &payment);
    assert_eq!(service.answer(&paid).await.0, 200);
    service.settled().await;
    let id = posted(&service, &redact(&json!({"id": customer(1)}), &[])).await;
    is_done(&service, id).await;
    let backup = service.backend.back_up().await;
    assert_eq!(left(&service).await.into_keys().collect::<Vec<_>>(), [2]);
    let fields = json!({
        "customer": {"id": customer(1)}, "email": null, "phone": null, "note": null,
        "shipping_address": null, "created_at": "2020-01-01T00:00:00Z",
        "note_attributes": [{"name": "pact_id", "value": "PA-1"}],
    });
    deliver(
        &service,
        &order_delivery("orders/create", &with(body(1, 1, "paid"), &fields)),
    )
    .await;
    eventually("the payment is erased too", async || {
        left(&service).await.is_empty()
    })
    .await;
    service.settled().await;
    let mut service = service;
    service.halt().await;
    let second = restored(&backup, &service, support::service()).await;
    let (code, text) = reapply(&second, &[]).await;
    assert_eq!(code, 0, "{text}");
    assert_eq!(left(&second).await, Found::new());
    is_ready(&second).await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tombstone_that_is_written_again_is_as_old_as_the_erasure() {
    // Long before the command's clock.
    let begun = Timestamp(1_760_000_000_000);
    let clock = platform::clock::Clock::manual(begun);
    let (service, backup) = copied(support::service().clock(&clock), &[1]).await;
    let at = "select max(redacted_at) as n from tombstones";
    erase(&service, &[1]).await;
    let first: i64 = service.count(at).await;
    assert_eq!(Timestamp(first), begun);
    let mut service = service;
    service.halt().await;
    let second = restored(&backup, &service, support::service()).await;
    assert_eq!(reapply(&second, &[]).await.0, 0);
    let again = second.count(at).await;
    assert_eq!(again, first, "who came back since is not erased");
    let kept: BTreeMap<Uuid, String> =
        privacy_requests::list(second.db(), &privacy_requests::Filter::default(), 10)
            .await
            .unwrap()
            .into_iter()
            .map(|entry| (entry.id, entry.state))
            .collect();
    assert_eq!(kept.into_values().collect::<Vec<_>>(), ["done"]);
    second.stop().await;
}
