//! What CryptFlash stores is what the ciphers' specifications say, and nothing else is done to the medium.

use std::cell::Cell;

use atrest_cipher::{AesXts, CipherSpec, DataUnitCipher, DataUnitIndex, Mapper, MapperOptions, RunError};
use atrest_device::{FlashCause, FlashDevice, FlashError, FlashGeometry, FlashOperation};
use atrest_flash::{BlankReads, CryptFlashError};
use atrest_testkit::flash::{BadBlock, EmulatedFlash};
use atrest_testkit::{Campaign, Random};

use crate::faces::AnyCrypt as CryptFlash;

/// Source: IEEE 1619-2018, Annex B, vector 4: data unit 0 of bytes 0 to 255, twice.
const VECTOR_4: &str = "\
     27a7479befa1d476489f308cd4cfa6e2a96e4bbe3208ff25287dd3819616e89c \
     c78cf7f5e543445f8333d8fa7f56000005279fa5d8b5e4ad40e736ddb4d35412 \
     328063fd2aab53e5ea1e0a9f332500a5df9487d07a5c92cc512c8866c7e860ce \
     93fdf166a24912b422976146ae20ce846bb7dc9ba94a767aaef20c0d61ad0265 \
     5ea92dc4c4e41a8952c651d33174be51a10c421110e6d81588ede82103a252d8 \
     a750e8768defffed9122810aaeb99f9172af82b604dc4b8e51bcb08235a6f434 \
     1332e4ca60482a4ba1a03b3e65008fc5da76b70bf1690db4eae29c5f1badd03c \
     5ccf2a55d705ddcd86d449511ceb7ec30bf12b1fa35b913f9f747a8afd1b130e \
     94bff94effd01a91735ca1726acd0b197c4e5b03393697e126826fb6bbde8ecc \
     1e08298516e2c9ed03ff3c1b7860f6de76d4cecd94c8119855ef5297ca67e9f3 \
     e7ff72b1e99785ca0a7e7720c5b36dc6d72cac9574c8cbbc2f801e23e56fd344 \
     b07f22154beba0f08ce8891e643ed995c94d9a69c9f1b5f499027a78572aeebd \
     74d20cc39881c213ee770b1010e4bea718846977ae119f7a023ab58cca0ad752 \
     afe656bb3c17256a9f6e9bf19fdd5a38fc82bbe872c5539edb609ef4f79c203e \
     bb140f2e583cb2ad15b4aa5b655016a8449277dbd477ef2c8d6c017db738b18d \
     eb4a427d1923ce3ff262735779a418f20a282df920147beabe421ee5319d0568";
const VECTOR_4_KEY: &str = "2718281828459045235360287471352631415926535897932384626433832795";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn geometry(read_size: u32, prog_size: u32, erase_size: u32, blocks: u64) -> FlashGeometry {
    FlashGeometry::new(read_size, prog_size, erase_size, blocks).expect("a geometry")
}

fn mapper(spec: &str, data_unit: usize) -> Mapper {
    let spec: CipherSpec = spec.parse().expect("a specification");
    let key: Vec<u8> = (0..64).map(|i| i * 3 + 1).collect();
    let options = MapperOptions { data_unit, ..MapperOptions::default() };
    let key_len = [64, 32].into_iter().find(|len| Mapper::new(&spec, &key[..*len], &options).is_ok());
    Mapper::new(&spec, &key[..key_len.expect("a length of key")], &options).expect("a mapper")
}

#[test]
fn xts_in_pieces_of_any_order_stores_the_vector_of_ieee_1619() {
    let expected = bytes(VECTOR_4);
    let plain: Vec<u8> = (0..512).map(|i| i as u8).collect();
    for (prog, bounce_len) in [(1, 16), (16, 16), (16, 40), (64, 512), (512, 512)] {
        let cipher = AesXts::new(&bytes(VECTOR_4_KEY), &MapperOptions::default()).expect("a key");
        let mut bounce = vec![0; bounce_len];
        let medium = EmulatedFlash::new(geometry(1, prog, 4096, 2));
        let mut flash = CryptFlash::new(medium, cipher, &mut bounce[..]).expect("a device");
        let unit = prog.max(16) as usize;
        assert_eq!(flash.geometry().prog_size() as usize, unit);
        let mut pieces: Vec<usize> = (0..512 / unit).collect();
        Random::new(u64::from(prog)).shuffle(&mut pieces);
        for piece in pieces {
            flash.prog((piece * unit) as u64, &plain[piece * unit..][..unit]).expect("program");
        }
        assert_eq!(flash.device().image().to_bytes()[..512], expected[..], "prog size {prog}");
        let mut back = vec![0; 496];
        flash.read(16, &mut back).expect("read");
        assert_eq!(back, plain[16..]);
    }
}

