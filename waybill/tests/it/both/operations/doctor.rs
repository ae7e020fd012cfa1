//! `waybill doctor`: its findings about parts that are right, missing, wrong, or made by another
//! product.

use std::process::{Command, Output};

use lapin::options::{QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::FieldTable;
use sandbox::{Options, PAYMENT_KEY, STOREFRONT_TOKEN, Sandbox};
use serde_json::Value;
use store::sql::Db;

use crate::support::backend::{PRIVACY_KEY, is_distributed};
use crate::support::delivery::{SHOP, order};
use crate::support::operator::{dead_orders, parsed, said, waybill};
use crate::support::order::post_all;
use crate::support::process::{command, free_port, output, run};
use crate::support::requests::{posted, request};
use crate::support::{PAYMENT_SECRET, STOREFRONT_SECRET, Service, eventually, service};

/// `waybill doctor --json` on a service's parts, with these settings more.
pub fn doctor(service: &Service, settings: &[(&str, &str)]) -> Command {
    let mut command = waybill(service, &["doctor", "--json"]);
    command.env("STOREFRONT_WEBHOOK_SECRET", STOREFRONT_SECRET);
    command.env("PAYMENT_WEBHOOK_SECRET", PAYMENT_SECRET);
    let exports = service.backend.folder().join("exports");
    command.env(
        "PRIVACY_EXPORT_URL",
        format!("file://{}", exports.display()),
    );
    command.env("STOREFRONT_SHOPS", SHOP);
    command.env("PRIVACY_KEY", PRIVACY_KEY);
    command.env("PUBLIC_URL", &service.url);
    command.env("LISTEN_ADDR", service.url.trim_start_matches("http://"));
    command.envs(settings.iter().copied());
    command
}

/// The levels and texts of the findings of a check.
pub fn found(output: &Output, check: &str) -> Vec<(String, String)> {
    let report = parsed(output);
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .filter(|finding| finding["check"] == check)
        .map(|finding| {
            let text = |name: &str| finding[name].as_str().unwrap().to_owned();
            if finding["level"] != "ok" {
                assert!(!text("advice").is_empty(), "{finding}");
            }
            (text("level"), text("found"))
        })
        .collect()
}

#[track_caller]
pub fn says(output: &Output, check: &str, level: &str, part: &str) {
    let found = found(output, check);
    let is_said = found
        .iter()
        .any(|(its, text)| its == level && text.contains(part));
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(is_said, "{check}: {level}, {part} in {found:?}\n{report}");
    let code = i32::from(parsed(output)["failed"] != 0);
    assert_eq!(output.status.code(), Some(code));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_all_is_well_nothing_fails() {
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    let service = service().start().await;
    post_all(&service, &[order("orders/create", 1)]).await;
    service.settled().await;
    platform::private_files::make_folder(&service.backend.folder().join("exports")).unwrap();
    let own = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(service.backend.folder(), own).unwrap();
    let settings = sandbox.settings();
    let settings: Vec<_> = settings
        .iter()
        .map(|(name, it)| (name.as_str(), it.as_str()))
        .chain([("PUBLIC_PAGES", "with_code")])
        .collect();
    eventually("a worker is heard of", async || {
        let leases = "select count(*) as n from leases";
        !is_distributed() || service.count(leases).await > 0
    })
    .await;
    let output = run(doctor(&service, &settings)).await;
    let report = parsed(&output);
    assert_eq!(report["failed"], 0, "{report:#}");
    // The test's service is on this machine alone, and its providers are set for the doctor only.
    let findings = report["findings"].as_array().unwrap().iter();
    let warnings = findings.filter(|finding| finding["level"] == "warning");
    let warnings: Vec<_> = warnings.map(|finding| &finding["check"]).collect();
    assert_eq!(
        warnings,
        ["public address", "service settings"],
        "{report:#}"
    );
    assert_eq!(output.status.code(), Some(0));
    for check in ["storefront API", "payment API", "identity provider"] {
        says(&output, check, "ok", "takes our credential");
    }
    says(&output, "export store", "ok", "written to");
    says(&output, "payment clock", "ok", "agrees");
    says(&output, "service", "ok", "is ready");
    says(&output, "last delivery", "ok", "s ago, payment none");
    if is_distributed() {
        says(&output, "workers", "ok", "working");
    }
    says(&output, "disk", "ok", "GiB");
    let folder = service.backend.folder().join("exports");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "tidied up");
    for secret in [
        STOREFRONT_SECRET,
        PAYMENT_SECRET,
        STOREFRONT_TOKEN,
        PAYMENT_KEY,
    ] {
        assert!(!report.to_string().contains(secret));
    }
    let wrong = [
        settings.as_slice(),
        &[("PAYMENT_API_KEY", "sk_test_of_another")],
    ]
    .concat();
    let output = run(doctor(&service, &wrong)).await;
    says(
        &output,
        "payment API",
        "failed",
        "refuses our credential (401)",
    );
    says(&output, "identity secret", "ok", "on");
    let mut without = doctor(&service, &settings);
    without.env_remove("GITHUB_CLIENT_SECRET");
    let part = "tokens of any app";
    let output = run(without).await;
    says(&output, "identity secret", "warning", part);
    service.stop().await;
}

#[test]
fn a_server_that_is_not_there_is_named_and_its_password_is_not() {
    let port = free_port();
    let settings = [
        (
            "DATABASE_URL",
            format!("postgres://waybill:hunter2hunter2@127.0.0.1:{port}/waybill"),
        ),
        (
            "AMQP_URL",
            format!("amqp://waybill:hunter2hunter2@127.0.0.1:{port}"),
        ),
        (
            "SMTP_URL",
            format!("smtp://shop:hunter2hunter2@127.0.0.1:{port}"),
        ),
        ("MAIL_FROM", "shop@shop.example".to_owned()),
        (
            "STOREFRONT_WEBHOOK_SECRET",
            "a-secret-of-the-shop,an-older-secret-of-the-shop".to_owned(),
        ),
        ("PAYMENT_WEBHOOK_SECRET", "short-12".to_owned()),
    ];
    let settings: Vec<_> = settings
        .iter()
        .map(|(name, it)| (*name, it.as_str()))
        .collect();
    let says_itself = |arguments: &[&str]| {
        let mut command = command("waybill", &settings);
        command.args(arguments);
        output(command)
    };
    let output = says_itself(&["doctor", "--json"]);
    let nobody = format!("nothing listens on 127.0.0.1:{port}");
    says(&output, "database", "failed", &nobody);
    says(&output, "broker", "failed", &nobody);
    says(&output, "mail server", "failed", "cannot be reached");
    says(&output, "storefront rotation", "warning", "2 secrets");
    says(&output, "payment secret", "warning", "shorter");
    let people = says_itself(&["doctor"]);
    assert_eq!(people.status.code(), Some(1));
    let text = String::from_utf8([people.stdout, people.stderr].concat()).unwrap();
    assert!(
        text.starts_with("CHECK ") && text.contains("FAILED"),
        "{text}"
    );
    assert!(text.contains("-> Is PostgreSQL running there"), "{text}");
    assert!(!text.contains('\x1b'), "no colour when piped");
    for secret in [
        "hunter2",
        "a-secret-of-the-shop",
        "an-older-secret-of-the-shop",
        "short-12",
    ] {
        let machine = String::from_utf8_lossy(&output.stdout);
        assert!(
            !text.contains(secret) && !machine.contains(secret),
            "{secret}"
        );
    }
    let mut wrong = command("waybill", &[("QR_BOX_SIZE", "0"), ("LISTEN_ADDR", "x")]);
    let wrong = self::output({
        wrong.arg("doctor");
        wrong
    });
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("2 things are wrong"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_another_version_is_distinguished() {
    let service = service().without_workers().start().await;
    let well = run(doctor(&service, &[])).await;
    says(&well, "schema", "ok", "applied");
    service
        .execute(
            "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
             select 9999, 'tomorrow', success, checksum, 0 from _sqlx_migrations where version = 1",
        )
        .await;
    says(
        &run(doctor(&service, &[])).await,
        "schema",
        "warning",
        "9999",
    );
    assert!(
        said(&service, &["migrate"]).await.contains("applied"),
        "it starts on it"
    );
    // A database from before the first release has another first migration.
    service
        .execute(
            "update _sqlx_migrations set checksum = (select fingerprint from privacy_keys)
             where version = 1",
        )
        .await;
    let unreleased = run(doctor(&service, &[])).await;
    says(&unreleased, "schema", "failed", "before its first release");
    service
        .execute("delete from _sqlx_migrations where version = 1")
        .await;
    let missing = run(doctor(&service, &[])).await;
    says(&missing, "schema", "warning", "migrations 1 are missing");
    let left = "select count(*) as n from _sqlx_migrations where version = 1";
    assert_eq!(service.count(left).await, 0, "looking applies none");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_dead_or_overdue_is_said() {
    let service = service().without_workers().start().await;
    dead_orders(&service, 2).await;
    post_all(&service, &[order("orders/paid", 3)]).await;
    posted(&service, &request("customers/redact", 4)).await;
    let late = "update jobs set run_at = run_at - 600000 where state = 'ready'";
    service.execute(late).await;
    let overdue = "update privacy_requests set due_at = 1000";
    service.execute(overdue).await;
    let file = service.backend.folder().join("no-folder");
    std::fs::write(&file, "").unwrap();
    let exports = format!("file://{}", file.display());
    let output = run(doctor(&service, &[("PRIVACY_EXPORT_URL", &exports)])).await;
    if is_distributed() {
        says(&output, "workers", "warning", "none has been heard of");
    }
    says(
        &output,
        "waiting jobs",
        "failed",
        "2, the oldest due for 10m",
    );
    says(&output, "dead jobs", "warning", "2");
    says(&output, "privacy requests", "failed", "overdue");
    says(&output, "export store", "failed", "no such folder");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_queue_that_is_missing_or_of_another_make_is_found_and_left_so() {
    let service = service().without_workers().start().await;
    let url = service.backend.amqp_url.as_ref().unwrap();
    let properties = lapin::ConnectionProperties::default();
    let connection = lapin::Connection::connect(url, properties).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let name = |queue: &str| format!("{}.{queue}", service.backend.name);
    for queue in ["orders", "payments"] {
        let gone = channel.queue_delete(name(queue).into(), QueueDeleteOptions::default());
        gone.await.unwrap();
    }
    let durable = QueueDeclareOptions {
        durable: true,
        ..QueueDeclareOptions::default()
    };
    let other = channel.queue_declare(name("payments").into(), durable, FieldTable::default());
    other.await.unwrap();
    for _ in 0..2 {
        let output = run(doctor(&service, &[])).await;
        says(&output, "broker", "ok", "connected");
        let missing = format!("{} is missing", name("orders"));
        says(&output, "queue", "failed", &missing);
        says(&output, "queue", "failed", "other arguments");
        let idle = format!("{}: 0 messages, 0 consumers", name("privacy"));
        says(&output, "queue", "warning", &idle);
        says(&output, "dead letters", "ok", "empty");
    }
    let report: Value = parsed(&run(doctor(&service, &[("AMQP_PREFIX", "nobody")])).await);
    assert!(report.to_string().contains("nobody.events"), "{report}");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_transaction_that_keeps_vacuum_from_its_work_is_named() {
    const A_FEW: &str = "do $$ begin
        for i in 1..10 loop perform pg_current_xact_id(); commit; end loop; end $$";
    const OTHERS: &str = "do $$ begin
        for i in 1..100000 loop perform pg_current_xact_id(); commit; end loop; end $$";
    let service = service().without_workers().start().await;
    let other = Db::open(&service.backend.database_url, 1).await.unwrap();
    let mut held = other.begin().await.unwrap();
    for statement in [
        "set transaction isolation level repeatable read",
        "select count(*) as n from jobs",
    ] {
        held.query(statement).fetch_all().await.unwrap();
    }
    let of_session = "select cast(pg_backend_pid() as bigint) as n";
    let session: i64 = held
        .query(of_session)
        .fetch_one()
        .await
        .unwrap()
        .get("n")
        .unwrap();
    // From now on it is older than what other sessions begin.
    service.db().on_server(&[A_FEW]).await.unwrap();
    let output = run(doctor(&service, &[])).await;
    says(
        &output,
        "oldest transaction",
        "ok",
        &format!("process {session}, "),
    );
    service.db().on_server(&[OTHERS]).await.unwrap();
    let output = run(doctor(&service, &[])).await;
    says(
        &output,
        "oldest transaction",
        "warning",
        &format!("process {session}, "),
    );
    says(
        &output,
        "oldest transaction",
        "warning",
        "idle in transaction",
    );
    let advice = format!("pg_terminate_backend({session})");
    assert!(String::from_utf8_lossy(&output.stdout).contains(&advice));
    held.rollback().await.unwrap();
    other.close().await;
    let output = run(doctor(&service, &[])).await;
    let found = found(&output, "oldest transaction");
    assert!(found.iter().all(|(level, _)| level == "ok"), "{found:?}");
    service.stop().await;
}
