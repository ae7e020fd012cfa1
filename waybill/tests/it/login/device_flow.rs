//! Device login: which answer a client gets at each step, how often the provider is asked, and
//! that no token is lost.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use sandbox::{Answer, Fault, Limit, LoginRules, Route};
use serde_json::{Value, json};
use store::device_codes;

use crate::support::login::{desk, desk_with, read};
use crate::support::{pause, service};

#[tokio::test]
async fn a_device_logs_in_and_learns_who_it_is() {
    let desk = desk().await;
    let begun = desk.begin().await;
    assert_eq!(begun.status, 200);
    let (device_code, user_code) = (&begun.body["device_code"], &begun.body["user_code"]);
    assert_eq!(
        begun.body,
        json!({
            "device_code": device_code,
            "user_code": user_code,
            "verification_uri": format!("{}/login/device", desk.sandbox.identity_url()),
            "expires_in": 900,
            "interval": 5,
        })
    );
    let device_code = device_code.as_str().unwrap();
    let pending = desk.poll(device_code).await;
    assert_eq!(pending.status, 428);
    assert_eq!(pending.code.as_deref(), Some("AUTH_003"));
    assert_eq!(
        pending.body,
        json!({"detail": "Authorization pending", "error": "authorization_pending"})
    );
    let user_code = user_code.as_str().unwrap();
    desk.identity().approve(user_code, "octavia").unwrap();
    desk.pass(5);
    let done = desk.poll(device_code).await;
    assert_eq!(done.status, 200);
    let token = done.body["access_token"].as_str().unwrap();
    assert_eq!(
        done.body,
        json!({
            "access_token": token,
            "token_type": "bearer",
            "scope": "read:user user:email",
            "email": "octavia@example.com",
            "username": "octavia",
            "tier": "free",
            "org_name": null,
        })
    );
    let validated = desk.validate(token).await;
    assert_eq!(validated.status, 200);
    assert_eq!(
        validated.body,
        json!({
            "tier": "free", "status": "active", "email": "octavia@example.com",
            "username": "octavia", "org_name": null,
        })
    );
    desk.stop().await;
}

#[tokio::test]
async fn answers_are_for_one_client_alone() {
    let desk = desk().await;
    for path in ["/auth/device/code", "/auth/device/token"] {
        let response = desk.service.post_to(path).send().await.unwrap();
        assert_eq!(response.headers()["cache-control"], "no-store", "{path}");
        assert_eq!(response.headers()["content-type"], "application/json");
    }
    let response = desk.service.get("/auth/validate").send().await.unwrap();
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert_eq!(response.headers()["www-authenticate"], "Bearer");
    desk.stop().await;
}

#[tokio::test]
async fn a_code_that_was_denied_expired_or_never_given_out_says_so() {
    let desk = desk().await;
    let (denied, user_code) = desk.code().await;
    desk.identity().deny(&user_code).unwrap();
    let (expired, _) = desk.code().await;
    let unknown = "3584d83530557fdd1f46af8289938c8ef79f9dc5";
    let answer = desk.poll(&denied).await;
    assert_eq!((answer.status, answer.code), (400, None));
    let body = json!({"detail": "access_denied", "error": "access_denied"});
    assert_eq!(answer.body, body);
    desk.pass(900);
    let asked = desk.asked(Route::AccessToken);
    assert_eq!(desk.poll(&denied).await.body, body);
    let answer = desk.poll(&expired).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.code.as_deref(), Some("AUTH_004"));
    assert_eq!(
        answer.body,
        json!({"detail": "expired_token", "error": "expired_token"})
    );
    for code in [unknown, "", "ü", &"x".repeat(5000)] {
        let answer = desk.poll(code).await;
        if code.is_empty() {
            assert_eq!(answer.status, 422);
            continue;
        }
        assert_eq!(answer.status, 404, "{code}");
        assert_eq!(answer.code.as_deref(), Some("AUTH_002"));
        assert_eq!(
            answer.body,
            json!({"detail": "Invalid device code", "error": "invalid_grant"})
        );
    }
    assert_eq!(desk.asked(Route::AccessToken), asked, "nobody was asked");
    desk.stop().await;
}

#[tokio::test]
async fn the_provider_says_that_a_code_is_over_before_its_time() {
    let desk = desk().await;
    let (device_code, user_code) = desk.code().await;
    desk.identity().expire(&user_code).unwrap();
    for _ in 0..2 {
        assert_eq!(desk.poll(&device_code).await.body["error"], "expired_token");
    }
    assert_eq!(desk.asked(Route::AccessToken), 1);
    desk.stop().await;
}

