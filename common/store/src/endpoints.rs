//! The `endpoints` table: where events are sent as webhooks, and how far each endpoint has come.
//!
//! Each endpoint has one row with a cursor: all events up to this position (`event_head`) were
//! accepted by the endpoint, do not fit its patterns, or wait in `outgoing_webhooks`. That table has
//! rows only for events that the endpoint did not accept at once, each with the job that sends the
//! event again, and for later events of the same objects. The cursor of an endpoint that accepts
//! nothing hardly moves, because few events are tried (`workers::webhooks`), and it stands while
//! [`MOST_WAITING`] or more of them wait. So what is stored does not grow with events times
//! endpoints.
//!
//! Of the waiting events of one object only the first has a job that is due. The next one's job is
//! made due in the transaction that records that the first was accepted or given up.
//!
//! RabbitMQ is an endpoint too (`broker`). It has no secret, and nothing of it is in `outgoing_webhooks`.
//!
//! Secrets are encrypted (AES-256-GCM) under a key that is made of our own (`privacy_keys`) and the
//! endpoint's id.

use std::collections::HashMap;
use std::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use domain::endpoint::{Secret, State};
use domain::event::Pattern;
use domain::privacy::Keys;
use domain::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::backlog::MOST;
use crate::broker::BROKER;
use crate::sql::{Db, Error, FromRow, Result, Row, Tx, column};

/// How many events of an endpoint may wait before its cursor stands. An endpoint that is away comes
/// nowhere near it, because it is tried more and more rarely. One that accepts some kinds of events
/// and never others comes here after so many of the others.
pub const MOST_WAITING: usize = 10_000;

/// How many endpoints there may be.
pub const MOST_ENDPOINTS: usize = 100;

/// How exactly it is stored when an endpoint last accepted a webhook.
pub(crate) const DELIVERY_NOTED: Duration = Duration::from_mins(1);

/// When an endpoint has accepted nothing for this long, its first success makes all webhooks due that
/// wait for it. After a shorter time they wait for no more than a few minutes anyway, and the failures
/// may be of events that the endpoint never accepts, while others go well.
const AWAY: Duration = Duration::from_mins(5);

/// An endpoint without its secrets.
#[derive(Clone, Debug, Serialize, ToSchema, FromRow)]
#[schema(as = Endpoint)]
pub struct Endpoint {
    pub id: Uuid,
    /// `amqp:` and the name of an exchange for RabbitMQ.
    #[schema(example = "https://shop.example/hooks/waybill")]
    pub url: String,
    /// The patterns of types whose events it gets.
    #[serde(serialize_with = "texts")]
    #[schema(value_type = Vec<String>)]
    #[with(types)]
    pub types: Vec<Pattern>,
    #[schema(value_type = String, example = "active")]
    pub state: State,
    /// Since when it has accepted nothing.
    pub failing_since: Option<Timestamp>,
    /// How many attempts have failed since then.
    pub failures: i64,
    /// Why the last attempt that failed did so.
    pub last_error: Option<String>,
    /// When it last accepted a webhook, to the minute.
    pub delivered_at: Option<Timestamp>,
    /// Until when the secret before the present one signs too.
    #[column("former_until")]
    pub former_secret_until: Option<Timestamp>,
    pub created_at: Timestamp,
    #[serde(skip)]
    pub position: i64,
}

impl Endpoint {
    /// Whether it is RabbitMQ, and not an address to which webhooks are sent.
    pub fn is_broker(&self) -> bool {
        self.id == BROKER
    }
}

/// A statement that reads endpoints with what an [`Endpoint`] has, and its secrets.
macro_rules! endpoints {
    ($which:literal) => {
        concat!(
            "select id, url, kinds, state, secret, former_secrets, former_until, position,
                    failing_since, failures, last_error, delivered_at, created_at
             from endpoints",
            $which
        )
    };
}

fn texts<S: serde::Serializer>(
    patterns: &[Pattern],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_seq(patterns.iter().map(Pattern::as_str))
}

fn types(row: &Row) -> Result<Vec<Pattern>> {
    let kinds: String = row.get("kinds")?;
    let kinds = kinds.split_whitespace();
    Ok(kinds.filter_map(|kind| kind.parse().ok()).collect())
}

/// A new endpoint, which gets the events after `position`.
pub struct NewEndpoint<'a> {
    pub id: Uuid,
    pub url: &'a str,
    pub types: &'a [Pattern],
    pub secret: &'a Secret,
    pub position: i64,
}

