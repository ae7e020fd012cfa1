//! The worker of the privacy queue.

use std::process::ExitCode;

use domain::job::Queue;

fn main() -> ExitCode {
    workers::main(Queue::Privacy)
}
