//! A real browser opens the console: with texts that were all written by an attacker, narrow and wide, light
//! and dark.

use std::time::Duration;

use domain::job::State;
use serde_json::json;

use super::world::open;
use crate::support::backend::environment;
use crate::support::browser::Browser;
use crate::support::delivery::storefront;
use crate::support::operator::dead_orders;
use crate::support::order::{body, captured, deliver, order_delivery, with};
use crate::support::{Service, eventually, pause, service};

/// Leaves an attribute and an element, and makes elements, handlers and links of its own.
const HOSTILE: &str = "'\"></title></p><script>document.title='run'</script>\
                       <img src=x onerror=\"document.title='run'\">\
                       <a href=\"javascript:document.title='run'\">&lt;go</a>";

/// Everything that our templates do not have.
const FOREIGN: &str = "JSON.stringify([...document.querySelectorAll('*')].filter(element =>
    (element.tagName === 'SCRIPT' && element.getAttribute('src') !== '/console.js')
    || ['IMG', 'IFRAME', 'OBJECT', 'EMBED', 'BASE', 'SVG'].includes(element.tagName.toUpperCase())
       && !element.matches('svg.chart')
    || [...element.attributes].some(attribute => attribute.name.startsWith('on'))
    || (element.href && !['http:', 'https:'].includes(new URL(element.href, location).protocol))
    ).map(element => element.outerHTML))";

