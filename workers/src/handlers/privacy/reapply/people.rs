//! The people of erasures that are to be done again. The journal has them as keyed hashes; what the
//! database has in clear is hashed once and compared.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Result;
use domain::privacy::Decided;
use domain::privacy::journal::{Erased, NO_SHOP};
use process::Parts;
use store::people::Sought;
use store::subjects::{self, Subject};
use uuid::Uuid;

/// What the database has of the people of an erasure.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Customers by their tombstones, also those that operators have excluded.
    customers: BTreeMap<Uuid, i64>,
    /// As they are written.
    pub emails: BTreeSet<String>,
    pub phones: BTreeSet<String>,
    payments: BTreeSet<String>,
    sessions: BTreeSet<String>,
    subscriptions: BTreeSet<String>,
}

/// The people of each erasure, found together with one look at everything.
pub async fn find(parts: &Parts, erasures: &[Erased]) -> Result<Vec<Found>> {
    let mut wanted: HashMap<Uuid, Vec<usize>> = HashMap::new();
    for (nth, erased) in erasures.iter().enumerate() {
        let decided = &erased.decided_customers;
        // An address has its tombstone in the shop, and a customer and what of a payment provider was found in none.
        let places = [NO_SHOP, erased.shop.as_str()];
        let tombstones = places
            .iter()
            .filter_map(|shop| erased.tombstones.get(*shop));
        let tombstones = tombstones.flatten();
        let named = erased.named.customer.iter();
        let keys = tombstones
            .chain(named)
            .chain(&decided.same)
            .chain(&decided.others);
        let keys: BTreeSet<Uuid> = keys.copied().collect();
        for key in keys {
            wanted.entry(key).or_default().push(nth);
        }
    }
    let shops: BTreeSet<String> = erasures.iter().map(|it| it.shop.clone()).collect();
    let mut found = vec![Found::default(); erasures.len()];
    if !wanted.is_empty() {
        subjects::each(&parts.db, |subject| {
            let is_address = matches!(subject, Subject::Email(_) | Subject::Phone(_));
            let of_shops = shops.iter().filter(|_| is_address).map(String::as_str);
            for shop in of_shops.chain([NO_SHOP]) {
                let key = parts.keys.subject(shop, subject.key());
                let Some((key, nths)) = key.and_then(|key| Some((key, wanted.get(&key)?))) else {
                    continue;
                };
                for nth in nths {
                    found[*nth].take(key, subject);
                }
            }
        })
        .await?;
    }
    Ok(found)
}

impl Found {
    fn take(&mut self, key: Uuid, subject: Subject<'_>) {
        match subject {
            Subject::Customer(id) => {
                self.customers.insert(key, id);
            }
            Subject::Email(text) => {
                self.emails.insert(text.to_owned());
            }
            Subject::Phone(text) => {
                self.phones.insert(text.to_owned());
            }
            Subject::Payment(id) => {
                self.payments.insert(id.to_owned());
            }
            Subject::Session(id) => {
                self.sessions.insert(id.to_owned());
            }
            Subject::Subscription(id) => {
                self.subscriptions.insert(id.to_owned());
            }
        }
    }

    /// The customer that the request named. None when the request named none, or nothing of the
    /// customer is here.
    pub fn named(&self, erased: &Erased) -> Option<i64> {
        self.customers.get(&erased.named.customer?).copied()
    }

    /// What operators had decided, as far as the customers are here.
    pub fn decided(&self, erased: &Erased) -> Decided {
        let known = |keys: &BTreeSet<Uuid>| {
            let known = keys.iter().filter_map(|key| self.customers.get(key));
            known.copied().collect()
        };
        Decided {
            customers: known(&erased.decided_customers.same),
            other_customers: known(&erased.decided_customers.others),
            ..erased.decided.clone()
        }
    }

    /// Whom and what the erasure is about: what its request named, what operators had decided, and what
    /// it found then.
    pub fn sought(&self, erased: &Erased) -> Sought {
        let decided = self.decided(erased);
        let customers = self.customers.iter();
        let others = &erased.decided_customers.others;
        let theirs = customers.filter(|(key, _)| !others.contains(*key));
        let named: BTreeSet<i64> = erased.named.orders.iter().copied().collect();
        let (orders, guest_orders) = match erased.named.customer {
            Some(_) => (BTreeSet::new(), named),
            None => (named, BTreeSet::new()),
        };
        Sought {
            shop: erased.shop.clone(),
            customers: theirs.map(|(_, id)| *id).collect(),
            orders: &orders | &decided.orders,
            guest_orders,
            emails: self.emails.clone(),
            phones: self.phones.clone(),
            found_payments: self.payments.clone(),
            found_sessions: self.sessions.clone(),
            found_subscriptions: self.subscriptions.clone(),
            decided,
            ..Sought::default()
        }
    }
}
