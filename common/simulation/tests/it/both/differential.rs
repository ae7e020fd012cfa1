//! The model is held to the code: the same random statements are made by the functions of the store and by those of the
//! model, and all rows are compared after each transaction. With `TEST_BACKEND=distributed` the store is on PostgreSQL.
//!
//! Transactions come one after the other here. What several at a time do to each other, locks and their waiting, is the
//! model's own; that the product behaves so is shown by its tests on PostgreSQL.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::Bytes;
use config::Outlet;
use domain::endpoint::Secret;
use domain::event::{Event, OrderEvent, Pattern};
use domain::job::{self, JobId, Queue, Source, State};
use domain::order::OrderKey;
use domain::privacy::Keys;
use domain::time::Timestamp;
use simulation::Random;
use simulation::database::{Database, TxId};
use simulation::rows::{self, Kind, LeaseName, RefundState};
use simulation::tables;
use store::broker_cursor;
use store::jobs::{NewJob, missed};
use store::refunds::NewRefund;
use store::sql::{Db, Row, Tx};
use store::webhook_ids::{self, DeliveryId};
use store::{endpoints, event_head, events, jobs, leases, migrations, refunds};
use tempfile::TempDir;
use uuid::Uuid;

const START: i64 = 1_800_000_000_000;
const SHOP: &str = "shop.example";
const PAYMENT: &str = "pi_1";
const ENDPOINT: Uuid = Uuid::from_u128(1);
const TTL: Duration = Duration::from_secs(20);
const DELIVERIES: usize = 6;
const ORDERS: usize = 2;
/// Transactions of each test.
const TRANSACTIONS: usize = 400;
/// More than there are rows.
const ALL: usize = 10_000;

#[expect(
    clippy::disallowed_methods,
    reason = "tests choose their backend by environment"
)]
fn postgres() -> Option<String> {
    let distributed = std::env::var("TEST_BACKEND").is_ok_and(|backend| backend == "distributed");
    distributed.then(|| std::env::var("TEST_DATABASE_URL").expect("TEST_DATABASE_URL is set"))
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// The same database twice: a real one, and the model's.
struct Pair {
    db: Db,
    model: Database,
    random: Random,
    now: Timestamp,
    keys: Keys,
    /// The claims that were made, the last one last.
    claimed: Vec<tables::jobs::Claimed>,
    until: Timestamp,
    history: Vec<String>,
    server: Option<(Db, &'static str)>,
    _folder: TempDir,
}

/// The id of the job with this key. Ids sort as their keys do.
fn job_id(key: usize) -> JobId {
    Uuid::from_u128((1_u128 << 100) | key as u128)
}

fn key_of(id: Uuid) -> usize {
    usize::try_from(id.as_u128() & 0xffff_ffff).unwrap()
}

/// The id of an event: its time, and then its key.
fn event_id((at, key): (Timestamp, usize)) -> Uuid {
    Uuid::from_u128((u128::from(at.0.unsigned_abs()) << 80) | key as u128)
}

fn ids(keys: &[usize]) -> Vec<JobId> {
    keys.iter().map(|key| job_id(*key)).collect()
}

fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Delivery => "orders/paid",
        Kind::Refund => "refunds/issue",
        Kind::Webhook => "endpoints/send",
    }
}

fn kind_named(name: &str) -> Kind {
    let mut kinds = Kind::ALL.into_iter();
    kinds.find(|kind| kind_name(*kind) == name).unwrap()
}

fn order_key(order: usize) -> OrderKey {
    (SHOP.to_owned(), i64::try_from(order).unwrap())
}

fn refund_state(state: RefundState) -> refunds::State {
    match state {
        RefundState::Requested => refunds::State::Requested,
        RefundState::Issued => refunds::State::Issued,
        RefundState::Failed => refunds::State::Failed,
    }
}

fn delivery_id(delivery: usize) -> String {
    format!("delivery-{delivery}")
}

fn remembered_id(delivery: usize) -> DeliveryId {
    DeliveryId::new(Source::Storefront, &delivery_id(delivery))
}

const LEASES: [(LeaseName, &str); 2] = [(LeaseName::Sweep, "sweep"), (LeaseName::Events, "events")];

fn holder_id(holder: u32) -> Uuid {
    Uuid::from_u128(u128::from(holder))
}

fn new_job(key: usize, job: &rows::Job) -> NewJob {
    NewJob {
        id: job_id(key),
        queue: Queue::Orders,
        kind: kind_name(job.kind).to_owned(),
        source: Source::Storefront,
        shop: None,
        external_id: job.delivery.map(delivery_id),
        object_id: Some(job.order.to_string()),
        subject: None,
        api_version: None,
        body: Bytes::new(),
        state: job.state,
        run_at: job.run_at,
        notified_at: job.notified_at,
        deadline_at: job.deadline_at,
        trace: None,
        traceparent: None,
        created_at: job.created_at,
    }
}

