//! Headers are read and written under the device's lock, and every lock is given back.

use std::sync::Mutex;

use atrest_device::{BlockDevice, Cause, DeviceError, Geometry, LockMode, Media, Operation, Storage};
use atrest_testkit::FaultDevice;
use atrest_testkit::fault::Fault;
use atrest_volume::luks2::Luks2;
use atrest_volume::{
    ChangeError, Credential, Devices, FormatError, FormatOptions, KeyslotOptions, LockedVolume, OpenError,
    Passphrase, PbkdfKind, PbkdfOptions, Priority, Relabel, RestoreOptions, UnlockOptions, VolumeFormat,
    VolumeKey, header_backup, header_restore,
};

/// A device that another process could reach. It notes what happens to its header without a lock.
struct Shared {
    device: FaultDevice,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: Vec<LockMode>,
    taken: u32,
    /// The lock can't be had.
    busy: bool,
    unprotected: Vec<String>,
}

/// Bytes of header and keyslots.
const HEADER: u64 = 2 << 20;

impl Shared {
    fn new() -> Self {
        Self { device: FaultDevice::zeroed(4 << 20), state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("one thread")
    }

    /// Runs an operation. All that it does to the header is under a lock, of which none is left.
    fn checked<R>(&self, what: &str, operation: impl FnOnce() -> R) -> R {
        let before = self.state().taken;
        let result = operation();
        let state = self.state();
        assert_eq!((&state.held, &state.unprotected), (&vec![], &vec![]), "{what}");
        assert!(state.taken > before, "{what} takes no lock");
        result
    }
}

impl BlockDevice for Shared {
    fn size(&self) -> u64 {
        self.device.size()
    }

    fn geometry(&self) -> Geometry {
        Geometry::default()
    }

    fn is_read_only(&self) -> bool {
        self.device.is_read_only()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let mut state = self.state();
        // The magic alone tells which format's lock is to be taken.
        if state.held.is_empty() && offset < HEADER && buf.len() > 8 {
            state.unprotected.push(format!("read of {} bytes at {offset}", buf.len()));
        }
        self.device.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let mut state = self.state();
        if !state.held.contains(&LockMode::Exclusive) {
            state.unprotected.push(format!("write of {} bytes at {offset}", data.len()));
        }
        self.device.write_at(offset, data)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.device.flush()
    }
}

impl Media for Shared {
    fn storage(&self) -> Option<Storage> {
        None
    }

    fn read_media_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.read_at(offset, buf)
    }

    fn lock_metadata(&self, mode: LockMode) -> Result<(), DeviceError> {
        let mut state = self.state();
        if state.busy {
            return Err(DeviceError::new(Operation::Read, 0, 0, Cause::Gone));
        }
        state.held.push(mode);
        state.taken += 1;
        Ok(())
    }

    fn unlock_metadata(&self) {
        self.state().held.pop().expect("a lock is held");
    }
}

fn pass(text: &str) -> Passphrase {
    Passphrase::copy_from(text.as_bytes())
}

fn keyslot() -> KeyslotOptions {
    let pbkdf = PbkdfOptions {
        kind: Some(PbkdfKind::Pbkdf2),
        forced_iterations: Some(1000),
        ..PbkdfOptions::default()
    };
    KeyslotOptions { pbkdf, ..KeyslotOptions::default() }
}

fn options(format: VolumeFormat) -> FormatOptions {
    let keyslots_size = (format == VolumeFormat::Luks2).then_some(8 * 258_048);
    // LUKS1's areas of 32-byte keys end before 2 MiB, too.
    FormatOptions { key_len: Some(32), keyslots_size, keyslot: keyslot(), ..FormatOptions::default() }
}

