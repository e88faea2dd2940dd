//! The Reed-Solomon code of dm-verity: RS(255, 255 - roots) over GF(2^8) with polynomial 0x11d, generator 2, and 1 as first root.
//!
//! Nothing of it is secret, so it looks values up by their bytes. Errors and erasures are found by the Berlekamp-Massey
//! algorithm, Chien's search and Forney's formula (R. E. Blahut, "Algebraic Codes for Data Transmission", chapter 7).

use atrest_format::verity::{MAX_ROOTS, RS_LEN};

/// The field's polynomial.
const POLYNOMIAL: u16 = 0x11d;
/// Order of the field's multiplicative group.
const ORDER: usize = 255;

const fn powers() -> [u8; 2 * ORDER] {
    let mut powers = [0; 2 * ORDER];
    let (mut power, mut at) = (1_u16, 0);
    while at < powers.len() {
        powers[at] = power as u8;
        power <<= 1;
        if power & 0x100 != 0 {
            power ^= POLYNOMIAL;
        }
        at += 1;
    }
    powers
}

const fn logarithms() -> [u8; 256] {
    let mut logarithms = [0; 256];
    let mut at = 0;
    while at < ORDER {
        logarithms[POWERS[at] as usize] = at as u8;
        at += 1;
    }
    logarithms
}

/// 2 to the power of the index, twice over.
static POWERS: [u8; 2 * ORDER] = powers();
/// The power of 2 that a value is; of 0 there is none.
static LOGARITHMS: [u8; 256] = logarithms();

fn log(value: u8) -> usize {
    usize::from(LOGARITHMS[usize::from(value)])
}

fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { 0 } else { POWERS[log(a) + log(b)] }
}

/// `b` is not 0.
fn divide(a: u8, b: u8) -> u8 {
    if a == 0 { 0 } else { POWERS[log(a) + ORDER - log(b)] }
}

/// The value of a polynomial, whose lowest coefficient comes first.
fn value(polynomial: &[u8], at: u8) -> u8 {
    polynomial.iter().rev().fold(0, |sum, coefficient| multiply(sum, at) ^ coefficient)
}

/// Room for a polynomial of as many coefficients as there are roots, and one more.
type Polynomial = [u8; MAX_ROOTS as usize + 1];

/// The code with so many bytes of parity.
pub struct Code {
    roots: usize,
    /// For each byte that leaves the front of the parity, what is added to the rest.
    feedback: Box<[[u8; MAX_ROOTS as usize]; 256]>,
}

impl Code {
    /// `roots` are 2 to 24.
    pub fn new(roots: usize) -> Self {
        // The product of all (x - 2^i), the highest coefficient first, which is 1 and left out.
        let mut generator = vec![1_u8];
        for root in &POWERS[..roots] {
            let mut product = generator.clone();
            product.push(0);
            for (at, coefficient) in generator.iter().enumerate() {
                product[at + 1] ^= multiply(*coefficient, *root);
            }
            generator = product;
        }
        let mut feedback = Box::new([[0; MAX_ROOTS as usize]; 256]);
        for (byte, row) in feedback.iter_mut().enumerate() {
            for (to, coefficient) in row.iter_mut().zip(&generator[1..]) {
                *to = multiply(byte as u8, *coefficient);
            }
        }
        Self { roots, feedback }
    }

    /// Takes the next byte of each codeword. `parity` has room for that of all of them, and is zeros before the first byte.
    pub fn feed(&self, parity: &mut [u8], bytes: &[u8]) {
        match self.roots {
            2 => self.feed_as::<2>(parity, bytes),
            8 => self.feed_as::<8>(parity, bytes),
            16 => self.feed_as::<16>(parity, bytes),
            24 => self.feed_as::<24>(parity, bytes),
            roots => {
                for (parity, byte) in parity.chunks_exact_mut(roots).zip(bytes) {
                    self.step(parity, *byte);
                }
            }
        }
    }

    /// With a length that the compiler knows.
    fn feed_as<const ROOTS: usize>(&self, parity: &mut [u8], bytes: &[u8]) {
        for (parity, byte) in parity.as_chunks_mut::<ROOTS>().0.iter_mut().zip(bytes) {
            self.step(parity, *byte);
        }
    }

