//! How the `orders` table is read. [`records`] writes it, [`view`] has an order as API clients
//! see it, and [`list`] lists orders.

mod cursor;
pub mod list;
pub mod records;
pub mod view;
pub mod whose;

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Serialize;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use self::view::{Order, StorefrontRefund, Successor, Tracking};
use crate::fulfillment_cycles::{self, StoredCycle};
use crate::sql::{Db, Result, Row, Tx};
use crate::{inventory, order_lines, parsed, payments, qr_codes, refunds, shipments};
use domain::money::{Currency, Money};
use domain::order::outcome::PAYMENT_CANCELED;
use domain::order::record::Returned;
use domain::order::{FinancialStatus, OrderKey, settlement};
use domain::time::Timestamp;

/// The shop of placeholders, which are the orders that checkout sessions made.
pub const CHECKOUT: &str = "checkout";

/// The key of the order that a checkout session makes. It is made of the agreement, or of the
/// session's own id when it names no agreement, so all events of a session lead to the same
/// order, however often and in whatever sequence they come.
pub fn checkout_key(agreement: &str) -> OrderKey {
    let hash = Sha256::digest(agreement);
    let id = u64::from_be_bytes(hash[..8].try_into().expect("eight bytes")) >> 2;
    let id = i64::try_from(id).expect("62 bits").max(1);
    (CHECKOUT.to_owned(), id)
}

/// The shops that have an order with this id, at most two of them.
pub async fn shops(tx: &mut Tx, id: i64) -> Result<Vec<String>> {
    tx.query("select shop from orders where id = $1 order by shop limit 2")
        .bind(id)
        .all(|row| row.get("shop"))
        .await
}

/// The shops that have an order with this id, at most `limit` of them, for somebody who has to
/// name one.
pub async fn places(db: &Db, id: i64, limit: i64) -> Result<Vec<String>> {
    db.query("select shop from orders where id = $1 order by shop limit $2")
        .bind(id)
        .bind(limit)
        .all(|row| row.get("shop"))
        .await
}

/// Those of the ids for which the shop has an order that is not cancelled.
pub async fn standing(tx: &mut Tx, shop: &str, ids: Vec<i64>) -> Result<HashSet<i64>> {
    tx.query("select id from orders where shop = $1 and cancelled_at is null and id in ($2..)")
        .bind(shop)
        .bind(ids)
        .all(|row| row.get("id"))
        .await
}

/// An order that claims an agreement.
#[derive(Clone)]
pub struct Claim {
    pub key: OrderKey,
    pub name: Option<String>,
    pub email: Option<String>,
    pub total: Option<Money>,
    pub is_cancelled: bool,
    pub is_paid: bool,
    /// True when the order claims the agreement by its own id, which buyers cannot write.
    pub is_by_id: bool,
}

/// The orders that claim these agreements, by agreement. An order claims the agreement that its
/// attribute names, or, without the attribute, the one named like its id. On some storefronts
/// buyers can write the attribute, so a claim by id comes before a claim by attribute. A
/// placeholder gives way to the storefront's own order, even if the amounts differ, because the
/// provider's page may have added tax and shipping or taken off a discount.
pub async fn of_agreements(
    tx: &mut Tx,
    agreements: Vec<String>,
) -> Result<HashMap<String, Vec<Claim>>> {
    if agreements.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<i64> = agreements
        .iter()
        .filter_map(|agreement| order_id(agreement))
        .collect();
    let mut rows = Vec::new();
    if !ids.is_empty() {
        rows = tx.query(BY_ID).bind(ids).fetch_all().await?;
    }
    rows.extend(tx.query(BY_NAME).bind(agreements).fetch_all().await?);
    let mut claims: HashMap<String, Vec<Claim>> = HashMap::new();
    for row in &rows {
        let (name, claim): (Option<String>, Claim) = (row.get("pact_id")?, claim(row)?);
        let agreement = name.unwrap_or_else(|| claim.key.1.to_string());
        claims.entry(agreement).or_default().push(claim);
    }
    claims.values_mut().for_each(weigh);
    Ok(claims)
}

