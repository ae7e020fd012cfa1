//! What is done to jobs that an operator names: they are made due, requeued or discarded, or one field of a body is shown.
//! All jobs of a filter are requeued or discarded by `operators::operations`, or by a command with its progress.

use std::collections::{BTreeMap, BTreeSet};

use bus::MAX_JOBS_PER_MESSAGE;
use domain::api_key::Role;
use domain::job::{JobId, State};
use domain::time::Timestamp;
use operators::advice;
use operators::fields::{self, NotShown, Reason};
use operators::jobs::{admitted, as_ended, notify, notify_of};
use serde::Serialize;
use serde_json::json;
use store::jobs;
use store::jobs::operate::{Action, carry_out};
use store::jobs::run_now::{self, NotMadeDue};

use super::{About, Deed, Desk, Done, Refused};
use crate::{shown, words};

/// Make a job that waits due now, after you have fixed the cause
///
/// Its tries count on, and what a call checks before it asks a provider is checked as always. A job that has ended, that may
/// be running at this moment, or that was deferred on purpose stays as it is.
#[derive(Clone, Debug, clap::Args)]
pub struct RunNow {
    #[arg(value_parser = words::id)]
    pub id: JobId,
}

impl Deed for RunNow {
    const ABOUT: About = About::new("jobs run-now", Role::Operator, "Run now")
        .of("id")
        .of_seen()
        .notifies();
    const SAYS: &'static [&'static str] = &["The job was made due, and workers are notified."];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let (db, id) = (desk.site.db, self.id);
        let bus = desk.bus.filter(|bus| bus.is_up());
        let seen = desk.seen.map(Timestamp);
        let made = run_now::run_now(db, desk.by, id, seen, bus.is_some()).await;
        let made = made.map_err(|why| {
            let text = advice::with(&why);
            match why {
                NotMadeDue::Database(error) => error.into(),
                NotMadeDue::Unknown(_) => Refused::Unknown("job", text),
                NotMadeDue::Changed(_) => Refused::Changed(shown::job(id), text),
                _ => Refused::Impossible(format!("job {id} is not run now: {text}")),
            }
        })?;
        if let Some(bus) = bus {
            notify_of(db, bus, made.queue, &made.kind, &[made.id]).await?;
        }
        let text = format!(
            "Job {id} is due now; {}.\nSee what becomes of it: waybill jobs show {id}\n",
            desk.heard
        );
        Ok(Done::new(Self::SAYS[0], shown::job(id), json!(made)).text(text))
    }
}

// Jobs that are named by their ids. (A comment for the documentation would become the help of the commands.)
#[derive(Clone, Debug, clap::Args)]
pub struct Named {
    /// The ids of the jobs. Without any, all jobs that the filters select
    #[arg(value_parser = words::id)]
    pub ids: Vec<JobId>,
    // Nothing is done to one that has ended anew since a page showed it. A command looks itself.
    #[arg(skip)]
    pub seen: BTreeMap<JobId, Timestamp>,
}

/// A deed that is done to jobs that have ended.
pub trait ToEnded: Deed {
    const ACTION: Action;
    /// How the jobs must have ended.
    const STATE: State;

    fn of(named: Named) -> Self;

    fn named(&self) -> &Named;
}

/// Run dead jobs again, after you have fixed the cause
///
/// Each job has as many tries as a new one. Running a job twice is harmless, because effects that an earlier run had are not
/// repeated. Workers may run meanwhile.
#[derive(Clone, Debug, clap::Args)]
pub struct Requeue {
    #[command(flatten)]
    named: Named,
}

/// Give dead jobs up for good, if they can never succeed
///
/// The jobs are then done, and their bodies are removed. The row of the job with its last error stays, and the audit says who
/// discarded it. The delivery's id is still remembered, so if the provider sends it again, it is a duplicate. The job of an
/// open privacy request cannot be discarded.
#[derive(Clone, Debug, clap::Args)]
pub struct Discard {
    #[command(flatten)]
    named: Named,
}

