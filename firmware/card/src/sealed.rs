//! Sealed flash on a chip: the header, a passphrase, and a trusted store in two pages of the chip's own flash.
//!
//! Each phase is a function of its own, so that its locals are gone when the next one begins; and the volume works where the header was.

use atrest_cipher::aead::AsconAead128;
use atrest_device::{FlashGeometry, FlashRegion};
use atrest_flash::sealed::store::{FRAME_LEN, PageStore};
use atrest_flash::sealed::{
    BlockState, SealedError, SealedFlash, SealedKey, SealedLayout, SealedOptions, SealedReader, Tickets,
    Verdict,
};
use atrest_flash::{FlashHeader, FoundHeader};
use atrest_keyslot::flash::{Derive, FlashCipher, FlashKey, HEADER_LEN};
use atrest_secret::Random;

use crate::medium::{BLOCK_COUNT, BLOCK_SIZE, Medium, PROG_SIZE, Pages};
use crate::task::Task;
use crate::{Memory, board, done};

/// Erase blocks of the header.
const HEADER_BLOCKS: usize = 2;
/// Erase blocks that are sealed.
pub const BLOCKS: usize = BLOCK_COUNT - HEADER_BLOCKS;
/// What the desk makes of such a medium when it is not asked for something else. A volume of other sizes is refused.
pub const LAYOUT: SealedLayout = {
    let (prog, erase) = (PROG_SIZE as u32, BLOCK_SIZE as u32);
    match FlashGeometry::new(prog, prog, erase, BLOCKS as u64) {
        Ok(medium) => match SealedLayout::new(medium, 424, 16, Tickets::Slot) {
            Ok(layout) => layout,
            Err(_) => panic!("a layout"),
        },
        Err(_) => panic!("a geometry"),
    }
};
const CELL: usize = LAYOUT.buffer_len() as usize;
/// Bytes that a record takes in a page.
const FRAME: usize = FRAME_LEN.next_multiple_of(PROG_SIZE);

type Data<'m> = FlashRegion<&'m mut Medium>;
type Table = [BlockState; BLOCKS];
/// An open volume.
pub type Volume<'v, 'm> = SealedFlash<
    AsconAead128,
    &'v mut Data<'m>,
    PageStore<&'v mut Pages, FRAME>,
    &'v mut Table,
    &'v mut [u8; CELL],
>;

/// Medium, trusted store, and the memory that a volume works in.
pub struct Chip {
    medium: Medium,
    pages: Pages,
    header: &'static mut [u8; HEADER_LEN],
    table: &'static mut Table,
}

/// What the header says of a volume that is to be opened.
struct Told {
    options: SealedOptions,
    uuid: [u8; 16],
    found: FoundHeader,
}

impl Chip {
    /// Takes it.
    ///
    /// # Safety
    ///
    /// Nobody takes it twice.
    pub unsafe fn take() -> Self {
        static HEADER: Memory<[u8; HEADER_LEN]> = Memory::new([0; HEADER_LEN]);
        static TABLE: Memory<Table> = Memory::new([BlockState::VOID; BLOCKS]);
        // SAFETY: the caller's promise.
        unsafe {
            Self { medium: Medium::take(), pages: Pages::take(), header: HEADER.take(), table: TABLE.take() }
        }
    }

    /// Opens the volume, uses it, and closes it in good order. A medium that the store does not confirm ends the program.
    #[inline(never)]
    pub fn run(&mut self, task: &mut Task, kdf: &mut dyn Derive, using: impl FnOnce(&mut Volume<'_, '_>)) {
        let mut key = FlashKey::empty();
        let (data, told) = unlock(&mut self.medium, kdf, task, self.header, &mut key);
        let Some(buffer) = self.header.first_chunk_mut() else { board::fail() };
        use_volume(data, &mut self.pages, &told, (&mut key, &mut task.entropy), (self.table, buffer), using);
    }

    /// What is on the medium.
    pub fn medium(&self) -> &[u8] {
        self.medium.bytes()
    }

    /// What is in the pages of the store.
    pub fn store(&self) -> &[u8] {
        self.pages.bytes()
    }
}

