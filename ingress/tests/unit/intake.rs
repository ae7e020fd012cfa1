//! Tests of what is private in `src/intake.rs`.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use axum::http::StatusCode;
use domain::job::Source;
use domain::time::Timestamp;
use uuid::Uuid;

use super::*;
use crate::error::Error;

/// What a delivery is answered at once, if it does not wait. One that waits goes on waiting, as a request does.
async fn refused(intake: &Intake, shop: &str) -> Option<Unavailable> {
    let delivery = Delivery {
        profile: "generic",
        duplicate_status: 409,
        job: NewJob {
            shop: Some(shop.to_owned()),
            ..NewJob::new(
                Uuid::from_u128(1),
                Queue::Orders,
                Source::Storefront,
                "orders/create".to_owned(),
                b" ".to_vec().into(),
                Timestamp(0),
            )
        },
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
