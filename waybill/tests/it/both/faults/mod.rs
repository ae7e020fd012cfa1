//! Tests in which processes, servers and disks fail.

pub mod away;
pub mod backlog;
pub mod chaos;
pub mod cluster;
#[cfg(debug_assertions)]
pub mod crash_points;
pub mod failover;
pub mod outages;
pub mod processes;
pub mod records;
pub mod retries;
