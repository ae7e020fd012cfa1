//! The public pages: what they show, what they must not show, and that a browser reports no error
//! about them.

mod browser;
mod doors;
mod payments;

use std::collections::BTreeSet;
use std::time::Duration;

use domain::order::record::{Cancellation, Record, Shipment};
use domain::order::{FinancialStatus, FulfillmentStatus, Tracking};
use reqwest::Response;
use serde_json::{Value, json};
use store::tracking_numbers;

use crate::support::delivery::{Delivery, SHOP, storefront};
use crate::support::order::{body, order_delivery};
use crate::support::records::{change_orders, part};
use crate::support::{Service, service};

async fn deliver(service: &Service, delivery: &Delivery) {
    assert_eq!(service.answer(delivery).await.0, 200);
    service.drained().await;
}

/// A paid-for-later order of 403 dollars, from a shop.
fn order(shop: &str, id: i64, name: &str) -> Delivery {
    let body = json!({
        "id": id, "name": name, "updated_at": "2027-01-15T08:00:00Z", "currency": "USD",
        "total_price": "403.00", "financial_status": "pending",
    });
    storefront("orders/create", body.to_string()).header("X-Storefront-Shop-Domain", shop)
}

async fn shipment(
    service: &Service,
    shop: &str,
    order: i64,
    id: i64,
    status: Option<&str>,
    carrier: &str,
) {
    let rows = format!("orders where shop = '{shop}' and id = {order}");
    change_orders(service.db(), &rows, |order| {
        let shipment = Shipment {
            status: status.map(ToOwned::to_owned),
            carrier: Some(carrier.to_owned()),
            ..Shipment::default()
        };
        order.shipments.insert(id, part(shipment));
        order.own.shipments_at.insert(id, 1_800_000_060_000);
    })
    .await;
}

async fn parcel(
    service: &Service,
    shop: &str,
    order: i64,
    shipment: i64,
    number: &str,
    url: Option<&str>,
) {
    let rows = format!("orders where shop = '{shop}' and id = {order}");
    change_orders(service.db(), &rows, |order| {
        let shipment = order.shipments.get_mut(&shipment).unwrap();
        shipment.value.tracking.push(Tracking {
            number: number.to_owned(),
            url: url.map(ToOwned::to_owned),
        });
    })
    .await;
    let (key, numbers) = ((shop.to_owned(), order), BTreeSet::from([number]));
    let mut tx = service.db().begin().await.unwrap();
    let changed = [(&key, BTreeSet::new(), numbers)];
    tracking_numbers::replace(&mut tx, &changed).await.unwrap();
    tx.commit().await.unwrap();
}

/// Changes the only order.
async fn change(service: &Service, change: impl Fn(&mut Record)) {
    change_orders(service.db(), "orders", change).await;
}

async fn get(service: &Service, path: &str) -> Response {
    service.get(path).send().await.unwrap()
}

/// A page's status and text, without its own script.
async fn page(service: &Service, path: &str) -> (u16, String) {
    let answer = get(service, path).await;
    is_guarded(&answer);
    let own = format!("<script>{}</script>", ingress::page::SCRIPT);
    let (status, page) = (answer.status().as_u16(), answer.text().await.unwrap());
    (status, page.replace(&own, ""))
}

/// The page of a path that has one.
async fn shown(service: &Service, path: &str) -> String {
    let (status, page) = page(service, path).await;
    assert_eq!(status, 200, "{path}: {page}");
    page
}

/// What holds of every page, be it of an order or of an error.
fn is_guarded(answer: &Response) {
    let header = |name: &str| answer.headers()[name].to_str().unwrap();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert_eq!(header("x-robots-tag"), "noindex, nofollow");
    assert_eq!(header("cache-control"), "no-store");
    assert_eq!(header("referrer-policy"), "no-referrer");
    assert_eq!(header("x-content-type-options"), "nosniff");
    let policy = header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-")
            && policy.contains("'; script-src 'sha256-"),
        "{policy}"
    );
    assert!(
        policy.ends_with("; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
        "{policy}"
    );
}

