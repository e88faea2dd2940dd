//! One keyslot: passphrase to key and back.

use core::str::FromStr;

use atrest_cipher::CipherSpec;
use atrest_device::Media;
use atrest_format::luks2::{
    AF_STRIPES, Af, Area, AreaKind, Argon2, Digest, DigestKind, Kdf, Keyslot, KeyslotKind, SALT_LEN,
    area_size,
};
use atrest_kdf::{Argon2Cost, Argon2Kind, Hash, KdfError, argon2, calibrate, pbkdf2};
use atrest_keyslot::af::{self, AfError};
use atrest_keyslot::area::{self, AreaError};
use atrest_secret::{OsRandom, Random, RandomError, SecretBytes, constant_time_eq};

use crate::{Passphrase, Pbkdf, UnlockError, VolumeKey};

/// What a passphrase made of a keyslot. Only the digest tells whether the key is right.
pub(super) struct Candidate {
    pub(super) key: VolumeKey,
    /// First byte of the area that can't be what was written: a sector of one repeated byte.
    pub(super) damage: Option<u64>,
}

/// Derives, decrypts and merges. The caller verifies the key.
pub(super) fn open(
    device: &dyn Media,
    keyslot: &Keyslot,
    passphrase: &Passphrase,
) -> Result<Candidate, UnlockError> {
    let (KeyslotKind::Luks2 { af, kdf }, AreaKind::Raw { encryption, key_len }) =
        (&keyslot.kind, &keyslot.area.kind)
    else {
        return Err(UnlockError::UnsupportedType);
    };
    let spec = CipherSpec::from_str(encryption).map_err(UnlockError::UnsupportedCipher)?;
    let af_hash = Hash::from_name(&af.hash).ok_or(UnlockError::UnsupportedHash)?;
    // Read before deriving: a bad sector is reported at once. The area's size was checked against the key's.
    let mut material = SecretBytes::zeroed(material_len(keyslot.key_len)?);
    device.read_at(keyslot.area.offset, &mut material)?;
    // cannot overflow: a place inside the area, which rules::areas has bounded.
    let damage = blank_sector(&material).map(|at| keyslot.area.offset.saturating_add(at));
    let mut area_key = SecretBytes::zeroed(*key_len as usize);
    derive(kdf, passphrase, &mut area_key)?;
    area::decrypt(&spec, &area_key, &mut material)?;
    let mut key = SecretBytes::zeroed(keyslot.key_len as usize);
    af::merge(af_hash, &material, af.stripes, &mut key)?;
    Ok(Candidate { key: VolumeKey::new(key), damage })
}

/// A keyslot that is ready to be written: its metadata, and the bytes of its area.
pub(super) struct Sealed {
    pub(super) keyslot: Keyslot,
    pub(super) material: Vec<u8>,
}

/// What a new keyslot is made of.
pub(super) struct Plan {
    pub(super) id: u32,
    pub(super) pbkdf: Pbkdf,
    pub(super) area_cipher: CipherSpec,
    pub(super) area_key_len: usize,
    pub(super) af_hash: Hash,
    pub(super) priority: atrest_format::luks2::Priority,
}

/// Splits and encrypts `key` for an area at `offset`.
pub(super) fn seal<E>(plan: &Plan, offset: u64, key: &VolumeKey, passphrase: &Passphrase) -> Result<Sealed, E>
where
    E: From<KdfError> + From<AfError> + From<AreaError> + From<RandomError>,
{
    let mut salt = [0; SALT_LEN];
    OsRandom.fill(&mut salt)?;
    let key_len = u32::try_from(key.len()).map_err(|_| AfError::TooLarge)?;
    let mut area_key = SecretBytes::zeroed(plan.area_key_len);
    derive_with(plan.pbkdf, &salt, passphrase, &mut area_key)?;
    let mut material = SecretBytes::zeroed(material_len(key_len)?);
    af::split(plan.af_hash, key.expose(), AF_STRIPES, &mut OsRandom, &mut material)?;
    area::encrypt(&plan.area_cipher, &area_key, &mut material)?;
    let kdf = match plan.pbkdf {
        Pbkdf::Pbkdf2 { hash, iterations } => Kdf::Pbkdf2 { hash: hash.name().into(), iterations, salt },
        Pbkdf::Argon2(Argon2Cost { kind, time, memory_kib, lanes }) => {
            let cost = Argon2 { time, memory_kib, lanes, salt };
            match kind {
                Argon2Kind::I => Kdf::Argon2i(cost),
                Argon2Kind::Id => Kdf::Argon2id(cost),
            }
        }
    };
    let area_key_len = u32::try_from(plan.area_key_len).map_err(|_| AfError::TooLarge)?;
    let keyslot = Keyslot {
        id: plan.id,
        key_len,
        priority: plan.priority,
        area: Area {
            offset,
            size: area_size(key_len),
            kind: AreaKind::Raw { encryption: plan.area_cipher.to_string(), key_len: area_key_len },
        },
        kind: KeyslotKind::Luks2 { af: Af { stripes: AF_STRIPES, hash: plan.af_hash.name().into() }, kdf },
    };
    Ok(Sealed { keyslot, material: material.to_vec() })
}

