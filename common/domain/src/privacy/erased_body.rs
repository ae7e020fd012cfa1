//! Removes everything that may be personal from a stored webhook body, and keeps what the
//! handlers need: ids, amounts, times and states. The lists below name what is kept, and
//! everything else goes, so a field that a provider adds later goes too. Numbers and texts that
//! stay are copied unchanged, so an id above 2^53 keeps its last digit.

use std::borrow::Cow;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::job::Kind;
use crate::order::{self, Topic};
use crate::time::Timestamp;

/// The form that a value must have to be kept. A value of another form is removed, because nobody
/// can say what it is.
enum Keep {
    /// A number, also one in quotes, or true or false.
    Number,
    /// A time or a day, as handlers read it.
    Time,
    /// An id. It has no spaces and cannot be an e-mail address.
    Id,
    /// An id or a list of ids.
    Ids,
    /// A word of the provider, such as `partially_paid`. In place of another text stands [`OTHER`], because a word
    /// that nobody knows does not mean the same as none.
    Word,
    /// A text about a thing.
    Text,
    /// A text about a thing, or a list of such texts.
    Texts,
    Object(&'static [(&'static str, Keep)]),
    List(&'static [(&'static str, Keep)]),
    /// The id of another object. The object itself may stand in its place, and then its id is
    /// kept.
    Link,
    /// A list of names and values. Only the entry that names the agreement is kept.
    Agreement,
}

use Keep::{Agreement, Id, Ids, Link, List, Number, Object, Text, Texts, Time, Word};

const LONGEST_WORD: usize = 40;
/// No provider has a word like this that means something to a handler.
const OTHER: &str = "\"other\"";

const AMOUNT: Keep = Object(&[("amount", Number), ("currency_code", Word)]);
const AMOUNTS: Keep = Object(&[("shop_money", AMOUNT), ("presentment_money", AMOUNT)]);

const ORDER: &[(&str, Keep)] = &[
    ("id", Id),
    ("name", Text),
    ("order_number", Id),
    ("customer", Object(&[("id", Id)])),
    ("currency", Word),
    ("total_price", Number),
    ("subtotal_price", Number),
    ("total_tax", Number),
    ("total_outstanding", Number),
    ("current_total_price", Number),
    ("total_price_set", AMOUNTS),
    ("current_total_price_set", AMOUNTS),
    ("total_cash_rounding_payment_adjustment_set", AMOUNTS),
    ("total_cash_rounding_refund_adjustment_set", AMOUNTS),
    ("payment_gateway_names", Texts),
    (
        "payment_terms",
        Object(&[
            ("payment_terms_type", Word),
            ("payment_schedules", List(&[("due_at", Time)])),
        ]),
    ),
    ("financial_status", Word),
    ("fulfillment_status", Word),
    ("cancelled_at", Time),
    ("cancel_reason", Word),
    ("created_at", Time),
    ("updated_at", Time),
    (
        "line_items",
        List(&[
            ("id", Id),
            ("variant_id", Id),
            ("title", Text),
            ("quantity", Number),
            ("current_quantity", Number),
            ("price", Number),
            ("sku", Text),
            ("fulfillment_status", Word),
            ("requires_shipping", Number),
            ("fulfillment_service", Text),
        ]),
    ),
    (
        "fulfillments",
        List(&[
            ("id", Id),
            ("status", Word),
            ("shipment_status", Word),
            ("tracking_company", Text),
            ("tracking_number", Text),
            // The carrier's link is not in this list, because it may contain a postcode or a
            // name.
            ("tracking_numbers", Texts),
            ("line_items", List(&[("id", Id), ("quantity", Number)])),
            ("updated_at", Time),
        ]),
    ),
    (
        "refunds",
        List(&[
            ("id", Id),
            ("created_at", Time),
            (
                "transactions",
                List(&[
                    ("id", Id),
                    ("parent_id", Id),
                    ("kind", Word),
                    ("status", Word),
                    ("amount", Number),
                    ("amount_set", AMOUNTS),
                    ("currency", Word),
                    ("gateway", Text),
                ]),
            ),
            (
                "refund_line_items",
                List(&[
                    ("id", Id),
                    ("line_item_id", Id),
                    ("quantity", Number),
                    ("restock_type", Word),
                    ("subtotal", Number),
                ]),
            ),
        ]),
    ),
    ("test", Number),
    ("admin_graphql_api_id", Id),
    ("note_attributes", Agreement),
];

