//! What a derivation costs whom: a microcontroller, and somebody who guesses. docs/KDF.md states the model, its sources
//! and what follows from it.

use atrest_kdf::{CatenaCost, CatenaGraph, Hash};

/// A key derivation that yields a key of 32 bytes.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// PBKDF2-HMAC-SHA256.
    Pbkdf2 {
        /// Iterations.
        iterations: u32,
    },
    /// Catena over SHA-256.
    Catena(CatenaCost),
    /// Argon2id with one lane.
    Argon2id {
        /// KiB of memory.
        memory_kib: u32,
        /// Passes over it.
        time: u32,
    },
    /// scrypt with p = 1.
    Scrypt {
        /// log2 of N.
        log_n: u8,
        /// Block size.
        r: u32,
    },
}

/// Settings worth comparing: what a chip can afford, what a desk can, and the article's 128 KiB.
pub const SETTINGS: [Setting; 10] = [
    Setting::Pbkdf2 { iterations: 1_000 },
    Setting::Pbkdf2 { iterations: 13_000 },
    Setting::Pbkdf2 { iterations: 100_000 },
    Setting::Pbkdf2 { iterations: 2_000_000 },
    Setting::Catena(CatenaCost::new(CatenaGraph::BitReversal, 10)),
    Setting::Catena(CatenaCost::new(CatenaGraph::BitReversal, 12)),
    Setting::Catena(CatenaCost::new(CatenaGraph::BitReversal, 15)),
    Setting::Catena(CatenaCost::new(CatenaGraph::DoubleButterfly, 11)),
    Setting::Scrypt { log_n: 14, r: 8 },
    Setting::Argon2id { memory_kib: 64 << 10, time: 4 },
];

/// A microcontroller whose instructions were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    /// Its name.
    pub name: &'static str,
    /// Instructions of an iteration of PBKDF2-HMAC-SHA256.
    pub pbkdf2_iteration: u64,
    /// Instructions of a node of Catena-BRG over SHA-256, on the average of a whole derivation.
    pub brg_node: u64,
    /// Instructions of a node of Catena-DBG over SHA-256, on the average of a whole derivation.
    pub dbg_node: u64,
}

/// Counted in QEMU, speed build. `tests/it/chips.rs` counts whole derivations again.
pub const CHIPS: [Chip; 2] = [
    Chip { name: "Cortex-M4", pbkdf2_iteration: 4876, brg_node: 5501, dbg_node: 5749 },
    Chip { name: "RV32IMC", pbkdf2_iteration: 8649, brg_node: 9523, dbg_node: 9707 },
];

/// A graphics card, as its maker and its users' measurements describe it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpu {
    /// Its name.
    pub name: &'static str,
    /// Compressions of SHA-256 a second.
    pub sha256: f64,
    /// Bytes a second to and from its memory.
    pub bandwidth: f64,
    /// Bytes of memory.
    pub memory: f64,
}

/// NVIDIA's GeForce RTX 4090: hashcat 6.2.6 tries 21.98 G SHA-256 a second on it (mode 1400; 8.87 M of PBKDF2 with 999
/// iterations, mode 10900, are 17.7 G compressions, 81 % of that), by the benchmark that docs/KDF.md names; 1008 GB/s are 384 bits at 21
/// Gbit/s, 24 GB the data sheet's.
pub const RTX_4090: Gpu = Gpu { name: "RTX 4090", sha256: 21.98e9, bandwidth: 1008e9, memory: 24e9 };

/// What bounds the guesses of a [`Gpu`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// How much it computes.
    Compute,
    /// How fast its memory is.
    Bandwidth,
}

impl Bound {
    /// `compute` or `bandwidth`.
    pub const fn name(self) -> &'static str {
        match self {
            Bound::Compute => "compute",
            Bound::Bandwidth => "bandwidth",
        }
    }
}

