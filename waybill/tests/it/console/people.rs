//! What the console does with the data of people: a body without them, one field for a reason, whom a request
//! means, its export and its receipt.

use domain::api_key::Role;
use domain::job::JobId;
use serde_json::{Value, json};
use store::audit;

use crate::support::console::{Console, Session, role};
use crate::support::delivery::{Delivery, SHOP, storefront};
use crate::support::operator::{json as printed, refused, said};
use crate::support::order::{body, deliver, order_delivery, with};
use crate::support::requests::{entry, posted};
use crate::support::{Service, eventually, service};

async fn signed_in(service: &Service, console: &Console, of: Role) -> (Session, String) {
    let key = service.api_key_for("ann", &role(of)).await;
    let session = console.sign_in(&key).await;
    let token = console.token(&session).await;
    (session, token)
}

/// An order of customer 77 with an address that nobody else has.
async fn an_order(service: &Service, id: i64, customer: i64, word: &str) -> JobId {
    let own = json!({
        "email": format!("{word}@example.com"), "phone": "+12025550144",
        "customer": {"id": customer, "email": format!("{word}@example.com")},
        "shipping_address": {"first_name": word, "city": format!("{word} City")},
    });
    let delivery = order_delivery("orders/create", &with(body(id, 1, "paid"), &own));
    let delivery = delivery.id(&format!("order-{id}"));
    deliver(service, &delivery).await;
    let row = service
        .db()
        .query("select id from deliveries where external_id = $1");
    let row = row.bind(format!("order-{id}")).fetch_one().await.unwrap();
    row.get("id").unwrap()
}

fn request(topic: &str, orders: &str, customer: &Value) -> Delivery {
    let mut body = json!({
        "shop_id": 1, "shop_domain": SHOP, "customer": customer, orders: [],
    });
    if topic == "customers/data_request" {
        body["data_request"] = json!({"id": 9});
    }
    storefront(topic, body.to_string())
}

async fn trail(service: &Service, action: &str) -> Vec<audit::AuditEntry> {
    let mut entries = audit::newest(service.db(), 1000).await.unwrap();
    entries.retain(|entry| entry.action == action);
    entries
}

#[tokio::test]
async fn a_body_is_shown_without_people_and_one_field_for_a_reason_that_the_audit_keeps() {
    let mut service = service().start().await;
    let id = an_order(&service, 7, 77, "canary").await;
    let console = service.console().await;
    let (reader, of_reader) = signed_in(&service, &console, Role::Reader).await;
    let (session, token) = signed_in(&service, &console, Role::Privacy).await;
    let path = format!("/jobs/{id}");
    let page = console.shown(&reader, &path).await;
    assert!(
        page.contains("shipping_address") && page.contains("line_items"),
        "{page}"
    );
    assert!(!page.contains("canary"), "{page}");
    assert!(
        !page.contains("<select"),
        "readers see no field as it came: {page}"
    );
    let page = console.shown(&session, &path).await;
    assert!(
        page.contains("<select") && !page.contains("canary"),
        "{page}"
    );

    let to = format!("/jobs/{id}/field");
    let ask = async |session: &Session, token: &str, field: &str, reason: &str| {
        let fields = [("token", token), ("path", field), ("reason", reason)];
        let answer = session.send(console.post(&to, &fields)).await;
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let field = "/shipping_address/city";
    assert_eq!(ask(&reader, &of_reader, field, "parcel").await.0, 403);
    for (field, reason) in [
        ("/shipping_address/street", "parcel"),
        ("shipping_address", "parcel"),
        ("/note_attributes/Ann", "parcel"),
        (field, "because"),
        (field, ""),
    ] {
        let (status, page) = ask(&session, &token, field, reason).await;
        assert!((400..500).contains(&status), "{field} {reason}: {status}");
        assert!(!page.contains("canary"), "{page}");
    }
    assert_eq!(trail(&service, "job.field_shown").await.len(), 0);
    let (status, page) = ask(&session, &token, field, "parcel").await;
    assert_eq!(status, 200);
    assert!(page.contains("canary City"), "{page}");
    assert!(page.contains("a parcel cannot be delivered"), "{page}");
    assert!(
        !page.contains("canary@example.com"),
        "one field alone: {page}"
    );

    let id = id.to_string();
    let said = said(
        &service,
        &["jobs", "field", &id, "/email", "--reason", "customer"],
    )
    .await;
    assert_eq!(said.trim(), "\"canary@example.com\"");
    let (code, error) = refused(
        &service,
        &["jobs", "field", &id, "/nothing", "--reason", "fault"],
    )
    .await;
    assert_eq!(code, 1);
    assert!(error.contains("its body has no such field"), "{error}");
    let entries = trail(&service, "job.field_shown").await;
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0].details["reason"], "customer");
    let of_page = &entries[1];
    assert_eq!(of_page.actor, "operator:ann");
    assert_eq!(of_page.object_id, id);
    assert_eq!(of_page.shop.as_deref(), Some(SHOP));
    assert_eq!(
        of_page.details,
        json!({"kind": "orders/create", "field": field, "reason": "parcel"})
    );
    service.stop().await;
}

