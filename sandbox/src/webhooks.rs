//! Webhook deliveries as the providers send them, and the secrets with which they are signed.

use std::fmt;
use std::sync::Arc;

use domain::connection::{PAYMENT_PATH, STOREFRONT_PATH};
use domain::signature::sign_storefront;
use domain::time::Timestamp;

use crate::delivery_faults::DeliveryFaults;

const API_VERSION: &str = "2026-07";

/// Where webhooks are posted, and with which secrets and shop.
#[derive(Clone)]
pub struct Webhooks {
    /// Waybill's address. Webhooks are posted to `/api/webhooks/storefront` and
    /// `/api/webhooks/payment` below it.
    pub base_url: String,
    pub storefront_secret: String,
    pub payment_secret: String,
    /// The shop of an order that names no other.
    pub shop: String,
}

/// This Debug shows no secrets, so that none gets into logs.
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

/// One webhook. When it is sent again, it has the same id and body, and a new signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub sender: Sender,
    /// A storefront topic or a payment event type.
    pub topic: String,
    /// The storefront's webhook id, or the id of a payment event, which is also in the body.
    pub id: String,
    /// The shop of a storefront delivery.
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

    /// The path to which it is posted.
    pub fn path(&self) -> &'static str {
        match self.sender {
            Sender::Storefront => STOREFRONT_PATH,
            Sender::Payment => PAYMENT_PATH,
        }
    }

    /// All headers of a delivery that is sent at `now`, with its signature.
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