/// Deliveries whose every text is hostile.
async fn a_hostile_shop_sends(service: &Service) {
    let hostile = json!({
        "name": HOSTILE, "cancel_reason": HOSTILE, "note": HOSTILE, "email": HOSTILE, "phone": HOSTILE,
        "token": HOSTILE, "fulfillment_status": HOSTILE, "financial_status": HOSTILE,
        "cancelled_at": "2027-01-15T07:00:09Z",
        "note_attributes": [{"name": HOSTILE, "value": HOSTILE}, {"name": "pact_id", "value": HOSTILE}],
        "customer": {"id": 77, "email": HOSTILE, "first_name": HOSTILE, "last_name": HOSTILE},
        "shipping_address": {"first_name": HOSTILE, "address1": HOSTILE, "city": HOSTILE},
        "line_items": [
            {"id": 1, "variant_id": 101, "title": HOSTILE, "quantity": 2, "price": "10.00", "sku": HOSTILE},
        ],
    });
    let order = with(body(7, 0, "paid"), &hostile);
    let create = order_delivery("orders/create", &order).id(HOSTILE);
    deliver(service, &create.also("X-Request-Id", "req-1")).await;
    deliver(service, &captured(service.clock().now(), 7, HOSTILE)).await;
    let mut tx = service.db().begin().await.unwrap();
    tx.query(
        "update jobs set state = 'dead', last_error = $1, finished_at = created_at, shop = $1
         where kind = 'orders/create'",
    )
    .bind(HOSTILE)
    .execute()
    .await
    .unwrap();
    tx.query(
        "insert into job_attempts (job_id, number, started_at, duration_ms, outcome, error, status)
         select id, 1, created_at, 7, 'dead', $1, 500 from jobs where kind = 'orders/create'",
    )
    .bind(HOSTILE)
    .execute()
    .await
    .unwrap();
    tx.commit().await.unwrap();
    let forged = storefront("orders/create", "{}")
        .header("X-Storefront-Topic", HOSTILE)
        .header(
            "X-Storefront-Hmac-Sha256",
            "bm90IHRoZSBzaWduYXR1cmUgb2YgdGhpcyBib2R5IGE=",
        );
    assert_eq!(service.answer(&forged).await.0, 401);
    eventually("the refusal is written", async || {
        let rows = "select count(*) as n from refused_deliveries";
        service.count(rows).await == 1
    })
    .await;
    // Intake keeps no topic or shop like these.
    let mut tx = service.db().begin().await.unwrap();
    tx.query("update refused_deliveries set topic = $1, shop = $1, advice = $1")
        .bind(HOSTILE)
        .execute()
        .await
        .unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_the_console_shows_hostile_texts_and_runs_nothing_of_them() {
    let mut service = service().start().await;
    a_hostile_shop_sends(&service).await;
    let mut browser = Browser::start();
    let console = open(&mut service, &mut browser, HOSTILE).await;
    let row = service
        .db()
        .query("select id from jobs where kind = 'orders/create'");
    let job: uuid::Uuid = row.fetch_one().await.unwrap().get("id").unwrap();
    let job = format!("/jobs/{job}");
    for (path, is_shown) in [
        ("/", true),
        ("/deliveries", true),
        ("/live", false),
        ("/orders", true),
        ("/orders/7", true),
        (job.as_str(), true),
        ("/held", false),
        ("/payments/pi_7", true),
        ("/dead", true),
        ("/failing", false),
        (
            "/dead?error=%22%3E%3Cscript%3Edocument.title%3D%27run%27%3C%2Fscript%3E",
            false,
        ),
        ("/refused", true),
        ("/privacy", false),
        ("/endpoints", false),
        (
            "/search?q=%22%3E%3Cscript%3Edocument.title%3D%27run%27%3C%2Fscript%3E",
            false,
        ),
    ] {
        for width in [1920, 360] {
            let seen = browser.visit(&format!("{}{path}", console.url), width, "light");
            assert_eq!(seen.complaints, Vec::<String>::new(), "{path}");
            assert!(
                seen.page <= seen.window,
                "{path} is {} wide, the window {}",
                seen.page,
                seen.window
            );
            assert_eq!(browser.text(FOREIGN), "[]", "{path}");
            assert_ne!(browser.text("document.title"), "run", "{path}");
            // The name of the key is on every page of a wide window.
            let parts = seen
                .text
                .matches("<script>document.title='run'</script>")
                .count();
            let wanted = usize::from(is_shown) + usize::from(width > 1000);
            assert!(parts >= wanted, "{path}: {}", seen.text);
            let own = [path, "/console.css", "/console.js", "/favicon.ico"];
            for request in &seen.requests {
                let asked = request.strip_prefix(&console.url).unwrap_or(request);
                let asked = asked.strip_suffix("/events?").unwrap_or(asked);
                assert!(own.contains(&asked), "{path}: {asked}");
            }
        }
    }
    service.stop().await;
}

/// With `CONSOLE_PICTURES=FOLDER` pictures of the pages are written there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_the_pages_of_the_console_fit_narrow_and_wide_windows_in_light_and_dark() {
    let mut service = service().start().await;
    let attributes = json!({
        "note_attributes": [{"name": "pact_id", "value": "pact-7"}], "name": "#1007",
    });
    let made = with(body(5_000_000_000_000_700, 0, "pending"), &attributes);
    let paid = with(
        made.clone(),
        &json!({"financial_status": "paid", "updated_at": "2027-01-15T07:00:09Z"}),
    );
    for (topic, order, id) in [
        ("orders/create", &made, "w-1"),
        ("orders/paid", &paid, "w-2"),
    ] {
        deliver(&service, &order_delivery(topic, order).id(id)).await;
    }
    deliver(&service, &captured(service.clock().now(), 7, "pact-7")).await;
    for id in 1..=9 {
        deliver(
            &service,
            &order_delivery("orders/create", &body(id, 0, "pending")),
        )
        .await;
    }
    let mut browser = Browser::start();
    let console = open(&mut service, &mut browser, "ann").await;
    let well = browser.visit(&console.url, 1280, "light");
    assert!(well.text.contains("All is well"), "{}", well.text);
    picture(&mut browser, "well");
    service
        .execute(
            "update jobs set state = 'dead', finished_at = created_at,
                    last_error = 'COMMERCE_003: the storefront provider answered 503'
             where kind = 'orders/create'
               and id in (select id from deliveries where object_id in ('3', '4'))",
        )
        .await;
    let row = service
        .db()
        .query("select id from deliveries where object_id = '3'");
    let job: uuid::Uuid = row.fetch_one().await.unwrap().get("id").unwrap();
    let job = format!("/jobs/{job}");
    for (name, path) in [
        ("now", "/"),
        ("deliveries", "/deliveries"),
        ("live", "/live"),
        ("orders", "/orders"),
        ("order", "/orders/5000000000000700"),
        ("job", job.as_str()),
        ("payment", "/payments/pi_7"),
        ("dead", "/dead"),
        ("failing", "/failing"),
        ("charts", "/charts"),
        ("search", "/search"),
        ("missing", "/orders/404"),
    ] {
        for (width, scheme, ground) in [
            (1280, "light", "rgb(242, 243, 239)"),
            (360, "dark", "rgb(16, 20, 18)"),
        ] {
            let seen = browser.visit(&format!("{}{path}", console.url), width, scheme);
            assert_eq!(seen.complaints, Vec::<String>::new(), "{path}");
            assert_eq!(seen.ground, ground, "{path}");
            assert!(
                seen.page <= seen.window,
                "{path} is {} wide, the window {}",
                seen.page,
                seen.window
            );
            picture(&mut browser, &format!("{name}-{width}-{scheme}"));
        }
    }
    service.stop().await;
}

