//! Whatever is held on a person, found by customer id, by e-mail and by phone within a shop:
//! for an export and for an erasure, so that both see the same. Payments and checkout sessions
//! are of no shop: they are found through the orders that they paid, and by address unless
//! they paid for another shop's order.

use std::collections::BTreeSet;

use crate::privacy::{Person, Request, email, phone};
use crate::sql::{Db, Result, Row};
use crate::store::orders::records::Key;
use crate::store::orders::{self, CHECKOUT};

/// The rows of a person, by their keys, sorted.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub shop: String,
    pub customers: BTreeSet<i64>,
    /// Those of the shop, and those that checkout sessions made; they may not be there.
    pub orders: BTreeSet<Key>,
    /// Agreements that no other order claims.
    pub pacts: BTreeSet<String>,
    pub payments: BTreeSet<String>,
    pub sessions: BTreeSet<String>,
    /// The payment provider's ids of subscriptions.
    pub subscriptions: BTreeSet<String>,
    /// As they are compared.
    pub emails: BTreeSet<String>,
    /// The same, as they were written.
    pub spellings: BTreeSet<String>,
    /// As they are compared.
    pub phones: BTreeSet<String>,
}

/// Values of a list in a statement.
const CHUNK: usize = 500;

/// Whom to look for.
pub struct Sought<'a> {
    pub shop: &'a str,
    pub person: &'a Person,
    /// Further customers.
    pub customers: BTreeSet<i64>,
    /// Orders of theirs that are named, be they known or not.
    pub orders: BTreeSet<i64>,
}

impl<'a> Sought<'a> {
    pub fn of(request: &'a Request) -> Self {
        Sought {
            shop: &request.shop,
            person: &request.person,
            customers: BTreeSet::new(),
            orders: request.orders.iter().copied().collect(),
        }
    }
}

/// What is known without a look.
pub fn named(sought: &Sought<'_>) -> Found {
    let shop = sought.shop;
    let mut found = Found {
        shop: shop.to_owned(),
        customers: sought
            .customers
            .iter()
            .copied()
            .chain(sought.person.id)
            .collect(),
        orders: sought
            .orders
            .iter()
            .map(|id| (shop.to_owned(), *id))
            .collect(),
        ..Found::default()
    };
    let person = sought.person;
    found.add_addresses(person.email.as_deref(), person.phone.as_deref());
    found
}

/// Everything of a person.
pub async fn find(db: &Db, sought: &Sought<'_>) -> Result<Found> {
    let mut found = named(sought);
    // Whom an address leads to has more of them.
    loop {
        let known = (
            found.customers.len(),
            found.emails.len(),
            found.phones.len(),
        );
        addresses(db, &mut found).await?;
        customers(db, &mut found).await?;
        storefront_orders(db, &mut found).await?;
        if known
            == (
                found.customers.len(),
                found.emails.len(),
                found.phones.len(),
            )
        {
            break;
        }
    }
    agreements(db, &mut found).await?;
    payments(db, &mut found).await?;
    sessions(db, &mut found).await?;
    stand_ins(&mut found);
    subscriptions(db, &mut found).await?;
    Ok(found)
}

impl Found {
    pub fn add_addresses(&mut self, address: Option<&str>, number: Option<&str>) {
        if let Some(address) = address.map(str::trim).filter(|it| it.contains('@')) {
            self.emails.insert(email(address));
            self.spellings.insert(address.to_owned());
            self.spellings.insert(email(address));
        }
        self.phones.extend(number.and_then(phone));
    }

    /// In the spellings that the databases' lower case comes to.
    fn email_list(&self) -> Vec<String> {
        let ascii = self.spellings.iter().map(|it| it.to_ascii_lowercase());
        let all: BTreeSet<String> = self.emails.iter().cloned().chain(ascii).collect();
        all.into_iter().collect()
    }

    fn phone_list(&self) -> Vec<String> {
        self.phones.iter().cloned().collect()
    }
}

