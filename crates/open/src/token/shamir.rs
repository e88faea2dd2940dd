//! Shares of a key (Shamir, How to Share a Secret, 1979): points of a polynomial over a field, whose value at zero is the key.
//!
//! Numbers are made of the shares' bytes each time anew, so that they lie on the stack alone, which the callers here wipe.

use atrest_secret::{OsRandom, Random, SecretArray, SecretBytes, with_wiped_stack};
use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{Odd, U256};

use super::TokenError;

/// Bytes of a number of the field.
pub const LEN: usize = 32;

/// The largest prime below 2^256: 2^256 − 189. Whatever is shared here is shared over its field.
pub const PRIME: [u8; LEN] = {
    let mut prime = [0xff; LEN];
    prime[LEN - 1] = 0x43;
    prime
};

/// Machine words of a number: 4, or 8 where a word has 32 bits.
const LIMBS: usize = U256::LIMBS;

type Number = FixedMontyForm<LIMBS>;

/// The numbers modulo a prime.
#[derive(Debug)]
pub struct Field(FixedMontyParams<LIMBS>);

impl Field {
    /// The one whose prime this is. That it is one is not checked: by another number nothing is restored.
    ///
    /// # Errors
    /// [`TokenError::Malformed`]: it is even, or one.
    pub fn of(prime: &[u8; LEN]) -> Result<Self, TokenError> {
        let prime = Odd::new(U256::from_be_slice(prime)).into_option().ok_or(TokenError::Malformed)?;
        if *prime == U256::ONE {
            return Err(TokenError::Malformed);
        }
        Ok(Self(FixedMontyParams::new_vartime(prime)))
    }

    fn number(&self, bytes: &[u8; LEN]) -> Number {
        Number::new(&U256::from_be_slice(bytes), &self.0)
    }

    /// The two numbers of a share: its place, and the value there.
    fn point(&self, share: &[u8]) -> Result<[Number; 2], TokenError> {
        match share.as_chunks::<LEN>() {
            ([place, value], []) => Ok([place, value].map(|bytes| self.number(bytes))),
            _ => Err(TokenError::Malformed),
        }
    }

    /// What the polynomial through these shares is at a place (Lagrange): at zero the key.
    ///
    /// # Errors
    /// [`TokenError::Malformed`]: a share has not 64 bytes, or two are at one place, and tell as much as one.
    pub fn value(&self, shares: &[SecretBytes], place: &[u8; LEN]) -> Result<SecretArray<LEN>, TokenError> {
        let mut value = SecretArray::zeroed();
        with_wiped_stack(|| self.interpolate(shares, place, &mut value))?;
        Ok(value)
    }

    fn interpolate(
        &self,
        shares: &[SecretBytes],
        place: &[u8; LEN],
        value: &mut SecretArray<LEN>,
    ) -> Result<(), TokenError> {
        let place = self.number(place);
        let mut sum = Number::zero(&self.0);
        for (at, share) in shares.iter().enumerate() {
            let [x, y] = self.point(share)?;
            let (mut above, mut below) = (y, Number::one(&self.0));
            for (_, other) in shares.iter().enumerate().filter(|(other, _)| *other != at) {
                let [other, _] = self.point(other)?;
                above *= &(other - place);
                below *= &(other - x);
            }
            let inverse = below.invert().into_option().ok_or(TokenError::Malformed)?;
            sum += &(above * inverse);
        }
        write(&sum, value);
        Ok(())
    }
}

fn write(number: &Number, to: &mut SecretArray<LEN>) {
    let bytes = number.retrieve().to_be_bytes();
    to.iter_mut().zip(bytes.as_ref() as &[u8]).for_each(|(to, from)| *to = *from);
}

/// A fresh polynomial over the field of [`PRIME`], with as many random numbers as shares are needed.
pub struct Polynomial {
    field: Field,
    /// The first is the key.
    coefficients: Vec<SecretArray<LEN>>,
}

impl Polynomial {
    /// One that so many shares determine, and no fewer.
    ///
    /// # Errors
    /// [`TokenError::NoRandom`].
    pub fn fresh(needed: usize) -> Result<Self, TokenError> {
        let mut coefficients = Vec::new();
        for _ in 0..needed {
            let mut number = SecretArray::<LEN>::zeroed();
            // One in 2^248 is not below the prime, and counts as what is left of it.
            OsRandom.fill(&mut *number).map_err(|_| TokenError::NoRandom)?;
            coefficients.push(number);
        }
        Ok(Self { field: Field::of(&PRIME)?, coefficients })
    }

