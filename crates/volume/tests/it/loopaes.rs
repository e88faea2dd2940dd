//! loop-AES volumes against aespipe, which has loop-AES's own code.

use std::fs;

use atrest_cipher::DataUnitIndex;
use atrest_format::loopaes::KeyFileError;
use atrest_kdf::Hash;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Campaign, FaultDevice, Random, Scratch};
use atrest_volume::loopaes::{LoopAesError, LoopAesOptions, open};
use atrest_volume::plain::PlainOpenError;
use atrest_volume::{UnlockOptions, VolumeFormat};

/// There is no header: what a hostile hand can change is the key file.
const DEFECTS: Campaign = Campaign::new("key files of loop-AES with one defect", 300, 3000);

/// So many lines of random letters, as loop-AES's instructions have them made.
fn key_file(lines: usize, random: &mut Random) -> Vec<u8> {
    let mut line = || (0..60).map(|_| b'!' + random.below(90) as u8).chain([b'\n']).collect::<Vec<u8>>();
    (0..lines).flat_map(|_| line()).collect()
}

#[test]
fn all_versions_and_key_sizes_encrypt_as_aespipe_does() {
    let directory = Scratch::new();
    let mut random = Random::new(20);
    // Every key for two sectors, and some more.
    let plain = random.bytes(130 * 512);
    for (lines, key_len) in [1, 64, 65].into_iter().flat_map(|lines| [16, 24, 32].map(|len| (lines, len))) {
        let keys = key_file(lines, &mut random);
        let path = directory.path("keys");
        fs::write(&path, &keys).expect("a file");
        for first in [0, 1000_u64] {
            let aespipe =
                Program::named("aespipe").arg("-P").arg(&path).arg("-e").arg(format!("AES{}", key_len * 8));
            let encrypted = aespipe.arg("-O").arg(first.to_string()).stdin(plain.clone()).ok().stdout;
            let device = FaultDevice::zeroed(first as usize * 512 + plain.len());
            let options = LoopAesOptions { key_len, offset: first, ..LoopAesOptions::default() };
            let volume = open(&device, &options, &keys, &UnlockOptions::default()).expect("opens");
            assert_eq!((volume.format(), volume.size()), (VolumeFormat::LoopAes, plain.len() as u64));
            let segment = &volume.segments()[0];
            assert_eq!(segment.media_offset, first * 512);
            let mut run = plain.clone();
            segment.protection.encrypt(DataUnitIndex(0), &mut run).expect("whole sectors");
            assert!(run == encrypted, "{lines} lines, {key_len} bytes, sector {first}");
            segment.protection.decrypt(DataUnitIndex(0), &mut run).expect("whole sectors");
            assert!(run == plain);
        }
    }
}

#[test]
fn what_makes_no_volume_is_refused_by_its_reason() {
    let device = FaultDevice::zeroed(4096);
    let keys = key_file(64, &mut Random::new(20));
    let refused = |options: &LoopAesOptions, keys: &[u8]| {
        open(&device, options, keys, &UnlockOptions::default()).expect_err("refused")
    };
    let usual = LoopAesOptions::default();
    assert_eq!(refused(&usual, &keys[61..]), LoopAesError::KeyFile(KeyFileError::Lines(63)));
    let odd = LoopAesOptions { key_len: 20, ..usual.clone() };
    assert_eq!(refused(&odd, &keys), LoopAesError::Hash { key_len: 20 });
    let short = LoopAesOptions { hash: Some(Hash::Sha1), ..usual.clone() };
    assert_eq!(refused(&short, &keys), LoopAesError::Hash { key_len: 32 });
    let unknown = LoopAesOptions { cipher: "rot13".into(), ..usual.clone() };
    assert!(matches!(refused(&unknown, &keys), LoopAesError::Cipher(_)));
    let outside = LoopAesOptions { offset: 9, ..usual.clone() };
    assert!(matches!(refused(&outside, &keys), LoopAesError::Plain(PlainOpenError::Options(_))));
    let hashed = LoopAesOptions { hash: Some(Hash::Sha256), ..usual };
    open(&device, &hashed, &keys, &UnlockOptions::default()).expect("32 bytes are enough");
}

#[test]
fn three_hundred_key_files_with_one_defect_are_refused_or_are_other_keys_and_nothing_is_written() {
    let mut seen = [0_usize; 2];
    DEFECTS.run(|_, random| {
        let lines = *random.pick(&[1_usize, 64, 65]);
        let sound = key_file(lines, random);
        let device = FaultDevice::zeroed(4096);
        let opened = |keys: &[u8]| open(&device, &LoopAesOptions::default(), keys, &UnlockOptions::default());
        let decrypted = |keys: &[u8]| {
            let volume = opened(keys)?;
            let mut run = vec![0; 4096];
            volume.segments()[0].protection.decrypt(DataUnitIndex(0), &mut run).expect("whole sectors");
            Ok(run)
        };
        let right = decrypted(&sound).expect("it is sound");
        let mut keys = sound.clone();
        let (at, line) = (random.index(keys.len()), random.index(lines) * 61);
        match random.below(6) {
            0 => keys[at] ^= 1 << random.below(8),
            1 => drop(keys.remove(at)),
            2 => keys.insert(at, b'\n'),
            3 => keys.truncate(at),
            4 => drop(keys.drain(line..line + 61)),
            _ => keys.extend_from_within(line..line + 61),
        }
        match decrypted(&keys) {
            // Eight sectors in a row have eight keys, and the changed one may be none of them. An empty line is no line.
            Ok(run) => {
                let empty = keys.len() == sound.len() + 1;
                assert!(run != right || lines > 1 || empty, "the one key has no part in it");
                assert!(keys.len() <= sound.len() + 61 && keys.ends_with(b"\n"));
                seen[0] += 1;
            }
            Err(LoopAesError::KeyFile(error)) => {
                assert!(!error.to_string().is_empty());
                seen[1] += 1;
            }
            Err(other) => panic!("{other}"),
        }
        assert!(device.recording().events().is_empty(), "something was written");
    });
    println!("{} key files are other keys, {} are refused", seen[0], seen[1]);
    assert!(!Campaign::is_sample() || (seen[0] > 30 && seen[1] > 100), "{seen:?}");
}
