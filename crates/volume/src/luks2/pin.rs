//! Pinned headers: a MAC under a subkey of the volume key over all that the header says (FORMATS.md, "Pinned headers").
//!
//! Whoever has the volume key can check the header that led to it, before the volume is used. A header that somebody swapped, weakened or
//! edited without the key is refused, and so is each field that was changed. An older header of the same volume, pinned in its time, is not
//! told from the present one, unless a policy or a trusted store outside says how often it has been changed since.

use core::fmt;
use core::str::FromStr;

use atrest_device::Media;
use atrest_format::luks2::{
    COUNTER_TOKEN, CounterToken, Header, HeaderPolicy, MARK_LEN, Marks, Metadata, PIN_TOKEN, Pin, PinFault,
};
use atrest_kdf::Prf;
use atrest_secret::{SecretArray, constant_time_eq};

use super::Luks2;
use super::pin_counter::NewPinCounter;
use super::session::Session;
use crate::{ChangeError, Credential, UnlockError, UnlockOptions, VolumeKey};

/// Bytes of an identifier.
const ID_LEN: usize = 16;
/// Differences that are told at most.
const MOST_DIFFERENCES: usize = 32;
/// Tokens that a header has at most.
const TOKENS: u32 = 32;

/// Names a volume key without telling anything of it: HKDF-SHA256 of the key, cut to 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeKeyId([u8; ID_LEN]);

impl VolumeKeyId {
    /// That of no key, for whoever meant one and did not say it rightly.
    pub const OF_NONE: Self = Self([0; ID_LEN]);

    /// Of a key.
    pub fn of(key: &VolumeKey) -> Self {
        let whole = subkey(key.expose(), b"atrest volume key identifier 1");
        let mut id = [0; ID_LEN];
        for (byte, of_whole) in id.iter_mut().zip(whole.iter()) {
            *byte = *of_whole;
        }
        Self(id)
    }

    /// Its bytes.
    pub fn bytes(&self) -> [u8; ID_LEN] {
        self.0
    }
}

impl From<[u8; ID_LEN]> for VolumeKeyId {
    fn from(bytes: [u8; ID_LEN]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for VolumeKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The text is no identifier of a volume key: those have 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadVolumeKeyId;

impl fmt::Display for BadVolumeKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "an identifier of a volume key has 32 hexadecimal digits, as `atrest header pin` prints it",
        )
    }
}

impl core::error::Error for BadVolumeKeyId {}

impl FromStr for VolumeKeyId {
    type Err = BadVolumeKeyId;

    fn from_str(text: &str) -> Result<Self, BadVolumeKeyId> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != ID_LEN || !rest.is_empty() {
            return Err(BadVolumeKeyId);
        }
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let mut id = [0; ID_LEN];
        for (byte, [high, low]) in id.iter_mut().zip(pairs) {
            let (high, low) = (digit(*high).ok_or(BadVolumeKeyId)?, digit(*low).ok_or(BadVolumeKeyId)?);
            *byte = high << 4 | low;
        }
        Ok(Self(id))
    }
}

