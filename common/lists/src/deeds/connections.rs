//! What is done to connections.

use std::time::Duration;

use domain::api_key::Role;
use domain::branding::Language;
use domain::pause::Target;
use operators::connections::{self as flow, Changes, Means, NewApi, Rotation, Wanted};
use platform::token::Token;
use platform::zone;
use serde_json::json;
use store::connections::{self, Overview, Side};

use super::pauses::{self, BEGUN, ENDED};
use super::{About, Deed, Desk, Done, Looked, Refused, Site};
use crate::age;
use crate::providers::whose;
use crate::shown::Cell;

const ADDED: &str = "The connection was added. All processes know it within a second.";
const CHANGED: &str = "The connection was changed. All processes know it within a second.";
const ROTATED: &str =
    "The connection was changed. The page says until when the former secret is accepted too.";
const REMOVED: &str =
    "The connection was removed. Its address answers 404; take the webhooks away at the provider.";

fn page(name: &str) -> String {
    format!("/connections/{name}")
}

impl From<flow::Refused> for Refused {
    fn from(refused: flow::Refused) -> Self {
        match refused {
            flow::Refused::Unknown => Refused::Unknown("connection", refused.to_string()),
            flow::Refused::Database(error) => error.into(),
            refused => Refused::Wrong(refused.to_string()),
        }
    }
}

/// The connection of this name.
pub async fn find(site: &Site<'_>, name: &str) -> Result<Overview, Refused> {
    let (keys, url) = (
        site.configured.secrets_keys()?,
        site.configured.public_url()?,
    );
    let all = flow::overviews(site.db, &keys, &url, site.now).await?;
    let found = all.into_iter().find(|it| it.name == name);
    Ok(found.ok_or(flow::Refused::Unknown)?)
}

/// With what the secrets of connections are encrypted.
struct Sealing {
    keys: Vec<Token>,
    cleartext: Vec<String>,
}

impl Sealing {
    fn of(desk: &Desk<'_>) -> Result<Self, Refused> {
        let configured = desk.site.configured;
        Ok(Sealing {
            keys: configured.secrets_keys()?,
            cleartext: configured.cleartext_hosts(),
        })
    }

    fn means(&self) -> Means<'_> {
        Means {
            keys: &self.keys,
            cleartext: &self.cleartext,
        }
    }
}

// The API of a provider. With a form it has the token itself, so it has no Debug. (A comment for the documentation would become the help of the command.)
#[derive(Clone, clap::Args)]
pub struct Api {
    /// The address of the provider's API
    #[arg(long, value_name = "URL", requires = "api_token")]
    pub api_url: Option<String>,
    /// The token of the API, of WooCommerce key:secret
    ///
    /// A command reads it from this file.
    #[arg(long = "api-token-file", value_name = "FILE", requires = "api_url", value_hint = clap::ValueHint::FilePath)]
    pub api_token: Option<String>,
}

impl Api {
    fn read(&self, desk: &Desk<'_>) -> Result<Option<NewApi>, Refused> {
        let Some((url, token)) = self.api_url.as_ref().zip(self.api_token.as_ref()) else {
            return Ok(None);
        };
        Ok(Some(NewApi {
            url: url.trim().trim_end_matches('/').to_owned(),
            token: Token::new((desk.secret)(token)?.trim()),
        }))
    }
}

/// Connect a provider: its secret, its shops or its account, and its API
///
/// With a shop it is a storefront, and without one a payment provider. The secret proves these shops, and no other: a
/// delivery that is signed with it and names another shop is refused. All processes know it within a second. SECRETS_KEY
/// must be set, for a command and for the service; the secrets are encrypted with it.
#[derive(Clone, clap::Args)]
pub struct Add {
    /// A name of lower-case letters, digits and hyphens, such as shop-b. It is never changed
    pub name: String,
    /// generic, shopify, woocommerce, headers, standard-webhooks; of payments generic, stripe, standard-webhooks
    #[arg(long, value_name = "PROVIDER")]
    pub provider: String,
    /// The domain of a shop that the secret proves. It may be repeated
    #[arg(long = "shop", value_name = "DOMAIN")]
    pub shops: Vec<String>,
    /// The account of the payment provider, where its events name one
    #[arg(long, conflicts_with = "shops")]
    pub account: Option<String>,
    /// The connection whose payments pay for the orders of the shops. Default: the one of the settings
    #[arg(long, value_name = "NAME", requires = "shops")]
    pub payments: Option<String>,
    /// The names of the provider's headers, of the provider headers: signature=..,id=..,topic=..,shop=..
    #[arg(long)]
    pub headers: Option<String>,
    #[command(flatten)]
    pub changes: Settings,
    /// The shop has a connection already and moves to this one. Both are accepted until the former is removed
    #[arg(long)]
    pub moves: bool,
    /// The signing secret, as the provider shows it
    ///
    /// A command reads it from this file; - is the input.
    #[arg(long = "secret-file", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub secret: String,
    #[command(flatten)]
    pub api: Api,
}