#[tokio::test]
async fn the_form_may_be_json_or_a_query_and_is_checked() {
    let desk = desk().await;
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "petra").unwrap();
    let path = "/auth/device/token";
    let legacy = format!("{path}?device_code={device_code}");
    let answer = read(desk.service.get(&legacy).send().await.unwrap()).await;
    assert_eq!(answer.status, 200);
    let body = json!({"device_code": device_code}).to_string();
    let as_json = desk.service.post_to(path).body(body);
    let as_json = as_json.header(CONTENT_TYPE, "application/json; charset=utf-8");
    assert_eq!(read(as_json.send().await.unwrap()).await.body, answer.body);
    for (form, status, error) in [
        ("", 422, "invalid_request"),
        ("device_code=", 422, "invalid_request"),
        ("device_code=a&device_code=a", 422, "invalid_request"),
        (
            "device_code=a&grant_type=password",
            400,
            "unsupported_grant_type",
        ),
        // Without a value it counts as omitted.
        ("device_code=a&grant_type=", 404, "invalid_grant"),
        (
            "device_code=a&grant_type=x&grant_type=x",
            422,
            "invalid_request",
        ),
    ] {
        let request = desk.service.post_to(path).body(form);
        let answer = read(request.send().await.unwrap()).await;
        assert_eq!(
            (answer.status, &answer.body["error"]),
            (status, &json!(error)),
            "{form}"
        );
        assert!(answer.body["detail"].is_string());
    }
    let kind = "Application/JSON";
    let upper = desk.service.post_to(path).header(CONTENT_TYPE, kind);
    let body = json!({"device_code": device_code}).to_string();
    assert_eq!(upper.body(body).send().await.unwrap().status(), 200);
    let packed = desk.service.post_to(path).body("device_code=a");
    let packed = packed.header("Content-Encoding", "gzip");
    assert_eq!(packed.send().await.unwrap().status(), 415);
    let huge = desk.service.post_to(path).body("x".repeat(20_000));
    assert_eq!(huge.send().await.unwrap().status(), 413);
    desk.stop().await;
}

#[tokio::test]
async fn a_request_for_headers_alone_polls_nothing() {
    let desk = desk().await;
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "petra").unwrap();
    let path = format!("/auth/device/token?device_code={device_code}");
    let mut request = desk.service.get(&path).build().unwrap();
    *request.method_mut() = Method::HEAD;
    let response = reqwest::Client::new().execute(request).await.unwrap();
    assert_eq!(response.status(), 405);
    assert_eq!(response.headers()["allow"], "GET, POST");
    assert_eq!(desk.asked(Route::AccessToken), 0);
    desk.stop().await;
}

#[tokio::test]
async fn a_poll_before_its_time_is_asked_to_wait_and_is_not_passed_on() {
    let desk = desk().await;
    let (device_code, _) = desk.code().await;
    assert_eq!(desk.poll(&device_code).await.status, 428);
    desk.pass(2);
    let early = desk.poll(&device_code).await;
    assert_eq!((early.status, early.retry_after), (429, Some(3)));
    assert_eq!(early.code.as_deref(), Some("AUTH_006"));
    assert_eq!(
        early.body,
        json!({"detail": "Rate limit exceeded", "error": "slow_down"})
    );
    assert_eq!(desk.asked(Route::AccessToken), 1);
    desk.pass(3);
    assert_eq!(desk.poll(&device_code).await.status, 428);
    assert_eq!(desk.asked(Route::AccessToken), 2);
    desk.stop().await;
}

#[tokio::test]
async fn a_client_that_counts_the_interval_from_its_own_request_is_not_told_to_slow_down() {
    let desk = desk().await;
    let (device_code, user_code) = desk.code().await;
    assert_eq!(desk.poll(&device_code).await.status, 428);
    // Its interval is over, and that since the provider's answer is not.
    desk.clock.advance(Duration::from_millis(4200));
    assert_eq!(desk.poll(&device_code).await.status, 428);
    assert_eq!(desk.asked(Route::AccessToken), 1, "nor is it passed on");
    desk.identity().approve(&user_code, "petra").unwrap();
    desk.clock.advance(Duration::from_millis(4200));
    assert_eq!(desk.poll(&device_code).await.status, 200);
    desk.stop().await;
}

