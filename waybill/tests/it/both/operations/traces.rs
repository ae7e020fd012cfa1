//! The same id is in the request's header, the answer, the job, the messages on the broker, the
//! worker's log, the call to the provider and the event, and `waybill` finds all of them by it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use domain::trace::{self, TraceContext};
use lapin::options::{BasicGetOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use sandbox::{Options, STOREFRONT_TOKEN, Sandbox};
use serde_json::Value;
use store::sql::Db;
use uuid::Uuid;

use crate::both::api::events::count_unpublished;
use crate::support::backend::{Backend, is_distributed};
use crate::support::delivery::{Delivery, order};
use crate::support::order::{body, captured, deliver, order_delivery, post_all};
use crate::support::process::{Process, command, free_port, is_ready, output, settings};
use crate::support::{eventually, service};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const REQUEST: &str = "somebody-42";

/// A queue of the test's own that gets a copy of all that an exchange is given.
struct Copies {
    channel: lapin::Channel,
    queue: String,
    _connection: lapin::Connection,
}

impl Copies {
    async fn of(backend: &Backend, exchange: &str) -> Self {
        let url = backend.amqp_url.as_ref().unwrap();
        let connection = lapin::Connection::connect(url, lapin::ConnectionProperties::default());
        let connection = connection.await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let options = QueueDeclareOptions {
            exclusive: true,
            ..QueueDeclareOptions::default()
        };
        let nothing = FieldTable::default;
        let declared = channel.queue_declare("".into(), options, nothing());
        let queue = declared.await.unwrap().name().as_str().to_owned();
        let exchange = format!("{}.{exchange}", backend.name);
        channel
            .queue_bind(
                queue.as_str().into(),
                exchange.as_str().into(),
                "#".into(),
                QueueBindOptions::default(),
                nothing(),
            )
            .await
            .unwrap();
        Copies {
            channel,
            queue,
            _connection: connection,
        }
    }

    /// What has come: the body, a header, and everything as text.
    async fn take(&self, header: &str) -> Vec<(Value, Option<AMQPValue>, String)> {
        let mut taken = Vec::new();
        let options = BasicGetOptions { no_ack: true };
        while let Some(message) = self
            .channel
            .basic_get(self.queue.as_str().into(), options)
            .await
            .unwrap()
        {
            let headers = message.properties.headers().clone().unwrap_or_default();
            let text = format!(
                "{:?} {}",
                message.properties,
                String::from_utf8_lossy(&message.data)
            );
            let header = headers.inner().get(header).cloned();
            taken.push((serde_json::from_slice(&message.data).unwrap(), header, text));
        }
        taken
    }
}

fn text(value: &AMQPValue) -> String {
    match value {
        AMQPValue::LongString(text) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

async fn post(port: u16, delivery: &Delivery) -> reqwest::Response {
    let url = format!("http://127.0.0.1:{port}{}", delivery.path);
    let mut request = reqwest::Client::new().post(url).body(delivery.body.clone());
    for (name, value) in &delivery.headers {
        request = request.header(*name, value.as_slice());
    }
    request.send().await.unwrap()
}

fn listed(settings: &[(String, String)], what: &str, id: &str) -> Value {
    let settings: Vec<(&str, &str)> = settings
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let mut command = command("waybill", &settings);
    command.args([what, "list", "--trace", id, "--json"]);
    let output = output(command);
    assert!(output.status.success(), "{output:?}");
    let mut page: Value = serde_json::from_slice(&output.stdout).unwrap();
    page["items"].take()
}

/// The log lines that are about a job.
fn lines_about(log: &Path, job: Uuid) -> Vec<Value> {
    let job = job.to_string();
    let lines = fs::read_to_string(log).unwrap_or_default();
    let lines = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect(line));
    let of_job = |line: &Value| line["job"] == job.as_str();
    lines.filter(of_job).collect()
}

struct Row {
    id: Uuid,
    traceparent: Option<String>,
    request_id: Option<String>,
}

async fn rows(db: &Db, kind: &'static str) -> Vec<Row> {
    let rows = db
        .query("select id, traceparent, trace from deliveries where kind = $1 order by id")
        .bind(kind)
        .fetch_all()
        .await
        .unwrap();
    let row = |row: &store::sql::Row| Row {
        id: row.get("id").unwrap(),
        traceparent: traceparent(row),
        request_id: row.get("trace").unwrap(),
    };
    rows.iter().map(row).collect()
}

/// What is stored, as the header has it.
fn traceparent(row: &store::sql::Row) -> Option<String> {
    let stored = trace::stored(row.get("traceparent").unwrap());
    Some(stored?.to_string())
}

fn trace_of(traceparent: &str) -> String {
    TraceContext::parse(traceparent)
        .expect(traceparent)
        .trace_id()
        .to_string()
}

#[tokio::test]
async fn one_id_is_found_in_the_answer_the_job_the_broker_the_log_the_call_and_the_event() {
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    let backend = Backend::create().await;
    let port = free_port();
    let mut settings = settings(&backend, port);
    settings.retain(|(name, _)| name != "RUST_LOG");
    settings.extend([
        ("STOREFRONT_API_URL".into(), sandbox.storefront_url()),
        ("STOREFRONT_API_TOKEN".into(), STOREFRONT_TOKEN.into()),
        ("RUST_LOG".into(), "info,workers=debug,ingress=debug".into()),
    ]);
    let log = backend.folder().join("log");
    let names: &[(&str, &[&str])] = if is_distributed() {
        &[("waybill-ingress", &[]), ("waybill-orders", &[])]
    } else {
        &[("waybill", &["serve"])]
    };
    let start = |(name, arguments): &(&str, &[&str])| {
        Process::start_logged(name, arguments, &settings, &log)
    };
    let processes: Vec<Process> = names.iter().map(start).collect();
    is_ready(port).await;
    let copies = if is_distributed() {
        let of = |exchange| Copies::of(&backend, exchange);
        Some((of("orders").await, of("events").await))
    } else {
        None
    };

    let delivery = order("orders/paid", 7).id("delivery-7");
    let delivery = delivery
        .header("X-Request-Id", REQUEST)
        .header("traceparent", GIVEN);
    let answer = post(port, &delivery).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["x-request-id"], REQUEST);
    let answered = answer.headers()["traceparent"].to_str().unwrap().to_owned();
    assert_eq!(trace_of(&answered), TRACE);
    assert!(
        answered.ends_with("-01") && answered != GIVEN,
        "a span of its own: {answered}"
    );

    let db = Db::open(&backend.database_url, 2).await.unwrap();
    eventually(
        "the storefront was asked, and the job is done",
        async || {
            sandbox.storefront().fault_injector.answers().get(&201) == Some(&1)
                && store::jobs::count(&db, domain::job::Queue::Orders, domain::job::State::Done)
                    .await
                    .unwrap()
                    == 2
        },
    )
    .await;
    let [first] = rows(&db, "orders/paid").await.try_into().ok().unwrap();
    let [call] = rows(&db, "fulfillments/request")
        .await
        .try_into()
        .ok()
        .unwrap();
    assert_eq!(first.traceparent.as_deref(), Some(answered.as_str()));
    for row in [&first, &call] {
        assert_eq!(trace_of(row.traceparent.as_ref().unwrap()), TRACE);
        assert_eq!(row.request_id.as_deref(), Some(REQUEST));
    }

    // The call is a span of the trace, made of the job's id.
    let spans = sandbox.storefront().fault_injector.traceparents();
    let span = TraceContext::parse(GIVEN)
        .unwrap()
        .child(call.id)
        .to_string();
    assert_eq!(spans, BTreeSet::from([span]));

    for job in [first.id, call.id] {
        eventually("its end is logged", async || {
            let lines = lines_about(&log, job);
            lines.iter().any(|line| line["message"] == "a job is done")
        })
        .await;
        for line in lines_about(&log, job) {
            assert_eq!(line["trace_id"], TRACE, "{line}");
            assert_eq!(line["request_id"], REQUEST, "{line}");
        }
    }

    let events = listed(&settings, "events", TRACE);
    let kinds: BTreeSet<&str> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["type"].as_str().unwrap())
        .collect();
    assert!(
        kinds.contains("order.created") && kinds.contains("order.paid"),
        "{kinds:?}"
    );

    if let Some((orders, events)) = copies {
        let mut reported = BTreeMap::new();
        eventually(
            "workers were notified of both jobs, and the events are out",
            async || count_unpublished(&db).await == 0,
        )
        .await;
        for (body, header, text_of_it) in orders.take("traceparents").await {
            assert!(!text_of_it.contains(REQUEST), "{text_of_it}");
            let ids = body.as_array().unwrap();
            let Some(AMQPValue::FieldArray(all)) = header else {
                panic!("{text_of_it}");
            };
            assert_eq!(all.as_slice().len(), ids.len(), "one for each id");
            for (id, value) in ids.iter().zip(all.as_slice()) {
                reported.insert(id.as_str().unwrap().to_owned(), text(value));
            }
        }
        for job in [first.id, call.id] {
            let span = TraceContext::parse(GIVEN).unwrap().child(job).to_string();
            assert_eq!(reported.get(&job.to_string()), Some(&span));
        }
        let published = events.take("traceparent").await;
        assert!(!published.is_empty());
        for (_, header, text_of_it) in published {
            assert!(!text_of_it.contains(REQUEST), "{text_of_it}");
            assert_eq!(trace_of(&text(&header.unwrap())), TRACE);
        }
    }

    let expected = [first.id.to_string(), call.id.to_string()];
    for id in [
        REQUEST,
        TRACE,
        GIVEN,
        "delivery-7",
        &expected[0],
        &expected[1],
    ] {
        let jobs = listed(&settings, "jobs", id);
        let found: Vec<&str> = jobs
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["id"].as_str().unwrap())
            .collect();
        assert_eq!(found, expected, "by {id}");
    }
    assert_eq!(
        listed(&settings, "jobs", "nobody"),
        Value::Array(Vec::new())
    );
    db.close().await;
    drop(processes);
    sandbox.stop().await;
}

