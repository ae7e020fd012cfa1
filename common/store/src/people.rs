//! Finds everything that is stored about a person within a shop. Exports and erasures both use
//! this search, so they see the same rows.
//!
//! `privacy::owns_order` decides whether an order or a body belongs to the person. This file
//! finds the rows that may belong to the person, and the rows that depend on those that do:
//! payments, checkout sessions and subscriptions, which belong to no shop. These are found
//! through the orders that they paid for, through the customer of the payment provider, and by
//! address. Those of somebody else's order are left out.
//!
//! Addresses in rows that were found lead no further, except the addresses of the customers that
//! are searched themselves. A row that shares an address or a number with the person but belongs
//! to somebody else is held (`Held`).

use std::collections::BTreeSet;

use crate::aggregates;
use crate::connections;
use crate::customers::CustomerEntry;
use crate::erasure::Kept;
use crate::orders::{self, CHECKOUT};
use crate::payments;
use crate::sql::{Db, Field, Result, Row, Value};
use domain::connection::{DEFAULT, of_id};
use domain::job::{Kind, State};
use domain::order::{self, OrderKey};
use domain::privacy::{
    Decided, Held, Maker, Mentions, Request, SubjectKey as Trace, Topic, email, may_own_payment,
    owns_order, owns_payment, phone,
};
use domain::time::Timestamp;

/// The shop of orders that came without the shop's header. Customer ids are the storefront's, and
/// no two of its shops have the same one.
const UNNAMED: &str = "";

/// The rows of a person by their keys, sorted.
#[derive(Clone, Debug, Default)]
pub struct PersonRows {
    pub shop: String,
    /// The connections whose payments pay for the shop's orders. An address leads to payments of these alone.
    pub paid_by: BTreeSet<String>,
    pub customers: BTreeSet<i64>,
    /// Orders of the shop, and placeholders that checkout sessions made. Some of them may not
    /// exist.
    pub orders: BTreeSet<OrderKey>,
    /// Orders that a request names beside a customer. When such an order comes, it counts as the
    /// customer's unless it belongs to somebody else.
    pub guest_orders: BTreeSet<i64>,
    /// The ids of agreements that no other order claims.
    pub agreements: BTreeSet<String>,
    pub payments: BTreeSet<String>,
    pub sessions: BTreeSet<String>,
    /// The payment provider's ids of subscriptions.
    pub subscriptions: BTreeSet<String>,
    /// The payment provider's ids of customers.
    pub payers: BTreeSet<String>,
    /// E-mail addresses in the form in which they are compared.
    pub emails: BTreeSet<String>,
    /// The same addresses as they were written.
    pub spellings: BTreeSet<String>,
    /// Telephone numbers in the form in which they are compared.
    pub phones: BTreeSet<String>,
    /// What may also belong to the person, for an operator to decide.
    pub held: Held,
    /// The orders that were found by ids alone, without an address, and their agreements. Only
    /// these lead to customers of the payment provider.
    by_id: BTreeSet<OrderKey>,
    /// The orders that the request or an operator named.
    orders_named: BTreeSet<i64>,
    agreements_by_id: BTreeSet<String>,
    decided: Decided,
}

/// How many values of a list one statement has at most.
const CHUNK: usize = 500;

/// The person to search for.
#[derive(Clone, Debug, Default)]
pub struct Sought {
    pub shop: String,
    pub customers: BTreeSet<i64>,
    /// Orders that belong to the person, whether or not they exist and whoever is their customer.
    pub orders: BTreeSet<i64>,
    /// Orders that belong to the person unless they are another customer's.
    pub guest_orders: BTreeSet<i64>,
    /// Orders that an earlier search has found, whether by an id or by an address. They belong to
    /// the person, but lead no further than their own rows do.
    pub found_orders: BTreeSet<i64>,
    /// The addresses and the numbers as somebody wrote them.
    pub emails: BTreeSet<String>,
    pub phones: BTreeSet<String>,
    /// What of the payment provider an earlier search has found.
    pub found_payments: BTreeSet<String>,
    pub found_sessions: BTreeSet<String>,
    pub found_subscriptions: BTreeSet<String>,
    /// What operators have already decided, so that it is not held again.
    pub decided: Decided,
}

