//! `waybill sandbox` runs the stand-ins for the providers on their own, and posts storms of their
//! webhooks.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Error, Result, bail};
use config::{Config, Origin, Settings};
use domain::money::{Currency, Money};
use platform::clock::Clock;
use platform::logs::{self, LogFormat};
use platform::shutdown;
use platform::terminal;
use platform::token::Token;
use providers::Api;
use providers::CallFailure;
use providers::payment::{Item, NewSession, Payment};
use sandbox::{
    Delivery, Options, PAYMENT_KEY, Poster, Report, STOREFRONT_TOKEN, Sandbox, Webhooks, sample,
};
use serde_json::json;
use store::orders;

use crate::commands::misused;
use crate::table::{self, Table};

/// The largest number of orders in a storm. They are in memory while it lasts.
const MOST_ORDERS: u64 = 20_000;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Run stand-ins of the storefront, the payment provider and the identity provider
    ///
    /// They answer as the providers do, keep their state in memory, and post webhooks to
    /// PUBLIC_URL, signed with the secrets of the settings. Start Waybill with the settings that
    /// this command prints, and it works without any provider. The page at the address of the
    /// stand-ins explains how to see their state and how to make them fail.
    Serve(Serve),
    /// Post many orders to PUBLIC_URL, each in five topics, several times, all shuffled
    ///
    /// In the end each order must be there once, in its last state. Deliveries that are answered
    /// 429 or 503 are sent again. The same seed makes the same storm: the same orders under the
    /// same webhook ids in the same sequence, so all deliveries of the second storm are
    /// duplicates.
    #[command(
        after_help = "Outside development Waybill takes 2 deliveries a second from a shop: start it with\n\
        STOREFRONT_RATE_PER_SECOND=0, or the storm lasts."
    )]
    Storm(Storm),
    /// Open a checkout at the payment provider's stand-in, to be paid in a browser
    ///
    /// The command needs `waybill` or `waybill sandbox serve` in another terminal.
    Checkout(Checkout),
}

#[derive(clap::Args)]
pub struct Checkout {
    /// The price as a decimal number in the currency's units
    #[arg(long, value_name = "PRICE", default_value = "29.00")]
    amount: String,
    /// The currency: USD, EUR, GBP or MXN
    #[arg(long, value_name = "CODE", default_value = "EUR")]
    currency: String,
    /// The name of the article
    #[arg(long, default_value = "Enamel mug")]
    name: String,
    /// The agreement of the checkout, which links orders and payments [default: a new one]
    #[arg(long, value_name = "PACT_ID")]
    pact: Option<String>,
    /// The address of the sandbox [default: http://127.0.0.1 on the port after LISTEN_ADDR's]
    #[arg(long, value_name = "URL")]
    sandbox: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Serve {
    /// The loopback address and port to listen on; with port 0 a free port is taken
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8001")]
    listen: SocketAddr,
}

#[derive(clap::Args)]
pub struct Storm {
    /// How many orders
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=MOST_ORDERS))]
    orders: u64,
    /// The most times that a delivery is posted; each is posted at least once
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// The number of the storm. Its first order is the one that `waybill trigger --seed` makes
    /// with this number. Without it the storm is a new one
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How many deliveries are sent at a time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,
    /// The shop that sends the orders
    #[arg(long, default_value = sample::shop())]
    shop: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    match command {
        Command::Serve(serve) => serve.run(settings).await,
        Command::Storm(storm) => storm.run(settings).await,
        Command::Checkout(checkout) => checkout.run(settings).await,
    }
}

/// The port of the sandbox that `waybill` starts: the one after the port of `LISTEN_ADDR`.
pub fn port_beside(listen_addr: SocketAddr) -> u16 {
    listen_addr.port().checked_add(1).unwrap_or(0)
}

