//! Until when a subscription and its licences are paid: by what was paid, and was neither credited nor given back.

use std::collections::BTreeMap;

use domain::time::Timestamp;
use serde_json::{Value, json};
use store::licenses;

use crate::orders::agreements::permutations;
use crate::support::delivery::Delivery;
use crate::support::operator::{json as done_by, refused};
use crate::support::order::deliver;
use crate::support::payment::{CREATED, charge, end_of, event, intent, invoice, kinds};
use crate::support::{Service, service};

/// A line that bills a price, or gives it back, from a day to another.
fn line(price: &str, cents: i64, from: i64, to: i64) -> Value {
    let day = |day: i64| CREATED + day * 86_400;
    json!({
        "id": format!("il_{price}_{to}"), "amount": cents, "period": {"start": day(from), "end": day(to)},
        "pricing": {"price_details": {"price": price, "product": format!("prod_of_{price}")}},
        "parent": {"type": "subscription_item_details", "subscription_item_details": {
            "subscription": "sub_1", "proration": cents < 0}},
    })
}

fn billed(service: &Service, nth: i64, lines: &[Value]) -> Delivery {
    let mut invoice = invoice(&format!("in_{nth}"), "sub_1", 500, 30);
    invoice["created"] = json!(CREATED + nth * 86_400);
    let total: i64 = lines
        .iter()
        .map(|line| line["amount"].as_i64().unwrap())
        .sum();
    invoice["total"] = json!(total);
    invoice["amount_paid"] = json!(total.max(0));
    invoice["lines"]["data"] = json!(lines);
    event(service, "invoice.paid", nth, &invoice)
}

/// Grants a licence of one item of the subscription, or of the whole.
async fn grant(service: &Service, user: &str, item: Option<&str>) {
    let mut words = vec![
        "licenses",
        "grant",
        "--user",
        user,
        "--tier",
        "pro",
        "--subscription",
        "sub_1",
    ];
    words.extend(item.iter().flat_map(|item| ["--item", item]));
    let granted = done_by(service, &words).await;
    assert_eq!(granted["outcome"], "granted", "{granted}");
}

/// The ends of the licences, by the items that they name.
async fn ends(service: &Service) -> BTreeMap<String, Option<Timestamp>> {
    let licenses = licenses::list(service.db()).await.unwrap().into_iter();
    licenses
        .map(|it| (it.subscription_item.unwrap_or_default(), it.expires_at))
        .collect()
}

fn ending(ends: &[(&str, i64)]) -> BTreeMap<String, Option<Timestamp>> {
    let ends = ends.iter();
    ends.map(|(item, day)| ((*item).to_owned(), Some(end_of(*day))))
        .collect()
}

#[tokio::test]
async fn a_licence_of_one_item_lasts_as_long_as_what_is_billed_of_it() {
    let service = service().manual_clock().start().await;
    let first = [
        line("price_pro", 900, 0, 30),
        line("price_disk", 100, 0, 365),
    ];
    deliver(&service, &billed(&service, 0, &first)).await;
    grant(&service, "ada", Some("price_pro")).await;
    grant(&service, "grace", Some("prod_of_price_disk")).await;
    grant(&service, "joan", None).await;
    let both = |pro: i64| ending(&[("price_pro", pro), ("prod_of_price_disk", 365), ("", 365)]);
    assert_eq!(ends(&service).await, both(30));
    let (code, why) = refused(
        &service,
        &[
            "licenses",
            "grant",
            "--user",
            "mary",
            "--tier",
            "pro",
            "--subscription",
            "sub_1",
            "--item",
            "price_none",
        ],
    )
    .await;
    assert!(
        code == 2 && why.contains("sub_1 that bills price_none"),
        "{code} {why}"
    );
    // The next month bills the one item alone.
    deliver(
        &service,
        &billed(&service, 30, &[line("price_pro", 900, 30, 60)]),
    )
    .await;
    assert_eq!(ends(&service).await, both(60));
    // Another quantity is billed at once: what is left is credited, and billed anew.
    let mut anew = line("price_pro", 1800, 35, 60);
    anew["parent"]["subscription_item_details"]["proration"] = json!(true);
    let lines = [line("price_pro", -700, 35, 60), anew];
    deliver(&service, &billed(&service, 35, &lines)).await;
    assert_eq!(ends(&service).await, both(60));
    // The item is taken off the subscription, and its rest is credited.
    deliver(
        &service,
        &billed(&service, 40, &[line("price_pro", -600, 40, 60)]),
    )
    .await;
    assert_eq!(ends(&service).await, both(40));
    service.stop().await;
}

#[tokio::test]
async fn a_period_whose_payment_went_back_is_not_paid_in_whatever_sequence() {
    for generation in ["before 2025-03-31", "since"] {
        for sequence in permutations(&[0, 1, 2, 3]) {
            let service = service().manual_clock().start().await;
            let names_payment = generation == "before 2025-03-31";
            let mut second = invoice("in_2", "sub_1", 500, 60);
            second["created"] = json!(CREATED + 30 * 86_400);
            let paid = if names_payment {
                second["payment_intent"] = json!("pi_2");
                intent("pi_2", "succeeded", 500, None)
            } else {
                json!({"id": "inpay_2", "object": "invoice_payment", "invoice": "in_2",
                       "payment": {"type": "payment_intent", "payment_intent": "pi_2"}})
            };
            let kind = if names_payment {
                "payment_intent.succeeded"
            } else {
                "invoice_payment.paid"
            };
            let mut first = invoice("in_1", "sub_1", 500, 30);
            first["created"] = json!(CREATED);
            let deliveries = [
                event(&service, "invoice.paid", 1, &first),
                event(&service, "invoice.paid", 2, &second),
                event(&service, kind, 3, &paid),
                event(&service, "charge.refunded", 4, &charge("pi_2", 500, 500)),
            ];
            for nth in sequence.iter().chain(&sequence[..2]) {
                let delivery = deliveries[*nth].clone();
                let (status, _) = service.answer(&delivery).await;
                assert!([200, 409].contains(&status), "{status}");
                service.settled().await;
            }
            let what = format!("{generation} {sequence:?}");
            grant(&service, "ada", None).await;
            assert_eq!(ends(&service).await, ending(&[("", 30)]), "{what}");
            // The bank refuses the refund days later, and the period is paid after all.
            let mut failed = json!({"id": "re_2", "object": "refund", "payment_intent": "pi_2", "amount": 500,
                                    "currency": "usd", "status": "failed"});
            failed["created"] = json!(CREATED + 1);
            deliver(&service, &event(&service, "refund.failed", 5, &failed)).await;
            assert_eq!(ends(&service).await, ending(&[("", 60)]), "{what}");
            let said = kinds(service.db(), "sub_1").await;
            assert_eq!(
                said.last().map(String::as_str),
                Some("subscription.extended"),
                "{what}"
            );
            service.stop().await;
        }
    }
}
