//! What the providers' answers to a call lead to: refusals, silence, answers that are lost or come late.

use std::cell::Cell;
use std::time::Duration;

use domain::job::State;
use sandbox::{Fault, PAYMENT_KEY, STOREFRONT_TOKEN};
use serde_json::{Value, json};
use store::job_attempts;

use crate::both::orders::providers::{
    FULFILLMENT, REFUND, at_storefront, cancel_with_payment, capture, deliver_without_waiting,
    each_key, given_back, job, made, now, refund, refused, sandbox, with_both, with_payment,
    with_storefront,
};
use crate::support::delivery::SHOP;
use crate::support::order::{
    CAPTURED, body, cancelled, captured, events, kinds, no_person_in_events_and_jobs,
    order_delivery, post_all, shown, times,
};
use crate::support::{eventually, pause, service, without_pauses};

/// Both providers go wrong so on every way there is, and are mended: everything happens once,
/// within the first run of each job. Returns what the storefront's part came to.
async fn goes_wrong(fault: Fault, storefront_requests: u64) -> String {
    let sandbox = sandbox().await;
    let service = with_both(&sandbox).manual_clock().start().await;
    let storefront = &sandbox.storefront().fault_injector;
    // What is asked first, what is asked then, and in between a try that gets through.
    storefront.fail_next(1, fault);
    storefront.fail_next(1, Fault::Slow(Duration::ZERO));
    storefront.fail_next(1, fault);
    sandbox.payment().fault_injector.fail_next(2, fault);
    deliver_without_waiting(
        &service,
        &order_delivery("orders/paid", &body(1, 1, "paid")),
    )
    .await;
    cancel_with_payment(&service, &sandbox, 2).await;
    without_pauses(service.clock(), service.settled()).await;
    assert_eq!(service.jobs(State::Dead).await, 0);
    let attempts = "select cast(coalesce(sum(attempts), 0) as bigint) as n from jobs";
    assert_eq!(service.count(attempts).await, 0, "no run failed");
    assert_eq!(sandbox.storefront().created(), made([1]));
    assert_eq!(storefront.requests(), storefront_requests);
    assert_eq!(sandbox.payment().refunds(), given_back([2]));
    assert_eq!(sandbox.payment().refunded("pi_2"), CAPTURED);
    assert_eq!(
        refund(&service, 2).await["state"],
        "issued",
        "one key, one answer"
    );
    let (state, _) = at_storefront(&service, 1).await;
    service.stop().await;
    state
}

#[tokio::test]
async fn a_provider_that_answers_500_is_asked_again() {
    assert_eq!(goes_wrong(Fault::Status(500), 5).await, "created");
}

#[tokio::test]
async fn a_provider_that_has_had_too_many_calls_is_asked_again() {
    assert_eq!(goes_wrong(Fault::RateLimit, 5).await, "created");
}

#[tokio::test]
async fn a_proxy_that_answers_for_a_provider_is_not_believed() {
    assert_eq!(goes_wrong(Fault::Html, 5).await, "created");
}

#[tokio::test]
async fn a_provider_that_is_silent_is_asked_again() {
    assert_eq!(goes_wrong(Fault::Timeout, 5).await, "created");
}

#[tokio::test]
async fn an_effect_whose_answer_is_lost_is_not_made_again() {
    // The second look finds nothing open: our own fulfilment, which we cannot know.
    assert_eq!(goes_wrong(Fault::Lose, 4).await, "not_needed");
}

#[tokio::test]
async fn an_effect_whose_answer_comes_too_late_is_not_made_again() {
    let late = Fault::Slow(Duration::from_secs(6));
    assert_eq!(goes_wrong(late, 4).await, "not_needed");
}

#[tokio::test]
async fn a_provider_that_takes_its_time_is_waited_for() {
    let sandbox = sandbox().await;
    let service = with_both(&sandbox).start().await;
    // Long enough for the sweep to look for what was lost.
    let slow = Fault::Slow(Duration::from_millis(4500));
    let storefront = &sandbox.storefront().fault_injector;
    storefront.fail_next(1, Fault::Slow(Duration::ZERO));
    storefront.fail(slow);
    sandbox.payment().fault_injector.fail(slow);
    deliver_without_waiting(
        &service,
        &order_delivery("orders/paid", &body(1, 1, "paid")),
    )
    .await;
    cancel_with_payment(&service, &sandbox, 2).await;
    service.settled().await;
    assert_eq!(sandbox.storefront().fault_injector.requests(), 2);
    assert_eq!(sandbox.payment().fault_injector.requests(), 1);
    assert_eq!(at_storefront(&service, 1).await.0, "created");
    assert_eq!(refund(&service, 2).await["state"], "issued");
    service.stop().await;
}

