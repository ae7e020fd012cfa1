//! Every crash point, and the test that ends a process at it.
//!
//! The transactions are found in the sources, so none can be forgotten: one that is neither in
//! [`TRANSACTIONS`] nor in [`LEFT_OUT`] fails a test.

use std::collections::BTreeMap;
use std::path::Path;

use platform::crash_point::{Moment, POINTS, Point};

use crate::documents::markdown::root;
use crate::support::backend::is_distributed;

use Area::{
    Checkouts, Commands, Deferrals, Deliveries, Failures, Logins, Moves, People, Reconciliations,
    Shops, Starts,
};
use On::{Both, Distributed, Embedded};

/// What a test is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    Deliveries,
    Failures,
    Deferrals,
    People,
    Shops,
    Logins,
    Checkouts,
    Reconciliations,
    Starts,
    Commands,
    Moves,
}

/// On what a point is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    Both,
    /// On SQLite.
    Embedded,
    /// On PostgreSQL with RabbitMQ.
    Distributed,
}

impl On {
    fn is_here(self) -> bool {
        match self {
            Both => true,
            Embedded => !is_distributed(),
            Distributed => is_distributed(),
        }
    }
}

/// The transactions at whose moments a process is ended, by the function in which they begin.
pub const TRANSACTIONS: &[(&str, Area, On)] = &[
    // On PostgreSQL nearly all deliveries are stored by one statement, and those of people are not.
    ("ingress::intake::batches::commit", Deliveries, Embedded),
    ("store::webhook_ids::store_new", Deliveries, Distributed),
    ("store::broker::advance", Deliveries, Distributed),
    ("store::leases::take", Deliveries, Both),
    ("store::refunds::begin_try", Deliveries, Both),
    ("workers::call::answered", Deliveries, Both),
    ("workers::call::claim", Deliveries, Both),
    ("workers::run::commit_batch", Deliveries, Both),
    ("workers::shapes::write", Deliveries, Both),
    ("workers::webhooks::commit_wave", Deliveries, Both),
    ("store::jobs::clear_notified", Failures, Both),
    ("store::jobs::wait_after", Failures, Both),
    ("store::pauses::wake", Failures, Both),
    ("workers::call::defer", Deferrals, Both),
    ("workers::call::defer_claimed", Failures, Both),
    ("workers::handlers::webhooks::call", Failures, Both),
    ("workers::pauses::without_paused", Failures, Both),
    ("workers::run::begin_attempt", Failures, Both),
    ("workers::run::commit_with_savepoints", Failures, Both),
    ("workers::run::record", Failures, Both),
    ("workers::run::run_one_isolated", Failures, Both),
    ("workers::sweep::notify_lost", Failures, Both),
    ("workers::sweep::notify_waiting", Failures, Both),
    ("ingress::intake::batches::commit", People, Distributed),
    ("store::export_stores::note", People, Both),
    (
        "workers::handlers::privacy::erase::bodies::erase_bodies",
        People,
        Both,
    ),
    (
        "workers::handlers::privacy::erase::bodies::jobs (2)",
        People,
        Both,
    ),
    (
        "workers::handlers::privacy::erase::end_exports",
        People,
        Both,
    ),
    ("workers::handlers::privacy::erase::rows", People, Both),
    (
        "workers::handlers::privacy::erase::written::write",
        People,
        Both,
    ),
    ("workers::handlers::privacy::export::look", People, Both),
    (
        "workers::handlers::privacy::export::is_erased",
        People,
        Both,
    ),
    ("workers::handlers::privacy::export::remove", People, Both),
    ("workers::handlers::privacy::export::write", People, Both),
    ("workers::handlers::privacy::journal::keep", People, Both),
    (
        "workers::handlers::privacy::journal::write_until",
        People,
        Both,
    ),
    ("workers::handlers::privacy::shop::customers", Shops, Both),
    ("workers::handlers::privacy::shop::events", Shops, Both),
    ("workers::handlers::privacy::shop::exports", Shops, Both),
    (
        "workers::handlers::privacy::shop::forget_people",
        Shops,
        Both,
    ),
    (
        "workers::handlers::privacy::shop::forget_people (2)",
        Shops,
        Both,
    ),
    ("workers::handlers::privacy::shop::jobs", Shops, Both),
    ("workers::handlers::privacy::shop::orders", Shops, Both),
    ("workers::handlers::privacy::shop::tombstones", Shops, Both),
    (
        "workers::handlers::privacy::shop::write_tombstones",
        Shops,
        Both,
    ),
    ("ingress::login::stored", Logins, Both),
    ("store::device_code_requests::admit", Logins, Both),
    ("store::device_code_requests::take_back", Logins, Both),
    ("store::device_codes::authorize", Logins, Both),
    ("store::device_codes::end_turn", Logins, Both),
    ("store::device_codes::hand_out", Logins, Both),
    ("store::device_codes::take_turn", Logins, Both),
    ("store::users::save_alone", Logins, Both),
    ("store::reconciliations::begin", Reconciliations, Both),
    ("workers::reconcile::hasten", Reconciliations, Both),
    ("workers::reconcile::save", Reconciliations, Both),
    ("workers::reconcile::store", Reconciliations, Both),
    ("ingress::checkout::ask", Checkouts, Both),
    ("ingress::checkout::begin", Checkouts, Both),
    ("ingress::checkout::refuse", Checkouts, Both),
    ("process::delete_development_keys", Starts, Both),
    ("store::privacy_keys::load", Starts, Both),
    ("store::identity_provider::claim", Starts, Both),
    ("workers::deadlines::send_notice", Starts, Both),
    ("store::checkouts::forget", Starts, Both),
    ("store::console_sessions::forget", Starts, Both),
    ("store::device_code_requests::forget", Starts, Both),
    ("store::device_codes::forget", Starts, Both),
    ("store::device_codes::forget_tokens", Starts, Both),
    ("store::events::forget", Starts, Both),
    ("store::deliveries::cut_bodies", Starts, Both),
    ("store::measures::roll_up", Starts, Both),
    ("store::notifications::forget", Starts, Both),
    ("store::reconciliations::forget", Starts, Both),
    ("store::refused_deliveries::forget", Starts, Both),
    ("store::webhook_ids::forget_expired", Starts, Both),
    ("workers::attention::change", Starts, Both),
    ("workers::attention::notify", Starts, Both),
    ("operators::api_keys::create", Commands, Both),
    ("operators::api_keys::revoke", Commands, Both),
    ("operators::connections::add", Commands, Both),
    ("operators::connections::change", Commands, Both),
    ("operators::connections::remove", Commands, Both),
    ("operators::connections::rotate", Commands, Both),
    ("operators::endpoints::add", Commands, Both),
    ("operators::endpoints::change", Commands, Both),
    ("operators::endpoints::rotate", Commands, Both),
    ("operators::licenses::change", Commands, Both),
    ("operators::licenses::grant", Commands, Both),
    ("operators::pauses::begin", Commands, Both),
    ("operators::pauses::end", Commands, Both),
    ("operators::privacy_requests::enter", Commands, Both),
    ("waybill::commands::orgs::add", Commands, Both),
    ("waybill::commands::orgs::create", Commands, Both),
    ("waybill::commands::orgs::remove", Commands, Both),
    ("waybill::commands::orgs::set_owner", Commands, Both),
    ("store::migrations::copy::copy (2)", Moves, Both),
    ("store::migrations::copy::copy", Moves, Both),
    ("store::migrations::copy::abandon", Moves, Both),
];