impl Checkout {
    async fn run(self, settings: &Settings) -> Result<()> {
        let price = Currency::parse(&self.currency)
            .ok_or_else(|| misused("--currency is three letters, EUR for example"))
            .and_then(|currency| {
                Money::parse_decimal(&self.amount, currency)
                    .map_err(|error| misused(format!("--amount {error}")))
            })?;
        let sandbox = if let Some(url) = self.sandbox {
            url.trim_end_matches('/').to_owned()
        } else {
            let port = port_beside(Config::listen_addr(settings)?);
            format!("http://127.0.0.1:{port}")
        };
        let public_url = Config::public_url(settings)?;
        let made_up = Clock::system().id().simple().to_string();
        let pact_id = self.pact.unwrap_or_else(|| format!("pact_{made_up}"));
        let (_, order_id) = orders::checkout_key(&pact_id);
        let api = Api {
            url: format!("{sandbox}/payment"),
            token: Token::new(PAYMENT_KEY),
            connection: None,
        };
        let client = Payment::new(&api, &Clock::system());
        let session = NewSession {
            items: vec![(
                Item::Priced {
                    name: self.name,
                    price,
                },
                1,
            )],
            success_url: format!("{public_url}/orders/{order_id}/track"),
            cancel_url: format!("{public_url}/orders/{order_id}/track"),
            client_reference_id: None,
            pact_id: pact_id.clone(),
            customer_email: Some("ada@example.com".to_owned()),
        };
        let session = client.checkout(&session, &made_up).await;
        let session = session.map_err(|failure| match failure {
            CallFailure::Timeout { .. } => Error::new(failure).context(format!(
                "no sandbox answers at {sandbox}; its address is in what `waybill` prints"
            )),
            refused => misused(refused.to_string()),
        })?;
        if self.json {
            return table::print_json(&json!({
                "url": session.url, "session_id": session.id, "pact_id": pact_id,
                "order_id": order_id.to_string(),
            }));
        }
        table::print(&format!(
            "Open this page, and press Pay or Decline:\n\n  {}\n\n\
             Then see what came of it:\n\n  \
             waybill orders show {order_id}\n  \
             waybill payments list --pact {pact_id}\n  \
             waybill ledger verify\n\n\
             Refunds are made at {sandbox}/payment/dashboard\n",
            session.url
        ))
    }
}

/// The target of the webhooks: `PUBLIC_URL`, with the newest secrets for the signatures.
pub fn webhooks(settings: &Settings, shop: &str) -> Result<Webhooks> {
    Ok(Webhooks {
        base_url: Config::public_url(settings)?,
        storefront_secret: Config::storefront_secrets(settings)?[0].clone(),
        payment_secret: Config::payment_secrets(settings)?[0].clone(),
        shop: shop.to_owned(),
    })
}

impl Serve {
    async fn run(self, settings: &Settings) -> Result<()> {
        if !self.listen.ip().is_loopback() {
            return Err(misused(format!(
                "--listen {}: the sandbox signs webhooks for whoever asks, so it listens on \
                 loopback alone",
                self.listen
            )));
        }
        let webhooks = webhooks(settings, sample::shop())?;
        let filter = match settings.origin("RUST_LOG") {
            Origin::Default => "info,sandbox=debug",
            _ => settings.get("RUST_LOG").unwrap_or("info"),
        };
        logs::init(LogFormat::for_terminal(), filter, true);
        let shutdown = shutdown::on_signal()?;
        let public_url = webhooks.base_url.clone();
        let options = Options {
            listen: self.listen,
            webhooks: Some(webhooks),
            ..Options::default()
        };
        let sandbox = Sandbox::start(options).await;
        let sandbox = sandbox.context("--listen names another address")?;
        table::print(&banner(&sandbox, &public_url))?;
        shutdown.cancelled().await;
        sandbox.stop().await;
        Ok(())
    }
}

