//! The signing secrets of the providers: which are set, and with which a delivery was verified last.

use axum::response::Response;
use store::signing_secrets;

use crate::access::{Reader, Visit};
use crate::error::Error;
use crate::listing::{Listing, Rows as _};
use crate::shown::Cell;

pub async fn list(visit: Visit<Reader>) -> Result<Response, Error> {
    let set = visit.config().fingerprints();
    let table = signing_secrets::list(visit.db(), &set).await?.table(&[
        ("Provider", &|it| Cell::text(it.source)),
        ("Place", &|it| Cell::text(it.place_name())),
        ("Fingerprint", &|it| Cell::code(it.fingerprint.as_str())),
        ("Verified last", &|it| {
            it.verified_at
                .map_or_else(|| Cell::text("never"), Cell::time)
        }),
    ]);
    let listing = Listing {
        here: "/secrets",
        title: "Signing secrets",
        about: "With these the deliveries of the providers are verified. To replace one, set new,old in \
                STOREFRONT_WEBHOOK_SECRET or PAYMENT_WEBHOOK_SECRET, restart, and let the provider sign with the new \
                one. When the old one has verified nothing for as long as the provider retries, remove it.",
        command: "waybill secrets list".to_owned(),
        table,
        empty: "No secret is set.",
        note: Some(
            "The times are at most a minute late. The secrets are those of the process that serves this page.".to_owned(),
        ),
        ..Listing::default()
    };
    Ok(listing.answer(&visit))
}
