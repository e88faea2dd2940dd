//! A keyslot that is read sector by sector opens as the desk opens it whole: the same keys, the same refusals.

use std::cell::Cell;

use atrest_cipher::{AesXts, KeyPlace};
use atrest_kdf::fixed::{FixedHash, Sha1, Sha256, Sha512};
use atrest_keyslot::luks1::{
    self, ChipKey, ChipUnlock, Header, HeaderParts, SlotError, StreamError, check_for_chip,
};
use atrest_secret::OsRandom;

/// What a sector that can't be read is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unreadable(u64);

/// A header whose keyslot 1 opens with `secret`, and the device's bytes up to the end of the areas.
pub fn volume<H: FixedHash>(key: &[u8], stripes: u32) -> (Header, Vec<u8>) {
    let digest = luks1::new_digest(H::HASH, key, &[2; 32], 1000).expect("valid");
    let parts = HeaderParts {
        cipher_name: "aes",
        cipher_mode: "xts-plain64",
        hash: H::HASH,
        key_len: key.len(),
        uuid: "fed8022a-a715-4380-acb3-dd5c0639a0b8",
        data_sector: None,
        alignment: 8,
        digest,
        digest_salt: [2; 32],
        digest_iterations: 1000,
    };
    let header = Header::new(&parts).expect("valid");
    // Stripes of keyslot 1.
    let mut bytes = header.encode();
    bytes[208 + 48 + 44..208 + 48 + 48].copy_from_slice(&stripes.to_be_bytes());
    let mut header = Header::parse(&bytes).expect("shorter areas fit");
    header.use_slot(1, 1003, [7; 32]).expect("a slot");
    let (offset, len) = header.area(1).expect("an area");
    let mut device = vec![0; offset as usize + len];
    let area = &mut device[offset as usize..];
    luks1::seal(&header, 1, b"secret", (1003, &[7; 32]), key, &mut OsRandom, area).expect("sealed");
    (header, device)
}

pub fn key_of(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + 1) as u8).collect()
}

/// What came of a try: the result, the key, the sector buffer, and how often the program was called back.
struct Tried {
    result: Result<(), StreamError<Unreadable>>,
    key: Vec<u8>,
    sector: [u8; 512],
    between: u32,
}

fn try_slot<H: FixedHash>(
    (header, device): (&Header, &[u8]),
    number: usize,
    passphrase: &[u8],
    most_iterations: u32,
    unreadable: Option<u64>,
) -> Tried {
    let mut place = KeyPlace::<AesXts>::empty();
    let mut key = ChipKey::empty();
    let mut sector = Box::new([0xa5; 512]);
    let between = Cell::new(0);
    let count = |_| between.set(between.get() + 1);
    let mut means = ChipUnlock { cipher: &mut place, most_iterations, between: count };
    let read = |number: u64, sector: &mut Box<[u8; 512]>| {
        if unreadable == Some(number) {
            return Err(Unreadable(number));
        }
        sector.copy_from_slice(&device[number as usize * 512..][..512]);
        Ok(())
    };
    let result = means.open::<H, _, _>(header, number, passphrase, &mut sector, read, &mut key);
    Tried { result, key: key.expose().to_vec(), sector: *sector, between: between.get() }
}

/// The desk's answer to the same.
fn desk(header: &Header, device: &[u8], number: usize, passphrase: &[u8]) -> Result<Vec<u8>, SlotError> {
    let (offset, len) = header.area(number).expect("a slot");
    let mut area = device[offset as usize..][..len].to_vec();
    let mut key = vec![0; header.key_len()];
    luks1::open(header, number, passphrase, &mut area, &mut key).map(|()| key)
}

fn opens_as_on_the_desk<H: FixedHash>(key_len: usize, stripes: u32) {
    let what = format!("{} {key_len} {stripes}", H::HASH);
    let key = key_of(key_len);
    let (header, device) = volume::<H>(&key, stripes);
    assert_eq!(desk(&header, &device, 1, b"secret").as_deref(), Ok(&key[..]), "{what}");
    let tried = try_slot::<H>((&header, &device), 1, b"secret", 1003, None);
    assert_eq!((tried.result, &tried.key), (Ok(()), &key), "{what}");
    assert_eq!(tried.sector, [0; 512], "{what}: part of a stripe is left behind");

    let tried = try_slot::<H>((&header, &device), 1, b"Secret", 1003, None);
    assert_eq!((tried.result, tried.key.len()), (Err(SlotError::WrongKey.into()), 0), "{what}");
    assert_eq!(tried.sector, [0; 512], "{what}");
}

#[test]
fn every_key_length_and_split_opens_as_on_the_desk() {
    for key_len in [32, 48, 64] {
        // One stripe; stripes that fill half a sector, straddle the border of two, and the usual number.
        for stripes in [1, 5, 11, 4000] {
            opens_as_on_the_desk::<Sha256>(key_len, stripes);
        }
    }
    opens_as_on_the_desk::<Sha1>(64, 4000);
    opens_as_on_the_desk::<Sha512>(64, 4000);
}

