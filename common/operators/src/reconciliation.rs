//! What operators ask of reconciliation, with its entry in the audit; and the provider's books beside ours.

use std::collections::BTreeMap;

use domain::connection::{DEFAULT, qualified};
use domain::money::decimal;
use domain::time::Timestamp;
use providers::CallFailure;
use providers::changes::Period;
use providers::payment::{Charge, Payment};
use serde::Serialize;
use serde_json::json;
use store::audit::By;
use store::ledger::{self, Booked};
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
#[derive(Debug, Default, Serialize)]
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

/// Compares what was charged and given back in a period with the ledger: each payment that moved then, as it is now at both.
pub async fn books(
    db: &Db,
    connection: &str,
    provider: &Payment,
    period: Period,
) -> Result<Books, NotCompared> {
    let mut charges: BTreeMap<String, Charge> = BTreeMap::new();
    for charge in provider.charges(period).await? {
        charges.insert(charge.id.clone(), charge);
    }
    for charge in provider.refunded_charges(period).await? {
        charges.insert(charge.id.clone(), charge);
    }
    // A payment has as many charges as tries, of which one took the money.
    let mut said: BTreeMap<(String, String), (i64, i64)> = BTreeMap::new();
    for charge in charges
        .into_values()
        .filter(|it| it.captured != 0 || it.refunded != 0)
    {
        let payment = charge.payment_intent.as_ref().unwrap_or(&charge.id);
        let payment = qualified(connection, payment).into_owned();
        let sums = said
            .entry((payment, charge.currency.to_ascii_uppercase()))
            .or_default();
        sums.0 += charge.captured;
        sums.1 += charge.refunded;
    }
    let mut books = Books {
        payments: said.len(),
        ..Books::default()
    };
    let all: Vec<_> = said.into_iter().collect();
    for some in all.chunks(AT_ONCE) {
        let ids = some
            .iter()
            .map(|((payment, _), _)| payment.clone())
            .collect();
        let booked = ledger::booked(db, ids).await?;
        books
            .differences
            .extend(some.iter().filter_map(|it| difference(it, &booked)));
    }
    Ok(books)
}

/// What a provider says of a payment in a currency: what was captured, and what went back.
type Sums = ((String, String), (i64, i64));

fn difference(((payment, currency), said): &Sums, booked: &[Booked]) -> Option<Difference> {
    let ours = booked
        .iter()
        .find(|it| it.payment_id == *payment && it.currency == *currency);
    let ours = ours.map_or((0, 0), |it| (it.captured, it.refunded));
    let both = |provider: i64, booked: i64| Said {
        provider: decimal(provider, currency),
        booked: decimal(booked, currency),
    };
    (ours != *said).then(|| Difference {
        payment: payment.clone(),
        currency: currency.clone(),
        captured: both(said.0, ours.0),
        refunded: both(said.1, ours.1),
    })
}
