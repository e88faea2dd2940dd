//! What is left behind where work with keys ends, well or badly: nothing. And what must never be the same twice.

use atrest_cipher::{AesXts, KeyPlace};
use atrest_kdf::Hash;
use atrest_kdf::fixed::Sha256;
use atrest_keyslot::af::{self, AfError};
use atrest_keyslot::flash::{
    AnyKdf, AtMost, ChipKdfs, Derive, DeriveError, Derived, DeviceSecret, DeviceSecretError, FlashKey,
    Header, HeaderEdit, HeaderError, HmacSecret, KdfCost, Params, SlotError, SlotKdf, check_passphrase,
    open_slot, seal_slot,
};
use atrest_keyslot::luks1::{self, ChipKey, ChipUnlock};
use atrest_secret::{OsRandom, Random, RandomError, SecretArray};
use atrest_testkit::memory::round_keys;

use crate::flash::{FEW, header, params, resummed, volume_key};
use crate::luks1::parts;
use crate::luks1_stream::{key_of, volume};

/// A source that fails after some calls.
struct FailsAfter(u32);

impl Random for FailsAfter {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        self.0 = self.0.checked_sub(1).ok_or(RandomError)?;
        OsRandom.fill(out)
    }
}

#[test]
fn a_split_that_fails_half_way_leaves_no_accumulated_stripe() {
    for calls in 0..3 {
        let mut out = [0x5a; 4 * 32 + 8];
        let failed = af::split(Hash::Sha256, &[7; 32], 4, &mut FailsAfter(calls), &mut out);
        assert_eq!(failed, Err(AfError::Random(RandomError)));
        assert_eq!(out[3 * 32..4 * 32], [0; 32], "after {calls}");
        assert_eq!(out[4 * 32..], [0x5a; 8], "what is behind the stripes is not touched");
    }
    let mut out = [0x5a; 4 * 32 + 8];
    af::split(Hash::Sha256, &[7; 32], 4, &mut FailsAfter(3), &mut out).expect("it takes three stripes");
    assert_eq!(out[4 * 32..], [0x5a; 8]);
}

#[test]
fn the_same_key_is_never_split_into_the_same_stripes() {
    let split = || {
        let mut out = [0; 4 * 32];
        af::split(Hash::Sha256, &[7; 32], 4, &mut OsRandom, &mut out).expect("splits");
        out
    };
    let (a, b) = (split(), split());
    assert!(a.chunks(32).zip(b.chunks(32)).all(|(a, b)| a != b));
    assert!(a.chunks(32).all(|stripe| stripe != [7; 32] && stripe != [0; 32]));
}

#[test]
fn an_area_that_could_not_be_sealed_holds_nothing() {
    let key: Vec<u8> = (0..64).collect();
    let header = luks1::Header::new(&parts(64)).expect("valid");
    let mut area = vec![0x5a; header.area(0).expect("a slot").1];
    let random = &mut FailsAfter(10);
    let failed = luks1::seal(&header, 0, b"one", (1000, &[7; 32]), &key, random, &mut area);
    assert_eq!(failed, Err(luks1::SlotError::Af(AfError::Random(RandomError))));
    assert!(area.iter().all(|byte| *byte == 0), "stripes are left");
}

#[test]
fn whatever_keeps_a_keyslot_from_opening_area_and_key_are_wiped() {
    let mut header = luks1::Header::new(&parts(64)).expect("valid");
    header.use_slot(0, 1000, [7; 32]).expect("a slot");
    let len = header.area(0).expect("a slot").1;
    for (number, area_len, key_len) in
        [(0, len, 64), (0, len, 63), (0, len - 512, 64), (1, len, 64), (8, len, 64)]
    {
        let (mut area, mut key) = (vec![0x5a; area_len], vec![0x5a; key_len]);
        luks1::open(&header, number, b"one", &mut area, &mut key).expect_err("does not open");
        assert!(area.iter().chain(&key).all(|byte| *byte == 0), "{number} {area_len} {key_len}");
    }
}

