//! Block ciphers without code of their own for any mode: each mode is the one for any block cipher.

use super::polyval::PolyvalKey;
use crate::library::{Camellia, Cast6, Serpent};
use crate::mode::cbc::CbcBackend;
use crate::mode::ctr::CtrBackend;
use crate::mode::ecb::EcbBackend;
use crate::mode::hctr2::Hctr2Backend;
use crate::mode::lrw::LrwBackend;
use crate::mode::xex1::Xex1Backend;
use crate::mode::xts::XtsBackend;
use crate::noekeon::Noekeon;
use crate::speck::Speck;
use crate::twofish::Twofish;

macro_rules! backends {
    ($($cipher:ty),+) => {$(
        impl CbcBackend for $cipher {}
        impl CtrBackend for $cipher {}
        impl EcbBackend for $cipher {}
        impl LrwBackend for $cipher {}
        impl Xex1Backend for $cipher {}
        impl XtsBackend for $cipher {}

        impl Hctr2Backend for $cipher {
            type Hash = PolyvalKey;
        }
    )+};
}

backends!(Camellia, Cast6, Noekeon, Serpent, Speck, Twofish);
