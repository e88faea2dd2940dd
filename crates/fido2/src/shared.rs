//! The key that is agreed on with a security key, and what is encrypted under it (CTAP 2.1, sections 6.5.6 and 6.5.7).

use aes::Aes256;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use atrest_kdf::{Hash, Prf, digest};
use atrest_secret::{OsRandom, Random, SecretArray, SecretBytes, with_wiped_stack};
use p256::elliptic_curve::point::AffineCoordinates;
use p256::elliptic_curve::sec1::FromSec1Point;
use p256::elliptic_curve::zeroize::Zeroize;
use p256::{NonZeroScalar, PublicKey, Sec1Point};

use crate::Fido2Error;
use crate::cbor::{Value, Writer};

const BAD: Fido2Error = Fido2Error::Malformed;

/// Bytes of a cipher block.
const BLOCK: usize = 16;

/// How a key is agreed on, and what is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    One,
    Two,
}

impl Protocol {
    pub fn numbered(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::One),
            2 => Some(Self::Two),
            _ => None,
        }
    }

    pub fn number(self) -> u8 {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }

    /// A tag over a message under a key. The first protocol cuts it off.
    pub fn tag(self, key: &SecretArray<32>, message: &[u8]) -> Vec<u8> {
        let whole = Prf::once(key, &[message]);
        let len = if self == Self::One { 16 } else { 32 };
        whole.iter().take(len).copied().collect()
    }
}

/// The keys that are shared, and our point, from which the security key derives them.
pub struct Shared {
    pub protocol: Protocol,
    mac: SecretArray<32>,
    cipher: SecretArray<32>,
    x: [u8; 32],
    y: [u8; 32],
}

impl Shared {
    /// Agrees on keys with whoever has this point.
    pub fn agree(protocol: Protocol, theirs: &PublicKey) -> Result<Self, Fido2Error> {
        let mut scalar = SecretArray::<32>::zeroed();
        OsRandom.fill(&mut *scalar)?;
        Self::by(protocol, theirs, &scalar)
    }

    fn by(protocol: Protocol, theirs: &PublicKey, scalar: &SecretArray<32>) -> Result<Self, Fido2Error> {
        let zeroed = SecretArray::zeroed;
        let mut shared = Self { protocol, mac: zeroed(), cipher: zeroed(), x: [0; 32], y: [0; 32] };
        with_wiped_stack(|| shared.derive(theirs, scalar))?;
        Ok(shared)
    }

    fn derive(&mut self, theirs: &PublicKey, scalar: &SecretArray<32>) -> Result<(), Fido2Error> {
        // One in 2^32 is not below the order of the curve.
        let mut scalar =
            NonZeroScalar::from_repr((**scalar).into()).into_option().ok_or(Fido2Error::NoRandom)?;
        let ours = Sec1Point::from(PublicKey::from_secret_scalar(&scalar));
        let mut z = (theirs.to_projective() * *scalar).to_affine().x();
        scalar.zeroize();
        match self.protocol {
            Protocol::One => {
                digest(Hash::Sha256, &[&z], &mut *self.mac);
                self.cipher.iter_mut().zip(self.mac.iter()).for_each(|(to, from)| *to = *from);
            }
            Protocol::Two => {
                let prf = Prf::extract(&[0; 32], &z);
                self.mac = prf.expand(&[b"CTAP2 HMAC key"]);
                self.cipher = prf.expand(&[b"CTAP2 AES key"]);
            }
        }
        z.zeroize();
        let (Some(x), Some(y)) = (ours.x(), ours.y()) else { return Err(BAD) };
        self.x = (*x).into();
        self.y = (*y).into();
        Ok(())
    }

    /// Our point as a COSE key, which follows in a map.
    pub fn point(&self, writer: Writer) -> Writer {
        let writer = writer.map(5).unsigned(1).unsigned(2).unsigned(3).negative(24).negative(0).unsigned(1);
        writer.negative(1).bytes(&self.x).negative(2).bytes(&self.y)
    }

    /// Encrypts whole cipher blocks.
    pub fn encrypt(&self, data: &[u8]) -> Result<Vec<u8>, Fido2Error> {
        let mut iv = [0; BLOCK];
        if self.protocol == Protocol::Two {
            OsRandom.fill(&mut iv)?;
        }
        Ok(self.encrypt_after(iv, data))
    }

    fn encrypt_after(&self, iv: [u8; BLOCK], data: &[u8]) -> Vec<u8> {
        let mut out = if self.protocol == Protocol::Two { iv.to_vec() } else { Vec::new() };
        with_wiped_stack(|| {
            let cipher = Aes256::new((&*self.cipher).into());
            let mut before = iv;
            for block in data.as_chunks::<BLOCK>().0 {
                for (byte, from) in before.iter_mut().zip(block) {
                    *byte ^= from;
                }
                cipher.encrypt_block((&mut before).into());
                out.extend_from_slice(&before);
            }
        });
        out
    }

