//! The five order topics. All carry the whole order and any may come first, so there is one
//! handler: it merges what the deliveries say with what is known (`domain::order::record`)
//! and does what follows from the difference (`domain::order::outcome`), each thing once.
//!
//! Rows are taken in this order, and each kind sorted: bodies, customers, orders that are inserted,
//! agreements, orders that were there. Nobody who holds a later one waits for an earlier one.

mod bodies;
mod settle;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Result;
use config::Config;
use domain::code::Code;
use domain::event::{LastEvent, MOST_LISTED, OrderEvent, RequestedLine, TrackedParcel};
use domain::job::{Job, Queue};
use domain::order::outcome::{
    self, Change, FulfillmentState, Parcel, Request, changes_from, level_of, summary,
};
use domain::order::record::{Part, Record, Shipment};
use domain::order::settlement::{Cycle, Payments, Settlement};
use domain::order::{Customer, Line, Order};
use domain::time::Timestamp;
use qr::QrError;
use serde_json::json;
use store::customers::{self, Seen};
use store::fulfillment_cycles;
use store::fulfillments::{self, Moved};
use store::orders::records::{self, OrderEntry, OrderKey};
use store::qr_codes::{self, QrCode};
use store::shipments::{self, NewParcel};
use store::sql::Tx;
use store::{erasure, order_lines, orders, payments};

use super::erased::{self, About, Standing};
use super::outbox::Outbox;
use super::privacy::{self, Again};
use super::{confirmations, fulfillments as fulfillment_calls, refunds};
use crate::failure::permanent;
use bodies::Cut;

pub struct Task {
    about: About,
    order_id: i64,
    record: Record,
    /// Its body leaves a status to its topic.
    cut: Option<Cut>,
    customer: Option<(i64, Customer)>,
    /// Drawn beforehand for the topic that makes the order, as a rule.
    tracking: Option<Drawn>,
}

/// A link and the modules of its QR code.
type Drawn = (String, Vec<u8>);

pub fn prepare(config: &Config, job: &Job) -> Result<Task> {
    let order = Order::read(&job.body).map_err(permanent)?;
    let order_id = order.id;
    let customer = order.customer.clone();
    let is_first = job.kind == "orders/create";
    Ok(Task {
        about: About::read(job),
        order_id,
        customer: customer.and_then(|customer| Some((customer.id?, customer))),
        tracking: is_first
            .then(|| draw_tracking(config, order_id))
            .transpose()?,
        cut: Cut::read(&order, job),
        record: Record::of(order, &job.kind, &job.body, job.created_at.0),
    })
}

impl Task {
    fn question(&self, key: &OrderKey, job: &Job, cut: &Cut) -> confirmations::Question {
        let (shop, order_id) = key.clone();
        confirmations::Question {
            shop,
            order_id,
            topic: job.kind.clone(),
            stated_at: self.record.version.at,
            hash: cut.hash().to_owned(),
        }
    }
}

fn draw_tracking(config: &Config, order_id: i64) -> Result<Drawn> {
    let symbol = config.qr.order(&order_id.to_string()).map_err(permanent)?;
    Ok((symbol.url.clone(), symbol.packed()))
}

/// An order of this message: what was known, and what is known now.
struct OrderUpdate {
    key: OrderKey,
    before: Option<OrderEntry>,
    /// Its row reserves times for the events that follow from this message.
    after: OrderEntry,
    /// The last event so far.
    last_event: LastEvent,
    tracking: Option<Drawn>,
    /// Those of its agreement, when no other order claims it.
    payments: Payments,
    /// What they come to for the further cycles of the agreement.
    cycles: BTreeMap<Cycle, Settlement>,
    /// The order that a checkout session made of its agreement, whose place it takes.
    placeholder: Option<OrderKey>,
    /// How far its fulfilment was: as the order whose place it takes, if there is one.
    was: FulfillmentState,
    /// What is requested of it now.
    request: Option<Request>,
    /// Its payments changed it after its row was written.
    is_settled_anew: bool,
}

