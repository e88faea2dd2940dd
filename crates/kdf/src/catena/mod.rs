//! Catena (Forler, Lucks, Wenzel, "Catena: A Memory-Consuming Password-Scrambling Framework", version 3), in memory that
//! the caller gives.
//!
//! What is here are the instances Dragonfly-Full (the bit-reversal graph) and Butterfly-Full (the double-butterfly
//! graph), in which H' is H, over any [`Hash`]. Which memory is touched when depends on the salt alone, never on the
//! passphrase. Where the paper leaves room, this follows the authors' reference implementation:
//!
//! * The two nodes before the first are H(1 ‖ x) and H(0 ‖ x), in this order.
//! * The first node of each row is H(0 ‖ H(...)), the others are H(...).
//! * Lengths in the tweak are one byte each; x is set to zeros behind the output's length after each level.
//!
//! The paper's generator of the salt-dependent layer takes 128 bytes of seed, H(salt) ‖ H(H(salt)), which a hash of 64
//! bytes yields. For shorter hashes the chain goes on until there are 128 bytes; that is our choice.

#[cfg(feature = "catena")]
mod graph;
#[cfg(feature = "catena")]
mod steps;

use crate::{CostParameter, Hash, KdfError};

#[cfg(feature = "catena")]
pub use steps::{Catena, catena, catena_update};

/// Which graph the memory is worked through by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatenaGraph {
    /// Catena-BRG, Dragonfly: the bit-reversal graph. It needs least time for its memory.
    BitReversal,
    /// Catena-DBG, Butterfly: the double-butterfly graph. It takes 2 garlic - 1 rows for each one of Dragonfly, and the
    /// proof that less memory costs more time is stronger.
    DoubleButterfly,
}

impl CatenaGraph {
    /// `catena-brg` or `catena-dbg`.
    pub const fn name(self) -> &'static str {
        match self {
            CatenaGraph::BitReversal => "catena-brg",
            CatenaGraph::DoubleButterfly => "catena-dbg",
        }
    }

    /// What the tweak begins with.
    #[cfg(feature = "catena")]
    const fn version(self) -> &'static str {
        match self {
            CatenaGraph::BitReversal => "Dragonfly-Full",
            CatenaGraph::DoubleButterfly => "Butterfly-Full",
        }
    }

    /// Rows at this garlic, after the first.
    const fn rows(self, lambda: u8, garlic: u8) -> u32 {
        match self {
            CatenaGraph::BitReversal => lambda as u32,
            CatenaGraph::DoubleButterfly => lambda as u32 * (2 * garlic as u32 - 1),
        }
    }
}

/// How much work one derivation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatenaCost {
    /// Which instance.
    pub graph: CatenaGraph,
    /// Depth: how often the graph is worked through, at least once.
    pub lambda: u8,
    /// log2 of the nodes at the first level.
    pub min_garlic: u8,
    /// log2 of the nodes at the last level. Each level from the first on is computed.
    pub garlic: u8,
}

impl CatenaCost {
    /// Largest garlic that is accepted.
    pub const MAX_GARLIC: u8 = 30;

    /// The usual form: one level, with Dragonfly's and Butterfly's own depth.
    pub const fn new(graph: CatenaGraph, garlic: u8) -> Self {
        let lambda = match graph {
            CatenaGraph::BitReversal => 2,
            CatenaGraph::DoubleButterfly => 4,
        };
        Self { graph, lambda, min_garlic: garlic, garlic }
    }

    /// Whether all of these are defined and accepted.
    ///
    /// # Errors
    /// [`KdfError::CostOutOfRange`] if lambda or a garlic is zero, a garlic is larger than
    /// [`CatenaCost::MAX_GARLIC`], or the first level's is larger than the last one's.
    pub fn check(&self) -> Result<(), KdfError> {
        let range = |parameter, value: u8, min: u8, max: u8| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(KdfError::CostOutOfRange {
                    parameter,
                    value: value.into(),
                    min: min.into(),
                    max: max.into(),
                })
            }
        };
        range(CostParameter::Lambda, self.lambda, 1, u8::MAX)?;
        range(CostParameter::Garlic, self.garlic, 1, Self::MAX_GARLIC)?;
        range(CostParameter::MinGarlic, self.min_garlic, 1, self.garlic)
    }

    /// Bytes of the work area: a digest for each node, and half as many again for the double-butterfly graph.
    pub fn memory_bytes(&self, hash: Hash) -> u64 {
        // intended: what overflows is more memory than is accepted.
        let nodes = 1u64.checked_shl(self.garlic.into()).unwrap_or(u64::MAX);
        let spare = match self.graph {
            CatenaGraph::BitReversal => 0,
            CatenaGraph::DoubleButterfly => nodes / 2,
        };
        // intended: what overflows is more memory than is accepted.
        nodes.saturating_add(spare).saturating_mul(hash.output_len() as u64)
    }

    /// Nodes that are computed, which is the work: one hash of two digests each, and one more at the start of a row.
    pub fn nodes(&self) -> u64 {
        let first = self.min_garlic.div_ceil(2);
        let levels = core::iter::once(first).chain(self.min_garlic..=self.garlic);
        // intended: what overflows is more work than is accepted.
        levels.map(|garlic| level_nodes(self.graph, self.lambda, garlic)).fold(0, u64::saturating_add)
    }
}

/// What a derivation is for. It is part of the tweak, so that one purpose's results say nothing about another's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatenaDomain {
    /// Password hashing, as in the published vectors.
    #[default]
    PasswordScrambling,
    /// Key derivation.
    KeyDerivation,
}

/// What a key is derived from.
#[derive(Clone, Copy, Default)]
pub struct CatenaInput<'a> {
    /// The purpose.
    pub domain: CatenaDomain,
    /// The passphrase, of any length.
    pub passphrase: &'a [u8],
    /// The salt, of at most 255 bytes.
    pub salt: &'a [u8],
    /// Associated data: whatever else the result should depend on.
    pub data: &'a [u8],
}

/// Nodes that one level computes.
fn level_nodes(graph: CatenaGraph, lambda: u8, garlic: u8) -> u64 {
    let row = 1u64 << garlic;
    row + mixed_nodes(garlic) + row * u64::from(graph.rows(lambda, garlic))
}

/// Nodes of the salt-dependent layer: 2^(3/4 garlic), the exponent rounded up.
fn mixed_nodes(garlic: u8) -> u64 {
    1 << (3 * u32::from(garlic)).div_ceil(4)
}
