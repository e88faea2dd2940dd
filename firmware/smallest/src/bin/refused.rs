//! What a build was made without is refused by the name of the feature that brings it.
#![no_std]
#![no_main]

use core::fmt::{self, Write};

use atrest_cipher::{CbcCipher, CbcRuns, CipherSpec, KeyError, SpecError};
use atrest_kdf::fixed::Sha256;
use atrest_kdf::plain::{PlainHash, PlainHashError};
use atrest_kdf::{Hash, HashError};
use atrest_keyslot::luks1::{Header, HeaderError, HeaderParts, SlotError, check_for_chip};
use firmware_board::{entry, exit, fail, say};

/// What an error says.
struct Said {
    text: [u8; 100],
    len: usize,
}

impl Write for Said {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = self.text.get_mut(self.len..self.len + part.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(part.as_bytes());
        self.len += part.len();
        Ok(())
    }
}

#[entry]
fn main() -> ! {
    for spec in [
        "blowfish-cbc-plain64",
        "camellia-xts-plain64",
        "cast5-cbc-plain64",
        "des3_ede-cbc-plain64",
        "noekeon-cbc-plain64",
        "serpent-xts-plain64",
        "speck128-xts-plain64",
        "twofish-xts-plain64",
        "capi:xts(twofish)-plain64",
        "aes-cbc-essiv:sha256",
        "aes-cbc-essiv:sha3-256",
        "aes-cbc-essiv:blake2s-256",
        "aes-cbc-essiv:wp256",
        "aes-cbc-essiv:rmd256",
        "serpent-cbc-essiv:sha1",
    ] {
        match spec.parse::<CipherSpec>() {
            Err(error @ SpecError::NotBuilt { .. }) => tell(spec, &error),
            _ => fail(),
        }
    }
    for (name, cipher) in [
        ("blowfish", CbcCipher::Blowfish),
        ("cast5", CbcCipher::Cast5),
        ("cast6", CbcCipher::Cast6),
        ("des", CbcCipher::Des3Ede),
        ("twofish", CbcCipher::Twofish),
    ] {
        match CbcRuns::new(cipher, &[7; 24], 512, None) {
            Err(error @ KeyError::NotBuilt { .. }) => tell(name, &error),
            _ => fail(),
        }
    }
    for name in ["SHA1", "sha3-512", "rmd160", "wp512", "blake2b512"] {
        match Hash::named(name) {
            Err(error @ HashError::NotBuilt { .. }) => tell(name, &error),
            _ => fail(),
        }
    }
    match "ripemd160".parse::<PlainHash>() {
        Err(error @ PlainHashError::NotBuilt(_)) => tell("plain mode", &error),
        _ => fail(),
    }
    let Ok(header) = luks1_with(b"whirlpool") else { fail() };
    match check_for_chip::<Sha256>(&header) {
        Err(error @ SlotError::HashNotBuilt(_)) => tell("LUKS1", &error),
        _ => fail(),
    }
    let Ok(header) = luks1_with(b"sha512") else { fail() };
    if check_for_chip::<Sha256>(&header) != Err(SlotError::HashNotHere) {
        fail();
    }
    // What is always there, and what nobody knows.
    for spec in
        ["aes-xts-plain64", "xchacha12,aes-adiantum-plain64", "aes-hctr2-plain64", "chacha20-stream-plain64"]
    {
        if spec.parse::<CipherSpec>().is_err() {
            fail();
        }
    }
    if Hash::named("sha256") != Ok(Hash::Sha256) || Hash::named("crc32") != Err(HashError::Unknown) {
        fail();
    }
    if "rot13-xts-plain64".parse::<CipherSpec>() != Err(SpecError::UnknownCipher) {
        fail();
    }
    exit()
}

/// A header that names a hash.
fn luks1_with(hash: &[u8]) -> Result<Header, HeaderError> {
    let header = Header::new(&HeaderParts {
        cipher_name: "aes",
        cipher_mode: "xts-plain64",
        hash: Hash::Sha256,
        key_len: 32,
        uuid: "11111111-2222-3333-4444-555555555555",
        data_sector: None,
        alignment: 8,
        digest: [0; 20],
        digest_salt: [0; 32],
        digest_iterations: 1000,
    })?;
    let mut bytes = header.encode();
    let name = &mut bytes[72..72 + 32];
    name.fill(0);
    name[..hash.len()].copy_from_slice(hash);
    Header::parse(&bytes)
}

fn tell(what: &str, error: &dyn fmt::Display) {
    let mut said = Said { text: [0; 100], len: 0 };
    if write!(said, "{error}").is_err() {
        fail();
    }
    let Ok(text) = core::str::from_utf8(&said.text[..said.len]) else { fail() };
    say(what, text);
}
