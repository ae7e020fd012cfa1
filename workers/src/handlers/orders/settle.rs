//! What payments make of the orders of a message (`common::order::settlement`), and the
//! orders of checkout sessions that the storefront's own take the place of.

use std::collections::{BTreeSet, HashMap};

use anyhow::Result;
use common::order::outcome::changes;
use common::order::record::Cancellation;
use common::order::settlement::{self, Linked, Settled};
use common::sql::Tx;
use common::store::fulfillments::{self, Moved};
use common::store::orders::records::{self, Key};
use common::store::orders::{self, Claim};
use common::store::{checkout_sessions, payments};

use super::{Effects, Story, refunds, told};

/// Why an order of a checkout session is called off.
pub(super) const SUPERSEDED: &str = "superseded";

/// Enters into the orders what their payments come to. An agreement that several orders
/// claim links none of them.
pub(super) async fn settle(tx: &mut Tx, stories: &mut [Story]) -> Result<()> {
    let pact = |story: &Story| refunds::pact_of(&story.key, &story.after.record);
    let pacts: BTreeSet<String> = stories.iter().map(pact).collect();
    let stand_ins = pacts.iter().map(|pact| orders::checkout_key(pact).1);
    let stand_ins = orders::standing(tx, orders::CHECKOUT, stand_ins.collect()).await?;
    let stand_in =
        |pact: &str| Some(orders::checkout_key(pact)).filter(|it| stand_ins.contains(&it.1));
    let of_pacts = payments::of_pacts(tx, pacts.iter().cloned().collect()).await?;
    let doubtful = pacts
        .iter()
        .filter(|pact| stand_in(pact).is_some() || of_pacts.iter().any(|(of, _)| of == *pact));
    let mut claims = orders::of_pacts(tx, doubtful.cloned().collect()).await?;
    for story in stories.iter_mut() {
        let pact = pact(story);
        let Some(stand_in) = stand_in(&pact).filter(|it| *it != story.key) else {
            continue;
        };
        story.has_stand_in = is_alone(&claims, &pact, &story.key);
        if story.has_stand_in {
            checkout_sessions::move_orders(tx, &stand_in, &story.key).await?;
        }
    }
    let ids = stories.iter().map(|story| story.key.1).collect();
    let of_sessions = payments::of_sessions(tx, ids).await?;
    let more = stories
        .iter()
        .filter(|story| of_sessions.iter().any(|(of, _)| *of == story.key));
    let more = more.map(pact).filter(|pact| !claims.contains_key(pact));
    claims.extend(orders::of_pacts(tx, more.collect()).await?);
    for story in stories {
        let pact = pact(story);
        let of_pact = of_pacts.iter().filter(|(of, _)| *of == pact);
        let of_session = of_sessions.iter().filter(|(of, _)| *of == story.key);
        let mut linked: Vec<Linked> = of_pact
            .map(|(_, payment)| payment)
            .chain(of_session.map(|(_, payment)| payment))
            .cloned()
            .collect();
        linked.sort_by(|a, b| a.id.cmp(&b.id));
        linked.dedup_by(|a, b| a.id == b.id);
        let record = &mut story.after.record;
        // Its payments may have turned out to be of another agreement, and who claims the
        // agreement of an order that is linked already comes too late.
        let was_linked = record.settled != Settled::default();
        let is_linked = !linked.is_empty() && is_alone(&claims, &pact, &story.key);
        if !was_linked && !is_linked {
            continue;
        }
        let before = record.clone();
        settlement::settle(record, &linked);
        story.is_settled_anew = *record != before;
        story.payments = linked;
    }
    Ok(())
}

fn is_alone(claims: &HashMap<String, Vec<Claim>>, pact: &str, key: &Key) -> bool {
    matches!(claims.get(pact).map(Vec::as_slice), Some([only]) if only.key == *key)
}

/// Calls off the orders that checkout sessions made, now that the storefront's own are known.
/// Their payments are these orders'.
pub(super) async fn supersede(
    effects: &mut Effects<'_>,
    tx: &mut Tx,
    keys: Vec<Key>,
) -> Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let keys: BTreeSet<Key> = keys.into_iter().collect();
    let keys: Vec<&Key> = keys.iter().collect();
    for (key, mut entry) in records::load(tx, &keys).await? {
        let before = entry.record.clone();
        if before.cancelled.is_some() {
            continue;
        }
        entry.record.cancelled = Some(Cancellation {
            at: effects.now.0,
            reason: Some(SUPERSEDED.to_owned()),
        });
        for change in changes(Some(&before), &entry.record) {
            let (kind, body) = told(change, &entry.record);
            effects.event(&key, &mut entry.events_at, kind, body);
        }
        let moved = Moved {
            key: &key,
            state: entry.record.fulfillment_state(),
            to_provider: false,
        };
        fulfillments::save(tx, &[moved], effects.now).await?;
        records::save(tx, &[(&key, &entry)], effects.now).await?;
    }
    Ok(())
}
