//! Subscriptions are begun by a checkout and billed period after period.

use sandbox::{Generation, Sandbox};
use serde_json::{Value, json};

use crate::support::receiver::{Receiver, Taken};
use crate::support::{NOW, client, monthly_mug, open, pay, payment_get, read, start};

async fn subscribed(generation: Generation) -> (Sandbox, Receiver, String) {
    let receiver = Receiver::start(0).await;
    let sandbox = start(Some(receiver.webhooks())).await;
    sandbox.payment().set_generation(generation);
    let form = format!(
        "{}&subscription_data[metadata][plan]=pro&customer_email=ada@example.com\
         &line_items[1][price_data][currency]=usd&line_items[1][price_data][unit_amount]=50\
         &line_items[1][price_data][product_data][name]=Fee&line_items[1][quantity]=1",
        monthly_mug()
    );
    let session = open(&sandbox, &form).await;
    assert_eq!(
        (&session["payment_intent"], &session["subscription"]),
        (&json!(null), &json!(null))
    );
    assert_eq!(pay(&sandbox, &session).await.status(), 303);
    let path = format!("checkout/sessions/{}", session["id"].as_str().unwrap());
    let (_, session) = payment_get(&sandbox, &path).await;
    let id = session["subscription"].as_str().unwrap().to_owned();
    (sandbox, receiver, id)
}

fn object<'a>(taken: &'a [Taken], topic: &str) -> &'a Value {
    let mut taken = taken.iter().rev();
    &taken.find(|taken| taken.topic == topic).unwrap().body["data"]["object"]
}

#[tokio::test]
async fn a_paid_session_begins_a_subscription_with_its_first_invoice() {
    let (sandbox, receiver, id) = subscribed(Generation::Basil).await;
    let taken = receiver.taken();
    assert_eq!(taken.len(), 3);
    let session = object(&taken, "checkout.session.completed");
    let invoice = object(&taken, "invoice.payment_succeeded");
    assert_eq!(
        (&session["subscription"], &session["invoice"]),
        (&json!(id), &invoice["id"])
    );
    assert_eq!(invoice["billing_reason"], "subscription_create");
    assert_eq!(invoice["amount_paid"], 1500);
    let parent = &invoice["parent"]["subscription_details"];
    assert_eq!(
        parent,
        &json!({"metadata": {"plan": "pro"}, "subscription": id})
    );
    let (_, read) = payment_get(
        &sandbox,
        &format!("invoices/{}", invoice["id"].as_str().unwrap()),
    )
    .await;
    assert_eq!(&read, invoice);
    let (_, subscription) = payment_get(&sandbox, &format!("subscriptions/{id}")).await;
    assert_eq!(
        (&subscription["status"], &subscription["metadata"]["plan"]),
        (&json!("active"), &json!("pro"))
    );
}

#[tokio::test]
async fn the_next_periods_follow_without_a_gap() {
    let (sandbox, receiver, id) = subscribed(Generation::Acacia).await;
    let mut end = NOW.unix_seconds();
    for months in [None, Some(1), Some(3)] {
        if months.is_some() {
            let url = format!("{}/_control/invoice", sandbox.url());
            let wish = json!({"subscription": id, "months": months});
            let (status, billed) = read(client().post(url).json(&wish).send().await.unwrap()).await;
            assert_eq!(status, 200, "{billed}");
            sandbox.webhooks_done().await;
        }
        let taken = receiver.taken();
        let invoice = object(&taken, "invoice.payment_succeeded");
        let period = &invoice["lines"]["data"][0]["period"];
        assert_eq!(period["start"], end);
        end = period["end"].as_i64().unwrap();
    }
    let days = (end - NOW.unix_seconds()) / 86_400;
    assert_eq!(
        days,
        31 + 28 + 31 + 30 + 31,
        "from 2027-01-15 to 2027-06-15"
    );
    let taken = receiver.taken();
    let last = object(&taken, "invoice.payment_succeeded");
    assert_eq!(
        (&last["billing_reason"], &last["amount_paid"]),
        (&json!("subscription_cycle"), &json!(1450))
    );
    let payment = sandbox.payment();
    assert_eq!(payment.captures().len(), 3);
    for (id, months, part) in [
        (&*id, Some(0), "1 or more"),
        (&*id, Some(2000), "80 years"),
        ("sub_none", None, "No such"),
    ] {
        let refused = payment.bill(id, months).unwrap_err();
        assert!(refused.contains(part), "{refused}");
    }
    assert_eq!(payment.captures().len(), 3);
}

#[tokio::test]
async fn before_basil_invoice_intent_and_charge_name_each_other() {
    for generation in Generation::ALL {
        let (_sandbox, receiver, id) = subscribed(generation).await;
        let taken = receiver.taken();
        let invoice = object(&taken, "invoice.payment_succeeded");
        let intent = object(&taken, "payment_intent.succeeded");
        if generation == Generation::Basil {
            for absent in ["subscription", "payment_intent", "charge", "paid"] {
                assert!(invoice.get(absent).is_none(), "{absent}");
            }
            assert!(intent.get("invoice").is_none());
        } else {
            assert!(invoice.get("parent").is_none());
            assert_eq!(
                (&invoice["subscription"], &invoice["payment_intent"]),
                (&json!(id), &intent["id"])
            );
            assert_eq!(
                (&intent["invoice"], &invoice["paid"]),
                (&invoice["id"], &json!(true))
            );
            assert!(invoice["charge"].as_str().unwrap().starts_with("ch_"));
        }
    }
}
