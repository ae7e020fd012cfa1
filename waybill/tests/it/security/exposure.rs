//! A process refuses to start with public secrets that others could reach, with credentials in
//! clear, and with secrets that everybody who lists the processes could see.

use std::process::{Command, Output};

use config::{Config, Mode, SETTINGS, Settings};
use tempfile::TempDir;

use crate::support::process::{command, free_port, is_ready, link_programs, output};
use crate::support::{PAYMENT_SECRET, STOREFRONT_SECRET};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Settings of a process that could start, with its data in a folder.
fn start(folder: &TempDir, port: u16) -> Vec<(&'static str, String)> {
    let database = folder.path().join("data/waybill.db");
    vec![
        ("LISTEN_ADDR", format!("127.0.0.1:{port}")),
        ("DATABASE_URL", format!("sqlite://{}", database.display())),
        (
            "PRIVACY_EXPORT_URL",
            format!("file://{}", folder.path().join("data/exports").display()),
        ),
        ("RUST_LOG", "warn".to_owned()),
    ]
}

fn own_secrets() -> [(&'static str, String); 2] {
    [
        ("STOREFRONT_WEBHOOK_SECRET", STOREFRONT_SECRET.to_owned()),
        ("PAYMENT_WEBHOOK_SECRET", PAYMENT_SECRET.to_owned()),
    ]
}

/// What a program says that should not start; one that runs on is ended after ten seconds, with
/// exit code 124.
fn refused(name: &str, arguments: &[&str], settings: &[(&str, String)]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    link_programs(folder.path());
    let mut command = Command::new("/usr/bin/timeout");
    let program = folder.path().join(name);
    command.arg("10").arg(program).args(arguments);
    command.env_clear();
    command.envs(settings.iter().map(|(name, value)| (name, value)));
    let output = output(command);
    let said = text(&output.stderr) + &text(&output.stdout);
    (output.status.code().unwrap(), said)
}

#[test]
fn development_faces_no_network() {
    let exposures = [
        ("LISTEN_ADDR", "0.0.0.0:8000"),
        ("CONSOLE_ADDR", "0.0.0.0:8002"),
        ("CONSOLE_URL", "https://console.example"),
        ("PUBLIC_URL", "https://waybill.example"),
        ("PUBLIC_URL", "https://127.0.0.1:8000"),
        ("PUBLIC_URL", "http://waybill.example"),
        ("PUBLIC_URL", "http://192.0.2.7:8000"),
        ("TRUSTED_PROXIES", "127.0.0.1"),
        ("QR_BASE_URL", "https://shop.example"),
    ];
    for (name, value) in exposures {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = start(&folder, free_port());
        settings.retain(|(set, _)| *set != name);
        settings.push((name, value.to_owned()));
        let (code, said) = refused("waybill", &[], &settings);
        assert_eq!(code, 2, "{name}={value}: {said}");
        assert!(said.contains(name), "{name}={value}: {said}");
        assert!(said.contains("development secrets are refused"), "{said}");
        assert!(
            said.contains("STOREFRONT_WEBHOOK_SECRET"),
            "what to do: {said}"
        );
        assert!(!folder.path().join("data").exists(), "nothing was started");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut settings = start(&folder, free_port());
    settings.push(("PUBLIC_URL", "https://waybill.example".to_owned()));
    settings.push(("TRUSTED_PROXIES", "10.0.0.0/8".to_owned()));
    let (_, said) = refused("waybill", &[], &settings);
    assert!(
        said.contains("PUBLIC_URL") && said.contains("TRUSTED_PROXIES"),
        "all at once: {said}"
    );
}

/// Starts a program until it is ready; what it printed.
async fn printed(name: &str, arguments: &[&str], settings: &[(&str, String)], port: u16) -> String {
    let mut starting = command(name, &[]);
    starting.args(arguments);
    starting.envs(settings.iter().map(|(name, value)| (name, value)));
    starting.stdout(std::process::Stdio::piped());
    let mut child = starting.spawn().unwrap();
    is_ready(port).await;
    child.kill().unwrap();
    text(&child.wait_with_output().unwrap().stdout)
}

fn keys(settings: &[(&str, String)]) -> String {
    let mut listing = command("waybill", &[]);
    listing.args(["keys", "list", "--all"]);
    listing.envs(settings.iter().map(|(name, value)| (name, value)));
    text(&output(listing).stdout)
}

#[tokio::test]
async fn a_development_key_exists_in_development_alone() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let development = start(&folder, port);
    let own = [development.as_slice(), &own_secrets()].concat();
    for (name, arguments) in [
        ("waybill", [].as_slice()),
        ("waybill", &["serve"]),
        ("waybill-ingress", &[]),
    ] {
        let banner = printed("waybill", &[], &development, port).await;
        assert!(banner.contains("API key wb_"), "{banner}");
        assert!(keys(&development).contains("development"));
        let banner = printed(name, arguments, &own, port).await;
        assert!(!banner.contains("wb_"), "{name} {arguments:?}: {banner}");
        let kept = keys(&own);
        assert!(kept.starts_with("No keys."), "{name} {arguments:?}: {kept}");
    }
    // One secret of one's own: it is not a try any more.
    let one = [development.as_slice(), &own_secrets()[..1]].concat();
    let banner = printed("waybill", &[], &one, port).await;
    assert!(!banner.contains("wb_"), "{banner}");
    assert!(banner.contains("waybill keys create"), "{banner}");
}

#[test]
fn a_secret_is_no_flag() {
    let flag = |name: &str| format!("--{}", name.to_ascii_lowercase().replace('_', "-"));
    let value = "hunter2hunter2hunter2hunter2hunter2";
    let secrets = SETTINGS.iter().filter(|setting| setting.secret);
    for setting in secrets {
        let value = match setting.name {
            "DATABASE_URL" => format!("postgres://waybill:{value}@127.0.0.1/waybill"),
            "AMQP_URL" => format!("amqp://waybill:{value}@127.0.0.1"),
            "SMTP_URL" => format!("smtps://waybill:{value}@mail.example"),
            _ => value.to_owned(),
        };
        let given = [flag(setting.name), value];
        let given = given.each_ref().map(String::as_str);
        let calls = [
            ("waybill", ["config"].as_slice()),
            ("waybill", &["jobs", "list"]),
            ("waybill", &["serve"]),
            ("waybill-ingress", &[]),
            ("waybill-privacy", &[]),
        ];
        for (name, arguments) in calls {
            let (code, said) = refused(name, &[arguments, &given].concat(), &[]);
            assert_eq!(code, 2, "{name} {arguments:?} {}: {said}", given[0]);
            assert!(said.contains(given[0]), "{said}");
            assert!(said.contains(&format!("{}_FILE", setting.name)), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = format!("sqlite://{}/none.db", folder.path().display());
    let (code, said) = refused("waybill", &["jobs", "list", "--database-url", &file], &[]);
    assert!(code == 1 && said.contains("there is no database"), "{said}");
}

#[test]
fn help_leads_to_the_list_of_all_settings_and_has_no_flag_of_a_secret() {
    for name in ["waybill", "waybill-ingress", "waybill-orders"] {
        let mut help = command(name, &[]);
        help.arg("--help");
        let said = text(&output(help).stdout);
        assert!(
            said.contains("`waybill config` lists all"),
            "{name}: {said}"
        );
        assert!(!said.contains("--payment-api-key"), "{name}: {said}");
    }
    let mut config = command("waybill", &[]);
    config.args(["config", "--json"]);
    let said = text(&output(config).stdout);
    for setting in SETTINGS {
        assert!(said.contains(setting.name), "{}: {said}", setting.name);
    }
}

/// What is wrong with settings that are right but for these.
fn wrong(given: &[(&'static str, &str)]) -> Vec<String> {
    let mut settings = Settings::defaults();
    for (name, value) in own_secrets() {
        settings.set(name, value);
    }
    settings.set("PRIVACY_KEY", "a-key-of-thirty-two-characters-or-more");
    for &(name, value) in given {
        settings.set(name, value);
    }
    match Config::load(&settings, Mode::Production) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes.0,
    }
}

/// Settings that send a credential or people's data to another machine as it is: which, and the
/// host.
const CLEAR: &[(&str, &[(&str, &str)])] = &[
    (
        "db.example",
        &[("DATABASE_URL", "postgres://waybill:pw@db.example/waybill")],
    ),
    (
        "db.example",
        &[(
            "DATABASE_URL",
            "postgres://waybill:pw@db.example/waybill?sslmode=prefer",
        )],
    ),
    (
        "db.example",
        &[(
            "DATABASE_URL",
            "postgres://waybill:pw@db.example/waybill?sslmode=disable",
        )],
    ),
    (
        "db.example",
        &[(
            "DATABASE_URL",
            "postgres:///waybill?host=db.example&user=waybill&password=pw",
        )],
    ),
    (
        "mq.example",
        &[
            ("DATABASE_URL", "postgres://waybill:pw@127.0.0.1/waybill"),
            ("AMQP_URL", "AMQP://waybill:pw@MQ.example:5672/%2f"),
        ],
    ),
    (
        "shop.example",
        &[
            ("STOREFRONT_API_URL", "http://shop.example:8080/admin"),
            ("STOREFRONT_API_TOKEN", "token"),
        ],
    ),
    (
        "192.0.2.7",
        &[
            ("PAYMENT_API_URL", "http://192.0.2.7"),
            ("PAYMENT_API_KEY", "key"),
        ],
    ),
    (
        "login.example",
        &[
            ("GITHUB_CLIENT_ID", "client"),
            ("GITHUB_URL", "http://login.example"),
        ],
    ),
    (
        "mail.example",
        &[
            ("SMTP_URL", "smtp://shop:pw@mail.example"),
            ("MAIL_FROM", "shop@shop.example"),
        ],
    ),
    (
        "mail.example",
        &[
            ("SMTP_URL", "smtp://shop:pw@mail.example?tls=opportunistic"),
            ("MAIL_FROM", "shop@shop.example"),
        ],
    ),
    (
        "s3.example",
        &[
            ("PRIVACY_EXPORT_URL", "s3://bucket/exports"),
            ("PRIVACY_EXPORT_S3_ENDPOINT", "http://s3.example"),
            ("PRIVACY_EXPORT_S3_ACCESS_KEY_ID", "id"),
            ("PRIVACY_EXPORT_S3_SECRET_ACCESS_KEY", "secret"),
        ],
    ),
];

#[test]
fn no_credential_leaves_this_machine_in_clear_unless_its_host_is_named() {
    for (host, given) in CLEAR {
        let mistakes = wrong(given);
        let (name, _) = given
            .last()
            .filter(|_| given.len() == 1)
            .unwrap_or(&given[0]);
        let names: Vec<&str> = given.iter().map(|(name, _)| *name).collect();
        assert!(!mistakes.is_empty(), "{names:?} is taken");
        let about = |mistake: &String| {
            names.iter().any(|name| mistake.starts_with(name))
                && mistake.contains(host)
                && mistake.contains("ALLOW_CLEARTEXT")
        };
        assert!(mistakes.iter().all(about), "{name}: {mistakes:?}");
        assert!(!mistakes.concat().contains("pw@"), "{mistakes:?}");
        let named = format!("other.example, {}", host.to_ascii_uppercase());
        let allowed = [*given, &[("ALLOW_CLEARTEXT", named.as_str())]].concat();
        assert_eq!(wrong(&allowed), Vec::<String>::new(), "{names:?}");
        let another = [*given, &[("ALLOW_CLEARTEXT", "other.example")]].concat();
        assert!(!wrong(&another).is_empty(), "{names:?}");
    }
}

#[test]
fn what_is_encrypted_or_stays_on_this_machine_is_taken() {
    let taken: &[&[(&'static str, &str)]] = &[
        &[(
            "DATABASE_URL",
            "postgres://waybill:pw@db.example/waybill?sslmode=require",
        )],
        &[(
            "DATABASE_URL",
            "postgres://waybill:pw@db.example/waybill?sslmode=verify-full",
        )],
        &[("DATABASE_URL", "postgres://waybill:pw@localhost/waybill")],
        &[("DATABASE_URL", "postgres://waybill:pw@[::1]/waybill")],
        &[(
            "DATABASE_URL",
            "postgres:///waybill?host=/var/run/postgresql",
        )],
        &[
            ("DATABASE_URL", "postgres://waybill:pw@127.0.0.1/waybill"),
            ("AMQP_URL", "amqps://waybill:pw@mq.example/%2f"),
        ],
        &[
            ("DATABASE_URL", "postgres://waybill:pw@127.0.0.1/waybill"),
            ("AMQP_URL", "amqp://waybill:pw@127.0.0.1/%2f"),
        ],
        &[
            ("STOREFRONT_API_URL", "https://shop.example"),
            ("STOREFRONT_API_TOKEN", "token"),
        ],
        &[
            ("PAYMENT_API_URL", "http://127.0.0.2:9"),
            ("PAYMENT_API_KEY", "key"),
        ],
        // Nothing is sent there while nobody can log in.
        &[("GITHUB_URL", "http://login.example")],
        &[
            ("SMTP_URL", "smtps://shop:pw@mail.example"),
            ("MAIL_FROM", "shop@shop.example"),
        ],
        &[
            ("SMTP_URL", "smtp://shop:pw@mail.example?tls=required"),
            ("MAIL_FROM", "shop@shop.example"),
        ],
        &[
            ("SMTP_URL", "smtp://localhost"),
            ("MAIL_FROM", "shop@shop.example"),
        ],
        // No credential, and mail travels on in clear anyhow: it is warned of.
        &[
            ("SMTP_URL", "smtp://mail.example"),
            ("MAIL_FROM", "shop@shop.example"),
        ],
    ];
    for given in taken {
        assert_eq!(wrong(given), Vec::<String>::new(), "{given:?}");
    }
    for list in ["", "https://db.example", "db.example:5432", "a,,b"] {
        let mistakes = wrong(&[("ALLOW_CLEARTEXT", list)]);
        assert!(
            mistakes[0].starts_with("ALLOW_CLEARTEXT"),
            "{list}: {mistakes:?}"
        );
    }
}

#[test]
fn a_command_sends_no_password_in_clear_either() {
    let settings = [(
        "DATABASE_URL",
        "postgres://waybill:hunter2@192.0.2.7/waybill".to_owned(),
    )];
    let (code, said) = refused("waybill", &["jobs", "list"], &settings);
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("192.0.2.7") && said.contains("sslmode"),
        "{said}"
    );
    assert!(!said.contains("hunter2"), "{said}");
}

/// The log and the output of `waybill serve` with these settings, until it is ready.
async fn log(folder: &TempDir, more: &[(&'static str, String)]) -> Vec<String> {
    let port = free_port();
    let settings = [start(folder, port), own_secrets().to_vec(), more.to_vec()].concat();
    let mut serving = command("waybill", &[]);
    serving.arg("serve").env_remove("PRIVACY_KEY");
    serving.envs(settings.iter().map(|(name, value)| (name, value)));
    serving.stderr(std::process::Stdio::piped());
    let mut child = serving.spawn().unwrap();
    is_ready(port).await;
    child.kill().unwrap();
    let Output { stderr, .. } = child.wait_with_output().unwrap();
    text(&stderr).lines().map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn the_log_begins_with_each_protection_that_is_off() {
    let folder = tempfile::tempdir().unwrap();
    let off = [
        ("PAYMENT_TOLERANCE_SECONDS", "0"),
        ("COMMERCE_IDEMPOTENCY_ENABLED", "false"),
        ("COMMERCE_RATE_PER_SECOND", "0"),
        ("GITHUB_CLIENT_ID", "client"),
        ("PAYMENT_API_URL", "http://192.0.2.7"),
        ("PAYMENT_API_KEY", "key"),
        ("ALLOW_CLEARTEXT", "192.0.2.7"),
        ("PUBLIC_URL", "https://waybill.example"),
    ];
    let off = off.map(|(name, value)| (name, value.to_owned()));
    let lines = log(&folder, &off).await;
    let of_protections: Vec<&String> = lines
        .iter()
        .filter(|line| line.contains("a protection is off"))
        .collect();
    for setting in [
        "STOREFRONT_SHOPS",
        "PAYMENT_TOLERANCE_SECONDS",
        "COMMERCE_IDEMPOTENCY_ENABLED",
        "COMMERCE_RATE_PER_SECOND",
        "GITHUB_CLIENT_SECRET",
        "PRIVACY_KEY",
        "TRUSTED_PROXIES",
    ] {
        let reported = of_protections.iter().filter(|line| line.contains(setting));
        assert_eq!(reported.count(), 1, "{setting}: {lines:#?}");
    }
    assert!(
        of_protections.iter().any(|line| line.contains("192.0.2.7")),
        "{lines:#?}"
    );
    let first = &lines[..of_protections.len()];
    assert!(
        first
            .iter()
            .all(|line| line.contains("a protection is off")),
        "they are the first lines: {lines:#?}"
    );
}

#[tokio::test]
async fn where_every_protection_is_on_the_log_says_nothing_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let on = [
        ("STOREFRONT_SHOPS", "shop.example"),
        ("PRIVACY_KEY", "a-key-of-thirty-two-characters-or-more"),
        ("PUBLIC_PAGES", "with_code"),
    ];
    let on = on.map(|(name, value)| (name, value.to_owned()));
    let lines = log(&folder, &on).await;
    assert!(
        !lines.iter().any(|line| line.contains("protection")),
        "{lines:#?}"
    );
}