#[test]
fn each_bit_of_an_area_counts_and_nothing_behind_it() {
    let key = key_of(48);
    let (header, device) = volume::<Sha256>(&key, 11);
    let (offset, len) = header.area(1).expect("an area");
    let (split, mut refused) = (48 * 11, 0);
    for at in (0..len).step_by(5) {
        let mut damaged = device.clone();
        damaged[offset as usize + at] ^= 1;
        let tried = try_slot::<Sha256>((&header, &damaged), 1, b"secret", 1003, None);
        let expected = desk(&header, &damaged, 1, b"secret");
        assert_eq!(tried.result, expected.map(|_| ()).map_err(StreamError::Slot), "byte {at}");
        refused += usize::from(tried.result.is_err());
        // AES-XTS spreads a bit over its block of 16 bytes.
        assert_eq!(tried.result.is_err(), at / 16 * 16 < split, "byte {at} of {split}");
    }
    assert!(refused > 100);
}

#[test]
fn what_is_not_for_a_chip_is_refused_before_any_work() {
    let key = key_of(64);
    let (header, device) = volume::<Sha256>(&key, 11);
    let refused = |header: &Header, most: u32| {
        let tried =
            try_slot::<Sha256>((header, &device), 1, b"secret", most, Some(header.area(1).unwrap().0));
        assert!(tried.between == 0 && tried.key.is_empty(), "work was done");
        tried.result
    };
    let changed = |at: usize, bytes: &[u8]| {
        let mut all = header.encode();
        all[at..at + bytes.len()].copy_from_slice(bytes);
        Header::parse(&all).expect("an acceptable header")
    };
    const SLOT: usize = 208 + 48;
    let huge = u32::MAX.to_be_bytes();
    let too_many = |iterations| Err(SlotError::TooManyIterations { iterations, most: 20_000 }.into());
    assert_eq!(refused(&changed(SLOT + 4, &huge), 20_000), too_many(u32::MAX));
    assert_eq!(refused(&changed(164, &huge), 20_000), too_many(u32::MAX), "iterations of the digest");
    for stripes in [4001_u32, 1 << 16] {
        // The area behind all others, and the data elsewhere, so that there is room.
        let mut all = header.encode();
        all[104..108].fill(0);
        all[SLOT + 40..SLOT + 44].copy_from_slice(&10_000_u32.to_be_bytes());
        all[SLOT + 44..SLOT + 48].copy_from_slice(&stripes.to_be_bytes());
        let split = Header::parse(&all).expect("an acceptable header");
        let expected = SlotError::TooManyStripes { stripes, most: 4000 };
        assert_eq!(refused(&split, 20_000), Err(expected.into()));
    }
    let most = SlotError::TooManyIterations { iterations: 1003, most: 1002 };
    assert_eq!(refused(&header, 1002), Err(most.into()));
    assert_eq!(refused(&changed(40, b"cbc-plain64"), 20_000), Err(SlotError::CipherNotHere.into()));
    assert_eq!(refused(&changed(8, b"aesx"), 20_000), Err(SlotError::CipherNotHere.into()));
    assert_eq!(refused(&changed(72, b"sha512"), 20_000), Err(SlotError::HashNotHere.into()));
    assert_eq!(refused(&changed(72, b"crc32\0"), 20_000), Err(SlotError::UnsupportedHash.into()));
    for bytes in [1_u32, 16, 31, 33, 63] {
        let expected = SlotError::KeyLenForCipher { bytes: bytes as usize };
        assert_eq!(refused(&changed(108, &bytes.to_be_bytes()), 20_000), Err(expected.clone().into()));
        assert_eq!(check_for_chip::<Sha256>(&changed(108, &bytes.to_be_bytes())), Err(expected));
    }
    let tried = try_slot::<Sha256>((&header, &device), 0, b"secret", 20_000, None);
    assert_eq!((tried.result, tried.between), (Err(SlotError::NotInUse.into()), 0), "a free keyslot");
    let tried = try_slot::<Sha256>((&header, &device), 8, b"secret", 20_000, None);
    assert_eq!((tried.result, tried.between), (Err(SlotError::NotInUse.into()), 0), "there is none");
}

#[test]
fn the_program_is_called_often_and_a_medium_that_fails_leaves_no_key() {
    let key = key_of(64);
    let (header, device) = volume::<Sha256>(&key, 4000);
    let tried = try_slot::<Sha256>((&header, &device), 1, b"secret", 1003, None);
    // 500 sectors, and PBKDF2 in steps of 64 iterations.
    assert!(tried.between > 500 + 1003 / 64, "{} calls", tried.between);
    let first = header.area(1).expect("an area").0 / 512;
    for sector in [first, first + 250, first + 499] {
        let tried = try_slot::<Sha256>((&header, &device), 1, b"secret", 1003, Some(sector));
        assert_eq!(tried.result, Err(StreamError::Read(Unreadable(sector))));
        assert!(tried.key.is_empty() && tried.sector == [0; 512], "something is left behind");
    }
}
