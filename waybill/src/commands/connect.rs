//! `waybill connect` says what somebody has to paste and to set so that a provider's deliveries are
//! taken, and then waits for the first one. All that it knows of a provider is in its profile
//! (`domain::profile`), and all about protections in `config::protections`.
//!
//! It reads the settings of its own terminal, as every command does. The service may run with others;
//! what really arrives there, and why something is refused, it reads from the database.

mod subscriptions;

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use config::protections::{PROTECTIONS, State};
use config::{Config, Mode, Origin, Settings, on_this_machine};
use domain::connection::{PAYMENT_PATH, STOREFRONT_PATH};
use domain::job::{Kind, Source};
use domain::profile::{
    Headers, OWN_HEADERS, PAYMENTS, PaymentProfile, Setup, StorefrontProfile, names,
};
use domain::subscription::of_source;
use platform::clock::Clock;
use platform::{shutdown, terminal, zone};
use process::Ended;
use providers::is_loopback;
use reqwest::Url;
use serde::Serialize;
use serde_json::json;
use server::deliveries::{Follower, LOOK_AGAIN, Line, Message, Outcome};
use store::connections::{self, Connection};
use store::sql::{self, Db};
use tokio::time::{sleep, timeout};

use crate::commands::doctor::{Level, service};
use crate::commands::listen::refusal;
use crate::commands::{database, misused};
use crate::table;
use lists::age;

/// Exit codes for scripts.
const NOTHING_CAME: u8 = 3;
const ALL_REFUSED: u8 = 4;
const INTERRUPTED: u8 = 130;

/// How long the providers may take that are asked for their subscriptions.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause before the next look when the database does not answer.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// How wide a line of a warning may be.
const WIDTH: usize = 78;

#[derive(clap::Args)]
pub struct Arguments {
    /// The name of the provider's profile
    #[arg(value_name = "PROVIDER", value_parser = clap::builder::PossibleValuesParser::new(names()))]
    provider: String,
    /// Connect its payment events; only needed for a name that is also a storefront's
    #[arg(long)]
    payment: bool,
    /// Print what to do, and do not wait for a delivery
    #[arg(long)]
    no_wait: bool,
    /// How long to wait for a signed delivery: 90s, 10m, 2h or 7d
    #[arg(long, value_name = "AGE", default_value = "10m", value_parser = age::parse)]
    timeout: Duration,
    /// Print JSON: a line with what to do, and a line for each delivery or refusal that comes
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    repair: subscriptions::Repair,
}

pub async fn run(settings: &Settings, arguments: Arguments) -> Result<()> {
    let stop = shutdown::on_signal()?;
    let asked = Asked::read(&arguments.provider, arguments.payment)?;
    if arguments.repair.is_asked() {
        return subscriptions::repair(settings, asked, &arguments.repair, arguments.json).await;
    }
    let mut guide = guide(settings, asked)?;
    if let Ok(db) = database(settings).await {
        guide.connect(connections_of(&db, asked).await);
        // Whoever adds one more connection does not wait for those that do not answer.
        let looked = timeout(PATIENCE, subscriptions::warnings(settings, &db, asked));
        guide.warnings.extend(looked.await.unwrap_or_default());
        db.close().await;
    }
    if !arguments.no_wait {
        let looked = look_for_service(settings, asked, &mut guide.warnings);
        if stop.run_until_cancelled(looked).await.is_none() {
            return Err(interrupted());
        }
    }
    if arguments.json {
        table::print(&format!("{}\n", terminal::json(&guide)?))?;
    } else {
        table::print(&render(&guide))?;
    }
    if arguments.no_wait {
        return Ok(());
    }
    let db = database(settings).await?;
    let waited = stop.run_until_cancelled(wait(&db, asked, &arguments)).await;
    db.close().await;
    waited.unwrap_or_else(|| Err(interrupted()))
}

/// Ctrl-C, as shells report it, and without a word.
fn interrupted() -> anyhow::Error {
    Ended {
        code: INTERRUPTED,
        text: String::new(),
    }
    .into()
}

