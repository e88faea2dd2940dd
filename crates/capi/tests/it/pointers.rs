//! The functions that C calls, called by pointers from here. Short enough for an interpreter that watches every access to
//! memory (scripts/miri): lent buffers lie alone in the heap, and are just as long as is said.

use std::ffi::{c_int, c_void};
use std::ptr::{from_mut, from_ref, null, null_mut};
use std::slice;

use atrest_capi::{
    Flash, Geometry, ITS_ENTRY, ITS_WORDS, ItsOptions, Key, Medium, Memory, Random, SEALED_WORDS, Sealed,
    Sizes, Status, Storage, Store, Unlock, WORDS, atrest_flash_change_passphrase, atrest_flash_close,
    atrest_flash_destroy_keys, atrest_flash_erase, atrest_flash_geometry, atrest_flash_is_blank,
    atrest_flash_open, atrest_flash_prog, atrest_flash_read, atrest_flash_sync, atrest_its_close,
    atrest_its_format, atrest_its_get, atrest_its_open, atrest_its_set, atrest_message, atrest_sealed_close,
    atrest_sealed_erase, atrest_sealed_format, atrest_sealed_open, atrest_sealed_prog, atrest_sealed_read,
    atrest_sealed_sizes,
};
use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry};
use atrest_flash::{Existing, FlashHeader, FormatOptions, NewSlot};
use atrest_keyslot::flash::{FlashCipher, FlashKey, KdfCost, Pbkdf2Kdf, Protection};
use atrest_secret::{OsRandom, Random as _};
use atrest_testkit::flash::{EmulatedFlash, SharedFlash};

const OK: c_int = Status::Ok as c_int;
const UNIT: usize = 512;

/// A volume of this cipher that opens with "one", on a medium of eight blocks.
fn formatted(cipher: FlashCipher, key_len: u8) -> SharedFlash {
    let geometry = FlashGeometry::new(16, 64, 2048, 8).expect("a geometry");
    let flash = SharedFlash::new(EmulatedFlash::new(geometry));
    let options = FormatOptions {
        cipher,
        key_len,
        data_unit: UNIT as u32,
        protection: Protection::Encrypted,
        existing: Existing::Refuse,
    };
    let first = NewSlot {
        passphrase: b"one",
        cost: KdfCost::Pbkdf2 { iterations: 1 },
        kdf: &mut Pbkdf2Kdf(|_: u64| {}),
        device: None,
        random: &mut OsRandom,
    };
    FlashHeader::format(flash.clone(), [0; 64], &options, first, &mut FlashKey::empty()).expect("formats");
    flash
}

fn code(result: Result<(), FlashError>) -> c_int {
    match result.map_err(|error| error.cause) {
        Ok(()) => 0,
        Err(FlashCause::BadBlock { .. } | FlashCause::Uncorrectable) => -84,
        Err(_) => -5,
    }
}

/// # Safety
///
/// Called by the library, with what `medium` says.
unsafe fn flash(context: *mut c_void) -> SharedFlash {
    // SAFETY: the context is a medium that lives as long as the volume is open.
    unsafe { &*context.cast::<SharedFlash>() }.clone()
}

unsafe extern "C" fn read(context: *mut c_void, address: u64, buffer: *mut c_void, len: usize) -> c_int {
    // SAFETY: the library's promise.
    let (mut flash, buffer) = unsafe { (flash(context), slice::from_raw_parts_mut(buffer.cast(), len)) };
    code(flash.read(address, buffer))
}

unsafe extern "C" fn prog(context: *mut c_void, address: u64, data: *const c_void, len: usize) -> c_int {
    // SAFETY: the library's promise.
    let (mut flash, data) = unsafe { (flash(context), slice::from_raw_parts(data.cast(), len)) };
    code(flash.prog(address, data))
}

unsafe extern "C" fn erase(context: *mut c_void, address: u64, len: u64) -> c_int {
    // SAFETY: the library's promise.
    code(unsafe { flash(context) }.erase(address, len))
}

unsafe extern "C" fn fill(_: *mut c_void, buffer: *mut c_void, len: usize) -> c_int {
    // SAFETY: the library's promise.
    let buffer = unsafe { slice::from_raw_parts_mut(buffer.cast(), len) };
    c_int::from(OsRandom.fill(buffer).is_err())
}

fn medium(flash: &SharedFlash) -> Medium {
    Medium {
        context: from_ref(flash).cast_mut().cast(),
        read: Some(read),
        prog: Some(prog),
        erase: Some(erase),
        sync: None,
        read_size: 16,
        prog_size: 64,
        erase_size: 2048,
        erased_byte: 0xff,
        block_count: 8,
    }
}

/// A passphrase and a buffer, each of its own.
struct Lent {
    passphrase: Box<[u8]>,
    buffer: Box<[u8]>,
}

impl Lent {
    fn new(passphrase: &[u8]) -> Self {
        Self { passphrase: passphrase.into(), buffer: vec![0; UNIT].into() }
    }

