//! `email_key` and `phone_key`: the addresses and telephone numbers of a row as they are compared,
//! by which people are found. They are made here in Rust when a row is written, because two
//! databases do not agree on what lower case is. A version before them, which may still run
//! beside this one, writes rows without: those are completed before anybody is looked for, and
//! with each round of housekeeping.

use crate::sql::{Db, Result, Row, Tx};
use domain::privacy::{email_key, phone_key};

/// Rows of one transaction.
const CHUNK: i64 = 500;

/// A column and the key that is made of it. A row is in the index of the first statement when it
/// has one of both.
struct Part {
    find: &'static str,
    set: &'static str,
    key: fn(&str) -> String,
    has_shop: bool,
}

macro_rules! part {
    ($table:literal, $column:literal, $name:literal, $key:ident) => {
        Part {
            find: concat!(
                "select shop, id, ",
                $column,
                " as value from ",
                $table,
                " where (",
                $column,
                " is null) <> (",
                $name,
                " is null) order by shop, id limit $1 \
                 for update"
            ),
            set: concat!(
                "update ",
                $table,
                " set ",
                $name,
                " = $1 where id = $2 and shop = $3"
            ),
            key: $key,
            has_shop: true,
        }
    };
    ($table:literal, $column:literal) => {
        Part {
            find: concat!(
                "select id, ",
                $column,
                " as value from ",
                $table,
                " where (",
                $column,
                " is null) <> (email_key is null) order by id limit $1 \
                 for update"
            ),
            set: concat!("update ", $table, " set email_key = $1 where id = $2"),
            key: email_key,
            has_shop: false,
        }
    };
}

const PARTS: [Part; 6] = [
    part!("customers", "email", "email_key", email_key),
    part!("customers", "phone", "phone_key", phone_key),
    part!("orders", "email", "email_key", email_key),
    part!("orders", "phone", "phone_key", phone_key),
    part!("payments", "receipt_email"),
    part!("checkout_sessions", "email"),
];

/// Completes all that lack a key, and takes the key out of those that have no address any more.
pub async fn complete(db: &Db) -> Result<u64> {
    let mut completed = 0;
    for part in &PARTS {
        loop {
            // Most often there is nothing to be done, and no write to be begun for it.
            if db
                .query(part.unlocked())
                .bind(1)
                .fetch_optional()
                .await?
                .is_none()
            {
                break;
            }
            let mut tx = db.begin().await?;
            let rows = tx.query(part.find).bind(CHUNK).fetch_all().await?;
            for row in &rows {
                part.set(&mut tx, row).await?;
            }
            tx.commit().await?;
            completed += rows.len() as u64;
        }
    }
    Ok(completed)
}

impl Part {
    /// The same without the lock.
    fn unlocked(&self) -> &'static str {
        self.find.trim_end_matches("for update").trim_end()
    }

    async fn set(&self, tx: &mut Tx, row: &Row) -> Result<()> {
        let value: Option<String> = row.get("value")?;
        let key = value.as_deref().map(self.key);
        let query = tx.query(self.set).bind(key);
        let query = if self.has_shop {
            let shop: String = row.get("shop")?;
            query.bind(row.get::<i64>("id")?).bind(shop)
        } else {
            query.bind(row.get::<String>("id")?)
        };
        query.execute().await?;
        Ok(())
    }
}
