//! The operations to which the providers post.

use std::time::Duration;

use serde_json::json;

use super::bodies;
use super::operation::{Operation, in_header, post};
use crate::error::Error;
use crate::routes::Accepted;

const WAIT: Duration = Duration::from_secs(1);

/// The errors of every delivery, in the order of the checks.
const OF_A_DELIVERY: [Error; 8] = [
    Error::ContentEncoding,
    Error::BodyTooLarge,
    Error::BodyTooSlow,
    Error::BodyIncomplete,
    Error::RateLimited(WAIT),
    Error::NotJson,
    Error::NotAnObject,
    Error::NotAccepted,
];

const OF_THE_STOREFRONT: [Error; 9] = [
    Error::StorefrontSignature,
    Error::TopicHeader,
    Error::ShopHeader,
    Error::ShopUnknown,
    Error::WebhookIdHeader,
    Error::Envelope,
    Error::PrivacyBody,
    Error::PrivacyShop,
    Error::Duplicate,
];

pub fn operations() -> Vec<Operation> {
    let text = json!({"type": "string"});
    let topic = json!({"type": "string", "minLength": 1, "maxLength": 100, "pattern": "^[A-Za-z0-9/._-]+$"});
    let id = json!({"type": "string", "maxLength": 255, "pattern": "^[!-~]*$"});
    let domain = json!({"type": "string", "maxLength": 255, "pattern": "^[A-Za-z0-9._:-]*$"});
    let mut topic = in_header(
        "X-Storefront-Topic",
        "The event's topic. One that is not known is accepted and kept.",
        &topic,
        "orders/create",
    );
    topic["required"] = true.into();
    let headers = [
        topic,
        in_header(
            "X-Storefront-Webhook-Id",
            "The delivery's id: a second delivery with it is 409.",
            &id,
            "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043",
        ),
        in_header(
            "X-Storefront-Shop-Domain",
            "The shop. It is not signed: set `STOREFRONT_SHOPS`.",
            &domain,
            "shop.example",
        ),
        in_header(
            "X-Storefront-API-Version",
            "The provider's API version.",
            &text,
            "2026-10",
        ),
    ];
    let storefront = delivery(post(
        "/api/webhooks/storefront",
        "receiveStorefrontWebhook",
        "A delivery of the storefront",
    ))
    .needs("storefrontSignature")
    .about(
        "Topics that are acted on: `orders/create`, `orders/updated`, `orders/paid`, `orders/fulfilled`, \
         `orders/cancelled`, `customers/data_request`, `customers/redact`, `shop/redact`. Bodies of orders are read \
         by need: a field that is missing or of another kind does not make them fail. A privacy topic needs \
         its own body, of the shop that the header names.",
    )
    .parameters(headers)
    .takes(bodies::storefront())
    .errors(&OF_THE_STOREFRONT);
    let payment = delivery(post(
        "/api/webhooks/payment",
        "receivePaymentEvent",
        "An event of the payment provider",
    ))
    .needs("paymentSignature")
    .about(
        "Types that are acted on: `payment_intent.succeeded`, `payment_intent.payment_failed`, \
         `payment_intent.canceled`, `charge.refunded`, `checkout.session.completed`, `invoice.payment_succeeded`. An event \
         that came before is answered like a new one.",
    )
    .takes(bodies::payment())
    .errors(&[Error::PaymentSignature, Error::Envelope]);
    vec![storefront, payment]
}

fn delivery(operation: Operation) -> Operation {
    operation
        .tag("Webhooks")
        .answers::<Accepted>(200, "It is committed, or needs not be.")
        .errors(&OF_A_DELIVERY)
}
