//! Header and data that share a device: no segment may reach into the header, whatever the devices are called, and
//! nothing is written when one does.

use atrest_device::{BlockDevice, DeviceError, Geometry, LockMode, Media, Storage, StorageId};
use atrest_format::luks2::{Segment, SegmentSize};
use atrest_testkit::FaultDevice;
use atrest_volume::luks2::reencrypt::{EncryptOptions, ReencryptError, ReencryptOptions, begin_encryption};
use atrest_volume::luks2::{self, Luks2};
use atrest_volume::{
    ChangeError, Devices, FormatError, FormatOptions, OptionError, RestoreOptions, UnlockError, UnlockOptions,
};

use crate::luks2::reencrypt::store;
use crate::luks2::support::{DEVICE_SIZE, KEYSLOTS_SIZE, keyslot, passphrase, small};

/// End of both header copies and the keyslots area.
const HEADER: u64 = 0x8000 + KEYSLOTS_SIZE;
const FILE: StorageId = StorageId::File { device: 7, inode: 7 };

/// A part of a device, of which it is known where it lies.
struct Part<'a> {
    device: &'a FaultDevice,
    storage: Storage,
    size: u64,
}

impl<'a> Part<'a> {
    fn new(device: &'a FaultDevice, id: StorageId, offset: u64) -> Self {
        Self { device, storage: Storage { id, offset }, size: device.size() - offset }
    }
}

impl BlockDevice for Part<'_> {
    fn size(&self) -> u64 {
        self.size
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.device.read_at(self.storage.offset + offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.device.write_at(self.storage.offset + offset, data)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.device.flush()
    }
}

impl Media for Part<'_> {
    fn storage(&self) -> Option<Storage> {
        Some(self.storage)
    }
    fn read_media_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.read_at(offset, buf)
    }
    fn lock_metadata(&self, _: LockMode) -> Result<(), DeviceError> {
        Ok(())
    }
    fn unlock_metadata(&self) {}
}

/// The header of data on another device, alone on its own.
fn detached_header() -> (FaultDevice, Luks2) {
    let (header, data) = (FaultDevice::zeroed(DEVICE_SIZE), FaultDevice::zeroed(1 << 20));
    let luks = luks2::format(Devices::detached(&header, &data), &passphrase("one"), &small());
    let luks = luks.expect("formats");
    header.forget();
    (header, luks)
}

/// Puts segments of these offsets and sizes into the header; a size of 0 is the rest of the device.
fn with_row(device: &FaultDevice, luks: &Luks2, row: &[(u64, u64)]) -> Luks2 {
    let like = luks.metadata().segments()[0].clone();
    let segment = |(id, (offset, size)): (u32, &(u64, u64))| Segment {
        id,
        offset: *offset,
        size: if *size == 0 { SegmentSize::Dynamic } else { SegmentSize::Fixed(*size) },
        ..like.clone()
    };
    let segments: Vec<Segment> = (0..).zip(row).map(segment).collect();
    let digests = [(0, segments.iter().map(|segment| segment.id).collect())];
    store(
        device,
        luks,
        luks.metadata().compose().segments(&segments, &digests).finish().expect("by the rules"),
    );
    Luks2::read(device).expect("reads")
}

fn unlock(luks: &Luks2, devices: Devices<'_>) -> Result<u64, UnlockError> {
    // Without the passphrase: where the data lies is judged before anything is derived.
    let guessed = luks.unlock(devices, &passphrase("guessed"), &UnlockOptions::default());
    let opened = luks.unlock(devices, &passphrase("one"), &UnlockOptions::default());
    match (guessed, opened) {
        (Err(UnlockError::WrongPassphrase), opened) => opened.map(|volume| volume.size()),
        (guessed, opened) => {
            let refused = guessed.expect_err("refused");
            assert_eq!(opened.expect_err("refused"), refused, "the answer depends on the passphrase");
            Err(refused)
        }
    }
}

#[test]
fn no_segment_reaches_into_the_header_by_whatever_name_its_device_is_given() {
    let rows: [&[(u64, u64)]; 4] = [
        &[(0, 0)],
        &[(0, 4096), (HEADER, 0)],
        &[(HEADER, 4096), (0, 8192)],
        &[(HEADER, 4096), (HEADER + 8192, 4096), (0, HEADER)],
    ];
    for row in rows {
        let (device, luks) = detached_header();
        let luks = with_row(&device, &luks, row);
        let (a, b) = (Part::new(&device, FILE, 0), Part::new(&device, FILE, 0));
        let names = [
            Devices::together(&device),
            Devices::detached(&device, &device),
            Devices::detached(&a, &b),
            Devices::with_header(Some(&a), &b),
            Devices::with_header(None, &a),
        ];
        for devices in names {
            let refused = UnlockError::DataOverHeader { data: 0, header: HEADER };
            assert_eq!(unlock(&luks, devices), Err(refused), "{row:?}");
        }
        assert!(device.recording().events().is_empty(), "something was written");
        // On a device of its own it is what the header says.
        let data = FaultDevice::zeroed(DEVICE_SIZE);
        assert!(unlock(&luks, Devices::detached(&device, &data)).is_ok(), "{row:?}");
    }
}

