//! Decides who goes on, and what goes wrong and when. It is asked at each crash point (`platform::crash_point`), and every
//! task of a process is an [`Actor`], which does nothing any more when its process has ended, and waits while it is frozen.
//! One source of chance decides everything, so a seed is a schedule.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use platform::clock::Clock;
use platform::crash_point::{Director, Moment, Point, Reached, Step, Task};
use tokio::time::Instant;

use crate::random::Random;

/// The process of what the test itself does.
pub const OUTSIDE: usize = 0;
/// After this time there are no more faults.
const STORM: Duration = Duration::from_secs(12);
/// One in so many who reach something that may wait is made to wait.
const WAITS: usize = 5;

thread_local! {
    /// The process and the task that run at this moment.
    static CURRENT: Cell<(usize, u64)> = const { Cell::new((OUTSIDE, 0)) };
}

/// What goes wrong, when the one who is chosen for it comes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The process ends here, and is started again a little later.
    Crash,
    /// The process stands still for so many milliseconds.
    Freeze(u64),
    /// The connection to the database is lost. Of a commit it depends on the moment whether it took effect.
    Lose,
    /// The clock of the process is wrong by so many milliseconds for a while.
    Clock(i64),
    Outside(Trouble),
}

/// What goes wrong outside of the processes. The test itself does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    LoseMessage,
    RepeatMessage,
    BrokerAway,
    EventsRefused,
    AnswerLost,
    PaymentSlow,
    /// Requests take effect, and their answers do not come.
    PaymentAnswersLost,
    PaymentFails,
    /// It fails, and keeps that under the idempotency key.
    PaymentKeepsFailure,
    StorefrontFails,
    StorefrontAnswersLost,
    EndpointRefuses,
    /// The endpoint refuses the next event once.
    EndpointRefusesOne,
    EndpointAnswersLost,
    Pause,
}

/// Where a fault comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Anywhere,
    Begin,
    Point(Point),
    Moment(Moment),
}

impl Place {
    fn has(self, reached: Reached) -> bool {
        match (self, reached) {
            (Place::Anywhere, _) | (Place::Begin, Reached::Begin(_)) => true,
            (Place::Point(here), Reached::Point(point)) => here == point,
            (Place::Moment(here), Reached::Moment(moment, _)) => here == moment,
            _ => false,
        }
    }
}

/// A fault that is to come when its place is reached so many more times.
#[derive(Clone, Copy, Debug)]
struct Planned {
    fault: Fault,
    place: Place,
    left: usize,
}

/// What a schedule is about. Some faults are rare without it, since several things have to come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// Whatever comes.
    Anything,
    /// One process stands still in a call, and another one takes it over.
    Calls,
    /// One process stands still while it sends to an endpoint, and another one takes over.
    Webhooks,
    /// Jobs end their processes, or fail.
    Jobs,
    /// Nothing goes wrong but perhaps the clock of an ingress, so nobody waits long.
    Calm,
}

impl Focus {
    pub fn new(random: &mut Random) -> Self {
        match random.below(12) {
            0 | 1 => Focus::Calls,
            2 | 3 => Focus::Webhooks,
            4 => Focus::Jobs,
            5 | 6 => Focus::Calm,
            _ => Focus::Anything,
        }
    }

    pub fn has_two_workers(self) -> bool {
        matches!(self, Focus::Calls | Focus::Webhooks)
    }
}

/// What a job does before it succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    Succeeds,
    Fails(u32),
    Panics(u32),
    /// It ends its process.
    Kills(u32),
}

/// How the jobs of a schedule may misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Misbehaving {
    None,
    Killing,
    All,
}

#[derive(Default)]
pub struct Process {
    pub name: String,
    /// Counted up when it ends.
    life: u32,
    pub is_up: bool,
    is_frozen: bool,
    /// Who is to be told when it ends or goes on.
    tasks: BTreeMap<u64, Waker>,
    pub clock: Clock,
    /// Its claims may have ended without its knowing.
    is_excused: bool,
}

/// What is known of a job beside its row.
#[derive(Default)]
pub struct JobFacts {
    behaviour: Option<Behaviour>,
    /// How many transactions with its work were committed.
    pub effects: u32,
    /// How many of its runs ended with their process, or lost it.
    pub interrupted: u32,
    pub kills: bool,
    pub is_call: bool,
    /// The last fencing token with which somebody has called.
    claim: i64,
    /// When its work was committed.
    pub done_at: Option<Instant>,
}

