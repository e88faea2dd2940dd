//! Power losses while the journal is written: what was flushed is there, and no tag is wrong.

use atrest_testkit::{Campaign, Random};

use super::*;

/// Small, so that the ring of sections goes round many times.
const SIZE: usize = 700 << 10;

fn unit_of(number: u64, version: u64, unit: usize) -> Vec<u8> {
    let mut random = Random::new(number << 32 | version | 1 << 60);
    random.bytes(unit)
}

#[test]
fn what_was_flushed_survives_every_power_loss_and_no_tag_is_wrong() {
    Campaign::new("dm-integrity's journal, power losses", 4, 200).run(|seed, random| {
        let mut kind = KINDS[seed as usize % KINDS.len()];
        // One section, two, and more.
        kind.journal = [Some(1), Some(400), Some(600)][random.index(3)];
        let media = kind.made(SIZE, 0);
        let unit = kind.unit as usize;
        media.forget();
        // For each unit its versions by the step in which they were written; 0 are the zeros.
        let mut written: Vec<(u64, u64)> = Vec::new();
        let mut flushed_at: Vec<u64> = vec![0];
        {
            let open = kind.open(media.clone(), 0, Mode::Journal);
            let units = (open.size() / unit as u64).min(40);
            for step in 1..=40 {
                let first = random.below(units - 4);
                for number in first..=first + random.below(4) {
                    open.write(number * unit as u64, &mut unit_of(number, step, unit)).expect("written");
                    written.push((number, step));
                }
                if random.below(4) == 0 {
                    open.flush().expect("flushed");
                    flushed_at.push(step);
                    media.acknowledge(step);
                }
            }
        }
        let limits = atrest_testkit::power_loss::Limits {
            exhaustive: 4,
            sampled: 4,
            tears: 1,
            seed,
            ..Default::default()
        };
        let visited = media.recording().for_each_power_loss(&limits, |after| {
            let promised = after.acknowledged.iter().copied().max().unwrap_or(0);
            let left = Arc::new(FaultDevice::new(after.image.clone()));
            let superblock = read_superblock(&*left, 0).expect("a superblock");
            // As a reader, and then as a writer, who replays.
            for read_only in [true, false] {
                let options = kind.options(Mode::Journal, read_only);
                let open = Integrity::open(left.clone(), 0, kind.tagged(&superblock), options);
                let open =
                    open.unwrap_or_else(|error| panic!("{kind:?} {seed} {}: {error}", after.power_loss));
                for number in 0..40.min(open.size() / unit as u64) {
                    let mut found = vec![0; unit];
                    let read = open.read(number * unit as u64, &mut found);
                    read.unwrap_or_else(|error| panic!("{kind:?} {seed} {}: {error}", after.power_loss));
                    let of_unit =
                        || written.iter().filter(move |(other, _)| *other == number).map(|(_, step)| *step);
                    let durable = of_unit().filter(|step| *step <= promised).max().unwrap_or(0);
                    let allowed = of_unit().filter(|step| *step > durable).chain([durable]);
                    let mut versions = allowed.map(|step| match step {
                        0 => vec![0; unit],
                        step => unit_of(number, step, unit),
                    });
                    assert!(
                        versions.any(|version| version == found),
                        "{kind:?} {seed} {}: unit {number}",
                        after.power_loss
                    );
                }
            }
        });
        assert!(visited > 20, "{visited} states");
    });
}
