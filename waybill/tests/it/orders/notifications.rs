//! The notifications that customers get when a payment fails, and the addresses to which they are
//! sent.

use flows::letters;
use std::time::Duration;

use sandbox::PAYMENT_KEY;
use serde_json::{Value, json};
use store::notifications::{self, Summary};
use store::payment_retries;

use crate::both::orders::providers::{sandbox, with_payment};
use crate::support::order::{
    body, cancelled, deliver, naming_agreement, no_person_in_events_and_jobs, order_delivery, with,
};
use crate::support::payment::{declined, event, intent};
use crate::support::smtp::{Reply, SmtpServer};
use crate::support::{Options, Service, eventually, service};

const FAILED: &str = "payment_intent.payment_failed";

fn with_mail(options: Options, server: &SmtpServer) -> Options {
    options
        .setting("SMTP_URL", &server.url())
        .setting("MAIL_FROM", "Shop <orders@shop.example>")
}

async fn all(service: &Service) -> Vec<Summary> {
    notifications::list(service.db(), "", 10).await.unwrap()
}

async fn states(service: &Service) -> Vec<String> {
    all(service).await.into_iter().map(|it| it.state).collect()
}

/// A failure whose intent has this receipt address.
fn failed(id: &str, attempt: u32, pact_id: Option<&str>, email: Option<&str>) -> Value {
    let mut intent = declined(id, 3000, attempt, "insufficient_funds");
    intent["receipt_email"] = json!(email);
    intent["metadata"] = pact_id.map_or(json!({}), |agreement| json!({"pact_id": agreement}));
    intent
}

#[tokio::test]
async fn a_customer_is_notified_once_of_each_failure_with_what_they_need_to_know() {
    let server = SmtpServer::start().await;
    let service = with_mail(service().manual_clock(), &server).start().await;
    let order = with(body(41, 0, "pending"), &naming_agreement("p1"));
    deliver(&service, &order_delivery("orders/create", &order)).await;
    let first = failed("pi_1", 1, Some("p1"), Some("canary@example.com"));
    for nth in [1, 2, 1] {
        deliver(&service, &event(&service, FAILED, nth, &first)).await;
    }
    assert_eq!(states(&service).await, ["sent"]);
    service.clock().advance(Duration::from_secs(1));
    let second = failed("pi_1", 2, Some("p1"), Some("canary@example.com"));
    deliver(&service, &event(&service, FAILED, 60, &second)).await;
    assert_eq!(states(&service).await, ["sent", "sent"]);
    let mails = server.received();
    assert_eq!(mails.len(), 2);
    assert_eq!(mails[0].to, "canary@example.com");
    assert_eq!(
        mails[0].header("Subject").unwrap(),
        "Your payment of 30.00 USD did not go through"
    );
    let text = mails[0].body();
    for part in [
        "It is for order #41.",
        "There were not enough funds in your account.",
        &format!("{}/pay/41?amount=30.00&currency=USD", service.url),
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("try again on"), "no API is set: {text}");
    no_person_in_events_and_jobs(&service).await;
    let rows = format!("{:?}", all(&service).await);
    assert!(!rows.to_lowercase().contains("canary"), "{rows}");
    service.stop().await;
}

