//! `waybill version` says what the program is made of.

use std::collections::BTreeSet;

use serde_json::Value;
use store::sql::Db;

use super::command::{Shop, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_program_says_what_it_is_made_of() {
    let shop = Shop::new();
    let said = text(&shop.run(&["version"]).stdout);
    assert!(
        said.contains(env!("CARGO_PKG_VERSION")) && said.contains("--sbom"),
        "{said}"
    );
    let found: Value = serde_json::from_slice(&shop.run(&["version", "--json"]).stdout).unwrap();
    let address = format!("sqlite://{}/any.db", shop.folder.path().display());
    let db = Db::open(&address, 1).await.unwrap();
    let row = db.query("select sqlite_version() as version").fetch_one();
    let sqlite: String = row.await.unwrap().get("version").unwrap();
    assert_eq!(found["sqlite"], sqlite, "it is the one that is compiled in");
    db.close().await;

    let sbom: Value = serde_json::from_slice(&shop.run(&["version", "--sbom"]).stdout).unwrap();
    let components = sbom["components"].as_array().unwrap();
    let references: BTreeSet<&str> = components
        .iter()
        .chain([&sbom["metadata"]["component"]])
        .map(|it| it["bom-ref"].as_str().unwrap())
        .collect();
    assert_eq!(
        references.len(),
        components.len() + 1,
        "each has its own reference"
    );
    let others = components.iter().filter(|it| it["purl"].is_string());
    assert_eq!(found["libraries"], others.count());
    for needs in sbom["dependencies"].as_array().unwrap() {
        let of = needs["ref"].as_str().unwrap();
        let needed = needs["dependsOn"].as_array().unwrap().iter();
        for needed in needed.map(|it| it.as_str().unwrap()).chain([of]) {
            assert!(references.contains(needed), "{of} needs {needed}");
        }
    }
    let notices = text(&shop.run(&["version", "--notices"]).stdout);
    for component in components.iter().filter(|it| it["hashes"].is_array()) {
        let name = component["name"].as_str().unwrap();
        let version = component["version"].as_str().unwrap();
        assert!(
            notices.contains(&format!("{name} {version}")),
            "{name} {version}"
        );
    }
    let both = shop.run(&["version", "--sbom", "--notices"]);
    assert_eq!(both.status.code(), Some(2));
}
