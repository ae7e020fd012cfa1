//! Whether a schedule has come to rest, and what must hold then.

use std::collections::BTreeMap;
use std::time::Duration;

use store::events;
use store::sql::{Db, Row};
use uuid::Uuid;

use crate::deliveries::{Delivery, canary};
use crate::director::Focus;
use crate::installation::{Database, Installation};
use crate::outside::Seen;

/// When nothing goes wrong, no delivery waits longer than this.
const CALM: Duration = Duration::from_millis(1_500);

/// Whether a delivery has a job.
pub async fn has_job(db: &Db, id: &str) -> bool {
    let job =
        db.query("select 1 from deliveries where external_id = $1 or external_id like $1 || '/%'");
    job.bind(id).is_any().await.unwrap()
}

/// What is left to be done, and in how many milliseconds. A payment without an order is looked at again much later. Who
/// waits for an endpoint or for the broker may wait for the end of a lease.
const LEFT: &str = "
    select 'job ' || kind || ': ' || coalesce(last_error, '') as what, run_at - $1 as due
    from jobs where state = 'ready'
      and not (kind in ('payments/link', 'payments/end_wait') and run_at > $1 and attempts = 0)
    union all
    select 'an event waits for the endpoint', null from outgoing_webhooks
    union all
    select 'an endpoint is behind',
           (select min(expires_at) - $1 from leases where expires_at > $1) from endpoints
    where position < coalesce((select position from event_head), 0) and ($2 = 1 or secret is not null)
    union all
    select 'the broker is no endpoint', null from event_head
    where $2 = 1 and not exists (select 1 from endpoints where secret is null)";

/// What is left to be done, in words, and in how many milliseconds the first of it.
pub async fn left(installation: &Installation) -> (Vec<String>, i64) {
    let rows = installation
        .db
        .query(LEFT)
        .bind(installation.clock.now().0)
        .bind(i64::from(installation.has_broker()))
        .fetch_all();
    let rows = rows.await.unwrap();
    let due = rows.iter().filter_map(|row| row.get("due").unwrap()).min();
    let what = rows.iter().map(|row| row.get("what").unwrap());
    (what.collect(), due.unwrap_or(0))
}

/// The cursor of the endpoint never goes back.
pub async fn cursor(installation: &Installation) {
    let row = installation
        .db
        .query("select position from endpoints where secret is not null")
        .fetch_one();
    let now: i64 = row.await.unwrap().get("position").unwrap();
    let before = std::mem::replace(&mut installation.schedule.state().cursor, now);
    if now < before {
        installation.schedule.wrong(format!(
            "the cursor of the endpoint went back from {before} to {now}"
        ));
    }
}

/// A job whose run has failed has no event.
pub async fn unseen(installation: &Installation) {
    let unseen = std::mem::take(&mut installation.schedule.state().unseen);
    for job in unseen {
        let row = installation
            .db
            .query(
                "select count(*) as n from events where substr(traceparent, 1, 16) = $1
                    and exists (select 1 from jobs where id = $2 and state <> 'done')",
            )
            .bind(job.to_be_bytes().to_vec())
            .bind(Uuid::from_u128(job))
            .fetch_one();
        let events: i64 = row.await.unwrap().get("n").unwrap();
        if events > 0 {
            installation.schedule.wrong(format!(
                "job {job:x} has failed, and left {events} events (I2)"
            ));
        }
    }
}

