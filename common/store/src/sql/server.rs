//! What a database server says about itself, for somebody who looks for a mistake.

use std::time::Duration;

use tokio::time::Instant;

use super::{Db, Result};
use domain::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Such as `PostgreSQL 17.2` and `SQLite 3.50.1`.
    pub version: String,
    /// The time of the server's clock. `None` for SQLite, which runs in this process and has no
    /// clock of its own.
    pub clock: Option<Timestamp>,
    /// How long it took from the question to the answer.
    pub round_trip: Duration,
}

impl Db {
    pub async fn server(&self) -> Result<Server> {
        // The first question may have to open a connection, so only the second one is timed.
        self.ping().await?;
        let asked = Instant::now();
        let row = match self {
            Db::Postgres(_) => self.query(
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
            round_trip: asked.elapsed(),
        })
    }
}
