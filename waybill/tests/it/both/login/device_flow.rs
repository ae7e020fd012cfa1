//! Device login where several processes and the database decide together.

use futures_util::future::join_all;
use std::time::Duration;

use reqwest::RequestBuilder;
use sandbox::{Fault, Route};
use serde_json::json;
use store::sql::Db;

use crate::support::backend::is_distributed;
use crate::support::login::{desk, poll, read, with_identity};
use crate::support::{eventually, service};

#[tokio::test]
async fn a_token_is_not_lost_when_the_client_goes_away_in_the_middle() {
    let desk = desk().await;
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "octavia").unwrap();
    let slow = Fault::Slow(Duration::from_millis(300));
    desk.identity()
        .fault_injector(Route::AccessToken)
        .fail_next(1, slow);
    let form = [("device_code", device_code.as_str())];
    let request = desk.service.post_to("/auth/device/token").form(&form);
    let gone = request.timeout(Duration::from_millis(100)).send().await;
    assert!(gone.unwrap_err().is_timeout());
    eventually("the token is kept", async || {
        let kept = "select count(*) as n from device_codes where state = 'authorized'";
        desk.service.count(kept).await == 1
    })
    .await;
    let answer = desk.poll(&device_code).await;
    assert_eq!(answer.status, 200);
    assert_eq!(desk.identity().tokens().len(), 1);
    desk.stop().await;
}

/// Faults, S11.
#[tokio::test]
async fn sixty_four_pollers_on_two_replicas_are_one_to_the_provider_and_all_get_the_token() {
    let desk = desk().await;
    let other = with_identity(service(), &desk.sandbox);
    let other = other.without_workers().clock(&desk.clock);
    let other = other.start_beside(&desk.service).await;
    let (device_code, user_code) = desk.code().await;
    let all = async || {
        let replicas = [&desk.service, &other];
        let polls = (0..64).map(|n| poll(replicas[n % 2], &device_code));
        let answers = join_all(polls).await;
        let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        statuses.sort_unstable();
        statuses.dedup();
        statuses
    };
    for round in 1..=3 {
        let statuses = all().await;
        assert_eq!(statuses, [428, 429]);
        assert_eq!(desk.identity().polls(&device_code).len(), round);
        desk.pass(5);
    }
    desk.identity().approve(&user_code, "octavia").unwrap();
    let statuses = all().await;
    assert!(statuses == [200, 429] || statuses == [200], "{statuses:?}");
    assert_eq!(all().await, [200]);
    let polls = desk.identity().polls(&device_code);
    assert_eq!(polls.len(), 4);
    assert!(polls.iter().all(|poll| poll.answer != "slow_down"));
    assert_eq!(desk.identity().tokens().len(), 1);
    assert!(desk.asked(Route::User) <= 2, "once a replica");
    let mut other = other;
    other.halt().await;
    desk.stop().await;
}

#[tokio::test]
async fn a_client_begins_five_logins_in_a_quarter_of_an_hour_on_all_replicas_together() {
    let desk = desk().await;
    let other = with_identity(service(), &desk.sandbox);
    let other = other.without_workers().clock(&desk.clock);
    let mut other = other.start_beside(&desk.service).await;
    // One that came to nothing by no fault of the client is not counted.
    let route = desk.identity().fault_injector(Route::DeviceCode);
    route.fail_next(1, Fault::Status(500));
    assert_eq!(desk.begin().await.status, 503);
    for round in 0..5 {
        let replica = [&desk.service, &other][round % 2];
        let request = replica.post_to("/auth/device/code");
        let forged = format!("198.51.100.{round}");
        let request = request.header("X-Forwarded-For", forged);
        assert_eq!(request.send().await.unwrap().status(), 200);
        desk.pass(60);
    }
    let refused = desk.begin().await;
    assert_eq!((refused.status, refused.retry_after), (429, Some(600)));
    assert_eq!(refused.code.as_deref(), Some("AUTH_006"));
    assert_eq!(refused.body["detail"], "Rate limit exceeded");
    assert_eq!(desk.asked(Route::DeviceCode), 6);
    desk.pass(599);
    assert_eq!(desk.begin().await.retry_after, Some(1));
    desk.pass(1);
    assert_eq!(desk.begin().await.status, 200);
    assert_eq!(desk.begin().await.retry_after, Some(60));
    other.halt().await;
    desk.stop().await;
}

/// Faults, C8.
#[tokio::test]
async fn a_database_that_stands_still_does_not_hold_who_logs_in() {
    let desk = desk().await;
    let (device_code, _) = desk.code().await;
    let url = &desk.service.parts.config.database_url;
    let other = Db::open(url, 1).await.unwrap();
    let mut tx = other.begin().await.unwrap();
    if is_distributed() {
        for lock in [
            "lock table device_code_requests in access exclusive mode",
            "lock table device_codes in access exclusive mode",
        ] {
            tx.query(lock).execute().await.unwrap();
        }
    }
    let answered = async |request: RequestBuilder| {
        let answered = tokio::time::timeout(Duration::from_millis(1500), request.send());
        read(answered.await.expect("an answer").unwrap()).await
    };
    let answer = answered(desk.service.post_to("/auth/device/code")).await;
    assert_eq!((answer.status, answer.retry_after), (503, Some(2)));
    assert_eq!(answer.code, None);
    let detail = "Temporarily unavailable, try again later";
    let error = "temporarily_unavailable";
    assert_eq!(answer.body, json!({"detail": detail, "error": error}));
    let poll = desk.service.post_to("/auth/device/token");
    let answer = answered(poll.body(format!("device_code={device_code}"))).await;
    assert_eq!((answer.status, answer.retry_after), (428, None));
    assert_eq!(answer.body["error"], "authorization_pending");
    tx.rollback().await.unwrap();
    other.close().await;
    eventually("it goes on", async || {
        desk.poll(&device_code).await.status == 428
    })
    .await;
    desk.stop().await;
}
