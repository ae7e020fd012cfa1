//! In which zone commands show and read times.

use domain::time::Timestamp;

use crate::support::delivery::order;
use crate::support::operator::{items, parsed, said, waybill};
use crate::support::order::post_all;
use crate::support::payment::{event, intent};
use crate::support::process::{command, output, run};
use crate::support::requests::request;
use crate::support::{Service, service};

/// A zone that is five and a half hours ahead of UTC, as POSIX writes it.
const AHEAD: &str = "XST-5:30";

/// What a command prints for a person in that zone.
async fn there(service: &Service, arguments: &[&str]) -> String {
    let mut command = waybill(service, arguments);
    command.env("TZ", AHEAD);
    let output = run(command).await;
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// What follows a name in a list of facts.
fn fact<'a>(text: &'a str, name: &str) -> &'a str {
    let mut lines = text.lines();
    let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("{name} in {text}")).trim()
}

#[tokio::test(flavor = "multi_thread")]
async fn times_are_those_of_the_terminal_and_with_utc_those_of_machines() {
    let service = service().without_workers().start().await;
    post_all(&service, &[order("orders/create", 1)]).await;
    let jobs = items(&service, &["jobs", "list"]).await;
    let id = jobs[0]["id"].as_str().unwrap();
    let machines = jobs[0]["created_at"].as_str().unwrap().to_owned();
    assert!(machines.ends_with('Z'), "{machines}");

    let shown = there(&service, &["jobs", "show", id]).await;
    let shown = fact(&shown, "arrived");
    assert!(shown.ends_with("+05:30"), "{shown}");
    assert_eq!(
        shown.parse::<Timestamp>(),
        machines.parse(),
        "the same instant"
    );
    for utc in [
        &["--utc", "jobs", "show", id],
        &["jobs", "show", id, "--utc"],
    ] {
        let shown = there(&service, utc).await;
        assert_eq!(fact(&shown, "arrived"), machines);
    }
    let for_machines = there(&service, &["jobs", "show", id, "--json"]).await;
    assert!(for_machines.contains(&machines), "{for_machines}");

    // What is shown can be typed, with its offset or without.
    let minute = &shown[..16];
    for (filter, expected) in [
        (&["--since", shown][..], 1),
        (&["--before", shown], 0),
        (&["--since", minute], 1),
        (&["--before", minute], 0),
        // In UTC that is more than five hours later.
        (&["--utc", "--since", minute], 0),
    ] {
        let mut list = waybill(&service, &["jobs", "list", "--json"]);
        list.env("TZ", AHEAD).args(filter);
        let found = parsed(&run(list).await);
        assert_eq!(
            found["items"].as_array().unwrap().len(),
            expected,
            "{filter:?}"
        );
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_shows_a_person_the_times_of_machines() {
    let service = service().start().await;
    let paid = intent("pi_1", "succeeded", 4000, Some("pact_1"));
    let deliveries = [
        order("orders/create", 1),
        event(&service, "payment_intent.succeeded", 1, &paid),
        request("customers/data_request", 1),
    ];
    post_all(&service, &deliveries).await;
    service.settled().await;
    said(
        &service,
        &["keys", "create", "shown", "--expires-in-days", "3"],
    )
    .await;
    said(
        &service,
        &[
            "licenses", "grant", "--user", "octavia", "--tier", "pro", "--days", "9",
        ],
    )
    .await;
    let jobs = items(&service, &["jobs", "list"]).await;
    let requests = items(&service, &["privacy", "list", "--all"]).await;
    let orders = items(&service, &["orders", "list"]).await;
    let id = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let (job, privacy) = (id(&jobs[0]["id"]), id(&requests[0]["id"]));
    let order = orders[0]["id"].to_string();
    let mut times = 0;
    for arguments in [
        &["jobs", "show", &job][..],
        &["orders", "show", &order],
        &["events", "list"],
        &["payments", "list"],
        &["ledger", "show", "provider"],
        &["audit", "list"],
        &["keys", "list"],
        &["licenses", "list"],
        &["privacy", "show", &privacy],
    ] {
        let text = there(&service, arguments).await;
        // JSON within a table, as the details of the audit, is as machines have it.
        let is_utc = |at: usize| {
            text[..at].ends_with(|c: char| c.is_ascii_digit()) && !text[at..].starts_with("Z\"")
        };
        let in_utc: Vec<_> = text
            .match_indices('Z')
            .filter(|(at, _)| is_utc(*at))
            .collect();
        assert!(in_utc.is_empty(), "{arguments:?}: {text}");
        times += text.matches("+05:30").count();
    }
    assert!(times > 8, "{times}");
    service.stop().await;
}

#[test]
fn a_zone_that_nobody_knows_is_no_reason_to_fail() {
    let mut command = command("waybill", &[("TZ", "Atlantis/Capital")]);
    command.arg("--help");
    assert!(output(command).status.success());
}
