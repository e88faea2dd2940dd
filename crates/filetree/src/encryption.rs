//! The hook through which a filesystem asks for the cipher of an encrypted inode (Linux: fscrypt).
//!
//! The filesystem knows where the ciphertext of contents, names and link targets lies, and where an inode's *context* does: what
//! says how it is encrypted and under which master key. Policies, keys and ciphers are another room's, behind [`Encryption`].
//! Both directions are here, so that what writes such a filesystem uses the same hook as what reads it.

use core::fmt;
use core::str::FromStr;
use std::sync::Arc;

use crate::tree::Kind;

/// What keys, policies and ciphers a filesystem is opened with.
pub trait Encryption: Send + Sync {
    /// Changes whenever a key comes or goes: names that were kept from before are dropped then.
    fn generation(&self) -> u64;

    /// Checks the context of an inode and looks for its key.
    ///
    /// # Errors
    /// An [`EncryptionFault`] for a context that is not one, or one that the kernel would refuse, whether there is a key or not;
    /// [`EncryptionFault::KeyTooShort`] for a key that the policy does not take, and [`EncryptionFault::Cipher`] if a cipher does not.
    fn open(&self, inode: &EncryptedInode<'_>) -> Result<Opened, EncryptionFault>;

    /// Whether two contexts have one policy: all but the nonces is the same.
    fn same_policy(&self, context: &[u8], other: &[u8]) -> bool;

    /// The context of a new inode in a directory of this context: the same policy and a nonce of its own.
    ///
    /// # Errors
    /// An [`EncryptionFault`] if `parent` is no context, and [`EncryptionFault::Random`] if there is no nonce to be had.
    fn child_context(&self, parent: &[u8]) -> Result<Vec<u8>, EncryptionFault>;
}

/// An inode that its filesystem marks as encrypted, and what its cipher may depend on.
#[derive(Clone, Copy, Debug)]
pub struct EncryptedInode<'a> {
    /// Its number.
    pub number: u64,
    /// What it is: a file's contents have another cipher than names and link targets.
    pub kind: Kind,
    /// Whether names in it are looked up without regard to case.
    pub casefolded: bool,
    /// The context as stored.
    pub context: &'a [u8],
    /// What is the same for all inodes.
    pub filesystem: &'a EncryptedFilesystem,
}

/// What the ciphers of a filesystem's inodes may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncryptedFilesystem {
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Bytes in a block.
    pub block_size: u32,
    /// Inodes keep their numbers, and the filesystem its UUID, for as long as it lives.
    pub stable_inodes: bool,
}

/// What [`Encryption::open`] found.
#[derive(Clone)]
pub enum Opened {
    /// The key is not here.
    Locked(KeyName),
    /// The cipher of the inode.
    Unlocked(Arc<dyn InodeCipher>),
}

/// The keyed cipher of one inode, shared by threads.
pub trait InodeCipher: Send + Sync {
    /// Bytes of a file's contents that are encrypted at a time: at most a block.
    fn data_unit(&self) -> usize;

    /// Decrypts whole data units of a file in place, of which the first has index `first`.
    ///
    /// # Errors
    /// [`EncryptionFault::Run`] unless these are whole data units, not too far into a file.
    fn decrypt_contents(&self, first: u64, units: &mut [u8]) -> Result<(), EncryptionFault>;

    /// Encrypts whole data units of a file in place, of which the first has index `first`.
    ///
    /// # Errors
    /// [`EncryptionFault::Run`] unless these are whole data units, not too far into a file, and [`EncryptionFault::SingleSnapshot`] if
    /// nobody has acknowledged what its mode shows.
    fn encrypt_contents(&self, first: u64, units: &mut [u8]) -> Result<(), EncryptionFault>;

    /// The plain names for the stored ones of a directory, in order.
    ///
    /// All names of a directory at once: where the format has no check of the key, many names tell more than one.
    ///
    /// # Errors
    /// [`EncryptionFault::CiphertextLength`] if one has a length that none can have, [`EncryptionFault::Implausible`] if what comes
    /// out can't be names.
    fn decrypt_names(&self, stored: &[&[u8]]) -> Result<Vec<Vec<u8>>, EncryptionFault>;

    /// What a directory stores for a name of 1 to 255 bytes.
    ///
    /// # Errors
    /// [`EncryptionFault::PlaintextLength`] if it is empty or too long.
    fn encrypt_name(&self, name: &[u8]) -> Result<Vec<u8>, EncryptionFault>;

    /// The target of a link, from all bytes that are stored for it: a length of two bytes, little-endian, and the ciphertext.
    ///
    /// # Errors
    /// [`EncryptionFault::CiphertextLength`] if the length is one that none can have, [`EncryptionFault::Implausible`] if what comes
    /// out can't be a target.
    fn decrypt_link(&self, stored: &[u8]) -> Result<Vec<u8>, EncryptionFault>;

    /// What is stored for a link's target, its length included. A block must have room for it.
    ///
    /// # Errors
    /// [`EncryptionFault::PlaintextLength`] if it is empty or too long.
    fn encrypt_link(&self, target: &[u8]) -> Result<Vec<u8>, EncryptionFault>;

    /// The hash, and the minor hash, that a casefolded directory stores behind a name: `folded` is the plain name, folded.
    /// None where the policy has no key for it (version 1).
    fn name_hash(&self, folded: &[u8]) -> Option<(u32, u32)>;
}

/// What a policy calls its master key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyName {
    /// Any eight bytes that were agreed on (policies of version 1).
    Descriptor([u8; 8]),
    /// A hash of the key (policies of version 2).
    Identifier([u8; 16]),
}

