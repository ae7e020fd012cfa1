//! The money that a cancelled order gives back.
//!
//! Deciding and asking are two steps. [`decide`] runs in the transaction that writes the order or
//! its payment. It records what is owed and stores a job of [`Internal::IssueRefund`] for each payment that Waybill
//! refunds itself. A worker runs that job: it asks the payment provider, and [`end`] writes the
//! answer.

use std::collections::BTreeSet;

use domain::event::OrderEvent;
use domain::job::{Internal, Job};
use domain::money::{Currency, Money};
use domain::order::OrderKey;
use domain::order::record::Record;
use domain::order::settlement::{Linked, Payments};
use serde::Deserialize;
use serde_json::json;
use store::orders::records;
use store::refunds::{self, Answer, NO_PAYMENT, NewRefund, Refund, State};
use store::sql::{self, Tx};

use crate::Result;
use crate::outbox::{self, Outbox};

/// What a job of [`Internal::IssueRefund`] is about: one payment of one order.
#[derive(Deserialize)]
pub struct RefundJob {
    pub shop: String,
    pub order_id: i64,
    pub payment_id: String,
}

impl RefundJob {
    pub fn read(job: &Job) -> Result<Self> {
        outbox::body(job)
    }

    pub fn order_key(&self) -> OrderKey {
        (self.shop.clone(), self.order_id)
    }
}

/// The payments and refunds of a cancelled order, while it is decided what the order owes.
struct Owing<'a> {
    key: &'a OrderKey,
    record: &'a Record,
    /// The payments that are linked to the order.
    payments: &'a [Linked],
    /// The refunds that are recorded already.
    known: &'a [Refund],
}

/// Records what a cancelled order owes: for each payment that is linked to the order, what is left
/// of it, and without a payment what the storefront took itself. The caller holds the order's lock.
/// The result depends on the order and its payments alone, not on which of them came first.
///
/// Waybill gives nothing back itself while the order can still come back, nor where the storefront
/// gave money back that no provider knows of: then people must look.
pub(crate) async fn decide(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    key: &OrderKey,
    record: &Record,
    payments: &Payments,
) -> Result<()> {
    let mut known = refunds::of(tx, key).await?;
    withdraw_untrue(tx, key, payments, &mut known).await?;
    let is_certain = record.contradiction().is_none() && !record.is_back_past_providers();
    let is_clear = payments.are_of(record) && !record.can_come_back() && is_certain;
    let owing = Owing {
        key,
        record,
        payments: payments.linked.as_slice(),
        known: &known,
    };
    record_unlinked(outbox, tx, &owing).await?;
    if !owing.payments.iter().any(Linked::is_paid) {
        return Ok(());
    }
    update_recorded(outbox, tx, &owing).await?;
    let connections = outbox.context.connections.now();
    let has_api = |id: &str| connections.of_payment(id).is_some_and(|it| it.is_called);
    let new_state = |payment: &Linked| match () {
        () if payment.fully_refunded => State::AlreadyRefunded,
        () if is_clear && has_api(&payment.id) => State::Requested,
        () => State::Recorded,
    };
    let owed = owing.not_recorded();
    let rows: Vec<NewRefund<'_>> = owed
        .iter()
        .map(|payment| NewRefund {
            payment_id: &payment.id,
            state: new_state(payment),
            amount_minor: owed_amount(record, payment),
            currency: Some(payment.currency.to_string()),
        })
        .collect();
    refunds::save(tx, key, &rows, outbox.now).await?;
    for payment in owed {
        if payment.fully_refunded {
            outbox.order_event(key, already_refunded(payment));
            continue;
        }
        let automatic = new_state(payment) == State::Requested;
        let requested = OrderEvent::RefundRequested {
            payment_id: payment.id.clone(),
            amount: owed_amount(record, payment).map(|minor| text_of(minor, payment.currency)),
            currency: Some(payment.currency.to_string()),
            automatic,
        };
        outbox.order_event(key, requested);
        if automatic {
            let (shop, order_id) = key;
            let body = json!({ "shop": shop, "order_id": order_id, "payment_id": payment.id });
            outbox.job(Internal::IssueRefund, key, &body);
        }
    }
    Ok(())
}

