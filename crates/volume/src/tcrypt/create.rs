//! New volumes of VeraCrypt, with a hidden volume in them if that is wished.
//!
//! Everything outside the headers' ciphertext is noise: a volume without a hidden one has noise where the hidden one's headers would be.

use atrest_cipher::{CipherSpec, DataUnitIndex, Mapper, MapperOptions};
use atrest_device::Media;
use atrest_format::tcrypt::{CHAINS, Chain, GROUP_LEN, HEADER_LEN, Header, KEYS_LEN, Magic, Mode};
use atrest_secret::{Locked, Random, SecretArray};

use super::TcryptWriteError;
use super::seal::{NewPassword, sealed};
use crate::UnlockError;

/// Bytes of the smallest volume that VeraCrypt makes.
pub(super) const LEAST: u64 = 299_008;
/// Bytes of both groups of headers.
const GROUPS: u64 = 2 * GROUP_LEN as u64;
/// Bytes of data that VeraCrypt leaves at least for a file system.
const LEAST_DATA: u64 = LEAST - GROUPS;
/// Where a hidden volume's header is in its group.
const HIDDEN: usize = GROUP_LEN / 2;
/// Bytes of noise that are written at once.
const STEP: usize = 1 << 20;
/// Bytes in the key of one cipher, and in that of its tweaks.
const KEY: usize = 32;

/// A volume to make.
#[derive(Debug)]
pub struct NewTcrypt<'a> {
    /// The ciphers, in XTS.
    pub chain: Chain,
    /// What the volume opens with.
    pub password: NewPassword<'a>,
    /// What a hidden volume in it opens with, and its bytes of data.
    pub hidden: Option<(NewPassword<'a>, u64)>,
}

/// The ciphers of that name, in XTS: dashes between them, the first of which encrypts the plaintext, or as VeraCrypt has it, such as
/// `AES(Twofish(Serpent))`. `None` if there are no such.
pub fn chain_named(name: &str) -> Option<Chain> {
    let lower = name.to_ascii_lowercase();
    let name = match lower.split_once('(') {
        None => lower,
        Some(_) => lower.trim_end_matches(')').rsplit('(').collect::<Vec<_>>().join("-"),
    };
    CHAINS.into_iter().find(|chain| chain.mode == Mode::Xts && chain.name() == name)
}

/// Makes a volume as large as the device. Nobody checks what was on it. Noise covers the data, too, if somebody is told how much of it is done: without
/// it, whoever sees the device sees where something was written, a hidden volume above all.
///
/// # Errors
/// [`TcryptWriteError::TooSmall`], [`TcryptWriteError::Sectors`] or [`TcryptWriteError::Hidden`] if there is no room for it;
/// [`TcryptWriteError::Hash`], [`TcryptWriteError::Empty`] or [`TcryptWriteError::Tcrypt`] for a password that can't be used. Nothing was written then, nor if a key can't be
/// derived. [`TcryptWriteError::Device`] if the device fails: it may hold a part of the volume.
pub fn create(
    device: &dyn Media,
    new: &NewTcrypt<'_>,
    random: &mut dyn Random,
    filled: Option<&mut dyn FnMut(u64)>,
) -> Result<(), TcryptWriteError> {
    let outer = outer_header(device, random, &new.chain)?;
    let hidden = match &new.hidden {
        Some((password, size)) => Some((hidden_header(&outer, *size, random, &new.chain)?, password)),
        None => None,
    };
    // The copies are first, and are under salts of their own.
    let mut groups = Vec::new();
    for _ in 0..2 {
        let mut group = vec![0; GROUP_LEN];
        random.fill(&mut group)?;
        put(&mut group, 0, &sealed(&outer, &new.chain, &new.password, random)?);
        if let Some((header, password)) = &hidden {
            put(&mut group, HIDDEN, &sealed(header, &new.chain, password, random)?);
        }
        groups.push(group);
    }
    if let Some(filled) = filled {
        fill(device, (outer.data_start, outer.size), random, filled)?;
    }
    let end = outer.data_start.checked_add(outer.size);
    let places =
        [end.ok_or(TcryptWriteError::Sectors { size: device.size(), sector: outer.sector_size })?, 0];
    for (place, group) in places.into_iter().zip(groups) {
        device.write_at(place, &group)?;
        device.flush()?;
    }
    Ok(())
}

fn put(group: &mut [u8], at: usize, header: &[u8; HEADER_LEN]) {
    for (to, from) in group.iter_mut().skip(at).zip(header) {
        *to = *from;
    }
}

