//! Whatever but the database is away, at the start or later: deliveries are taken and worked on, what needs it waits and
//! says why, and all of it is done once it is back. docs/reliability.md has the table. Of the database, the broker and the
//! journal see `outages.rs` and `privacy/journal.rs` too.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::job::State;
use sandbox::{PAYMENT_KEY, STOREFRONT_TOKEN, Sandbox};
use serde_json::{Value, json};

use crate::both::api::endpoints::add;
use crate::both::orders::providers::{cancel_with_payment, given_back, made, sandbox};
use crate::support::backend::Backend;
use crate::support::delivery::{Delivery, SHOP, storefront};
use crate::support::endpoint::StandIn;
use crate::support::login::{read, with_identity};
use crate::support::object_store::{Bucket, Fault};
use crate::support::order::{body, order_delivery, post_all};
use crate::support::payment::{declined, event};
use crate::support::process::{Process, command, free_port, run, settings};
use crate::support::proxy::{self, Proxy};
use crate::support::smtp::SmtpServer;
use crate::support::{Options, Service, eventually, pause, service};

/// What can be away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thing {
    Storefront,
    Payment,
    Mail,
    Identity,
    Endpoint,
    Exports,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    TheStart,
    Later,
}

/// A service and everything that it depends on but its database, each behind a proxy.
struct World {
    service: Service,
    sandbox: Sandbox,
    mails: SmtpServer,
    own: StandIn,
    bucket: Bucket,
    proxies: Vec<(Thing, Proxy)>,
}

impl World {
    async fn begin(thing: Thing, from: From) -> Self {
        let sandbox = sandbox().await;
        let (mails, own) = (SmtpServer::start().await, StandIn::start(200).await);
        let bucket = Bucket::start().await;
        let mut proxies = Vec::new();
        for (thing, url) in [
            (Thing::Storefront, sandbox.storefront_url()),
            (Thing::Payment, sandbox.payment_url()),
            (Thing::Mail, mails.url()),
            (Thing::Identity, sandbox.identity_api_url()),
            (Thing::Endpoint, own.url.clone()),
        ] {
            proxies.push((thing, Proxy::to(&url).await));
        }
        let url = |thing: Thing| {
            let found = proxies.iter().find(|(it, _)| *it == thing);
            found.unwrap().1.url.clone()
        };
        let options: Options = bucket
            .settings()
            .into_iter()
            .fold(
                with_identity(service(), &sandbox),
                |options, (name, value)| options.setting(name, &value),
            )
            .setting("STOREFRONT_API_URL", &url(Thing::Storefront))
            .setting("STOREFRONT_API_TOKEN", STOREFRONT_TOKEN)
            .setting("PAYMENT_API_URL", &url(Thing::Payment))
            .setting("PAYMENT_API_KEY", PAYMENT_KEY)
            .setting("GITHUB_TOKEN_CHECKSUMS", "false")
            .setting("GITHUB_API_URL", &url(Thing::Identity))
            .setting("SMTP_URL", &url(Thing::Mail))
            .setting("MAIL_FROM", "Shop <orders@shop.example>")
            .setting("ENDPOINT_NETWORKS", "127.0.0.0/8")
            .manual_clock();
        let away = |is_away: bool| match thing {
            Thing::Exports => bucket.fails(is_away.then_some(Fault::Status(503))),
            thing => {
                let (_, proxy) = proxies.iter().find(|(it, _)| *it == thing).unwrap();
                if is_away {
                    proxy.kill();
                } else {
                    proxy.restore();
                }
            }
        };
        if from == From::TheStart {
            away(true);
        }
        let service = options.start().await;
        if from == From::Later {
            let first = order_delivery("orders/paid", &body(9, 1, "paid"));
            post_all(&service, &[first]).await;
            service.settled().await;
            away(true);
        }
        World {
            service,
            sandbox,
            mails,
            own,
            bucket,
            proxies,
        }
    }

    fn is_back(&self) {
        self.bucket.fails(None);
        self.proxies.iter().for_each(|(_, proxy)| proxy.restore());
    }

