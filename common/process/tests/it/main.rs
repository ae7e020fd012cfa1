//! The tests of the crate `process`.

mod causes;
mod supervisor;
