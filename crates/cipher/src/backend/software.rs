//! Block ciphers without code of their own for any mode: each mode is the one for any block cipher.

macro_rules! backends {
    ($($cipher:ident in $module:ident, if $feature:literal;)+) => {$(
        #[cfg(feature = $feature)]
        const _: () = {
            use super::polyval::PolyvalKey;
            use crate::$module::$cipher;
            use crate::mode::cbc::CbcBackend;
            use crate::mode::ctr::CtrBackend;
            use crate::mode::ecb::EcbBackend;
            use crate::mode::gcm::GcmBackend;
            use crate::mode::hctr2::Hctr2Backend;
            use crate::mode::lrw::LrwBackend;
            use crate::mode::xex1::Xex1Backend;
            use crate::mode::xts::XtsBackend;

            impl CbcBackend for $cipher {}
            impl CtrBackend for $cipher {}
            impl EcbBackend for $cipher {}
            impl GcmBackend for $cipher {}
            impl LrwBackend for $cipher {}
            impl Xex1Backend for $cipher {}
            impl XtsBackend for $cipher {}

            impl Hctr2Backend for $cipher {
                type Hash = PolyvalKey;
            }
        };
    )+};
}

backends!(
    Camellia in backend, if "camellia";
    Cast6 in library, if "cast6";
    Kuznyechik in library, if "kuznyechik";
    Noekeon in noekeon, if "noekeon";
    Serpent in backend, if "serpent";
    Speck in speck, if "speck";
    Twofish in backend, if "twofish";
);
