//! The `waybill` command: it runs the whole product in one process, or one part of it, and contains
//! the operator's tools.

// The futures of commands lie within each other, in a release build a little deeper than 128.
#![recursion_limit = "256"]

mod commands;
mod help;
mod names;
mod table;

use std::ffi::OsString;
use std::process::ExitCode;

use ::config::Settings;
use anyhow::{Result, anyhow};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use operators::advice;
use platform::zone;
use process::Misuse;

use crate::commands::{
    attention, audit, backup, completions, config, connect, connections, copy, dead, deliveries,
    demo, doctor, endpoints, events, health, identity, ingress, jobs, keys, ledger, licenses,
    listen, login, man, migrate, notifications, operations, orders, orgs, pauses, payments,
    privacy, reconcile, refused, sandbox, secrets, start, trigger, users, version, worker,
};

/// Accepts signed webhooks from a storefront and a payment provider, stores every one of them, and
/// processes each exactly once
///
/// Without a command it runs everything in one process on SQLite in data/, with development
/// secrets.
#[derive(Parser)]
#[command(name = "waybill", version, max_term_width = 100)]
#[command(
    after_help = "Try it: `waybill`, then in a second terminal `waybill trigger orders/create`.\n\
    `waybill doctor` finds what is wrong, and says what to do about it."
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Show and read times in UTC, and not in the zone of TZ or of this machine
    #[arg(long, global = true)]
    utc: bool,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Subcommand)]
