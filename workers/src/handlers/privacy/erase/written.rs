//! The tombstones that an erasure writes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use domain::privacy::{Keys, SubjectKey};
use domain::time::Timestamp;
use process::Parts;
use sha2::{Digest as _, Sha256};
use store::erasures;
use store::orders::CHECKOUT;
use store::people::PersonRows;
use store::tombstones::{self, NO_SHOP};
use uuid::Uuid;

use super::{Note, Progress};

/// The hash by which a scan that is continued recognizes whom it looks for. It is a hash of
/// tombstones, which are keyed, so it says nothing about anybody.
pub(super) fn digest(tombstones: &BTreeMap<String, BTreeSet<Uuid>>, spellings: usize) -> Uuid {
    let mut hash = Sha256::new();
    for key in tombstones.values().flatten() {
        hash.update(key);
    }
    hash.update(spellings.to_be_bytes());
    let mut first = [0; 16];
    first.copy_from_slice(&hash.finalize()[..16]);
    Uuid::from_bytes(first)
}

/// Writes tombstones of now, or of the time `at`, and notes with them how far the erasure has come.
pub(super) async fn write(
    parts: &Parts,
    note: &mut Note,
    progress: &Progress,
    tombstones: &BTreeMap<String, BTreeSet<Uuid>>,
    at: Option<Timestamp>,
) -> Result<()> {
    let tombstones: BTreeMap<&str, BTreeSet<Uuid>> = tombstones
        .iter()
        .map(|(shop, keys)| (shop.as_str(), keys.clone()))
        .collect();
    let mut tx = parts.db.begin().await?;
    let at = at.unwrap_or_else(|| parts.clock.now());
    tombstones::write(&mut tx, &tombstones, at).await?;
    erasures::note_subjects(&mut tx, note.job(), &tombstones).await?;
    note.write(&mut tx, progress).await?;
    Ok(tx.commit().await?)
}

/// The tombstones of everything that was found of a person.
pub(super) fn of(keys: &Keys, found: &PersonRows) -> BTreeMap<String, BTreeSet<Uuid>> {
    let mut tombstones: BTreeMap<String, BTreeSet<Uuid>> = BTreeMap::new();
    let mut add = |shop: &str, key: SubjectKey<'_>| {
        let of_shop = tombstones.entry(shop.to_owned()).or_default();
        of_shop.extend(keys.subject(shop, key));
    };
    for shop in found.shops() {
        for id in &found.customers {
            add(&shop, SubjectKey::Customer(*id));
        }
        for id in &found.guest_orders {
            add(&shop, SubjectKey::GuestOrder(*id));
        }
    }
    for (shop, id) in &found.orders {
        add(shop, SubjectKey::Order(*id));
    }
    let of_payments: Vec<String> = found
        .payment_connections()
        .map(tombstones::of_payments)
        .collect();
    let of_payments = || of_payments.iter().map(String::as_str);
    for email in &found.emails {
        for shop in of_payments().chain([found.shop.as_str(), CHECKOUT]) {
            add(shop, SubjectKey::Email(email));
        }
    }
    for phone in &found.phones {
        for shop in of_payments().chain([found.shop.as_str()]) {
            add(shop, SubjectKey::Phone(phone));
        }
    }
    for agreement in &found.agreements {
        add(NO_SHOP, SubjectKey::Agreement(agreement));
    }
    for payer in &found.payers {
        add(NO_SHOP, SubjectKey::Payer(payer));
    }
    let objects = found.payments.iter().chain(&found.sessions);
    for id in objects.chain(&found.subscriptions) {
        add(NO_SHOP, SubjectKey::Payment(id));
    }
    tombstones
}
