//! One level of Catena (the paper's flap): the memory is filled, mixed by the salt, and worked through row by row. All of
//! it happens in place, one node at a time, so that it can stop after any node.

use atrest_secret::wipe;
use digest::{Digest, Output};

use super::{CatenaGraph, mixed_nodes};
use crate::fixed::Digests;

/// A level under work.
pub struct Level<H: Digests> {
    graph: CatenaGraph,
    garlic: u8,
    /// Rows of the level after the first, and the number of the one under work.
    rows: u32,
    row: u32,
    phase: Phase,
    /// The next node of the phase or the row.
    next: usize,
    /// The two nodes before the first one, the older one first; then the last node that was computed in its place.
    before: [Output<H::Digest>; 2],
    random: XorShift,
}

enum Phase {
    Fill,
    Mix,
    Rows,
}

impl<H: Digests> Level<H> {
    /// Begins with `x`, and with the generator that the salt has seeded.
    pub fn new(graph: CatenaGraph, lambda: u8, garlic: u8, x: &[u8], random: XorShift) -> Self {
        Self {
            graph,
            garlic,
            rows: graph.rows(lambda, garlic),
            row: 0,
            phase: Phase::Fill,
            next: 0,
            before: [1, 0].map(|number| hashed::<H>(&[&[number], x])),
            random,
        }
    }

    fn nodes(&self) -> usize {
        1 << self.garlic
    }

    /// Computes one more node. True when it was the last one, which is then at the end of the memory's nodes.
    pub fn advance(&mut self, memory: &mut [u8]) -> bool {
        let node = self.next;
        self.next += 1;
        match self.phase {
            Phase::Fill => {
                let [older, last] = &self.before;
                let new = hashed::<H>(&[last, older]);
                place::<H>(memory, node).copy_from_slice(&new);
                self.before.swap(0, 1);
                self.before[1] = new;
                if self.next == self.nodes() {
                    (self.phase, self.next) = (Phase::Mix, 0);
                }
            }
            Phase::Mix => {
                // Both places come from the salt.
                let changed = self.random.below(self.garlic);
                let other = self.random.below(self.garlic);
                let mut new = hashed::<H>(&[at::<H>(memory, changed), at::<H>(memory, other)]);
                place::<H>(memory, changed).copy_from_slice(&new);
                wipe(&mut new);
                if self.next as u64 == mixed_nodes(self.garlic) {
                    (self.phase, self.next) = (Phase::Rows, 0);
                }
            }
            Phase::Rows => {
                match self.graph {
                    CatenaGraph::BitReversal => self.reversal_node(node, memory),
                    CatenaGraph::DoubleButterfly => self.butterfly_node(node, memory),
                }
                if self.next == self.nodes() {
                    (self.row, self.next) = (self.row + 1, 0);
                    return self.row == self.rows;
                }
            }
        }
        false
    }

    /// The bit-reversal graph: node i is made of the one before it and of node reverse(i) of the row above. Every other
    /// row is kept in reversed order, so that a node takes the place of the one it was made of.
    fn reversal_node(&mut self, node: usize, memory: &mut [u8]) {
        let reversed = self.row.is_multiple_of(2);
        let place_of = |node: usize| {
            if reversed { node.reverse_bits() >> (usize::BITS - u32::from(self.garlic)) } else { node }
        };
        let to = place_of(node);
        let mut new = if node == 0 {
            // The last node is in the last place in either order.
            first::<H>(at::<H>(memory, self.nodes() - 1), at::<H>(memory, 0))
        } else {
            hashed::<H>(&[at::<H>(memory, place_of(node - 1)), at::<H>(memory, to)])
        };
        place::<H>(memory, to).copy_from_slice(&new);
        wipe(&mut new);
    }

    /// The double-butterfly graph: node i is made of the one before it XOR node i of the row above, and of the node there
    /// whose number differs in one bit. Of two such nodes the lower one is overwritten first; it is kept behind the
    /// nodes until the upper one has been computed.
    fn butterfly_node(&mut self, node: usize, memory: &mut [u8]) {
        let nodes = self.nodes();
        let level = self.row % (2 * u32::from(self.garlic) - 1);
        let garlic = u32::from(self.garlic);
        let bit = 1usize << if level < garlic { garlic - 1 - level } else { level - (garlic - 1) };
        let kept = nodes + node % bit;
        let other = if node & bit == 0 { node | bit } else { kept };
        let before = if node == 0 { nodes - 1 } else { node - 1 };
        let mut sum = Output::<H::Digest>::default();
        for ((sum, a), b) in sum.iter_mut().zip(at::<H>(memory, before)).zip(at::<H>(memory, node)) {
            *sum = a ^ b;
        }
        let other = at::<H>(memory, other);
        let mut new = if node == 0 { first::<H>(&sum, other) } else { hashed::<H>(&[&sum, other]) };
        if node & bit == 0 {
            let len = node_len::<H>();
            memory.copy_within(node * len..(node + 1) * len, kept * len);
        }
        place::<H>(memory, node).copy_from_slice(&new);
        wipe(&mut sum);
        wipe(&mut new);
    }
}

impl<H: Digests> Drop for Level<H> {
    fn drop(&mut self) {
        self.before.iter_mut().for_each(|node| wipe(node));
    }
}

/// The first node of a row.
fn first<H: Digests>(a: &[u8], b: &[u8]) -> Output<H::Digest> {
    hashed::<H>(&[&[0], &hashed::<H>(&[a, b])])
}

/// The hash of all of these.
pub fn hashed<H: Digests>(parts: &[&[u8]]) -> Output<H::Digest> {
    let mut state = H::Digest::new();
    for part in parts {
        state.update(part);
    }
    state.finalize()
}

fn at<H: Digests>(memory: &[u8], node: usize) -> &[u8] {
    let len = node_len::<H>();
    &memory[node * len..(node + 1) * len]
}

fn place<H: Digests>(memory: &mut [u8], node: usize) -> &mut [u8] {
    let len = node_len::<H>();
    &mut memory[node * len..(node + 1) * len]
}

/// xorshift1024* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled"), seeded by the
/// salt: nothing secret.
#[derive(Clone)]
pub struct XorShift {
    state: [u64; 16],
    at: usize,
}

impl XorShift {
    /// From as many of H(salt), H(H(salt)) and so on as fill the state, little-endian.
    pub fn new<H: Digests>(salt: &[u8]) -> Self {
        let mut seed = [0u8; 128];
        let mut digest = hashed::<H>(&[salt]);
        for part in seed.chunks_mut(node_len::<H>()) {
            part.copy_from_slice(&digest[..part.len()]);
            digest = hashed::<H>(&[&digest]);
        }
        let mut state = [0; 16];
        for (word, bytes) in state.iter_mut().zip(seed.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Self { state, at: 0 }
    }

    /// The highest `bits` bits of the next number, at most 30.
    fn below(&mut self, bits: u8) -> usize {
        let old = self.state[self.at];
        self.at = (self.at + 1) % 16;
        let mut new = self.state[self.at];
        new ^= new << 31;
        new ^= new >> 11;
        new ^= old ^ old >> 30;
        self.state[self.at] = new;
        (new.wrapping_mul(1_181_783_497_276_652_981) >> (64 - u32::from(bits))) as usize
    }
}

/// Bytes of a node.
pub(super) fn node_len<H: Digests>() -> usize {
    <H::Digest as Digest>::output_size()
}
