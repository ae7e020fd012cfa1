//! What strangers can do, and what keeps them out.

pub mod doors;
pub mod exposure;
pub mod hostile_load;
pub mod private_files;
pub mod promises;