impl Sought {
    /// The person that a request means. If a request names a customer and also an order of
    /// another customer, one of the two is wrong, and nobody knows which; so the orders of such a
    /// request count only as guest orders.
    pub fn of(request: &Request) -> Self {
        let person = &request.person;
        let orders: BTreeSet<i64> = request.orders.iter().copied().collect();
        let (orders, guest_orders) = match person.id {
            Some(_) => (BTreeSet::new(), orders),
            None => (orders, BTreeSet::new()),
        };
        Sought {
            shop: request.shop.clone(),
            customers: person.id.into_iter().collect(),
            orders,
            guest_orders,
            emails: person.email.iter().cloned().collect(),
            phones: person.phone.iter().cloned().collect(),
            ..Sought::default()
        }
    }

    /// Adds the customers and orders that an operator says belong to the same person.
    #[must_use]
    pub fn decided(mut self, decided: &Decided) -> Self {
        self.customers.extend(&decided.customers);
        self.orders.extend(&decided.orders);
        self.decided = decided.clone();
        self
    }
}

/// What is known about the person before any row is read.
fn named(sought: &Sought) -> PersonRows {
    let mut found = PersonRows {
        shop: sought.shop.clone(),
        orders_named: sought.orders.clone(),
        customers: sought.customers.clone(),
        guest_orders: sought.guest_orders.clone(),
        decided: sought.decided.clone(),
        payments: sought.found_payments.clone(),
        sessions: sought.found_sessions.clone(),
        subscriptions: sought.found_subscriptions.clone(),
        ..PersonRows::default()
    };
    for shop in found.shops() {
        let orders = sought.orders.union(&sought.found_orders);
        found.orders.extend(orders.map(|id| (shop.clone(), *id)));
    }
    for email in &sought.emails {
        found.add_addresses(Some(email), None);
    }
    for phone in &sought.phones {
        found.add_addresses(None, Some(phone));
    }
    found
}

/// Finds everything that belongs to a person.
pub async fn find(db: &Db, sought: &Sought) -> Result<PersonRows> {
    let mut found = named(sought);
    found.paid_by = connections::paying_for(db, &sought.shop).await?;
    addresses(db, &mut found).await?;
    customers_in_common(db, &mut found).await?;
    storefront_orders(db, &mut found, sought).await?;
    agreements(db, &mut found).await?;
    placeholders_by_address(db, &mut found).await?;
    payments_of(db, &mut found).await?;
    sessions(db, &mut found).await?;
    subscriptions(db, &mut found).await?;
    payers(db, &mut found).await?;
    placeholders(&mut found);
    Ok(found)
}

/// Whether a row of the person was made after this time.
pub async fn has_newer(db: &Db, found: &PersonRows, than: Timestamp) -> Result<bool> {
    const ORDERS: &str = "select created_at from orders where (shop, id) in ($1..)";
    const PAYMENTS: &str = "select created_at from payments where id in ($1..)";
    const SESSIONS: &str = "select created_at from checkout_sessions where id in ($1..)";
    const SUBSCRIPTIONS: &str = "select created_at from subscriptions where id in ($1..)";
    let mut rows = rows_of(db, ORDERS, None, found.orders.clone()).await?;
    rows.extend(rows_of(db, PAYMENTS, None, found.payments.clone()).await?);
    rows.extend(rows_of(db, SESSIONS, None, found.sessions.clone()).await?);
    rows.extend(rows_of(db, SUBSCRIPTIONS, None, found.subscriptions.clone()).await?);
    let made: Vec<Timestamp> = column(&rows, "created_at")?;
    Ok(made.iter().any(|at| *at > than))
}

impl PersonRows {
    /// The connections with payment providers by whose payments the person may be known.
    pub fn payment_connections(&self) -> impl Iterator<Item = &str> {
        let of_orders: BTreeSet<&str> = self.agreements.iter().map(|it| of_id(it)).collect();
        let of_orders = of_orders
            .into_iter()
            .filter(|it| !self.paid_by.contains(*it));
        self.paid_by.iter().map(String::as_str).chain(of_orders)
    }

