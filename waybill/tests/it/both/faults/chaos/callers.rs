//! Those who call Waybill while everything fails: people who log in with a device code, a website that opens
//! checkouts, and an operator who pauses and resumes, looks and migrates.
//!
//! Each asks as a good client does: again when nobody answers, or when the answer is 429 or 503. No other
//! failure may be answered.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use reqwest::{Client, Method, RequestBuilder};
use sandbox::{Email, Sandbox, User};
use serde_json::{Value, json};
use store::sql::Db;
use tokio::time::Instant;

use super::{Chance, REST, Timeline};
use crate::support::storm::count;
use crate::support::{pause, process};

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
const BETWEEN_TRIES: Duration = Duration::from_millis(400);
/// A code may be polled every five seconds.
const BETWEEN_POLLS: Duration = Duration::from_millis(5200);
const LOGINS_AT_ONCE: usize = 3;
const CHECKOUTS_AT_ONCE: usize = 2;
const BETWEEN_CHECKOUTS: Duration = Duration::from_millis(150);

pub struct Callers<'a> {
    sandbox: &'a Sandbox,
    settings: Vec<(String, String)>,
    ports: [u16; 2],
    key: String,
    client: Client,
    asked: AtomicU64,
    logins: AtomicU64,
    checkouts: AtomicU64,
    /// Logins whose code was spent although its token never came.
    begun_again: AtomicU64,
}

/// What was answered, which must be true for good.
#[derive(Default)]
pub struct Answered {
    /// Who has logged in, and their token.
    pub tokens: Vec<(String, String)>,
    /// Idempotency keys of checkouts, and what was answered.
    pub checkouts: Vec<(String, Value)>,
}

impl<'a> Callers<'a> {
    pub async fn new(
        sandbox: &'a Sandbox,
        settings: Vec<(String, String)>,
        ports: [u16; 2],
    ) -> Self {
        let mut callers = Callers {
            sandbox,
            settings,
            ports,
            key: String::new(),
            client: Client::new(),
            asked: AtomicU64::new(0),
            logins: AtomicU64::new(0),
            checkouts: AtomicU64::new(0),
            begun_again: AtomicU64::new(0),
        };
        let made = callers
            .command(&["keys", "create", "website", "--json"])
            .await
            .unwrap();
        let made: Value = serde_json::from_str(&made).unwrap();
        made["key"].as_str().unwrap().clone_into(&mut callers.key);
        callers
    }

    /// What a command prints; its complaint if it failed.
    async fn command(&self, arguments: &[&str]) -> Result<String, String> {
        let settings: Vec<_> = self.settings.iter().map(|(a, b)| (&**a, &**b)).collect();
        let mut command = process::command("waybill", &settings);
        command.args(arguments);
        let output = process::run(command).await;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        if output.status.success() {
            Ok(text(output.stdout))
        } else {
            Err(text(output.stderr))
        }
    }

    /// Everybody goes on until it is time, and then ends what they have begun.
    pub async fn until(&self, end: Instant) -> Answered {
        let (tokens, checkouts) = tokio::join!(
            join_all((0..LOGINS_AT_ONCE).map(async |_| self.log_in_until(end).await)),
            join_all((0..CHECKOUTS_AT_ONCE).map(async |_| self.check_out_until(end).await)),
        );
        Answered {
            tokens: tokens.concat(),
            checkouts: checkouts.concat(),
        }
    }

    /// Each login is of a user of its own, because the provider lets nobody have more than ten tokens.
    async fn log_in_until(&self, end: Instant) -> Vec<(String, String)> {
        let mut tokens = Vec::new();
        while Instant::now() < end {
            let login = format!("user-{}", self.logins.fetch_add(1, Ordering::Relaxed));
            let address = Email::primary(&format!("{login}@example.com"), true);
            let user = User::new(&login, None, vec![address]);
            self.sandbox.identity().add_user(user);
            let token = self.log_in(&login).await;
            tokens.push((login, token));
        }
        tokens
    }

    /// Keys and answers.
    async fn check_out_until(&self, end: Instant) -> Vec<(String, Value)> {
        let mut checkouts = Vec::new();
        while Instant::now() < end {
            let nth = self.checkouts.fetch_add(1, Ordering::Relaxed);
            let key = format!("basket-{nth}");
            let body = self.checkout(&key).await;
            checkouts.push((key, body));
            pause(BETWEEN_CHECKOUTS).await;
        }
        checkouts
    }

    /// Status and body of whichever ingress answers.
    async fn answer(&self, request: impl Fn(String) -> RequestBuilder) -> (u16, Value) {
        let until = Instant::now() + 4 * REST;
        loop {
            let nth = self.asked.fetch_add(1, Ordering::Relaxed);
            let port = self.ports[usize::from(nth % 2 == 1)];
            let base = format!("http://127.0.0.1:{port}");
            // Nobody is limited for what others ask.
            let of = nth.to_be_bytes();
            let address = format!("10.{}.{}.{}", of[5], of[6], of[7]);
            let request = request(base).timeout(PATIENCE);
            let request = request.header("X-Forwarded-For", address);
            if let Ok(response) = request.send().await {
                let status = response.status().as_u16();
                let body = response.bytes().await;
                let body = body
                    .ok()
                    .and_then(|body| serde_json::from_slice(&body).ok());
                match (status, body) {
                    // The same idempotency key is being answered elsewhere.
                    (409 | 429 | 503, _) | (_, None) => {}
                    (status, Some(body)) => return (status, body),
                }
            }
            assert!(Instant::now() < until, "nobody answers");
            pause(BETWEEN_TRIES).await;
        }
    }

