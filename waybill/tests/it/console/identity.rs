//! Sign-in through the identity provider: who has an account that a key names gets in, and nobody else.

use domain::api_key::Role;
use reqwest::Response;
use sandbox::{Fault, Route, Sandbox, User};
use serde_json::Value;

use crate::support::console::{Console, Session, role};
use crate::support::login::with_identity;
use crate::support::operator::{items, refused, said};
use crate::support::{Service, eventually, service};

struct Browser<'a> {
    console: &'a Console,
    /// The cookie of a sign-in that has begun.
    attempt: String,
    /// Where the provider's page leads, by login.
    page: String,
}

async fn sandbox() -> Sandbox {
    Sandbox::start(sandbox::Options::default()).await.unwrap()
}

fn cookie<'a>(answer: &'a Response, name: &str) -> Option<&'a str> {
    let all = answer.headers().get_all("set-cookie").iter();
    let mut all = all.map(|it| it.to_str().unwrap());
    all.find(|it| it.starts_with(&format!("{name}=")))
}

fn leads(answer: &Response) -> String {
    assert_eq!(answer.status(), 303);
    answer.headers()["location"].to_str().unwrap().to_owned()
}

fn pair(cookie: &str) -> String {
    cookie.split(';').next().unwrap().to_owned()
}

impl<'a> Browser<'a> {
    /// Follows the link on the page for signing in, to the provider.
    async fn begin(console: &'a Console, wanted: &str) -> Self {
        let answer = console.get(wanted).send().await.unwrap();
        assert_eq!(answer.status(), 401);
        let page = answer.text().await.unwrap();
        let (_, rest) = page.split_once("href=\"/sign-in/identity").unwrap();
        let query = rest.split('"').next().unwrap();
        let to = format!("/sign-in/identity{query}");
        let answer = console.get(&to).send().await.unwrap();
        let set = cookie(&answer, "waybill-sign-in").unwrap().to_owned();
        assert!(
            set.contains("HttpOnly") && set.contains("SameSite=Lax"),
            "{set}"
        );
        let page = leads(&answer);
        assert!(page.contains("code_challenge_method=S256"), "{page}");
        assert!(!page.contains("scope"), "it asks for nothing more: {page}");
        let page = reqwest::get(page).await.unwrap();
        assert_eq!(page.status(), 200);
        Browser {
            console,
            attempt: pair(&set),
            page: page.text().await.unwrap(),
        }
    }

    /// Where the provider sends the browser when this person lets it, or nobody does.
    async fn back(&self, sandbox: &Sandbox, login: &str) -> String {
        let links = self.page.split("href=\"").skip(1);
        let mut links = links.map(|link| link.split('"').next().unwrap());
        let link = links
            .find(|link| link.contains(&format!("as?login={login}&")))
            .unwrap_or_else(|| panic!("{}", self.page))
            .replace("&#38;", "&");
        let origin = sandbox.identity_url();
        let origin = origin.strip_suffix("/identity").unwrap();
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        let client = client.build().unwrap();
        let answer = client.get(format!("{origin}{link}")).send().await.unwrap();
        let to = leads(&answer);
        let own = to.strip_prefix(&self.console.url).unwrap();
        own.to_owned()
    }

    async fn arrive(&self, back: &str) -> Response {
        let request = self.console.get(back).header("Cookie", &self.attempt);
        request.send().await.unwrap()
    }
}

async fn made(service: &Service, name: &str, account: u64, scope: &str) {
    let account = account.to_string();
    let arguments = [
        "keys",
        "create",
        name,
        "--scope",
        scope,
        "--account",
        &account,
        "--by",
        "root",
    ];
    said(service, &arguments).await;
}

fn account(login: &str) -> u64 {
    User::new(login, None, Vec::new()).id
}

#[tokio::test]
async fn who_has_an_account_that_a_key_names_is_signed_in_with_its_rights() {
    let sandbox = sandbox().await;
    let mut service = with_identity(service(), &sandbox).start().await;
    made(&service, "octavia", account("octavia"), "console:operator").await;
    let console = service.console().await;
    let browser = Browser::begin(&console, "/orders?name=7").await;
    let back = browser.back(&sandbox, "octavia").await;
    let answer = browser.arrive(&back).await;
    assert_eq!(answer.status(), 200);
    let set = cookie(&answer, "waybill-console").unwrap().to_owned();
    assert!(
        set.contains("HttpOnly") && set.contains("SameSite=Strict"),
        "{set}"
    );
    let ended = cookie(&answer, "waybill-sign-in").unwrap();
    assert!(ended.contains("Max-Age=0"), "{ended}");
    let page = answer.text().await.unwrap();
    assert!(page.contains("url=/orders?name=7"), "{page}");
    let session = Session { cookie: pair(&set) };
    let page = console.shown(&session, "/").await;
    assert!(page.contains("octavia"), "{page}");
    let (status, _) = console.page(&session, "/keys/create").await;
    assert_eq!(status, 403, "an operator is no owner");

    // The token was good for one question.
    eventually("it is revoked", async || {
        sandbox.identity().tokens().iter().all(|token| !token.live)
    })
    .await;
    let tokens = sandbox.identity().tokens();
    assert_eq!(tokens.len(), 1);
    assert!(tokens[0].scopes.is_empty(), "{tokens:?}");
    let audit = items(&service, &["audit", "list"]).await;
    let noted = audit.as_array().unwrap().iter();
    let mut noted = noted.filter(|entry| entry["action"] == "console.signed_in");
    let entry = noted.next().unwrap();
    assert_eq!(entry["actor"], "operator:octavia");
    assert_eq!(entry["details"]["with"], "account");
    assert!(!entry.to_string().contains(&account("octavia").to_string()));

    // The code counts once.
    let answer = browser.arrive(&back).await;
    assert_eq!(answer.status(), 401);
    assert_eq!(cookie(&answer, "waybill-console"), None);

    // The key is what lets in: with it the session ends.
    said(&service, &["keys", "revoke", "octavia", "--by", "root"]).await;
    let (status, _) = console.page(&session, "/").await;
    assert_eq!(status, 401);
    let browser = Browser::begin(&console, "/").await;
    let answer = browser
        .arrive(&browser.back(&sandbox, "octavia").await)
        .await;
    assert_eq!(answer.status(), 403);
    service.stop().await;
}

