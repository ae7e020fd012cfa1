//! Checkout sessions: how the API reads the form of a request.

use sandbox::Price;
use serde_json::json;

use crate::support::{
    MUG, NOW, client, monthly_mug, open, payment_get, payment_post, read, sandbox, visit,
};

#[tokio::test]
async fn a_session_is_what_the_form_asks_for_and_can_be_read() {
    let sandbox = sandbox().await;
    let form = format!(
        "{MUG}&line_items[1][price_data][currency]=USD\
         &line_items[1][price_data][unit_amount]=1200\
         &line_items[1][price_data][product_data][name]=Candle\
         &line_items[1][quantity]=2&client_reference_id=order-7&customer_email=ada@example.com\
         &metadata[a]=session&payment_intent_data[metadata][pact_id]=pact_7"
    );
    let session = open(&sandbox, &form).await;
    let id = session["id"].as_str().unwrap();
    assert!(id.starts_with("cs_"), "{id}");
    let expected = json!({
        "object": "checkout.session",
        "url": format!("{}/checkout/{id}", sandbox.payment_url()),
        "mode": "payment",
        "status": "open",
        "payment_status": "unpaid",
        "amount_total": 3850,
        "currency": "usd",
        "client_reference_id": "order-7",
        "customer_email": "ada@example.com",
        "metadata": {"a": "session"},
        "expires_at": NOW.unix_seconds() + 86_400,
        "subscription": null,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&session[name], value, "{name}");
    }
    assert_eq!(
        payment_get(&sandbox, &format!("checkout/sessions/{id}")).await,
        (200, session.clone())
    );
    let intent = session["payment_intent"].as_str().unwrap();
    let (_, intent) = payment_get(&sandbox, &format!("payment_intents/{intent}")).await;
    assert_eq!(intent["status"], "requires_payment_method");
    assert_eq!(intent["amount"], 3850);
    assert_eq!(
        intent["metadata"],
        json!({"pact_id": "pact_7"}),
        "the session's metadata stay on the session"
    );
}

#[tokio::test]
async fn what_cannot_be_sold_is_refused_with_code_and_parameter() {
    let sandbox = sandbox().await;
    let price = "line_items[0][price_data]";
    let with = |more: &str| format!("{MUG}&{more}");
    let changed = |from: &str, to: &str| MUG.replace(from, to);
    for (form, code, param) in [
        (String::new(), json!("parameter_missing"), "mode"),
        (changed("mode=payment", "mode=setup"), json!(null), "mode"),
        (
            changed("1450", "0"),
            json!("parameter_invalid_integer"),
            "line_items[0][price_data][unit_amount]",
        ),
        (
            changed("1450", "-5"),
            json!("parameter_invalid_integer"),
            "line_items[0][price_data][unit_amount]",
        ),
        (
            changed("1450", "14.5"),
            json!("parameter_invalid_integer"),
            "line_items[0][price_data][unit_amount]",
        ),
        (
            changed("quantity]=1", "quantity]=0"),
            json!("parameter_invalid_integer"),
            "line_items[0][quantity]",
        ),
        (
            changed("1450", "100000000"),
            json!("amount_too_large"),
            "line_items",
        ),
        (
            changed("1450", "9223372036854775807") + "0",
            json!("amount_too_large"),
            "line_items",
        ),
        (
            changed("=usd", "=xau"),
            json!(null),
            "line_items[0][price_data][currency]",
        ),
        (
            changed("success_url", "metadata[s]"),
            json!("parameter_missing"),
            "success_url",
        ),
        (
            changed("https://shop.example/thanks", "javascript:x"),
            json!("url_invalid"),
            "success_url",
        ),
        (with("colour=red"), json!("parameter_unknown"), "colour"),
        (
            with(&format!("{price}[colour]=red")),
            json!("parameter_unknown"),
            "line_items[0][price_data][colour]",
        ),
        (
            with("customer_email=ada"),
            json!("email_invalid"),
            "customer_email",
        ),
        (
            with("customer_email="),
            json!("parameter_invalid_empty"),
            "customer_email",
        ),
        (
            with("subscription_data[metadata][a]=b"),
            json!(null),
            "subscription_data",
        ),
        (
            with("line_items[1][price]=price_9&line_items[1][quantity]=1"),
            json!("resource_missing"),
            "line_items[1][price]",
        ),
        (
            with("line_items[0][price]=price_9"),
            json!("parameters_exclusive"),
            "line_items[0][price]",
        ),
        (
            monthly_mug().replace("mode=subscription", "mode=payment"),
            json!(null),
            "mode",
        ),
        (
            changed("mode=payment", "mode=subscription"),
            json!(null),
            "line_items",
        ),
        (
            with(&format!("metadata[a]={}", "x".repeat(501))),
            json!(null),
            "metadata[a]",
        ),
        (with("metadata[a][b]=c"), json!(null), "metadata[a]"),
    ] {
        let asked = payment_post(&sandbox, "checkout/sessions", &form)
            .send()
            .await;
        let (status, body) = read(asked.unwrap()).await;
        let error = &body["error"];
        assert_eq!(
            (status, &error["type"]),
            (400, &json!("invalid_request_error")),
            "{form}: {body}"
        );
        assert_eq!(
            (&error["code"], &error["param"]),
            (&code, &json!(param)),
            "{form}: {body}"
        );
    }
    let mixed = with(
        "line_items[1][price_data][currency]=eur&line_items[1][price_data][unit_amount]=5\
         &line_items[1][price_data][product_data][name]=Candle&line_items[1][quantity]=1",
    );
    let asked = payment_post(&sandbox, "checkout/sessions", &mixed)
        .send()
        .await;
    let (status, body) = read(asked.unwrap()).await;
    let message = body["error"]["message"].as_str().unwrap();
    assert!(status == 400 && message.contains("same currency"), "{body}");
    assert_eq!(sandbox.payment().sessions_by_key().len(), 0);
}

