//! `waybill ledger` shows and checks the books: the amounts that were captured, released, refunded
//! and credited.

use anyhow::{Result, bail};
use config::Settings;
use platform::zone;
use serde_json::json;
use store::ledger::{self, Balance, Line};
use store::sql::Db;

use crate::commands::with_database;
use crate::table::{self, Output, Rows as _};

#[derive(clap::Subcommand)]
pub enum Command {
    /// Check every entry against its payment; exit code 1 if one is wrong
    ///
    /// The entries of each payment must agree with what its events said, and the entries of each
    /// currency must sum to zero. Workers may run meanwhile.
    Verify(Output),
    /// List accounts and their balances: provider, held, released:AGREEMENT, credited:CUSTOMER
    Accounts {
        /// Only accounts whose names begin with this, `released:` for example
        #[arg(default_value = "")]
        prefix: String,
        /// Only what the payments of this connection come to; `default` is the one that the settings make
        #[arg(
            long,
            value_name = "NAME",
            default_value = "",
            hide_default_value = true
        )]
        connection: String,
        /// Show at most this many
        #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
        limit: i64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the newest entries of an account
    Show {
        /// The name of the account, `held` or `released:pact_7` for example
        account: String,
        /// Show at most this many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::Verify(Output { json }) => verify(db, json).await,
        Command::Accounts {
            prefix,
            connection,
            limit,
            json,
        } => {
            let balances = ledger::balances(db, &connection, &prefix, limit).await?;
            table::show(json, &balances, || accounts(&balances))
        }
        Command::Show {
            account,
            limit,
            json,
        } => {
            let lines = ledger::of_account(db, &account, limit).await?;
            table::show(json, &lines, || entries(&lines))
        }
    })
    .await
}

fn accounts(balances: &[Balance]) -> String {
    balances
        .table(&[
            ("ACCOUNT", &|balance| balance.account.clone()),
            ("CURRENCY", &|balance| balance.currency.clone()),
            ("       BALANCE", &|balance| {
                format!("{:>14}", balance.amount)
            }),
            ("ENTRIES", &|balance| balance.entries.to_string()),
        ])
        .render()
}

/// The entries of an account or a payment.
pub fn entries(lines: &[Line]) -> String {
    lines
        .table(&[
            ("TIME", &|line| zone::time(line.created_at)),
            ("PAYMENT", &|line| line.payment_id.clone()),
            ("ENTRY", &|line| line.entry.clone()),
            ("ACCOUNT", &|line| line.account.clone()),
            ("        AMOUNT", &|line| format!("{:>14}", line.amount)),
            ("CURRENCY", &|line| line.currency.clone()),
        ])
        .render()
}

async fn verify(db: &Db, json: bool) -> Result<()> {
    let books = ledger::verify(db).await?;
    if json {
        table::print_json(&json!({
            "balanced": books.is_balanced(),
            "payments": books.payments,
            "entries": books.entries(),
            "accounts": books.balances,
            "wrong": books.wrong,
            "unbalanced": books.unbalanced,
        }))?;
    } else {
        table::print(&accounts(&books.balances))?;
        for wrong in &books.wrong {
            table::print(&format!(
                "WRONG: {} has {} {} in {} ({}), and its events come to {}\n",
                wrong.payment_id,
                wrong.booked,
                wrong.currency,
                wrong.account,
                wrong.entry,
                wrong.expected
            ))?;
        }
    }
    if !books.is_balanced() {
        bail!(
            "the books do not balance: {} wrong sums, {} currencies that do not sum to zero. \
             Somebody changed the tables payments or ledger_entries by hand.",
            books.wrong.len(),
            books.unbalanced.len()
        );
    }
    if json {
        return Ok(());
    }
    table::print(&format!(
        "\nThe books balance: {} entries of {}, as their events say.\n",
        books.entries(),
        match books.payments {
            1 => "1 payment".to_owned(),
            payments => format!("{payments} payments"),
        }
    ))
}