#[tokio::test]
async fn a_page_answers_head_as_it_answers_get_without_the_page() {
    let service = service().start().await;
    deliver(&service, &order(SHOP, 7, "#1001")).await;
    let url = format!("{}/orders/7/track", service.url);
    let head = reqwest::Client::new().head(url).send().await.unwrap();
    assert_eq!(head.status(), 200);
    is_guarded(&head);
    let page = get(&service, "/orders/7/track").await;
    let page = page.bytes().await.unwrap();
    assert_eq!(head.headers()["content-length"], page.len().to_string());
    service.stop().await;
}

#[tokio::test]
async fn the_page_follows_the_order_from_received_to_shipped_or_cancelled() {
    let service = service().start().await;
    deliver(&service, &order(SHOP, 7, "#1001")).await;
    let is = async |status: &str, sentence: &str| {
        let page = shown(&service, "/orders/7/track").await;
        for text in [format!(">{status}</p>"), sentence.to_owned()] {
            assert!(page.contains(&text), "{text} in {page}");
        }
    };
    is("Received", "The shop has your order.").await;
    change(&service, |order| {
        order.financial.value = Some(FinancialStatus::Paid);
    })
    .await;
    is("Preparing", "The shop is getting your order ready.").await;
    shipment(&service, SHOP, 7, 1, Some("success"), "Carrier").await;
    parcel(&service, SHOP, 7, 1, "N1", None).await;
    is("Preparing", "Part of your order is on its way.").await;
    change(&service, |order| {
        order.fulfillment.value = Some(FulfillmentStatus::Fulfilled);
        order.own.fulfillment.updated_at = 1_800_000_120_000;
    })
    .await;
    is("Shipped", "Your order is on its way.").await;
    service
        .execute("update orders set updated_at = 1800000000000")
        .await;
    is(
        "Shipped",
        "datetime=\"2027-01-15T08:02:00.000Z\">15 January 2027, 08:02 UTC<",
    )
    .await;
    change(&service, |order| {
        order.fulfillment.value = None;
        order.financial.value = Some(FinancialStatus::Refunded);
    })
    .await;
    is("Will not be shipped", "The shop will not ship this order.").await;
    change(&service, |order| {
        order.cancelled = Some(Cancellation {
            at: 1,
            reason: None,
        });
    })
    .await;
    is("Cancelled", "This order was cancelled.").await;
    service.stop().await;
}

#[tokio::test]
async fn every_parcel_says_how_far_it_is_and_has_no_link_that_a_shop_gave() {
    let service = service().start().await;
    deliver(&service, &order(SHOP, 7, "#1001")).await;
    deliver(&service, &order("other.example", 8, "#1002")).await;
    let states = [
        Some("success"),
        None,
        Some("pending"),
        Some("cancelled"),
        Some("error"),
        Some("failure"),
    ];
    for (id, status) in (1..).zip(states) {
        shipment(&service, SHOP, 7, id, status, "Carrier").await;
        parcel(
            &service,
            SHOP,
            7,
            id,
            &format!("N{id}"),
            Some("javascript:alert(1)"),
        )
        .await;
    }
    shipment(&service, "other.example", 8, 1, Some("success"), "Carrier").await;
    parcel(&service, "other.example", 8, 1, "N9", None).await;
    let page = shown(&service, "/orders/7/track").await;
    for (number, is_shown) in [
        ("N1", 1),
        ("N2", 1),
        ("N3", 1),
        ("N4", 1),
        ("N5", 1),
        ("N6", 1),
        ("N9", 0),
    ] {
        assert_eq!(
            page.matches(&format!("<bdi>{number}</bdi>")).count(),
            is_shown,
            "{number}"
        );
    }
    assert_eq!(page.matches("<bdi>Shipped</bdi>").count(), 1);
    assert_eq!(page.matches("<bdi>Announced: ").count(), 2);
    assert_eq!(
        page.matches("<bdi>Cancelled: it is not sent</bdi>").count(),
        3
    );
    assert!(
        page.find("N4") > page.find("N3"),
        "those that are sent come first"
    );
    assert!(
        !page.contains("javascript") && !page.contains("<a "),
        "{page}"
    );
    for (number, status) in [
        ("N1", 200),
        ("N3", 200),
        ("N4", 200),
        ("N5", 200),
        ("N6", 200),
    ] {
        assert_eq!(
            page_status(&service, &format!("/tracking/{number}")).await,
            status,
            "{number}"
        );
    }
    service.stop().await;
}