pub async fn insert(tx: &mut Tx, keys: &Keys, new: NewEndpoint<'_>, now: Timestamp) -> Result<()> {
    let kinds: Vec<&str> = new.types.iter().map(Pattern::as_str).collect();
    tx.query(
        "insert into endpoints (id, url, kinds, state, secret, position, failures, created_at, updated_at)
         values ($1, $2, $3, 'active', $4, $5, 0, $6, $6)",
    )
    .bind(new.id)
    .bind(new.url)
    .bind(kinds.join(" "))
    .bind(seal(keys, new.id, new.secret)?)
    .bind(new.position)
    .bind(now.0)
    .done()
    .await
}

/// The endpoints to which webhooks are sent, the oldest first.
pub async fn of_webhooks(db: &Db) -> Result<Vec<Endpoint>> {
    let mut endpoints = list(db).await?;
    endpoints.retain(|it| !it.is_broker());
    Ok(endpoints)
}

/// Every endpoint, also RabbitMQ, the oldest first.
pub async fn list(db: &Db) -> Result<Vec<Endpoint>> {
    db.query(endpoints!(" order by created_at, id"))
        .all(Endpoint::from_row)
        .await
}

pub async fn find(db: &Db, id: Uuid) -> Result<Option<Endpoint>> {
    let row = db.query(endpoints!(" where id = $1")).bind(id);
    row.first(Endpoint::from_row).await
}

/// How many endpoints are in each state.
pub async fn states(db: &Db) -> Result<[(State, i64); 4]> {
    let counted: HashMap<String, i64> = db
        .query("select state, count(*) as n from endpoints group by state")
        .all(|row| Ok((row.get("state")?, row.get("n")?)))
        .await?;
    Ok(State::ALL.map(|state| (state, counted.get(state.into_str()).copied().unwrap_or(0))))
}

/// How many events are after the cursor of the active endpoint of webhooks that is furthest behind, whether
/// they fit it or not. Counting stops at [`MOST`].
pub async fn behind(db: &Db) -> Result<i64> {
    db.query(
        "select count(*) as behind from (
             select 1 as one from events
             where position > (select min(position) from endpoints where state = 'active' and id <> $1)
             limit $2) as counted",
    )
    .bind(BROKER)
    .bind(MOST)
    .fetch_one()
    .await?
    .get("behind")
}

/// An endpoint, and the secrets that sign for it now, the newest first. RabbitMQ has none.
pub async fn with_secrets(
    db: &Db,
    keys: &Keys,
    id: Uuid,
    now: Timestamp,
) -> Result<Option<(Endpoint, Vec<Secret>)>> {
    let row = db.query(endpoints!(" where id = $1")).bind(id);
    let Some(row) = row.fetch_optional().await? else {
        return Ok(None);
    };
    let endpoint = Endpoint::from_row(&row)?;
    let mut secrets = Vec::new();
    if let Some(secret) = row.get::<Option<Vec<u8>>>("secret")? {
        secrets.push(unseal(keys, id, &secret)?);
    }
    for (_, former) in former_secrets(&row, now)? {
        let former = hex::decode(former).unwrap_or_default();
        secrets.push(unseal(keys, id, &former)?);
    }
    Ok(Some((endpoint, secrets)))
}

/// Until when a former secret signs, and the secret, encrypted and in hex.
type Former = (i64, String);

/// How many former secrets sign at most. Each adds to a header of every webhook.
const MOST_FORMER: usize = 15;

/// The former secrets that still sign, the newest first.
fn former_secrets(row: &Row, now: Timestamp) -> Result<Vec<Former>> {
    let former: Option<String> = row.get("former_secrets")?;
    let read = |text: String| serde_json::from_str::<Vec<Former>>(&text);
    let former = former.map(read).transpose();
    let former = former.map_err(|error| Error::Decode(error.into()))?;
    let mut former = former.unwrap_or_default();
    former.retain(|(until, _)| *until > now.0);
    Ok(former)
}

/// Gives an endpoint another secret. The present one signs too until `until`, and each one before it for as long as
/// was said of it. False when there is no such endpoint.
pub async fn rotate(
    tx: &mut Tx,
    keys: &Keys,
    id: Uuid,
    secret: &Secret,
    until: Timestamp,
    now: Timestamp,
) -> Result<bool> {
    let present = "select secret, former_secrets from endpoints where id = $1 for update";
    let Some(row) = tx.query(present).bind(id).fetch_optional().await? else {
        return Ok(false);
    };
    let mut former = former_secrets(&row, now)?;
    former.insert(0, (until.0, hex::encode(row.get::<Vec<u8>>("secret")?)));
    former.truncate(MOST_FORMER);
    tx.query(
        "update endpoints
         set former_secrets = $1, former_until = $2, secret = $3, updated_at = $4
         where id = $5",
    )
    .bind(crate::json(&former)?)
    .bind(until.0)
    .bind(seal(keys, id, secret)?)
    .bind(now.0)
    .bind(id)
    .changed_one()
    .await
}

