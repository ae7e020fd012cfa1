//! Codes and tokens as the provider writes them. Each is drawn from some noise, so the clock's
//! ids are their only source of chance.

use providers::identity::form;

use crate::sample::mix;

/// No vowels, so that no word comes of it, and nothing that looks like something else
/// (RFC 8628, section 6.1).
const USER_CODE: &[u8] = b"BCDFGHJKLMNPQRSTVWXZ";
const HEX: &[u8] = b"0123456789abcdef";
const TOKEN: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

pub fn device_code(noise: &str) -> String {
    letters(noise, HEX, 40)
}

/// `WDJB-MJHT`
pub fn user_code(noise: &str) -> String {
    let letters = letters(noise, USER_CODE, 8);
    let (first, last) = letters.split_at(4);
    format!("{first}-{last}")
}

/// `gho_`, 30 letters and digits, and the checksum of these. Of noise that no clock gave it is one
/// that nobody was given.
pub fn token(noise: &str) -> String {
    let random = letters(noise, TOKEN, 30);
    let checksum = form::checksum(&random);
    format!("gho_{random}{checksum}")
}

/// A user code as it was given out, whatever way it was typed: lower case, spaces, no hyphen.
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