/// Not its `order_key`, with which anybody sees the order in the shop.
const WOOCOMMERCE: &[(&str, Keep)] = &[
    ("id", Id),
    ("number", Id),
    ("status", Word),
    ("currency", Word),
    ("total", Number),
    ("total_tax", Number),
    ("date_created_gmt", Time),
    ("date_modified_gmt", Time),
    ("date_paid_gmt", Time),
    ("date_completed_gmt", Time),
    ("date_created", Time),
    ("date_modified", Time),
    ("date_paid", Time),
    ("date_completed", Time),
    ("customer_id", Id),
    (
        "line_items",
        List(&[
            ("id", Id),
            ("name", Text),
            ("product_id", Id),
            ("variation_id", Id),
            ("quantity", Number),
            ("price", Number),
            ("sku", Text),
        ]),
    ),
    // Not the reason, which somebody has worded.
    ("refunds", List(&[("id", Id), ("total", Number)])),
    ("meta_data", Agreement),
];

const METADATA: Keep = Object(&[
    ("pact_id", Text),
    ("type", Text),
    ("fulfillment_cycle", Text),
]);

const PRICE: Keep = Object(&[("id", Id), ("product", Link)]);

const INVOICE_LINE: Keep = List(&[
    ("price", PRICE),
    ("plan", PRICE),
    (
        "pricing",
        Object(&[(
            "price_details",
            Object(&[("price", Link), ("product", Link)]),
        )]),
    ),
    ("subscription_item", Link),
    ("amount", Number),
    ("type", Word),
    ("proration", Number),
    ("subscription", Link),
    ("discount_amounts", List(&[("amount", Number)])),
    ("period", Object(&[("start", Number), ("end", Number)])),
    (
        "parent",
        Object(&[
            ("type", Word),
            (
                "subscription_item_details",
                Object(&[
                    ("proration", Number),
                    ("subscription", Link),
                    ("subscription_item", Link),
                ]),
            ),
        ]),
    ),
]);

const SUBSCRIPTION: Keep = Object(&[("subscription", Link), ("metadata", METADATA)]);

/// The fields of all kinds of objects that payment events are about.
const PAYMENT: &[(&str, Keep)] = &[
    ("id", Id),
    ("object", Id),
    ("created", Number),
    ("type", Word),
    ("timestamp", Time),
    ("api_version", Word),
    ("livemode", Number),
    ("account", Id),
    (
        "data",
        Object(&[(
            "object",
            Object(&[
                ("id", Id),
                ("object", Id),
                ("created", Number),
                ("amount", Number),
                ("amount_received", Number),
                (
                    "amount_details",
                    Object(&[("tip", Object(&[("amount", Number)]))]),
                ),
                ("amount_captured", Number),
                ("amount_refunded", Number),
                ("amount_subtotal", Number),
                ("amount_total", Number),
                (
                    "total_details",
                    Object(&[
                        ("amount_discount", Number),
                        ("amount_shipping", Number),
                        ("amount_tax", Number),
                    ]),
                ),
                ("amount_paid", Number),
                ("total", Number),
                ("captured", Number),
                ("refunded", Number),
                ("currency", Word),
                ("status", Word),
                ("payment_status", Word),
                ("mode", Word),
                ("billing_reason", Word),
                ("cancellation_reason", Word),
                ("reason", Word),
                ("ended_at", Number),
                ("metadata", METADATA),
                ("transfer_group", Text),
                ("customer", Link),
                ("payment_intent", Link),
                ("latest_charge", Link),
                ("charge", Link),
                ("invoice", Link),
                ("subscription", Link),
                ("charges", Object(&[("data", List(&[("id", Id)]))])),
                (
                    "last_payment_error",
                    Object(&[
                        ("charge", Link),
                        ("code", Word),
                        ("decline_code", Word),
                        ("payment_method", Link),
                    ]),
                ),
                ("subscription_details", SUBSCRIPTION),
                (
                    "parent",
                    Object(&[("type", Word), ("subscription_details", SUBSCRIPTION)]),
                ),
                (
                    "payment",
                    Object(&[("payment_intent", Link), ("charge", Link)]),
                ),
                ("lines", Object(&[("data", INVOICE_LINE)])),
            ]),
        )]),
    ),
];

const THIN_EVENT: &[(&str, Keep)] = &[
    ("id", Id),
    ("object", Id),
    ("type", Word),
    ("created", Time),
    ("context", Id),
    ("livemode", Number),
    (
        "related_object",
        Object(&[("id", Id), ("type", Word), ("url", Id)]),
    ),
];

const REQUEST: &[(&str, Keep)] = &[
    ("shop_id", Id),
    ("shop_domain", Text),
    ("customer", Object(&[("id", Id)])),
    ("orders_requested", Ids),
    ("orders_to_redact", Ids),
    ("data_request", Object(&[("id", Id)])),
];

/// The body of a job without anything that may be personal. None when the kind of the job has no
/// list of fields to keep, or when the body is not a JSON object; then nothing of the body may be
/// kept.
pub fn erased_body(kind: &str, body: &[u8]) -> Option<Vec<u8>> {
    let keep = match Kind::named(kind) {
        Some(Kind::Privacy(_)) => REQUEST,
        Some(Kind::Payment(_)) => PAYMENT,
        Some(Kind::ThinPayment(_)) => THIN_EVENT,
        Some(Kind::Internal(_)) => return None,
        None if !Topic::is_of_an_order(kind) => return None,
        Some(Kind::Order(_)) | None if order::is_of_woocommerce(body) => WOOCOMMERCE,
        Some(Kind::Order(_)) | None => ORDER,
    };
    let body = std::str::from_utf8(body).ok()?;
    let mut out = String::with_capacity(body.len() / 2);
    write_object(body, keep, &mut out).then(|| out.into_bytes())
}

