//! The header's 592 bytes as a type that can only hold an acceptable layout (specification, section 4 and figure 1).
//!
//! Names of ciphers and hashes that this build does not know are no damage: they parse, and unlocking refuses them.

use atrest_cipher::{CipherSpec, SpecError};
use atrest_codec::{Be, ReadError, Reader, Rows, encode};
use atrest_kdf::{Hash, HashError};

use super::SlotError;
use super::text::Text;
use super::{
    DIGEST_LEN, HEADER_LEN, HeaderError, MAGIC, MAX_KEY_LEN, MAX_STRIPES, SALT_LEN, SLOTS, STRIPES,
    TextField, VERSION,
};

/// Multiple of 512-byte sectors at which keyslot areas are placed when a header is made.
pub const AREA_ALIGNMENT: u32 = 8;
/// Sectors that the header touches.
const HEADER_SECTORS: u32 = 2;
const SECTOR: u64 = 512;

/// State word of a keyslot in use.
const IN_USE: u32 = 0x00AC_71F3;
/// State word of a free keyslot.
const FREE: u32 = 0x0000_DEAD;

/// A checked LUKS1 header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub(super) fields: Fields,
}

/// What a new header is made of.
#[derive(Clone, Copy, Debug)]
pub struct HeaderParts<'a> {
    /// Cipher of data and keyslot areas, in dm-crypt's form of name and mode, such as `aes` and `xts-plain64`.
    pub cipher_name: &'a str,
    /// The second part of the cipher.
    pub cipher_mode: &'a str,
    /// Hash of the splitter, of PBKDF2 and of the digest.
    pub hash: Hash,
    /// Bytes in the volume key.
    pub key_len: usize,
    /// UUID.
    pub uuid: &'a str,
    /// First sector of the data, 0 for data on another device; `None` is the first multiple of `alignment` behind the
    /// keyslot areas.
    pub data_sector: Option<u32>,
    /// Multiple of sectors at which the data starts.
    pub alignment: u32,
    /// Digest of the volume key.
    pub digest: [u8; DIGEST_LEN],
    /// Its salt.
    pub digest_salt: [u8; SALT_LEN],
    /// Its PBKDF2 iterations.
    pub digest_iterations: u32,
}

/// A keyslot's place and key derivation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Whether it holds a key.
    pub state: SlotState,
    /// PBKDF2 iterations.
    pub iterations: u32,
    /// PBKDF2 salt.
    pub salt: [u8; SALT_LEN],
    /// First sector of its area.
    pub sector: u32,
    /// Anti-forensic stripes.
    pub stripes: u32,
}

/// Whether a keyslot holds a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// It does.
    InUse,
    /// It does not.
    Free,
}

/// Sectors that a split key takes: `key_len * stripes` bytes, rounded up.
pub const fn area_sectors(key_len: usize, stripes: u32) -> u64 {
    // cannot overflow: keys have at most 512 bytes. Without that check the area is larger than any device.
    (key_len as u64).saturating_mul(stripes as u64).div_ceil(SECTOR)
}

