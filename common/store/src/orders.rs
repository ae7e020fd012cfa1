//! How the `orders` table is read. [`records`] writes it, [`view`] has an order as API clients
//! see it, and [`list`] lists orders.

mod cursor;
pub mod list;
pub mod records;
pub mod repeated;
pub mod view;
pub mod whose;

use std::collections::{BTreeSet, HashMap, HashSet};

use sha2::{Digest, Sha256};

use self::view::Order;
use crate::sql::{Db, Result, Row, Tx};
use crate::{aggregates, inventory, payments, refunds};
use domain::money::{Currency, Money};
use domain::order::OrderKey;
use domain::order::record::Record;
use domain::order::settlement::Cycle;

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

/// The shops that have an order with this id, at most two of them. What is of a shop with a connection is signed with its
/// secret and names the shop, so such a shop is none of them.
pub async fn shops(tx: &mut Tx, id: i64) -> Result<Vec<String>> {
    tx.query(
        "select shop from orders
         where id = $1 and shop not in (
             select shop from connection_shops
             where connection in (select name from connections where removed_at is null)
         )
         order by shop limit 2",
    )
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
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
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
    pub total: Option<Money>,
    pub is_cancelled: bool,
    pub is_paid: bool,
    /// True when the order claims the agreement by its own id, which buyers cannot write.
    pub is_by_id: bool,
}

impl Claim {
    /// True when nothing is owed of this cycle of the order's agreement: the order is cancelled, or it
    /// is paid, which settles the first cycle.
    pub fn settles(&self, cycle: &Cycle) -> bool {
        self.is_cancelled || (cycle.is_first() && self.is_paid)
    }
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

const BY_ID: &str = "select pact_id, shop, id, name, currency, total_minor, cancelled_at, is_paid,
                            1 as by_id
                     from orders where pact_id is null and id in ($1..)
                     order by shop";

/// At most four orders of each agreement are read, because more claims decide nothing else. Within a connection other than
/// the default one an order's own id is named too (`order::Record::named_agreement`).
const BY_NAME: &str =
    "select pact_id, shop, id, name, currency, total_minor, cancelled_at, is_paid,
                              by_id
                       from (
                           select pact_id, shop, id, name, currency, total_minor, cancelled_at,
                                  is_paid, by_id,
                                  row_number() over (partition by pact_id order by by_id desc, shop, id) as nth
                           from (
                               select pact_id, shop, id, name, currency, total_minor, cancelled_at, is_paid,
                                      case when pact_id like cast(id as text) || '@%' then 1 else 0 end as by_id
                               from orders where pact_id in ($1..)
                           ) named
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
        total: total
            .zip(currency)
            .map(|(minor, currency)| Money { minor, currency }),
        is_cancelled: row.get::<Option<i64>>("cancelled_at")?.is_some(),
        is_paid: row.get::<i64>("is_paid")? != 0,
        is_by_id: row.get::<i64>("by_id")? != 0,
    })
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
            "select shop, id, record, updated_at from orders
             where id = $1 and ($2 = 1 or shop in ($3..))
             limit 2",
        )
        .bind(id)
        .bind(i64::from(shops.is_none()))
        .bind(shops.unwrap_or_default())
        .fetch_all()
        .await?;
    match rows.as_slice() {
        [] => Ok(OrderLookup::None),
        [row] => {
            let (key, record): (_, Record) = aggregates::of(row)?;
            let may_go_back = record.too_much() > 0 || record.is_any_back();
            let mut order = Order::of(key, record, row.get("updated_at")?);
            if order.cancelled_at.is_some() || may_go_back {
                order.refunds = refunds::list(db, &order.shop, id).await?;
            }
            if order.cancelled_at.is_some() {
                order.restocked = inventory::list(db, &order.shop, id).await?;
            }
            Ok(OrderLookup::One(Box::new(order)))
        }
        _ => Ok(OrderLookup::Several),
    }
}

/// Everything that is known of an order.
pub async fn record(db: &Db, (shop, id): &OrderKey) -> Result<Option<Record>> {
    db.query("select shop, id, record from orders where shop = $1 and id = $2")
        .bind(shop.as_str())
        .bind(*id)
        .first(|row| Ok(aggregates::of(row)?.1))
        .await
}

/// An amount in decimals. None if it or its currency is not known.
fn amount(minor: Option<i64>, currency: Option<Currency>) -> Option<String> {
    let money = minor.zip(currency);
    money.map(|(minor, currency)| Money { minor, currency }.to_string())
}