    fn unlock(&mut self) -> Unlock {
        Unlock {
            passphrase: self.passphrase.as_ptr(),
            passphrase_len: self.passphrase.len(),
            buffer: self.buffer.as_mut_ptr(),
            buffer_len: self.buffer.len(),
            kdf_memory: null_mut(),
            kdf_memory_len: 0,
            between: None,
            between_context: null_mut(),
            device: null(),
        }
    }
}

/// Memory as C has it: zeros.
fn closed() -> Box<Flash> {
    let words = Box::new([0_u64; WORDS]);
    // SAFETY: an `atrest_flash` is so many words, and zeros are a closed one.
    unsafe { Box::from_raw(Box::into_raw(words).cast()) }
}

fn use_volume(cipher: FlashCipher, key_len: u8) {
    let flash = formatted(cipher, key_len);
    let medium = medium(&flash);
    let (mut lent, mut place) = (Lent::new(b"one"), closed());
    let unlock = lent.unlock();
    let place = from_mut(&mut *place);
    let data: Box<[u8]> = (0..UNIT).map(|i| i as u8).collect();
    let mut back: Box<[u8]> = vec![0; UNIT].into();
    let mut geometry = Geometry::default();
    // SAFETY: every pointer is to what lives until the end of this function, and is as long as is said.
    unsafe {
        assert_eq!(atrest_flash_open(place, &medium, &unlock), OK);
        assert_eq!(atrest_flash_open(place, &medium, &unlock), Status::Argument as c_int, "it is open");
        assert_eq!(atrest_flash_geometry(place, &mut geometry), OK);
        assert_eq!((geometry.erase_size, geometry.prog_size as usize % 64), (2048, 0));
        assert_eq!(atrest_flash_erase(place, 0, 2048), OK);
        assert_eq!(atrest_flash_is_blank(place, 0, UNIT as u64), 1);
        assert_eq!(atrest_flash_prog(place, 0, data.as_ptr().cast(), data.len()), OK);
        assert_eq!(atrest_flash_is_blank(place, 0, UNIT as u64), 0);
        assert_eq!(atrest_flash_read(place, 0, back.as_mut_ptr().cast(), back.len()), OK);
        assert_eq!(atrest_flash_sync(place), OK);
        assert_eq!(data, back);
        // No bytes may lie nowhere, others not.
        assert_eq!(atrest_flash_read(place, 0, null_mut(), 0), OK);
        assert_eq!(atrest_flash_read(place, 0, null_mut(), UNIT), Status::Argument as c_int);
        assert_eq!(atrest_flash_geometry(place, null_mut()), Status::Argument as c_int);
        atrest_flash_close(place);
        atrest_flash_close(place);
        assert_eq!(atrest_flash_sync(place), Status::Closed as c_int);
        atrest_flash_close(null_mut());
        assert_eq!(atrest_flash_open(null_mut(), &medium, &unlock), Status::Argument as c_int);
        assert_eq!(atrest_flash_open(place, null(), &unlock), Status::Argument as c_int);
        assert_eq!(atrest_flash_open(place, &medium, null()), Status::Argument as c_int);
    }
}

#[test]
fn a_volume_of_xts_is_used_by_pointers() {
    use_volume(FlashCipher::AesXts, 32);
}

#[test]
fn a_volume_of_adiantum_is_used_by_pointers() {
    use_volume(FlashCipher::Adiantum12, 32);
}

#[test]
fn a_passphrase_is_changed_and_keys_are_destroyed_by_pointers() {
    let flash = formatted(FlashCipher::AesXts, 32);
    let medium = medium(&flash);
    let (mut one, mut two, mut place) = (Lent::new(b"one"), Lent::new(b"two"), closed());
    let random = Random { context: null_mut(), fill: Some(fill) };
    let silent = Random { context: null_mut(), fill: None };
    let new: Box<[u8]> = b"two"[..].into();
    let (by_one, by_two, place) = (one.unlock(), two.unlock(), from_mut(&mut *place));
    // SAFETY: every pointer is to what lives until the end of this function, and is as long as is said.
    unsafe {
        let change = |random: &Random| {
            atrest_flash_change_passphrase(&medium, &by_one, new.as_ptr(), new.len(), random)
        };
        assert_eq!(change(&silent), Status::Random as c_int);
        assert_eq!(change(&random), OK);
        assert_eq!(atrest_flash_open(place, &medium, &by_one), Status::Passphrase as c_int);
        assert_eq!(atrest_flash_open(place, &medium, &by_two), OK);
        atrest_flash_close(place);
        assert_eq!(atrest_flash_destroy_keys(&medium, by_two.buffer, by_two.buffer_len), OK);
        assert_eq!(atrest_flash_open(place, &medium, &by_two), Status::NoKeys as c_int);
        let message = std::ffi::CStr::from_ptr(atrest_message(Status::NoKeys as c_int));
        assert!(message.to_str().expect("text").contains("no keyslot"));
    }
}

