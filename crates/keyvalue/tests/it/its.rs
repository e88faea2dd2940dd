//! Internal Trusted Storage, line by line of the PSA Certified Secure Storage API 1.0 (Arm IHI 0087), sections 5.1 to 5.3.

use std::mem::discriminant;

use atrest_keyvalue::MapOptions;
use atrest_keyvalue::its::{CreateFlags, Its, ItsError, StorageInfo};
use atrest_testkit::flash::BadBlock;

use crate::rig::{Map, On, Rig};

const OPTIONS: MapOptions = MapOptions { longest: 100, spares: 1 };

fn each(test: impl Fn(&mut Map, &Rig)) {
    for on in [On::Plain, On::Sealed] {
        let rig = Rig::new(on, 5, OPTIONS);
        test(&mut rig.format().expect("formats"), &rig);
    }
}

/// Section 5.1: the numbers of the status codes; 5.2.5 to 5.2.7: those of the flags.
#[test]
fn codes_and_flags_have_the_numbers_of_the_specification() {
    let failure = ItsError::StorageFailure(atrest_keyvalue::MapError::NoSpare);
    for (error, code) in [
        (ItsError::NotPermitted, -133),
        (ItsError::NotSupported, -134),
        (ItsError::InvalidArgument, -135),
        (ItsError::DoesNotExist, -140),
        (ItsError::InsufficientStorage, -142),
        (failure, -146),
    ] {
        assert_eq!(error.code(), code);
    }
    let flags = [
        CreateFlags::NONE,
        CreateFlags::WRITE_ONCE,
        CreateFlags::NO_CONFIDENTIALITY,
        CreateFlags::NO_REPLAY_PROTECTION,
    ];
    assert_eq!(flags.map(CreateFlags::bits), [0, 1, 2, 4]);
}

/// Section 5.2.3: 0 is no identifier, any other number of 64 bits is one.
#[test]
fn every_identifier_but_0_names_data_of_its_own() {
    each(|map, _| {
        let mut its = Its::new(map, 0);
        let refused = ItsError::InvalidArgument;
        assert_eq!(its.set(0, b"data", CreateFlags::NONE), Err(refused));
        assert_eq!(
            (its.get(0, 0, &mut [0; 4]), its.info(0), its.remove(0)),
            (Err(refused), Err(refused), Err(refused))
        );
        let uids = [1, 2, 0xff, 1 << 32, u64::MAX, u64::MAX - 1];
        for uid in uids {
            its.set(uid, &uid.to_be_bytes(), CreateFlags::NONE).expect("stored");
        }
        for uid in uids {
            let mut data = [0; 8];
            assert_eq!((its.get(uid, 0, &mut data), u64::from_be_bytes(data)), (Ok(8), uid));
        }
    });
}

/// `psa_its_set`: "create a new, or modify an existing, uid/value pair".
#[test]
fn set_makes_new_data_and_replaces_data_with_their_flags() {
    each(|map, rig| {
        let mut its = Its::new(map, 0);
        its.set(7, &[1; 90], CreateFlags::NO_CONFIDENTIALITY).expect("stored");
        its.set(7, b"", CreateFlags::NO_REPLAY_PROTECTION).expect("replaced by nothing");
        let empty = StorageInfo { capacity: 0, size: 0, flags: CreateFlags::NO_REPLAY_PROTECTION };
        assert_eq!((its.info(7), its.get(7, 0, &mut [0; 4])), (Ok(empty), Ok(0)));
        its.set(7, b"longer again", CreateFlags::NONE).expect("replaced");
        let mut map = rig.open().expect("opens");
        let its = Its::new(&mut map, 0);
        assert_eq!(its.info(7), Ok(StorageInfo { capacity: 12, size: 12, flags: CreateFlags::NONE }));
    });
}

/// `PSA_STORAGE_FLAG_WRITE_ONCE`: data that can't be modified or deleted; `PSA_ERROR_NOT_PERMITTED`, for good.
#[test]
fn what_is_written_once_is_neither_changed_nor_removed() {
    each(|map, rig| {
        let mut its = Its::new(map, 0);
        its.set(7, b"before", CreateFlags::NONE).expect("stored");
        its.set(7, b"forever", CreateFlags::WRITE_ONCE).expect("replaced, and final");
        let all = CreateFlags::from_bits(7);
        its.set(8, b"", all).expect("stored");
        for uid in [7, 8] {
            for flags in [CreateFlags::NONE, CreateFlags::WRITE_ONCE] {
                assert_eq!(its.set(uid, b"forever", flags), Err(ItsError::NotPermitted));
            }
            assert_eq!(its.remove(uid), Err(ItsError::NotPermitted));
        }
        for round in 0..60 {
            its.set(9, &[round; 40], CreateFlags::NONE).expect("stored");
        }
        let mut map = rig.open().expect("opens");
        let mut its = Its::new(&mut map, 0);
        let mut data = [0; 7];
        assert_eq!((its.get(7, 0, &mut data), &data), (Ok(7), b"forever"));
        assert_eq!(
            (its.remove(7), its.info(8).map(|info| info.flags)),
            (Err(ItsError::NotPermitted), Ok(all))
        );
    });
}

/// `PSA_ERROR_NOT_SUPPORTED`: "one or more of the flags provided in create_flags is not supported or is not valid".
#[test]
fn flags_that_the_specification_does_not_have_are_refused() {
    each(|map, _| {
        let mut its = Its::new(map, 0);
        for bit in 3..32 {
            let flags = CreateFlags::from_bits(1 << bit | 2);
            assert_eq!(its.set(7, b"data", flags), Err(ItsError::NotSupported), "bit {bit}");
        }
        assert_eq!(its.info(7), Err(ItsError::DoesNotExist));
    });
}

