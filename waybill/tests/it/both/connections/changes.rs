//! Connections are added, given other secrets, paused and removed while everything runs.

use std::sync::Arc;
use std::time::Duration;

use domain::job::State;
use operators::connections::{self as flow, Means, Refused, Rotation};
use platform::token::Token;
use sandbox::{PAYMENT_KEY, STOREFRONT_TOKEN, Sandbox};
use serde_json::Value;
use store::connections::{self, Unreadable};
use tokio::time::Instant;

use super::{
    A, B, KEY, SECRET_A, SECRET_B, add, api, by, knows, means, payments, storefront,
    with_connections,
};
use crate::support::backend::Backend;
use crate::support::delivery::Delivery;
use crate::support::operator::{items, json, ran, refused, said};
use crate::support::order::{body, order_delivery, post_all};
use crate::support::{Service, eventually, pause, service};

const OTHER_KEY: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f07f3c0e5b2a9d4c1e8f60b7a5d3c2e1f0";

fn order(id: i64, shop: &str, secret: &str) -> Delivery {
    let delivery = order_delivery("orders/create", &body(id, 1, "pending")).of_shop(shop);
    delivery.signed_with(secret)
}

async fn status(service: &Service, delivery: &Delivery) -> u16 {
    service.answer_once(delivery).await.0
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_three_processes_knows_a_change_within_a_second() {
    let first = with_connections().start().await;
    let second = with_connections()
        .without_workers()
        .start_beside(&first)
        .await;
    let third = with_connections()
        .without_workers()
        .start_beside(&first)
        .await;
    let all = [&first, &second, &third];
    let wanted = storefront("shop-a", A, SECRET_A);
    flow::add(first.db(), by(&first), &means(&first), wanted)
        .await
        .unwrap();
    let known = async |is_known: bool| {
        let begun = Instant::now();
        while all.iter().any(|it| knows(it, "shop-a") != is_known) {
            pause(Duration::from_millis(10)).await;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(1),
            "{:?}",
            begun.elapsed()
        );
    };
    known(true).await;
    for (id, service) in (1..).zip(all) {
        assert_eq!(status(service, &order(id, A, SECRET_A)).await, 200);
    }
    flow::remove(first.db(), by(&first), "shop-a")
        .await
        .unwrap();
    known(false).await;
    for service in all {
        assert_eq!(status(service, &order(9, A, SECRET_A)).await, 401);
    }
    for mut replica in [second, third] {
        replica.halt().await;
    }
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_former_secret_is_accepted_until_it_ends() {
    const NEW: &str = "the new signing secret of shop a";
    let service = with_connections().manual_clock().start().await;
    add(&service, [storefront("shop-a", A, SECRET_A)]).await;
    let rotation = Rotation {
        secret: Some(NEW.to_owned()),
        overlap: Duration::from_hours(72),
        ..Rotation::default()
    };
    let (by, means) = (by(&service), means(&service));
    let rotated = flow::rotate(service.db(), by, &means, "shop-a", rotation).await;
    let rotated = rotated.unwrap();
    assert_eq!(rotated.fingerprints.len(), 2);
    eventually("both are accepted", async || {
        status(&service, &order(1, A, NEW)).await == 200
            && status(&service, &order(2, A, SECRET_A)).await == 200
    })
    .await;
    service.clock().advance(Duration::from_hours(73));
    eventually("the former one has ended", async || {
        status(&service, &order(3, A, SECRET_A)).await == 401
    })
    .await;
    assert_eq!(status(&service, &order(4, A, NEW)).await, 200);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shop_moves_from_one_connection_to_another() {
    let service = with_connections().start().await;
    add(&service, [storefront("old", A, SECRET_A)]).await;
    let mut new = storefront("new", A, SECRET_B);
    let taken = flow::add(service.db(), by(&service), &means(&service), new.clone()).await;
    assert!(matches!(taken, Err(Refused::ShopTaken(_, of)) if of == "old"));
    new.moves = true;
    add(&service, [new]).await;
    for (id, secret) in [(1, SECRET_A), (2, SECRET_B)] {
        assert_eq!(status(&service, &order(id, A, secret)).await, 200);
    }
    assert_eq!(service.parts.connections.now().of_shop(A).name, "new");
    flow::remove(service.db(), by(&service), "old")
        .await
        .unwrap();
    eventually("the former one is gone", async || {
        status(&service, &order(3, A, SECRET_A)).await == 401
    })
    .await;
    assert_eq!(status(&service, &order(4, A, SECRET_B)).await, 200);
    // A name is free again.
    add(&service, [storefront("old", B, SECRET_A)]).await;
    assert_eq!(status(&service, &order(5, B, SECRET_A)).await, 200);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_of_a_removed_connection_ends_and_its_calls_say_why_not() {
    let sandbox = Sandbox::start(sandbox::Options::default()).await.unwrap();
    let service = with_connections().without_workers().start().await;
    let mut wanted = storefront("shop-a", A, SECRET_A);
    wanted.api = Some(api(sandbox.storefront_url(), STOREFRONT_TOKEN));
    add(&service, [wanted]).await;
    let delivery = order_delivery("orders/paid", &body(1, 1, "paid")).of_shop(A);
    post_all(&service, &[delivery.signed_with(SECRET_A)]).await;
    let mut service = service;
    // The order is worked on while the connection is there, and the call to the storefront when it is gone.
    said(&service, &["pauses", "begin", "provider", "storefront"]).await;
    service.start_workers();
    eventually("the call waits", async || {
        let waiting = "select count(*) as n from jobs where kind = 'fulfillments/request' and last_error like '%paused%'";
        service.count(waiting).await == 1
    })
    .await;
    said(&service, &["connections", "remove", "shop-a"]).await;
    eventually("it is removed", async || !knows(&service, "shop-a")).await;
    said(&service, &["pauses", "end", "provider", "storefront"]).await;
    eventually("the call says why it is not made", async || {
        let why = "select count(*) as n from jobs where kind = 'fulfillments/request'
                   and last_error like '%the connection shop-a of this shop was removed%'";
        service.count(why).await == 1
    })
    .await;
    service.halt().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_connection_lets_its_work_wait_and_no_other() {
    let mut service = with_connections().without_workers().start().await;
    let shops = [
        storefront("shop-a", A, SECRET_A),
        storefront("shop-b", B, SECRET_B),
    ];
    add(&service, shops).await;
    said(&service, &["connections", "pause", "shop-a"]).await;
    service.start_workers();
    post_all(&service, &[order(1, A, SECRET_A), order(1, B, SECRET_B)]).await;
    eventually("the other shop's order is done", async || {
        service
            .count("select count(*) as n from orders where shop = 'b.example'")
            .await
            == 1
    })
    .await;
    assert_eq!(
        service
            .count("select count(*) as n from orders where shop = 'a.example'")
            .await,
        0
    );
    let listed = items(&service, &["connections", "list"]).await;
    assert_eq!(listed[0]["state"], "paused");
    said(&service, &["connections", "resume", "shop-a"]).await;
    eventually("the paused one's is done too", async || {
        service
            .count("select count(*) as n from orders where shop = 'a.example'")
            .await
            == 1
    })
    .await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_read_with_their_key_alone_and_the_key_can_be_replaced() {
    let service = with_connections().new_files().start().await;
    let mut wanted = storefront("shop-a", A, SECRET_A);
    wanted.api = Some(api("https://a.example/admin".to_owned(), "token-of-shop-a"));
    add(&service, [wanted]).await;
    let row = service
        .db()
        .query("select secrets from connections")
        .fetch_one()
        .await;
    let stored: Vec<u8> = row.unwrap().get("secrets").unwrap();
    let mut files = vec![stored];
    if let Some(file) = config::database::sqlite_file(&service.backend.database_url) {
        let wal = format!("{}-wal", file.display());
        files.extend([
            std::fs::read(&file).unwrap(),
            std::fs::read(wal).unwrap_or_default(),
        ]);
    }
    for bytes in files {
        for secret in [SECRET_A, "token-of-shop-a"] {
            let is_there = bytes
                .windows(secret.len())
                .any(|it| it == secret.as_bytes());
            assert!(!is_there, "a secret is in the database");
        }
    }
    // Another process with another key, and one with none: they go on without the connection, and claim nothing of its shop.
    for key in [Some(OTHER_KEY), None] {
        let other = crate::support::service().without_workers();
        let other = match key {
            Some(key) => other.setting("SECRETS_KEY", key),
            None => other,
        };
        let mut other = other.start_beside(&service).await;
        assert_eq!(status(&other, &order(1, A, SECRET_A)).await, 503);
        let by_settings = order_delivery("orders/create", &body(1, 1, "pending"));
        assert_eq!(status(&other, &by_settings.clone().of_shop(A)).await, 422);
        assert_eq!(status(&other, &by_settings).await, 200);
        other.halt().await;
    }
    // Both keys, the new one first: sealed anew, and then the new one alone is enough.
    let keys = [Token::new(OTHER_KEY), Token::new(KEY)];
    let both = Means {
        keys: &keys,
        cleartext: &[],
    };
    assert_eq!(
        flow::reseal(service.db(), by(&service), &both)
            .await
            .unwrap(),
        1
    );
    assert_eq!(
        flow::reseal(service.db(), by(&service), &both)
            .await
            .unwrap(),
        0
    );
    let row = connections::all(service.db()).await.unwrap().remove(0);
    let sealed = row.sealed.unwrap();
    assert_eq!(
        sealed.open(&keys[..1], "shop-a").unwrap().signing,
        [SECRET_A]
    );
    assert!(matches!(
        sealed.open(&keys[1..], "shop-a"),
        Err(Unreadable::OtherKey(_))
    ));
    assert_eq!(sealed.open(&keys[..1], "shop-b"), Err(Unreadable::Damaged));
    let mut alone = service_with(OTHER_KEY).start_beside(&service).await;
    assert_eq!(status(&alone, &order(2, A, SECRET_A)).await, 200);
    alone.halt().await;
    service.stop().await;
}

fn service_with(key: &str) -> crate::support::Options {
    service().without_workers().setting("SECRETS_KEY", key)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_adds_lists_shows_rotates_tests_and_removes() {
    let sandbox = Sandbox::start(sandbox::Options::default()).await.unwrap();
    let service = with_connections().start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (secret, other) = (
        file("secret", &format!("{SECRET_A}\n")),
        file("other", SECRET_B),
    );
    let (empty, lines) = (
        file("empty", "\n"),
        file("lines", "one secret\nand another\n"),
    );
    let (token, wrong) = (file("token", PAYMENT_KEY), file("wrong", "another-key"));
    let url = sandbox.payment_url();
    let shop = [
        "connections",
        "add",
        "shop-a",
        "--provider",
        "generic",
        "--shop",
        A,
        "--secret-file",
    ];
    let added = json(&service, &[&shop[..], &[secret.as_str()]].concat()).await;
    assert!(
        added["address"]
            .as_str()
            .unwrap()
            .ends_with("/api/webhooks/storefront/shop-a")
    );
    eventually("it is known", async || knows(&service, "shop-a")).await;
    assert_eq!(status(&service, &order(1, A, SECRET_A)).await, 200);
    let account = [
        "connections",
        "add",
        "pay",
        "--provider",
        "stripe",
        "--account",
        "acct_1",
        "--secret-file",
        &secret,
    ];
    said(
        &service,
        &[
            &account[..],
            &["--api-url", &url, "--api-token-file", &wrong],
        ]
        .concat(),
    )
    .await;
    let (code, why) = refused(&service, &["connections", "test", "pay"]).await;
    assert_eq!(code, 1);
    assert!(
        why.contains("does not accept its token: it answered 401"),
        "{why}"
    );
    said(
        &service,
        &[
            "connections",
            "rotate",
            "pay",
            "--api-url",
            &url,
            "--api-token-file",
            &token,
        ],
    )
    .await;
    said(&service, &["connections", "test", "pay"]).await;
    let add = |name: &'static str, more: &[&str]| {
        let first = [
            "connections",
            "add",
            name,
            "--provider",
            "generic",
            "--secret-file",
        ];
        let all = first.iter().chain(more).map(|it| (*it).to_owned());
        all.collect::<Vec<String>>()
    };
    for (arguments, why) in [
        (add("shop-a", &[&secret, "--shop", B]), "already"),
        (
            add("shop-c", &[&secret, "--shop", A]),
            "the shop a.example has the connection shop-a",
        ),
        (
            add("pay-2", &[&secret, "--account", "acct_1"]),
            "the account acct_1 has the connection pay",
        ),
        (add("Shop C", &[&secret, "--shop", B]), "lower-case letters"),
        (add("default", &[&secret, "--shop", B]), "the settings make"),
        (add("shop-c", &[&empty, "--shop", B]), "is empty"),
        (add("shop-c", &[&lines, "--shop", B]), "several lines"),
        (
            add("shop-c", &[&secret, "--shop", "no shop"]),
            "no shop domain",
        ),
        (
            add("shop-c", &[&secret, "--shop", B, "--payments", "shop-a"]),
            "with a payment provider",
        ),
        (
            add(
                "shop-c",
                &[
                    &secret,
                    "--shop",
                    B,
                    "--api-url",
                    "http://api.example",
                    "--api-token-file",
                    &token,
                ],
            ),
            "in clear",
        ),
        (add("shop-c", &["/nowhere", "--shop", B]), "cannot be read"),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (code, said) = refused(&service, &arguments).await;
        assert!(code > 0 && said.contains(why), "{arguments:?}: {said}");
        assert!(!said.contains(SECRET_A), "{said}");
    }
    said(
        &service,
        &["connections", "rotate", "shop-a", "--secret-file", &other],
    )
    .await;
    eventually("the new secret is known", async || {
        status(&service, &order(2, A, SECRET_B)).await == 200
    })
    .await;
    assert_eq!(status(&service, &order(3, A, SECRET_A)).await, 200);
    let shown = json(&service, &["connections", "show", "shop-a"]).await;
    assert_eq!(shown["shops"], serde_json::json!([A]));
    assert_eq!(shown["secrets"].as_array().unwrap().len(), 2);
    assert_eq!(shown["secrets"][0]["until"], Value::Null);
    assert!(shown["secrets"][1]["until"].is_string());
    for text in [
        said(&service, &["connections", "list"]).await,
        said(&service, &["connections", "show", "shop-a"]).await,
        said(&service, &["audit", "list", "--json"]).await,
        shown.to_string(),
    ] {
        assert!(
            !text.contains(SECRET_A) && !text.contains(SECRET_B) && !text.contains(PAYMENT_KEY),
            "{text}"
        );
    }
    said(&service, &["connections", "remove", "shop-a"]).await;
    let (code, _) = refused(&service, &["connections", "show", "shop-a"]).await;
    assert_eq!(code, 1);
    let audit = said(&service, &["audit", "list", "--json"]).await;
    for action in [
        "connection.added",
        "connection.rotated",
        "connection.removed",
    ] {
        assert!(audit.contains(action), "{action}");
    }
    assert!(ran(&service, &["audit", "verify"]).await.status.success());
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_erasure_of_a_shop_takes_its_secrets_along() {
    let service = service()
        .setting("SECRETS_KEY", KEY)
        .setting("PRIVACY_SHOP_REDACT_HOLD_SECONDS", "0")
        .start()
        .await;
    let mut of_two = storefront("both", A, SECRET_A);
    of_two.shops.push("c.example".to_owned());
    let only = storefront("shop-b", B, SECRET_B);
    add(&service, [of_two, only, payments("pay", SECRET_A)]).await;
    for (shop, secret) in [(A, SECRET_A), (B, SECRET_B)] {
        let body = serde_json::json!({"shop_id": 1, "shop_domain": shop});
        let erasure = order_delivery("shop/redact", &body)
            .of_shop(shop)
            .signed_with(secret);
        post_all(&service, &[erasure]).await;
    }
    eventually("both shops are erased", async || {
        service
            .count("select count(*) as n from privacy_requests where state = 'done'")
            .await
            == 2
    })
    .await;
    let all = connections::all(service.db()).await.unwrap();
    let of = |name: &str| all.iter().find(|it| it.name == name).unwrap();
    assert_eq!(of("both").shops, ["c.example"]);
    assert!(of("both").sealed.is_some() && of("both").removed_at.is_none());
    assert!(of("shop-b").sealed.is_none() && of("shop-b").removed_at.is_some());
    assert!(of("pay").sealed.is_some());
    assert_eq!(service.jobs(State::Dead).await, 0);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_with_the_scope_does_the_same_by_the_api() {
    let service = with_connections().start().await;
    let rights =
        |scopes: &[domain::api_key::Scope], shops: Option<Vec<String>>| domain::api_key::Rights {
            scopes: Some(scopes.to_vec()),
            shops: domain::api_key::Shops(shops),
        };
    let (reads, writes) = (
        domain::api_key::Scope::ConnectionsRead,
        domain::api_key::Scope::ConnectionsWrite,
    );
    let reader = service.api_key_for("reader", &rights(&[reads], None)).await;
    let writer = service
        .api_key_for("writer", &rights(&[reads, writes], None))
        .await;
    let of_a_shop = service
        .api_key_for("till", &rights(&[reads, writes], Some(vec![A.to_owned()])))
        .await;
    let asked = async |key: &str, method: &str, path: &str, body: Value| {
        let request = match method {
            "GET" => service.get(path),
            "DELETE" => service.delete(path),
            "PATCH" => service.patch(path).json(&body),
            _ => service.post_to(path).json(&body),
        };
        let answer = request.bearer_auth(key).send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        assert!(
            !text.contains(SECRET_A) && !text.contains(SECRET_B),
            "{text}"
        );
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    };
    let new = serde_json::json!({"name": "shop-a", "provider": "generic", "shops": [A], "secret": SECRET_A});
    let (all, one) = ("/api/connections", "/api/connections/shop-a");
    for key in [&reader, &of_a_shop] {
        assert_eq!(asked(key, "POST", all, new.clone()).await.0, 403);
    }
    let (status_of, added) = asked(&writer, "POST", all, new.clone()).await;
    assert_eq!(status_of, 201);
    assert_eq!(
        added["address"],
        format!("{}/api/webhooks/storefront/shop-a", service.url)
    );
    assert_eq!(asked(&writer, "POST", all, new.clone()).await.0, 409);
    let mut wrong = new.clone();
    (wrong["name"], wrong["provider"]) = ("shop-b".into(), "nobody".into());
    let (status_of, why) = asked(&writer, "POST", all, wrong).await;
    assert_eq!(status_of, 422);
    assert!(
        why["detail"].as_str().unwrap().contains("no provider"),
        "{why}"
    );
    eventually("it is known", async || knows(&service, "shop-a")).await;
    assert_eq!(status(&service, &order(1, A, SECRET_A)).await, 200);
    let branding = serde_json::json!({"display_name": "Shop A", "language": "fr", "rate": 20});
    assert_eq!(asked(&reader, "PATCH", one, branding.clone()).await.0, 403);
    let (status_of, changed) = asked(&writer, "PATCH", one, branding).await;
    assert_eq!((status_of, &changed["rate"]), (200, &serde_json::json!(20)));
    let shown = serde_json::json!({"display_name": "Shop A", "contact": null, "language": "fr", "logo": null});
    assert_eq!(changed["branding"], shown);
    for wrong in [
        serde_json::json!({"language": "it"}),
        serde_json::json!({"colour": "red"}),
    ] {
        assert_eq!(asked(&writer, "PATCH", one, wrong).await.0, 422);
    }
    let nothing = asked(&writer, "PATCH", one, serde_json::json!({"rate": null})).await;
    assert_eq!((nothing.0, &nothing.1["branding"]), (200, &shown));
    let nobody = "/api/connections/nobody";
    let rate = serde_json::json!({"rate": 0});
    assert_eq!(asked(&writer, "PATCH", nobody, rate).await.0, 404);
    let rotation = serde_json::json!({"secret": SECRET_B, "overlap_seconds": 0});
    let (status_of, rotated) =
        asked(&writer, "POST", "/api/connections/shop-a/rotate", rotation).await;
    assert_eq!(
        (status_of, rotated["secrets"].as_array().unwrap().len()),
        (200, 1)
    );
    eventually("the new secret alone is accepted", async || {
        status(&service, &order(2, A, SECRET_B)).await == 200
            && status(&service, &order(3, A, SECRET_A)).await == 401
    })
    .await;
    let pause = serde_json::json!({"seconds": 60});
    assert_eq!(
        asked(&writer, "POST", "/api/connections/shop-a/pause", pause)
            .await
            .1["state"],
        "paused"
    );
    let none = serde_json::json!({});
    assert_eq!(
        asked(
            &writer,
            "POST",
            "/api/connections/shop-a/resume",
            none.clone()
        )
        .await
        .1["state"],
        "ok"
    );
    let tested = asked(&writer, "POST", "/api/connections/shop-a/test", none).await;
    assert_eq!(
        (tested.0, tested.1["accepted"].clone()),
        (200, Value::Bool(false))
    );
    let listed = asked(&reader, "GET", all, Value::Null).await.1;
    assert_eq!(listed["connections"][0]["name"], "shop-a");
    assert_eq!(asked(&writer, "DELETE", one, Value::Null).await.0, 204);
    assert_eq!(asked(&reader, "GET", one, Value::Null).await.0, 404);
    service.stop().await;
}

/// Whoever reads while connections are added sees each with its shop, or not at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_never_seen_without_its_shop() {
    let service = with_connections().without_workers().start().await;
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::SeqCst;
    let write = async {
        for n in 0..150 {
            let (name, shop) = (format!("shop-{n}"), format!("s{n}.example"));
            let wanted = storefront(&name, &shop, SECRET_A);
            let added = flow::add(service.db(), by(&service), &means(&service), wanted).await;
            added.unwrap();
        }
        is_done.store(true, order);
    };
    let look = async || {
        while !is_done.load(order) {
            let all = connections::all(service.db()).await.unwrap();
            let bare: Vec<_> = all.iter().filter(|it| it.shops.is_empty()).collect();
            assert!(bare.is_empty(), "{bare:?}");
        }
    };
    tokio::join!(write, look(), look());
    assert_eq!(connections::all(service.db()).await.unwrap().len(), 150);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_has_the_connections_and_only_the_same_key_reads_them() {
    let service = with_connections().start().await;
    add(&service, [storefront("shop-a", A, SECRET_A)]).await;
    let backup = service.backend.back_up().await;
    service.stop().await;
    for (key, expected) in [(KEY, 200), (OTHER_KEY, 503)] {
        let backend = Arc::new(Backend::restored(&backup).await);
        let service = service_with(key).start_on(backend).await;
        eventually("it is known", async || knows(&service, "shop-a")).await;
        assert_eq!(status(&service, &order(1, A, SECRET_A)).await, expected);
        service.stop().await;
    }
}