/// Those of the customers.
async fn addresses(db: &Db, found: &mut Found) -> Result<()> {
    let customers: Vec<i64> = found.customers.iter().copied().collect();
    for customers in customers.chunks(CHUNK) {
        let rows = db
            .query("select email, phone from customers where shop = $1 and id in ($2..)")
            .bind(found.shop.as_str())
            .bind(customers.to_vec())
            .fetch_all()
            .await?;
        for row in &rows {
            let email: Option<String> = row.get("email")?;
            let phone: Option<String> = row.get("phone")?;
            found.add_addresses(email.as_deref(), phone.as_deref());
        }
    }
    Ok(())
}

async fn customers(db: &Db, found: &mut Found) -> Result<()> {
    let mut rows = db
        .query("select id from customers where shop = $1 and lower(email) in ($2..)")
        .bind(found.shop.as_str())
        .bind(found.email_list())
        .fetch_all()
        .await?;
    let by_phone = db
        .query(
            "select id from customers
             where shop = $1 and phone is not null
               and replace(replace(replace(replace(replace(replace(
                       phone, '+', ''), ' ', ''), '-', ''), '(', ''), ')', ''), '.', '') in ($2..)",
        )
        .bind(found.shop.as_str())
        .bind(found.phone_list());
    rows.extend(by_phone.fetch_all().await?);
    for row in &rows {
        found.customers.insert(row.get("id")?);
    }
    Ok(())
}

/// By address first: whose orders they are is the person too.
async fn storefront_orders(db: &Db, found: &mut Found) -> Result<()> {
    let mut rows = Vec::new();
    for shop in [found.shop.as_str(), CHECKOUT] {
        let query = db
            .query(
                "select shop, id, customer_id, email from orders
                 where shop = $1 and lower(email) in ($2..)",
            )
            .bind(shop)
            .bind(found.email_list());
        let of_email = query.fetch_all().await?;
        for row in &of_email {
            found.spellings.insert(row.get("email")?);
        }
        rows.extend(of_email);
    }
    let query = db
        .query(
            "select shop, id, customer_id from orders
             where shop = $1 and phone is not null
               and replace(replace(replace(replace(replace(replace(
                       phone, '+', ''), ' ', ''), '-', ''), '(', ''), ')', ''), '.', '') in ($2..)",
        )
        .bind(found.shop.as_str())
        .bind(found.phone_list());
    rows.extend(query.fetch_all().await?);
    for row in &rows {
        found
            .customers
            .extend(row.get::<Option<i64>>("customer_id")?);
    }
    let customers: Vec<i64> = found.customers.iter().copied().collect();
    for customers in customers.chunks(CHUNK) {
        let query = db
            .query(
                "select shop, id, email, phone from orders
                 where shop = $1 and customer_id in ($2..)",
            )
            .bind(found.shop.as_str())
            .bind(customers.to_vec());
        let theirs = query.fetch_all().await?;
        for row in &theirs {
            let email: Option<String> = row.get("email")?;
            let phone: Option<String> = row.get("phone")?;
            found.add_addresses(email.as_deref(), phone.as_deref());
        }
        rows.extend(theirs);
    }
    found.orders.extend(keys(&rows)?);
    Ok(())
}

fn keys(rows: &[Row]) -> Result<Vec<Key>> {
    rows.iter()
        .map(|row| Ok((row.get("shop")?, row.get("id")?)))
        .collect()
}

/// Agreements by which payments of these orders are found. One that several orders claim
/// links none of them.
async fn agreements(db: &Db, found: &mut Found) -> Result<()> {
    for (shop, id) in found.orders.clone() {
        let row = db
            .query("select pact_id from orders where shop = $1 and id = $2")
            .bind(shop.as_str())
            .bind(id)
            .fetch_optional()
            .await?;
        let Some(row) = row else { continue };
        let pact: Option<String> = row.get("pact_id")?;
        let pact = pact.unwrap_or_else(|| id.to_string());
        let claim = orders::claimant(db, &pact).await?;
        if claim.is_some_and(|claim| claim.key == (shop, id)) {
            found.pacts.insert(pact);
        }
    }
    Ok(())
}

