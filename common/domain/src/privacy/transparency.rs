//! The audit as a transparency log, so that a third party can check it with programs of others: the entries are
//! the leaves of a Merkle tree (RFC 6962, section 2.1), its root is signed in a checkpoint
//! (<https://c2sp.org/tlog-checkpoint>, <https://c2sp.org/signed-note>), and a proof shows that an entry is in the
//! tree of a checkpoint (<https://c2sp.org/tlog-proof>).
//!
//! The tree is read from its first entry to its last, and only the roots of whole subtrees are kept, so it takes
//! no more memory for a million entries than for ten.

use std::fmt::Write as _;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::Keys;
use super::keys::verify;

pub type Hash = [u8; 32];

/// The byte that names Ed25519 in keys and signatures of notes.
const ED25519: u8 = 1;

fn leaf(entry: &[u8]) -> Hash {
    Sha256::new()
        .chain_update([0])
        .chain_update(entry)
        .finalize()
        .into()
}

fn node(left: &Hash, right: &Hash) -> Hash {
    let parts = Sha256::new().chain_update([1]).chain_update(left);
    parts.chain_update(right).finalize().into()
}

/// A tree of which only the roots of its largest whole subtrees are kept, the largest first.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    size: u64,
    roots: Vec<Hash>,
}

impl Tree {
    fn push(&mut self, leaf: Hash) {
        self.size += 1;
        let mut root = leaf;
        // As many subtrees are whole now as the size ends in zeros.
        for _ in 0..self.size.trailing_zeros() {
            if let Some(left) = self.roots.pop() {
                root = node(&left, &root);
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
            .reduce(|right, left| node(&left, &right))
            .unwrap_or_else(|| Sha256::digest([]).into())
    }
}

/// What a proof is made of: the subtrees whose roots it has, in its own sequence.
#[derive(Clone, Debug)]
pub struct Proof {
    parts: Vec<(Range<u64>, Tree)>,
}

/// The largest power of two below `size`, which is two or more: so many leaves has the left half.
fn half(size: u64) -> u64 {
    1 << (size - 1).ilog2()
}

impl Proof {
    /// That the leaf at `index`, counted from 0, is in a tree of this size (RFC 6962, section 2.1.1).
    pub fn inclusion(index: u64, size: u64) -> Self {
        let mut parts = Vec::new();
        let mut whole = 0..size;
        while whole.end - whole.start > 1 {
            let middle = whole.start + half(whole.end - whole.start);
            let (left, right) = (whole.start..middle, middle..whole.end);
            let (within, beside) = if index < middle {
                (left, right)
            } else {
                (right, left)
            };
            parts.push(beside);
            whole = within;
        }
        Proof::of(parts)
    }

    /// That a tree begins with the leaves of one of `before` (RFC 6962, section 2.1.2).
    pub fn consistency(before: u64, size: u64) -> Self {
        let mut parts = Vec::new();
        let mut whole = 0..size;
        // Whether the older tree is a whole subtree at the left edge, whose root the reader has.
        let mut is_known = true;
        while before != 0 && before != whole.end {
            let middle = whole.start + half(whole.end - whole.start);
            if before <= middle {
                parts.push(middle..whole.end);
                whole.end = middle;
            } else {
                parts.push(whole.start..middle);
                whole.start = middle;
                is_known = false;
            }
        }
        if !is_known {
            parts.push(whole);
        }
        Proof::of(parts)
    }

    /// The parts from the root to the leaf, which a proof has the other way round.
    fn of(parts: Vec<Range<u64>>) -> Self {
        let parts = parts.into_iter().rev();
        Proof {
            parts: parts.map(|range| (range, Tree::default())).collect(),
        }
    }

    fn push(&mut self, index: u64, leaf: Hash) {
        for (range, tree) in &mut self.parts {
            if range.contains(&index) {
                tree.push(leaf);
            }
        }
    }

    pub fn hashes(&self) -> Vec<Hash> {
        self.parts.iter().map(|(_, tree)| tree.root()).collect()
    }
}

/// Reads a tree from its first entry on, and makes a proof about it meanwhile.
#[derive(Clone, Debug)]
pub struct Reader {
    pub tree: Tree,
    pub proof: Option<Proof>,
}

impl Reader {
    pub fn new(proof: Option<Proof>) -> Self {
        Reader {
            tree: Tree::default(),
            proof,
        }
    }

    /// The next entry.
    pub fn push(&mut self, entry: &[u8]) {
        let leaf = leaf(entry);
        if let Some(proof) = &mut self.proof {
            proof.push(self.tree.size, leaf);
        }
        self.tree.push(leaf);
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
    let hash: Hash = name.chain_update(public).finalize().into();
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
    let text = format!(
        "{origin}\n{}\n{}\n",
        tree.size,
        STANDARD.encode(tree.root())
    );
    let public = keys.checkpoint_public();
    let signature = keys.sign_checkpoint(text.as_bytes());
    let signature = [&key_id(origin, &public)[..], &signature].concat();
    format!("{text}\n\u{2014} {origin} {}\n", STANDARD.encode(signature))
}

/// The size and the root that a checkpoint of ours says. None when it is not signed with our key.
pub fn opened(keys: &Keys, origin: &str, checkpoint: &str) -> Option<(u64, Hash)> {
    let (text, signatures) = checkpoint.rsplit_once("\n\n")?;
    let text = format!("{text}\n");
    let public = keys.checkpoint_public();
    let ours = format!("\u{2014} {origin} ");
    let is_ours = signatures.lines().any(|line| {
        let signature = line.strip_prefix(&ours);
        let signature = signature.and_then(|it| STANDARD.decode(it).ok());
        signature.is_some_and(|it| {
            it.strip_prefix(&key_id(origin, &public))
                .is_some_and(|signature| verify(&public, text.as_bytes(), signature))
        })
    });
    let mut lines = text.lines();
    let named = lines.next() == Some(origin);
    let size = lines.next()?.parse().ok()?;
    let root = STANDARD.decode(lines.next()?).ok()?.try_into().ok()?;
    (is_ours && named).then_some((size, root))
}

fn lines(hashes: &[Hash]) -> String {
    hashes.iter().fold(String::new(), |mut text, hash| {
        let _ = writeln!(text, "{}", STANDARD.encode(hash));
        text
    })
}

/// That an entry is in the tree of a checkpoint. The entry itself is its `extra`.
pub fn proof_text(entry: &[u8], index: u64, hashes: &[Hash], checkpoint: &str) -> String {
    format!(
        "c2sp.org/tlog-proof@v1\nextra {}\nindex {index}\n{}\n{checkpoint}",
        STANDARD.encode(entry),
        lines(hashes)
    )
}

/// What a witness is sent (<https://c2sp.org/tlog-witness>, `add-checkpoint`): a checkpoint, and that its tree begins
/// with the older one.
pub fn witness_text(before: u64, hashes: &[Hash], checkpoint: &str) -> String {
    format!("old {before}\n{}\n{checkpoint}", lines(hashes))
}
