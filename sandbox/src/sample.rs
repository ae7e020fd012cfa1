//! Webhook bodies as the two providers write them, for `waybill trigger` and
//! the tests. Everything follows from the seed: one seed is one order of one
//! customer, with one payment, the same in every topic and event. Nobody in
//! them exists: mail goes to example domains and phones are 555 numbers.

use domain::job::{self, Source};
use domain::money::{Currency, Money};
use domain::order::Topic;
use domain::payment::EventType;
use domain::privacy;
use domain::sample;
use serde_json::{Value, json};
use strum::VariantArray;
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

const API_VERSION: &str = "2026-10-28.endive";
const SHOP_ID: u64 = 74_392_404_278;
const LOCATION_ID: u64 = 80_901_996_854;
const DAY: i64 = 24 * 60 * 60;

/// The shop domain of the sample bodies.
pub fn shop() -> &'static str {
    "waybill-sandbox.example"
}

/// How many of the storefront's topics are about orders. They are the first ones.
pub const ORDER_TOPICS: usize = Topic::VARIANTS.len();

/// The topics of an order that is not deleted.
pub const LIFE: [Topic; 5] = [
    Topic::Create,
    Topic::Updated,
    Topic::Paid,
    Topic::Fulfilled,
    Topic::Cancelled,
];

pub fn storefront_topics() -> Vec<&'static str> {
    names(|kind| matches!(kind, job::Kind::Order(_) | job::Kind::Privacy(_)))
}

pub fn payment_types() -> Vec<&'static str> {
    names(|kind| matches!(kind, job::Kind::Payment(_)))
}

fn names(is_one: impl Fn(&job::Kind) -> bool) -> Vec<&'static str> {
    let kinds = job::Kind::all().iter().copied().filter(is_one);
    kinds.map(job::Kind::into_str).collect()
}

/// The body of a storefront delivery. `None` for a topic that is none of [`storefront_topics`].
///
/// For the same seed and time, an order's `updated_at` grows in the sequence create, updated,
/// paid, fulfilled, cancelled. None of these times is in the future.
pub fn storefront(topic: &str, seed: u64, now_unix_ms: i64) -> Option<String> {
    let sale = Sale::of(seed);
    let now = now_unix_ms.div_euclid(1000);
    let body = match job::Kind::of(Source::Storefront, topic)? {
        job::Kind::Order(topic) => match topic {
            Topic::Create => sale.order(now - 4, now - 4, &Stage::PENDING),
            Topic::Updated => sale.order(now - 4, now - 3, &Stage::AUTHORIZED),
            Topic::Paid => sale.order(now - 4, now - 2, &Stage::PAID),
            Topic::Fulfilled => sale.order(now - 4, now - 1, &Stage::FULFILLED),
            Topic::Cancelled => sale.order(now - 4, now, &Stage::CANCELLED),
            Topic::Deleted => json!({"id": sale.id(Kind::Order, 0)}),
        },
        job::Kind::Privacy(topic) => match topic {
            privacy::Topic::DataRequest => sale.data_request(),
            privacy::Topic::Redact => sale.customer_redaction(),
            privacy::Topic::ShopRedact => json!({"shop_id": SHOP_ID, "shop_domain": shop()}),
        },
        job::Kind::Payment(_) | job::Kind::ThinPayment(_) | job::Kind::Internal(_) => return None,
    };
    Some(body.to_string())
}

/// Makes the body of an order that of a test order, whose name is none of a real order. Whoever sends samples to a service
/// marks them so, and `waybill demo remove` finds them by it.
pub fn marked(body: String) -> String {
    match serde_json::from_str::<Value>(&body) {
        Ok(mut order) if order.get("total_price").is_some() => {
            order["test"] = true.into();
            if let Some(number) = order["name"].as_str().and_then(|it| it.strip_prefix('#')) {
                order["name"] = format!("{}{number}", sample::NAME).into();
            }
            order.to_string()
        }
        _ => body,
    }
}

