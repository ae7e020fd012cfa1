//! A real browser opens pages whose texts were all written by an attacker. It shows the texts, and
//! nothing in them becomes an element, a script or a link.

use std::collections::BTreeSet;

use domain::money::Currency;
use domain::order::Tracking;
use domain::order::record::{Shipment, Totals};
use sandbox::{Email, IDENTITY_CLIENT_ID, Intent, PAYMENT_KEY, Sandbox, User};
use serde_json::Value;
use store::tracking_numbers;

use crate::support::browser::Browser;
use crate::support::records::{change_orders, insert_order, part, unknown_order};
use crate::support::{Service, service};

/// Leaves an attribute and an element, and makes elements, handlers and links of its own.
const HOSTILE: &str = "'\"></title></p><script>document.title='run'</script>\
                       <img src=x onerror=\"document.title='run'\">\
                       <a href=\"javascript:document.title='run'\">&lt;go</a>";

/// A link to a script, all of it.
const SCRIPT_LINK: &str = "javascript:document.title='run'";

/// What is wrong with the page that the browser shows: everything that our templates do not have.
const FOREIGN: &str = "JSON.stringify([...document.querySelectorAll('*')].filter(element =>
    !element.matches('figure.code > span > svg, main > footer + script') && (
    ['SCRIPT', 'IMG', 'IFRAME', 'OBJECT', 'EMBED', 'BASE', 'SVG'].includes(element.tagName.toUpperCase())
    || [...element.attributes].some(attribute => attribute.name.startsWith('on'))
    || (element.href && !['http:', 'https:'].includes(new URL(element.href, location).protocol)))
    ).map(element => element.outerHTML))";

/// The page shows each of the texts, in its text, its title or a field, and nothing was made of them.
fn is_only_shown(browser: &mut Browser, page: &str, texts: &[&str]) {
    assert_eq!(browser.text(FOREIGN), "[]", "{page}");
    let title = browser.text("document.title");
    assert_ne!(title, "run", "{page}");
    let fields = "[...document.querySelectorAll('input')].map(it => it.value).join('\\n')";
    let shown = browser.text("document.body.innerText");
    let shown = format!("{title}\n{shown}\n{}", browser.text(fields));
    for text in texts {
        assert!(shown.contains(text), "{text} on {page}: {shown}");
    }
}

/// Visits a page at both widths; it loads itself and its style alone, and breaks no policy.
fn visit(browser: &mut Browser, url: &str, texts: &[&str]) {
    for width in [1280, 400] {
        let seen = browser.visit(url, width, "light");
        assert_eq!(seen.complaints, Vec::<String>::new(), "{url}");
        let mut requests = seen.requests.iter();
        assert!(
            requests.all(|it| it == url || it.ends_with("/page.css")),
            "{url}: {:?}",
            seen.requests
        );
        is_only_shown(browser, url, texts);
    }
}

/// No delivery gets a shop's name like these into the table.
async fn order(service: &Service, shop: &str, id: i64, name: &str) {
    let mut order = unknown_order();
    order.name = part(Some(name.to_owned()));
    order.totals = part(Totals {
        currency: Currency::parse("USD"),
        total: Some(40_300),
        ..Totals::default()
    });
    insert_order(
        service.db(),
        &(shop.to_owned(), id),
        order,
        1_800_000_000_000,
    )
    .await;
}

async fn parcel(service: &Service, shop: &str, order: i64, carrier: &str, number: &str) {
    let shipment = Shipment {
        status: Some("success".to_owned()),
        carrier: Some(carrier.to_owned()),
        tracking: vec![Tracking {
            number: number.to_owned(),
            url: Some(SCRIPT_LINK.to_owned()),
        }],
        ..Shipment::default()
    };
    let rows = format!("orders where id = {order}");
    change_orders(service.db(), &rows, |order| {
        order.shipments.insert(1, part(shipment.clone()));
    })
    .await;
    let (key, numbers) = ((shop.to_owned(), order), BTreeSet::from([number]));
    let mut tx = service.db().begin().await.unwrap();
    let changed = [(&key, BTreeSet::new(), numbers)];
    tracking_numbers::replace(&mut tx, &changed).await.unwrap();
    tx.commit().await.unwrap();
}

