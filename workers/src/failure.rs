//! How a run fails: until it is retried (`?`), or for good ([`permanent`]). An error of a flow says
//! itself which of the two it is.

use std::fmt;
use std::time::Duration;

use domain::redact::Hide;
use providers::{CallFailure, endpoints};
use store::aggregates;
use store::sql::{self, is_outage};

/// How much of an error's text is stored, in characters.
const LONGEST_TEXT: usize = 500;

/// Marks an error that no retry can mend. The job is dead-lettered at once.
#[derive(Debug)]
pub struct Permanent(anyhow::Error);

impl fmt::Display for Permanent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Permanent {}

/// The end of a run that has done a part of its work. The job runs again at once.
#[derive(Debug, thiserror::Error)]
#[error("a part is done; it goes on")]
pub struct Unfinished;

/// The end of a run that did not ask, because it is not the time for it. The job runs again after
/// this pause, and no failure is counted.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct Later {
    pub why: &'static str,
    pub pause: Duration,
}

/// Makes an error that dead-letters the job at once.
pub fn permanent(error: impl Into<anyhow::Error>) -> anyhow::Error {
    anyhow::Error::new(Permanent(error.into()))
}

/// The error of a call that failed. A refusal is permanent; after any other failure the call is made
/// again.
pub fn call_failed(failure: CallFailure) -> anyhow::Error {
    if failure.is_final() {
        permanent(failure)
    } else {
        failure.into()
    }
}

/// Whether no retry can mend the error: a handler has marked it so, a flow says so, or a record cannot be read
/// or written.
fn is_permanent(error: &anyhow::Error) -> bool {
    let of_flow = error.downcast_ref().is_some_and(flows::Error::is_permanent);
    let of_store = error.downcast_ref().is_some_and(aggregates::is_permanent);
    of_flow || of_store || error.is::<Permanent>()
}

/// Why a job's run failed, without personal data, so that it may be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFailure {
    pub text: String,
    pub permanent: bool,
    /// The HTTP status of the provider's answer, if the job was a call that got one.
    pub status: Option<u16>,
    /// How long the one that was called asks us to wait before the next try.
    pub retry_after: Option<Duration>,
}

impl JobFailure {
    pub fn retry(text: impl Into<String>) -> Self {
        JobFailure {
            text: text.into(),
            permanent: false,
            status: None,
            retry_after: None,
        }
    }

    pub fn permanent(text: impl Into<String>) -> Self {
        JobFailure {
            permanent: true,
            ..JobFailure::retry(text)
        }
    }

    pub fn new(error: &anyhow::Error) -> Self {
        JobFailure {
            text: storable(error),
            permanent: is_permanent(error),
            status: status(error),
            retry_after: error
                .downcast_ref()
                .and_then(endpoints::Failed::retry_after),
        }
    }
}

/// The text of an error as it may be stored: without personal data, and not too long.
pub fn storable(error: &anyhow::Error) -> String {
    let mut text = Hide::PersonalDataAndSecrets.redacted(format_args!("{error:#}"));
    if let Some((end, _)) = text.char_indices().nth(LONGEST_TEXT) {
        text.truncate(end);
    }
    text
}

/// The status with which a provider answered the call that failed.
pub fn status(error: &anyhow::Error) -> Option<u16> {
    let error = match error.downcast_ref() {
        Some(Permanent(inner)) => inner,
        None => error,
    };
    error.chain().find_map(|it| {
        let call = it.downcast_ref().and_then(CallFailure::status);
        call.or_else(|| it.downcast_ref().and_then(endpoints::Failed::status))
    })
}

/// Returns the outage behind an error as `Err`. It is not the job's fault, so it is not counted as
/// a failure of the job. Every other error is returned as `Ok`.
pub fn outage(error: anyhow::Error) -> Result<anyhow::Error, sql::Error> {
    let error = match error.downcast::<flows::Error>() {
        Ok(flows::Error::Database(error)) => error.into(),
        Ok(error) => error.into(),
        Err(error) => error,
    };
    match error.downcast::<sql::Error>() {
        Ok(error) if is_outage(&error) => Err(error),
        Ok(error) => Ok(error.into()),
        Err(error) => Ok(error),
    }
}

#[cfg(test)]
#[path = "../tests/unit/failure.rs"]
mod tests;
