//! `GET /auth/validate` and `GET /templates/list`: answers come from memory for at most ten
//! seconds, and a good token is never called bad.

use std::time::Duration;

use domain::job::Queue;
use domain::license::Tier;
use futures_util::future::join_all;
use reqwest::RequestBuilder;
use sandbox::{Answer, Email, Fault, Limit, LoginRules, Route, Sandbox, User, made_up_token};
use serde_json::{Value, json};
use store::licenses::{self, Grant, Owner};
use store::orgs;
use store::users::{self, Named};
use workers::Worker;

use crate::support::login::{Desk, desk, desk_with, read, validate, with_identity};
use crate::support::operator::said;
use crate::support::{Options, service};

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

/// Grants an organization a tier and makes someone its member.
async fn join_org(desk: &Desk, login: &str, org: &str, tier: Tier) {
    let mut tx = desk.service.db().begin().await.unwrap();
    let named = Named::Login(login.to_owned());
    let user = users::find_or_invite(&mut tx, &desk.clock, &named).await;
    let org = orgs::create(&mut tx, &desk.clock, org, None).await.unwrap();
    let org = org.unwrap().id;
    let now = desk.clock.now();
    assert!(
        orgs::add_member(&mut tx, org, user.unwrap().id, now)
            .await
            .unwrap()
    );
    let grant = Grant {
        tier,
        owner: Owner::Org(org),
        expires_at: Some(now.plus(Duration::from_mins(10))),
        subscription_id: None,
        subscription_item: None,
    };
    licenses::grant(&mut tx, &desk.clock, &grant).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_missing_or_malformed_header_is_distinguished_from_a_bad_token() {
    let desk = desk().await;
    let get = || desk.service.get("/auth/validate");
    let malformed = [
        get(),
        get().header("Authorization", ""),
        get().header("Authorization", "Bearer"),
        get().header("Authorization", "Bearer "),
        get().header("Authorization", "Basic Z2hvOng="),
        get().header("Authorization", "gho_16C7e42F292c6912E7710c838347Ae178B4a"),
        get().header("Authorization", "Bearer gho_a gho_b"),
        get().header("Authorization", "Bearer g\u{fc}te"),
        get()
            .bearer_auth("gho_a")
            .header("Authorization", "Bearer gho_b"),
        get().bearer_auth("x".repeat(5000)),
    ];
    for request in malformed {
        let answer = read(request.send().await.unwrap()).await;
        assert_eq!(answer.status, 401);
        assert_eq!(answer.code.as_deref(), Some("AUTH_001"));
        let detail = json!({"detail": "Missing or invalid Authorization header"});
        assert_eq!(answer.body, detail);
    }
    assert_eq!(desk.asked(Route::CheckToken), 0, "nobody was asked");
    let answer = desk
        .validate("gho_16C7e42F292c6912E7710c838347Ae178B4a")
        .await;
    assert_eq!(answer.status, 401);
    assert_eq!(answer.code.as_deref(), Some("AUTH_007"));
    assert_eq!(answer.body, json!({"detail": "Invalid GitHub token"}));
    let token = desk.log_in("octavia").await;
    let lower = get().header("authorization", format!("bearer   {token} "));
    assert_eq!(status(lower).await, 200);
    desk.stop().await;
}

#[tokio::test]
async fn a_change_of_licence_shows_within_ten_seconds() {
    let desk = desk().await;
    let token = desk.log_in("octavia").await;
    join_org(&desk, "octavia", "Acme", Tier::Enterprise).await;
    desk.pass(10);
    let answer = desk.validate(&token).await;
    assert_eq!(
        answer.body,
        json!({
            "tier": "enterprise", "status": "active", "email": "octavia@example.com",
            "username": "octavia", "org_name": "Acme",
        })
    );
    desk.pass(590);
    let expired = desk.validate(&token).await;
    assert_eq!(expired.body["status"], "expired");
    assert_eq!(expired.body["tier"], "enterprise");
    desk.stop().await;
}

#[tokio::test]
async fn an_answer_is_remembered_for_ten_seconds_and_asked_for_once() {
    let desk = desk_with(|options| options.setting("AUTH_VALIDATIONS_PER_MINUTE", "0")).await;
    let token = desk.log_in("octavia").await;
    let asked = desk.asked(Route::User);
    desk.pass(10);
    let slow = Fault::Slow(Duration::from_millis(200));
    desk.identity()
        .fault_injector(Route::User)
        .fail_next(1, slow);
    let answers = join_all((0..64).map(|_| desk.validate(&token))).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert_eq!(desk.asked(Route::User), asked + 1);
    desk.pass(9);
    assert_eq!(desk.validate(&token).await.status, 200);
    assert_eq!(desk.asked(Route::User), asked + 1);
    desk.pass(1);
    assert_eq!(desk.validate(&token).await.status, 200);
    assert_eq!(desk.asked(Route::User), asked + 2);
    assert_eq!(desk.asked(Route::CheckToken), 0, "it was given to us");
    desk.stop().await;
}

#[tokio::test]
async fn a_revoked_token_is_refused_within_ten_seconds_and_remembered_as_refused() {
    let desk = desk().await;
    let token = desk.log_in("octavia").await;
    assert!(desk.identity().revoke(&token));
    assert_eq!(desk.validate(&token).await.status, 200);
    desk.pass(10);
    let asked = desk.asked(Route::User);
    for _ in 0..3 {
        let answer = desk.validate(&token).await;
        assert_eq!(answer.status, 401);
        assert_eq!(answer.code.as_deref(), Some("AUTH_005"));
        assert_eq!(answer.body, json!({"detail": "Invalid GitHub token"}));
        desk.pass(3);
    }
    assert_eq!(desk.asked(Route::User), asked + 1);
    desk.pass(10);
    let answer = desk.validate(&token).await;
    assert_eq!(answer.code.as_deref(), Some("AUTH_005"), "still");
    assert_eq!(desk.asked(Route::User), asked + 2);
    desk.stop().await;
}

#[tokio::test]
async fn a_token_of_another_application_is_refused_and_its_application_asked_for_once() {
    let desk = desk().await;
    let token = desk
        .identity()
        .issue("octavia", &["read:user", "user:email"]);
    let token = token.unwrap();
    for _ in 0..3 {
        assert_eq!(desk.validate(&token).await.status, 200);
        desk.pass(10);
    }
    assert_eq!(desk.asked(Route::CheckToken), 1);
    let foreign = desk.identity().issue("octavia", &["user"]).unwrap();
    let not_found = Answer {
        status: 404,
        headers: vec![("content-type".into(), "application/json".into())],
        body: r#"{"message":"Not Found"}"#.into(),
    };
    desk.identity().answer_next(Route::CheckToken, 1, not_found);
    let asked = desk.asked(Route::User);
    assert_eq!(
        desk.validate(&foreign).await.code.as_deref(),
        Some("AUTH_007")
    );
    assert_eq!(desk.asked(Route::User), asked);
    desk.stop().await;
}

#[tokio::test]
async fn a_token_is_validated_a_hundred_times_a_minute() {
    let desk = desk().await;
    let token = desk.log_in("octavia").await;
    let other = desk.log_in("petra").await;
    for _ in 0..60 {
        assert_eq!(desk.validate(&token).await.status, 200);
    }
    desk.pass(30);
    for _ in 0..40 {
        assert_eq!(desk.validate(&token).await.status, 200);
    }
    let refused = desk.validate(&token).await;
    assert_eq!((refused.status, refused.retry_after), (429, Some(30)));
    assert_eq!(refused.code.as_deref(), Some("AUTH_006"));
    assert_eq!(refused.body, json!({"detail": "Rate limit exceeded"}));
    assert_eq!(desk.validate(&other).await.status, 200);
    desk.pass(30);
    for _ in 0..60 {
        assert_eq!(desk.validate(&token).await.status, 200);
    }
    assert_eq!(desk.validate(&token).await.retry_after, Some(30));
    desk.stop().await;
}

/// As a gateway does that was restarted beside us: it shows everybody's tokens at once.
#[tokio::test]
async fn bad_tokens_of_an_address_do_not_lock_out_new_good_ones_there() {
    let desk = desk().await;
    for n in 0..15 {
        let bad = made_up_token(&format!("bad {n}"));
        assert_eq!(desk.validate(&bad).await.status, 401, "{n}");
    }
    let new = desk.identity().issue("octavia", &["user"]).unwrap();
    assert_eq!(desk.validate(&new).await.status, 200);
    let good = (0..10).map(|_| desk.identity().issue("petra", &["user"]).unwrap());
    let good: Vec<String> = good.collect();
    let bad: Vec<String> = (0..10)
        .map(|n| made_up_token(&format!("more {n}")))
        .collect();
    let slow = Fault::Slow(Duration::from_millis(200));
    desk.identity()
        .fault_injector(Route::CheckToken)
        .fail_next(20, slow);
    let answers = join_all(
        good.iter()
            .chain(&bad)
            .map(async |token| desk.validate(token).await.status),
    );
    let (good, bad) = ([200; 10], [401; 10]);
    assert_eq!(answers.await, [good, bad].concat());
    desk.stop().await;
}

#[tokio::test]
async fn a_token_that_cannot_be_one_is_refused_by_its_form_and_nobody_is_asked() {
    let desk = desk().await;
    let good = desk.identity().issue("octavia", &["user"]).unwrap();
    for n in 0..100 {
        let mut misspelt = good.clone();
        misspelt.replace_range(20..22, &format!("{n:02}"));
        if misspelt == good {
            continue;
        }
        let answer = desk.validate(&misspelt).await;
        assert_eq!(
            (answer.status, answer.code.as_deref()),
            (401, Some("AUTH_007"))
        );
        assert_eq!(answer.body, json!({"detail": "Invalid GitHub token"}));
    }
    assert_eq!(desk.validate(&good[..30]).await.status, 401, "cut off");
    assert_eq!(desk.asked(Route::CheckToken), 0);
    assert_eq!(desk.validate(&good).await.status, 200);
    // Older forms have no checksum, and other providers' need have none.
    let unjudged = ["25f94a2a5c7fbaf499c665bc73d67c1c87e496da", "other_0123"];
    for (nth, token) in unjudged.into_iter().enumerate() {
        assert_eq!(desk.validate(token).await.status, 401);
        assert_eq!(desk.asked(Route::CheckToken), 2 + nth as u64, "{token}");
    }
    desk.stop().await;
}

#[tokio::test]
async fn the_form_is_not_judged_where_the_provider_is_another_or_gives_out_other_tokens() {
    let unjudged = desk_with(|options| options.setting("GITHUB_TOKEN_CHECKSUMS", "false")).await;
    assert_eq!(unjudged.validate("gho_x").await.status, 401);
    assert_eq!(unjudged.asked(Route::CheckToken), 1);
    unjudged.stop().await;
    let desk = desk().await;
    assert_eq!(desk.validate("gho_x").await.status, 401);
    assert_eq!(desk.asked(Route::CheckToken), 0);
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "octavia").unwrap();
    let other = Answer {
        status: 200,
        headers: vec![("content-type".into(), "application/json".into())],
        body: json!({"access_token": "gho_16C7e42F292c6912E7710c838347Ae178B4a", "scope": "user"})
            .to_string(),
    };
    desk.identity().answer_next(Route::AccessToken, 1, other);
    desk.poll(&device_code).await;
    assert_eq!(desk.validate("gho_y").await.status, 401);
    assert_eq!(
        desk.asked(Route::CheckToken),
        1,
        "its tokens have another form by now"
    );
    desk.stop().await;
}