#[tokio::test]
async fn a_key_makes_one_session_and_belongs_to_its_parameters_and_path() {
    let sandbox = sandbox().await;
    let ask = |path: &'static str, form: &str| {
        let request = payment_post(&sandbox, path, form).header("Idempotency-Key", "k-1");
        async { read(request.send().await.unwrap()).await }
    };
    let first = ask("checkout/sessions", MUG).await;
    assert_eq!(ask("checkout/sessions", MUG).await, first);
    for (path, form) in [
        ("checkout/sessions", MUG.replace("1450", "1451")),
        ("payment_intents", MUG.to_owned()),
    ] {
        let (status, body) = ask(path, &form).await;
        assert_eq!(
            (status, &body["error"]["type"]),
            (400, &json!("idempotency_error"))
        );
    }
    let without = open(&sandbox, MUG).await;
    assert_ne!(without["id"], first.1["id"]);
    let made = sandbox.payment().sessions_by_key();
    assert_eq!((made["k-1"], made[""], made.len()), (1, 1, 2));
}

#[tokio::test]
async fn a_price_that_is_known_can_be_named() {
    let sandbox = sandbox().await;
    let price = json!({"id": "price_1", "name": "Mug", "amount": 1450, "currency": "eur"});
    let url = format!("{}/_control/price", sandbox.url());
    assert_eq!(
        client()
            .post(url)
            .json(&price)
            .send()
            .await
            .unwrap()
            .status(),
        200
    );
    sandbox.payment().add_price(Price {
        id: "price_2".to_owned(),
        name: "Club".to_owned(),
        amount: 500,
        currency: domain::money::Currency::parse("EUR").unwrap(),
        months: Some(12),
    });
    let form = "success_url=http://shop.example&line_items[0][price]=price_1\
                &line_items[0][quantity]=3";
    let session = open(&sandbox, &format!("mode=payment&{form}")).await;
    assert_eq!(session["amount_total"], 4350);
    let club = form.replace("price_1", "price_2");
    let session = open(&sandbox, &format!("mode=subscription&{club}")).await;
    assert_eq!(session["currency"], "eur");
    let (_, page) = visit(&session).await;
    assert!(
        page.contains("3 × Club, every year</span><span>15.00 EUR"),
        "{page}"
    );
}
