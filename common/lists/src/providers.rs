//! Lists of what Waybill is connected with: connections, signing secrets, endpoints, and how far each provider was
//! compared.

use std::collections::BTreeMap;

use domain::event::Pattern;
use domain::job::Source;
use operators::connections as flow;
use platform::token::Token;
use store::connections::{Overview, Side};
use store::endpoints::{self, Endpoint};
use store::reconciliations::{self, Reconciled, Reconciliation};
use store::signing_secrets;
use store::sql::Db;

use crate::shown::{self, Cell};
use crate::{Any, Column, Error, Extent, List, Page, Wanted, column, lesser, sentence};

/// The providers that are connected beside those of the settings. No secret is shown.
pub struct Connections {
    /// The keys of `SECRETS_KEY`, with which the secrets are encrypted.
    pub keys: Vec<Token>,
    pub public_url: String,
}

impl List for Connections {
    type Filter = Any;
    type Row = Overview;

    const PAGE: &'static str = "/connections";
    const COMMAND: &'static str = "connections list";
    const TITLE: &'static str = "Connections";
    const ABOUT: &'static str = "The providers that are connected, each with its own secret, beside those that the settings name.";
    const EMPTY: &'static str = "There is no connection but those of the settings.";
    const MAKE: Option<&'static str> =
        Some("waybill connections add NAME --provider P --shop DOMAIN --secret-file FILE");
    const EXTENT: Extent = Extent::Whole;
    const COLUMNS: &'static [Column<Overview>] = &[
        column("Connection", |it| {
            Cell::link(it.name.as_str(), format!("/connections/{}", it.name))
        }),
        column("Provider", |it| Cell::text(it.provider.as_str())),
        column("Shop or account", |it| match it.shops.as_slice() {
            [first, _, ..] => Cell::text(format!("{first} and {} more", it.shops.len() - 1)),
            _ => Cell::text(whose(it)),
        }),
        lesser("API", |it| Cell::maybe(it.api_url.as_deref())),
        column("Verified last", |it| {
            let verified = it.secrets.iter().filter_map(|it| it.verified_at);
            Cell::maybe_time(verified.max())
        }),
        column("State", |it| Cell::text(it.state.as_str())),
    ];

    async fn page(&self, db: &Db, _: &Any, wanted: Wanted<'_>) -> Result<Page<Overview>, Error> {
        let found = flow::overviews(db, &self.keys, &self.public_url, wanted.now);
        Ok(Page::whole(found.await?))
    }
}

/// The shops or the account of a connection.
pub fn whose(it: &Overview) -> String {
    match it.side {
        Side::Storefront => it.shops.join(", "),
        Side::Payment => it.account.clone().unwrap_or_default(),
    }
}

/// The signing secrets of the settings.
pub struct Secrets {
    /// The fingerprints of the secrets of this process.
    pub set: BTreeMap<Source, Vec<String>>,
}

impl List for Secrets {
    type Filter = Any;
    type Row = signing_secrets::Entry;

    const PAGE: &'static str = "/secrets";
    const COMMAND: &'static str = "secrets list";
    const TITLE: &'static str = "Signing secrets";
    const ABOUT: &'static str = "With these the deliveries of the providers are verified. To replace one, set new,old \
                                 in STOREFRONT_WEBHOOK_SECRET or PAYMENT_WEBHOOK_SECRET, restart, and let the \
                                 provider sign with the new one. When the old one has verified nothing for as long \
                                 as the provider retries, remove it.";
    const EMPTY: &'static str = "No secret is set.";
    const EXTENT: Extent = Extent::Whole;
    const COLUMNS: &'static [Column<signing_secrets::Entry>] = &[
        column("Provider", |it| Cell::text(it.source)),
        column("Place", |it| Cell::text(it.place_name())),
        column("Fingerprint", |it| Cell::code(it.fingerprint.as_str())),
        column("Verified last", |it| {
            let never = || Cell::text("never");
            it.verified_at.map_or_else(never, Cell::time)
        }),
    ];

    async fn page(
        &self,
        db: &Db,
        _: &Any,
        _: Wanted<'_>,
    ) -> Result<Page<signing_secrets::Entry>, Error> {
        let mut page = Page::whole(signing_secrets::list(db, &self.set).await?);
        page.note = Some("The times are at most a minute late. The secrets are those of the process that shows this.".to_owned());
        Ok(page)
    }
}

/// Where events are sent, and whether they are taken there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Endpoints;

impl List for Endpoints {
    type Filter = Any;
    type Row = Endpoint;

