//! What operators do to connections: each change with its entry in the audit.

use std::str::FromStr as _;
use std::time::Duration;

use config::connection::{Mailbox, is_api_url, keyed};
use domain::branding::{self, Branding, WrongBranding};
use domain::connection::{NotAName, PAYMENT_PATH, STOREFRONT_PATH, address, check_name};
use domain::job::Source;
use domain::pause::Target;
use domain::profile::{
    self, OWN_HEADERS, PaymentProfile, StorefrontApi, StorefrontProfile, WrongHeaders,
};
use domain::time::Timestamp;
use platform::token::Token;
use providers::{ProbeError, Probed};
use serde::Deserialize;
use serde_json::json;
use store::audit::By;
use store::connections::{
    self, Connection, Overview, OverviewSecret, Sealed, Secret, Side, Unreadable,
};
use store::sql::{self, Db, Tx};
use store::{pauses, reconciliations, signing_secrets};

/// How long the former secret is accepted by default: as long as providers repeat a delivery.
pub const OVERLAP: Duration = Duration::from_hours(72);
pub const LONGEST_OVERLAP: Duration = Duration::from_hours(30 * 24);
/// A signing secret with fewer characters could be guessed.
const SHORTEST: usize = 8;

/// Why a change was refused. No text has a secret.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("there is no connection of this name; `waybill connections list` shows them")]
    Unknown,
    #[error(transparent)]
    Name(#[from] NotAName),
    #[error("there is a connection of this name already")]
    NameTaken,
    #[error(
        "the name was that of another connection, which was removed, and ids of its payments end in it; choose another one"
    )]
    NameUsed,
    #[error("its payments pay for the orders of {0}; remove or change that first")]
    InUse(String),
    #[error(
        "its API token cannot be read any more: give the API anew too, with --api-url and --api-token-file"
    )]
    TokenLost,
    #[error("{0:?} is no provider of {1}; they are {2}")]
    Provider(String, &'static str, String),
    #[error("{0:?} is no shop domain such as shop.example")]
    Shop(String),
    #[error(
        "the shop {0} has the connection {1}; while it moves to another one pass --moves, and remove the former when nothing comes by it any more"
    )]
    ShopTaken(String, String),
    #[error("the shop {0} moves already, between {1}")]
    Moves(String, String),
    #[error("the account {0} has the connection {1}")]
    AccountTaken(String, String),
    #[error("an account has 1 to 255 visible characters")]
    Account,
    #[error("there is no connection {0} with a payment provider")]
    Payments(String),
    #[error("the secret is empty")]
    NoSecret,
    #[error("a secret has at least {SHORTEST} characters")]
    Short,
    #[error("the secret {0}")]
    NotAKey(#[from] domain::signature::NotAKey),
    #[error("the headers: {0}")]
    Headers(#[from] WrongHeaders),
    #[error("only the provider headers has names of headers of its own")]
    HeadersOfProfile,
    #[error("an API needs both its address and its token")]
    HalfApi,
    #[error("the token {}", StorefrontApi::NO_PAIR)]
    NoPair,
    #[error("the token is not printable ASCII without spaces")]
    Token,
    #[error("the sender must be an address like Shop <orders@shop.example>")]
    Sender,
    #[error(
        "a connection with a payment provider has no buyers, so it has neither sender nor branding"
    )]
    NoBuyers,
    #[error("the {0} {1}")]
    Branding(&'static str, WrongBranding),
    #[error("the API's address {0}")]
    Api(String),
    #[error(
        "SECRETS_KEY is not set: make one with openssl rand -hex 32, and give it to the service too"
    )]
    NoKey,
    #[error(transparent)]
    Unreadable(Unreadable),
    #[error(
        "{0} were encrypted with the newest key; the secrets of {1} cannot be read with any key that is set: set the one that \
         they are encrypted with, or give them anew with `waybill connections rotate`"
    )]
    Lost(usize, String),
    #[error("the former secret is accepted for at most 30 days")]
    Overlap,
    #[error("nothing is to be changed: give a secret, or a token of the API")]
    Nothing,
    #[error(transparent)]
    Database(#[from] sql::Error),
}

