//! Tests of the whole product: with a real router on a real port, a real database and a real bus.
//! Those in `both` run on both backends, all others on SQLite alone. `TEST_BACKEND=embedded` (the
//! default) is SQLite and the bus within the process; `distributed` is PostgreSQL and RabbitMQ,
//! named by `TEST_DATABASE_URL` and `TEST_AMQP_URL` (`scripts/test` brings them up).

// Optimised, the layout of futures within futures takes more steps than the compiler's 128.
#![recursion_limit = "256"]
#![expect(
    clippy::disallowed_macros,
    reason = "a test that is skipped, or counts something, says so"
)]

mod support;

mod api;
mod both;
mod console;
mod documents;
mod faults;
mod login;
mod operations;
mod orders;
mod payments;
mod privacy;
mod security;
