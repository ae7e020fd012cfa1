//! What the provider is subscribed to post is looked at, said, and made again.

use std::process::Output;
use std::time::Duration;

use domain::attention::Condition;
use domain::connection::STOREFRONT_PATH;
use operators::attention::look;
use platform::clock::Clock;
use sandbox::{Fault, PAYMENT_KEY, STOREFRONT_TOKEN, Sandbox, Subscriptions, WOOCOMMERCE_TOKEN};
use serde_json::Value;

use super::{RUN, World, comparing, rounds, sandbox_at};
use crate::both::connections::{self, add, storefront, with_connections};
use crate::support::delivery::SHOP;
use crate::support::operator::{self, parsed, waybill};
use crate::support::process::run;
use crate::support::{START, Service, service};

const URL: &str = "https://waybill.example";
const DAY: Duration = Duration::from_hours(24);
const ORDERS: [&str; 6] = [
    "orders/cancelled",
    "orders/create",
    "orders/delete",
    "orders/fulfilled",
    "orders/paid",
    "orders/updated",
];

async fn world() -> World {
    let clock = Clock::manual(START);
    let sandbox = sandbox_at(&clock).await;
    let options = comparing(service().clock(&clock), &sandbox).setting("PUBLIC_URL", URL);
    World::of(options.start().await, sandbox).await
}

/// `waybill connect`, with the settings of a service that the providers reach.
async fn connect(service: &Service, sandbox: &Sandbox, arguments: &[&str]) -> Output {
    let mut command = waybill(service, &["connect"]);
    command.args(arguments);
    for (name, value) in [
        ("PUBLIC_URL", URL),
        ("STOREFRONT_API_URL", &sandbox.storefront_url()),
        ("STOREFRONT_API_TOKEN", STOREFRONT_TOKEN),
        ("STOREFRONT_SHOPS", SHOP),
        ("PAYMENT_API_URL", &sandbox.payment_url()),
        ("PAYMENT_API_KEY", PAYMENT_KEY),
    ] {
        command.env(name, value);
    }
    run(command).await
}

fn topics(subscriptions: &Subscriptions) -> Vec<String> {
    let mut topics: Vec<String> = subscriptions
        .list()
        .into_iter()
        .flat_map(|it| it.topics)
        .collect();
    topics.sort();
    topics
}

