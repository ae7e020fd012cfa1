//! What every process needs from the machine on which it runs: clock, tasks, logs, metrics,
//! terminal, time zone.

pub mod backoff;
pub mod clock;
pub mod counted;
pub mod crash_point;
pub mod lock;
pub mod logs;
pub mod metrics;
pub mod private_files;
pub mod shutdown;
pub mod task;
pub mod terminal;
pub mod token;
pub mod trace;
pub mod zone;
