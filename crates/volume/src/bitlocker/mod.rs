//! BitLocker volumes: the metadata that counts, the protectors that may open it, and the volume that one opens.
//!
//! Metadata is never written. The work is bounded: three copies of 64 KiB are read, and each protector costs one derivation of a
//! fixed length.

mod backup;
mod ccm;
mod error;
mod opened;
mod unlock;

use atrest_device::Media;
use atrest_format::bitlocker::{BOOT_LEN, Boot, Edition, Metadata, MetadataError, REGION_LEN, State};
use atrest_kdf::{Hash, digest};

use crate::UnlockError;

pub use error::BitLockerError;
pub use opened::Opened;

/// A volume whose key is not known yet.
#[derive(Debug)]
pub struct LockedBitLocker {
    boot: Boot,
    metadata: Metadata,
    /// SHA-256 of the copy that counts, which the volume master key verifies.
    hash: [u8; 32],
    /// What is wrong with each copy that was looked at.
    copies: Vec<(u64, Option<MetadataError>)>,
    /// All copies are there, and say the same.
    intact: bool,
}

/// Whether a device begins with BitLocker's signature. The rest may still be wrong.
pub fn is_one(header: &dyn Media) -> bool {
    let mut sector = [0; BOOT_LEN];
    header.read_at(0, &mut sector).is_ok() && !matches!(Boot::read(&sector), Ok(None))
}

impl LockedBitLocker {
    /// Reads the boot sector and the copies of the metadata. The first one that is right counts.
    ///
    /// # Errors
    /// [`BitLockerError::NotBitLocker`], [`BitLockerError::Boot`] or [`BitLockerError::Metadata`] if there is none to use,
    /// [`UnlockError::Device`] if the device can't be read.
    pub fn read(header: &dyn Media) -> Result<Self, UnlockError> {
        let mut sector = [0; BOOT_LEN];
        if header.size() < BOOT_LEN as u64 {
            return Err(BitLockerError::NotBitLocker.into());
        }
        header.read_at(0, &mut sector).map_err(UnlockError::Device)?;
        let boot = Boot::read(&sector).map_err(BitLockerError::Boot)?;
        let boot = boot.ok_or(BitLockerError::NotBitLocker)?;
        let mut places = boot.places().to_vec();
        let mut found: Option<(Metadata, Vec<u8>)> = None;
        let mut copies = Vec::new();
        let mut intact = true;
        let mut number = 0;
        while let Some(place) = places.get(number).copied() {
            let region = region(header, place)?;
            let copy = Metadata::read(&region, number, place, boot.sector_size);
            if let (Ok(first), Edition::Vista, 1) = (&copy, boot.edition, places.len()) {
                places = first.copies.to_vec();
            }
            copies.push((place, copy.as_ref().err().copied()));
            let bytes = |len: usize| region.get(..len).map(<[u8]>::to_vec);
            match (copy, &found) {
                (Ok(copy), None) => found = bytes(copy.len).map(|bytes| (copy, bytes)),
                (Ok(copy), Some((_, first))) => intact &= bytes(copy.len).as_ref() == Some(first),
                (Err(_), _) => intact = false,
            }
            // cannot overflow: there are three.
            number = number.saturating_add(1);
        }
        let first_error = copies.iter().find_map(|(_, error)| *error);
        let Some((metadata, block)) = found else {
            return Err(BitLockerError::Metadata(first_error.unwrap_or(MetadataError::Place)).into());
        };
        // Places that the boot sector does not have are nobody's.
        intact &= metadata.copies.as_slice() == places.as_slice();
        let mut hash = [0; 32];
        digest(Hash::Sha256, &[&block], &mut hash);
        Ok(Self { boot, metadata, hash, copies, intact })
    }

    /// The boot sector.
    pub fn boot(&self) -> &Boot {
        &self.boot
    }

    /// The metadata that counts.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Where each copy of the metadata is, and what is wrong with it.
    pub fn copies(&self) -> &[(u64, Option<MetadataError>)] {
        &self.copies
    }

    /// Whether all of it may be written: it is encrypted as a whole, the copies of the metadata agree, and it is not of Vista, of which no
    /// volume was at hand to learn from.
    pub fn may_be_written(&self) -> bool {
        self.boot.edition != Edition::Vista
            && self.intact
            && self.metadata.states == (State::Encrypted, State::Encrypted)
    }

    /// Checks what can be checked without a key.
    ///
    /// # Errors
    /// [`BitLockerError::OnWrite`], [`BitLockerError::State`] or [`BitLockerError::Method`] for volumes that can't be opened here,
    /// [`BitLockerError::Layout`] if the data can't be where the metadata says.
    pub fn check(&self, device: u64) -> Result<(), UnlockError> {
        if self.boot.on_write {
            return Err(BitLockerError::OnWrite.into());
        }
        let (now, next) = self.metadata.states;
        for state in [now, next] {
            if matches!(state, State::OnWrite | State::Other(_)) {
                return Err(BitLockerError::State(state).into());
            }
        }
        self.metadata.method.map_err(BitLockerError::Method)?;
        self.metadata.layout(&self.boot, device).map_err(BitLockerError::Layout)?;
        Ok(())
    }
}

/// The bytes of a copy, as far as the device has them. What lies behind it is none.
fn region(header: &dyn Media, place: u64) -> Result<Vec<u8>, UnlockError> {
    let most = REGION_LEN as u64;
    // intended: nothing is behind the end.
    let len = header.size().saturating_sub(place).min(most);
    // cannot be cut off: 64 KiB at most.
    let mut region = vec![0; len as usize];
    header.read_at(place.min(header.size()), &mut region).map_err(UnlockError::Device)?;
    Ok(region)
}