/// The connection that somebody wants to add.
#[derive(Clone, Default)]
pub struct Wanted {
    pub name: String,
    pub provider: String,
    pub headers: Option<String>,
    /// The shops of a storefront. A connection without shops is one with a payment provider.
    pub shops: Vec<String>,
    pub account: Option<String>,
    pub payments: Option<String>,
    /// What its buyers see, and how many deliveries a second are taken.
    pub changes: Changes,
    pub secret: String,
    pub api: Option<NewApi>,
    /// A shop may have another connection, which goes on until it is removed.
    pub moves: bool,
}

/// What of a connection can be changed without its provider noticing. `None`: it stays as it is. An empty text: it is as if
/// nothing had been said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Changes {
    pub rate: Option<u32>,
    /// Who writes to the buyers of its shops.
    pub sender: Option<String>,
    pub display_name: Option<String>,
    pub contact: Option<String>,
    pub language: Option<String>,
    pub logo: Option<String>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        *self == Changes::default()
    }

    /// The connection with these changes.
    fn apply(&self, connection: &mut Connection) -> Result<(), Refused> {
        let is_of_buyers = Changes {
            rate: None,
            ..self.clone()
        };
        if connection.side == Side::Payment && !is_of_buyers.is_empty() {
            return Err(Refused::NoBuyers);
        }
        if let Some(rate) = self.rate {
            connection.rate = Some(i64::from(rate));
        }
        if let Some(sender) = &self.sender {
            let sender = Some(sender.trim()).filter(|text| !text.is_empty());
            if let Some(sender) = sender {
                Mailbox::from_str(sender).map_err(|_| Refused::Sender)?;
            }
            connection.sender = sender.map(ToOwned::to_owned);
        }
        let Branding {
            display_name,
            contact,
            language,
            logo,
        } = &mut connection.branding;
        set(
            display_name,
            "display name",
            self.display_name.as_ref(),
            branding::name,
        )?;
        set(contact, "contact", self.contact.as_ref(), branding::contact)?;
        set(
            language,
            "language",
            self.language.as_ref(),
            branding::language,
        )?;
        set(logo, "logo", self.logo.as_ref(), branding::logo)
    }
}

/// Sets a part of the branding to what is given, if anything is.
fn set<T>(
    part: &mut Option<T>,
    what: &'static str,
    given: Option<&String>,
    read: fn(&str) -> Result<T, WrongBranding>,
) -> Result<(), Refused> {
    let Some(given) = given else {
        return Ok(());
    };
    *part = match given.trim() {
        "" => None,
        text => Some(read(text).map_err(|wrong| Refused::Branding(what, wrong))?),
    };
    Ok(())
}

/// The API of a connection. Debug does not show the token.
#[derive(Clone, Debug)]
pub struct NewApi {
    pub url: String,
    pub token: Token,
}

/// What connections are sealed with, and where APIs may be without encryption.
pub struct Means<'a> {
    pub keys: &'a [Token],
    pub cleartext: &'a [String],
}

