//! A checkout whose process dies is asked for again with the same idempotency key: it has one order, and one
//! page at the payment provider.

use std::time::Duration;

use sandbox::Fault;
use serde_json::{Value, json};

use super::table::{Area, targets};
use super::world::World;
use crate::support::pause;
use crate::support::storm::count;

/// Asks until there is an answer that is no failure of ours; its status and body.
async fn ask(port: u16, key: &str, again: &str) -> (u16, Value) {
    let body = json!({
        "line_items": [{"name": "Enamel mug", "amount": 1450, "currency": "EUR", "quantity": 2}],
        "return_url": "https://shop.example/thanks",
    });
    let client = reqwest::Client::new();
    loop {
        let url = format!("http://127.0.0.1:{port}/api/commerce/checkout");
        let request = client
            .post(url)
            .bearer_auth(key)
            .header("Idempotency-Key", again);
        if let Ok(answer) = request.body(body.to_string()).send().await {
            let status = answer.status().as_u16();
            if !matches!(status, 429 | 503) {
                let text = answer.text().await.unwrap_or_default();
                return (status, serde_json::from_str(&text).unwrap_or_default());
            }
        }
        pause(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkout_whose_process_dies_has_one_order_and_one_page() {
    let origins = ("CHECKOUT_RETURN_ORIGINS", "https://shop.example");
    let mut world = World::new(Area::Checkouts, &[origins]).await;
    let key = world.command(&["keys", "create", "shop", "--json"]).await;
    let key: Value = serde_json::from_str(&key).unwrap();
    let key = key["key"].as_str().unwrap().to_owned();
    let (port, mut opened, mut refused) = (world.port, 0, 0);
    for (nth, target) in targets(Area::Checkouts).iter().enumerate() {
        let is_refused = target.of == "ingress::checkout::refuse";
        let again = format!("cart-{nth}");
        let injector = &world.sandbox.payment().fault_injector;
        if is_refused {
            injector.fail(Fault::Status(400));
        }
        let asked = async {
            ask(port, &key, &again).await;
        };
        world.crash(target, asked).await;
        let mut process = world.start("");
        world.is_ready().await;
        let (status, page) = ask(port, &key, &again).await;
        let (same, page_again) = ask(port, &key, &again).await;
        assert_eq!((same, &page_again), (status, &page), "{}", target.name);
        if is_refused {
            assert!((400..500).contains(&status), "{status}: {page}");
            refused += 1;
        } else {
            assert_eq!(status, 201, "{}: {page}", target.name);
            opened += 1;
        }
        process.kill();
        world.let_time_pass().await;
        world.sandbox.payment().fault_injector.clear_faults();
    }
    let _process = world.finish().await;
    let checkouts = "select count(*) as n from checkouts";
    assert_eq!(count(&world.db, checkouts).await, opened + refused);
    let orders = "select count(*) as n from orders";
    assert_eq!(count(&world.db, orders).await, opened + refused);
    let placed = "select count(*) as n from events where kind = 'order.created'";
    assert_eq!(count(&world.db, placed).await, opened + refused);
    let keys = world.sandbox.payment().fault_injector.requests_by_key();
    assert_eq!(
        i64::try_from(keys.len()).unwrap(),
        opened + refused,
        "a key a checkout"
    );
    world.db.close().await;
}