#[test]
fn where_header_and_data_are_parts_of_one_storage_the_bytes_decide() {
    const ALL: u64 = 8 << 20;
    // Header at, data at, first byte and bytes of the segment in the data, whether they touch.
    let places = [
        (0, HEADER, 0, 0, false),
        (0, HEADER - 4096, 0, 0, true),
        (0, HEADER - 4096, HEADER, 0, false),
        (0, 4096, 0, 4096, true),
        (4 << 20, 0, 0, 4 << 20, false),
        (4 << 20, 0, 0, (4 << 20) + 4096, true),
        (4 << 20, 0, 0, 0, true),
        (4 << 20, 4096, 0, (4 << 20) - 4096, false),
        (4 << 20, (4 << 20) + HEADER, 0, 0, false),
        (4 << 20, (4 << 20) + HEADER - 512, 0, 0, true),
    ];
    for (header_at, data_at, offset, len, touches) in places {
        let (small, luks) = detached_header();
        with_row(&small, &luks, &[(offset, len)]);
        let mut image = small.image();
        image.truncate(HEADER as usize);
        let mut whole = vec![0; ALL as usize];
        whole[header_at as usize..header_at as usize + image.len()].copy_from_slice(&image);
        let device = FaultDevice::new(whole);
        let header = Part::new(&device, FILE, header_at);
        let luks = Luks2::read(&header).expect("reads");
        let data = Part::new(&device, FILE, data_at);
        let found = unlock(&luks, Devices::with_header(Some(&header), &data));
        let over = matches!(found, Err(UnlockError::DataOverHeader { .. }));
        assert_eq!(over, touches, "{header_at} {data_at} {offset} {len}: {found:?}");
        assert_eq!(found.is_ok(), !touches);
        // The same numbers on another storage touch nothing.
        let other = Part::new(&device, StorageId::Disk { number: 7 }, data_at);
        assert!(unlock(&luks, Devices::with_header(Some(&header), &other)).is_ok());
    }
}

#[test]
fn nothing_is_formatted_encrypted_or_reencrypted_over_its_own_header() {
    let device = FaultDevice::zeroed(DEVICE_SIZE);
    let (a, b) = (Part::new(&device, FILE, 0), Part::new(&device, FILE, 0));
    let over = |error: &OptionError| matches!(error, OptionError::DataOverHeader { data: 0, header: HEADER });
    let formatted = luks2::format(Devices::detached(&a, &b), &passphrase("one"), &small());
    assert!(matches!(formatted, Err(FormatError::Option(error)) if over(&error)));
    let options = EncryptOptions { format: small(), ..EncryptOptions::default() };
    let begun = begin_encryption(Devices::detached(&a, &b), &passphrase("one"), options);
    let Err(ReencryptError::Format(error)) = begun else { panic!("not refused") };
    assert!(matches!(&*error, FormatError::Option(error) if over(error)), "{error:?}");
    assert!(device.recording().events().is_empty(), "something was written");

    let (device, luks) = detached_header();
    let (a, b) = (Part::new(&device, FILE, 0), Part::new(&device, FILE, 0));
    let options = ReencryptOptions { keyslot: keyslot(), ..ReencryptOptions::default() };
    let refused = ReencryptError::from(UnlockError::DataOverHeader { data: 0, header: HEADER });
    for devices in [Devices::together(&device), Devices::detached(&a, &b)] {
        let begun = luks.begin_reencryption(devices, &[(&passphrase("one"), None)], &options);
        assert_eq!(begun.err(), Some(refused.clone()));
    }
    assert!(device.recording().events().is_empty(), "something was written");
    // One that was begun where it belongs does not go on over the header.
    let data = FaultDevice::zeroed(1 << 20);
    let begun =
        luks.begin_reencryption(Devices::detached(&device, &data), &[(&passphrase("one"), None)], &options);
    drop(begun.expect("begun"));
    device.forget();
    let luks = Luks2::read(&device).expect("reads");
    for devices in [Devices::together(&device), Devices::detached(&a, &b)] {
        assert_eq!(luks.resume_reencryption(devices, &passphrase("one")).err(), Some(refused.clone()));
    }
    assert!(device.recording().events().is_empty(), "something was written");
    assert!(luks.resume_reencryption(Devices::detached(&device, &data), &passphrase("one")).is_ok());
}

#[test]
fn a_backup_of_a_detached_header_is_not_restored_over_the_beginning_of_data() {
    let (header, _) = detached_header();
    let backup = luks2::header_backup(&header).expect("a backup");
    for replace_other in [false, true] {
        let data = FaultDevice::new(vec![0x5A; DEVICE_SIZE]);
        let here = RestoreOptions { replace_other, detached: false };
        let refused = luks2::header_restore(&data, &backup, here);
        assert_eq!(refused, Err(ChangeError::BackupOfDetachedHeader));
        assert!(data.recording().events().is_empty(), "something was written");
        // Over itself, and where the caller says that the device is for the header alone.
        assert_eq!(luks2::header_restore(&header, &backup, here), Ok(()));
        assert_eq!(luks2::header_restore(&data, &backup, RestoreOptions { detached: true, ..here }), Ok(()));
    }
    // Over a volume whose data is behind its header it is another one's backup, and stays one.
    let options = FormatOptions { uuid: None, ..small() };
    let volume = FaultDevice::zeroed(DEVICE_SIZE);
    luks2::format(Devices::together(&volume), &passphrase("one"), &options).expect("formats");
    volume.forget();
    let replace = RestoreOptions { replace_other: true, detached: false };
    let refused = luks2::header_restore(&volume, &backup, replace);
    assert_eq!(refused, Err(ChangeError::BackupOfDetachedHeader));
    assert!(volume.recording().events().is_empty(), "something was written");
}
