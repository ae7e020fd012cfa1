//! What is paused and goes on.

use std::time::Duration;

use domain::api_key::Role;
use domain::pause::{Scope, Target};
use operators::pauses as flow;
use platform::zone;
use serde_json::json;
use uuid::Uuid;

use super::{About, CHANGED, Deed, Desk, Done, Refused};
use crate::{age, words};

pub const BEGUN: &str =
    "It is paused, as soon as workers have heard of it, which takes at most a second.";
pub const ENDED: &str = "The pause has ended. What waited is due within some seconds.";

// What is paused. (A comment for the documentation would become the help of the command.)
#[derive(Clone, Debug, clap::Args)]
pub struct Paused {
    /// What is paused; a condition is one of which operators are notified
    #[arg(value_name = "queue|provider|shop|connection|condition", value_parser = words::pause_scope())]
    pub scope: Scope,
    /// A queue (orders, payments, privacy, endpoints), a provider (storefront, payment, mail), the
    /// domain of a shop, the name of a connection, or that of a condition (nothing_came, ..)
    #[arg(value_name = "NAME", value_parser = words::pause_name(), hide_possible_values = true)]
    pub name: String,
}

impl Paused {
    fn target(&self) -> Result<Target, Refused> {
        let target = Target::new(self.scope, &self.name);
        target.map_err(|error| Refused::Wrong(format!("name: {error}")))
    }
}

/// Pauses something. `page` is where the console shows it.
pub async fn begin(
    desk: &Desk<'_>,
    target: Target,
    length: Duration,
    page: String,
) -> Result<Done, Refused> {
    let (db, by) = (desk.site.db, desk.by);
    let until = by.now.plus(length);
    let text = format!("{target} is paused until {}.\n", zone::time(until));
    let is_new = match flow::begin(db, by, desk.id, target, until).await {
        Ok(is_new) => is_new,
        Err(flow::Refused::Database(error)) => return Err(error.into()),
        Err(why @ flow::Refused::Length) => return Err(Refused::Wrong(format!("for: {why}"))),
    };
    let says = if is_new { BEGUN } else { CHANGED };
    let json = json!({"id": desk.id, "until": until});
    Ok(Done::new(says, page, json).text(text))
}

/// Lets something go on.
pub async fn end(desk: &Desk<'_>, target: &Target, page: String) -> Result<Done, Refused> {
    if !flow::end(desk.site.db, desk.by, target).await? {
        let why = format!("{target} is not paused; `waybill pauses list` shows what is");
        return Err(Refused::Changed(page, why));
    }
    let text = format!("{target} goes on; what waited is due within some seconds.\n");
    let json = json!({"scope": target.scope().into_str(), "name": target.name()});
    Ok(Done::new(ENDED, page, json).text(text))
}

/// Pause a queue, calls to a provider, a shop, a connection, or a condition's notifications, for at most seven days
///
/// Deliveries are accepted all the same. The jobs that the pause concerns wait and go on by themselves when it ends. Jobs
/// that run already are finished. Workers hear of it within a second. Of a shop the privacy requests go on, because the
/// law sets their deadline. What `waybill attention list` shows is a condition: nobody is notified that it begins or is
/// over before the pause ends.
#[derive(Clone, Debug, clap::Args)]
pub struct Begin {
    #[command(flatten)]
    pub what: Paused,
    /// For how long, such as 30m, 2h or 3d; at most seven days
    #[arg(long = "for", value_name = "AGE", value_parser = age::parse, default_value = "1h")]
    pub length: Duration,
}

fn page(id: Uuid) -> String {
    format!("/pauses/{id}")
}

impl Deed for Begin {
    const ABOUT: About = About::new("pauses begin", Role::Operator, "Pause something")
        .like("queue|provider|shop|condition NAME --for 1h")
        .asks("Pause something", "Pause it")
        .undone_by("pauses end");
    const SAYS: &'static [&'static str] = &[BEGUN];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        begin(desk, self.what.target()?, self.length, page(desk.id)).await
    }
}

/// End a pause now
#[derive(Clone, Debug, clap::Args)]
pub struct End {
    #[command(flatten)]
    pub what: Paused,
    /// The pause whose page shows what came of it. The list does without one.
    #[arg(skip)]
    pub pause: Option<Uuid>,
}

impl Deed for End {
    const ABOUT: About = About::new("pauses end", Role::Operator, "End")
        .of("id")
        .undone_by("pauses begin");
    const SAYS: &'static [&'static str] = &[ENDED];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let page = self.pause.map_or("/pauses".to_owned(), page);
        end(desk, &self.what.target()?, page).await
    }
}
