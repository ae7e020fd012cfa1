//! Checkpoints of the audit and proofs about its entries, as programs of others check them.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};
use signed_note::{Note, StandardVerifier, VerifierList};
use store::sql::Db;
use tlog_tiles::{Checkpoint, Hash, check_record, record_hash};

use super::command::{Shop, text};
use crate::support::process::{command, output};

/// The size and the root of a checkpoint that was signed with the key that was published, as somebody reads them
/// who trusts neither us nor our programs.
fn opened(key: &str, checkpoint: &str) -> (u64, Hash) {
    let verifier = StandardVerifier::new(key).unwrap();
    let note = Note::from_bytes(checkpoint.as_bytes()).unwrap();
    let verifiers = VerifierList::new(vec![Box::new(verifier)]);
    let (verified, _) = note.verify(&verifiers).unwrap();
    assert_eq!(verified.len(), 1);
    let checkpoint = Checkpoint::from_bytes(note.text()).unwrap();
    assert_eq!(checkpoint.origin(), "shop.example/audit");
    (checkpoint.size(), *checkpoint.hash())
}

#[test]
fn programs_of_others_check_the_audit() {
    let shop = Shop::new();
    let of_log = |arguments: &[&str]| {
        let all = [&["audit"], arguments, &["--origin", "shop.example/audit"]].concat();
        let output = shop.run(&all);
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let said = |arguments: &[&str]| {
        let (code, out, error) = of_log(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {error}");
        out
    };
    assert!(shop.run(&["migrate"]).status.success());
    let mut older = String::new();
    for created in 1..=6u64 {
        let name = format!("till-{created}");
        assert!(shop.run(&["keys", "create", &name]).status.success());
        let key = said(&["key"]).trim().to_owned();
        let signed = said(&["checkpoint"]);
        let now = opened(&key, &signed);
        assert_eq!(now.0, created);
        for number in 1..=created {
            let proof = said(&["prove", &number.to_string()]);
            let (proof, checkpoint) = proof.split_once("\n\n").unwrap();
            let lines: Vec<&str> = proof.lines().collect();
            assert_eq!(lines[0], "c2sp.org/tlog-proof@v1");
            let entry = lines[1].strip_prefix("extra ").unwrap();
            let entry = BASE64_STANDARD.decode(entry).unwrap();
            assert_eq!(lines[2], format!("index {}", number - 1));
            let path = lines[3..]
                .iter()
                .map(|line| Hash::parse_hash(line).unwrap());
            assert_eq!(opened(&key, checkpoint), now);
            let leaf = record_hash(&entry);
            check_record(&path.collect(), now.0, now.1, number - 1, leaf).unwrap();
            let entry: Value = serde_json::from_slice(&entry).unwrap();
            assert_eq!(
                (&entry["number"], &entry["action"]),
                (&json!(number), &json!("key.created"))
            );
        }
        // What somebody wrote down of an older checkpoint is found again.
        let lines: Vec<&str> = signed.lines().collect();
        let head = format!("{}:{}", lines[1], lines[2]);
        for head in [&older, &head] {
            let verified = shop.run(&["audit", "verify", "--head", head]);
            assert!(verified.status.success() || head.is_empty(), "{head}");
        }
        older = head;
    }
    let (code, _, error) = of_log(&["prove", "7"]);
    assert!(
        code == Some(1) && error.contains("there is no entry 7"),
        "{error}"
    );
    let (code, _, error) = of_log(&["checkpoint", "--since", "kept"]);
    assert!(
        code == Some(2) && error.contains("audit checkpoint --since is not in this version"),
        "{error}"
    );
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
    let address = format!("sqlite://{}", shop.folder.path().join("shop.db").display());
    let db = Db::open(&address, 1).await.unwrap();
    let mut tx = db.begin().await.unwrap();
    let change = "update audit set actor = 'nobody' where number = 1";
    tx.query(change).execute().await.unwrap();
    tx.commit().await.unwrap();
    db.close().await;
    for arguments in [&["audit", "checkpoint"][..], &["audit", "prove", "2"]] {
        let output = shop.run(arguments);
        assert_eq!(output.status.code(), Some(1));
        let error = text(&output.stderr);
        assert!(
            error.contains("the audit is broken, and nothing is signed"),
            "{error}"
        );
    }
}
