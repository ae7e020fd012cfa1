//! The pictures of docs/console.md: each shows what its text says. `scripts/pictures` has them written, with
//! `CONSOLE_PICTURES` set to a folder.

use super::browser::picture;
use super::world::{self, ORDER};
use crate::support::browser::Browser;
use crate::support::service;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_the_pictures_of_the_console_show_what_the_document_says() {
    let mut service = service().start().await;
    world::make(&service).await;
    let mut browser = Browser::start();
    browser.hide_scrollbars();
    let console = world::open(&mut service, &mut browser, "ann").await;
    let pages = world::pages(&service).await;
    let privacy = pages.iter().rfind(|path| path.starts_with("/privacy/"));
    let order = format!("/orders/{ORDER}");
    for (name, path, wanted) in [
        ("now", "/", "Failing, and tried again: orders/create"),
        ("order", order.as_str(), "What happened"),
        ("live", "/live", "orders/paid"),
        ("dead", "/dead", "Requeue all of these"),
        ("operation", "/dead/all/requeue", "Requeue 3 jobs?"),
        (
            "privacy",
            privacy.unwrap().as_str(),
            "customers/data_request",
        ),
    ] {
        let seen = browser.visit(&format!("{}{path}", console.url), 1200, "light");
        assert!(seen.text.contains(wanted), "{path}: {}", seen.text);
        assert_eq!(seen.complaints, Vec::<String>::new(), "{path}");
        picture(&mut browser, name);
    }
    service.stop().await;
}