/// Adds a connection.
pub async fn add(db: &Db, by: By<'_>, means: &Means<'_>, wanted: Wanted) -> Result<(), Refused> {
    check_name(&wanted.name)?;
    let side = if wanted.shops.is_empty() {
        Side::Payment
    } else {
        Side::Storefront
    };
    let mut shops: Vec<String> = wanted
        .shops
        .iter()
        .map(|shop| shop.trim().to_ascii_lowercase())
        .collect();
    shops.sort();
    shops.dedup();
    if let Some(wrong) = shops.iter().find(|shop| !profile::is_shop(shop)) {
        return Err(Refused::Shop(wrong.clone()));
    }
    let is_visible = |text: &String| {
        (1..=255).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_graphic())
    };
    if wanted
        .account
        .as_ref()
        .is_some_and(|account| !is_visible(account))
    {
        return Err(Refused::Account);
    }
    let scheme = check_profile(side, &wanted)?;
    let fingerprints = check_secret(scheme, &wanted.secret)?;
    if let Some(api) = &wanted.api {
        check_api(api, means)?;
    }
    let secret = Secret {
        signing: vec![wanted.secret.clone()],
        api_token: wanted.api.as_ref().map(|api| api.token.expose().to_owned()),
    };
    let sealed = seal(means, &wanted.name, &secret)?;
    let mut new = Connection {
        name: wanted.name.clone(),
        side,
        provider: wanted.provider.clone(),
        headers: wanted.headers.clone(),
        shops,
        account: wanted.account.clone(),
        payments: wanted.payments.clone(),
        rate: None,
        sender: None,
        branding: Branding::default(),
        api_url: wanted.api.as_ref().map(|api| api.url.clone()),
        sealed: Some(sealed),
        fingerprints,
        former_until: None,
        created_at: by.now,
        changed_at: by.now,
        removed_at: None,
    };
    wanted.changes.apply(&mut new)?;
    let mut tx = db.begin().await?;
    if let Err(why) = check_free(&mut tx, side, &wanted, &new.shops).await {
        tx.rollback().await?;
        return Err(why);
    }
    connections::save(&mut tx, &new).await?;
    let details = json!({
        "provider": new.provider, "shops": new.shops, "account": new.account, "payments": new.payments,
        "has_sender": new.sender.is_some(), "has_contact": new.branding.contact.is_some(), "api_url": new.api_url,
    });
    note(&mut tx, by, "connection.added", &new, details).await?;
    Ok(tx.commit().await?)
}

/// Checks that no other connection has the name, a shop or the account, and that who is to pay is there. Until the
/// transaction ends no other one adds a connection.
async fn check_free(
    tx: &mut Tx,
    side: Side,
    wanted: &Wanted,
    shops: &[String],
) -> Result<(), Refused> {
    connections::lock_all(tx).await?;
    if let Some(known) = connections::lock(tx, &wanted.name).await? {
        if known.removed_at.is_none() {
            return Err(Refused::NameTaken);
        }
        // The ids of its payments have its name, so it stays that of the same account.
        let is_same = known.side == side
            && (side == Side::Storefront
                || (known.provider == wanted.provider && known.account == wanted.account));
        if !is_same {
            return Err(Refused::NameUsed);
        }
    }
    for shop in shops {
        let mut of_shop = connections::of_shop(tx, shop).await?;
        match of_shop.len() {
            0 => {}
            1 if wanted.moves => {}
            1 => return Err(Refused::ShopTaken(shop.clone(), of_shop.remove(0))),
            _ => return Err(Refused::Moves(shop.clone(), of_shop.join(" and "))),
        }
    }
    if let Some(account) = &wanted.account
        && let Some(name) = connections::of_account(tx, account).await?
    {
        return Err(Refused::AccountTaken(account.clone(), name));
    }
    if let Some(payments) = &wanted.payments {
        let known = connections::lock(tx, payments).await?;
        let is_known = known.is_some_and(|it| it.side == Side::Payment && it.removed_at.is_none());
        if !is_known || side == Side::Payment {
            return Err(Refused::Payments(payments.clone()));
        }
    }
    Ok(())
}

fn check_profile(side: Side, wanted: &Wanted) -> Result<domain::signature::Scheme, Refused> {
    let name = wanted.provider.as_str();
    if side == Side::Payment {
        let unknown = || {
            let all = profile::PAYMENTS.map(|it| it.name).join(", ");
            Refused::Provider(name.to_owned(), "payments (a storefront needs --shop)", all)
        };
        let profile = PaymentProfile::named(name).ok_or_else(unknown)?;
        return match wanted.headers {
            Some(_) => Err(Refused::HeadersOfProfile),
            None => Ok(profile.scheme),
        };
    }
    let unknown = || {
        let all = profile::STOREFRONTS.map(|it| it.name).join(", ");
        Refused::Provider(name.to_owned(), "a storefront", all)
    };
    let profile = StorefrontProfile::named(name).ok_or_else(unknown)?;
    if profile.name != OWN_HEADERS.name && wanted.headers.is_some() {
        return Err(Refused::HeadersOfProfile);
    }
    connections::headers(profile, wanted.headers.as_deref())?;
    check_token(profile, wanted.api.as_ref())?;
    Ok(profile.scheme)
}