fn time(row: &Row, column: &str) -> Option<Timestamp> {
    row.get::<Option<i64>>(column).unwrap().map(Timestamp)
}

impl Pair {
    async fn new(seed: u64) -> Pair {
        let folder = tempfile::tempdir().unwrap();
        let (db, server) = match postgres() {
            None => {
                let url = format!("sqlite://{}/waybill.db", folder.path().display());
                (Db::open(&url, 4).await.unwrap(), None)
            }
            Some(url) => {
                let name = leak(format!("waybill_model_{}", Uuid::now_v7().simple()));
                let server = Db::open(&url, 1).await.unwrap();
                let create = leak(format!("create database {name}"));
                server.on_server(&[create]).await.unwrap();
                let (place, _) = url.rsplit_once('/').unwrap();
                let db = Db::open(&format!("{place}/{name}"), 4).await.unwrap();
                (db, Some((server, name)))
            }
        };
        migrations::apply(&db).await.unwrap();
        let mut pair = Pair {
            db,
            model: Database::default(),
            random: Random::new(seed),
            now: Timestamp(START),
            keys: Keys::new(vec![7; 32]),
            claimed: Vec::new(),
            until: Timestamp(START),
            history: Vec::new(),
            server,
            _folder: folder,
        };
        pair.add_endpoint().await;
        pair.add_orders().await;
        pair
    }

    async fn end(self) {
        self.db.close().await;
        if let Some((server, name)) = self.server {
            let drop = leak(format!("drop database {name} with (force)"));
            server.on_server(&[drop]).await.unwrap();
            server.close().await;
        }
    }

    async fn add_endpoint(&mut self) {
        let new = endpoints::NewEndpoint {
            id: ENDPOINT,
            url: "https://shop.example/hooks",
            types: &[Pattern::all()],
            secret: &Secret::new([7; 32]),
            position: 0,
        };
        let mut tx = self.db.begin().await.unwrap();
        endpoints::insert(&mut tx, &self.keys, new, self.now)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        self.model.endpoints.put(0, rows::Endpoint { position: 0 });
    }

    /// A refund belongs to an order that is there.
    async fn add_orders(&mut self) {
        let mut tx = self.db.begin().await.unwrap();
        for order in 0..ORDERS {
            let (shop, id) = order_key(order);
            let insert = tx.query(
                "insert into orders (shop, id, version_at, created_at, updated_at)
                 values ($1, $2, $3, $3, $3)",
            );
            let insert = insert.bind(shop).bind(id).bind(START);
            insert.execute().await.unwrap();
        }
        tx.commit().await.unwrap();
    }

    fn note(&mut self, what: String) {
        self.history.push(what);
    }

    /// Some of the keys of the jobs, and sometimes one that is no job.
    fn some_jobs(&mut self) -> Vec<usize> {
        let all: Vec<usize> = self.model.jobs.all().map(|(key, _)| key).collect();
        let mut some = Vec::new();
        for _ in 0..self.random.below(4) {
            if !all.is_empty() {
                some.push(all[self.random.below(all.len())]);
            }
        }
        some.sort_unstable();
        some.dedup();
        some
    }

    fn a_job(&mut self) -> usize {
        let all: Vec<usize> = self.model.jobs.all().map(|(key, _)| key).collect();
        if all.is_empty() {
            0
        } else {
            all[self.random.below(all.len())]
        }
    }

    fn a_claim(&mut self) -> tables::jobs::Claimed {
        if self.claimed.is_empty() || self.random.once_in(6) {
            return tables::jobs::Claimed {
                id: self.a_job(),
                token: self.random.between(1, 2),
                runs: 1,
            };
        }
        let last = self.claimed.len();
        let first = last.saturating_sub(6);
        self.claimed[first + self.random.below(last - first)]
    }

    fn later(&mut self, millis: i64) -> Timestamp {
        Timestamp(self.now.0 + self.random.between(0, millis))
    }