fn outer_header(
    device: &dyn Media,
    random: &mut dyn Random,
    chain: &Chain,
) -> Result<Header, TcryptWriteError> {
    let (size, sector) = (device.size(), device.geometry().logical_block);
    if size < LEAST {
        return Err(TcryptWriteError::TooSmall { has: size, needs: LEAST });
    }
    let known = (512..=4096).contains(&sector) && sector.is_multiple_of(512);
    if !known || !size.is_multiple_of(u64::from(sector)) {
        return Err(TcryptWriteError::Sectors { size, sector });
    }
    // cannot be less: it was looked at.
    let data = size.saturating_sub(GROUPS);
    Ok(header(sector, (GROUP_LEN as u64, data), 0, keys(chain, random)?))
}

/// It lies at the end of the outer volume's data, and leaves room for a file system in front of it.
fn hidden_header(
    outer: &Header,
    size: u64,
    random: &mut dyn Random,
    chain: &Chain,
) -> Result<Header, TcryptWriteError> {
    // intended: none has room in an outer volume that is too small.
    let most = outer.size.saturating_sub(LEAST_DATA);
    if size < LEAST_DATA || size > most || !size.is_multiple_of(u64::from(outer.sector_size)) {
        return Err(TcryptWriteError::Hidden { size, least: LEAST_DATA, most, sector: outer.sector_size });
    }
    // cannot be none: it is no larger than the outer one.
    let start = outer.data_start.saturating_add(outer.size.saturating_sub(size));
    Ok(header(outer.sector_size, (start, size), size, keys(chain, random)?))
}

fn header(
    sector_size: u32,
    (data_start, size): (u64, u64),
    hidden_size: u64,
    keys: SecretArray<KEYS_LEN>,
) -> Header {
    Header {
        magic: Magic::VeraCrypt,
        version: Header::VERSION,
        program: Header::PROGRAM,
        hidden_size,
        size,
        data_start,
        encrypted_size: size,
        flags: 0,
        sector_size,
        keys,
    }
}

/// Fresh keys of all ciphers. What they do not take stays zeros, as in VeraCrypt.
fn keys(chain: &Chain, random: &mut dyn Random) -> Result<SecretArray<KEYS_LEN>, TcryptWriteError> {
    let mut keys: SecretArray<KEYS_LEN> = SecretArray::zeroed();
    // cannot overflow: there are three ciphers at most.
    let half = chain.ciphers.len().saturating_mul(KEY);
    let Some((data, rest)) = keys.split_at_mut_checked(half) else {
        return Err(UnlockError::UnsupportedType.into());
    };
    let Some(tweaks) = rest.get_mut(..half) else { return Err(UnlockError::UnsupportedType.into()) };
    random.fill(data)?;
    random.fill(tweaks)?;
    // XTS with equal keys is weaker than its proof. No random source yields them.
    if data
        .chunks(KEY)
        .zip(tweaks.chunks(KEY))
        .any(|(key, tweak)| atrest_secret::constant_time_eq(key, tweak))
    {
        return Err(TcryptWriteError::Random);
    }
    Ok(keys)
}

/// Covers data with noise: zeros, encrypted under a key that is forgotten.
fn fill(
    device: &dyn Media,
    (start, len): (u64, u64),
    random: &mut dyn Random,
    filled: &mut dyn FnMut(u64),
) -> Result<(), TcryptWriteError> {
    let mut key: SecretArray<64> = SecretArray::zeroed();
    random.fill(&mut *key)?;
    let spec: CipherSpec = "aes-xts-plain64".parse().map_err(UnlockError::UnsupportedCipher)?;
    let mapper = Locked::try_new_with(|| Mapper::new(&spec, &*key, &MapperOptions::default()))
        .map_err(UnlockError::Key)?;
    let mut noise = vec![0; STEP];
    let (mut done, mut unit) = (0_u64, 0_u64);
    while done < len {
        // cannot be cut off: it is no more than a step. Cannot be less: `done` is less than `len`.
        let step = len.saturating_sub(done).min(STEP as u64) as usize;
        let Some(part) = noise.get_mut(..step) else { return Err(TcryptWriteError::Random) };
        part.fill(0);
        // cannot fail: sectors are whole data units.
        mapper.encrypt(DataUnitIndex(unit), part).map_err(|_| TcryptWriteError::Random)?;
        // cannot overflow: it lies on the device.
        device.write_at(start.saturating_add(done), part)?;
        done = done.saturating_add(step as u64); // cannot overflow: no more than `len`
        unit = unit.saturating_add((STEP / 512) as u64); // cannot overflow: counts what fits on a device
        filled(done);
    }
    Ok(())
}
