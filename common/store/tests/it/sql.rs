//! Connections and their URLs.

use config::database::{Encryption, check_url, is_pooled, on_network};
use store::sql::Db;

#[tokio::test]
async fn a_url_says_that_a_pooler_gives_each_transaction_another_connection() {
    let place = "postgres://waybill:s3cret@db.example:6432/waybill";
    for (parameters, pooled) in [
        ("", false),
        ("?sslmode=verify-full", false),
        ("?pgbouncer=false", false),
        ("?pgbouncer=true", true),
        ("?sslmode=verify-full&pgbouncer=true", true),
    ] {
        let url = format!("{place}{parameters}");
        assert_eq!(check_url(&url), Ok(()));
        assert_eq!(is_pooled(&url), pooled, "{parameters}");
        let open = Db::open(&url, 1).await.unwrap();
        assert_eq!(open.is_pooled(), pooled, "{parameters}");
        let (host, encryption) = on_network(&url).unwrap();
        assert_eq!(host, "db.example");
        let is_verified = encryption == Encryption::Verified;
        assert_eq!(is_verified, parameters.contains("verify-full"));
    }
    let unclear = format!("{place}?pgbouncer=maybe");
    assert!(check_url(&unclear).is_err());
    assert!(!is_pooled("sqlite://data/waybill.db"));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_who_want_a_file_alone_at_once_one_has_it() {
    for _ in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/shop.db", folder.path().display());
        let db = Db::open(&url, 1).await.unwrap();
        store::migrations::apply(&db).await.unwrap();
        db.close().await;
        let open = || Db::open_alone(&url);
        let opened = tokio::join!(open(), open(), open(), open());
        let opened = [opened.0, opened.1, opened.2, opened.3];
        let alone = opened.iter().filter(|it| it.is_ok()).count();
        assert_eq!(alone, 1);
        let others = opened.iter().filter_map(|it| it.as_ref().err());
        assert!(others.into_iter().all(store::sql::is_in_use));
    }
}
