//! What an operator changes is one transaction with its entry in the audit. A command that dies before its
//! commit has changed nothing, and one that dies after it has changed everything.

use platform::crash_point::Moment;

use super::table::{Area, Target, targets};
use super::world::World;
use crate::both::connections::KEY;
use crate::support::storm::count;

/// The command of each transaction, in a sequence in which each may follow those before it.
const COMMANDS: &[(&str, &[&str])] = &[
    ("operators::api_keys::create", &["keys", "create", "till"]),
    ("operators::api_keys::revoke", &["keys", "revoke", "till"]),
    (
        "operators::connections::add",
        &[
            "connections",
            "add",
            "shop-b",
            "--provider",
            "generic",
            "--shop",
            "b.example",
            "--secret-file",
            "SECRET",
        ],
    ),
    (
        "operators::connections::change",
        &["connections", "change", "shop-b", "--display-name", "B"],
    ),
    (
        "operators::connections::rotate",
        &["connections", "rotate", "shop-b", "--secret-file", "OTHER"],
    ),
    (
        "operators::connections::remove",
        &["connections", "remove", "shop-b"],
    ),
    (
        "operators::endpoints::add",
        &["endpoints", "add", "http://127.0.0.1:9/hook"],
    ),
    (
        "operators::endpoints::rotate",
        &["endpoints", "rotate", "ENDPOINT"],
    ),
    (
        "operators::endpoints::change",
        &["endpoints", "pause", "ENDPOINT"],
    ),
    (
        "operators::licenses::grant",
        &[
            "licenses", "grant", "--tier", "pro", "--user", "octavia", "--days", "30",
        ],
    ),
    (
        "operators::licenses::change",
        &["licenses", "suspend", "LICENSE"],
    ),
    ("commands::orgs::create", &["orgs", "create", "acme"]),
    (
        "commands::orgs::set_owner",
        &["orgs", "set-owner", "acme", "octavia"],
    ),
    (
        "commands::orgs::add",
        &["orgs", "add-member", "acme", "petra"],
    ),
    (
        "commands::orgs::remove",
        &["orgs", "remove-member", "acme", "petra"],
    ),
    (
        "operators::pauses::begin",
        &["pauses", "begin", "queue", "orders", "--for", "1h"],
    ),
    (
        "operators::pauses::end",
        &["pauses", "end", "queue", "orders"],
    ),
    (
        "operators::privacy_requests::enter",
        &[
            "privacy",
            "request",
            "--shop",
            "shop.example",
            "--customer",
            "5",
            "--yes",
        ],
    ),
];

const AUDITED: &str = "select count(*) as n from audit";

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_dies_has_changed_everything_or_nothing() {
    let mut world = World::new(Area::Commands, &[("SECRETS_KEY", KEY)]).await;
    // Which provider the accounts belong to is recorded by the first process.
    world.recover().await;
    let targets = targets(Area::Commands);
    for (of, arguments) in COMMANDS {
        let of_command = targets.iter().filter(|target| target.of.ends_with(of));
        let of_command: Vec<&Target> = of_command.collect();
        assert_eq!(of_command.len(), Moment::ALL.len(), "{of}");
        let mut words: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        for word in &mut words {
            match word.as_str() {
                "ENDPOINT" => {
                    let sql = "select id from endpoints where secret is not null";
                    *word = only_id(&world, sql).await;
                }
                "SECRET" | "OTHER" => *word = secret_file(&world, word),
                "LICENSE" => *word = only_id(&world, "select id from licenses").await,
                _ => {}
            }
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        for (target, moment) in of_command.into_iter().zip(Moment::ALL) {
            let before = count(&world.db, AUDITED).await;
            world.crash_command(target, &words).await;
            let after = count(&world.db, AUDITED).await;
            let is_done = moment == Moment::Committed;
            assert_eq!(
                after > before,
                is_done,
                "{}: {before}, then {after}",
                target.name
            );
        }
    }
    world
        .change("delete from endpoints where secret is not null")
        .await;
    let _process = world.finish().await;
    for (table, rows) in [
        ("api_keys", 1),
        ("licenses", 1),
        ("orgs", 1),
        ("privacy_requests", 1),
    ] {
        let sql = format!("select count(*) as n from {table}");
        let sql = crate::support::backend::statement(sql);
        assert_eq!(count(&world.db, sql).await, rows, "{table}");
    }
    world.db.close().await;
}

/// A file with a signing secret of its own.
fn secret_file(world: &World, name: &str) -> String {
    let path = world.backend.folder().join(name);
    std::fs::write(&path, format!("the signing secret {name}")).unwrap();
    path.display().to_string()
}

async fn only_id(world: &World, sql: &'static str) -> String {
    let row = world.db.query(sql).fetch_one().await.unwrap();
    row.get::<uuid::Uuid>("id").unwrap().to_string()
}
