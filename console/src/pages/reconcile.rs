//! How far each shop and each account was compared with its provider, and what was found so that never came. And how an
//! operator asks now.

use axum::response::Response;
use domain::api_key::Role;
use lists::List as _;
use lists::providers::{Found, Reconciliations};
use operators::reconciliation::{self as flow, Refused};

use crate::access::{Operator, Reader, Visit, Write};
use crate::act::{self, Act, Button, said};
use crate::error::Error;
use crate::listing;

const HERE: &str = Reconciliations::PAGE;

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let mut listing = listing::read(&visit, &Reconciliations).await?.listing;
    listing.acts = vec![
        Act::of(
            &visit,
            Role::Operator,
            "Ask all providers now, from where they were asked last.",
            Button::does("Ask now", format!("{HERE}/ask"), Vec::new()),
            "waybill reconcile".to_owned(),
        ),
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

/// Sent again it finds that all are due, and asks nobody twice.
pub async fn ask(write: Write<Operator>) -> Result<Response, Error> {
    match flow::ask(&write.parts().db, write.by(), None, None).await {
        Ok(0) => Ok(act::see(HERE, said::CHANGED)),
        Ok(_) => Ok(act::see(HERE, said::ASKED)),
        Err(Refused::Database(error)) => Err(error.into()),
        Err(why) => Err(Error::impossible(why)),
    }
}
