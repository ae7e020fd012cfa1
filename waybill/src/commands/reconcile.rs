//! `waybill reconcile` asks the providers what changed, and shows what never came.

use std::time::Duration;

use anyhow::{Result, bail};
use config::{Config, Mode, Settings};
use domain::connection::DEFAULT;
use domain::job::{Queue, Source};
use domain::time::Timestamp;
use operators::reconciliation::{self as flow, Refused};
use platform::clock::Clock;
use platform::{shutdown, terminal, zone};
use process::clients::Clients;
use process::registry;
use providers::changes::Period;
use serde::Serialize;
use store::reconciliations::{self, Reconciled, Reconciliation};
use store::sql::Db;
use tokio::time::{Instant, sleep};

use crate::commands::deed::{Do, failed};
use crate::commands::with_database;
use crate::table::{self, Rows as _, or_none};
use lists::age::{self, Moment};
use lists::deeds::reconcile::Ask;

/// How long nothing may happen before it is clear that nobody asks.
const PATIENCE: Duration = Duration::from_secs(40);
const SOON: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(300);

// Its help is that of the deed.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    ask: Do<Ask>,
    /// Only show how far each shop and each account was compared, and what was found lately
    #[arg(long, conflicts_with = "since")]
    status: bool,
    /// Compare the charges and refunds of this day at the payment provider with the ledger, such as 2027-01-31
    #[arg(long, value_name = "DAY", value_parser = age::moment, conflicts_with_all = ["since", "status"])]
    books: Option<Moment>,
    /// How many of the deliveries that were found are shown
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(i64).range(0..=10_000))]
    limit: i64,
}

/// What is shown.
#[derive(Serialize)]
struct Shown {
    compared: Vec<Reconciliation>,
    /// The newest that were found.
    found: Vec<Reconciled>,
}

pub async fn run(settings: &Settings, arguments: Arguments) -> Result<()> {
    with_database(settings, async |db| {
        let clock = Clock::system();
        let Arguments { ask, limit, .. } = arguments;
        let (connection, json) = (ask.deed.connection.clone(), ask.json);
        let connection = connection.as_deref();
        if let Some(day) = arguments.books {
            let from = day.at(clock.now());
            let period = Period {
                from,
                until: zone::next_day(from),
            };
            return books(settings, db, connection.unwrap_or(DEFAULT), period, json).await;
        }
        if !arguments.status {
            match ask.outcome(settings, db).await? {
                // It is due already.
                Ok(_) | Err(lists::deeds::Refused::Changed(..)) => {}
                Err(why) => return Err(failed(why)),
            }
            // What was asked is due at the latest now.
            wait(db, connection, clock.now()).await?;
        }
        let shown = Shown {
            compared: of(reconciliations::all(db).await?, connection),
            found: reconciliations::newest(db, connection, limit).await?,
        };
        if let Some(name) = connection.filter(|_| shown.compared.is_empty()) {
            return Err(Refused::Unknown(name.to_owned()).into());
        }
        let now = clock.now();
        table::show(json, &shown, || text(&shown, now))?;
        let failing = shown.compared.iter().find(|it| it.failing_since.is_some());
        match failing {
            Some(it) if !arguments.status => bail!("{} was not compared: {}", name(it), why(it)),
            _ => Ok(()),
        }
    })
    .await
}

/// Compares the provider's books with ours. Exit code 1 if they differ.
async fn books(
    settings: &Settings,
    db: &Db,
    connection: &str,
    period: Period,
    json: bool,
) -> Result<()> {
    let clock = Clock::system();
    let config = Config::load(settings, Mode::Worker(Queue::Payments))?;
    let registry = registry::read(&config, db, &clock).await?;
    let clients = Clients::new(&registry, &clock);
    let account = registry
        .now()
        .payment(connection)
        .and_then(|it| it.account.clone());
    let provider = clients.payment(connection)?.of_account(account);
    let books = flow::books(db, connection, &provider, period).await?;
    let rows = books.differences.table(&[
        ("PAYMENT", &|it| it.payment.clone()),
        ("CURRENCY", &|it| it.currency.clone()),
        ("CAPTURED THERE", &|it| it.captured.provider.clone()),
        ("BOOKED HERE", &|it| it.captured.booked.clone()),
        ("REFUNDED THERE", &|it| it.refunded.provider.clone()),
        ("BOOKED HERE", &|it| it.refunded.booked.clone()),
    ]);
    let agree = format!("{} payments moved, and the books agree.\n", books.payments);
    table::show(json, &books, || rows.or(&agree))?;
    match books.differences.len() {
        0 => Ok(()),
        wrong => bail!(
            "{wrong} of {} payments differ; `waybill reconcile --since` takes what never came, `waybill payments show` says \
             what is known",
            books.payments
        ),
    }
}

