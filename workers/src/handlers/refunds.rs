//! What a cancelled order gives back: money and stock.
//!
//! Deciding and calling are two jobs. `decide` runs where the order or its payment is
//! written, and records what is owed; the job [`KIND`] asks the payment provider, with its
//! own id as the idempotency key, so that however often it runs one refund is made. After a
//! failure that the provider keeps, or that was final, it looks what was refunded and asks under
//! the next key.

use std::collections::HashMap;

use anyhow::Result;
use domain::event::{LastEvent, MOST_LISTED, OrderEvent, RestockedLine};
use domain::job::{Job, Queue};
use domain::money::{Currency, Money};
use domain::order::Line;
use domain::order::record::Record;
use domain::order::settlement::{Linked, Payments};
use platform::clock::Clock;
use providers::CallFailure;
use providers::payment::{IdempotencyKey as ProviderKey, Refunded};
use serde::Deserialize;
use serde_json::json;
use store::inventory::{self, Movement};
use store::orders::records::{self, OrderKey};
use store::refunds::{self, Answer as Stored, NO_PAYMENT, NewRefund, Refund, State};
use store::sql::{self, Db, Tx};

use super::outbox::{self, Outbox};
use super::{Answer, KEYS_A_RUN, Providers};

pub const KIND: &str = "refunds/issue";

#[derive(Deserialize)]
struct Body {
    shop: String,
    order_id: i64,
    payment_id: String,
}

/// The agreement by which an order's payments are found: its own, or its id.
pub fn payment_reference(key: &OrderKey, record: &Record) -> String {
    let pact = record.pact.value.clone();
    pact.unwrap_or_else(|| key.1.to_string())
}

/// Books the units of a cancelled order that go back into stock, as the difference to what
/// was booked before: later versions of the order correct earlier ones.
pub async fn restock(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    key: &OrderKey,
    record: &Record,
    events_at: &mut LastEvent,
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
            .map(|(_, movement)| restocked(movement))
            .collect(),
    };
    outbox.order_event(key, events_at, restocked);
    Ok(())
}

fn restocked(movement: &Movement) -> RestockedLine {
    RestockedLine {
        line_id: movement.line_id.to_string(),
        variant_id: movement.variant_id.map(|id| id.to_string()),
        sku: movement.sku.clone(),
        quantity: movement.quantity,
    }
}

/// Records what a cancelled order owes: each payment that is linked to it; without one, and
/// when the order was paid, what the storefront took. The caller holds the order's lock. What
/// comes out depends on the order and its payments alone, not on which came first.
pub async fn decide(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    key: &OrderKey,
    record: &Record,
    payments: &Payments,
    events_at: &mut LastEvent,
) -> Result<()> {
    let known = refunds::of(tx, key).await?;
    let can_be_of_it = payments.are_of(record);
    let payments = payments.linked.as_slice();
    if !payments.iter().any(Linked::is_paid) {
        return record_unlinked(outbox, tx, key, record, &known, events_at).await;
    }
    if known.iter().any(|refund| refund.payment_id == NO_PAYMENT) {
        refunds::delete_unlinked(tx, key).await?;
    }
    settle_recorded(outbox, tx, key, payments, &known, events_at).await?;
    // What came in is not known yet of a payment that is only known from what went back.
    let is_owed = |payment: &&Linked| {
        (payment.fully_refunded || payment.left() > 0)
            && !known.iter().any(|it| it.payment_id == payment.id)
    };
    let owed: Vec<&Linked> = payments.iter().filter(is_owed).collect();
    let has_api = outbox.context.config.payment_api.is_some();
    let state = |payment: &Linked| match () {
        () if payment.fully_refunded => State::AlreadyRefunded,
        () if has_api && can_be_of_it => State::Requested,
        () => State::Recorded,
    };
    let rows: Vec<NewRefund<'_>> = owed
        .iter()
        .map(|payment| NewRefund {
            payment_id: &payment.id,
            state: state(payment),
            amount_minor: Some(owes(payment)),
            currency: Some(payment.currency.to_string()),
        })
        .collect();
    refunds::save(tx, key, &rows, outbox.now).await?;
    for payment in owed {
        if payment.fully_refunded {
            outbox.order_event(key, events_at, went_back_before(payment));
            continue;
        }
        let automatic = state(payment) == State::Requested;
        let requested = OrderEvent::RefundRequested {
            payment_id: payment.id.clone(),
            amount: Some(amount(owes(payment), payment.currency)),
            currency: Some(payment.currency.to_string()),
            automatic,
        };
        outbox.order_event(key, events_at, requested);
        if automatic {
            let (shop, order_id) = key;
            let body = json!({ "shop": shop, "order_id": order_id, "payment_id": payment.id });
            outbox.job(Queue::Payments, KIND, key, &body);
        }
    }
    Ok(())
}

