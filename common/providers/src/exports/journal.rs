//! The objects of the journal of erasures: `erasures/<number>.json`, the number with ten digits, so
//! that names sort like numbers.
//!
//! An object is written only if there is none under its name, and nothing here removes one. So of
//! two databases that both believe to be the one in use, only one writes an entry under a number, and
//! the other notices it.

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{ObjectStore, PutMode, PutOptions};
use platform::task::elsewhere;
use tokio::time::timeout;

use super::{
    DOCUMENT, Export, ExportFailure, Exports, Place, Result, STEP, get, keep_to_ourselves, make,
};

const FOLDER: &str = "erasures";
const END: &str = ".json";

/// What became of an entry that was to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    Written,
    /// These bytes were there already.
    Known,
    /// Another entry has this number.
    Taken,
}

impl Exports {
    /// Writes an entry of the journal. When this returns, the entry is durable.
    pub async fn add_erasure(&self, number: i64, bytes: Vec<u8>) -> Result<Added> {
        if let Place::Folder(folder) = &self.place {
            make(folder.join(FOLDER)).await?;
        }
        let bytes = Bytes::from(bytes);
        if self.put_new(&self.entry(number), bytes.clone()).await? {
            if let Place::Folder(folder) = &self.place {
                keep_to_ourselves(folder.join(FOLDER).join(name(number))).await?;
            }
            return Ok(Added::Written);
        }
        match self.erasure(number).await? {
            Some(there) if there == bytes => Ok(Added::Known),
            Some(_) => Ok(Added::Taken),
            None => Err(ExportFailure::Altered),
        }
    }

    /// The bytes of an entry of the journal. None when there is none with this number.
    pub async fn erasure(&self, number: i64) -> Result<Option<Bytes>> {
        let read = async {
            let store = self.store().await?;
            get(&*store, &self.entry(number)).await
        };
        match read.await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(ExportFailure::Missing | ExportFailure::NoPlace) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The numbers of the entries after this one, sorted. What else lies in the folder is left out.
    pub async fn erasures_after(&self, number: i64) -> Result<Vec<i64>> {
        let listed = timeout(STEP, async {
            let store = self.store().await?;
            let folder = self.root().join(FOLDER);
            let objects = store.list_with_offset(Some(&folder), &self.entry(number));
            let names = objects.map_ok(|object| numbered(&object.location));
            let names: Vec<Option<i64>> = elsewhere(names.try_collect())
                .await
                .map_err(|it| ExportFailure::from(&it))?;
            Ok(names.into_iter().flatten().collect())
        });
        let mut numbers: Vec<i64> = match listed.await.unwrap_or(Err(ExportFailure::Silent)) {
            Err(ExportFailure::Missing | ExportFailure::NoPlace) => Vec::new(),
            listed => listed?,
        };
        numbers.retain(|found| *found > number);
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Fails when the store writes over what is there although it was asked not to. `export` is one
    /// that is there and belongs to nobody.
    pub(super) async fn probe_condition(&self, export: Export) -> Result<()> {
        let other = Bytes::from_static(b"this must not be written");
        if self.put_new(&self.path(export, DOCUMENT), other).await? {
            return Err(ExportFailure::Overwrites);
        }
        Ok(())
    }

    /// Writes an object, unless there is one with this name. False then.
    async fn put_new(&self, path: &Path, bytes: Bytes) -> Result<bool> {
        let store = self.store().await?;
        let put = timeout(STEP, elsewhere(put_new(&*store, path, bytes))).await;
        match put {
            Ok(Ok(())) => Ok(true),
            Ok(Err(object_store::Error::AlreadyExists { .. })) => Ok(false),
            Ok(Err(error)) => Err((&error).into()),
            Err(_) => Err(ExportFailure::Silent),
        }
    }

    fn entry(&self, number: i64) -> Path {
        self.root().join(FOLDER).join(name(number))
    }
}

async fn put_new(store: &dyn ObjectStore, path: &Path, bytes: Bytes) -> object_store::Result<()> {
    let only_new = PutOptions::from(PutMode::Create);
    store.put_opts(path, bytes.into(), only_new).await?;
    Ok(())
}

fn name(number: i64) -> String {
    format!("{number:010}{END}")
}

/// The number of the entry with this name.
fn numbered(path: &Path) -> Option<i64> {
    let number = path.filename()?.strip_suffix(END)?.parse().ok()?;
    (path.filename()? == name(number)).then_some(number)
}
