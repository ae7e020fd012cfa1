//! What must never be readable in a log line, what must stay readable, and that no value can make
//! one line look like two.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::code::Code;
use domain::redact::{Hide, WITHHELD, redact};
use platform::logs::{Lines, LogFormat};
use proptest::prelude::*;
use serde_json::{Value, json};
use tracing_subscriber::layer::SubscriberExt as _;

const UUID: &str = "0190a5b2-7c3d-7e4f-8a5b-1234567890ab";

fn check(text: &str, expected: &str) {
    assert_eq!(redact(text), expected, "from {text:?}");
    assert_eq!(redact(expected), expected, "a second time");
}

/// Checks that a text is returned unchanged and without a copy.
fn check_survives(text: &str) {
    let clean = redact(text);
    assert_eq!(clean, text);
    assert!(matches!(clean, Cow::Borrowed(_)));
}

#[test]
fn an_email_address_is_hidden() {
    check("mail to john@example.com now", "mail to [redacted] now");
    check("<Mary.O'Neil+x@mail.example.co.uk>", "<[redacted]>");
    check("customer=jürgen@exämple.de.", "customer=[redacted].");
    check("cc john%40example.com&x=1", "cc [redacted]&x=1");
    check("a\\njohn@example.com", "a\\n[redacted]");
    check("https://john@example.com/x", "https://[redacted]/x");
    check_survives("root@server lodash@4.17.21 @handle x@ @example.com");
}

#[test]
fn an_international_phone_number_is_hidden() {
    for number in [
        "+15550101234",
        "+1 (555) 010-1234",
        "+1-555-010-1234",
        "+44 20 7946 0958",
        "+49 (0)30 123456",
        "+33 1 23 45 67 89",
        "+33\u{a0}1\u{a0}23\u{a0}45\u{a0}67\u{a0}89",
        "+593 2 123 4567",
    ] {
        check(&format!("call {number}, please"), "call [redacted], please");
        check(&format!("tel:{number}"), "tel:[redacted]");
    }
}

#[test]
fn a_national_phone_number_is_hidden_when_it_has_separators() {
    for number in [
        "(555) 010-1234",
        "(030) 1234567",
        "555-010-1234",
        "555 010 1234",
        "555.010.1234",
        "555-0123",
        "1-800-555-0199",
        "1 (555) 010-1234",
        "020 7946 0958",
        "01.23.45.67.89",
        "0470 12 34 56",
        "030/1234567",
        "030.1234567",
        "03-1234-5678",
        "11-98765-4321",
        "612 345 678",
    ] {
        check(&format!("call {number} now"), "call [redacted] now");
        check(&format!("\"{number}\"."), "\"[redacted]\".");
    }
    check("555-010-1234x99", "[redacted]x99");
}