/// Process finished deliveries again, as long as their bodies are kept
///
/// Use this if orders or payments are lost or wrong in the database: after a backup was restored, or after a handler was
/// fixed. The deliveries are merged with the data that is known, so nothing is done twice. Calls that were made, such as
/// refunds and mails, are not made again, and privacy requests that are done are not carried out again. The data of people who
/// were erased meanwhile does not come back.
#[derive(Clone, Debug, clap::Args)]
pub struct ProcessAgain {
    #[command(flatten)]
    named: Named,
}

const REQUEUED: &str = "Requeued, with the full number of tries. Workers were notified.";
const DISCARDED: &str =
    "Discarded: what was discarded is never run again, and has no body any more.";
const SOME: &str = "Some were left as they are, because they have changed since you saw them or may not be changed. The others were \
                    done.";

impl ToEnded for Requeue {
    const ACTION: Action = Action::Requeue;
    const STATE: State = State::Dead;

    fn of(named: Named) -> Self {
        Requeue { named }
    }

    fn named(&self) -> &Named {
        &self.named
    }
}

impl Deed for Requeue {
    const ABOUT: About = About::new("dead requeue", Role::Operator, "Requeue").notifies();
    const SAYS: &'static [&'static str] = &[REQUEUED, SOME];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        to_ended(self, desk).await
    }
}

impl ToEnded for Discard {
    const ACTION: Action = Action::Discard;
    const STATE: State = State::Dead;

    fn of(named: Named) -> Self {
        Discard { named }
    }

    fn named(&self) -> &Named {
        &self.named
    }
}

impl Deed for Discard {
    const ABOUT: About = About::new("dead discard", Role::Operator, "Discard ..")
        .notifies()
        .asks("Discard these jobs for good?", "Discard for good")
        .for_good();
    const SAYS: &'static [&'static str] = &[DISCARDED, SOME];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        to_ended(self, desk).await
    }
}

impl ToEnded for ProcessAgain {
    const ACTION: Action = Action::Requeue;
    const STATE: State = State::Done;

    fn of(named: Named) -> Self {
        ProcessAgain { named }
    }

    fn named(&self) -> &Named {
        &self.named
    }
}

impl Deed for ProcessAgain {
    const ABOUT: About = About::new("jobs requeue", Role::Operator, "Requeue").notifies();
    const SAYS: &'static [&'static str] = &[REQUEUED, SOME];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        to_ended(self, desk).await
    }
}

/// A job that stays as it is.
#[derive(Serialize)]
struct Left {
    id: JobId,
    why: String,
}

async fn to_ended<D: ToEnded>(deed: D, desk: &Desk<'_>) -> Result<Done, Refused> {
    let (db, action) = (desk.site.db, D::ACTION);
    let Named { ids, seen } = deed.named();
    let ids: BTreeSet<JobId> = ids.iter().copied().collect();
    let page = match ids.iter().collect::<Vec<_>>().as_slice() {
        [] => return Err(Refused::Wrong("choose at least one job".to_owned())),
        [one] => shown::job(**one),
        _ => D::ABOUT.list(),
    };
    let (mut ended, mut left, mut changed) = (Vec::new(), Vec::new(), 0);
    let mut is_known = false;
    for id in &ids {
        let Some(job) = jobs::show(db, *id).await? else {
            left.push(Left {
                id: *id,
                why: unknown(*id),
            });
            continue;
        };
        is_known = true;
        if seen
            .get(id)
            .is_some_and(|seen| job.finished_at != Some(*seen) || job.discarded_at.is_some())
        {
            changed += 1;
            continue;
        }
        match as_ended(&job, D::STATE) {
            Ok(job) => ended.push(job),
            Err(why) => left.push(Left {
                id: *id,
                why: format!("job {id} {why}"),
            }),
        }
    }
    let (admitted, refused) = admitted(db, action, ended).await?;
    left.extend(refused.into_iter().map(|(job, refusal)| Left {
        id: job.id,
        why: format!(
            "job {} ({}) cannot be {}: {}",
            job.id,
            job.kind,
            action.past(),
            refusal.why()
        ),
    }));
    let bus = desk.bus.filter(|bus| bus.is_up());
    let mut done = Vec::new();
    for batch in admitted.chunks(MAX_JOBS_PER_MESSAGE) {
        let taken = carry_out(db, desk.by, action, desk.id, batch, bus.is_some()).await?;
        if let Some(bus) = bus.filter(|_| action == Action::Requeue) {
            notify(db, bus, &taken).await?;
        }
        done.extend(taken.iter().map(|job| job.id));
    }
    let passed_over = changed + admitted.len() - done.len();
    let why: Vec<&str> = left.iter().map(|it| it.why.as_str()).collect();
    let why = (!why.is_empty()).then(|| why.join("\n"));
    if done.is_empty() {
        return Err(match why {
            Some(why) if !is_known => Refused::Unknown("job", why),
            Some(why) => Refused::Impossible(why),
            None => Refused::Changed(
                page,
                text(action, &[], passed_over, "").trim_end().to_owned(),
            ),
        });
    }
    let says = if done.len() == ids.len() {
        D::SAYS[0]
    } else {
        SOME
    };
    let json = json!({
        "action": action.into_str(),
        "operation": desk.id,
        "done": done.len(),
        "ids": done,
        "passed_over": passed_over,
        "refused": left,
    });
    Ok(Done {
        failed: why,
        ..Done::new(says, page, json).text(text(action, &done, passed_over, desk.heard))
    })
}

