//! What operators ask of the providers.

use domain::api_key::Role;
use operators::reconciliation::{self as flow, Refused as NotAsked};
use serde_json::json;

use super::{About, CHANGED, Deed, Desk, Done, Refused};
use crate::age::{self, Moment};

/// Ask the providers what never came, and take it
///
/// The workers ask each provider whose API is set, every RECONCILE_MINUTES by themselves. What never came is taken as if it had
/// come, and what came changes nothing. They go on where they were; the first run begins when the API was set.
/// Stripe lists the events of 30 days, and Shopify the orders of 60 without the right read_all_orders.
#[derive(Clone, Debug, clap::Args)]
pub struct Ask {
    /// Only the shops or the account of this connection; `default` is that of the settings
    #[arg(long, value_name = "NAME")]
    pub connection: Option<String>,
    /// Compare anew what changed since then, such as 3d or 2027-01-31
    #[arg(long, value_name = "AGE|TIME", value_parser = age::moment)]
    pub since: Option<Moment>,
}

const ASKED: &str = "The providers are asked within seconds.";

impl Deed for Ask {
    const ABOUT: About = About::new("reconcile", Role::Operator, "Ask now");
    const SAYS: &'static [&'static str] = &[ASKED];

    /// Done again it finds that all are due, and asks nobody twice.
    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let (db, now) = (desk.site.db, desk.site.now);
        let page = Self::ABOUT.list();
        let since = self.since.map(|since| since.at(now));
        match flow::ask(db, desk.by, self.connection.as_deref(), since).await {
            Ok(0) => Err(Refused::Changed(page, CHANGED.to_owned())),
            Ok(asked) => Ok(Done::new(ASKED, page, json!({ "asked": asked }))),
            Err(NotAsked::Database(error)) => Err(error.into()),
            Err(why @ NotAsked::Future) => Err(Refused::Wrong(why.to_string())),
            Err(why) => Err(Refused::Impossible(why.to_string())),
        }
    }
}
