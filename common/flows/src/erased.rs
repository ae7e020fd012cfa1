//! Deliveries about people whose data was erased. They are processed like any other, but without
//! the personal part, and only the rest of their bodies is kept. So a delivery that comes late,
//! again, or while the erasure runs does not bring a person back.
//!
//! The person that a delivery is about is found by the rule by which an erasure finds rows
//! (`privacy::owns_order`), here applied to tombstones. A tombstone of an order, of a payment or of
//! the payment provider's customer holds for ever. A tombstone of a customer or an address holds
//! for what was made before the erasure: people who come back later, even with the same id, are new
//! customers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use domain::connection::DEFAULT;
use domain::job::{Job, Kind, Source};
use domain::privacy::{
    Keys, Maker, Mentions, SubjectKey, created_at, erased_body, may_own_payment, owns_order,
    owns_payment,
};
use domain::time::Timestamp;
use store::sql::{self, Tx};
use store::tombstones::NO_SHOP;
use store::{erasure, orders, tombstones};
use uuid::Uuid;

use crate::Context;

/// The clocks of two hosts differ by less than this.
const SKEW: Duration = Duration::from_mins(5);

/// Whom a body may be about, and when its object was made.
pub struct About {
    mentions: Mentions,
    /// In Unix milliseconds, if the body says it.
    created_at: Option<i64>,
    arrived_at: i64,
    /// The shop of the tombstones of addresses, where the body is a payment provider's.
    payments: String,
}

impl About {
    pub fn read(job: &Job) -> Self {
        let mut mentions = Mentions::of(&job.body);
        if job.kind.row().source == Source::Payment {
            mentions.qualify(job.connection.as_deref().unwrap_or(DEFAULT));
        }
        About {
            mentions,
            created_at: created_at(&job.body),
            arrived_at: job.created_at.0,
            payments: tombstones::of_payments(job.connection.as_deref().unwrap_or(DEFAULT)),
        }
    }

    /// Whether the object was made before the erasure. An object counts as older if its body does
    /// not say when it was made, or says that it was made after the delivery came.
    fn is_before(&self, erased_at: Timestamp) -> bool {
        let latest = Timestamp(self.arrived_at).plus(SKEW).0;
        let is_new = |at: i64| at > erased_at.0 && at <= latest;
        !self.created_at.is_some_and(is_new)
    }
}

/// How a delivery stands to the tombstones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TombstoneMatch {
    None,
    /// The delivery is about somebody else, but its body mentions a person whose data was erased.
    Mentioned,
    /// The delivery is about a person whose data was erased.
    Erased {
        /// Whether the order has a tombstone of its own. Then the order was there when the data
        /// was erased, and what belongs to it was erased with it.
        order: bool,
    },
    /// The whole shop was erased after the object was made. The delivery is not stored.
    Gone,
}

/// The tombstones in its shop that could concern a delivery.
struct Candidates<'a> {
    keys: &'a Keys,
    shop: Option<&'a str>,
    about: &'a About,
    of_others: (BTreeSet<String>, BTreeSet<String>),
}

impl<'a> Candidates<'a> {
    fn of(context: Context<'a>, shop: Option<&'a str>, about: &'a About) -> Self {
        Candidates {
            keys: context.keys,
            shop,
            about,
            of_others: about.mentions.of_others(),
        }
    }

