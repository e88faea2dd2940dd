//! Plain mode against libcryptsetup's keys and OpenSSL's AES, which know nothing of our code.

use atrest_cipher::DataUnitIndex;
use atrest_kdf::plain::PlainHashError;
use atrest_testkit::oracle::Program;
use atrest_testkit::{FaultDevice, Random};
use atrest_volume::plain::{self, PlainError, PlainKey, PlainOpenError, PlainOptions};
use atrest_volume::{Passphrase, UnlockOptions, Volume, VolumeFormat};

/// Asks libcryptsetup for the key that plain mode makes out of a passphrase (hash `-` is no hash).
const LIBCRYPTSETUP: &str = r#"
import ctypes, sys, tempfile
library = ctypes.CDLL("libcryptsetup.so.12")
class Params(ctypes.Structure):
    _fields_ = [("hash", ctypes.c_char_p), ("offset", ctypes.c_uint64), ("skip", ctypes.c_uint64),
                ("size", ctypes.c_uint64), ("sector_size", ctypes.c_uint32)]
name, length, passphrase = sys.argv[1].encode(), int(sys.argv[2]), bytes.fromhex(sys.argv[3])
with tempfile.NamedTemporaryFile() as image:
    image.truncate(1 << 20)
    device = ctypes.c_void_p()
    assert library.crypt_init(ctypes.byref(device), image.name.encode()) == 0
    params = Params(None if name == b"-" else name, 0, 0, 0, 0)
    size = ctypes.c_size_t(length)
    assert library.crypt_format(device, b"PLAIN", b"aes", b"cbc-essiv:sha256", None, None, size, ctypes.byref(params)) == 0
    key = ctypes.create_string_buffer(length)
    if library.crypt_volume_key_get(device, -1, key, ctypes.byref(size), passphrase, ctypes.c_size_t(len(passphrase))):
        print("refused")
    else:
        print(key.raw.hex())
"#;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn libcryptsetups_key(hash: &str, len: usize, passphrase: &[u8]) -> String {
    let script = Program::named("python3").arg("-c").arg(LIBCRYPTSETUP);
    script.arg(hash).arg(len.to_string()).arg(hex(passphrase)).ok().text().trim().to_owned()
}

#[test]
fn keys_are_libcryptsetups_for_every_hash_rule() {
    for (rule, len) in [
        ("ripemd160", 32),
        ("ripemd160", 64),
        ("sha1", 16),
        ("sha256", 32),
        ("sha256", 64),
        ("sha512", 24),
        ("whirlpool", 32),
        ("sha3-256", 64),
        ("blake2b-512", 32),
        ("sha256:16", 32),
        ("sha1:30", 32),
        ("sha512:40", 32),
        ("plain:5", 32),
        ("plain:20", 32),
    ] {
        for passphrase in [&b"correct horse"[..], b"", b"\0\xff\n", &[b'x'; 300]] {
            let what = format!("{rule} {len} {}", hex(passphrase));
            let mut key = vec![0xee; len];
            let rule_ = rule.parse::<atrest_kdf::plain::PlainHash>().expect(rule);
            let ours = match rule_.derive(passphrase, &mut key) {
                Ok(()) => hex(&key),
                Err(PlainHashError::LongerThanKey { .. } | PlainHashError::PassphraseTooShort { .. }) => {
                    "refused".into()
                }
                Err(error) => panic!("{what}: {error}"),
            };
            assert_eq!(ours, libcryptsetups_key(rule, len, passphrase), "{what}");
        }
    }
}

#[test]
fn the_defaults_are_cryptsetups() {
    let help = Program::named("cryptsetup").arg("--help").ok().text();
    let line =
        help.lines().find(|line| line.trim_start().starts_with("plain:")).expect("a line about plain mode");
    let ours = format!(
        "plain: {}, Key: {} bits, Password hashing: {}",
        plain::DEFAULT_CIPHER,
        plain::DEFAULT_KEY_LEN * 8,
        plain::DEFAULT_HASH
    );
    assert_eq!(line.trim(), ours);
}

