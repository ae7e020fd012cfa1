//! Who gets into the console, and for how long.

use crate::support::process::{command, free_port, is_ready};
use std::fs::File;
use std::time::Duration;

use config::{Config, Mode, Settings};
use domain::api_key::{Rights, Role, Scope, Shops};
use store::api_keys;
use workers::Worker;

use crate::support::console::{LISTS, Session, role};
use crate::support::delivery::order;
use crate::support::order::deliver;
use crate::support::{Service, service};

/// A key of this role.
async fn key(service: &Service, of: Role) -> String {
    service.api_key_for("ann", &role(of)).await
}

#[tokio::test]
async fn without_a_session_there_is_the_page_for_signing_in_and_nothing_else() {
    let mut service = service().start().await;
    deliver(&service, &order("orders/create", 7).id("w-1")).await;
    let console = service.console().await;
    let mut paths: Vec<String> = LISTS.map(str::to_owned).into();
    for path in [
        "/orders/5",
        "/jobs/00000000-0000-0000-0000-000000000000",
        "/payments/pi_1",
    ] {
        paths.push(path.to_owned());
    }
    for path in LISTS {
        paths.extend([format!("{path}?format=json"), format!("{path}?format=csv")]);
    }
    for path in paths {
        for cookie in [
            None,
            Some("waybill-console="),
            Some("waybill-console=00ff"),
            Some("other=1"),
        ] {
            let mut request = console.get(&path);
            if let Some(cookie) = cookie {
                request = request.header("Cookie", cookie);
            }
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), 401, "{path}");
            let headers = answer.headers();
            assert_eq!(headers["cache-control"], "no-store", "{path}");
            assert_eq!(headers["x-frame-options"], "DENY", "{path}");
            let policy = headers["content-security-policy"].to_str().unwrap();
            assert!(
                policy.contains("default-src 'none'") && !policy.contains("unsafe"),
                "{policy}"
            );
            let page = answer.text().await.unwrap();
            assert!(
                page.contains("Operator's key") && page.contains("action=\"/sign-in\""),
                "{page}"
            );
            for expected in ["w-1", "orders/create", "shop.example", "Sign out"] {
                assert!(!page.contains(expected), "{expected} in {path}: {page}");
            }
        }
    }
    for file in ["/console.css", "/console.js"] {
        assert_eq!(console.get(file).send().await.unwrap().status(), 200);
    }
    assert_eq!(
        console.get("/api/events").send().await.unwrap().status(),
        404
    );
    service.stop().await;
}

#[tokio::test]
async fn who_has_a_key_signs_in_is_led_where_they_wanted_and_signs_out() {
    let mut service = service().without_workers().start().await;
    let console = service.console().await;
    let key = key(&service, Role::Reader).await;
    let page = console.get("/dead?kind=orders%2F*").send().await.unwrap();
    let page = page.text().await.unwrap();
    assert!(
        page.contains("name=\"next\" value=\"/dead?kind=orders%2F*\""),
        "{page}"
    );
    let sent = [("key", key.as_str()), ("next", "/dead?kind=orders%2F*")];
    let answer = console.post("/sign-in", &sent).send().await.unwrap();
    assert_eq!(answer.status(), 303);
    assert_eq!(answer.headers()["location"], "/dead?kind=orders%2F*");
    let cookie = answer.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("waybill-console="), "{cookie}");
    assert!(
        cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
        "{cookie}"
    );
    let session = Session::of(&answer);
    for path in LISTS {
        let page = console.shown(&session, path).await;
        assert!(page.contains("ann") && page.contains("reader"), "{path}");
    }
    let elsewhere = [("key", key.as_str()), ("next", "//evil.example/")];
    let answer = console.post("/sign-in", &elsewhere).send().await.unwrap();
    assert_eq!(answer.headers()["location"], "/");
    let token = console.token(&session).await;
    let leave = console.post("/sign-out", &[("token", &token)]);
    let left = session.send(leave).await;
    assert_eq!(left.status(), 303);
    let cookie = left.headers()["set-cookie"].to_str().unwrap();
    assert!(cookie.contains("Max-Age=0"), "{cookie}");
    assert_eq!(
        console.page(&session, "/").await.0,
        401,
        "a copied cookie opens nothing any more"
    );
    service.stop().await;
}

