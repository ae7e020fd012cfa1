//! Exports in a folder.

use std::io;

use bytes::Bytes;
use domain::code::Code;
use providers::exports::{Export, ExportFailure, ExportStore, Exports};
use uuid::Uuid;

#[tokio::test]
async fn an_export_is_written_read_and_removed_however_often() {
    let folder = tempfile::tempdir().unwrap();
    let exports = Exports::new(&ExportStore::Folder(folder.path().join("deep/er")));
    let first = of_run(1);
    exports.remove(first).await.unwrap();
    assert_eq!(exports.read(first).await, Err(ExportFailure::NoPlace));
    for text in ["one", "two"] {
        exports
            .write(first, Bytes::from(text), Bytes::from("{}"))
            .await
            .unwrap();
        assert_eq!(exports.read(first).await.unwrap(), text.as_bytes());
    }
    exports.remove(first).await.unwrap();
    exports.remove(first).await.unwrap();
    assert_eq!(exports.read(first).await, Err(ExportFailure::Missing));
}

fn of_run(run: i64) -> Export {
    Export {
        request: Uuid::from_u128(7),
        run,
    }
}

#[tokio::test]
async fn a_run_touches_nothing_of_another_one_and_all_are_removed_together() {
    let folder = tempfile::tempdir().unwrap();
    let exports = Exports::new(&ExportStore::Folder(folder.path().to_owned()));
    let (first, second) = (of_run(1), of_run(2));
    let write = async |export, text: &'static str| {
        let (document, manifest) = (Bytes::from(text), Bytes::from("{}"));
        exports.write(export, document, manifest).await.unwrap();
    };
    write(second, "two").await;
    write(first, "one").await;
    assert_eq!(exports.read(second).await.unwrap(), b"two");
    exports.remove(first).await.unwrap();
    assert_eq!(exports.read(second).await.unwrap(), b"two");
    write(first, "one").await;
    exports.remove_all(second).await.unwrap();
    for export in [first, second] {
        assert_eq!(exports.read(export).await, Err(ExportFailure::Missing));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn an_export_is_removed_from_the_store_that_it_was_written_to_and_from_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name| Exports::new(&ExportStore::Folder(folder.path().join(name)));
    let (ours, empty) = (of("ours"), of("empty"));
    let (store, export) = (Uuid::from_u128(1), of_run(1));
    assert_eq!(ours.mark().await, Ok(None));
    ours.set_mark(store).await.unwrap();
    assert_eq!(ours.mark().await, Ok(Some(store)));
    let text = || Bytes::from("{}");
    ours.write(export, text(), text()).await.unwrap();
    let removed = empty.remove_from(store, export).await;
    assert_eq!(removed, Err(ExportFailure::AnotherStore));
    for _ in 0..2 {
        assert_eq!(ours.remove_from(store, export).await, Ok(()));
    }
    assert_eq!(ours.read(export).await, Err(ExportFailure::Missing));
}

#[test]
fn a_failure_says_what_to_do_and_not_what_the_store_said() {
    let error = |source: &str| {
        ExportFailure::from(&object_store::Error::Generic {
            store: "S3",
            source: source.into(),
        })
    };
    let refused = error("Server returned non-2xx status code: 403 Forbidden: AKIDSECRET");
    assert_eq!(refused, ExportFailure::Refused);
    let failed = error("Server returned non-2xx status code: 500 Oops: AKIDSECRET");
    assert_eq!(failed, ExportFailure::Failed(Some(500)));
    let text = failed.to_string();
    assert!(text.contains("status 500") && text.contains("PRIVACY_EXPORT_URL"));
    assert!(text.starts_with(Code::Privacy.id()) && !text.contains("AKID"));
    let full = io::Error::from(io::ErrorKind::StorageFull);
    assert_eq!(ExportFailure::from(&full), ExportFailure::Full);
}
