//! What never came is found at the provider and taken once; what came changes nothing.

mod bodies;
mod failures;
mod found;
mod storm;
mod subscriptions;

use std::time::Duration;

use domain::time::Timestamp;
use platform::clock::Clock;
use sandbox::{Delivery as Webhook, PAYMENT_KEY, STOREFRONT_TOKEN, Sandbox};
use serde_json::{Value, json};
use store::reconciliations::{self, Reconciled, Reconciliation};
use workers::reconcile::Reconciler;

use crate::both::orders::providers::{with_payment, with_storefront};
use crate::support::delivery::{Delivery, SHOP};
use crate::support::order::{body, order_delivery, with};
use crate::support::{Options, START, Service, service};

pub const MINUTE: Duration = Duration::from_mins(1);
/// The time between two runs, and as long as anything may be on its way.
pub const RUN: Duration = Duration::from_mins(18);

/// A service with one shop, both stand-ins, and a process that compares them. All have one clock, which stands.
pub struct World {
    pub service: Service,
    pub sandbox: Sandbox,
    pub reconciler: Reconciler,
}

pub async fn sandbox_at(clock: &Clock) -> Sandbox {
    let options = sandbox::Options {
        clock: clock.clone(),
        ..sandbox::Options::default()
    };
    Sandbox::start(options).await.unwrap()
}

pub fn comparing(options: Options, sandbox: &Sandbox) -> Options {
    let options = with_storefront(options, sandbox, STOREFRONT_TOKEN);
    with_payment(options, sandbox, PAYMENT_KEY)
        .setting("STOREFRONT_SHOPS", SHOP)
        .setting("RECONCILE_MINUTES", "15")
}

impl World {
    pub async fn start() -> Self {
        let clock = Clock::manual(START);
        let sandbox = sandbox_at(&clock).await;
        let options = comparing(service().clock(&clock), &sandbox);
        Self::of(options.start().await, sandbox).await
    }

    /// It has just begun to compare: what changes from now on counts.
    pub async fn of(service: Service, sandbox: Sandbox) -> Self {
        let reconciler = Reconciler::new(service.parts.clone());
        let mut world = World {
            service,
            sandbox,
            reconciler,
        };
        world.reconciled().await;
        world
    }

    /// The body of an order as it is now.
    pub fn order(&self, id: i64, financial: &str) -> Value {
        order_at(self.now(), id, financial)
    }

    pub fn now(&self) -> Timestamp {
        self.service.clock().now()
    }

    /// The storefront has this order now.
    pub fn has(&self, order: &Value) {
        self.sandbox.storefront().remember(&webhook(order));
    }

    pub fn pass(&self, time: Duration) {
        self.service.clock().advance(time);
    }

    /// Rounds until nothing is due, and until what was found is worked on.
    pub async fn reconciled(&mut self) {
        rounds(&self.service, &mut self.reconciler).await;
        self.service.settled().await;
    }

    /// A run later everything up to now is compared.
    pub async fn run_later(&mut self) {
        self.pass(RUN);
        self.reconciled().await;
    }

    pub async fn found(&self) -> Vec<Reconciled> {
        let mut found = reconciliations::newest(self.service.db(), None, 1000)
            .await
            .unwrap();
        found.sort_by_key(|it| it.job_id);
        found
    }

    pub async fn row(&self, source: &str) -> Reconciliation {
        let all = reconciliations::all(self.service.db()).await.unwrap();
        all.into_iter().find(|it| it.source == source).unwrap()
    }

    pub async fn stop(self) {
        self.service.stop().await;
        self.sandbox.stop().await;
    }
}

/// Rounds until nothing is due, with the pauses between pages.
pub async fn rounds(service: &Service, reconciler: &mut Reconciler) {
    for _ in 0..200 {
        let pause = reconciler.round().await.unwrap();
        if pause >= Duration::from_secs(15) {
            return;
        }
        service.clock().advance(pause);
    }
    panic!("it does not end");
}

pub fn order_at(at: Timestamp, id: i64, financial: &str) -> Value {
    let fields = json!({"created_at": at.to_string(), "updated_at": at.to_string()});
    with(body(id, 1, financial), &fields)
}

pub fn webhook(order: &Value) -> Webhook {
    Webhook::storefront("orders/updated", "a-webhook", SHOP, order.to_string())
}

pub fn delivery(order: &Value) -> Delivery {
    order_delivery("orders/updated", order)
}

pub async fn known(service: &Service, id: i64) -> bool {
    let known = service
        .db()
        .query("select 1 as one from orders where shop = $1 and id = $2");
    known.bind(SHOP).bind(id).is_any().await.unwrap()
}
