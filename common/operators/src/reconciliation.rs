//! What operators ask of reconciliation, with its entry in the audit.

use domain::connection::DEFAULT;
use domain::time::Timestamp;
use serde_json::json;
use store::audit::By;
use store::reconciliations;
use store::sql::{self, Db};

/// Why nobody is asked.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("--since must be a time before now")]
    Future,
    #[error(
        "{0} cannot be compared: it needs an API (waybill connections rotate {0} --api-url .. --api-token-file ..), and \
         a process that works"
    )]
    Unknown(String),
    #[error(
        "nothing can be compared: a connection needs an API (waybill connections add --help); of the settings, \
         PAYMENT_API_URL, or STOREFRONT_API_URL with STOREFRONT_SHOPS"
    )]
    Nothing,
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// Lets the workers compare a connection, or all, within seconds. `since`: what changed from then on is compared anew.
/// Returns how many shops and accounts that are; none when all are due already.
pub async fn ask(
    db: &Db,
    by: By<'_>,
    connection: Option<&str>,
    since: Option<Timestamp>,
) -> Result<u64, Refused> {
    if since.is_some_and(|since| since >= by.now) {
        return Err(Refused::Future);
    }
    let mut tx = db.begin().await?;
    if !reconciliations::is_any(&mut tx, connection).await? {
        tx.rollback().await?;
        return Err(match connection {
            Some(name) if name != DEFAULT => Refused::Unknown(name.to_owned()),
            _ => Refused::Nothing,
        });
    }
    let asked = reconciliations::ask(&mut tx, connection, since, by.now).await?;
    if asked == 0 {
        tx.rollback().await?;
        return Ok(0);
    }
    let details = json!({ "connection": connection, "since": since });
    let of = connection.unwrap_or_default();
    by.note(&mut tx, "reconciliation.asked", of, details)
        .await?;
    tx.commit().await?;
    Ok(asked)
}
