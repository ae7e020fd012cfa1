//! What the form of a token says by itself. GitHub's tokens end with a checksum: after `gho_` and
//! similar prefixes come 30 random letters and digits, and then 6 more with the CRC-32 of those
//! 30, in base 62 with leading zeros ("Behind GitHub's new authentication token formats", April
//! 2021). So a token that was cut off or mistyped is recognized without asking anyone.
//!
//! Only documented forms are judged. The older form (40 hexadecimal digits) has no checksum, the
//! form of `github_pat_` is not documented, and longer tokens may have another checksum. The
//! provider is asked about all of these, because a good token must never be refused.

/// The prefixes of tokens that have a checksum: tokens of an OAuth app, of a person, of a GitHub
/// App for a person, of a GitHub App itself, and refresh tokens.
const PREFIXES: [&str; 5] = ["gho_", "ghp_", "ghu_", "ghs_", "ghr_"];
const RANDOM: usize = 30;
const CHECKSUM: usize = 6;
const BASE_62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The beginnings of credentials of GitHub that are of no person: of an installation of a GitHub App, as a workflow of
/// GitHub Actions has one, in its present and its former form, of such an app itself (a JWT), and refresh tokens.
const OF_NOBODY: [&str; 4] = ["ghs_", "v1.", "eyJ", "ghr_"];

/// True for a text that can never be the token of a person.
pub fn is_of_nobody(token: &str) -> bool {
    OF_NOBODY.iter().any(|prefix| token.starts_with(prefix))
}

/// True for a text that begins like a token with a checksum but is not one, because it is too
/// short or its checksum is wrong.
pub fn is_misspelt(token: &str) -> bool {
    let body = PREFIXES
        .iter()
        .find_map(|prefix| token.strip_prefix(prefix))
        .filter(|body| body.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let Some(body) = body else { return false };
    match body.split_at_checked(RANDOM) {
        Some((random, sum)) if sum.len() == CHECKSUM => sum != checksum(random),
        Some((_, sum)) => sum.len() < CHECKSUM,
        None => true,
    }
}

/// The checksum at the end of a token with these random letters and digits.
pub fn checksum(random: &str) -> String {
    let mut rest = crc_32(random.as_bytes());
    let mut digits = [b'0'; CHECKSUM];
    for digit in digits.iter_mut().rev() {
        *digit = BASE_62[(rest % 62) as usize];
        rest /= 62;
    }
    digits.into_iter().map(char::from).collect()
}

/// The CRC-32 of Ethernet and PNG, computed bit by bit.
fn crc_32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            let is_odd = crc & 1 == 1;
            crc >>= 1;
            if is_odd {
                crc ^= 0xedb8_8320;
            }
        }
    }
    !crc
}