/// The body of a payment event. `None` for a type that is none of [`payment_types`]. It is indented
/// by two spaces, as the provider sends it.
pub fn payment(event_type: &str, seed: u64, now_unix_ms: i64) -> Option<String> {
    let sale = Sale::of(seed);
    let now = now_unix_ms.div_euclid(1000);
    let data = match event_type.parse().ok()? {
        EventType::IntentSucceeded => json!({"object": sale.intent_succeeded(now)}),
        EventType::IntentFailed => json!({"object": sale.intent_failed(now)}),
        EventType::IntentCanceled => json!({"object": sale.intent_canceled(now)}),
        EventType::ChargeRefunded => json!({
            "object": sale.refunded_charge(now),
            "previous_attributes": {"amount_refunded": 0, "refunded": false},
        }),
        EventType::ChargeRefundUpdated | EventType::RefundCreated | EventType::RefundUpdated => {
            json!({"object": sale.of_charge("refund", "re_", now, "succeeded")})
        }
        EventType::RefundFailed => {
            json!({"object": sale.of_charge("refund", "re_", now, "failed")})
        }
        EventType::DisputeCreated | EventType::DisputeUpdated | EventType::DisputeWithdrawn => {
            json!({"object": sale.of_charge("dispute", "dp_", now, "needs_response")})
        }
        EventType::DisputeReinstated | EventType::DisputeClosed => {
            json!({"object": sale.of_charge("dispute", "dp_", now, "won")})
        }
        EventType::SessionCompleted | EventType::SessionPaid | EventType::SessionFailed => {
            json!({"object": sale.checkout_session(now)})
        }
        EventType::InvoicePaid | EventType::InvoiceSettled => {
            json!({"object": sale.invoice(now)})
        }
        EventType::InvoicePaymentPaid => json!({"object": sale.invoice_payment(now)}),
        EventType::SubscriptionUpdated => json!({"object": sale.subscription(now, None)}),
        EventType::SubscriptionDeleted => json!({"object": sale.subscription(now, Some(now))}),
    };
    let event = event(event_type, seed, now, API_VERSION, &data);
    Some(format!("{event:#}"))
}

/// The buyer of a sale, and the ids that the payment provider has for the sale.
pub(crate) struct Purchase {
    pub intent: String,
    pub session: String,
    pub customer: String,
    pub agreement: String,
    pub email: String,
    pub total: Money,
}

pub(crate) fn purchase(seed: u64) -> Purchase {
    let sale = Sale::of(seed);
    let (minor, currency) = (sale.total, sale.currency);
    Purchase {
        intent: sale.token("pi_"),
        session: sale.token("cs_test_"),
        customer: sale.token("cus_"),
        agreement: sale.token("pact_"),
        email: sale.email,
        total: Money { minor, currency },
    }
}

/// The envelope of a payment event. Its id is made of type and seed.
pub(crate) fn event(
    event_type: &str,
    seed: u64,
    now: i64,
    api_version: &str,
    data: &Value,
) -> Value {
    json!({
        "id": token("evt_", event_type, seed),
        "object": "event",
        "api_version": api_version,
        "created": now,
        "data": data,
        "livemode": false,
        "pending_webhooks": 1,
        "request": {"id": token("req_", event_type, seed), "idempotency_key": null},
        "type": event_type,
    })
}

/// The fields that differ between the order topics. The rest of the body is the same.
struct Stage {
    financial_status: &'static str,
    fulfilled: bool,
    cancelled: bool,
}

impl Stage {
    const PENDING: Self = Self::open("pending");
    const AUTHORIZED: Self = Self::open("authorized");
    const PAID: Self = Self::open("paid");
    const FULFILLED: Self = Self {
        fulfilled: true,
        ..Self::PAID
    };
    const CANCELLED: Self = Self {
        cancelled: true,
        ..Self::open("refunded")
    };

    const fn open(financial_status: &'static str) -> Self {
        Self {
            financial_status,
            fulfilled: false,
            cancelled: false,
        }
    }
}

struct Product {
    id: u64,
    title: &'static str,
    sku: &'static str,
    price: i64,
}

