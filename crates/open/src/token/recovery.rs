//! `systemd-recovery`: a passphrase that was made to be written down. The token says only which keyslot it opens.

use atrest_secret::{OsRandom, Passphrase, Random, RandomError, SecretArray, SecretBytes};

use super::{Token, TokenKey};

/// The type of the tokens.
pub const KIND_NAME: &str = "systemd-recovery";

/// The digits, which lie where they do on the keyboards of most languages.
const DIGITS: &[u8; 16] = b"cbdefghijklnrtuv";

/// Characters in a key, with a dash after each eighth but the last.
const LEN: usize = 71;

/// A fresh key of 256 bits.
///
/// # Errors
/// [`RandomError`].
pub fn generate() -> Result<Passphrase, RandomError> {
    let mut random = SecretArray::<32>::zeroed();
    OsRandom.fill(&mut *random)?;
    Ok(written(&random))
}

/// The text of a token for this keyslot.
pub fn token(keyslot: u32) -> String {
    format!(r#"{{"type":"{KIND_NAME}","keyslots":["{keyslot}"]}}"#)
}

fn written(bytes: &[u8; 32]) -> Passphrase {
    let mut text = SecretBytes::zeroed(LEN);
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let places = text.iter_mut().enumerate().filter(|(at, _)| at % 9 != 8);
    for ((_, place), digit) in places.zip(digits) {
        *place = character(digit);
    }
    text.iter_mut().skip(8).step_by(9).for_each(|place| *place = b'-');
    Passphrase::new(text)
}

/// The character of a digit, found without an index that depends on it.
fn character(digit: u8) -> u8 {
    (0..).zip(DIGITS).fold(0, |found, (value, character)| {
        // All ones if it is this digit.
        let same = (u16::from(value ^ digit).wrapping_sub(1) >> 8) as u8;
        found | (same & character)
    })
}

/// What somebody meant who typed a recovery key otherwise than it was made, with the keyslots of these tokens that it may open.
pub fn meant(tokens: &[Token], typed: &Passphrase) -> Option<TokenKey> {
    let tokens: Vec<&Token> = tokens.iter().filter(|token| token.info.kind == KIND_NAME).collect();
    let token = tokens.first()?.info.id;
    let keyslots = tokens.iter().flat_map(|token| token.info.keyslots.iter().copied()).collect();
    Some(TokenKey { token, keyslots, passphrase: normal_form(typed)? })
}

/// A key as it was made, of what somebody typed with capitals, without dashes or with spaces for them; `None` if it is no such key, or is
/// typed as it was made.
pub fn normal_form(typed: &Passphrase) -> Option<Passphrase> {
    let typed = typed.expose();
    // Longer than that is nobody's key.
    if typed.len() > 2 * LEN {
        return None;
    }
    let mut text = SecretBytes::zeroed(LEN);
    let mut places = text.iter_mut().enumerate().filter(|(at, _)| at % 9 != 8).map(|(_, place)| place);
    for byte in typed.iter().map(u8::to_ascii_lowercase).filter(|byte| !matches!(byte, b'-' | b' ' | b'\n')) {
        if !DIGITS.contains(&byte) {
            return None;
        }
        *places.next()? = byte;
    }
    if places.next().is_some() {
        return None;
    }
    text.iter_mut().skip(8).step_by(9).for_each(|place| *place = b'-');
    (*text != *typed).then(|| Passphrase::new(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_written_as_systemd_writes_it() {
        let mut bytes = [0; 32];
        bytes.iter_mut().zip(0x01..).for_each(|(byte, value)| *byte = value);
        let text = "cbcdcecf-cgchcicj-ckclcncr-ctcucvbc-bbbdbebf-bgbhbibj-bkblbnbr-btbubvdc";
        assert_eq!(written(&bytes).expose(), text.as_bytes());
        assert_eq!((0..16).map(character).collect::<Vec<_>>(), DIGITS);
        assert!(generate() != generate());
        for typed in [text.to_uppercase(), text.replace('-', ""), text.replace('-', " "), format!("{text}\n")]
        {
            let normal = normal_form(&Passphrase::copy_from(typed.as_bytes()));
            assert_eq!(normal.expect("a key").expose(), text.as_bytes(), "{typed}");
        }
        for typed in [text, "", "correct horse", &text[1..], &text.replace('v', "a"), &format!("{text}c")] {
            assert_eq!(normal_form(&Passphrase::copy_from(typed.as_bytes())), None, "{typed}");
        }
    }
}
