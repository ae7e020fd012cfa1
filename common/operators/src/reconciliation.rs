//! What operators ask of reconciliation, with its entry in the audit; and the provider's books beside ours.

use std::collections::{BTreeMap, BTreeSet};

use domain::connection::{DEFAULT, bare, of_id, qualified};
use domain::money::decimal;
use domain::time::Timestamp;
use providers::CallFailure;
use providers::changes::Period;
use providers::payment::{Charge, Payment};
use serde::Serialize;
use serde_json::json;
use store::audit::By;
use store::ledger;
use store::reconciliations;
use store::sql::{self, Db};

/// Why nobody is asked.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("--since must be a time before now")]
    Future,
    #[error(
        "{0} cannot be compared: it needs an API (waybill connections rotate {0} --api-url .. --api-token-file ..), and \
         a process that works"
    )]
    Unknown(String),
    #[error(
        "nothing can be compared: a connection needs an API (waybill connections add --help); of the settings, \
         PAYMENT_API_URL, or STOREFRONT_API_URL with STOREFRONT_SHOPS"
    )]
    Nothing,
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// Lets the workers compare a connection, or all, within seconds. `since`: what changed from then on is compared anew.
/// Returns how many shops and accounts that are; none when all are due already.
pub async fn ask(
    db: &Db,
    by: By<'_>,
    connection: Option<&str>,
    since: Option<Timestamp>,
) -> Result<u64, Refused> {
    if since.is_some_and(|since| since >= by.now) {
        return Err(Refused::Future);
    }
    let mut tx = db.begin().await?;
    if !reconciliations::is_any(&mut tx, connection).await? {
        tx.rollback().await?;
        return Err(match connection {
            Some(name) if name != DEFAULT => Refused::Unknown(name.to_owned()),
            _ => Refused::Nothing,
        });
    }
    let asked = reconciliations::ask(&mut tx, connection, since, by.now).await?;
    if asked == 0 {
        tx.rollback().await?;
        return Ok(0);
    }
    let details = json!({ "connection": connection, "since": since });
    let of = connection.unwrap_or_default();
    by.note(&mut tx, "reconciliation.asked", of, details)
        .await?;
    tx.commit().await?;
    Ok(asked)
}

/// How many payments are looked up at a time.
const AT_ONCE: usize = 500;

/// Why the books cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum NotCompared {
    #[error(transparent)]
    Provider(#[from] CallFailure),
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// What the books of a provider and ours say of a day.
#[derive(Debug, Serialize)]
pub struct Books {
    /// How many payments were charged or given back.
    pub payments: usize,
    pub differences: Vec<Difference>,
}

/// A payment of which the two say something else. Amounts are decimals in units of the currency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The charge, where it was made without a payment.
    pub payment: String,
    pub currency: String,
    pub captured: Said,
    pub refunded: Said,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Said {
    pub provider: String,
    pub booked: String,
}

/// Compares what was charged and given back in a period with the ledger: each payment that moved then at one of the two, as
/// it is now at both.
pub async fn books(
    db: &Db,
    connection: &str,
    provider: &Payment,
    period: Period,
) -> Result<Books, NotCompared> {
    let mut charges: BTreeMap<String, Charge> = BTreeMap::new();
    let mut add = |listed: Vec<Charge>| {
        charges.extend(listed.into_iter().map(|it| (it.id.clone(), it)));
    };
    add(provider.charges(period).await?);
    add(provider.refunded_charges(period).await?);
    let mut sums: BTreeMap<(String, String), Sums> = BTreeMap::new();
    add_charges(&mut sums, connection, charges.into_values());
    let known: BTreeSet<String> = sums.keys().map(|(payment, _)| payment.clone()).collect();
    let ours = ledger::moved(db, (period.from, period.until)).await?;
    let ours = ours.into_iter().filter(|it| of_id(it) == connection);
    let ours: BTreeSet<String> = ours.filter(|it| !known.contains(it)).collect();
    // What is booked late is of another day there, or of none.
    for payment in &ours {
        let charges = provider.charges_of(bare(payment)).await?;
        add_charges(&mut sums, connection, charges.into_iter());
    }
    let all: Vec<String> = known.into_iter().chain(ours).collect();
    for some in all.chunks(AT_ONCE) {
        for it in ledger::booked(db, some.to_vec()).await? {
            let sums = sums.entry((it.payment_id, it.currency)).or_default();
            sums.booked = (it.captured, it.refunded);
        }
    }
    let differences = sums
        .into_iter()
        .filter(|(_, sums)| sums.provider != sums.booked);
    Ok(Books {
        payments: all.len(),
        differences: differences.map(Difference::new).collect(),
    })
}

/// What was captured of a payment in a currency and what went back, in minor units.
#[derive(Default)]
struct Sums {
    provider: (i64, i64),
    booked: (i64, i64),
}

/// A payment has as many charges as tries, of which one took the money.
fn add_charges(
    sums: &mut BTreeMap<(String, String), Sums>,
    connection: &str,
    charges: impl Iterator<Item = Charge>,
) {
    for charge in charges {
        let (captured, refunded) = charge.moved();
        if (captured, refunded) == (0, 0) {
            continue;
        }
        let payment = charge.payment_intent.as_ref().unwrap_or(&charge.id);
        let payment = qualified(connection, payment).into_owned();
        let currency = charge.currency.to_ascii_uppercase();
        let sums = sums.entry((payment, currency)).or_default();
        sums.provider.0 += captured;
        sums.provider.1 += refunded;
    }
}

impl Difference {
    fn new(((payment, currency), sums): ((String, String), Sums)) -> Self {
        let both = |provider: i64, booked: i64| Said {
            provider: decimal(provider, &currency),
            booked: decimal(booked, &currency),
        };
        Difference {
            captured: both(sums.provider.0, sums.booked.0),
            refunded: both(sums.provider.1, sums.booked.1),
            payment,
            currency,
        }
    }
}
