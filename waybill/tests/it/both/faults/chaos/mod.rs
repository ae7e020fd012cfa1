//! Everything fails at once and again: two ingresses, two workers of each queue, PostgreSQL with a standby,
//! RabbitMQ, the providers and an endpoint, under a load of shuffled and repeated deliveries.
//!
//! The processes are real, and killed, frozen and ended at random, get no memory, and their clocks are set; the
//! network to the servers is cut, swallowed and refused; the primary becomes read-only, has no room on its disk,
//! dies, and is replaced by its standby. Then it must come to rest by itself, and what was accepted is there, done, and done once.
//!
//! If `CHAOS_BESIDE` names the binary of another version, a process that is started again is of the other version.
//!
//! The seed decides the deliveries and the sequence of the faults; how they meet depends on the machine.
//! `scripts/chaos` runs it for longer.

mod callers;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use platform::clock::Clock;
use platform::token::Token;
use sandbox::{Delivery, Fault, Options, Poster};
use sandbox::{Sandbox, Webhooks, storm};
use serde_json::json;
use store::sql::Db;
use store::{audit, ledger, privacy_keys};
use tempfile::TempDir;
use tokio::time::Instant;
use uuid::Uuid;

use self::callers::Callers;
use crate::both::orders::storm::{are_conserved, are_right, deliveries, know_payments, lives};
use crate::support::backend::{Backend, PRIVACY_KEY, environment};
use crate::support::canary::{Found, address, email, phone, scan, scan_files, word};
use crate::support::cluster::Cluster;
use crate::support::endpoint::{StandIn, event_ids};
use crate::support::order::{at, with};
use crate::support::postgres::Replicated;
use crate::support::process::{self, Process, WallClock, free_port, is_ready, settings};
use crate::support::proxy::Proxy;
use crate::support::storm::count;
use crate::support::{PAYMENT_SECRET, STOREFRONT_SECRET, pause, within};

/// How long faults go on, if `CHAOS_SECONDS` does not say it.
const SECONDS: u64 = 40;
/// After the last fault something must be done in each such time until nothing is left to do. A claim of a process
/// that was killed runs out after 35 seconds, and a job that has failed several times waits for a minute.
const REST: Duration = Duration::from_secs(150);
/// And by then nothing is left. An erasure reads every body of its shop, of which there may be a million.
const LONGEST_REST: Duration = Duration::from_mins(20);
/// While more jobs than this wait nothing more is posted: what is slow is not what is tried here, and what waits
/// at the end is to be done within [`REST`].
const MOST_WAITING: i64 = 4000;
/// Orders, and people, of a wave of the load.
const ORDERS: usize = 40;
const PEOPLE: usize = 4;
/// After so many waves one in [`WITH_PEOPLE`] has people. An erasure reads all payment events that are kept, so among
/// many deliveries each takes long, and no shop has as many.
const ALL_WITH_PEOPLE: u64 = 100;
const WITH_PEOPLE: u64 = 8;
/// Waves that are under way at a time, if `CHAOS_WAVES` does not say it, and deliveries of one that each ingress
/// is given at a time.
const WAVES: u64 = 4;
const AT_ONCE: usize = 12;
/// Messages that a worker works on at a time.
const CONCURRENCY: &str = "4";
/// The shop of the people, of whom every second one is erased.
const SHOP: &str = "people.example";

fn number(name: &str, otherwise: u64) -> u64 {
    let given = environment(name);
    given.map_or(otherwise, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number"))
    })
}

/// How long nothing of a sort fails: so many milliseconds, or so many times as long as `CHAOS_PAUSE` says.
fn between_faults(chance: &mut Chance, least: u64, most: u64) -> Duration {
    let times = number("CHAOS_PAUSE", 1);
    chance.millis(least * times, most * times)
}

/// Random numbers that follow from a seed (xorshift).
struct Chance(u64);

impl Chance {
    fn new(seed: u64) -> Self {
        Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Less than `most`.
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % most
    }

    fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.below(most - least))
    }

    fn nth(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap()
    }
}

/// What was done, and when: what somebody reads who looks for the cause of a failure.
struct Timeline {
    begun: Instant,
    seed: u64,
    faults: Mutex<Vec<(Duration, String)>>,
    /// The log of all processes.
    log: PathBuf,
}

impl Timeline {
    fn note(&self, fault: impl Into<String>) {
        let entry = (self.begun.elapsed(), fault.into());
        self.faults.lock().unwrap().push(entry);
    }

    fn count(&self) -> usize {
        self.faults.lock().unwrap().len()
    }
}

/// It is printed when the test fails, and then with everything, and with the last errors that processes have logged.
impl Drop for Timeline {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let mut text = format!("CHAOS_SEED={}\n", self.seed);
        for (at, fault) in self.faults.lock().unwrap().iter() {
            let _ = writeln!(text, "{:8.2} s  {fault}", at.as_secs_f64());
        }
        let logged = fs::read_to_string(&self.log).unwrap_or_default();
        let errors = logged.lines().filter(|line| line.contains("ERROR"));
        for line in errors.rev().take(40).collect::<Vec<_>>().iter().rev() {
            let _ = writeln!(text, "{line}");
        }
        eprintln!("{text}");
    }
}

/// How processes of Waybill are started.
struct Starts {
    /// The binary of this version, and that of another one if `CHAOS_BESIDE` names it.
    versions: Vec<PathBuf>,
    /// How often each of them was started.
    counts: Vec<usize>,
    settings: Vec<(String, String)>,
    log: PathBuf,
}

impl Starts {
    fn new(settings: Vec<(String, String)>, log: &Path) -> Self {
        let other = environment("CHAOS_BESIDE").map(PathBuf::from);
        let versions: Vec<PathBuf> = [process::binary()].into_iter().chain(other).collect();
        Starts {
            counts: vec![0; versions.len()],
            versions,
            settings,
            log: log.to_owned(),
        }
    }

    fn start(
        &mut self,
        version: usize,
        name: &str,
        arguments: &[String],
        clock: &WallClock,
    ) -> Process {
        self.counts[version] += 1;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let settings = [&*self.settings, &clock.settings()].concat();
        let binary = &self.versions[version];
        Process::start_version(binary, name, &arguments, &settings, &self.log)
    }
}

/// The processes of Waybill.
struct Processes {
    starts: Starts,
    running: Vec<Running>,
}

struct Running {
    name: &'static str,
    arguments: Vec<String>,
    clock: WallClock,
    /// The place of its binary in [`Starts::versions`].
    version: usize,
    process: Process,
}

impl Running {
    /// Starts it again, as the next version: each is replaced by the other while other processes run on as they are.
    fn start(&mut self, starts: &mut Starts) {
        self.version = (self.version + 1) % starts.versions.len();
        self.process = starts.start(self.version, self.name, &self.arguments, &self.clock);
    }
}

/// By how many seconds a clock that is set is ahead or behind at most. A claim lasts 35 seconds, and what an
/// ingress whose clock is ahead has accepted may wait until then for a worker, if its message is lost.
const MOST_AHEAD: u64 = 60;

const WORKERS: [&str; 4] = [
    "waybill-orders",
    "waybill-payments",
    "waybill-privacy",
    "waybill-endpoints",
];

impl Processes {
    async fn start(settings: Vec<(String, String)>, ports: [u16; 2], log: &Path) -> Self {
        let mut processes = Processes {
            starts: Starts::new(settings, log),
            running: Vec::new(),
        };
        for port in ports {
            let address = format!("127.0.0.1:{port}");
            processes.add("waybill-ingress", vec!["--listen-addr".into(), address]);
        }
        for port in ports {
            is_ready(port).await;
        }
        for name in WORKERS.into_iter().cycle().take(2 * WORKERS.len()) {
            processes.add(name, vec!["--concurrency".into(), CONCURRENCY.into()]);
        }
        processes
    }

