//! From a PIN to what proves it to the security key (CTAP 2.1, section 6.5.5.7).

use atrest_kdf::{Hash, digest};
use atrest_secret::{Passphrase, SecretArray};

use crate::Fido2Error;
use crate::cbor::{Value, Writer};
use crate::commands::{SecurityKey, code};
use crate::shared::{Shared, point};

/// What a token is good for.
#[derive(Clone, Copy, Debug)]
pub enum Permission {
    Make = 1,
    Use = 2,
}

/// What a security key has given for its PIN.
pub struct PinToken(SecretArray<32>);

impl PinToken {
    /// A tag over a message, which proves that the PIN was typed.
    pub fn tag(&self, shared: &Shared, message: &[u8]) -> Vec<u8> {
        shared.protocol.tag(&self.0, message)
    }
}

impl SecurityKey {
    /// Agrees on a key.
    pub(crate) fn agree(&mut self) -> Result<Shared, Fido2Error> {
        let protocol = self.info.protocol;
        let asked = Writer::default().map(2).unsigned(1).unsigned(protocol.number()).unsigned(2).unsigned(2);
        let answer = self.command(code::CLIENT_PIN, &asked.0, &mut || {})?;
        let answer = Value::parse(&answer)?;
        Shared::agree(protocol, &point(answer.at(1).ok_or(Fido2Error::Malformed)?)?)
    }

    /// Exchanges a PIN for a token. A wrong one is counted by the security key.
    pub(crate) fn pin_token(
        &mut self,
        shared: &Shared,
        pin: &Passphrase,
        permission: Permission,
        rp: &str,
    ) -> Result<PinToken, Fido2Error> {
        let text = core::str::from_utf8(pin.expose()).map_err(|_| Fido2Error::BadPin)?;
        if !(4..=63).contains(&text.len()) {
            return Err(Fido2Error::BadPin);
        }
        match self.info.pin {
            Some(true) => {}
            _ => return Err(Fido2Error::NoPin),
        }
        let mut hash = SecretArray::<32>::zeroed();
        digest(Hash::Sha256, &[pin.expose()], &mut *hash);
        let sent = shared.encrypt(hash.split_at(16).0)?;
        let permissions = self.info.permissions;
        let (entries, command) = if permissions { (6, 9) } else { (4, 5) };
        let asked = Writer::default().map(entries).unsigned(1).unsigned(shared.protocol.number());
        let mut asked =
            shared.point(asked.unsigned(2).unsigned(command).unsigned(3)).unsigned(6).bytes(&sent);
        if permissions {
            asked = asked.unsigned(9).unsigned(permission as u8).unsigned(10).text(rp);
        }
        let answer = self.command(code::CLIENT_PIN, &asked.0, &mut || {})?;
        let answer = Value::parse(&answer)?;
        let token = shared.decrypt(answer.at(2).and_then(Value::bytes).ok_or(Fido2Error::Malformed)?)?;
        // The first protocol has some of half the length, which HMAC fills up with zeros as well.
        if token.len() != 32 && (token.len() != 16 || shared.protocol.number() != 1) {
            return Err(Fido2Error::Malformed);
        }
        let mut padded = SecretArray::<32>::zeroed();
        padded.iter_mut().zip(token.iter()).for_each(|(to, from)| *to = *from);
        Ok(PinToken(padded))
    }
}
