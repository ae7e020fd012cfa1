//! The identity provider's device flow, in GitHub's shapes.

use std::collections::BTreeMap;
use std::time::Duration;

use sandbox::{CodeError, IDENTITY_CLIENT_ID, IDENTITY_CLIENT_SECRET, LoginRules, Route};
use serde_json::{Value, json};

use crate::support::device::{
    Device, GRANT_TYPE, api, ask_code, ask_token, clocked, refusal, token, token_form,
};
use crate::support::{NOW, client, read, sandbox};

#[tokio::test]
async fn a_device_code_has_githubs_shape() {
    let sandbox = sandbox().await;
    let answer = ask_code(&sandbox, "read:user").send().await.unwrap();
    let kind = answer.headers()["Content-Type"].clone();
    assert_eq!(kind, "application/json; charset=utf-8");
    let (status, given) = read(answer).await;
    assert_eq!(status, 200);
    let (code, user_code) = (&given["device_code"], &given["user_code"]);
    let expected = json!({
        "device_code": code,
        "user_code": user_code,
        "verification_uri": format!("{}/login/device", sandbox.identity_url()),
        "expires_in": 900,
        "interval": 5,
    });
    assert_eq!(given, expected);
    let code = code.as_str().unwrap();
    assert_eq!(code.len(), 40);
    assert!(
        code.chars().all(|letter| letter.is_ascii_hexdigit()),
        "{code}"
    );
    let (first, last) = user_code.as_str().unwrap().split_once('-').unwrap();
    assert_eq!((first.len(), last.len()), (4, 4));
    let read_aloud = |letter| "BCDFGHJKLMNPQRSTVWXZ".contains(letter);
    assert!(
        first.chars().chain(last.chars()).all(read_aloud),
        "{user_code}"
    );
}

#[tokio::test]
async fn no_two_devices_have_the_same_codes() {
    let (sandbox, clock) = clocked().await;
    let mut codes = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let device = Device::start(&sandbox, &clock).await;
        assert!(codes.insert(device.code) && codes.insert(device.user_code));
    }
}

#[tokio::test]
async fn without_accept_json_the_answer_is_a_form() {
    let sandbox = sandbox().await;
    let url = format!("{}/login/device/code", sandbox.identity_url());
    for accept in ["*/*", "text/html"] {
        let form = [("client_id", IDENTITY_CLIENT_ID)];
        let answer = client().post(&url).form(&form).header("Accept", accept);
        let fields = form_of(answer.send().await.unwrap()).await;
        assert_eq!((&*fields["interval"], &*fields["expires_in"]), ("5", "900"));
        let page = format!("{}/login/device", sandbox.identity_url());
        assert_eq!(fields["verification_uri"], page);
        let token_url = format!("{}/login/oauth/access_token", sandbox.identity_url());
        let poll = || {
            let form = [
                ("client_id", IDENTITY_CLIENT_ID),
                ("grant_type", GRANT_TYPE),
                ("device_code", &*fields["device_code"]),
            ];
            client().post(&token_url).form(&form).send()
        };
        let pending = form_of(poll().await.unwrap()).await;
        assert_eq!(pending["error"], "authorization_pending");
        let slow = form_of(poll().await.unwrap()).await;
        assert_eq!((&*slow["error"], &*slow["interval"]), ("slow_down", "10"));
    }
    let unknown = client().post(&url).send().await.unwrap();
    assert_eq!(unknown.status(), 404);
    assert_eq!(unknown.text().await.unwrap(), "error=Not+Found");
}

async fn form_of(answer: reqwest::Response) -> BTreeMap<String, String> {
    assert_eq!(answer.status(), 200);
    let kind = answer.headers()["Content-Type"].clone();
    assert_eq!(kind, "application/x-www-form-urlencoded; charset=utf-8");
    let url = format!("http://form/?{}", answer.text().await.unwrap());
    let url = reqwest::Url::parse(&url).unwrap();
    url.query_pairs().into_owned().collect()
}

