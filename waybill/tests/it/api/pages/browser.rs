//! The pages in a real browser.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::order::FulfillmentStatus;
use serde_json::json;

use super::{change, deliver, order, parcel, shipment};
use crate::both::orders::deliveries::zbar;
use crate::support::browser::Browser;
use crate::support::delivery::SHOP;
use crate::support::order::{body, order_delivery};
use crate::support::service;

/// The blocking calls to the browser need a thread beside the service's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_a_browser_shows_the_page_behind_each_qr_code_on_any_screen() {
    let service = service().start().await;
    let key = service.api_key().await;
    let long = "W".repeat(300);
    deliver(&service, &order(SHOP, 7, "#1001")).await;
    deliver(&service, &order(SHOP, 8, &long)).await;
    for shop in ["a.example", &format!("{}.example", "b".repeat(60))] {
        deliver(&service, &order(shop, 9, "#9")).await;
    }
    change(&service, |order| {
        order.fulfillment.value = Some(FulfillmentStatus::Fulfilled);
    })
    .await;
    for id in [7, 8] {
        shipment(&service, SHOP, id, 1, Some("success"), "DHL").await;
    }
    parcel(
        &service,
        SHOP,
        7,
        1,
        "JD01-4 677",
        Some("https://carrier.example/JD01"),
    )
    .await;
    let host = format!("https://{}.example/", "h".repeat(60));
    parcel(&service, SHOP, 8, 1, &long, Some(&host)).await;

    let qr = service
        .get("/api/commerce/orders/7/qr.png")
        .bearer_auth(&key);
    let png = qr.send().await.unwrap().bytes().await.unwrap();
    let tracked = String::from_utf8(zbar(&png)).unwrap();
    let qr = &service.parts.config.qr;
    let parcel = qr.package("JD01-4 677").unwrap().url.clone();
    let payment = qr.payment("7", 50_000, "USD").unwrap().url.clone();
    let at = |path: &str| format!("{}{path}", service.url);
    let pages = [
        (at("/"), "Waybill", "waybill connect PROVIDER"),
        (tracked, "Order #1001", "Your order is on its way."),
        (parcel, "Parcel JD01-4 677", "Track at www.dhl.com"),
        (
            payment,
            "Payment, Order #1001",
            "Pay no more than 403.00 USD.",
        ),
        (at("/orders/8/track"), "Order WWW", "Shipped"),
        (at(&format!("/tracking/{long}")), "Parcel WWW", "Shipped"),
        (
            at("/pay/9?amount=1.00&currency=USD"),
            "Which shop is it from?",
            "bbb.example",
        ),
        (
            at("/orders/404/track"),
            "Order not found",
            "ask the shop for the right link",
        ),
    ];
    let mut browser = Browser::start();
    for (url, title, text) in &pages {
        for (width, scheme) in [(320, "light"), (360, "dark"), (1280, "light")] {
            let seen = browser.visit(url, width, scheme);
            assert!(seen.title.starts_with(title), "{seen:?}");
            assert!(seen.text.contains(text), "{seen:?}");
            assert!(seen.page <= seen.window, "it scrolls sideways: {seen:?}");
            assert_eq!(seen.complaints, Vec::<String>::new(), "{url}");
            assert_eq!(seen.requests, [url.as_str()], "a page loads nothing");
            let ground = match scheme {
                "dark" => "rgb(16, 20, 18)",
                _ => "rgb(242, 243, 239)",
            };
            assert_eq!(seen.ground, ground, "the style is applied");
        }
    }
    assert_eq!(browser.text("document.documentElement.lang"), "en");
    service.stop().await;
}

/// A page has its own code, which leads to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_the_code_on_a_page_leads_to_the_page() {
    let service = service().start().await;
    let mut order = body(7, 0, "paid");
    order["fulfillments"] = json!([{"id": 70, "status": "success", "tracking_number": "N1"}]);
    deliver(&service, &order_delivery("orders/updated", &order)).await;
    let mut browser = Browser::start();
    for path in ["/orders/7/track", "/tracking/N1"] {
        for (width, scheme) in [(360, "dark"), (1280, "light")] {
            let url = format!("{}{path}", service.url);
            let seen = browser.visit(&url, width, scheme);
            assert!(
                seen.text.contains("Scan to open this page on a phone"),
                "{seen:?}"
            );
            let whole = json!({"format": "png", "captureBeyondViewport": true});
            let picture = browser.call("Page.captureScreenshot", &whole);
            let picture = STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
            assert_eq!(String::from_utf8(zbar(&picture)).unwrap(), url);
        }
    }
    service.stop().await;
}

/// A browser in another place shows the times of that place, in the language of the reader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_a_browser_shows_times_of_its_place() {
    let service = service().start().await;
    deliver(&service, &order(SHOP, 7, "#1001")).await;
    service
        .execute("update orders set updated_at = 1800000000000")
        .await;
    change(&service, |order| {
        order.own.fulfillment.updated_at = 1_800_000_000_000;
    })
    .await;
    let mut browser = Browser::start();
    let zone = json!({"timezoneId": "Asia/Tokyo"});
    browser.call("Emulation.setTimezoneOverride", &zone);
    let agent = browser.text("navigator.userAgent");
    let german = json!({"userAgent": agent, "acceptLanguage": "de-AT"});
    browser.call("Emulation.setUserAgentOverride", &german);
    let seen = browser.visit(&format!("{}/orders/7/track", service.url), 360, "light");
    assert!(seen.text.contains("Bestellung #1001"), "{seen:?}");
    let footer = browser.text("document.querySelector('time').textContent");
    assert_eq!(footer, "15. J\u{e4}nner 2027 um 17:00");
    assert_eq!(seen.complaints, Vec::<String>::new());
    service.stop().await;
}

/// The policy is the second lock: markup of others that got into a page would do nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_a_browser_refuses_scripts_and_styles_that_are_not_the_pages_own() {
    let service = service().start().await;
    let mut browser = Browser::start();
    browser.visit(&format!("{}/orders/404/track", service.url), 360, "light");
    let outcome = browser.text(
        "(() => {
            const script = document.createElement('script');
            script.textContent = 'document.title = \"taken over\"';
            document.body.append(script);
            const style = document.createElement('style');
            style.textContent = 'body { background: rgb(1, 2, 3) !important }';
            document.head.append(style);
            return document.title + ', ' + getComputedStyle(document.body).backgroundColor;
        })()",
    );
    assert_eq!(outcome, "Order not found, rgb(242, 243, 239)");
    service.stop().await;
}
