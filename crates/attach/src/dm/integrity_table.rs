//! The table of dm-integrity alone (the kernel's `admin-guide/device-mapper/dm-integrity.rst`): written from what was asked for, and read
//! from what the kernel says of a mapping.

use atrest_secret::SecretBytes;

use super::table::{hex, joined};

/// A hash or a cipher by the kernel's name, and its key.
pub type Keyed<'a> = (&'a str, Option<&'a [u8]>);

/// What a mapping of dm-integrity is to be like. Numbers that are `None` are left to the kernel.
#[derive(Clone, Debug, Default)]
pub struct IntegrityTable<'a> {
    /// Bytes of tag beside each data unit.
    pub tag_len: u16,
    /// Bytes in a data unit.
    pub data_unit: u32,
    /// `J`, `D`, `B` or `R`, as in the table.
    pub mode: char,
    /// The hash of the data.
    pub hash: Keyed<'a>,
    /// The keyed hash of the journal.
    pub journal_mac: Option<Keyed<'a>>,
    /// The cipher of the journal.
    pub journal_cipher: Option<Keyed<'a>>,
    /// Percent of the journal that is filled before it is written back.
    pub watermark: Option<u32>,
    /// Milliseconds until the journal is committed.
    pub commit_time: Option<u32>,
    /// Sectors that are buffered.
    pub buffer_sectors: Option<u32>,
    /// Sectors for which a bit of the bitmap stands.
    pub sectors_per_bit: Option<u32>,
    /// Milliseconds until the bitmap is cleared.
    pub flush_time: Option<u32>,
    /// Compute all tags that are missing, unless that was done before.
    pub recalculate: bool,
    /// Compute all tags.
    pub reset: bool,
    /// Also where an attacker could have asked for it.
    pub legacy_recalculate: bool,
    /// Discards are passed on.
    pub discards: bool,
}

impl IntegrityTable<'_> {
    /// The line, for the device of the data and the one of the tags, if that is another. It may hold keys.
    pub fn line(&self, data: &str, tags: Option<&str>) -> SecretBytes {
        let mut words: Vec<SecretBytes> = Vec::new();
        let mut plain = |wanted: bool, word: String| {
            words.extend(wanted.then(|| SecretBytes::copy_from(word.as_bytes())));
        };
        let mut number = |name: &str, value: Option<u32>| {
            plain(value.is_some(), format!("{name}:{}", value.unwrap_or(0))); // intended: left out then
        };
        number("block_size", Some(self.data_unit));
        number("journal_watermark", self.watermark);
        number("commit_time", self.commit_time);
        number("buffer_sectors", self.buffer_sectors);
        number("sectors_per_bit", self.sectors_per_bit);
        number("bitmap_flush_interval", self.flush_time);
        plain(tags.is_some(), format!("meta_device:{}", tags.unwrap_or(""))); // intended: left out then
        plain(self.recalculate || self.reset, "recalculate".into());
        plain(self.reset, "reset_recalculate".into());
        plain(self.legacy_recalculate, "legacy_recalculate".into());
        plain(self.discards, "allow_discards".into());
        words.push(keyed("internal_hash", self.hash));
        words.extend(self.journal_mac.map(|mac| keyed("journal_mac", mac)));
        words.extend(self.journal_cipher.map(|cipher| keyed("journal_crypt", cipher)));
        let Self { tag_len, mode, .. } = self;
        let head = format!("{data} 0 {tag_len} {mode} {}", words.len());
        let spaced = words.iter().flat_map(|word| [&b" "[..], &word[..]]);
        joined(&std::iter::once(head.as_bytes()).chain(spaced).collect::<Vec<_>>())
    }
}

fn keyed(name: &str, (algorithm, key): Keyed<'_>) -> SecretBytes {
    match key {
        None => SecretBytes::copy_from(format!("{name}:{algorithm}").as_bytes()),
        Some(key) => joined(&[format!("{name}:{algorithm}:").as_bytes(), &hex(key)]),
    }
}

