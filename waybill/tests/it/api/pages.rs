//! The public pages: what they show, what they must not show, and that a browser reports no error
//! about them.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::order::record::{Cancellation, Record, Shipment};
use domain::order::{FinancialStatus, FulfillmentStatus, Tracking};
use reqwest::Response;
use serde_json::{Value, json};
use store::tracking_numbers;

use crate::both::orders::deliveries::zbar;
use crate::support::browser::Browser;
use crate::support::delivery::{Delivery, SHOP, storefront};
use crate::support::operator::said;
use crate::support::order::{body, order_delivery, with};
use crate::support::payment::{event, intent};
use crate::support::records::{change_orders, part};
use crate::support::{self, Service, service};

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

type Changed = Box<dyn Fn(&mut Record)>;

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
async fn the_amount_to_pay_is_the_orders_and_never_the_links() {
    let service = service().start().await;
    deliver(&service, &order(SHOP, 7, "#1001")).await;
    let due = "<dd class=\"amount\">403.00 USD</dd>";
    let notice = "class=\"notice\"";
    for path in [
        "/pay/7",
        "/pay/7?amount=403.00&currency=USD",
        "/pay/7?amount=403&currency=usd",
    ] {
        let page = shown(&service, path).await;
        assert!(
            page.contains(due) && !page.contains(notice),
            "{path}: {page}"
        );
        assert!(page.contains("Pay through the shop’s own checkout"));
    }
    for (query, asks) in [
        ("amount=500.00&currency=USD", "asks for 500.00 USD;"),
        ("amount=403.00&currency=EUR", "asks for 403.00 EUR;"),
        ("amount=0.01&currency=USD", "asks for 0.01 USD;"),
        ("amount=500&currency=JPY", "asks for 500 JPY;"),
        (
            "amount=%3Cscript%3E&currency=USD",
            "asks for an amount that cannot be read;",
        ),
        (
            "amount=403.00&currency=%22%3E%3Cb%3E",
            "asks for an amount that cannot be read;",
        ),
        ("amount=403.00", "asks for an amount that cannot be read;"),
        ("currency=USD", "asks for an amount that cannot be read;"),
        (
            "amount=-403.00&currency=USD",
            "asks for an amount that cannot be read;",
        ),
        (
            "amount=403.001&currency=USD",
            "asks for an amount that cannot be read;",
        ),
        (
            "amount=403.00&amount=1.00&currency=USD",
            "asks for an amount that cannot be read;",
        ),
        (
            "amount=9999999999999999999999&currency=USD",
            "asks for an amount that cannot be read;",
        ),
        (
            "amount=%FF%00&currency=USD",
            "asks for an amount that cannot be read;",
        ),
    ] {
        let page = shown(&service, &format!("/pay/7?{query}")).await;
        let warning = format!(
            "The link you followed {asks} the amount due for this order is 403.00 USD. Pay no \
             more than 403.00 USD."
        );
        assert!(
            page.contains(&warning) && page.contains(notice),
            "{query}: {page}"
        );
        assert!(page.contains(due), "{query}: {page}");
        for echo in ["<script", "&#60;", "<b>", "-403", "403.001", "99999"] {
            assert!(!page.contains(echo), "{echo} of {query} in {page}");
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn a_payment_page_of_a_settled_order_says_why_nothing_is_due() {
    let service = service().start().await;
    deliver(&service, &order(SHOP, 7, "#1001")).await;
    let nothing = "<h2>Nothing to pay</h2>";
    let ask = "<h2>Ask the shop before you pay</h2>";
    let says = |status: &'static str| {
        Box::new(move |order: &mut Record| {
            order.financial.value = Some(status.to_owned().into());
        })
    };
    let changes: [(Changed, &str, &str); 12] = [
        (
            Box::new(|order| order.outstanding.value = Some(300)),
            "<dd class=\"amount\">3.00 USD</dd>",
            "Not paid yet",
        ),
        (
            says("partially_paid"),
            "<dd class=\"amount\">3.00 USD</dd>",
            "Partly paid",
        ),
        (
            Box::new(|order| order.outstanding.value = None),
            ask,
            "not known here",
        ),
        (
            says("expired"),
            "<dd class=\"amount\">403.00 USD</dd>",
            "Not paid in time",
        ),
        (
            says("invented"),
            "<dd class=\"amount\">403.00 USD</dd>",
            "Not known",
        ),
        (
            Box::new(|order| order.settled.canceled_at = Some(1)),
            ask,
            "Will not be shipped",
        ),
        (says("authorized"), nothing, "the shop will collect it"),
        (says("paid"), nothing, "has been paid"),
        (
            says("partially_refunded"),
            nothing,
            "part of the money was given back",
        ),
        (
            says("refunded"),
            nothing,
            "The money for this order was given back",
        ),
        (says("voided"), nothing, "called off"),
        (
            Box::new(|order| {
                order.cancelled = Some(Cancellation {
                    at: 1,
                    reason: None,
                });
            }),
            nothing,
            "This order was cancelled",
        ),
    ];
    for (changed, heading, reported) in changes {
        change(&service, changed).await;
        let page = shown(&service, "/pay/7").await;
        assert!(
            page.contains(heading) && page.contains(reported),
            "{reported}: {page}"
        );
    }
    let page = shown(&service, "/pay/7?amount=403.00&currency=USD").await;
    let warning = "asks for 403.00 USD; nothing is due for this order. Do not pay it.";
    assert!(page.contains(warning), "{page}");
    service.stop().await;
}

/// An order of 100 dollars of which the storefront says how much is paid and how much is left.
async fn partly_paid(service: &Service, second: u32, status: &str, outstanding: &str) {
    let fields = json!({
        "total_price": "100.00", "total_outstanding": outstanding,
        "note_attributes": [{"name": "pact_id", "value": "p1"}],
    });
    let body = with(body(41, second, status), &fields);
    support::order::deliver(service, &order_delivery("orders/updated", &body)).await;
}

async fn pays(service: &Service, id: &str, cents: i64, currency: &str) {
    let mut paid = intent(id, "succeeded", cents, Some("p1"));
    paid["currency"] = json!(currency);
    let paid = event(service, "payment_intent.succeeded", 1, &paid);
    support::order::deliver(service, &paid).await;
}

#[tokio::test]
async fn the_page_asks_for_no_more_than_what_no_payment_has_brought() {
    let service = service().start().await;
    let due = |amount: &str| format!("<dd class=\"amount\">{amount} USD</dd>");
    let is_due = async |amount: &str, when: &str| {
        let page = shown(&service, "/pay/41").await;
        assert!(page.contains(&due(amount)), "{when}: {page}");
    };
    partly_paid(&service, 1, "pending", "100.00").await;
    is_due("100.00", "nothing is paid").await;
    pays(&service, "pi_1", 4000, "usd").await;
    is_due("60.00", "the storefront does not know of the payment").await;
    partly_paid(&service, 2, "partially_paid", "60.00").await;
    is_due("60.00", "it knows of it").await;
    pays(&service, "pi_2", 3000, "usd").await;
    is_due("30.00", "it knows of the first alone").await;
    partly_paid(&service, 3, "partially_paid", "20.00").await;
    is_due("20.00", "it knows of another that is not ours").await;
    let link = "/pay/41?amount=60.00&currency=USD";
    let page = shown(&service, link).await;
    assert!(page.contains("Pay no more than 20.00 USD."), "{page}");
    pays(&service, "pi_3", 100, "eur").await;
    let page = shown(&service, "/pay/41").await;
    let ask = "<h2>Ask the shop before you pay</h2>";
    assert!(page.contains(ask), "one is in another currency: {page}");
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
