//! Tests of what is private in `src/failure.rs`.

use domain::job::{Internal, Job, Kind};
use domain::time::Timestamp;

use super::*;

/// What a flow says of a body that lacks its one field.
fn unreadable() -> flows::Error {
    let job = Job {
        id: uuid::Uuid::nil(),
        kind: Kind::Internal(Internal::LinkPayment),
        shop: None,
        connection: None,
        body: bytes::Bytes::from_static(b"{}"),
        attempts: 0,
        unfinished_attempts: 0,
        deadline_at: None,
        trace: None,
        traceparent: None,
        created_at: Timestamp(0),
        run: None,
    };
    let read = flows::payments::prepare_link(&job);
    read.err().expect("it cannot be read")
}

#[test]
fn a_job_that_a_flow_cannot_read_is_dead_at_once() {
    let failure = JobFailure::new(&unreadable().into());
    assert!(failure.permanent);
    assert_eq!(
        failure.text,
        "the body of this payments/link job cannot be read"
    );
    let error = flows::Error::Database(sql::Error::RowNotFound);
    assert!(!JobFailure::new(&error.into()).permanent);
}

#[test]
fn a_failure_knows_the_status_of_the_providers_answer() {
    let refused = |status| CallFailure::Refused {
        provider: "payment",
        status,
        what: "it answered 404".to_owned(),
    };
    let failure = JobFailure::new(&call_failed(refused(Some(404))));
    assert_eq!((failure.permanent, failure.status), (true, Some(404)));
    let late = CallFailure::Timeout {
        provider: "payment",
        status: Some(503),
        retry_after: None,
        what: "answered 503".to_owned(),
    };
    let within = call_failed(late).context("while asking");
    let failure = JobFailure::new(&within);
    assert_eq!((failure.permanent, failure.status), (false, Some(503)));
    let failure = JobFailure::new(&call_failed(refused(None)));
    assert_eq!(failure.status, None);
    assert_eq!(JobFailure::new(&unreadable().into()).status, None);
}

#[test]
fn an_outage_within_a_flow_is_no_failure_of_its_job() {
    let lost = flows::Error::Database(sql::Error::PoolTimedOut);
    assert!(outage(lost.into()).is_err());
    let wrong = flows::Error::Database(sql::Error::RowNotFound);
    assert!(outage(wrong.into()).is_ok());
    let unreadable = outage(unreadable().into()).expect("it is no outage");
    assert!(JobFailure::new(&unreadable).permanent);
}
