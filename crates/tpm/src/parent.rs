//! The key above a sealed object: a primary key made from a template, or one that the TPM keeps.

use atrest_codec::Reader;
use atrest_kdf::{Hash, digest};
use p256::PublicKey;
use p256::elliptic_curve::sec1::FromSec1Point;

use crate::commands::{self, OWNER, algorithm};
use crate::exchange::Auth;
use crate::wire::{Bytes, sized};
use crate::{Tpm, TpmError};

/// Where systemd and others keep the storage root key.
pub(crate) const STORAGE_ROOT: u32 = 0x8100_0001;

/// fixedTPM, fixedParent, sensitiveDataOrigin, userWithAuth, restricted, decrypt.
const STORAGE: u32 = 0x0003_0072;
/// Those and noDA, as TCG's templates for storage root keys have it.
const STORAGE_NO_DA: u32 = 0x0003_0472;
/// What a key must have that was made in this TPM and never leaves it: all but userWithAuth.
const OWN: u32 = 0x0003_0032;

/// How a primary key is made. The same template always makes the same key, until the TPM is cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Template {
    /// P-256: what systemd took before 254, and clevis and tpm2-tools take, with the hash of its name.
    Ecc(Hash),
    /// RSA of 2048 bits, where the TPM has no curves.
    Rsa(Hash),
    /// TCG's storage root key on P-256 (template L-2).
    StorageRoot,
}

impl Template {
    fn public(self) -> Result<Vec<u8>, TpmError> {
        let (kind, hash, attributes) = match self {
            Self::Ecc(hash) => (algorithm::ECC, hash, STORAGE),
            Self::Rsa(hash) => (algorithm::RSA, hash, STORAGE),
            Self::StorageRoot => (algorithm::ECC, Hash::Sha256, STORAGE_NO_DA),
        };
        let public = Bytes::default().u16(kind).u16(hash_number(hash)?).u32(attributes).u16(0);
        let public = public.u16(algorithm::AES).u16(128).u16(algorithm::CFB).u16(algorithm::NULL);
        Ok(match kind {
            algorithm::RSA => public.u16(2048).u32(0).u16(0).0,
            // The curve P-256, no derivation, and a point that is left open.
            _ => public.u16(3).u16(algorithm::NULL).u16(0).u16(0).0,
        })
    }
}

/// `TPM_ALG_ID` of a hash.
pub fn hash_number(hash: Hash) -> Result<u16, TpmError> {
    match hash {
        Hash::Sha1 => Ok(4),
        Hash::Sha256 => Ok(algorithm::SHA256),
        Hash::Sha384 => Ok(0xc),
        Hash::Sha512 => Ok(0xd),
        _ => Err(TpmError::NoBank),
    }
}

/// The Name of a public area: the number of its hash, and the hash (part 1, "Names").
pub fn name_of(public: &[u8]) -> Result<Vec<u8>, TpmError> {
    let mut reader = Reader::new(public);
    let (_, number) = (reader.be16()?, reader.be16()?);
    let known = [Hash::Sha1, Hash::Sha256, Hash::Sha384, Hash::Sha512];
    let hash = known.into_iter().find(|hash| hash_number(*hash) == Ok(number)).ok_or(TpmError::Malformed)?;
    let mut name = [0; 64];
    let len = digest(hash, &[public], &mut name);
    Ok(Bytes::default().u16(number).bytes(name.get(..len).ok_or(TpmError::Malformed)?).0)
}

/// A storage key that the TPM has at hand.
#[derive(Clone, Debug)]
pub struct Parent {
    pub(crate) handle: u32,
    pub(crate) name: Vec<u8>,
    public: Vec<u8>,
    /// Its point, if it is a key on P-256.
    pub(crate) point: Option<PublicKey>,
}

impl Parent {
    fn new(handle: u32, public: &[u8]) -> Result<Self, TpmError> {
        let (name, point) = (name_of(public)?, point(public)?);
        Ok(Self { handle, name, public: public.to_vec(), point })
    }

    /// Whether it is a storage key that this TPM has made. Any other one somebody may know who brought it there.
    fn is_own(&self) -> bool {
        let mut reader = Reader::new(&self.public);
        let attributes = reader.be16().and_then(|_| reader.be16()).and_then(|_| reader.be32());
        attributes.is_ok_and(|attributes| attributes & OWN == OWN)
    }

    /// Its Name, by which it is known again.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    pub(crate) fn is_on_curve(&self) -> bool {
        self.point.is_some()
    }

    /// The handle and the public area in the form in which tpm2-tss keeps them (`ESYS_TR`), and tokens of systemd after it.
    ///
    /// # Errors
    /// [`TpmError::TooLong`].
    pub fn serialised(&self) -> Result<Vec<u8>, TpmError> {
        let bytes = Bytes::default().u32(self.handle).sized(&self.name)?.u32(1).sized(&self.public)?;
        Ok(bytes.0)
    }
}

