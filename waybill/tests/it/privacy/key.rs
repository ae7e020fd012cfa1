//! The key that a SQLite database makes for itself.

use crate::both::privacy::left::ask;
use crate::support::operator::{refused, said};
use crate::support::requests::request;
use crate::support::service;

#[tokio::test]
async fn the_key_that_a_database_made_can_be_taken_out_and_set() {
    let service = service().without_workers().start().await;
    let id = ask(&service, &request("customers/data_request", 1)).await;
    let file = service.backend.folder().join("privacy.key");
    let taken = [
        "privacy",
        "key",
        "--output",
        file.to_str().unwrap(),
        "--by",
        "ann",
    ];
    let reported = said(&service, &taken).await;
    let key = std::fs::read_to_string(&file).unwrap();
    assert!(key.trim().len() > 32 && !reported.contains(key.trim()));
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let with_key = async |arguments: &[&str]| {
        crate::support::requests::waybill(&service, &[("PRIVACY_KEY", key.trim())], arguments).await
    };
    let verified = with_key(&["audit", "verify"]).await;
    assert!(verified.status.success(), "{verified:?}");
    // Who sets it no longer needs the copy beside the data.
    let kept = "select count(*) as n from privacy_keys where secret is not null";
    assert_eq!(service.count(kept).await, 0);
    let (_, without) = refused(&service, &["audit", "verify"]).await;
    assert!(without.contains("PRIVACY_KEY"), "{without}");
    let again = with_key(&["privacy", "key", "--output", "/nowhere/key"]).await;
    assert_eq!(again.status.code(), Some(1));
    let _ = id;
    service.stop().await;
}
