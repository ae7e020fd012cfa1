//! Reconciliation: asks the providers what changed, and takes what never came ([`flows::reconciliation`]).
//!
//! Every process that can ask a provider does so, one process at a time for each side, by a lease. How far each shop and
//! each account was compared is a row. A page of a provider's answer is stored in the transaction that moves the row on,
//! which only succeeds if nobody else has moved it meanwhile. So a crash at any point, or two processes that both believe
//! that they hold the lease, repeat a page at most, and a page that is compared again finds nothing.
//!
//! Runs are due every `RECONCILE_MINUTES`, at once when a process takes over or the database is there again, and when
//! nothing comes from a sender that always has something.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use config::connection::{PaymentConnection, Registry, StorefrontConnection};
use domain::attention::{Condition, State};
use domain::connection::DEFAULT;
use domain::job::Source;
use domain::pause::{Provider, Target as Paused};
use domain::reconciliation::{Cause, ON_ITS_WAY, OVERLAP};
use domain::time::Timestamp;
use flows::{Context, reconciliation as flow};
use futures_util::future::join_all;
use platform::crash_point::{self, Point};
use process::Parts;
use process::clients::Clients;
use providers::CallFailure;
use providers::changes::{Page, Period};
use store::reconciliations::{self, Reconciled, Reconciliation, Target};
use store::sql::{self, is_outage};
use store::{attention, leases, pauses, refused_deliveries, shop_erasure};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How often it is looked for what is due.
const PAUSE: Duration = Duration::from_secs(15);
/// How many providers are asked at a time.
const AT_ONCE: i64 = 4;
const LEASE_LENGTH: Duration = Duration::from_mins(2);
/// The pause after a provider could not be asked, unless it names another one.
const FIRST_RETRY: Duration = Duration::from_mins(1);
const LAST_RETRY: Duration = Duration::from_hours(1);
/// A sender that was not asked for so much longer than usual was not asked because nothing ran.
const GAP: Duration = Duration::from_mins(5);
/// Why a shop is not asked.
const ENDED: &str = "not asked: the shop has asked to be erased, and has sent no order since";
const SIDES: [(Source, &str); 2] = [
    (Source::Storefront, leases::RECONCILE_STOREFRONTS),
    (Source::Payment, leases::RECONCILE_PAYMENTS),
];

/// Asks the providers until `shutdown`. Each process that works runs it once.
pub async fn run(parts: Parts, shutdown: CancellationToken) {
    let mut reconciler = Reconciler::new(parts);
    let mut is_failing = false;
    while !shutdown.is_cancelled() {
        let rest = match reconciler.round().await {
            Ok(rest) => {
                is_failing = false;
                rest
            }
            Err(error) => {
                if !is_failing {
                    tracing::warn!(%error, "providers could not be compared; trying again");
                }
                is_failing = true;
                if is_outage(&error) {
                    reconciler.held.clear();
                }
                PAUSE
            }
        };
        tokio::select! {
            biased;
            () = tokio::time::sleep(rest) => {}
            () = shutdown.cancelled() => {}
        }
    }
    reconciler.hand_over().await;
}

/// One process that asks the providers.
pub struct Reconciler {
    parts: Parts,
    clients: Clients,
    holder: Uuid,
    /// The sides whose lease it held at the last look.
    held: BTreeSet<Source>,
    /// The targets that have a row.
    begun: BTreeSet<Target>,
    /// When a target may be asked for its next page.
    rested: BTreeMap<Target, Instant>,
    /// How often in a row a target could not be asked.
    failures: BTreeMap<Target, u32>,
}

/// Who is asked.
enum Asked {
    Storefront(Arc<StorefrontConnection>, providers::storefront::Storefront),
    Payment(Arc<PaymentConnection>, providers::payment::Payment),
}

impl Reconciler {
    pub fn new(parts: Parts) -> Self {
        Reconciler {
            clients: Clients::new(&parts.connections, &parts.clock),
            holder: parts.clock.id(),
            held: BTreeSet::new(),
            begun: BTreeSet::new(),
            rested: BTreeMap::new(),
            failures: BTreeMap::new(),
            parts,
        }
    }

