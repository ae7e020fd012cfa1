//! An installation in which every page of the console has something to show, with the sandbox's data.

use std::time::Duration;

use domain::api_key::Role;
use domain::attention::{Condition, State};
use domain::license::Tier;
use domain::pause::{Provider, Target};
use operators::endpoints::WantedEndpoint;
use operators::licenses::{self, To, Wanted, When};
use operators::{operations, pauses};
use sandbox::sample;
use serde_json::json;
use store::audit::By;
use store::jobs::ended::Filter;
use store::jobs::operate::Action;
use store::{api_keys, attention};
use uuid::Uuid;

use crate::support::browser::Browser;
use crate::support::console::{Console, role};
use crate::support::delivery::{order, storefront};
use crate::support::order::{body, captured, deliver, order_delivery, with};
use crate::support::payment::{event, invoice};
use crate::support::requests::request;
use crate::support::{Service, eventually};

/// The order whose timeline has most.
pub const ORDER: &str = "6000000000000700";

/// Serves the console, and signs the browser in with a link.
pub async fn open(service: &mut Service, browser: &mut Browser, name: &str) -> Console {
    let mut tx = service.db().begin().await.unwrap();
    let rights = role(Role::Owner);
    let made = api_keys::create(
        &mut tx,
        service.clock(),
        service.clock().id(),
        name,
        None,
        &rights,
    );
    let made = made.await.unwrap();
    tx.commit().await.unwrap();
    let listening = service.listening_console().await.unwrap();
    let link = listening.link(made.id);
    let console = service.serve_console(listening);
    let seen = browser.visit(&link, 1280, "light");
    assert!(
        seen.title.starts_with("Needs me now"),
        "{}: {}",
        seen.title,
        seen.text
    );
    console
}

fn operator(service: &Service) -> By<'_> {
    By {
        keys: &service.parts.keys,
        actor: "operator:ann",
        now: service.clock().now(),
    }
}

/// The id of the job of a delivery.
pub async fn job(service: &Service, delivery: &str) -> Uuid {
    let row = service
        .db()
        .query("select id from deliveries where external_id = $1")
        .bind(delivery);
    row.fetch_one().await.unwrap().get("id").unwrap()
}

/// The id of the one row of a table.
pub async fn one(service: &Service, sql: &'static str) -> Uuid {
    let row = service.db().query(sql).fetch_one().await.unwrap();
    row.get("id").unwrap()
}

