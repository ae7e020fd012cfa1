//! Processes that end at a crash point, one after the other at every one that there is. They are started
//! again, providers and people do again what was not answered, and in the end everything is there once.

pub mod table;

mod checkouts;
mod commands;
mod deliveries;
mod failures;
mod logins;
mod moves;
mod people;
mod reconciliations;
mod starts;
mod world;
