//! The inputs that `scripts/fuzz` has kept. Tests of the crates include this file and give them to the same functions.

use std::fs;

/// Gives every kept input of a target to its function.
pub fn check(target: &str, rule: fn(&[u8])) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");
    let files = fs::read_dir(format!("{folder}/{target}")).expect("kept inputs");
    let files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    assert!(files.len() > 5, "{target} has {} inputs", files.len());
    for file in files {
        rule(&fs::read(file).expect("an input"));
    }
}
