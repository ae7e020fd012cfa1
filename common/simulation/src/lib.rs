//! A deterministic simulation of the pipeline's rules, for tests alone: nothing of the product depends on this crate.
//!
//! The actors of a small installation (providers, ingresses, workers with their sweep, calls, publisher and webhooks,
//! readers of events) are state machines in one thread. They share a simulated clock, [`database`] and [`broker`], and
//! one source of chance decides who takes the next step and what goes wrong. So a seed is a schedule, and thousands of
//! schedules run in a second. After the faults everything must come to rest within a bound, and then the invariants are
//! checked (`facts`).
//!
//! Left out are: the turns of the shops, pauses by operators, the circuit breaker, privacy requests and their audit,
//! deadlines of runs that only a slow database would reach, and the content of deliveries. There is one queue for all
//! kinds of jobs, one endpoint, and fewer messages, calls and rows at a time, so that a few jobs are enough to reach
//! every limit.
//!
//! Each step names the function that it stands for. Pauses, deadlines, claims and the times of events come from
//! `domain`, as in the product. `tests/it/differential.rs` holds the statements ([`tables`]) to those of the store.
//! [`Wrong`] makes one rule wrong, to show that the simulation can fail.

mod actors;
pub mod broker;
pub mod database;
mod facts;
mod faults;
mod outside;
mod random;
pub mod rows;
mod rules;
mod scenario;
pub mod tables;
mod world;

pub use random::Random;
pub use rules::{Rules, Wrong};
pub use scenario::{Outcome, replay, run};
