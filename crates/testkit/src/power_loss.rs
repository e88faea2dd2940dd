//! Every state in which a power loss can leave a device.
//!
//! What we assume of the media: a write is durable once a later flush has returned; of the writes since the last flush
//! any subset may have arrived, in any order; a write may be torn between sectors; and, where [`Tearing::Inside`]
//! asks for it, in the middle of a sector.

use std::fmt;

use crate::Random;

/// Something that happened to a recorded device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes were written.
    Write {
        /// First byte.
        offset: u64,
        /// The bytes.
        data: Vec<u8>,
    },
    /// A flush returned successfully.
    Flush,
    /// A promise was made to a user.
    Acknowledged(u64),
}

/// The contents of a device at first and everything that happened to it.
#[derive(Clone, Debug)]
pub struct Recording {
    base: Vec<u8>,
    events: Vec<Event>,
}

/// Where a single write may break off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tearing {
    /// Nowhere: a write arrives whole or not at all.
    None,
    /// Between 512-byte sectors.
    BetweenSectors,
    /// Between sectors, and in the middle of a sector.
    Inside,
}

/// How many states to visit.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Up to this many writes between two flushes all their subsets are visited; above it, a seeded sample is.
    pub exhaustive: u32,
    /// Subsets in a sample.
    pub sampled: u32,
    /// Tears visited per write.
    pub tears: u32,
    /// How writes may be torn.
    pub tearing: Tearing,
    /// Seed of the samples.
    pub seed: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { exhaustive: 6, sampled: 64, tears: 4, tearing: Tearing::BetweenSectors, seed: 1 }
    }
}

/// One state after a power loss. Its `Display` form names it; [`Recording::state`] rebuilds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerLoss {
    /// Flushes that had returned.
    pub epoch: usize,
    /// Which of the writes since then arrived, by their order.
    pub arrived: Vec<bool>,
    /// A write that arrived in part: its index among the writes since the flush, and how many of its bytes.
    pub torn: Option<(usize, usize)>,
}

impl fmt::Display for PowerLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after flush {}, arrived ", self.epoch)?;
        for &arrived in &self.arrived {
            f.write_str(if arrived { "1" } else { "0" })?;
        }
        match self.torn {
            Some((index, bytes)) => write!(f, ", write {index} torn after {bytes} bytes"),
            None => Ok(()),
        }
    }
}

/// A power loss and what it left.
#[derive(Clone, Debug)]
pub struct Aftermath {
    /// Which one.
    pub power_loss: PowerLoss,
    /// The bytes on the media.
    pub image: Vec<u8>,
    /// What had been promised by then and must hold.
    pub acknowledged: Vec<u64>,
}

impl Recording {
    /// A recording that starts from `base`.
    pub fn new(base: Vec<u8>, events: Vec<Event>) -> Self {
        Self { base, events }
    }

    /// What happened, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Visits the states in which a power loss at any moment may leave the media, without and with torn writes.
    /// Returns how many there were.
    pub fn for_each_power_loss(&self, limits: &Limits, mut visit: impl FnMut(Aftermath)) -> usize {
        let mut visited = 0;
        for (epoch, span) in self.epochs().iter().enumerate() {
            let mut random = Random::new(limits.seed ^ epoch as u64);
            for (arrived, torn) in span.outcomes(limits, &mut random) {
                let power_loss = PowerLoss { epoch, arrived, torn };
                let image = self.state(&power_loss);
                visit(Aftermath { power_loss, image, acknowledged: span.acknowledged.clone() });
                visited += 1;
            }
        }
        visited
    }

    /// The bytes that a power loss leaves.
    pub fn state(&self, power_loss: &PowerLoss) -> Vec<u8> {
        let mut image = self.base.clone();
        for (epoch, span) in self.epochs().iter().enumerate().take(power_loss.epoch + 1) {
            for (index, (offset, data)) in span.writes.iter().enumerate() {
                let lost = epoch == power_loss.epoch && !power_loss.arrived[index];
                let bytes = match power_loss.torn {
                    Some((torn, bytes)) if epoch == power_loss.epoch && torn == index => bytes,
                    _ if lost => 0,
                    _ => data.len(),
                };
                image[*offset as usize..][..bytes].copy_from_slice(&data[..bytes]);
            }
        }
        image
    }

    fn epochs(&self) -> Vec<Epoch<'_>> {
        let mut epochs = vec![Epoch::default()];
        for event in &self.events {
            let last = epochs.len() - 1;
            match event {
                Event::Write { offset, data } => epochs[last].writes.push((*offset, data)),
                Event::Acknowledged(promise) => epochs[last].acknowledged.push(*promise),
                Event::Flush => {
                    let acknowledged = epochs[last].acknowledged.clone();
                    epochs.push(Epoch { writes: Vec::new(), acknowledged });
                }
            }
        }
        epochs
    }
}

/// The time between two flushes. A power loss is taken to happen at its very end, just before the flush returns, when
/// the most has been promised and the least is certain; that covers every earlier moment of the epoch too.
#[derive(Default)]
struct Epoch<'a> {
    writes: Vec<(u64, &'a Vec<u8>)>,
    acknowledged: Vec<u64>,
}