unsafe extern "C" fn load(context: *mut c_void, record: *mut u8) -> c_int {
    // SAFETY: the context is what `store` below has; the library's promise for the record.
    let (kept, record) =
        unsafe { (&*context.cast::<Option<[u8; 80]>>(), slice::from_raw_parts_mut(record, 80)) };
    let Some(kept) = kept else { return Status::StoreEmpty as c_int };
    record.copy_from_slice(kept);
    0
}

unsafe extern "C" fn store(context: *mut c_void, record: *const u8) -> c_int {
    // SAFETY: the context is a record that nobody else uses now; the library's promise for the other.
    let (kept, record) =
        unsafe { (&mut *context.cast::<Option<[u8; 80]>>(), slice::from_raw_parts(record, 80)) };
    *kept = record.try_into().ok();
    0
}

/// Zeros in the heap, with nothing behind them.
fn zeros<H, const N: usize>() -> Box<H> {
    assert_eq!((size_of::<H>(), align_of::<H>()), (8 * N, 8));
    // SAFETY: a handle is so many words, and zeros are a closed one.
    unsafe { Box::from_raw(Box::into_raw(Box::new([0_u64; N])).cast()) }
}

#[test]
fn a_sealed_volume_and_the_storage_on_it_are_used_by_pointers() {
    let flash =
        SharedFlash::new(EmulatedFlash::new(FlashGeometry::new(16, 64, 2048, 8).expect("a geometry")));
    let medium = medium(&flash);
    let mut record: Box<Option<[u8; 80]>> = Box::new(None);
    let kept =
        Store { pages: null(), context: from_mut(&mut *record).cast(), load: Some(load), store: Some(store) };
    let random = Random { context: null_mut(), fill: Some(fill) };
    let (bytes, uuid): (Box<[u8]>, Box<[u8]>) = ([7; 16].into(), [9; 16].into());
    let key = Key {
        cipher: FlashCipher::Ascon128.code().into(),
        bytes: bytes.as_ptr(),
        len: bytes.len(),
        uuid: uuid.as_ptr(),
    };
    let (mut volume, mut storage) = (zeros::<Sealed, SEALED_WORDS>(), zeros::<Storage, ITS_WORDS>());
    let (volume, storage) = (from_mut(&mut *volume), from_mut(&mut *storage));
    let mut sizes = Sizes::default();
    // SAFETY: every pointer is to what lives until the end of this function, and is as long as is said.
    unsafe {
        assert_eq!(atrest_sealed_sizes(&medium, null(), &mut sizes), OK);
        let mut table: Box<[u8]> = vec![0xaa; sizes.table_len].into();
        let mut buffer: Box<[u8]> = vec![0xaa; sizes.buffer_len].into();
        let memory = Memory {
            table: table.as_mut_ptr().cast(),
            table_len: table.len(),
            buffer: buffer.as_mut_ptr(),
            buffer_len: buffer.len(),
        };
        let payload = sizes.geometry.prog_size as usize;
        let mut entries: Box<[[u32; ITS_ENTRY / 4]]> = vec![[0xaaaa_aaaa; ITS_ENTRY / 4]; 3].into();
        let mut unit: Box<[u8]> = vec![0xaa; payload].into();
        let options = ItsOptions {
            entries: entries.as_mut_ptr().cast(),
            entry_count: entries.len(),
            buffer: unit.as_mut_ptr(),
            buffer_len: unit.len(),
            longest: 40,
            spares: 0,
        };
        let made = atrest_sealed_format(volume, &medium, &kept, &key, null(), &memory, &random);
        assert_eq!((made, atrest_its_format(storage, volume, &key, &options)), (OK, OK));
        let data: Box<[u8]> = [5; 40].into();
        assert_eq!(atrest_its_set(storage, 0, 1, data.len(), data.as_ptr().cast(), 0), OK);
        atrest_its_close(storage);
        assert_eq!(atrest_sealed_close(volume), OK);

        let opened = atrest_sealed_open(volume, &medium, &kept, &key, null(), &memory, &random);
        assert_eq!((opened, atrest_its_open(storage, volume, &key, &options)), (OK, OK));
        let (mut back, mut len): (Box<[u8]>, usize) = ([0; 39].into(), 0);
        assert_eq!(atrest_its_get(storage, 0, 1, 1, back.len(), back.as_mut_ptr().cast(), &mut len), OK);
        assert_eq!((&back[..], len), (&data[1..], 39));
        // The last block is the map's to take when it is full.
        let last = u64::from(sizes.geometry.erase_size) * 7;
        assert_eq!(atrest_sealed_erase(volume, last, sizes.geometry.erase_size.into()), OK);
        let whole: Box<[u8]> = vec![3; payload].into();
        let mut read: Box<[u8]> = vec![0; payload].into();
        assert_eq!(atrest_sealed_prog(volume, last, whole.as_ptr().cast(), payload), OK);
        assert_eq!(atrest_sealed_read(volume, last, read.as_mut_ptr().cast(), payload), OK);
        assert_eq!(whole, read);
        atrest_its_close(storage);
        assert_eq!(atrest_sealed_close(volume), OK);
    }
}
