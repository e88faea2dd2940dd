//! Media that fail below a volume that is served, through every face: an error reaches whoever asked for it and
//! nobody else, what is read is right, and what was acknowledged stays.

use std::ops::Range;
use std::sync::Arc;

use atrest_device::BlockDevice;
use atrest_testkit::fault::Fault;
use atrest_testkit::{Campaign, FaultDevice, Random};

use super::faces::{Face, Mounted, Secured, Virtual};
use super::torn::{CIPHERS, UNIT, volume};
use crate::common::Serving;

/// Longer than the pieces into which faces cut long requests.
const SIZE: usize = 160 * UNIT;
const STEPS: usize = 150;

/// What each byte may be: what was acknowledged last, and what writes that failed since may have left.
struct Model(Vec<Vec<u8>>);

impl Model {
    fn write(&mut self, at: usize, data: &[u8]) {
        for (may_be, byte) in self.0[at..].iter_mut().zip(data) {
            *may_be = vec![*byte];
        }
    }

    fn fail_to_write(&mut self, at: usize, data: &[u8]) {
        for (may_be, byte) in self.0[at..].iter_mut().zip(data) {
            may_be.push(*byte);
        }
    }

    /// The first byte of what was read that can't be there.
    fn wrong(&self, at: usize, found: &[u8]) -> Option<usize> {
        let wrong = self.0[at..].iter().zip(found).position(|(may_be, byte)| !may_be.contains(byte));
        wrong.map(|index| at + index)
    }
}

/// What fails on the media now, and whether nothing may be written any more.
#[derive(Default)]
struct Broken {
    faults: Vec<Fault>,
    /// A client was told that a flush failed.
    flush_failed: bool,
    /// One may have failed that nobody asked for: closing a mounted file flushes it, and no error of that is told.
    flush_may_have_failed: bool,
}

impl Broken {
    /// Whether the media refuse a read of these whole data units.
    fn refuses_read(&self, units: &Range<u64>) -> bool {
        self.faults.iter().any(|fault| match *fault {
            Fault::UnreadableRange { offset, len } => offset < units.end && units.start < offset + len,
            Fault::ShrunkTo { size } => units.end > size,
            Fault::GoneAfter { .. } => true,
            _ => false,
        })
    }

    /// Whether they may refuse a write that changes these. Parts of them are read first.
    fn may_refuse_write(&self, units: &Range<u64>) -> bool {
        let refuses = |fault: &Fault| match *fault {
            Fault::UnwritableRange { offset, len } => offset < units.end && units.start < offset + len,
            Fault::NoSpaceFrom { offset } => units.end > offset,
            _ => false,
        };
        self.flush_may_have_failed || self.refuses_read(units) || self.faults.iter().any(refuses)
    }

    fn may_refuse_flush(&self) -> bool {
        let refuses = |fault: &Fault| matches!(fault, Fault::FailingFlush { .. } | Fault::GoneAfter { .. });
        self.flush_may_have_failed || self.faults.iter().any(refuses)
    }

    fn fail_flush(&mut self) {
        self.flush_failed = true;
        self.flush_may_have_failed = true;
    }
}

/// How often what was refused.
#[derive(Debug, Default)]
struct Counts {
    reads: u64,
    writes: u64,
    flushes: u64,
    done: u64,
    lent: u64,
}

fn faults<F: Face>(name: &'static str) {
    let mut counts = Counts::default();
    Campaign::new(name, 3, 150).run(|_, random| case::<F>(random, &mut counts));
    println!("{name}: {counts:?} (refused, done, and read from lent bytes)");
    let Counts { reads, writes, flushes, done, lent } = counts;
    // One case that somebody replays may have none.
    if Campaign::is_full() {
        assert!(reads > 100 && writes > 100 && flushes > 20 && done > 1000 && lent > 100);
    }
}

