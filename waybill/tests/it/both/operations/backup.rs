//! `waybill backup` while deliveries come, and `waybill restore` into an empty place.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

use serde_json::Value;

use crate::support::backend::{Backend, is_distributed};
use crate::support::delivery::Delivery;
use crate::support::order::{body, order_delivery, post_all, rows};
use crate::support::process::{command, free_port, run, settings};
use crate::support::{Service, eventually, service};

/// An operator's folder, and the settings of a database.
struct Operator {
    folder: tempfile::TempDir,
    settings: Vec<(String, String)>,
}

impl Operator {
    fn of(backend: &Backend) -> Self {
        Operator {
            folder: tempfile::tempdir().unwrap(),
            settings: settings(backend, free_port()),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn run(&self, database_url: &str, arguments: &[&str]) -> Output {
        let mut command = command("waybill", &[]);
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        command.env("DATABASE_URL", database_url);
        command.current_dir(self.folder.path()).args(arguments);
        run(command).await
    }

    async fn done(&self, database_url: &str, arguments: &[&str]) -> String {
        let output = self.run(database_url, arguments).await;
        assert!(output.status.success(), "{arguments:?}: {}", error(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Fails with this code and text, and leaves nothing behind.
    async fn refused(&self, database_url: &str, arguments: &[&str], code: i32, why: &str) {
        let before = names(self.folder.path());
        let output = self.run(database_url, arguments).await;
        let said = error(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(why), "{why} in {said}");
        assert_eq!(names(self.folder.path()), before, "{arguments:?}");
    }
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn orders(ids: std::ops::Range<i64>) -> Vec<Delivery> {
    ids.map(|id| order_delivery("orders/create", &body(id, 1, "paid")))
        .collect()
}

async fn all_orders(service: &Service) -> i64 {
    service.count("select count(*) as n from orders").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_made_under_load_is_the_database_of_one_moment() {
    let first = service().start().await;
    let operator = Operator::of(&first.backend);
    let from = &first.backend.database_url;
    post_all(&first, &orders(1..41)).await;
    first.drained().await;
    let before = rows(first.db()).await;

    let (accepted, made) = tokio::join!(
        async {
            let later = orders(41..161);
            post_all(&first, &later).await;
            later
        },
        operator.done(from, &["backup", "shop.backup", "--json"])
    );
    let made: Value = serde_json::from_str(&made).unwrap();
    let file = operator.file("shop.backup");
    assert_eq!(made["file"], "shop.backup");
    assert_eq!(made["bytes"], fs::metadata(&file).unwrap().len());
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(names(operator.folder.path()), ["shop.backup"]);
    first.stop().await;

    let there = Arc::new(Backend::create().await);
    let said = operator.done(&there.database_url, &["restore", "shop.backup"]);
    assert!(said.await.contains("is restored from shop.backup"));
    let restored = service().without_workers().start_on(there.clone()).await;
    // What was there before is whole, and of what came meanwhile a part.
    let now = rows(restored.db()).await;
    for (shop, tables) in &before {
        for (table, lines) in tables {
            let missing = lines.iter().find(|line| !now[shop][table].contains(line));
            assert_eq!(missing, None, "{table}");
        }
    }
    restored.stop().await;

    // The provider sends again what it sent meanwhile; each order is there once.
    let restored = service().start_on(there).await;
    for delivery in &accepted {
        // A busy machine may answer 503, and the provider repeats it.
        eventually("it is taken", async || {
            let (status, _) = restored.answer(delivery).await;
            assert!([200, 409, 503].contains(&status), "{status}");
            status != 503
        })
        .await;
    }
    restored.drained().await;
    assert_eq!(all_orders(&restored).await, 160);
    restored.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_and_a_restore_overwrite_nothing_and_refuse_what_is_damaged() {
    let service = service().start().await;
    let backend = service.backend.clone();
    let operator = Operator::of(&backend);
    let from = backend.database_url.clone();
    post_all(&service, &orders(1..4)).await;
    service.drained().await;
    operator.done(&from, &["backup", "shop.backup"]).await;
    let again = ["backup", "shop.backup"];
    operator.refused(&from, &again, 2, "is there already").await;
    let nowhere = ["backup", "no/such/folder/shop.backup"];
    operator
        .refused(&from, &nowhere, 1, "cannot write to no/such/folder")
        .await;
    service.stop().await;

    let there = ["restore", "shop.backup"];
    operator
        .refused(&from, &there, 2, "overwrites nothing")
        .await;

    let empty = Backend::create().await;
    let to = &empty.database_url;
    let whole = fs::read(operator.file("shop.backup")).unwrap();
    fs::write(operator.file("half"), &whole[..whole.len() / 2]).unwrap();
    operator.refused(to, &["restore", "half"], 1, "").await;
    fs::write(operator.file("other"), "no backup").unwrap();
    operator
        .refused(to, &["restore", "other"], 2, "is no backup")
        .await;
    operator
        .refused(to, &["restore", "none"], 1, "cannot read none")
        .await;
    operator.done(to, &there).await;
    operator.refused(to, &there, 2, "overwrites nothing").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_waits_until_no_service_runs_and_needs_the_same_kind_of_database() {
    let service = service().start().await;
    let mut operator = Operator::of(&service.backend);
    let from = service.backend.database_url.clone();
    operator.done(&from, &["backup", "shop.backup"]).await;
    let empty = Backend::create().await;
    let there = ["restore", "shop.backup"];
    let other = if is_distributed() {
        format!("sqlite://{}", operator.file("waybill.db").display())
    } else {
        "postgres://shop@127.0.0.1:1/waybill".to_owned()
    };
    operator.refused(&other, &there, 2, "is a backup of").await;

    let address = service.url.trim_start_matches("http://").to_owned();
    operator.settings.push(("LISTEN_ADDR".into(), address));
    let to = &empty.database_url;
    operator
        .refused(to, &there, 1, "a service answers on")
        .await;
    service.stop().await;
    operator.done(to, &there).await;
}
