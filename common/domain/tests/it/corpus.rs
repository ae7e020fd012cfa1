//! What must hold for every input holds for those that `scripts/fuzz` has kept.

use std::fs;

#[path = "../../../../fuzz/src/domain/mod.rs"]
mod rules;

fn check(target: &str, rule: fn(&[u8])) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");
    let files = fs::read_dir(format!("{folder}/{target}")).expect("kept inputs");
    let files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    assert!(files.len() > 5, "{target} has {} inputs", files.len());
    for file in files {
        rule(&fs::read(file).expect("an input"));
    }
}

#[test]
fn what_must_hold_holds_for_every_kept_input() {
    check("signatures", rules::signatures::check);
    check("profiles", rules::profiles::check);
    check("envelopes", rules::envelopes::check);
    check("orders", rules::orders::check);
    check("payments", rules::payments::check);
    check("privacy", rules::privacy::check);
    check("erased", rules::erased::check);
    check("redaction", rules::redaction::check);
    check("queries", rules::queries::check);
    check("money", rules::money::check);
    check("times", rules::times::check);
}