fn case<F: Face>(random: &mut Random, counts: &mut Counts) {
    let media = FaultDevice::zeroed(SIZE);
    // Every other volume is on media that lie in memory, as with `open --map`.
    let media = Arc::new(if random.below(2) == 0 { media.lending() } else { media });
    let volume = volume(media.clone(), CIPHERS[1]);
    let initial = random.bytes(SIZE);
    volume.write_at(0, &initial).unwrap();
    let mut model = Model(initial.into_iter().map(|byte| vec![byte]).collect());
    let mut broken = Broken::default();
    let face = F::start(volume.clone());
    let mut client = face.connect();
    for step in 0..STEPS {
        match random.below(12) {
            0 => {
                let fault = fault(&media, random);
                media.fail(fault);
                broken.faults.push(fault);
            }
            1 if random.below(2) == 0 => {
                media.heal();
                broken.faults.clear();
            }
            _ => {}
        }
        let (at, len) = range::<F>(random);
        let units = (at / UNIT * UNIT) as u64..(at + len).next_multiple_of(UNIT) as u64;
        let refused = match random.below(8) {
            0 => match client.flush() {
                Ok(()) => {
                    assert!(!broken.flush_failed, "step {step}: a flush succeeds after one that failed");
                    false
                }
                Err(error) => {
                    assert!(broken.may_refuse_flush(), "step {step}: {error}: {:?}", broken.faults);
                    broken.fail_flush();
                    counts.flushes += 1;
                    true
                }
            },
            1..4 => {
                let data = random.bytes(len);
                match client.write(at as u64, &data) {
                    Ok(()) => {
                        assert!(!broken.flush_failed, "step {step}: a write succeeds after a failed flush");
                        model.write(at, &data);
                        false
                    }
                    Err(error) => {
                        let why = || format!("step {step}: {at}+{len}: {error}: {:?}", broken.faults);
                        assert!(broken.may_refuse_write(&units), "{}", why());
                        model.fail_to_write(at, &data);
                        counts.writes += 1;
                        true
                    }
                }
            }
            _ => match client.read(at as u64, len) {
                Ok(found) => {
                    assert_eq!(model.wrong(at, &found), None, "step {step}: read of {at}+{len}");
                    false
                }
                Err(error) => {
                    let why = || format!("step {step}: {at}+{len}: {error}: {:?}", broken.faults);
                    assert!(broken.refuses_read(&units), "{}", why());
                    counts.reads += 1;
                    true
                }
            },
        };
        match refused {
            // An error in the middle of a long reply may have cost the connection.
            true => {
                client = face.connect();
                broken.flush_may_have_failed |= F::FLUSHES_WHEN_CLOSED && broken.may_refuse_flush();
            }
            false => counts.done += 1,
        }
    }
    // The server is well, and what was acknowledged is there.
    drop(client);
    broken.flush_may_have_failed |= F::FLUSHES_WHEN_CLOSED && broken.may_refuse_flush();
    media.heal();
    let mut client = face.connect();
    let found: Vec<u8> =
        (0..SIZE).step_by(8 * UNIT).flat_map(|at| client.read(at as u64, 8 * UNIT).unwrap()).collect();
    assert_eq!(model.wrong(0, &found), None, "what was acknowledged is lost");
    counts.lent += media.lent();
    let flushed = client.flush().is_ok();
    assert!(if flushed { !broken.flush_failed } else { broken.flush_may_have_failed });
}

/// Of what a client asks: often within a data unit, seldom longer than a piece.
fn range<F: Face>(random: &mut Random) -> (usize, usize) {
    let most = match random.below(20) {
        0 => 100 * UNIT,
        1..8 => 5 * UNIT,
        _ => UNIT / 2,
    };
    let sectors = |bytes: usize| bytes.div_ceil(F::SECTOR);
    let len = 1 + random.index(sectors(most));
    let at = random.index(sectors(SIZE) - len + 1);
    (at * F::SECTOR, len * F::SECTOR)
}

fn fault(media: &FaultDevice, random: &mut Random) -> Fault {
    let (offset, len) = (random.below(SIZE as u64), 1 + random.below(8 * UNIT as u64));
    let (writes, flushes) = media.counts();
    match random.below(24) {
        0 => Fault::GoneAfter { writes: writes + random.below(4) },
        1 => Fault::FailingFlush { number: flushes + random.below(2) },
        2 | 3 => Fault::ShrunkTo { size: (SIZE as u64 + offset) / 2 },
        // Of a data unit that is stored in part nothing can be decrypted, old or new.
        4 | 5 => Fault::NoSpaceFrom { offset: ((SIZE as u64 + offset) / 2).next_multiple_of(UNIT as u64) },
        6..15 => Fault::UnwritableRange { offset, len },
        _ => Fault::UnreadableRange { offset, len },
    }
}

#[test]
fn errors_of_the_media_reach_whoever_asked_by_nbd_and_nobody_else() {
    faults::<Serving>("media that fail below NBD");
}

#[test]
fn errors_of_the_media_reach_whoever_asked_by_nbd_over_tls_and_nobody_else() {
    faults::<Secured>("media that fail below NBD over TLS");
}

#[test]
fn errors_of_the_media_reach_whoever_asked_by_fuse_and_nobody_else() {
    faults::<Mounted<false>>("media that fail below FUSE");
}

#[test]
fn errors_of_the_media_reach_whoever_asked_by_fuse_on_rings_and_nobody_else() {
    faults::<Mounted<true>>("media that fail below FUSE on rings");
}

#[test]
fn errors_of_the_media_reach_whoever_asked_by_vhost_user_and_nobody_else() {
    faults::<Virtual>("media that fail below vhost-user");
}
