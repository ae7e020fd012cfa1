//! The ways in which a run fails: temporarily (`?`), so that the job is retried, or for good
//! ([`permanent`]).

use std::fmt;
use std::time::Duration;

use domain::redact::Hide;
use store::sql::{self, is_outage};

/// How much of an error's text is stored, in characters.
const LONGEST_TEXT: usize = 500;

/// Marks an error that no retry can repair, so that the job is dead at once.
#[derive(Debug)]
pub struct Permanent(anyhow::Error);

impl fmt::Display for Permanent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Permanent {}

/// The error with which a run ends that has done a part of its work. The job runs again at once.
#[derive(Debug, thiserror::Error)]
#[error("a part is done; it goes on")]
pub struct Unfinished;

/// The error with which a run ends that came too early. The job runs again after this time.
#[derive(Debug, thiserror::Error)]
#[error("it is held, and may be cancelled until then")]
pub struct Held(pub Duration);

/// The error with which a call ends that was not made, because it must not be made now.
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

/// Why a job's run failed, as a text without personal data that can be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFailure {
    pub text: String,
    pub permanent: bool,
}

impl JobFailure {
    pub fn retry(text: impl Into<String>) -> Self {
        JobFailure {
            text: text.into(),
            permanent: false,
        }
    }

    pub fn new(error: &anyhow::Error) -> Self {
        let mut text = Hide::PersonalDataAndSecrets.redacted(format_args!("{error:#}"));
        if let Some((end, _)) = text.char_indices().nth(LONGEST_TEXT) {
            text.truncate(end);
        }
        JobFailure {
            text,
            permanent: error.is::<Permanent>(),
        }
    }
}

/// The outage that caused an error, if one did. An outage does not count as a failure of the job.
pub fn outage(error: anyhow::Error) -> Result<anyhow::Error, sql::Error> {
    match error.downcast::<sql::Error>() {
        Ok(error) if is_outage(&error) => Err(error),
        Ok(error) => Ok(error.into()),
        Err(error) => Ok(error),
    }
}
