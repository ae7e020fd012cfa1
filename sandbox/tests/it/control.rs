//! The control requests over HTTP, and the page that explains them.

use sandbox::{Options, Sandbox};
use serde_json::{Value, json};

use crate::support::receiver::Receiver;
use crate::support::{
    ORDER, SHOP, client, fulfil, fulfillment_order, intent, read, sandbox, start,
};

async fn post(sandbox: &Sandbox, path: &str, body: &Value) -> (u16, Value) {
    let url = format!("{}/_control/{path}", sandbox.url());
    read(client().post(url).json(body).send().await.unwrap()).await
}

#[tokio::test]
async fn the_page_names_every_call_and_every_credential() {
    let sandbox = sandbox().await;
    let page = client().get(sandbox.url()).send().await.unwrap();
    let page = page.text().await.unwrap();
    for part in [
        &sandbox.storefront_url(),
        &sandbox.payment_url(),
        sandbox::STOREFRONT_TOKEN,
        sandbox::PAYMENT_KEY,
        "/_control/state",
        "/_control/faults",
        "/_control/storm",
        "/_control/invoice",
        "/payment/dashboard",
        &sandbox.identity_api_url(),
        sandbox::IDENTITY_CLIENT_ID,
        sandbox::IDENTITY_CLIENT_SECRET,
        "/identity/login/device",
        "/_control/identity/approve",
        "/_control/identity/rules",
        "/_control/identity/limit",
        "/_control/identity/answer",
    ] {
        assert!(page.contains(part), "{part} in\n{page}");
    }
    assert!(page.lines().all(|line| line.len() <= 120), "{page}");
    let browsers = client().get(sandbox.url()).header("Accept", "text/html");
    let browsers = browsers.send().await.unwrap().text().await.unwrap();
    for part in ["href=\"/payment/dashboard\"", "/_control/faults", "</html>"] {
        assert!(browsers.contains(part), "{part} in\n{browsers}");
    }
    assert!(!page.contains("</html>"), "{page}");
}

/// Each button of the page posts a storm, whose orders are none of those that are triggered by hand.
#[tokio::test]
async fn a_button_posts_a_storm_and_another_site_cannot_press_it() {
    let receiver = Receiver::start(1000).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    for (path, most) in [("/storms/orders", 20 * 5 * 3), ("/storms/payments", 1000)] {
        let url = format!("{}{path}", sandbox.url());
        let foreign = client().post(&url).header("Sec-Fetch-Site", "cross-site");
        assert_eq!(foreign.send().await.unwrap().status(), 403);
        let answer = client().post(&url).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let page = answer.text().await.unwrap();
        let (_, rest) = page.split_once("<span>Webhooks</span><span>").unwrap();
        let posted: u64 = rest.split('<').next().unwrap().parse().unwrap();
        assert!((20..=most).contains(&posted), "{posted}: {page}");
    }
    let without = self::sandbox().await;
    let page = client().get(without.url()).header("Accept", "text/html");
    let page = page.send().await.unwrap().text().await.unwrap();
    assert!(
        page.contains("started without webhooks") && !page.contains("/storms/"),
        "{page}"
    );
}

#[tokio::test]
async fn the_state_says_requests_and_effects() {
    let sandbox = sandbox().await;
    let id = fulfillment_order(&sandbox, SHOP, ORDER).await;
    fulfil(&sandbox, id, "k-1").send().await.unwrap();
    sandbox.payment().add_intent(intent("pi_1", 1999));
    let state = client().get(format!("{}/_control/state", sandbox.url()));
    let (status, mut state) = read(state.send().await.unwrap()).await;
    assert_eq!(status, 200);
    let identity = state["identity"].take();
    assert_eq!(identity["routes"]["user"]["requests"], 0);
    let expected = json!({
        "storefront": {
            "requests": 2,
            "requests_by_key": {"k-1": 1},
            "answers": {"200": 1, "201": 1},
            "faults": [],
            "created": [{"shop": SHOP, "order_id": ORDER, "fulfillments": 1}],
        },
        "payment": {
            "requests": 0,
            "requests_by_key": {},
            "answers": {},
            "faults": [],
            "intents": [
                {
                    "id": "pi_1",
                    "amount": 1999,
                    "currency": "USD",
                    "status": "succeeded",
                    "captures": 1,
                    "refunds": 0,
                    "refunded": 0,
                },
            ],
            "sessions": [],
            "subscriptions": [],
            "confirms_by_key": {},
            "sessions_by_key": {},
            "generation": "basil",
        },
        "identity": null,
        "webhooks": null,
    });
    assert_eq!(state, expected);
}

