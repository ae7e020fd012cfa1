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
use domain::job::{Queue, Source};
use domain::pause::{Provider, Target as Paused};
use domain::reconciliation::{Cause, ON_ITS_WAY, OVERLAP};
use domain::subscription::{Subscription, Wanted};
use domain::time::Timestamp;
use flows::{Context, reconciliation as flow};
use futures_util::future::join_all;
use platform::crash_point::{self, Point};
use process::Parts;
use process::clients::Clients;
use providers::changes::{Page, Period};
use providers::{CallFailure, is_loopback};
use store::pauses::Pause;
use store::reconciliations::{self, Reconciled, Reconciliation, Target};
use store::refused_deliveries::Summary;
use store::sql::{self, is_outage};
use store::{attention, backlog, leases, pauses, refused_deliveries, shop_erasure};
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
const LEAST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_hours(1);
/// The pause after a shop that has ended, and an API without a list.
const ENDED_PAUSE: Duration = Duration::from_hours(24);
/// How often it is made sure that each target has its row.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// A sender that was not asked for so much longer than usual was not asked because nothing ran.
const GAP: Duration = Duration::from_mins(5);
/// While so many jobs of a side are due, a long run waits: what it finds would only wait behind them.
const BACKLOG: i64 = 2_000;
const BACKLOG_PAUSE: Duration = Duration::from_secs(5);
const BEHIND: &str = "it waits while the workers have more to do than they can";
/// How a note ends that says what a provider hides.
const UNLISTED: &str = "does not list";
/// How often a provider's subscriptions are looked at: usually, and while something of it never comes.
const SUBSCRIPTIONS: Duration = Duration::from_hours(24);
const SUBSCRIPTIONS_SOON: Duration = Duration::from_hours(1);
/// Why a shop is not asked.
const PAUSED: &str = "not asked: it is paused";
const NOT_ASKED: &str = "not asked: its connection has no API any more, or not this shop";
const ENDED: &str = "not asked: the shop has asked to be erased, and has sent no order since";
const SIDES: [(Source, &str); 2] = [
    (Source::Storefront, leases::RECONCILE_STOREFRONTS),
    (Source::Payment, leases::RECONCILE_PAYMENTS),
];