    /// One transaction of a few statements, with a savepoint now and then, committed or rolled back.
    async fn transaction(&mut self) {
        self.now = self.later(4_000);
        let mut tx = self.db.begin().await.unwrap();
        let open = self.model.begin().unwrap();
        self.note(format!("at {}: begin", self.now.0 - START));
        for _ in 0..=self.random.below(3) {
            let is_undone = self.random.once_in(4);
            let savepoint = self.model.savepoint(open).unwrap();
            if is_undone {
                tx.savepoint().await.unwrap();
            }
            self.statement(&mut tx, open).await;
            if is_undone {
                self.note("undo to the savepoint".to_owned());
                tx.undo_to_savepoint().await.unwrap();
                self.model.undo_to(open, &savepoint).unwrap();
            }
        }
        if self.random.once_in(5) {
            self.note("rollback".to_owned());
            tx.rollback().await.unwrap();
            self.model.rollback(open);
        } else {
            self.note("commit".to_owned());
            tx.commit().await.unwrap();
            self.model.commit(open).unwrap();
        }
    }

    async fn statement(&mut self, tx: &mut Tx, open: TxId) {
        match self.random.below(20) {
            0..4 => self.accept(tx, open).await,
            4 => self.finish(tx, open).await,
            5 => self.claim(tx, open).await,
            6 | 7 => self.end_claimed(tx, open).await,
            8 => self.fail(tx, open).await,
            9 => self.defer(tx, open).await,
            10 => self.begin_again(tx, open).await,
            11 => self.count(tx, open).await,
            12 | 13 => self.sweep(tx, open).await,
            14 | 15 => self.refund(tx, open).await,
            16 | 17 => self.add_event(tx, open).await,
            _ => self.webhook(tx, open).await,
        }
    }

    /// `intake::write`: remembers ids, and inserts the jobs of those that are new.
    async fn accept(&mut self, tx: &mut Tx, open: TxId) {
        let mut deliveries: Vec<usize> = Vec::new();
        for _ in 0..=self.random.below(3) {
            deliveries.push(self.random.below(DELIVERIES));
        }
        deliveries.sort_unstable();
        deliveries.dedup();
        let mut claims = Vec::new();
        for delivery in deliveries {
            let job = self.model.jobs.reserve();
            claims.push(tables::webhook_ids::Claim { delivery, job });
        }
        let fresh =
            tables::webhook_ids::remember(&mut self.model, open, &claims, self.now, TTL, true);
        let fresh = fresh.unwrap();
        self.note(format!("remember {claims:?}: {fresh:?}"));
        let real = claims.iter().map(|claim| webhook_ids::Claim {
            id: remembered_id(claim.delivery),
            job: job_id(claim.job),
        });
        let mut real: Vec<webhook_ids::Claim> = real.collect();
        real.sort_unstable();
        let remembered = webhook_ids::remember(tx, &real, self.now, TTL)
            .await
            .unwrap();
        let remembered = sorted(remembered.into_iter().map(key_of).collect());
        self.same("remember", &remembered, &fresh);
        let mut new = Vec::new();
        for claim in claims.iter().filter(|it| fresh.contains(&it.job)) {
            let kind = Kind::ALL[self.random.below(3)];
            let now = self.now;
            let run_at = if self.random.once_in(3) {
                self.later(60_000)
            } else {
                now
            };
            let job = rows::Job {
                delivery: Some(claim.delivery),
                run_at,
                notified_at: self.random.once_in(2).then_some(now),
                ..rows::Job::new(kind, self.random.below(ORDERS), now)
            };
            new.push((claim.job, job));
        }
        tables::jobs::insert(&mut self.model, open, &new).unwrap();
        let real: Vec<NewJob> = new.iter().map(|(key, job)| new_job(*key, job)).collect();
        jobs::insert(tx, &real.iter().collect::<Vec<_>>())
            .await
            .unwrap();
    }

    async fn finish(&mut self, tx: &mut Tx, open: TxId) {
        let some = self.some_jobs();
        let finished = tables::jobs::finish(&mut self.model, open, &some, self.now, true).unwrap();
        self.note(format!("finish {some:?}: {finished:?}"));
        let real = jobs::finish(tx, &ids(&some), self.now).await.unwrap();
        self.same(
            "finish",
            &sorted(real.into_iter().map(key_of).collect()),
            &finished,
        );
    }

    async fn claim(&mut self, tx: &mut Tx, open: TxId) {
        let some = self.some_jobs();
        self.until = self.now.plus(job::LEASE);
        let claimed =
            tables::jobs::claim(&mut self.model, open, &some, self.now, self.until).unwrap();
        self.note(format!("claim {some:?}: {claimed:?}"));
        let mut real = jobs::claim(tx, &ids(&some), self.now, self.until)
            .await
            .unwrap();
        real.sort_by_key(|it| it.id);
        let real: Vec<_> = real
            .into_iter()
            .map(|it| tables::jobs::Claimed {
                id: key_of(it.id),
                token: it.token,
                runs: it.runs,
            })
            .collect();
        self.same("claim", &real, &claimed);
        self.claimed.extend(claimed);
    }

