//! The requests and their bytes: one letter, one byte of name length, the name, the key.

use atrest_codec::{Reader, Writer};

/// What can be asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Use this key from now on.
    Add {
        /// What the key is for, where the key does not tell by itself; empty otherwise.
        name: &'a str,
        /// The key.
        key: &'a [u8],
    },
    /// Forget a key.
    Remove {
        /// What it is for.
        name: &'a str,
    },
    /// Say what there are keys for.
    List,
    /// Hold all requests of a volume's clients, and wipe its keys.
    Suspend,
    /// Go on with a volume that is suspended.
    Resume {
        /// Its volume key.
        key: &'a [u8],
    },
    /// Re-encrypt a volume whose header says that this has begun; or go on with what was stopped, for which no keys are needed.
    Reencrypt {
        /// The volume key before; empty to go on.
        old: &'a [u8],
        /// The volume key afterwards; empty if it stays.
        new: &'a [u8],
    },
    /// Stop the re-encryption between two zones.
    StopReencryption,
    /// Say how far the re-encryption is.
    Reencryption,
    /// Show another number of bytes of a volume.
    Resize {
        /// How many; without one, all that there is room for.
        size: Option<u64>,
    },
}

impl core::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Add { name, .. } => f.debug_struct("Add").field("name", name).finish_non_exhaustive(),
            Self::Remove { name } => f.debug_struct("Remove").field("name", name).finish(),
            Self::List => f.write_str("List"),
            Self::Suspend => f.write_str("Suspend"),
            Self::Resume { .. } => f.debug_struct("Resume").finish_non_exhaustive(),
            Self::Reencrypt { .. } => f.debug_struct("Reencrypt").finish_non_exhaustive(),
            Self::StopReencryption => f.write_str("StopReencryption"),
            Self::Reencryption => f.write_str("Reencryption"),
            Self::Resize { size } => f.debug_struct("Resize").field("size", size).finish(),
        }
    }
}

impl<'a> Request<'a> {
    /// Longest message, in bytes.
    pub(super) const MAX_LEN: usize = 1024;

    /// Writes the message into `buf` and tells how long it is; nothing if it is too long.
    pub(super) fn encode(&self, buf: &mut [u8]) -> Option<usize> {
        let number;
        let (letter, name, key): (_, _, &[u8]) = match self {
            Self::Add { name, key } => (b'A', *name, key),
            Self::Remove { name } => (b'R', *name, &[]),
            Self::List => (b'L', "", &[]),
            Self::Suspend => (b'S', "", &[]),
            Self::Resume { key } => (b'G', "", key),
            Self::Reencrypt { old, new } => {
                let len = u32::try_from(old.len()).ok()?.to_le_bytes();
                return Self::write(buf, b'E', "", &[&len, old, new]);
            }
            Self::StopReencryption => (b'H', "", &[]),
            Self::Reencryption => (b'Q', "", &[]),
            Self::Resize { size: None } => (b'Z', "", &[]),
            Self::Resize { size: Some(size) } => {
                number = size.to_le_bytes();
                (b'Z', "", &number)
            }
        };
        Self::write(buf, letter, name, &[key])
    }

    fn write(buf: &mut [u8], letter: u8, name: &str, parts: &[&[u8]]) -> Option<usize> {
        let len = 2 + name.len() + parts.iter().map(|part| part.len()).sum::<usize>();
        let mut writer = Writer::new(buf.get_mut(..len)?);
        writer.field([letter, u8::try_from(name.len()).ok()?]).ok()?;
        writer.bytes(name.as_bytes()).ok()?;
        for part in parts {
            writer.bytes(part).ok()?;
        }
        writer.finish().ok().map(|()| len)
    }

    /// Reads a message.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let [letter, name_len] = reader.array().ok()?;
        let name = core::str::from_utf8(reader.bytes(name_len.into()).ok()?).ok()?;
        let key = reader.rest();
        match letter {
            b'A' if !key.is_empty() => Some(Self::Add { name, key }),
            b'R' if key.is_empty() && !name.is_empty() => Some(Self::Remove { name }),
            b'L' if name.is_empty() && key.is_empty() => Some(Self::List),
            b'S' if name.is_empty() && key.is_empty() => Some(Self::Suspend),
            b'G' if name.is_empty() && !key.is_empty() => Some(Self::Resume { key }),
            b'E' if name.is_empty() => {
                let mut reader = Reader::new(key);
                let len = u32::from_le_bytes(reader.array().ok()?);
                let old = reader.bytes(usize::try_from(len).ok()?).ok()?;
                Some(Self::Reencrypt { old, new: reader.rest() })
            }
            b'H' if name.is_empty() && key.is_empty() => Some(Self::StopReencryption),
            b'Q' if name.is_empty() && key.is_empty() => Some(Self::Reencryption),
            b'Z' if name.is_empty() && key.is_empty() => Some(Self::Resize { size: None }),
            b'Z' if name.is_empty() => {
                let number = Reader::new(key).array().ok().filter(|_| key.len() == 8)?;
                Some(Self::Resize { size: Some(u64::from_le_bytes(number)) })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_read_as_it_was_written() {
        let long = "n".repeat(255);
        let requests = [
            Request::Add { name: "", key: &[9; 64] },
            Request::Add { name: &long, key: &[1] },
            Request::Remove { name: "00112233" },
            Request::List,
            Request::Suspend,
            Request::Resume { key: &[3; 64] },
            Request::Reencrypt { old: &[4; 64], new: &[5; 32] },
            Request::Reencrypt { old: &[4; 64], new: &[] },
            Request::Reencrypt { old: &[], new: &[] },
            Request::StopReencryption,
            Request::Reencryption,
            Request::Resize { size: None },
            Request::Resize { size: Some(1 << 40) },
        ];
        for request in requests {
            let mut buf = [0; Request::MAX_LEN];
            let len = request.encode(&mut buf).unwrap();
            assert!(Request::decode(&buf[..len]) == Some(request), "{request:?}");
        }
    }

    #[test]
    fn what_is_too_long_is_not_written() {
        let mut buf = [0; Request::MAX_LEN];
        assert_eq!(Request::Add { name: "", key: &[0; 1023] }.encode(&mut buf), None);
        assert_eq!(Request::Remove { name: &"n".repeat(256) }.encode(&mut buf), None);
    }

    #[test]
    fn a_debugged_request_says_nothing_of_the_key() {
        let said = format!("{:?}", Request::Add { name: "id", key: b"hunter2" });
        assert_eq!(said, "Add { name: \"id\", .. }");
        assert_eq!(format!("{:?}", Request::Resume { key: b"hunter2" }), "Resume { .. }");
        let two = Request::Reencrypt { old: b"hunter2", new: b"hunter3" };
        assert_eq!(format!("{two:?}"), "Reencrypt { .. }");
    }
}