pub async fn page_status(service: &Service, path: &str) -> u16 {
    page(service, path).await.0
}

#[tokio::test]
async fn a_tracking_number_leads_to_its_parcel_and_not_to_its_order() {
    let service = service().start().await;
    let number = "AB/12 3?&%C3ü#+";
    for (id, name, carrier) in [
        (70_707, "#1001", "Carrier"),
        (80_808, "#1002", "Carrier"),
        (90_909, "#1003", "Another"),
    ] {
        deliver(&service, &order(SHOP, id, name)).await;
        shipment(&service, SHOP, id, 1, Some("success"), carrier).await;
    }
    let url = Some("https://carrier.example/");
    parcel(&service, SHOP, 70_707, 1, number, url).await;
    parcel(&service, SHOP, 70_707, 1, "AB", url).await;
    // As the QR code of the parcel writes it.
    let symbol = service.parts.config.qr.package(number).unwrap();
    let path = symbol.url.strip_prefix(&service.url).unwrap();
    let page = shown(&service, path).await;
    assert!(
        page.contains("<bdi class=\"number\">AB/12 3?&#38;%C3ü#+</bdi>"),
        "{page}"
    );
    assert_eq!(page.matches("class=\"parcel\"").count(), 1);
    for secret in ["70707", "#1001", SHOP, "/orders/"] {
        assert!(!page.contains(secret), "{secret} in {page}");
    }
    // The same parcel reported by another order, and one that differs.
    parcel(&service, SHOP, 80_808, 1, number, url).await;
    assert_eq!(
        shown(&service, path)
            .await
            .matches("class=\"parcel\"")
            .count(),
        1
    );
    parcel(&service, SHOP, 90_909, 1, number, url).await;
    let several = shown(&service, path).await;
    assert_eq!(several.matches("class=\"parcel\"").count(), 2);
    assert!(several.contains("Several parcels have this number."));
    let long = format!("/tracking/{}", "x".repeat(501));
    for unknown in [
        "/tracking/A",
        "/tracking/ab",
        "/tracking/AB%00",
        "/tracking/%FF",
        &long,
    ] {
        let (status, page) = self::page(&service, unknown).await;
        assert_eq!(status, 404, "{unknown}");
        assert!(page.contains("<h1>Parcel not found</h1>"), "{page}");
    }
    service.stop().await;
}

#[tokio::test]
async fn two_shops_with_one_order_id_are_a_choice_and_never_mix() {
    let service = service().start().await;
    for (shop, name) in [("a.example", "#A1"), ("b.example", "#B1")] {
        deliver(&service, &order(shop, 7, name)).await;
        shipment(&service, shop, 7, 1, Some("success"), "Carrier").await;
        parcel(&service, shop, 7, 1, &format!("{name}-parcel"), None).await;
    }
    let choices = async |path: &str, links: [&str; 2]| {
        let (status, page) = page(&service, path).await;
        assert_eq!(status, 300, "{page}");
        for link in links {
            assert!(
                page.contains(&format!("href=\"{link}\"")),
                "{link} in {page}"
            );
        }
        for secret in ["#A1", "#B1", "parcel\"", "Received", "403"] {
            assert!(!page.contains(secret), "{secret} in {page}");
        }
    };
    let (a, b) = ("?shop=a%2Eexample", "?shop=b%2Eexample");
    choices("/orders/7/track", [a, b]).await;
    choices("/pay/7", [a, b]).await;
    let asks = "&#38;amount=5.00&#38;currency=EUR";
    choices(
        "/pay/7?amount=5.00&currency=eur",
        [&format!("{a}{asks}"), &format!("{b}{asks}")],
    )
    .await;
    let garbled = "&#38;amount=&#38;currency=";
    choices(
        "/pay/7?amount=<b>&currency=EUR",
        [&format!("{a}{garbled}"), &format!("{b}{garbled}")],
    )
    .await;
    for (mine, other) in [("A", "B"), ("B", "A")] {
        let shop = mine.to_lowercase();
        for path in ["/orders/7/track", "/pay/7"] {
            let page = shown(&service, &format!("{path}?shop={shop}%2Eexample")).await;
            assert!(page.contains(&format!("<bdi>#{mine}1</bdi>")), "{page}");
            assert!(
                page.contains(&format!("<bdi>{shop}.example</bdi>")),
                "{page}"
            );
            assert!(!page.contains(&format!("#{other}1")), "{page}");
        }
    }
    for (query, status) in [
        ("?shop=c.example", 404),
        ("?shop=", 404),
        ("?shop=%00", 404),
        ("?shop=a.example&shop=b.example", 422),
    ] {
        assert_eq!(
            page_status(&service, &format!("/orders/7/track{query}")).await,
            status,
            "{query}"
        );
    }
    service.stop().await;
}

