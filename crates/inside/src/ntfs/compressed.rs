//! LZNT1, by Microsoft's MS-XCA, sections 2.5.1 and 2.5.2.

/// Binary logarithm of the clusters in a unit. Windows knows no other.
pub(super) const UNIT: u16 = 4;
/// Bytes that a chunk stands for.
const CHUNK: usize = 4096;

/// What compressed bytes stand for, filled up with zeros to `len` bytes. `None` if they are damaged.
pub(super) fn expand(mut bytes: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(len);
    while out.len() < len {
        let Some((header, rest)) = bytes.split_first_chunk() else { break };
        let header = u16::from_le_bytes(*header);
        if header == 0 {
            break;
        }
        // cannot overflow: 4096 at most.
        let (chunk, rest) = rest.split_at_checked(usize::from(header & 0xfff).saturating_add(1))?;
        let start = out.len();
        match header & 0x8000 {
            0 => out.extend_from_slice(chunk),
            _ => expand_chunk(chunk, &mut out)?,
        }
        // Each chunk but the last stands for 4096 bytes. Of a shorter one the rest is zeros.
        out.resize(start.checked_add(CHUNK)?, 0);
        bytes = rest;
    }
    out.resize(len, 0);
    Some(out)
}

/// Adds what one chunk stands for: eight times in turn a byte, or a length and a distance back in the chunk.
fn expand_chunk(mut bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    while let Some((flags, rest)) = bytes.split_first() {
        bytes = rest;
        for bit in 0..8 {
            // cannot be less: it grows.
            let done = out.len().saturating_sub(start);
            if flags & (1 << bit) == 0 {
                let Some((byte, rest)) = bytes.split_first() else { return Some(()) };
                bytes = rest;
                (done < CHUNK).then_some(())?;
                out.push(*byte);
                continue;
            }
            let Some((pair, rest)) = bytes.split_first_chunk() else {
                return bytes.is_empty().then_some(());
            };
            bytes = rest;
            let pair = u16::from_le_bytes(*pair);
            // The further into the chunk, the more bits has the distance: 4 to 12.
            // cannot overflow: a logarithm.
            let bits = done.checked_sub(1)?.checked_ilog2().map_or(0, |log| log.saturating_add(1)).max(4);
            let distance = usize::from(pair.checked_shr(16_u32.checked_sub(bits)?)?).checked_add(1)?;
            let len = usize::from(pair & 0xffff_u16.checked_shr(bits)?).checked_add(3)?;
            (distance <= done && done.checked_add(len)? <= CHUNK).then_some(())?;
            for _ in 0..len {
                // It may reach into what it adds itself.
                let byte = *out.get(out.len().checked_sub(distance)?)?;
                out.push(byte);
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn the_example_of_the_specification_expands() {
        // MS-XCA 3.3: "F# F# G A A G F# E D F# …" as notes; its buffer and what that stands for.
        let compressed: [u8; 59] = [
            0x38, 0xb0, 0x88, 0x46, 0x23, 0x20, 0x00, 0x20, 0x47, 0x20, 0x41, 0x00, 0x10, 0xa2, 0x47, 0x01,
            0xa0, 0x45, 0x20, 0x44, 0x00, 0x08, 0x45, 0x01, 0x50, 0x79, 0x00, 0xc0, 0x45, 0x20, 0x05, 0x24,
            0x13, 0x88, 0x05, 0xb4, 0x02, 0x4a, 0x44, 0xef, 0x03, 0x58, 0x02, 0x8c, 0x09, 0x16, 0x01, 0x48,
            0x45, 0x00, 0xbe, 0x00, 0x9e, 0x00, 0x04, 0x01, 0x18, 0x90, 0x00,
        ];
        let plain = b"F# F# G A A G F# E D D E F# F# E E F# F# G A A G F# E D D E F# E D D E E F# D E F# G F# D E F# G F# E D E A \
                      F# F# G A A G F# E D D E F# E D D";
        let expanded = expand(&compressed, 4096).expect("it expands");
        assert_eq!(&expanded[..plain.len()], plain);
        assert!(expanded[plain.len() + 1..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn what_reaches_too_far_is_damaged() {
        // A pair with nothing before it, one further back than there is, one longer than a chunk, a chunk that ends early.
        for bad in
            [&b"\x02\xb0\x01\0\0"[..], b"\x03\xb0\x02a\0\x10", b"\x03\xb0\x02a\xff\x0f", b"\xff\xbf\0a"]
        {
            assert_eq!(expand(bad, 65536), None, "{bad:?}");
        }
    }
}
