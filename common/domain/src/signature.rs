//! Signatures of webhooks, which are verified over the raw bytes before anything is parsed.
//!
//! Pure: no clock, no I/O. The HMAC key schedule is computed once for each secret. Every secret
//! is tried and every comparison runs to its end, so the time of an answer does not show how much
//! of a signature was right.

mod standard;

use std::fmt;

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use strum::{IntoStaticStr, VariantArray};
use subtle::{Choice, ConstantTimeEq as _};

pub use standard::{NotAKey, StandardSignature, sign_standard, sign_with_key};

/// How many `v1` values of one payment header are compared. Later ones are ignored. Senders use
/// two while they replace a secret.
pub const MAX_V1: usize = 16;
/// The same of `v1a`, each of which costs a hundred times as much.
const MAX_V1A: usize = 3;

/// What is hashed with a secret for its fingerprint. No provider signs it, because it is no webhook.
const FINGERPRINT: &[u8] = b"waybill: fingerprint of a signing secret";

/// An HMAC-SHA256.
pub type Digest = [u8; 32];

/// How a provider signs what it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// One header holds the HMAC of the body in base64.
    Body,
    /// One header holds a time and HMACs of time and body in hex.
    Timed,
    /// Standard Webhooks: three headers hold an id, a time, and signatures of id, time and body.
    Standard,
}

/// The signature of a request, as its headers have it.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each request, on the stack; a box would allocate for each"
)]
pub enum Signature<'a> {
    Body(StorefrontSignature),
    Timed(PaymentSignature<'a>),
    Standard(StandardSignature<'a>),
}

impl Signature<'_> {
    /// The index of the secret that matched. The age counts only where a time is signed.
    pub fn verify(
        &self,
        secrets: &Secrets,
        body: &[u8],
        now_unix_seconds: i64,
        tolerance_seconds: u64,
    ) -> Result<usize, SignatureError> {
        match self {
            Signature::Body(signature) => signature.verify(secrets, body),
            Signature::Timed(signature) => {
                signature.verify(secrets, body, now_unix_seconds, tolerance_seconds)
            }
            Signature::Standard(signature) => {
                signature.verify(secrets, body, now_unix_seconds, tolerance_seconds)
            }
        }
    }

    /// What the verified deliveries of one body have in common: with a signed time, each
    /// delivery has its own.
    pub fn digest(&self) -> Digest {
        match self {
            Signature::Body(signature) => signature.digest(),
            Signature::Timed(PaymentSignature(header)) => header.digests[0],
            Signature::Standard(signature) => signature.digest(),
        }
    }

    /// When it was made, in Unix seconds, where a time is signed.
    pub fn signed_at(&self) -> Option<u64> {
        match self {
            Signature::Body(_) => None,
            Signature::Timed(PaymentSignature(header)) => Some(header.timestamp.seconds),
            Signature::Standard(signature) => Some(signature.signed_at()),
        }
    }
}

/// The signing secrets of one provider, the newest first. A signature with any of them is
/// accepted.
#[derive(Clone)]
pub struct Secrets {
    keys: Vec<Key>,
    fingerprints: Vec<String>,
}

#[derive(Clone)]
enum Key {
    Hmac(Hmac<Sha256>),
    /// Half of a pair, of which the provider has the other: Ed25519.
    Public([u8; 32]),
}

impl Secrets {
    /// A secret's text is the key as it stands: no decoding, no trimming, prefix included.
    ///
    /// # Panics
    ///
    /// When there is no secret, or when one is empty, because anyone can sign with an empty key.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let keys = secrets.into_iter().map(|secret| Key::Hmac(keyed(&secret)));
        Secrets::of(keys.collect())
    }

    /// The secrets of Standard Webhooks: `whsec_` and the key in base64, or `whpk_` and the public
    /// key.
    ///
    /// # Panics
    /// When there is no secret.
    pub fn standard(secrets: impl IntoIterator<Item = String>) -> Result<Self, NotAKey> {
        let keys = secrets.into_iter().map(|secret| standard::key(&secret));
        Ok(Secrets::of(keys.collect::<Result<_, _>>()?))
    }

    /// No secret, of a process that takes no deliveries: no signature is right.
    pub const fn none() -> Self {
        Secrets {
            keys: Vec::new(),
            fingerprints: Vec::new(),
        }
    }

    fn of(keys: Vec<Key>) -> Self {
        assert!(!keys.is_empty(), "at least one signing secret is needed");
        let fingerprint = |key: &Key| {
            let digest = match key {
                Key::Hmac(keyed) => digest(keyed.clone(), &[FINGERPRINT]),
                Key::Public(public) => digest(hmac(public), &[FINGERPRINT]),
            };
            hex::encode(&digest[..4])
        };
        let fingerprints = keys.iter().map(fingerprint).collect();
        Secrets { keys, fingerprints }
    }

    /// By which operators distinguish the secrets, in their sequence: 8 hexadecimal digits of a keyed hash. They are
    /// too few to confirm a secret that somebody has guessed.
    pub fn fingerprints(&self) -> &[String] {
        &self.fingerprints
    }

    /// The index of the first secret under which one of the `given` digests is the digest of
    /// `message`. The parts of the message are signed one after the other.
    fn matching(&self, message: &[&[u8]], given: &[Digest]) -> Result<usize, SignatureError> {
        let mut matched = None;
        for (index, key) in self.keys.iter().enumerate() {
            let Key::Hmac(keyed) = key else {
                continue;
            };
            let expected = digest(keyed.clone(), message);
            let hit = given.iter().fold(Choice::from(0), |hit, given| {
                hit | given.as_slice().ct_eq(expected.as_slice())
            });
            matched = matched.or(bool::from(hit).then_some(index));
        }
        matched.ok_or(SignatureError::Mismatch)
    }

    /// The index of the first public key that verifies one of the `given` signatures.
    fn matching_public(
        &self,
        message: &[&[u8]],
        given: &(impl Iterator<Item = [u8; 64]> + Clone),
    ) -> Option<usize> {
        let mut whole = None;
        self.keys.iter().enumerate().find_map(|(index, key)| {
            let Key::Public(public) = key else {
                return None;
            };
            let public = UnparsedPublicKey::new(&ED25519, public);
            let mut given = given.clone();
            given
                .any(|signature| {
                    let message = whole.get_or_insert_with(|| message.concat());
                    public.verify(message, &signature).is_ok()
                })
                .then_some(index)
        })
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({} hidden)", self.keys.len())
    }
}

