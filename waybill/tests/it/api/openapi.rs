//! The description of the API is true of the operations, with the shapes of the bodies that are really
//! sent. `scripts/api-test` compares every answer with it.

use std::collections::BTreeSet;

use ingress::openapi::document;
use reqwest::header::{ETAG, IF_NONE_MATCH};
use sandbox::sample;
use serde_json::Value;

use crate::support::browser::Browser;
use crate::support::delivery::order;
use crate::support::{START, Service, service};

fn described(document: &Value) -> BTreeSet<(String, String)> {
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().keys();
        methods.map(|method| (path.clone(), method.clone()))
    });
    operations.collect()
}

/// The path with the examples of its parameters.
fn example_path(path: &str, operation: &Value) -> String {
    let mut path = path.to_owned();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        if parameter["in"] == "path" {
            let name = format!("{{{}}}", parameter["name"].as_str().unwrap());
            let example = &parameter["example"];
            let example = example
                .as_str()
                .map_or_else(|| example.to_string(), str::to_owned);
            path = path.replace(&name, &example);
        }
    }
    path
}

#[tokio::test]
async fn every_described_operation_is_there_and_refuses_as_described() {
    let service = service().without_workers().start().await;
    let document = served(&service).await;
    for (path, method) in described(&document) {
        let operation = &document["paths"][&path][&method];
        let example = example_path(&path, operation);
        let request = match method.as_str() {
            "get" => service.get(&example),
            "delete" => service.delete(&example),
            "patch" => service.patch(&example),
            _ => service.post_to(&example),
        };
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let response = &operation["responses"][status.to_string()];
        assert!(response.is_object(), "{method} {path}: {status}");
        assert!(
            answer.headers().contains_key("x-request-id"),
            "{method} {path}"
        );
        for (name, header) in response["headers"].as_object().unwrap() {
            if header["required"] == true {
                assert!(
                    answer.headers().contains_key(name.as_str()),
                    "{method} {path}: {name}"
                );
            }
        }
        let content = response["content"].as_object().unwrap();
        let media = answer.headers()["content-type"].to_str().unwrap();
        let media = media.split(';').next().unwrap();
        assert!(content.contains_key(media), "{method} {path}: {media}");
    }
    service.stop().await;
}

async fn served(service: &Service) -> Value {
    let answer = service.get("/openapi.json").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.json().await.unwrap()
}

