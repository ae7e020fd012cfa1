//! `waybill licenses` and `waybill orgs` as an operator uses them.

use std::process::Command;

use serde_json::{Value, json};
use store::sql::Db;
use tempfile::TempDir;

use crate::support::process::{command, output};

/// A desk with a database of its own.
struct Desk {
    folder: TempDir,
}

impl Desk {
    fn new() -> Self {
        let desk = Desk {
            folder: tempfile::tempdir().unwrap(),
        };
        desk.does("migrate");
        desk
    }

    fn url(&self) -> String {
        format!("sqlite://{}/desk.db", self.folder.path().display())
    }

    /// Changes what no command changes.
    async fn execute(&self, sql: &'static str) {
        let db = Db::open(&self.url(), 1).await.unwrap();
        let mut tx = db.begin().await.unwrap();
        tx.query(sql).execute().await.unwrap();
        tx.commit().await.unwrap();
        db.close().await;
    }

    /// What the audit says was done, oldest first: by whom, what, to which object.
    fn audited(&self) -> Vec<(String, String, String)> {
        let entries = self.items("audit list");
        let mut entries: Vec<_> = entries
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| {
                let text = |name: &str| entry[name].as_str().unwrap().to_owned();
                (text("actor"), text("action"), text("object_id"))
            })
            .collect();
        entries.reverse();
        entries
    }

    fn command(&self, line: &str) -> Command {
        let mut command = command("waybill", &[("RUST_LOG", "warn")]);
        command.env("DATABASE_URL", self.url());
        command.args(line.split(' '));
        command
    }

    /// What a command said, and whether it succeeded.
    fn run(&self, line: &str) -> (bool, String) {
        let output = output(self.command(line));
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }

    fn does(&self, line: &str) -> String {
        let (succeeded, said) = self.run(line);
        assert!(succeeded, "{line}: {said}");
        said
    }

    fn refuses(&self, line: &str) -> String {
        let (succeeded, said) = self.run(line);
        assert!(!succeeded, "{line}: {said}");
        said
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.does(&format!("{line} --json"))).unwrap()
    }

    /// The rows of a list.
    fn items(&self, line: &str) -> Value {
        self.json(line)["items"].take()
    }

    /// Grants a licence; its id.
    fn grants(&self, line: &str) -> String {
        let granted = self.json(&format!("licenses grant {line}"));
        granted["id"].as_str().unwrap().to_owned()
    }

    fn tier(&self, user: &str) -> (String, String) {
        let shown = self.json(&format!("licenses show {user}"));
        let text = |name: &str| shown[name].as_str().unwrap().to_owned();
        (text("tier"), text("status"))
    }
}

#[test]
fn show_says_which_licence_decides_and_why() {
    let desk = Desk::new();
    let said = desk.does("licenses show nobody");
    assert!(said.contains("never logged in"), "{said}");
    assert!(said.contains("free is everyone's"), "{said}");
    let own = desk.grants("--user alice --tier alpha --days 30");
    desk.does("orgs create Acme --owner alice");
    desk.does("orgs add-member acme Alice");
    let of_org = desk.grants("--org ACME --tier enterprise");
    let said = desk.does("licenses show alice");
    for part in [
        "organization  Acme",
        &format!("licence {of_org}, the highest of 2 that are active"),
        &format!("* {of_org}"),
        &format!("  {own}"),
        "the first account that logs in with this login",
    ] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
    desk.does(&format!("licenses suspend {of_org}"));
    let said = desk.does("licenses show alice");
    assert!(said.contains("the only one that is active"), "{said}");
    desk.does(&format!("licenses suspend {own}"));
    assert_eq!(
        desk.tier("alice"),
        ("enterprise".into(), "suspended".into())
    );
    desk.does(&format!("licenses resume {of_org}"));
    desk.does(&format!("licenses revoke {of_org}"));
    assert_eq!(desk.tier("alice"), ("alpha".into(), "suspended".into()));
}

#[test]
fn a_licence_until_a_day_lasts_to_the_end_of_that_day() {
    let desk = Desk::new();
    for (nth, (until, end)) in (1..).zip([
        ("2099-01-31", "2099-02-01T00:00:00.000Z"),
        ("2099-01-31T12:00:00Z", "2099-01-31T12:00:00.000Z"),
        ("2099-01-31T12:00:00+02:00", "2099-01-31T10:00:00.000Z"),
        ("2099-01-31T12:00", "2099-01-31T12:00:00.000Z"),
    ]) {
        let line = format!("licenses grant --user user-{nth} --tier pro --until {until}");
        let granted = desk.json(&line);
        assert_eq!(granted["expires_at"], end, "{until}");
    }
    let said = desk.refuses("licenses grant --user alice --tier pro --until soon");
    assert!(said.contains("a day like 2027-01-31"), "{said}");
}

