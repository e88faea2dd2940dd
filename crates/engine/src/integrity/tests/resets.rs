//! A kernel that writes through dm-integrity is killed in the middle: what it had made durable is read here, and no tag is wrong.

use std::fmt::Write;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};
use std::{fs, thread};

use atrest_testkit::kernel::Kernel;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Campaign, Random, Scratch};

use super::*;

const SIZE: usize = 6 << 20;
/// More writes than any kernel is left time for.
const WRITES: usize = 3000;
const BLOCK: usize = 4096;
/// Blocks in a write.
const BLOCKS: usize = 3;

/// A guest, which is killed at the end, whatever becomes of the test.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        Program::named("kill").arg(self.0.id().to_string()).run();
        // intended: the emulator is gone when it has ended.
        let _ = self.0.wait();
    }
}

/// How many writes a file of the guest's speaks of, by its last number: the last line may be torn, and earlier ones lost on their way.
fn count(path: &Path) -> usize {
    // intended: there is no file before the first line.
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.next_back().map_or(0, |line| line.trim().parse::<usize>().expect("a number") + 1)
}

#[test]
fn what_a_kernel_made_durable_before_a_reset_is_read_and_no_tag_is_wrong() {
    Campaign::new("resets of a kernel in the middle of writes", 1, 50).run(|seed, random| {
        let mut kind = [KINDS[0], KINDS[2], KINDS[3]][seed as usize % 3].clear();
        kind.journal_mac = false;
        let (mode, way) = match seed / 3 % 2 {
            0 => (Mode::Bitmap, "--integrity-bitmap-mode"),
            _ => (Mode::Journal, ""),
        };
        let share = Scratch::new();
        let image = share.path("image");
        let made = kind.made(SIZE, 0).image();
        let superblock = Superblock::parse(&made).expect("a superblock");
        fs::write(&image, &made).expect("an image");
        let blocks = superblock.provided / BLOCK as u64;
        let places: Vec<u64> = (0..WRITES).map(|_| random.below((blocks - BLOCKS as u64).min(200))).collect();
        let mut lines = String::new();
        places.iter().for_each(|place| writeln!(lines, "{place}").expect("a line"));
        fs::write(share.path("places"), lines).expect("the list");
        let data = Random::new(seed).bytes((WRITES + BLOCKS) * BLOCK);
        fs::write(share.path("random"), &data).expect("data");
        fs::write(share.path("key"), KEY).expect("the key");
        let key = match hash(kind.tags).spec().is_keyed() {
            true => "--integrity-key-file /share/key --integrity-key-size 40",
            false => "",
        };
        let options = format!("--integrity {} {way} {key}", kind.tags);
        let kernel = Kernel::script("integrity-writes.sh").disk(&image).share(share.as_path());
        let mut guest = Guest(kernel.start(&options));
        let wanted = 1 + random.index(60);
        let deadline = Instant::now() + Duration::from_secs(300);
        while count(&share.path("acked")) < wanted {
            let ended = guest.0.try_wait().expect("it can be waited for");
            assert!(ended.is_none() && Instant::now() < deadline, "the guest writes nothing: {ended:?}");
            thread::sleep(Duration::from_millis(5));
        }
        drop(guest);

        let acked = count(&share.path("acked"));
        let media = Arc::new(FaultDevice::new(fs::read(&image).expect("the image")));
        let mut options = kind.options(mode, false);
        options.unkeyed = key.is_empty();
        let open = Integrity::open(media, 0, kind.tagged(&superblock), options).expect("it opens");
        open.wait_until_recalculated().expect("computed");
        let unit = kind.unit as usize;
        for number in 0..superblock.provided / unit as u64 {
            let mut found = vec![0; unit];
            open.read(number * unit as u64, &mut found)
                .unwrap_or_else(|error| panic!("{kind:?} {mode:?} after {acked} writes: {error}"));
            let at = number as usize * unit;
            // What each write puts there, in order. One that has not begun can't be found.
            let versions = (0..WRITES).filter_map(|write| {
                let skip = at.checked_sub(places[write] as usize * BLOCK)?;
                (skip < BLOCKS * BLOCK).then(|| (write, &data[write * BLOCK + skip..][..unit]))
            });
            let versions: Vec<_> = versions.collect();
            let durable = versions.iter().rposition(|(write, _)| *write < acked);
            let zeros = vec![0; unit];
            let allowed = match durable {
                None => versions.iter().map(|(_, data)| *data).chain([&zeros[..]]).any(|data| data == found),
                Some(at) => versions[at..].iter().any(|(_, data)| *data == found),
            };
            assert!(allowed, "{kind:?} {mode:?}: unit {number} after {acked} writes");
        }
    });
}
