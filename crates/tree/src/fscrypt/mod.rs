//! fscrypt: policies, keys, names and contents (kernel, `Documentation/filesystems/fscrypt.rst`).

mod mode;

pub use mode::EncryptionMode;