fn check_token(profile: &StorefrontProfile, api: Option<&NewApi>) -> Result<(), Refused> {
    if api.is_some_and(|api| !profile.api.takes(api.token.expose())) {
        return Err(Refused::NoPair);
    }
    Ok(())
}

fn check_secret(scheme: domain::signature::Scheme, secret: &str) -> Result<Vec<String>, Refused> {
    if secret.trim().is_empty() {
        return Err(Refused::NoSecret);
    }
    if secret.len() < SHORTEST {
        return Err(Refused::Short);
    }
    Ok(keyed(scheme, vec![secret.to_owned()])?
        .fingerprints()
        .to_vec())
}

fn check_api(api: &NewApi, means: &Means<'_>) -> Result<(), Refused> {
    let token = api.token.expose();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Refused::Token);
    }
    is_api_url(&api.url, means.cleartext).map_err(Refused::Api)
}

fn seal(means: &Means<'_>, name: &str, secret: &Secret) -> Result<Sealed, Refused> {
    Sealed::new(means.keys, name, secret).map_err(|why| match why {
        Unreadable::NoKey => Refused::NoKey,
        why => Refused::Unreadable(why),
    })
}

/// Changes what its provider does not notice.
pub async fn change(
    db: &Db,
    by: By<'_>,
    name: &str,
    changes: &Changes,
) -> Result<Connection, Refused> {
    let mut tx = db.begin().await?;
    let known = standing(&mut tx, name).await;
    let changed = known.and_then(|known| {
        let mut connection = known.clone();
        changes.apply(&mut connection)?;
        let is_same = (connection.rate, &connection.sender, &connection.branding)
            == (known.rate, &known.sender, &known.branding);
        connection.changed_at = by.now;
        Ok((!is_same).then_some(connection).ok_or(known))
    });
    let connection = match changed {
        Ok(Ok(connection)) => connection,
        // Sent again, or without any, it is still so that the connection has these values.
        Ok(Err(known)) => {
            tx.rollback().await?;
            return Ok(known);
        }
        Err(why) => {
            tx.rollback().await?;
            return Err(why);
        }
    };
    connections::save(&mut tx, &connection).await?;
    let details = json!({
        "rate": connection.rate, "has_sender": connection.sender.is_some(),
        "has_contact": connection.branding.contact.is_some(), "language": connection.branding.language,
    });
    note(&mut tx, by, "connection.changed", &connection, details).await?;
    tx.commit().await?;
    Ok(connection)
}

/// What a connection is given anew.
#[derive(Clone, Default)]
pub struct Rotation {
    pub secret: Option<String>,
    pub api: Option<NewApi>,
    /// How long the former secret is accepted too.
    pub overlap: Duration,
}

/// Gives a connection another secret, or another API. Secrets that nobody can read any more are replaced.
pub async fn rotate(
    db: &Db,
    by: By<'_>,
    means: &Means<'_>,
    name: &str,
    new: Rotation,
) -> Result<Connection, Refused> {
    if new.secret.is_none() && new.api.is_none() {
        return Err(Refused::Nothing);
    }
    if new.overlap > LONGEST_OVERLAP {
        return Err(Refused::Overlap);
    }
    let mut tx = db.begin().await?;
    let known = standing(&mut tx, name).await;
    let changed = known.and_then(|known| Ok((rotated(known.clone(), by.now, means, &new)?, known)));
    let connection = match changed {
        Ok((Some(changed), _)) => changed,
        Ok((None, known)) => {
            tx.rollback().await?;
            return Ok(known);
        }
        Err(why) => {
            tx.rollback().await?;
            return Err(why);
        }
    };
    connections::save(&mut tx, &connection).await?;
    let details = json!({
        "secret": new.secret.is_some(), "api": new.api.is_some(), "former_until": connection.former_until,
    });
    note(&mut tx, by, "connection.rotated", &connection, details).await?;
    tx.commit().await?;
    Ok(connection)
}

