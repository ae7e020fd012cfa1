//! How a flow fails: because of the database, which may answer the next time, or because of what
//! it was given, which stays as it is however often it is tried.

use domain::job::Kind;
use domain::json::Unreadable;
use qr::QrError;
use store::sql;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Database(#[from] sql::Error),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The body of a job that Waybill has made itself.
    #[error("the body of this {kind} job cannot be read")]
    JobBody { kind: Kind },
    #[error(transparent)]
    Qr(#[from] QrError),
}

impl Error {
    /// Whether the same input fails in the same way however often it is tried.
    pub fn is_permanent(&self) -> bool {
        match self {
            Error::Database(_) => false,
            Error::Unreadable(_) | Error::JobBody { .. } | Error::Qr(_) => true,
        }
    }
}