/// True when one of these agreements, or the agreement of one of these payments, sessions or
/// subscriptions, belongs to an order of somebody whose data was not erased.
pub async fn is_of_somebody(
    tx: &mut Tx,
    agreements: &BTreeSet<String>,
    ids: &BTreeSet<String>,
) -> Result<bool> {
    let mut agreements = agreements.clone();
    for sql in payments::AGREEMENTS {
        let ids: Vec<String> = ids.iter().cloned().collect();
        for row in tx.query(sql).bind(ids).fetch_all().await? {
            agreements.insert(row.get("pact_id")?);
        }
    }
    let claims = of_agreements(tx, agreements.into_iter().collect()).await?;
    for claims in claims.values() {
        let [Claim { key, .. }] = claims.as_slice() else {
            continue;
        };
        if key.0 == CHECKOUT {
            continue;
        }
        let row = tx
            .query("select id from orders where shop = $1 and id = $2 and redacted_at is null")
            .bind(key.0.as_str())
            .bind(key.1)
            .fetch_optional()
            .await?;
        if row.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The owner of an agreement: the order that claims it, if only one does.
pub async fn owner(db: &Db, pact_id: &str) -> Result<Option<Claim>> {
    let ids: Vec<i64> = order_id(pact_id).into_iter().collect();
    let mut rows = db.query(BY_ID).bind(ids).fetch_all().await?;
    let named = db.query(BY_NAME).bind(vec![pact_id.to_owned()]);
    rows.extend(named.fetch_all().await?);
    let mut claims = rows.iter().map(claim).collect::<Result<Vec<_>>>()?;
    weigh(&mut claims);
    Ok(claims.pop().filter(|_| claims.is_empty()))
}

const BY_ID: &str = "select pact_id, shop, id, name, email, currency, total_minor, cancelled_at,
                            was_paid + payment_covers as paid, 1 as by_id
                     from orders where pact_id is null and id in ($1..)
                     order by shop";

/// At most four orders of each agreement are read, because more claims decide nothing else.
const BY_NAME: &str = "select pact_id, shop, id, name, email, currency, total_minor, cancelled_at,
                              paid, by_id
                       from (
                           select pact_id, shop, id, name, email, currency, total_minor,
                                  cancelled_at, was_paid + payment_covers as paid, 0 as by_id,
                                  row_number() over (partition by pact_id order by shop, id) as nth
                           from orders where pact_id in ($1..)
                       ) claims
                       where nth <= 4
                       order by shop, id";

fn order_id(pact_id: &str) -> Option<i64> {
    let id = pact_id.parse::<i64>().ok();
    id.filter(|id| id.to_string() == pact_id)
}

/// Leaves only the claims that count, by the rules that [`of_agreements`] describes.
fn weigh(claims: &mut Vec<Claim>) {
    if claims.iter().any(|claim| claim.is_by_id) {
        claims.retain(|claim| claim.is_by_id || claim.key.0 == CHECKOUT);
    }
    let (placeholders, others): (Vec<&Claim>, Vec<&Claim>) =
        claims.iter().partition(|claim| claim.key.0 == CHECKOUT);
    if let ([_], [_]) = (placeholders.as_slice(), others.as_slice()) {
        claims.retain(|claim| claim.key.0 != CHECKOUT);
    }
}

fn claim(row: &Row) -> Result<Claim> {
    let currency: Option<String> = row.get("currency")?;
    let currency = currency.and_then(|code| Currency::parse(&code));
    let total: Option<i64> = row.get("total_minor")?;
    Ok(Claim {
        key: (row.get("shop")?, row.get("id")?),
        name: row.get("name")?,
        email: row.get("email")?,
        total: total
            .zip(currency)
            .map(|(minor, currency)| Money { minor, currency }),
        is_cancelled: row.get::<Option<i64>>("cancelled_at")?.is_some(),
        is_paid: row.get::<i64>("paid")? != 0,
        is_by_id: row.get::<i64>("by_id")? != 0,
    })
}

/// What Waybill has asked for an order, and since when.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Fulfillment {
    /// `initiated`, `requested`, `fulfilled` or `cancelled`.
    #[schema(example = "fulfilled")]
    pub state: String,
    /// What became of the request at the storefront: `pending`, `created`, `not_needed` or
    /// `failed`; null: it was not asked.
    #[schema(example = "created")]
    pub provider_state: Option<String>,
    /// Of what a checkout session sold: nothing is requested until then, because the
    /// storefront's own order may still come; null: it waits for nothing.
    pub waits_until: Option<Timestamp>,
    /// The further fulfilments of an agreement that is paid in cycles.
    pub cycles: Vec<StoredCycle>,
    pub initiated_at: Timestamp,
    pub requested_at: Option<Timestamp>,
    pub fulfilled_at: Option<Timestamp>,
    pub cancelled_at: Option<Timestamp>,
    pub updated_at: Timestamp,
}

/// The result of a search by id.
#[derive(Debug)]
pub enum OrderLookup {
    One(Box<Order>),
    None,
    /// Several shops have an order with this id, and no shop was named.
    Several,
}

/// Searches an order in these shops, or in all shops if `shops` is None.
pub async fn find(db: &Db, id: i64, shops: Option<Vec<String>>) -> Result<OrderLookup> {
    let rows = db
        .query(
            "select orders.shop, orders.id, orders.name, orders.currency, orders.total_minor,
                    orders.subtotal_minor, orders.tax_minor, orders.outstanding_minor,
                    orders.financial_status, orders.payment_status, orders.payment_canceled_at,
                    orders.was_paid, orders.fulfillment_status, orders.refunds, orders.ordered_at,
                    orders.cancelled_at, orders.cancel_reason, orders.updated_at,
                    orders.waits_until, orders.successor_shop, orders.successor_id,
                    fulfillments.state, fulfillments.provider_state, fulfillments.initiated_at,
                    fulfillments.requested_at, fulfillments.fulfilled_at,
                    fulfillments.cancelled_at as fulfillment_cancelled_at,
                    fulfillments.updated_at as fulfillment_updated_at, qr_codes.url
             from orders
             left join fulfillments
               on fulfillments.shop = orders.shop and fulfillments.order_id = orders.id
             left join qr_codes
               on qr_codes.shop = orders.shop and qr_codes.order_id = orders.id
              and qr_codes.kind = $3
             where orders.id = $1 and ($2 = 1 or orders.shop in ($4..))
             limit 2",
        )
        .bind(id)
        .bind(i64::from(shops.is_none()))
        .bind(qr_codes::TRACKING)
        .bind(shops.unwrap_or_default())
        .fetch_all()
        .await?;
    match rows.as_slice() {
        [] => Ok(OrderLookup::None),
        [row] => {
            let mut order = read(row)?;
            let shop = order.shop.as_str();
            order.line_items = order_lines::list(db, shop, id).await?;
            order.shipments = shipments::list(db, shop, id).await?;
            if let Some(fulfillment) = &mut order.fulfillment {
                fulfillment.cycles = fulfillment_cycles::list(db, shop, id).await?;
            }
            if order.cancelled_at.is_some() {
                order.refunds = refunds::list(db, shop, id).await?;
                order.restocked = inventory::list(db, shop, id).await?;
            }
            Ok(OrderLookup::One(Box::new(order)))
        }
        _ => Ok(OrderLookup::Several),
    }
}

/// Whether an order is paid or cancelled, as the storefront and the payments say together.
struct Statuses {
    financial_status: Option<String>,
    payment_status: Option<String>,
    cancelled_at: Option<Timestamp>,
    cancel_reason: Option<String>,
}

impl Statuses {
    fn read(row: &Row) -> Result<Self> {
        let status = |name| -> Result<Option<FinancialStatus>> {
            Ok(row.get::<Option<String>>(name)?.map(Into::into))
        };
        let text = |status: FinancialStatus| status.as_str().to_owned();
        let reported = status("financial_status")?;
        let payment_status = status("payment_status")?;
        let (storefront, payments) = (reported.as_ref(), payment_status.as_ref());
        let was_paid = row.get::<i64>("was_paid")? != 0;
        let counts = settlement::is_cancelled_by_payment(was_paid, storefront, payments);
        let cancelled_at = time(row, "cancelled_at")?;
        let canceled = time(row, "payment_canceled_at")?.filter(|_| counts);
        Ok(Statuses {
            financial_status: settlement::status(storefront, payments).map(text),
            cancelled_at: cancelled_at.or(canceled),
            cancel_reason: match canceled {
                Some(_) if cancelled_at.is_none() => Some(PAYMENT_CANCELED.to_owned()),
                _ => row.get("cancel_reason")?,
            },
            payment_status: payment_status.map(text),
        })
    }
}

fn time(row: &Row, name: &str) -> Result<Option<Timestamp>> {
    Ok(row.get::<Option<i64>>(name)?.map(Timestamp))
}

fn currency(row: &Row) -> Result<Option<Currency>> {
    let code: Option<String> = row.get("currency")?;
    Ok(code.and_then(|code| Currency::parse(&code)))
}

/// An amount in decimals. None if it or its currency is not known.
fn amount(minor: Option<i64>, currency: Option<Currency>) -> Option<String> {
    let money = minor.zip(currency);
    money.map(|(minor, currency)| Money { minor, currency }.to_string())
}

fn successor(row: &Row) -> Result<Option<Successor>> {
    let shop: Option<String> = row.get("successor_shop")?;
    let id: Option<i64> = row.get("successor_id")?;
    let order_id = id.map(|id| id.to_string());
    Ok(shop
        .zip(order_id)
        .map(|(shop, order_id)| Successor { shop, order_id }))
}

/// Reads an order without what its other tables have.
fn read(row: &Row) -> Result<Order> {
    let (id, shop): (i64, String) = (row.get("id")?, row.get("shop")?);
    let currency = currency(row)?;
    let money = |name| -> Result<Option<String>> { Ok(amount(row.get(name)?, currency)) };
    let state: Option<String> = row.get("state")?;
    let fulfillment = match (
        state,
        time(row, "initiated_at")?,
        time(row, "fulfillment_updated_at")?,
    ) {
        (Some(state), Some(initiated_at), Some(updated_at)) => Some(Fulfillment {
            state,
            provider_state: row.get("provider_state")?,
            waits_until: time(row, "waits_until")?,
            cycles: Vec::new(),
            initiated_at,
            requested_at: time(row, "requested_at")?,
            fulfilled_at: time(row, "fulfilled_at")?,
            cancelled_at: time(row, "fulfillment_cancelled_at")?,
            updated_at,
        }),
        _ => None,
    };
    let returned: Vec<Returned> = match row.get::<Option<String>>("refunds")? {
        Some(refunds) => parsed(&refunds)?,
        None => Vec::new(),
    };
    let storefront_refunds = returned.iter().map(|it| StorefrontRefund {
        id: it.id,
        id_text: it.id.to_string(),
        amount: amount(it.amount, currency),
    });
    let url: Option<String> = row.get("url")?;
    let tracking = url.map(|url| {
        let [qr_png, qr_svg] = qr_codes::paths(&shop, id, None);
        Tracking {
            url,
            qr_png,
            qr_svg,
        }
    });
    let statuses = Statuses::read(row)?;
    Ok(Order {
        order_id: id.to_string(),
        id,
        shop,
        name: row.get("name")?,
        financial_status: statuses.financial_status,
        payment_status: statuses.payment_status,
        fulfillment_status: row.get("fulfillment_status")?,
        fulfillment,
        currency: currency.map(|it| it.to_string()),
        total_price: money("total_minor")?,
        subtotal_price: money("subtotal_minor")?,
        total_tax: money("tax_minor")?,
        total_outstanding: money("outstanding_minor")?,
        line_items: Vec::new(),
        tracking,
        shipments: Vec::new(),
        refunds: Vec::new(),
        storefront_refunds: storefront_refunds.collect(),
        restocked: Vec::new(),
        created_at: time(row, "ordered_at")?,
        cancelled_at: statuses.cancelled_at,
        cancel_reason: statuses.cancel_reason,
        superseded_by: successor(row)?,
        updated_at: row.get("updated_at")?,
    })
}