impl Header {
    /// Parses and checks the first 592 bytes of `bytes`.
    ///
    /// # Errors
    /// [`HeaderError::Truncated`], [`HeaderError::Magic`] or [`HeaderError::Version`] if this is no LUKS1
    /// header. Otherwise the first field that is not acceptable, or the first two areas that overlap. Cipher
    /// and hash may have names that this build does not know.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        let fields = Fields::parse(bytes)?;
        let header = Self { fields };
        header.check()?;
        Ok(header)
    }

    /// A header without keys, its areas placed as cryptsetup places them: from byte 4096 on, each at a multiple of 4096.
    ///
    /// # Errors
    /// [`HeaderError::KeyLen`] for a length that no cipher has, [`HeaderError::Text`] for a name or UUID that
    /// does not fit its field, [`HeaderError::DigestIterations`] for 0 iterations,
    /// [`HeaderError::AreaInsideData`] if the areas do not end before the data.
    pub fn new(parts: &HeaderParts<'_>) -> Result<Self, HeaderError> {
        let text = |field| HeaderError::Text { field };
        let key_len = u32::try_from(parts.key_len)
            .ok()
            .filter(|&len| key_len_is_possible(len))
            // intended: for people; a longer key is as impossible.
            .ok_or(HeaderError::KeyLen { bytes: u32::try_from(parts.key_len).unwrap_or(u32::MAX) })?;
        let mut slots = [RawSlot::default(); SLOTS];
        for (slot, sector) in slots.iter_mut().zip(default_sectors(parts.key_len)) {
            *slot = RawSlot { state: FREE, iterations: 0, salt: [0; SALT_LEN], sector, stripes: STRIPES };
        }
        let behind_areas = behind_default_areas(parts.key_len);
        let data_sector = match parts.data_sector {
            Some(sector) => sector,
            // cannot overflow: the areas end before 2^16, so this is less than twice that, or the alignment itself.
            None => behind_areas.checked_next_multiple_of(parts.alignment.max(1)).unwrap_or(u32::MAX),
        };
        let header = Self {
            fields: Fields {
                cipher_name: Text::new(parts.cipher_name).ok_or(text(TextField::CipherName))?,
                cipher_mode: Text::new(parts.cipher_mode).ok_or(text(TextField::CipherMode))?,
                hash: Text::new(parts.hash.name()).ok_or(text(TextField::Hash))?,
                data_sector,
                key_len,
                digest: parts.digest,
                digest_salt: parts.digest_salt,
                digest_iterations: parts.digest_iterations,
                uuid: Text::new(parts.uuid).ok_or(text(TextField::Uuid))?,
                slots,
            },
        };
        header.check()?;
        Ok(header)
    }

    /// The 592 bytes. What was parsed comes back byte for byte.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        self.fields.encode()
    }

    /// Name of the cipher, such as `aes`.
    pub fn cipher_name(&self) -> &str {
        self.fields.cipher_name.as_str()
    }

    /// Mode of the cipher, such as `xts-plain64`.
    pub fn cipher_mode(&self) -> &str {
        self.fields.cipher_mode.as_str()
    }

    /// The cipher, if this build knows it.
    ///
    /// # Errors
    /// [`SpecError`] if this build knows no cipher of that name and mode.
    pub fn cipher(&self) -> Result<CipherSpec, SpecError> {
        CipherSpec::from_parts(self.cipher_name(), self.cipher_mode())
    }

    /// Name of the hash, such as `sha256`.
    pub fn hash_name(&self) -> &str {
        self.fields.hash.as_str()
    }

    /// The hash, if this build knows it and its digests are long enough for a volume key's digest.
    pub fn hash(&self) -> Option<Hash> {
        self.known_hash().ok()
    }

    /// The hash, or why it can't be used.
    pub(super) fn known_hash(&self) -> Result<Hash, SlotError> {
        match Hash::named(self.hash_name()) {
            Ok(hash) if hash.output_len() >= DIGEST_LEN => Ok(hash),
            Err(error @ HashError::NotBuilt { .. }) => Err(SlotError::HashNotBuilt(error)),
            _ => Err(SlotError::UnsupportedHash),
        }
    }

    /// UUID.
    pub fn uuid(&self) -> &str {
        self.fields.uuid.as_str()
    }

    /// Sets the UUID.
    ///
    /// # Errors
    /// [`HeaderError::Text`] if the text is empty, longer than 39 bytes or not printable ASCII. The header is
    /// unchanged then.
    pub fn set_uuid(&mut self, uuid: &str) -> Result<(), HeaderError> {
        self.fields.uuid = Text::new(uuid).ok_or(HeaderError::Text { field: TextField::Uuid })?;
        Ok(())
    }

    /// First sector of the data; 0 for data on another device.
    pub fn data_sector(&self) -> u32 {
        self.fields.data_sector
    }

    /// Bytes in the volume key.
    pub fn key_len(&self) -> usize {
        // Checked to be at most MAX_KEY_LEN.
        self.fields.key_len as usize
    }

    /// Digest of the volume key.
    pub fn digest(&self) -> &[u8; DIGEST_LEN] {
        &self.fields.digest
    }

    /// Salt of the digest.
    pub fn digest_salt(&self) -> &[u8; SALT_LEN] {
        &self.fields.digest_salt
    }

    /// PBKDF2 iterations of the digest.
    pub fn digest_iterations(&self) -> u32 {
        self.fields.digest_iterations
    }

    /// A keyslot, in use or free; none from number 8 on.
    pub fn slot(&self, number: usize) -> Option<Slot> {
        let raw = self.fields.slots.get(number)?;
        Some(Slot {
            state: if raw.state == IN_USE { SlotState::InUse } else { SlotState::Free },
            iterations: raw.iterations,
            salt: raw.salt,
            sector: raw.sector,
            stripes: raw.stripes,
        })
    }

    /// All eight keyslots with their numbers.
    pub fn slots(&self) -> impl Iterator<Item = (usize, Slot)> + '_ {
        (0..SLOTS).filter_map(|number| Some((number, self.slot(number)?)))
    }

    /// Whether a keyslot holds a key.
    pub fn is_in_use(&self, number: usize) -> bool {
        self.slot(number).is_some_and(|slot| slot.state == SlotState::InUse)
    }

    /// Marks a keyslot as in use with this derivation. Its place is not changed.
    ///
    /// # Errors
    /// [`HeaderError::SlotIterations`] for 0 iterations, [`HeaderError::NoSuchSlot`] if there is no such
    /// keyslot. Nothing has changed then.
    pub fn use_slot(
        &mut self,
        number: usize,
        iterations: u32,
        salt: [u8; SALT_LEN],
    ) -> Result<(), HeaderError> {
        if iterations == 0 {
            return Err(HeaderError::SlotIterations { slot: number });
        }
        let slot = self.fields.slots.get_mut(number).ok_or(HeaderError::NoSuchSlot { slot: number })?;
        slot.state = IN_USE;
        slot.iterations = iterations;
        slot.salt = salt;
        Ok(())
    }

    /// Places the areas of all keyslots, by their first sectors.
    ///
    /// # Errors
    /// [`HeaderError`] with the first area that lies in the header, reaches into the data or overlaps another. The header is unchanged then.
    pub fn place_areas(&mut self, sectors: &[u32; SLOTS]) -> Result<(), HeaderError> {
        let mut placed = self.clone();
        for (slot, sector) in placed.fields.slots.iter_mut().zip(sectors) {
            slot.sector = *sector;
        }
        placed.check()?;
        *self = placed;
        Ok(())
    }

    /// Marks a keyslot as free and forgets its derivation. A number that does not exist changes nothing.
    pub fn free_slot(&mut self, number: usize) {
        if let Some(slot) = self.fields.slots.get_mut(number) {
            slot.state = FREE;
            slot.iterations = 0;
            slot.salt = [0; SALT_LEN];
        }
    }

    /// Bytes from the device's start to a keyslot's area, and bytes in the area.
    pub fn area(&self, number: usize) -> Option<(u64, usize)> {
        let slot = self.slot(number)?;
        // cannot overflow: at most 512 bytes of key times 2^16 stripes.
        let len = area_sectors(self.key_len(), slot.stripes).saturating_mul(SECTOR);
        // cannot overflow: a number of 32 bits times 512.
        Some((u64::from(slot.sector).saturating_mul(SECTOR), usize::try_from(len).ok()?))
    }

    /// Bytes from the device's start to the end of the last keyslot area.
    pub fn areas_end(&self) -> u64 {
        let ends = self.fields.slots.iter().map(|slot| slot.end(self.fields.key_len));
        // cannot overflow: sectors are numbers of 32 bits, and areas have less than 2^17 of them.
        ends.fold(0, u64::max).saturating_mul(SECTOR)
    }

    /// The rules that tie fields together. Rules for free keyslots are the same: an area must be safe to write to.
    fn check(&self) -> Result<(), HeaderError> {
        let fields = &self.fields;
        if !key_len_is_possible(fields.key_len) {
            return Err(HeaderError::KeyLen { bytes: fields.key_len });
        }
        if fields.digest_iterations == 0 {
            return Err(HeaderError::DigestIterations);
        }
        for (number, slot) in fields.slots.iter().enumerate() {
            slot.check(number, fields.key_len, fields.data_sector)?;
        }
        match fields.overlap() {
            Some((a, b)) => Err(HeaderError::AreaOverlap { a, b }),
            None => Ok(()),
        }
    }
}

