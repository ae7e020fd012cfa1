//! What `waybill doctor` says of settings, pictures, clocks and servers of others.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use config::protections::PROTECTIONS;
use sandbox::{IDENTITY_CLIENT_ID, PAYMENT_KEY, STOREFRONT_TOKEN};

use crate::both::operations::doctor::{doctor, found, says};
use crate::support::delivery::SHOP;
use crate::support::operator::parsed;
use crate::support::process::{command, free_port, output, run};
use crate::support::smtp::{Reply, SmtpServer};
use crate::support::{PAYMENT_SECRET, STOREFRONT_SECRET, service};

/// A provider that gives every request this answer, or none at all.
fn fake_provider(answer: Option<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let Some(answer) = &answer else {
                silent.push(stream);
                continue;
            };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

fn answer(status: &str, date: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nDate: {date}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    )
}

#[test]
fn every_protection_that_is_off_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = format!("127.0.0.1:{}", free_port());
    let database = folder.path().join("data/waybill.db");
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(&database, "").unwrap();
    let wide = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&database, wide).unwrap();
    let away = "http://192.0.2.7";
    let off = [
        ("PATH", "/usr/bin:/bin"),
        ("LISTEN_ADDR", &nowhere),
        ("STOREFRONT_WEBHOOK_SECRET", "short-12"),
        ("PAYMENT_WEBHOOK_SECRET", "short-12"),
        ("PAYMENT_TOLERANCE_SECONDS", "0"),
        ("COMMERCE_IDEMPOTENCY_ENABLED", "false"),
        ("GITHUB_CLIENT_ID", "client"),
        ("GITHUB_URL", away),
        ("GITHUB_UNVERIFIED_EMAILS", "true"),
        ("AUTH_STALE_SECONDS", "300"),
        ("ALLOW_CLEARTEXT", "192.0.2.7"),
        ("ENDPOINT_NETWORKS", "192.0.2.0/24"),
        ("STOREFRONT_RATE_PER_SECOND", "0"),
        ("PAYMENT_RATE_PER_SECOND", "0"),
        ("COMMERCE_RATE_PER_SECOND", "0"),
        ("AUTH_DEVICE_CODES_PER_15_MINUTES", "0"),
        ("AUTH_VALIDATIONS_PER_MINUTE", "0"),
        ("PRIVACY_SHOP_REDACT_HOLD_SECONDS", "0"),
        ("COMMERCE_PII_REDACTION_ENABLED", "false"),
    ];
    let mut reported = BTreeSet::new();
    let others: [&[(&str, &str)]; 3] = [
        &[("PUBLIC_URL", "https://waybill.example")],
        &[("PUBLIC_URL", "http://waybill.example")],
        &[(
            "DATABASE_URL",
            "postgres://waybill:hunter2hunter2@192.0.2.7/waybill?sslmode=require&pgbouncer=true",
        )],
    ];
    for more in others {
        let mut doctor = command("waybill", &[off.as_slice(), more].concat());
        doctor.env_remove("PRIVACY_KEY");
        doctor.args(["doctor", "--json"]).current_dir(folder.path());
        let output = output(doctor);
        let report = parsed(&output);
        for protection in PROTECTIONS {
            for (level, found) in found(&output, protection.name) {
                let is_off = found.contains(protection.open);
                assert_eq!(level == "warning", is_off, "{found}");
                if is_off {
                    reported.insert(protection.name);
                }
            }
        }
        assert!(!report.to_string().contains("hunter2"));
    }
    let all: BTreeSet<_> = PROTECTIONS.iter().map(|it| it.name).collect();
    assert_eq!(reported, all, "each is reported when it is off");
}