    /// Whether payments of this connection may be the person's: those of the shop's connections, and of such as orders of
    /// the person were paid by before.
    pub fn is_paid_by(&self, connection: &str) -> bool {
        self.paid_by.contains(connection)
            || self.agreements.iter().any(|it| of_id(it) == connection)
    }

    /// The ids of the orders without the placeholders that checkout sessions made.
    pub fn storefront_orders(&self) -> impl Iterator<Item = i64> {
        let orders = self.orders.iter().filter(|(shop, _)| shop != CHECKOUT);
        orders.map(|(_, id)| *id)
    }

    /// The shops in which the ids of the customers and orders count.
    pub fn shops(&self) -> BTreeSet<String> {
        [self.shop.clone(), UNNAMED.to_owned()].into()
    }

    pub fn add_addresses(&mut self, address: Option<&str>, number: Option<&str>) {
        if let Some(address) = address.map(str::trim).filter(|it| it.contains('@')) {
            self.emails.insert(email(address));
            self.spellings.insert(address.to_owned());
            self.spellings.insert(email(address));
        }
        self.phones.extend(number.and_then(phone));
    }

    /// True for a key that is known to be the person's.
    fn knows(&self, key: Trace<'_>) -> bool {
        match key {
            Trace::Customer(id) => self.customers.contains(&id),
            Trace::Order(id) => {
                let mut shops = self.shops().into_iter();
                shops.any(|shop| self.orders.contains(&(shop, id)))
            }
            Trace::GuestOrder(id) => self.guest_orders.contains(&id),
            Trace::Email(email) => self.emails.contains(email),
            Trace::Agreement(agreement) => self.agreements.contains(agreement),
            Trace::Payment(id) => [&self.payments, &self.sessions, &self.subscriptions]
                .iter()
                .any(|ids| ids.contains(id)),
            Trace::Payer(id) => self.payers.contains(id),
            Trace::Phone(_) | Trace::Shop => false,
        }
    }

    /// The same as [`knows`](Self::knows), without orders that an address may have led to.
    fn knows_by_id(&self, key: Trace<'_>) -> bool {
        match key {
            Trace::Order(id) => self.orders_named.contains(&id),
            key => self.knows(key),
        }
    }

    /// The ids of those of the storefront's orders that an id led to, and no address.
    pub fn orders_by_id(&self) -> impl Iterator<Item = i64> {
        let orders = self.by_id.iter().filter(|(shop, _)| shop != CHECKOUT);
        orders.map(|(_, id)| *id)
    }

    fn hold_customer(&mut self, id: i64) {
        if !self.decided.says_of_customer(id) {
            self.held.customer(id);
        }
    }

    fn hold_order(&mut self, id: i64) {
        if !self.decided.says_of_order(id) {
            self.held.order(id);
        }
    }
}

/// The rows of a statement whose last value is a list, and whose first is the shop if there is one. A
/// statement has a part of the list at a time.
pub(super) async fn rows_of<T>(
    db: &Db,
    sql: &'static str,
    shop: Option<&str>,
    list: impl IntoIterator<Item = T>,
) -> Result<Vec<Row>>
where
    T: Clone,
    Vec<T>: Into<Value<'static>>,
{
    let list: Vec<T> = list.into_iter().collect();
    let mut rows = Vec::new();
    for part in list.chunks(CHUNK) {
        let query = match shop {
            Some(shop) => db.query(sql).bind(shop.to_owned()),
            None => db.query(sql),
        };
        let part: Value<'static> = part.to_vec().into();
        rows.extend(query.bind(part).fetch_all().await?);
    }
    Ok(rows)
}

/// The values of a column.
fn column<T: Field, C: FromIterator<T>>(rows: &[Row], name: &'static str) -> Result<C> {
    rows.iter().map(|row| row.get(name)).collect()
}

