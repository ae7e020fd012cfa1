//! The `connections` and `connection_shops` tables: the connections with providers, beside those that the settings make.
//!
//! What is secret of a connection is one JSON text, encrypted by AES-256-GCM with a key that is made of `SECRETS_KEY`
//! and the connection's name. So a copy of the database gives no secret away, and a row that somebody has written
//! under another name cannot be read.

use std::collections::{BTreeMap, BTreeSet};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use strum::{EnumString, IntoStaticStr};
use utoipa::ToSchema;

use crate::sql::{Db, Error, Result, Row, Tx, column};
use config::Config;
use config::connection::{
    Mailbox, PaymentConnection, Registry, StorefrontConnection, headers_of, keyed,
};
use domain::branding::Branding;
use domain::connection::DEFAULT;
use domain::job::Source;
use domain::profile::{
    GENERIC, GENERIC_PAYMENT, Headers, OWN_HEADERS, PaymentProfile, Rate, StorefrontProfile,
    WrongHeaders, read_headers,
};
use domain::signature::Secrets;
use domain::time::Timestamp;
use platform::token::Token;
use providers::Api;

/// Which side of Waybill a provider is on.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, EnumString, IntoStaticStr, Serialize,
)]
#[strum(const_into_str, serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Side {
    Storefront,
    Payment,
}

/// A row, as operators see it. It has no secret.
#[derive(Clone, Debug)]
pub struct Connection {
    pub name: String,
    pub side: Side,
    pub provider: String,
    pub headers: Option<String>,
    pub shops: Vec<String>,
    pub account: Option<String>,
    /// The connection whose payments pay for its orders.
    pub payments: Option<String>,
    pub rate: Option<i64>,
    /// Who writes to the buyers of its shops.
    pub sender: Option<String>,
    /// How its shops present themselves to their buyers.
    pub branding: Branding,
    pub api_url: Option<String>,
    pub sealed: Option<Sealed>,
    /// The fingerprints of the signing secrets, the newest first.
    pub fingerprints: Vec<String>,
    pub former_until: Option<Timestamp>,
    pub created_at: Timestamp,
    pub changed_at: Timestamp,
    pub removed_at: Option<Timestamp>,
}

/// A connection as it is shown to operators and programs. It has no secret.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Connection)]
pub struct Overview {
    #[schema(example = "shop-b")]
    pub name: String,
    /// storefront, payment
    #[schema(value_type = String, example = "storefront")]
    pub side: Side,
    #[schema(example = "shopify")]
    pub provider: String,
    /// The shops that its secret proves.
    #[schema(example = json!(["shop-b.example"]))]
    pub shops: Vec<String>,
    /// The account of the payment provider, where its events name one.
    #[schema(example = json!(null))]
    pub account: Option<String>,
    /// The connection whose payments pay for the orders of its shops. Null: the one that the settings make.
    #[schema(example = "stripe-b")]
    pub payments: Option<String>,
    /// How many deliveries a second are taken. Null: as many as the profile says.
    #[schema(example = json!(null))]
    pub rate: Option<i64>,
    /// Who writes to the buyers of its shops. Null: the sender that the settings name.
    #[schema(example = "Shop B <orders@shop-b.example>")]
    pub sender: Option<String>,
    /// How its shops present themselves to their buyers: `display_name`, `contact`, `language` and `logo`, each of which may be null.
    #[schema(value_type = Object, example = json!({"display_name": "Shop B", "contact": "help@shop-b.example", "language": "de", "logo": "https://shop-b.example/logo.svg"}))]
    pub branding: Branding,
    #[schema(example = "https://shop-b.example")]
    pub api_url: Option<String>,
    /// Where its provider posts to.
    #[schema(example = "https://hooks.example.com/api/webhooks/storefront/shop-b")]
    pub address: String,
    /// ok, paused, or why its secrets cannot be read by the process that answers.
    #[schema(example = "ok")]
    pub state: String,
    /// Its signing secrets, the newest first.
    pub secrets: Vec<OverviewSecret>,
    pub created_at: Timestamp,
    pub changed_at: Timestamp,
}

