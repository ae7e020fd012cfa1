//! Thin events of the payment provider, which come without their object. A call fetches the object,
//! and then the event is processed as if it had brought the object. The object itself is not
//! stored; only the payment's row is.

use anyhow::{Result, anyhow};
use bytes::Bytes;
use domain::connection::DEFAULT;
use domain::job::{Job, Kind};
use domain::payment::Event;
use domain::payment::thin::ThinEvent;
use flows::outbox::Outbox;
use flows::payments;
use store::sql::Tx;

use super::{Answer, Providers};
use crate::failure::{call_failed, permanent};

pub async fn call(providers: &Providers, job: &Job) -> Result<Answer> {
    if Event::read(&job.body).is_ok() {
        // An erasure has replaced the thin event by the part of the whole event that may stay.
        return Ok(Answer::Object(job.body.clone()));
    }
    let event = ThinEvent::read(&job.body).map_err(permanent)?;
    let connection = job.connection.as_deref().unwrap_or(DEFAULT);
    let provider = providers.clients.payment(connection)?;
    let object = provider.object(&event.path, event.context.as_deref());
    let object = object.await.map_err(call_failed)?;
    Ok(Answer::Object(Bytes::from(event.with(&object))))
}

/// Processes the event with its object in place of the thin event.
pub async fn record(outbox: &mut Outbox<'_>, tx: &mut Tx, job: &Job, event: &Bytes) -> Result<()> {
    let Kind::ThinPayment(event_type) = job.kind else {
        return Err(permanent(anyhow!("it is no thin event")));
    };
    let job = Job {
        kind: Kind::Payment(event_type),
        body: event.clone(),
        ..job.clone()
    };
    let task = payments::prepare(&job)?;
    Ok(payments::apply(outbox, tx, &[(&job, &task)]).await?)
}
