//! Hands an export to the one who answers the person: an operator, or the holder of an API key.

use providers::exports::{self, Exports};
use sha2::{Digest as _, Sha256};
use store::audit::By;
use store::privacy_requests::{self, ActionRefused, Export};
use store::sql::Db;
use uuid::Uuid;

/// The export of a request, after comparing it with the hash in the row of the request. The audit
/// records who fetches it before it is handed out.
pub async fn fetch(
    db: &Db,
    by: By<'_>,
    exports: &Exports,
    id: Uuid,
) -> Result<(Export, Vec<u8>), ActionRefused> {
    let (entry, export) = privacy_requests::export_of(db, id, by.now).await?;
    let written = exports::Export {
        request: id,
        run: export.run,
    };
    let document = exports.read(written).await;
    let document = document.map_err(|error| ActionRefused::Store(format!("{error:#}")))?;
    if hex::encode(Sha256::digest(&document)) != export.sha256 {
        return Err(ActionRefused::Altered);
    }
    privacy_requests::note_fetched(db, by, &entry, &export).await?;
    Ok((export, document))
}
