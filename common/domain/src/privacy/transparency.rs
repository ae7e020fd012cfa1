//! The audit as a transparency log. Its entries are the leaves of a Merkle tree (RFC 6962, section 2.1), so a third
//! party checks it with programs of others: the root is signed in a checkpoint (<https://c2sp.org/tlog-checkpoint>,
//! <https://c2sp.org/signed-note>), and a proof shows that an entry is in the tree of a checkpoint
//! (<https://c2sp.org/tlog-proof>). The hashes and proofs are made by the crate `tlog_tiles`. The signature is made
//! here, because the crate `signed_note` would bring a second implementation of Ed25519; the tests verify with it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use tlog_tiles::{
    EMPTY_HASH, Error, HASH_SIZE, HashReader, node_hash, prove_record, stored_hashes,
};
pub use tlog_tiles::{Hash, record_hash};

use super::Keys;

/// The byte that names Ed25519 in keys and signatures of notes.
const ED25519: u8 = 1;

/// A tree of which only the roots of its largest whole subtrees are kept, the largest first. So it takes no more
/// memory for a million entries than for ten, and a leaf more costs a hash or two.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    size: u64,
    roots: Vec<Hash>,
}

impl Tree {
    /// The tree of these [`Self::bytes`]. None if so many leaves have another number of roots.
    pub fn read(size: u64, bytes: &[u8]) -> Option<Self> {
        let (roots, rest) = bytes.as_chunks::<HASH_SIZE>();
        let is_right = rest.is_empty() && roots.len() == size.count_ones() as usize;
        let roots = roots.iter().copied().map(Hash).collect();
        is_right.then_some(Tree { size, roots })
    }

    /// A tree that no leaves have.
    pub fn unknown(size: u64) -> Self {
        let roots = vec![Hash::default(); size.count_ones() as usize];
        Tree { size, roots }
    }

    pub fn push(&mut self, leaf: Hash) {
        self.size += 1;
        let mut root = leaf;
        // As many subtrees are whole now as the size ends in zeros.
        for _ in 0..self.size.trailing_zeros() {
            if let Some(left) = self.roots.pop() {
                root = node_hash(left, root);
            }
        }
        self.roots.push(root);
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn root(&self) -> Hash {
        let roots = self.roots.iter().rev().copied();
        roots
            .reduce(|right, left| node_hash(left, right))
            .unwrap_or(EMPTY_HASH)
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.roots.iter().flat_map(|root| root.0).collect()
    }

    /// The index of the first leaf of the first whole subtree that another tree of this size has differently.
    pub fn first_difference(&self, other: &Self) -> Option<u64> {
        let mut roots = self.roots.iter().zip(&other.roots);
        let place = roots.position(|(own, others)| own != others)?;
        let rest = (0..place).fold(self.size, |rest, _| rest ^ (1 << rest.ilog2()));
        Some(self.size - rest)
    }
}

/// All hashes of a tree in the sequence of `tlog_tiles`, about 64 bytes for each entry. Proofs are made of them.
#[derive(Default)]
pub struct Hashes {
    entries: u64,
    stored: Vec<Hash>,
}

impl HashReader for Hashes {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, Error> {
        let hash = |index: &u64| self.stored.get(usize::try_from(*index).ok()?).copied();
        let hashes: Option<Vec<Hash>> = indexes.iter().map(hash).collect();
        hashes.ok_or(Error::IndexesNotInTree)
    }
}

impl Hashes {
    pub fn push(&mut self, entry: &[u8]) -> Result<(), Error> {
        let new = stored_hashes(self.entries, entry, self)?;
        self.stored.extend(new);
        self.entries += 1;
        Ok(())
    }

    /// The proof (tlog-proof) that the entry at this index, counted from 0, is in the tree of the checkpoint of all
    /// entries. The entry itself is its `extra`.
    pub fn proof(&self, entry: &[u8], index: u64, checkpoint: &str) -> Result<String, Error> {
        let hashes = prove_record(self.entries, index, self)?;
        let mut lines = vec![
            "c2sp.org/tlog-proof@v1".to_owned(),
            format!("extra {}", STANDARD.encode(entry)),
            format!("index {index}"),
        ];
        lines.extend(hashes.iter().map(Hash::to_string));
        Ok(format!("{}\n\n{checkpoint}", lines.join("\n")))
    }
}

/// The name of a log and of its key: the address of the service without its scheme, and `/audit`.
pub fn origin(public_url: &str) -> String {
    let address = public_url
        .split_once("://")
        .map_or(public_url, |(_, it)| it);
    format!("{}/audit", address.trim_end_matches('/'))
}

/// Whether a text can be the name of a log (`signed-note`, "Format").
pub fn is_origin(text: &str) -> bool {
    let is_wrong = |it: char| it.is_whitespace() || it.is_control() || it == '+';
    !text.is_empty() && text.len() <= 255 && !text.contains(is_wrong)
}

fn key_id(origin: &str, public: &[u8]) -> [u8; 4] {
    let name = Sha256::new()
        .chain_update(origin)
        .chain_update([b'\n', ED25519]);
    let hash: [u8; HASH_SIZE] = name.chain_update(public).finalize().into();
    [hash[0], hash[1], hash[2], hash[3]]
}

/// The public key of a log in the form that verifiers of notes take.
pub fn verifier_key(keys: &Keys, origin: &str) -> String {
    let public = keys.checkpoint_public();
    let id = hex::encode(key_id(origin, &public));
    let key = [&[ED25519][..], &public].concat();
    format!("{origin}+{id}+{}", STANDARD.encode(key))
}

/// The signed root of a tree.
pub fn checkpoint(keys: &Keys, origin: &str, tree: &Tree) -> String {
    let text = format!("{origin}\n{}\n{}\n", tree.size, tree.root());
    let public = keys.checkpoint_public();
    let signature = keys.sign_checkpoint(text.as_bytes());
    let signature = [&key_id(origin, &public)[..], &signature].concat();
    format!("{text}\n\u{2014} {origin} {}\n", STANDARD.encode(signature))
}
