//! `waybill payments` shows the state of payments, and until when subscriptions are paid.

use anyhow::{Result, bail};
use config::Settings;
use domain::money::decimal;
use platform::zone;
use serde_json::{Value, json};
use store::payments::{self, Filter, Summary};
use store::{ledger, notifications, payment_retries, subscriptions};

use crate::commands::{database, ledger as books};
use crate::table::{self, Newest, Table};
use crate::words;

#[derive(clap::Subcommand)]
pub enum Command {
    /// List the payments that changed last
    List {
        /// Only payments in this state: succeeded, partially_refunded, refunded, canceled, ..
        #[arg(long, value_parser = words::payment_state(), hide_possible_values = true)]
        state: Option<String>,
        /// Only payments of this agreement (metadata.pact_id)
        #[arg(long)]
        pact: Option<String>,
        #[command(flatten)]
        newest: Newest,
    },
    /// Show a payment with its ledger entries, retries and notifications
    Show {
        /// The payment provider's id, `pi_..`
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List subscriptions and until when they are paid
    Subscriptions {
        #[command(flatten)]
        newest: Newest,
    },
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    let db = database(settings).await?;
    match command {
        Command::List {
            state,
            pact,
            newest: Newest { limit, json },
        } => {
            let filter = Filter {
                state: state.unwrap_or_default(),
                pact_id: pact.unwrap_or_default(),
            };
            let payments = payments::list(&db, &filter, limit).await?;
            db.close().await;
            if json {
                return table::print_json(&payments.iter().map(view).collect::<Vec<_>>());
            }
            table::print(&list(&payments))
        }
        Command::Show { id, json } => {
            let payment = payments::find(&db, &id).await?;
            let lines = ledger::of_payment(&db, &id).await?;
            let retries = payment_retries::list(&db, &id).await?;
            let reported = notifications::list(&db, &id, 100).await?;
            db.close().await;
            let Some(payment) = payment else {
                bail!("there is no payment {id} here");
            };
            if json {
                let mut view = view(&payment);
                view["ledger"] = json!(lines);
                view["retries"] = json!(retries);
                view["notifications"] = json!(reported);
                return table::print_json(&view);
            }
            let mut parts = vec![describe(&payment), books::entries(&lines)];
            if !retries.is_empty() {
                let mut table = Table::new(["RETRY", "DUE", "STATE", "CODE", "JOB"]);
                for retry in &retries {
                    table.row([
                        retry.number.to_string(),
                        zone::time(retry.due_at),
                        retry.state.clone(),
                        or_none(retry.code.as_deref()),
                        retry.job_id.to_string(),
                    ]);
                }
                parts.push(table.render());
            }
            if !reported.is_empty() {
                parts.push(super::notifications::list(&reported));
            }
            table::print(&parts.join("\n"))
        }
        Command::Subscriptions {
            newest: Newest { limit, json },
        } => {
            let subscriptions = subscriptions::list(&db, limit).await?;
            db.close().await;
            if json {
                return table::print_json(&subscriptions);
            }
            let mut table = Table::new(["SUBSCRIPTION", "PAID UNTIL", "CUSTOMER", "AGREEMENT"]);
            for it in &subscriptions {
                table.row([
                    it.id.clone(),
                    it.period_end_at.map_or("-".to_owned(), zone::time),
                    or_none(it.customer_id.as_deref()),
                    or_none(it.pact_id.as_deref()),
                ]);
            }
            table::print(&table.render())
        }
    }
}

fn or_none(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}

/// The payment as JSON, with its amounts as decimals.
fn view(payment: &Summary) -> Value {
    let mut view = json!(payment);
    let amount = |minor| decimal(minor, &payment.currency);
    view["amount"] = amount(payment.amount_minor).into();
    view["received"] = amount(payment.received_minor).into();
    view["refunded"] = amount(payment.refunded_minor).into();
    view
}

fn list(payments: &[Summary]) -> String {
    let mut table = Table::new([
        "PAYMENT",
        "STATE",
        "    RECEIVED",
        "    REFUNDED",
        "CURRENCY",
        "AGREEMENT",
        "UPDATED",
    ]);
    for payment in payments {
        table.row([
            payment.id.clone(),
            payment.state.clone(),
            format!("{:>12}", decimal(payment.received_minor, &payment.currency)),
            format!("{:>12}", decimal(payment.refunded_minor, &payment.currency)),
            payment.currency.clone(),
            or_none(payment.pact_id.as_deref()),
            zone::time(payment.updated_at),
        ]);
    }
    table.render()
}

fn describe(payment: &Summary) -> String {
    let money = |minor| {
        let amount = decimal(minor, &payment.currency);
        format!("{amount} {}", payment.currency)
    };
    let mut facts = Table::new(["payment", &payment.id]);
    facts.row(["state".into(), payment.state.clone()]);
    facts.row(["amount".into(), money(payment.amount_minor)]);
    facts.row(["received".into(), money(payment.received_minor)]);
    facts.row(["refunded".into(), money(payment.refunded_minor)]);
    facts.row(["agreement".into(), or_none(payment.pact_id.as_deref())]);
    facts.row(["customer".into(), or_none(payment.customer_id.as_deref())]);
    facts.row(["updated".into(), zone::time(payment.updated_at)]);
    facts.render()
}