#[tokio::test]
async fn only_a_key_with_a_role_opens_the_console() {
    let mut service = service().without_workers().start().await;
    let console = service.console().await;
    let of = |scopes: Option<Vec<Scope>>, shops: Option<&str>| Rights {
        scopes,
        shops: Shops(shops.map(|shop| vec![shop.to_owned()])),
    };
    let owner = service.api_key_for("owner", &role(Role::Owner)).await;
    let every = service.api_key_for("every", &of(None, None)).await;
    let orders = of(Some(vec![Scope::OrdersRead]), None);
    let orders = service.api_key_for("orders", &orders).await;
    let shop = service
        .api_key_for("shop", &of(None, Some("shop.example")))
        .await;
    let mut tx = service.db().begin().await.unwrap();
    let now = service.clock().now();
    let reader = role(Role::Reader);
    let ended = api_keys::create(
        &mut tx,
        service.clock(),
        service.clock().id(),
        "ended",
        Some(now),
        &reader,
    )
    .await;
    let revoked = api_keys::create(
        &mut tx,
        service.clock(),
        service.clock().id(),
        "revoked",
        None,
        &reader,
    )
    .await;
    let (ended, revoked) = (ended.unwrap(), revoked.unwrap());
    assert!(api_keys::revoke(&mut tx, revoked.id, now).await.unwrap());
    tx.commit().await.unwrap();
    for (key, status) in [
        (owner.as_str(), 303),
        (&every, 403),
        (&orders, 403),
        (&shop, 403),
        (&ended.key, 401),
        (&revoked.key, 401),
        ("wb_guessed", 401),
        ("", 401),
    ] {
        let answer = console
            .post(
                "/sign-in",
                &[("key", key), ("next", "/dead?shop=a.example")],
            )
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), status, "{key}");
        assert_eq!(answer.headers().contains_key("set-cookie"), status == 303);
        let page = answer.text().await.unwrap();
        // Whoever was wrong once still goes on where they wanted to.
        let goes_on = "name=\"next\" value=\"/dead?shop=a.example\"";
        assert_eq!(page.contains(goes_on), status != 303, "{page}");
        assert!(
            key.len() < 20 || !page.contains(key),
            "a page quotes no key"
        );
    }
    service.stop().await;
}

