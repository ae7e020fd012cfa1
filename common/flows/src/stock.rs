//! The units of a cancelled order that go back into stock.

use std::collections::HashMap;

use domain::event::{MOST_LISTED, OrderEvent, RestockedLine};
use domain::order::Line;
use domain::order::OrderKey;
use domain::order::record::Record;
use store::inventory::{self, Movement};
use store::sql::Tx;

use crate::Result;
use crate::outbox::Outbox;

/// Books the units of a cancelled order that go back into stock, and adds the event that lists
/// them. Only the difference to what was booked before is booked, so a later version of the order
/// corrects an earlier one, also one that takes the cancellation back. The caller holds the order's
/// lock.
pub(crate) async fn restock(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    key: &OrderKey,
    record: &Record,
) -> Result<()> {
    let mut wanted = record.restocked();
    let booked = inventory::balances(tx, key).await?;
    for line_id in booked.keys() {
        wanted.entry(*line_id).or_default();
    }
    let lines = &record.lines.value;
    let lines: HashMap<i64, &Line> = lines.iter().map(|line| (line.id, line)).collect();
    let mut movements = Vec::new();
    for (line_id, units) in wanted {
        let quantity = units - booked.get(&line_id).copied().unwrap_or(0);
        if quantity == 0 {
            continue;
        }
        let line = lines.get(&line_id);
        let movement = Movement {
            id: outbox.context.clock.id(),
            line_id,
            variant_id: line.and_then(|line| line.variant_id),
            sku: line.and_then(|line| line.sku.clone()),
            quantity,
        };
        movements.push((key, movement));
    }
    if movements.is_empty() {
        return Ok(());
    }
    inventory::append(tx, &movements, inventory::CANCELLED, outbox.now).await?;
    let restocked = OrderEvent::InventoryRestocked {
        movements: movements
            .iter()
            .take(MOST_LISTED)
            .map(|(_, movement)| restocked_line(movement))
            .collect(),
    };
    outbox.order_event(key, restocked);
    Ok(())
}

fn restocked_line(movement: &Movement) -> RestockedLine {
    RestockedLine {
        line_id: movement.line_id.to_string(),
        variant_id: movement.variant_id.map(|id| id.to_string()),
        sku: movement.sku.clone(),
        quantity: movement.quantity,
    }
}
