//! Tests of what is private in `src/intake.rs`.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use axum::http::StatusCode;
use domain::time::Timestamp;
use uuid::Uuid;

use super::*;
use crate::error::Error;

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

/// What a delivery is answered at once, if it does not wait. One that waits goes on waiting, as a request does.
async fn refused(intake: &Intake, shop: &str) -> Option<Unavailable> {
    let delivery = Delivery {
        profile: "generic",
        duplicate_status: 409,
        job: waiting(&shares(), shop, 1, 1).job,
        body_hash: None,
        account: None,
        not_understood: None,
        budget: intake.reserve(Size::Small).unwrap(),
    };
    let intake = intake.clone();
    let (sender, first) = oneshot::channel();
    task::spawn("request", async move {
        let mut accepted = pin!(intake.accept(delivery));
        match poll_fn(|context| Poll::Ready(accepted.as_mut().poll(context))).await {
            Poll::Ready(answer) => {
                let _ = sender.send(answer.err());
            }
            Poll::Pending => {
                let _ = sender.send(None);
                let _ = accepted.await;
            }
        }
    });
    first.await.unwrap()
}

#[tokio::test]
async fn while_nothing_is_stored_one_sender_is_refused_with_503_and_others_are_not() {
    let ((privacy, _requests), (others, _others)) = (Lane::new(), Lane::new());
    let intake = Intake {
        dedupes: true,
        lanes: Some(Lanes { privacy, others }),
        budget: Arc::new(Semaphore::new(WAITING_KIB)),
    };
    for _ in 0..WAITING / 2 {
        assert!(refused(&intake, "busy").await.is_none());
    }
    let error = Error::from(refused(&intake, "busy").await.unwrap());
    assert_eq!(error, Error::OverShare);
    assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(error.retry_after().is_some() && error.reason() == "share");
    assert!(refused(&intake, "quiet").await.is_none());
}

#[test]
fn batches_shrink_while_they_take_too_long_and_grow_again() {
    let most = Most::new();
    let (late, soon) = (STATEMENT_DEADLINE, STATEMENT_DEADLINE / 4);
    most.learn(BATCH, Stored::No, late);
    assert_eq!(
        most.get(),
        BATCH,
        "a server that is gone says nothing of the size"
    );
    let shrunk = [200, 100, 50, 3, 1].map(|size| {
        most.learn(size, Stored::Late, late);
        most.get()
    });
    assert_eq!(shrunk, [100, 50, 25, 1, 1]);
    most.learn(1, Stored::Yes, soon);
    assert_eq!(most.get(), 2);
    most.learn(1, Stored::Yes, soon);
    assert_eq!(most.get(), 2, "it was not full");
    most.learn(2, Stored::Yes, STATEMENT_DEADLINE / 2);
    assert_eq!(most.get(), 3, "it took half of the time");
    for _ in 0..9 {
        most.learn(most.get(), Stored::Yes, soon);
    }
    assert_eq!(most.get(), BATCH);
}

#[test]
fn a_commit_that_always_takes_most_of_the_time_does_not_keep_batches_small() {
    let most = Most::new();
    most.learn(2, Stored::Late, STATEMENT_DEADLINE);
    for _ in 0..100 {
        most.learn(most.get(), Stored::Yes, STATEMENT_DEADLINE * 2 / 3);
    }
    assert_eq!(most.get(), BATCH);
}
