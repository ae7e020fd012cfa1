//! The `waybill` command as a person uses it.

use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::eventually;
use crate::support::process::{Process, command, free_port, is_ready, output};

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A folder to run in, with the settings of a development start there.
pub struct Shop {
    pub folder: TempDir,
    port: u16,
}

impl Shop {
    pub fn new() -> Self {
        Shop {
            folder: tempfile::tempdir().unwrap(),
            port: free_port(),
        }
    }

    pub fn settings(&self) -> Vec<(String, String)> {
        let database = self.folder.path().join("shop.db");
        vec![
            ("LISTEN_ADDR".into(), format!("127.0.0.1:{}", self.port)),
            (
                "PUBLIC_URL".into(),
                format!("http://127.0.0.1:{}", self.port),
            ),
            (
                "DATABASE_URL".into(),
                format!("sqlite://{}", database.display()),
            ),
            ("RUST_LOG".into(), "warn".into()),
        ]
    }

    async fn start(&self) -> Process {
        let process = Process::start("waybill", &[], &self.settings());
        is_ready(self.port).await;
        process
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut command = command("waybill", &[]);
        // As the process, which is on SQLite whatever the backend of the tests.
        command.env_remove("PRIVACY_KEY");
        let settings = self.settings();
        command.envs(settings.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.folder.path()).args(arguments);
        output(command)
    }
}

