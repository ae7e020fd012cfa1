//! `waybill migrate --from` copies a SQLite file to another database, with which the shop goes on.

use std::process::Output;

use serde_json::Value;

use crate::support::backend::{Backend, PRIVACY_KEY, is_distributed};
use crate::support::process::{Process, command, free_port, is_ready, run};

type Settings = Vec<(String, String)>;

/// A start for development on a database.
fn settings(port: u16, database: &str) -> Settings {
    let settings = [
        ("LISTEN_ADDR", format!("127.0.0.1:{port}")),
        ("DATABASE_URL", database.to_owned()),
        ("PRIVACY_KEY", PRIVACY_KEY.to_owned()),
        ("RUST_LOG", "warn".to_owned()),
    ];
    settings
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

async fn waybill(settings: &Settings, folder: &std::path::Path, arguments: &[&str]) -> Output {
    let mut command = command("waybill", &[]);
    command.env_remove("PRIVACY_KEY");
    command.envs(settings.iter().cloned());
    command.current_dir(folder).args(arguments);
    run(command).await
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shop_that_began_on_a_file_goes_on_elsewhere_with_everything() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path();
    let port = free_port();
    let file = there.join("shop.db");
    let from = file.display().to_string();
    let before = settings(port, &format!("sqlite://{from}"));
    let mut process = Process::start("waybill", &[], &before);
    is_ready(port).await;
    for topic in [
        "orders/create",
        "orders/paid",
        "payment_intent.succeeded",
        "customers/data_request",
    ] {
        let sent = ["trigger", topic, "--seed", "7", "--id", topic];
        let sent = waybill(&before, there, &sent).await;
        assert!(sent.status.success(), "{topic}: {}", text(&sent.stderr));
    }
    let made = waybill(&before, there, &["keys", "create", "shop"]).await;
    assert!(made.status.success(), "{}", text(&made.stderr));

    let backend = Backend::create().await;
    let mut after = settings(port, &backend.database_url);
    let copy = ["migrate", "--from", &from];
    let early = waybill(&after, there, &copy).await;
    assert_eq!(early.status.code(), Some(1));
    assert!(text(&early.stderr).contains("stop it first"), "{early:?}");
    assert!(process.terminate().await.success());
    let itself = waybill(&before, there, &copy).await;
    assert_eq!(itself.status.code(), Some(2), "{}", text(&itself.stderr));
    let copied = waybill(&after, there, &copy).await;
    let said = text(&copied.stdout);
    assert!(copied.status.success(), "{said}{}", text(&copied.stderr));
    assert!(said.contains("rows are copied from"), "{said}");
    let again = waybill(&after, there, &copy).await;
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("it is not empty"), "{again:?}");

    for look in [
        &["orders", "list", "--json"][..],
        &["orders", "show", "#1007", "--json"],
        &["jobs", "list", "--json", "--limit", "100"],
        &["events", "list", "--json", "--limit", "100"],
        &["privacy", "list", "--all", "--json"],
        &["payments", "list", "--json"],
        &["audit", "list", "--json"],
        &["keys", "list", "--json"],
        &["ledger", "verify", "--json"],
        &["audit", "verify", "--json"],
    ] {
        let one = waybill(&before, there, look).await;
        let other = waybill(&after, there, look).await;
        assert!(one.status.success(), "{look:?}: {}", text(&one.stderr));
        let one: Value = serde_json::from_slice(&one.stdout).unwrap();
        let other: Value = serde_json::from_slice(&other.stdout).unwrap();
        assert_eq!(one, other, "{look:?}");
    }

    // What was taken before is a duplicate there, and new work is done.
    let own = [
        ("STOREFRONT_WEBHOOK_SECRET", "a secret of the shop's own"),
        ("PAYMENT_WEBHOOK_SECRET", "a secret of the payments' own"),
    ];
    after.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let _process = Process::start("waybill", &["serve"], &after);
    is_ready(port).await;
    let sent = [
        "trigger",
        "orders/paid",
        "--seed",
        "7",
        "--id",
        "orders/paid",
    ];
    let duplicate = text(&waybill(&after, there, &sent).await.stdout);
    assert!(duplicate.contains("It is a duplicate"), "{duplicate}");
    let sent = waybill(&after, there, &["trigger", "orders/create", "--seed", "8"]).await;
    let said = text(&sent.stdout);
    assert!(
        sent.status.success() && said.contains("state        done"),
        "{said}"
    );
}

/// The error of `waybill migrate --from` with these settings beside those of the database.
async fn refused(
    there: &std::path::Path,
    database: &str,
    own: &[(&str, &str)],
    from: &str,
) -> String {
    let mut settings = settings(free_port(), database);
    settings.retain(|(name, _)| name != "PRIVACY_KEY");
    let own = own.iter();
    settings.extend(own.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let refused = waybill(&settings, there, &["migrate", "--from", from]).await;
    assert!(!refused.status.success(), "{}", text(&refused.stdout));
    text(&refused.stderr)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_made_its_own_key_keeps_it_when_it_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path();
    let file = there.join("a shop.db");
    let from = file.display().to_string();
    let of_file = |settings: &mut Settings| settings.retain(|(name, _)| name != "PRIVACY_KEY");
    let port = free_port();
    let mut before = settings(port, &format!("sqlite://{from}"));
    of_file(&mut before);
    let mut process = Process::start("waybill", &[], &before);
    is_ready(port).await;
    assert!(process.terminate().await.success());

    let backend = Backend::create().await;
    let to = backend.database_url.as_str();
    let another = refused(
        there,
        to,
        &[("PRIVACY_KEY", "another key than that of the file")],
        &from,
    )
    .await;
    assert!(
        another.contains("a shop.db: PRIVACY_KEY is not the one"),
        "{another}"
    );
    let lost = refused(there, to, &[("PRIVACY_KEY_FILE", "lost.key")], &from).await;
    assert!(
        lost.contains("PRIVACY_KEY_FILE: cannot read lost.key"),
        "{lost}"
    );
    std::fs::write(
        there.join("text"),
        "this is no database, and it is long enough to be read",
    )
    .unwrap();
    let no_database = refused(there, to, &[], "text").await;
    assert!(no_database.contains("--from: "), "{no_database}");

    // The key is taken out with the command that the refusal names.
    let take_out =
        format!("waybill privacy key --database-url 'sqlite://{from}' --output privacy.key");
    if is_distributed() {
        let missing = refused(there, to, &[], &from).await;
        assert!(missing.contains(&take_out), "{missing}");
    }
    let address = format!("sqlite://{from}");
    let taken = [
        "privacy",
        "key",
        "--database-url",
        &address,
        "--output",
        "privacy.key",
    ];
    let taken = waybill(&before, there, &taken).await;
    assert!(taken.status.success(), "{}", text(&taken.stderr));
    let key = std::fs::read_to_string(there.join("privacy.key")).unwrap();
    let mut after = settings(free_port(), to);
    of_file(&mut after);
    after.push(("PRIVACY_KEY_FILE".to_owned(), "privacy.key".to_owned()));
    let copied = waybill(&after, there, &["migrate", "--from", &from]).await;
    let said = text(&copied.stdout);
    assert!(copied.status.success(), "{said}{}", text(&copied.stderr));
    assert!(said.contains("run `waybill doctor`"), "{said}");
    // The file still has its own key, so it can be used as before.
    let again = [
        "privacy",
        "key",
        "--database-url",
        &address,
        "--output",
        "again.key",
    ];
    let again = waybill(&before, there, &again).await;
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert_eq!(
        std::fs::read_to_string(there.join("again.key")).unwrap(),
        key
    );
}
