//! The `privacy_requests` table: every privacy request that a storefront passed on, with its
//! deadline and its outcome. A row is written together with the request's job and is never
//! deleted.

mod actions;
mod decisions;
mod reapplied;

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::jobs::NewJob;
use crate::sql::{Db, FromRow, Result, Row, Tx, column};
use domain::code::Code;
use domain::job::Internal;
use domain::privacy::{
    ALARM, Decided, Held, Keys, PERIOD, Request, State, SubjectKey, Topic, WARNING,
};
use domain::time::Timestamp;

use super::audit;

pub use self::actions::{
    ActionRefused, By, cancel, confirm, export_gone, export_of, link_export, note_fetched, retry,
};
pub use self::decisions::{Undecided, decide, hold};
pub use self::reapplied::reapply;

/// A request as it is shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = PrivacyRequest)]
pub struct RequestEntry {
    /// The request's id, and its job's.
    pub id: Uuid,
    /// `customers/data_request`, `customers/redact` or `shop/redact`.
    #[schema(example = "customers/data_request")]
    pub topic: String,
    #[schema(example = "shop.example")]
    pub shop: String,
    /// Null when the body names none, or is about a shop.
    #[schema(example = 207_119_551)]
    pub customer_id: Option<i64>,
    /// The same as text, for readers whose numbers end at 2^53.
    #[schema(example = "207119551")]
    pub customer_id_text: Option<String>,
    /// The earlier request with the same body.
    pub repeats: Option<Uuid>,
    /// `received`, `held`, `done`, `cancelled` or `failed`.
    #[schema(example = "done")]
    pub state: String,
    /// `COMMERCE_007`, when it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    pub received_at: Timestamp,
    /// By when it must be done: 30 days after it came.
    pub due_at: Timestamp,
    /// Until when the erasure of a shop may be cancelled; null while an erasure is held: it repeats an
    /// earlier one, and waits for `waybill privacy confirm`.
    pub held_until: Option<Timestamp>,
    /// When it was found that the shop is in use: its erasure waits for `waybill privacy confirm`, and begins at
    /// `held_until` if nobody decides. Null of any other.
    pub living_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// When it was reported that seven days were left, 48 hours, and none.
    pub warned_at: Option<Timestamp>,
    pub alarmed_at: Option<Timestamp>,
    pub overdue_at: Option<Timestamp>,
    /// Failed runs so far, when the next one is, and why the last one failed.
    pub attempts: i64,
    pub next_run_at: Option<Timestamp>,
    pub last_error: Option<String>,
    /// What was counted, as far as it has come; null: nothing yet.
    #[schema(value_type = Option<Object>)]
    pub progress: Value,
    /// Whom else it may mean, while it is held for an operator's decision, and after it.
    pub held: Option<Held>,
    /// What operators decided.
    pub decided: Option<Decided>,
    pub export: Option<Export>,
    /// What was done, signed.
    #[schema(value_type = Option<Object>)]
    pub receipt: Option<Value>,
}

/// The document with a customer's data.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = PrivacyExport)]
pub struct Export {
    /// Of the document, in hex.
    pub sha256: String,
    pub bytes: i64,
    /// The number of the run that wrote it.
    #[serde(skip)]
    #[schema(ignore)]
    pub run: i64,
    pub expires_at: Timestamp,
    pub removed_at: Option<Timestamp>,
    /// Why it could not be removed so far.
    pub problem: Option<String>,
}

/// Enters the requests of jobs that are inserted in the same transaction. `actor` is from whom they come. A
/// request whose body cannot be read was already refused by intake. The number of statements is the same
/// for any number of requests.
pub async fn open(tx: &mut Tx, keys: &Keys, actor: &str, jobs: &[&NewJob]) -> Result<()> {
    let request = |job: &&NewJob| Request::read(job.kind.parse().ok()?, &job.body).ok();
    let requests = jobs.iter().map(|job| Some((*job, request(job)?)));
    let requests: Vec<(&NewJob, Request)> = requests.flatten().collect();
    if requests.is_empty() {
        return Ok(());
    }
    // Whoever opens requests at the same time waits, so that of two with the same body one repeats the
    // other.
    audit::lock(tx, keys).await?;
    let opened = compared(tx, keys, requests).await?;
    insert(tx, keys, &opened).await?;
    let ids: Vec<String> = opened.iter().map(|it| it.job.id.to_string()).collect();
    let entries = opened.iter().zip(&ids).map(|(it, id)| it.entry(actor, id));
    audit::append_all(tx, keys, entries.collect()).await
}

