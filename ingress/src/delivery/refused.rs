//! A delivery that is not taken, and what its headers say of why. The sender learns no more than
//! the answer; the rest is for the operator.

use axum::http::HeaderMap;
use domain::job::Source;
use domain::profile::{self, Clue};
use domain::signature::SignatureError;

use crate::error::Error;
use crate::intake::Unavailable;

pub struct Refused {
    pub error: Error,
    /// What is wrong with the signature, when that is why.
    pub signature: Option<SignatureError>,
    /// It has the signature of another provider.
    pub clue: Option<Clue>,
}

impl Refused {
    /// One whose signature is missing or wrong. `profile` is the one that was chosen.
    pub(super) fn signature(
        source: Source,
        profile: &str,
        headers: &HeaderMap,
        why: SignatureError,
    ) -> Self {
        metrics::counter!(
            "waybill_signatures_refused_total",
            "source" => source.as_str(), "reason" => why.label()
        )
        .increment(1);
        let is_missing = why == SignatureError::Missing;
        let clue = || profile::clue(source, profile, |name| headers.contains_key(name));
        Refused {
            error: match source {
                Source::Payment => Error::PaymentSignature,
                Source::Storefront | Source::Internal => Error::StorefrontSignature,
            },
            signature: Some(why),
            clue: is_missing.then(clue).flatten(),
        }
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Refused {
            error,
            signature: None,
            clue: None,
        }
    }
}

impl From<Unavailable> for Refused {
    fn from(unavailable: Unavailable) -> Self {
        Error::from(unavailable).into()
    }
}
