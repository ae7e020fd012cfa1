//! `waybill listen` shows deliveries as they arrive, a line for each: those of the database that
//! `DATABASE_URL` names, or with `--url` and an API key those of a service on another machine. The
//! terminal of `waybill` without a command shows the same lines. With `--forward-to` events are sent on (`forward`).

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use config::Settings;
use domain::event::Pattern;
use platform::clock::Clock;
use platform::{shutdown, task, terminal, zone};
use reqwest::Response;
use serde_json::{Value, json};
use server::deliveries::{Follower, LOOK_AGAIN, Line, Live, Message, Outcome, PATIENCE, fits};
use store::jobs::arrived::Filter;
use store::refused_deliveries::{set, why};
use store::sql::{self, Db};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::commands::follow::{Flow, Outage};
use crate::commands::forward::Forward;
use crate::commands::remote::Remote;
use crate::commands::{database, events};
use crate::table;
use lists::shown::quoted;
use lists::words;

const STREAM: &str = "/api/deliveries/stream";
/// The pause before the next try to reach the service or the database.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// The longest message of the stream that is read.
const LONGEST: usize = 1 << 20;

#[derive(clap::Args)]
pub struct Arguments {
    /// Listen to the service at this address, in place of the database
    #[arg(long, value_name = "URL", requires = "key_file")]
    url: Option<String>,
    /// A file with an API key of the scope deliveries:read, or events:read with --forward-to; `-` is standard input
    #[arg(long, value_name = "FILE", requires = "url")]
    key_file: Option<PathBuf>,
    /// Only deliveries of the storefront, or of the payment provider
    #[arg(long, value_parser = ["storefront", "payment"])]
    source: Option<String>,
    /// Only these topics or event types; `*` stands for any text: `orders/*`
    #[arg(long, value_name = "PATTERN", value_parser = words::topic(), hide_possible_values = true)]
    topic: Option<String>,
    /// Only deliveries of this shop
    #[arg(long, value_name = "DOMAIN")]
    shop: Option<String>,
    /// Only deliveries of this connection; `default` is the one that the settings make
    #[arg(long, value_name = "NAME")]
    connection: Option<String>,
    /// Send each event to this address, signed as for an endpoint, in place of showing deliveries
    #[arg(long, value_name = "URL", conflicts_with_all = ["source", "topic", "connection"])]
    forward_to: Option<String>,
    /// Forward only events of these types: words between dots, `*` is any one, `#` any number
    #[arg(
        long = "type",
        value_name = "PATTERN",
        requires = "forward_to",
        value_parser = words::coming_event(),
        hide_possible_values = true
    )]
    kind: Option<Pattern>,
    /// Forward what followed this event; without it, what happens from now on
    #[arg(long, value_name = "ID", requires = "forward_to")]
    after: Option<Uuid>,
    /// A file with the secret to sign with, whsec_..; without it one is made and shown
    #[arg(long, value_name = "FILE", requires = "forward_to")]
    secret_file: Option<PathBuf>,
    /// End after so many lines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Print JSON, one line for each delivery or event
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// The options of forwarding that were given, for the command that goes on.
    fn given(&self) -> String {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|it| it.display().to_string());
        let options = [
            ("--url", self.url.clone()),
            ("--key-file", path(&self.key_file)),
            (
                "--type",
                self.kind.as_ref().map(|it| it.as_str().to_owned()),
            ),
            ("--shop", self.shop.clone()),
            ("--secret-file", path(&self.secret_file)),
        ];
        let given = options.into_iter();
        given
            .filter_map(|(name, value)| Some(format!(" {name} {}", quoted(&value?))))
            .collect()
    }
}