#[tokio::test]
async fn json_comes_in_as_well_as_forms() {
    let sandbox = sandbox().await;
    let post = |path: &str, body: Value| {
        let url = format!("{}/login/{path}", sandbox.identity_url());
        let post = client().post(url).header("Accept", "application/json");
        post.json(&body).send()
    };
    let wish = json!({"client_id": IDENTITY_CLIENT_ID, "scope": "read:user"});
    let (status, given) = read(post("device/code", wish).await.unwrap()).await;
    assert_eq!(status, 200, "{given}");
    let wish = json!({
        "client_id": IDENTITY_CLIENT_ID,
        "device_code": given["device_code"],
        "grant_type": GRANT_TYPE,
    });
    let (_, said) = read(post("oauth/access_token", wish).await.unwrap()).await;
    assert_eq!(said["error"], "authorization_pending");
    for nonsense in [json!([]), json!({"client_id": 7})] {
        let (status, said) = read(post("device/code", nonsense).await.unwrap()).await;
        assert_eq!((status, said), (404, json!({"error": "Not Found"})));
    }
}

#[tokio::test]
async fn an_unknown_client_and_a_flow_that_is_off_get_no_code() {
    let sandbox = sandbox().await;
    let unknown = ask_code(&sandbox, "").form(&[("client_id", "other")]);
    let (status, said) = read(unknown.send().await.unwrap()).await;
    assert_eq!((status, said), (404, json!({"error": "Not Found"})));
    sandbox.identity().set_rules(LoginRules {
        device_flow: false,
        ..LoginRules::default()
    });
    let (status, said) = read(ask_code(&sandbox, "").send().await.unwrap()).await;
    let expected = json!({
        "error": "device_flow_disabled",
        "error_description": "Device Flow must be explicitly enabled for this App",
        "error_uri": "https://docs.github.com",
    });
    assert_eq!((status, said), (400, expected));
}

#[tokio::test]
async fn an_approved_code_yields_its_token_once() {
    let (sandbox, clock) = clocked().await;
    let device = Device::start(&sandbox, &clock).await;
    let pending = refusal(
        "authorization_pending",
        "The authorization request is still pending.",
    );
    assert_eq!(device.poll().await, pending);
    sandbox
        .identity()
        .approve(&device.user_code, "Octavia")
        .unwrap();
    let given = device.poll_after(5).await;
    let token = given["access_token"].as_str().unwrap();
    let expected = json!({
        "access_token": token,
        "token_type": "bearer",
        "scope": "read:user,user:email",
    });
    assert_eq!(given, expected);
    let letters = token.strip_prefix("gho_").unwrap();
    assert_eq!(letters.len(), 36);
    assert!(letters.chars().all(|letter| letter.is_ascii_alphanumeric()));
    assert!(!providers::identity::form::is_misspelt(token));
    let spent = refusal(
        "incorrect_device_code",
        "The device_code provided is not valid.",
    );
    assert_eq!(device.poll_after(5).await, spent);
    assert_eq!(device.poll().await, spent, "also too fast");
    let issued = sandbox.identity().tokens();
    assert_eq!(issued.len(), 1);
    assert_eq!((&*issued[0].token, &*issued[0].login), (token, "octavia"));
    let polls = sandbox.identity().polls(&device.code);
    let answers: Vec<_> = polls.iter().map(|poll| poll.answer).collect();
    let spent = "incorrect_device_code";
    assert_eq!(
        answers,
        ["authorization_pending", "access_token", spent, spent]
    );
    assert_eq!(polls[0].at, NOW);
    assert_eq!(polls[1].at, NOW.plus(Duration::from_secs(5)));
    let (status, user) = read(api(&sandbox, "/user", token).send().await.unwrap()).await;
    assert_eq!((status, &user["login"]), (200, &json!("octavia")));
}

#[tokio::test]
async fn who_polls_too_fast_waits_five_seconds_longer_from_then_on() {
    let (sandbox, clock) = clocked().await;
    let device = Device::start(&sandbox, &clock).await;
    let other = Device::start(&sandbox, &clock).await;
    assert_eq!(device.poll().await["error"], "authorization_pending");
    let slow = |interval: u64| {
        json!({
            "error": "slow_down",
            "error_description": "Too many requests have been made in the same timeframe.",
            "error_uri": "https://docs.github.com",
            "interval": interval,
        })
    };
    assert_eq!(device.poll_after(4).await, slow(10));
    assert_eq!(device.poll_after(9).await, slow(15));
    assert_eq!(
        device.poll_after(15).await["error"],
        "authorization_pending"
    );
    assert_eq!(device.poll_after(14).await, slow(20));
    assert_eq!(other.poll().await["error"], "authorization_pending");
    let approved = sandbox.identity().approve(&device.user_code, "octavia");
    assert_eq!(approved, Ok(()));
    assert_eq!(
        device.poll_after(19).await,
        slow(25),
        "approved, and too fast"
    );
    assert_eq!(other.poll().await["error"], "authorization_pending");
    assert_eq!(device.poll_after(25).await["token_type"], "bearer");
}