#[tokio::test]
async fn a_trace_that_begins_here_has_the_id_of_its_job_and_what_is_no_header_counts_for_nothing() {
    let service = service().without_workers().start().await;
    let plain = order("orders/create", 1);
    let wrong = GIVEN.to_uppercase();
    for delivery in [
        plain.clone(),
        plain.clone().header("traceparent", wrong),
        plain
            .clone()
            .also("traceparent", GIVEN)
            .also("traceparent", GIVEN),
        plain.clone().header("X-Request-Id", REQUEST),
    ] {
        let answer = service.post(&delivery).await;
        assert_eq!(answer.status(), 200);
        let answered = answer.headers()["traceparent"].to_str().unwrap().to_owned();
        let last = rows(service.db(), "orders/create").await.pop().unwrap();
        assert_eq!(last.traceparent, None, "nothing is stored for it");
        assert_eq!(trace_of(&answered), last.id.simple().to_string());
    }
    // Other answers have it too.
    let answer = service
        .get("/livez")
        .header("traceparent", GIVEN)
        .send()
        .await
        .unwrap();
    let answered = answer.headers()["traceparent"].to_str().unwrap();
    assert_eq!(trace_of(answered), TRACE);
    service.stop().await;
}

/// Worked on together, with one statement a table, and still told apart.
#[tokio::test]
async fn deliveries_of_one_message_keep_their_traces() {
    let mut service = service().without_workers().start().await;
    let deliveries = (1..=20).map(|seed| {
        let traceparent = format!("00-{:032x}-b7ad6b7169203331-00", 0xabc0 + seed);
        order("orders/paid", seed).header("traceparent", traceparent)
    });
    // At the same time, so that they are stored together, and one message notifies of both.
    post_all(&service, &deliveries.collect::<Vec<_>>()).await;
    let mut given = BTreeMap::new();
    for row in rows(service.db(), "orders/paid").await {
        given.insert(row.id, trace_of(&row.traceparent.unwrap()));
    }
    let traces: BTreeSet<&String> = given.values().collect();
    assert_eq!(traces.len(), 20);
    service.start_workers();
    service.settled().await;
    let rows = service
        .db()
        .query(
            "select deliveries.id, events.traceparent from events
             join deliveries on deliveries.object_id = events.object_id
             where deliveries.kind = 'orders/paid'",
        )
        .fetch_all()
        .await
        .unwrap();
    assert!(rows.len() >= 40, "{}", rows.len());
    for row in rows {
        let job: Uuid = row.get("id").unwrap();
        let traceparent = traceparent(&row).unwrap();
        assert_eq!(trace_of(&traceparent), given[&job]);
        assert!(
            traceparent.contains(&format!("{:016x}", job.as_u64_pair().1)),
            "its job's span"
        );
    }
    service.stop().await;
}

