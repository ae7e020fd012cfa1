//! `waybill privacy` and `waybill audit`, tested on the database of a service without workers.

use std::time::Duration;

use domain::privacy::State as Progress;
use domain::privacy::transparency::{Tree, record_hash};
use futures_util::future::join_all;
use serde_json::{Value, json};
use store::privacy_requests::{self, ActionRefused, By};
use store::{audit, jobs};
use uuid::Uuid;

use crate::support::backend::statement;
use crate::support::requests::{
    complete, entry, export, give_up, posted, printed, request, waybill,
};
use crate::support::{Service, service};

const DATA: &str = "customers/data_request";
const REDACT: &str = "customers/redact";
const SHOP: &str = "shop/redact";

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What a command says that must fail with exit code 1.
async fn refused(service: &Service, arguments: &[&str]) -> String {
    let output = waybill(service, &[], arguments).await;
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    text(&output.stderr)
}

/// What a command says that must succeed.
async fn said(service: &Service, arguments: &[&str]) -> String {
    let output = waybill(service, &[], arguments).await;
    let error = text(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    text(&output.stdout)
}

/// The rows of a list.
async fn items(service: &Service, arguments: &[&str]) -> Value {
    json(service, arguments).await["items"].take()
}

async fn json(service: &Service, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["--json"]].concat();
    printed(&waybill(service, &[], &arguments).await)
}

/// Sets by when a request must be done, in hours from now.
async fn due_in(service: &Service, id: Uuid, hours: i64) {
    let due_at = service.clock().now().0 + hours * 3_600_000;
    let mut tx = service.db().begin().await.unwrap();
    tx.query("update privacy_requests set due_at = $1 where id = $2")
        .bind(due_at)
        .bind(id)
        .execute()
        .await
        .unwrap();
    tx.commit().await.unwrap();
}

fn by<'a>(service: &'a Service, actor: &'a str) -> By<'a> {
    By {
        keys: &service.parts.keys,
        actor,
        now: service.clock().now(),
    }
}