#[tokio::test]
async fn whom_a_request_means_is_decided_on_its_page() {
    let mut service = service().start().await;
    an_order(&service, 1, 77, "ann").await;
    an_order(&service, 2, 78, "bob").await;
    let console = service.console().await;
    let (session, token) = signed_in(&service, &console, Role::Privacy).await;
    let customer = json!({"id": 77, "email": "ann@example.com", "phone": "+12025550144"});
    let id = posted(
        &service,
        &request("customers/redact", "orders_to_redact", &customer),
    )
    .await;
    eventually("it is held", async || {
        entry(&service, id).await.state == "held"
    })
    .await;
    let page = console.shown(&session, &format!("/privacy/{id}")).await;
    assert!(
        page.contains(&format!("href=\"/privacy/{id}/decide\"")),
        "{page}"
    );
    let page = console
        .shown(&session, &format!("/privacy/{id}/decide"))
        .await;
    assert!(page.contains("name=\"customer-78\""), "{page}");
    assert!(
        !page.contains("@example") && !page.contains("5550144"),
        "{page}"
    );
    let to = format!("/privacy/{id}/decide");
    let form = id.to_string();
    let decide = async |fields: &[(&str, &str)]| {
        let own = [("token", token.as_str()), ("id", form.as_str())];
        let fields = [&own, fields].concat();
        session.send(console.post(&to, &fields)).await
    };
    assert_eq!(
        decide(&[("customer-78", "")]).await.status(),
        409,
        "nothing was said"
    );
    // One that the request does not hold is nobody's choice here.
    assert_eq!(decide(&[("customer-1", "include")]).await.status(), 409);
    let answer = decide(&[("customer-78", "exclude"), ("rest", "exclude")]).await;
    assert_eq!(
        answer.headers()["location"],
        format!("/privacy/{id}?done=privacy-decide")
    );
    eventually("it is done", async || {
        entry(&service, id).await.state == "done"
    })
    .await;
    let decided = &trail(&service, "request.decided").await[0];
    assert_eq!(decided.actor, "operator:ann");
    assert_eq!(decided.details["decided"]["other_customers"], json!([78]));
    assert_eq!(decided.details["decided"]["is_all"], json!(true));
    let left = "select count(*) as n from customers where email_key = 'bob@example.com'";
    assert_eq!(service.count(left).await, 1, "somebody else is left alone");
    let answer = decide(&[("customer-78", "include")]).await;
    assert_eq!(
        answer.headers()["location"],
        format!("/privacy/{id}?done=changed")
    );
    service.stop().await;
}

#[tokio::test]
async fn an_export_and_a_receipt_are_fetched_from_the_page_of_the_request() {
    let mut service = service().start().await;
    an_order(&service, 1, 77, "canary").await;
    let console = service.console().await;
    let (reader, of_reader) = signed_in(&service, &console, Role::Reader).await;
    let (session, token) = signed_in(&service, &console, Role::Privacy).await;
    let customer = json!({"id": 77, "email": "canary@example.com"});
    let asked = request("customers/data_request", "orders_requested", &customer);
    let id = posted(&service, &asked).await;
    eventually("it is done", async || {
        entry(&service, id).await.state == "done"
    })
    .await;
    let path = format!("/privacy/{id}");
    let page = console.shown(&session, &path).await;
    assert!(page.contains("Fetch the export</button>"), "{page}");
    assert!(
        !console
            .shown(&reader, &path)
            .await
            .contains("Fetch the export</button>")
    );
    let to = format!("{path}/export");
    let fetch = async |session: &Session, token: &str| {
        session.send(console.post(&to, &[("token", token)])).await
    };
    assert_eq!(fetch(&reader, &of_reader).await.status(), 403);
    assert_eq!(trail(&service, "export.fetched").await.len(), 0);
    let answer = fetch(&session, &token).await;
    assert_eq!(answer.status(), 200);
    let headers = answer.headers().clone();
    let name = format!("attachment; filename=\"export-{id}.json\"");
    assert_eq!(headers["content-disposition"], name);
    assert_eq!(headers["cache-control"], "no-store");
    let document: Value = answer.json().await.unwrap();
    assert!(document.to_string().contains("canary@example.com"));
    let fetched = trail(&service, "export.fetched").await;
    assert_eq!(fetched.len(), 1);
    assert_eq!(fetched[0].actor, "operator:ann");

    let receipt = console.shown(&reader, &format!("{path}/receipt")).await;
    let receipt: Value = serde_json::from_str(&receipt).unwrap();
    let same = printed(&service, &["privacy", "receipt", &id.to_string()]).await;
    assert_eq!(receipt, same);
    service.stop().await;
}

