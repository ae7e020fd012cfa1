//! Lists of privacy requests, licences and API keys.

use domain::api_key;
use domain::privacy::{State, Topic};
use domain::time::Timestamp;
use operators::licenses::When;
use serde::Serialize;
use store::api_keys::{self, ApiKeyEntry};
use store::licenses::{self, License};
use store::privacy_requests::{self, RequestEntry};
use store::sql::Db;
use uuid::Uuid;

use crate::shown::{self, Cell};
use crate::{Column, Error, Extent, List, Page, Wanted, column, lesser, sentence, words};

/// Privacy requests: ids, states and times alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrivacyRequests;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct PrivacyFilter {
    /// Only requests in this state
    #[arg(long, value_parser = words::privacy_state())]
    pub state: Option<State>,
    /// Only requests of this topic
    #[arg(long, value_parser = words::privacy_topic())]
    pub topic: Option<Topic>,
    /// Only requests of this shop domain
    #[arg(long, value_parser = words::shop)]
    pub shop: Option<String>,
    /// List requests that are done or cancelled too
    #[arg(long, conflicts_with = "state")]
    pub all: bool,
}

impl List for PrivacyRequests {
    type Filter = PrivacyFilter;
    type Row = RequestEntry;

    const PAGE: &'static str = "/privacy";
    const COMMAND: &'static str = "privacy list";
    const TITLE: &'static str = "Privacy requests";
    const ABOUT: &'static str =
        "The nearest deadline first. A request must be done within 30 days of its delivery.";
    const EMPTY: &'static str = "No privacy requests.";
    const EXTENT: Extent = Extent::First(500);
    const COLUMNS: &'static [Column<RequestEntry>] = &[
        column("Due", |it| Cell::age(it.due_at)),
        column("State", |it| shown::state(it.state.as_str())),
        column("Topic", |it| Cell::text(it.topic.as_str())),
        column("Shop", |it| Cell::text(it.shop.as_str())),
        column("Customer", customer),
        column("Attempts", |it| Cell::Number(it.attempts)),
        lesser("Received", |it| Cell::time(it.received_at)),
        lesser("Next try", |it| Cell::maybe_time(it.next_run_at)),
        column("Request", |it| {
            Cell::link(it.id.to_string(), format!("/privacy/{}", it.id))
        }),
        sentence("Last error", |it| Cell::maybe(it.last_error.as_deref())),
    ];

    async fn page(
        &self,
        db: &Db,
        filter: &PrivacyFilter,
        wanted: Wanted<'_>,
    ) -> Result<Page<RequestEntry>, Error> {
        let filter = privacy_requests::Filter {
            state: filter.state,
            topic: filter.topic,
            shop: filter.shop.clone(),
            open: filter.state.is_none() && !filter.all,
            ..privacy_requests::Filter::default()
        };
        let requests = privacy_requests::list(db, &filter, wanted.rows()).await?;
        let mut page = Page::first(requests, wanted);
        if page.items.is_empty() && filter.open {
            let finished = privacy_requests::count_finished(db, &filter).await?;
            let hidden =
                (finished > 0).then(|| format!("{finished} are finished, and listed with `all`."));
            page.note = hidden;
        }
        Ok(page)
    }
}

pub fn customer(it: &RequestEntry) -> Cell {
    let id = it.customer_id_text.as_deref();
    let link = id.and_then(|text| {
        let customer = text.parse().ok()?;
        Some(Cell::link(text, shown::customer(&it.shop, customer)))
    });
    link.unwrap_or(Cell::None)
}

/// Who has which tier, and until when.
pub struct Licenses {
    /// How long a subscription's licence stays active after its end.
    pub grace: std::time::Duration,
    /// Without it a person is named by the number of the account alone.
    pub has_logins: bool,
}

#[derive(Clone, Debug, Default, clap::Args)]
pub struct LicenseFilter {
    /// List revoked licences too
    #[arg(long)]
    pub all: bool,
    /// Only licences that nobody can claim any more: they were granted by login, and nobody
    /// logged in with the login in time
    #[arg(long)]
    pub unclaimable: bool,
}

/// A licence and what holds of it now.
#[derive(Clone, Debug, Serialize)]
pub struct ListedLicense {
    #[serde(flatten)]
    pub license: License,
    /// `active`, `expired`, `suspended` or `revoked`.
    pub status: &'static str,
    /// Until when a licence with a subscription stays active after its end.
    pub grace_until: Option<Timestamp>,
    /// It belongs to nobody, and nobody can claim it.
    pub unclaimable: bool,
    /// The status in words, and whose it is.
    #[serde(skip)]
    pub state: String,
    #[serde(skip)]
    pub owner: String,
}

impl ListedLicense {
    pub fn of(license: License, when: When) -> Self {
        let candidate = license.candidate(when.grace);
        ListedLicense {
            status: when.status(&license),
            grace_until: candidate.and_then(|candidate| candidate.grace_until()),
            unclaimable: license.is_unclaimable(when.now),
            state: when.state(&license),
            owner: owner(&license, when.now),
            license,
        }
    }
}

/// The owner of a licence, in words. A person is named by the number of the account when the login is left out.
pub fn owner(license: &License, now: Timestamp) -> String {
    let nobody = license.is_unclaimable(now);
    match (&license.org, &license.user, license.provider_id) {
        (Some(org), ..) => format!("organization {org}"),
        (None, Some(login), Some(id)) => format!("{login} ({id})"),
        (None, Some(login), None) if nobody => format!("{login} (nobody can claim it)"),
        (None, Some(login), None) => format!("{login} (not seen yet)"),
        (None, None, Some(id)) => format!("account {id}"),
        (None, None, None) if nobody => {
            "somebody who never logged in; nobody can claim it".to_owned()
        }
        (None, None, None) => "somebody who has not logged in yet".to_owned(),
    }
}

