//! Processes, servers and disks that fail.

pub mod full_disk;
pub mod outages;
pub mod processes;
pub mod retries;
