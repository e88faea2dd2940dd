//! Encrypted cards below FAT: dosfstools and mtools make and read the plaintext, embedded-sdmmc works on the ciphertext.

use crate::littlefs;
use std::cell::RefCell;
use std::convert::Infallible;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use aligned::{A4, Aligned};
use atrest_cipher::{AesXts, CipherSpec, DataUnitIndex, Mapper, MapperOptions};
use atrest_device::{FlashCause, FlashDevice};
use atrest_flash::LittlefsGeometry;
use atrest_flash::{
    CardError, CardFlash, CardFlashError, CardSetupError, CryptBlocks, CryptCard, CryptFlash, LittlefsStorage,
};
use atrest_testkit::oracle::Program;
use atrest_testkit::{Random, Scratch};
use embedded_sdmmc::{
    Block, BlockCount, BlockDevice, BlockIdx, Mode, TimeSource, Timestamp, VolumeIdx, VolumeManager,
};

use littlefs2::fs::Filesystem;

const KEY: [u8; 64] = {
    let mut key = [0; 64];
    let mut at = 0;
    while at < 64 {
        key[at] = at as u8 * 3 + 1;
        at += 1;
    }
    key
};

/// Where the partition begins, and how many sectors it and the card have.
const START: usize = 64;
const SECTORS: usize = 32_768;

/// A card in memory.
struct Card {
    bytes: RefCell<Vec<u8>>,
    writes: RefCell<Vec<(u32, usize)>>,
}

impl BlockDevice for Card {
    type Error = Infallible;

    fn read(&self, blocks: &mut [Block], start: BlockIdx) -> Result<(), Infallible> {
        for (block, bytes) in blocks.iter_mut().zip(self.bytes.borrow()[start.0 as usize * 512..].chunks(512))
        {
            block.contents.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn write(&self, blocks: &[Block], start: BlockIdx) -> Result<(), Infallible> {
        self.writes.borrow_mut().push((start.0, blocks.len()));
        let mut bytes = self.bytes.borrow_mut();
        for (block, bytes) in blocks.iter().zip(bytes[start.0 as usize * 512..].chunks_mut(512)) {
            bytes.copy_from_slice(&block.contents);
        }
        Ok(())
    }

    fn num_blocks(&self) -> Result<BlockCount, Infallible> {
        Ok(BlockCount((self.bytes.borrow().len() / 512) as u32))
    }
}

impl Card {
    fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: RefCell::new(bytes), writes: RefCell::new(Vec::new()) }
    }
}

struct Noon;

impl TimeSource for Noon {
    fn get_timestamp(&self) -> Timestamp {
        Timestamp::from_calendar(2026, 11, 21, 12, 0, 0).expect("a date")
    }
}

/// The mapper that dm-crypt's plain mode is, held against the kernel elsewhere.
fn mapper() -> Mapper {
    let spec: CipherSpec = "aes-xts-plain64".parse().expect("a specification");
    Mapper::new(&spec, &KEY, &MapperOptions::default()).expect("a key")
}

fn cipher() -> AesXts {
    AesXts::new(&KEY, &MapperOptions::default()).expect("a key")
}

/// A card with one FAT16 partition in which mtools has put a file.
fn formatted(directory: &Path, content: &[u8]) -> Vec<u8> {
    let partition = directory.join("partition.img");
    fs::write(&partition, vec![0; (SECTORS - START) * 512]).expect("a file");
    Program::named("mkfs.fat").args(["-F", "16", "-s", "4"]).arg(&partition).ok();
    let file = directory.join("in.bin");
    fs::write(&file, content).expect("a file");
    Program::named("mcopy").arg("-i").arg(&partition).arg(&file).arg("::IN.BIN").ok();
    let mut card = vec![0; START * 512];
    card[446 + 4] = 0x06;
    card[446 + 8..446 + 12].copy_from_slice(&(START as u32).to_le_bytes());
    card[446 + 12..446 + 16].copy_from_slice(&((SECTORS - START) as u32).to_le_bytes());
    card[510..512].copy_from_slice(&[0x55, 0xaa]);
    card.extend(fs::read(&partition).expect("the partition"));
    card
}

