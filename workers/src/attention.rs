//! Notifies operators of what needs a person: each change of a condition once, as an event and by mail to `OPERATORS_MAIL`.
//!
//! Every process that works looks, one at a time, by a lease. The state of a condition and its event are changed in one
//! transaction and only from the state that was read, so an event is there once even if two processes believe that they
//! hold the lease, and after a crash at any point. A mail has all that operators were not yet notified of, and that they were is noted
//! after the server has taken it. So when the server was away for a day, one mail says what is still true. A process that
//! dies before it has noted that is followed by one that sends the mail again, with the same `Message-ID`: it is made of
//! what the mail says.
//!
//! It does not wait for any queue, because a queue may be what stands still.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use domain::attention::{self as conditions, Condition, Found, State, Step};
use domain::event::{Event, OperatorEvent};
use domain::notification::Mail;
use domain::pause::Target;
use domain::time::Timestamp;
use flows::Context;
use flows::outbox::Outbox;
use operators::attention as look;
use platform::backoff::Backoff;
use platform::crash_point::{self, Point};
use process::Parts;
use sha2::{Digest, Sha256};
use store::attention::{self, Attention};
use store::sql::{self, Tx};
use store::{leases, pauses};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::{Builder, Uuid};

use crate::mail::{MailFailure, Mailer};

const PAUSE: Duration = Duration::from_secs(15);
/// The pause after a look is at least this many times as long as it took.
const SHARE: u32 = 20;
const LEASE: &str = "attention";
const LEASE_LENGTH: Duration = Duration::from_mins(1);
/// The pauses after a mail that was not taken.
const FIRST_PAUSE: Duration = Duration::from_secs(15);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// Looks and notifies until `shutdown`. Each process that works runs it once.
pub async fn run(parts: Parts, shutdown: CancellationToken) {
    let mut watch = Watch::new(parts);
    let mut is_failing = false;
    while !shutdown.is_cancelled() {
        let begun = Instant::now();
        match watch.round().await {
            Ok(()) => is_failing = false,
            Err(error) => {
                if !is_failing {
                    tracing::warn!(%error, "what needs a person could not be looked at; trying again");
                }
                is_failing = true;
            }
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep(PAUSE.max(begun.elapsed() * SHARE)) => {}
            () = shutdown.cancelled() => {}
        }
    }
    watch.hand_over().await;
}

/// One process that looks.
pub struct Watch {
    parts: Parts,
    /// The mail server and who is notified; `None` when nobody gets mails.
    mail: Option<(Mailer, String)>,
    holder: Uuid,
    pauses: Backoff,
    /// No mail is sent before then.
    rested: Duration,
}

impl Watch {
    pub fn new(parts: Parts) -> Self {
        let to = parts.config.operators_mail.as_ref();
        Watch {
            mail: Mailer::new(&parts.config).zip(to.map(ToString::to_string)),
            holder: parts.clock.id(),
            pauses: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            rested: Duration::ZERO,
            parts,
        }
    }

    /// Looks once, and notifies of what has changed. Nothing happens while another process looks.
    pub async fn round(&mut self) -> sql::Result<()> {
        let now = self.parts.clock.now();
        if !self.is_ours(now).await? {
            return Ok(());
        }
        let db = &self.parts.db;
        let silenced: BTreeSet<Condition> = pauses::in_force(db, now)
            .await?
            .into_iter()
            .filter_map(|pause| match pause.target {
                Target::Condition(condition) => Some(condition),
                Target::Queue(_)
                | Target::Provider(_)
                | Target::Shop(_)
                | Target::Connection(_) => None,
            })
            .collect();
        // A database that is older than an erasure shows nothing but that.
        let is_current = self.parts.journal.is_current();
        let is_notified = |condition: Condition| {
            let is_known = is_current || condition == Condition::DatabaseNotServed;
            is_known && !silenced.contains(&condition)
        };
        let mut known = attention::all(db).await?;
        known.retain(|it| is_notified(it.condition));
        let found = self.found(&known, is_current, now).await?;
        let found: BTreeMap<(Condition, String), String> = found
            .into_iter()
            .filter(|it| is_notified(it.condition))
            .map(|it| ((it.condition, it.about), it.details))
            .collect();
        self.change(&known, &found, now).await?;
        if self.mail.is_some() {
            let mut all = attention::all(db).await?;
            // What has begun and is not seen now is mailed when it is seen again.
            let is_seen = |it: &Attention| found.contains_key(&(it.condition, it.about.clone()));
            let is_true = |it: &Attention| it.state == State::Over || is_seen(it);
            all.retain(|it| is_notified(it.condition) && it.is_to_be_notified() && is_true(it));
            self.notify(&all, &found).await?;
        }
        Ok(())
    }

