//! What the providers' own libraries sign, as published, is taken as it is.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::process::output;
use crate::support::service;

const SKIPPED: i32 = 77;
const REQUESTS: usize = 7;

/// Both halves would do the same.
mod embedded {
    use super::*;

    #[tokio::test]
    async fn the_providers_own_libraries_sign_what_is_taken() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/provider-libraries");
        let signed = output(Command::new(script));
        let said = String::from_utf8_lossy(&signed.stderr);
        if signed.status.code() == Some(SKIPPED) {
            eprintln!("{said}");
            return;
        }
        assert!(signed.status.success(), "{said}");
        let signed = String::from_utf8(signed.stdout).unwrap();
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
}