/// The profile that is to be connected, and what follows from whose it is.
#[derive(Clone, Copy)]
struct Asked {
    profile: Profile,
    name: &'static str,
    setup: Setup,
    source: Source,
    path: &'static str,
    /// The setting that chooses the profile.
    provider_setting: &'static str,
    secret_setting: &'static str,
    /// The protections that count for its deliveries, by their names.
    protections: [&'static str; 4],
}

#[derive(Clone, Copy)]
enum Profile {
    Storefront(&'static StorefrontProfile),
    Payment(&'static PaymentProfile),
}

impl Asked {
    fn read(name: &str, is_payment: bool) -> Result<Self> {
        let storefront = StorefrontProfile::named(name).map(Asked::storefront);
        let payment = PaymentProfile::named(name).map(Asked::payment);
        if is_payment && payment.is_none() {
            let known = PAYMENTS.map(|profile| profile.name).join(", ");
            return Err(misused(format!(
                "--payment: {name} is no payment provider; those are {known}"
            )));
        }
        let asked = if is_payment {
            payment
        } else {
            storefront.or(payment)
        };
        asked.ok_or_else(|| misused(format!("{name} is not a provider")))
    }

    fn storefront(profile: &'static StorefrontProfile) -> Self {
        Asked {
            profile: Profile::Storefront(profile),
            name: profile.name,
            setup: profile.setup,
            source: Source::Storefront,
            path: STOREFRONT_PATH,
            provider_setting: "STOREFRONT_PROVIDER",
            secret_setting: "STOREFRONT_WEBHOOK_SECRET",
            protections: [
                "storefront secret",
                "shops",
                "deduplication",
                "encryption to clients",
            ],
        }
    }

    fn payment(profile: &'static PaymentProfile) -> Self {
        Asked {
            profile: Profile::Payment(profile),
            name: profile.name,
            setup: profile.setup,
            source: Source::Payment,
            path: PAYMENT_PATH,
            provider_setting: "PAYMENT_PROVIDER",
            secret_setting: "PAYMENT_WEBHOOK_SECRET",
            protections: [
                "payment secret",
                "age of payment signatures",
                "deduplication",
                "encryption to clients",
            ],
        }
    }

    /// What the provider calls the topics or types that something is done with.
    fn topics(self) -> Vec<&'static str> {
        let names: Vec<&str> = of_source(self.source).map(Kind::into_str).collect();
        match self.profile {
            Profile::Storefront(profile) => profile.subscriptions(&names),
            Profile::Payment(_) => names,
        }
    }
}

/// All that somebody has to do.
#[derive(Debug, Serialize)]
struct Guide {
    provider: &'static str,
    source: &'static str,
    /// Where deliveries go whose shop or account has no connection.
    url: String,
    /// The connections that this provider has, each with an address of its own.
    connections: Vec<Connected>,
    /// Where the provider takes the URL.
    page: &'static str,
    topics: Vec<&'static str>,
    settings: Vec<Wanted>,
    warnings: Vec<Warning>,
}

#[derive(Debug, Serialize)]
struct Connected {
    name: String,
    url: String,
}

impl Guide {
    /// What is left to do where these connections are. They need no setting but the address of the service.
    fn connect(&mut self, names: Vec<String>) {
        if names.is_empty() {
            return;
        }
        let address = |name: String| Connected {
            url: format!("{}/{name}", self.url),
            name,
        };
        self.connections = names.into_iter().map(address).collect();
        self.settings.retain(|it| it.name == "PUBLIC_URL");
        self.warnings.retain(|it| !it.is_of_settings);
    }
}

/// The names of the connections with a provider. What is wrong with the database is said when deliveries are waited for.
async fn connections_of(db: &Db, asked: Asked) -> Vec<String> {
    let all = connections::all(db).await.unwrap_or_default();
    let is_its = |it: &Connection| {
        it.removed_at.is_none()
            && it.side.into_str() == asked.source.into_str()
            && it.provider == asked.name
    };
    all.into_iter().filter(is_its).map(|it| it.name).collect()
}

/// A setting that the provider needs.
#[derive(Debug, Serialize)]
struct Wanted {
    name: &'static str,
    /// What it must be, where that is always the same.
    value: Option<&'static str>,
    /// What it is; of a secret which one, and never its value.
    what: Option<&'static str>,
    /// It is set so in this terminal.
    is_set: bool,
}

/// Something that would surprise.
#[derive(Debug, Serialize)]
struct Warning {
    warning: String,
    advice: Option<String>,
    /// It is about the settings that make the connection `default`.
    #[serde(skip)]
    is_of_settings: bool,
}

impl Warning {
    fn of_settings(self) -> Self {
        Warning {
            is_of_settings: true,
            ..self
        }
    }

