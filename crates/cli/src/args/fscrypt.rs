//! Keys of files that the filesystem itself encrypts (fscrypt), for the commands that read files.

use core::str::FromStr;
use std::convert::Infallible;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Keys for what is encrypted inside an ext4: directories with policies of fscrypt.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Directories encrypted by ext4 (fscrypt)")]
pub struct FscryptArgs {
    /// Take a master key from this file, every byte of it (16 to 64); `-` reads standard input to its end. A policy of version 1 may
    /// call its key by another name than the key's own: DESCRIPTOR=FILE. Can be given more than once.
    #[arg(long, value_name = "[DESCRIPTOR=]FILE")]
    pub fscrypt_key: Vec<FscryptKey>,
}

/// A file with a master key, and what policies of version 1 call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FscryptKey {
    /// Eight bytes, if the key's own name is not meant.
    pub descriptor: Option<[u8; 8]>,
    /// Where the key is.
    pub path: PathBuf,
}

impl FromStr for FscryptKey {
    type Err = Infallible;

    /// What is before `=` is a descriptor if it can be one; otherwise it belongs to the path.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let split = text.split_once('=').and_then(|(name, path)| Some((descriptor(name)?, path)));
        Ok(match split {
            Some((descriptor, path)) => Self { descriptor: Some(descriptor), path: path.into() },
            None => Self { descriptor: None, path: OsString::from(text).into() },
        })
    }
}

/// The bytes of 16 hexadecimal digits.
fn descriptor(text: &str) -> Option<[u8; 8]> {
    let digits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.then(|| u64::from_str_radix(text, 16).ok()).flatten().map(u64::to_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_told_from_a_path_with_an_equals_sign() {
        let of = |text: &str| text.parse::<FscryptKey>().map(|key| (key.descriptor, key.path));
        let named = Some([0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef]);
        assert_eq!(of("0123456789abcdef=v1.key"), Ok((named, "v1.key".into())));
        assert_eq!(of("0123456789ABCDEF=a=b"), Ok((named, "a=b".into())));
        for path in
            ["v1.key", "dir=x/v1.key", "0123456789abcdeg=x", "0123456789abcdef", "-", "+123456789abcdef=x"]
        {
            assert_eq!(of(path), Ok((None, path.into())), "{path}");
        }
    }
}
