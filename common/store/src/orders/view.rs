//! An order as it is read from the database and as the commerce API shows it (docs/orders.md), without
//! personal data. The comments of these fields are also the descriptions in the API's document.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::amount;
use crate::held;
use crate::inventory::Restocked;
use crate::refunds::StoredRefund;
use domain::order::own::Own;
use domain::order::record::{Record, Shipment};
use domain::order::settlement::Cycle;
use domain::order::{FinancialStatus, Line, OrderKey};
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
    /// What is still to be given back of a cancelled order, by the shop or the provider. Null when nobody knows
    /// how much.
    #[schema(example = "0.00")]
    pub owed: Option<String>,
    /// Why somebody must look at it: `disputed`, `paid_in_part`, `paid_too_much`, `paid_later`, `deleted`, or what
    /// contradicts itself in its body: `paid_and_outstanding`, `total_below_zero`, `currencies_differ`. Null:
    /// nobody must.
    #[schema(example = "paid_too_much")]
    pub held: Option<String>,
    /// Why it is shipped before it is paid: `fulfillment`, `net`, `fixed` or `cash_on_delivery`.
    #[schema(example = "net")]
    pub payment_terms: Option<String>,
    /// When it is to be paid by these terms.
    pub payment_due_at: Option<Timestamp>,
    /// Whether it was only tried, so that nothing of it is requested.
    pub test: bool,
    /// The fields of the newest body that have a value which cannot be read.
    pub unread: Vec<String>,
    pub line_items: Vec<StoredLine>,
    /// The link to the order's public page, and where pictures of its QR code are.
    pub tracking: Option<Tracking>,
    pub shipments: Vec<StoredShipment>,
    /// What was given back of its payments, or is to be: of a cancelled order, and of one that was
    /// paid twice.
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

/// What Waybill has asked for an order, and since when.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Fulfillment {
    /// `initiated`, `requested`, `fulfilled` or `cancelled`.
    #[schema(example = "fulfilled")]
    pub state: String,
    /// What became of the request at the storefront: `pending`, `created`, `not_needed` or
    /// `failed`; null: it was not asked.
    #[schema(example = "created")]
    pub provider_state: Option<String>,
    /// Of what a checkout session sold: nothing is requested until then, because the
    /// storefront's own order may still come; null: it waits for nothing.
    pub waits_until: Option<Timestamp>,
    /// The further fulfilments of an agreement that is paid in cycles.
    pub cycles: Vec<StoredCycle>,
    pub initiated_at: Timestamp,
    pub requested_at: Option<Timestamp>,
    pub fulfilled_at: Option<Timestamp>,
    pub cancelled_at: Option<Timestamp>,
    pub updated_at: Timestamp,
}

/// A further fulfilment of an order's agreement.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StoredCycle {
    /// As the payment's metadata names it.
    #[schema(example = "2")]
    pub cycle: String,
    /// `requested` or `cancelled`.
    #[schema(example = "requested")]
    pub state: String,
    pub requested_at: Timestamp,
    pub cancelled_at: Option<Timestamp>,
}

/// A line as the API shows it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = OrderLine)]
pub struct StoredLine {
    #[schema(example = 466_157_049)]
    pub id: i64,
    /// The same as text, for readers whose numbers end at 2^53.
    #[schema(example = "466157049")]
    pub id_text: String,
    #[schema(example = 39_072_856)]
    pub variant_id: Option<i64>,
    /// The same as text.
    #[schema(example = "39072856")]
    pub variant_id_text: Option<String>,
    #[schema(example = "Linen apron")]
    pub title: Option<String>,
    /// Null: it is no whole number.
    #[schema(example = 2)]
    pub quantity: Option<i64>,
    /// How many of them were not removed or refunded.
    #[schema(example = 2)]
    pub current_quantity: Option<i64>,
    /// How many of them are to be shipped now.
    #[schema(example = 2)]
    pub to_ship: i64,
    /// Of one, as the storefront wrote it.
    #[schema(example = "39.00")]
    pub price: Option<String>,
    #[schema(example = "APRON-LINEN")]
    pub sku: Option<String>,
    /// `fulfilled`, or null.
    #[schema(example = "fulfilled")]
    pub fulfillment_status: Option<String>,
    /// Who ships it, as the storefront names it.
    #[schema(example = "manual")]
    pub fulfillment_service: Option<String>,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Shipment)]
pub struct StoredShipment {
    #[schema(example = 1_069_019_909)]
    pub id: i64,
    /// The same as text, for readers whose numbers end at 2^53.
    #[schema(example = "1069019909")]
    pub id_text: String,
    /// The storefront's word: `success`, `pending`, `cancelled`, ..
    #[schema(example = "success")]
    pub status: Option<String>,
    /// What the carrier says, in the storefront's word: `in_transit`, `delivered`, ..
    #[schema(example = "in_transit")]
    pub delivery_status: Option<String>,
    #[schema(example = "Sample Post")]
    pub carrier: Option<String>,
    pub parcels: Vec<StoredParcel>,
    pub updated_at: Timestamp,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Parcel)]