    fn add(&mut self, name: &'static str, arguments: Vec<String>) {
        let file = format!("clock-{}", self.running.len());
        let clock = WallClock::at(self.starts.log.with_file_name(file));
        // When two versions run, each has an ingress and a worker of each queue.
        let of_its_name = self.running.iter().filter(|it| it.name == name).count();
        let version = of_its_name % self.starts.versions.len();
        let process = self.starts.start(version, name, &arguments, &clock);
        self.running.push(Running {
            name,
            arguments,
            clock,
            version,
            process,
        });
    }

    /// Starts those again that have ended by themselves, as a supervisor does: one that finds no database when
    /// it starts says so and ends.
    fn supervise(&mut self, timeline: &Timeline) {
        for (nth, running) in self.running.iter_mut().enumerate() {
            if running.process.has_ended() {
                let name = running.name;
                timeline.note(format!("{name} {nth} has ended and is started again"));
                running.start(&mut self.starts);
            }
        }
    }

    /// Kills, freezes and ends one after the other, takes away its memory and sets its clock, until it is time.
    async fn fail_until(
        &mut self,
        end: Instant,
        chance: &mut Chance,
        timeline: &Timeline,
        is_posted: &AtomicBool,
    ) {
        while Instant::now() < end {
            pause(between_faults(chance, 300, 1500)).await;
            self.supervise(timeline);
            let nth = chance.nth(self.running.len());
            let running = &mut self.running[nth];
            let name = running.name;
            match chance.below(8) {
                0..=2 => {
                    timeline.note(format!("SIGKILL {name} {nth}"));
                    running.process.kill();
                    running.start(&mut self.starts);
                }
                6 if running.clock.can_be_set() => {
                    let seconds = chance.below(2 * MOST_AHEAD).cast_signed();
                    let seconds = seconds - MOST_AHEAD.cast_signed();
                    timeline.note(format!("the clock of {name} {nth} is set to {seconds:+} s"));
                    running.clock.set(seconds);
                }
                3 | 6 => {
                    timeline.note(format!("SIGTERM {name} {nth}"));
                    running.process.terminate().await;
                    running.start(&mut self.starts);
                }
                4 | 5 => {
                    let time = chance.millis(500, 4000);
                    timeline.note(format!("SIGSTOP {name} {nth} for {time:?}"));
                    running.process.stand_still();
                    pause(time).await;
                    running.process.go_on();
                }
                _ => {
                    let time = chance.millis(500, 4000);
                    timeline.note(format!("{name} {nth} gets no memory for {time:?}"));
                    running.process.limit_memory(true);
                    pause(time).await;
                    running.process.limit_memory(false);
                }
            }
        }
        for running in &self.running {
            running.clock.set(0);
        }
        while !is_posted.load(Ordering::SeqCst) {
            self.supervise(timeline);
            pause(Duration::from_millis(500)).await;
        }
    }
}

/// RabbitMQ behind proxies.
struct Brokers {
    /// One for each server.
    proxies: Vec<Proxy>,
    /// Three servers of the test's own, if `CHAOS_CLUSTER` asks for them. The broker of the other tests is not
    /// killed.
    cluster: Option<Cluster>,
}

impl Brokers {
    async fn start(backend: &Backend) -> Self {
        let cluster = match environment("CHAOS_CLUSTER") {
            Some(_) => Some(Cluster::start().await.expect("there is RabbitMQ")),
            None => None,
        };
        let urls = match &cluster {
            Some(cluster) => cluster.url.clone(),
            None => backend.amqp_url.clone().expect("there is a broker"),
        };
        let mut proxies = Vec::new();
        for url in urls.split(',') {
            proxies.push(Proxy::to(url).await);
        }
        Brokers { proxies, cluster }
    }

    fn url(&self) -> String {
        let urls: Vec<&str> = self.proxies.iter().map(|it| it.url.as_str()).collect();
        urls.join(",")
    }

    fn each(&self, change: impl Fn(&Proxy)) {
        self.proxies.iter().for_each(change);
    }

