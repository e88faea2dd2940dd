//! A smart card, through the library that knows it. The library is believed: it runs in this process.

use atrest_secret::{Passphrase, SecretBytes, wipe};
use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::elliptic_curve::{EcKdf, Ecdh1DeriveParams};
use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsOaepParams, PkcsOaepSource};
use cryptoki::mechanism::{Mechanism, MechanismType};
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::RawAuthPin;

use super::uri::Uri;
use super::{Padding, Pkcs11Error};
use crate::token::TokenError;

/// Names the library. Without it, p11-kit's is taken, which knows those that the system has set up.
const MODULE: &str = "ATREST_PKCS11_MODULE";
const PROXY: &str = "p11-kit-proxy.so";

fn failed(error: Error) -> Pkcs11Error {
    Pkcs11Error::Failed { error: error.to_string() }
}

/// The one card that a URI means.
pub struct Card {
    module: Pkcs11,
    slot: Slot,
    /// The URI of exactly this card.
    pub uri: Uri,
    pin: Pin,
    /// After the next wrong PIN it takes none.
    pub is_last_try: bool,
}

/// How a card gets its PIN.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pin {
    /// It wants none, and its keys are there for everybody.
    None,
    /// It has keys of its own to type on, and asks by itself.
    ByItself,
    /// It is shown one.
    Shown,
}

impl Drop for Card {
    fn drop(&mut self) {
        // Nothing can be done about one that does not end.
        let _ = self.module.clone().finalize();
    }
}

impl Card {
    /// Looks for it among those that are plugged in.
    pub fn find(uri: &Uri) -> Result<Self, Pkcs11Error> {
        let named = std::env::var_os(MODULE).filter(|module| !module.is_empty());
        let name = named.unwrap_or_else(|| PROXY.into()); // intended: the library of the system
        let missing = |error: Error| {
            let module = name.to_string_lossy().into_owned();
            Pkcs11Error::NoModule { module, error: error.to_string() }
        };
        let module = Pkcs11::new(&name).map_err(missing)?;
        match module.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
            Ok(()) | Err(Error::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => {}
            Err(error) => return Err(missing(error)),
        }
        let mut cards = Vec::new();
        for slot in module.get_slots_with_token().map_err(failed)? {
            // One that was pulled meanwhile is none.
            let Ok(info) = module.get_token_info(slot) else { continue };
            let texts = [info.label(), info.serial_number(), info.manufacturer_id(), info.model()];
            if info.token_initialized() && uri.is_of(texts) {
                let [token, serial, manufacturer, model] = texts.map(|text| Some(text.to_owned()));
                let uri = Uri { token, serial, manufacturer, model, ..uri.clone() };
                let pin = match (info.login_required(), info.protected_authentication_path()) {
                    (false, _) => Pin::None,
                    (true, true) => Pin::ByItself,
                    (true, false) => Pin::Shown,
                };
                cards.push((slot, uri, pin, info.user_pin_final_try()));
            }
        }
        match (cards.pop(), cards.len()) {
            (None, _) => Err(Pkcs11Error::NoCard),
            (Some((slot, uri, pin, is_last_try)), 0) => Ok(Self { module, slot, uri, pin, is_last_try }),
            (Some(_), others) => Err(Pkcs11Error::SeveralCards { count: others + 1 }),
        }
    }

    /// Shows the PIN to the card, if it wants one.
    ///
    /// # Errors
    /// [`TokenError::PinNeeded`], [`TokenError::WrongPin`], [`Pkcs11Error::LastTry`], [`Pkcs11Error::Locked`].
    pub fn log_in(&self, pin: Option<&Passphrase>) -> Result<LoggedIn, TokenError> {
        let open = || self.module.open_ro_session(self.slot).map_err(failed);
        let (session, logged_in) = match (self.pin, pin) {
            (Pin::None, _) => return Ok(LoggedIn(open()?)),
            (Pin::Shown, None) => return Err(TokenError::PinNeeded),
            (Pin::ByItself, _) => {
                let session = open()?;
                let logged_in = session.login(UserType::User, None);
                (session, logged_in)
            }
            (Pin::Shown, Some(pin)) => {
                let session = open()?;
                // It wipes its copy.
                let pin = RawAuthPin::new(Box::new(pin.expose().to_vec()));
                let logged_in = session.login_with_raw(UserType::User, &pin);
                (session, logged_in)
            }
        };
        match logged_in {
            Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(LoggedIn(session)),
            Err(Error::Pkcs11(RvError::PinLocked, _)) => Err(Pkcs11Error::Locked.into()),
            Err(Error::Pkcs11(RvError::PinIncorrect | RvError::PinLenRange | RvError::PinInvalid, _)) => {
                let info = self.module.get_token_info(self.slot).map_err(failed)?;
                match (info.user_pin_locked(), info.user_pin_final_try()) {
                    (true, _) => Err(Pkcs11Error::Locked.into()),
                    (false, true) => Err(Pkcs11Error::LastTry.into()),
                    (false, false) => Err(TokenError::WrongPin),
                }
            }
            Err(error) => Err(failed(error).into()),
        }
    }
}

/// A card that has seen its PIN.
pub struct LoggedIn(Session);

impl LoggedIn {
    /// The one private RSA key that a URI means.
    pub fn key(&self, uri: &Uri) -> Result<ObjectHandle, Pkcs11Error> {
        // Others may sign alone.
        self.one(uri, KeyType::RSA, Attribute::Decrypt(true))
    }