/// The provider counts each question with a token against what its person may ask within an hour, unless nothing has changed.
#[tokio::test]
async fn a_token_in_use_takes_nothing_of_what_its_person_may_ask() {
    let desk = desk().await;
    desk.identity().set_rules(LoginRules {
        calls_per_hour: 4,
        ..LoginRules::default()
    });
    let token = desk.log_in("octavia").await;
    for _ in 0..40 {
        desk.pass(10);
        assert_eq!(desk.validate(&token).await.status, 200);
    }
    assert_eq!(desk.asked(Route::User), 41);
    assert_eq!(desk.asked(Route::Emails), 2, "an address changes seldom");
    let moved = vec![Email::primary("octavia@new.example", true)];
    desk.identity().add_user(User::new("octavia", None, moved));
    desk.pass(300);
    let answer = desk.validate(&token).await;
    assert_eq!(answer.body["email"], "octavia@new.example");
    desk.stop().await;
}

/// Programs of the person that have nothing to do with Waybill share the allowance.
#[tokio::test]
async fn a_person_whose_allowance_is_used_up_elsewhere_goes_on_as_long_as_the_token_is_good() {
    let desk = desk().await;
    let token = desk.log_in("octavia").await;
    let used_up = Answer {
        status: 403,
        headers: vec![
            ("x-ratelimit-remaining".into(), "0".into()),
            ("retry-after".into(), "3000".into()),
        ],
        body: String::new(),
    };
    desk.identity().answer_next(Route::User, 1, used_up.clone());
    for passed in [10, 60, 600] {
        desk.pass(passed);
        let answer = desk.validate(&token).await;
        assert_eq!(answer.body["email"], "octavia@example.com", "{answer:?}");
    }
    assert_eq!(desk.asked(Route::User), 2, "left alone");
    assert_eq!(desk.asked(Route::CheckToken), 3);
    assert!(desk.identity().revoke(&token));
    desk.pass(10);
    let revoked = desk.validate(&token).await;
    assert_eq!(revoked.code.as_deref(), Some("AUTH_005"));
    let unknown = desk.identity().issue("petra", &["user"]).unwrap();
    desk.identity().answer_next(Route::User, 1, used_up);
    assert_eq!(
        desk.validate(&unknown).await.status,
        503,
        "nobody knows who"
    );
    desk.stop().await;
}

