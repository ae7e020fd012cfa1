//! What a pause concerns.

use bytes::Bytes;
use domain::job::{Job, JobId, Kind};
use domain::pause::{NotATarget, Scope, Target};
use domain::time::Timestamp;

fn job(kind: Kind, shop: Option<&str>) -> Job {
    Job {
        id: JobId::nil(),
        kind,
        shop: shop.map(ToOwned::to_owned),
        connection: None,
        body: Bytes::new(),
        attempts: 0,
        unfinished_attempts: 0,
        deadline_at: None,
        trace: None,
        traceparent: None,
        created_at: Timestamp(0),
        run: None,
    }
}

#[test]
fn a_name_is_read_by_its_scope() {
    let of = |scope, name| Target::new(scope, name).map(|target| target.to_string());
    assert_eq!(of(Scope::Queue, "orders").unwrap(), "queue orders");
    assert_eq!(of(Scope::Provider, "mail").unwrap(), "provider mail");
    assert_eq!(of(Scope::Shop, "A.example").unwrap(), "shop a.example");
    assert_eq!(of(Scope::Queue, "mail"), Err(NotATarget::Queue));
    assert_eq!(of(Scope::Provider, "orders"), Err(NotATarget::Provider));
    assert_eq!(of(Scope::Shop, "a shop"), Err(NotATarget::Shop));
}

#[test]
fn a_pause_concerns_its_queue_its_provider_or_its_shop_but_no_privacy_request_of_a_shop() {
    let concerns = |scope, name: &str, kind: &str, shop| {
        let target = Target::new(scope, name).unwrap();
        target.concerns(&job(Kind::named(kind).unwrap(), shop))
    };
    let (mail, order) = ("notifications/send", "orders/create");
    assert!(concerns(Scope::Queue, "orders", order, None));
    assert!(!concerns(Scope::Queue, "orders", mail, None));
    assert!(concerns(Scope::Provider, "mail", mail, None));
    assert!(!concerns(Scope::Provider, "payment", mail, None));
    assert!(!concerns(Scope::Provider, "mail", "refunds/issue", None));
    let shop = Some("a.example");
    assert!(concerns(Scope::Shop, "a.example", order, shop));
    assert!(!concerns(Scope::Shop, "b.example", order, shop));
    assert!(!concerns(Scope::Shop, "a.example", order, None));
    assert!(!concerns(Scope::Shop, "a.example", "shop/redact", shop));
}