impl Setting {
    /// Bytes of the work area.
    pub fn memory(&self) -> u64 {
        match self {
            Setting::Pbkdf2 { .. } => 0,
            Setting::Catena(cost) => cost.memory_bytes(Hash::Sha256),
            Setting::Argon2id { memory_kib, .. } => u64::from(*memory_kib) << 10,
            Setting::Scrypt { log_n, r } => (128 * u64::from(*r)) << log_n,
        }
    }

    /// Compressions of SHA-256. What Argon2 and scrypt compute is something else, and is not counted: their memory
    /// bounds whoever guesses.
    pub fn compressions(&self) -> u64 {
        match self {
            Setting::Pbkdf2 { iterations } => 2 * u64::from(*iterations),
            // Two digests fill a block; the padding is another.
            Setting::Catena(cost) => 2 * cost.nodes(),
            Setting::Argon2id { .. } | Setting::Scrypt { .. } => 0,
        }
    }

    /// Bytes read and written in the work area, if nothing of it is kept nearer.
    pub fn traffic(&self) -> u64 {
        match self {
            Setting::Pbkdf2 { .. } => 0,
            // A node is read from two, one of which has just been computed, and written.
            Setting::Catena(cost) => 2 * 32 * cost.nodes(),
            // Likewise with blocks of 1 KiB; later passes also read what they overwrite.
            Setting::Argon2id { time, .. } => self.memory() * (3 * u64::from(*time) - 1),
            // Written once, read once.
            Setting::Scrypt { .. } => 2 * self.memory(),
        }
    }

    /// Instructions on a microcontroller; none where it lacks the memory by far.
    pub fn instructions(&self, chip: &Chip) -> Option<u64> {
        match self {
            Setting::Pbkdf2 { iterations } => Some(u64::from(*iterations) * chip.pbkdf2_iteration),
            Setting::Catena(cost) => Some(
                cost.nodes()
                    * match cost.graph {
                        CatenaGraph::BitReversal => chip.brg_node,
                        CatenaGraph::DoubleButterfly => chip.dbg_node,
                    },
            ),
            Setting::Argon2id { .. } | Setting::Scrypt { .. } => None,
        }
    }

    /// Guesses a second on a graphics card that does nothing else, at most, and what bounds them.
    pub fn guesses(&self, gpu: &Gpu) -> (f64, Bound) {
        let compute = gpu.sha256 / self.compressions() as f64;
        let bandwidth = gpu.bandwidth / self.traffic() as f64;
        if compute <= bandwidth { (compute, Bound::Compute) } else { (bandwidth, Bound::Bandwidth) }
    }

    /// Derivations that fit into a graphics card's memory at the same time.
    pub fn side_by_side(&self, gpu: &Gpu) -> Option<u64> {
        (self.memory() > 0).then(|| (gpu.memory / self.memory() as f64) as u64)
    }
}

/// What this machine was found to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Here {
    /// Compressions of SHA-256 a second on one core, with as many guesses side by side as its registers hold.
    pub sha256: f64,
}

impl Here {
    /// Takes about a fifth of a second.
    ///
    /// # Errors
    /// [`KdfError`](atrest_kdf::KdfError) if the derivation is cancelled by a
    /// [`WorkLimit`](atrest_kdf::WorkLimit) of the caller.
    pub fn measure() -> Result<Self, atrest_kdf::KdfError> {
        // Four output blocks are four chains, as four guesses would be.
        let mut key = [0; 128];
        let mut iterations = 1u32 << 12;
        loop {
            let begun = std::time::Instant::now();
            atrest_kdf::pbkdf2(Hash::Sha256, b"passphrase", &[0x2e; 32], iterations, &mut key)?;
            let took = begun.elapsed().as_secs_f64();
            if took >= 0.1 || iterations >= 1 << 28 {
                return Ok(Self { sha256: 8.0 * f64::from(iterations) / took });
            }
            iterations *= 2;
        }
    }

    /// Seconds of one core's time that a guess takes here: what the compressions take for SHA-256 alone, and what one
    /// derivation `took` for the functions that memory bounds.
    pub fn guess(&self, setting: &Setting, took: f64) -> f64 {
        match setting.compressions() {
            0 => took,
            compressions => compressions as f64 / self.sha256,
        }
    }
}

