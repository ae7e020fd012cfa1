//! What the provider is subscribed to post here, and `waybill connect PROVIDER --repair`, which mends it at the provider.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use config::{Config, Mode, Settings};
use domain::connection::DEFAULT;
use domain::job::Queue;
use domain::signature::Secrets;
use domain::subscription::{Compared, Wanted, Wrong};
use operators::subscriptions as flow;
use platform::clock::Clock;
use process::clients::Clients;
use process::registry;
use providers::payment::Payment;
use providers::storefront::Storefront;
use providers::subscriptions::Mended;
use providers::{CallFailure, is_loopback};
use serde::Serialize;
use store::connections;
use store::sql::Db;

use super::{Asked, Profile, Warning};
use crate::commands::connections::secret_of;
use crate::commands::operator::Operator;
use crate::commands::{confirm, misused, with_database};
use crate::table;

const UNLISTED: &str = " What somebody has made on a page of the provider, or in its app, need not be listed to us, and would then \
                        come twice.";

/// How the subscriptions are mended.
#[derive(clap::Args)]
pub struct Repair {
    /// Mend the provider's subscriptions by its API, after asking: make what is missing, and switch on what is off
    #[arg(long, conflicts_with_all = ["no_wait", "timeout"])]
    repair: bool,
    /// Mend those of this connection alone
    #[arg(long, value_name = "NAME", requires = "repair")]
    connection: Option<String>,
    /// Do not ask before the provider is changed
    #[arg(long, requires = "repair")]
    yes: bool,
    /// The file with the connection's signing secret, with which a new webhook of WooCommerce is made; - reads it from the input
    #[arg(long, value_name = "FILE", requires = "repair")]
    secret_file: Option<PathBuf>,
    #[command(flatten)]
    operator: Operator,
}

impl Repair {
    pub fn is_asked(&self) -> bool {
        self.repair
    }
}

/// A connection whose API lists subscriptions, for one shop.
struct Target {
    connection: String,
    /// Empty for a payment provider.
    shop: String,
    wanted: Wanted,
    api: Api,
    /// The fingerprint of the secret that it has now, if that is known here.
    fingerprint: Option<String>,
}

enum Api {
    Storefront(Storefront),
    Payment(Payment),
}

/// How the subscriptions of a target are.
#[derive(Serialize)]
struct Looked {
    connection: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    shop: String,
    wrong: Vec<Wrong>,
    /// Why they cannot be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<String>,
}

/// By which a secret is compared with those that are known.
fn fingerprint_of(secret: &str) -> String {
    let secrets = Secrets::new([secret.to_owned()]);
    secrets.fingerprints().first().cloned().unwrap_or_default()
}

impl Target {
    /// Whether this is its secret, as far as that is known. What is signed with another one would be refused.
    fn has_secret(&self, secret: Option<&str>) -> bool {
        let known = self.fingerprint.as_ref();
        secret.is_some_and(|secret| known.is_none_or(|it| *it == fingerprint_of(secret)))
    }

    async fn compared(&self) -> Result<Compared, CallFailure> {
        let listed = match &self.api {
            Api::Storefront(api) => api.subscriptions(&self.shop).await?,
            Api::Payment(api) => api.subscriptions().await?,
        };
        Ok(self.wanted.compare(&listed))
    }

    async fn mend(&self, wrong: &Wrong, secret: Option<&str>) -> Result<Mended, CallFailure> {
        match &self.api {
            Api::Storefront(api) => api.mend(&self.shop, &self.wanted, wrong, secret).await,
            Api::Payment(api) => api.mend(&self.wanted, wrong).await,
        }
    }

    fn name(&self) -> String {
        match self.shop.as_str() {
            "" => self.connection.clone(),
            shop => format!("{} ({shop})", self.connection),
        }
    }
}

