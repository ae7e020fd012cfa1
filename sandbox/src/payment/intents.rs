//! Payment intents: their states, and the changes that are possible in each state.

use std::collections::BTreeMap;

use domain::money::Money;
use domain::time::Timestamp;
use serde_json::Value;

use super::Intent;
use super::objects::{self, Wish};

/// An intent with its state and history.
#[derive(Clone)]
pub struct Record {
    pub id: String,
    pub money: Money,
    pub metadata: BTreeMap<String, String>,
    pub customer: Option<String>,
    pub receipt_email: Option<String>,
    /// Unix seconds.
    pub created: i64,
    pub state: State,
    /// How many charges were tried. Only the last one can have succeeded.
    pub charges: u64,
    /// How many charges took the amount. It is at most one, unless this stand-in has a defect.
    pub captures: u32,
    pub refunds: Vec<Value>,
    /// The refunded amount in minor units.
    pub refunded: i64,
    /// The checkout session that made the intent.
    pub session: Option<String>,
    /// The invoice that the intent pays.
    pub invoice: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The intent is new, or its last charge was declined.
    RequiresPaymentMethod(Option<Decline>),
    RequiresConfirmation(Card),
    /// The buyer must authenticate first; nothing was charged yet.
    RequiresAction,
    /// The bank takes days to decide whether it pays.
    Processing,
    Succeeded,
    Canceled {
        /// Unix seconds.
        at: i64,
        reason: Option<&'static str>,
    },
}

/// The provider's test cards, which decide the result of a charge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Card {
    Good,
    Bad(Decline),
    /// The bank of the card requires the buyer to authenticate.
    Guarded,
    /// A bank account. The result of the charge is known later.
    Slow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decline {
    Generic,
    InsufficientFunds,
    ExpiredCard,
    AuthenticationRequired,
}

pub const CARDS: [(&str, Card); 9] = [
    ("pm_card_visa", Card::Good),
    ("pm_card_mastercard", Card::Good),
    ("pm_card_chargeDeclined", Card::Bad(Decline::Generic)),
    ("pm_card_visa_chargeDeclined", Card::Bad(Decline::Generic)),
    (
        "pm_card_chargeDeclinedInsufficientFunds",
        Card::Bad(Decline::InsufficientFunds),
    ),
    (
        "pm_card_visa_chargeDeclinedInsufficientFunds",
        Card::Bad(Decline::InsufficientFunds),
    ),
    (
        "pm_card_chargeDeclinedExpiredCard",
        Card::Bad(Decline::ExpiredCard),
    ),
    ("pm_card_authenticationRequired", Card::Guarded),
    ("pm_usBankAccount_processing", Card::Slow),
];

/// Why nothing is refunded.
pub enum NoRefund {
    NotPaid,
    NothingLeft,
    TooMuch { left: i64 },
}

impl Record {
    pub fn new(id: String, money: Money, now: Timestamp) -> Self {
        Record {
            id,
            money,
            metadata: BTreeMap::new(),
            customer: None,
            receipt_email: None,
            created: now.unix_seconds(),
            state: State::RequiresPaymentMethod(None),
            charges: 0,
            captures: 0,
            refunds: Vec::new(),
            refunded: 0,
            session: None,
            invoice: None,
        }
    }

    /// An unpaid intent as a test or a tool describes it.
    pub fn of(intent: &Intent, now: Timestamp) -> Self {
        let (minor, currency) = (intent.amount, intent.currency);
        let mut record = Record::new(intent.id.clone(), Money { minor, currency }, now);
        if let Some(agreement) = &intent.pact_id {
            let metadata = [
                ("pact_id", agreement.as_str()),
                ("type", "order"),
                ("fulfillment_cycle", "once"),
            ];
            let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
            record.metadata = metadata.into();
        }
        record
    }

    /// Whether the intent can still be paid.
    pub fn is_open(&self) -> bool {
        matches!(
            self.state,
            State::RequiresPaymentMethod(_)
                | State::RequiresConfirmation(_)
                | State::RequiresAction
        )
    }

    /// Tries a charge. The intent must be open.
    pub fn charge(&mut self, card: Card) -> Result<(), Decline> {
        if card != Card::Guarded {
            self.charges += 1;
        }
        match card {
            Card::Good => self.capture(),
            Card::Slow => self.state = State::Processing,
            Card::Guarded => self.state = State::RequiresAction,
            Card::Bad(decline) => {
                self.state = State::RequiresPaymentMethod(Some(decline));
                return Err(decline);
            }
        }
        Ok(())
    }

    /// Notes that the last charge has taken the amount.
    pub fn capture(&mut self) {
        self.captures += 1;
        self.state = State::Succeeded;
    }

    /// Cancels the intent, which must be open.
    pub fn cancel(&mut self, reason: Option<&'static str>, now: Timestamp) {
        let at = now.unix_seconds();
        self.state = State::Canceled { at, reason };
    }

    /// The amount of a refund in minor units: the given amount, or all that is left if none is
    /// given.
    pub fn refundable(&self, amount: Option<i64>) -> Result<i64, NoRefund> {
        if self.state != State::Succeeded {
            return Err(NoRefund::NotPaid);
        }
        let left = self.money.minor - self.refunded;
        match amount.unwrap_or(left) {
            _ if left == 0 => Err(NoRefund::NothingLeft),
            amount if amount > left => Err(NoRefund::TooMuch { left }),
            amount => Ok(amount),
        }
    }

    /// Refunds an amount that [`Record::refundable`] has returned.
    pub fn refund(&mut self, wish: &Wish, amount: i64, now: Timestamp) -> Value {
        let refund = objects::refund(self, wish, amount, now);
        self.refunded += amount;
        self.refunds.push(refund.clone());
        refund
    }

    /// How many refunds were made.
    pub fn refund_count(&self) -> u32 {
        u32::try_from(self.refunds.len()).unwrap_or(u32::MAX)
    }
}

impl Card {
    /// The state after a confirmation without the buyer, who is needed to authenticate.
    pub fn off_session(self) -> Self {
        match self {
            Card::Guarded => Card::Bad(Decline::AuthenticationRequired),
            other => other,
        }
    }
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::RequiresPaymentMethod(_) => "requires_payment_method",
            State::RequiresConfirmation(_) => "requires_confirmation",
            State::RequiresAction => "requires_action",
            State::Processing => "processing",
            State::Succeeded => "succeeded",
            State::Canceled { .. } => "canceled",
        }
    }
}

impl Decline {
    /// The bank's code for the decline.
    pub fn code(self) -> &'static str {
        match self {
            Decline::Generic => "generic_decline",
            Decline::InsufficientFunds => "insufficient_funds",
            Decline::ExpiredCard => "expired_card",
            Decline::AuthenticationRequired => "authentication_required",
        }
    }

    /// The provider's own error code for the decline.
    pub fn error_code(self) -> &'static str {
        match self {
            Decline::Generic | Decline::InsufficientFunds => "card_declined",
            Decline::ExpiredCard | Decline::AuthenticationRequired => self.code(),
        }
    }

    pub fn message(self) -> &'static str {
        match self {
            Decline::Generic => "Your card was declined.",
            Decline::InsufficientFunds => "Your card has insufficient funds.",
            Decline::ExpiredCard => "Your card has expired.",
            Decline::AuthenticationRequired => {
                "Your card was declined. This transaction requires authentication."
            }
        }
    }
}
