//! One process that is everything, and ends at one crash point after the other; what it talks to; and what
//! must be right when it has come to rest.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::slice;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::process::open_database;
use futures_util::{StreamExt as _, stream};
use platform::clock::Clock;
use platform::token::Token;
use sandbox::{Delivery, Options, Poster, Sandbox, Webhooks};
use serde_json::Value;
use store::sql::Db;
use store::{audit, ledger, privacy_keys};

use super::table::{Area, Target, targets};
use crate::support::backend::{Backend, PRIVACY_KEY, is_distributed};
use crate::support::endpoint::{StandIn, event_ids};
use crate::support::job;
use crate::support::process::{self, Process, free_port, settings};
use crate::support::storm::count;
use crate::support::{PAYMENT_SECRET, STOREFRONT_SECRET, pause, within};

/// A process has ended at its point by then, and everything rests by then.
const LONGEST: Duration = Duration::from_mins(1);
/// `SIGABRT`: nothing else in Waybill ends a process with it.
pub const ABORTED: i32 = 6;
/// Deliveries that the providers post at a time.
const AT_ONCE: usize = 12;
/// Crashes between two processes that end well.
const IN_A_ROW: usize = 3;
/// Times that a job is at its process' end before a process that ends well: the next target may end two more
/// while they run it, and whoever claims it after five of them dead-letters it.
const OFTEN: i64 = 3;

pub struct World {
    pub backend: Backend,
    pub db: Db,
    pub port: u16,
    pub settings: Vec<(String, String)>,
    pub sandbox: Sandbox,
    pub endpoint: StandIn,
    pub providers: Providers,
    pub clock: Clock,
    /// What was posted, answered or not.
    pub posted: Vec<Delivery>,
    left: BTreeSet<String>,
    in_a_row: usize,
}

impl World {
    /// With a database that has the schema and nothing else.
    pub async fn new(area: Area, more: &[(&str, &str)]) -> Self {
        let backend = Backend::with_schema().await;
        let db = open_database(&backend.database_url, 1).await.unwrap();
        db.close().await;
        Self::on(backend, area, more).await
    }

    pub async fn on(backend: Backend, area: Area, more: &[(&str, &str)]) -> Self {
        let port = free_port();
        let sandbox = Sandbox::start(Options::default()).await.unwrap();
        let mut settings = settings(&backend, port);
        for (name, value) in [
            ("ENDPOINT_NETWORKS", "127.0.0.0/8".to_owned()),
            ("PRIVACY_SHOP_REDACT_HOLD_SECONDS", "0".to_owned()),
        ] {
            settings.push((name.to_owned(), value));
        }
        settings.extend(sandbox.settings());
        let more = more
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        settings.extend(more);
        let clock = Clock::system();
        let webhooks = Webhooks {
            base_url: format!("http://127.0.0.1:{port}"),
            storefront_secret: STOREFRONT_SECRET.to_owned(),
            payment_secret: PAYMENT_SECRET.to_owned(),
            shop: String::new(),
        };
        World {
            db: Db::open(&backend.database_url, 2).await.unwrap(),
            providers: Providers {
                poster: Poster::new(webhooks, clock.clone()).unwrap(),
                answered: Arc::default(),
            },
            endpoint: StandIn::start(200).await,
            left: targets(area).into_iter().map(|target| target.at).collect(),
            posted: Vec::new(),
            in_a_row: 0,
            backend,
            port,
            settings,
            sandbox,
            clock,
        }
    }

    pub fn log(&self) -> PathBuf {
        self.backend.folder().join("processes.log")
    }

    /// A process that ends at this point, or at none.
    pub fn start(&self, at: &str) -> Process {
        let mut settings = self.settings.clone();
        settings.push(("WAYBILL_CRASH_AT".into(), at.into()));
        Process::start_logged("waybill", &["serve"], &settings, &self.log())
    }