/// AES-CBC or AES-ECB of whole blocks by the openssl command.
fn openssl(decrypt: bool, cipher: &str, key: &[u8], iv: Option<&[u8]>, data: &[u8]) -> Vec<u8> {
    let openssl = Program::named("openssl").args(["enc", cipher, "-nopad", "-K", &hex(key)]);
    let openssl = openssl.arg(if decrypt { "-d" } else { "-e" });
    let openssl = match iv {
        Some(iv) => openssl.args(["-iv", &hex(iv)]),
        None => openssl,
    };
    openssl.stdin(data).ok().stdout
}

fn read(volume: &Volume, image: &[u8], unit: u64) -> Vec<u8> {
    let [segment] = volume.segments() else { panic!("one segment") };
    let len = segment.protection.data_unit();
    let at = segment.media_offset as usize + unit as usize * len;
    let mut out = image[at..at + len].to_vec();
    segment.protection.decrypt(DataUnitIndex(unit), &mut out).expect("a whole unit");
    out
}

fn options() -> PlainOptions {
    PlainOptions::new(plain::DEFAULT_CIPHER.parse().expect("known"), plain::DEFAULT_KEY_LEN)
}

/// ESSIV: the IV is the sector number, little-endian, encrypted under the key's hash (dm-crypt.rst).
#[test]
fn offset_and_skip_select_the_sectors_and_ivs_of_dm_crypt() {
    let image = Random::new(3).bytes(256 * 512);
    let device = FaultDevice::new(image.clone());
    let key = hex_bytes(&libcryptsetups_key("ripemd160", 32, b"correct horse"));
    let mut salted = vec![0; 32];
    atrest_kdf::digest(atrest_kdf::Hash::Sha256, &[&key], &mut salted);
    let passphrase = Passphrase::copy_from(b"correct horse");

    for (data_unit, iv_large, offset, skip) in [
        (512, false, 0, 0),
        (512, false, 17, 0),
        (512, false, 17, 1000),
        (4096, false, 16, 64),
        (4096, true, 16, 64),
        (2048, true, 3, 8),
    ] {
        let options = PlainOptions { data_unit, iv_large, offset, skip, size: Some(64), ..options() };
        let source = PlainKey::Passphrase(&passphrase, plain::DEFAULT_HASH);
        let volume = plain::open(&device, &options, source, &UnlockOptions::default()).expect("opens");
        assert_eq!((volume.format(), volume.size(), volume.uuid()), (VolumeFormat::Plain, 64 * 512, None));
        let sectors = u64::from(data_unit) / 512;
        for unit in [0, 1, 5] {
            let sector = skip + unit * sectors;
            let mut number = [0; 16];
            let counted = if iv_large { sector / sectors } else { sector };
            number[..8].copy_from_slice(&counted.to_le_bytes());
            let iv = openssl(false, "-aes-256-ecb", &salted, None, &number);
            let at = ((offset + unit * sectors) * 512) as usize;
            let expected =
                openssl(true, "-aes-256-cbc", &key, Some(&iv), &image[at..at + data_unit as usize]);
            let what = format!("{data_unit} {iv_large} {offset} {skip} {unit}");
            assert!(read(&volume, &image, unit) == expected, "{what}");
        }
    }
    assert!(device.recording().events().is_empty(), "opening writes nothing");
}

/// CTR counts on from the IV and ChaCha from zero under a nonce, which OpenSSL does alike. Nobody has promised that the volume is written once only.
#[test]
fn a_cipher_for_a_single_snapshot_is_read_only_unless_that_is_accepted() {
    // OpenSSL's IV for ChaCha is the last row of the state: the counter, then the nonce.
    for (spec, name, nonce_at) in [
        ("aes-ctr-plain64", "-aes-256-ctr", 0),
        ("chacha20-stream-plain64", "-chacha20", 8),
        ("capi:chacha20-plain64be", "-chacha20", 15),
    ] {
        single_snapshot(spec, name, nonce_at);
    }
}

