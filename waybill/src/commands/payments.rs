//! `waybill payments` shows the state of payments, and until when subscriptions are paid.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use config::Settings;
use domain::money::decimal;
use platform::clock::Clock;
use platform::zone;
use serde_json::json;
use store::payments::{self, Summary};
use store::{ledger, notifications, payment_retries};

use crate::commands::{ledger as books, with_database};
use crate::table::{self, Listed, Rows as _, Table, or_none};
use lists::payments::{Notifications, Payment, Payments, Subscriptions};

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the payments that changed last
    List(Listed<Payments>),
    /// Show a payment with its ledger entries, retries and notifications
    Show {
        /// The payment provider's id, `pi_..`
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List subscriptions and until when they are paid
    Subscriptions(Listed<Subscriptions>),
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::List(listed) => listed.print(db, &Payments).await,
        Command::Show { id, json } => {
            let payment = payments::find(db, &id).await?;
            let lines = ledger::of_payment(db, &id).await?;
            let retries = payment_retries::list(db, &id).await?;
            let reported = notifications::list(db, &id, 100).await?;
            let record = payments::record(db, &id).await?;
            let (Some(payment), Some(record)) = (payment, record) else {
                bail!("there is no payment {id} here");
            };
            let account = record.account.map(|part| part.value);
            if json {
                let mut view = json!(Payment::from(payment));
                view["account"] = json!(account);
                view["unread"] = json!(record.unread);
                view["ledger"] = json!(lines);
                view["retries"] = json!(retries);
                view["notifications"] = json!(reported);
                return table::print_json(&view);
            }
            let mut parts = vec![
                describe(&payment, account.as_deref(), &record.unread),
                books::entries(&lines),
            ];
            let retries = retries.table(&[
                ("RETRY", &|retry| retry.number.to_string()),
                ("DUE", &|retry| zone::time(retry.due_at)),
                ("STATE", &|retry| retry.state.clone()),
                ("CODE", &|retry| or_none(retry.code.as_deref())),
                ("JOB", &|retry| retry.job_id.to_string()),
            ]);
            parts.extend(retries.filled());
            parts.extend(Table::of::<Notifications>(&reported, Clock::system().now()).filled());
            table::print(&parts.join("\n"))
        }
        Command::Subscriptions(listed) => listed.print(db, &Subscriptions).await,
    })
    .await
}

fn describe(payment: &Summary, account: Option<&str>, unread: &BTreeSet<String>) -> String {
    let money = |minor| {
        let amount = decimal(minor, &payment.currency);
        format!("{amount} {}", payment.currency)
    };
    let mut facts = Table::new(["payment", &payment.id]);
    facts.fact("state", payment.state.clone());
    facts.fact("amount", money(payment.amount_minor));
    facts.fact("received", money(payment.received_minor));
    facts.fact("refunded", money(payment.refunded_minor));
    facts.fact("agreement", or_none(payment.pact_id.as_deref()));
    facts.fact("customer", or_none(payment.customer_id.as_deref()));
    facts.fact("account", or_none(account));
    let unread: Vec<&str> = unread.iter().map(String::as_str).collect();
    facts.fact(
        "not read",
        or_none(Some(unread.join(", ")).filter(|it| !it.is_empty())),
    );
    facts.fact("updated", zone::time(payment.updated_at));
    facts.render()
}
