//! The hash tree of RFC 6962, over stored nodes: appending, inclusion and consistency proofs. Pure.

use crate::protocol::receipt::node_hash;
use crate::wire::{Digest, crypto};

/// Names the root of a perfect subtree: the one over the leaves `index << level` to `(index + 1) << level`,
/// exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    pub level: u8,
    pub index: u64,
}

impl NodeId {
    /// Names a leaf.
    pub fn leaf(index: u64) -> Self {
        Self { level: 0, index }
    }
}

/// A tree as far as appending needs it: its size and right edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    size: u64,
    /// Roots of the perfect subtrees, the largest first: one for each bit of the size.
    edge: Vec<Digest<32>>,
}

/// What appending one leaf made.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grown {
    /// The new nodes, the leaf first.
    pub nodes: Vec<(NodeId, Digest<32>)>,
    /// The inclusion proof of the leaf in the tree that it completed.
    pub proof: Vec<Digest<32>>,
}

impl Tree {
    /// Returns the tree of no leaves.
    pub fn empty() -> Self {
        Self { size: 0, edge: Vec::new() }
    }

    /// Takes a stored size and right edge, in the order of `edge_ids`.
    ///
    /// Errors: `None` unless there is one root for each bit of the size.
    pub fn of(size: u64, edge: Vec<Digest<32>>) -> Option<Self> {
        (u64::try_from(edge.len()).ok() == Some(u64::from(size.count_ones()))).then_some(Self { size, edge })
    }

    /// Returns the number of leaves.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the roots of the perfect subtrees, the largest first.
    pub fn edge(&self) -> &[Digest<32>] {
        &self.edge
    }

    /// Computes the root; that of the empty tree is the SHA-256 of nothing.
    ///
    /// Source: RFC 6962, section 2.1.
    pub fn root(&self) -> Digest<32> {
        fold(&self.edge).unwrap_or_else(|| crypto::sha256(&[]))
    }

    /// Appends a leaf hash.
    pub fn append(&mut self, leaf: Digest<32>) -> Grown {
        let proof = self.edge.iter().rev().copied().collect();
        let mut id = NodeId::leaf(self.size);
        let mut nodes = vec![(id, leaf)];
        let mut hash = leaf;
        // Each trailing one of the old size is a perfect subtree that the new leaf completes to a larger one.
        for _ in 0..self.size.trailing_ones() {
            let Some(left) = self.edge.pop() else { break };
            hash = node_hash(&left, &hash);
            id = NodeId { level: id.level + 1, index: id.index >> 1 };
            nodes.push((id, hash));
        }
        self.edge.push(hash);
        self.size += 1;
        Grown { nodes, proof }
    }
}

/// Names the right edge of a tree of `size` leaves, the largest subtree first.
pub fn edge_ids(size: u64) -> Vec<NodeId> {
    range(0, size)
}

/// A proof that is still to be read: which stored nodes make which of its hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan(Vec<Vec<NodeId>>);

impl Plan {
    /// Names the nodes to read, in the order that `proof` wants them in.
    pub fn ids(&self) -> Vec<NodeId> {
        self.0.iter().flatten().copied().collect()
    }

    /// Builds the proof from the nodes of `ids`.
    ///
    /// Errors: `None` for another number of nodes.
    pub fn proof(&self, nodes: &[Digest<32>]) -> Option<Vec<Digest<32>>> {
        let mut rest = nodes;
        let mut proof = Vec::with_capacity(self.0.len());
        for part in &self.0 {
            let (these, others) = rest.split_at_checked(part.len())?;
            proof.push(fold(these)?);
            rest = others;
        }
        rest.is_empty().then_some(proof)
    }
}

/// Plans the proof that a tree of `size` leaves holds the leaf at `index`.
///
/// Errors: `None` if there is no such leaf.
///
/// Source: RFC 6962, section 2.1.1.
pub fn inclusion(index: u64, size: u64) -> Option<Plan> {
    if index >= size {
        return None;
    }
    let (mut start, mut end, mut parts) = (0, size, Vec::new());
    while end - start > 1 {
        let middle = start + split(end - start);
        if index < middle {
            parts.push(range(middle, end));
            end = middle;
        } else {
            parts.push(range(start, middle));
            start = middle;
        }
    }
    parts.reverse();
    Some(Plan(parts))
}