    /// Waits until the process serves, and its bus works: until then the sweep notifies in place of intake.
    pub async fn is_ready(&self) {
        let client = reqwest::Client::new();
        let url = format!("http://127.0.0.1:{}/readyz", self.port);
        loop {
            if let Ok(answer) = client.get(&url).send().await {
                let text = answer.text().await.unwrap_or_default();
                let found: Value = serde_json::from_str(&text).unwrap_or_default();
                if found["status"] == "ready" {
                    return;
                }
            }
            pause(Duration::from_millis(10)).await;
        }
    }

    /// Starts a process that ends at this point, and does this until it has: everything goes on for as
    /// long as the process lives.
    pub async fn crash(&mut self, target: &Target, stimulus: impl Future<Output = ()>) {
        let mut process = self.start(&target.at);
        let status = ended(&mut process, target, async {
            self.is_ready().await;
            stimulus.await;
        });
        let status = status.await;
        self.assert_aborted(status, &target.name);
        self.left.remove(&target.at);
        self.let_time_pass().await;
        self.in_a_row += 1;
    }

    /// After a few crashes a process does what is left. A job counts the processes that end while they run it,
    /// killed ones too, and must not be dead-lettered for what the test does.
    pub async fn recover_sometimes(&mut self) {
        let often =
            "select coalesce(max(unfinished_attempts), 0) as n from jobs where state = 'ready'";
        if self.in_a_row >= IN_A_ROW || count(&self.db, often).await >= OFTEN {
            self.recover().await;
        }
    }

    /// Starts a process that ends at this point before it serves, or soon after.
    pub async fn crash_at_start(&mut self, target: &Target) {
        let mut process = self.start(&target.at);
        let status = ended(&mut process, target, std::future::pending()).await;
        self.assert_aborted(status, &target.name);
        self.left.remove(&target.at);
    }

    fn assert_aborted(&self, status: ExitStatus, at: &str) {
        if status.signal() != Some(ABORTED) {
            let log = std::fs::read_to_string(self.log()).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(5).collect();
            panic!("{at}: {status}; its last lines, newest first: {last:#?}");
        }
    }

    /// Starts an operator's command that ends at this point.
    pub async fn crash_command(&mut self, target: &Target, arguments: &[&str]) {
        let mut settings = self.pairs();
        settings.push(("WAYBILL_CRASH_AT", &target.at));
        let mut command = process::command("waybill", &settings);
        command.args(arguments);
        let output = process::run(command).await;
        let Target { name, .. } = target;
        assert_eq!(output.status.signal(), Some(ABORTED), "{name}: {output:?}");
        self.left.remove(&target.at);
    }

    pub async fn command(&self, arguments: &[&str]) -> String {
        let mut command = process::command("waybill", &self.pairs());
        command.args(arguments);
        let output = process::run(command).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        let pairs = self.settings.iter();
        pairs.map(|(name, value)| (&**name, &**value)).collect()
    }

    /// The leases and claims of a process that is dead run out at once.
    pub async fn let_time_pass(&self) {
        self.change("delete from leases").await;
        let now = self.clock.now().0;
        let mut tx = self.db.begin().await.unwrap();
        tx.query(
            "update jobs set run_at = $1
             where state = 'ready' and claims is not null and unfinished_attempts > 0 and run_at > $1",
        )
        .bind(now)
        .execute()
        .await
        .unwrap();
        tx.commit().await.unwrap();
    }

    pub async fn change(&self, sql: &'static str) {
        let mut tx = self.db.begin().await.unwrap();
        tx.query(sql).execute().await.unwrap();
        tx.commit().await.unwrap();
    }

    /// Lets a process that does not crash do all that is left.
    pub async fn recover(&mut self) {
        // The messages of the dead process are known to be lost, without the seconds that it takes to be sure.
        let lost =
            "update jobs set notified_at = 1 where state = 'ready' and notified_at is not null";
        self.change(lost).await;
        let mut process = self.start("");
        self.is_ready().await;
        self.rests().await;
        process.kill();
        self.let_time_pass().await;
        self.in_a_row = 0;
    }

    pub async fn rests(&self) {
        within(LONGEST, "nothing is left to do", async || {
            self.still().await.is_empty()
        })
        .await;
    }

    /// What is still to be done; empty when it rests.
    async fn still(&self) -> String {
        self.jobs("ready").await
    }