fn banner(sandbox: &Sandbox, public_url: &str) -> String {
    let (url, storefront) = (sandbox.url(), sandbox.storefront_url());
    let payment = sandbox.payment_url();
    let identity = sandbox.identity_url();
    let settings = sandbox
        .stand_ins()
        .map(|(name, value)| format!("  {name}={value}\n"));
    let settings = settings.concat();
    format!(
        "The sandbox is ready on {url}, where a page says what can be seen and set

  storefront API   {storefront}
                   X-Storefront-Access-Token: {STOREFRONT_TOKEN}
  payment API      {payment}
                   Authorization: Bearer {PAYMENT_KEY}
  identity         {identity}
                   devices sign in on {identity}/login/device
  webhooks go to   {public_url}

Settings with which Waybill uses it:

{settings}
"
    )
}

impl Storm {
    async fn run(self, settings: &Settings) -> Result<()> {
        let clock = Clock::system();
        let started = clock.elapsed();
        let seed = self.seed.unwrap_or(clock.now().0.unsigned_abs());
        let webhooks = webhooks(settings, &self.shop)?;
        reach(&webhooks.base_url).await?;
        let deliveries = self.deliveries(seed, &clock);
        let poster = Poster::new(webhooks, clock.clone())?;
        let (all, concurrency) = (deliveries.len(), usize::from(self.concurrency));
        let posting = poster.post_all(&deliveries, concurrency, |ended| progress(ended, all));
        let report = posting.await;
        terminal::over("");
        let took = clock.elapsed().saturating_sub(started);
        self.print(&poster.webhooks.base_url, seed, &report, took)?;
        match report.refused + report.given_up {
            0 => Ok(()),
            1 => bail!("one delivery was not taken"),
            lost => bail!("{lost} deliveries were not taken"),
        }
    }

    fn deliveries(&self, seed: u64, clock: &Clock) -> Vec<Delivery> {
        let storm = sandbox::Storm {
            orders: self.orders,
            first_seed: seed,
            repeat: 1..=self.repeat,
            seed,
            shop: self.shop.clone(),
            ..sandbox::Storm::default()
        };
        storm.deliveries(clock.now())
    }

    fn print(&self, url: &str, seed: u64, report: &Report, took: Duration) -> Result<()> {
        let seconds = took.as_secs_f64();
        if self.json {
            return table::print_json(&json!({
                "url": url,
                "orders": self.orders,
                "repeat": self.repeat,
                "seed": seed,
                "seconds": seconds,
                "report": report,
            }));
        }
        let Storm { orders, repeat, .. } = self;
        let of = if *orders == 1 { "order" } else { "orders" };
        let mut again =
            format!("waybill sandbox storm --orders {orders} --repeat {repeat} --seed {seed}");
        if self.shop != sample::shop() {
            again = format!("{again} --shop {}", self.shop);
        }
        table::print(&format!(
            "{} deliveries of {orders} {of} to {url} in {seconds:.1} s\n\n{}\n\
             The same again: {again}\n",
            report.deliveries,
            answers(report),
        ))
    }
}

/// Fails at once if no service answers, instead of trying for minutes.
async fn reach(url: &str) -> Result<()> {
    let client = reqwest::Client::builder()
        .timeout(Duration::from_secs(10))
        .no_proxy()
        .build()?;
    let asked = client.get(format!("{url}/livez")).send().await;
    asked.with_context(|| {
        format!("cannot reach {url}; is `waybill` running, and is PUBLIC_URL its address?")
    })?;
    Ok(())
}

fn answers(report: &Report) -> String {
    let mut rows = Table::new(["ANSWER", "COUNT", "MEANING"]);
    for (status, count) in &report.answers {
        let meaning = match status {
            200..300 => "accepted",
            409 => "duplicate",
            429 | 500.. => "tried again",
            _ => "refused",
        };
        rows.row([status.to_string(), count.to_string(), meaning.to_owned()]);
    }
    if report.unanswered > 0 {
        let count = report.unanswered.to_string();
        rows.row(["none".to_owned(), count, "tried again".to_owned()]);
    }
    rows.render()
}

/// Shows on a terminal how many deliveries of the storm have ended.
fn progress(ended: usize, all: usize) {
    if ended == all || ended.is_multiple_of(all.div_ceil(200)) {
        terminal::over(&format!("{ended} of {all} deliveries"));
    }
}
