//! `POST /api/commerce/qr` draws QR codes (docs/commerce.md). It stores nothing, and an order with the id need not exist.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use providers::payment::CURRENCIES;
use qr::{Format, QrConfig, QrConfigError, QrError, QrResult, Symbol, parse_amount, round_amount};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use store::public_orders;

use crate::App;
use crate::api_key::{Holder, QrWrite};
use crate::body::Given;
use crate::database;
use crate::error::Error;
use crate::openapi::bodies;
use crate::openapi::operation::{Operation, post, tagged};

/// The largest body: far more than the largest symbol can hold.
const LARGEST_BODY: usize = 64 * 1024;

pub fn routes() -> Vec<Operation> {
    let order = json!({"kind": "order", "order_id": "1001"});
    let payment = json!({
        "kind": "payment", "order_id": "1001", "amount": "19.90", "currency": "EUR",
        "format": "SVG",
    });
    let create = post("/api/commerce/qr", create)
        .is("drawQr", "Draw a QR code")
        .about(
            "Nothing is stored, and the order or parcel need not exist. What another kind needs is \
             passed over. Fields may be in camelCase too; one that is not known is refused. How much \
             text fits depends on the level: 2,953 bytes at `L`, 1,273 at `H`.",
        )
        .takes(&bodies::one(
            "QrRequest",
            [("order", order), ("payment", payment)],
        ))
        .answers::<QrResult>(200, "The picture, and what it leads to.")
        .errors(&[
            Error::Qr(QrError::Empty("order_id")),
            Error::Qr(QrError::AmountNotPositive),
            Error::Qr(QrError::CurrencyNotSupported),
            Error::Qr(QrError::UnknownKind),
            Error::QrSize(QrConfigError::BoxSize(101)),
        ]);
    tagged("Orders", [create])
}

/// What is to be encoded, and how it is drawn. What another kind needs is passed over.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QrRequest {
    /// `order`, `payment`, `package` or `custom`.
    pub kind: Option<String>,
    /// The order of a code of type `order` or `payment`.
    #[serde(alias = "orderId")]
    pub order_id: Option<Id>,
    /// The parcel's number of a code of type `package`.
    #[serde(alias = "trackingNumber")]
    pub tracking_number: Option<String>,
    /// The content of a code of type `custom`.
    pub data: Option<String>,
    /// The amount of a code of type `payment`: a number, which is rounded to two decimals, or a decimal as text, which is
    /// taken exactly.
    pub amount: Option<Box<RawValue>>,
    /// The currency of a code of type `payment`.
    pub currency: Option<String>,
    /// `PNG` (the default) or `SVG`.
    pub format: Option<String>,
    /// `L`, `M`, `Q` or `H`; without it as `QR_ERROR_CORRECTION` says.
    #[serde(alias = "errorCorrection")]
    pub error_correction: Option<String>,
    /// Pixels a box.
    #[serde(alias = "boxSize")]
    pub box_size: Option<u32>,
    /// Boxes around the symbol.
    pub border: Option<u32>,
}

/// An order's id, which some write as a number.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Id {
    Text(String),
    Number(i64),
}

pub async fn create(
    _key: Holder<QrWrite>,
    State(app): State<Arc<App>>,
    Given(request): Given<QrRequest, LARGEST_BODY>,
) -> Result<Json<QrResult>, Error> {
    let code = match request.order() {
        Some(id) => database::step(public_orders::page_code_of_id(&app.db, id)).await?,
        None => None,
    };
    // Making one of the largest symbols takes some milliseconds.
    let drawn = tokio::task::spawn_blocking(move || {
        let format = request.format()?;
        let qr = app.config.qr.opened_by(code.as_deref());
        Ok(request.symbol(&qr)?.result(format))
    });
    drawn.await.map_err(|_| Error::Internal)?.map(Json)
}

impl QrRequest {
    fn format(&self) -> Result<Format, QrError> {
        let format = self.format.as_deref();
        format.map_or(Ok(Format::Png), |name| name.to_ascii_uppercase().parse())
    }

    /// The order to whose page it leads.
    fn order(&self) -> Option<i64> {
        match self.order_id.as_ref()? {
            Id::Text(id) => id.parse().ok(),
            Id::Number(id) => Some(*id),
        }
    }

    fn symbol(&self, config: &QrConfig) -> Result<Symbol, Error> {
        let config = self.drawn_as(config)?;
        let order_id = match &self.order_id {
            Some(Id::Text(id)) => id.clone(),
            Some(Id::Number(id)) => id.to_string(),
            None => String::new(),
        };
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let symbol = match self.kind.as_deref() {
            Some("order") => config.order(&order_id)?,
            Some("package") => config.package(&text(&self.tracking_number))?,
            Some("custom") => config.custom(&text(&self.data))?,
            Some("payment") => {
                let currency = text(&self.currency).to_ascii_uppercase();
                let amount = self.amount()?;
                let symbol = config.payment(&order_id, amount, &currency)?;
                if !CURRENCIES.contains(&currency.as_str()) {
                    return Err(QrError::CurrencyNotSupported.into());
                }
                symbol
            }
            _ => return Err(QrError::UnknownKind.into()),
        };
        Ok(symbol)
    }

    fn drawn_as(&self, config: &QrConfig) -> Result<QrConfig, Error> {
        let mut config = config.clone();
        if let Some(level) = &self.error_correction {
            let level = level.to_ascii_uppercase().parse();
            config = config.at_level(level.map_err(Error::Qr)?);
        }
        let sized = config.sized(self.box_size, self.border);
        sized.map_err(|wrong| {
            wrong
                .first()
                .map_or(Error::Internal, |it| Error::QrSize(*it))
        })
    }

    /// The amount in hundredths.
    fn amount(&self) -> Result<i64, QrError> {
        let raw = self.amount.as_ref().map_or("", |raw| raw.get());
        if raw.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
            return round_amount(raw);
        }
        let text: Result<String, _> = serde_json::from_str(raw);
        parse_amount(text.as_deref().unwrap_or(raw))
    }
}
