//! The first 64 bytes of a header: what is encrypted and how. None of it ever changes but the sequence number.

use core::fmt;

use atrest_codec::{Le, decode, encode};

use super::{MAGIC, MAX_KEY_LEN, PARAMS_LEN, VERSION};

/// A volume's UUID, in the order of its hexadecimal digits.
pub type Uuid = [u8; 16];

/// What a volume is, apart from its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Cipher of the data.
    pub cipher: FlashCipher,
    /// Bytes in the volume key: a multiple of 8 from 16 to 64 that the cipher takes.
    pub key_len: u8,
    /// Whether data is authenticated, and how.
    pub protection: Protection,
    /// UUID.
    pub uuid: Uuid,
    /// Sizes of the medium, header included.
    pub sizes: FlashSizes,
    /// Bytes under one tweak (a multiple of 512 up to 4096); of sealed media, bytes of content in a unit ([`SEALED_UNITS`]).
    pub data_unit: u32,
}

/// Bytes of content that a unit of a sealed medium can have, in multiples of 4: no more than AES-CCM takes.
pub const SEALED_UNITS: core::ops::RangeInclusive<u32> = 16..=65532;

/// Sizes of a medium in bytes, and its erase blocks: what `FlashGeometry` of `atrest-device` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashSizes {
    /// Bytes read at least.
    pub read_size: u32,
    /// Bytes in a prog unit.
    pub prog_size: u32,
    /// Bytes in an erase block.
    pub erase_size: u32,
    /// Erase blocks.
    pub block_count: u64,
}

/// Whether what is stored is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Encrypted with a cipher that preserves the length: whoever changes it gets garbage, or an older state, in.
    Encrypted,
    /// Encrypted and authenticated.
    Sealed {
        /// Bytes of tag in a unit: [`FlashCipher::tag_lens`].
        tag_len: u8,
        /// Where it is remembered how new the medium is.
        store: Freshness,
        /// Where it is noted that a block is about to be erased.
        tickets: TicketPolicy,
    },
}

/// What tells the newest state of a sealed medium from older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Nothing: older states are accepted.
    Nothing,
    /// A record that is replaced.
    Record,
    /// A counter that only goes up. The last three erase blocks of the medium are its log.
    Counter,
}

/// Where the erase of a block of a sealed medium is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketPolicy {
    /// In a slot of another block.
    Slot,
    /// In the trusted store.
    Store,
}

macro_rules! ciphers {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal, $lens:expr;)*) => {
        /// The ciphers that a header can name.
        #[non_exhaustive]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FlashCipher {
            $($(#[$doc])* $name,)*
        }

        impl FlashCipher {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The byte in the header.
            pub const fn code(self) -> u8 {
                match self {
                    $(Self::$name => $code,)*
                }
            }

            /// The cipher of a byte.
            pub const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// dm-crypt's string, which `atrest_cipher::CipherSpec` parses; of an AEAD what people call it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Bytes that a key may have, shortest first.
            pub const fn key_lens(self) -> &'static [u8] {
                match self {
                    $(Self::$name => &$lens,)*
                }
            }
        }
    };
}

ciphers! {
    /// AES-XTS.
    AesXts = 1, "aes-xts-plain64", [32, 48, 64];
    /// Adiantum with XChaCha12.
    Adiantum12 = 2, "xchacha12,aes-adiantum-plain64", [32];
    /// Adiantum with XChaCha20.
    Adiantum20 = 3, "xchacha20,aes-adiantum-plain64", [32];
    /// HPolyC with XChaCha12.
    HPolyC12 = 4, "xchacha12,aes-hpolyc-plain64", [32];
    /// HPolyC with XChaCha20.
    HPolyC20 = 5, "xchacha20,aes-hpolyc-plain64", [32];
    /// HCTR2 with AES.
    AesHctr2 = 6, "aes-hctr2-plain64", [16, 24, 32];
    /// CBC with AES and ESSIV.
    AesCbcEssiv = 7, "aes-cbc-essiv:sha256", [16, 24, 32];
    /// XEX with one key.
    AesXex1 = 8, "aes-xex1-plain64", [16, 24, 32];
    /// Serpent-XTS.
    SerpentXts = 9, "serpent-xts-plain64", [32, 48, 64];
    /// Ascon-AEAD128, for sealed media.
    Ascon128 = 129, "ascon-aead128", [16];
    /// ChaCha20 and Poly1305, for sealed media.
    ChaCha20Poly1305 = 130, "chacha20-poly1305", [32];
    /// AES in CCM, for sealed media.
    AesCcm = 131, "aes-ccm", [16, 32];
    /// AES in GCM, for sealed media.
    AesGcm = 132, "aes-gcm", [16, 32];
}