/// One of the signing secrets of a connection.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ConnectionSecret)]
pub struct OverviewSecret {
    /// By which operators distinguish secrets: the beginning of a keyed hash.
    #[schema(example = "1f0c9a3e")]
    pub fingerprint: String,
    /// Null: nothing was ever verified with it.
    pub verified_at: Option<Timestamp>,
    /// Until when it is accepted. Null for the newest.
    pub until: Option<Timestamp>,
}

/// What is secret of a connection. Debug does not show it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    /// The signing secrets, the newest first.
    pub signing: Vec<String>,
    pub api_token: Option<String>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({} hidden)", self.signing.len())
    }
}

/// A secret, encrypted, and the fingerprint of the key that it is encrypted with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    text: Vec<u8>,
    pub key: String,
}

/// Why the secrets of a connection cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("SECRETS_KEY is not set")]
    NoKey,
    #[error(
        "its secrets are encrypted with the key {0}, which is not in SECRETS_KEY: set that key too, or give the \
         connection its secrets anew with `waybill connections rotate`"
    )]
    OtherKey(String),
    #[error("its secrets are damaged: give them anew with `waybill connections rotate`")]
    Damaged,
    #[error("{0:?} is no provider of this version")]
    Provider(String),
    #[error("its headers cannot be read: {0}")]
    Headers(#[from] WrongHeaders),
    #[error("its secret is no key of Standard Webhooks")]
    NotAKey,
}

impl Sealed {
    /// Encrypts with the newest of these keys.
    pub fn new(
        keys: &[Token],
        name: &str,
        secret: &Secret,
    ) -> std::result::Result<Self, Unreadable> {
        let key = keys.first().ok_or(Unreadable::NoKey)?;
        let mut text = serde_json::to_vec(secret).map_err(|_| Unreadable::Damaged)?;
        let nonce = cipher(key, name)
            .and_then(|it| it.seal_in_place_append_tag(Aad::empty(), &mut text).ok())
            .ok_or(Unreadable::Damaged)?;
        Ok(Sealed {
            text: [nonce.as_ref().as_slice(), &text].concat(),
            key: fingerprint(key),
        })
    }

    /// Decrypts with that of these keys which it is encrypted with.
    pub fn open(&self, keys: &[Token], name: &str) -> std::result::Result<Secret, Unreadable> {
        if keys.is_empty() {
            return Err(Unreadable::NoKey);
        }
        let key = keys.iter().find(|key| fingerprint(key) == self.key);
        let key = key.ok_or_else(|| Unreadable::OtherKey(self.key.clone()))?;
        let open = || {
            let (nonce, text) = self.text.split_at_checked(NONCE_LEN)?;
            let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
            let mut text = text.to_vec();
            let opened = cipher(key, name)?.open_in_place(nonce, Aad::empty(), &mut text);
            serde_json::from_slice(opened.ok()?).ok()
        };
        open().ok_or(Unreadable::Damaged)
    }
}

/// By which operators distinguish keys: 8 hexadecimal digits of a hash of the key, too few to confirm a guess.
pub fn fingerprint(key: &Token) -> String {
    let hash = Sha256::new()
        .chain_update("waybill: fingerprint of a key of secrets:")
        .chain_update(key.expose())
        .finalize();
    hex::encode(&hash[..4])
}

fn cipher(key: &Token, name: &str) -> Option<RandomizedNonceKey> {
    let salt = Salt::new(HKDF_SHA256, b"waybill: secrets of connections");
    let key_of_name = salt.extract(key.expose().as_bytes());
    let mut bytes = [0; 32];
    let info = [name.as_bytes()];
    let expanded = key_of_name.expand(&info, HKDF_SHA256).ok()?;
    expanded.fill(&mut bytes).ok()?;
    RandomizedNonceKey::new(&AES_256_GCM, &bytes).ok()
}

/// The advisory lock of whoever adds a connection.
const LOCK: i64 = 0x636f_6e6e_6563_7400;

