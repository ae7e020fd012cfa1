//! Which delivery an effect follows from. A message's jobs are applied as a batch, so it is found
//! by what an effect is about: an order by its id, or by the agreement or payment that moved it.
//! Where that leaves it open nothing is said, rather than something wrong.

use std::collections::HashMap;

use domain::job::Job;
use domain::trace::TraceContext;

/// The request and the place in its trace that something follows from.
#[derive(Clone, Debug)]
pub struct CausingRequest {
    pub request_id: String,
    pub context: TraceContext,
}

impl CausingRequest {
    pub fn of(job: &Job) -> Self {
        CausingRequest {
            request_id: job.request_id().into_owned(),
            context: job.context(),
        }
    }
}

#[derive(Default)]
pub struct Causation {
    /// The cause of all, when there is but one job.
    only: Option<CausingRequest>,
    /// By shop, if it is of one, and id.
    objects: HashMap<(String, String), CausingRequest>,
    /// What is being followed now.
    now: Option<CausingRequest>,
}

impl Causation {
    pub fn only(job: &Job) -> Self {
        Causation {
            only: Some(CausingRequest::of(job)),
            ..Causation::default()
        }
    }

    /// A job is about an object. Of several jobs about one the first counts.
    pub fn note(&mut self, shop: Option<&str>, id: &str, job: &Job) {
        if self.only.is_none() {
            let object = self.objects.entry(object(shop, id));
            object.or_insert_with(|| CausingRequest::of(job));
        }
    }

    /// What follows is because of the first of these objects that a job is about.
    pub fn follow<'a>(&mut self, objects: impl IntoIterator<Item = (Option<&'a str>, &'a str)>) {
        let mut known = objects
            .into_iter()
            .filter_map(|(shop, id)| self.objects.get(&object(shop, id)));
        self.now = known.next().cloned();
    }

    /// What an effect on an object follows from.
    pub fn of(&self, shop: Option<&str>, id: &str) -> Option<&CausingRequest> {
        let known = || self.objects.get(&object(shop, id));
        self.only.as_ref().or_else(known).or(self.now.as_ref())
    }
}

fn object(shop: Option<&str>, id: &str) -> (String, String) {
    (shop.unwrap_or_default().to_owned(), id.to_owned())
}