#[tokio::test]
async fn a_call_is_tried_after_1_2_and_4_seconds_and_then_in_the_jobs_own_turn() {
    let sandbox = sandbox().await;
    let service = with_both(&sandbox).manual_clock().start().await;
    let fault_injector = &sandbox.payment().fault_injector;
    fault_injector.fail(Fault::Status(500));
    cancel_with_payment(&service, &sandbox, 7).await;
    let second = Duration::from_secs(1);
    let moment = Duration::from_millis(1);
    for (tries, seconds) in (1..).zip([1, 2, 4]) {
        eventually("it is tried", async || fault_injector.requests() == tries).await;
        // A try that has failed waits, and not a moment less than it should.
        let slept = Cell::new(None);
        eventually("it waits", async || {
            slept.set(service.clock().until_next_wake());
            slept.get().is_some()
        })
        .await;
        assert_eq!(slept.get(), Some(second * seconds));
        service
            .clock()
            .advance((second * seconds).saturating_sub(moment));
        pause(Duration::from_millis(50)).await;
        assert_eq!(fault_injector.requests(), tries);
        service.clock().advance(moment);
    }
    // One failure of the job; while the provider is left alone its turn is deferred, and that is
    // none.
    eventually("the job has failed once", async || {
        job(&service, REFUND).await.1 == 1
    })
    .await;
    assert_eq!(fault_injector.requests(), 4);
    service
        .execute(
            "update jobs set notified_at = null, run_at = created_at where kind = 'refunds/issue'",
        )
        .await;
    eventually("the job is deferred", async || {
        let deferred = "select count(*) as n from jobs
                        where kind = 'refunds/issue' and run_at > created_at";
        service.count(deferred).await == 1
    })
    .await;
    let (state, attempts, error) = job(&service, REFUND).await;
    assert_eq!((state.as_str(), attempts), ("ready", 1), "{error}");
    // What the provider answered stays visible while it is left alone.
    assert!(error.contains("COMMERCE_003"), "{error}");
    assert!(error.contains("answered 500"), "{error}");
    let row = "select id from jobs where kind = 'refunds/issue'";
    let row = service.db().query(row).fetch_one().await.unwrap();
    let tried = job_attempts::list(service.db(), row.get("id").unwrap());
    let tried = tried.await.unwrap();
    assert_eq!(tried.len(), 1, "a run that did not ask is no attempt");
    assert_eq!((tried[0].number, tried[0].status), (1, Some(500)));
    assert_eq!(
        (tried[0].outcome.as_str(), tried[0].duration_ms),
        ("retried", 7000),
        "with the pauses of 1, 2 and 4 seconds"
    );
    assert_eq!(tried[0].error, error);
    assert_eq!(refund(&service, 7).await["state"], "requested");
    fault_injector.clear_faults();
    service.clock().advance(Duration::from_mins(1));
    service.settled().await;
    assert_eq!(job(&service, REFUND).await.1, 1, "deferred, not failed");
    assert_eq!(refund(&service, 7).await["state"], "issued");
    each_key(fault_injector, 1, 5);
    let kinds = kinds(service.db(), SHOP, 7).await;
    assert_eq!(times(&kinds, "order.refund_issued"), 1);
    service.stop().await;
}

async fn storefront_refuses(token: &str, fault: Option<Fault>) -> String {
    let sandbox = sandbox().await;
    let service = with_storefront(service(), &sandbox, token).start().await;
    let fault_injector = &sandbox.storefront().fault_injector;
    if let Some(fault) = fault {
        fault_injector.fail(fault);
    }
    deliver_without_waiting(
        &service,
        &order_delivery("orders/paid", &body(7, 1, "paid")),
    )
    .await;
    let error = refused(&service, fault_injector, FULFILLMENT).await;
    let key = service.api_key().await;
    let order = shown(&service, &key, SHOP, 7).await;
    let fulfillment = &order["fulfillment"];
    assert_eq!(fulfillment["state"], "requested", "still to be shipped");
    assert_eq!(fulfillment["provider_state"], "failed");
    let kinds = kinds(service.db(), SHOP, 7).await;
    assert_eq!(times(&kinds, "order.fulfillment_failed"), 1);
    service.stop().await;
    error
}

async fn payment_refuses(key: &str, fault: Option<Fault>, is_known: bool) -> String {
    let sandbox = sandbox().await;
    let service = with_payment(service(), &sandbox, key).start().await;
    let fault_injector = &sandbox.payment().fault_injector;
    if let Some(fault) = fault {
        fault_injector.fail(fault);
    }
    if is_known {
        capture(&sandbox, 7, "7");
    }
    let deliveries = [
        captured(now(&service), 7, "7"),
        order_delivery("orders/cancelled", &cancelled(7, 1, "paid")),
    ];
    post_all(&service, &deliveries).await;
    let error = refused(&service, fault_injector, REFUND).await;
    let refund = refund(&service, 7).await;
    assert_eq!(
        (&refund["state"], &refund["amount"]),
        (&json!("failed"), &json!("30.00"))
    );
    let events = events(service.db(), SHOP, 7).await;
    let failed = events
        .iter()
        .filter(|(kind, _)| kind == "order.refund_failed");
    let failed: Vec<&Value> = failed.map(|(_, body)| body).collect();
    let expected = json!({
        "payment_id": "pi_7", "amount": "30.00", "currency": "USD", "error": error,
        "shop": SHOP, "order_id": "7",
    });
    assert_eq!(failed, [&expected]);
    no_person_in_events_and_jobs(&service).await;
    service.stop().await;
    error
}

