//! Reports the deadlines of privacy requests, so that no deadline passes without notice, and erasures that are held, while
//! they can still be cancelled. When an erasure is held, when seven days are left, when two days are left, and when the deadline has passed, a worker reports
//! the request in the log, a metric, an event and the audit. Each notice is given once, because
//! the request is marked in the transaction that writes the event. The workers of all queues look
//! for such requests, because the privacy worker may be what is missing.

use domain::code::Code;
use domain::event::{PrivacyEvent, RequestDeadline};
use domain::time::Timestamp;
use flows::outbox::Outbox;
use store::privacy_requests::{self, DueNotice, Notice};
use store::sql;

use crate::Worker;

/// Requests reported in one transaction.
const CHUNK: u64 = 100;

impl Worker {
    /// Reports every deadline that has come near since the last look.
    pub async fn send_deadline_notices(&self) -> sql::Result<()> {
        let (open, nearest) = privacy_requests::open_deadlines(&self.parts.db).await?;
        let now = self.parts.clock.now();
        show(open, nearest, now);
        let Some(nearest) = nearest else {
            return Ok(());
        };
        let of_deadlines = [Notice::Warning, Notice::Alarm, Notice::Overdue].into_iter();
        let is_near = nearest <= now.plus(domain::privacy::WARNING);
        for notice in [Notice::Held]
            .into_iter()
            .chain(of_deadlines.filter(|_| is_near))
        {
            while self.send_notice(notice).await? == CHUNK {}
        }
        Ok(())
    }

    /// Reports some deadlines, and returns how many.
    async fn send_notice(&self, notice: Notice) -> sql::Result<u64> {
        let mut outbox = Outbox::new(self.context());
        let mut tx = self.parts.db.begin().await?;
        let now = outbox.now;
        let limit = CHUNK.cast_signed();
        let due = privacy_requests::take_notices(&mut tx, notice, now, limit).await?;
        for request in &due {
            let (action, event) = event_of(notice, request);
            outbox.request(&request.shop, request.id, action, event);
        }
        outbox.write(&mut tx).await?;
        tx.commit().await?;
        self.committed(&[outbox]);
        for request in &due {
            announce(notice, request);
        }
        Ok(due.len() as u64)
    }
}

/// The names of the notice in the audit and of the event.
fn event_of(notice: Notice, request: &DueNotice) -> (&'static str, PrivacyEvent) {
    let deadline = RequestDeadline {
        topic: request.topic.clone(),
        code: Code::Privacy.id(),
        due_at: request.due_at,
    };
    match notice {
        Notice::Held => (
            "erasure.held",
            PrivacyEvent::RequestHeld {
                topic: request.topic.clone(),
                customers: 0,
                orders: 0,
                begins_at: request.held_until,
                due_at: request.due_at,
            },
        ),
        Notice::Warning => ("deadline.near", PrivacyEvent::DeadlineNear(deadline)),
        Notice::Alarm => ("deadline.alarm", PrivacyEvent::DeadlineAlarm(deadline)),
        Notice::Overdue => ("deadline.passed", PrivacyEvent::DeadlinePassed(deadline)),
    }
}

fn announce(notice: Notice, request: &DueNotice) {
    let (id, topic, due_at) = (request.id, request.topic.as_str(), request.due_at);
    let label = match notice {
        Notice::Held => {
            let shop = request.shop.as_str();
            let why = match (request.held_until, request.living_at) {
                (None, _) => "its body was sent before",
                (_, Some(_)) => "the shop is in use",
                (_, None) => "it can be cancelled until then",
            };
            let begins_at = request.held_until.map(tracing::field::display);
            tracing::warn!(
                request = %id, topic, shop, begins_at, why,
                "an erasure is held; see `waybill privacy show`, then `waybill privacy confirm` or `cancel`"
            );
            "held"
        }
        Notice::Warning => {
            tracing::warn!(
                request = %id, topic, %due_at, code = %Code::Privacy,
                "a privacy request must be done within seven days; see `waybill privacy show`"
            );
            "warning"
        }
        Notice::Alarm => {
            tracing::error!(
                request = %id, topic, %due_at, code = %Code::Privacy,
                "a privacy request must be done within 48 hours; see `waybill privacy show`"
            );
            "alarm"
        }
        Notice::Overdue => {
            tracing::error!(
                request = %id, topic, %due_at, code = %Code::Privacy,
                "a privacy request is overdue; see `waybill privacy show`, then `waybill privacy retry`"
            );
            "overdue"
        }
    };
    metrics::counter!("waybill_privacy_deadline_notices_total", "notice" => label).increment(1);
}

fn show(open: i64, nearest: Option<Timestamp>, now: Timestamp) {
    // The value is below zero when the deadline has passed, and not a number when no request is
    // open.
    let seconds = nearest.map_or(f64::NAN, |due_at| {
        due_at.since(now).as_secs_f64() - now.since(due_at).as_secs_f64()
    });
    metrics::gauge!("waybill_privacy_next_deadline_seconds").set(seconds);
    let open = u32::try_from(open).unwrap_or(u32::MAX);
    metrics::gauge!("waybill_privacy_requests_open").set(f64::from(open));
}