#[tokio::test]
async fn the_interval_grows_when_the_provider_says_so_and_stays_grown() {
    let desk = desk().await;
    let (device_code, user_code) = desk.code().await;
    desk.identity().slow_down(1);
    let slower = desk.poll(&device_code).await;
    assert_eq!((slower.status, slower.retry_after), (429, Some(10)));
    assert_eq!(slower.body["error"], "slow_down");
    for _ in 0..2 {
        desk.pass(9);
        assert_eq!(desk.poll(&device_code).await.retry_after, Some(1));
        desk.pass(1);
        assert_eq!(desk.poll(&device_code).await.status, 428);
    }
    desk.identity().approve(&user_code, "petra").unwrap();
    desk.pass(10);
    assert_eq!(desk.poll(&device_code).await.status, 200);
    let polls = desk.identity().polls(&device_code);
    let slow = polls.iter().filter(|poll| poll.answer == "slow_down");
    assert_eq!(slow.count(), 1, "{polls:?}");
    desk.stop().await;
}

#[tokio::test]
async fn a_code_that_is_unknown_for_a_moment_after_approval_is_not_given_up() {
    let desk = desk().await;
    desk.identity().set_rules(LoginRules {
        unknown_after_approval: 1,
        ..LoginRules::default()
    });
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "petra").unwrap();
    assert_eq!(desk.poll(&device_code).await.status, 428);
    desk.pass(5);
    assert_eq!(desk.poll(&device_code).await.status, 200);
    desk.stop().await;
}

#[tokio::test]
async fn a_code_that_stays_unknown_is_given_up() {
    let desk = desk().await;
    desk.identity().set_rules(LoginRules {
        unknown_after_approval: 9,
        ..LoginRules::default()
    });
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "petra").unwrap();
    assert_eq!(desk.poll(&device_code).await.status, 428);
    desk.pass(5);
    assert_eq!(desk.poll(&device_code).await.status, 404);
    desk.pass(5);
    assert_eq!(desk.poll(&device_code).await.status, 404);
    assert_eq!(desk.asked(Route::AccessToken), 2);
    desk.stop().await;
}

#[tokio::test]
async fn a_lost_answer_is_fetched_again_for_a_minute() {
    let desk = desk().await;
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "octavia").unwrap();
    let first = desk.poll(&device_code).await;
    assert_eq!(first.status, 200);
    desk.pass(59);
    let again = desk.poll(&device_code).await;
    assert_eq!((again.status, again.body), (200, first.body));
    assert_eq!(desk.asked(Route::AccessToken), 1);
    desk.pass(1);
    assert_eq!(desk.poll(&device_code).await.status, 404);
    let kept = "select count(*) as n from device_codes where token is not null";
    let now = desk.clock.now();
    device_codes::forget(desk.service.db(), now, now)
        .await
        .unwrap();
    assert_eq!(desk.service.count(kept).await, 0);
    desk.stop().await;
}

#[tokio::test]
async fn a_login_is_not_lost_while_every_wait_is_obeyed() {
    let desk = desk().await;
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "octavia").unwrap();
    let limited = Limit::Secondary {
        status: 403,
        retry_after: Some(Duration::from_mins(5)),
    };
    desk.identity().limit(limited, Duration::from_secs(1));
    let mut passed = 0;
    let done = loop {
        let answer = desk.poll(&device_code).await;
        let wait = match answer.status {
            // What may pass soon is pending, so that no client gives the login up.
            428 => 5,
            503 => answer.retry_after.unwrap(),
            _ => break answer,
        };
        assert!(wait <= 60, "{answer:?}");
        desk.pass(wait);
        passed += wait;
    };
    assert_eq!((done.status, passed), (200, 300));
    assert_eq!(desk.asked(Route::AccessToken), 1);
    desk.pass(59);
    assert_eq!(desk.poll(&device_code).await.body, done.body);
    desk.pass(1);
    assert_eq!(
        desk.poll(&device_code).await.status,
        404,
        "a minute after the first answer"
    );
    let kept = "select count(*) as n from device_codes where token is not null";
    let now = desk.clock.now();
    device_codes::forget_tokens(desk.service.db(), now)
        .await
        .unwrap();
    assert_eq!(desk.service.count(kept).await, 0);
    desk.stop().await;
}