pub struct StoredParcel {
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

impl Order {
    /// The order, without what refunds and stock have of it.
    pub(super) fn of((shop, id): OrderKey, record: Record, updated_at: Timestamp) -> Self {
        let text = |status: &FinancialStatus| status.as_str().to_owned();
        let totals = &record.totals.value;
        let money = |minor| amount(minor, totals.currency);
        let cancellation = record.cancellation();
        let fulfillment = record.fulfillment.value.as_ref();
        let returned = record.refunds.value.iter().map(|it| StorefrontRefund {
            id: it.id,
            id_text: it.id.to_string(),
            amount: money(it.amount),
        });
        let shipments = record.shipments.iter();
        let shipments = shipments
            .map(|(id_of, part)| StoredShipment::of((&shop, id), *id_of, &part.value, &record.own));
        let terms = record.means.value.terms;
        let (current, to_ship) = (record.current(), record.to_ship());
        let lines = record.lines.value.iter();
        let lines = lines.map(|line| StoredLine::of(line, &current, &to_ship));
        let tracking = record.own.page_url.clone().map(|url| {
            let [qr_png, qr_svg] = paths(&shop, id, None);
            Tracking {
                url,
                qr_png,
                qr_svg,
            }
        });
        Order {
            order_id: id.to_string(),
            id,
            name: record.name.value.clone(),
            financial_status: record.financial_status().as_ref().map(text),
            payment_status: record.settled.status.as_ref().map(text),
            fulfillment_status: fulfillment.map(|it| it.as_str().to_owned()),
            fulfillment: Some(Fulfillment::of(&record)),
            currency: totals.currency.map(|it| it.to_string()),
            total_price: money(totals.total),
            subtotal_price: money(totals.subtotal),
            total_tax: money(totals.tax),
            total_outstanding: money(record.outstanding.value),
            owed: money(record.owed()),
            held: held::of(&record).map(|(reason, _)| reason.into_str().to_owned()),
            payment_terms: terms.map(|it| it.kind.into_str().to_owned()),
            test: record.is_test,
            payment_due_at: terms.and_then(|it| it.due_at).map(Timestamp),
            line_items: lines.collect(),
            tracking,
            shipments: shipments.collect(),
            refunds: Vec::new(),
            storefront_refunds: returned.collect(),
            restocked: Vec::new(),
            created_at: record.ordered_at.map(Timestamp),
            cancelled_at: cancellation.as_ref().map(|it| Timestamp(it.at)),
            cancel_reason: cancellation.and_then(|it| it.reason),
            superseded_by: Successor::of(&record.own),
            unread: record.unread,
            shop,
            updated_at,
        }
    }

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

impl Successor {
    pub(super) fn of(own: &Own) -> Option<Self> {
        let (shop, id) = own.successor.clone()?;
        let order_id = id.to_string();
        Some(Successor { shop, order_id })
    }
}

impl Fulfillment {
    fn of(record: &Record) -> Self {
        let own = &record.own;
        let asked = own.fulfillment.asked.as_ref();
        let mut cycles: Vec<(&Cycle, _)> = own.cycles.iter().collect();
        cycles.sort_by_key(|(_, it)| it.requested_at);
        let cycles = cycles.into_iter().map(|(cycle, it)| StoredCycle {
            cycle: cycle.to_string(),
            state: if it.is_requested {
                "requested"
            } else {
                "cancelled"
            }
            .to_owned(),
            requested_at: Timestamp(it.requested_at),
            cancelled_at: it.cancelled_at.map(Timestamp),
        });
        Fulfillment {
            state: record.fulfillment_state().to_string(),
            provider_state: asked.map(|it| it.state.into_str().to_owned()),
            waits_until: record.waits_until.map(Timestamp),
            cycles: cycles.collect(),
            initiated_at: Timestamp(own.known_at),
            requested_at: own.fulfillment.requested_at.map(Timestamp),
            fulfilled_at: own.fulfillment.fulfilled_at.map(Timestamp),
            cancelled_at: own.fulfillment.cancelled_at.map(Timestamp),
            updated_at: Timestamp(own.fulfillment.updated_at),
        }
    }
}

impl StoredLine {
    fn of(line: &Line, current: &BTreeMap<i64, i64>, to_ship: &BTreeMap<i64, i64>) -> Self {
        let line = line.clone();
        StoredLine {
            current_quantity: line.quantity.and(current.get(&line.id).copied()),
            to_ship: to_ship.get(&line.id).copied().unwrap_or(0),
            id: line.id,
            id_text: line.id.to_string(),
            variant_id: line.variant_id,
            variant_id_text: line.variant_id.map(|id| id.to_string()),
            title: line.title,
            quantity: line.quantity,
            price: line.price,
            sku: line.sku,
            fulfillment_status: line.fulfillment_status,
            fulfillment_service: line.fulfillment_service,
        }
    }
}

impl StoredShipment {
    fn of((shop, order_id): (&str, i64), id: i64, shipment: &Shipment, own: &Own) -> Self {
        let parcels = shipment.tracking.iter().map(|tracking| {
            let page_url = own.parcel_urls.get(&tracking.number);
            let paths = paths(shop, order_id, Some(&tracking.number));
            let [qr_png, qr_svg] = paths.map(|path| page_url.map(|_| path));
            StoredParcel {
                tracking_number: tracking.number.clone(),
                tracking_url: tracking.url.clone(),
                page_url: page_url.cloned(),
                qr_png,
                qr_svg,
            }
        });
        StoredShipment {
            id,
            id_text: id.to_string(),
            status: shipment.status.clone(),
            delivery_status: shipment.delivery.clone(),
            carrier: shipment.carrier.clone(),
            parcels: parcels.collect(),
            updated_at: Timestamp(own.shipments_at.get(&id).copied().unwrap_or_default()),
        }
    }
}

/// The paths in the commerce API of an order's QR code, or of the one of its parcel with this number, as PNG and
/// as SVG.
fn paths(shop: &str, order_id: i64, parcel: Option<&str>) -> [String; 2] {
    let shop = percent(shop);
    let parcel = parcel.map_or(String::new(), |it| format!("parcels/{}/", percent(it)));
    ["png", "svg"]
        .map(|form| format!("/api/commerce/orders/{order_id}/{parcel}qr.{form}?shop={shop}"))
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