enum Command {
    /// Run everything in one process, with your own secrets
    Serve,
    /// Run the HTTP service alone: it accepts webhooks and answers the commerce API
    ///
    /// Start as many as you like behind a load balancer: the database decides which of two deliveries
    /// with the same id is the first. On SIGTERM the process answers the requests that are under way,
    /// and then ends. `waybill-ingress` is the same.
    #[command(version)]
    Ingress,
    /// Run the worker of one queue alone
    ///
    /// Start as many as you like, on as many machines: a job is done once. SIGTERM lets the jobs under
    /// way finish. `waybill-orders` is the same as `waybill worker orders`, and likewise for the other
    /// queues.
    #[command(version)]
    Worker(worker::Arguments),
    /// Build, sign and post a webhook, and show how it was processed
    Trigger(trigger::Arguments),
    /// Say what a provider needs to connect, and wait for its first delivery
    ///
    /// PROVIDER is the name of a profile, as in docs/connect.md. It prints the URL to paste at the
    /// provider, the topics to subscribe, the settings that are needed, and a warning for each that
    /// is missing or would surprise. Then it waits for the first signed delivery, and says of each
    /// refused one why it was refused and which setting would take it.
    ///
    /// Exit code 0 when a signed delivery has come, 3 when nothing came in time, and 4 when all that
    /// came was refused.
    Connect(connect::Arguments),
    /// Show each delivery as it arrives, and what becomes of it
    ///
    /// It reads the database, or with --url and --key-file a service on another machine. A delivery
    /// gets its line when its work has ended. After two seconds it gets one that says that it waits,
    /// and another one at its end. Refused deliveries come with the reason and the setting that would
    /// take them. Duplicates make no line. Ctrl-C ends it.
    Listen(listen::Arguments),
    /// Jobs: list and show deliveries and other work, and process deliveries again
    #[command(subcommand)]
    Jobs(jobs::Command),
    /// Deliveries that were refused: why, and which setting would take them
    #[command(subcommand)]
    Refused(refused::Command),
    /// Deliveries that were accepted, and what became of each
    #[command(subcommand)]
    Deliveries(deliveries::Command),
    /// Dead letters: list jobs that were given up, and run them again or discard them
    #[command(subcommand)]
    Dead(dead::Command),
    /// What dead jobs go through together: how far it has come, and how to stop it
    ///
    /// Operators begin an operation in the console, and the processes that serve the console do it.
    #[command(subcommand)]
    Operations(operations::Command),
    /// What needs a person now
    #[command(subcommand)]
    Attention(attention::Command),
    /// Let a queue, calls to a provider, a shop, or the notification of a condition wait
    #[command(subcommand)]
    Pauses(pauses::Command),
    /// The samples that `waybill trigger` has sent
    #[command(subcommand)]
    Demo(demo::Command),
    /// Providers that are connected, each with its own secret, shops and API
    #[command(subcommand)]
    Connections(connections::Command),
    Reconcile(reconcile::Arguments),
    /// With which signing secrets of the providers deliveries are verified
    #[command(subcommand)]
    Secrets(secrets::Command),
    /// Look at orders
    #[command(subcommand)]
    Orders(orders::Command),
    /// Look at payments and subscriptions
    #[command(subcommand)]
    Payments(payments::Command),
    /// The books: how much was captured, released, refunded and credited
    #[command(subcommand)]
    Ledger(ledger::Command),
    /// Notifications of customers, both sent and not sent
    #[command(subcommand)]
    Notifications(notifications::Command),
    /// Requests of customers about their data, with their deadlines and results
    #[command(subcommand)]
    Privacy(privacy::Command),
    /// The audit: what was done to people's data, and what operators have changed
    #[command(subcommand)]
    Audit(audit::Command),
    /// Stand-ins for the providers, and storms of webhooks
    #[command(subcommand)]
    Sandbox(sandbox::Command),
    /// Follow the events of orders and payments that Waybill sends to your own systems
    #[command(subcommand)]
    Events(events::Command),
    /// Where events are sent as webhooks: your own systems
    #[command(subcommand)]
    Endpoints(endpoints::Command),
    /// API keys for the commerce API
    #[command(subcommand)]
    Keys(keys::Command),
    /// Log in as a device, and show who you are and which tier you have
    Login(login::Arguments),
    /// Licences: which tier persons and organizations have
    #[command(subcommand)]
    Licenses(licenses::Command),
    /// Persons who have logged in: forget them
    #[command(subcommand)]
    Users(users::Command),
    /// Organizations whose members share a licence
    #[command(subcommand)]
    Orgs(orgs::Command),
    /// The identity provider to whose accounts the users belong, and changing it
    #[command(subcommand)]
    Identity(identity::Command),
    /// Check everything that Waybill depends on, and say what is wrong and what to do
    ///
    /// Exit code 1 when something failed, 2 when settings are wrong.
    ///
    /// It checks the settings, database, broker, clocks, the providers' APIs, export store, mail
    /// server, disk, and waiting jobs. All checks run at once, each ends within five seconds, and
    /// none changes anything.
    Doctor(doctor::Arguments),
    /// Show every setting and where it came from, or carry them to another installation
    Config(config::Arguments),
    /// Copy the database into a file while services use it
    ///
    /// The file is the database of one moment, and is read again before the command succeeds. It holds
    /// personal data. With PostgreSQL it is a dump of `pg_dump`, which must be installed.
    Backup(backup::Backup),
    /// Make the database of a backup
    ///
    /// The services must be stopped, and `DATABASE_URL` must name a database that is not there yet, or
    /// on PostgreSQL an empty one. It is restored as a whole or not at all.
    Restore(backup::Restore),
    /// Move a shop from SQLite to PostgreSQL while its service is stopped
    ///
    /// `DATABASE_URL` names the SQLite file, which nobody else may use meanwhile. All rows are copied and
    /// compared, and after that nobody opens the file any more: start the services with the new database.
    /// Deliveries that come meanwhile are posted again by the providers. An interrupted copy leaves the file
    /// as it was; run it again.
    Copy(copy::Arguments),
    /// Apply the migrations that the database lacks
    Migrate(migrate::Arguments),
    /// Ask a running service whether it is ready; exit code 1 if it is not
    Health {
        /// Ask the worker that listens on `WORKER_LISTEN_ADDR` instead of the service on
        /// `LISTEN_ADDR`
        #[arg(long)]
        worker: bool,
    },
    /// Print a script with which a shell completes commands and options
    ///
    /// bash: waybill completions bash > ~/.local/share/bash-completion/completions/waybill
    ///
    /// zsh: waybill completions zsh > "${fpath[1]}/_waybill"
    ///
    /// fish: waybill completions fish > ~/.config/fish/completions/waybill.fish
    Completions(completions::Arguments),
    /// Print the manual page, or write those of all commands
    ///
    /// waybill man --output ~/.local/share/man/man1, and then man waybill-dead-requeue
    Man(man::Arguments),
    /// Show which version this is, and what it is made of
    Version(version::Arguments),
}

fn main() -> ExitCode {
    process::run(async { dispatch(arguments()?).await.map_err(advised) })
}

/// The error with the command that helps against it, if there is one.
fn advised(error: anyhow::Error) -> anyhow::Error {
    match error.chain().find_map(advice::of) {
        Some(advice) => anyhow!("{error:#}; {advice}"),
        None => error,
    }
}