#[tokio::test]
async fn invented_tokens_from_a_few_addresses_keep_nobody_out() {
    let desk = desk_with(|options| options.setting("TRUSTED_PROXIES", "127.0.0.1")).await;
    for n in 0..72 {
        let client = format!("203.0.113.{}", n % 12);
        desk.validate_for(&client, &made_up_token(&format!("bad {n}")))
            .await;
    }
    assert!(desk.asked(Route::CheckToken) < 60);
    let new = desk.identity().issue("petra", &["user"]).unwrap();
    assert_eq!(desk.validate_for("198.51.100.2", &new).await.status, 200);
    desk.stop().await;
}

#[tokio::test]
async fn who_was_confirmed_before_a_restart_is_let_in_whatever_others_send() {
    let behind_proxy = |options: Options| options.setting("TRUSTED_PROXIES", "127.0.0.1");
    let desk = desk_with(behind_proxy).await;
    let token = desk.log_in("octavia").await;
    let revoked = desk.log_in("petra").await;
    assert!(desk.identity().revoke(&revoked));
    let hashes = "select count(*) as n from confirmed_tokens";
    assert_eq!(desk.service.count(hashes).await, 2);
    let asked = desk.asked(Route::CheckToken);
    let desk = desk.restarted(behind_proxy).await;
    for n in 0..60 {
        let client = format!("203.0.113.{n}");
        desk.validate_for(&client, &made_up_token(&format!("bad {n}")))
            .await;
    }
    assert_eq!(desk.asked(Route::CheckToken), asked + 60);
    let new = desk.identity().issue("petra", &["user"]).unwrap();
    assert_eq!(desk.validate(&new).await.status, 503, "nothing is left");
    assert_eq!(desk.validate(&token).await.status, 200);
    let answer = desk.validate(&revoked).await;
    assert_eq!(answer.code.as_deref(), Some("AUTH_005"));
    assert_eq!(desk.service.count(hashes).await, 1);
    desk.pass(24 * 3600);
    let worker = Worker::new(desk.service.parts.clone(), Queue::Orders, 1);
    worker.keep_house().await.unwrap();
    assert_eq!(desk.service.count(hashes).await, 0);
    desk.stop().await;
}

