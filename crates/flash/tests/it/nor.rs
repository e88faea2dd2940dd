//! embedded-storage's traits over an encrypted device keep their contract, and drivers written against them can be encrypted.

use atrest_cipher::{AesXts, MapperOptions};
use atrest_device::{FlashDevice, FlashGeometry};
use atrest_flash::{BlankReads, NorError};
use atrest_testkit::flash::{EmulatedFlash, SharedFlash};
use embedded_storage::nor_flash::{NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash};

use crate::faces::AnyCrypt as CryptFlash;
use crate::nor_faces::{AnyDriver as NorDriver, AnyStorage as NorStorage};

type Encrypted = CryptFlash<SharedFlash, AesXts, [u8; 64]>;

fn medium() -> SharedFlash {
    let geometry = FlashGeometry::new(16, 16, 1024, 8).expect("a geometry");
    SharedFlash::new(EmulatedFlash::new(geometry))
}

fn encrypted(medium: &SharedFlash, blank_reads: BlankReads) -> Encrypted {
    let key: [u8; 64] = std::array::from_fn(|i| i as u8);
    let cipher = AesXts::new(&key, &MapperOptions::default()).expect("a key");
    CryptFlash::with_blank_reads(medium.clone(), cipher, [0; 64], blank_reads).expect("a device")
}

fn storage(medium: &SharedFlash) -> NorStorage<Encrypted, 16, 16, 1024> {
    NorStorage::new(encrypted(medium, BlankReads::Erased)).expect("the same units")
}

/// What a user of the trait may rely on: 1s after an erase, what was written, and errors of the right kind.
#[test]
fn an_encrypted_device_keeps_the_contract_of_nor_flash() {
    let medium = medium();
    let mut nor = storage(&medium);
    assert_eq!(ReadNorFlash::capacity(&nor), 8192);
    let mut page = [0; 1024];
    NorFlash::erase(&mut nor, 1024, 3072).expect("erase");
    ReadNorFlash::read(&mut nor, 1024, &mut page).expect("read");
    assert_eq!(page, [0xff; 1024]);
    NorFlash::write(&mut nor, 1040, &[0x11; 48]).expect("write");
    ReadNorFlash::read(&mut nor, 1024, &mut page).expect("read");
    assert!(page[..16] == [0xff; 16] && page[16..64] == [0x11; 48] && page[64..] == [0xff; 960]);
    assert!(!medium.lock().image().to_bytes().windows(16).any(|window| window == [0x11; 16]));

    let kind = |result: Result<(), atrest_flash::NorDriverError>| result.expect_err("refused").kind();
    assert_eq!(kind(NorFlash::write(&mut nor, 8, &[0; 16])), NorFlashErrorKind::NotAligned);
    assert_eq!(kind(NorFlash::write(&mut nor, 16, &[0; 24])), NorFlashErrorKind::NotAligned);
    assert_eq!(kind(NorFlash::erase(&mut nor, 512, 1024)), NorFlashErrorKind::NotAligned);
    assert_eq!(kind(NorFlash::erase(&mut nor, 2048, 1024)), NorFlashErrorKind::OutOfBounds);
    assert_eq!(kind(NorFlash::erase(&mut nor, 0, 9216)), NorFlashErrorKind::OutOfBounds);
    assert_eq!(kind(ReadNorFlash::read(&mut nor, 8192, &mut [0; 16])), NorFlashErrorKind::OutOfBounds);
    assert_eq!(kind(NorFlash::write(&mut nor, 1040, &[0; 16])), NorFlashErrorKind::Other, "programmed twice");
}

#[test]
fn what_cannot_keep_the_contract_is_refused() {
    let medium = medium();
    let garbage = encrypted(&medium, BlankReads::Decrypted);
    let error = NorStorage::<_, 16, 16, 1024>::new(garbage).expect_err("blank units read as garbage");
    assert_eq!(error, NorError::NotErasedToOnes);
    let other = encrypted(&medium, BlankReads::Erased);
    let error = NorStorage::<_, 1, 16, 1024>::new(other).expect_err("reads of one byte");
    assert!(matches!(error, NorError::OtherGeometry { .. }), "{error}");
    let large = FlashGeometry::new(1, 1, 1 << 20, 1 << 12).expect("4 GiB");
    let error = NorStorage::<_, 1, 1, 0x10_0000>::new(EmulatedFlash::new(large)).expect_err("33 bits");
    assert_eq!(error, NorError::TooLarge { size: 1 << 32 });
}

#[test]
fn a_driver_written_against_nor_flash_can_be_encrypted() {
    let (below, alone) = (medium(), medium());
    let driver = NorStorage::<_, 16, 16, 1024>::new(below.clone()).expect("the same units");
    let key: [u8; 64] = std::array::from_fn(|i| i as u8);
    let cipher = AesXts::new(&key, &MapperOptions::default()).expect("a key");
    let driver = NorDriver::new(driver).expect("a geometry");
    assert_eq!(driver.geometry(), alone.geometry());
    let mut flash = CryptFlash::new(driver, cipher, [0; 64]).expect("a device");
    let mut expected = encrypted(&alone, BlankReads::Decrypted);
    for flash in [&mut flash as &mut dyn FlashDevice, &mut expected] {
        flash.erase(1024, 2048).expect("erase");
        flash.prog(1040, &[5; 160]).expect("program");
        let mut read = [0; 160];
        flash.read(1040, &mut read).expect("read");
        assert_eq!(read, [5; 160]);
        assert_eq!(flash.is_blank(1024, 16, &mut []), Ok(true));
        assert!(flash.prog(1040, &[5; 16]).is_err());
        assert!(flash.erase(7168, 2048).is_err());
    }
    assert_eq!(below.lock().image(), alone.lock().image());
}
