//! Small volumes with cheap key derivation, in memory and in files.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use atrest_cipher::CipherSpec;
use atrest_testkit::FaultDevice;
use atrest_volume::luks2::{self, Luks2};
use atrest_volume::{
    Devices, FormatOptions, KeyslotOptions, Passphrase, PbkdfKind, PbkdfOptions, UnlockOptions,
};

/// Room for eight keyslots of 64-byte keys.
pub const KEYSLOTS_SIZE: u64 = 8 * 258_048;
/// A header of two 16 KiB copies and such a keyslots area, and 1 MiB of data.
pub const DEVICE_SIZE: usize = 0x8000 + KEYSLOTS_SIZE as usize + (1 << 20) + 0x10_0000;

pub fn passphrase(text: &str) -> Passphrase {
    Passphrase::copy_from(text.as_bytes())
}

pub fn cheap() -> PbkdfOptions {
    PbkdfOptions { kind: Some(PbkdfKind::Pbkdf2), forced_iterations: Some(1000), ..PbkdfOptions::default() }
}

pub fn cheap_argon2(kind: PbkdfKind) -> PbkdfOptions {
    PbkdfOptions {
        kind: Some(kind),
        forced_iterations: Some(4),
        memory_kib: Some(64),
        lanes: Some(2),
        ..PbkdfOptions::default()
    }
}

pub fn keyslot() -> KeyslotOptions {
    KeyslotOptions { pbkdf: cheap(), ..KeyslotOptions::default() }
}

pub fn in_slot(slot: u32) -> KeyslotOptions {
    KeyslotOptions { slot: Some(slot), ..keyslot() }
}

pub fn small() -> FormatOptions {
    FormatOptions { keyslots_size: Some(KEYSLOTS_SIZE), keyslot: keyslot(), ..FormatOptions::default() }
}

pub fn spec(text: &str) -> CipherSpec {
    CipherSpec::from_str(text).expect("a cipher")
}

/// A fresh volume in memory that opens with "one".
pub fn volume() -> (FaultDevice, Luks2) {
    let device = FaultDevice::zeroed(DEVICE_SIZE);
    let luks = luks2::format(Devices::together(&device), &passphrase("one"), &small()).expect("formats");
    device.forget();
    (device, luks)
}

/// The keyslot that opens, if any does.
pub fn opens(device: &FaultDevice, text: &str) -> Option<u32> {
    let luks = Luks2::read(device).expect("the header opens");
    let volume = luks.unlock(Devices::together(device), &passphrase(text), &UnlockOptions::default()).ok()?;
    volume.keyslot()
}

pub fn save(device: &FaultDevice, directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, device.image()).expect("write the image");
    path
}

pub fn load(path: &Path) -> FaultDevice {
    FaultDevice::new(std::fs::read(path).expect("read the image"))
}

pub fn key_file(directory: &Path, text: &str) -> PathBuf {
    let path = directory.join(format!("key-{text}"));
    std::fs::write(&path, text).expect("write the key file");
    path
}