#[tokio::test]
async fn a_token_that_ends_by_itself_says_when_and_then_that_it_has_ended() {
    let desk = desk().await;
    desk.identity().set_rules(LoginRules {
        token_life: Some(Duration::from_hours(8)),
        ..LoginRules::default()
    });
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "octavia").unwrap();
    let given = desk.poll(&device_code).await;
    assert_eq!(given.body["expires_in"], 28_800);
    assert_eq!(given.body["refresh_token_expires_in"], 15_897_600);
    let refresh = given.body["refresh_token"].as_str().unwrap();
    assert!(refresh.starts_with("ghr_"), "{refresh}");
    desk.pass(30);
    let again = desk.poll(&device_code).await;
    assert_eq!(again.body["refresh_token"], refresh);
    assert_eq!(again.body["expires_in"], 28_770);
    let token = given.body["access_token"].as_str().unwrap().to_owned();
    let shown = desk.identity().issue("petra", &["user"]).unwrap();
    assert_eq!(desk.validate(&shown).await.status, 200);
    let desk = desk.restarted(|options| options).await;
    desk.pass(28_800);
    for token in [token, shown] {
        let ended = desk.validate(&token).await;
        assert_eq!(ended.code.as_deref(), Some("AUTH_004"));
        assert_eq!(ended.body, json!({"detail": "Invalid GitHub token"}));
    }
    desk.stop().await;
}

#[tokio::test]
async fn who_tries_many_worthless_tokens_is_slowed_down_before_the_provider_is() {
    let desk = desk_with(|options| options.setting("TRUSTED_PROXIES", "127.0.0.1")).await;
    let known = desk.log_in("octavia").await;
    let guess = async |client: &str, n: u32| {
        let token = made_up_token(&format!("{client} {n}"));
        desk.validate_for(client, &token).await
    };
    for n in 0..30 {
        assert_eq!(guess("198.51.100.1", n).await.status, 401, "{n}");
    }
    for n in 30..90 {
        let refused = guess("198.51.100.1", n).await;
        assert_eq!((refused.status, refused.retry_after), (429, Some(60)));
    }
    assert_eq!(desk.asked(Route::CheckToken), 30);
    assert_eq!(desk.validate_for("198.51.100.1", &known).await.status, 200);
    // The rest is for those who did nothing of the kind.
    let new = desk.identity().issue("petra", &["user"]).unwrap();
    assert_eq!(desk.validate_for("198.51.100.2", &new).await.status, 200);
    desk.pass(30);
    for n in 0..30 {
        let client = format!("203.0.113.{n}");
        assert_eq!(guess(&client, n).await.status, 401);
    }
    let refused = guess("203.0.113.99", 0).await;
    assert_eq!((refused.status, refused.retry_after), (503, Some(30)));
    assert_eq!(desk.asked(Route::CheckToken), 61);
    assert_eq!(desk.validate_for("198.51.100.2", &new).await.status, 200);
    desk.pass(30);
    assert_eq!(guess("203.0.113.99", 0).await.status, 401);
    desk.stop().await;
}

