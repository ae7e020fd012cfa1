//! Tests of what is private in `src/lib.rs`.

use super::*;

#[test]
fn a_message_of_a_version_that_sends_more_jobs_is_read_and_a_far_longer_one_is_foreign() {
    let message = |jobs: usize| {
        let ids = (0..jobs).map(|n| JobRef::from(Uuid::from_u128(n as u128)));
        decode(&encode(&ids.collect::<Vec<_>>()).unwrap())
    };
    assert_eq!(message(MAX_JOBS_READ).unwrap().len(), MAX_JOBS_READ);
    let error = message(MAX_JOBS_READ + 1).unwrap_err().to_string();
    assert_eq!(error, "the message has more than 256 job ids");
}
