//! Tests of what is private in `src/audit.rs`.

use super::*;

/// Leaves are hashed again by every later version, and by programs of others.
#[test]
fn a_leaf_is_always_the_same_text() {
    let mut leaf = Leaf {
        action: "key.created",
        actor: "operator:ann",
        at: 1_800_000_000_000,
        details: r#"{"scopes":["orders:read"]}"#,
        number: 7,
        object_id: "till",
        shop: None,
    };
    let text = r#"{"action":"key.created","actor":"operator:ann","at":1800000000000,"details":"{\"scopes\":[\"orders:read\"]}","number":7,"object_id":"till","shop":null}"#;
    assert_eq!(leaf.text(), text);
    leaf.shop = Some("shop.example");
    assert_eq!(leaf.text(), text.replace("null", r#""shop.example""#));
}