    async fn fail(&self, fault: &BrokerFault) {
        let ctl = match fault {
            BrokerFault::Killed(servers) => [&["cluster-kill"], servers.as_slice()].concat(),
            BrokerFault::NoMemory => {
                vec!["cluster-ctl", "1", "set_vm_memory_high_watermark", "0"]
            }
            BrokerFault::NoDisk => vec!["cluster-ctl", "1", "set_disk_free_limit", "100000GB"],
        };
        self.say(&ctl).await;
    }

    async fn mend(&self, fault: &BrokerFault) {
        let ctl = match fault {
            BrokerFault::Killed(servers) => [&["cluster-start"], servers.as_slice()].concat(),
            BrokerFault::NoMemory => {
                vec!["cluster-ctl", "1", "set_vm_memory_high_watermark", "0.6"]
            }
            BrokerFault::NoDisk => vec!["cluster-ctl", "1", "set_disk_free_limit", "50MB"],
        };
        self.say(&ctl).await;
    }

    async fn say(&self, arguments: &[&str]) {
        if let Some(cluster) = &self.cluster {
            cluster.services(arguments).await;
        }
    }
}

/// What only servers of the test's own may suffer.
enum BrokerFault {
    /// The servers with these numbers. Two of three leave the queues without a leader.
    Killed(Vec<&'static str>),
    /// A memory alarm: the brokers take no message.
    NoMemory,
    /// A disk alarm, which does the same.
    NoDisk,
}

/// What fails outside Waybill.
struct World<'a> {
    servers: Replicated,
    brokers: &'a Brokers,
    sandbox: &'a Sandbox,
    endpoint: StandIn,
}

impl World<'_> {
    async fn fail_until(&mut self, end: Instant, chance: &mut Chance, timeline: &Timeline) {
        while Instant::now() < end {
            pause(between_faults(chance, 300, 1500)).await;
            let time = chance.millis(200, 2500);
            let fault = chance.below(14);
            let what = match fault {
                0 => "the connections to the database are cut",
                1 => "the database answers nothing",
                2 => "the database refuses connections",
                3 => "the database commits and does not say so",
                4 => "the database is read-only",
                5 => "the standby is away",
                6 => "the primary dies, and the standby takes its place",
                13 => "the disk of the database is full",
                7 => "the connections to the broker are cut",
                8 => "the broker answers nothing",
                9 => "the broker refuses connections",
                10 => "the storefront loses its answers",
                11 => "the payment provider fails",
                _ => "the endpoint refuses",
            };
            timeline.note(format!("{what}, {time:?}"));
            self.fail(fault, time).await;
        }
    }

    async fn fail(&mut self, fault: u64, time: Duration) {
        let (database, brokers) = (&self.servers.address, self.brokers);
        match fault {
            0 => database.interrupt(),
            1 => database.swallow(),
            2 => database.kill(),
            3 => database.cut_commits(),
            4 => self.servers.primary.set_read_only(true).await,
            5 => self.servers.replication.kill(),
            6 => {
                self.servers.primary.kill();
                pause(time / 4).await;
                self.servers.fail_over().await;
                database.interrupt();
                self.servers.replace_standby().await;
            }
            7 => brokers.each(Proxy::interrupt),
            8 => brokers.each(Proxy::swallow),
            9 => brokers.each(Proxy::kill),
            10 => self.sandbox.storefront().fault_injector.fail(Fault::Lose),
            13 => {
                if !self.servers.primary.fill_disk().await {
                    database.interrupt();
                }
            }
            11 => self
                .sandbox
                .payment()
                .fault_injector
                .fail(Fault::Status(500)),
            _ => self.endpoint.is(500),
        }
        pause(time).await;
        self.mend(fault).await;
    }

    async fn mend(&mut self, fault: u64) {
        match fault {
            // Whoever waits for an answer that was swallowed is not kept waiting for good.
            1..=3 => {
                self.servers.address.restore();
                self.servers.address.interrupt();
            }
            4 => self.servers.primary.set_read_only(false).await,
            5 => self.servers.replication.restore(),
            8 | 9 => {
                self.brokers.each(Proxy::restore);
                self.brokers.each(Proxy::interrupt);
            }
            10 => self.sandbox.storefront().fault_injector.clear_faults(),
            11 => self.sandbox.payment().fault_injector.clear_faults(),
            12 => self.endpoint.is(200),
            13 => self.servers.primary.make_room().await,
            _ => {}
        }
    }
}