#[tokio::test]
async fn a_page_names_the_shop_where_there_is_only_one() {
    for (shops, is_named) in [
        ("shop.example", true),
        ("other.example", false),
        ("shop.example,other.example", false),
    ] {
        let service = service().setting("STOREFRONT_SHOPS", shops).start().await;
        let from = shops.split(',').next().unwrap();
        deliver(&service, &order(from, 7, "#1001")).await;
        for path in ["/orders/7/track", "/pay/7"] {
            let page = shown(&service, path).await;
            let names = page.contains("<bdi>shop.example</bdi>");
            assert_eq!(names, is_named, "{shops} {path}: {page}");
        }
        service.stop().await;
    }
}

#[tokio::test]
async fn an_order_without_a_shop_can_be_chosen_too() {
    let service = service().start().await;
    deliver(
        &service,
        &order("", 7, "#none").without("X-Storefront-Shop-Domain"),
    )
    .await;
    deliver(&service, &order("a.example", 7, "#A1")).await;
    let (status, choice) = page(&service, "/orders/7/track").await;
    assert_eq!(status, 300);
    assert!(
        choice.contains("href=\"?shop=\"><bdi>A shop without a name</bdi>"),
        "{choice}"
    );
    assert!(
        shown(&service, "/orders/7/track?shop=")
            .await
            .contains("<bdi>#none</bdi>")
    );
    service.stop().await;
}

#[tokio::test]
async fn what_others_wrote_is_text_on_every_page() {
    let service = service().start().await;
    let hostile = "\"><script>alert(1)</script><img src=x onerror='alert(2)'>&amp;";
    deliver(&service, &order(SHOP, 7, hostile)).await;
    shipment(&service, SHOP, 7, 1, Some("success"), hostile).await;
    let url = format!("https://carrier.example/?{}", hostile.replace(' ', ""));
    parcel(&service, SHOP, 7, 1, hostile, Some(&url)).await;
    let symbol = service.parts.config.qr.package(hostile).unwrap();
    let number = symbol.url.strip_prefix(&service.url).unwrap().to_owned();
    for path in [
        "/orders/7/track?shop=shop.example&x=<script>alert(1)</script>",
        "/pay/7?amount=<script>alert(1)</script>&currency=<img>",
        "/orders/7/track?shop=<script>alert(1)</script>",
        "/orders/<script>alert(1)<%2Fscript>/track",
        "/tracking/<script>alert(1)<%2Fscript>",
        &number,
    ] {
        let (_, page) = page(&service, path).await;
        assert!(
            !page.contains("<script") && !page.contains("<img"),
            "{path}: {page}"
        );
    }
    let page = shown(&service, "/orders/7/track").await;
    let escaped = "&#34;&#62;&#60;script&#62;alert(1)&#60;/script&#62;&#60;img src=x onerror=&#39;alert(2)&#39;&#62;&#38;amp;";
    assert_eq!(
        page.matches(escaped).count(),
        4,
        "title, heading, carrier and number: {page}"
    );
    service.stop().await;
}

