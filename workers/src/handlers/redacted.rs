//! Deliveries about people whose data was erased. They are worked on like any other, without
//! the personal part, and of their bodies only that stays as well: so an event that comes
//! late, again, or while the erasure runs does not bring a person back.
//!
//! A tombstone of a customer, an order or a payment holds for ever. One of an address holds
//! for what was made before the erasure: who comes back later is a new customer.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use common::clock::Timestamp;
use common::job::Job;
use common::payment::Kind;
use common::privacy::{Key, Mentions, created_at, scrub};
use common::sql::{self, Tx};
use common::store::subjects::NO_SHOP;
use common::store::{erasure, subjects};
use uuid::Uuid;

use super::Context;

/// Whom a body may be about, and when what it tells of was made.
pub struct About {
    mentions: Mentions,
    /// Unix milliseconds; the delivery's arrival, when the body does not say.
    created_at: i64,
}

impl About {
    pub fn read(job: &Job) -> Self {
        About {
            mentions: Mentions::of(&job.body),
            created_at: created_at(&job.body).unwrap_or(job.created_at.0),
        }
    }
}

/// What becomes of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Usual,
    /// Of somebody else, but its body mentions a person who is erased.
    Mentioned,
    /// It is of somebody who is erased.
    Redacted {
        /// By the order's own tombstone: what belongs to an order that was there then is erased
        /// with it.
        order: bool,
        /// By the customer's.
        customer: bool,
    },
    /// Its whole shop was erased after it was made.
    Gone,
}

/// The tombstones that a delivery could fall under.
#[derive(Default)]
struct Candidates {
    order: Option<Uuid>,
    customer: Option<Uuid>,
    /// Of a payment, whenever it was made.
    always: Vec<Uuid>,
    /// Of addresses, for what was made before.
    own: Vec<Uuid>,
    mentioned: Vec<Uuid>,
    shop: Option<Uuid>,
    created_at: i64,
}

impl Candidates {
    fn of(context: Context<'_>, shop: Option<&str>, about: &About) -> Self {
        let keys = context.keys;
        let mentions = &about.mentions;
        let created_at = about.created_at;
        let Some(shop) = shop else {
            return Candidates {
                always: mentions.payment_keys(keys, NO_SHOP),
                own: mentions.address_keys(keys, NO_SHOP),
                created_at,
                ..Candidates::default()
            };
        };
        let key = |key: Option<Key<'_>>| key.and_then(|key| keys.subject(shop, key));
        Candidates {
            order: key(mentions.order.map(Key::Order)),
            customer: key(mentions.customer.map(Key::Customer)),
            always: Vec::new(),
            own: mentions.own_keys(keys, shop),
            mentioned: mentions.address_keys(keys, shop),
            shop: key(Some(Key::Shop)),
            created_at,
        }
    }

    fn all(&self) -> impl Iterator<Item = Uuid> {
        let one = [self.order, self.customer, self.shop].into_iter().flatten();
        let lists = [&self.always, &self.own, &self.mentioned];
        one.chain(lists.into_iter().flatten().copied())
    }

    fn standing(&self, redacted: &HashMap<Uuid, Timestamp>) -> Standing {
        if redacted.is_empty() {
            return Standing::Usual;
        }
        let is = |key: &Uuid| redacted.contains_key(key);
        let is_before = |key: &Uuid| redacted.get(key).is_some_and(|at| self.created_at <= at.0);
        if self.shop.as_ref().is_some_and(is_before) {
            return Standing::Gone;
        }
        let order = self.order.as_ref().is_some_and(is);
        let customer = self.customer.as_ref().is_some_and(is);
        if order || customer || self.always.iter().any(is) || self.own.iter().any(is_before) {
            return Standing::Redacted { order, customer };
        }
        if self.mentioned.iter().any(is_before) {
            return Standing::Mentioned;
        }
        Standing::Usual
    }
}

/// Goes through the gates of the deliveries' shops, and says how each stands. `None` is the
/// payment provider's. Must come before anything personal is written.
pub async fn look(
    context: Context<'_>,
    tx: &mut Tx,
    deliveries: &[(Option<&str>, &About)],
) -> sql::Result<Vec<Standing>> {
    let mut keys: BTreeMap<&str, BTreeSet<Uuid>> = BTreeMap::new();
    let mut candidates = Vec::with_capacity(deliveries.len());
    for (shop, about) in deliveries {
        let candidate = Candidates::of(context, *shop, about);
        keys.entry(shop.unwrap_or(NO_SHOP))
            .or_default()
            .extend(candidate.all());
        candidates.push(candidate);
    }
    let redacted = subjects::look(tx, &keys).await?;
    let standings = candidates.iter().map(|it| it.standing(&redacted));
    Ok(standings.collect())
}

/// Leaves of a delivery's body what may stay of it.
pub async fn scrub_body(tx: &mut Tx, job: &Job, standing: Standing) -> sql::Result<()> {
    let body = match standing {
        Standing::Usual => return Ok(()),
        Standing::Mentioned | Standing::Redacted { .. } => scrub(&job.kind, &job.body),
        Standing::Gone => None,
    };
    erasure::replace_body(tx, job.id, body).await.map(|_| ())
}

/// The same for a delivery whose run failed, and that nothing was written of.
pub async fn scrub_failed(context: Context<'_>, tx: &mut Tx, job: &Job) -> sql::Result<()> {
    let shop = if Kind::parse(&job.kind).is_some() {
        None
    } else if job.kind.starts_with("orders/") {
        Some(job.shop.as_deref().unwrap_or_default())
    } else {
        return Ok(());
    };
    let about = About::read(job);
    let standings = look(context, tx, &[(shop, &about)]).await?;
    scrub_body(tx, job, standings[0]).await
}
