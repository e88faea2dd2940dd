//! What is asked of a security key: its description, a credential, and the secret that goes with one.

use atrest_kdf::{Hash, digest};
use atrest_secret::{Passphrase, SecretBytes, with_wiped_stack};

use crate::cbor::{Value, Writer};
use crate::hid::{Channel, Patience, Reports};
use crate::pin::Permission;
use crate::{Device, Fido2Error, Info};

const BAD: Fido2Error = Fido2Error::Malformed;

/// Numbers of commands (CTAP 2.1, section 6).
pub(crate) mod code {
    pub const MAKE_CREDENTIAL: u8 = 1;
    pub const GET_ASSERTION: u8 = 2;
    pub const GET_INFO: u8 = 4;
    pub const CLIENT_PIN: u8 = 6;
}

/// Flags in what the security key signs (Web Authentication, section 6.1).
mod flag {
    pub const PRESENT: u8 = 1;
    pub const VERIFIED: u8 = 4;
    pub const CREDENTIAL: u8 = 0x40;
    pub const EXTENSIONS: u8 = 0x80;
}

/// What would be the hash of what a browser says. Nobody checks the signature over it here: the secret is what counts.
const NOTHING: [u8; 32] = [0; 32];

/// The longest identifier of a credential (CTAP 2.1, section 6.4, has none longer).
const LONGEST_ID: usize = 1024;

/// A credential on a security key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    /// How the security key knows it again.
    pub id: Vec<u8>,
}

/// What a secret is asked with. A security key has two secrets for each credential and salt: one for whoever it has verified (by a PIN, or by
/// itself), and one for anybody.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The relying party: for whom the credential was made.
    pub rp: &'a str,
    /// The identifier of the credential.
    pub credential: &'a [u8],
    /// 32 bytes that the secret is derived from.
    pub salt: &'a [u8; 32],
    /// Whether somebody has to touch the security key; `None` if it decides.
    pub touch: Option<bool>,
    /// Whether the security key has to verify somebody by itself.
    pub verification: bool,
    /// Its PIN, if that is asked for.
    pub pin: Option<&'a Passphrase>,
}

/// A security key.
pub struct SecurityKey {
    channel: Channel,
    pub(crate) info: Info,
}

impl core::fmt::Debug for SecurityKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SecurityKey").field("info", &self.info).finish_non_exhaustive()
    }
}

impl SecurityKey {
    /// Opens the security key at this place.
    ///
    /// # Errors
    /// Those of [`Device::open`]; [`Fido2Error::NoSecrets`] if it is of no use here; [`Fido2Error::Malformed`], [`Fido2Error::Slow`].
    pub fn open(device: &Device) -> Result<Self, Fido2Error> {
        Self::over(device.open()?)
    }

    /// The security key at the other end of this.
    ///
    /// # Errors
    /// As [`SecurityKey::open`].
    pub fn over(reports: Box<dyn Reports>) -> Result<Self, Fido2Error> {
        let mut channel = Channel::open(reports, Patience::default())?;
        let info = Info::parse(&exchange(&mut channel, code::GET_INFO, &[], &mut || {})?)?;
        if info.secrets { Ok(Self { channel, info }) } else { Err(Fido2Error::NoSecrets) }
    }

    /// What it says of itself.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Whether it has a credential, as far as it tells without a touch or a PIN. One that tells nobody is taken to have it.
    ///
    /// # Errors
    /// [`Fido2Error`].
    pub fn has(&mut self, rp: &str, credential: &[u8]) -> Result<bool, Fido2Error> {
        // intended: it is asked once more with what it wants.
        Ok(self.tells(rp, credential)?.unwrap_or(true))
    }

    /// Whether it has a credential; `None` if it does not tell without a touch or a PIN.
    ///
    /// # Errors
    /// [`Fido2Error`].
    pub fn tells(&mut self, rp: &str, credential: &[u8]) -> Result<Option<bool>, Fido2Error> {
        let asked =
            allowed(Writer::default().map(4).unsigned(1).text(rp).unsigned(2).bytes(&NOTHING), credential);
        let asked = asked.unsigned(5).map(1).text("up").flag(false);
        match self.command(code::GET_ASSERTION, &asked.0, &mut || {}) {
            Ok(_) => Ok(Some(true)),
            Err(Fido2Error::PinNeeded | Fido2Error::TouchNeeded | Fido2Error::Code(0x2b | 0x2c)) => Ok(None),
            Err(Fido2Error::NotThis) => Ok(Some(false)),
            Err(error) => Err(error),
        }
    }