/// A connection with what it is given anew. `None`: it has all of that already.
fn rotated(
    mut connection: Connection,
    now: Timestamp,
    means: &Means<'_>,
    new: &Rotation,
) -> Result<Option<Connection>, Refused> {
    let name = connection.name.clone();
    let sealed = connection.sealed.take();
    let opened = sealed
        .ok_or(Unreadable::Damaged)
        .and_then(|it| it.open(means.keys, &name));
    let mut secret = match opened {
        Ok(secret) => secret,
        Err(Unreadable::NoKey) => return Err(Refused::NoKey),
        // Another key: the secrets are lost, and those that are given take their place.
        Err(_) if new.secret.is_some() && connection.api_url.is_some() && new.api.is_none() => {
            return Err(Refused::TokenLost);
        }
        Err(_) if new.secret.is_some() => Secret::default(),
        Err(why) => return Err(Refused::Unreadable(why)),
    };
    // Sent again, it is still so that the connection has this secret.
    let is_same = new
        .secret
        .as_ref()
        .is_some_and(|it| secret.signing.first() == Some(it));
    let ends = now.plus(new.overlap);
    let ends_sooner = is_same && connection.former_until.is_some_and(|until| until > ends);
    if is_same && new.api.is_none() && !ends_sooner {
        return Ok(None);
    }
    if ends_sooner {
        connection.former_until = Some(ends);
    }
    if ends_sooner && new.overlap.is_zero() {
        secret.signing.truncate(1);
        connection.fingerprints.truncate(1);
        connection.former_until = None;
    }
    if let Some(signing) = new.secret.as_ref().filter(|_| !is_same) {
        let scheme = match connection.side {
            Side::Storefront => StorefrontProfile::named(&connection.provider).map(|it| it.scheme),
            Side::Payment => PaymentProfile::named(&connection.provider).map(|it| it.scheme),
        };
        let unknown = || Refused::Unreadable(Unreadable::Provider(connection.provider.clone()));
        let fingerprints = check_secret(scheme.ok_or_else(unknown)?, signing)?;
        let keeps = !new.overlap.is_zero() && !secret.signing.is_empty();
        secret.signing.truncate(usize::from(keeps));
        secret.signing.insert(0, signing.clone());
        connection.fingerprints.truncate(usize::from(keeps));
        connection.fingerprints.splice(0..0, fingerprints);
        connection.former_until = keeps.then(|| now.plus(new.overlap));
    }
    if let Some(api) = &new.api {
        check_api(api, means)?;
        let profile = StorefrontProfile::named(&connection.provider);
        if let Some(profile) = profile.filter(|_| connection.side == Side::Storefront) {
            check_token(profile, Some(api))?;
        }
        secret.api_token = Some(api.token.expose().to_owned());
        connection.api_url = Some(api.url.clone());
    }
    connection.sealed = Some(seal(means, &name, &secret)?);
    connection.changed_at = now;
    Ok(Some(connection))
}

/// Removes a connection with its secrets. What came by it is worked on all the same, and calls to it are refused.
pub async fn remove(db: &Db, by: By<'_>, name: &str) -> Result<(), Refused> {
    let mut tx = db.begin().await?;
    let mut connection = match removable(&mut tx, name).await {
        Ok(connection) => connection,
        Err(why) => {
            tx.rollback().await?;
            return Err(why);
        }
    };
    let shops = connection.shops.clone();
    connection.remove(by.now);
    connections::save(&mut tx, &connection).await?;
    reconciliations::forget_connection(&mut tx, name).await?;
    let details = json!({ "shops": shops });
    note(&mut tx, by, "connection.removed", &connection, details).await?;
    Ok(tx.commit().await?)
}

