//! The storefront's API: tokens, fulfilment orders, fulfilments, and the webhook that follows.

use std::collections::BTreeMap;

use domain::order::Order;
use sandbox::{Delivery, STOREFRONT_TOKEN};
use serde_json::{Value, json};

use crate::support::receiver::Receiver;
use crate::support::{
    NOW, ORDER, SHOP, client, fulfil, fulfillment_order, fulfillment_orders, read, sandbox, start,
};

#[tokio::test]
async fn without_the_token_everything_is_refused() {
    let sandbox = sandbox().await;
    let base = sandbox.storefront_url();
    for token in [None, Some("wrong"), Some("")] {
        for path in ["orders/1/fulfillment_orders.json", "elsewhere"] {
            let mut request = client().get(format!("{base}/{path}"));
            if let Some(token) = token {
                request = request.header("X-Storefront-Access-Token", token);
            }
            let (status, body) = read(request.send().await.unwrap()).await;
            assert_eq!(status, 401);
            let said = "[API] Invalid API key or access token \
                        (unrecognized login or wrong password)";
            assert_eq!(body, json!({"errors": said}));
        }
    }
}

#[tokio::test]
async fn an_order_has_one_fulfillment_order_of_its_own_in_each_shop() {
    let sandbox = sandbox().await;
    let asked = fulfillment_orders(&sandbox, SHOP, ORDER).send().await;
    let (status, body) = read(asked.unwrap()).await;
    let id = body["fulfillment_orders"][0]["id"].as_i64().unwrap();
    assert_eq!(status, 200);
    let expected = json!({
        "id": id,
        "order_id": ORDER,
        "status": "open",
        "request_status": "unsubmitted",
        "line_items": [],
    });
    assert_eq!(body["fulfillment_orders"], json!([expected]));
    assert_eq!(fulfillment_order(&sandbox, "SHOP.example", ORDER).await, id);
    assert_ne!(
        fulfillment_order(&sandbox, "other.example", ORDER).await,
        id
    );
    assert_ne!(fulfillment_order(&sandbox, SHOP, ORDER + 1).await, id);
    for nonsense in [0, -1] {
        let asked = fulfillment_orders(&sandbox, SHOP, nonsense).send().await;
        assert_eq!(asked.unwrap().status(), 404);
    }
}

#[tokio::test]
async fn a_fulfillment_closes_its_order_and_the_same_key_has_the_same_answer() {
    let sandbox = sandbox().await;
    let id = fulfillment_order(&sandbox, SHOP, ORDER).await;
    let first = read(fulfil(&sandbox, id, "k-1").send().await.unwrap()).await;
    assert_eq!(first.0, 201);
    let fulfillment = &first.1["fulfillment"];
    assert_eq!(fulfillment["order_id"], ORDER);
    assert_eq!(fulfillment["status"], "success");
    assert_eq!(fulfillment["created_at"], NOW.to_string());
    assert_eq!(
        fulfillment["tracking_numbers"][0],
        fulfillment["tracking_number"]
    );
    assert_eq!(fulfillment["tracking_urls"][0], fulfillment["tracking_url"]);
    let again = read(fulfil(&sandbox, id, "k-1").send().await.unwrap()).await;
    assert_eq!(again, first);
    let other = read(fulfil(&sandbox, id, "k-2").send().await.unwrap()).await;
    let said = json!({"errors": ["The fulfillment order is not in an open state."]});
    assert_eq!(other, (422, said));
    let asked = fulfillment_orders(&sandbox, SHOP, ORDER).send().await;
    let (_, body) = read(asked.unwrap()).await;
    assert_eq!(body["fulfillment_orders"][0]["status"], "closed");
    let storefront = sandbox.storefront();
    assert_eq!(
        storefront.created(),
        BTreeMap::from([((SHOP.to_owned(), ORDER), 1)])
    );
    let keys = BTreeMap::from([("k-1".to_owned(), 2), ("k-2".to_owned(), 1)]);
    assert_eq!(storefront.fault_injector.requests_by_key(), keys);
    assert_eq!(
        storefront.fault_injector.answers(),
        BTreeMap::from([(200, 2), (201, 2), (422, 1)])
    );
}