/// A request that is being entered.
struct Opened<'a> {
    job: &'a NewJob,
    request: Request,
    body_key: Uuid,
    /// The first request with the same body.
    repeats: Option<Uuid>,
}

impl Opened<'_> {
    /// Anyone who has captured a body can send it again, and what the erasure of a shop deletes
    /// cannot be restored. So a repeated erasure of a shop waits for an operator.
    fn waits(&self) -> bool {
        self.request.topic == Topic::ShopRedact && self.repeats.is_some()
    }

    fn is_held(&self) -> bool {
        self.waits() || self.job.run_at > self.job.created_at
    }

    fn due_at(&self) -> Timestamp {
        let job = self.job;
        job.deadline_at.unwrap_or(job.created_at.plus(PERIOD))
    }

    fn state(&self) -> State {
        if self.is_held() {
            State::Held
        } else {
            State::Received
        }
    }

    fn held_until(&self) -> Option<Timestamp> {
        (self.is_held() && !self.waits()).then_some(self.job.run_at)
    }

    /// What the audit says of it. `id` is its id as text.
    fn entry<'b>(&'b self, actor: &'b str, id: &'b str) -> (audit::NewEntry<'b>, Timestamp) {
        let request = &self.request;
        let entry = audit::NewEntry {
            actor,
            action: "request.received",
            object_id: id,
            shop: Some(&request.shop),
            details: json!({
                "topic": request.topic.into_str(),
                "customer_id": request.person.id,
                "repeats": self.repeats,
            }),
        };
        (entry, self.job.created_at)
    }
}

/// Finds the first request with the same body for each, be it stored or one of these.
async fn compared<'a>(
    tx: &mut Tx,
    keys: &Keys,
    requests: Vec<(&'a NewJob, Request)>,
) -> Result<Vec<Opened<'a>>> {
    let body_keys = requests.iter().map(|(job, _)| keys.body(&job.body));
    let body_keys: Vec<Uuid> = body_keys.collect();
    // Of those that came at the same moment none repeats another; the last row is the first of them.
    let mut first: HashMap<Uuid, Uuid> = tx
        .query(
            "select body_key, id from privacy_requests
             where repeats is null and body_key in ($1..) order by received_at desc, id desc",
        )
        .bind(body_keys.clone())
        .all(|row| Ok((row.get("body_key")?, row.get("id")?)))
        .await?;
    let opened = requests.into_iter().zip(body_keys);
    let opened = opened.map(|((job, request), body_key)| {
        let repeats = first.get(&body_key).copied();
        first.entry(body_key).or_insert(job.id);
        if repeats.is_some() {
            metrics::counter!(
                "waybill_privacy_requests_repeated_total", "topic" => request.topic.into_str()
            )
            .increment(1);
        }
        Opened {
            job,
            request,
            body_key,
            repeats,
        }
    });
    Ok(opened.collect())
}

async fn insert(tx: &mut Tx, keys: &Keys, opened: &[Opened<'_>]) -> Result<()> {
    let rows = opened.iter().map(|it| {
        let request = &it.request;
        let key = |key| keys.subject(&request.shop, key);
        let email = request.person.email.as_deref();
        let phone = request.person.phone.as_deref();
        [
            column("id", it.job.id),
            column("topic", request.topic.into_str()),
            column("shop", &request.shop),
            column("customer_id", request.person.id),
            column("email_key", email.map(SubjectKey::Email).and_then(key)),
            column("phone_key", phone.map(SubjectKey::Phone).and_then(key)),
            column("body_key", it.body_key),
            column("repeats", it.repeats),
            column("state", it.state().into_str()),
            column("received_at", it.job.created_at),
            column("due_at", it.due_at()),
            column("held_until", it.held_until()),
        ]
    });
    let rows = rows.collect();
    tx.insert("privacy_requests", rows, "on conflict (id) do nothing")
        .await?;
    Ok(())
}

/// Which requests are listed.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub state: Option<State>,
    pub topic: Option<Topic>,
    pub shop: Option<String>,
    /// Only requests of these shops. None means all shops.
    pub shops: Option<Vec<String>>,
    /// Only requests that are neither done nor cancelled.
    pub open: bool,
    /// Only requests that name this customer.
    pub customer: Option<i64>,
}

