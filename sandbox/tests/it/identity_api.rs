//! The identity provider's API: users, their addresses, tokens, and every refusal.

use std::time::Duration;

use reqwest::header::HeaderMap;
use sandbox::{
    Answer, Email, IDENTITY_CLIENT_ID, IDENTITY_CLIENT_SECRET, Limit, LoginRules, Route, User,
    Visibility,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::device::{api, api_without_token, clocked, token};
use crate::support::{NOW, client, read, sandbox};

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers
        .get(name)
        .map_or("", |value| value.to_str().unwrap())
}

async fn refused(request: reqwest::RequestBuilder) -> (u16, Value) {
    read(request.send().await.unwrap()).await
}

#[tokio::test]
async fn a_user_is_shown_with_what_the_token_may_and_how_often() {
    let (sandbox, clock) = clocked().await;
    let token = token(&sandbox, "octavia");
    for used in 1..3 {
        let answer = api(&sandbox, "/user", &token).send().await.unwrap();
        let headers = answer.headers().clone();
        for (name, value) in [
            ("X-OAuth-Scopes", "read:user, user:email"),
            ("X-Accepted-OAuth-Scopes", ""),
            ("X-GitHub-Media-Type", "github.v3; format=json"),
            ("X-GitHub-Api-Version-Selected", "2022-11-28"),
            ("X-RateLimit-Limit", "5000"),
            ("X-RateLimit-Remaining", &(5000 - used).to_string()),
            ("X-RateLimit-Used", &used.to_string()),
            (
                "X-RateLimit-Reset",
                &(NOW.unix_seconds() + 3600).to_string(),
            ),
            ("X-RateLimit-Resource", "core"),
        ] {
            assert_eq!(header(&headers, name), value, "{name}");
        }
        let (status, user) = read(answer).await;
        assert_eq!(status, 200);
        assert_eq!(
            (&user["login"], &user["type"]),
            (&json!("octavia"), &json!("User"))
        );
        assert_eq!(user["name"], "Octavia Lund");
        assert!(user["id"].is_u64() && user["email"].is_null(), "{user}");
        let orgs = format!("{}/users/octavia/orgs", sandbox.identity_api_url());
        assert_eq!(user["organizations_url"], orgs);
    }
    clock.advance(Duration::from_hours(1));
    let answer = api(&sandbox, "/user", &token).send().await.unwrap();
    assert_eq!(header(answer.headers(), "X-RateLimit-Used"), "1");
    let old = client().get(format!("{}/user", sandbox.identity_api_url()));
    let old = old
        .header("User-Agent", "w")
        .header("Authorization", format!("token {token}"));
    assert_eq!(old.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn an_address_is_on_the_profile_only_when_it_is_public() {
    let sandbox = sandbox().await;
    for (login, email) in [
        ("petra", json!("petra@example.com")),
        ("octavia", Value::Null),
        ("nemo", Value::Null),
    ] {
        let token = token(&sandbox, login);
        let (_, user) = refused(api(&sandbox, "/user", &token)).await;
        assert_eq!(user["email"], email, "{login}");
    }
}

#[tokio::test]
async fn the_built_in_users_have_addresses_of_every_state() {
    let sandbox = sandbox().await;
    let row = |email: &str, primary: bool, verified: bool, visibility: Value| {
        json!({
            "email": email,
            "primary": primary,
            "verified": verified,
            "visibility": visibility,
        })
    };
    let private = || json!("private");
    for (login, expected) in [
        (
            "octavia",
            json!([
                row("octavia.old@example.com", false, true, Value::Null),
                row("octavia@example.com", true, true, private()),
            ]),
        ),
        (
            "petra",
            json!([row("petra@example.com", true, true, json!("public"))]),
        ),
        (
            "noah",
            json!([
                row("noah@example.com", true, false, private()),
                row("noah.work@example.com", false, false, Value::Null),
            ]),
        ),
        (
            "ulla",
            json!([
                row("ulla@example.com", true, false, private()),
                row("ulla.second@example.com", false, true, Value::Null),
            ]),
        ),
        ("nemo", json!([])),
    ] {
        let token = token(&sandbox, login);
        let answer = api(&sandbox, "/user/emails", &token).send().await.unwrap();
        let accepted = header(answer.headers(), "X-Accepted-OAuth-Scopes").to_owned();
        assert_eq!(accepted, "user, user:email");
        assert!(answer.headers().get("Link").is_none());
        assert_eq!(read(answer).await, (200, expected), "{login}");
    }
}

#[tokio::test]
async fn many_addresses_come_in_pages() {
    let sandbox = sandbox().await;
    let token = token(&sandbox, "manuela");
    let url = format!("{}/user/emails", sandbox.identity_api_url());
    for (query, count, links) in [
        ("", 30, vec![("?page=2", "next"), ("?page=2", "last")]),
        (
            "?page=2",
            3,
            vec![("?page=1", "prev"), ("?page=1", "first")],
        ),
        ("?per_page=100", 33, vec![]),
        ("?per_page=1000", 33, vec![]),
        (
            "?per_page=10&page=2",
            10,
            vec![
                ("?per_page=10&page=1", "prev"),
                ("?per_page=10&page=3", "next"),
                ("?per_page=10&page=4", "last"),
                ("?per_page=10&page=1", "first"),
            ],
        ),
        (
            "?page=9",
            0,
            vec![("?page=2", "prev"), ("?page=1", "first")],
        ),
        (
            "?per_page=none&page=0",
            30,
            vec![("?page=2", "next"), ("?page=2", "last")],
        ),
    ] {
        let path = format!("/user/emails{query}");
        let answer = api(&sandbox, &path, &token).send().await.unwrap();
        let links: Vec<_> = links
            .into_iter()
            .map(|(page, rel)| format!("<{url}{page}>; rel=\"{rel}\""))
            .collect();
        assert_eq!(
            header(answer.headers(), "Link"),
            links.join(", "),
            "{query}"
        );
        let (status, emails) = read(answer).await;
        assert_eq!(
            (status, emails.as_array().unwrap().len()),
            (200, count),
            "{query}"
        );
    }
    let (_, second) = refused(api(&sandbox, "/user/emails?page=2", &token)).await;
    assert_eq!(second[2]["email"], "manuela@example.com");
    assert_eq!(second[2]["primary"], true, "on the second page");
}

#[tokio::test]
async fn addresses_need_their_scope() {
    let sandbox = sandbox().await;
    for (scopes, status) in [
        (&["read:user"][..], 404),
        (&[], 404),
        (&["user"], 200),
        (&["user:email"], 200),
    ] {
        let token = sandbox.identity().issue("octavia", scopes).unwrap();
        let answer = api(&sandbox, "/user/emails", &token).send().await.unwrap();
        assert_eq!(answer.status(), status, "{scopes:?}");
        assert_eq!(
            header(answer.headers(), "X-OAuth-Scopes"),
            scopes.join(", ")
        );
        if status == 404 {
            let (_, said) = read(answer).await;
            assert_eq!(
                (&said["message"], &said["status"]),
                (&json!("Not Found"), &json!("404"))
            );
        }
    }
}

#[tokio::test]
async fn a_token_that_is_not_good_is_bad_credentials_and_none_is_required() {
    let sandbox = sandbox().await;
    let revoked = token(&sandbox, "octavia");
    assert!(sandbox.identity().revoke(&revoked));
    assert!(!sandbox.identity().revoke(&revoked));
    let bad = json!({
        "message": "Bad credentials",
        "documentation_url": "https://docs.github.com/rest",
        "status": "401",
    });
    for token in [&revoked, "gho_x", "", "ä"] {
        for path in ["/user", "/user/emails"] {
            let request = api(&sandbox, path, token);
            assert_eq!(refused(request).await, (401, bad.clone()), "{token}");
        }
    }
    for (path, about) in [
        ("/user", "users/users#get-the-authenticated-user"),
        (
            "/user/emails",
            "users/emails#list-email-addresses-for-the-authenticated-user",
        ),
    ] {
        let answer = api_without_token(&sandbox, path).send().await.unwrap();
        assert_eq!(header(answer.headers(), "X-RateLimit-Limit"), "60");
        let expected = json!({
            "message": "Requires authentication",
            "documentation_url": format!("https://docs.github.com/rest/{about}"),
            "status": "401",
        });
        assert_eq!(read(answer).await, (401, expected));
    }
}

#[tokio::test]
async fn without_user_agent_with_another_version_or_a_slash_too_many_there_is_nothing() {
    let sandbox = sandbox().await;
    let token = token(&sandbox, "octavia");
    let url = format!("{}/user", sandbox.identity_api_url());
    let nobody = client().get(&url).bearer_auth(&token).send().await.unwrap();
    assert_eq!(nobody.status(), 403);
    assert!(nobody.text().await.unwrap().contains("User-Agent"));
    let agent = client()
        .get(&url)
        .bearer_auth(&token)
        .header("User-Agent", "w");
    let old = agent.header("X-GitHub-Api-Version", "1999-01-01");
    let (status, said) = refused(old).await;
    assert_eq!((status, &said["status"]), (400, &json!("400")));
    assert_eq!(said["message"], "Version 1999-01-01 is not supported.");
    for path in ["/user/", "/user/emails/", "/users", "/user/orgs"] {
        let (status, said) = refused(api(&sandbox, path, &token)).await;
        assert_eq!(
            (status, &said["message"]),
            (404, &json!("Not Found")),
            "{path}"
        );
    }
    let posted = client()
        .post(&url)
        .header("User-Agent", "w")
        .bearer_auth(&token);
    assert_eq!(posted.send().await.unwrap().status(), 404);
}

fn about(
    sandbox: &sandbox::Sandbox,
    method: reqwest::Method,
    client_id: &str,
    token: &str,
) -> reqwest::RequestBuilder {
    let url = format!(
        "{}/applications/{client_id}/token",
        sandbox.identity_api_url()
    );
    client()
        .request(method, url)
        .header("User-Agent", "waybill")
        .json(&json!({"access_token": token}))
}

#[tokio::test]
async fn the_app_itself_asks_whether_a_token_is_good_and_revokes_it() {
    let sandbox = sandbox().await;
    let token = token(&sandbox, "octavia");
    let secret = Some(IDENTITY_CLIENT_SECRET);
    let id = IDENTITY_CLIENT_ID;
    let ask = |token: &str| about(&sandbox, reqwest::Method::POST, id, token);
    let (status, said) = refused(ask(&token).basic_auth(id, secret)).await;
    assert_eq!(status, 200);
    let expected = json!({
        "id": 1,
        "url": format!("{}/authorizations/1", sandbox.identity_api_url()),
        "scopes": ["read:user", "user:email"],
        "token": token,
        "token_last_eight": &token[32..],
        "hashed_token": hex::encode(Sha256::digest(&token)),
        "app": {
            "url": "https://waybill.example",
            "name": "Waybill",
            "client_id": id,
        },
        "note": null,
        "note_url": null,
        "updated_at": "2027-01-15T08:00:00Z",
        "created_at": "2027-01-15T08:00:00Z",
        "fingerprint": null,
        "expires_at": null,
        "user": said["user"],
    });
    assert_eq!(said, expected);
    assert_eq!(said["user"]["login"], "octavia");
    assert!(said["user"].get("email").is_none());
    let unknown = json!({
        "message": "Not Found",
        "documentation_url": "https://docs.github.com/rest/apps/oauth-applications#check-a-token",
        "status": "404",
    });
    let (status, said) = refused(ask("gho_x").basic_auth(id, secret)).await;
    assert_eq!((status, &said), (404, &unknown));
    for (request, status, message) in [
        (ask(&token), 401, "Requires authentication"),
        (
            ask(&token).basic_auth(id, Some("wrong")),
            401,
            "Bad credentials",
        ),
        (
            ask(&token).basic_auth("other", secret),
            401,
            "Bad credentials",
        ),
        (ask(&token).bearer_auth(&token), 401, "Bad credentials"),
        (
            ask(&token).basic_auth(id, secret).json(&json!({})),
            422,
            "Invalid request.\n\n\"access_token\" wasn't supplied.",
        ),
        (
            about(&sandbox, reqwest::Method::POST, "other", &token).basic_auth(id, secret),
            404,
            "Not Found",
        ),
    ] {
        let (found, said) = refused(request).await;
        assert_eq!((found, &said["message"]), (status, &json!(message)));
    }
    let revoke = || {
        let request = about(&sandbox, reqwest::Method::DELETE, id, &token);
        request.basic_auth(id, secret).send()
    };
    assert_eq!(revoke().await.unwrap().status(), 204);
    assert_eq!(revoke().await.unwrap().status(), 404);
    assert_eq!(
        refused(ask(&token).basic_auth(id, secret)).await,
        (404, unknown)
    );
    let user = api(&sandbox, "/user", &token).send().await.unwrap();
    assert_eq!(user.status(), 401);
    let requests = sandbox.identity().requests();
    assert_eq!(
        (requests[&Route::CheckToken], requests[&Route::RevokeToken]),
        (9, 2)
    );
}

#[tokio::test]
async fn a_primary_limit_says_when_it_ends_and_ends_then() {
    let (sandbox, clock) = clocked().await;
    let token = token(&sandbox, "octavia");
    for status in [403, 429] {
        let limit = Limit::Primary { status };
        sandbox.identity().limit(limit, Duration::from_secs(90));
        for path in ["/user", "/user/emails"] {
            let answer = api(&sandbox, path, &token).send().await.unwrap();
            let headers = answer.headers().clone();
            let reset = clock.now().plus(Duration::from_secs(90)).unix_seconds();
            assert_eq!(header(&headers, "X-RateLimit-Remaining"), "0");
            assert_eq!(header(&headers, "X-RateLimit-Used"), "5000");
            assert_eq!(header(&headers, "X-RateLimit-Reset"), reset.to_string());
            assert!(headers.get("Retry-After").is_none());
            let (found, said) = read(answer).await;
            assert_eq!(found, status);
            let message = said["message"].as_str().unwrap();
            assert!(
                message.starts_with("API rate limit exceeded for user ID "),
                "{message}"
            );
        }
        let id = IDENTITY_CLIENT_ID;
        let check = about(&sandbox, reqwest::Method::POST, id, &token);
        let check = check.basic_auth(id, Some(IDENTITY_CLIENT_SECRET));
        assert_eq!(refused(check).await.0, status, "the app's calls too");
        clock.advance(Duration::from_secs(90));
        let after = api(&sandbox, "/user", &token).send().await.unwrap();
        assert_eq!(after.status(), 200);
    }
}

#[tokio::test]
async fn a_secondary_limit_may_say_when_to_come_back() {
    let sandbox = sandbox().await;
    let token = token(&sandbox, "octavia");
    for (status, retry_after, said) in [(403, Some(Duration::from_mins(1)), "60"), (429, None, "")]
    {
        let limit = Limit::Secondary {
            status,
            retry_after,
        };
        sandbox.identity().limit(limit, Duration::from_mins(1));
        let answer = api(&sandbox, "/user", &token).send().await.unwrap();
        assert_eq!(header(answer.headers(), "Retry-After"), said);
        assert_ne!(header(answer.headers(), "X-RateLimit-Remaining"), "0");
        let (found, body) = read(answer).await;
        let expected = json!({
            "message": "You have exceeded a secondary rate limit. Please wait a few minutes \
                        before you try again.",
            "documentation_url": "https://docs.github.com/rest/overview/\
                                  rate-limits-for-the-rest-api#about-secondary-rate-limits",
        });
        assert_eq!((found, body), (status, expected));
    }
    sandbox.identity().lift_limits();
    let after = api(&sandbox, "/user", &token).send().await.unwrap();
    assert_eq!(after.status(), 200);
}

#[tokio::test]
async fn who_uses_the_hour_up_waits_for_the_next_and_others_do_not() {
    let (sandbox, clock) = clocked().await;
    sandbox.identity().set_rules(LoginRules {
        calls_per_hour: 2,
        ..LoginRules::default()
    });
    let (one, other) = (token(&sandbox, "octavia"), token(&sandbox, "petra"));
    let mut statuses = Vec::new();
    for token in [&one, &one, &one, &other] {
        let answer = api(&sandbox, "/user", token).send().await.unwrap();
        statuses.push(answer.status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 403, 200]);
    let answer = api(&sandbox, "/user", &one).send().await.unwrap();
    assert_eq!(header(answer.headers(), "X-RateLimit-Remaining"), "0");
    clock.advance(Duration::from_hours(1));
    let after = api(&sandbox, "/user", &one).send().await.unwrap();
    assert_eq!(after.status(), 200);
}

#[tokio::test]
async fn after_several_bad_tokens_good_ones_are_refused_too_for_a_while() {
    let (sandbox, clock) = clocked().await;
    let good = token(&sandbox, "octavia");
    for _ in 0..10 {
        assert_eq!(
            refused(api(&sandbox, "/user", "gho_x")).await.0,
            401,
            "not unless asked"
        );
    }
    sandbox.identity().lift_limits();
    sandbox.identity().set_rules(LoginRules {
        lock_after: Some(3),
        lock_for: Duration::from_mins(1),
        ..LoginRules::default()
    });
    for _ in 0..3 {
        assert_eq!(refused(api(&sandbox, "/user", "gho_x")).await.0, 401);
    }
    let expected = json!({
        "message": "Maximum number of login attempts exceeded. Please try again later.",
        "documentation_url": "https://docs.github.com/rest",
        "status": "403",
    });
    for token in ["gho_x", &good] {
        let said = refused(api(&sandbox, "/user/emails", token)).await;
        assert_eq!(said, (403, expected.clone()));
    }
    let id = IDENTITY_CLIENT_ID;
    let check = about(&sandbox, reqwest::Method::POST, id, &good);
    let check = check.basic_auth(id, Some(IDENTITY_CLIENT_SECRET));
    assert_eq!(refused(check).await.0, 200, "the app asks without that");
    clock.advance(Duration::from_mins(1));
    assert_eq!(refused(api(&sandbox, "/user", &good)).await.0, 200);
}

#[tokio::test]
async fn a_user_who_is_added_can_be_anyone() {
    let sandbox = sandbox().await;
    assert_eq!(sandbox.identity().issue("ada", &[]), None);
    let public = Email {
        visibility: Some(Visibility::Public),
        ..Email::primary("ada@example.com", true)
    };
    let other = Email::other("ada.two@example.com", false);
    let ada = User::new("ada", None, vec![public, other]);
    sandbox.identity().add_user(User {
        id: 7,
        ..ada.clone()
    });
    let old = token(&sandbox, "ada");
    let (_, user) = refused(api(&sandbox, "/user", &old)).await;
    assert_eq!((&user["id"], &user["name"]), (&json!(7), &Value::Null));
    assert_eq!(user["email"], "ada@example.com");
    let (_, emails) = refused(api(&sandbox, "/user/emails", &old)).await;
    assert_eq!(emails, json!(ada.emails));
    assert_eq!(
        User::new("ada", None, vec![]).id,
        ada.id,
        "follows from the login"
    );
    sandbox.identity().add_user(User { id: 8, ..ada });
    let (_, user) = refused(api(&sandbox, "/user", &old)).await;
    assert_eq!(user["id"], 8, "in place of the other");
}

#[tokio::test]
async fn a_route_answers_word_for_word_and_the_others_as_usual() {
    let sandbox = sandbox().await;
    let token = token(&sandbox, "octavia");
    let html = Answer {
        status: 502,
        headers: vec![("Content-Type".to_owned(), "text/html".to_owned())],
        body: "<h1>Something went wrong</h1>".to_owned(),
    };
    sandbox.identity().answer_next(Route::Emails, 1, html);
    assert_eq!(refused(api(&sandbox, "/user", &token)).await.0, 200);
    let answer = api(&sandbox, "/user/emails", &token).send().await.unwrap();
    assert_eq!(answer.status(), 502);
    assert_eq!(header(answer.headers(), "Content-Type"), "text/html");
    assert!(answer.headers().get("X-RateLimit-Limit").is_none());
    assert_eq!(
        answer.text().await.unwrap(),
        "<h1>Something went wrong</h1>"
    );
    assert_eq!(refused(api(&sandbox, "/user/emails", &token)).await.0, 200);
    assert_eq!(
        sandbox.identity().fault_injector(Route::Emails).requests(),
        2
    );
}
