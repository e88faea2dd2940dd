//! Reads and writes against a vector of bytes; flipped bits.

use atrest_device::Cause;
use atrest_testkit::Random;

use super::*;
use crate::{Disk, DiskOptions};

const SIZE: usize = 2 << 20;

fn disk(kind: Kind, media: &Arc<FaultDevice>, at: u64, mode: Mode) -> Disk {
    let opened = kind.open(media.clone(), at, mode);
    Disk::of_integrity(media.clone(), opened, DiskOptions::default()).expect("it fits")
}

#[test]
fn bytes_are_those_that_were_written_in_every_layout_and_mode_also_after_a_new_opening() {
    for (kind, seed) in KINDS.into_iter().zip(1..) {
        for mode in [Mode::Journal, Mode::Direct] {
            let mut random = Random::new(seed);
            let at = [0, 40_960][seed as usize % 2];
            let media = kind.made(SIZE, at);
            let mut open = disk(kind, &media, at, mode);
            let mut model = vec![0; open.size() as usize];
            assert!(model.len() > SIZE / 3, "{kind:?}: {}", model.len());
            for step in 0..300 {
                let len = random.index(if step % 10 == 0 { 400_000 } else { 9000 }) + 1;
                let offset = random.index(model.len() - len);
                match random.below(8) {
                    0..4 => {
                        let mut data = random.bytes(len);
                        if random.below(3) == 0 {
                            // On whole units.
                            let unit = kind.unit as usize;
                            let (start, end) = (offset / unit * unit, (offset + len) / unit * unit);
                            data.truncate(end.saturating_sub(start));
                            open.write_consuming(start as u64, &mut data.clone()).expect("written");
                            model[start..start + data.len()].copy_from_slice(&data);
                        } else {
                            open.write_at(offset as u64, &data).expect("written");
                            model[offset..offset + len].copy_from_slice(&data);
                        }
                    }
                    4 => {
                        open.write_zeroes(offset as u64, len as u64).expect("written");
                        model[offset..offset + len].fill(0);
                    }
                    5 => open.discard(offset as u64, len as u64).expect("ignored"),
                    6 if step % 3 == 0 => open.flush().expect("flushed"),
                    6 if step % 3 == 1 => {
                        drop(open);
                        open = disk(kind, &media, at, mode);
                    }
                    _ => {
                        let mut read = vec![1; len];
                        let unit = kind.unit as usize;
                        let cached = len.is_multiple_of(unit) && offset.is_multiple_of(unit);
                        if !cached || !open.read_if_cached(offset as u64, &mut read).expect("cached") {
                            open.read_at(offset as u64, &mut read).expect("read");
                        }
                        assert!(
                            read == model[offset..offset + len],
                            "{kind:?} {mode:?} {step}: {offset} {len}"
                        );
                    }
                }
            }
            drop(open);
            for mode in [Mode::Journal, Mode::Direct] {
                let mut all = vec![1; model.len()];
                disk(kind, &media, at, mode).read_at(0, &mut all).expect("read");
                assert!(all == model, "{kind:?}: after a new opening");
            }
        }
    }
}

#[test]
fn a_flipped_bit_of_data_or_tag_is_an_error_of_that_unit_alone() {
    const BITS: usize = 500;
    for (kind, seed) in KINDS.into_iter().zip(10..) {
        let mut random = Random::new(seed);
        let media = kind.made(SIZE, 0);
        let unit = u64::from(kind.unit);
        {
            let open = disk(kind, &media, 0, Mode::Direct);
            let data = random.bytes(open.size() as usize);
            open.write_at(0, &data).expect("written");
        }
        let image = media.image();
        let superblock = Superblock::parse(&image).expect("a superblock");
        let layout = Layout::new(&superblock, SIZE as u64, None).expect("it lies there");
        let media = Arc::new(FaultDevice::new(image));
        let open = kind.open(media.clone(), 0, Mode::Direct);
        for _ in 0..BITS {
            let number = random.below(layout.units());
            let span = layout.span(number, 1).expect("a unit");
            let at = match random.below(2) {
                0 => span.data + random.below(unit),
                _ => span.tags + random.below(kind.tag_len.into()),
            };
            let mut byte = [0];
            media.read_at(at, &mut byte).expect("read");
            let bit = 1 << random.below(8);
            media.write_at(at, &[byte[0] ^ bit]).expect("flipped");
            let mut run = vec![0; unit as usize];
            let error = open.read(number * unit, &mut run).expect_err("it is found");
            assert_eq!(
                (error.offset, error.len, error.cause),
                (number * unit, unit, Cause::Tag { unit: number })
            );
            assert!(run.iter().all(|byte| *byte == 0), "no data is handed out");
            let from = number.saturating_sub(1) * unit;
            let mut more = vec![0; (2 * unit) as usize];
            assert_eq!(
                open.read(from, &mut more).map_err(|error| error.cause),
                Err(Cause::Tag { unit: number })
            );
            for other in [number.wrapping_sub(1), number + 1] {
                if other < layout.units() {
                    open.read(other * unit, &mut run).expect("its neighbours are right");
                }
            }
            media.write_at(at, &byte).expect("flipped back");
            open.read(number * unit, &mut run).expect("it is right again");
        }
    }
}

#[test]
fn a_part_of_a_unit_whose_tag_is_wrong_is_not_written_and_a_whole_one_is() {
    let kind = KINDS[2];
    let media = kind.made(SIZE, 0);
    let superblock = Superblock::parse(&media.image()).expect("a superblock");
    let layout = Layout::new(&superblock, SIZE as u64, None).expect("it lies there");
    media.write_at(layout.span(3, 1).expect("a unit").data, b"x").expect("spoilt");
    let open = disk(kind, &media, 0, Mode::Journal);
    assert_eq!(open.write_at(3 * 4096 + 5, b"abc").map_err(|error| error.cause), Err(Cause::Tag { unit: 3 }));
    open.write_at(3 * 4096, &[7; 4096]).expect("written");
    open.flush().expect("flushed");
    let mut read = [0; 4096];
    open.read_at(3 * 4096, &mut read).expect("right");
    assert_eq!(read, [7; 4096]);
}

#[test]
fn readers_and_writers_beside_each_other_never_see_a_false_alarm() {
    for kind in [KINDS[0], KINDS[1]] {
        for mode in [Mode::Journal, Mode::Direct] {
            let media = kind.made(SIZE, 0);
            let open = disk(kind, &media, 0, mode);
            let slots = open.size() / 65_536;
            std::thread::scope(|scope| {
                for writer in 0..3_u64 {
                    let open = &open;
                    scope.spawn(move || {
                        let mut random = Random::new(writer + 1);
                        for _ in 0..150 {
                            let slot = random.below(slots) * 65_536 + random.below(8) * 512;
                            open.write_at(slot, &vec![writer as u8; 4096]).expect("written");
                            if random.below(10) == 0 {
                                open.flush().expect("flushed");
                            }
                        }
                    });
                }
                let open = &open;
                scope.spawn(move || {
                    let mut random = Random::new(9);
                    let mut read = vec![0; 8192];
                    for _ in 0..600 {
                        open.read_at(random.below(slots) * 65_536, &mut read).expect("no false alarm");
                    }
                });
            });
        }
    }
}