/// A statement that reads requests with what [`read`] needs.
macro_rules! requests {
    ($which:literal) => {
        concat!(
            "select privacy_requests.id, privacy_requests.topic, privacy_requests.shop,
                    privacy_requests.customer_id, privacy_requests.repeats, privacy_requests.state,
                    privacy_requests.received_at, privacy_requests.due_at,
                    privacy_requests.held_until, privacy_requests.living_at, privacy_requests.finished_at,
                    privacy_requests.warned_at, privacy_requests.alarmed_at,
                    privacy_requests.overdue_at, privacy_requests.progress,
                    privacy_requests.held, privacy_requests.decided,
                    privacy_requests.receipt, privacy_requests.export_sha256,
                    privacy_requests.export_bytes, privacy_requests.export_run,
                    privacy_requests.export_expires_at,
                    privacy_requests.export_removed_at, privacy_requests.export_problem,
                    jobs.attempts, jobs.run_at, jobs.last_error,
                    jobs.state as job_state
             from privacy_requests left join jobs on jobs.id = privacy_requests.id ",
            $which
        )
    };
}

pub async fn find(db: &Db, id: Uuid) -> Result<Option<RequestEntry>> {
    db.query(requests!("where privacy_requests.id = $1"))
        .bind(id)
        .first(read)
        .await
}

/// The requests that match, those with the nearest deadline first.
pub async fn list(db: &Db, filter: &Filter, limit: i64) -> Result<Vec<RequestEntry>> {
    db.query(requests!(
        "where ($1 = '' or privacy_requests.state = $1)
           and ($2 = '' or privacy_requests.topic = $2)
           and ($3 = '' or privacy_requests.shop = $3)
           and ($4 = 0 or privacy_requests.finished_at is null)
           and ($7 is null or privacy_requests.customer_id = $7)
           and ($6 = 1 or privacy_requests.shop in ($8..))
         order by privacy_requests.due_at, privacy_requests.id
         limit $5"
    ))
    .bind(filter.state.map_or("", |it| it.into_str()))
    .bind(filter.topic.map_or("", |topic| topic.into_str()))
    .bind(filter.shop.as_deref().unwrap_or_default())
    .bind(i64::from(filter.open))
    .bind(limit)
    .bind(i64::from(filter.shops.is_none()))
    .bind(filter.customer)
    .bind(filter.shops.clone().unwrap_or_default())
    .all(read)
    .await
}

/// How many requests match but are not listed because they are finished.
pub async fn count_finished(db: &Db, filter: &Filter) -> Result<i64> {
    let counted = db
        .query(
            "select count(*) as requests from privacy_requests
             where ($1 = '' or topic = $1) and ($2 = '' or shop = $2) and finished_at is not null",
        )
        .bind(filter.topic.map_or("", |topic| topic.into_str()))
        .bind(filter.shop.as_deref().unwrap_or_default());
    counted.fetch_one().await?.get("requests")
}

/// A request with its entries in the audit, oldest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PrivacyRequestHistory)]
pub struct History {
    #[serde(flatten)]
    pub entry: RequestEntry,
    pub audit: Vec<audit::AuditEntry>,
}

pub async fn history(db: &Db, id: Uuid) -> Result<Option<History>> {
    const MOST: i64 = 1000;
    let Some(entry) = find(db, id).await? else {
        return Ok(None);
    };
    let audit = audit::list(db, Some(&id.to_string()), 0, MOST).await?;
    Ok(Some(History { entry, audit }))
}

/// The state of a request, whose row is locked.
pub async fn state(tx: &mut Tx, id: Uuid) -> Result<Option<State>> {
    tx.query("select state from privacy_requests where id = $1 for update")
        .bind(id)
        .first(|row| row.get("state"))
        .await
}

