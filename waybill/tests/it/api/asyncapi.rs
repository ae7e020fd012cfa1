//! The description of the events at `/asyncapi.json`.

use std::process::Command;

use domain::event::catalogue;
use ingress::openapi::asyncapi::document;
use serde_json::{Value, json};

use crate::support::process::{needs_registries, output, script};
use crate::support::service;

fn names(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn every_event_is_a_message_a_channel_of_the_broker_and_a_part_of_the_stream() {
    let document = document("https://waybill.example/shop", "tenant");
    let mut events: Vec<String> = catalogue().into_iter().map(|event| event.name).collect();
    events.sort();
    assert!(events.len() > 25);
    let sorted = |value: &Value| {
        let mut names: Vec<String> = names(value).into_iter().map(str::to_owned).collect();
        names.sort();
        names
    };
    assert_eq!(sorted(&document["components"]["messages"]), events);
    assert_eq!(sorted(&document["channels"]["stream"]["messages"]), events);
    for event in &events {
        let channel = &document["channels"][event];
        assert_eq!(channel["address"], event.as_str());
        assert_eq!(
            channel["bindings"]["amqp"]["exchange"]["name"],
            "tenant.events"
        );
        let message = &document["components"]["messages"][event];
        assert_eq!(message["examples"][0]["payload"]["type"], event.as_str());
        assert!(
            !message["summary"].as_str().unwrap().contains("]("),
            "{event}"
        );
        let operation = &document["operations"][format!("send.{event}")];
        assert_eq!(operation["action"], "send");
    }
    let api = &document["servers"]["api"];
    assert_eq!(api["host"], "waybill.example");
    assert_eq!(api["pathname"], "/shop");
}

#[tokio::test]
async fn the_description_of_the_events_is_served_for_any_tool() {
    let service = service().without_workers().start().await;
    let answer = service.get("/asyncapi.json").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["access-control-allow-origin"], "*");
    let etag = answer.headers()["etag"].clone();
    let prefix = &service.parts.config.amqp_prefix;
    let served: Value = answer.json().await.unwrap();
    assert_eq!(served, document(&service.url, prefix));
    let again = service.get("/asyncapi.json").header("If-None-Match", etag);
    assert_eq!(again.send().await.unwrap().status(), 304);
    service.stop().await;
}

#[test]
fn the_official_parser_reads_the_description_of_the_events() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("asyncapi.json");
    let document = document("http://127.0.0.1:8000", "waybill");
    let read = |document: &Value| {
        std::fs::write(&file, document.to_string()).unwrap();
        let mut command = Command::new(script("asyncapi"));
        command.arg(&file);
        output(command)
    };
    let Some(said) = needs_registries(&read(&document)) else {
        return;
    };
    let events = catalogue().len();
    let counts = format!(
        "{} channels, {} operations, {events} messages",
        events + 1,
        events + 1
    );
    assert_eq!(said.trim(), counts);
    for (path, value, found) in [
        // The parser itself finds the first two, and the examples are compared beside it.
        (
            "/operations/stream/action",
            json!("shout"),
            "asyncapi-document-resolved",
        ),
        (
            "/operations/stream/channel/$ref",
            json!("#/channels/nowhere"),
            "invalid-ref",
        ),
        (
            "/components/messages/order.created/examples/0/payload/id",
            json!(7),
            "example of order.created",
        ),
    ] {
        let mut wrong = document.clone();
        *wrong.pointer_mut(path).unwrap() = value;
        let done = read(&wrong);
        assert_eq!(done.status.code(), Some(1), "{path}");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.contains(found), "{path}: {said}");
    }
}
