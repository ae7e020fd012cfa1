//! Stand-ins for the providers, so that everything works offline. They use the providers' wire
//! formats: sample bodies, the providers' APIs and pages over real HTTP ([`Sandbox`]), and their
//! webhooks, one at a time or as a storm. `waybill` without arguments, its commands and the tests
//! use this crate; it is never linked into ingress or workers.

mod control;
mod delivery_faults;
mod fault;
mod fault_injector;
mod identity;
mod page;
mod payment;
mod poster;
pub mod sample;
mod server;
mod storefront;
pub mod storm;
mod subscriptions;
mod visitor;
mod webhook_sender;
mod webhooks;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use delivery_faults::{DeliveryFaults, Shuffle};
pub use fault::{Answer, Fault};
pub use fault_injector::{FaultInjector, Provider};
pub use identity::{
    CodeError, Email, Identity, IssuedToken, Limit, LoginRules, Poll, Route, User, Visibility,
    made_up_token,
};
pub use payment::{Generation, Intent, Life, Payment, PaymentStorm, Price, StormPayment};
pub use poster::{Poster, Report};
pub use server::{Options, Sandbox};
pub use storefront::Storefront;
pub use storm::Storm;
pub use subscriptions::{Subscription, Subscriptions};
pub use webhooks::{Delivery, Sender, Webhooks};

/// The `X-Storefront-Access-Token` that the storefront's stand-in accepts. It is public, because
/// it opens nothing but a sandbox.
pub const STOREFRONT_TOKEN: &str = "sandbox-storefront-token";
/// The consumer key and the consumer secret, with a colon between.
pub const WOOCOMMERCE_TOKEN: &str = "ck_sandbox:cs_sandbox";

/// The bearer key that the payment provider's stand-in accepts. It is public for the same reason.
pub const PAYMENT_KEY: &str = "sk_sandbox_waybill";

/// The id and the secret of the only app that the identity provider's stand-in knows. They are
/// public for the same reason.
pub const IDENTITY_CLIENT_ID: &str = "sandbox-client";
pub const IDENTITY_CLIENT_SECRET: &str = "sandbox-client-secret";

/// Takes a lock even after a panic. All state is changed in one step under its lock, so a panic
/// elsewhere cannot leave it half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
