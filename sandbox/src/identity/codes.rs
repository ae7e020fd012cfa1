//! Codes and tokens as the provider writes them. Each is made from random bytes that the caller
//! gives, so the ids of the clock are the only source of random values.

use providers::identity::form;

use crate::sample::mix;

/// The letters of a user code. There are no vowels, so that a code is never a word, and no letters
/// that look alike (RFC 8628, section 6.1).
const USER_CODE: &[u8] = b"BCDFGHJKLMNPQRSTVWXZ";
const HEX: &[u8] = b"0123456789abcdef";
const TOKEN: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

pub fn device_code(noise: &str) -> String {
    letters(noise, HEX, 40)
}

/// The code with which a browser goes back.
pub fn web_code(noise: &str) -> String {
    letters(noise, HEX, 20)
}

/// `WDJB-MJHT`
pub fn user_code(noise: &str) -> String {
    let letters = letters(noise, USER_CODE, 8);
    let (first, last) = letters.split_at(4);
    format!("{first}-{last}")
}

/// A token: `gho_`, 30 letters and digits, and their checksum. If the random bytes do not come
/// from the clock, it is a token that nobody was given.
pub fn token(noise: &str) -> String {
    let random = letters(noise, TOKEN, 30);
    let checksum = form::checksum(&random);
    format!("gho_{random}{checksum}")
}

/// The user code in the form in which it was given out. A person may type it in lower case, with
/// spaces or without the hyphen.
pub fn read_user_code(typed: &str) -> String {
    let letters = typed.chars().filter(char::is_ascii_alphanumeric);
    let mut code: String = letters.map(|letter| letter.to_ascii_uppercase()).collect();
    if code.len() > 4 {
        code.insert(4, '-');
    }
    code
}

fn letters(noise: &str, alphabet: &[u8], count: u64) -> String {
    let len = u64::try_from(alphabet.len()).expect("a few");
    let letter = |nth| usize::try_from(mix(noise, nth) % len).expect("below the length");
    (0..count)
        .map(|nth| char::from(alphabet[letter(nth)]))
        .collect()
}
