//! What a volume may hold after its server was killed.

use std::collections::BTreeMap;

/// Blocks of a volume that are written and flushed until a crash. Everything between the last flush and the crash may
/// be there or not, each data unit by itself.
#[derive(Debug)]
pub struct Blocks {
    size: usize,
    /// Contents before the first write.
    original: Vec<u8>,
    written: BTreeMap<u64, Expected>,
}

/// What a block may hold.
#[derive(Debug)]
struct Expected {
    /// What was flushed last.
    flushed: Vec<u8>,
    /// What has been written since, acknowledged or not.
    later: Vec<Vec<u8>>,
}

impl Blocks {
    /// Blocks of `size` bytes of a volume that holds `original`.
    pub fn new(size: usize, original: Vec<u8>) -> Self {
        Self { size, original, written: BTreeMap::new() }
    }

    /// A block is about to be written.
    pub fn write(&mut self, number: u64, bytes: Vec<u8>) {
        let at = number as usize * self.size;
        let fresh = || Expected { flushed: self.original[at..at + self.size].to_vec(), later: Vec::new() };
        self.written.entry(number).or_insert_with(fresh).later.push(bytes);
    }

    /// A flush was acknowledged, and every write before it.
    pub fn flushed(&mut self) {
        for block in self.written.values_mut() {
            if let Some(last) = block.later.pop() {
                block.flushed = last;
                block.later.clear();
            }
        }
    }

    /// The blocks of `found`, the contents after the crash, of which a data unit of `unit` bytes holds neither what
    /// was flushed nor what was written since.
    pub fn lost(&self, found: &[u8], unit: usize) -> Vec<u64> {
        let holds = |number: u64, block: &Expected| {
            let at = number as usize * self.size;
            let versions = || block.later.iter().chain([&block.flushed]);
            found[at..at + self.size].chunks(unit).enumerate().all(|(index, bytes)| {
                versions().any(|version| &version[index * unit..][..bytes.len()] == bytes)
            })
        };
        self.written
            .iter()
            .filter(|(number, block)| !holds(**number, block))
            .map(|(number, _)| *number)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_flushed_must_be_there_and_what_came_later_may_be() {
        let mut blocks = Blocks::new(4, vec![0; 12]);
        blocks.write(1, vec![1; 4]);
        assert!(blocks.lost(&[0; 12], 4).is_empty());
        blocks.flushed();
        assert_eq!(blocks.lost(&[0; 12], 4), [1]);
        blocks.write(1, vec![2; 4]);
        blocks.write(1, vec![3; 4]);
        for (block, unit, lost) in [
            ([1, 1, 1, 1], 4, false),
            ([2, 2, 2, 2], 4, false),
            ([3, 3, 3, 3], 4, false),
            ([1, 1, 3, 3], 4, true),
            ([1, 1, 3, 3], 2, false),
            ([0, 0, 3, 3], 2, true),
        ] {
            let found = [[0; 4], block, [0; 4]].concat();
            assert_eq!(blocks.lost(&found, unit), if lost { vec![1] } else { vec![] }, "{block:?} in {unit}");
        }
        blocks.flushed();
        assert_eq!(blocks.lost(&[2; 12], 4), [1]);
    }
}
