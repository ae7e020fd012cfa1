//! What a database server says about itself, for somebody who looks for a mistake.

use std::time::Duration;

use tokio::time::Instant;

use sqlx::Connection as _;

use super::{Db, Pooling, Result, acquire};
use domain::time::Timestamp;

/// How many questions are timed.
const QUESTIONS: usize = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Such as `PostgreSQL 17.2` and `SQLite 3.50.1`.
    pub version: String,
    /// The time of the server's clock. `None` for SQLite, which runs in this process and has no
    /// clock of its own.
    pub clock: Option<Timestamp>,
    /// How long it takes from a question to its answer: the shortest of some, because a longer one
    /// says more of what else this machine does than of the way to the server.
    pub round_trip: Duration,
}

impl Db {
    pub async fn server(&self) -> Result<Server> {
        // The first question may have to open a connection.
        self.ping().await?;
        let mut round_trip = Duration::MAX;
        for _ in 0..QUESTIONS {
            let asked = Instant::now();
            self.ping().await?;
            round_trip = round_trip.min(asked.elapsed());
        }
        let row = match self {
            Db::Postgres { .. } => self.query(
                "select 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)
                            as version,
                        cast(extract(epoch from clock_timestamp()) * 1000 as bigint) as now",
            ),
            Db::Sqlite { .. } => {
                self.query("select 'SQLite ' || sqlite_version() as version, null as now")
            }
        };
        let row = row.fetch_one().await?;
        Ok(Server {
            version: row.get("version")?,
            clock: row.get::<Option<i64>>("now")?.map(Timestamp),
            round_trip,
        })
    }

    /// Has a server run these statements one after the other, on a connection of their own that is
    /// closed afterwards. Behind a pooler each may have another connection of the server, so those that
    /// only set something for the next ones are left out. A file has its own ways ([`Db::erased`]).
    #[expect(clippy::disallowed_methods, reason = "this is SQL's one home")]
    pub async fn on_server(&self, statements: &[&'static str]) -> Result<()> {
        let Db::Postgres { pool, pooling } = self else {
            return Ok(());
        };
        let mut connection = acquire(pool).await?.detach();
        for statement in statements {
            if *pooling == Pooling::Transaction && statement.starts_with("set ") {
                continue;
            }
            sqlx::raw_sql(*statement).execute(&mut connection).await?;
        }
        connection.close().await
    }

    /// True when each transaction may have another connection of the server.
    pub fn is_pooled(&self) -> bool {
        let pooled = Pooling::Transaction;
        matches!(self, Db::Postgres { pooling, .. } if *pooling == pooled)
    }

    /// How many bytes a server's table has with its indexes; of a file's none.
    pub async fn size_of(&self, table: &str) -> Result<i64> {
        let Db::Postgres { .. } = self else {
            return Ok(0);
        };
        let size = self.query("select pg_total_relation_size(to_regclass($1)) as size");
        size.bind(table).fetch_one().await?.get("size")
    }
}
