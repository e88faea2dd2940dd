//! dm-integrity without encryption: tags that are checksums, or keyed hashes, as `integritysetup` makes them.

mod checksum;
mod hash;
mod journal_cipher;
mod xxhash;

pub use checksum::{Checksum, ChecksumError};
pub use hash::{Hash, HashKeyError, HashSpec, HashSpecError, MAX_DIGEST};
pub use journal_cipher::{JournalCipher, JournalCipherError, JournalCipherSpec};
