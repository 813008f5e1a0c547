//! Receipts: a leaf of the audit log, its inclusion proof, and the checkpoint that the log key signed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::error::Error;
use super::head::{self, RequestHead};
use super::json;
use super::message::Bytes;
use super::role::{PinnedRoots, Role, RoleCertificate};
use crate::wire::transcript::Transcript;
use crate::wire::{Digest, UnixSeconds, crypto, limits};

/// The deepest proof: a log of 2^64 entries.
pub const PROOF_LEN_MAX: usize = 64;

/// A leaf: what the tree holds of an entry. Bodies and salts go to those whose role allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leaf {
    pub version: u32,
    pub time: UnixSeconds,
    /// Kind of the entry, for example `released` or `denied`.
    pub kind: String,
    /// SHA-256 of salt and canonical body.
    pub body: Digest<32>,
    /// `guest_part`, for an entry about a guest's request.
    pub guest: Option<Digest<32>>,
}

impl Leaf {
    /// Returns the RFC 6962 leaf hash.
    pub fn hash(&self) -> Digest<32> {
        let guest: &[u8] = match &self.guest {
            Some(digest) => digest.bytes(),
            None => &[],
        };
        let bytes = Transcript::new("claviger/v1/leaf")
            .number(u64::from(self.version))
            .field(&self.time.get().to_be_bytes())
            .field(self.kind.as_bytes())
            .field(self.body.bytes())
            .field(guest)
            .bytes();
        crypto::sha256(&[&[0], &bytes])
    }
}

/// Computes the guest's own part of a leaf, which makes a receipt prove *its* request and no other.
pub fn guest_part(
    salt: &[u8],
    challenge: &[u8],
    head_hash: &Digest<48>,
    outcome: &str,
    ciphertexts: &Digest<32>,
) -> Digest<32> {
    Transcript::new("claviger/v1/guest-part")
        .field(salt)
        .field(challenge)
        .field(head_hash.bytes())
        .field(outcome.as_bytes())
        .field(ciphertexts.bytes())
        .sha256()
}

/// Hashes the ciphertexts of a reply, in order; of none for a denial.
pub fn ciphertexts_digest<'c>(sealed: impl Iterator<Item = (&'c [u8], &'c [u8])>) -> Digest<32> {
    let mut transcript = Transcript::new("claviger/v1/ciphertexts");
    for (enc, ciphertext) in sealed {
        transcript = transcript.field(enc).field(ciphertext);
    }
    transcript.sha256()
}

/// Hashes two nodes as RFC 6962 does.
pub fn node_hash(left: &Digest<32>, right: &Digest<32>) -> Digest<32> {
    crypto::sha256(&[&[1], left.bytes(), right.bytes()])
}

/// Computes the root that a leaf at `index` of a tree of `size` leaves leads to.
///
/// Errors: `None` if the proof has the wrong length or the index lies outside.
///
/// Source: RFC 9162, section 2.1.3.2.
pub fn root_from_proof(leaf: &Digest<32>, index: u64, size: u64, proof: &[Digest<32>]) -> Option<Digest<32>> {
    if index >= size {
        return None;
    }
    let (mut node, mut last) = (index, size - 1);
    let mut hash = *leaf;
    for sibling in proof {
        if last == 0 {
            return None;
        }
        if node & 1 == 1 || node == last {
            hash = node_hash(sibling, &hash);
            while node & 1 == 0 && node != 0 {
                node >>= 1;
                last >>= 1;
            }
        } else {
            hash = node_hash(&hash, sibling);
        }
        node >>= 1;
        last >>= 1;
    }
    (last == 0).then_some(hash)
}

/// Head of the log: origin, size, root hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub origin: String,
    pub size: u64,
    pub root: Digest<32>,
}

