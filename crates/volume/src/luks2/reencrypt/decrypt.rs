//! A volume that becomes plaintext.
//!
//! Where the data begins with its device, nothing but the detached header is written before the first zone. Where the
//! header lies in front of the data, it has been copied to a device of its own first, and the data moves over the old one.
//! The order is: the copy is durable (the caller sees to that); the head of the data is copied, still encrypted, to the
//! beginning of the device; the copy of the header says so. Until that last step the copy describes the data where it was,
//! of which nothing has been overwritten.

use atrest_format::luks2::{
    Checksums, ReencryptMode, Requirement, Resilience, Segment, SegmentKind, SegmentSize, Shift,
};
use atrest_kdf::Hash;
use atrest_secret::SecretBytes;

use super::begin::{Beginning, check_course, only_segment};
use super::zone::{linear, unit_of};
use super::{ReencryptError, ResilienceKind, Rewriting};
use crate::luks2::Luks2;
use crate::luks2::session::Session;
use crate::luks2::unlock::run;
use crate::{Credential, Devices, KeyslotOptions};

/// The longest head that is held in memory at once.
const LONGEST_HEAD: u64 = 128 << 20;
/// Bytes that are copied or compared at a time.
const STEP: usize = 1 << 20;
/// Where magic and checksum of a header copy lie.
const FRONT: usize = 512;

/// How a volume is decrypted.
#[derive(Debug, Default)]
pub struct DecryptOptions {
    /// How zones survive; where the data moves, how its head does. Then it can't be [`ResilienceKind::None`], and is a journal
    /// where hashes have no room for the whole head.
    pub resilience: ResilienceKind,
    /// Hash of the sectors; `None` is SHA-256.
    pub hash: Option<Hash>,
    /// Bytes in the head of the data that is moved first, at most, where a journal protects it. `None` is as many as it has
    /// room for. By hashes the head is as long as the data moves.
    pub head: Option<u64>,
    /// Bytes of the data that it is of, from the first one; `None` is all of it.
    pub part: Option<u64>,
    /// How the digest is made that binds everything to the key. Nothing else of it is used: there is no new keyslot.
    pub keyslot: KeyslotOptions,
    /// Overwrite what lies in front of the data, even if it is not the header of this volume.
    pub overwrite_front: bool,
}

impl Luks2 {
    /// Begins to decrypt the volume where it is. Its header is detached; if the data does not begin with its device, what is in
    /// front of it is overwritten, which is where the header was of which this one is a copy.
    ///
    /// When this returns, the header is durable and no plaintext has been written.
    ///
    /// # Errors
    /// Before anything is written: [`ReencryptError::InProgress`], [`ReencryptError::NotDetached`],
    /// [`ReencryptError::ForeignFront`] if what is in front of the data is not this volume's header,
    /// [`ReencryptError::NoRoom`], [`ReencryptError::Misaligned`] or [`ReencryptError::DeviceSize`] if header
    /// or data do not permit it. [`ReencryptError::Change`] if the credential opens nothing, or if a device
    /// fails. The volume is then as before, by this header, or the decryption has begun.
    pub fn begin_decryption<'a>(
        &self,
        devices: Devices<'a>,
        credential: Credential<'_>,
        options: &DecryptOptions,
    ) -> Result<Rewriting<'a>, ReencryptError> {
        if self.metadata().config().requirements.iter().any(Requirement::is_reencryption) {
            return Err(ReencryptError::InProgress);
        }
        if !devices.detached {
            return Err(ReencryptError::NotDetached);
        }
        self.check_place(devices)?;
        let mut session = Session::begin(self, devices.header)?;
        session.refuse_pinned()?;
        let previous = only_segment(session.metadata())?;
        let key = session.data_key(credential)?;
        let digest = session.metadata().digest_of_segment(0).map(|digest| digest.id);
        let block = devices.data.geometry().logical_block.max(unit_of(&previous));
        let mut plan = Beginning::with(session.metadata().clone(), &options.keyslot);
        let last = linear(0, SegmentSize::Dynamic);
        let (head, kind) = match previous.offset {
            0 => (None, options.resilience),
            shift => {
                let (head, kind) = head(&session, devices, &previous, shift, block, options)?;
                (Some(head), kind)
            }
        };
        let resilience = plan.resilience(kind, options.hash, block);
        match head {
            None => plan.mark(
                ReencryptMode::Decrypt,
                vec![Segment { id: 0, ..previous.clone() }],
                &[(&previous, "backup-previous", digest), (&last, "backup-final", None)],
                digest,
                resilience,
            )?,
            Some(head) => {
                let moved = Segment { offset: 0, size: SegmentSize::Fixed(head), ..previous.clone() };
                let mut active = vec![Segment { id: 0, ..moved.clone() }];
                if head < run(&previous, devices.data.size()) {
                    active.push(behind(&previous, head));
                }
                let backups = [
                    (&moved, "backup-moved-segment", digest),
                    (&previous, "backup-previous", digest),
                    (&last, "backup-final", None),
                ];
                let shifting = with_shift(resilience, Shift(previous.offset))?;
                plan.mark(ReencryptMode::Decrypt, active, &backups, digest, shifting)?;
            }
        }
        let metadata = plan.verified(Some(&key), None)?;
        let state = metadata.reencryption()?;
        let checksums = matches!(state.resilience, Resilience::Checksum(_));
        check_course(&metadata, devices, block, checksums, options.part)?;
        let next = session.next(metadata)?;
        if let Some(head) = head {
            self.check_front(devices, previous.offset, head, options.overwrite_front)?;
            self.move_head(devices, previous.offset, head)?;
        }
        session.commit(next)?;
        let volume = session.volume;
        let state = volume.metadata().reencryption()?;
        Rewriting::new(devices, volume, state, Some(&key), None)?.of_part(options.part)
    }

    /// What is in front of the data must be the header of this volume; or, byte for byte, what this header is a copy of, the head of the
    /// data, which an earlier try had begun to move there, or nothing. Between header and data is what nobody reads.
    fn check_front(
        &self,
        devices: Devices<'_>,
        shift: u64,
        head: u64,
        overwrite: bool,
    ) -> Result<(), ReencryptError> {
        let is_ours = Self::read(devices.data).is_ok_and(|there| there.uuid() == self.uuid());
        if overwrite || is_ours {
            return Ok(());
        }
        let [mut front, mut source, mut copy] = [(); 3].map(|()| SecretBytes::zeroed(STEP));
        for (at, len) in steps(head.min(self.header_size())) {
            let (Some(front), Some(source), Some(copy)) =
                (front.get_mut(..len), source.get_mut(..len), copy.get_mut(..len))
            else {
                break;
            };
            devices.data.read_at(at, front)?;
            // cannot overflow: inside the device.
            devices.data.read_at(shift.saturating_add(at), source)?;
            devices.header.read_at(at, copy)?;
            let known =
                |((byte, data), header): ((&u8, &u8), &u8)| *byte == *data || *byte == *header || *byte == 0;
            if !front.iter().zip(source.iter()).zip(copy.iter()).all(known) {
                return Err(ReencryptError::ForeignFront { bytes: shift });
            }
        }
        Ok(())
    }

    /// Copies the head of the data to the beginning of its device, and takes away what else could be taken for a header there.
    fn move_head(&self, devices: Devices<'_>, shift: u64, head: u64) -> Result<(), ReencryptError> {
        let mut buf = SecretBytes::zeroed(STEP);
        for (at, len) in steps(head) {
            let Some(piece) = buf.get_mut(..len) else { break };
            // cannot overflow: inside the device.
            devices.data.read_at(shift.saturating_add(at), piece)?;
            devices.data.write_at(at, piece)?;
        }
        let second = self.pair.header.binary.header_size;
        // cannot overflow: a header is far smaller.
        if second >= head && second.saturating_add(FRONT as u64) <= shift {
            devices.data.write_at(second, &[0; FRONT])?;
        }
        Ok(devices.data.flush()?)
    }
}

