//! No type that holds a secret prints it in `Debug`: the sources are searched for types that would, and values of the
//! public types are printed.

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use atrest_attach::control::Request;
use atrest_bootimage::compress::Compression;
use atrest_bootimage::cpio::{Archive, Content, Limits, read_chain};
use atrest_bootimage::initramfs::{Contents, build};
use atrest_cipher::aead::{Aead, Aes256Ccm, Aes256Gcm, AsconAead128, ChaCha20Poly1305};
use atrest_cipher::{
    Adiantum, AesBlock, AesGcm, CbcCipher, CbcCts, CbcRuns, Cipher, HPolyC, Hctr2, Mapper, MapperOptions, Xts,
};
use atrest_engine::{Access, Disk, DiskOptions, FileDevice};
use atrest_keyslot::flash::HmacSecret;
use atrest_secret::{Locked, Passphrase, SecretArray, SecretBytes, VolumeKey};
use atrest_testkit::Scratch;
use atrest_tree::ecryptfs::{DEFAULT_SALT, Keys, Token};
use atrest_tree::fscrypt::Keyring;
use atrest_volume::plain::{self, PlainKey, PlainOptions};
use atrest_volume::{Credential, FormatOptions, UnlockOptions};
use zeroize::Zeroizing;

/// Types that derive `Debug` over text or bytes with a name that sounds of secrets, and why each is none.
const PUBLIC: &[(&str, &str)] = &[
    ("boot/src/policy/demands.rs Demands", "the identifier of a key, from the kernel's command line"),
    ("boot/src/policy/entry.rs Key", "where a key comes from"),
    ("boot/src/policy/options.rs Options", "the path of a program that prints a key"),
    ("boot/src/policy/requested.rs Requested", "where key files are, from the kernel's command line"),
    ("boot/src/policy/requested.rs Volume", "where a key file is"),
    ("bootimage/src/fit/verify.rs SignatureCheck", "the name of a public key"),
    ("cli/src/args/fscrypt.rs FscryptKey", "the name of a key and of its file"),
    ("cli/src/args/initramfs.rs ContentsArgs", "names of key files"),
    ("cli/src/args/secrets.rs NewPassphraseArgs", "the name of a key in the kernel's keyring"),
    ("cli/src/args/secrets.rs PassphraseArgs", "the same"),
    ("cli/src/args/secrets.rs PassphraseFrom", "the name of a keyring, and of what is in it"),
    ("cli/src/config/keys.rs Key", "the name of a line of the configuration"),
    ("cli/src/secrets.rs Source", "the same"),
    ("cli/src/args/token.rs TokenAddArgs", "the name of a key in the kernel's keyring"),
    ("format/src/luks2/counter.rs CounterToken", "the Name of a key of the TPM, which stands in the header"),
    ("format/src/luks2/policy.rs HeaderPolicy", "the identifier of a key, which tells nothing of it"),
    (
        "volume/src/luks2/pin_counter.rs NewPinCounter",
        "the Name of a key of the TPM, which stands in the header",
    ),
    ("volume/src/luks2/pin_counter.rs PinCounter", "the same"),
    ("volume/src/info.rs TokenInfo", "the name of a key, as the header has it"),
    ("format/src/fvault2/header.rs Header", "a key that stands in the header in clear"),
    ("format/src/fvault2/keys.rs Context", "keys as they stand on the disk, wrapped"),
    ("tpm/src/signed.rs SigningKey", "a public key"),
    ("tree/src/ecryptfs/packet.rs WrappedKey", "a file's key as it stands on the disk, encrypted"),
    ("tree/src/ecryptfs/wrapped.rs WrappedPassphrase", "a passphrase as it stands on the disk, encrypted"),
    ("tree/src/fscrypt/metadata/wrap.rs WrappedKey", "a key as it stands on the disk, encrypted"),
];

#[test]
fn no_type_over_plain_bytes_that_sounds_of_secrets_derives_debug() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crates");
    let mut found = Vec::new();
    let mut files = 0;
    for crate_dir in fs::read_dir(crates).expect("the crates") {
        walk(&crate_dir.expect("a crate").path().join("src"), &mut |path| {
            files += 1;
            let source = fs::read_to_string(path).expect("a source file");
            let name = path.strip_prefix(crates).expect("below the crates").display().to_string();
            found.extend(suspects(&source).into_iter().map(|suspect| format!("{name} {suspect}")));
        });
    }
    assert!(files > 500, "only {files} source files were found");
    found.sort();
    found.dedup();
    let mut listed: Vec<_> = PUBLIC.iter().map(|(name, _)| (*name).to_owned()).collect();
    listed.sort();
    assert_eq!(found, listed, "left: types that derive Debug; right: those that may");
}

