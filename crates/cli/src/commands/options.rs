//! From argument words to the types of the rooms below.

use std::str::FromStr;
use std::time::Duration;

use atrest_cipher::{CipherSpec, SpecError};
use atrest_kdf::Hash;
use atrest_open::token::Factor;
use atrest_volume::{KeyslotOptions, PbkdfOptions};

use crate::args::format::{PbkdfArgs, PbkdfKind};
use crate::args::key::{KeyKind, Priority};
use crate::failure::Failure;

/// A cipher by dm-crypt's name.
pub fn cipher(text: &str) -> Result<CipherSpec, Failure> {
    CipherSpec::from_str(text).map_err(|error| {
        let failure = Failure::parameters(format!("the cipher \"{text}\" can't be used: {error}"));
        failure.hint(match error {
            SpecError::UnknownIv | SpecError::MissingIv | SpecError::UnexpectedIvOptions => {
                "IV rules are null, plain, plain64, plain64be, benbi, essiv:HASH, eboiv, elephant, tcw and lmk, as in aes-xts-plain64"
            }
            SpecError::UnknownMode => {
                "modes are xts, cbc, lrw, ctr, ecb, adiantum, hpolyc, hctr2 and xex1, as in aes-xts-plain64"
            }
            SpecError::UnknownHash | SpecError::MissingHash => {
                "for instance sha256, as in aes-cbc-essiv:sha256"
            }
            _ => "write it as dm-crypt does, as in aes-xts-plain64; `atrest bench` lists the ciphers",
        })
    })
}

/// A hash by the kernel's or libgcrypt's name.
pub fn hash(text: &str) -> Result<Hash, Failure> {
    Hash::from_name(text).ok_or_else(|| {
        Failure::parameters(format!("the hash \"{text}\" is not known"))
            .hint("for instance sha256, sha512, whirlpool")
    })
}

/// Bytes of a key whose bits were checked to be whole bytes.
pub fn key_len(bits: Option<u32>) -> Option<usize> {
    bits.map(|bits| (bits / 8) as usize)
}

/// How a new keyslot is made.
pub fn keyslot(
    args: &PbkdfArgs,
    slot: Option<u32>,
    priority: Option<Priority>,
) -> Result<KeyslotOptions, Failure> {
    let hash = args.hash.as_deref().map(hash).transpose()?;
    if args.garlic.is_some() {
        return Err(Failure::parameters("--garlic belongs to Catena, which LUKS does not have"));
    }
    Ok(KeyslotOptions {
        slot,
        pbkdf: PbkdfOptions {
            kind: args.pbkdf.map(kind).transpose()?,
            hash,
            // 0 is the default, as in cryptsetup; taken at its word it would mean a passphrase that costs nothing to try.
            time: args
                .iter_time
                .filter(|ms| *ms != 0)
                .map(|ms| Duration::from_millis(ms.into()))
                .or(args.for_time)
                .unwrap_or(PbkdfOptions::default().time),
            memory_kib: args.for_memory.map(argon2_for).transpose()?.or(args.pbkdf_memory),
            lanes: args.pbkdf_parallel,
            forced_iterations: args.pbkdf_force_iterations,
        },
        area_cipher: args.keyslot_cipher.as_deref().map(cipher).transpose()?,
        area_key_len: key_len(args.keyslot_key_size),
        af_hash: hash,
        // intended: the priority is normal unless another is asked for.
        priority: priority.map(self::priority).unwrap_or_default(),
    })
}

/// KiB of Argon2 for a machine with this much memory: half of it, as cryptsetup does, but no more than its own limit of 1 GiB.
fn argon2_for(memory: u64) -> Result<u32, Failure> {
    const LIMIT: u64 = 1 << 20;
    const LEAST: u64 = 32;
    let half = (memory / 2048).min(LIMIT);
    match u32::try_from(half) {
        Ok(kib) if half >= LEAST => Ok(kib),
        _ => Err(Failure::parameters("--for-memory: Argon2 takes 32 KiB at least, which is half of 64 KiB")),
    }
}

/// A keyslot's priority.
pub fn priority(priority: Priority) -> atrest_volume::Priority {
    match priority {
        Priority::Normal => atrest_volume::Priority::Normal,
        Priority::Prefer => atrest_volume::Priority::Prefer,
        Priority::Ignore => atrest_volume::Priority::Ignore,
    }
}

/// What opens a keyslot.
pub fn factor(kind: KeyKind) -> Factor {
    match kind {
        KeyKind::Passphrase => Factor::Passphrase,
        KeyKind::Recovery => Factor::Recovery,
        KeyKind::Tpm2 => Factor::Tpm2,
        KeyKind::Fido2 => Factor::Fido2,
        KeyKind::Pkcs11 => Factor::Pkcs11,
        KeyKind::Tang => Factor::Tang,
        KeyKind::Clevis => Factor::Clevis,
        KeyKind::Threshold => Factor::Threshold,
        KeyKind::Keyring => Factor::Keyring,
    }
}

fn kind(kind: PbkdfKind) -> Result<atrest_volume::PbkdfKind, Failure> {
    Ok(match kind {
        PbkdfKind::Pbkdf2 => atrest_volume::PbkdfKind::Pbkdf2,
        PbkdfKind::Argon2i => atrest_volume::PbkdfKind::Argon2i,
        PbkdfKind::Argon2id => atrest_volume::PbkdfKind::Argon2id,
        PbkdfKind::Catena => {
            return Err(
                Failure::parameters("LUKS has no Catena").hint("--type flash has; LUKS2 has argon2id")
            );
        }
    })
}
