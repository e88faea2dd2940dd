//! The block ciphers beside AES whose blocks have 16 bytes, as one type: every mode is compiled once for all of them. Choosing among them
//! for each batch of blocks costs nothing beside the batch. None has code of its own for any mode: each mode is the one for any block
//! cipher.

#[cfg(feature = "camellia")]
use crate::backend::Camellia;
#[cfg(feature = "serpent")]
use crate::backend::Serpent;
#[cfg(feature = "twofish")]
use crate::backend::Twofish;
use crate::backend::{PolyvalKey, VectorChoice};
use crate::block::{Block, BlockCipher, Direction};
#[cfg(feature = "cast6")]
use crate::library::Cast6;
#[cfg(feature = "kuznyechik")]
use crate::library::Kuznyechik;
use crate::mode::cbc::CbcBackend;
use crate::mode::ctr::CtrBackend;
use crate::mode::ecb::EcbBackend;
use crate::mode::gcm::GcmBackend;
use crate::mode::hctr2::Hctr2Backend;
use crate::mode::lrw::LrwBackend;
use crate::mode::xex1::Xex1Backend;
use crate::mode::xts::XtsBackend;
#[cfg(feature = "noekeon")]
use crate::noekeon::Noekeon;
use crate::spec::Cipher;
#[cfg(feature = "speck")]
use crate::speck::Speck;

macro_rules! other_ciphers {
    ($($name:ident, if $feature:literal, by $new:expr;)+) => {
        /// Names of the ciphers in this build.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Name {
            $(#[cfg(feature = $feature)] $name,)+
        }

        /// A keyed cipher.
        #[allow(clippy::large_enum_variant, reason = "there is no heap to put the large ones on")]
        pub(crate) enum OtherCipher {
            $(#[cfg(feature = $feature)] $name($name),)+
        }

        impl OtherCipher {
            /// Expands a key; `None` if the cipher takes no key of that length.
            pub(crate) fn new(name: Name, key: &[u8], vectors: VectorChoice) -> Option<Self> {
                match name {
                    $(#[cfg(feature = $feature)] Name::$name => $new(key, vectors).map(Self::$name),)+
                }
            }
        }

        impl BlockCipher for OtherCipher {
            fn is_constant_time(&self) -> bool {
                match self {
                    $(#[cfg(feature = $feature)] Self::$name(cipher) => cipher.is_constant_time(),)+
                }
            }

            fn is_wide(&self) -> bool {
                match self {
                    $(#[cfg(feature = $feature)] Self::$name(cipher) => cipher.is_wide(),)+
                }
            }

            fn encrypt(&self, blocks: &mut [Block]) {
                self.apply(Direction::Encrypt, blocks);
            }

            fn decrypt(&self, blocks: &mut [Block]) {
                self.apply(Direction::Decrypt, blocks);
            }

            fn apply(&self, direction: Direction, blocks: &mut [Block]) {
                match self {
                    $(#[cfg(feature = $feature)] Self::$name(cipher) => cipher.apply(direction, blocks),)+
                }
            }

            // Once in the program, not in every mode and batch: it is called for many blocks at a time.
            #[inline(never)]
            fn mask(&self, blocks: &mut [Block], masks: &[Block]) {
                match self {
                    $(#[cfg(feature = $feature)] Self::$name(cipher) => cipher.mask(blocks, masks),)+
                }
            }

            #[inline(never)]
            fn doublings(&self, first: u128, to: &mut [Block]) -> u128 {
                match self {
                    $(#[cfg(feature = $feature)] Self::$name(cipher) => cipher.doublings(first, to),)+
                }
            }
        }
    };
}

other_ciphers!(
    Camellia, if "camellia", by Camellia::new;
    Cast6, if "cast6", by |key, _| Cast6::new(key);
    Kuznyechik, if "kuznyechik", by |key, _| Kuznyechik::new(key);
    Noekeon, if "noekeon", by |key, _| Noekeon::new(key);
    Serpent, if "serpent", by Serpent::new;
    Speck, if "speck", by |key, _| Speck::new(key);
    Twofish, if "twofish", by Twofish::new;
);

impl Name {
    /// The cipher of a specification, if it is one of these and this build has it.
    pub(crate) fn of(cipher: Cipher) -> Option<Self> {
        match cipher {
            #[cfg(feature = "camellia")]
            Cipher::Camellia => Some(Self::Camellia),
            #[cfg(feature = "kuznyechik")]
            Cipher::Kuznyechik => Some(Self::Kuznyechik),
            #[cfg(feature = "noekeon")]
            Cipher::Noekeon => Some(Self::Noekeon),
            #[cfg(feature = "serpent")]
            Cipher::Serpent => Some(Self::Serpent),
            #[cfg(feature = "speck")]
            Cipher::Speck128 => Some(Self::Speck),
            #[cfg(feature = "twofish")]
            Cipher::Twofish => Some(Self::Twofish),
            _ => None,
        }
    }
}

impl CbcBackend for OtherCipher {}
impl CtrBackend for OtherCipher {}
impl EcbBackend for OtherCipher {}
impl GcmBackend for OtherCipher {}
impl LrwBackend for OtherCipher {}
impl Xex1Backend for OtherCipher {}
impl XtsBackend for OtherCipher {}

impl Hctr2Backend for OtherCipher {
    type Hash = PolyvalKey;
}
