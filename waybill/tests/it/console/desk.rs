//! How the console is to work with, in a real browser: what fits at every width, and what a press, a key or a drag does.

use serde_json::{Value, json};

use super::world;
use crate::support::browser::Browser;
use crate::support::console::{Console, LISTS};
use crate::support::order::{body, captured, order_delivery, post_all, with};
use crate::support::payment::{event, invoice};
use crate::support::{Service, eventually, service};

/// What is wide: a table that is wider than its card, a cell that is cut or in two lines. A sentence is cut, and its title
/// has all of it.
const WIDE: &str = "JSON.stringify([
    ...[...document.querySelectorAll('.table')].filter(it => it.scrollWidth > it.clientWidth)
        .map(it => `a table of ${it.scrollWidth} in ${it.clientWidth}`),
    ...[...document.querySelectorAll('td')].filter(it => it.offsetWidth
        && it.scrollWidth > it.clientWidth + 1
        && !(it.matches('.sentence') && it.querySelector('[title]')))
        .map(it => 'cut: ' + it.innerText),
    ...[...document.querySelectorAll('tbody tr')].filter(it => innerWidth > 1000 && it.offsetHeight > 44)
        .map(it => `a row of ${it.offsetHeight}: ${it.innerText}`)])";

/// Many deliveries of both providers, with ids, shops and errors as long as they come.
async fn many_come(service: &Service) {
    let mut all = Vec::new();
    for number in 0..150_i64 {
        let shop = if number % 3 == 0 {
            "an-unusually-long-name-of-a-shop.myshopify.example".to_owned()
        } else {
            format!("shop-{}.example", number % 7)
        };
        let more =
            json!({"name": format!("#{number}/2027 Gift-wrapped"), "total_price": "1234567.89"});
        let order = with(
            body(9_007_199_254_740_000 + number, 0, "partially_refunded"),
            &more,
        );
        let topic = match number % 3 {
            0 => "orders/create",
            1 => "orders/updated",
            _ => "orders/partially_fulfilled",
        };
        let id = format!("{number:03}f3b1c-5d1e-4a7c-8d39-6c1a3f0a2b4e");
        all.push(order_delivery(topic, &order).of_shop(&shop).id(&id));
    }
    let now = service.clock().now();
    for number in 0..50 {
        all.push(captured(
            now,
            100 + number,
            "pact-01929e5c-8b7d-7f50-9c1d-9f6f54ba2a11",
        ));
    }
    let paid = invoice(
        "in_1QAbCdEfGhIjKlMnOpQrStUv",
        "sub_1QAbCdEfGhIjKlMnOpQrStUv",
        500,
        30,
    );
    all.push(event(service, "invoice.payment_succeeded", 400, &paid));
    post_all(service, &all).await;
    eventually("all deliveries are worked on", async || {
        let open = "select count(*) as n from jobs join deliveries on deliveries.id = jobs.id
                    where source <> 'internal' and state = 'ready' and attempts = 0";
        service.count(open).await == 0
    })
    .await;
}