const CONTENT: &str = "document.getElementById('content').innerText";

/// Waits until the page's script has made the page show this text.
async fn shows(browser: &mut Browser, wanted: &str) {
    let looked = async {
        while !browser.text(CONTENT).contains(wanted) {
            pause(Duration::from_millis(20)).await;
        }
    };
    let shown = tokio::time::timeout(Duration::from_secs(20), looked).await;
    assert!(shown.is_ok(), "{wanted}: {}", browser.text(CONTENT));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_the_live_view_shows_what_comes_until_it_is_paused_and_runs_nothing_of_it() {
    let mut service = service().start().await;
    deliver(
        &service,
        &order_delivery("orders/create", &body(1, 0, "pending")).id("w-1"),
    )
    .await;
    let mut browser = Browser::start();
    let console = open(&mut service, &mut browser, "ann").await;
    let seen = browser.visit(&format!("{}/live", console.url), 1920, "light");
    assert_eq!(seen.complaints, Vec::<String>::new());
    shows(&mut browser, "Rows appear as deliveries come.").await;
    shows(&mut browser, "w-1").await;
    let delivery = order_delivery("orders/paid", &body(2, 0, "paid")).id(HOSTILE);
    deliver(&service, &delivery).await;
    shows(&mut browser, "<script>document.title='run'</script>").await;
    assert_eq!(browser.text(FOREIGN), "[]");
    assert!(browser.text("document.title").starts_with("Live"));
    let click = "document.getElementById('live-pause').click(), 'clicked'";
    browser.text(click);
    let delivery = order_delivery("orders/paid", &body(3, 0, "paid")).id("w-3");
    deliver(&service, &delivery).await;
    let paused = browser.text(CONTENT);
    assert!(
        paused.contains("Paused") && !paused.contains("w-3"),
        "{paused}"
    );
    browser.text(click);
    shows(&mut browser, "w-3").await;
    let rows = "document.querySelectorAll('#live tbody tr').length";
    assert_eq!(browser.number(rows), 3);
    picture(&mut browser, "live-rows");
    // Without the session nothing more is shown.
    service.execute("delete from console_sessions").await;
    shows(&mut browser, "The session has ended").await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_from_what_needs_me_a_dead_job_runs_again_in_three_clicks() {
    let mut service = service().without_workers().start().await;
    dead_orders(&service, 2).await;
    let mut browser = Browser::start();
    let console = open(&mut service, &mut browser, "ann").await;
    let row = service
        .db()
        .query("select id from deliveries where external_id = 'w-1'");
    let job: uuid::Uuid = row.fetch_one().await.unwrap().get("id").unwrap();
    browser.press("Dead: orders/create");
    browser.press(&job.to_string());
    picture(&mut browser, "dead-job");
    browser.press("Requeue");
    let text = browser.text("document.querySelector('[role=status]').innerText");
    assert!(text.contains("the full number of tries"), "{text}");
    assert_eq!(service.jobs(State::Ready).await, 1);
    for (name, path) in [
        ("dead-list", "/dead"),
        ("ask-many", "/dead/all/requeue"),
        ("ask-endpoint", "/endpoints/add"),
        ("endpoints", "/endpoints"),
        ("audit", "/audit"),
        ("operations", "/operations"),
    ] {
        for (width, scheme) in [(1280, "light"), (360, "dark")] {
            let seen = browser.visit(&format!("{}{path}", console.url), width, scheme);
            assert_eq!(seen.complaints, Vec::<String>::new(), "{path}");
            assert!(seen.page <= seen.window, "{path} at {width}");
            picture(&mut browser, &format!("{name}-{width}-{scheme}"));
        }
    }
    browser.visit(&format!("{}/dead", console.url), 1280, "light");
    browser.press("Requeue all of these");
    browser.press("Requeue them");
    let text = browser.text("document.body.innerText");
    assert!(text.contains("can be undone until then"), "{text}");
    picture(&mut browser, "operation");
    browser.press("Undo");
    let text = browser.text("document.querySelector('[role=status]').innerText");
    assert!(text.contains("undone before it changed anything"), "{text}");
    assert_eq!(service.jobs(State::Dead).await, 1);
    service.stop().await;
}

pub(super) fn picture(browser: &mut Browser, name: &str) {
    if let Some(folder) = environment("CONSOLE_PICTURES") {
        browser.picture(
            std::path::Path::new(&folder)
                .join(format!("{name}.png"))
                .as_path(),
        );
    }
}
