//! Counters in the TPM's own memory (part 1, "NV Counters"): they only rise, whoever may write them.
//!
//! A new counter begins above the highest that the TPM ever had. So it does not help to remove one and to make it again.

use atrest_codec::Reader;
use atrest_kdf::{Hash, digest};
use atrest_secret::SecretArray;

use crate::commands::{self, OWNER, algorithm};
use crate::exchange::Auth;
use crate::parent::STORAGE_ROOT;
use crate::session::{InSession, Kind, Session};
use crate::wire::{Bytes, sized};
use crate::{Parent, Tpm, TpmError};

/// What TCG's registry leaves to the owner of a TPM.
const PLACES: core::ops::RangeInclusive<u32> = 0x0180_0000..=0x01bf_ffff;

/// A counter, that an empty password reads and raises, and at which nobody guesses (`TPMA_NV`).
const COUNTER: u32 = 0x10 | 0x4 | 0x0004_0000 | 0x0200_0000;
/// It has been raised once, which makes it readable.
const WRITTEN: u32 = 0x2000_0000;
/// Bytes of its value.
const LEN: u16 = 8;

/// The place of a counter.
///
/// What is there is always the same to the last bit, and so is its Name. A TPM answers in a session for nothing that has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter(u32);

impl Counter {
    /// The counter at an index.
    ///
    /// # Errors
    /// [`TpmError::BadIndex`] if it is none of those that belong to the owner.
    pub fn at(index: u32) -> Result<Self, TpmError> {
        match PLACES.contains(&index) {
            true => Ok(Self(index)),
            false => Err(TpmError::BadIndex { index }),
        }
    }

    /// Its index.
    pub fn index(self) -> u32 {
        self.0
    }

    /// `TPMS_NV_PUBLIC`: no policy.
    fn public(self, attributes: u32) -> Vec<u8> {
        Bytes::default().u32(self.0).u16(algorithm::SHA256).u32(attributes).u16(0).u16(LEN).0
    }

    /// The Name of what is there: the number of the hash, and the hash.
    fn name(self) -> Vec<u8> {
        let mut name = [0; 32];
        digest(Hash::Sha256, &[&self.public(COUNTER | WRITTEN)], &mut name);
        Bytes::default().u16(algorithm::SHA256).bytes(&name).0
    }

    fn meant(self, error: TpmError) -> TpmError {
        let index = self.0;
        match error {
            // TPM_RC_HANDLE and TPM_RC_VALUE of a handle
            TpmError::Code { code: 0x18b | 0x28b | 0x184 | 0x284, .. } => TpmError::NoCounter { index },
            // The Name is another one: TPM_RC_AUTH_FAIL and TPM_RC_BAD_AUTH. Not written: TPM_RC_NV_UNINITIALIZED.
            TpmError::Code { code: 0x98e | 0x9a2 | 0x14a, .. } => TpmError::NotOurCounter { index },
            other => other,
        }
    }
}

