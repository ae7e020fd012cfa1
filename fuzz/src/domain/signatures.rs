//! Signatures of all schemes. A right one verifies within its tolerance, one with another byte does not, and of
//! headers that nobody signed only those verify that say what we would have signed.

use std::sync::LazyLock;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::signature::{
    PaymentSignature, Secrets, Signature, SignatureError, StandardSignature, StorefrontSignature,
    sign_payment, sign_standard, sign_storefront,
};

use super::input::Input;

const TEXTS: [&str; 2] = ["new secret", "old secret"];
const STANDARDS: [&str; 2] = [
    "whsec_MDEyMzQ1Njc4OWFiY2RlZg==",
    "whsec_ZmVkY2JhOTg3NjU0MzIxMA",
];
const TOLERANCES: [u64; 4] = [0, 300, 1, u64::MAX];

static PLAIN: LazyLock<Secrets> = LazyLock::new(|| Secrets::new(TEXTS.map(ToOwned::to_owned)));
static KEYS: LazyLock<Secrets> = LazyLock::new(|| {
    Secrets::standard(STANDARDS.map(ToOwned::to_owned)).expect("these are secrets")
});
static PAIR: LazyLock<Ed25519KeyPair> =
    LazyLock::new(|| Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a pair"));
static PUBLIC: LazyLock<Secrets> = LazyLock::new(|| {
    let key = format!("whpk_{}", STANDARD.encode(PAIR.public_key()));
    Secrets::standard([STANDARDS[0].to_owned(), key]).expect("a public key")
});

/// What changes one byte of a request: of which part, where, and which bits.
struct Change {
    part: u8,
    at: usize,
    bits: u8,
}

impl Change {
    fn read(input: &mut Input) -> Self {
        Change {
            part: input.byte(),
            at: usize::from(input.byte()) | usize::from(input.byte()) << 8,
            bits: input.byte(),
        }
    }

    /// The parts with the change, and the place of the change. `None`: nothing changes.
    fn of<const N: usize>(&self, parts: [&[u8]; N]) -> Option<([Vec<u8>; N], usize, usize)> {
        let mut parts = parts.map(<[u8]>::to_vec);
        let part = usize::from(self.part) % N;
        let length = parts[part].len();
        if self.bits == 0 || length == 0 {
            return None;
        }
        let at = self.at % length;
        parts[part][at] ^= self.bits;
        Some((parts, part, at))
    }
}

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    match input.byte() {
        0..64 => storefront(input),
        64..128 => payment(input),
        128..160 => standard(input),
        160..164 => public(input),
        164..180 => foreign_storefront(input.rest()),
        180..210 => foreign_standard(input),
        210.. => foreign_payment(input.rest()),
    }
}

fn storefront(mut input: Input) {
    let which = usize::from(input.byte() % 2);
    let change = Change::read(&mut input);
    let body = input.rest();
    let header = sign_storefront(TEXTS[which], body);
    let verify =
        |header: &[u8], body: &[u8]| StorefrontSignature::read([header])?.verify(&PLAIN, body);
    assert_eq!(verify(header.as_bytes(), body), Ok(which));
    if let Some(([header, body], ..)) = change.of([header.as_bytes(), body]) {
        assert!(verify(&header, &body).is_err());
    }
}

/// What a signature that is right comes to at an age.
fn verdict(which: usize, age: i64, tolerance: u64) -> Result<usize, SignatureError> {
    match tolerance {
        0 => Ok(which),
        _ if age.unsigned_abs() <= tolerance => Ok(which),
        _ if age > 0 => Err(SignatureError::Stale),
        _ => Err(SignatureError::Early),
    }
}

/// When it was signed, and how long ago that was.
fn times(input: &mut Input) -> (i64, i64) {
    let at = input.number().unsigned_abs() >> 2;
    (at.cast_signed(), input.number() >> 2)
}

fn payment(mut input: Input) {
    const DIGEST: usize = 64;
    let which = usize::from(input.byte() % 2);
    let tolerance = input.one_of(&TOLERANCES);
    let (at, age) = times(&mut input);
    let change = Change::read(&mut input);
    let body = input.rest();
    let header = sign_payment(TEXTS[which], at, body);
    let read = PaymentSignature::read([header.as_bytes()]).map(Signature::Timed);
    let signature = read.expect("a signature of ours");
    assert_eq!(signature.signed_at(), Some(at.unsigned_abs()));
    assert_eq!(
        signature.verify(&PLAIN, body, at + age, tolerance),
        verdict(which, age, tolerance)
    );
    if let Some(([changed, body], part, place)) = change.of([header.as_bytes(), body]) {
        let signature = PaymentSignature::read([&changed[..]]);
        let verified = signature.and_then(|it| it.verify(&PLAIN, &body, at, 0));
        // Digits of hex may be of either case.
        let is_other_case = part == 0
            && place >= header.len() - DIGEST
            && changed.eq_ignore_ascii_case(header.as_bytes());
        if is_other_case {
            assert_eq!(verified, Ok(which));
        } else {
            assert!(verified.is_err());
        }
    }
}