/// Transactions that only read, or are one statement: they have no moment after their first write.
pub const WITHOUT_WRITE: &[&str] = &[
    "store::webhook_ids::store_new",
    "workers::handlers::privacy::export::look",
    "workers::handlers::privacy::export::is_erased",
];

const ONE_CHANGE: &str =
    "An operator's change like those that are tested: one transaction with its entry in the audit.";
const SAMPLES: &str =
    "A transaction for a hundred samples; run again it goes on with those that are left.";
const ONE_ROW: &str = "One row of no consequence: a time or a count that is written again later.";
const HELD: &str = "A mark on the request, without which the next run makes it.";
const READS: &str = "It only reads.";
const OLD_ROWS: &str = "Removes old rows in small steps, each of which leaves a right database.";
const REAPPLIED: &str = "A part of `waybill privacy reapply`, which an operator runs until it says that nothing is left.";

/// Transactions at which no process is ended, and why not.
pub const LEFT_OUT: &[(&str, &str)] = &[
    ("console::access::begin", ONE_CHANGE),
    ("console::access::sign_out", ONE_CHANGE),
    ("flows::orders::links::new_link", ONE_CHANGE),
    ("flows::orders::give_back::give_back", ONE_CHANGE),
    ("operators::attention::acknowledge", ONE_CHANGE),
    (
        "operators::connections::reseal",
        "A transaction for each connection, as of a rotation; run again it goes on with those that are left.",
    ),
    ("operators::fields::show", ONE_CHANGE),
    (
        "store::jobs::take_back_attempt",
        "It needs a database that was away within a run. Without it a run is counted that the job did not end,          of which more than five make it dead.",
    ),
    ("operators::samples::remove", SAMPLES),
    ("operators::samples::remove (2)", SAMPLES),
    ("operators::samples::remove (3)", SAMPLES),
    ("operators::subscriptions::repaired", ONE_CHANGE),
    (
        "operators::operations::batch",
        "It needs an operation over many jobs; each batch is one transaction that also notes how far it came.",
    ),
    (
        "operators::operations::finish",
        "The end of an operation, found again by the next process that looks.",
    ),
    (
        "operators::endpoints::test",
        "A test of an endpoint, which whoever asked for it asks for again.",
    ),
    ("operators::reconciliation::ask", ONE_CHANGE),
    ("operators::setup::import", ONE_CHANGE),
    ("ingress::refused_log::write", ONE_ROW),
    ("store::api_keys::note_use", ONE_ROW),
    ("store::broker::begin", ONE_ROW),
    ("store::broker::end", ONE_ROW),
    ("store::broker::failed", ONE_ROW),
    ("store::broker::recovered", ONE_ROW),
    ("store::bulk_operations::change", ONE_CHANGE),
    ("store::bulk_operations::confirm", ONE_CHANGE),
    ("store::bulk_operations::note_error", ONE_ROW),
    (
        "store::refunds::drop_request",
        "A request that is not owed any more: the next run of its job drops it.",
    ),
    ("store::confirmed_tokens::delete", ONE_ROW),
    ("store::confirmed_tokens::forget", OLD_ROWS),
    ("store::confirmed_tokens::note", ONE_ROW),
    ("store::console_sessions::extend", ONE_ROW),
    (
        "store::device_codes::delete",
        "The end of a login that the provider does not know: a repetition finds nothing.",
    ),
    ("store::backups::made", ONE_ROW),
    (
        "store::device_codes::expire",
        "The end of a login that is over: a repetition says the same.",
    ),
    (
        "store::event_head::raise",
        "Only in a database that was made of another one; the next start does it again.",
    ),
    (
        "store::erasure::file::rewrite",
        "The entry of a file that was rewritten; without it the file is rewritten once more.",
    ),
    ("store::job_attempts::forget", OLD_ROWS),
    (
        "store::jobs::clear_all_notified",
        "At the end of a process that was stopped: a process that died has not done it either.",
    ),
    ("store::jobs::operate::carry_out", ONE_CHANGE),
    ("store::jobs::run_now::run_now", ONE_CHANGE),
    (
        "store::leases::release",
        "A lease that is not released runs out by itself.",
    ),
    ("store::ledger::recheck", READS),
    ("store::measures::add", ONE_ROW),
    (
        "store::migrations::set_parameters",
        "A parameter of tables, set again by the next start.",
    ),
    (
        "store::payment_retries::take_turn",
        "A turn, as of `store::refunds::begin_try`.",
    ),
    (
        "store::payment_retries::try_again",
        "Another key for another try, as of `store::refunds::try_again`.",
    ),
    (
        "store::privacy_keys::checked",
        "Takes the key out that a setting has; the next start does it again.",
    ),
    ("store::privacy_requests::actions::cancel", ONE_CHANGE),
    ("store::privacy_requests::actions::confirm", ONE_CHANGE),
    ("store::privacy_requests::actions::export_gone", ONE_CHANGE),
    ("store::privacy_requests::actions::link_export", ONE_CHANGE),
    ("store::privacy_requests::actions::note_fetched", ONE_CHANGE),
    ("store::privacy_requests::actions::retry", ONE_CHANGE),
    ("store::privacy_requests::decisions::decide", ONE_CHANGE),
    (
        "store::refunds::try_again",
        "Another key for a refund that the provider has refused; a call follows as usual.",
    ),
    ("store::signing_secrets::verified", ONE_ROW),
    ("store::users::forget_unseen", OLD_ROWS),
    (
        "store::webhook_ids::store_new (2)",
        "After an answer that was lost: it writes the time until which ids are remembered once more.",
    ),
    ("waybill::commands::identity::change", ONE_CHANGE),
    ("waybill::commands::licenses::show", READS),
    ("waybill::commands::notifications::letter", ONE_CHANGE),
    ("waybill::commands::orgs::remove_org", ONE_CHANGE),
    ("waybill::commands::orgs::rename", ONE_CHANGE),
    ("waybill::commands::privacy::take_key_out", ONE_CHANGE),
    ("waybill::commands::users::run", ONE_CHANGE),
    (
        "waybill::commands::start::development_key",
        "A key for a try, which ends after a day.",
    ),
    (
        "workers::handlers::privacy::erase::bodies::jobs",
        "The pause of a long scan: the same transaction as at its end.",
    ),
    (
        "workers::handlers::privacy::export::scan",
        "The pause of a long scan, of which only the place is noted.",
    ),
    ("workers::handlers::privacy::hold_erasure", HELD),
    ("workers::handlers::privacy::hold_erasure (2)", HELD),
    ("workers::handlers::privacy::reapply::again", REAPPLIED),
    ("workers::handlers::privacy::reapply::record", REAPPLIED),
    ("workers::handlers::privacy::reapply::take_over", REAPPLIED),
    (
        "workers::handlers::privacy::shop::unread",
        "The same transaction as in `forget_people`, once more for what could not be read.",
    ),
];