#[tokio::test]
async fn a_licence_is_granted_suspended_and_revoked_and_no_login_is_shown() {
    let mut service = service().without_workers().start().await;
    let console = service.console().await;
    let (session, token) = signed_in(&service, &console, Role::Operator).await;
    let page = console.shown(&session, "/licenses/grant").await;
    let (_, rest) = page.split_once("name=\"now\" value=\"").unwrap();
    let now = rest.split('"').next().unwrap().to_owned();
    let form = service.clock().id().to_string();
    let send = async |path: &str, fields: &[(&str, &str)]| {
        let own = [("token", token.as_str()), ("id", form.as_str())];
        let fields = [&own, fields].concat();
        let answer = session.send(console.post(path, &fields)).await;
        let led = answer.headers().get("location").cloned();
        let led = led.map(|led| led.to_str().unwrap().to_owned());
        (answer.status().as_u16(), led.unwrap_or_default())
    };
    let canary = ("user", "canary");
    let now = ("now", now.as_str());
    for fields in [
        vec![now, ("tier", "pro")],
        vec![now, canary, ("tier", "gold")],
        vec![now, canary, ("tier", "pro"), ("org", "acme")],
        vec![now, canary, ("tier", "pro"), ("days", "none")],
        vec![now, ("org", "nobody knows it"), ("tier", "pro")],
    ] {
        assert_eq!(send("/licenses/grant", &fields).await.0, 409, "{fields:?}");
    }
    let wanted = [now, canary, ("tier", "pro"), ("days", "30")];
    let (status, led) = send("/licenses/grant", &wanted).await;
    assert!(
        status == 303 && led.ends_with("?done=licenses-grant"),
        "{status} {led}"
    );
    let path = led.split('?').next().unwrap().to_owned();
    let (_, again) = send("/licenses/grant", &wanted).await;
    assert_eq!(
        again,
        format!("{path}?done=changed"),
        "there is no second one"
    );
    let tier = printed(&service, &["licenses", "show", "canary"]).await;
    assert_eq!(
        (&tier["tier"], &tier["status"]),
        (&json!("pro"), &json!("active"))
    );
    for page in ["/licenses", &path, "/licenses?format=csv"] {
        let page = console.shown(&session, page).await;
        assert!(
            page.contains("has not logged in yet") && !page.contains("canary"),
            "{page}"
        );
    }
    let does = async |what: &[&str]| said(&service, &[&["orgs"], what].concat()).await;
    does(&["create", "Acme", "--owner", "canary"]).await;
    does(&["add-member", "Acme", "canary"]).await;
    assert!(does(&["list"]).await.contains("canary (not seen yet)"));
    for page in ["/orgs", "/orgs?format=csv", "/orgs?format=json"] {
        let page = console.shown(&session, page).await;
        assert!(page.contains("Acme") && !page.contains("canary"), "{page}");
    }
    for (word, done, status) in [
        ("suspend", "licenses-suspend", "suspended"),
        ("suspend", "changed", "suspended"),
        ("resume", "licenses-resume", "active"),
        ("revoke", "licenses-revoke", "active"),
    ] {
        let (_, led) = send(&format!("{path}/{word}"), &[]).await;
        assert_eq!(led, format!("{path}?done={done}"));
        let shown = printed(&service, &["licenses", "show", "canary"]).await;
        let expected = if word == "revoke" { "free" } else { "pro" };
        assert_eq!(
            (&shown["tier"], &shown["status"]),
            (&json!(expected), &json!(status))
        );
    }
    let audit = audit::newest(service.db(), 100).await.unwrap();
    let mut actions: Vec<_> = audit.iter().map(|entry| entry.action.as_str()).collect();
    actions.retain(|action| action.starts_with("license."));
    let expected = [
        "license.revoked",
        "license.resumed",
        "license.suspended",
        "license.granted",
    ];
    assert_eq!(actions, expected);
    service.stop().await;
}
