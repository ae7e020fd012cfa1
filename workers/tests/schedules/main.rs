//! Seeded schedules over the code as it is: intake, workers, sweep, calls, publisher, webhooks and store run in one thread, on
//! a SQLite database in memory, a bus within the process and a clock that the test moves. What happens from one crash
//! point to the next is one step, and a source of chance decides who takes the next one and what goes wrong
//! ([`director`]). So a seed is a schedule, and some dozens run in a second. After the faults everything must come to rest
//! within a bound, and then the invariants are checked ([`checks`]).
//!
//! `scripts/schedules` runs them for as long as one wants, and shows one of them. `scripts/wrong-builds` shows that they find
//! what they should.

#![recursion_limit = "256"]
#![expect(clippy::disallowed_macros, reason = "it says what it has found")]

mod checks;
mod deliveries;
mod director;
mod installation;
mod outside;
mod random;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use domain::job::Queue;
use domain::pause::{Provider, Target};
use platform::crash_point::put_director;
use providers::wire::put_wire;
use store::pauses::{self, Pause};
use tokio::time::Instant;

use deliveries::Delivery;
use director::{Focus, OUTSIDE, Schedule, Trouble};
use installation::{Database, Installation};
use outside::Outside;
use random::Random;

/// When nothing is to be done for so many milliseconds, all stand still.
const IDLE: i64 = 3_000;
/// For so long it must look like that.
const SURELY_IDLE: Duration = Duration::from_secs(2);

const MILLISECOND: Duration = Duration::from_millis(1);

/// What came of a schedule.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How much time passed in it.
    lasted: Duration,
    /// The first invariant that was broken.
    broken: Option<String>,
    timeline: Vec<String>,
}

/// Runs the schedule of a seed.
fn run(database: &Database, seed: u64, has_timeline: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let outcome = runtime.block_on(async {
        let schedule = Schedule::new(Random::new(seed), has_timeline);
        put_director(Some(Arc::new(schedule.clone())));
        let outside = Outside::new(&schedule);
        put_wire(Some(Arc::new(outside.clone())));
        go(database, &schedule, &outside, seed).await;
        let mut state = schedule.state();
        Outcome {
            lasted: state.begun.elapsed(),
            broken: state.broken.take(),
            timeline: state.timeline.take().unwrap_or_default(),
        }
    });
    drop(runtime);
    put_director(None);
    put_wire(None);
    outcome
}

async fn go(database: &Database, schedule: &Schedule, outside: &Outside, seed: u64) {
    database.clear().await;
    let focus = Focus::new(&mut schedule.state().random);
    let deliveries = deliveries::deliveries(&mut schedule.state().random, focus);
    let has_privacy = deliveries
        .iter()
        .any(|it| it.name().starts_with("customers"));
    let installation =
        Installation::new(database, schedule, outside, seed, focus, has_privacy).await;
    let installation = Arc::new(installation);
    schedule.state().plan_faults(focus, has_privacy);
    for process in installation.processes() {
        installation.start(process);
    }
    let unanswered = Arc::new(AtomicUsize::new(deliveries.len()));
    for delivery in &deliveries {
        if delivery.body["updated_at"].is_string() {
            let mut world = outside.world();
            let known = world.orders.entry(delivery.order).or_default();
            if known["updated_at"].as_str() < delivery.body["updated_at"].as_str() {
                *known = delivery.body.clone();
            }
        }
        let sends = send(installation.clone(), delivery.clone(), unanswered.clone());
        director::spawn(OUTSIDE, sends);
    }
    director::spawn(OUTSIDE, read(installation.clone()));
    until_rest(&installation, &unanswered).await;
    if schedule.state().broken.is_none() {
        read_on(&installation, &mut 0).await;
        checks::at_rest(&installation, database, &deliveries).await;
    }
}

