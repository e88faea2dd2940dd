//! Names and link targets before their cipher: padded with NULs, so that lengths show less, and without them again.

use atrest_filetree::{EncryptionFault, is_valid_name};

use super::policy::Padding;

/// Longest name of a file, in bytes, encrypted or not.
pub(super) const MAX_NAME: usize = 255;
/// Every cipher of names needs a block.
pub(super) const MIN_CIPHERTEXT: usize = 16;

/// `plain`, filled up as the padding says, but to no more than `max` bytes.
pub(super) fn pad(plain: &[u8], padding: Padding, max: usize) -> Result<Vec<u8>, EncryptionFault> {
    if plain.is_empty() || plain.len() > max || plain.contains(&0) {
        return Err(EncryptionFault::PlaintextLength { len: plain.len() });
    }
    let len = plain.len().max(MIN_CIPHERTEXT).next_multiple_of(padding.bytes()).min(max);
    let mut padded = plain.to_vec();
    padded.resize(len, 0);
    Ok(padded)
}

/// Whether a stored name can be one of this padding.
pub(super) fn check_len(stored: usize, padding: Padding, max: usize) -> Result<(), EncryptionFault> {
    let whole = stored.is_multiple_of(padding.bytes()) || stored == max;
    let fits = (MIN_CIPHERTEXT..=max).contains(&stored) && whole;
    if fits { Ok(()) } else { Err(EncryptionFault::CiphertextLength { len: stored }) }
}

/// The name without its padding; none where it is not what [`pad`] makes, or no name that a directory can have.
pub(super) fn unpad_name(padded: &[u8], padding: Padding) -> Option<&[u8]> {
    unpad(padded, padding).filter(|name| is_valid_name(name))
}

/// The bytes before the padding; none where they are not what [`pad`] makes.
pub(super) fn unpad(padded: &[u8], padding: Padding) -> Option<&[u8]> {
    let len = padded.iter().position(|byte| *byte == 0).unwrap_or(padded.len());
    let (name, zeros) = padded.split_at_checked(len)?;
    // intended: a name that is shorter than its padding may be all padding.
    let least = padded.len().saturating_sub(padding.bytes());
    // Only the shortest of all is filled up by more than the padding.
    let short = padded.len() == MIN_CIPHERTEXT.next_multiple_of(padding.bytes());
    let plausible = !name.is_empty() && (short || len > least) && zeros.iter().all(|byte| *byte == 0);
    plausible.then_some(name)
}

/// How sure the names of a directory make us that they were decrypted with the right key, in bits: of wrong keys, less than one
/// in 2^16 passes even where there is one name only.
const EVIDENCE: usize = 16;

/// Whether names that all passed [`unpad_name`] are no accident: a wrong key gives random bytes, which seldom end in zeros and seldom
/// are text. `names` and how many bytes of padding each had.
pub(super) fn convincing<'a>(names: impl Iterator<Item = (&'a [u8], usize)>) -> bool {
    let (mut any, mut bits) = (false, 0_usize);
    for (name, padding) in names {
        any = true;
        // intended: more evidence than anybody counts.
        bits = bits.saturating_add(padding.saturating_mul(8));
        // Of random bytes, less than 0.44 per byte of length make text: more than one bit each.
        if core::str::from_utf8(name).is_ok_and(|text| !text.chars().any(char::is_control)) {
            // intended: more evidence than anybody counts.
            bits = bits.saturating_add(name.len());
        }
    }
    !any || bits >= EVIDENCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_length_are_padded_as_linux_pads_them() {
        for (padding, lens) in [
            (Padding::Four, [16, 16, 20, 252, 255]),
            (Padding::Eight, [16, 16, 24, 255, 255]),
            (Padding::Sixteen, [16, 16, 32, 255, 255]),
            (Padding::ThirtyTwo, [32, 32, 32, 255, 255]),
        ] {
            let stored = [1, 16, 17, 250, 255].map(|len| {
                let plain = vec![b'n'; len];
                let padded = pad(&plain, padding, MAX_NAME).expect("a name");
                assert_eq!(unpad(&padded, padding), Some(&plain[..]));
                assert_eq!(check_len(padded.len(), padding, MAX_NAME), Ok(()));
                padded.len()
            });
            assert_eq!(stored, lens, "{padding:?}");
        }
        for bad in [&[][..], &[b'n'; 256], b"a\0b"] {
            assert!(pad(bad, Padding::Four, MAX_NAME).is_err());
        }
    }

    #[test]
    fn what_linux_never_pads_is_no_name() {
        for bad in [
            &b"\0aaaaaaaaaaaaaaa"[..],
            b"a\0aaaaaaaaaaaaaa",
            b"a/aaaaaaaaaaaaaa",
            b"..\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            b"abc\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        ] {
            assert_eq!(unpad_name(bad, Padding::Four), None, "{bad:?}");
        }
        for len in [0, 15, 17, 254, 256] {
            assert!(check_len(len, Padding::Four, MAX_NAME).is_err(), "{len}");
        }
    }

    #[test]
    fn few_random_bytes_convince_nobody() {
        let random = [[0xff_u8; 16]; 8];
        assert!(!convincing(random.iter().map(|name| (&name[..], 0))));
        assert!(convincing(random.iter().map(|name| (&name[..14], 2))));
        assert!(convincing([(&b"a name of 16 byt"[..], 0)].into_iter()));
        assert!(convincing([].into_iter()));
    }

    #[test]
    fn sixteen_bits_of_evidence_are_needed_and_enough() {
        let text = b"a name of 16 byt";
        for (len, padding, enough) in
            [(15, 0, false), (16, 0, true), (7, 1, false), (8, 1, true), (0, 1, false), (0, 2, true)]
        {
            assert_eq!(convincing([(&text[..len], padding)].into_iter()), enough, "{len} {padding}");
        }
        // What is no text counts for nothing, and what many names say is added up.
        assert!(!convincing([(&b"\xffbcdefghijklmnopqrst"[..], 1)].into_iter()));
        assert!(!convincing([(&text[..5], 0), (&text[..5], 0), (&text[..5], 0)].into_iter()));
        assert!(convincing([(&text[..5], 0), (&text[..5], 0), (&text[..6], 0)].into_iter()));
    }

    /// Every length of name and padding, and every place for a byte among the zeros: only what [`pad`] makes is taken.
    #[test]
    fn a_name_has_the_padding_that_it_would_get_and_no_other() {
        for padding in [Padding::Four, Padding::Eight, Padding::Sixteen, Padding::ThirtyTwo] {
            for stored in (4..=64).step_by(4) {
                for len in 0..=stored {
                    let mut padded = vec![b'n'; len];
                    padded.resize(stored, 0);
                    let made = pad(&padded[..len], padding, MAX_NAME).is_ok_and(|made| made == padded);
                    let taken = unpad(&padded, padding);
                    if stored.is_multiple_of(padding.bytes()) && stored >= MIN_CIPHERTEXT {
                        assert_eq!(taken, made.then_some(&padded[..len]), "{padding:?} {stored} {len}");
                    }
                    for at in len + 1..stored {
                        padded[at] = 1;
                        assert_eq!(unpad(&padded, padding), None, "{padding:?} {stored} {len} {at}");
                        padded[at] = 0;
                    }
                }
            }
        }
    }
}
