//! Which request an effect follows from. The jobs of a message are applied as a batch, so the cause
//! of an effect is found by the object that the effect is about: an order by its id, or by the
//! agreement or payment that moved it. Where that leaves several requests, no cause is named,
//! rather than a wrong one.

use std::collections::HashMap;

use domain::job::Job;
use domain::trace::TraceContext;

/// The request that something follows from, and its place in a trace.
#[derive(Clone, Debug)]
pub struct CausingRequest {
    /// Not set for a request to the API that stores no jobs.
    pub request_id: Option<String>,
    pub context: TraceContext,
}

impl CausingRequest {
    fn of(job: &Job) -> Self {
        CausingRequest {
            request_id: Some(job.request_id().into_owned()),
            context: job.context(),
        }
    }
}

#[derive(Default)]
pub struct Causation {
    /// The cause of every effect, if there is only one job or one request.
    only: Option<CausingRequest>,
    /// The cause of effects on an object, by its shop, if it has one, and its id.
    objects: HashMap<(String, String), CausingRequest>,
    /// The cause of what is written now ([`Causation::follow`]).
    now: Option<CausingRequest>,
}

impl Causation {
    /// Everything follows from one job.
    pub fn only(job: &Job) -> Self {
        Causation {
            only: Some(CausingRequest::of(job)),
            ..Causation::default()
        }
    }

    /// Everything follows from one request to the API, if that has a place in a trace.
    pub fn of_request(trace: Option<TraceContext>) -> Self {
        Causation {
            only: trace.map(|context| CausingRequest {
                request_id: None,
                context,
            }),
            ..Causation::default()
        }
    }

    /// Notes that a job is about an object. If several jobs are about one object, the first counts.
    pub fn note(&mut self, shop: Option<&str>, id: &str, job: &Job) {
        if self.only.is_none() {
            let object = self.objects.entry(object(shop, id));
            object.or_insert_with(|| CausingRequest::of(job));
        }
    }

    /// What is written from now on follows from the first of these objects that a job is about.
    pub fn follow<'a>(&mut self, objects: impl IntoIterator<Item = (Option<&'a str>, &'a str)>) {
        let mut known = objects
            .into_iter()
            .filter_map(|(shop, id)| self.objects.get(&object(shop, id)));
        self.now = known.next().cloned();
    }

    /// The request that an effect on this object follows from.
    pub fn of(&self, shop: Option<&str>, id: &str) -> Option<&CausingRequest> {
        let known = || self.objects.get(&object(shop, id));
        self.only.as_ref().or_else(known).or(self.now.as_ref())
    }
}

fn object(shop: Option<&str>, id: &str) -> (String, String) {
    (shop.unwrap_or_default().to_owned(), id.to_owned())
}