    /// The secret of 32 bytes that goes with a credential and a salt. `touch` is called if somebody has to touch the security key.
    ///
    /// # Errors
    /// [`Fido2Error`].
    pub fn secret(
        &mut self,
        request: &Request<'_>,
        touch: &mut dyn FnMut(),
    ) -> Result<SecretBytes, Fido2Error> {
        let mut once = |wanted| with_wiped_stack(|| self.secret_once(request, wanted, touch));
        match request.touch {
            Some(wanted) => once(wanted),
            None => match once(false) {
                Err(Fido2Error::TouchNeeded | Fido2Error::Code(0x2b)) => once(true),
                done => done,
            },
        }
    }

    fn secret_once(
        &mut self,
        request: &Request<'_>,
        wanted: bool,
        touch: &mut dyn FnMut(),
    ) -> Result<SecretBytes, Fido2Error> {
        let verifies = request.verification && request.pin.is_none();
        if verifies && !self.info.verification {
            return Err(Fido2Error::NoVerification);
        }
        let shared = self.agree()?;
        let token = match request.pin {
            Some(pin) => Some(self.pin_token(&shared, pin, Permission::Use, request.rp)?),
            None => None,
        };
        let is_two = shared.protocol.number() == 2;
        let options = u8::from(self.info.touch) + u8::from(verifies);
        let entries = 4 + usize::from(options > 0) + 2 * usize::from(token.is_some());
        let asked = Writer::default().map(entries).unsigned(1).text(request.rp).unsigned(2).bytes(&NOTHING);
        let salt = shared.encrypt(request.salt)?;
        let asked = allowed(asked, request.credential).unsigned(4).map(1).text("hmac-secret");
        let asked = shared.point(asked.map(3 + usize::from(is_two)).unsigned(1)).unsigned(2).bytes(&salt);
        let mut asked = asked.unsigned(3).bytes(&shared.tag(&salt));
        if is_two {
            asked = asked.unsigned(4).unsigned(2);
        }
        if options > 0 {
            asked = asked.unsigned(5).map(options.into());
        }
        if self.info.touch {
            asked = asked.text("up").flag(wanted);
        }
        if verifies {
            asked = asked.text("uv").flag(true);
        }
        if let Some(token) = &token {
            asked = asked
                .unsigned(6)
                .bytes(&token.tag(&shared, &NOTHING))
                .unsigned(7)
                .unsigned(shared.protocol.number());
        }
        let answer = self.command(code::GET_ASSERTION, &asked.0, touch)?;
        let answer = Value::parse(&answer)?;
        let signed = Signed::parse(answer.at(2).and_then(Value::bytes).ok_or(BAD)?, request.rp)?;
        let lacks = |flag: u8| signed.flags & flag == 0;
        // Without them this would be the other secret.
        if (verifies || token.is_some()) && lacks(flag::VERIFIED)
            || wanted && self.info.touch && lacks(flag::PRESENT)
        {
            return Err(BAD);
        }
        let extensions = signed.extensions.ok_or(BAD)?;
        let encrypted = extensions.named("hmac-secret").and_then(Value::bytes).ok_or(BAD)?;
        let secret = shared.decrypt(encrypted)?;
        if secret.len() == 32 { Ok(secret) } else { Err(BAD) }
    }

    /// Makes a credential that has secrets, for this relying party and a user of this name. The security key asks for a touch.
    ///
    /// # Errors
    /// [`Fido2Error::PinNeeded`] if it has a PIN and none is given.
    pub fn make_credential(
        &mut self,
        rp: (&str, &str),
        user: (&[u8], &str),
        pin: Option<&Passphrase>,
        touch: &mut dyn FnMut(),
    ) -> Result<Credential, Fido2Error> {
        with_wiped_stack(|| self.make(rp, user, pin, touch))
    }

