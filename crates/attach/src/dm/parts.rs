//! What the kernel is told of each part of a volume. All of it is encrypted, but for what BitLocker keeps for itself or has not encrypted,
//! and for what a re-encryption of LUKS2 has not encrypted yet, or has decrypted.

use atrest_volume::{CryptTarget, Protection, Segment, Volume, VolumeFormat};

use super::error::DmError;
use super::node::major_minor;

/// A part of a mapping.
pub enum Part<'a> {
    /// dm-crypt's.
    Crypt(&'a CryptTarget),
    /// Not encrypted: dm-linear's.
    Clear(&'a Segment),
    /// Reads as zeros: dm-zero's.
    Zeros(&'a Segment),
}

/// The parts of a volume, in order. Of a cascade, the cipher on top.
///
/// # Errors
/// [`DmError::NoKey`] if the volume has not kept its key, [`DmError::Shown`] if a part is shown as something else than it is.
pub fn of(volume: &Volume) -> Result<Vec<Part<'_>>, DmError> {
    let (segments, targets) = (volume.segments(), volume.targets());
    if !matches!(volume.format(), VolumeFormat::BitLocker | VolumeFormat::Luks2) {
        return match targets.is_empty() || targets.len() < segments.len() {
            true => Err(DmError::NoKey),
            false => Ok(targets.iter().take(segments.len()).map(Part::Crypt).collect()),
        };
    }
    let part = |segment| part(segment, targets);
    segments.iter().map(part).collect()
}

fn part<'a>(segment: &'a Segment, targets: &'a [CryptTarget]) -> Result<Part<'a>, DmError> {
    match &segment.protection {
        Protection::Identity => Ok(Part::Clear(segment)),
        Protection::Shown(unit) if unit.iter().all(|byte| *byte == 0) => Ok(Part::Zeros(segment)),
        Protection::Shown(_) => Err(DmError::Shown),
        _ => {
            let its = |target: &&CryptTarget| (target.start, target.len) == (segment.start, segment.len);
            targets.iter().find(its).map(Part::Crypt).ok_or(DmError::NoKey)
        }
    }
}

/// The line of a dm-linear table for what begins at byte `offset` of the device of that number.
pub fn linear(device: u64, offset: u64) -> String {
    let (major, minor) = major_minor(device);
    format!("{major}:{minor} {}", offset / 512)
}

#[cfg(test)]
mod tests {
    use atrest_volume::VolumeKey;

    use super::*;

    /// A volume of LUKS2 in the middle of its encryption: encrypted, then plaintext.
    #[test]
    fn what_is_not_encrypted_yet_is_linear() {
        let segment = |start, protection| Segment { start, len: 4096, media_offset: 16 << 20, protection };
        let target = |start| CryptTarget {
            start,
            len: 4096,
            media_offset: 16 << 20,
            cipher: "aes-xts-plain64".into(),
            key: VolumeKey::copy_from(&[1; 64]),
            digest: Some(1),
            iv_offset: 0,
            data_unit: 4096,
            iv_large: false,
            tags: None,
        };
        let segments = || {
            let encrypted = segment(0, Protection::Elsewhere { data_unit: 4096 });
            vec![encrypted, segment(4096, Protection::Identity)]
        };
        let volume = |targets| Volume::new(VolumeFormat::Luks2, segments()).with_targets(targets);
        let kept = volume(vec![target(0)]);
        let parts = of(&kept).expect("parts");
        let [Part::Crypt(first), Part::Clear(second)] = &parts[..] else { panic!("other parts") };
        assert_eq!((first.start, second.start), (0, 4096));
        assert!(matches!(of(&volume(Vec::new())), Err(DmError::NoKey)));
        assert!(matches!(of(&volume(vec![target(4096)])), Err(DmError::NoKey)), "the key of another segment");
    }

    #[test]
    fn parts_of_bitlocker_are_what_they_are_protected_by() {
        let segment = |start, protection| Segment { start, len: 512, media_offset: 7 * 512, protection };
        let target = CryptTarget {
            start: 0,
            len: 512,
            media_offset: 0,
            cipher: "aes-xts-plain64".into(),
            key: VolumeKey::copy_from(&[1; 32]),
            digest: None,
            iv_offset: 0,
            data_unit: 512,
            iv_large: false,
            tags: None,
        };
        let encrypted = || segment(0, Protection::Elsewhere { data_unit: 512 });
        let clear = segment(512, Protection::Identity);
        let zeros = segment(1024, Protection::Shown(vec![0; 512].into()));
        let volume = |segments| Volume::new(VolumeFormat::BitLocker, segments);
        let keyless = volume(vec![encrypted()]);
        assert!(matches!(of(&keyless), Err(DmError::NoKey)));
        let kept = volume(vec![encrypted(), clear, zeros]).with_targets(vec![target]);
        let parts = of(&kept).expect("parts");
        let [Part::Crypt(target), Part::Clear(clear), Part::Zeros(zeros)] = &parts[..] else {
            panic!("other parts")
        };
        assert_eq!((target.start, clear.start, zeros.start), (0, 512, 1024));
        assert_eq!(linear(0x801, clear.media_offset), "8:1 7");
        let shown = volume(vec![segment(0, Protection::Shown(vec![1; 512].into()))]);
        assert!(matches!(of(&shown), Err(DmError::Shown)));
        let plain = Volume::new(VolumeFormat::Plain, vec![segment(0, Protection::Identity)]);
        assert!(matches!(of(&plain), Err(DmError::NoKey)));
    }
}