/// Adds the addresses and numbers of the customers.
async fn addresses(db: &Db, found: &mut PersonRows) -> Result<()> {
    let sql =
        "select shop, id, record, redacted_at from customers where shop = $1 and id in ($2..)";
    for shop in found.shops() {
        for row in rows_of(db, sql, Some(&shop), found.customers.clone()).await? {
            let CustomerEntry { record, .. } = aggregates::of(&row)?.1;
            found.add_addresses(record.email(), record.phone());
        }
    }
    Ok(())
}

/// Holds other customers who have an address or a number of the person. If very many have the
/// same number, a few of them are enough to show that.
async fn customers_in_common(db: &Db, found: &mut PersonRows) -> Result<()> {
    const BY_EMAIL: &str =
        "select id from customers where shop = $1 and email_key in ($2..) limit 500";
    const BY_PHONE: &str =
        "select id from customers where shop = $1 and phone_key in ($2..) limit 500";
    for shop in found.shops() {
        let mut rows = rows_of(db, BY_EMAIL, Some(&shop), found.emails.clone()).await?;
        rows.extend(rows_of(db, BY_PHONE, Some(&shop), found.phones.clone()).await?);
        for row in &rows {
            let id: i64 = row.get("id")?;
            if !found.customers.contains(&id) {
                found.hold_customer(id);
            }
        }
    }
    Ok(())
}

async fn storefront_orders(db: &Db, found: &mut PersonRows, sought: &Sought) -> Result<()> {
    const BY_CUSTOMER: &str = "select id, customer_id, email_key from orders
         where shop = $1 and customer_id in ($2..)";
    const BY_ID: &str =
        "select id, customer_id, email_key from orders where shop = $1 and id in ($2..)";
    const BY_EMAIL: &str =
        "select id, customer_id, email_key from orders where shop = $1 and email_key in ($2..)";
    const BY_PHONE: &str = "select id, customer_id, email_key from orders
         where shop = $1 and phone_key in ($2..) limit 500";
    let mut named = &sought.orders | &sought.guest_orders;
    named.extend(&sought.found_orders);
    for shop in found.shops() {
        let of = Some(shop.as_str());
        let mut rows = rows_of(db, BY_CUSTOMER, of, found.customers.clone()).await?;
        rows.extend(rows_of(db, BY_ID, of, named.clone()).await?);
        rows.extend(rows_of(db, BY_EMAIL, of, found.emails.clone()).await?);
        rows.extend(rows_of(db, BY_PHONE, of, found.phones.clone()).await?);
        for row in &rows {
            take_order(found, &shop, row)?;
        }
    }
    Ok(())
}

/// Takes an order that has something in common with the person: it belongs to the person, or it
/// is held.
fn take_order(found: &mut PersonRows, shop: &str, row: &Row) -> Result<()> {
    let id: i64 = row.get("id")?;
    let customer: Option<i64> = row.get("customer_id")?;
    let email: Option<String> = row.get("email_key")?;
    let emails: BTreeSet<String> = email.into_iter().filter(|it| !it.is_empty()).collect();
    let maker = Maker {
        order: Some(id),
        customer,
        emails: &emails,
    };
    if owns_order(&maker, |key| found.knows(key)) {
        let nobody = BTreeSet::new();
        let by_id = Maker {
            emails: &nobody,
            ..maker
        };
        let key = (shop.to_owned(), id);
        if owns_order(&by_id, |key| found.knows_by_id(key)) {
            found.by_id.insert(key.clone());
        }
        found.orders.insert(key);
        return Ok(());
    }
    match customer {
        Some(customer) => found.hold_customer(customer),
        None => found.hold_order(id),
    }
    Ok(())
}

/// Finds the agreements of the orders, by which their payments are found. An agreement that
/// several orders claim is left out, because it links payments to none of them.
async fn agreements(db: &Db, found: &mut PersonRows) -> Result<()> {
    for (shop, id) in found.orders.clone() {
        let row = db
            .query("select pact_id from orders where shop = $1 and id = $2")
            .bind(shop.as_str())
            .bind(id)
            .fetch_optional()
            .await?;
        let Some(row) = row else { continue };
        let agreement: Option<String> = row.get("pact_id")?;
        let agreement = agreement.unwrap_or_else(|| id.to_string());
        let claim = orders::owner(db, &agreement).await?;
        let key = (shop, id);
        if claim.is_some_and(|claim| claim.key == key) {
            if found.by_id.contains(&key) {
                found.agreements_by_id.insert(agreement.clone());
            }
            found.agreements.insert(agreement);
        }
    }
    Ok(())
}

