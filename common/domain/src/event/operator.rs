//! What needs a person. It says nothing about any person.

use serde::Serialize;
use utoipa::ToSchema;

use crate::attention::{Condition, State};

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "type", content = "data")]
pub enum OperatorEvent {
    /// something begins to need a person, or is over; each once, however often it comes and goes within ten minutes
    #[serde(rename = "operator.attention")]
    Attention {
        /// `begun` or `over`
        state: &'static str,
        /// `page`: somebody should look now; `ticket`: it waits for the morning
        severity: &'static str,
        /// what is the matter, in a sentence
        summary: String,
        /// numbers and times that say more, without personal data; empty when it is over
        details: String,
        /// what to do
        mend: &'static str,
        /// the command that shows more
        command: &'static str,
    },
}

impl OperatorEvent {
    /// That a condition is in this state now.
    pub fn of(condition: Condition, about: &str, state: State, details: &str) -> Self {
        let row = condition.row();
        OperatorEvent::Attention {
            state: state.into_str(),
            severity: row.severity.into_str(),
            summary: condition.summary(about),
            details: details.to_owned(),
            mend: row.mend,
            command: row.command,
        }
    }
}