#[test]
fn the_search_finds_what_it_is_for() {
    let finds = |source: &str| !suspects(source).is_empty();
    assert!(finds("#[derive(Clone, Debug)]\npub enum PlainKey<'a> {\n    KeyFile(&'a [u8]),\n}"));
    assert!(finds("#[derive(Debug)] pub struct A { pub passphrase: String }"));
    assert!(finds("#[derive(Debug)]\n#[non_exhaustive]\nstruct Password(Vec<u8>);"));
    assert!(finds("#[derive(Debug)]\npub struct Image {\n    pub file: Zeroizing<Vec<u8>>,\n}"));
    assert!(finds("#[derive(Debug)] struct B { secret: [u8; 32] }"));
    assert!(!finds("#[derive(Clone)] struct B { secret: [u8; 32] }"));
    assert!(!finds("#[derive(Debug)] struct B { key_len: u32, key: VolumeKey }"));
    assert!(!finds("#[derive(Debug)] struct B { key_file: PathBuf, hash: String }"));
}

/// Names of the types in `source` that derive `Debug` and have bytes or text under a name that sounds of secrets.
fn suspects(source: &str) -> Vec<String> {
    let code: String =
        source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for (at, _) in code.match_indices("#[derive(") {
        let rest = &code[at..];
        let (derived, rest) = rest.split_once(']').expect("an attribute ends");
        if !derived.split([',', '(', ')']).any(|name| name.trim() == "Debug") {
            continue;
        }
        let Some(head) = rest.find(['{', '(', ';']).map(|_| definition(rest)) else { continue };
        let Some((name, body)) = head else { continue };
        let holds = body.split([',', '\n']).any(|field| {
            let bytes =
                ["[u8", "Vec<u8>", "String", "str", "Zeroizing<"].iter().any(|kind| words(field, kind));
            let sounds = ["key", "passphrase", "password", "secret", "master"];
            let lower = field.to_lowercase();
            let quiet = ["key_len", "key_size", "key_slot", "keyslot", "key_bits", "key_name"];
            let mut spoken = lower.clone();
            quiet.iter().for_each(|word| spoken = spoken.replace(word, ""));
            let by_type = ["Key", "Passphrase", "Password", "Secret"];
            let named = by_type.iter().any(|end| name.ends_with(end));
            bytes
                && (field.contains("Zeroizing<") || named || sounds.iter().any(|word| spoken.contains(word)))
        });
        if holds {
            found.push(name);
        }
    }
    found
}

/// Whether the type `kind` is named in `field`, not as a part of another name.
fn words(field: &str, kind: &str) -> bool {
    let part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'"';
    field.match_indices(kind).any(|(at, _)| {
        let (before, after) =
            (field.as_bytes().get(at.wrapping_sub(1)), field.as_bytes().get(at + kind.len()));
        let open = kind.ends_with(['<', '>', '8']);
        !before.is_some_and(|byte| part(*byte)) && (open || !after.is_some_and(|byte| part(*byte)))
    })
}

/// Name and body of the struct or enum that follows an attribute; none if a function or macro follows.
fn definition(rest: &str) -> Option<(String, &str)> {
    let mut rest = rest.trim_start();
    while let Some(attribute) = rest.strip_prefix("#[") {
        rest = attribute.split_once(']')?.1.trim_start();
    }
    if let Some(public) = rest.strip_prefix("pub") {
        rest = public.trim_start();
        if rest.starts_with('(') {
            rest = rest.split_once(')')?.1.trim_start();
        }
    }
    let rest = rest.strip_prefix("struct ").or_else(|| rest.strip_prefix("enum "))?;
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    let begin = rest.find(['{', '(', ';'])?;
    let mut depth = 0_u32;
    for (at, letter) in rest[begin..].char_indices() {
        match letter {
            '{' | '(' => depth += 1,
            '}' | ')' if depth == 1 => return Some((name.to_owned(), &rest[begin + 1..begin + at])),
            '}' | ')' => depth -= 1,
            ';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn walk(place: &Path, visit: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(place).expect("a directory of sources") {
        let path: PathBuf = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, visit);
        } else if path.extension().is_some_and(|end| end == "rs") {
            visit(&path);
        }
    }
}

const SECRET: [u8; 64] = [0xB7; 64];
const TYPED: &[u8] = b"hunter2 hunter2 hunter2 hunter2 ";

/// Fails if `Debug` shows any of the secret, in any of the ways in which it prints bytes.
#[track_caller]
fn hides(name: &str, value: &dyn Debug) {
    for text in [format!("{value:?}"), format!("{value:#?}"), format!("{value:x?}"), format!("{value:X?}")] {
        let packed: String = text.to_lowercase().split_whitespace().collect();
        for shown in
            ["183,183", "b7b7", "b7,b7", "0xb7", "\\xb7", "hunter", "104,117,110", "68,75,6e", "68756e"]
        {
            assert!(!packed.contains(shown), "{name} shows its secret: {text}");
        }
    }
}