    /// Asks each provider that is due for a page, and returns the pause until the next round.
    pub async fn round(&mut self) -> sql::Result<Duration> {
        let connections = self.parts.connections.now();
        if !connections.is_read() || !self.parts.journal.is_current() {
            return Ok(PAUSE);
        }
        let targets = targets(&connections);
        let mut pause = PAUSE;
        for (source, lease) in SIDES {
            let of_side = |it: &&Target| it.source == source;
            if !targets.iter().any(|it| of_side(&it)) {
                continue;
            }
            let now = self.parts.clock.now();
            let until = now.plus(LEASE_LENGTH);
            if !leases::take(&self.parts.db, lease, self.holder, now, until).await? {
                self.held.remove(&source);
                continue;
            }
            let new = targets.iter().filter(of_side);
            let new: Vec<Target> = new.filter(|it| !self.begun.contains(it)).cloned().collect();
            let next = now.plus(self.period());
            reconciliations::begin(&self.parts.db, &new, now, next).await?;
            self.begun.extend(new);
            self.hasten(source, now).await?;
            pause = pause.min(self.side(source, &connections, &targets, now).await?);
        }
        Ok(pause)
    }

    /// Lets another process ask.
    pub async fn hand_over(&self) {
        for (_, lease) in SIDES {
            if let Err(error) = leases::release(&self.parts.db, lease, self.holder).await {
                tracing::debug!(%error, "the lease to ask providers ends by itself");
            }
        }
    }

    /// The time between two runs. Where none are scheduled, an operator asks for each.
    fn period(&self) -> Duration {
        self.parts.config.reconcile.unwrap_or(NEVER)
    }

    /// Makes due what may have a gap: everything when this process takes over, because nothing may have run before; and
    /// the senders from which nothing comes.
    async fn hasten(&mut self, source: Source, now: Timestamp) -> sql::Result<()> {
        let is_scheduled = self.parts.config.reconcile.is_some();
        let takes_over = self.held.insert(source);
        if !is_scheduled {
            return Ok(());
        }
        let mut due = BTreeMap::new();
        if takes_over {
            let its = self.begun.iter().filter(|it| it.source == source);
            due.extend(its.map(|it| (it.connection.clone(), now)));
        }
        for it in attention::all(&self.parts.db).await? {
            let is_silent = it.condition == Condition::NothingCame && it.state == State::Begun;
            let (of, name) = it.about.split_once(' ').unwrap_or((&it.about, DEFAULT));
            if is_silent && of == source.into_str() {
                due.entry(name.to_owned()).or_insert(it.since);
            }
        }
        if due.is_empty() {
            return Ok(());
        }
        let mut tx = self.parts.db.begin().await?;
        for (name, since) in due {
            reconciliations::hasten(&mut tx, source, &name, (since, now)).await?;
        }
        tx.commit().await
    }

    /// Asks those of a side that are due, a few at a time.
    async fn side(
        &mut self,
        source: Source,
        connections: &Registry,
        targets: &BTreeSet<Target>,
        now: Timestamp,
    ) -> sql::Result<Duration> {
        let db = &self.parts.db;
        let mut due = reconciliations::due(db, source, now, AT_ONCE * 4).await?;
        due.retain(|it| targets.contains(&target(it)));
        let paused = pauses::in_force(db, now).await?;
        let is_paused = |it: &Reconciliation| {
            paused.iter().any(|pause| match &pause.target {
                Paused::Provider(Provider::Storefront) => source == Source::Storefront,
                Paused::Provider(Provider::Payment) => source == Source::Payment,
                Paused::Connection(name) => *name == it.connection,
                Paused::Shop(shop) => *shop == it.shop,
                Paused::Provider(Provider::Mail) | Paused::Queue(_) | Paused::Condition(_) => false,
            })
        };
        due.retain(|it| !is_paused(it));
        if due.is_empty() {
            return Ok(PAUSE);
        }
        let at = Instant::now();
        let mut wait = Duration::MAX;
        due.retain(|it| {
            let left = self
                .rested
                .get(&target(it))
                .map(|rested| rested.saturating_duration_since(at));
            let left = left.filter(|left| !left.is_zero());
            wait = wait.min(left.unwrap_or(Duration::ZERO));
            left.is_none()
        });
        due.truncate(usize::try_from(AT_ONCE).unwrap_or(1));
        let pages = due.into_iter().map(|it| self.page(connections, it));
        for paged in join_all(pages).await {
            let (of, rest) = paged?;
            match rest {
                Next::Page(rest) => {
                    self.failures.remove(&of);
                    self.rested.insert(of, Instant::now() + rest);
                }
                Next::Run => {
                    self.failures.remove(&of);
                    self.rested.remove(&of);
                }
                Next::Retry => *self.failures.entry(of).or_default() += 1,
            }
        }
        Ok(wait.max(Duration::from_millis(10)))
    }

