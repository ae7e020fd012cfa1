//! `waybill copy` that dies leaves the file as it was, and is run again; or all is in the copy.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Output;

use platform::crash_point::Moment;
use store::sql::Db;

use super::table::{Area, targets};
use super::world::ABORTED;
use crate::support::backend::{Backend, PRIVACY_KEY, statement};
use crate::support::process::{self, free_port};
use crate::support::storm::count;

struct Shop {
    settings: Vec<(String, String)>,
}

impl Shop {
    async fn run(&self, at: &str, arguments: &[&str]) -> Output {
        let pairs = self.settings.iter();
        let mut settings: Vec<(&str, &str)> =
            pairs.map(|(name, value)| (&**name, &**value)).collect();
        settings.push(("WAYBILL_CRASH_AT", at));
        let mut command = process::command("waybill", &settings);
        command.args(arguments);
        process::run(command).await
    }

    async fn succeeds(&self, arguments: &[&str]) {
        let output = self.run("", arguments).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_dies_leaves_the_file_as_it_was_or_all_is_in_the_copy() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite://{}/shop.db", folder.path().display());
    let backend = Backend::create().await;
    let settings = [
        ("DATABASE_URL", address.as_str()),
        ("PRIVACY_KEY", PRIVACY_KEY),
        ("LISTEN_ADDR", &format!("127.0.0.1:{}", free_port())),
    ];
    let shop = Shop {
        settings: settings
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    };
    shop.succeeds(&["migrate"]).await;
    shop.succeeds(&["keys", "create", "till"]).await;
    let copy = ["copy", "--to", &backend.database_url];
    let abandon = ["copy", "--abandon"];
    let (mut is_copied, mut is_moved) = (false, false);
    for (nth, target) in targets(Area::Moves).into_iter().enumerate() {
        if !is_copied {
            shop.succeeds(&["orgs", "create", &format!("org-{nth}")])
                .await;
        }
        let is_abandoned = target.of.ends_with("::abandon");
        let arguments = if is_abandoned {
            &abandon[..]
        } else {
            &copy[..]
        };
        let output = shop.run(&target.at, arguments).await;
        assert_eq!(
            output.status.signal(),
            Some(ABORTED),
            "{}: {output:?}",
            target.name
        );
        if target.name.starts_with(Moment::Committed.name()) {
            is_copied = true;
            is_moved = target.of.ends_with("::copy");
        }
        let served = shop.run("", &["orgs", "list"]).await;
        assert_eq!(served.status.success(), !is_moved, "{}", target.name);
    }
    // Given up, it is as before, and differs from what the copy has.
    shop.succeeds(&["orgs", "create", "one more"]).await;
    let again = shop.run("", &copy).await;
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(said.contains("it is not empty"), "{said}");

    let (file, copied) = (
        Db::open(&address, 1).await.unwrap(),
        Db::open(&backend.database_url, 1).await.unwrap(),
    );
    for (table, more) in [("orgs", 1), ("api_keys", 0), ("privacy_keys", 0)] {
        let sql = statement(format!("select count(*) as n from {table}"));
        let there = count(&copied, sql).await;
        assert!(there > 0, "{table}");
        assert_eq!(there + more, count(&file, sql).await, "{table}");
    }
    copied.close().await;
    file.close().await;
}