    async fn end_claimed(&mut self, tx: &mut Tx, open: TxId) {
        let claim = self.a_claim();
        let id = job_id(claim.id);
        let (now, until) = (self.now, self.until);
        let (what, model, real) = match self.random.below(3) {
            0 => {
                let (key, token) = (claim.id, claim.token);
                let model =
                    tables::jobs::finish_claimed(&mut self.model, open, key, token, now, true);
                (
                    "finish_claimed",
                    model,
                    jobs::finish_claimed(tx, id, token, now).await,
                )
            }
            1 => {
                let model = tables::jobs::has_claim(&mut self.model, open, claim.id, claim.token);
                (
                    "has_claim",
                    model,
                    jobs::has_claim(tx, id, claim.token).await,
                )
            }
            _ => {
                let run_at = self.later(5_000);
                let model =
                    tables::jobs::defer_claimed(&mut self.model, open, claim, until, run_at);
                let real = jobs::Claimed {
                    id,
                    token: claim.token,
                    runs: claim.runs,
                };
                let real = jobs::defer_claimed(tx, real, until, run_at, "later", true).await;
                ("defer_claimed", model, real)
            }
        };
        self.note(format!("{what} {claim:?}: {model:?}"));
        self.same(what, &real.unwrap(), &model.unwrap());
    }

    /// `Worker::write_failure`.
    async fn fail(&mut self, tx: &mut Tx, open: TxId) {
        let (key, now) = (self.a_job(), self.now);
        let attempts = self.random.between(1, 12);
        let queue = Kind::ALL[self.random.below(3)].queue();
        let deadline = job::deadline(queue, attempts, None, now);
        let next = job::next(queue, attempts, now, deadline, self.random.jitter());
        let (model, real) = match next {
            job::Next::RetryAt(at) => (
                tables::jobs::retry(&mut self.model, open, key, attempts, at, deadline),
                jobs::retry(tx, job_id(key), attempts, at, deadline, "failed").await,
            ),
            job::Next::Dead => (
                tables::jobs::dead_letter(&mut self.model, open, key, attempts, now),
                jobs::dead_letter(tx, job_id(key), attempts, now, "failed").await,
            ),
        };
        self.note(format!("job {key} fails: {next:?}: {model:?}"));
        self.same("fail", &real.unwrap(), &model.unwrap());
    }

    async fn defer(&mut self, tx: &mut Tx, open: TxId) {
        let run_at = self.later(20_000);
        if self.random.once_in(2) {
            let some = self.some_jobs();
            self.note(format!("defer {some:?}"));
            tables::jobs::defer(&mut self.model, open, &some, self.now, run_at).unwrap();
            jobs::defer(tx, &ids(&some), self.now, run_at, "later")
                .await
                .unwrap();
        } else {
            let key = self.a_job();
            self.note(format!("release {key}"));
            tables::jobs::release(&mut self.model, open, key, run_at).unwrap();
            jobs::release(tx, job_id(key), run_at).await.unwrap();
        }
    }

    async fn begin_again(&mut self, tx: &mut Tx, open: TxId) {
        let (key, now) = (self.a_job(), self.now);
        let (what, model, real) = if self.random.once_in(2) {
            let model = tables::jobs::requeue(&mut self.model, open, key, now);
            ("requeue", model, jobs::requeue(tx, job_id(key), now).await)
        } else {
            let model = tables::jobs::wake(&mut self.model, open, key, now);
            ("wake", model, jobs::wake(tx, job_id(key), now).await)
        };
        self.note(format!("{what} {key}: {model:?}"));
        self.same(what, &real.unwrap(), &model.unwrap());
    }

    async fn count(&mut self, tx: &mut Tx, open: TxId) {
        let key = self.a_job();
        let model = tables::jobs::begin_attempt(&mut self.model, open, key).unwrap();
        self.note(format!("begin_attempt {key}: {model:?}"));
        let real = jobs::begin_attempt(tx, job_id(key)).await.unwrap();
        self.same("begin_attempt", &real, &model);
    }