#[tokio::test]
async fn errors_are_pages_with_the_status_and_code_of_the_api() {
    let service = service().start().await;
    for (path, status, code, heading) in [
        (
            "/orders/7/track",
            404,
            Some("COMMERCE_006"),
            "Order not found",
        ),
        ("/pay/7", 404, Some("COMMERCE_006"), "Order not found"),
        ("/tracking/7", 404, None, "Parcel not found"),
        (
            "/orders/A-17/track",
            404,
            Some("COMMERCE_006"),
            "Order not found",
        ),
        (
            "/orders/0/track",
            404,
            Some("COMMERCE_006"),
            "Order not found",
        ),
        ("/pay/-7", 404, Some("COMMERCE_006"), "Order not found"),
        (
            "/pay/9223372036854775808",
            404,
            Some("COMMERCE_006"),
            "Order not found",
        ),
        (
            "/orders/%FF/track",
            404,
            Some("COMMERCE_006"),
            "Order not found",
        ),
        (
            "/orders/7/track?shop=a&shop=b",
            422,
            None,
            "This link is not complete",
        ),
    ] {
        let answer = get(&service, path).await;
        is_guarded(&answer);
        assert_eq!(answer.status(), status, "{path}");
        let given = answer.headers().get("x-error-code");
        assert_eq!(given.map(|given| given.to_str().unwrap()), code, "{path}");
        let page = answer.text().await.unwrap();
        assert!(
            page.contains(&format!("<h1>{heading}</h1>")),
            "{path}: {page}"
        );
    }
    service.stop().await;
}

pub async fn is_unavailable(service: &Service, path: &str) {
    let answered = tokio::time::timeout(Duration::from_millis(1500), get(service, path));
    let answer = answered.await.expect("an answer within 1.5 s");
    is_guarded(&answer);
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.headers()["retry-after"], "2");
    assert!(!answer.headers().contains_key("x-error-code"));
    let page = answer.text().await.unwrap();
    assert!(
        page.contains("<h1>Please try again in a moment</h1>"),
        "{page}"
    );
}

#[tokio::test]
async fn without_the_database_the_pages_ask_to_come_back() {
    let mut service = service().without_workers().start().await;
    service.db().close().await;
    for path in ["/orders/7/track", "/tracking/7", "/pay/7"] {
        is_unavailable(&service, path).await;
    }
    service.halt().await;
}

