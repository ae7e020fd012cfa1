//! The `payments` and `pacts` tables: what the payment provider captured, and the
//! agreements (`metadata.pact_id`) by which payments and orders find each other.

use std::collections::BTreeSet;

use crate::clock::Timestamp;
use crate::sql::{Result, Tx, column};

/// A payment intent that was captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The provider's id, `pi_..`.
    pub id: String,
    pub pact_id: Option<String>,
    /// ISO code, upper case.
    pub currency: String,
    pub amount_minor: i64,
    pub received_minor: i64,
}

/// Stores captured intents; one that is there stays as it is.
pub async fn insert(tx: &mut Tx, payments: &[&Captured], now: Timestamp) -> Result<()> {
    let columns = [
        column("id", payments.iter().map(|it| it.id.as_str())),
        column("pact_id", payments.iter().map(|it| it.pact_id.as_deref())),
        column("currency", payments.iter().map(|it| it.currency.as_str())),
        column("amount_minor", payments.iter().map(|it| it.amount_minor)),
        column(
            "received_minor",
            payments.iter().map(|it| it.received_minor),
        ),
        column("state", payments.iter().map(|_| "succeeded")),
        column("created_at", payments.iter().map(|_| now.0)),
        column("updated_at", payments.iter().map(|_| now.0)),
    ];
    tx.insert("payments", &columns, "on conflict (id) do nothing")
        .await?;
    Ok(())
}

/// Locks agreements until the transaction ends: whoever decides something by an order and
/// its payments does so, so that of two who each bring one half the second sees both.
pub async fn lock_pacts(tx: &mut Tx, ids: impl IntoIterator<Item = String>) -> Result<()> {
    let ids: BTreeSet<String> = ids.into_iter().collect();
    let columns = [
        column("id", ids.iter().map(String::as_str)),
        column("revision", ids.iter().map(|_| 1)),
    ];
    tx.insert(
        "pacts",
        &columns,
        "on conflict (id) do update set revision = pacts.revision + 1",
    )
    .await?;
    Ok(())
}

/// The captured payments of an agreement.
pub async fn captured(tx: &mut Tx, pact_id: &str) -> Result<Vec<Captured>> {
    let rows = tx
        .query(
            "select id, currency, amount_minor, received_minor from payments
             where pact_id = $1 and state = 'succeeded' and received_minor > 0
             order by id",
        )
        .bind(pact_id)
        .fetch_all()
        .await?;
    rows.iter()
        .map(|row| {
            Ok(Captured {
                id: row.get("id")?,
                pact_id: Some(pact_id.to_owned()),
                currency: row.get("currency")?,
                amount_minor: row.get("amount_minor")?,
                received_minor: row.get("received_minor")?,
            })
        })
        .collect()
}