async fn set() -> (Service, Browser, Console) {
    let mut service = service().start().await;
    world::make(&service).await;
    let mut browser = Browser::start();
    let console = world::open(&mut service, &mut browser, "ann").await;
    (service, browser, console)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_every_list_fits_its_card_in_rows_of_one_line_at_every_width() {
    let (service, mut browser, console) = set().await;
    many_come(&service).await;
    let pages = world::pages(&service).await;
    for width in [1024, 1280, 1440, 1920, 390] {
        for path in LISTS
            .iter()
            .copied()
            .chain(pages.iter().map(String::as_str))
        {
            let seen = browser.visit(&format!("{}{path}", console.url), width, "light");
            assert_eq!(browser.text(WIDE), "[]", "{path} at {width}");
            assert!(
                seen.page <= seen.window,
                "{path} is {} wide at {width}",
                seen.page
            );
        }
    }
    // On a phone the first screen shows content, and the menu is folded away.
    for path in ["/", "/deliveries", "/live", "/dead", "/orders"] {
        browser.visit(&format!("{}{path}", console.url), 390, "light");
        let first = "document.querySelector('tbody tr, .items li').getBoundingClientRect().top | 0";
        assert!(browser.number(first) < 500, "{path}");
        assert_eq!(
            browser.evaluate("document.getElementById('menu').offsetHeight"),
            0
        );
    }
    browser.evaluate("document.querySelector('a[href=\"#menu\"]').click()");
    browser.wait("document.getElementById('menu').offsetHeight > 0");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_a_row_opens_beside_its_list_and_keys_search_and_close() {
    let (service, mut browser, console) = set().await;
    let seen = browser.visit(&format!("{}/dead", console.url), 1440, "light");
    assert!(
        seen.text.contains("Dead jobs\n3"),
        "the menu counts: {}",
        seen.text
    );
    let dead = world::job(&service, "s-1").await.to_string();
    browser.press(&dead);
    let shown = browser.text("document.getElementById('panel').innerText");
    for wanted in [
        "orders/create",
        "503",
        "Requeue",
        "Headers",
        "line_items",
        &dead,
    ] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    assert!(browser.text("location.pathname").ends_with("/dead"));
    let key = |browser: &mut Browser, key: &str| {
        let named =
            json!({"type": "keyDown", "key": key, "text": if key == "/" { key } else { "" }});
        browser.call("Input.dispatchKeyEvent", &named);
    };
    let title = "document.querySelector('#panel code')?.innerText + document.querySelector('tr.shown a.open').dataset.copy";
    let before = browser.text(title);
    key(&mut browser, "ArrowUp");
    browser.wait(&format!("{title} !== {}", json!(before)));
    // Each row's form has its labels.
    browser.wait("document.querySelector('#panel label[for=i-field]').control?.name === 'path'");
    key(&mut browser, "Escape");
    browser.wait("document.getElementById('panel').hidden");
    key(&mut browser, "/");
    assert_eq!(browser.text("document.activeElement.id"), "q");
    // Where there is no room beside the list, the row leads to its page.
    browser.visit(&format!("{}/dead", console.url), 1024, "light");
    browser.press(&dead);
    assert!(browser.text("location.pathname").ends_with(&dead));
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_dead_jobs_that_are_chosen_are_requeued_or_discarded_after_asking() {
    let (service, mut browser, console) = set().await;
    let states = async |state: &str| {
        let sql = "select count(*) as n from jobs where state = 'dead'";
        match state {
            "dead" => service.count(sql).await,
            _ => {
                service
                    .count("select count(*) as n from jobs where discarded_at is not null")
                    .await
            }
        }
    };
    assert_eq!((states("dead").await, states("discarded").await), (3, 0));
    let dead = format!("{}/dead", console.url);
    browser.visit(&dead, 1280, "light");
    let bar = "getComputedStyle(document.querySelector('.bar')).display";
    assert_eq!(browser.text(bar), "none", "nothing is chosen");
    browser.evaluate("document.querySelectorAll('tbody .pick input')[1].click()");
    assert_eq!(browser.text(bar), "flex");
    // Enter on a box does nothing to what is chosen.
    browser.evaluate("document.querySelectorAll('tbody .pick input')[1].focus()");
    for kind in ["keyDown", "keyUp"] {
        let enter = json!({"type": kind, "key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13});
        browser.call("Input.dispatchKeyEvent", &enter);
    }
    assert_eq!(
        (browser.text(bar), states("dead").await),
        ("flex".to_owned(), 3)
    );
    assert!(
        browser
            .text("document.querySelector('.bar').innerText")
            .contains("1 chosen")
    );
    browser.press("Discard ..");
    assert!(
        browser
            .text("document.body.innerText")
            .contains("Discard these jobs for good?")
    );
    assert_eq!(states("discarded").await, 0, "it is asked first");
    let colours = "getComputedStyle(document.querySelector('button.danger')).color
                   !== getComputedStyle(document.querySelector('.search button')).color";
    assert_eq!(browser.evaluate(colours), true, "what is for good looks so");
    browser.press("Discard for good");
    assert!(
        browser
            .text("document.body.innerText")
            .contains("what was discarded is never run again")
    );
    assert_eq!((states("dead").await, states("discarded").await), (2, 1));
    let filtered = format!("{dead}?kind=orders*");
    browser.visit(&filtered, 1280, "light");
    // One has changed since: it is left as it is, and the others are done.
    service
        .execute("update jobs set finished_at = finished_at + 1 where id = (select min(id) from jobs where state = 'dead')")
        .await;
    browser.evaluate("document.querySelector('thead .pick input').click()");
    assert!(
        browser
            .text("document.querySelector('.bar').innerText")
            .contains("2 chosen")
    );
    browser.press("Requeue");
    let text = browser.text("document.body.innerText");
    assert!(text.contains("Some were left as they are"), "{text}");
    assert_eq!(states("dead").await, 1);
    assert!(browser.text("location.search").contains("kind=orders"));
    browser.evaluate("document.querySelector('thead .pick input').click()");
    browser.press("Requeue");
    let text = browser.text("document.body.innerText");
    assert!(text.contains("the full number of tries"), "{text}");
    assert_eq!(states("dead").await, 0);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_a_drag_over_the_histogram_and_a_chip_change_what_is_listed() {
    let (service, mut browser, console) = set().await;
    let minute = 60_000;
    let now = service.clock().now().0;
    let mut tx = service.db().begin().await.unwrap();
    for (ago, count) in [(3, 40_i64), (30, 10)] {
        let at = (now / minute - ago) * minute;
        tx.query(
            "insert into measures (seconds, begun_at, name, process_id, value) values (60, $1, 'accepted', $2, $3)",
        )
            .bind(at)
            .bind(service.clock().id())
            .bind(count)
            .execute()
            .await
            .unwrap();
    }
    tx.commit().await.unwrap();
    let url = format!("{}/deliveries?topic=orders*", console.url);
    // The week stays the week when somebody filters.
    browser.visit(&format!("{url}&span=week"), 1280, "light");
    browser.press("Show");
    assert!(browser.text("location.search").contains("span=week"));
    let seen = browser.visit(&url, 1280, "light");
    assert!(seen.text.contains("accepted, by minute"), "{}", seen.text);
    let box_of = "(() => { const it = document.querySelector('svg.bars').getBoundingClientRect();
                   return [it.left, it.top, it.width].map(Math.round).join(); })()";
    let place: Vec<i64> = browser
        .text(box_of)
        .split(',')
        .map(|it| it.parse().unwrap())
        .collect();
    let [left, top, width] = place[..] else {
        panic!("{place:?}")
    };
    let mouse = |browser: &mut Browser, kind: &str, part: i64, pressed: i64| {
        let event = json!({"type": kind, "x": left + width * part / 60, "y": top + 20, "button": "left",
                           "buttons": pressed, "clickCount": 1});
        browser.call("Input.dispatchMouseEvent", &event);
    };
    mouse(&mut browser, "mouseMoved", 30, 0);
    browser.wait("[...document.querySelectorAll('.histogram .tip')].some(it => !it.hidden && /: [0-9,]+ accepted/.test(it.innerText))");
    mouse(&mut browser, "mousePressed", 30, 1);
    mouse(&mut browser, "mouseMoved", 40, 1);
    mouse(&mut browser, "mouseReleased", 40, 0);
    browser.wait("location.search.includes('since=') && document.readyState === 'complete' && !!document.querySelector('.chips')");
    let chips = browser.text("document.querySelector('.chips').innerText");
    for wanted in ["orders*", "Since", "Before"] {
        assert!(chips.contains(wanted), "{chips}");
    }
    assert!(browser.text("location.search").contains("topic=orders"));
    assert!(
        browser
            .text("document.body.innerText")
            .contains("No deliveries.")
    );
    // Without the chips of the time, the orders are there again.
    for gone in ["before=", "since="] {
        browser.evaluate(
            "setTimeout(() => document.querySelector('.chips li:last-child a').click()), true",
        );
        let is_loaded = "document.readyState === 'complete'";
        browser.wait(&format!(
            "!location.search.includes('{gone}') && {is_loaded}"
        ));
    }
    let items: Value = serde_json::from_str(&browser.text(
        "JSON.stringify([...document.querySelectorAll('td[data-column=Topic]')].map(it => it.innerText))",
    ))
    .unwrap();
    let items = items.as_array().unwrap();
    assert!(
        !items.is_empty()
            && items
                .iter()
                .all(|it| it.as_str().unwrap().starts_with("orders")),
        "{items:?}"
    );
    service.stop().await;
}
