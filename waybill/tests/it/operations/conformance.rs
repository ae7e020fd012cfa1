//! `waybill conformance` finds nothing wrong with Waybill, and says what is wrong with another receiver.

use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::process::{command, run};
use crate::support::{PAYMENT_SECRET, STOREFRONT_SECRET, service};

const STANDARD_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

async fn conformance(url: &str, secret: &str, arguments: &[&str]) -> Output {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, format!("{secret}\n")).unwrap();
    let mut command = command("waybill", &[]);
    command
        .args(["conformance", url, "--secret-file"])
        .arg(file);
    command.args(arguments);
    run(command).await
}

/// The cases with another result than this one.
fn others(output: &Output, result: &str) -> Vec<(String, String)> {
    let reports: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(reports.len() > 20, "{reports:?}");
    let text = |report: &Value, name: &str| report[name].as_str().unwrap().to_owned();
    let others = reports.iter().filter(|report| report["result"] != result);
    others
        .map(|report| (text(report, "case"), text(report, "answer")))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn waybill_does_what_a_receiver_must_and_should_do_for_every_provider() {
    let providers = [
        ("storefront", "generic", STOREFRONT_SECRET),
        ("shopify", "shopify", STOREFRONT_SECRET),
        ("standard-webhooks", "standard-webhooks", STANDARD_SECRET),
    ];
    for (sender, profile, secret) in providers {
        let service = service()
            .setting("STOREFRONT_PROVIDER", profile)
            .setting("STOREFRONT_WEBHOOK_SECRET", secret)
            .start()
            .await;
        let url = format!("{}/api/webhooks/storefront", service.url);
        let output = conformance(&url, secret, &["--as", sender, "--json"]).await;
        assert_eq!(others(&output, "ok"), [], "{sender}");
        assert!(output.status.success(), "{sender}");
        service.stop().await;
    }
    for (sender, profile) in [("payment", "generic"), ("stripe", "stripe")] {
        let service = service().setting("PAYMENT_PROVIDER", profile).start().await;
        let url = format!("{}/api/webhooks/payment", service.url);
        let output = conformance(&url, PAYMENT_SECRET, &["--as", sender, "--json"]).await;
        assert_eq!(others(&output, "ok"), [], "{sender}");
        assert!(output.status.success(), "{sender}");
        service.stop().await;
    }
}

/// A receiver that answers 200 to whatever comes, as soon as it has the head.
async fn credulous() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    platform::task::spawn("receiver", async move {
        while let Ok((mut client, _)) = listener.accept().await {
            platform::task::spawn("connection", async move {
                let mut bytes = vec![0; 64 * 1024];
                let _ = client.read(&mut bytes).await;
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                let _ = client.write_all(answer).await;
                // Whoever still writes is not answered with a reset.
                while client.read(&mut bytes).await.is_ok_and(|length| length > 0) {}
            });
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_believes_everything_is_told_so() {
    let url = credulous().await;
    let output = conformance(&url, STOREFRONT_SECRET, &["--json"]).await;
    assert_eq!(output.status.code(), Some(1));
    let wrong: Vec<String> = others(&output, "ok").into_iter().map(|it| it.0).collect();
    for case in [
        "no-signature",
        "other-secret",
        "changed-byte",
        "two-lengths",
        "get",
    ] {
        assert!(wrong.iter().any(|it| it == case), "{case}: {wrong:?}");
    }
    for case in ["signed", "raw-body", "again", "burst", "alive"] {
        assert!(!wrong.iter().any(|it| it == case), "{case}: {wrong:?}");
    }
    let said = conformance(&url, STOREFRONT_SECRET, &["--only", "no-signature"]).await;
    let (table, error) = (String::from_utf8(said.stdout).unwrap(), said.stderr);
    assert!(table.contains("WRONG   no-signature  200"), "{table}");
    assert!(
        table.contains("0 ok, 1 wrong, 0 weak, 0 skipped"),
        "{table}"
    );
    let error = String::from_utf8(error).unwrap();
    assert!(error.contains("one thing that it must not do"), "{error}");
    assert!(!error.contains(STOREFRONT_SECRET) && !table.contains(STOREFRONT_SECRET));
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments_are_told_apart_from_a_wrong_receiver() {
    let url = credulous().await;
    let output = conformance(&url, STOREFRONT_SECRET, &["--only", "everything"]).await;
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("there are signed, raw-body"), "{said}");
    let none = conformance("http://127.0.0.1:1/", STOREFRONT_SECRET, &[]).await;
    assert_eq!(none.status.code(), Some(1));
    let said = String::from_utf8(none.stderr).unwrap();
    assert!(said.contains("is the receiver running"), "{said}");
}
