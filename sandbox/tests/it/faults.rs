//! Every fault as the client sees it, and whether the request had its effect.

use std::time::Duration;

use sandbox::{Answer, Fault, Sandbox};
use serde_json::{Value, json};

use crate::support::{
    ORDER, SHOP, client, fulfil, fulfillment_order, intent, read, refund, sandbox,
};

fn made(sandbox: &Sandbox) -> u32 {
    sandbox.storefront().created().values().sum()
}

#[tokio::test]
async fn a_status_is_given_so_often_in_the_providers_own_form_and_has_no_effect() {
    let sandbox = sandbox().await;
    let id = fulfillment_order(&sandbox, SHOP, ORDER).await;
    sandbox
        .storefront()
        .fault_injector
        .fail_next(2, Fault::Status(503));
    for _ in 0..2 {
        let (status, body) = read(fulfil(&sandbox, id, "k-1").send().await.unwrap()).await;
        assert_eq!(status, 503);
        assert!(body["errors"].is_string());
        assert_eq!(made(&sandbox), 0);
    }
    assert_eq!(
        fulfil(&sandbox, id, "k-1").send().await.unwrap().status(),
        201
    );
    assert_eq!(
        sandbox.storefront().fault_injector.requests_by_key()["k-1"],
        3
    );
    sandbox
        .payment()
        .fault_injector
        .fail_next(1, Fault::Status(500));
    let (status, body) = read(refund(&sandbox, "", "k-1").send().await.unwrap()).await;
    assert_eq!((status, &body["error"]["type"]), (500, &json!("api_error")));
}

#[tokio::test]
async fn a_standing_fault_lasts_until_cleared_and_counted_ones_come_first() {
    let sandbox = sandbox().await;
    let fault_injector = &sandbox.storefront().fault_injector;
    fault_injector.fail(Fault::Status(500));
    fault_injector.fail_next(1, Fault::Status(501));
    fault_injector.fail_next(2, Fault::Status(502));
    let mut seen = Vec::new();
    for _ in 0..6 {
        seen.push(
            fulfil(&sandbox, 1, "k-1")
                .send()
                .await
                .unwrap()
                .status()
                .as_u16(),
        );
    }
    assert_eq!(seen, [501, 502, 502, 500, 500, 500]);
    fault_injector.clear_faults();
    assert_eq!(
        fulfil(&sandbox, 1, "k-1").send().await.unwrap().status(),
        404
    );
    let refund = refund(&sandbox, "payment_intent=pi_1", "k-1");
    assert_eq!(
        refund.send().await.unwrap().status(),
        404,
        "the other provider is well"
    );
}

#[tokio::test]
async fn a_lost_answer_had_its_effect_and_the_same_key_finds_it() {
    let sandbox = sandbox().await;
    sandbox.payment().add_intent(intent("pi_1", 1999));
    sandbox.payment().fault_injector.fail_next(1, Fault::Lose);
    let lost = refund(&sandbox, "payment_intent=pi_1", "k-1").send().await;
    assert!(lost.is_err(), "{lost:?}");
    assert_eq!(sandbox.payment().refunded("pi_1"), 1999);
    let again = refund(&sandbox, "payment_intent=pi_1", "k-1")
        .send()
        .await
        .unwrap();
    assert_eq!(again.status(), 200);
    assert_eq!(sandbox.payment().refunds()["pi_1"], 1);
}

#[tokio::test]
async fn a_timeout_is_never_answered_and_has_no_effect() {
    let sandbox = sandbox().await;
    let id = fulfillment_order(&sandbox, SHOP, ORDER).await;
    sandbox
        .storefront()
        .fault_injector
        .fail_next(1, Fault::Timeout);
    let request = fulfil(&sandbox, id, "k-1").timeout(Duration::from_millis(300));
    assert!(request.send().await.unwrap_err().is_timeout());
    assert_eq!(made(&sandbox), 0);
    assert_eq!(
        fulfil(&sandbox, id, "k-1").send().await.unwrap().status(),
        201
    );
}

