//! A list of the console and of the command with the same name are one list: the same rows, and fields that are the
//! command's options.

use std::collections::BTreeSet;

use domain::api_key::Role;
use lists::shown;
use serde_json::Value;
use store::orgs;

use super::world;
use crate::support::console::{LISTS, role};
use crate::support::operator::{items, said};
use crate::support::service;

/// Pages that are no list of a command's.
const OTHER: [&str; 6] = [
    "/",
    "/live",
    "/charts",
    "/search",
    // The command shows both at once.
    "/reconcile",
    "/reconcile/found",
];

/// What stands between two texts.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
    let parts = text.split(begin).skip(1);
    parts.filter_map(|it| Some(it.split_once(end)?.0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_and_its_command_are_one_list() {
    let mut service = service().start().await;
    world::make(&service).await;
    let console = service.console().await;
    let key = service.api_key_for("ann", &role(Role::Owner)).await;
    let session = console.sign_in(&key).await;
    let mut with_rows = 0;
    for path in LISTS.into_iter().filter(|it| !OTHER.contains(it)) {
        let page = console.shown(&session, path).await;
        let command = between(&page, "In a terminal: <code>waybill ", "</code>")[0];
        let words: Vec<&str> = command.split(' ').collect();

        let help = said(&service, &[&words[..], &["--help"]].concat()).await;
        let (_, options) = help.split_once("Options:").unwrap();
        let options: BTreeSet<&str> = options
            .lines()
            .filter_map(|line| line.trim().strip_prefix("--"))
            .map(|line| line.split([' ', '<']).next().unwrap())
            .filter(|name| !["limit", "after", "json", "csv", "utc"].contains(name))
            .collect();
        let fields = between(&page, " id=\"f-", "\"");
        assert_eq!(
            fields.into_iter().collect::<BTreeSet<_>>(),
            options,
            "{path}"
        );

        let shown = console
            .shown(&session, &format!("{path}?format=json"))
            .await;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let mut listed = items(&service, &words).await;
        // The console names no person; the command is its operator's, whose settings have no key.
        for row in listed.as_array_mut().unwrap() {
            if path == "/licenses" {
                row["user"] = Value::Null;
            }
            if path == "/keys" {
                row["last_used_at"] = shown["items"][0]["last_used_at"].clone();
            }
        }
        if path != "/secrets" {
            assert_eq!(shown["items"], listed, "{path}");
        }
        let rows = listed.as_array().unwrap().len();
        with_rows += usize::from(rows > 0);
        let csv = console.shown(&session, &format!("{path}?format=csv")).await;
        let printed = said(&service, &[&words[..], &["--csv"]].concat()).await;
        assert_eq!(csv.lines().count(), rows + 1, "{path}: {csv}");
        assert_eq!(
            csv.lines().next(),
            printed.lines().next(),
            "{path}: the columns"
        );
    }
    assert!(with_rows >= 10, "{with_rows}");

    // What the command refuses, the page refuses, and both say why.
    for wrong in ["state=lost", "since=whenever", "after=nothing", "limit=0"] {
        let (status, page) = console.page(&session, &format!("/jobs?{wrong}")).await;
        assert_eq!(status, 400, "{wrong}");
        let (name, _) = wrong.split_once('=').unwrap();
        assert!(page.contains(name), "{wrong}: {page}");
    }
    let (_, page) = console.page(&session, "/jobs?state=lost").await;
    assert!(page.contains("ready, done, dead"), "{page}");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_goes_on_where_its_page_ended_whatever_its_filters() {
    let mut service = service().start().await;
    world::make(&service).await;
    let console = service.console().await;
    let key = service.api_key_for("ann", &role(Role::Reader)).await;
    let session = console.sign_in(&key).await;
    for name in ["Beta & Söhne", "alpha's", "-gamma"] {
        let mut tx = service.db().begin().await.unwrap();
        orgs::create(&mut tx, service.clock(), name, None)
            .await
            .unwrap();
        tx.commit().await.unwrap();
    }
    let read = async |path: &str| -> Value {
        let text = console
            .shown(&session, &format!("{path}&format=json"))
            .await;
        serde_json::from_str(&text).unwrap()
    };
    for path in [
        "/orders?",
        "/deliveries?source=storefront",
        "/jobs?queue=orders",
        "/dead?error=503",
        "/audit?",
        "/events?type=%23",
        "/orgs?",
    ] {
        let all = read(path).await["items"].take();
        let all = all.as_array().unwrap();
        assert!(all.len() > 2, "{path}: {all:?}");
        let mut found = Vec::new();
        let mut next = String::new();
        loop {
            let page = read(&format!("{path}&limit=2{next}")).await;
            found.extend(page["items"].as_array().unwrap().clone());
            match page["next"].as_str() {
                Some(cursor) => next = format!("&after={}", shown::escaped(cursor)),
                None => break,
            }
        }
        assert_eq!(&found, all, "{path}");
        let page = console.shown(&session, &format!("{path}&limit=2")).await;
        assert!(page.contains("rel=\"next\""), "{page}");
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_asks_for_the_arguments_of_its_command() {
    let mut service = service().start().await;
    let console = service.console().await;
    let key = service.api_key_for("ann", &role(Role::Owner)).await;
    let session = console.sign_in(&key).await;
    // What the input has for the command, a form has as a field of its own.
    for (path, command, own) in [
        ("/licenses/grant", "licenses grant", None),
        ("/pauses/begin", "pauses begin", None),
        ("/endpoints/add", "endpoints add", None),
        ("/connections/add", "connections add", None),
        ("/privacy/request", "privacy request", Some("email")),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let help = said(&service, &[&words[..], &["--help"]].concat()).await;
        let (_, help) = help.split_once("Arguments:").unwrap_or(("", &help));
        let of_the_command = ["by", "json", "utc"];
        let mut expected: BTreeSet<String> = help
            .lines()
            .filter_map(|line| line.trim().strip_prefix("--"))
            .map(|line| line.split([' ', '<']).next().unwrap())
            // A command reads a secret from a file.
            .map(|name| name.strip_suffix("-file").unwrap_or(name).to_owned())
            .filter(|name| !of_the_command.contains(&name.as_str()))
            .chain(own.map(str::to_owned))
            .collect();
        let page = console.shown(&session, path).await;
        // What takes it back is a command.
        for back in between(&page, "To take it back: waybill ", ".") {
            let words: Vec<&str> = back.split(' ').collect();
            said(&service, &[&words[..], &["--help"]].concat()).await;
        }
        let fields = between(&page, " id=\"i-", "\"").into_iter();
        let fields: BTreeSet<String> = fields.map(str::to_owned).collect();
        let places: BTreeSet<String> = fields.difference(&expected).cloned().collect();
        let named = match command {
            "pauses begin" => vec!["name", "scope"],
            "endpoints add" => vec!["url"],
            "connections add" => vec!["name"],
            _ => vec![],
        };
        assert_eq!(places.iter().collect::<Vec<_>>(), named, "{path}");
        expected.extend(places);
        assert_eq!(fields, expected, "{path}");
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_is_filled_in_wrong_says_why_and_repeats_nothing() {
    let mut service = service().start().await;
    let console = service.console().await;
    let key = service.api_key_for("ann", &role(Role::Owner)).await;
    let session = console.sign_in(&key).await;
    let token = console.token(&session).await;
    let id = service.clock().id().to_string();
    for (path, fields, why) in [
        (
            "/licenses/grant",
            &[("now", "1"), ("tier", "canary"), ("user", "a")][..],
            "tier must be one of free, alpha, pro, enterprise",
        ),
        (
            "/licenses/grant",
            &[("now", "1"), ("tier", "pro")],
            "must be given",
        ),
        (
            "/licenses/grant",
            &[
                ("now", "1"),
                ("tier", "pro"),
                ("user", "canary"),
                ("org", "b"),
            ],
            "exclude each other",
        ),
        (
            "/pauses/begin",
            &[("scope", "queue"), ("name", "canary"), ("for", "1h")],
            "queue",
        ),
        (
            "/pauses/begin",
            &[("scope", "queue"), ("name", "orders"), ("for", "canary")],
            "it must be an age",
        ),
        (
            "/privacy/request",
            &[("shop", "shop.example"), ("customer", "canary@example.com")],
            "customer: ",
        ),
    ] {
        let own = [("token", token.as_str()), ("id", &id)];
        let answer = session.send(console.post(path, &[&own[..], fields].concat()));
        let answer = answer.await;
        assert_eq!(answer.status(), 409, "{path} {fields:?}");
        let page = answer.text().await.unwrap();
        assert!(page.contains(why), "{why}: {page}");
        assert!(!page.contains("canary"), "{path} {fields:?}: {page}");
    }
    service.stop().await;
}