macro_rules! columns {
    () => {
        columns!("", "")
    };
    ($more:literal, $joined:literal) => {
        concat!(
            "select name, source, provider, headers, account, payments, rate, sender, branding, api_url, secrets,
                    fingerprints, key_fingerprint, former_until, created_at, changed_at, removed_at",
            $more,
            " from connections",
            $joined
        )
    };
}

fn read(row: &Row, shops: Vec<String>) -> Result<Connection> {
    let (name, side): (String, String) = (row.get("name")?, row.get("source")?);
    let (text, key) = (
        row.get::<Option<Vec<u8>>>("secrets")?,
        row.get("key_fingerprint")?,
    );
    let (fingerprints, branding): (String, String) =
        (row.get("fingerprints")?, row.get("branding")?);
    Ok(Connection {
        side: side
            .parse()
            .map_err(|_| Error::Decode("an unknown side".into()))?,
        shops,
        provider: row.get("provider")?,
        headers: row.get("headers")?,
        account: row.get("account")?,
        payments: row.get("payments")?,
        rate: row.get("rate")?,
        sender: row.get("sender")?,
        branding: serde_json::from_str(&branding).unwrap_or_default(),
        api_url: row.get("api_url")?,
        sealed: text.map(|text| Sealed { text, key }),
        fingerprints: fingerprints
            .split_whitespace()
            .map(ToOwned::to_owned)
            .collect(),
        former_until: row.get("former_until")?,
        created_at: row.get("created_at")?,
        changed_at: row.get("changed_at")?,
        removed_at: row.get("removed_at")?,
        name,
    })
}

/// Which connections there are, in the sequence of their changes. Those that were removed are among them. One statement
/// reads them with their shops, so that nobody sees a connection whose shops are not there yet.
pub async fn all(db: &Db) -> Result<Vec<Connection>> {
    let rows = db
        .query(columns!(
            ", shop",
            " left join connection_shops on connection = name order by created_at, name, added_at, shop"
        ))
        .fetch_all()
        .await?;
    let mut all: Vec<Connection> = Vec::new();
    for row in &rows {
        let name: String = row.get("name")?;
        let shop: Option<String> = row.get("shop")?;
        match all.last_mut() {
            Some(last) if last.name == name => last.shops.extend(shop),
            _ => all.push(read(row, shop.into_iter().collect())?),
        }
    }
    Ok(all)
}

/// A number that is another one after each change of any connection. It is all that a process asks for regularly.
pub async fn revision(db: &Db) -> Result<i64> {
    db.query("select cast(coalesce(sum(revision), 0) as bigint) as revision from connections")
        .fetch_one()
        .await?
        .get("revision")
}

/// The connections with a payment provider whose payments pay for the orders of a shop.
pub async fn paying_for(db: &Db, shop: &str) -> Result<BTreeSet<String>> {
    let rows: Vec<(String, Option<Timestamp>)> = db
        .query(
            "select coalesce(payments, $1) as payments, removed_at from connections
             where name in (select connection from connection_shops where shop = $2)",
        )
        .bind(DEFAULT)
        .bind(shop)
        .all(|row| Ok((row.get("payments")?, row.get("removed_at")?)))
        .await?;
    let has_one = rows.iter().any(|(_, removed_at)| removed_at.is_none());
    let mut of_shop: BTreeSet<String> = rows.into_iter().map(|(payments, _)| payments).collect();
    if !has_one {
        of_shop.insert(DEFAULT.to_owned());
    }
    Ok(of_shop)
}

/// The connections with storefronts whose orders a connection's payments pay for.
pub async fn paid_by(tx: &mut Tx, payments: &str) -> Result<Vec<String>> {
    tx.query(
        "select name from connections where payments = $1 and removed_at is null order by name",
    )
    .bind(payments)
    .all(|row| row.get("name"))
    .await
}

/// Whether there is a connection of this name.
pub async fn is_standing(db: &Db, name: &str) -> Result<bool> {
    db.query("select name from connections where name = $1 and removed_at is null")
        .bind(name)
        .is_any()
        .await
}

