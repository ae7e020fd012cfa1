//! `waybill notifications` shows the notifications of customers, also those that were not sent
//! because no mail server is set.

use anyhow::{Result, bail};
use config::{Config, Mode, Settings};
use domain::job::JobId;
use flows::letters;
use platform::clock::Clock;
use platform::terminal;
use process::registry;
use serde_json::json;
use store::notifications::{self, Letter};
use store::sql::Db;

use crate::commands::database;
use crate::commands::operator::Operator;
use crate::table::{self, Listed};
use lists::payments::Notifications;
use lists::words;

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the newest notifications, without the names and addresses of the customers
    List(Listed<Notifications>),
    /// Show a notification as its customer reads it. It contains the address, which is personal
    /// data
    ///
    /// The audit says that it was shown, and by whom.
    Show {
        #[arg(value_parser = words::id)]
        id: JobId,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        operator: Operator,
    },
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let db = database(settings).await?;
    match command {
        Command::List(listed) => {
            let shown = listed.print(&db, &Notifications).await;
            db.close().await;
            shown
        }
        Command::Show { id, json, operator } => {
            let config = Config::load(settings, Mode::Development)?;
            let letter = letter(settings, &db, id, &operator).await;
            let connections = registry::read(&config, &db, &Clock::system()).await;
            db.close().await;
            let (letter, connections) = (letter?, connections?);
            let mail = letters::mail(&letter, &config, &connections.now());
            if json {
                return table::print_json(&json!({
                    "id": id,
                    "state": letter.state,
                    "to": letter.email,
                    "subject": mail.subject,
                    "body": mail.body,
                }));
            }
            let to = letter
                .email
                .as_deref()
                .unwrap_or("nobody gave us an address");
            table::print(&format!(
                "State:   {}\nTo:      {}\nSubject: {}\n\n{}",
                letter.state,
                terminal::cell(to),
                terminal::cell(&mail.subject),
                mail.body
            ))
        }
    }
}

/// A notification with its address. The audit entry that says who sees it is written before it is
/// shown.
async fn letter(settings: &Settings, db: &Db, id: JobId, operator: &Operator) -> Result<Letter> {
    let Some(letter) = notifications::letter(db, id).await? else {
        bail!("there is no notification {id} here");
    };
    let author = operator.author(settings, db).await?;
    let by = author.by(Clock::system().now());
    let mut tx = db.begin().await?;
    by.note(&mut tx, "notification.shown", id, json!({}))
        .await?;
    tx.commit().await?;
    Ok(letter)
}