/// A digest by which `key` will be recognised.
pub(super) fn new_digest<E>(
    id: u32,
    key: &VolumeKey,
    hash: Hash,
    forced: bool,
    keyslots: Vec<u32>,
    segments: Vec<u32>,
) -> Result<Digest, E>
where
    E: From<KdfError> + From<RandomError>,
{
    let mut salt = [0; SALT_LEN];
    OsRandom.fill(&mut salt)?;
    // Whoever forces the keyslot's cost wants no benchmark here either, as in cryptsetup.
    let iterations = match forced {
        true => calibrate::MIN_PBKDF2_ITERATIONS,
        false => calibrate::pbkdf2_iterations(hash, key.len(), calibrate::DIGEST_TIME),
    };
    let mut digest = vec![0; hash.output_len()];
    pbkdf2(hash, key.expose(), &salt, iterations, &mut digest)?;
    let kind = DigestKind::Pbkdf2 { hash: hash.name().into(), iterations, salt, digest };
    Ok(Digest { id, keyslots, segments, kind })
}

/// Whether `key` is the key of the digest.
pub(super) fn verifies(digest: &Digest, key: &VolumeKey) -> Result<bool, UnlockError> {
    let DigestKind::Pbkdf2 { hash, iterations, salt, digest } = &digest.kind else {
        return Err(UnlockError::UnsupportedType);
    };
    let hash = Hash::from_name(hash).ok_or(UnlockError::UnsupportedHash)?;
    // 20 bytes: LUKS1 kept as much of any hash, and volumes converted from it still do.
    if digest.len() != 20 && digest.len() != hash.output_len() {
        return Err(UnlockError::BadDigest);
    }
    let mut computed = SecretBytes::zeroed(digest.len());
    pbkdf2(hash, key.expose(), salt, *iterations, &mut computed)?;
    Ok(constant_time_eq(&computed, digest))
}

fn derive(kdf: &Kdf, passphrase: &Passphrase, out: &mut [u8]) -> Result<(), UnlockError> {
    let cost = |kind, cost: &Argon2| {
        Pbkdf::Argon2(Argon2Cost { kind, time: cost.time, memory_kib: cost.memory_kib, lanes: cost.lanes })
    };
    let (pbkdf, salt) = match kdf {
        Kdf::Pbkdf2 { hash, iterations, salt } => {
            let hash = Hash::from_name(hash).ok_or(UnlockError::UnsupportedHash)?;
            (Pbkdf::Pbkdf2 { hash, iterations: *iterations }, salt)
        }
        Kdf::Argon2i(argon2) => (cost(Argon2Kind::I, argon2), &argon2.salt),
        Kdf::Argon2id(argon2) => (cost(Argon2Kind::Id, argon2), &argon2.salt),
        Kdf::Unknown(_) => return Err(UnlockError::UnsupportedType),
    };
    Ok(derive_with(pbkdf, salt, passphrase, out)?)
}

fn derive_with(pbkdf: Pbkdf, salt: &[u8], passphrase: &Passphrase, out: &mut [u8]) -> Result<(), KdfError> {
    match pbkdf {
        Pbkdf::Pbkdf2 { hash, iterations } => pbkdf2(hash, passphrase.expose(), salt, iterations, out),
        Pbkdf::Argon2(cost) => argon2(&cost, passphrase.expose(), salt, out),
    }
}