/// What a task has open.
#[derive(Default)]
struct Open {
    /// The jobs whose work is in its transaction.
    done: Vec<u128>,
    failed: Vec<u128>,
    /// The call that it makes.
    call: Option<u128>,
    /// The job that it has called for, and its fencing token.
    called: Option<(u128, i64)>,
    process: usize,
}

pub struct State {
    pub random: Random,
    pub processes: Vec<Process>,
    plan: Vec<Planned>,
    pub jobs: BTreeMap<u128, JobFacts>,
    open: BTreeMap<u64, Open>,
    last_task: u64,
    pub begun: Instant,
    /// Nothing goes wrong after this time, and how long everything may take to come to rest then.
    pub over_at: Instant,
    pub allowance: Duration,
    is_still: bool,
    pub broken: Option<String>,
    pub timeline: Option<Vec<String>>,
    misbehaving: Misbehaving,
    pub focus: Focus,
    pub has_housekeeping: bool,
    /// What the test is to do.
    pub troubles: Vec<Trouble>,
    /// Processes that are to be started again, and when.
    pub restarts: Vec<(usize, Instant)>,
    /// When each delivery was accepted first.
    pub accepted: BTreeMap<String, Instant>,
    /// The position of the endpoint that was seen last, and whether it may have changed since.
    pub cursor: i64,
    pub is_wave_committed: bool,
    /// Jobs of which a run failed, and nothing may be seen.
    pub unseen: BTreeSet<u128>,
}

/// Of the schedule that runs.
#[derive(Clone)]
pub struct Schedule(Arc<Mutex<State>>);

impl Schedule {
    pub fn new(random: Random, has_timeline: bool) -> Self {
        let now = Instant::now();
        Schedule(Arc::new(Mutex::new(State {
            random,
            processes: vec![Process::default()],
            plan: Vec::new(),
            jobs: BTreeMap::new(),
            open: BTreeMap::new(),
            last_task: 0,
            begun: now,
            over_at: now,
            allowance: Duration::from_secs(12),
            is_still: false,
            broken: None,
            timeline: has_timeline.then(Vec::new),
            misbehaving: Misbehaving::None,
            focus: Focus::Anything,
            has_housekeeping: false,
            troubles: Vec::new(),
            restarts: Vec::new(),
            accepted: BTreeMap::new(),
            cursor: 0,
            is_wave_committed: false,
            unseen: BTreeSet::new(),
        })))
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn note(&self, what: impl FnOnce() -> String) {
        self.state().note(what);
    }

    pub fn wrong(&self, what: impl Into<String>) {
        self.state().wrong(what.into());
    }

    /// Does something later that no process does.
    fn later(&self, pause: Duration, deed: impl FnOnce(&mut State) + Send + 'static) {
        let schedule = self.clone();
        spawn(OUTSIDE, async move {
            tokio::time::sleep(pause).await;
            deed(&mut schedule.state());
        });
    }
}

/// Runs a task as one of a process.
pub fn spawn(process: usize, task: impl Future<Output = ()> + Send + 'static) {
    let before = CURRENT.replace((process, 0));
    platform::task::spawn("of a process", task);
    CURRENT.set(before);
}

impl Process {
    pub fn new(name: String, clock: Clock) -> Self {
        Process {
            name,
            clock,
            ..Process::default()
        }
    }
}

impl State {
    pub fn note(&mut self, what: impl FnOnce() -> String) {
        let (process, _) = CURRENT.get();
        let at = self.begun.elapsed().as_millis();
        let Some(timeline) = &mut self.timeline else {
            return;
        };
        let name = &self.processes[process].name;
        timeline.push(format!("{at:>7} ms  {name:<10} {}", what()));
    }

    pub fn wrong(&mut self, what: String) {
        self.note(|| format!("WRONG: {what}"));
        self.broken.get_or_insert(what);
    }

    /// Something goes wrong for so long.
    pub fn disturb(&mut self, length: Duration) {
        self.over_at = self.over_at.max(Instant::now() + length);
    }

    pub fn allow(&mut self, seconds: u64) {
        self.allowance += Duration::from_secs(seconds);
    }

