//! Works on the privacy queue.

use std::process::ExitCode;

use common::job::Queue;

fn main() -> ExitCode {
    workers::main(Queue::Privacy)
}
