//! What every process needs of the machine it runs on: clock, tasks, logs, metrics, terminal.

pub mod backoff;
pub mod clock;
pub mod counted;
pub mod logs;
pub mod metrics;
pub mod private_files;
pub mod shutdown;
pub mod task;
pub mod terminal;
pub mod token;
pub mod trace;
