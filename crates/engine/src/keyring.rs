//! Keys and keyrings of the kernel (its `security/keys/core.rst`), named as keyctl(1) names them.

use std::ffi::CString;
use std::fmt;
use std::fs;
use std::io;
use std::str::FromStr;

use atrest_secret::SecretBytes;

use crate::sys;

/// Types of keys whose payload is any bytes. Those of the second kind can't be read back.
const TYPES: [&str; 2] = ["user", "logon"];

/// A key, by its number or by its type and description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// `123` or `0x7b`: the key of this serial number.
    Serial(i32),
    /// `%TYPE:DESCRIPTION`, or the description alone of a key of type `user`.
    Described {
        /// Type of the key.
        kind: String,
        /// Its description.
        description: String,
    },
}

impl Name {
    /// The key of type `user` with this description, whatever it looks like.
    pub fn user(description: &str) -> Self {
        Self::Described { kind: "user".into(), description: description.into() }
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if let Some(serial) = serial(text) {
            return Ok(Self::Serial(serial));
        }
        let (kind, description) = match text.strip_prefix('%') {
            Some(typed) => typed.split_once(':').ok_or(NameError::Key)?,
            None => ("user", text),
        };
        match kind.is_empty() || description.is_empty() || text.contains('\0') {
            true => Err(NameError::Key),
            false => Ok(Self::Described { kind: kind.into(), description: description.into() }),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serial(serial) => write!(f, "key {serial}"),
            Self::Described { kind, description } => write!(f, "key {description:?} of type {kind}"),
        }
    }
}

/// A decimal number, or a hexadecimal one behind `0x`; those of keys are more than 0.
fn serial(text: &str) -> Option<i32> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => i32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.ok().filter(|serial| *serial > 0 && !text.starts_with('+'))
}

/// A place for a new key: `KEYRING::KEY`, as cryptsetup's `--link-vk-to-keyring` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    keyring: KeyringName,
    kind: String,
    description: String,
}

/// A keyring, by its number, its special name or its description.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyringName {
    /// Of the kernel's special numbers, or a serial number.
    Number(i32),
    Described(String),
}

/// Special names that outlive the process, and their numbers in the kernel's interface.
const SPECIAL: [(&str, i32); 3] = [("@s", -3), ("@u", -4), ("@us", -5)];
/// Those of keyrings that end with it.
const OWN: [&str; 2] = ["@t", "@p"];

impl FromStr for Place {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let (keyring, key) = text.split_once("::").ok_or(NameError::Place)?;
        if keyring.is_empty() || text.contains('\0') {
            return Err(NameError::Place);
        }
        if OWN.contains(&keyring) {
            return Err(NameError::EndsWithUs);
        }
        let special = SPECIAL.iter().find(|(name, _)| *name == keyring).map(|(_, number)| *number);
        let keyring = match special.or_else(|| serial(keyring)) {
            Some(number) => KeyringName::Number(number),
            None if keyring.starts_with('@') => return Err(NameError::Place),
            None => {
                // A type in front is that of a keyring, whatever it says: cryptsetup takes no notice of it either.
                let name = keyring.strip_prefix('%').and_then(|typed| typed.split_once(':'));
                KeyringName::Described(name.map_or(keyring, |(_, name)| name).into())
            }
        };
        let (kind, description) = match key.strip_prefix('%') {
            Some(typed) => typed.split_once(':').ok_or(NameError::Place)?,
            None => ("user", key),
        };
        match description.is_empty() || !TYPES.contains(&kind) {
            true => Err(NameError::Place),
            false => Ok(Self { keyring, kind: kind.into(), description: description.into() }),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {:?} of type {}", self.description, self.kind)
    }
}

/// Words that name no key, or no place for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// Neither a serial number nor a description of a key.
    Key,
    /// Not `KEYRING::KEY`.
    Place,
    /// The keyring is one that ends with this process.
    EndsWithUs,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "a key is its number, %TYPE:DESCRIPTION, or the description of one of type user",
            Self::Place => {
                "it is KEYRING::KEY; a keyring is its number, @s, @u, @us or %:DESCRIPTION, a key %user:DESCRIPTION, %logon:DESCRIPTION or \
                 DESCRIPTION"
            }
            Self::EndsWithUs => "@t and @p end with this program, and the key with them: @s, @u and @us stay",
        })
    }
}

impl core::error::Error for NameError {}

/// The payload of a key. One that is described is searched for in the keyrings of this thread, process and session. Nobody is asked to
/// make one that is not there.
///
/// # Errors
/// `NotFound` if there is none, or if the kernel has no keyrings. Otherwise as the kernel says: the key has expired, was revoked, or may
/// not be read, as those of type `logon`.
pub fn key(name: &Name) -> io::Result<SecretBytes> {
    let found = match name {
        Name::Serial(serial) => payload(*serial),
        Name::Described { kind, description } => {
            sys::request_key(&c_string(kind)?, &c_string(description)?).and_then(payload)
        }
    };
    found.map_err(missing)
}

