//! How an error is said with its causes.

use anyhow::{Context as _, anyhow};
use process::chain;

#[test]
fn a_cause_is_said_once() {
    let error = anyhow!("Connection refused (os error 111)");
    let error = error.context("cannot connect: Connection refused (os error 111)");
    let error = Err::<(), _>(error).context("DATABASE_URL").unwrap_err();
    let text = "DATABASE_URL: cannot connect: Connection refused (os error 111)";
    assert_eq!(chain(&error), text);
    assert_eq!(chain(&anyhow!("one").context("two")), "two: one");
}
