//! The tree of the audit trail, its checkpoints and its proofs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::privacy::transparency::{
    Hash, Hashes, Tree, checkpoint, is_origin, origin, record_hash, verifier_key,
};
use domain::privacy::{Keys, verify};
use sha2::{Digest as _, Sha256};
use tlog_tiles::check_record;

fn read(entries: &[Vec<u8>]) -> (Tree, Hashes) {
    let (mut tree, mut hashes) = (Tree::default(), Hashes::default());
    for entry in entries {
        tree.push(record_hash(entry));
        hashes.push(entry).unwrap();
    }
    (tree, hashes)
}

#[test]
fn each_entry_is_proved_to_be_in_the_tree() {
    let all: Vec<Vec<u8>> = (0..40u64).map(|it| it.to_be_bytes().to_vec()).collect();
    for size in 1..all.len() {
        let (tree, hashes) = read(&all[..size]);
        for (index, entry) in (0..).zip(&all[..size]) {
            let proof = hashes.proof(entry, index, "signed").unwrap();
            let (proof, checkpoint) = proof.split_once("\n\n").unwrap();
            assert_eq!(checkpoint, "signed");
            let path = proof
                .lines()
                .skip(3)
                .map(|it| Hash::parse_hash(it).unwrap());
            let (path, leaf) = (path.collect(), record_hash(entry));
            check_record(&path, tree.size(), tree.root(), index, leaf).unwrap();
        }
    }
}

/// Entries and roots that implementations of Certificate Transparency are tested with.
#[test]
fn known_entries_have_the_roots_that_other_programs_find() {
    let entries = [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ]
    .map(|entry| hex::decode(entry).unwrap());
    for (size, known) in [
        (
            0,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
        (
            1,
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        ),
        (
            7,
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        ),
        (
            8,
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ),
    ] {
        let (tree, _) = read(&entries[..size]);
        assert_eq!(hex::encode(tree.root().0), known, "{size}");
        assert_eq!(tree.size(), size as u64);
    }
}

#[test]
fn a_tree_is_read_back_and_a_difference_is_found_where_it_is() {
    let entries: Vec<Vec<u8>> = (0..7u8).map(|it| vec![it]).collect();
    let (tree, _) = read(&entries);
    assert_eq!(Tree::read(7, &tree.bytes()), Some(tree.clone()));
    assert_eq!(Tree::read(6, &tree.bytes()), None);
    assert_eq!(Tree::read(7, &tree.bytes()[1..]), None);
    assert_eq!(tree.first_difference(&tree), None);
    for (changed, first) in [(0, 0), (3, 0), (4, 4), (5, 4), (6, 6)] {
        let mut others = entries.clone();
        others[changed].push(0);
        let (other, _) = read(&others);
        assert_eq!(tree.first_difference(&other), Some(first), "{changed}");
    }
    assert_eq!(Tree::unknown(7).first_difference(&tree), Some(0));
}

#[test]
fn a_note_and_its_key_have_the_form_that_verifiers_read() {
    let keys = Keys::new(vec![1; 32]);
    let origin = "shop.example/audit";
    let text = verifier_key(&keys, origin);
    let [name, id, key] = text.split('+').collect::<Vec<_>>()[..] else {
        panic!("{text}");
    };
    let public = keys.checkpoint_public();
    let key = STANDARD.decode(key).unwrap();
    assert_eq!(
        (name, &key[..1], &key[1..]),
        (origin, &[1][..], &public[..])
    );
    let hash = Sha256::digest([origin.as_bytes(), b"\n", &key].concat());
    assert_eq!(id, hex::encode(&hash[..4]));

    let (tree, hashes) = read(&[b"one".to_vec(), b"two".to_vec()]);
    let signed = checkpoint(&keys, origin, &tree);
    let (note, signature) = signed.split_once("\n\n").unwrap();
    let root = tree.root();
    assert_eq!(note, format!("{origin}\n2\n{root}"));
    let signature = signature
        .strip_prefix("\u{2014} shop.example/audit ")
        .unwrap();
    let signature = STANDARD.decode(signature.trim_end()).unwrap();
    assert_eq!(signature[..4], hash[..4]);
    assert!(verify(
        &public,
        format!("{note}\n").as_bytes(),
        &signature[4..]
    ));

    let one = record_hash(b"one");
    assert_eq!(
        hashes.proof(b"two", 1, &signed).unwrap(),
        format!("c2sp.org/tlog-proof@v1\nextra dHdv\nindex 1\n{one}\n\n{signed}")
    );
    // A receipt and a checkpoint are signed with different keys.
    assert_ne!(keys.checkpoint_public(), keys.public());
}

#[test]
fn the_name_of_a_log_is_the_address_of_the_service() {
    assert_eq!(origin("https://shop.example/"), "shop.example/audit");
    assert_eq!(origin("http://127.0.0.1:8000"), "127.0.0.1:8000/audit");
    assert!(is_origin("shop.example/audit"));
    assert!(is_origin(&"a".repeat(255)));
    for wrong in ["", "a b", "a+b", "a\nb", "a\u{7}", &"a".repeat(256)] {
        assert!(!is_origin(wrong), "{wrong}");
    }
}
