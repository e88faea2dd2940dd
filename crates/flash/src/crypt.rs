//! An encrypting flash device. Layout: FORMATS.md, "Encrypted flash".

use core::fmt;

use atrest_cipher::RunError;
use atrest_device::{FlashCause, FlashError, FlashGeometry, FlashOperation};

use super::{DataUnitCipher, FlashDevice, twin};
use crate::crypt_setup::{BlankReads, CryptFlashError, Plaintext, common_unit};
use crate::place::Units;

/// A [`FlashDevice`] that stores ciphertext on another one.
///
/// Programs what the caller programs and erases what the caller erases, nothing else and nothing more. Its prog unit is
/// that of the medium, or what the cipher takes at least if that is more: 16 bytes for AES-XTS, the data unit for wide-block
/// modes and CBC. Reads are decrypted where they are; programs pass through `bounce`, and a transfer that fits into it is one
/// run of the cipher and one program of the medium.
pub struct CryptFlash<D, C, B> {
    device: D,
    cipher: C,
    units: Units,
    /// Whole prog units of it are used.
    bounce: B,
    bounce_len: usize,
    geometry: FlashGeometry,
    blank_reads: BlankReads,
}

#[twin]
impl<D: FlashDevice, C: DataUnitCipher, B: AsMut<[u8]>> CryptFlash<D, C, B> {
    /// Encrypts what goes to `device`. `bounce` has room for a prog unit at least; the more it has, the fewer runs and
    /// programs a transfer takes.
    ///
    /// # Errors
    /// Fails where [`with_blank_reads`](Self::with_blank_reads) does.
    pub fn new(device: D, cipher: C, bounce: B) -> Result<Self, CryptFlashError> {
        Self::with_blank_reads(device, cipher, bounce, BlankReads::default())
    }

    /// Encrypts what goes to `device`, with a choice of what blank units read as. Otherwise like [`new`](Self::new).
    ///
    /// # Errors
    /// [`CryptFlashError::Granularity`] if the units of medium and cipher are no multiples of each other,
    /// [`CryptFlashError::Geometry`] if the units that result do not fit the erase blocks,
    /// [`CryptFlashError::BounceTooSmall`] if `bounce` has no room for a prog unit.
    pub fn with_blank_reads(
        device: D,
        cipher: C,
        mut bounce: B,
        blank_reads: BlankReads,
    ) -> Result<Self, CryptFlashError> {
        let medium = device.geometry();
        let prog_size = common_unit(medium.prog_size(), cipher.granularity())?;
        let read_size = match blank_reads {
            BlankReads::Decrypted => common_unit(medium.read_size(), cipher.granularity())?,
            BlankReads::Erased => prog_size,
        };
        let geometry = FlashGeometry::new(read_size, prog_size, medium.erase_size(), medium.block_count())
            .map_err(CryptFlashError::Geometry)?;
        let has = bounce.as_mut().len();
        // cannot underflow: a remainder is no more than the whole. No geometry has units of 0 bytes.
        let bounce_len = has.saturating_sub(has.checked_rem(prog_size as usize).unwrap_or(has));
        if bounce_len == 0 {
            return Err(CryptFlashError::BounceTooSmall { needs: prog_size, has });
        }
        let granularity = cipher.granularity();
        let units = Units::new(cipher.data_unit())
            .ok_or(CryptFlashError::Granularity { granularity, unit: medium.prog_size() })?;
        Ok(Self { device, cipher, units, bounce, bounce_len, geometry, blank_reads })
    }

    /// The medium, where the ciphertext is.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The medium, to use past the encryption.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Gives the medium back. The cipher is dropped, and wipes its keys.
    pub fn into_device(self) -> D {
        self.device
    }