/// The keyring of this user in the kernel's interface.
const OF_USER: i32 = -4;

/// Lets this process find and read what is in its user's keyring. Sessions that PAM has begun can do so anyway.
pub fn reach_user() {
    // Where it is refused, what is there is not found either.
    let _ = sys::link_key(OF_USER, OF_PROCESS);
}

/// Takes a key of type `user` out of this user's keyring. Whether there was one.
///
/// # Errors
/// What the kernel says, if it is there and stays.
pub fn forget_user(description: &str) -> io::Result<bool> {
    reach_user();
    match sys::search_key(OF_USER, c"user", &c_string(description)?) {
        Ok(key) => sys::unlink_key(key, OF_USER).map(|()| true),
        Err(error) => match missing(error) {
            error if error.kind() == io::ErrorKind::NotFound => Ok(false),
            error => Err(error),
        },
    }
}

/// What a key holds. It may be updated meanwhile: then the length that was told first is not the one that is read.
fn payload(key: i32) -> io::Result<SecretBytes> {
    let mut payload = SecretBytes::zeroed(0);
    loop {
        let has = sys::read_key(key, &mut payload)?;
        if has == payload.len() {
            return Ok(payload);
        }
        payload = SecretBytes::zeroed(has);
    }
}

/// No string with a zero byte in it names a key.
fn c_string(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(|_| io::ErrorKind::NotFound.into())
}

fn missing(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOKEY | libc::ENOSYS) => io::ErrorKind::NotFound.into(),
        _ => error,
    }
}

/// A place whose keyring is there.
#[derive(Debug)]
pub struct Found<'a> {
    place: &'a Place,
    keyring: i32,
}

impl Place {
    /// Looks for the keyring.
    ///
    /// # Errors
    /// `NotFound` if there is none of that name or number, `NotADirectory` if it is a key, and what the kernel says otherwise.
    pub fn find(&self) -> io::Result<Found<'_>> {
        let keyring = match &self.keyring {
            KeyringName::Number(number) => *number,
            KeyringName::Described(name) => described(name)?,
        };
        // The kernel writes all of it or nothing: 4095 bytes of description behind some numbers at most.
        let mut text = [0; 8192];
        sys::describe_key(keyring, &mut text).map_err(missing)?;
        match text.starts_with(b"keyring;") {
            true => Ok(Found { place: self, keyring }),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }
}

/// The number of the keyring with this description: one that this process possesses, or else one of its user or of root that it may see.
/// Everybody can make one of any description that all may see and write, and would be given the key.
fn described(name: &str) -> io::Result<i32> {
    match sys::request_key(c"keyring", &c_string(name)?) {
        Ok(keyring) => Ok(keyring),
        Err(error) => {
            let seen = fs::read_to_string("/proc/keys")?;
            let us = rustix::process::geteuid().as_raw();
            seen.lines().find_map(|line| keyring_in(line, name, us)).ok_or_else(|| missing(error))
        }
    }
}

/// The number of a keyring of user `us` or root in a line of `/proc/keys`: nine columns, of which the first is the number, the sixth the
/// user and the eighth the type. The last is the description, here with a colon and the number of keys behind it.
fn keyring_in(line: &str, name: &str, us: u32) -> Option<i32> {
    let mut rest = line;
    let mut column = || {
        let (word, behind) = rest.trim_start().split_once(' ')?;
        rest = behind;
        Some(word)
    };
    let number = column()?;
    let user: u32 = (0..5).map(|_| column()).last()??.parse().ok()?;
    let kind = (0..2).map(|_| column()).last()??;
    let (description, _) = rest.trim_start().rsplit_once(':')?;
    match kind == "keyring" && description == name && (user == us || user == 0) {
        true => i32::from_str_radix(number, 16).ok(),
        false => None,
    }
}

/// The keyring of this process in the kernel's interface: it ends with the process.
const OF_PROCESS: i32 = -2;

impl<'a> Found<'a> {
    /// Puts a key there, in the place of one of the same type and description.
    ///
    /// # Errors
    /// What the kernel says: the keyring may not be written, or there are too many keys. One of type `logon` needs a colon in its
    /// description. What was there before is there again.
    pub fn put(&self, payload: &[u8]) -> io::Result<Linked<'a>> {
        let (kind, description) = (c_string(&self.place.kind)?, c_string(&self.place.description)?);
        let before = self.displace(&kind, &description)?;
        let key = match sys::add_key(&kind, &description, payload, self.keyring) {
            Ok(key) => Some(key),
            Err(error) => {
                // It goes back.
                drop(Linked { place: self.place, keyring: self.keyring, key: None, before });
                return Err(error);
            }
        };
        Ok(Linked { place: self.place, keyring: self.keyring, key, before })
    }

    /// Takes the key that is in that place out of the keyring, and holds it in that of this process: the kernel would give it the new
    /// payload, and the old one would be gone. It can't be read back where its type is `logon`.
    fn displace(&self, kind: &CString, description: &CString) -> io::Result<Option<i32>> {
        let Ok(found) = sys::search_key(self.keyring, kind, description) else { return Ok(None) };
        // The serial numbers of all keys in the keyring: one of a keyring inside it stays where it is.
        let inside = payload(self.keyring)?;
        if !inside.chunks_exact(4).any(|serial| serial == found.to_ne_bytes()) {
            return Ok(None);
        }
        sys::link_key(found, OF_PROCESS)?;
        match sys::unlink_key(found, self.keyring) {
            Ok(()) => Ok(Some(found)),
            Err(error) => {
                // It has been put there just now.
                let _ = sys::unlink_key(found, OF_PROCESS);
                Err(error)
            }
        }
    }
}