/// Bytes of the split key, up to a whole sector.
fn material_len(key_len: u32) -> Result<usize, AfError> {
    // cannot overflow: a number of 32 bits times 4000.
    let len = u64::from(key_len).saturating_mul(AF_STRIPES.into()).next_multiple_of(area::UNIT as u64);
    usize::try_from(len).map_err(|_| AfError::TooLarge)
}

/// Byte offset of a sector that holds one byte only, which ciphertext does not do: it was wiped or never written.
fn blank_sector(material: &[u8]) -> Option<u64> {
    let blank = |sector: &[u8]| sector.iter().all(|byte| Some(byte) == sector.first());
    let at = material.chunks_exact(area::UNIT).position(blank)?;
    // cannot overflow: a place in a slice.
    Some((at as u64).saturating_mul(area::UNIT as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the key `[7; 32]`, cut to so many bytes.
    fn digest_of(hash: Hash, len: usize) -> Digest {
        let mut digest = vec![0; len];
        pbkdf2(hash, &[7; 32], &[1; SALT_LEN], 1000, &mut digest).expect("possible");
        let kind =
            DigestKind::Pbkdf2 { hash: hash.name().into(), iterations: 1000, salt: [1; SALT_LEN], digest };
        Digest { id: 0, keyslots: vec![0], segments: vec![0], kind }
    }

    /// A short digest would take one of many keys for the right one.
    #[test]
    fn a_digest_is_as_long_as_its_hash_or_as_those_of_luks1() {
        let key = |byte| VolumeKey::copy_from(&[byte; 32]);
        for (hash, len, expected) in [
            (Hash::Sha256, 32, Ok(true)),
            (Hash::Sha256, 20, Ok(true)),
            (Hash::Sha512, 64, Ok(true)),
            (Hash::Sha1, 20, Ok(true)),
            (Hash::Sha256, 19, Err(UnlockError::BadDigest)),
            (Hash::Sha256, 21, Err(UnlockError::BadDigest)),
            (Hash::Sha256, 31, Err(UnlockError::BadDigest)),
            (Hash::Sha256, 64, Err(UnlockError::BadDigest)),
            (Hash::Sha512, 32, Err(UnlockError::BadDigest)),
        ] {
            let digest = digest_of(hash, len);
            assert_eq!(verifies(&digest, &key(7)), expected, "{hash} {len}");
            assert_eq!(verifies(&digest, &key(8)), expected.map(|_| false), "{hash} {len}");
        }
        let kind = DigestKind::Unknown("of-tomorrow".into());
        let unknown = Digest { kind, ..digest_of(Hash::Sha1, 20) };
        assert_eq!(verifies(&unknown, &key(7)), Err(UnlockError::UnsupportedType));
    }

    #[test]
    fn a_new_digest_is_as_long_as_its_hash_and_verifies_its_key_alone() {
        let key = VolumeKey::copy_from(&[7; 32]);
        let made =
            |hash| new_digest::<crate::ChangeError>(3, &key, hash, true, vec![1], vec![2]).expect("made");
        for hash in [Hash::Sha1, Hash::Sha256, Hash::Sha512] {
            let digest = made(hash);
            assert_eq!(
                (digest.id, digest.keyslots.as_slice(), digest.segments.as_slice()),
                (3, &[1][..], &[2][..])
            );
            let DigestKind::Pbkdf2 { iterations, digest: sum, .. } = &digest.kind else {
                panic!("{digest:?}")
            };
            assert_eq!((*iterations, sum.len()), (calibrate::MIN_PBKDF2_ITERATIONS, hash.output_len()));
            assert_eq!(verifies(&digest, &key), Ok(true));
            assert_eq!(verifies(&digest, &VolumeKey::copy_from(&[7; 31])), Ok(false));
        }
        assert_ne!(made(Hash::Sha256), made(Hash::Sha256), "a salt is drawn");
    }

    #[test]
    fn a_sector_of_one_byte_is_told_by_its_place() {
        let noise: Vec<u8> = (0..2048).map(|i| (i % 251) as u8).collect();
        assert_eq!(blank_sector(&noise), None);
        for (at, byte) in [(0, 0), (512, 0xff), (1536, 7)] {
            let mut material = noise.clone();
            material[at..at + 512].fill(byte);
            assert_eq!(blank_sector(&material), Some(at as u64));
            material[at + 511] ^= 1;
            assert_eq!(blank_sector(&material), None, "all but the last byte");
        }
    }
}
