//! Settings of privacy requests: the key, the store of exports, and how long exports are kept and
//! erasures of shops are held.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;

use super::Reader;
use platform::token::Token;
use providers::exports::{ExportStore, S3};

const DAY: u64 = 86_400;
const KEY: &str = "PRIVACY_KEY";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Privacy {
    /// `None`: the database is a SQLite file and has made its own key.
    pub key: Option<Token>,
    pub exports: ExportStore,
    pub export_retention: Duration,
    /// How long an operator may cancel the erasure of a shop.
    pub shop_hold: Duration,
}

impl Reader<'_> {
    pub(super) fn privacy(&mut self) -> Option<Privacy> {
        let key = match self.settings.get(KEY) {
            Some(_) => Some(self.privacy_key()?),
            None => None,
        };
        let exports = self.export_store();
        let retention = self.number("PRIVACY_EXPORT_RETENTION_DAYS", 1, 3650);
        let hold = self.number("PRIVACY_SHOP_REDACT_HOLD_SECONDS", 0, 2_000_000);
        Some(Privacy {
            key,
            exports: exports?,
            export_retention: Duration::from_secs(u64::from(retention?) * DAY),
            shop_hold: Duration::from_secs(u64::from(hold?)),
        })
    }

    /// People who can read the tables of a database server must not be able to make signatures and
    /// hashes with the key. So with PostgreSQL the key is not in the database, and must be set.
    pub(super) fn needs_privacy_key(&mut self, database_url: &str) {
        if !database_url.starts_with("sqlite:") && self.settings.get(KEY).is_none() {
            self.wrong(
                KEY,
                "is missing; with PostgreSQL it must be set: openssl rand -hex 32. If the \
                 database was used without it, the database has made a key: take that one out \
                 with `waybill privacy key --output FILE` and set PRIVACY_KEY_FILE to the file",
            );
        }
    }

    fn privacy_key(&mut self) -> Option<Token> {
        let text = self.text(KEY)?;
        let key = text.trim();
        if key.len() < 32 {
            self.wrong(
                KEY,
                "has less than 32 characters; make one with: openssl rand -hex 32",
            );
            return None;
        }
        Some(Token::new(key))
    }

    fn export_store(&mut self) -> Option<ExportStore> {
        const NAME: &str = "PRIVACY_EXPORT_URL";
        let text = self.text(NAME)?;
        let text = text.trim();
        if let Some(folder) = text.strip_prefix("file://") {
            if folder.trim_matches('/').is_empty() || folder.contains('\0') {
                self.wrong(NAME, "must name a folder after file://");
                return None;
            }
            return Some(ExportStore::Folder(PathBuf::from(folder)));
        }
        let url = Url::parse(text).ok().filter(|url| {
            url.scheme() == "s3"
                && url.username().is_empty()
                && url.password().is_none()
                && url.query().is_none()
                && url.fragment().is_none()
        });
        let Some((url, bucket)) = url.and_then(|url| {
            let bucket = url.host_str()?.to_owned();
            Some((url, bucket))
        }) else {
            self.wrong(NAME, "must be file://FOLDER or s3://BUCKET/PREFIX");
            return None;
        };
        let region = self.text("PRIVACY_EXPORT_S3_REGION");
        let endpoint = match self.settings.get("PRIVACY_EXPORT_S3_ENDPOINT") {
            Some(_) => Some(self.url("PRIVACY_EXPORT_S3_ENDPOINT")?),
            None => None,
        };
        if let Some(endpoint) = &endpoint {
            self.encrypted_or_allowed("PRIVACY_EXPORT_S3_ENDPOINT", endpoint);
        }
        let mut credential = |name: &'static str| {
            if self.settings.get(name).is_none() {
                self.wrong(name, format_args!("is missing; {NAME} needs it"));
                return None;
            }
            self.visible(name, 255)
        };
        let id = credential("PRIVACY_EXPORT_S3_ACCESS_KEY_ID");
        let secret = credential("PRIVACY_EXPORT_S3_SECRET_ACCESS_KEY");
        Some(ExportStore::S3(S3 {
            bucket,
            prefix: url.path().trim_matches('/').to_owned(),
            endpoint,
            region: region?,
            access_key_id: id?,
            secret_access_key: Token::new(secret?),
        }))
    }
}
