//! Volumes in memory that cost milliseconds.

use atrest_kdf::Hash;
use atrest_testkit::FaultDevice;
use atrest_volume::{
    Credential, Devices, FormatOptions, KeyslotOptions, Passphrase, PbkdfOptions, UnlockError, Volume,
    VolumeKey,
    luks1::{self, Luks1},
};

/// Data of the small volume starts here.
pub const DATA_OFFSET: u64 = 1 << 20;
/// Bytes of plaintext in the small volume.
pub const DATA_LEN: u64 = 64 << 10;

pub fn pass(text: &str) -> Passphrase {
    Passphrase::copy_from(text.as_bytes())
}

/// The fewest iterations that are allowed.
pub fn fast() -> KeyslotOptions {
    KeyslotOptions {
        pbkdf: PbkdfOptions { forced_iterations: Some(1000), ..Default::default() },
        ..Default::default()
    }
}

pub fn in_slot(slot: u32) -> KeyslotOptions {
    KeyslotOptions { slot: Some(slot), ..fast() }
}

pub fn options(cipher: &str, key_len: usize, hash: Hash) -> FormatOptions {
    FormatOptions {
        cipher: Some(cipher.parse().expect("a known cipher")),
        key_len: Some(key_len),
        hash: Some(hash),
        keyslot: fast(),
        ..Default::default()
    }
}

/// Small areas: 16 bytes of key in 4000 stripes are 125 sectors.
pub fn small_options() -> FormatOptions {
    options("aes-cbc-essiv:sha256", 16, Hash::Sha256)
}

/// A volume of 64 KiB in a device without history, whose keyslot 0 opens with `one`.
pub fn small() -> (FaultDevice, Luks1) {
    let device = FaultDevice::zeroed((DATA_OFFSET + DATA_LEN) as usize);
    let volume = luks1::format(Devices::together(&device), &pass("one"), &small_options()).expect("formats");
    device.forget();
    (device, volume)
}

/// A volume of 64 KiB in a device without history, with these passphrases in keyslots 0, 1, 2 and so on. The first must be
/// `one`.
pub fn small_with(passphrases: &[&str]) -> (FaultDevice, Luks1) {
    let (device, mut volume) = small();
    for (slot, text) in passphrases.iter().enumerate().skip(1) {
        let number =
            volume.add_key(&device, Credential::Passphrase(&pass("one"), None), &pass(text), &fast());
        assert_eq!(number, Ok(slot as u32));
    }
    device.forget();
    (device, volume)
}

/// The keyslot that opens with a passphrase on what is on a device now.
pub fn opens(device: &FaultDevice, text: &str) -> Result<u32, UnlockError> {
    Luks1::read(device).expect("a header").test_passphrase(device, &pass(text), None)
}

/// Whether a passphrase opens the volume in a bare image.
pub fn image_opens(image: Vec<u8>, text: &str) -> bool {
    opens(&FaultDevice::new(image), text).is_ok()
}

/// All plaintext of a volume on an image.
pub fn plaintext(volume: &Volume, image: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for segment in volume.segments() {
        let at = segment.media_offset as usize;
        let mut run = image[at..at + segment.len as usize].to_vec();
        segment.protection.decrypt(atrest_cipher::DataUnitIndex(0), &mut run).expect("whole units");
        out.extend_from_slice(&run);
    }
    out
}

/// Encrypts plaintext into the only segment of a volume.
pub fn fill(volume: &Volume, image: &mut [u8], plaintext: &[u8]) {
    let [segment] = volume.segments() else { panic!("one segment") };
    let at = segment.media_offset as usize;
    let run = &mut image[at..at + plaintext.len()];
    run.copy_from_slice(plaintext);
    segment.protection.encrypt(atrest_cipher::DataUnitIndex(0), run).expect("whole units");
}

pub fn key_bytes(key: &VolumeKey) -> Vec<u8> {
    key.expose().to_vec()
}
