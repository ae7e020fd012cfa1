//! What the providers' own libraries sign, as published, is taken as it is, and what Waybill signs is verified by
//! libraries of others.

use std::io::Write as _;
use std::process::Command;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::both::api::endpoints::{add, an_order, call, with_endpoints};
use crate::support::endpoint::StandIn;
use crate::support::process::{needs_registries, output, run, script};
use crate::support::{eventually, service};

const REQUESTS: usize = 7;

#[tokio::test]
async fn the_providers_own_libraries_sign_what_is_taken() {
    let Some(signed) = needs_registries(&output(Command::new(script("provider-libraries")))) else {
        return;
    };
    let requests: Vec<Value> = signed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(requests.len(), REQUESTS, "{signed}");
    for request in requests {
        posted(&request).await;
    }
}

/// As it was signed, and then with a byte more.
async fn posted(signed: &Value) {
    let text = |name: &str| signed[name].as_str().unwrap();
    let (provider, secret) = match text("path") {
        "payment" => ("PAYMENT_PROVIDER", "PAYMENT_WEBHOOK_SECRET"),
        _ => ("STOREFRONT_PROVIDER", "STOREFRONT_WEBHOOK_SECRET"),
    };
    let service = service()
        .setting(provider, text("provider"))
        .setting(secret, text("secret"))
        .without_workers()
        .start()
        .await;
    for (body, status) in [
        (text("body").to_owned(), 200),
        (format!("{} ", text("body")), 401),
    ] {
        let mut request = service.post_to(&format!("/api/webhooks/{}", text("path")));
        for (name, value) in signed["headers"].as_object().unwrap() {
            request = request.header(name, value.as_str().unwrap());
        }
        let answer = request.body(body).send().await.unwrap();
        assert_eq!(answer.status(), status, "{}", text("library"));
    }
    assert_eq!(service.count("select count(*) as n from jobs").await, 1);
    service.stop().await;
}

#[tokio::test]
async fn libraries_of_others_verify_what_is_sent() {
    let service = with_endpoints().start().await;
    let stand_in = StandIn::start(200).await;
    let (id, first) = add(&service, &stand_in.url).await;
    an_order(&service, 1).await;
    eventually("it is delivered", async || stand_in.ids().len() == 1).await;
    let key = service.api_key().await;
    let path = format!("/api/endpoints/{id}/rotate");
    let (status, rotated) = call(&service, &key, "post", &path, json!({})).await;
    assert_eq!(status, StatusCode::OK);
    let second = rotated["secret"].as_str().unwrap();
    an_order(&service, 2).await;
    eventually("it is delivered", async || stand_in.ids().len() == 2).await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let accepted = stand_in.accepted();
    let (one, two) = (&accepted[0], &accepted[1]);
    for (secret, received, body, good) in [
        (first.as_str(), one, one.body.clone(), true),
        (second, one, one.body.clone(), false),
        (first.as_str(), one, format!("{} ", one.body), false),
        (first.as_str(), two, two.body.clone(), true),
        (second, two, two.body.clone(), true),
        (second, two, one.body.clone(), false),
    ] {
        let line =
            json!({"secret": secret, "headers": received.headers, "body": body, "good": good});
        writeln!(file, "{line}").unwrap();
    }
    let mut verify = Command::new(script("provider-libraries"));
    verify.arg("verify").arg(file.path());
    needs_registries(&run(verify).await);
    service.stop().await;
}
