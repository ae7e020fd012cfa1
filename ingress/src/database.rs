//! Steps of a login or a validation that need the database: each has its answer within
//! [`READ_DEADLINE`], or the client is asked to come back. A transaction that is left in the
//! middle is rolled back before its connection is used again.

use std::time::Duration;

use store::sql;

use crate::error::Error;

/// What asks the database has an answer in this time, or none: a database that swallows
/// everything must not hold its clients.
pub const READ_DEADLINE: Duration = Duration::from_millis(1300);

/// The result of one step. A failure is logged here, once, and hidden from the client.
pub async fn step<T>(step: impl Future<Output = sql::Result<T>>) -> Result<T, Error> {
    match tokio::time::timeout(READ_DEADLINE, step).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(error)) => {
            tracing::error!(%error, "the database did not answer");
            if sql::is_connection_error(&error) {
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