#[tokio::test]
async fn nobody_else_is_let_in_and_no_link_signs_another_browser_in() {
    let sandbox = sandbox().await;
    let mut service = with_identity(service(), &sandbox).start().await;
    made(&service, "octavia", account("octavia"), "console:owner").await;
    let console = service.console().await;
    let refused_with = async |answer: Response, status: u16, says: &str| {
        assert_eq!(answer.status(), status, "{says}");
        assert_eq!(cookie(&answer, "waybill-console"), None, "{says}");
        let page = answer.text().await.unwrap();
        assert!(page.contains(says), "{says}: {page}");
        assert!(page.contains("Operator&#39;s key") || page.contains("Operator's key"));
    };

    // An account without a key learns its number, and who can let it in.
    let browser = Browser::begin(&console, "/").await;
    let back = browser.back(&sandbox, "petra").await;
    let number = format!("--account {}", account("petra"));
    refused_with(browser.arrive(&back).await, 403, &number).await;

    // Who declines.
    let browser = Browser::begin(&console, "/").await;
    let back = browser.back(&sandbox, "").await;
    refused_with(browser.arrive(&back).await, 401, "did not say who you are").await;

    // Another browser than the one that began: without its cookie, or with that of a sign-in of its own.
    let back = browser.back(&sandbox, "octavia").await;
    let stolen = console.get(&back).send().await.unwrap();
    refused_with(stolen, 401, "not begun here").await;
    let other = Browser::begin(&console, "/").await;
    refused_with(other.arrive(&back).await, 401, "not begun here").await;
    let own = other.back(&sandbox, "octavia").await;
    let state = |text: &str| text.split_once("state=").unwrap().1.to_owned();
    let mixed = back.replace(&state(&back), &state(&own));
    refused_with(other.arrive(&mixed).await, 401, "not begun here").await;
    for forged in [
        "/sign-in/back",
        "/sign-in/back?code=1&state=",
        "/sign-in/back?code=1&state=00",
    ] {
        refused_with(other.arrive(forged).await, 401, "not begun here").await;
    }

    // The provider does not answer.
    let browser = Browser::begin(&console, "/").await;
    let back = browser.back(&sandbox, "octavia").await;
    let down = sandbox.identity().fault_injector(Route::AccessToken);
    down.fail(Fault::Status(503));
    refused_with(browser.arrive(&back).await, 502, "gave no answer").await;
    sandbox.identity().clear_faults();

    // None of these logins has begun a session.
    let rows = service
        .count("select count(*) as n from console_sessions")
        .await;
    assert_eq!(rows, 0);
    let number = account("petra").to_string();
    for (arguments, says) in [
        (
            vec!["keys", "create", "bot", "--scope", "orders:read"],
            "scope of the console",
        ),
        (
            vec!["keys", "create", "bot", "--shop", "shop.example"],
            "no shops",
        ),
    ] {
        let more = ["--account", number.as_str(), "--by", "root"];
        let (code, error) = refused(&service, &[arguments.as_slice(), &more].concat()).await;
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(says), "{error}");
    }
    service.stop().await;
}

#[tokio::test]
async fn where_no_identity_provider_is_set_people_sign_in_with_keys_alone() {
    let mut service = service().start().await;
    let console = service.console().await;
    let answer = console.get("/sign-in").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let page = answer.text().await.unwrap();
    assert!(!page.contains("/sign-in/identity"), "{page}");
    for path in ["/sign-in/identity", "/sign-in/back?code=1&state=2"] {
        let answer = console.get(path).send().await.unwrap();
        assert_eq!(answer.status(), 404, "{path}");
    }
    let key = service.api_key_for("ann", &role(Role::Reader)).await;
    console.sign_in(&key).await;
    service.stop().await;
}

#[tokio::test]
async fn an_owner_makes_a_key_for_an_account_from_the_console() {
    let mut service = service().start().await;
    let console = service.console().await;
    let key = service.api_key_for("ann", &role(Role::Owner)).await;
    let session = console.sign_in(&key).await;
    let token = console.token(&session).await;
    let id = service.clock().id().to_string();
    let mut fields = vec![
        ("token", token.as_str()),
        ("id", id.as_str()),
        ("name", "petra"),
        ("scope-console:reader", "yes"),
        ("account", "someone"),
    ];
    let answer = session.send(console.post("/keys/create", &fields)).await;
    assert_eq!(answer.status(), 409);
    fields[4].1 = "4711";
    let answer = session.send(console.post("/keys/create", &fields)).await;
    assert_eq!(answer.status(), 200);
    let page = console.shown(&session, &format!("/keys/{id}")).await;
    assert!(page.contains("4711"), "{page}");
    let listed = items(&service, &["keys", "list"]).await;
    let keys: Vec<&Value> = listed.as_array().unwrap().iter().collect();
    let petra = keys.iter().find(|key| key["name"] == "petra").unwrap();
    assert_eq!(petra["account"], 4711);
    service.stop().await;
}