/// How far a request has come, as JSON. None when it has no progress yet.
pub async fn progress(db: &Db, id: Uuid) -> Result<Option<Value>> {
    let progress = db
        .query("select progress from privacy_requests where id = $1")
        .bind(id)
        .first(|row| row.get("progress"))
        .await?;
    Ok(progress.flatten())
}

pub async fn note_progress(tx: &mut Tx, id: Uuid, progress: &impl Serialize) -> Result<()> {
    tx.query("update privacy_requests set progress = $1 where id = $2")
        .bind(super::json(progress)?)
        .bind(id)
        .done()
        .await
}

/// Notes how far a request has come, unless another run has noted something else than `noted` meanwhile. False if so.
pub async fn go_on(
    tx: &mut Tx,
    id: Uuid,
    noted: Option<&Value>,
    progress: &impl Serialize,
) -> Result<bool> {
    let row = tx
        .query("select progress from privacy_requests where id = $1 for update")
        .bind(id);
    let found: Option<Option<Value>> = row.first(|row| row.get("progress")).await?;
    let is_known = found.flatten().as_ref() == noted;
    if is_known {
        note_progress(tx, id, progress).await?;
    }
    Ok(is_known)
}

/// Moves a request from one of the states `from` to the state `to`. False when it was in none of
/// them.
pub async fn set_state(
    tx: &mut Tx,
    id: Uuid,
    from: &[State],
    to: State,
    now: Timestamp,
) -> Result<bool> {
    let is_end = matches!(to, State::Done | State::Cancelled);
    let from: Vec<String> = from
        .iter()
        .map(|state| state.into_str().to_owned())
        .collect();
    tx.query(
        "update privacy_requests set state = $1, finished_at = $2
         where id = $3 and state in ($4..)",
    )
    .bind(to.into_str())
    .bind(is_end.then_some(now.0))
    .bind(id)
    .bind(from)
    .changed_one()
    .await
}

/// Sets until when a request is held that waited for an operator's confirmation. False when it
/// did not wait.
async fn set_confirmed(tx: &mut Tx, id: Uuid, now: Timestamp, until: Timestamp) -> Result<bool> {
    tx.query(
        "update privacy_requests set confirmed_at = $1, held_until = $2, living_at = null
         where id = $3 and state = 'held' and held is null
           and (held_until is null or living_at is not null)",
    )
    .bind(now.0)
    .bind(until.0)
    .bind(id)
    .changed_one()
    .await
}

/// Has the erasure of a shop that is in use wait for an operator, until this time at most. False when an
/// operator confirmed it.
pub async fn hold_living(tx: &mut Tx, id: Uuid, now: Timestamp, until: Timestamp) -> Result<bool> {
    tx.query(
        "update privacy_requests set living_at = $1, held_until = $2, hold_reported_at = null
         where id = $3 and state = 'held' and confirmed_at is null",
    )
    .bind(now.0)
    .bind(until.0)
    .bind(id)
    .changed_one()
    .await
}

/// Has the repeated erasure of a customer wait for an operator. False when an operator confirmed it.
pub async fn hold_repeated(tx: &mut Tx, id: Uuid) -> Result<bool> {
    tx.query(
        "update privacy_requests set state = 'held'
         where id = $1 and state = 'received' and confirmed_at is null",
    )
    .bind(id)
    .changed_one()
    .await
}

/// When a request with the same body was carried out last.
pub async fn carried_out_at(db: &Db, id: Uuid) -> Result<Option<Timestamp>> {
    let last = db
        .query(
            "select max(finished_at) as at from privacy_requests
             where state = 'done' and body_key = (select body_key from privacy_requests where id = $1)",
        )
        .bind(id)
        .fetch_one();
    last.await?.get("at")
}

pub async fn set_receipt(tx: &mut Tx, id: Uuid, receipt: &Value) -> Result<()> {
    tx.query("update privacy_requests set receipt = $1 where id = $2")
        .bind(receipt.to_string())
        .bind(id)
        .done()
        .await
}