impl fmt::Display for KeyName {
    /// As the kernel's tools do: hexadecimal, with no word before it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: &[u8] = match self {
            Self::Descriptor(bytes) => bytes,
            Self::Identifier(bytes) => bytes,
        };
        bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A key's name is 16 hexadecimal digits (a descriptor) or 32 (an identifier).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoKeyName;

impl fmt::Display for NoKeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key is called by 16 hexadecimal digits (its descriptor) or 32 (its identifier)")
    }
}

impl core::error::Error for NoKeyName {}

impl FromStr for KeyName {
    type Err = NoKeyName;

    fn from_str(text: &str) -> Result<Self, NoKeyName> {
        if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NoKeyName);
        }
        match text.len() {
            16 => u64::from_str_radix(text, 16).map(|name| Self::Descriptor(name.to_be_bytes())),
            32 => u128::from_str_radix(text, 16).map(|name| Self::Identifier(name.to_be_bytes())),
            _ => return Err(NoKeyName),
        }
        .map_err(|_| NoKeyName)
    }
}

/// What is wrong with the encryption of an inode.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncryptionFault {
    /// It is marked as encrypted but has no context.
    MissingContext,
    /// The context has a length that no version has.
    ContextLength {
        /// Its bytes.
        len: usize,
    },
    /// The context is of an unknown version.
    Version(u8),
    /// The modes of contents and names are unknown, or must not be used together.
    Modes {
        /// Number of the mode for contents.
        contents: u8,
        /// Number of the mode for names.
        names: u8,
    },
    /// The flags are unknown, or contradict each other, the modes or the version.
    Flags(u8),
    /// Data units of this size are not possible here.
    DataUnit {
        /// The stored logarithm to base 2.
        log2: u8,
    },
    /// Bytes that must be zero are not.
    Reserved,
    /// The policy makes IVs of inode numbers, which may change in this filesystem.
    UnstableInodes,
    /// A directory of version 1 can't be casefolded.
    Casefolded,
    /// Its policy is not that of the directory it lies in.
    MixedPolicy {
        /// The directory.
        parent: u64,
    },
    /// It is not encrypted, though the directory it lies in is.
    Unencrypted {
        /// The directory.
        parent: u64,
    },
    /// The master key is shorter than the policy wants it.
    KeyTooShort {
        /// Bytes it has.
        len: usize,
        /// Bytes it should have.
        needs: usize,
    },
    /// What was decrypted can't be right: the key is the wrong one, as far as can be told (policies of version 1), or a name is damaged.
    Implausible(KeyName),
    /// A stored name or link target has a length that none can have.
    CiphertextLength {
        /// Its bytes.
        len: usize,
    },
    /// A name or link target is too long, or empty.
    PlaintextLength {
        /// Its bytes.
        len: usize,
    },
    /// Not whole data units, or too far into the file for the policy.
    Run,
    /// The mode is safe for one snapshot of the medium only, and nobody has acknowledged that: nothing is encrypted.
    SingleSnapshot,
    /// The system gave no random bytes for a nonce.
    Random,
    /// A cipher refused its key.
    Cipher,
}

impl fmt::Display for EncryptionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingContext => f.write_str("it is encrypted but has no encryption context"),
            Self::ContextLength { len } => {
                write!(f, "its encryption context has {len} bytes, which none has")
            }
            Self::Version(version) => write!(f, "its encryption context is of unknown version {version}"),
            Self::Modes { contents, names } => {
                write!(f, "encryption mode {contents} for contents with {names} for names is not supported")
            }
            Self::Flags(flags) => write!(f, "encryption flags {flags:#04x} are not possible with its policy"),
            Self::DataUnit { log2 } => write!(f, "data units of 2^{log2} bytes are not possible here"),
            Self::Reserved => f.write_str("reserved bytes of its encryption context are not zero"),
            Self::UnstableInodes => f.write_str(
                "its IVs are made of inode numbers, and the filesystem lacks the feature stable_inodes",
            ),
            Self::Casefolded => f.write_str("a casefolded directory can't have a policy of version 1"),
            Self::MixedPolicy { parent } => {
                write!(f, "its encryption policy is not that of its directory, inode {parent}")
            }
            Self::Unencrypted { parent } => {
                write!(f, "it is not encrypted, but its directory, inode {parent}, is")
            }
            Self::KeyTooShort { len, needs } => {
                write!(f, "its encryption policy wants a master key of at least {needs} bytes, not {len}")
            }
            Self::Implausible(name @ KeyName::Descriptor(_)) => {
                write!(
                    f,
                    "what the key given for descriptor {name} decrypts is no name: it is the wrong key, or the directory is damaged"
                )
            }
            Self::Implausible(name @ KeyName::Identifier(_)) => {
                write!(f, "an encrypted name under key {name} is damaged")
            }
            Self::CiphertextLength { len } => {
                write!(f, "an encrypted name or link target can't have {len} bytes")
            }
            Self::PlaintextLength { len } => {
                write!(f, "a name or link target of {len} bytes can't be stored encrypted")
            }
            Self::Run => f.write_str("these are no data units that its encryption policy can have"),
            Self::SingleSnapshot => f.write_str(
                "its mode shows what changes to whoever sees two snapshots of the medium, so it is only read",
            ),
            Self::Random => f.write_str("the system gave no random bytes"),
            Self::Cipher => f.write_str("the cipher refused the key"),
        }
    }
}

impl core::error::Error for EncryptionFault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_by_the_name_that_it_is_shown_by() {
        for name in [KeyName::Descriptor(*b"\x00\x01\xfe1234\xff"), KeyName::Identifier([0xa5; 16])] {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        for text in ["", "+123456789abcdef", "0123456789abcde", "0123456789abcdef0", "g123456789abcdef"] {
            assert_eq!(text.parse::<KeyName>(), Err(NoKeyName), "{text}");
        }
    }
}
