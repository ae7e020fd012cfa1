//! Telling customers that a payment of theirs has failed. A row says that it is due; the
//! address and the text are read when it is sent, and are in no job and no log.

use flows::letters;
use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;
use domain::job::Job;
use domain::payment::record::{Record, is_left_to_provider};
use domain::time::Timestamp;
use process::Parts;
use serde::Deserialize;
use serde_json::json;
use store::notifications::{self, Letter, NewNotification, PAYMENT_FAILED, State};
use store::payment_retries;
use store::sql::{self, Tx};
use uuid::Uuid;

use super::Answer;
use super::outbox::{self, Outbox};
use crate::mail::{MailFailure, Mailer};

pub const KIND: &str = "notifications/send";

/// A mail that is sent so long after its failure says what people know, or have settled.
const TOO_OLD: Duration = Duration::from_hours(72);

#[derive(Deserialize)]
struct Body {
    notification_id: Uuid,
}

/// A notification for each payment that failed again; for one that the provider tries by its own
/// schedule, the first time alone.
pub async fn of_failures(
    outbox: &mut Outbox<'_>,
    tx: &mut Tx,
    failed: &[(String, Record)],
) -> Result<()> {
    let has_mail = outbox.context.config.smtp.is_some();
    let mut rows = Vec::new();
    let ids: Vec<String> = failed.iter().map(|(id, _)| id.clone()).collect();
    let (reported, of_checkouts) = if ids.is_empty() {
        (HashSet::new(), HashSet::new())
    } else {
        let reported = notifications::reported_of(tx, ids.clone()).await?;
        (reported, payment_retries::of_checkouts(tx, ids).await?)
    };
    for (payment_id, record) in failed {
        let failure = record.failure.as_ref().map(|part| &part.value);
        let is_left_to_provider = failure.is_some_and(|failure| {
            let is_of_checkout = of_checkouts.contains(payment_id);
            is_left_to_provider(record.pact().is_some(), is_of_checkout, failure)
        });
        if is_left_to_provider && reported.contains(payment_id) {
            continue;
        }
        let id = outbox.context.clock.id();
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
            outbox.job_of(KIND, payment_id, &body, outbox.now);
        }
    }
    Ok(notifications::insert(tx, &rows, outbox.now).await?)
}

/// What became of a mail.
pub enum Ended {
    Sent,
    NoAddress,
    NotNeeded,
    TooLate,
    /// Why the mail server does not take it, without the address.
    Refused(String),
}

/// Sends it, unless it was sent, its reason is gone, it is old, or a later one says the same. The
/// id of the mail is the notification's: should a mail be sent twice, readers can tell.
pub async fn call(parts: &Parts, mailer: Option<&Mailer>, job: &Job) -> Result<Answer> {
    let body: Body = outbox::body(job)?;
    let letter = notifications::letter(&parts.db, body.notification_id).await?;
    let is_open = |letter: &Letter| {
        [State::Pending, State::Failed]
            .map(State::as_str)
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
    let mail = letters::mail(&letter, &parts.config);
    match mailer.send(body.notification_id, to, &mail).await {
        Ok(()) => Ok(Answer::Mail(Ended::Sent)),
        Err(MailFailure::Refused(why)) => Ok(Answer::Mail(Ended::Refused(why))),
        Err(error @ MailFailure::Later(_)) => Err(error.into()),
    }
}

pub async fn record(tx: &mut Tx, job: &Job, ended: &Ended, now: Timestamp) -> Result<()> {
    let body: Body = outbox::body(job)?;
    let (state, error) = match ended {
        Ended::Sent => (State::Sent, None),
        Ended::NoAddress => (State::NoAddress, None),
        Ended::NotNeeded => (State::NotNeeded, None),
        Ended::TooLate => (State::TooLate, None),
        Ended::Refused(why) => (State::Refused, Some(why.as_str())),
    };
    notifications::ended(tx, body.notification_id, state, error, now).await?;
    Ok(())
}

/// Records that the mail server was asked in vain.
pub async fn on_exhausted(tx: &mut Tx, job: &Job, error: &str, now: Timestamp) -> sql::Result<()> {
    let Ok(body) = outbox::body::<Body>(job) else {
        return Ok(());
    };
    notifications::ended(tx, body.notification_id, State::Failed, Some(error), now).await?;
    Ok(())
}