    /// The shop of a tombstone. Ids of the payment provider have their connection in themselves.
    fn shop_of(&self, key: SubjectKey<'_>) -> &'a str {
        match (self.shop, key) {
            (Some(shop), _) => shop,
            (None, SubjectKey::Email(_)) => &self.about.payments,
            (None, _) => NO_SHOP,
        }
    }

    fn key(&self, key: SubjectKey<'_>) -> Option<Uuid> {
        self.keys.subject(self.shop_of(key), key)
    }

    /// The keys of all tombstones that could concern the delivery, with their shops.
    fn all(&self) -> impl Iterator<Item = (&'a str, Uuid)> {
        let mentions = &self.about.mentions;
        let emails = mentions.emails.iter().map(|it| SubjectKey::Email(it));
        let mut keys: Vec<SubjectKey<'_>> = emails.collect();
        if self.shop.is_some() {
            keys.extend(mentions.order.map(SubjectKey::Order));
            keys.extend(mentions.order.map(SubjectKey::GuestOrder));
            keys.extend(mentions.customer.map(SubjectKey::Customer));
            keys.extend(mentions.phones.iter().map(|it| SubjectKey::Phone(it)));
            keys.push(SubjectKey::Shop);
        } else {
            keys.extend(mentions.ids.iter().map(|it| SubjectKey::Payment(it)));
            keys.extend(
                mentions
                    .agreements
                    .iter()
                    .map(|it| SubjectKey::Agreement(it)),
            );
            keys.extend(mentions.payers.iter().map(|it| SubjectKey::Payer(it)));
        }
        keys.into_iter()
            .filter_map(|key| Some((self.shop_of(key), self.key(key)?)))
    }

    /// Whether only the payer links the delivery to a person whose data was erased. Then it matters
    /// whose order it belongs to.
    fn is_by_payer(&self, erased: &Erased) -> bool {
        let mentions = &self.about.mentions;
        self.shop.is_none()
            && !owns_payment(mentions, |key| self.knows(erased, key))
            && may_own_payment(mentions, |key| self.knows(erased, key))
    }

    /// Whether there is a tombstone of this key that concerns the delivery.
    fn knows(&self, erased: &Erased, key: SubjectKey<'_>) -> bool {
        let Some(at) = self.key(key).and_then(|key| erased.get(&key)) else {
            return false;
        };
        match key {
            SubjectKey::Customer(_) | SubjectKey::Email(_) | SubjectKey::Phone(_) => {
                self.about.is_before(*at)
            }
            SubjectKey::Shop => self.about.created_at.unwrap_or(self.about.arrived_at) <= at.0,
            SubjectKey::Order(_)
            | SubjectKey::GuestOrder(_)
            | SubjectKey::Agreement(_)
            | SubjectKey::Payment(_)
            | SubjectKey::Payer(_) => true,
        }
    }

    /// `is_anothers` says that the delivery belongs to an order of somebody whose data was not
    /// erased.
    fn tombstone(&self, erased: &Erased, is_anothers: bool) -> TombstoneMatch {
        let knows = |key: SubjectKey<'_>| self.knows(erased, key);
        let mentions = &self.about.mentions;
        if self.shop.is_none() {
            let is_payer = !is_anothers && may_own_payment(mentions, knows);
            if owns_payment(mentions, knows) || is_payer {
                return TombstoneMatch::Erased { order: false };
            }
            return TombstoneMatch::None;
        }
        if knows(SubjectKey::Shop) {
            return TombstoneMatch::Gone;
        }
        if owns_order(&Maker::from(mentions), knows) {
            let order = mentions
                .order
                .is_some_and(|id| knows(SubjectKey::Order(id)));
            return TombstoneMatch::Erased { order };
        }
        let (emails, phones) = &self.of_others;
        if emails.iter().any(|it| knows(SubjectKey::Email(it)))
            || phones.iter().any(|it| knows(SubjectKey::Phone(it)))
        {
            return TombstoneMatch::Mentioned;
        }
        TombstoneMatch::None
    }
}

/// The tombstones that were found, and when each was written.
type Erased = HashMap<Uuid, Timestamp>;

/// Takes the shared lock of the shop of each delivery, and says how each delivery stands. A delivery
/// of the payment provider has no shop. This must come before anything personal is written.
pub async fn check(
    context: Context<'_>,
    tx: &mut Tx,
    deliveries: &[(Option<&str>, &About)],
) -> sql::Result<Vec<TombstoneMatch>> {
    let mut keys: BTreeMap<&str, BTreeSet<Uuid>> = BTreeMap::new();
    let mut candidates = Vec::with_capacity(deliveries.len());
    for (shop, about) in deliveries {
        let candidate = Candidates::of(context, *shop, about);
        // The lock of its shop is taken even if nobody is mentioned.
        keys.entry(shop.unwrap_or(NO_SHOP)).or_default();
        for (shop, key) in candidate.all() {
            keys.entry(shop).or_default().insert(key);
        }
        candidates.push(candidate);
    }
    let erased = tombstones::check(tx, &keys).await?;
    let mut matches = Vec::with_capacity(candidates.len());
    for candidate in &candidates {
        let mentions = &candidate.about.mentions;
        let is_anothers = candidate.is_by_payer(&erased)
            && orders::is_of_somebody(tx, &mentions.agreements, &mentions.ids).await?;
        matches.push(candidate.tombstone(&erased, is_anothers));
    }
    Ok(matches)
}

/// Erases from the body of a delivery what may not stay of it.
pub async fn erase_body(tx: &mut Tx, job: &Job, tombstone: TombstoneMatch) -> sql::Result<()> {
    let body = match tombstone {
        TombstoneMatch::None => return Ok(()),
        TombstoneMatch::Mentioned | TombstoneMatch::Erased { .. } => {
            erased_body(job.kind.into_str(), &job.body)
        }
        TombstoneMatch::Gone => None,
    };
    erasure::replace_body(tx, job.id, body).await.map(|_| ())
}

/// Erases the body of a delivery in the same way if its run has failed and nothing was written of
/// it.
pub async fn erase_body_of_failed(context: Context<'_>, tx: &mut Tx, job: &Job) -> sql::Result<()> {
    let shop = match job.kind {
        Kind::Payment(_) => None,
        Kind::Order(_) => Some(job.shop.as_deref().unwrap_or_default()),
        Kind::Privacy(_) | Kind::ThinPayment(_) | Kind::Internal(_) => return Ok(()),
    };
    let about = About::read(job);
    let matches = check(context, tx, &[(shop, &about)]).await?;
    match matches[0] {
        // The delivery is about somebody else, and it must still be run, with its whole body.
        TombstoneMatch::Mentioned => Ok(()),
        tombstone => erase_body(tx, job, tombstone).await,
    }
}