#[test]
fn ids_and_numbers_survive() {
    check_survives(UUID);
    check_survives("12345678-1234-7234-9234-123456789012");
    check_survives("01900512-7034-7123-8012-abcdef012345 {01900512-7034-7123-8012-abcdef012345}");
    check_survives("01ARZ3NDEKTSV4RRFFQ69G5FAV");
    check_survives(&format!("job {UUID} of /api/jobs/{UUID}/{UUID}"));
    check_survives("/api/commerce/orders/01ARZ3NDEKTSV4RRFFQ69G5FAV/track");
    check_survives("order 820982911946154508 (#1001, #555-0123), line 1001.1, order_id=450789469");
    check_survives("/v1/payment_intents/pi_3MtwBwLkdIwHu7ix28a3tqPa/confirm");
    check_survives("gid://shopify/FulfillmentOrder/820982911946154508");
    check_survives("evt_1NG8Du2eZvKYlo2CUI79vXWy pi_3MtwBwLkdIwHu7ix28a3tqPa 1Z999AA10123456784");
    check_survives("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    check_survives("payment_intent_payment_failed_notification_2_of_3");
    check_survives(
        "PaymentIntentPaymentFailedNotificationJob2 someVeryLongSettingNameThatGoesOnAndOn=5",
    );
}

#[test]
fn times_addresses_and_amounts_survive() {
    check_survives("2026-11-20T10:15:00Z 2026-11-20T10:15:00.123456Z 2023-03-24T18:08:18-04:00");
    check_survives(
        "2026-11-20 10:15:00 20.11.2026 05.11.2026 05-11-2026 20261120-101500 1700000000 1700000000.123",
    );
    check_survives("192.168.100.200:8000 192.168.100.0/24 127.0.0.1 [::1]:8000 2001:db8::1");
    check_survives(
        "19.99 1234567.89 1,234,567.89 1.234.567,89 12 345 678 123.456.789 -0.0012345 100%",
    );
    check_survives("after 1.5s, 250ms, 00:15:00, 1h30m; 100 of 2000; ports 8000-8010");
}

#[test]
fn an_everyday_line_survives() {
    check_survives("queue=orders attempts=3 delay=1.5s");
    check_survives("shop=acme.myshopify.com topic=customers/data_request version=2026-07");
    check_survives("name=orders address=127.0.0.1:8000 capacity=100 gzip=true token=null");
    check_survives("Missing or invalid Authorization header; Missing bearer token");
    check_survives("Invalid GitHub token: revoked, invalid socket address: localhost");
    check_survives(
        "UNIQUE constraint failed: job_attempts.job_id, job_attempts.number (code 2067)",
    );
    check_survives("sqlite://data/waybill.db postgres://waybill@localhost:5432/waybill");
    check_survives("tab\tand ümläüt „Zitat“ – 😀");
}

#[test]
fn a_token_is_hidden() {
    for token in [
        "gho_16C7e42F292c6912E7710c838347Ae178B4a",
        "ghp_x",
        "ghu_abc",
        "github_pat_11AAA_bbb",
        "wb_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "whsec_MfKQ9r8G/KYqrTwjUPD8ILPZIo2LaLaSw==",
        "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
        "sk_test_1",
        "rk_test_abc",
        "shpat_0123456789abcdef",
    ] {
        check(&format!("with {token} twice"), "with [redacted] twice");
        check(&format!("\"{token}\""), "\"[redacted]\"");
        check(&format!("line\\n{token}"), "line\\n[redacted]");
    }
    check("Bearer abc.def~123", "Bearer [redacted]");
    check("bearer  A1", "bearer  [redacted]");
    check(
        "Authorization: Basic dXNlcjpwdw==",
        "Authorization: [redacted]",
    );
}

#[test]
fn a_signature_is_hidden() {
    let hex = "4f1cd7feda9826e746b7d482c4badebb657398df1099e1046364f6196a230150";
    check(
        &format!("t=1700000000,v1={hex}"),
        "t=1700000000,v1=[redacted]",
    );
    check(
        "got px6+Br9BQGTjI7gDXJ/qhSbh/Pe1As0fhZaX/Ef2Qc0=, wanted another",
        "got [redacted], wanted another",
    );
    check("B23tXN681gZ0qIWNRrgtzBE9XSDo5yaUu6wfmhu3a7g", "[redacted]");
}

#[test]
fn a_password_in_a_url_is_hidden() {
    check(
        "postgres://waybill:s3cret@db:5432/waybill",
        "postgres://waybill:***@db:5432/waybill",
    );
    check(
        "amqp://guest:gu@est@[::1]/%2f",
        "amqp://guest:***@[::1]/%2f",
    );
    check("postgres://u:pa/ss?w@host/db", "postgres://u:***@host/db");
    check(
        "smtp://john@example.com:pw@mail:25",
        "smtp://[redacted]:***@mail:25",
    );
    check(
        "http://127.0.0.1:8000/u/john@example.com",
        "http://127.0.0.1:8000/u/[redacted]",
    );
    check_survives("http://127.0.0.1:8000/x?y=z http://[::1]:8000/x");
}

#[test]
fn values_under_personal_keys_are_hidden() {
    check(
        r#"{"id":1,"first_name":"Mary \"M\" Ann","zip": 12345,"sku":"A-1"}"#,
        r#"{"id":1,"first_name":"[redacted]","zip": "[redacted]","sku":"A-1"}"#,
    );
    check(
        r#"body: "{\"name\":\"Mary \\\"M\\\"\",\"zip\":1,\"sku\":\"A-1\"}""#,
        r#"body: "{\"name\":\"[redacted]\",\"zip\":\"[redacted]\",\"sku\":\"A-1\"}""#,
    );
    check(
        r#"{"customer_details":{"x":"a } b","y":[1,{}]},"amount":1}"#,
        r#"{"customer_details":"[redacted]","amount":1}"#,
    );
    check(
        r#"Customer { firstName: Some("Mary"), city: "Ulm", company: None, id: 5 }"#,
        r#"Customer { firstName: Some("[redacted]"), city: "[redacted]", company: None, id: 5 }"#,
    );
    check(
        "{'receipt_email': 'mary'}",
        "{'receipt_email': '[redacted]'}",
    );
    check(
        "first_name=Mary Ann last_name=O'Brien city=Den Haag order=5",
        "first_name=[redacted] last_name=[redacted] city=[redacted] order=5",
    );
    check(
        "a[email]=x&b=1&phone=5550101234",
        "a[email]=[redacted]&b=1&phone=[redacted]",
    );
    check("{\"email\":\"cut off", "{\"email\":\"[redacted]");
    check_survives(r#"{"email":null,"phone":"","city":[redacted]}"#);
}

#[test]
fn values_under_secret_keys_are_hidden() {
    check(
        "STOREFRONT_WEBHOOK_SECRET=new,old",
        "STOREFRONT_WEBHOOK_SECRET=[redacted],old",
    );
    check(
        r#"{"access_token":"x","scope":"y"}"#,
        r#"{"access_token":"[redacted]","scope":"y"}"#,
    );
    check(
        "GET /cb?token=abc&x=1 took 5ms",
        "GET /cb?token=[redacted]&x=1 took 5ms",
    );
    check(
        "device_code=3584d83530557fdd1f46af8289938c8ef79f9dc5 x",
        "device_code=[redacted] x",
    );
    check("x-api-key: abcdefgh", "x-api-key: [redacted]");
}

#[test]
fn a_refused_value_is_not_quoted() {
    let error = serde_json::from_str::<u64>("\"Mary Ann\"").expect_err("not a number");
    check(
        &error.to_string(),
        "invalid type: string \"[redacted]\", expected u64 at line 1 column 10",
    );
    check(
        "Key (email)=(mary) already exists.",
        "Key (email)=[redacted]) already exists.",
    );
    check(
        "Failing row contains (1, Mary, x).",
        "Failing row contains [redacted]",
    );
}

#[test]
fn control_characters_are_escaped() {
    check("a\r\nb\x1b[31mc\0\x7f", r"a\r\nb\u{1b}[31mc\u{0}\u{7f}");
    check(
        "\u{85}\u{9b}\u{2028}\u{202e}",
        r"\u{85}\u{9b}\u{2028}\u{202e}",
    );
}

#[test]
fn without_redaction_only_personal_data_is_shown() {
    let shown = "john@example.com +15550101234 city=Ulm {\"name\":\"Mary\"}";
    assert_eq!(Hide::Secrets.within(shown), shown);
    assert_eq!(
        Hide::Secrets.within("a\nb Bearer abc1 gho_x amqp://a:b@c password=x {\"token\":\"y\"}"),
        r#"a\nb Bearer [redacted] [redacted] amqp://a:***@c password=[redacted] {"token":"[redacted]"}"#
    );
}

#[test]
fn no_personal_field_of_an_order_is_left_however_it_is_written() {
    let person = json!({
        "first_name": "CANARY", "last_name": "CANARY \"the\" \\ {bird}", "name": "CANARY x",
        "address1": "CANARY 1, backyard", "address2": "CANARY", "city": "CANARY", "zip": "CANARY",
        "province": "CANARY", "company": "CANARY & Sons", "phone": "CANARY", "email": "CANARY",
    });
    let order = json!({
        "id": 820_982_911_946_154_508_u64, "email": "CANARY", "contact_email": "CANARY",
        "browser_ip": "CANARY", "note": "for CANARY", "phone": "CANARY", "customer": person,
        "billing_address": person, "shipping_address": person, "customer_details": person,
        "receipt_email": "CANARY", "note_attributes": [{"name": "to", "value": "CANARY"}],
        "line_items": [{"title": "IPod Nano", "sku": "IPOD-342-N"}],
    });
    let compact = order.to_string();
    let once = Value::from(&*compact).to_string();
    let twice = Value::from(&*once).to_string();
    for text in [
        format!("{order:#}"),
        format!("{order:?}"),
        format!("{order:#?}"),
        format!("{compact:?}"),
        compact,
        once,
        twice,
    ] {
        let clean = redact(&text);
        assert!(!clean.contains("CANARY"), "{clean}");
        assert!(
            clean.contains("820982911946154508") && clean.contains("IPOD-342-N"),
            "{clean}"
        );
    }
}

#[test]
fn redacted_json_is_still_json() {
    let order = json!({"email": "x", "zip": 1, "city": null, "address1": ["x"], "a": {"b": 1.5}});
    let clean: Value = serde_json::from_str(&redact(&order.to_string())).expect("JSON");
    assert_eq!(
        clean,
        json!({"email": "[redacted]", "zip": "[redacted]", "city": null,
            "address1": "[redacted]", "a": {"b": 1.5}})
    );
}

proptest! {
    #[test]
    fn an_email_address_never_survives(
        before in any_text(),
        email in "[a-z0-9._%+-]{1,20}@[a-z0-9]{1,10}\\.[a-z]{2,6}",
        after in any_text(),
    ) {
        let clean = redact(&format!("{before}{email}{after}")).into_owned();
        prop_assert!(!clean.contains(&email), "{}", clean);
    }

    #[test]
    fn no_control_character_survives(text in any_text()) {
        for hide in [Hide::PersonalDataAndSecrets, Hide::Secrets] {
            let clean = hide.within(&text).into_owned();
            prop_assert!(clean.chars().all(|c| c == '\t' || !c.is_control()), "{:?}", clean);
        }
    }

    #[test]
    fn a_random_digest_in_hex_or_base64_never_survives(bytes in any::<[u8; 32]>()) {
        for digest in [STANDARD.encode(bytes), hex::encode(bytes)] {
            let line = format!("got {digest} instead");
            prop_assert_eq!(redact(&line), "got [redacted] instead");
        }
    }

    #[test]
    fn a_uuid_never_changes(bytes in any::<[u8; 16]>()) {
        let hex = hex::encode(bytes);
        let uuid = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
        prop_assert_eq!(redact(&uuid), &*uuid);
        let line = format!("job={uuid} ({uuid}): {uuid}, /jobs/{uuid}");
        prop_assert_eq!(redact(&line), &*line);
    }

    #[test]
    fn a_number_without_separators_never_changes(number in any::<u64>()) {
        let line = format!("order {number} #{number} id={number} ({number}): {number}, /{number}");
        prop_assert_eq!(redact(&line), &*line);
    }
}

/// Random text in which characters with a meaning are common.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-z0-9 @%40=:/\"'\\\\{}()\\[\\],.+_\n\r\x1b-]{0,60}",
        "((bearer |gho_|://|a:b@|\"email\":|email=|phone=|Some\\(|\\\\\"|[0-9]{1,5}[ -])?[a-z\"@ ]?){0,12}",
    ]
}

