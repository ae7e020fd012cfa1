//! Checkout sessions of the payment provider, and the orders that they make.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use domain::connection::{bare, of_id};
use domain::event::{CheckoutEvent, Event};
use domain::money::Money;
use domain::order::FinancialStatus;
use domain::order::OrderKey;
use domain::order::record as order_record;
use domain::order::record::{Contact, Part, Totals, Version};
use domain::payment::record::Part as PaymentPart;
use domain::payment::{Mode, checkout};
use domain::time::Timestamp;
use store::aggregates::{self, Merged};
use store::checkout_sessions;
use store::orders as order_rows;
use store::orders::Claim;
use store::sql::Tx;

use crate::Result;
use crate::outbox::Outbox;

/// A session of which a message said something new.
pub(crate) struct ChangedSession {
    pub id: String,
    pub entry: checkout_sessions::SessionEntry,
    /// Whether nothing was known of the session before.
    pub is_first: bool,
    /// The time of its first event, in Unix seconds.
    created: i64,
}

/// What a message says of a session, and the time of the first event that says it, in Unix seconds.
pub(crate) type Incoming = (checkout_sessions::SessionEntry, i64);

impl ChangedSession {
    /// The id of what is paid for: of the agreement that the session names, or else of the session
    /// itself.
    pub fn agreement(&self) -> String {
        let agreement = self.entry.record.pact_id.as_ref();
        agreement.map_or_else(|| self.id.clone(), |part| part.value.clone())
    }

    /// The payment that the session led to.
    pub fn payment(&self) -> Option<String> {
        let payment = self.entry.record.payment_intent.as_ref();
        payment.map(|part| part.value.clone())
    }

    /// The subscription that the session began.
    pub fn subscription(&self) -> Option<String> {
        let subscription = self.entry.record.subscription.as_ref();
        subscription.map(|part| part.value.clone())
    }
}

/// Merges sessions with what is known of them, adds their events, and returns those that have
/// changed. The caller saves these, after [`place`] has found their orders.
pub(crate) async fn take(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    incoming: BTreeMap<String, Incoming>,
) -> Result<Vec<ChangedSession>> {
    let now = outbox.now;
    let created: BTreeMap<String, i64> = incoming
        .iter()
        .map(|(id, (_, created))| (id.clone(), *created))
        .collect();
    let incoming = incoming.into_iter().map(|(id, (entry, _))| (id, entry));
    let merged = aggregates::merge(tx, incoming.collect(), now).await?;
    let changed = merged.into_iter().map(|merged| {
        let Merged {
            key: id,
            before,
            after: entry,
        } = merged;
        let was = before.as_ref().map(|entry| &entry.record);
        for change in checkout::changes(was, &entry.record) {
            let event = event_of(change, &entry.record);
            outbox.event(Event::of_checkout(&id, event));
        }
        ChangedSession {
            is_first: before.is_none(),
            created: created[&id],
            id,
            entry,
        }
    });
    Ok(changed.collect())
}

/// Gives each session that names no agreement the one that its payment names, or else its
/// subscription, because the provider has integrators name it there alone. Payments and
/// subscriptions may have come after their sessions, which are added here. Returns the agreements.
pub(crate) async fn adopt(
    tx: &mut Tx,
    sessions: &mut Vec<ChangedSession>,
    payments: &BTreeSet<String>,
    subscriptions: &BTreeSet<String>,
) -> Result<Vec<String>> {
    let of_payments = with(payments, sessions, ChangedSession::payment);
    let of_subscriptions = with(subscriptions, sessions, ChangedSession::subscription);
    let mut by_payment = store::payments::known(tx, of_payments).await?;
    by_payment.retain(|_, payment| payment.record.pact_id.is_some());
    let mut by_subscription = store::subscriptions::known(tx, of_subscriptions).await?;
    by_subscription.retain(|_, record| record.pact_id.is_some());
    let (payments, subscriptions) = (by_payment.keys(), by_subscription.keys());
    let (payments, subscriptions) = (
        payments.cloned().collect(),
        subscriptions.cloned().collect(),
    );
    for (id, entry) in checkout_sessions::unnamed(tx, payments, subscriptions).await? {
        if !sessions.iter().any(|session| session.id == id) {
            let (payment, began) = (&entry.record.payment_intent, &entry.record.subscription);
            let created = payment.as_ref().or(began.as_ref());
            sessions.push(ChangedSession {
                created: created.map_or(0, |part| part.version.created),
                is_first: false,
                id,
                entry,
            });
        }
    }
    let mut adopted = Vec::new();
    for session in sessions {
        let by_payment = session.payment().and_then(|id| by_payment.get(&id));
        let by_payment = by_payment.and_then(|it| it.record.pact_id.as_ref());
        let named = by_payment.or_else(|| {
            let subscription = by_subscription.get(&session.subscription()?);
            subscription?.pact_id.as_ref()
        });
        if let (None, Some(named)) = (&session.entry.record.pact_id, named) {
            adopted.push(named.value.clone());
            session.entry.record.pact_id = Some(named.clone());
        }
    }
    Ok(adopted)
}

