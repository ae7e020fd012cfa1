//! How far each shop and each account was compared with its provider, and what was found so that never came. And how an
//! operator asks now.

use axum::response::Response;
use domain::api_key::Role;
use lists::List as _;
use lists::deeds::reconcile::Ask;
use lists::providers::{Found, Reconciliations};

use crate::access::{Reader, Visit};
use crate::act::{Act, Button};
use crate::deed;
use crate::error::Error;
use crate::listing;

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let mut listing = listing::read(&visit, &Reconciliations).await?.listing;
    listing.acts = vec![
        deed::act::<Ask, _>(&visit, "", None),
        Act::of(
            &visit,
            Role::Reader,
            "Which deliveries never came, how late they were found, and the likely cause.",
            Button::asks("What was found", Found::PAGE.to_owned()),
            "waybill reconcile --status".to_owned(),
        ),
    ];
    Ok(listing.answer(&visit))
}