impl Deed for Add {
    const ABOUT: About = About::new("connections add", Role::Owner, "Add a connection")
        .like("NAME --provider PROVIDER --shop DOMAIN --secret-file FILE")
        .asks("Add a connection", "Add it")
        .undone_by("connections remove");
    const SAYS: &'static [&'static str] = &[ADDED];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let (sealing, name) = (Sealing::of(desk)?, self.name.clone());
        let wanted = Wanted {
            name: self.name,
            provider: self.provider,
            headers: self.headers,
            shops: self.shops,
            account: self.account,
            payments: self.payments,
            changes: self.changes.into(),
            secret: (desk.secret)(&self.secret)?,
            api: self.api.read(desk)?,
            moves: self.moves,
        };
        match flow::add(desk.site.db, desk.by, &sealing.means(), wanted).await {
            Ok(()) => {}
            // Sent again, or somebody else was first.
            Err(why @ flow::Refused::NameTaken) => {
                return Err(Refused::Changed(page(&name), why.to_string()));
            }
            Err(why) => return Err(why.into()),
        }
        let shown = find(&desk.site, &name).await?;
        let text = format!(
            "Connection {name} is added. Its provider posts to:\n{}\n",
            shown.address
        );
        Ok(Done::new(ADDED, page(&name), json!(shown)).text(text))
    }
}

// What of a connection can be changed without its provider noticing. An empty text takes a value away. (A comment for the
// documentation would become the help of the command.)
#[derive(Clone, Debug, clap::Args)]
pub struct Settings {
    /// How many deliveries a second are taken, of a shop or of the payment provider; 0: no limit
    #[arg(long, value_name = "PER SECOND")]
    pub rate: Option<u32>,
    /// Who writes to the buyers of the shops: Shop <orders@shop.example>. Default: MAIL_FROM
    #[arg(long, value_name = "ADDRESS")]
    pub sender: Option<String>,
    /// The name of the shops on their buyers' pages. Default: that of the sender, or the domain
    #[arg(long, value_name = "NAME")]
    pub display_name: Option<String>,
    /// Whom buyers may ask: an e-mail address, or a page. Default: the sender
    #[arg(long, value_name = "ADDRESS")]
    pub contact: Option<String>,
    /// The language of buyers' pages where there is none in the buyer's own: en, de, fr or es
    #[arg(long, value_name = "LANGUAGE")]
    pub language: Option<String>,
    /// The address of the shops' logo, which buyers' pages load
    #[arg(long, value_name = "URL")]
    pub logo: Option<String>,
}

impl From<Settings> for Changes {
    fn from(given: Settings) -> Self {
        Changes {
            rate: given.rate,
            sender: given.sender,
            display_name: given.display_name,
            contact: given.contact,
            language: given.language,
            logo: given.logo,
        }
    }
}

/// Change what buyers see of its shops, who writes to them, and how much is taken. An empty text takes a value away
///
/// All processes know it within a second. Its provider does not notice.
#[derive(Clone, Debug, clap::Args)]
pub struct Change {
    /// The name, from `waybill connections list`
    pub name: String,
    #[command(flatten)]
    pub settings: Settings,
}

impl Deed for Change {
    const ABOUT: About = About::new("connections change", Role::Owner, "Change")
        .of("name")
        .like("--display-name NAME")
        .asks("Change this connection?", "Change it")
        .takes_empty_texts();
    const SAYS: &'static [&'static str] = &[CHANGED];

    async fn look(site: &Site<'_>, target: &str) -> Result<Looked, Refused> {
        let it = find(site, target).await?;
        let (branding, text) = (&it.branding, |text: &Option<String>| {
            text.clone().unwrap_or_default()
        });
        Ok(Looked {
            given: vec![
                ("rate", it.rate.map_or(String::new(), |it| it.to_string())),
                ("sender", text(&it.sender)),
                ("display-name", text(&branding.display_name)),
                ("contact", text(&branding.contact)),
                (
                    "language",
                    branding.language.map_or("", Language::tag).to_owned(),
                ),
                ("logo", text(&branding.logo)),
            ],
            // A payment provider has no buyers.
            left_out: match it.side {
                Side::Storefront => &[],
                Side::Payment => &["sender", "display-name", "contact", "language", "logo"],
            },
            facts: facts(&it),
        })
    }

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let (name, changes) = (self.name, Changes::from(self.settings));
        if changes.is_empty() {
            let why =
                "what is to be changed? Give at least one value; an empty text takes a value away";
            return Err(Refused::Changed(page(&name), why.to_owned()));
        }
        flow::change(desk.site.db, desk.by, &name, &changes).await?;
        let shown = find(&desk.site, &name).await?;
        let text =
            format!("Connection {name} is changed. All processes know it within a second.\n");
        Ok(Done::new(CHANGED, page(&name), json!(shown)).text(text))
    }
}

fn facts(it: &Overview) -> Vec<(&'static str, Cell)> {
    vec![
        ("Connection", Cell::text(it.name.as_str())),
        ("Shop or account", Cell::text(whose(it))),
    ]
}

