//! Clients rely on the description of the API and on the shapes of the events. Both must be those
//! of `before/openapi.json`, which was recorded before types described them. Every change that was
//! made on purpose since then is listed here with its reason, and nothing else may differ.

use std::collections::{BTreeMap, BTreeSet};

use ingress::openapi::document;
use serde_json::{Value, json};

const BEFORE: &str = include_str!("before/openapi.json");

/// What was changed for one reason.
struct Change {
    why: &'static str,
    /// Places in the description, as [`parts`] names them, and what stands there now, as JSON;
    /// `None`: nothing any more.
    now: &'static [(&'static str, Option<&'static str>)],
}

const ON_PURPOSE: &[Change] = &[
    Change {
        why: "The audit is a transparency log alone, and no chain beside it.",
        now: &[(
            "/components/schemas/AuditEntry/properties/hash/description",
            Some(r#""The hash of this entry as a leaf of the log, in hex.""#),
        )],
    },
    Change {
        why: "A database that does not know every erasure of the journal is not served.",
        now: &[
            (
                "/components/schemas/Readiness/properties/erasures/description",
                Some(
                    r#""How the database and the journal of erasures stand to each other: `current`, or why the database is\nnot served: `older`, `incomplete`, `broken` or `unknown`.""#,
                ),
            ),
            (
                "/components/schemas/Readiness/properties/erasures/example",
                Some(r#""current""#),
            ),
            (
                "/components/schemas/Readiness/properties/erasures/type",
                Some(r#""string""#),
            ),
            (
                "/components/schemas/Readiness/properties/reason/description",
                Some(
                    r#""Why the database is not served, and what an operator is to do about it.""#,
                ),
            ),
            (
                "/components/schemas/Readiness/properties/reason/type",
                Some(r#"["null","string"]"#),
            ),
            (
                "/components/schemas/Readiness/required",
                Some(r#"["bus","database","erasures","reason","status"]"#),
            ),
            (
                "/paths/~1api~1commerce~1checkout/post/responses/503/description",
                Some(
                    r#""`A provider does not answer; try again with the same Idempotency-Key` (COMMERCE_003); `Checkout is not set up here: PAYMENT_API_URL and PAYMENT_API_KEY are not set`; `Checkout is set up wrongly here: an operator must correct PAYMENT_API_URL or STOREFRONT_API_URL, see the log; the Idempotency-Key can be used after that`; `Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`""#,
                ),
            ),
            (
                "/paths/~1api~1commerce~1orders~1{order_id}/get/responses/503/description",
                Some(
                    r#""`Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`""#,
                ),
            ),
            (
                "/paths/~1api~1commerce~1orders~1{order_id}~1parcels~1{tracking_number}~1qr.png/get/responses/503/description",
                Some(
                    r#""`Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`""#,
                ),
            ),
            (
                "/paths/~1api~1commerce~1orders~1{order_id}~1parcels~1{tracking_number}~1qr.svg/get/responses/503/description",
                Some(
                    r#""`Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`""#,
                ),
            ),
            (
                "/paths/~1api~1commerce~1orders~1{order_id}~1qr.png/get/responses/503/description",
                Some(
                    r#""`Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`""#,
                ),
            ),
            (
                "/paths/~1api~1commerce~1orders~1{order_id}~1qr.svg/get/responses/503/description",
                Some(
                    r#""`Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`""#,
                ),
            ),
            (
                "/paths/~1api~1commerce~1qr/post/responses/503/description",
                Some(
                    r#""`Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`""#,
                ),
            ),
            (
                "/paths/~1api~1privacy~1exports~1{id}/get/responses/503/description",
                Some(
                    r#""`Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`; `The export cannot be read now; the operator's log says why` (COMMERCE_007)""#,
                ),
            ),
            (
                "/paths/~1api~1privacy~1requests/get/responses/503/description",
                Some(
                    r#""`Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`""#,
                ),
            ),
            (
                "/paths/~1api~1privacy~1requests~1{id}/get/responses/503/description",
                Some(
                    r#""`Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`""#,
                ),
            ),
            (
                "/paths/~1api~1privacy~1requests~1{id}~1cancel/post/responses/503/description",
                Some(
                    r#""`Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`""#,
                ),
            ),
            (
                "/paths/~1api~1privacy~1requests~1{id}~1export-link/post/responses/503/description",
                Some(
                    r#""`Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`""#,
                ),
            ),
            (
                "/paths/~1api~1privacy~1requests~1{id}~1retry/post/responses/503/description",
                Some(
                    r#""`Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`""#,
                ),
            ),
            (
                "/paths/~1api~1webhooks~1payment/post/responses/503/description",
                Some(
                    r#""`Not accepted, try again later` (COMMERCE_009); `Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`""#,
                ),
            ),
            (
                "/paths/~1api~1webhooks~1payment/post/responses/503/headers/X-Error-Code/required",
                Some("false"),
            ),
            (
                "/paths/~1api~1webhooks~1storefront/post/responses/503/description",
                Some(
                    r#""`Not accepted, try again later` (COMMERCE_009); `Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`""#,
                ),
            ),
            (
                "/paths/~1api~1webhooks~1storefront/post/responses/503/headers/X-Error-Code/required",
                Some("false"),
            ),
            (
                "/paths/~1auth~1device~1code/post/responses/503/description",
                Some(
                    r#""`Login is not set up here`; `Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`; `The identity provider is not available, try again later`""#,
                ),
            ),
            (
                "/paths/~1auth~1device~1token/get/responses/503/description",
                Some(
                    r#""`Login is not set up here`; `Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`; `The identity provider is not available, try again later`""#,
                ),
            ),
            (
                "/paths/~1auth~1device~1token/post/responses/503/description",
                Some(
                    r#""`Login is not set up here`; `Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`; `The identity provider is not available, try again later`""#,
                ),
            ),
            (
                "/paths/~1auth~1validate/get/responses/503/description",
                Some(
                    r#""`Login is not set up here`; `Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`; `The identity provider is not available, try again later`""#,
                ),
            ),
            (
                "/paths/~1orders~1{order_id}~1track/get/responses/503/description",
                Some(
                    r#""`Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`""#,
                ),
            ),
            (
                "/paths/~1pay~1{order_id}/get/responses/503/description",
                Some(
                    r#""`Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`""#,
                ),
            ),
            (
                "/paths/~1readyz/get/responses/200/content/application~1json/example/erasures",
                Some(r#""current""#),
            ),
            (
                "/paths/~1readyz/get/responses/200/content/application~1json/example/reason",
                Some("null"),
            ),
            (
                "/paths/~1readyz/get/responses/503/content/application~1json/example/erasures",
                Some(r#""current""#),
            ),
            (
                "/paths/~1readyz/get/responses/503/content/application~1json/example/reason",
                Some("null"),
            ),
            (
                "/paths/~1readyz/get/responses/503/description",
                Some(
                    r#""`unavailable`: there is no database that takes writes, or it does not know every erasure of the journal, as `erasures` and `reason` say; or `stopping`: the process is about to end.""#,
                ),
            ),
            (
                "/paths/~1templates~1list/get/responses/503/description",
                Some(
                    r#""`Login is not set up here`; `Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`; `The identity provider is not available, try again later`""#,
                ),
            ),
            (
                "/paths/~1tracking~1{tracking_number}/get/responses/503/description",
                Some(
                    r#""`Not in use until the database is compared with the journal of erasures; nothing is lost, try again later. Operators: waybill doctor says what to do`; `Temporarily unavailable, try again later`""#,
                ),
            ),
        ],
    },
    Change {
        why: "A database that takes no writes counts apart from one that is away.",
        now: &[(
            "/components/schemas/Readiness/properties/database/description",
            Some(r#""`up`, `read_only` or `down`.""#),
        )],
    },
    Change {
        why: "Sentences say it in other words.",
        now: &[
            (
                "/components/schemas/Event.order.refund_recorded/properties/data/properties/amount/description",
                Some(
                    r#""how much is to go back: what was paid less what the storefront has refunded, as it says; `0.00` when all of it has""#,
                ),
            ),
            (
                "/components/schemas/PrivacyRequest/properties/warned_at/oneOf/0/description",
                Some(r#""When it was reported that seven days were left, 48 hours, and none.""#),
            ),
            (
                "/components/schemas/TierTerms/properties/price/description",
                Some(r#""As people read it.""#),
            ),
            (
                "/info/description",
                Some(
                    r#""Waybill takes the webhooks of a storefront and of a payment provider, logs devices in, and reports what became of orders, payments and requests about personal data.\n\nEvery answer carries `X-Request-Id`: the client's own, if it sent one of up to 128 letters, digits and `-_.:/+=`, else a new one. An error's body is `{\"detail\": \"<text>\"}`, of a device login also `error`; pages answer with a page. `X-Error-Code` holds the application code of errors that have one. Other paths are 404, other methods 405. Fields may be added to any answer: pass over what you do not know.""#,
                ),
            ),
            (
                "/paths/~1tracking~1{tracking_number}/get/description",
                Some(r#""It says nothing of their orders.""#),
            ),
            (
                "/tags/6/description",
                Some(
                    r#""What your own systems hear of: as messages of a broker, or read from here.""#,
                ),
            ),
            (
                "/webhooks/payment.agreement_changed/post/summary",
                Some(r#""Its agreement is another than was reported before""#),
            ),
        ],
    },
    Change {
        why: "`order.created`, `order.updated` and `order.paid` have one type of payload, so their fields have the same descriptions and examples.",
        now: &[
            (
                "/components/schemas/Event.order.paid/properties/data/properties/currency/description",
                Some(r#""ISO 4217, `EUR`""#),
            ),
            (
                "/components/schemas/Event.order.paid/properties/data/properties/financial_status/description",
                Some(
                    r#""the further on of what the storefront and the payments say: `pending`, `paid`, ..""#,
                ),
            ),
            (
                "/components/schemas/Event.order.paid/properties/data/properties/financial_status/example",
                Some(r#""pending""#),
            ),
            (
                "/components/schemas/Event.order.paid/properties/data/properties/fulfillment_status/description",
                Some(r#""as the storefront names it: `partial`, `fulfilled`, ..""#),
            ),
            (
                "/components/schemas/Event.order.paid/properties/data/properties/fulfillment_status/example",
                Some(r#""partial""#),
            ),
            (
                "/components/schemas/Event.order.updated/properties/data/properties/currency/description",
                Some(r#""ISO 4217, `EUR`""#),
            ),
            (
                "/components/schemas/Event.order.updated/properties/data/properties/financial_status/description",
                Some(
                    r#""the further on of what the storefront and the payments say: `pending`, `paid`, ..""#,
                ),
            ),
            (
                "/components/schemas/Event.order.updated/properties/data/properties/financial_status/example",
                Some(r#""pending""#),
            ),
            (
                "/components/schemas/Event.order.updated/properties/data/properties/fulfillment_status/description",
                Some(r#""as the storefront names it: `partial`, `fulfilled`, ..""#),
            ),
            (
                "/components/schemas/Event.order.updated/properties/data/properties/fulfillment_status/example",
                Some(r#""partial""#),
            ),
            (
                "/components/schemas/Event.order.updated/properties/data/properties/total_price/description",
                Some(r#""the order's total""#),
            ),
            (
                "/webhooks/order.paid/post/requestBody/content/application~1json/example/data/financial_status",
                Some(r#""pending""#),
            ),
            (
                "/webhooks/order.paid/post/requestBody/content/application~1json/example/data/fulfillment_status",
                Some(r#""partial""#),
            ),
            (
                "/webhooks/order.updated/post/requestBody/content/application~1json/example/data/financial_status",
                Some(r#""pending""#),
            ),
            (
                "/webhooks/order.updated/post/requestBody/content/application~1json/example/data/fulfillment_status",
                Some(r#""partial""#),
            ),
        ],
    },
    Change {
        why: "Numbers have the format and the least value of their types.",
        now: &[
            (
                "/components/schemas/Event.order.fulfillment_requested/properties/data/properties/lines/items/properties/quantity/format",
                Some(r#""int64""#),
            ),
            (
                "/components/schemas/Event.order.inventory_restocked/properties/data/properties/movements/items/properties/quantity/format",
                Some(r#""int64""#),
            ),
            (
                "/components/schemas/Event.privacy.request_held/properties/data/properties/customers/minimum",
                Some("0"),
            ),
            (
                "/components/schemas/Event.privacy.request_held/properties/data/properties/orders/minimum",
                Some("0"),
            ),
        ],
    },
    Change {
        why: "Both fields are times, which their type says now; the example of one was the name of a setting.",
        now: &[
            (
                "/components/schemas/Event.subscription.extended/properties/data/properties/grace_until/example",
                Some(r#""2026-11-20T14:24:45.002Z""#),
            ),
            (
                "/components/schemas/Event.subscription.extended/properties/data/properties/grace_until/format",
                Some(r#""date-time""#),
            ),
            (
                "/components/schemas/Event.subscription.extended/properties/data/properties/period_end/example",
                Some(r#""2026-11-20T14:24:45.002Z""#),
            ),
            (
                "/components/schemas/Event.subscription.extended/properties/data/properties/period_end/format",
                Some(r#""date-time""#),
            ),
            (
                "/webhooks/subscription.extended/post/requestBody/content/application~1json/example/data/grace_until",
                Some(r#""2026-11-20T14:24:45.002Z""#),
            ),
            (
                "/webhooks/subscription.extended/post/requestBody/content/application~1json/example/data/period_end",
                Some(r#""2026-11-20T14:24:45.002Z""#),
            ),
        ],
    },
    Change {
        why: "No text has a link that leads nowhere from here.",
        now: &[
            (
                "/components/schemas/Accepted/description",
                Some(r#""The answer to a delivery that was accepted.""#),
            ),
            (
                "/components/schemas/Event.order.created/properties/data/properties/financial_status/description",
                Some(
                    r#""the further on of what the storefront and the payments say: `pending`, `paid`, ..""#,
                ),
            ),
        ],
    },
    Change {
        why: "Ids are there as text too, for readers whose numbers end at 2^53.",
        now: &[
            (
                "/components/schemas/OrderLine/required",
                Some(
                    r#"["fulfillment_status","id","id_text","price","quantity","sku","title","variant_id","variant_id_text"]"#,
                ),
            ),
            (
                "/components/schemas/PrivacyRequest/required",
                Some(
                    r#"["alarmed_at","attempts","customer_id","customer_id_text","decided","due_at","export","finished_at","held","held_until","id","last_error","next_run_at","overdue_at","progress","receipt","received_at","repeats","shop","state","topic","warned_at"]"#,
                ),
            ),
            (
                "/components/schemas/Restocked/required",
                Some(r#"["line_id","line_id_text","quantity"]"#),
            ),
            (
                "/components/schemas/Shipment/required",
                Some(r#"["carrier","id","id_text","parcels","status","updated_at"]"#),
            ),
            (
                "/components/schemas/StorefrontRefund/required",
                Some(r#"["amount","id","id_text"]"#),
            ),
        ],
    },
    Change {
        why: "A wrong address of a provider is told from a provider that does not answer.",
        now: &[
            (
                "/paths/~1api~1commerce~1checkout/post/responses/503/content/application~1json/examples/CheckoutAddress/value/detail",
                Some(
                    r#""Checkout is set up wrongly here: an operator must correct PAYMENT_API_URL or STOREFRONT_API_URL, see the log; the Idempotency-Key can be used after that""#,
                ),
            ),
            (
                "/paths/~1api~1commerce~1checkout/post/responses/503/content/application~1json/examples/CheckoutAddress/value/message",
                Some(
                    r#""Checkout is set up wrongly here: an operator must correct PAYMENT_API_URL or STOREFRONT_API_URL, see the log; the Idempotency-Key can be used after that""#,
                ),
            ),
        ],
    },
    Change {
        why: "Metrics can be had as OpenMetrics.",
        now: &[(
            "/paths/~1metrics/get/description",
            Some(
                r#""Keep it from the public. With `Accept: application/openmetrics-text` it is OpenMetrics 1.0.""#,
            ),
        )],
    },
];

/// What there was nothing of before, with why it is there: nothing below these is compared.
const NEW: &[(&str, &[&str])] = &[
    (
        "Events can be read over HTTP.",
        &[
            "/paths/~1api~1events/",
            "/paths/~1api~1events~1stream/",
            "/components/schemas/Event/",
            "/components/schemas/EventList/",
        ],
    ),
    (
        "Events are sent to endpoints as webhooks.",
        &[
            "/paths/~1api~1endpoints/",
            "/paths/~1api~1endpoints~1{id}/",
            "/paths/~1api~1endpoints~1{id}~1pause/",
            "/paths/~1api~1endpoints~1{id}~1resume/",
            "/paths/~1api~1endpoints~1{id}~1rotate/",
            "/paths/~1api~1endpoints~1{id}~1test/",
            "/components/schemas/Endpoint/",
            "/components/schemas/EndpointRequest/",
            "/components/schemas/EndpointTest/",
            "/components/schemas/Endpoints/",
            "/components/schemas/NewEndpoint/",
            "/components/schemas/RotatedSecret/",
        ],
    ),
    (
        "Deliveries can be followed, and / says what runs here.",
        &["/paths/~1/", "/paths/~1api~1deliveries~1stream/"],
    ),
    (
        "Orders can be listed.",
        &[
            "/paths/~1api~1commerce~1orders/",
            "/components/schemas/ListedFulfillment/",
            "/components/schemas/ListedOrder/",
            "/components/schemas/OrderList/",
        ],
    ),
    (
        "OAuth clients find the endpoints of a login.",
        &[
            "/paths/~1.well-known~1oauth-authorization-server/",
            "/components/schemas/AuthorizationServer/",
        ],
    ),
    (
        "The events have a description of their own.",
        &["/paths/~1asyncapi.json/"],
    ),
    (
        "`waybill doctor` asks the service what it runs with.",
        &["/paths/~1doctor/", "/components/schemas/RunsWith/"],
    ),
    (
        "Metrics can be had as OpenMetrics.",
        &["/paths/~1metrics/get/responses/200/content/application~1openmetrics-text/"],
    ),
];

/// The same of what is in many places: how these begin, and what is in their middle or at their end.
const NEW_WITHIN: &[(&str, &str, &str)] = &[
    (
        "Ids are there as text too.",
        "/components/schemas/",
        "_text/",
    ),
    ("Ids are there as text too.", "/paths/", "/id_text"),
    ("Ids are there as text too.", "/paths/", "_id_text"),
    (
        "A message needs no credential.",
        "/webhooks/",
        "/post/security",
    ),
    ("Answers lead to further operations.", "/paths/", "/links/"),
    (
        "A database that does not know every erasure of the journal is not served.",
        "/paths/",
        "/responses/503/content/application~1json/examples/NotServed/",
    ),
];

/// Whether nothing was at this place before, and it is listed as new.
fn is_new(place: &str) -> bool {
    let mut places = NEW.iter().flat_map(|(_, places)| *places);
    let mut within = NEW_WITHIN.iter();
    places.any(|new| place.starts_with(new))
        || within.any(|(_, begin, part)| place.starts_with(begin) && place.contains(part))
}

/// The lists of a description whose order means nothing.
const SETS: [&str; 4] = ["required", "enum", "type", "security"];

/// Every value of the description by its place. The order of keys plays no part in it; the
/// parameters of an operation are known by their names, and the members of [`SETS`] are sorted.
fn parts(value: &Value, at: &str, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, field) in fields {
                parts(field, &format!("{at}/{}", name.replace('/', "~1")), found);
            }
        }
        Value::Array(items) if SETS.iter().any(|set| at.ends_with(&format!("/{set}"))) => {
            let mut items = items.clone();
            items.sort_by_key(ToString::to_string);
            found.insert(at.to_owned(), items.into());
        }
        Value::Array(items) if !items.is_empty() => {
            for (nth, item) in items.iter().enumerate() {
                let nth = nth.to_string();
                let name = match (&item["in"], &item["name"]) {
                    (Value::String(place), Value::String(name)) => format!("{place}:{name}"),
                    _ => nth,
                };
                parts(item, &format!("{at}/{name}"), found);
            }
        }
        leaf => {
            found.insert(at.to_owned(), leaf.clone());
        }
    }
}

fn parts_of(document: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    parts(document, "", &mut found);
    found
}

/// What differs and is not listed, and what is listed and does not differ.
fn differences(before: &Value, now: &Value, on_purpose: &[Change]) -> Vec<String> {
    let (before, now) = (parts_of(before), parts_of(now));
    let listed: Vec<_> = on_purpose.iter().flat_map(|change| change.now).collect();
    let mut found = Vec::new();
    let mut changed = BTreeSet::new();
    let places: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    for place in places {
        let (was, is) = (before.get(place), now.get(place));
        if was == is || (was.is_none() && is_new(place)) {
            continue;
        }
        changed.insert(place.as_str());
        let listed = listed.iter().find(|(at, _)| at == place);
        let meant = listed.map(|(_, now)| now.map(parsed));
        if meant.as_ref().map(Option::as_ref) != Some(is) {
            found.push(format!("{place}: was {}, is {}", json!(was), json!(is)));
        }
    }
    for (at, _) in listed.iter().filter(|(at, _)| !changed.contains(at)) {
        found.push(format!("{at}: listed as changed, but is as before"));
    }
    assert!(on_purpose.iter().all(|change| !change.why.is_empty()));
    found
}

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

#[test]
fn the_description_and_the_events_are_as_before_but_for_what_is_listed() {
    let now = document("http://127.0.0.1:8000");
    let found = differences(&parsed(BEFORE), &now, ON_PURPOSE);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_changed_field_status_code_event_or_text_is_a_difference() {
    let before = parsed(BEFORE);
    let schema = "/components/schemas/Event.order.refund_issued/properties/data";
    let not_found = "/paths/~1api~1commerce~1orders~1{order_id}/get/responses/404";
    for (place, name) in [
        (format!("{schema}/properties"), "amount"),
        (format!("{schema}/properties/amount"), "type"),
        (format!("{schema}/properties/amount"), "description"),
        (schema.to_owned(), "required"),
        (not_found.replace("/404", ""), "404"),
        (format!("{not_found}/headers/X-Error-Code/schema"), "enum"),
        ("/webhooks".to_owned(), "order.created"),
        ("/webhooks/order.created/post".to_owned(), "summary"),
        ("/paths".to_owned(), "/auth/validate"),
    ] {
        let mut now = before.clone();
        let fields = now.pointer_mut(&place).unwrap().as_object_mut().unwrap();
        let removed = fields.remove(name).unwrap();
        assert!(
            !differences(&before, &now, &[]).is_empty(),
            "{place} {name}"
        );
        let fields = now.pointer_mut(&place).unwrap().as_object_mut().unwrap();
        fields.insert(format!("{name}_2"), removed);
        let found = differences(&before, &now, &[]);
        assert!(found.len() >= 2, "{place} {name}: {found:?}");
    }
}

#[test]
fn a_listed_change_must_be_the_one_that_was_made() {
    let (before, now) = (json!({"a": 1, "b": [1]}), json!({"a": 2}));
    let why = "for a test";
    let meant = |now| [Change { why, now }];
    assert_eq!(differences(&before, &now, &[]).len(), 2);
    let both = meant(&[("/a", Some("2")), ("/b/0", None)]);
    assert_eq!(differences(&before, &now, &both), Vec::<String>::new());
    let other = meant(&[("/a", Some("3")), ("/b/0", None)]);
    assert_eq!(differences(&before, &now, &other).len(), 1);
    let stale = meant(&[("/c", None)]);
    assert_eq!(differences(&before, &now, &stale).len(), 3);
}
