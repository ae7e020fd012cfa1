//! Takes what may be personal out of a stored webhook body, and leaves what it is worked on
//! by: ids, amounts, times and states. What is kept is listed; all else goes, so a field that
//! a provider adds tomorrow goes too. Numbers and texts that stay are not touched: an id
//! beyond 2^53 keeps its last digit.

use std::borrow::Cow;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Topic;
use crate::payment::Kind;

/// What is kept of a value.
enum Keep {
    /// A number, a text, true or false; nothing of a list or an object.
    Scalar,
    /// The same, or a list of them.
    Scalars,
    Object(&'static [(&'static str, Keep)]),
    List(&'static [(&'static str, Keep)]),
    /// The id of another object, which may stand there itself.
    Link,
    /// Of a list of names and values, the entry that names the agreement.
    Pact,
}

use Keep::{Link, List, Object, Pact, Scalar, Scalars};

const ORDER: &[(&str, Keep)] = &[
    ("id", Scalar),
    ("name", Scalar),
    ("order_number", Scalar),
    ("customer", Object(&[("id", Scalar)])),
    ("currency", Scalar),
    ("total_price", Scalar),
    ("subtotal_price", Scalar),
    ("total_tax", Scalar),
    ("total_outstanding", Scalar),
    ("financial_status", Scalar),
    ("fulfillment_status", Scalar),
    ("cancelled_at", Scalar),
    ("cancel_reason", Scalar),
    ("created_at", Scalar),
    ("updated_at", Scalar),
    (
        "line_items",
        List(&[
            ("id", Scalar),
            ("variant_id", Scalar),
            ("title", Scalar),
            ("quantity", Scalar),
            ("price", Scalar),
            ("sku", Scalar),
            ("fulfillment_status", Scalar),
        ]),
    ),
    (
        "fulfillments",
        List(&[
            ("id", Scalar),
            ("status", Scalar),
            ("tracking_company", Scalar),
            ("tracking_number", Scalar),
            ("tracking_numbers", Scalars),
            ("tracking_url", Scalar),
            ("tracking_urls", Scalars),
            ("line_items", List(&[("id", Scalar), ("quantity", Scalar)])),
            ("updated_at", Scalar),
        ]),
    ),
    (
        "refunds",
        List(&[
            ("id", Scalar),
            ("created_at", Scalar),
            (
                "transactions",
                List(&[
                    ("id", Scalar),
                    ("parent_id", Scalar),
                    ("kind", Scalar),
                    ("status", Scalar),
                    ("amount", Scalar),
                    ("currency", Scalar),
                ]),
            ),
            (
                "refund_line_items",
                List(&[
                    ("id", Scalar),
                    ("line_item_id", Scalar),
                    ("quantity", Scalar),
                    ("restock_type", Scalar),
                    ("subtotal", Scalar),
                ]),
            ),
        ]),
    ),
    ("note_attributes", Pact),
];

const METADATA: Keep = Object(&[("pact_id", Scalar)]);

const SUBSCRIPTION: Keep = Object(&[("subscription", Link), ("metadata", METADATA)]);

/// What any of the objects has that events are about.
const PAYMENT: &[(&str, Keep)] = &[
    ("id", Scalar),
    ("object", Scalar),
    ("created", Scalar),
    ("type", Scalar),
    ("api_version", Scalar),
    ("livemode", Scalar),
    (
        "data",
        Object(&[(
            "object",
            Object(&[
                ("id", Scalar),
                ("object", Scalar),
                ("created", Scalar),
                ("amount", Scalar),
                ("amount_received", Scalar),
                ("amount_captured", Scalar),
                ("amount_refunded", Scalar),
                ("amount_total", Scalar),
                ("amount_paid", Scalar),
                ("total", Scalar),
                ("captured", Scalar),
                ("refunded", Scalar),
                ("currency", Scalar),
                ("status", Scalar),
                ("payment_status", Scalar),
                ("mode", Scalar),
                ("billing_reason", Scalar),
                ("cancellation_reason", Scalar),
                ("metadata", METADATA),
                ("customer", Link),
                ("payment_intent", Link),
                ("latest_charge", Link),
                ("charge", Link),
                ("invoice", Link),
                ("subscription", Link),
                ("charges", Object(&[("data", List(&[("id", Scalar)]))])),
                (
                    "last_payment_error",
                    Object(&[
                        ("charge", Link),
                        ("code", Scalar),
                        ("decline_code", Scalar),
                        ("payment_method", Link),
                    ]),
                ),
                ("subscription_details", SUBSCRIPTION),
                ("parent", Object(&[("subscription_details", SUBSCRIPTION)])),
                (
                    "lines",
                    Object(&[(
                        "data",
                        List(&[
                            ("amount", Scalar),
                            ("period", Object(&[("start", Scalar), ("end", Scalar)])),
                        ]),
                    )]),
                ),
            ]),
        )]),
    ),
];