/// What holds when everything has come to rest.
pub async fn at_rest(installation: &Installation, database: &Database, deliveries: &[Delivery]) {
    let db = &installation.db;
    let mut wrong = Vec::new();
    let rows = db
        .query(
            "select jobs.id, jobs.kind, state, object_id, external_id, claims,
                    coalesce(last_error, '') as error
             from jobs left join deliveries on deliveries.id = jobs.id",
        )
        .fetch_all();
    let rows = rows.await.unwrap();
    for delivery in deliveries {
        let is_of = |row: &&Row| {
            let id: Option<String> = row.get("external_id").unwrap();
            let rest = id.as_deref().and_then(|id| id.strip_prefix(&*delivery.id));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let jobs: Vec<Uuid> = rows
            .iter()
            .filter(is_of)
            .map(|row| row.get("id").unwrap())
            .collect();
        if jobs.len() != 1 {
            wrong.push(format!(
                "{} was accepted, and became {} jobs (I1)",
                delivery.name(),
                jobs.len()
            ));
        }
        let schedule = installation.schedule.state();
        let done_at = |id: &Uuid| schedule.jobs.get(&id.as_u128())?.done_at;
        let done_at = jobs.first().and_then(done_at);
        // A privacy request waits for another one of the same customer.
        let is_calm = schedule.focus == Focus::Calm && !delivery.name().starts_with("customers");
        if let (true, Some(done_at)) = (is_calm, done_at) {
            let waited = done_at.saturating_duration_since(schedule.accepted[&delivery.id]);
            if waited > CALM {
                wrong.push(format!(
                    "{} was accepted, nothing went wrong, and it waited for {waited:?}",
                    delivery.name()
                ));
            }
        }
    }
    let mut given_up = Vec::new();
    for row in rows {
        let (id, kind, state): (Uuid, String, String) = (
            row.get("id").unwrap(),
            row.get("kind").unwrap(),
            row.get("state").unwrap(),
        );
        let mut schedule = installation.schedule.state();
        let has_killers = schedule.jobs.values().any(|it| it.kills);
        let facts = schedule.jobs.entry(id.as_u128()).or_default();
        // A claim whose commit lost its answer counts too, and is not known here. Of calls, those are counted that are
        // under way beside one that ends their process.
        let is_beside = has_killers && row.get::<Option<i64>>("claims").unwrap().is_some();
        let may_be_dead = facts.kills || facts.interrupted >= 3 || is_beside;
        if state == "dead" && !may_be_dead {
            let error: String = row.get("error").unwrap();
            wrong.push(format!(
                "{kind} is dead, and could have been done (I3): {error}"
            ));
        }
        if state == "done" && facts.effects != 1 && has_work(&kind) {
            wrong.push(format!(
                "{kind} is done, and its work was committed {} times (I2)",
                facts.effects
            ));
        }
        if state == "dead" {
            given_up.push((
                kind,
                row.get::<Option<String>>("object_id")
                    .unwrap()
                    .unwrap_or_default(),
            ));
        }
    }
    check_refunds(installation, &mut wrong, &given_up).await;
    check_events(installation, &mut wrong, &given_up).await;
    let is_any_dead = !given_up.is_empty();
    for delivery in deliveries
        .iter()
        .filter(|it| it.is_erasure() && !is_any_dead)
    {
        let found = db
            .query(database.search)
            .bind(canary(delivery.order))
            .fetch_all()
            .await
            .unwrap();
        if let Some(row) = found.first() {
            let place: String = row.get("place").unwrap();
            wrong.push(format!(
                "the customer of {} was erased, and is in {place} (I4)",
                delivery.order
            ));
        }
    }
    for wrong in wrong {
        installation.schedule.wrong(wrong);
    }
}

/// Whether a job of this kind has work that is followed. Others are done as they come.
fn has_work(kind: &str) -> bool {
    !kind.starts_with("customers/")
}

async fn check_refunds(
    installation: &Installation,
    wrong: &mut Vec<String>,
    given_up: &[(String, String)],
) {
    let rows = installation
        .db
        .query("select payment_id, state from refunds")
        .fetch_all();
    for row in rows.await.unwrap() {
        let (payment, state): (String, String) =
            (row.get("payment_id").unwrap(), row.get("state").unwrap());
        let is_made = installation
            .outside
            .world()
            .refunds
            .iter()
            .any(|(of, _)| *of == payment);
        if state == "issued" && !is_made {
            wrong.push(format!("{payment} counts as refunded, and is not (I2)"));
        }
        if state == "requested" {
            wrong.push(format!("nobody refunds {payment} any more (I3)"));
        }
        let is_given_up = given_up.iter().any(|(kind, _)| kind == "refunds/issue");
        if is_made && state != "issued" && !is_given_up {
            wrong.push(format!("{payment} is refunded, and counts as {state} (I2)"));
        }
    }
}

/// Every reader has all events, those of an object in their sequence.
async fn check_events(
    installation: &Installation,
    wrong: &mut Vec<String>,
    given_up: &[(String, String)],
) {
    let all = events::after(&installation.db, 0, i64::MAX, i64::MAX);
    let all = all.await.unwrap();
    let count = installation.db.query("select count(*) as n from events");
    let count: i64 = count.fetch_one().await.unwrap().get("n").unwrap();
    if i64::try_from(all.len()) != Ok(count) {
        wrong.push(format!("{} of {count} events are read", all.len()));
    }
    let mut objects: BTreeMap<String, Vec<Uuid>> = BTreeMap::new();
    for event in all {
        objects.entry(event.object_id).or_default().push(event.id);
    }
    let world = installation.outside.world();
    let mut readers: Vec<(&str, &Seen)> = vec![("the reader", &world.reader)];
    if installation.has_broker() {
        readers.push(("the exchange", &world.exchange));
    }
    if installation.has_endpoint {
        readers.push(("the endpoint", &world.endpoint));
    }
    for (name, seen) in readers {
        for (object, events) in &objects {
            let is_given_up = given_up
                .iter()
                .any(|(kind, of)| kind == "endpoints/send" && of == object);
            if seen.objects.get(object) != Some(events) && !(name == "the endpoint" && is_given_up)
            {
                wrong.push(format!(
                    "{name} got other events of {object}, or in another sequence, than there are"
                ));
            }
        }
    }
}
