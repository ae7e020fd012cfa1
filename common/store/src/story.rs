//! What came of the deliveries about an order, a payment, a subscription or a customer: their jobs with the attempts
//! that are kept, the calls that followed, and the events. It is read by the index of objects, and nothing of a body
//! is read.

use std::collections::HashMap;

use serde::Serialize;

use crate::job_attempts::{self, Attempt};
use crate::jobs::{self, Summary};
use crate::orders::view::Order;
use crate::orders::{self, OrderLookup, list};
use crate::reconciliations::{self, Reconciled};
use crate::sql::{Db, Result};
use crate::{checkout_sessions, events, invoices, payments};
use domain::envelope::Envelope;
use domain::job::JobId;

/// How many jobs and events of an order, and of each of its payments, are read, at most: the newest.
pub const MOST: i64 = 100;
/// The most payments and checkout sessions of an order that are read.
const MOST_PAYMENTS: i64 = 20;
/// The most invoices of a subscription that are read.
const MOST_INVOICES: i64 = 12;
/// The most orders of a customer that are read: the newest.
pub const MOST_ORDERS: usize = 10;
/// How many orders of one name, or shops of one id, a search finds.
pub const CHOICES: usize = 50;

/// A job with its attempts.
#[derive(Debug, Serialize)]
pub struct WithHistory {
    #[serde(flatten)]
    pub job: Summary,
    pub history: Vec<Attempt>,
    /// Set if its delivery never came and was found at the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconciled: Option<Reconciled>,
}

/// What came of deliveries.
#[derive(Debug, Serialize)]
pub struct Story {
    /// Deliveries and calls, about the order and about its payments, with their failed attempts, the
    /// oldest first.
    pub jobs: Vec<WithHistory>,
    pub events: Vec<Envelope>,
    /// The payments and checkout sessions of the order or the subscription.
    #[serde(skip)]
    pub payments: Vec<String>,
}

/// What the payment provider has sent about these, and the events about them. It names no shop.
async fn of_provider(db: &Db, ids: &[String]) -> Result<(Vec<Summary>, Vec<Envelope>)> {
    let (mut found, mut events) = (Vec::new(), Vec::new());
    for id in ids {
        found.extend(jobs::of_object(db, "", id, MOST).await?);
        events.extend(events::of_object(db, "", id, MOST).await?);
    }
    Ok((found, events))
}

impl Story {
    pub async fn of_order(db: &Db, shop: &str, id: i64) -> Result<Self> {
        let payments = payments::of_order(db, shop, id, MOST_PAYMENTS).await?;
        let id = id.to_string();
        let mut found = jobs::of_object(db, shop, &id, MOST).await?;
        let mut events = events::of_object(db, shop, &id, MOST).await?;
        let (paid, reported) = of_provider(db, &payments).await?;
        found.extend(paid);
        events.extend(reported);
        events.sort_by_key(|event| event.position);
        Ok(Story {
            jobs: with_histories(db, found).await?,
            events,
            payments,
        })
    }

    /// The story of a customer's newest orders, with their payments.
    pub async fn of_orders(db: &Db, shop: &str, orders: &[i64]) -> Result<Self> {
        let mut all = Story {
            jobs: Vec::new(),
            events: Vec::new(),
            payments: Vec::new(),
        };
        for id in orders.iter().take(MOST_ORDERS) {
            let story = Story::of_order(db, shop, *id).await?;
            all.jobs.extend(story.jobs);
            all.events.extend(story.events);
            all.payments.extend(story.payments);
        }
        // A payment may pay for several orders.
        all.jobs.sort_by_key(|it| it.job.id);
        all.jobs.dedup_by_key(|it| it.job.id);
        all.events.sort_by_key(|event| event.position);
        all.events.dedup_by_key(|event| event.id);
        Ok(all)
    }

    /// The story of a subscription: of itself, the checkout that began it, its invoices, and what they were paid with.
    pub async fn of_subscription(db: &Db, id: &str) -> Result<Self> {
        let invoices = invoices::of_subscription(db, id, MOST_INVOICES).await?;
        let mut payments = checkout_sessions::of_subscription(db, id, MOST_INVOICES).await?;
        payments.extend(invoices.iter().filter_map(|it| it.payment_id.clone()));
        payments.sort();
        payments.dedup();
        let mut ids = payments.clone();
        ids.extend(invoices.into_iter().map(|it| it.id));
        ids.push(id.to_owned());
        let (found, mut events) = of_provider(db, &ids).await?;
        events.sort_by_key(|event| event.position);
        Ok(Story {
            jobs: with_histories(db, found).await?,
            events,
            payments,
        })
    }

    pub async fn of_payment(db: &Db, id: &str) -> Result<Self> {
        let found = jobs::of_object(db, "", id, MOST).await?;
        Ok(Story {
            jobs: with_histories(db, found).await?,
            events: events::of_object(db, "", id, MOST).await?,
            payments: Vec::new(),
        })
    }

    /// Whether there may be more jobs or events than were read.
    pub fn is_cut(&self) -> bool {
        let most = usize::try_from(MOST).unwrap_or(usize::MAX);
        self.jobs.len() >= most || self.events.len() >= most
    }
}

/// The jobs with their attempts, the oldest first.
pub async fn with_histories(db: &Db, mut jobs: Vec<Summary>) -> Result<Vec<WithHistory>> {
    jobs.sort_by_key(|job| job.id);
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    let mut attempts: HashMap<JobId, Vec<Attempt>> = HashMap::new();
    for (job, attempt) in job_attempts::of_jobs(db, ids.clone()).await? {
        attempts.entry(job).or_default().push(attempt);
    }
    let mut reconciled = reconciliations::among(db, &ids).await?;
    let with_history = |job: Summary| WithHistory {
        reconciled: reconciled.remove(&job.id),
        history: attempts.remove(&job.id).unwrap_or_default(),
        job,
    };
    Ok(jobs.into_iter().map(with_history).collect())
}

/// Which order somebody means who gives an id or a name.
#[derive(Debug)]
pub enum Meant {
    One(Box<Order>),
    None,
    /// These shops have an order with this id.
    Shops(Vec<String>),
    /// These orders have this name: the id and the shop of each.
    Named(Vec<(i64, String)>),
}

/// Finds an order by its id, or else by its name, with or without the `#` before it.
pub async fn order(db: &Db, order: &str, shop: Option<String>) -> Result<Meant> {
    let shops = shop.map(|shop| vec![shop]);
    if let Ok(id) = order.parse() {
        match orders::find(db, id, shops.clone()).await? {
            OrderLookup::One(order) => return Ok(Meant::One(order)),
            OrderLookup::Several => {
                let most = i64::try_from(CHOICES).unwrap_or(i64::MAX);
                return Ok(Meant::Shops(orders::places(db, id, most).await?));
            }
            OrderLookup::None => {}
        }
    }
    let filter = list::Filter {
        shops,
        name: Some(order.to_owned()),
        ..list::Filter::default()
    };
    let named = list::page(db, &filter, None, CHOICES).await?.orders;
    let found = match named.as_slice() {
        [] => OrderLookup::None,
        [one] => orders::find(db, one.id, Some(vec![one.shop.clone()])).await?,
        _ => OrderLookup::Several,
    };
    Ok(match found {
        OrderLookup::One(order) => Meant::One(order),
        OrderLookup::None => Meant::None,
        OrderLookup::Several => {
            let named = named.into_iter().map(|order| (order.id, order.shop));
            Meant::Named(named.collect())
        }
    })
}