fn single_snapshot(spec: &str, name: &str, nonce_at: usize) {
    let image = Random::new(4).bytes(64 * 512);
    let device = FaultDevice::new(image.clone());
    let key: Vec<u8> = (0..32).collect();
    let options = PlainOptions::new(spec.parse().expect("known"), key.len());
    let open = |unlock: &UnlockOptions| {
        plain::open(&device, &options, PlainKey::KeyFile(&key), unlock).expect("opens")
    };
    let volume = open(&UnlockOptions::default());
    assert!(volume.read_only());
    let mut iv = [0; 16];
    iv[nonce_at] = 9;
    let expected = openssl(true, name, &key, Some(&iv), &image[9 * 512..10 * 512]);
    assert!(read(&volume, &image, 9) == expected);
    let mut unit = vec![0; 512];
    volume.segments()[0].protection.encrypt(DataUnitIndex(9), &mut unit).expect_err("nobody asked for that");

    let writable = open(&UnlockOptions { single_snapshot: true, ..UnlockOptions::default() });
    assert!(!writable.read_only());
    unit.copy_from_slice(&expected);
    writable.segments()[0].protection.encrypt(DataUnitIndex(9), &mut unit).expect("it was asked for");
    assert!(unit == image[9 * 512..10 * 512]);
}

#[test]
fn a_key_file_is_the_key_unhashed_cut_but_never_padded() {
    let image = Random::new(4).bytes(8192);
    let device = FaultDevice::new(image.clone());
    let key: Vec<u8> = (0..40).collect();
    let options = PlainOptions { cipher: "aes-cbc-plain64".parse().expect("known"), ..options() };
    let open = |bytes| plain::open(&device, &options, PlainKey::KeyFile(bytes), &UnlockOptions::default());
    let volume = open(&key).expect("opens");
    let expected = openssl(true, "-aes-256-cbc", &key[..32], Some(&[0; 16]), &image[..512]);
    assert!(read(&volume, &image, 0) == expected);
    // cryptsetup: "Cannot read requested amount of data."
    assert_eq!(
        open(&key[..31]).expect_err("too short"),
        PlainOpenError::KeyFileTooShort { has: 31, needs: 32 }
    );
}

#[test]
fn options_that_cannot_be_meant_are_refused() {
    let device = FaultDevice::zeroed(4096);
    let passphrase = Passphrase::copy_from(b"x");
    let open = |options: &PlainOptions, rule: &str| {
        let source = PlainKey::Passphrase(&passphrase, rule.parse().expect("a rule"));
        plain::open(&device, options, source, &UnlockOptions::default())
    };
    assert!(matches!(
        open(&PlainOptions { offset: 8, ..options() }, "sha256").expect_err("refused"),
        PlainOpenError::Options(PlainError::BeyondDevice { .. })
    ));
    assert_eq!(
        open(&options(), "sha256:33").expect_err("refused"),
        PlainOpenError::Hash(PlainHashError::LongerThanKey { hash: 33, key: 32 })
    );
    let xts = PlainOptions::new("aes-xts-plain64".parse().expect("known"), 64);
    // "plain" pads with zeros: both halves of the key are not equal here, but they are with no passphrase at all.
    open(&xts, "plain").expect("opens");
    let nothing = Passphrase::copy_from(b"");
    let source = PlainKey::Passphrase(&nothing, atrest_kdf::plain::PlainHash::NONE);
    let error = plain::open(&device, &xts, source, &UnlockOptions::default()).expect_err("refused");
    assert_eq!(error, PlainOpenError::Key(atrest_cipher::KeyError::EqualXtsHalves));
    let accept = UnlockOptions { allow_equal_xts_halves: true, ..Default::default() };
    assert!(plain::open(&device, &xts, source, &accept).expect("opens").read_only());
}

fn hex_bytes(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal"))
        .collect()
}