/// Records, before an export is written, that it may be in this store from now on, and whose data
/// it has (as keyed hashes). So an erasure finds the export, and it is removed when it expires,
/// even if the run that writes it fails. Returns the number of the run, or None when the request has
/// been answered already.
pub async fn announce_export(
    tx: &mut Tx,
    id: Uuid,
    store: Uuid,
    expires_at: Timestamp,
    subjects: &BTreeSet<Uuid>,
) -> Result<Option<i64>> {
    let run = tx
        .query(
            "update privacy_requests
             set export_expires_at = $1, export_removed_at = null, export_problem = null,
                 export_store = $2, export_runs = export_runs + 1
             where id = $3 and state not in ('done', 'cancelled')
             returning export_runs",
        )
        .bind(expires_at.0)
        .bind(store)
        .bind(id)
        .first(|row| row.get("export_runs"))
        .await?;
    if run.is_none() {
        return Ok(None);
    }
    let about = |key: &Uuid| [column("request_id", id), column("key", *key)];
    let about = subjects.iter().map(about).collect();
    let known = "on conflict (request_id, key) do nothing";
    tx.insert("export_subjects", about, known).await?;
    Ok(run)
}

/// Records the export that a run wrote for a request.
pub async fn note_export(
    tx: &mut Tx,
    id: Uuid,
    run: i64,
    sha256: &str,
    bytes: i64,
    expires_at: Timestamp,
) -> Result<()> {
    tx.query(
        "update privacy_requests
         set export_sha256 = $1, export_bytes = $2, export_expires_at = $3,
             export_removed_at = null, export_run = $5
         where id = $4",
    )
    .bind(sha256)
    .bind(bytes)
    .bind(expires_at.0)
    .bind(id)
    .bind(run)
    .done()
    .await
}

/// The requests after `after` whose exports have expired and are not removed yet.
pub async fn expired_exports(
    db: &Db,
    now: Timestamp,
    after: Uuid,
    limit: i64,
) -> Result<Vec<Uuid>> {
    db.query(
        "select id from privacy_requests
         where export_expires_at is not null and export_removed_at is null
           and export_expires_at <= $1 and id > $2
         order by id
         limit $3",
    )
    .bind(now.0)
    .bind(after)
    .bind(limit)
    .all(|row| row.get("id"))
    .await
}

/// Marks an export as removed and returns its shop. None when it was already marked, or when no
/// export was written.
pub async fn export_removed(tx: &mut Tx, id: Uuid, now: Timestamp) -> Result<Option<String>> {
    let shop = tx
        .query(
            "update privacy_requests set export_removed_at = $1, export_problem = null
             where id = $2 and export_expires_at is not null and export_removed_at is null
             returning shop",
        )
        .bind(now.0)
        .bind(id)
        .first(|row| row.get("shop"))
        .await?;
    tx.query("delete from export_subjects where request_id = $1")
        .bind(id)
        .execute()
        .await?;
    Ok(shop)
}

/// An export that is not removed yet.
#[derive(FromRow)]
pub struct Kept {
    /// The store to which it was written.
    #[column("export_store")]
    pub store: Uuid,
    /// How many runs began to write it.
    #[column("export_runs")]
    pub runs: i64,
}

/// The export of a request, unless there is none or it is removed.
pub async fn kept_export(db: &Db, id: Uuid) -> Result<Option<Kept>> {
    db.query(
        "select export_store, export_runs from privacy_requests
         where id = $1 and export_expires_at is not null and export_removed_at is null",
    )
    .bind(id)
    .first(Kept::from_row)
    .await
}

/// Records why an export could not be removed.
pub async fn note_export_problem(tx: &mut Tx, id: Uuid, problem: &str) -> Result<()> {
    tx.query(
        "update privacy_requests set export_problem = $1
         where id = $2 and export_removed_at is null",
    )
    .bind(problem)
    .bind(id)
    .done()
    .await
}

/// Lets exports that are not removed yet expire now. Nobody can fetch them from then on, and
/// removing them is tried until it succeeds.
pub async fn end_exports(tx: &mut Tx, ids: Vec<Uuid>, now: Timestamp) -> Result<()> {
    tx.query(
        "update privacy_requests set export_expires_at = $1
         where export_removed_at is null and export_expires_at > $1 and id in ($2..)",
    )
    .bind(now.0)
    .bind(ids)
    .done()
    .await
}