async fn look(site: &Site<'_>, name: &str) -> Result<Looked, Refused> {
    Ok(Looked {
        facts: facts(&find(site, name).await?),
        ..Looked::default()
    })
}

/// Give a connection another secret or API
///
/// The present secret is accepted for three days more, as long as providers repeat a delivery.
#[derive(Clone, clap::Args)]
pub struct Rotate {
    /// The name, from `waybill connections list`
    pub name: String,
    /// The new signing secret, as the provider shows it
    ///
    /// A command reads it from this file; - is the input.
    #[arg(long = "secret-file", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub secret: Option<String>,
    #[command(flatten)]
    pub api: Api,
    /// How long the former secret is accepted too: 1h, 2d, .. With 0s it ends at once
    #[arg(long, value_name = "AGE", value_parser = age::parse, default_value = "3d")]
    pub overlap: Duration,
}

impl Deed for Rotate {
    const ABOUT: About = About::new("connections rotate", Role::Owner, "Another secret")
        .of("name")
        .like("--secret-file FILE")
        .asks(
            "Give this connection another secret?",
            "Give it this secret",
        );
    const SAYS: &'static [&'static str] = &[ROTATED];

    async fn look(site: &Site<'_>, target: &str) -> Result<Looked, Refused> {
        look(site, target).await
    }

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let sealing = Sealing::of(desk)?;
        let secret = self.secret.as_deref();
        let rotation = Rotation {
            secret: secret.map(|it| (desk.secret)(it)).transpose()?,
            api: self.api.read(desk)?,
            overlap: self.overlap,
        };
        let (db, means) = (desk.site.db, sealing.means());
        let changed = flow::rotate(db, desk.by, &means, &self.name, rotation).await?;
        let (name, until) = (changed.name, changed.former_until);
        let former = until.map_or(String::new(), |until| {
            format!(
                " The former secret is accepted until {}.",
                zone::minute(until)
            )
        });
        let text = format!("Connection {name} is changed.{former}\n");
        let json = json!({"name": name, "former_secret_until": until});
        Ok(Done::new(ROTATED, page(&name), json).text(text))
    }
}

/// Let what came by a connection wait, and the calls to its provider, for at most seven days. Deliveries are accepted
#[derive(Clone, Debug, clap::Args)]
pub struct Pause {
    /// The name, from `waybill connections list`
    pub name: String,
    /// For how long, such as 30m, 2h or 3d
    #[arg(long = "for", value_name = "AGE", value_parser = age::parse, default_value = "1h")]
    pub length: Duration,
}

impl Deed for Pause {
    const ABOUT: About = About::new("connections pause", Role::Operator, "Pause")
        .of("name")
        .asks("Pause this connection?", "Pause it")
        .undone_by("connections resume");
    const SAYS: &'static [&'static str] = &[BEGUN];

    async fn look(site: &Site<'_>, target: &str) -> Result<Looked, Refused> {
        look(site, target).await
    }

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        if !connections::is_standing(desk.site.db, &self.name).await? {
            return Err(flow::Refused::Unknown.into());
        }
        let page = page(&self.name);
        pauses::begin(desk, Target::Connection(self.name), self.length, page).await
    }
}

/// Let a connection go on
#[derive(Clone, Debug, clap::Args)]
pub struct Resume {
    /// The name, from `waybill connections list`
    pub name: String,
}

impl Deed for Resume {
    const ABOUT: About = About::new("connections resume", Role::Operator, "Resume")
        .of("name")
        .undone_by("connections pause");
    const SAYS: &'static [&'static str] = &[ENDED];

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let page = page(&self.name);
        pauses::end(desk, &Target::Connection(self.name), page).await
    }
}

/// Remove a connection with its secrets
///
/// Its address answers 404 from then on. What came by it is worked on all the same, and calls to its provider are
/// refused.
#[derive(Clone, Debug, clap::Args)]
pub struct Remove {
    /// The name, from `waybill connections list`
    pub name: String,
}

impl Deed for Remove {
    const ABOUT: About = About::new("connections remove", Role::Owner, "Remove")
        .of("name")
        .asks(
            "Remove this connection with its secrets?",
            "Remove it for good",
        )
        .for_good();
    const SAYS: &'static [&'static str] = &[REMOVED];

    async fn look(site: &Site<'_>, target: &str) -> Result<Looked, Refused> {
        look(site, target).await
    }

    async fn run(self, desk: &Desk<'_>) -> Result<Done, Refused> {
        let (name, list) = (self.name, "/connections".to_owned());
        match flow::remove(desk.site.db, desk.by, &name).await {
            Ok(()) => Ok(Done::new(REMOVED, list, json!({"name": name}))),
            // Sent again, it is still so that the connection is removed.
            Err(why @ flow::Refused::Unknown) => Ok(Done {
                failed: Some(why.to_string()),
                ..Done::new(REMOVED, list, json!({"name": name}))
            }),
            Err(why) => Err(why.into()),
        }
    }
}