/// Parses the arguments like `Arguments::parse`, but with Waybill's own first page of help, and says of what
/// this version no longer has what to use in its place.
fn arguments() -> Result<Arguments> {
    let line = names::expanded(std::env::args_os());
    let matches = help::grouped(Arguments::command()).try_get_matches_from(&line);
    let parsed = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
    parsed.or_else(|error| match gone(&error, &line) {
        Some(advice) => Err(Misuse(advice).into()),
        None => error.exit(),
    })
}

fn gone(error: &clap::Error, line: &[OsString]) -> Option<String> {
    let wrong = [
        ContextKind::InvalidSubcommand,
        ContextKind::InvalidArg,
        ContextKind::InvalidValue,
    ];
    wrong.into_iter().find_map(|kind| match error.get(kind) {
        Some(ContextValue::String(wrong)) => ::config::gone::advice(wrong, line),
        _ => None,
    })
}

async fn dispatch(arguments: Arguments) -> Result<()> {
    if arguments.utc {
        zone::use_utc();
    }
    let settings = &arguments.settings;
    match arguments.command {
        None => start::development(settings).await,
        Some(Command::Serve) => start::serve(settings).await,
        Some(Command::Ingress) => ingress::run(settings).await,
        Some(Command::Worker(arguments)) => worker::run(settings, arguments).await,
        Some(Command::Trigger(trigger)) => trigger::run(settings, trigger).await,
        Some(Command::Connect(arguments)) => connect::run(settings, arguments).await,
        Some(Command::Listen(arguments)) => listen::run(settings, arguments).await,
        Some(Command::Jobs(command)) => jobs::run(settings, command).await,
        Some(Command::Refused(command)) => refused::run(settings, command).await,
        Some(Command::Deliveries(command)) => deliveries::run(settings, command).await,
        Some(Command::Dead(command)) => dead::run(settings, command).await,
        Some(Command::Operations(command)) => operations::run(settings, command).await,
        Some(Command::Attention(command)) => attention::run(settings, command).await,
        Some(Command::Reconcile(arguments)) => reconcile::run(settings, arguments).await,
        Some(Command::Pauses(command)) => pauses::run(settings, command).await,
        Some(Command::Demo(command)) => demo::run(settings, command).await,
        Some(Command::Connections(command)) => connections::run(settings, command).await,
        Some(Command::Secrets(command)) => secrets::run(settings, command).await,
        Some(Command::Orders(command)) => orders::run(settings, command).await,
        Some(Command::Payments(command)) => payments::run(settings, command).await,
        Some(Command::Ledger(command)) => ledger::run(settings, command).await,
        Some(Command::Notifications(command)) => notifications::run(settings, command).await,
        Some(Command::Privacy(command)) => privacy::run(settings, command).await,
        Some(Command::Audit(command)) => audit::run(settings, command).await,
        Some(Command::Sandbox(command)) => sandbox::run(settings, command).await,
        Some(Command::Events(command)) => events::run(settings, command).await,
        Some(Command::Endpoints(command)) => endpoints::run(settings, command).await,
        Some(Command::Keys(command)) => keys::run(settings, command).await,
        Some(Command::Login(arguments)) => login::run(settings, &arguments).await,
        Some(Command::Licenses(command)) => licenses::run(settings, command).await,
        Some(Command::Users(command)) => users::run(settings, command).await,
        Some(Command::Orgs(command)) => orgs::run(settings, command).await,
        Some(Command::Identity(command)) => identity::run(settings, command).await,
        Some(Command::Config(arguments)) => config::run(settings, arguments).await,
        Some(Command::Copy(arguments)) => copy::run(settings, &arguments).await,
        Some(Command::Migrate(arguments)) => migrate::run(settings, &arguments).await,
        Some(Command::Backup(arguments)) => backup::backup(settings, &arguments).await,
        Some(Command::Restore(arguments)) => backup::restore(settings, &arguments).await,
        Some(Command::Health { worker }) => health::run(settings, worker).await,
        Some(Command::Doctor(arguments)) => Box::pin(doctor::run(settings, &arguments)).await,
        Some(Command::Completions(shell)) => completions::run(Arguments::command(), &shell),
        Some(Command::Man(pages)) => man::run(Arguments::command(), &pages),
        Some(Command::Version(arguments)) => version::run(&arguments),
    }
}