fn of(all: Vec<Reconciliation>, connection: Option<&str>) -> Vec<Reconciliation> {
    let is_meant = |it: &Reconciliation| connection.is_none_or(|name| it.connection == name);
    all.into_iter().filter(is_meant).collect()
}

/// Waits until each was compared since then, or could not be.
async fn wait(db: &Db, connection: Option<&str>, asked: Timestamp) -> Result<()> {
    let shutdown = shutdown::on_signal()?;
    let mut moved = Instant::now();
    let mut before = (0, 0);
    loop {
        let all = of(reconciliations::all(db).await?, connection);
        // Between two pages of a run it is asked again within a second.
        let later = Clock::system().now().plus(SOON);
        let is_over = |it: &Reconciliation| {
            it.next_at > asked && (it.run_until.is_none() || it.next_at > later)
        };
        let left: Vec<&Reconciliation> = all.iter().filter(|it| !is_over(it)).collect();
        let compared: i64 = all.iter().map(|it| it.compared).sum();
        if left.is_empty() {
            terminal::over("");
            return Ok(());
        }
        if before != (left.len(), compared) {
            (before, moved) = ((left.len(), compared), Instant::now());
        }
        let found: i64 = all.iter().map(|it| it.found).sum();
        terminal::over(&format!(
            "{} of {} are left: {compared} orders and events compared, {found} of them never came",
            left.len(),
            all.len()
        ));
        if moved.elapsed() > PATIENCE {
            terminal::over("");
            let names: Vec<String> = left.iter().map(|it| name(it)).collect();
            bail!(
                "nobody asks {}: does a process work that has the API's token (`waybill serve`, or `waybill worker orders` \
                 and `waybill worker payments`)? It is done when one does",
                names.join(", ")
            );
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {
                terminal::over("");
                bail!("the workers go on; `waybill reconcile --status` shows how far they are");
            }
            () = sleep(LOOK_AGAIN) => {}
        }
    }
}

fn text(shown: &Shown, now: Timestamp) -> String {
    let rows = shown.compared.table(&[
        ("CONNECTION", &|it| it.connection.clone()),
        ("SHOP", &|it| {
            or_none(Some(&it.shop).filter(|shop| !shop.is_empty()))
        }),
        ("COMPARED UNTIL", &|it| until(it, now)),
        ("COMPARED", &|it| it.compared.to_string()),
        ("NEVER CAME", &|it| it.found.to_string()),
        ("WHAT IS WRONG", &|it| {
            it.wrong().unwrap_or_default().to_owned()
        }),
    ]);
    let nothing = format!("{}.\n", Refused::Nothing);
    let mut text = rows.or(&nothing);
    let found = shown.found.table(&[
        ("FOUND", &|it| zone::time(it.found_at)),
        ("LATE", &|it| age::text(it.found_at, it.changed_at)),
        ("KIND", &|it| it.kind.clone()),
        ("CONNECTION", &|it| it.connection.clone()),
        ("JOB", &|it| it.job_id.to_string()),
        ("LIKELY CAUSE", &|it| it.cause.in_words().to_owned()),
    ]);
    if let Some(found) = found.filled() {
        text.push('\n');
        text.push_str(&found);
    }
    text
}

/// A row of which nothing was asked yet has no such time.
fn until(it: &Reconciliation, now: Timestamp) -> String {
    if it.ended_at.is_none() {
        return "not yet".to_owned();
    }
    format!("{} ago", age::text(now, it.confirmed_until))
}

fn name(it: &Reconciliation) -> String {
    let of = match (it.connection.as_str(), it.source.as_str()) {
        (DEFAULT, source) if source == Source::Payment.into_str() => {
            "the payment provider".to_owned()
        }
        (DEFAULT, _) => "the storefront".to_owned(),
        (name, _) => format!("the connection {name}"),
    };
    if it.shop.is_empty() {
        of
    } else {
        format!("{of} ({})", it.shop)
    }
}

fn why(it: &Reconciliation) -> &str {
    it.last_error.as_deref().unwrap_or_default()
}