    pub fn plan_faults(&mut self, focus: Focus, has_privacy: bool) {
        use Point::{Call, Called};
        let early = self.random.below(3);
        let freeze = |length: i64| Fault::Freeze(length.cast_unsigned());
        let first = match focus {
            Focus::Calls => {
                let fault = freeze(self.random.between(35_500, 42_000));
                let place = Place::Point([Call, Called][self.random.below(2)]);
                Some((fault, place, early))
            }
            Focus::Webhooks => {
                let fault = freeze(self.random.between(10_500, 16_000));
                Some((fault, Place::Point(Point::WebhookSent), early))
            }
            Focus::Anything | Focus::Jobs | Focus::Calm => None,
        };
        let planned = |(fault, place, left)| Planned { fault, place, left };
        self.plan.extend(first.map(planned));
        let count = match focus {
            Focus::Calm => 0,
            Focus::Anything => [0, 1, 1, 1, 2, 2, 3, 4][self.random.below(8)],
            Focus::Calls | Focus::Webhooks | Focus::Jobs => self.random.below(3),
        };
        for _ in 0..count {
            let planned = self.choose();
            self.plan.push(planned);
        }
        self.focus = focus;
        if focus == Focus::Calm && self.processes[1].name.starts_with("ingress") {
            let ahead = self.random.between(-90_000, 90_000);
            self.processes[1].clock.set_ahead(ahead);
        }
        if has_privacy {
            // An export waits for the erasure of the same customer.
            self.allow(12);
        }
        self.misbehaving = match (focus, has_privacy) {
            (Focus::Jobs, false) => Misbehaving::All,
            (Focus::Anything, false) if self.random.once_in(3) => Misbehaving::All,
            // A privacy request that fails is tried again after minutes.
            (Focus::Jobs, true) => Misbehaving::Killing,
            (Focus::Anything, true) if self.random.once_in(3) => Misbehaving::Killing,
            _ => Misbehaving::None,
        };
        self.has_housekeeping = self.random.once_in(16);
    }

    fn choose(&mut self) -> Planned {
        use Point::{
            Ack, Acked, Call, Called, DeadLetter, FollowUpNotified, FollowUpNotify, IntakeNotified,
            IntakeNotify, Publish, Published, SweepNotified, SweepNotify, WebhookSend, WebhookSent,
        };
        let outside = [
            Ack,
            Acked,
            Call,
            Called,
            Call,
            Called,
            DeadLetter,
            FollowUpNotified,
            FollowUpNotify,
            IntakeNotified,
            IntakeNotify,
            Publish,
            Published,
            SweepNotified,
            SweepNotify,
            WebhookSend,
            WebhookSent,
            WebhookSend,
            WebhookSent,
            Point::Answer,
        ];
        let point = outside[self.random.below(outside.len())];
        let moment = Moment::ALL[self.random.below(3)];
        let early = self.random.below(4);
        let any = self.random.below(120);
        let (fault, place, left) = match self.random.below(24) {
            0..3 => (Fault::Crash, Place::Anywhere, any),
            3..6 => (Fault::Crash, Place::Point(point), early),
            6..8 => (Fault::Crash, Place::Moment(moment), self.random.below(20)),
            8..11 => (Fault::Lose, Place::Moment(moment), self.random.below(25)),
            11 => {
                let short = self.random.between(50, 3_000);
                (
                    Fault::Freeze(short.cast_unsigned()),
                    Place::Point(point),
                    early,
                )
            }
            12 | 13 => {
                let lease = self.random.between(10_500, 16_000);
                let points = [
                    WebhookSend,
                    WebhookSent,
                    WebhookSend,
                    WebhookSent,
                    Publish,
                    Published,
                ];
                let point = points[self.random.below(points.len())];
                (
                    Fault::Freeze(lease.cast_unsigned()),
                    Place::Point(point),
                    early,
                )
            }
            14 | 15 => {
                let claim = self.random.between(35_500, 39_000);
                let point = [Call, Called][self.random.below(2)];
                (
                    Fault::Freeze(claim.cast_unsigned()),
                    Place::Point(point),
                    early,
                )
            }
            16 => (
                Fault::Clock(self.random.between(-90_000, 90_000)),
                Place::Begin,
                early,
            ),
            _ => {
                let all = Trouble::ALL;
                let trouble = all[self.random.below(all.len())];
                (Fault::Outside(trouble), Place::Anywhere, any)
            }
        };
        Planned { fault, place, left }
    }

    /// The fault that comes now, if one does.
    fn fault(&mut self, reached: Reached) -> Option<Fault> {
        if self.plan.is_empty() {
            return None;
        }
        if self.begun.elapsed() > STORM {
            self.plan.clear();
            return None;
        }
        let at = self.plan.iter_mut().position(|it| {
            let is_here = it.place.has(reached);
            it.left = it.left.saturating_sub(usize::from(is_here));
            is_here && it.left == 0
        })?;
        Some(self.plan.swap_remove(at).fault)
    }

