//! Signatures of Standard Webhooks (<https://www.standardwebhooks.com>): `webhook-signature` lists
//! them with a space between, each a version and base64. `v1` is an HMAC, `v1a` is Ed25519; what
//! is signed is `<webhook-id>.<webhook-timestamp>.<body>`.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

use super::{
    Digest, Key, MAX_V1, MAX_V1A, Secrets, SignatureError, SignedAt, base64_digest, digest, hmac,
    sole,
};

/// Keys are handed over with and without their padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// A shorter key could be guessed.
const SHORTEST_KEY: usize = 16;
const LONGEST_ID: usize = 255;
const SECRET: &str = "whsec_";
const PUBLIC: &str = "whpk_";

/// A text that is no secret of Standard Webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not whsec_ and at least 16 bytes in base64, or whpk_ and a public key")]
pub struct NotAKey;

/// The three headers of a request.
pub struct StandardSignature<'a> {
    id: &'a [u8],
    signed_at: SignedAt<'a>,
    list: &'a [u8],
}

impl<'a> StandardSignature<'a> {
    pub fn read(
        signature: impl IntoIterator<Item = &'a [u8]>,
        id: impl IntoIterator<Item = &'a [u8]>,
        timestamp: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Self, SignatureError> {
        let (list, id, timestamp) = (sole(signature)?, sole(id)?, sole(timestamp)?);
        let is_id = (1..=LONGEST_ID).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic);
        let signed_at = SignedAt::parse(timestamp).filter(|_| is_id);
        let signature = StandardSignature {
            id,
            signed_at: signed_at.ok_or(SignatureError::Malformed)?,
            list,
        };
        let is_some = signature.hmacs().next().is_some() || signature.ed25519().next().is_some();
        is_some
            .then_some(signature)
            .ok_or(SignatureError::Malformed)
    }

    /// The index of the secret that matched. The age is checked after the signature and both
    /// ways; a tolerance of 0 turns it off.
    pub fn verify(
        &self,
        secrets: &Secrets,
        body: &[u8],
        now_unix_seconds: i64,
        tolerance_seconds: u64,
    ) -> Result<usize, SignatureError> {
        let message: [&[u8]; 5] = [self.id, b".", self.signed_at.text, b".", body];
        let mut given = [Digest::default(); MAX_V1];
        let mut count = 0;
        for (place, digest) in given.iter_mut().zip(self.hmacs()) {
            *place = digest;
            count += 1;
        }
        let matched = match secrets.matching(&message, &given[..count]) {
            Ok(matched) => matched,
            Err(mismatch) => secrets
                .matching_public(&message, &self.ed25519())
                .ok_or(mismatch)?,
        };
        self.signed_at.check(now_unix_seconds, tolerance_seconds)?;
        Ok(matched)
    }

    pub(super) fn digest(&self) -> Digest {
        let of_ed25519 = || {
            let mut digest = Digest::default();
            let signature = self.ed25519().next().unwrap_or([0; 64]);
            digest.copy_from_slice(&signature[..32]);
            digest
        };
        self.hmacs().next().unwrap_or_else(of_ed25519)
    }

    pub(super) fn signed_at(&self) -> u64 {
        self.signed_at.seconds
    }

    fn hmacs(&self) -> impl Iterator<Item = Digest> + use<'a> {
        let list = entries(self.list);
        list.filter_map(|entry| base64_digest(entry.strip_prefix(b"v1,")?))
    }

    fn ed25519(&self) -> impl Iterator<Item = [u8; 64]> + Clone + use<'a> {
        let list = entries(self.list).filter_map(|entry| {
            let text = entry.strip_prefix(b"v1a,")?;
            let mut bytes = [0; 66];
            let length = (text.len() == 88).then_some(text)?;
            let length = STANDARD.decode_slice(length, &mut bytes).ok()?;
            bytes[..length].try_into().ok()
        });
        list.take(MAX_V1A)
    }
}

fn entries(list: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    list.split(|&byte| byte == b' ')
}

pub(super) fn key(secret: &str) -> Result<Key, NotAKey> {
    if let Some(public) = secret.strip_prefix(PUBLIC) {
        let bytes = LENIENT.decode(public).map_err(|_| NotAKey)?;
        return bytes.try_into().map(Key::Public).map_err(|_| NotAKey);
    }
    let bytes = secret_key(secret).filter(|key| key.len() >= SHORTEST_KEY);
    bytes.map(|bytes| Key::Hmac(hmac(&bytes))).ok_or(NotAKey)
}

fn secret_key(secret: &str) -> Option<Vec<u8>> {
    LENIENT
        .decode(secret.strip_prefix(SECRET).unwrap_or(secret))
        .ok()
}

/// The value of `webhook-signature` for a body sent at `timestamp`, in Unix seconds. `None` when the
/// text is not a secret.
pub fn sign_standard(secret: &str, id: &str, timestamp: i64, body: &[u8]) -> Option<String> {
    Some(sign_with_key(&secret_key(secret)?, id, timestamp, body))
}

/// The same with the key that a secret holds in base64.
pub fn sign_with_key(key: &[u8], id: &str, timestamp: i64, body: &[u8]) -> String {
    let seconds = timestamp.to_string();
    let message: [&[u8]; 5] = [id.as_bytes(), b".", seconds.as_bytes(), b".", body];
    format!("v1,{}", STANDARD.encode(digest(hmac(key), &message)))
}
