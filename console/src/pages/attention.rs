//! The conditions that need a person and hold now, and that somebody knows of them.

use axum::response::Response;
use lists::attention::Conditions;
use lists::deeds::attention::Acknowledge;

use crate::access::{Reader, Visit};
use crate::deed;
use crate::error::Error;
use crate::listing::{self, Read};

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let Read {
        mut listing, rows, ..
    } = listing::read(&visit, &Conditions).await?;
    let unknown = rows.iter().filter(|it| it.acknowledged_by.is_none());
    let mut names: Vec<&str> = unknown.map(|it| it.condition.into_str()).collect();
    names.dedup();
    let acts = names.into_iter();
    listing.acts = acts
        .map(|name| deed::act::<Acknowledge, _>(&visit, name, None))
        .collect();
    Ok(listing.answer(&visit))
}
