//! The statements of an erasure: records forget their person, and the bodies of deliveries are replaced by the part that
//! may stay. Ids, amounts and states are not touched.

pub mod file;

use bytes::Bytes;

use crate::aggregates::{self, Aggregate, Edited};
use crate::sql::{Db, FromRow, Result, Row, Tx};
use domain::connection::DEFAULT;
use domain::job::{JobId, State};
use domain::privacy::Mentions;
use domain::time::Timestamp;

/// Has rows forget their person. Those that cannot be read are passed over.
pub async fn forget<A: Aggregate>(
    tx: &mut Tx,
    keys: Vec<A::Key>,
    now: Timestamp,
) -> Result<Edited<A::Key>> {
    aggregates::edit::<A>(tx, keys, |it| it.forget(now)).await
}

/// True when the shop has this order, so that an erasure can find it.
pub async fn is_known(tx: &mut Tx, shop: &str, id: i64) -> Result<bool> {
    tx.query("select id from orders where shop = $1 and id = $2")
        .bind(shop)
        .bind(id)
        .is_any()
        .await
}

/// When something was erased first after this entry of the audit: what a request named and what came
/// late, also the certain part of one whose rest an operator decides, and discarded bodies.
pub async fn first_since(db: &Db, entry: i64) -> Result<Option<Timestamp>> {
    db.query(
        "select at from audit
         where number > $1 and action in ('customer.erased', 'customer.erased_again',
                                          'shop.erased', 'request.held', 'jobs.discarded')
         order by number limit 1",
    )
    .bind(entry)
    .first(|row| row.get("at"))
    .await
}

/// The audit's last entry before then.
pub async fn entry_before(db: &Db, then: Timestamp) -> Result<i64> {
    let entry = db
        .query("select number from audit where at < $1 order by number desc limit 1")
        .bind(then.0)
        .first(|row| row.get("number"));
    Ok(entry.await?.unwrap_or(0))
}

/// A server's tables that hold people, and that intake does not write to. What is read and written
/// of them waits for as long as one of them is rewritten.
const REWRITTEN: &[(&str, &str)] = &[
    ("customers", "vacuum (full) customers"),
    ("orders", "vacuum (full) orders"),
    ("payments", "vacuum (full) payments"),
    ("checkout_sessions", "vacuum (full) checkout_sessions"),
];

/// Tables up to here are rewritten, with their indexes: it is a matter of tenths of a second.
const MOST_REWRITTEN: i64 = 128 * 1024 * 1024;

/// What is waited for a table, and how long others wait for it at most. One that takes longer stays
/// as it was.
const REWRITES: [&str; 2] = [
    "set lock_timeout = '500ms'",
    "set statement_timeout = '1500ms'",
];

/// Has a server take out of its pages what was erased. `vacuum` alone frees the space of dead rows
/// and leaves their bytes in it. So tables are rewritten; that of deliveries is not, because intake would
/// stand still: its free space is written over ([`OVERWRITE`]).
pub async fn clear(db: &Db) -> Result<()> {
    db.on_server(&[
        "set statement_timeout = 0",
        "vacuum (truncate off) customers, orders, payments, checkout_sessions, deliveries,
                               events, privacy_keys",
        "begin",
        OVERWRITE,
        "rollback",
        "vacuum deliveries",
    ])
    .await?;
    let mut cleared = Ok(());
    if db.is_pooled() {
        // Nothing would limit for how long others wait.
        return cleared;
    }
    for (table, rewrite) in REWRITTEN {
        if db.size_of(table).await? <= MOST_REWRITTEN {
            let rewritten = db.on_server(&[REWRITES[0], REWRITES[1], rewrite]).await;
            cleared = cleared.and(rewritten);
        }
    }
    cleared
}

/// Fills the free space of the deliveries' pages with rows of no meaning, which no transaction ever sees,
/// because the one that writes them is undone. They are as large as fits, then smaller and smaller;
/// of each size so many until they are put behind the end of the table, because no page has room for
/// one any more, or until there are enough of them: 600 MiB in all. What is left in a page is less than
/// the smallest row takes, 68 bytes. First rows of the table itself; then bodies of the table beside it where large
/// ones are kept, in pieces of 1996 bytes, four a page, so that the rest of one goes wherever it fits.
/// Their ids are a sequence, at one end of the index; two workers at once wait for each other.
const OVERWRITE: &str = "do $$
declare
    bodies oid := (select reltoastrelid from pg_class where oid = to_regclass('deliveries'));
    noise bytea := (select string_agg(uuid_send(gen_random_uuid()), '')
                    from generate_series(1, 1024));
    pages bigint;
    behind boolean;
    size int;
    number bigint := 0;
    enough bigint;