    fn make(
        &mut self,
        rp: (&str, &str),
        user: (&[u8], &str),
        pin: Option<&Passphrase>,
        touch: &mut dyn FnMut(),
    ) -> Result<Credential, Fido2Error> {
        let proof = match pin {
            Some(pin) => {
                let shared = self.agree()?;
                let token = self.pin_token(&shared, pin, Permission::Make, rp.0)?;
                Some((token.tag(&shared, &NOTHING), shared.protocol.number()))
            }
            None => None,
        };
        let entries = 6 + 2 * usize::from(proof.is_some());
        let asked = Writer::default().map(entries).unsigned(1).bytes(&NOTHING);
        let asked = asked.unsigned(2).map(2).text("id").text(rp.0).text("name").text(rp.1);
        let asked = asked.unsigned(3).map(3).text("id").bytes(user.0).text("name").text(user.1);
        let asked = asked.text("displayName").text(user.1);
        // ES256
        let asked = asked.unsigned(4).array(1).map(2).text("alg").negative(6).text("type").text("public-key");
        let asked = asked.unsigned(6).map(1).text("hmac-secret").flag(true);
        let mut asked = asked.unsigned(7).map(1).text("rk").flag(false);
        if let Some((tag, protocol)) = &proof {
            asked = asked.unsigned(8).bytes(tag).unsigned(9).unsigned(*protocol);
        }
        let answer = self.command(code::MAKE_CREDENTIAL, &asked.0, touch)?;
        let answer = Value::parse(&answer)?;
        let signed = Signed::parse(answer.at(2).and_then(Value::bytes).ok_or(BAD)?, rp.0)?;
        if signed.extensions.as_ref().and_then(|map| map.named("hmac-secret")).and_then(Value::flag)
            != Some(true)
        {
            return Err(Fido2Error::NoSecrets);
        }
        let id = signed.credential.filter(|id| !id.is_empty() && id.len() <= LONGEST_ID).ok_or(BAD)?;
        Ok(Credential { id: id.to_vec() })
    }

    /// The answer to a command, without its status.
    pub(crate) fn command(
        &mut self,
        code: u8,
        parameters: &[u8],
        touch: &mut dyn FnMut(),
    ) -> Result<Vec<u8>, Fido2Error> {
        exchange(&mut self.channel, code, parameters, touch)
    }
}

fn exchange(
    channel: &mut Channel,
    code: u8,
    parameters: &[u8],
    touch: &mut dyn FnMut(),
) -> Result<Vec<u8>, Fido2Error> {
    let answer = channel.exchange(&[&[code], parameters].concat(), touch)?;
    match answer.split_first().ok_or(BAD)? {
        (0, rest) => Ok(rest.to_vec()),
        (status, _) => Err(meaning(*status)),
    }
}

/// What a status means (CTAP 2.1, section 8.2).
fn meaning(status: u8) -> Fido2Error {
    match status {
        0x06 => Fido2Error::Busy,
        0x27 => Fido2Error::Denied,
        0x2e | 0x22 => Fido2Error::NotThis,
        0x2d | 0x2f | 0x3a => Fido2Error::NotTouched,
        0x31 => Fido2Error::WrongPin,
        0x32 => Fido2Error::PinBlocked,
        0x34 => Fido2Error::PinLocked,
        0x35 => Fido2Error::NoPin,
        0x36 => Fido2Error::PinNeeded,
        0x37 => Fido2Error::BadPin,
        0x3b => Fido2Error::TouchNeeded,
        0x3c | 0x3f => Fido2Error::NoVerification,
        code => Fido2Error::Code(code),
    }
}

/// The list with the one credential that is meant.
fn allowed(writer: Writer, credential: &[u8]) -> Writer {
    writer.unsigned(3).array(1).map(2).text("id").bytes(credential).text("type").text("public-key")
}

/// What the security key signs.
struct Signed<'a> {
    flags: u8,
    credential: Option<&'a [u8]>,
    extensions: Option<Value<'a>>,
}

impl<'a> Signed<'a> {
    fn parse(bytes: &'a [u8], rp: &str) -> Result<Self, Fido2Error> {
        let (theirs, rest) = bytes.split_at_checked(32).ok_or(BAD)?;
        let mut hash = [0; 32];
        digest(Hash::Sha256, &[rp.as_bytes()], &mut hash);
        let [flags, _, _, _, _, rest @ ..] = rest else { return Err(BAD) };
        if theirs != hash {
            return Err(BAD);
        }
        let (credential, rest) = match flags & flag::CREDENTIAL {
            0 => (None, rest),
            _ => {
                // A number of the model, a length, an identifier, a public key.
                let (head, rest) = rest.split_at_checked(18).ok_or(BAD)?;
                let [.., high, low] = head else { return Err(BAD) };
                let (id, rest) =
                    rest.split_at_checked(u16::from_be_bytes([*high, *low]).into()).ok_or(BAD)?;
                let (_, rest) = Value::first(rest)?;
                (Some(id), rest)
            }
        };
        let extensions = match flags & flag::EXTENSIONS {
            0 if rest.is_empty() => None,
            0 => return Err(BAD),
            _ => Some(Value::parse(rest)?),
        };
        Ok(Self { flags: *flags, credential, extensions })
    }
}
