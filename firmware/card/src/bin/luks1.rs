//! An SD card with LUKS1, and FAT in it, as cryptsetup and mkfs.fat make it: unlock with the passphrase, read a file, write another.
#![no_std]
#![no_main]

use core::cell::RefCell;
use core::convert::Infallible;

use atrest_cipher::{AesXts, KeyPlace, MapperOptions};
use atrest_flash::{CryptCard, Luks1Card, Luks1CardError};
use atrest_kdf::fixed::Sha256;
use atrest_keyslot::luks1::{ChipKey, ChipUnlock, SlotError};
use embedded_sdmmc::{
    Block, BlockCount, BlockDevice, BlockIdx, Mode, TimeSource, Timestamp, VolumeIdx, VolumeManager,
};
use firmware_card::medium::BASE;
use firmware_card::task::task;
use firmware_card::{Checksum, Memory, board, done, stack};

/// Blocks of the card.
const BLOCKS: usize = 12 << 10;
/// Where the emulator has put it: behind the task.
const AT: usize = BASE + (2 << 20);
/// Seconds that a person waits, on a chip that takes some ten thousand iterations in each.
const MOST_ITERATIONS: u32 = 20_000;

#[board::entry]
fn main() -> ! {
    static PLACE: Memory<KeyPlace<AesXts>> = Memory::new(KeyPlace::<AesXts>::empty());
    // SAFETY: the entry point runs once.
    let (card, place) = unsafe { (Card::take(), PLACE.take()) };
    let passphrase = task().passphrase;
    let card = done(Luks1Card::<_, Sha256>::open(card));

    let counter = board::Counter::start();
    let (mut instructions, mut watchdog, mut mark) = (0, 0_u32, counter.mark());
    let between = |_| {
        instructions += counter.since(mark);
        watchdog += 1;
        mark = counter.mark();
    };
    let mut key = ChipKey::empty();
    let mut means = ChipUnlock { cipher: &mut *place, most_iterations: MOST_ITERATIONS, between };
    let mut unlocked = Err(Luks1CardError::NoKeyslots);
    let stack = stack::used(|| unlocked = card.unlock(None, passphrase, &mut means, &mut key));
    instructions += counter.since(mark);
    match unlocked {
        Ok(slot) => board::print("unlocked", slot, watchdog),
        Err(Luks1CardError::Slot { slot, error: SlotError::WrongKey }) => {
            board::print("refused", slot, watchdog);
            board::exit()
        }
        Err(_) => board::fail(),
    }
    board::print("instructions", 0, instructions);
    board::print("stack", 0, stack);

    let cipher = done(place.expand(key.expose(), &MapperOptions::default()));
    key.clear();
    let card = done(CryptCard::<_, _, 1>::new(card.into_payload(), &*cipher));
    let card = use_files(card).into_card().into_card();
    done(semihosting::fs::write(c"card.out", &*card.0.borrow()));
    board::exit()
}

/// Prints a checksum of one file, and writes another.
fn use_files<B: BlockDevice>(card: B) -> B {
    let files = VolumeManager::new(card, Clock);
    {
        let volume = done(files.open_volume(VolumeIdx(0)));
        let root = done(volume.open_root_dir());
        let file = done(root.open_file_in_dir("IN.BIN", Mode::ReadOnly));
        let (mut sum, mut part) = (Checksum::new(), [0; 100]);
        while !file.is_eof() {
            let count = done(file.read(&mut part));
            sum.add(&part[..count]);
        }
        sum.print();
        done(file.close());
        let file = done(root.open_file_in_dir("OUT.TXT", Mode::ReadWriteCreate));
        done(file.write(b"written on the chip"));
        done(file.close());
        done(root.close());
        done(volume.close());
    }
    files.free().0
}

/// The card: memory that the emulator has filled.
struct Card(RefCell<&'static mut [u8]>);

impl Card {
    /// Takes it.
    ///
    /// # Safety
    ///
    /// Nobody takes it twice.
    unsafe fn take() -> Self {
        // SAFETY: RAM of the board which no section of the program lies in, and the caller's promise.
        Self(RefCell::new(unsafe { core::slice::from_raw_parts_mut(AT as *mut u8, BLOCKS * Block::LEN) }))
    }
}

impl BlockDevice for Card {
    type Error = Infallible;

    fn read(&self, blocks: &mut [Block], start: BlockIdx) -> Result<(), Infallible> {
        let bytes = self.0.borrow();
        for (to, from) in blocks.iter_mut().zip(bytes.chunks(Block::LEN).skip(start.0 as usize)) {
            to.contents.copy_from_slice(from);
        }
        Ok(())
    }

    fn write(&self, blocks: &[Block], start: BlockIdx) -> Result<(), Infallible> {
        let mut bytes = self.0.borrow_mut();
        for (from, to) in blocks.iter().zip(bytes.chunks_mut(Block::LEN).skip(start.0 as usize)) {
            to.copy_from_slice(&from.contents);
        }
        Ok(())
    }

    fn num_blocks(&self) -> Result<BlockCount, Infallible> {
        Ok(BlockCount(BLOCKS as u32))
    }
}

/// A board without a clock.
struct Clock;

impl TimeSource for Clock {
    fn get_timestamp(&self) -> Timestamp {
        Timestamp {
            year_since_1970: 56,
            zero_indexed_month: 10,
            zero_indexed_day: 20,
            hours: 12,
            minutes: 0,
            seconds: 0,
        }
    }
}
