//! How long the head of a decryption over its header is, and when such a decryption says that it is done.

use atrest_device::BlockDevice;
use atrest_testkit::FaultDevice;
use atrest_testkit::fault::Fault;

use super::*;
use crate::{FormatOptions, Passphrase, PbkdfKind, PbkdfOptions};

const MIB: u64 = 1 << 20;
/// Keyslots area with one keyslot and so many bytes beside it.
const KEYSLOT: u64 = 258_048;

fn keyslot_options() -> KeyslotOptions {
    let pbkdf = PbkdfOptions {
        kind: Some(PbkdfKind::Pbkdf2),
        forced_iterations: Some(1000),
        ..PbkdfOptions::default()
    };
    KeyslotOptions { pbkdf, ..KeyslotOptions::default() }
}

/// A volume whose data begins at 1 MiB, with `room` bytes for what protects the head, and a copy of its header.
struct Volume {
    data: FaultDevice,
    header: FaultDevice,
}

impl Volume {
    fn new(room: u64, total: u64) -> Self {
        let data = FaultDevice::zeroed((MIB + total) as usize);
        let format = FormatOptions {
            keyslots_size: Some(KEYSLOT + room),
            data_unit: Some(4096),
            data_offset: Some(MIB),
            keyslot: keyslot_options(),
            ..FormatOptions::default()
        };
        let one = Passphrase::copy_from(b"one");
        let luks = crate::luks2::format(Devices::together(&data), &one, &format).expect("formats");
        let header = FaultDevice::new(data.image()[..luks.header_size() as usize].to_vec());
        Self { data, header }
    }

    fn begin(&self, options: DecryptOptions) -> Result<Rewriting<'_>, ReencryptError> {
        let luks = Luks2::read(&self.header).expect("reads");
        let one = Passphrase::copy_from(b"one");
        let devices = Devices::detached(&self.header, &self.data);
        luks.begin_decryption(devices, Credential::Passphrase(&one, None), &options)
    }
}

fn options(resilience: ResilienceKind, head: Option<u64>) -> DecryptOptions {
    DecryptOptions { resilience, head, keyslot: keyslot_options(), ..DecryptOptions::default() }
}

#[test]
fn by_hashes_the_head_is_as_long_as_the_data_moves_and_otherwise_a_journal_protects_it() {
    use ResilienceKind::{Checksum, Journal};
    // 256 hashes of 4 KiB are of 1 MiB.
    let hashes = 256 * 32;
    for (kind, room, total, asked, expected) in [
        (Checksum, hashes, 4 * MIB, None, (MIB, Checksum)),
        (Checksum, hashes, 4 * MIB, Some(4096), (MIB, Checksum)),
        (Checksum, hashes - 4096, 4 * MIB, None, (4096, Journal)),
        (Checksum, hashes, MIB / 2, None, (MIB / 2, Checksum)),
        (Checksum, hashes / 2, MIB / 2, None, (MIB / 2, Checksum)),
        (Journal, hashes, 4 * MIB, None, (8192, Journal)),
        (Journal, hashes, 4 * MIB, Some(6000), (4096, Journal)),
        (Journal, hashes, 8192, Some(4096), (8192, Journal)),
        (Journal, hashes, 8192 + 4096, None, (8192, Journal)),
    ] {
        let volume = Volume::new(room, total);
        let rewriting = volume.begin(options(kind, asked)).expect("begun");
        let state = &rewriting.course.state;
        let head = state.moved.as_ref().expect("it was moved").size;
        let used = match state.resilience {
            Resilience::DataShiftChecksum(..) => Checksum,
            Resilience::DataShiftJournal(_) => Journal,
            _ => ResilienceKind::None,
        };
        assert_eq!(
            (head, used),
            (SegmentSize::Fixed(expected.0), expected.1),
            "{kind:?} {room} {total} {asked:?}"
        );
    }
    let volume = Volume::new(hashes, 4 * MIB);
    let before = volume.data.image();
    assert_eq!(volume.begin(options(ResilienceKind::None, None)).err(), Some(ReencryptError::UnknownKind));
    assert_eq!(volume.begin(options(Journal, Some(100))).err(), Some(ReencryptError::NoRoom));
    assert!(volume.data.image() == before, "it was written");
}

#[test]
fn a_head_that_is_longer_than_the_header_is_moved_again_after_an_interruption() {
    let volume = Volume::new(256 * 32, 4 * MIB);
    // Nobody reads what is between header and data.
    volume.data.write_at(MIB - 4096, &[7; 4096]).expect("written");
    let head: Vec<u8> = volume.data.image()[MIB as usize..2 * MIB as usize].to_vec();
    volume.header.fail(Fault::ReadOnly);
    // Writes from the middle of the head on fail; then the header can't be written.
    volume.data.fail(Fault::UnwritableRange { offset: MIB / 2, len: 1 });
    assert!(volume.begin(options(ResilienceKind::Checksum, None)).is_err());
    volume.data.heal();
    assert!(volume.begin(options(ResilienceKind::Checksum, None)).is_err());
    volume.header.heal();
    drop(volume.begin(options(ResilienceKind::Checksum, None)).expect("begun"));
    assert!(volume.data.image()[..MIB as usize] == head, "the head was not moved");
}

#[test]
fn what_is_not_this_volume_s_header_in_front_of_the_data_is_not_overwritten() {
    let volume = Volume::new(256 * 32, 4 * MIB);
    for at in [0, KEYSLOT] {
        let mut foreign = volume.data.image();
        foreign[..4096].fill(0);
        foreign[at as usize..][..512].fill(9);
        let foreign =
            Volume { data: FaultDevice::new(foreign), header: FaultDevice::new(volume.header.image()) };
        let before = foreign.data.image();
        foreign.data.write_at(16_384, &[0; 4096]).expect("written");
        let refused = foreign.begin(options(ResilienceKind::Checksum, None)).err();
        assert_eq!(refused, Some(ReencryptError::ForeignFront { bytes: MIB }), "{at}");
        assert!(foreign.data.image()[..16_384] == before[..16_384], "it was written");
    }
}

/// cryptsetup 2.6.1 decrypts the plaintext of a volume once more whose data is all done, and which is still marked.
#[test]
fn a_decryption_never_says_that_all_is_done_while_it_is_marked() {
    let volume = Volume::new(256 * 32, 2 * MIB);
    let mut rewriting = volume.begin(options(ResilienceKind::Checksum, None)).expect("begun");
    let behind = rewriting.next(MIB).expect("a zone").expect("the data behind the head");
    rewriting.heat(&behind, &[]).expect("hot");
    assert_eq!(rewriting.cool(&behind), Ok(false));
    let head = rewriting.next(MIB).expect("a zone").expect("the head");
    assert_eq!((head.offset, head.len, head.source), (0, MIB, 0));
    rewriting.heat(&head, &[0; 256 * 32]).expect("hot");
    volume.data.fail(Fault::UnwritableRange { offset: 2 * MIB, len: MIB });
    assert!(matches!(rewriting.cool(&head), Err(ReencryptError::Wipe(_))));
    let state = Luks2::read(&volume.header).expect("reads").metadata().reencryption().expect("marked");
    assert_eq!(state.hot, Some(0));
    volume.data.heal();
    assert_eq!(rewriting.cool(&head), Ok(true));
    let luks = Luks2::read(&volume.header).expect("reads");
    assert!(!luks.metadata().config().requirements.iter().any(Requirement::is_reencryption));
    assert!(matches!(luks.metadata().segments(), [only] if only.kind == SegmentKind::Linear));
}
