//! Text that others wrote is shown as plain text on an operator's terminal: it moves no cursor,
//! changes no title, and cannot make a line of its own.

use serde_json::json;

use crate::support::delivery::{SHOP, storefront};
use crate::support::operator::{ran, said};
use crate::support::order::{body, deliver, with};
use crate::support::service;

/// Titles, colours, a line of its own, a C1 control, and one that turns the direction of writing.
const NAME: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J#1007\nstate       done\u{9b}31m\u{202e}\u{7f}";

fn moves(c: char) -> bool {
    c != '\n' && (c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
}

#[tokio::test(flavor = "multi_thread")]
async fn escapes_in_what_a_shop_sent_never_reach_the_terminal() {
    let service = service().start().await;
    let line = json!([{"id": 1, "quantity": 1, "price": "1.00", "sku": NAME, "title": NAME}]);
    let order = with(
        body(7, 1, "paid"),
        &json!({"name": NAME, "line_items": line, "cancel_reason": NAME}),
    );
    deliver(&service, &storefront("orders/create", order.to_string())).await;
    let unread = storefront("orders/create", json!({"id": NAME}).to_string());
    assert_eq!(service.answer(&unread).await.0, 200);
    service.settled().await;
    let shown = said(&service, &["orders", "show", "7"]).await;
    assert!(shown.contains("#1007"), "{shown:?}");
    assert!(
        shown.contains("\\u{1b}]0;owned"),
        "shown escaped: {shown:?}"
    );
    assert!(
        !shown.lines().any(|line| line.starts_with("state")),
        "no line is made up: {shown:?}"
    );
    for arguments in [
        ["orders", "show", "7"].as_slice(),
        &["orders", "show", "7", "--json"],
        &["orders", "list"],
        &["orders", "list", "--json"],
        &["orders", "show", NAME],
        &["orders", "held"],
        &["orders", "repeated"],
        &["jobs", "list"],
        &["jobs", "list", "--json"],
        &["dead", "list"],
        &["dead", "summary"],
        &["events", "list"],
        &["events", "list", "--json"],
        &["events", "tail", "--since", "1h", "--limit", "1"],
        &["events", "tail", "--since", "1h", "--limit", "1", "--json"],
        &["audit", "list"],
        &["jobs", "list", "--trace", NAME],
        &["orders", "show", "8", "--shop", NAME],
    ] {
        let output = ran(&service, arguments).await;
        let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!printed.contains(moves), "{arguments:?}: {printed:?}");
    }
    let machine = said(&service, &["orders", "show", "7", "--json"]).await;
    let order: serde_json::Value = serde_json::from_str(&machine).unwrap();
    assert_eq!(order["name"], NAME, "machines get what was sent");
    assert_eq!(order["shop"], SHOP);
    service.stop().await;
}
