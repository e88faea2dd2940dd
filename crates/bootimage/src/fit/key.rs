//! RSA keys: private ones from PEM files, public ones from PEM files or the tree that U-Boot has built in.
//!
//! Signing is for a desk: the library computes with private keys in constant time and blinded, but has not been cleared of
//! RUSTSEC-2023-0071 (the Marvin attack), which needs someone who can time many signatures.

use std::fmt;

use getrandom::SysRng;
use rsa::pkcs1::{DecodeRsaPrivateKey, DecodeRsaPublicKey};
use rsa::pkcs8::{DecodePrivateKey, DecodePublicKey};
use rsa::sha2::{Sha256, Sha384, Sha512};
use rsa::signature::{RandomizedSigner, SignatureEncoding, Verifier};
use rsa::traits::PublicKeyParts;
use rsa::{BoxedUint, PrivateKey as RsaPrivateKey, PublicKey as RsaPublicKey, pkcs1v15, pss};

use crate::fdt::{Node, Tree};

use super::HashKind;

/// A key that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// No RSA key in PEM.
    Pem,
    /// A size that U-Boot does not know, in bits.
    Size(usize),
    /// A hash that signatures are not made with.
    Hash(HashKind),
    /// The library's arithmetic, or the random source.
    Failed,
    /// A tree without keys.
    NoKeys,
    /// A key of a tree has no modulus.
    NoModulus,
    /// A key of a tree has a public exponent that RSA does not have.
    Exponent(u64),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pem => f.write_str("it is no RSA key in PEM"),
            Self::Size(bits) => write!(f, "U-Boot takes RSA keys of 2048, 3072 and 4096 bits, not of {bits}"),
            Self::Hash(hash) => write!(f, "signatures are over sha256, sha384 or sha512, not over {hash}"),
            Self::Failed => f.write_str("the signature could not be computed"),
            Self::NoModulus => f.write_str("a public key of the device tree has no modulus (rsa,modulus)"),
            Self::Exponent(exponent) => {
                write!(
                    f,
                    "a public key of the device tree has the exponent {exponent}, which RSA does not have"
                )
            }
            Self::NoKeys => f.write_str("the device tree has no public keys (/signature/key-…)"),
        }
    }
}

impl std::error::Error for KeyError {}

/// How a signature is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// The hash that is signed.
    pub hash: HashKind,
    /// The key's size.
    pub bits: usize,
    /// Whether the padding is PSS instead of that of PKCS #1 1.5.
    pub pss: bool,
}

impl Scheme {
    /// From U-Boot's properties `algo` and `padding`; `None` for what is not known here, SHA-1 included.
    pub fn parse(algorithm: &str, padding: Option<&str>) -> Option<Self> {
        let (hash, cipher) = algorithm.split_once(',')?;
        let hash = HashKind::by_name(hash).filter(|hash| is_strong(*hash))?;
        let bits = cipher.strip_prefix("rsa")?.parse().ok().filter(|bits| SIZES.contains(bits))?;
        let pss = match padding {
            None | Some("pkcs-1.5") => false,
            Some("pss") => true,
            _ => return None,
        };
        Some(Self { hash, bits, pss })
    }

    /// The property `algo`.
    pub fn algorithm(&self) -> String {
        format!("{},rsa{}", self.hash, self.bits)
    }
}

const SIZES: [usize; 3] = [2048, 3072, 4096];

/// Whether nobody makes two images of this hash.
pub(super) fn is_strong(hash: HashKind) -> bool {
    matches!(hash, HashKind::Sha256 | HashKind::Sha384 | HashKind::Sha512)
}

/// A private key. The library wipes it.
pub struct PrivateKey(RsaPrivateKey);

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

