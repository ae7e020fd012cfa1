//! Where exports are kept: a document a request, in a folder.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use uuid::Uuid;

use crate::config::ExportStore;

/// The store that `PRIVACY_EXPORT_URL` names.
#[derive(Clone, Debug)]
pub struct Exports {
    folder: PathBuf,
}

impl Exports {
    pub fn new(store: &ExportStore) -> Result<Self> {
        match store {
            ExportStore::Folder(folder) => Ok(Exports {
                folder: folder.clone(),
            }),
            ExportStore::S3(_) => bail!("PRIVACY_EXPORT_URL: only folders can be read"),
        }
    }

    /// The document of a request.
    pub async fn read(&self, request_id: Uuid) -> Result<Vec<u8>> {
        let path = self.folder.join(request_id.to_string()).join("export.json");
        let read = tokio::fs::read(&path).await;
        read.with_context(|| format!("cannot read {}", path.display()))
    }
}
