//! The rules of axe-core find nothing on any page of the console, light and dark, narrow and wide.

use std::process::Command;

use serde_json::Value;

use super::world;
use crate::support::browser::{Browser, Seen};
use crate::support::process::{needs_registries, run, script};
use crate::support::service;

/// Runs the rules on the page that the browser shows: what they find, each with where it is.
const RUN: &str = "axe.run(document, {resultTypes: ['violations']}).then(result =>
    result.violations.map(found => found.id + ': ' + found.nodes.map(node =>
        node.html + ' ' + node.failureSummary).join(' | ')))";

fn finds_nothing(browser: &mut Browser, rules: &str, what: &str) {
    browser.promised(rules);
    assert_eq!(browser.promised(RUN), Value::Array(Vec::new()), "{what}");
}

fn fits(seen: &Seen, what: &str) {
    let Seen { page, window, .. } = seen;
    assert!(page <= window, "{what} is {page} wide, the window {window}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heavy_axe_finds_nothing_on_the_pages_of_the_console() {
    let brought = run(Command::new(script("accessibility"))).await;
    let Some(rules) = needs_registries(&brought) else {
        return;
    };
    // The expression must have no value that is sent back.
    let rules = std::fs::read_to_string(rules.trim()).unwrap() + ";undefined";
    let mut service = service().start().await;
    world::make(&service).await;
    let mut browser = Browser::start();
    let console = world::open(&mut service, &mut browser, "ann").await;
    let pages = world::pages(&service).await;
    for (width, scheme) in [(360, "dark"), (1280, "light")] {
        for path in &pages {
            let what = format!("{path} at {width}, {scheme}");
            let seen = browser.visit(&format!("{}{path}", console.url), width, scheme);
            fits(&seen, &what);
            finds_nothing(&mut browser, &rules, &what);
        }
    }
    service.execute("delete from console_sessions").await;
    for (width, scheme) in [(360, "dark"), (1280, "light")] {
        let what = format!("the page for signing in at {width}, {scheme}");
        let seen = browser.visit(&console.url, width, scheme);
        assert!(seen.title.starts_with("Sign in"), "{}", seen.title);
        fits(&seen, &what);
        finds_nothing(&mut browser, &rules, &what);
    }
    service.stop().await;
}
