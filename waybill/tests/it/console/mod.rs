//! Tests of the console: who gets in, what each page shows, and what is changed from it.

pub mod access;
mod accessibility;
pub mod browser;
mod charts;
pub mod live;
mod now;
mod pages;
mod people;
mod pictures;
pub mod search;
mod tasks;
mod world;
pub mod writes;
