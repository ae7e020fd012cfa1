//! How a run fails: for now (`?`), or for good ([`permanent`]).

use std::fmt;
use std::time::Duration;

use domain::redact::Hide;
use store::sql::{self, is_outage};

/// What is kept of an error's text.
const LONGEST_TEXT: usize = 500;

/// Marks an error that no retry can mend: the job is dead at once.
#[derive(Debug)]
pub struct Permanent(anyhow::Error);

impl fmt::Display for Permanent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Permanent {}

/// The end of a run that has done a part of its work and is to go on at once.
#[derive(Debug, thiserror::Error)]
#[error("a part is done; it goes on")]
pub struct Unfinished;

/// The end of a run that came too early by so much.
#[derive(Debug, thiserror::Error)]
#[error("it is held, and may be cancelled until then")]
pub struct Held(pub Duration);

/// The end of a run that did not ask, because it is not the time for it.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct Later {
    pub why: &'static str,
    pub pause: Duration,
}

/// A permanent error.
pub fn permanent(error: impl Into<anyhow::Error>) -> anyhow::Error {
    anyhow::Error::new(Permanent(error.into()))
}

/// Why a job's run failed, fit to be stored: no personal data.
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

/// The outage behind an error: not the job's fault, and not counted as its failure.
pub fn outage(error: anyhow::Error) -> Result<anyhow::Error, sql::Error> {
    match error.downcast::<sql::Error>() {
        Ok(error) if is_outage(&error) => Err(error),
        Ok(error) => Ok(error.into()),
        Err(error) => Ok(error),
    }
}