/// Fills in the key, and gives what is behind the header.
#[inline(never)]
fn unlock<'m>(
    medium: &'m mut Medium,
    kdf: &mut dyn Derive,
    task: &Task,
    buffer: &mut [u8; HEADER_LEN],
    key: &mut FlashKey,
) -> (Data<'m>, Told) {
    let header = done(FlashHeader::open_in(medium, [0; PROG_SIZE], buffer));
    let told = told(&header);
    done(header.unlock(None, task.passphrase, kdf, None, key));
    (done(header.into_data()), told)
}

/// Whether this program has the cipher and the sizes is known before the passphrase is used.
#[inline(never)]
fn told(header: &FlashHeader<&mut Medium, [u8; PROG_SIZE], &mut [u8; HEADER_LEN]>) -> Told {
    let found = done(header.found());
    let header = done(header.header());
    let params = header.params();
    let layout = done(SealedLayout::of(params));
    // How much is read at least is the chip's own business.
    let sizes = |layout: &SealedLayout| (layout.geometry(), layout.stride(), layout.slot());
    if params.cipher != FlashCipher::Ascon128 || sizes(&layout) != sizes(&LAYOUT) {
        board::fail();
    }
    let Some(options) = SealedOptions::of(params) else { board::fail() };
    Told { options, uuid: params.uuid, found }
}

#[inline(never)]
fn use_volume(
    mut data: Data<'_>,
    pages: &mut Pages,
    told: &Told,
    (key, random): (&mut FlashKey, &mut dyn Random),
    (table, buffer): (&mut Table, &mut [u8; CELL]),
    using: impl FnOnce(&mut Volume<'_, '_>),
) {
    let sealed = SealedKey { volume_key: key.expose(), uuid: &told.uuid, header: Some(told.found) };
    let mut volume = match mount(&mut data, pages, &sealed, told.options, (table, buffer), random) {
        Ok(volume) => volume,
        Err(error) => refuse(error, &mut data, &sealed, told.options, (table, buffer)),
    };
    key.clear();
    using(&mut volume);
    done(volume.close());
}

#[inline(never)]
fn mount<'v, 'm>(
    data: &'v mut Data<'m>,
    pages: &'v mut Pages,
    key: &SealedKey<'_>,
    options: SealedOptions,
    (table, buffer): (&'v mut Table, &'v mut [u8; CELL]),
    random: &mut dyn Random,
) -> Result<Volume<'v, 'm>, SealedError> {
    let store = PageStore::new(pages).map_err(SealedError::Store)?;
    SealedFlash::mount(data, store, key, options, table, buffer, random)
}

/// Says why, and ends the program: nothing was changed. What was changed by somebody else is named by its block and unit; if all was
/// sealed for its place, it is of an earlier time.
#[inline(never)]
fn refuse(
    error: SealedError,
    data: &mut Data<'_>,
    key: &SealedKey<'_>,
    options: SealedOptions,
    (table, buffer): (&mut Table, &mut [u8; CELL]),
) -> ! {
    match error {
        SealedError::NotAnchored { anchor, newest } => {
            let reader = SealedReader::<AsconAead128, _, _, _>::open_without_freshness;
            let mut reader = done(reader(data, key, options, table, buffer));
            let places = (0..BLOCKS).flat_map(|block| (0..LAYOUT.units()).map(move |unit| (block, unit)));
            for (block, unit) in places {
                if done(reader.verdict(block as u32, unit)) == Verdict::Tampered {
                    board::print("tampered", block + HEADER_BLOCKS, unit);
                    board::exit();
                }
            }
            board::print("older", newest as usize, anchor as u32);
        }
        SealedError::StoreOlder { limit, found } => board::print("store older", found as usize, limit as u32),
        SealedError::StoreEmpty => board::print("store empty", 0, 0),
        SealedError::OtherVolume => board::print("store of another volume", 0, 0),
        SealedError::HeaderOlder { anchored, found } => {
            board::print("header older", found as usize, anchored as u32)
        }
        _ => board::fail(),
    }
    board::exit()
}
