//! `waybill payments` shows the state of payments, and until when subscriptions are paid.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use config::Settings;
use domain::money::decimal;
use platform::zone;
use serde_json::{Value, json};
use store::payments::{self, Filter, Summary};
use store::{ledger, notifications, payment_retries, subscriptions};

use crate::commands::{ledger as books, with_database};
use crate::table::{self, Newest, Rows as _, Table, or_none};
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
    Subscriptions(Newest),
}

pub async fn run(settings: &Settings, command: Command) -> Result<()> {
    with_database(settings, async |db| match command {
        Command::List {
            state,
            pact,
            newest: Newest { limit, json },
        } => {
            let filter = Filter {
                state: state.unwrap_or_default(),
                pact_id: pact.unwrap_or_default(),
            };
            let payments = payments::list(db, &filter, limit).await?;
            table::show(json, &payments.iter().map(view).collect::<Vec<_>>(), || {
                list(&payments)
            })
        }
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
                let mut view = view(&payment);
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
            parts.extend(super::notifications::list(&reported).filled());
            table::print(&parts.join("\n"))
        }
        Command::Subscriptions(Newest { limit, json }) => {
            let subscriptions = subscriptions::list(db, limit).await?;
            let table = subscriptions.table(&[
                ("SUBSCRIPTION", &|it| it.id.clone()),
                ("PAID UNTIL", &|it| {
                    or_none(it.period_end_at.map(zone::time))
                }),
                ("CUSTOMER", &|it| or_none(it.customer_id.as_deref())),
                ("AGREEMENT", &|it| or_none(it.pact_id.as_deref())),
            ]);
            table::show(json, &subscriptions, || table.render())
        }
    })
    .await
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
    payments
        .table(&[
            ("PAYMENT", &|payment| payment.id.clone()),
            ("STATE", &|payment| payment.state.clone()),
            ("    RECEIVED", &|payment| {
                format!("{:>12}", decimal(payment.received_minor, &payment.currency))
            }),
            ("    REFUNDED", &|payment| {
                format!("{:>12}", decimal(payment.refunded_minor, &payment.currency))
            }),
            ("CURRENCY", &|payment| payment.currency.clone()),
            ("AGREEMENT", &|payment| or_none(payment.pact_id.as_deref())),
            ("UPDATED", &|payment| zone::time(payment.updated_at)),
        ])
        .render()
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
