//! The call that sends a notification: a mail to a customer whose payment has failed. The rows are
//! made in `flows::notifications`.

use std::time::Duration;

use anyhow::Result;
use domain::job::Job;
use domain::time::Timestamp;
use flows::letters;
use flows::notifications::id_of;
use process::Parts;
use store::notifications::{self, Letter, State};
use store::sql::{self, Tx};

use super::Answer;
use crate::mail::{MailFailure, Mailer};

/// A mail that is sent so long after its failure tells people what they know, or what is settled.
const TOO_OLD: Duration = Duration::from_hours(72);

/// How a notification ended.
pub enum Ended {
    Sent,
    NoAddress,
    NotNeeded,
    TooLate,
    /// Why the mail server does not take the mail, without the address.
    Refused(String),
}

/// Sends the mail, unless it was sent, its reason is gone, it is old, or a later one says the same.
/// The id of the mail is the notification's, so a reader who gets it twice can tell.
pub async fn call(parts: &Parts, mailer: Option<&Mailer>, job: &Job) -> Result<Answer> {
    let id = id_of(job)?;
    let letter = notifications::letter(&parts.db, id).await?;
    let is_open = |letter: &Letter| {
        [State::Pending, State::Failed]
            .map(|it| it.into_str())
            .contains(&letter.state.as_str())
    };
    let Some(letter) = letter.filter(is_open) else {
        return Ok(Answer::NotAsked);
    };
    if !letter.is_needed() || letter.is_superseded {
        return Ok(Answer::Mail(Ended::NotNeeded));
    }
    if parts.clock.now().since(letter.created_at) > TOO_OLD {
        return Ok(Answer::Mail(Ended::TooLate));
    }
    let Some(to) = &letter.email else {
        return Ok(Answer::Mail(Ended::NoAddress));
    };
    let Some(mailer) = mailer else {
        anyhow::bail!("SMTP_URL is not set in this process");
    };
    let connections = parts.connections.now();
    let mail = letters::mail(&letter, &parts.config, &connections);
    let from = letters::sender(&letter, &connections);
    match mailer.send(id, from, to, &mail).await {
        Ok(()) => Ok(Answer::Mail(Ended::Sent)),
        Err(MailFailure::Refused(why)) => Ok(Answer::Mail(Ended::Refused(why))),
        Err(error @ MailFailure::Later(_)) => Err(error.into()),
    }
}

pub async fn record(tx: &mut Tx, job: &Job, ended: &Ended, now: Timestamp) -> Result<()> {
    let (state, error) = match ended {
        Ended::Sent => (State::Sent, None),
        Ended::NoAddress => (State::NoAddress, None),
        Ended::NotNeeded => (State::NotNeeded, None),
        Ended::TooLate => (State::TooLate, None),
        Ended::Refused(why) => (State::Refused, Some(why.as_str())),
    };
    notifications::ended(tx, id_of(job)?, state, error, now).await?;
    Ok(())
}

/// Records that the mail server did not take the mail, however often it was asked.
pub async fn on_exhausted(tx: &mut Tx, job: &Job, error: &str, now: Timestamp) -> sql::Result<()> {
    let Ok(id) = id_of(job) else {
        return Ok(());
    };
    notifications::ended(tx, id, State::Failed, Some(error), now).await?;
    Ok(())
}
