//! Policies and contexts: what an inode says of its encryption (kernel, `fs/crypto/policy.c`).
//!
//! A context is a policy and a nonce: 28 bytes of version 1, 40 of version 2. What the kernel refuses to open is refused here.

use atrest_codec::{Reader, encode};
use atrest_filetree::{EncryptedFilesystem, EncryptionFault, KeyName};

use super::mode::EncryptionMode;

/// Bytes of the nonce that makes an inode's keys or IVs its own.
pub const NONCE_LEN: usize = 16;

const V1_LEN: usize = 28;
const V2_LEN: usize = 40;

/// Bits of the flags (kernel, `include/uapi/linux/fscrypt.h`).
mod flag {
    pub const PAD_MASK: u8 = 0x03;
    pub const DIRECT_KEY: u8 = 0x04;
    pub const IV_INO_LBLK_64: u8 = 0x08;
    pub const IV_INO_LBLK_32: u8 = 0x10;
}

/// To what multiple of bytes names and link targets are filled up, which hides their lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Padding {
    /// 4 bytes.
    Four,
    /// 8 bytes.
    Eight,
    /// 16 bytes.
    Sixteen,
    /// 32 bytes.
    ThirtyTwo,
}

impl Padding {
    fn from_flags(flags: u8) -> Self {
        match flags & flag::PAD_MASK {
            0 => Self::Four,
            1 => Self::Eight,
            2 => Self::Sixteen,
            _ => Self::ThirtyTwo,
        }
    }

    fn flags(self) -> u8 {
        match self {
            Self::Four => 0,
            Self::Eight => 1,
            Self::Sixteen => 2,
            Self::ThirtyTwo => 3,
        }
    }

    /// The multiple in bytes.
    pub fn bytes(self) -> usize {
        4 << self.flags()
    }
}

/// How files get ciphers of their own from one master key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyUse {
    /// Each file has a key of its own.
    PerFile,
    /// All have one key, and their nonces are part of the IVs (`DIRECT_KEY`).
    Direct,
    /// All have one key, and their inode numbers are part of the IVs (`IV_INO_LBLK_64`, for hardware that takes 64 bits).
    InodeLblk64,
    /// All have one key, and hashes of their inode numbers are added to the IVs (`IV_INO_LBLK_32`, for hardware that takes 32 bits).
    InodeLblk32,
}

impl KeyUse {
    fn flags(self) -> u8 {
        match self {
            Self::PerFile => 0,
            Self::Direct => flag::DIRECT_KEY,
            Self::InodeLblk64 => flag::IV_INO_LBLK_64,
            Self::InodeLblk32 => flag::IV_INO_LBLK_32,
        }
    }
}

/// How a directory and everything below it is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The mode for contents.
    pub contents: EncryptionMode,
    /// The mode for names and link targets.
    pub names: EncryptionMode,
    /// How names are filled up.
    pub padding: Padding,
    /// How the master key is used.
    pub key_use: KeyUse,
    /// The logarithm to base 2 of a data unit's bytes; none is the filesystem's block. Only in version 2.
    pub log2_data_unit: Option<u8>,
    /// The master key, whose kind of name is the policy's version.
    pub key: KeyName,
}

impl Policy {
    /// Whether the kernel lets the parts go together, on any filesystem.
    ///
    /// # Errors
    /// [`EncryptionFault::Modes`] if the modes must not be used together. [`EncryptionFault::Flags`] if the use of
    /// the key does not go with them or the version, [`EncryptionFault::DataUnit`] if the size of a data unit does
    /// not.
    pub fn check(&self) -> Result<(), EncryptionFault> {
        use EncryptionMode as Mode;
        let v2 = matches!(self.key, KeyName::Identifier(_));
        let modes_fit = match (self.contents, self.names) {
            (Mode::Aes256Xts, Mode::Aes256Cts)
            | (Mode::Aes128CbcEssiv, Mode::Aes128Cts)
            | (Mode::Adiantum, Mode::Adiantum) => true,
            (Mode::Aes256Xts, Mode::Aes256Hctr2) => v2,
            // Not the kernel's. Its nonces are unit numbers, so that each file needs a key of its own.
            (Mode::ChaCha20, Mode::Aes256Cts) => v2 && self.key_use == KeyUse::PerFile,
            _ => false,
        };
        if !modes_fit {
            return Err(EncryptionFault::Modes {
                contents: self.contents.number(),
                names: self.names.number(),
            });
        }
        let use_fits = match self.key_use {
            KeyUse::PerFile => true,
            // One key for both, whose IVs have room for a nonce.
            KeyUse::Direct => self.contents == Mode::Adiantum,
            KeyUse::InodeLblk64 | KeyUse::InodeLblk32 => v2 && self.contents == Mode::Aes256Xts,
        };
        if !use_fits {
            return Err(EncryptionFault::Flags(self.flags()));
        }
        match self.log2_data_unit {
            Some(log2) if !v2 || !(9..=16).contains(&log2) => Err(EncryptionFault::DataUnit { log2 }),
            _ => Ok(()),
        }
    }