/// When the last connection of this side was added.
pub async fn last_added(db: &Db, source: Source) -> Result<Option<Timestamp>> {
    db.query("select max(created_at) as latest from connections where source = $1 and removed_at is null")
        .bind(source.into_str())
        .fetch_one()
        .await?
        .get("latest")
}

/// Whether a shop has a connection of its own.
pub async fn has_shop(db: &Db, shop: &str) -> Result<bool> {
    db.query(
        "select name from connections
         where removed_at is null and name in (select connection from connection_shops where shop = $1)",
    )
        .bind(shop)
        .is_any()
        .await
}

/// Lets no other transaction that takes this lock add a connection until this one ends.
pub async fn lock_all(tx: &mut Tx) -> Result<()> {
    tx.lock(LOCK).await
}

/// A connection whose row nobody else changes before the transaction ends.
pub async fn lock(tx: &mut Tx, name: &str) -> Result<Option<Connection>> {
    let row = tx
        .query(concat!(columns!(), " where name = $1 for update"))
        .bind(name)
        .fetch_optional()
        .await?;
    let shops = tx
        .query("select shop from connection_shops where connection = $1 order by added_at, shop")
        .bind(name)
        .all(|row| row.get("shop"))
        .await?;
    row.map(|row| read(&row, shops)).transpose()
}

/// The connections that a shop has, the one that was added last first.
pub async fn of_shop(tx: &mut Tx, shop: &str) -> Result<Vec<String>> {
    tx.query(
        "select connection from connection_shops
         where shop = $1 and connection in (select name from connections where removed_at is null)
         order by added_at desc, connection",
    )
    .bind(shop)
    .all(|row| row.get("connection"))
    .await
}

/// The connection that an account has.
pub async fn of_account(tx: &mut Tx, account: &str) -> Result<Option<String>> {
    tx.query("select name from connections where account = $1 and removed_at is null")
        .bind(account)
        .first(|row| row.get("name"))
        .await
}

/// Writes a connection, a new one or one that was locked.
pub async fn save(tx: &mut Tx, connection: &Connection) -> Result<()> {
    let sealed = connection.sealed.as_ref();
    let branding =
        serde_json::to_string(&connection.branding).map_err(|error| Error::Decode(error.into()))?;
    let row = [
        column("name", &connection.name),
        column("source", connection.side.into_str()),
        column("provider", &connection.provider),
        column("headers", &connection.headers),
        column("account", &connection.account),
        column("payments", &connection.payments),
        column("rate", connection.rate),
        column("sender", &connection.sender),
        column("branding", branding),
        column("api_url", &connection.api_url),
        column("secrets", sealed.map(|sealed| sealed.text.clone())),
        column("fingerprints", connection.fingerprints.join(" ")),
        column(
            "key_fingerprint",
            sealed.map(|sealed| sealed.key.clone()).unwrap_or_default(),
        ),
        column("former_until", connection.former_until),
        column("revision", 1_i64),
        column("created_at", connection.created_at),
        column("changed_at", connection.changed_at),
        column("removed_at", connection.removed_at),
    ];
    tx.insert(
        "connections",
        vec![row],
        "on conflict (name) do update set source = excluded.source, provider = excluded.provider,
             headers = excluded.headers, account = excluded.account, payments = excluded.payments,
             rate = excluded.rate, sender = excluded.sender, branding = excluded.branding,
             api_url = excluded.api_url, secrets = excluded.secrets,
             fingerprints = excluded.fingerprints, key_fingerprint = excluded.key_fingerprint,
             former_until = excluded.former_until, revision = connections.revision + 1,
             created_at = excluded.created_at, changed_at = excluded.changed_at,
             removed_at = excluded.removed_at",
    )
    .await?;
    let known: Vec<String> = tx
        .query("select shop from connection_shops where connection = $1")
        .bind(connection.name.as_str())
        .all(|row| row.get("shop"))
        .await?;
    let gone = known
        .into_iter()
        .filter(|it| !connection.shops.contains(it));
    let gone: Vec<String> = gone.collect();
    if !gone.is_empty() {
        tx.query("delete from connection_shops where connection = $1 and shop in ($2..)")
            .bind(connection.name.as_str())
            .bind(gone)
            .done()
            .await?;
    }
    let shops = connection.shops.iter().map(|shop| {
        [
            column("shop", shop),
            column("connection", &connection.name),
            column("added_at", connection.changed_at),
        ]
    });
    let shops: Vec<_> = shops.collect();
    if !shops.is_empty() {
        tx.insert(
            "connection_shops",
            shops,
            "on conflict (shop, connection) do nothing",
        )
        .await?;
    }
    Ok(())
}

