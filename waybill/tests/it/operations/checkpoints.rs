//! Checkpoints of the audit and proofs about its entries, as programs of others check them.

use std::path::PathBuf;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};
use signed_note::{Note, StandardVerifier, VerifierList};
use store::sql::Db;
use tlog_tiles::{Checkpoint, check_record, check_tree, record_hash};

use super::command::{Shop, text};
use crate::support::process::{command, output};

/// What somebody checks who trusts neither us nor our programs: the checkpoint, and the proofs that come with it.
struct Checked {
    size: u64,
    root: tlog_tiles::Hash,
}

/// Opens a checkpoint with the key that was published.
fn opened(key: &str, checkpoint: &str) -> Checked {
    let verifier = StandardVerifier::new(key).unwrap();
    let note = Note::from_bytes(checkpoint.as_bytes()).unwrap();
    let verifiers = VerifierList::new(vec![Box::new(verifier)]);
    let (verified, _) = note.verify(&verifiers).unwrap();
    assert_eq!(verified.len(), 1);
    let checkpoint = Checkpoint::from_bytes(note.text()).unwrap();
    assert_eq!(checkpoint.origin(), "shop.example/audit");
    Checked {
        size: checkpoint.size(),
        root: *checkpoint.hash(),
    }
}

fn hashes<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<tlog_tiles::Hash> {
    let lines = lines.take_while(|line| !line.is_empty());
    lines
        .map(|line| tlog_tiles::Hash::parse_hash(line).unwrap())
        .collect()
}

#[test]
fn programs_of_others_check_the_audit() {
    let shop = Shop::new();
    let of_log = |arguments: &[&str]| {
        let all = [&["audit"], arguments, &["--origin", "shop.example/audit"]].concat();
        let output = shop.run(&all);
        (
            output.status.success(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let said = |arguments: &[&str]| {
        let (is_done, out, error) = of_log(arguments);
        assert!(is_done, "{arguments:?}: {error}");
        out
    };
    assert!(shop.run(&["migrate"]).status.success());
    let mut older: Option<(Checked, PathBuf)> = None;
    let mut key = String::new();
    for created in 1..=6u64 {
        let name = format!("till-{created}");
        assert!(shop.run(&["keys", "create", &name]).status.success());
        key = said(&["key"]).trim().to_owned();
        let signed = said(&["checkpoint"]);
        let now = opened(&key, &signed);
        assert_eq!(now.size, created);
        for number in 1..=created {
            let proof = said(&["prove", &number.to_string()]);
            let mut lines = proof.lines();
            assert_eq!(lines.next(), Some("c2sp.org/tlog-proof@v1"));
            let entry = lines.next().unwrap().strip_prefix("extra ").unwrap();
            let entry = BASE64_STANDARD.decode(entry).unwrap();
            let index = format!("index {}", number - 1);
            assert_eq!(lines.next(), Some(index.as_str()));
            let path = hashes(&mut lines);
            let (_, checkpoint) = proof.split_once("\n\n").unwrap();
            let in_proof = opened(&key, checkpoint);
            assert_eq!((in_proof.size, in_proof.root), (now.size, now.root));
            let leaf = record_hash(&entry);
            check_record(&path, now.size, now.root, number - 1, leaf).unwrap();
            let entry: Value = serde_json::from_slice(&entry).unwrap();
            assert_eq!(
                (&entry["number"], &entry["action"]),
                (&json!(number), &json!("key.created"))
            );
        }
        if let Some((before, file)) = &older {
            let sent = said(&["checkpoint", "--since", file.to_str().unwrap()]);
            let mut lines = sent.lines();
            let old = format!("old {}", before.size);
            assert_eq!(lines.next(), Some(old.as_str()));
            let proof = hashes(&mut lines);
            check_tree(&proof, now.size, now.root, before.size, before.root).unwrap();
        }
        let file = shop.folder.path().join(format!("{created}.checkpoint"));
        std::fs::write(&file, signed).unwrap();
        // Some steps are from the first checkpoint, and some from the one before.
        if created != 3 {
            older = Some((now, file));
        }
    }

    // An entry that was changed by somebody who has our key too is found by whoever has an older checkpoint.
    let (_, file) = older.unwrap();
    let text_of = std::fs::read_to_string(&file).unwrap();
    assert!(StandardVerifier::new(&key).is_ok() && text_of.contains("shop.example/audit"));
    let foreign = shop.folder.path().join("foreign");
    std::fs::write(&foreign, text_of.replace("\n6\n", "\n5\n")).unwrap();
    let (is_done, _, error) = of_log(&["checkpoint", "--since", foreign.to_str().unwrap()]);
    assert!(
        !is_done && error.contains("has no checkpoint that is signed"),
        "{error}"
    );
    let (is_done, _, error) = of_log(&["prove", "7"]);
    assert!(!is_done && error.contains("there is no entry 7"), "{error}");
    let mut other = command("waybill", &[]);
    other.env_remove("PRIVACY_KEY").envs(shop.settings());
    other.args(["audit", "key", "--origin", "a b"]);
    assert_eq!(output(other).status.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_signed_of_an_audit_that_was_changed() {
    let shop = Shop::new();
    assert!(shop.run(&["migrate"]).status.success());
    for name in ["till", "office"] {
        assert!(shop.run(&["keys", "create", name]).status.success());
    }
    let signed = text(&shop.run(&["audit", "checkpoint"]).stdout);
    let file = shop.folder.path().join("kept.checkpoint");
    std::fs::write(&file, signed).unwrap();
    let address = format!("sqlite://{}", shop.folder.path().join("shop.db").display());
    let db = Db::open(&address, 1).await.unwrap();
    let mut tx = db.begin().await.unwrap();
    let change = "update audit set actor = 'nobody' where number = 1";
    tx.query(change).execute().await.unwrap();
    tx.commit().await.unwrap();
    db.close().await;
    for arguments in [
        &["audit", "checkpoint"][..],
        &["audit", "checkpoint", "--since", file.to_str().unwrap()],
        &["audit", "prove", "2"],
    ] {
        let output = shop.run(arguments);
        assert_eq!(output.status.code(), Some(1));
        let error = text(&output.stderr);
        assert!(
            error.contains("the audit is broken, and nothing is signed"),
            "{error}"
        );
    }
}