impl Checkpoint {
    /// Returns the text of the note, as it is signed.
    ///
    /// Source: C2SP tlog-checkpoint.
    pub fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, STANDARD.encode(self.root.bytes()))
    }

    /// Writes the signed note; `signature` is over `text`.
    ///
    /// Source: C2SP signed-note; signature type 0x01 (Ed25519).
    pub fn note(&self, public_key: &[u8; 32], signature: &[u8; 64]) -> String {
        let hash = key_hash(&self.origin, public_key);
        let line = STANDARD.encode([&hash[..], signature].concat());
        format!("{}\n\u{2014} {} {line}\n", self.text(), self.origin)
    }

    /// Reads a signed note and verifies its signature by `public_key`, which must stand under the origin's name.
    /// Lines of other signers (witnesses) are passed over.
    ///
    /// Errors: `Receipt`.
    pub fn verified(note: &str, public_key: &[u8]) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Receipt { what: what.to_string() };
        if note.len() > 4096 {
            return Err(wrong("expected a checkpoint of at most 4096 bytes"));
        }
        let (text, signatures) =
            note.split_once("\n\n").ok_or_else(|| wrong("expected an empty line in the note"))?;
        let mut lines = text.split('\n');
        let (origin, size, root) = match (lines.next(), lines.next(), lines.next(), lines.next()) {
            (Some(origin), Some(size), Some(root), None) => (origin, size, root),
            _ => return Err(wrong("expected origin, size and root in the note")),
        };
        let decoded = STANDARD.decode(root).map_err(|_| wrong("expected base64 of the root"))?;
        let root = decoded.try_into().map_err(|_| wrong("expected a root of 32 bytes"))?;
        let checkpoint = Self {
            origin: origin.to_string(),
            size: size.parse().map_err(|_| wrong("expected a decimal size"))?,
            root: Digest::new(root),
        };
        if checkpoint.text().trim_end_matches('\n') != text {
            return Err(wrong("expected a canonical checkpoint"));
        }
        let hash = key_hash(origin, public_key);
        let found = signatures.lines().take(16).filter_map(|line| {
            let (name, encoded) = line.strip_prefix("\u{2014} ")?.split_once(' ')?;
            let bytes = STANDARD.decode(encoded).ok()?;
            (name == origin && bytes.starts_with(&hash)).then(|| bytes[4..].to_vec())
        });
        for signature in found {
            if crypto::verify_ed25519(public_key, checkpoint.text().as_bytes(), &signature).is_ok() {
                return Ok(checkpoint);
            }
        }
        Err(wrong("the log key did not sign the checkpoint"))
    }
}

fn key_hash(origin: &str, public_key: &[u8]) -> [u8; 4] {
    let digest = crypto::sha256(&[origin.as_bytes(), b"\n\x01", public_key]);
    let [a, b, c, d, ..] = *digest.bytes();
    [a, b, c, d]
}

/// What a guest gets of the log entry about its request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    pub leaf: Leaf,
    /// Opens the guest's part of the leaf.
    pub guest_salt: Bytes,
    pub index: u64,
    pub proof: Vec<Digest<32>>,
    /// C2SP signed note.
    pub checkpoint: String,
    pub log_key: RoleCertificate,
}

impl Receipt {
    /// Checks that the pinned log holds an entry about exactly this request and outcome.
    ///
    /// Errors: `Role` if the log key is not certified; `Receipt` for everything else.
    pub fn check(
        &self,
        pins: &PinnedRoots,
        now: UnixSeconds,
        challenge: &[u8],
        head_hash: &Digest<48>,
        outcome: &str,
        ciphertexts: &Digest<32>,
    ) -> Result<Checkpoint, Error> {
        let checkpoint = self.included(pins, now)?;
        let part = guest_part(&self.guest_salt.0, challenge, head_hash, outcome, ciphertexts);
        match self.leaf.guest == Some(part) {
            true => Ok(checkpoint),
            false => {
                Err(Error::Receipt { what: "the entry is about another request or outcome".to_string() })
            }
        }
    }

    /// Checks that the pinned log holds the entry, whatever it is about.
    fn included(&self, pins: &PinnedRoots, at: UnixSeconds) -> Result<Checkpoint, Error> {
        let wrong = |what: &str| Error::Receipt { what: what.to_string() };
        let key = pins.certified(&self.log_key, Role::Log, at)?;
        let checkpoint = Checkpoint::verified(&self.checkpoint, key)?;
        if checkpoint.origin != log_origin(pins) {
            return Err(wrong("the checkpoint is of another log"));
        }
        if self.proof.len() > PROOF_LEN_MAX {
            return Err(wrong("the proof is too long"));
        }
        let root = root_from_proof(&self.leaf.hash(), self.index, checkpoint.size, &self.proof);
        if root != Some(checkpoint.root) {
            return Err(wrong("the proof does not lead to the signed root"));
        }
        Ok(checkpoint)
    }
}

/// A receipt as the guest keeps it: with what it takes to check it later, offline. Holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptReceipt {
    schema: Schema,
    /// The challenge of the request.
    challenge: Bytes,
    /// The request head, verbatim: whose keys were asked for, and by which instance.
    head: Bytes,
    /// `ciphertexts_digest` of the reply.
    ciphertexts: Digest<32>,
    receipt: Receipt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Schema {
    #[serde(rename = "claviger.receipt/1")]
    V1,
}

/// What a kept receipt proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    /// What was asked for, as the guest asked.
    pub head: RequestHead,
    pub head_hash: Digest<48>,
    pub checkpoint: Checkpoint,
}

impl KeptReceipt {
    /// Keeps a receipt beside the request that it is about.
    pub fn of(receipt: Receipt, challenge: &[u8], head: &[u8], ciphertexts: Digest<32>) -> Self {
        let (challenge, head) = (Bytes(challenge.to_vec()), Bytes(head.to_vec()));
        Self { schema: Schema::V1, challenge, head, ciphertexts, receipt }
    }

