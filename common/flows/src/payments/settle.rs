//! Which orders the payments, sessions and invoices of a message concern.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use domain::connection::bare;
use domain::job::Internal;
use domain::order::OrderKey;
use domain::order::record::Record as OrderRecord;
use domain::payment::outcome::failed_refunds;
use domain::payment::record::Record;
use domain::time::Timestamp;
use serde_json::json;
use store::aggregates;
use store::checkout_sessions;
use store::invoices::{self, Invoice};
use store::orders as order_rows;
use store::payments;
use store::sql::Tx;

use crate::outbox::Outbox;
use crate::sessions::{self, ChangedSession};
use crate::{Result, orders, refunds};

/// When the order of an agreement is looked for once more. By then an order that was being inserted
/// when its payment came is committed or rolled back.
const SECOND_LOOK: Duration = Duration::from_mins(1);

/// What a message has changed that orders may be settled by.
#[derive(Default)]
pub(super) struct Affected {
    pub agreements: BTreeSet<String>,
    payments: BTreeSet<String>,
    invoices: BTreeSet<String>,
    pub subscriptions: BTreeSet<String>,
    /// Payments that went back as a whole, or do not any more, and the invoices that they name.
    pub turned: BTreeSet<String>,
    turned_invoices: BTreeSet<String>,
    /// Ids of refunds that have failed.
    failed_refunds: BTreeSet<String>,
}

impl Affected {
    /// Adds a payment that was paid or canceled. If it names another agreement than before, both
    /// are concerned: neither order keeps what is not its own.
    pub fn add_payment(&mut self, id: &str, before: Option<&Record>, after: &Record) {
        self.payments.insert(id.to_owned());
        let failed = failed_refunds(before, after);
        self.failed_refunds.extend(failed.map(ToOwned::to_owned));
        let invoice = after.invoice.as_ref();
        if after.is_all_back() != before.is_some_and(Record::is_all_back) {
            self.turned.insert(id.to_owned());
            self.turned_invoices
                .extend(invoice.map(|part| part.value.clone()));
        }
        self.invoices.extend(invoice.map(|part| part.value.clone()));
        let agreements = after
            .agreement()
            .into_iter()
            .chain(before.and_then(Record::agreement));
        self.agreements.extend(agreements.map(ToOwned::to_owned));
    }

    /// The subscriptions whose invoices were given back, or are paid after all. `paid` are invoices of which it is new
    /// which payment paid them.
    pub async fn touched_subscriptions(
        &self,
        tx: &mut Tx,
        mut paid: Vec<String>,
    ) -> Result<BTreeSet<String>> {
        paid.extend(self.turned_invoices.iter().cloned());
        let payments = self.turned.iter().cloned().collect();
        Ok(invoices::subscriptions_of(tx, paid, payments).await?)
    }

    /// Adds invoices. Their sessions are found by the invoice, by the subscription that it began,
    /// and by the payment.
    pub fn add_invoices(&mut self, invoices: impl IntoIterator<Item = Invoice>) {
        for invoice in invoices {
            self.subscriptions.extend(invoice.subscription);
            self.invoices.insert(invoice.id);
        }
    }
}