/// Pauses an endpoint that is active, or resumes one that is not. False when it was so before.
pub async fn set_state(tx: &mut Tx, id: Uuid, state: State, now: Timestamp) -> Result<bool> {
    tx.query(
        "update endpoints
         set state = $1, updated_at = $2,
             failing_since = case when $1 = 'active' then null else failing_since end,
             failures = case when $1 = 'active' then 0 else failures end
         where id = $3 and state <> $1 and ($1 = 'active' or state = 'active')",
    )
    .bind(state.into_str())
    .bind(now.0)
    .bind(id)
    .changed_one()
    .await
}

/// Removes an endpoint and what waits for it. False when there is no such endpoint.
pub async fn remove(tx: &mut Tx, id: Uuid) -> Result<bool> {
    tx.query("delete from outgoing_webhooks where endpoint_id = $1")
        .bind(id)
        .execute()
        .await?;
    let removed = tx.query("delete from endpoints where id = $1").bind(id);
    Ok(removed.execute().await? == 1)
}

/// Records that an endpoint did not accept webhooks, in this many attempts.
pub async fn failed(
    tx: &mut Tx,
    id: Uuid,
    attempts: usize,
    error: &str,
    now: Timestamp,
) -> Result<()> {
    tx.query(
        "update endpoints
         set failing_since = coalesce(failing_since, $1), failures = failures + $2, last_error = $3,
             updated_at = $1
         where id = $4",
    )
    .bind(now.0)
    .bind(i64::try_from(attempts).unwrap_or(i64::MAX))
    .bind(error)
    .bind(id)
    .done()
    .await
}

/// Records that an endpoint accepted a webhook. True when it had been away before, so that all that
/// waits for it should be sent now.
pub async fn delivered(tx: &mut Tx, endpoint: &Endpoint, now: Timestamp) -> Result<bool> {
    let is_noted = endpoint
        .delivered_at
        .is_some_and(|at| at > now.minus(DELIVERY_NOTED));
    if endpoint.failing_since.is_none() && is_noted {
        return Ok(false);
    }
    tx.query(
        "update endpoints set failing_since = null, failures = 0, last_error = null,
                delivered_at = $1, updated_at = $1
         where id = $2",
    )
    .bind(now.0)
    .bind(endpoint.id)
    .execute()
    .await?;
    let failing_since = endpoint.failing_since;
    Ok(failing_since.is_some_and(|since| since <= now.minus(AWAY)))
}

/// Finds an endpoint and locks it until the transaction ends. Whoever adds or removes waiting events
/// of an endpoint holds this lock, so that no event waits for one that has just ended.
pub async fn lock(tx: &mut Tx, id: Uuid) -> Result<Option<Endpoint>> {
    let row = tx.query(endpoints!(" where id = $1 for update")).bind(id);
    row.first(Endpoint::from_row).await
}

/// The object of an event: its shop, empty for none, and its id.
pub type Object = (String, String);

const OBJECTS: &str = "select shop, object_id from outgoing_webhooks where endpoint_id = $1";

/// The objects of which events wait for an endpoint, each as often as events of it wait.
pub async fn objects(db: &Db, id: Uuid) -> Result<Vec<Object>> {
    read_objects(&db.query(OBJECTS).bind(id).fetch_all().await?)
}

/// The same within a transaction that has locked the endpoint.
pub async fn waiting(tx: &mut Tx, id: Uuid) -> Result<Vec<Object>> {
    read_objects(&tx.query(OBJECTS).bind(id).fetch_all().await?)
}

fn read_objects(rows: &[Row]) -> Result<Vec<Object>> {
    let object = |row: &Row| -> Result<Object> { Ok((row.get("shop")?, row.get("object_id")?)) };
    rows.iter().map(object).collect()
}

/// Moves the cursor of an endpoint, which is locked.
pub async fn move_cursor(tx: &mut Tx, id: Uuid, to: i64) -> Result<()> {
    let moved = tx.query("update endpoints set position = $1 where id = $2");
    moved.bind(to).bind(id).done().await
}

