//! What a token needs, in words.

use super::{Token, keyring, recovery};

impl Token {
    /// What opens the keyslots of this token, in a few words: `this machine's TPM with PCR 7 and a PIN`.
    pub fn needs(&self) -> String {
        of(&self.info.kind, &self.text, self.info.key_description.as_deref())
    }
}

/// What opens the keyslots of a token of this type and text, which may name a key of the kernel's keyring.
// The text counts for the kinds alone that are built in.
#[cfg_attr(
    not(any(
        feature = "pkcs11",
        feature = "fido2",
        feature = "tpm",
        feature = "shares",
        feature = "clevis"
    )),
    expect(unused_variables)
)]
pub(super) fn of(kind: &str, text: &str, key_description: Option<&str>) -> String {
    match kind {
        keyring::KIND_NAME => match key_description {
            Some(description) => format!("the key {description:?} in the kernel's keyring"),
            None => "a key in the kernel's keyring".into(),
        },
        recovery::KIND_NAME => "a recovery key".into(),
        #[cfg(feature = "pkcs11")]
        super::pkcs11::KIND_NAME => super::pkcs11::needs(text),
        #[cfg(not(feature = "pkcs11"))]
        "systemd-pkcs11" => "a smart card (PKCS#11)".into(),
        "ssh" => "a file on another machine (SSH)".into(),
        #[cfg(feature = "fido2")]
        super::fido2::KIND_NAME => super::fido2::needs(text),
        #[cfg(not(feature = "fido2"))]
        "systemd-fido2" => "a security key (FIDO2)".into(),
        #[cfg(feature = "tpm")]
        super::tpm2::KIND_NAME => super::tpm2::needs(text),
        #[cfg(feature = "shares")]
        super::shares::KIND_NAME => super::shares::needs(text),
        #[cfg(not(feature = "shares"))]
        "atrest-shares" => "several factors together".into(),
        #[cfg(feature = "clevis")]
        super::clevis::KIND_NAME => super::clevis::needs(text),
        kind => format!("something that the token type {kind:?} stands for"),
    }
}
