//! The database or the broker is gone, slow or silent. Deliveries that were answered 200 are
//! stored, deliveries that could not be stored were answered 503, and all jobs are done after the
//! server is back.

use std::time::Duration;

use domain::job::{JobId, Queue, Source, State};
use domain::time::Timestamp;
use process::open_migrated;
use store::sql::Db;
use store::webhook_ids::{self, Claim, DeliveryId};
use uuid::Uuid;

use crate::api::pages;
use crate::support::backend::{Backend, is_distributed};
use crate::support::delivery::{SHOP, order};
use crate::support::process::free_port;
use crate::support::proxy::{self, Proxy};
use crate::support::{Service, eventually, pause, service};

/// Posts a delivery that must be answered 503, and quickly.
async fn is_unavailable(service: &Service, seed: u64) {
    let delivery = order("orders/create", seed).id(&format!("w-{seed}"));
    let answered = tokio::time::timeout(Duration::from_millis(1500), service.post(&delivery));
    let response = answered.await.expect("an answer within 1.5 s");
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["x-error-code"], "COMMERCE_009");
    assert!(response.headers().contains_key("retry-after"));
}

async fn is_accepted(service: &Service, seed: u64) -> bool {
    let delivery = order("orders/create", seed).id(&format!("w-{seed}"));
    service.answer_once(&delivery).await.0 == 200
}

