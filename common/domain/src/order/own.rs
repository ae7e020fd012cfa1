//! What Waybill keeps of an order beside what deliveries say of it: how far its fulfilment has come, what the storefront was
//! asked, and the links of its QR codes. All times are in Unix milliseconds.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::OrderKey;
use super::outcome::{FulfillmentState, Level};
use super::record::Record;
use super::settlement::Cycle;
use crate::job::JobId;
use crate::record::{Rest, things};

#[derive(Clone, Debug, Default, PartialEq, Eq, row::Record)]
pub struct Own {
    /// When the order became known.
    pub known_at: i64,
    /// When its person was erased.
    pub redacted_at: Option<i64>,
    pub fulfillment: Fulfillment,
    /// The fulfilments of the agreement's further cycles that were ever requested.
    pub cycles: BTreeMap<Cycle, FurtherCycle>,
    /// The link to the order's public page, which its QR code has. It stays, because the code may have been printed.
    #[thing]
    pub page_url: Option<String>,
    /// The links to the pages of its parcels, by tracking number. A number that fits into no QR code has none.
    #[thing]
    pub parcel_urls: BTreeMap<String, String>,
    /// When each shipment last changed here.
    pub shipments_at: BTreeMap<i64, i64>,
    /// The storefront's order that has taken the place of this placeholder.
    #[thing]
    pub successor: Option<OrderKey>,
    /// Bodies that left a status to their topic, by their hashes.
    pub bodies: BTreeMap<String, Body>,
    pub rest: Rest,
}

/// The parameter of the code in links to an order's pages.
pub const PAGE_CODE: &str = "code";

impl Own {
    /// The code with which the order's pages open; none where everyone may open them who knows its id.
    pub fn page_code(&self) -> Option<&str> {
        let (_, query) = self.page_url.as_ref()?.split_once('?')?;
        let mut parts = query.split('&').filter_map(|part| part.split_once('='));
        parts.find_map(|(name, value)| (name == PAGE_CODE).then_some(value))
    }
}

/// A body that left a status to its topic.
#[derive(Clone, Debug, PartialEq, Eq, row::Record)]
pub struct Body {
    /// Under which it was accepted first.
    #[required]
    #[thing]
    pub topic: String,
    /// How often it came again under another topic that says more. Those deliveries changed nothing.
    pub repeats: i64,
    /// How often the storefront did not confirm what only the topic said.
    pub refuted: i64,
    #[required]
    pub at: i64,
}

impl Body {
    /// Whether its topic did not count.
    pub fn is_disputed(&self) -> bool {
        self.repeats > 0 || self.refuted > 0
    }
}

/// How far the order's own fulfilment has come. Its state follows from the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, row::Record)]
pub struct Fulfillment {
    /// When it first was in this state, and in the two that follow.
    pub requested_at: Option<i64>,
    pub fulfilled_at: Option<i64>,
    pub cancelled_at: Option<i64>,
    pub updated_at: i64,
    /// How many units of each line were ever requested or shipped.
    pub requested: Level,
    /// The newest request at the storefront. What an older one is answered does not settle it.
    pub asked: Option<Asked>,
}

impl Fulfillment {
    /// Notes the state in which the fulfilment is from now on.
    pub fn reach(&mut self, state: FulfillmentState, now: i64) {
        let first = match state {
            FulfillmentState::Initiated => None,
            FulfillmentState::Requested => Some(&mut self.requested_at),
            FulfillmentState::Fulfilled => Some(&mut self.fulfilled_at),
            FulfillmentState::Cancelled => Some(&mut self.cancelled_at),
        };
        if let Some(first) = first {
            first.get_or_insert(now);
        }
        self.updated_at = now;
    }

    /// Notes what the storefront answered to a job's request, unless that was noted before or further units were requested
    /// since: the answer says nothing of these, and their own job asks for whatever is open then.
    pub fn answer(&mut self, job: JobId, state: ProviderState, id: Option<&str>, now: i64) {
        let open = self.asked.as_mut().filter(|it| it.is_open(job));
        if let Some(asked) = open.filter(|it| it.state != state) {
            asked.state = state;
            asked.id = id.map(ToOwned::to_owned);
            self.updated_at = now;
        }
    }
}

/// A request at the storefront.
#[derive(Clone, Debug, PartialEq, Eq, row::Record)]
pub struct Asked {
    /// The job that asks.
    #[required]
    pub job: JobId,
    #[required]
    pub state: ProviderState,
    /// The storefront's id of the fulfilment that it made.
    #[thing]
    pub id: Option<String>,
}

impl Asked {
    fn is_open(&self, job: JobId) -> bool {
        self.job == job && matches!(self.state, ProviderState::Pending | ProviderState::Failed)
    }
}

/// The outcome of a request at the storefront.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, Serialize, Deserialize)]
#[strum(const_into_str, serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum ProviderState {
    /// A job will create the fulfilment there.
    Pending,
    Created,
    /// Nothing was left to be shipped.
    NotNeeded,
    /// The storefront refuses the request for good.
    Failed,
}

things!(ProviderState);

/// A fulfilment of an agreement after the first, which is the order itself.
#[derive(Clone, Debug, PartialEq, Eq, row::Record)]
pub struct FurtherCycle {
    /// False: it was called off.
    pub is_requested: bool,
    /// When it first was, and the same of `cancelled_at`.
    #[required]
    pub requested_at: i64,
    pub cancelled_at: Option<i64>,
}

impl Own {
    /// When the newest body came whose topic did not count.
    pub fn disputed_at(&self) -> Option<i64> {
        let bodies = self.bodies.values();
        bodies
            .filter(|body| body.is_disputed())
            .map(|body| body.at)
            .max()
    }

    /// Notes that a further cycle is requested or called off from now on.
    pub fn move_cycle(&mut self, cycle: Cycle, is_requested: bool, now: i64) {
        let moved = self.cycles.entry(cycle).or_insert(FurtherCycle {
            is_requested,
            requested_at: now,
            cancelled_at: None,
        });
        moved.is_requested = is_requested;
        if !is_requested {
            moved.cancelled_at.get_or_insert(now);
        }
    }
}

impl Record {
    /// True while this job is to ask the storefront to fulfil the order: a job that was stored later asks for its units
    /// too.
    pub fn is_asked_by(&self, job: JobId) -> bool {
        let asked = self.own.fulfillment.asked.as_ref();
        self.fulfillment_state() == FulfillmentState::Requested
            && asked.is_some_and(|asked| asked.is_open(job))
    }

    /// The tracking numbers of all shipments.
    pub fn tracking_numbers(&self) -> BTreeSet<&str> {
        let shipments = self.shipments.values();
        let tracking = shipments.flat_map(|shipment| &shipment.value.tracking);
        tracking.map(|it| it.number.as_str()).collect()
    }
}
