//! Recovery passwords: eight groups of six digits, each a multiple of 11, whose quotients are a key.

use atrest_secret::SecretArray;

/// Groups in a recovery password.
const GROUPS: usize = 8;
/// Digits in a group.
const DIGITS: usize = 6;

/// The key in a recovery password, which may have white space around it; `None` for what is no recovery password.
pub fn recovery_key(text: &[u8]) -> Option<SecretArray<16>> {
    let mut key = SecretArray::<16>::zeroed();
    let mut groups = text.trim_ascii().split(|byte| *byte == b'-');
    for place in key.as_chunks_mut::<2>().0 {
        let group: &[u8; DIGITS] = groups.next()?.try_into().ok()?;
        let mut number = 0_u32;
        for digit in group {
            let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
            number = number.checked_mul(10)?.checked_add(digit.into())?;
        }
        if !number.is_multiple_of(11) {
            return None;
        }
        *place = u16::try_from(number.checked_div(11)?).ok()?.to_le_bytes();
    }
    const { assert!(GROUPS * 2 == 16) };
    groups.next().is_none().then_some(key)
}
