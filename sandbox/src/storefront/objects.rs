//! The storefront's JSON objects.

use domain::time::Timestamp;
use serde_json::{Value, json};

use crate::sample;

/// The currency in which a shop sells, unless a test sets another.
pub const CURRENCY: &str = "USD";

/// An id of 16 digits, below 2^53, which is made from the object that it is for.
pub fn id(kind: &str, shop: &str, order_id: i64) -> i64 {
    const LEAST: u64 = 1_000_000_000_000_000;
    let noise = sample::mix(&format!("{kind} {shop}"), order_id.unsigned_abs());
    i64::try_from(LEAST + noise % (8 * LEAST)).expect("below 2^53")
}

pub fn shop(domain: &str, currency: &str) -> Value {
    json!({
        "id": id("shop", domain, 1),
        "name": domain,
        "domain": domain,
        "currency": currency,
        "enabled_presentment_currencies": [currency],
        "money_format": "${{amount}}",
    })
}

/// The only variant of a product of the sample shop, with the price that a test has set, if it has
/// set one.
pub fn variant(id: u64, price: Option<&str>) -> Option<Value> {
    let article = sample::article(id)?;
    let usual = format!("{}.{:02}", article.price / 100, article.price % 100);
    Some(json!({
        "id": id,
        "product_id": article.product_id,
        "title": "Default Title",
        "price": price.unwrap_or(&usual),
        "position": 1,
        "inventory_policy": "deny",
        "compare_at_price": null,
        "option1": "Default Title",
        "sku": article.sku,
        "taxable": true,
        "requires_shipping": true,
    }))
}

pub fn product(id: u64) -> Option<Value> {
    let variant_id = sample::variant_of(id);
    let article = sample::article(variant_id)?;
    Some(json!({
        "id": id,
        "title": article.title,
        "status": "active",
        "vendor": "Waybill Sandbox",
        "variants": [variant(variant_id, None)],
    }))
}

pub fn fulfillment_order(id: i64, order_id: i64, status: &str) -> Value {
    json!({
        "id": id,
        "order_id": order_id,
        "status": status,
        "request_status": "unsubmitted",
        "line_items": [],
    })
}

pub fn fulfillment(shop: &str, order_id: i64, now: Timestamp) -> Value {
    let number = sample::mix(shop, order_id.unsigned_abs()) % 1_000_000_000_000;
    let tracking = format!("WB{number:012}");
    let url = format!("https://tracking.example/parcels/{tracking}");
    json!({
        "id": id("fulfillment", shop, order_id),
        "order_id": order_id,
        "status": "success",
        "tracking_company": "Sample Post",
        "tracking_number": tracking,
        "tracking_numbers": [tracking],
        "tracking_url": url,
        "tracking_urls": [url],
        "created_at": now,
        "updated_at": now,
        "line_items": [],
    })
}

/// The body of `orders/fulfilled`. It is the order as it was last delivered; if the order is not
/// known, it has only the fields that changed.
pub fn fulfilled(known: Option<&Value>, fulfillment: &Value, now: Timestamp) -> Value {
    let mut body = known
        .cloned()
        .unwrap_or_else(|| json!({"id": fulfillment["order_id"]}));
    body["updated_at"] = json!(now);
    body["fulfillment_status"] = json!("fulfilled");
    match body["fulfillments"].as_array_mut() {
        Some(fulfillments) => fulfillments.push(fulfillment.clone()),
        None => body["fulfillments"] = json!([fulfillment]),
    }
    body
}
