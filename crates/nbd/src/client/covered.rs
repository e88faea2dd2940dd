//! Which parts of a read have come. A server may send them as chunks, in any order, but none of them twice.

/// More separate parts than this are not kept: no server has a reason for them.
const MAX_PARTS: usize = 256;

/// Disjoint parts of a range, in order. None touches another.
#[derive(Debug, Default)]
pub struct Covered {
    parts: Vec<(u32, u32)>,
}

impl Covered {
    /// Adds a part. `false` if some of it was there before, or if it is one part too many.
    #[must_use]
    pub fn add(&mut self, start: u32, end: u32) -> bool {
        if start == end {
            return true;
        }
        let at = self.parts.partition_point(|(other, _)| *other < start);
        let before = at.checked_sub(1);
        let touches_before = match before.map(|before| self.parts[before].1) {
            Some(other_end) if other_end > start => return false,
            other_end => other_end == Some(start),
        };
        let touches_behind = match self.parts.get(at) {
            Some((other_start, _)) if *other_start < end => return false,
            other => other.is_some_and(|(other_start, _)| *other_start == end),
        };
        match (before.filter(|_| touches_before), touches_behind) {
            (Some(before), true) => self.parts[before].1 = self.parts.remove(at).1,
            (Some(before), false) => self.parts[before].1 = end,
            (None, true) => self.parts[at].0 = start,
            (None, false) if self.parts.len() < MAX_PARTS => self.parts.insert(at, (start, end)),
            (None, false) => return false,
        }
        true
    }

    /// Whether all of `0..len` has come.
    pub fn is_whole(&self, len: u32) -> bool {
        len == 0 || self.parts == [(0, len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atrest_testkit::Random;

    #[test]
    fn parts_agree_with_a_list_of_bytes() {
        const LEN: usize = 40;
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut covered, mut bytes) = (Covered::default(), [false; LEN]);
            while !bytes.iter().all(|came| *came) {
                let start = random.below(LEN as u64 + 1) as usize;
                let end = start + random.below((LEN - start) as u64 + 1) as usize;
                let free = !bytes[start..end].iter().any(|came| *came);
                assert_eq!(covered.add(start as u32, end as u32), free, "{start}..{end} of {bytes:?}");
                if free {
                    bytes[start..end].fill(true);
                }
                assert_eq!(covered.is_whole(LEN as u32), bytes.iter().all(|came| *came));
            }
        }
    }

    #[test]
    fn too_many_parts_are_refused() {
        let mut covered = Covered::default();
        for part in 0..MAX_PARTS as u32 {
            assert!(covered.add(2 * part, 2 * part + 1));
        }
        assert!(!covered.add(1000, 1001));
        assert!(covered.add(1, 2), "what joins two parts makes no new one");
        assert!(covered.add(1000, 1001));
    }
}
