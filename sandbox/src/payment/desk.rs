//! All changes of the stand-in's state are made here, one at a time under its lock, and each at
//! one moment of the clock. The events of a change are sent when it is done, in their sequence.

use std::sync::MutexGuard;

use domain::money::Money;
use domain::time::Timestamp;
use platform::clock::Clock;
use serde_json::Value;

use super::error::Error;
use super::events::EventBuilder;
use super::form::Form;
use super::intents::{CARDS, Card, NoRefund, Record, State};
use super::objects::{self, Wish};
use super::sessions::Status;
use super::{Ledger, currencies};
use crate::sample::token;
use crate::webhooks::Delivery;

/// The largest amount in minor units. It has eight digits in every currency.
const LARGEST_AMOUNT: i64 = 99_999_999;

const REASONS: [(&str, &str); 4] = [
    ("duplicate", "duplicate"),
    ("fraudulent", "fraudulent"),
    ("requested_by_customer", "requested_by_customer"),
    ("abandoned", "abandoned"),
];

pub struct Desk<'a> {
    pub(super) ledger: MutexGuard<'a, Ledger>,
    pub clock: &'a Clock,
    pub now: Timestamp,
    /// The address of the API and of its pages.
    pub url: &'a str,
    pub events: Vec<Delivery>,
}

impl Desk<'_> {
    pub fn event_builder(&self) -> EventBuilder {
        EventBuilder {
            generation: self.ledger.generation,
            now: self.now,
        }
    }

    /// Makes a new id with a prefix.
    pub fn id(&self, prefix: &str) -> String {
        token(prefix, &self.clock.id().to_string(), 0)
    }

    pub fn intent(&self, id: &str) -> Result<&Record, Error> {
        let record = self.ledger.intents.get(id);
        record.ok_or_else(|| Error::unknown("payment_intent", id, "intent"))
    }

    pub fn show_intent(&self, id: &str) -> Result<Value, Error> {
        Ok(objects::intent(self.intent(id)?, self.ledger.generation))
    }

    /// The refunds of an intent, the latest first.
    pub fn show_refunds(&self, intent: &str) -> Result<Value, Error> {
        let record = self.ledger.intents.get(intent);
        let unknown = || Error::unknown("payment_intent", intent, "payment_intent");
        let refunds = &record.ok_or_else(unknown)?.refunds;
        let latest: Vec<Value> = refunds.iter().rev().cloned().collect();
        Ok(objects::list(&latest, "/v1/refunds"))
    }

    /// The newest charge of each intent, the newest first.
    pub fn charges(&self) -> Vec<Value> {
        let generation = self.ledger.generation;
        let charged = self.ledger.intents.values().filter(|it| it.charges > 0);
        let charges = charged.map(|it| objects::latest_charge(it, generation));
        newest_first(charges.collect())
    }

    /// All refunds, the newest first; with the charge in place of its id if that is asked for.
    pub fn refunds(&self, is_expanded: bool) -> Vec<Value> {
        let generation = self.ledger.generation;
        let of_intent = |record: &Record| {
            let charge = objects::latest_charge(record, generation);
            let refunds = record.refunds.iter().cloned().map(move |mut refund| {
                if is_expanded {
                    refund["charge"] = charge.clone();
                }
                refund
            });
            refunds.collect::<Vec<_>>()
        };
        newest_first(self.ledger.intents.values().flat_map(of_intent).collect())
    }

    pub fn create_intent(&mut self, key: Option<&str>, form: &mut Form) -> Result<Value, Error> {
        let amount = form.required_positive("amount")?;
        let currency = currencies::read(form, "currency")?;
        let money = Money {
            minor: charged(amount, "amount")?,
            currency,
        };
        let mut record = Record::new(self.id("pi_"), money, self.now);
        record.metadata = form.metadata()?;
        record.customer = form.text("customer")?;
        record.receipt_email = form.text("receipt_email")?;
        let card = form.choice("payment_method", &CARDS);
        let card = card.map_err(|error| error.code("resource_missing"))?;
        let confirm = form.flag("confirm")?;
        let off_session = form.flag("off_session")?;
        form.pass_over(&[
            "automatic_payment_methods",
            "description",
            "payment_method_types",
        ]);
        form.refuse_rest()?;
        if let Some(card) = card {
            record.state = State::RequiresConfirmation(card);
        }
        if confirm && card.is_none() {
            return Err(super::form::missing("payment_method"));
        }
        let id = record.id.clone();
        self.ledger.intents.insert(id.clone(), record);
        if confirm {
            return self.confirm(&id, None, off_session, key);
        }
        self.show_intent(&id)
    }

    /// Confirms an intent, as the API is asked to: tries a charge with this card, or with the card
    /// that the intent has.
    pub fn confirm(
        &mut self,
        id: &str,
        card: Option<Card>,
        off_session: bool,
        key: Option<&str>,
    ) -> Result<Value, Error> {
        let record = self.intent(id)?;
        not_of_checkout(record)?;
        let unexpected =
            |message: &str| Err(Error::unexpected_state(message, self.show_intent(id)?));
        let card = match (record.state, card) {
            (State::Succeeded, _) => {
                return unexpected(
                    "You cannot confirm this PaymentIntent because it has already succeeded \
                     after being previously confirmed.",
                );
            }
            (State::Canceled { .. } | State::Processing, _) => {
                return unexpected(&format!(
                    "You cannot confirm this PaymentIntent because it has a status of {}.",
                    record.state.name()
                ));
            }
            (_, Some(card)) | (State::RequiresConfirmation(card), None) => card,
            (State::RequiresAction, None) => Card::Guarded,
            (State::RequiresPaymentMethod(_), None) => {
                return unexpected(
                    "You cannot confirm this PaymentIntent because it's missing a payment method.",
                );
            }
        };
        *self
            .ledger
            .confirms
            .entry(key.unwrap_or_default().to_owned())
            .or_default() += 1;
        let alone = card.off_session();
        self.charge(id, if off_session { alone } else { card })
    }

    /// Tries a charge of an open intent, and makes all changes that follow from it.
    pub fn charge(&mut self, id: &str, card: Card) -> Result<Value, Error> {
        let event_builder = self.event_builder();
        let record = self.ledger.intents.get_mut(id);
        let record = record.ok_or_else(|| Error::unknown("payment_intent", id, "intent"))?;
        if let Err(decline) = record.charge(card) {
            let event = event_builder.intent_failed(record);
            let object = objects::intent(record, event_builder.generation);
            let error = Error::declined(&objects::declined(record, decline), object);
            self.events.push(event);
            return Err(error);
        }
        if record.state != State::Succeeded {
            return self.show_intent(id);
        }
        self.succeeded(id)
    }

    /// Lets the bank pay an intent that is processing.
    pub fn settle(&mut self, id: &str) -> Result<Value, Error> {
        let record = self.ledger.intents.get_mut(id);
        let record = record.filter(|record| record.state == State::Processing);
        let record = record.ok_or_else(|| Error::unknown("payment_intent", id, "intent"))?;
        record.capture();
        self.succeeded(id)
    }

    /// Makes all changes that follow from a charge that took the amount.
    fn succeeded(&mut self, id: &str) -> Result<Value, Error> {
        let event_builder = self.event_builder();
        let before = self.events.len();
        if let Some(session) = self.intent(id)?.session.clone() {
            self.complete(&session)?;
        }
        // The intent may name the objects that the payment made, and their events come after its
        // own.
        let event = event_builder.intent_succeeded(self.intent(id)?);
        self.events.insert(before, event);
        self.show_intent(id)
    }

    /// Cancels an intent, as the API is asked to.
    pub fn cancel(&mut self, id: &str, form: &mut Form) -> Result<Value, Error> {
        not_of_checkout(self.intent(id)?)?;
        let reason = form.choice("cancellation_reason", &REASONS)?;
        form.refuse_rest()?;
        self.call_off(id, reason)
    }

    /// Cancels an open intent, and lets its session expire.
    pub fn call_off(&mut self, id: &str, reason: Option<&'static str>) -> Result<Value, Error> {
        let record = self.intent(id)?;
        if !record.is_open() {
            let message = format!(
                "You cannot cancel this PaymentIntent because it has a status of {}. Only a \
                 PaymentIntent with one of the following statuses may be canceled: \
                 requires_payment_method, requires_capture, requires_confirmation, \
                 requires_action, processing.",
                record.state.name()
            );
            return Err(Error::unexpected_state(message, self.show_intent(id)?));
        }
        let (event_builder, now) = (self.event_builder(), self.now);
        let record = self.ledger.intents.get_mut(id);
        let record = record.ok_or_else(|| Error::unknown("payment_intent", id, "intent"))?;
        record.cancel(reason, now);
        let session = record.session.clone();
        self.events.push(event_builder.intent_canceled(record));
        let session = session.and_then(|id| self.ledger.sessions.get_mut(&id));
        if let Some(session) = session {
            session.status = Status::Expired;
            let event = event_builder.session_expired(session);
            self.events.push(event);
        }
        self.show_intent(id)
    }

    pub fn refund(&mut self, wish: &Wish) -> Result<Value, Error> {
        let (event_builder, now) = (self.event_builder(), self.now);
        let record = self.ledger.intents.get_mut(&wish.intent);
        let unknown = || Error::unknown("payment_intent", &wish.intent, "payment_intent");
        let record = record.ok_or_else(unknown)?;
        let amount = record.refundable(wish.amount);
        let amount = amount.map_err(|reason| reason.error_for(record))?;
        let refund = record.refund(wish, amount, now);
        self.events
            .push(event_builder.charge_refunded(record, amount));
        Ok(refund)
    }
}

