//! Block ciphers that library crates bring. Serpent is bit-sliced; CAST6 and Camellia read tables at
//! secret indices and are not constant-time.

use serpent::cipher::consts::U16;
use serpent::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};

use crate::block::{Block, BlockCipher};

/// Declares a type of its own per cipher, so that each can state whether it is constant-time.
macro_rules! library_cipher {
    ($(#[$doc:meta])* $name:ident, $constant_time:literal, $($variant:ident => $inner:ty),+) => {
        $(#[$doc])*
        pub(crate) enum $name {
            $(#[allow(missing_docs, reason = "one per key length")] $variant($inner),)+
        }

        impl $name {
            /// Expands a key; `None` if the cipher takes no key of that length.
            pub(crate) fn new(key: &[u8]) -> Option<Self> {
                $(if let Ok(cipher) = <$inner>::new_from_slice(key) {
                    return Some(Self::$variant(cipher));
                })+
                None
            }
        }

        impl BlockCipher for $name {
            const CONSTANT_TIME: bool = $constant_time;

            fn encrypt(&self, blocks: &mut [Block]) {
                match self {
                    $(Self::$variant(cipher) => cipher.encrypt_blocks(Array::<u8, U16>::cast_slice_from_core_mut(blocks)),)+
                }
            }

            fn decrypt(&self, blocks: &mut [Block]) {
                match self {
                    $(Self::$variant(cipher) => cipher.decrypt_blocks(Array::<u8, U16>::cast_slice_from_core_mut(blocks)),)+
                }
            }
        }
    };
}

library_cipher!(
    /// Serpent, any key from 16 to 32 bytes.
    Serpent, true, Any => serpent::Serpent
);
library_cipher!(
    /// CAST6 (RFC 2612), keys of 16, 20 … 32 bytes.
    Cast6, false, Any => cast6::Cast6
);
library_cipher!(
    /// Camellia (RFC 3713), keys of 16, 24 and 32 bytes.
    Camellia, false,
    Key128 => camellia::Camellia128, Key192 => camellia::Camellia192, Key256 => camellia::Camellia256
);