/// Why a pinned header is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinError {
    /// The policy asks for a pinned header, and this one is not.
    Missing,
    /// The token can't be used.
    Token(PinFault),
    /// The header says something else than it was pinned with.
    Changed {
        /// The fields, where they are known.
        fields: Vec<String>,
    },
    /// It was pinned before what the policy or the trusted store has seen.
    Older {
        /// Its counter.
        counter: u64,
        /// That of the policy or the store.
        least: u64,
    },
    /// The trusted store has seen another header with the same number.
    Other {
        /// The number.
        counter: u64,
    },
    /// A counter of a TPM is to say how new the header is, and the header names none.
    Uncounted,
    /// The header names another counter.
    OtherCounter {
        /// Its index.
        index: u32,
    },
    /// What it says of its counter can't be read.
    BadCounter,
    /// The header is so far before the counter that it can't be that of this header.
    Ahead,
    /// The header is changed no further before the counter is told of the changes that were made.
    Untold {
        /// How many they are.
        changes: u64,
    },
    /// It is not a LUKS2 header.
    NotLuks2,
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the header is not pinned, and the policy asks for that"),
            Self::Token(PinFault::Several) => f.write_str("the header has several pins"),
            Self::Token(PinFault::Malformed) => f.write_str("the pin of the header can't be read"),
            Self::Changed { fields } if fields.is_empty() => {
                f.write_str("the header is not as it was pinned")
            }
            Self::Changed { fields } => {
                write!(f, "the header is not as it was pinned: {}", fields.join("; "))
            }
            Self::Older { counter, least } => write!(
                f,
                "the header is an older one of this volume: it was pinned as number {counter}, and number {least} has been seen"
            ),
            Self::Other { counter } => write!(
                f,
                "the header is not the one that the trusted store has seen: both were pinned as number {counter}"
            ),
            Self::Uncounted => f.write_str("the header names no counter of a TPM"),
            Self::OtherCounter { index } => {
                write!(f, "the header names another counter of the TPM: that at {index:#010x}")
            }
            Self::BadCounter => {
                f.write_str("what the header says of its counter in the TPM can't be read")
            }
            Self::Ahead => f.write_str(
                "the header is far newer than the TPM's counter, which must be that of another volume",
            ),
            Self::Untold { changes } => write!(
                f,
                "the TPM's counter has not been told of the last {changes} changes of the header, which is not changed again before it is"
            ),
            Self::NotLuks2 => f.write_str(
                "a header policy, a trusted store of a pinned header and an identifier of the volume key are for LUKS2 volumes",
            ),
        }
    }
}

/// The subkey under which headers of a volume are pinned.
pub(super) struct PinKey {
    key: SecretArray<32>,
    /// Of the volume key.
    pub(super) id: VolumeKeyId,
}

impl Clone for PinKey {
    fn clone(&self) -> Self {
        Self { key: SecretArray::new(*self.key), id: self.id }
    }
}

impl fmt::Debug for PinKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PinKey")
    }
}

/// HKDF-SHA256 (RFC 5869) without a salt: its first 32 bytes.
fn subkey(key: &[u8], info: &[u8]) -> SecretArray<32> {
    Prf::extract(&[0; 32], key).whole(&[info, &[1]])
}

impl PinKey {
    fn of(key: &VolumeKey) -> Self {
        Self { key: subkey(key.expose(), b"atrest pinned header 1"), id: VolumeKeyId::of(key) }
    }

    fn mac(&self, pin: &Pin, header: &Header, id: u32) -> [u8; 32] {
        *Prf::once(&self.key, &[&pin.authenticated(header, id)])
    }

    /// The mark of each field, by its object.
    fn marks(&self, header: &Header, id: u32) -> Marks {
        let mut marks = Marks::new();
        for field in header.fields(Some(id)) {
            let mark = self.mark(&field.path, &field.value);
            marks.entry(field.object().into()).or_default().push(mark);
        }
        marks
    }

    fn mark(&self, path: &str, value: &str) -> [u8; MARK_LEN] {
        let whole = Prf::once(&self.key, &[b"mark\0", path.as_bytes(), b"\0", value.as_bytes()]);
        // cannot be less: a MAC has 32 bytes.
        whole.first_chunk().copied().unwrap_or_default()
    }

    /// Checks the pin of a header, if it has one.
    fn check(&self, header: &Header) -> Result<(), PinError> {
        let Some((id, pin)) = Pin::of(&header.metadata).map_err(PinError::Token)? else { return Ok(()) };
        match constant_time_eq(&self.mac(&pin, header, id), &pin.mac) {
            true => Ok(()),
            false => Err(PinError::Changed { fields: self.differences(header, id, &pin) }),
        }
    }