#[test]
fn whatever_reads_or_changes_a_header_holds_its_lock() {
    for format in [VolumeFormat::Luks1, VolumeFormat::Luks2] {
        let device = Shared::new();
        let (devices, one) = (Devices::together(&device), pass("one"));
        let made =
            device.checked("format", || atrest_volume::format(devices, format, &one, &options(format)));
        let mut volume = made.expect("formats");
        let by_one = Credential::Passphrase(&one, None);
        device.checked("read", || LockedVolume::read(&device)).expect("reads");
        let unlock = || volume.unlock(devices, &one, &UnlockOptions::default()).map(drop);
        device.checked("unlock", unlock).expect("unlocks");
        device
            .checked("unlock in vain", || volume.test_passphrase(&device, &pass("x"), None))
            .expect_err("no");
        let two = pass("two");
        device.checked("add", || volume.add_key(&device, by_one, &two, &keyslot())).expect("adds");
        let changed = device.checked("change", || volume.change_key(&device, &two, None, &two, &keyslot()));
        let changed = changed.expect("changes");
        let uuid = Some("01234567-89ab-4def-8123-456789abcdef");
        let new = Relabel { uuid, ..Relabel::default() };
        device.checked("relabel", || volume.relabel(&device, &new)).expect("sets");
        let backup = device.checked("backup", || header_backup(&device)).expect("a backup");
        device.checked("kill", || volume.kill_slot(&device, changed, false)).expect("removes");
        device.checked("refused", || volume.kill_slot(&device, 0, false)).expect_err("the last one");
        let restore = || header_restore(&device, &backup, RestoreOptions::default());
        device.checked("restore", restore).expect("restores");
        let mut volume = device.checked("read", || LockedVolume::read(&device)).expect("reads");
        device.checked("remove", || volume.remove_key(&device, &two, false)).expect("removes");
        if let Ok(luks2) = volume.luks2_mut() {
            only_luks2(&device, luks2);
        }
        if format == VolumeFormat::Luks1 {
            device.checked("nothing to repair", || volume.repair(&device)).expect_err("intact");
            device.device.write_at(208 + 48 + 44, &[0xff; 4]).expect("stripes of keyslot 1");
            device.checked("repair", || atrest_volume::repair(&device)).expect("repairs");
        }
        device.checked("erase", || volume.erase(&device)).expect("erases");
    }
}

fn only_luks2(device: &Shared, luks2: &mut Luks2) {
    let (one, token) = (pass("one"), "{\"type\":\"t\",\"keyslots\":[]}");
    device.checked("priority", || luks2.set_priority(device, 0, Priority::Prefer)).expect("sets");
    let key = VolumeKey::copy_from(&[3; 32]);
    device.checked("unbound", || luks2.add_unbound_key(device, &key, &one, &keyslot())).expect("adds");
    device.checked("import", || luks2.import_token(device, None, token)).expect("imports");
    device.checked("replace", || luks2.replace_token(device, 0, token)).expect("replaces");
    device.checked("token", || luks2.remove_token(device, 0)).expect("removes");
    device.device.write_at(4200, b"damage").expect("writes");
    device.checked("repair", || luks2.repair(device)).expect("repairs");
}

#[test]
fn without_the_lock_nothing_is_read_written_or_derived() {
    for format in [VolumeFormat::Luks1, VolumeFormat::Luks2] {
        let device = Shared::new();
        let (devices, one) = (Devices::together(&device), pass("one"));
        let mut volume = atrest_volume::format(devices, format, &one, &options(format)).expect("formats");
        let backup = header_backup(&device).expect("a backup");
        device.state().busy = true;
        device.device.forget();
        assert!(matches!(LockedVolume::read(&device), Err(OpenError::Device(_))));
        assert!(matches!(header_backup(&device), Err(OpenError::Device(_))));
        let formatted = atrest_volume::format(devices, format, &one, &options(format));
        assert!(matches!(formatted, Err(FormatError::Device(_))));
        assert!(volume.unlock(devices, &one, &UnlockOptions::default()).is_err());
        let device_failed = |result: Result<(), ChangeError>| {
            assert!(
                matches!(result, Err(ChangeError::Device(_) | ChangeError::Open(OpenError::Device(_)))),
                "{result:?}"
            );
        };
        device_failed(volume.kill_slot(&device, 0, true));
        device_failed(volume.erase(&device));
        let uuid = volume.uuid().to_owned();
        device_failed(volume.relabel(&device, &Relabel { uuid: Some(&uuid), ..Relabel::default() }));
        device_failed(header_restore(&device, &backup, RestoreOptions::default()));
        device_failed(atrest_volume::repair(&device).map(drop));
        let state = device.state();
        assert!(state.held.is_empty() && device.device.recording().events().is_empty());
        assert!(state.unprotected.is_empty(), "{:?}", state.unprotected);
    }
}

/// Seconds of key derivation are not spent on what can't be written.
#[test]
fn a_device_for_reading_only_is_refused_before_its_lock_is_taken() {
    let device = Shared::new();
    let one = pass("one");
    let format = VolumeFormat::Luks2;
    let mut volume =
        atrest_volume::format(Devices::together(&device), format, &one, &options(format)).expect("formats");
    let taken = device.state().taken;
    device.device.fail(Fault::ReadOnly);
    let added = volume.add_key(&device, Credential::Passphrase(&one, None), &one, &keyslot());
    let Err(ChangeError::Device(error)) = added else { panic!("{added:?}") };
    assert_eq!((error.cause, device.state().taken), (Cause::ReadOnly, taken));
    let formatted = atrest_volume::format(Devices::together(&device), format, &one, &options(format));
    assert!(matches!(formatted, Err(FormatError::Device(error)) if error.cause == Cause::ReadOnly));
    assert_eq!(device.state().taken, taken);
}
