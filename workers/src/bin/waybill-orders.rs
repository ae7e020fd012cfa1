//! The worker of the orders queue.

use std::process::ExitCode;

use domain::job::Queue;

fn main() -> ExitCode {
    workers::main(Queue::Orders)
}
