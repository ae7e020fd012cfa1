//! Runs the steps of a login or a validation that need the database. If the database does not
//! answer a step within [`READ_DEADLINE`], the client is asked to come back. A transaction that is
//! left in the middle is rolled back before its connection is used again.

use std::time::Duration;

use store::sql;

use crate::error::Error;

/// How long a read may wait for the database. After that the client gets an error, because a
/// database that never answers must not keep clients waiting.
pub const READ_DEADLINE: Duration = Duration::from_millis(1300);

/// Runs one step. An error of the database is logged here, once, and the client sees only that the
/// service is not available.
pub async fn step<T>(step: impl Future<Output = sql::Result<T>>) -> Result<T, Error> {
    match tokio::time::timeout(READ_DEADLINE, step).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(error)) => {
            tracing::error!(%error, "the database did not answer");
            if sql::is_outage(&error) {
                Err(Error::Unavailable)
            } else {
                Err(Error::Internal)
            }
        }
        Err(_) => {
            tracing::error!("the database did not answer in time");
            Err(Error::Unavailable)
        }
    }
}