/// Logs as a program does, through a subscriber, and returns the lines.
fn logged(format: LogFormat, hide: Hide, log: impl FnOnce()) -> Vec<String> {
    written(format, hide, false, log)
        .lines()
        .map(ToOwned::to_owned)
        .collect()
}

fn written(format: LogFormat, hide: Hide, coloured: bool, log: impl FnOnce()) -> String {
    let written = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&written);
    let write = move |line: &str| sink.lock().expect("no panic").push_str(line);
    let lines = Lines::new(format, hide, write).coloured(coloured);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), log);
    let text = written.lock().expect("no panic").clone();
    assert!(text.is_empty() || text.ends_with('\n'));
    text
}

fn logged_json(log: impl FnOnce()) -> Vec<Value> {
    logged(LogFormat::Json, Hide::PersonalDataAndSecrets, log)
        .iter()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect()
}

fn log_in_a_span() {
    let span = tracing::info_span!("webhook", shop = "acme", topic = tracing::field::Empty);
    let _entered = span.enter();
    span.record("topic", "orders/paid");
    span.record("topic", "orders/create");
    tracing::warn!(target: "ingress", attempts = 3, fresh = true, "accepted");
}

#[test]
fn a_json_line_has_its_fields_and_those_of_its_spans() {
    let lines = logged_json(log_in_a_span);
    let [line] = &lines[..] else {
        panic!("one line, not {lines:?}");
    };
    let timestamp = line["timestamp"].as_str().expect("a timestamp");
    assert!(
        timestamp.ends_with('Z') && timestamp.as_bytes()[10] == b'T',
        "{timestamp}"
    );
    assert_eq!(
        *line,
        json!({
            "timestamp": timestamp, "level": "WARN", "target": "ingress", "message": "accepted",
            "attempts": 3, "fresh": true,
            "spans": [{"span": "webhook", "shop": "acme", "topic": "orders/create"}],
        })
    );
}

