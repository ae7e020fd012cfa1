//! The sandbox's tests, over real HTTP.

mod control;
mod faults;
mod payment;
mod sample;
mod storefront;
mod storm;
mod support;