#[tokio::test]
async fn a_session_ends_with_its_key_when_it_is_idle_and_after_half_a_day() {
    let mut service = service().without_workers().manual_clock().start().await;
    let console = service.console().await;
    let first = key(&service, Role::Owner).await;
    let session = console.sign_in(&first).await;
    // Used every twenty minutes, it lasts; but no longer than half a day.
    for _ in 0..35 {
        service.clock().advance(Duration::from_mins(20));
        assert_eq!(console.page(&session, "/search").await.0, 200);
    }
    service.clock().advance(Duration::from_mins(20));
    assert_eq!(
        console.page(&session, "/search").await.0,
        401,
        "half a day is over"
    );
    let idle = console.sign_in(&first).await;
    service.clock().advance(Duration::from_mins(29));
    assert_eq!(console.page(&idle, "/search").await.0, 200);
    service.clock().advance(Duration::from_mins(31));
    assert_eq!(
        console.page(&idle, "/search").await.0,
        401,
        "it was not used"
    );
    let revoked = console.sign_in(&first).await;
    let keys = api_keys::list(service.db(), service.clock().now())
        .await
        .unwrap();
    let mut tx = service.db().begin().await.unwrap();
    let now = service.clock().now();
    assert!(api_keys::revoke(&mut tx, keys[0].id, now).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(
        console.page(&revoked, "/search").await.0,
        401,
        "its key is revoked"
    );
    let rows = "select count(*) as n from console_sessions";
    assert_eq!(service.count(rows).await, 3);
    service.clock().advance(Duration::from_mins(31));
    let worker = Worker::new(service.parts.clone(), domain::job::Queue::Orders, 1);
    worker.keep_house().await.unwrap();
    assert_eq!(
        service.count(rows).await,
        0,
        "those that are over are deleted"
    );
    service.stop().await;
}

#[tokio::test]
async fn the_database_has_no_cookie_that_signs_anybody_in() {
    let mut service = service().without_workers().start().await;
    let console = service.console().await;
    let session = console.sign_in(&key(&service, Role::Owner).await).await;
    let row = service.db().query("select hash from console_sessions");
    let hash: Vec<u8> = row.fetch_one().await.unwrap().get("hash").unwrap();
    let cookie = session.cookie.split_once('=').unwrap().1;
    assert_ne!(hex::encode(&hash), cookie);
    let stolen = Session {
        cookie: format!("waybill-console={}", hex::encode(&hash)),
    };
    assert_eq!(console.page(&stolen, "/").await.0, 401);
    service.stop().await;
}

#[tokio::test]
async fn a_page_elsewhere_can_neither_sign_anybody_in_nor_send_a_form() {
    let mut service = service().without_workers().start().await;
    let console = service.console().await;
    let key = key(&service, Role::Owner).await;
    let session = console.sign_in(&key).await;
    let other = console.sign_in(&key).await;
    let (token, others) = (console.token(&session).await, console.token(&other).await);
    assert_ne!(token, others);
    let own = console.url.clone();
    for (origin, site) in [
        (Some("http://evil.example"), Some("cross-site")),
        (Some("http://evil.example"), None),
        (Some("null"), None),
        (None, Some("cross-site")),
        (None, Some("same-site")),
        (Some(own.as_str()), Some("same-site")),
        (None, None),
    ] {
        for (path, fields) in [
            ("/sign-in", vec![("key", key.as_str())]),
            (
                "/search",
                vec![("token", token.as_str()), ("q", "ann@example.com")],
            ),
            ("/sign-out", vec![("token", token.as_str())]),
        ] {
            let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
            let mut request = client
                .build()
                .unwrap()
                .post(format!("{}{path}", console.url))
                .header("Cookie", &session.cookie)
                .form(&fields);
            if let Some(origin) = origin {
                request = request.header("Origin", origin);
            }
            if let Some(site) = site {
                request = request.header("Sec-Fetch-Site", site);
            }
            let status = request.send().await.unwrap().status();
            assert_eq!(status, 403, "{path} from {origin:?}, {site:?}");
        }
    }
    for wrong in ["", "0", others.as_str()] {
        let request = console.post("/search", &[("token", wrong), ("q", "ann@example.com")]);
        let answer = session.send(request).await;
        assert_eq!(answer.status(), 403, "{wrong}");
    }
    assert_eq!(
        console.page(&session, "/").await.0,
        200,
        "nobody was signed out"
    );
    let request = console.post("/search", &[("token", &token), ("q", "ann@example.com")]);
    let answer = session.send(request).await;
    assert_eq!(answer.status(), 200);
    service.stop().await;
}

#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_not_the_console() {
    let mut service = service().without_workers().start().await;
    let console = service.console().await;
    let session = console.sign_in(&key(&service, Role::Owner).await).await;
    for host in ["evil.example", "127.0.0.1.evil.example", "evil.example:80"] {
        for path in ["/", "/sign-in", "/console.js", "/deliveries?format=json"] {
            let request = console.get(path).header("Host", host);
            let answer = session.send(request).await;
            assert_eq!(answer.status(), 421, "{host}{path}");
        }
    }
    let tunnel = console.get("/").header("Host", "localhost:9000");
    let answer = session.send(tunnel).await;
    assert_eq!(answer.status(), 200);
    service.stop().await;
}

#[tokio::test]
async fn who_guesses_keys_has_to_wait() {
    let mut service = service().without_workers().manual_clock().start().await;
    let console = service.console().await;
    let key = key(&service, Role::Owner).await;
    for _ in 0..20 {
        let answer = console
            .post("/sign-in", &[("key", "wb_guess")])
            .send()
            .await;
        assert_eq!(answer.unwrap().status(), 401);
    }
    for tried in ["wb_guess", key.as_str()] {
        let answer = console
            .post("/sign-in", &[("key", tried)])
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 429);
        assert!(answer.headers().contains_key("retry-after"));
    }
    service.clock().advance(Duration::from_mins(1));
    console.sign_in(&key).await;
    service.stop().await;
}

#[tokio::test]
async fn a_link_signs_in_once_with_the_rights_of_its_key() {
    let mut service = service().without_workers().start().await;
    let mut tx = service.db().begin().await.unwrap();
    let rights = role(Role::Owner);
    let made = api_keys::create(
        &mut tx,
        service.clock(),
        service.clock().id(),
        "try",
        None,
        &rights,
    );
    let made = made.await.unwrap();
    tx.commit().await.unwrap();
    let listening = service.listening_console().await.unwrap();
    let link = listening.link(made.id);
    let console = service.serve_console(listening);
    let path = link.strip_prefix(&console.url).unwrap();
    for _ in 0..25 {
        // As a page elsewhere has the browser ask for it.
        let image = console
            .get("/sign-in/once?code=00")
            .header("Sec-Fetch-Site", "cross-site");
        assert_eq!(image.send().await.unwrap().status(), 403);
        let back = console.get("/sign-in/back?code=1&state=00").send();
        back.await.unwrap();
        console.get("/sign-in/once?code=00").send().await.unwrap();
    }
    let wrong = console.get("/sign-in/once?code=00").send().await.unwrap();
    assert_eq!(wrong.status(), 401);
    let answer = console.get(path).send().await.unwrap();
    assert_eq!(answer.status(), 303);
    assert_eq!(answer.headers()["location"], "/");
    let session = Session::of(&answer);
    assert!(console.shown(&session, "/").await.contains("owner"));
    let again = console.get(path).send().await.unwrap();
    assert_eq!(again.status(), 401);
    assert!(!again.headers().contains_key("set-cookie"));
    service.stop().await;
}

