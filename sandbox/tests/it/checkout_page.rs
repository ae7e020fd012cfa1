//! The page on which a buyer pays.

use std::time::Duration;

use platform::clock::Clock;
use sandbox::{Options, Sandbox};
use serde_json::json;

use crate::support::receiver::Receiver;
use crate::support::{
    MUG, NOW, client, open, pay, payment_get, payment_post, press, read, sandbox, start, visit,
};

#[tokio::test]
async fn one_pays_on_the_page_and_is_led_to_the_shop() {
    let receiver = Receiver::start(0).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    let session = open(&sandbox, &MUG.replace("Enamel+mug", "%3Cb%3E%26%22mug%27")).await;
    let (status, page) = visit(&session).await;
    assert_eq!(status, 200);
    for part in [
        "14.50 USD",
        "1 × &#60;b&#62;&#38;&#34;mug&#39;",
        ">Pay<",
        ">Decline<",
        "https://shop.example/cart",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let id = session["id"].as_str().unwrap();
    let shop = format!("https://shop.example/thanks?session={id}&a=b");
    for _ in 0..2 {
        let paid = pay(&sandbox, &session).await;
        assert_eq!(paid.status(), 303);
        assert_eq!(paid.headers()["Location"], shop);
    }
    let intent = session["payment_intent"].as_str().unwrap();
    assert_eq!(
        sandbox.payment().captures()[intent],
        1,
        "a button pressed twice"
    );
    let (_, now) = payment_get(&sandbox, &format!("checkout/sessions/{id}")).await;
    let state = json!([now["status"], now["payment_status"], now["url"]]);
    assert_eq!(state, json!(["complete", "paid", null]));
    let (_, page) = visit(&session).await;
    assert!(page.contains("Paid.") && !page.contains("<form"), "{page}");
    let mut taken = receiver.taken();
    taken.sort_by(|a, b| a.topic.cmp(&b.topic));
    let topics: Vec<_> = taken.iter().map(|taken| &*taken.topic).collect();
    assert_eq!(
        topics,
        ["checkout.session.completed", "payment_intent.succeeded"]
    );
    let (session, paid) = (
        &taken[0].body["data"]["object"],
        &taken[1].body["data"]["object"],
    );
    assert_eq!(
        (&session["id"], &session["payment_intent"]),
        (&json!(id), &json!(intent))
    );
    assert_eq!(
        (&paid["id"], &paid["amount_received"]),
        (&json!(intent), &json!(1450))
    );
}

#[tokio::test]
async fn a_declined_card_is_reported_and_another_try_may_succeed() {
    let receiver = Receiver::start(0).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    let session = open(&sandbox, MUG).await;
    let url = session["url"].as_str().unwrap();
    for _ in 0..2 {
        let declined = press(&format!("{url}/decline"), "").await;
        assert_eq!(declined.status(), 303);
        let (_, page) = visit(&session).await;
        assert!(
            page.contains("was declined") && page.contains(">Pay<"),
            "{page}"
        );
    }
    sandbox.webhooks_done().await;
    pay(&sandbox, &session).await;
    press(&format!("{url}/decline"), "").await;
    sandbox.webhooks_done().await;
    let mut topics: Vec<_> = receiver
        .taken()
        .into_iter()
        .map(|taken| taken.topic)
        .collect();
    let failed = "payment_intent.payment_failed";
    assert_eq!(topics[..2], [failed, failed], "events of their own");
    topics.sort();
    let paid = [
        "checkout.session.completed",
        failed,
        failed,
        "payment_intent.succeeded",
    ];
    assert_eq!(topics, paid);
}

#[tokio::test]
async fn an_expired_session_takes_nothing() {
    let receiver = Receiver::start(0).await;
    let clock = Clock::manual(NOW);
    let options = Options {
        clock: clock.clone(),
        webhooks: Some(receiver.webhooks()),
        ..Options::default()
    };
    let sandbox = Sandbox::start(options).await.unwrap();
    let (reported, forgotten) = (open(&sandbox, MUG).await, open(&sandbox, MUG).await);
    let path = format!(
        "checkout/sessions/{}/expire",
        reported["id"].as_str().unwrap()
    );
    let expire = || async { read(payment_post(&sandbox, &path, "").send().await.unwrap()).await };
    let (status, expired) = expire().await;
    assert_eq!((status, &expired["status"]), (200, &json!("expired")));
    assert_eq!(expire().await.0, 400);
    clock.advance(Duration::from_hours(24));
    for session in [&reported, &forgotten] {
        let pressed = pay(&sandbox, session).await;
        let location = pressed.headers()["Location"].to_str().unwrap();
        assert!(location.starts_with("/payment/checkout/cs_"), "{location}");
        let (_, page) = visit(session).await;
        assert!(
            page.contains("has expired") && !page.contains("<form"),
            "{page}"
        );
    }
    assert!(sandbox.payment().captures().is_empty());
    let mut topics: Vec<_> = receiver
        .taken()
        .into_iter()
        .map(|taken| taken.topic)
        .collect();
    topics.sort();
    assert_eq!(
        topics,
        ["checkout.session.expired", "payment_intent.canceled"]
    );
}

#[tokio::test]
async fn pages_run_nothing_and_take_no_forms_of_others() {
    let sandbox = sandbox().await;
    let session = open(&sandbox, MUG).await;
    let url = session["url"].as_str().unwrap();
    let page = client().get(url).send().await.unwrap();
    let policy = page.headers()["Content-Security-Policy"].to_str().unwrap();
    assert!(
        policy.starts_with("default-src 'none'; style-src 'self';"),
        "{policy}"
    );
    let page = page.text().await.unwrap();
    assert!(
        !page.contains("<script") && !page.contains("style="),
        "{page}"
    );
    for site in ["cross-site", "same-site"] {
        let pressed = client()
            .post(format!("{url}/pay"))
            .header("Sec-Fetch-Site", site);
        assert_eq!(pressed.send().await.unwrap().status(), 403);
    }
    assert!(sandbox.payment().captures().is_empty());
    let unknown = format!("{}/checkout/cs_test_none", sandbox.payment_url());
    assert_eq!(client().get(&unknown).send().await.unwrap().status(), 404);
    assert_eq!(press(&format!("{unknown}/pay"), "").await.status(), 404);
    assert_eq!(
        sandbox.payment().fault_injector.requests(),
        1,
        "pages are not of the API"
    );
}
