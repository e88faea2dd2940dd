//! The keys that the configuration file can have.

/// What a key is set to.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A path that is absolute or begins with `~/`.
    Path,
    /// Such a path, or a URL.
    Place,
    Text,
    /// A number up to this one.
    Number(u64),
    Flag,
    OneOf(&'static [&'static str]),
}

/// A key, and where it may stand.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    /// In `[defaults]`.
    pub default: bool,
    /// In the table of a volume.
    pub volume: bool,
}

const fn volume(name: &'static str, kind: Kind) -> Key {
    Key { name, kind, default: false, volume: true }
}

const fn both(name: &'static str, kind: Kind) -> Key {
    Key { name, kind, default: true, volume: true }
}

const TYPES: &[&str] =
    &["luks", "plain", "loopaes", "tcrypt", "truecrypt", "veracrypt", "bitlk", "fvault2", "ecryptfs"];
const FACES: &[&str] = &["fuse", "nbd", "vhost-user", "dm"];
const DRIVERS: &[&str] = &["auto", "loop", "fuse2fs", "ntfs-3g", "exfat-fuse", "lklfuse"];

/// All of them.
pub const KEYS: &[Key] = &[
    Key { name: "max-kdf-time", kind: Kind::Number(u32::MAX as u64), default: true, volume: false },
    both("threads", Kind::Number(1024)),
    volume("path", Kind::Place),
    volume("type", Kind::OneOf(TYPES)),
    volume("header", Kind::Path),
    volume("store", Kind::Path),
    volume("journal", Kind::Path),
    volume("key-file", Kind::Path),
    volume("passphrase-from", Kind::Text),
    volume("key-slot", Kind::Number(31)),
    volume("policy", Kind::Path),
    volume("expect-key", Kind::Text),
    volume("read-only", Kind::Flag),
    volume("allow-discards", Kind::Flag),
    volume("face", Kind::OneOf(FACES)),
    volume("directory", Kind::Path),
    volume("socket", Kind::Path),
    volume("driver", Kind::OneOf(DRIVERS)),
    volume("driver-options", Kind::Text),
    volume("partition", Kind::Number(128)),
    volume("cipher", Kind::Text),
    volume("key-size", Kind::Number(4096)),
    volume("hash", Kind::Text),
    volume("offset", Kind::Number(u64::MAX)),
    volume("skip", Kind::Number(u64::MAX)),
    volume("sector-size", Kind::Number(4096)),
];

/// Words for secrets, which the file never has.
pub const SECRETS: &[&str] = &["passphrase", "password", "key", "volume-key", "secret", "pin", "pass"];

/// Whether a volume can have the name: it must not look like a path, an option or a URL.
pub fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(is_letter) && !name.starts_with('-')
}

/// The key that was meant, if one is close.
pub fn close_to(word: &str, keys: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_'], "");
    let near = keys.map(|key| (distance(&plain(key), &plain(word)), key)).min()?;
    (near.0 <= 2).then_some(near.1)
}

/// How many letters differ between two words, by Levenshtein.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, left) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, right) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_path_option_or_url() {
        for name in ["photos", "a", "work_2026", "my-disk"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "./photos", "a/b", "photos.img", "-x", "s3:", "a b", "é", &"a".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn a_key_with_a_typo_is_found() {
        let keys = || KEYS.iter().map(|key| key.name);
        for (word, key) in
            [("keyfile", "key-file"), ("Key_File", "key-file"), ("pth", "path"), ("hesder", "header")]
        {
            assert_eq!(close_to(word, keys()), Some(key));
        }
        assert_eq!(close_to("colour", keys()), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
