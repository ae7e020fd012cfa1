//! `waybill orders` lists orders and shows an order as the commerce API shows it, with its
//! deliveries, their attempts and its events. It also lists orders and payments that an operator has
//! to decide about, and bodies whose topic did not count.

use anyhow::{Context as _, Result, bail};
use config::{Config, Mode, Settings};
use domain::job::Queue;
use flows::Context;
use platform::clock::Clock;
use platform::zone;
use process::registry;
use serde::Serialize;
use store::orders::view::Order;
use store::reconciliations::Reconciled;
use store::sql::Db;
use store::story::{self, Meant, Story, WithHistory};

use crate::commands::jobs::attempt_cells;
use crate::commands::operation::Notifier;
use crate::commands::operator::Operator;
use crate::commands::with_database;
use crate::table::{self, Listed, Rows as _, Table, or_none};
use lists::orders::{HeldOrders, Orders, RepeatedBodies};

#[derive(clap::Subcommand)]
pub enum Command {
    /// List orders, the newest first, page by page
    List(Listed<Orders>),
    /// Show an order: statuses, lines, fulfilment and tracking link, and what came of its
    /// deliveries and of those about its payments: their jobs, failed attempts, and events in their
    /// sequence
    Show {
        /// The storefront's order id, or the order's name; a name with a # needs quotes: '#1007'
        #[arg(value_name = "ID|NAME")]
        order: String,
        /// The shop of the order, if several shops have an order with this id or name
        #[arg(long)]
        shop: Option<String>,
        /// Print JSON: that of the commerce API, with `jobs` and `events`
        #[arg(long)]
        json: bool,
    },
    /// Give the pages of an order another link, with a code without which they do not open any more
    ///
    /// The QR code of the order is drawn anew. Codes that were printed before lead nowhere then.
    NewLink {
        /// The storefront's order id, or the order's name
        #[arg(value_name = "ID|NAME")]
        order: String,
        /// The shop of the order, if several shops have an order with this id or name
        #[arg(long)]
        shop: Option<String>,
        #[command(flatten)]
        operator: Operator,
    },
    /// Give back what was taken beyond the price of an order, as by two payments for it
    ///
    /// Each payment whose whole money is too much is refunded at the payment provider, the latest
    /// first. A part of a payment, and what the shop took itself, is yours to give back.
    GiveBack {
        /// The storefront's order id, or the order's name
        #[arg(value_name = "ID|NAME")]
        order: String,
        /// The shop of the order, if several shops have an order with this id or name
        #[arg(long)]
        shop: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        operator: Operator,
    },
    /// List the orders, payments and refunds that you have to decide about, and what to do about
    /// each
    Held(Listed<HeldOrders>),
    /// List bodies whose topic did not count, the newest first
    ///
    /// These bodies came again under another topic, or the storefront did not confirm what the
    /// topic said. The signature covers the body and not the topic, so somebody may have captured
    /// the bodies and sent them again.
    Repeated(Listed<RepeatedBodies>),
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::List(listed) => listed.print(db, &Orders).await,
        Command::Show { order, shop, json } => show(settings, db, order.trim(), shop, json).await,
        Command::NewLink {
            order,
            shop,
            operator,
        } => new_link(settings, db, order.trim(), shop, &operator).await,
        Command::GiveBack {
            order,
            shop,
            json,
            operator,
        } => {
            // Boxed: its future is large, and every command's would hold it.
            Box::pin(give_back(settings, db, order.trim(), shop, json, &operator)).await
        }
        Command::Held(listed) => listed.print(db, &HeldOrders).await,
        Command::Repeated(listed) => listed.print(db, &RepeatedBodies).await,
    })
    .await
}

async fn new_link(
    settings: &Settings,
    db: &Db,
    order: &str,
    shop: Option<String>,
    operator: &Operator,
) -> Result<()> {
    let found = find(db, order, shop).await?;
    let (clock, qr) = (Clock::system(), Config::qr(settings)?);
    let author = operator.author(settings, db).await?;
    let key = (found.shop, found.id);
    let by = author.by(clock.now());
    let link = flows::orders::new_link(db, by, &qr, &key, clock.id()).await?;
    let link = link.context("the order is not there any more")?;
    table::print(&format!(
        "{link}\nThis link alone opens the pages of the order from now on.\n"
    ))
}

/// What was given back of an order.
#[derive(Serialize)]
struct Given {
    payments: Vec<GivenPayment>,
    /// What is too much besides. Null: nothing.
    rest: Option<String>,
    currency: Option<String>,
}

#[derive(Serialize)]
struct GivenPayment {
    payment_id: String,
    amount: String,
    currency: String,
}

