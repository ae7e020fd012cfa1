//! What a server says about itself, for whoever looks for a mistake.

use std::time::Duration;

use tokio::time::Instant;

use super::{Db, Result};
use domain::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// `PostgreSQL 17.2`, `SQLite 3.50.1`.
    pub version: String,
    /// Its clock; `None`: it is in this process, and has ours.
    pub clock: Option<Timestamp>,
    /// From question to answer.
    pub round_trip: Duration,
}

impl Db {
    pub async fn server(&self) -> Result<Server> {
        // A connection is opened by the first question, and the second one is timed.
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