    /// The one private key on a curve that a URI means.
    pub fn curve_key(&self, uri: &Uri) -> Result<ObjectHandle, Pkcs11Error> {
        self.one(uri, KeyType::EC, Attribute::Derive(true))
    }

    fn one(&self, uri: &Uri, kind: KeyType, may: Attribute) -> Result<ObjectHandle, Pkcs11Error> {
        let mut wanted = vec![Attribute::Class(ObjectClass::PRIVATE_KEY), Attribute::KeyType(kind)];
        wanted.extend(uri.object.clone().map(Attribute::Label));
        wanted.extend(uri.id.clone().map(Attribute::Id));
        let mut keys = self.0.find_objects(&wanted).map_err(failed)?;
        if keys.len() > 1 {
            wanted.push(may);
            keys = self.0.find_objects(&wanted).map_err(failed)?;
        }
        match keys[..] {
            [] if kind == KeyType::EC => Err(Pkcs11Error::NoCurveKey),
            [] => Err(Pkcs11Error::NoKey),
            [key] => Ok(key),
            _ => Err(Pkcs11Error::SeveralKeys { count: keys.len() }),
        }
    }

    /// Decrypts by RSA.
    pub fn decrypt(
        &self,
        key: ObjectHandle,
        padding: Padding,
        text: &[u8],
    ) -> Result<SecretBytes, Pkcs11Error> {
        let oaep = |hash, mask| PkcsOaepParams::new(hash, mask, PkcsOaepSource::empty());
        let mechanism = match padding {
            Padding::Pkcs1 => Mechanism::RsaPkcs,
            Padding::OaepSha1 => Mechanism::RsaPkcsOaep(oaep(MechanismType::SHA1, PkcsMgfType::MGF1_SHA1)),
            Padding::OaepSha256 => {
                Mechanism::RsaPkcsOaep(oaep(MechanismType::SHA256, PkcsMgfType::MGF1_SHA256))
            }
        };
        let mut decrypted = self.0.decrypt(&mechanism, key, text).map_err(refused)?;
        let secret = SecretBytes::copy_from(&decrypted);
        wipe(&mut decrypted);
        Ok(secret)
    }

    /// Agrees with a point upon another one, of which the first coordinate is the secret.
    pub fn agree(&self, key: ObjectHandle, point: &[u8]) -> Result<SecretBytes, Pkcs11Error> {
        // As long as one of the two coordinates.
        let len = point.len() / 2;
        let template = [
            Attribute::Class(ObjectClass::SECRET_KEY),
            Attribute::KeyType(KeyType::GENERIC_SECRET),
            Attribute::Token(false),
            Attribute::Sensitive(false),
            Attribute::Extractable(true),
            Attribute::ValueLen((len as u64).into()),
        ];
        let with = |point: &[u8]| {
            let mechanism = Mechanism::Ecdh1Derive(Ecdh1DeriveParams::new(EcKdf::null(), point));
            self.0.derive_key(&mechanism, key, &template)
        };
        // Some libraries want it as an OCTET STRING.
        let agreed = with(point).or_else(|_| with(&octets(point))).map_err(refused)?;
        let mut secret = None;
        for attribute in self.0.get_attributes(agreed, &[AttributeType::Value]).map_err(failed)? {
            if let Attribute::Value(mut value) = attribute {
                secret = Some(SecretBytes::copy_from(&value)).filter(|secret| secret.len() == len);
                wipe(&mut value);
            }
        }
        // It ends with the session, where it is not taken away.
        let _ = self.0.destroy_object(agreed);
        secret.ok_or(Pkcs11Error::NotDecrypted)
    }

    /// The modulus and the public exponent of a key, big-endian, and its identifier on the card.
    pub fn public(&self, key: ObjectHandle) -> Result<Public, Pkcs11Error> {
        let kinds = [AttributeType::Modulus, AttributeType::PublicExponent, AttributeType::Id];
        let mut public = Public::default();
        for attribute in self.0.get_attributes(key, &kinds).map_err(failed)? {
            match attribute {
                Attribute::Modulus(modulus) => public.modulus = modulus,
                Attribute::PublicExponent(exponent) => public.exponent = exponent,
                Attribute::Id(id) => public.id = id,
                _ => {}
            }
        }
        match public.modulus.is_empty() || public.exponent.is_empty() {
            true => Err(Pkcs11Error::BadKey),
            false => Ok(public),
        }
    }
}

/// What a card says to what was not made for its key.
fn refused(error: Error) -> Pkcs11Error {
    match error {
        Error::Pkcs11(
            RvError::EncryptedDataInvalid
            | RvError::EncryptedDataLenRange
            | RvError::DataInvalid
            | RvError::GeneralError
            | RvError::FunctionFailed
            | RvError::MechanismParamInvalid,
            _,
        ) => Pkcs11Error::NotDecrypted,
        error => failed(error),
    }
}

/// A point in DER (X.690, section 8.7).
fn octets(point: &[u8]) -> Vec<u8> {
    // cannot be more: a point has 133 bytes at most.
    let len = u8::try_from(point.len()).unwrap_or(u8::MAX);
    let head: &[u8] = if len < 0x80 { &[4, len] } else { &[4, 0x81, len] };
    [head, point].concat()
}

/// The public part of an RSA key.
#[derive(Debug, Default)]
pub struct Public {
    pub modulus: Vec<u8>,
    pub exponent: Vec<u8>,
    pub id: Vec<u8>,
}