/// The area of each point outside of transactions.
const fn area(point: Point) -> (Area, On) {
    match point {
        Point::Answer
        | Point::IntakeNotify
        | Point::IntakeNotified
        | Point::FollowUpNotify
        | Point::FollowUpNotified
        | Point::Ack
        | Point::Acked
        | Point::Call
        | Point::Called
        | Point::WebhookSend
        | Point::WebhookSent => (Deliveries, Both),
        Point::Publish | Point::Published => (Deliveries, Distributed),
        Point::SweepNotify | Point::SweepNotified | Point::DeadLetter | Point::DeadLettered => {
            (Failures, Both)
        }
        Point::ExportWrite
        | Point::ExportWritten
        | Point::ExportRemove
        | Point::ExportRemoved
        | Point::JournalWrite
        | Point::JournalWritten => (People, Both),
        Point::CodeGiven | Point::TokenAsk | Point::TokenGiven => (Logins, Both),
        Point::CheckoutAsk | Point::CheckoutAsked => (Checkouts, Both),
        Point::ReconcileAsked | Point::ReconcileStored => (Reconciliations, Both),
        Point::AttentionNotify | Point::AttentionNotified | Point::Migrate | Point::Migrated => {
            (Starts, Both)
        }
    }
}

/// One point as a test asks for it.
#[derive(Clone, Debug)]
pub struct Target {
    /// The function in which the transaction begins. A point outside of transactions has its own name here.
    pub of: String,
    /// The same, with the moment.
    pub name: String,
    /// The value of `WAYBILL_CRASH_AT`.
    pub at: String,
}