/// A key that was put into a keyring. It goes out again unless it is kept, and what was in its place before comes back.
#[derive(Debug)]
#[must_use = "the key goes out of its keyring again"]
pub struct Linked<'a> {
    place: &'a Place,
    keyring: i32,
    key: Option<i32>,
    before: Option<i32>,
}

impl<'a> Linked<'a> {
    /// Leaves the key where it is.
    pub fn keep(self) -> &'a Place {
        let place = self.place;
        if let Some(before) = self.before {
            // Else it stays until the process ends: nobody else sees it.
            let _ = sys::unlink_key(before, OF_PROCESS);
        }
        core::mem::forget(self);
        place
    }
}

impl Drop for Linked<'_> {
    fn drop(&mut self) {
        // Nobody is there to be told that it is gone already.
        if let Some(key) = self.key {
            let _ = sys::unlink_key(key, self.keyring);
        }
        if let Some(before) = self.before {
            let _ = sys::link_key(before, self.keyring);
            let _ = sys::unlink_key(before, OF_PROCESS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_keyctl() {
        let described = |kind: &str, description: &str| {
            Ok(Name::Described { kind: kind.into(), description: description.into() })
        };
        for (text, expected) in [
            ("123", Ok(Name::Serial(123))),
            ("0x7b", Ok(Name::Serial(123))),
            ("%user:123", described("user", "123")),
            ("%logon:a:b", described("logon", "a:b")),
            ("a:b", described("user", "a:b")),
            ("-3", described("user", "-3")),
            ("0", described("user", "0")),
            ("+5", described("user", "+5")),
            ("%user", Err(NameError::Key)),
            ("%:a", Err(NameError::Key)),
            ("%user:", Err(NameError::Key)),
            ("", Err(NameError::Key)),
            ("a\0b", Err(NameError::Key)),
        ] {
            assert_eq!(text.parse::<Name>(), expected, "{text:?}");
        }
    }

    #[test]
    fn places_are_those_of_cryptsetup() {
        let place = |keyring, kind: &str, description: &str| {
            Ok(Place { keyring, kind: kind.into(), description: description.into() })
        };
        let named = |name: &str| KeyringName::Described(name.into());
        for (text, expected) in [
            ("@s::vk", place(KeyringName::Number(-3), "user", "vk")),
            ("@us::%user:vk", place(KeyringName::Number(-5), "user", "vk")),
            ("@u::%logon:a:vk", place(KeyringName::Number(-4), "logon", "a:vk")),
            ("%:mine::vk", place(named("mine"), "user", "vk")),
            ("%keyring:mine::vk", place(named("mine"), "user", "vk")),
            ("mine::vk", place(named("mine"), "user", "vk")),
            ("77::vk", place(KeyringName::Number(77), "user", "vk")),
            ("@t::vk", Err(NameError::EndsWithUs)),
            ("@p::vk", Err(NameError::EndsWithUs)),
            ("@x::vk", Err(NameError::Place)),
            ("::vk", Err(NameError::Place)),
            ("@s::", Err(NameError::Place)),
            ("@s::%user:", Err(NameError::Place)),
            ("@s::%big_key:vk", Err(NameError::Place)),
            ("@s:vk", Err(NameError::Place)),
        ] {
            assert_eq!(text.parse::<Place>(), expected, "{text:?}");
        }
    }

    #[test]
    fn keyrings_are_found_in_the_list_of_the_kernel() {
        let line = "2a5f30e1 I--Q---     3 perm 3f030000     0     0 keyring   a: b: 2";
        assert_eq!(keyring_in(line, "a: b", 1000), Some(0x2a5f_30e1));
        assert_eq!(keyring_in(line, "a", 1000), None);
        let theirs = "2a5f30e1 I--Q---     3 perm 3f03003f  1001     0 keyring   mine: 2";
        assert_eq!(keyring_in(theirs, "mine", 1001), Some(0x2a5f_30e1));
        assert_eq!((keyring_in(theirs, "mine", 1000), keyring_in(theirs, "mine", 0)), (None, None));
        let key = "2a5f30e1 I--Q---     1 perm 3f010000     0     0 user      mine: 8";
        assert_eq!(keyring_in(key, "mine", 0), None);
        assert_eq!(keyring_in("", "mine", 0), None);
    }
}