/// Plans the proof that a tree of `size` leaves continues the one of `old` leaves.
///
/// Errors: `None` if `old` is larger.
///
/// Source: RFC 6962, section 2.1.2; an empty tree is continued by any other, with an empty proof.
pub fn consistency(old: u64, size: u64) -> Option<Plan> {
    if old > size {
        return None;
    }
    if old == 0 {
        return Some(Plan(Vec::new()));
    }
    let (mut start, mut end, mut parts) = (0, size, Vec::new());
    while old < end {
        let middle = start + split(end - start);
        if old <= middle {
            parts.push(range(middle, end));
            end = middle;
        } else {
            parts.push(range(start, middle));
            start = middle;
        }
    }
    if start > 0 {
        parts.push(range(start, end));
    }
    parts.reverse();
    Some(Plan(parts))
}

/// Computes the two roots that a consistency proof leads to, for the caller to compare with the two it knows.
///
/// Errors: `None` if the proof has the wrong length for these sizes.
///
/// Source: RFC 9162, section 2.1.4.2.
pub fn roots_from_consistency(
    old: u64,
    size: u64,
    old_root: &Digest<32>,
    proof: &[Digest<32>],
) -> Option<(Digest<32>, Digest<32>)> {
    if old == 0 || old > size {
        return None;
    }
    if old == size {
        return proof.is_empty().then_some((*old_root, *old_root));
    }
    let (mut node, mut last) = (old - 1, size - 1);
    while node & 1 == 1 {
        node >>= 1;
        last >>= 1;
    }
    // An old tree that is one perfect subtree is its own first hash.
    let (first, rest) = match node {
        0 => (old_root, proof),
        _ => proof.split_first()?,
    };
    let (mut old_hash, mut new_hash) = (*first, *first);
    for sibling in rest {
        if last == 0 {
            return None;
        }
        if node & 1 == 1 || node == last {
            old_hash = node_hash(sibling, &old_hash);
            new_hash = node_hash(sibling, &new_hash);
            while node & 1 == 0 && node != 0 {
                node >>= 1;
                last >>= 1;
            }
        } else {
            new_hash = node_hash(&new_hash, sibling);
        }
        node >>= 1;
        last >>= 1;
    }
    (last == 0).then_some((old_hash, new_hash))
}

/// Returns the largest power of two below `len`, which is at least 2.
fn split(len: u64) -> u64 {
    1 << (len - 1).ilog2()
}

/// Names the perfect subtrees that make up the leaves from `start` to `end`. `start` is a multiple of a power
/// of two that is at least their number, as it is for every range that the recursions of RFC 6962 speak of.
fn range(start: u64, end: u64) -> Vec<NodeId> {
    let mut ids = Vec::new();
    let mut at = start;
    while at < end {
        let level = (end - at).ilog2();
        // INVARIANT: the logarithm of a u64 is at most 63.
        ids.push(NodeId { level: u8::try_from(level).unwrap_or(63), index: at >> level });
        at += 1 << level;
    }
    ids
}