impl OrderUpdate {
    fn new(
        key: OrderKey,
        before: Option<OrderEntry>,
        after: OrderEntry,
        last_event: LastEvent,
    ) -> Self {
        let was = before.as_ref().map(|it| it.record.fulfillment_state());
        OrderUpdate {
            key,
            was: was.unwrap_or(FulfillmentState::Initiated),
            before,
            after,
            last_event,
            tracking: None,
            payments: Payments::default(),
            cycles: BTreeMap::new(),
            placeholder: None,
            request: None,
            is_settled_anew: false,
        }
    }

    fn record_before(&self) -> Option<&Record> {
        self.before.as_ref().map(|before| &before.record)
    }
}

pub async fn apply(outbox: &mut Outbox<'_>, tx: &mut Tx, tasks: &[(&Job, &Task)]) -> Result<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    let now = outbox.now;
    let asks_first = outbox.context.config.storefront_api.is_some();
    let mut incoming: BTreeMap<OrderKey, OrderEntry> = BTreeMap::new();
    let mut drawn: HashMap<OrderKey, Drawn> = HashMap::new();
    let mut seen = Vec::new();
    // Those of people whose data was erased, and whether each has a tombstone of its own.
    let mut erased: BTreeMap<OrderKey, bool> = BTreeMap::new();
    let shops = shops_of(tx, tasks).await?;
    let abouts: Vec<_> = tasks
        .iter()
        .zip(&shops)
        .map(|((_, task), shop)| (Some(shop.as_str()), &task.about))
        .collect();
    let standings = erased::check(outbox.context, tx, &abouts).await?;
    let cut = tasks.iter().zip(&shops).zip(&standings);
    let cut = cut.filter_map(|(((job, task), shop), standing)| {
        let cut = task.cut.as_ref()?;
        (*standing != Standing::Gone).then_some(((shop.clone(), task.order_id), *job, cut))
    });
    let repeated = bodies::repetitions(tx, cut.collect(), now).await?;
    for (((job, task), shop), standing) in tasks.iter().zip(&shops).zip(standings) {
        erased::erase_body(tx, job, standing).await?;
        if standing == Standing::Gone {
            continue;
        }
        let key = (shop.clone(), task.order_id);
        outbox
            .causation
            .note(Some(shop), &task.order_id.to_string(), job);
        let by_topic = task.cut.as_ref().filter(|cut| cut.alone().is_some());
        let unheard = by_topic.filter(|_| asks_first && !repeated.contains(&job.id));
        if let Some(cut) = unheard {
            confirmations::ask(outbox, &key, &task.question(&key, job, cut));
        }
        let alone = by_topic.and_then(Cut::alone);
        let alone = alone.filter(|_| asks_first || repeated.contains(&job.id));
        let mut record = alone.unwrap_or(&task.record).clone();
        let is_erased = matches!(standing, Standing::Erased { .. });
        if let Standing::Erased { order } = standing {
            record.forget_person();
            *erased.entry(key.clone()).or_default() |= order;
        }
        if let Some(tracking) = &task.tracking {
            drawn.insert(key.clone(), tracking.clone());
        }
        if let Some((id, customer)) = &task.customer
            && !is_erased
        {
            let version_at = task.record.version.at;
            seen.push(Seen {
                shop,
                id: *id,
                customer,
                version_at,
            });
        }
        if let Some(entry) = incoming.get_mut(&key) {
            entry.record.merge(record);
        } else {
            let entry = OrderEntry {
                record,
                events_at: LastEvent::before(now).reserve(),
            };
            incoming.insert(key, entry);
        }
    }
    erase_again(outbox, tx, &erased).await?;
    customers::upsert(tx, &seen, now).await?;
    absorb(outbox, tx, incoming, drawn).await?;
    for (shop, id) in erased.into_keys() {
        erasure::orders(tx, &shop, vec![id], now).await?;
    }
    Ok(())
}