/// The points of an area that are reached in this half, those of a transaction in their sequence.
pub fn targets(area: Area) -> Vec<Target> {
    let mut targets = Vec::new();
    for (point, name, _) in POINTS {
        let (of, on) = self::area(*point);
        if of == area && on.is_here() {
            targets.push(Target {
                of: (*name).to_owned(),
                name: (*name).to_owned(),
                at: (*name).to_owned(),
            });
        }
    }
    let places = transactions();
    let of_area = TRANSACTIONS
        .iter()
        .filter(|(_, of, on)| *of == area && on.is_here());
    for (name, ..) in of_area {
        let place = &places[*name];
        for moment in moments(name) {
            targets.push(Target {
                of: (*name).to_owned(),
                name: format!("{} of {name}", moment.name()),
                at: format!("{}@{place}", moment.name()),
            });
        }
    }
    targets
}

fn moments(name: &str) -> impl Iterator<Item = Moment> {
    let without = WITHOUT_WRITE.contains(&name);
    Moment::ALL
        .into_iter()
        .filter(move |moment| !without || *moment != Moment::Write)
}

/// The file and line of each transaction of the sources, by the function in which it begins; further ones of
/// the same function with a number.
pub fn transactions() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let common = std::fs::read_dir(root().join("common")).unwrap();
    let names = common.map(|crate_| crate_.unwrap().file_name());
    let common = names.map(|name| format!("common/{}", name.display()));
    let crates = ["console", "ingress", "workers", "waybill"].map(ToOwned::to_owned);
    for folder in common.chain(crates) {
        find_in(&format!("{folder}/src"), &mut found);
    }
    found
}

fn find_in(folder: &str, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().display());
        if entry.file_type().unwrap().is_dir() {
            find_in(&path, found);
        } else if Path::new(&path).extension().is_some_and(|it| it == "rs") {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            find_in_text(&path, &text, found);
        }
    }
}

fn find_in_text(path: &str, text: &str, found: &mut BTreeMap<String, String>) {
    let module = path.trim_start_matches("common/").trim_end_matches(".rs");
    let module: Vec<&str> = module
        .split('/')
        .filter(|part| !["src", "lib", "mod", "main"].contains(part))
        .collect();
    let module = module.join("::");
    let mut function = "";
    for (nth, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line == "mod tests {" {
            return;
        }
        if line.starts_with("//") {
            continue;
        }
        if let Some((before, name)) = line.split_once("fn ")
            && before
                .split_whitespace()
                .all(|word| ["async", "const"].contains(&word) || word.starts_with("pub"))
        {
            function = name.split(['(', '<']).next().unwrap_or_default();
        }
        let begins = line.contains(".begin()") && !line.contains("device.begin()");
        if begins || line.contains(".transact(") || line.contains(".insert_new(") {
            let name = format!("{module}::{function}");
            let further = (2..).map(|number| format!("{name} ({number})"));
            let mut names = std::iter::once(name.clone()).chain(further);
            let name = names.find(|name| !found.contains_key(name));
            found.insert(name.unwrap_or_default(), format!("{path}:{}", nth + 1));
        }
    }
}
