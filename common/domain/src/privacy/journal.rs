//! The journal of erasures, which is kept outside the database, in the store of exports. It lets an
//! erasure be done again on a database that was restored from an older backup.
//!
//! An entry has no personal data: people are in it as keyed hashes ([`Keys::subject`]), the same as
//! in tombstones. Ids of orders are in it as the request and the erasure have them.
//!
//! Entries are numbered from 1 on. Each has the hash of the one before it, and its own hash, which is
//! made with our key, covers its whole text. So whoever reads the journal in sequence notices an
//! entry that was changed, forged, moved or taken out from the middle. Entries that are missing at
//! the end are noticed only by somebody who knows how many there were, as the database does.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use super::{Asked, Decided, Keys, Person, Request, SubjectKey};
use crate::time::Timestamp;

/// The hash of an entry.
pub type Hash = [u8; 32];

/// What an erasure erased.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erased {
    /// The id of its job, which is also that of its privacy request.
    pub job: Uuid,
    /// The kind of the job: `customers/redact`, `shop/redact`, or that of an erasure of what came
    /// late.
    pub kind: String,
    pub shop: String,
    pub received_at: Timestamp,
    pub due_at: Timestamp,
    pub erased_at: Timestamp,
    /// Whom the request named.
    pub named: Named,
    /// What operators had decided by then. Customers are in `decided_customers`.
    pub decided: Decided,
    pub decided_customers: DecidedCustomers,
    /// The storefront's orders that were found in whatever way, and those of them that an id led to.
    pub orders: BTreeSet<i64>,
    pub orders_by_id: BTreeSet<i64>,
    /// The tombstones, by shop. Those of no shop are of everything that was found: customers,
    /// addresses, telephone numbers, payments, sessions and subscriptions.
    pub tombstones: BTreeMap<String, BTreeSet<Uuid>>,
}

/// Whom a request named, as its row, its receipt and the tombstones have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The tombstone of the customer in no shop.
    pub customer: Option<Uuid>,
    /// The keys of the address and the telephone number in the request's shop.
    pub email: Option<Uuid>,
    pub phone: Option<Uuid>,
    pub orders: Vec<i64>,
    /// The key of the request's body.
    pub body: Uuid,
    pub asked: Asked,
}

/// The customers that operators decided about, as tombstones in no shop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedCustomers {
    pub same: BTreeSet<Uuid>,
    pub others: BTreeSet<Uuid>,
}

/// The shop of the keys by which people are found again, as of tombstones of payments.
pub const NO_SHOP: &str = "";

impl Named {
    /// Whom this request named. `job` is its id, and `body` its body.
    pub fn of(keys: &Keys, job: Uuid, request: &Request, body: &[u8]) -> Self {
        let Person { id, email, phone } = &request.person;
        let key = |key: Option<SubjectKey<'_>>| keys.subject(&request.shop, key?);
        Named {
            customer: id.and_then(|id| keys.subject(NO_SHOP, SubjectKey::Customer(id))),
            email: key(email.as_deref().map(SubjectKey::Email)),
            phone: key(phone.as_deref().map(SubjectKey::Phone)),
            orders: request.orders.clone(),
            body: keys.body(body),
            asked: keys.asked(job, &request.person),
        }
    }
}

impl DecidedCustomers {
    /// The customers of a decision, which is left without them.
    pub fn taken_from(keys: &Keys, decided: &mut Decided) -> Self {
        let hashed = |ids: BTreeSet<i64>| {
            let ids = ids.into_iter().map(SubjectKey::Customer);
            ids.filter_map(|id| keys.subject(NO_SHOP, id)).collect()
        };
        DecidedCustomers {
            same: hashed(std::mem::take(&mut decided.customers)),
            others: hashed(std::mem::take(&mut decided.other_customers)),
        }
    }
}

impl Erased {
    /// True for the same erasure, done again at whatever time.
    pub fn is_same(&self, other: &Erased) -> bool {
        let at = |erased_at| Erased {
            erased_at,
            ..other.clone()
        };
        *self == at(self.erased_at)
    }
}

/// An entry as it is stored, in the database and outside of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub number: i64,
    pub hash: Hash,
    /// The bytes of the object.
    pub bytes: Vec<u8>,
    pub erased: Erased,
}

/// The object of an entry.
#[derive(Serialize, Deserialize)]
struct Object {
    /// An [`Inner`] as JSON; the hash is over these bytes.
    entry: String,
    /// The value in hex.
    hash: String,
}

#[derive(Serialize, Deserialize)]
struct Inner {
    number: i64,
    /// The hash of the entry before it, in hex.
    follows: String,
    erased: Erased,
}

/// What is wrong with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    #[error("is not as it was written, or PRIVACY_KEY is another one")]
    Changed,
    #[error("has the place of another entry")]
    Moved,
    #[error("does not follow the entry before it")]
    Apart,
    #[error("is missing")]
    Missing,
}

/// The hash before the first entry.
pub fn begin(keys: &Keys) -> Hash {
    keys.code("erasures begin", &[])
}

impl Entry {
    /// The entry with this number after the one with the hash `before`.
    pub fn new(keys: &Keys, number: i64, before: &Hash, erased: Erased) -> Self {
        let inner = Inner {
            number,
            follows: hex::encode(before),
            erased,
        };
        let text = serde_json::to_string(&inner).expect("an entry is JSON");
        let hash = hash(keys, &text);
        let object = Object {
            entry: text,
            hash: hex::encode(hash),
        };
        Entry {
            number,
            hash,
            bytes: serde_json::to_vec(&object).expect("an entry is JSON"),
            erased: inner.erased,
        }
    }

    /// Reads the object of the entry with this number. With `before` it must follow the entry with
    /// that hash.
    pub fn read(
        keys: &Keys,
        number: i64,
        bytes: &[u8],
        before: Option<&Hash>,
    ) -> Result<Self, Wrong> {
        let object: Object = serde_json::from_slice(bytes).map_err(|_| Wrong::Changed)?;
        let hash = hash(keys, &object.entry);
        let given = hex::decode(&object.hash).map_err(|_| Wrong::Changed)?;
        if !bool::from(hash.as_slice().ct_eq(&given)) {
            return Err(Wrong::Changed);
        }
        let inner: Inner = serde_json::from_str(&object.entry).map_err(|_| Wrong::Changed)?;
        if inner.number != number {
            return Err(Wrong::Moved);
        }
        if before.is_some_and(|before| hex::encode(before) != inner.follows) {
            return Err(Wrong::Apart);
        }
        Ok(Entry {
            number,
            hash,
            bytes: bytes.to_vec(),
            erased: inner.erased,
        })
    }
}

fn hash(keys: &Keys, text: &str) -> Hash {
    keys.code("erasures", &[text.as_bytes()])
}
