//! Runs of clusters: where the value of an attribute lies.

use atrest_codec::Reader;

/// Clusters of a value that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// First cluster in the value.
    pub(super) first: u64,
    /// How many there are, at least one.
    pub(super) len: u64,
    /// First cluster on the device; `None` in a hole.
    pub(super) place: Option<u64>,
}

impl Run {
    /// The cluster behind the last.
    pub(super) fn end(&self) -> u64 {
        // cannot overflow: checked when it was parsed.
        self.first.saturating_add(self.len)
    }
}

/// The runs in `bytes`, of a volume of so many clusters. `None` if they reach behind its end, or the bytes do not say runs.
///
/// Each has a byte with two lengths, a number of clusters, and a signed distance from the place of the last. Without a distance
/// it is a hole.
pub(super) fn parse(bytes: &[u8], first: u64, clusters: u64) -> Option<Vec<Run>> {
    let mut reader = Reader::new(bytes);
    let (mut runs, mut first, mut place) = (Vec::new(), first, 0_i64);
    loop {
        let lengths = reader.u8().ok()?;
        if lengths == 0 {
            return Some(runs);
        }
        let len = signed(reader.bytes((lengths & 0xf).into()).ok()?)?;
        let len = u64::try_from(len).ok().filter(|len| *len != 0)?;
        let distance = reader.bytes((lengths >> 4).into()).ok()?;
        let lies = match distance {
            [] => None,
            distance => {
                place = place.checked_add(signed(distance)?)?;
                let lies = u64::try_from(place).ok()?;
                (lies.checked_add(len)? <= clusters).then_some(Some(lies))?
            }
        };
        runs.push(Run { first, len, place: lies });
        // No value is longer than 2^63 bytes.
        first = first.checked_add(len).filter(|end| *end <= i64::MAX as u64)?;
    }
}

/// A little-endian number of 1 to 8 bytes.
fn signed(bytes: &[u8]) -> Option<i64> {
    let is_negative = *bytes.last()? & 0x80 != 0;
    let mut wide = if is_negative { [0xff; 8] } else { [0; 8] };
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i64::from_le_bytes(wide))
}

#[cfg(test)]
mod tests {
    use super::{Run, parse};

    #[test]
    fn runs_are_those_of_the_linux_ntfs_documentation() {
        // Its examples of "Data Runs": a fragmented file, and one with a hole.
        let run = |first, len, place| Run { first, len, place };
        let fragmented = [
            0x31, 0x38, 0x73, 0x25, 0x34, 0x32, 0x14, 0x01, 0xe5, 0x11, 0x02, 0x31, 0x42, 0xaa, 0x00, 0x03, 0,
        ];
        let places = [
            run(0, 0x38, Some(0x342573)),
            run(0x38, 0x114, Some(0x363758)),
            run(0x14c, 0x42, Some(0x393802)),
        ];
        assert_eq!(parse(&fragmented, 0, 0x400000), Some(places.to_vec()));
        let sparse = [0x11, 0x30, 0x20, 0x01, 0x60, 0x11, 0x10, 0x30, 0];
        let places = [run(0, 0x30, Some(0x20)), run(0x30, 0x60, None), run(0x90, 0x10, Some(0x50))];
        assert_eq!(parse(&sparse, 0, 0x60), Some(places.to_vec()));
        assert_eq!(parse(&sparse, 0, 0x5f), None, "behind the end");
        for bad in [
            &sparse[..8],
            &[0x11, 0, 1, 0],
            &[0x10, 1, 0],
            &[0x11, 1, 0xff, 0],
            &[0x91, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0],
        ] {
            assert_eq!(parse(bad, 0, 0x60), None, "{bad:?}");
        }
        assert_eq!(parse(&sparse, i64::MAX as u64, 0x60), None);
    }
}
