//! What the kernel's dm-crypt has to be told of a volume, for those who leave the encryption to it.

use core::fmt;

use crate::VolumeKey;

/// Cipher, key and tweak rule of one segment, as a line of a dm-crypt table has them.
pub struct CryptTarget {
    /// First byte of the plaintext.
    pub start: u64,
    /// Bytes of plaintext.
    pub len: u64,
    /// First byte on the data device: of the ciphertext, or of dm-integrity's superblock if there are `tags`.
    pub media_offset: u64,
    /// The cipher by dm-crypt's own name.
    pub cipher: String,
    /// The volume key.
    pub key: VolumeKey,
    /// Number of the digest that verifies the key in a LUKS2 header. With the volume's UUID it names the key in a keyring.
    pub digest: Option<u32>,
    /// Number that is added to the IV's, in 512-byte sectors.
    pub iv_offset: u64,
    /// Bytes in a data unit ("sector size"): 512 to 4096.
    pub data_unit: u32,
    /// Whether IVs count data units instead of 512-byte sectors.
    pub iv_large: bool,
    /// The tags beside each data unit, if the cipher is an authenticated one.
    pub tags: Option<IntegrityTags>,
}

/// Tags that dm-integrity keeps, with the journal that writes data and tag as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegrityTags {
    /// Bytes beside each data unit.
    pub len: u32,
    /// Bytes of data that dm-integrity provides.
    pub provided: u64,
    /// Bytes at the end of the key that are the MAC's, if it is not as many as its tag has.
    pub key_len: Option<u32>,
}

impl fmt::Debug for CryptTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CryptTarget")
            .field("cipher", &self.cipher)
            .field("data_unit", &self.data_unit)
            .finish_non_exhaustive()
    }
}

/// How dm-crypt is to work on a volume; a LUKS2 header can ask for each ("persistent flags").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CryptFlags {
    /// Discards reach the media.
    pub allow_discards: bool,
    /// Each request is encrypted on the processor that it came from.
    pub same_cpu_crypt: bool,
    /// Writes are handed on by the threads that have encrypted them.
    pub submit_from_crypt_cpus: bool,
    /// Reads are decrypted at once, without a work queue.
    pub no_read_workqueue: bool,
    /// Writes are encrypted at once, without a work queue.
    pub no_write_workqueue: bool,
    /// Data and tags are written without a journal: when the power fails, data units written last may not verify.
    pub no_journal: bool,
}

impl CryptFlags {
    /// Each flag by the name that a LUKS2 header gives it.
    fn each(&mut self) -> [(&'static str, &mut bool); 6] {
        [
            ("allow-discards", &mut self.allow_discards),
            ("same-cpu-crypt", &mut self.same_cpu_crypt),
            ("submit-from-crypt-cpus", &mut self.submit_from_crypt_cpus),
            ("no-read-workqueue", &mut self.no_read_workqueue),
            ("no-write-workqueue", &mut self.no_write_workqueue),
            ("no-journal", &mut self.no_journal),
        ]
    }

    /// Those that a LUKS2 header names; others are left out.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut flags = Self::default();
        for name in names {
            for (known, flag) in flags.each() {
                *flag |= known == name;
            }
        }
        flags
    }

    /// The names that a LUKS2 header has for those that are set.
    pub fn names(mut self) -> Vec<&'static str> {
        self.each().into_iter().filter(|(_, set)| **set).map(|(name, _)| name).collect()
    }

    /// What either asks for.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            allow_discards: self.allow_discards || other.allow_discards,
            same_cpu_crypt: self.same_cpu_crypt || other.same_cpu_crypt,
            submit_from_crypt_cpus: self.submit_from_crypt_cpus || other.submit_from_crypt_cpus,
            no_read_workqueue: self.no_read_workqueue || other.no_read_workqueue,
            no_write_workqueue: self.no_write_workqueue || other.no_write_workqueue,
            no_journal: self.no_journal || other.no_journal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_header_are_found_by_their_names() {
        let flags = CryptFlags::from_names(["of-tomorrow", "allow-discards", "no-write-workqueue"]);
        let expected = CryptFlags { allow_discards: true, no_write_workqueue: true, ..CryptFlags::default() };
        assert_eq!(flags, expected);
        assert_eq!(flags.names(), ["allow-discards", "no-write-workqueue"]);
        let more = CryptFlags { same_cpu_crypt: true, ..CryptFlags::default() };
        assert_eq!(flags.or(more), CryptFlags { same_cpu_crypt: true, ..expected });
    }
}