/// First sectors of the areas in the layout that is written.
pub(super) fn default_sectors(key_len: usize) -> [u32; SLOTS] {
    let step = default_step(key_len);
    let mut sector = AREA_ALIGNMENT;
    [(); SLOTS].map(|()| {
        let this = sector;
        // cannot overflow: eight areas of the longest key have less than 2^16 sectors.
        sector = sector.saturating_add(step);
        this
    })
}

fn behind_default_areas(key_len: usize) -> u32 {
    // cannot overflow: see default_sectors.
    default_step(key_len).saturating_mul(SLOTS as u32).saturating_add(AREA_ALIGNMENT)
}

fn default_step(key_len: usize) -> u32 {
    // cannot overflow: a key has at most MAX_KEY_LEN bytes, so this is at most 4000 sectors.
    let sectors = u32::try_from(area_sectors(key_len, STRIPES)).unwrap_or(u32::MAX);
    // cannot overflow: as above.
    sectors.checked_next_multiple_of(AREA_ALIGNMENT).unwrap_or(u32::MAX)
}

fn key_len_is_possible(bytes: u32) -> bool {
    bytes > 0 && bytes as usize <= MAX_KEY_LEN
}

/// The fields as they are stored, text checked, numbers not yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) cipher_name: Text<32>,
    pub(super) cipher_mode: Text<32>,
    pub(super) hash: Text<32>,
    pub(super) data_sector: u32,
    pub(super) key_len: u32,
    pub(super) digest: [u8; DIGEST_LEN],
    pub(super) digest_salt: [u8; SALT_LEN],
    pub(super) digest_iterations: u32,
    pub(super) uuid: Text<40>,
    pub(super) slots: [RawSlot; SLOTS],
}

