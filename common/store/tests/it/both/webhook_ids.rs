//! Which of two deliveries with one id is the first, and for how long that is known.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use domain::job::{JobId, Queue, Source};
use domain::time::Timestamp;
use store::jobs::NewJob;
use store::migrations;
use store::sql::Db;
use store::webhook_ids::{
    BodyHash, Claim, DeliveryId, First, Remembered, forget, forget_expired, jobs, remember,
    store_new,
};
use uuid::{Uuid, uuid};

use super::migrations::Own;
use super::sql::postgres;

const TTL: Duration = Duration::from_mins(1);
const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn nth(job: u128) -> JobId {
    JobId::from_u128(job)
}

fn id(text: &str) -> DeliveryId {
    DeliveryId::new(Source::Storefront, None, text)
}

/// Remembers deliveries, each an id and its job, and returns the jobs of those that are new.
async fn new_of(db: &Db, deliveries: &[(&str, u128)], now: Timestamp) -> HashSet<JobId> {
    let claims = deliveries.iter().map(|(text, job)| Claim {
        id: id(text),
        job: nth(*job),
        body: None,
    });
    let mut claims: Vec<Claim> = claims.collect();
    claims.sort_unstable();
    let mut tx = db.begin().await.unwrap();
    let fresh = remember(&mut tx, &claims, now, TTL).await.unwrap();
    tx.commit().await.unwrap();
    fresh.fresh
}

/// The job of an id.
async fn job(db: &Db, text: &str) -> Option<JobId> {
    jobs(db, Source::Storefront, text).await.unwrap().pop()
}

async fn with_tables() -> Own {
    let own = Own::new().await;
    migrations::apply(&own.db).await.unwrap();
    own
}

#[test]
fn an_id_is_remembered_as_parts_of_two_hashes() {
    // printf 'storefront:1' | sha256sum; printf ':1' | sha256sum; printf 'a.example:1' | sha256sum
    assert_eq!(
        Uuid::from(id("1")),
        uuid!("c4b0d8f2-34a7-72e9-882e-0dabc11b4d21")
    );
    let of_shop = DeliveryId::new(Source::Storefront, Some("a.example"), "1");
    assert_eq!(
        Uuid::from(of_shop),
        uuid!("c4b0d8f2-34a7-72e9-2eba-795d1940eb5e")
    );
    assert_ne!(DeliveryId::new(Source::Payment, None, "1"), id("1"));
    assert_ne!(id("2"), id("1"));
}

#[tokio::test]
async fn two_shops_may_have_one_id_and_both_are_found_by_it() {
    let own = with_tables().await;
    let shops = [None, Some("a.example"), Some("b.example")];
    let mut claims: Vec<Claim> = (1..)
        .zip(shops)
        .map(|(job, shop)| Claim {
            id: DeliveryId::new(Source::Storefront, shop, "1"),
            job: nth(job),
            body: None,
        })
        .collect();
    claims.sort_unstable();
    let mut tx = own.db.begin().await.unwrap();
    let ids = remember(&mut tx, &claims, NOW, TTL).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(ids.fresh, [1, 2, 3].map(nth).into());
    let found = jobs(&own.db, Source::Storefront, "1").await.unwrap();
    assert_eq!(found.into_iter().collect::<HashSet<_>>(), ids.fresh);
    assert!(
        jobs(&own.db, Source::Payment, "1")
            .await
            .unwrap()
            .is_empty()
    );
    own.end().await;
}

#[tokio::test]
async fn of_a_known_id_the_first_job_and_its_body_are_told() {
    let own = with_tables().await;
    let claim = |job, body| Claim {
        id: id("1"),
        job: nth(job),
        body: Some(BodyHash::of([body; 32])),
    };
    for (job, body) in [(1, 7), (2, 8)] {
        let mut tx = own.db.begin().await.unwrap();
        let ids = remember(&mut tx, &[claim(job, body)], NOW, TTL).await;
        tx.commit().await.unwrap();
        let known = ids.unwrap().known;
        let first = First {
            job: nth(1),
            body: Some(BodyHash::of([7; 32])),
        };
        let expected = (job > 1).then_some((id("1"), first));
        assert_eq!(known, expected.into_iter().collect());
    }
    own.end().await;
}

#[tokio::test]
async fn the_first_delivery_of_an_id_is_new_and_no_other_is() {
    let own = with_tables().await;
    let fresh = new_of(&own.db, &[("a", 1), ("b", 2)], NOW).await;
    assert_eq!(fresh, [1, 2].map(nth).into());
    assert!(new_of(&own.db, &[("a", 3)], NOW).await.is_empty());
    let fresh = new_of(&own.db, &[("a", 4), ("b", 5), ("c", 6)], NOW).await;
    assert_eq!(fresh, [6].map(nth).into());
    for (text, first) in [("a", 1), ("b", 2), ("c", 6)] {
        let known = job(&own.db, text).await;
        assert_eq!(known, Some(nth(first)), "{text}");
    }
    assert_eq!(job(&own.db, "d").await, None);
    own.end().await;
}