impl List for Licenses {
    type Filter = LicenseFilter;
    type Row = ListedLicense;

    const PAGE: &'static str = "/licenses";
    const COMMAND: &'static str = "licenses list";
    const TITLE: &'static str = "Licences";
    const ABOUT: &'static str = "The newest first.";
    const EMPTY: &'static str = "No licences.";
    const EXTENT: Extent = Extent::Pages;
    const COLUMNS: &'static [Column<ListedLicense>] = &[
        lesser("Granted", |it| Cell::time(it.license.granted_at)),
        column("Tier", |it| Cell::text(it.license.tier.into_str())),
        column("State", license_state),
        column("Of", |it| Cell::text(it.owner.as_str())),
        column("Until", |it| Cell::maybe_time(it.license.expires_at)),
        lesser("With grace until", |it| Cell::maybe_time(it.grace_until)),
        column("Subscription", |it| subscription(&it.license)),
        column("Licence", |it| {
            let id = it.license.id;
            Cell::link(id.to_string(), format!("/licenses/{id}"))
        }),
    ];

    async fn page(
        &self,
        db: &Db,
        filter: &LicenseFilter,
        wanted: Wanted<'_>,
    ) -> Result<Page<ListedLicense>, Error> {
        let before = wanted.cursor(|text| text.parse().ok())?;
        let meant = licenses::Filter {
            revoked: filter.all,
            unclaimable_at: filter.unclaimable.then_some(wanted.now),
        };
        let before = before.unwrap_or(Uuid::max());
        let found = licenses::page(db, meant, before, wanted.rows()).await?;
        let when = When {
            now: wanted.now,
            grace: self.grace,
        };
        let shown = found.into_iter().map(|mut license| {
            license.user = license.user.filter(|_| self.has_logins);
            ListedLicense::of(license, when)
        });
        let mut page = Page::full(shown.collect(), wanted, |it| it.license.id.to_string());
        if page.items.is_empty() && !filter.all {
            page.note = Some("Licences that were revoked are listed with `all`.".to_owned());
        }
        Ok(page)
    }
}

pub fn license_state(it: &ListedLicense) -> Cell {
    let class = match it.status {
        "active" => "good",
        "suspended" => "open",
        _ => "plain",
    };
    Cell::State(class, it.state.clone())
}

pub fn subscription(license: &License) -> Cell {
    let id = license.subscription_id.as_deref();
    id.map_or(Cell::None, |id| {
        let paid_by = license.paid_by().unwrap_or_default();
        Cell::link(paid_by, shown::subscription(id))
    })
}

/// API keys. A key itself is stored nowhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keys;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct KeyFilter {
    /// Only keys in this state; without it those that can be used
    #[arg(long, value_parser = words::key_state())]
    pub state: Option<api_key::State>,
    /// List revoked and expired keys too
    #[arg(long, conflicts_with = "state")]
    pub all: bool,
}

impl List for Keys {
    type Filter = KeyFilter;
    type Row = ApiKeyEntry;

    const PAGE: &'static str = "/keys";
    const COMMAND: &'static str = "keys list";
    const TITLE: &'static str = "Keys";
    const ABOUT: &'static str = "With a key, programs use the API and people sign in to the console. The key itself \
                                 is stored nowhere.";
    const EMPTY: &'static str = "No keys.";
    const MAKE: Option<&'static str> = Some("waybill keys create NAME");
    const EXTENT: Extent = Extent::Whole;
    const COLUMNS: &'static [Column<ApiKeyEntry>] = &[
        column("Name", |it| Cell::text(it.name.as_str())),
        column("State", |it| key_state(it.state)),
        column("Shops", |it| {
            let [_, shops] = it.rights.in_words();
            Cell::text(shops)
        }),
        lesser("Created", |it| Cell::time(it.created_at)),
        column("Expires", |it| Cell::maybe_time(it.expires_at)),
        column("Last used", |it| Cell::maybe_time(it.last_used_at)),
        column("Key", |it| {
            Cell::link(it.id.to_string(), format!("/keys/{}", it.id))
        }),
        sentence("Scopes", |it| {
            let [scopes, _] = it.rights.in_words();
            Cell::text(scopes)
        }),
    ];

    async fn page(
        &self,
        db: &Db,
        filter: &KeyFilter,
        wanted: Wanted<'_>,
    ) -> Result<Page<ApiKeyEntry>, Error> {
        let mut keys = api_keys::list(db, wanted.now).await?;
        let all = keys.len();
        let wanted = filter.state.unwrap_or(api_key::State::Active);
        keys.retain(|key| filter.all || key.state == wanted);
        let hidden = all - keys.len();
        let mut page = Page::whole(keys);
        if page.items.is_empty() && hidden > 0 {
            page.note = Some(format!(
                "{hidden} are revoked or expired, and listed with `all`."
            ));
        }
        Ok(page)
    }
}

pub fn key_state(state: api_key::State) -> Cell {
    let class = match state {
        api_key::State::Active => "good",
        api_key::State::Expired | api_key::State::Revoked => "plain",
    };
    Cell::State(class, state.into_str().to_owned())
}
