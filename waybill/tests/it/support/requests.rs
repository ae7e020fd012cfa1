//! Deliveries of privacy requests, and the results that a worker would write, without a worker.

use std::path::Path;
use std::process::Output;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::privacy::{Decided, State};
use domain::time::Timestamp;
use sandbox::sample;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use store::privacy_requests::By;
use store::{jobs, privacy_requests};
use uuid::Uuid;

use super::backend::statement;
use super::delivery::{Delivery, storefront};
use super::process::{command, run};
use super::{START, Service};

/// A request of the sample shop, about the sample customer of a seed.
pub fn request(topic: &str, seed: u64) -> Delivery {
    let body = sample::storefront(topic, seed, START.0).unwrap();
    storefront(topic, body).of_shop(sample::shop())
}

/// Posts a request; its id.
pub async fn posted(service: &Service, delivery: &Delivery) -> Uuid {
    let response = service.post(delivery).await;
    assert_eq!(response.status(), 200);
    let id = response.headers()["x-request-id"].to_str().unwrap();
    id.parse().unwrap()
}

pub async fn entry(service: &Service, id: Uuid) -> privacy_requests::RequestEntry {
    let entry = privacy_requests::find(service.db(), id).await.unwrap();
    entry.unwrap()
}

/// As a worker leaves a request that it has given up.
pub async fn give_up(service: &Service, id: Uuid, error: &str) {
    let now = service.clock().now();
    let mut tx = service.db().begin().await.unwrap();
    assert!(jobs::dead_letter(&mut tx, id, 7, now, error).await.unwrap());
    let from = [State::Received, State::Held];
    let failed = privacy_requests::set_state(&mut tx, id, &from, State::Failed, now);
    assert!(failed.await.unwrap());
    tx.commit().await.unwrap();
}

/// What an operator says of a request that is held; the workers are notified at once.
pub async fn decide(service: &Service, id: Uuid, said: &Decided) {
    let by = By {
        keys: &service.parts.keys,
        actor: "operator:ann",
        now: service.clock().now(),
    };
    privacy_requests::decide(service.db(), by, id, said)
        .await
        .unwrap();
    service.settled().await;
}

/// As a worker leaves a request that is done.
pub async fn complete(service: &Service, id: Uuid) {
    let now = service.clock().now();
    let receipt = json!({"request_id": id, "action": "customer.erased", "counts": {"orders": 2}});
    let receipt = receipt.to_string();
    let keys = &service.parts.keys;
    let signed = json!({
        "algorithm": "Ed25519",
        "public_key": STANDARD.encode(keys.public()),
        "signature": STANDARD.encode(keys.sign(receipt.as_bytes())),
        "receipt": receipt,
    });
    let mut tx = service.db().begin().await.unwrap();
    jobs::finish(&mut tx, &[id], now).await.unwrap();
    let done = privacy_requests::set_state(&mut tx, id, &[State::Received], State::Done, now);
    assert!(done.await.unwrap());
    let counts = json!({"orders": 2});
    let noted = privacy_requests::note_progress(&mut tx, id, &counts);
    noted.await.unwrap();
    let set = privacy_requests::set_receipt(&mut tx, id, &signed);
    set.await.unwrap();
    tx.commit().await.unwrap();
}

/// As a worker leaves a request whose export is written.
pub async fn export(service: &Service, folder: &Path, id: Uuid, document: &str, ends: Timestamp) {
    complete(service, id).await;
    let sha256 = hex::encode(Sha256::digest(document));
    let noted = format!(
        "update privacy_requests
         set export_sha256 = '{sha256}', export_runs = 1, export_run = 1, export_bytes = {}, export_expires_at = {}
         where id = $1",
        document.len(),
        ends.0
    );
    let mut tx = service.db().begin().await.unwrap();
    tx.query(statement(noted)).bind(id).execute().await.unwrap();
    tx.commit().await.unwrap();
    place(folder, id, document);
}

/// The document of the export that the last run wrote for a request.
pub fn document(folder: &Path, id: Uuid) -> std::path::PathBuf {
    let runs = std::fs::read_dir(folder.join(id.to_string())).unwrap();
    let runs = runs.map(|run| run.unwrap().file_name().into_string().unwrap());
    let last = runs.max_by_key(|run| run.parse::<i64>().unwrap());
    let last = last.expect("a run has written one");
    folder.join(id.to_string()).join(last).join("export.json")
}

/// Puts a document where the export of a request is looked for.
pub fn place(folder: &Path, id: Uuid, document: &str) {
    let folder = folder.join(id.to_string()).join("1");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("export.json"), document).unwrap();
}

/// Runs the operator's command on a service's database, with nothing else set but these.
pub async fn waybill(service: &Service, settings: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = command("waybill", &[]);
    command.env("DATABASE_URL", &service.backend.database_url);
    if let Some(key) = &service.parts.config.privacy.key {
        command.env("PRIVACY_KEY", key.expose());
    }
    command.envs(settings.iter().copied()).args(arguments);
    run(command).await
}

/// What it printed, for machines.
pub fn printed(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no JSON; it said {said}"))
}