/// What belongs to an order that the erasure did not find, such as a payment that only it leads
/// to, is erased by a job of its own. Its customer is not: they may have come back since.
async fn erase_again(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    erased: &BTreeMap<OrderKey, bool>,
) -> Result<()> {
    let mut of_shops: BTreeMap<&str, BTreeSet<i64>> = BTreeMap::new();
    for ((shop, id), has_tombstone) in erased {
        if *has_tombstone && erasure::is_known(tx, shop, *id).await? {
            continue;
        }
        of_shops.entry(shop).or_default().insert(*id);
    }
    for (shop, orders) in of_shops {
        let first = orders.first().copied().unwrap_or_default();
        let key = (shop.to_owned(), first);
        outbox.job(
            Queue::Privacy,
            privacy::AGAIN,
            &key,
            &json!(Again::new(orders)),
        );
    }
    Ok(())
}

/// Merges orders with what is known of them, and does what follows.
async fn absorb(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    incoming: BTreeMap<OrderKey, OrderEntry>,
    drawn: HashMap<OrderKey, Drawn>,
) -> Result<()> {
    let updates = load_updates(tx, incoming, drawn, outbox.now).await?;
    let known = updates.iter().filter(|update| update.before.is_some());
    // Before what follows from them, which reads what orders claim.
    save(tx, known, outbox.now).await?;
    finish(outbox, tx, updates).await
}

/// Makes or completes the orders of checkout sessions, whose agreements the caller has locked.
pub async fn of_sessions(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    records: Vec<(OrderKey, Record)>,
) -> Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    let mut incoming: BTreeMap<OrderKey, OrderEntry> = BTreeMap::new();
    for (key, record) in records {
        if let Some(entry) = incoming.get_mut(&key) {
            entry.record.merge(record);
        } else {
            let events_at = LastEvent::before(outbox.now).reserve();
            incoming.insert(key, OrderEntry { record, events_at });
        }
    }
    absorb(outbox, tx, incoming, HashMap::new()).await
}

/// Merges what the storefront has confirmed with an order, unless it was erased with its shop.
pub async fn confirmed(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    key: OrderKey,
    record: Record,
) -> Result<()> {
    if records::load(tx, &[&key]).await?.is_empty() {
        return Ok(());
    }
    let events_at = LastEvent::before(outbox.now).reserve();
    let incoming = BTreeMap::from([(key, OrderEntry { record, events_at })]);
    absorb(outbox, tx, incoming, HashMap::new()).await
}

/// Looks at orders again whose payments have changed.
pub async fn settle_again(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    keys: &BTreeSet<OrderKey>,
) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let keys: Vec<&OrderKey> = keys.iter().collect();
    let updates = records::load(tx, &keys).await?.into_iter();
    let updates = updates.map(|(key, before)| {
        let last_event = before.events_at;
        OrderUpdate::new(key, Some(before.clone()), before, last_event)
    });
    finish(outbox, tx, updates.collect()).await
}

/// Ends the wait of orders that sessions made, whose agreements the caller has locked: the
/// storefront's own did not come, so what is paid is requested.
pub async fn end_wait(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    keys: &BTreeSet<OrderKey>,
) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let keys: Vec<&OrderKey> = keys.iter().collect();
    let updates = records::load(tx, &keys).await?.into_iter();
    let waiting = updates.filter(|(_, entry)| entry.record.waits_until.is_some());
    let updates = waiting.map(|(key, before)| {
        let last_event = before.events_at;
        let mut after = before.clone();
        after.record.waits_until = None;
        let mut update = OrderUpdate::new(key, Some(before), after, last_event);
        update.is_settled_anew = true;
        update
    });
    finish(outbox, tx, updates.collect()).await
}

