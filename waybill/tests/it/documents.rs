//! The documents are true: their tables are made of the program's own (`generated`), what
//! they name exists (`names`), and the crates are layered as they say (`layers`).

mod cli;
mod generated;
mod layers;
mod markdown;
mod names;
mod sources;
