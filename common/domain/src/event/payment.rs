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
    /// its agreement is another than was reported before
    #[serde(rename = "payment.agreement_changed")]
    AgreementChanged {
        /// its agreement now
        pact_id: String,
        /// its agreement before
        was: String,
    },
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
}