/// Encrypts all secrets with the newest of the keys. Returns how many were encrypted with another one.
pub async fn reseal(db: &Db, by: By<'_>, means: &Means<'_>) -> Result<usize, Refused> {
    let newest = means.keys.first().ok_or(Refused::NoKey)?;
    let newest = connections::fingerprint(newest);
    let (mut resealed, mut lost) = (0, Vec::new());
    for found in connections::all(db).await? {
        if found.sealed.is_none_or(|it| it.key == newest) {
            continue;
        }
        let mut tx = db.begin().await?;
        let Some(mut connection) = connections::lock(&mut tx, &found.name).await? else {
            continue;
        };
        let Some(sealed) = connection.sealed.take() else {
            continue;
        };
        let name = connection.name.clone();
        let Ok(secret) = sealed.open(means.keys, &name) else {
            lost.push(name);
            continue;
        };
        connection.sealed = Some(seal(means, &name, &secret)?);
        connection.changed_at = by.now;
        connections::save(&mut tx, &connection).await?;
        note(
            &mut tx,
            by,
            "connection.resealed",
            &connection,
            json!({ "key": newest }),
        )
        .await?;
        tx.commit().await?;
        resealed += 1;
    }
    if lost.is_empty() {
        Ok(resealed)
    } else {
        Err(Refused::Lost(resealed, lost.join(", ")))
    }
}

/// All connections as they are shown, by name.
pub async fn overviews(
    db: &Db,
    keys: &[Token],
    public_url: &str,
    now: Timestamp,
) -> sql::Result<Vec<Overview>> {
    let verified = signing_secrets::verified_at(db).await?;
    let paused = pauses::in_force(db, now).await?;
    let all = connections::all(db).await?;
    let standing = all.into_iter().filter(|it| it.removed_at.is_none());
    let shown = standing.map(|it| {
        let (source, path) = match it.side {
            Side::Storefront => (Source::Storefront, STOREFRONT_PATH),
            Side::Payment => (Source::Payment, PAYMENT_PATH),
        };
        let target = Target::Connection(it.name.clone());
        let opened = it.sealed.as_ref().map(|sealed| sealed.open(keys, &it.name));
        let state = match opened {
            _ if paused.iter().any(|pause| pause.target == target) => "paused".to_owned(),
            Some(Ok(_)) => "ok".to_owned(),
            Some(Err(why)) => why.to_string(),
            None => "without secrets".to_owned(),
        };
        let secrets = it.fingerprints.into_iter().enumerate();
        let secrets = secrets.map(|(place, fingerprint)| OverviewSecret {
            verified_at: verified.get(&(source, fingerprint.clone())).copied(),
            fingerprint,
            until: it.former_until.filter(|_| place > 0),
        });
        Overview {
            address: address(public_url, path, Some(&it.name)),
            secrets: secrets.collect(),
            state,
            name: it.name,
            side: it.side,
            provider: it.provider,
            shops: it.shops,
            account: it.account,
            payments: it.payments,
            rate: it.rate,
            sender: it.sender,
            branding: it.branding,
            api_url: it.api_url,
            created_at: it.created_at,
            changed_at: it.changed_at,
        }
    });
    let mut shown: Vec<Overview> = shown.collect();
    shown.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(shown)
}

/// Whether a provider accepts a token, by what it answers to a question that changes nothing. The error says why not.
pub fn accepts_token(answer: Result<Probed, ProbeError>) -> Result<(), String> {
    match answer {
        Ok(Probed {
            status: status @ (401 | 403),
            ..
        }) => Err(format!("does not accept its token: it answered {status}")),
        Ok(Probed { status, .. }) if status >= 500 => Err(format!("answered {status}")),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// A connection that no other one needs.
async fn removable(tx: &mut Tx, name: &str) -> Result<Connection, Refused> {
    let connection = standing(tx, name).await?;
    let paid = connections::paid_by(tx, name).await?;
    if paid.is_empty() {
        Ok(connection)
    } else {
        Err(Refused::InUse(paid.join(", ")))
    }
}

async fn standing(tx: &mut Tx, name: &str) -> Result<Connection, Refused> {
    let found = connections::lock(tx, name).await?;
    found
        .filter(|it| it.removed_at.is_none())
        .ok_or(Refused::Unknown)
}

async fn note(
    tx: &mut Tx,
    by: By<'_>,
    action: &str,
    connection: &Connection,
    details: serde_json::Value,
) -> sql::Result<()> {
    let shop = match connection.shops.as_slice() {
        [only] => Some(only.as_str()),
        _ => None,
    };
    by.note_of_shop(tx, shop, action, &connection.name, details)
        .await
}
