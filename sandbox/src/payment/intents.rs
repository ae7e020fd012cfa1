//! Payment intents: what may happen to one, and what it has become.

use std::collections::BTreeMap;

use domain::money::Money;
use domain::time::Timestamp;
use serde_json::Value;

use super::Intent;
use super::objects::{self, Wish};

/// An intent and what became of it.
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
    /// Charges that were tried. Only the last one can have succeeded.
    pub charges: u64,
    /// Charges that took the amount: one, unless this stand-in is wrong.
    pub captures: u32,
    pub refunds: Vec<Value>,
    /// Minor units given back.
    pub refunded: i64,
    /// The checkout session that it was made by.
    pub session: Option<String>,
    /// The invoice that it pays.
    pub invoice: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// New, or its last charge was declined.
    RequiresPaymentMethod(Option<Decline>),
    RequiresConfirmation(Card),
    /// The buyer is to authenticate; nothing was charged.
    RequiresAction,
    /// The bank takes days to say whether it pays.
    Processing,
    Succeeded,
    Canceled {
        /// Unix seconds.
        at: i64,
        reason: Option<&'static str>,
    },
}

/// The provider's test cards: what comes of a charge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Card {
    Good,
    Bad(Decline),
    /// Its bank wants the buyer to authenticate.
    Guarded,
    /// A bank account: what comes of it is known later.
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

    /// As the test or tool describes it: not yet paid.
    pub fn of(intent: &Intent, now: Timestamp) -> Self {
        let Intent {
            id,
            amount,
            currency,
            pact_id,
        } = intent;
        let money = Money {
            minor: *amount,
            currency: *currency,
        };
        let mut record = Record::new(id.clone(), money, now);
        if let Some(pact) = pact_id {
            let metadata = [
                ("pact_id", pact.as_str()),
                ("type", "order"),
                ("fulfillment_cycle", "once"),
            ];
            let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
            record.metadata = metadata.into();
        }
        record
    }

    /// Whether it waits for someone to pay.
    pub fn is_open(&self) -> bool {
        matches!(
            self.state,
            State::RequiresPaymentMethod(_)
                | State::RequiresConfirmation(_)
                | State::RequiresAction
        )
    }

    /// Tries a charge. Only of an open one.
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

    /// The last charge has taken the amount.
    pub fn capture(&mut self) {
        self.captures += 1;
        self.state = State::Succeeded;
    }

    /// Only of an open one.
    pub fn cancel(&mut self, reason: Option<&'static str>, now: Timestamp) {
        let at = now.unix_seconds();
        self.state = State::Canceled { at, reason };
    }

    /// The amount that a refund is of; all that is left, when none is given.
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

    /// Gives back an amount that is [`Record::refundable`].
    pub fn refund(&mut self, wish: &Wish, amount: i64, now: Timestamp) -> Value {
        let refund = objects::refund(self, wish, amount, now);
        self.refunded += amount;
        self.refunds.push(refund.clone());
        refund
    }

    /// How many refunds there are.
    pub fn refund_count(&self) -> u32 {
        u32::try_from(self.refunds.len()).unwrap_or(u32::MAX)
    }
}

impl Card {
    /// What it is without its owner, who alone could authenticate.
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
    /// What the bank said.
    pub fn code(self) -> &'static str {
        match self {
            Decline::Generic => "generic_decline",
            Decline::InsufficientFunds => "insufficient_funds",
            Decline::ExpiredCard => "expired_card",
            Decline::AuthenticationRequired => "authentication_required",
        }
    }

    /// What the provider makes of it.
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
