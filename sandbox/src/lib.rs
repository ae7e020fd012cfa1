//! Stand-ins for the providers, speaking their wire formats, so that everything works
//! offline: for `waybill` without arguments, `waybill trigger` and the tests. Never linked
//! into ingress or workers.

pub mod sample;