impl PrivateKey {
    /// From PEM (PKCS #8 or PKCS #1, without a passphrase).
    ///
    /// # Errors
    /// [`KeyError::Pem`] if it is no RSA key in PEM, [`KeyError::Size`] for a size that U-Boot does not know.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let text = std::str::from_utf8(pem).map_err(|_| KeyError::Pem)?;
        let key = RsaPrivateKey::from_pkcs8_pem(text).or_else(|_| RsaPrivateKey::from_pkcs1_pem(text));
        let key = key.map_err(|_| KeyError::Pem)?;
        sized(&key)?;
        Ok(Self(key))
    }

    /// Its public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.to_public_key())
    }

    /// The scheme with this key.
    ///
    /// # Errors
    /// [`KeyError::Hash`] for a hash that is not SHA-256, SHA-384 or SHA-512.
    pub fn scheme(&self, hash: HashKind, pss: bool) -> Result<Scheme, KeyError> {
        if is_strong(hash) {
            Ok(Scheme { hash, bits: sized(&self.0)?, pss })
        } else {
            Err(KeyError::Hash(hash))
        }
    }

    /// Signs `message`; with PKCS #1 1.5 the same message gives the same signature.
    pub(super) fn sign(&self, scheme: Scheme, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let failed = |_| KeyError::Failed;
        let key = self.0.clone();
        macro_rules! sign {
            ($hash:ty) => {
                match scheme.pss {
                    true => pss::SigningKey::<$hash>::new(key)
                        .try_sign_with_rng(&mut SysRng, message)
                        .map_err(failed)?
                        .to_vec(),
                    false => pkcs1v15::SigningKey::<$hash>::new(key)
                        .try_sign_with_rng(&mut SysRng, message)
                        .map_err(failed)?
                        .to_vec(),
                }
            };
        }
        Ok(match scheme.hash {
            HashKind::Sha256 => sign!(Sha256),
            HashKind::Sha384 => sign!(Sha384),
            HashKind::Sha512 => sign!(Sha512),
            other => return Err(KeyError::Hash(other)),
        })
    }
}

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(RsaPublicKey);

impl PublicKey {
    /// From PEM (`PUBLIC KEY` or `RSA PUBLIC KEY`).
    ///
    /// # Errors
    /// [`KeyError::Pem`] if it is no RSA key in PEM, [`KeyError::Size`] for a size that U-Boot does not know.
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let text = std::str::from_utf8(pem).map_err(|_| KeyError::Pem)?;
        let key = RsaPublicKey::from_public_key_pem(text).or_else(|_| RsaPublicKey::from_pkcs1_pem(text));
        let key = key.map_err(|_| KeyError::Pem)?;
        sized(&key)?;
        Ok(Self(key))
    }

    /// The keys that a U-Boot with this control tree has, whether it requires them or not.
    ///
    /// # Errors
    /// [`KeyError::NoKeys`] if there is no key. [`KeyError::NoModulus`], [`KeyError::Size`],
    /// [`KeyError::Exponent`] or [`KeyError::Failed`] if one of several is none that U-Boot takes: half a set
    /// of keys is no set.
    pub fn from_tree(tree: &Tree<'_>) -> Result<Vec<Self>, KeyError> {
        // intended: a tree without keys has none.
        let nodes = tree.root.child("signature").map(|node| node.children.as_slice()).unwrap_or_default();
        let keys: Result<Vec<Self>, KeyError> = nodes.iter().map(Self::from_node).collect();
        keys.and_then(|keys| if keys.is_empty() { Err(KeyError::NoKeys) } else { Ok(keys) })
    }

    fn from_node(node: &Node<'_>) -> Result<Self, KeyError> {
        let modulus = node.property("rsa,modulus").ok_or(KeyError::NoModulus)?;
        let bits = u32::try_from(modulus.len() * 8).map_err(|_| KeyError::Size(modulus.len()))?;
        let modulus = BoxedUint::from_be_slice(modulus, bits).map_err(|_| KeyError::Failed)?;
        let exponent = node.number("rsa,exponent").unwrap_or(65537);
        let key = RsaPublicKey::new(modulus, BoxedUint::from(exponent)).map_err(|error| match error {
            rsa::Error::PublicExponentTooSmall
            | rsa::Error::PublicExponentTooLarge
            | rsa::Error::InvalidExponent => KeyError::Exponent(exponent),
            _ => KeyError::Size(bits as usize),
        })?;
        sized(&key)?;
        Ok(Self(key))
    }

    /// Adds the key to U-Boot's control tree, as `mkimage -K -r` does: images are then refused without a signature by it.
    pub fn add_to(&self, tree: &mut Tree<'_>, name: &str, scheme: Scheme) {
        let modulus = self.0.n().to_be_bytes_trimmed_vartime();
        let exponent = self.0.e().to_be_bytes_trimmed_vartime();
        let mut wide = [0; 8];
        for (to, from) in wide.iter_mut().rev().zip(exponent.iter().rev()) {
            *to = *from;
        }
        let node = tree.root.child_mut("signature").child_mut(&format!("key-{name}"));
        node.set_text("required", "conf");
        node.set_text("algo", &scheme.algorithm());
        node.set("rsa,r-squared", r_squared(&modulus));
        node.set("rsa,modulus", modulus.to_vec());
        node.set("rsa,exponent", wide.to_vec());
        node.set_u32("rsa,n0-inverse", n0_inverse(&modulus));
        // cannot fail: 2048 to 4096.
        node.set_u32("rsa,num-bits", u32::try_from(scheme.bits).unwrap_or(0));
        node.set_text("key-name-hint", name);
    }

    /// Whether `signature` is one by this key.
    pub(super) fn verifies(&self, scheme: Scheme, message: &[u8], signature: &[u8]) -> bool {
        if sized(&self.0) != Ok(scheme.bits) {
            return false;
        }
        let key = self.0.clone();
        // mkimage's salt is as long as fits, ours as long as the hash; U-Boot takes any.
        macro_rules! verify {
            ($hash:ty) => {
                match scheme.pss {
                    true => pss::Signature::try_from(signature).is_ok_and(|signature| {
                        pss::VerifyingKey::<$hash>::new_with_auto_salt_len(key)
                            .verify(message, &signature)
                            .is_ok()
                    }),
                    false => pkcs1v15::Signature::try_from(signature).is_ok_and(|signature| {
                        pkcs1v15::VerifyingKey::<$hash>::new(key).verify(message, &signature).is_ok()
                    }),
                }
            };
        }
        match scheme.hash {
            HashKind::Sha256 => verify!(Sha256),
            HashKind::Sha384 => verify!(Sha384),
            HashKind::Sha512 => verify!(Sha512),
            _ => false,
        }
    }
}