    /// The kinds of the jobs that are ready, and whether each says why it waits.
    async fn waiting(&self) -> BTreeSet<(String, bool)> {
        let ready =
            "select kind, last_error from jobs where state = 'ready' and kind <> 'payments/retry'";
        let rows = self.service.db().query(ready).fetch_all().await.unwrap();
        let read = |row: &store::sql::Row| {
            let error: Option<String> = row.get("last_error").unwrap();
            (row.get("kind").unwrap(), error.is_some())
        };
        rows.iter().map(read).collect()
    }

    async fn readiness(&self) -> (u16, Value) {
        let answer = self.service.get("/readyz").send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }
}

fn data_request() -> Delivery {
    let body = json!({
        "shop_id": 1, "shop_domain": SHOP, "orders_requested": [], "data_request": {"id": 3},
        // Nobody else has their address, so nobody is to decide whom it means.
        "customer": {"id": 501, "email": "visitor@example.com", "phone": null},
    });
    storefront("customers/data_request", body.to_string())
}

/// Lets time pass until this is so, not so fast that calls which are under way lose their claims.
async fn passes(world: &World, is_so: impl AsyncFn() -> bool) {
    for _ in 0..3000 {
        if is_so().await {
            return;
        }
        pause(Duration::from_millis(20)).await;
        world.service.clock().advance(Duration::from_millis(100));
    }
    let ready =
        "select kind || ': ' || coalesce(last_error, '') as line from jobs where state = 'ready'";
    let rows = world.service.db().query(ready).fetch_all().await.unwrap();
    let lines: Vec<String> = rows.iter().map(|row| row.get("line").unwrap()).collect();
    panic!("it never is so; these wait: {lines:#?}");
}

/// A delivery of each sort is taken, each needs something else, and only what needs this thing waits.
async fn waits(thing: Thing, from: From, kinds: &[&str]) {
    let world = World::begin(thing, from).await;
    let service = &world.service;
    let is_unknown = thing == Thing::Exports && from == From::TheStart;
    if thing != Thing::Exports {
        let (_, proxy) = world
            .proxies
            .iter()
            .find(|(it, _)| *it == Thing::Endpoint)
            .unwrap();
        add(service, &proxy.url).await;
    }
    let (status, ready) = world.readiness().await;
    assert_eq!(status, 200, "{ready}");
    let says = if is_unknown { "unknown" } else { "current" };
    assert_eq!(ready["erasures"], says, "{ready}");

    let failed = declined("pi_3", 3000, 1, "lost_card");
    let mut with_mail = failed.clone();
    with_mail["receipt_email"] = json!("canary@example.com");
    let paid = order_delivery("orders/paid", &body(1, 1, "paid")).id("d-1");
    let failed = event(service, "payment_intent.payment_failed", 1, &with_mail);
    post_all(service, &[paid.clone(), failed, data_request()]).await;
    cancel_with_payment(service, &world.sandbox, 2).await;
    assert_eq!(service.answer(&paid).await.0, 409, "it is remembered");

    let expected: BTreeSet<&str> = kinds.iter().copied().collect();
    passes(&world, async || {
        let waiting = world.waiting().await;
        let kinds: BTreeSet<&str> = waiting.iter().map(|(kind, _)| kind.as_str()).collect();
        let says_why = |kind: &&str| waiting.contains(&((*kind).to_owned(), true));
        kinds == expected && (is_unknown || kinds.iter().all(says_why))
    })
    .await;
    let page = service.get("/orders/1/track").send().await.unwrap();
    assert_eq!(page.status().as_u16(), if is_unknown { 503 } else { 200 });
    let token = service.get("/auth/validate").bearer_auth("gho_canary");
    let token = read(token.send().await.unwrap()).await;
    match (thing, from) {
        (Thing::Identity, _) => {
            assert_eq!(token.status, 503, "{token:?}");
            assert!(token.retry_after.is_some(), "{token:?}");
        }
        _ if is_unknown => assert_eq!(token.status, 503, "{token:?}"),
        _ => assert_eq!(token.status, 401, "{token:?}"),
    }

    world.is_back();
    passes(&world, async || service.awaited().await == 0).await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    let orders = if from == From::Later {
        vec![1, 9]
    } else {
        vec![1]
    };
    assert_eq!(world.sandbox.storefront().created(), made(orders));
    assert_eq!(world.sandbox.payment().refunds(), given_back([2]));
    assert_eq!(world.mails.received().len(), 1);
    if thing == Thing::Endpoint {
        passes(&world, async || world.own.accepted().len() > 3).await;
    }
    assert_eq!(world.readiness().await.1["status"], "ready");
    world.service.stop().await;
}