const REQUEST: &[(&str, Keep)] = &[
    ("shop_id", Scalar),
    ("shop_domain", Scalar),
    ("customer", Object(&[("id", Scalar)])),
    ("orders_requested", Scalars),
    ("orders_to_redact", Scalars),
    ("data_request", Object(&[("id", Scalar)])),
];

/// The body without anything that may be personal, for a kind that is worked on. None: there
/// is nothing in it to be kept.
pub fn scrub(kind: &str, body: &[u8]) -> Option<Vec<u8>> {
    let keep = if Topic::parse(kind).is_some() {
        REQUEST
    } else if Kind::parse(kind).is_some() {
        PAYMENT
    } else if kind.starts_with("orders/") {
        ORDER
    } else {
        return None;
    };
    let body = std::str::from_utf8(body).ok()?;
    let mut out = String::with_capacity(body.len() / 2);
    write_object(body, keep, &mut out).then(|| out.into_bytes())
}

/// Writes what is kept of an object. False: it is none.
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
        // The names that are kept have nothing in them to be escaped.
        out.push('"');
        out.push_str(&name);
        out.push_str("\":");
        write(value.get(), keep, out);
    }
    out.push('}');
    true
}

/// A value of another shape than is kept becomes null.
fn write(raw: &str, keep: &Keep, out: &mut String) {
    let start = out.len();
    let is_kept = match keep {
        Scalar => write_scalar(raw, out),
        Scalars => write_scalar(raw, out) || write_list(raw, out, write_scalar),
        Object(keep) => write_object(raw, keep, out),
        List(keep) => write_list(raw, out, |item, out| write_object(item, keep, out)),
        Link => write_scalar(raw, out) || write_object(raw, &[("id", Scalar)], out),
        Pact => write_pact(raw, out),
    };
    if !is_kept {
        out.truncate(start);
        out.push_str("null");
    }
}

fn write_scalar(raw: &str, out: &mut String) -> bool {
    let is_scalar = !raw.starts_with(['{', '[']);
    if is_scalar {
        out.push_str(raw);
    }
    is_scalar
}

/// Items of another shape are left out.
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

fn write_pact(raw: &str, out: &mut String) -> bool {
    write_list(raw, out, |item, out| {
        let is_pact = fields(item).is_ok_and(|fields| {
            let mut fields = fields.iter();
            fields.any(|(name, value)| name == "name" && value.get() == "\"pact_id\"")
        });
        is_pact && write_object(item, &[("name", Scalar), ("value", Scalar)], out)
    })
}

type Fields<'a> = Vec<(Cow<'a, str>, &'a RawValue)>;

/// The fields of an object in their order, repeated ones too.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn scrubbed(kind: &str, body: &str) -> String {
        String::from_utf8(scrub(kind, body.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn ids_amounts_and_states_stay_to_the_last_digit() {
        let body = r#"{"id":9223372036854775807,"total_price":"10.10","email":"ann@x.example",
            "customer":{"id":5,"email":"ann@x.example","note":"VIP"},"note":"ring twice",
            "line_items":[{"id":1,"quantity":2,"properties":[{"name":"for","value":"Ann"}]},7],
            "note_attributes":[{"name":"gift","value":"Ann"},{"name":"pact_id","value":"p1"}]}"#;
        assert_eq!(
            scrubbed("orders/create", body),
            r#"{"id":9223372036854775807,"total_price":"10.10","customer":{"id":5},"line_items":[{"id":1,"quantity":2}],"note_attributes":[{"name":"pact_id","value":"p1"}]}"#
        );
    }

    #[test]
    fn an_expanded_link_is_its_id_alone() {
        let body = r#"{"id":"evt_1","data":{"object":{"id":"pi_1","receipt_email":"a@x.example",
            "customer":{"id":"cus_1","name":"Ann"},"latest_charge":"ch_1"}}}"#;
        assert_eq!(
            scrubbed("payment_intent.succeeded", body),
            r#"{"id":"evt_1","data":{"object":{"id":"pi_1","customer":{"id":"cus_1"},"latest_charge":"ch_1"}}}"#
        );
    }

    #[test]
    fn a_value_of_an_unexpected_shape_goes() {
        let body = r#"{"id":1,"cancel_reason":{"text":"Ann"},"line_items":"Ann","customer":"Ann"}"#;
        assert_eq!(
            scrubbed("orders/updated", body),
            r#"{"id":1,"cancel_reason":null,"line_items":null,"customer":null}"#
        );
        assert_eq!(scrub("customers/update", b"{}"), None);
        assert_eq!(scrub("orders/create", b"[1]"), None);
    }

    #[test]
    fn depth_is_harmless() {
        let deep = format!("{{\"id\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(scrubbed("orders/create", &deep), r#"{"id":null}"#);
    }
}
