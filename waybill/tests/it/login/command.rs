//! `waybill login` as a person uses it, with `waybill` without arguments as the service and a real
//! browser, until a granted licence is shown.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use platform::clock::Clock;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::browser::Browser;
use crate::support::process::{Process, command, free_port, is_ready, output};
use crate::support::{eventually, pause};

struct Desk {
    folder: TempDir,
    port: u16,
}

impl Desk {
    fn new() -> Self {
        Desk {
            folder: tempfile::tempdir().unwrap(),
            port: free_port(),
        }
    }

    fn settings(&self, log: &str) -> Vec<(String, String)> {
        let database = self.folder.path().join("desk.db");
        let address = format!("127.0.0.1:{}", self.port);
        vec![
            ("PUBLIC_URL".into(), format!("http://{address}")),
            ("LISTEN_ADDR".into(), address),
            (
                "DATABASE_URL".into(),
                format!("sqlite://{}", database.display()),
            ),
            ("RUST_LOG".into(), log.into()),
        ]
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command("waybill", &[]);
        // As the process, which is on SQLite whatever the backend of the tests.
        command.env_remove("PRIVACY_KEY");
        command.envs(self.settings("warn"));
        command.args(arguments);
        command
    }

    /// What a command printed; it succeeds.
    fn does(&self, arguments: &[&str]) -> String {
        let output = output(self.command(arguments));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn start(&self, arguments: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
        let mut child = self
            .command(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        (child, stdout)
    }
}

fn line(stdout: &mut impl BufRead) -> String {
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    line
}

/// Types the code, chooses who signs in, and presses a button, as a person does.
async fn decide(browser: &mut Browser, page: &str, user_code: &str, login: &str, button: &str) {
    browser.visit(page, 1000, "light");
    browser.text(&format!(
        "document.querySelector('input[name=user_code]').value = {user_code:?}; \
         document.querySelector('button').click(); ''"
    ));
    let decided = format!("button[value={button}]");
    shows(browser, &format!("!!document.querySelector({decided:?})")).await;
    browser.text(&format!(
        "document.querySelector('select[name=login]').value = {login:?}; \
         document.querySelector({decided:?}).click(); ''"
    ));
    shows(browser, "!!document.querySelector('p.status')").await;
}

async fn shows(browser: &mut Browser, condition: &str) {
    for _ in 0..100 {
        if browser.text(&format!("String({condition})")) == "true" {
            return;
        }
        pause(Duration::from_millis(50)).await;
    }
    panic!("the page does not show {condition}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_approves_in_a_browser_and_a_grant_shows_within_ten_seconds() {
    let desk = Desk::new();
    let _process = Process::start("waybill", &[], &desk.settings("warn"));
    is_ready(desk.port).await;
    let (mut login, mut stdout) = desk.start(&["login", "--json"]);
    let begun: Value = serde_json::from_str(&line(&mut stdout)).unwrap();
    let text = |name: &str| begun[name].as_str().unwrap().to_owned();
    let page = text("verification_uri");
    assert!(begun.get("device_code").is_none(), "it is a secret");
    let mut browser = Browser::start();
    decide(
        &mut browser,
        &page,
        &text("user_code"),
        "octavia",
        "approve",
    )
    .await;
    let done: Value = serde_json::from_str(&line(&mut stdout)).unwrap();
    assert!(login.wait().unwrap().success());
    assert_eq!(done["username"], "octavia");
    assert_eq!(done["tier"], "free");
    desk.does(&["orgs", "create", "Acme"]);
    desk.does(&["orgs", "add-member", "Acme", "octavia"]);
    desk.does(&["licenses", "grant", "--org", "Acme", "--tier", "enterprise"]);
    let token = done["access_token"].as_str().unwrap();
    let url = format!("http://127.0.0.1:{}/auth/validate", desk.port);
    let client = reqwest::Client::new();
    let mut seen = Value::Null;
    // A token may be validated a hundred times a minute.
    for _ in 0..22 {
        let answer = client.get(&url).bearer_auth(token).send().await.unwrap();
        seen = answer.json().await.unwrap();
        if seen["tier"] == "enterprise" {
            break;
        }
        pause(Duration::from_millis(500)).await;
    }
    assert_eq!(seen["tier"], "enterprise", "within 11 seconds");
    assert_eq!(seen["org_name"], "Acme");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_denies_ends_the_login() {
    let desk = Desk::new();
    let _process = Process::start("waybill", &[], &desk.settings("warn"));
    is_ready(desk.port).await;
    let mut command = desk.command(&["login"]);
    let mut login = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(login.stdout.take().unwrap());
    let invitation = line(&mut stdout);
    assert!(!invitation.contains('\x1b'), "no colour when piped");
    let words: Vec<&str> = invitation.split_whitespace().collect();
    let (page, user_code) = (words[1], words[words.len() - 1]);
    let mut browser = Browser::start();
    decide(&mut browser, page, user_code, "octavia", "deny").await;
    assert_eq!(login.wait().unwrap().code(), Some(1));
    let mut said = String::new();
    login
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(said.contains("denied on the page"), "{said}");
}

#[test]
fn where_nothing_answers_the_command_says_what_to_do() {
    let desk = Desk::new();
    let output = output(desk.command(&["login"]));
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("is Waybill running?"), "{said}");
}

/// A proxy of the environment would look for it on its own host.
#[tokio::test]
async fn what_listens_on_this_machine_is_not_looked_for_through_a_proxy() {
    let desk = Desk::new();
    let _process = Process::start("waybill", &[], &desk.settings("warn"));
    is_ready(desk.port).await;
    let proxied = |arguments: &[&str]| {
        let mut command = desk.command(arguments);
        command.env("HTTP_PROXY", format!("http://127.0.0.1:{}", free_port()));
        command.stdout(Stdio::piped());
        command
    };
    let mut login = proxied(&["login", "--json"]).spawn().unwrap();
    let begun = line(&mut BufReader::new(login.stdout.take().unwrap()));
    login.kill().unwrap();
    login.wait().unwrap();
    assert!(begun.contains("user_code"), "{begun}");
    let sent = output(proxied(&["trigger", "customers/redact"]));
    let said = String::from_utf8_lossy(&sent.stderr);
    assert!(sent.status.success(), "{said}");
}

/// Not even at the most talkative level, nor with redaction off.
#[tokio::test]
async fn no_token_code_or_address_is_in_any_log_line() {
    let desk = Desk::new();
    let log = desk.folder.path().join("log");
    let mut settings = desk.settings("trace");
    settings.push(("COMMERCE_PII_REDACTION_ENABLED".into(), "false".into()));
    let mut command = command("waybill", &[]);
    command.envs(settings);
    command
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap());
    let mut service = command.spawn().unwrap();
    is_ready(desk.port).await;
    let (mut login, mut stdout) = desk.start(&["login", "--json"]);
    let begun: Value = serde_json::from_str(&line(&mut stdout)).unwrap();
    let page = begun["verification_uri"].as_str().unwrap();
    let user_code = begun["user_code"].as_str().unwrap();
    let form = [
        ("user_code", user_code),
        ("login", "octavia"),
        ("decision", "approve"),
    ];
    let client = reqwest::Client::new();
    client.post(page).form(&form).send().await.unwrap();
    let done: Value = serde_json::from_str(&line(&mut stdout)).unwrap();
    login.wait().unwrap();
    let token = done["access_token"].as_str().unwrap();
    let url = format!("http://127.0.0.1:{}", desk.port);
    let get = |path: &str| client.get(format!("{url}{path}")).bearer_auth(token).send();
    assert_eq!(get("/auth/validate").await.unwrap().status(), 200);
    let canary = "3584d83530557fdd1f46af8289938c8ef79f9dc5";
    let legacy = format!("/auth/device/token?device_code={canary}");
    assert_eq!(get(&legacy).await.unwrap().status(), 404);
    eventually("something was logged", async || {
        std::fs::metadata(&log).unwrap().len() > 0
    })
    .await;
    pause(Duration::from_millis(200)).await;
    service.kill().unwrap();
    service.wait().unwrap();
    let log = std::fs::read_to_string(&log).unwrap();
    for secret in [token, user_code, canary, "octavia@example.com"] {
        let found = log.lines().find(|line| line.contains(secret));
        assert_eq!(found, None, "{secret}");
    }
}

/// A service that answers its requests in turn with these; the pauses before each but the first.
fn answering(answers: Vec<String>) -> (String, std::thread::JoinHandle<Vec<Duration>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let mut pauses = Vec::new();
        let clock = Clock::system();
        let mut last: Option<Duration> = None;
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let now = clock.elapsed();
            pauses.extend(last.replace(now).map(|last| now.saturating_sub(last)));
            let _ = stream.read(&mut [0; 4096]);
            stream.write_all(answer.as_bytes()).unwrap();
        }
        pauses
    });
    (url, served)
}

fn said(status: &str, headers: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

#[test]
fn the_command_waits_as_long_as_a_503_says() {
    let begun = json!({
        "device_code": "secret", "user_code": "WDJB-MJHT", "expires_in": 60, "interval": 1,
        "verification_uri": "http://127.0.0.1/login/device",
    });
    let away = json!({"detail": "try again later", "error": "temporarily_unavailable"});
    let (url, served) = answering(vec![
        said("503 Service Unavailable", "Retry-After: 2\r\n", &away),
        said("200 OK", "", &begun),
        said("503 Service Unavailable", "Retry-After: 4\r\n", &away),
        said("200 OK", "", &json!({"username": "octavia"})),
    ]);
    let desk = Desk::new();
    let mut login = desk.command(&["login", "--json"]);
    login.env("PUBLIC_URL", url);
    assert!(output(login).status.success());
    let pauses = served.join().unwrap();
    assert!(pauses[0] >= Duration::from_secs(2), "{pauses:?}");
    assert!(pauses[2] >= Duration::from_secs(4), "{pauses:?}");
}
