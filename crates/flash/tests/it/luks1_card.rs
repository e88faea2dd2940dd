//! Cards with LUKS1 that cryptsetup has made, opened as a chip opens them: the keys are cryptsetup's, the data is what QEMU reads
//! and writes.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::fs;
use std::path::PathBuf;

use atrest_cipher::{AesXts, KeyPlace, MapperOptions};
use atrest_flash::{CardError, CardPart, CryptCard, Luks1Card, Luks1CardError};
use atrest_kdf::fixed::{FixedHash, Sha1, Sha256, Sha512};
use atrest_keyslot::luks1::{ChipKey, ChipUnlock, HeaderError, SlotError};
use atrest_testkit::cryptsetup::Cryptsetup;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Random, Scratch};
use embedded_sdmmc::{Block, BlockCount, BlockDevice, BlockIdx};

/// A card in memory, of which a block may be unreadable.
struct Card {
    bytes: RefCell<Vec<u8>>,
    broken: Option<u32>,
    reads: Cell<usize>,
    writes: Cell<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Broken(u32);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.0)
    }
}

impl std::error::Error for Broken {}

impl Card {
    fn new(bytes: Vec<u8>) -> Self {
        Self { bytes: RefCell::new(bytes), broken: None, reads: Cell::new(0), writes: Cell::new(0) }
    }
}

impl BlockDevice for &Card {
    type Error = Broken;

    fn read(&self, blocks: &mut [Block], start: BlockIdx) -> Result<(), Broken> {
        self.reads.set(self.reads.get() + 1);
        for (block, index) in blocks.iter_mut().zip(start.0..) {
            if self.broken == Some(index) {
                return Err(Broken(index));
            }
            block.contents.copy_from_slice(&self.bytes.borrow()[index as usize * 512..][..512]);
        }
        Ok(())
    }

    fn write(&self, blocks: &[Block], start: BlockIdx) -> Result<(), Broken> {
        self.writes.set(self.writes.get() + 1);
        for (block, index) in blocks.iter().zip(start.0..) {
            self.bytes.borrow_mut()[index as usize * 512..][..512].copy_from_slice(&block.contents);
        }
        Ok(())
    }

    fn num_blocks(&self) -> Result<BlockCount, Broken> {
        Ok(BlockCount((self.bytes.borrow().len() / 512) as u32))
    }
}

/// A directory with a volume and key files called after their passphrases.
struct Desk(Scratch);

const FAST: &str = "--pbkdf-force-iterations 1000";

