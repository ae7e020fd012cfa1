//! The `qr_codes` table: the QR code of an order's tracking link, which is made once. It stores
//! the modules, and a picture is drawn from them when somebody asks for it.

use crate::sql::{Db, Result, Tx, column};
use domain::time::Timestamp;

/// The QR code of an order's public tracking page.
pub const TRACKING: &str = "tracking";

#[derive(Clone, Debug)]
pub struct QrCode {
    pub shop: String,
    pub order_id: i64,
    pub kind: &'static str,
    pub url: String,
    /// The packed modules; see `Symbol::packed`.
    pub modules: Vec<u8>,
}

/// Stores QR codes. One that exists already stays, because it may have been printed.
pub async fn insert(tx: &mut Tx, codes: &[QrCode], now: Timestamp) -> Result<()> {
    let rows = codes.iter().map(|code| {
        [
            column("shop", &code.shop),
            column("order_id", code.order_id),
            column("kind", code.kind),
            column("url", &code.url),
            column("modules", &code.modules),
            column("created_at", now),
        ]
    });
    tx.insert(
        "qr_codes",
        rows.collect(),
        "on conflict (shop, order_id, kind) do nothing",
    )
    .await?;
    Ok(())
}

/// The link and the modules of an order's QR code.
pub async fn find(
    db: &Db,
    shop: &str,
    order_id: i64,
    kind: &str,
) -> Result<Option<(String, Vec<u8>)>> {
    db.query("select url, modules from qr_codes where shop = $1 and order_id = $2 and kind = $3")
        .bind(shop)
        .bind(order_id)
        .bind(kind)
        .first(|row| Ok((row.get("url")?, row.get("modules")?)))
        .await
}

/// The paths in the commerce API of an order's QR code, or of the one of its parcel with this number, as PNG and
/// as SVG.
pub(crate) fn paths(shop: &str, order_id: i64, parcel: Option<&str>) -> [String; 2] {
    let shop = percent(shop);
    let parcel = parcel.map_or(String::new(), |it| format!("parcels/{}/", percent(it)));
    ["png", "svg"]
        .map(|form| format!("/api/commerce/orders/{order_id}/{parcel}qr.{form}?shop={shop}"))
}

fn percent(text: &str) -> String {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    const KEPT: &percent_encoding::AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(text, KEPT).to_string()
}