/// Then each bad token is a failed login, and after some the provider refuses every token.
#[tokio::test]
async fn without_a_client_secret_fewer_worthless_tokens_are_asked_about() {
    let desk = desk_with(|options| options.without("GITHUB_CLIENT_SECRET")).await;
    desk.identity().set_rules(LoginRules {
        lock_after: Some(30),
        ..LoginRules::default()
    });
    let mut refused = 0;
    for n in 0..60 {
        let answer = desk.validate(&made_up_token(&format!("bad {n}"))).await;
        assert!([401, 429].contains(&answer.status), "{answer:?}");
        refused += usize::from(answer.status == 429);
    }
    assert_eq!(refused, 50);
    assert_eq!(desk.asked(Route::User), 10);
    desk.stop().await;
}

#[tokio::test]
async fn worthless_tokens_at_once_are_no_more_than_one_after_the_other() {
    let desk = desk().await;
    let slow = Fault::Slow(Duration::from_millis(300));
    desk.identity()
        .fault_injector(Route::CheckToken)
        .fail_next(90, slow);
    let tokens: Vec<String> = (0..90)
        .map(|n| made_up_token(&format!("bad {n}")))
        .collect();
    let answers = join_all(tokens.iter().map(|token| desk.validate(token))).await;
    let refused: Vec<_> = answers.iter().filter(|it| it.status != 401).collect();
    assert!(refused.iter().all(|answer| answer.retry_after.is_some()));
    assert!(desk.asked(Route::CheckToken) <= 60);
    assert_eq!(refused.len() as u64, 90 - desk.asked(Route::CheckToken));
    desk.stop().await;
}

/// More at once than may be asked about at once wait for one another.
#[tokio::test]
async fn good_tokens_that_come_at_once_after_a_restart_are_all_let_in() {
    let desk = desk_with(|options| options.without("GITHUB_CLIENT_SECRET")).await;
    let slow = Fault::Slow(Duration::from_millis(100));
    desk.identity()
        .fault_injector(Route::User)
        .fail_next(60, slow);
    let people = ["octavia", "petra", "manuela"];
    let scopes = [&["user"][..], &["user", "repo"]];
    let tokens: Vec<String> = (0..60)
        .map(|n| desk.identity().issue(people[n % 3], scopes[n % 2]).unwrap())
        .collect();
    let answers = join_all(tokens.iter().map(async |it| desk.validate(it).await.status));
    assert_eq!(answers.await, [200; 60]);
    desk.stop().await;
}

#[tokio::test]
async fn revoked_tokens_count_as_worthless_ones_and_are_asked_about_ever_less() {
    let desk = desk().await;
    let token = desk.log_in("octavia").await;
    assert!(desk.identity().revoke(&token));
    desk.pass(10);
    let asked = desk.asked(Route::User);
    for _ in 0..12 {
        assert_eq!(
            desk.validate(&token).await.code.as_deref(),
            Some("AUTH_005")
        );
        desk.pass(10);
    }
    // At once, once more after 10 s, for it might have been a slip, and then once a minute.
    assert_eq!(desk.asked(Route::User), asked + 3);
    desk.pass(60);
    let people = ["octavia", "petra", "manuela"];
    let scopes = [&["user"][..], &["user", "repo"]];
    let tokens: Vec<String> = (0..50)
        .map(|n| desk.identity().issue(people[n % 3], scopes[n % 2]).unwrap())
        .collect();
    for token in &tokens {
        assert_eq!(desk.validate(token).await.status, 200);
        assert!(desk.identity().revoke(token));
    }
    desk.pass(10);
    for token in &tokens {
        assert_eq!(desk.validate(token).await.code.as_deref(), Some("AUTH_005"));
    }
    let bad = desk.validate(&made_up_token("bad")).await;
    assert_eq!(bad.status, 429, "they counted");
    desk.stop().await;
}

