//! What the volume key decides in sealed flash: neither a branch nor an address of the keys derived from it and of the MACs
//! under them, but for the verdicts that are public: whether a tag is the one that sealing gave, whether a record confirms a
//! medium, whether a store is of this volume. A comparison that ends early is planted beside them, and has to be seen.

extern crate std;

use std::vec;
use std::vec::Vec;

use atrest_cipher::KeyError;
use atrest_cipher::aead::{Aead, Aes128CcmTag96, AsconAead128, ChaCha20Poly1305, OpenError, SealError};
use atrest_device::{
    FlashDevice, FlashError, FlashGeometry, TRUSTED_RECORD_LEN, TrustedStore, TrustedStoreError,
};
use atrest_secret::OsRandom;
use atrest_testkit::flash::{EmulatedFlash, SharedFlash, TrustedMemory};
use atrest_testkit::valgrind::{is_public, leaks, make_public, make_secret};

use super::keys::{self, Keys, SealedKey};
use super::layout::{SealedLayout, Tickets};
use super::options::{SealedMedium, SealedOptions, Verify};
use super::record::{BODY, Stamp};
use super::serial::Epoch;
use super::table::BlockState;
use super::volume::SealedFlash;

const UUID: [u8; 16] = [9; 16];
const OPTIONS: SealedOptions = SealedOptions {
    payload: 64,
    tickets: Tickets::Slot,
    medium: SealedMedium::Ordered,
    anchor_every: 1,
    reserve: 5,
    read_back: true,
    verify: Verify::OnRead,
};
const BLOCKS: u64 = 6;

#[test]
fn no_volume_key_decides_a_branch_or_an_address_of_a_mac_but_of_a_planted_comparison() {
    if let Some(leaks) = leaks("macs", |_| compute_macs()) {
        leaks.assert_only_in(&["compared_until_they_differ"]);
    }
}

fn compute_macs() {
    for len in [16, 32, 64] {
        let volume_key = secret(len);
        let key = SealedKey { volume_key: &volume_key, uuid: &UUID, header: None };
        let tag_len = ChaCha20Poly1305::TAG_LEN;
        let layout =
            SealedLayout::new(geometry(), OPTIONS.payload, tag_len, OPTIONS.tickets).expect("a layout");
        let keys = Keys::<ChaCha20Poly1305>::derive(&key, &layout).expect("keys");
        let epoch = Epoch { serial: 77, salt: [3; 7] };
        let sum = keys.share(Stamp { block: 1, epoch, fill: 3 });
        let tag = keys.anchor(sum, &[5; BODY]);
        let other = keys::log(&key).tag(&[&[1; TRUSTED_RECORD_LEN], &[2; 8]]);
        core::hint::black_box(compared_until_they_differ(&tag, &other));
        let mut both = [tag, other];
        make_public(both.as_flattened_mut());
        assert_ne!(both[0], both[1]);
    }
}

/// The classical mistake of whoever checks a MAC.
#[inline(never)]
fn compared_until_they_differ(tag: &[u8; 16], other: &[u8; 16]) -> bool {
    tag.iter().zip(other).all(|(one, other)| one == other)
}

#[test]
fn a_volume_tells_of_its_key_whether_what_is_there_is_its_own_and_nothing_else() {
    let use_volumes = |_: &str| {
        use_volume::<Told<ChaCha20Poly1305>>();
        use_volume::<Told<AsconAead128>>();
        use_volume::<Told<Aes128CcmTag96>>();
    };
    if let Some(leaks) = leaks("volume", use_volumes) {
        let places = leaks.places();
        let verdicts = [
            // There is a key at all.
            "SealedKey::is_filled_in",
            // A unit or ticket verifies: a library's branch, and ours.
            "::decrypt_inout",
            "map_err<(), aead::Error",
            "is_ok<(), atrest_cipher::aead::OpenError>",
            "<atrest_cipher::aead::ascon::AsconAead128 as atrest_cipher::aead::Aead>::open",
            // The store is of this volume: two bytes, which stand in it.
            "load<",
            // The record confirms the medium. In programs built for tests `subtle` asserts that its verdict is one of two.
            "::compare (mount.rs",
            "from (",
        ];
        let is_verdict = |place: &&str| verdicts.iter().any(|verdict| place.contains(verdict));
        assert!(places.iter().all(is_verdict), "{leaks}");
        let seen = |verdict: &str| places.iter().any(|place| place.contains(verdict));
        assert!(
            seen("::decrypt_inout") && seen("::compare (mount.rs"),
            "the verdicts are not seen:\n{leaks}"
        );
    }
}

