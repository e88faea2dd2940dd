//! What opens a keyslot, as kinds that people speak of.

use atrest_volume::LockedVolume;

use super::{Token, recovery};

/// What opens a keyslot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// A passphrase, which no token has.
    Passphrase,
    /// A TPM, as systemd or clevis has it.
    Tpm2,
    /// A security key.
    Fido2,
    /// A smart card.
    Pkcs11,
    /// A recovery key.
    Recovery,
    /// A tang server.
    Tang,
    /// Anything that clevis has bound.
    Clevis,
    /// Any few of several factors, as clevis or we have them.
    Threshold,
    /// A key in the kernel's keyring.
    Keyring,
}

impl Factor {
    /// Whether a token stands for it.
    fn is_of(self, token: &Token) -> bool {
        let kind = token.info.kind.as_str();
        let pin = |name: &str| kind == "clevis" && token.clevis_pin().as_deref() == Some(name);
        match self {
            Self::Passphrase => false,
            Self::Tpm2 => kind == "systemd-tpm2" || pin("tpm2"),
            Self::Fido2 => kind == "systemd-fido2",
            Self::Pkcs11 => kind == "systemd-pkcs11" || pin("pkcs11"),
            Self::Recovery => kind == recovery::KIND_NAME,
            Self::Tang => pin("tang"),
            Self::Clevis => kind == "clevis",
            Self::Threshold => token.has_factors() || pin("sss"),
            Self::Keyring => kind == super::keyring::KIND_NAME,
        }
    }

    /// The keyslots that one of these opens, by number. Those that hold another key than the volume's are no passphrases.
    pub fn keyslots(these: &[Self], volume: &LockedVolume) -> Vec<u32> {
        let tokens = Token::all(volume);
        let info = volume.info();
        let is_meant = |slot: u32, unbound: bool| {
            let mut own = tokens.iter().filter(|token| token.info.keyslots.contains(&slot)).peekable();
            match own.peek() {
                None => these.contains(&Self::Passphrase) && !unbound,
                Some(_) => own.any(|token| these.iter().any(|factor| factor.is_of(token))),
            }
        };
        // One that a re-encryption has made goes with it alone.
        let keyslots = info.keyslots.iter().filter(|keyslot| keyslot.kind != "reencrypt");
        keyslots.filter(|keyslot| is_meant(keyslot.id, keyslot.unbound)).map(|keyslot| keyslot.id).collect()
    }
}

impl Token {
    #[cfg(feature = "clevis")]
    fn clevis_pin(&self) -> Option<String> {
        super::clevis::pin(&self.text)
    }

    #[cfg(not(feature = "clevis"))]
    fn clevis_pin(&self) -> Option<String> {
        None
    }
}