/// Writes the kept fields of an object. Returns false when `raw` is not an object.
fn write_object(raw: &str, keep: &[(&str, Keep)], out: &mut String) -> bool {
    let Ok(fields) = fields(raw) else {
        return false;
    };
    out.push('{');
    let mut first = true;
    for (name, value) in fields {
        let Some((_, keep)) = keep.iter().find(|(kept, _)| *kept == name) else {
            continue;
        };
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        // The names that are kept have no characters that JSON escapes.
        out.push('"');
        out.push_str(&name);
        out.push_str("\":");
        write(value.get(), keep, out);
    }
    out.push('}');
    true
}

/// Writes a value, or null when it has another form than the one that is kept.
fn write(raw: &str, keep: &Keep, out: &mut String) {
    let start = out.len();
    let is_kept = match keep {
        Number | Time | Id | Word | Text => write_scalar(raw, keep, out),
        Ids => {
            write_scalar(raw, &Id, out)
                || write_list(raw, out, |raw, out| write_scalar(raw, &Id, out))
        }
        Texts => {
            write_scalar(raw, &Text, out)
                || write_list(raw, out, |raw, out| write_scalar(raw, &Text, out))
        }
        Object(keep) => write_object(raw, keep, out),
        List(keep) => write_list(raw, out, |item, out| write_object(item, keep, out)),
        Link => write_scalar(raw, &Id, out) || write_object(raw, &[("id", Id)], out),
        Agreement => write_agreement(raw, out),
    };
    if !is_kept {
        out.truncate(start);
        out.push_str("null");
    }
}

fn write_scalar(raw: &str, keep: &Keep, out: &mut String) -> bool {
    let Some(inside) = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')) else {
        // A number or a boolean identifies nobody.
        let is_kept = !raw.starts_with(['{', '[']);
        if is_kept {
            out.push_str(raw);
        }
        return is_kept;
    };
    // What the text says decides, and not how it is written.
    let said = if inside.contains('\\') {
        serde_json::from_str(raw).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inside))
    };
    let fits = |form: fn(&str) -> bool| said.as_ref().is_some_and(|said| form(said));
    let is_kept = match keep {
        _ if inside.is_empty() => true,
        Number => fits(is_number),
        Time => fits(|text| text.parse::<Timestamp>().is_ok()),
        Word => fits(is_word),
        Id => fits(|text| !text.contains(['@', ' ', '\\'])),
        _ => true,
    };
    match keep {
        _ if is_kept => out.push_str(raw),
        Word => out.push_str(OTHER),
        _ => return false,
    }
    true
}

fn is_number(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_digit() || b"+-.".contains(&byte);
    text.bytes().all(fits)
}

fn is_word(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    text.len() <= LONGEST_WORD && text.bytes().all(fits)
}

/// Writes the items of a list. An item of another form is left out. Returns false when `raw` is
/// not a list.
fn write_list(raw: &str, out: &mut String, item: impl Fn(&str, &mut String) -> bool) -> bool {
    let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(raw) else {
        return false;
    };
    out.push('[');
    let first = out.len();
    for raw in items {
        let start = out.len();
        if start > first {
            out.push(',');
        }
        if !item(raw.get(), out) {
            out.truncate(start);
        }
    }
    out.push(']');
    true
}

fn write_agreement(raw: &str, out: &mut String) -> bool {
    write_list(raw, out, |item, out| {
        let is_agreement = fields(item).is_ok_and(|fields| {
            let mut fields = fields.iter();
            fields.any(|(name, value)| {
                let said = || serde_json::from_str::<Cow<str>>(value.get());
                (name == "name" || name == "key") && said().is_ok_and(|said| said == "pact_id")
            })
        });
        is_agreement && write_object(item, &[("name", Word), ("key", Word), ("value", Text)], out)
    })
}

type Fields<'a> = Vec<(Cow<'a, str>, &'a RawValue)>;

/// The fields of an object in their order, with repeated names.
fn fields(raw: &str) -> Result<Fields<'_>, serde_json::Error> {
    struct Pairs;

    impl<'de> Visitor<'de> for Pairs {
        type Value = Fields<'de>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
            let mut fields = Vec::new();
            while let Some(name) = map.next_key::<Cow<'de, str>>()? {
                fields.push((name, map.next_value::<&'de RawValue>()?));
            }
            Ok(fields)
        }
    }

    serde_json::Deserializer::from_str(raw).deserialize_map(Pairs)
}