    fn new(warning: impl Into<String>, advice: impl Into<String>) -> Self {
        Warning {
            warning: warning.into(),
            advice: Some(advice.into()),
            is_of_settings: false,
        }
    }
}

fn guide(settings: &Settings, asked: Asked) -> Result<Guide> {
    let here = format!("http://{}", on_this_machine(Config::listen_addr(settings)?));
    let has_address = settings.origin("PUBLIC_URL") != Origin::Unset;
    let base = if has_address {
        Config::public_url(settings)?
    } else {
        here.clone()
    };
    let mut warnings = address_warnings(&base, &here, has_address);
    warnings.extend(profile_warning(settings, asked).map(Warning::of_settings));
    warnings.extend(config_warnings(settings, asked));
    let beware = asked.setup.beware;
    warnings.extend(beware.map(|beware| Warning {
        warning: beware.to_owned(),
        advice: None,
        is_of_settings: false,
    }));
    Ok(Guide {
        provider: asked.name,
        source: asked.source.into_str(),
        url: format!("{base}{}", asked.path),
        connections: Vec::new(),
        page: asked.setup.page,
        topics: asked.topics(),
        settings: wanted(settings, asked, has_address),
        warnings,
    })
}

fn address_warnings(base: &str, here: &str, has_address: bool) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let tunnel = format!(
        "Set PUBLIC_URL to the https:// address of the server or of a tunnel: `cloudflared tunnel --url {here}` \
         prints one."
    );
    if !has_address {
        let what = format!("PUBLIC_URL is not set, and no provider can reach {base}");
        warnings.push(Warning::new(what, tunnel));
    } else if is_loopback(base) {
        let what = format!("PUBLIC_URL is {base}, which only this machine can reach");
        warnings.push(Warning::new(what, tunnel));
        let port = |url: &str| {
            Url::parse(url)
                .ok()
                .and_then(|it| it.port_or_known_default())
        };
        if port(base) != port(here) {
            let what = format!("PUBLIC_URL has another port than LISTEN_ADDR: {base}, {here}");
            warnings.push(Warning::new(what, "Give both the same port."));
        }
    }
    warnings
}

/// The service may have been started for another provider.
fn profile_warning(settings: &Settings, asked: Asked) -> Option<Warning> {
    let name = asked.provider_setting;
    let set = settings.get(name).unwrap_or_default().trim();
    let wanted = asked.name;
    (set != wanted).then(|| {
        Warning::new(
            format!("{name} is {set}, so deliveries of {wanted} are refused with 401"),
            format!("Set {name}={wanted}, and restart the service."),
        )
    })
}

/// What is wrong or would surprise with the settings as they would be with this provider.
fn config_warnings(settings: &Settings, asked: Asked) -> Vec<Warning> {
    let mut with = settings.clone();
    with.set(asked.provider_setting, asked.name);
    let config = match Config::load(&with, Mode::Development) {
        Ok(config) => config,
        Err(mistakes) => {
            let mistakes = mistakes.0.into_iter().map(|warning| Warning {
                warning,
                advice: None,
                is_of_settings: false,
            });
            return mistakes.collect();
        }
    };
    let mut warnings: Vec<Warning> = PROTECTIONS
        .iter()
        .filter(|it| asked.protections.contains(&it.name))
        .filter(|it| matches!(it.state(&config), State::Off(_)))
        .map(|it| Warning {
            is_of_settings: matches!(it.name, "storefront secret" | "payment secret" | "shops"),
            ..Warning::new(format!("{}: {}", it.setting, it.open), it.advice)
        })
        .collect();
    match asked.profile {
        Profile::Storefront(profile) => {
            let of_settings = duplicates(profile, &config)
                .into_iter()
                .chain(shopless(&config));
            warnings.extend(of_settings.map(Warning::of_settings));
        }
        Profile::Payment(profile) if profile.thin_events && config.payment.api.is_none() => {
            let thin = Warning::new(
                "thin events do not bring their object, and nothing can fetch it",
                "Subscribe to events with their objects, or set PAYMENT_API_URL and PAYMENT_API_KEY.",
            );
            warnings.push(thin.of_settings());
        }
        Profile::Payment(_) => {}
    }
    warnings
}

/// A provider that counts a 409 as a failure sends it again, and in the end sends nothing more.
fn duplicates(profile: &StorefrontProfile, config: &Config) -> Option<Warning> {
    let on_failures = profile.setup.on_failures?;
    (config.storefront.duplicate_status == 409).then(|| {
        Warning::new(
            format!("a duplicate is answered with 409, which counts as a failure: {on_failures}"),
            "Set WEBHOOK_DUPLICATE_STATUS=200.",
        )
    })
}

fn shopless(config: &Config) -> Option<Warning> {
    let Headers { shop, .. } = &config.storefront.headers;
    (shop.is_none() && config.storefront.shops.len() != 1).then(|| {
        Warning::new(
            "no header names the shop, so its orders would be of the shop without a name",
            "Set STOREFRONT_SHOPS to exactly one shop.",
        )
    })
}

fn wanted(settings: &Settings, asked: Asked, has_address: bool) -> Vec<Wanted> {
    let is_given = |name| settings.get(name).is_some();
    let is = |name, value| settings.get(name).map(str::trim) == Some(value);
    let exactly = |name, value| Wanted {
        name,
        value: Some(value),
        what: None,
        is_set: is(name, value),
    };
    let one = |name, what, is_set| Wanted {
        name,
        value: None,
        what: Some(what),
        is_set,
    };
    let (provider, secret) = (asked.provider_setting, asked.secret_setting);
    let mut wanted = vec![
        one(
            "PUBLIC_URL",
            "the https:// address at which the provider reaches this service",
            has_address,
        ),
        exactly(provider, asked.name),
        one(secret, asked.setup.secret, is_given(secret)),
    ];
    if let Profile::Storefront(profile) = asked.profile {
        if profile.name == OWN_HEADERS.name {
            let names = "the names of the headers, signature=..,id=..,topic=..,shop=..";
            wanted.push(one(
                "STOREFRONT_HEADERS",
                names,
                is_given("STOREFRONT_HEADERS"),
            ));
        }
        let shops = "the domain of the shop";
        wanted.push(one("STOREFRONT_SHOPS", shops, is_given("STOREFRONT_SHOPS")));
    }
    wanted
}

/// Warns if nothing answers where the deliveries would go.
async fn look_for_service(settings: &Settings, asked: Asked, warnings: &mut Vec<Warning>) {
    let mut with = settings.clone();
    with.set(asked.provider_setting, asked.name);
    // What is wrong with the settings is a warning already.
    let Ok(config) = Config::load(&with, Mode::Development) else {
        return;
    };
    let found = service::look(&config).await;
    let wrong = found.into_iter().filter(|it| it.level != Level::Ok);
    warnings.extend(wrong.map(|it| Warning {
        warning: it.found,
        advice: it.advice,
        is_of_settings: false,
    }));
}

fn render(guide: &Guide) -> String {
    let mut text = format!("Connect {} ({})\n\n", guide.provider, guide.source);
    if guide.connections.is_empty() {
        text.push_str(&wrapped("  URL to paste  ", &guide.url));
    }
    for (at, connected) in guide.connections.iter().enumerate() {
        let before = if at == 0 { "URL to paste" } else { "" };
        let url = format!("{} ({})", connected.url, connected.name);
        text.push_str(&wrapped(&format!("  {before:<14}"), &url));
    }
    text.push_str(&wrapped("  where         ", guide.page));
    for (at, topic) in guide.topics.iter().enumerate() {
        let before = if at == 0 { "topics" } else { "" };
        text.push_str(&wrapped(&format!("  {before:<14}"), topic));
    }
    text.push_str("\nSettings of the service, and whether this terminal has them:\n\n");
    for Wanted {
        name,
        value,
        what,
        is_set,
    } in &guide.settings
    {
        let state = if *is_set { "set" } else { "NOT SET" };
        let setting = match (value, what) {
            (Some(value), _) => format!("{name}={value}"),
            (None, what) => format!("{name}, {}", what.unwrap_or_default()),
        };
        text.push_str(&wrapped(&format!("  {state:<9}"), &setting));
    }
    if guide.connections.is_empty() {
        text.push('\n');
        text.push_str(&wrapped(
            "  or     ",
            "give it a connection, without a restart: waybill connections add",
        ));
    }
    if !guide.warnings.is_empty() {
        text.push_str("\nLook at this first:\n\n");
        for warning in &guide.warnings {
            text.push_str(&wrapped("  - ", &warning.warning));
            if let Some(advice) = &warning.advice {
                text.push_str(&wrapped("    -> ", advice));
            }
        }
    }
    text
}

/// The text in lines that fit a terminal, the later ones below the first word.
fn wrapped(before: &str, text: &str) -> String {
    let indent = " ".repeat(before.len());
    let mut lines = String::from(before);
    let mut width = before.len();
    for (at, word) in text.split_whitespace().enumerate() {
        let word = terminal::cell(word);
        let length = word.chars().count();
        if at > 0 && width + 1 + length > WIDTH {
            let _ = write!(lines, "\n{indent}");
            width = indent.len();
        } else if at > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(&word);
        width += length;
    }
    lines + "\n"
}

/// Waits for the first signed delivery, and says why others are refused meanwhile.
async fn wait(db: &Db, asked: Asked, arguments: &Arguments) -> Result<()> {
    let mut follower = Follower::begin(db, &Clock::system(), Duration::ZERO).await?;
    let within = arguments.timeout;
    let seconds = within.as_secs();
    terminal::err(&format!(
        "\nWaiting up to {seconds} s for a signed delivery of the {}; Ctrl-C ends it.\n",
        asked.source.into_str()
    ));
    let mut refused = None;
    let first = first_delivery(&mut follower, asked, arguments.json, &mut refused);
    let waited = timeout(within, first).await;
    match waited {
        Ok(delivery) => show(&delivery?, arguments.json),
        Err(_) => Err(in_vain(refused, seconds).into()),
    }
}

async fn first_delivery(
    follower: &mut Follower,
    asked: Asked,
    is_json: bool,
    refused: &mut Option<Line>,
) -> Result<Line> {
    loop {
        match follower.look().await {
            Ok(messages) => {
                for message in messages {
                    let Message::Line(line) = message else {
                        continue;
                    };
                    if line.outcome == Outcome::Refused {
                        show(&line, is_json)?;
                        *refused = Some(*line);
                    } else if line.source == asked.source.into_str() {
                        return Ok(*line);
                    }
                }
                sleep(LOOK_AGAIN).await;
            }
            Err(error) if sql::is_outage(&error) => sleep(TRY_AGAIN).await,
            Err(error) => return Err(error.into()),
        }
    }
}

fn in_vain(refused: Option<Line>, seconds: u64) -> Ended {
    match refused {
        Some(line) => Ended {
            code: ALL_REFUSED,
            text: format!(
                "No signed delivery came within {seconds} s; the last one was refused: {}",
                refusal(&line)
            ),
        },
        None => Ended {
            code: NOTHING_CAME,
            text: format!(
                "Nothing came within {seconds} s. Has the provider the URL above, and can it reach it? Send \
                 a test from its page."
            ),
        },
    }
}

fn show(line: &Line, is_json: bool) -> Result<()> {
    if is_json {
        let name = match line.outcome {
            Outcome::Refused => "refused",
            _ => "delivery",
        };
        return table::print(&format!("{}\n", terminal::json(&json!({ name: line }))?));
    }
    let utc = if zone::is_utc() { " UTC" } else { "" };
    let at = format!("{}{utc}", zone::time_of_day(line.received_at));
    let topic = line.topic.as_deref().unwrap_or("no topic");
    let shop = line.shop.as_deref().unwrap_or("no shop");
    let text = if line.outcome == Outcome::Refused {
        let count = match line.deliveries {
            1 => String::new(),
            many => format!(" {many} times"),
        };
        format!(
            "{at}  refused with {}{count}: {topic} of {shop}, {}",
            line.status,
            refusal(line)
        )
    } else {
        let job = line.job.unwrap_or_default();
        format!(
            "{at}  accepted: {topic} of {shop}. It is connected.\nWhat became of it: waybill jobs show {job}"
        )
    };
    table::print(&format!("{text}\n"))
}

#[cfg(test)]
#[path = "../../tests/unit/commands/connect.rs"]
mod tests;
