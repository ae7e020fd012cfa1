//! `/api/privacy`, tested on a service without workers.

use std::path::Path;
use std::time::Duration;

use reqwest::Response;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use store::audit;
use uuid::Uuid;

use crate::support::requests::{complete, export, give_up, place, posted, request};
use crate::support::{START, Service, service};

const DATA: &str = "customers/data_request";
const REDACT: &str = "customers/redact";
const SHOP: &str = "shop/redact";

const DOCUMENT: &str = r#"{"customer":"Ann"}"#;
const NO_LINK: &str = r#"{"detail":"Export not found"}"#;

/// A service whose exports are in a folder, and an API key of it.
async fn start(folder: &Path) -> (Service, String) {
    let store = format!("file://{}", folder.display());
    let service = service()
        .setting("PRIVACY_EXPORT_URL", &store)
        .manual_clock()
        .without_workers()
        .start()
        .await;
    let key = service.api_key().await;
    (service, key)
}

async fn get(service: &Service, key: &str, path: &str) -> (u16, Value) {
    answer(service.get(path).bearer_auth(key).send().await.unwrap()).await
}

async fn post(service: &Service, key: &str, path: &str) -> Response {
    let request = service.post_to(path).bearer_auth(key);
    request.send().await.unwrap()
}

async fn answer(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    (status, response.json().await.unwrap())
}

fn path(id: Uuid, what: &str) -> String {
    format!("/api/privacy/requests/{id}{what}")
}

