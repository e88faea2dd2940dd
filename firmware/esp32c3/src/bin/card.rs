//! Opens an SD card that `atrest image` has made, with the AES peripheral, reads and writes files, and on the first start replaces
//! the passphrase that the desk has set.
//!
//! On the desk, with `from the desk.txt` in DIR and the passphrase `correct horse`, the image is made, and the start of a card
//! overwritten with it:
//!
//! ```text
//! atrest image DIR card.img --type flash --size 16M --erase-size 4096 --prog-size 512 --kdf catena
//! dd if=card.img of=/dev/sdX bs=1M conv=fsync
//! ```
//!
//! The rest of the card stays as it is: all sizes are in the header. The card is on SPI: SCK at GPIO 4, MISO 5, MOSI 6, CS 7.
#![no_std]
#![no_main]

use atrest_cipher::{CheckedEngine, DataUnitCipher, EngineXts, MapperOptions, SharedEngineXts};
use atrest_device::FlashDevice;
use atrest_flash::{
    CardFlash, CryptFlash, FlashHeader, FlashHeaderError, LittlefsGeometry, LittlefsStorage, NewSlot,
};
use atrest_keyslot::flash::{ChipKdfs, FlashCipher, FlashKey, KdfCost, Protection, SlotError};
use embedded_hal_bus::spi::ExclusiveDevice;
use embedded_sdmmc::sdcard::spi::SdCard;
use esp_hal::aes::dma::AesDmaBackend;
use esp_hal::delay::Delay;
use esp_hal::gpio::{Level, Output, OutputConfig};
use esp_hal::rng::TrngSource;
use esp_hal::spi::master::{Config, Spi};
use esp_hal::time::{Duration, Rate};
use esp_hal::timer::timg::{MwdtStage, TimerGroup};
use firmware_aes_esp32::Engine;
use firmware_esp32c3::ChipRandom;
use littlefs2::consts::{U1, U512};
use littlefs2::fs::Filesystem;
use littlefs2::path;
use static_cell::ConstStaticCell;

/// What is behind the header of a card that was formatted as above.
struct Sizes;

impl LittlefsGeometry for Sizes {
    const READ_SIZE: usize = 512;
    const PROG_SIZE: usize = 512;
    const BLOCK_SIZE: usize = 4096;
    const BLOCK_COUNT: usize = (16 << 20) / 4096 - 2;
    type CACHE_SIZE = U512;
    type LOOKAHEAD_SIZE = U1;
}

/// Catena with a garlic of 12. The chip has 400 KiB of RAM.
const COST: KdfCost = KdfCost::catena(12);
static WORK_AREA: ConstStaticCell<[u8; 128 << 10]> = ConstStaticCell::new([0; 128 << 10]);

/// Longest time without a step of the derivation or the next card operation. Steps take milliseconds; cards stall for a second at
/// times, and files take many operations of theirs.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a keypad or a phone would ask for: the desk's passphrase, and the one that replaces it.
const PASSPHRASE: &[u8] = b"correct horse";
const NEW_PASSPHRASE: &[u8] = b"battery staple";

#[esp_hal::main]
fn main() -> ! {
    let chip = esp_hal::init(esp_hal::Config::default());
    let mut watchdog = TimerGroup::new(chip.TIMG0).wdt;
    watchdog.set_timeout(MwdtStage::Stage0, PATIENCE);
    watchdog.enable();

    // Cards begin below 400 kHz; a driver for production then goes on at 25 MHz.
    let slow = Config::default().with_frequency(Rate::from_khz(400));
    let spi = Spi::new(chip.SPI2, slow).expect("a frequency that there is");
    let bus = spi.with_sck(chip.GPIO4).with_miso(chip.GPIO5).with_mosi(chip.GPIO6);
    let select = Output::new(chip.GPIO7, Level::High, OutputConfig::default());
    let card =
        SdCard::new(ExclusiveDevice::new(bus, select, Delay::new()).expect("chip select"), Delay::new());

    let _noise = TrngSource::new(chip.RNG, chip.ADC1);
    let mut aes = AesDmaBackend::new(chip.AES, chip.DMA_CH0);
    let _aes = aes.start();

    let mut medium = CardFlash::<_, 8>::new(card, 4096).expect("a card");
    let mut kdf = ChipKdfs { memory: WORK_AREA.take(), between: |_| watchdog.feed() };
    let mut key = FlashKey::empty();

    // All that could be wrong is found out before anything is written.
    let header = FlashHeader::open(&mut medium, [0; 512]).expect("a header");
    let params = *header.header().expect("a header").params();
    assert_eq!((params.cipher, params.protection), (FlashCipher::AesXts, Protection::Encrypted));
    let (slot, first_start) = match header.unlock(None, PASSPHRASE, &mut kdf, None, &mut key) {
        Ok(slot) => (slot, true),
        Err(FlashHeaderError::Slot { error: SlotError::WrongKey, .. }) => {
            let slot = header.unlock(None, NEW_PASSPHRASE, &mut kdf, None, &mut key);
            (slot.expect("one of the passphrases"), false)
        }
        Err(error) => panic!("{error}"),
    };
    let options = MapperOptions { data_unit: params.data_unit as usize, ..MapperOptions::default() };
    let engine = Engine::new(key.expose()).expect("a key of AES-XTS");
    let engine = CheckedEngine::<_>::new(engine, key.expose(), &options).expect("a key of AES-XTS");
    let cipher = SharedEngineXts::<_, 8>::new(EngineXts::new(engine, &options).expect("a data unit"));
    let data = header.into_data().expect("a card with room");
    let data = CryptFlash::new(data, &cipher as &dyn DataUnitCipher, [0; 512]).expect("sizes that fit");
    use_files(LittlefsStorage::new(data).expect("the header's sizes"));

    // What a power loss has left of an earlier change is made good, and the desk's passphrase goes.
    let mut header = FlashHeader::open(&mut medium, [0; 512]).expect("a header");
    header.repair().expect("a card that takes writes");
    if first_start {
        let new = NewSlot {
            passphrase: NEW_PASSPHRASE,
            cost: COST,
            kdf: &mut kdf,
            device: None,
            random: &mut ChipRandom,
        };
        header.change_key(slot, &key, new, None).expect("a card that takes writes");
    }
    key.clear();
    loop {
        watchdog.feed();
    }
}

/// Reads a file of the desk's, and writes one.
fn use_files(mut storage: LittlefsStorage<impl FlashDevice, Sizes>) {
    let done = Filesystem::mount_and_then(&mut storage, |files| {
        let notes = files.read::<512>(path!("/from the desk.txt"))?;
        files.write(path!("/from the chip.txt"), &notes)
    });
    done.expect("files");
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
