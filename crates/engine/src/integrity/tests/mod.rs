//! Tags and journal against a model, power losses, flipped bits, and the kernel.

mod bitmap;
mod crash;
mod kernel;
mod model;
mod refused;
mod resets;

use std::sync::Arc;

use atrest_cipher::{DataUnitIndex, RunError, Tagged};
use atrest_device::BlockDevice;
use atrest_secret::SecretBytes;
use atrest_testkit::FaultDevice;
use atrest_volume::integrity::{Checksum, Hash, HashSpec, JournalCipherSpec};

use super::*;

const KEY: &[u8] = b"the key of a hash, of 40 bytes in all...";

fn hash(name: &str) -> Hash {
    let spec: HashSpec = name.parse().expect("known");
    Hash::new(spec, spec.is_keyed().then_some(KEY)).expect("a key that fits")
}

/// The checksum that a superblock goes with.
fn checksum(name: &str, superblock: &Superblock) -> Box<dyn Tagged> {
    let salt = superblock.flags.fixed_hmac.then_some(superblock.salt);
    let (unit, tag) = (superblock.data_unit as usize, superblock.tag_len.into());
    Box::new(Checksum::new(hash(name), unit, tag).expect("a checksum").with_salt(salt))
}

/// A cipher for tests alone: XOR with the random end of the tag, whose beginning is a sum of everything.
struct Toy {
    unit: usize,
}

impl Toy {
    fn sum(number: u64, unit: &[u8], random: &[u8]) -> [u8; 8] {
        let mut sum = [0; 8];
        hash("xxhash64").digest(&[&number.to_le_bytes(), unit, random], &mut sum);
        sum
    }

    fn xor(unit: &mut [u8], random: &[u8]) {
        unit.iter_mut().zip(random.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
    }
}

impl Tagged for Toy {
    fn data_unit(&self) -> usize {
        self.unit
    }

    fn tag_len(&self) -> usize {
        20
    }

    fn random_len(&self) -> usize {
        12
    }

    fn seal(
        &self,
        DataUnitIndex(first): DataUnitIndex,
        run: &mut [u8],
        tags: &mut [u8],
    ) -> Result<(), RunError> {
        for ((unit, tag), number) in run.chunks_mut(self.unit).zip(tags.chunks_mut(20)).zip(first..) {
            let (sum, random) = tag.split_at_mut(8);
            Self::xor(unit, random);
            sum.copy_from_slice(&Self::sum(number, unit, random));
        }
        Ok(())
    }

    fn open(
        &self,
        DataUnitIndex(first): DataUnitIndex,
        run: &mut [u8],
        tags: &[u8],
        forged: &mut dyn FnMut(DataUnitIndex),
    ) -> Result<(), RunError> {
        for ((unit, tag), number) in run.chunks_mut(self.unit).zip(tags.chunks(20)).zip(first..) {
            let (sum, random) = tag.split_at(8);
            if *sum == Self::sum(number, unit, random) {
                Self::xor(unit, random);
            } else {
                unit.fill(0);
                forged(DataUnitIndex(number));
            }
        }
        Ok(())
    }
}

/// How a device for a test is made.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// A hash by its name, or `toy`.
    tags: &'static str,
    tag_len: u16,
    unit: u32,
    interleave: u32,
    journal: Option<u32>,
    journal_mac: bool,
    cipher: Option<&'static str>,
}

const KINDS: [Kind; 4] = [
    Kind {
        tags: "crc32c",
        tag_len: 4,
        unit: 512,
        interleave: 128,
        journal: None,
        journal_mac: false,
        cipher: None,
    },
    Kind {
        tags: "toy",
        tag_len: 20,
        unit: 512,
        interleave: 32,
        journal: Some(500),
        journal_mac: false,
        cipher: None,
    },
    Kind {
        tags: "hmac-sha256",
        tag_len: 32,
        unit: 4096,
        interleave: 0,
        journal: Some(1200),
        journal_mac: true,
        cipher: Some("cbc-aes"),
    },
    Kind {
        tags: "sha1",
        tag_len: 20,
        unit: 1024,
        interleave: 64,
        journal: Some(900),
        journal_mac: false,
        cipher: Some("ctr-aes"),
    },
];

impl Kind {
    fn wanted(self, size: Option<u64>) -> NewIntegrity {
        let mut new = NewIntegrity::default();
        (new.data_unit, new.tag_len, new.interleave) = (self.unit, self.tag_len, self.interleave);
        (new.journal, new.size) = (self.journal, size);
        new.journal_hash = self.journal_mac.then(|| hash("hmac-sha256"));
        new.journal_cipher = self.journal_cipher();
        new
    }

    fn journal_cipher(self) -> Option<(JournalCipherSpec, SecretBytes)> {
        let spec = self.cipher?.parse().expect("known");
        Some((spec, SecretBytes::copy_from(&KEY[..32])))
    }

    /// A device whose journal has no cipher.
    fn clear(self) -> Self {
        Self { cipher: None, ..self }
    }

    fn tagged(self, superblock: &Superblock) -> Box<dyn Tagged> {
        match self.tags {
            "toy" => Box::new(Toy { unit: self.unit as usize }),
            name => checksum(name, superblock),
        }
    }

    fn options(self, mode: Mode, read_only: bool) -> OpenOptions {
        let mut options = OpenOptions::default();
        (options.mode, options.read_only) = (mode, read_only);
        options.journal_hash = self.journal_mac.then(|| hash("hmac-sha256"));
        options.journal_cipher = self.journal_cipher();
        options
    }

    fn open(self, media: Arc<dyn BlockDevice>, at: u64, mode: Mode) -> Integrity {
        let superblock = read_superblock(&*media, at).expect("a superblock");
        let opened = Integrity::open(media, at, self.tagged(&superblock), self.options(mode, false));
        opened.unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }

    /// A device of `size` bytes, laid out from byte `at` on, with zeros.
    fn made(self, size: usize, at: u64) -> Arc<FaultDevice> {
        let media = Arc::new(FaultDevice::zeroed(size));
        let superblock = create(media.clone(), at, self.wanted(None)).expect("there is room");
        let tagged = self.tagged(&superblock);
        let mut last = 0;
        let progress = &mut |done, of| {
            assert!(done > last && done <= of, "{done} of {of} after {last}");
            last = done;
        };
        let options = self.options(Mode::Direct, false);
        Integrity::wipe(media.clone(), at, tagged, options, progress).expect("it is written");
        assert_eq!(last, superblock.provided);
        media
    }
}