/// Asks the providers until `shutdown`. Each process that works runs it once.
pub async fn run(parts: Parts, shutdown: CancellationToken) {
    let mut reconciler = Reconciler::new(parts);
    let mut is_failing = false;
    // A page that nobody waits for any more is asked for again: nothing of it is stored, or all of it.
    while let Some(round) = shutdown.run_until_cancelled(reconciler.round()).await {
        let pause = match round {
            Ok(pause) => {
                is_failing = false;
                pause
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
            () = tokio::time::sleep(pause) => {}
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
    /// The targets of whose rows it was sure then.
    begun: (Option<Instant>, BTreeSet<Target>),
    /// How often in a row a target could not be asked.
    failures: BTreeMap<Target, u32>,
}

/// Who is asked.
enum Asked {
    Storefront(Arc<StorefrontConnection>, providers::storefront::Storefront),
    Payment(Arc<PaymentConnection>, providers::payment::Payment),
}

impl Asked {
    /// What an operator has to know who asks for more than the provider lists.
    fn unlisted(&self, from: Timestamp, now: Timestamp) -> Option<String> {
        let (name, days) = match self {
            Asked::Storefront(of, _) => (of.profile.name, of.profile.listed_days),
            Asked::Payment(of, _) => (of.profile.name, of.profile.listed_days),
        };
        let listed = Duration::from_hours(24 * u64::from(days?));
        let is_beyond = from < now.minus(listed);
        is_beyond.then(|| {
            format!(
                "what is older than {} days, {name} {UNLISTED}",
                days.unwrap_or_default()
            )
        })
    }

    async fn subscriptions(&self, shop: &str) -> Result<Vec<Subscription>, CallFailure> {
        match self {
            Asked::Storefront(_, api) => api.subscriptions(shop).await,
            Asked::Payment(_, api) => api.subscriptions().await,
        }
    }

    /// What is to be subscribed.
    fn wanted(&self, public_url: &str) -> Wanted {
        match self {
            Asked::Storefront(of, _) => of.subscriptions(public_url),
            Asked::Payment(of, _) => of.subscriptions(public_url),
        }
    }
}

/// What a target was asked, and the answer.
struct Answered {
    of: Target,
    /// The row as it was read, and as it is to be if the answer is a page.
    before: Reconciliation,
    after: Reconciliation,
    period: Period,
    asked: Asked,
    answer: Result<Page, CallFailure>,
    /// The provider's subscriptions, if they were looked at.
    subscriptions: Option<Vec<Subscription>>,
}

impl Reconciler {
    pub fn new(parts: Parts) -> Self {
        Reconciler {
            clients: Clients::new(&parts.connections, &parts.clock),
            holder: parts.clock.id(),
            held: BTreeSet::new(),
            begun: (None, BTreeSet::new()),
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
        self.begun.1.retain(|it| targets.contains(it));
        let mut pause = Ok(PAUSE);
        for (source, lease) in SIDES {
            let of_side: BTreeSet<&Target> =
                targets.iter().filter(|it| it.source == source).collect();
            if of_side.is_empty() {
                continue;
            }
            let side = Box::pin(self.side(source, lease, &connections, &of_side)).await;
            // What hinders one side does not hinder the other.
            pause = match (pause, side) {
                (Ok(pause), Ok(of_side)) => Ok(pause.min(of_side)),
                (Err(error), _) | (_, Err(error)) => Err(error),
            };
        }
        pause
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

    async fn side(
        &mut self,
        source: Source,
        lease: &str,
        connections: &Registry,
        targets: &BTreeSet<&Target>,
    ) -> sql::Result<Duration> {
        let now = self.parts.clock.now();
        let until = now.plus(LEASE_LENGTH);
        if !leases::take(&self.parts.db, lease, self.holder, now, until).await? {
            self.held.remove(&source);
            return Ok(PAUSE);
        }
        self.begin(targets, now).await?;
        self.hasten(source, now).await?;
        self.ask(source, connections, targets, now).await
    }

    /// Makes the rows of new targets. A row is also deleted, with its connection or its shop, so it is looked again.
    async fn begin(&mut self, targets: &BTreeSet<&Target>, now: Timestamp) -> sql::Result<()> {
        let (at, begun) = &mut self.begun;
        if at.is_none_or(|at| at.elapsed() > LOOK_AGAIN) {
            begun.clear();
            *at = Some(Instant::now());
        }
        let new = targets.iter().filter(|it| !begun.contains(**it));
        let new: Vec<Target> = new.map(|it| Target::clone(it)).collect();
        let next = now.plus(self.period());
        reconciliations::begin(&self.parts.db, &new, now, next).await?;
        self.begun.1.extend(new);
        Ok(())
    }

    /// Makes due what may have a gap: everything when this process takes over, because nothing may have run before; and
    /// the senders from which nothing comes.
    async fn hasten(&mut self, source: Source, now: Timestamp) -> sql::Result<()> {
        let takes_over = self.held.insert(source);
        if self.parts.config.reconcile.is_none() {
            return Ok(());
        }
        let mut silent = BTreeMap::new();
        for it in attention::all(&self.parts.db).await? {
            let is_silent = it.condition == Condition::NothingCame && it.state == State::Begun;
            let (of, name) = it.about.split_once(' ').unwrap_or((&it.about, DEFAULT));
            if is_silent && of == source.into_str() {
                silent.insert(name.to_owned(), it.since);
            }
        }
        if !takes_over && silent.is_empty() {
            return Ok(());
        }
        let mut tx = self.parts.db.begin().await?;
        if takes_over {
            reconciliations::hasten(&mut tx, source, None, (now, now)).await?;
        }
        for (name, since) in silent {
            reconciliations::hasten(&mut tx, source, Some(&name), (since, now)).await?;
        }
        tx.commit().await
    }

    /// Asks those of a side that are due, a few at a time. The answers are stored one after the other.
    async fn ask(
        &mut self,
        source: Source,
        connections: &Registry,
        targets: &BTreeSet<&Target>,
        now: Timestamp,
    ) -> sql::Result<Duration> {
        let due = reconciliations::due(&self.parts.db, source, now, AT_ONCE).await?;
        let is_any_left = i64::try_from(due.len()).unwrap_or(AT_ONCE) >= AT_ONCE;
        let mut pause = if is_any_left { Duration::ZERO } else { PAUSE };
        let paused = pauses::in_force(&self.parts.db, now).await?;
        let is_long = due.iter().any(|it| it.page.is_some() && it.found > 0);
        let is_behind = is_long && self.is_behind(source, now).await?;
        let mut asked = Vec::new();
        for mut row in due {
            if is_behind && row.page.is_some() {
                row.next_at = now.plus(BACKLOG_PAUSE);
                row.last_error = Some(BEHIND.to_owned());
                self.save(&row).await?;
                continue;
            }
            match self.hindered(&row, targets, &paused, now).await? {
                Some((why, until)) => self.defer(row, why, until).await?,
                None => asked.extend(self.asked(connections, row)),
            }
        }
        for answered in join_all(asked.into_iter().map(|it| self.answered(it, now))).await {
            let of = answered.of.clone();
            match self.record(answered).await? {
                Next::Page(rest) => pause = pause.min(rest),
                Next::Run => {
                    self.failures.remove(&of);
                }
                Next::Retry => *self.failures.entry(of).or_default() += 1,
            }
        }
        Ok(pause.max(Duration::from_millis(10)))
    }

    /// Whether the workers of a side have more to do than they can.
    async fn is_behind(&self, source: Source, now: Timestamp) -> sql::Result<bool> {
        let queue = match source {
            Source::Storefront => Queue::Orders,
            Source::Payment | Source::Internal => Queue::Payments,
        };
        let lines = backlog::queues(&self.parts.db, now).await?;
        let mut of_queue = lines.iter().filter(|it| it.queue == queue);
        Ok(of_queue.any(|it| it.due >= BACKLOG))
    }

    /// Why a row is not asked now, and until when not.
    async fn hindered(
        &self,
        row: &Reconciliation,
        targets: &BTreeSet<&Target>,
        paused: &[Pause],
        now: Timestamp,
    ) -> sql::Result<Option<(&'static str, Timestamp)>> {
        let of = target(row);
        let is_paused = |pause: &Pause| match &pause.target {
            Paused::Provider(Provider::Storefront) => of.source == Source::Storefront,
            Paused::Provider(Provider::Payment) => of.source == Source::Payment,
            Paused::Connection(name) => *name == row.connection,
            Paused::Shop(shop) => *shop == row.shop,
            Paused::Provider(Provider::Mail) | Paused::Queue(_) | Paused::Condition(_) => false,
        };
        Ok(if !targets.contains(&of) {
            Some((NOT_ASKED, now.plus(LAST_RETRY)))
        } else if paused.iter().any(is_paused) {
            Some((PAUSED, now.plus(FIRST_RETRY)))
        } else if self.has_ended(&row.shop).await? {
            Some((ENDED, now.plus(ENDED_PAUSE)))
        } else {
            None
        })
    }

    /// Asks a row later. A run that is under way then goes on, if that is because of a pause.
    async fn defer(&self, mut row: Reconciliation, why: &str, until: Timestamp) -> sql::Result<()> {
        if why != PAUSED {
            (row.run_until, row.page) = (None, None);
        }
        row.next_at = until;
        row.failing_since = None;
        if why != PAUSED {
            row.subscriptions_error = None;
        }
        row.last_error = Some(why.to_owned());
        self.save(&row).await
    }

    fn asked(
        &self,
        connections: &Registry,
        row: Reconciliation,
    ) -> Option<(Asked, Reconciliation)> {
        if row.source == Source::Storefront.into_str() {
            let connection = connections.storefront(&row.connection)?;
            let client = self.clients.storefront(connection)?;
            return Some((Asked::Storefront(connection.clone(), client), row));
        }
        let connection = connections.payment(&row.connection)?;
        let client = self.clients.payment_of(connection)?;
        let client = client.of_account(connection.account.clone());
        Some((Asked::Payment(connection.clone(), client), row))
    }

    /// Asks for the next page of a run, or for the first one of a new run.
    async fn answered(&self, (asked, row): (Asked, Reconciliation), now: Timestamp) -> Answered {
        let mut after = row.clone();
        if row.run_until.is_none() || row.last_error.as_deref() == Some(BEHIND) {
            after.last_error = None;
        }
        if row.run_until.is_none() {
            after.begun_at = Some(now);
            (after.compared, after.found) = (0, 0);
        }
        let until = row.run_until.unwrap_or_else(|| now.minus(ON_ITS_WAY));
        let period = Period {
            from: row.confirmed_until.minus(OVERLAP).max(row.since).min(until),
            until,
        };
        let page = row.page.as_deref();
        let answer = match &asked {
            Asked::Storefront(_, api) => api.changed_orders(&row.shop, period, page).await,
            Asked::Payment(_, api) => api.events(period, page).await,
        };
        let is_due =
            answer.is_ok() && row.run_until.is_none() && self.looks_at_subscriptions(&row, now);
        let mut subscriptions = None;
        if is_due {
            match asked.subscriptions(&row.shop).await {
                Ok(listed) => {
                    after.subscriptions_checked_at = Some(now);
                    subscriptions = Some(listed);
                }
                // It has no such list, or not for our key.
                Err(failure) if matches!(failure.status(), Some(401 | 403 | 404)) => {
                    after.subscriptions_checked_at = Some(now);
                    after.subscriptions_error = None;
                }
                Err(failure) => {
                    tracing::warn!(%failure, connection = row.connection, "its subscriptions are looked at again later");
                }
            }
        }
        crash_point::reach(Point::ReconcileAsked).await;
        Answered {
            of: target(&row),
            before: row,
            after,
            period,
            asked,
            answer,
            subscriptions,
        }
    }

    /// Whether the provider's subscriptions are looked at now. Nobody out there can post to an address of this machine.
    fn looks_at_subscriptions(&self, row: &Reconciliation, now: Timestamp) -> bool {
        let often = if row.found > 0 || row.subscriptions_error.is_some() {
            SUBSCRIPTIONS_SOON
        } else {
            SUBSCRIPTIONS
        };
        let is_due = row
            .subscriptions_checked_at
            .is_none_or(|at| now.since(at) >= often);
        is_due && !is_loopback(&self.parts.config.public_url)
    }

    /// Notes what is wrong with the subscriptions. An API that lists none of ours, and never did, need not list those that
    /// somebody has made on a page of the provider, unless something never came in the last run.
    fn note_subscriptions(
        &self,
        asked: &Asked,
        listed: &[Subscription],
        (was_missed, row): (bool, &mut Reconciliation),
    ) {
        let compared = asked.wanted(&self.parts.config.public_url).compare(listed);
        if compared.is_any_ours {
            row.subscriptions_seen_at = row.subscriptions_checked_at;
        }
        let is_known = row.subscriptions_seen_at.is_some() || was_missed;
        let wrong = compared.in_words().filter(|_| is_known);
        if let Some(wrong) = wrong.as_ref().filter(|_| wrong != row.subscriptions_error) {
            let (connection, shop) = (&row.connection, &row.shop);
            tracing::warn!(connection, shop, "subscriptions are wrong: {wrong}");
        }
        row.subscriptions_error = wrong;
    }

    /// Stores what a target has answered. What cannot be stored of one is no reason to leave out the others.
    async fn record(&self, answered: Answered) -> sql::Result<Next> {
        let failures = self.failures.get(&answered.of).copied().unwrap_or_default();
        let mut answered = answered;
        if let Some(listed) = &answered.subscriptions {
            let was_missed = answered.before.found > 0;
            self.note_subscriptions(&answered.asked, listed, (was_missed, &mut answered.after));
        }
        let after = answered.after.clone();
        let failed = match answered.answer {
            Ok(page) => {
                let rows = (answered.before, answered.after);
                match self
                    .store(&answered.asked, page, answered.period, rows)
                    .await
                {
                    Ok(next) => return Ok(next),
                    Err(error) if is_outage(&error) => return Err(error),
                    Err(error) => Failed::of_ours(&error),
                }
            }
            Err(failure) => Failed::of_provider(&failure, &answered.asked),
        };
        self.failed(failed, failures, after).await?;
        Ok(Next::Retry)
    }

    async fn store(
        &self,
        asked: &Asked,
        page: Page,
        period: Period,
        (before, mut row): (Reconciliation, Reconciliation),
    ) -> sql::Result<Next> {
        let context = self.context();
        let now = self.parts.clock.now();
        // By the provider's clock too everything before this time has had the time to come.
        let by_its_clock = page.answered_at.map(|at| at.minus(ON_ITS_WAY));
        let until = by_its_clock.map_or(period.until, |at| at.min(period.until));
        let mut listed = Vec::with_capacity(page.bodies.len());
        let mut unread = 0_u64;
        let most = self.parts.config.max_body_bytes;
        for body in &page.bodies {
            if body.get().len() > most {
                unread += 1;
                continue;
            }
            let it = match asked {
                Asked::Storefront(of, _) => flow::order(&context, of, &row.shop, body).map(Some),
                Asked::Payment(of, _) => flow::event(&context, of, body),
            };
            match it {
                Ok(it) => listed.extend(it.filter(|it| !it.is_after(until))),
                Err(_) => unread += 1,
            }
        }
        if unread > 0 {
            let why = format!(
                "{unread} of what it lists cannot be read, or is too large, and is left out"
            );
            tracing::warn!(connection = row.connection, shop = row.shop, "{why}");
            row.last_error = Some(why);
        }
        row.compared += i64::try_from(page.bodies.len()).unwrap_or(i64::MAX);
        row.page.clone_from(&page.next);
        if page.next.is_some() {
            row.run_until = Some(until);
            row.next_at = now.plus(page.rest);
        } else {
            row.confirmed_until = row.confirmed_until.max(until);
            row.run_until = None;
            row.ended_at = Some(now);
            row.failing_since = None;
            if row.last_error.is_none() {
                row.last_error = asked.unlisted(period.from, now);
            }
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
        // Strangers who sign nothing keep nothing away.
        let is_its = |it: &&Summary| {
            let is_signed = it.signature != "missing" || !it.header.is_empty();
            it.source == row.source && it.connection == named && is_signed
        };
        for it in summary.iter().filter(is_its) {
            let cause = match it.reason.as_str() {
                "unavailable" | "share" => Cause::Outage,
                _ => Cause::Refused,
            };
            let at = last.entry(cause).or_insert(it.last_at);
            *at = (*at).max(it.last_at);
        }
        let usual = self.period().saturating_mul(2).saturating_add(GAP);
        // What was not asked because the provider did not answer, or because of a pause, says nothing of us.
        let hindered = row
            .last_error
            .as_deref()
            .filter(|it| !it.ends_with(UNLISTED));
        let is_ours = self.parts.config.reconcile.is_some() && hindered.is_none();
        let ended = row.ended_at.filter(|at| is_ours && now.since(*at) > usual);
        let connected_at = row.connected_at;
        Ok(move |changed_at: Timestamp| {
            if changed_at < connected_at {
                return Cause::NotConnected;
            }
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

    /// Notes why a provider could not be compared, and when it is asked again.
    async fn failed(
        &self,
        failed: Failed,
        failures: u32,
        mut row: Reconciliation,
    ) -> sql::Result<()> {
        let now = self.parts.clock.now();
        let pause = FIRST_RETRY
            .saturating_mul(1 << failures.min(10))
            .min(LAST_RETRY);
        let pause = match failed.retry_after {
            Some(asked) if failures == 0 => asked.clamp(LEAST_RETRY, LAST_RETRY),
            Some(asked) => asked.clamp(pause, LAST_RETRY),
            None => pause,
        };
        // The provider may not know the page any more, so the next run begins anew.
        if failed.is_final {
            (row.page, row.run_until) = (None, None);
        }
        row.next_at = now.plus(pause);
        row.last_error = Some(failed.why);
        if failed.has_no_list {
            row.next_at = now.plus(ENDED_PAUSE);
            row.failing_since = None;
        } else {
            row.failing_since.get_or_insert(now);
        }
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
    /// After this pause, for the next page.
    Page(Duration),
    /// For a new run, when its row says.
    Run,
    /// Again, when its row says.
    Retry,
}

/// Why a target was not compared.
struct Failed {
    why: String,
    retry_after: Option<Duration>,
    is_final: bool,
    /// An API that somebody has written for Waybill need not have a list of what changed.
    has_no_list: bool,
}

impl Failed {
    fn of_provider(failure: &CallFailure, asked: &Asked) -> Self {
        let is_ours = match asked {
            Asked::Storefront(of, _) => of.profile.api_names_shop(),
            Asked::Payment(of, _) => !of.profile.thin_events,
        };
        let has_no_list = is_ours && failure.status() == Some(404);
        let why = if has_no_list {
            "not asked: its API has no list of what changed".to_owned()
        } else {
            failure.to_string()
        };
        let retry_after = match failure {
            CallFailure::Timeout { retry_after, .. } => *retry_after,
            _ => None,
        };
        Failed {
            why,
            retry_after,
            is_final: failure.is_final(),
            has_no_list,
        }
    }

    fn of_ours(error: &sql::Error) -> Self {
        tracing::warn!(%error, "what a provider lists could not be stored");
        Failed {
            why: "what it lists could not be stored; the log of the worker says why".to_owned(),
            retry_after: None,
            is_final: false,
            has_no_list: false,
        }
    }
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
        // Where the address is the shop, the orders of one would be taken for those of another.
        if connection.shops.len() > 1 && !connection.profile.api_names_shop() {
            continue;
        }
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
    // Where a header has the id of an event, the API's event has another one.
    let payments = connections.payments().filter(|it| it.profile.id.is_none());
    for connection in payments.filter(|it| it.api.is_some()) {
        targets.insert(Target {
            source: Source::Payment,
            connection: connection.name.clone(),
            shop: String::new(),
        });
    }
    targets
}
