//! `waybill privacy reapply` erases again, on a database that was restored from an older backup, what the
//! journal of erasures says and the database does not know.

use std::sync::Arc;

use anyhow::{Result, bail};
use bus::Bus;
use config::{Config, Mode, Settings};
use domain::privacy::journal::Wrong;
use platform::clock::Clock;
use process::journal::{self, JournalState};
use process::measures::Measures;
use process::registry;
use process::{Ended, Parts};
use providers::exports::Exports;
use serde_json::{Value, json};
use store::privacy_keys;
use store::sql::Db;
use workers::reapply::{self, Journal, Reapplied, Step, Summary};

use crate::commands::operator::Operator;
use crate::table::{self, Rows as _};

/// How many connections to PostgreSQL the command has.
pub const CONNECTIONS: u32 = 4;

/// The exit code for entries that are to be done again, and for a journal that is not as it was written.
const TO_REAPPLY: u8 = 3;
const WRONG: u8 = 4;

#[derive(clap::Args)]
pub struct Arguments {
    /// Read the journal, say what is to be erased again and what is wrong, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The journal, or a part of it, is gone for good: write it again as far as this database knows it
    ///
    /// Make sure first that PRIVACY_EXPORT_URL is right and the store is mounted. What only the lost
    /// journal knew cannot be erased again.
    #[arg(long, conflicts_with = "dry_run")]
    journal_gone: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    operator: Operator,
}

pub async fn run(settings: &Settings, db: &Db, arguments: &Arguments) -> Result<()> {
    let parts = parts(settings, db).await?;
    let exports = Exports::new(&parts.config.privacy.exports);
    let mut journal = reapply::read(db, &parts.keys, &exports).await?;
    if arguments.journal_gone && reapply::write_lost(db, &exports, &journal).await? > 0 {
        journal = reapply::read(db, &parts.keys, &exports).await?;
    }
    if arguments.dry_run {
        show(&journal, arguments.json)?;
        return ended(&journal, journal.unknown.is_empty());
    }
    let actor = arguments.operator.actor();
    let by = store::audit::By {
        keys: &parts.keys,
        actor: &actor,
        now: parts.clock.now(),
    };
    let mut failed = Vec::new();
    let report = |step: Step<'_>| {
        if let Err(error) = step.result {
            failed.push(json!({"request": step.erased.job, "error": format!("{error:#}")}));
        }
        if !arguments.json {
            // The command goes on when nobody reads any more what it says.
            let _ = table::print(&line(&step));
        }
    };
    let summary = reapply::apply(&parts, &exports, by, &journal, report).await?;
    let state = journal::look(db, &parts.keys, &exports).await?;
    if arguments.json {
        table::print_json(&result(&journal, &summary, &failed, state))?;
    } else {
        table::print(&format!("{}{}", wrong(&journal), said(&summary, state)))?;
    }
    if summary.failed > 0 {
        bail!(
            "{} of {} erasures failed; mend what stands above and run it again",
            summary.failed,
            summary.erasures
        );
    }
    ended(&journal, state.is_current())
}

/// What a worker has too. Nothing is notified: there are no workers of a database that is not served.
async fn parts(settings: &Settings, db: &Db) -> Result<Parts> {
    let config = Config::load(settings, Mode::Development)?;
    let clock = Clock::system();
    let keys = privacy_keys::load(db, config.privacy.key.as_ref(), &clock).await?;
    let keys = Arc::new(keys);
    let config = Arc::new(config);
    Ok(Parts {
        connections: registry::read(&config, db, &clock).await?,
        journal: journal::Journal::open(db, &keys, &config.privacy.exports).await,
        config,
        db: db.clone(),
        bus: Bus::local(),
        clock,
        keys,
        measures: Measures::default(),
    })
}

/// The end of a command that did what it could.
fn ended(journal: &Journal, is_current: bool) -> Result<()> {
    let ended = |code, text: &str| {
        Err(Ended {
            code,
            text: text.to_owned(),
        }
        .into())
    };
    if let Some((number, wrong)) = journal.wrong.first() {
        let is_lost = *number <= journal.known && *wrong == Wrong::Missing;
        let mend = if is_lost {
            JournalState::Lacks(*number).mend()
        } else {
            JournalState::Broken(*number, *wrong).mend()
        };
        return ended(
            WRONG,
            &format!("entry {number} of the journal {wrong}. {mend}"),
        );
    }
    if is_current {
        return Ok(());
    }
    ended(
        TO_REAPPLY,
        "there are entries that are to be erased again: waybill privacy reapply",
    )
}

fn show(journal: &Journal, is_json: bool) -> Result<()> {
    let erasures = journal.erasures();
    if is_json {
        let erasures: Vec<Value> = erasures
            .iter()
            .map(|it| {
                json!({
                    "request": it.job, "topic": it.kind, "shop": it.shop, "erased_at": it.erased_at,
                })
            })
            .collect();
        return table::print_json(&json!({
            "known": journal.known,
            "newest": journal.newest,
            "wrong": problems(journal),
            "erasures": erasures,
            "is_current": journal.is_current(),
        }));
    }
    let rows = erasures.table(&[
        ("REQUEST", &|it| it.job.to_string()),
        ("TOPIC", &|it| it.kind.clone()),
        ("SHOP", &|it| it.shop.clone()),
        ("ERASED", &|it| it.erased_at.to_string()),
    ]);
    let list = if erasures.is_empty() {
        "Nothing is to be erased again.\n".to_owned()
    } else {
        rows.render()
    };
    table::print(&format!(
        "{}{list}\nThe database knows the entries up to {}; the journal goes up to {}.\n",
        wrong(journal),
        journal.known,
        journal.newest
    ))
}

fn wrong(journal: &Journal) -> String {
    let lines = journal.wrong.iter();
    let lines = lines.map(|(number, wrong)| format!("entry {number} of the journal {wrong}\n"));
    lines.collect()
}

fn problems(journal: &Journal) -> Vec<Value> {
    let wrong = journal.wrong.iter();
    wrong
        .map(|(number, wrong)| json!({"number": number, "problem": wrong.to_string()}))
        .collect()
}

fn line(step: &Step<'_>) -> String {
    let result = match step.result {
        Ok(Reapplied::Erased(counts)) => format!("erased {counts}"),
        Ok(Reapplied::DoneBefore) => "was done before".to_owned(),
        Err(error) => format!("failed: {error:#}"),
    };
    let Step {
        nth, of, erased, ..
    } = step;
    let (request, topic, shop) = (erased.job, &erased.kind, &erased.shop);
    format!("{nth} of {of}  {topic}  {shop}  {request}  {result}\n")
}

fn said(summary: &Summary, state: JournalState) -> String {
    if state.is_current() && summary.erasures == 0 {
        return "The database knows every erasure of the journal; nothing was to be erased again.\n"
            .to_owned();
    }
    let mut text = format!(
        "{} of {} erasures were done again; the database knows the entries up to {}.\n",
        summary.erased, summary.erasures, summary.known
    );
    if state.is_current() {
        text.push_str("It is served again: processes that run notice it within seconds.\n");
    }
    text
}

fn result(journal: &Journal, summary: &Summary, failed: &[Value], state: JournalState) -> Value {
    json!({
        "known": summary.known,
        "newest": journal.newest,
        "wrong": problems(journal),
        "erasures": summary.erasures,
        "erased": summary.erased,
        "failed": failed,
        "is_current": state.is_current(),
    })
}
