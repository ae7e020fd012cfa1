//! Webhook deliveries as the providers send them, and what is needed to sign them.

use std::fmt;
use std::sync::Arc;

use domain::signature::sign_storefront;
use domain::time::Timestamp;

use crate::delivery_faults::DeliveryFaults;

const API_VERSION: &str = "2026-07";

/// Where webhooks go, and as whose.
#[derive(Clone)]
pub struct Webhooks {
    /// Waybill's; they go to `/api/webhooks/storefront` and `/api/webhooks/payment` under it.
    pub base_url: String,
    pub storefront_secret: String,
    pub payment_secret: String,
    /// The shop of an order for which no other is named.
    pub shop: String,
}

/// The secrets stay out of logs.
impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Webhooks { base_url, shop, .. } = self;
        write!(f, "Webhooks({base_url}, {shop})")
    }
}

/// A provider that sends webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Storefront,
    Payment,
}

/// One webhook. Sent again, it has the same id and body, and a signature of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub sender: Sender,
    /// A storefront topic or a payment event type.
    pub topic: String,
    /// The storefront's webhook id; the id of a payment event, which is in the body too.
    pub id: String,
    /// Of a storefront delivery.
    pub shop: String,
    pub body: Arc<str>,
}

impl Delivery {
    pub fn storefront(topic: &str, id: &str, shop: &str, body: impl Into<Arc<str>>) -> Self {
        Delivery {
            sender: Sender::Storefront,
            topic: topic.to_owned(),
            id: id.to_owned(),
            shop: shop.to_owned(),
            body: body.into(),
        }
    }

    pub fn payment(event_type: &str, id: &str, body: impl Into<Arc<str>>) -> Self {
        Delivery {
            sender: Sender::Payment,
            topic: event_type.to_owned(),
            id: id.to_owned(),
            shop: String::new(),
            body: body.into(),
        }
    }

    /// The path at Waybill.
    pub fn path(&self) -> &'static str {
        match self.sender {
            Sender::Storefront => "/api/webhooks/storefront",
            Sender::Payment => "/api/webhooks/payment",
        }
    }

    /// Signature and all, for a delivery sent at `now`.
    pub fn headers(&self, signed_as: &Webhooks, now: Timestamp) -> Vec<(&'static str, String)> {
        self.signed(signed_as, now, &DeliveryFaults::default())
    }

    pub(crate) fn signed(
        &self,
        signed_as: &Webhooks,
        now: Timestamp,
        delivery_faults: &DeliveryFaults,
    ) -> Vec<(&'static str, String)> {
        let body = self.body.as_bytes();
        let content_type = ("Content-Type", "application/json".to_owned());
        match self.sender {
            Sender::Storefront => {
                let signature = sign_storefront(&signed_as.storefront_secret, body);
                vec![
                    content_type,
                    ("X-Storefront-Topic", self.topic.clone()),
                    ("X-Storefront-Webhook-Id", self.id.clone()),
                    ("X-Storefront-Shop-Domain", self.shop.clone()),
                    ("X-Storefront-API-Version", API_VERSION.to_owned()),
                    ("X-Storefront-Hmac-Sha256", signature),
                ]
            }
            Sender::Payment => {
                let signature = delivery_faults.signature(&signed_as.payment_secret, now, body);
                vec![content_type, ("Payment-Signature", signature)]
            }
        }
    }
}