#[tokio::test]
async fn without_a_mail_server_it_is_kept() {
    let service = service().manual_clock().start().await;
    let first = failed("pi_1", 1, None, Some("canary@example.com"));
    deliver(&service, &event(&service, FAILED, 1, &first)).await;
    assert_eq!(states(&service).await, ["kept"]);
    let id = all(&service).await[0].id;
    let letter = notifications::letter(service.db(), id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(letter.email.as_deref(), Some("canary@example.com"));
    let mail = letters::mail(
        &letter,
        &service.parts.config,
        &service.parts.connections.now(),
    );
    assert_eq!(mail.subject, "Your payment of 30.00 USD did not go through");
    service.stop().await;
}

#[tokio::test]
async fn the_mail_says_at_which_hour_of_which_zone_it_is_tried_again() {
    let service = service().manual_clock().start().await;
    let first = failed("pi_1", 1, None, Some("canary@example.com"));
    deliver(&service, &event(&service, FAILED, 1, &first)).await;
    // 2027-01-16T02:05:00Z, which is still the day before for a reader in New York.
    service
        .execute(
            "insert into payment_retries (payment_id, number, job_id, state, due_at, updated_at)
             select payment_id, 1, id, 'scheduled', 1800065100000, 1 from notifications",
        )
        .await;
    let id = all(&service).await[0].id;
    let letter = notifications::letter(service.db(), id).await.unwrap();
    let mail = letters::mail(
        &letter.unwrap(),
        &service.parts.config,
        &service.parts.connections.now(),
    );
    let reported = "We will try again on 16 January 2027, 02:05 UTC.";
    assert!(mail.body.contains(reported), "{}", mail.body);
    service.stop().await;
}

#[tokio::test]
async fn the_address_is_the_receipts_or_the_orders_or_nobodys() {
    let server = SmtpServer::start().await;
    let service = with_mail(service().manual_clock(), &server).start().await;
    let order = with(
        body(41, 0, "pending"),
        &json!({"email": "order@example.com"}),
    );
    deliver(&service, &order_delivery("orders/create", &order)).await;
    let of_order = failed("pi_1", 1, Some("41"), None);
    deliver(&service, &event(&service, FAILED, 1, &of_order)).await;
    service.clock().advance(Duration::from_secs(1));
    let nobody = failed("pi_2", 1, None, None);
    deliver(&service, &event(&service, FAILED, 1, &nobody)).await;
    assert_eq!(states(&service).await, ["no_address", "sent"]);
    let to: Vec<String> = server.received().into_iter().map(|mail| mail.to).collect();
    assert_eq!(to, ["order@example.com"]);
    service.stop().await;
}

#[tokio::test]
async fn a_mail_server_that_is_away_is_asked_again_and_one_that_refuses_is_not() {
    let server = SmtpServer::start().await;
    let service = with_mail(service(), &server).start().await;
    server.at("RCPT", Reply::Code(451));
    let first = failed("pi_1", 1, None, Some("canary@example.com"));
    let delivery = event(&service, FAILED, 1, &first);
    crate::support::order::post_all(&service, std::slice::from_ref(&delivery)).await;
    let tried = "select count(*) as n from jobs where kind = 'notifications/send' and attempts > 0";
    eventually("it was tried", async || service.count(tried).await == 1).await;
    assert_eq!(states(&service).await, ["pending"]);
    server.be_kind();
    eventually("it is sent", async || states(&service).await == ["sent"]).await;
    server.at("RCPT", Reply::Code(550));
    let refused = failed("pi_2", 1, None, Some("canary@example.com"));
    deliver(&service, &event(&service, FAILED, 1, &refused)).await;
    assert_eq!(states(&service).await[0], "refused");
    assert_eq!(service.jobs(domain::job::State::Dead).await, 0);
    let error = all(&service).await[0].error.clone().unwrap();
    assert!(!error.contains("canary"), "{error}");
    service.stop().await;
}

#[tokio::test]
async fn a_payment_that_was_made_meanwhile_is_not_complained_of() {
    let server = SmtpServer::start().await;
    let service = with_mail(service().manual_clock(), &server).start().await;
    server.at("MAIL", Reply::Code(421));
    let first = failed("pi_1", 1, None, Some("canary@example.com"));
    let delivery = event(&service, FAILED, 1, &first);
    crate::support::order::post_all(&service, std::slice::from_ref(&delivery)).await;
    let tried = "select count(*) as n from jobs where kind = 'notifications/send' and attempts > 0";
    eventually("it was tried", async || service.count(tried).await == 1).await;
    let paid = intent("pi_1", "succeeded", 3000, None);
    let delivery = event(&service, "payment_intent.succeeded", 9, &paid);
    crate::support::order::post_all(&service, std::slice::from_ref(&delivery)).await;
    server.be_kind();
    service.clock().advance(Duration::from_mins(1));
    service.settled().await;
    assert_eq!(states(&service).await, ["not_needed"]);
    assert_eq!(server.received().len(), 0);
    service.stop().await;
}

#[tokio::test]
async fn whoever_owes_nothing_hears_of_no_failure_and_is_charged_no_more() {
    let server = SmtpServer::start().await;
    let sandbox = sandbox().await;
    let options = with_payment(service().manual_clock(), &sandbox, PAYMENT_KEY);
    let service = with_mail(options, &server).start().await;
    let named = |id: i64, order: Value| {
        let order = with(order, &naming_agreement(&format!("p{id}")));
        order_delivery("orders/updated", &order)
    };
    deliver(&service, &named(1, body(1, 0, "pending"))).await;
    let paid = intent("pi_9", "succeeded", 3000, Some("p1"));
    let paid = event(&service, "payment_intent.succeeded", 1, &paid);
    deliver(&service, &paid).await;
    deliver(&service, &named(2, cancelled(2, 0, "pending"))).await;
    deliver(&service, &named(3, body(3, 0, "paid"))).await;
    let email = Some("canary@example.com");
    for id in 1..=3 {
        let failure = failed(&format!("pi_{id}"), 1, Some(&format!("p{id}")), email);
        deliver(&service, &event(&service, FAILED, 1, &failure)).await;
        let retries = payment_retries::list(service.db(), &format!("pi_{id}")).await;
        assert_eq!(retries.unwrap().len(), 0, "order {id}");
    }
    assert_eq!(states(&service).await, [""; 0]);
    // A further cycle of the paid order is owed.
    let mut further = failed("pi_4", 1, Some("p1"), email);
    further["metadata"]["fulfillment_cycle"] = json!("2");
    deliver(&service, &event(&service, FAILED, 1, &further)).await;
    assert_eq!(states(&service).await, ["sent"]);
    let id = all(&service).await[0].id;
    let is_needed = async || {
        let letter = notifications::letter(service.db(), id).await.unwrap();
        letter.unwrap().is_needed()
    };
    assert!(is_needed().await);
    deliver(&service, &named(1, cancelled(1, 5, "pending"))).await;
    assert!(
        !is_needed().await,
        "it is cancelled before the mail is sent"
    );
    service.stop().await;
    sandbox.stop().await;
}