/// These ids, and those that the sessions name.
fn with(
    ids: &BTreeSet<String>,
    sessions: &[ChangedSession],
    named_by: fn(&ChangedSession) -> Option<String>,
) -> Vec<String> {
    let named = sessions.iter().filter_map(named_by);
    let all: BTreeSet<String> = ids.iter().cloned().chain(named).collect();
    all.into_iter().collect()
}

fn event_of(change: checkout::Change, record: &checkout::Record) -> CheckoutEvent {
    let text = |part: &Option<PaymentPart<String>>| part.as_ref().map(|part| part.value.clone());
    let payment_status = record.payment_status.as_ref();
    let payment_status = payment_status.map(|it| it.as_str().to_owned());
    let mode = record.mode().map(|mode| mode.as_str().to_owned());
    let amount = total_of(record).map(|total| total.to_string());
    let currency = record.currency.as_ref().map(|part| part.value.to_string());
    let payment_id = text(&record.payment_intent);
    let subscription_id = text(&record.subscription);
    let pact_id = text(&record.pact_id);
    match change {
        checkout::Change::Completed => CheckoutEvent::Completed {
            mode,
            payment_status,
            amount,
            currency,
            payment_id,
            subscription_id,
            pact_id,
        },
        checkout::Change::Settled => CheckoutEvent::Settled {
            mode,
            payment_status,
            amount,
            currency,
            payment_id,
            subscription_id,
            pact_id,
        },
    }
}

fn total_of(record: &checkout::Record) -> Option<Money> {
    let currency = record.currency.as_ref().map(|part| part.value);
    let minor = record.total.as_ref().map(|part| part.value);
    minor
        .zip(currency)
        .map(|(minor, currency)| Money { minor, currency })
}

/// Finds the order of each session. That is the storefront's own order, if one claims the agreement
/// of the session; otherwise the session makes an order. Returns the orders that are made. Where the
/// storefront's own order may still come, the order that is made is a placeholder and waits for it.
pub(crate) fn place(
    sessions: &mut [ChangedSession],
    claimed: &HashMap<String, Vec<Claim>>,
    waits_until: Option<Timestamp>,
) -> Vec<(OrderKey, order_record::Record)> {
    let mut made = Vec::new();
    for session in sessions {
        let agreement = session.agreement();
        let orders = claimed
            .get(&agreement)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let sells = !matches!(
            session.entry.record.mode.as_ref().map(|part| &part.value),
            Some(Mode::Setup)
        );
        let own = order_rows::checkout_key(&agreement);
        session.entry.order = match orders {
            _ if !sells => None,
            [only] if only.key.0 != order_rows::CHECKOUT => Some(only.key.clone()),
            [_, _, ..] if !orders.iter().any(|claim| claim.key == own) => None,
            _ => {
                let mut order = order_of(session);
                // No order of the storefront can name a session's own id. And the agreement of a
                // session that was opened through the API has its order already.
                let is_new = orders.is_empty();
                let is_named = session.entry.record.pact_id.is_some();
                let may_come = is_new && is_named && session.is_first;
                order.waits_until = waits_until.filter(|_| may_come).map(|at| at.0);
                made.push((own.clone(), order));
                Some(own)
            }
        };
    }
    made
}

/// What a session says of the order that it makes.
fn order_of(session: &ChangedSession) -> order_record::Record {
    let record = &session.entry.record;
    let is_settled = record.is_settled();
    let version = Version {
        at: Timestamp::from_unix_seconds(session.created).0,
        tie: (i64::from(is_settled) << 62) | order_rows::checkout_key(&session.id).1 >> 1,
    };
    let part = |is_known: bool| if is_known { version } else { Version::NEVER };
    let currency = record.currency.as_ref().map(|part| part.value);
    let total = record.total.as_ref().map(|part| part.value);
    let status = if is_settled {
        FinancialStatus::Paid
    } else {
        FinancialStatus::Pending
    };
    let email = record.email.as_ref().map(|part| part.value.0.clone());
    let mut order = order_record::Record::unknown(version);
    order.ordered_at = Some(version.at);
    order.unread = record.unread.iter().cloned().collect();
    order.totals = Part {
        version: part(total.is_some()),
        value: Totals {
            currency,
            total,
            ..Totals::default()
        },
    };
    order.financial = Part {
        version,
        value: Some(status),
    };
    order.was_paid = is_settled;
    order.contact = Part {
        version: part(email.is_some()),
        value: Contact { email, phone: None },
    };
    if let Some(agreement) = &record.pact_id {
        let named = bare(&agreement.value);
        order.agreement = Part {
            version,
            value: Some(named.to_owned()),
        };
        order.paid_by(of_id(&agreement.value), named);
    } else {
        let (_, id) = order_rows::checkout_key(&session.id);
        order.paid_by(of_id(&session.id), &id.to_string());
    }
    order
}
