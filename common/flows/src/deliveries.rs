//! What is made of a delivery, whether a provider posted it and its signature was verified, or reconciliation found at
//! the provider's API what never came: the job, and why nothing follows from it.

pub mod body;

use bytes::Bytes;
use config::connection::PaymentConnection;
use domain::connection::{self, DEFAULT};
use domain::job::{JobId, Kind, Queue, Source, State};
use domain::privacy::PERIOD;
use domain::time::Timestamp;
use store::jobs::NewJob;

/// The longest id of a delivery or of a provider's object.
pub const LONGEST_ID: usize = 255;
const LONGEST_TOPIC: usize = 100;
const LONGEST_VERSION: usize = 64;

/// Why an event without its object is not understood where the provider's API is not configured.
const NOT_FETCHED: &str = "a thin event, whose object is fetched where there is an API: set PAYMENT_API_URL and PAYMENT_API_KEY, or give the connection one with `waybill connections rotate`; then requeue it";
/// Why an event of Standard Webhooks with another body is not understood.
const NO_OBJECT: &str = "its body has no data.object, so it is about nothing that is known here";

/// Why an event of a payment that moved no money is not understood.
const TEST_MODE: &str = "it is of the provider's test mode, and PAYMENT_API_KEY is a live key";

/// Why an event of somebody else's account has no effect.
const OTHER_ACCOUNT: &str = "it is of a connected account that no connection has";

/// Why a body is no delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("it is not JSON")]
    NotJson,
    #[error("it is no JSON object")]
    NotAnObject,
    #[error("it lacks an id or a type, or one of them cannot be read")]
    Envelope,
    #[error("nothing says its topic")]
    NoTopic,
}

/// The job of a delivery, of which nothing but its body is known.
pub fn job(id: JobId, created_at: Timestamp, source: Source, kind: String, body: Bytes) -> NewJob {
    let queue = Kind::of(source, &kind).map(Kind::queue);
    // No worker will ever read a body of a kind that has no handler, and it may contain personal
    // data, so it is not stored.
    let body = if queue.is_some() { body } else { Bytes::new() };
    NewJob {
        // A delivery of a topic without a handler is stored as done, so that the provider does not
        // send it again for ever.
        state: if queue.is_some() {
            State::Ready
        } else {
            State::Done
        },
        deadline_at: deadline(queue, created_at),
        ..NewJob::new(
            id,
            queue.unwrap_or(source.home()),
            source,
            kind,
            body,
            created_at,
        )
    }
}

fn deadline(queue: Option<Queue>, created_at: Timestamp) -> Option<Timestamp> {
    (queue == Some(Queue::Privacy)).then(|| created_at.plus(PERIOD))
}

/// The connection as a job names it.
pub fn named(connection: &str) -> Option<String> {
    Some(connection.to_owned()).filter(|name| name != DEFAULT)
}

/// An event of a payment provider, as the job that will be stored.
pub struct Event {
    pub job: NewJob,
    /// Why it has no effect although its type has a handler.
    pub not_understood: Option<&'static str>,
}

/// The job of an event: `id` is the event's own, and `new` its job in which only the body is known.
pub fn event(
    connection: &PaymentConnection,
    event: &body::Payment,
    id: String,
    new: NewJob,
) -> Event {
    let not_understood = not_understood(connection, &new.kind, event);
    let is_fetched = event.is_thin && connection.profile.thin_events && not_understood.is_none();
    let is_left = not_understood.is_some() || (is_of_thin_type(&new.kind) && !is_fetched);
    let own = |id: &String| connection::qualified(&connection.name, id).into_owned();
    let version = event.api_version.as_deref();
    let mut job = NewJob {
        external_id: Some(id),
        object_id: event.object_id.as_ref().map(own),
        subject: event.subject.as_ref().map(own),
        api_version: version.and_then(api_version),
        connection: named(&connection.name),
        ..new
    };
    if is_left {
        job.state = State::Done;
    }
    Event {
        job,
        not_understood,
    }
}

/// Why an event has no effect although its type has a handler; `None` if it has one.
fn not_understood(
    connection: &PaymentConnection,
    kind: &str,
    event: &body::Payment,
) -> Option<&'static str> {
    let PaymentConnection {
        profile,
        api,
        account,
        is_called,
        ..
    } = connection;
    let api = api.as_ref();
    if event.account.is_some() && event.account != *account {
        return Kind::of(Source::Payment, kind)
            .is_some()
            .then_some(OTHER_ACCOUNT);
    }
    if event.is_test && api.is_some_and(|api| is_live(api.token.expose())) {
        return Kind::of(Source::Payment, kind)
            .is_some()
            .then_some(TEST_MODE);
    }
    if profile.thin_events && event.is_thin {
        return (is_of_thin_type(kind) && !is_called).then_some(NOT_FETCHED);
    }
    let lacks_it = profile.id.is_some() && !event.has_object;
    (lacks_it && Kind::of(Source::Payment, kind).is_some()).then_some(NO_OBJECT)
}

/// Whether a secret or a restricted key of the provider is of its live mode.
fn is_live(key: &str) -> bool {
    key.starts_with("sk_live_") || key.starts_with("rk_live_")
}

/// Whether a type is that of a thin event that something is done with.
fn is_of_thin_type(event_type: &str) -> bool {
    matches!(Kind::named(event_type), Some(Kind::ThinPayment(_)))
}

/// The version of its API that a provider names, as it is stored: visible text like `2026-07` or `2026-10-28.endive`. A
/// text of another form is not stored.
pub fn api_version(text: &str) -> Option<String> {
    let fits = (1..=LONGEST_VERSION).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    fits.then(|| text.to_owned())
}

/// `orders/create`, `payment_intent.succeeded`: what may stand in a routing key and a label.
pub fn is_topic(text: &str) -> bool {
    is_visible(text, LONGEST_TOPIC)
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
}

pub fn is_visible(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}