/// Finds the placeholders that checkout sessions made for one of the addresses.
async fn placeholders_by_address(db: &Db, found: &mut PersonRows) -> Result<()> {
    let sql = "select id, pact_id from orders where shop = $1 and email_key in ($2..)";
    let rows = rows_of(db, sql, Some(CHECKOUT), found.emails.clone()).await?;
    for row in &rows {
        let id: i64 = row.get("id")?;
        let agreement: Option<String> = row.get("pact_id")?;
        let connection = agreement.as_deref().map_or(DEFAULT, of_id);
        if !found.is_paid_by(connection) {
            continue;
        }
        if of(db, found, agreement.as_deref()).await? != Of::Others {
            found.orders.insert((CHECKOUT.to_owned(), id));
            let agreement = agreement.unwrap_or_else(|| id.to_string());
            let claim = orders::owner(db, &agreement).await?;
            if claim.is_some_and(|claim| claim.key == (CHECKOUT.to_owned(), id)) {
                found.agreements.insert(agreement);
            }
        }
    }
    Ok(())
}

/// To whom the order of an agreement belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// No known order of the storefront claims the agreement, or several do.
    Nobody,
    Them,
    Others,
}

/// To whom a payment or session belongs, by its agreement. Somebody else's order in this shop is
/// held.
async fn of(db: &Db, found: &mut PersonRows, agreement: Option<&str>) -> Result<Of> {
    let Some(agreement) = agreement else {
        return Ok(Of::Nobody);
    };
    let Some(claim) = orders::owner(db, agreement).await? else {
        return Ok(Of::Nobody);
    };
    let key = claim.key;
    if found.orders.contains(&key) {
        return Ok(Of::Them);
    }
    if key.0 == CHECKOUT {
        return Ok(Of::Nobody);
    }
    let is_others = is_held(db, found, &key).await?;
    Ok(if is_others { Of::Others } else { Of::Nobody })
}

/// Holds an order of somebody else, or its customer. An order of another shop has nothing to do
/// with the person and is not held. False for an order that belongs to nobody, because it had no
/// customer and was erased.
async fn is_held(db: &Db, found: &mut PersonRows, key: &OrderKey) -> Result<bool> {
    let (shop, id) = key;
    if !found.shops().contains(shop) {
        return Ok(true);
    }
    let row = db
        .query("select customer_id, redacted_at from orders where shop = $1 and id = $2")
        .bind(shop.as_str())
        .bind(*id)
        .fetch_optional()
        .await?;
    let (customer, redacted_at): (Option<i64>, Option<i64>) = match row {
        Some(row) => (row.get("customer_id")?, row.get("redacted_at")?),
        None => (None, None),
    };
    match customer {
        Some(customer) => found.hold_customer(customer),
        None if redacted_at.is_some() => return Ok(false),
        None => found.hold_order(*id),
    }
    Ok(true)
}

async fn payments_of(db: &Db, found: &mut PersonRows) -> Result<()> {
    let by_agreement = "select id from payments where pact_id in ($1..)";
    let rows = rows_of(db, by_agreement, None, found.agreements.clone()).await?;
    found
        .payments
        .extend(column::<String, Vec<_>>(&rows, "id")?);
    let by_email = "select id, pact_id from payments where email_key in ($1..)";
    let mut rows = rows_of(db, by_email, None, found.emails.clone()).await?;
    retain_paid_by(found, &mut rows)?;
    take_payments(db, found, &rows).await
}

/// Leaves only the rows whose id is of a connection that pays for the shop's orders.
fn retain_paid_by(found: &PersonRows, rows: &mut Vec<Row>) -> Result<()> {
    let ids: Vec<String> = column(rows, "id")?;
    let mut ids = ids.iter();
    rows.retain(|_| ids.next().is_some_and(|id| found.is_paid_by(of_id(id))));
    Ok(())
}