#[test]
fn the_prog_unit_is_the_mediums_or_the_least_that_the_cipher_takes() {
    let sizes = |spec, data_unit, medium: (u32, u32)| {
        let medium = EmulatedFlash::new(geometry(medium.0, medium.1, 4096, 1));
        CryptFlash::new(medium, mapper(spec, data_unit), [0; 4096])
            .map(|flash| (flash.geometry().read_size(), flash.geometry().prog_size()))
    };
    assert_eq!(sizes("aes-xts-plain64", 512, (1, 1)), Ok((16, 16)));
    assert_eq!(sizes("aes-xts-plain64", 512, (1, 64)), Ok((16, 64)));
    assert_eq!(sizes("aes-xts-plain64", 512, (32, 512)), Ok((32, 512)));
    assert_eq!(sizes("xchacha12,aes-adiantum-plain64", 512, (1, 16)), Ok((512, 512)));
    assert_eq!(sizes("xchacha12,aes-adiantum-plain64", 64, (1, 16)), Ok((64, 64)));
    assert_eq!(sizes("aes-cbc-essiv:sha256", 512, (512, 1024)), Ok((512, 1024)));
    assert_eq!(sizes("aes-hctr2-plain64", 512, (16, 4096)), Ok((512, 4096)));
}

#[test]
fn what_does_not_go_together_is_refused_with_its_numbers() {
    let medium = |prog, erase| EmulatedFlash::new(geometry(prog, prog, erase, 1));
    let xts = || mapper("aes-xts-plain64", 512);
    let error = CryptFlash::new(medium(24, 240), xts(), [0; 64]).expect_err("24 and 16");
    assert_eq!(error, CryptFlashError::Granularity { granularity: 16, unit: 24 });
    let error = CryptFlash::new(medium(64, 128), xts(), [0; 63]).expect_err("a small buffer");
    assert_eq!(error, CryptFlashError::BounceTooSmall { needs: 64, has: 63 });
    let wide = mapper("xchacha12,aes-adiantum-plain64", 512);
    let error = CryptFlash::new(medium(16, 256), wide, [0; 512]).expect_err("a unit above an erase block");
    assert!(matches!(error, CryptFlashError::Geometry(_)), "{error}");
}

/// Counts the calls of a cipher.
struct Counted<'a>(Mapper, &'a Cell<u32>);

impl DataUnitCipher for Counted<'_> {
    fn data_unit(&self) -> usize {
        self.0.data_unit()
    }

    fn granularity(&self) -> usize {
        self.0.granularity()
    }

    fn encrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.1.set(self.1.get() + 1);
        self.0.encrypt(first, run)
    }

    fn decrypt(&self, first: DataUnitIndex, run: &mut [u8]) -> Result<(), RunError> {
        self.1.set(self.1.get() + 1);
        self.0.decrypt(first, run)
    }

    fn encrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        self.1.set(self.1.get() + 1);
        self.0.encrypt_at(unit, offset, bytes)
    }

    fn decrypt_at(&self, unit: DataUnitIndex, offset: usize, bytes: &mut [u8]) -> Result<(), RunError> {
        self.1.set(self.1.get() + 1);
        self.0.decrypt_at(unit, offset, bytes)
    }
}

#[test]
fn a_transfer_that_fits_the_bounce_buffer_is_one_run_of_the_cipher_and_one_of_the_medium() {
    let runs = Cell::new(0);
    let medium = EmulatedFlash::new(geometry(1, 16, 4096, 2));
    let cipher = Counted(mapper("aes-xts-plain64", 512), &runs);
    let mut flash = CryptFlash::new(medium, cipher, [0; 2048]).expect("a device");
    flash.prog(496, &[1; 2048]).expect("over five data units");
    assert_eq!((runs.get(), flash.device().wear().transfers), (1, 1));
    flash.read(16, &mut [0; 4096]).expect("over nine");
    assert_eq!((runs.get(), flash.device().wear().transfers), (2, 2));
    flash.prog(4096, &[1; 2064]).expect("one unit more than the buffer");
    assert_eq!((runs.get(), flash.device().wear().transfers), (4, 4));
}

const CIPHERS: [&str; 6] = [
    "aes-xts-plain64",
    "aes-xex1-plain64",
    "xchacha12,aes-adiantum-plain64",
    "xchacha20,aes-adiantum-plain64",
    "aes-hctr2-plain64",
    "aes-cbc-essiv:sha256",
];