async fn payments(db: &Db, found: &mut Found) -> Result<()> {
    let pacts: Vec<String> = found.pacts.iter().cloned().collect();
    for pacts in pacts.chunks(CHUNK) {
        let rows = db
            .query("select id from payments where pact_id in ($1..)")
            .bind(pacts.to_vec())
            .fetch_all()
            .await?;
        for row in &rows {
            found.payments.insert(row.get("id")?);
        }
    }
    let rows = db
        .query(
            "select id, pact_id, receipt_email from payments
             where lower(receipt_email) in ($1..)",
        )
        .bind(found.email_list())
        .fetch_all()
        .await?;
    for row in &rows {
        found.spellings.insert(row.get("receipt_email")?);
        if !is_anothers(db, found, row).await? {
            found.payments.insert(row.get("id")?);
        }
    }
    Ok(())
}

/// The agreement of a payment or session is of an order of another shop.
async fn is_anothers(db: &Db, found: &Found, row: &Row) -> Result<bool> {
    let pact: Option<String> = row.get("pact_id")?;
    let Some(pact) = pact else { return Ok(false) };
    let claim = orders::claimant(db, &pact).await?;
    Ok(claim.is_some_and(|claim| {
        let (shop, _) = &claim.key;
        shop != CHECKOUT && *shop != found.shop
    }))
}

async fn sessions(db: &Db, found: &mut Found) -> Result<()> {
    let lists: [Vec<String>; 3] = [
        found.pacts.iter().cloned().collect(),
        found.payments.iter().cloned().collect(),
        found.email_list(),
    ];
    let mut rows = Vec::new();
    for (nth, list) in lists.iter().enumerate() {
        for list in list.chunks(CHUNK) {
            let query = match nth {
                0 => db.query(
                    "select id, pact_id, payment_intent, shop, order_id from checkout_sessions
                     where pact_id in ($1..)",
                ),
                1 => db.query(
                    "select id, pact_id, payment_intent, shop, order_id from checkout_sessions
                     where payment_intent in ($1..)",
                ),
                _ => db.query(
                    "select id, pact_id, payment_intent, shop, order_id from checkout_sessions
                     where lower(email) in ($1..)",
                ),
            };
            rows.extend(query.bind(list.to_vec()).fetch_all().await?);
        }
    }
    let ids: Vec<i64> = found.orders.iter().map(|(_, id)| *id).collect();
    for ids in ids.chunks(CHUNK) {
        let of_orders = db
            .query(
                "select id, pact_id, payment_intent, shop, order_id from checkout_sessions
                 where order_id in ($1..)",
            )
            .bind(ids.to_vec());
        for row in of_orders.fetch_all().await? {
            let key: Key = (
                row.get::<Option<String>>("shop")?.unwrap_or_default(),
                row.get("order_id")?,
            );
            if found.orders.contains(&key) {
                rows.push(row);
            }
        }
    }
    for row in &rows {
        if is_anothers(db, found, row).await? {
            continue;
        }
        found.sessions.insert(row.get("id")?);
        found
            .payments
            .extend(row.get::<Option<String>>("payment_intent")?);
        let shop: Option<String> = row.get("shop")?;
        let order: Option<i64> = row.get("order_id")?;
        if let (Some(shop), Some(order)) = (shop, order)
            && (shop == CHECKOUT || shop == found.shop)
        {
            found.orders.insert((shop, order));
        }
    }
    Ok(())
}

/// Orders that checkout sessions made, be they of a session still or taken the place of.
fn stand_ins(found: &mut Found) {
    let names = found.pacts.iter().chain(&found.sessions);
    let keys: Vec<Key> = names.map(|name| orders::checkout_key(name)).collect();
    found.orders.extend(keys);
}

/// Those of their checkouts and agreements.
async fn subscriptions(db: &Db, found: &mut Found) -> Result<()> {
    let sessions: Vec<String> = found.sessions.iter().cloned().collect();
    for sessions in sessions.chunks(CHUNK) {
        let rows = db
            .query(
                "select subscription from checkout_sessions
                 where subscription is not null and id in ($1..)",
            )
            .bind(sessions.to_vec())
            .fetch_all()
            .await?;
        for row in &rows {
            found.subscriptions.insert(row.get("subscription")?);
        }
    }
    let pacts: Vec<String> = found.pacts.iter().cloned().collect();
    for pacts in pacts.chunks(CHUNK) {
        let rows = db
            .query("select id from subscriptions where pact_id in ($1..)")
            .bind(pacts.to_vec())
            .fetch_all()
            .await?;
        for row in &rows {
            found.subscriptions.insert(row.get("id")?);
        }
    }
    Ok(())
}