begin
    foreach size in array array[1800, 1200, 800, 500, 300, 200, 150, 120, 104, 88, 72, 56, 40, 32,
                                24, 16, 8, 0]
    loop
        loop
            pages := pg_relation_size('deliveries') / 8192;
            with filler as (
                insert into deliveries (id, source, kind, created_at, external_id)
                select cast(lpad(to_hex(number + n), 32, '0') as uuid), 'internal', '', 0,
                       nullif(repeat('x', size), '')
                from generate_series(1, 64) as n
                returning (cast(cast(ctid as text) as point))[0] as page
            )
            select max(page) >= pages into behind from filler;
            number := number + 64;
            exit when behind or number > 200000;
        end loop;
    end loop;
    number := 1000000;
    foreach size in array array[0, 1900, 1300, 900, 600, 400, 250, 150, 90, 50, 20, 4]
    loop
        enough := number + case when size = 0 then 30000 else 4000 end;
        loop
            pages := pg_relation_size(bodies) / 8192;
            insert into deliveries (id, source, kind, created_at, body)
            select cast(lpad(to_hex(number + n), 32, '0') as uuid), 'internal', '', 0,
                   substr(noise, 1, 4 * 1996 + size)
            from generate_series(1, 64) as n;
            number := number + 64;
            pages := pg_relation_size(bodies) / 8192 - pages;
            -- Each of those with a rest takes a page of its own, too.
            exit when pages > least(size, 1) * 64 or number > enough;
        end loop;
    end loop;
end $$";

/// A job with a body that may be about somebody.
#[derive(FromRow)]
pub struct Kept {
    pub id: JobId,
    /// The topic or event type, in the provider's spelling.
    pub kind: String,
    pub shop: Option<String>,
    pub connection: Option<String>,
    #[with(body)]
    pub body: Bytes,
    pub state: State,
}

impl Kept {
    /// The connection with a payment provider that the body came by. `None`: it is a storefront's.
    pub fn payments(&self) -> Option<&str> {
        let is_payment = !self.kind.contains('/');
        is_payment.then(|| self.connection.as_deref().unwrap_or(DEFAULT))
    }

    /// Whom the body mentions, with the ids of a payment provider as they count within their connection.
    pub fn mentions(&self) -> Mentions {
        let mut mentions = Mentions::of(&self.body);
        if let Some(connection) = self.payments() {
            mentions.qualify(connection);
        }
        mentions
    }
}

/// How many bodies one step of a [`scan`] looks at, which keeps a statement short however many there
/// are. PostgreSQL expects one job in 200 to be of a shop. If it expects fewer than these, it reads and
/// sorts all of the shop to find the last of them: among 540,000 jobs 5,000 took 710 ms, and 500 take 2.
pub const STEP: i64 = 500;

/// How many of them one step of a [`scan`] returns at most.
const BODIES: i64 = 200;

/// How many texts a [`scan`] looks for at a time.
pub const TEXTS: usize = 8;

/// What one statement of a [`scan`] looks at: up to this job, or all that follow.
#[derive(Clone, Copy)]
pub struct Window(Option<JobId>);

/// The result of one step of a [`scan`].
pub struct ScanPage {
    pub kept: Vec<Kept>,
    /// The last job that was looked at. None when there are no more.
    pub last: Option<JobId>,
    /// What the next step goes on with. None: it looks for the next window.
    pub rest: Option<Window>,
}

