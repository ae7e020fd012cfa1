//! Whatever is held on a person within a shop: for an export and for an erasure, so that both
//! see the same. Whose an order or a body is says `privacy::owns_order`; here are the rows that
//! may be theirs, and what hangs on those that are: payments, checkout sessions and subscriptions,
//! which are of no shop. They are found through the orders that they paid, through the payment
//! provider's own customer, and by address; but those of an order that is somebody else's are not.
//!
//! Addresses that stand in rows lead no further, but for those of the customers that are sought
//! themselves. What has an address or a number in common and is another's is held (`Held`).

use std::collections::BTreeSet;

use crate::erasure::Kept;
use crate::orders::records::OrderKey;
use crate::orders::{self, CHECKOUT};
use crate::sql::{Db, Result, Row};
use crate::{payments, person_keys};
use domain::job::State;
use domain::privacy::{
    Decided, Held, Maker, Mentions, Request, SubjectKey as Trace, Topic, email, may_own_payment,
    owns_order, owns_payment, phone,
};

/// The shop of orders that came without the shop's header: ids of customers are the storefront's,
/// and no two of its shops have the same.
const UNNAMED: &str = "";

/// The rows of a person, by their keys, sorted.
#[derive(Clone, Debug, Default)]
pub struct PersonRows {
    pub shop: String,
    pub customers: BTreeSet<i64>,
    /// Those of the shop, and those that checkout sessions made; they may not be there.
    pub orders: BTreeSet<OrderKey>,
    /// Named beside a customer: theirs, should they come and be of nobody else.
    pub guest_orders: BTreeSet<i64>,
    /// Agreements that no other order claims.
    pub pacts: BTreeSet<String>,
    pub payments: BTreeSet<String>,
    pub sessions: BTreeSet<String>,
    /// The payment provider's ids of subscriptions.
    pub subscriptions: BTreeSet<String>,
    /// The payment provider's own customers.
    pub payers: BTreeSet<String>,
    /// As they are compared.
    pub emails: BTreeSet<String>,
    /// The same, as they were written.
    pub spellings: BTreeSet<String>,
    /// As they are compared.
    pub phones: BTreeSet<String>,
    /// What may be theirs as well.
    pub held: Held,
    /// Orders that no address was needed for, and their agreements: these alone lead to the
    /// payment provider's customer.
    by_id: BTreeSet<OrderKey>,
    pacts_by_id: BTreeSet<String>,
    decided: Decided,
}

/// Values of a list in a statement.
const CHUNK: usize = 500;

/// Whom to look for.
#[derive(Clone, Debug, Default)]
pub struct Sought {
    pub shop: String,
    pub customers: BTreeSet<i64>,
    /// Orders of theirs, be they known or not, whoever is their customer.
    pub orders: BTreeSet<i64>,
    /// The same, unless they are another customer's.
    pub guest_orders: BTreeSet<i64>,
    /// As somebody wrote them.
    pub email: Option<String>,
    pub phone: Option<String>,
    /// What is not to be held.
    pub decided: Decided,
}

impl Sought {
    /// A request that names a customer and an order of another has one of them wrong, and nobody
    /// knows which.
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
            email: person.email.clone(),
            phone: person.phone.clone(),
            decided: Decided::default(),
        }
    }

    /// With whom an operator says to be the same person.
    #[must_use]
    pub fn decided(mut self, decided: &Decided) -> Self {
        self.customers.extend(&decided.customers);
        self.orders.extend(&decided.orders);
        self.decided = decided.clone();
        self
    }
}

/// What is known without a look.
fn named(sought: &Sought) -> PersonRows {
    let mut found = PersonRows {
        shop: sought.shop.clone(),
        customers: sought.customers.clone(),
        guest_orders: sought.guest_orders.clone(),
        decided: sought.decided.clone(),
        ..PersonRows::default()
    };
    for shop in found.shops() {
        let keys = sought.orders.iter().map(|id| (shop.clone(), *id));
        found.orders.extend(keys);
    }
    found.add_addresses(sought.email.as_deref(), sought.phone.as_deref());
    found
}