#[tokio::test]
async fn a_login_that_was_granted_at_the_last_moment_outlives_its_code_by_a_wait() {
    let desk = desk().await;
    let (device_code, user_code) = desk.code().await;
    desk.pass(895);
    desk.identity().approve(&user_code, "octavia").unwrap();
    let limited = Limit::Secondary {
        status: 429,
        retry_after: None,
    };
    desk.identity().limit(limited, Duration::from_secs(1));
    assert_eq!(desk.poll(&device_code).await.status, 428);
    desk.pass(60);
    assert_eq!(desk.poll(&device_code).await.status, 200);
    desk.stop().await;
}

/// Right after it gave a token out the provider may not know it yet.
#[tokio::test]
async fn a_token_that_is_unknown_right_after_the_grant_leaves_the_login_pending() {
    let desk = desk().await;
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "octavia").unwrap();
    let unknown = Answer {
        status: 401,
        headers: vec![("content-type".into(), "application/json".into())],
        body: r#"{"message":"Bad credentials","status":"401"}"#.into(),
    };
    desk.identity().answer_next(Route::User, 1, unknown.clone());
    for _ in 0..2 {
        let answer = desk.poll(&device_code).await;
        assert_eq!(
            (answer.status, answer.code.as_deref()),
            (428, Some("AUTH_003"))
        );
        desk.pass(5);
    }
    assert_eq!(desk.poll(&device_code).await.status, 200);
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "petra").unwrap();
    desk.identity().answer_next(Route::User, 2, unknown);
    assert_eq!(desk.poll(&device_code).await.status, 428);
    desk.pass(10);
    let answer = desk.poll(&device_code).await;
    assert_eq!(answer.status, 401, "said twice it is true");
    assert_eq!(answer.body["error"], "invalid_grant");
    desk.stop().await;
}

#[tokio::test]
async fn a_token_is_not_lost_when_nobody_can_say_whose_it_is() {
    let desk = desk().await;
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "octavia").unwrap();
    let down = Fault::Status(502);
    desk.identity()
        .fault_injector(Route::User)
        .fail_next(1, down);
    let answer = desk.poll(&device_code).await;
    assert_eq!(answer.status, 428);
    assert_eq!(answer.body["error"], "authorization_pending");
    desk.pass(5);
    assert_eq!(desk.poll(&device_code).await.status, 200);
    assert_eq!(desk.asked(Route::AccessToken), 1);
    desk.stop().await;
}

#[tokio::test]
async fn an_outage_of_the_provider_leaves_a_login_pending() {
    let desk = desk().await;
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "octavia").unwrap();
    let route = desk.identity().fault_injector(Route::AccessToken);
    for fault in [Fault::Status(500), Fault::Html, Fault::RateLimit] {
        route.fail_next(1, fault);
        let answer = desk.poll(&device_code).await;
        assert_eq!(answer.status, 428, "{fault}: {answer:?}");
        desk.pass(5);
    }
    assert_eq!(desk.poll(&device_code).await.status, 200);
    let route = desk.identity().fault_injector(Route::DeviceCode);
    route.fail_next(1, Fault::Status(503));
    let answer = desk.begin().await;
    assert_eq!((answer.status, answer.retry_after), (503, Some(5)));
    desk.stop().await;
}

/// Clients give a login up at an answer that RFC 8628 does not have, so only an outage of a minute is said.
#[tokio::test]
async fn an_outage_is_said_after_a_minute_and_what_passes_sooner_is_pending() {
    let desk = desk().await;
    let (device_code, user_code) = desk.code().await;
    let route = desk.identity().fault_injector(Route::AccessToken);
    route.fail(Fault::Status(502));
    let mut statuses = Vec::new();
    for _ in 0..13 {
        let answer = desk.poll(&device_code).await;
        statuses.push((
            answer.status,
            answer.body["error"].as_str().map(str::to_owned),
        ));
        desk.pass(5);
    }
    let pending = (428, Some("authorization_pending".to_owned()));
    assert_eq!(statuses[..12], vec![pending; 12]);
    let said = (503, Some("temporarily_unavailable".to_owned()));
    assert_eq!(statuses[12], said);
    // Operators see each of them.
    let metrics = desk.service.get("/metrics").send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    let counted = r#"waybill_login_polls_total{outcome="provider"} 13"#;
    assert!(metrics.contains(counted), "{metrics}");
    route.clear_faults();
    assert_eq!(desk.poll(&device_code).await.status, 428);
    desk.pass(5);
    // It answers, but for one poll in three: the outage is another one each time.
    for nth in 0..20 {
        if nth % 3 == 0 {
            let faults = [Fault::Status(502), Fault::Html, Fault::Lose];
            route.fail_next(1, faults[nth / 3 % 3]);
        }
        assert_eq!(desk.poll(&device_code).await.status, 428, "{nth}");
        desk.pass(5);
    }
    desk.identity().approve(&user_code, "octavia").unwrap();
    assert_eq!(desk.poll(&device_code).await.status, 200);
    desk.stop().await;
}