/// Seconds that one derivation takes here, the shortest of three.
///
/// # Errors
/// [`KdfError`](atrest_kdf::KdfError) if this machine or a [`WorkLimit`](atrest_kdf::WorkLimit) of the caller
/// does not permit the work, or the setting is none.
pub fn seconds(setting: &Setting) -> Result<f64, atrest_kdf::KdfError> {
    let mut shortest = f64::INFINITY;
    for _ in 0..3 {
        let begun = std::time::Instant::now();
        run(setting)?;
        shortest = shortest.min(begun.elapsed().as_secs_f64());
    }
    Ok(shortest)
}

fn run(setting: &Setting) -> Result<(), atrest_kdf::KdfError> {
    use atrest_kdf::{Argon2Cost, Argon2Kind, CatenaInput, ScryptCost};
    let (passphrase, salt) = (b"correct horse battery staple", &[0x2e; 32]);
    let mut key = [0; 32];
    match *setting {
        Setting::Pbkdf2 { iterations } => {
            atrest_kdf::pbkdf2(Hash::Sha256, passphrase, salt, iterations, &mut key)
        }
        Setting::Catena(cost) => {
            let mut memory = std::vec![0; setting.memory() as usize];
            let input = CatenaInput { passphrase, salt, ..CatenaInput::default() };
            atrest_kdf::catena(Hash::Sha256, &cost, &input, &mut memory, &mut key)
        }
        Setting::Argon2id { memory_kib, time } => {
            let cost = Argon2Cost { kind: Argon2Kind::Id, time, memory_kib, lanes: 1 };
            atrest_kdf::argon2(&cost, passphrase, salt, &mut key)
        }
        Setting::Scrypt { log_n, r } => {
            atrest_kdf::scrypt(&ScryptCost { log_n, r, p: 1 }, passphrase, salt, &mut key)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: Catena-BRG at garlic 12, depth 2, is 3 rows of 4096 nodes and 512 mixed ones, after 3 rows of 64 and 32.
    #[test]
    fn the_model_counts_what_the_functions_do() {
        let brg = Setting::Catena(CatenaCost::new(CatenaGraph::BitReversal, 12));
        let nodes = 3 * 4096 + 512 + 3 * 64 + 32;
        assert_eq!(brg.memory(), 128 << 10);
        assert_eq!(brg.compressions(), 2 * nodes);
        assert_eq!(brg.traffic(), 64 * nodes);
        assert_eq!(brg.instructions(&CHIPS[0]), Some(nodes * CHIPS[0].brg_node));
        assert_eq!(brg.side_by_side(&RTX_4090), Some(183_105));
        let pbkdf2 = Setting::Pbkdf2 { iterations: 1000 };
        let (guesses, bound) = pbkdf2.guesses(&RTX_4090);
        assert_eq!((guesses.round(), bound), (10_990_000.0, Bound::Compute));
        assert_eq!(pbkdf2.side_by_side(&RTX_4090), None);
        let argon2 = Setting::Argon2id { memory_kib: 64 << 10, time: 4 };
        let (guesses, bound) = argon2.guesses(&RTX_4090);
        assert_eq!((guesses.round(), bound), (1365.0, Bound::Bandwidth));
        assert_eq!(argon2.instructions(&CHIPS[1]), None);
        let scrypt = Setting::Scrypt { log_n: 14, r: 8 };
        assert_eq!((scrypt.memory(), scrypt.traffic()), (16 << 20, 32 << 20));
    }

    #[test]
    fn every_setting_can_be_run() {
        for setting in SETTINGS {
            if setting.compressions() < 1 << 20 {
                run(&setting).expect("it is defined");
            }
        }
        let here = Here::measure().expect("defined");
        assert!(here.sha256 > 1e4);
        assert_eq!(here.guess(&Setting::Scrypt { log_n: 14, r: 8 }, 0.25), 0.25);
    }
}
