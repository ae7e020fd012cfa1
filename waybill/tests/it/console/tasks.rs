//! What people want of a console in their first week, each with three clicks at most after they opened it. To type
//! into a field is no click.

use std::time::Duration;

use super::world;
use crate::support::browser::Browser;
use crate::support::order::{body, order_delivery};
use crate::support::{Service, pause, service};

const MOST: usize = 3;

/// Somebody in front of the console, who begins on its first page.
struct Person<'a> {
    browser: &'a mut Browser,
    task: &'static str,
    clicks: usize,
}

impl<'a> Person<'a> {
    fn opens(browser: &'a mut Browser, url: &str, task: &'static str) -> Self {
        browser.visit(url, 1920, "light");
        Person {
            browser,
            task,
            clicks: 0,
        }
    }

    fn presses(mut self, label: &str) -> Self {
        self.clicks += 1;
        self.browser.press(label);
        self
    }

    fn types(self, field: &str, text: &str) -> Self {
        self.browser.fill(field, text);
        self
    }

    /// The task is done when the page shows this.
    fn sees(self, wanted: &str) {
        let text = self.browser.text("document.body.innerText");
        assert!(text.contains(wanted), "{}: {wanted}: {text}", self.task);
        assert!(self.clicks <= MOST, "{}: {} clicks", self.task, self.clicks);
    }
}

async fn set() -> (Service, Browser, String) {
    let mut service = service().start().await;
    world::make(&service).await;
    let mut browser = Browser::start();
    let console = world::open(&mut service, &mut browser, "ann").await;
    (service, browser, console.url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_three_clicks_lead_to_what_comes_and_to_why_it_failed() {
    let (service, mut browser, url) = set().await;
    let person = Person::opens(&mut browser, &url, "see live what comes");
    let person = person.presses("Live");
    let order = order_delivery("orders/create", &body(77, 0, "pending"));
    assert_eq!(service.answer(&order.id("w-live")).await.0, 200);
    let looked = async {
        while !person
            .browser
            .text("document.body.innerText")
            .contains("w-live")
        {
            pause(Duration::from_millis(20)).await;
        }
    };
    let shown = tokio::time::timeout(Duration::from_secs(20), looked).await;
    assert!(shown.is_ok(), "the delivery is not shown");
    person.sees("w-live");

    let dead = world::job(&service, "s-1").await.to_string();
    Person::opens(&mut browser, &url, "why did it fail, and again: a dead job")
        .presses("Dead: orders/create")
        .presses(&dead)
        .presses("Requeue")
        .sees("the full number of tries");
    Person::opens(&mut browser, &url, "again, all that died of it")
        .presses("Dead: orders/create")
        .presses("Requeue all of these")
        .presses("Requeue them")
        .sees("can be undone until then");
    let failing = world::job(&service, "s-4").await.to_string();
    Person::opens(
        &mut browser,
        &url,
        "why does it fail: a job that is tried again",
    )
    .presses("Failing, and tried again: orders/create")
    .presses(&failing)
    .sees("the answer was 502");
    Person::opens(&mut browser, &url, "deliveries of an order")
        .types("q", "#2007")
        .presses("Search")
        .sees("orders/paid");
    Person::opens(
        &mut browser,
        &url,
        "a provider is refused: why, and the setting",
    )
    .presses("Refused deliveries of the storefront provider")
    .sees("signature");
    Person::opens(&mut browser, &url, "how fast it answers, and what waits")
        .presses("All charts")
        .sees("How long the intake took to answer");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_three_clicks_change_an_endpoint_and_enter_a_data_request() {
    let (service, mut browser, url) = set().await;
    let endpoint = world::one(&service, "select id from endpoints").await;
    Person::opens(&mut browser, &url, "rotate the secret of an endpoint")
        .presses("Endpoints")
        .presses(&endpoint.to_string())
        .presses("Another secret")
        .sees("whsec_");
    Person::opens(&mut browser, &url, "own app hears changes")
        .presses("Endpoints")
        .presses("Add an endpoint")
        .types("url", "https://app.example/hooks")
        .presses("Add it")
        .sees("whsec_");
    Person::opens(
        &mut browser,
        &url,
        "a data request, when a customer has written",
    )
    .presses("Privacy")
    .presses("Enter a request")
    .types("shop", "shop.example")
    .types("email", "canary@example.com")
    .presses("Enter it")
    .sees("Privacy request");
    Person::opens(&mut browser, &url, "who did that")
        .presses("Audit")
        .sees("endpoint.rotated");
    service.stop().await;
}