/// Makes the orders of sessions, and settles the orders that a message concerns. `fresh` are the
/// agreements that its events name.
pub(super) async fn settle(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    mut affected: Affected,
    mut sessions: Vec<ChangedSession>,
    fresh: &BTreeSet<String>,
) -> Result<()> {
    let now = outbox.now;
    // The ids of payments and subscriptions are locked too. A session and its payment may come at
    // the same time, and the second of them then sees the first.
    let mut locks = affected.agreements.clone();
    locks.extend(affected.payments.iter().cloned());
    locks.extend(affected.subscriptions.iter().cloned());
    locks.extend(sessions.iter().filter_map(ChangedSession::payment));
    locks.extend(sessions.iter().filter_map(ChangedSession::subscription));
    payments::lock_agreements(tx, locks).await?;
    let (payments, subscriptions) = (&affected.payments, &affected.subscriptions);
    let adopted = sessions::adopt(tx, &mut sessions, payments, subscriptions).await?;
    payments::lock_agreements(tx, adopted.iter().cloned()).await?;
    affected.agreements.extend(adopted);
    let mut keys: BTreeSet<OrderKey> = BTreeSet::new();
    let agreements = affected.agreements.iter().cloned().collect();
    let claimed = order_rows::of_agreements(tx, agreements).await?;
    for agreement in &affected.agreements {
        let claims = claimed.get(agreement).map(Vec::as_slice);
        let claims = claims.unwrap_or_default();
        keys.extend(claims.iter().map(|claim| claim.key.clone()));
        let is_found = claims.iter().any(|claim| claim.is_by_id);
        if !is_found && fresh.contains(agreement) && may_be_order_id(agreement) {
            let body = json!({ "pact_id": agreement });
            outbox.job_of(
                Internal::LinkPayment,
                agreement,
                &body,
                now.plus(SECOND_LOOK),
            );
        }
    }
    let waits_until = outbox.context.config.checkout_order_wait;
    let waits_until = waits_until.map(|wait| now.plus(wait));
    let made = sessions::place(&mut sessions, &claimed, waits_until);
    if let Some(at) = waits_until {
        ask_to_end_waits(outbox, &sessions, &made, at);
    }
    keys.extend(sessions.iter().filter_map(|it| it.entry.order.clone()));
    let rows = sessions.iter().map(|session| (&session.id, &session.entry));
    aggregates::save(tx, rows, now).await?;
    let made_keys: HashSet<OrderKey> = made.iter().map(|(key, _)| key.clone()).collect();
    orders::of_sessions(outbox, tx, made).await?;
    let ids: Vec<String> = affected.payments.iter().cloned().collect();
    affected.add_invoices(invoices::of_payments(tx, ids.clone()).await?);
    keys.extend(checkout_sessions::orders_of(tx, ids).await?);
    let invoices = affected.invoices.into_iter().collect();
    keys.extend(checkout_sessions::orders_of_invoices(tx, invoices).await?);
    let subscriptions = affected.subscriptions.into_iter().collect();
    keys.extend(checkout_sessions::orders_of_subscriptions(tx, subscriptions).await?);
    // The orders that were made just now are settled already.
    keys.retain(|key| !made_keys.contains(key));
    orders::settle_again(outbox, tx, &keys).await?;
    refunds::fail(outbox, tx, &keys, &affected.failed_refunds).await
}

/// Stores a job for each placeholder that sessions have made, which ends its wait.
fn ask_to_end_waits(
    outbox: &mut Outbox<'_>,
    sessions: &[ChangedSession],
    made: &[(OrderKey, OrderRecord)],
    at: Timestamp,
) {
    for session in sessions.iter().filter(|it| it.is_first) {
        let agreement = session.agreement();
        let waits = |(key, order): &(OrderKey, OrderRecord)| {
            order.waits_until.is_some() && *key == order_rows::checkout_key(&agreement)
        };
        if made.iter().any(waits) {
            let body = json!({ "pact_id": agreement });
            outbox.job_of(Internal::EndWait, &agreement, &body, at);
        }
    }
}

/// Ends the wait of the placeholders of these agreements. Where orders of the storefront claim an
/// agreement as well and none of them is known to be its owner, the placeholder waits on, because
/// people must decide.
pub(super) async fn end_wait(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    agreements: BTreeSet<String>,
) -> Result<()> {
    let claimed = order_rows::of_agreements(tx, agreements.iter().cloned().collect()).await?;
    let mut keys = BTreeSet::new();
    for agreement in agreements {
        let placeholder = order_rows::checkout_key(&agreement);
        let claims = claimed.get(&agreement).map(Vec::as_slice);
        let claims = claims.unwrap_or_default();
        if claims.iter().all(|claim| claim.key == placeholder) {
            keys.insert(placeholder);
        } else if claims
            .iter()
            .any(|claim| claim.key == placeholder && !claim.is_cancelled)
        {
            // All the others may still turn out to be of other agreements.
            let wait = outbox.context.config.checkout_order_wait;
            let at = outbox.now.plus(wait.unwrap_or(SECOND_LOOK));
            let body = json!({ "pact_id": agreement });
            outbox.job_of(Internal::EndWait, &agreement, &body, at);
        }
    }
    orders::end_wait(outbox, tx, &keys).await
}

/// Whether an agreement can be the id of an order. An order that names no agreement claims its own
/// id without locking it (`orders::update`), so its payment has to look for it a second time.
fn may_be_order_id(agreement: &str) -> bool {
    bare(agreement).parse::<i64>().is_ok()
}
