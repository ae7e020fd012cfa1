//! `waybill licenses` and `waybill orgs` as an operator uses them.

use serde_json::Value;
use tempfile::TempDir;

use crate::support::process::{command, output};

/// A desk with a database of its own.
struct Desk {
    folder: TempDir,
}

impl Desk {
    fn new() -> Self {
        Desk {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// What a command said, and whether it succeeded.
    fn run(&self, line: &str) -> (bool, String) {
        let mut command = command("waybill", &[("RUST_LOG", "warn")]);
        let database = self.folder.path().join("desk.db");
        command.env("DATABASE_URL", format!("sqlite://{}", database.display()));
        command.args(line.split(' '));
        let output = output(command);
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
fn show_tells_which_licence_decides_and_why() {
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
    let licenses = desk.json("licenses list --all");
    assert_eq!(licenses.as_array().unwrap().len(), 1);
    let licenses = desk.json("licenses list");
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
    assert!(said.contains("remove-member"), "{said}");
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