#[tokio::test]
async fn pages_can_be_switched_off() {
    let service = service().setting("PUBLIC_PAGES", "false").start().await;
    deliver(&service, &order(SHOP, 7, "#1001")).await;
    for path in ["/orders/7/track", "/tracking/7", "/pay/7"] {
        let answer = get(&service, path).await;
        assert_eq!(answer.status(), 404, "{path}");
        assert_eq!(answer.text().await.unwrap(), r#"{"detail":"Not found"}"#);
    }
    service.stop().await;
}

#[tokio::test]
async fn the_first_page_says_what_runs_here_and_nothing_about_where_it_runs() {
    let mut pages = Vec::new();
    for (public_pages, shops) in [("true", "canary.example"), ("false", "another.example")] {
        let service = service()
            .setting("PUBLIC_PAGES", public_pages)
            .setting("STOREFRONT_SHOPS", shops)
            .start()
            .await;
        deliver(&service, &order(shops, 7, "#1001")).await;
        let page = shown(&service, "/").await;
        for said in [
            "Waybill",
            env!("CARGO_PKG_VERSION"),
            "Webhooks",
            "Login",
            "Events",
        ] {
            assert!(page.contains(said), "{said}: {page}");
        }
        assert!(
            !page.contains("<script") && !page.contains("<form"),
            "{page}"
        );
        // Each of its links leads to something that is there.
        let links: Vec<&str> = page
            .split("href=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        let parts = links.iter().filter(|link| link.starts_with("/docs#"));
        assert!(parts.count() > 5, "{links:?}");
        for link in ["/docs", "/openapi.json", "/readyz"] {
            assert!(links.contains(&link), "{links:?}");
        }
        let described = get(&service, "/docs").await.text().await.unwrap();
        for link in links {
            if let Some((_, anchor)) = link.split_once('#') {
                assert!(described.contains(&format!("id=\"{anchor}\"")), "{link}");
            }
            assert_eq!(get(&service, link).await.status(), 200, "{link}");
        }
        pages.push(page);
        service.stop().await;
    }
    // Two deployments, one text.
    assert_eq!(pages[0], pages[1]);
}

#[tokio::test]
async fn robots_are_asked_to_stay_away_with_pages_and_without() {
    for setting in ["true", "false"] {
        let service = service().setting("PUBLIC_PAGES", setting).start().await;
        let answer = get(&service, "/robots.txt").await;
        assert_eq!(
            answer.headers()["content-type"],
            "text/plain; charset=utf-8"
        );
        assert_eq!(answer.text().await.unwrap(), "User-agent: *\nDisallow: /\n");
        service.stop().await;
    }
}

/// What the carrier says reaches the buyer, by the delivery itself, and so does that all came back.
#[tokio::test]
async fn a_parcel_is_delivered_or_comes_back_by_what_the_storefront_says() {
    let service = service().start().await;
    let of = |second: u32, status: Value, refunds: Value| {
        let mut order = body(7, second, "paid");
        order["name"] = json!("#1001");
        order["fulfillment_status"] = json!("fulfilled");
        order["line_items"] = json!([{"id": 1, "quantity": 2, "price": "10.00"}]);
        order["fulfillments"] = json!([{
            "id": 70, "status": "success", "shipment_status": status, "tracking_company": "Post",
            "tracking_number": "N1", "line_items": [{"id": 1, "quantity": 2}],
        }]);
        order["refunds"] = refunds;
        order_delivery("orders/updated", &order)
    };
    let refund = json!([{
        "id": 1, "created_at": "2027-01-15T09:00:00Z", "transactions": [],
        "refund_line_items": [{"id": 1, "line_item_id": 1, "quantity": 2, "restock_type": "return"}],
    }]);
    for (second, status, refunds, said) in [
        (1, json!(null), json!([]), "Shipped"),
        (2, json!("out_for_delivery"), json!([]), "Out for delivery"),
        (
            3,
            json!("ready_for_pickup"),
            json!([]),
            "Ready to be picked up",
        ),
        (
            4,
            json!("failure"),
            json!([]),
            "The carrier could not deliver it",
        ),
        (5, json!("a_new_word"), json!([]), "Shipped"),
        (6, json!("delivered"), json!([]), "Delivered"),
        (7, json!("delivered"), refund, "Returned to the shop"),
    ] {
        deliver(&service, &of(second, status.clone(), refunds)).await;
        for path in ["/orders/7/track", "/tracking/N1"] {
            let page = shown(&service, path).await;
            assert!(
                page.contains(&format!("<bdi>{said}</bdi>")),
                "{said}: {page}"
            );
        }
        let key = service.api_key().await;
        let order = service.get("/api/commerce/orders/7").bearer_auth(&key);
        let order: Value = order.send().await.unwrap().json().await.unwrap();
        assert_eq!(order["shipments"][0]["delivery_status"], status);
    }
    service.stop().await;
}

/// Where the settings name the only shop there is, its pages have its name, its language and its logo.
#[tokio::test]
async fn the_shop_of_the_settings_is_shown_as_they_say() {
    let service = service()
        .setting("SHOP_NAME", "Tee & Co")
        .setting("SHOP_CONTACT", "hilfe@tee.example")
        .setting("SHOP_LANGUAGE", "de")
        .setting("SHOP_LOGO", "https://tee.example/logo.svg")
        .start()
        .await;
    deliver(&service, &order(SHOP, 7, "#1001")).await;
    for path in ["/orders/7/track", "/pay/7"] {
        let page = shown(&service, path).await;
        assert!(page.contains("<bdi>Tee &#38; Co</bdi>"), "{page}");
        assert!(page.contains("href=\"mailto:hilfe@tee.example\""), "{page}");
        assert!(page.contains("<img class=\"logo\" src=\"https://tee.example/logo.svg\""));
        assert!(
            page.contains("<html lang=\"de\">") && !page.contains(SHOP),
            "{page}"
        );
    }
    service.stop().await;
}
