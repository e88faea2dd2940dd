//! The uImage of a script: `boot.scr`.

use std::fmt;

use super::hash::crc32;

const MAGIC: u32 = 0x2705_1956;
const LINUX: u8 = 5;
const SCRIPT: u8 = 6;
const NAME: usize = 32;

/// U-Boot's names of architectures, and their numbers in a uImage.
pub const ARCHITECTURES: [(&str, u8); 14] = [
    ("alpha", 1),
    ("arm", 2),
    ("arm64", 22),
    ("m68k", 12),
    ("microblaze", 14),
    ("mips", 5),
    ("mips64", 6),
    ("nios2", 15),
    ("ppc", 7),
    ("powerpc", 7),
    ("riscv", 26),
    ("sh", 9),
    ("x86", 3),
    ("x86_64", 24),
];

/// A script that was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScriptError {
    /// An architecture that U-Boot does not know.
    Architecture(String),
    /// A title of more than 31 bytes, or with a zero.
    Title(String),
    /// A script with a zero in it, where U-Boot would end.
    Zero {
        /// Where.
        offset: usize,
    },
    /// A script without a command.
    Empty,
    /// A script of 4 GiB or more.
    TooLarge,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Architecture(name) => write!(f, "U-Boot knows no architecture {name:?}"),
            Self::Title(title) => write!(f, "{title:?} is no title of at most 31 bytes"),
            Self::Zero { offset } => {
                write!(f, "byte {offset} of the script is a zero, where U-Boot would end")
            }
            Self::Empty => f.write_str("the script is empty"),
            Self::TooLarge => f.write_str("a script ends before 4 GiB"),
        }
    }
}

impl std::error::Error for ScriptError {}

/// Puts a script into the form that `source` and U-Boot's boot flow read, as `mkimage -T script` does.
///
/// # Errors
/// [`ScriptError`] if the architecture is unknown, the title has more than 31 bytes or a zero, or the script
/// is empty, has a zero or is too large.
pub fn script(text: &[u8], arch: &str, title: &str, timestamp: u32) -> Result<Vec<u8>, ScriptError> {
    let known = ARCHITECTURES.iter().find(|(name, _)| *name == arch);
    let (_, arch) = *known.ok_or_else(|| ScriptError::Architecture(arch.into()))?;
    if title.len() >= NAME || title.contains('\0') {
        return Err(ScriptError::Title(title.into()));
    }
    if text.is_empty() {
        return Err(ScriptError::Empty);
    }
    if let Some(offset) = text.iter().position(|&byte| byte == 0) {
        return Err(ScriptError::Zero { offset });
    }
    // A list of lengths with a zero behind it comes first: the form is that of images in parts.
    let len = u32::try_from(text.len()).map_err(|_| ScriptError::TooLarge)?;
    let size = len.checked_add(8).ok_or(ScriptError::TooLarge)?;
    let parts = [len.to_be_bytes(), [0; 4]].concat();
    let header = |own_crc: u32| {
        let words = [MAGIC, own_crc, timestamp, size, 0, 0, crc32(&[&parts, text])];
        let mut header: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
        header.extend_from_slice(&[LINUX, arch, SCRIPT, 0]);
        header.extend_from_slice(title.as_bytes());
        header.resize(64, 0);
        header
    };
    // The header's checksum is over the header with zeros in its place.
    let own_crc = crc32(&[&header(0)]);
    Ok([header(own_crc), parts, text.to_vec()].concat())
}
