//! eCryptfs: the kernel's stacked encryption (`fs/ecryptfs`, and `ecryptfs-utils` for wrapped passphrases).

mod cipher_code;

pub use cipher_code::FileCipher;