fn sized(key: &impl PublicKeyParts) -> Result<usize, KeyError> {
    let bits = key.n().bit_width() as usize;
    if SIZES.contains(&bits) { Ok(bits) } else { Err(KeyError::Size(bits)) }
}

/// 2^(2 · bits) modulo n, for Montgomery's multiplication: the bytes of 1 doubled so many times. n is public.
fn r_squared(modulus: &[u8]) -> Vec<u8> {
    let mut value = vec![0_u8; modulus.len()];
    if let Some(last) = value.last_mut() {
        *last = 1;
    }
    for _ in 0..modulus.len() * 16 {
        let mut carry = 0;
        for byte in value.iter_mut().rev() {
            let doubled = u16::from(*byte) << 1 | carry;
            *byte = doubled as u8;
            carry = doubled >> 8;
        }
        if carry != 0 || value.as_slice() >= modulus {
            let mut borrow = 0;
            for (byte, less) in value.iter_mut().rev().zip(modulus.iter().rev()) {
                let difference = i16::from(*byte) - i16::from(*less) - borrow;
                *byte = difference as u8;
                borrow = i16::from(difference < 0);
            }
        }
    }
    value
}

/// -1 / n modulo 2^32, by Newton's iteration.
fn n0_inverse(modulus: &[u8]) -> u32 {
    let low = modulus.iter().rev().take(4).rev().fold(0_u32, |value, byte| value << 8 | u32::from(*byte));
    let mut inverse = 1_u32;
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2_u32.wrapping_sub(low.wrapping_mul(inverse)));
    }
    inverse.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An odd number of 2048 bits is a modulus as far as anybody looks.
    #[test]
    fn a_key_of_a_tree_that_is_none_is_refused_by_what_is_wrong_with_it() {
        let with = |change: fn(&mut Node<'_>)| {
            let mut tree = Tree::default();
            let node = tree.root.child_mut("signature").child_mut("key-dev");
            node.set("rsa,modulus", vec![0xff; 256]);
            change(node);
            PublicKey::from_tree(&tree).map(|keys| keys.len())
        };
        assert_eq!(with(|_| {}), Ok(1));
        assert_eq!(with(|node| node.set_u32("rsa,exponent", 0)), Err(KeyError::Exponent(0)));
        assert_eq!(with(|node| node.set_u32("rsa,exponent", 1)), Err(KeyError::Exponent(1)));
        assert_eq!(with(|node| node.set("rsa,modulus", vec![0xff; 128])), Err(KeyError::Size(1024)));
        assert_eq!(with(|node| node.properties.clear()), Err(KeyError::NoModulus));
        assert_eq!(PublicKey::from_tree(&Tree::default()).map(drop), Err(KeyError::NoKeys));
    }
}
