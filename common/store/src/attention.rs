//! The `attention` table: the conditions that need a person and hold now, or of whose end operators are still to be
//! notified (`domain::attention`). A row is changed only from the state in which it was read, so each change happens once,
//! however many processes look.

use serde::Serialize;

use crate::sql::{Db, FromRow, Result, Tx};
use domain::attention::{Condition, Kept, State};
use domain::time::Timestamp;

#[derive(Clone, Debug, Serialize, FromRow)]
pub struct Attention {
    #[serde(serialize_with = "crate::as_text")]
    pub condition: Condition,
    pub about: String,
    #[serde(serialize_with = "crate::as_text")]
    pub state: State,
    #[column("since_at")]
    pub since: Timestamp,
    #[serde(skip)]
    pub seen_at: Timestamp,
    #[column("notified")]
    #[serde(skip)]
    pub is_notified: bool,
    /// Who has acknowledged it.
    pub acknowledged_by: Option<String>,
}

impl Attention {
    pub fn kept(&self) -> Kept {
        Kept {
            condition: self.condition,
            state: self.state,
            since: self.since,
            seen_at: self.seen_at,
            is_notified: self.is_notified,
        }
    }

    /// Whether a mail is to say what it is now.
    pub fn is_to_be_notified(&self) -> bool {
        match self.state {
            State::Seen => false,
            State::Begun => !self.is_notified,
            State::Over => self.is_notified,
        }
    }
}

pub async fn all(db: &Db) -> Result<Vec<Attention>> {
    db.query(
        "select condition, about, state, since_at, seen_at, notified, acknowledged_by from attention
         order by condition, about",
    )
    .all(Attention::from_row)
    .await
}

/// Adds a condition that is seen for the first time. False when somebody else has.
pub async fn insert(
    tx: &mut Tx,
    condition: Condition,
    about: &str,
    state: State,
    now: Timestamp,
) -> Result<bool> {
    tx.query(
        "insert into attention (condition, about, state, since_at, seen_at, notified)
         values ($1, $2, $3, $4, $4, 0)
         on conflict (condition, about) do nothing",
    )
    .bind(condition.into_str())
    .bind(about)
    .bind(state.into_str())
    .bind(now.0)
    .changed_one()
    .await
}

/// Changes the state of a condition. False when somebody else has changed it since it was read.
pub async fn change(tx: &mut Tx, from: &Attention, to: State, now: Timestamp) -> Result<bool> {
    tx.query(
        "update attention set state = $1, since_at = $2, seen_at = $2
         where condition = $3 and about = $4 and state = $5 and since_at = $6",
    )
    .bind(to.into_str())
    .bind(now.0)
    .bind(from.condition.into_str())
    .bind(from.about.as_str())
    .bind(from.state.into_str())
    .bind(from.since.0)
    .changed_one()
    .await
}

/// Notes that a condition is still seen.
pub async fn note(tx: &mut Tx, from: &Attention, now: Timestamp) -> Result<()> {
    tx.query("update attention set seen_at = $1 where condition = $2 and about = $3 and state = $4")
        .bind(now.0)
        .bind(from.condition.into_str())
        .bind(from.about.as_str())
        .bind(from.state.into_str())
        .done()
        .await
}

/// Forgets a condition in the state in which it was read. False when somebody else has changed it since.
pub async fn forget(tx: &mut Tx, from: &Attention) -> Result<bool> {
    tx.query(
        "delete from attention
         where condition = $1 and about = $2 and state = $3 and since_at = $4",
    )
    .bind(from.condition.into_str())
    .bind(from.about.as_str())
    .bind(from.state.into_str())
    .bind(from.since.0)
    .changed_one()
    .await
}

/// Notes that a mail has said that a condition has begun.
pub async fn notified(tx: &mut Tx, from: &Attention) -> Result<()> {
    tx.query(
        "update attention set notified = 1
         where condition = $1 and about = $2 and state = $3 and since_at = $4",
    )
    .bind(from.condition.into_str())
    .bind(from.about.as_str())
    .bind(from.state.into_str())
    .bind(from.since.0)
    .done()
    .await
}

/// Notes who has acknowledged a condition that has begun until this time, about anything that it is about, and returns
/// how many rows that are. No mail says any more that it has begun.
pub async fn acknowledge(
    tx: &mut Tx,
    condition: Condition,
    until: Timestamp,
    actor: &str,
) -> Result<u64> {
    tx.query(
        "update attention set acknowledged_by = $1, notified = 1
         where condition = $2 and state = 'begun' and acknowledged_by is null and since_at <= $3",
    )
    .bind(actor)
    .bind(condition.into_str())
    .bind(until.0)
    .execute()
    .await
}
