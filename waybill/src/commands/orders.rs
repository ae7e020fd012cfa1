//! `waybill orders` shows an order as the commerce API shows it, lists orders and payments that an
//! operator has to decide about, and lists bodies whose topic did not count.

use anyhow::{Result, bail};
use config::{Config, Settings};
use domain::order::FinancialStatus;
use store::held::{self, Held, Reason};
use store::order_bodies::{self, Repeated};
use store::orders::{self, OrderLookup, StoredOrder};
use store::sql::Db;

use crate::commands::database;
use crate::table::{self, Table};

#[derive(clap::Subcommand)]
pub enum Command {
    /// Show an order: statuses, lines, fulfilment and tracking link
    Show {
        /// The storefront's order id
        #[arg(value_parser = clap::value_parser!(i64).range(1..))]
        id: i64,
        /// The shop of the order, if several shops have an order with this id
        #[arg(long)]
        shop: Option<String>,
        /// Print the JSON of the commerce API
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
        /// Show at most this many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let db = database(settings).await?;
    let done = match command {
        Command::Show { id, shop, json } => show(settings, &db, id, shop, json).await,
        Command::Held { limit, json } => {
            let held = held::list(&db, limit).await?;
            if json {
                table::print_json(&held)
            } else {
                table::print(&list(&held))
            }
        }
        Command::Repeated { limit, json } => {
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
            body.created_at.to_string(),
            body.topic.clone(),
            format!("{:>7}", body.repeats),
            format!("{:>7}", body.refuted),
            body.shop.clone(),
            body.order_id.to_string(),
        ]);
    }
    table.render()
}

async fn show(
    settings: &Settings,
    db: &Db,
    id: i64,
    shop: Option<String>,
    json: bool,
) -> Result<()> {
    let found = orders::find(db, id, shop.map(|shop| vec![shop])).await?;
    match found {
        OrderLookup::One(order) if json => {
            table::print_json(&order.view(&Config::public_url(settings)?))
        }
        OrderLookup::One(order) => table::print(&describe(&order)),
        OrderLookup::None => bail!("there is no order {id} here"),
        OrderLookup::Several => bail!("several shops have an order {id}; add --shop"),
    }
}

fn list(held: &[Held]) -> String {
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
                it.updated_at.to_string(),
            ]);
        }
        let heading = format!("{}: {}\n", reason.as_str(), reason.mend());
        text.push(heading + &table.render());
    }
    text.join("\n")
}

/// Shows an order in a few lines, without personal data.
pub fn describe(order: &StoredOrder) -> String {
    let or_none = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let total = match (&order.total, order.currency) {
        (Some(total), Some(currency)) => format!("{total} {currency}"),
        _ => "-".to_owned(),
    };
    let fulfillment = order.fulfillment.as_ref();
    let mut facts = Table::new(["order", &order.id.to_string()]);
    facts.row(["name".into(), or_none(order.name.as_deref())]);
    facts.row(["shop".into(), order.shop.clone()]);
    facts.row(["total".into(), total]);
    facts.row([
        "paid".into(),
        or_none(order.financial_status.as_ref().map(FinancialStatus::as_str)),
    ]);
    facts.row([
        "shipped".into(),
        or_none(order.fulfillment_status.as_deref()),
    ]);
    let state = fulfillment.map(|fulfillment| fulfillment.state.as_str());
    facts.row(["fulfilment".into(), or_none(state)]);
    facts.row(["tracking".into(), or_none(order.tracking_url.as_deref())]);
    if let Some(cancelled_at) = order.cancelled_at {
        facts.row(["cancelled".into(), cancelled_at.to_string()]);
        facts.row(["reason".into(), or_none(order.cancel_reason.as_deref())]);
    }
    let mut lines = Table::new(["  QUANTITY", "PRICE", "SKU", "TITLE"]);
    for line in &order.lines {
        lines.row([
            format!("  {:>8}", line.quantity),
            or_none(line.price.as_deref()),
            or_none(line.sku.as_deref()),
            or_none(line.title.as_deref()),
        ]);
    }
    let mut parts = vec![facts.render()];
    // An order that a checkout session made has no name.
    parts.extend((!order.lines.is_empty()).then(|| lines.render()));
    parts.extend(parcels(order));
    parts.extend(refunds(order));
    parts.join("\n")
}

fn parcels(order: &StoredOrder) -> Option<String> {
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

fn refunds(order: &StoredOrder) -> Option<String> {
    let mut table = Table::new(["  REFUND", "AMOUNT", "PAYMENT", "STATE"]);
    for refund in &order.refunds {
        let amount = match (refund.amount(), &refund.currency) {
            (Some(amount), Some(currency)) => format!("{amount} {currency}"),
            _ => "-".to_owned(),
        };
        let payment = match refund.payment_id.as_str() {
            "" => "the storefront's",
            id => id,
        };
        table.row([
            format!("  {}", refund.provider_id.as_deref().unwrap_or("-")),
            amount,
            payment.to_owned(),
            refund.state.clone(),
        ]);
    }
    (!order.refunds.is_empty()).then(|| table.render())
}
