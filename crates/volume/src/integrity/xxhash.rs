//! XXH64 with the seed 0 (`doc/xxhash_spec.md` of the project xxHash), over several pieces.

const P1: u64 = 0x9e37_79b1_85eb_ca87;
const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P3: u64 = 0x1656_67b1_9e37_79f9;
const P4: u64 = 0x85eb_ca77_c2b2_ae63;
const P5: u64 = 0x27d4_eb2f_1656_67c5;

const STRIPE: usize = 32;

/// Hashes pieces as if they were one.
pub fn xxh64(pieces: &[&[u8]]) -> u64 {
    let mut lanes = [P1.wrapping_add(P2), P2, 0, 0_u64.wrapping_sub(P1)];
    let (mut buffered, mut held, mut total) = ([0; STRIPE], 0_usize, 0_u64);
    for &piece in pieces {
        total = total.wrapping_add(piece.len() as u64);
        let mut rest = piece;
        if held > 0 {
            let (front, behind) = rest.split_at(rest.len().min(STRIPE.wrapping_sub(held)));
            for (place, byte) in buffered.iter_mut().skip(held).zip(front) {
                *place = *byte;
            }
            held = held.wrapping_add(front.len());
            rest = behind;
            if held == STRIPE {
                stripe(&mut lanes, &buffered);
                held = 0;
            }
        }
        let (stripes, tail) = rest.as_chunks::<STRIPE>();
        stripes.iter().for_each(|whole| stripe(&mut lanes, whole));
        for (place, byte) in buffered.iter_mut().skip(held).zip(tail) {
            *place = *byte;
        }
        held = held.wrapping_add(tail.len());
    }
    let mut hash = match total >= STRIPE as u64 {
        true => merged(lanes),
        false => P5,
    };
    hash = hash.wrapping_add(total);
    let (tail, _) = buffered.split_at(held);
    finish(hash, tail)
}

fn stripe(lanes: &mut [u64; 4], bytes: &[u8; STRIPE]) {
    for (lane, word) in lanes.iter_mut().zip(bytes.as_chunks().0) {
        *lane = round(*lane, u64::from_le_bytes(*word));
    }
}

fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
}

fn merged(lanes: [u64; 4]) -> u64 {
    let turned = lanes.iter().zip([1, 7, 12, 18]);
    let sum = turned.fold(0_u64, |sum, (lane, by)| sum.wrapping_add(lane.rotate_left(by)));
    lanes.iter().fold(sum, |hash, lane| (hash ^ round(0, *lane)).wrapping_mul(P1).wrapping_add(P4))
}

fn finish(mut hash: u64, tail: &[u8]) -> u64 {
    let (words, rest) = tail.as_chunks();
    for word in words {
        hash ^= round(0, u64::from_le_bytes(*word));
        hash = hash.rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
    }
    let (halves, rest) = rest.as_chunks();
    for half in halves {
        hash ^= u64::from(u32::from_le_bytes(*half)).wrapping_mul(P1);
        hash = hash.rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
    }
    for byte in rest {
        hash ^= u64::from(*byte).wrapping_mul(P5);
        hash = hash.rotate_left(11).wrapping_mul(P1);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(P2);
    hash = (hash ^ hash >> 29).wrapping_mul(P3);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the project's own test (`tests/sanity_test_vectors.h`), whose buffer its generator makes, and of the empty text.
    #[test]
    fn sums_are_those_of_the_project_xxhash() {
        let mut buffer = Vec::new();
        let mut byte = 2_654_435_761_u64;
        while buffer.len() < 222 {
            buffer.push((byte >> 56) as u8);
            byte = byte.wrapping_mul(11_400_714_785_074_694_797);
        }
        let sums = [
            (0, 0xef46_db37_51d8_e999_u64),
            (1, 0xe934_a84a_db05_2768),
            (14, 0x8282_dcc4_994e_35c8),
            (222, 0xb641_ae8c_b691_c174),
        ];
        for (len, sum) in sums {
            assert_eq!(xxh64(&[&buffer[..len]]), sum, "{len} bytes");
        }
        assert_eq!(xxh64(&[b"abc"]), 0x44bc_2cf5_ad77_0999);
    }

    #[test]
    fn pieces_count_as_one() {
        let bytes: Vec<u8> = (0..200_u8).collect();
        for cut in 0..=bytes.len() {
            let (a, b) = bytes.split_at(cut);
            let (b, c) = b.split_at(b.len() / 3);
            assert_eq!(xxh64(&[a, b, c]), xxh64(&[&bytes]), "cut at {cut}");
        }
    }
}
