//! What is done to operations.

use domain::api_key::Role;
use serde_json::json;
use store::bulk_operations::{self, Change};
use uuid::Uuid;

use super::{About, Deed, Desk, Done, Refused};
use crate::words;

const STOPPED: &str = "The operation was stopped. What it has done stays done.";
const RESUMED: &str =
    "The operation goes on with what is left, as long as a process serves the console.";
const UNDONE: &str = "The operation was undone before it changed anything.";

async fn change(
    desk: &Desk<'_>,
    id: Uuid,
    change: Change,
    says: &'static str,
) -> Result<Done, Refused> {
    let db = desk.site.db;
    let page = format!("/operations/{id}");
    if bulk_operations::change(db, desk.by, id, change).await? {
        return Ok(Done::new(says, page, json!({"id": id})));
    }
    let Some(found) = bulk_operations::find(db, id).await? else {
        let why = format!("there is no operation {id} here; `waybill operations list` shows them");
        return Err(Refused::Unknown("operation", why));
    };
    let wanted = match change {
        Change::Stop => "only one that has begun is stopped",
        Change::Resume => "only one that was stopped goes on",
        Change::Undo => "only one that has done nothing is taken back; to end it, stop it",
    };
    let why = format!("operation {id} is {}: {wanted}", found.state);
    Err(Refused::Changed(page, why))
}

/// Stop an operation. What it has done stays done
#[derive(Clone, Debug, clap::Args)]
pub struct Stop {
    /// The operation's id, from `waybill operations list`
    #[arg(value_parser = words::id)]
    pub id: Uuid,
}

impl Deed for Stop {
    const ABOUT: About = About::new("operations stop", Role::Operator, "Stop")
        .of("id")
        .undone_by("operations resume");
    const SAYS: &'static [&'static str] = &[STOPPED];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        change(desk, self.id, Change::Stop, STOPPED).await
    }
}

/// Let a stopped operation go on with what is left
#[derive(Clone, Debug, clap::Args)]
pub struct Resume {
    /// The operation's id, from `waybill operations list`
    #[arg(value_parser = words::id)]
    pub id: Uuid,
}

impl Deed for Resume {
    const ABOUT: About = About::new("operations resume", Role::Operator, "Resume")
        .of("id")
        .undone_by("operations stop");
    const SAYS: &'static [&'static str] = &[RESUMED];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        change(desk, self.id, Change::Resume, RESUMED).await
    }
}

/// Take an operation back, as long as it has done nothing
#[derive(Clone, Debug, clap::Args)]
pub struct TakeBack {
    /// The operation's id, from `waybill operations list`
    #[arg(value_parser = words::id)]
    pub id: Uuid,
}

impl Deed for TakeBack {
    const ABOUT: About = About::new("operations undo", Role::Operator, "Undo").of("id");
    const SAYS: &'static [&'static str] = &[UNDONE];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        change(desk, self.id, Change::Undo, UNDONE).await
    }
}