    /// Reads the file of an agent.
    ///
    /// Errors: `Json`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        json::parse("receipt", bytes, limits::AGENT_FILE_LEN_MAX)
    }

    /// Writes the file.
    ///
    /// Errors: `Json`, never for a receipt that was parsed.
    pub fn bytes(&self) -> Result<Vec<u8>, Error> {
        json::canonical("receipt", self)
    }

    /// Returns the receipt itself.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Returns the challenge of the request.
    pub fn challenge(&self) -> &[u8] {
        &self.challenge.0
    }

    /// Checks, at any later time, that the pinned log holds the entry and that it is about this request.
    ///
    /// The log key must have been certified for the time of the entry: that its certificate has ended since takes
    /// nothing away.
    ///
    /// Errors: those of `Receipt::check`; `Json` for a head that is none; `Receipt` for one that names other roots.
    pub fn check(&self, pins: &PinnedRoots) -> Result<Proven, Error> {
        let head = RequestHead::parse(&self.head.0)?;
        let head_hash = head::head_hash(&self.head.0);
        let leaf = &self.receipt.leaf;
        let (challenge, kind) = (self.challenge(), leaf.kind.as_str());
        let checkpoint =
            self.receipt.check(pins, leaf.time, challenge, &head_hash, kind, &self.ciphertexts)?;
        match head.service_root == pins.id() {
            true => Ok(Proven { head, head_hash, checkpoint }),
            false => {
                Err(Error::Receipt { what: "the request names other roots than the pinned ones".to_string() })
            }
        }
    }
}

/// Returns the origin line of a store's log.
pub fn log_origin(pins: &PinnedRoots) -> String {
    format!("claviger/{}/{}", pins.mode.text(), pins.store)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::crypto::Ed25519Key;

    /// The plain recursion of RFC 6962, section 2.1.
    fn root(leaves: &[Digest<32>]) -> Digest<32> {
        match leaves {
            [] => crypto::sha256(&[]),
            [only] => *only,
            _ => {
                let k = leaves.len().next_power_of_two() / 2;
                node_hash(&root(&leaves[..k]), &root(&leaves[k..]))
            }
        }
    }

    fn path(index: usize, leaves: &[Digest<32>]) -> Vec<Digest<32>> {
        if leaves.len() < 2 {
            return Vec::new();
        }
        let k = leaves.len().next_power_of_two() / 2;
        let (mut path, other) = match index < k {
            true => (path(index, &leaves[..k]), root(&leaves[k..])),
            false => (path(index - k, &leaves[k..]), root(&leaves[..k])),
        };
        path.push(other);
        path
    }

    #[test]
    fn proofs_equal_the_plain_recursion_and_nothing_else_passes() {
        let leaves: Vec<_> = (0..20u8).map(|n| crypto::sha256(&[&[n]])).collect();
        for size in 1..=leaves.len() {
            let (tree, size_u64) = (&leaves[..size], u64::try_from(size).unwrap());
            for (index, index_u64) in (0..size).zip(0u64..) {
                let proof = path(index, tree);
                assert_eq!(root_from_proof(&tree[index], index_u64, size_u64, &proof), Some(root(tree)));
                let mut long = proof.clone();
                long.push(tree[0]);
                assert_ne!(root_from_proof(&tree[index], index_u64, size_u64, &long), Some(root(tree)));
                if size > 1 {
                    let other = (index + 1) % size;
                    assert_ne!(root_from_proof(&tree[other], index_u64, size_u64, &proof), Some(root(tree)));
                    assert_ne!(
                        root_from_proof(&tree[index], index_u64, size_u64, &proof[1..]),
                        Some(root(tree))
                    );
                }
            }
            assert_eq!(root_from_proof(&tree[0], size_u64, size_u64, &[]), None);
        }
    }

    #[test]
    fn a_checkpoint_verifies_under_its_key_alone() {
        let (key, other) = (Ed25519Key::generate().unwrap().0, Ed25519Key::generate().unwrap().0);
        let checkpoint =
            Checkpoint { origin: "claviger/real/00".to_string(), size: 3, root: crypto::sha256(&[b"x"]) };
        let note = checkpoint.note(&key.public(), &key.sign(checkpoint.text().as_bytes()));
        assert_eq!(Checkpoint::verified(&note, &key.public()), Ok(checkpoint));
        assert!(Checkpoint::verified(&note, &other.public()).is_err());
        for (from, to) in [("\n3\n", "\n4\n"), ("\n3\n", "\n03\n"), ("real", "fake"), ("\n\n", "\nx\n\n")] {
            let altered = note.replacen(from, to, 1);
            assert_ne!(altered, note);
            assert!(Checkpoint::verified(&altered, &key.public()).is_err(), "{to:?}");
        }
    }
}
