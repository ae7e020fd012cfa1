//! Disks that fill up, and what a build has of crash points.

#[cfg(debug_assertions)]
mod crash_points;
mod full_disk;
#[cfg(debug_assertions)]
mod release;
