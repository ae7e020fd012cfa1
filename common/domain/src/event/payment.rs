//! What happens to payments, checkout sessions and subscriptions. Their ids are the payment
//! provider's, and they are of no shop.

use serde::Serialize;
use utoipa::ToSchema;

use crate::time::Timestamp;

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "type", content = "data")]
pub enum PaymentEvent {
    /// it was captured, once per payment
    #[serde(rename = "payment.succeeded")]
    Succeeded {
        /// its agreement, `metadata.pact_id`; null: not known yet
        pact_id: Option<String>,
        /// which fulfilment of the agreement it pays, `metadata.fulfillment_cycle`
        fulfillment_cycle: Option<String>,
        /// what was captured
        amount: String,
        /// ISO 4217
        currency: String,
    },
    /// it was captured and its agreement is known, once per payment
    #[serde(rename = "payment.funds_released")]
    FundsReleased {
        /// the agreement to which it was released
        pact_id: String,
        /// which fulfilment of the agreement it pays
        fulfillment_cycle: Option<String>,
        /// what is left of what was captured
        amount: String,
        /// ISO 4217
        currency: String,
    },
    /// another attempt failed, and none succeeded yet
    #[serde(rename = "payment.failed")]
    Failed {
        /// its agreement
        pact_id: Option<String>,
        /// what was to be paid
        // Every event of an attempt has it.
        #[schema(value_type = String)]
        amount: Option<String>,
        /// ISO 4217
        currency: String,
        /// the provider's code, `card_declined`
        code: Option<String>,
        /// the bank's, `insufficient_funds`
        decline_code: Option<String>,
    },
    /// it was canceled unpaid, once per payment
    #[serde(rename = "payment.canceled")]
    Canceled {
        /// its agreement
        pact_id: Option<String>,
        /// when, RFC 3339 in UTC with milliseconds
        #[schema(value_type = String, format = DateTime)]
        canceled_at: Timestamp,
    },
    /// money went back, all or a part, by whomever
    #[serde(rename = "payment.refunded")]
    Refunded {
        /// its agreement
        pact_id: Option<String>,
        /// the payment provider's id of the customer who has it back
        customer_id: Option<String>,
        /// how much more went back
        amount: String,
        /// how much went back in all
        refunded: String,
        /// nothing is left of the payment
        in_full: bool,
        /// ISO 4217
        currency: String,
    },
    /// a refund that was reported has failed, so the money is the merchant's again and is still owed
    #[serde(rename = "payment.refund_failed")]
    RefundFailed {
        /// its agreement
        pact_id: Option<String>,
        /// how much did not go back
        amount: String,
        /// how much went back in all
        refunded: String,
        /// ISO 4217
        currency: String,
    },
    /// the customer's bank has taken money back and has not decided whose it is
    #[serde(rename = "payment.disputed")]
    Disputed(DisputedAmount),
    /// the customer's bank has decided that the money is the customer's
    #[serde(rename = "payment.dispute_lost")]
    DisputeLost(DisputedAmount),
    /// the customer's bank has decided that the money is the merchant's
    #[serde(rename = "payment.dispute_won")]
    DisputeWon(DisputedAmount),
    /// its agreement is another than was reported before
    #[serde(rename = "payment.agreement_changed")]
    AgreementChanged {
        /// its agreement now
        pact_id: String,
        /// its agreement before
        was: String,
    },
}

/// Money of a payment that its customer wants back from the bank.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DisputedAmount {
    /// its agreement
    pub pact_id: Option<String>,
    /// how much
    pub amount: String,
    /// ISO 4217
    pub currency: String,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "type", content = "data")]
pub enum CheckoutEvent {
    /// a checkout session was completed, paid for or not, once per session
    #[serde(rename = "checkout.completed")]
    Completed {
        /// `payment`, `subscription` or `setup`
        mode: Option<String>,
        /// `paid`, `unpaid` or `no_payment_required`
        payment_status: Option<String>,
        /// its total; null: it sells nothing
        amount: Option<String>,
        /// ISO 4217
        currency: Option<String>,
        /// the payment that it led to
        payment_id: Option<String>,
        /// the subscription that it began
        subscription_id: Option<String>,
        /// its agreement
        pact_id: Option<String>,
    },
    /// nothing is left to pay in it, once per session
    #[serde(rename = "checkout.settled")]
    Settled {
        /// as above
        mode: Option<String>,
        /// `paid` or `no_payment_required`
        // Without one of these it is not settled.
        #[schema(value_type = String)]
        payment_status: Option<String>,
        /// its total
        amount: Option<String>,
        /// ISO 4217
        currency: Option<String>,
        /// the payment that it led to
        payment_id: Option<String>,
        /// the subscription that it began
        subscription_id: Option<String>,
        /// its agreement
        pact_id: Option<String>,
    },
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "type", content = "data")]
pub enum SubscriptionEvent {
    /// it is paid until a later time
    #[serde(rename = "subscription.extended")]
    Extended {
        /// the payment provider's id of the customer
        customer_id: Option<String>,
        /// its agreement
        pact_id: Option<String>,
        /// it is paid until then, RFC 3339 in UTC with milliseconds
        #[schema(value_type = String, format = DateTime)]
        period_end: Timestamp,
        /// until then its licences stay active, should nothing more be paid (`LICENSE_GRACE_DAYS`)
        #[schema(value_type = String, format = DateTime)]
        grace_until: Timestamp,
    },
    /// it is paid until an earlier time than was said: it has ended, or the price of unused time was given back
    #[serde(rename = "subscription.shortened")]
    Shortened {
        /// the payment provider's id of the customer
        customer_id: Option<String>,
        /// its agreement
        pact_id: Option<String>,
        /// it is paid until then, RFC 3339 in UTC with milliseconds
        #[schema(value_type = String, format = DateTime)]
        period_end: Timestamp,
    },
}