    /// Whether a filesystem can have it.
    ///
    /// # Errors
    /// [`EncryptionFault::UnstableInodes`] if its IVs are made of inode numbers and those may change,
    /// [`EncryptionFault::DataUnit`] if data units do not fit into blocks.
    pub fn check_for(&self, filesystem: &EncryptedFilesystem) -> Result<(), EncryptionFault> {
        let by_inode = matches!(self.key_use, KeyUse::InodeLblk64 | KeyUse::InodeLblk32);
        if by_inode && !filesystem.stable_inodes {
            return Err(EncryptionFault::UnstableInodes);
        }
        let unit = self.data_unit(filesystem.block_size);
        // Indices have 32 bits in these IVs. A file of ext4 has so many blocks, and more of what is smaller; the kernel refuses it.
        let fits = if by_inode { unit == filesystem.block_size } else { unit <= filesystem.block_size };
        match self.log2_data_unit {
            Some(log2) if !fits => Err(EncryptionFault::DataUnit { log2 }),
            _ => Ok(()),
        }
    }

    /// Bytes in a data unit of contents.
    pub fn data_unit(&self, block_size: u32) -> u32 {
        self.log2_data_unit.and_then(|log2| 1_u32.checked_shl(log2.into())).unwrap_or(block_size)
    }

    /// The flags as they are stored.
    pub fn flags(&self) -> u8 {
        self.padding.flags() | self.key_use.flags()
    }

    /// Bytes that the master key must have at least.
    pub fn least_key_len(&self) -> usize {
        let longest = self.contents.key_len().max(self.names.key_len());
        match (self.key, self.contents) {
            (KeyName::Descriptor(_), _) => longest,
            // Version 2 hashes the master key, which need be no longer than the modes are strong.
            (KeyName::Identifier(_), EncryptionMode::Aes128CbcEssiv) => 16,
            (KeyName::Identifier(_), _) => 32,
        }
    }
}

/// The policy of one inode, and its nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Context {
    /// The policy.
    pub policy: Policy,
    /// What no other inode has.
    pub nonce: [u8; NONCE_LEN],
}

impl Context {
    /// Reads a context, whose policy has passed [`Policy::check`].
    ///
    /// # Errors
    /// [`EncryptionFault::ContextLength`], [`EncryptionFault::Version`] or [`EncryptionFault::Reserved`] if it is
    /// no context that we know. [`EncryptionFault::Modes`] or [`EncryptionFault::Flags`] with numbers that stand
    /// for nothing, and where [`Policy::check`] fails.
    pub fn parse(bytes: &[u8]) -> Result<Self, EncryptionFault> {
        let wrong_len = |_| EncryptionFault::ContextLength { len: bytes.len() };
        let mut reader = Reader::new(bytes);
        let [version, contents, names, flags] = reader.array().map_err(wrong_len)?;
        let (key, log2_data_unit) = match version {
            1 => (KeyName::Descriptor(reader.array().map_err(wrong_len)?), None),
            2 => {
                let [log2, reserved @ ..] = reader.array::<4>().map_err(wrong_len)?;
                if reserved != [0; 3] {
                    return Err(EncryptionFault::Reserved);
                }
                (KeyName::Identifier(reader.array().map_err(wrong_len)?), (log2 != 0).then_some(log2))
            }
            _ => return Err(EncryptionFault::Version(version)),
        };
        let nonce = reader.array().map_err(wrong_len)?;
        reader.finish().map_err(wrong_len)?;
        let mode = |number| EncryptionMode::from_number(number);
        let (Some(contents), Some(names)) = (mode(contents), mode(names)) else {
            return Err(EncryptionFault::Modes { contents, names });
        };
        let key_use = match flags & !flag::PAD_MASK {
            0 => KeyUse::PerFile,
            flag::DIRECT_KEY => KeyUse::Direct,
            flag::IV_INO_LBLK_64 => KeyUse::InodeLblk64,
            flag::IV_INO_LBLK_32 => KeyUse::InodeLblk32,
            _ => return Err(EncryptionFault::Flags(flags)),
        };
        let policy =
            Policy { contents, names, padding: Padding::from_flags(flags), key_use, log2_data_unit, key };
        policy.check()?;
        Ok(Self { policy, nonce })
    }