#[tokio::test]
async fn trigger_ends_with_an_order_and_a_qr_code_and_says_that_the_second_time_is_a_duplicate() {
    let shop = Shop::new();
    let _process = shop.start().await;
    let first = shop.run(&["trigger", "orders/create", "--id", "w-1", "--seed", "7"]);
    let said = text(&first.stdout);
    assert!(first.status.success(), "{said}{}", text(&first.stderr));
    for part in [
        r#"200 {"status":"ok"}"#,
        "state        done",
        "fulfilment  initiated",
        "QR code written to data/qr/",
    ] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
    assert!(!said.contains('\x1b'), "no colour when piped");
    let mut pictures = std::fs::read_dir(shop.folder.path().join("data/qr")).unwrap();
    let picture = std::fs::read(pictures.next().unwrap().unwrap().path()).unwrap();
    assert!(picture.starts_with(b"\x89PNG"));
    let second = shop.run(&["trigger", "orders/create", "--id", "w-1", "--seed", "7"]);
    let said = text(&second.stdout);
    assert!(second.status.success(), "{said}{}", text(&second.stderr));
    assert!(
        said.contains(r#"409 {"detail":"Duplicate webhook"}"#),
        "{said}"
    );
    assert!(said.contains("It is a duplicate"), "{said}");
}

#[tokio::test]
async fn what_is_sent_again_is_the_same_and_takes_nothing_back() {
    let shop = Shop::new();
    let _process = shop.start().await;
    let from = ["--shop", "it's.example", "--json"];
    let wrong = shop.run(&[&["trigger", "orders/create"][..], &from].concat());
    assert_eq!(wrong.status.code(), Some(1), "no shop has this name");
    let paid = ["trigger", "orders/paid", "--seed", "9"];
    assert!(shop.run(&paid).status.success());
    let shipped = [
        "trigger",
        "orders/fulfilled",
        "--seed",
        "9",
        "--shop",
        "b.example",
    ];
    let said = text(&shop.run(&shipped).stdout);
    let again = said.lines().last().unwrap();
    let again = again
        .strip_prefix("The same delivery again: waybill ")
        .unwrap();
    assert!(again.contains("--seed 9 --shop b.example --id "), "{again}");
    let again: Vec<&str> = again.split(' ').collect();
    let said = text(&shop.run(&again).stdout);
    assert!(said.contains("It is a duplicate"), "{said}");
    // An order that was shipped stays shipped when it is paid again.
    let paid = [
        "trigger",
        "orders/paid",
        "--seed",
        "9",
        "--shop",
        "b.example",
    ];
    let said = text(&shop.run(&paid).stdout);
    assert!(said.contains("shipped     fulfilled"), "{said}");
    let body = shop.folder.path().join("my order.json");
    std::fs::write(&body, r#"{"id":77}"#).unwrap();
    let sent = ["trigger", "orders/create", "--body", body.to_str().unwrap()];
    let said = text(&shop.run(&sent).stdout);
    let named = format!("--body '{}' --id ", body.display());
    assert!(said.contains(&named), "{said}");
}

#[tokio::test]
async fn a_limit_is_named_by_its_setting_in_the_log_and_by_trigger() {
    let shop = Shop::new();
    let log = shop.folder.path().join("log");
    let mut settings = shop.settings();
    settings.push(("RUST_LOG".into(), "info".into()));
    settings.push(("PAYMENT_RATE_PER_SECOND".into(), "1".into()));
    let _process = Process::start_logged("waybill", &[], &settings, &log);
    is_ready(shop.port).await;
    let mut refused = None;
    for seed in 1..50 {
        let sent = ["trigger", "charge.refunded", "--seed", &seed.to_string()];
        let sent = shop.run(&sent);
        if !sent.status.success() {
            refused = Some(text(&sent.stderr));
            break;
        }
    }
    let refused = refused.expect("two at once are the limit");
    assert!(refused.contains("429"), "{refused}");
    assert!(refused.contains("PAYMENT_RATE_PER_SECOND"), "{refused}");
    eventually("the log names it", async || {
        let log = std::fs::read_to_string(&log).unwrap();
        log.contains("PAYMENT_RATE_PER_SECOND to more")
    })
    .await;
}

#[tokio::test]
async fn addresses_follow_the_port() {
    let shop = Shop::new();
    let mut settings = shop.settings();
    settings.retain(|(name, _)| name == "DATABASE_URL" || name == "RUST_LOG");
    let address = format!("127.0.0.1:{}", shop.port);
    let flag = ["--listen-addr", &address];
    let mut starting = command("waybill", &[]);
    starting.env_remove("PRIVACY_KEY");
    starting.envs(settings.iter().map(|(name, value)| (name, value)));
    starting.args(flag).stdout(std::process::Stdio::piped());
    let mut child = starting.spawn().unwrap();
    is_ready(shop.port).await;
    let run = |arguments: &[&str]| {
        let mut command = command("waybill", &[]);
        command.env_remove("PRIVACY_KEY");
        command.envs(settings.iter().map(|(name, value)| (name, value)));
        command.current_dir(shop.folder.path());
        command.args([&flag, arguments].concat());
        output(command)
    };
    let sent = run(&["trigger", "orders/create"]);
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    assert!(text(&sent.stdout).contains(&format!("POST http://{address}/")));
    // A second one on the same port, with data of its own, says what is wrong.
    let other = format!("sqlite://{}/other.db", shop.folder.path().display());
    let busy = run(&["serve", "--database-url", &other]);
    assert_eq!(busy.status.code(), Some(2), "it has no secrets");
    let mut busy = command(
        "waybill",
        &[("DATABASE_URL", &other), ("LISTEN_ADDR", &address)],
    );
    busy.env_remove("PRIVACY_KEY");
    let busy = output(busy);
    assert_eq!(busy.status.code(), Some(1));
    let said = text(&busy.stderr);
    assert!(
        said.contains(&format!("cannot listen on {address}")),
        "{said}"
    );
    assert!(said.contains("--listen-addr"), "{said}");
    // A command that looks into another database than the service's does not say that all is well.
    let elsewhere = run(&["trigger", "orders/create", "--database-url", &other]);
    assert_eq!(elsewhere.status.code(), Some(1));
    let said = text(&elsewhere.stderr);
    assert!(
        said.contains("another Waybill") && said.contains("other.db"),
        "{said}"
    );
    child.kill().unwrap();
    let banner = text(&child.wait_with_output().unwrap().stdout);
    assert!(
        banner.contains(&format!("ready on http://{address}\n")),
        "{banner}"
    );
    let next = format!("trigger orders/create --listen-addr {address}");
    assert!(banner.contains(&next), "{banner}");
}

#[test]
fn a_database_that_does_not_answer_is_named_once_with_what_to_do() {
    let url = "postgres://waybill:canary@127.0.0.1:9/shop";
    let key = ("PRIVACY_KEY", "a key that is long enough for everybody");
    for arguments in [&["jobs", "list"][..], &["migrate"]] {
        let mut command = command("waybill", &[("DATABASE_URL", url), key]);
        command.args(arguments);
        let output = output(command);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(
            text(&output.stderr).trim(),
            "error: DATABASE_URL: the database shop at 127.0.0.1:9 does not answer; is it running, and may \
             this machine reach it? `waybill doctor` looks closer"
        );
    }
}

#[test]
fn a_command_in_a_wrong_folder_says_where_it_has_looked_and_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["jobs", "list"][..],
        &["orders", "show", "1"],
        &["dead", "summary"],
    ] {
        let mut command = command("waybill", &[]);
        command.env_remove("PRIVACY_KEY");
        command.args(arguments).current_dir(folder.path());
        let looked = output(command);
        assert_eq!(looked.status.code(), Some(1), "{arguments:?}");
        let said = text(&looked.stderr);
        let place = folder
            .path()
            .canonicalize()
            .unwrap()
            .join("data/waybill.db");
        assert!(said.contains(place.to_str().unwrap()), "{said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// The value and origin of settings, as `waybill config` shows them in a folder.
fn shown(folder: &TempDir, environment: &[(&str, &str)], flags: &[&str]) -> (Value, Output) {
    let mut config = command("waybill", environment);
    config.env_remove("PRIVACY_KEY");
    config.current_dir(folder.path());
    config.args(["config", "--json"]).args(flags);
    let output = output(config);
    (serde_json::from_slice(&output.stdout).unwrap(), output)
}

fn setting(rows: &Value, name: &str) -> (String, String) {
    let mut rows = rows.as_array().unwrap().iter();
    let row = rows.find(|row| row["name"] == name).unwrap();
    let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
    (text("value"), text("origin"))
}

#[test]
fn the_file_env_is_read_after_flags_and_environment() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(".env");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "from-a-file-in-env\n").unwrap();
    let text_of = "# a comment\nQR_BOX_SIZE=6\nQR_BORDER='5'\nexport MAX_CONNECTIONS=64 # few\n\
                   PRIVACY_KEY=\nPOSTGRES_PASSWORD=another-program's\n\
                   STOREFRONT_WEBHOOK_SECRET_FILE=secret\nLISTEN_ADDR=127.0.0.1:9009\n";
    std::fs::write(&file, text_of).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let environment = [("QR_BORDER", "4"), ("MAX_CONNECTIONS", "32")];
    let (rows, output) = shown(&folder, &environment, &["--max-connections", "16"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for (name, value, origin) in [
        ("QR_BOX_SIZE", "6", ".env"),
        ("QR_BORDER", "4", "environment"),
        ("MAX_CONNECTIONS", "16", "flag"),
        ("STOREFRONT_WEBHOOK_SECRET", "***", ".env"),
        ("PRIVACY_KEY", "", "unset"),
        ("LISTEN_ADDR", "127.0.0.1:9009", ".env"),
        ("QR_ERROR_CORRECTION", "H", "default"),
    ] {
        let expected = (value.to_owned(), origin.to_owned());
        assert_eq!(setting(&rows, name), expected, "{name}");
    }
    // A folder below is another folder.
    let below = tempfile::tempdir_in(folder.path()).unwrap();
    let (rows, _) = shown(&below, &[], &[]);
    assert_eq!(setting(&rows, "QR_BOX_SIZE").1, "default");
    let wrong = |content: &str, mode: u32| {
        std::fs::write(&file, content).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let (_, output) = shown(&folder, &[], &[]);
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    let said = wrong("COMMERCE_RATE=7\n", 0o600);
    let meant = ".env: COMMERCE_RATE is not a setting; did you mean COMMERCE_RATE_PER_SECOND?";
    assert!(said.contains(meant), "{said}");
    let said = wrong("QR_BOX_SIZE=6\nnonsense\n", 0o600);
    assert!(said.contains(".env, line 2"), "{said}");
    let said = wrong("QR_BOX_SIZE=6\n", 0o666);
    assert!(said.contains("chmod 600"), "{said}");
}

#[test]
fn what_went_is_named_with_what_to_use_in_its_place() {
    let shop = Shop::new();
    for (line, what, instead) in [
        (
            &["conformance", "http://127.0.0.1:1/hook"][..],
            "conformance",
            "waybill trigger",
        ),
        (
            &["connect", "shopify-events"],
            "shopify-events",
            "use shopify",
        ),
        (
            &["dead", "replay", "--all"],
            "dead replay",
            "waybill dead requeue",
        ),
        (
            &["jobs", "requeue", "--until", "1h"],
            "jobs --until",
            "use --before",
        ),
        (
            &["events", "list", "--kind", "order.*"],
            "events --kind",
            "use --type",
        ),
    ] {
        let output = shop.run(line);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {said}");
        let begin = format!("error: {what} is not in this version: ");
        assert!(said.starts_with(&begin) && said.contains(instead), "{said}");
    }
    let mut serve = command("waybill", &[("STOREFRONT_PROVIDER", "shopify-events")]);
    serve.arg("serve");
    let output = output(serve);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let meant = "shopify-events is not in this version: use shopify";
    assert!(said.contains(meant), "{said}");
}

#[test]
fn the_reader_of_a_command_may_go_away() {
    let folder = tempfile::tempdir().unwrap();
    for line in [
        "doctor | head -2",
        "config | head -1",
        "doctor --json | head -1",
    ] {
        let mut shell = std::process::Command::new("bash");
        let program = crate::support::process::binary();
        let script = format!(
            "set -o pipefail; {} {line}; echo ${{PIPESTATUS[0]}}",
            program.display()
        );
        shell.env_clear().env("PATH", "/usr/bin:/bin");
        shell.current_dir(folder.path()).args(["-c", &script]);
        let piped = output(shell);
        let said = text(&piped.stderr);
        assert!(!said.contains("panicked"), "{line}: {said}");
        let code = text(&piped.stdout);
        let code = code.lines().last().unwrap();
        assert!(["0", "1"].contains(&code), "{line}: {code} {said}");
    }
}

#[tokio::test]
async fn every_topic_and_event_type_can_be_triggered() {
    let shop = Shop::new();
    let _process = shop.start().await;
    let topics = sandbox::sample::storefront_topics().into_iter().zip(0..);
    for (topic, n) in topics {
        // One shop each: two deliveries a second are the limit.
        let from = format!("shop-{n}.example");
        let done = shop.run(&["trigger", topic, "--shop", &from, "--json"]);
        assert!(done.status.success(), "{topic}: {}", text(&done.stderr));
        let json: Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(
            (&json["status"], &json["job"]["kind"]),
            (&200.into(), &(*topic).into())
        );
    }
    for kind in sandbox::sample::payment_types() {
        let done = shop.run(&["trigger", kind, "--json"]);
        assert!(done.status.success(), "{kind}: {}", text(&done.stderr));
        let json: Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(
            (&json["status"], &json["job"]["kind"]),
            (&200.into(), &kind.into())
        );
    }
    let unknown = shop.run(&["trigger", "orders/eaten"]);
    assert_eq!(unknown.status.code(), Some(2));
    let body = shop.folder.path().join("body.json");
    std::fs::write(&body, r#"{"id":77,"updated_at":"2027-01-01T00:00:00Z"}"#).unwrap();
    let own = shop.run(&[
        "trigger",
        "orders/create",
        "--body",
        body.to_str().unwrap(),
        "--json",
    ]);
    let json: Value = serde_json::from_slice(&own.stdout).unwrap();
    assert_eq!(json["order"]["order_id"], "77");
}

#[tokio::test]
async fn jobs_and_orders_are_listed_and_shown_for_people_and_machines() {
    let shop = Shop::new();
    let _process = shop.start().await;
    let json = |output: Output| -> Value { serde_json::from_slice(&output.stdout).unwrap() };
    assert_eq!(text(&shop.run(&["jobs", "list"]).stdout), "No jobs.\n");
    let triggered = json(shop.run(&["trigger", "orders/create", "--json"]));
    let jobs = json(shop.run(&["jobs", "list", "--json"]))["items"].take();
    assert_eq!(
        (&jobs[0]["kind"], &jobs[0]["state"]),
        (&"orders/create".into(), &"done".into())
    );
    let id = jobs[0]["id"].as_str().unwrap();
    let table = text(
        &shop
            .run(&["jobs", "list", "--state", "done", "--queue", "orders"])
            .stdout,
    );
    assert!(
        table.starts_with("ARRIVED ") && table.contains(id),
        "{table}"
    );
    assert_eq!(
        text(&shop.run(&["jobs", "list", "--state", "dead"]).stdout),
        "No jobs.\n"
    );
    assert!(text(&shop.run(&["jobs", "show", id]).stdout).contains("orders/create"));
    let order = triggered["order"]["order_id"].as_str().unwrap();
    let shown = json(shop.run(&["orders", "show", order, "--json"]));
    assert_eq!(shown["order_id"], order);
    assert!(text(&shop.run(&["orders", "show", order]).stdout).contains("initiated"));
    let retry = shop.run(&["dead", "requeue", id]);
    assert_eq!(retry.status.code(), Some(1));
    assert!(text(&retry.stderr).contains("only a dead one"));
    let file = shop.folder.path().join("no-order.json");
    std::fs::write(&file, r#"{"id": "none"}"#).unwrap();
    shop.run(&["trigger", "orders/create", "--body", file.to_str().unwrap()]);
    let dead = json(shop.run(&["jobs", "list", "--state", "dead", "--json"]));
    let dead = dead["items"][0]["id"].as_str().unwrap().to_owned();
    let retry = shop.run(&["dead", "requeue", &dead]);
    assert!(text(&retry.stdout).contains("is ready"), "{retry:?}");
    let missing = shop.run(&["orders", "show", "404"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("no order 404"));
    assert_eq!(
        shop.run(&["jobs", "list", "--state", "asleep"])
            .status
            .code(),
        Some(2)
    );
}

#[tokio::test]
async fn a_key_is_shown_once_and_opens_the_api() {
    let shop = Shop::new();
    let _process = shop.start().await;
    let key = text(&shop.run(&["keys", "create", "till"]).stdout)
        .trim()
        .to_owned();
    assert!(key.starts_with("wb_") && key.len() == 67, "{key}");
    let url = format!("http://127.0.0.1:{}/api/commerce/orders/1", shop.port);
    let answer = reqwest::Client::new()
        .get(url)
        .bearer_auth(&key)
        .send()
        .await
        .unwrap();
    assert_eq!(
        answer.status(),
        404,
        "the key is good, the order is not there"
    );
    let database = std::fs::read(shop.folder.path().join("shop.db")).unwrap();
    let holds = |needle: &str| {
        database
            .windows(needle.len())
            .any(|window| window == needle.as_bytes())
    };
    assert!(!holds(&key), "only a hash is kept");
}

#[tokio::test]
async fn no_log_of_any_level_says_whose_order_it_is() {
    for format in ["human", "json"] {
        let shop = Shop::new();
        let log = shop.folder.path().join("log");
        let mut settings = shop.settings();
        settings.retain(|(name, _)| name != "RUST_LOG");
        settings.push(("RUST_LOG".into(), "trace".into()));
        settings.push(("LOG_FORMAT".into(), format.into()));
        let mut starting = command("waybill", &[]);
        starting.envs(settings.iter().map(|(name, value)| (name, value)));
        starting.stdout(std::process::Stdio::null());
        starting.stderr(std::fs::File::create(&log).unwrap());
        let mut child = starting.spawn().unwrap();
        is_ready(shop.port).await;
        let person =
            r#""email":"canary@example.com","phone":"+1 613 555 0199","note":"Canaryville""#;
        let bodies = [
            format!(
                r#"{{"id":77,"name":"Canaryname","updated_at":"2027-01-01T00:00:00Z",{person}}}"#
            ),
            format!(r#"{{"id":"canary@example.com",{person}}}"#),
            format!(r#"{{"id":78,"total_price":"canary@example.com","currency":"USD",{person}}}"#),
        ];
        for (n, body) in bodies.iter().enumerate() {
            let path = shop.folder.path().join("body.json");
            std::fs::write(&path, body).unwrap();
            let from = format!("shop-{n}.example");
            let path = path.to_str().unwrap();
            let done = shop.run(&["trigger", "orders/create", "--body", path, "--shop", &from]);
            // The second one's job dies.
            let code = Some(i32::from(n == 1));
            assert_eq!(done.status.code(), code, "{}", text(&done.stderr));
        }
        let url = format!("http://127.0.0.1:{}/api/commerce/orders/77", shop.port);
        let request = reqwest::Client::new().get(url).bearer_auth("wb_canarykey");
        assert_eq!(request.send().await.unwrap().status(), 401);
        child.kill().unwrap();
        child.wait().unwrap();
        let log = std::fs::read_to_string(log).unwrap();
        assert!(log.contains("a job is dead"), "the log is there: {log}");
        assert!(!log.to_lowercase().contains("canary"), "{log}");
        assert!(!log.contains("555 0199"), "{log}");
        let control = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!log.contains(control), "no control characters");
    }
}

#[tokio::test]
async fn the_banner_names_the_next_command_and_a_key_that_works() {
    let shop = Shop::new();
    let mut starting = command("waybill", &[]);
    let settings = shop.settings();
    starting.envs(settings.iter().map(|(name, value)| (name, value)));
    starting.stdout(std::process::Stdio::piped());
    let mut child = starting.spawn().unwrap();
    is_ready(shop.port).await;
    child.kill().unwrap();
    let banner = text(&child.wait_with_output().unwrap().stdout);
    assert!(banner.contains("trigger orders/create"), "{banner}");
    assert!(banner.contains("development-storefront-secret"), "{banner}");
    assert!(
        banner.lines().any(|line| line.contains("API key wb_")),
        "{banner}"
    );
}

/// The API key of the banner of a start that ends again.
async fn key_of_a_start(shop: &Shop) -> String {
    let mut starting = command("waybill", &[]);
    starting.env_remove("PRIVACY_KEY").envs(shop.settings());
    starting.stdout(std::process::Stdio::piped());
    let mut child = starting.spawn().unwrap();
    is_ready(shop.port).await;
    child.kill().unwrap();
    let banner = text(&child.wait_with_output().unwrap().stdout);
    let (_, key) = banner.split_once("API key ").unwrap();
    key.lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn the_key_of_a_start_is_good_after_the_next_one_too() {
    let shop = Shop::new();
    let first = key_of_a_start(&shop).await;
    let second = key_of_a_start(&shop).await;
    let _process = shop.start().await;
    let url = format!("http://127.0.0.1:{}/api/commerce/orders/1", shop.port);
    for (key, expected) in [
        (&first, 404),
        (&second, 404),
        (&format!("wb_{}", "0".repeat(64)), 401),
    ] {
        let answer = reqwest::Client::new().get(&url).bearer_auth(key).send();
        assert_eq!(answer.await.unwrap().status(), expected);
    }
}

#[test]
fn every_mistake_in_the_settings_is_listed_at_once_with_exit_code_2() {
    let mut wrong = command(
        "waybill",
        &[
            ("LISTEN_ADDR", "somewhere"),
            ("DATABASE_URL", "mysql://x"),
            ("PAYMENT_WEBHOOK_SECRET", ""),
            ("WEBHOOK_MAX_BODY_BYTES", "99999999999"),
            ("WEBHOOK_DUPLICATE_STATUS", "404"),
            ("STOREFRONT_WEBHOK_SECRET", "secret-with-a-typo"),
            ("TRUSTED_PROXIES", "10.0.0.0/99"),
            ("QR_BOX_SIZE", "0"),
            ("COMMERCE_IDEMPOTENCY_ENABLED", "maybe"),
            ("SMTP_URL", "smtp://user:hunter2@mail.example?tls=perhaps"),
            ("MAIL_FROM", "nobody"),
            ("NOTIFICATION_TEMPLATES", "/nowhere"),
            ("AUTH_STALE_SECOND", "300"),
            ("NOTIFICATION_TEMPLATE", "x"),
        ],
    );
    wrong.arg("serve");
    let output = output(wrong);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    for part in [
        "LISTEN_ADDR is \"somewhere\"",
        "DATABASE_URL must start with",
        "STOREFRONT_WEBHOOK_SECRET is missing",
        "PAYMENT_WEBHOOK_SECRET is empty",
        "WEBHOOK_MAX_BODY_BYTES is",
        "WEBHOOK_DUPLICATE_STATUS is",
        "STOREFRONT_WEBHOK_SECRET is not a setting; did you mean STOREFRONT_WEBHOOK_SECRET?",
        "TRUSTED_PROXIES has",
        "QR_BOX_SIZE",
        "COMMERCE_IDEMPOTENCY_ENABLED",
        "SMTP_URL must be smtp:// or smtps://",
        "MAIL_FROM is \"nobody\"",
        "NOTIFICATION_TEMPLATES is not right: cannot read /nowhere",
        "NOTIFICATION_TEMPLATE is not a setting; did you mean NOTIFICATION_TEMPLATES?",
        "AUTH_STALE_SECOND is not a setting; did you mean AUTH_STALE_SECONDS?",
    ] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
    for secret in ["secret-with-a-typo", "hunter2"] {
        assert!(!said.contains(secret), "values of secrets are not printed");
    }
}

/// A command that went on with the development secret, or with the embedded default, would do something
/// else than what was asked.
#[test]
fn a_command_does_not_go_on_when_the_file_of_a_secret_cannot_be_read() {
    let commands: [(&str, &[&str]); 4] = [
        (
            "STOREFRONT_WEBHOOK_SECRET_FILE",
            &["trigger", "orders/create"],
        ),
        (
            "PAYMENT_WEBHOOK_SECRET_FILE",
            &["trigger", "payment_intent.succeeded"],
        ),
        ("DATABASE_URL_FILE", &["jobs", "list"]),
        ("AMQP_URL_FILE", &["doctor"]),
    ];
    for (setting, arguments) in commands {
        let folder = tempfile::tempdir().unwrap();
        let mut lost = command("waybill", &[(setting, "/nowhere/secret")]);
        lost.args(arguments).current_dir(folder.path());
        let output = output(lost);
        let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
        let said = format!("{setting}: cannot read /nowhere/secret");
        assert!(all.contains(&said), "{arguments:?}: {said} in\n{all}");
        assert_ne!(output.status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
fn development_secrets_are_refused_as_soon_as_anyone_else_could_reach_them() {
    for exposure in [
        ("LISTEN_ADDR", "0.0.0.0:8000"),
        ("DATABASE_URL", "postgres://localhost/waybill"),
        ("AMQP_URL", "amqp://localhost"),
    ] {
        let output = output(command("waybill", &[exposure]));
        assert_eq!(output.status.code(), Some(2), "{exposure:?}");
        assert!(text(&output.stderr).contains("development secrets are refused"));
    }
    let named = [
        ("STOREFRONT_WEBHOOK_SECRET", "development-storefront-secret"),
        ("PAYMENT_WEBHOOK_SECRET", "development-payment-secret"),
        ("LISTEN_ADDR", "0.0.0.0:8000"),
    ];
    let mut serve = command("waybill", &named);
    serve.arg("serve");
    assert_eq!(output(serve).status.code(), Some(2));
}

/// systemd puts them into a folder that only the service can read.
#[test]
fn a_secret_that_is_a_credential_of_the_service_is_read_and_a_second_value_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, value) in [
        (
            "PAYMENT_WEBHOOK_SECRET",
            "from-a-credential-1,from-a-credential-2\n",
        ),
        (
            "DATABASE_URL",
            "postgres://waybill:hunter2hunter2@db.example/waybill",
        ),
        // It is no secret, so it is no credential.
        ("LISTEN_ADDR", "127.0.0.1:9999"),
    ] {
        std::fs::write(folder.path().join(name), value).unwrap();
    }
    let credentials = ("CREDENTIALS_DIRECTORY", folder.path().to_str().unwrap());
    let mut config = command("waybill", &[credentials]);
    config.args(["config", "--json"]);
    let said = text(&output(config).stdout);
    assert!(
        !said.contains("from-a-credential") && !said.contains("hunter2"),
        "{said}"
    );
    let rows: Value = serde_json::from_str(&said).unwrap();
    let row = |name: &str| {
        let mut rows = rows.as_array().unwrap().iter();
        let row = rows.find(|row| row["name"] == name).unwrap();
        (row["value"].clone(), row["origin"].clone())
    };
    assert_eq!(
        row("PAYMENT_WEBHOOK_SECRET"),
        ("*** (2 secrets)".into(), "file".into())
    );
    assert_eq!(row("DATABASE_URL").1, "file");
    assert_eq!(row("STOREFRONT_WEBHOOK_SECRET").1, "unset");
    assert_eq!(
        row("LISTEN_ADDR"),
        ("127.0.0.1:8000".into(), "default".into())
    );

    let twice = ("PAYMENT_WEBHOOK_SECRET", "from-the-environment");
    let mut serve = command("waybill", &[credentials, twice]);
    serve.arg("serve");
    let refused = output(serve);
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused.stderr);
    let both =
        "PAYMENT_WEBHOOK_SECRET and the credential PAYMENT_WEBHOOK_SECRET are both set; keep one";
    assert!(said.contains(both), "{said}");
}

#[test]
fn config_shows_every_setting_its_origin_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "from-a-file-1,from-a-file-2\n").unwrap();
    let mut config = command(
        "waybill",
        &[
            ("PAYMENT_WEBHOOK_SECRET_FILE", file.to_str().unwrap()),
            ("STOREFRONT_WEBHOOK_SECRET", "from-the-environment"),
            (
                "DATABASE_URL",
                "postgres://waybill:hunter2hunter2@db.example/waybill",
            ),
            ("SMTP_URL", "smtps://shop:hunter2hunter2@mail.example"),
        ],
    );
    config.args(["config", "--qr-box-size", "5", "--json"]);
    let output = output(config);
    let said = text(&output.stdout);
    for secret in ["from-a-file", "from-the-environment", "hunter2"] {
        assert!(!said.contains(secret), "{said}");
    }
    let rows: Value = serde_json::from_str(&said).unwrap();
    let row = |name: &str| {
        let row = rows
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["name"] == name);
        let row = row.unwrap();
        (
            row["value"].as_str().unwrap_or("").to_owned(),
            row["origin"].as_str().unwrap().to_owned(),
        )
    };
    assert_eq!(row("QR_BOX_SIZE"), ("5".into(), "flag".into()));
    assert_eq!(
        row("PAYMENT_WEBHOOK_SECRET"),
        ("*** (2 secrets)".into(), "file".into())
    );
    assert_eq!(
        row("STOREFRONT_WEBHOOK_SECRET"),
        ("***".into(), "environment".into())
    );
    assert_eq!(
        row("LISTEN_ADDR"),
        ("127.0.0.1:8000".into(), "default".into())
    );
    assert_eq!(row("AMQP_URL").1, "unset");
}

#[test]
fn migrate_brings_a_new_database_to_this_version() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/new/waybill.db", folder.path().display());
    for _ in 0..2 {
        let mut migrate = command("waybill", &[("DATABASE_URL", url.as_str())]);
        migrate.arg("migrate");
        let output = output(migrate);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("applied"));
    }
}

#[test]
fn help_teaches_and_the_worker_binaries_have_it_too() {
    for name in [
        "waybill",
        "waybill-ingress",
        "waybill-orders",
        "waybill-payments",
        "waybill-privacy",
    ] {
        let mut help = command(name, &[]);
        help.arg("--help");
        let said = text(&output(help).stdout);
        assert!(
            said.contains("`waybill config` lists all"),
            "{name}: {said}"
        );
        assert!(!said.contains("--database-url"), "{name}: {said}");
        assert!(said.lines().count() < 80, "{name}: {said}");
        assert!(
            name == "waybill" || name == "waybill-ingress" || said.contains("--concurrency"),
            "{said}"
        );
    }
    let mut short = command("waybill", &[]);
    short.args(["dead", "list", "-h"]);
    let short = text(&output(short).stdout);
    let mut long = command("waybill", &[]);
    long.args(["dead", "list", "--help"]);
    let long = text(&output(long).stdout);
    assert!(short.lines().count() < long.lines().count(), "{long}");
    assert!(long.lines().count() < 60, "{long}");
}

#[tokio::test]
async fn health_says_whether_the_service_is_ready() {
    let shop = Shop::new();
    let down = shop.run(&["health"]);
    assert_eq!(down.status.code(), Some(1));
    assert!(text(&down.stderr).contains("nothing answers"));
    let _process = shop.start().await;
    let up = shop.run(&["health"]);
    assert!(up.status.success() && text(&up.stdout).contains("ready"));
}

#[test]
fn what_a_migration_would_do_is_shown_and_not_done() {
    let shop = Shop::new();
    let plan = ["migrate", "--plan", "--json"];
    let missing: Value = serde_json::from_slice(&shop.run(&plan).stdout).unwrap();
    assert!(missing[0]["applied"] == false, "{missing}");
    assert!(
        !shop.folder.path().join("shop.db").exists(),
        "nothing was made"
    );
    let said = text(&shop.run(&["migrate", "--plan"]).stdout);
    assert!(
        said.contains("missing") && said.contains("in a transaction"),
        "{said}"
    );
    assert!(shop.run(&["migrate"]).status.success());
    let applied: Value = serde_json::from_slice(&shop.run(&plan).stdout).unwrap();
    assert!(applied[0]["applied"] == true, "{applied}");
}

#[tokio::test]
async fn what_cannot_be_meant_is_said_in_words_and_a_job_that_died_is_a_failure() {
    let shop = Shop::new();
    let body = shop.folder.path().join("bad.json");
    std::fs::write(&body, r#"{"id":"x"}"#).unwrap();
    let died = ["trigger", "orders/create", "--body", body.to_str().unwrap()];
    let before = shop.run(&died);
    assert_eq!(before.status.code(), Some(1));
    let error = text(&before.stderr);
    assert!(
        error.contains("there is no database"),
        "nothing is sent: {error}"
    );
    let mut process = shop.start().await;
    for (arguments, code, wanted) in [
        (
            &died[..],
            1,
            "its job died: id is not an integer; waybill dead show",
        ),
        (&["jobs", "field", "nonsense", "/id"], 2, "is no id such as"),
        (&["dead", "requeue", "nonsense"], 2, "is no id such as"),
        (
            &["endpoints", "add", "https://a.example", "--type", "ordr.*"],
            2,
            "no type of event fits it",
        ),
    ] {
        let output = shop.run(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(wanted), "{arguments:?}: {error}");
    }
    process.terminate().await;
}
