//! What happens to an order.

use serde::Serialize;
use utoipa::ToSchema;

use crate::time::Timestamp;

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "type", content = "data")]
pub enum OrderEvent {
    /// an order is stored for the first time
    #[serde(rename = "order.created")]
    Created(OrderSummary),
    /// its statuses, amounts or lines have changed
    #[serde(rename = "order.updated")]
    Updated(OrderSummary),
    /// it is paid, at the storefront or by payments of its agreement; again only if it was not paid in between
    #[serde(rename = "order.paid")]
    Paid(OrderSummary),
    /// paid, or shipped before it is paid: these units are to be shipped; each unit is requested once
    #[serde(rename = "order.fulfillment_requested")]
    FulfillmentRequested {
        /// which fulfilment of the agreement; `1` is the order itself
        cycle: String,
        /// what is to be shipped; empty for an order that a checkout session made
        lines: Vec<RequestedLine>,
    },
    /// the request to the storefront's API was refused for good or given up; its job is dead
    #[serde(rename = "order.fulfillment_failed")]
    FulfillmentFailed {
        /// why, without personal data
        error: String,
    },
    /// the storefront reports it as shipped
    #[serde(rename = "order.fulfilled")]
    Fulfilled,
    /// its tracking numbers have changed
    #[serde(rename = "order.tracking_updated")]
    TrackingUpdated {
        /// all parcels of the order, as they are now
        parcels: Vec<TrackedParcel>,
    },
    /// its shipping was called off: cancelled, refunded, not paid any more, or nothing is left to be shipped
    #[serde(rename = "order.fulfillment_cancelled")]
    FulfillmentCancelled {
        /// which fulfilment of the agreement; `1` is the order itself
        cycle: String,
        /// what had been requested and was not shipped; empty: all of it
        lines: Vec<RequestedLine>,
    },
    /// these units had been requested and are not to be shipped any more; the rest is
    #[serde(rename = "order.fulfillment_reduced")]
    FulfillmentReduced {
        /// which fulfilment of the agreement; `1` is the order itself
        cycle: String,
        /// what is called off
        lines: Vec<RequestedLine>,
    },
    /// a checkout session had made it, and the storefront's own order has taken its place
    #[serde(rename = "order.superseded")]
    Superseded {
        /// the shop of the storefront's order
        by_shop: String,
        /// the storefront's id of the order
        by_order_id: String,
    },
    /// it is cancelled: by the storefront, or because its payments were canceled
    #[serde(rename = "order.cancelled")]
    Cancelled {
        /// as the storefront names it, `customer`, `inventory`, ..; `payment_canceled`: its payment was
        reason: Option<String>,
        /// when, RFC 3339 in UTC with milliseconds
        #[schema(value_type = String, format = DateTime)]
        cancelled_at: Timestamp,
    },
    /// somebody must look at it, or nobody must any more
    #[serde(rename = "order.held")]
    Held {
        /// why: `disputed`, `paid_in_part`, `paid_too_much`, `paid_later`, `deleted`, `paid_and_outstanding`,
        /// `total_below_zero`, `currencies_differ`; null: nobody must any more
        reason: Option<String>,
        /// what is too much, or the order's total
        amount: Option<String>,
        /// ISO 4217
        currency: Option<String>,
    },
    /// cancelled, and the storefront took money that is no linked payment: it gives it back itself
    #[serde(rename = "order.refund_recorded")]
    RefundRecorded {
        /// how much is to go back: what the storefront took and has not given back, as it says; `0.00` when all of it has
        amount: Option<String>,
        /// ISO 4217
        currency: Option<String>,
    },
    /// cancelled: this payment is to be given back, by Waybill or by you
    #[serde(rename = "order.refund_requested")]
    RefundRequested {
        /// the payment provider's id of the payment
        payment_id: String,
        /// how much is to go back
        amount: Option<String>,
        /// ISO 4217
        currency: Option<String>,
        /// Waybill gives it back itself; false: you do
        automatic: bool,
    },
    /// the payment provider has refunded, or had before
    #[serde(rename = "order.refund_issued")]
    RefundIssued {
        /// the payment provider's id of the payment
        payment_id: String,
        /// the payment provider's id of the refund; null: Waybill did not make it
        refund_id: Option<String>,
        /// how much went back
        amount: Option<String>,
        /// ISO 4217
        currency: Option<String>,
        /// it had been refunded before we asked, or before the order was cancelled; then nothing is asked for, and `order.refund_requested` did not precede
        already_refunded: bool,
    },
    /// the payment provider has refused for good, or was given up; its job is dead
    #[serde(rename = "order.refund_failed")]
    RefundFailed {
        /// the payment provider's id of the payment
        payment_id: String,
        /// how much was to go back
        amount: Option<String>,
        /// ISO 4217
        currency: Option<String>,
        /// why, without personal data
        error: String,
    },
    /// items have gone back into stock
    #[serde(rename = "order.inventory_restocked")]
    InventoryRestocked {
        /// what has gone back
        movements: Vec<RestockedLine>,
    },
}

/// An order without its lines.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OrderSummary {
    /// ISO 4217, `EUR`
    pub currency: Option<String>,
    /// the order's total
    pub total_price: Option<String>,
    /// the further on of what the storefront and [the payments](payments.md#orders-and-payments) say: `pending`, `paid`, ..
    pub financial_status: Option<String>,
    /// as the storefront names it: `partial`, `fulfilled`, ..
    pub fulfillment_status: Option<String>,
}

/// Units of a line that are to be shipped, or are not any more.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RequestedLine {
    /// the id of the order's line
    pub line_id: String,
    /// the id of the product's variant
    pub variant_id: Option<String>,
    /// the stock keeping unit
    pub sku: Option<String>,
    /// who ships it, as the storefront names it, `manual`, ..
    pub fulfillment_service: Option<String>,
    /// how many; null: the whole line, whose quantity is no whole number
    pub quantity: Option<i64>,
}

/// A parcel without the carrier's link: some links hold the recipient's postcode.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TrackedParcel {
    /// the carrier's number
    pub tracking_number: String,
    /// the carrier's name
    pub carrier: Option<String>,
    /// the storefront's id of the shipment
    pub shipment_id: String,
}

/// Units of a line that have gone back into stock.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RestockedLine {
    /// the id of the order's line
    pub line_id: String,
    /// the id of the product's variant
    pub variant_id: Option<String>,
    /// the stock keeping unit
    pub sku: Option<String>,
    /// how many; below zero when a later version of the order corrects an earlier one
    pub quantity: i64,
}