    /// Lets another process look.
    pub async fn hand_over(&self) {
        if let Err(error) = leases::release(&self.parts.db, LEASE, self.holder).await {
            tracing::debug!(%error, "the lease to look at what needs a person ends by itself");
        }
    }

    async fn is_ours(&self, now: Timestamp) -> sql::Result<bool> {
        let until = now.plus(LEASE_LENGTH);
        leases::take(&self.parts.db, LEASE, self.holder, now, until).await
    }

    async fn found(
        &self,
        known: &[Attention],
        is_current: bool,
        now: Timestamp,
    ) -> sql::Result<Vec<Found>> {
        let Parts {
            config,
            db,
            bus,
            journal,
            ..
        } = &self.parts;
        if !is_current {
            return Ok(vec![Found {
                condition: Condition::DatabaseNotServed,
                about: String::new(),
                details: journal.state().to_string(),
            }]);
        }
        let mut found = look::look(db, config, known, now).await?;
        if !bus.is_up() {
            found.push(Found {
                condition: Condition::BrokerAway,
                about: String::new(),
                details: String::new(),
            });
        }
        Ok(found)
    }

    /// Writes what has begun and what is over, each with its event.
    async fn change(
        &self,
        known: &[Attention],
        found: &BTreeMap<(Condition, String), String>,
        now: Timestamp,
    ) -> sql::Result<()> {
        let is_mailed = self.mail.is_some();
        let steps: Vec<(&Attention, Step)> = known
            .iter()
            .filter_map(|it| {
                let is_seen = found.contains_key(&(it.condition, it.about.clone()));
                let step = conditions::next(&it.kept(), is_seen, is_mailed, now)?;
                Some((it, step))
            })
            .collect();
        let new: Vec<_> = found
            .iter()
            .filter(|((condition, about), _)| {
                let is_same = |it: &Attention| it.condition == *condition && it.about == *about;
                !known.iter().any(is_same)
            })
            .collect();
        if steps.is_empty() && new.is_empty() {
            return Ok(());
        }
        let mut changes = Changes {
            outbox: Outbox::new(Context {
                config: &self.parts.config,
                connections: &self.parts.connections,
                clock: &self.parts.clock,
                keys: &self.parts.keys,
            }),
            now,
        };
        let mut tx = self.parts.db.begin().await?;
        for ((condition, about), details) in new {
            let state = conditions::first(*condition);
            if attention::insert(&mut tx, *condition, about, state, now).await? {
                changes.add(*condition, about, state, details);
            }
        }
        for (known, step) in steps {
            let details = found.get(&(known.condition, known.about.clone()));
            let details = details.map_or("", String::as_str);
            changes.take(&mut tx, known, step, details).await?;
        }
        changes.outbox.write(&mut tx).await?;
        tx.commit().await?;
        changes.outbox.readable(&self.parts.bus);
        Ok(())
    }

    /// Sends one mail with all of this, and notes that operators were notified.
    async fn notify(
        &mut self,
        all: &[Attention],
        found: &BTreeMap<(Condition, String), String>,
    ) -> sql::Result<()> {
        let clock = &self.parts.clock;
        let is_due = !all.is_empty() && clock.elapsed() >= self.rested;
        let Some((mailer, to)) = self.mail.as_ref().filter(|_| is_due) else {
            return Ok(());
        };
        // The look may have taken long.
        if !self.is_ours(clock.now()).await? {
            return Ok(());
        }
        let mail = letter(&self.parts, all, found);
        crash_point::reach(Point::AttentionNotify).await;
        let sent = mailer.send(id_of(all), None, to, &mail).await;
        crash_point::reach(Point::AttentionNotified).await;
        if let Err(MailFailure::Later(error) | MailFailure::Refused(error)) = sent {
            tracing::warn!(
                error,
                "the mail to OPERATORS_MAIL was not taken; trying again later"
            );
            self.rested = clock.elapsed() + self.pauses.next_pause();
            return Ok(());
        }
        self.pauses.reset();
        let mut tx = self.parts.db.begin().await?;
        for it in all {
            if it.state == State::Over {
                attention::forget(&mut tx, it).await?;
            } else {
                attention::notified(&mut tx, it).await?;
            }
        }
        tx.commit().await
    }
}