type Outcome = (Vec<bool>, Option<(usize, usize)>);

impl Epoch<'_> {
    fn outcomes(&self, limits: &Limits, random: &mut Random) -> Vec<Outcome> {
        let count = self.writes.len();
        let mut outcomes: Vec<Outcome> = Vec::new();
        if count <= limits.exhaustive as usize {
            for mask in 0u64..1 << count {
                outcomes.push(((0..count).map(|index| mask >> index & 1 == 1).collect(), None));
            }
        } else {
            for prefix in 0..=count {
                outcomes.push(((0..count).map(|index| index < prefix).collect(), None));
            }
            for _ in 0..limits.sampled {
                outcomes.push(((0..count).map(|_| random.draw() & 1 == 1).collect(), None));
            }
        }
        for index in 0..count {
            for bytes in self.tears(index, limits, random) {
                // Torn in order (everything before it arrived, nothing after it) and torn alone.
                let before = (0..count).map(|other| other < index).collect();
                outcomes.push((before, Some((index, bytes))));
                if index > 0 {
                    outcomes.push((vec![false; count], Some((index, bytes))));
                }
            }
        }
        outcomes
    }

    fn tears(&self, index: usize, limits: &Limits, random: &mut Random) -> Vec<usize> {
        let (offset, data) = self.writes[index];
        // The first place where a sector ends inside the write.
        let first = 512 - (offset % 512) as usize;
        let mut places: Vec<usize> = (first..data.len()).step_by(512).collect();
        random.shuffle(&mut places);
        places.truncate(limits.tears as usize);
        match limits.tearing {
            Tearing::None => Vec::new(),
            Tearing::BetweenSectors => places,
            Tearing::Inside => {
                if data.len() > 1 {
                    places.push(1 + random.below(data.len() as u64 - 1) as usize);
                }
                places
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use atrest_device::BlockDevice;

    use super::*;
    use crate::FaultDevice;

    fn states(device: &FaultDevice, tearing: Tearing) -> BTreeSet<Vec<u8>> {
        let mut states = BTreeSet::new();
        let limits = Limits { tearing, ..Limits::default() };
        device.recording().for_each_power_loss(&limits, |aftermath| {
            states.insert(aftermath.image);
        });
        states
    }

    fn pattern(parts: [u8; 3]) -> Vec<u8> {
        parts.iter().flat_map(|&part| [part; 512]).collect()
    }

    #[test]
    fn unflushed_writes_arrive_in_any_combination_and_flushed_ones_always() {
        let device = FaultDevice::zeroed(3 * 512);
        device.write_at(0, &[1; 512]).expect("write");
        device.flush().expect("flush");
        device.write_at(512, &[2; 512]).expect("write");
        device.write_at(1024, &[3; 512]).expect("write");
        let expected = [[0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 0, 3], [1, 2, 3]]
            .map(pattern)
            .into_iter()
            .collect::<BTreeSet<_>>();
        assert_eq!(states(&device, Tearing::None), expected);
    }

    #[test]
    fn a_long_write_tears_between_sectors() {
        let device = FaultDevice::zeroed(3 * 512);
        device.write_at(0, &pattern([1, 2, 3])).expect("write");
        let expected =
            [[0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 2, 3]].map(pattern).into_iter().collect::<BTreeSet<_>>();
        assert_eq!(states(&device, Tearing::BetweenSectors), expected);
    }

    #[test]
    fn a_promise_holds_in_every_state_after_the_flush_before_it() {
        let device = FaultDevice::zeroed(512);
        device.write_at(0, &[1; 512]).expect("write");
        device.flush().expect("flush");
        device.acknowledge(42);
        device.write_at(0, &[2; 512]).expect("write");
        let mut promised = 0;
        let visited = device.recording().for_each_power_loss(&Limits::default(), |aftermath| {
            if aftermath.acknowledged == [42] {
                promised += 1;
                assert_ne!(aftermath.image, vec![0; 512], "{}", aftermath.power_loss);
            }
        });
        assert_eq!((promised, visited), (2, 4));
    }

    #[test]
    fn many_unflushed_writes_are_sampled_and_every_prefix_is_visited() {
        let device = FaultDevice::zeroed(16 * 512);
        for index in 0..16 {
            device.write_at(index * 512, &[index as u8 + 1; 512]).expect("write");
        }
        let states = states(&device, Tearing::None);
        let whole = device.image();
        for prefix in 0..=16 {
            let mut state = whole.clone();
            state[prefix * 512..].fill(0);
            assert!(states.contains(&state), "prefix of {prefix} writes");
        }
        assert!(states.len() > 60);
    }

    #[test]
    fn a_named_state_can_be_rebuilt() {
        let device = FaultDevice::zeroed(4 * 512);
        device.write_at(100, &[5; 1500]).expect("write");
        let recording = device.recording();
        recording.for_each_power_loss(&Limits::default(), |aftermath| {
            assert_eq!(recording.state(&aftermath.power_loss), aftermath.image, "{}", aftermath.power_loss);
        });
    }
}