#[tokio::test]
async fn a_database_that_stands_still_means_503_and_nothing_remembered() {
    let service = service().without_workers().start().await;
    assert!(is_accepted(&service, 1).await);
    // Another client holds what intake needs.
    let other = Db::open(&service.parts.config.database_url, 1)
        .await
        .unwrap();
    let mut tx = other.begin().await.unwrap();
    if is_distributed() {
        // It writes the same ids, so whoever writes one waits for its end.
        let id = |seed: u64| DeliveryId::new(Source::Storefront, Some(SHOP), &format!("w-{seed}"));
        let claim = |seed: u64| Claim {
            id: id(seed),
            job: Uuid::from_u64_pair(0, seed),
            body: None,
        };
        let mut claims: Vec<Claim> = (2..5).map(claim).collect();
        claims.sort_unstable();
        let (now, hour) = (Timestamp(1_800_000_000_000), Duration::from_hours(1));
        let ids = webhook_ids::remember(&mut tx, &claims, now, hour).await;
        assert_eq!(ids.unwrap().fresh.len(), 3);
    }
    for seed in 2..5 {
        is_unavailable(&service, seed).await;
    }
    tx.rollback().await.unwrap();
    other.close().await;
    eventually("it accepts again", async || {
        is_accepted(&service, 9).await || {
            let (status, _) = service
                .answer_once(&order("orders/create", 9).id("w-9"))
                .await;
            status == 409
        }
    })
    .await;
    for seed in 2..5 {
        assert!(
            is_accepted(&service, seed).await,
            "delivery {seed} was not remembered"
        );
    }
    assert_eq!(service.jobs(State::Ready).await, 5);
    service.stop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_database_that_is_gone_or_swallows_everything_means_503_until_it_is_back() {
    let (backend, database) = proxy::to_database().await;
    let service = service()
        .database_url(database.url.clone())
        .start_on(backend)
        .await;
    assert!(is_accepted(&service, 1).await);
    service.drained().await;
    database.kill();
    is_unavailable(&service, 2).await;
    let ready = service.get("/readyz").send().await.unwrap();
    assert_eq!(ready.status(), 503);
    database.restore();
    eventually("it accepts again", async || is_accepted(&service, 2).await).await;
    database.swallow();
    is_unavailable(&service, 3).await;
    is_unavailable(&service, 4).await;
    database.interrupt();
    database.restore();
    eventually("it accepts again", async || is_accepted(&service, 3).await).await;
    eventually("all is done", async || {
        service.jobs(State::Ready).await == 0
    })
    .await;
    assert_eq!(service.count("select count(*) as n from orders").await, 3);
    service.stop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_command_waits_for_a_database_that_pauses() {
    let backend = Backend::with_schema().await;
    let database = Proxy::to(&backend.database_url).await;
    database.swallow();
    let comes_back = async {
        pause(Duration::from_millis(1500)).await;
        database.interrupt();
        database.restore();
    };
    let (opened, ()) = tokio::join!(open_migrated(&database.url, 1), comes_back);
    opened
        .expect("it is opened when the database answers")
        .close()
        .await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_database_that_is_slow_for_each_row_takes_smaller_batches() {
    let service = service().without_workers().start().await;
    // A batch of six is too much for the time that it has.
    service
        .execute(
            "create function is_slow() returns trigger as
             'begin perform pg_sleep(0.15); return new; end' language plpgsql",
        )
        .await;
    service
        .execute("create trigger is_slow before insert on deliveries for each row execute function is_slow()")
        .await;
    let mut left: Vec<u64> = (1..=24).collect();
    for _ in 0..10 {
        let posted = left.iter().map(async |seed| {
            let delivery = order("orders/create", *seed).id(&format!("w-{seed}"));
            service.answer_once(&delivery).await.0
        });
        let mut answers = futures_util::future::join_all(posted).await.into_iter();
        // What was given up while its batch was under way is a duplicate.
        left.retain(|_| !matches!(answers.next(), Some(200 | 409)));
    }
    assert_eq!(left, Vec::<u64>::new(), "these are never accepted");
    assert_eq!(service.jobs(State::Ready).await, 24);
    service.stop().await;
}

/// A service without workers that reaches its database through a proxy.
async fn intake_behind_a_proxy() -> (Service, Proxy) {
    let (backend, database) = proxy::to_database().await;
    let service = service()
        .database_url(database.url.clone())
        .without_workers()
        .start_on(backend)
        .await;
    (service, database)
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_connection_lost_between_deliveries_costs_nobody_an_error() {
    let (service, database) = intake_behind_a_proxy().await;
    for seed in 0..10 {
        database.interrupt();
        pause(Duration::from_millis(20)).await;
        assert!(is_accepted(&service, seed).await, "delivery {seed}");
    }
    service.stop().await;
}

/// A run is counted before it begins, and each time its commit is done without a word.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn runs_whose_commits_are_done_without_a_word_do_not_count_as_the_end_of_a_process() {
    let (mut service, database) = intake_behind_a_proxy().await;
    assert!(is_accepted(&service, 1).await);
    // It is not due while the worker starts. Later each of its runs is counted.
    service
        .execute("update jobs set unfinished_attempts = 1, run_at = run_at + 3600000")
        .await;
    service.start_workers();
    eventually("the worker has read the message", async || {
        let bus = &service.parts.bus;
        bus.depth(Queue::Orders).await.ok() == Some(0)
    })
    .await;
    let direct = Db::open(&service.backend.database_url, 1).await.unwrap();
    database.cut_commits();
    let due = "update jobs set run_at = created_at returning id";
    let mut tx = direct.begin().await.unwrap();
    let id = tx.query(due).first(|row| row.get("id")).await.unwrap();
    tx.commit().await.unwrap();
    let ids: [JobId; 1] = [id.unwrap()];
    let bus = &service.parts.bus;
    bus.notify(Queue::Orders, "orders/create", &ids)
        .await
        .unwrap();
    eventually(
        "it was tried more often than a job may end its process",
        async || database.lost_commits("set unfinished_attempts = unfinished_attempts") >= 6,
    )
    .await;
    database.restore();
    database.interrupt();
    eventually("it is done", async || {
        service.jobs(State::Done).await + service.jobs(State::Dead).await == 1
    })
    .await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    let counted = "select cast(sum(unfinished_attempts) as bigint) as n from jobs";
    assert_eq!(service.count(counted).await, 0);
    service.stop().await;
}

/// After the server was restarted, all connections that a pool keeps are dead.
#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn nobody_gets_an_error_because_of_connections_that_had_ended() {
    let (service, database) = intake_behind_a_proxy().await;
    let db = service.db();
    for _ in 0..3 {
        let mut open = Vec::new();
        for _ in 0..5 {
            open.push(db.begin().await.unwrap());
        }
        for tx in open {
            tx.rollback().await.unwrap();
        }
        eventually("they are idle", async || db.connections().idle >= 5).await;
        database.interrupt();
        pause(Duration::from_millis(50)).await;
        assert_eq!(service.count("select 1 as n").await, 1);
        database.interrupt();
        pause(Duration::from_millis(50)).await;
        db.begin().await.unwrap().rollback().await.unwrap();
    }
    service.stop().await;
}

/// Nobody can know whether it was committed; whoever sends it again finds out.
#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_connection_lost_in_a_commit_means_503_and_the_next_try_learns_that_it_was_kept() {
    let (service, database) = intake_behind_a_proxy().await;
    assert!(is_accepted(&service, 1).await);
    database.cut_commits();
    is_unavailable(&service, 2).await;
    database.restore();
    database.interrupt();
    let again = order("orders/create", 2).id("w-2");
    eventually("it is a duplicate", async || {
        service.answer_once(&again).await.0 == 409
    })
    .await;
    assert!(is_accepted(&service, 3).await);
    assert_eq!(service.jobs(State::Ready).await, 3, "each is kept once");
    service.stop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn while_the_broker_is_gone_deliveries_are_accepted_and_done_once_it_is_back() {
    let (backend, broker) = proxy::to_broker().await;
    let service = service()
        .amqp_url(broker.url.clone())
        .start_on(backend)
        .await;
    for seed in 0..50 {
        assert!(is_accepted(&service, seed).await);
        if seed == 10 {
            broker.kill();
        }
    }
    assert!(service.jobs(State::Ready).await > 0);
    broker.restore();
    eventually("all are done", async || {
        service.jobs(State::Done).await == 50
    })
    .await;
    assert_eq!(service.count("select count(*) as n from events").await, 50);
    service.stop().await;
}

/// The servers of a cluster, each of which goes in turn; the last one is behind an address that never
/// answered.
#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn another_server_of_the_broker_is_used_when_one_is_gone() {
    let (backend, first) = proxy::to_broker().await;
    let second = Proxy::to(backend.amqp_url.as_ref().unwrap()).await;
    let (_, rest) = first.url.split_once('@').unwrap();
    let port = rest.split(['/', ':']).nth(1).unwrap();
    let nobody = format!(":{}", free_port());
    let nobody = first.url.replace(&format!(":{port}"), &nobody);
    let service = service()
        .amqp_url(format!("{nobody}, {},{}", first.url, second.url))
        .start_on(backend)
        .await;
    for (gone, back) in [(&first, &second), (&second, &first), (&first, &second)] {
        back.restore();
        gone.kill();
        let bus = &service.parts.bus;
        eventually("another server is used", async || {
            bus.is_up() && bus.depth(Queue::Orders).await.is_ok()
        })
        .await;
    }
    for seed in 0..20 {
        assert!(is_accepted(&service, seed).await);
    }
    eventually("all are done", async || {
        service.jobs(State::Done).await == 20
    })
    .await;
    assert_eq!(service.count("select count(*) as n from events").await, 20);
    service.stop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_broker_that_takes_messages_and_never_confirms_does_not_hold_up_deliveries() {
    let (backend, broker) = proxy::to_broker().await;
    let service = service()
        .amqp_url(broker.url.clone())
        .start_on(backend)
        .await;
    broker.swallow();
    for seed in 0..20 {
        assert!(is_accepted(&service, seed).await);
    }
    broker.interrupt();
    broker.restore();
    eventually("all are done", async || {
        service.jobs(State::Done).await == 20
    })
    .await;
    service.stop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn connections_to_the_broker_that_break_under_load_lose_and_repeat_nothing() {
    let (backend, broker) = proxy::to_broker().await;
    let service = service()
        .amqp_url(broker.url.clone())
        .start_on(backend)
        .await;
    for seed in 0..300 {
        assert!(is_accepted(&service, seed).await);
        if seed % 50 == 49 {
            broker.interrupt();
        }
    }
    eventually("all are done", async || {
        service.jobs(State::Done).await == 300
    })
    .await;
    assert_eq!(service.count("select count(*) as n from orders").await, 300);
    assert_eq!(service.count("select count(*) as n from events").await, 300);
    service.stop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_deleted_queue_and_exchange_are_declared_again() {
    let service = service().start().await;
    assert!(is_accepted(&service, 1).await);
    service.drained().await;
    let url = service.parts.config.amqp_url.clone().unwrap();
    let prefix = service.parts.config.amqp_prefix.clone();
    let connection = lapin::Connection::connect(&url, lapin::ConnectionProperties::default())
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    let name = format!("{prefix}.orders");
    let options = lapin::options::QueueDeleteOptions::default();
    channel
        .queue_delete(name.as_str().into(), options)
        .await
        .unwrap();
    for seed in 2..10 {
        assert!(is_accepted(&service, seed).await);
    }
    eventually("all are done", async || {
        service.jobs(State::Done).await == 9
    })
    .await;
    let options = lapin::options::ExchangeDeleteOptions::default();
    channel
        .exchange_delete(name.as_str().into(), options)
        .await
        .unwrap();
    for seed in 10..20 {
        assert!(is_accepted(&service, seed).await);
    }
    eventually("all are done", async || {
        service.jobs(State::Done).await == 19
    })
    .await;
    eventually("the bus is ready", async || {
        service.parts.bus.is_ready(Queue::Orders)
    })
    .await;
    service.stop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_message_that_no_queue_takes_does_not_count_as_sent() {
    let service = service().without_workers().start().await;
    eventually("the bus is ready", async || {
        service.parts.bus.is_ready(Queue::Orders)
    })
    .await;
    let url = service.parts.config.amqp_url.clone().unwrap();
    let connection = lapin::Connection::connect(&url, lapin::ConnectionProperties::default())
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    let name = format!("{}.orders", service.parts.config.amqp_prefix);
    let options = lapin::options::QueueDeleteOptions::default();
    channel
        .queue_delete(name.as_str().into(), options)
        .await
        .unwrap();
    let job = [Uuid::from_u128(1)];
    let bus = &service.parts.bus;
    let sent = bus.notify_ids(Queue::Orders, "orders/create", &job);
    let error = sent.await.unwrap_err();
    assert!(error.to_string().contains("no queue"), "{error}");
    // The queue is declared again, and then takes it.
    eventually("it is sent", async || {
        let sent = bus.notify_ids(Queue::Orders, "orders/create", &job);
        sent.await.is_ok()
    })
    .await;
    assert!(bus.depth(Queue::Orders).await.unwrap() >= 1);
    service.stop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_dead_job_shows_in_the_dead_letter_queue() {
    let service = service().start().await;
    let hopeless = crate::support::delivery::storefront("orders/create", r#"{"id":"none"}"#);
    assert_eq!(service.answer(&hopeless).await.0, 200);
    eventually("it is dead", async || service.jobs(State::Dead).await == 1).await;
    let job = service
        .db()
        .query("select id from jobs")
        .fetch_one()
        .await
        .unwrap();
    let job: Uuid = job.get("id").unwrap();
    let url = service.parts.config.amqp_url.clone().unwrap();
    let connection = lapin::Connection::connect(&url, lapin::ConnectionProperties::default())
        .await
        .unwrap();
    let channel = connection.create_channel().await.unwrap();
    let queue = format!("{}.dead", service.parts.config.amqp_prefix);
    eventually("the broker shows it", async || {
        let options = lapin::options::BasicGetOptions { no_ack: true };
        let message = channel
            .basic_get(queue.as_str().into(), options)
            .await
            .unwrap();
        message.is_some_and(|message| {
            assert_eq!(
                message.delivery.routing_key.as_str(),
                "orders.orders.create"
            );
            String::from_utf8_lossy(&message.delivery.data).contains(&job.to_string())
        })
    })
    .await;
    service.stop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_database_that_swallows_everything_does_not_hold_a_page() {
    let (backend, database) = proxy::to_database().await;
    let mut service = service()
        .database_url(database.url.clone())
        .without_workers()
        .start_on(backend)
        .await;
    assert_eq!(pages::page_status(&service, "/orders/7/track").await, 404);
    database.swallow();
    // The first finds a broken connection, the next ones a new one that never answers.
    for path in [
        "/orders/7/track",
        "/orders/7/track",
        "/tracking/7",
        "/pay/7",
    ] {
        pages::is_unavailable(&service, path).await;
    }
    database.interrupt();
    database.restore();
    eventually("pages are shown again", async || {
        pages::page_status(&service, "/orders/7/track").await == 404
    })
    .await;
    service.halt().await;
}