#[test]
fn a_licence_out_of_force_adds_no_seats_to_one_that_is_active() {
    let desk = Desk::new();
    desk.does("orgs create acme");
    let trial = desk.grants("--org acme --tier enterprise");
    desk.does(&format!("licenses suspend {trial}"));
    let alpha = desk.grants("--org acme --tier alpha");
    for member in 1..=5 {
        desk.does(&format!("orgs add-member acme m{member}"));
    }
    let said = desk.refuses("orgs add-member acme m6");
    assert!(said.contains("alpha has seats for 5"), "{said}");
    let said = desk.does("orgs list");
    assert!(said.contains("5/5"), "{said}");
    // With none active the highest counts, as it does for the tier.
    desk.does(&format!("licenses suspend {alpha}"));
    desk.does("orgs add-member acme m6");
    let said = desk.refuses("licenses grant --org acme --tier alpha");
    assert!(said.contains("would have 6 members"), "{said}");
    desk.grants("--org acme --tier pro");
}

#[test]
fn what_cannot_be_changed_says_how_it_stands() {
    let desk = Desk::new();
    let id = desk.grants("--user id:7 --tier pro");
    let said = desk.refuses(&format!("licenses resume {id}"));
    assert!(said.contains("is active; nothing was changed"), "{said}");
    desk.does(&format!("licenses revoke {id}"));
    let said = desk.refuses(&format!("licenses suspend {id}"));
    assert!(said.contains("is revoked; nothing was changed"), "{said}");
    let unknown = "00000000-0000-7000-8000-000000000000";
    let said = desk.refuses(&format!("licenses revoke {unknown}"));
    assert!(said.contains("`waybill licenses list`"), "{said}");
    for wrong in [
        "licenses grant --user a!b --tier pro",
        "licenses grant --user id:0 --tier pro",
        "licenses grant --user alice --tier gold",
        "licenses grant --tier pro",
        "licenses grant --user alice --org acme --tier pro",
        "licenses grant --user alice --tier pro --until 2020-01-31",
        "licenses grant --user alice --tier pro --until soon",
        "licenses grant --user alice --tier pro --subscription sub_1",
        "licenses grant --org nobody --tier pro",
        "orgs add-member nobody alice",
    ] {
        desk.refuses(wrong);
    }
    let licenses = desk.items("licenses list --all");
    assert_eq!(licenses.as_array().unwrap().len(), 1);
    let licenses = desk.items("licenses list");
    assert_eq!(licenses.as_array().unwrap().len(), 0);
}

#[test]
fn seats_are_counted_when_members_are_added_and_when_a_tier_is_granted() {
    let desk = Desk::new();
    desk.does("orgs create acme");
    let alpha = desk.grants("--org acme --tier alpha");
    for member in 1..=5 {
        desk.does(&format!("orgs add-member acme m{member}"));
    }
    let said = desk.refuses("orgs add-member acme m6");
    assert!(
        said.contains("would have 6 members and alpha has seats for 5"),
        "{said}"
    );
    assert!(said.contains("remove members or grant"), "{said}");
    let said = desk.does("orgs list");
    assert!(said.contains("acme          alpha  5/5    m1"), "{said}");
    let pro = desk.grants("--org acme --tier pro");
    desk.does("orgs add-member acme m6");
    desk.does(&format!("licenses revoke {pro}"));
    desk.does(&format!("licenses revoke {alpha}"));
    let said = desk.refuses("licenses grant --org acme --tier alpha");
    assert!(said.contains("would have 6 members"), "{said}");
    desk.does("orgs remove-member acme m6");
    let said = desk.refuses("orgs remove-member acme m6");
    assert!(said.contains("`waybill orgs list` shows who is"), "{said}");
    desk.grants("--org acme --tier alpha");
}