    pub fn has_unseen(&self) -> bool {
        !self.unseen.is_empty()
    }

    /// Whether a call is under way that goes on.
    pub fn has_calls(&self) -> bool {
        let goes_on = |open: &Open| open.call.is_some() && !self.processes[open.process].is_frozen;
        self.open.values().any(goes_on)
    }

    /// In how many milliseconds a process goes on that is frozen or has a wrong clock.
    pub fn well_in(&self) -> i64 {
        let left = self.over_at.saturating_duration_since(Instant::now());
        i64::try_from(left.as_millis()).unwrap()
    }

    /// Ends a process. It is started again soon.
    fn crash(&mut self, process: usize, is_fault: bool) {
        let pause = Duration::from_millis(self.random.between(50, 2_500).cast_unsigned());
        let is_in_call = self.open.values().any(|it| it.call.is_some());
        // A claim ends by itself, and what waited in the process is found again. A job that ends its process again and
        // again has its time already.
        if is_fault {
            self.allow(if is_in_call { 75 } else { 45 });
            self.disturb(pause);
        }
        let it = &mut self.processes[process];
        it.life += 1;
        it.is_up = false;
        it.is_frozen = false;
        let tasks = std::mem::take(&mut it.tasks);
        for (task, waker) in tasks {
            self.end_open(task);
            waker.wake();
        }
        self.restarts.push((process, Instant::now() + pause));
    }

    fn end_open(&mut self, task: u64) {
        if let Some(open) = self.open.remove(&task) {
            for job in open.done.into_iter().chain(open.call) {
                self.jobs.entry(job).or_default().interrupted += 1;
            }
        }
    }

    /// While nobody has anything to do, all stand still, which saves what they would ask the database.
    pub fn stand_still(&mut self, is_still: bool) {
        self.is_still = is_still;
        for waker in self.processes.iter().flat_map(|it| it.tasks.values()) {
            waker.wake_by_ref();
        }
    }

    fn freeze(&mut self, process: usize, length: Duration) {
        self.allow(length.as_secs() + 50);
        self.disturb(length);
        let it = &mut self.processes[process];
        it.is_frozen = true;
        it.is_excused = true;
        for open in self.open.values() {
            if let Some(job) = open.call {
                self.jobs.entry(job).or_default().interrupted += 1;
            }
        }
    }

    fn thaw(&mut self, process: usize) {
        let it = &mut self.processes[process];
        it.is_frozen = false;
        // Any of them may be the first one to go on.
        let first = self.random.below(it.tasks.len().max(1));
        for waker in it.tasks.values().cycle().skip(first).take(it.tasks.len()) {
            waker.wake_by_ref();
        }
    }

    /// What the job does now.
    fn behaves(&mut self, job: u128) -> Behaviour {
        let facts = self.jobs.entry(job).or_default();
        if facts.behaviour.is_none() {
            let drawn = match self.random.below(24) {
                _ if self.misbehaving == Misbehaving::None => Behaviour::Succeeds,
                0..5 if self.misbehaving == Misbehaving::Killing => Behaviour::Succeeds,
                0..4 => Behaviour::Fails(1 + u32::try_from(self.random.below(4)).unwrap()),
                4 => Behaviour::Panics(1 + u32::try_from(self.random.below(3)).unwrap()),
                5 => Behaviour::Kills(1),
                6 => Behaviour::Kills(u32::MAX),
                _ => Behaviour::Succeeds,
            };
            self.allowance += Duration::from_secs(match drawn {
                Behaviour::Succeeds => 0,
                Behaviour::Fails(_) | Behaviour::Panics(_) => 25,
                Behaviour::Kills(1) => 45,
                Behaviour::Kills(_) => 300,
            });
            self.note(|| format!("job {job:x} {drawn:?}"));
            self.jobs.entry(job).or_default().behaviour = Some(drawn);
        }
        let facts = self.jobs.entry(job).or_default();
        let behaviour = facts.behaviour.unwrap_or(Behaviour::Succeeds);
        let less = |times: u32| if times == u32::MAX { times } else { times - 1 };
        facts.behaviour = Some(match behaviour {
            Behaviour::Fails(0)
            | Behaviour::Panics(0)
            | Behaviour::Kills(0)
            | Behaviour::Succeeds => {
                return Behaviour::Succeeds;
            }
            Behaviour::Fails(times) => Behaviour::Fails(less(times)),
            Behaviour::Panics(times) => Behaviour::Panics(less(times)),
            Behaviour::Kills(times) => Behaviour::Kills(less(times)),
        });
        if let Behaviour::Kills(_) = behaviour {
            facts.kills = true;
        }
        behaviour
    }

