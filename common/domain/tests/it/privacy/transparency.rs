//! The tree of the audit trail, its checkpoints and its proofs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::privacy::transparency::{
    Hash, Proof, Reader, checkpoint, is_origin, opened, origin, proof_text, verifier_key,
    witness_text,
};
use domain::privacy::{Keys, verify};
use sha2::{Digest as _, Sha256};

/// The largest power of two below `size`, which is two or more.
fn half(size: usize) -> usize {
    (1..size).rev().find(|it| it.is_power_of_two()).unwrap()
}

/// The hashes of a leaf and of a node, by RFC 6962, section 2.1.
fn leaf(entry: &[u8]) -> Hash {
    Sha256::digest([&[0], entry].concat()).into()
}

fn node(left: &Hash, right: &Hash) -> Hash {
    Sha256::digest([&[1], &left[..], &right[..]].concat()).into()
}

/// The definition of RFC 6962, section 2.1.
fn root(entries: &[Vec<u8>]) -> Hash {
    match entries {
        [] => Sha256::digest([]).into(),
        [one] => leaf(one),
        all => {
            let (left, right) = all.split_at(half(all.len()));
            node(&root(left), &root(right))
        }
    }
}

fn entries(count: u64) -> Vec<Vec<u8>> {
    (0..count).map(|it| it.to_be_bytes().to_vec()).collect()
}

fn read(entries: &[Vec<u8>], proof: Option<Proof>) -> Reader {
    let mut reader = Reader::new(proof);
    for entry in entries {
        reader.push(entry);
    }
    reader
}

/// PATH of RFC 6962, section 2.1.1.
fn path(index: usize, entries: &[Vec<u8>]) -> Vec<Hash> {
    if entries.len() < 2 {
        return Vec::new();
    }
    let middle = half(entries.len());
    let (left, right) = entries.split_at(middle);
    let (mut path, beside) = if index < middle {
        (path(index, left), root(right))
    } else {
        (path(index - middle, right), root(left))
    };
    path.push(beside);
    path
}

/// SUBPROOF of RFC 6962, section 2.1.2.
fn subproof(before: usize, entries: &[Vec<u8>], is_known: bool) -> Vec<Hash> {
    if before == entries.len() {
        return if is_known {
            Vec::new()
        } else {
            vec![root(entries)]
        };
    }
    let middle = half(entries.len());
    let (left, right) = entries.split_at(middle);
    let (mut proof, beside) = if before <= middle {
        (subproof(before, left, is_known), root(right))
    } else {
        (subproof(before - middle, right, false), root(left))
    };
    proof.push(beside);
    proof
}

#[test]
fn roots_and_proofs_are_those_of_the_definition() {
    for size in 0..40 {
        let all = entries(size);
        assert_eq!(read(&all, None).tree.root(), root(&all), "{size}");
        for index in 0..size {
            let reader = read(&all, Some(Proof::inclusion(index, size)));
            let hashes = reader.proof.unwrap().hashes();
            assert_eq!(
                hashes,
                path(usize::try_from(index).unwrap(), &all),
                "{index} of {size}"
            );
            let before = index + 1;
            let reader = read(&all, Some(Proof::consistency(before, size)));
            let hashes = reader.proof.unwrap().hashes();
            let expected = subproof(usize::try_from(before).unwrap(), &all, true);
            assert_eq!(hashes, expected, "{before} of {size}");
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
        let tree = read(&entries[..size], None).tree;
        assert_eq!(hex::encode(tree.root()), known, "{size}");
        assert_eq!(tree.size(), size as u64);
    }
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

    let tree = read(&entries(2), None).tree;
    let signed = checkpoint(&keys, origin, &tree);
    let (note, signature) = signed.split_once("\n\n").unwrap();
    let root = STANDARD.encode(tree.root());
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

    let hashes = [[1; 32], [2; 32]];
    let lines = hashes.map(|hash| STANDARD.encode(hash)).join("\n");
    assert_eq!(
        proof_text(b"entry", 5, &hashes, &signed),
        format!("c2sp.org/tlog-proof@v1\nextra ZW50cnk=\nindex 5\n{lines}\n\n{signed}")
    );
    assert_eq!(
        witness_text(1, &hashes, &signed),
        format!("old 1\n{lines}\n\n{signed}")
    );
}

#[test]
fn a_checkpoint_is_opened_with_its_key_and_name_alone() {
    let keys = Keys::new(vec![1; 32]);
    let tree = read(&entries(7), None).tree;
    let signed = checkpoint(&keys, "shop.example/audit", &tree);
    let found = opened(&keys, "shop.example/audit", &signed);
    assert_eq!(found, Some((7, tree.root())));
    assert_eq!(opened(&keys, "other.example/audit", &signed), None);
    let other = Keys::new(vec![2; 32]);
    assert_eq!(opened(&other, "shop.example/audit", &signed), None);
    let changed = signed.replacen("\n7\n", "\n8\n", 1);
    assert_eq!(opened(&keys, "shop.example/audit", &changed), None);
    assert_eq!(opened(&keys, "shop.example/audit", ""), None);
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
