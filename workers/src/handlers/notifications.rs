//! Telling customers that a payment of theirs has failed. A row says that it is due; the
//! address and the text are read when it is sent, and are in no job and no log.

use anyhow::Result;
use common::clock::Timestamp;
use common::config::Config;
use common::job::Job;
use common::payment::record::Record;
use common::sql::{self, Db, Tx};
use common::store::notifications::{self, Letter, NewNotification, PAYMENT_FAILED, State};
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

use super::Answer;
use super::effects::{self, Effects};
use crate::mail::{MailFailure, Mailer};

pub const KIND: &str = "notifications/send";

#[derive(Deserialize)]
struct Body {
    notification_id: Uuid,
}

/// A notification for each payment that failed again.
pub async fn of_failures(
    effects: &mut Effects<'_>,
    tx: &mut Tx,
    failed: &[(String, Record)],
) -> Result<()> {
    let has_mail = effects.context.config.smtp.is_some();
    let mut rows = Vec::new();
    for (payment_id, _) in failed {
        let id = effects.context.clock.id();
        rows.push(NewNotification {
            id,
            kind: PAYMENT_FAILED,
            payment_id: payment_id.clone(),
            state: if has_mail {
                State::Pending
            } else {
                State::Kept
            },
        });
        if has_mail {
            let body = json!({ "notification_id": id });
            effects.job_of(KIND, payment_id, &body, effects.now);
        }
    }
    Ok(notifications::insert(tx, &rows, effects.now).await?)
}

/// What became of a mail.
pub enum Ended {
    Sent,
    NoAddress,
    NotNeeded,
    /// Why the mail server does not take it, without the address.
    Refused(String),
}

/// Sends it, unless it was sent or its reason is gone. The id of the mail is the
/// notification's: should a mail be sent twice, readers can tell.
pub async fn call(db: &Db, config: &Config, mailer: Option<&Mailer>, job: &Job) -> Result<Answer> {
    let body: Body = effects::body(job)?;
    let letter = notifications::letter(db, body.notification_id).await?;
    let is_open = |letter: &Letter| {
        [State::Pending, State::Failed]
            .map(State::as_str)
            .contains(&letter.state.as_str())
    };
    let Some(letter) = letter.filter(is_open) else {
        return Ok(Answer::NotAsked);
    };
    if !letter.is_needed() {
        return Ok(Answer::Mail(Ended::NotNeeded));
    }
    let Some(to) = &letter.email else {
        return Ok(Answer::Mail(Ended::NoAddress));
    };
    let Some(mailer) = mailer else {
        anyhow::bail!("SMTP_URL is not set in this process");
    };
    let mail = letter.mail(config);
    match mailer.send(body.notification_id, to, &mail).await {
        Ok(()) => Ok(Answer::Mail(Ended::Sent)),
        Err(MailFailure::Refused(why)) => Ok(Answer::Mail(Ended::Refused(why))),
        Err(error @ MailFailure::Later(_)) => Err(error.into()),
    }
}

pub async fn record(tx: &mut Tx, job: &Job, ended: &Ended, now: Timestamp) -> Result<()> {
    let body: Body = effects::body(job)?;
    let (state, error) = match ended {
        Ended::Sent => (State::Sent, None),
        Ended::NoAddress => (State::NoAddress, None),
        Ended::NotNeeded => (State::NotNeeded, None),
        Ended::Refused(why) => (State::Refused, Some(why.as_str())),
    };
    notifications::ended(tx, body.notification_id, state, error, now).await?;
    Ok(())
}

/// Records that the mail server was asked in vain.
pub async fn gave_up(tx: &mut Tx, job: &Job, error: &str, now: Timestamp) -> sql::Result<()> {
    let Ok(body) = effects::body::<Body>(job) else {
        return Ok(());
    };
    notifications::ended(tx, body.notification_id, State::Failed, Some(error), now).await?;
    Ok(())
}