#[tokio::test]
async fn a_denied_code_stays_denied() {
    let (sandbox, clock) = clocked().await;
    let device = Device::start(&sandbox, &clock).await;
    sandbox.identity().deny(&device.user_code).unwrap();
    let denied = refusal("access_denied", "The authorization request was denied.");
    assert_eq!(device.poll().await, denied);
    let late = sandbox.identity().approve(&device.user_code, "octavia");
    assert_eq!(late, Err(CodeError::Used));
    assert_eq!(device.poll_after(5).await, denied);
}

#[tokio::test]
async fn a_code_expires_whether_approved_or_not() {
    let (sandbox, clock) = clocked().await;
    let (pending, approved) = (
        Device::start(&sandbox, &clock).await,
        Device::start(&sandbox, &clock).await,
    );
    let reported = Device::start(&sandbox, &clock).await;
    let identity = sandbox.identity();
    identity.approve(&approved.user_code, "octavia").unwrap();
    identity.expire(&reported.user_code).unwrap();
    let expired = refusal("expired_token", "This 'device_code' has expired.");
    assert_eq!(reported.poll().await, expired);
    assert_eq!(
        pending.poll_after(899).await["error"],
        "authorization_pending"
    );
    assert_eq!(pending.poll_after(1).await, expired);
    assert_eq!(approved.poll().await, expired);
    let late = identity.approve(&pending.user_code, "octavia");
    assert_eq!(late, Err(CodeError::Expired));
    assert!(identity.tokens().is_empty());
}

#[tokio::test]
async fn what_is_asked_wrongly_is_refused_with_status_200() {
    let (sandbox, clock) = clocked().await;
    let device = Device::start(&sandbox, &clock).await;
    let (id, code) = (
        ("client_id", IDENTITY_CLIENT_ID),
        ("device_code", &*device.code),
    );
    let grant = ("grant_type", GRANT_TYPE);
    let grant_type = "The grant type must be urn:ietf:params:oauth:grant-type:device_code.";
    let client = "The client_id and/or client_secret passed are incorrect.";
    let unknown = "The device_code provided is not valid.";
    for (form, error, description) in [
        (vec![id, code], "unsupported_grant_type", grant_type),
        (
            vec![id, code, ("grant_type", "password")],
            "unsupported_grant_type",
            grant_type,
        ),
        (vec![code, grant], "incorrect_client_credentials", client),
        (
            vec![("client_id", "x"), code, grant],
            "incorrect_client_credentials",
            client,
        ),
        (
            vec![id, ("client_secret", "wrong"), code, grant],
            "incorrect_client_credentials",
            client,
        ),
        (vec![id, grant], "incorrect_device_code", unknown),
        (
            vec![id, grant, ("device_code", "x")],
            "incorrect_device_code",
            unknown,
        ),
    ] {
        let (status, said) = read(token_form(&sandbox, &form).send().await.unwrap()).await;
        assert_eq!(
            (status, said),
            (200, refusal(error, description)),
            "{form:?}"
        );
    }
    let with_secret = [id, ("client_secret", IDENTITY_CLIENT_SECRET), code, grant];
    let (_, said) = read(token_form(&sandbox, &with_secret).send().await.unwrap()).await;
    assert_eq!(said["error"], "authorization_pending", "and no poll before");
    let get = reqwest::get(format!("{}/login/device/code", sandbox.identity_url()));
    assert_eq!(get.await.unwrap().status(), 404);
}

#[tokio::test]
async fn just_after_the_approval_a_code_can_be_unknown_for_a_while() {
    let (sandbox, clock) = clocked().await;
    sandbox.identity().set_rules(LoginRules {
        unknown_after_approval: 2,
        ..LoginRules::default()
    });
    let device = Device::start(&sandbox, &clock).await;
    sandbox
        .identity()
        .approve(&device.user_code, "octavia")
        .unwrap();
    for _ in 0..2 {
        assert_eq!(device.poll_after(5).await["error"], "incorrect_device_code");
    }
    assert_eq!(device.poll_after(5).await["token_type"], "bearer");
}

