//! Starts everything in one process: ingress and the workers, with one database and one bus.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use config::{
    Config, DEVELOPMENT_PAYMENT_SECRET, DEVELOPMENT_STOREFRONT_SECRET, Mode, Origin, Place,
    Settings,
};
use console::Listening;
use domain::api_key::{Rights, Scope};
use domain::connection::{PAYMENT_PATH, STOREFRONT_PATH};
use domain::job::Source;
use platform::clock::Clock;
use platform::shutdown;
use platform::task;
use platform::terminal;
use process::{DatabaseConnections, Parts, supervisor};
use server::deliveries::Live;
use std::time::Duration;
use store::api_keys::{self, Made};
use store::sql::Db;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workers::Worker;

use ::sandbox::{Options, Sandbox, sample};

use crate::commands::{listen as live_lines, sandbox};
use crate::table::{self, Table};

/// How many messages each worker of the process handles at a time.
const CONCURRENCY: u16 = 2;
/// Enough for the batches of the intake, the workers and the API.
const CONNECTIONS: DatabaseConnections = DatabaseConnections {
    usual: 20,
    least: 12,
    apart: ingress::intake::CONNECTIONS,
};
const DEVELOPMENT_KEY_LIFE: Duration = Duration::from_hours(24);
const SHOWN: &str = "Each delivery gets a line below, as of `waybill listen`; --show-deliveries false leaves them out.\n\n";

/// `waybill` without a command. It uses development secrets where none are set, and prints a
/// banner with commands to try. While neither signing secret is set, it also starts stand-ins for
/// the providers whose APIs are not set, and makes an API key.
pub async fn development(settings: &Settings) -> Result<()> {
    let shutdown = shutdown::on_signal()?;
    let mut settings = settings.clone();
    // If settings are wrong, the stand-ins for the providers are not started.
    let config = Config::load(&settings, Mode::Development)?;
    // Where others reach the process there is no public secret.
    let is_a_try = settings.is_a_try() && config.has_public_secret(Source::Storefront);
    let sandbox = if is_a_try {
        start_sandbox(&mut settings).await?
    } else {
        None
    };
    let parts = start(&settings, Mode::Development).await?;
    let listener = listen(&parts)?;
    let console = listen_console(&parts).await?;
    let key = if is_a_try {
        Some(development_key(&parts.db, &parts.clock).await?)
    } else {
        None
    };
    let console_line = console_line(console.as_ref(), key.as_ref());
    let text = banner(
        &parts,
        &settings,
        key.as_ref(),
        &console_line,
        sandbox.as_ref(),
    );
    table::print(&text)?;
    let live = Live::default();
    let shows = parts.config.show_deliveries;
    if shows.unwrap_or_else(terminal::out_is_one) {
        table::print(SHOWN)?;
        live_lines::show(&live, &shutdown);
    }
    let ended = run(parts, &settings, listener, console, shutdown, live).await;
    if let Some(sandbox) = sandbox {
        sandbox.stop().await;
    }
    ended
}

fn is_unset(settings: &Settings, names: [&str; 2]) -> bool {
    names.iter().all(|name| settings.get(name).is_none())
}

/// Starts the sandbox in place of the providers' APIs that are not set, and changes the settings
/// so that they lead to it. It is only started with development secrets, because otherwise it
/// would sign with the real secrets and answer for real orders.
async fn start_sandbox(settings: &mut Settings) -> Result<Option<Sandbox>> {
    let storefront = is_unset(settings, ["STOREFRONT_API_URL", "STOREFRONT_API_TOKEN"]);
    let payment = is_unset(settings, ["PAYMENT_API_URL", "PAYMENT_API_KEY"]);
    let identity = is_unset(settings, ["GITHUB_CLIENT_ID", "GITHUB_CLIENT_SECRET"]);
    if !(storefront || payment || identity) {
        return Ok(None);
    }
    let webhooks = sandbox::webhooks(settings, sample::shop())?;
    let options = |port| Options {
        listen: (Ipv4Addr::LOCALHOST, port).into(),
        webhooks: Some(webhooks.clone()),
        ..Options::default()
    };
    // `waybill sandbox checkout` expects the sandbox on this port. If the port is taken, it gets
    // another one.
    let port = sandbox::port_beside(Config::listen_addr(settings)?);
    let sandbox = match Sandbox::start(options(port)).await {
        Ok(sandbox) => sandbox,
        Err(_) => Sandbox::start(options(0)).await?,
    };
    for (name, value) in sandbox.stand_ins() {
        let is_wanted = match name.split('_').next() {
            Some("STOREFRONT") => storefront,
            Some("PAYMENT") => payment,
            _ => identity,
        };
        if is_wanted {
            settings.stand_in(name, value);
        }
    }
    Ok(Some(sandbox))
}