fn encoded(text: &str) -> String {
    let bytes = text.bytes().map(|byte| format!("%{byte:02X}"));
    bytes.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn public_pages_show_hostile_texts_and_run_nothing_of_them() {
    let service = service().start().await;
    order(&service, HOSTILE, 7, HOSTILE).await;
    parcel(&service, HOSTILE, 7, HOSTILE, HOSTILE).await;
    order(&service, SCRIPT_LINK, 8, SCRIPT_LINK).await;
    parcel(&service, SCRIPT_LINK, 8, "UPS", SCRIPT_LINK).await;
    order(&service, HOSTILE, 9, "#9").await;
    order(&service, SCRIPT_LINK, 9, "#9").await;
    let at = |path: &str| format!("{}{path}", service.url);
    let number = service.parts.config.qr.package(HOSTILE).unwrap();
    let shop = encoded(HOSTILE);
    let mut browser = Browser::start();
    for (url, texts) in [
        (
            at(&format!("/orders/7/track?shop={shop}")),
            [HOSTILE].as_slice(),
        ),
        (at("/orders/8/track"), &[SCRIPT_LINK]),
        (number.url.clone(), &[HOSTILE]),
        (
            at(&format!("/pay/7?shop={shop}&amount={shop}&currency={shop}")),
            &[HOSTILE],
        ),
        (
            at(&format!("/pay/9?amount={shop}&currency={shop}")),
            &[HOSTILE, SCRIPT_LINK],
        ),
        (at(&format!("/orders/{shop}/track")), &["Order not found"]),
        (
            at(&format!("/orders/7/track?shop=a&shop={shop}")),
            &["not complete"],
        ),
        (at(&format!("/docs?{shop}")), &["Waybill API"]),
    ] {
        visit(&mut browser, &url, texts);
    }
    service.stop().await;
}

/// Opens a checkout at the sandbox, as a merchant does; the address of its page.
async fn checkout(sandbox: &Sandbox) -> String {
    let form = format!(
        "mode=payment&success_url=https%3A%2F%2Fshop.example%2F%3F{0}&cancel_url=https%3A%2F%2Fshop.example%2F%3F{0}\
         &line_items[0][quantity]=1&line_items[0][price_data][currency]=usd\
         &line_items[0][price_data][unit_amount]=1450\
         &line_items[0][price_data][product_data][name]={0}\
         &payment_intent_data[metadata][pact_id]={0}",
        encoded(HOSTILE)
    );
    let answer = reqwest::Client::new()
        .post(format!("{}/v1/checkout/sessions", sandbox.payment_url()))
        .bearer_auth(PAYMENT_KEY)
        .header("Content-Type", "application/x-www-form-urlencoded")
        .header("Idempotency-Key", "k")
        .body(form)
        .send()
        .await
        .unwrap();
    let session: Value = answer.json().await.unwrap();
    session["url"].as_str().expect("a session").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sandboxs_payment_pages_show_hostile_texts_and_run_nothing_of_them() {
    let sandbox = Sandbox::start(sandbox::Options::default()).await.unwrap();
    let page = checkout(&sandbox).await;
    let mut browser = Browser::start();
    visit(&mut browser, &page, &[HOSTILE]);
    browser.press("Decline");
    is_only_shown(
        &mut browser,
        "the declined checkout",
        &[HOSTILE, "was declined"],
    );
    sandbox.payment().add_intent(Intent {
        id: HOSTILE.to_owned(),
        amount: 1999,
        currency: Currency::parse("USD").unwrap(),
        pact_id: Some(SCRIPT_LINK.to_owned()),
    });
    let dashboard = format!("{}/dashboard", sandbox.payment_url());
    visit(&mut browser, &dashboard, &[HOSTILE, SCRIPT_LINK]);
    browser.fill("amount", HOSTILE);
    browser.press("Refund");
    let refused = format!("“{HOSTILE}” is no amount");
    is_only_shown(&mut browser, "the refused refund", &[&refused]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sandboxs_login_pages_show_hostile_texts_and_run_nothing_of_them() {
    let sandbox = Sandbox::start(sandbox::Options::default()).await.unwrap();
    let emails = vec![Email::primary(HOSTILE, false)];
    sandbox
        .identity()
        .add_user(User::new(SCRIPT_LINK, None, emails));
    let login = format!("{}/login/device", sandbox.identity_url());
    let mut browser = Browser::start();
    visit(
        &mut browser,
        &format!("{login}?user_code={}", encoded(HOSTILE)),
        &[HOSTILE],
    );
    browser.press("Continue");
    is_only_shown(
        &mut browser,
        "the refused code",
        &[HOSTILE, "There is no such code"],
    );
    // A scope has no space in it.
    let scope = HOSTILE.replace(' ', "/");
    let client = reqwest::Client::new();
    let asked = client
        .post(format!("{login}/code"))
        .header("Accept", "application/json");
    let asked = asked.form(&[("client_id", IDENTITY_CLIENT_ID), ("scope", &scope)]);
    let code: Value = asked.send().await.unwrap().json().await.unwrap();
    browser.visit(&login, 400, "light");
    browser.fill("user_code", code["user_code"].as_str().expect("a code"));
    browser.press("Continue");
    let user = format!("{SCRIPT_LINK}, {HOSTILE} (not verified)");
    let texts = [&*scope, "Let this device in?"];
    is_only_shown(&mut browser, "the confirmation", &texts);
    let options = "[...document.querySelectorAll('option')].map(it => it.text).join('\\n')";
    assert!(browser.text(options).contains(&user));
}