/// The connections with the provider whose API can be called from here.
async fn targets(settings: &Settings, db: &Db, asked: Asked) -> Result<Vec<Target>> {
    let clock = Clock::system();
    let queue = match asked.profile {
        Profile::Storefront(_) => Queue::Orders,
        Profile::Payment(_) => Queue::Payments,
    };
    let config = Config::load(settings, Mode::Worker(queue))?;
    let registry = registry::read(&config, db, &clock).await?;
    let clients = Clients::new(&registry, &clock);
    let now = registry.now();
    let rows = connections::all(db).await?;
    let of_settings = settings.get(asked.secret_setting);
    let of_settings = of_settings.and_then(|list| list.split(',').next());
    let of_settings = of_settings.map(str::trim).filter(|it| !it.is_empty());
    let fingerprint = |name: &str| {
        if name == DEFAULT {
            return of_settings.map(fingerprint_of);
        }
        let mut standing = rows.iter().filter(|it| it.removed_at.is_none());
        let row = standing.find(|it| it.name == name)?;
        row.fingerprints.first().cloned()
    };
    let mut targets = Vec::new();
    match asked.profile {
        Profile::Storefront(profile) => {
            for of in now
                .storefronts()
                .filter(|it| it.profile.name == profile.name)
            {
                // Where the address is the shop, it is that of one.
                let is_one = of.shops.len() == 1 || profile.api_names_shop();
                let own = of
                    .shops
                    .iter()
                    .filter(|shop| now.of_shop(shop).name == of.name);
                for shop in own.filter(|_| is_one) {
                    let Some(api) = clients.storefront(of) else {
                        continue;
                    };
                    targets.push(Target {
                        connection: of.name.clone(),
                        shop: shop.clone(),
                        wanted: of.subscriptions(&config.public_url),
                        api: Api::Storefront(api),
                        fingerprint: fingerprint(&of.name),
                    });
                }
            }
        }
        Profile::Payment(profile) => {
            for of in now.payments().filter(|it| it.profile.name == profile.name) {
                let Some(api) = clients.payment_of(of) else {
                    continue;
                };
                targets.push(Target {
                    connection: of.name.clone(),
                    shop: String::new(),
                    wanted: of.subscriptions(&config.public_url),
                    api: Api::Payment(api),
                    fingerprint: fingerprint(&of.name),
                });
            }
        }
    }
    Ok(targets)
}

/// What is wrong with the subscriptions, as far as it can be seen from here.
pub async fn warnings(settings: &Settings, db: &Db, asked: Asked) -> Vec<Warning> {
    let is_reached = Config::public_url(settings).is_ok_and(|url| !is_loopback(&url));
    let targets = if is_reached {
        targets(settings, db, asked).await.unwrap_or_default()
    } else {
        Vec::new()
    };
    let mut warnings = Vec::new();
    for target in targets {
        let name = target.name();
        let repair = format!(
            "`waybill connect {} --repair` mends it at the provider, after asking.",
            asked.name
        );
        warnings.extend(match target.compared().await {
            Ok(compared) => compared.in_words().map(|wrong| {
                let more = if compared.is_any_ours { "" } else { UNLISTED };
                Warning::new(format!("{name}: {wrong}"), format!("{repair}{more}"))
            }),
            // An API that somebody has written for Waybill need not have such a list.
            Err(failure) if failure.status() == Some(404) => None,
            Err(failure) => Some(Warning {
                warning: format!("{name}: its subscriptions cannot be seen: {failure}"),
                advice: None,
                is_of_settings: false,
            }),
        });
    }
    warnings
}