#[tokio::test]
async fn requests_are_listed_by_their_deadlines_with_the_days_that_are_left() {
    let service = service().without_workers().start().await;
    assert_eq!(
        said(&service, &["privacy", "list"]).await,
        "No privacy requests.\n"
    );
    let far = posted(&service, &request(DATA, 1)).await;
    let overdue = posted(&service, &request(REDACT, 2)).await;
    let near = posted(&service, &request(SHOP, 3)).await;
    let done = posted(&service, &request(REDACT, 4)).await;
    due_in(&service, far, 20 * 24 + 1).await;
    due_in(&service, near, 37).await;
    due_in(&service, overdue, -35).await;
    complete(&service, done).await;
    give_up(&service, overdue, "the store of exports is away").await;

    let table = said(&service, &["privacy", "list"]).await;
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("DUE "), "{table}");
    assert_eq!(lines.len(), 4, "{table}");
    for (line, parts) in lines[1..].iter().zip([
        [
            &*overdue.to_string(),
            "failed",
            "1d ago",
            " 7 ",
            "the store of exports is away",
        ],
        [&*near.to_string(), "held", "in 36h", " 0", SHOP],
        [&*far.to_string(), "received", "in 20d", " 0", DATA],
    ]) {
        for part in parts {
            assert!(line.contains(part), "{part} in {line}");
        }
    }
    let ids = async |arguments: &[&str]| -> Vec<String> {
        let list = items(&service, &[&["privacy", "list"], arguments].concat()).await;
        let list = list.as_array().unwrap().iter();
        list.map(|it| it["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids(&["--limit", "1"]).await, [overdue.to_string()]);
    assert_eq!(ids(&["--state", "done"]).await, [done.to_string()]);
    assert_eq!(ids(&["--topic", DATA]).await, [far.to_string()]);
    assert_eq!(ids(&["--all"]).await.len(), 4);
    assert_eq!(ids(&["--all", "--topic", REDACT]).await.len(), 2);
    assert_eq!(ids(&["--shop", "WAYBILL-sandbox.example"]).await.len(), 3);
    assert_eq!(ids(&["--shop", "other.example"]).await.len(), 0);
    let wrong = waybill(&service, &[], &["privacy", "list", "--state", "late"]).await;
    assert_eq!(wrong.status.code(), Some(2));
    service.stop().await;
}

#[tokio::test]
async fn an_empty_list_says_where_the_finished_requests_are() {
    let service = service().without_workers().start().await;
    let id = posted(&service, &request(REDACT, 1)).await;
    complete(&service, id).await;
    let none = said(&service, &["privacy", "list"]).await;
    assert!(
        none.contains("1 are finished, and listed with `all`"),
        "{none}"
    );
    let all = said(&service, &["privacy", "list", "--all"]).await;
    assert!(all.contains(&id.to_string()), "{all}");
    let done = said(&service, &["privacy", "list", "--state", "failed"]).await;
    assert_eq!(done, "No privacy requests.\n");
    service.stop().await;
}

#[tokio::test]
async fn a_request_is_shown_with_what_an_operator_may_do() {
    let service = service().without_workers().start().await;
    let first = posted(&service, &request(SHOP, 1)).await;
    let again = posted(&service, &request(SHOP, 1)).await;
    let show = said(&service, &["privacy", "show", &again.to_string()]).await;
    for part in [
        "held",
        "Nothing is done until you say that it is meant",
        &format!("waybill privacy confirm {again}"),
        &format!("waybill privacy cancel {again}"),
        &format!("WARNING: its body is that of the earlier request {first}"),
        "request.received",
    ] {
        assert!(show.contains(part), "{part} in\n{show}");
    }
    let shown = said(&service, &["privacy", "show", &first.to_string()]).await;
    assert!(!shown.contains("WARNING"), "{shown}");
    assert!(shown.contains("It is held until "), "{shown}");
    let shown = json(&service, &["privacy", "show", &again.to_string()]).await;
    assert_eq!(shown["repeats"], first.to_string());
    assert_eq!(shown["audit"][0]["action"], "request.received");
    assert_eq!(shown["audit"][0]["actor"], "storefront");
    let failed = posted(&service, &request(DATA, 1)).await;
    give_up(&service, failed, "away").await;
    let shown = said(&service, &["privacy", "show", &failed.to_string()]).await;
    assert!(shown.contains("failed (COMMERCE_007)"), "{shown}");
    assert!(shown.contains("waybill privacy retry"), "{shown}");
    let nobody = refused(&service, &["privacy", "show", &Uuid::nil().to_string()]).await;
    assert!(nobody.contains("there is no privacy request"), "{nobody}");
    // The sample customer's address is in the job's body alone.
    let body = sandbox::sample::storefront(DATA, 1, 0).unwrap();
    let body: Value = serde_json::from_str(&body).unwrap();
    let email = body["customer"]["email"].as_str().unwrap();
    assert!(!shown.contains(email));
    service.stop().await;
}

#[tokio::test]
async fn a_request_that_failed_is_run_again_and_no_other() {
    let service = service().without_workers().start().await;
    let id = posted(&service, &request(DATA, 1)).await;
    let retry = ["privacy", "retry", &id.to_string(), "--by", "ann"];
    let early = refused(&service, &retry).await;
    assert!(
        early.contains("is received; only one that failed"),
        "{early}"
    );
    give_up(&service, id, "away").await;
    assert!(said(&service, &retry).await.contains("is received"));
    let entry = entry(&service, id).await;
    assert_eq!((entry.state.as_str(), entry.attempts), ("received", 0));
    assert!(entry.next_run_at.is_some(), "its job is ready");
    assert!(
        refused(&service, &retry)
            .await
            .contains("only one that failed")
    );
    let object = id.to_string();
    let audit = items(&service, &["audit", "list", "--object", &object]).await;
    let audit = audit.as_array().unwrap();
    assert_eq!(audit.len(), 2);
    assert_eq!(
        (&audit[1]["action"], &audit[1]["actor"]),
        (&json!("request.retried"), &json!("operator:ann"))
    );
    service.stop().await;
}

#[tokio::test]
async fn a_dead_request_that_is_requeued_as_a_job_is_received_again() {
    let service = service().without_workers().start().await;
    let id = posted(&service, &request(DATA, 1)).await;
    give_up(&service, id, "away").await;
    said(&service, &["dead", "requeue", &id.to_string()]).await;
    assert_eq!(entry(&service, id).await.state, "received");
    service.stop().await;
}

#[tokio::test]
async fn the_erasure_of_a_shop_is_cancelled_while_it_is_held_and_not_after() {
    let service = service().without_workers().start().await;
    let id = posted(&service, &request(SHOP, 1)).await;
    let cancel = ["privacy", "cancel", &id.to_string()];
    assert!(said(&service, &cancel).await.contains("is cancelled"));
    let cancelled = entry(&service, id).await;
    assert_eq!(
        (cancelled.state.as_str(), cancelled.next_run_at),
        ("cancelled", None)
    );
    assert!(cancelled.finished_at.is_some());
    let job = jobs::show(service.db(), id).await.unwrap().unwrap();
    assert_eq!((job.state.as_str(), job.body_bytes), ("done", None));
    assert!(
        refused(&service, &cancel)
            .await
            .contains("was cancelled before")
    );

    let begun = posted(&service, &request(SHOP, 1)).await;
    let mut tx = service.db().begin().await.unwrap();
    let now = service.clock().now();
    let from = [Progress::Held];
    let moved = privacy_requests::set_state(&mut tx, begun, &from, Progress::Received, now);
    assert!(moved.await.unwrap());
    tx.commit().await.unwrap();
    let late = refused(&service, &["privacy", "cancel", &begun.to_string()]).await;
    assert!(late.contains("has begun"), "{late}");
    let job = jobs::show(service.db(), begun).await.unwrap().unwrap();
    assert_eq!(job.state, "ready", "nothing was changed");
    assert!(job.body_bytes.is_some());
    give_up(&service, begun, "away").await;
    let late = refused(&service, &["privacy", "cancel", &begun.to_string()]).await;
    assert!(late.contains("waybill privacy retry"), "{late}");

    for topic in [DATA, REDACT] {
        let id = posted(&service, &request(topic, 1)).await;
        let duty = refused(&service, &["privacy", "cancel", &id.to_string()]).await;
        assert!(duty.contains("legal duty"), "{duty}");
        assert_eq!(entry(&service, id).await.state, "received");
    }
    let actions = "select count(*) as n from audit where action = 'request.cancelled'";
    assert_eq!(service.count(actions).await, 1);
    service.stop().await;
}

#[tokio::test]
async fn of_many_who_cancel_at_once_one_does() {
    let service = service().without_workers().start().await;
    for seed in 0..5 {
        let id = posted(&service, &request(SHOP, seed)).await;
        let cancel = || privacy_requests::cancel(service.db(), by(&service, "operator"), id);
        let ended = join_all((0..4).map(|_| cancel())).await;
        let done = ended.iter().filter(|ended| ended.is_ok()).count();
        assert_eq!(done, 1, "{ended:?}");
        let late = |ended: &Result<(), ActionRefused>| {
            matches!(ended, Err(ActionRefused::NotHeld(Progress::Cancelled)))
        };
        assert_eq!(ended.iter().filter(|ended| late(ended)).count(), 3);
    }
    let actions = "select count(*) as n from audit where action = 'request.cancelled'";
    assert_eq!(service.count(actions).await, 5);
    service.stop().await;
}

#[tokio::test]
async fn a_cancellation_and_a_worker_that_begins_do_not_both_win() {
    let service = service().without_workers().start().await;
    for seed in 0..20 {
        let id = posted(&service, &request(SHOP, seed)).await;
        // As the worker begins: claimed, then moved on from the hold.
        let begin = async {
            let now = service.clock().now().plus(Duration::from_hours(1));
            let mut tx = service.db().begin().await.unwrap();
            let lease = now.plus(Duration::from_mins(1));
            let claimed = jobs::claim(&mut tx, &[id], now, lease).await.unwrap();
            tx.commit().await.unwrap();
            if claimed.is_empty() {
                return false;
            }
            let mut tx = service.db().begin().await.unwrap();
            let from = [Progress::Held];
            let begun = privacy_requests::set_state(&mut tx, id, &from, Progress::Received, now);
            let begun = begun.await.unwrap();
            tx.commit().await.unwrap();
            begun
        };
        let cancel = privacy_requests::cancel(service.db(), by(&service, "operator"), id);
        let (begun, cancelled) = tokio::join!(begin, cancel);
        assert_ne!(begun, cancelled.is_ok(), "{cancelled:?}");
        let job = jobs::show(service.db(), id).await.unwrap().unwrap();
        let state = entry(&service, id).await.state;
        if begun {
            assert_eq!((job.state.as_str(), state.as_str()), ("ready", "received"));
            assert!(job.body_bytes.is_some());
        } else {
            assert_eq!((job.state.as_str(), state.as_str()), ("done", "cancelled"));
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn the_audit_is_listed_and_verified() {
    let service = service().without_workers().start().await;
    let empty = said(&service, &["audit", "verify"]).await;
    assert!(empty.starts_with("There are no entries"), "{empty}");
    for seed in 1..4 {
        posted(&service, &request(DATA, seed)).await;
    }
    let list = said(&service, &["audit", "list"]).await;
    let lines: Vec<&str> = list.lines().collect();
    assert!(
        lines[0].starts_with("NUMBER") && lines[1].contains("     3  "),
        "{list}"
    );
    let verified = said(&service, &["audit", "verify"]).await;
    assert!(verified.contains("entries  3"), "{verified}");
    let checkpoint = said(&service, &["audit", "checkpoint"]).await;
    let head = checkpoint.lines().nth(2).unwrap();
    assert!(verified.contains(&format!("--head 3:{head}")), "{verified}");
    let verified = json(&service, &["audit", "verify"]).await;
    assert_eq!(
        verified,
        json!({"entries": 3, "head": head, "broken": null})
    );
    let key = "another-key-of-at-least-32-characters";
    let other = waybill(&service, &[("PRIVACY_KEY", key)], &["audit", "verify"]).await;
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stderr).contains("PRIVACY_KEY is not the one"));
    let short = waybill(&service, &[("PRIVACY_KEY", "short")], &["audit", "verify"]).await;
    assert_eq!(short.status.code(), Some(2));
    service.stop().await;
}

#[tokio::test]
async fn an_entry_that_was_changed_removed_or_added_by_hand_is_found() {
    let added = "insert into audit (number, at, actor, action, object_id, shop, details, hash)
                 select number + 1, at, actor, action, object_id, shop, details, hash
                 from audit where number = 3";
    let cases = [
        ("update audit set details = '{}' where number = 2", 2),
        ("update audit set at = at + 1 where number = 1", 1),
        ("update audit set actor = 'worker' where number = 3", 3),
        ("update audit set shop = null where number = 2", 2),
        (
            "update audit set hash = (select hash from audit where number = 1) where number = 3",
            3,
        ),
        ("delete from audit where number = 2", 2),
        ("delete from audit where number = 3", 3),
        ("delete from audit", 1),
        (added, 4),
        (
            "update audit_head set roots = (select hash from audit where number = 1), number = 1",
            3,
        ),
        ("delete from audit_head", 3),
    ];
    let service = service().without_workers().start().await;
    for seed in 1..4 {
        posted(&service, &request(DATA, seed)).await;
    }
    for table in ["audit", "audit_head"] {
        let copy = format!("create table copy_of_{table} as select * from {table}");
        service.execute(statement(copy)).await;
    }
    for (meddling, number) in cases {
        service.execute(meddling).await;
        let found = refused(&service, &["audit", "verify"]).await;
        let named = format!("entry {number} ");
        assert!(found.contains(&named), "{meddling}: {found}");
        let output = waybill(&service, &[], &["audit", "verify", "--json"]).await;
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(printed(&output)["broken"]["number"], number, "{meddling}");
        for table in ["audit", "audit_head"] {
            let put_back = format!("insert into {table} select * from copy_of_{table}");
            service
                .execute(statement(format!("delete from {table}")))
                .await;
            service.execute(statement(put_back)).await;
        }
        said(&service, &["audit", "verify"]).await;
    }
    service.stop().await;
}

/// Whoever writes to the database can make the hash of an entry, and not the code of the head.
#[tokio::test]
async fn an_entry_that_was_changed_or_added_with_its_hash_is_found_and_intake_goes_on() {
    let service = service().without_workers().start().await;
    for seed in 1..4 {
        posted(&service, &request(DATA, seed)).await;
    }
    let (db, keys) = (service.db(), &service.parts.keys);
    let entries = audit::list(db, None, 0, 10).await.unwrap();
    let mut changed = entries[1].clone();
    "nobody".clone_into(&mut changed.actor);
    let mut added = entries[2].clone();
    added.number = 4;
    let changes = [
        (
            "update audit set actor = 'nobody', hash = $1 where number = 2",
            changed,
            1,
            "or one after it",
        ),
        (
            "update audit set actor = 'storefront', hash = $1 where number = 2",
            entries[1].clone(),
            0,
            "",
        ),
        (
            "insert into audit (number, at, actor, action, object_id, shop, details, hash)
             select 4, at, actor, action, object_id, shop, details, $1 from audit where number = 3",
            added,
            4,
            "is after the last one",
        ),
    ];
    for (change, entry, number, problem) in changes {
        let hash = record_hash(entry.leaf().as_bytes());
        let mut tx = db.begin().await.unwrap();
        let query = tx.query(change).bind(hash.0.as_slice());
        query.execute().await.unwrap();
        tx.commit().await.unwrap();
        let broken = audit::verify(db, keys).await.unwrap().broken;
        let said = broken.as_ref().map(ToString::to_string).unwrap_or_default();
        assert_eq!(broken.map_or(0, |it| it.number), number, "{said}");
        assert!(said.contains(problem), "{said}");
    }
    posted(&service, &request(DATA, 5)).await;
    let entries = audit::list(db, None, 3, 10).await.unwrap();
    let actions: Vec<_> = entries
        .iter()
        .map(|it| (it.number, it.action.as_str()))
        .collect();
    let known = [
        (4, "request.received"),
        (5, "audit.broken"),
        (6, "request.received"),
    ];
    assert_eq!(actions, known);
    assert_eq!(entries[1].details["found"], "entries after the head");
    let broken = audit::verify(db, keys).await.unwrap().broken.unwrap();
    assert!(broken.to_string().contains("entry 5 says"), "{broken}");
    service.stop().await;
}

#[tokio::test]
async fn a_head_that_was_made_for_changed_entries_is_not_ours() {
    let service = service().without_workers().start().await;
    for seed in 1..4 {
        posted(&service, &request(DATA, seed)).await;
    }
    let (db, keys) = (service.db(), &service.parts.keys);
    let mut entries = audit::list(db, None, 0, 10).await.unwrap();
    "nobody".clone_into(&mut entries[1].actor);
    let mut tree = Tree::default();
    for entry in &entries {
        tree.push(record_hash(entry.leaf().as_bytes()));
    }
    let hash = record_hash(entries[1].leaf().as_bytes());
    let mut tx = db.begin().await.unwrap();
    let change = "update audit set actor = 'nobody', hash = $1 where number = 2";
    tx.query(change)
        .bind(hash.0.as_slice())
        .execute()
        .await
        .unwrap();
    let forged = tx
        .query("update audit_head set roots = $1")
        .bind(tree.bytes());
    forged.execute().await.unwrap();
    tx.commit().await.unwrap();
    let broken = audit::verify(db, keys).await.unwrap().broken.unwrap();
    assert!(
        broken.to_string().contains("the head is not ours"),
        "{broken}"
    );
    posted(&service, &request(DATA, 5)).await;
    let broken = audit::verify(db, keys).await.unwrap().broken.unwrap();
    assert!(broken.to_string().contains("entry 4 says"), "{broken}");
    service.stop().await;
}

#[tokio::test]
async fn a_receipt_is_verified_and_a_changed_or_foreign_one_is_not() {
    let service = service().without_workers().start().await;
    let other = self::service().without_workers();
    let other = other.setting("PRIVACY_KEY", "the key of another installation, kept there");
    let other = other.start().await;
    let id = posted(&service, &request(REDACT, 1)).await;
    let early = refused(&service, &["privacy", "receipt", &id.to_string()]).await;
    assert!(early.contains("when it is done"), "{early}");
    complete(&service, id).await;
    let shown = said(&service, &["privacy", "receipt", &id.to_string()]).await;
    assert!(shown.contains("customer.erased"), "{shown}");
    let receipt = json(&service, &["privacy", "receipt", &id.to_string()]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("receipt.json");
    let verify = ["privacy", "verify-receipt", path.to_str().unwrap()];
    std::fs::write(&path, receipt.to_string()).unwrap();
    assert!(
        said(&service, &verify)
            .await
            .contains("this installation's")
    );
    assert!(
        refused(&other, &verify)
            .await
            .contains("NOT this installation's")
    );

    let fields = ["receipt", "signature", "public_key", "algorithm"];
    for field in fields {
        let mut changed = receipt.clone();
        let text = changed[field].as_str().unwrap();
        changed[field] = match field {
            "receipt" => text.replace("\"orders\":2", "\"orders\":3"),
            "algorithm" => "none".into(),
            // Its first six bits.
            _ if text.starts_with('A') => format!("B{}", &text[1..]),
            _ => format!("A{}", &text[1..]),
        }
        .into();
        assert_ne!(changed[field], receipt[field]);
        std::fs::write(&path, changed.to_string()).unwrap();
        assert!(
            refused(&service, &verify).await.contains("WRONG"),
            "{field}"
        );
    }
    std::fs::write(&path, "{}").unwrap();
    assert!(refused(&service, &verify).await.contains("is not what"));
    other.stop().await;
    service.stop().await;
}

#[tokio::test]
async fn an_export_is_written_out_as_it_was_made_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}", folder.path().join("exports").display());
    let service = service()
        .setting("PRIVACY_EXPORT_URL", &store)
        .without_workers()
        .start()
        .await;
    let id = posted(&service, &request(DATA, 1)).await;
    let url = [("PRIVACY_EXPORT_URL", store.as_str())];
    let fetch = async |arguments: &[&str]| {
        let id = id.to_string();
        waybill(
            &service,
            &url,
            &[&["privacy", "export", &id], arguments].concat(),
        )
        .await
    };
    let early = fetch(&[]).await;
    assert_eq!(early.status.code(), Some(1));
    assert!(text(&early.stderr).contains("has no export"));

    let exports = folder.path().join("exports");
    let document = r#"{"customer":"Ann"}"#;
    let ends = service.clock().now().plus(Duration::from_hours(24));
    export(&service, &exports, id, document, ends).await;
    assert_eq!(text(&fetch(&[]).await.stdout), document);
    let file = folder.path().join("ann.json");
    let output = ["--output", file.to_str().unwrap()];
    let written = fetch(&output).await;
    assert!(written.status.success(), "{}", text(&written.stderr));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), document);
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        fetch(&output).await.status.code(),
        Some(1),
        "it is not written over"
    );
    let fetched = "select count(*) as n from audit
                   where action = 'export.fetched' and actor like 'operator%'";
    assert_eq!(service.count(fetched).await, 2);

    crate::support::requests::place(&exports, id, r#"{"customer":"Bob"}"#);
    let new = folder.path().join("bob.json");
    let altered = fetch(&["--output", new.to_str().unwrap()]).await;
    assert_eq!(altered.status.code(), Some(1));
    assert!(text(&altered.stderr).contains("is not the document that was written"));
    assert!(!new.exists(), "nothing is left");
    service
        .execute("update privacy_requests set export_expires_at = 1")
        .await;
    assert!(text(&fetch(&[]).await.stderr).contains("ended at 1970"));
    assert_eq!(service.count(fetched).await, 2);
    service.stop().await;
}