#[tokio::test]
async fn behind_a_proxy_it_needs_a_key_and_its_cookie_goes_over_https_alone() {
    let mut service = service()
        .without_workers()
        .setting("CONSOLE_URL", "https://console.example")
        .start()
        .await;
    let refused = service.listening_console().await.err().unwrap().to_string();
    assert!(refused.contains("waybill keys create"), "{refused}");
    let orders = Rights {
        scopes: Some(vec![Scope::OrdersRead]),
        shops: Shops::default(),
    };
    service.api_key_for("orders", &orders).await;
    assert!(
        service.listening_console().await.is_err(),
        "no key opens it"
    );
    let key = key(&service, Role::Reader).await;
    let listening = service.listening_console().await.unwrap();
    assert_eq!(listening.url(), "https://console.example");
    let address = listening.address();
    let mut console = service.serve_console(listening);
    console.url = format!("http://{address}");
    let sign_in = |origin: &str| {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        client
            .build()
            .unwrap()
            .post(format!("http://{address}/sign-in"))
            .header("Host", "console.example")
            .header("Origin", origin)
            .form(&[("key", &key)])
    };
    let wrong = sign_in("http://console.example").send().await.unwrap();
    assert_eq!(wrong.status(), 403);
    let answer = sign_in("https://console.example").send().await.unwrap();
    assert_eq!(answer.status(), 303);
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.starts_with("__Host-waybill-console="), "{cookie}");
    assert!(
        cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict; Secure"),
        "{cookie}"
    );
    let session = Session::of(&answer);
    let page = |cookie: &str| {
        let request = console.get("/").header("Host", "console.example");
        request.header("Cookie", cookie).send()
    };
    assert_eq!(page(&session.cookie).await.unwrap().status(), 200);
    let without = session.cookie.replace("__Host-", "");
    assert_eq!(page(&without).await.unwrap().status(), 401);
    assert_eq!(console.get("/").send().await.unwrap().status(), 421);
    service.stop().await;
}

#[test]
fn a_console_that_others_reach_has_an_encrypted_address() {
    let load = |address: Option<&str>, url: Option<&str>| {
        let mut settings = Settings::defaults();
        settings.set("STOREFRONT_WEBHOOK_SECRET", "storefront-test-secret");
        settings.set("PAYMENT_WEBHOOK_SECRET", "payment-test-secret");
        for (name, value) in [("CONSOLE_ADDR", address), ("CONSOLE_URL", url)] {
            if let Some(value) = value {
                settings.set(name, value);
            }
        }
        Config::load(&settings, Mode::Production).map_err(|wrong| wrong.to_string())
    };
    for (address, url, named) in [
        (Some("0.0.0.0:8002"), None, "CONSOLE_URL"),
        (
            Some("0.0.0.0:8002"),
            Some("http://console.example"),
            "https://",
        ),
        (None, Some("http://192.0.2.7:8002"), "https://"),
        (
            None,
            Some("https://shop.example/console"),
            "a host of its own",
        ),
        (Some("8002"), None, "127.0.0.1:8002, or off"),
    ] {
        let said = load(address, url).unwrap_err();
        assert!(said.contains(named), "{address:?} {url:?}: {said}");
    }
    for (address, url) in [
        (None, None),
        (Some("off"), None),
        (Some("127.0.0.1:8002"), None),
        (Some("[::1]:8002"), Some("http://localhost:8002")),
        (Some("0.0.0.0:8002"), Some("https://console.example")),
        (Some("0.0.0.0:8002"), Some("http://127.0.0.1:8002")),
    ] {
        load(address, url).unwrap();
    }
}