impl Desk {
    /// cryptsetup formats a card of so many bytes, whose passphrase is `one`.
    fn format(bytes: usize, options: &str) -> Self {
        let desk = Self(Scratch::new());
        fs::write(desk.path("volume"), vec![0x5a; bytes]).expect("a file");
        desk.volume("one").format(&format!("--type luks1 {FAST} --cipher aes-xts-plain64 {options}"));
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn key_file(&self, passphrase: &str) -> PathBuf {
        fs::write(self.path(passphrase), passphrase).expect("a file");
        self.path(passphrase)
    }

    fn volume(&self, passphrase: &str) -> Cryptsetup {
        Cryptsetup::new(&self.path("volume"), &self.key_file(passphrase))
    }

    fn card(&self) -> Card {
        Card::new(fs::read(self.path("volume")).expect("the volume"))
    }

    /// `qemu-img convert` of the plaintext, out of the volume or into it.
    fn qemu(&self, passphrase: &str) -> (Program, String) {
        let secret = format!("secret,id=s,file={}", self.key_file(passphrase).display());
        let volume = format!(
            "driver=luks,key-secret=s,file.driver=file,file.filename={}",
            self.path("volume").display()
        );
        (Program::named("qemu-img").words("convert --object").arg(secret), volume)
    }

    fn plaintext(&self, passphrase: &str) -> Vec<u8> {
        let (qemu, volume) = self.qemu(passphrase);
        qemu.arg("--image-opts").arg(volume).words("-O raw").arg(self.path("plain")).ok();
        fs::read(self.path("plain")).expect("the plaintext")
    }

    fn fill(&self, passphrase: &str, plaintext: &[u8]) {
        fs::write(self.path("plain"), plaintext).expect("a file");
        let (qemu, volume) = self.qemu(passphrase);
        qemu.words("-n -f raw --target-image-opts").arg(self.path("plain")).arg(volume).ok();
    }
}

/// What a try to unlock gave: the keyslot and the key.
fn unlock_with<H: FixedHash>(
    card: &Luks1Card<&Card, H>,
    slot: Option<usize>,
    passphrase: &str,
    most_iterations: u32,
) -> Result<(usize, Vec<u8>), Luks1CardError<Broken>> {
    let mut place = KeyPlace::<AesXts>::empty();
    let mut key = ChipKey::empty();
    let mut means = ChipUnlock { cipher: &mut place, most_iterations, between: |_| {} };
    let unlocked = card.unlock(slot, passphrase.as_bytes(), &mut means, &mut key);
    assert_eq!(unlocked.is_err(), key.expose().is_empty(), "a key although nothing was unlocked, or none");
    unlocked.map(|slot| (slot, key.expose().to_vec()))
}

fn unlock(
    card: &Card,
    slot: Option<usize>,
    passphrase: &str,
) -> Result<(usize, Vec<u8>), Luks1CardError<Broken>> {
    unlock_with(&Luks1Card::<_, Sha256>::open(card)?, slot, passphrase, 1000)
}

fn travels<H: FixedHash>(bytes: usize, options: &str, slot: usize) {
    let desk = Desk::format(bytes, &format!("{options} --key-slot {slot}"));
    let mut random = Random::new(11);
    let start = {
        let card = desk.card();
        let header = Luks1Card::<_, H>::open(&card).expect(options);
        header.header().data_sector() as usize * 512
    };
    let data = random.bytes(bytes - start);
    desk.fill("one", &data);

    let card = desk.card();
    let opened = Luks1Card::<_, H>::open(&card).expect(options);
    let (number, key) = unlock_with(&opened, None, "one", 1000).expect(options);
    assert_eq!(number, slot, "{options}");
    assert_eq!(key, desk.volume("one").volume_key(desk.0.as_path()), "{options}: not cryptsetup's key");
    let cipher = AesXts::new(&key, &MapperOptions::default()).expect("a key");
    let payload = CryptCard::<_, _, 4>::new(opened.into_payload(), cipher).expect("a card");
    let mut blocks = vec![Block::new(); data.len() / 512];
    assert_eq!(payload.num_blocks().map(|count| count.0 as usize), Ok(blocks.len()), "{options}");
    payload.read(&mut blocks, BlockIdx(0)).expect("read");
    assert!(blocks.iter().flat_map(|block| block.contents).eq(data.iter().copied()), "{options}: other data");

    // And back: QEMU reads what goes through here, up to the last block.
    assert_eq!(card.writes.get(), 0, "{options}: reading has written");
    let written: Vec<Block> =
        blocks.iter().map(|_| Block { contents: random.bytes(512).try_into().expect("512") }).collect();
    payload.write(&written, BlockIdx(0)).expect("write");
    fs::write(desk.path("volume"), &*card.bytes.borrow()).expect("the volume");
    let read = desk.plaintext("one");
    assert!(
        written.iter().flat_map(|block| block.contents).eq(read.iter().copied()),
        "{options}: QEMU differs"
    );
}

#[test]
fn cards_that_cryptsetup_has_made_travel_between_chip_and_desk() {
    travels::<Sha256>(3 << 20, "--key-size 512 --hash sha256 --align-payload 8", 0);
    travels::<Sha256>(2 << 20, "--key-size 256 --hash sha256 --align-payload 2056", 3);
    travels::<Sha1>(4 << 20, "--key-size 512 --hash sha1", 7);
    travels::<Sha512>(3 << 20, "--key-size 256 --hash sha512", 1);
}

#[test]
fn each_keyslot_opens_with_its_passphrase_until_it_is_killed() {
    let desk = Desk::format(2 << 20, "--key-size 256 --align-payload 8");
    for (passphrase, slot) in [("two", 4), ("three", 6)] {
        desk.volume("one").add_key(&desk.key_file(passphrase), &format!("{FAST} --key-slot {slot}"));
    }
    let card = desk.card();
    let key = desk.volume("one").volume_key(desk.0.as_path());
    for (passphrase, slot) in [("one", 0), ("two", 4), ("three", 6)] {
        assert_eq!(unlock(&card, None, passphrase), Ok((slot, key.clone())));
        assert_eq!(unlock(&card, Some(slot), passphrase), Ok((slot, key.clone())));
    }
    let refused = |slot| Err(Luks1CardError::Slot { slot, error: SlotError::WrongKey });
    assert_eq!(unlock(&card, None, "four"), refused(0));
    assert_eq!(unlock(&card, None, ""), refused(0));
    assert_eq!(unlock(&card, Some(4), "one"), refused(4));
    assert_eq!(unlock(&card, Some(5), "one"), Err(Luks1CardError::SlotNotInUse { slot: 5 }));
    assert_eq!(unlock(&card, Some(8), "one"), Err(Luks1CardError::SlotNotInUse { slot: 8 }));

    desk.volume("one").run("luksKillSlot", "").arg("4").ok();
    let card = desk.card();
    assert_eq!(unlock(&card, None, "two"), refused(0));
    assert_eq!(unlock(&card, Some(4), "two"), Err(Luks1CardError::SlotNotInUse { slot: 4 }));
    assert_eq!(unlock(&card, None, "three"), Ok((6, key)));
    desk.volume("one").run("erase", "").ok();
    assert_eq!(unlock(&desk.card(), None, "one"), Err(Luks1CardError::NoKeyslots));
}

#[test]
fn a_keyslot_that_cannot_be_tried_keeps_no_other_from_opening_and_is_the_reason_if_none_does() {
    let desk = Desk::format(2 << 20, "--key-size 256 --align-payload 8");
    desk.volume("one").add_key(&desk.key_file("two"), "--pbkdf-force-iterations 1500 --key-slot 4");
    let mut card = desk.card();
    let most = |iterations, most| SlotError::TooManyIterations { iterations, most };
    let opened = |card: &Card, passphrase: &str, most| {
        let card = Luks1Card::<_, Sha256>::open(card).expect("a header");
        unlock_with(&card, None, passphrase, most).map(|(slot, _)| slot)
    };
    assert_eq!(opened(&card, "one", 1000), Ok(0));
    let refused = Luks1CardError::Slot { slot: 4, error: most(1500, 1000) };
    assert_eq!(opened(&card, "two", 1000), Err(refused.clone()));
    assert_eq!(opened(&card, "neither", 1000), Err(refused));
    assert_eq!(opened(&card, "two", 1500), Ok(4));

    card.broken = Some(8 + 249);
    assert_eq!(opened(&card, "two", 1500), Ok(4));
    assert_eq!(opened(&card, "one", 1500), Err(Luks1CardError::Area { slot: 0, error: Broken(257) }));
    for broken in [0, 1] {
        card.broken = Some(broken);
        let error = Luks1Card::<_, Sha256>::open(&card).expect_err("the header can't be read");
        assert_eq!(error, Luks1CardError::Card(Broken(broken)));
    }
    assert_eq!(card.writes.get(), 0);
}

#[test]
fn hostile_and_damaged_headers_are_refused_by_name_and_before_any_work() {
    let desk = Desk::format(2 << 20, "--key-size 256 --align-payload 8");
    let good = fs::read(desk.path("volume")).expect("the volume");
    let open = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        let card = Card::new(bytes);
        let opened = Luks1Card::<_, Sha256>::open(&card).map(|_| ());
        assert!(card.writes.get() == 0 && card.reads.get() <= 2, "more than the header was looked at");
        opened
    };
    let put =
        |at: usize, number: u32| open(&move |bytes| bytes[at..at + 4].copy_from_slice(&number.to_be_bytes()));
    let text = |at: usize, text: &'static str| {
        open(&move |bytes| {
            bytes[at..at + 32].fill(0);
            bytes[at..at + text.len()].copy_from_slice(text.as_bytes());
        })
    };
    let header = |error| Err(Luks1CardError::Header(error));
    let not_for_chip = |error| Err(Luks1CardError::NotForChip(error));
    const SLOT: usize = 208;

    assert_eq!(open(&|_| {}), Ok(()));
    assert_eq!(open(&|bytes| bytes.clear()), header(HeaderError::Truncated { has: 0 }));
    assert_eq!(open(&|bytes| bytes.truncate(1023)), header(HeaderError::Truncated { has: 512 }));
    assert_eq!(open(&|bytes| bytes[0] = 0), header(HeaderError::Magic));
    assert_eq!(open(&|bytes| bytes[7] = 2), header(HeaderError::Version { version: 2 }));
    assert_eq!(put(SLOT + 4, 0), header(HeaderError::SlotIterations { slot: 0 }));
    assert_eq!(put(164, 0), header(HeaderError::DigestIterations));
    assert_eq!(put(SLOT + 44, 0), header(HeaderError::Stripes { slot: 0, stripes: 0 }));
    assert_eq!(put(SLOT + 44, u32::MAX), header(HeaderError::Stripes { slot: 0, stripes: u32::MAX }));
    assert_eq!(put(SLOT + 40, 1), header(HeaderError::AreaInsideHeader { slot: 0, sector: 1 }));
    assert_eq!(put(SLOT + 40, 264 + 249), header(HeaderError::AreaOverlap { a: 0, b: 1 }));
    let end = HeaderError::AreaInsideData { slot: 0, end: u64::from(u32::MAX) + 250, data: 2056 };
    assert_eq!(put(SLOT + 40, u32::MAX), header(end));
    assert_eq!(put(108, 0), header(HeaderError::KeyLen { bytes: 0 }));
    assert_eq!(put(108, 513), header(HeaderError::KeyLen { bytes: 513 }));
    assert_eq!(put(108, 16), not_for_chip(SlotError::KeyLenForCipher { bytes: 16 }));
    assert_eq!(text(40, "cbc-essiv:sha256"), not_for_chip(SlotError::CipherNotHere));
    assert_eq!(text(8, "serpent"), not_for_chip(SlotError::CipherNotHere));
    assert_eq!(text(8, "cipher_null"), not_for_chip(SlotError::CipherNotHere));
    assert_eq!(text(72, "sha512"), not_for_chip(SlotError::HashNotHere));
    assert_eq!(text(72, "crc32"), not_for_chip(SlotError::UnsupportedHash));
    assert_eq!(put(104, 0), Err(Luks1CardError::DataElsewhere));
    assert_eq!(put(104, 4096), Err(Luks1CardError::CutInSize { needs: 4097, has: 4096 }));
    assert_eq!(put(104, u32::MAX), Err(Luks1CardError::CutInSize { needs: 1 << 32, has: 4096 }));
    assert_eq!(put(104, 4095), Ok(()), "one block of data is a volume");
    // The card has lost its tail.
    let cut = Luks1CardError::CutInSize { needs: 2057, has: 2056 };
    assert_eq!(open(&|bytes| bytes.truncate(2056 * 512)), Err(cut));
}

