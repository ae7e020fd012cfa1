//! Stand-ins for the providers, speaking their wire formats, so that everything works
//! offline: sample bodies, the providers' APIs and pages over real HTTP ([`Sandbox`]), and their
//! webhooks, one at a time or as a storm. For `waybill` without arguments, its tools and the
//! tests; never linked into ingress or workers.

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
pub use webhooks::{Delivery, Sender, Webhooks};

/// What the storefront's stand-in takes as `X-Storefront-Access-Token`. Public: it opens
/// nothing but a sandbox.
pub const STOREFRONT_TOKEN: &str = "sandbox-storefront-token";

/// What the payment provider's stand-in takes as its bearer key. As public as the other.
pub const PAYMENT_KEY: &str = "sk_sandbox_waybill";

/// The one app that the identity provider's stand-in knows, and its secret. As public.
pub const IDENTITY_CLIENT_ID: &str = "sandbox-client";
pub const IDENTITY_CLIENT_SECRET: &str = "sandbox-client-secret";

/// State is changed in one step under its lock, so a panic elsewhere leaves it whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
