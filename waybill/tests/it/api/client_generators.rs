//! Clients that the usual generators make of `/openapi.json` are right, and work.

use std::process::Command;

use crate::support::process::{needs_registries, run, script};
use crate::support::service;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_clients_that_generators_make_are_right() {
    let service = service().without_workers().start().await;
    let description = service.get("/openapi.json").send().await.unwrap();
    let description = description.text().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("openapi.json");
    std::fs::write(&file, description).unwrap();
    let key = service.api_key().await;
    let mut make = Command::new(script("client-generators"));
    make.arg(file).arg(&service.url).env("API_KEY", key);
    if let Some(said) = needs_registries(&run(make).await) {
        for part in [
            "openapi-typescript: right",
            "@hey-api/openapi-ts: right",
            "list_endpoints: {'endpoints': []}",
            "list_events: {'events': []",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    service.stop().await;
}