    /// Its value at a place (Horner). Only whoever has the key may ask for that at zero.
    pub fn value(&self, place: &[u8; LEN]) -> SecretArray<LEN> {
        let mut value = SecretArray::zeroed();
        with_wiped_stack(|| {
            let place = self.field.number(place);
            let mut sum = Number::zero(&self.field.0);
            for coefficient in self.coefficients.iter().rev() {
                sum = sum * place + self.field.number(coefficient);
            }
            write(&sum, &mut value);
        });
        value
    }

    /// The key.
    pub fn key(&self) -> SecretArray<LEN> {
        self.value(&[0; LEN])
    }

    /// The share at a place.
    pub fn share(&self, place: &[u8; LEN]) -> SecretBytes {
        joined(place, &self.value(place))
    }
}

/// A share: its place, and the value there.
pub fn joined(place: &[u8; LEN], value: &[u8; LEN]) -> SecretBytes {
    let mut share = SecretBytes::zeroed(2 * LEN);
    share.iter_mut().zip(place.iter().chain(value)).for_each(|(to, from)| *to = *from);
    share
}

/// The place of the share with a number, which is not zero.
#[cfg(any(test, feature = "shares"))]
pub fn place(number: u8) -> [u8; LEN] {
    let mut place = [0; LEN];
    place[LEN - 1] = number;
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Field {
        let mut prime = [0; LEN];
        prime[29..].copy_from_slice(&[1, 0, 1]);
        Field::of(&prime).expect("65537")
    }

    fn share(x: u8, y: u8) -> SecretBytes {
        joined(&place(x), &place(y))
    }

    #[test]
    fn a_polynomial_through_shares_has_its_values_everywhere() {
        // On the line 42 + 2x.
        let shares = [share(1, 44), share(5, 52)];
        for (x, y) in [(0, 42), (1, 44), (7, 56)] {
            assert_eq!(*small().value(&shares, &place(x)).expect("two shares"), place(y));
        }
        let twice = small().value(&[share(1, 44), share(1, 44)], &place(0));
        assert_eq!(twice.err(), Some(TokenError::Malformed));
        let short = small().value(&[SecretBytes::zeroed(63), share(1, 44)], &place(0));
        assert_eq!(short.err(), Some(TokenError::Malformed));
        let mut even = [0; LEN];
        even[LEN - 1] = 4;
        assert!(Field::of(&even).is_err());
        assert!(Field::of(&place(1)).is_err());
    }

    /// Values computed by integers without a limit, for 5 + 3x + (p − 1)x² modulo 2^256 − 189.
    #[test]
    fn a_polynomial_of_known_numbers_has_known_values() {
        let mut last = PRIME;
        last[LEN - 1] -= 1;
        let coefficients = [place(5), place(3), last].map(SecretArray::new).into();
        let polynomial = Polynomial { field: Field::of(&PRIME).expect("a prime"), coefficients };
        assert_eq!(*polynomial.key(), place(5));
        assert_eq!(*polynomial.value(&place(2)), place(7));
        let mut below = PRIME;
        below[LEN - 1] -= 5;
        assert_eq!(*polynomial.value(&place(5)), below);
    }

    #[test]
    fn as_many_shares_as_are_needed_have_the_key_and_fewer_do_not() {
        let field = Field::of(&PRIME).expect("a prime");
        for needed in 1..6 {
            let polynomial = Polynomial::fresh(needed).expect("random");
            let shares: Vec<_> = (3..9).map(|number| polynomial.share(&place(number))).collect();
            let of = |shares: &[SecretBytes]| field.value(shares, &place(0)).expect("shares");
            assert!(*of(&shares[..needed]) == *polynomial.key());
            assert!(*of(&shares[1..]) == *polynomial.key(), "more than are needed");
            if needed > 1 {
                assert!(*of(&shares[1..needed]) != *polynomial.key(), "fewer");
            }
        }
        assert!(*Polynomial::fresh(2).expect("random").key() != *Polynomial::fresh(2).expect("random").key());
    }
}
