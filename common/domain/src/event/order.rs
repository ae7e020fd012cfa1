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
    /// it is paid, at the storefront or by payments of its agreement, once per order
    #[serde(rename = "order.paid")]
    Paid(OrderSummary),
    /// paid: these units are to be shipped; each unit is requested once
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
    /// its shipping was called off
    #[serde(rename = "order.fulfillment_cancelled")]
    FulfillmentCancelled {
        /// which fulfilment of the agreement; `1` is the order itself
        cycle: String,
    },
    /// a checkout session had made it, and the storefront's own order has taken its place
    #[serde(rename = "order.superseded")]
    Superseded {
        /// the shop of the storefront's order
        by_shop: String,
        /// the storefront's id of the order
        by_order_id: String,
    },
    /// it is cancelled: by the storefront, for good; or because its payments were canceled
    #[serde(rename = "order.cancelled")]
    Cancelled {
        /// as the storefront names it, `customer`, `inventory`, ..; `payment_canceled`: its payment was
        reason: Option<String>,
        /// when, RFC 3339 in UTC with milliseconds
        #[schema(value_type = String, format = DateTime)]
        cancelled_at: Timestamp,
    },
    /// cancelled and paid, but no payment is linked: the storefront gives the money back itself
    #[serde(rename = "order.refund_recorded")]
    RefundRecorded {
        /// how much is to go back: what was paid less what the storefront has refunded, as it says; `0.00` when all of it has
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

/// Units of a line that are to be shipped.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RequestedLine {
    /// the id of the order's line
    pub line_id: String,
    /// the id of the product's variant
    pub variant_id: Option<String>,
    /// the stock keeping unit
    pub sku: Option<String>,
    /// how many
    pub quantity: i64,
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