    /// Follows what a task does with jobs.
    fn follow(&mut self, process: usize, task: u64, reached: Reached) {
        match reached {
            Reached::Call(job, claim) => {
                let calls = self.open.iter().find(|(_, it)| it.call == Some(job));
                let is_excused = self.processes.iter().any(|it| it.is_excused);
                if calls.is_some() && !is_excused {
                    self.wrong(format!(
                        "the provider is asked for job {job:x} twice at a time"
                    ));
                }
                let facts = self.jobs.entry(job).or_default();
                facts.claim = facts.claim.max(claim);
                let open = self.open.entry(task).or_default();
                open.call = Some(job);
                open.called = Some((job, claim));
                open.process = process;
            }
            Reached::Point(Point::Called) => {
                self.open.entry(task).or_default().call = None;
            }
            Reached::Work(job) => self.open.entry(task).or_default().done.push(job),
            Reached::Begin(_) => {
                let open = self.open.entry(task).or_default();
                open.done.clear();
                open.failed.clear();
            }
            Reached::Moment(Moment::Committed, place) => {
                self.is_wave_committed |= place.file().ends_with("src/webhooks.rs");
                let open = self.open.entry(task).or_default();
                let (done, failed) = (
                    std::mem::take(&mut open.done),
                    std::mem::take(&mut open.failed),
                );
                if let (None, Some((job, claim))) = (open.call, open.called)
                    && self.jobs.entry(job).or_default().claim > claim
                {
                    self.wrong(format!(
                        "a run of job {job:x} has written its end, and another one had claimed the job (C5)"
                    ));
                }
                for job in done {
                    let facts = self.jobs.entry(job).or_default();
                    facts.effects += 1;
                    facts.done_at = Some(Instant::now());
                    if facts.effects > 1 {
                        self.wrong(format!("the work of job {job:x} was committed twice (I2)"));
                    }
                }
                self.unseen.extend(failed);
            }
            Reached::Moment(..) | Reached::Point(_) => {}
        }
    }
}

impl Trouble {
    const ALL: [Trouble; 15] = [
        Trouble::LoseMessage,
        Trouble::RepeatMessage,
        Trouble::BrokerAway,
        Trouble::EventsRefused,
        Trouble::AnswerLost,
        Trouble::PaymentSlow,
        Trouble::PaymentAnswersLost,
        Trouble::PaymentFails,
        Trouble::PaymentKeepsFailure,
        Trouble::StorefrontFails,
        Trouble::StorefrontAnswersLost,
        Trouble::EndpointRefuses,
        Trouble::EndpointRefusesOne,
        Trouble::EndpointAnswersLost,
        Trouble::Pause,
    ];
}

fn lost() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "as the schedule wants it")
}

fn go_on() -> Step {
    Box::pin(std::future::ready(Ok(())))
}

/// For somebody whose process has ended.
fn never() -> Step {
    Box::pin(std::future::pending())
}

