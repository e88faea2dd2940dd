//! Block ciphers that library crates bring. They read tables at secret indices and are not constant-time.

use crate::block::{Block, BlockCipher};

/// Declares a type of its own per cipher, so that each can state whether it is constant-time.
macro_rules! library_cipher {
    ($(#[$doc:meta])* $name:ident of $library:ident, $constant_time:literal, $($variant:ident => $inner:ident),+) => {
        $(#[$doc])*
        pub(crate) enum $name {
            $(#[allow(missing_docs, reason = "one per key length")] $variant($library::$inner),)+
        }

        impl $name {
            /// Expands a key; `None` if the cipher takes no key of that length.
            pub(crate) fn new(key: &[u8]) -> Option<Self> {
                $(if let Ok(cipher) = <$library::$inner as $library::cipher::KeyInit>::new_from_slice(key) {
                    return Some(Self::$variant(cipher));
                })+
                None
            }
        }

        impl BlockCipher for $name {
            fn is_constant_time(&self) -> bool {
                $constant_time
            }

            fn encrypt(&self, blocks: &mut [Block]) {
                use $library::cipher::{Array, BlockCipherEncrypt, consts::U16};
                match self {
                    $(Self::$variant(cipher) => cipher.encrypt_blocks(Array::<u8, U16>::cast_slice_from_core_mut(blocks)),)+
                }
            }

            fn decrypt(&self, blocks: &mut [Block]) {
                use $library::cipher::{Array, BlockCipherDecrypt, consts::U16};
                match self {
                    $(Self::$variant(cipher) => cipher.decrypt_blocks(Array::<u8, U16>::cast_slice_from_core_mut(blocks)),)+
                }
            }
        }
    };
}

#[cfg(feature = "cast6")]
library_cipher!(
    /// CAST6 (RFC 2612), keys of 16, 20 … 32 bytes.
    Cast6 of cast6, false, Any => Cast6
);
#[cfg(feature = "camellia")]
library_cipher!(
    /// Camellia (RFC 3713), keys of 16, 24 and 32 bytes.
    LibraryCamellia of camellia, false, Key128 => Camellia128, Key192 => Camellia192, Key256 => Camellia256
);
#[cfg(feature = "kuznyechik")]
library_cipher!(
    /// Kuznyechik (RFC 7801), keys of 32 bytes.
    Kuznyechik of kuznyechik, false, Key256 => Kuznyechik
);