    async fn sweep(&mut self, tx: &mut Tx, open: TxId) {
        let now = self.now;
        if self.random.once_in(2) {
            let kind = Kind::ALL[self.random.below(3)];
            let model = tables::missed::take(&mut self.model, open, kind, now, ALL).unwrap();
            self.note(format!("take {kind:?}: {model:?}"));
            let mut turn = String::new();
            let taken = missed::take(tx, Queue::Orders, kind_name(kind), &mut turn, now, ALL);
            let real = taken
                .await
                .unwrap()
                .iter()
                .map(|it| key_of(it.id))
                .collect();
            self.same("take", &sorted(real), &sorted(model));
            return;
        }
        let before = now.minus(Duration::from_secs(3));
        let future = now.plus(Duration::from_mins(1));
        let model = tables::missed::take_lost(&mut self.model, open, before, future, now, ALL);
        let model = sorted(
            model
                .unwrap()
                .iter()
                .map(|it| (it.id, it.notified_at))
                .collect(),
        );
        self.note(format!("take_lost: {model:?}"));
        let limit = i64::try_from(ALL).unwrap();
        let lost = missed::take_lost(tx, Queue::Orders, before, future, now, limit);
        let real = lost.await.unwrap();
        let real = real
            .iter()
            .map(|it| (key_of(it.id), it.notified_at.unwrap()));
        self.same("take_lost", &sorted(real.collect()), &model);
    }

    async fn refund(&mut self, tx: &mut Tx, open: TxId) {
        let order = self.random.below(ORDERS);
        let key = order_key(order);
        if self.random.once_in(3) {
            self.note(format!("save a refund of order {order}"));
            tables::refunds::save(&mut self.model, open, order).unwrap();
            let new = NewRefund {
                payment_id: PAYMENT,
                state: refunds::State::Requested,
                amount_minor: Some(100),
                currency: Some("EUR".to_owned()),
            };
            refunds::save(tx, &key, &[new], self.now).await.unwrap();
            return;
        }
        let state = match self.random.below(5) {
            0 => RefundState::Issued,
            _ => RefundState::Failed,
        };
        let model = tables::refunds::answered(&mut self.model, open, order, state).unwrap();
        self.note(format!("the refund of order {order} is {state:?}: {model}"));
        let answer = refunds::Answer {
            state: refund_state(state),
            amount_minor: None,
            provider_id: None,
        };
        let real = refunds::answered(tx, &key, PAYMENT, &answer, self.now)
            .await
            .unwrap();
        self.same("answered", &real, &model);
    }

    async fn add_event(&mut self, tx: &mut Tx, open: TxId) {
        let order = self.random.below(ORDERS);
        let id_at = self.later(3);
        let event = rows::Event {
            id_at,
            job: 0,
            order,
            number: 0,
            position: None,
        };
        let key = tables::events::insert(&mut self.model, open, event).unwrap();
        self.note(format!("event {key} of order {order}"));
        let order_id = i64::try_from(order).unwrap();
        let new = events::NewEvent {
            id: event_id((id_at, key)),
            event: Event::of_order(SHOP, order_id, OrderEvent::Fulfilled),
            traceparent: None,
        };
        events::insert(tx, &[new], self.now).await.unwrap();
    }

    /// The waiting events of the endpoint.
    async fn webhook(&mut self, tx: &mut Tx, open: TxId) {
        let endpoint = tables::endpoints::lock(&mut self.model, open)
            .unwrap()
            .unwrap();
        let real = endpoints::lock(tx, ENDPOINT).await.unwrap().unwrap();
        self.same("the cursor", &real.position, &endpoint.position);
        let key = self.random.below(12);
        if self.model.outgoing_webhooks.seen(open, key).is_some() || self.random.once_in(4) {
            let model = tables::endpoints::remove_waiting(&mut self.model, open, key).unwrap();
            self.note(format!("remove_waiting {key}: {model:?}"));
            let event = Uuid::from_u128(key as u128);
            let real = endpoints::remove_waiting(tx, ENDPOINT, event)
                .await
                .unwrap();
            self.same("remove_waiting", &real.map(key_of), &model);
            return;
        }
        let position = endpoint.position + 1;
        self.note(format!("event {key} waits at {position}"));
        tables::endpoints::move_cursor(&mut self.model, open, position).unwrap();
        endpoints::move_cursor(tx, ENDPOINT, position)
            .await
            .unwrap();
        let order = self.random.below(ORDERS);
        let waiting = rows::Outgoing {
            position,
            order,
            job: self.random.below(50),
        };
        tables::endpoints::insert_waiting(&mut self.model, open, &[(key, waiting)]).unwrap();
        let real = endpoints::Waiting {
            event_id: Uuid::from_u128(key as u128),
            position,
            object: (SHOP.to_owned(), order.to_string()),
            job_id: job_id(waiting.job),
        };
        endpoints::insert_waiting(tx, ENDPOINT, &[real])
            .await
            .unwrap();
        let model = tables::endpoints::objects(&self.model, Some(open)).unwrap();
        let model = model.iter().map(ToString::to_string).collect();
        let real = endpoints::waiting(tx, ENDPOINT).await.unwrap();
        let real = real.into_iter().map(|(_, object)| object).collect();
        self.same("waiting", &sorted::<String>(real), &sorted(model));
    }