/// The mapper of each cipher is held against the Linux kernel and published vectors elsewhere.
#[test]
fn any_sequence_of_operations_stores_what_the_mapper_gives_and_wears_like_the_medium_alone() {
    Campaign::new("flash layout", 40, 2000).run(|_, random| {
        let spec = *random.pick(&CIPHERS);
        let data_unit = *random.pick(&[512, 1024, 4096]);
        let cipher = mapper(spec, data_unit);
        let prog = (*random.pick(&[1, 16, 32, 512])).max(cipher.granularity() as u32);
        let sizes = geometry(prog.min(64), prog, 4096, 4);
        let bounce = vec![0; prog as usize * (1 + random.below(5) as usize) + random.below(7) as usize];
        let mut flash = CryptFlash::new(EmulatedFlash::new(sizes), cipher, bounce).expect("a device");
        let mut alone = EmulatedFlash::new(sizes);
        let whole = mapper(spec, data_unit);
        for _ in 0..30 {
            let units = u64::from(sizes.units_per_block());
            let block = random.below(4);
            let first = random.below(units);
            let count = 1 + random.below((units - first).min(9));
            let address = block * 4096 + first * u64::from(prog);
            let data = random.bytes(count as usize * prog as usize);
            if random.below(4) == 0 {
                assert_eq!(flash.erase(block * 4096, 4096), alone.erase(block * 4096, 4096));
            } else {
                let plain = alone.prog(address, &data);
                // The bounce buffer may split it: what fails is named the same, what came before is programmed.
                assert_eq!(flash.prog(address, &data), plain, "{spec}");
            }
        }
        assert_eq!(flash.device().wear().programs, alone.wear().programs, "{spec}");
        assert_eq!(flash.device().wear().erases, alone.wear().erases, "{spec}");

        let mut expected = alone.image().to_bytes();
        whole.encrypt(DataUnitIndex(0), &mut expected).expect("whole units");
        let stored = flash.device().image().clone();
        let (per_block, prog) = (sizes.units_per_block() as usize, prog as usize);
        for (block, unit) in (0..4).flat_map(|block| (0..per_block).map(move |unit| (block, unit))) {
            let at = (block * per_block + unit) * prog;
            assert_eq!(stored.is_blank(block, unit), alone.image().is_blank(block, unit));
            let mut read = vec![0; prog];
            flash.read(at as u64, &mut read).expect("read");
            if stored.is_blank(block, unit) {
                assert!(stored.unit(block, unit).iter().all(|byte| *byte == 0xff));
                assert_ne!(read, vec![0xff; prog], "garbage");
                let mut again = vec![0; prog];
                flash.read(at as u64, &mut again).expect("read");
                assert_eq!(read, again, "but always the same");
            } else {
                // Modes that mix a whole unit have it whole here: their prog size is a multiple of it.
                assert_eq!(stored.unit(block, unit), &expected[at..at + prog], "{spec}, {data_unit}");
                assert_eq!(read, alone.image().unit(block, unit), "{spec}");
            }
        }
    });
}

#[test]
fn blank_units_are_known_and_read_as_erased_where_that_is_asked_for() {
    for knows_erased_byte in [true, false] {
        let medium =
            Opaque { flash: EmulatedFlash::new(geometry(1, 8, 256, 2)), knows_erased_byte, asked: 0 };
        let cipher = mapper("aes-xts-plain64", 512);
        let mut flash =
            CryptFlash::with_blank_reads(medium, cipher, [0; 64], BlankReads::Erased).expect("a device");
        assert_eq!((flash.geometry().read_size(), flash.geometry().prog_size()), (16, 16));
        flash.prog(32, &[7; 48]).expect("program");
        flash.prog(96, &[0xff; 16]).expect("ones, which are encrypted");
        let mut read = [0; 128];
        flash.read(0, &mut read).expect("read");
        let expected = [[0xff; 32].as_slice(), &[7; 48], &[0xff; 16], &[0xff; 16], &[0xff; 16]].concat();
        assert_eq!(read[..], expected[..]);
        let blank: Vec<bool> =
            (0..8).map(|unit| flash.is_blank(unit * 16, 16, &mut []).expect("asked")).collect();
        assert_eq!(blank, [true, true, false, false, false, true, false, true]);
        assert_eq!(flash.erased_byte(), Some(0xff));
        assert_eq!(flash.device().asked > 8, !knows_erased_byte);
        // A unit of 16 bytes half of whose cells were programmed is not blank.
        flash.device_mut().flash.prog(128, &[1; 8]).expect("past the encryption");
        assert_eq!(flash.is_blank(128, 16, &mut []), Ok(false));
        flash.read(128, &mut read[..16]).expect("read");
        assert_ne!(read[..16], [0xff; 16]);
    }
}

