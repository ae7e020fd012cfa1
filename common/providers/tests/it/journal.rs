//! The journal of erasures in a folder.

use bytes::Bytes;
use providers::exports::{Added, ExportStore, Exports};

#[tokio::test]
async fn an_entry_is_written_once_and_found_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let exports = Exports::new(&ExportStore::Folder(folder.path().join("deep/er")));
    assert_eq!(exports.erasures_after(0).await, Ok(Vec::new()));
    assert_eq!(exports.erasure(1).await, Ok(None));
    for number in [1, 2, 10] {
        let bytes = number.to_string().into_bytes();
        let added = exports.add_erasure(number, bytes.clone()).await;
        assert_eq!(added, Ok(Added::Written));
        assert_eq!(exports.add_erasure(number, bytes).await, Ok(Added::Known));
    }
    let other = exports.add_erasure(2, b"other".to_vec()).await;
    assert_eq!(other, Ok(Added::Taken));
    assert_eq!(exports.erasure(2).await, Ok(Some(Bytes::from("2"))));
    assert_eq!(exports.erasures_after(0).await, Ok(vec![1, 2, 10]));
    assert_eq!(exports.erasures_after(2).await, Ok(vec![10]));
    assert_eq!(exports.erasures_after(10).await, Ok(Vec::new()));
    let beside = folder.path().join("deep/er/erasures/3.json");
    std::fs::write(beside, "not ours").unwrap();
    assert_eq!(exports.erasures_after(0).await, Ok(vec![1, 2, 10]));
}

#[tokio::test]
async fn a_folder_keeps_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let exports = Exports::new(&ExportStore::Folder(folder.path().to_owned()));
    assert_eq!(exports.probe(uuid::Uuid::from_u128(7)).await, Ok(true));
}
