//! What is sent, and what a receiver must or should do with it.
//!
//! "Must" is what follows from the providers' own rules (verify the raw body, refuse old signatures,
//! expect repetition, answer in time) and from HTTP (RFC 9112, section 6.3). "Should" is what protects
//! a receiver although no rule demands it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use domain::signature::Scheme;
use tokio::task::JoinSet;

use Expected::{
    Answered, AnsweredOrClosed, InTime, Known, NotTaken, Refused, RefusedOrClosed,
    RefusedOrTakenOnce, Taken, TakenOrLater,
};
use Level::{Must, Should};

use super::connection::{self, Came, Framing};
use super::delivery::{Answer, Delivery, Signer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Must,
    Should,
}

#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub group: &'static str,
    pub about: &'static str,
    pub level: Level,
    /// For providers that sign in one of these ways.
    pub schemes: &'static [Scheme],
    /// It measures, so nothing else runs beside it.
    pub alone: bool,
    /// It takes a minute.
    pub slow: bool,
    sends: Sends,
    expected: Expected,
}

/// What is sent.
#[derive(Clone, Copy)]
enum Sends {
    One(fn(&Signer) -> Delivery),
    Framed(Framing),
    /// Without an end, in the head or in the body.
    Slowly {
        in_head: bool,
    },
    Get,
    Twice,
    /// One delivery so many times at once.
    AtOnce(usize),
    /// So many, one after the other.
    InARow(usize),
    /// So many in all, of which some are under way at a time.
    Burst {
        all: usize,
        at_once: usize,
    },
}

/// What is right.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// 2xx.
    Taken,
    /// 4xx.
    Refused,
    /// 4xx, or no answer and an end of the connection.
    RefusedOrClosed,
    /// 2xx or 409.
    Known,
    /// Any answer that does not say that the receiver failed.
    Answered,
    /// The same, or an end of the connection.
    AnsweredOrClosed,
    /// 4xx, or 2xx and an end of the connection.
    RefusedOrTakenOnce,
    /// No 2xx.
    NotTaken,
    /// All in less than five seconds.
    InTime,
    /// Each 2xx, or 429 or 503 with a time at which to come again.
    TakenOrLater,
}

pub struct Found {
    /// `None`: it could not be tried.
    pub is_as_expected: Option<bool>,
    pub answer: String,
}

/// The providers' own limit for an answer, of those that wait shortest.
const IN_TIME: Duration = Duration::from_secs(5);
const TIMES_AT_ONCE: usize = 16;
/// How long a request may stay open that does not go on.
const OPEN: Duration = Duration::from_mins(1);

const fn one(
    name: &'static str,
    about: &'static str,
    level: Level,
    expected: Expected,
    send: fn(&Signer) -> Delivery,
) -> Case {
    Case {
        name,
        group: "signature",
        about,
        level,
        schemes: &[Scheme::Body, Scheme::Timed, Scheme::Standard],
        alone: false,
        slow: false,
        sends: Sends::One(send),
        expected,
    }
}

/// The schemes in which a time is signed.
const SIGNED_TIME: &[Scheme] = &[Scheme::Timed, Scheme::Standard];

const fn of(schemes: &'static [Scheme], case: Case) -> Case {
    Case { schemes, ..case }
}

const fn grouped(group: &'static str, sends: Sends, case: Case) -> Case {
    Case {
        group,
        sends,
        ..case
    }
}

const fn bodies(case: Case) -> Case {
    Case {
        group: "bodies",
        ..case
    }
}

const fn framing(framing: Framing, case: Case) -> Case {
    grouped("framing", Sends::Framed(framing), case)
}

const fn alone(case: Case) -> Case {
    Case {
        alone: true,
        ..case
    }
}

const fn slow(case: Case) -> Case {
    Case { slow: true, ..case }
}