pub async fn run(settings: &Settings, arguments: Arguments) -> Result<()> {
    let remote = match (&arguments.url, &arguments.key_file) {
        (Some(url), Some(file)) => Some(Remote::new(settings, url, file)?),
        _ => None,
    };
    if let Some(to) = &arguments.forward_to {
        let wanted = events::Forwarded {
            kind: arguments.kind.clone().unwrap_or_else(Pattern::all),
            shop: arguments.shop.clone(),
            after: arguments.after,
            limit: arguments.limit,
            json: arguments.json,
            options: arguments.given(),
        };
        let to = Forward::new(settings, to, arguments.secret_file.as_deref())?;
        return events::forward(settings, remote, to, wanted).await;
    }
    let stop = shutdown::on_signal()?;
    let given = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut printer = Printer {
        filter: Filter {
            source: given(&arguments.source),
            kind: given(&arguments.topic),
            shop: given(&arguments.shop),
            connection: given(&arguments.connection),
            ..Filter::default()
        },
        arguments,
        shown: 0,
    };
    let listening = async {
        match remote {
            Some(remote) => listen(&remote, &mut printer).await,
            None => local(settings, &mut printer).await,
        }
    };
    // Ctrl-C is how one ends it.
    stop.run_until_cancelled(listening).await.unwrap_or(Ok(()))
}

/// What is shown of what arrives.
struct Printer {
    arguments: Arguments,
    filter: Filter,
    shown: u64,
}

impl Printer {
    fn show(&mut self, message: &Message) -> Result<Flow> {
        if let Message::Line(line) = message
            && !fits(&self.filter, line)
        {
            return Ok(Flow::On);
        }
        let text = match message {
            message if !self.arguments.json => text(message),
            Message::Line(line) => format!("{}\n", terminal::json(line)?),
            Message::PassedOver(deliveries) => {
                let passed_over = json!({"passed_over": deliveries});
                format!("{}\n", terminal::json(&passed_over)?)
            }
        };
        if !table::was_read(terminal::out(&text))? {
            return Ok(Flow::End);
        }
        self.shown += 1;
        match self.arguments.limit {
            Some(limit) if self.shown >= limit => Ok(Flow::End),
            _ => Ok(Flow::On),
        }
    }
}

fn begun(what: &str, is_json: bool) {
    terminal::err(&format!("Listening to {what}; Ctrl-C ends it.\n"));
    if terminal::out_is_one() && !is_json {
        let time = if zone::is_utc() { "TIME UTC" } else { "TIME" };
        let heading = [time, "ANSWER", "TOPIC", "ORDER", "MS", "WHAT BECAME OF IT"];
        terminal::err(&format!("{}\n", columns(&heading)));
    }
}

/// A row, which fits a terminal of 80 columns as long as topic and order are not longer than usual.
fn columns([at, answer, topic, order, took, outcome]: &[&str; 6]) -> String {
    format!("{at:<8}  {answer:<6}  {topic:<20}  {order:<16}  {took:>6}  {outcome}")
}

/// A message as people read it. Further lines say why, and what to do.
pub fn text(message: &Message) -> String {
    let line = match message {
        Message::Line(line) => line,
        Message::PassedOver(deliveries) => {
            return format!(
                "{deliveries} deliveries or more are not shown, because more arrive than one can read\n"
            );
        }
    };
    let at = zone::time_of_day(line.received_at);
    let took = line.milliseconds.map(|it| it.to_string());
    let row = columns(&[
        &at,
        &line.status.to_string(),
        line.topic.as_deref().unwrap_or("-"),
        line.object_id.as_deref().unwrap_or("-"),
        took.as_deref().unwrap_or("-"),
        &outcome(line),
    ]);
    let mut text = terminal::cell(&row).into_owned();
    for more in more(line) {
        let _ = write!(text, "\n          {}", terminal::cell(&more));
    }
    text + "\n"
}

fn outcome(line: &Line) -> String {
    match line.outcome {
        Outcome::Done => "done".to_owned(),
        Outcome::NotUnderstood => "not understood".to_owned(),
        Outcome::Kept => "kept".to_owned(),
        Outcome::Waiting => "waits".to_owned(),
        Outcome::Retrying => format!("failed {}x", line.attempts),
        Outcome::Dead => "dead".to_owned(),
        Outcome::Discarded => "discarded".to_owned(),
        Outcome::Refused if line.deliveries > 1 => format!("refused {}x", line.deliveries),
        Outcome::Refused => "refused".to_owned(),
    }
}

/// Why, and what to do about it.
fn more(line: &Line) -> Vec<String> {
    let job = line.job.unwrap_or_default();
    match line.outcome {
        Outcome::Refused => {
            let advice = line
                .advice
                .iter()
                .map(|advice| format!("-> {}", set(advice)));
            [reason(line)].into_iter().chain(advice).collect()
        }
        Outcome::Dead => vec![format!("-> waybill dead show {job}")],
        Outcome::NotUnderstood | Outcome::Retrying => vec![format!("-> waybill jobs show {job}")],
        _ => Vec::new(),
    }
}