/// `PSA_ERROR_INSUFFICIENT_STORAGE`: there is no room, and what was stored stays.
#[test]
fn what_has_no_room_is_refused_and_the_older_data_stay() {
    each(|map, _| {
        let mut its = Its::new(map, 0);
        its.set(1, b"here", CreateFlags::NONE).expect("stored");
        assert_eq!(its.set(1, &[0; 101], CreateFlags::NONE), Err(ItsError::InsufficientStorage));
        let full = (2..40).find_map(|uid| its.set(uid, &[1; 100], CreateFlags::NONE).err());
        assert_eq!(full, Some(ItsError::InsufficientStorage));
        let mut data = [0; 4];
        assert_eq!((its.get(1, 0, &mut data), &data), (Ok(4), b"here"));
    });
}

/// `psa_its_get`: up to `data_size` bytes from `data_offset` on; their number; `PSA_ERROR_INVALID_ARGUMENT` if the offset is larger
/// than the data; `PSA_ERROR_DOES_NOT_EXIST`.
#[test]
fn get_copies_from_an_offset_what_there_is() {
    each(|map, _| {
        let mut its = Its::new(map, 0);
        let stored: Vec<u8> = (1..=80).collect();
        its.set(7, &stored, CreateFlags::NONE).expect("stored");
        for offset in 0..=80 {
            for size in [0, 1, 30, 80, 100] {
                let mut data = vec![0; size];
                let expected = (80 - offset).min(size);
                assert_eq!(its.get(7, offset, &mut data), Ok(expected), "{offset} {size}");
                assert_eq!(data[..expected], stored[offset..offset + expected], "{offset} {size}");
                assert!(data[expected..].iter().all(|byte| *byte == 0), "nothing else is touched");
            }
        }
        for offset in [81, 82, 1 << 16, usize::MAX] {
            assert_eq!(its.get(7, offset, &mut [0; 4]), Err(ItsError::InvalidArgument));
            assert_eq!(its.get(7, offset, &mut []), Err(ItsError::InvalidArgument));
        }
        assert_eq!(its.get(8, 0, &mut [0; 4]), Err(ItsError::DoesNotExist));
    });
}

/// `psa_its_get_info`: capacity, size and flags; `PSA_ERROR_DOES_NOT_EXIST`.
#[test]
fn info_has_size_and_flags() {
    each(|map, _| {
        let mut its = Its::new(map, 0);
        for bits in 0..8 {
            let flags = CreateFlags::from_bits(bits);
            its.set(u64::from(bits) + 1, &vec![0; bits as usize * 5], flags).expect("stored");
            let size = bits as usize * 5;
            assert_eq!(its.info(u64::from(bits) + 1), Ok(StorageInfo { capacity: size, size, flags }));
        }
        assert_eq!(its.info(9), Err(ItsError::DoesNotExist));
    });
}

/// `psa_its_remove`: the data and all that is known of them are gone; `PSA_ERROR_DOES_NOT_EXIST` for what is not there.
#[test]
fn what_is_removed_does_not_exist_and_can_be_stored_again() {
    each(|map, rig| {
        let mut its = Its::new(map, 0);
        assert_eq!(its.remove(7), Err(ItsError::DoesNotExist));
        its.set(7, b"data", CreateFlags::NO_CONFIDENTIALITY).expect("stored");
        assert_eq!((its.remove(7), its.remove(7)), (Ok(()), Err(ItsError::DoesNotExist)));
        assert_eq!(
            (its.get(7, 0, &mut [0; 4]), its.info(7)),
            (Err(ItsError::DoesNotExist), Err(ItsError::DoesNotExist))
        );
        let mut map = rig.open().expect("opens");
        let mut its = Its::new(&mut map, 0);
        assert_eq!(its.info(7), Err(ItsError::DoesNotExist));
        assert_eq!(its.set(7, b"again", CreateFlags::NONE), Ok(()));
    });
}

/// Section 4.1: "one partition cannot access the data owned by another partition".
#[test]
fn callers_do_not_reach_the_data_of_each_other() {
    each(|map, _| {
        for caller in [0, 1, -1, i32::MIN] {
            let mut its = Its::new(map, caller);
            assert_eq!(its.info(7), Err(ItsError::DoesNotExist));
            its.set(7, &caller.to_le_bytes(), CreateFlags::NONE).expect("stored");
        }
        assert_eq!(Its::new(map, 1).remove(7), Ok(()));
        let mut data = [0; 4];
        assert_eq!((Its::new(map, -1).get(7, 0, &mut data), i32::from_le_bytes(data)), (Ok(4), -1));
    });
}

/// `PSA_ERROR_STORAGE_FAILURE`: the physical storage has failed. Nothing is shown that was not verified.
#[test]
fn a_medium_that_fails_or_was_changed_is_a_storage_failure() {
    let is_failure = |error: ItsError| {
        discriminant(&error) == discriminant(&ItsError::StorageFailure(atrest_keyvalue::MapError::NoSpare))
    };
    for on in [On::Plain, On::Sealed] {
        let rig = Rig::new(on, 5, OPTIONS);
        let mut map = rig.format().expect("formats");
        let mut its = Its::new(&mut map, 0);
        its.set(7, &[0x5a; 100], CreateFlags::NONE).expect("stored");
        for block in 0..5 {
            for unit in 0..5 {
                rig.medium.lock().image_mut().flip(block, unit * 99 + 60, 3);
            }
        }
        let mut data = [0xee; 100];
        assert!(its.get(7, 0, &mut data).is_err_and(is_failure));
        assert_eq!(data, [0; 100]);
        (0..5).for_each(|block| rig.medium.lock().break_block(block, BadBlock::ProgError));
        assert!(its.set(8, b"data", CreateFlags::NONE).is_err_and(is_failure));
    }
}
