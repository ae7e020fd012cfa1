//! `waybill config export` and `import` set up another installation alike.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::command::{Shop, text};

#[test]
fn another_installation_is_set_up_alike() {
    let (from, to) = (Shop::new(), Shop::new());
    for shop in [&from, &to] {
        assert!(shop.run(&["migrate"]).status.success());
    }
    let made = text(
        &from
            .run(&["keys", "create", "till", "--scope", "orders:read"])
            .stdout,
    );
    let key = made.lines().next().unwrap().to_owned();
    let gone = text(&from.run(&["keys", "create", "gone"]).stderr);
    assert!(
        gone.contains("It opens: all of the API. Shops: all."),
        "{gone}"
    );
    assert!(from.run(&["keys", "revoke", "gone"]).status.success());
    let url = "https://hooks.example/waybill";
    let added = from.run(&["endpoints", "add", url, "--type", "order.*", "--json"]);
    let added: Value = serde_json::from_slice(&added.stdout).unwrap();
    let (id, secret) = (
        added["id"].as_str().unwrap(),
        added["secret"].as_str().unwrap(),
    );
    assert!(from.run(&["endpoints", "pause", id]).status.success());

    let file = from.folder.path().join("setup.json");
    let file = file.to_str().unwrap();
    let said = text(&from.run(&["config", "export", file]).stdout);
    assert!(said.contains("API keys (1) and endpoints (1)"), "{said}");
    let written = std::fs::read_to_string(file).unwrap();
    assert!(
        !written.contains(secret) && !written.contains(&key),
        "{written}"
    );
    assert!(written.contains("\"RUST_LOG\": \"warn\""), "{written}");
    let mode = std::fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "nobody else reads it");
    let again = from.run(&["config", "export", file]);
    assert_eq!(again.status.code(), Some(1), "it overwrites nothing");

    // One that cannot be added leaves nothing behind, and says which.
    let wrong = from.folder.path().join("wrong.json");
    std::fs::write(&wrong, written.replace("https://hooks", "ftp://hooks")).unwrap();
    let refused = to.run(&["config", "import", wrong.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains(id), "{refused:?}");
    std::fs::write(&wrong, written.replace("orders:read", "orders:burn")).unwrap();
    let refused = to.run(&["config", "import", wrong.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("orders:burn"), "{refused:?}");
    let listed = |shop: &Shop, what: &str| -> Value {
        let printed = shop.run(&[what, "list", "--json"]).stdout;
        let mut listed: Value = serde_json::from_slice(&printed).unwrap();
        listed["items"].take()
    };
    // A key that somebody has planted.
    std::fs::write(
        &wrong,
        written.replace("orders:read", "orders:read console:owner"),
    )
    .unwrap();
    let refused = to.run(&["config", "import", wrong.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    let why = text(&refused.stderr);
    assert!(
        why.contains("console:owner") && why.contains("--console"),
        "{why}"
    );
    assert_eq!(listed(&to, "keys"), json!([]));
    let other = Shop::new();
    assert!(other.run(&["migrate"]).status.success());
    let said = text(
        &other
            .run(&["config", "import", wrong.to_str().unwrap(), "--console"])
            .stdout,
    );
    assert!(said.contains("orders:read, console:owner"), "{said}");
    let audited = text(&other.run(&["audit", "list", "--json"]).stdout);
    assert!(audited.contains("console:owner"), "{audited}");

    let imported = to.run(&["config", "import", file, "--json"]);
    let imported: Value = serde_json::from_slice(&imported.stdout).unwrap();
    assert_eq!(imported["imported"][0]["added"], json!(true), "{imported}");
    let other = imported["imported"][1]["secret"].as_str().unwrap();
    assert!(other.starts_with("whsec_") && other != secret, "{imported}");
    assert!(
        imported["settings_that_differ"]["LISTEN_ADDR"].is_string(),
        "{imported}"
    );
    let endpoints = listed(&to, "endpoints");
    assert_eq!(
        (
            &endpoints[0]["url"],
            &endpoints[0]["state"],
            &endpoints[0]["types"]
        ),
        (&json!(url), &json!("paused"), &json!(["order.*"])),
        "{endpoints}"
    );
    let keys = listed(&to, "keys");
    assert_eq!(keys.as_array().unwrap().len(), 1);
    assert_eq!(
        (&keys[0]["name"], &keys[0]["scopes"]),
        (&json!("till"), &json!(["orders:read"]))
    );
    let audited = text(&to.run(&["audit", "list"]).stdout);
    assert!(
        audited.contains("key.created") && audited.contains("endpoint.added"),
        "{audited}"
    );

    // Again, nothing is added. With their secrets, receivers need no other one.
    let again = text(&to.run(&["config", "import", file]).stdout);
    assert!(
        again.contains("there already") && !again.contains("whsec_"),
        "{again}"
    );
    let with = from.folder.path().join("with-secrets.json");
    let with = with.to_str().unwrap();
    assert!(
        from.run(&["config", "export", with, "--with-secrets"])
            .status
            .success()
    );
    assert!(std::fs::read_to_string(with).unwrap().contains(secret));
    let third = Shop::new();
    assert!(third.run(&["migrate"]).status.success());
    let imported = text(&third.run(&["config", "import", with, "--json"]).stdout);
    assert!(
        !imported.contains("whsec_"),
        "it has the one of the file: {imported}"
    );
}
