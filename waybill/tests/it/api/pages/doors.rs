//! Who may see a page, how often, and what it never says.

use std::time::Duration;

use serde_json::{Value, json};

use super::{deliver, is_guarded, order, parcel, shipment, shown};
use crate::support::delivery::{SHOP, storefront};
use crate::support::operator::said;
use crate::support::{Service, service};

/// Loads a page as this client of a proxy: the status, and `Retry-After` if there is one.
async fn load(service: &Service, client: &str) -> (u16, Option<String>) {
    let request = service
        .get("/orders/7/track")
        .header("X-Forwarded-For", client);
    let answer = request.send().await.unwrap();
    is_guarded(&answer);
    let wait = answer.headers().get("retry-after");
    let wait = wait.map(|wait| wait.to_str().unwrap().to_owned());
    (answer.status().as_u16(), wait)
}

#[tokio::test]
async fn each_client_may_load_thirty_pages_at_once_and_sixty_a_minute() {
    let service = service()
        .setting("TRUSTED_PROXIES", "127.0.0.1")
        .manual_clock()
        .without_workers()
        .start()
        .await;
    for _ in 0..30 {
        assert_eq!(load(&service, "192.0.2.1").await, (404, None));
    }
    let refused = (429, Some("1".to_owned()));
    assert_eq!(load(&service, "192.0.2.1").await, refused);
    assert_eq!(
        load(&service, "192.0.2.2").await,
        (404, None),
        "another client"
    );
    service.clock().advance(Duration::from_secs(1));
    assert_eq!(load(&service, "192.0.2.1").await, (404, None));
    assert_eq!(load(&service, "192.0.2.1").await, refused);
    for host in 0..30 {
        let client = format!("2001:db8:0:1{host:02x}::1");
        assert_eq!(load(&service, &client).await, (404, None));
    }
    assert_eq!(
        load(&service, "2001:db8:0:1ff:ffff::1").await,
        refused,
        "the same /56"
    );
    assert_eq!(
        load(&service, "2001:db8:0:200::1").await,
        (404, None),
        "another /56"
    );
    let request = service
        .get("/tracking/7")
        .header("X-Forwarded-For", "192.0.2.1");
    let answer = request.send().await.unwrap();
    assert_eq!(
        answer.headers()["x-error-code"],
        "AUTH_006",
        "all pages count together"
    );
    let page = answer.text().await.unwrap();
    assert!(page.contains("<h1>Too many requests</h1>"), "{page}");
    for free in ["/robots.txt", "/livez"] {
        let request = service.get(free).header("X-Forwarded-For", "192.0.2.1");
        assert_eq!(request.send().await.unwrap().status(), 200, "{free}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_client_cannot_forge_its_way_past_the_limit() {
    let service = service().manual_clock().without_workers().start().await;
    for client in 0..30 {
        assert_eq!(load(&service, &format!("192.0.2.{client}")).await.0, 404);
    }
    assert_eq!(load(&service, "192.0.2.99").await.0, 429);
    service.stop().await;
}

#[tokio::test]
async fn where_ids_count_up_a_page_opens_by_its_whole_link_alone() {
    let service = service().setting("PUBLIC_PAGES", "with_code").start().await;
    for id in 1..=3 {
        let name = format!("#{id}");
        deliver(&service, &order(SHOP, id, &name).id(&name)).await;
    }
    let link = async |id: i64| {
        let key = (SHOP.to_owned(), id);
        let record = store::orders::record(service.db(), &key).await.unwrap();
        let url = record.unwrap().own.page_url.unwrap();
        url.split_once("/orders/").unwrap().1.to_owned()
    };
    let status = async |path: &str| service.get(path).send().await.unwrap().status().as_u16();
    let first = link(1).await;
    let (path, code) = first.split_once("?code=").unwrap();
    assert_eq!((path, code.len()), ("1/track", 20));
    assert_eq!(status(&format!("/orders/{first}")).await, 200);
    let pay = format!("/pay/1?amount=403.00&currency=USD&code={code}");
    assert_eq!(status(&pay).await, 200);
    for guess in [
        "/orders/1/track".to_owned(),
        "/pay/1".to_owned(),
        "/orders/1/track?code=".to_owned(),
        format!("/orders/2/track?code={code}"),
        format!("/orders/1/track?code={}0", &code[..19]),
        format!("/orders/1/track?shop={SHOP}"),
    ] {
        if guess != format!("/orders/{first}") {
            assert_eq!(status(&guess).await, 404, "{guess}");
        }
    }
    // The code of a payment that the shop asks for opens its page too.
    let key = service.api_key().await;
    let asked = json!({"kind": "payment", "order_id": "1", "amount": "403.00", "currency": "USD"});
    let drawn = service
        .post_to("/api/commerce/qr")
        .bearer_auth(&key)
        .json(&asked);
    let drawn: Value = drawn.send().await.unwrap().json().await.unwrap();
    let url = drawn.to_string();
    assert!(url.contains(&format!("&code={code}")), "{url}");
    // An order whose link got into wrong hands gets another one.
    said(&service, &["orders", "new-link", "1"]).await;
    let second = link(1).await;
    assert_ne!(first, second);
    assert_eq!(status(&format!("/orders/{first}")).await, 404);
    assert_eq!(status(&format!("/orders/{second}")).await, 200);
    service.stop().await;
}

#[tokio::test]
async fn no_page_says_whose_order_it_is() {
    let service = service().start().await;
    let person = |field: &str| format!("canary-{field}");
    let address = json!({
        "first_name": person("first"), "last_name": person("last"), "name": person("name"),
        "company": person("company"), "address1": person("street"), "address2": person("flat"),
        "city": person("city"), "province": person("province"), "country": person("country"),
        "zip": person("zip"), "phone": person("phone"),
    });
    let body = json!({
        "id": 7, "name": "#1001", "updated_at": "2027-01-15T08:00:00Z",
        "email": "canary@example.com", "contact_email": "canary@example.com",
        "phone": person("phone"), "note": person("note"), "browser_ip": "canary-ip",
        "token": person("token"), "tags": person("tags"), "cancel_reason": person("reason"),
        "note_attributes": [{"name": person("attribute"), "value": person("value")}],
        "currency": "USD", "total_price": "403.00", "financial_status": "pending",
        "customer": {
            "id": 770_077_007_700_i64, "email": "canary@example.com", "phone": person("phone"),
            "first_name": person("first"), "last_name": person("last"),
            "default_address": address,
        },
        "line_items": [{
            "id": 880_088_008_800_i64, "quantity": 1, "title": person("title"),
            "name": person("title"), "sku": person("sku"), "price": "403.00",
            "properties": [{"name": person("property"), "value": person("engraving")}],
        }],
        "shipping_address": address, "billing_address": address,
    });
    deliver(&service, &storefront("orders/create", body.to_string())).await;
    shipment(&service, SHOP, 7, 1, Some("success"), "UPS").await;
    let url = "https://carrier.example/1Z999AA1?zip=canary";
    parcel(&service, SHOP, 7, 1, "1Z999AA1", Some(url)).await;
    for path in [
        "/orders/7/track",
        "/orders/7/track?shop=shop.example",
        "/tracking/1Z999AA1",
        "/pay/7",
        "/pay/7?amount=1.00&currency=USD",
    ] {
        let page = shown(&service, path).await;
        for trace in ["canary", "770077007700", "880088008800", "@example"] {
            assert!(!page.contains(trace), "{trace} in {path}: {page}");
        }
    }
    let tracked = shown(&service, "/orders/7/track").await;
    for reported in [
        "<html lang=\"en\">",
        "<title>Order #1001</title>",
        "<h1>Order <bdi>#1001</bdi></h1>",
        "<meta name=\"robots\" content=\"noindex, nofollow\">",
        "<dt>Payment</dt><dd>Not paid yet</dd>",
        "<a class=\"go\" rel=\"noopener noreferrer nofollow\" href=\"https://www.ups.com/track?tracknum=1Z999AA1\">",
    ] {
        assert!(tracked.contains(reported), "{reported} in {tracked}");
    }
    assert!(
        !tracked.contains("403") && !tracked.contains(SHOP),
        "{tracked}"
    );
    for sign in ["<script", "<form", "<img", "<link", " style=", "onload"] {
        assert!(!tracked.contains(sign), "{sign} in {tracked}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_code_opens_its_order_though_another_shop_has_one_with_the_same_id() {
    let service = service().start().await;
    for shop in [SHOP, "other.example"] {
        deliver(&service, &order(shop, 1, shop).id(shop)).await;
    }
    let page = async |path: &str| shown(&service, path).await;
    let several = service.get("/orders/1/track").send().await.unwrap();
    assert_eq!(several.status(), 300);
    said(&service, &["orders", "new-link", "1", "--shop", SHOP]).await;
    let key = (SHOP.to_owned(), 1);
    let record = store::orders::record(service.db(), &key).await.unwrap();
    let url = record.unwrap().own.page_url.unwrap();
    let (_, code) = url.split_once("?code=").unwrap();
    // The name of an order is the shop's here.
    let opened = page(&format!("/orders/1/track?code={code}")).await;
    assert!(opened.contains(SHOP) && !opened.contains("other.example"));
    let opened = page("/orders/1/track").await;
    assert!(opened.contains("other.example") && !opened.contains(SHOP));
    service.stop().await;
}