    /// The bytes that an inode stores.
    pub fn to_bytes(&self) -> Vec<u8> {
        let policy = &self.policy;
        let modes = [policy.contents.number(), policy.names.number(), policy.flags()];
        match &policy.key {
            KeyName::Descriptor(descriptor) => {
                encode::<_, V1_LEN>(([1], modes, *descriptor, self.nonce)).to_vec()
            }
            KeyName::Identifier(identifier) => {
                // intended: 0 stands for the block size.
                let data_unit = [policy.log2_data_unit.unwrap_or(0), 0, 0, 0];
                encode::<_, V2_LEN>(([2], modes, data_unit, *identifier, self.nonce)).to_vec()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(
        version: u8,
        contents: u8,
        names: u8,
        flags: u8,
        log2: u8,
    ) -> Result<Context, EncryptionFault> {
        let mut bytes = vec![version, contents, names, flags];
        bytes.extend_from_slice(if version == 1 { &[] } else { &[0; 4] });
        if version == 2 {
            bytes[4] = log2;
        }
        let len = if version == 1 { V1_LEN } else { V2_LEN };
        bytes.extend((bytes.len()..len).map(|i| i as u8));
        let parsed = Context::parse(&bytes)?;
        assert_eq!(parsed.to_bytes(), bytes);
        Ok(parsed)
    }

    #[test]
    fn only_what_linux_accepts_is_a_policy() {
        let mut accepted = Vec::new();
        for version in [1, 2] {
            for contents in 0..=12 {
                for names in 0..=12 {
                    for flags in (0..=0xff).step_by(4) {
                        if context(version, contents, names, flags, 0).is_ok() {
                            accepted.push((version, contents, names, flags));
                        }
                    }
                }
            }
        }
        // fs/crypto/policy.c: fscrypt_supported_v1_policy, fscrypt_supported_v2_policy.
        let expected = [
            (1, 1, 4, 0),
            (1, 5, 6, 0),
            (1, 9, 9, 0),
            (1, 9, 9, 4),
            (2, 1, 4, 0),
            (2, 1, 4, 8),
            (2, 1, 4, 16),
            (2, 1, 10, 0),
            (2, 1, 10, 8),
            (2, 1, 10, 16),
            (2, 5, 6, 0),
            (2, 9, 9, 0),
            (2, 9, 9, 4),
        ];
        assert_eq!(accepted, expected);
    }

    #[test]
    fn data_units_are_no_smaller_than_a_sector_and_no_larger_than_a_block() {
        let filesystem = |block_size| EncryptedFilesystem { uuid: [0; 16], block_size, stable_inodes: true };
        for log2 in 1..=255 {
            let fits = |block_size| {
                context(2, 1, 4, 0, log2)
                    .and_then(|context| context.policy.check_for(&filesystem(block_size)))
            };
            assert_eq!(fits(4096).is_ok(), (9..=12).contains(&log2), "{log2}");
            assert_eq!(fits(1024).is_ok(), (9..=10).contains(&log2), "{log2}");
        }
        for by_inode in [8, 16] {
            let small = context(2, 1, 4, by_inode, 9).expect("on no filesystem in particular").policy;
            assert_eq!(small.check_for(&filesystem(4096)), Err(EncryptionFault::DataUnit { log2: 9 }));
            let whole = context(2, 1, 4, by_inode, 12).expect("on no filesystem in particular").policy;
            assert_eq!(whole.check_for(&filesystem(4096)), Ok(()));
        }
        let unstable = EncryptedFilesystem { stable_inodes: false, ..filesystem(4096) };
        let policy = context(2, 1, 4, 8, 0).expect("a policy").policy;
        assert_eq!(policy.check_for(&unstable), Err(EncryptionFault::UnstableInodes));
    }

    #[test]
    fn damaged_contexts_are_told_apart() {
        use EncryptionFault as Fault;
        assert_eq!(Context::parse(&[]), Err(Fault::ContextLength { len: 0 }));
        assert_eq!(Context::parse(&[0; 28]), Err(Fault::Version(0)));
        assert_eq!(Context::parse(&[1; 40]), Err(Fault::ContextLength { len: 40 }));
        let mut bytes = [0; 40];
        bytes[..4].copy_from_slice(&[2, 1, 4, 3]);
        assert!(Context::parse(&bytes).is_ok());
        bytes[6] = 1;
        assert_eq!(Context::parse(&bytes), Err(Fault::Reserved));
        bytes[6] = 0;
        bytes[3] = 0x0c;
        assert_eq!(Context::parse(&bytes), Err(Fault::Flags(0x0c)));
        bytes[1..4].copy_from_slice(&[7, 8, 3]);
        assert_eq!(Context::parse(&bytes), Err(Fault::Modes { contents: 7, names: 8 }));
    }
}
