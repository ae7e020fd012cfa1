//! The documents agree with the program: their tables are generated from it (`generated`), the
//! names in them exist (`names`), and the crates have the documented layers (`layers`).

mod cli;
mod generated;
mod layers;
mod markdown;
mod names;
mod sources;
