//! Tests of what is private in `src/intake.rs`.

use domain::job::Source;
use domain::time::Timestamp;
use uuid::Uuid;

use super::*;

const MIB: usize = 1024 * 1024;

fn shares() -> Arc<Shares> {
    Arc::default()
}

/// A delivery of a shop with a body of this size. Its id is its number.
fn waiting(shares: &Arc<Shares>, shop: &str, number: u128, size: usize) -> Waiting {
    let budget = Arc::new(Semaphore::new(1));
    Waiting {
        place: shares.enter(Some(shop)).unwrap(),
        job: NewJob {
            body: vec![b' '; size].into(),
            id: Uuid::from_u128(number),
            queue: Queue::Orders,
            kind: "orders/create".to_owned(),
            source: Source::Storefront,
            shop: Some(shop.to_owned()),
            external_id: None,
            object_id: None,
            subject: None,
            api_version: None,
            state: State::Ready,
            run_at: Timestamp(0),
            notified_at: None,
            deadline_at: None,
            trace: None,
            traceparent: None,
            created_at: Timestamp(0),
        },
        body_hash: None,
        note: None,
        answer: oneshot::channel().0,
        _budget: ByteBudgetPermit {
            permit: budget.try_acquire_owned().unwrap(),
            size: Size::Small,
        },
    }
}

fn numbers(batch: &[Waiting]) -> Vec<u128> {
    batch.iter().map(|it| it.job.id.as_u128()).collect()
}

#[test]
fn a_batch_takes_bodies_up_to_its_bytes_and_at_least_one() {
    let shares = shares();
    let batch = |sizes: &[usize]| {
        let mut turns = Turns::default();
        turns.extend(sizes.iter().map(|size| waiting(&shares, "a", 1, *size)));
        turns.batch().len()
    };
    assert_eq!(batch(&[2 * MIB; 30]), 2);
    assert_eq!(batch(&[2000; BATCH + 9]), BATCH);
    assert_eq!(batch(&[5 * MIB, 1]), 1);
    assert_eq!(batch(&[1, 5 * MIB, 1]), 1);
    assert_eq!(batch(&[]), 0);
}

#[test]
fn senders_take_turns_and_each_keeps_its_own_sequence() {
    let shares = shares();
    let mut turns = Turns::default();
    turns.extend((1..=300).map(|number| waiting(&shares, "busy", number, 1)));
    turns.extend([1001, 1002].map(|number| waiting(&shares, "quiet", number, 1)));
    let first = numbers(&turns.batch());
    assert_eq!(first[..5], [1, 1001, 2, 1002, 3]);
    let of_busy: Vec<u128> = (1..=254).collect();
    let (quiet, busy): (Vec<u128>, Vec<u128>) = first.into_iter().partition(|it| *it > 1000);
    assert_eq!((quiet, busy), (vec![1001, 1002], of_busy));
    assert_eq!(numbers(&turns.batch()), (255..=300).collect::<Vec<_>>());
    assert_eq!(turns.len, 0);
}

#[test]
fn a_sender_has_at_most_as_many_places_as_are_left_for_others() {
    let shares = shares();
    let fill = |shop: &str| {
        let places: Vec<Place> = std::iter::from_fn(|| shares.enter(Some(shop)).ok()).collect();
        let refused = shares.enter(Some(shop)).err();
        assert!(matches!(refused, Some(Unavailable::OverShare)), "{shop}");
        places
    };
    let busy = fill("busy");
    assert_eq!(busy.len(), WAITING / 2);
    let second = fill("second");
    assert_eq!(second.len(), WAITING / 4);
    assert!(shares.enter(None).is_ok());
    drop(busy);
    assert_eq!(fill("third").len(), (WAITING - WAITING / 4) / 2);
    drop(second);
    assert!(lock(&shares.taken).of.is_empty());
    assert_eq!(lock(&shares.taken).all, 0);
}