/// Why a signature was refused. This is for the label of a metric; the sender gets the same 401
/// for every reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum SignatureError {
    /// The request has no signature header.
    Missing,
    /// The header does not have the form that the scheme requires.
    Malformed,
    /// The header came twice with different values, or named two different timestamps.
    Conflicting,
    /// No signature in the header is a signature of this body under any secret.
    Mismatch,
    /// The signature is right, but it is older than the tolerance allows.
    Stale,
    /// The signature is right, but its time is further in the future than the tolerance allows,
    /// so a clock is wrong.
    Early,
}

impl SignatureError {
    pub const ALL: [SignatureError; 6] = *SignatureError::VARIANTS.as_array().unwrap();
}

/// `X-Storefront-Hmac-Sha256`: the HMAC of the body in standard base64 with its padding, exactly
/// 44 characters. A header that cannot be a signature is refused before the body is read.
#[derive(Clone, Copy)]
pub struct StorefrontSignature(Digest);

impl StorefrontSignature {
    pub fn read<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, SignatureError> {
        let given = base64_digest(sole(values)?).ok_or(SignatureError::Malformed)?;
        Ok(StorefrontSignature(given))
    }

    /// The index of the secret that matched.
    pub fn verify(&self, secrets: &Secrets, body: &[u8]) -> Result<usize, SignatureError> {
        secrets.matching(&[body], &[self.0])
    }

    /// The digest of a verified signature. It identifies the body, because another body has
    /// another digest.
    pub fn digest(&self) -> Digest {
        self.0
    }
}

/// Verifies a body under the values of its header. Returns the index of the secret that matched.
pub fn storefront<'a>(
    secrets: &Secrets,
    header_values: impl IntoIterator<Item = &'a [u8]>,
    body: &[u8],
) -> Result<usize, SignatureError> {
    StorefrontSignature::read(header_values)?.verify(secrets, body)
}

/// `Payment-Signature`, `t=<unix seconds>,v1=<hex>[,v1=<hex>]..`: the HMAC of `<t>.<body>`.
pub struct PaymentSignature<'a>(PaymentHeader<'a>);

impl<'a> PaymentSignature<'a> {
    pub fn read(values: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, SignatureError> {
        PaymentHeader::parse(sole(values)?).map(PaymentSignature)
    }

    /// The index of the secret that matched. The age is checked after the signature, in both
    /// directions. A tolerance of 0 turns this check off.
    pub fn verify(
        &self,
        secrets: &Secrets,
        body: &[u8],
        now_unix_seconds: i64,
        tolerance_seconds: u64,
    ) -> Result<usize, SignatureError> {
        let PaymentSignature(header) = self;
        let message = [header.timestamp.text, b".", body];
        let matched = secrets.matching(&message, header.v1())?;
        header
            .timestamp
            .check(now_unix_seconds, tolerance_seconds)?;
        Ok(matched)
    }
}

/// Verifies a body under the values of its header. Returns the index of the secret that matched.
pub fn payment<'a>(
    secrets: &Secrets,
    header_values: impl IntoIterator<Item = &'a [u8]>,
    body: &[u8],
    now_unix_seconds: i64,
    tolerance_seconds: u64,
) -> Result<usize, SignatureError> {
    let signature = PaymentSignature::read(header_values)?;
    signature.verify(secrets, body, now_unix_seconds, tolerance_seconds)
}

/// The value of `X-Storefront-Hmac-Sha256` for a body.
pub fn sign_storefront(secret: &str, body: &[u8]) -> String {
    STANDARD.encode(digest(keyed(secret), &[body]))
}

