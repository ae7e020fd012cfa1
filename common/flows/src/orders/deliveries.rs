//! The deliveries of the order topics. Each but a deletion carries the whole order and any may come first, so
//! one handler is enough for all of them: [`prepare`] reads a body into a record, and [`apply`]
//! merges the records of a message with what is known.

use std::collections::BTreeMap;

use domain::customer;
use domain::job::Job;
use domain::order::record::Record;
use domain::order::{Customer, Order, OrderKey, Topic};
use domain::shape::Noted;
use store::sql::Tx;
use store::{customers, orders};

use super::bodies::CutBody;
use super::{Incoming, absorb};
use crate::erased::{self, About, TombstoneMatch};
use crate::outbox::Outbox;
use crate::{Context, Result, erasure};

/// What the body of a delivery says, read before the transaction.
pub struct Task {
    about: About,
    order_id: i64,
    record: Record,
    /// Set if the body leaves a status to its topic.
    cut: Option<CutBody>,
    customer: Option<(i64, Customer)>,
    pub noted: Noted,
}

/// Reads the body of a delivery, without any I/O.
pub fn prepare(context: Context<'_>, job: &Job, topic: Topic) -> Result<Task> {
    let order = Order::read(&job.body)?.under(&context.config.order_policy);
    let noted = Noted {
        shape: order.shape,
        unread: order.unread.clone(),
    };
    let order_id = order.id;
    let customer = order.customer.clone();
    let mut cut = CutBody::read(&order, job, topic);
    let mut record = Record::of(order, Some(topic), &job.body, job.created_at.0);
    if let Some(shop) = &job.shop {
        let connections = context.connections.now();
        let payments = connections.paying_for(shop, job.connection.as_deref());
        record.paid_by(payments, &order_id.to_string());
        if let Some(cut) = &mut cut {
            cut.paid_by(payments, &order_id.to_string());
        }
    }
    Ok(Task {
        about: About::read(job),
        order_id,
        customer: customer.and_then(|customer| Some((customer.id?, customer))),
        cut,
        record,
        noted,
    })
}

/// A delivery of the message that is worked on.
struct Delivery<'a> {
    job: &'a Job,
    task: &'a Task,
    key: OrderKey,
    tombstone: TombstoneMatch,
}

/// What the deliveries of a message say altogether.
#[derive(Default)]
struct Gathered {
    orders: Incoming,
    customers: BTreeMap<OrderKey, customer::Record>,
    /// Orders of people whose data was erased, and whether the order has a tombstone of its own.
    erased: BTreeMap<OrderKey, bool>,
}

/// Writes what the deliveries of a message say and what follows from it, all or nothing.
pub async fn apply(outbox: &mut Outbox<'_>, tx: &mut Tx, tasks: &[(&Job, &Task)]) -> Result<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    let now = outbox.now;
    let deliveries = check(outbox, tx, tasks).await?;
    let mut gathered = Gathered::default();
    for delivery in &deliveries {
        erased::erase_body(tx, delivery.job, delivery.tombstone).await?;
        if delivery.tombstone != TombstoneMatch::Gone {
            gathered.add(outbox, delivery);
        }
    }
    erasure::erase_again(outbox, tx, &gathered.erased).await?;
    customers::absorb(tx, gathered.customers, now).await?;
    absorb(outbox, tx, gathered.orders, true).await
}

/// Finds the order of each delivery, and whether it is about a person whose data was erased.
async fn check<'a>(
    outbox: &Outbox<'_>,
    tx: &mut Tx,
    tasks: &[(&'a Job, &'a Task)],
) -> Result<Vec<Delivery<'a>>> {
    let shops = shops_of(tx, tasks).await?;
    let abouts: Vec<_> = tasks
        .iter()
        .zip(&shops)
        .map(|((_, task), shop)| (Some(shop.as_str()), &task.about))
        .collect();
    let matches = erased::check(outbox.context, tx, &abouts).await?;
    let deliveries = tasks.iter().zip(shops).zip(matches);
    let deliveries = deliveries.map(|(((job, task), shop), tombstone)| Delivery {
        job,
        task,
        key: (shop, task.order_id),
        tombstone,
    });
    Ok(deliveries.collect())
}

/// The shop of each delivery. A delivery without the shop's header belongs to the shop that has an
/// order with that id, if exactly one has; otherwise to the shop without a name.
async fn shops_of(tx: &mut Tx, tasks: &[(&Job, &Task)]) -> Result<Vec<String>> {
    let mut shops = Vec::with_capacity(tasks.len());
    for (job, task) in tasks {
        if let Some(shop) = &job.shop {
            shops.push(shop.clone());
            continue;
        }
        shops.push(match orders::shops(tx, task.order_id).await?.as_slice() {
            [only] => only.clone(),
            _ => String::new(),
        });
    }
    Ok(shops)
}

impl Gathered {
    /// Adds what a delivery says.
    fn add(&mut self, outbox: &mut Outbox<'_>, delivery: &Delivery<'_>) {
        let Delivery {
            job,
            task,
            key,
            tombstone,
        } = delivery;
        let (shop, order_id) = key;
        outbox
            .causation
            .note(Some(shop), &order_id.to_string(), job);
        let news = self.orders.entry(key.clone()).or_default();
        match &task.cut {
            Some(cut) => news.add_cut(job, cut.clone(), task.record.clone()),
            None => news.add(task.record.clone()),
        }
        if let TombstoneMatch::Erased { order } = tombstone {
            news.is_erased = true;
            *self.erased.entry(key.clone()).or_default() |= order;
        } else if let Some((id, customer)) = &task.customer {
            let seen = customer::Record::of(customer, task.record.version.at);
            let known = self.customers.entry((shop.clone(), *id)).or_default();
            known.merge(seen);
        }
    }
}