#[tokio::test]
async fn many_requests_at_once_make_one_fulfillment() {
    let sandbox = sandbox().await;
    let id = fulfillment_order(&sandbox, SHOP, ORDER).await;
    let requests = (0..16).map(|_| fulfil(&sandbox, id, "k-1").send());
    for answer in futures_util::future::join_all(requests).await {
        assert_eq!(answer.unwrap().status(), 201);
    }
    assert_eq!(sandbox.storefront().created().values().sum::<u32>(), 1);
}

#[tokio::test]
async fn what_cannot_be_fulfilled_is_refused_without_effect() {
    let sandbox = sandbox().await;
    let id = fulfillment_order(&sandbox, SHOP, ORDER).await;
    let elsewhere = fulfil(&sandbox, id, "k-1").header("X-Storefront-Shop-Domain", "b.example");
    for unknown in [fulfil(&sandbox, id + 1, "k-1"), elsewhere] {
        let answer = read(unknown.send().await.unwrap()).await;
        assert_eq!(answer, (404, json!({"errors": "Not Found"})));
    }
    for body in [
        "",
        "{}",
        "[1]",
        r#"{"fulfillment":{"line_items_by_fulfillment_order":[]}}"#,
    ] {
        let request = client()
            .post(format!("{}/fulfillments.json", sandbox.storefront_url()))
            .header("X-Storefront-Access-Token", STOREFRONT_TOKEN)
            .body(body);
        assert_eq!(request.send().await.unwrap().status(), 400, "{body}");
    }
    sandbox.storefront().close(SHOP, ORDER);
    assert_eq!(
        fulfil(&sandbox, id, "k-1").send().await.unwrap().status(),
        422
    );
    assert_eq!(sandbox.storefront().created(), BTreeMap::new());
    let other = fulfillment_order(&sandbox, SHOP, 1).await;
    assert_eq!(
        fulfil(&sandbox, other, "k-9")
            .send()
            .await
            .unwrap()
            .status(),
        201
    );
    let third = fulfillment_order(&sandbox, SHOP, 2).await;
    let reused = fulfil(&sandbox, third, "k-9").send().await.unwrap();
    assert_eq!(
        reused.status(),
        422,
        "a key belongs to one fulfilment order"
    );
}

#[tokio::test]
async fn a_fulfillment_is_reported_once_in_a_signed_webhook_that_is_retried() {
    let receiver = Receiver::start(1).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    let id = fulfillment_order(&sandbox, SHOP, ORDER).await;
    let answer = fulfil(&sandbox, id, "k-1").send().await.unwrap();
    let (_, made) = read(answer).await;
    fulfil(&sandbox, id, "k-1").send().await.unwrap();
    receiver.recover().await;
    sandbox.webhooks_done().await;
    let taken = receiver.taken();
    assert_eq!(taken.len(), 1);
    assert_eq!(
        (&*taken[0].topic, &*taken[0].shop),
        ("orders/fulfilled", SHOP)
    );
    let expected = json!({
        "id": ORDER,
        "updated_at": NOW.to_string(),
        "fulfillment_status": "fulfilled",
        "fulfillments": [made["fulfillment"]],
    });
    assert_eq!(taken[0].body, expected);
}

#[tokio::test]
async fn the_webhook_of_a_known_order_is_the_whole_order() {
    let receiver = Receiver::start(0).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    let body = sandbox::sample::storefront("orders/paid", 7, NOW.0).unwrap();
    let mut whole: Value = serde_json::from_str(&body).unwrap();
    let paid = Delivery::storefront("orders/paid", "w-1", SHOP, body);
    let older = sandbox::sample::storefront("orders/create", 7, NOW.0).unwrap();
    let older = Delivery::storefront("orders/create", "w-2", SHOP, older);
    sandbox.post(&[paid, older], 1).await.unwrap();
    let id = fulfillment_order(&sandbox, SHOP, ORDER).await;
    fulfil(&sandbox, id, "k-1").send().await.unwrap();
    sandbox.webhooks_done().await;
    let status_text = &receiver.taken()[2].body;
    whole["updated_at"] = json!(NOW.to_string());
    whole["fulfillment_status"] = json!("fulfilled");
    whole["fulfillments"] = status_text["fulfillments"].clone();
    assert_eq!(status_text, &whole);
    let order = Order::read(status_text.to_string().as_bytes()).unwrap();
    assert_eq!(order.fulfillments.len(), 1);
}
