//! Tests of what is private in `src/intake/turns.rs`.

use domain::job::Queue;
use domain::time::Timestamp;
use store::jobs::NewJob;
use tokio::sync::{Semaphore, oneshot};
use uuid::Uuid;

use super::super::batches::BATCH;
use super::super::{ByteBudgetPermit, Size, WAITING_KIB};
use super::*;

const MIB: usize = 1024 * 1024;

fn shares() -> Arc<Shares> {
    Arc::default()
}

/// A place for a small delivery, while there is room for all bytes.
fn enter(shares: &Arc<Shares>, shop: &str) -> Result<Place, Unavailable> {
    shares.enter((Source::Storefront, Some(shop)), 1, WAITING_KIB)
}

/// A delivery of a shop with a body of this size. Its id is its number.
fn waiting(shares: &Arc<Shares>, shop: &str, number: u128, size: usize) -> Waiting {
    let budget = Arc::new(Semaphore::new(1));
    Waiting {
        place: enter(shares, shop).unwrap(),
        job: NewJob {
            shop: Some(shop.to_owned()),
            ..NewJob::new(
                Uuid::from_u128(number),
                Queue::Orders,
                Source::Storefront,
                "orders/create".to_owned(),
                vec![b' '; size].into(),
                Timestamp(0),
            )
        },
        id: None,
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
        turns.batch(BATCH).len()
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
    let first = numbers(&turns.batch(BATCH));
    assert_eq!(first[..5], [1, 1001, 2, 1002, 3]);
    let of_busy: Vec<u128> = (1..=254).collect();
    let (quiet, busy): (Vec<u128>, Vec<u128>) = first.into_iter().partition(|it| *it > 1000);
    assert_eq!((quiet, busy), (vec![1001, 1002], of_busy));
    assert_eq!(
        numbers(&turns.batch(BATCH)),
        (255..=300).collect::<Vec<_>>()
    );
    assert_eq!(turns.len, 0);
}

#[test]
fn a_sender_has_at_most_as_many_places_as_are_left_for_others() {
    let shares = shares();
    let fill = |shop: &str| {
        let places: Vec<Place> = std::iter::from_fn(|| enter(&shares, shop).ok()).collect();
        let refused = enter(&shares, shop).err();
        assert!(matches!(refused, Some(Unavailable::OverShare)), "{shop}");
        places
    };
    let busy = fill("busy");
    assert_eq!(busy.len(), WAITING / 2);
    let second = fill("second");
    assert_eq!(second.len(), WAITING / 4);
    // A payment without an account is of another sender than an order without a shop.
    assert!(
        shares
            .enter((Source::Payment, None), 1, WAITING_KIB)
            .is_ok()
    );
    drop(busy);
    assert_eq!(fill("third").len(), (WAITING - WAITING / 4) / 2);
    drop(second);
    assert!(lock(&shares.taken).of.is_empty());
    assert_eq!(lock(&shares.taken).all, 0);
}

#[test]
fn a_sender_has_at_most_as_many_bytes_as_are_left_for_others() {
    let shares = shares();
    let (mut left, mut places) = (WAITING_KIB, Vec::new());
    let large = |left| shares.enter((Source::Storefront, Some("busy")), 512, left);
    while let Ok(place) = large(left - 512) {
        left -= 512;
        places.push(place);
    }
    assert!(matches!(large(left - 512), Err(Unavailable::OverShare)));
    assert!(left.abs_diff(WAITING_KIB / 2) <= 1024, "{left}");
    assert!(enter(&shares, "quiet").is_ok());
    drop(places);
    assert!(large(WAITING_KIB).is_ok());
}