#[tokio::test]
async fn an_id_is_new_again_as_soon_as_its_time_is_over() {
    let own = with_tables().await;
    new_of(&own.db, &[("a", 1), ("b", 2), ("c", 3)], NOW).await;
    let before = Timestamp(NOW.plus(TTL).0 - 1);
    assert!(new_of(&own.db, &[("a", 4)], before).await.is_empty());
    let fresh = new_of(&own.db, &[("a", 5), ("d", 6)], NOW.plus(TTL)).await;
    assert_eq!(fresh, [5, 6].map(nth).into());
    assert_eq!(job(&own.db, "a").await, Some(nth(5)));
    assert!(new_of(&own.db, &[("a", 7)], NOW.plus(TTL)).await.is_empty());
    own.end().await;
}

#[tokio::test]
async fn the_ids_of_these_jobs_alone_are_forgotten() {
    let own = with_tables().await;
    new_of(&own.db, &[("a", 1), ("b", 2), ("c", 3), ("d", 4)], NOW).await;
    let deliveries = ["a", "b", "c", "unknown"].map(id);
    let jobs = BTreeSet::from([1, 2, 9].map(nth));
    let mut tx = own.db.begin().await.unwrap();
    let count = forget(&mut tx, deliveries.to_vec(), &jobs).await.unwrap();
    assert_eq!(count, 2, "c belongs to a job that is not among these");
    let none = forget(&mut tx, deliveries.to_vec(), &jobs).await.unwrap();
    assert_eq!(none, 0);
    tx.commit().await.unwrap();
    let again = [("a", 5), ("b", 6), ("c", 7), ("d", 8)];
    let fresh = new_of(&own.db, &again, NOW).await;
    assert_eq!(fresh, [5, 6].map(nth).into());
    own.end().await;
}

#[tokio::test]
async fn expired_ids_are_deleted_the_oldest_first_and_no_more_than_asked_for() {
    let own = with_tables().await;
    let seconds = |n| NOW.plus(Duration::from_secs(n));
    for nth in 0..5 {
        let text = format!("id {nth}");
        new_of(&own.db, &[(&text, u128::from(nth))], seconds(nth)).await;
    }
    // The first four have expired by now, the last of them at this moment.
    let now = seconds(3).plus(TTL);
    assert_eq!(forget_expired(&own.db, now, 3).await.unwrap(), 3);
    let left = async |nth: u64| job(&own.db, &format!("id {nth}")).await.is_some();
    assert!(!left(2).await && left(3).await);
    assert_eq!(forget_expired(&own.db, now, 3).await.unwrap(), 1);
    assert_eq!(forget_expired(&own.db, now, 3).await.unwrap(), 0);
    assert!(!left(3).await && left(4).await);
    own.end().await;
}

/// Stores deliveries, each an id and its job, as the intake does first.
async fn stored(db: &Db, deliveries: &[(&str, u128)], now: Timestamp) -> Remembered {
    let delivery = |(text, number): &(&str, u128)| NewJob {
        external_id: Some((*text).to_owned()),
        ..NewJob::new(
            nth(*number),
            Queue::Orders,
            Source::Storefront,
            "orders/create".to_owned(),
            format!("body of {number}").into(),
            now,
        )
    };
    let new: Vec<NewJob> = deliveries.iter().map(delivery).collect();
    let claim = |new: &NewJob| Claim {
        id: id(new.external_id.as_deref().unwrap()),
        job: new.id,
        body: None,
    };
    let mut new: Vec<(Claim, &NewJob)> = new.iter().map(|new| (claim(new), new)).collect();
    new.sort_unstable_by_key(|(claim, _)| *claim);
    store_new(db, &new, now, TTL).await.unwrap()
}

/// The bodies that are stored, each with the state of its job.
async fn bodies(db: &Db) -> Vec<(String, String)> {
    let rows = db.query(
        "select body, state from deliveries join jobs on jobs.id = deliveries.id order by jobs.id",
    );
    let read = |row: &store::sql::Row| {
        let body = String::from_utf8(row.get("body")?).unwrap();
        Ok((body, row.get("state")?))
    };
    rows.all(read).await.unwrap()
}

#[tokio::test]
async fn a_new_delivery_is_stored_with_its_id_once_whichever_answers_are_lost() {
    let own = with_tables().await;
    let ids = stored(&own.db, &[("b", 1), ("a", 2)], NOW).await;
    if postgres().is_none() {
        // On SQLite the intake does it in a transaction.
        assert_eq!(ids, Remembered::default());
        assert_eq!(bodies(&own.db).await, []);
        return own.end().await;
    }
    assert_eq!(ids.fresh, [1, 2].map(nth).into());
    assert_eq!(ids.known, [].into());
    // The same ones come again, because the answer was lost, with another one and with another one of the first id.
    let ids = stored(&own.db, &[("b", 1), ("c", 3)], NOW).await;
    assert_eq!(ids.fresh, [1, 3].map(nth).into());
    let ids = stored(&own.db, &[("a", 4), ("b", 5), ("d", 6)], NOW).await;
    assert_eq!(ids.fresh, [6].map(nth).into());
    let first = |job| First {
        job: nth(job),
        body: None,
    };
    assert_eq!(ids.known, [(id("a"), first(2)), (id("b"), first(1))].into());
    // Nothing is said of one that has expired, and it is not stored.
    let ids = stored(&own.db, &[("a", 7)], NOW.plus(TTL)).await;
    assert_eq!(ids, Remembered::default());
    let ready = |number: u128| (format!("body of {number}"), "ready".to_owned());
    assert_eq!(bodies(&own.db).await, [1, 2, 3, 6].map(ready));
    own.end().await;
}
