//! A full disk (docs/reliability.md, C14 and C17). The tests use a small file system of their own. If
//! the kernel does not allow them to make one, they say so and end.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use store::sql::Db;
use tempfile::TempDir;

use crate::support::backend::Backend;
use crate::support::delivery::{Delivery, SHOP, order, storefront};
use crate::support::process::{Process, free_port, is_ready, settings};
use crate::support::{eventually, within};

const MEGABYTES: u32 = 16;

fn can_mount() -> bool {
    let mount = "mount -t tmpfs tmpfs /mnt";
    let tried = Command::new("/usr/bin/unshare")
        .args(["--mount", "--map-root-user", "/bin/sh", "-c", mount])
        .output();
    let can = tried.is_ok_and(|output| output.status.success());
    if !can {
        eprintln!("skipped: no file system can be mounted here");
    }
    can
}

struct Product {
    _process: Process,
    port: u16,
    /// The disk, as it is seen from here.
    disk: PathBuf,
    _folder: TempDir,
}

impl Product {
    async fn start(backend: &Backend, more: impl Fn(&Path) -> Vec<(String, String)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let mut settings = settings(backend, port);
        for (name, value) in more(folder.path()) {
            settings.retain(|(other, _)| *other != name);
            settings.push((name, value));
        }
        let process = Process::serve_with_disk(&settings, folder.path(), MEGABYTES);
        is_ready(port).await;
        Product {
            disk: process.path(folder.path()),
            _process: process,
            port,
            _folder: folder,
        }
    }

    /// The status and code of the answer.
    async fn post(&self, delivery: &Delivery) -> (u16, Option<String>) {
        let client = reqwest::Client::new();
        let mut request = client
            .post(format!("http://127.0.0.1:{}{}", self.port, delivery.path))
            .timeout(Duration::from_millis(2500))
            .body(delivery.body.clone());
        for (name, value) in &delivery.headers {
            request = request.header(*name, value.as_slice());
        }
        let answer = request.send().await.unwrap();
        let code = answer.headers().get("x-error-code");
        let code = code.map(|code| code.to_str().unwrap().to_owned());
        (answer.status().as_u16(), code)
    }

    /// Takes all room that is left.
    fn fill(&self) {
        let mut file = File::create(self.filler()).unwrap();
        let mut block: &[u8] = &[0; 4096];
        while !block.is_empty() {
            if file.write_all(block).is_err() {
                block = &block[..block.len() / 2];
            }
        }
    }

    /// In a copy of the database, because SQLite follows links and would look for it on our disk.
    /// None: it was written to meanwhile.
    async fn count(&self, sql: &'static str) -> Option<i64> {
        let copy = tempfile::tempdir().unwrap();
        for name in ["waybill.db", "waybill.db-wal"] {
            std::fs::copy(self.disk.join(name), copy.path().join(name)).ok()?;
        }
        let url = format!("sqlite://{}/waybill.db", copy.path().display());
        let db = Db::open(&url, 1).await.ok()?;
        let row = db.query(sql).fetch_one().await;
        db.close().await;
        row.ok()?.get("n").ok()
    }

    fn make_room(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.disk.join("filler")
    }
}

fn created(seed: u64) -> Delivery {
    order("orders/create", seed).id(&format!("w-{seed}"))
}

/// PostgreSQL's disk is PostgreSQL's own affair.
#[tokio::test]
async fn a_full_disk_means_503_and_nothing_remembered_until_there_is_room() {
    if !can_mount() {
        return;
    }
    let backend = Backend::create().await;
    let product = Product::start(&backend, |disk| {
        let url = format!("sqlite://{}/waybill.db", disk.display());
        vec![("DATABASE_URL".to_owned(), url)]
    })
    .await;
    assert_eq!(product.post(&created(0)).await.0, 200);
    product.fill();
    // The database still has some room of its own.
    let mut accepted = 1;
    let refused = loop {
        let (status, code) = product.post(&created(accepted)).await;
        if status != 200 {
            assert_eq!((status, code.as_deref()), (503, Some("COMMERCE_009")));
            break accepted;
        }
        accepted += 1;
        assert!(accepted < 10_000, "the disk never got full");
    };
    product.make_room();
    eventually(
        "what was refused is accepted, and is no duplicate",
        async || {
            let (status, _) = product.post(&created(refused)).await;
            assert!([200, 503].contains(&status), "{status}");
            status == 200
        },
    )
    .await;
    for seed in 0..=refused {
        assert_eq!(product.post(&created(seed)).await.0, 409, "{seed} is kept");
    }
    let expected = i64::try_from(refused + 1).unwrap();
    within(Duration::from_mins(1), "each is done once", async || {
        product.count("select count(*) as n from orders").await == Some(expected)
            && product.count(DONE).await == Some(expected)
    })
    .await;
}

const DONE: &str = "select count(*) as n from jobs where kind = 'orders/create' and state = 'done'";

#[tokio::test]
async fn an_export_that_does_not_fit_on_its_disk_is_written_once_there_is_room() {
    if !can_mount() {
        return;
    }
    let backend = Backend::create().await;
    let product = Product::start(&backend, |disk| {
        let url = format!("file://{}/exports", disk.display());
        vec![("PRIVACY_EXPORT_URL".to_owned(), url)]
    })
    .await;
    product.fill();
    let customer = json!({"id": 77, "email": "canary@example.com", "phone": null});
    let body = json!({
        "shop_id": 1, "shop_domain": SHOP, "customer": customer, "orders_requested": [],
    });
    let request = storefront("customers/data_request", body.to_string());
    eventually("a busy machine takes it", async || {
        matches!(product.post(&request).await.0, 200 | 409)
    })
    .await;
    let db = Db::open(&backend.database_url, 1).await.unwrap();
    let state = async || {
        let sql = "select r.state as state, j.last_error as error
                   from privacy_requests r join jobs j on j.id = r.id";
        let row = db.query(sql).fetch_one().await.unwrap();
        let error: Option<String> = row.get("error").unwrap();
        (
            row.get::<String>("state").unwrap(),
            error.unwrap_or_default(),
        )
    };
    eventually("its first try has failed", async || {
        let (state, error) = state().await;
        state == "received" && error.starts_with("COMMERCE_007: there is no room")
    })
    .await;
    product.make_room();
    let mut tx = db.begin().await.unwrap();
    tx.query("update jobs set run_at = created_at, notified_at = null where state = 'ready'")
        .execute()
        .await
        .unwrap();
    tx.commit().await.unwrap();
    within(Duration::from_secs(30), "it is done", async || {
        state().await.0 == "done"
    })
    .await;
    let mut names = Vec::new();
    for request in std::fs::read_dir(product.disk.join("exports")).unwrap() {
        let request = request.unwrap();
        // Beside the folders there is the mark of the store.
        if !request.file_type().unwrap().is_dir() {
            assert_eq!(request.file_name(), "waybill-store");
            continue;
        }
        let run = std::fs::read_dir(request.path()).unwrap().next().unwrap();
        let files = std::fs::read_dir(run.unwrap().path()).unwrap();
        names.extend(files.map(|file| file.unwrap().file_name().into_string().unwrap()));
    }
    names.sort();
    assert_eq!(names, ["export.json", "manifest.json"]);
    db.close().await;
}
