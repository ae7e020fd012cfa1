//! `waybill trigger` posts a signed delivery as a provider would, and shows how Waybill processed
//! it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::connection::HeaderName;
use config::database::place;
use config::{Config, Settings};
use domain::connection::{PAYMENT_PATH, STOREFRONT_PATH};
use domain::job::{Kind, Source, State};
use domain::order::Topic;
use domain::profile::Bodies;
use domain::signature::{self, Scheme};
use platform::clock::Clock;
use platform::private_files;
use reqwest::StatusCode;
use sandbox::sample;
use serde_json::{Value, json};
use store::jobs::{self, Summary};
use store::orders::view::Order;
use store::orders::{self, OrderLookup};
use store::sql::Db;
use store::webhook_ids;

use crate::commands::{client, database, misused};
use crate::table;
use lists::shown::quoted;
use lists::words;

const DEADLINE: Duration = Duration::from_secs(10);
/// How long the command waits for a worker to run the job.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A parser of the topics and event types of which there are samples.
fn kinds() -> words::Usual {
    let topics = sample::storefront_topics().into_iter();
    words::usual(topics.chain(sample::payment_types()))
}

#[derive(clap::Args)]
#[command(
    after_help = samples()
)]
pub struct Arguments {
    /// The storefront topic or payment event type of the delivery
    #[arg(value_parser = kinds(), hide_possible_values = true)]
    topic: String,
    /// Send the content of this file instead of a sample
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// The delivery's id. A second delivery with the same id is a duplicate
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// The number of the sample. The same number always makes the same order
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The shop that sends it
    #[arg(long, default_value = sample::shop())]
    shop: String,
    /// Where to write the order's QR code
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A signed delivery that is ready to be posted.
struct Delivery {
    source: Source,
    path: &'static str,
    id: String,
    /// The number of its sample.
    seed: u64,
    body: String,
    headers: Vec<(String, String)>,
}

pub async fn run(settings: &Settings, arguments: Arguments) -> Result<()> {
    let clock = Clock::system();
    let delivery = build(settings, &arguments, &clock)?;
    let url = format!("{}{}", Config::public_url(settings)?, delivery.path);
    // What is sent cannot be taken back, so first it is found out whether its end can be looked at.
    let db = database(settings).await?;
    let (status, answer) = post(&url, &delivery).await?;
    if !arguments.json {
        table::print(&format!(
            "POST {url}\n  {}\n  delivery id {}\n\n{} {answer}\n",
            arguments.topic,
            delivery.id,
            status.as_u16(),
        ))?;
    }
    let outcome = follow(&db, &delivery).await;
    let outcome = outcome.context("DATABASE_URL: cannot look what became of it")?;
    let png = match &outcome {
        Outcome {
            order: Some(order), ..
        } => write_png(&db, settings, order, &arguments).await?,
        _ => None,
    };
    db.close().await;
    report(
        settings,
        &arguments,
        &delivery,
        status,
        &outcome,
        png.as_deref(),
    )?;
    judge(settings, &delivery, status, outcome.job.is_some(), &url)?;
    match &outcome.job {
        Some(job) if job.state == State::Dead.into_str() => bail!(
            "the delivery was taken, and its job died: {}; waybill dead show {}",
            job.last_error.as_deref().unwrap_or("no error is known"),
            job.id
        ),
        _ => Ok(()),
    }
}

/// The topics and event types of which there are samples, for the help.
fn samples() -> String {
    let storefront = sample::storefront_topics();
    let (orders, privacy) = storefront.split_at(sample::ORDER_TOPICS);
    let payments = sample::payment_types();
    let (first, second) = payments.split_at(payments.len() / 2);
    let indented = format!("\n{:14}", "");
    let lines = |lines: [&[&str]; 2]| lines.map(|names| names.join(" ")).join(&indented);
    format!(
        "Topics:       {}\nEvent types:  {}",
        lines([orders, privacy]),
        lines([first, second])
    )
}

/// Whether the delivery was taken, and if not, what to do. A duplicate is what it should be: it was
/// taken before, and changes nothing.
fn judge(
    settings: &Settings,
    delivery: &Delivery,
    status: StatusCode,
    is_here: bool,
    url: &str,
) -> Result<()> {
    let is_storefront = delivery.source == Source::Storefront;
    match status {
        status if status.is_success() && !is_here && Config::dedupe(settings)? => bail!(
            "{url} took it, but it is not in the database that DATABASE_URL names here ({}): is \
             another Waybill listening there? Give this command the DATABASE_URL, LISTEN_ADDR and \
             PUBLIC_URL of the one that you mean",
            place(&Config::database_url(settings)?)
        ),
        status if status.is_success() || (status == StatusCode::CONFLICT && is_here) => Ok(()),
        StatusCode::TOO_MANY_REQUESTS if is_storefront => bail!(
            "the service answered {status}: more came at once than STOREFRONT_RATE_PER_SECOND of \
             the service allows for a shop, or 50 times as many for all; 0 is no limit"
        ),
        StatusCode::TOO_MANY_REQUESTS => bail!(
            "the service answered {status}: more came at once than PAYMENT_RATE_PER_SECOND of the \
             service allows; 0 is no limit"
        ),
        StatusCode::UNAUTHORIZED if is_storefront => bail!(
            "the service answered {status}: its STOREFRONT_WEBHOOK_SECRET or STOREFRONT_PROVIDER is \
             another than this command's"
        ),
        StatusCode::UNAUTHORIZED => bail!(
            "the service answered {status}: its PAYMENT_WEBHOOK_SECRET or PAYMENT_PROVIDER is \
             another than this command's"
        ),
        _ => bail!("the service answered {status}"),
    }
}

fn build(settings: &Settings, arguments: &Arguments, clock: &Clock) -> Result<Delivery> {
    let topic = arguments.topic.as_str();
    let now = clock.now();
    let seed = arguments.seed.unwrap_or(now.0.unsigned_abs());
    let given = match &arguments.body {
        Some(path) => Some(
            std::fs::read_to_string(path)
                .with_context(|| format!("--body: cannot read {}", path.display()))?,
        ),
        None => None,
    };
    if sample::storefront_topics().contains(&topic) || (given.is_some() && topic.contains('/')) {
        let body = given.or_else(|| {
            let body = sample::storefront(topic, seed, now.0)?;
            let body = as_it_stands(topic, of_shop(body, &arguments.shop));
            Some(sample::marked(body))
        });
        let body = body.ok_or_else(|| unknown(topic))?;
        let id = arguments
            .id
            .clone()
            .unwrap_or_else(|| clock.id().to_string());
        return Ok(Delivery {
            source: Source::Storefront,
            path: STOREFRONT_PATH,
            headers: storefront_headers(settings, topic, &id, &arguments.shop, &body)?,
            id,
            seed,
            body,
        });
    }
    let body = given.or_else(|| sample::payment(topic, seed, now.0));
    let mut body = body.ok_or_else(|| unknown(topic))?;
    let mut event: Value = serde_json::from_str(&body).context("the body is not JSON")?;
    if let Some(id) = &arguments.id {
        event["id"] = json!(id);
        body = serde_json::to_string_pretty(&event)?;
    }
    let profile = Config::payment_provider(settings)?;
    if profile.scheme != Scheme::Timed {
        return Err(not_posted_by_us(profile.setting));
    }
    let secret = &Config::payment_secrets(settings)?[0];
    let signature = signature::sign_payment(secret, now.unix_seconds(), body.as_bytes());
    Ok(Delivery {
        source: Source::Payment,
        path: PAYMENT_PATH,
        id: event["id"].as_str().unwrap_or_default().to_owned(),
        headers: vec![(profile.signature.to_owned(), signature)],
        seed,
        body,
    })
}

/// Under the names of the chosen profile, if it takes bodies of our own shape.
fn storefront_headers(
    settings: &Settings,
    topic: &str,
    id: &str,
    shop: &str,
    body: &str,
) -> Result<Vec<(String, String)>> {
    let (profile, names) = Config::storefront_provider(settings)?;
    if profile.scheme != Scheme::Body || profile.bodies != Bodies::Plain {
        return Err(not_posted_by_us(profile.setting));
    }
    let secret = &Config::storefront_secrets(settings)?[0];
    let signature = signature::sign_storefront(secret, body.as_bytes());
    let optional = [
        (names.topic, topic),
        (names.id, id),
        (names.shop, shop),
        (names.api_version, "2026-07"),
    ];
    let named =
        |(name, value): (Option<HeaderName>, &str)| Some((name?.to_string(), value.to_owned()));
    let mut headers: Vec<_> = optional.into_iter().filter_map(named).collect();
    headers.push((names.signature.to_string(), signature));
    Ok(headers)
}

fn not_posted_by_us(setting: &str) -> anyhow::Error {
    misused(format!(
        "the samples are not of the shape that {setting} takes; send a test from the provider's own page"
    ))
}

/// Puts the shop into a privacy body. Such a body names its shop itself, and intake refuses it if
/// the header names another one.
fn of_shop(body: String, shop: &str) -> String {
    match serde_json::from_str::<Value>(&body) {
        Ok(mut value) if value.get("shop_domain").is_some() => {
            value["shop_domain"] = shop.into();
            value.to_string()
        }
        _ => body,
    }
}

/// Takes from a later sample of an order that nothing was shipped of it. The sample does not know
/// what has become of the order, and a field that a body does not have leaves what is known as it
/// is.
fn as_it_stands(topic: &str, body: String) -> String {
    let is_later = ["orders/updated", "orders/paid"].contains(&topic);
    let order = serde_json::from_str(&body);
    let Some(Value::Object(mut order)) = order.ok().filter(|_| is_later) else {
        return body;
    };
    if order.get("fulfillment_status").is_some_and(Value::is_null) {
        order.remove("fulfillment_status");
    }
    Value::Object(order).to_string()
}

fn unknown(topic: &str) -> anyhow::Error {
    misused(format!(
        "there is no sample of {topic:?}; `waybill trigger --help` lists them, --body sends your own"
    ))
}

async fn post(url: &str, delivery: &Delivery) -> Result<(StatusCode, String)> {
    let mut request = client(url, DEADLINE)?
        .post(url)
        .header("Content-Type", "application/json")
        .body(delivery.body.clone());
    for (name, value) in &delivery.headers {
        request = request.header(name, value);
    }
    let answer = request.send().await.with_context(|| {
        format!("cannot reach {url}; is `waybill` running, and is PUBLIC_URL its address?")
    })?;
    Ok((answer.status(), answer.text().await?))
}

/// The result of a delivery: its job and its order.
struct Outcome {
    job: Option<Summary>,
    order: Option<Order>,
}

/// Waits until the delivery's job has run, and finds its order.
async fn follow(db: &Db, delivery: &Delivery) -> Result<Outcome> {
    let clock = Clock::system();
    let until = clock.now().plus(PATIENCE);
    let job = loop {
        let jobs = webhook_ids::jobs(db, delivery.source, &delivery.id).await?;
        let Some(id) = jobs.into_iter().next() else {
            break None;
        };
        let Some(job) = jobs::show(db, id).await? else {
            break None;
        };
        let handled = Kind::of(delivery.source, &job.kind).is_some();
        let waiting = job.state == State::Ready.into_str() && job.attempts == 0 && handled;
        if !waiting || clock.now() > until {
            break Some(job);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    };
    let order = match &job {
        Some(job) if Topic::is_of_an_order(&job.kind) => find_order(db, job).await?,
        _ => None,
    };
    Ok(Outcome { job, order })
}

async fn find_order(db: &Db, job: &Summary) -> Result<Option<Order>> {
    let Some(id) = job.object_id.as_ref().and_then(|id| id.parse().ok()) else {
        return Ok(None);
    };
    match orders::find(db, id, job.shop.clone().map(|shop| vec![shop])).await? {
        OrderLookup::One(order) => Ok(Some(*order)),
        OrderLookup::None | OrderLookup::Several => Ok(None),
    }
}

async fn write_png(
    db: &Db,
    settings: &Settings,
    order: &Order,
    arguments: &Arguments,
) -> Result<Option<PathBuf>> {
    let record = orders::record(db, &(order.shop.clone(), order.id)).await?;
    let Some(link) = record.and_then(|record| record.own.page_url) else {
        return Ok(None);
    };
    let symbol = Config::qr(settings)?.of_link(&link);
    let symbol = symbol.context("the order's link fits into no QR code")?;
    let path = arguments
        .png
        .clone()
        .unwrap_or_else(|| Path::new("data/qr").join(format!("order-{}.png", order.id)));
    if let Some(folder) = path.parent() {
        private_files::make_folder(folder)?;
    }
    std::fs::write(&path, symbol.png())
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Some(path))
}

fn report(
    settings: &Settings,
    arguments: &Arguments,
    delivery: &Delivery,
    status: StatusCode,
    outcome: &Outcome,
    png: Option<&Path>,
) -> Result<()> {
    let Outcome { job, order } = outcome;
    if arguments.json {
        let public_url = Config::public_url(settings)?;
        return table::print_json(&json!({
            "status": status.as_u16(),
            "delivery_id": delivery.id,
            "job": job,
            "order": order.clone().map(|order| order.at(&public_url)),
            "png": png,
        }));
    }
    let Some(job) = job else {
        return Ok(());
    };
    if status == StatusCode::CONFLICT {
        table::print("\nIt is a duplicate: it was taken before, and nothing changes.\n")?;
    }
    table::print(&format!("\n{}", crate::commands::jobs::describe(job)))?;
    if job.state == State::Ready.into_str() {
        table::print("\nIt waits: no worker of this version has run it yet.\n")?;
    }
    if let Some(order) = order {
        table::print(&format!("\n{}", crate::commands::orders::describe(order)))?;
    }
    if let Some(png) = png {
        table::print(&format!("\nQR code written to {}\n", png.display()))?;
    }
    table::print(&format!(
        "\nThe same delivery again: waybill trigger {}\n",
        again(arguments, delivery)
    ))
}

/// The arguments with which the same delivery is sent again.
fn again(arguments: &Arguments, delivery: &Delivery) -> String {
    let mut again = arguments.topic.clone();
    if let Some(body) = &arguments.body {
        let _ = write!(again, " --body {}", quoted(&body.display().to_string()));
    } else {
        let _ = write!(again, " --seed {}", delivery.seed);
    }
    if arguments.shop != sample::shop() {
        let _ = write!(again, " --shop {}", quoted(&arguments.shop));
    }
    let _ = write!(again, " --id {}", quoted(&delivery.id));
    again
}
