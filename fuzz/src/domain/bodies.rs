//! Makes bodies of webhooks from the bytes of an input: any JSON, whose names are those that providers use. A mark, the
//! text of a person, stands wherever it must not stay.

use super::input::Input;

/// What stands for a person. No provider sends it, and no name has it.
pub const MARK: &str = "Xq7Mark";

/// Names under which a text is about a thing and stays whatever it says.
const KEPT_TEXTS: &[&str] = &[
    "name",
    "title",
    "sku",
    "shipment_status",
    "tracking_company",
    "tracking_number",
    "tracking_numbers",
    "shop_domain",
    "pact_id",
    "type",
    "fulfillment_cycle",
    "transfer_group",
    "value",
];

const NAMES: &[&str] = &[
    "id",
    "order_number",
    "email",
    "phone",
    "customer",
    "currency",
    "total_price",
    "subtotal_price",
    "total_tax",
    "total_outstanding",
    "financial_status",
    "fulfillment_status",
    "cancelled_at",
    "cancel_reason",
    "created_at",
    "updated_at",
    "line_items",
    "fulfillments",
    "refunds",
    "note_attributes",
    "shipping_address",
    "billing_address",
    "first_name",
    "last_name",
    "address1",
    "city",
    "zip",
    "note",
    "variant_id",
    "quantity",
    "price",
    "properties",
    "status",
    "tracking_url",
    "transactions",
    "refund_line_items",
    "parent_id",
    "kind",
    "amount",
    "line_item_id",
    "restock_type",
    "subtotal",
    "number",
    "total",
    "date_created_gmt",
    "date_modified_gmt",
    "date_paid_gmt",
    "customer_id",
    "product_id",
    "meta_data",
    "key",
    "billing",
    "shipping",
    "data",
    "object",
    "created",
    "timestamp",
    "api_version",
    "livemode",
    "amount_received",
    "metadata",
    "payment_intent",
    "latest_charge",
    "charges",
    "last_payment_error",
    "code",
    "decline_code",
    "payment_method",
    "subscription",
    "subscription_details",
    "parent",
    "lines",
    "receipt_email",
    "customer_details",
    "customer_email",
    "client_reference_id",
    "period",
    "start",
    "end",
    "discount_amounts",
    "total_details",
    "amount_tax",
    "mode",
    "payment_status",
    "billing_reason",
    "related_object",
    "url",
    "context",
    "shop_id",
    "orders_requested",
    "orders_to_redact",
    "data_request",
    "contact_email",
    "tags",
    "name",
    "title",
    "sku",
    "tracking_number",
    "tracking_numbers",
    "shop_domain",
    "pact_id",
    "type",
    "value",
];

const KINDS: &[&str] = &[
    "orders/create",
    "orders/updated",
    "customers/data_request",
    "customers/redact",
    "shop/redact",
    "payment_intent.succeeded",
    "payment_intent.payment_failed",
    "charge.refunded",
    "checkout.session.completed",
    "invoice.payment_succeeded",
    "v1.charge.refunded",
];

/// Values that are of a form that stays.
const PLAIN: &[&str] = &[
    "1",
    "0",
    "-5",
    "10.50",
    "true",
    "null",
    "\"\"",
    "\"7\"",
    "\"paid\"",
    "\"usd\"",
    "\"pi_1\"",
    "\"pact_id\"",
    "\"2027-01-15T12:00:00Z\"",
    "9223372036854775807",
    "1e5",
    "[]",
    "{}",
    "\"p-1\"",
];

/// A kind of job and a body of it.
pub fn marked(input: &mut Input) -> (&'static str, String) {
    let kind = input.one_of(KINDS);
    let mut body = String::with_capacity(256);
    object(input, &mut body, 0);
    (kind, body)
}

fn object(input: &mut Input, out: &mut String, depth: usize) {
    out.push('{');
    let fields = input.byte() % 8;
    for nth in 0..fields {
        if nth > 0 {
            out.push(',');
        }
        let name = input.one_of(NAMES);
        out.push('"');
        out.push_str(name);
        out.push_str("\":");
        value(input, out, depth + 1, !KEPT_TEXTS.contains(&name));
    }
    out.push('}');
}

fn value(input: &mut Input, out: &mut String, depth: usize, may_be_marked: bool) {
    match input.byte() % 8 {
        0 | 1 if depth < 8 => object(input, out, depth),
        2 if depth < 8 => {
            out.push('[');
            for nth in 0..input.byte() % 4 {
                if nth > 0 {
                    out.push(',');
                }
                value(input, out, depth + 1, may_be_marked);
            }
            out.push(']');
        }
        3..=5 if may_be_marked => mark(input, out),
        _ => out.push_str(input.one_of(PLAIN)),
    }
}

/// The text of a person, in any writing that JSON has for it.
fn mark(input: &mut Input, out: &mut String) {
    out.push('"');
    out.push_str(input.one_of(&[
        "", " ", "\\\"", "\\u0040", "é", "\\n", "{", "\\\\", "O'", "=", "<",
    ]));
    out.push_str(MARK);
    // Each has something that no id and no word of a provider has.
    out.push_str(input.one_of(&[
        "@x.example",
        " Lane 7",
        "\\u0040x.example",
        " \\\"",
        " \\ud83d\\ude00",
    ]));
    out.push('"');
}