#[test]
fn a_chip_keeps_no_round_keys_and_no_older_key() {
    let key = key_of(64);
    let (header, device) = volume::<Sha256>(&key, 11);
    let mut place = Box::new(KeyPlace::<AesXts>::empty());
    let (mut opened, mut sector) = (ChipKey::empty(), Box::new([0xa5; 512]));
    let read = |number: u64, sector: &mut Box<[u8; 512]>| {
        sector.copy_from_slice(&device[number as usize * 512..][..512]);
        Ok::<(), ()>(())
    };
    for (passphrase, expected) in [(&b"secret"[..], &key[..]), (b"Secret", &[])] {
        let mut means = ChipUnlock { cipher: &mut place, most_iterations: 1003, between: |_| {} };
        let result = means.open::<Sha256, _, _>(&header, 1, passphrase, &mut sector, read, &mut opened);
        assert_eq!((result.is_ok(), opened.expose()), (!expected.is_empty(), expected));
        assert!(round_keys(&*place).is_empty(), "the area's key is left in the cipher's memory");
        assert_eq!(*sector, [0; 512]);
    }
    // What shows round keys would show them.
    place.expand(&key, &Default::default()).expect("a key");
    assert!(!round_keys(&*place).is_empty());
}

#[test]
fn a_key_that_was_there_is_gone_when_the_next_one_does_not_open() {
    let params = params();
    let bytes = header(&params, &[(0, b"pass", FEW)]);
    let header = Header::parse(&bytes).expect("a header");
    let slot = header.slot(0).expect("a key");
    assert!(header.slot(4).is_none() && header.slot(1).is_none());
    let mut key = volume_key(&params);
    assert_eq!(key.uuid(), &params.uuid);
    let wrong = open_slot(&params, &slot, &Derived::zeroed(), None, &mut key);
    assert_eq!(wrong, Err(SlotError::WrongKey));
    assert_eq!((key.expose(), key.uuid()), (&[][..], &[0; 16]));
    assert!(round_keys(&key).is_empty(), "its bytes are still there");

    let mut key = volume_key(&params);
    assert!(!round_keys(&key).is_empty());
    key.clear();
    assert_eq!((key.expose(), key.uuid()), (&[][..], &[0; 16]));
    assert!(round_keys(&key).is_empty(), "its bytes are still there");
    // A key that is longer than any.
    let long = Params { key_len: 65, ..params };
    assert_eq!(key.generate(&long, &mut OsRandom), Err(SlotError::OtherVolume));
    assert!(key.expose().is_empty());
}

#[test]
fn salts_and_keys_are_other_ones_each_time() {
    let kdf = || SlotKdf::generate(FEW, &mut OsRandom).expect("random bytes");
    let (a, b) = (kdf(), kdf());
    assert!(a.salt.chunks(4).zip(b.salt.chunks(4)).all(|(a, b)| a != b));
    let key = || {
        let mut key = FlashKey::empty();
        key.generate(&params(), &mut OsRandom).expect("random bytes");
        key.expose().to_vec()
    };
    let (a, b) = (key(), key());
    assert_eq!(a.len(), 64);
    assert!(a.chunks(4).zip(b.chunks(4)).all(|(a, b)| a != b));
}

/// A chip whose secret was wiped.
struct Silent;

impl DeviceSecret for Silent {
    fn mac(&mut self, _: &[u8; 56], _: &mut [u8; 32]) -> Result<(), DeviceSecretError> {
        Err(DeviceSecretError)
    }
}

#[test]
fn the_chip_alone_opens_nothing_and_neither_does_a_chip_that_is_silent() {
    let params = params();
    let kdf = SlotKdf { cost: FEW, salt: [9; 16] };
    let (mut right, mut wrong) = (Derived::zeroed(), Derived::zeroed());
    kdf.derive(b"pass", &mut AnyKdf, &mut right).expect("a derivation");
    kdf.derive(b"word", &mut AnyKdf, &mut wrong).expect("a derivation");
    let mut chip = HmacSecret::new(SecretArray::new([1; 32]));
    let sealed = seal_slot(&params, &kdf, &right, Some(&mut chip), &volume_key(&params)).expect("a key");
    let silent = seal_slot(&params, &kdf, &right, Some(&mut Silent), &volume_key(&params));
    assert_eq!(silent.err(), Some(SlotError::Device(DeviceSecretError)));
    let mut bytes = header(&params, &[]);
    let mut edit = HeaderEdit::change(&mut bytes).expect("a header");
    assert!(edit.put_slot(0, Some(&sealed)));
    edit.finish(8);
    let header = Header::parse(&bytes).expect("a header");
    let slot = header.slot(0).expect("a key");
    let mut key = FlashKey::empty();
    assert_eq!(open_slot(&params, &slot, &wrong, Some(&mut chip), &mut key), Err(SlotError::WrongKey));
    let refused = open_slot(&params, &slot, &right, Some(&mut Silent), &mut key);
    assert_eq!(refused, Err(SlotError::Device(DeviceSecretError)));
    assert!(key.expose().is_empty());
    assert_eq!(open_slot(&params, &slot, &right, Some(&mut chip), &mut key), Ok(()));
    assert_eq!(key.expose(), volume_key(&params).expose());
}