impl Connection {
    /// Ends it: its secrets, its sender and its branding are deleted. Whose it was stays known, so that what came by it goes to nobody else.
    pub fn remove(&mut self, now: Timestamp) {
        self.sealed = None;
        self.sender = None;
        self.branding = Branding::default();
        self.fingerprints.clear();
        self.former_until = None;
        self.changed_at = now;
        self.removed_at = Some(now);
    }
}

/// Takes a shop out of the connections that it had by then, and removes those that have no other.
pub async fn forget_shop(tx: &mut Tx, shop: &str, until: Timestamp, now: Timestamp) -> Result<()> {
    let names: Vec<String> = tx
        .query("select connection from connection_shops where shop = $1 and added_at <= $2 order by connection")
        .bind(shop)
        .bind(until.0)
        .all(|row| row.get("connection"))
        .await?;
    for name in names {
        tx.query("delete from connection_shops where shop = $1 and connection = $2")
            .bind(shop)
            .bind(name.as_str())
            .done()
            .await?;
        let Some(mut connection) = lock(tx, &name).await? else {
            continue;
        };
        connection.changed_at = now;
        if connection.shops.is_empty() {
            connection.remove(now);
        }
        save(tx, &connection).await?;
    }
    Ok(())
}

/// What connections come to in a process with these keys.
#[derive(Debug)]
pub struct Loaded {
    pub registry: Registry,
    /// Those whose secrets cannot be read, and why. They verify nothing and call nobody.
    pub unreadable: BTreeMap<String, Unreadable>,
    /// When the next secret ends.
    pub next_end: Option<Timestamp>,
}

/// Reads all connections.
pub fn registry(config: &Config, all: &[Connection], now: Timestamp) -> Loaded {
    let mut registry = Registry::new(config);
    let mut unreadable = BTreeMap::new();
    for removed in all
        .iter()
        .filter(|it| it.removed_at.is_some() && it.side == Side::Storefront)
    {
        registry.add_removed(unread_storefront(removed));
    }
    let standing = all.iter().filter(|it| it.removed_at.is_none());
    let mut standing: Vec<&Connection> = standing.collect();
    // A shop that moves has two connections, and calls go through the one that was added last.
    standing.sort_by_key(|it| it.created_at);
    for connection in &standing {
        let mut problem = |problem: Unreadable| unreadable.insert(connection.name.clone(), problem);
        let opened = match &connection.sealed {
            Some(sealed) => sealed.open(&config.secrets_keys, &connection.name),
            None => Err(Unreadable::Damaged),
        };
        let mut secret = opened.unwrap_or_else(|why| {
            problem(why);
            Secret::default()
        });
        if connection.former_until.is_some_and(|until| until <= now) {
            secret.signing.truncate(1);
        }
        match connection.side {
            Side::Storefront => match storefront(connection, secret) {
                Ok((connection, why)) => {
                    why.map(&mut problem);
                    registry.add_storefront(connection);
                }
                // Its shops stay its own.
                Err(why) => {
                    problem(why);
                    registry.add_storefront(unread_storefront(connection));
                }
            },
            Side::Payment => match payment(connection, secret) {
                Ok((connection, why)) => {
                    why.map(&mut problem);
                    registry.add_payment(connection);
                }
                Err(why) => {
                    problem(why);
                    registry.add_payment(unread_payment(connection));
                }
            },
        }
    }
    let ends = standing.iter().filter_map(|it| it.former_until);
    Loaded {
        registry,
        unreadable,
        next_end: ends.filter(|end| *end > now).min(),
    }
}

