//! Events are sent to every bound queue, those of one order in their sequence, even when the
//! broker or processes fail. The tests also cover `waybill events`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use domain::event::{Event, OrderEvent, OrderSummary};
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicGetOptions, BasicQosOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use platform::clock::Clock;
use process::open_database;
use serde_json::{Value, json};
use store::events;
use store::sql::Db;
use store::{broker, leases};
use uuid::Uuid;

use crate::support::backend::{Backend, is_distributed};
use crate::support::delivery::{SHOP, order};
use crate::support::process::{Lines, Process, command, free_port, output, settings};
use crate::support::{Service, eventually, operator, pause, proxy, service};

/// How many events the broker does not have. Without a broker all count as sent.
pub async fn unpublished(service: &Service) -> i64 {
    count_unpublished(service.db()).await
}

pub async fn count_unpublished(db: &Db) -> i64 {
    let broker = broker::find(db).await.unwrap();
    assert_eq!(broker.is_some(), is_distributed());
    let has = broker.map_or(i64::MAX, |it| it.position);
    let waiting = db.query("select count(*) as n from events where position > $1");
    let row = waiting.bind(has).fetch_one().await.unwrap();
    row.get("n").unwrap()
}

/// A queue of the test's own at the events' exchange.
struct Queue {
    channel: lapin::Channel,
    name: String,
    _connection: lapin::Connection,
}