    /// What the header says otherwise than when it was pinned, as far as the marks tell.
    fn differences(&self, header: &Header, id: u32, pin: &Pin) -> Vec<String> {
        let mut before = pin.marks.clone();
        let mut changed = Vec::new();
        for field in header.fields(Some(id)) {
            let mark = self.mark(&field.path, &field.value);
            let marks = before.get_mut(field.object());
            let known = marks.is_some_and(|marks| {
                let at = marks.iter().position(|one| *one == mark);
                at.map(|at| marks.swap_remove(at)).is_some()
            });
            if changed.len() == MOST_DIFFERENCES {
                changed.push("and more".into());
                return changed;
            }
            if !known {
                let what = if pin.marks.contains_key(field.object()) { "is now" } else { "is new:" };
                changed.push(shown(&format!("{} {what} {}", field.path, field.value)));
            }
        }
        let now = self.marks(header, id);
        for (object, left) in &before {
            if !left.is_empty() && !now.contains_key(object) {
                changed.push(shown(&format!("{object} is gone")));
            } else if !left.is_empty() && !changed.iter().any(|field| field.starts_with(object.as_str())) {
                changed.push(shown(&format!("a field of {object} is gone")));
            }
        }
        changed
    }

    /// The header with its pin renewed: one change later than the pin `before`.
    fn renewed(&self, mut header: Header, id: u32, before: u64) -> Result<Header, ChangeError> {
        let counter = before.checked_add(1).ok_or(ChangeError::SequenceExhausted)?;
        let mut pin =
            Pin { counter, policy: HeaderPolicy::of(&header), marks: self.marks(&header, id), mac: [0; 32] };
        pin.mac = self.mac(&pin, &header, id);
        let text = pin.to_json();
        header.metadata = header.metadata.with_token(id, &text).map_err(ChangeError::Header)?;
        Ok(header)
    }
}

/// What a header says, for people: no control characters, and not without end.
fn shown(text: &str) -> String {
    text.chars().take(160).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// How a header is to be pinned.
#[derive(Clone, Debug, Default)]
pub struct NewPin {
    /// As it is now, although it was pinned otherwise.
    pub accept: bool,
    /// The number that a trusted store has seen, or 0: that of the pin is larger.
    pub beyond: u64,
    /// The counter of a TPM that is to say from now on how new the header is. Without it the header names the one that it named before.
    pub counter: Option<NewPinCounter>,
}

/// What came of pinning a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Number of the token.
    pub token: u32,
    /// What the header says, for a file beside the volume: with the identifier of the key and the counter.
    pub policy: HeaderPolicy,
    /// Identifier of the volume key.
    pub key: VolumeKeyId,
    /// How often it was pinned and changed.
    pub counter: u64,
}

impl Luks2 {
    /// Whether there is a token of a pinned header, whatever is in it.
    pub fn is_pinned(&self) -> bool {
        self.metadata().tokens().iter().any(|token| token.kind == PIN_TOKEN)
    }

    /// Checks what the header says by the policy, before a key is asked for.
    ///
    /// # Errors
    /// [`UnlockError::HeaderPolicy`] with the first field that says what is not allowed, [`UnlockError::Pin`] if a pin is missing or
    /// older than the policy or the trusted store has seen one.
    pub fn check_policy(&self, options: &UnlockOptions) -> Result<(), UnlockError> {
        if let Some(seen) = &options.seen {
            self.check_seen(seen).map_err(UnlockError::Pin)?;
        }
        let Some(policy) = &options.policy else { return Ok(()) };
        policy.check(&self.pair.header).map_err(UnlockError::HeaderPolicy)?;
        let Some(least) = policy.pinned else { return Ok(()) };
        let pin = Pin::of(self.metadata()).map_err(|fault| UnlockError::Pin(PinError::Token(fault)))?;
        match pin {
            None => Err(UnlockError::Pin(PinError::Missing)),
            Some((_, pin)) if pin.counter < least => {
                Err(UnlockError::Pin(PinError::Older { counter: pin.counter, least }))
            }
            Some(_) => Ok(()),
        }
    }

    /// Checks that the header is as it was pinned, with the key that it led to. One that is not pinned passes.
    ///
    /// # Errors
    /// [`UnlockError::Pin`].
    pub fn check_pin(&self, key: &VolumeKey) -> Result<(), UnlockError> {
        match self.is_pinned() {
            true => PinKey::of(key).check(&self.pair.header).map_err(UnlockError::Pin),
            false => Ok(()),
        }
    }