#[test]
fn a_customer_has_a_tier_for_so_many_organizations() {
    let desk = Desk::new();
    for org in ["one", "two", "three", "four"] {
        desk.does(&format!("orgs create {org} --owner alice"));
    }
    desk.does("orgs create other");
    let said = desk.refuses("licenses grant --org one --tier free");
    assert!(said.contains("free is for persons"), "{said}");
    for org in ["one", "two", "three"] {
        desk.grants(&format!("--org {org} --tier pro"));
    }
    let said = desk.refuses("licenses grant --org four --tier pro");
    assert!(said.contains("one, three, two"), "{said}");
    desk.grants("--org other --tier pro");
    desk.grants("--org four --tier enterprise");
    let paid = "--tier alpha --days 30 --subscription sub_1";
    desk.grants(&format!("--org other {paid}"));
    let said = desk.refuses(&format!("licenses grant --org four {paid}"));
    assert!(said.contains("alpha covers 1"), "{said}");
    let said = desk.refuses("orgs create ONE");
    assert!(said.contains("already"), "{said}");
}

#[tokio::test]
async fn an_organization_whose_licence_has_ended_leaves_its_place_to_another() {
    let desk = Desk::new();
    for org in ["one", "two"] {
        desk.does(&format!("orgs create {org} --owner alice"));
    }
    let one = desk.grants("--org one --tier alpha --days 30");
    let said = desk.refuses("licenses grant --org two --tier alpha");
    assert!(said.contains("alpha covers 1"), "{said}");
    desk.execute("update licenses set expires_at = granted_at + 1")
        .await;
    let two = desk.grants("--org two --tier alpha");
    // So does one that is suspended, which then has no place to come back to.
    desk.does(&format!("licenses suspend {two}"));
    let again = desk.grants("--org one --tier alpha");
    assert_ne!(again, one);
    let said = desk.refuses(&format!("licenses resume {two}"));
    assert!(said.contains("does already: one"), "{said}");
    desk.does(&format!("licenses revoke {again}"));
    desk.does(&format!("licenses resume {two}"));
}

