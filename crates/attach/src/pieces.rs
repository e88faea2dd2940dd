//! How the faces cut long requests.

/// Bytes that one worker reads or writes at a time. A piece stays in a core's cache between the cipher and the client. In
/// schedules it is small: many of them are tried.
pub(crate) const CHUNK: usize = if cfg!(all(test, shuttle)) { 1 << 10 } else { 256 << 10 };

/// A range in pieces of [`CHUNK`] bytes, cut at multiples of it so that only the first and last are unaligned.
pub(crate) fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize)> {
    let end = offset + len;
    let mut at = offset;
    core::iter::from_fn(move || {
        let step = (CHUNK as u64 - at % CHUNK as u64).min(end - at);
        let piece = (step > 0).then_some((at, step as usize));
        at += step;
        piece
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_range_once_and_are_cut_at_multiples_of_a_chunk() {
        let chunk = CHUNK as u64;
        for (offset, len) in [(0, 3 * chunk), (1, 3 * chunk), (chunk - 1, 2), (5, 0), (chunk, chunk + 7)] {
            let mut at = offset;
            for (piece, len) in pieces(offset, len) {
                assert_eq!(piece, at);
                assert!(len > 0 && len <= CHUNK);
                assert!(piece == offset || piece % chunk == 0);
                at += len as u64;
            }
            assert_eq!(at, offset + len);
        }
    }
}
