//! The payment provider's statuses. A status that this version does not know is kept as it is.

use serde::Deserialize;

use crate::record::as_text;

/// How far a payment intent has come.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "String")]
pub enum Status {
    RequiresPaymentMethod,
    RequiresConfirmation,
    RequiresAction,
    /// The amount is authorised but not captured.
    RequiresCapture,
    Processing,
    Succeeded,
    Canceled,
    Other(String),
}

/// Whether the purchase of a checkout session is paid for. Of two statuses the one listed later
/// here stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "String")]
pub enum PaymentStatus {
    Other(String),
    /// The money is still to come, because the buyer chose a delayed payment method.
    Unpaid,
    /// There is nothing to pay, or nothing yet.
    NoPaymentRequired,
    Paid,
}

/// What a checkout session is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "String")]
pub enum Mode {
    Payment,
    Subscription,
    /// The session only stores a payment method for later.
    Setup,
    Other(String),
}

impl Status {
    pub fn as_str(&self) -> &str {
        match self {
            Self::RequiresPaymentMethod => "requires_payment_method",
            Self::RequiresConfirmation => "requires_confirmation",
            Self::RequiresAction => "requires_action",
            Self::RequiresCapture => "requires_capture",
            Self::Processing => "processing",
            Self::Succeeded => "succeeded",
            Self::Canceled => "canceled",
            Self::Other(other) => other,
        }
    }
}

impl From<String> for Status {
    fn from(text: String) -> Self {
        match text.as_str() {
            "requires_payment_method" => Self::RequiresPaymentMethod,
            "requires_confirmation" => Self::RequiresConfirmation,
            "requires_action" => Self::RequiresAction,
            "requires_capture" => Self::RequiresCapture,
            "processing" => Self::Processing,
            "succeeded" => Self::Succeeded,
            "canceled" => Self::Canceled,
            _ => Self::Other(text),
        }
    }
}

impl PaymentStatus {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Other(other) => other,
            Self::Unpaid => "unpaid",
            Self::NoPaymentRequired => "no_payment_required",
            Self::Paid => "paid",
        }
    }
}

impl From<String> for PaymentStatus {
    fn from(text: String) -> Self {
        match text.as_str() {
            "unpaid" => Self::Unpaid,
            "no_payment_required" => Self::NoPaymentRequired,
            "paid" => Self::Paid,
            _ => Self::Other(text),
        }
    }
}

impl Mode {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Payment => "payment",
            Self::Subscription => "subscription",
            Self::Setup => "setup",
            Self::Other(other) => other,
        }
    }
}

impl From<String> for Mode {
    fn from(text: String) -> Self {
        match text.as_str() {
            "payment" => Self::Payment,
            "subscription" => Self::Subscription,
            "setup" => Self::Setup,
            _ => Self::Other(text),
        }
    }
}

as_text!(Status, PaymentStatus, Mode);