impl NoRefund {
    fn error_for(self, record: &Record) -> Error {
        match self {
            NoRefund::NotPaid => {
                let id = &record.id;
                let message = format!(
                    "This PaymentIntent ({id}) does not have a successful charge to refund."
                );
                Error::invalid(message)
            }
            NoRefund::NothingLeft => Error::invalid("The charge has already been refunded.")
                .code("charge_already_refunded"),
            NoRefund::TooMuch { left } => {
                let currency = record.money.currency;
                let left = Money {
                    minor: left,
                    currency,
                };
                let message = format!(
                    "Refund amount is greater than the unrefunded amount ({left} {currency})."
                );
                Error::invalid(message).param("amount")
            }
        }
    }
}

/// Checks that an amount can be charged.
pub fn charged(amount: i64, param: &str) -> Result<i64, Error> {
    if amount <= LARGEST_AMOUNT {
        return Ok(amount);
    }
    let message = format!("Amount must be no more than {LARGEST_AMOUNT}.");
    Err(Error::invalid(message)
        .code("amount_too_large")
        .param(param))
}

/// Refuses an intent of a checkout session, because such an intent is paid only on the session's
/// page, and canceled only when the session expires.
fn not_of_checkout(record: &Record) -> Result<(), Error> {
    if record.session.is_none() {
        return Ok(());
    }
    let message = "You cannot perform this action on PaymentIntents created by Checkout.";
    Err(Error::invalid(message))
}

fn newest_first(mut all: Vec<Value>) -> Vec<Value> {
    all.sort_by_key(|it| std::cmp::Reverse((it["created"].as_i64(), it["id"].to_string())));
    all
}
