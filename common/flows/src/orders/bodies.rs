//! Bodies that leave a status to their topic. Nobody signs the topic, so it counts only if the same
//! body was not accepted under another topic before. So nobody who has captured an `orders/create`
//! can make a cancellation of it. The lock of the order decides which of two deliveries of one body is
//! the first, however many replicas work on them.

use domain::job::{Job, JobId};
use domain::order::own::Body;
use domain::order::record::Record;
use domain::order::{Order, OrderKey, Topic};
use domain::privacy::erased_body;
use domain::record::Forget as _;
use domain::time::Timestamp;
use sha2::{Digest, Sha256};

use crate::confirmations::{self, Question};
use crate::outbox::Outbox;

/// How many bodies of one order are remembered. The topic of a further one does not count.
const MOST_BODIES: usize = 1000;

/// A body that lacks the key of a status, so that its topic can say it.
#[derive(Clone)]
pub(super) struct CutBody {
    /// The hash of what may stay of the body after an erasure. So it is the same before and after
    /// one, and is about nobody.
    hash: String,
    /// What the body says alone. Set only if its topic says more.
    alone: Option<Box<Record>>,
}

impl CutBody {
    pub fn read(order: &Order, job: &Job, topic: Topic) -> Option<CutBody> {
        if !order.present_fields.leaves_a_status() {
            return None;
        }
        let kept = erased_body(job.kind.into_str(), &job.body);
        let hash = Sha256::digest(kept.as_deref().unwrap_or(&job.body));
        let alone = order
            .present_fields
            .leaves_to(topic)
            .then(|| Record::of(order.clone(), None, &job.body, job.created_at.0));
        Some(CutBody {
            hash: hex::encode(&hash[..16]),
            alone: alone.map(Box::new),
        })
    }
}

impl CutBody {
    /// Says that the payments of this connection pay for the order of this id.
    pub fn paid_by(&mut self, connection: &str, id: &str) {
        if let Some(alone) = &mut self.alone {
            alone.paid_by(connection, id);
        }
    }
}

/// A delivery of such a body.
struct Cut {
    job: JobId,
    topic: &'static str,
    body: CutBody,
    /// What the body and its topic say.
    record: Record,
}

/// What a message says of an order.
#[derive(Default)]
pub(super) struct News {
    record: Option<Record>,
    cut: Vec<Cut>,
    /// Whether it is about somebody whose data was erased, so that the order keeps no person.
    pub is_erased: bool,
}

/// What a message comes to for an order.
pub(super) struct Said {
    pub after: Record,
    asked: Vec<Question>,
    repeated: Vec<(JobId, &'static str)>,
}

impl News {
    /// Adds what counts in any case.
    pub fn add(&mut self, record: Record) {
        match &mut self.record {
            Some(known) => known.merge(record),
            None => self.record = Some(record),
        }
    }

    /// Adds a delivery whose topic may count.
    pub fn add_cut(&mut self, job: &Job, body: CutBody, record: Record) {
        self.cut.push(Cut {
            job: job.id,
            topic: job.kind.into_str(),
            body,
            record,
        });
        // The ids of jobs sort in the sequence in which their deliveries were accepted.
        self.cut.sort_unstable_by_key(|cut| cut.job);
    }

    /// What is known of an order afterwards. Where only the topic says something, it does not count if
    /// the body was accepted under another one first; and where the storefront can be asked, it counts
    /// only after the storefront has confirmed it.
    pub fn come_to(
        &self,
        (shop, order_id): &OrderKey,
        before: Option<&Record>,
        can_ask: bool,
        now: Timestamp,
    ) -> Option<Said> {
        let mut bodies = before.map_or_else(Default::default, |it| it.own.bodies.clone());
        let (mut asked, mut repeated) = (Vec::new(), Vec::new());
        let mut records: Vec<&Record> = self.record.iter().collect();
        for cut in &self.cut {
            let CutBody { hash, alone } = &cut.body;
            let is_too_much = bodies.len() >= MOST_BODIES && !bodies.contains_key(hash);
            let mut is_repeated = is_too_much;
            if !is_too_much {
                let first = bodies.entry(hash.clone()).or_insert_with(|| Body {
                    topic: cut.topic.to_owned(),
                    repeats: 0,
                    refuted: 0,
                    at: now.0,
                });
                is_repeated = first.topic != cut.topic;
                first.repeats += i64::from(is_repeated && alone.is_some());
            }
            match alone {
                Some(alone) if is_repeated => {
                    repeated.push((cut.job, cut.topic));
                    records.push(alone);
                }
                Some(alone) if can_ask => {
                    asked.push(Question {
                        shop: shop.clone(),
                        order_id: *order_id,
                        topic: cut.topic.to_owned(),
                        stated_at: cut.record.version.at,
                        hash: hash.clone(),
                    });
                    records.push(alone);
                }
                _ => records.push(&cut.record),
            }
        }
        let mut records = records.into_iter();
        let mut after = match before {
            Some(before) => before.clone(),
            None => records.next()?.clone(),
        };
        records.for_each(|record| after.merge(record.clone()));
        if let Some(before) = before {
            after.own_reference.clone_from(&before.own_reference);
        }
        after.own.bodies = bodies;
        if self.is_erased {
            after.forget_person();
            after.own.redacted_at.get_or_insert(now.0);
        }
        Some(Said {
            after,
            asked,
            repeated,
        })
    }
}

impl Said {
    /// Asks the storefront what it is to be asked, and reports what did not count.
    pub fn tell(&self, outbox: &mut Outbox<'_>, key: &OrderKey) {
        for question in &self.asked {
            confirmations::ask(outbox, key, question);
        }
        for (job, topic) in &self.repeated {
            metrics::counter!("waybill_order_bodies_repeated_total", "topic" => *topic)
                .increment(1);
            tracing::warn!(
                %job,
                order_id = key.1,
                topic,
                "a body came again under another topic, which does not count; see `waybill orders repeated`"
            );
        }
    }
}