    #[inline(always)]
    fn step(&self, parity: &mut [u8], byte: u8) {
        let row = &self.feedback[usize::from(byte ^ parity[0])];
        let last = parity.len() - 1;
        for at in 0..last {
            parity[at] = parity[at + 1] ^ row[at];
        }
        parity[last] = row[last];
    }

    /// Corrects a codeword and returns how many bytes were wrong. `erased` are bytes known to be wrong. Twice the errors elsewhere and
    /// the erased bytes together may be as many as there are roots. `None` if there are more, and the codeword stays as it
    /// is. Whether what comes out is right only a hash can tell.
    pub fn correct(&self, codeword: &mut [u8; RS_LEN], erased: &[u8]) -> Option<usize> {
        let mut syndromes = [0_u8; MAX_ROOTS as usize];
        let syndromes = &mut syndromes[..self.roots];
        for (root, syndrome) in syndromes.iter_mut().enumerate() {
            *syndrome = codeword.iter().fold(0, |sum, byte| multiply(sum, POWERS[root]) ^ byte);
        }
        if syndromes.iter().all(|syndrome| *syndrome == 0) {
            return Some(0);
        }
        if erased.len() > self.roots {
            return None;
        }
        let (locator, degree) = self.locator(syndromes, erased)?;
        let locator = &locator[..=degree];
        // The error evaluator: syndromes times locator, as far as there are syndromes.
        let mut evaluator = [0_u8; MAX_ROOTS as usize];
        for (sum, to) in evaluator[..self.roots].iter_mut().enumerate() {
            *to =
                (0..=sum.min(degree)).fold(0, |value, at| value ^ multiply(locator[at], syndromes[sum - at]));
        }
        let mut errors = [(0, 0); MAX_ROOTS as usize];
        let mut found = 0;
        for position in 0..RS_LEN {
            let place = POWERS[RS_LEN - 1 - position];
            let inverse = divide(1, place);
            if value(locator, inverse) != 0 {
                continue;
            }
            // In a field of characteristic 2 only odd powers have a derivative.
            let square = multiply(inverse, inverse);
            let slope = locator.iter().skip(1).step_by(2).rev().fold(0, |sum, c| multiply(sum, square) ^ c);
            if slope == 0 || found == degree {
                return None;
            }
            let amount = multiply(place, divide(value(&evaluator[..self.roots], inverse), slope));
            errors[found] = (position, amount);
            found += 1;
        }
        if found != degree {
            return None;
        }
        for (position, amount) in &errors[..found] {
            codeword[*position] ^= amount;
        }
        Some(errors[..found].iter().filter(|(_, amount)| *amount != 0).count())
    }

    /// The polynomial whose roots are the inverses of the places of all errors, and its degree.
    fn locator(&self, syndromes: &[u8], erased: &[u8]) -> Option<(Polynomial, usize)> {
        let mut locator: Polynomial = [0; MAX_ROOTS as usize + 1];
        locator[0] = 1;
        for (count, position) in erased.iter().enumerate() {
            let place = POWERS[(RS_LEN - 1).checked_sub(usize::from(*position))?];
            for at in (0..=count).rev() {
                locator[at + 1] ^= multiply(locator[at], place);
            }
        }
        let mut last = locator;
        let mut degree = erased.len();
        for step in erased.len()..self.roots {
            let discrepancy = (0..=step).fold(0, |sum, at| sum ^ multiply(locator[at], syndromes[step - at]));
            last.copy_within(0..self.roots, 1);
            last[0] = 0;
            if discrepancy == 0 {
                continue;
            }
            let mut next = locator;
            for (to, from) in next.iter_mut().zip(&last) {
                *to ^= multiply(discrepancy, *from);
            }
            if 2 * degree <= step + erased.len() {
                degree = step + 1 + erased.len() - degree;
                for (to, from) in last.iter_mut().zip(&locator) {
                    *to = divide(*from, discrepancy);
                }
            }
            locator = next;
        }
        let highest = locator.iter().rposition(|coefficient| *coefficient != 0)?;
        (highest == degree && degree <= self.roots).then_some((locator, degree))
    }
}
