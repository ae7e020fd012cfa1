//! `waybill orders` lists orders and shows an order as the commerce API shows it, with its
//! deliveries, their attempts and its events. It also lists orders and payments that an operator has
//! to decide about, and bodies whose topic did not count.

use anyhow::{Result, bail};
use config::{Config, Settings};
use domain::time::Timestamp;
use platform::clock::Clock;
use platform::zone;
use serde::Serialize;
use store::held::{self, Held, Reason};
use store::order_bodies::{self, Repeated};
use store::orders::list::{self, Cursor, Filter, ListedOrder, OrderList, STATES};
use store::orders::view::Order;
use store::sql::Db;
use store::story::{self, Meant, Story, WithHistory};

use crate::age::{self, Moment};
use crate::commands::database;
use crate::commands::jobs::attempt_cells;
use crate::table::{self, Newest, Table};
use crate::words;

/// How many characters of an order's name a list shows.
const NAME: usize = 16;

#[derive(clap::Subcommand)]
pub enum Command {
    /// List orders, the newest first, page by page
    List(List),
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
    /// List the orders, payments and refunds that you have to decide about, and what to do about
    /// each
    Held {
        /// Show at most this many for each reason
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List bodies whose topic did not count, the newest first
    ///
    /// These bodies came again under another topic, or the storefront did not confirm what the
    /// topic said. The signature covers the body and not the topic, so somebody may have captured
    /// the bodies and sent them again.
    Repeated {
        #[command(flatten)]
        newest: Newest,
    },
}

#[derive(clap::Args)]
pub struct List {
    /// Only orders of this shop domain
    #[arg(long)]
    shop: Option<String>,
    /// Only orders of this name, such as '#1007'; the # may be left out
    #[arg(long)]
    name: Option<String>,
    /// Only orders whose fulfilment is in this state; none: nothing was asked yet
    #[arg(long, value_parser = STATES)]
    state: Option<String>,
    /// Only orders with this `financial_status`, `paid` for example. Of this and the other
    /// statuses, none means that there is none
    #[arg(long, value_name = "STATUS", value_parser = words::financial_status(), hide_possible_values = true)]
    financial_status: Option<String>,
    /// Only orders whose payments come to this `payment_status`
    #[arg(long, value_name = "STATUS", value_parser = words::financial_status(), hide_possible_values = true)]
    payment_status: Option<String>,
    /// Only orders with this `fulfillment_status` of the storefront
    #[arg(long, value_name = "STATUS", value_parser = words::fulfillment_status(), hide_possible_values = true)]
    fulfillment_status: Option<String>,
    /// Only orders that were ordered then or later: an age like 2h, a time like
    /// 2027-01-31T12:00:00Z, or a day, which means its beginning
    #[arg(long, value_name = "AGE|TIME", value_parser = age::moment)]
    created_after: Option<Moment>,
    /// Only orders that changed then or later
    #[arg(long, value_name = "AGE|TIME", value_parser = age::moment)]
    updated_after: Option<Moment>,
    /// Show at most this many
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// The next page: go on after this cursor, which the page before names at its end (in JSON:
    /// `next`)
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let db = database(settings).await?;
    let done = match command {
        Command::List(arguments) => list(&db, arguments).await,
        Command::Show { order, shop, json } => show(settings, &db, order.trim(), shop, json).await,
        Command::Held { limit, json } => {
            let held = held::list(&db, limit).await?;
            if json {
                table::print_json(&held)
            } else {
                table::print(&waiting(&held))
            }
        }
        Command::Repeated {
            newest: Newest { limit, json },
        } => {
            let bodies = order_bodies::repeated(&db, limit).await?;
            if json {
                table::print_json(&bodies)
            } else {
                table::print(&repeated(&bodies))
            }
        }
    };
    db.close().await;
    done
}

fn repeated(bodies: &[Repeated]) -> String {
    let mut table = Table::new(["FIRST CAME", "AS", "REPEATS", "REFUTED", "SHOP", "ORDER"]);
    for body in bodies {
        table.row([
            zone::time(body.created_at),
            body.topic.clone(),
            format!("{:>7}", body.repeats),
            format!("{:>7}", body.refuted),
            body.shop.clone(),
            body.order_id.to_string(),
        ]);
    }
    table.render()
}

async fn list(db: &Db, arguments: List) -> Result<()> {
    let now = Clock::system().now();
    let limit = usize::try_from(arguments.limit)?;
    let filter = Filter {
        shops: arguments.shop.map(|shop| vec![shop.to_ascii_lowercase()]),
        name: arguments.name,
        state: arguments.state,
        financial_status: arguments.financial_status,
        payment_status: arguments.payment_status,
        fulfillment_status: arguments.fulfillment_status,
        created_after: arguments.created_after.map(|it| it.at(now)),
        updated_after: arguments.updated_after.map(|it| it.at(now)),
    };
    let mut found = OrderList {
        orders: Vec::new(),
        next: arguments.after,
    };
    loop {
        let left = limit - found.orders.len();
        let page = list::page(db, &filter, found.next.as_ref(), left).await?;
        found.orders.extend(page.orders);
        found.next = page.next;
        if found.next.is_none() || found.orders.len() == limit {
            break;
        }
    }
    if arguments.json {
        return table::print_json(&found);
    }
    table::print(&rows(&found.orders, now))?;
    match &found.next {
        Some(next) => table::print(&format!("\nThe next page: the same with\n--after {next}\n")),
        None => Ok(()),
    }
}

/// A line for each order, none longer than a terminal is wide.
fn rows(orders: &[ListedOrder], now: Timestamp) -> String {
    if orders.is_empty() {
        return "No orders.\n".to_owned();
    }
    let mut table = Table::new(["ORDER", "AGE", "TOTAL", "PAID", "STATE", "SHOP"]);
    for order in orders {
        let name = order.name.as_ref().unwrap_or(&order.order_id);
        let total = order.total_price.as_ref().zip(order.currency.as_ref());
        let state = match (&order.cancelled_at, &order.fulfillment) {
            (Some(_), _) => Some("cancelled"),
            (None, Some(fulfillment)) => Some(fulfillment.state.as_str()),
            (None, None) => None,
        };
        table.row([
            table::cut(name, NAME),
            age::text(now, order.listed_at()),
            total.map_or("-".to_owned(), |(total, code)| format!("{total} {code}")),
            or_none(order.financial_status.as_deref()),
            or_none(state),
            order.shop.clone(),
        ]);
    }
    table.render()
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
    let mut accepted = Table::new(["  ACCEPTED", "TOPIC", "STATE", "JOB", "DELIVERY"]);
    let mut attempts = Table::new([
        "  ATTEMPT",
        "STARTED",
        "TOOK",
        "OUTCOME",
        "STATUS",
        "TOPIC",
        "ERROR",
    ]);
    let mut events = Table::new(["  EVENT", "HAPPENED", "ID"]);
    for WithHistory { job, history } in &story.jobs {
        accepted.row([
            format!("  {}", zone::time(job.created_at)),
            job.kind.clone(),
            job.state.clone(),
            job.id.to_string(),
            or_none(job.external_id.as_deref()),
        ]);
        for attempt in history {
            let [number, started, took, outcome, status, error] = attempt_cells(attempt);
            let kind = job.kind.clone();
            let number = format!("  {number}");
            attempts.row([number, started, took, outcome, status, kind, error]);
        }
    }
    for event in &story.events {
        let at = zone::time(event.created_at);
        events.row([format!("  {}", event.kind), at, event.id.to_string()]);
    }
    let has_failed = story.jobs.iter().any(|it| !it.history.is_empty());
    let mut parts = Vec::new();
    parts.extend((!story.jobs.is_empty()).then(|| accepted.render()));
    parts.extend(has_failed.then(|| attempts.render()));
    parts.extend((!story.events.is_empty()).then(|| events.render()));
    if story.is_cut() {
        let (id, shop) = (order.id, &order.shop);
        parts.push(format!(
            "There may be more than these:\n  waybill jobs list --object {id} --shop {shop}\n  \
             waybill events list --object {id} --shop {shop}\n"
        ));
    }
    parts
}

fn or_none(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}

fn waiting(held: &[Held]) -> String {
    if held.is_empty() {
        return "nothing waits for you\n".to_owned();
    }
    let mut text = Vec::new();
    for reason in Reason::ALL {
        let of_reason: Vec<&Held> = held.iter().filter(|it| it.reason == reason).collect();
        if of_reason.is_empty() {
            continue;
        }
        let mut table = Table::new(["  ORDER", "SHOP", "AMOUNT", "ABOUT", "SINCE"]);
        for it in of_reason {
            let amount = it.amount.as_deref().zip(it.currency.as_deref());
            table.row([
                format!("  {}", it.order_id),
                it.shop.clone(),
                amount.map_or("-".to_owned(), |(amount, code)| format!("{amount} {code}")),
                it.about.clone().unwrap_or_else(|| "-".to_owned()),
                zone::time(it.updated_at),
            ]);
        }
        let heading = format!("{}: {}\n", reason.into_str(), reason.mend());
        text.push(heading + &table.render());
    }
    text.join("\n")
}

/// Shows an order in a few lines, without personal data.
pub fn describe(order: &Order) -> String {
    let total = match (&order.total_price, &order.currency) {
        (Some(total), Some(currency)) => format!("{total} {currency}"),
        _ => "-".to_owned(),
    };
    let fulfillment = order.fulfillment.as_ref();
    let mut facts = Table::new(["order", &order.id.to_string()]);
    facts.row(["name".into(), or_none(order.name.as_deref())]);
    facts.row(["shop".into(), order.shop.clone()]);
    facts.row(["total".into(), total]);
    facts.row(["paid".into(), or_none(order.financial_status.as_deref())]);
    facts.row([
        "shipped".into(),
        or_none(order.fulfillment_status.as_deref()),
    ]);
    let state = fulfillment.map(|fulfillment| fulfillment.state.as_str());
    facts.row(["fulfilment".into(), or_none(state)]);
    facts.row([
        "tracking".into(),
        or_none(order.tracking.as_ref().map(|it| it.url.as_str())),
    ]);
    if let Some(cancelled_at) = order.cancelled_at {
        facts.row(["cancelled".into(), zone::time(cancelled_at)]);
        facts.row(["reason".into(), or_none(order.cancel_reason.as_deref())]);
    }
    let mut lines = Table::new(["  QUANTITY", "PRICE", "SKU", "TITLE"]);
    for line in &order.line_items {
        lines.row([
            format!("  {:>8}", line.quantity),
            or_none(line.price.as_deref()),
            or_none(line.sku.as_deref()),
            or_none(line.title.as_deref()),
        ]);
    }
    let mut parts = vec![facts.render()];
    // An order that a checkout session made has no name.
    parts.extend((!order.line_items.is_empty()).then(|| lines.render()));
    parts.extend(parcels(order));
    parts.extend(refunds(order));
    parts.join("\n")
}

fn parcels(order: &Order) -> Option<String> {
    let mut table = Table::new(["  CARRIER", "TRACKING NUMBER", "SHIPMENT", "STATUS"]);
    let mut any = false;
    for shipment in &order.shipments {
        for parcel in &shipment.parcels {
            any = true;
            table.row([
                format!("  {}", shipment.carrier.as_deref().unwrap_or("-")),
                parcel.tracking_number.clone(),
                shipment.id.to_string(),
                shipment.status.clone().unwrap_or_else(|| "-".to_owned()),
            ]);
        }
    }
    any.then(|| table.render())
}

fn refunds(order: &Order) -> Option<String> {
    let mut table = Table::new(["  REFUND", "AMOUNT", "PAYMENT", "STATE"]);
    for refund in &order.refunds {
        let amount = match (&refund.amount, &refund.currency) {
            (Some(amount), Some(currency)) => format!("{amount} {currency}"),
            _ => "-".to_owned(),
        };
        let payment = refund.payment_id.as_deref();
        table.row([
            format!("  {}", refund.refund_id.as_deref().unwrap_or("-")),
            amount,
            payment.unwrap_or("the storefront's").to_owned(),
            refund.state.clone(),
        ]);
    }
    (!order.refunds.is_empty()).then(|| table.render())
}
