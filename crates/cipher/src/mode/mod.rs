//! The modes, one folder each: what is to be known of it (its [`Facts`]), what it asks of a backend (a trait), and its code
//! for any block cipher: [`LANES`](crate::block::LANES) blocks in flight, whatever the data unit.
//!
//! A mode knows no backend. What of it a backend can do better, it overrides in the mode's trait.

pub(crate) mod adiantum;
pub(crate) mod cbc;
pub(crate) mod ctr;
pub(crate) mod cts;
pub(crate) mod ecb;
pub(crate) mod facts;
pub(crate) mod gcm;
pub(crate) mod hctr2;
pub(crate) mod lrw;
pub(crate) mod stream;
mod xex;
pub(crate) mod xex1;
pub(crate) mod xts;

use self::facts::Facts;
use crate::block::BlockCipher;

/// Declares the modes, each with its facts and, if a block cipher does it, the trait of its backends.
macro_rules! modes {
    ($($(#[$doc:meta])* $mode:ident = $facts:path $(, by $backend:path)?;)+) => {
        /// How blocks are chained or masked, or a whole data unit is made one block.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Mode {
            $($(#[$doc])* $mode,)+
        }

        impl Mode {
            /// All of them.
            pub(crate) const ALL: &[Self] = &[$(Self::$mode),+];

            /// What is to be known of it.
            pub(crate) const fn facts(self) -> &'static Facts {
                match self {
                    $(Self::$mode => &$facts,)+
                }
            }
        }

        /// A block cipher with a backend for every mode that is made of one.
        pub(crate) trait AnyMode: BlockCipher $($(+ $backend)?)+ {}

        impl<C: BlockCipher $($(+ $backend)?)+> AnyMode for C {}
    };
}

modes! {
    Xts = xts::FACTS, by xts::XtsBackend;
    Cbc = cbc::FACTS, by cbc::CbcBackend;
    /// CBC with ciphertext stealing.
    CbcCts = cts::FACTS;
    Lrw = lrw::FACTS, by lrw::LrwBackend;
    Ecb = ecb::FACTS, by ecb::EcbBackend;
    Ctr = ctr::FACTS, by ctr::CtrBackend;
    Adiantum = adiantum::ADIANTUM;
    HPolyC = adiantum::HPOLYC;
    Hctr2 = hctr2::FACTS, by hctr2::Hctr2Backend;
    /// XEX with one key; the name is ours.
    Xex1 = xex1::FACTS, by xex1::Xex1Backend;
    /// A stream cipher alone; the name is ours.
    Stream = stream::FACTS;
}