    /// Asks for the next page of a run, or for the first one of a new run, and stores what it has.
    async fn page(
        &self,
        connections: &Registry,
        row: Reconciliation,
    ) -> sql::Result<(Target, Next)> {
        let of = target(&row);
        let Some(asked) = self.asked(connections, &row) else {
            return Ok((of, Next::Run));
        };
        let now = self.parts.clock.now();
        let mut after = row.clone();
        if row.page.is_none() && self.has_ended(&row.shop).await? {
            after.next_at = now.plus(self.period());
            after.failing_since = None;
            after.last_error = Some(ENDED.to_owned());
            self.save(&after).await?;
            return Ok((of, Next::Run));
        }
        if row.run_until.is_none() {
            after.begun_at = Some(now);
            (after.compared, after.found) = (0, 0);
        }
        let until = row.run_until.unwrap_or_else(|| now.minus(ON_ITS_WAY));
        let period = Period {
            from: row.confirmed_until.minus(OVERLAP).min(until),
            until,
        };
        let page = row.page.as_deref();
        let answer = match &asked {
            Asked::Storefront(_, api) => api.changed_orders(&row.shop, period, page).await,
            Asked::Payment(_, api) => api.events(period, page).await,
        };
        crash_point::reach(Point::ReconcileAsked).await;
        match answer {
            Ok(page) => self
                .store(asked, page, period, (row, after))
                .await
                .map(|next| (of, next)),
            Err(failure) => {
                let failures = self.failures.get(&of).copied().unwrap_or_default();
                self.failed(&failure, failures, after).await?;
                Ok((of, Next::Retry))
            }
        }
    }

    fn asked(&self, connections: &Registry, row: &Reconciliation) -> Option<Asked> {
        if row.source == Source::Storefront.into_str() {
            let connection = connections.storefront(&row.connection)?;
            let client = self.clients.storefront(connection)?;
            return Some(Asked::Storefront(connection.clone(), client));
        }
        let connection = connections.payment(&row.connection)?;
        let client = self.clients.payment_of(connection)?;
        let client = client.of_account(connection.account.clone());
        Some(Asked::Payment(connection.clone(), client))
    }

    async fn store(
        &self,
        asked: Asked,
        page: Page,
        period: Period,
        (before, mut row): (Reconciliation, Reconciliation),
    ) -> sql::Result<Next> {
        let context = self.context();
        let now = self.parts.clock.now();
        let mut listed = Vec::with_capacity(page.bodies.len());
        let mut unread = 0_u64;
        for body in &page.bodies {
            let it = match &asked {
                Asked::Storefront(of, _) => flow::order(&context, of, &row.shop, body),
                Asked::Payment(of, _) => flow::event(&context, of, body),
            };
            match it {
                Ok(it) => listed.push(it),
                Err(_) => unread += 1,
            }
        }
        if unread > 0 {
            tracing::warn!(
                connection = row.connection,
                shop = row.shop,
                unread,
                "a provider lists what cannot be read; it is left out"
            );
        }
        row.compared += i64::try_from(page.bodies.len()).unwrap_or(i64::MAX);
        row.failing_since = None;
        row.last_error = None;
        row.page.clone_from(&page.next);
        // What the provider dates later than it could have answered is not compared yet.
        let by_its_clock = page.answered_at.map(|at| at.minus(ON_ITS_WAY));
        let until = by_its_clock.map_or(period.until, |at| at.min(period.until));
        if page.next.is_some() {
            row.run_until = Some(before.run_until.unwrap_or(until));
        } else {
            row.confirmed_until = row.confirmed_until.max(before.run_until.unwrap_or(until));
            row.run_until = None;
            row.ended_at = Some(now);
            row.next_at = now.plus(self.period());
        }
        let cause = self.causes(&before, now).await?;
        let mut tx = self.parts.db.begin().await?;
        let found = flow::store(&context, &mut tx, &row.connection, listed, cause).await?;
        row.found += i64::try_from(found.len()).unwrap_or(i64::MAX);
        if !reconciliations::save(&mut tx, &row).await? {
            // Another process has stored this page, or an operator asks for another period.
            tx.rollback().await?;
            return Ok(Next::Run);
        }
        tx.commit().await?;
        crash_point::reach(Point::ReconcileStored).await;
        self.report(&row, &found);
        Ok(match page.next {
            Some(_) => Next::Page(page.rest),
            None => Next::Run,
        })
    }

    fn report(&self, row: &Reconciliation, found: &[Reconciled]) {
        if found.is_empty() {
            return;
        }
        let connections = self.parts.connections.now();
        flow::count(found, connections.label(&row.connection));
        tracing::warn!(
            source = row.source,
            connection = row.connection,
            shop = row.shop,
            deliveries = found.len(),
            "deliveries that never came were found at the provider; see `waybill reconcile --status`"
        );
    }