    /// A statement that has a transaction of its own, or only reads.
    async fn alone(&mut self) {
        self.now = self.later(2_000);
        match self.random.below(8) {
            0 | 1 => self.read_jobs().await,
            2 => self.clear().await,
            3 | 4 => self.lease().await,
            5 => self.try_refund().await,
            _ => self.relay().await,
        }
    }

    async fn read_jobs(&mut self) {
        let (some, now) = (self.some_jobs(), self.now);
        let model = tables::jobs::ready(&self.model, &some, now).unwrap();
        let model: Vec<_> = model
            .into_iter()
            .map(|(key, it)| {
                (
                    key,
                    it.attempts,
                    it.unfinished_attempts,
                    it.deadline_at,
                    it.created_at,
                )
            })
            .collect();
        self.note(format!("ready {some:?}"));
        let real = jobs::ready(&self.db, &ids(&some), now).await.unwrap();
        let real: Vec<_> = real
            .into_iter()
            .map(|it| {
                (
                    key_of(it.id),
                    it.attempts,
                    it.unfinished_attempts,
                    it.deadline_at,
                    it.created_at,
                )
            })
            .collect();
        self.same("ready", &real, &model);
        let model = tables::missed::look(&self.model, now).unwrap();
        let kinds = model.kinds.into_iter();
        let kinds = kinds.map(|kind| kind_name(kind).to_owned()).collect();
        let real = missed::look(&self.db, Queue::Orders, now).await.unwrap();
        self.same("kinds", &sorted(real.kinds), &sorted(kinds));
        self.same("notified", &real.notified, &model.notified);
    }

    /// Makes a statement in a transaction of the model's own.
    fn single<T>(
        &mut self,
        statement: impl FnOnce(&mut Database, TxId) -> simulation::database::Result<T>,
    ) -> T {
        let tx = self.model.begin().unwrap();
        let result = statement(&mut self.model, tx).unwrap();
        self.model.commit(tx).unwrap();
        result
    }

    async fn clear(&mut self) {
        let some = self.some_jobs();
        self.note(format!("clear_notified {some:?}"));
        self.single(|db, tx| tables::jobs::clear_notified(db, tx, &some));
        jobs::clear_notified(&self.db, &ids(&some)).await.unwrap();
    }

    async fn lease(&mut self) {
        let (name, real_name) = LEASES[self.random.below(2)];
        let holder = u32::try_from(self.random.between(1, 2)).unwrap();
        // Sometimes the clock of the one who takes it is wrong.
        let ahead = if self.random.once_in(8) { 120_000 } else { 0 };
        let now = Timestamp(self.now.0 + ahead);
        let until = now.plus(Duration::from_secs(10));
        self.note(format!("lease {name:?} of {holder}, {ahead} ms ahead"));
        let model = tables::leases::is_held(&self.model, name, now).unwrap();
        let real = leases::is_held(&self.db, real_name, now).await.unwrap();
        self.same("is_held", &real, &model);
        let id = holder_id(holder);
        if self.random.once_in(4) {
            self.single(|db, tx| tables::leases::release(db, tx, name, holder));
            leases::release(&self.db, real_name, id).await.unwrap();
            return;
        }
        let model =
            self.single(|db, tx| tables::leases::take(db, tx, name, holder, (now, until), true));
        let real = leases::take(&self.db, real_name, id, now, until)
            .await
            .unwrap();
        self.same("take a lease", &real, &model);
    }

    async fn try_refund(&mut self) {
        let (order, now) = (self.random.below(ORDERS), self.now);
        let key = order_key(order);
        let model = self.single(|db, tx| tables::refunds::begin_try(db, tx, order, now));
        self.note(format!("begin_try of order {order}: {model:?}"));
        let real = refunds::begin_try(&self.db, &key, PAYMENT, now)
            .await
            .unwrap();
        let real = real.map(|it| (it.key_number, it.is_first));
        self.same(
            "begin_try",
            &real,
            &model.map(|it| (it.key_number, it.is_first)),
        );
        if let Some(tried) = model
            && self.random.once_in(3)
        {
            let number = tried.key_number + 1;
            self.note(format!("try_again under {number}"));
            self.single(|db, tx| tables::refunds::try_again(db, tx, order, number, now));
            refunds::try_again(&self.db, &key, PAYMENT, number, now)
                .await
                .unwrap();
        }
    }

