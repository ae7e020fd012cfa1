//! The control requests of the identity provider, and its faults.

use std::time::Duration;

use reqwest::Method;
use sandbox::{Fault, Route, Sandbox};
use serde_json::{Value, json};

use crate::support::device::{Device, api, ask_code, ask_token, clocked, token};
use crate::support::{NOW, client, read, sandbox};

async fn control(sandbox: &Sandbox, path: &str, body: &Value) -> u16 {
    let url = format!("{}/_control/identity/{path}", sandbox.url());
    let reported = client().post(url).json(body).send().await.unwrap();
    reported.status().as_u16()
}

async fn status(request: reqwest::RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn codes_are_decided_about_over_http() {
    let (sandbox, clock) = clocked().await;
    let (first, second) = (
        Device::start(&sandbox, &clock).await,
        Device::start(&sandbox, &clock).await,
    );
    let third = Device::start(&sandbox, &clock).await;
    let approval = json!({"user_code": first.user_code, "login": "octavia"});
    assert_eq!(control(&sandbox, "approve", &approval).await, 204);
    assert_eq!(
        control(&sandbox, "deny", &json!({"user_code": second.user_code})).await,
        204
    );
    assert_eq!(
        control(&sandbox, "expire", &json!({"user_code": third.user_code})).await,
        204
    );
    assert_eq!(first.poll().await["token_type"], "bearer");
    assert_eq!(second.poll().await["error"], "access_denied");
    assert_eq!(third.poll().await["error"], "expired_token");
    assert_eq!(control(&sandbox, "approve", &approval).await, 422, "used");
}

#[tokio::test]
async fn the_rules_are_set_over_http() {
    let (sandbox, clock) = clocked().await;
    let rules = json!({
        "expires_in": 60,
        "interval": 2,
        "unknown_after_approval": 1,
        "granted": ["read:user"],
        "calls_per_hour": 3,
        "lock_after": 1,
        "lock_seconds": 10,
    });
    assert_eq!(control(&sandbox, "rules", &rules).await, 204);
    let (_, given) = read(ask_code(&sandbox, "").send().await.unwrap()).await;
    assert_eq!(
        (&given["expires_in"], &given["interval"]),
        (&json!(60), &json!(2))
    );
    let device = Device::start(&sandbox, &clock).await;
    sandbox
        .identity()
        .approve(&device.user_code, "octavia")
        .unwrap();
    assert_eq!(device.poll().await["error"], "incorrect_device_code");
    let given = device.poll_after(2).await;
    assert_eq!(given["scope"], "read:user");
    let token = given["access_token"].as_str().unwrap();
    let answer = api(&sandbox, "/user", token).send().await.unwrap();
    assert_eq!(answer.headers()["X-RateLimit-Limit"], "3");
    assert_eq!(status(api(&sandbox, "/user", "gho_x")).await, 401);
    assert_eq!(status(api(&sandbox, "/user", token)).await, 403);
    clock.advance(Duration::from_secs(10));
    assert_eq!(status(api(&sandbox, "/user", token)).await, 200);
    assert_eq!(
        control(&sandbox, "rules", &json!({"device_flow": false})).await,
        204
    );
    let (status, given) = read(ask_code(&sandbox, "").send().await.unwrap()).await;
    assert_eq!(
        (status, &given["error"]),
        (400, &json!("device_flow_disabled"))
    );
    assert_eq!(control(&sandbox, "rules", &json!({})).await, 204);
    let (_, given) = read(ask_code(&sandbox, "").send().await.unwrap()).await;
    assert_eq!(given["interval"], 5, "what is not named is as usual");
}

#[tokio::test]
async fn polls_are_slowed_down_and_limits_set_over_http() {
    let (sandbox, clock) = clocked().await;
    let device = Device::start(&sandbox, &clock).await;
    assert_eq!(
        control(&sandbox, "slow_down", &json!({"polls": 1})).await,
        204
    );
    assert_eq!(device.poll().await["error"], "slow_down");
    let token = token(&sandbox, "octavia");
    let primary = json!({"limit": "primary", "seconds": 60, "status": 429});
    assert_eq!(control(&sandbox, "limit", &primary).await, 204);
    let answer = api(&sandbox, "/user", &token).send().await.unwrap();
    assert_eq!(answer.status(), 429);
    assert_eq!(answer.headers()["X-RateLimit-Remaining"], "0");
    let secondary = json!({"limit": "secondary", "seconds": 60, "retry_after": 5});
    assert_eq!(control(&sandbox, "limit", &secondary).await, 204);
    let answer = api(&sandbox, "/user", &token).send().await.unwrap();
    assert_eq!(answer.status(), 403);
    assert_eq!(answer.headers()["Retry-After"], "5");
    let lifted = client()
        .delete(format!("{}/_control/identity/limit", sandbox.url()))
        .send();
    assert_eq!(lifted.await.unwrap().status(), 204);
    assert_eq!(status(api(&sandbox, "/user", &token)).await, 200);
}

#[tokio::test]
async fn users_and_tokens_are_made_over_http() {
    let sandbox = sandbox().await;
    let url = |path: &str| format!("{}/_control/identity/{path}", sandbox.url());
    let ada = json!({
        "login": "ada",
        "name": "Ada",
        "emails": [{"email": "ada@example.com", "primary": true, "verified": true}],
    });
    let added = client().post(url("user")).json(&ada).send().await.unwrap();
    let (found, added) = read(added).await;
    assert_eq!(found, 200);
    let asked = client().post(url("token")).json(&json!({"login": "ada"}));
    let (_, given) = read(asked.send().await.unwrap()).await;
    let token = given["token"].as_str().unwrap();
    let (found, user) = read(api(&sandbox, "/user", token).send().await.unwrap()).await;
    assert_eq!((found, &user["id"]), (200, &added["id"]));
    let emails = api(&sandbox, "/user/emails", token).send().await.unwrap();
    let expected = json!([{
        "email": "ada@example.com",
        "primary": true,
        "verified": true,
        "visibility": null,
    }]);
    assert_eq!(read(emails).await, (200, expected));
    assert_eq!(
        control(&sandbox, "revoke", &json!({"token": token})).await,
        204
    );
    assert_eq!(
        control(&sandbox, "revoke", &json!({"token": token})).await,
        422
    );
    assert_eq!(status(api(&sandbox, "/user", token)).await, 401);
    let none = json!({"login": "ada", "scopes": []});
    let asked = client()
        .post(url("token"))
        .json(&none)
        .send()
        .await
        .unwrap();
    let (_, given) = read(asked).await;
    let token = given["token"].as_str().unwrap();
    assert_eq!(status(api(&sandbox, "/user/emails", token)).await, 404);
}

#[tokio::test]
async fn any_answer_can_be_played_over_http_on_any_route() {
    let sandbox = sandbox().await;
    let code = || ask_code(&sandbox, "");
    let about = |method: Method| {
        let url = format!("{}/applications/x/token", sandbox.identity_api_url());
        client().request(method, url)
    };
    for (route, request) in [
        ("device_code", code()),
        ("access_token", ask_token(&sandbox, "x")),
        ("user", api(&sandbox, "/user", "x")),
        ("emails", api(&sandbox, "/user/emails", "x")),
        ("check_token", about(Method::POST)),
        ("revoke_token", about(Method::DELETE)),
    ] {
        let answer = json!({
            "route": route,
            "status": 299,
            "headers": {"X-Route": route},
            "body": {"route": route},
        });
        assert_eq!(control(&sandbox, "answer", &answer).await, 204);
        let again = request.try_clone().unwrap();
        let given = request.send().await.unwrap();
        assert_eq!(given.headers()["X-Route"], route);
        assert_eq!(read(given).await, (299, json!({"route": route})));
        assert_ne!(status(again).await, 299, "once");
    }
    let html = json!({"route": "device_code", "times": 2, "status": 502, "body": "<h1>Oh</h1>"});
    assert_eq!(control(&sandbox, "answer", &html).await, 204);
    for _ in 0..2 {
        let given = code().send().await.unwrap();
        assert_eq!(given.status(), 502);
        assert_eq!(given.text().await.unwrap(), "<h1>Oh</h1>");
    }
    assert_eq!(status(code()).await, 200);
}

#[tokio::test]
async fn faults_are_of_one_route_or_of_all() {
    let (sandbox, clock) = clocked().await;
    let good = token(&sandbox, "octavia");
    let url = format!("{}/_control/faults", sandbox.url());
    let set = |body: Value| client().post(&url).json(&body).send();
    let one = json!({"provider": "identity", "route": "user", "fault": "status", "status": 503, "times": 1});
    let (found, faults) = read(set(one).await.unwrap()).await;
    assert_eq!((found, faults), (200, json!(["status 503, for 1 more"])));
    assert_eq!(status(api(&sandbox, "/user/emails", &good)).await, 200);
    let (found, said) = read(api(&sandbox, "/user", &good).send().await.unwrap()).await;
    assert_eq!((found, &said["status"]), (503, &json!("503")));
    assert_eq!(status(api(&sandbox, "/user", &good)).await, 200);
    let all = json!({"provider": "identity", "fault": "html"});
    assert_eq!(set(all).await.unwrap().status(), 200);
    assert_eq!(status(ask_code(&sandbox, "")).await, 502);
    assert_eq!(status(api(&sandbox, "/user/emails", &good)).await, 502);
    assert_eq!(client().delete(&url).send().await.unwrap().status(), 204);
    let device = Device::start(&sandbox, &clock).await;
    sandbox
        .identity()
        .approve(&device.user_code, "octavia")
        .unwrap();
    sandbox
        .identity()
        .fault_injector(Route::AccessToken)
        .fail_next(1, Fault::Lose);
    let lost = ask_token(&sandbox, &device.code).send().await;
    assert!(lost.is_err(), "{lost:?}");
    let after = device.poll_after(5).await;
    assert_eq!(
        after["error"], "incorrect_device_code",
        "the token was given out"
    );
    sandbox.identity().fail(Fault::Timeout);
    let hangs = api(&sandbox, "/user", &good).timeout(Duration::from_millis(300));
    assert!(hangs.send().await.unwrap_err().is_timeout());
    sandbox.identity().clear_faults();
    assert_eq!(status(api(&sandbox, "/user", &good)).await, 200);
}

#[tokio::test]
async fn the_state_says_codes_polls_tokens_and_requests() {
    let (sandbox, clock) = clocked().await;
    let device = Device::start(&sandbox, &clock).await;
    device.poll().await;
    sandbox
        .identity()
        .approve(&device.user_code, "octavia")
        .unwrap();
    let given = device.poll_after(5).await;
    let state = client().get(format!("{}/_control/state", sandbox.url()));
    let (_, state) = read(state.send().await.unwrap()).await;
    let identity = &state["identity"];
    let at = |seconds| NOW.plus(Duration::from_secs(seconds)).to_string();
    let code = json!({
        "device_code": device.code,
        "user_code": device.user_code,
        "state": "spent",
        "login": "octavia",
        "scopes": ["read:user", "user:email"],
        "expires_at": at(900),
        "interval": 5,
        "polls": [
            {"at": at(0), "answer": "authorization_pending"},
            {"at": at(5), "answer": "access_token"},
        ],
    });
    assert_eq!(identity["codes"], json!([code]));
    let token = json!({
        "token": given["access_token"],
        "login": "octavia",
        "scopes": ["read:user", "user:email"],
        "live": true,
    });
    assert_eq!(identity["tokens"], json!([token]));
    let users = json!(["octavia", "petra", "noah", "ulla", "manuela", "nemo"]);
    assert_eq!(identity["users"], users);
    let route = &identity["routes"]["access_token"];
    assert_eq!(
        (&route["requests"], &route["answers"]),
        (&json!(2), &json!({"200": 2}))
    );
    assert_eq!(identity["limited_until"], Value::Null);
}

#[tokio::test]
async fn what_cannot_be_reported_is_refused_with_what_is_expected() {
    let sandbox = sandbox().await;
    for (path, body, part) in [
        (
            "approve",
            json!({"user_code": "x", "login": "octavia"}),
            "no such code",
        ),
        (
            "approve",
            json!({"user_code": "x", "login": "x"}),
            "no such user",
        ),
        ("approve", json!({"user_code": "x"}), "`login`"),
        ("deny", json!({"user_code": "x"}), "no such code"),
        ("expire", json!({"user_code": "x"}), "no such code"),
        ("rules", json!({"interval": 3601}), "0 to 3600"),
        ("rules", json!({"expires_in": 0}), "1 to 86400"),
        ("rules", json!({"intervall": 1}), "`interval`"),
        ("slow_down", json!({}), "`polls`"),
        (
            "limit",
            json!({"limit": "primary", "seconds": 1, "status": 500}),
            "403 or 429",
        ),
        (
            "limit",
            json!({"limit": "primary", "seconds": 1, "retry_after": 1}),
            "secondary",
        ),
        (
            "limit",
            json!({"limit": "other", "seconds": 1}),
            "`secondary`",
        ),
        ("answer", json!({"route": "users"}), "`user`"),
        (
            "answer",
            json!({"route": "user", "status": 100}),
            "200 to 599",
        ),
        (
            "answer",
            json!({"route": "user", "headers": {"a b": ""}}),
            "a b",
        ),
        (
            "answer",
            json!({"route": "user", "headers": {"a": "b\n"}}),
            "cannot be sent",
        ),
        ("token", json!({"login": "x"}), "no such user"),
        ("user", json!({"login": "a/b"}), "hyphens"),
        ("user", json!({"login": "a", "emails": [{}]}), "`email`"),
    ] {
        let url = format!("{}/_control/identity/{path}", sandbox.url());
        let reported = client().post(&url).json(&body).send().await.unwrap();
        let (found, said) = read(reported).await;
        assert_eq!(found, 422, "{path} {body}");
        let detail = said["detail"].as_str().unwrap();
        assert!(detail.contains(part), "{part} in {detail}");
        let as_a_page_can = client().post(&url).body(body.to_string()).send();
        assert_eq!(as_a_page_can.await.unwrap().status(), 422);
    }
}
