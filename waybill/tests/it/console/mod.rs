//! Tests of the console: who gets in, what each page shows, and what is changed from it.

pub mod access;
mod accessibility;
pub mod browser;
mod desk;
mod identity;
mod lists;
pub mod live;
mod now;
mod pages;
mod people;
mod pictures;
mod related;
pub mod search;
mod secrets;
mod tasks;
mod world;