#[tokio::test]
async fn good_tokens_at_once_leave_their_places_free() {
    let desk = desk().await;
    // The provider lets a person have ten.
    for _ in 0..3 {
        let tokens: Vec<String> = (0..10)
            .map(|_| desk.identity().issue("octavia", &["user"]).unwrap())
            .collect();
        let answers = join_all(tokens.iter().map(|token| desk.validate(token))).await;
        let bad: Vec<_> = answers.iter().filter(|it| it.status != 200).collect();
        assert!(bad.is_empty(), "{bad:?}");
    }
    desk.stop().await;
}

#[tokio::test]
async fn who_retries_one_dead_token_blocks_nobody() {
    let desk = desk().await;
    let dead = made_up_token("dead");
    for _ in 0..24 {
        assert_eq!(desk.validate(&dead).await.status, 401);
        desk.pass(10);
    }
    assert_eq!(desk.asked(Route::CheckToken), 4, "once a minute");
    let token = desk.identity().issue("octavia", &["user"]).unwrap();
    assert_eq!(desk.validate(&token).await.status, 200);
    desk.stop().await;
}

#[tokio::test]
async fn limits_and_outages_of_the_provider_never_make_a_good_token_bad() {
    let desk = desk().await;
    let token = desk.log_in("octavia").await;
    let secondary = |status, retry_after: Option<u64>| Limit::Secondary {
        status,
        retry_after: retry_after.map(Duration::from_secs),
    };
    let mut before = 10;
    for (limit, wait) in [
        (Limit::Primary { status: 403 }, 40),
        (Limit::Primary { status: 429 }, 40),
        (secondary(403, Some(90)), 90),
        (secondary(429, None), 60),
    ] {
        desk.pass(before);
        desk.identity().limit(limit, Duration::from_secs(40));
        let asked = desk.asked(Route::User);
        for passed in [0, 15] {
            desk.pass(passed);
            let answer = desk.validate(&token).await;
            assert_eq!(answer.status, 503, "{limit:?}");
            assert_eq!(answer.retry_after, Some(wait - passed), "{limit:?}");
        }
        assert_eq!(desk.asked(Route::User), asked + 1, "left alone");
        desk.identity().lift_limits();
        before = wait - 15;
    }
    desk.pass(before);
    assert_eq!(desk.validate(&token).await.status, 200);
    for fault in [Fault::Status(500), Fault::Html, Fault::Lose] {
        desk.pass(10);
        desk.identity()
            .fault_injector(Route::User)
            .fail_next(1, fault);
        let answer = desk.validate(&token).await;
        assert_eq!(answer.status, 503, "{fault}");
        assert!(answer.retry_after.is_some());
        desk.pass(1);
        assert_eq!(desk.validate(&token).await.status, 200, "{fault}");
    }
    desk.stop().await;
}

#[tokio::test]
async fn a_limit_on_one_persons_questions_is_not_everyones_but_one_on_ours_is() {
    let desk = desk().await;
    let known = desk.log_in("octavia").await;
    let limited = Answer {
        status: 403,
        headers: vec![("retry-after".into(), "90".into())],
        body: String::new(),
    };
    desk.identity().answer_next(Route::User, 1, limited.clone());
    let others = ["petra", "octavia"].map(|login| desk.identity().issue(login, &["user"]).unwrap());
    assert_eq!(desk.validate(&others[0]).await.retry_after, Some(90));
    assert_eq!(desk.validate(&others[1]).await.status, 200);
    let others = ["petra", "octavia"].map(|login| desk.identity().issue(login, &["user"]).unwrap());
    let asked = desk.asked(Route::CheckToken);
    desk.identity().answer_next(Route::CheckToken, 1, limited);
    for token in &others {
        assert_eq!(desk.validate(token).await.retry_after, Some(90));
    }
    assert_eq!(desk.asked(Route::CheckToken), asked + 1);
    assert_eq!(
        desk.validate(&known).await.status,
        200,
        "it is known as ours"
    );
    desk.stop().await;
}

fn answer(status: u16, body: &Value) -> Answer {
    Answer {
        status,
        headers: vec![(
            "content-type".into(),
            "application/json; charset=utf-8".into(),
        )],
        body: body.to_string(),
    }
}