impl FlashCipher {
    /// The cipher of that name, as [`FlashCipher::name`] prints it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|cipher| cipher.name() == name)
    }

    /// Whether it authenticates, and so is for sealed media alone.
    pub const fn is_aead(self) -> bool {
        !self.tag_lens().is_empty()
    }

    /// Bytes that a tag may have, longest first; none for ciphers that do not authenticate.
    pub const fn tag_lens(self) -> &'static [u8] {
        match self {
            Self::Ascon128 | Self::ChaCha20Poly1305 => &[16],
            Self::AesCcm | Self::AesGcm => &[16, 12],
            _ => &[],
        }
    }
}

/// Which parameter is not acceptable.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamsError {
    /// The cipher is not known to this version.
    Cipher {
        /// Its byte.
        code: u8,
    },
    /// The cipher does not take keys of that length.
    KeyLen {
        /// Bytes.
        bytes: u8,
    },
    /// An earlier version sealed the volume, in a format without salts.
    EarlierSealed,
    /// The protection level is none that exists, or does not go with the cipher.
    Protection {
        /// Level, bytes of tag, trusted store and ticket policy, as in the header.
        bytes: [u8; 4],
    },
    /// The data unit is none that ciphers are used with here.
    DataUnit {
        /// Bytes.
        bytes: u32,
    },
    /// The sizes make no medium with room for the header and a block behind it.
    Sizes(FlashSizes),
}

/// Magic and version; cipher and key length; protection; sequence number; UUID; sizes; data unit.
type Fields =
    (([u8; 8], Le<u16>), [u8; 2], [u8; 4], Le<u64>, Uuid, (Le<u32>, Le<u32>, Le<u32>, Le<u64>), Le<u32>);

impl Params {
    /// Whether they go together.
    ///
    /// # Errors
    /// [`ParamsError::KeyLen`] if the cipher has no keys of this length, [`ParamsError::Protection`] if it
    /// has no tags of this length or can't be used with this protection, [`ParamsError::DataUnit`] and
    /// [`ParamsError::Sizes`] if a unit or the layout is impossible.
    pub fn check(&self) -> Result<(), ParamsError> {
        if !self.cipher.key_lens().contains(&self.key_len) || usize::from(self.key_len) > MAX_KEY_LEN {
            return Err(ParamsError::KeyLen { bytes: self.key_len });
        }
        let tag_is_right = match self.protection {
            Protection::Encrypted => !self.cipher.is_aead(),
            Protection::Sealed { tag_len, .. } => self.cipher.tag_lens().contains(&tag_len),
        };
        if !tag_is_right {
            return Err(ParamsError::Protection { bytes: self.protection.encode() });
        }
        let unit_is_right = match self.protection {
            Protection::Encrypted => matches!(self.data_unit, 512 | 1024 | 2048 | 4096),
            Protection::Sealed { .. } => {
                SEALED_UNITS.contains(&self.data_unit) && self.data_unit.is_multiple_of(4)
            }
        };
        if !unit_is_right {
            return Err(ParamsError::DataUnit { bytes: self.data_unit });
        }
        if !self.sizes.are_possible() {
            return Err(ParamsError::Sizes(self.sizes));
        }
        Ok(())
    }

    /// The fields behind the magic and the version, without the sequence number: what wrapping keys depend on.
    pub(super) fn encode(&self, sequence: u64) -> [u8; PARAMS_LEN] {
        let FlashSizes { read_size, prog_size, erase_size, block_count } = self.sizes;
        let fields: Fields = (
            (MAGIC, Le(VERSION)),
            [self.cipher.code(), self.key_len],
            self.protection.encode(),
            Le(sequence),
            self.uuid,
            (Le(read_size), Le(prog_size), Le(erase_size), Le(block_count)),
            Le(self.data_unit),
        );
        encode(fields)
    }

