//! Whether who lists a directory then looks at what is in it, as `ls -l` does, or wants the names alone, as `find` does.
//!
//! Attributes in a listing save a question for each of its entries, but have to be found out, wanted or not. The kernel can't say
//! which it will be: it guesses by the first entries of a directory. Here the last listings tell: where files are looked up
//! in the directory that was listed last, the next listing has attributes. Once it has, nothing is looked up any more; so now and
//! then a portion is left without, and when nobody asks for what it names, attributes are left out again.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Of so many portions one is left without attributes.
const SAMPLE: u32 = 32;
/// So many of these that nobody has asked about, and attributes are not wanted.
const UNASKED: u32 = 3;

/// What the last listings have shown. Races between threads cost some questions too many.
#[derive(Debug, Default)]
pub struct Looks {
    wanted: AtomicBool,
    /// The directory that was listed last.
    listed: AtomicU64,
    portions: AtomicU32,
    /// Portions without attributes since somebody has looked at a file.
    unasked: AtomicU32,
}

impl Looks {
    /// Whether the next portion of a directory should have attributes.
    pub fn at_listing(&self, directory: u64) -> bool {
        self.listed.store(directory, Ordering::Relaxed);
        if !self.wanted.load(Ordering::Relaxed) {
            return false;
        }
        let portion = self.portions.fetch_add(1, Ordering::Relaxed);
        if portion % SAMPLE != SAMPLE - 1 {
            return true;
        }
        if self.unasked.fetch_add(1, Ordering::Relaxed) + 1 >= UNASKED {
            self.wanted.store(false, Ordering::Relaxed);
        }
        false
    }

    /// Something other than a directory was looked up. (Whoever goes through a tree has to look up its directories.)
    pub fn at_look(&self, directory: u64) {
        if self.listed.load(Ordering::Relaxed) == directory {
            self.unasked.store(0, Ordering::Relaxed);
            self.wanted.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_given_while_they_are_asked_for() {
        let looks = Looks::default();
        assert!((2..40).all(|directory| !looks.at_listing(directory)), "nobody has asked");
        looks.at_look(7);
        assert!(!looks.at_listing(40), "of another directory than the last");
        looks.at_look(40);
        // Who looks at everything: asks for what was left out.
        let mut without = 0;
        for directory in 41..41 + 10 * u64::from(SAMPLE) {
            if !looks.at_listing(directory) {
                without += 1;
                looks.at_look(directory);
            }
        }
        assert_eq!(without, 10);
        // Who looks at nothing any more.
        let with = (1000..2000).filter(|&directory| looks.at_listing(directory)).count();
        assert_eq!(with, (SAMPLE * UNASKED - UNASKED) as usize);
        looks.at_look(1999);
        assert!(looks.at_listing(2000));
    }
}