impl Director for Schedule {
    fn reach(&self, reached: Reached) -> Step {
        let (process, task) = CURRENT.get();
        if process == OUTSIDE {
            return go_on();
        }
        let mut state = self.state();
        if let Reached::Call(job, _) | Reached::Work(job) = reached {
            let is_call = matches!(reached, Reached::Call(..));
            // The recording of an answer does not misbehave.
            let facts = state.jobs.entry(job).or_default();
            facts.is_call |= is_call;
            let behaviour = if is_call || !facts.is_call {
                state.behaves(job)
            } else {
                Behaviour::Succeeds
            };
            if behaviour != Behaviour::Succeeds {
                state.note(|| format!("job {job:x} misbehaves: {behaviour:?}"));
            }
            match behaviour {
                Behaviour::Succeeds => {}
                Behaviour::Fails(_) => {
                    state.open.entry(task).or_default().failed.push(job);
                    return Box::pin(std::future::ready(Err(io::Error::other("it fails"))));
                }
                Behaviour::Panics(_) => {
                    return Box::pin(async { std::panic::resume_unwind(Box::new("it panics")) });
                }
                Behaviour::Kills(_) => {
                    state.jobs.entry(job).or_default().interrupted += 1;
                    state.crash(process, false);
                    return never();
                }
            }
        }
        if let Reached::Moment(Moment::Committed, _) = reached {
            state.follow(process, task, reached);
        }
        let fault = state.fault(reached);
        if let Some(fault) = fault {
            state.note(|| format!("{fault:?} at {reached:?}"));
        }
        let is_outside = matches!(reached, Reached::Point(_) | Reached::Begin(_));
        // Within a transaction others can only read meanwhile, so it is rare.
        let is_within = matches!(reached, Reached::Moment(Moment::Write | Moment::Commit, _));
        match fault {
            Some(Fault::Crash) => {
                state.crash(process, true);
                return never();
            }
            Some(Fault::Freeze(length)) if is_outside => {
                let length = Duration::from_millis(length);
                state.freeze(process, length);
                state.follow(process, task, reached);
                drop(state);
                self.later(length, move |state| state.thaw(process));
                // The actor stands still before this time.
                return Box::pin(async move {
                    tokio::time::sleep(length).await;
                    Ok(())
                });
            }
            Some(Fault::Lose) => {
                // A claim may have been committed of which nobody knows, and it has to end.
                state.allow(50);
                return Box::pin(std::future::ready(Err(lost())));
            }
            Some(Fault::Clock(ahead)) => {
                state.processes[process].clock.set_ahead(ahead);
                let is_worker = state.processes[process].name.starts_with('w');
                // What a worker defers by its own clock is due when that time comes. What ingress takes is
                // due at once, whatever its clock says.
                if is_worker {
                    state.allow(ahead.unsigned_abs() / 1000 + 20);
                    state.processes[process].is_excused = true;
                }
                let length =
                    Duration::from_millis(state.random.between(1_000, 6_000).cast_unsigned());
                state.disturb(length);
                let clock = state.processes[process].clock.clone();
                drop(state);
                self.later(length, move |_| clock.set_ahead(0));
                state = self.state();
            }
            Some(Fault::Outside(trouble)) => state.troubles.push(trouble),
            Some(Fault::Freeze(_)) | None => {}
        }
        state.follow(process, task, reached);
        let waits = is_outside && state.random.once_in(WAITS);
        if waits || is_within && state.random.once_in(4 * WAITS) {
            let most = if state.random.once_in(8) { 120 } else { 4 };
            let length = Duration::from_millis(state.random.between(0, most).cast_unsigned());
            return Box::pin(async move {
                tokio::time::sleep(length).await;
                Ok(())
            });
        }
        go_on()
    }

    fn adopt(&self, name: &'static str, task: Task) -> Task {
        let (process, _) = CURRENT.get();
        if process == OUTSIDE {
            return task;
        }
        let mut state = self.state();
        // Its first round has many statements. One schedule in some has it.
        if name == "housekeeping" && !state.has_housekeeping {
            return Box::pin(std::future::ready(()));
        }
        state.last_task += 1;
        Box::pin(Actor {
            schedule: self.clone(),
            process,
            life: state.processes[process].life,
            number: state.last_task,
            task: Some(task),
        })
    }
}

/// A task of a process.
struct Actor {
    schedule: Schedule,
    process: usize,
    life: u32,
    number: u64,
    task: Option<Task>,
}

impl Actor {
    fn is_alive(&self) -> bool {
        self.schedule.state().processes[self.process].life == self.life
    }
}

impl Future for Actor {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let (process, number) = (self.process, self.number);
        if !self.is_alive() {
            self.task = None;
            return Poll::Ready(());
        }
        let mut state = self.schedule.state();
        state.processes[process]
            .tasks
            .insert(number, context.waker().clone());
        if state.is_still || state.processes[process].is_frozen {
            return Poll::Pending;
        }
        drop(state);
        let before = CURRENT.replace((process, number));
        let polled = self.task.as_mut().map(|task| task.as_mut().poll(context));
        CURRENT.set(before);
        if !self.is_alive() {
            self.task = None;
            return Poll::Ready(());
        }
        if polled == Some(Poll::Pending) {
            return Poll::Pending;
        }
        let mut state = self.schedule.state();
        state.processes[process].tasks.remove(&number);
        state.open.remove(&number);
        drop(state);
        self.task = None;
        Poll::Ready(())
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let mut state = self.schedule.state();
        state.processes[self.process].tasks.remove(&self.number);
        state.open.remove(&self.number);
    }
}