/// A line as the kernel tells it, without its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegrityLine {
    /// The device of the data, or of everything.
    pub device: String,
    /// The device of the tags, if that is another.
    pub tag_device: Option<String>,
    /// Bytes of tag.
    pub tag_len: u32,
    /// The mode's letter.
    pub mode: char,
    /// Every option, its value up to a key.
    pub options: Vec<(String, Option<String>)>,
}

impl IntegrityLine {
    /// `None` for what is no such line.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut words = core::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let device = words.next()?.into();
        let _start: u64 = words.next()?.parse().ok()?;
        let tag_len = words.next()?.parse().ok()?;
        let mode = words.next()?.chars().next()?;
        let mut options: Vec<(String, Option<String>)> = Vec::new();
        for word in words.skip(1) {
            let (name, value) = match word.split_once(':') {
                None => (word, None),
                // Device numbers are the one value with a colon.
                Some(("meta_device", device)) => ("meta_device", Some(device)),
                Some((name, rest)) => (name, rest.split(':').next()),
            };
            options.push((name.into(), value.map(String::from)));
        }
        let tag_device =
            options.iter().find(|(name, _)| name == "meta_device").and_then(|(_, device)| device.clone());
        Some(Self { device, tag_device, tag_len, mode, options })
    }

    /// The value of an option.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(option, _)| option == name)?.1.as_deref()
    }

    /// Whether an option is there.
    pub fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(option, _)| option == name)
    }
}

/// A line with one more option, unless it has that already. It may hold keys. `None` for what is no such line.
pub fn with_option(line: &[u8], option: &str) -> Option<SecretBytes> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    if words.contains(&option.as_bytes()) {
        return Some(SecretBytes::copy_from(line));
    }
    let (head, options) = words.split_at_checked(5)?;
    let (count, head) = head.split_last()?;
    let count: u32 = core::str::from_utf8(count).ok()?.parse().ok()?;
    let count = format!("{}", count + 1);
    let all = head.iter().copied().chain([count.as_bytes()]);
    let all = all.chain(options.iter().copied()).chain([option.as_bytes()]);
    let spaced: Vec<&[u8]> = all.flat_map(|word| [word, b" "]).collect();
    Some(joined(&spaced[..spaced.len() - 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_was_asked_for_and_is_read_back_without_keys() {
        let table = IntegrityTable {
            tag_len: 32,
            data_unit: 4096,
            mode: 'J',
            hash: ("hmac(sha256)", Some(&[0xab, 1])),
            journal_mac: Some(("hmac(sha1)", Some(&[2]))),
            watermark: Some(66),
            reset: true,
            ..IntegrityTable::default()
        };
        let line = table.line("7:1", Some("7:0"));
        let expected = "7:1 0 32 J 7 block_size:4096 journal_watermark:66 meta_device:7:0 recalculate reset_recalculate internal_hash:hmac(sha256):ab01 journal_mac:hmac(sha1):02";
        assert_eq!(core::str::from_utf8(&line), Ok(expected));
        let parsed = IntegrityLine::parse(&line).expect("a line");
        assert_eq!((parsed.device.as_str(), parsed.tag_device.as_deref()), ("7:1", Some("7:0")));
        assert_eq!((parsed.tag_len, parsed.mode), (32, 'J'));
        assert_eq!(
            (parsed.value("internal_hash"), parsed.value("journal_mac")),
            (Some("hmac(sha256)"), Some("hmac(sha1)"))
        );
        assert!(parsed.has("reset_recalculate") && !parsed.has("fix_hmac"));
        assert!(!format!("{parsed:?}").contains("ab01"), "no key");
        let more = with_option(b"7:0 0 4 J 1 internal_hash:crc32c", "recalculate").expect("a line");
        assert_eq!(&more[..], b"7:0 0 4 J 2 internal_hash:crc32c recalculate");
        assert_eq!(with_option(&more, "recalculate").as_deref(), Some(&more[..]));
        for bad in [&b""[..], b"7:0 x 4 J 0", b"7:0 0", b"\xff"] {
            assert_eq!(IntegrityLine::parse(bad), None);
        }
    }
}