async fn is_said(world: &World) -> bool {
    let (db, config) = (world.service.db(), &world.service.parts.config);
    let found = look(db, config, &[], world.now()).await.unwrap();
    found
        .iter()
        .any(|it| it.condition == Condition::SubscriptionsWrong)
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_that_a_provider_took_away_are_said_and_made_again() {
    let mut world = world().await;
    let subscriptions = world.sandbox.storefront().subscriptions.clone();
    let here = format!("{URL}{STOREFRONT_PATH}");
    for topic in ORDERS {
        subscriptions.add(&here, &[topic]);
    }
    world.pass(DAY);
    world.run_later().await;
    let row = world.row("storefront").await;
    assert!(
        row.subscriptions_seen_at.is_some() && row.subscriptions_error.is_none(),
        "{row:?}"
    );
    let requests = || world.sandbox.storefront().fault_injector.requests();
    let before = requests();
    world.service.clock().advance(RUN);
    rounds(&world.service, &mut world.reconciler).await;
    assert_eq!(
        world.sandbox.storefront().fault_injector.requests(),
        before + 1,
        "it is not looked at each time"
    );
    subscriptions.clear();
    world.pass(DAY);
    world.run_later().await;
    let row = world.row("storefront").await;
    let wrong = row.subscriptions_error.unwrap();
    assert!(
        wrong.starts_with("nothing is subscribed to orders/cancelled, orders/create"),
        "{wrong}"
    );
    assert!(is_said(&world).await);
    let said = connect(&world.service, &world.sandbox, &["generic", "--no-wait"]).await;
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(
        said.contains("nothing is subscribed to") && said.contains("--repair"),
        "{said}"
    );
    // Nobody is there to say yes.
    let asked = connect(&world.service, &world.sandbox, &["generic", "--repair"]).await;
    assert_eq!(asked.status.code(), Some(2), "{asked:?}");
    assert!(topics(&subscriptions).is_empty());
    let repair = ["generic", "--repair", "--yes", "--json"];
    let repaired = connect(&world.service, &world.sandbox, &repair).await;
    assert!(repaired.status.success(), "{repaired:?}");
    assert_eq!(parsed(&repaired)[0]["wrong"], Value::Array(Vec::new()));
    assert_eq!(topics(&subscriptions), ORDERS);
    assert!(
        subscriptions
            .list()
            .iter()
            .all(|it| it.url == here && it.is_active)
    );
    let audit = operator::items(&world.service, &["audit", "list"])
        .await
        .to_string();
    assert!(audit.contains("subscriptions.repaired"), "{audit}");
    // Nothing is left to be mended.
    let again = connect(&world.service, &world.sandbox, &["generic", "--repair"]).await;
    assert!(again.status.success(), "{again:?}");
    world.pass(Duration::from_hours(1));
    world.run_later().await;
    assert_eq!(world.row("storefront").await.subscriptions_error, None);
    assert!(!is_said(&world).await);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_api_does_not_list_alarms_nobody() {
    let mut world = world().await;
    // It lists nothing of ours, and never did.
    let others = world.sandbox.storefront().subscriptions.clone();
    others.add("https://mail.example/hook", &["orders/paid"]);
    world.pass(DAY);
    world.run_later().await;
    assert_eq!(world.row("storefront").await.subscriptions_error, None);
    // The token has no right to see them.
    let here = format!("{URL}{STOREFRONT_PATH}");
    others.add(&here, &["orders/paid"]);
    let faults = &world.sandbox.storefront().fault_injector;
    faults.fail_next(1, Fault::Slow(Duration::ZERO));
    faults.fail_next(1, Fault::Status(403));
    world.pass(DAY);
    world.run_later().await;
    let row = world.row("storefront").await;
    assert_eq!((row.subscriptions_error, row.failing_since), (None, None));
    assert!(!is_said(&world).await);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_of_woocommerce_is_switched_on_again_and_a_new_one_needs_the_secret() {
    const SECRET: &str = "the secret of its webhooks";
    let clock = Clock::manual(START);
    let sandbox = sandbox_at(&clock).await;
    let service = with_connections().clock(&clock).setting("PUBLIC_URL", URL);
    let service = service.start().await;
    let mut wanted = storefront("woo", "shop.example", SECRET);
    wanted.provider = "woocommerce".to_owned();
    wanted.api = Some(connections::api(
        sandbox.storefront_url(),
        WOOCOMMERCE_TOKEN,
    ));
    add(&service, [wanted]).await;
    let subscriptions = sandbox.storefront().subscriptions.clone();
    let here = format!("{URL}{STOREFRONT_PATH}/woo");
    let off = subscriptions.add(&here, &["order.updated"]);
    subscriptions.change(off, |it| {
        it.is_active = false;
        it.secret = Some(SECRET.to_owned());
    });
    subscriptions.add(&here.replace("waybill", "former"), &["order.created"]);
    subscriptions.add(&here, &["order.restored"]);
    let repair = ["woocommerce", "--repair", "--yes"];
    let repaired = connect(&service, &sandbox, &repair).await;
    let (out, err) = (
        String::from_utf8_lossy(&repaired.stdout),
        String::from_utf8_lossy(&repaired.stderr),
    );
    assert_eq!(repaired.status.code(), Some(1), "{out} {err}");
    assert!(
        out.contains("nothing is subscribed to order.deleted") && err.contains("--secret-file"),
        "{out} {err}"
    );
    let all = subscriptions.list();
    // What posts elsewhere may be somebody's, and stays.
    assert!(all.len() == 3 && all[1].url.contains("former"), "{all:?}");
    assert!(all[0].is_active && all[0].url == here, "{all:?}");
    assert_eq!(all[0].secret.as_deref(), Some(SECRET), "its secret stays");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    let path = file.to_str().unwrap();
    let with_file = ["woocommerce", "--repair", "--yes", "--secret-file", path];
    std::fs::write(&file, "another secret\n").unwrap();
    let wrong = connect(&service, &sandbox, &with_file).await;
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert_eq!(subscriptions.list().len(), 3);
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    let made = connect(&service, &sandbox, &with_file).await;
    assert!(made.status.success(), "{made:?}");
    let all = subscriptions.list();
    assert_eq!(all.len(), 5);
    for (new, topic) in all[3..].iter().zip(["order.created", "order.deleted"]) {
        assert_eq!(
            (new.topics[0].as_str(), new.secret.as_deref(), &new.url),
            (topic, Some(SECRET), &here)
        );
    }
    service.stop().await;
    sandbox.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_of_a_payment_provider_gets_what_it_lacks_and_none_is_made() {
    let world = world().await;
    let subscriptions = world.sandbox.payment().subscriptions.clone();
    let repair = ["generic", "--payment", "--repair", "--yes"];
    // A new one would have a secret that nobody here knows.
    let by_hand = connect(&world.service, &world.sandbox, &repair).await;
    let err = String::from_utf8_lossy(&by_hand.stderr);
    assert_eq!(by_hand.status.code(), Some(1));
    assert!(
        err.contains("has a secret of its own") && err.contains("PAYMENT_WEBHOOK_SECRET"),
        "{err}"
    );
    assert!(subscriptions.list().is_empty());
    let here = format!("{URL}/api/webhooks/payment");
    let some = subscriptions.add(
        &here,
        &[
            "payment_intent.succeeded",
            "radar.early_fraud_warning.created",
        ],
    );
    subscriptions.change(some, |it| it.is_active = false);
    let more = connect(&world.service, &world.sandbox, &repair).await;
    assert!(more.status.success(), "{more:?}");
    assert!(subscriptions.list()[0].is_active);
    let topics = topics(&subscriptions);
    for name in [
        "payment_intent.succeeded",
        "charge.refunded",
        "radar.early_fraud_warning.created",
    ] {
        assert!(topics.iter().any(|it| it == name), "{name}: {topics:?}");
    }
    world.stop().await;
}
