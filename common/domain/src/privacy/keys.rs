//! Keyed hashes (HMAC-SHA256) of what identifies a person, of audit entries and of links, and the
//! signatures of receipts (Ed25519, RFC 8032). All are made from one secret, each for a purpose
//! of its own.

use std::fmt;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use uuid::Uuid;

use super::{Person, email, phone};

/// The secret from which tombstones, audit hashes, links and receipts are made. Debug does not
/// show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    secret: Vec<u8>,
}

/// What a tombstone stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubjectKey<'a> {
    Customer(i64),
    Order(i64),
    /// An order that a request names beside its customer. It counts as the customer's unless the
    /// order itself names another customer.
    GuestOrder(i64),
    /// An e-mail address in any spelling.
    Email(&'a str),
    /// A telephone number in any spelling.
    Phone(&'a str),
    /// An agreement, by which orders and payments find each other.
    Pact(&'a str),
    Payment(&'a str),
    /// A customer of the payment provider.
    Payer(&'a str),
    /// The whole shop.
    Shop,
}

/// Keyed hashes of the address and the telephone number by which a request named a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    pub email: Option<String>,
    pub phone: Option<String>,
}

impl Keys {
    pub fn new(secret: Vec<u8>) -> Self {
        Keys { secret }
    }

    /// The key of a tombstone in a shop. None for a telephone number that cannot be compared.
    pub fn subject(&self, shop: &str, key: SubjectKey<'_>) -> Option<Uuid> {
        let (kind, value) = match key {
            SubjectKey::Customer(id) => ("customer", id.to_string()),
            SubjectKey::Order(id) => ("order", id.to_string()),
            SubjectKey::GuestOrder(id) => ("guest_order", id.to_string()),
            SubjectKey::Email(text) => ("email", email(text)),
            SubjectKey::Phone(text) => ("phone", phone(text)?),
            SubjectKey::Pact(id) => ("pact", id.to_owned()),
            SubjectKey::Payment(id) => ("payment", id.to_owned()),
            SubjectKey::Payer(id) => ("payer", id.to_owned()),
            SubjectKey::Shop => ("shop", String::new()),
        };
        Some(self.short("subject", &[shop, kind, &value]))
    }

    /// A hash of a body, by which two deliveries of the same body are recognized.
    pub fn body(&self, body: &[u8]) -> Uuid {
        short(self.digest("body", &[body]))
    }

    /// A code for these parts that nobody without the secret can make. Codes for two purposes
    /// differ.
    pub fn code(&self, purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
        self.digest(purpose, parts)
    }

    /// Codes for the address and the telephone number that a request named, to be kept in its
    /// receipt. Somebody who has the receipt, the address or number, and this secret can see that
    /// they belong together. Without the secret nobody can find out the address or the number,
    /// not even by trying all telephone numbers.
    pub fn asked(&self, request: Uuid, person: &Person) -> Asked {
        let code = |kind: &str, value: String| {
            let parts = [
                request.as_bytes().as_slice(),
                kind.as_bytes(),
                value.as_bytes(),
            ];
            hex::encode(self.digest("asked", &parts))
        };
        let mail = person.email.as_deref().map(email);
        let number = person.phone.as_deref().and_then(phone);
        Asked {
            email: mail.map(|mail| code("email", mail)),
            phone: number.map(|number| code("phone", number)),
        }
    }

    /// The hash under which requests of a client's network are counted.
    pub fn client(&self, network: &str) -> [u8; 32] {
        self.digest("client", &[network.as_bytes()])
    }

    /// A hash by which a secret is recognized as the same without storing it.
    pub fn fingerprint(&self) -> [u8; 32] {
        self.digest("fingerprint", &[])
    }

    /// The Ed25519 signature of a receipt, 64 bytes.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair("receipt").sign(message).as_ref().to_vec()
    }

    /// The public key that verifies receipts, 32 bytes.
    pub fn public(&self) -> Vec<u8> {
        self.pair("receipt").public_key().as_ref().to_vec()
    }

    /// The Ed25519 signature of a checkpoint of the audit, 64 bytes.
    pub fn sign_checkpoint(&self, message: &[u8]) -> Vec<u8> {
        self.pair("checkpoint").sign(message).as_ref().to_vec()
    }

    /// The public key that verifies checkpoints, 32 bytes.
    pub fn checkpoint_public(&self) -> Vec<u8> {
        self.pair("checkpoint").public_key().as_ref().to_vec()
    }

    fn pair(&self, purpose: &str) -> Ed25519KeyPair {
        let seed = self.digest(purpose, &[]);
        Ed25519KeyPair::from_seed_unchecked(&seed).expect("a seed is 32 bytes")
    }

    fn short(&self, purpose: &str, parts: &[&str]) -> Uuid {
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        short(self.digest(purpose, &parts))
    }

    /// The HMAC of the purpose and the parts. Each part follows its length, so that two different
    /// lists of parts never become the same message.
    fn digest(&self, purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes keys of any length");
        for part in std::iter::once(purpose.as_bytes()).chain(parts.iter().copied()) {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }
}

/// True when the message was signed with the secret of this public key.
pub fn verify(public: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let public = UnparsedPublicKey::new(&ED25519, public);
    public.verify(message, signature).is_ok()
}

/// The first 128 bits of a digest.
fn short(digest: [u8; 32]) -> Uuid {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Uuid::from_bytes(bytes)
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_of_its_secret_shop_and_kind_alone() {
        let keys = Keys::new(vec![1; 32]);
        let one = keys.subject("a", SubjectKey::Customer(7));
        assert_eq!(one, keys.subject("a", SubjectKey::Customer(7)));
        for other in [
            keys.subject("b", SubjectKey::Customer(7)),
            keys.subject("a", SubjectKey::Order(7)),
            keys.subject("a", SubjectKey::Customer(8)),
            Keys::new(vec![2; 32]).subject("a", SubjectKey::Customer(7)),
        ] {
            assert_ne!(one, other);
        }
        let email = |text| keys.subject("a", SubjectKey::Email(text));
        assert_eq!(email("Ann@Example.com "), email("ann@example.com"));
        assert_eq!(keys.subject("a", SubjectKey::Phone("1-2")), None);
        assert_ne!(
            keys.code("x", &[b"ab", b"c"]),
            keys.code("x", &[b"a", b"bc"])
        );
    }

    /// Hashes that are stored must be found again by every later version. These were computed by a program of
    /// another language from the definition: HMAC-SHA256 of the purpose and the parts, each after its length in 8 bytes.
    #[test]
    fn the_hashes_that_are_stored_are_always_the_same() {
        let keys = Keys::new(vec![1; 32]);
        for (key, hash) in [
            (
                SubjectKey::Customer(7),
                "d98850cf-1478-98c3-950a-b3c2a42f9bfe",
            ),
            (SubjectKey::Order(7), "d3040981-ebda-97cc-05d9-3026a7c3a592"),
            (
                SubjectKey::GuestOrder(7),
                "eeb59a0c-4107-bb8d-449f-b9cb8e7d8365",
            ),
            (
                SubjectKey::Email(" Ann@X.example"),
                "5168920b-d107-c20f-3103-a207ad8b4429",
            ),
            (
                SubjectKey::Phone("+49 (0)30 1234567"),
                "53870471-6328-0849-20ef-6b32457485ba",
            ),
            (
                SubjectKey::Pact("p1"),
                "762eee24-bd32-9969-dcb3-12adad555634",
            ),
            (
                SubjectKey::Payment("pi_1"),
                "0d3076f5-085a-e8d8-d05c-21e44415808a",
            ),
            (
                SubjectKey::Payer("cus_1"),
                "4db68fef-2f4d-a93e-f63b-d9f24bec9264",
            ),
            (SubjectKey::Shop, "6c4e4ded-90a7-3321-cfd5-b98c816ca439"),
        ] {
            let found = keys.subject("a.example", key).unwrap();
            assert_eq!(found.to_string(), hash, "{key:?}");
        }
        let body = keys.body(b"{}").to_string();
        assert_eq!(body, "25cb4d99-ff8c-85ba-ed26-5e0ddbb5c8df");
        assert_eq!(
            hex::encode(keys.client("192.0.2.0/24")),
            "7275742789d720753ff23f0a3ae2d119a332f7030d28049c3fa7ad029bd940aa"
        );
        assert_eq!(
            hex::encode(keys.fingerprint()),
            "7091d234e7156d4445349108ae923b179372881392b85e1caff4bba908a8d8fb"
        );
        let ann = Person {
            id: Some(7),
            email: Some("Ann@X.example ".to_owned()),
            phone: Some("+49 30 1234567".to_owned()),
        };
        let asked = keys.asked(Uuid::nil(), &ann);
        assert_eq!(
            asked.email.as_deref(),
            Some("7a8f9a68769b88aa625fc71245cc6cdc99501fbdb83522c67f1080a06ca1d684")
        );
        assert_eq!(
            asked.phone.as_deref(),
            Some("c1460c23a6ceff1f5397c55e746a0b8ee05eb743e55969a02331cd8dbddcfb47")
        );
        assert_eq!(
            keys.asked(Uuid::nil(), &Person::default()),
            Asked::default()
        );
    }

    #[test]
    fn a_secret_is_never_shown() {
        assert_eq!(format!("{:?}", Keys::new(b"secret".to_vec())), "Keys");
    }

    #[test]
    fn a_receipt_is_verified_with_the_public_key_alone() {
        let keys = Keys::new(vec![1; 32]);
        let signature = keys.sign(b"done");
        assert!(verify(&keys.public(), b"done", &signature));
        assert!(!verify(&keys.public(), b"gone", &signature));
        let other = Keys::new(vec![2; 32]);
        assert!(!verify(&other.public(), b"done", &signature));
        assert!(!verify(b"no key", b"done", &signature));
    }
}
