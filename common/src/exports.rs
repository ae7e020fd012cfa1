//! Where exports are kept: a document a request, in a folder.

use anyhow::{Context, Result, bail};
use uuid::Uuid;

use crate::config::ExportStore;

/// The store that `PRIVACY_EXPORT_URL` names.
#[derive(Clone, Debug)]
pub struct Exports {
    store: ExportStore,
}

impl Exports {
    pub fn new(store: &ExportStore) -> Self {
        let store = store.clone();
        Exports { store }
    }

    /// The document of a request.
    pub async fn read(&self, request_id: Uuid) -> Result<Vec<u8>> {
        let ExportStore::Folder(folder) = &self.store else {
            bail!("only folders can be read");
        };
        let path = folder.join(request_id.to_string()).join("export.json");
        let read = tokio::fs::read(&path).await;
        read.with_context(|| format!("cannot read {}", path.display()))
    }
}
