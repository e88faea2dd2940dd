//! Unlocking on a chip: a keyslot's area is read sector by sector, decrypted and merged into the key, so that no more of it than a
//! sector is ever in memory.
//!
//! The header is the desk's, with all its checks. The cipher is AES-XTS, the hash one that the program names by type: nothing else is
//! in the program.

use core::fmt;
use core::marker::PhantomData;
use core::ops::DerefMut;

use atrest_cipher::{AesXts, DataUnitIndex, KeyPlace, MapperOptions};
use atrest_kdf::fixed::FixedHash;
use atrest_kdf::{Pbkdf2, Progress};
use atrest_secret::{SecretArray, constant_time_eq, wipe, with_wiped_stack};

use super::{DIGEST_LEN, Header, STRIPES, SlotError, SlotState, area_sectors};
use crate::af::{Fixed, Merge};
use crate::area::{AreaError, UNIT};

/// The cipher of chips, in the words of a header.
const CIPHER: (&str, &str) = ("aes", "xts-plain64");
/// Longest key of AES-XTS, in bytes.
const MAX_XTS_KEY_LEN: usize = 64;
/// Iterations between two calls of a program's own function: a few milliseconds on a microcontroller.
const STEP: u32 = 64;

/// The volume key on a chip: of AES-XTS, 32, 48 or 64 bytes. Wiped on drop.
#[derive(Debug)]
pub struct ChipKey {
    bytes: SecretArray<MAX_XTS_KEY_LEN>,
    len: usize,
}

/// What a program lends to unlocking, and how much work it takes on.
pub struct ChipUnlock<'p, F> {
    /// Memory for the expanded key of a keyslot. Nothing is left in it.
    pub cipher: &'p mut KeyPlace<AesXts>,
    /// Most iterations of a keyslot, and of the volume key's digest. A header can ask for four thousand million, which keeps a chip
    /// busy for days.
    ///
    /// Each try of a keyslot takes so many for the keyslot, as many for the digest and the reading of [`STRIPES`] stripes; more are refused.
    /// A header that somebody else has made can ask for all of that times eight, if all keyslots are tried: sixteen times as many
    /// iterations.
    pub most_iterations: u32,
    /// Called every few milliseconds of work with what is left, in iterations or sectors: for a watchdog, or a bar.
    pub between: F,
}

/// Why a keyslot was not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamError<E> {
    /// The medium's own error.
    Read(E),
    /// Whatever else.
    Slot(SlotError),
}

/// Whether a chip can use a volume: its cipher is `aes-xts-plain64`, its hash `H`.
///
/// # Errors
/// [`SlotError::CipherNotHere`], [`SlotError::HashNotHere`] or [`SlotError::UnsupportedHash`] if the header
/// names others, [`SlotError::KeyLenForCipher`] if XTS has no key of that length.
pub fn check_for_chip<H: FixedHash>(header: &Header) -> Result<(), SlotError> {
    if (header.cipher_name(), header.cipher_mode()) != CIPHER {
        return Err(SlotError::CipherNotHere);
    }
    if !matches!(header.key_len(), 32 | 48 | MAX_XTS_KEY_LEN) {
        return Err(SlotError::KeyLenForCipher { bytes: header.key_len() });
    }
    if header.known_hash()? != H::HASH {
        return Err(SlotError::HashNotHere);
    }
    Ok(())
}