/// The value of `Payment-Signature` for a body that is sent at `timestamp`, in Unix seconds.
pub fn sign_payment(secret: &str, timestamp: i64, body: &[u8]) -> String {
    let seconds = timestamp.to_string();
    let digest = digest(keyed(secret), &[seconds.as_bytes(), b".", body]);
    format!("t={seconds},v1={}", hex::encode(digest))
}

/// The one value of a header. A header that is repeated with another value is refused, because a
/// proxy in front of us could read it differently.
fn sole<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Result<&'a [u8], SignatureError> {
    let mut values = values.into_iter();
    let first = values.next().ok_or(SignatureError::Missing)?;
    if values.all(|value| value == first) {
        Ok(first)
    } else {
        Err(SignatureError::Conflicting)
    }
}

/// Decodes a digest. The base64 engine refuses other alphabets, missing padding, and unused bits
/// that are set.
fn base64_digest(text: &[u8]) -> Option<Digest> {
    let mut bytes = [0; 33];
    if text.len() != 44 {
        return None;
    }
    let length = STANDARD.decode_slice(text, &mut bytes).ok()?;
    bytes[..length].try_into().ok()
}

/// 64 hex digits of either case.
fn hex_digest(text: &[u8]) -> Option<Digest> {
    let mut digest = Digest::default();
    hex::decode_to_slice(text, &mut digest).ok()?;
    Some(digest)
}

/// The parts of a payment header that count. The header is split at commas, and each element is
/// one `key=value`. Keys must match exactly and nothing is trimmed. Unknown keys are ignored,
/// which includes `v0`, a decoy, and so is a `v1` that cannot be a digest.
struct PaymentHeader<'a> {
    timestamp: SignedAt<'a>,
    digests: [Digest; MAX_V1],
    count: usize,
}

impl<'a> PaymentHeader<'a> {
    fn parse(value: &'a [u8]) -> Result<Self, SignatureError> {
        let mut timestamp: Option<SignedAt> = None;
        let mut digests = [Digest::default(); MAX_V1];
        let mut count = 0;
        for element in value.split(|&byte| byte == b',') {
            match key_and_value(element).ok_or(SignatureError::Malformed)? {
                (b"t", text) => match &timestamp {
                    None => {
                        timestamp = Some(SignedAt::parse(text).ok_or(SignatureError::Malformed)?);
                    }
                    Some(first) if SignedAt::parse(text).as_ref() == Some(first) => {}
                    Some(_) => return Err(SignatureError::Conflicting),
                },
                (b"v1", text) if count < MAX_V1 => {
                    if let Some(digest) = hex_digest(text) {
                        digests[count] = digest;
                        count += 1;
                    }
                }
                _ => {}
            }
        }
        match timestamp {
            Some(timestamp) if count > 0 => Ok(PaymentHeader {
                timestamp,
                digests,
                count,
            }),
            _ => Err(SignatureError::Malformed),
        }
    }

    fn v1(&self) -> &[Digest] {
        &self.digests[..self.count]
    }
}

/// The `t` of a payment header. Its digits are part of the signed message, and its number tells
/// the age.
#[derive(PartialEq)]
struct SignedAt<'a> {
    text: &'a [u8],
    seconds: u64,
}

impl<'a> SignedAt<'a> {
    /// Reads 1 to 19 digits without a leading zero, so that one number has one text. A plus sign
    /// is allowed, because all of the provider's libraries allow it; only the digits are signed.
    fn parse(text: &'a [u8]) -> Option<Self> {
        let text = text.strip_prefix(b"+").unwrap_or(text);
        let fits = (1..=19).contains(&text.len())
            && text.iter().all(u8::is_ascii_digit)
            && (text[0] != b'0' || text.len() == 1);
        let seconds = str::from_utf8(text).ok()?.parse().ok()?;
        fits.then_some(SignedAt { text, seconds })
    }

    fn check(&self, now_unix_seconds: i64, tolerance_seconds: u64) -> Result<(), SignatureError> {
        let age = i128::from(now_unix_seconds) - i128::from(self.seconds);
        let tolerance = i128::from(tolerance_seconds);
        if tolerance > 0 && age > tolerance {
            Err(SignatureError::Stale)
        } else if tolerance > 0 && age < -tolerance {
            Err(SignatureError::Early)
        } else {
            Ok(())
        }
    }
}

fn key_and_value(element: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = element.split(|&byte| byte == b'=');
    match (parts.next()?, parts.next()?, parts.next()) {
        (key, value, None) if !key.is_empty() => Some((key, value)),
        _ => None,
    }
}

fn keyed(secret: &str) -> Hmac<Sha256> {
    assert!(!secret.is_empty(), "a signing secret is empty");
    hmac(secret.as_bytes())
}

fn hmac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

fn digest(mut keyed: Hmac<Sha256>, message: &[&[u8]]) -> Digest {
    for part in message {
        keyed.update(part);
    }
    keyed.finalize().into_bytes().into()
}