    /// The jobs in this state, with the last error of each kind.
    pub async fn jobs(&self, state: &str) -> String {
        let jobs = "select kind, last_error, count(*) as n from jobs where state = $1
                    group by kind, last_error";
        let mut text = String::new();
        let rows = self.db.query(jobs).bind(state).fetch_all().await;
        for row in rows.unwrap() {
            let (kind, n): (String, i64) = (row.get("kind").unwrap(), row.get("n").unwrap());
            let why: Option<String> = row.get("last_error").unwrap();
            let _ = writeln!(text, "{n} {kind}: {}", why.unwrap_or_default());
        }
        text
    }

    /// A process without crashes gets everything again that was not answered, and nothing that was: that must be
    /// there. What must hold of every world is checked when it rests. Returns what it runs in.
    pub async fn finish(&mut self) -> Process {
        assert!(self.left.is_empty(), "no process ended at {:?}", self.left);
        let process = self.start("");
        self.is_ready().await;
        self.providers
            .post(&self.providers.unanswered(&self.posted))
            .await;
        self.rests().await;
        let dead = self.jobs("dead").await;
        within(
            LONGEST,
            &format!("the endpoint has all events; dead:\n{dead}"),
            async || {
                let events = event_ids(&self.db).await.unwrap();
                self.has_no_endpoint().await || self.endpoint.has_all(&events)
            },
        )
        .await;
        let strange = "select count(*) as n from jobs where state not in ('ready', 'done', 'dead')";
        assert_eq!(count(&self.db, strange).await, 0);
        let orphans = "select count(*) as n from webhook_ids
                       where not exists (select 1 from jobs where jobs.id = webhook_ids.job_id)";
        assert_eq!(count(&self.db, orphans).await, 0);
        assert_eq!(count(&self.db, job::ALONE).await, 0);
        let books = ledger::verify(&self.db).await.unwrap();
        assert!(books.wrong.is_empty(), "{:?}", books.wrong);
        let key = Token::new(PRIVACY_KEY.to_owned());
        let key = is_distributed().then_some(&key);
        let keys = privacy_keys::load(&self.db, key, &self.clock)
            .await
            .unwrap();
        let chain = audit::verify(&self.db, &keys).await.unwrap();
        assert!(chain.broken.is_none(), "{:?}", chain.broken);
        process
    }

    async fn has_no_endpoint(&self) -> bool {
        count(
            &self.db,
            "select count(*) as n from endpoints where secret is not null",
        )
        .await
            == 0
    }
}

/// The providers: they post a delivery again until it is answered, and not once more after that.
#[derive(Clone)]
pub struct Providers {
    poster: Poster,
    /// Ids of the deliveries that were accepted or known.
    answered: Arc<Mutex<HashSet<String>>>,
}

impl Providers {
    pub async fn post(&self, deliveries: &[Delivery]) {
        stream::iter(deliveries)
            .for_each_concurrent(AT_ONCE, async |delivery| {
                let one = slice::from_ref(delivery);
                let report = self.poster.post_all(one, 1, |_| {}).await;
                assert_eq!(report.accepted + report.duplicates, 1, "{report:?}");
                self.answered.lock().unwrap().insert(delivery.id.clone());
            })
            .await;
    }

    fn unanswered(&self, deliveries: &[Delivery]) -> Vec<Delivery> {
        let answered = self.answered.lock().unwrap();
        let deliveries = deliveries.iter().cloned();
        deliveries.filter(|it| !answered.contains(&it.id)).collect()
    }
}

/// How a process ended, while this was done.
async fn ended(
    process: &mut Process,
    target: &Target,
    stimulus: impl Future<Output = ()>,
) -> ExitStatus {
    let ended = async {
        loop {
            if let Some(status) = process.ended() {
                return status;
            }
            pause(Duration::from_millis(5)).await;
        }
    };
    let done = async {
        stimulus.await;
        std::future::pending().await
    };
    let raced = async {
        tokio::select! {
            status = ended => status,
            status = done => status,
        }
    };
    let raced = tokio::time::timeout(LONGEST, raced).await;
    raced.unwrap_or_else(|_| panic!("the process never reached {}", target.name))
}
