//! When the identity provider changes, nobody gets the licences of another person whose account
//! had the same number.

use domain::license::Tier;
use sandbox::User;
use store::licenses::{self, Grant, Owner};
use store::{identity_provider, users};

use crate::support::backend::Backend;
use crate::support::login::{Desk, desk};
use crate::support::operator::waybill;
use crate::support::process::{Process, command, free_port, is_ready, output, run, settings};

const OLD: &str = "https://github.com";
const NEW: &str = "https://github.example";

async fn grant(desk: &Desk, login: &str) {
    let mut tx = desk.service.db().begin().await.unwrap();
    let named = users::Named::Login(login.to_owned());
    let user = users::find_or_invite(&mut tx, &desk.clock, &named).await;
    let grant = Grant {
        tier: Tier::Pro,
        owner: Owner::User(user.unwrap().id),
        expires_at: None,
        subscription_id: None,
        subscription_item: None,
    };
    licenses::grant(&mut tx, &desk.clock, &grant).await.unwrap();
    tx.commit().await.unwrap();
}

async fn does(desk: &Desk, arguments: &[&str]) -> String {
    let done = run(waybill(&desk.service, arguments)).await;
    let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
    assert!(done.status.success(), "{arguments:?}: {said}");
    said
}

#[tokio::test]
async fn the_same_number_at_another_provider_is_another_person() {
    let desk = desk().await;
    let claim = async |url| identity_provider::claim(desk.service.db(), &desk.clock, url).await;
    claim(OLD).await.unwrap();
    claim("https://GitHub.com/").await.unwrap();
    let token = desk.log_in("octavia").await;
    grant(&desk, "octavia").await;
    grant(&desk, "petra").await;
    let tier = async |token: &str| {
        desk.pass(10);
        desk.validate(token).await.body["tier"].clone()
    };
    assert_eq!(tier(&token).await, "pro");
    assert!(claim(NEW).await.is_err());

    let said = does(&desk, &["identity", "replaced", NEW, "--by", "ann"]).await;
    assert!(said.starts_with("1 accounts"), "{said}");
    claim(NEW).await.unwrap();
    assert_eq!(
        tier(&token).await,
        "free",
        "a stranger with the same number"
    );
    let invited = desk.log_in("petra").await;
    assert_eq!(tier(&invited).await, "free", "another petra was invited");
    assert!(
        does(&desk, &["audit", "list"])
            .await
            .contains("identity.replaced")
    );

    does(&desk, &["identity", "replaced", OLD]).await;
    claim(OLD).await.unwrap();
    assert_eq!(tier(&token).await, "pro", "who it was");

    does(&desk, &["identity", "moved", NEW]).await;
    claim(NEW).await.unwrap();
    assert_eq!(tier(&token).await, "pro", "the same accounts");
    assert_eq!(does(&desk, &["identity", "show"]).await, format!("{NEW}\n"));
    desk.stop().await;
}

#[tokio::test]
async fn with_another_provider_no_process_starts_and_it_says_what_to_do() {
    let backend = Backend::create().await;
    let port = free_port();
    let mut of_old = settings(&backend, port);
    of_old.push(("GITHUB_CLIENT_ID".into(), "client".into()));
    let with = |url: &str| {
        let mut settings = of_old.clone();
        settings.push(("GITHUB_URL".into(), url.into()));
        settings
    };
    let log = backend.folder().join("log");
    {
        let _process = Process::start_logged("waybill", &["serve"], &with(OLD), &log);
        is_ready(port).await;
    }
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("tokens of any app"), "{log}");
    let mut other = command("waybill", &[]);
    other.envs(with(NEW)).arg("serve");
    let refused = output(other);
    assert!(!refused.status.success());
    let said = String::from_utf8(refused.stderr).unwrap();
    for part in [
        OLD,
        NEW,
        "GITHUB_URL",
        "`waybill identity moved https://github.example`",
        "`waybill identity replaced https://github.example`",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let _process = Process::start("waybill", &["serve"], &with(OLD));
    is_ready(port).await;
}

#[test]
fn a_stand_in_of_this_machine_may_change_its_port() {
    for url in [
        "http://127.0.0.1:8001/identity",
        "http://localhost:9",
        "http://[::1]:1",
    ] {
        assert_eq!(identity_provider::name(url), "stand-in", "{url}");
    }
    assert_eq!(
        identity_provider::name("https://GHE.example/"),
        "https://ghe.example"
    );
}

#[tokio::test]
async fn a_login_that_somebody_else_holds_now_grants_nothing_to_who_had_it() {
    let desk = desk().await;
    let url = desk.sandbox.identity_url();
    let claimed = identity_provider::claim(desk.service.db(), &desk.clock, &url);
    claimed.await.unwrap();
    let token = desk.log_in("octavia").await;
    let asking = async |line: &str| {
        let mut command = waybill(&desk.service, &line.split(' ').collect::<Vec<_>>());
        command.env("GITHUB_URL", &url);
        command.env("GITHUB_API_URL", desk.sandbox.identity_api_url());
        command.env("GITHUB_CLIENT_ID", sandbox::IDENTITY_CLIENT_ID);
        command.env("GITHUB_CLIENT_SECRET", sandbox::IDENTITY_CLIENT_SECRET);
        let done = run(command).await;
        let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        (done.status.success(), said)
    };
    let (done, said) = asking("licenses grant --user Octavia --tier alpha").await;
    assert!(done && !said.contains("was not asked"), "{said}");
    desk.pass(10);
    assert_eq!(desk.validate(&token).await.body["tier"], "alpha");
    // Who has not logged in yet is known by the number at once, and nobody else can claim the licence.
    let (done, said) = asking("licenses grant --user petra --tier pro").await;
    assert!(done && !said.contains("logs in with this login"), "{said}");
    let petra = desk.log_in("petra").await;
    assert_eq!(desk.validate(&petra).await.body["tier"], "pro");
    let (done, said) = asking("licenses grant --user octavio --tier pro").await;
    assert!(
        !done && said.contains("no account has the login octavio"),
        "{said}"
    );
    let said = does(
        &desk,
        &["licenses", "grant", "--user", "octavia", "--tier", "pro"],
    )
    .await;
    assert!(
        said.contains("was not asked who has the login octavia now"),
        "{said}"
    );

    let mut squatter = User::new("somebody", None, Vec::new());
    let (former, now) = (User::new("octavia", None, Vec::new()).id, squatter.id);
    squatter.login = "octavia".to_owned();
    desk.identity().add_user(squatter);
    does(&desk, &["orgs", "create", "acme"]).await;
    for line in [
        "licenses grant --user octavia --tier enterprise",
        "orgs add-member acme octavia",
        "orgs set-owner acme octavia",
        "orgs create other --owner octavia",
    ] {
        let (done, said) = asking(line).await;
        assert!(!done, "{line}: {said}");
        assert!(
            said.contains(&format!("id:{now} or id:{former}")),
            "{line}: {said}"
        );
    }
    let (done, said) = asking(&format!(
        "licenses grant --user id:{former} --tier enterprise"
    ))
    .await;
    assert!(done, "{said}");
    desk.stop().await;
}
