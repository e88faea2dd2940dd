//! The emulated flash keeps the rules that the tests above it rely on.

use std::collections::{BTreeSet, HashSet};

use atrest_device::{FlashCause, FlashDevice, FlashGeometry, FlashOperation, FlashRegion};
use atrest_testkit::Random;
use atrest_testkit::flash::{
    Adversary, Attack, BadBlock, Caching, EmulatedFlash, FlashImage, FlashOp, PowerCut, Tear,
};

/// 4 blocks of 4 units of 16 bytes.
fn geometry() -> FlashGeometry {
    FlashGeometry::new(1, 16, 64, 4).expect("a geometry")
}

fn flash() -> EmulatedFlash {
    EmulatedFlash::new(geometry())
}

fn read(flash: &mut EmulatedFlash, address: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    flash.read(address, &mut bytes).expect("read");
    bytes
}

#[test]
fn a_unit_takes_one_program_between_two_erases() {
    let mut flash = flash();
    flash.prog(16, &[0x0f; 16]).expect("a blank unit");
    let error = flash.prog(0, &[0; 32]).expect_err("its second unit is not blank");
    assert_eq!(
        (error.operation, error.address, error.cause),
        (FlashOperation::Prog, 16, FlashCause::AlreadyProgrammed { unit: 16 })
    );
    assert_eq!(read(&mut flash, 0, 17), [&[0; 16][..], &[0x0f]].concat(), "the first unit was programmed");
    flash.erase(0, 64).expect("erase");
    flash.prog(16, &[1; 16]).expect("blank again");
}

#[test]
fn a_unit_programmed_with_erased_bytes_is_used_all_the_same() {
    let mut flash = flash();
    flash.prog(0, &[0xff; 16]).expect("program");
    assert!(!flash.image().is_blank(0, 0));
    assert!(flash.prog(0, &[0; 16]).is_err(), "its error-correcting word has been written");
}

#[test]
fn the_blank_query_and_its_buffer_are_checked() {
    let mut flash = flash();
    flash.prog(16, &[7; 16]).expect("program");
    assert_eq!(flash.is_blank(0, 16, &mut [0; 16]), Ok(true));
    assert_eq!(flash.is_blank(16, 16, &mut [0; 16]), Ok(false));
    for (address, len, blank) in [(0, 32, false), (32, 224, true), (16, 240, false), (64, 0, true)] {
        assert_eq!(flash.is_blank(address, len, &mut [0; 40]), Ok(blank), "{len} bytes from {address}");
    }
    let cause = |result: Result<bool, atrest_device::FlashError>| result.expect_err("refused").cause;
    assert_eq!(cause(flash.is_blank(0, 16, &mut [0; 15])), FlashCause::BufferTooSmall { needs: 16, has: 15 });
    assert_eq!(cause(flash.is_blank(8, 16, &mut [0; 16])), FlashCause::Misaligned { multiple: 16 });
    assert_eq!(cause(flash.is_blank(256, 16, &mut [0; 16])), FlashCause::OutOfBounds { size: 256 });
}

#[test]
fn a_region_counts_from_its_first_block_and_ends_at_its_last() {
    let mut region = FlashRegion::new(flash(), 1, 2).expect("two blocks");
    region.prog(64, &[5; 16]).expect("program");
    let cause = region.prog(64, &[5; 16]).expect_err("programmed already").cause;
    assert_eq!(cause, FlashCause::AlreadyProgrammed { unit: 64 });
    assert_eq!(region.is_blank(64, 16, &mut [0; 16]), Ok(false));
    let error = region.erase(64, 128).expect_err("one block behind the end");
    assert_eq!((error.address, error.cause), (64, FlashCause::OutOfBounds { size: 128 }));
    let mut whole = region.into_inner();
    assert_eq!(read(&mut whole, 128, 16), [5; 16]);
    assert!(FlashRegion::new(&mut whole, 3, 2).is_err());
    assert!(FlashRegion::new(&mut whole, 0, 0).is_err());
    assert!(FlashRegion::new(&mut whole, u64::MAX, 2).is_err());
}