const PRODUCTS: [Product; 6] = [
    product(1, "Enamel mug", "MUG-ENAMEL", 1_450),
    product(2, "Linen apron", "APRON-LINEN", 3_900),
    product(3, "Oak cutting board", "BOARD-OAK-L", 6_495),
    product(4, "Cast iron pan", "PAN-IRON-26", 8_999),
    product(5, "Beeswax candle", "CANDLE-BEE", 1_200),
    product(6, "Field notebook, 3 pack", "NOTE-FIELD-3", 1_850),
];

const fn product(id: u64, title: &'static str, sku: &'static str, price: i64) -> Product {
    Product {
        id: 8_222_223_000_000 + id,
        title,
        sku,
        price,
    }
}

/// The difference between a product's id and the id of its variant.
const VARIANTS: u64 = 36_650_000_000_000;

/// A product of the sample shop. It has one variant.
pub(crate) struct Article {
    pub product_id: u64,
    pub title: &'static str,
    pub sku: &'static str,
    /// The price in minor units.
    pub price: i64,
}

/// The product whose variant has this id.
pub(crate) fn article(variant_id: u64) -> Option<Article> {
    let product_id = variant_id.checked_sub(VARIANTS)?;
    let product = PRODUCTS.iter().find(|product| product.id == product_id)?;
    Some(Article {
        product_id,
        title: product.title,
        sku: product.sku,
        price: product.price,
    })
}

/// The id of the only variant of a product.
pub(crate) fn variant_of(product_id: u64) -> u64 {
    product_id + VARIANTS
}

const PLACES: [[&str; 5]; 4] = [
    ["Sampleton", "Oregon", "OR", "United States", "00001"],
    ["Fixture Falls", "Ontario", "ON", "Canada", "X0X 0X0"],
    ["Mockford", "Kent", "KEN", "United Kingdom", "ZZ1 1ZZ"],
    ["Villa Ejemplo", "Jalisco", "JAL", "Mexico", "00002"],
];