/// The changes of one look.
struct Changes<'a> {
    outbox: Outbox<'a>,
    now: Timestamp,
}

impl Changes<'_> {
    async fn take(
        &mut self,
        tx: &mut Tx,
        known: &Attention,
        step: Step,
        details: &str,
    ) -> sql::Result<()> {
        let Attention {
            condition, about, ..
        } = known;
        match step {
            Step::Note => attention::note(tx, known, self.now).await?,
            Step::To(state) => {
                if attention::change(tx, known, state, self.now).await? {
                    self.add(*condition, about, state, details);
                }
            }
            Step::Forget => {
                if attention::forget(tx, known).await? && known.state == State::Begun {
                    self.add(*condition, about, State::Over, "");
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, condition: Condition, about: &str, state: State, details: &str) {
        let name = condition.into_str();
        match state {
            State::Seen => return,
            State::Begun => {
                tracing::warn!(
                    condition = name,
                    about,
                    details,
                    "something needs a person; see `waybill attention list`"
                );
            }
            State::Over => {
                tracing::info!(condition = name, about, "what needed a person is over");
            }
        }
        let what = OperatorEvent::of(condition, about, state, details);
        self.outbox
            .event(Event::of_condition(condition, about, what));
    }
}

/// The id of the mail that says this. Its time is that of the latest change.
fn id_of(all: &[Attention]) -> Uuid {
    let mut lines = Sha256::new();
    for it in all {
        let (condition, state) = (it.condition.into_str(), it.state.into_str());
        let line = format!("{condition} {state} {} {}\n", it.since.0, it.about);
        lines.update(line);
    }
    let latest = all.iter().map(|it| it.since.0).max().unwrap_or_default();
    let millis = u64::try_from(latest).unwrap_or(0);
    let rest: [u8; 10] = std::array::from_fn({
        let hash = lines.finalize();
        move |at| hash[at]
    });
    Builder::from_unix_timestamp_millis(millis, &rest).into_uuid()
}

fn letter(parts: &Parts, all: &[Attention], found: &BTreeMap<(Condition, String), String>) -> Mail {
    let (begun, over): (Vec<&Attention>, Vec<_>) =
        all.iter().partition(|it| it.state == State::Begun);
    let subject = match (begun.as_slice(), over.as_slice()) {
        ([one], []) => format!("Waybill needs you: {}", one.condition.summary(&one.about)),
        ([], [one]) => format!("Over: {}", one.condition.summary(&one.about)),
        ([], over) => format!("Over: {} things that needed you", over.len()),
        (begun, _) => format!("Waybill needs you: {} things", begun.len()),
    };
    let mut body = String::new();
    if !begun.is_empty() {
        body += "This needs you:\n\n";
    }
    for it in begun {
        let row = it.condition.row();
        let details = found.get(&(it.condition, it.about.clone()));
        let details = details.map_or("", String::as_str);
        let _ = writeln!(body, "- {}", heading(it));
        let comma = if details.is_empty() { "" } else { ", " };
        let _ = writeln!(body, "  {details}{comma}since {}", it.since.in_words());
        let _ = writeln!(body, "  {}", row.mend);
        let _ = writeln!(body, "  {}", row.command);
        if let Some(console) = &parts.config.console.url {
            let _ = writeln!(body, "  {console}{}", row.page);
        }
        body.push('\n');
    }
    if !over.is_empty() {
        body += "This is over:\n\n";
    }
    for it in over {
        let _ = writeln!(body, "- {}\n  since {}\n", heading(it), it.since.in_words());
    }
    let _ = write!(
        body,
        "waybill attention list                            # what needs you now\n\
         waybill attention acknowledge CONDITION           # say that you know of it\n\
         waybill pauses begin condition CONDITION --for 4h # hear nothing of it meanwhile\n\n\
         From Waybill at {}\n",
        parts.config.public_url
    );
    Mail { subject, body }
}

/// The sentence of a condition, with its name, and with what it is about if the sentence does not say that.
fn heading(it: &Attention) -> String {
    let (name, sentence) = (it.condition.into_str(), it.condition.summary(&it.about));
    if it.about.is_empty() || sentence.contains(&it.about) {
        format!("{sentence} ({name})")
    } else {
        format!("{sentence} ({name} {})", it.about)
    }
}