/// Computes the root over perfect subtrees, the largest first; `None` of none.
fn fold(roots: &[Digest<32>]) -> Option<Digest<32>> {
    let (last, others) = roots.split_last()?;
    Some(others.iter().rev().fold(*last, |hash, left| node_hash(left, &hash)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::protocol::receipt::root_from_proof;

    /// The plain recursions of RFC 6962, section 2.1.
    mod naive {
        use super::*;

        fn k(len: usize) -> usize {
            len.next_power_of_two() / 2
        }

        pub fn root(leaves: &[Digest<32>]) -> Digest<32> {
            match leaves {
                [] => crypto::sha256(&[]),
                [only] => *only,
                _ => node_hash(&root(&leaves[..k(leaves.len())]), &root(&leaves[k(leaves.len())..])),
            }
        }

        pub fn path(index: usize, leaves: &[Digest<32>]) -> Vec<Digest<32>> {
            if leaves.len() < 2 {
                return Vec::new();
            }
            let (left, right) = leaves.split_at(k(leaves.len()));
            let (mut path, other) = match index < left.len() {
                true => (path(index, left), root(right)),
                false => (path(index - left.len(), right), root(left)),
            };
            path.push(other);
            path
        }

        pub fn subproof(old: usize, leaves: &[Digest<32>], whole: bool) -> Vec<Digest<32>> {
            if old == leaves.len() {
                return if whole { Vec::new() } else { vec![root(leaves)] };
            }
            let (left, right) = leaves.split_at(k(leaves.len()));
            let (mut proof, other) = match old <= left.len() {
                true => (subproof(old, left, whole), root(right)),
                false => (subproof(old - left.len(), right, false), root(left)),
            };
            proof.push(other);
            proof
        }
    }

    fn leaves(count: u32) -> Vec<Digest<32>> {
        (0..count).map(|n| crypto::sha256(&[&n.to_be_bytes()])).collect()
    }

    /// All leaves appended one by one: the nodes stored, and the root after each.
    fn grown(leaves: &[Digest<32>]) -> (BTreeMap<NodeId, Digest<32>>, Vec<Digest<32>>) {
        let (mut tree, mut nodes, mut roots) = (Tree::empty(), BTreeMap::new(), vec![Tree::empty().root()]);
        for leaf in leaves {
            let size = tree.size() + 1;
            let grown = tree.append(*leaf);
            for (id, hash) in grown.nodes {
                assert!(nodes.insert(id, hash).is_none(), "a node is written once: {id:?}");
            }
            assert_eq!(root_from_proof(leaf, size - 1, size, &grown.proof), Some(tree.root()));
            let edge = edge_ids(size).iter().map(|id| nodes[id]).collect();
            assert_eq!(Tree::of(size, edge), Some(tree.clone()), "the edge can be read back");
            roots.push(tree.root());
        }
        (nodes, roots)
    }

    #[test]
    fn the_tree_equals_a_naive_twin() {
        let all = leaves(300);
        let (nodes, roots) = grown(&all);
        let read = |plan: &Plan| {
            let read: Vec<_> = plan.ids().iter().map(|id| nodes[id]).collect();
            plan.proof(&read).unwrap()
        };
        for (size, size_u64) in (0..=all.len()).zip(0u64..) {
            assert_eq!(roots[size], naive::root(&all[..size]), "root of {size}");
            // Every index of the small trees, a spread of the large ones.
            let step = if size <= 70 { 1 } else { 13 };
            for (index, index_u64) in (0..size).zip(0u64..).step_by(step) {
                let proof = read(&inclusion(index_u64, size_u64).unwrap());
                assert_eq!(proof, naive::path(index, &all[..size]), "path of {index} in {size}");
                assert_eq!(root_from_proof(&all[index], index_u64, size_u64, &proof), Some(roots[size]));
            }
            for (old, old_u64) in (1..=size).zip(1u64..).step_by(step) {
                let proof = read(&consistency(old_u64, size_u64).unwrap());
                assert_eq!(proof, naive::subproof(old, &all[..size], true), "{old} in {size}");
                let lead = roots_from_consistency(old_u64, size_u64, &roots[old], &proof);
                assert_eq!(lead, Some((roots[old], roots[size])), "{old} in {size}");
            }
        }
    }

    #[test]
    fn a_consistency_proof_of_another_tree_leads_elsewhere() {
        let all = leaves(23);
        let (nodes, roots) = grown(&all);
        for (old, old_u64) in (1..23usize).zip(1u64..) {
            let plan = consistency(old_u64, 23).unwrap();
            let read: Vec<_> = plan.ids().iter().map(|id| nodes[id]).collect();
            let proof = plan.proof(&read).unwrap();
            let lead = |old_root: &_, proof: &[_]| roots_from_consistency(old_u64, 23, old_root, proof);
            let good = Some((roots[old], roots[23]));
            assert_eq!(lead(&roots[old], &proof), good);
            for at in 0..proof.len() {
                let mut altered = proof.clone();
                altered[at] = crypto::sha256(&[altered[at].bytes()]);
                assert_ne!(lead(&roots[old], &altered), good, "{old}, hash {at}");
            }
            let mut long = proof.clone();
            long.push(all[0]);
            assert_eq!(lead(&roots[old], &long), None);
            assert_ne!(lead(&roots[old], &proof[1..]), good);
        }
    }

    #[test]
    fn what_lies_outside_has_no_plan() {
        assert_eq!(inclusion(0, 0), None);
        assert_eq!(inclusion(5, 5), None);
        assert!(inclusion(4, 5).is_some());
        assert_eq!(consistency(6, 5), None);
        assert_eq!(consistency(0, 5).map(|plan| plan.ids()), Some(Vec::new()));
        assert_eq!(consistency(5, 5).map(|plan| plan.ids()), Some(Vec::new()));
        assert_eq!(roots_from_consistency(0, 5, &crypto::sha256(&[]), &[]), None);
        let plan = inclusion(2, 5).unwrap();
        let nodes = leaves(u32::try_from(plan.ids().len()).unwrap() + 1);
        assert_eq!(plan.proof(&nodes), None);
        assert_eq!(plan.proof(&nodes[2..]), None);
        assert_eq!(Tree::of(5, nodes[..1].to_vec()), None);
        assert!(Tree::of(5, nodes[..2].to_vec()).is_some());
    }

    #[test]
    fn the_largest_tree_has_a_proof_too() {
        let size = u64::MAX;
        assert_eq!(inclusion(size - 1, size).unwrap().0.len(), 63);
        assert_eq!(inclusion(0, size).unwrap().0.len(), 64);
        assert_eq!(edge_ids(size).len(), 64);
    }
}
