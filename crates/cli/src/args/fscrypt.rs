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
    #[command(flatten)]
    pub protectors: ProtectorArgs,
}

impl FscryptArgs {
    /// Whether no key is named.
    pub fn are_none(&self) -> bool {
        self.fscrypt_key.is_empty() && self.protectors.fscrypt_protector.is_empty()
    }
}

/// Protectors that google/fscrypt keeps in the filesystem.
#[derive(Args, Clone, Debug, Default)]
pub struct ProtectorArgs {
    /// Unlock the policies of this protector of google/fscrypt. Say its descriptor or its name (`atrest tree policies` lists both), or
    /// nothing if there is only one. Its passphrase is asked for, or taken from FILE without the newline that ends it. A raw key is all
    /// 32 bytes of FILE. `-` reads standard input to its end, /dev/fd/N a descriptor. Name a protector on another filesystem as in
    /// `fscrypt unlock --unlock-with`: PLACE:DESCRIPTOR, where PLACE is the directory in which that filesystem is mounted, or its
    /// image. Can be given more than once.
    #[arg(long, value_name = "[PLACE:]PROTECTOR[=FILE]")]
    pub fscrypt_protector: Vec<FscryptProtector>,
}

/// A protector, and where its secret comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FscryptProtector {
    /// Where the filesystem is that the protector lies on, if it is another one than that of the policies.
    pub place: Option<PathBuf>,
    /// Its descriptor or name; none means the only one.
    pub protector: Option<String>,
    /// Where the secret is; none means that it is asked for.
    pub file: Option<PathBuf>,
}

impl FromStr for FscryptProtector {
    type Err = Infallible;

    /// A colon stands behind a place only if a descriptor follows: names may have colons. So may places and files.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        let ends_place = |&(at, _): &(usize, &str)| {
            // cannot miss: a colon has one byte.
            let rest = text.get(at + 1..).unwrap_or_default();
            let end = rest.find('=').unwrap_or(rest.len());
            at > 0 && rest.get(..end).and_then(descriptor).is_some()
        };
        let colon = text.match_indices(':').find(ends_place).map(|(at, _)| at);
        let (place, rest) = match colon.and_then(|at| text.split_at_checked(at)) {
            Some((place, rest)) => (Some(place), rest.strip_prefix(':').unwrap_or(rest)),
            None => (None, text),
        };
        let (protector, file) = match rest.split_once('=') {
            Some((protector, file)) => (protector, Some(file)),
            None => (rest, None),
        };
        let protector = match descriptor(protector) {
            Some(_) => protector.to_ascii_lowercase(),
            None => protector.to_owned(),
        };
        Ok(Self {
            place: place.map(PathBuf::from),
            protector: Some(protector).filter(|name| !name.is_empty()),
            file: file.map(PathBuf::from),
        })
    }
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
    fn a_protector_is_told_from_its_place_and_its_file() {
        let of = |text: &str| {
            let Ok(given) = text.parse::<FscryptProtector>();
            let path = |path: Option<PathBuf>| path.map(|path| path.display().to_string());
            (path(given.place), given.protector, path(given.file))
        };
        let some = |text: &str| Some(text.to_owned());
        let id = "0123456789abcdef";
        for (text, place, protector, file) in [
            ("mine", None, some("mine"), None),
            ("mine=pass=word", None, some("mine"), some("pass=word")),
            ("=key", None, None, some("key")),
            ("", None, None, None),
            ("0123456789ABCDEF=-", None, some(id), some("-")),
            ("/:0123456789abcdef", some("/"), some(id), None),
            ("a=b:c:0123456789abcdef=d:e", some("a=b:c"), some(id), some("d:e")),
            ("odd: name", None, some("odd: name"), None),
            ("x=y:0123456789abcdeg", None, some("x"), some("y:0123456789abcdeg")),
            (":0123456789abcdef", None, some(":0123456789abcdef"), None),
        ] {
            assert_eq!(of(text), (place, protector, file), "{text}");
        }
    }

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