/// The rest of a connection when its secrets do not fit counts all the same, so that no other connection gets its shops.
type Read<T> = std::result::Result<(T, Option<Unreadable>), Unreadable>;

fn storefront(row: &Connection, secret: Secret) -> Read<StorefrontConnection> {
    let profile = StorefrontProfile::named(&row.provider);
    let profile = profile.ok_or_else(|| Unreadable::Provider(row.provider.clone()))?;
    let (secrets, why) = or_none(keyed(profile.scheme, secret.signing).ok());
    let connection = StorefrontConnection {
        name: row.name.clone(),
        profile,
        headers: headers(profile, row.headers.as_deref())?,
        secrets,
        shops: row.shops.clone(),
        api: api(row, secret.api_token),
        is_called: row.api_url.is_some() && profile.api.fulfils(),
        duplicate_status: profile.duplicate_status,
        rate: rate(row, profile.rate),
        sender: sender(row),
        branding: row.branding.clone(),
        payments: row.payments.clone().unwrap_or_else(|| DEFAULT.to_owned()),
    };
    Ok((connection, why))
}

fn payment(row: &Connection, secret: Secret) -> Read<PaymentConnection> {
    let profile = PaymentProfile::named(&row.provider);
    let profile = profile.ok_or_else(|| Unreadable::Provider(row.provider.clone()))?;
    let (secrets, why) = or_none(keyed(profile.scheme, secret.signing).ok());
    let connection = PaymentConnection {
        name: row.name.clone(),
        profile,
        secrets,
        account: row.account.clone(),
        api: api(row, secret.api_token),
        is_called: row.api_url.is_some(),
        rate: rate(row, profile.rate),
    };
    Ok((connection, why))
}

fn sender(row: &Connection) -> Option<Mailbox> {
    row.sender.as_ref()?.parse().ok()
}

/// A connection of which nothing but whose it is can be read: it verifies nothing and calls nobody.
fn unread_storefront(row: &Connection) -> StorefrontConnection {
    StorefrontConnection {
        name: row.name.clone(),
        profile: &GENERIC,
        headers: headers_of(&GENERIC),
        secrets: Secrets::none(),
        shops: row.shops.clone(),
        api: None,
        is_called: row.api_url.is_some(),
        duplicate_status: GENERIC.duplicate_status,
        rate: rate(row, GENERIC.rate),
        sender: sender(row),
        branding: row.branding.clone(),
        payments: row.payments.clone().unwrap_or_else(|| DEFAULT.to_owned()),
    }
}

/// The same of a payment provider.
fn unread_payment(row: &Connection) -> PaymentConnection {
    PaymentConnection {
        name: row.name.clone(),
        profile: &GENERIC_PAYMENT,
        secrets: Secrets::none(),
        account: row.account.clone(),
        api: None,
        is_called: row.api_url.is_some(),
        rate: rate(row, GENERIC_PAYMENT.rate),
    }
}

fn or_none(secrets: Option<Secrets>) -> (Secrets, Option<Unreadable>) {
    match secrets {
        Some(secrets) => (secrets, None),
        None => (Secrets::none(), Some(Unreadable::NotAKey)),
    }
}

/// The names of the headers, by the profile or of the connection's own.
pub fn headers(
    profile: &StorefrontProfile,
    own: Option<&str>,
) -> std::result::Result<Headers<config::connection::HeaderName>, WrongHeaders> {
    if profile.name != OWN_HEADERS.name {
        return Ok(headers_of(profile));
    }
    config::connection::named(&read_headers(own.unwrap_or_default())?)
}

fn api(row: &Connection, token: Option<String>) -> Option<Api> {
    Some(Api {
        url: row.api_url.clone()?,
        token: Token::new(token?),
        connection: Some(row.name.clone()),
    })
}

fn rate(row: &Connection, of_profile: Rate) -> Rate {
    let given = row.rate.and_then(|rate| u32::try_from(rate).ok());
    Rate {
        per_second: given.unwrap_or(of_profile.per_second),
        ..of_profile
    }
}