/// `waybill serve`: ingress and workers without anything for development.
pub async fn serve(settings: &Settings) -> Result<()> {
    let shutdown = shutdown::on_signal()?;
    let parts = start(settings, Mode::Production).await?;
    let listener = listen(&parts)?;
    let console = listen_console(&parts).await?;
    let live = Live::default();
    run(parts, settings, listener, console, shutdown, live).await
}

async fn start(settings: &Settings, mode: Mode) -> Result<Parts> {
    let connections = match Config::console(settings)?.place {
        Place::Off => CONNECTIONS,
        Place::Unset | Place::At(_) => CONNECTIONS.and(console::READERS),
    };
    Parts::start(settings, mode, connections).await
}

/// Opens the console's listener, unless it is off. When nobody has said where, and another program is
/// there, it takes a port that is free.
async fn listen_console(parts: &Parts) -> Result<Option<Listening>> {
    let settings = &parts.config.console;
    let Some(address) = settings.beside(parts.config.listen_addr) else {
        return Ok(None);
    };
    match console::listen(parts, address).await {
        // A proxy leads to the usual port, so with an address of its own no other port would do.
        Err(_) if settings.place == Place::Unset && settings.url.is_none() => {
            let any = (Ipv4Addr::LOCALHOST, 0).into();
            Ok(Some(console::listen(parts, any).await?))
        }
        listening => Ok(Some(listening?)),
    }
}

/// The line of the banner, with a link that signs in once where there is a key for it.
fn console_line(console: Option<&Listening>, key: Option<&Made>) -> String {
    let Some(console) = console else {
        return String::new();
    };
    let (url, how) = match key {
        Some(key) => (console.link(key.id), "signs you in, once"),
        None => (
            console.url().to_owned(),
            "sign in with a key: waybill keys create <name> --scope console:owner",
        ),
    };
    format!("  console              {url}\n                       {how}\n")
}

fn listen(parts: &Parts) -> Result<TcpListener> {
    let address = parts.config.listen_addr;
    ingress::listen(address).with_context(|| {
        format!(
            "LISTEN_ADDR: cannot listen on {address}; another program, perhaps another Waybill, is \
             there. Stop it, or give this one another port with --listen-addr, and give the same \
             to the commands that are meant for it"
        )
    })
}

async fn run(
    parts: Parts,
    settings: &Settings,
    listener: TcpListener,
    console: Option<Listening>,
    shutdown: CancellationToken,
    live: Live,
) -> Result<()> {
    let working = TaskTracker::new();
    if let Some(console) = console {
        console.start(&working, &shutdown);
    }
    let mut alive = Vec::new();
    for worker in Worker::of_all_queues(&parts, CONCURRENCY) {
        let queue = worker.queue;
        alive.push(worker.liveness());
        let shutdown = shutdown.clone();
        let work = async move {
            if let Err(error) = workers::run(worker, shutdown).await {
                tracing::error!(%queue, error = format!("{error:#}"), "a worker did not stop in order");
            }
        };
        task::spawn("worker", working.track_future(work));
    }
    let attention = workers::attention::run(parts.clone(), shutdown.clone());
    task::spawn("attention", working.track_future(attention));
    let reconcile = workers::reconcile::run(parts.clone(), shutdown.clone());
    task::spawn("reconcile", working.track_future(reconcile));
    working.close();
    ingress::announce(&parts.config);
    let all_alive = move || alive.iter().all(|is_alive| is_alive());
    supervisor::notify(settings.supervisor(), all_alive, &shutdown);
    ingress::serve_heard(listener, parts.clone(), shutdown, live).await?;
    working.wait().await;
    parts.close().await;
    Ok(())
}

