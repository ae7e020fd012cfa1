//! Which tokens of GitHub are misspelt.

use providers::identity::form::is_misspelt;

/// A token that was published after it had been revoked, and one for which zlib's CRC-32
/// gives two leading zeros.
const GOOD: [&str; 2] = [
    "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",
    "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",
];

#[test]
fn a_good_token_is_never_misspelt_and_with_any_other_letter_it_is() {
    for token in GOOD {
        assert!(!is_misspelt(token), "{token}");
        for at in 4..token.len() {
            let mut changed = token.as_bytes().to_vec();
            changed[at] = if changed[at] == b'x' { b'y' } else { b'x' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(is_misspelt(&changed), "{changed}");
            assert!(is_misspelt(&token[..at]), "{}", &token[..at]);
        }
    }
}

#[test]
fn what_has_no_documented_checksum_must_be_asked_about() {
    for token in [
        "25f94a2a5c7fbaf499c665bc73d67c1c87e496da",
        "github_pat_11AAAAAAA0aaaaaaaaaaaa_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
        "ghx_zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq18",
        "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zzzzzzzz",
        "ghs_123456_eyJhbGciOiJFUzI1NiJ9.e30.c2lnbmF0dXJl",
        "anything",
        "",
    ] {
        assert!(!is_misspelt(token), "{token}");
    }
}