/// Lets everything happen until nothing is left to be done.
async fn until_rest(installation: &Arc<Installation>, unanswered: &AtomicUsize) {
    let schedule = &installation.schedule;
    let mut pause = 20;
    let mut left = Vec::new();
    let mut idle_since = Instant::now();
    loop {
        tokio::time::sleep(MILLISECOND * pause).await;
        let (troubles, restarts) = {
            let mut state = schedule.state();
            let now = Instant::now();
            let due = |it: &(usize, Instant)| it.1 <= now;
            let restarts: Vec<(usize, Instant)> =
                state.restarts.extract_if(.., |it| due(it)).collect();
            (std::mem::take(&mut state.troubles), restarts)
        };
        for trouble in troubles {
            do_trouble(installation, trouble);
        }
        for (process, _) in restarts {
            schedule.note(|| format!("process {process} starts again"));
            installation.start(process);
        }
        if std::mem::take(&mut schedule.state().is_wave_committed) {
            checks::cursor(installation).await;
        }
        if schedule.state().has_unseen() {
            checks::unseen(installation).await;
        }
        let (is_broken, is_up, well_in, bound) = {
            let state = schedule.state();
            let bound = state.over_at + state.allowance;
            let is_up = state.restarts.is_empty();
            (state.broken.is_some(), is_up, state.well_in(), bound)
        };
        if is_broken {
            return;
        }
        let is_answered = unanswered.load(Ordering::SeqCst) == 0;
        if is_up && is_answered {
            let before = std::mem::take(&mut left);
            let mut due;
            (left, due) = checks::left(installation).await;
            let has_calls = schedule.state().has_calls();
            if left.is_empty() && !has_calls && well_in == 0 {
                return;
            }
            // Whoever goes on may write what is wrong by then.
            if left.is_empty() || well_in > 0 {
                due = if left.is_empty() {
                    well_in
                } else {
                    well_in.min(due)
                };
            }
            if due <= IDLE || has_calls || left != before {
                idle_since = Instant::now();
            } else if idle_since.elapsed() > SURELY_IDLE {
                schedule.state().stand_still(true);
                tokio::time::sleep(MILLISECOND * u32::try_from(due - IDLE / 2).unwrap()).await;
                schedule.state().stand_still(false);
            }
            pause = (pause + 40).min(800);
        }
        if Instant::now() > bound {
            schedule.wrong(format!(
                "it does not come to rest; all answered: {is_answered}; {left:?}"
            ));
            return;
        }
    }
}

/// Posts a delivery until it is answered, and sometimes again.
async fn send(installation: Arc<Installation>, delivery: Delivery, unanswered: Arc<AtomicUsize>) {
    let schedule = &installation.schedule;
    let below = |end| schedule.state().random.below(end);
    tokio::time::sleep(MILLISECOND * u32::try_from(delivery.at).unwrap()).await;
    let mut repeats = usize::from(below(5) == 0);
    loop {
        let status = if below(8) == 0 {
            // It is sent by two hosts of the provider at a time.
            let (one, other) =
                tokio::join!(installation.post(&delivery), installation.post(&delivery));
            one.or(other)
        } else {
            installation.post(&delivery).await
        };
        schedule.note(|| format!("{}: {status:?}", delivery.name()));
        let is_lost = installation.outside.is_wrong("answers");
        let is_accepted = matches!(status, Some(StatusCode::OK | StatusCode::CONFLICT));
        if is_accepted {
            let accepted = &mut schedule.state().accepted;
            accepted
                .entry(delivery.id.clone())
                .or_insert_with(Instant::now);
        }
        if is_accepted && !is_lost {
            if repeats == 0 {
                break;
            }
            repeats -= 1;
        }
        if let Some(status) =
            status.filter(|it| !is_accepted && *it != StatusCode::SERVICE_UNAVAILABLE)
        {
            schedule.wrong(format!("{} was answered {status}", delivery.name()));
        }
        let pause = 50 + u32::try_from(below(800)).unwrap();
        tokio::time::sleep(MILLISECOND * pause).await;
    }
    unanswered.fetch_sub(1, Ordering::SeqCst);
}

/// Follows events as clients of the API do.
async fn read(installation: Arc<Installation>) {
    let mut position = 0;
    loop {
        let pause = 20 + u32::try_from(installation.schedule.state().random.below(4_500)).unwrap();
        tokio::time::sleep(MILLISECOND * pause).await;
        read_on(&installation, &mut position).await;
    }
}

async fn read_on(installation: &Installation, position: &mut i64) {
    let db = &installation.db;
    let head = store::event_head::newest_after(db, *position).await;
    let events = store::events::placed_after(db, *position, head.unwrap(), 100).await;
    let events = events.unwrap();
    for event in events {
        *position = event.position;
        installation
            .outside
            .world()
            .reader
            .comes(&event.object_id, event.id);
    }
}