    /// Reads what follows the magic and the version, and checks it. Gives the sequence number beside it.
    pub(super) fn decode(bytes: &[u8; PARAMS_LEN]) -> Result<(Self, u64), ParamsError> {
        let (_, [code, key_len], level, Le(sequence), uuid, sizes, Le(data_unit)): Fields = decode(bytes);
        let cipher = FlashCipher::from_code(code).ok_or(ParamsError::Cipher { code })?;
        if let [SEALED_BEFORE, ..] = level {
            return Err(ParamsError::EarlierSealed);
        }
        let protection = Protection::decode(level).ok_or(ParamsError::Protection { bytes: level })?;
        let (Le(read_size), Le(prog_size), Le(erase_size), Le(block_count)) = sizes;
        let sizes = FlashSizes { read_size, prog_size, erase_size, block_count };
        let params = Self { cipher, key_len, protection, uuid, sizes, data_unit };
        params.check()?;
        Ok((params, sequence))
    }
}

impl FlashSizes {
    /// Erase blocks that one copy of the header takes.
    pub const fn blocks_per_copy(&self) -> u64 {
        (super::HEADER_LEN as u64).div_ceil(if self.erase_size == 0 { 1 } else { self.erase_size as u64 })
    }

    /// The first erase block behind both copies of the header: where the data begins.
    pub const fn first_data_block(&self) -> u64 {
        // cannot overflow: at most 512 blocks of a byte.
        self.blocks_per_copy().saturating_mul(2)
    }

    /// Bytes in all.
    pub const fn size(&self) -> u64 {
        // cannot overflow: `are_possible` has multiplied them with a check.
        self.block_count.saturating_mul(self.erase_size as u64)
    }

    fn are_possible(&self) -> bool {
        let Self { read_size, prog_size, erase_size, block_count } = *self;
        let whole = |large: u32, small: u32| small != 0 && large != 0 && large.is_multiple_of(small);
        whole(prog_size, read_size)
            && whole(erase_size, prog_size)
            && block_count.checked_mul(u64::from(erase_size)).is_some()
            && block_count > self.first_data_block()
    }
}

/// Protection of sealed media.
const SEALED: u8 = 2;
/// Of those that were sealed without salts, by a version that only developers had.
const SEALED_BEFORE: u8 = 1;

impl Protection {
    fn encode(self) -> [u8; 4] {
        match self {
            Self::Encrypted => [0; 4],
            Self::Sealed { tag_len, store, tickets } => {
                let store = match store {
                    Freshness::Nothing => 0,
                    Freshness::Record => 1,
                    Freshness::Counter => 2,
                };
                let tickets = match tickets {
                    TicketPolicy::Slot => 0,
                    TicketPolicy::Store => 1,
                };
                [SEALED, tag_len, store, tickets]
            }
        }
    }

    fn decode(bytes: [u8; 4]) -> Option<Self> {
        let [level, tag_len, store, tickets] = bytes;
        match level {
            0 if bytes == [0; 4] => Some(Self::Encrypted),
            SEALED => {
                let store = match store {
                    0 => Freshness::Nothing,
                    1 => Freshness::Record,
                    2 => Freshness::Counter,
                    _ => return None,
                };
                let tickets = match tickets {
                    0 => TicketPolicy::Slot,
                    1 => TicketPolicy::Store,
                    _ => return None,
                };
                Some(Self::Sealed { tag_len, store, tickets })
            }
            _ => None,
        }
    }
}

impl fmt::Display for FlashCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for ParamsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cipher { code } => {
                write!(f, "its cipher has the number {code}, which this version does not know")
            }
            Self::KeyLen { bytes } => write!(f, "its cipher takes no volume key of {bytes} bytes"),
            Self::EarlierSealed => f.write_str(
                "an earlier version sealed the volume, in a format without salts: copy its files with that version to a volume that this one makes",
            ),
            Self::Protection { bytes: [level, tag, store, tickets] } => write!(
                f,
                "its protection (level {level}, tag of {tag} bytes, store {store}, tickets {tickets}) does not exist or does not go with its cipher"
            ),
            Self::DataUnit { bytes } => write!(f, "its data unit of {bytes} bytes is not possible"),
            Self::Sizes(FlashSizes { read_size, prog_size, erase_size, block_count }) => write!(
                f,
                "{block_count} erase blocks of {erase_size} bytes, programmed by {prog_size} and read by {read_size}, are no medium with room for a volume"
            ),
        }
    }
}

impl core::error::Error for ParamsError {}