#[test]
fn a_volume_in_a_partition_is_opened_through_its_part_of_the_card() {
    let desk = Desk::format(2 << 20, "--key-size 256 --align-payload 8");
    let volume = fs::read(desk.path("volume")).expect("the volume");
    let card = Card::new([vec![0xee; 77 * 512], volume, vec![0xee; 5 * 512]].concat());
    let part = || CardPart::new(&card, 77, 4096).expect("inside");
    let opened = Luks1Card::<_, Sha256>::open(part()).expect("a header");
    let (mut place, mut key) = (KeyPlace::<AesXts>::empty(), ChipKey::empty());
    let mut means = ChipUnlock { cipher: &mut place, most_iterations: 1000, between: |_| {} };
    assert_eq!(opened.unlock(None, b"one", &mut means, &mut key), Ok(0));
    assert_eq!(key.expose(), desk.volume("one").volume_key(desk.0.as_path()));
    // The data begins at sector 2056 of the volume, and ends with the partition.
    let data = opened.into_payload();
    assert_eq!(data.num_blocks().map(|count| count.0), Ok(4096 - 2056));
    let outside = |block| Err(CardError::OutOfBounds { block });
    assert_eq!(data.read(&mut [Block::new(), Block::new()], BlockIdx(2039)), outside(2040));
    assert_eq!(data.write(&[Block::new()], BlockIdx(2040)), outside(2040));
    assert_eq!(data.write(&[Block::new()], BlockIdx(u32::MAX)), outside(u64::from(u32::MAX)));
    assert_eq!(card.writes.get(), 0);
    assert_eq!(data.write(&[Block { contents: [7; 512] }], BlockIdx(2039)), Ok(()));
    assert_eq!(card.bytes.borrow()[(77 + 4095) * 512..][..512], [7; 512]);

    let behind = part().read(&mut [Block::new()], BlockIdx(4096));
    assert_eq!(behind, Err(CardError::OutOfBounds { block: 4096 }));
    for (first, count) in [(77, 4102), (4179, 1), (u32::MAX, 2), (0, u32::MAX)] {
        assert!(CardPart::new(&card, first, count).is_err(), "{first} {count}");
    }
    assert!(CardPart::new(&card, 4177, 1).is_ok());
}