pub fn unknown(id: JobId) -> String {
    format!("there is no job {id} here; `waybill jobs list` and `waybill dead list` show some")
}

/// What a terminal says of the jobs that were requeued or discarded.
pub fn text(action: Action, done: &[JobId], passed_over: usize, heard: &str) -> String {
    let text = match (action, done) {
        (_, []) => "Nothing was changed.\n".to_owned(),
        (Action::Requeue, [id]) => {
            format!("Job {id} is ready; {heard}.\nSee what becomes of it: waybill jobs show {id}\n")
        }
        (Action::Requeue, ids) => format!(
            "{} jobs are ready; {heard}.\nSee what becomes of them: waybill dead summary\n",
            ids.len()
        ),
        (Action::Discard, [id]) => {
            format!("Job {id} is discarded: it is never run again, and its body is gone.\n")
        }
        (Action::Discard, ids) => format!(
            "{} jobs are discarded: they are never run again, and their bodies are gone.\n",
            ids.len()
        ),
    };
    match passed_over {
        0 => text,
        1 => format!(
            "{text}One was passed over: someone else was first, or it has ended anew meanwhile.\n"
        ),
        others => format!(
            "{text}{others} were passed over: someone else was first, or they have ended anew meanwhile.\n"
        ),
    }
}

/// Show one field of a stored body as it came, for a reason
///
/// The audit keeps who saw which field, when and why, and not its value. `waybill dead show` and the console show which fields
/// a body has.
#[derive(Clone, Debug, clap::Args)]
pub struct Field {
    #[arg(value_parser = words::id)]
    pub id: JobId,
    /// The field's path in the body, such as /shipping_address/city or /line_items/0/name
    #[arg(value_name = "PATH")]
    pub path: String,
    /// Why it is needed: the customer has asked, a payment is refused or disputed, a parcel cannot be delivered, or a fault is
    /// traced
    #[arg(long, value_name = "REASON", value_parser = words::reason())]
    pub reason: Reason,
}

impl Deed for Field {
    const ABOUT: About = About::new("jobs field", Role::Privacy, "Show this field").of("id");
    const SAYS: &'static [&'static str] = &[];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let Field { id, path, reason } = self;
        let value = fields::show(desk.site.db, desk.by, id, &path, reason).await;
        let value = value.map_err(|why| match why {
            NotShown::Unknown => Refused::Unknown("job", why.to_string()),
            NotShown::Database(error) => error.into(),
            why => Refused::Impossible(why.to_string()),
        })?;
        let text = format!("{value:#}\n");
        Ok(Done::new("", shown::job(id), value).text(text))
    }
}