/// Settles orders whose rows are written, and does what follows from all that is new.
async fn finish(outbox: &mut Outbox<'_>, tx: &mut Tx, mut updates: Vec<OrderUpdate>) -> Result<()> {
    if updates.is_empty() {
        return Ok(());
    }
    let now = outbox.now;
    settle::settle(tx, &mut updates).await?;
    settle::supersede(outbox, tx, &mut updates).await?;
    request(tx, &mut updates).await?;
    write(outbox, tx, &updates).await?;
    for update in &mut updates {
        follow(outbox, tx, update).await?;
    }
    let beyond = updates.iter_mut().filter_map(|update| {
        let more = update.last_event > update.after.events_at;
        update.after.events_at = update.last_event.max(update.after.events_at);
        (more || update.is_settled_anew).then_some(&*update)
    });
    save(tx, beyond, now).await?;
    outbox.causation.follow([]);
    Ok(())
}

/// Decides what is requested of each order now. What was requested so far is read of those
/// alone that can have been requested before.
async fn request(tx: &mut Tx, updates: &mut [OrderUpdate]) -> Result<()> {
    let may_be_known = |update: &&OrderUpdate| {
        let is = update.after.record.fulfillment_state();
        let is_about_a_request =
            is == FulfillmentState::Requested || update.was == FulfillmentState::Requested;
        update.before.is_some() && is_about_a_request
    };
    let known: BTreeSet<&OrderKey> = updates
        .iter()
        .filter(may_be_known)
        .map(|update| &update.key)
        .collect();
    let levels = fulfillments::requested(tx, &known.into_iter().collect::<Vec<_>>()).await?;
    for update in updates {
        let record = &update.after.record;
        // What was requested of the order whose place it takes was requested of it.
        let is_taken_over =
            update.placeholder.is_some() && update.was == FulfillmentState::Requested;
        update.request = if is_taken_over && record.cancelled.is_none() {
            Some(Request {
                level: level_of(record),
                ..Request::default()
            })
        } else {
            let level = levels.get(&update.key);
            outcome::request(update.was, update.record_before(), record, level)
        };
    }
    Ok(())
}

async fn save(
    tx: &mut Tx,
    updates: impl Iterator<Item = &OrderUpdate>,
    now: Timestamp,
) -> Result<()> {
    let rows: Vec<(&OrderKey, &OrderEntry)> =
        updates.map(|update| (&update.key, &update.after)).collect();
    Ok(records::save(tx, &rows, now).await?)
}

/// The shop of each delivery. One without the shop's header belongs to the shop of the order
/// with that id, when there is exactly one; otherwise to the shop without a name.
async fn shops_of(tx: &mut Tx, tasks: &[(&Job, &Task)]) -> Result<Vec<String>> {
    let mut shops = Vec::with_capacity(tasks.len());
    for (job, task) in tasks {
        let shop = match &job.shop {
            Some(shop) => shop.clone(),
            None => match orders::shops(tx, task.order_id).await?.as_slice() {
                [only] => only.clone(),
                _ => String::new(),
            },
        };
        shops.push(shop);
    }
    Ok(shops)
}

