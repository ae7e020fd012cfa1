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
    let each = || shipments.iter().map(|(_, _, part)| *part);
    let lines: Vec<String> = each()
        .map(|part| json(&part.value.lines))
        .collect::<Result<_>>()?;
    let columns = [
        column(
            "shop",
            shipments.iter().map(|((shop, _), ..)| shop.as_str()),
        ),
        column("order_id", shipments.iter().map(|((_, id), ..)| *id)),
        column("id", shipments.iter().map(|(_, id, _)| *id)),
        column("version_at", each().map(|part| part.version.at)),
        column("version_tie", each().map(|part| part.version.tie)),
        column("status", each().map(|part| part.value.status.as_deref())),
        column("carrier", each().map(|part| part.value.carrier.as_deref())),
        column("lines", lines.iter().map(String::as_str)),
        column("updated_at", shipments.iter().map(|_| now.0)),
    ];
    tx.insert(
        "shipments",
        &columns,
        "on conflict (shop, order_id, id) do update
         set version_at = excluded.version_at, version_tie = excluded.version_tie,
             status = excluded.status, carrier = excluded.carrier, lines = excluded.lines,
             updated_at = excluded.updated_at",
    )
    .await?;
    Ok(())
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
    let qr = || parcels.iter().map(|parcel| parcel.qr.as_ref());
    let columns = [
        column("shop", parcels.iter().map(|parcel| parcel.key.0.as_str())),
        column("order_id", parcels.iter().map(|parcel| parcel.key.1)),
        column("shipment_id", parcels.iter().map(|it| it.shipment_id)),
        column("position", parcels.iter().map(|parcel| parcel.position)),
        column(
            "number",
            parcels.iter().map(|it| it.tracking.number.as_str()),
        ),
        column("url", parcels.iter().map(|it| it.tracking.url.as_deref())),
        column("qr_url", qr().map(|qr| qr.map(|(url, _)| url.as_str()))),
        column("qr_modules", qr().map(|qr| qr.map(|(_, it)| it.as_slice()))),
        column("created_at", parcels.iter().map(|_| now.0)),
    ];
    tx.insert(
        "parcels",
        &columns,
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
            "select shipments.shop as shop, shipments.order_id as order_id, shipments.id as id, version_at, version_tie,
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
            "select shipments.id as id, status, carrier, shipments.updated_at as updated_at,
                    number, url, qr_url
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
                updated_at: Timestamp(row.get("updated_at")?),
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
