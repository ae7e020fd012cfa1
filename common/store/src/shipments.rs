//! The `shipments` and `parcels` tables: the shipments of an order, which the storefront calls
//! fulfilments, and their tracking numbers, each with the QR code of its public page.

use serde::Serialize;
use utoipa::ToSchema;

use crate::sql::{Db, Result, Row, Tx, column};
use crate::{json, parsed, qr_codes};
use domain::order::OrderKey;
use domain::order::Tracking;
use domain::order::record::{Part, Shipment, Version};
use domain::time::Timestamp;

/// A shipment to be written: the key of its order, its id, and its newest version.
pub type NewShipment<'a> = (&'a OrderKey, i64, &'a Part<Shipment>);

/// Writes shipments, replacing what was stored.
pub async fn save(tx: &mut Tx, shipments: &[NewShipment<'_>], now: Timestamp) -> Result<()> {
    let rows = shipments.iter().map(|((shop, order_id), id, part)| {
        Ok([
            column("shop", shop),
            column("order_id", *order_id),
            column("id", *id),
            column("version_at", part.version.at),
            column("version_tie", part.version.tie),
            column("status", &part.value.status),
            column("carrier", &part.value.carrier),
            column("lines", json(&part.value.lines)?),
            column("updated_at", now),
        ])
    });
    let rows = rows.collect::<Result<_>>()?;
    tx.overwrite("shipments", "shop, order_id, id", rows, "")
        .await
}

/// A tracking number to be written.
pub struct NewParcel<'a> {
    pub key: &'a OrderKey,
    pub shipment_id: i64,
    pub position: i64,
    pub tracking: &'a Tracking,
    /// The link and the modules of its QR code. None when the number does not fit into a link.
    pub qr: Option<(String, Vec<u8>)>,
}

/// Writes parcels. A QR code that exists already stays, because it may have been printed.
pub async fn save_parcels(tx: &mut Tx, parcels: &[NewParcel<'_>], now: Timestamp) -> Result<()> {
    let rows = parcels.iter().map(|it| {
        let (url, modules) = it.qr.clone().unzip();
        [
            column("shop", &it.key.0),
            column("order_id", it.key.1),
            column("shipment_id", it.shipment_id),
            column("position", it.position),
            column("number", &it.tracking.number),
            column("url", &it.tracking.url),
            column("qr_url", url),
            column("qr_modules", modules),
            column("created_at", now),
        ]
    });
    tx.insert(
        "parcels",
        rows.collect(),
        "on conflict (shop, order_id, shipment_id, number) do update
         set position = excluded.position, url = excluded.url",
    )
    .await?;
    Ok(())
}

/// Deletes tracking numbers that a shipment no longer has.
pub async fn delete_parcels(
    tx: &mut Tx,
    key: &OrderKey,
    shipment_id: i64,
    numbers: Vec<String>,
) -> Result<()> {
    tx.query(
        "delete from parcels
         where shop = $1 and order_id = $2 and shipment_id = $3 and number in ($4..)",
    )
    .bind(key.0.as_str())
    .bind(key.1)
    .bind(shipment_id)
    .bind(numbers)
    .done()
    .await
}

/// The shipments of orders, each with the key of its order and its own id, sorted by both.
pub async fn of(
    tx: &mut Tx,
    orders: Vec<OrderKey>,
) -> Result<Vec<(OrderKey, i64, Part<Shipment>)>> {
    let rows = tx
        .query(
            "select shipments.shop, shipments.order_id, shipments.id, version_at, version_tie,
                    status, carrier, lines, number, url
             from shipments
             left join parcels
               on parcels.shop = shipments.shop and parcels.order_id = shipments.order_id
              and parcels.shipment_id = shipments.id
             where (shipments.shop, shipments.order_id) in ($1..)
             order by shipments.shop, shipments.order_id, shipments.id, position",
        )
        .bind(orders)
        .fetch_all()
        .await?;
    let mut shipments: Vec<(OrderKey, i64, Part<Shipment>)> = Vec::new();
    for row in &rows {
        let (key, id) = ((row.get("shop")?, row.get("order_id")?), row.get("id")?);
        let last = shipments.last();
        if last.is_none_or(|(last, last_id, _)| (last, *last_id) != (&key, id)) {
            shipments.push((key, id, read(row)?));
        }
        let number: Option<String> = row.get("number")?;
        if let (Some(number), Some((.., part))) = (number, shipments.last_mut()) {
            let url = row.get("url")?;
            part.value.tracking.push(Tracking { number, url });
        }
    }
    Ok(shipments)
}

fn read(row: &Row) -> Result<Part<Shipment>> {
    Ok(Part {
        version: Version {
            at: row.get("version_at")?,
            tie: row.get("version_tie")?,
        },
        value: Shipment {
            status: row.get("status")?,
            carrier: row.get("carrier")?,
            tracking: Vec::new(),
            lines: parsed(&row.get::<String>("lines")?)?,
        },
    })
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Shipment)]
pub struct StoredShipment {
    #[schema(example = 1_069_019_909)]
    pub id: i64,
    /// The same as text, for readers whose numbers end at 2^53.
    #[schema(example = "1069019909")]
    pub id_text: String,
    /// The storefront's word: `success`, `pending`, `cancelled`, ..
    #[schema(example = "success")]
    pub status: Option<String>,
    #[schema(example = "Sample Post")]
    pub carrier: Option<String>,
    pub parcels: Vec<StoredParcel>,
    pub updated_at: Timestamp,
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Parcel)]
pub struct StoredParcel {
    #[schema(example = "SP0042")]
    pub tracking_number: String,
    /// The carrier's own page. It may hold the recipient's postcode.
    #[schema(example = "https://post.example/t/SP0042")]
    pub tracking_url: Option<String>,
    /// What the parcel's QR code leads to; null: its number fits none.
    #[schema(example = "https://waybill.example/tracking/SP0042")]
    pub page_url: Option<String>,
    #[schema(
        example = "https://waybill.example/api/commerce/orders/820982911946154508/parcels/SP0042/qr.png?shop=shop.example"
    )]
    pub qr_png: Option<String>,
    #[schema(
        example = "https://waybill.example/api/commerce/orders/820982911946154508/parcels/SP0042/qr.svg?shop=shop.example"
    )]
    pub qr_svg: Option<String>,
}