/// An id that the scheme allows.
fn id(input: &mut Input) -> String {
    let letters = input.bytes(40).iter();
    let id: String = letters.map(|it| char::from(b'!' + it % 94)).collect();
    format!("msg_{id}")
}

fn verify_standard(
    secrets: &Secrets,
    [list, id, at, body]: [&[u8]; 4],
    now: i64,
    tolerance: u64,
) -> Result<usize, SignatureError> {
    StandardSignature::read([list], [id], [at])?.verify(secrets, body, now, tolerance)
}

fn standard(mut input: Input) {
    let which = usize::from(input.byte() % 2);
    let tolerance = input.one_of(&TOLERANCES);
    let (at, age) = times(&mut input);
    let change = Change::read(&mut input);
    let id = id(&mut input);
    let body = input.rest();
    let list = sign_standard(STANDARDS[which], &id, at, body).expect("a secret");
    let seconds = at.to_string();
    let parts = [list.as_bytes(), id.as_bytes(), seconds.as_bytes(), body];
    assert_eq!(
        verify_standard(&KEYS, parts, at + age, tolerance),
        verdict(which, age, tolerance)
    );
    if let Some((changed, ..)) = change.of(parts) {
        let changed = changed.each_ref().map(Vec::as_slice);
        assert!(verify_standard(&KEYS, changed, at, 0).is_err());
    }
}

/// Signed with half of a pair.
fn public(mut input: Input) {
    let tolerance = input.one_of(&TOLERANCES);
    let (at, age) = times(&mut input);
    let change = Change::read(&mut input);
    let id = id(&mut input);
    let body = input.rest();
    let seconds = at.to_string();
    let message = [id.as_bytes(), b".", seconds.as_bytes(), b".", body].concat();
    let list = format!("v1a,{}", STANDARD.encode(PAIR.sign(&message)));
    let parts = [list.as_bytes(), id.as_bytes(), seconds.as_bytes(), body];
    assert_eq!(
        verify_standard(&PUBLIC, parts, at + age, tolerance),
        verdict(1, age, tolerance)
    );
    if let Some((changed, ..)) = change.of(parts) {
        let changed = changed.each_ref().map(Vec::as_slice);
        assert!(verify_standard(&PUBLIC, changed, at, 0).is_err());
    }
}

const BODY: &[u8] = b"{}";

fn foreign_storefront(header: &[u8]) {
    let verified = StorefrontSignature::read([header]).and_then(|it| it.verify(&PLAIN, BODY));
    if let Ok(which) = verified {
        assert_eq!(header, sign_storefront(TEXTS[which], BODY).as_bytes());
    }
}

/// Whether a list of a header has this element.
fn has(list: &[u8], element: &[u8], separator: u8) -> bool {
    let mut elements = list.split(|byte| *byte == separator);
    elements.any(|it| it.eq_ignore_ascii_case(element))
}

fn foreign_payment(header: &[u8]) {
    let Ok(signature) = PaymentSignature::read([header]).map(Signature::Timed) else {
        return;
    };
    let at = signature.signed_at().expect("a time is signed");
    let digest = hex::encode(signature.digest());
    assert!(has(header, format!("v1={digest}").as_bytes(), b','));
    let is_there = |sign: &str| has(header, format!("t={sign}{at}").as_bytes(), b',');
    assert!(is_there("") || is_there("+"));
    if let Ok(which) = signature.verify(&PLAIN, BODY, 0, 0) {
        let ours = sign_payment(TEXTS[which], at.cast_signed(), BODY);
        let (_, digest) = ours.split_once(',').expect("two elements");
        assert!(has(header, digest.as_bytes(), b','));
    }
}

fn foreign_standard(mut input: Input) {
    let (id, at, list) = (input.bytes(255), input.bytes(24), input.rest());
    let Ok(signature) = StandardSignature::read([list], [id], [at]).map(Signature::Standard) else {
        return;
    };
    assert!(!id.is_empty() && id.iter().all(u8::is_ascii_graphic));
    let seconds = signature.signed_at().expect("a time is signed");
    assert!(at == seconds.to_string().as_bytes() || at == format!("+{seconds}").as_bytes());
    if let Ok(which) = signature.verify(&KEYS, BODY, 0, 0) {
        let id = std::str::from_utf8(id).expect("visible ASCII");
        let ours = sign_standard(STANDARDS[which], id, seconds.cast_signed(), BODY);
        assert!(has(list, ours.expect("a secret").as_bytes(), b' '));
    }
}
