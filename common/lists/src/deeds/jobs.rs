//! What is done to one job.

use domain::api_key::Role;
use domain::job::JobId;
use domain::time::Timestamp;
use operators::advice;
use operators::jobs::notify_of;
use serde_json::json;
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