#[tokio::test]
async fn a_storm_is_posted_and_its_seed_gives_it_again() {
    let receiver = Receiver::start(5).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    let wish = json!({"orders": 3, "repeat": 2, "topics": ["orders/create", "orders/paid"]});
    let (status, first) = post(&sandbox, "storm", &wish).await;
    assert_eq!((status, &first["report"]["accepted"]), (200, &json!(6)));
    assert!(receiver.taken().iter().all(|taken| taken.shop == SHOP));
    let mut wish = wish;
    wish["seed"] = first["seed"].clone();
    let (_, second) = post(&sandbox, "storm", &wish).await;
    assert_eq!(second["report"]["accepted"], 0);
    assert_eq!(
        second["report"]["duplicates"],
        first["report"]["deliveries"]
    );
}

#[tokio::test]
async fn bad_input_learns_what_is_expected() {
    let sandbox = sandbox().await;
    for (path, body, part) in [
        (
            "faults",
            json!({"provider": "bank", "fault": "lose"}),
            "`storefront`, `payment`, `identity`",
        ),
        (
            "faults",
            json!({"provider": "payment", "fault": "fire"}),
            "`rate_limit`",
        ),
        (
            "faults",
            json!({"provider": "payment", "fault": "slow"}),
            "seconds",
        ),
        (
            "faults",
            json!({"provider": "payment", "fault": "lose", "seconds": 1}),
            "slow",
        ),
        (
            "faults",
            json!({"provider": "payment", "fault": "slow", "seconds": -1}),
            "0 to 3600",
        ),
        (
            "faults",
            json!({"provider": "payment", "fault": "status", "status": 200}),
            "400",
        ),
        (
            "faults",
            json!({"provider": "payment", "fault": "lose", "times": 0}),
            "1 or more",
        ),
        (
            "faults",
            json!({"provider": "payment", "fault": "lose", "time": 1}),
            "`times`",
        ),
        (
            "faults",
            json!({"provider": "payment", "fault": "lose", "route": "user"}),
            "only the identity",
        ),
        ("storm", json!({}), "`orders`"),
        ("storm", json!({"orders": 0}), "1 to 20000"),
        ("storm", json!({"orders": 1, "repeat": 0}), "1 to 100"),
        (
            "storm",
            json!({"orders": 1, "topics": ["orders/eaten"]}),
            "orders/create",
        ),
        ("storm", json!({"orders": 1}), "without webhooks"),
    ] {
        let (status, answer) = post(&sandbox, path, &body).await;
        assert_eq!(status, 422, "{body}");
        let detail = answer["detail"].as_str().unwrap();
        assert!(detail.contains(part), "{part} in {detail}");
    }
    let url = format!("{}/_control/storm", sandbox.url());
    let as_a_page_can = client().post(url).body("{\"orders\":1}").send();
    assert_eq!(as_a_page_can.await.unwrap().status(), 422);
}

#[tokio::test]
async fn it_listens_on_loopback_alone() {
    let options = Options {
        listen: ([0, 0, 0, 0], 0).into(),
        ..Options::default()
    };
    let error = Sandbox::start(options).await.err().unwrap();
    assert!(error.to_string().contains("loopback"), "{error}");
}