fn do_trouble(installation: &Arc<Installation>, trouble: Trouble) {
    let schedule = &installation.schedule;
    let length = {
        let mut state = schedule.state();
        let most = if state.random.once_in(4) {
            25_000
        } else {
            4_000
        };
        let length = MILLISECOND * u32::try_from(state.random.between(100, most)).unwrap();
        state.note(|| format!("{trouble:?} for {length:?}"));
        length
    };
    match trouble {
        // No job waits longer for this than the sweep needs.
        Trouble::LoseMessage | Trouble::RepeatMessage => {
            schedule.state().allow(40);
            let installation = installation.clone();
            let task = meddle(installation, trouble);
            director::spawn(OUTSIDE, task);
        }
        Trouble::Pause => {
            let mut state = schedule.state();
            state.allow(15 + length.as_secs());
            let targets = [
                Target::Queue(Queue::Orders),
                Target::Queue(Queue::Endpoints),
                Target::Provider(Provider::Payment),
                Target::Shop(deliveries::SHOP.to_owned()),
            ];
            let target = targets[state.random.below(targets.len())].clone();
            let is_ended = state.random.once_in(2);
            drop(state);
            director::spawn(
                OUTSIDE,
                pause(installation.clone(), target, length, is_ended),
            );
        }
        _ => {
            let mut state = schedule.state();
            // Pauses of jobs, of the circuit breaker and of endpoints have grown meanwhile.
            state.allow(45 + 3 * length.as_secs());
            drop(state);
            installation.outside.trouble(trouble, length);
        }
    }
}

/// Takes the next message of some queue from the line, and brings it twice or not at all.
async fn meddle(installation: Arc<Installation>, trouble: Trouble) {
    let Some(bus) = installation.bus() else {
        return;
    };
    let queue = Queue::ALL[installation.schedule.state().random.below(2)];
    let listener = bus.listen(queue, 1);
    let taken = tokio::time::timeout(Duration::from_secs(3), listener.next()).await;
    let Ok(Some(message)) = taken else { return };
    if trouble == Trouble::RepeatMessage {
        for _ in 0..2 {
            // A line that is full takes nothing, and that is right too.
            let _ = bus.notify_ids(queue, "orders/create", &message.jobs).await;
        }
    }
    message.ack().await;
}

/// An operator pauses something, and perhaps ends the pause early.
async fn pause(installation: Arc<Installation>, target: Target, length: Duration, is_ended: bool) {
    let now = installation.clock.now();
    let pause = Pause {
        id: installation.clock.id(),
        target: target.clone(),
        until: now.plus(length),
        actor: "an operator".to_owned(),
        begun_at: now,
        ended_at: None,
    };
    let mut tx = installation.db.begin().await.unwrap();
    pauses::insert(&mut tx, &pause).await.unwrap();
    tx.commit().await.unwrap();
    if is_ended {
        tokio::time::sleep(length / 2).await;
        let mut tx = installation.db.begin().await.unwrap();
        pauses::end(&mut tx, &target, installation.clock.now())
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }
}

fn environment(name: &str) -> Option<u64> {
    #[expect(
        clippy::disallowed_methods,
        reason = "scripts/schedules says with it what to run"
    )]
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} must be a number")),
    )
}

/// A database for the schedules of this thread. Its own tasks run in another one.
fn with_database<T>(work: impl FnOnce(&Database) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let database = runtime.block_on(Database::open());
    let done = work(&database);
    runtime.block_on(database.db.close());
    done
}

#[expect(
    clippy::disallowed_methods,
    reason = "real time says how long to go on"
)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Schedule after schedule, until one breaks an invariant.
#[test]
fn no_schedule_breaks_an_invariant() {
    let first = environment("SCHEDULES_FIRST").unwrap_or(1);
    let seconds = environment("SCHEDULES_SECONDS").unwrap_or(5);
    let most = environment("SCHEDULES_MOST").unwrap_or(u64::MAX);
    with_database(|database| {
        let begun = now();
        let mut seed = first;
        let mut lasted = Duration::ZERO;
        while begun.elapsed().as_secs() < seconds && seed - first < most {
            let outcome = run(database, seed, false);
            lasted += outcome.lasted;
            if let Some(broken) = outcome.broken {
                let timeline = run(database, seed, true).timeline.join("\n");
                panic!(
                    "seed {seed}, after {} schedules: {broken}\n{timeline}\nseed {seed}: {broken}",
                    seed - first
                );
            }
            seed += 1;
        }
        let count = u32::try_from(seed - first).unwrap();
        let each = begun.elapsed() / count;
        println!(
            "{count} schedules from seed {first} on in {each:?} each, with {:?} of time of their own: no invariant was broken",
            lasted / count
        );
    });
}

/// The schedule of a seed is the same each time.
#[test]
fn a_seed_is_a_schedule() {
    let seed = environment("SCHEDULES_SEED");
    with_database(|database| {
        let seeds = seed.map_or(1..=40, |seed| seed..=seed);
        for each in seeds {
            let outcome = run(database, each, true);
            if seed.is_some() {
                println!("{}\n{:?}", outcome.timeline.join("\n"), outcome.broken);
            }
            assert_eq!(outcome, run(database, each, true), "seed {each}");
        }
    });
}
