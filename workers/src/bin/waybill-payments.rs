//! The worker of the payments queue.

use std::process::ExitCode;

use domain::job::Queue;

fn main() -> ExitCode {
    workers::main(Queue::Payments)
}
