//! The switch that mutated code asks: is mutant N on?
//!
//! `ATREST_MUTANT=N` turns mutant N on, in this process and in those that it starts. With `ATREST_MUTANT_HITS=FILE`
//! no mutant is on, and byte N of the file becomes 1 when the place of mutant N is reached. The file is mapped, so
//! what was reached is known even of a process that was killed.

mod hits;
pub mod values;

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// The mutant that is on, [`NONE`], or [`ASK`]. No mutant has the number of either.
static ACTIVE: AtomicU32 = AtomicU32::new(ASK);

/// No mutant is on, and nobody asks which places are reached.
const NONE: u32 = 0;

/// The environment was not read, or every place that is reached must be noted.
const ASK: u32 = u32::MAX;

/// Returns whether mutant `id` is on.
#[inline(always)]
pub fn on(id: u32) -> bool {
    let active = ACTIVE.load(Ordering::Relaxed);
    active == id || (active == ASK && ask(id))
}

#[cold]
#[inline(never)]
fn ask(id: u32) -> bool {
    static READ: Once = Once::new();
    READ.call_once(|| {
        if !hits::map() {
            let chosen = std::env::var("ATREST_MUTANT").ok().and_then(|id| id.parse().ok());
            ACTIVE.store(chosen.unwrap_or(NONE), Ordering::Relaxed);
        }
    });
    hits::note(id);
    ACTIVE.load(Ordering::Relaxed) == id
}
