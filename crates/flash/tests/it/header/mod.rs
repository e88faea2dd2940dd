//! What the tests of the header have in common: cheap keyslots, and what a medium opens with.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::BTreeSet;

use atrest_device::{FlashDevice, FlashGeometry};
use atrest_flash::{Existing, FlashHeader, FlashHeaderError, FormatOptions, NewSlot, asynchronous};
use atrest_keyslot::flash::{FlashCipher, FlashKey, KdfCost, Pbkdf2Kdf, Protection, SlotError};
use atrest_secret::{Random, RandomError};

use crate::waits::{Waits, block_on};

pub const XTS: FormatOptions = FormatOptions {
    cipher: FlashCipher::AesXts,
    key_len: 64,
    data_unit: 512,
    protection: Protection::Encrypted,
    existing: Existing::Refuse,
};

/// Cheap: what derivations cost is not what is tested.
pub const COST: KdfCost = KdfCost::Pbkdf2 { iterations: 1 };

/// A test's random source.
pub struct Seeded(pub atrest_testkit::Random);

impl Random for Seeded {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        self.0.fill(out);
        Ok(())
    }
}

pub type Header<D> = FlashHeader<D, Vec<u8>>;

pub fn geometry(read: u32, prog: u32, erase: u32, count: u64) -> FlashGeometry {
    FlashGeometry::new(read, prog, erase, count).expect("a geometry")
}

/// Calls `work` with a new keyslot for this passphrase.
pub fn with_new<T>(random: &mut Seeded, passphrase: &str, work: impl FnOnce(NewSlot<'_>) -> T) -> T {
    let passphrase = passphrase.as_bytes();
    work(NewSlot { passphrase, cost: COST, kdf: &mut Pbkdf2Kdf(|_| {}), device: None, random })
}

pub fn scratch(device: &impl FlashDevice) -> Vec<u8> {
    vec![0; (device.geometry().prog_size() as usize).max(64)]
}

/// Opens it in both faces, which have to find the same.
pub fn open<D: FlashDevice>(device: D) -> Result<Header<D>, FlashHeaderError> {
    let scratch = scratch(&device);
    let mut device = Waits(device);
    let awaited = block_on(asynchronous::FlashHeader::open(&mut device, scratch.clone()));
    let awaited = awaited.map(|header| (header.copy_states(), header.found()));
    let opened = FlashHeader::open(device.0, scratch);
    let same = opened.as_ref().map(|header| (header.copy_states(), header.found()));
    assert_eq!(
        awaited.as_ref(),
        same.as_ref().map_err(|error| *error),
        "awaited, and opened by blocking code"
    );
    opened
}

pub fn format<D: FlashDevice>(
    device: D,
    options: &FormatOptions,
    random: &mut Seeded,
    passphrase: &str,
    key: &mut FlashKey,
) -> Result<Header<D>, FlashHeaderError> {
    let scratch = scratch(&device);
    with_new(random, passphrase, |first| FlashHeader::format(device, scratch, options, first, key))
}

pub fn unlock<D: FlashDevice>(
    header: &Header<D>,
    passphrase: &str,
    key: &mut FlashKey,
) -> Result<usize, FlashHeaderError> {
    header.unlock(None, passphrase.as_bytes(), &mut Pbkdf2Kdf(|_| {}), None, key)
}

/// Which of these passphrases open a volume, and with which key.
pub fn opened_by<'a, D: FlashDevice>(
    header: &Header<D>,
    passphrases: &[&'a str],
) -> BTreeSet<(&'a str, Vec<u8>)> {
    let mut opened = BTreeSet::new();
    for passphrase in passphrases {
        let mut key = FlashKey::empty();
        match unlock(header, passphrase, &mut key) {
            Ok(_) => drop(opened.insert((*passphrase, key.expose().to_vec()))),
            Err(FlashHeaderError::NoKeyslots | FlashHeaderError::Slot { error: SlotError::WrongKey, .. }) => {
            }
            Err(error) => panic!("{passphrase}: {error}"),
        }
    }
    opened
}
