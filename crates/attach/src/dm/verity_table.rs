//! The table of dm-verity (the kernel's `admin-guide/device-mapper/verity.rst`), written and read.

use atrest_secret::SecretBytes;

/// Parity for [`VerityTable`].
#[derive(Clone, Debug)]
pub struct Parity {
    /// Bytes of parity in each codeword.
    pub roots: u32,
    /// Blocks that are covered.
    pub blocks: u64,
    /// Block of its device at which it begins.
    pub start: u64,
}

/// What a mapping of dm-verity is to be like.
#[derive(Clone, Debug)]
pub struct VerityTable<'a> {
    /// 0 or 1: where the salt stands in what is hashed.
    pub hash_type: u32,
    /// Bytes of a block of data.
    pub data_block: u32,
    /// Bytes of a block of hashes.
    pub hash_block: u32,
    /// Blocks of data.
    pub blocks: u64,
    /// Block of the device with the tree at which it begins.
    pub hash_start: u64,
    /// The kernel's name of the hash.
    pub hash: &'a str,
    /// The root hash.
    pub root: &'a [u8],
    /// The salt.
    pub salt: &'a [u8],
    /// Parity.
    pub parity: Option<Parity>,
    /// Options that are a word alone, by the kernel's names.
    pub flags: Vec<&'static str>,
    /// What the signature of the root hash is called in the kernel's keyring.
    pub signature: Option<String>,
}

impl VerityTable<'_> {
    /// The line, for the devices of data, tree and parity.
    pub fn line(&self, devices: &[String]) -> SecretBytes {
        let [data, tree, rest @ ..] = devices else { return SecretBytes::copy_from(b"") };
        let salt = if self.salt.is_empty() { "-".into() } else { digits(self.salt) };
        let mut options: Vec<String> = self.flags.iter().map(|flag| (*flag).into()).collect();
        if let (Some(parity), [device, ..]) = (&self.parity, rest) {
            let Parity { roots, blocks, start } = parity;
            options.push(format!(
                "use_fec_from_device {device} fec_start {start} fec_blocks {blocks} fec_roots {roots}"
            ));
        }
        if let Some(signature) = &self.signature {
            options.push(format!("root_hash_sig_key_desc {signature}"));
        }
        let mut line = format!(
            "{} {data} {tree} {} {} {} {} {} {} {salt}",
            self.hash_type,
            self.data_block,
            self.hash_block,
            self.blocks,
            self.hash_start,
            self.hash,
            digits(self.root)
        );
        let words: usize = options.iter().map(|option| option.split(' ').count()).sum();
        if words > 0 {
            line.push_str(&format!(" {words} {}", options.join(" ")));
        }
        SecretBytes::copy_from(line.as_bytes())
    }
}

/// Root hash and salt are no secrets.
fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A line as the kernel tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerityLine {
    /// Its first ten words: version, devices of data and tree, bytes of their blocks, blocks of data, first block of the tree, hash,
    /// root hash, salt.
    pub words: [String; 10],
    /// The words of its options.
    pub options: Vec<String>,
}

impl VerityLine {
    /// `None` for what is no such line.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let words = core::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let mut words: Vec<String> = words.map(String::from).collect();
        if words.len() < 10 {
            return None;
        }
        let options = words.split_off(10).into_iter().skip(1).collect();
        Some(Self { words: words.try_into().ok()?, options })
    }

    /// The word behind an option.
    pub fn value(&self, name: &str) -> Option<&str> {
        let at = self.options.iter().position(|word| word == name)?;
        self.options.get(at + 1).map(String::as_str)
    }

    /// Whether an option is there.
    pub fn has(&self, name: &str) -> bool {
        self.options.iter().any(|word| word == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_was_asked_for_and_is_read_back() {
        let mut table = VerityTable {
            hash_type: 1,
            data_block: 4096,
            hash_block: 512,
            blocks: 100,
            hash_start: 1,
            hash: "sha256",
            root: &[0xab; 4],
            salt: &[],
            parity: None,
            flags: Vec::new(),
            signature: None,
        };
        let devices = ["7:0".into(), "7:1".into(), "7:2".into()];
        let bare = table.line(&devices);
        assert_eq!(core::str::from_utf8(&bare), Ok("1 7:0 7:1 4096 512 100 1 sha256 abababab -"));
        table.salt = &[1, 2];
        table.parity = Some(Parity { roots: 24, blocks: 120, start: 3 });
        table.flags = vec!["ignore_zero_blocks"];
        let line = table.line(&devices);
        let expected = "1 7:0 7:1 4096 512 100 1 sha256 abababab 0102 9 ignore_zero_blocks use_fec_from_device 7:2 fec_start 3 fec_blocks 120 fec_roots 24";
        assert_eq!(core::str::from_utf8(&line), Ok(expected));
        let parsed = VerityLine::parse(&line).expect("a line");
        assert_eq!((parsed.words[7].as_str(), parsed.value("fec_roots")), ("sha256", Some("24")));
        assert!(parsed.has("ignore_zero_blocks") && !parsed.has("check_at_most_once"));
        assert_eq!(VerityLine::parse(b"1 7:0 7:1 4096"), None);
        (table.parity, table.signature) = (None, Some("cryptsetup:abc-root".into()));
        let signed = table.line(&devices);
        let expected = "1 7:0 7:1 4096 512 100 1 sha256 abababab 0102 3 ignore_zero_blocks root_hash_sig_key_desc cryptsetup:abc-root";
        assert_eq!(core::str::from_utf8(&signed), Ok(expected));
    }
}
