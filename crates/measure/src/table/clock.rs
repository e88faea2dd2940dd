//! How fast the core runs, without asking the system, which knows the nominal clock at best.

use std::hint::black_box;
use std::time::Instant;

/// Cycles per second, from a chain of instructions each of which waits for the one before and takes a cycle. The best of a
/// few tries: whatever disturbs one makes it slower.
pub fn cycles_per_second() -> f64 {
    const STEPS: u32 = 100_000;
    let (add, flip) = (black_box(0x9e37_79b9_7f4a_7c15u64), black_box(0x2545_f491_4f6c_dd1du64));
    let mut best = 0.0f64;
    for _ in 0..20 {
        let begun = Instant::now();
        let mut chain = black_box(1u64);
        for _ in 0..STEPS {
            // Additions and xors in turn are no single operation that a compiler could make of them.
            for _ in 0..8 {
                chain = chain.wrapping_add(add) ^ flip;
            }
        }
        black_box(chain);
        best = best.max(f64::from(STEPS) * 16.0 / begun.elapsed().as_secs_f64());
    }
    best
}