#[test]
fn embedded_sdmmc_reads_what_mtools_wrote_and_the_other_way_round() {
    let directory = Scratch::new();
    let written = Random::new(1).bytes(30_000);
    let mut image = formatted(directory.as_path(), &written);
    mapper().encrypt(DataUnitIndex(0), &mut image).expect("whole sectors");

    let card = CryptCard::<_, _, 4>::new(Card::new(image), cipher()).expect("a card");
    let manager = VolumeManager::new(card, Noon);
    let answer = Random::new(2).bytes(70_000);
    {
        let volume = manager.open_volume(VolumeIdx(0)).expect("the partition");
        let root = volume.open_root_dir().expect("the root");
        let file = root.open_file_in_dir("IN.BIN", Mode::ReadOnly).expect("the file");
        let mut found = vec![0; 40_000];
        let mut len = 0;
        while !file.is_eof() {
            len += file.read(&mut found[len..]).expect("read");
        }
        assert!(found[..len] == written);
        file.close().expect("close");
        let file = root.open_file_in_dir("OUT.BIN", Mode::ReadWriteCreate).expect("a new file");
        file.write(&answer).expect("write");
        file.close().expect("close");
        root.close().expect("close");
        volume.close().expect("close");
    }
    let card = manager.free().0.into_card();
    let mut image = card.bytes.into_inner();
    assert!(!image.windows(16).any(|window| window == &answer[..16]));
    mapper().decrypt(DataUnitIndex(0), &mut image).expect("whole sectors");
    let partition = directory.path("after.img");
    fs::write(&partition, &image[START * 512..]).expect("a file");
    Program::named("fsck.fat").arg("-n").arg(&partition).ok();
    let out = directory.path("out.bin");
    Program::named("mcopy").arg("-i").arg(&partition).arg("::OUT.BIN").arg(&out).ok();
    assert!(fs::read(&out).expect("the file") == answer);
}

#[test]
fn a_card_is_written_where_the_file_system_writes_and_in_runs_of_its_buffer() {
    let card = CryptCard::<_, _, 4>::new(Card::new(vec![0; 64 * 512]), cipher()).expect("a card");
    let blocks: Vec<Block> = (0..10).map(|i| Block { contents: [i; 512] }).collect();
    card.write(&blocks, BlockIdx(5)).expect("write");
    assert_eq!(*card.card().writes.borrow(), [(5, 4), (9, 4), (13, 2)]);
    let mut expected = vec![0; 64 * 512];
    for (at, block) in (5..).zip(&blocks) {
        expected[at * 512..][..512].copy_from_slice(&block.contents);
    }
    mapper().encrypt(DataUnitIndex(5), &mut expected[5 * 512..15 * 512]).expect("whole sectors");
    assert!(*card.card().bytes.borrow() == expected);
    let mut read = vec![Block::new(); 10];
    card.read(&mut read, BlockIdx(5)).expect("read");
    assert!(read.iter().zip(&blocks).all(|(read, written)| read.contents == written.contents));
    assert_eq!(card.num_blocks().map(|count| count.0), Ok(64));
}

#[test]
fn a_cipher_that_needs_more_than_a_block_is_refused() {
    let spec: CipherSpec = "xchacha12,aes-adiantum-plain64".parse().expect("a specification");
    let options = MapperOptions { data_unit: 4096, ..MapperOptions::default() };
    let wide = || Mapper::new(&spec, &KEY[..32], &options).expect("a key");
    let refused = CardSetupError::Granularity { granularity: 4096, block: 512 };
    let error = CryptCard::<_, _, 4>::new(Card::new(vec![0; 4096]), wide()).expect_err("a sector is no unit");
    assert_eq!(error, refused);
    let error = CryptCard::<_, _, 0>::new(Card::new(vec![0; 4096]), cipher()).expect_err("no buffer");
    assert_eq!(error, CardSetupError::BounceTooSmall { needs: 512, has: 0 });
    let disk = Disk { bytes: vec![0; 4096], transfers: Vec::new() };
    assert_eq!(CryptBlocks::<_, _, 512, 4>::new(disk, wide()).expect_err("a sector is no unit"), refused);
    // Part of a larger unit is no trouble for XTS.
    let xts = AesXts::new(&KEY, &options).expect("a key");
    let card = CryptCard::<_, _, 1>::new(Card::new(vec![0; 16 * 512]), xts).expect("a card");
    card.write(&[Block { contents: [9; 512] }], BlockIdx(11)).expect("write");
    let mut whole = vec![0; 16 * 512];
    whole[11 * 512..12 * 512].fill(9);
    AesXts::new(&KEY, &options).expect("a key").encrypt(DataUnitIndex(0), &mut whole).expect("whole units");
    assert!(card.card().bytes.borrow()[11 * 512..12 * 512] == whole[11 * 512..12 * 512]);
}