/// Inserts the orders that are new, locks those that are not, and merges. Orders that learn
/// nothing new are left out.
async fn load_updates(
    tx: &mut Tx,
    incoming: BTreeMap<OrderKey, OrderEntry>,
    mut drawn: HashMap<OrderKey, Drawn>,
    now: Timestamp,
) -> Result<Vec<OrderUpdate>> {
    let inserted = records::insert_new(tx, &incoming, now).await?;
    // A payment that comes at the same time cannot see an order that is being inserted.
    let pacts: Vec<String> = incoming
        .iter()
        .filter(|(key, entry)| inserted.contains(*key) && is_claimed(&entry.record))
        .map(|(key, entry)| refunds::payment_reference(key, &entry.record))
        .collect();
    payments::lock_pacts(tx, pacts).await?;
    let known: Vec<&OrderKey> = incoming
        .keys()
        .filter(|key| !inserted.contains(*key))
        .collect();
    let mut locked = records::load(tx, &known).await?;
    let mut updates = Vec::with_capacity(incoming.len());
    let mut pacts = Vec::new();
    for (key, entry) in incoming {
        let before = locked.remove(&key);
        let mut last_event = LastEvent::before(now);
        let after = match &before {
            None => entry,
            Some(before) => {
                let mut after = before.clone();
                after.record.merge(entry.record);
                last_event = last_event.max(before.events_at);
                let pact = refunds::payment_reference(&key, &after.record);
                if is_claimed(&after.record)
                    && pact != refunds::payment_reference(&key, &before.record)
                {
                    pacts.push(pact);
                }
                after
            }
        };
        let is_news = before.as_ref() != Some(&after);
        if is_news {
            let tracking = drawn.remove(&key);
            let after = OrderEntry {
                events_at: last_event.reserve(),
                ..after
            };
            let mut update = OrderUpdate::new(key, before, after, last_event);
            update.tracking = tracking;
            updates.push(update);
        }
    }
    // Nor can it see that an order claims it now. This lock is taken out of turn: one in a
    // circle is undone by the database, and its message is worked on again.
    payments::lock_pacts(tx, pacts).await?;
    Ok(updates)
}

/// True for orders that lock their agreement: the second of order and payment sees the
/// first. The many that claim no more than their own id are looked at again, should a
/// payment of that name come (`payments::LINK`).
fn is_claimed(record: &Record) -> bool {
    record.cancelled.is_some() || record.pact.value.is_some()
}

/// Writes the rows that belong to the orders.
async fn write(outbox: &Outbox<'_>, tx: &mut Tx, updates: &[OrderUpdate]) -> Result<()> {
    let now = outbox.now;
    let config = outbox.context.config;
    let mut moved = Vec::new();
    let mut codes = Vec::new();
    let mut replaced: Vec<(&OrderKey, &[Line])> = Vec::new();
    for update in updates {
        let (before, after) = (update.before.as_ref(), &update.after.record);
        let state = after.fulfillment_state();
        let is_moved = before.is_none_or(|before| before.record.fulfillment_state() != state);
        if is_moved || update.request.is_some() {
            moved.push(Moved {
                key: &update.key,
                state,
                to_provider: asks_storefront(config, update),
                requested: update.request.as_ref().map(|request| &request.level),
            });
        }
        match before {
            None => codes.push(code(config, update)?),
            Some(before) if before.record.lines.value != after.lines.value => {
                replaced.push((&update.key, &after.lines.value));
            }
            Some(_) => {}
        }
    }
    order_lines::replace(tx, &replaced).await?;
    fulfillments::save(tx, &moved, now).await?;
    qr_codes::insert(tx, &codes, now).await?;
    write_shipments(config, tx, updates, now).await
}

/// The storefront does not know the orders of checkout sessions. Units whose shipment was
/// called off there are its staff's.
fn asks_storefront(config: &Config, update: &OrderUpdate) -> bool {
    let asks = |request: &Request| request.units.is_some() && !request.is_repeated;
    config.storefront_api.is_some()
        && update.key.0 != orders::CHECKOUT
        && update.request.as_ref().is_some_and(asks)
}

fn code(config: &Config, update: &OrderUpdate) -> Result<QrCode> {
    let (shop, order_id) = &update.key;
    let (url, modules) = match &update.tracking {
        Some(drawn) => drawn.clone(),
        None => draw_tracking(config, *order_id)?,
    };
    Ok(QrCode {
        shop: shop.clone(),
        order_id: *order_id,
        kind: qr_codes::TRACKING,
        url,
        modules,
    })
}