#[tokio::test]
async fn interval_and_expiry_are_those_of_the_rules_when_the_code_was_given_out() {
    let (sandbox, clock) = clocked().await;
    let before = Device::start(&sandbox, &clock).await;
    sandbox.identity().set_rules(LoginRules {
        interval: Duration::ZERO,
        expires_in: Duration::from_mins(1),
        ..LoginRules::default()
    });
    let (_, given) = read(ask_code(&sandbox, "").send().await.unwrap()).await;
    assert_eq!(
        (&given["interval"], &given["expires_in"]),
        (&json!(0), &json!(60))
    );
    let code = given["device_code"].as_str().unwrap();
    for _ in 0..3 {
        let (_, said) = read(ask_token(&sandbox, code).send().await.unwrap()).await;
        assert_eq!(
            said["error"], "authorization_pending",
            "as fast as one likes"
        );
    }
    before.poll().await;
    assert_eq!(before.poll().await["error"], "slow_down");
    assert_eq!(
        before.poll_after(60).await["error"],
        "authorization_pending"
    );
    let (_, said) = read(ask_token(&sandbox, code).send().await.unwrap()).await;
    assert_eq!(said["error"], "expired_token");
}

#[tokio::test]
async fn reported_to_slow_down_the_next_polls_come_too_fast_whenever_they_come() {
    let (sandbox, clock) = clocked().await;
    let device = Device::start(&sandbox, &clock).await;
    sandbox.identity().slow_down(2);
    assert_eq!(device.poll_after(100).await["interval"], 10);
    assert_eq!(device.poll_after(100).await["interval"], 15);
    assert_eq!(
        device.poll_after(100).await["error"],
        "authorization_pending"
    );
}

#[tokio::test]
async fn a_user_can_grant_less_than_was_asked_for() {
    let (sandbox, clock) = clocked().await;
    sandbox.identity().set_rules(LoginRules {
        granted: Some(vec!["read:user".to_owned()]),
        ..LoginRules::default()
    });
    let device = Device::start(&sandbox, &clock).await;
    sandbox
        .identity()
        .approve(&device.user_code, "octavia")
        .unwrap();
    let given = device.poll().await;
    assert_eq!(given["scope"], "read:user");
    let token = given["access_token"].as_str().unwrap();
    let user = api(&sandbox, "/user", token).send().await.unwrap();
    assert_eq!(user.headers()["X-OAuth-Scopes"], "read:user");
    let emails = api(&sandbox, "/user/emails", token).send().await.unwrap();
    assert_eq!(emails.status(), 404);
}

#[tokio::test]
async fn an_eleventh_token_of_the_same_user_and_scopes_revokes_the_first() {
    let sandbox = sandbox().await;
    let others = token(&sandbox, "petra");
    let few = sandbox.identity().issue("octavia", &["read:user"]).unwrap();
    let tokens: Vec<_> = (0..11).map(|_| token(&sandbox, "octavia")).collect();
    let good: Vec<_> = sandbox.identity().tokens();
    let good: Vec<_> = good.iter().filter(|token| token.live).collect();
    let good: Vec<_> = good.iter().map(|token| &token.token).collect();
    let expected: Vec<_> = [&others, &few].into_iter().chain(&tokens[1..]).collect();
    assert_eq!(good, expected);
    let first = api(&sandbox, "/user", &tokens[0]).send().await.unwrap();
    assert_eq!(first.status(), 401);
}

#[tokio::test]
async fn many_polls_at_once_get_one_token() {
    let (sandbox, clock) = clocked().await;
    sandbox.identity().set_rules(LoginRules {
        interval: Duration::ZERO,
        ..LoginRules::default()
    });
    let device = Device::start(&sandbox, &clock).await;
    sandbox
        .identity()
        .approve(&device.user_code, "octavia")
        .unwrap();
    let polls = (0..16).map(|_| device.poll());
    let said = futures_util::future::join_all(polls).await;
    let given = said.iter().filter(|said| said["access_token"].is_string());
    assert_eq!(given.count(), 1);
    assert_eq!(sandbox.identity().tokens().len(), 1);
    assert_eq!(sandbox.identity().requests()[&Route::AccessToken], 16);
    assert_eq!(sandbox.identity().requests()[&Route::DeviceCode], 1);
}
