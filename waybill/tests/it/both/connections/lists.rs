//! What operators see of each connection: its jobs, dead jobs and refusals, its silence, and what doctor says of it.

use std::time::Duration;

use domain::attention::{Condition, State};
use domain::job::{Queue, Source};
use operators::attention::look;
use operators::connections::{Wanted, remove};
use sandbox::{PAYMENT_KEY, Sandbox};
use serde_json::Value;
use store::attention;

use super::{A, B, KEY, SECRET_A, SECRET_B, add, api, by, payments, storefront, with_connections};
use crate::both::operations::doctor::{doctor, says};
use crate::support::delivery::Delivery;
use crate::support::operator::{items, json, said};
use crate::support::order::{body, order_delivery};
use crate::support::process::run;
use crate::support::{eventually, job};

const HOUR: Duration = Duration::from_hours(1);

fn order(id: i64) -> Delivery {
    order_delivery("orders/create", &body(id, 1, "pending"))
        .header("X-Storefront-Webhook-Id", format!("delivery {id}"))
}

/// The objects of the rows of a list, in the sequence of their numbers.
fn objects(list: &Value) -> Vec<String> {
    let rows = list.as_array().unwrap().iter();
    let mut ids: Vec<String> = rows
        .map(|row| row["object_id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_dead_jobs_and_refusals_are_listed_by_connection() {
    let service = with_connections().without_workers().start().await;
    let shops = [
        storefront("shop-a", A, SECRET_A),
        storefront("shop-b", B, SECRET_B),
    ];
    add(&service, shops).await;
    for delivery in [
        order(1).of_shop(A).signed_with(SECRET_A),
        order(2).of_shop(A).signed_with(SECRET_A),
        order(3).of_shop(B).signed_with(SECRET_B),
        order(4).of_shop("c.example"),
    ] {
        assert_eq!(service.answer(&delivery).await.0, 200);
    }
    let at_a = order(5).of_shop(A).signed_with(SECRET_B);
    let at_a = at_a.at("/api/webhooks/storefront/shop-a");
    assert_eq!(service.answer(&at_a).await.0, 401);
    let strange = order(6).of_shop("c.example").signed_with(SECRET_B);
    assert_eq!(service.answer(&strange).await.0, 401);
    let metrics = service.get("/metrics").send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    for counted in [
        r#"connection="shop-a",outcome="accepted"} 2"#,
        r#"connection="shop-a",outcome="refused"} 1"#,
        r#"connection="shop-b",outcome="accepted"} 1"#,
        r#"connection="default",outcome="accepted"} 1"#,
    ] {
        assert!(metrics.contains(counted), "{counted} in\n{metrics}");
    }
    for (name, expected) in [
        ("shop-a", &["1", "2"][..]),
        ("shop-b", &["3"]),
        ("default", &["4"]),
        ("nobody", &[]),
    ] {
        let listed = items(&service, &["jobs", "list", "--connection", name]).await;
        assert_eq!(objects(&listed), expected, "{name}");
        let about = ["jobs", "list", "--object", "3", "--connection", name];
        let found = items(&service, &about).await.as_array().unwrap().len();
        assert_eq!(found, usize::from(name == "shop-b"), "{name}");
    }
    service
        .execute("update jobs set state = 'dead', finished_at = created_at, last_error = 'boom'")
        .await;
    let dead = async |name: &str| {
        let listed = items(&service, &["dead", "list", "--connection", name]).await;
        let groups = json(&service, &["dead", "summary", "--connection", name]).await;
        let counted = groups[0]["jobs"].as_u64().unwrap_or_default();
        let listed = objects(&listed);
        assert_eq!(counted, listed.len() as u64);
        listed
    };
    assert_eq!(dead("shop-a").await, ["1", "2"]);
    assert_eq!(dead("default").await, ["4"]);
    let given_up = ["dead", "discard", "--connection", "shop-a", "--yes"];
    said(&service, &given_up).await;
    assert!(dead("shop-a").await.is_empty());
    assert_eq!(dead("shop-b").await, ["3"]);
    let mut refused = Vec::new();
    for (name, of) in [("shop-a", "shop-a"), ("default", ""), ("shop-b", "none")] {
        let list = ["refused", "list", "--since", "10000d", "--connection", name];
        eventually("what was refused is written", async || {
            let listed = items(&service, &list).await;
            let listed = listed.as_array().unwrap();
            listed.iter().all(|it| it["connection"] == of) && (of == "none" || listed.len() == 1)
        })
        .await;
        refused.push(items(&service, &list).await.as_array().unwrap().len());
    }
    assert_eq!(refused, [1, 1, 0]);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_falls_silent_is_noticed_alone() {
    let service = with_connections()
        .without_workers()
        .manual_clock()
        .start()
        .await;
    let shops = [
        storefront("shop-a", A, SECRET_A),
        storefront("shop-b", B, SECRET_B),
        storefront("shop-c", "c.example", "another signing secret"),
    ];
    add(&service, shops).await;
    let now = service.clock().now();
    let mut jobs = Vec::new();
    for ago in [24, 7 * 24] {
        // What came by the one of the settings may be what comes by these now, and shop-c never had much.
        for (name, number) in [
            (None, 40),
            (Some("shop-a"), 40),
            (Some("shop-b"), 40),
            (Some("shop-c"), 5),
        ] {
            for n in 0..number {
                let at = now.minus(ago * HOUR + Duration::from_secs(60 + n));
                let id = service.clock().id_at(at);
                let mut job =
                    job::ready(id, Queue::Orders, Source::Storefront, "orders/create", at);
                job.connection = name.map(str::to_owned);
                jobs.push(job);
            }
        }
    }
    job::insert(service.db(), &jobs).await;
    let of_b = order(1).of_shop(B).signed_with(SECRET_B);
    assert_eq!(service.answer(&of_b).await.0, 200);
    let config = &service.parts.config;
    let silent = async |known: &[attention::Attention]| {
        let found = look(service.db(), config, known, service.clock().now()).await;
        let found = found.unwrap().into_iter();
        let silent = found.filter(|it| it.condition == Condition::NothingCame);
        silent.map(|it| (it.about, it.details)).collect::<Vec<_>>()
    };
    let of_a = |details: &str| vec![("storefront shop-a".to_owned(), details.to_owned())];
    assert_eq!(silent(&[]).await, of_a("none in 1 hours"));
    // It stays so, whatever the hours before were like, until something comes.
    let begun = attention::Attention {
        condition: Condition::NothingCame,
        about: "storefront shop-a".to_owned(),
        state: State::Begun,
        since: now,
        seen_at: now,
        is_notified: true,
        acknowledged_by: None,
    };
    service.clock().advance(5 * HOUR);
    assert_eq!(
        silent(std::slice::from_ref(&begun)).await,
        of_a("none in 6 hours")
    );
    remove(service.db(), by(&service), "shop-a").await.unwrap();
    assert!(silent(&[begun]).await.is_empty());
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_says_which_secrets_cannot_be_read_and_which_tokens_are_refused() {
    let sandbox = Sandbox::start(sandbox::Options::default()).await.unwrap();
    let service = with_connections().start().await;
    let checked = async |key: &str| {
        let command = doctor(&service, &[("SECRETS_KEY", key)]);
        run(command).await
    };
    says(&checked(KEY).await, "connections", "ok", "none beside");
    let with_api = |name: &str, token: &str| Wanted {
        api: Some(api(sandbox.payment_url(), token)),
        ..payments(name, SECRET_B)
    };
    let shop = storefront("shop-a", A, SECRET_A);
    add(&service, [shop, with_api("stripe-b", PAYMENT_KEY)]).await;
    let said = "2 with secrets that can be read; 1 of their APIs were asked and accept the token";
    says(&checked(KEY).await, "connections", "ok", said);
    add(&service, [with_api("stripe-c", "another-key")]).await;
    let said = "the API of stripe-c does not accept its token: it answered 401";
    says(&checked(KEY).await, "connections", "failed", said);
    let other = checked("another key than that of the service but long enough").await;
    says(
        &other,
        "connections",
        "failed",
        "shop-a: its secrets are encrypted with the key",
    );
    says(&other, "connections", "failed", "stripe-b: its secrets");
    service.stop().await;
}
