//! Tokens that are sealed under their device code.

use store::device_codes::{seal, unseal};

#[test]
fn only_the_code_that_sealed_a_token_opens_it() {
    let sealed = seal("code", "gho_token").unwrap();
    assert_eq!(unseal("code", &sealed).as_deref(), Some("gho_token"));
    assert_eq!(unseal("Code", &sealed), None);
    assert!(!sealed.windows(4).any(|part| part == b"gho_"));
    assert_ne!(sealed, seal("code", "gho_token").unwrap());
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert_eq!(unseal("code", &changed), None, "byte {at}");
    }
    assert_eq!(unseal("code", &sealed[..12]), None);
    assert_eq!(unseal("code", b"short"), None);
}