/// What `waybill` prints until it is ready, with this setting; it goes on.
async fn start(folder: &std::path::Path, console: &str) -> (std::process::Child, String) {
    let (port, printed) = (free_port(), folder.join("printed"));
    let mut starting = command("waybill", &[("CONSOLE_ADDR", console)]);
    starting.env_remove("PRIVACY_KEY").current_dir(folder);
    starting.env("LISTEN_ADDR", format!("127.0.0.1:{port}"));
    starting.stdout(File::create(&printed).unwrap());
    let child = starting.spawn().unwrap();
    is_ready(port).await;
    (child, std::fs::read_to_string(printed).unwrap())
}

#[tokio::test]
async fn the_first_lines_have_a_link_to_the_console_unless_it_is_off() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let (mut child, printed) = start(folder.path(), &address).await;
    let link = printed
        .split_whitespace()
        .find(|word| word.starts_with(&format!("http://{address}/sign-in/once?code=")));
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    let client = client.build().unwrap();
    let answer = client.get(link.expect(&printed)).send().await.unwrap();
    assert_eq!(answer.status(), 303);
    let page = client.get(format!("http://{address}/"));
    let page = page.header("Cookie", Session::of(&answer).cookie);
    let page = page.send().await.unwrap().text().await.unwrap();
    assert!(page.contains("All is well"), "{page}");
    child.kill().unwrap();
    child.wait().unwrap();
    let (mut child, printed) = start(folder.path(), "off").await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!printed.contains("console"), "{printed}");
}

#[tokio::test]
async fn an_owner_makes_a_key_that_is_shown_once_and_ends_a_session_by_revoking_its_key() {
    let mut service = service().without_workers().start().await;
    let console = service.console().await;
    let key = service.api_key_for("ann", &role(Role::Owner)).await;
    let session = console.sign_in(&key).await;
    let token = console.token(&session).await;
    let page = console.shown(&session, "/keys/create").await;
    assert!(page.contains("name=\"scope-console:privacy\""), "{page}");
    let id = service.clock().id().to_string();
    let create = async |fields: &[(&str, &str)]| {
        let fields = [&[("token", token.as_str()), ("id", id.as_str())], fields].concat();
        session.send(console.post("/keys/create", &fields)).await
    };
    let reader = ("scope-console:reader", "yes");
    for (fields, expected) in [
        (vec![("name", "bo")], "choose what the key opens"),
        (vec![("name", " "), reader], "name must be given"),
        (
            vec![("name", "a\u{7}b"), reader],
            "cannot be the name of a key",
        ),
        (
            vec![("name", "bo"), reader, ("shop", "a/b")],
            "must be a shop domain",
        ),
        (
            vec![("name", "bo"), reader, ("expires-in-days", "0")],
            "0 is not in 1..=3650",
        ),
        (
            vec![
                ("name", "bo"),
                ("scope-checkout:write", "yes"),
                ("shop", "a.example"),
            ],
            "add the shop checkout",
        ),
    ] {
        let answer = create(&fields).await;
        assert_eq!(answer.status(), 409, "{fields:?}");
        let page = answer.text().await.unwrap();
        assert!(page.contains(expected), "{expected}: {page}");
    }
    let wanted = [("name", "bo"), reader, ("expires-in-days", "30")];
    let page = create(&wanted).await.text().await.unwrap();
    let (_, rest) = page.split_once("wb_").expect("the key is shown");
    let made = format!("wb_{}", &rest[..64]);
    let again = create(&wanted).await;
    assert_eq!(
        again.headers()["location"],
        format!("/keys/{id}?done=shown")
    );
    let theirs = console.sign_in(&made).await;
    assert!(console.shown(&theirs, "/keys").await.contains("bo"));
    assert_eq!(console.page(&theirs, "/keys/create").await.0, 403);
    for path in ["/keys", &format!("/keys/{id}"), "/audit"] {
        assert!(
            !console.shown(&session, path).await.contains(&made),
            "{path}"
        );
    }
    let revoke = format!("/keys/{id}/revoke");
    let fields = [("token", token.as_str()), ("id", id.as_str())];
    let answer = session.send(console.post(&revoke, &fields)).await;
    assert_eq!(
        answer.headers()["location"],
        format!("/keys/{id}?done=keys-revoke")
    );
    assert_eq!(
        console.page(&theirs, "/keys").await.0,
        401,
        "the session has ended"
    );
    let active = console.shown(&session, "/keys?format=json").await;
    let revoked = console.shown(&session, "/keys?all=yes&format=json").await;
    assert!(
        !active.contains(&id) && revoked.contains(&id),
        "{active} {revoked}"
    );
    service.stop().await;
}