/// GitHub's 422: "Validation failed, or the endpoint has been spammed".
#[tokio::test]
async fn an_answer_that_is_not_about_the_token_never_makes_it_bad() {
    let desk = desk().await;
    let spammed = answer(422, &json!({"message": "Validation Failed, or spammed"}));
    let moved = answer(404, &json!({"message": "Not Found"}));
    let page = Answer {
        headers: vec![("content-type".into(), "text/html".into())],
        body: "<html>Not found</html>".into(),
        ..moved
    };
    for (nth, said) in [spammed, page].into_iter().enumerate() {
        let token = desk.identity().issue("octavia", &["user"]).unwrap();
        desk.identity().answer_next(Route::CheckToken, 1, said);
        let answer = desk.validate(&token).await;
        assert_eq!(
            (answer.status, answer.retry_after),
            (503, Some(60)),
            "{nth}"
        );
        desk.pass(60);
        assert_eq!(desk.validate(&token).await.status, 200, "{nth}");
    }
    // This one says that it is about the token.
    let field = json!([{"resource": "OauthAccess", "code": "invalid", "field": "access_token"}]);
    let invalid = answer(
        422,
        &json!({"message": "Validation Failed", "errors": field}),
    );
    desk.identity().answer_next(Route::CheckToken, 1, invalid);
    assert_eq!(desk.validate("no-token").await.status, 401);
    desk.stop().await;
}

#[tokio::test]
async fn one_question_that_is_taken_amiss_does_not_close_the_way_for_others() {
    let desk = desk().await;
    let spammed = answer(422, &json!({"message": "Validation Failed"}));
    desk.identity().answer_next(Route::CheckToken, 1, spammed);
    assert_eq!(desk.validate("no-token").await.status, 503);
    let token = desk.identity().issue("octavia", &["user"]).unwrap();
    assert_eq!(desk.validate(&token).await.status, 200);
    desk.stop().await;
}

#[tokio::test]
async fn a_wrong_address_of_the_api_makes_no_token_bad() {
    let sandbox = Sandbox::start(sandbox::Options::default()).await.unwrap();
    let wrong = format!("{}/v9", sandbox.identity_api_url());
    let service = with_identity(service(), &sandbox).without_workers();
    let service = service.setting("GITHUB_API_URL", &wrong).start().await;
    let token = sandbox.identity().issue("octavia", &["user"]).unwrap();
    for token in [token, made_up_token("bad")] {
        assert_eq!(validate(&service, &token).await.status, 503);
    }
    service.stop().await;
    sandbox.stop().await;
}

#[tokio::test]
async fn a_suspended_account_is_refused_whatever_is_believed_of_it() {
    let desk = desk_with(|options| options.setting("AUTH_STALE_SECONDS", "300")).await;
    let token = desk.log_in("octavia").await;
    let said = json!({"message": "Sorry. Your account was suspended.", "status": "403"});
    let suspended = answer(403, &said);
    desk.identity()
        .answer_next(Route::User, 3, suspended.clone());
    desk.pass(10);
    let answer = desk.validate(&token).await;
    assert_eq!((answer.status, answer.code), (403, None));
    let detail = "This account is suspended at the identity provider";
    assert_eq!(answer.body, json!({"detail": detail}));
    desk.pass(10);
    assert_eq!(desk.validate(&token).await.status, 403);
    let (device_code, user_code) = desk.code().await;
    desk.identity().approve(&user_code, "octavia").unwrap();
    let answer = desk.poll(&device_code).await;
    assert_eq!(answer.status, 403);
    assert_eq!(
        answer.body,
        json!({"detail": detail, "error": "access_denied"})
    );
    desk.pass(10);
    assert_eq!(
        desk.validate(&token).await.status,
        200,
        "no longer suspended"
    );
    desk.stop().await;
}

#[tokio::test]
async fn a_token_of_a_program_is_refused_and_uses_up_no_budget() {
    let desk = desk_with(|options| options.without("GITHUB_CLIENT_SECRET")).await;
    for form in ["ghs_", "ghr_", "v1.", "eyJhbGciOiJSUzI1NiJ9."] {
        let answer = desk.validate(&format!("{form}{}", "a".repeat(40))).await;
        assert_eq!(
            (answer.status, answer.code.as_deref()),
            (401, Some("AUTH_007")),
            "{form}"
        );
    }
    assert_eq!(desk.asked(Route::User), 0);
    let said = json!({"message": "Resource not accessible by integration", "status": "403"});
    let known = desk.log_in("octavia").await;
    desk.identity()
        .answer_next(Route::User, 1, answer(403, &said));
    let answer_of_unknown = desk
        .validate(&desk.identity().issue("petra", &["user"]).unwrap())
        .await;
    assert_eq!(answer_of_unknown.status, 401);
    desk.pass(10);
    desk.identity()
        .answer_next(Route::User, 1, answer(403, &said));
    assert_eq!(
        desk.validate(&known).await.status,
        503,
        "it was named before"
    );
    desk.pass(60);
    assert_eq!(desk.validate(&known).await.status, 200);
    desk.stop().await;
}