/// The shipments of one order.
pub async fn list(db: &Db, shop: &str, order_id: i64) -> Result<Vec<StoredShipment>> {
    let rows = db
        .query(
            "select shipments.id, status, carrier, shipments.updated_at, number, url, qr_url
             from shipments
             left join parcels
               on parcels.shop = shipments.shop and parcels.order_id = shipments.order_id
              and parcels.shipment_id = shipments.id
             where shipments.shop = $1 and shipments.order_id = $2
             order by shipments.id, position",
        )
        .bind(shop)
        .bind(order_id)
        .fetch_all()
        .await?;
    let mut shipments: Vec<StoredShipment> = Vec::new();
    for row in &rows {
        let id: i64 = row.get("id")?;
        if shipments.last().is_none_or(|shipment| shipment.id != id) {
            shipments.push(StoredShipment {
                id,
                id_text: id.to_string(),
                status: row.get("status")?,
                carrier: row.get("carrier")?,
                parcels: Vec::new(),
                updated_at: row.get("updated_at")?,
            });
        }
        let number: Option<String> = row.get("number")?;
        if let (Some(tracking_number), Some(shipment)) = (number, shipments.last_mut()) {
            let page_url: Option<String> = row.get("qr_url")?;
            let paths = qr_codes::paths(shop, order_id, Some(&tracking_number));
            let [qr_png, qr_svg] = paths.map(|path| page_url.as_ref().map(|_| path));
            shipment.parcels.push(StoredParcel {
                tracking_number,
                tracking_url: row.get("url")?,
                page_url,
                qr_png,
                qr_svg,
            });
        }
    }
    Ok(shipments)
}

/// The link and the modules of the QR code of an order's parcel.
pub async fn code(
    db: &Db,
    shop: &str,
    order_id: i64,
    number: &str,
) -> Result<Option<(String, Vec<u8>)>> {
    db.query(
        "select qr_url, qr_modules from parcels
         where shop = $1 and order_id = $2 and number = $3 and qr_modules is not null
         order by shipment_id
         limit 1",
    )
    .bind(shop)
    .bind(order_id)
    .bind(number)
    .first(|row| Ok((row.get("qr_url")?, row.get("qr_modules")?)))
    .await
}
