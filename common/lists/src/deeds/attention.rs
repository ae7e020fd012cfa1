//! What operators say of the conditions that need a person.

use domain::api_key::Role;
use domain::attention::Condition;
use operators::attention as flow;
use serde_json::json;

use super::{About, Deed, Desk, Done, Refused};
use crate::words;

const ACKNOWLEDGED: &str =
    "It is acknowledged: others see that you know of it, and you hear when it is over.";

/// Say that you know of a condition
///
/// The list and the console name you beside it. A mail that could not be sent yet does not say any more that it has begun,
/// and one says when it is over.
#[derive(Clone, Debug, clap::Args)]
pub struct Acknowledge {
    /// The name of the condition, as the list has it
    #[arg(value_name = "CONDITION", value_parser = words::condition())]
    pub name: Condition,
}

impl Deed for Acknowledge {
    const ABOUT: About =
        About::new("attention acknowledge", Role::Operator, "I know of it").of("name");
    const SAYS: &'static [&'static str] = &[ACKNOWLEDGED];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let name = self.name.into_str();
        let page = "/attention".to_owned();
        // What began after the page was shown, nobody has seen there.
        let (db, until) = (desk.site.db, desk.asked_at);
        if !flow::acknowledge(db, desk.by, self.name, until).await? {
            let why = format!(
                "{name} does not hold, or is acknowledged; `waybill attention list` shows what holds"
            );
            return Err(Refused::Changed(page, why));
        }
        let text = format!("{name} is acknowledged; you hear when it is over.\n");
        Ok(Done::new(ACKNOWLEDGED, page, json!({"condition": name})).text(text))
    }
}
