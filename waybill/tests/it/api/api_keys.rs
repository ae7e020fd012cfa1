//! API keys: what each opens, how often it may be used, and the operator's commands.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use domain::api_key::{Rights, Scope, Shops};
use futures_util::future::join_all;
use reqwest::Response;
use serde_json::{Value, json};
use store::api_keys;
use tokio::time::Instant;

use crate::support::delivery::{order, storefront};
use crate::support::order::{deliver, post_all};
use crate::support::requests::{posted, printed, request, waybill};
use crate::support::{Options, Service, eventually, service};

fn scoped(scopes: &[Scope]) -> Rights {
    Rights {
        scopes: Some(scopes.to_vec()),
        shops: Shops::default(),
    }
}

fn of_shops(shops: &[&str]) -> Rights {
    Rights {
        scopes: None,
        shops: Shops(Some(shops.iter().map(|&shop| shop.to_owned()).collect())),
    }
}

async fn get(service: &Service, key: &str, path: &str) -> Response {
    service.get(path).bearer_auth(key).send().await.unwrap()
}

async fn answer(response: Response) -> (u16, Value) {
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn has_order(service: &Service, shop: &str, id: i64) {
    let body = json!({"id": id, "name": shop, "updated_at": "2027-01-01T00:00:00Z",
        "fulfillments": [{"id": 1, "tracking_numbers": ["T1"]}]});
    let delivery = storefront("orders/create", body.to_string()).of_shop(shop);
    deliver(service, &delivery).await;
}

#[tokio::test]
async fn a_key_opens_only_what_its_scopes_say() {
    let service = service().without_workers().start().await;
    let nil = "/api/privacy/requests/00000000-0000-0000-0000-000000000000";
    let calls = [
        (
            "GET",
            "/api/commerce/orders/7".to_owned(),
            Scope::OrdersRead,
        ),
        ("GET", "/api/commerce/orders".into(), Scope::OrdersRead),
        (
            "GET",
            "/api/commerce/orders/7/qr.png".into(),
            Scope::OrdersRead,
        ),
        (
            "GET",
            "/api/commerce/orders/7/qr.svg".into(),
            Scope::OrdersRead,
        ),
        (
            "GET",
            "/api/commerce/orders/7/parcels/1/qr.png".into(),
            Scope::OrdersRead,
        ),
        (
            "GET",
            "/api/commerce/orders/7/parcels/1/qr.svg".into(),
            Scope::OrdersRead,
        ),
        ("POST", "/api/commerce/qr".into(), Scope::QrWrite),
        (
            "POST",
            "/api/commerce/checkout".into(),
            Scope::CheckoutWrite,
        ),
        ("GET", "/api/events".into(), Scope::EventsRead),
        ("GET", "/api/events/stream".into(), Scope::EventsRead),
        (
            "GET",
            "/api/deliveries/stream".into(),
            Scope::DeliveriesRead,
        ),
        ("GET", "/api/privacy/requests".into(), Scope::PrivacyRead),
        ("GET", nil.into(), Scope::PrivacyRead),
        ("POST", format!("{nil}/retry"), Scope::PrivacyWrite),
        ("POST", format!("{nil}/cancel"), Scope::PrivacyWrite),
        ("POST", format!("{nil}/export-link"), Scope::PrivacyWrite),
    ];
    for scope in Scope::ALL {
        let has = service.api_key_for("one", &scoped(&[scope])).await;
        let others: Vec<Scope> = Scope::ALL.into_iter().filter(|it| *it != scope).collect();
        let lacks = service.api_key_for("others", &scoped(&others)).await;
        for (method, path, _) in calls.iter().filter(|(_, _, needed)| *needed == scope) {
            let call = |key: &str| {
                let request = match *method {
                    "GET" => service.get(path),
                    _ => service.post_to(path),
                };
                request.bearer_auth(key).send()
            };
            let refused = call(&lacks).await.unwrap();
            assert_eq!(refused.status(), 403, "{method} {path} without {scope}");
            let challenge = &refused.headers()["www-authenticate"];
            assert_eq!(challenge, "Bearer error=\"insufficient_scope\"");
            assert!(refused.headers().get("x-error-code").is_none());
            let (_, body) = answer(refused).await;
            let detail = format!("This API key lacks the scope {scope}");
            assert_eq!(body["detail"], detail.as_str(), "{path}");
            let allowed = call(&has).await.unwrap().status().as_u16();
            assert!(![401, 403].contains(&allowed), "{path}: {allowed}");
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn an_order_of_a_shop_that_a_key_does_not_open_is_not_there() {
    let service = service().start().await;
    for shop in ["a.example", "b.example"] {
        has_order(&service, shop, 7).await;
    }
    has_order(&service, "b.example", 8).await;
    let key = service.api_key_for("a", &of_shops(&["a.example"])).await;
    let path = "/api/commerce/orders/7";
    let (status, order) = answer(get(&service, &key, path).await).await;
    assert_eq!(
        (status, &order["shop"]),
        (200, &json!("a.example")),
        "the other shop's makes it not ambiguous"
    );
    let missing = answer(get(&service, &key, "/api/commerce/orders/404").await).await;
    assert_eq!(missing.0, 404);
    for path in [
        "/api/commerce/orders/8",
        "/api/commerce/orders/8?shop=b.example",
        "/api/commerce/orders/7?shop=b.example",
        "/api/commerce/orders/7/qr.png?shop=b.example",
        "/api/commerce/orders/8/qr.svg",
        "/api/commerce/orders/8/parcels/T1/qr.png",
        "/api/commerce/orders/7/parcels/T1/qr.svg?shop=b.example",
    ] {
        let hidden = answer(get(&service, &key, path).await).await;
        assert_eq!(hidden, missing, "{path}");
    }
    let both = of_shops(&["a.example", "b.example"]);
    let both = service.api_key_for("both", &both).await;
    assert_eq!(get(&service, &both, path).await.status(), 409);
    let of_b = format!("{path}?shop=b.example");
    assert_eq!(get(&service, &both, &of_b).await.status(), 200);
    service.stop().await;
}

#[tokio::test]
async fn a_privacy_request_of_a_shop_that_a_key_does_not_open_is_not_there() {
    let service = service().without_workers().start().await;
    let id = posted(&service, &request("shop/redact", 1)).await;
    let path = format!("/api/privacy/requests/{id}");
    let other = service
        .api_key_for("other", &of_shops(&["other.example"]))
        .await;
    let (_, none) = answer(get(&service, &other, "/api/privacy/requests").await).await;
    assert_eq!(none, json!({"requests": []}));
    let named = "/api/privacy/requests?shop=waybill-sandbox.example&state=all";
    let (_, none) = answer(get(&service, &other, named).await).await;
    assert_eq!(none, json!({"requests": []}));
    let unknown = (404, json!({"detail": "Privacy request not found"}));
    assert_eq!(answer(get(&service, &other, &path).await).await, unknown);
    for what in ["retry", "cancel", "export-link"] {
        let path = format!("{path}/{what}");
        let post = service.post_to(&path).bearer_auth(&other).send();
        assert_eq!(answer(post.await.unwrap()).await, unknown, "{what}");
    }
    let held = "select count(*) as n from privacy_requests where state = 'held'";
    assert_eq!(service.count(held).await, 1, "nothing was cancelled");
    let own = of_shops(&["other.example", "waybill-sandbox.example"]);
    let own = service.api_key_for("own", &own).await;
    let (_, listed) = answer(get(&service, &own, "/api/privacy/requests").await).await;
    assert_eq!(listed["requests"].as_array().unwrap().len(), 1);
    let cancel = service
        .post_to(&format!("{path}/cancel"))
        .bearer_auth(&own)
        .send();
    let (status, cancelled) = answer(cancel.await.unwrap()).await;
    assert_eq!((status, &cancelled["state"]), (200, &json!("cancelled")));
    service.stop().await;
}

#[tokio::test]
async fn when_a_key_was_last_used_is_noted_once_a_minute() {
    let service = service().manual_clock().without_workers().start().await;
    let key = service.api_key().await;
    let call = async || {
        let status = get(&service, &key, "/api/privacy/requests").await.status();
        assert_eq!(status, 200);
    };
    let noted = async || {
        let last = "select coalesce(last_used_at, 0) as n from api_keys";
        service.count(last).await
    };
    assert_eq!(noted().await, 0);
    let first = service.clock().now().0;
    call().await;
    eventually("the use is noted", async || noted().await == first).await;
    service.clock().advance(Duration::from_mins(1));
    let second = service.clock().now();
    call().await;
    eventually("the next use is noted", async || noted().await == second.0).await;
    // Whatever other replicas think of it.
    let db = service.db();
    let known = api_keys::authenticate(db, api_keys::hash(&key), second).await;
    let id = known.unwrap().unwrap().id;
    let soon = second.plus(Duration::from_secs(59));
    api_keys::note_use(db, id, soon).await.unwrap();
    assert_eq!(noted().await, second.0);
    let later = second.plus(Duration::from_mins(1));
    api_keys::note_use(db, id, later).await.unwrap();
    assert_eq!(noted().await, later.0);
    service.stop().await;
}

fn limited(rate: &str) -> Options {
    service()
        .setting("COMMERCE_RATE_PER_SECOND", rate)
        .manual_clock()
        .without_workers()
}

#[tokio::test]
async fn a_key_that_is_used_too_often_waits_and_others_do_not() {
    let service = limited("3").start().await;
    let (key, other) = (service.api_key().await, service.api_key().await);
    let path = "/api/privacy/requests";
    for _ in 0..3 {
        assert_eq!(get(&service, &key, path).await.status(), 200);
    }
    let refused = get(&service, &key, path).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["x-error-code"], "AUTH_006");
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(get(&service, &other, path).await.status(), 200);
    service.clock().advance(Duration::from_secs(1));
    assert_eq!(get(&service, &key, path).await.status(), 200);
    service.stop().await;
}

#[tokio::test]
async fn who_guesses_keys_is_slowed_down_and_whoever_has_one_is_not() {
    let service = limited("0").start().await;
    let key = service.api_key().await;
    let path = "/api/privacy/requests";
    assert_eq!(get(&service, &key, path).await.status(), 200);
    for nth in 0..20 {
        let guess = format!("wb_{nth:064}");
        let (status, body) = answer(get(&service, &guess, path).await).await;
        assert_eq!(
            (status, body),
            (401, json!({"detail": "Invalid API key"})),
            "{nth}"
        );
    }
    let refused = get(&service, "wb_guess", path).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["x-error-code"], "AUTH_006");
    assert_eq!(refused.headers()["retry-after"], "60");
    assert_eq!(get(&service, &key, path).await.status(), 200);
    service.clock().advance(Duration::from_mins(1));
    assert_eq!(get(&service, "wb_guess", path).await.status(), 401);
    service.stop().await;
}

#[tokio::test]
async fn the_operator_makes_lists_and_revokes_keys() {
    let service = service().without_workers().start().await;
    let path = "/api/privacy/requests";
    let run = async |arguments: &[&str]| waybill(&service, &[], arguments).await;
    let made = run(&[
        "keys",
        "create",
        "desk",
        "--scope",
        "privacy:read",
        "--scope",
        "orders:read",
        "--shop",
        "A.example",
        "--json",
    ])
    .await;
    let made = printed(&made);
    assert_eq!(made["scopes"], json!(["orders:read", "privacy:read"]));
    assert_eq!(made["shops"], json!(["a.example"]));
    let key = made["key"].as_str().unwrap().to_owned();
    assert_eq!(get(&service, &key, path).await.status(), 200);

    let listed = run(&["keys", "list"]).await;
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(
        text.contains("desk") && text.contains("orders:read, privacy:read"),
        "{text}"
    );
    assert!(
        !text.contains("wb_") && !text.contains(&key[3..11]),
        "{text}"
    );
    let entry = printed(&run(&["keys", "list", "--json"]).await)["items"][0].clone();
    assert_eq!(entry["state"], "active");
    assert!(entry.get("key").is_none() && entry.get("hash").is_none());

    // Two of one name: which is meant must be said.
    let second = run(&["keys", "create", "desk"]).await;
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(second.status.success(), "{said}");
    assert!(second.stdout.starts_with(b"wb_") && said.contains("cannot be shown again"));
    let ambiguous = run(&["keys", "revoke", "desk"]).await;
    assert_eq!(ambiguous.status.code(), Some(1));
    let said = String::from_utf8(ambiguous.stderr).unwrap();
    let id = entry["id"].as_str().unwrap();
    assert!(said.contains("by its id") && said.contains(id), "{said}");
    assert_eq!(get(&service, &key, path).await.status(), 200);
    assert!(run(&["keys", "revoke", id]).await.status.success());
    assert_eq!(get(&service, &key, path).await.status(), 401, "at once");
    // The other one is the only one left of its name.
    assert!(run(&["keys", "revoke", "desk"]).await.status.success());
    let standing = "select count(*) as n from api_keys where revoked_at is null";
    assert_eq!(service.count(standing).await, 0);
    let all = printed(&run(&["keys", "list", "--all", "--json"]).await);
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    assert_eq!(
        printed(&run(&["keys", "list", "--json"]).await)["items"],
        json!([])
    );

    let nobody = run(&["keys", "revoke", "nobody"]).await;
    assert_eq!(nobody.status.code(), Some(1));
    for misused in [
        ["keys", "create", "x", "--scope", "everything"],
        ["keys", "create", "x", "--shop", "a b"],
    ] {
        assert_eq!(run(&misused).await.status.code(), Some(2), "{misused:?}");
    }
    let blind = [
        "keys",
        "create",
        "x",
        "--scope",
        "checkout:write",
        "--shop",
        "a.example",
    ];
    let blind = run(&blind).await;
    assert_eq!(blind.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&blind.stderr).contains("--shop checkout"));
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_a_service_that_is_busy_writing_locks_no_command_out() {
    let service = service().start().await;
    let enough = AtomicBool::new(false);
    let deliveries = async {
        for seed in (1..).step_by(64) {
            if enough.load(Ordering::SeqCst) {
                return seed;
            }
            let orders = (seed..seed + 64).map(|it| order("orders/create", it).id(&it.to_string()));
            post_all(&service, &orders.collect::<Vec<_>>()).await;
        }
        unreachable!("seeds do not end")
    };
    let commands = async {
        let operators = (0..3).map(async |operator| {
            for nth in 0..5 {
                let name = format!("desk-{operator}-{nth}");
                let begun = Instant::now();
                let made = waybill(&service, &[], &["keys", "create", &name]).await;
                let said = String::from_utf8_lossy(&made.stderr).into_owned();
                assert!(made.status.success(), "{said}");
                let took = begun.elapsed();
                assert!(took < Duration::from_secs(5), "{name} took {took:?}");
            }
        });
        join_all(operators).await;
        enough.store(true, Ordering::SeqCst);
    };
    let (posted, ()) = tokio::join!(deliveries, commands);
    let keys = "select count(*) as n from api_keys";
    assert_eq!(service.count(keys).await, 15, "beside {posted} deliveries");
    service.settled().await;
    service.stop().await;
}
