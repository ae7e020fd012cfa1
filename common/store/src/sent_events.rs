//! Where events went, as far as it is stored.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use crate::endpoints;
use crate::sql::{Db, Result};
use domain::envelope::Envelope;

/// How many events are looked up at a time.
const MOST: usize = 500;

#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// The addresses of the endpoints that have accepted it, or for which it was given up.
    pub went_to: Vec<String>,
    /// The addresses of the endpoints for which it waits.
    pub waits_for: Vec<String>,
}

/// Where each of these events went; of very many, the last ones. An endpoint that was added after an event is left
/// out, although it may have been given earlier events.
pub async fn of(db: &Db, events: &[Envelope]) -> Result<HashMap<Uuid, Sent>> {
    let events = &events[events.len().saturating_sub(MOST)..];
    if events.is_empty() {
        return Ok(HashMap::new());
    }
    let mut sent: HashMap<Uuid, Sent> =
        (events.iter().map(|event| (event.id, Sent::default()))).collect();
    let endpoints = endpoints::list(db).await?;
    if endpoints.is_empty() {
        return Ok(sent);
    }
    let waiting: HashSet<(Uuid, i64)> = db
        .query(
            "select endpoint_id, position from outgoing_webhooks
             where endpoint_id in (select id from endpoints) and position in ($1..)",
        )
        .bind(
            events
                .iter()
                .map(|event| event.position)
                .collect::<Vec<_>>(),
        )
        .all(|row| Ok((row.get("endpoint_id")?, row.get("position")?)))
        .await?;
    for event in events {
        let Some(known) = sent.get_mut(&event.id) else {
            continue;
        };
        let wants = |it: &&endpoints::Endpoint| {
            it.created_at <= event.created_at
                && it.types.iter().any(|types| types.fits(&event.kind))
        };
        for endpoint in endpoints.iter().filter(wants) {
            let has_passed = event.position <= endpoint.position;
            let url = endpoint.url.clone();
            if has_passed && !waiting.contains(&(endpoint.id, event.position)) {
                known.went_to.push(url);
            } else {
                known.waits_for.push(url);
            }
        }
    }
    Ok(sent)
}