#[test]
fn values_that_hold_a_secret_do_not_print_it() {
    let passphrase = Passphrase::copy_from(TYPED);
    let key = VolumeKey::copy_from(&SECRET);
    let mut array = SecretArray::<64>::zeroed();
    array.copy_from_slice(&SECRET);
    hides("SecretArray", &array);
    hides("Locked", &Locked::new(array));
    hides("SecretBytes", &SecretBytes::copy_from(&SECRET));
    hides("Passphrase", &passphrase);
    hides("VolumeKey", &key);
    let mut device = SecretArray::<32>::zeroed();
    device.copy_from_slice(&SECRET[..32]);
    hides("HmacSecret", &HmacSecret::new(device));
    hides("PlainKey::KeyFile", &PlainKey::KeyFile(&SECRET));
    hides("PlainKey::Passphrase", &PlainKey::Passphrase(&passphrase, plain::DEFAULT_HASH));
    hides("Credential::Passphrase", &Credential::Passphrase(&passphrase, None));
    hides("Credential::VolumeKey", &Credential::VolumeKey(&key));
    hides("FormatOptions", &FormatOptions { volume_key: Some(key), ..FormatOptions::default() });
    hides("Request", &Request::Add { name: "a", key: &SECRET });

    let token = Token::derive(&passphrase, DEFAULT_SALT).expect("a short passphrase");
    hides("Token", &token);
    let mut keys = Keys::new();
    keys.add(token);
    hides("Keys", &keys);
    let keyring = Arc::new(Keyring::new());
    keyring.add(SecretBytes::copy_from(&SECRET)).expect("a master key");
    hides("Keyring", &keyring);
}

#[test]
fn ciphers_do_not_print_their_keys() {
    // Two halves that differ, as XTS wants them.
    let mut halves = SECRET;
    halves[0] = 1;
    let options = MapperOptions::default();
    let spec = "aes-xts-plain64".parse().expect("a cipher");
    hides("Mapper", &Mapper::new(&spec, &halves, &options).expect("a key"));
    hides("Xts", &Xts::new(Cipher::Aes, &halves, &options).expect("a key"));
    hides("Adiantum", &Adiantum::new(Cipher::XChaCha12Aes, &halves[..32], &options).expect("a key"));
    hides("HPolyC", &HPolyC::new(Cipher::XChaCha12Aes, &halves[..32], &options).expect("a key"));
    hides("Hctr2", &Hctr2::new(Cipher::Aes, &halves[..32], &options).expect("a key"));
    hides("CbcCts", &CbcCts::new(Cipher::Aes, &halves[..32], &options).expect("a key"));
    hides("AesBlock", &AesBlock::new(&SECRET[..32]).expect("a key"));
    hides("CbcRuns", &CbcRuns::new(CbcCipher::Aes, &SECRET[..32], 16, None).expect("a key"));
    hides("AsconAead128", &AsconAead128::new(&SECRET[..16]).expect("a key"));
    hides("ChaCha20Poly1305", &ChaCha20Poly1305::new(&SECRET[..32]).expect("a key"));
    hides("Aes256Ccm", &Aes256Ccm::new(&SECRET[..32]).expect("a key"));
    hides("Aes256Gcm", &Aes256Gcm::new(&SECRET[..32]).expect("a key"));
    hides("AesGcm", &AesGcm::<32>::new(&SECRET[..32]).expect("a key"));
}

#[test]
fn an_open_volume_does_not_print_its_key() {
    let scratch = Scratch::new();
    let path = scratch.path("plain");
    fs::write(&path, vec![0; 1 << 20]).expect("a file");
    let mut halves = SECRET;
    halves[0] = 1;
    let device = FileDevice::open(&path, Access::ReadOnly).expect("the file");
    let options = PlainOptions::new("aes-xts-plain64".parse().expect("a cipher"), 64);
    let unlock = UnlockOptions { keep_key: true, ..UnlockOptions::default() };
    let volume = plain::open(&device, &options, PlainKey::KeyFile(&halves), &unlock).expect("opens");
    hides("Volume", &volume);
    assert_eq!(volume.targets().len(), 1);
    hides("CryptTarget", &volume.targets());
    hides("Disk", &Disk::new(Arc::new(device), volume, DiskOptions::default()).expect("a disk"));
}

#[test]
fn a_boot_image_does_not_print_the_key_files_in_it() {
    let mut archive = Archive::new();
    let content = Content::File(Zeroizing::new(SECRET.to_vec()));
    hides("Content", &content);
    archive.add("etc/key", 0o400, content, &|_| false).expect("a file");
    hides("Archive", &archive);
    let file = archive.to_newc(0);
    let segments = read_chain(&file, Limits::default()).expect("an archive");
    assert_eq!(segments.len(), 1);
    hides("Segment", &segments);

    let scratch = Scratch::new();
    let key = scratch.path("key");
    fs::write(&key, SECRET).expect("a key file");
    let contents = Contents { keys: vec![(key, String::from("etc/key"))], ..Contents::default() };
    let image = build(&contents, Compression::None, 0).expect("an image");
    assert!(image.file.windows(SECRET.len()).any(|window| window == SECRET), "the key is not in it");
    hides("Image", &image);
}