    fn request(&self, method: Method, url: String) -> RequestBuilder {
        self.client.request(method, url)
    }

    /// The token of somebody who has logged in.
    async fn log_in(&self, login: &str) -> String {
        loop {
            let (status, begun) = self
                .answer(|base| self.request(Method::POST, format!("{base}/auth/device/code")))
                .await;
            assert_eq!(status, 200, "{begun}");
            let text = |name: &str| begun[name].as_str().unwrap().to_owned();
            let identity = self.sandbox.identity();
            identity.approve(&text("user_code"), login).unwrap();
            if let Some(token) = self.token(&text("device_code")).await {
                return token;
            }
            self.begun_again.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// None: the code was spent, and whom its token was for has never got it.
    async fn token(&self, device_code: &str) -> Option<String> {
        let form = [
            ("device_code", device_code),
            ("grant_type", providers::identity::GRANT_TYPE),
        ];
        loop {
            let (status, body) = self
                .answer(|base| {
                    let url = format!("{base}/auth/device/token");
                    self.request(Method::POST, url).form(&form)
                })
                .await;
            match status {
                200 => return Some(body["access_token"].as_str().unwrap().to_owned()),
                428 => pause(BETWEEN_POLLS).await,
                400 | 404 => return None,
                status => panic!("{status}: {body}"),
            }
        }
    }

    async fn checkout(&self, key: &str) -> Value {
        let basket = json!({
            "line_items": [{"name": "Mug", "amount": 1450, "currency": "EUR", "quantity": 2}],
            "return_url": "https://shop.example/thanks",
        });
        let (status, body) = self
            .answer(|base| {
                let url = format!("{base}/api/commerce/checkout");
                let request = self.request(Method::POST, url).bearer_auth(&self.key);
                request.header("Idempotency-Key", key).json(&basket)
            })
            .await;
        assert_eq!(status, 201, "{key}: {body}");
        body
    }

    /// Pauses, resumes, looks and migrates until it is time. A command that finds no database says so.
    pub async fn operate_until(&self, end: Instant, chance: &mut Chance, timeline: &Timeline) {
        const QUEUES: [&str; 4] = ["orders", "payments", "privacy", "endpoints"];
        while Instant::now() < end {
            pause(chance.millis(2000, 5000)).await;
            let queue = QUEUES[chance.nth(QUEUES.len())];
            match chance.below(4) {
                0 => {
                    timeline.note(format!("the operator pauses {queue}"));
                    let begin = ["pauses", "begin", "queue", queue, "--for", "1m"];
                    let _ = self.command(&begin).await;
                    pause(chance.millis(500, 2500)).await;
                    // Whoever got no answer does not know what was done.
                    let end = ["pauses", "end", "queue", queue];
                    while let Err(said) = self.command(&end).await {
                        if said.contains("is not paused") {
                            break;
                        }
                        pause(BETWEEN_TRIES).await;
                    }
                }
                1 => {
                    timeline.note("the operator migrates");
                    let _ = self.command(&["migrate"]).await;
                }
                2 => {
                    let _ = self.command(&["doctor"]).await;
                }
                _ => {
                    let (status, page) = self
                        .answer(|base| {
                            let url = format!("{base}/api/commerce/orders?limit=50");
                            self.request(Method::GET, url).bearer_auth(&self.key)
                        })
                        .await;
                    assert_eq!(status, 200, "{page}");
                }
            }
        }
    }

    /// Requeues the jobs that were given up because each of five runs in a row met with the end of its process, as an operator
    /// does who knows that it was not the job that ended them. How many there were.
    pub async fn requeue(&self, db: &Db) -> i64 {
        let given_up = "select count(*) as n from jobs
            where state = 'dead' and last_error like 'its process ended while running it%'";
        let count = count(db, given_up).await;
        if count > 0 {
            let error = "its process ended while running it";
            let requeue = ["dead", "requeue", "--error", error, "--yes"];
            self.command(&requeue).await.expect("they are requeued");
        }
        count
    }

    /// What was answered holds: each token says whose it is, each key is one checkout and one order.
    pub async fn are_right(&self, answered: &Answered, db: &Db) {
        for (login, token) in &answered.tokens {
            let (status, body) = self
                .answer(|base| {
                    let url = format!("{base}/auth/validate");
                    self.request(Method::GET, url).bearer_auth(token)
                })
                .await;
            assert_eq!((status, &body["username"]), (200, &json!(login)), "{body}");
        }
        for (key, body) in &answered.checkouts {
            assert_eq!(&self.checkout(key).await, body, "{key}");
        }
        let checkouts = i64::try_from(answered.checkouts.len()).unwrap();
        for of in [
            "select count(*) as n from checkouts",
            "select count(distinct session_id) as n from checkouts",
            "select count(*) as n from orders where shop = 'checkout'",
            "select count(*) as n from events where shop = 'checkout' and kind = 'order.created'",
        ] {
            assert_eq!(count(db, of).await, checkouts, "{of}");
        }
        eprintln!(
            "{} logins, {} of them begun again; {checkouts} checkouts",
            answered.tokens.len(),
            self.begun_again.load(Ordering::Relaxed)
        );
    }
}