/// A cipher whose verdicts are public, and what it opens.
struct Told<A>(A);

impl<A: Aead> Aead for Told<A> {
    const NAME: &'static str = A::NAME;
    const KEY_LEN: usize = A::KEY_LEN;

    type Nonce = A::Nonce;
    type Tag = A::Tag;

    fn new(key: &[u8]) -> Result<Self, KeyError> {
        A::new(key).map(Self)
    }

    fn seal(&self, nonce: &A::Nonce, associated: &[u8], data: &mut [u8]) -> Result<A::Tag, SealError> {
        self.0.seal(nonce, associated, data)
    }

    fn open(
        &self,
        nonce: &A::Nonce,
        associated: &[u8],
        data: &mut [u8],
        tag: &A::Tag,
    ) -> Result<(), OpenError> {
        let opened = is_public(self.0.open(nonce, associated, data, tag).is_ok());
        make_public(data);
        if opened { Ok(()) } else { Err(OpenError::Forged) }
    }
}

/// Everything that a user does. What reaches the medium or the store is public from there on.
fn use_volume<A: Aead>() {
    let volume_key = secret(32);
    let key = SealedKey { volume_key: &volume_key, uuid: &UUID, header: None };
    let medium = SharedFlash::new(EmulatedFlash::new(geometry()));
    let store = TrustedMemory::new();
    let parts = || (Public(medium.clone()), Public(store.clone()), &key, OPTIONS, table(), vec![0; 256]);

    let (device, record, key, options, states, buffer) = parts();
    let volume =
        SealedFlash::<A, _, _, _, _>::format(device, record, key, options, states, buffer, &mut OsRandom);
    let mut volume = volume.expect("formats");
    let (unit, block) = (volume.geometry().prog_size(), volume.geometry().erase_size());
    let data = secret(unit as usize);
    volume.erase(0, 3 * u64::from(block)).expect("erases");
    for address in [0, block, 2 * block, 2 * block + unit] {
        volume.prog(address.into(), &data).expect("programs");
    }
    volume.erase(block.into(), block.into()).expect("erases");
    volume.sync().expect("syncs");
    volume.prog(block.into(), &data).expect("programs");
    drop(volume);

    // After a power loss, and after an end in good order.
    for _ in 0..2 {
        let (device, record, key, options, states, buffer) = parts();
        let volume =
            SealedFlash::<A, _, _, _, _>::mount(device, record, key, options, states, buffer, &mut OsRandom);
        let mut volume = volume.expect("mounts");
        let mut read = vec![0; unit as usize];
        volume.read(block.into(), &mut read).expect("reads");
        make_public(&mut read);
        assert!((0..).zip(read).all(|(i, byte)| byte == i as u8));
        volume.close().expect("closes");
    }
}

fn geometry() -> FlashGeometry {
    FlashGeometry::new(1, 32, 1024, BLOCKS).expect("a geometry")
}

fn table() -> Vec<BlockState> {
    vec![BlockState::default(); BLOCKS as usize]
}

/// Bytes that valgrind takes for undefined.
fn secret(len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
    make_secret(&mut bytes);
    bytes
}

/// A medium or a store: what is written to it anybody can read.
struct Public<T>(T);

impl FlashDevice for Public<SharedFlash> {
    fn geometry(&self) -> FlashGeometry {
        self.0.geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.0.read(address, buf)
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        let mut data = data.to_vec();
        make_public(&mut data);
        self.0.prog(address, &data)
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.0.erase(address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.0.sync()
    }
}

impl TrustedStore for Public<TrustedMemory> {
    fn load(&mut self) -> Result<Option<[u8; TRUSTED_RECORD_LEN]>, TrustedStoreError> {
        self.0.load()
    }

    fn store(&mut self, record: &[u8; TRUSTED_RECORD_LEN]) -> Result<(), TrustedStoreError> {
        let mut record = *record;
        make_public(&mut record);
        self.0.store(&record)
    }
}