/// What people were asked to give back: as much as is left, or nothing more.
async fn settle_recorded(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    key: &OrderKey,
    payments: &[Linked],
    known: &[Refund],
    events_at: &mut LastEvent,
) -> Result<()> {
    for payment in payments {
        let recorded = known
            .iter()
            .find(|it| it.payment_id == payment.id && it.state == State::Recorded.as_str());
        let Some(recorded) = recorded else { continue };
        if payment.fully_refunded {
            let stored = Stored {
                state: State::AlreadyRefunded,
                amount_minor: Some(payment.refunded),
                provider_id: None,
            };
            refunds::answered(tx, key, &payment.id, &stored, outbox.now).await?;
            outbox.order_event(key, events_at, went_back_before(payment));
        } else if recorded.amount_minor != Some(payment.left()) {
            let row = NewRefund {
                payment_id: &payment.id,
                state: State::Recorded,
                amount_minor: Some(payment.left()),
                currency: Some(payment.currency.to_string()),
            };
            refunds::save(tx, key, &[row], outbox.now).await?;
        }
    }
    Ok(())
}

/// All of it went back before we asked for it.
fn went_back_before(payment: &Linked) -> OrderEvent {
    OrderEvent::RefundIssued {
        payment_id: payment.id.clone(),
        refund_id: None,
        amount: Some(amount(payment.refunded, payment.currency)),
        currency: Some(payment.currency.to_string()),
        already_refunded: true,
    }
}

/// What is to go back of a payment, or went back.
fn owes(payment: &Linked) -> i64 {
    if payment.fully_refunded {
        payment.refunded
    } else {
        payment.left()
    }
}

/// Without a payment of ours the storefront gives the money back; the row says how much is
/// left to be given back, or, when nothing is, how much went back.
async fn record_unlinked(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    key: &OrderKey,
    record: &Record,
    known: &[Refund],
    events_at: &mut LastEvent,
) -> Result<()> {
    if !record.took_money() || known.iter().any(|it| it.payment_id != NO_PAYMENT) {
        return Ok(());
    }
    let left = record.kept_minor();
    let is_back = left == Some(0) && record.paid_minor().is_some_and(|paid| paid > 0);
    let (state, amount_minor) = if is_back {
        (State::AlreadyRefunded, record.paid_minor())
    } else {
        (State::Recorded, left)
    };
    let currency = record.totals.value.currency.map(|it| it.to_string());
    let is_known = |it: &Refund| {
        let is_same = it.amount_minor == amount_minor && it.currency == currency;
        is_same && it.state == state.as_str()
    };
    if known.iter().any(is_known) {
        return Ok(());
    }
    let row = NewRefund {
        payment_id: NO_PAYMENT,
        state,
        amount_minor,
        currency: currency.clone(),
    };
    refunds::save(tx, key, &[row], outbox.now).await?;
    // That nothing is owed is reported only where something else was reported before.
    if is_back && known.is_empty() {
        return Ok(());
    }
    let known = left.zip(record.totals.value.currency);
    let recorded = OrderEvent::RefundRecorded {
        amount: known.map(|(minor, currency)| amount(minor, currency)),
        currency,
    };
    outbox.order_event(key, events_at, recorded);
    Ok(())
}

