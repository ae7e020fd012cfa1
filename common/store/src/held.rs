//! What Waybill does not decide about orders by itself and leaves to people, each with its
//! reason. No personal data.

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use crate::refunds::State;
use crate::sql::{Db, Result, Row};
use domain::money::decimal;
use domain::order::FinancialStatus;
use domain::order::account::Contradiction;
use domain::order::record::Record;
use domain::time::Timestamp;

/// Why people must decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Reason {
    /// The storefront says that it is paid and that a part of it is outstanding.
    PaidAndOutstanding,
    /// The storefront gives a total below zero.
    TotalBelowZero,
    /// The storefront gives the total in two currencies.
    CurrenciesDiffer,
    /// It is gone from the shop, and was paid and not shipped.
    Deleted,
    /// Several orders claim one agreement, so its payments are linked to none of them.
    AgreementClaimedTwice,
    /// The customer's bank has taken a payment back and has not decided, so nothing more is shipped.
    Disputed,
    /// The payments are less than the total or in another currency, so nothing is shipped.
    PaidInPart,
    /// More was taken than it costs, as by two payments.
    PaidTooMuch,
    /// The buyer pays later by its terms, and the shop ships nothing before it is paid (`SHIP_ON_TERMS`).
    PaidLater,
    /// A cancelled order was paid with money that Waybill does not refund itself.
    RefundIsYours,
    /// The payment provider refused a refund, or it failed after it was issued.
    RefundFailed,
}

impl Reason {
    pub const ALL: [Reason; 11] = *Reason::VARIANTS.as_array().unwrap();

    /// What people can do about it.
    pub fn mend(self) -> &'static str {
        match self {
            Reason::PaidAndOutstanding | Reason::TotalBelowZero | Reason::CurrenciesDiffer => {
                "look at the order at the storefront; its next version that is right ends this"
            }
            Reason::Deleted => "give back what was paid for it, or restore it at the storefront",
            Reason::AgreementClaimedTwice => {
                "find out whose payment it is, and let the other order name another pact_id"
            }
            Reason::Disputed => "answer the bank at the payment provider before it decides",
            Reason::PaidTooMuch => "give back what is too much: waybill orders give-back ORDER",
            Reason::PaidLater => "wait for the money, or ship it at the storefront",
            Reason::PaidInPart => "ask for the rest, or give back what was paid",
            Reason::RefundIsYours => "look at the payment, and give it back where you took it",
            Reason::RefundFailed => {
                "run its job again if it is dead, or give the money back in another way"
            }
        }
    }
}

/// Why people must decide about an order that is not cancelled, and about how much, in minor units.
pub fn of(record: &Record) -> Option<(Reason, Option<i64>)> {
    let (settled, total) = (&record.settled, record.totals.value.total);
    let is_part = settled.status == Some(FinancialStatus::PartiallyPaid) && !record.is_paid();
    let contradiction = record
        .contradiction()
        .map(|contradiction| match contradiction {
            Contradiction::PaidAndOutstanding => Reason::PaidAndOutstanding,
            Contradiction::TotalBelowZero => Reason::TotalBelowZero,
            Contradiction::CurrenciesDiffer => Reason::CurrenciesDiffer,
        });
    if let (Some(reason), None) = (contradiction, &record.cancelled) {
        return Some((reason, total));
    }
    if record.is_deleted() && record.cancelled.is_none() {
        let waits = !record.is_fulfilled() && record.kept() != Some(0);
        return waits.then_some((Reason::Deleted, record.kept()));
    }
    match record.too_much() {
        _ if record.cancelled.is_some() => None,
        _ if settled.is_disputed => Some((Reason::Disputed, total)),
        _ if is_part => Some((Reason::PaidInPart, total)),
        0 if record.waits_by_terms() => Some((Reason::PaidLater, total)),
        0 => None,
        too_much => Some((Reason::PaidTooMuch, Some(too_much))),
    }
}

/// An order that waits for a decision.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    pub shop: String,
    pub order_id: String,
    pub reason: Reason,
    /// The id of the agreement, or of the payment that is to be refunded. None when the
    /// storefront has the payment.
    pub about: Option<String>,
    /// The order's total, or what is too much, or the amount that is to be refunded.
    pub amount: Option<String>,
    pub currency: Option<String>,
    /// When anything about it last changed in this database.
    pub updated_at: Timestamp,
}

/// The orders that wait, at most `limit` for each reason.
pub async fn list(db: &Db, limit: i64) -> Result<Vec<Held>> {
    let mut held = Vec::new();
    for reason in Reason::ALL {
        held.extend(for_reason(db, reason, limit).await?);
    }
    Ok(held)
}

/// The orders that wait for this reason, at most `limit`.
pub async fn for_reason(db: &Db, reason: Reason, limit: i64) -> Result<Vec<Held>> {
    let (sql, state) = match reason {
        Reason::AgreementClaimedTwice => (CLAIMED_TWICE, None),
        Reason::RefundIsYours => (REFUNDS, Some(State::Recorded.into_str())),
        Reason::RefundFailed => (REFUNDS, Some(State::Failed.into_str())),
        of_order => (HELD, Some(of_order.into_str())),
    };
    let mut found = db.query(sql).bind(limit);
    if let Some(state) = state {
        found = found.bind(state);
    }
    found.all(|row| read(row, reason)).await
}

fn read(row: &Row, reason: Reason) -> Result<Held> {
    let currency: Option<String> = row.get("currency")?;
    let minor: Option<i64> = row.get("minor")?;
    let amount = minor.zip(currency.as_deref());
    Ok(Held {
        shop: row.get("shop")?,
        order_id: row.get::<i64>("order_id")?.to_string(),
        reason,
        about: row
            .get::<Option<String>>("about")?
            .filter(|it| !it.is_empty()),
        amount: amount.map(|(minor, currency)| decimal(minor, currency)),
        currency,
        updated_at: row.get("updated_at")?,
    })
}

/// Agreements that only buyers' attributes name and that nobody has paid for are left out,
/// because nobody has to decide about them.
///
/// Agreements that are claimed twice are found in two indices, and only their rows are read: there may be
/// hundreds of thousands of orders that wait for a payment, and few of them share an agreement.
const CLAIMED_TWICE: &str = "
    with claims as materialized (
        select pact_id, shop, id from orders
        where pact_id is not null and payment_status is null and cancelled_at is null
          and shop <> 'checkout'
          and exists (
              select 1 from orders others
              where others.pact_id = orders.pact_id and others.shop <> 'checkout'
                and (others.id <> orders.id or others.shop <> orders.shop)
          )
    )
    select orders.shop as shop, orders.id as order_id, orders.pact_id as about,
           orders.currency as currency, orders.total_minor as minor,
           orders.updated_at as updated_at
    from claims join orders on orders.shop = claims.shop and orders.id = claims.id
    where exists (
        select 1 from payments
        where payments.pact_id = claims.pact_id and payments.received_minor > 0
    )
    order by orders.updated_at desc, orders.id desc
    limit $1";

const HELD: &str = "
    select shop, id as order_id, pact_id as about, currency, held_minor as minor, updated_at
    from orders
    where held = $2
    order by listed_at desc, id desc
    limit $1";

const REFUNDS: &str = "
    select shop, order_id, payment_id as about, currency, amount_minor as minor, updated_at
    from refunds
    where state = $2 and state in ('recorded', 'failed')
    order by updated_at desc, order_id desc
    limit $1";