pub static CASES: &[Case] = &[
    one(
        "signed",
        "a delivery that is signed right is taken",
        Must,
        Taken,
        Signer::delivery,
    ),
    one(
        "raw-body",
        "the signature is over the bytes as they are: spaces, escapes and a last line break count",
        Must,
        Taken,
        |signer| {
            let body = signer
                .sample()
                .replace("\":\"", "\" :  \"")
                .replace("Example", "Ex\\u0061mple");
            signer.signed(format!(" {body} \n").into_bytes())
        },
    ),
    one(
        "no-signature",
        "a delivery without a signature is refused",
        Must,
        Refused,
        |signer| {
            let mut delivery = signer.delivery();
            delivery.without_signature();
            delivery
        },
    ),
    one(
        "empty-signature",
        "an empty signature is refused",
        Must,
        Refused,
        |signer| changed(signer, |_| String::new()),
    ),
    one(
        "other-secret",
        "a signature with another secret is refused",
        Must,
        Refused,
        |signer| {
            let body = signer.sample().into_bytes();
            signer.signed_at(body, signer.now(), &signer.other_secret())
        },
    ),
    one(
        "cut-signature",
        "a signature that lacks its last half is refused",
        Must,
        Refused,
        |signer| {
            changed(signer, |signature| {
                signature[..signature.len() / 2].to_owned()
            })
        },
    ),
    one(
        "changed-byte",
        "a body of which one byte was changed is refused",
        Must,
        Refused,
        |signer| {
            let mut delivery = signer.delivery();
            let middle = delivery.body.len() / 2;
            delivery.body[middle] ^= 1;
            delivery
        },
    ),
    one(
        "added-space",
        "a body with a space more is refused",
        Must,
        Refused,
        |signer| {
            let mut delivery = signer.delivery();
            delivery.body.push(b' ');
            delivery
        },
    ),
    one(
        "two-signatures",
        "two headers with different signatures are refused, because nobody can say which one counts",
        Should,
        Refused,
        |signer| {
            let mut delivery = signer.delivery();
            let other =
                signer.signed_at(delivery.body.clone(), signer.now(), &signer.other_secret());
            delivery.and_signature(other.signature());
            delivery
        },
    ),
    of(
        SIGNED_TIME,
        one(
            "old",
            "a signature of ten minutes ago is refused, so that nobody can send a recorded delivery again",
            Must,
            Refused,
            |signer| {
                signer.signed_at(
                    signer.sample().into_bytes(),
                    signer.now() - 600,
                    signer.secret(),
                )
            },
        ),
    ),
    of(
        SIGNED_TIME,
        one(
            "from-the-future",
            "a signature of in ten minutes is refused",
            Should,
            Refused,
            |signer| {
                signer.signed_at(
                    signer.sample().into_bytes(),
                    signer.now() + 600,
                    signer.secret(),
                )
            },
        ),
    ),
    of(
        SIGNED_TIME,
        one(
            "second-signature",
            "while a secret is replaced there are two signatures, and one that is right suffices",
            Must,
            Taken,
            |signer| changed(signer, and_one_before),
        ),
    ),
    of(
        &[Scheme::Timed],
        one(
            "changed-time",
            "the time is signed: with another one the delivery is refused",
            Must,
            Refused,
            |signer| changed(signer, a_second_later),
        ),
    ),
    of(
        &[Scheme::Timed],
        one(
            "only-v0",
            "a signature of a scheme that is not in use is refused",
            Must,
            Refused,
            |signer| changed(signer, |signature| signature.replace("v1=", "v0=")),
        ),
    ),
    of(
        &[Scheme::Timed],
        one(
            "many-signatures",
            "a thousand wrong signatures are refused",
            Must,
            Refused,
            |signer| {
                changed(signer, |signature| {
                    let (time, _) = signature.split_once(",v1=").unwrap_or((signature, ""));
                    format!("{time}{}", ",v1=00".repeat(1000))
                })
            },
        ),
    ),
    of(
        &[Scheme::Standard],
        one(
            "changed-id",
            "the id is signed: under another one the delivery is refused",
            Must,
            Refused,
            |signer| {
                let mut delivery = signer.delivery();
                for (name, value) in &mut delivery.headers {
                    if name == "webhook-id" {
                        value.push('0');
                    }
                }
                delivery
            },
        ),
    ),
    grouped(
        "duplicates",
        Sends::Twice,
        one(
            "again",
            "a delivery that comes again is answered as known, with 2xx or 409",
            Must,
            Known,
            Signer::delivery,
        ),
    ),
    grouped(
        "duplicates",
        Sends::AtOnce(TIMES_AT_ONCE),
        one(
            "at-once",
            "one delivery sixteen times at once: each is answered, none with 5xx",
            Must,
            Known,
            Signer::delivery,
        ),
    ),
    framing(
        Framing::Chunked,
        one(
            "chunked",
            "a body in chunks is taken, as HTTP/1.1 demands",
            Should,
            Taken,
            Signer::delivery,
        ),
    ),
    framing(
        Framing::TooLong,
        one(
            "short-body",
            "a body that ends before its length is not taken",
            Must,
            NotTaken,
            Signer::delivery,
        ),
    ),
    framing(
        Framing::TwoLengths,
        one(
            "two-lengths",
            "two different lengths are refused: RFC 9112 calls that an unrecoverable error",
            Must,
            RefusedOrClosed,
            Signer::delivery,
        ),
    ),
    framing(
        Framing::Both,
        one(
            "length-and-chunks",
            "a length beside chunks is refused, or the connection is closed after the answer: RFC 9112 demands it",
            Must,
            RefusedOrTakenOnce,
            Signer::delivery,
        ),
    ),
    grouped(
        "framing",
        Sends::One(compressed),
        one(
            "content-encoding",
            "a body that says that it is compressed is refused, and nothing is inflated",
            Should,
            Refused,
            compressed,
        ),
    ),
    grouped(
        "framing",
        Sends::Get,
        one(
            "get",
            "GET is not a delivery",
            Must,
            NotTaken,
            Signer::delivery,
        ),
    ),
    one(
        "long-header",
        "a header of 256 KiB is refused",
        Should,
        RefusedOrClosed,
        |signer| {
            let mut delivery = signer.delivery();
            delivery
                .headers
                .push(("x-long".to_owned(), "a".repeat(256 * 1024)));
            delivery
        },
    ),
    bodies(one(
        "large",
        "a signed body of 16 MiB is answered: refused, or taken",
        Must,
        AnsweredOrClosed,
        |signer| {
            let body = signer.sample();
            let body = body.replacen('{', &format!("{{\"note\":\"{}\",", "a".repeat(16 << 20)), 1);
            signer.signed(body.into_bytes())
        },
    )),
    bodies(one(
        "deep",
        "a signed body of 100,000 brackets ends nobody's stack",
        Must,
        Answered,
        |signer| signer.signed([vec![b'['; 100_000], vec![b']'; 100_000]].concat()),
    )),
    bodies(one(
        "not-json",
        "a signed body that is not JSON is not the receiver's failure: 5xx would have it sent for days",
        Must,
        Answered,
        |signer| signer.signed(b"id=1&name=not+json".to_vec()),
    )),
    bodies(one(
        "not-utf8",
        "nor is one that is not UTF-8",
        Must,
        Answered,
        |signer| signer.signed(b"{\"id\":\"\xff\xfe\"}".to_vec()),
    )),
    bodies(one(
        "empty",
        "nor is one without any byte",
        Must,
        Answered,
        |signer| signer.signed(Vec::new()),
    )),
    bodies(one(
        "large-numbers",
        "nor are ids beyond 2^63 and numbers beyond a float",
        Must,
        Answered,
        |signer| {
            let body = signer.sample();
            let body = body.replacen('{', r#"{"big":99999999999999999999999999,"huge":1e999,"#, 1);
            signer.signed(body.into_bytes())
        },
    )),
    bodies(one(
        "repeated-keys",
        "nor are keys that come twice",
        Must,
        Answered,
        |signer| {
            let body = signer.sample().replacen('{', r#"{"id":1,"id":"two","#, 1);
            signer.signed(body.into_bytes())
        },
    )),
    bodies(one(
        "hostile-texts",
        "nor are line breaks, escape codes, scripts and lone surrogates in a name",
        Must,
        Answered,
        |signer| {
            let name = r#"{"first_name":"\r\n\u001b[31m\u0000<script>alert(1)</script>\ud800","#;
            signer.signed(signer.sample().replacen('{', name, 1).into_bytes())
        },
    )),
    alone(grouped(
        "speed",
        Sends::InARow(50),
        one(
            "in-time",
            "each of fifty deliveries is answered within five seconds, after which providers give up",
            Must,
            InTime,
            Signer::delivery,
        ),
    )),
    alone(grouped(
        "speed",
        Sends::Burst {
            all: 200,
            at_once: 32,
        },
        one(
            "burst",
            "each of 200 deliveries, 32 at a time, is taken, or asked to come later by 429 or 503 with Retry-After",
            Must,
            TakenOrLater,
            Signer::delivery,
        ),
    )),
    slow(grouped(
        "framing",
        Sends::Slowly { in_head: true },
        one(
            "slow-head",
            "a request whose head never ends is ended within a minute",
            Should,
            RefusedOrClosed,
            Signer::delivery,
        ),
    )),
    slow(grouped(
        "framing",
        Sends::Slowly { in_head: false },
        one(
            "slow-body",
            "a request whose body never ends is ended within a minute",
            Should,
            RefusedOrClosed,
            Signer::delivery,
        ),
    )),
    alone(grouped(
        "afterwards",
        Sends::One(Signer::delivery),
        one(
            "alive",
            "after all of this a delivery that is signed right is taken",
            Must,
            Taken,
            Signer::delivery,
        ),
    )),
];

fn changed(signer: &Signer, change: impl FnOnce(&str) -> String) -> Delivery {
    let mut delivery = signer.delivery();
    delivery.sign_as(change);
    delivery
}

/// A wrong signature before the right one.
fn and_one_before(signature: &str) -> String {
    if signature.starts_with("v1,") {
        return format!("v1,{}= {signature}", "A".repeat(43));
    }
    signature.replace("v1=", &format!("v1={},v1=", "0".repeat(64)))
}

/// The same signature with a time that is a second later.
fn a_second_later(signature: &str) -> String {
    let (time, rest) = signature.split_once(',').unwrap_or((signature, ""));
    let seconds = time.strip_prefix("t=").and_then(|it| it.parse().ok());
    format!("t={},{rest}", seconds.map_or(0, |seconds: i64| seconds + 1))
}

fn compressed(signer: &Signer) -> Delivery {
    let mut delivery = signer.delivery();
    let encoding = ("content-encoding".to_owned(), "gzip".to_owned());
    delivery.headers.push(encoding);
    delivery
}

pub async fn run(signer: &Arc<Signer>, case: &Case) -> Found {
    if !connection::is_possible(signer.url())
        && matches!(case.sends, Sends::Framed(_) | Sends::Slowly { .. })
    {
        return Found {
            is_as_expected: None,
            answer: "only over http://".to_owned(),
        };
    }
    let tried = match case.sends {
        Sends::One(make) => single(signer.send(&make(signer)).await, case.expected),
        Sends::Get => single(signer.get().await, case.expected),
        Sends::Framed(framing) => {
            let (url, wait) = (signer.url(), super::PATIENCE);
            raw(
                connection::framed(url, &signer.delivery(), framing, wait).await,
                case.expected,
            )
        }
        Sends::Slowly { in_head } => {
            let url = signer.url();
            raw(
                connection::slowly(url, &signer.delivery(), in_head, OPEN).await,
                case.expected,
            )
        }
        Sends::Twice => twice(signer).await,
        Sends::AtOnce(times) => {
            let delivery = signer.delivery();
            several(signer, vec![delivery; times], times, case.expected).await
        }
        Sends::InARow(all) => {
            let deliveries = (0..all).map(|_| signer.delivery()).collect();
            several(signer, deliveries, 1, case.expected).await
        }
        Sends::Burst { all, at_once } => {
            let deliveries = (0..all).map(|_| signer.delivery()).collect();
            several(signer, deliveries, at_once, case.expected).await
        }
    };
    let (is_as_expected, answer) = match tried {
        Ok((is_as_expected, answer)) => (is_as_expected, answer),
        Err(error) => (false, format!("{error:#}")),
    };
    Found {
        is_as_expected: Some(is_as_expected),
        answer,
    }
}

/// Whether an answer with this status is right.
fn fits(expected: Expected, status: u16) -> bool {
    let is_taken = (200..300).contains(&status);
    let is_refused = (400..500).contains(&status);
    match expected {
        Taken | InTime | TakenOrLater => is_taken,
        Refused | RefusedOrClosed | RefusedOrTakenOnce => is_refused,
        Known => is_taken || status == 409,
        Answered | AnsweredOrClosed => (200..500).contains(&status),
        NotTaken => !is_taken,
    }
}

fn closing_fits(expected: Expected) -> bool {
    matches!(expected, RefusedOrClosed | AnsweredOrClosed | NotTaken)
}

fn single(answer: Result<Answer>, expected: Expected) -> Result<(bool, String)> {
    match answer {
        Ok(answer) => {
            let status = answer.status.as_u16();
            Ok((fits(expected, status), status.to_string()))
        }
        Err(error) if is_timeout(&error) => Ok((false, "no answer in time".to_owned())),
        Err(error) if closing_fits(expected) && is_closed(&error) => {
            Ok((true, "closed".to_owned()))
        }
        Err(error) => Err(error),
    }
}

fn of_reqwest(error: &anyhow::Error) -> Option<&reqwest::Error> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

fn is_timeout(error: &anyhow::Error) -> bool {
    of_reqwest(error).is_some_and(reqwest::Error::is_timeout)
}

fn is_closed(error: &anyhow::Error) -> bool {
    of_reqwest(error).is_some_and(|error| error.is_request() && !error.is_connect())
}

fn raw(came: Result<Came>, expected: Expected) -> Result<(bool, String)> {
    Ok(match came? {
        Came::Status(status) => (fits(expected, status), status.to_string()),
        Came::StatusAndClosed(status) => {
            let is_taken_once = expected == RefusedOrTakenOnce && fits(Taken, status);
            (
                is_taken_once || fits(expected, status),
                format!("{status}, then closed"),
            )
        }
        Came::Closed => (closing_fits(expected), "closed".to_owned()),
        Came::Nothing => (false, "neither an answer nor an end".to_owned()),
    })
}

async fn twice(signer: &Signer) -> Result<(bool, String)> {
    let delivery = signer.delivery();
    let first = signer.send(&delivery).await?.status.as_u16();
    let second = signer.send(&delivery).await?.status.as_u16();
    let is_right = fits(Taken, first) && fits(Known, second);
    Ok((is_right, format!("{first}, then {second}")))
}

async fn several(
    signer: &Arc<Signer>,
    mut deliveries: Vec<Delivery>,
    at_once: usize,
    expected: Expected,
) -> Result<(bool, String)> {
    let mut running = JoinSet::new();
    let mut answers = Vec::with_capacity(deliveries.len());
    while !deliveries.is_empty() || !running.is_empty() {
        if running.len() < at_once
            && let Some(delivery) = deliveries.pop()
        {
            let signer = signer.clone();
            running.spawn(async move { signer.send(&delivery).await });
            continue;
        }
        if let Some(answer) = running.join_next().await {
            answers.push(answer??);
        }
    }
    let is_later = |answer: &Answer| {
        expected == TakenOrLater
            && [429, 503].contains(&answer.status.as_u16())
            && answer.retry_after
    };
    let is_right = |answer: &Answer| {
        let is_in_time = expected != InTime || answer.took < IN_TIME;
        is_in_time && (fits(expected, answer.status.as_u16()) || is_later(answer))
    };
    let are_right = answers.iter().all(is_right);
    Ok((are_right, counted(&answers)))
}

/// How often each status came, and how long it took.
fn counted(answers: &[Answer]) -> String {
    let mut statuses = BTreeMap::new();
    for answer in answers {
        *statuses.entry(answer.status.as_u16()).or_insert(0) += 1;
    }
    let statuses: Vec<String> = statuses
        .iter()
        .map(|(status, times)| format!("{times} x {status}"))
        .collect();
    let mut took: Vec<Duration> = answers.iter().map(|answer| answer.took).collect();
    took.sort_unstable();
    let at = |share: usize| took.get((took.len() * share / 100).min(took.len().saturating_sub(1)));
    let millis = |took: Option<&Duration>| took.map_or(0, Duration::as_millis);
    format!(
        "{}; median {} ms, p99 {} ms",
        statuses.join(", "),
        millis(at(50)),
        millis(at(99))
    )
}