    /// Decrypts what the security key has encrypted.
    pub fn decrypt(&self, data: &[u8]) -> Result<SecretBytes, Fido2Error> {
        let (iv, blocks) = match (self.protocol, data.as_chunks::<BLOCK>()) {
            (Protocol::One, (blocks, [])) => (&[0; BLOCK], blocks),
            (Protocol::Two, ([iv, blocks @ ..], [])) => (iv, blocks),
            _ => return Err(BAD),
        };
        let mut out = SecretBytes::zeroed(blocks.len() * BLOCK);
        with_wiped_stack(|| {
            let cipher = Aes256::new((&*self.cipher).into());
            let befores = core::iter::once(iv).chain(blocks);
            for ((to, from), before) in out.as_chunks_mut::<BLOCK>().0.iter_mut().zip(blocks).zip(befores) {
                *to = *from;
                cipher.decrypt_block(to.into());
                for (byte, mask) in to.iter_mut().zip(before) {
                    *byte ^= mask;
                }
            }
        });
        Ok(out)
    }

    /// A tag over a message under the shared key.
    pub fn tag(&self, message: &[u8]) -> Vec<u8> {
        self.protocol.tag(&self.mac, message)
    }
}

/// The point of a COSE key (RFC 9053, section 7.1) on P-256: on the curve, and not infinity.
pub fn point(key: &Value<'_>) -> Result<PublicKey, Fido2Error> {
    let number = |name: Value<'_>| key.under(&name);
    if number(Value::Unsigned(1)) != Some(&Value::Unsigned(2))
        || number(Value::Negative(0)) != Some(&Value::Unsigned(1))
    {
        return Err(BAD);
    }
    let coordinate = |name: u64| {
        key.under(&Value::Negative(name)).and_then(Value::bytes).filter(|bytes| bytes.len() == 32)
    };
    let (x, y) = (coordinate(1).ok_or(BAD)?, coordinate(2).ok_or(BAD)?);
    let point = Sec1Point::from_bytes([&[4][..], x, y].concat()).map_err(|_| BAD)?;
    PublicKey::from_sec1_point(&point).into_option().ok_or(BAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn shared(protocol: Protocol) -> Shared {
        // The generator of P-256 (SEC 2, section 2.4.2) is the point of whoever has the number one.
        let one = NonZeroScalar::from_repr({
            let mut one = [0; 32];
            one[31] = 1;
            one.into()
        });
        let generator = PublicKey::from_secret_scalar(&one.into_option().expect("one"));
        let mut scalar = SecretArray::zeroed();
        scalar[31] = 2;
        Shared::by(protocol, &generator, &scalar).expect("a key")
    }

    /// Of the double of the generator, by Python's hashlib and openssl.
    #[test]
    fn keys_are_derived_as_both_protocols_want_it() {
        let one = shared(Protocol::One);
        assert_eq!(hex(&one.x), "7cf27b188d034f7e8a52380304b51ac3c08969e277f21b35a60b48fc47669978");
        assert_eq!(hex(&*one.mac), ONE);
        assert_eq!(hex(&*one.cipher), ONE);
        let two = shared(Protocol::Two);
        assert_eq!(hex(&*two.mac), TWO_MAC);
        assert_eq!(hex(&*two.cipher), TWO_CIPHER);
        assert_eq!(hex(&two.tag(b"message")), TAG);
        assert_eq!(hex(&two.encrypt_after([7; 16], &[5; 32])), format!("{}{ENCRYPTED}", "07".repeat(16)));
        let encrypted = two.encrypt_after([7; 16], &[5; 32]);
        assert_eq!(*two.decrypt(&encrypted).expect("two blocks"), [5; 32]);
        assert_eq!(two.encrypt(&[5; 32]).expect("random").len(), 48);
        assert_ne!(two.encrypt(&[5; 32]), two.encrypt(&[5; 32]), "each has an IV of its own");
        assert_eq!(hex(&one.encrypt(&[5; 32]).expect("two blocks")), FIRST);
        assert_eq!(*one.decrypt(&one.encrypt(&[5; 32]).expect("two blocks")).expect("two blocks"), [5; 32]);
        assert_eq!(one.tag(b"message").len(), 16);
        for bad in [&[][..], &[0; 15], &[0; 33]] {
            assert!(two.decrypt(bad).is_err());
        }
    }

    #[test]
    fn a_key_that_is_no_point_is_refused() {
        let written = shared(Protocol::One).point(Writer::default()).0;
        assert!(point(&Value::parse(&written).expect("a map")).is_ok());
        for at in [2, 6, 12, 50] {
            let mut bad = written.clone();
            bad[at] ^= 2;
            let read = Value::parse(&bad).and_then(|value| point(&value));
            assert_eq!(read.err(), Some(BAD), "{at}");
        }
    }

    const ONE: &str = "23775201799b2234a18e8071e409cec80d42632fe77534180afdc533c9b76f81";
    const TWO_MAC: &str = "64ca541c7473e4a526a447a65f24c755d6098f8341d6731894bb241e6a6bf289";
    const TWO_CIPHER: &str = "ffdd11da665666f9e5a99ba18a1cf674a4f1adf68a436bf9d7f219980910e877";
    const TAG: &str = "7e191d0e84711d7452f3d7f36f4b0afa55d677b623eb0faa6388e6ae982bd1f8";
    const ENCRYPTED: &str = "e6939ef83260b7c09c5c8e93e0462be196ef6bda554b34a0358a208960d37cd7";
    const FIRST: &str = "7c36ad27a0d76670d71237deb2584f1f78b3766266fc1b3ac07fba5c8b07abc0";
}
