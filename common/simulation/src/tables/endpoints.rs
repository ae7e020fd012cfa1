//! `store::endpoints`, for the one endpoint that there is.

use crate::database::{Database, Result, TxId, lock};
use crate::rows::{Endpoint, Outgoing};

/// `endpoints::find`.
pub fn find(db: &Database) -> Result<Option<Endpoint>> {
    db.reading()?;
    Ok(db.endpoints.committed(0))
}

/// `endpoints::lock`.
pub fn lock(db: &mut Database, tx: TxId) -> Result<Option<Endpoint>> {
    db.statement(tx)?;
    lock!(db, endpoints, tx, 0);
    let endpoint = db.endpoints.seen(tx, 0);
    if endpoint.is_some() {
        db.endpoints.write(tx, 0, endpoint);
    }
    Ok(endpoint)
}

/// `endpoints::move_cursor`.
pub fn move_cursor(db: &mut Database, tx: TxId, position: i64) -> Result<()> {
    db.statement(tx)?;
    db.endpoints.write(tx, 0, Some(Endpoint { position }));
    Ok(())
}

/// `endpoints::objects`, and `endpoints::waiting` within a transaction: the orders of which events wait.
pub fn objects(db: &Database, tx: Option<TxId>) -> Result<Vec<usize>> {
    db.reading()?;
    Ok(match tx {
        None => db
            .outgoing_webhooks
            .all()
            .map(|(_, row)| row.order)
            .collect(),
        Some(tx) => {
            let rows = db.outgoing_webhooks.all_seen(tx);
            rows.map(|(_, row)| row.order).collect()
        }
    })
}

/// `endpoints::insert_waiting`.
pub fn insert_waiting(db: &mut Database, tx: TxId, waiting: &[(usize, Outgoing)]) -> Result<()> {
    db.statement(tx)?;
    for (event, row) in waiting {
        db.outgoing_webhooks.write(tx, *event, Some(*row));
    }
    Ok(())
}

/// `endpoints::remove_waiting`. Returns the job of the next event of the order, if one waits.
pub fn remove_waiting(db: &mut Database, tx: TxId, event: usize) -> Result<Option<usize>> {
    db.statement(tx)?;
    lock!(db, outgoing_webhooks, tx, event);
    let Some(removed) = db.outgoing_webhooks.seen(tx, event) else {
        return Ok(None);
    };
    db.outgoing_webhooks.write(tx, event, None);
    let rows = db.outgoing_webhooks.all_seen(tx);
    let of_order = rows.filter(|(_, row)| row.order == removed.order);
    let next = of_order.min_by_key(|(_, row)| row.position);
    Ok(next.map(|(_, row)| row.job))
}
