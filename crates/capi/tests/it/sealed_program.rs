//! Sealed flash from C: a program in C tries what is refused and what an attacker and power cuts bring about, and leaves a volume that Rust
//! opens.

use atrest_cipher::aead::AsconAead128;
use atrest_cipher::{CipherSpec, DataUnitIndex, Mapper, MapperOptions};
use atrest_device::{FlashDevice, FlashGeometry, FlashRegion, TRUSTED_RECORD_LEN};
use atrest_flash::FlashHeader;
use atrest_flash::sealed::{BlockState, SealedFlash, SealedKey, SealedLayout, SealedOptions};
use atrest_keyslot::flash::{AnyKdf, CmacSecret, DeviceCmac, DeviceSecret, DeviceSecretError, FlashKey};
use atrest_secret::OsRandom;
use atrest_testkit::Scratch;
use atrest_testkit::flash::{EmulatedFlash, TrustedMemory};
use atrest_testkit::oracle::Program;

use crate::c_program::build;

/// Sizes as in `sealed.c`.
const GEOMETRY: (u32, u32, u64) = (16, 1024, 12);

/// The chip of `sealed.c`.
struct Chip;

impl DeviceSecret for Chip {
    fn mac(&mut self, message: &[u8; 56], out: &mut [u8; 32]) -> Result<(), DeviceSecretError> {
        *out = std::array::from_fn(|i| message[i] ^ message[55 - i] ^ 0x5a);
        Ok(())
    }
}

impl DeviceCmac for Chip {
    fn cmac(&mut self, message: &[u8; 57], out: &mut [u8; 16]) -> Result<(), DeviceSecretError> {
        *out = std::array::from_fn(|i| message[i] ^ message[56 - i] ^ 0x5a);
        Ok(())
    }
}

#[test]
fn sealed_flash_in_c_refuses_attacks_survives_power_cuts_and_is_read_by_rust() {
    let scratch = Scratch::new();
    let program = build(scratch.as_path(), "sealed.c", &[]);
    let left = scratch.path("left");
    let ran = Program::at(&program).arg(&left).run();
    assert!(ran.is_ok(), "{}", ran.text());

    let mut uuid = [0; 16];
    uuid[0] = 9;
    let derived = |device: &mut dyn DeviceSecret| {
        let mut key = FlashKey::empty();
        key.of_device(device, b"label", &uuid, 32).expect("the chip answers");
        hex(key.expose())
    };
    let lines: Vec<String> = ran.text().lines().map(str::to_owned).collect();
    assert_eq!(lines, [derived(&mut Chip), derived(&mut CmacSecret(Chip)), hex(&encrypted())]);
    read_back(&std::fs::read(&left).expect("what the program has left"));
}

/// What stands on a medium whose first unit is all 0x41, by a cipher that is not the library's own path.
fn encrypted() -> [u8; 32] {
    let mut key = [0; 32];
    key[..3].copy_from_slice(&[1, 2, 3]);
    let spec: CipherSpec = "aes-xts-plain64".parse().expect("a specification");
    let mapper = Mapper::new(&spec, &key, &MapperOptions::default()).expect("a good key");
    let mut unit = [0x41; 512];
    mapper.encrypt(DataUnitIndex(0), &mut unit).expect("encrypts");
    *unit.first_chunk().expect("bytes")
}

fn read_back(bytes: &[u8]) {
    let (prog, erase, blocks) = GEOMETRY;
    let geometry = FlashGeometry::new(1, prog, erase, blocks).expect("sizes");
    let (image, record) = bytes.split_at(geometry.size() as usize);
    let mut medium = EmulatedFlash::new(geometry);
    for (at, unit) in
        image.chunks(prog as usize).enumerate().filter(|(_, unit)| unit.iter().any(|byte| *byte != 0xff))
    {
        medium.prog(at as u64 * u64::from(prog), unit).expect("programs");
    }
    let mut store = TrustedMemory::new();
    let record: &[u8; TRUSTED_RECORD_LEN] = record.first_chunk().expect("a record");
    atrest_device::TrustedStore::store(&mut store, record).expect("stores");

    let header = FlashHeader::open(medium, [0; 16]).expect("a header");
    let mut key = FlashKey::empty();
    assert!(header.unlock(None, b"tiger", &mut AnyKdf, None, &mut key).is_err());
    header.unlock(None, b"lion", &mut AnyKdf, None, &mut key).expect("the passphrase");
    let params = *header.header().expect("a header").params();
    let layout = SealedLayout::of(&params).expect("a layout");
    let found = header.found().expect("a header");
    let device = FlashRegion::new(
        header.into_device(),
        params.sizes.first_data_block(),
        layout.medium().block_count(),
    );
    let key = SealedKey { volume_key: key.expose(), uuid: key.uuid(), header: Some(found) };
    let options = SealedOptions::of(&params).expect("sealed");
    let (table, buffer) =
        (vec![BlockState::default(); blocks as usize], vec![0; layout.buffer_len() as usize]);
    let mut volume: SealedFlash<AsconAead128, _, _, _, _> =
        SealedFlash::mount(device.expect("blocks"), store, &key, options, table, buffer, &mut OsRandom)
            .expect("opens");
    let mut unit = vec![0; layout.payload() as usize];
    volume.read(0, &mut unit).expect("reads");
    assert!(unit.starts_with(b"sealed in C, to be read in Rust"));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