    /// What publisher, placer and readers do with events.
    async fn relay(&mut self) {
        let limit = 1 + self.random.below(5);
        let most = i64::try_from(limit).unwrap();
        if self.random.once_in(2) {
            let outlet = if limit.is_multiple_of(2) {
                Outlet::Broker
            } else {
                Outlet::Database
            };
            let model = if tables::event_head::waits(&self.model).unwrap() {
                self.single(|db, tx| {
                    tables::event_head::place(db, tx, limit, outlet == Outlet::Broker)
                })
            } else {
                0
            };
            self.note(format!("place {limit}, {outlet:?}: {model}"));
            let real = event_head::place(&self.db, most, outlet).await;
            let real = real.unwrap().len();
            self.same("place", &real, &model);
        }
        let newest = tables::event_head::newest(&self.model).unwrap();
        self.same(
            "newest",
            &event_head::newest(&self.db).await.unwrap(),
            &newest,
        );
        let position = self.random.between(0, newest.max(1));
        let model = tables::events::placed_after(&self.model, position, limit).unwrap();
        let real = events::placed_after(&self.db, position, most)
            .await
            .unwrap();
        let real: Vec<_> = real
            .iter()
            .map(|it| (key_of(it.id), Some(it.position)))
            .collect();
        let model: Vec<_> = model.iter().map(|(key, it)| (*key, it.position)).collect();
        self.same("placed_after", &real, &model);
        let cursor = tables::broker_cursor::position(&self.model).unwrap();
        let real = broker_cursor::position(&self.db).await.unwrap();
        self.same("the broker's cursor", &real, &cursor);
        let model = tables::events::placed_after(&self.model, cursor, limit).unwrap();
        let model: Vec<_> = model.iter().map(|(key, it)| (it.position, *key)).collect();
        let real = events::after(&self.db, cursor, most).await.unwrap();
        let real: Vec<_> = real
            .iter()
            .map(|(position, it)| (Some(*position), key_of(it.id)))
            .collect();
        self.same("after", &real, &model);
        if self.random.once_in(2) {
            let position = self.random.between(0, newest.max(1));
            self.note(format!("advance the broker's cursor to {position}"));
            self.single(|db, tx| tables::broker_cursor::advance(db, tx, position));
            broker_cursor::advance(&self.db, position).await.unwrap();
        }
    }

    /// Compares the result of a statement.
    fn same<T: PartialEq + std::fmt::Debug>(&self, what: &str, real: &T, model: &T) {
        assert!(
            real == model,
            "{what}: the store has {real:?}, and the model {model:?}, after\n{}",
            self.last_lines()
        );
    }

    fn last_lines(&self) -> String {
        let first = self.history.len().saturating_sub(40);
        self.history[first..].join("\n")
    }

    /// Compares all rows.
    async fn compare(&self) {
        self.compare_table("jobs", &self.real_jobs().await, self.model.jobs.all());
        self.compare_table(
            "webhook_ids",
            &self.real_ids().await,
            self.model.webhook_ids.all(),
        );
        self.compare_table("events", &self.real_events().await, self.model.events.all());
        self.compare_table(
            "refunds",
            &self.real_refunds().await,
            self.model.refunds.all(),
        );
        self.compare_table("leases", &self.real_leases().await, self.model.leases.all());
        self.compare_table(
            "outgoing_webhooks",
            &self.real_waiting().await,
            self.model.outgoing_webhooks.all(),
        );
    }

    fn compare_table<R: PartialEq + std::fmt::Debug>(
        &self,
        name: &str,
        real: &BTreeMap<usize, R>,
        model: impl Iterator<Item = (usize, R)>,
    ) {
        let model: BTreeMap<usize, R> = model.collect();
        for (key, row) in &model {
            self.same(&format!("row {key} of {name}"), &real.get(key), &Some(row));
        }
        self.same(&format!("the number of {name}"), &real.len(), &model.len());
    }

    async fn rows(&self, sql: &'static str) -> Vec<Row> {
        self.db.query(sql).fetch_all().await.unwrap()
    }

    async fn real_jobs(&self) -> BTreeMap<usize, rows::Job> {
        let sql = "select id, kind, external_id, object_id, state, run_at, created_at, notified_at,
                          deadline_at, finished_at, attempts, unfinished_attempts,
                          coalesce(claims, 0) as claims
                   from jobs";
        let read = |row: &Row| {
            let delivery: Option<String> = row.get("external_id").unwrap();
            let state: String = row.get("state").unwrap();
            let job = rows::Job {
                kind: kind_named(&row.get::<String>("kind").unwrap()),
                delivery: delivery.map(|id| id.trim_start_matches("delivery-").parse().unwrap()),
                order: row.get::<String>("object_id").unwrap().parse().unwrap(),
                event: 0,
                state: state.parse::<State>().unwrap(),
                run_at: time(row, "run_at").unwrap(),
                created_at: time(row, "created_at").unwrap(),
                notified_at: time(row, "notified_at"),
                deadline_at: time(row, "deadline_at"),
                finished_at: time(row, "finished_at"),
                attempts: row.get("attempts").unwrap(),
                unfinished_attempts: row.get("unfinished_attempts").unwrap(),
                claims: row.get("claims").unwrap(),
            };
            (key_of(row.get("id").unwrap()), job)
        };
        self.rows(sql).await.iter().map(read).collect()
    }

