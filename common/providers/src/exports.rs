//! The store of exports of people's data: a folder, or a bucket that speaks S3.
//!
//! An export is `<request id>/<run>/export.json` and `<request id>/<run>/manifest.json`. Each of the
//! two is written under another name, renamed, read back and compared, the manifest last. So a final
//! name has either a whole document or nothing, and an export with a manifest was read back. Each run
//! that writes an export for a request has a number, so a run that was stopped for minutes and then goes
//! on neither overwrites nor removes what a later run wrote. Every step has a deadline. The store client's
//! own retries are switched off, because the request's job is retried.
//!
//! The journal of erasures is in the same store (`journal`).
//!
//! A store has a mark, which is an object with the store's id. An export that is not found counts
//! as removed only if the mark says that this is the store to which it was written
//! ([`Exports::remove_from`]).

mod journal;

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{self, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{HttpError, HttpErrorKind};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt as _, RetryConfig};
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use uuid::Uuid;

use domain::code::Code;
use platform::task::elsewhere;
use platform::token::Token;

pub use journal::Added;

/// Where exports are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportStore {
    /// A folder. It is made when the first export is written.
    Folder(PathBuf),
    S3(S3),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3 {
    pub bucket: String,
    /// The prefix of the names of objects, without slashes at its ends. May be empty.
    pub prefix: String,
    /// `None` means the provider's own endpoint for the region.
    pub endpoint: Option<String>,
    pub region: String,
    pub access_key_id: String,
    pub secret_access_key: Token,
}

const DOCUMENT: &str = "export.json";
const MANIFEST: &str = "manifest.json";
/// The object with the store's id.
const MARK: &str = "waybill-store";
/// The end of the name under which an object is written before it is renamed.
const PART: &str = ".part";

/// The time for one request to the store.
const STEP: Duration = Duration::from_secs(8);
const CONNECT: Duration = Duration::from_secs(3);
/// The time for the whole write of an export. Together with what is read before it and removed
/// after it, this fits into the time of a call.
const WRITE: Duration = Duration::from_secs(14);
const CLEAN_UP: Duration = Duration::from_secs(3);
/// The time for reading or writing the mark.
const MARKING: Duration = Duration::from_secs(3);

/// The export that one run wrote for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export {
    pub request: Uuid,
    /// From 1 on; see `privacy_requests.export_runs`.
    pub run: i64,
}

/// A store of exports. Clones share its connections.
#[derive(Clone)]
pub struct Exports {
    place: Place,
    /// Where the store is, without a credential.
    address: String,
}

#[derive(Clone)]
enum Place {
    Folder(PathBuf),
    Bucket(Arc<AmazonS3>, Path),
}

/// What went wrong. The texts say what to do, and have no name of a file, a key or a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportFailure {
    #[error(
        "{code}: the export store does not answer; check that PRIVACY_EXPORT_URL can be \
         reached from the workers",
        code = Code::Privacy
    )]
    Silent,
    #[error(
        "{code}: the export store refuses us; let the workers write to the folder of \
         PRIVACY_EXPORT_URL, or check the PRIVACY_EXPORT_S3_* credential and its policy",
        code = Code::Privacy
    )]
    Refused,
    #[error(
        "{code}: there is no room in the export store; make some, or move it",
        code = Code::Privacy
    )]
    Full,
    #[error(
        "{code}: the export store has no such folder or bucket; check PRIVACY_EXPORT_URL",
        code = Code::Privacy
    )]
    NoPlace,
    #[error(
        "{code}: the export store gave back other bytes than it was given; check its disk",
        code = Code::Privacy
    )]
    Altered,
    #[error(
        "{code}: there is no such export; it was removed, or was never written",
        code = Code::Privacy
    )]
    Missing,
    #[error(
        "{code}: the store at PRIVACY_EXPORT_URL is not the one that exports were written to: its \
         mark, the object waybill-store, is missing or another one. Mount it, or set the address \
         back, or move the old store with its mark; of what is gone for good say so with `waybill \
         privacy export-gone`",
        code = Code::Privacy
    )]
    AnotherStore,
    #[error(
        "{code}: the export store writes over what is there although it was asked not to; the journal \
         of erasures needs one that keeps to `If-None-Match: *`",
        code = Code::Privacy
    )]
    Overwrites,
    #[error(
        "{code}: the export store failed{status}; check PRIVACY_EXPORT_URL and the store itself",
        code = Code::Privacy,
        status = status_text(*.0)
    )]
    Failed(Option<u16>),
}

