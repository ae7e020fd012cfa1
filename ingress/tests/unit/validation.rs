//! Tests of what is private in `src/validation.rs`.

use super::*;

#[test]
fn the_idlest_are_forgotten_first_and_of_all_those_that_were_never_valid() {
    let mut tokens = HashMap::new();
    for n in 0..10_u8 {
        let token = Token::default();
        lock(&token.known).seen = Duration::from_secs(u64::from(n));
        lock(&token.known).was_valid = n < 3;
        tokens.insert([n; 32], Arc::new(token));
    }
    forget_idlest(&mut tokens, 4);
    let mut left: Vec<u8> = tokens.keys().map(|key| key[0]).collect();
    left.sort_unstable();
    assert_eq!(left, [0, 1, 2, 7, 8, 9]);
}