/// Lets servers of the broker fail until it is time, if they are the test's own.
async fn fail_brokers_until(
    brokers: &Brokers,
    end: Instant,
    chance: &mut Chance,
    timeline: &Timeline,
) {
    while brokers.cluster.is_some() && Instant::now() < end {
        pause(between_faults(chance, 5000, 15_000)).await;
        let fault = match chance.below(7) {
            0 => BrokerFault::Killed(vec!["1"]),
            1 => BrokerFault::Killed(vec!["2"]),
            2 => BrokerFault::Killed(vec!["3"]),
            3 => BrokerFault::Killed(vec!["1", "2"]),
            4 => BrokerFault::Killed(vec!["2", "3"]),
            5 => BrokerFault::NoMemory,
            _ => BrokerFault::NoDisk,
        };
        let time = chance.millis(1000, 6000);
        timeline.note(match &fault {
            BrokerFault::Killed(servers) => format!("brokers {servers:?} are killed, {time:?}"),
            BrokerFault::NoMemory => format!("a broker has no memory, {time:?}"),
            BrokerFault::NoDisk => format!("a broker has no room on its disk, {time:?}"),
        });
        brokers.fail(&fault).await;
        pause(time).await;
        brokers.mend(&fault).await;
    }
}

fn is_erased(person: usize) -> bool {
    person.is_multiple_of(2)
}

/// The orders of a person, made long ago, and for every second one the request to erase them.
fn of_person(person: usize) -> Vec<(String, String)> {
    let id = i64::try_from(1000 + person).unwrap();
    let order = |second: u32| {
        let time = |second| at(second).replacen("2027", "2025", 1);
        with(
            crate::support::order::body(id, second, "pending"),
            &json!({
                "created_at": time(0), "updated_at": time(second),
                "email": email(person), "phone": phone(person), "note": word(person, "note"),
                "customer": {
                    "id": id, "email": email(person), "phone": phone(person),
                    "first_name": word(person, "first"), "last_name": word(person, "last"),
                },
                "shipping_address": address(person, "shipping"),
            }),
        )
        .to_string()
    };
    let mut all: Vec<(String, String)> = vec![
        ("orders/create".into(), order(1)),
        ("orders/updated".into(), order(2)),
        ("orders/updated".into(), order(3)),
    ];
    if is_erased(person) {
        let request = json!({
            "shop_domain": SHOP, "orders_to_redact": [],
            "customer": {"id": id, "email": email(person), "phone": phone(person)},
        });
        all.push(("customers/redact".into(), request.to_string()));
    }
    all
}

/// Waves of deliveries to both ingresses, each delivery again until it is taken.
struct Load {
    posters: [Poster; 2],
    clock: Clock,
    seed: u64,
    posted: Vec<Delivery>,
    /// How many orders and people there are.
    orders: usize,
    people: usize,
    waves: u64,
    requests: u64,
    is_full: Arc<AtomicBool>,
}

impl Load {
    /// Posts until it is time. `knows` is called with the orders of each wave before it is posted.
    async fn until(&mut self, end: Instant, knows: impl Fn(&[usize])) {
        let posters = self.posters.clone();
        let at_once = usize::try_from(number("CHAOS_WAVES", WAVES)).unwrap();
        let is_full = self.is_full.clone();
        let waves = std::iter::from_fn(|| (Instant::now() < end).then(|| self.wave(&knows)));
        let waves: Vec<(Vec<Delivery>, u64)> = stream::iter(waves)
            .map(async |wave| {
                while is_full.load(Ordering::SeqCst) {
                    pause(Duration::from_millis(100)).await;
                }
                post(&posters, wave).await
            })
            .buffer_unordered(at_once)
            .collect()
            .await;
        for (wave, requests) in waves {
            self.posted.extend(wave);
            self.requests += requests;
        }
    }

