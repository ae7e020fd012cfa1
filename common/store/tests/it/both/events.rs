//! Readers of events miss none and see those of an object in their sequence, whatever the transactions that write them do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use domain::endpoint::State;
use domain::event::{Event, OrderEvent, OrderSummary};
use domain::time::Timestamp;
use futures_util::future::join_all;
use platform::clock::Clock;
use store::events::{self, NewEvent};
use store::sql::{Db, Tx, column};
use store::{broker, endpoints, event_head, leases, migrations};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::migrations::Own;
use super::sql::{postgres, times};

const SHOP: &str = "shop.example";
const SOON: Duration = Duration::from_secs(10);

async fn with_tables() -> Own {
    let own = Own::new().await;
    migrations::apply(&own.db).await.unwrap();
    own
}

/// The events `numbers` of an order, each with its number.
fn of_order(order: i64, numbers: std::ops::Range<i64>) -> Vec<NewEvent> {
    let event = |number: i64| NewEvent {
        at: Clock::system().now(),
        event: Event::of_order(
            SHOP,
            order,
            OrderEvent::Updated(OrderSummary {
                currency: None,
                total_price: Some(number.to_string()),
                financial_status: None,
                fulfillment_status: None,
            }),
        ),
        traceparent: None,
    };
    numbers.map(event).collect()
}

/// Returns the position of the event.
async fn insert(tx: &mut Tx, order: i64) -> i64 {
    let new = of_order(order, 0..1);
    events::insert(tx, &new).await.unwrap();
    let own = "select position from events where object_id = $1 order by position desc limit 1";
    let own = tx.query(own).bind(order.to_string());
    own.fetch_one().await.unwrap().get("position").unwrap()
}

async fn written(db: &Db, order: i64) -> i64 {
    let mut tx = db.begin().await.unwrap();
    let position = insert(&mut tx, order).await;
    tx.commit().await.unwrap();
    position
}

async fn positions(db: &Db) -> Vec<i64> {
    let all = db.query("select position from events order by position");
    all.all(|row| row.get("position")).await.unwrap()
}

/// Somebody who follows events.
#[derive(Default)]
struct Reader {
    position: i64,
    read: Vec<i64>,
    /// The next number of each order.
    numbers: BTreeMap<String, i64>,
}

impl Reader {
    /// Reads what there is, and returns it.
    async fn look(&mut self, db: &Db) -> Vec<i64> {
        let from = self.read.len();
        let head = event_head::newest_after(db, self.position).await.unwrap();
        for event in events::after(db, self.position, head, 1000).await.unwrap() {
            assert!(event.position > self.position);
            self.position = event.position;
            self.read.push(event.position);
            let data: serde_json::Value = serde_json::from_str(event.data.get()).unwrap();
            let number: i64 = data["total_price"].as_str().unwrap().parse().unwrap();
            let next = self.numbers.entry(event.object_id.clone()).or_default();
            if number > 0 {
                assert_eq!(number, *next, "of order {}", event.object_id);
            }
            *next = number + 1;
        }
        self.read[from..].to_vec()
    }