/// Withdraws what was recorded as given back where it is not any more: the refund has failed since, or the customer's bank
/// has taken the payment, or has given it up. What the provider itself answered stays.
async fn withdraw_untrue(
    tx: &mut Tx,
    key: &OrderKey,
    payments: &Payments,
    known: &mut Vec<Refund>,
) -> Result<()> {
    for payment in payments.linked.iter().filter(|it| !it.fully_refunded) {
        let is_untrue = |refund: &Refund| {
            let was_back = refund.state == State::AlreadyRefunded.into_str();
            refund.payment_id == payment.id && was_back && refund.tried_at.is_none()
        };
        if known.iter().any(is_untrue) {
            refunds::withdraw(tx, key, Some(&payment.id)).await?;
            known.retain(|refund| !is_untrue(refund));
        }
    }
    Ok(())
}

impl<'a> Owing<'a> {
    /// The payments that are owed and for which no refund is recorded yet. A payment of which only
    /// a refund is known has nothing left, because it is not known yet how much came in. Of a
    /// disputed payment the bank decides what goes back.
    fn not_recorded(&self) -> Vec<&'a Linked> {
        let is_owed = |payment: &&Linked| {
            let has_refund = self.known.iter().any(|it| it.payment_id == payment.id);
            let has_left = payment.left() > 0 && !payment.is_disputed;
            (payment.fully_refunded || has_left) && !has_refund
        };
        self.payments.iter().filter(is_owed).collect()
    }
}

/// Brings the refunds up to date that people are asked to make: the amount is what is left of the
/// payment, if none was asked for, and a payment that was refunded in full meanwhile is settled.
/// Nobody gives a payment back while its bank decides.
async fn update_recorded(outbox: &mut Outbox<'_>, tx: &mut Tx, owing: &Owing<'_>) -> Result<()> {
    let key = owing.key;
    for payment in owing.payments {
        if payment.is_disputed {
            refunds::withdraw(tx, key, Some(&payment.id)).await?;
            continue;
        }
        let (recorded, failed) = (State::Recorded.into_str(), State::Failed.into_str());
        let owed = owing.known.iter().find(|it| {
            it.payment_id == payment.id && [recorded, failed].contains(&it.state.as_str())
        });
        let Some(owed) = owed else { continue };
        if payment.fully_refunded {
            let answer = Answer {
                state: State::AlreadyRefunded,
                amount_minor: Some(payment.given_back()),
                provider_id: None,
            };
            refunds::answered(tx, key, &payment.id, &answer, outbox.now).await?;
            outbox.order_event(key, already_refunded(payment));
        } else if owed.state == recorded && owed.amount_minor != owed_amount(owing.record, payment)
        {
            let row = NewRefund {
                payment_id: &payment.id,
                state: State::Recorded,
                amount_minor: owed_amount(owing.record, payment),
                currency: Some(payment.currency.to_string()),
            };
            refunds::save(tx, key, &[row], outbox.now).await?;
        }
    }
    Ok(())
}

/// The event of a payment that was refunded in full before Waybill asked for it.
fn already_refunded(payment: &Linked) -> OrderEvent {
    OrderEvent::RefundIssued {
        payment_id: payment.id.clone(),
        refund_id: None,
        amount: Some(text_of(payment.given_back(), payment.currency)),
        currency: Some(payment.currency.to_string()),
        already_refunded: true,
    }
}

/// How much of a payment is to be refunded, or was refunded if all of it was. None when the
/// storefront gave money back that may have been this payment's.
fn owed_amount(record: &Record, payment: &Linked) -> Option<i64> {
    if payment.fully_refunded {
        Some(payment.given_back())
    } else {
        (!record.is_back_past_providers()).then(|| payment.left())
    }
}