#[test]
fn bad_blocks_fail_in_five_ways() {
    for how in BadBlock::ALL {
        let mut flash = flash();
        flash.prog(64, &[0xf0; 16]).expect("before it goes bad");
        flash.break_block(1, how);
        let prog = flash.prog(80, &[0; 16]).map_err(|error| error.cause);
        let erase = flash.erase(64, 64).map_err(|error| error.cause);
        let mut first = [0; 16];
        let read = flash.read(64, &mut first).map_err(|error| error.cause);
        let bad = Err(FlashCause::BadBlock { block: 1 });
        match how {
            BadBlock::ProgError => assert_eq!((prog, erase, read, first[0]), (bad, Ok(()), Ok(()), 0xff)),
            BadBlock::EraseError => assert_eq!((prog, erase, read, first[0]), (Ok(()), bad, Ok(()), 0xf0)),
            BadBlock::ReadError => assert_eq!(read, Err(FlashCause::Uncorrectable)),
            BadBlock::ProgNoop => {
                assert_eq!((prog, erase, read), (Ok(()), Ok(()), Ok(())));
                assert!(flash.image().is_blank(1, 1), "nothing was stored");
            }
            BadBlock::EraseNoop => {
                assert_eq!((prog, erase, read, first[0]), (Ok(()), Ok(()), Ok(()), 0xf0));
                flash.prog(64, &[0x3c; 16]).expect("what it believes to be blank");
                flash.read(64, &mut first).expect("read");
                assert_eq!(first[0], 0x30, "bits go from 1 to 0 only");
            }
        }
        flash.prog(0, &[0; 16]).expect("other blocks are good");
    }
}

#[test]
fn blocks_wear_out_after_their_erases() {
    let mut flash = flash();
    flash.wear_out_after(2, BadBlock::EraseError);
    flash.erase(0, 64).expect("1");
    flash.erase(0, 256).expect("2");
    assert!(flash.erase(0, 64).is_err(), "worn out");
    flash.erase(64, 64).expect("a younger block");
    assert_eq!(flash.wear().erases, [2, 2, 1, 1]);
    assert_eq!(flash.wear().erased_blocks(), 6);
}

#[test]
fn wear_is_counted_per_unit_and_block() {
    let mut flash = flash();
    flash.prog(48, &[0; 32]).expect("two units in two blocks");
    flash.erase(64, 64).expect("erase");
    flash.prog(64, &[0; 16]).expect("program");
    assert_eq!((flash.wear().programs[3], flash.wear().programs[4], flash.wear().programs[5]), (1, 2, 0));
    assert_eq!((flash.wear().programmed_units(), flash.wear().erased_blocks()), (3, 1));
    assert_eq!((flash.wear().transfers, flash.wear().bytes_read), (2, 0));
}

/// A recording of two units programmed, a sync, a promise, and an erase.
fn recorded() -> atrest_testkit::flash::FlashRecording {
    let mut flash = flash();
    flash.record();
    flash.prog(0, &[0x55; 32]).expect("program");
    flash.sync().expect("sync");
    flash.acknowledge(42);
    flash.erase(0, 64).expect("erase");
    flash.finish_recording()
}

#[test]
fn every_operation_is_cut_in_every_way_and_a_cut_leaves_the_same_each_time() {
    let recording = recorded();
    assert_eq!(recording.len(), 3, "each unit is an operation of its own");
    let cuts = recording.cuts(Caching::None);
    assert_eq!(cuts.len(), 3 * Tear::ALL.len());
    for cut in cuts {
        let (image, promises) = recording.aftermath(cut);
        assert_eq!(recording.aftermath(cut), (image.clone(), promises), "{cut}");
        assert_eq!(promises.len(), usize::from(cut.step == 2), "{cut}");
        let (first, second) = (image.unit(0, 0), image.unit(0, 1));
        match (cut.step, cut.tear) {
            (0, Tear::Clean) => assert_eq!(image, FlashImage::erased(geometry())),
            (0, Tear::Bytes) => {
                let arrived = first.iter().take_while(|byte| **byte == 0x55).count();
                assert!((1..16).contains(&arrived) && first[arrived..].iter().all(|byte| *byte == 0xff));
            }
            (0, Tear::Bits) => {
                assert!(first.iter().all(|byte| byte & 0x55 == 0x55), "bits that stay 1 stay");
                assert!(first != [0x55; 16] && first != [0xff; 16]);
            }
            (1, tear) => {
                assert_eq!(first, [0x55; 16], "what was finished before is there");
                assert_eq!(image.is_blank(0, 1), tear == Tear::Clean);
                let mut torn = EmulatedFlash::with_image(image.clone());
                let read = torn.read(16, &mut [0; 16]);
                assert_eq!(read.is_err(), tear == Tear::Uncorrectable, "{cut}");
            }
            (2, Tear::Clean) => assert_eq!((first, second), (&[0x55; 16][..], &[0x55; 16][..])),
            (2, Tear::Bits) => assert!(first.iter().all(|byte| byte & 0x55 == 0x55) && first != [0x55; 16]),
            _ => {}
        }
        if cut.step == 2 && cut.tear != Tear::Clean {
            assert!((0..4).all(|unit| !image.is_blank(0, unit)), "a half-erased block is not blank");
        }
        assert!((1..4).all(|block| image.used_units(block) == 0), "other blocks are untouched");
    }
}