/// Everything of a person.
pub async fn find(db: &Db, sought: &Sought) -> Result<PersonRows> {
    person_keys::complete(db).await?;
    let mut found = named(sought);
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

impl PersonRows {
    /// Without those that checkout sessions made.
    pub fn storefront_orders(&self) -> impl Iterator<Item = i64> {
        let orders = self.orders.iter().filter(|(shop, _)| shop != CHECKOUT);
        orders.map(|(_, id)| *id)
    }

    /// In which shops the ids of customers and orders are theirs.
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

    /// True for what is recognized as theirs.
    fn knows(&self, key: Trace<'_>) -> bool {
        match key {
            Trace::Customer(id) => self.customers.contains(&id),
            Trace::Order(id) => {
                let mut shops = self.shops().into_iter();
                shops.any(|shop| self.orders.contains(&(shop, id)))
            }
            Trace::GuestOrder(id) => self.guest_orders.contains(&id),
            Trace::Email(email) => self.emails.contains(email),
            Trace::Pact(pact) => self.pacts.contains(pact),
            Trace::Payment(id) => [&self.payments, &self.sessions, &self.subscriptions]
                .iter()
                .any(|ids| ids.contains(id)),
            Trace::Payer(id) => self.payers.contains(id),
            Trace::Phone(_) | Trace::Shop => false,
        }
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

fn list<T: Clone>(set: &BTreeSet<T>) -> Vec<T> {
    set.iter().cloned().collect()
}

/// Those of the customers.
async fn addresses(db: &Db, found: &mut PersonRows) -> Result<()> {
    let customers = list(&found.customers);
    for shop in found.shops() {
        for customers in customers.chunks(CHUNK) {
            let rows = db
                .query("select email, phone from customers where shop = $1 and id in ($2..)")
                .bind(shop.as_str())
                .bind(customers.to_vec())
                .fetch_all()
                .await?;
            for row in &rows {
                let email: Option<String> = row.get("email")?;
                let phone: Option<String> = row.get("phone")?;
                found.add_addresses(email.as_deref(), phone.as_deref());
            }
        }
    }
    Ok(())
}

/// Other customers who have an address or a number of theirs. Of a number that very many have a
/// few are enough to say so.
async fn customers_in_common(db: &Db, found: &mut PersonRows) -> Result<()> {
    for shop in found.shops() {
        let by_email = db
            .query("select id from customers where shop = $1 and email_key in ($2..) limit 500")
            .bind(shop.as_str())
            .bind(list(&found.emails));
        let mut rows = by_email.fetch_all().await?;
        let by_phone = db
            .query("select id from customers where shop = $1 and phone_key in ($2..) limit 500")
            .bind(shop.as_str())
            .bind(list(&found.phones));
        rows.extend(by_phone.fetch_all().await?);
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
    let named: Vec<i64> = sought.orders.union(&sought.guest_orders).copied().collect();
    for shop in found.shops() {
        let mut rows = Vec::new();
        for customers in list(&found.customers).chunks(CHUNK) {
            let query = db.query(
                "select id, customer_id, email_key from orders
                 where shop = $1 and customer_id in ($2..)",
            );
            let query = query.bind(shop.as_str()).bind(customers.to_vec());
            rows.extend(query.fetch_all().await?);
        }
        for ids in named.chunks(CHUNK) {
            let query = db.query(
                "select id, customer_id, email_key from orders where shop = $1 and id in ($2..)",
            );
            let query = query.bind(shop.as_str()).bind(ids.to_vec());
            rows.extend(query.fetch_all().await?);
        }
        let by_email = db
            .query(
                "select id, customer_id, email_key from orders
                 where shop = $1 and email_key in ($2..)",
            )
            .bind(shop.as_str())
            .bind(list(&found.emails));
        rows.extend(by_email.fetch_all().await?);
        let by_phone = db
            .query(
                "select id, customer_id, email_key from orders
                 where shop = $1 and phone_key in ($2..) limit 500",
            )
            .bind(shop.as_str())
            .bind(list(&found.phones));
        rows.extend(by_phone.fetch_all().await?);
        for row in &rows {
            take_order(found, &shop, row)?;
        }
    }
    Ok(())
}

/// An order that has something in common with them: it is theirs, or it is held.
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
        if owns_order(&by_id, |key| found.knows(key)) {
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

/// Agreements by which payments of these orders are found. One that several orders claim
/// links none of them.
async fn agreements(db: &Db, found: &mut PersonRows) -> Result<()> {
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
        let claim = orders::owner(db, &pact).await?;
        let key = (shop, id);
        if claim.is_some_and(|claim| claim.key == key) {
            if found.by_id.contains(&key) {
                found.pacts_by_id.insert(pact.clone());
            }
            found.pacts.insert(pact);
        }
    }
    Ok(())
}

/// Orders that checkout sessions made for one of the addresses.
async fn placeholders_by_address(db: &Db, found: &mut PersonRows) -> Result<()> {
    let rows = db
        .query("select id, pact_id from orders where shop = $1 and email_key in ($2..)")
        .bind(CHECKOUT)
        .bind(list(&found.emails))
        .fetch_all()
        .await?;
    for row in &rows {
        let id: i64 = row.get("id")?;
        let pact: Option<String> = row.get("pact_id")?;
        if of(db, found, pact.as_deref()).await? != Of::Others {
            found.orders.insert((CHECKOUT.to_owned(), id));
            let pact = pact.unwrap_or_else(|| id.to_string());
            let claim = orders::owner(db, &pact).await?;
            if claim.is_some_and(|claim| claim.key == (CHECKOUT.to_owned(), id)) {
                found.pacts.insert(pact);
            }
        }
    }
    Ok(())
}

/// Whose order an agreement is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// No storefront's order is known to claim it, or several do.
    Nobody,
    Them,
    Others,
}

/// Whose a payment or session is by its agreement; one of another in this shop is held.
async fn of(db: &Db, found: &mut PersonRows, pact: Option<&str>) -> Result<Of> {
    let Some(pact) = pact else {
        return Ok(Of::Nobody);
    };
    let Some(claim) = orders::owner(db, pact).await? else {
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

/// Holds an order of somebody else, or its customer. Another shop's has nothing to do with it.
/// False for one of nobody: it had no customer, and was erased.
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
    for pacts in list(&found.pacts).chunks(CHUNK) {
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
        .query("select id, pact_id from payments where email_key in ($1..)")
        .bind(list(&found.emails))
        .fetch_all()
        .await?;
    take_payments(db, found, &rows).await
}

/// Those that are of no other's order.
async fn take_payments(db: &Db, found: &mut PersonRows, rows: &[Row]) -> Result<()> {
    for row in rows {
        let pact: Option<String> = row.get("pact_id")?;
        if of(db, found, pact.as_deref()).await? != Of::Others {
            found.payments.insert(row.get("id")?);
        }
    }
    Ok(())
}

async fn sessions(db: &Db, found: &mut PersonRows) -> Result<()> {
    let lists = [
        list(&found.pacts),
        list(&found.payments),
        list(&found.emails),
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
                     where email_key in ($1..)",
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
            if order_of(&row)?.is_some_and(|key| found.orders.contains(&key)) {
                rows.push(row);
            }
        }
    }
    take_sessions(db, found, &rows).await
}

fn order_of(row: &Row) -> Result<Option<OrderKey>> {
    let shop: Option<String> = row.get("shop")?;
    Ok(shop.zip(row.get("order_id")?))
}

/// Those that are of no other's order, with what they lead to.
async fn take_sessions(db: &Db, found: &mut PersonRows, rows: &[Row]) -> Result<()> {
    for row in rows {
        let pact: Option<String> = row.get("pact_id")?;
        let order = order_of(row)?;
        let is_theirs = order.as_ref().is_some_and(|key| found.orders.contains(key));
        if !is_theirs {
            if of(db, found, pact.as_deref()).await? == Of::Others {
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

/// Orders that checkout sessions made, be they of a session still or taken the place of.
fn placeholders(found: &mut PersonRows) {
    let names = found.pacts.iter().chain(&found.sessions);
    let keys: Vec<OrderKey> = names.map(|name| orders::checkout_key(name)).collect();
    found.orders.extend(keys);
}

/// Those of their checkouts and agreements, and the payments of their invoices.
async fn subscriptions(db: &Db, found: &mut PersonRows) -> Result<()> {
    for sessions in list(&found.sessions).chunks(CHUNK) {
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
    for pacts in list(&found.pacts).chunks(CHUNK) {
        let rows = db
            .query("select id from subscriptions where pact_id in ($1..)")
            .bind(pacts.to_vec())
            .fetch_all()
            .await?;
        for row in &rows {
            found.subscriptions.insert(row.get("id")?);
        }
    }
    for subscriptions in list(&found.subscriptions).chunks(CHUNK) {
        let rows = db
            .query(
                "select payment_id from invoices
                 where payment_id is not null and subscription in ($1..)",
            )
            .bind(subscriptions.to_vec())
            .fetch_all()
            .await?;
        for row in &rows {
            found.payments.insert(row.get("payment_id")?);
        }
    }
    Ok(())
}

/// The payment provider's customers who paid for their orders, and what else is theirs.
async fn payers(db: &Db, found: &mut PersonRows) -> Result<()> {
    const OF: [&str; 3] = [
        "select customer_id from payments where customer_id is not null and pact_id in ($1..)",
        "select customer_id from checkout_sessions
         where customer_id is not null and pact_id in ($1..)",
        "select customer_id from subscriptions
         where customer_id is not null and pact_id in ($1..)",
    ];
    for sql in OF {
        for pacts in list(&found.pacts_by_id).chunks(CHUNK) {
            for row in db.query(sql).bind(pacts.to_vec()).fetch_all().await? {
                found.payers.insert(row.get("customer_id")?);
            }
        }
    }
    for payers in list(&found.payers).chunks(CHUNK) {
        let query = db.query("select id, pact_id from payments where customer_id in ($1..)");
        let rows = query.bind(payers.to_vec()).fetch_all().await?;
        take_payments(db, found, &rows).await?;
        let query = db.query(
            "select id, pact_id, payment_intent, shop, order_id from checkout_sessions
             where customer_id in ($1..)",
        );
        let rows = query.bind(payers.to_vec()).fetch_all().await?;
        take_sessions(db, found, &rows).await?;
        let query = db.query("select id, pact_id from subscriptions where customer_id in ($1..)");
        for row in query.bind(payers.to_vec()).fetch_all().await? {
            let pact: Option<String> = row.get("pact_id")?;
            if of(db, found, pact.as_deref()).await? != Of::Others {
                found.subscriptions.insert(row.get("id")?);
            }
        }
    }
    subscriptions(db, found).await
}

/// True for a body that is about the person.
pub async fn concerns(db: &Db, found: &PersonRows, kept: &Kept) -> Result<bool> {
    let mentions = Mentions::of(&kept.body);
    if kept.kind.contains('/') {
        return Ok(concerns_storefront(found, kept, &mentions));
    }
    if owns_payment(&mentions, |key| found.knows(key)) {
        return Ok(true);
    }
    if !may_own_payment(&mentions, |key| found.knows(key)) {
        return Ok(false);
    }
    let mut pacts = mentions.pacts;
    for sql in payments::PACTS {
        let rows = db.query(sql).bind(list(&mentions.ids)).fetch_all().await?;
        for row in &rows {
            pacts.insert(row.get("pact_id")?);
        }
    }
    let mut found = found.clone();
    for pact in &pacts {
        if of(db, &mut found, Some(pact)).await? == Of::Others {
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
    match Topic::parse(&kept.kind) {
        // Another erasure that is open reads its own body, and cuts it at its end.
        Some(Topic::Redact) if kept.state == State::Ready => return false,
        Some(_) => maker.order = None,
        None if kept.kind.starts_with("customers/") => {
            maker.customer = maker.order.take();
        }
        None if !kept.kind.starts_with("orders/") => {
            maker.order = None;
            maker.emails = &mentions.emails;
        }
        None => {}
    }
    owns_order(&maker, |key| found.knows(key))
}

/// True for an order of somebody else that mentions the person, as one that was sent to them.
pub fn is_mentioned(found: &PersonRows, kept: &Kept) -> bool {
    let shops = found.shops();
    if !kept.kind.starts_with("orders/")
        || kept.shop.as_ref().is_some_and(|shop| !shops.contains(shop))
    {
        return false;
    }
    let (emails, phones) = Mentions::of(&kept.body).of_others();
    !emails.is_disjoint(&found.emails) || !phones.is_disjoint(&found.phones)
}