#[tokio::test]
async fn a_slow_answer_comes_after_its_effect() {
    let sandbox = sandbox().await;
    let id = fulfillment_order(&sandbox, SHOP, ORDER).await;
    sandbox
        .storefront()
        .fault_injector
        .fail_next(1, Fault::Slow(Duration::from_mins(1)));
    let request = fulfil(&sandbox, id, "k-1").timeout(Duration::from_millis(300));
    assert!(request.send().await.unwrap_err().is_timeout());
    assert_eq!(made(&sandbox), 1);
    sandbox
        .storefront()
        .fault_injector
        .fail_next(1, Fault::Slow(Duration::from_millis(1)));
    assert_eq!(
        fulfil(&sandbox, id, "k-1").send().await.unwrap().status(),
        201
    );
}

#[tokio::test]
async fn limits_say_when_to_come_back_and_a_proxy_speaks_html() {
    let sandbox = sandbox().await;
    sandbox
        .storefront()
        .fault_injector
        .fail_next(1, Fault::RateLimit);
    let limited = fulfil(&sandbox, 1, "k-1").send().await.unwrap();
    assert_eq!(limited.headers()["Retry-After"], "1");
    assert_eq!(limited.status(), 429);
    sandbox
        .storefront()
        .fault_injector
        .fail_next(1, Fault::Html);
    let page = fulfil(&sandbox, 1, "k-1").send().await.unwrap();
    assert_eq!(page.status(), 502);
    assert!(
        page.headers()["Content-Type"]
            .to_str()
            .unwrap()
            .starts_with("text/html")
    );
    assert!(page.text().await.unwrap().starts_with("<html>"));
}

#[tokio::test]
async fn an_answer_is_given_word_for_word() {
    let sandbox = sandbox().await;
    let fault_injector = &sandbox.storefront().fault_injector;
    let answer = Answer {
        status: 418,
        headers: vec![("X-Kettle".to_owned(), "on".to_owned())],
        body: "{\n}".to_owned(),
    };
    fault_injector.answer_next(1, answer.clone());
    let given = fulfil(&sandbox, 1, "k-1").send().await.unwrap();
    assert_eq!(
        (given.status().as_u16(), &given.headers()["X-Kettle"]),
        (418, &"on".parse().unwrap())
    );
    assert!(given.headers().get("Content-Type").is_none());
    assert_eq!(given.text().await.unwrap(), "{\n}");
    let headers = vec![("no name".to_owned(), String::new())];
    fault_injector.answer_next(1, Answer { headers, ..answer });
    assert_eq!(
        fulfil(&sandbox, 1, "k-1").send().await.unwrap().status(),
        500
    );
}

#[tokio::test]
async fn a_sandbox_that_stops_cuts_what_it_never_answers() {
    let sandbox = sandbox().await;
    sandbox.storefront().fault_injector.fail(Fault::Timeout);
    let request = platform::task::spawn("request", {
        let request = fulfil(&sandbox, 1, "k-1");
        async move { assert!(request.send().await.is_err()) }
    });
    while sandbox.storefront().fault_injector.requests() == 0 {
        tokio::task::yield_now().await;
    }
    let url = sandbox.url().to_owned();
    tokio::time::timeout(Duration::from_secs(5), sandbox.stop())
        .await
        .unwrap();
    request.await.unwrap();
    assert!(client().get(url).send().await.is_err());
}

#[tokio::test]
async fn faults_can_be_set_and_cleared_over_http() {
    let sandbox = sandbox().await;
    let url = format!("{}/_control/faults", sandbox.url());
    let set = |body: Value| client().post(&url).json(&body).send();
    let status = json!({"provider": "payment", "fault": "status", "status": 503, "times": 1});
    assert_eq!(set(status).await.unwrap().status(), 200);
    let slow = json!({"provider": "payment", "fault": "slow", "seconds": 0.001});
    let (_, faults) = read(set(slow).await.unwrap()).await;
    assert_eq!(
        faults,
        json!(["status 503, for 1 more", "slow by 0.001 s, until cleared"])
    );
    let wish = || refund(&sandbox, "payment_intent=pi_1", "k-1").send();
    assert_eq!(wish().await.unwrap().status(), 503);
    for fault in ["timeout", "lose", "rate_limit", "html", "status"] {
        let standing = json!({"provider": "payment", "fault": fault});
        assert_eq!(set(standing).await.unwrap().status(), 200, "{fault}");
    }
    assert_eq!(wish().await.unwrap().status(), 500);
    assert_eq!(client().delete(&url).send().await.unwrap().status(), 204);
    assert_eq!(wish().await.unwrap().status(), 404);
}
