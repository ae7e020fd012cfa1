//! `waybill demo` removes the samples that `waybill trigger` has sent.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Result;
use config::Settings;
use operators::samples as flow;
use platform::clock::Clock;
use serde::Serialize;
use store::shop_erasure::Counts;
use store::sql::Db;

use crate::commands::operator::Operator;
use crate::commands::{confirm, with_database};
use crate::table::{self, Table};

#[derive(clap::Subcommand)]
pub enum Command {
    /// Remove the orders of `waybill trigger` and all that came of them, so that what is left is real
    ///
    /// Sample orders have names like #TEST-1042 and ids that no storefront gives, sample payments ids
    /// like pi_Sample.., and no service with secrets of its own ships them. With them go their
    /// deliveries, jobs, events, payments with their books, and customers who have no other order.
    /// The audit and the privacy requests stay.
    Remove(Remove),
}

#[derive(clap::Args)]
pub struct Remove {
    /// Say which orders it would be, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    operator: Operator,
}

#[derive(Serialize)]
struct Report {
    orders: Vec<Removed>,
    /// The payment provider's objects: payments, sessions, subscriptions, ..
    objects: BTreeSet<String>,
    /// How many rows of which table were deleted.
    deleted: Counts,
}

#[derive(Serialize)]
struct Removed {
    shop: String,
    order_id: String,
    name: Option<String>,
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let Command::Remove(remove) = command;
    with_database(settings, async |db| {
        remove_samples(settings, db, &remove).await
    })
    .await
}

async fn remove_samples(settings: &Settings, db: &Db, remove: &Remove) -> Result<()> {
    let samples = flow::find(db).await?;
    let orders: Vec<Removed> = samples
        .orders
        .iter()
        .map(|it| Removed {
            shop: it.shop.clone(),
            order_id: it.order.id.to_string(),
            name: it.name.clone(),
        })
        .collect();
    let mut report = Report {
        orders,
        objects: samples.objects.clone(),
        deleted: Counts::new(),
    };
    let list = report.list();
    if !remove.dry_run && !samples.is_empty() {
        let what = format!("remove {} for good", report.counted());
        if !remove.yes {
            confirm(&list, &what, "--dry-run says which they are")?;
        }
        let author = remove.operator.author(settings, db).await?;
        report.deleted = flow::remove(db, author.by(Clock::system().now()), samples).await?;
    }
    table::show(remove.json, &report, || {
        match report.orders.len() + report.objects.len() {
            0 => "There is no sample; waybill trigger sends some.\n".to_owned(),
            _ if remove.dry_run => format!(
                "{list}\n{} to remove. Nothing was changed.\n",
                report.counted()
            ),
            _ => format!(
                "Removed: {}, with all that came of them.\n",
                report.counted()
            ),
        }
    })
}

impl Report {
    fn counted(&self) -> String {
        let of = |number: usize, noun: &str| match number {
            1 => format!("1 {noun}"),
            many => format!("{many} {noun}s"),
        };
        let (orders, objects) = (self.orders.len(), self.objects.len());
        let (orders, objects) = (of(orders, "sample order"), of(objects, "object"));
        format!("{orders} and {objects} of the payment provider")
    }

    /// The first of the orders.
    fn list(&self) -> String {
        const SHOWN: usize = 20;
        let mut table = Table::new(["ORDER", "NAME", "SHOP"]);
        for order in self.orders.iter().take(SHOWN) {
            let name = order.name.clone().unwrap_or_default();
            table.row([order.order_id.clone(), name, order.shop.clone()]);
        }
        let mut text = table.filled().unwrap_or_default();
        for object in self.objects.iter().take(SHOWN) {
            let _ = writeln!(text, "{object}");
        }
        let more =
            self.orders.len().saturating_sub(SHOWN) + self.objects.len().saturating_sub(SHOWN);
        if more > 0 {
            let _ = writeln!(text, ".. and {more} more; --json has all");
        }
        text
    }
}