#[test]
fn a_grant_that_is_repeated_makes_no_second_licence() {
    let desk = Desk::new();
    let grant = "licenses grant --user alice --tier pro";
    let first = desk.json(&format!("{grant} --days 30"));
    assert_eq!(first["outcome"], "granted");
    let same = desk.json(&format!("{grant} --days 20"));
    assert_eq!(
        (&same["id"], &same["outcome"], &same["expires_at"]),
        (&first["id"], &json!("unchanged"), &first["expires_at"])
    );
    let said = desk.does(&format!("{grant} --days 60"));
    assert!(said.contains("is lengthened"), "{said}");
    let forever = desk.json(grant);
    assert_eq!(
        (&forever["id"], &forever["outcome"], &forever["expires_at"]),
        (&first["id"], &json!("lengthened"), &Value::Null)
    );
    let said = desk.does(&format!("{grant} --days 60"));
    assert!(said.contains("is there already"), "{said}");
    assert_eq!(desk.items("licenses list").as_array().unwrap().len(), 1);
    // Another tier, and what a subscription pays for, are licences of their own; so is one
    // beside a licence that was put out of force.
    let id = first["id"].as_str().unwrap();
    desk.does(&format!("licenses suspend {id}"));
    for further in [
        "--tier pro",
        "--tier alpha",
        "--tier pro --days 9 --subscription sub_1",
    ] {
        let granted = desk.json(&format!("licenses grant --user alice {further}"));
        assert_eq!(granted["outcome"], "granted", "{further}");
    }
    assert_eq!(desk.items("licenses list").as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn the_end_of_an_invitation_is_reported_and_what_nobody_can_claim_is_listed() {
    let desk = Desk::new();
    let said = desk.does("licenses grant --user alice --tier pro");
    assert!(said.contains("the first account that logs in"), "{said}");
    let granted = desk.json("licenses grant --user alice --tier pro");
    assert!(granted["claimable_until"].is_string(), "{granted}");
    desk.does("licenses grant --user id:7 --tier pro");
    assert_eq!(desk.items("licenses list --unclaimable"), json!([]));
    desk.execute("update users set claimable_until = 5 where claimable_until is not null")
        .await;
    let listed = desk.items("licenses list --unclaimable");
    assert_eq!(listed[0]["id"], granted["id"]);
    assert_eq!(
        (&listed[0]["unclaimable"], &listed[1]),
        (&json!(true), &Value::Null)
    );
    let said = desk.does("licenses list");
    assert!(said.contains("alice (nobody can claim it)"), "{said}");
    let anew = desk.json("licenses grant --user alice --tier pro");
    assert_ne!(anew["id"], granted["id"]);
}

#[tokio::test]
async fn a_subscriptions_licence_is_shown_with_its_grace() {
    let desk = Desk::new();
    desk.grants("--user id:7 --tier alpha --days 30");
    let id = desk.grants("--user id:7 --tier pro --days 30 --subscription sub_1");
    let grace = |setting: &str| {
        let mut list = desk.command("licenses list --json");
        list.env("LICENSE_GRACE_DAYS", setting);
        let output = output(list);
        assert!(output.status.success());
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
        listed["items"][0]["grace_until"].clone()
    };
    assert_eq!(grace("0"), Value::Null);
    assert!(grace("5").as_str().unwrap() > grace("3").as_str().unwrap());
    let listed = desk.items("licenses list");
    assert_eq!(listed[0]["grace_until"], grace("3"));
    assert_eq!(listed[1]["grace_until"], Value::Null);
    desk.execute("update licenses set expires_at = granted_at + 1")
        .await;
    let said = desk.does("licenses show id:7");
    assert!(said.contains("active, in grace"), "{said}");
    assert!(said.contains("with grace "), "{said}");
    assert_eq!(desk.tier("id:7"), ("pro".into(), "active".into()));
    let listed = desk.items("licenses list");
    assert_eq!(
        (&listed[0]["id"], &listed[0]["status"], &listed[1]["status"]),
        (&json!(id), &json!("active"), &json!("expired"))
    );
}

#[test]
fn every_change_of_licences_organizations_and_keys_is_in_the_audit_with_who_made_it() {
    let desk = Desk::new();
    let by = |line: &str| format!("{line} --by ann");
    desk.does(&by("orgs create acme --owner alice"));
    desk.does(&by("orgs set-owner acme bob"));
    desk.does(&by("orgs add-member acme alice"));
    desk.does(&by("orgs remove-member acme alice"));
    let id = desk.grants(&by("--user alice --tier pro --days 3"));
    desk.does(&by("licenses grant --user alice --tier pro --days 4"));
    desk.does(&by("licenses grant --user alice --tier pro --days 2"));
    for change in ["suspend", "resume", "revoke"] {
        desk.does(&by(&format!("licenses {change} {id}")));
    }
    desk.refuses(&by(&format!("licenses resume {id}")));
    let key = desk.json(&by("keys create web --scope orders:read"));
    desk.does(&by("keys revoke web"));
    desk.does(&by("keys revoke web"));
    let audited = desk.audited();
    assert!(audited.iter().all(|(actor, ..)| actor == "operator:ann"));
    let actions: Vec<&str> = audited
        .iter()
        .map(|(_, action, _)| action.as_str())
        .collect();
    assert_eq!(
        actions,
        [
            "org.created",
            "org.owner_set",
            "org.member_added",
            "org.member_removed",
            "license.granted",
            "license.lengthened",
            "license.suspended",
            "license.resumed",
            "license.revoked",
            "key.created",
            "key.revoked",
        ]
    );
    assert!(audited[4..9].iter().all(|(.., object)| *object == id));
    assert!(
        audited[9..]
            .iter()
            .all(|(.., object)| key["id"] == object.as_str())
    );
    desk.does("audit verify");
    // Nobody's login, and no key.
    let all = desk.items("audit list").to_string();
    for secret in ["alice", "bob", key["key"].as_str().unwrap()] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
    // Who does not say who they are is the user of the system.
    desk.does("orgs create other");
    let (actor, ..) = desk.audited().pop().unwrap();
    assert!(actor.starts_with("operator"), "{actor}");
}

#[test]
fn an_organization_gets_another_owner_where_the_limits_allow_it() {
    let desk = Desk::new();
    desk.does("orgs create one --owner alice");
    desk.does("orgs create two");
    desk.grants("--org one --tier alpha");
    desk.grants("--org two --tier alpha");
    let said = desk.refuses("orgs set-owner two alice");
    assert!(said.contains("alpha covers 1"), "{said}");
    let said = desk.does("orgs set-owner two id:7");
    assert!(said.contains("two is #7 (7)'s"), "{said}");
    let said = desk.refuses("orgs set-owner two id:7");
    assert!(said.contains("nothing was changed"), "{said}");
    let orgs = desk.items("orgs list");
    assert_eq!(orgs[1]["owner"]["provider_id"], 7);
    let said = desk.refuses("orgs set-owner three alice");
    assert!(said.contains("orgs create three"), "{said}");
}

#[test]
fn members_beyond_the_seats_are_marked() {
    let desk = Desk::new();
    desk.does("orgs create acme");
    desk.grants("--org acme --tier alpha");
    let pro = desk.grants("--org acme --tier pro");
    for member in 1..=7 {
        desk.does(&format!("orgs add-member acme id:{member}"));
    }
    let seats = || {
        let orgs = desk.items("orgs list");
        (orgs[0]["seats"].clone(), orgs[0]["seats_over"].clone())
    };
    assert_eq!(seats(), (json!(25), json!(0)));
    desk.does(&format!("licenses suspend {pro}"));
    assert_eq!(seats(), (json!(5), json!(2)));
    let said = desk.does("orgs list");
    assert!(said.contains("7/5 (2 over)"), "{said}");
}

#[test]
fn the_tiers_are_given_with_what_they_have_and_cost() {
    let desk = Desk::new();
    let tiers = desk.json("licenses tiers");
    assert_eq!(
        tiers[2],
        json!({
            "tier": "pro", "rank": 3, "max_users": 25, "max_orgs": 3, "price": "$199/mo",
            "features": ["All features", "custom templates", "integration support"],
        })
    );
    let said = desk.does("licenses tiers");
    assert!(
        said.contains("enterprise  4     unlimited  unlimited  custom"),
        "{said}"
    );
}

#[tokio::test]
async fn a_tool_neither_makes_nor_migrates_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let desk = Desk { folder };
    for tool in [
        "licenses list",
        "keys create web",
        "jobs list",
        "audit verify",
    ] {
        let said = desk.refuses(tool);
        assert!(said.contains("waybill migrate"), "{tool}: {said}");
    }
    assert_eq!(desk.folder.path().read_dir().unwrap().count(), 0);
    desk.does("migrate");
    desk.does("licenses list");
    // As it was made before the first release: by other files of the same numbers.
    desk.execute("update _sqlx_migrations set checksum = x'00'")
        .await;
    for tool in ["licenses list", "dead summary", "migrate"] {
        let said = desk.refuses(tool);
        assert!(said.contains("before its first release"), "{tool}: {said}");
        assert!(said.contains("set DATABASE_URL to a new"), "{tool}: {said}");
    }
}

#[test]
fn a_person_and_an_organization_are_forgotten_when_an_operator_says_so() {
    let desk = Desk::new();
    desk.does("orgs create Acme --owner alice");
    desk.does("orgs add-member acme alice");
    desk.grants("--user alice --tier pro");
    let of_org = desk.grants("--org acme --tier alpha");
    let said = desk.refuses("users forget alice");
    assert!(said.contains("add --yes"), "{said}");
    desk.does("users forget alice --yes");
    let said = desk.refuses("users forget alice");
    assert!(said.contains("nobody named alice"), "{said}");
    let left = desk.items("licenses list --all");
    assert_eq!(
        (left.as_array().unwrap().len(), &left[0]["id"]),
        (1, &json!(of_org))
    );
    let orgs = desk.items("orgs list");
    assert_eq!(
        (&orgs[0]["owner"], &orgs[0]["members"]),
        (&Value::Null, &json!([]))
    );

    desk.does("orgs create Other");
    desk.refuses("orgs rename acme OTHER");
    desk.does("orgs rename acme Apex");
    let said = desk.refuses("orgs remove apex");
    assert!(said.contains("add --yes"), "{said}");
    desk.does("orgs remove apex --yes");
    assert_eq!(desk.items("orgs list").as_array().unwrap().len(), 1);
    let done: Vec<String> = desk
        .audited()
        .into_iter()
        .map(|(_, action, _)| action)
        .collect();
    for action in ["user.forgotten", "org.renamed", "org.removed"] {
        assert!(done.iter().any(|it| it == action), "{action} in {done:?}");
    }
}

/// An accent may be a character of its own or part of the letter.
#[test]
fn two_ways_to_write_a_name_are_one_organization() {
    let desk = Desk::new();
    desk.does("orgs create Cafe\u{301}");
    let said = desk.refuses("orgs create CAF\u{c9}");
    assert!(said.contains("already"), "{said}");
    desk.does("orgs add-member caf\u{e9} alice");
    assert_eq!(desk.items("orgs list")[0]["name"], "Caf\u{e9}");
}
