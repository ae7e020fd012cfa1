//! `waybill sandbox` as a person uses it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::process::{Process, command, free_port, is_ready, output};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn settings(port: u16, folder: &TempDir) -> Vec<(String, String)> {
    let database = folder.path().join("shop.db");
    let address = format!("127.0.0.1:{port}");
    vec![
        ("PUBLIC_URL".into(), format!("http://{address}")),
        ("LISTEN_ADDR".into(), address),
        (
            "DATABASE_URL".into(),
            format!("sqlite://{}", database.display()),
        ),
        ("STOREFRONT_RATE_PER_SECOND".into(), "0".into()),
        ("RUST_LOG".into(), "warn".into()),
    ]
}

fn waybill(settings: &[(String, String)], arguments: &[&str]) -> Command {
    let mut command = command("waybill", &[]);
    command.envs(settings.iter().map(|(name, value)| (name, value)));
    command.args(arguments);
    command
}

#[tokio::test]
async fn a_storm_is_taken_once_and_known_when_it_comes_again() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let settings = settings(port, &folder);
    let storm = |more: &[&str]| -> Output {
        let arguments = [&["sandbox", "storm", "--orders", "4", "--seed", "7"], more].concat();
        output(waybill(&settings, &arguments))
    };
    let alone = storm(&[]);
    assert_eq!(alone.status.code(), Some(1));
    assert!(text(&alone.stderr).contains("is `waybill` running"));
    let _process = Process::start("waybill", &[], &settings);
    is_ready(port).await;
    let first = storm(&[]);
    let said = text(&first.stdout);
    assert!(first.status.success(), "{said}{}", text(&first.stderr));
    assert!(said.contains("200     20     accepted"), "{said}");
    assert!(
        said.contains("storm --orders 4 --repeat 3 --seed 7"),
        "{said}"
    );
    assert!(
        first.stderr.is_empty(),
        "no progress where there is no terminal"
    );
    let again: Value = serde_json::from_slice(&storm(&["--json"]).stdout).unwrap();
    let report = &again["report"];
    assert_eq!(
        (&again["seed"], &report["accepted"]),
        (&7.into(), &0.into())
    );
    assert_eq!(report["duplicates"], report["deliveries"]);
    let mut forged = settings.clone();
    forged.push(("STOREFRONT_WEBHOOK_SECRET".into(), "another secret".into()));
    let refused = output(waybill(&forged, &["sandbox", "storm", "--orders", "1"]));
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stdout).contains("refused"));
}

/// A sandbox of its own process; killed when dropped.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn the_sandbox_says_where_it_is_and_with_which_settings_to_use_it() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(free_port(), &folder);
    let mut serve = waybill(&settings, &["sandbox", "serve", "--listen", "127.0.0.1:0"]);
    let mut served = Served(serve.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(served.0.stdout.take().unwrap()).lines();
    let mut value = |name: &str| {
        let line = lines.find_map(|line| {
            let line = line.unwrap();
            Some(
                line.trim()
                    .strip_prefix(name)?
                    .strip_prefix('=')?
                    .to_owned(),
            )
        });
        line.unwrap_or_else(|| panic!("{name} is in the banner"))
    };
    let (url, token) = (value("STOREFRONT_API_URL"), value("STOREFRONT_API_TOKEN"));
    let order = reqwest::Client::new()
        .get(format!("{url}/orders/7/fulfillment_orders.json"))
        .header("X-Storefront-Access-Token", token)
        .send();
    assert_eq!(order.await.unwrap().status(), 200);
    let (url, key) = (value("PAYMENT_API_URL"), value("PAYMENT_API_KEY"));
    let intent = reqwest::Client::new()
        .get(format!("{url}/v1/payment_intents/pi_1"))
        .bearer_auth(key)
        .send();
    assert_eq!(intent.await.unwrap().status(), 404);
    let sandbox = url.trim_end_matches("/payment");
    let checkout = |more: &[&str]| {
        let arguments = ["sandbox", "checkout", "--sandbox", sandbox];
        output(waybill(&settings, &[&arguments, more].concat()))
    };
    let opened = checkout(&["--amount", "12.50", "--currency", "USD", "--json"]);
    let opened: Value = serde_json::from_slice(&opened.stdout).unwrap();
    let page = reqwest::get(opened["url"].as_str().unwrap()).await.unwrap();
    assert!(page.text().await.unwrap().contains("12.50 USD"));
    let said = checkout(&["--pact", "p1"]);
    let order = store::orders::checkout_key("p1").1;
    let line = format!("waybill orders show {order}");
    assert!(text(&said.stdout).contains(&line), "{}", text(&said.stdout));
    let refused = checkout(&["--currency", "JPY"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("USD, EUR, GBP, MXN"));
    let (url, api) = (value("GITHUB_URL"), value("GITHUB_API_URL"));
    let (id, secret) = (value("GITHUB_CLIENT_ID"), value("GITHUB_CLIENT_SECRET"));
    let code = reqwest::Client::new()
        .post(format!("{url}/login/device/code"))
        .form(&[("client_id", &id)])
        .send();
    assert_eq!(code.await.unwrap().status(), 200);
    let token = reqwest::Client::new()
        .post(format!("{api}/applications/{id}/token"))
        .header("User-Agent", "waybill")
        .basic_auth(&id, Some(secret))
        .json(&json!({"access_token": "gho_none"}))
        .send();
    assert_eq!(token.await.unwrap().status(), 404);
}

#[test]
fn the_sandbox_is_not_for_the_network() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(free_port(), &folder);
    let serve = waybill(&settings, &["sandbox", "serve", "--listen", "0.0.0.0:0"]);
    let refused = output(serve);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("loopback"));
}