/// The requests whose exports are not removed yet and have data of a subject with one of these
/// keys.
pub async fn exports_about(db: &Db, keys: &BTreeSet<Uuid>) -> Result<BTreeSet<Uuid>> {
    const AT_ONCE: usize = 500;
    let keys: Vec<Uuid> = keys.iter().copied().collect();
    let mut ids = BTreeSet::new();
    for keys in keys.chunks(AT_ONCE) {
        let about = db
            .query(
                "select distinct privacy_requests.id as id
                 from export_subjects
                 join privacy_requests on privacy_requests.id = export_subjects.request_id
                 where export_expires_at is not null and export_removed_at is null
                   and export_subjects.key in ($1..)",
            )
            .bind(keys.to_vec());
        ids.extend(about.all::<Uuid, Vec<_>>(|row| row.get("id")).await?);
    }
    Ok(ids)
}

/// The requests of a shop that came by this time and whose exports are not removed yet.
pub async fn exports_of_shop(db: &Db, shop: &str, until: Timestamp) -> Result<Vec<Uuid>> {
    db.query(
        "select id from privacy_requests
         where export_expires_at is not null and export_removed_at is null and shop = $1
           and received_at <= $2
         order by id",
    )
    .bind(shop)
    .bind(until.0)
    .all(|row| row.get("id"))
    .await
}

/// True when data of this shop is being erased: an erasure that was received by `begun` is under
/// way, or one was finished after `since`, or data that came late is still to be erased.
pub async fn is_erasing(
    tx: &mut Tx,
    shop: &str,
    begun: Timestamp,
    since: Timestamp,
    now: Timestamp,
) -> Result<bool> {
    let is_erasing = tx
        .query(
            "select id from privacy_requests
             where shop = $1 and topic <> 'customers/data_request' and received_at <= $2
               and (state = 'received' or (state = 'held' and held_until <= $4)
                    or finished_at >= $3)
             limit 1",
        )
        .bind(shop)
        .bind(begun.0)
        .bind(since.0)
        .bind(now.0)
        .is_any();
    if is_erasing.await? {
        return Ok(true);
    }
    tx.query(
        "select id from jobs
         where state = 'ready' and notified_at is null and attempts >= 0
           and queue = 'privacy' and kind = $2 and coalesce(shop, '') = $1
         union all
         select id from jobs
         where state = 'ready' and notified_at is not null and queue = 'privacy'
           and kind = $2 and shop = $1
         limit 1",
    )
    .bind(shop)
    .bind(Internal::EraseAgain.into_str())
    .is_any()
    .await
}

/// What is reported of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// An erasure is held. If nobody decides, that of a shop begins at a time that is known.
    Held,
    /// Seven days are left.
    Warning,
    /// Two days are left.
    Alarm,
    Overdue,
}

/// A request whose deadline is to be reported.
#[derive(Clone, Debug, FromRow)]
pub struct DueNotice {
    pub id: Uuid,
    pub topic: String,
    pub shop: String,
    pub due_at: Timestamp,
    pub held_until: Option<Timestamp>,
    pub living_at: Option<Timestamp>,
}

/// The statement that takes the requests of which this holds and which were not reported in this column, and reports
/// them at $1.
macro_rules! take {
    ($column:literal, $which:literal) => {
        concat!(
            "update privacy_requests set ",
            $column,
            " = $1 where id in (
             select id from privacy_requests
             where finished_at is null and ",
            $which,
            " and ",
            $column,
            " is null
                 order by due_at, id limit $3 for update skip locked
             )
             returning id, topic, shop, due_at, held_until, living_at"
        )
    };
}

