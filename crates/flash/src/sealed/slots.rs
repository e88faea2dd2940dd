//! Blocks whose ticket slot is free: they were begun since power-on, so that the slot is known to be blank.

/// The last few of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slots {
    /// The newest last; those that are not in use are None, and first.
    blocks: [Option<u32>; 4],
}

impl Slots {
    /// Adds one; the oldest goes if there is no room.
    pub(crate) fn push(&mut self, block: u32) {
        self.blocks.rotate_left(1);
        if let Some(last) = self.blocks.last_mut() {
            *last = Some(block);
        }
    }

    /// Takes the newest out.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let newest = self.blocks.last_mut()?.take();
        self.blocks.rotate_right(1);
        newest
    }

    /// Forgets one that is about to be erased.
    pub(crate) fn remove(&mut self, block: u32) {
        let kept = self.blocks.map(|entry| entry.filter(|entry| *entry != block));
        self.blocks = [None; 4];
        kept.into_iter().flatten().for_each(|block| self.push(block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_taken_first_and_the_oldest_is_forgotten_first() {
        let mut slots = Slots::default();
        assert_eq!(slots.pop(), None);
        (1..=5).for_each(|block| slots.push(block));
        slots.remove(4);
        assert_eq!([slots.pop(), slots.pop(), slots.pop(), slots.pop()], [Some(5), Some(3), Some(2), None]);
        slots.push(7);
        slots.push(8);
        assert_eq!(slots.pop(), Some(8));
        slots.push(9);
        slots.push(10);
        slots.push(11);
        assert_eq!([slots.pop(), slots.pop(), slots.pop()], [Some(11), Some(10), Some(9)]);
        assert_eq!([slots.pop(), slots.pop()], [Some(7), None], "room that was given up is used again");
    }
}
