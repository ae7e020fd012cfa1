//! The tests of the crate `telemetry`.

mod sampler;
