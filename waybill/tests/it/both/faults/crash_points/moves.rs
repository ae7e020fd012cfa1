//! `waybill copy` that dies goes on where it was, and the file takes writes until all is in the copy.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Output;

use platform::crash_point::Moment;
use store::sql::{Db, is_outage, is_read_only};

use super::table::{Area, targets};
use super::world::ABORTED;
use crate::support::backend::{Backend, PRIVACY_KEY};
use crate::support::process::{self, free_port};
use crate::support::storm::count;

struct Shop {
    settings: Vec<(String, String)>,
    file: Db,
    to: String,
    orgs: usize,
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

    /// Something that is inserted, something that is changed, and something that is deleted.
    async fn change(&mut self) {
        let gone = format!("org-{}", self.orgs);
        self.orgs += 1;
        let name = format!("org-{}", self.orgs);
        self.succeeds(&["orgs", "create", &name]).await;
        let mut tx = self.file.begin().await.unwrap();
        let delete = "delete from orgs where name = $1";
        tx.query(delete)
            .bind(gone.as_str())
            .execute()
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_dies_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite://{}/shop.db", folder.path().display());
    let backend = Backend::create().await;
    let settings = [
        ("DATABASE_URL", address.as_str()),
        ("PRIVACY_KEY", PRIVACY_KEY),
        ("LISTEN_ADDR", &format!("127.0.0.1:{}", free_port())),
    ];
    let mut shop = Shop {
        settings: settings
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        file: Db::open(&address, 1).await.unwrap(),
        to: backend.database_url.clone(),
        orgs: 0,
    };
    shop.succeeds(&["migrate"]).await;
    shop.succeeds(&["keys", "create", "till"]).await;
    let to = shop.to.clone();
    for target in targets(Area::Moves) {
        let is_abandoned = target.of.ends_with("::abandon");
        let is_moved = target.of.ends_with("::close") || is_abandoned;
        if !is_moved {
            shop.change().await;
        }
        let copy = ["copy", "--to", &to];
        let abandon = ["copy", "--abandon"];
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
        let served = shop.run("", &["orgs", "list"]).await;
        let committed = target.name.starts_with(Moment::Committed.name());
        if target.of.ends_with("copy::end") && committed {
            // From here on the copy alone is used, when it is whole.
            assert!(!served.status.success(), "{}: {served:?}", target.name);
            let mut tx = shop.file.begin().await.unwrap();
            let refused = tx.query("delete from orgs").execute().await.unwrap_err();
            assert!(is_read_only(&refused) && is_outage(&refused), "{refused}");
            tx.rollback().await.unwrap();
        } else if !is_moved {
            assert!(served.status.success(), "{}: {served:?}", target.name);
        }
    }
    // Given up, it is copied again, into a database that the first copy has left whole.
    shop.succeeds(&["copy", "--abandon"]).await;
    let again = shop.run("", &["copy", "--to", &to]).await;
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(said.contains("it is not empty"), "{said}");

    let copied = Db::open(&to, 1).await.unwrap();
    for table in ["orgs", "api_keys", "audit", "privacy_keys"] {
        let sql = format!("select count(*) as n from {table}");
        let sql = crate::support::backend::statement(sql);
        assert!(count(&copied, sql).await > 0, "{table}");
        assert_eq!(
            count(&copied, sql).await,
            count(&shop.file, sql).await,
            "{table}"
        );
    }
    copied.close().await;
    shop.file.close().await;
}