#[test]
fn nothing_is_hidden_behind_a_short_key_or_in_an_emptied_keyslot() {
    let short = Params { key_len: 32, ..params() };
    let good = header(&short, &[(1, b"pass", FEW)]);
    let slot = 64 + 104;
    for at in [slot + 32 + 40, slot + 103] {
        let changed = resummed(good, |bytes| bytes[at] = 1);
        assert_eq!(Header::parse(&changed).err(), Some(HeaderError::SlotJunk { slot: 1 }), "{at}");
    }
    for at in [64, 64 + 103, 64 + 3 * 104 + 1] {
        let changed = resummed(good, |bytes| bytes[at] = if bytes[at] == 0 && at == 64 { 3 } else { 1 });
        assert!(Header::parse(&changed).is_err(), "{at}");
    }
    let mut bytes = good;
    let mut edit = HeaderEdit::change(&mut bytes).expect("a header");
    assert!(edit.put_slot(1, None));
    edit.finish(8);
    assert_eq!(bytes[64..480], [0; 416], "the wrapped key is still there");
    assert_eq!(Header::parse(&bytes).expect("a header").sequence(), 8);
}

#[test]
fn what_is_not_derived_leaves_no_older_key() {
    let mut out = [7; 32];
    let mut bounded = AtMost { work: 19, kdf: AnyKdf };
    let refused = bounded.derive(&FEW, b"pass", &[3; 16], &mut out);
    assert_eq!((refused, out), (Err(DeriveError::TooMuchWork { work: 20, most: 19 }), [0; 32]));
    bounded.work = 20;
    assert_eq!(bounded.derive(&FEW, b"pass", &[3; 16], &mut out), Ok(()));
    assert_ne!(out, [0; 32]);

    // Passphrases of a length that is not taken are not derived from at all.
    let mut memory = vec![0; 128 << 10];
    let mut derived = Derived::zeroed();
    let kdf = SlotKdf { cost: KdfCost::catena(5), salt: [3; 16] };
    let chip = &mut ChipKdfs { memory: &mut memory, between: |_| {} };
    assert_eq!(kdf.derive(b"", chip, &mut derived), Err(SlotError::EmptyPassphrase));
    assert_eq!(*derived, [0; 32]);
    assert_eq!(check_passphrase(&[1; 4096]), Ok(()));
    assert_eq!(check_passphrase(&[1; 4097]), Err(SlotError::PassphraseTooLong { len: 4097 }));
    assert_eq!(check_passphrase(&[1]), Ok(()));
    kdf.derive(b"pass", chip, &mut derived).expect("a derivation");
    assert!(memory.iter().all(|byte| *byte == 0), "Catena's memory depends on the passphrase");
}

/// Each derivation by what it is a name for.
#[test]
fn all_derivations_are_those_that_the_header_names() {
    let salt = [3; 16];
    let derive = |cost: KdfCost| {
        let mut out = [0; 32];
        AnyKdf.derive(&cost, b"pass", &salt, &mut out).expect("a derivation");
        out
    };
    let mut expected = [0; 32];
    atrest_kdf::pbkdf2(Hash::Sha256, b"pass", &salt, 10, &mut expected).expect("a derivation");
    assert_eq!(derive(FEW), expected);
    let cost = atrest_kdf::Argon2Cost { kind: atrest_kdf::Argon2Kind::Id, time: 3, memory_kib: 64, lanes: 2 };
    atrest_kdf::argon2(&cost, b"pass", &salt, &mut expected).expect("a derivation");
    assert_eq!(derive(KdfCost::Argon2id { time: 3, memory_kib: 64, lanes: 2 }), expected);
    let all = [FEW, KdfCost::catena(5), KdfCost::Argon2id { time: 3, memory_kib: 64, lanes: 2 }];
    assert_eq!(all.map(|cost| cost.name()), ["pbkdf2", "catena-brg", "argon2id"]);
}