#[test]
fn looking_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command("waybill", &[("PATH", "/usr/bin:/bin")]);
    let nowhere = format!("127.0.0.1:{}", free_port());
    command.args(["doctor", "--json", "--listen-addr", &nowhere]);
    command.current_dir(folder.path());
    let output = output(command);
    says(&output, "database", "warning", "does not exist yet");
    says(&output, "export store", "ok", "no folder yet");
    says(&output, "service", "warning", "nothing answers");
    says(
        &output,
        "storefront secret",
        "warning",
        "development secret",
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_whose_clock_is_wrong_that_is_silent_or_away_is_distinguished() {
    let service = service().start().await;
    let date = "Fri, 15 Jan 2027 08:00:00 GMT";
    let skewed = fake_provider(Some(answer("404 Not Found", date)));
    let silent = fake_provider(None);
    let away = format!("http://127.0.0.1:{}", free_port());
    let settings = [
        ("PAYMENT_API_URL", skewed.as_str()),
        ("PAYMENT_API_KEY", PAYMENT_KEY),
        ("STOREFRONT_API_URL", &silent),
        ("STOREFRONT_API_TOKEN", STOREFRONT_TOKEN),
        ("GITHUB_URL", &away),
        ("GITHUB_CLIENT_ID", IDENTITY_CLIENT_ID),
    ];
    let begun = tokio::time::Instant::now();
    let output = run(doctor(&service, &settings)).await;
    assert!(
        begun.elapsed() < Duration::from_secs(9),
        "all at once, in five seconds"
    );
    says(&output, "payment API", "ok", "takes our credential");
    let ours = platform::clock::Clock::system().now();
    let theirs = domain::time::Timestamp::from_http_date(date).unwrap();
    assert_eq!(theirs, crate::support::START);
    let way = if theirs > ours { "ahead of" } else { "behind" };
    says(&output, "payment clock", "failed", way);
    let storefront = found(&output, "storefront API");
    assert_eq!(storefront[0].0, "failed", "{storefront:?}");
    says(&output, "identity provider", "failed", "cannot be reached");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_runs_with_other_settings_than_the_doctor_is_found() {
    let service = service()
        .setting("STOREFRONT_SHOPS", SHOP)
        .without_workers()
        .start()
        .await;
    // What every service of a test has.
    let same = [
        ("STOREFRONT_RATE_PER_SECOND", "0"),
        ("PAYMENT_RATE_PER_SECOND", "0"),
        ("COMMERCE_RATE_PER_SECOND", "0"),
        ("CHECKOUT_ORDER_WAIT_SECONDS", "0"),
    ];
    let equal = run(doctor(&service, &same)).await;
    says(&equal, "service settings", "ok", "that are set here");
    let others = [
        ("QR_BORDER", "7"),
        ("PAYMENT_WEBHOOK_SECRET", "another-secret-17"),
    ];
    let differs = [same.as_slice(), &others].concat();
    let differs = run(doctor(&service, &differs)).await;
    let named = "another PAYMENT_WEBHOOK_SECRET, QR_BORDER";
    says(&differs, "service settings", "warning", named);
    // Whoever asks learns no value.
    let codes = service.get("/doctor").send().await.unwrap();
    let codes = codes.text().await.unwrap();
    for value in [STOREFRONT_SECRET, PAYMENT_SECRET, SHOP] {
        assert!(
            codes.contains("STOREFRONT_SHOPS") && !codes.contains(value),
            "{codes}"
        );
    }
    let other = crate::support::service().without_workers().start().await;
    let address = service.url.trim_start_matches("http://");
    let asked = [
        ("PUBLIC_URL", service.url.as_str()),
        ("LISTEN_ADDR", address),
    ];
    let asked = run(doctor(&other, &asked)).await;
    says(&asked, "service settings", "failed", "another installation");
    other.stop().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_that_lead_people_to_their_own_machine_are_found() {
    let service = service().without_workers().start().await;
    let own = run(doctor(&service, &[])).await;
    says(
        &own,
        "public address",
        "warning",
        "lead everybody to their own machine",
    );
    let public = [("PUBLIC_URL", "https://waybill.example")];
    let report = parsed(&run(doctor(&service, &public)).await);
    assert!(!report.to_string().contains("public address"), "{report}");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_that_cannot_be_read_or_are_huge_are_found() {
    let service = service().without_workers().start().await;
    for (size, part) in [("1", "too small"), ("100", "wider than a printed sheet")] {
        let odd = run(doctor(&service, &[("QR_BOX_SIZE", size)])).await;
        says(&odd, "QR codes", "warning", part);
    }
    let usual = run(doctor(&service, &[])).await;
    assert_eq!(found(&usual, "QR codes"), []);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_server_that_does_not_take_our_sender_is_found() {
    let service = service().without_workers().start().await;
    let server = SmtpServer::start().await;
    let url = server.url();
    let settings = [
        ("SMTP_URL", url.as_str()),
        ("MAIL_FROM", "shop@shop.example"),
    ];
    let well = run(doctor(&service, &settings)).await;
    says(&well, "mail server", "ok", "takes mail from MAIL_FROM");
    server.at("MAIL", Reply::Code(553));
    let refused = run(doctor(&service, &settings)).await;
    says(&refused, "mail server", "failed", "answered 553 to MAIL");
    assert_eq!(server.received().len(), 0);
    service.stop().await;
}
