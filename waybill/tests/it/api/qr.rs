//! `POST /api/commerce/qr`, with what a real decoder reads in the pictures.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::both::orders::deliveries::zbar;
use crate::support::{Service, service};

async fn start() -> (Service, String) {
    let service = service()
        .setting("QR_BASE_URL", "https://shop.example")
        .without_workers()
        .start()
        .await;
    let key = service.api_key().await;
    (service, key)
}

async fn post(service: &Service, key: &str, body: String) -> (u16, Option<String>, Value) {
    let request = service.post_to("/api/commerce/qr").bearer_auth(key);
    let answer = request.body(body).send().await.unwrap();
    let code = answer.headers().get("x-error-code");
    let code = code.map(|code| code.to_str().unwrap().to_owned());
    (answer.status().as_u16(), code, answer.json().await.unwrap())
}

/// What the picture reads, and the link that the answer says it is of.
async fn read(service: &Service, key: &str, body: &Value) -> (Vec<u8>, String) {
    let (status, _, answer) = post(service, key, body.to_string()).await;
    assert_eq!(
        (status, &answer["format"]),
        (200, &json!("PNG")),
        "{answer}"
    );
    let png = STANDARD.decode(answer["data"].as_str().unwrap()).unwrap();
    (zbar(&png), answer["url"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_code_of_each_kind_reads_as_its_link() {
    let (service, key) = start().await;
    for (body, url) in [
        (
            json!({"kind": "order", "order_id": "1001"}),
            "https://shop.example/orders/1001/track",
        ),
        (
            json!({"kind": "order", "orderId": 820_982_911_946_154_508_i64}),
            "https://shop.example/orders/820982911946154508/track",
        ),
        (
            json!({"kind": "order", "order_id": "a/b?c#d\r\n"}),
            "https://shop.example/orders/a%2Fb%3Fc%23d/track",
        ),
        (
            json!({"kind": "payment", "order_id": "7", "amount": 19.9, "currency": "eur"}),
            "https://shop.example/pay/7?amount=19.90&currency=EUR",
        ),
        (
            json!({"kind": "payment", "order_id": "7", "amount": "5", "currency": "USD"}),
            "https://shop.example/pay/7?amount=5.00&currency=USD",
        ),
        (
            json!({"kind": "package", "tracking_number": "1Z 999"}),
            "https://shop.example/tracking/1Z%20999",
        ),
        (
            json!({"kind": "custom", "data": "two\r\nlines, émile", "error_correction": "l",
                   "format": "png", "box_size": 3, "border": 4}),
            "two\r\nlines, émile",
        ),
    ] {
        let (seen, reported) = read(&service, &key, &body).await;
        assert_eq!(reported, url, "{body}");
        assert_eq!(String::from_utf8(seen).unwrap(), url, "{body}");
    }
    let body = json!({"kind": "custom", "data": "hello", "format": "SVG"});
    let (_, _, answer) = post(&service, &key, body.to_string()).await;
    assert_eq!(answer["format"], "SVG");
    let svg = STANDARD.decode(answer["data"].as_str().unwrap()).unwrap();
    assert!(String::from_utf8(svg).unwrap().contains("<svg"));
    assert_eq!(answer.as_object().unwrap().len(), 3);
    service.stop().await;
}

#[tokio::test]
async fn a_number_is_shown_with_two_decimals_exactly() {
    let (service, key) = start().await;
    for (amount, shown) in [
        ("19.999", "20.00"),
        ("0.30000000000000004", "0.30"),
        ("1e2", "100.00"),
        ("1.5E+1", "15.00"),
        ("1234567e-5", "12.35"),
        ("2.675", "2.68"),
        ("1.005", "1.01"),
        ("1.0049999999999999999999999999", "1.00"),
        ("0.005", "0.01"),
        ("19.9", "19.90"),
        ("90071992547409.93", "90071992547409.93"),
        (r#""19.900""#, "19.90"),
    ] {
        let body = format!(
            r#"{{"kind": "payment", "order_id": "7", "amount": {amount}, "currency": "EUR"}}"#
        );
        let (status, _, answer) = post(&service, &key, body).await;
        assert_eq!(status, 200, "{amount}: {answer}");
        let url = format!("https://shop.example/pay/7?amount={shown}&currency=EUR");
        assert_eq!(answer["url"], url, "{amount}");
    }
    for (amount, text) in [
        ("0.0049", "amount must be positive"),
        ("1e-99999999999999999999", "amount must be positive"),
        ("0e99999999999999999999", "amount must be positive"),
        ("1e99999999999999999999", "amount is too large"),
        ("92233720368547758.08", "amount is too large"),
    ] {
        let body = format!(
            r#"{{"kind": "payment", "order_id": "7", "amount": {amount}, "currency": "EUR"}}"#
        );
        let (status, code, answer) = post(&service, &key, body).await;
        assert_eq!((status, code.as_deref()), (422, Some("COMMERCE_001")));
        assert_eq!(answer["detail"], text, "{amount}");
    }
    service.stop().await;
}

#[tokio::test]
async fn the_code_of_an_id_that_no_order_can_have_leads_to_a_page_that_says_so() {
    let service = service().without_workers().start().await;
    let key = service.api_key().await;
    for body in [
        json!({"kind": "order", "order_id": "A-17"}),
        json!({"kind": "payment", "order_id": "A-17", "amount": 5, "currency": "USD"}),
    ] {
        let (status, _, answer) = post(&service, &key, body.to_string()).await;
        assert_eq!(status, 200, "{answer}");
        let link = answer["url"].as_str().unwrap();
        let path = link.strip_prefix(&service.url).unwrap();
        let page = service.get(path).send().await.unwrap();
        assert_eq!(page.status(), 404, "{link}");
        let page = page.text().await.unwrap();
        assert!(page.contains("<h1>Order not found</h1>"), "{page}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_code_holds_as_much_as_its_level_allows_and_not_one_byte_more() {
    let (service, key) = start().await;
    let custom = |data: &str, level: &str| json!({"kind": "custom", "data": data, "error_correction": level, "box_size": 4});
    let full = "x".repeat(1273);
    assert_eq!(
        read(&service, &key, &custom(&full, "H")).await.0,
        full.as_bytes()
    );
    let more = custom(&format!("{full}x"), "H").to_string();
    let (status, code, body) = post(&service, &key, more.clone()).await;
    assert_eq!((status, code.as_deref()), (422, Some("COMMERCE_008")));
    let detail = body["detail"].as_str().unwrap();
    assert!(
        detail.contains("1274") && detail.contains("1273"),
        "{detail}"
    );
    let (status, _, _) = post(&service, &key, more.replace("\"H\"", "\"Q\"")).await;
    assert_eq!(status, 200, "a lower level holds more");
    // 500 letters of two bytes each, percent-encoded.
    let order = |letters: usize| {
        let id = "é".repeat(letters);
        json!({"kind": "order", "order_id": id, "error_correction": "L", "box_size": 4})
    };
    let (seen, _) = read(&service, &key, &order(500)).await;
    let url = format!("https://shop.example/orders/{}/track", "%C3%A9".repeat(500));
    assert_eq!(String::from_utf8(seen).unwrap(), url);
    let (status, code, body) = post(&service, &key, order(501).to_string()).await;
    assert_eq!((status, code.as_deref()), (422, Some("COMMERCE_008")));
    assert!(body["detail"].as_str().unwrap().contains("too long"));
    service.stop().await;
}

#[tokio::test]
async fn what_makes_no_code_is_described_in_the_words_and_codes_of_the_spec() {
    let (service, key) = start().await;
    let pay = |amount: Value, currency: &str| json!({"kind": "payment", "order_id": "7", "amount": amount, "currency": currency});
    let empty = "order_id must be a non-empty string";
    let positive = "amount must be positive";
    for (body, code, text) in [
        (json!({"kind": "order"}), "COMMERCE_008", empty),
        (
            json!({"kind": "order", "order_id": ""}),
            "COMMERCE_008",
            empty,
        ),
        (
            json!({"kind": "order", "order_id": "\r\n"}),
            "COMMERCE_008",
            empty,
        ),
        (
            json!({"kind": "payment", "order_id": null, "amount": 1, "currency": "USD"}),
            "COMMERCE_008",
            empty,
        ),
        (pay(json!(0), "USD"), "COMMERCE_001", positive),
        (pay(json!(-5), "USD"), "COMMERCE_001", positive),
        (pay(json!("0.00"), "USD"), "COMMERCE_001", positive),
        (pay(json!(0.004), "USD"), "COMMERCE_001", positive),
        (pay(json!(-0.001), "USD"), "COMMERCE_001", positive),
        (
            pay(json!("1.999"), "USD"),
            "COMMERCE_001",
            "amount as text must have at most two decimals",
        ),
        (
            pay(json!(1e17), "USD"),
            "COMMERCE_001",
            "amount is too large",
        ),
        (
            pay(Value::Null, "USD"),
            "COMMERCE_001",
            "amount must be a plain decimal number such as 19.90",
        ),
        (
            pay(json!("1e3"), "USD"),
            "COMMERCE_001",
            "amount must be a plain decimal number such as 19.90",
        ),
        (
            pay(json!([1]), "USD"),
            "COMMERCE_001",
            "amount must be a plain decimal number such as 19.90",
        ),
        (
            pay(json!(5), "JPY"),
            "COMMERCE_002",
            "currency must be USD, EUR, GBP or MXN",
        ),
        (
            pay(json!(5), "dollars"),
            "COMMERCE_002",
            "currency must be three letters such as USD",
        ),
        (
            json!({"kind": "package"}),
            "COMMERCE_008",
            "tracking_number must be a non-empty string",
        ),
        (
            json!({"kind": "custom"}),
            "COMMERCE_008",
            "data must be a non-empty string",
        ),
        (
            json!({"kind": "other"}),
            "COMMERCE_008",
            "kind must be order, payment, package or custom",
        ),
        (
            json!({}),
            "COMMERCE_008",
            "kind must be order, payment, package or custom",
        ),
        (
            json!({"kind": "custom", "data": "x", "format": "JPEG"}),
            "COMMERCE_008",
            "format must be PNG or SVG",
        ),
        (
            json!({"kind": "custom", "data": "x", "error_correction": "Z"}),
            "COMMERCE_008",
            "error_correction must be L, M, Q or H",
        ),
        (
            json!({"kind": "custom", "data": "x", "box_size": 101}),
            "COMMERCE_008",
            "box_size must be 1 to 100 pixels, not 101",
        ),
        (
            json!({"kind": "custom", "data": "x", "border": 101}),
            "COMMERCE_008",
            "border must be 0 to 100 boxes, not 101",
        ),
    ] {
        let (status, seen, answer) = post(&service, &key, body.to_string()).await;
        assert_eq!((status, seen.as_deref()), (422, Some(code)), "{body}");
        assert_eq!(answer, json!({"detail": text}), "{body}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_refused_by_its_place_and_never_by_its_content() {
    let (service, key) = start().await;
    for (body, reported) in [
        (
            r#"{"kind": "custom", "canary": "canary"}"#,
            "Line 1, column 27",
        ),
        (
            r#"{"kind": "custom", "order_id": "canary", "orderId": "canary"}"#,
            "Line 1",
        ),
        (r#"{"kind": "custom", "data": {"canary": 1}}"#, "Line 1"),
        (r#"{"kind": "custom", "box_size": -1}"#, "Line 1"),
        ("canary", "is not JSON"),
        (r#"{"kind": "canary"#, "is not JSON"),
        (r#"["canary"]"#, "is not a JSON object"),
        // All fields of the request, in its order.
        (
            r#"["custom",null,null,"canary",null,null,null,null,null,null]"#,
            "is not a JSON object",
        ),
    ] {
        let (status, _, answer) = post(&service, &key, body.to_owned()).await;
        let detail = answer["detail"].as_str().unwrap();
        assert_eq!(status, 422, "{body}");
        assert!(
            detail.contains(reported) && !detail.contains("canary"),
            "{body}: {detail}"
        );
    }
    let large = json!({"kind": "custom", "data": "x".repeat(70_000)}).to_string();
    assert_eq!(post(&service, &key, large).await.0, 413);
    service.stop().await;
}
