//! Keyslot areas that lie so that LUKS1's eight do not fit between and behind them, as a re-encryption may leave them. They are moved
//! one by one: the area is copied first, and then both copies of the header say where it is.

use atrest_device::Media;
use atrest_format::luks2::{AREA_ALIGNMENT, Header, Metadata};
use atrest_keyslot::luks1::SLOTS;

use super::{ConvertError, Obstacle};
use crate::ChangeError;
use crate::luks2::{media, session};

/// What is moved.
pub(super) struct Move {
    slot: u32,
    from: u64,
    to: u64,
    len: u64,
}

/// Finds the moves after which eight areas of this length fit below `end`, and the metadata that there is then.
pub(super) fn plan(metadata: &Metadata, len: u64, end: u64) -> Result<(Vec<Move>, Metadata), ConvertError> {
    let (mut moves, mut metadata) = (Vec::new(), metadata.clone());
    // An area moves once, from a place that is none of the eight to one that is.
    while !fit(&metadata, len, end) {
        let apart = |at: u64| {
            metadata.keyslots().iter().all(|keyslot| {
                let area = &keyslot.area;
                // cannot overflow: areas lie before the data, and both lengths are of areas.
                at.saturating_add(len) <= area.offset || area.offset.saturating_add(area.size) <= at
            })
        };
        let free = |at: &u64| *at >= metadata.keyslots_start() && apart(*at);
        let to = places(len, end).find(free).ok_or(Obstacle::NoRoom)?;
        let astray = metadata.keyslots().iter().find(|keyslot| {
            keyslot.area.size == len && places(len, end).all(|place| place != keyslot.area.offset)
        });
        let mut keyslot = astray.ok_or(Obstacle::NoRoom)?.clone();
        moves.push(Move { slot: keyslot.id, from: keyslot.area.offset, to, len });
        keyslot.area.offset = to;
        metadata = metadata.compose().keyslot(&keyslot).finish()?;
    }
    Ok((moves, metadata))
}

/// Where LUKS1 puts its areas.
fn places(len: u64, end: u64) -> impl Iterator<Item = u64> {
    // cannot overflow: eight lengths of areas.
    let place = move |number: u64| AREA_ALIGNMENT.saturating_add(len.saturating_mul(number));
    (0..SLOTS as u64).map(place).filter(move |at| at.saturating_add(len) <= end)
}

/// Whether eight areas fit, of which those in use stay where they are.
fn fit(metadata: &Metadata, len: u64, end: u64) -> bool {
    let mut used: Vec<(u64, u64)> =
        metadata.keyslots().iter().map(|k| (k.area.offset, k.area.size)).collect();
    used.sort_unstable();
    let (mut at, mut count) = (AREA_ALIGNMENT, used.len() as u64);
    for (offset, size) in used.into_iter().chain([(end, 0)]) {
        // cannot overflow: areas are no longer than the place up to `end`, and no length is 0.
        count = count.saturating_add(offset.saturating_sub(at).checked_div(len).unwrap_or(0));
        at = offset.saturating_add(size);
    }
    count >= SLOTS as u64
}

/// Makes the moves. A power loss leaves a header of LUKS2 that opens with every passphrase.
pub(super) fn carry_out(device: &dyn Media, moves: &[Move]) -> Result<(), ConvertError> {
    for Move { slot, from, to, len } in moves {
        let pair = media::read_pair(device)?;
        let Header { binary, metadata } = &pair.header;
        let mut keyslot = metadata.keyslot(*slot).ok_or(Obstacle::Keyslot { slot: *slot })?.clone();
        keyslot.area.offset = *to;
        let metadata = metadata.compose().keyslot(&keyslot).finish()?;
        let mut binary = binary.clone();
        binary.sequence = binary.sequence.checked_add(1).ok_or(ChangeError::SequenceExhausted)?;
        session::check_fits(&metadata, &binary)?;
        let len = usize::try_from(*len).map_err(|_| Obstacle::NoRoom)?;
        let mut area = vec![0; len];
        device.read_at(*from, &mut area)?;
        device.write_at(*to, &area)?;
        device.flush()?;
        media::write_pair(device, &pair, &Header { binary, metadata })?;
        media::wipe(device, *from, len as u64)?;
    }
    Ok(())
}
