//! The QR code of an order's public tracking page.

use config::Config;
use domain::order::OrderKey;
use qr::QrError;
use store::qr_codes::{self, QrCode};

/// A link and the modules of its QR code. It is drawn before the
/// transaction is opened, wherever it is known by then that the order is new.
#[derive(Clone)]
pub struct TrackingCode {
    url: String,
    modules: Vec<u8>,
}

impl TrackingCode {
    pub fn draw(config: &Config, order_id: i64) -> Result<Self, QrError> {
        let symbol = config.qr.order(&order_id.to_string())?;
        Ok(TrackingCode {
            url: symbol.url.clone(),
            modules: symbol.packed(),
        })
    }

    /// The row that keeps it.
    pub(super) fn row(&self, key: &OrderKey) -> QrCode {
        let (shop, order_id) = key;
        QrCode {
            shop: shop.clone(),
            order_id: *order_id,
            kind: qr_codes::TRACKING,
            url: self.url.clone(),
            modules: self.modules.clone(),
        }
    }
}