async fn write_shipments(
    config: &Config,
    tx: &mut Tx,
    updates: &[OrderUpdate],
    now: Timestamp,
) -> Result<()> {
    let mut rows = Vec::new();
    let mut parcels = Vec::new();
    for update in updates {
        for (id, shipment) in &update.after.record.shipments {
            let before = update.before.as_ref();
            let before = before.and_then(|before| before.record.shipments.get(id));
            if before == Some(shipment) {
                continue;
            }
            rows.push((&update.key, *id, shipment));
            let gone = gone(before, shipment);
            if !gone.is_empty() {
                shipments::delete_parcels(tx, &update.key, *id, gone).await?;
            }
            for (position, tracking) in (0..).zip(&shipment.value.tracking) {
                let known = before.is_some_and(|before| has(before, &tracking.number));
                let draw = !known && position < MOST_CODES;
                // A number that fits no QR code, or makes no link, is tracked without one.
                let symbol = draw.then(|| config.qr.package(&tracking.number));
                let symbol = symbol.and_then(|drawn| {
                    let log = |error: &QrError| {
                        let (shop, order) = &update.key;
                        tracing::info!(
                            shop, order, %error, code = %Code::Qr, "a parcel gets no QR code"
                        );
                    };
                    drawn.inspect_err(log).ok()
                });
                parcels.push(NewParcel {
                    key: &update.key,
                    shipment_id: *id,
                    position,
                    tracking,
                    qr: symbol.map(|symbol| (symbol.url.clone(), symbol.packed())),
                });
            }
        }
    }
    shipments::save(tx, &rows, now).await?;
    shipments::save_parcels(tx, &parcels, now).await?;
    Ok(())
}

/// Codes drawn of one shipment: nobody ships more parcels at once, and each takes 0.1 ms
/// while the order is locked.
const MOST_CODES: i64 = 250;

fn has(shipment: &Part<Shipment>, number: &str) -> bool {
    let tracking = &shipment.value.tracking;
    tracking.iter().any(|it| it.number == number)
}

/// The tracking numbers that a shipment no longer has.
fn gone(before: Option<&Part<Shipment>>, after: &Part<Shipment>) -> Vec<String> {
    let before = before.map(|before| before.value.tracking.as_slice());
    before
        .unwrap_or_default()
        .iter()
        .filter(|tracking| !has(after, &tracking.number))
        .map(|tracking| tracking.number.clone())
        .collect()
}

/// Adds events of the changes and does what follows from them.
async fn follow(outbox: &mut Outbox<'_>, tx: &mut Tx, update: &mut OrderUpdate) -> Result<()> {
    let to_storefront = asks_storefront(outbox.context.config, update);
    let cycles = move_cycles(outbox, tx, update).await?;
    let OrderUpdate {
        key,
        before,
        after,
        last_event: events_at,
        payments,
        was,
        request,
        ..
    } = update;
    let before = before.as_ref().map(|before| &before.record);
    let record = &after.record;
    let pact = refunds::payment_reference(key, record);
    let moved_by = payments.linked.iter().map(|payment| payment.id.as_str());
    let moved_by = moved_by.chain([pact.as_str()]).map(|id| (None, id));
    outbox.causation.follow(moved_by);
    for change in changes_from(*was, before, record) {
        if let Some(event) = event_of(change, record) {
            outbox.order_event(key, events_at, event);
        }
    }
    let units = request.as_ref().and_then(|request| request.units.as_ref());
    if let Some(units) = units {
        let event = requested(&Cycle::first(), record, Some(units));
        outbox.order_event(key, events_at, event);
    }
    if to_storefront {
        let (shop, order_id) = &*key;
        let body = json!({ "shop": shop, "order_id": order_id });
        outbox.job(Queue::Orders, fulfillment_calls::KIND, key, &body);
    }
    for (cycle, state) in cycles {
        let event = match state {
            FulfillmentState::Requested => requested(&cycle, record, None),
            _ => cancelled(&cycle),
        };
        outbox.order_event(key, events_at, event);
    }
    if record.cancelled.is_some() && !settle::is_superseded(record) {
        refunds::restock(outbox, tx, key, record, events_at).await?;
        refunds::decide(outbox, tx, key, record, payments, events_at).await?;
    }
    Ok(())
}