/// Why deliveries were refused.
fn reason(line: &Line) -> String {
    let given = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut text = why(&given(&line.reason), &given(&line.signature));
    if let Some(header) = &line.header {
        let _ = write!(text, ", but {header} came");
    }
    text
}

/// Why deliveries were refused, and the setting that would take them.
pub fn refusal(line: &Line) -> String {
    match &line.advice {
        Some(advice) => format!("{} -> {}", reason(line), set(advice)),
        None => reason(line),
    }
}

/// Shows each delivery in the terminal of the process that takes it, until shutdown.
pub fn show(live: &Live, shutdown: &CancellationToken) {
    let mut listener = live.listen();
    let shutdown = shutdown.clone();
    task::spawn("deliveries in the terminal", async move {
        while let Some(Some(message)) = shutdown.run_until_cancelled(listener.next()).await {
            if terminal::out(&text(&message)).is_err() {
                return;
            }
        }
    });
}

async fn local(settings: &Settings, printer: &mut Printer) -> Result<()> {
    let db = database(settings).await?;
    let listened = follow(&db, printer).await;
    db.close().await;
    listened
}

async fn follow(db: &Db, printer: &mut Printer) -> Result<()> {
    let mut follower = Follower::begin(db, &Clock::system(), PATIENCE).await?;
    begun("the database", printer.arguments.json);
    let mut outage = Outage::default();
    loop {
        match follower.look().await {
            Ok(messages) => {
                outage.over();
                for message in messages {
                    if printer.show(&message)? == Flow::End {
                        return Ok(());
                    }
                }
                sleep(LOOK_AGAIN).await;
            }
            Err(error) if sql::is_outage(&error) => {
                outage.begun(&format!("the database cannot be reached: {error}"));
                sleep(TRY_AGAIN).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Why a stream has ended.
enum Ended {
    /// All was shown.
    Shown,
    /// The connection is lost, or the service does not take listeners now.
    Lost(String),
}

async fn listen(remote: &Remote, printer: &mut Printer) -> Result<()> {
    let mut outage = Outage::default();
    let mut is_first = true;
    loop {
        match remote.get(STREAM).await? {
            Ok(response) => {
                if std::mem::take(&mut is_first) {
                    begun(&remote.address(STREAM), printer.arguments.json);
                }
                outage.over();
                match read(response, printer).await? {
                    Ended::Shown => return Ok(()),
                    Ended::Lost(why) => {
                        outage.begun(&format!("{why}; what arrives meanwhile is not shown"));
                    }
                }
            }
            Err(why) => outage.begun(&why),
        }
        sleep(TRY_AGAIN).await;
    }
}

/// Reads the messages of the stream (server-sent events) until it ends.
async fn read(mut response: Response, printer: &mut Printer) -> Result<Ended> {
    let mut text: Vec<u8> = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => text.extend_from_slice(&chunk),
            Ok(None) => return Ok(Ended::Lost("the service has ended the stream".to_owned())),
            Err(_) => return Ok(Ended::Lost("the connection is lost".to_owned())),
        }
        while let Some(end) = text.windows(2).position(|it| it == b"\n\n") {
            let frame: Vec<u8> = text.drain(..end + 2).collect();
            let frame = String::from_utf8_lossy(&frame);
            if let Some(message) = message(&frame)
                && printer.show(&message)? == Flow::End
            {
                return Ok(Ended::Shown);
            }
        }
        if text.len() > LONGEST {
            bail!("the service sends something else than deliveries");
        }
    }
}

/// The message in a frame of the stream. What a later version adds is passed over.
fn message(frame: &str) -> Option<Message> {
    let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
    let (event, data) = (field("event: ")?, field("data: ")?);
    match event {
        "delivery" | "refused" => serde_json::from_str(data).ok().map(Message::of),
        "passed_over" => {
            let data: Value = serde_json::from_str(data).ok()?;
            data["deliveries"].as_u64().map(Message::PassedOver)
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "../../tests/unit/commands/listen.rs"]
mod tests;
