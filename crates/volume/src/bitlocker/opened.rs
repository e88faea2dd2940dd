//! A volume whose key is known, piece by piece.

use atrest_cipher::{CipherSpec, MapperOptions};
use atrest_format::bitlocker::{Method, Part, Piece};

use super::LockedBitLocker;
use super::error::BitLockerError;
use crate::data_mapper::data_mapper;
use crate::{CryptTarget, Protection, Segment, UnlockError, UnlockOptions, Volume, VolumeFormat, VolumeKey};

/// The key of the data, and which protector had it.
#[derive(Debug)]
pub struct Opened {
    method: Method,
    key: VolumeKey,
    protector: Option<u32>,
}

/// `NTFS    `, as the boot sector of NTFS has it behind its jump.
const NTFS: &[u8; 8] = b"NTFS    ";
/// Where the boot sector of NTFS has the cluster of its second MFT.
const MFT_MIRROR: usize = 56;

impl Opened {
    pub(super) fn new(method: Method, key: VolumeKey, protector: Option<u32>) -> Self {
        Self { method, key, protector }
    }

    /// The cipher of the data.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The key of the data: with a diffuser or XTS, both keys.
    pub fn key(&self) -> &VolumeKey {
        &self.key
    }

    /// Number of the protector that opened it.
    pub fn protector(&self) -> Option<u32> {
        self.protector
    }
}

impl LockedBitLocker {
    /// The volume on a device of so many bytes, as Windows shows it. `sector` is the first one of it, which Vista's boot sector is made of.
    ///
    /// # Errors
    /// What [`check`](Self::check) fails with; [`UnlockError::Key`] for keys that nobody should use.
    pub fn volume(
        &self,
        opened: Opened,
        sector: &[u8],
        device: u64,
        options: &UnlockOptions,
    ) -> Result<Volume, UnlockError> {
        self.check(device)?;
        let layout = self.metadata.layout(&self.boot, device).map_err(BitLockerError::Layout)?;
        let name = format!("aes-{}", opened.method.mode());
        let spec: CipherSpec = name.parse().map_err(UnlockError::UnsupportedCipher)?;
        let mut weak = false;
        let (mut segments, mut targets) = (Vec::new(), Vec::new());
        for Piece { start, len, place, part } in layout {
            let protection = match part {
                Part::Clear => Protection::Identity,
                Part::Reserved => Protection::Shown(vec![0; self.boot.sector_size as usize].into()),
                Part::BootSector => Protection::Shown(self.vista_boot_sector(sector).into()),
                Part::Encrypted => {
                    let (mapper, for_reading) =
                        data_mapper(&spec, &opened.key, options, self.numbering(place))
                            .map_err(UnlockError::Key)?;
                    weak |= for_reading;
                    mapper.into()
                }
            };
            if options.keep_key && part == Part::Encrypted {
                targets.push(self.target(&name, &opened.key, start, len, place));
            }
            segments.push(Segment { start, len, media_offset: place, protection });
        }
        Ok(Volume::new(VolumeFormat::BitLocker, segments)
            .with_uuid(self.metadata.guid.to_string())
            .with_keyslot(opened.protector)
            .with_targets(targets)
            .with_read_only(options.read_only || weak || !self.may_be_written()))
    }

    /// Data units are sectors, and have the number that they have on the medium.
    fn numbering(&self, place: u64) -> MapperOptions {
        MapperOptions {
            data_unit: self.boot.sector_size as usize,
            // cannot fail: a sector has some bytes.
            iv_offset: place.checked_div(self.boot.sector_size.into()).unwrap_or(0),
            iv_large: true,
            ..MapperOptions::default()
        }
    }

    fn target(&self, cipher: &str, key: &VolumeKey, start: u64, len: u64, place: u64) -> CryptTarget {
        CryptTarget {
            start,
            len,
            media_offset: place,
            cipher: cipher.into(),
            key: VolumeKey::copy_from(key.expose()),
            digest: None,
            iv_offset: place / 512,
            data_unit: self.boot.sector_size,
            iv_large: self.boot.sector_size > 512,
            tags: None,
        }
    }

    /// The boot sector of NTFS, of which Vista's has all but a name and a number.
    fn vista_boot_sector(&self, sector: &[u8]) -> Vec<u8> {
        let mut shown = vec![0; self.boot.sector_size as usize];
        shown.iter_mut().zip(sector).for_each(|(to, from)| *to = *from);
        let mirror = self.metadata.mft_mirror.to_le_bytes();
        for (at, bytes) in [(3, NTFS), (MFT_MIRROR, &mirror)] {
            shown.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
        }
        shown
    }
}
