//! The page of the API's description.

use ingress::openapi::document;
use ingress::openapi::page::html;
use serde_json::Value;

const HOSTILE: &str = "'\"></code><script>alert(1)</script><img src=x onerror=alert(1)>`";

/// Appends hostile text to every text of the document, except those that the page needs to
/// find operations and types.
fn poison(value: &mut Value) {
    match value {
        Value::String(text) => text.push_str(HOSTILE),
        Value::Array(all) => all.iter_mut().for_each(poison),
        Value::Object(all) => {
            for (name, value) in all.iter_mut() {
                if !["$ref", "in", "type", "tags"].contains(&name.as_str()) {
                    poison(value);
                }
            }
        }
        _ => {}
    }
}

#[test]
fn no_text_of_the_document_becomes_markup() {
    let mut document = document("https://orders.example");
    let plain = html(&document, &[]);
    for section in ["info", "servers", "paths", "webhooks", "components"] {
        poison(&mut document[section]);
    }
    let hostile = html(&document, &[]);
    for markup in ["<script", "<img", "</script"] {
        assert!(!hostile.contains(markup), "{markup}");
    }
    assert!(hostile.matches("&#60;script&#62;alert(1)").count() > 500);
    let tags = |page: &str, tag: &str| page.matches(tag).count();
    for tag in ["<article", "<tr", "<details", "<h5", "<a "] {
        assert_eq!(tags(&hostile, tag), tags(&plain, tag), "{tag}");
    }
}
