//! The columns `email_key` and `phone_key`: the addresses and telephone numbers of a row in the
//! form in which they are compared, and by which people are found. They are made in Rust when a
//! row is written, because the two databases do not agree on lower case. An older version that
//! may still run beside this one writes rows without them. Such rows are completed before anybody
//! is searched, and in each round of housekeeping.

use crate::sql::{Db, Result, Row, Tx};
use domain::privacy::{email_key, phone_key};

/// How many rows one transaction completes.
const CHUNK: i64 = 500;

/// A column and the key that is made of it. The index of the first statement has the rows that
/// have only one of the two.
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

/// Completes all rows that lack a key, and removes the key from rows that have no address any
/// more. Returns how many rows were changed.
pub async fn complete(db: &Db) -> Result<u64> {
    let mut completed = 0;
    for part in &PARTS {
        loop {
            // Usually nothing has to be done, and then no write transaction is begun.
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
    /// The statement `find` without its lock.
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
