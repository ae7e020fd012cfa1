//! Events that came without their object: it is fetched from the payment provider, and they are
//! worked on as if they had brought it. It is not kept: the payment's row is all that stays.

use anyhow::{Result, anyhow, bail};
use bytes::Bytes;
use domain::job::Job;
use domain::payment::Event;
use domain::payment::thin::{self, ThinEvent};
use store::sql::Tx;

use super::fulfillments::failed;
use super::outbox::Outbox;
use super::{Answer, Providers, payments};
use crate::failure::permanent;

/// Their types, as the provider spells them.
pub fn is_one(kind: &str) -> bool {
    thin::kind(kind).is_some()
}

pub async fn call(providers: &Providers, job: &Job) -> Result<Answer> {
    if Event::read(&job.body).is_ok() {
        // Somebody was erased, and what may stay of the whole event has taken its place.
        return Ok(Answer::Object(job.body.clone()));
    }
    let event = ThinEvent::read(&job.body).map_err(permanent)?;
    let Some(provider) = &providers.payment else {
        bail!("PAYMENT_API_URL and PAYMENT_API_KEY are not set in this process");
    };
    let object = provider.object(&event.path, event.context.as_deref());
    let object = object.await.map_err(failed)?;
    Ok(Answer::Object(Bytes::from(event.with(&object))))
}

/// The event with its object, in place of the one that came without.
pub async fn record(outbox: &mut Outbox<'_>, tx: &mut Tx, job: &Job, event: &Bytes) -> Result<()> {
    let kind = thin::kind(&job.kind).ok_or_else(|| permanent(anyhow!("it is no thin event")))?;
    let job = Job {
        kind: kind.as_str().to_owned(),
        body: event.clone(),
        ..job.clone()
    };
    let task = payments::prepare(&job)?;
    payments::apply(outbox, tx, &[(&job, &task)]).await
}