    /// Decrypts what was read from whole prog units, and makes blank ones 0xFF. Neighbours that are not blank are one run.
    async fn decrypt_units(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        let prog = self.geometry.prog_size() as usize;
        let len = buf.len() as u64;
        let mut rest = buf;
        // Addresses stay within the geometry, against which the caller has checked the range.
        let mut at = address;
        while !rest.is_empty() {
            let mut used = 0_usize;
            let mut blank = false;
            for unit in rest.chunks(prog) {
                // cannot overflow: within the geometry, which was checked.
                blank = self.unit_is_blank(at.saturating_add(used as u64), unit).await?;
                if blank {
                    break;
                }
                // cannot overflow: it is a part of the buffer.
                used = used.saturating_add(unit.len());
            }
            let (run, behind) = rest.split_at_mut(used);
            self.decrypt(at, run)
                .await
                .map_err(|error| refused(FlashOperation::Read, address, len, error))?;
            let skipped = if blank { prog.min(behind.len()) } else { 0 };
            let (erased, behind) = behind.split_at_mut(skipped);
            erased.fill(ERASED);
            // cannot overflow: within the geometry, which was checked.
            at = at.saturating_add(used as u64).saturating_add(skipped as u64);
            rest = behind;
        }
        Ok(())
    }

    /// Decrypts what lies at an address, in one run.
    async fn decrypt(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), RunError> {
        let (unit, offset) = self.units.place(address);
        self.cipher.decrypt_at(unit, offset, bytes).await
    }

    /// Whether a prog unit of ours, of which `raw` was read, is blank: all units of the medium in it are.
    async fn unit_is_blank(&mut self, address: u64, raw: &[u8]) -> Result<bool, FlashError> {
        if let Some(erased) = self.device.erased_byte() {
            return Ok(raw.iter().all(|byte| *byte == erased));
        }
        self.device.is_blank(address, u64::from(self.geometry.prog_size()), self.bounce.as_mut()).await
    }
}

#[twin]
impl<D: FlashDevice, C: DataUnitCipher, B: AsMut<[u8]>> FlashDevice for CryptFlash<D, C, B> {
    fn geometry(&self) -> FlashGeometry {
        self.geometry
    }

    async fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        let len = buf.len() as u64;
        self.geometry.check(FlashOperation::Read, address, len)?;
        self.device.read(address, buf).await?;
        match self.blank_reads {
            BlankReads::Decrypted => self
                .decrypt(address, buf)
                .await
                .map_err(|error| refused(FlashOperation::Read, address, len, error)),
            BlankReads::Erased => self.decrypt_units(address, buf).await,
        }
    }

    async fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        let len = data.len() as u64;
        self.geometry.check(FlashOperation::Prog, address, len)?;
        let mut at = address;
        for part in data.chunks(self.bounce_len) {
            let Some(run) = self.bounce.as_mut().get_mut(..part.len()) else {
                let (needs, has) = (self.geometry.prog_size(), 0);
                let cause = FlashCause::BufferTooSmall { needs, has };
                return Err(FlashError::new(FlashOperation::Prog, at, part.len() as u64, cause));
            };
            let mut plain = Plaintext::copied(part, run);
            let (unit, offset) = self.units.place(at);
            self.cipher
                .encrypt_at(unit, offset, plain.bytes())
                .await
                .map_err(|error| refused(FlashOperation::Prog, at, part.len() as u64, error))?;
            self.device.prog(at, plain.encrypted()).await?;
            // cannot overflow: within the geometry, which was checked.
            at = at.saturating_add(part.len() as u64);
        }
        Ok(())
    }

    async fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.device.erase(address, len).await
    }

    async fn sync(&mut self) -> Result<(), FlashError> {
        self.device.sync().await
    }

    fn erased_byte(&self) -> Option<u8> {
        match self.blank_reads {
            BlankReads::Decrypted => None,
            BlankReads::Erased => Some(ERASED),
        }
    }

    /// Asks the medium, through the bounce buffer: `scratch` is not used.
    async fn is_blank(&mut self, address: u64, len: u64, _scratch: &mut [u8]) -> Result<bool, FlashError> {
        self.geometry.check(FlashOperation::BlankQuery, address, len)?;
        self.device.is_blank(address, len, self.bounce.as_mut()).await
    }
}

impl<D, C, B> fmt::Debug for CryptFlash<D, C, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CryptFlash")
            .field("geometry", &self.geometry)
            .field("blank_reads", &self.blank_reads)
            .finish_non_exhaustive()
    }
}

const ERASED: u8 = 0xff;

fn refused(operation: FlashOperation, address: u64, len: u64, _error: RunError) -> FlashError {
    FlashError::new(operation, address, len, FlashCause::Cipher)
}