fn amount(minor: i64, currency: Currency) -> String {
    Money { minor, currency }.to_string()
}

/// Asks the payment provider, unless it is answered already. What is not asked for the first
/// time is looked for first: an answer may have been lost, or people have given the money back.
pub async fn call(db: &Db, clock: &Clock, providers: &Providers, job: &Job) -> Result<Answer> {
    let body: Body = outbox::body(job)?;
    let key = (body.shop, body.order_id);
    let Some(provider) = &providers.payment else {
        anyhow::bail!("PAYMENT_API_URL and PAYMENT_API_KEY are not set in this process");
    };
    let Some(this_try) = refunds::begin_try(db, &key, &body.payment_id, clock.now()).await? else {
        return Ok(Answer::NotAsked);
    };
    let payment_id = body.payment_id.as_str();
    let mut calls = ProviderKey {
        job: job.id,
        number: this_try.key_number,
    };
    let mut keys = 1;
    loop {
        if keys > 1 || !this_try.is_first {
            let found = provider.find_refund(payment_id, key.1).await;
            if let Some(found) = found.map_err(super::fulfillments::failed)? {
                return Ok(Answer::Refund(found));
            }
        }
        let answer = provider.refund(payment_id, key.1, calls).await;
        if let Err(CallFailure::Stored { .. }) = answer {
            calls.number += 1;
            refunds::try_again(db, &key, payment_id, calls.number, clock.now()).await?;
            if keys < KEYS_A_RUN {
                keys += 1;
                continue;
            }
        }
        return Ok(Answer::Refund(answer.map_err(super::fulfillments::failed)?));
    }
}

pub async fn record(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    job: &Job,
    answer: &Refunded,
) -> Result<()> {
    let body: Body = outbox::body(job)?;
    let stored = match answer {
        Refunded::Issued { id, amount } => Stored {
            state: State::Issued,
            amount_minor: amount.map(|amount| amount.minor),
            provider_id: Some(id.clone()),
        },
        Refunded::Already => Stored {
            state: State::AlreadyRefunded,
            amount_minor: None,
            provider_id: None,
        },
    };
    finish(outbox, tx, &body, &stored, None).await?;
    Ok(())
}

pub async fn on_exhausted(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    job: &Job,
    error: &str,
) -> sql::Result<()> {
    let Ok(body) = outbox::body::<Body>(job) else {
        return Ok(());
    };
    let stored = Stored {
        state: State::Failed,
        amount_minor: None,
        provider_id: None,
    };
    finish(outbox, tx, &body, &stored, Some(error)).await
}

/// Records the end of a refund and reports it, once.
async fn finish(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    body: &Body,
    stored: &Stored,
    error: Option<&str>,
) -> sql::Result<()> {
    let key = (body.shop.clone(), body.order_id);
    let Some(mut entry) = records::load(tx, &[&key]).await?.remove(&key) else {
        return Ok(());
    };
    if !refunds::answered(tx, &key, &body.payment_id, stored, outbox.now).await? {
        return Ok(());
    }
    let refund = refunds::of(tx, &key)
        .await?
        .into_iter()
        .find(|refund| refund.payment_id == body.payment_id);
    let Some(refund) = refund else { return Ok(()) };
    let amount = refund.amount().map(|amount| amount.to_string());
    let ended = match error {
        Some(error) => OrderEvent::RefundFailed {
            payment_id: refund.payment_id,
            amount,
            currency: refund.currency,
            error: error.to_owned(),
        },
        None => OrderEvent::RefundIssued {
            payment_id: refund.payment_id,
            refund_id: refund.provider_id,
            amount,
            currency: refund.currency,
            already_refunded: stored.state == State::AlreadyRefunded,
        },
    };
    outbox.order_event(&key, &mut entry.events_at, ended);
    records::save(tx, &[(&key, &entry)], outbox.now).await
}