#[tokio::test]
async fn an_app_that_may_not_read_addresses_learns_that_there_is_none() {
    let desk = desk().await;
    let mut refused = answer(
        403,
        &json!({"message": "Resource not accessible by integration"}),
    );
    let needed = ("x-accepted-github-permissions".into(), "emails=read".into());
    refused.headers.push(needed);
    refused
        .headers
        .push(("x-ratelimit-remaining".into(), "4998".into()));
    desk.identity().answer_next(Route::Emails, 1, refused);
    let token = desk.identity().issue("octavia", &["user"]).unwrap();
    let answer = desk.validate(&token).await;
    assert_eq!(answer.status, 403);
    assert_eq!(answer.body, json!({"detail": "No verified e-mail"}));
    desk.stop().await;
}

#[tokio::test]
async fn while_the_provider_is_down_a_known_token_is_believed_for_a_while_if_so_set() {
    let desk = desk_with(|options| options.setting("AUTH_STALE_SECONDS", "300")).await;
    let token = desk.log_in("octavia").await;
    let unknown = desk.identity().issue("petra", &["user"]).unwrap();
    desk.identity()
        .fault_injector(Route::User)
        .fail(Fault::Status(503));
    desk.pass(60);
    assert_eq!(desk.validate(&token).await.body["tier"], "free");
    assert_eq!(desk.validate(&unknown).await.status, 503);
    join_org(&desk, "octavia", "Acme", Tier::Pro).await;
    desk.pass(10);
    let answer = desk.validate(&token).await;
    assert_eq!(answer.body["tier"], "pro", "licences are ours");
    desk.pass(229);
    assert_eq!(desk.validate(&token).await.status, 200);
    desk.pass(1);
    assert_eq!(desk.validate(&token).await.status, 503);
    desk.stop().await;
}

/// Their row is gone, or could not be stored when the provider named them, and only the provider can say who it is.
#[tokio::test]
async fn somebody_forgotten_is_not_believed_while_the_provider_is_down() {
    let desk = desk_with(|options| options.setting("AUTH_STALE_SECONDS", "300")).await;
    let token = desk.log_in("octavia").await;
    said(&desk.service, &["users", "forget", "octavia"]).await;
    let user = desk.identity().fault_injector(Route::User);
    user.fail(Fault::Status(503));
    desk.pass(60);
    assert_eq!(desk.validate(&token).await.status, 503);
    user.clear_faults();
    desk.pass(60);
    assert_eq!(desk.validate(&token).await.body["tier"], "free");
    desk.stop().await;
}

#[tokio::test]
async fn templates_are_those_of_the_tier() {
    let desk = desk().await;
    let get = |token: &str| {
        let request = desk.service.get("/templates/list").bearer_auth(token);
        async { read(request.send().await.unwrap()).await }
    };
    let token = desk.log_in("octavia").await;
    let tiers = |body: &Value| -> Vec<String> {
        let templates = body["templates"].as_array().unwrap().iter();
        templates
            .map(|one| one["tier"].as_str().unwrap().to_owned())
            .collect()
    };
    let free = get(&token).await;
    assert_eq!(free.body["tier"], "free");
    assert!(tiers(&free.body).iter().all(|tier| tier == "free"));
    join_org(&desk, "octavia", "Acme", Tier::Pro).await;
    desk.pass(10);
    let pro = get(&token).await;
    assert_eq!(pro.body["tier"], "pro");
    assert!(tiers(&pro.body).contains(&"pro".to_owned()));
    assert!(!tiers(&pro.body).contains(&"enterprise".to_owned()));
    desk.pass(600);
    assert_eq!(get(&token).await.body, free.body, "the licence has expired");
    assert_eq!(get("gho_nobody").await.status, 401);
    assert_eq!(status(desk.service.get("/templates/list")).await, 401);
    desk.stop().await;
}

#[tokio::test]
async fn another_catalogue_needs_no_other_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("templates.json");
    let catalogue = json!({"templates": [
        {"id": "own", "name": "Own", "description": "Ours.", "tier": "free"},
    ]});
    std::fs::write(&path, catalogue.to_string()).unwrap();
    let path = path.display().to_string();
    let desk = desk_with(|options| options.setting("TEMPLATES_FILE", &path)).await;
    let token = desk.log_in("octavia").await;
    let request = desk.service.get("/templates/list").bearer_auth(&token);
    let answer = read(request.send().await.unwrap()).await;
    assert_eq!(answer.body["templates"], catalogue["templates"]);
    desk.stop().await;
}
