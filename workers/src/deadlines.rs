//! The deadlines of privacy requests: no request passes its own silently. When seven days are
//! left, when two are, and when none is left, it is reported in the log, a metric, an event and the
//! audit: once each, whichever worker looks, because the request is marked in the transaction
//! of the event. Each worker looks, those of other queues too: the one that should have done
//! it may be what is missing.

use domain::code::Code;
use domain::event::{PrivacyEvent, RequestDeadline};
use domain::time::Timestamp;
use store::privacy_requests::{self, DueNotice, Notice};
use store::sql;

use crate::Worker;

use crate::handlers::Outbox;

/// Requests reported in one transaction.
const CHUNK: u64 = 100;

impl Worker {
    /// Reports every deadline that has come near since it was last looked at.
    pub async fn send_deadline_notices(&self) -> sql::Result<()> {
        let (open, nearest) = privacy_requests::open_deadlines(&self.parts.db).await?;
        let now = self.parts.clock.now();
        show(open, nearest, now);
        if nearest.is_none_or(|due_at| due_at > now.plus(domain::privacy::WARNING)) {
            return Ok(());
        }
        for notice in [Notice::Warning, Notice::Alarm, Notice::Overdue] {
            while self.send_notice(notice).await? == CHUNK {}
        }
        Ok(())
    }

    /// Reports some; how many.
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
        outbox.audit(&mut tx).await?;
        tx.commit().await?;
        for request in &due {
            announce(notice, request);
        }
        Ok(due.len() as u64)
    }
}

/// What the audit calls it, and the event.
fn event_of(notice: Notice, request: &DueNotice) -> (&'static str, PrivacyEvent) {
    let deadline = RequestDeadline {
        topic: request.topic.clone(),
        code: Code::Privacy.id(),
        due_at: request.due_at,
    };
    match notice {
        Notice::Warning => ("deadline.near", PrivacyEvent::DeadlineNear(deadline)),
        Notice::Alarm => ("deadline.alarm", PrivacyEvent::DeadlineAlarm(deadline)),
        Notice::Overdue => ("deadline.passed", PrivacyEvent::DeadlinePassed(deadline)),
    }
}

fn announce(notice: Notice, request: &DueNotice) {
    let (id, topic, due_at) = (request.id, request.topic.as_str(), request.due_at);
    let label = match notice {
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
    // Below zero when it has passed; not a number when nothing is open.
    let seconds = nearest.map_or(f64::NAN, |due_at| {
        due_at.since(now).as_secs_f64() - now.since(due_at).as_secs_f64()
    });
    metrics::gauge!("waybill_privacy_next_deadline_seconds").set(seconds);
    let open = u32::try_from(open).unwrap_or(u32::MAX);
    metrics::gauge!("waybill_privacy_requests_open").set(f64::from(open));
}