/// The code and text of a refusal.
async fn refused(response: Response) -> (u16, Option<String>, String) {
    let code = response.headers().get("x-error-code");
    let code = code.map(|code| code.to_str().unwrap().to_owned());
    let (status, body) = answer(response).await;
    (status, code, body["detail"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn requests_are_shown_to_holders_of_a_key_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (service, key) = start(folder.path()).await;
    let id = posted(&service, &request(SHOP, 1)).await;
    let gets = ["/api/privacy/requests".to_owned(), path(id, "")];
    let posts = ["/retry", "/cancel", "/export-link"].map(|what| path(id, what));
    for wrong in [None, Some("wb_wrong")] {
        let requests = gets.iter().map(|path| service.get(path));
        let requests = requests.chain(posts.iter().map(|path| service.post_to(path)));
        for mut request in requests {
            if let Some(key) = wrong {
                request = request.bearer_auth(key);
            }
            let (status, code, _) = refused(request.send().await.unwrap()).await;
            assert_eq!((status, code.as_deref()), (401, Some("AUTH_001")));
        }
    }
    let (status, shown) = get(&service, &key, &path(id, "")).await;
    assert_eq!((status, &shown["state"]), (200, &json!("held")));
    assert_eq!(shown["held_until"], "2027-01-15T09:00:00.000Z");
    assert_eq!(shown["due_at"], "2027-02-14T08:00:00.000Z");
    assert_eq!(shown["audit"][0]["action"], "request.received");
    assert_eq!(shown.get("code"), None);
    for unknown in [path(Uuid::nil(), ""), "/api/privacy/requests/7".into()] {
        assert_eq!(get(&service, &key, &unknown).await.0, 404);
    }
    service.stop().await;
}

#[tokio::test]
async fn the_list_has_open_requests_by_deadline_and_others_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (service, key) = start(folder.path()).await;
    let done = posted(&service, &request(REDACT, 1)).await;
    complete(&service, done).await;
    let mut open = Vec::new();
    for topic in [SHOP, DATA, REDACT] {
        service.clock().advance(Duration::from_secs(1));
        open.push(posted(&service, &request(topic, 2)).await);
    }
    let ids = async |query: &str| -> Vec<Uuid> {
        let path = format!("/api/privacy/requests{query}");
        let (status, body) = get(&service, &key, &path).await;
        assert_eq!(status, 200, "{query}: {body}");
        let requests = body["requests"].as_array().unwrap().iter();
        let id = |it: &Value| it["id"].as_str().unwrap().parse().unwrap();
        requests.map(id).collect()
    };
    assert_eq!(ids("").await, open);
    assert_eq!(ids("?state=all").await, [&[done], &*open].concat());
    assert_eq!(ids("?state=done").await, [done]);
    assert_eq!(ids("?state=held&limit=5").await, [open[0]]);
    assert_eq!(ids("?limit=1").await, [open[0]]);
    assert_eq!(ids("?shop=Waybill-Sandbox.example").await, open);
    assert!(ids("?shop=other.example").await.is_empty());
    for wrong in [
        "state=late",
        "limit=0",
        "limit=1001",
        "limit=x",
        "shop=%00",
        "state=done&state=held",
    ] {
        let path = format!("/api/privacy/requests?{wrong}");
        assert_eq!(get(&service, &key, &path).await.0, 422, "{wrong}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_request_that_failed_says_its_code_and_is_retried() {
    let folder = tempfile::tempdir().unwrap();
    let (service, key) = start(folder.path()).await;
    let id = posted(&service, &request(DATA, 1)).await;
    let early = refused(post(&service, &key, &path(id, "/retry")).await).await;
    assert_eq!((early.0, early.1), (409, None));
    let none = refused(post(&service, &key, &path(id, "/export-link")).await).await;
    assert_eq!((none.0, none.1.as_deref()), (409, Some("COMMERCE_007")));
    give_up(&service, id, "away").await;
    let (_, shown) = get(&service, &key, &path(id, "")).await;
    assert_eq!(
        (&shown["state"], &shown["code"], &shown["last_error"]),
        (&json!("failed"), &json!("COMMERCE_007"), &json!("away"))
    );
    let link = refused(post(&service, &key, &path(id, "/export-link")).await).await;
    assert_eq!((link.0, link.1.as_deref()), (409, Some("COMMERCE_007")));
    assert!(link.2.contains("failed"), "{}", link.2);
    let (status, retried) = answer(post(&service, &key, &path(id, "/retry")).await).await;
    assert_eq!((status, &retried["state"]), (200, &json!("received")));
    let entry = &retried["audit"][1];
    assert_eq!(
        (&entry["action"], &entry["actor"]),
        (&json!("request.retried"), &json!("key:test"))
    );
    service.stop().await;
}

#[tokio::test]
async fn of_two_who_cancel_the_erasure_of_a_shop_one_does() {
    let folder = tempfile::tempdir().unwrap();
    let (service, key) = start(folder.path()).await;
    let id = posted(&service, &request(SHOP, 1)).await;
    let cancel = path(id, "/cancel");
    let (one, other) = tokio::join!(post(&service, &key, &cancel), post(&service, &key, &cancel));
    let mut statuses = [one.status().as_u16(), other.status().as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    let (_, shown) = get(&service, &key, &path(id, "")).await;
    assert_eq!(shown["state"], "cancelled");
    assert_eq!(shown["audit"].as_array().unwrap().len(), 2);
    assert_eq!(shown["audit"][1]["actor"], "key:test");
    for topic in [DATA, REDACT] {
        let id = posted(&service, &request(topic, 1)).await;
        let duty = refused(post(&service, &key, &path(id, "/cancel")).await).await;
        assert_eq!(duty.0, 409);
        assert!(duty.2.contains("legal duty"), "{}", duty.2);
    }
    let unknown = post(&service, &key, &path(Uuid::nil(), "/cancel")).await;
    assert_eq!(unknown.status(), 404);
    service.stop().await;
}

#[tokio::test]
async fn a_link_hands_out_the_export_for_five_minutes() {
    let folder = tempfile::tempdir().unwrap();
    let (service, key) = start(folder.path()).await;
    let id = posted(&service, &request(DATA, 1)).await;
    let ends = START.plus(Duration::from_hours(24));
    export(&service, folder.path(), id, DOCUMENT, ends).await;
    let linked = post(&service, &key, &path(id, "/export-link")).await;
    assert_eq!(linked.headers()["cache-control"], "no-store");
    let (status, link) = answer(linked).await;
    assert_eq!(status, 200);
    assert_eq!(link["expires_at"], "2027-01-15T08:05:00.000Z");
    let url = link["url"].as_str().unwrap();
    let link = url.strip_prefix(&service.url).unwrap();
    service.clock().advance(Duration::from_secs(299));
    let fetched = service.get(link).send().await.unwrap();
    assert_eq!(fetched.status(), 200);
    let sha256 = hex::encode(Sha256::digest(DOCUMENT));
    let attachment = format!("attachment; filename=\"export-{id}.json\"");
    for (name, value) in [
        ("content-type", "application/json"),
        ("content-disposition", &*attachment),
        ("cache-control", "no-store"),
        ("x-content-sha256", &sha256),
    ] {
        assert_eq!(fetched.headers()[name], value, "{name}");
    }
    assert_eq!(fetched.text().await.unwrap(), DOCUMENT);
    let entries = audit::list(service.db(), Some(&id.to_string()), 0, 9).await;
    let entries = entries.unwrap();
    let who: Vec<(&str, &str)> = entries
        .iter()
        .map(|entry| (entry.action.as_str(), entry.actor.as_str()))
        .collect();
    assert_eq!(
        who[1..],
        [("export.linked", "key:test"), ("export.fetched", "link")]
    );
    service.clock().advance(Duration::from_secs(1));
    let ended = service.get(link).send().await.unwrap();
    assert_eq!(
        (ended.status().as_u16(), ended.text().await.unwrap()),
        (404, NO_LINK.into())
    );
    service.stop().await;
}

#[tokio::test]
async fn a_link_that_is_not_ours_is_answered_as_one_that_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (service, key) = start(folder.path()).await;
    let id = posted(&service, &request(DATA, 1)).await;
    let other = posted(&service, &request(DATA, 2)).await;
    let ends = START.plus(Duration::from_hours(24));
    for id in [id, other] {
        export(&service, folder.path(), id, DOCUMENT, ends).await;
    }
    let (_, link) = answer(post(&service, &key, &path(id, "/export-link")).await).await;
    let link = link["url"].as_str().unwrap();
    let link = link.strip_prefix(&service.url).unwrap();
    let (begin, signature) = link.split_once("signature=").unwrap();
    let flipped = if signature.starts_with('0') { "1" } else { "0" };
    for wrong in [
        link.replace("expires=1800000300", "expires=1800000301"),
        link.replace(&id.to_string(), &other.to_string()),
        link.replace(&id.to_string(), &Uuid::nil().to_string()),
        link.replace(&id.to_string(), "7"),
        format!("{begin}signature={flipped}{}", &signature[1..]),
        format!("{begin}signature={}", &signature[2..]),
        format!("{begin}signature="),
        format!("{begin}signature=%00"),
        format!("{link}&signature={signature}"),
        link.split_once('?').unwrap().0.to_owned(),
        link.split_once("&signature").unwrap().0.to_owned(),
    ] {
        assert_ne!(wrong, link);
        // A key makes no difference.
        let answered = service.get(&wrong).bearer_auth(&key).send().await.unwrap();
        let status = answered.status().as_u16();
        let body = answered.text().await.unwrap();
        assert_eq!((status, &*body), (404, NO_LINK), "{wrong}");
    }
    let fetched = "select count(*) as n from audit where action = 'export.fetched'";
    assert_eq!(service.count(fetched).await, 0);
    assert_eq!(service.get(link).send().await.unwrap().status(), 200);
    service.stop().await;
}

#[tokio::test]
async fn an_export_that_was_altered_lost_or_has_expired_is_not_handed_out() {
    let folder = tempfile::tempdir().unwrap();
    let (service, key) = start(folder.path()).await;
    let id = posted(&service, &request(DATA, 1)).await;
    let ends = START.plus(Duration::from_mins(4));
    export(&service, folder.path(), id, DOCUMENT, ends).await;
    let (_, link) = answer(post(&service, &key, &path(id, "/export-link")).await).await;
    let link = link["url"].as_str().unwrap();
    let link = link.strip_prefix(&service.url).unwrap();
    let fetch = async || refused(service.get(link).send().await.unwrap()).await;
    place(folder.path(), id, r#"{"customer":"Bob"}"#);
    let altered = fetch().await;
    assert_eq!(
        (altered.0, altered.1.as_deref()),
        (503, Some("COMMERCE_007"))
    );
    std::fs::remove_dir_all(folder.path().join(id.to_string())).unwrap();
    assert_eq!(fetch().await, altered);
    service.clock().advance(Duration::from_mins(4));
    let expired = fetch().await;
    assert_eq!(
        (expired.0, expired.1.as_deref()),
        (410, Some("COMMERCE_007"))
    );
    let again = refused(post(&service, &key, &path(id, "/export-link")).await).await;
    assert_eq!(again, expired);
    let redaction = posted(&service, &request(REDACT, 1)).await;
    complete(&service, redaction).await;
    let none = refused(post(&service, &key, &path(redaction, "/export-link")).await).await;
    assert_eq!((none.0, none.1.as_deref()), (409, Some("COMMERCE_007")));
    service.stop().await;
}
