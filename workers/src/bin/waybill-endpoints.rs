//! Works on the endpoints queue.

use std::process::ExitCode;

use domain::job::Queue;

fn main() -> ExitCode {
    workers::main(Queue::Endpoints)
}