impl Queue {
    async fn bind(backend: &Backend, pattern: &str, arguments: FieldTable) -> Self {
        let url = backend.amqp_url.as_ref().unwrap();
        let connection = lapin::Connection::connect(url, lapin::ConnectionProperties::default())
            .await
            .unwrap();
        let channel = connection.create_channel().await.unwrap();
        let exchange = format!("{}.events", backend.name);
        let durable = ExchangeDeclareOptions {
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        channel
            .exchange_declare(
                exchange.as_str().into(),
                lapin::ExchangeKind::Topic,
                durable,
                FieldTable::default(),
            )
            .await
            .unwrap();
        let options = QueueDeclareOptions {
            exclusive: true,
            ..QueueDeclareOptions::default()
        };
        let queue = channel
            .queue_declare("".into(), options, arguments)
            .await
            .unwrap();
        let name = queue.name().as_str().to_owned();
        channel
            .queue_bind(
                name.as_str().into(),
                exchange.as_str().into(),
                pattern.into(),
                QueueBindOptions::default(),
                FieldTable::default(),
            )
            .await
            .unwrap();
        Queue {
            channel,
            name,
            _connection: connection,
        }
    }

    async fn take(&self, ids: usize) -> Vec<Delivery> {
        self.take_slowly(ids, Duration::ZERO).await
    }

    /// Takes one message after the other until `ids` different events have come; repeats are
    /// among them.
    async fn take_slowly(&self, ids: usize, pause_after: Duration) -> Vec<Delivery> {
        let one = BasicQosOptions::default();
        self.channel.basic_qos(1, one).await.unwrap();
        let mut consumer = self
            .channel
            .basic_consume(
                self.name.as_str().into(),
                "".into(),
                BasicConsumeOptions::default(),
                FieldTable::default(),
            )
            .await
            .unwrap();
        let mut deliveries = Vec::new();
        let mut seen = HashSet::new();
        let taken = tokio::time::timeout(Duration::from_secs(40), async {
            while seen.len() < ids {
                let delivery = consumer.next().await.unwrap().unwrap();
                delivery
                    .acker
                    .ack(BasicAckOptions::default())
                    .await
                    .unwrap();
                seen.insert(message_id(&delivery));
                deliveries.push(delivery);
                pause(pause_after).await;
            }
        });
        assert!(taken.await.is_ok(), "{} of {ids} events came", seen.len());
        deliveries
    }
}

fn message_id(delivery: &Delivery) -> Uuid {
    let id = delivery.properties.message_id().as_ref().unwrap();
    id.as_str().parse().unwrap()
}

fn envelope(delivery: &Delivery) -> Value {
    serde_json::from_slice(&delivery.data).unwrap()
}

/// Writes events of `orders` orders, `each` of each, and returns their ids in their sequence.
pub async fn write(db: &Db, orders: i64, each: i64) -> Vec<Uuid> {
    let clock = Clock::system();
    let mut written = Vec::new();
    for n in 0..each {
        for order in 0..orders {
            let summary = OrderSummary {
                currency: None,
                total_price: Some(n.to_string()),
                financial_status: None,
                fulfillment_status: None,
            };
            let what = match n {
                0 => OrderEvent::Created(summary),
                _ => OrderEvent::Updated(summary),
            };
            written.push(events::NewEvent {
                at: clock.now(),
                event: Event::of_order(SHOP, 1000 + order, what),
                traceparent: None,
            });
        }
    }
    let mut tx = db.begin().await.unwrap();
    events::insert(&mut tx, &written).await.unwrap();
    tx.commit().await.unwrap();
    newest_ids(db, written.len()).await
}

/// The ids of the last events, in their sequence, but for those about conditions, which may be written at any time.
pub async fn newest_ids(db: &Db, count: usize) -> Vec<Uuid> {
    let limit = i64::try_from(count).unwrap() + 1000;
    let newest = events::newest(db, &events::Filter::default(), 0..i64::MAX, limit).await;
    let newest = newest.unwrap().into_iter();
    let others = newest.filter(|event| !event.kind.starts_with("operator."));
    let mut ids: Vec<Uuid> = others.take(count).map(|event| event.id).collect();
    assert_eq!(ids.len(), count);
    ids.reverse();
    ids
}

/// After repeats are dropped, each order's events are there in the sequence in which they were written.
fn in_order(deliveries: &[Delivery], written: &[Uuid]) {
    let places: HashMap<Uuid, usize> = written.iter().copied().zip(0..).collect();
    let mut seen = BTreeSet::new();
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    for delivery in deliveries {
        let id = message_id(delivery);
        if !seen.insert(id) {
            continue;
        }
        let order = envelope(delivery)["object_id"].as_str().unwrap().to_owned();
        let earlier = last.insert(order, places[&id]);
        assert!(
            earlier.is_none_or(|earlier| earlier < places[&id]),
            "{id} came too late"
        );
    }
    let missing = written.iter().filter(|id| !seen.contains(id)).count();
    assert_eq!(missing, 0, "events did not come");
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn each_event_comes_to_a_bound_queue_with_its_id_and_all_there_is_to_know() {
    let backend = Arc::new(Backend::create().await);
    let service = service().start_on(backend.clone()).await;
    let queue = Queue::bind(&backend, "order.*", FieldTable::default()).await;
    let others = Queue::bind(&backend, "payment.*", FieldTable::default()).await;
    for seed in 0..20 {
        let delivery = order("orders/create", seed).id(&format!("w-{seed}"));
        assert_eq!(service.answer(&delivery).await.0, 200);
    }
    let deliveries = queue.take(20).await;
    assert_eq!(deliveries.len(), 20, "nothing failed, nothing came twice");
    for delivery in &deliveries {
        let envelope = envelope(delivery);
        let properties = &delivery.properties;
        assert_eq!(delivery.routing_key.as_str(), "order.created");
        assert_eq!(envelope["id"], message_id(delivery).to_string());
        assert_eq!(envelope["type"], "order.created");
        assert_eq!(envelope["shop"], SHOP);
        assert_eq!(envelope["object_id"], envelope["data"]["order_id"]);
        let created_at = envelope["created_at"].as_str().unwrap();
        assert!(created_at.ends_with('Z'), "{created_at}");
        assert_eq!(
            properties.kind().as_ref().unwrap().as_str(),
            "order.created"
        );
        let content_type = properties.content_type().as_ref().unwrap();
        assert_eq!(content_type.as_str(), "application/json");
        assert_eq!(properties.delivery_mode(), &Some(2));
        assert!(properties.timestamp().unwrap() > 1_700_000_000);
    }
    eventually("all are out", async || unpublished(&service).await == 0).await;
    let other = others
        .channel
        .basic_get(others.name.as_str().into(), BasicGetOptions::default());
    assert!(other.await.unwrap().is_none(), "only what it is bound for");
    service.stop().await;
}

/// Its message is larger than the frames of a connection, and than all frames that the client keeps room for.
#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn an_event_of_a_million_characters_comes_whole() {
    let backend = Arc::new(Backend::with_schema().await);
    let service = service().start_on(backend.clone()).await;
    let queue = Queue::bind(&backend, "order.*", FieldTable::default()).await;
    let long = "x".repeat(1_000_000);
    let summary = OrderSummary {
        currency: None,
        total_price: None,
        financial_status: Some(long.clone()),
        fulfillment_status: None,
    };
    let clock = Clock::system();
    let event = events::NewEvent {
        at: clock.now(),
        event: Event::of_order(SHOP, 1000, OrderEvent::Created(summary)),
        traceparent: None,
    };
    let mut tx = service.db().begin().await.unwrap();
    events::insert(&mut tx, &[event]).await.unwrap();
    tx.commit().await.unwrap();
    let after = write(service.db(), 1, 1).await;
    let deliveries = queue.take(2).await;
    assert_eq!(deliveries.len(), 2, "nothing failed, nothing came twice");
    let status = &envelope(&deliveries[0])["data"]["financial_status"];
    assert!(status == long.as_str(), "it is not as it was written");
    assert_eq!(message_id(&deliveries[1]), after[0], "the next one comes");
    service.stop().await;
}

#[tokio::test]
async fn with_no_queue_bound_events_are_out_all_the_same() {
    let service = service().start().await;
    let delivery = order("orders/create", 1).id("w-1");
    assert_eq!(service.answer(&delivery).await.0, 200);
    service.drained().await;
    eventually("it is out", async || unpublished(&service).await == 0).await;
    assert_eq!(service.count("select count(*) as n from events").await, 1);
    service.stop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_connection_cut_in_the_middle_loses_no_event_and_no_order() {
    let (backend, broker) = proxy::to_broker().await;
    let queue = Queue::bind(&backend, "#", FieldTable::default()).await;
    let service = service()
        .amqp_url(broker.url.clone())
        .start_on(backend)
        .await;
    let mut written = Vec::new();
    for round in 0..8 {
        written.extend(write(service.db(), 40, 10).await);
        pause(Duration::from_millis(100 + 35 * round)).await;
        broker.interrupt();
    }
    let deliveries = queue.take(written.len()).await;
    in_order(&deliveries, &written);
    eventually("all are out", async || unpublished(&service).await == 0).await;
    service.stop().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_queue_that_refuses_events_gets_them_later_and_in_order() {
    let backend = Arc::new(Backend::create().await);
    let service = service().start_on(backend.clone()).await;
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(7));
    let reject = AMQPValue::LongString("reject-publish".into());
    arguments.insert("x-overflow".into(), reject);
    let queue = Queue::bind(&backend, "#", arguments).await;
    // More orders than there is room for: some of a round are taken, some are not.
    let written = write(service.db(), 12, 20).await;
    eventually("it is full", async || unpublished(&service).await < 240).await;
    let broker = async || broker::find(service.db()).await.unwrap().unwrap();
    eventually("it is said that events are refused", async || {
        broker().await.failing_since.is_some()
    })
    .await;
    let why = broker().await.last_error;
    assert_eq!(why.as_deref(), Some("a queue refused an event"));
    let deliveries = queue
        .take_slowly(written.len(), Duration::from_millis(2))
        .await;
    in_order(&deliveries, &written);
    eventually("all are out", async || unpublished(&service).await == 0).await;
    let mended = broker().await;
    assert_eq!((mended.failing_since, mended.failures), (None, 0));
    assert!(mended.delivered_at.is_some());
    service.stop().await;
}

/// It is listed, tested, paused and resumed as the endpoints of webhooks are.
#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn rabbitmq_is_one_of_the_endpoints() {
    let backend = Arc::new(Backend::create().await);
    let service = service().start_on(backend.clone()).await;
    let queue = Queue::bind(&backend, "#", FieldTable::default()).await;
    let does = async |what: &str| operator::said(&service, &["endpoints", what, "rabbitmq"]).await;
    let next = async || {
        let options = BasicGetOptions { no_ack: true };
        let got = queue.channel.basic_get(queue.name.as_str().into(), options);
        got.await.unwrap().map(|it| envelope(&it.delivery))
    };
    let listed = operator::items(&service, &["endpoints", "list"]).await;
    let url = format!("amqp:{}.events", backend.name);
    assert_eq!(
        (&listed[0]["url"], &listed[0]["types"]),
        (&json!(url), &json!(["#"]))
    );

    let said = does("test").await;
    assert!(said.contains("accepted"), "{said}");
    let tested = next().await.unwrap();
    assert_eq!(tested["type"], "endpoint.test");
    assert!(said.contains(tested["id"].as_str().unwrap()), "{said}");

    does("pause").await;
    // It is seen at the next turn.
    pause(Duration::from_secs(1)).await;
    let written = write(service.db(), 2, 2).await;
    pause(Duration::from_secs(2)).await;
    assert_eq!(next().await, None, "it is paused");
    let waits = store::backlog::events(service.db()).await.unwrap();
    assert_eq!(waits.waiting, 0, "nobody is alarmed");
    does("resume").await;
    in_order(&queue.take(4).await, &written);

    for what in ["rotate", "remove"] {
        let (code, said) = operator::refused(&service, &["endpoints", what, "rabbitmq"]).await;
        assert_eq!(code, 2, "{said}");
        assert!(
            said.contains("pause it, or stop what has AMQP_URL"),
            "{said}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    operator::said(&service, &["config", "export", file.to_str().unwrap()]).await;
    let exported = std::fs::read_to_string(file).unwrap();
    assert!(!exported.contains("amqp:"), "{exported}");
    service.stop().await;
}

#[tokio::test]
async fn a_lease_is_held_by_one_until_it_ends_or_is_released() {
    let service = service().without_workers().manual_clock().start().await;
    let (db, clock) = (service.db(), service.clock());
    let (one, other) = (clock.id(), clock.id());
    let take = async |holder| {
        let now = clock.now();
        leases::take(db, "test", holder, now, now.plus(Duration::from_secs(10)))
            .await
            .unwrap()
    };
    assert!(take(one).await);
    assert!(!take(other).await, "it is held");
    clock.advance(Duration::from_secs(9));
    assert!(take(one).await, "renewed");
    clock.advance(Duration::from_secs(9));
    assert!(!take(other).await, "it was renewed");
    clock.advance(Duration::from_secs(1));
    assert!(take(other).await, "it has ended");
    assert!(!take(one).await);
    leases::release(db, "test", one).await.unwrap();
    assert!(!take(one).await, "nobody releases another's");
    leases::release(db, "test", other).await.unwrap();
    assert!(take(one).await);
    let hour = Duration::from_hours(1);
    let (now, wrong) = (clock.now(), clock.now().plus(hour));
    assert!(leases::take(db, "test", one, now, wrong).await.unwrap());
    assert!(take(other).await, "a clock was wrong");
    service.stop().await;
}

async fn holder(db: &Db) -> Option<Uuid> {
    let row = db
        .query("select holder from leases where name = 'events'")
        .fetch_optional()
        .await
        .unwrap();
    row.map(|row| row.get("holder").unwrap())
}

#[tokio::test]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn when_the_process_that_publishes_is_killed_another_one_does() {
    let backend = Backend::create().await;
    let queue = Queue::bind(&backend, "#", FieldTable::default()).await;
    let db = open_database(&backend.database_url, 2).await.unwrap();
    let settings = settings(&backend, free_port());
    let mut first = Process::start("waybill-orders", &[], &settings);
    eventually("the first publishes", async || holder(&db).await.is_some()).await;
    let publisher = holder(&db).await;
    let mut second = Process::start("waybill-payments", &[], &settings);
    let mut written = write(&db, 30, 5).await;
    let mut deliveries = queue.take(written.len()).await;
    assert_eq!(holder(&db).await, publisher);
    first.kill();
    let more = write(&db, 30, 5).await;
    deliveries.extend(queue.take(more.len()).await);
    assert_ne!(holder(&db).await, publisher);
    written.extend(more);
    in_order(&deliveries, &written);
    assert!(second.terminate().await.success());
    assert_eq!(holder(&db).await, None, "it was released");
    db.close().await;
}

/// `waybill events ..` with a test's settings.
fn waybill(settings: &[(String, String)], arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = command("waybill", &[]);
    command.envs(settings.iter().map(|(name, value)| (name, value)));
    command.args(arguments);
    let output = output(command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(stderr, "", "{arguments:?}");
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_listed_for_people_and_machines() {
    let backend = Backend::create().await;
    let db = open_database(&backend.database_url, 2).await.unwrap();
    let settings = settings(&backend, free_port());
    let list = |arguments: &[&str]| {
        let (code, said) = waybill(&settings, &[&["events", "list"], arguments].concat());
        assert_eq!(code, Some(0));
        said
    };
    assert_eq!(list(&[]), "No events.\n");
    let written = write(&db, 3, 10).await;
    let table = list(&["--limit", "3"]);
    let (table, next) = table.split_once("\n\n").unwrap();
    assert!(next.contains("--after"), "{next}");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 4, "{table}");
    let data_at = lines[0].find("DATA").unwrap();
    for line in &lines[1..] {
        assert_eq!(
            &line[data_at..],
            "total_price=9",
            "newest first, lined up:\n{table}"
        );
    }
    assert!(!table.contains('\x1b'), "no colour when piped");
    let page = |arguments: &[&str]| -> Value {
        serde_json::from_str(&list(&[arguments, &["--json"]].concat())).unwrap()
    };
    let rows = |arguments: &[&str]| page(arguments)["items"].as_array().unwrap().clone();
    let created = rows(&["--type", "*.created", "--object", "1001"]);
    assert_eq!(created.len(), 1);
    assert_eq!(created[0]["id"], written[1].to_string());
    assert_eq!(created[0]["data"]["total_price"], "0");
    assert_eq!(rows(&["--type", "order.#", "--limit", "100"]).len(), 30);
    // Another version wrote it: a type and a field that this one does not know.
    let mut tx = db.begin().await.unwrap();
    tx.query("update events set kind = $1, body = $2 where position = $3")
        .bind("order.of_old")
        .bind(r#"{"order_id":"1000","n":7}"#)
        .bind(events::position_in(written[0]))
        .execute()
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(rows(&["--type", "order.of_old"])[0]["data"]["n"], 7);
    assert_eq!(rows(&["--type", "order"]).len(), 0);
    assert_eq!(rows(&["--shop", "other.example"]).len(), 0);
    let first = page(&["--shop", SHOP]);
    assert_eq!(first["items"].as_array().unwrap().len(), 20, "the default");
    let rest = rows(&["--shop", SHOP, "--after", first["next"].as_str().unwrap()]);
    assert_eq!(rest.len(), 10, "{rest:?}");
    // More is left out between them than is looked at for one page.
    let far = "update events set position = position + 250000 where position > 12";
    let mut tx = db.begin().await.unwrap();
    tx.query(far).execute().await.unwrap();
    tx.commit().await.unwrap();
    let all: Vec<Value> = rows(&["--shop", SHOP, "--limit", "100"]);
    assert_eq!(all.len(), 30);
    for (newer, older) in all.iter().zip(&all[1..]) {
        let [newer, older] = [newer, older].map(|it| it["id"].as_str().unwrap().parse().unwrap());
        assert!(events::position_in(newer) > events::position_in(older));
    }
    let one = page(&["--shop", "other.example", "--limit", "1"]);
    assert_eq!(
        (&one["items"], &one["next"]),
        (&json!([]), &Value::Null),
        "it ends"
    );
    let beyond = page(&["--limit", "1", "--after", "9000000000000000000"]);
    assert_eq!(beyond["items"][0], all[0]);
    let wrong = command("waybill", &[])
        .args(["events", "list", "--type", "order..x"])
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    db.close().await;
}

/// A `waybill events tail` that runs.
fn tail(settings: &[(String, String)], arguments: &[&str]) -> Lines {
    Lines::start(&[&["events", "tail"], arguments].concat(), settings)
}

async fn next_event(tail: &mut Lines) -> Uuid {
    let event: Value = serde_json::from_str(&tail.line().await).unwrap();
    event["id"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_shows_history_and_then_each_new_event_once() {
    let backend = Arc::new(Backend::create().await);
    let service = service().start_on(backend.clone()).await;
    let settings = settings(&backend, free_port());
    let written = write(service.db(), 4, 5).await;
    let mut all = tail(&settings, &["--since", "10m", "--json"]);
    let mut five = tail(
        &settings,
        &["--since", &written[9].to_string(), "--limit", "15"],
    );
    let mut created = tail(
        &settings,
        &["--type", "*.created", "--json", "--since", "1h"],
    );
    let elsewhere = tail(&settings, &["--shop", "other.example", "--since", "1h"]);
    for id in &written {
        assert_eq!(next_event(&mut all).await, *id);
    }
    for id in &written[..4] {
        assert_eq!(next_event(&mut created).await, *id);
    }
    for _ in 0..10 {
        five.line().await;
    }
    let more = write(service.db(), 4, 5).await;
    let mut live = HashSet::new();
    for _ in &more {
        live.insert(next_event(&mut all).await);
    }
    assert_eq!(live, more.iter().copied().collect(), "each once");
    let mut of_created = HashSet::new();
    for _ in 0..4 {
        of_created.insert(next_event(&mut created).await);
    }
    assert_eq!(of_created, more[..4].iter().copied().collect());
    let line = five.line().await;
    let columns: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(columns[1..4], ["order.created", SHOP, "1000"], "{line}");
    assert!(!line.contains('\x1b'), "no colour when piped");
    assert_eq!(line.find("total_price=0"), Some(95), "lined up: {line}");
    for _ in 0..4 {
        assert_eq!(five.line().await.find("total_price="), Some(95));
    }
    assert_eq!(five.end().await.0, Some(0), "--limit");
    all.interrupt();
    assert_eq!(all.end().await.0, Some(0), "Ctrl-C");
    elsewhere.interrupt();
    let (_, shown, _) = elsewhere.end().await;
    assert!(shown.is_empty(), "another shop's: {shown:?}");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_from_an_event_on_shows_none_of_before_it_though_the_broker_gets_them_later() {
    let backend = Arc::new(Backend::create().await);
    let mut service = service().without_workers().start_on(backend.clone()).await;
    let settings = settings(&backend, free_port());
    let written = write(service.db(), 4, 5).await;
    let since = written[9].to_string();
    let mut tail = tail(&settings, &["--since", &since, "--json"]);
    for id in &written[10..] {
        assert_eq!(next_event(&mut tail).await, *id);
    }
    service.start_workers();
    for id in write(service.db(), 1, 3).await {
        assert_eq!(next_event(&mut tail).await, id);
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn a_tail_that_loses_the_broker_misses_nothing() {
    let (backend, broker) = proxy::to_broker().await;
    let service = service().start_on(backend.clone()).await;
    let mut settings = settings(&backend, free_port());
    settings.retain(|(name, _)| name != "AMQP_URL");
    settings.push(("AMQP_URL".into(), broker.url.clone()));
    let mut tail = tail(&settings, &["--since", "10m", "--json"]);
    let mut shown = BTreeSet::new();
    let mut written = Vec::new();
    for _ in 0..3 {
        let more = write(service.db(), 5, 4).await;
        for _ in &more {
            assert!(shown.insert(next_event(&mut tail).await), "none twice");
        }
        written.extend(more);
        broker.kill();
        let missed = write(service.db(), 5, 4).await;
        eventually("they are out", async || unpublished(&service).await == 0).await;
        broker.restore();
        for _ in &missed {
            assert!(shown.insert(next_event(&mut tail).await), "none twice");
        }
        written.extend(missed);
    }
    assert_eq!(shown, written.into_iter().collect());
    service.stop().await;
}
