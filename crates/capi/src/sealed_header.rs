//! Sealed volumes behind a header: a passphrase opens them.

use core::ffi::c_int;

use atrest_device::FlashRegion;
use atrest_flash::sealed::{HeaderAnchor, SealedKey, SealedLayout, SealedOptions, Tickets};
use atrest_flash::{AnchorHeader, FlashHeader};
use atrest_keyslot::flash::{FlashKey, FlashSizes, Freshness, Params, Protection, TicketPolicy};

use crate::aead::{Setup, TAG_LEN, is_here};
use crate::format::{self, Format};
use crate::handle::bytes;
use crate::medium::{Driver, Medium};
use crate::passphrase::{Random, Unlock, change, destroy};
use crate::sealed::{Memory, Options, Sealed, SealedState};
use crate::status::{Status, returned};
use crate::store::{Kept, Store};

/// Opens a volume behind a header.
///
/// # Safety
///
/// Pointers are null or valid, and buffers are as long as is said, as `atrest.h` asks for. Memory, medium and store are lent until the
/// volume is closed, and what `unlock` names during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_unlock(
    sealed: *mut Sealed,
    medium: *const Medium,
    store: *const Store,
    unlock: *const Unlock,
    options: *const Options,
    memory: *const Memory,
    random: *const Random,
) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe {
        let all = (medium.as_ref(), unlock.as_ref(), memory.as_ref(), random.as_ref());
        let (Some(medium), Some(unlock), Some(memory), Some(random)) = all else {
            return Status::Argument.into();
        };
        Sealed::open(sealed, SealedState::EMPTY, |state| {
            let options = Options::of(options)?;
            let kept = Kept::of(store)?;
            let mut parts = unlock.parts()?;
            let header = FlashHeader::open(Driver::new(*medium)?, parts.buffer)?;
            if !matches!(header.header()?.params().protection, Protection::Sealed { .. }) {
                return Err(Status::NotSealed);
            }
            let mut key = FlashKey::empty();
            header.unlock(None, parts.passphrase, &mut parts.kdf, parts.device.as_dyn(), &mut key)?;
            let result = behind(header, kept, &key, options, memory, random, |setup| state.mount(setup));
            key.clear();
            result
        })
    })
}

/// Makes a header and an empty volume behind it, and opens that.
///
/// # Safety
///
/// As for [`atrest_sealed_unlock`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_format_header(
    sealed: *mut Sealed,
    medium: *const Medium,
    store: *const Store,
    unlock: *const Unlock,
    format: *const Format,
    options: *const Options,
    memory: *const Memory,
    random: *const Random,
) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe {
        let all = (medium.as_ref(), unlock.as_ref(), format.as_ref(), memory.as_ref(), random.as_ref());
        let (Some(medium), Some(unlock), Some(format), Some(memory), Some(random)) = all else {
            return Status::Argument.into();
        };
        Sealed::open(sealed, SealedState::EMPTY, |state| {
            let options = Options::of(options)?;
            let mut kept = Kept::of(store)?;
            let (planned, layout) = planned(medium, format, options)?;
            memory.check(&layout)?;
            // Before a header is written that no store knows of.
            if atrest_device::TrustedStore::load(&mut kept)?.is_some() {
                return Err(Status::StoreInUse);
            }
            let mut key = FlashKey::empty();
            let what = (planned.cipher, planned.data_unit, planned.protection);
            let header = format::make(medium, unlock, format, what, *random, &mut key)?;
            let result = behind(header, kept, &key, options, memory, random, |setup| state.make(setup));
            key.clear();
            result
        })
    })
}

/// What the header of a new volume will say, but for its identifier.
fn planned(
    medium: &Medium,
    format: &Format,
    options: SealedOptions,
) -> Result<(Params, SealedLayout), Status> {
    let cipher = crate::key::cipher(format.cipher)?;
    if !is_here(cipher) {
        return Err(Status::NotHere);
    }
    let tickets = match options.tickets {
        Tickets::Slot => TicketPolicy::Slot,
        Tickets::Store => TicketPolicy::Store,
    };
    let Medium { read_size, prog_size, erase_size, block_count, .. } = *medium;
    let params = Params {
        cipher,
        key_len: format.key_len(cipher)?,
        protection: Protection::Sealed { tag_len: TAG_LEN, store: Freshness::Record, tickets },
        uuid: [0; 16],
        sizes: FlashSizes { read_size, prog_size, erase_size, block_count },
        data_unit: options.payload,
    };
    let layout = SealedLayout::planned(&params).map_err(|_| Status::Option)?;
    Ok((Params { data_unit: layout.payload(), ..params }, layout))
}

/// Runs with the volume behind a header.
///
/// # Safety
///
/// As for [`atrest_sealed_unlock`].
unsafe fn behind(
    header: FlashHeader<Driver, &'static mut [u8]>,
    store: Kept,
    key: &FlashKey,
    options: SealedOptions,
    memory: &Memory,
    random: &Random,
    run: impl FnOnce(Setup<'_>) -> Result<(), Status>,
) -> Result<(), Status> {
    let params = *header.header()?.params();
    let found = header.found()?;
    let Protection::Sealed { tag_len: TAG_LEN, store: Freshness::Record, .. } = params.protection else {
        return Err(Status::NotHere);
    };
    // Of the header's own sizes nothing is left to the caller.
    let of_header = SealedOptions::of(&params).ok_or(Status::NotSealed)?;
    let options = SealedOptions { payload: of_header.payload, tickets: of_header.tickets, ..options };
    let layout = SealedLayout::of(&params).map_err(|_| Status::Damaged)?;
    let device = FlashRegion::new(
        header.into_device(),
        params.sizes.first_data_block(),
        layout.medium().block_count(),
    )?;
    // SAFETY: the caller's promise.
    let (table, buffer) = unsafe { memory.lent() }?;
    let sealed_key = SealedKey { volume_key: key.expose(), uuid: key.uuid(), header: Some(found) };
    let random = &mut { *random };
    run(Setup { cipher: params.cipher, device, store, table, buffer, key: sealed_key, options, random })
}

/// Changes the passphrase of the keyslot that `unlock` opens, at the cost that it has, and anchors the new header.
///
/// # Safety
///
/// As for [`atrest_sealed_unlock`]. The volume is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_change_passphrase(
    medium: *const Medium,
    store: *const Store,
    unlock: *const Unlock,
    passphrase: *const u8,
    passphrase_len: usize,
    random: *const Random,
) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe {
        let (Some(medium), Some(unlock), Some(random)) = (medium.as_ref(), unlock.as_ref(), random.as_ref())
        else {
            return Status::Argument.into();
        };
        Kept::of(store).and_then(|kept| {
            let new = bytes(passphrase.cast(), passphrase_len)?;
            let mut anchor = HeaderAnchor::new(kept);
            let anchor: &mut dyn AnchorHeader = &mut anchor;
            change(medium, unlock, new, *random, Some(anchor))
        })
    })
}

/// Destroys every key of a volume, in both copies of its header, and makes the store forget headers that had them.
///
/// # Safety
///
/// As for [`atrest_sealed_unlock`]. The volume is closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atrest_sealed_destroy_keys(
    medium: *const Medium,
    store: *const Store,
    buffer: *mut u8,
    buffer_len: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    returned(unsafe {
        Kept::of(store).and_then(|kept| {
            let mut anchor = HeaderAnchor::new(kept);
            let anchor: &mut dyn AnchorHeader = &mut anchor;
            destroy(medium, buffer, buffer_len, Some(anchor))
        })
    })
}
