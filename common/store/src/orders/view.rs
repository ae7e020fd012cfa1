//! An order as the commerce API shows it (docs/orders.md), as JSON without personal data. The
//! comments of these fields are also the descriptions in the API's document.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Fulfillment, StoredOrder};
use crate::order_lines::StoredLine;
use crate::refunds::Refund;
use crate::shipments::{StoredParcel, StoredShipment};
use domain::money::Money;
use domain::order::FinancialStatus;
use domain::order::record::Returned;
use domain::time::Timestamp;

/// An order as it stands. Amounts are decimal strings in the currency's own digits.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Order)]
pub struct View {
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
    pub shipments: Vec<Shipment>,
    /// Of a cancelled order: what was given back of its payments, or is to be.
    pub refunds: Vec<RefundView>,
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
#[derive(Debug, Serialize, ToSchema)]
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

#[derive(Debug, Serialize, ToSchema)]
pub struct Shipment {
    #[schema(example = 1_069_019_909)]
    pub id: i64,
    /// The same as text, for readers whose numbers end at 2^53.
    #[schema(example = "1069019909")]
    pub id_text: String,
    /// The storefront's word: `success`, `pending`, `cancelled`, ..
    #[schema(example = "success")]
    pub status: Option<String>,
    #[schema(example = "Sample Post")]
    pub carrier: Option<String>,
    pub parcels: Vec<Parcel>,
    pub updated_at: Timestamp,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Parcel {
    #[schema(example = "SP0042")]
    pub tracking_number: String,
    /// The carrier's own page. It may hold the recipient's postcode.
    #[schema(example = "https://post.example/t/SP0042")]
    pub tracking_url: Option<String>,
    /// What the parcel's QR code leads to; null: its number fits none.
    #[schema(example = "https://waybill.example/tracking/SP0042")]
    pub page_url: Option<String>,
    #[schema(
        example = "https://waybill.example/api/commerce/orders/820982911946154508/parcels/SP0042/qr.png?shop=shop.example"
    )]
    pub qr_png: Option<String>,
    #[schema(
        example = "https://waybill.example/api/commerce/orders/820982911946154508/parcels/SP0042/qr.svg?shop=shop.example"
    )]
    pub qr_svg: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Refund)]
pub struct RefundView {
    /// `recorded`, `requested`, `issued`, `already_refunded` or `failed`.
    #[schema(example = "issued")]
    pub state: String,
    /// Null: no payment is linked to the order.
    #[schema(example = "pi_3MmlLrLkdIwHu7ix0snN0B15")]
    pub payment_id: Option<String>,
    /// The payment provider's id of the refund.
    #[schema(example = "re_3MmlLrLkdIwHu7ix0XpFxfgc")]
    pub refund_id: Option<String>,
    #[schema(example = "199.00")]
    pub amount: Option<String>,
    #[schema(example = "EUR")]
    pub currency: Option<String>,
    pub updated_at: Timestamp,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct StorefrontRefund {
    pub id: i64,
    /// The same as text, for readers whose numbers end at 2^53.
    #[schema(example = "509562969")]
    pub id_text: String,
    #[schema(example = "10.00")]
    pub amount: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Restocked {
    #[schema(example = 518_995_019)]
    pub line_id: i64,
    /// The same as text, for readers whose numbers end at 2^53.
    #[schema(example = "518995019")]
    pub line_id_text: String,
    #[schema(example = 1)]
    pub quantity: i64,
}

/// The addresses of an order's QR codes in the API.
struct Links {
    base: String,
    shop: String,
}

impl Links {
    fn to(&self, path: &str) -> String {
        format!("{}/{path}?shop={}", self.base, self.shop)
    }
}

impl StoredOrder {
    pub fn view(&self, public_url: &str) -> View {
        let links = Links {
            base: format!("{public_url}/api/commerce/orders/{}", self.id),
            shop: percent(&self.shop),
        };
        let status = |status: &Option<FinancialStatus>| {
            let status = status.as_ref().map(FinancialStatus::as_str);
            status.map(str::to_owned)
        };
        View {
            order_id: self.id.to_string(),
            id: self.id,
            shop: self.shop.clone(),
            name: self.name.clone(),
            financial_status: status(&self.financial_status),
            payment_status: status(&self.payment_status),
            fulfillment_status: self.fulfillment_status.clone(),
            fulfillment: self.fulfillment.clone(),
            currency: self.currency.map(|currency| currency.to_string()),
            total_price: amount(self.total),
            subtotal_price: amount(self.subtotal),
            total_tax: amount(self.tax),
            total_outstanding: amount(self.outstanding),
            line_items: self.lines.clone(),
            tracking: self.tracking_url.as_ref().map(|url| Tracking {
                url: url.clone(),
                qr_png: links.to("qr.png"),
                qr_svg: links.to("qr.svg"),
            }),
            shipments: self
                .shipments
                .iter()
                .map(|it| shipment(it, &links))
                .collect(),
            refunds: self.refunds.iter().map(refund).collect(),
            storefront_refunds: self
                .storefront_refunds
                .iter()
                .map(|it| self.storefront_refund(it))
                .collect(),
            restocked: self
                .restocked
                .iter()
                .map(|&(line_id, quantity)| Restocked {
                    line_id,
                    line_id_text: line_id.to_string(),
                    quantity,
                })
                .collect(),
            created_at: self.ordered_at,
            cancelled_at: self.cancelled_at,
            cancel_reason: self.cancel_reason.clone(),
            superseded_by: self.superseded_by.as_ref().map(|(shop, id)| Successor {
                shop: shop.clone(),
                order_id: id.to_string(),
            }),
            updated_at: self.updated_at,
        }
    }

    fn storefront_refund(&self, refund: &Returned) -> StorefrontRefund {
        let money = refund.amount.zip(self.currency);
        StorefrontRefund {
            id: refund.id,
            id_text: refund.id.to_string(),
            amount: amount(money.map(|(minor, currency)| Money { minor, currency })),
        }
    }
}

fn amount(money: Option<Money>) -> Option<String> {
    money.map(|money| money.to_string())
}

fn shipment(shipment: &StoredShipment, links: &Links) -> Shipment {
    Shipment {
        id: shipment.id,
        id_text: shipment.id.to_string(),
        status: shipment.status.clone(),
        carrier: shipment.carrier.clone(),
        parcels: shipment
            .parcels
            .iter()
            .map(|it| parcel(it, links))
            .collect(),
        updated_at: shipment.updated_at,
    }
}

fn parcel(parcel: &StoredParcel, links: &Links) -> Parcel {
    let path = format!("parcels/{}", percent(&parcel.tracking_number));
    let qr = |end: &str| {
        let page = parcel.page_url.as_ref();
        page.map(|_| links.to(&format!("{path}/{end}")))
    };
    Parcel {
        tracking_number: parcel.tracking_number.clone(),
        tracking_url: parcel.tracking_url.clone(),
        page_url: parcel.page_url.clone(),
        qr_png: qr("qr.png"),
        qr_svg: qr("qr.svg"),
    }
}

fn refund(refund: &Refund) -> RefundView {
    RefundView {
        state: refund.state.clone(),
        payment_id: Some(&refund.payment_id)
            .filter(|id| !id.is_empty())
            .cloned(),
        refund_id: refund.provider_id.clone(),
        amount: amount(refund.amount()),
        currency: refund.currency.clone(),
        updated_at: refund.updated_at,
    }
}

fn percent(text: &str) -> String {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    const KEPT: &percent_encoding::AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(text, KEPT).to_string()
}
