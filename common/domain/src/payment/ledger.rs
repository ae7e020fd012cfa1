//! The double entry of payments. The state of the ledger for a payment is a function of the
//! payment's record, and a change posts the difference between two records. So the sum of all
//! postings depends only on the facts, whatever the sequence in which they became known, and
//! every posting has its counterpart.
//!
//! | entry    | from                                    | to                         | amount   |
//! |----------|-----------------------------------------|----------------------------|----------|
//! | captured | the provider                            | held                       | received |
//! | released | held                                    | released to the agreement  | received |
//! | refunded | released to the agreement, without: held | credited to the customer  | refunded |
//! | disputed | released to the agreement, without: held | disputed                   | disputed |
//!
//! A refund that failed and a dispute that was won are posted back.
//! When a refund is known before its capture, its account is below zero until the capture is
//! known. When the agreement, the customer or the currency turns out to be another one, the entry
//! is taken back from the old account and made in the new one.

use std::collections::BTreeMap;
use std::fmt;

use strum::IntoStaticStr;

use super::record::{Part, Record};
use crate::money::Currency;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Account {
    /// What the payment provider owes for captured money, as a number below zero.
    Provider,
    /// Captured money that belongs to no agreement yet.
    Held,
    /// Money of an agreement, by its id.
    Released(String),
    /// Money that was refunded, by the provider's customer where one is known.
    Credited(Option<String>),
    /// Money that a customer's bank has taken back, and holds or has kept.
    Disputed,
}

/// What a posting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum LedgerEntry {
    Captured,
    Released,
    Refunded,
    Disputed,
}

/// The amount in minor units that an account gains, or loses when it is below zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posting {
    pub entry: LedgerEntry,
    pub account: Account,
    pub minor: i64,
    pub currency: Currency,
}

/// What is to be posted when the record of a payment changes from `before` to `after`. The
/// postings of each entry and currency sum to zero, and no posting is zero.
pub fn postings(before: Option<&Record>, after: &Record) -> Vec<Posting> {
    let mut postings = Vec::new();
    for entry in [
        LedgerEntry::Captured,
        LedgerEntry::Released,
        LedgerEntry::Refunded,
        LedgerEntry::Disputed,
    ] {
        let mut sums: BTreeMap<(Account, Currency), i64> = BTreeMap::new();
        let mut post = |record: &Record, sign: i64| {
            let (from, to, minor) = flow(record, entry);
            let currency = record.currency.value;
            // No account is on both sides of one entry, so the sums stay within 64 bits.
            *sums.entry((from, currency)).or_default() -= sign * minor;
            *sums.entry((to, currency)).or_default() += sign * minor;
        };
        if let Some(before) = before {
            post(before, -1);
        }
        post(after, 1);
        for ((account, currency), minor) in sums {
            if minor != 0 {
                postings.push(Posting {
                    entry,
                    account,
                    minor,
                    currency,
                });
            }
        }
    }
    postings
}

/// The account from which an entry moves money, the account to which it moves it, and the amount in minor units.
fn flow(record: &Record, entry: LedgerEntry) -> (Account, Account, i64) {
    let text = |part: &Option<Part<String>>| part.as_ref().map(|part| part.value.clone());
    let agreement = text(&record.pact_id).map_or(Account::Held, Account::Released);
    match entry {
        LedgerEntry::Captured => (Account::Provider, Account::Held, record.received),
        // Without an agreement both accounts are `Held`, and the two postings cancel each other.
        LedgerEntry::Released => (Account::Held, agreement, record.received),
        LedgerEntry::Refunded => {
            let customer = Account::Credited(text(&record.customer));
            (agreement, customer, record.refunded())
        }
        LedgerEntry::Disputed => (agreement, Account::Disputed, record.disputed()),
    }
}

/// The account's name as the ledger stores it: `held`, `released:pact_..`, `credited:cus_..`.
impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Account::Provider => f.write_str("provider"),
            Account::Held => f.write_str("held"),
            Account::Released(agreement) => write!(f, "released:{agreement}"),
            Account::Disputed => f.write_str("disputed"),
            Account::Credited(None) => f.write_str("credited"),
            Account::Credited(Some(customer)) => write!(f, "credited:{customer}"),
        }
    }
}
