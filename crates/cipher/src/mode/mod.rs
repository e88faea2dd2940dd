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
pub(crate) mod hctr2;
pub(crate) mod lrw;
pub(crate) mod stream;
mod xex;
pub(crate) mod xex1;
pub(crate) mod xts;

use self::cbc::CbcBackend;
use self::ctr::CtrBackend;
use self::ecb::EcbBackend;
use self::facts::Facts;
use self::hctr2::Hctr2Backend;
use self::lrw::LrwBackend;
use self::xex1::Xex1Backend;
use self::xts::XtsBackend;

/// Declares the modes, each with its facts.
macro_rules! modes {
    ($($(#[$doc:meta])* $mode:ident = $facts:path;)+) => {
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
    };
}

modes! {
    Xts = xts::FACTS;
    Cbc = cbc::FACTS;
    /// CBC with ciphertext stealing.
    CbcCts = cts::FACTS;
    Lrw = lrw::FACTS;
    Ecb = ecb::FACTS;
    Ctr = ctr::FACTS;
    Adiantum = adiantum::ADIANTUM;
    HPolyC = adiantum::HPOLYC;
    Hctr2 = hctr2::FACTS;
    /// XEX with one key; the name is ours.
    Xex1 = xex1::FACTS;
    /// A stream cipher alone; the name is ours.
    Stream = stream::FACTS;
}

/// A block cipher with a backend for every mode that is made of one.
pub(crate) trait AnyMode:
    EcbBackend + CbcBackend + CtrBackend + LrwBackend + XtsBackend + Xex1Backend + Hctr2Backend
{
}

impl<C> AnyMode for C where
    C: EcbBackend + CbcBackend + CtrBackend + LrwBackend + XtsBackend + Xex1Backend + Hctr2Backend
{
}
