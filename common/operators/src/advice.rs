//! Which of our commands helps against an error of the store or the domain, which say only what is so. The command
//! line and the console add it to what the error says.

use std::error::Error;

use domain::privacy::State;
use store::identity_provider::ClaimError;
use store::jobs::run_now::NotMadeDue;
use store::privacy_requests::{ActionRefused, Undecided};

const REQUESTS: &str = "`waybill privacy list --all` shows them";

/// What the error says, and after it the command that helps.
pub fn with(error: &(dyn Error + 'static)) -> String {
    let text = error.to_string();
    of(error).map_or(text.clone(), |advice| format!("{text}; {advice}"))
}

/// The end of a sentence that the error begins.
pub fn of(error: &(dyn Error + 'static)) -> Option<String> {
    None.or_else(|| made_due(error.downcast_ref()?))
        .or_else(|| request(error.downcast_ref()?))
        .or_else(|| decision(error.downcast_ref()?))
        .or_else(|| identity(error.downcast_ref()?))
}

fn made_due(error: &NotMadeDue) -> Option<String> {
    Some(match error {
        NotMadeDue::Unknown(_) => "`waybill jobs list` shows some".to_owned(),
        NotMadeDue::Done(id) => {
            format!("`waybill jobs requeue {id}` processes a finished delivery again")
        }
        NotMadeDue::Dead(id) => {
            format!("once its cause is mended, `waybill dead requeue {id}` runs it again")
        }
        NotMadeDue::Held(id) => {
            format!("`waybill privacy show {id}` says what it waits for and how it goes on")
        }
        NotMadeDue::Changed(id) => format!("look at it again: `waybill jobs show {id}`"),
        _ => return None,
    })
}

fn request(error: &ActionRefused) -> Option<String> {
    let advice = match error {
        ActionRefused::Unknown => REQUESTS,
        ActionRefused::Failed => {
            "see `waybill privacy show`, mend what is wrong, then `waybill privacy retry`"
        }
        ActionRefused::NotHeld(State::Failed) => "`waybill privacy retry` does that",
        ActionRefused::NotWaiting(State::Held) => "to prevent it: `waybill privacy cancel`",
        _ => return None,
    };
    Some(advice.to_owned())
}

fn decision(error: &Undecided) -> Option<String> {
    let advice = match error {
        Undecided::Unknown => REQUESTS,
        Undecided::NotHeld => "`waybill privacy list --state held` shows those that are",
        Undecided::NotAmongHeld(_) => "`waybill privacy show` lists what it holds",
        Undecided::Database(_) => return None,
    };
    Some(advice.to_owned())
}

fn identity(error: &ClaimError) -> Option<String> {
    let ClaimError::Another { configured, .. } = error else {
        return None;
    };
    Some(format!(
        "or, if these accounts have only got a new address, run `waybill identity moved {configured}`; if they \
         are others, run `waybill identity replaced {configured}`, which puts the former ones aside, and their \
         licences with them"
    ))
}