#[tokio::test]
async fn a_storefront_that_refuses_makes_a_dead_job_that_says_what_to_do() {
    let error = storefront_refuses(STOREFRONT_TOKEN, Some(Fault::Status(404))).await;
    assert!(
        error.contains("404; does STOREFRONT_API_URL belong"),
        "{error}"
    );
    let error = storefront_refuses(STOREFRONT_TOKEN, Some(Fault::Status(400))).await;
    assert!(error.contains("refused: it answered 400"), "{error}");
}

#[tokio::test]
async fn a_payment_provider_that_refuses_makes_a_dead_job_and_a_failed_refund() {
    let error = payment_refuses(PAYMENT_KEY, None, false).await;
    assert!(error.contains("resource_missing"), "{error}");
    let error = payment_refuses(PAYMENT_KEY, Some(Fault::Status(400)), true).await;
    assert!(error.contains("refused: it answered 400"), "{error}");
}

#[tokio::test]
async fn a_wrong_credential_costs_no_call_its_life() {
    let sandbox = sandbox().await;
    let service = with_storefront(service(), &sandbox, "wrong-token");
    let service = with_payment(service, &sandbox, PAYMENT_KEY)
        .manual_clock()
        .start()
        .await;
    sandbox
        .payment()
        .fault_injector
        .fail_next(1, Fault::Status(403));
    cancel_with_payment(&service, &sandbox, 7).await;
    deliver_without_waiting(
        &service,
        &order_delivery("orders/paid", &body(8, 1, "paid")),
    )
    .await;
    let settings = [
        (FULFILLMENT, "401; check STOREFRONT_API_TOKEN"),
        (REFUND, "403; check PAYMENT_API_KEY"),
    ];
    for (kind, reported) in settings {
        eventually("it says what to mend", async || {
            job(&service, kind).await.2.contains(reported)
        })
        .await;
        let (state, attempts, error) = job(&service, kind).await;
        assert_eq!((state.as_str(), attempts), ("ready", 0), "{error}");
        assert!(!error.contains("wrong-token"), "{error}");
    }
    // While the storefront is left alone, its job still says what to mend.
    service
        .execute(
            "update jobs set notified_at = null, run_at = created_at
             where kind = 'fulfillments/request'",
        )
        .await;
    eventually("it is deferred", async || {
        let deferred = "select count(*) as n from jobs
                        where kind = 'fulfillments/request' and run_at > created_at";
        service.count(deferred).await == 1
    })
    .await;
    assert!(job(&service, FULFILLMENT).await.2.contains(settings[0].1));
    let row = "select id from jobs where kind = 'fulfillments/request'";
    let row = service.db().query(row).fetch_one().await.unwrap();
    let tried = job_attempts::list(service.db(), row.get("id").unwrap());
    let tried = tried.await.unwrap();
    assert_eq!(tried.len(), 1);
    assert_eq!(
        (tried[0].outcome.as_str(), tried[0].status),
        ("deferred", Some(401))
    );
    // A moment later the provider is asked again.
    service.clock().advance(Duration::from_secs(6));
    service
        .execute(
            "update jobs set notified_at = null, run_at = created_at where kind = 'refunds/issue'",
        )
        .await;
    eventually("the refund is issued", async || {
        job(&service, REFUND).await.0 == "done"
    })
    .await;
    assert_eq!(sandbox.payment().refunds(), given_back([7]));
    service.stop().await;
}

#[tokio::test]
async fn an_order_that_the_storefront_holds_back_is_asked_for_again() {
    let sandbox = sandbox().await;
    let service = with_storefront(service(), &sandbox, STOREFRONT_TOKEN)
        .start()
        .await;
    sandbox.storefront().hold(SHOP, 7, true);
    deliver_without_waiting(
        &service,
        &order_delivery("orders/paid", &body(7, 1, "paid")),
    )
    .await;
    eventually("it waits", async || {
        job(&service, FULFILLMENT)
            .await
            .2
            .contains("asked again later")
    })
    .await;
    let (state, attempts, error) = job(&service, FULFILLMENT).await;
    assert_eq!((state.as_str(), attempts), ("ready", 0), "{error}");
    assert!(sandbox.storefront().created().is_empty());
    sandbox.storefront().hold(SHOP, 7, false);
    service
        .execute("update jobs set notified_at = null, run_at = created_at where state = 'ready'")
        .await;
    service.settled().await;
    assert_eq!(sandbox.storefront().created()[&(SHOP.to_owned(), 7)], 1);
    service.stop().await;
}