/// The order of one seed, with its buyer and its amounts in minor units.
struct Sale {
    seed: u64,
    first_name: &'static str,
    last_name: &'static str,
    email: String,
    phone: String,
    place: &'static [&'static str; 5],
    currency: Currency,
    /// The products and the quantity of each. No product occurs twice.
    lines: [(&'static Product, i64); 2],
    subtotal: i64,
    shipping: i64,
    tax: i64,
    total: i64,
}

impl Sale {
    fn of(seed: u64) -> Self {
        let first_name = *pick(&["Ada", "Bruno", "Chloé", "Dmitri", "Edda"], "first", seed);
        let last_name = *pick(&["Example", "Sample", "Muster", "Ejemplo"], "last", seed);
        let domain = *pick(&["example.com", "example.org"], "domain", seed);
        let currency = *pick(&["USD", "EUR", "GBP", "MXN"], "currency", seed);

        let (some, others) = PRODUCTS.split_at(3);
        let lines = [
            (
                pick(some, "product", seed),
                *pick(&[1, 1, 2, 3], "quantity", seed),
            ),
            (pick(others, "product", seed), 1),
        ];
        let subtotal = lines.iter().map(|(product, n)| product.price * n).sum();
        let shipping = *pick(&[0, 500, 995], "shipping", seed);
        let tax = subtotal * 8 / 100;
        Self {
            seed,
            first_name,
            last_name,
            email: format!("customer.{seed}@{domain}"),
            phone: format!("+120255501{:02}", seed % 100),
            place: pick(&PLACES, "place", seed),
            currency: Currency::parse(currency).expect("a currency"),
            lines,
            subtotal,
            shipping,
            tax,
            total: subtotal + shipping + tax,
        }
    }

    /// An id that no other seed below 10^13 has. `nth` distinguishes several objects of one order.
    fn id(&self, kind: Kind, nth: u64) -> u64 {
        kind as u64 * OF_KIND + self.seed % 10_000_000_000_000 * 100 + nth
    }

    fn money(&self, minor: i64) -> String {
        let currency = self.currency;
        Money { minor, currency }.to_string()
    }

    /// An amount as a JSON number, which the provider uses for the lines of a refund.
    fn number(&self, minor: i64) -> Value {
        serde_json::from_str(&self.money(minor)).expect("a decimal is a number")
    }

    fn money_set(&self, minor: i64) -> Value {
        let money = json!({"amount": self.money(minor), "currency_code": self.currency.as_str()});
        json!({"shop_money": money, "presentment_money": money})
    }

    fn order(&self, created: i64, updated: i64, stage: &Stage) -> Value {
        let id = self.id(Kind::Order, 0);
        let number = 1000 + self.seed % 1_000_000;
        let nothing_or = |minor| self.money(if stage.cancelled { 0 } else { minor });
        json!({
            "id": id,
            "admin_graphql_api_id": format!("gid://storefront/Order/{id}"),
            "billing_address": self.address(),
            "cancel_reason": stage.cancelled.then_some("customer"),
            "cancelled_at": stage.cancelled.then(|| timestamp(updated)),
            "closed_at": stage.cancelled.then(|| timestamp(updated)),
            "confirmed": true,
            "contact_email": self.email,
            "created_at": timestamp(created),
            "currency": self.currency.as_str(),
            "current_total_price": nothing_or(self.total),
            "customer": {
                "id": self.id(Kind::Customer, 0),
                "email": self.email,
                "phone": self.phone,
                "first_name": self.first_name,
                "last_name": self.last_name,
                "verified_email": true,
            },
            "email": self.email,
            "financial_status": stage.financial_status,
            "fulfillment_status": stage.fulfilled.then_some("fulfilled"),
            "fulfillments": self.fulfillments(updated, stage),
            "line_items": self.line_items(stage),
            "name": format!("#{number}"),
            "note": null,
            "number": number - 1000,
            "order_number": number,
            "payment_gateway_names": ["waybill_sandbox"],
            "phone": null,
            "presentment_currency": self.currency.as_str(),
            "processed_at": timestamp(created),
            "refunds": self.refunds(updated, stage),
            "shipping_address": self.address(),
            "source_name": "web",
            "subtotal_price": self.money(self.subtotal),
            "tags": "",
            "test": false,
            "total_discounts": "0.00",
            "total_outstanding": match stage.financial_status {
                "pending" | "authorized" => self.money(self.total),
                _ => self.money(0),
            },
            "total_price": self.money(self.total),
            "total_price_set": self.money_set(self.total),
            "total_shipping_price_set": self.money_set(self.shipping),
            "total_tax": self.money(self.tax),
            "updated_at": timestamp(updated),
        })
    }

    fn address(&self) -> Value {
        let [city, province, province_code, country, zip] = self.place;
        json!({
            "first_name": self.first_name,
            "last_name": self.last_name,
            "address1": format!("{} Sample Street", self.seed % 999 + 1),
            "address2": null,
            "city": city,
            "province": province,
            "province_code": province_code,
            "country": country,
            "zip": zip,
            "phone": self.phone,
        })
    }

    fn line_items(&self, stage: &Stage) -> Vec<Value> {
        let lines = (0..).zip(&self.lines);
        lines
            .map(|(nth, (product, quantity))| {
                json!({
                    "id": self.id(Kind::Line, nth),
                    "fulfillable_quantity":
                        if stage.fulfilled || stage.cancelled { 0 } else { *quantity },
                    "fulfillment_status": stage.fulfilled.then_some("fulfilled"),
                    "name": product.title,
                    "price": self.money(product.price),
                    "product_id": product.id,
                    "quantity": quantity,
                    "requires_shipping": true,
                    "sku": product.sku,
                    "title": product.title,
                    "total_discount": "0.00",
                    "variant_id": product.id + VARIANTS,
                })
            })
            .collect()
    }

    fn fulfillments(&self, updated: i64, stage: &Stage) -> Vec<Value> {
        if !stage.fulfilled {
            return Vec::new();
        }
        let tracking = format!("WB{:012}", self.seed % 1_000_000_000_000);
        let url = format!("https://tracking.example/parcels/{tracking}");
        vec![json!({
            "id": self.id(Kind::Fulfillment, 0),
            "order_id": self.id(Kind::Order, 0),
            "created_at": timestamp(updated),
            "line_items": (0..).zip(&self.lines).map(|(nth, (_, quantity))| {
                json!({"id": self.id(Kind::Line, nth), "quantity": quantity})
            }).collect::<Vec<_>>(),
            "location_id": LOCATION_ID,
            "shipment_status": null,
            "status": "success",
            "tracking_company": "Sample Post",
            "tracking_number": tracking,
            "tracking_numbers": [tracking],
            "tracking_url": url,
            "tracking_urls": [url],
            "updated_at": timestamp(updated),
        })]
    }

    fn refunds(&self, updated: i64, stage: &Stage) -> Vec<Value> {
        if !stage.cancelled {
            return Vec::new();
        }
        let lines = (0..).zip(&self.lines);
        vec![json!({
            "id": self.id(Kind::Refund, 0),
            "order_id": self.id(Kind::Order, 0),
            "created_at": timestamp(updated),
            "note": null,
            "refund_line_items": lines.map(|(nth, (product, quantity))| {
                json!({
                    "id": self.id(Kind::RefundLine, nth),
                    "line_item_id": self.id(Kind::Line, nth),
                    "location_id": LOCATION_ID,
                    "quantity": quantity,
                    "restock_type": "cancel",
                    "subtotal": self.number(product.price * quantity),
                    "total_tax": 0,
                })
            }).collect::<Vec<_>>(),
            "transactions": [{
                "id": self.id(Kind::Transaction, 1),
                "amount": self.money(self.total),
                "created_at": timestamp(updated),
                "currency": self.currency.as_str(),
                "gateway": "waybill_sandbox",
                "kind": "refund",
                "order_id": self.id(Kind::Order, 0),
                "parent_id": self.id(Kind::Transaction, 0),
                "status": "success",
            }],
        })]
    }

    fn data_request(&self) -> Value {
        json!({
            "shop_id": SHOP_ID,
            "shop_domain": shop(),
            "orders_requested": [self.id(Kind::Order, 0)],
            "customer": self.known_as(),
            "data_request": {"id": self.id(Kind::DataRequest, 0)},
        })
    }

    fn customer_redaction(&self) -> Value {
        json!({
            "shop_id": SHOP_ID,
            "shop_domain": shop(),
            "customer": self.known_as(),
            "orders_to_redact": [self.id(Kind::Order, 0)],
        })
    }

    fn known_as(&self) -> Value {
        let id = self.id(Kind::Customer, 0);
        json!({"id": id, "email": self.email, "phone": self.phone})
    }

    fn intent_succeeded(&self, now: i64) -> Value {
        let mut intent = self.intent(now, "succeeded");
        intent["amount_received"] = json!(self.total);
        intent["latest_charge"] = json!(self.token("ch_"));
        intent["payment_method"] = json!(self.token("pm_"));
        intent
    }

    fn intent_failed(&self, now: i64) -> Value {
        let mut intent = self.intent(now, "requires_payment_method");
        intent["latest_charge"] = json!(self.token("ch_"));
        intent["last_payment_error"] = json!({
            "type": "card_error",
            "charge": self.token("ch_"),
            "code": "card_declined",
            "decline_code": "insufficient_funds",
            "message": "Your card has insufficient funds.",
        });
        intent
    }

    fn intent_canceled(&self, now: i64) -> Value {
        let mut intent = self.intent(now, "canceled");
        intent["canceled_at"] = json!(now);
        intent["cancellation_reason"] = json!("requested_by_customer");
        intent
    }

    fn intent(&self, now: i64, status: &str) -> Value {
        json!({
            "id": self.token("pi_"),
            "object": "payment_intent",
            "amount": self.total,
            "amount_capturable": 0,
            "amount_received": 0,
            "canceled_at": null,
            "cancellation_reason": null,
            "capture_method": "automatic",
            "client_secret": format!("{}_secret_sandbox", self.token("pi_")),
            "confirmation_method": "automatic",
            "created": now - 2,
            "currency": self.lower_currency(),
            "customer": self.token("cus_"),
            "description": null,
            "last_payment_error": null,
            "latest_charge": null,
            "livemode": false,
            "metadata": self.metadata(),
            "payment_method": null,
            "payment_method_types": ["card"],
            "receipt_email": self.email,
            "shipping": null,
            "status": status,
            "transfer_group": null,
        })
    }

    fn refunded_charge(&self, now: i64) -> Value {
        json!({
            "id": self.token("ch_"),
            "object": "charge",
            "amount": self.total,
            "amount_captured": self.total,
            "amount_refunded": self.total,
            "balance_transaction": self.token("txn_"),
            "billing_details": self.billing_details(),
            "captured": true,
            "created": now - 60,
            "currency": self.lower_currency(),
            "customer": self.token("cus_"),
            "disputed": false,
            "livemode": false,
            "metadata": self.metadata(),
            "paid": true,
            "payment_intent": self.token("pi_"),
            "payment_method": self.token("pm_"),
            "receipt_email": self.email,
            "refunded": true,
            "status": "succeeded",
        })
    }

    /// A refund or a dispute of the sale's charge.
    fn of_charge(&self, object: &str, prefix: &str, now: i64, status: &str) -> Value {
        json!({
            "id": self.token(prefix),
            "object": object,
            "amount": self.total,
            "charge": self.token("ch_"),
            "created": now - 30,
            "currency": self.lower_currency(),
            "metadata": {},
            "payment_intent": self.token("pi_"),
            "reason": "fraudulent",
            "status": status,
        })
    }

    fn invoice_payment(&self, now: i64) -> Value {
        json!({
            "id": self.token("inpay_"),
            "object": "invoice_payment",
            "amount_paid": self.total,
            "created": now - 10,
            "currency": self.lower_currency(),
            "invoice": self.token("in_"),
            "is_default": true,
            "livemode": false,
            "payment": {"payment_intent": self.token("pi_"), "type": "payment_intent"},
            "status": "paid",
        })
    }

    fn subscription(&self, now: i64, ended_at: Option<i64>) -> Value {
        json!({
            "id": self.token("sub_"),
            "object": "subscription",
            "cancel_at_period_end": false,
            "created": now - 60,
            "currency": self.lower_currency(),
            "customer": self.token("cus_"),
            "ended_at": ended_at,
            "livemode": false,
            "metadata": self.metadata(),
            "status": if ended_at.is_some() { "canceled" } else { "active" },
        })
    }

    fn checkout_session(&self, now: i64) -> Value {
        json!({
            "id": self.token("cs_test_"),
            "object": "checkout.session",
            "amount_subtotal": self.subtotal,
            "amount_total": self.total,
            "cancel_url": null,
            "client_reference_id": null,
            "created": now - 30,
            "currency": self.lower_currency(),
            "customer": self.token("cus_"),
            "customer_details": self.billing_details(),
            "customer_email": null,
            "expires_at": now - 30 + DAY,
            "invoice": null,
            "livemode": false,
            "metadata": self.metadata(),
            "mode": "payment",
            "payment_intent": self.token("pi_"),
            "payment_method_types": ["card"],
            "payment_status": "paid",
            "setup_intent": null,
            "status": "complete",
            "subscription": null,
            "success_url": format!("https://{}/thanks", shop()),
            "url": null,
        })
    }

    /// The invoice in the shape since 2025-03-31, where the subscription is under `parent`.
    fn invoice(&self, now: i64) -> Value {
        let subscription = self.token("sub_");
        json!({
            "id": self.token("in_"),
            "object": "invoice",
            "amount_due": self.total,
            "amount_paid": self.total,
            "amount_remaining": 0,
            "attempt_count": 1,
            "billing_reason": "subscription_cycle",
            "collection_method": "charge_automatically",
            "created": now - 5,
            "currency": self.lower_currency(),
            "customer": self.token("cus_"),
            "customer_email": self.email,
            "customer_name": format!("{} {}", self.first_name, self.last_name),
            "lines": {
                "object": "list",
                "data": [{
                    "id": self.token("il_"),
                    "object": "line_item",
                    "amount": self.total,
                    "currency": self.lower_currency(),
                    "description": "1 x Waybill Pro (monthly)",
                    "metadata": self.metadata(),
                    "parent": {
                        "type": "subscription_item_details",
                        "subscription_item_details": {
                            "subscription": subscription,
                            "subscription_item": self.token("si_"),
                        },
                    },
                    "period": {"start": now, "end": now + 30 * DAY},
                    "quantity": 1,
                }],
                "has_more": false,
                "url": format!("/v1/invoices/{}/lines", self.token("in_")),
            },
            "livemode": false,
            "metadata": {},
            "number": format!("WB-{:04}", self.seed % 10_000),
            "parent": {
                "type": "subscription_details",
                "subscription_details": {
                    "metadata": self.metadata(),
                    "subscription": subscription,
                },
            },
            "period_start": now - 30 * DAY,
            "period_end": now,
            "status": "paid",
            "total": self.total,
        })
    }

    fn billing_details(&self) -> Value {
        let [city, _, province_code, _, zip] = self.place;
        json!({
            "address": {
                "city": city,
                "line1": format!("{} Sample Street", self.seed % 999 + 1),
                "line2": null,
                "postal_code": zip,
                "state": province_code,
            },
            "email": self.email,
            "name": format!("{} {}", self.first_name, self.last_name),
            "phone": self.phone,
        })
    }

    fn metadata(&self) -> Value {
        json!({
            "pact_id": self.token("pact_"),
            "type": "order",
            "fulfillment_cycle": "once",
        })
    }

    fn lower_currency(&self) -> String {
        self.currency.as_str().to_ascii_lowercase()
    }

    /// The payment provider's id for the object of this sale with this prefix.
    fn token(&self, prefix: &str) -> String {
        token(&format!("{prefix}{}", sample::MARK), prefix, self.seed)
    }
}

/// How many ids a kind of object has.
const OF_KIND: u64 = 1_000_000_000_000_000;

/// The kind of object that a storefront id is for. The id begins with its number.
#[derive(Clone, Copy)]
enum Kind {
    Customer = 1,
    DataRequest = 2,
    Fulfillment = 3,
    Line = 4,
    Order = 5,
    Refund = 6,
    RefundLine = 7,
    Transaction = 8,
}

/// `waybill demo remove` finds samples by their ids.
const _: () = {
    assert!(*sample::ORDERS.start() == Kind::Order as i64 * OF_KIND.cast_signed());
    assert!(*sample::CUSTOMERS.start() == Kind::Customer as i64 * OF_KIND.cast_signed());
};

fn timestamp(unix_seconds: i64) -> String {
    let eastern = UtcOffset::from_hms(-5, 0, 0).expect("an offset");
    OffsetDateTime::from_unix_timestamp(unix_seconds)
        .expect("a time before the year 10,000")
        .to_offset(eastern)
        .format(&Rfc3339)
        .expect("a time of this era")
}

fn pick<'a, T>(from: &'a [T], what: &str, seed: u64) -> &'a T {
    let count = u64::try_from(from.len()).expect("a few");
    let index = mix(what, seed) % count;
    &from[usize::try_from(index).expect("below the length")]
}

/// An id of a prefix and 24 letters and digits.
pub(crate) fn token(prefix: &str, what: &str, seed: u64) -> String {
    const ALPHABET: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let start = mix(what, seed);
    let letters = (0..24).map(|nth| char::from(*pick(ALPHABET, "letter", start ^ nth)));
    prefix.chars().chain(letters).collect()
}

/// Deterministic noise: FNV-1a over the name, then the finish of SplitMix64.
pub(crate) fn mix(what: &str, seed: u64) -> u64 {
    let name = what.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    let mut noise = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ name;
    noise = (noise ^ (noise >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    noise = (noise ^ (noise >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    noise ^ (noise >> 31)
}