/// A keyslot as it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RawSlot {
    pub(super) state: u32,
    pub(super) iterations: u32,
    pub(super) salt: [u8; SALT_LEN],
    pub(super) sector: u32,
    pub(super) stripes: u32,
}

impl RawSlot {
    /// The state word that stands for a keyslot which holds a key, judged by everything but the word.
    pub(super) fn likely_state(&self) -> u32 {
        if self.iterations != 0 && self.salt != [0; SALT_LEN] { IN_USE } else { FREE }
    }

    /// First sector behind the area.
    fn end(&self, key_len: u32) -> u64 {
        // cannot overflow: a number of 32 bits and at most 2^64 / 512 sectors.
        u64::from(self.sector).saturating_add(area_sectors(key_len as usize, self.stripes))
    }

    /// The rules for one keyslot by itself.
    pub(super) fn check(&self, number: usize, key_len: u32, data_sector: u32) -> Result<(), HeaderError> {
        if self.state != IN_USE && self.state != FREE {
            return Err(HeaderError::SlotState { slot: number, word: self.state });
        }
        if self.state == IN_USE && self.iterations == 0 {
            return Err(HeaderError::SlotIterations { slot: number });
        }
        if !(1..=MAX_STRIPES).contains(&self.stripes) {
            return Err(HeaderError::Stripes { slot: number, stripes: self.stripes });
        }
        if self.sector < HEADER_SECTORS {
            return Err(HeaderError::AreaInsideHeader { slot: number, sector: self.sector });
        }
        let end = self.end(key_len);
        // 0 stands for data on another device.
        if data_sector != 0 && end > u64::from(data_sector) {
            return Err(HeaderError::AreaInsideData { slot: number, end, data: data_sector });
        }
        Ok(())
    }
}

impl Fields {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        let short = |_: ReadError| HeaderError::Truncated { has: bytes.len() };
        let mut reader = Reader::new(bytes).sub(HEADER_LEN).map_err(short)?;
        if reader.array().map_err(short)? != MAGIC {
            return Err(HeaderError::Magic);
        }
        let version = reader.be16().map_err(short)?;
        if version != VERSION {
            return Err(HeaderError::Version { version });
        }
        let text = |field| HeaderError::Text { field };
        let mut name = |field| Text::from_bytes_not_empty(reader.array().map_err(short)?).ok_or(text(field));
        let (cipher_name, cipher_mode) = (name(TextField::CipherName)?, name(TextField::CipherMode)?);
        let hash = name(TextField::Hash)?;
        let mut fields = Self {
            cipher_name,
            cipher_mode,
            hash,
            data_sector: reader.be32().map_err(short)?,
            key_len: reader.be32().map_err(short)?,
            digest: reader.array().map_err(short)?,
            digest_salt: reader.array().map_err(short)?,
            digest_iterations: reader.be32().map_err(short)?,
            uuid: Text::from_bytes(reader.array().map_err(short)?).ok_or(text(TextField::Uuid))?,
            slots: [RawSlot::default(); SLOTS],
        };
        for slot in &mut fields.slots {
            let (Be(state), Be(iterations), salt, Be(sector), Be(stripes)) = reader.field().map_err(short)?;
            *slot = RawSlot { state, iterations, salt, sector, stripes };
        }
        reader.finish().map_err(short)?;
        Ok(fields)
    }

    fn encode(&self) -> [u8; HEADER_LEN] {
        let slots = self.slots.map(|RawSlot { state, iterations, salt, sector, stripes }| {
            (Be(state), Be(iterations), salt, Be(sector), Be(stripes))
        });
        encode((
            (MAGIC, Be(VERSION)),
            (*self.cipher_name.bytes(), *self.cipher_mode.bytes(), *self.hash.bytes()),
            (Be(self.data_sector), Be(self.key_len)),
            (self.digest, self.digest_salt, Be(self.digest_iterations)),
            *self.uuid.bytes(),
            Rows(slots),
        ))
    }

    /// The first two keyslots whose areas share sectors.
    pub(super) fn overlap(&self) -> Option<(usize, usize)> {
        let range = |slot: &RawSlot| (u64::from(slot.sector), slot.end(self.key_len));
        self.slots.iter().enumerate().find_map(|(b, second)| {
            let (second_start, second_end) = range(second);
            let a = self.slots.iter().take(b).position(|first| {
                let (first_start, first_end) = range(first);
                first_start < second_end && second_start < first_end
            })?;
            Some((a, b))
        })
    }
}
