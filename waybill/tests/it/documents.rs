//! The documents are true: their tables are made of the program's own (`generated`), and what
//! they name exists (`names`).

mod cli;
mod generated;
mod markdown;
mod names;
mod sources;