#[test]
fn a_cache_loses_any_of_the_unsynced_operations_and_none_of_the_synced() {
    let mut flash = flash();
    flash.prog(192, &[9; 16]).expect("before the recording");
    flash.record();
    flash.prog(64, &[1; 16]).expect("synced");
    flash.sync().expect("sync");
    flash.prog(0, &[2; 48]).expect("three units");
    flash.erase(192, 64).expect("erase");
    flash.prog(192, &[3; 16]).expect("behind the erase");
    flash.prog(128, &[4; 16]).expect("the one that is cut");
    let recording = flash.finish_recording();
    let mut seen = BTreeSet::new();
    for seed in 0..400 {
        let cut = PowerCut { step: 6, tear: Tear::Clean, caching: Caching::UntilSync, seed };
        let (image, _) = recording.aftermath(cut);
        assert_eq!(image.unit(1, 0), [1; 16], "{cut}");
        seen.insert(([0, 1, 2].map(|unit| image.is_blank(0, unit)), image.unit(3, 0)[0]));
    }
    // Any of three units, and the block that was erased and programmed: neither, the erase, both.
    assert_eq!(seen.len(), 8 * 3);
}

#[test]
fn a_snapshot_does_not_see_later_changes() {
    let mut flash = flash();
    flash.prog(0, &[1; 16]).expect("program");
    let snapshot = flash.image().clone();
    flash.erase(0, 64).expect("erase");
    assert_eq!((snapshot.unit(0, 0)[0], flash.image().unit(0, 0)[0]), (1, 0xff));
    let again = FlashImage::from_bytes(geometry(), &snapshot.to_bytes());
    assert_eq!(again, snapshot);
}

#[test]
fn the_adversary_has_seen_every_version() {
    let recording = recorded();
    assert_eq!(recording.op(2), &FlashOp::Erase { block: 0 });
    let adversary = Adversary::new(&recording);
    assert_eq!((adversary.versions(0), adversary.versions(1)), (4, 1), "blank, one unit, two, erased");
    let now = recording.images().last().expect("the end").clone();
    let after = |attack| {
        let mut image = now.clone();
        let changed = adversary.attack(&mut image, attack);
        (image, changed)
    };
    let (image, changed) = after(Attack::ReplayBlock { block: 0, version: 2 });
    assert!(changed && image.unit(0, 1) == [0x55; 16]);
    let (image, _) = after(Attack::ReplayUnit { block: 0, unit: 0, version: 2 });
    assert!(image.unit(0, 0) == [0x55; 16] && image.is_blank(0, 1));
    let (image, _) = after(Attack::ReplayImage { step: 1 });
    assert!(image.unit(0, 0) == [0x55; 16] && image.is_blank(0, 1));
    assert!(!after(Attack::SwapBlocks { a: 1, b: 2 }).1, "blank for blank changes nothing");
    assert!(after(Attack::FlipBit { block: 3, byte: 17, bit: 2 }).0.unit(3, 1)[1] == 0xfb);
    let mut two = recording.images().nth(2).expect("two units").clone();
    assert!(adversary.attack(&mut two, Attack::SwapUnits { a: (0, 1), b: (3, 3) }));
    assert!(two.unit(3, 3) == [0x55; 16] && two.is_blank(0, 1));
    assert!(adversary.attack(&mut two, Attack::Truncate { block: 0, from: 0 }) && two.is_blank(0, 0));
}

#[test]
fn drawn_attacks_are_of_every_kind_and_replay_from_their_seed() {
    let recording = recorded();
    let adversary = Adversary::new(&recording);
    let drawn = |seed| {
        let mut random = Random::new(seed);
        (0..200).map(|_| adversary.draw(&mut random)).collect::<Vec<Attack>>()
    };
    assert_eq!(drawn(1), drawn(1));
    let kinds: HashSet<_> = drawn(1).iter().map(std::mem::discriminant).collect();
    assert_eq!(kinds.len(), 8);
    let mut changed = 0;
    for attack in drawn(2) {
        let mut image = recording.images().nth(2).expect("two units").clone();
        changed += usize::from(adversary.attack(&mut image, attack));
    }
    assert!(changed > 50, "{changed} of 200 attacks changed anything");
}