pub type Result<T> = std::result::Result<T, ExportFailure>;

impl Exports {
    pub fn new(store: &ExportStore) -> Self {
        let place = match store {
            ExportStore::Folder(folder) => Place::Folder(folder.clone()),
            ExportStore::S3(s3) => Place::Bucket(Arc::new(bucket(s3)), Path::from(&*s3.prefix)),
        };
        Exports {
            place,
            address: address(store),
        }
    }

    /// Where the store is, without a credential.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The id of the store, from its mark. None when there is no store or it has no mark.
    pub async fn mark(&self) -> Result<Option<Uuid>> {
        let read = timeout(MARKING, async {
            let store = self.store().await?;
            get(&*store, &self.root().join(MARK)).await
        });
        match read.await.unwrap_or(Err(ExportFailure::Silent)) {
            Ok(bytes) => {
                let text = std::str::from_utf8(&bytes).map_err(|_| ExportFailure::Altered)?;
                let id = text.trim().parse().map_err(|_| ExportFailure::Altered)?;
                Ok(Some(id))
            }
            Err(ExportFailure::Missing | ExportFailure::NoPlace) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the mark of the store.
    pub async fn set_mark(&self, id: Uuid) -> Result<()> {
        let written = timeout(MARKING, async {
            if let Place::Folder(folder) = &self.place {
                make(folder.clone()).await?;
            }
            let store = self.store().await?;
            let text = Bytes::from(format!("{id}\n"));
            step(store.put(&self.root().join(MARK), text.into())).await?;
            if let Place::Folder(folder) = &self.place {
                keep_to_ourselves(folder.join(MARK)).await?;
            }
            Ok(())
        });
        written.await.unwrap_or(Err(ExportFailure::Silent))
    }

    /// Removes what all runs up to `last` have written from the store to which it was written. If
    /// this is another store, nothing is removed and an error is returned.
    pub async fn remove_from(&self, store: Uuid, last: Export) -> Result<()> {
        if self.mark().await? != Some(store) {
            return Err(ExportFailure::AnotherStore);
        }
        self.remove_all(last).await
    }

    /// Prepares the store for an export of a request. A store that cannot be reached is noticed here,
    /// before all the data is read that would be written to it.
    pub async fn prepare(&self, request: Uuid) -> Result<()> {
        let prepared = timeout(STEP, async {
            match &self.place {
                Place::Folder(folder) => make(folder.join(request.to_string())).await,
                // No run has this number. A store that lets us delete lets us write.
                Place::Bucket(..) => self.remove(Export { request, run: 0 }).await,
            }
        });
        prepared.await.unwrap_or(Err(ExportFailure::Silent))
    }

    /// Writes an export. If that fails, nothing of it is left, as far as the store can be reached.
    pub async fn write(&self, export: Export, document: Bytes, manifest: Bytes) -> Result<()> {
        let written = timeout(WRITE, self.try_write(export, document, manifest)).await;
        let written = written.unwrap_or(Err(ExportFailure::Silent));
        if written.is_err() {
            // What could not be removed is removed once another run has written its export.
            let _ = self.discard(export).await;
        }
        written
    }

    /// Removes what one run has written, in little time.
    pub async fn discard(&self, export: Export) -> Result<()> {
        let removed = timeout(CLEAN_UP, self.remove(export)).await;
        removed.unwrap_or(Err(ExportFailure::Silent))
    }

    async fn try_write(&self, export: Export, document: Bytes, manifest: Bytes) -> Result<()> {
        // A database that was restored may give a number again.
        self.remove(export).await?;
        if let Some(folder) = self.folder(export) {
            make(folder).await?;
        }
        let store = self.store().await?;
        for (name, bytes) in [(DOCUMENT, document), (MANIFEST, manifest)] {
            let part = self.path(export, &format!("{name}{PART}"));
            let path = self.path(export, name);
            step(store.put(&part, bytes.clone().into())).await?;
            if let Place::Folder(folder) = &self.place {
                keep_to_ourselves(folder.join(part.as_ref())).await?;
            }
            step(store.rename(&part, &path)).await?;
            if Sha256::digest(get(&*store, &path).await?) != Sha256::digest(&bytes) {
                return Err(ExportFailure::Altered);
            }
        }
        Ok(())
    }

    /// Writes, reads and removes an object that belongs to nobody. Returns false, without making
    /// the folder, when the store is a folder that does not exist yet.
    pub async fn probe(&self, id: Uuid) -> Result<bool> {
        if let Place::Folder(folder) = &self.place {
            let folder = folder.clone();
            if !on_disk(move || folder.try_exists()).await? {
                return Ok(false);
            }
        }
        let text = Bytes::from_static(b"waybill doctor");
        let export = Export {
            request: id,
            run: 1,
        };
        self.write(export, text.clone(), text.clone()).await?;
        let read = self.read(export).await;
        let kept = self.probe_condition(export).await;
        self.remove_all(export).await?;
        kept?;
        if read? != text {
            return Err(ExportFailure::Altered);
        }
        Ok(true)
    }

    /// The document of an export.
    pub async fn read(&self, export: Export) -> Result<Vec<u8>> {
        let store = self.store().await?;
        let bytes = get(&*store, &self.path(export, DOCUMENT)).await?;
        Ok(bytes.to_vec())
    }

    /// Removes what one run has written, in whole or in part. It is no error if nothing is there.
    pub async fn remove(&self, export: Export) -> Result<()> {
        if let Some(folder) = self.folder(export) {
            return on_disk(move || remove_folder(&folder)).await;
        }
        let store = self.store().await?;
        for name in [MANIFEST, DOCUMENT] {
            for name in [name.to_owned(), format!("{name}{PART}")] {
                match step(store.delete(&self.path(export, &name))).await {
                    Ok(()) | Err(ExportFailure::Missing) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Removes what the runs before this one have left.
    pub async fn remove_earlier(&self, than: Export) -> Result<()> {
        for run in 1..than.run {
            self.discard(Export { run, ..than }).await?;
        }
        Ok(())
    }

    /// Removes what all runs up to this one have written for their request.
    pub async fn remove_all(&self, last: Export) -> Result<()> {
        if let Place::Folder(folder) = &self.place {
            let folder = folder.join(last.request.to_string());
            return on_disk(move || remove_folder(&folder)).await;
        }
        for run in 1..=last.run {
            self.remove(Export { run, ..last }).await?;
        }
        Ok(())
    }

    /// The folder of an export, unless the store is a bucket.
    fn folder(&self, export: Export) -> Option<PathBuf> {
        match &self.place {
            Place::Folder(folder) => {
                let of_request = folder.join(export.request.to_string());
                Some(of_request.join(export.run.to_string()))
            }
            Place::Bucket(..) => None,
        }
    }

    fn root(&self) -> Path {
        match &self.place {
            Place::Folder(_) => Path::default(),
            Place::Bucket(_, prefix) => prefix.clone(),
        }
    }

    fn path(&self, export: Export, name: &str) -> Path {
        let of_request = self.root().join(export.request.to_string());
        of_request.join(export.run.to_string()).join(name)
    }

    async fn store(&self) -> Result<Arc<dyn ObjectStore>> {
        match &self.place {
            Place::Bucket(bucket, _) => Ok(bucket.clone()),
            Place::Folder(folder) => {
                let folder = folder.clone();
                let open = || LocalFileSystem::new_with_prefix(folder).map_err(io::Error::other);
                match on_disk(open).await {
                    Ok(store) => Ok(Arc::new(store.with_fsync(true))),
                    Err(_) => Err(ExportFailure::NoPlace),
                }
            }
        }
    }
}

fn address(store: &ExportStore) -> String {
    match store {
        ExportStore::Folder(folder) => {
            let whole = path::absolute(folder).unwrap_or_else(|_| folder.clone());
            format!("file://{}", whole.display())
        }
        ExportStore::S3(s3) => {
            let endpoint = s3.endpoint.as_deref().unwrap_or(&s3.region);
            // A credential in front of the host is not part of the address.
            let endpoint = endpoint.rsplit_once('@').map_or(endpoint, |(_, host)| host);
            format!("s3://{}/{} at {endpoint}", s3.bucket, s3.prefix)
        }
    }
}

/// The client of a bucket. It has no deadlines of its own except for connecting, because [`step`]
/// has them. It uses path style, which every store that speaks S3 understands.
fn bucket(s3: &S3) -> AmazonS3 {
    let options = ClientOptions::new()
        .with_connect_timeout(CONNECT)
        .with_timeout_disabled();
    let retry = RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    };
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&s3.bucket)
        .with_region(&s3.region)
        .with_access_key_id(&s3.access_key_id)
        .with_secret_access_key(s3.secret_access_key.expose())
        .with_client_options(options)
        .with_retry(retry)
        .with_disable_bulk_delete(true);
    if let Some(endpoint) = &s3.endpoint {
        builder = builder
            .with_allow_http(endpoint.starts_with("http://"))
            .with_endpoint(endpoint.trim_end_matches('/'));
    }
    builder.build().expect("checked settings make a client")
}

async fn get(store: &dyn ObjectStore, path: &Path) -> Result<Bytes> {
    step(async { store.get(path).await?.bytes().await }).await
}

/// One request to the store, with a deadline.
async fn step<T>(request: impl Future<Output = object_store::Result<T>>) -> Result<T> {
    match timeout(STEP, elsewhere(request)).await {
        Ok(answer) => answer.map_err(|error| (&error).into()),
        Err(_) => Err(ExportFailure::Silent),
    }
}

/// Runs file operations outside the async threads and with a deadline, because a network disk may
/// hang.
async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T> {
    match timeout(STEP, elsewhere(tokio::task::spawn_blocking(work))).await {
        Ok(Ok(done)) => done.map_err(|error| (&error).into()),
        Ok(Err(_)) => Err(ExportFailure::Failed(None)),
        Err(_) => Err(ExportFailure::Silent),
    }
}

/// Makes a folder that nobody else can read.
async fn make(folder: PathBuf) -> Result<()> {
    on_disk(move || {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
    })
    .await
}

/// Removes a folder with its files. If somebody writes another file into it meanwhile, it is tried
/// again. It is no error if the folder is not there.
fn remove_folder(folder: &path::Path) -> io::Result<()> {
    const TRIES: usize = 5;
    let mut removed = Ok(());
    for _ in 0..TRIES {
        removed = std::fs::remove_dir_all(folder);
        match &removed {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            _ => break,
        }
    }
    removed
}

async fn keep_to_ourselves(file: PathBuf) -> Result<()> {
    let mode = std::fs::Permissions::from_mode(0o600);
    on_disk(move || std::fs::set_permissions::<&path::Path>(&file, mode)).await
}

/// The failure that an error of the store means. Texts of stores are not passed on, because a
/// store that refuses a signature quotes what was signed.
impl From<&object_store::Error> for ExportFailure {
    fn from(error: &object_store::Error) -> Self {
        use object_store::Error;

        match error {
            // The store reports this for an object that does not exist and for a bucket that does not
            // exist.
            Error::NotFound { .. } if error.to_string().contains("NoSuchBucket") => {
                ExportFailure::NoPlace
            }
            Error::NotFound { .. } => ExportFailure::Missing,
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                ExportFailure::Refused
            }
            _ => {
                let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
                while let Some(error) = source {
                    if let Some(error) = error.downcast_ref::<HttpError>() {
                        return of_network(error);
                    }
                    if let Some(error) = error.downcast_ref::<io::Error>() {
                        return error.into();
                    }
                    source = error.source();
                }
                match status(&error.to_string()) {
                    Some(401 | 403) => ExportFailure::Refused,
                    Some(507) => ExportFailure::Full,
                    status => ExportFailure::Failed(status),
                }
            }
        }
    }
}

fn of_network(error: &HttpError) -> ExportFailure {
    use HttpErrorKind::{Connect, Interrupted, Timeout};

    match error.kind() {
        Connect | Interrupted | Timeout => ExportFailure::Silent,
        _ => ExportFailure::Failed(None),
    }
}

impl From<&io::Error> for ExportFailure {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                ExportFailure::Refused
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ExportFailure::Full,
            io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::IsADirectory => ExportFailure::NoPlace,
            io::ErrorKind::TimedOut => ExportFailure::Silent,
            _ => ExportFailure::Failed(None),
        }
    }
}

/// The status in an error text of the client, which does not expose the status in any other way.
fn status(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

fn status_text(status: Option<u16>) -> String {
    status.map_or_else(String::new, |status| format!(", status {status}"))
}