impl<F: FnMut(u64)> ChipUnlock<'_, F> {
    /// Opens a keyslot. `read` reads the sector of a number, counted from the device's start, to `sector`, which is wiped in the end.
    /// `key` is empty unless the digest agrees.
    ///
    /// # Errors
    /// [`StreamError::Read`] with the error of `read`. Everything else is [`StreamError::Slot`]:
    /// [`SlotError::WrongKey`] if the passphrase is wrong or the area is damaged, [`SlotError::NotInUse`],
    /// what [`check_for_chip`] refuses, and [`SlotError::TooManyIterations`] or [`SlotError::TooManyStripes`]
    /// if the header asks for more than this program takes on.
    pub fn open<H: FixedHash, S: DerefMut<Target = [u8; UNIT]>, E>(
        &mut self,
        header: &Header,
        number: usize,
        passphrase: &[u8],
        sector: &mut S,
        read: impl FnMut(u64, &mut S) -> Result<(), E>,
        key: &mut ChipKey,
    ) -> Result<(), StreamError<E>> {
        key.clear();
        let opened = with_wiped_stack(|| {
            self.merge::<H, S, E>(header, number, passphrase, sector, read, key)?;
            Ok(self.check_digest::<H>(header, key)?)
        });
        // Its old contents wipe themselves.
        *self.cipher = KeyPlace::<AesXts>::empty();
        wipe(&mut **sector);
        if opened.is_err() {
            key.clear();
        }
        opened
    }

    /// Derives the keyslot's key, and merges what its area has under it.
    fn merge<H: FixedHash, S: DerefMut<Target = [u8; UNIT]>, E>(
        &mut self,
        header: &Header,
        number: usize,
        passphrase: &[u8],
        sector: &mut S,
        mut read: impl FnMut(u64, &mut S) -> Result<(), E>,
        key: &mut ChipKey,
    ) -> Result<(), StreamError<E>> {
        let slot =
            header.slot(number).filter(|slot| slot.state == SlotState::InUse).ok_or(SlotError::NotInUse)?;
        check_for_chip::<H>(header)?;
        // Before the work, not after: a key that can't be checked is none.
        self.check_iterations(header.digest_iterations())?;
        if slot.stripes > STRIPES {
            return Err(SlotError::TooManyStripes { stripes: slot.stripes, most: STRIPES }.into());
        }

        let mut wrapping = SecretArray::<MAX_XTS_KEY_LEN>::zeroed();
        let bytes = header.key_len();
        let wrapping = wrapping.get_mut(..bytes).ok_or(SlotError::KeyLenForCipher { bytes })?;
        self.derive::<H>(passphrase, &slot.salt, slot.iterations, wrapping)?;
        let cipher = self
            .cipher
            .expand(wrapping, &MapperOptions::default())
            .map_err(AreaError::Key)
            .map_err(slot_error)?;
        wipe(wrapping);

        let to = key.sized(bytes).ok_or(SlotError::KeyLenForCipher { bytes })?;
        let mut merge = Merge::new(Fixed::<H>(PhantomData), slot.stripes, to).map_err(slot_error)?;
        let sectors = area_sectors(header.key_len(), slot.stripes);
        for index in 0..sectors {
            // cannot overflow: a number of 32 bits and less than 2^17 sectors.
            read(u64::from(slot.sector).saturating_add(index), sector).map_err(StreamError::Read)?;
            cipher
                .decrypt(DataUnitIndex(index), &mut **sector)
                .map_err(AreaError::Run)
                .map_err(slot_error)?;
            merge.push(&**sector);
            // cannot be less: the loop ends before.
            (self.between)(sectors.saturating_sub(index));
        }
        merge.finish().map_err(slot_error)
    }

    fn check_digest<H: FixedHash>(&mut self, header: &Header, key: &ChipKey) -> Result<(), SlotError> {
        let mut digest = [0; DIGEST_LEN];
        self.derive::<H>(key.expose(), header.digest_salt(), header.digest_iterations(), &mut digest)?;
        if constant_time_eq(&digest, header.digest()) { Ok(()) } else { Err(SlotError::WrongKey) }
    }

    fn derive<H: FixedHash>(
        &mut self,
        secret: &[u8],
        salt: &[u8],
        iterations: u32,
        out: &mut [u8],
    ) -> Result<(), SlotError> {
        self.check_iterations(iterations)?;
        let mut run = Pbkdf2::<H>::new(secret, salt, iterations, out)?;
        while let Progress::Unfinished { left } = run.step(STEP) {
            (self.between)(left);
        }
        Ok(())
    }

    fn check_iterations(&self, iterations: u32) -> Result<(), SlotError> {
        let most = self.most_iterations;
        if iterations > most { Err(SlotError::TooManyIterations { iterations, most }) } else { Ok(()) }
    }
}

impl ChipKey {
    /// Memory for a key.
    pub const fn empty() -> Self {
        Self { bytes: SecretArray::zeroed(), len: 0 }
    }

    /// The key, for a cipher; nothing if no keyslot was opened.
    pub fn expose(&self) -> &[u8] {
        // cannot be out of range: `sized` alone sets the length, and has looked.
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Wipes it.
    pub fn clear(&mut self) {
        wipe(&mut *self.bytes);
        self.len = 0;
    }

    /// Room for a key of `len` bytes, at most [`MAX_XTS_KEY_LEN`].
    fn sized(&mut self, len: usize) -> Option<&mut [u8]> {
        let room = self.bytes.get_mut(..len)?;
        self.len = len;
        Some(room)
    }
}

fn slot_error<E>(error: impl Into<SlotError>) -> StreamError<E> {
    StreamError::Slot(error.into())
}

impl<E> From<SlotError> for StreamError<E> {
    fn from(error: SlotError) -> Self {
        Self::Slot(error)
    }
}

impl<F> fmt::Debug for ChipUnlock<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChipUnlock").field("most_iterations", &self.most_iterations).finish_non_exhaustive()
    }
}

impl<E: fmt::Display> fmt::Display for StreamError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "the keyslot's area can't be read: {error}"),
            Self::Slot(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error> core::error::Error for StreamError<E> {}