/// The payments come with one message, and each moves another order.
#[tokio::test]
async fn a_payment_hands_its_trace_to_the_order_that_it_pays() {
    let mut before = service().start().await;
    for id in 1..=10 {
        let unpaid = body(id, 1, "pending");
        deliver(&before, &order_delivery("orders/create", &unpaid)).await;
    }
    before.halt().await;
    let backend = before.backend.clone();
    let mut service = service().without_workers().start_on(backend).await;
    let now = service.clock().now();
    let payments = (1..=10).map(|id| {
        let traceparent = format!("00-{:032x}-b7ad6b7169203331-00", 0xdef0 + id);
        captured(now, id, &id.to_string()).header("traceparent", traceparent)
    });
    post_all(&service, &payments.collect::<Vec<_>>()).await;
    service.start_workers();
    service.settled().await;
    let rows = service
        .db()
        .query("select object_id, traceparent from events where kind = 'order.paid'")
        .fetch_all()
        .await
        .unwrap();
    assert_eq!(rows.len(), 10);
    for row in rows {
        let order: String = row.get("object_id").unwrap();
        let order: i64 = order.parse().unwrap();
        let traceparent = traceparent(&row).unwrap();
        assert_eq!(trace_of(&traceparent), format!("{:032x}", 0xdef0 + order));
    }
    service.stop().await;
}
