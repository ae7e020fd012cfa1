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
    /// It is about somebody who is erased. `known`: by the order's or payment's own tombstone,
    /// so what belongs to it was erased with it.
    Redacted {
        known: bool,
    },
    /// Its whole shop was erased after it was made.
    Gone,
}

/// Keys of a delivery: those that hold whenever it was made, and those of addresses.
struct Candidates {
    own: Option<Uuid>,
    always: Vec<Uuid>,
    before: Vec<Uuid>,
    gone: Option<Uuid>,
    created_at: i64,
}

impl Candidates {
    fn of(context: Context<'_>, shop: Option<&str>, about: &About) -> Self {
        let keys = context.keys;
        let mentions = &about.mentions;
        let (always, before) = match shop {
            Some(shop) => mentions.keys_in(keys, shop),
            None => mentions.payment_keys(keys, NO_SHOP),
        };
        Candidates {
            own: shop.and_then(|shop| keys.subject(shop, Key::Order(mentions.order?))),
            always,
            before,
            gone: shop.and_then(|shop| keys.subject(shop, Key::Shop)),
            created_at: about.created_at,
        }
    }

    fn all(&self) -> impl Iterator<Item = Uuid> {
        let keys = self.always.iter().chain(&self.before).chain(&self.gone);
        keys.copied()
    }

    fn standing(&self, redacted: &HashMap<Uuid, Timestamp>) -> Standing {
        if redacted.is_empty() {
            return Standing::Usual;
        }
        let since = |key: &Uuid| redacted.get(key).map(|at| at.0);
        let is_before = |key: &Uuid| since(key).is_some_and(|at| self.created_at <= at);
        if self.gone.as_ref().is_some_and(is_before) {
            return Standing::Gone;
        }
        let is_redacted =
            self.always.iter().any(|key| since(key).is_some()) || self.before.iter().any(is_before);
        let known = self.own.as_ref().is_some_and(|key| since(key).is_some());
        if is_redacted {
            Standing::Redacted { known }
        } else {
            Standing::Usual
        }
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
        Standing::Redacted { .. } => scrub(&job.kind, &job.body),
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
