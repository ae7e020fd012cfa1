//! Tests of the attacks of strangers, and of the protections against them.

pub mod doors;
pub mod exposure;
pub mod hostile_load;
pub mod private_files;
pub mod promises;
