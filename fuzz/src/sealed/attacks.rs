//! Somebody who has seen all that was ever on the medium, and writes it as he likes.

use std::collections::BTreeSet;

use arbitrary::{Result, Unstructured};
use atrest_device::{FlashCause, FlashDevice as _};
use atrest_flash::sealed::{SealedError, Verdict, Verify};

use super::rig::{BLOCKS, Bench, Content, ERASE, PAYLOAD, Seen, UNITS, read_all};
use super::used::Used;

/// What was on the medium, and what was ever programmed into it.
#[derive(Default)]
pub struct Witness {
    media: Vec<Vec<u8>>,
    /// Contents that a block had, by its number.
    blocks: BTreeSet<(usize, Vec<Content>)>,
}

impl Witness {
    /// Keeps a copy of the medium, of which there are four at most.
    pub fn take(&mut self, bench: &Bench) {
        if self.media.len() == 4 {
            self.media.remove(0);
        }
        self.media.push(bench.medium.borrow().bytes.clone());
    }

    pub fn programmed(&mut self, block: usize, held: &[Content]) {
        self.blocks.insert((block, held.to_vec()));
    }

    /// Whether the units of a block that verify were in it together.
    fn knows(&self, block: usize, seen: &[Seen]) -> bool {
        let together = |held: &Vec<Content>| {
            seen.iter().enumerate().all(|(unit, seen)| match (seen, held.get(unit)) {
                (Seen::Written(number), Some(held)) => Some(*number) == *held,
                (Seen::Written(_), None) => false,
                _ => true,
            })
        };
        let written = seen.iter().any(|seen| matches!(seen, Seen::Written(_)));
        !written || self.blocks.iter().any(|(number, held)| *number == block && together(held))
    }

    /// Changes a medium in one to three places.
    fn attack(&self, bytes: &mut [u8], u: &mut Unstructured<'_>) -> Result<()> {
        for _ in 0..u.int_in_range(1..=3)? {
            let [a, b] = [u.choose_index(BLOCKS)? * ERASE, u.choose_index(BLOCKS)? * ERASE];
            match u.int_in_range(0..=6)? {
                // A block as it was once, in its place or another.
                0 | 1 if !self.media.is_empty() => {
                    let from = &u.choose(&self.media)?[a..a + ERASE];
                    let to = if u.arbitrary()? { a } else { b };
                    bytes[to..to + ERASE].copy_from_slice(from);
                }
                // Some of its bytes.
                2 if !self.media.is_empty() => {
                    let from = u.choose(&self.media)?;
                    let start = u.choose_index(ERASE / 16)? * 16;
                    let end = start + u.choose_index((ERASE - start) / 16)? * 16;
                    bytes[a + start..a + end].copy_from_slice(&from[a + start..a + end]);
                }
                3 if a != b => {
                    let (low, high) = (a.min(b), a.max(b));
                    let (first, second) = bytes.split_at_mut(high);
                    first[low..low + ERASE].swap_with_slice(&mut second[..ERASE]);
                }
                4 => {
                    let start = u.choose_index(ERASE)?;
                    bytes[a + start..a + ERASE].fill(*u.choose(&[0xff, 0, 0xa5])?);
                }
                _ => bytes[a + u.choose_index(ERASE)?] ^= 1 << u.int_in_range(0..=7)?,
            }
        }
        Ok(())
    }
}

/// The medium is changed while the volume is closed.
pub fn on_medium(bench: &Bench, used: &Used<'_>, u: &mut Unstructured<'_>) -> Result<()> {
    let copy = bench.copy();
    used.witness.attack(&mut copy.medium.borrow_mut().bytes, u)?;
    let changed = copy.medium.borrow().bytes != bench.medium.borrow().bytes;
    without_store(&copy, used);
    let before = copy.medium.borrow().bytes.clone();
    match copy.mount() {
        Ok(mut volume) => {
            let seen = read_all(&mut volume);
            assert!(used.may_be(&seen), "undetected: {seen:?} of {used:?}");
        }
        Err(SealedError::Medium(cause)) => panic!("{cause}"),
        Err(error) => {
            assert!(changed, "a false alarm: {error}");
            assert!(copy.medium.borrow().bytes == before, "a refused medium was changed");
            assert_eq!(copy.record.get(), bench.record.get(), "a refused medium has changed the store");
        }
    }
    Ok(())
}

/// Without the store older blocks are shown, but none that never was.
fn without_store(bench: &Bench, used: &Used<'_>) {
    let before = bench.medium.borrow().writes;
    let mut reader = bench.reader();
    let seen = read_all(&mut reader);
    for (block, seen) in seen.iter().enumerate() {
        assert!(used.witness.knows(block, seen), "block {block} never held {seen:?}");
        for (unit, seen) in seen.iter().enumerate() {
            let verdict = reader.verdict(block as u32, unit as u32).expect("a unit of the medium");
            let sealed = matches!(verdict, Verdict::Sealed { .. });
            assert!(sealed || !matches!(seen, Seen::Written(_)), "{verdict:?} of {seen:?}");
            let tampered = matches!(verdict, Verdict::Tampered);
            assert!(!tampered || *seen == Seen::Tampered, "{verdict:?} of {seen:?}");
        }
    }
    let mut torn = bench.reader().assuming_torn();
    for (block, seen) in read_all(&mut torn).iter().enumerate() {
        assert!(used.witness.knows(block, seen), "block {block} never held {seen:?}");
    }
    assert!(reader.erase(0, (UNITS * PAYLOAD) as u64).is_err(), "a reader erases");
    assert_eq!(bench.medium.borrow().writes, before, "a reader writes");
}

/// The medium is changed under an open volume.
pub fn live(bench: &Bench, used: &Used<'_>, u: &mut Unstructured<'_>) -> Result<()> {
    let copy = bench.copy();
    let mut volume = copy.mount().unwrap_or_else(|error| panic!("an untouched medium: {error}"));
    let stood = read_all(&mut volume);
    used.witness.attack(&mut copy.medium.borrow_mut().bytes, u)?;
    let seen = read_all(&mut volume);
    let pairs = stood.iter().flatten().zip(seen.iter().flatten());
    let mut tampered = false;
    for (stood, seen) in pairs {
        tampered |= *seen == Seen::Tampered;
        assert!(seen == stood || *seen == Seen::Tampered, "{stood:?} now reads as {seen:?}");
    }
    // What stood there before an opening by serials is damage, which hides nothing. Of a unit that was verified it stops all writing.
    assert_eq!(volume.is_stopped() || volume.is_damaged(), tampered);
    assert!(!volume.is_damaged() || bench.options.verify == Verify::OnRead);
    if volume.is_stopped() {
        let before = copy.medium.borrow().writes;
        let erased = volume.erase(0, (UNITS * PAYLOAD) as u64).map_err(|error| error.cause);
        assert_eq!(erased, Err(FlashCause::Stopped));
        assert_eq!(volume.close(), Err(FlashCause::Stopped));
        assert_eq!(copy.medium.borrow().writes, before, "it writes on");
    }
    Ok(())
}