/// Takes the requests for which this notice is due and marks them as reported, so that each is
/// reported only once, however many processes look.
pub async fn take_notices(
    tx: &mut Tx,
    notice: Notice,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<DueNotice>> {
    let (sql, until) = match notice {
        Notice::Held => (
            take!(
                "hold_reported_at",
                "state = 'held' and held is null and received_at <= $2"
            ),
            now,
        ),
        Notice::Warning => (take!("warned_at", "due_at <= $2"), now.plus(WARNING)),
        Notice::Alarm => (take!("alarmed_at", "due_at <= $2"), now.plus(ALARM)),
        Notice::Overdue => (take!("overdue_at", "due_at <= $2"), now),
    };
    tx.query(sql)
        .bind(now.0)
        .bind(until.0)
        .bind(limit)
        .all(DueNotice::from_row)
        .await
}

/// How many requests are open, and the nearest of their deadlines. Data that came late and is
/// still to be erased counts too, with a deadline of [`PERIOD`] after it came.
pub async fn open_deadlines(db: &Db) -> Result<(i64, Option<Timestamp>)> {
    let requests = db
        .query(
            "select count(*) as open, min(due_at) as due_at from privacy_requests
             where finished_at is null",
        )
        .fetch_one()
        .await?;
    let again = db
        .query(
            "select count(*) as open, min(created_at) as created_at from (
                 select created_at from jobs
                 where state = 'ready' and notified_at is null and run_at >= 0
                   and queue = 'privacy' and kind = $1
                 union all
                 select created_at from jobs
                 where state = 'ready' and notified_at is not null and queue = 'privacy'
                   and kind = $1
             ) as late",
        )
        .bind(Internal::EraseAgain.into_str())
        .fetch_one()
        .await?;
    let of_requests = requests.get::<Option<Timestamp>>("due_at")?;
    let came_at = again.get::<Option<Timestamp>>("created_at")?;
    let due_at = of_requests
        .into_iter()
        .chain(came_at.map(|at| at.plus(PERIOD)));
    let open = requests.get::<i64>("open")? + again.get::<i64>("open")?;
    Ok((open, due_at.min()))
}

impl RequestEntry {
    /// True when the request is held until an operator confirms that it is meant.
    pub fn waits(&self) -> bool {
        self.is_held_erasure() && self.held_until.is_none()
    }

    /// True when an erasure is held as a whole, and may be cancelled.
    pub fn is_held_erasure(&self) -> bool {
        self.state == State::Held.into_str() && self.held.is_none()
    }

    /// True when an operator may confirm that an erasure is meant.
    pub fn may_be_confirmed(&self) -> bool {
        self.is_held_erasure() && (self.held_until.is_none() || self.living_at.is_some())
    }
}

fn read(row: &Row) -> Result<RequestEntry> {
    let sha256: Option<String> = row.get("export_sha256")?;
    let export = match (sha256, row.get("export_expires_at")?) {
        (Some(sha256), Some(expires_at)) => Some(Export {
            sha256,
            bytes: row.get("export_bytes")?,
            run: row.get("export_run")?,
            expires_at,
            removed_at: row.get("export_removed_at")?,
            problem: row.get("export_problem")?,
        }),
        _ => None,
    };
    let state: String = row.get("state")?;
    let is_ready = row.get::<Option<String>>("job_state")?.as_deref() == Some("ready");
    let customer_id: Option<i64> = row.get("customer_id")?;
    Ok(RequestEntry {
        id: row.get("id")?,
        topic: row.get("topic")?,
        shop: row.get("shop")?,
        customer_id,
        customer_id_text: customer_id.map(|id| id.to_string()),
        repeats: row.get("repeats")?,
        code: (state == State::Failed.into_str()).then_some(Code::Privacy.id()),
        state,
        received_at: row.get("received_at")?,
        due_at: row.get("due_at")?,
        held_until: row.get("held_until")?,
        living_at: row.get("living_at")?,
        finished_at: row.get("finished_at")?,
        warned_at: row.get("warned_at")?,
        alarmed_at: row.get("alarmed_at")?,
        overdue_at: row.get("overdue_at")?,
        attempts: row.get::<Option<i64>>("attempts")?.unwrap_or_default(),
        next_run_at: row.get::<Option<Timestamp>>("run_at")?.filter(|_| is_ready),
        last_error: row.get("last_error")?,
        progress: row.get::<Option<Value>>("progress")?.unwrap_or_default(),
        held: row.get("held")?,
        decided: row.get("decided")?,
        export,
        receipt: row.get("receipt")?,
    })
}
