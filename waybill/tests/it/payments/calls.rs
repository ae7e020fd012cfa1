//! Calls that move money or notify people, and are made late or again. At the moment of the call
//! each checks that its reason still exists, looks at its siblings, and asks what exists at the
//! provider.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::job::State;
use sandbox::{Intent, Options as SandboxOptions, PAYMENT_KEY, Sandbox};
use serde_json::{Value, json};

use crate::both::payments::events::{declined_intent, with_api};
use crate::support::delivery::SHOP;
use crate::support::operator::said;
use crate::support::order::{
    CAPTURED, body, cancelled, captured, deliver, order_delivery, post_all, shown,
};
use crate::support::order::{naming_agreement, with};
use crate::support::payment::{declined, event, intent, session};
use crate::support::smtp::{Reply, SmtpServer};
use crate::support::{Options, Service, eventually, pause, service, without_pauses};

const FAILED: &str = "payment_intent.payment_failed";
const SUCCEEDED: &str = "payment_intent.succeeded";

async fn sandbox() -> Sandbox {
    Sandbox::start(SandboxOptions::default()).await.unwrap()
}

/// States and codes of the attempts at all payments, by number.
async fn attempts(service: &Service) -> Vec<(String, Option<String>)> {
    let sql = "select state, code from payment_retries order by payment_id, number";
    let rows = service.db().query(sql).fetch_all().await.unwrap();
    rows.iter()
        .map(|row| (row.get("state").unwrap(), row.get("code").unwrap()))
        .collect()
}

async fn until(service: &Service, expected: &[(&str, Option<&str>)]) {
    let expected: Vec<(String, Option<String>)> = expected
        .iter()
        .map(|(state, code)| ((*state).to_owned(), code.map(ToOwned::to_owned)))
        .collect();
    let ended = tokio::time::timeout(Duration::from_secs(20), async {
        while attempts(service).await != expected {
            pause(Duration::from_millis(20)).await;
        }
    });
    if ended.await.is_err() {
        assert_eq!(attempts(service).await, expected);
    }
}

/// How often we asked for a charge.
fn charges(sandbox: &Sandbox) -> u32 {
    let keys = sandbox.payment().confirms_by_key();
    keys.iter()
        .filter(|(key, _)| !key.is_empty())
        .map(|(_, times)| times)
        .sum()
}

/// A payment whose first charge was declined, and three attempts that are scheduled.
async fn failed(service: &Service, sandbox: &Sandbox, card: &str) -> String {
    let id = declined_intent(sandbox).await;
    let mut failed = declined(&id, 1000, 1, "insufficient_funds");
    failed["last_payment_error"]["payment_method"]["id"] = json!(card);
    deliver(service, &event(service, FAILED, 1, &failed)).await;
    assert_eq!(service.scheduled().await, 3);
    id
}

const BAD_CARD: &str = "pm_card_chargeDeclined";

#[tokio::test]
async fn attempts_that_workers_missed_are_one_attempt() {
    let sandbox = sandbox().await;
    let service = with_api(service().manual_clock(), &sandbox).start().await;
    failed(&service, &sandbox, BAD_CARD).await;
    service.clock().advance(Duration::from_hours(73));
    let stopped = ("stopped", Some("superseded"));
    let declined = ("declined", Some("generic_decline"));
    until(&service, &[stopped, stopped, declined]).await;
    assert_eq!(charges(&sandbox), 1);
    service.stop().await;
}

/// As after twelve runs in vain.
async fn dead_letter_attempts(service: &Service) {
    let now = service.clock().now().0;
    let dead_letter = format!(
        "update jobs set state = 'dead', attempts = 12, finished_at = {now},
                last_error = 'COMMERCE_003' where kind = 'payments/retry'"
    );
    service
        .execute(crate::support::backend::statement(dead_letter))
        .await;
    service
        .execute("update payment_retries set state = 'failed'")
        .await;
}