async fn give_back(
    settings: &Settings,
    db: &Db,
    order: &str,
    shop: Option<String>,
    json: bool,
    operator: &Operator,
) -> Result<()> {
    let found = find(db, order, shop).await?;
    // It needs what the worker needs that makes the refunds.
    let config = Config::load(settings, Mode::Worker(Queue::Orders))?;
    let clock = Clock::system();
    let connections = registry::read(&config, db, &clock).await?;
    let known = connections.now();
    let payments = &known.of_shop(&found.shop).payments;
    if !known.payment(payments).is_some_and(|it| it.is_called) {
        bail!(
            "PAYMENT_API_URL and PAYMENT_API_KEY are not set, or the connection {payments} has no API, so \
             Waybill refunds nothing; give it back at your payment provider"
        );
    }
    let author = operator.author(settings, db).await?;
    let context = Context {
        config: &config,
        connections: &connections,
        clock: &clock,
        keys: &author.keys,
    };
    let key = (found.shop, found.id);
    let by = author.by(clock.now());
    let notifier = Notifier::open(settings).await?;
    let given = flows::orders::give_back(db, context, by, &key).await?;
    let (given, outbox) = given.context("the order is not there any more")?;
    for notification in outbox.notifications() {
        let (kind, ids) = (notification.kind, [notification.job_ref.job]);
        if notifier.is_reached() {
            let (queue, kind) = (kind.queue(), kind.to_string());
            notifier.notify_of(db, queue, &kind, &ids).await?;
        } else {
            store::jobs::clear_notified(db, &ids).await?;
        }
    }
    let how = notifier.reach.description();
    notifier.close(db).await;
    let rest = given.rest;
    if given.payments.is_empty() && !json {
        return match rest {
            Some(rest) => bail!(
                "{rest} {} are too much, and no payment can be given back whole; give them back \
                 where you took them",
                rest.currency
            ),
            None => table::print("Nothing is too much, or it goes back already.\n"),
        };
    }
    let payments = given.payments.into_iter();
    let payments = payments.map(|(payment_id, amount)| GivenPayment {
        payment_id,
        currency: amount.currency.to_string(),
        amount: amount.to_string(),
    });
    let given = Given {
        payments: payments.collect(),
        rest: rest.map(|rest| rest.to_string()),
        currency: rest.map(|rest| rest.currency.to_string()),
    };
    table::show(json, &given, || {
        let lines = given.payments.iter().map(|it| {
            let (amount, currency) = (&it.amount, &it.currency);
            format!("{amount} {currency} of {} are refunded\n", it.payment_id)
        });
        let rest = rest.map(|rest| {
            let currency = rest.currency;
            format!("{rest} {currency} more are too much: give them back where you took them\n")
        });
        let lines: String = lines.chain(rest).collect();
        format!("{lines}{how}; see waybill orders show {}\n", key.1)
    })
}

/// An amount with its currency, where both are known.
fn amount(amount: Option<&str>, currency: Option<&str>) -> String {
    let amount = amount.zip(currency);
    or_none(amount.map(|(amount, code)| format!("{amount} {code}")))
}

async fn show(
    settings: &Settings,
    db: &Db,
    order: &str,
    shop: Option<String>,
    json: bool,
) -> Result<()> {
    let order = find(db, order, shop).await?;
    let story = Story::of_order(db, &order.shop, order.id).await?;
    if json {
        return table::print_json(&Shown {
            order: order.at(&Config::public_url(settings)?),
            story,
        });
    }
    let mut parts = vec![describe(&order)];
    parts.extend(self::parts(&story, &order));
    table::print(&parts.join("\n"))
}

/// Finds an order by its id, or else by its name, with or without the `#` before it.
async fn find(db: &Db, order: &str, shop: Option<String>) -> Result<Order> {
    match story::order(db, order, shop).await? {
        Meant::One(order) => Ok(*order),
        Meant::None => {
            bail!("there is no order {order} here; `waybill orders list` shows which there are")
        }
        Meant::Shops(shops) => bail!(
            "several shops have an order {order}; add --shop with one of these:\n  {}",
            shops.join("\n  ")
        ),
        Meant::Named(named) => {
            let choices = named.iter().map(|(id, shop)| format!("  {id}  {shop}"));
            bail!(
                "several orders are called {order}; add --shop, or give the id of one of these:\n{}",
                choices.collect::<Vec<_>>().join("\n")
            )
        }
    }
}

/// An order as the commerce API shows it, and what came of its deliveries.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    order: Order,
    #[serde(flatten)]
    story: Story,
}

