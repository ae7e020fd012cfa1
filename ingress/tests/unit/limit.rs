//! Tests of what is private in `src/limit.rs`.

use config::{Mode, Settings};
use domain::time::Timestamp;

use super::*;

/// A process that is not for development, on the defaults of these providers.
fn limits(storefront: &'static str, payment: &'static str) -> (Limited, Clock) {
    let mut settings = Settings::defaults();
    for (name, value) in [
        ("PUBLIC_URL", "https://hooks.example"),
        ("STOREFRONT_WEBHOOK_SECRET", "a secret of the shop's own"),
        ("PAYMENT_WEBHOOK_SECRET", "a secret of the payments' own"),
        ("STOREFRONT_PROVIDER", storefront),
        ("PAYMENT_PROVIDER", payment),
    ] {
        settings.set(name, value);
    }
    let config = Config::load(&settings, Mode::Development).unwrap();
    assert!(!config.development);
    let clock = Clock::manual(Timestamp(1_800_000_000_000));
    let limits = Limits::new(&config, &clock);
    let (storefront, payment) = (config.storefront, config.payment);
    let limited = Limited {
        limits,
        storefront,
        payment,
    };
    (limited, clock)
}

/// The limits with the connections that they are asked about.
struct Limited {
    limits: Limits,
    storefront: Arc<StorefrontConnection>,
    payment: Arc<PaymentConnection>,
}

impl Limited {
    fn storefront(&self, shop: &str, body: Digest) -> Result<(), super::Limited> {
        self.limits.storefront(&self.storefront, shop, body)
    }

    fn payment(&self, body: Digest) -> Result<(), super::Limited> {
        self.limits.payment(&self.payment, body)
    }
}

/// How many of so many deliveries a second of one shop are refused, each with a body of its own.
fn refused(limits: &Limited, clock: &Clock, seconds: u32, a_second: u32) -> u32 {
    let mut refused = 0;
    for second in 0..seconds {
        for nth in 0..a_second {
            let mut body = Digest::default();
            body[..4].copy_from_slice(&(second * a_second + nth).to_be_bytes());
            refused += u32::from(limits.storefront("a.example", body).is_err());
        }
        clock.advance(Duration::from_secs(1));
    }
    refused
}

/// How many of so many events are admitted, each with a body of its own.
fn events(limits: &Limited, events: u32) -> usize {
    let admitted = (0..events).filter(|nth| {
        let mut body = Digest::default();
        body[..4].copy_from_slice(&nth.to_be_bytes());
        limits.payment(body).is_ok()
    });
    admitted.count()
}

/// A sale of 5,000 orders in three minutes, each under three topics, each delivered twice.
#[test]
fn a_sale_is_taken_of_providers_that_end_a_subscription() {
    for storefront in ["shopify", "woocommerce"] {
        let (limits, clock) = limits(storefront, "generic");
        assert_eq!(refused(&limits, &clock, 180, 167), 0, "{storefront}");
    }
}

#[test]
fn a_shop_that_sends_too_much_is_held_to_its_share_and_others_are_not() {
    let (limits, clock) = limits("shopify", "generic");
    let refused = refused(&limits, &clock, 60, 2000);
    assert!((100_000..104_000).contains(&refused), "{refused}");
    assert_eq!(limits.storefront("b.example", Digest::default()), Ok(()));
}

#[test]
fn the_limits_of_the_specification_hold_for_generic_providers() {
    let (limits, clock) = limits("generic", "generic");
    assert_eq!(refused(&limits, &clock, 60, 2), 0);
    assert!(refused(&limits, &clock, 60, 4) > 60);
    assert_eq!(events(&limits, 1000), 200);
}

#[test]
fn a_payment_provider_that_is_known_may_send_what_a_sale_needs() {
    let (limits, _) = limits("generic", "stripe");
    assert_eq!(events(&limits, 10_000), 2500);
}

#[test]
fn an_event_that_comes_again_and_again_leaves_the_limit_of_all_to_the_others() {
    let (limits, clock) = limits("generic", "generic");
    let captured = [7; 32];
    let admitted = (0..1000).filter(|_| limits.payment(captured).is_ok());
    assert_eq!(admitted.count(), 20);
    assert_eq!(events(&limits, 1000), 180);
    clock.advance(Duration::from_mins(1));
    assert_eq!(limits.payment(captured), Ok(()));
}