#[tokio::test]
async fn attempts_at_an_old_failure_are_not_made_by_a_requeue() {
    let sandbox = sandbox().await;
    let service = with_api(service().manual_clock(), &sandbox).start().await;
    failed(&service, &sandbox, BAD_CARD).await;
    dead_letter_attempts(&service).await;
    service.clock().advance(Duration::from_hours(20 * 24));
    said(&service, &["dead", "requeue", "--all", "--yes"]).await;
    until(&service, &[("stopped", Some("too_late")); 3]).await;
    assert_eq!(charges(&sandbox), 0);
    assert_eq!(service.jobs(State::Dead).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn attempts_that_are_requeued_together_are_made_half_a_day_apart() {
    let sandbox = sandbox().await;
    let service = with_api(service().manual_clock(), &sandbox).start().await;
    failed(&service, &sandbox, BAD_CARD).await;
    dead_letter_attempts(&service).await;
    said(&service, &["dead", "requeue", "--all", "--yes"]).await;
    let waits = "select count(*) as n from jobs
                 where state = 'ready' and last_error like '%a short while ago%'";
    eventually("two wait for the third", async || {
        service.count(waits).await == 2
    })
    .await;
    eventually("the third is made", async || charges(&sandbox) == 1).await;
    service.clock().advance(Duration::from_hours(11));
    pause(Duration::from_millis(300)).await;
    assert_eq!(charges(&sandbox), 1);
    service.clock().advance(Duration::from_hours(1));
    eventually("the next is made", async || charges(&sandbox) == 2).await;
    eventually("one waits again", async || service.count(waits).await == 1).await;
    service.stop().await;
}

#[tokio::test]
async fn a_payment_that_neither_we_nor_a_checkout_began_is_left_to_the_provider() {
    let sandbox = sandbox().await;
    let server = SmtpServer::start().await;
    let service = with_mail(service().manual_clock(), &server);
    let service = with_api(service, &sandbox).start().await;
    // The intent is an invoice's, which intents have not named since 2025-03-31.
    for attempt in 1..=3 {
        let mut failed = declined("pi_1", 1000, attempt, "insufficient_funds");
        failed["metadata"] = json!({});
        let nth = i64::from(attempt);
        deliver(&service, &event(&service, FAILED, nth, &failed)).await;
        service.clock().advance(Duration::from_secs(1));
    }
    assert_eq!(service.scheduled().await, 0);
    let mails = server.received();
    assert_eq!(mails.len(), 1, "one for all tries of the provider");
    let text = mails[0].body();
    assert!(text.contains("may be tried again automatically"), "{text}");
    // A checkout session led to this one.
    let opened = session("cs_2", "unpaid", 1000, &json!({"payment_intent": "pi_2"}));
    let completed = event(&service, "checkout.session.completed", 1, &opened);
    deliver(&service, &completed).await;
    let mut failed = declined("pi_2", 1000, 1, "insufficient_funds");
    failed["metadata"] = json!({});
    deliver(&service, &event(&service, FAILED, 2, &failed)).await;
    assert_eq!(service.scheduled().await, 3);
    assert_eq!(sandbox.payment().fault_injector.requests(), 0);
    service.stop().await;
}

fn with_mail(options: Options, server: &SmtpServer) -> Options {
    options
        .setting("SMTP_URL", &server.url())
        .setting("MAIL_FROM", "Shop <orders@shop.example>")
}

async fn mails(service: &Service) -> Vec<String> {
    let sql = "select state from notifications order by id";
    let rows = service.db().query(sql).fetch_all().await.unwrap();
    rows.iter().map(|row| row.get("state").unwrap()).collect()
}

/// Two failures of a payment that the mail server was too busy to hear of.
async fn two_unsent(service: &Service, server: &SmtpServer) {
    server.at("MAIL", Reply::Code(421));
    for attempt in 1..=2 {
        let failed = declined("pi_1", 1000, attempt, "insufficient_funds");
        let failed = event(service, FAILED, i64::from(attempt), &failed);
        post_all(service, &[failed]).await;
        let tried = "select count(*) as n from jobs
                     where kind = 'notifications/send' and attempts > 0 or state = 'done'
                       and kind = 'notifications/send'";
        eventually("it was tried", async || {
            service.count(tried).await == i64::from(attempt)
        })
        .await;
    }
    server.be_kind();
}

#[tokio::test]
async fn of_failures_that_could_not_be_stored_the_last_one_is() {
    let server = SmtpServer::start().await;
    let service = with_mail(service().manual_clock(), &server).start().await;
    two_unsent(&service, &server).await;
    service.clock().advance(Duration::from_mins(10));
    eventually("both are over", async || {
        mails(&service).await == ["not_needed", "sent"]
    })
    .await;
    assert_eq!(server.received().len(), 1);
    service.stop().await;
}

#[tokio::test]
async fn nobody_is_reported_a_failure_of_last_week() {
    let server = SmtpServer::start().await;
    let service = with_mail(service().manual_clock(), &server).start().await;
    two_unsent(&service, &server).await;
    service.clock().advance(Duration::from_hours(7 * 24));
    eventually("both are over", async || {
        mails(&service).await == ["not_needed", "too_late"]
    })
    .await;
    assert_eq!(server.received().len(), 0);
    service.stop().await;
}

/// The payment provider knows the payment of order 7.
fn capture(sandbox: &Sandbox) {
    sandbox.payment().add_intent(Intent {
        id: "pi_7".to_owned(),
        amount: CAPTURED,
        currency: domain::money::Currency::parse("USD").unwrap(),
        pact_id: Some("7".to_owned()),
    });
}

/// Order 7 is cancelled, and its payment is to be given back.
async fn cancel(service: &Service) {
    let deliveries = [
        captured(service.clock().now(), 7, "7"),
        order_delivery("orders/cancelled", &cancelled(7, 1, "paid")),
    ];
    post_all(service, &deliveries).await;
}

/// A service whose refund of order 7 the provider has refused, because it does not know the payment.
async fn refused_refund(sandbox: &Sandbox) -> Service {
    let service = with_api(service(), sandbox).start().await;
    cancel(&service).await;
    eventually("it is refused", async || {
        service.jobs(State::Dead).await == 1
    })
    .await;
    service
}

async fn refund(service: &Service) -> Value {
    let key = service.api_key().await;
    shown(service, &key, SHOP, 7).await["refunds"][0].clone()
}

/// The keys of requests that change something, without what they begin with: the job's id.
fn key_numbers(sandbox: &Sandbox) -> BTreeMap<String, u32> {
    let keys = sandbox.payment().fault_injector.requests_by_key();
    keys.into_iter()
        .map(|(key, times)| (key.get(36..).unwrap_or_default().to_owned(), times))
        .collect()
}

fn keys(keys: &[(&str, u32)]) -> BTreeMap<String, u32> {
    keys.iter()
        .map(|(key, times)| ((*key).to_owned(), *times))
        .collect()
}

#[tokio::test]
async fn a_refund_that_was_refused_is_issued_under_another_key_once_its_cause_is_mended() {
    let sandbox = sandbox().await;
    let service = refused_refund(&sandbox).await;
    assert_eq!(refund(&service).await["state"], "failed");
    capture(&sandbox);
    said(&service, &["dead", "requeue", "--all", "--yes"]).await;
    service.settled().await;
    assert_eq!(refund(&service).await["state"], "issued");
    assert_eq!(key_numbers(&sandbox), keys(&[("", 1), ("-2", 1)]));
    assert_eq!(sandbox.payment().refund_amounts("pi_7"), [CAPTURED]);
    service.stop().await;
}

#[tokio::test]
async fn a_failure_that_the_provider_keeps_is_asked_about_and_then_under_another_key() {
    let sandbox = sandbox().await;
    let service = with_api(service(), &sandbox).start().await;
    capture(&sandbox);
    sandbox.payment().break_next(1);
    cancel(&service).await;
    service.settled().await;
    assert_eq!(refund(&service).await["state"], "issued");
    assert_eq!(key_numbers(&sandbox), keys(&[("", 2), ("-2", 1)]));
    assert_eq!(sandbox.payment().refund_amounts("pi_7"), [CAPTURED]);
    assert_eq!(service.jobs(State::Dead).await, 0);
    service.stop().await;
}

#[tokio::test]
async fn a_refund_that_there_is_already_is_found_before_another_one_is_asked_for() {
    let sandbox = sandbox().await;
    let service = refused_refund(&sandbox).await;
    capture(&sandbox);
    let made = reqwest::Client::new()
        .post(format!("{}/v1/refunds", sandbox.payment_url()))
        .bearer_auth(PAYMENT_KEY)
        .form(&[
            ("payment_intent", "pi_7"),
            ("amount", "400"),
            ("metadata[order_id]", "7"),
        ])
        .send();
    assert_eq!(made.await.unwrap().status(), 200);
    said(&service, &["dead", "requeue", "--all", "--yes"]).await;
    service.settled().await;
    let refund = refund(&service).await;
    let found = (&refund["state"], &refund["amount"]);
    assert_eq!(found, (&json!("issued"), &json!("4.00")));
    assert_eq!(sandbox.payment().refund_amounts("pi_7"), [400]);
    service.stop().await;
}

#[tokio::test]
async fn an_attempt_that_broke_at_the_provider_is_made_once_under_another_key() {
    let sandbox = sandbox().await;
    let service = with_api(service().manual_clock(), &sandbox).start().await;
    let id = failed(&service, &sandbox, "pm_card_visa").await;
    sandbox.payment().break_next(1);
    service.clock().advance(Duration::from_hours(1));
    let made = eventually("it is made", async || {
        attempts(&service).await[0].0 == "succeeded"
    });
    without_pauses(service.clock(), made).await;
    assert_eq!(sandbox.payment().captures()[&id], 1);
    let asked = key_numbers(&sandbox);
    assert_eq!((asked[""], asked["-2"]), (2, 1));
    service.stop().await;
}

/// Icelandic kronur have no decimals, and are hundredths at the provider.
#[tokio::test]
async fn a_payment_pays_for_an_order_by_its_worth_in_every_currency() {
    let service = service().start().await;
    let key = service.api_key().await;
    let cases = [
        ("ISK", "10000", 10_000, "partially_paid"),
        ("ISK", "10000", 1_000_000, "paid"),
        ("UGX", "5", 500, "paid"),
        ("MGA", "500.00", 500, "paid"),
        ("MGA", "500.00", 50_000, "paid"),
        ("JPY", "500", 500, "paid"),
        ("JPY", "500.00", 5, "partially_paid"),
        ("KWD", "5.120", 5120, "paid"),
        ("KWD", "5.120", 512, "partially_paid"),
        ("HUF", "10.45", 1045, "paid"),
        ("TWD", "800.45", 80_045, "paid"),
    ];
    for (id, (currency, total, minor, expected)) in (1..).zip(cases) {
        let name = format!("p{id}");
        let order = with(body(id, 0, "pending"), &naming_agreement(&name));
        let order = with(
            order,
            &json!({"currency": currency, "total_price": total, "line_items": [],
                    "subtotal_price": total, "total_tax": "0", "total_outstanding": total}),
        );
        let mut paid = intent(&format!("pi_{id}"), "succeeded", minor, Some(&name));
        paid["currency"] = json!(currency.to_lowercase());
        deliver(&service, &order_delivery("orders/create", &order)).await;
        deliver(&service, &event(&service, SUCCEEDED, 1, &paid)).await;
        let status = shown(&service, &key, SHOP, id).await["payment_status"].clone();
        assert_eq!(status, expected, "{minor} for {total} {currency}");
    }
    // No krona has hundredths.
    let mut odd = intent("pi_99", "succeeded", 10_050, None);
    odd["currency"] = json!("isk");
    deliver(&service, &event(&service, SUCCEEDED, 1, &odd)).await;
    let dead = "select last_error from jobs where state = 'dead'";
    let row = service.db().query(dead).fetch_one().await.unwrap();
    let error: String = row.get("last_error").unwrap();
    assert!(
        error.contains("has more decimals than its currency"),
        "{error}"
    );
    service.stop().await;
}