/// Mends what is wrong at the provider, after asking. Exit code 1 if something is left.
pub async fn repair(
    settings: &Settings,
    asked: Asked,
    arguments: &Repair,
    json: bool,
) -> Result<()> {
    let public_url = Config::public_url(settings)?;
    if is_loopback(&public_url) {
        return Err(misused(format!(
            "PUBLIC_URL is {public_url}, at which no provider reaches this service; set it first"
        )));
    }
    let secret = arguments
        .secret_file
        .as_deref()
        .map(secret_of)
        .transpose()?;
    let secret = secret.as_deref();
    with_database(settings, async |db| {
        let mut targets = targets(settings, db, asked).await?;
        if let Some(name) = &arguments.connection {
            targets.retain(|it| it.connection == *name);
        }
        if targets.is_empty() {
            bail!(
                "no connection with {} has an API that can be called from here; see waybill connections add --help",
                asked.name
            );
        }
        if secret.is_some() && !targets.iter().any(|target| target.has_secret(secret)) {
            return Err(misused(
                "--secret-file has another secret than these connections; give the file of the secret that they have now",
            ));
        }
        let mut looked = look(&targets).await;
        if looked.iter().any(|it| !it.wrong.is_empty()) {
            if !arguments.yes {
                ask(&targets, &looked)?;
            }
            // What is switched on again may still lack a topic.
            for _ in 0..2 {
                mend(settings, db, asked, arguments, (&targets, &looked), secret).await?;
                looked = look(&targets).await;
            }
        }
        table::show(json, &looked, || text(&looked))?;
        if looked.iter().any(|it| it.unknown.is_some()) {
            bail!("some could not be seen: mend the token, its rights or the address, and run this again");
        }
        match looked.iter().map(|it| it.wrong.len()).sum::<usize>() {
            0 => Ok(()),
            left => bail!("{left} of it cannot be mended by the API: {}", by_hand(asked)),
        }
    })
    .await
}

async fn look(targets: &[Target]) -> Vec<Looked> {
    let mut looked = Vec::new();
    for target in targets {
        let (wrong, unknown) = match target.compared().await {
            Ok(compared) => (compared.wrong, None),
            Err(failure) => (Vec::new(), Some(failure.to_string())),
        };
        looked.push(Looked {
            connection: target.connection.clone(),
            shop: target.shop.clone(),
            wrong,
            unknown,
        });
    }
    looked
}

fn ask(targets: &[Target], looked: &[Looked]) -> Result<()> {
    let mut plan = String::from("At the provider:\n");
    for (target, looked) in targets.iter().zip(looked) {
        for wrong in &looked.wrong {
            let _ = writeln!(plan, "  {}: {wrong}", target.name());
        }
    }
    plan.push_str(UNLISTED.trim_start());
    plan.push('\n');
    let to: Vec<&str> = targets
        .iter()
        .map(|target| target.wanted.url.as_str())
        .collect();
    let what = format!("change that, so that it posts to {}", to.join(", "));
    confirm(&plan, &what, "without --repair it is only said")
}

async fn mend(
    settings: &Settings,
    db: &Db,
    asked: Asked,
    arguments: &Repair,
    (targets, looked): (&[Target], &[Looked]),
    secret: Option<&str>,
) -> Result<()> {
    let author = arguments.operator.author(settings, db).await?;
    for (target, looked) in targets.iter().zip(looked) {
        for wrong in &looked.wrong {
            let mended = target
                .mend(wrong, secret.filter(|_| target.has_secret(secret)))
                .await;
            let mended = mended
                .with_context(|| format!("{}: {wrong}; it could not be changed", target.name()))?;
            if mended == Mended::Done {
                let by = author.by(Clock::system().now());
                flow::repaired(db, by, &target.connection, asked.name, wrong).await?;
            }
        }
    }
    Ok(())
}

fn text(looked: &[Looked]) -> String {
    let mut text = String::new();
    for it in looked {
        let of = match it.connection.as_str() {
            DEFAULT => "the settings",
            name => name,
        };
        let _ = match (&it.unknown, it.wrong.len()) {
            (Some(why), _) => writeln!(
                text,
                "The subscriptions of {of} {} cannot be seen: {why}",
                it.shop
            ),
            (None, 0) => writeln!(text, "The subscriptions of {of} {} are right.", it.shop),
            (None, _) => writeln!(text, "Of {of} {}:", it.shop),
        };
        for wrong in &it.wrong {
            let _ = writeln!(text, "  {wrong}");
        }
    }
    text
}

/// What somebody does where the API cannot.
fn by_hand(asked: Asked) -> String {
    let page = asked.setup.page;
    match asked.profile {
        Profile::Storefront(_) => format!(
            "a new webhook of WooCommerce needs --secret-file with the secret of its connection; the API version of Shopify's \
             is that of the app; all else is made by hand: {page}"
        ),
        Profile::Payment(_) => format!(
            "a new endpoint has a secret of its own. Make it by hand ({page}), and give its secret to \
             `waybill connections rotate NAME --secret-file F`, or to the setting {}",
            asked.secret_setting
        ),
    }
}