impl Tpm {
    /// Whether a counter is there, without making one. Nothing proves the answer.
    ///
    /// # Errors
    /// [`TpmError::NotOurCounter`] if something else is there; otherwise as all commands.
    pub fn has_counter(&mut self, counter: Counter) -> Result<bool, TpmError> {
        match self.public_of(counter).map_err(|error| counter.meant(error)) {
            Ok(public) if public == counter.public(COUNTER | WRITTEN) => Ok(true),
            // Whoever made it was interrupted.
            Ok(public) if public == counter.public(COUNTER) => Ok(false),
            Ok(_) => Err(TpmError::NotOurCounter { index: counter.0 }),
            Err(TpmError::NoCounter { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes a counter, or finds the one that is there: whether it is new. What is there may be somebody's who uses it for another volume.
    ///
    /// # Errors
    /// [`TpmError::NotOurCounter`] if something else is there, [`TpmError::NoRoom`], [`TpmError::OwnerAuth`]; otherwise as all commands.
    pub fn make_counter(&mut self, counter: Counter) -> Result<bool, TpmError> {
        let parameters = Bytes::default().u16(0).sized(&counter.public(COUNTER))?.0;
        match self.exchange(commands::NV_DEFINE_SPACE, &[OWNER], &Auth::Empty, &parameters) {
            Ok(_) => {}
            // TPM_RC_NV_DEFINED
            Err(TpmError::Code { code: 0x14c, .. }) => match self.public_of(counter)? {
                public if public == counter.public(COUNTER | WRITTEN) => return Ok(false),
                // Whoever made it was interrupted.
                public if public == counter.public(COUNTER) => {}
                _ => return Err(TpmError::NotOurCounter { index: counter.0 }),
            },
            // TPM_RC_NV_SPACE
            Err(TpmError::Code { code: 0x14b, .. }) => return Err(TpmError::NoRoom),
            Err(error) => return Err(error),
        }
        let handles = [counter.0, counter.0];
        self.exchange(commands::NV_INCREMENT, &handles, &Auth::Empty, &[]).map(|_| true)
    }

    /// The storage root key, if it has this Name: what [`Parent::name`] told when the counter was made.
    ///
    /// # Errors
    /// Those of [`Tpm::persistent`]: [`TpmError::OtherParent`] in another TPM, and in this one after it was cleared.
    pub fn storage_root_named(&mut self, name: &[u8]) -> Result<Parent, TpmError> {
        self.persistent(STORAGE_ROOT, Some(name))
    }

    /// How far a counter is. The TPM that has the storage key proves that it says so now.
    ///
    /// # Errors
    /// [`TpmError::NoCounter`], [`TpmError::NotOurCounter`]; [`TpmError::Tampered`] if the answer was changed; [`TpmError::NoCurve`] if
    /// the storage key is not on P-256; otherwise as all commands.
    pub fn counter(&mut self, counter: Counter, parent: &Parent) -> Result<u64, TpmError> {
        let rest = Bytes::default().u16(LEN).u16(0).0;
        let answer = self.on_counter(counter, parent, |tpm, session| {
            tpm.ask_counter(session, commands::NV_READ, counter, &rest)
        })?;
        let mut reader = Reader::new(&answer);
        let value = sized(&mut reader)?.try_into().map_err(|_| TpmError::Malformed)?;
        reader.finish()?;
        Ok(u64::from_be_bytes(value))
    }

    /// Raises a counter this many times, in one session. A TPM that slows its writes down may be busy before each.
    ///
    /// # Errors
    /// As [`Tpm::counter`].
    pub fn raise_counter(&mut self, counter: Counter, parent: &Parent, times: u64) -> Result<(), TpmError> {
        self.on_counter(counter, parent, |tpm, session| {
            for _ in 0..times {
                tpm.may_be_busy_again();
                match tpm.ask_counter(session, commands::NV_INCREMENT, counter, &[])?[..] {
                    [] => {}
                    _ => return Err(TpmError::Malformed),
                }
            }
            Ok(())
        })
    }

    fn on_counter<T>(
        &mut self,
        counter: Counter,
        parent: &Parent,
        ask: impl FnOnce(&mut Self, &mut Session) -> Result<T, TpmError>,
    ) -> Result<T, TpmError> {
        if !parent.is_on_curve() {
            // A session would be salted to a key whose Name nobody knows.
            return Err(TpmError::NoCurve);
        }
        let mut session = self.start_session(Kind::Hmac, parent)?;
        let answer = ask(self, &mut session);
        self.flush(session.handle)?;
        answer.map_err(|error| counter.meant(error))
    }

    fn ask_counter(
        &mut self,
        session: &mut Session,
        code: u32,
        counter: Counter,
        rest: &[u8],
    ) -> Result<Vec<u8>, TpmError> {
        let name = counter.name();
        // It is read and raised by its own password, which is empty.
        let objects = &[(counter.0, &name[..]); 2];
        let auth = &SecretArray::zeroed();
        let command = InSession { code, objects, auth, secret: None, rest, answers_secret: false };
        self.proven(session, command).map(|(parameters, _)| parameters)
    }

    fn public_of(&mut self, counter: Counter) -> Result<Vec<u8>, TpmError> {
        let answer = self.exchange(commands::NV_READ_PUBLIC, &[counter.0], &Auth::Nobody, &[])?;
        Ok(sized(&mut Reader::new(&answer.parameters))?.to_vec())
    }
}