/// The point of a storage key on P-256; `None` for a key of another kind.
fn point(public: &[u8]) -> Result<Option<PublicKey>, TpmError> {
    let mut reader = Reader::new(public);
    let (kind, _, _) = (reader.be16()?, reader.be16()?, reader.be32()?);
    sized(&mut reader)?;
    if kind != algorithm::ECC || reader.be16()? != algorithm::AES {
        return Ok(None);
    }
    let (_, _, scheme, curve, derivation) =
        (reader.be16()?, reader.be16()?, reader.be16()?, reader.be16()?, reader.be16()?);
    if (scheme, curve, derivation) != (algorithm::NULL, 3, algorithm::NULL) {
        return Ok(None);
    }
    let mut uncompressed = [0; 65];
    let [form, coordinates @ ..] = &mut uncompressed;
    *form = 4;
    for place in coordinates.as_chunks_mut::<32>().0 {
        let number = sized(&mut reader)?;
        let at = place.len().checked_sub(number.len()).ok_or(TpmError::Malformed)?;
        place.get_mut(at..).ok_or(TpmError::Malformed)?.copy_from_slice(number);
    }
    reader.finish()?;
    let point = p256::Sec1Point::from_bytes(uncompressed).map_err(|_| TpmError::Malformed)?;
    // Off the curve, or infinity: nobody's key.
    PublicKey::from_sec1_point(&point).into_option().map(Some).ok_or(TpmError::Malformed)
}

impl Tpm {
    /// Makes a primary key of the owner from a template.
    ///
    /// # Errors
    /// [`TpmError::OwnerAuth`] if the owner has a password; otherwise as all commands: the TPM can't be reached, or its answer makes no sense.
    pub fn create_primary(&mut self, template: Template) -> Result<Parent, TpmError> {
        // No password, no data, nothing from outside, no PCRs.
        let parameters = Bytes::default().u16(4).u32(0).sized(&template.public()?)?.u16(0).u32(0).0;
        let answer = self.exchange(commands::CREATE_PRIMARY, &[OWNER], &Auth::Empty, &parameters)?;
        let public = sized(&mut Reader::new(&answer.parameters))?.to_vec();
        Parent::new(answer.handle.ok_or(TpmError::Malformed)?, &public)
    }

    /// A key that the TPM keeps, which must have this Name.
    ///
    /// # Errors
    /// [`TpmError::NoSuchKey`]; [`TpmError::OtherParent`] if it has another name; otherwise as all commands.
    pub fn persistent(&mut self, handle: u32, name: Option<&[u8]>) -> Result<Parent, TpmError> {
        let answer = self.exchange(commands::READ_PUBLIC, &[handle], &Auth::Nobody, &[]);
        let answer = answer.map_err(|error| match error {
            // TPM_RC_HANDLE and TPM_RC_VALUE of the first handle
            TpmError::Code { code: 0x18b | 0x184, .. } => TpmError::NoSuchKey { handle },
            other => other,
        })?;
        let public = sized(&mut Reader::new(&answer.parameters))?.to_vec();
        let parent = Parent::new(handle, &public)?;
        match name.is_none_or(|name| name == parent.name) {
            true => Ok(parent),
            false => Err(TpmError::OtherParent),
        }
    }

    /// The key that a [serialised](Parent::serialised) one names, if the TPM has the same.
    ///
    /// # Errors
    /// [`TpmError::Malformed`], and those of [`Tpm::persistent`].
    pub fn persistent_as(&mut self, serialised: &[u8]) -> Result<Parent, TpmError> {
        let mut reader = Reader::new(serialised);
        let handle = reader.be32()?;
        let name = sized(&mut reader)?.to_vec();
        self.persistent(handle, Some(&name))
    }

    /// The storage root key, which is made and kept if the TPM has none yet.
    ///
    /// # Errors
    /// [`TpmError::ForeignKey`] if there is another kind of key in its place; those of [`Tpm::persistent`] and [`Tpm::create_primary`].
    pub fn storage_root(&mut self) -> Result<Parent, TpmError> {
        match self.persistent(STORAGE_ROOT, None) {
            Err(TpmError::NoSuchKey { .. }) => {}
            Ok(found) if !found.is_own() => return Err(TpmError::ForeignKey { handle: STORAGE_ROOT }),
            found => return found,
        }
        let made = self.create_primary(Template::StorageRoot)?;
        let handles = [OWNER, made.handle];
        let place = STORAGE_ROOT.to_be_bytes();
        self.exchange(commands::EVICT_CONTROL, &handles, &Auth::Empty, &place)?;
        self.flush(made.handle)?;
        self.persistent(STORAGE_ROOT, Some(&made.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_off_the_curve_is_nobodys_key() {
        let mut public = Template::StorageRoot.public().expect("a template");
        public.truncate(public.len() - 4);
        // The generator of P-256 (SEC 2, section 2.4.2), and a point beside it.
        let x = "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296";
        let y = "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5";
        let hex = |text: &str| -> Vec<u8> {
            (0..32).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hex")).collect()
        };
        let with =
            |x: &[u8], y: &[u8]| Bytes(public.clone()).sized(x).expect("short").sized(y).expect("short").0;
        assert!(matches!(point(&with(&hex(x), &hex(y))), Ok(Some(_))));
        let mut beside = hex(y);
        beside[31] ^= 1;
        assert_eq!(point(&with(&hex(x), &beside)), Err(TpmError::Malformed));
        assert_eq!(point(&with(&[], &[])), Err(TpmError::Malformed));
        assert_eq!(point(&with(&[1; 33], &hex(y))), Err(TpmError::Malformed));
    }
}
