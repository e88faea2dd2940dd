//! Which key derivation a keyslot uses and what it costs, and what is refused as absurd.

use core::fmt;

use atrest_codec::{Le, decode, encode};
use atrest_kdf::{CatenaCost, CatenaGraph, Hash};

/// Most hash calls that a derivation may take, about: minutes on a fast machine, days on a chip. A header that asks for more is
/// refused as an attack on our time.
pub const MAX_WORK: u64 = 1 << 32;

/// Most memory that Argon2id may ask for, in KiB.
const MAX_MEMORY_KIB: u32 = 4 << 20;
/// Most lanes.
const MAX_LANES: u32 = 64;

/// A key derivation. All of them use SHA-256, but Argon2id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KdfCost {
    /// PBKDF2-HMAC-SHA256 (RFC 8018).
    Pbkdf2 {
        /// Iterations.
        iterations: u32,
    },
    /// Catena with SHA-256.
    Catena(CatenaCost),
    /// Argon2id (RFC 9106).
    Argon2id {
        /// Passes over the memory.
        time: u32,
        /// KiB of memory.
        memory_kib: u32,
        /// Lanes.
        lanes: u32,
    },
}

/// Name and cost in a few words.
impl fmt::Display for KdfCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pbkdf2 { iterations } => write!(f, "pbkdf2 with {iterations} iterations"),
            Self::Catena(cost) => write!(f, "{} with garlic {}", cost.graph.name(), cost.garlic),
            Self::Argon2id { time, memory_kib, .. } => {
                write!(f, "argon2id with {time} passes over {memory_kib} KiB")
            }
        }
    }
}

impl KdfCost {
    /// Catena-BRG (Dragonfly) with the depth of its authors; a garlic of 12 takes 128 KiB.
    pub const fn catena(garlic: u8) -> Self {
        Self::Catena(CatenaCost::new(CatenaGraph::BitReversal, garlic))
    }

    /// What people call it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Pbkdf2 { .. } => "pbkdf2",
            Self::Catena(cost) => cost.graph.name(),
            Self::Argon2id { .. } => "argon2id",
        }
    }

    /// Hash calls, about; of Argon2id, blocks of a KiB that are computed.
    pub fn work(&self) -> u64 {
        match self {
            // cannot overflow: a number of 32 bits times 2.
            Self::Pbkdf2 { iterations } => u64::from(*iterations).saturating_mul(2),
            Self::Catena(cost) if cost.check().is_err() => u64::MAX,
            Self::Catena(cost) => cost.nodes(),
            Self::Argon2id { time, memory_kib, .. } => {
                // cannot overflow: two numbers of 32 bits.
                u64::from(*time).saturating_mul(u64::from(*memory_kib))
            }
        }
    }

    /// Bytes of work area.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::Pbkdf2 { .. } => 0,
            Self::Catena(cost) => cost.memory_bytes(Hash::Sha256),
            // cannot overflow: a number of 32 bits times 1024.
            Self::Argon2id { memory_kib, .. } => u64::from(*memory_kib).saturating_mul(1024),
        }
    }

    /// Whether it is defined, and not absurd.
    pub fn is_acceptable(&self) -> bool {
        let is_defined = match self {
            Self::Pbkdf2 { iterations } => *iterations > 0,
            Self::Catena(cost) => cost.check().is_ok(),
            Self::Argon2id { time, memory_kib, lanes } => {
                // intended: what overflows is more than MAX_LANES.
                let least = lanes.saturating_mul(8);
                *time > 0 && (1..=MAX_LANES).contains(lanes) && (least..=MAX_MEMORY_KIB).contains(memory_kib)
            }
        };
        is_defined && self.work() <= MAX_WORK
    }

    /// Number and cost, 13 bytes.
    pub(super) fn encode(&self) -> [u8; 13] {
        match self {
            Self::Pbkdf2 { iterations } => encode(([1], Le(*iterations), [0; 8])),
            Self::Catena(cost) => {
                let number = match cost.graph {
                    CatenaGraph::BitReversal => 2,
                    CatenaGraph::DoubleButterfly => 3,
                };
                encode(([number, cost.lambda, cost.min_garlic, cost.garlic], [0; 9]))
            }
            Self::Argon2id { time, memory_kib, lanes } => {
                encode(([4], Le(*time), Le(*memory_kib), Le(*lanes)))
            }
        }
    }

    /// None if the derivation is not known or bytes that it does not use are not zeros.
    pub(super) fn decode(bytes: &[u8; 13]) -> Option<Self> {
        let ([number], cost): ([u8; 1], [u8; 12]) = decode(bytes);
        let catena = |graph| {
            let ([lambda, min_garlic, garlic], zeros): ([u8; 3], [u8; 9]) = decode(&cost);
            (zeros == [0; 9]).then_some(Self::Catena(CatenaCost { graph, lambda, min_garlic, garlic }))
        };
        match number {
            1 => {
                let (Le(iterations), zeros): (Le<u32>, [u8; 8]) = decode(&cost);
                (zeros == [0; 8]).then_some(Self::Pbkdf2 { iterations })
            }
            2 => catena(CatenaGraph::BitReversal),
            3 => catena(CatenaGraph::DoubleButterfly),
            4 => {
                let (Le(time), Le(memory_kib), Le(lanes)) = decode(&cost);
                Some(Self::Argon2id { time, memory_kib, lanes })
            }
            _ => None,
        }
    }
}
