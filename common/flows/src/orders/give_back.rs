//! An operator gives back what was taken beyond the price of an order, as by a second payment.

use std::collections::BTreeSet;

use domain::event::OrderEvent;
use domain::job::Internal;
use domain::money::Money;
use domain::order::OrderKey;
use domain::order::settlement::{Linked, beyond_price};
use serde_json::json;
use store::audit::{self, By, NewEntry};
use store::orders::records;
use store::payments;
use store::refunds::{self, NewRefund, Refund, State};
use store::sql::Db;

use super::update::OrderUpdate;
use super::{settle, settle_again};
use crate::outbox::{Outbox, write_events};
use crate::{Context, Result};

/// What comes of it.
pub struct GivenBack {
    /// The payments that are refunded now, with the amounts.
    pub payments: Vec<(String, Money)>,
    /// What is too much beside them and no whole payment, in minor units of the order's currency. People give it
    /// back where they took it.
    pub rest: Option<Money>,
}

/// Refunds the payments of an order whose whole money is beyond the price, the latest first, and writes
/// an entry of the audit. A payment that is disputed or goes back already is left alone. Workers are to be notified of the
/// jobs of the outbox afterwards. `None` when there is no such order.
pub async fn give_back<'a>(
    db: &Db,
    context: Context<'a>,
    by: By<'_>,
    key: &OrderKey,
) -> Result<Option<(GivenBack, Outbox<'a>)>> {
    let mut outbox = Outbox::new(context);
    let mut tx = db.begin().await?;
    settle_again(&mut outbox, &mut tx, &BTreeSet::from([key.clone()])).await?;
    let Some(record) = records::load(&mut tx, vec![key.clone()]).await?.remove(key) else {
        tx.rollback().await?;
        return Ok(None);
    };
    let mut updates = [OrderUpdate::new(key.clone(), Some(record.clone()), record)];
    settle::settle(&mut tx, &mut updates).await?;
    let [
        OrderUpdate {
            after: record,
            payments: linked,
            ..
        },
    ] = &updates;
    let (failed, going): (Vec<_>, Vec<_>) = refunds::of(&mut tx, key)
        .await?
        .into_iter()
        .partition(|refund| refund.state == State::Failed.into_str());
    let of_any = |refunds: &[Refund], payment: &Linked| {
        refunds.iter().any(|refund| refund.payment_id == payment.id)
    };
    let ids = linked.linked.iter().map(|it| it.id.clone()).collect();
    let latest_first = payments::latest_first(&mut tx, ids).await?;
    let latest_first = latest_first
        .iter()
        .filter_map(|id| linked.linked.iter().find(|it| it.id == *id));
    let is_going = |payment: &Linked| of_any(&going, payment);
    // A refund that failed has a job of its own, which is run again.
    let is_failed = |payment: &Linked| of_any(&failed, payment);
    let (whole, rest) = beyond_price(record, latest_first, is_going, is_failed);
    let amount_of = |payment: &Linked| Money {
        minor: payment.left(),
        currency: payment.currency,
    };
    let rows = whole.iter().map(|payment| NewRefund {
        payment_id: &payment.id,
        state: State::Requested,
        amount_minor: Some(payment.left()),
        currency: Some(payment.currency.to_string()),
    });
    refunds::save(&mut tx, key, &rows.collect::<Vec<_>>(), by.now).await?;
    let (shop, order_id) = key;
    for payment in &whole {
        let requested = OrderEvent::RefundRequested {
            payment_id: payment.id.clone(),
            amount: Some(amount_of(payment).to_string()),
            currency: Some(payment.currency.to_string()),
            automatic: true,
        };
        outbox.order_event(key, requested);
        let body = json!({ "shop": shop, "order_id": order_id, "payment_id": payment.id });
        outbox.job(Internal::IssueRefund, key, &body);
    }
    outbox.write_rows(&mut tx).await?;
    let given: Vec<(String, Money)> = whole
        .iter()
        .map(|payment| (payment.id.clone(), amount_of(payment)))
        .collect();
    if !given.is_empty() {
        let payments: Vec<&String> = given.iter().map(|(id, _)| id).collect();
        let entry = NewEntry {
            actor: by.actor,
            action: "order.given_back",
            object_id: &order_id.to_string(),
            shop: Some(shop),
            details: json!({ "payments": payments }),
        };
        audit::append(&mut tx, by.keys, entry, by.now).await?;
    }
    write_events(&mut tx, std::slice::from_ref(&outbox)).await?;
    tx.commit().await?;
    let currency = record.totals.value.currency.filter(|_| rest > 0);
    let rest = currency.map(|currency| Money {
        minor: rest,
        currency,
    });
    Ok(Some((
        GivenBack {
            payments: given,
            rest,
        },
        outbox,
    )))
}