    const PAGE: &'static str = "/endpoints";
    const COMMAND: &'static str = "endpoints list";
    const TITLE: &'static str = "Endpoints";
    const ABOUT: &'static str =
        "The addresses of your own systems to which events are sent, and RabbitMQ, if you have it.";
    const EMPTY: &'static str = "No endpoints.";
    const MAKE: Option<&'static str> = Some("waybill endpoints add URL");
    const EXTENT: Extent = Extent::Whole;
    const COLUMNS: &'static [Column<Endpoint>] = &[
        column("Address", |it| Cell::text(it.url.as_str())),
        column("State", |it| shown::state(it.state.into_str())),
        column("Types", |it| Cell::text(types(it))),
        column("Last accepted", |it| Cell::maybe_time(it.delivered_at)),
        lesser("Failing since", |it| Cell::maybe_time(it.failing_since)),
        column("Failures", |it| Cell::Number(it.failures)),
        column("Endpoint", |it| {
            Cell::link(it.id.to_string(), format!("/endpoints/{}", it.id))
        }),
        sentence("Last error", |it| Cell::maybe(it.last_error.as_deref())),
    ];

    async fn page(&self, db: &Db, _: &Any, _: Wanted<'_>) -> Result<Page<Endpoint>, Error> {
        Ok(Page::whole(endpoints::list(db).await?))
    }
}

/// The patterns of the types of events that an endpoint is sent.
pub fn types(endpoint: &Endpoint) -> String {
    let types: Vec<&str> = endpoint.types.iter().map(Pattern::as_str).collect();
    types.join(", ")
}

/// How far each shop and each account was compared with its provider.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reconciliations;

#[derive(Clone, Debug, Default, clap::Args)]
pub struct ConnectionFilter {
    /// Only the shops or the account of this connection; `default` is that of the settings
    #[arg(long, value_name = "NAME")]
    pub connection: Option<String>,
}

impl List for Reconciliations {
    type Filter = ConnectionFilter;
    type Row = Reconciliation;

    const PAGE: &'static str = "/reconcile";
    const COMMAND: &'static str = "reconcile --status";
    const TITLE: &'static str = "Reconciliation";
    const ABOUT: &'static str = "Each provider with an API is asked what changed. What never came is taken as if it \
                                 had come. That something is found means that its webhook was lost: see why.";
    const EMPTY: &'static str = "Nothing is compared: a connection needs an API.";
    const EXTENT: Extent = Extent::Whole;
    const COLUMNS: &'static [Column<Reconciliation>] = &[
        column("Connection", |it| Cell::text(it.connection.as_str())),
        lesser("Provider", |it| Cell::text(it.source.as_str())),
        column("Shop", |it| Cell::text(it.shop.as_str())),
        column("Compared until", |it| {
            Cell::maybe_age(it.ended_at.map(|_| it.confirmed_until))
        }),
        lesser("Next", |it| Cell::due(it.next_at)),
        column("Compared", |it| Cell::Number(it.compared)),
        column("Never came", |it| Cell::Number(it.found)),
        lesser("Failing since", |it| Cell::maybe_time(it.failing_since)),
        sentence("What is wrong", |it| Cell::maybe(it.wrong())),
    ];

    async fn page(
        &self,
        db: &Db,
        filter: &ConnectionFilter,
        _: Wanted<'_>,
    ) -> Result<Page<Reconciliation>, Error> {
        let mut all = reconciliations::all(db).await?;
        if let Some(name) = &filter.connection {
            all.retain(|it| it.connection == *name);
        }
        Ok(Page::whole(all))
    }
}

/// Deliveries that never came and were found at the provider.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found;

impl List for Found {
    type Filter = ConnectionFilter;
    type Row = Reconciled;

    const PAGE: &'static str = "/reconcile/found";
    const COMMAND: &'static str = "reconcile --status";
    const TITLE: &'static str = "What never came";
    const ABOUT: &'static str =
        "The newest deliveries that never came and were found at the provider.";
    const EMPTY: &'static str = "Everything came by itself.";
    const EXTENT: Extent = Extent::First(500);
    const COLUMNS: &'static [Column<Reconciled>] = &[
        column("Found", |it| Cell::time(it.found_at)),
        lesser("Changed", |it| Cell::time(it.changed_at)),
        column("Late", |it| {
            Cell::text(shown::took(it.found_at.0 - it.changed_at.0))
        }),
        column("Kind", |it| Cell::text(it.kind.as_str())),
        column("Connection", |it| Cell::text(it.connection.as_str())),
        lesser("Shop", |it| Cell::text(it.shop.as_str())),
        column("Job", |it| Cell::job(it.job_id)),
        sentence("Likely cause", |it| Cell::text(it.cause.in_words())),
    ];

    async fn page(
        &self,
        db: &Db,
        filter: &ConnectionFilter,
        wanted: Wanted<'_>,
    ) -> Result<Page<Reconciled>, Error> {
        let connection = filter.connection.as_deref();
        let found = reconciliations::newest(db, connection, wanted.rows()).await?;
        Ok(Page::first(found, wanted))
    }
}