macro_rules! away {
    ($($name:ident: $thing:ident, $from:ident, $kinds:expr;)*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            waits(Thing::$thing, From::$from, &$kinds).await;
        })*
    };
}

/// The jobs of everything that is delivered here.
const ALL: [&str; 5] = [
    "customers/data_request",
    "orders/cancelled",
    "orders/paid",
    "payment_intent.payment_failed",
    "payment_intent.succeeded",
];

away! {
    the_storefronts_api_is_away_at_the_start: Storefront, TheStart, ["fulfillments/request"];
    the_storefronts_api_is_away_later: Storefront, Later, ["fulfillments/request"];
    the_payment_providers_api_is_away_at_the_start: Payment, TheStart, ["refunds/issue"];
    the_payment_providers_api_is_away_later: Payment, Later, ["refunds/issue"];
    the_mail_server_is_away_at_the_start: Mail, TheStart, ["notifications/send"];
    the_mail_server_is_away_later: Mail, Later, ["notifications/send"];
    the_identity_provider_is_away_at_the_start: Identity, TheStart, [];
    the_identity_provider_is_away_later: Identity, Later, [];
    an_endpoint_is_away_at_the_start: Endpoint, TheStart, ["endpoints/send"];
    an_endpoint_is_away_later: Endpoint, Later, ["endpoints/send"];
    the_store_of_exports_is_away_at_the_start: Exports, TheStart, ALL;
    the_store_of_exports_is_away_later: Exports, Later, ["customers/data_request"];
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn the_broker_is_away_at_the_start() {
    let (backend, broker) = proxy::to_broker().await;
    broker.kill();
    let port = free_port();
    let mut settings = settings(&backend, port);
    settings.push(("AMQP_URL".to_owned(), broker.url.clone()));
    let _ingress = Process::start("waybill-ingress", &[], &settings);
    let url = format!("http://127.0.0.1:{port}");
    let readiness = async || {
        let answer = reqwest::get(format!("{url}/readyz")).await.ok()?;
        answer.json::<Value>().await.ok()
    };
    let says = async |status: &str, bus: &str| {
        let ready = readiness().await.unwrap_or_default();
        ready["status"] == status && ready["bus"] == bus
    };
    eventually("it is degraded", async || says("degraded", "down").await).await;
    let paid = order_delivery("orders/paid", &body(1, 1, "paid"));
    let mut request = reqwest::Client::new().post(format!("{url}{}", paid.path));
    for (name, value) in &paid.headers {
        request = request.header(*name, value.as_slice());
    }
    assert_eq!(request.body(paid.body).send().await.unwrap().status(), 200);
    broker.restore();
    eventually("it is ready", async || says("ready", "up").await).await;
}

/// Nothing can be taken without it, so whatever watches over the process starts it again.
#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn the_database_is_away_at_the_start() {
    let backend = Backend::create().await;
    let mut settings = settings(&backend, free_port());
    let nobody = format!(
        "postgres://waybill:waybill@127.0.0.1:{}/waybill",
        free_port()
    );
    settings.push(("DATABASE_URL".to_owned(), nobody));
    let settings: Vec<(&str, &str)> = settings
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    let ended = run(command("waybill-ingress", &settings)).await;
    let says = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{says}");
    assert!(
        says.contains("does not answer") && says.contains("waybill doctor"),
        "{says}"
    );
}