/// Takes the payments that do not pay for somebody else's order.
async fn take_payments(db: &Db, found: &mut PersonRows, rows: &[Row]) -> Result<()> {
    for row in rows {
        let agreement: Option<String> = row.get("pact_id")?;
        if of(db, found, agreement.as_deref()).await? != Of::Others {
            found.payments.insert(row.get("id")?);
        }
    }
    Ok(())
}

/// A statement that reads sessions with what [`take_sessions`] needs.
macro_rules! sessions {
    ($which:literal) => {
        concat!(
            "select id, pact_id, payment_intent, shop, order_id from checkout_sessions where ",
            $which
        )
    };
}

async fn sessions(db: &Db, found: &mut PersonRows) -> Result<()> {
    let by_agreement = sessions!("pact_id in ($1..)");
    let by_payment = sessions!("payment_intent in ($1..)");
    let by_email = sessions!("email_key in ($1..)");
    let by_order = sessions!("order_id in ($1..)");
    let mut rows = rows_of(db, by_agreement, None, found.agreements.clone()).await?;
    rows.extend(rows_of(db, by_payment, None, found.payments.clone()).await?);
    let mut of_addresses = rows_of(db, by_email, None, found.emails.clone()).await?;
    retain_paid_by(found, &mut of_addresses)?;
    rows.extend(of_addresses);
    let ids: Vec<i64> = found.orders.iter().map(|(_, id)| *id).collect();
    for row in rows_of(db, by_order, None, ids).await? {
        if order_of(&row)?.is_some_and(|key| found.orders.contains(&key)) {
            rows.push(row);
        }
    }
    take_sessions(db, found, &rows).await
}

fn order_of(row: &Row) -> Result<Option<OrderKey>> {
    let shop: Option<String> = row.get("shop")?;
    Ok(shop.zip(row.get("order_id")?))
}

/// Takes the sessions that do not belong to somebody else's order, with the payments and orders
/// that they lead to.
async fn take_sessions(db: &Db, found: &mut PersonRows, rows: &[Row]) -> Result<()> {
    for row in rows {
        let agreement: Option<String> = row.get("pact_id")?;
        let order = order_of(row)?;
        let is_theirs = order.as_ref().is_some_and(|key| found.orders.contains(key));
        if !is_theirs {
            if of(db, found, agreement.as_deref()).await? == Of::Others {
                continue;
            }
            if let Some(key) = order.as_ref().filter(|key| key.0 != CHECKOUT)
                && is_held(db, found, key).await?
            {
                continue;
            }
        }
        found.sessions.insert(row.get("id")?);
        found
            .payments
            .extend(row.get::<Option<String>>("payment_intent")?);
        found.orders.extend(order);
    }
    Ok(())
}

/// Adds the placeholders that checkout sessions made, whether they still stand for a session or
/// the storefront's order has taken their place.
fn placeholders(found: &mut PersonRows) {
    let names = found.agreements.iter().chain(&found.sessions);
    let keys: Vec<OrderKey> = names.map(|name| orders::checkout_key(name)).collect();
    found.orders.extend(keys);
}

/// Finds the subscriptions of the sessions and agreements, and the payments of their invoices.
async fn subscriptions(db: &Db, found: &mut PersonRows) -> Result<()> {
    let of_sessions = "select subscription from checkout_sessions
                       where subscription is not null and id in ($1..)";
    let rows = rows_of(db, of_sessions, None, found.sessions.clone()).await?;
    let ids: Vec<String> = column(&rows, "subscription")?;
    found.subscriptions.extend(ids);
    let of_agreements = "select id from subscriptions where pact_id in ($1..)";
    let rows = rows_of(db, of_agreements, None, found.agreements.clone()).await?;
    found
        .subscriptions
        .extend(column::<String, Vec<_>>(&rows, "id")?);
    let of_invoices = "select payment_id from invoices
                       where payment_id is not null and subscription in ($1..)";
    let rows = rows_of(db, of_invoices, None, found.subscriptions.clone()).await?;
    let ids: Vec<String> = column(&rows, "payment_id")?;
    found.payments.extend(ids);
    Ok(())
}

