//! From what a header says to the type of the cipher, of which each is code of its own.

use atrest_cipher::aead::{
    Aead, Aes128Ccm, Aes128CcmTag96, Aes128Gcm, Aes128GcmTag96, Aes256Ccm, Aes256CcmTag96, Aes256Gcm,
    Aes256GcmTag96, AsconAead128, ChaCha20Poly1305,
};
use atrest_keyslot::flash::{FlashCipher, Params, Protection};

use super::FlashOpenError;

/// What is done with a cipher whose type is not known before.
pub(super) trait WithAead {
    /// What comes of it.
    type Output;

    /// Does it.
    fn with<A: Aead + Send + 'static>(self) -> Result<Self::Output, FlashOpenError>;
}

/// Does it with the cipher of a header.
pub(super) fn with_aead<W: WithAead>(params: &Params, work: W) -> Result<W::Output, FlashOpenError> {
    let Protection::Sealed { tag_len, .. } = params.protection else {
        return Err(FlashOpenError::NotSealed);
    };
    match (params.cipher, params.key_len, tag_len) {
        (FlashCipher::Ascon128, 16, 16) => work.with::<AsconAead128>(),
        (FlashCipher::ChaCha20Poly1305, 32, 16) => work.with::<ChaCha20Poly1305>(),
        (FlashCipher::AesCcm, 16, 16) => work.with::<Aes128Ccm>(),
        (FlashCipher::AesCcm, 16, 12) => work.with::<Aes128CcmTag96>(),
        (FlashCipher::AesCcm, 32, 16) => work.with::<Aes256Ccm>(),
        (FlashCipher::AesCcm, 32, 12) => work.with::<Aes256CcmTag96>(),
        (FlashCipher::AesGcm, 16, 16) => work.with::<Aes128Gcm>(),
        (FlashCipher::AesGcm, 16, 12) => work.with::<Aes128GcmTag96>(),
        (FlashCipher::AesGcm, 32, 16) => work.with::<Aes256Gcm>(),
        (FlashCipher::AesGcm, 32, 12) => work.with::<Aes256GcmTag96>(),
        // The header's rules leave no other.
        _ => Err(FlashOpenError::NotSealed),
    }
}
