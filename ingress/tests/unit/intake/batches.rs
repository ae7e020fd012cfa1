//! Tests of what is private in `src/intake/batches.rs`.

use super::*;

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
