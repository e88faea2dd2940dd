//! What a token needs, in words.

use super::{Token, keyring, recovery};

impl Token {
    /// What opens the keyslots of this token, in a few words: `this machine's TPM with PCR 7 and a PIN`.
    pub fn needs(&self) -> String {
        match self.info.kind.as_str() {
            keyring::KIND_NAME => match &self.info.key_description {
                Some(description) => format!("the key {description:?} in the kernel's keyring"),
                None => "a key in the kernel's keyring".into(),
            },
            recovery::KIND_NAME => "a recovery key".into(),
            "systemd-pkcs11" => "a smart card (PKCS#11)".into(),
            "ssh" => "a file on another machine (SSH)".into(),
            #[cfg(feature = "fido2")]
            super::fido2::KIND_NAME => super::fido2::needs(&self.text),
            #[cfg(not(feature = "fido2"))]
            "systemd-fido2" => "a security key (FIDO2)".into(),
            #[cfg(feature = "tpm")]
            super::tpm2::KIND_NAME => super::tpm2::needs(&self.text),
            #[cfg(feature = "clevis")]
            super::clevis::KIND_NAME => super::clevis::needs(&self.text),
            kind => format!("something that the token type {kind:?} stands for"),
        }
    }
}