#[test]
fn a_human_line_has_its_fields_and_those_of_its_spans() {
    let lines = logged(
        LogFormat::Human,
        Hide::PersonalDataAndSecrets,
        log_in_a_span,
    );
    let (_, rest) = lines[0].split_once("Z ").expect("a time in UTC");
    assert_eq!(
        rest,
        " WARN webhook{shop=acme topic=orders/create}: ingress: accepted attempts=3 fresh=true"
    );
}

#[test]
fn a_field_that_is_named_like_one_of_the_lines_own_does_not_replace_it() {
    let lines = logged_json(|| tracing::info!(level = "ERROR", timestamp = 0, "x"));
    assert_eq!(lines[0]["level"], "INFO");
    assert_eq!(lines[0]["level_"], "ERROR");
    assert_eq!(lines[0]["timestamp_"], 0);
}

struct Shown(&'static str);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Shown {}

/// Logs a value in each way in which `tracing` accepts one.
fn log_everywhere(value: &'static str) {
    let shown = Shown(value);
    let span =
        tracing::info_span!("s", text = value, debug = ?shown, later = tracing::field::Empty);
    let _entered = span.enter();
    span.record("later", value);
    let error: &(dyn std::error::Error + 'static) = &shown;
    tracing::info!(text = value, display = %shown, debug = ?shown, error, "said {value}");
    tracing::info!("{}", value);
    tracing::info!(message = value);
    tracing::info!(value);
}

#[test]
fn no_value_can_forge_a_line() {
    let hostile =
        "x\r\n2026-11-20T10:15:00Z ERROR forged\n{\"level\":\"ERROR\"}\x1b[2K\u{85}\u{2028}";
    for format in [LogFormat::Human, LogFormat::Json] {
        for hide in [Hide::PersonalDataAndSecrets, Hide::Secrets] {
            let lines = logged(format, hide, || log_everywhere(hostile));
            assert_eq!(lines.len(), 4, "{lines:#?}");
            for line in lines {
                assert!(!line.chars().any(char::is_control), "{line:?}");
                assert!(!line.contains('\u{2028}'), "{line:?}");
            }
        }
    }
}

#[test]
fn no_value_shows_a_person_or_a_secret() {
    for (hide, value) in [
        (Hide::PersonalDataAndSecrets, "to canary@example.com"),
        (Hide::PersonalDataAndSecrets, r#"{"first_name":"canary"}"#),
        (Hide::PersonalDataAndSecrets, "Bearer canary1"),
        (Hide::Secrets, "gho_canary"),
    ] {
        for format in [LogFormat::Human, LogFormat::Json] {
            let lines = logged(format, hide, || log_everywhere(value));
            assert_eq!(lines.len(), 4);
            assert!(!lines.concat().contains("canary"), "{lines:#?}");
        }
    }
}

#[test]
fn a_field_with_a_personal_name_is_hidden_whatever_it_holds() {
    let lines = logged_json(|| {
        tracing::info!(email = "canary", customer.city = "Ulm", zip = 12345, phone = ?Some(1));
        tracing::info!(has_phone = true, access_token = "x", name = "orders");
    });
    let hidden = "[redacted]";
    assert_eq!(lines[0]["email"], hidden);
    assert_eq!(lines[0]["customer.city"], hidden);
    assert_eq!(lines[0]["zip"], hidden);
    assert_eq!(lines[0]["phone"], hidden);
    assert_eq!(lines[1]["has_phone"], true);
    assert_eq!(lines[1]["access_token"], hidden);
    assert_eq!(lines[1]["name"], "orders");
}

#[test]
fn a_value_with_blanks_or_quotes_cannot_pass_for_two_fields() {
    let lines = logged(LogFormat::Human, Hide::PersonalDataAndSecrets, || {
        tracing::info!(shop = "acme level=ERROR", topic = "a\"b", empty = "", "x");
    });
    let (_, fields) = lines[0].split_once(": x ").expect("a message");
    assert_eq!(fields, r#"shop="acme level=ERROR" topic="a\"b" empty="""#);
}

#[test]
fn only_a_terminal_gets_colours() {
    let line = |coloured| {
        written(LogFormat::Human, Hide::Secrets, coloured, || {
            tracing::error!("x");
        })
    };
    assert!(!line(false).contains('\x1b'));
    assert!(line(true).contains("\x1b[31mERROR\x1b[0m"));
}

#[test]
fn a_log_format_is_read_from_its_name() {
    assert_eq!("human".parse().ok(), Some(LogFormat::Human));
    assert_eq!("json".parse().ok(), Some(LogFormat::Json));
    assert!("JSONL".parse::<LogFormat>().is_err());
}

/// A value that cannot be formatted: formatting it fails or panics.
struct Broken {
    panics: bool,
}

impl fmt::Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("canary")?;
        assert!(!self.panics, "canary");
        Err(fmt::Error)
    }
}

#[test]
fn a_value_that_cannot_be_redacted_is_withheld_and_the_line_is_written_all_the_same() {
    for panics in [false, true] {
        let lines = logged_json(|| {
            let span = tracing::info_span!("s", value = ?Broken { panics });
            let _entered = span.enter();
            tracing::warn!(order = 7, value = ?Broken { panics }, "said");
            tracing::warn!("{:?}", Broken { panics });
        });
        let withheld = "[withheld: COMMERCE_010]";
        assert_eq!(lines[0]["message"], "said");
        assert_eq!(
            (&lines[0]["order"], &lines[0]["value"]),
            (&json!(7), &json!(withheld))
        );
        assert_eq!(lines[0]["spans"][0]["value"], withheld);
        assert_eq!(lines[1]["message"], withheld);
        assert!(!json!(lines).to_string().contains("canary"), "{lines:#?}");
    }
}

#[test]
fn the_mark_of_a_withheld_value_names_its_code() {
    assert!(WITHHELD.contains(Code::Redaction.id()));
}

/// Runs only on request: `cargo test --release --package platform --test it -- --ignored
/// --nocapture what_it_takes`.
#[test]
#[ignore = "measures, and checks nothing"]
#[expect(
    clippy::disallowed_macros,
    reason = "whoever runs it reads the figures"
)]
fn what_it_takes_to_redact_a_line() {
    let body = "\"email\":\"bob@example.com\",\"id\":820982911946154508,\"total\":\"403.00\",";
    for (what, text) in [
        (
            "a plain line",
            format!(
                "the message was worked on after all queue=orders kind=orders/create job={UUID} request_id={UUID} took=12ms"
            ),
        ),
        (
            "a line with two findings",
            "could not send: customer=jo@example.com phone=\"+1 (555) 010-1234\" \
             shop=demo.example.com order=820982911946154508 attempt=3 retry in 30s, status 503"
                .to_owned(),
        ),
        ("a body", format!("{{{}}}", body.repeat(19))),
    ] {
        let clock = platform::clock::Clock::system();
        let runs: u32 = 20_000;
        let begun = clock.elapsed();
        for _ in 0..runs {
            std::hint::black_box(redact(std::hint::black_box(&text)));
        }
        let each = clock.elapsed().saturating_sub(begun) / runs;
        println!("{what}: {} bytes, {each:?}", text.len());
    }
}