/// The tables of what came of an order's deliveries.
fn parts(story: &Story, order: &Order) -> Vec<String> {
    let accepted = story.jobs.table(&[
        ("  ACCEPTED", &|it| {
            format!("  {}", zone::time(it.job.created_at))
        }),
        ("TOPIC", &|it| it.job.kind.clone()),
        ("STATE", &|it| it.job.state.clone()),
        ("JOB", &|it| it.job.id.to_string()),
        ("DELIVERY", &|it| or_none(it.job.external_id.as_deref())),
    ]);
    let reconciled: Vec<&WithHistory> = story
        .jobs
        .iter()
        .filter(|it| it.reconciled.is_some())
        .collect();
    let reconciled = reconciled.table(&[
        ("  NEVER CAME", &|it| format!("  {}", it.job.kind)),
        ("JOB", &|it| it.job.id.to_string()),
        ("WHY", &|it| {
            or_none(it.reconciled.as_ref().map(Reconciled::in_words))
        }),
    ]);
    let mut attempts = Table::new([
        "  ATTEMPT",
        "STARTED",
        "TOOK",
        "OUTCOME",
        "STATUS",
        "TOPIC",
        "ERROR",
    ]);
    for WithHistory { job, history, .. } in &story.jobs {
        for attempt in history {
            let [number, started, took, outcome, status, error] = attempt_cells(attempt);
            let kind = job.kind.clone();
            let number = format!("  {number}");
            attempts.row([number, started, took, outcome, status, kind, error]);
        }
    }
    let events = story.events.table(&[
        ("  EVENT", &|event| format!("  {}", event.kind)),
        ("HAPPENED", &|event| zone::time(event.created_at)),
        ("ID", &|event| event.id.to_string()),
    ]);
    let tables = [accepted, reconciled, attempts, events];
    let mut parts: Vec<String> = tables.iter().filter_map(Table::filled).collect();
    if story.is_cut() {
        let (id, shop) = (order.id, &order.shop);
        parts.push(format!(
            "There may be more than these:\n  waybill jobs list --object {id} --shop {shop}\n  \
             waybill events list --object {id} --shop {shop}\n"
        ));
    }
    parts
}

/// Shows an order in a few lines, without personal data.
pub fn describe(order: &Order) -> String {
    let total = amount(order.total_price.as_deref(), order.currency.as_deref());
    let fulfillment = order.fulfillment.as_ref();
    let mut facts = Table::new(["order", &order.id.to_string()]);
    facts.fact("name", or_none(order.name.as_deref()));
    facts.fact("shop", order.shop.clone());
    facts.fact("total", total);
    facts.fact("paid", or_none(order.financial_status.as_deref()));
    facts.fact("shipped", or_none(order.fulfillment_status.as_deref()));
    let state = fulfillment.map(|fulfillment| fulfillment.state.as_str());
    facts.fact("fulfilment", or_none(state));
    facts.fact(
        "tracking",
        or_none(order.tracking.as_ref().map(|it| it.url.as_str())),
    );
    facts.fact("terms", or_none(order.payment_terms.as_deref()));
    facts.fact("pay until", or_none(order.payment_due_at.map(zone::time)));
    facts.fact("test", if order.test { "yes, not shipped" } else { "no" });
    facts.fact("held", or_none(order.held.as_deref()));
    facts.fact(
        "not read",
        or_none(Some(order.unread.join(", ")).filter(|it| !it.is_empty())),
    );
    if let Some(cancelled_at) = order.cancelled_at {
        let owed = amount(order.owed.as_deref(), order.currency.as_deref());
        facts.fact("owed", owed);
        facts.fact("cancelled", zone::time(cancelled_at));
        facts.fact("reason", or_none(order.cancel_reason.as_deref()));
    }
    let lines = order.line_items.table(&[
        ("  QUANTITY", &|line| {
            format!("  {:>8}", or_none(line.quantity.map(|it| it.to_string())))
        }),
        ("LEFT", &|line| {
            or_none(line.current_quantity.map(|it| it.to_string()))
        }),
        ("TO SHIP", &|line| line.to_ship.to_string()),
        ("BY", &|line| or_none(line.fulfillment_service.as_deref())),
        ("PRICE", &|line| or_none(line.price.as_deref())),
        ("SKU", &|line| or_none(line.sku.as_deref())),
        ("TITLE", &|line| or_none(line.title.as_deref())),
    ]);
    let mut parts = vec![facts.render()];
    // An order that a checkout session made has no name.
    parts.extend(lines.filled());
    parts.extend(parcels(order).filled());
    parts.extend(refunds(order).filled());
    parts.join("\n")
}

fn parcels(order: &Order) -> Table {
    let mut table = Table::new(["  CARRIER", "TRACKING NUMBER", "SHIPMENT", "STATUS"]);
    for shipment in &order.shipments {
        for parcel in &shipment.parcels {
            table.row([
                format!("  {}", shipment.carrier.as_deref().unwrap_or("-")),
                parcel.tracking_number.clone(),
                shipment.id.to_string(),
                or_none(
                    shipment
                        .delivery_status
                        .as_ref()
                        .or(shipment.status.as_ref()),
                ),
            ]);
        }
    }
    table
}

fn refunds(order: &Order) -> Table {
    order.refunds.table(&[
        ("  REFUND", &|it| {
            format!("  {}", or_none(it.refund_id.as_deref()))
        }),
        ("AMOUNT", &|it| {
            amount(it.amount.as_deref(), it.currency.as_deref())
        }),
        ("PAYMENT", &|it| {
            it.payment_id
                .as_deref()
                .unwrap_or("the storefront's")
                .to_owned()
        }),
        ("STATE", &|it| it.state.clone()),
    ])
}