#[test]
fn littlefs_lives_on_an_encrypted_card() {
    let sectors = littlefs::Wide::BLOCK_COUNT * littlefs::Wide::BLOCK_SIZE / 512;
    // What an old card holds before it is formatted.
    let card = CardFlash::<_, 4>::new(Card::new(Random::new(3).bytes(sectors * 512)), 4096).expect("a card");
    let flash = CryptFlash::new(card, cipher(), [0; 2048]).expect("a device");
    let mut storage = LittlefsStorage::<_, littlefs::Wide>::new(flash).expect("the same sizes");
    Filesystem::format(&mut storage).expect("format");
    let changes = littlefs::suite(sectors * 512);
    let (played, result) = littlefs::play_on(&mut storage, littlefs::Tree::new(), &changes, |_| {});
    assert!(result.is_ok() && played.refused > 0);
    let mut image = storage.into_device().into_device().into_card().bytes.into_inner();

    // The plaintext is a littlefs image like any other.
    mapper().decrypt(DataUnitIndex(0), &mut image).expect("whole sectors");
    let plain = CardFlash::<_, 1>::new(Card::new(image), 4096).expect("a card");
    let mut storage = LittlefsStorage::<_, littlefs::Wide>::new(plain).expect("the same sizes");
    assert!(littlefs::read_all_on(&mut storage).as_ref() == Ok(played.states.last().expect("a state")));
}

#[test]
fn a_card_as_flash_has_no_blank_units_and_whole_erase_blocks() {
    let mut card = CardFlash::<_, 2>::new(Card::new(vec![0; 9 * 1024]), 4096).expect("a card");
    assert_eq!((card.geometry().prog_size(), card.geometry().block_count()), (512, 2));
    card.prog(512, &[1; 2048]).expect("program");
    card.prog(512, &[2; 512]).expect("again");
    card.erase(0, 8192).expect("erase");
    let mut read = [0; 2048];
    card.read(512, &mut read).expect("read");
    assert!(read[..512] == [2; 512] && read[512..] == [1; 1536], "nothing was erased");
    let error = card.is_blank(0, 512, &mut [0; 512]).expect_err("unknown");
    assert_eq!(error.cause, FlashCause::Unsupported);
    let error = card.read(7680, &mut [0; 1024]).expect_err("behind the last whole block");
    assert_eq!(error.cause, FlashCause::OutOfBounds { size: 8192 });
    assert_eq!(*card.into_card().writes.borrow(), [(1, 2), (3, 2), (1, 1)]);
    let small = CardFlash::<_, 2>::new(Card::new(vec![0; 1024]), 4096);
    assert!(matches!(small, Err(CardFlashError::Geometry(_))));
    assert!(CardFlash::<_, 2>::new(Card::new(vec![0; 1024]), 0).is_err());
}

/// A disk for executors.
struct Disk {
    bytes: Vec<u8>,
    transfers: Vec<(u32, usize)>,
}

impl block_device_driver::BlockDevice<512> for Disk {
    type Error = u8;
    type Align = A4;

    async fn read(&mut self, at: u32, data: &mut [Aligned<A4, [u8; 512]>]) -> Result<(), u8> {
        let stored = self.bytes.get(at as usize * 512..).ok_or(7)?;
        for (block, bytes) in data.iter_mut().zip(stored.chunks(512)) {
            block.copy_from_slice(bytes);
        }
        Ok(())
    }

    async fn write(&mut self, at: u32, data: &[Aligned<A4, [u8; 512]>]) -> Result<(), u8> {
        self.transfers.push((at, data.len()));
        let stored = self.bytes.get_mut(at as usize * 512..).ok_or(7)?;
        for (block, bytes) in data.iter().zip(stored.chunks_mut(512)) {
            bytes.copy_from_slice(&block[..]);
        }
        Ok(())
    }

    async fn size(&mut self) -> Result<u64, u8> {
        Ok(self.bytes.len() as u64)
    }
}

#[test]
fn block_device_driver_stores_the_same_bytes() {
    use block_device_driver::BlockDevice as _;
    let disk = Disk { bytes: vec![0; 64 * 512], transfers: Vec::new() };
    let mut blocks = CryptBlocks::<_, _, 512, 3>::new(disk, cipher()).expect("a device");
    let data: Vec<Aligned<A4, [u8; 512]>> = (0..7).map(|i| Aligned([i * 3; 512])).collect();
    ready(blocks.write(20, &data)).expect("write");
    let mut read = vec![Aligned([0; 512]); 7];
    ready(blocks.read(20, &mut read)).expect("read");
    assert!(read.iter().zip(&data).all(|(read, written)| read[..] == written[..]));
    assert_eq!(ready(blocks.size()), Ok(64 * 512));
    assert_eq!(ready(blocks.read(65, &mut read)), Err(CardError::Card(7)), "the device's own error");
    let disk = blocks.into_device();
    assert_eq!(disk.transfers, [(20, 3), (23, 3), (26, 1)]);
    let mut expected: Vec<u8> = data.iter().flat_map(|block| block.iter().copied()).collect();
    mapper().encrypt(DataUnitIndex(20), &mut expected).expect("whole sectors");
    assert!(disk.bytes[20 * 512..27 * 512] == expected);
    assert!(disk.bytes[..20 * 512].iter().chain(&disk.bytes[27 * 512..]).all(|byte| *byte == 0));
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing here waits"),
    }
}
