//! OAuth libraries of other makers, as they are published, and our own client log in: where all is well, and while the
//! identity provider fails to answer one poll in three.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sandbox::{Answer, Fault, Route};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::front::Front;
use crate::support::login::desk_with;
use crate::support::process::{Lines, Process, free_port, is_ready};
use crate::support::{pause, tools};

const OCTOKIT: &str = "octokit.mjs";
const OPENID_CLIENT: &str = "openid_client.mjs";
const REQUESTS_OAUTHLIB: &str = "oauthlib_device.py";

/// The clients of other makers. Each prints a line of JSON when its login begins, and one when it has its token.
struct Clients {
    libraries: PathBuf,
    /// Where the files for Node are: it looks for libraries from there.
    folder: TempDir,
}

impl Clients {
    /// None: their libraries are not installed.
    fn find() -> Option<Self> {
        let libraries = tools::oauth_clients()?;
        let folder = tempfile::tempdir().unwrap();
        symlink(
            libraries.join("node_modules"),
            folder.path().join("node_modules"),
        )
        .unwrap();
        Some(Clients { libraries, folder })
    }

    fn start(&self, file: &str, url: &str) -> Lines {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/oauth");
        let source = here.join(file);
        let mut client = if source.extension().is_some_and(|it| it == "py") {
            let mut python = Command::new(self.libraries.join("python/bin/python"));
            python.arg(source);
            python
        } else {
            let copy = self.folder.path().join(file);
            std::fs::copy(source, &copy).unwrap();
            let mut node = Command::new("node");
            node.arg(copy);
            node
        };
        client.arg(url).env("NO_PROXY", "127.0.0.1");
        Lines::of(client)
    }
}

#[tokio::test]
async fn oauth_libraries_of_other_makers_log_in_as_they_are() {
    let Some(clients) = Clients::find() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let url = format!("http://{address}");
    let database = folder.path().join("clients.db");
    let settings = [
        ("PUBLIC_URL".into(), url.clone()),
        ("LISTEN_ADDR".into(), address),
        (
            "DATABASE_URL".into(),
            format!("sqlite://{}", database.display()),
        ),
        ("RUST_LOG".into(), "warn".into()),
    ];
    let _process = Process::start("waybill", &[], &settings);
    is_ready(port).await;
    let files = [OCTOKIT, OPENID_CLIENT, REQUESTS_OAUTHLIB];
    let mut logins = files.map(|file| clients.start(file, &url));
    for login in &mut logins {
        let begun = said(login).await;
        let form = [
            ("user_code", begun["user_code"].as_str().unwrap()),
            ("login", "octavia"),
            ("decision", "approve"),
        ];
        let page = begun["verification_uri"].as_str().unwrap();
        let decided = reqwest::Client::new().post(page).form(&form).send().await;
        assert_eq!(decided.unwrap().status(), 200);
    }
    for mut login in logins {
        is_octavia(&said(&mut login).await);
    }
}

#[tokio::test]
async fn octokit_gets_its_token_while_one_poll_in_three_fails() {
    if let Some(clients) = Clients::find() {
        logs_in(|url| clients.start(OCTOKIT, url)).await;
    }
}

#[tokio::test]
async fn openid_client_gets_its_token_while_one_poll_in_three_fails() {
    if let Some(clients) = Clients::find() {
        logs_in(|url| clients.start(OPENID_CLIENT, url)).await;
    }
}

#[tokio::test]
async fn requests_oauthlib_gets_its_token_while_one_poll_in_three_fails() {
    if let Some(clients) = Clients::find() {
        logs_in(|url| clients.start(REQUESTS_OAUTHLIB, url)).await;
    }
}

#[tokio::test]
async fn our_own_client_gets_its_token_while_one_poll_in_three_fails() {
    logs_in(|url| {
        let settings = [("PUBLIC_URL".to_owned(), url.to_owned())];
        Lines::start(&["login", "--json"], &settings)
    })
    .await;
}

/// Each third poll that reaches the provider fails in another way, the last one after the person has approved, and then
/// the question whose the token is fails too.
async fn logs_in(start: impl FnOnce(&str) -> Lines) {
    const BEFORE_APPROVAL: u64 = 11;
    const POLLS: u64 = 13;
    let front = Front::listen().await;
    let url = front.url.clone();
    let desk = desk_with(|options| options.setting("PUBLIC_URL", &url)).await;
    let front = front.lead_to(&desk.service.url, &desk.clock);
    let polls = desk.identity().fault_injector(Route::AccessToken);
    let good = || polls.fail_next(2, Fault::Slow(Duration::ZERO));
    good();
    polls.fail_next(1, Fault::Status(502));
    good();
    polls.answer_next(1, page());
    good();
    polls.fail_next(1, Fault::Lose);
    good();
    polls.fail_next(1, Fault::Timeout);
    let whose = desk.identity().fault_injector(Route::User);
    whose.fail_next(1, Fault::Html);

    let mut login = start(&url);
    let begun = said(&mut login).await;
    while desk.asked(Route::AccessToken) < BEFORE_APPROVAL {
        assert!(
            !login.has_ended(),
            "{:?}: {:?}",
            front.polls(),
            login.end().await
        );
        pause(Duration::from_millis(50)).await;
    }
    let user_code = begun["user_code"].as_str().unwrap();
    desk.identity().approve(user_code, "octavia").unwrap();
    is_octavia(&said(&mut login).await);
    let (status, ..) = login.end().await;
    assert_eq!(status, Some(0));
    assert_eq!(desk.asked(Route::AccessToken), POLLS);
    assert_eq!(desk.asked(Route::User), 2);
    let answers = front.polls();
    let (last, before) = answers.split_last().unwrap();
    assert_eq!(last, "200");
    assert!(before.iter().all(|status| status == "428"), "{before:?}");
    desk.stop().await;
}

/// As a proxy or a network's sign-in page answers in the provider's place.
fn page() -> Answer {
    Answer {
        status: 200,
        headers: vec![("content-type".into(), "text/html".into())],
        body: "<html><body><h1>Be right back</h1></body></html>".into(),
    }
}

async fn said(login: &mut Lines) -> Value {
    serde_json::from_str(&login.line().await).unwrap()
}

fn is_octavia(done: &Value) {
    assert_eq!(done["username"], "octavia");
    assert_eq!(done["scope"], "read:user user:email");
    assert!(done["access_token"].as_str().unwrap().starts_with("gho_"));
}