/// A clock that was set back by ten minutes, or another process whose clock is ahead, has left a time that is
/// further ahead than any pause.
#[tokio::test]
async fn a_next_poll_that_is_far_ahead_is_due_now() {
    let desk = desk().await;
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "octavia").unwrap();
    desk.service
        .execute("update device_codes set next_poll_at = next_poll_at + 600000")
        .await;
    assert_eq!(desk.poll(&device_code).await.status, 200);
    desk.stop().await;
}

#[tokio::test]
async fn who_polls_while_the_provider_is_down_is_not_reported_to_slow_down() {
    let desk = desk().await;
    let (device_code, _) = desk.code().await;
    let route = desk.identity().fault_injector(Route::AccessToken);
    route.fail_next(1, Fault::Status(500));
    assert_eq!(desk.poll(&device_code).await.status, 428);
    desk.pass(3);
    let answer = desk.poll(&device_code).await;
    assert_eq!((answer.status, answer.retry_after), (428, None));
    assert_eq!(answer.body["error"], "authorization_pending");
    desk.pass(2);
    assert_eq!(desk.poll(&device_code).await.status, 428);
    desk.pass(1);
    let early = desk.poll(&device_code).await;
    assert_eq!((early.status, early.retry_after), (429, Some(4)));
    assert_eq!(desk.asked(Route::AccessToken), 2);
    desk.stop().await;
}

#[tokio::test]
async fn a_provider_that_limits_or_refuses_us_is_left_alone_for_as_long_as_it_says() {
    let limited = Answer {
        status: 429,
        headers: vec![("retry-after".into(), "120".into())],
        body: String::new(),
    };
    let misconfigured = Answer {
        status: 200,
        headers: vec![("content-type".into(), "application/json".into())],
        body: r#"{"error":"device_flow_disabled"}"#.into(),
    };
    for (answer, wait) in [(limited, 120), (misconfigured, 60)] {
        let desk = desk().await;
        desk.identity().answer_next(Route::DeviceCode, 2, answer);
        // The second would not be refused for having begun too many, either.
        for _ in 0..8 {
            let refused = desk.begin().await;
            assert_eq!((refused.status, refused.retry_after), (503, Some(wait)));
        }
        desk.pass(wait - 1);
        assert_eq!(desk.begin().await.retry_after, Some(1));
        assert_eq!(desk.asked(Route::DeviceCode), 1);
        desk.pass(1);
        assert_eq!(desk.begin().await.retry_after, Some(wait));
        desk.pass(wait);
        // Each question counted.
        for _ in 0..3 {
            assert_eq!(desk.begin().await.status, 200);
        }
        assert_eq!(desk.begin().await.status, 429);
        assert_eq!(desk.asked(Route::DeviceCode), 5);
        desk.stop().await;
    }
}

#[tokio::test]
async fn a_limit_on_polls_holds_for_every_login_and_loses_none() {
    let desk = desk().await;
    let (first, _) = desk.code().await;
    let (second, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "octavia").unwrap();
    let limited = Answer {
        status: 429,
        headers: vec![("retry-after".into(), "3600".into())],
        body: String::new(),
    };
    desk.identity().answer_next(Route::AccessToken, 1, limited);
    for code in [&first, &second] {
        let answer = desk.poll(code).await;
        assert_eq!((answer.status, answer.retry_after), (428, None));
    }
    assert_eq!(desk.asked(Route::AccessToken), 1);
    desk.pass(60);
    assert_eq!(desk.poll(&second).await.status, 200);
    desk.stop().await;
}