    fn wave(&mut self, knows: impl Fn(&[usize])) -> Vec<Delivery> {
        self.waves += 1;
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(self.waves);
        let orders: Vec<usize> = (self.orders..self.orders + ORDERS).collect();
        knows(&orders);
        let mut wave = deliveries(orders, seed, &self.clock);
        self.orders += ORDERS;
        if self.waves <= ALL_WITH_PEOPLE || self.waves.is_multiple_of(WITH_PEOPLE) {
            let people = (self.people..self.people + PEOPLE).flat_map(of_person);
            wave.extend(storm::shuffled(people, 1..=3, !seed, SHOP));
            self.people += PEOPLE;
        }
        wave
    }
}

/// Sees until it is time whether more waits than should. A database that does not answer says nothing.
async fn watch(url: &str, is_full: &AtomicBool, end: Instant) {
    let waiting = "select count(*) as n from (
        select 1 as one from jobs where state = 'ready' limit 5000
    ) as waiting";
    while Instant::now() < end {
        let looked = tokio::time::timeout(Duration::from_secs(3), async {
            let db = Db::open(url, 1).await?;
            let row = db.query(waiting).fetch_one().await;
            db.close().await;
            row?.get::<i64>("n")
        });
        if let Ok(Ok(count)) = looked.await {
            is_full.store(count > MOST_WAITING, Ordering::SeqCst);
        }
        pause(Duration::from_secs(1)).await;
    }
    is_full.store(false, Ordering::SeqCst);
}

/// Posts these deliveries, half of them to each ingress; how many answers there were.
async fn post(posters: &[Poster; 2], wave: Vec<Delivery>) -> (Vec<Delivery>, u64) {
    let (left, right) = wave.split_at(wave.len() / 2);
    let [one, other] = posters;
    let reports = tokio::join!(
        one.post_all(left, AT_ONCE, |_| {}),
        other.post_all(right, AT_ONCE, |_| {})
    );
    let mut answers = 0;
    for report in [reports.0, reports.1] {
        assert_eq!((report.refused, report.given_up), (0, 0), "{report:?}");
        answers += report.answers.values().sum::<u64>();
    }
    (wave, answers)
}

/// What is still to be done, and the events that the endpoint does not have; empty when it is at rest.
async fn left(db: &Db, endpoint: &StandIn) -> String {
    let jobs = "select kind, state, attempts, last_error, count(*) as n,
                       min(run_at) - cast(extract(epoch from now()) * 1000 as bigint) as due
                from jobs where state <> 'done'
                group by kind, state, attempts, last_error order by kind, attempts limit 20";
    let mut text = String::new();
    for row in db.query(jobs).fetch_all().await.unwrap() {
        let column = |name| row.get::<String>(name).unwrap();
        let number = |name| row.get::<i64>(name).unwrap();
        let why: Option<String> = row.get("last_error").unwrap();
        let _ = writeln!(
            text,
            "{} {} {}, failed {} times, due in {} ms: {}",
            number("n"),
            column("kind"),
            column("state"),
            number("attempts"),
            number("due"),
            why.unwrap_or_default()
        );
    }
    let events = event_ids(db).await.unwrap();
    if text.is_empty() && !endpoint.has_all(&events) {
        let ids: BTreeSet<Uuid> = endpoint.ids().into_iter().collect();
        let missing = events.iter().filter(|id| !ids.contains(id));
        let _ = writeln!(text, "{} events are not at the endpoint", missing.count());
    }
    text
}