    /// Checks all that the volume key is needed for: which key is expected, and the pin.
    pub(super) fn check_by_key(&self, key: &VolumeKey, options: &UnlockOptions) -> Result<(), UnlockError> {
        options.check_key(key)?;
        if let Some(seen) = &options.seen {
            self.check_record(key, seen)?;
        }
        self.check_pin(key)
    }

    /// Takes the key under which the header is pinned, so that changes renew the pin. Without it a pinned header is not changed.
    ///
    /// # Errors
    /// [`UnlockError`] if the credential does not open the volume, or the header is not as it was pinned.
    pub fn authorize(&mut self, header: &dyn Media, credential: Credential<'_>) -> Result<(), UnlockError> {
        let key = match credential {
            Credential::Passphrase(passphrase, slot) => self.volume_key(header, passphrase, slot)?.1,
            Credential::VolumeKey(key) => {
                self.check_volume_key(key)?;
                self.check_pin(key)?;
                VolumeKey::copy_from(key.expose())
            }
        };
        self.pin = Some(PinKey::of(&key));
        Ok(())
    }

    /// The volume key by which a pin is renewed must be this one, which a trusted store has seen.
    pub fn expect(&mut self, key: VolumeKeyId) {
        self.expected = Some(key);
    }

    /// The identifier of the volume key that was shown.
    pub fn authorized_key(&self) -> Option<VolumeKeyId> {
        self.pin.as_ref().map(|pin| pin.id)
    }

    /// Whether [`authorize`](Self::authorize) was called.
    pub fn is_authorized(&self) -> bool {
        self.pin.is_some()
    }

    /// Pins the header as it is.
    ///
    /// # Errors
    /// [`ChangeError::Unlock`] if the key is not that of the volume, or without `accept` if the header is not as it was pinned.
    /// [`ChangeError::ChangedMeanwhile`] if it is not the one that was read. Otherwise as all [changes of a
    /// header](crate::LockedVolume::add_key).
    pub fn pin(&mut self, header: &dyn Media, key: &VolumeKey, new: &NewPin) -> Result<Pinned, ChangeError> {
        let mut session = Session::begin(self, header)?;
        // What was shown to somebody is what is pinned.
        if session.volume.pair.header.fields(None) != self.pair.header.fields(None) {
            return Err(ChangeError::ChangedMeanwhile);
        }
        session.volume.check_volume_key(key)?;
        if !new.accept {
            session.volume.check_pin(key)?;
        }
        let metadata = session.metadata();
        let pins = metadata.tokens().iter().filter(|token| token.kind == PIN_TOKEN);
        let ids: Vec<u32> = pins.map(|token| token.id).collect();
        // intended: one that can't be read counts from the beginning.
        let before = Pin::of(metadata).ok().flatten().map_or(0, |(_, pin)| pin.counter).max(new.beyond);
        let id = ids.first().copied().or_else(|| metadata.free_token()).ok_or(ChangeError::TokenInUse)?;
        let mut next = metadata.clone();
        for other in ids.iter().filter(|other| **other != id) {
            next = next.without_token(*other).map_err(ChangeError::Header)?;
        }
        if let Some(counter) = &new.counter {
            let number = before.checked_add(1).ok_or(ChangeError::SequenceExhausted)?;
            let token = counter.token(number).ok_or(ChangeError::SequenceExhausted)?;
            next = with_counter(&next, &token, id)?;
        }
        let pin = PinKey::of(key);
        session.leave_pin();
        let unpinned = session.next(next)?;
        let mut next = pin.renewed(unpinned, id, before)?;
        // The size of a policy's list does not depend on the token itself: once is enough.
        next = session.fitting(next)?;
        let mut policy = HeaderPolicy::of(&next);
        session.commit(next)?;
        session.volume.pin = Some(pin);
        session.finish(self);
        let key = VolumeKeyId::of(key);
        // cannot overflow: `renewed` has counted so far.
        let counter = before.saturating_add(1);
        (policy.key, policy.pinned) = (Some(key.to_string()), Some(counter));
        Ok(Pinned { token: id, policy, key, counter })
    }
}