#[tokio::test]
async fn clients_behind_a_trusted_proxy_are_distinguished() {
    let desk = desk_with(|options| {
        options
            .setting("TRUSTED_PROXIES", "127.0.0.1")
            .setting("AUTH_DEVICE_CODES_PER_15_MINUTES", "1")
    })
    .await;
    for (client, status) in [
        ("198.51.100.1", 200),
        ("198.51.100.1", 429),
        ("198.51.100.2", 200),
        ("203.0.113.1, 198.51.100.2", 429),
        // Some proxies add the port.
        ("198.51.100.2:4711", 429),
        ("198.51.100.3:4711", 200),
        ("198.51.100.3:4712", 429),
        ("[2001:db8::1]:4711", 200),
        ("[2001:db8::1]", 429),
        ("2001:db8::1", 429),
    ] {
        let request = desk.service.post_to("/auth/device/code");
        let request = request.header("X-Forwarded-For", client);
        assert_eq!(request.send().await.unwrap().status(), status, "{client}");
    }
    desk.stop().await;
}

#[tokio::test]
async fn without_a_primary_verified_address_nobody_logs_in() {
    let desk = desk().await;
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "noah").unwrap();
    let answer = desk.poll(&device_code).await;
    assert_eq!((answer.status, answer.code), (403, None));
    assert_eq!(
        answer.body,
        json!({"detail": "No verified e-mail", "error": "access_denied"})
    );
    desk.identity().set_rules(LoginRules {
        granted: Some(vec!["read:user".into()]),
        ..LoginRules::default()
    });
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "octavia").unwrap();
    assert_eq!(desk.poll(&device_code).await.status, 403);
    desk.stop().await;
    let desk = desk_with(|options| options.setting("GITHUB_UNVERIFIED_EMAILS", "true")).await;
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "noah").unwrap();
    assert_eq!(
        desk.poll(&device_code).await.status,
        200,
        "an Enterprise server verifies none"
    );
    desk.stop().await;
}

#[tokio::test]
async fn a_client_finds_the_endpoints_of_a_login_by_itself() {
    let desk = desk().await;
    let asked = desk.service.get("/.well-known/oauth-authorization-server");
    let answer = asked.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["access-control-allow-origin"], "*");
    let found: Value = answer.json().await.unwrap();
    assert_eq!(found["issuer"], desk.service.url.as_str());
    let grants = &found["grant_types_supported"];
    assert_eq!(
        *grants,
        json!(["urn:ietf:params:oauth:grant-type:device_code"])
    );
    assert_eq!(found["response_types_supported"], json!([]));
    let begin = found["device_authorization_endpoint"].as_str().unwrap();
    let begun = reqwest::Client::new().post(begin).send().await.unwrap();
    let begun: Value = begun.json().await.unwrap();
    let poll = found["token_endpoint"].as_str().unwrap();
    let code = begun["device_code"].as_str().unwrap();
    desk.clock.advance(Duration::from_secs(5));
    let form = [
        ("device_code", code),
        ("grant_type", grants[0].as_str().unwrap()),
    ];
    let polled = reqwest::Client::new().post(poll).form(&form).send().await;
    assert_eq!(polled.unwrap().status(), 428, "it is pending");
    desk.service.stop().await;
}

#[tokio::test]
async fn where_login_is_not_set_up_everyone_gets_that_answer() {
    let service = service().without_workers().start().await;
    for request in [
        service.post_to("/auth/device/code"),
        service.post_to("/auth/device/token").body("device_code=a"),
        service.get("/auth/validate").bearer_auth("gho_a"),
        service.get("/.well-known/oauth-authorization-server"),
    ] {
        let answer = read(request.send().await.unwrap()).await;
        assert_eq!((answer.status, answer.retry_after), (503, Some(60)));
        assert_eq!(answer.body["detail"], "Login is not set up here");
    }
    service.stop().await;
}

/// Nobody who reads the database learns a token, a device code or an address.
#[tokio::test]
async fn nothing_secret_is_at_rest_in_clear() {
    let desk = desk().await;
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "octavia").unwrap();
    let token = desk.poll(&device_code).await.body["access_token"].to_string();
    let token = token.trim_matches('"').to_owned();
    let path = desk.service.backend.database_url.clone();
    let path = path.strip_prefix("sqlite://").unwrap().to_owned();
    // The log is written by then, whether it was folded in or not.
    pause(Duration::from_millis(50)).await;
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend(std::fs::read(format!("{path}-wal")).unwrap_or_default());
    let holds = |text: &str| {
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    };
    assert!(holds("octavia"), "the right file is looked at");
    for secret in [
        token.as_str(),
        &device_code,
        &user_code,
        "octavia@",
        "example.com",
    ] {
        assert!(!holds(secret), "{secret}");
    }
    desk.stop().await;
}
