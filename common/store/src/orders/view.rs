//! An order as it is read from the database and as the commerce API shows it (docs/orders.md), without
//! personal data. The comments of these fields are also the descriptions in the API's document.

use serde::Serialize;
use utoipa::ToSchema;

use super::Fulfillment;
use crate::inventory::Restocked;
use crate::order_lines::StoredLine;
use crate::refunds::StoredRefund;
use crate::shipments::StoredShipment;
use domain::time::Timestamp;

/// An order as it stands. Amounts are decimal strings in the currency's own digits.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Order {
    /// The storefront's id as text, for readers whose numbers end at 2^53.
    #[schema(example = "820982911946154508")]
    pub order_id: String,
    pub id: i64,
    /// The shop's domain; empty when no delivery named one, `checkout` when a checkout session
    /// made the order.
    #[schema(example = "shop.example")]
    pub shop: String,
    /// What the shop calls the order.
    #[schema(example = "#1042")]
    pub name: Option<String>,
    /// As the storefront or the payments say, whichever is further on: `pending`,
    /// `authorized`, `partially_paid`, `paid`, `partially_refunded`, `refunded`, `voided`,
    /// `expired`, or another word of the storefront's.
    #[schema(example = "paid")]
    pub financial_status: Option<String>,
    /// What the payments of its agreement come to; null: none is known.
    #[schema(example = "paid")]
    pub payment_status: Option<String>,
    /// The storefront's word: `fulfilled`, `partial`, ..; null: not shipped.
    #[schema(example = "fulfilled")]
    pub fulfillment_status: Option<String>,
    /// What was asked for this order; null: nothing yet.
    pub fulfillment: Option<Fulfillment>,
    /// ISO 4217, in capitals.
    #[schema(example = "EUR")]
    pub currency: Option<String>,
    #[schema(example = "199.00")]
    pub total_price: Option<String>,
    #[schema(example = "182.24")]
    pub subtotal_price: Option<String>,
    #[schema(example = "16.76")]
    pub total_tax: Option<String>,
    /// What is still to be paid, as the storefront says.
    #[schema(example = "0.00")]
    pub total_outstanding: Option<String>,
    pub line_items: Vec<StoredLine>,
    /// Null until the order's QR code is drawn.
    pub tracking: Option<Tracking>,
    pub shipments: Vec<StoredShipment>,
    /// Of a cancelled order: what was given back of its payments, or is to be.
    pub refunds: Vec<StoredRefund>,
    /// What the storefront gave back itself.
    pub storefront_refunds: Vec<StorefrontRefund>,
    /// Of a cancelled order: what went back into stock.
    pub restocked: Vec<Restocked>,
    /// When it was ordered, as the storefront says.
    pub created_at: Option<Timestamp>,
    pub cancelled_at: Option<Timestamp>,
    #[schema(example = "customer")]
    pub cancel_reason: Option<String>,
    /// Of an order that a checkout session made: the storefront's own, which has taken its
    /// place.
    pub superseded_by: Option<Successor>,
    /// When anything of it changed here.
    pub updated_at: Timestamp,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Successor {
    #[schema(example = "shop.example")]
    pub shop: String,
    #[schema(example = "820982911946154508")]
    pub order_id: String,
}

/// Where the order's QR code leads, and where it is.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Tracking {
    #[schema(example = "https://waybill.example/orders/820982911946154508/track")]
    pub url: String,
    #[schema(
        example = "https://waybill.example/api/commerce/orders/820982911946154508/qr.png?shop=shop.example"
    )]
    pub qr_png: String,
    #[schema(
        example = "https://waybill.example/api/commerce/orders/820982911946154508/qr.svg?shop=shop.example"
    )]
    pub qr_svg: String,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StorefrontRefund {
    pub id: i64,
    /// The same as text, for readers whose numbers end at 2^53.
    #[schema(example = "509562969")]
    pub id_text: String,
    #[schema(example = "10.00")]
    pub amount: Option<String>,
}

impl Order {
    /// The order with the addresses of its QR codes at the service that has this address.
    #[must_use]
    pub fn at(mut self, public_url: &str) -> Self {
        let parcels = self.shipments.iter_mut().flat_map(|it| &mut it.parcels);
        let parcels = parcels.flat_map(|it| [&mut it.qr_png, &mut it.qr_svg]);
        let tracking = self.tracking.iter_mut();
        let tracking = tracking.flat_map(|it| [&mut it.qr_png, &mut it.qr_svg]);
        for path in parcels.flatten().chain(tracking) {
            path.insert_str(0, public_url);
        }
        self
    }
}