/// An event that waits for an endpoint, and the job that sends it.
pub struct Waiting {
    pub position: i64,
    pub object: Object,
    pub job_id: Uuid,
}

/// Adds waiting events of an endpoint, which is locked.
pub async fn insert_waiting(tx: &mut Tx, id: Uuid, waiting: &[Waiting]) -> Result<()> {
    let rows = waiting.iter().map(|it| {
        [
            column("endpoint_id", id),
            column("position", it.position),
            column("shop", &it.object.0),
            column("object_id", &it.object.1),
            column("job_id", it.job_id),
        ]
    });
    tx.insert("outgoing_webhooks", rows.collect(), "").await?;
    Ok(())
}

/// Removes a waiting event that was accepted or given up. Returns the job of the next event of the
/// same object, if one waits. The endpoint is locked.
pub async fn remove_waiting(tx: &mut Tx, endpoint: Uuid, position: i64) -> Result<Option<Uuid>> {
    let row = tx
        .query(
            "delete from outgoing_webhooks where endpoint_id = $1 and position = $2
             returning shop, object_id",
        )
        .bind(endpoint)
        .bind(position)
        .fetch_optional()
        .await?;
    let Some(row) = row else { return Ok(None) };
    tx.query(
        "select job_id from outgoing_webhooks
         where endpoint_id = $1 and shop = $2 and object_id = $3
         order by position
         limit 1",
    )
    .bind(endpoint)
    .bind(row.get::<String>("shop")?)
    .bind(row.get::<String>("object_id")?)
    .first(|row| row.get("job_id"))
    .await
}

/// Removes the waiting events of a shop that is erased, once they are deleted, and returns their jobs. Whoever adds
/// waiting events holds the lock of an endpoint and adds none of an event that was deleted, so none comes after this.
pub async fn forget_shop(tx: &mut Tx, shop: &str) -> Result<Vec<Uuid>> {
    tx.query("select id from endpoints where secret is not null order by id for update")
        .fetch_all()
        .await?;
    tx.query(
        "delete from outgoing_webhooks
         where endpoint_id in (select id from endpoints) and shop = $1
           and not exists (select 1 from events where events.position = outgoing_webhooks.position)
         returning job_id",
    )
    .bind(shop)
    .all(|row| row.get("job_id"))
    .await
}

/// The jobs of all events that wait for an endpoint.
pub async fn waiting_jobs(tx: &mut Tx, id: Uuid) -> Result<Vec<Uuid>> {
    tx.query("select job_id from outgoing_webhooks where endpoint_id = $1 order by job_id")
        .bind(id)
        .all(|row| row.get("job_id"))
        .await
}

/// The jobs of the first waiting event of each object.
pub async fn first_jobs(tx: &mut Tx, id: Uuid) -> Result<Vec<Uuid>> {
    tx.query(
        "select job_id from outgoing_webhooks
         where endpoint_id = $1 and not exists (
             select 1 from outgoing_webhooks as earlier
             where earlier.endpoint_id = outgoing_webhooks.endpoint_id
               and earlier.shop = outgoing_webhooks.shop
               and earlier.object_id = outgoing_webhooks.object_id
               and earlier.position < outgoing_webhooks.position
         )",
    )
    .bind(id)
    .all(|row| row.get("job_id"))
    .await
}

fn seal(keys: &Keys, id: Uuid, secret: &Secret) -> Result<Vec<u8>> {
    let mut sealed = secret.reveal().into_bytes();
    let nonce = key(keys, id)?
        .seal_in_place_append_tag(Aad::empty(), &mut sealed)
        .map_err(|_| Error::Encode("a secret cannot be encrypted".into()))?;
    Ok([nonce.as_ref().as_slice(), &sealed].concat())
}

fn unseal(keys: &Keys, id: Uuid, sealed: &[u8]) -> Result<Secret> {
    let open = || {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = sealed.to_vec();
        let key = key(keys, id).ok()?;
        let text = key.open_in_place(nonce, Aad::empty(), &mut text).ok()?;
        std::str::from_utf8(text).ok()?.parse().ok()
    };
    open().ok_or_else(|| {
        Error::Decode(
            "the secret of an endpoint was encrypted under another PRIVACY_KEY; rotate it".into(),
        )
    })
}

fn key(keys: &Keys, id: Uuid) -> Result<RandomizedNonceKey> {
    let key = keys.code("secret of an endpoint", &[id.as_bytes()]);
    RandomizedNonceKey::new(&AES_256_GCM, &key)
        .map_err(|_| Error::Encode("a key cannot be made".into()))
}