/// A medium whose erased cells read as data, but which knows which they are.
struct Opaque {
    flash: EmulatedFlash,
    knows_erased_byte: bool,
    asked: u32,
}

impl FlashDevice for Opaque {
    fn geometry(&self) -> FlashGeometry {
        self.flash.geometry()
    }

    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.flash.read(address, buf)?;
        if !self.knows_erased_byte {
            let prog = self.geometry().prog_size() as usize;
            for (unit, at) in buf.chunks_mut(prog).zip((address..).step_by(prog)) {
                if self.flash.is_blank(at, 8, &mut [0; 8]).expect("asked") {
                    unit.fill(0x5a);
                }
            }
        }
        Ok(())
    }

    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.flash.prog(address, data)
    }

    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.flash.erase(address, len)
    }

    fn sync(&mut self) -> Result<(), FlashError> {
        self.flash.sync()
    }

    fn erased_byte(&self) -> Option<u8> {
        self.knows_erased_byte.then_some(0xff)
    }

    fn is_blank(&mut self, address: u64, len: u64, scratch: &mut [u8]) -> Result<bool, FlashError> {
        self.asked += 1;
        self.flash.is_blank(address, len, scratch)
    }
}

#[test]
fn without_the_mode_blank_units_are_still_known() {
    let medium = EmulatedFlash::new(geometry(1, 16, 256, 1));
    let mut flash = CryptFlash::new(medium, mapper("aes-xts-plain64", 512), [0; 16]).expect("a device");
    flash.prog(16, &[0xff; 16]).expect("program");
    assert_eq!((flash.is_blank(0, 16, &mut []), flash.is_blank(16, 16, &mut [])), (Ok(true), Ok(false)));
    assert_eq!(flash.erased_byte(), None);
}

#[test]
fn errors_of_the_medium_pass_through_and_its_ranges_are_checked_first() {
    let mut medium = EmulatedFlash::new(geometry(1, 1, 256, 4));
    medium.break_block(2, BadBlock::ProgError);
    medium.break_block(3, BadBlock::ReadError);
    let mut flash = CryptFlash::new(medium, mapper("aes-xts-plain64", 512), [0; 64]).expect("a device");
    let error = flash.prog(512, &[1; 16]).expect_err("a bad block");
    assert_eq!((error.address, error.cause), (512, FlashCause::BadBlock { block: 2 }));
    let error = flash.read(768, &mut [0; 16]).expect_err("unreadable");
    assert_eq!(error.cause, FlashCause::Uncorrectable);
    let error = flash.prog(8, &[1; 16]).expect_err("inside a cipher block");
    assert_eq!(error.cause, FlashCause::Misaligned { multiple: 16 });
    let error = flash.read(1008, &mut [0; 32]).expect_err("behind the end");
    assert_eq!(
        (error.operation, error.cause),
        (FlashOperation::Read, FlashCause::OutOfBounds { size: 1024 })
    );
    assert_eq!(flash.device().wear().programmed_units(), 0);
}

#[test]
fn a_cipher_that_refuses_leaves_no_plaintext_on_the_medium_or_in_the_buffer() {
    // CTR reuses its keystream, so its mapper encrypts only where it was promised that nobody will see two snapshots.
    let mut bounce = [0; 512];
    let medium = EmulatedFlash::new(geometry(1, 16, 1024, 1));
    let mut flash =
        CryptFlash::new(medium, mapper("aes-ctr-plain64", 512), &mut bounce[..]).expect("a device");
    let unit = flash.geometry().prog_size() as usize;
    let error = flash.prog(0, &vec![0xaa; unit]).expect_err("refused");
    assert_eq!(error.cause, FlashCause::Cipher);
    assert_eq!(flash.into_device().wear().programmed_units(), 0);
    assert!(bounce.iter().all(|byte| *byte == 0));
}

#[test]
fn a_sync_reaches_the_medium_and_fails_as_it_does() {
    let medium = EmulatedFlash::new(geometry(1, 16, 256, 1));
    let mut flash = CryptFlash::new(medium, mapper("aes-xts-plain64", 512), [0; 16]).expect("a device");
    assert_eq!((flash.sync(), flash.device().wear().syncs), (Ok(()), 1));
    flash.device_mut().refusals().syncs = 1;
    let refused = flash.sync().map_err(|error| (error.operation, error.cause));
    assert_eq!(refused, Err((FlashOperation::Sync, FlashCause::Driver(0))));
}