/// The metadata with the token of a counter in the place of those that are there. `pin` is the number that the pin will have.
fn with_counter(metadata: &Metadata, token: &CounterToken, pin: u32) -> Result<Metadata, ChangeError> {
    let counters = metadata.tokens().iter().filter(|token| token.kind == COUNTER_TOKEN);
    let ids: Vec<u32> = counters.map(|token| token.id).collect();
    let mut next = metadata.clone();
    for id in &ids {
        next = next.without_token(*id).map_err(ChangeError::Header)?;
    }
    let taken = |id: &u32| *id != pin && next.tokens().iter().all(|token| token.id != *id);
    let id = (0..TOKENS).find(taken).ok_or(ChangeError::TokenInUse)?;
    next.with_token(id, &token.to_json()).map_err(ChangeError::Header)
}

impl Session<'_> {
    /// The header with its pin renewed, if the header that is there is pinned and the new one is, too.
    ///
    /// # Errors
    /// [`ChangeError::Pinned`] if nobody has shown the key for it, [`ChangeError::Unlock`] if what is there is not as it was pinned.
    pub(super) fn with_pin(&self, header: Header) -> Result<Header, ChangeError> {
        let still = header.metadata.tokens().iter().any(|token| token.kind == PIN_TOKEN);
        if self.leaves_pin || !self.volume.is_pinned() || !still {
            return Ok(header);
        }
        let key = self.volume.pin.as_ref().ok_or(ChangeError::Pinned)?;
        let refused = |error| ChangeError::Unlock(UnlockError::Pin(error));
        if let Some(expected) = self.volume.expected.filter(|expected| *expected != key.id) {
            let (expected, found) = (expected.to_string(), key.id.to_string());
            return Err(ChangeError::Unlock(UnlockError::OtherVolumeKey { expected, found }));
        }
        key.check(&self.volume.pair.header).map_err(refused)?;
        let pin = Pin::of(self.metadata()).map_err(|fault| refused(PinError::Token(fault)))?;
        // cannot be none: it is pinned.
        let (id, pin) = pin.ok_or(ChangeError::Pinned)?;
        key.renewed(header, id, pin.counter)
    }

    /// Takes the key of the data for that of the pin.
    pub(super) fn show_key(&mut self, key: &VolumeKey) {
        self.volume.pin = Some(PinKey::of(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By Python's `hmac`, after RFC 5869, section 2.
    #[test]
    fn subkeys_and_identifiers_are_those_of_hkdf() {
        let key = VolumeKey::copy_from(&[7; 64]);
        assert_eq!(VolumeKeyId::of(&key).to_string(), "7810497df107a043a8f922a14e772e44");
        let pin: String = PinKey::of(&key).key.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(pin, "9a06ee2ba9247b7b583d5abab7d4fc8cff529fa64f6b368c5a77ecb7cd019738");
        // RFC 5869, test case 3: no salt, no info.
        let okm = subkey(&[0x0b; 22], b"");
        let start =
            [0x8d, 0xa4, 0xe7, 0x75, 0xa5, 0x63, 0xc1, 0x8f, 0x71, 0x5f, 0x80, 0x2a, 0x06, 0x3c, 0x5a, 0x31];
        assert_eq!(okm[..16], start);
    }

    #[test]
    fn an_identifier_is_read_as_it_is_printed() {
        let id = VolumeKeyId::of(&VolumeKey::copy_from(b"a key"));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().to_uppercase().parse(), Ok(id));
        for bad in ["", "00", &"0".repeat(31), &"0".repeat(33), &"g".repeat(32), &"é".repeat(16)] {
            assert_eq!(bad.parse::<VolumeKeyId>(), Err(BadVolumeKeyId), "{bad}");
        }
    }
}