#[tokio::test]
async fn the_description_is_served_from_memory_and_not_again_to_who_has_it() {
    let service = service().without_workers().start().await;
    assert_eq!(served(&service).await, document(&service.url));
    for path in ["/openapi.json", "/docs"] {
        let first = service.get(path).send().await.unwrap();
        let etag = first.headers()[ETAG].clone();
        assert_eq!(first.headers()["cache-control"], "public, max-age=300");
        let known = format!("\"other\", W/{}", etag.to_str().unwrap());
        let again = service.get(path).header(IF_NONE_MATCH, known);
        let again = again.send().await.unwrap();
        assert_eq!(
            (again.status().as_u16(), &again.headers()[ETAG]),
            (304, &etag)
        );
        let other = service.get(path).header(IF_NONE_MATCH, "\"other\"");
        let other = other.send().await.unwrap();
        assert_eq!(other.status(), 200);
        assert_eq!(other.headers()["x-content-type-options"], "nosniff");
        if path == "/docs" {
            let policy = other.headers()["content-security-policy"].to_str();
            let policy = policy.unwrap();
            assert!(
                policy.starts_with("default-src 'none'; style-src 'sha256-"),
                "{policy}"
            );
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn an_order_has_the_described_fields_and_the_examples_have_them_too() {
    let service = service().start().await;
    assert_eq!(service.answer(&order("orders/create", 1)).await.0, 200);
    service.drained().await;
    let key = service.api_key().await;
    let id = service.count("select id as n from orders").await;
    let path = format!("/api/commerce/orders/{id}");
    let answer = service.get(&path).bearer_auth(&key).send().await.unwrap();
    let shown: Value = answer.json().await.unwrap();
    let document = served(&service).await;
    let operation = &document["paths"]["/api/commerce/orders/{order_id}"]["get"];
    let content = &operation["responses"]["200"]["content"]["application/json"];
    let fields = |value: &Value| -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let schema = &document["components"]["schemas"]["Order"];
    assert_eq!(fields(&shown), fields(&schema["properties"]));
    assert_eq!(fields(&shown), fields(&content["example"]));
    assert_eq!(
        schema["required"].as_array().unwrap().len(),
        fields(&shown).len()
    );
    service.stop().await;
}

/// What a schema says of a value that is not so: a small part of JSON Schema, enough for the
/// bodies of the providers.
fn misfits(document: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = document.pointer(reference.trim_start_matches('#')).unwrap();
        return misfits(document, schema, value, at, found);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fits = choices.iter().any(|choice| {
            let mut wrong = Vec::new();
            misfits(document, choice, value, at, &mut wrong);
            wrong.is_empty()
        });
        if !fits {
            found.push(format!("{at} fits none of its kinds"));
        }
        return;
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is_kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().any(|it| it == kind),
        only => only == kind,
    };
    if !is_kind {
        found.push(format!("{at} is {kind}, described as {}", schema["type"]));
    }
    for item in value.as_array().into_iter().flatten() {
        misfits(document, &schema["items"], item, &format!("{at}[]"), found);
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            misfits(document, field, value, &format!("{at}.{name}"), found);
        }
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            found.push(format!("{at} lacks {name}"));
        }
    }
}

#[test]
fn the_providers_bodies_are_described_as_the_sandbox_sends_them() {
    let document = document("http://127.0.0.1:8000");
    let mut found = Vec::new();
    for (topic, schema) in [
        ("orders/create", "StorefrontOrder"),
        ("orders/fulfilled", "StorefrontOrder"),
        ("orders/cancelled", "StorefrontOrder"),
        ("customers/data_request", "CustomerDataRequest"),
        ("customers/redact", "CustomerRedaction"),
        ("shop/redact", "ShopRedaction"),
    ] {
        for seed in 1..20 {
            let body = sample::storefront(topic, seed, START.0).unwrap();
            let body: Value = serde_json::from_str(&body).unwrap();
            let schema = &document["components"]["schemas"][schema];
            misfits(&document, schema, &body, topic, &mut found);
        }
    }
    assert_eq!(found, Vec::<String>::new());
    let mut wrong = Vec::new();
    let schema = &document["components"]["schemas"]["ShopRedaction"];
    misfits(
        &document,
        schema,
        &serde_json::json!({"shop_id": "x"}),
        "",
        &mut wrong,
    );
    assert_eq!(wrong.len(), 2, "{wrong:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documentation_can_be_read_in_a_browser_on_any_screen() {
    let service = service().without_workers().start().await;
    let url = format!("{}/docs", service.url);
    let mut browser = Browser::start();
    let mut grounds = BTreeSet::new();
    for (width, scheme) in [
        (320, "light"),
        (390, "dark"),
        (1280, "light"),
        (1280, "dark"),
    ] {
        let seen = browser.visit(&url, width, scheme);
        assert_eq!(seen.complaints, Vec::<String>::new());
        assert_eq!(seen.requests, [url.as_str()]);
        assert!(seen.page <= seen.window, "{width}: {} wide", seen.page);
        assert_eq!(seen.title, "Waybill API");
        for text in [
            "/api/commerce/orders/{order_id}",
            "COMMERCE_010",
            "order.created",
            "Authorization: Bearer $WAYBILL_API_KEY",
            "openssl dgst -sha256",
        ] {
            assert!(seen.text.contains(text), "{width}: {text}");
        }
        grounds.insert(seen.ground);
    }
    assert_eq!(grounds.len(), 2, "light and dark");
    service.stop().await;
}