/// Writes the further cycles of an order whose state is new, and returns them.
async fn move_cycles(
    outbox: &Outbox<'_>,
    tx: &mut Tx,
    update: &OrderUpdate,
) -> Result<Vec<(Cycle, FulfillmentState)>> {
    if update.cycles.is_empty() {
        return Ok(Vec::new());
    }
    let known = fulfillment_cycles::of(tx, &update.key).await?;
    let mut moved = Vec::new();
    for (cycle, settled) in &update.cycles {
        let state = outcome::cycle_state(&update.after.record, settled);
        let is_requested = known.get(cycle).copied();
        let is_news = match state {
            FulfillmentState::Requested => is_requested != Some(true),
            FulfillmentState::Cancelled => is_requested == Some(true),
            FulfillmentState::Initiated | FulfillmentState::Fulfilled => false,
        };
        if is_news {
            moved.push((cycle.clone(), state));
        }
    }
    let rows: Vec<fulfillment_cycles::Moved<'_>> = moved
        .iter()
        .map(|(cycle, state)| fulfillment_cycles::Moved {
            key: &update.key,
            cycle: cycle.clone(),
            state: *state,
        })
        .collect();
    fulfillment_cycles::save(tx, &rows, outbox.now).await?;
    Ok(moved)
}

/// What is to be shipped for a cycle: so many units by line, or all of them.
fn requested(cycle: &Cycle, record: &Record, units: Option<&BTreeMap<i64, i64>>) -> OrderEvent {
    let lines = record.lines.value.iter();
    let asked = lines.filter_map(|line| match units {
        Some(units) => Some((line, *units.get(&line.id)?)),
        None => Some((line, line.quantity)),
    });
    OrderEvent::FulfillmentRequested {
        cycle: cycle.to_string(),
        lines: asked
            .take(MOST_LISTED)
            .map(|(asked, units)| line(asked, units))
            .collect(),
    }
}

fn cancelled(cycle: &Cycle) -> OrderEvent {
    OrderEvent::FulfillmentCancelled {
        cycle: cycle.to_string(),
    }
}

/// The event of a change. What is requested has events of its own, by its units.
fn event_of(change: Change, record: &Record) -> Option<OrderEvent> {
    Some(match change {
        Change::Created => OrderEvent::Created(summary(record)),
        Change::Updated => OrderEvent::Updated(summary(record)),
        Change::Paid => OrderEvent::Paid(summary(record)),
        Change::Cancelled => {
            let cancellation = record.cancellation()?;
            OrderEvent::Cancelled {
                cancelled_at: Timestamp(cancellation.at),
                reason: cancellation.reason,
            }
        }
        Change::FulfillmentRequested => return None,
        Change::Fulfilled => OrderEvent::Fulfilled,
        Change::FulfillmentCancelled => cancelled(&Cycle::first()),
        Change::TrackingUpdated => {
            let parcels = record.parcels();
            let parcels = parcels.iter().take(MOST_LISTED).map(parcel).collect();
            OrderEvent::TrackingUpdated { parcels }
        }
    })
}

fn line(line: &Line, units: i64) -> RequestedLine {
    RequestedLine {
        line_id: line.id.to_string(),
        variant_id: line.variant_id.map(|id| id.to_string()),
        sku: line.sku.clone(),
        quantity: units,
    }
}

fn parcel(parcel: &Parcel<'_>) -> TrackedParcel {
    TrackedParcel {
        shipment_id: parcel.shipment_id.to_string(),
        carrier: parcel.carrier.map(ToOwned::to_owned),
        tracking_number: parcel.tracking.number.clone(),
    }
}