    async fn sees(&mut self, db: &Db, position: i64) {
        let look = async {
            while !self.look(db).await.contains(&position) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(
            timeout(SOON, look).await.is_ok(),
            "{position} cannot be read"
        );
    }
}

/// It needs two transactions that write at a time.
#[tokio::test]
#[ignore = "needs PostgreSQL: scripts/test distributed"]
async fn an_event_is_read_when_all_before_it_are_there_or_will_never_be() {
    let own = with_tables().await;
    let db = &own.db;
    let mut reader = Reader::default();
    let before = written(db, 1).await;
    let mut first = db.begin().await.unwrap();
    let mut second = db.begin().await.unwrap();
    let of_first = insert(&mut first, 1).await;
    let of_second = insert(&mut second, 2).await;
    let of_third = written(db, 3).await;
    assert_eq!(reader.look(db).await, [before]);
    second.commit().await.unwrap();
    assert!(reader.look(db).await.is_empty(), "the first one is open");
    first.commit().await.unwrap();
    assert_eq!(reader.look(db).await, [of_first, of_second, of_third]);

    let mut first = db.begin().await.unwrap();
    insert(&mut first, 1).await;
    let after = written(db, 2).await;
    assert!(reader.look(db).await.is_empty());
    first.rollback().await.unwrap();
    assert_eq!(reader.look(db).await, [after], "the others are never used");
    let again = Reader::default().look(db).await;
    assert_eq!(again, [before, of_first, of_second, of_third, after]);
    own.end().await;
}

/// While the first ones of many events have their positions, and the last ones have none yet.
#[tokio::test]
async fn events_of_a_long_insert_are_not_passed_over() {
    const MANY: i64 = 20_000;
    let own = with_tables().await;
    let db = &own.db;
    let many = of_order(1, 0..MANY);
    let is_over = AtomicBool::new(false);
    let long = async {
        let mut tx = db.begin().await.unwrap();
        events::insert(&mut tx, &many).await.unwrap();
        tx.commit().await.unwrap();
        is_over.store(true, Ordering::SeqCst);
    };
    let beside = async {
        let mut reader = Reader::default();
        while !is_over.load(Ordering::SeqCst) {
            written(db, 2).await;
            reader.look(db).await;
        }
        while !reader.look(db).await.is_empty() {}
        reader.read
    };
    // The first look comes first, so that the long insert is not over before it on a busy machine.
    let (read, ()) = tokio::join!(beside, long);
    let all = positions(db).await;
    assert!(all.len() > many.len());
    assert!(read == all, "{} of {} were read", read.len(), all.len());
    own.end().await;
}

/// However long it takes.
#[tokio::test]
#[ignore = "needs PostgreSQL: scripts/test distributed"]
async fn a_transaction_that_has_written_no_event_holds_none_back() {
    let own = with_tables().await;
    let db = &own.db;
    let mut reader = Reader::default();
    let mut reading = db.snapshot().await.unwrap();
    reading
        .query("select 1 as n from events")
        .fetch_all()
        .await
        .unwrap();
    let mut writing = db.begin().await.unwrap();
    let lease = "insert into leases (name, holder, expires_at) values ('long', $1, 0)";
    let lease = writing.query(lease).bind(Uuid::now_v7());
    lease.execute().await.unwrap();
    writing.savepoint().await.unwrap();
    insert(&mut writing, 1).await;
    writing.undo_to_savepoint().await.unwrap();
    let first = written(db, 2).await;
    assert_eq!(reader.look(db).await, [first]);
    // It is given an earlier transaction's number, and a later position.
    let last = insert(&mut writing, 2).await;
    writing.commit().await.unwrap();
    assert_eq!(reader.look(db).await, [last]);
    reading.rollback().await.unwrap();
    own.end().await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL: scripts/test distributed"]
async fn a_writer_that_has_stopped_holds_events_back_until_the_server_ends_it() {
    let own = with_tables().await;
    let db = &own.db;
    let mut reader = Reader::default();
    let mut stopped = db.begin().await.unwrap();
    let limit = "set local idle_in_transaction_session_timeout = '500ms'";
    stopped.query(limit).execute().await.unwrap();
    insert(&mut stopped, 1).await;
    let later = written(db, 2).await;
    assert!(reader.look(db).await.is_empty());
    let held = db.events_held_back().await.unwrap().unwrap();
    assert!(held.process > 0 && held.age < SOON, "{held:?}");
    reader.sees(db, later).await;
    assert_eq!(db.events_held_back().await.unwrap(), None);
    assert!(stopped.commit().await.is_err());
    assert_eq!(reader.read, [later]);
    own.end().await;
}

/// A look that was made before a mark was taken holds, although the mark is below it.
#[tokio::test]
async fn the_head_does_not_go_back() {
    let own = with_tables().await;
    let db = &own.db;
    assert_eq!(event_head::newest(db).await.unwrap(), 0);
    for order in 1..=3 {
        written(db, order).await;
    }
    assert_eq!(event_head::newest(db).await.unwrap(), 3);
    assert_eq!(event_head::newest_after(db, 3).await.unwrap(), 3);
    if postgres().is_some() {
        let mut open = db.begin().await.unwrap();
        insert(&mut open, 1).await;
        written(db, 2).await;
        for (known, head) in [(0, 3), (2, 3), (3, 3), (4, 4), (9, 3)] {
            let newest = event_head::newest_after(db, known).await.unwrap();
            assert_eq!(newest, head, "after {known}");
        }
        open.rollback().await.unwrap();
    }
    own.end().await;
}

/// How long it lasts. With `STORM_TIMES=100` it is five minutes.
const STORM: Duration = Duration::from_secs(3);
const ORDERS: i64 = 5;

/// Numbers that look random.
struct Random(AtomicU64);

impl Random {
    fn below(&self, end: u64) -> u64 {
        let mut number = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (number ^ (number >> 31)) % end
    }

    async fn pause(&self) {
        if self.below(3) == 0 {
            sleep(Duration::from_micros(self.below(3_000))).await;
        }
    }
}

/// Writes transaction after transaction. Each locks an order, as those that change one do, some after they have written
/// something else; a few do not commit.
async fn write(db: &Db, random: &Random, next: &BTreeMap<i64, AtomicI64>, until: Instant) {
    while Instant::now() < until {
        let mut tx = db.begin().await.unwrap();
        if random.below(2) == 0 {
            let row = [
                column("id", Clock::system().id()),
                column("name", SHOP),
                column("name_key", Clock::system().id().to_string()),
                column("created_at", Timestamp(0)),
            ];
            tx.insert("orgs", vec![row], "").await.unwrap();
            random.pause().await;
        }
        let order = random.below(ORDERS.unsigned_abs()).cast_signed();
        tx.lock(order).await.unwrap();
        let number = &next[&order];
        let first = number.load(Ordering::SeqCst);
        let end = first + 1 + random.below(4).cast_signed();
        if random.below(8) == 0 {
            tx.savepoint().await.unwrap();
            let lost = of_order(order, first..end);
            events::insert(&mut tx, &lost).await.unwrap();
            random.pause().await;
            tx.undo_to_savepoint().await.unwrap();
        }
        let new = of_order(order, first..end);
        events::insert(&mut tx, &new).await.unwrap();
        random.pause().await;
        if random.below(8) == 0 {
            tx.rollback().await.unwrap();
        } else {
            number.store(end, Ordering::SeqCst);
            tx.commit().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_event_is_missed_and_none_of_an_object_comes_out_of_turn() {
    let own = with_tables().await;
    let db = &own.db;
    let random = Random(AtomicU64::new(7));
    let next: BTreeMap<i64, AtomicI64> = (0..ORDERS).map(|it| (it, AtomicI64::new(0))).collect();
    let until = Instant::now() + STORM * times("STORM_TIMES");
    let writing = join_all((0..5).map(|_| write(db, &random, &next, until)));
    let reading = join_all((0..2).map(|_| async {
        let mut reader = Reader::default();
        while Instant::now() < until {
            reader.look(db).await;
        }
        reader
    }));
    let (_, readers) = tokio::join!(writing, reading);
    let all = positions(db).await;
    let written: i64 = next.values().map(|it| it.load(Ordering::SeqCst)).sum();
    assert_eq!(i64::try_from(all.len()).unwrap(), written);
    assert!(written > 100, "{written}");
    for mut reader in readers {
        while !reader.look(db).await.is_empty() {}
        assert_eq!(reader.read, all);
    }
    own.end().await;
}

/// Events of these times, each in a transaction of its own.
async fn at_times(db: &Db, times: impl IntoIterator<Item = i64>) {
    for (order, at) in (1001..).zip(times) {
        let mut new = of_order(order, 0..1);
        new[0].at = Timestamp(at);
        let mut tx = db.begin().await.unwrap();
        events::insert(&mut tx, &new).await.unwrap();
        tx.commit().await.unwrap();
    }
}

#[tokio::test]
async fn an_id_leads_to_its_event_and_to_an_earlier_one_when_that_is_gone() {
    const HOUR: i64 = 3_600_000;
    let own = with_tables().await;
    let db = &own.db;
    at_times(db, (0..9).map(|hour| hour * HOUR)).await;
    let all = events::after(db, 0, 9, 100).await.unwrap();
    let ids: Vec<Uuid> = all.iter().map(|event| event.id).collect();
    for (id, position) in ids.iter().zip(1..) {
        assert_eq!(id.get_version_num(), 7);
        assert_eq!(events::position_of(db, *id).await.unwrap(), position);
        let shown = events::by_ids(db, vec![*id]).await.unwrap();
        assert_eq!(shown[0].position, position);
    }
    assert!(ids.is_sorted());
    // Receivers remember ids, so those of events that are stored must never become others.
    assert_eq!(ids[1].to_string(), "00000036-ee80-7061-8000-000000000002");
    // Another event has this position now, after the server was replaced by one that lacked the first one.
    let other = Uuid::from_u128(ids[5].as_u128() - (60_000 << 80));
    assert!(events::by_ids(db, vec![other]).await.unwrap().is_empty());
    assert_eq!(events::known_position(db, other).await.unwrap(), None);
    assert_eq!(events::position_of(db, other).await.unwrap(), 5);
    // The oldest are deleted.
    let deleted = events::forget(db, Timestamp(4 * HOUR), 3, 100)
        .await
        .unwrap();
    assert_eq!(deleted, 3, "up to a position");
    let deleted = events::forget(db, Timestamp(4 * HOUR), 9, 2).await.unwrap();
    assert_eq!(deleted, 1, "only one of the others is old enough");
    assert_eq!(positions(db).await, [5, 6, 7, 8, 9]);
    assert_eq!(events::position_of(db, ids[2]).await.unwrap(), 0);
    assert_eq!(events::position_of(db, Uuid::nil()).await.unwrap(), 0);
    assert_eq!(events::position_of(db, Uuid::max()).await.unwrap(), 9);
    own.end().await;
}

/// A clock that was wrong has left them before others that are old.
#[tokio::test]
async fn old_events_are_deleted_although_some_before_them_are_of_the_future() {
    const HOUR: i64 = 3_600_000;
    let own = with_tables().await;
    let db = &own.db;
    at_times(db, [90, 91, 1, 2, 3, 4, 5].map(|hour| hour * HOUR)).await;
    for _ in 0..2 {
        let deleted = events::forget(db, Timestamp(4 * HOUR), i64::MAX, 2).await;
        assert!(deleted.unwrap() > 0);
    }
    assert_eq!(positions(db).await, [1, 2, 6, 7]);
    own.end().await;
}

/// Events may get their positions some minutes late, and not each position has one.
#[tokio::test]
async fn no_event_of_a_time_is_before_the_position_for_that_time() {
    const MINUTE: i64 = 60_000;
    let own = with_tables().await;
    let db = &own.db;
    let random = Random(AtomicU64::new(11));
    let times = (0..200).map(|n| n * MINUTE + random.below(9).cast_signed() * MINUTE);
    at_times(db, times).await;
    let gone =
        db.transact("delete from events where position % 3 = 0 or position between 40 and 70");
    gone.execute().await.unwrap();
    let all = events::after(db, 0, 200, 1000).await.unwrap();
    for minute in -20..230 {
        let at = Timestamp(minute * MINUTE);
        let position = events::position_at(db, at).await.unwrap();
        let passed_over = all.iter().filter(|event| event.position <= position);
        let latest = passed_over.map(|event| event.created_at).max();
        assert!(latest < Some(at) || position == 0, "{minute}: {position}");
        let again = all.iter().filter(|event| event.position > position);
        let earliest = again.map(|event| event.created_at).min();
        let far = at.minus(events::LATE * 3);
        assert!(
            earliest.is_none_or(|it| it > far),
            "{minute}: {position} is too early"
        );
    }
    own.end().await;
}

/// A copy or a replication of rows has the positions, and not the sequence from which they were taken.
#[tokio::test]
async fn a_database_that_was_made_of_another_one_goes_on_after_its_positions() {
    let own = with_tables().await;
    let db = &own.db;
    written(db, 1).await;
    let mut tx = db.begin().await.unwrap();
    let row = [
        column("position", 500),
        column("kind", "order.fulfilled"),
        column("shop", SHOP),
        column("object_id", "1"),
        column("body", "{}"),
        column("created_at", Timestamp(0)),
    ];
    tx.insert("events", vec![row], "").await.unwrap();
    let endpoint = [
        column("id", Uuid::nil()),
        column("url", ""),
        column("kinds", "#"),
        column("state", "paused"),
        column("secret", vec![0_u8]),
        column("position", 700),
        column("failures", 0),
        column("created_at", Timestamp(0)),
        column("updated_at", Timestamp(0)),
    ];
    tx.insert("endpoints", vec![endpoint], "").await.unwrap();
    tx.commit().await.unwrap();
    let (one, two) = tokio::join!(migrations::apply(db), migrations::apply(db));
    one.unwrap();
    two.unwrap();
    assert_eq!(written(db, 1).await, 701);
    migrations::apply(db).await.unwrap();
    assert_eq!(written(db, 1).await, 702);
    own.end().await;
}

#[tokio::test]
async fn a_broker_that_is_added_later_is_not_sent_what_happened_before() {
    let own = with_tables().await;
    let db = &own.db;
    let now = Timestamp(0);
    let position = async || broker::find(db).await.unwrap().map(|it| it.position);
    let begin = async |after| broker::begin(db, "amqp:events", after, now).await.unwrap();
    begin(None).await;
    assert_eq!(
        position().await,
        Some(0),
        "from the beginning, if there was one always"
    );
    broker::end(db, now).await.unwrap();
    assert_eq!(position().await, None);
    written(db, 1).await;
    broker::end(db, now).await.unwrap();
    assert_eq!(
        broker::position(db).await.unwrap(),
        i64::MAX,
        "none waits for it"
    );
    begin(None).await;
    assert_eq!(position().await, Some(1));
    begin(Some(0)).await;
    assert_eq!(position().await, Some(1), "it has begun already");
    written(db, 1).await;
    broker::end(db, now).await.unwrap();
    let why = "it gets what it did not get before it was removed";
    assert_eq!(position().await, Some(1), "{why}");
    broker::advance(db, 2, now).await.unwrap();
    broker::advance(db, 1, now).await.unwrap();
    assert_eq!(position().await, Some(2), "it is never moved back");
    broker::end(db, now).await.unwrap();
    assert_eq!(position().await, None);
    begin(Some(1)).await;
    assert_eq!(
        broker::not_owed(db).await.unwrap(),
        1,
        "the events after it are owed"
    );
    let until = now.plus(Duration::from_secs(10));
    let holder = Uuid::now_v7();
    assert!(
        leases::take(db, leases::EVENTS, holder, now, until)
            .await
            .unwrap()
    );
    broker::advance(db, 2, now).await.unwrap();
    broker::end(db, now).await.unwrap();
    assert_eq!(position().await, Some(2), "somebody publishes");
    let mut tx = db.begin().await.unwrap();
    endpoints::set_state(&mut tx, broker::BROKER, State::Paused, now)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(
        broker::not_owed(db).await.unwrap(),
        i64::MAX,
        "it is paused"
    );
    broker::end(db, until).await.unwrap();
    assert_eq!(position().await, Some(2), "it stays paused");
    let mut tx = db.begin().await.unwrap();
    endpoints::remove(&mut tx, broker::BROKER).await.unwrap();
    tx.commit().await.unwrap();
    begin(Some(1)).await;
    assert_eq!(
        position().await,
        Some(1),
        "a process that has seen how far it was goes on there"
    );
    own.end().await;
}
