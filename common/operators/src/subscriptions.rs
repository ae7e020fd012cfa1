//! What operators change at a provider, with its entry in the audit.

use domain::subscription::Wrong;
use serde_json::json;
use store::audit::By;
use store::reconciliations;
use store::sql::{self, Db};

/// Notes that a subscription of a connection was mended at its provider.
pub async fn repaired(
    db: &Db,
    by: By<'_>,
    connection: &str,
    provider: &str,
    wrong: &Wrong,
) -> sql::Result<()> {
    let mut tx = db.begin().await?;
    reconciliations::look_again(&mut tx, connection).await?;
    let details = json!({ "provider": provider, "was": wrong.to_string() });
    by.note(&mut tx, "subscriptions.repaired", connection, details)
        .await?;
    tx.commit().await
}