    /// Why what changed at a time probably never came.
    async fn causes(
        &self,
        row: &Reconciliation,
        now: Timestamp,
    ) -> sql::Result<impl Fn(Timestamp) -> Cause + use<>> {
        let named = if row.connection == DEFAULT {
            ""
        } else {
            &row.connection
        };
        let since = row.confirmed_until.minus(OVERLAP);
        let summary = refused_deliveries::summary(&self.parts.db, since).await?;
        let mut last = BTreeMap::new();
        for it in summary
            .iter()
            .filter(|it| it.source == row.source && it.connection == named)
        {
            let cause = match it.reason.as_str() {
                "unavailable" | "share" => Cause::Outage,
                _ => Cause::Refused,
            };
            let at = last.entry(cause).or_insert(it.last_at);
            *at = (*at).max(it.last_at);
        }
        let usual = self.period().saturating_mul(2).saturating_add(GAP);
        let ended = row.ended_at.filter(|at| now.since(*at) > usual);
        let ended = ended.filter(|_| self.parts.config.reconcile.is_some());
        Ok(move |changed_at: Timestamp| {
            let since = |cause: Cause| last.get(&cause).is_some_and(|at| *at >= changed_at);
            if since(Cause::Refused) {
                Cause::Refused
            } else if since(Cause::Outage) || ended.is_some_and(|ended| changed_at >= ended) {
                Cause::Outage
            } else {
                Cause::NotSent
            }
        })
    }

    /// Notes why a provider could not be asked, and when it is asked again.
    async fn failed(
        &self,
        failure: &CallFailure,
        failures: u32,
        mut row: Reconciliation,
    ) -> sql::Result<()> {
        let now = self.parts.clock.now();
        let pause = FIRST_RETRY
            .saturating_mul(1 << failures.min(10))
            .min(LAST_RETRY);
        let asked = match failure {
            CallFailure::Timeout { retry_after, .. } => *retry_after,
            _ => None,
        };
        // A page that the provider does not know any more is the end of this run, and the next one begins anew.
        if failure.is_final() && row.page.is_some() {
            row.page = None;
            row.run_until = None;
        }
        row.next_at = now.plus(asked.unwrap_or(pause).min(LAST_RETRY));
        row.failing_since.get_or_insert(now);
        row.last_error = Some(failure.to_string());
        self.save(&row).await
    }

    async fn save(&self, row: &Reconciliation) -> sql::Result<()> {
        let mut tx = self.parts.db.begin().await?;
        reconciliations::save(&mut tx, row).await?;
        tx.commit().await
    }

    /// Whether a shop has asked to be erased, and has sent no order since.
    async fn has_ended(&self, shop: &str) -> sql::Result<bool> {
        if shop.is_empty() {
            return Ok(false);
        }
        let db = &self.parts.db;
        match reconciliations::ended_at(db, shop).await? {
            Some(at) => Ok(!shop_erasure::is_in_use(db, shop, at).await?),
            None => Ok(false),
        }
    }

    fn context(&self) -> Context<'_> {
        Context {
            config: &self.parts.config,
            connections: &self.parts.connections,
            clock: &self.parts.clock,
            keys: &self.parts.keys,
        }
    }
}

/// The pause until the next run where none is scheduled.
const NEVER: Duration = Duration::from_hours(24 * 365 * 100);

/// When a target is asked next.
enum Next {
    Page(Duration),
    Run,
    Retry,
}

fn target(row: &Reconciliation) -> Target {
    let source = row.source.parse().unwrap_or(Source::Internal);
    Target {
        source,
        connection: row.connection.clone(),
        shop: row.shop.clone(),
    }
}

/// What this process can compare: each shop of a storefront, and each payment provider, whose API it can call. Of the
/// connection that the settings make, only the shops that are named are known.
fn targets(connections: &Registry) -> BTreeSet<Target> {
    let mut targets = BTreeSet::new();
    for connection in connections.storefronts().filter(|it| it.api.is_some()) {
        let own = connection.shops.iter().filter(|shop| {
            let bound = connections.of_shop(shop);
            bound.name == connection.name
        });
        targets.extend(own.map(|shop| Target {
            source: Source::Storefront,
            connection: connection.name.clone(),
            shop: shop.clone(),
        }));
    }
    for connection in connections.payments().filter(|it| it.api.is_some()) {
        targets.insert(Target {
            source: Source::Payment,
            connection: connection.name.clone(),
            shop: String::new(),
        });
    }
    targets
}