/// Makes the API key for the banner. It ends after a day, whatever is started meanwhile, unless that
/// is for production.
async fn development_key(db: &Db, clock: &Clock) -> Result<Made> {
    let mut tx = db.begin().await?;
    let expires_at = clock.now().plus(DEVELOPMENT_KEY_LIFE);
    let name = api_keys::DEVELOPMENT;
    let rights = Rights {
        scopes: Some(Scope::ALL.to_vec()),
        ..Rights::default()
    };
    let made =
        api_keys::create(&mut tx, clock, clock.id(), name, Some(expires_at), &rights).await?;
    tx.commit().await?;
    Ok(made)
}

fn banner(
    parts: &Parts,
    settings: &Settings,
    key: Option<&Made>,
    console_line: &str,
    sandbox: Option<&Sandbox>,
) -> String {
    let key = match key {
        Some(made) => format!("API key {}", made.key),
        None => "an API key: waybill keys create <name>".to_owned(),
    };
    let url = &parts.config.public_url;
    let secret = |name: &str, source: Source, development: &'static str| match settings.get(name) {
        None if parts.config.has_public_secret(source) => development,
        None => "(none: those of connections count)",
        Some(_) => "(yours)",
    };
    let storefront = secret(
        "STOREFRONT_WEBHOOK_SECRET",
        Source::Storefront,
        DEVELOPMENT_STOREFRONT_SECRET,
    );
    let payment = secret(
        "PAYMENT_WEBHOOK_SECRET",
        Source::Payment,
        DEVELOPMENT_PAYMENT_SECRET,
    );
    let database = domain::redact::redact(&parts.config.database_url);
    let started_over = match settings.origin("DATABASE_URL") {
        Origin::Default => "\n                       delete the folder data/ to start over",
        _ => "",
    };
    let sandbox_line = match sandbox {
        Some(sandbox) => format!("  sandbox providers    {}\n", sandbox.url()),
        None => String::new(),
    };
    let login = match &parts.config.identity {
        Some(identity) => format!("approved on {}/login/device", identity.url),
        None => "not set up: GITHUB_CLIENT_ID is not set".to_owned(),
    };
    let next = next_commands(parts, settings, sandbox);
    format!(
        "Waybill is ready on {url}

  storefront webhooks  POST {url}{STOREFRONT_PATH}
                       signing secret {storefront}
  payment webhooks     POST {url}{PAYMENT_PATH}
                       signing secret {payment}
  commerce API         GET  {url}/api/commerce/orders/<order_id>
                       {key}
  API reference        {url}/docs
  device login         POST {url}/auth/device/code
                       {login}
{console_line}{sandbox_line}  data                 {database}{started_over}

Next, in a second terminal:

{next}
Ctrl-C stops it; nothing that was accepted is lost.

"
    )
}

/// The commands to try, with the name under which this program was started.
/// They get the flags by which they find this process and its data.
fn next_commands(parts: &Parts, settings: &Settings, sandbox: Option<&Sandbox>) -> String {
    let beside = format!(":{}", sandbox::port_beside(parts.config.listen_addr));
    let checkout = sandbox.map(|sandbox| match sandbox.url() {
        url if url.ends_with(&beside) => "sandbox checkout".to_owned(),
        url => format!("sandbox checkout --sandbox {url}"),
    });
    let is_built_here = std::env::current_exe().is_ok_and(|path| {
        let mut folders = path.iter().rev().skip(1);
        folders.next() == Some("debug".as_ref()) && folders.next() == Some("target".as_ref())
    });
    let program = if is_built_here {
        "cargo run --"
    } else {
        "waybill"
    };
    let commands = [
        (
            Some("trigger orders/create".to_owned()),
            "a signed order, and what becomes of it",
        ),
        (checkout, "something to buy, and a page to pay on"),
        (
            Some("events tail".to_owned()),
            "what happens, as it happens",
        ),
        (Some("login".to_owned()), "as a device would"),
        (
            Some("doctor".to_owned()),
            "what is well, what is not, and what to do",
        ),
    ];
    let flags: String = ["LISTEN_ADDR", "PUBLIC_URL", "DATABASE_URL"]
        .into_iter()
        .filter(|name| settings.origin(name) == Origin::Flag)
        .filter_map(|name| {
            let flag = name.to_ascii_lowercase().replace('_', "-");
            Some(format!(" --{flag} {}", settings.get(name)?))
        })
        .collect();
    let commands = commands
        .into_iter()
        .filter_map(|(command, what)| Some((format!("{program} {}{flags}", command?), what)));
    let mut rows = Table::plain();
    for (command, what) in commands {
        rows.row([String::new(), command, what.to_owned()]);
    }
    rows.render()
}
