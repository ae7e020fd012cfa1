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
    Agreement(&'a str),
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
            SubjectKey::Agreement(id) => ("pact", id.to_owned()),
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
