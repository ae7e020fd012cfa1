//! `waybill copy` moves a SQLite file to another database while its service is stopped, and the shop goes on there.

use std::process::Output;

use serde_json::Value;

use crate::both::connections;
use crate::support::backend::{Backend, PRIVACY_KEY, is_distributed};
use crate::support::process::{Process, command, free_port, is_ready, run};

type Settings = Vec<(String, String)>;

/// A start for development on a database.
fn settings(port: u16, database: &str) -> Settings {
    let settings = [
        ("LISTEN_ADDR", format!("127.0.0.1:{port}")),
        ("DATABASE_URL", database.to_owned()),
        ("PRIVACY_KEY", PRIVACY_KEY.to_owned()),
        ("SECRETS_KEY", connections::KEY.to_owned()),
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
    std::fs::write(there.join("secret"), connections::SECRET_A).unwrap();
    let shop = "connections add shop-a --provider shopify --shop a.example --secret-file secret";
    let shop: Vec<&str> = shop.split(' ').collect();
    let made = waybill(&before, there, &shop).await;
    assert!(made.status.success(), "{}", text(&made.stderr));

    let backend = Backend::create().await;
    let mut after = settings(port, &backend.database_url);
    let looks = [
        &["orders", "list", "--json"][..],
        &["orders", "show", "#TEST-1007", "--json"],
        &["jobs", "list", "--json", "--limit", "100"],
        &["events", "list", "--json", "--limit", "100"],
        &["privacy", "list", "--all", "--json"],
        &["payments", "list", "--json"],
        &["audit", "list", "--json"],
        &["keys", "list", "--json"],
        // Their state is that their secrets can be read.
        &["connections", "list", "--json"],
        &["ledger", "verify", "--json"],
        &["audit", "verify", "--json"],
    ];
    let mut seen = Vec::new();
    for look in looks {
        let seen_there = waybill(&before, there, look).await;
        let said = text(&seen_there.stderr);
        assert!(seen_there.status.success(), "{look:?}: {said}");
        seen.push(serde_json::from_slice::<Value>(&seen_there.stdout).unwrap());
    }
    let copy = ["copy", "--to", &backend.database_url];
    let itself = waybill(&before, there, &["copy", "--to", &before[1].1]).await;
    assert_eq!(itself.status.code(), Some(2), "{}", text(&itself.stderr));
    let in_use = waybill(&before, there, &copy).await;
    let said = text(&in_use.stderr);
    assert!(
        !in_use.status.success() && said.contains("stop the service"),
        "{said}"
    );
    assert!(process.terminate().await.success());
    let copied = waybill(&before, there, &copy).await;
    let said = text(&copied.stdout);
    assert!(copied.status.success(), "{said}{}", text(&copied.stderr));
    assert!(said.contains("Nobody opens the file any more"), "{said}");
    let again = waybill(&before, there, &copy).await;
    assert_eq!(again.status.code(), Some(1));
    assert!(
        text(&again.stderr).contains("was moved already"),
        "{again:?}"
    );

    let look = waybill(&before, there, &["orders", "list"]).await;
    let said = text(&look.stderr);
    assert!(
        said.contains("was moved to") && said.contains("set DATABASE_URL"),
        "{said}"
    );
    let served = waybill(&before, there, &[]).await;
    let said = text(&served.stderr);
    assert!(
        !served.status.success() && said.contains("was moved to"),
        "{said}"
    );

    for (look, seen) in looks.iter().zip(seen) {
        let other = waybill(&after, there, look).await;
        let other: Value = serde_json::from_slice(&other.stdout).unwrap();
        assert_eq!(seen, other, "{look:?}");
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

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_copy_at_once_one_ends_and_the_copy_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path();
    let address = format!("sqlite://{}/shop.db", there.display());
    let before = settings(free_port(), &address);
    assert!(waybill(&before, there, &["migrate"]).await.status.success());
    for name in ["till", "office", "store"] {
        let made = waybill(&before, there, &["keys", "create", name]).await;
        assert!(made.status.success(), "{}", text(&made.stderr));
    }
    let backend = Backend::create().await;
    let copy = ["copy", "--to", &backend.database_url];
    let both = tokio::join!(
        waybill(&before, there, &copy),
        waybill(&before, there, &copy),
        waybill(&before, there, &copy)
    );
    let outputs = [both.0, both.1, both.2];
    let ended = outputs.iter().filter(|it| it.status.success()).count();
    assert!(ended >= 1, "{outputs:?}");
    for output in outputs.iter().filter(|it| !it.status.success()) {
        let said = text(&output.stderr);
        let expected = ["is in use", "was moved already"];
        assert!(expected.iter().any(|it| said.contains(it)), "{said}");
    }
    let after = settings(free_port(), &backend.database_url);
    let keys = waybill(&after, there, &["keys", "list", "--json"]).await;
    let keys: Value = serde_json::from_slice(&keys.stdout).unwrap();
    assert_eq!(keys["items"].as_array().unwrap().len(), 3);
    let audit = waybill(&after, there, &["audit", "verify"]).await;
    assert!(audit.status.success(), "{}", text(&audit.stderr));
}

/// The error of `waybill copy` with these settings beside those of the file.
async fn refused(there: &std::path::Path, file: &str, own: &[(&str, &str)], to: &str) -> String {
    let mut settings = settings(free_port(), &format!("sqlite://{file}"));
    settings.retain(|(name, _)| name != "PRIVACY_KEY");
    let own = own.iter();
    settings.extend(own.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let refused = waybill(&settings, there, &["copy", "--to", to]).await;
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
    let own = [("PRIVACY_KEY", "another key than that of the file")];
    let another = refused(there, &from, &own, to).await;
    assert!(
        another.contains("a shop.db: PRIVACY_KEY is not the one"),
        "{another}"
    );
    let lost = refused(there, &from, &[("PRIVACY_KEY_FILE", "lost.key")], to).await;
    assert!(
        lost.contains("PRIVACY_KEY_FILE: cannot read lost.key"),
        "{lost}"
    );
    std::fs::write(
        there.join("text"),
        "this is no database, and it is long enough to be read",
    )
    .unwrap();
    let no_database = refused(there, "text", &[], to).await;
    assert!(no_database.contains("DATABASE_URL: "), "{no_database}");

    // The key is taken out with the command that the refusal names.
    let take_out =
        format!("waybill privacy key --database-url 'sqlite://{from}' --output privacy.key");
    if is_distributed() {
        let missing = refused(there, &from, &[], to).await;
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
    before.push(("PRIVACY_KEY_FILE".to_owned(), "privacy.key".to_owned()));
    std::fs::write(there.join("to.url"), to).unwrap();
    let copied = waybill(&before, there, &["copy", "--to-file", "to.url"]).await;
    let said = text(&copied.stdout);
    assert!(copied.status.success(), "{said}{}", text(&copied.stderr));
    assert!(said.contains("run `waybill doctor`"), "{said}");
    // Given up, the file can be used as before, and has its own key.
    let abandoned = waybill(&before, there, &["copy", "--abandon"]).await;
    assert!(abandoned.status.success(), "{}", text(&abandoned.stderr));
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