/// Finds the customers of the payment provider who paid for the person's orders, and everything
/// else of these customers.
async fn payers(db: &Db, found: &mut PersonRows) -> Result<()> {
    const OF: [&str; 3] = [
        "select customer_id from payments where customer_id is not null and pact_id in ($1..)",
        "select customer_id from checkout_sessions
         where customer_id is not null and pact_id in ($1..)",
        "select customer_id from subscriptions
         where customer_id is not null and pact_id in ($1..)",
    ];
    for sql in OF {
        let rows = rows_of(db, sql, None, found.agreements_by_id.clone()).await?;
        let ids: Vec<String> = column(&rows, "customer_id")?;
        found.payers.extend(ids);
    }
    let payers = found.payers.clone();
    let of_payers = "select id, pact_id from payments where customer_id in ($1..)";
    let rows = rows_of(db, of_payers, None, payers.clone()).await?;
    take_payments(db, found, &rows).await?;
    let of_payers = sessions!("customer_id in ($1..)");
    let rows = rows_of(db, of_payers, None, payers.clone()).await?;
    take_sessions(db, found, &rows).await?;
    let of_payers = "select id, pact_id from subscriptions where customer_id in ($1..)";
    for row in rows_of(db, of_payers, None, payers).await? {
        let agreement: Option<String> = row.get("pact_id")?;
        if of(db, found, agreement.as_deref()).await? != Of::Others {
            found.subscriptions.insert(row.get("id")?);
        }
    }
    subscriptions(db, found).await
}

/// True for a body that is about the person.
pub async fn concerns(db: &Db, found: &PersonRows, kept: &Kept) -> Result<bool> {
    let mentions = kept.mentions();
    let Some(connection) = kept.payments() else {
        return Ok(concerns_storefront(found, kept, &mentions));
    };
    if !found.is_paid_by(connection) {
        return Ok(false);
    }
    if owns_payment(&mentions, |key| found.knows(key)) {
        return Ok(true);
    }
    if !may_own_payment(&mentions, |key| found.knows(key)) {
        return Ok(false);
    }
    let mut agreements = mentions.agreements;
    for sql in payments::AGREEMENTS {
        let rows = rows_of(db, sql, None, mentions.ids.clone()).await?;
        let named: Vec<String> = column(&rows, "pact_id")?;
        agreements.extend(named);
    }
    let mut found = found.clone();
    for agreement in &agreements {
        if of(db, &mut found, Some(agreement)).await? == Of::Others {
            return Ok(false);
        }
    }
    Ok(true)
}

fn concerns_storefront(found: &PersonRows, kept: &Kept, mentions: &Mentions) -> bool {
    let shops = found.shops();
    if kept.shop.as_ref().is_some_and(|shop| !shops.contains(shop)) {
        return false;
    }
    let mut maker = Maker::from(mentions);
    match Kind::named(&kept.kind) {
        // Another open erasure still reads its own body, and deletes it when it ends.
        Some(Kind::Privacy(Topic::Redact)) if kept.state == State::Ready => return false,
        Some(Kind::Privacy(_)) => maker.order = None,
        _ if order::Topic::is_of_an_order(&kept.kind) => {}
        _ if kept.kind.starts_with("customers/") => {
            maker.customer = maker.order.take();
        }
        _ => {
            maker.order = None;
            maker.emails = &mentions.emails;
        }
    }
    owns_order(&maker, |key| found.knows(key))
}

/// True for somebody else's order that mentions the person, such as one that was sent to the
/// person.
pub fn is_mentioned(found: &PersonRows, kept: &Kept) -> bool {
    let shops = found.shops();
    if !order::Topic::is_of_an_order(&kept.kind)
        || kept.shop.as_ref().is_some_and(|shop| !shops.contains(shop))
    {
        return false;
    }
    let (emails, phones) = Mentions::of(&kept.body).of_others();
    !emails.is_disjoint(&found.emails) || !phones.is_disjoint(&found.phones)
}
