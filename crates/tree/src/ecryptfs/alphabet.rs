//! Six bits a character: how bytes become a name that every lower filesystem takes.

use atrest_secret::wipe;

/// In the order of their codes, which is ASCII's: so sorted, encoded names sort as what they encode.
const CHARACTERS: &[u8; 64] = b"-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Four characters for each three bytes; the last three are filled up with zeros.
pub(super) fn encode(bytes: &[u8], text: &mut Vec<u8>) {
    for chunk in bytes.chunks(3) {
        // intended: the last group is filled up with zeros.
        let byte = |i: usize| chunk.get(i).copied().unwrap_or(0);
        let group = u32::from_be_bytes([0, byte(0), byte(1), byte(2)]);
        for shift in [18_u32, 12, 6, 0] {
            let code = (group >> shift & 0x3f) as usize;
            text.extend(CHARACTERS.get(code));
        }
    }
}

/// The bytes of an encoded text; nothing if a character is none of the 64. A rest of less than eight bits is dropped.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let (mut group, mut bits) = (0_u32, 0_u32);
    for character in text {
        let Ok(code) = CHARACTERS.binary_search(character) else {
            wipe(&mut bytes);
            return None;
        };
        // cannot overflow: six bits are free.
        group = (group << 6).wrapping_add(code as u32) & 0xffff;
        // cannot overflow: at most 13 bits wait.
        bits = bits.saturating_add(6);
        if bits >= 8 {
            // cannot be less: compared above.
            bits = bits.saturating_sub(8);
            bytes.push((group >> bits) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's alphabet is base64's with other characters.
    #[test]
    fn it_is_base64_in_another_alphabet() {
        assert!(CHARACTERS.is_sorted());
        let mut text = Vec::new();
        encode(b"Man", &mut text); // "TWFu": 19, 22, 5, 46
        assert_eq!(text, b"HK3i");
        for len in 0..20_u8 {
            let bytes: Vec<u8> = (0..len).map(|i| i.wrapping_mul(37)).collect();
            let mut text = Vec::new();
            encode(&bytes, &mut text);
            let back = decode(&text).expect("its own characters");
            assert_eq!(back[..bytes.len()], bytes);
            assert!(back[bytes.len()..].iter().all(|byte| *byte == 0));
        }
        assert_eq!(decode(b"HK3/"), None);
    }
}