/// Records what a cancelled order owes besides its payments. The storefront took the money and
/// gives it back; the row says how much is left to be given back, or, if nothing is left, how much
/// was given back.
async fn record_unlinked(outbox: &mut Outbox<'_>, tx: &mut Tx, owing: &Owing<'_>) -> Result<()> {
    let Owing {
        key, record, known, ..
    } = owing;
    let is_linked = owing.payments.iter().any(Linked::is_paid);
    let recorded = known.iter().find(|it| it.payment_id == NO_PAYMENT);
    if !is_linked && recorded.is_none() && !known.is_empty() {
        return Ok(());
    }
    let left = record.owed_by_shop();
    let back = record.returned_by_shop();
    let (state, amount_minor) = match left {
        Some(0)
            if !is_linked && (record.is_given_back() || (record.was_paid && back != Some(0))) =>
        {
            (State::AlreadyRefunded, back.filter(|back| *back > 0))
        }
        Some(0) => {
            if recorded.is_some() {
                refunds::withdraw(tx, key, Some(NO_PAYMENT)).await?;
            }
            return Ok(());
        }
        left => (State::Recorded, left),
    };
    let currency = record.totals.value.currency.map(|it| it.to_string());
    let is_same = |refund: &Refund| {
        let is_same_money = refund.amount_minor == amount_minor && refund.currency == currency;
        is_same_money && refund.state == state.into_str()
    };
    if recorded.is_some_and(is_same) {
        return Ok(());
    }
    let row = NewRefund {
        payment_id: NO_PAYMENT,
        state,
        amount_minor,
        currency: currency.clone(),
    };
    refunds::save(tx, key, &[row], outbox.now).await?;
    // An event says that nothing is owed only where an earlier event said that something is.
    if state == State::AlreadyRefunded && recorded.is_none() {
        return Ok(());
    }
    let left = left.zip(record.totals.value.currency);
    let recorded = OrderEvent::RefundRecorded {
        amount: left.map(|(minor, currency)| text_of(minor, currency)),
        currency,
    };
    outbox.order_event(key, recorded);
    Ok(())
}

fn text_of(minor: i64, currency: Currency) -> String {
    Money { minor, currency }.to_string()
}

/// Records that refunds of these orders, which the caller has locked, failed after they were issued.
pub(crate) async fn fail(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    keys: &BTreeSet<OrderKey>,
    failed: &BTreeSet<String>,
) -> Result<()> {
    if failed.is_empty() {
        return Ok(());
    }
    for key in keys {
        for refund in refunds::of(tx, key).await? {
            let has_failed = refund
                .provider_id
                .as_ref()
                .is_some_and(|id| failed.contains(id));
            if has_failed && refunds::fail(tx, key, &refund.payment_id, outbox.now).await? {
                outbox.order_event(key, failed_later(refund));
            }
        }
    }
    Ok(())
}

fn failed_later(refund: Refund) -> OrderEvent {
    OrderEvent::RefundFailed {
        amount: refund.amount().map(|amount| amount.to_string()),
        payment_id: refund.payment_id,
        currency: refund.currency,
        error: "it failed after it was issued, so give the money back in another way".to_owned(),
    }
}

/// Records how a refund ended and adds the event that says so, once. `error` is why there will be
/// no refund, if there will be none.
pub async fn end(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    refund: &RefundJob,
    answer: &Answer,
    error: Option<&str>,
) -> sql::Result<()> {
    let key = refund.order_key();
    if records::load(tx, vec![key.clone()]).await?.is_empty() {
        return Ok(());
    }
    if !refunds::answered(tx, &key, &refund.payment_id, answer, outbox.now).await? {
        return Ok(());
    }
    let stored = refunds::of(tx, &key)
        .await?
        .into_iter()
        .find(|stored| stored.payment_id == refund.payment_id);
    let Some(stored) = stored else { return Ok(()) };
    let amount = stored.amount().map(|amount| amount.to_string());
    let event = match error {
        Some(error) => OrderEvent::RefundFailed {
            payment_id: stored.payment_id,
            amount,
            currency: stored.currency,
            error: error.to_owned(),
        },
        None => OrderEvent::RefundIssued {
            payment_id: stored.payment_id,
            refund_id: stored.provider_id,
            amount,
            currency: stored.currency,
            already_refunded: answer.state == State::AlreadyRefunded,
        },
    };
    outbox.order_event(&key, event);
    Ok(())
}