/// Orders, dead and failing jobs, a refusal, an endpoint, a privacy request and an operation.
pub async fn make(service: &Service) {
    for seed in 1..=9 {
        let delivery = order("orders/create", seed).of_shop(sample::shop());
        deliver(service, &delivery.id(&format!("s-{seed}"))).await;
    }
    let attributes = json!({
        "note_attributes": [{"name": "pact_id", "value": "pact-7"}], "name": "#2007",
    });
    let made = with(body(6_000_000_000_000_700, 0, "pending"), &attributes);
    let paid = with(
        made.clone(),
        &json!({"financial_status": "paid", "updated_at": "2027-01-15T07:00:09Z"}),
    );
    deliver(service, &order_delivery("orders/create", &made).id("w-1")).await;
    deliver(service, &order_delivery("orders/paid", &paid).id("w-2")).await;
    deliver(service, &captured(service.clock().now(), 7, "pact-7")).await;
    let paid = invoice("in_7", "sub_7", 500, 30);
    deliver(
        service,
        &event(service, "invoice.payment_succeeded", 2, &paid),
    )
    .await;
    deliver(service, &request("customers/data_request", 1)).await;
    service
        .execute(
            "update jobs set state = 'dead', attempts = 12, finished_at = created_at + 5,
                    last_error = 'COMMERCE_003: the storefront provider answered 503'
             where id in (select id from deliveries where external_id in ('s-1', 's-2', 's-3'))",
        )
        .await;
    let now = service.clock().now();
    let mut tx = service.db().begin().await.unwrap();
    tx.query(
        "update jobs set state = 'ready', attempts = 2, run_at = $1, finished_at = null, notified_at = null,
                last_error = 'the answer was 502'
         where id in (select id from deliveries where external_id = 's-4')",
    )
    .bind(now.0 + 3_600_000)
    .execute()
    .await
    .unwrap();
    for (number, error, status) in [
        (1, "the answer was 500", 500),
        (2, "the answer was 502", 502),
    ] {
        tx.query(
            "insert into job_attempts (job_id, number, started_at, duration_ms, outcome, error, status)
             select id, $1, created_at + $1, 31, 'retried', $2, $3
             from deliveries where external_id in ('s-4', 'w-2')",
        )
        .bind(i64::from(number))
        .bind(error)
        .bind(i64::from(status))
        .execute()
        .await
        .unwrap();
    }
    for (condition, about) in [
        (Condition::JobsDead, "orders/create"),
        (Condition::NothingCame, "storefront another-shop.example"),
    ] {
        let begun = attention::insert(&mut tx, condition, about, State::Begun, now);
        assert!(begun.await.unwrap());
    }
    tx.commit().await.unwrap();
    let forged = storefront("orders/create", "{}").header(
        "X-Storefront-Hmac-Sha256",
        "bm90IHRoZSBzaWduYXR1cmUgb2YgdGhpcyBib2R5IGE=",
    );
    assert_eq!(service.answer(&forged).await.0, 401);
    eventually("the refusal is written", async || {
        let rows = "select count(*) as n from refused_deliveries";
        service.count(rows).await == 1
    })
    .await;
    let new = WantedEndpoint {
        id: service.clock().id(),
        url: "https://shop.example/hooks",
        types: Vec::new(),
        since: None,
    };
    let (db, clock) = (service.db(), service.clock());
    let allowed = &service.parts.config.endpoints;
    let added = operators::endpoints::add(db, operator(service), clock, allowed, new).await;
    added.unwrap();
    let filter = Filter {
        kind: "orders/cancelled".to_owned(),
        ..Filter::default()
    };
    let id = clock.id();
    let by = operator(service);
    let now = by.now;
    let confirmed = operations::confirm(db, by, id, Action::Requeue, &filter, now, 50);
    assert!(confirmed.await.unwrap());
    let mail = Target::Provider(Provider::Mail);
    let until = now.plus(Duration::from_hours(1));
    assert!(
        pauses::begin(db, by, clock.id(), mail, until)
            .await
            .unwrap()
    );
    let user = "id:77".parse().unwrap();
    let wanted = Wanted {
        provider: None,
        to: To::User(&user),
        tier: Tier::Pro,
        expires_at: None,
        subscription: None,
        item: None,
    };
    let grace = Duration::ZERO;
    let granted = licenses::grant(db, by, clock, &wanted, When { now, grace }).await;
    assert!(granted.is_ok());
}

/// Every page that has something to show.
pub async fn pages(service: &Service) -> Vec<String> {
    let mut pages: Vec<String> = crate::support::console::LISTS.map(str::to_owned).into();
    let dead = job(service, "s-1").await;
    let endpoint = one(service, "select id from endpoints").await;
    let privacy = one(service, "select id from privacy_requests").await;
    let operation = one(service, "select id from bulk_operations").await;
    let pause = one(service, "select id from pauses").await;
    let licence = one(service, "select id from licenses").await;
    let key = one(service, "select id from api_keys").await;
    pages.extend([
        format!("/orders/{ORDER}"),
        "/payments/pi_7".to_owned(),
        "/subscriptions/sub_7".to_owned(),
        "/customers/77?shop=shop.example".to_owned(),
        format!("/jobs/{dead}"),
        "/pauses/begin".to_owned(),
        format!("/pauses/{pause}"),
        "/licenses/grant".to_owned(),
        format!("/licenses/{licence}"),
        format!("/licenses/{licence}/revoke"),
        "/keys/create".to_owned(),
        format!("/keys/{key}"),
        format!("/keys/{key}/revoke"),
        format!("/privacy/{privacy}/decide"),
        "/dead/all/requeue".to_owned(),
        "/dead/all/discard".to_owned(),
        "/dead?kind=nothing".to_owned(),
        format!("/operations/{operation}"),
        "/privacy?all=yes".to_owned(),
        "/privacy/request".to_owned(),
        "/connections/add".to_owned(),
        format!("/privacy/{privacy}"),
        "/endpoints/add".to_owned(),
        format!("/endpoints/{endpoint}"),
        format!("/endpoints/{endpoint}/remove"),
        "/search?q=nothing-has-this".to_owned(),
        "/orders/404".to_owned(),
    ]);
    pages
}
