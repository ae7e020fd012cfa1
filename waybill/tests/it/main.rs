//! The product as its users meet it: a real router on a real port, a real database, a real
//! bus. `TEST_BACKEND=embedded` (the default) is SQLite and the bus within the process;
//! `distributed` is PostgreSQL and RabbitMQ, named by `TEST_DATABASE_URL` and
//! `TEST_AMQP_URL` (`scripts/test` brings them up).

#![expect(
    clippy::disallowed_macros,
    reason = "a test that is skipped, or counts something, says so"
)]

mod support;

mod agreements;
mod answers;
mod api_keys;
mod api_test;
mod calls;
mod checkout;
mod checkout_api;
mod codes;
mod command;
mod dead_letters;
mod deadlines;
mod doctor;
mod documents;
mod doors;
mod events;
mod events_schema;
mod exposure;
mod full_disk;
mod health;
mod hostile_load;
mod hostile_pages;
mod identity_provider;
mod installing;
mod license_commands;
mod licenses;
mod login;
mod login_command;
mod login_limit;
mod login_responses;
mod login_settings;
mod mail;
mod metrics;
mod notifications;
mod openapi;
mod order_providers;
mod order_storm;
mod order_topics;
mod orders;
mod outages;
mod pages;
mod payment_api;
mod payment_hazards;
mod payment_storm;
mod payments;
mod privacy_api;
mod privacy_commands;
mod privacy_deadline;
mod privacy_erasure;
mod privacy_export;
mod privacy_intake;
mod privacy_left;
mod privacy_person;
mod privacy_schema;
mod privacy_storm;
mod privacy_worlds;
mod private_files;
mod processes;
mod qr;
mod replay;
mod retries;
mod sandbox;
mod security;
mod shop_redaction;
mod standard_clients;
mod terminal;
mod tiers;
mod traces;
mod validation;
mod webhooks;
