//! Tests of the console: who gets in, and what each page shows.

pub mod access;
pub mod browser;
pub mod pages;
pub mod search;
