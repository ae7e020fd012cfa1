//! The world outside: a payment provider, a storefront, an endpoint of the merchant, and the exchange of events. They stand
//! at the other end of the real clients of `providers`, and of the bus.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bus::Exchange;
use domain::envelope::Envelope;
use providers::wire::{Answering, Wire};
use reqwest::{Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use crate::director::{Schedule, Trouble};

/// Until when something goes wrong.
#[derive(Clone, Copy)]
struct Until(Instant);

impl Until {
    fn is_on(self) -> bool {
        Instant::now() < self.0
    }
}

/// What somebody has seen who follows events: of each object the events as they came, each once.
#[derive(Default)]
pub struct Seen {
    pub objects: BTreeMap<String, Vec<Uuid>>,
    events: BTreeSet<Uuid>,
}

impl Seen {
    pub fn comes(&mut self, object: &str, event: Uuid) {
        if self.events.insert(event) {
            self.objects
                .entry(object.to_owned())
                .or_default()
                .push(event);
        }
    }
}

pub struct World {
    wrong: BTreeMap<&'static str, Until>,
    refuses_one: bool,
    pub endpoint: Seen,
    pub exchange: Seen,
    pub reader: Seen,
    /// Each refund: the payment, and the key under which it was asked for.
    pub refunds: Vec<(String, String)>,
    /// Under which keys a failure is kept.
    kept_failures: BTreeSet<String>,
    /// The orders as the storefront has them.
    pub orders: BTreeMap<i64, Value>,
    /// The fulfilment orders that were fulfilled, with the key.
    pub fulfilments: Vec<(i64, String)>,
}

#[derive(Clone)]
pub struct Outside {
    schedule: Schedule,
    world: Arc<Mutex<World>>,
}

impl Outside {
    pub fn new(schedule: &Schedule) -> Self {
        Outside {
            schedule: schedule.clone(),
            world: Arc::new(Mutex::new(World {
                wrong: BTreeMap::new(),
                refuses_one: false,
                endpoint: Seen::default(),
                exchange: Seen::default(),
                reader: Seen::default(),
                refunds: Vec::new(),
                kept_failures: BTreeSet::new(),
                orders: BTreeMap::new(),
                fulfilments: Vec::new(),
            })),
        }
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Something goes wrong for so long.
    pub fn trouble(&self, trouble: Trouble, length: Duration) {
        let name = match trouble {
            Trouble::BrokerAway => "broker",
            Trouble::EventsRefused => "events",
            Trouble::AnswerLost => "answers",
            Trouble::PaymentSlow => "payment slow",
            Trouble::PaymentAnswersLost => "payment answers",
            Trouble::PaymentFails => "payment",
            Trouble::PaymentKeepsFailure => "payment keeps",
            Trouble::StorefrontFails => "storefront",
            Trouble::StorefrontAnswersLost => "storefront answers",
            Trouble::EndpointRefuses => "endpoint",
            Trouble::EndpointAnswersLost => "endpoint answers",
            Trouble::EndpointRefusesOne => {
                self.world().refuses_one = true;
                return;
            }
            Trouble::LoseMessage | Trouble::RepeatMessage | Trouble::Pause => return,
        };
        self.world()
            .wrong
            .insert(name, Until(Instant::now() + length));
    }

    pub fn is_wrong(&self, name: &str) -> bool {
        self.world().wrong.get(name).is_some_and(|it| it.is_on())
    }

    fn answer_now(&self, request: &Request) -> Answer {
        let url = request.url();
        let body = request
            .body()
            .and_then(|it| it.as_bytes())
            .unwrap_or_default();
        let header = |name: &str| {
            let value = request.headers().get(name);
            value.and_then(|it| it.to_str().ok()).map(ToOwned::to_owned)
        };
        let key = header("Idempotency-Key");
        match (url.host_str().unwrap_or_default(), url.path()) {
            ("payment.example", "/v1/refunds") if request.method() == "POST" => {
                let form: BTreeMap<String, String> =
                    reqwest::Url::parse(&format!("http://f/?{}", String::from_utf8_lossy(body)))
                        .unwrap()
                        .query_pairs()
                        .into_owned()
                        .collect();
                self.refund(&form["payment_intent"], key)
            }
            ("payment.example", "/v1/refunds") => {
                let payment = url.query_pairs().find(|(name, _)| name == "payment_intent");
                self.refunds_of(&payment.unwrap().1)
            }
            ("storefront.example", path) if path.ends_with("fulfillment_orders.json") => {
                let order: i64 = path.split('/').nth(2).unwrap().parse().unwrap();
                let is_done = self.world().fulfilments.iter().any(|(of, _)| *of == order);
                let status = if is_done { "closed" } else { "open" };
                self.of_storefront(
                    200,
                    &json!({"fulfillment_orders": [{"id": order, "status": status}]}),
                )
            }
            ("storefront.example", path) if path.starts_with("/orders/") => {
                let order = path
                    .trim_start_matches("/orders/")
                    .trim_end_matches(".json");
                let order = self.world().orders[&order.parse().unwrap()].clone();
                self.of_storefront(200, &json!({ "order": order }))
            }
            ("storefront.example", "/fulfillments.json") => {
                self.fulfil(body, &key.unwrap_or_default())
            }
            ("endpoint.example", _) => self.webhook(body, &header("webhook-id").unwrap()),
            (host, path) => panic!("nobody answers for {host}{path}"),
        }
    }

    fn refund(&self, payment: &str, key: Option<String>) -> Answer {
        let fails = self.is_wrong("payment");
        let keeps = self.is_wrong("payment keeps");
        let mut world = self.world();
        // Without a key nothing is recognized.
        let nth = world.refunds.len();
        let key = key.unwrap_or_else(|| format!("none {nth}"));
        if world.kept_failures.contains(&key) {
            return Answer::kept_failure();
        }
        let is_keyed = !key.starts_with("none");
        let known = world.refunds.iter().position(|(_, of)| *of == key);
        if known.is_none() && (fails || keeps) {
            if keeps && is_keyed {
                world.kept_failures.insert(key);
            }
            return Answer::of(500, &json!({"error": {"type": "api_error"}}));
        }
        let nth = known.unwrap_or_else(|| {
            world.refunds.push((payment.to_owned(), key));
            world.refunds.len() - 1
        });
        let times = world.refunds.iter().filter(|(of, _)| of == payment).count();
        drop(world);
        self.schedule.note(|| format!("refund of {payment}"));
        if times > 1 {
            self.schedule
                .wrong(format!("{payment} was refunded twice (I2)"));
        }
        let lost = self.is_wrong("payment answers");
        Answer {
            is_lost: lost,
            is_slow: self.is_wrong("payment slow"),
            ..Answer::of(200, &refund(nth, payment))
        }
    }

    fn refunds_of(&self, payment: &str) -> Answer {
        let world = self.world();
        let all = world.refunds.iter().enumerate();
        let data: Vec<Value> = all
            .filter(|(_, (of, _))| of == payment)
            .map(|(nth, _)| refund(nth, payment))
            .collect();
        Answer::of(200, &json!({"object": "list", "data": data}))
    }

    fn of_storefront(&self, status: u16, body: &Value) -> Answer {
        if self.is_wrong("storefront") {
            return Answer::of(503, &json!({}));
        }
        Answer {
            is_lost: self.is_wrong("storefront answers"),
            ..Answer::of(status, body)
        }
    }

    /// Of one open fulfilment order, one fulfilment is made for each key.
    fn fulfil(&self, body: &[u8], key: &str) -> Answer {
        if self.is_wrong("storefront") {
            return Answer::of(503, &json!({}));
        }
        let body: Value = serde_json::from_slice(body).unwrap();
        let lines = &body["fulfillment"]["line_items_by_fulfillment_order"][0];
        let order = lines["fulfillment_order_id"].as_i64().unwrap();
        let mut world = self.world();
        if !world.fulfilments.iter().any(|(_, of)| of == key) {
            world.fulfilments.push((order, key.to_owned()));
        }
        let times = world
            .fulfilments
            .iter()
            .filter(|(of, _)| *of == order)
            .count();
        drop(world);
        self.schedule.note(|| format!("fulfilment of {order}"));
        if times > 1 {
            self.schedule
                .wrong(format!("order {order} was fulfilled twice (I2)"));
        }
        self.of_storefront(201, &json!({"fulfillment": {"id": order * 10}}))
    }

    fn webhook(&self, body: &[u8], id: &str) -> Answer {
        let refuses = self.is_wrong("endpoint");
        let lost = self.is_wrong("endpoint answers");
        let event: Value = serde_json::from_slice(body).unwrap();
        let object = event["object_id"].as_str().unwrap();
        let mut world = self.world();
        let refuses = refuses || std::mem::take(&mut world.refuses_one);
        self.schedule.note(|| {
            format!(
                "endpoint: {} of {object}, refused: {refuses}",
                event["type"]
            )
        });
        if refuses {
            return Answer::of(500, &json!({}));
        }
        world.endpoint.comes(object, id.parse().unwrap());
        // It is the client of the network that would give up. So a host in between does.
        Answer::of(if lost { 504 } else { 200 }, &json!({}))
    }
}

fn refund(nth: usize, payment: &str) -> Value {
    let order = payment.trim_start_matches("pi_");
    json!({"id": format!("re_{nth}"), "amount": 3000, "currency": "usd", "status": "succeeded",
           "metadata": {"order_id": order}})
}

struct Answer {
    status: u16,
    body: String,
    is_kept: bool,
    is_lost: bool,
    is_slow: bool,
}

impl Answer {
    fn of(status: u16, body: &Value) -> Self {
        Answer {
            status,
            body: body.to_string(),
            is_kept: false,
            is_lost: false,
            is_slow: false,
        }
    }

    fn kept_failure() -> Self {
        Answer {
            is_kept: true,
            ..Answer::of(500, &json!({"error": {"type": "api_error"}}))
        }
    }
}

/// How long it takes until a client sees that there is no answer.
const LOST: Duration = Duration::from_secs(100);

impl Wire for Outside {
    fn answer(&self, request: Request) -> Answering {
        let outside = self.clone();
        let (there, back) = {
            let mut state = self.schedule.state();
            let random = &mut state.random;
            (random.between(0, 30), random.between(0, 30))
        };
        Box::pin(async move {
            let millis = |it: i64| Duration::from_millis(it.cast_unsigned());
            tokio::time::sleep(millis(there)).await;
            let answer = outside.answer_now(&request);
            let pause = match () {
                () if answer.is_lost => LOST,
                () if answer.is_slow => Duration::from_millis(4_500),
                () => millis(back),
            };
            tokio::time::sleep(pause).await;
            let mut response = axum::http::Response::new(answer.body);
            *response.status_mut() = StatusCode::from_u16(answer.status).unwrap();
            if answer.is_kept {
                let yes = "true".parse().unwrap();
                response.headers_mut().insert("Idempotent-Replayed", yes);
            }
            Response::from(response)
        })
    }
}

impl Exchange for Outside {
    fn is_up(&self) -> bool {
        !self.is_wrong("broker")
    }

    fn takes(&self, event: &Envelope) -> bool {
        let is_refused = self.is_wrong("events") && self.schedule.state().random.once_in(2);
        let takes = self.is_up() && !is_refused;
        self.schedule.note(|| {
            format!(
                "exchange: {} of {}, taken: {takes}",
                event.kind, event.object_id
            )
        });
        if takes {
            self.world().exchange.comes(&event.object_id, event.id);
        }
        takes
    }
}