    async fn real_ids(&self) -> BTreeMap<usize, rows::Remembered> {
        let sql = "select id, job_id, expires_at from webhook_ids";
        let read = |row: &Row| {
            let id: Uuid = row.get("id").unwrap();
            let delivery = (0..DELIVERIES).find(|it| Uuid::from(remembered_id(*it)) == id);
            let remembered = rows::Remembered {
                job: key_of(row.get("job_id").unwrap()),
                expires_at: time(row, "expires_at").unwrap(),
            };
            (delivery.unwrap(), remembered)
        };
        self.rows(sql).await.iter().map(read).collect()
    }

    async fn real_events(&self) -> BTreeMap<usize, rows::Event> {
        let sql = "select id, object_id, position from events";
        let read = |row: &Row| {
            let id: Uuid = row.get("id").unwrap();
            let event = rows::Event {
                id_at: events::time_of(id),
                job: 0,
                order: row.get::<String>("object_id").unwrap().parse().unwrap(),
                number: 0,
                position: row.get("position").unwrap(),
            };
            (key_of(id), event)
        };
        self.rows(sql).await.iter().map(read).collect()
    }

    async fn real_refunds(&self) -> BTreeMap<usize, rows::Refund> {
        let sql = "select order_id, state, tried_at, key_number from refunds";
        let read = |row: &Row| {
            let state: String = row.get("state").unwrap();
            let all = [
                RefundState::Requested,
                RefundState::Issued,
                RefundState::Failed,
            ];
            let refund = rows::Refund {
                state: all.into_iter().find(|it| it.as_str() == state).unwrap(),
                tried_at: time(row, "tried_at"),
                key_number: row.get("key_number").unwrap(),
            };
            (
                usize::try_from(row.get::<i64>("order_id").unwrap()).unwrap(),
                refund,
            )
        };
        self.rows(sql).await.iter().map(read).collect()
    }

    async fn real_leases(&self) -> BTreeMap<usize, rows::Lease> {
        let read = |row: &Row| {
            let name: String = row.get("name").unwrap();
            let (name, _) = LEASES.into_iter().find(|(_, it)| *it == name).unwrap();
            let holder: Uuid = row.get("holder").unwrap();
            let lease = rows::Lease {
                holder: u32::try_from(holder.as_u128()).unwrap(),
                expires_at: time(row, "expires_at").unwrap(),
            };
            (name as usize, lease)
        };
        let rows = self
            .rows("select name, holder, expires_at from leases")
            .await;
        rows.iter().map(read).collect()
    }

    async fn real_waiting(&self) -> BTreeMap<usize, rows::Outgoing> {
        let sql = "select event_id, position, object_id, job_id from outgoing_webhooks";
        let read = |row: &Row| {
            let waiting = rows::Outgoing {
                position: row.get("position").unwrap(),
                order: row.get::<String>("object_id").unwrap().parse().unwrap(),
                job: key_of(row.get("job_id").unwrap()),
            };
            (key_of(row.get("event_id").unwrap()), waiting)
        };
        self.rows(sql).await.iter().map(read).collect()
    }
}

async fn the_same_rows(seeds: RangeInclusive<u64>) {
    let (mut claimed_again, mut dead) = (0, 0);
    for seed in seeds {
        let mut pair = Pair::new(seed).await;
        for _ in 0..TRANSACTIONS {
            pair.transaction().await;
            pair.alone().await;
            pair.compare().await;
        }
        let jobs = || pair.model.jobs.all();
        claimed_again += jobs().filter(|(_, job)| job.claims > 1).count();
        dead += jobs().filter(|(_, job)| job.state == State::Dead).count();
        pair.end().await;
    }
    assert!(claimed_again > 0 && dead > 0, "{claimed_again}, {dead}");
}

#[tokio::test]
async fn the_statements_of_the_model_do_what_those_of_the_store_do() {
    the_same_rows(7..=8).await;
}

#[tokio::test]
async fn they_do_so_with_other_seeds() {
    the_same_rows(4..=6).await;
}