async fn comes_to_rest(
    db: &Db,
    endpoint: &StandIn,
    processes: &mut Processes,
    callers: &Callers<'_>,
    timeline: &Timeline,
) -> i64 {
    let mut requeued = 0;
    let open = "select count(*) as n from jobs where state <> 'done'";
    let last = Instant::now() + LONGEST_REST;
    let (mut fewest, mut until) = (i64::MAX, Instant::now() + REST);
    loop {
        let begun = Instant::now();
        requeued += callers.requeue(db).await;
        let left = left(db, endpoint).await;
        if left.is_empty() {
            return requeued;
        }
        let count = count(db, open).await;
        if count < fewest {
            (fewest, until) = (count, Instant::now() + REST);
        }
        assert!(
            Instant::now() < until.min(last),
            "it does not come to rest:\n{left}"
        );
        processes.supervise(timeline);
        // Looking takes long where there are many jobs, and is not what should take up the database.
        pause((4 * begun.elapsed()).max(Duration::from_millis(500))).await;
    }
}

/// Whom the canaries are of that are found in the database, in its dump, and in the logs.
fn found(url: &str, log: &Path) -> Found {
    let mut found = Found::new();
    let dump = std::process::Command::new("pg_dump")
        .arg(url)
        .output()
        .unwrap();
    assert!(dump.status.success(), "{dump:?}");
    scan("dump", &dump.stdout, &mut found);
    for row in dump.stdout.split(|byte| *byte == b'\n') {
        let fields = row.split(|byte| *byte == b'\t');
        let in_hex = fields.filter_map(|field| hex::decode(field.strip_prefix(b"\\\\x")?).ok());
        for bytes in in_hex {
            scan("dump, bytes", &bytes, &mut found);
        }
    }
    scan_files(log, &mut found);
    found
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and RabbitMQ: scripts/test distributed"]
async fn heavy_in_chaos_nothing_is_lost_and_nothing_is_done_twice() {
    let (seed, seconds) = (number("CHAOS_SEED", 1), number("CHAOS_SECONDS", SECONDS));
    let Some(servers) = Replicated::start().await else {
        return;
    };
    let backend = Backend::create().await;
    let brokers = Brokers::start(&backend).await;
    let sandbox = Sandbox::start(Options::default()).await.unwrap();
    let mut world = World {
        servers,
        brokers: &brokers,
        sandbox: &sandbox,
        endpoint: StandIn::start(200).await,
    };
    let ports = [free_port(), free_port()];
    let mut settings = settings(&backend, ports[0]);
    for (name, value) in [
        ("DATABASE_URL", world.servers.address.url.clone()),
        ("AMQP_URL", world.brokers.url()),
        ("ENDPOINT_NETWORKS", "127.0.0.0/8".to_owned()),
        ("CHECKOUT_RETURN_ORIGINS", "https://shop.example".to_owned()),
        // Each caller comes from an address of their own, as a proxy says.
        ("TRUSTED_PROXIES", "127.0.0.1/32".to_owned()),
    ] {
        settings.push((name.to_owned(), value));
    }
    settings.extend(sandbox.settings());
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("processes.log");
    let mut processes = Processes::start(settings.clone(), ports, &log).await;
    let pairs: Vec<(&str, &str)> = settings.iter().map(|(a, b)| (&**a, &**b)).collect();
    let mut add = process::command("waybill", &pairs);
    add.args(["endpoints", "add", &world.endpoint.url]);
    let added = process::run(add).await;
    assert!(added.status.success(), "{added:?}");

    let callers = Callers::new(&sandbox, settings.clone(), ports).await;

    let clock = Clock::system();
    let poster = |port: u16| {
        let webhooks = Webhooks {
            base_url: format!("http://127.0.0.1:{port}"),
            storefront_secret: STOREFRONT_SECRET.to_owned(),
            payment_secret: PAYMENT_SECRET.to_owned(),
            shop: String::new(),
        };
        Poster::new(webhooks, clock.clone()).unwrap()
    };
    let models = [0, 1, 2];
    let mut load = Load {
        posters: ports.map(poster),
        posted: lives(&models, &clock),
        clock: clock.clone(),
        seed,
        orders: models.len() + 1,
        people: 0,
        waves: 0,
        requests: 0,
        is_full: Arc::default(),
    };
    know_payments(&sandbox, &models);
    for delivery in load.posted.clone() {
        post(&load.posters, vec![delivery]).await;
        within(REST, "the models are worked on in sequence", async || {
            let db = Db::open(&world.servers.primary.url, 1).await.unwrap();
            let ready = count(&db, "select count(*) as n from jobs where state = 'ready'").await;
            db.close().await;
            ready == 0
        })
        .await;
    }

    let timeline = Timeline {
        begun: Instant::now(),
        seed,
        faults: Mutex::default(),
        log: log.clone(),
    };
    let end = timeline.begun + Duration::from_secs(seconds);
    let (mut of_processes, mut of_servers) = (Chance::new(seed), Chance::new(!seed));
    let mut of_operator = Chance::new(seed.rotate_left(32) ^ 0x5DEE_CE66);
    let is_posted = AtomicBool::new(false);
    let database = world.servers.address.url.clone();
    let mut of_brokers = Chance::new(seed.rotate_left(16) ^ 0x0B0E_C7A1);
    let ((), (), (), (), answered) = tokio::join!(
        processes.fail_until(end, &mut of_processes, &timeline, &is_posted),
        world.fail_until(end, &mut of_servers, &timeline),
        fail_brokers_until(&brokers, end, &mut of_brokers, &timeline),
        callers.operate_until(end, &mut of_operator, &timeline),
        async {
            let is_full = load.is_full.clone();
            let load = load.until(end, |orders| know_payments(&sandbox, orders));
            let watch = watch(&database, &is_full, end);
            let ((), answered, ()) = tokio::join!(load, callers.until(end), watch);
            is_posted.store(true, Ordering::SeqCst);
            answered
        }
    );
    let (faults, faulty) = (timeline.count(), timeline.begun.elapsed());
    timeline.note("the last fault is over");

    let url = world.servers.primary.url.clone();
    let db = Db::open(&url, 2).await.unwrap();
    let requeued = comes_to_rest(&db, &world.endpoint, &mut processes, &callers, &timeline).await;
    let rested = timeline.begun.elapsed().saturating_sub(faulty);
    // One in so many meets with the end of its process five times in a row where one is killed each second or two.
    let posted = i64::try_from(load.posted.len()).unwrap();
    assert!(
        requeued <= 2 + posted / 10_000,
        "{requeued} of {posted} jobs were given up because their processes ended"
    );
    are_conserved(&db, &load.posted).await;
    let orders: Vec<usize> = models
        .into_iter()
        .chain(models.len() + 1..load.orders)
        .collect();
    are_right(&db, &sandbox, &orders, models).await;
    callers.are_right(&answered, &db).await;
    world.endpoint.in_order(&db).await;
    let books = ledger::verify(&db).await.unwrap();
    assert!(books.wrong.is_empty(), "{:?}", books.wrong);
    let key = Token::new(PRIVACY_KEY.to_owned());
    let keys = privacy_keys::load(&db, Some(&key), &clock).await.unwrap();
    let chain = audit::verify(&db, &keys).await.unwrap();
    assert!(chain.broken.is_none(), "{:?}", chain.broken);
    let late = "select count(*) as n from privacy_requests where state <> 'done'";
    assert_eq!(count(&db, late).await, 0);
    db.close().await;
    let found = found(&url, &log);
    for person in 0..load.people {
        let place = found.get(&person);
        assert_eq!(place.is_some(), !is_erased(person), "{person}: {place:?}");
    }
    eprintln!(
        "seed {seed}: {} deliveries in {} requests, {faults} faults in {:.0} s, at rest after {:.0} s, \
         starts of each version {:?}; lost 0, doubled 0, late 0; {requeued} requeued by hand",
        load.posted.len(),
        load.requests,
        faulty.as_secs_f64(),
        rested.as_secs_f64(),
        processes.starts.counts
    );
}