/// How long the head is, and what protects it.
///
/// Where the head alone is left, cryptsetup 2.6.1 takes it for as long as the data moves (or as all data) when it resumes, and refuses
/// what it makes of a head that is shorter. So by hashes the head is as long as that. A journal may have no room for it.
fn head(
    session: &Session<'_>,
    devices: Devices<'_>,
    previous: &Segment,
    shift: u64,
    block: u32,
    options: &DecryptOptions,
) -> Result<(u64, ResilienceKind), ReencryptError> {
    let (_, area) = session.metadata().largest_free_area().ok_or(ReencryptError::NoRoom)?;
    let block = u64::from(block);
    let total = run(previous, devices.data.size());
    let whole = shift.min(total);
    if whole == total && !total.is_multiple_of(block) {
        return Err(ReencryptError::Misaligned { size: total, multiple: block });
    }
    match options.resilience {
        ResilienceKind::None => return Err(ReencryptError::UnknownKind),
        ResilienceKind::Checksum => {
            let hash = options.hash.unwrap_or(Hash::Sha256).output_len() as u64;
            // cannot be divided by 0: a digest has bytes. An area for more hashes than there are sectors bounds nothing.
            let room = area.checked_div(hash).unwrap_or(0).saturating_mul(block);
            if whole <= room.min(LONGEST_HEAD) && whole.is_multiple_of(block) {
                return Ok((whole, ResilienceKind::Checksum));
            }
        }
        ResilienceKind::Journal => {}
    }
    let most = match whole <= area {
        true => whole,
        false => area.min(options.head.unwrap_or(LONGEST_HEAD)),
    };
    // cannot be less: a remainder. A block has bytes.
    match most.saturating_sub(most.checked_rem(block).unwrap_or(0)) {
        0 => Err(ReencryptError::NoRoom),
        head => Ok((head, ResilienceKind::Journal)),
    }
}

fn with_shift(resilience: Resilience, shift: Shift) -> Result<Resilience, ReencryptError> {
    Ok(match resilience {
        Resilience::Journal => Resilience::DataShiftJournal(shift),
        Resilience::Checksum(Checksums { hash, sector_size }) => {
            Resilience::DataShiftChecksum(Checksums { hash, sector_size }, shift)
        }
        _ => return Err(ReencryptError::UnknownKind),
    })
}

/// The data behind its head.
fn behind(previous: &Segment, head: u64) -> Segment {
    let mut kind = previous.kind.clone();
    if let SegmentKind::Crypt { iv_tweak, .. } = &mut kind {
        *iv_tweak = head / 512;
    }
    let size = match previous.size {
        // cannot be less: the head is a part of the data.
        SegmentSize::Fixed(bytes) => SegmentSize::Fixed(bytes.saturating_sub(head)),
        SegmentSize::Dynamic => SegmentSize::Dynamic,
    };
    // cannot overflow: inside the device.
    Segment { id: 1, offset: previous.offset.saturating_add(head), size, flags: Vec::new(), kind }
}

/// Offsets and lengths of the pieces of a length.
fn steps(len: u64) -> impl Iterator<Item = (u64, usize)> {
    (0..len).step_by(STEP).map(move |at| {
        // cannot be less: the range ends at the length. What does not fit in a `usize` is more than a step.
        (at, usize::try_from(len.saturating_sub(at)).map_or(STEP, |left| left.min(STEP)))
    })
}

#[cfg(test)]
mod tests;