/// The next deliveries of this shop after the job `after` that may be about somebody:
///
/// - all deliveries of the payment provider, because only their bodies show whom they are about;
/// - those of the storefront that are not done, those whose order or customer has one of these ids,
///   and those that have one of these texts (at most [`TEXTS`]) somewhere in their bodies.
///
/// The empty shop has the deliveries of the payment provider, and those that came without a shop's
/// name. Other shops have customers of their own, and their bodies are not read.
///
/// `rest` is what the step before has left of its window. To find the end of one takes as long as to
/// look at all jobs in it, so it is not done for each page.
///
/// Bodies of our own jobs have only ids and are not searched. A job keeps its id, so a job that
/// becomes done during the scan is not missed.
pub async fn scan(
    db: &Db,
    shop: &str,
    after: JobId,
    rest: Option<Window>,
    texts: &[String],
    ids: Vec<String>,
) -> Result<ScanPage> {
    let window = match rest {
        Some(window) => window,
        None => Window(last_of(db, shop, after, STEP).await?),
    };
    let mut query = db.query(MAY_BE_ABOUT).bind(after);
    for nth in 0..TEXTS {
        query = query.bind(texts.get(nth).map(String::as_bytes));
    }
    let query = query.bind(window.0.unwrap_or(JobId::max())).bind(BODIES);
    let kept: Vec<Kept> = query.bind(shop).bind(ids).all(Kept::from_row).await?;
    let (last, rest) = match kept.last() {
        Some(last) if kept.len() as u64 == BODIES.cast_unsigned() => (Some(last.id), Some(window)),
        _ => (window.0, None),
    };
    Ok(ScanPage { kept, last, rest })
}

/// The last of the next `step` deliveries of a shop that still have their bodies. None when there
/// are fewer.
pub async fn last_of(db: &Db, shop: &str, after: JobId, step: i64) -> Result<Option<JobId>> {
    db.query(
        "select id from deliveries
         where coalesce(shop, '') = $1 and id > $2 and body is not null and source <> 'internal'
         order by id limit 1 offset $3",
    )
    .bind(shop)
    .bind(after)
    .bind(step - 1)
    .first(|row| row.get("id"))
    .await
}

/// Reads deliveries with what a [`Kept`] has.
macro_rules! kept {
    ($which:literal) => {
        concat!(
            "select id, kind, shop, connection, body,
                    (select state from jobs where jobs.id = deliveries.id) as state
             from deliveries where ",
            $which
        )
    };
}

const MAY_BE_ABOUT: &str = kept!(
    "coalesce(shop, '') = $12 and id > $1 and id <= $10
       and body is not null and source <> 'internal'
       and (source = 'payment' or (select state from jobs where jobs.id = deliveries.id) <> 'done'
            or object_id in ($13..) or subject in ($13..) or (contains(body, $2..$9)))
     order by id limit $11"
);

/// The next deliveries after the job `after` that still have their bodies, whomever they are about.
pub async fn kept_bodies(db: &Db, after: JobId, limit: i64) -> Result<Vec<Kept>> {
    db.query(kept!(
        "id > $1 and body is not null and source <> 'internal' order by id limit $2"
    ))
    .bind(after)
    .bind(limit)
    .all(Kept::from_row)
    .await
}

/// The jobs with these ids that still have their bodies.
pub async fn bodies(db: &Db, ids: Vec<JobId>) -> Result<Vec<Kept>> {
    db.query(kept!("body is not null and id in ($1..)"))
        .bind(ids)
        .all(Kept::from_row)
        .await
}

/// The payment events of the jobs after `after` up to `until` that still have their bodies.
pub async fn payment_events(db: &Db, after: JobId, until: JobId) -> Result<Vec<Kept>> {
    db.query(kept!(
        "coalesce(shop, '') = '' and id > $1 and id <= $2
           and body is not null and source <> 'internal' and source = 'payment'
         order by id"
    ))
    .bind(after)
    .bind(until)
    .all(Kept::from_row)
    .await
}

/// Replaces the body of a job by the part that may stay, or by nothing if `body` is None. False
/// when the job has no body any more.
pub async fn replace_body(tx: &mut Tx, id: JobId, body: Option<Vec<u8>>) -> Result<bool> {
    tx.query("update deliveries set body = $1 where id = $2 and body is not null")
        .bind(body)
        .bind(id)
        .changed_one()
        .await
}

/// Notes in the body of a job how far its work has come, unless it is another one than `noted` meanwhile. False if so.
pub async fn go_on(tx: &mut Tx, id: JobId, noted: &[u8], body: &[u8]) -> Result<bool> {
    tx.query("update deliveries set body = $1 where id = $2 and body = $3")
        .bind(body)
        .bind(id)
        .bind(noted)
        .changed_one()
        .await
}

fn body(row: &Row) -> Result<Bytes> {
    row.get::<Vec<u8>>("body").map(Bytes::from)
}
