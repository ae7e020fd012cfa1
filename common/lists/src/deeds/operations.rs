//! What is done to operations.

use domain::api_key::Role;
use serde_json::json;
use store::bulk_operations::{self, Change};
use uuid::Uuid;

use super::{Deed, Desk, Done, Refused, Sentence, Undo, says};
use crate::words;

async fn change(
    desk: &Desk<'_>,
    id: Uuid,
    change: Change,
    says: Sentence,
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

const STOPPED: Sentence = says(
    "operation-stopped",
    "The operation was stopped. What it has done stays done.",
);

impl Deed for Stop {
    const COMMAND: &'static str = "operations stop";
    const PATH: &'static str = "/operations/{id}/stop";
    const ROLE: Role = Role::Operator;
    const BUTTON: &'static str = "Stop";
    const UNDO: Undo = Undo::By("operations resume");
    const SAYS: &'static [Sentence] = &[STOPPED];

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

const RESUMED: Sentence = says(
    "operation-resumed",
    "The operation goes on with what is left, as long as a process serves the console.",
);

impl Deed for Resume {
    const COMMAND: &'static str = "operations resume";
    const PATH: &'static str = "/operations/{id}/resume";
    const ROLE: Role = Role::Operator;
    const BUTTON: &'static str = "Resume";
    const UNDO: Undo = Undo::By("operations stop");
    const SAYS: &'static [Sentence] = &[RESUMED];

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

const UNDONE: Sentence = says(
    "operation-undone",
    "The operation was undone before it changed anything.",
);

impl Deed for TakeBack {
    const COMMAND: &'static str = "operations undo";
    const PATH: &'static str = "/operations/{id}/undo";
    const ROLE: Role = Role::Operator;
    const BUTTON: &'static str = "Undo";
    const UNDO: Undo = Undo::Needless;
    const SAYS: &'static [Sentence] = &[UNDONE];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        change(desk, self.id, Change::Undo, UNDONE).await
    }
}
