//! Hash trees that we make, read by the kernel's dm-verity: whole, with a changed block, and with one that it repairs.

use std::fmt::Write;
use std::fs;

use atrest_testkit::atrest::atrest;
use atrest_testkit::kernel::Kernel;
use atrest_testkit::{Random, Scratch};

/// Name, bytes in a block, hash type, hash, salt, bytes of parity, and the block that is changed after the tree was made.
type Tree = (&'static str, u64, u32, &'static str, &'static str, Option<u32>, Option<usize>);

const VOLUMES: &[Tree] = &[
    ("whole", 4096, 1, "sha256", "00ff11ee", None, None),
    ("small", 512, 1, "sha512", "-", None, None),
    ("chrome-os", 1024, 0, "sha1", "dadada", None, None),
    ("changed", 4096, 1, "sha256", "77", None, Some(9)),
    ("repaired", 4096, 1, "sha256", "77", Some(2), Some(9)),
];

const SIZE: usize = 512 << 10;

#[test]
fn trees_are_read_checked_and_repaired_by_the_kernel() {
    let share = Scratch::new();
    let path = |name: &str, part: &str| share.path(format!("{name}.{part}"));
    let mut random = Random::new(23);
    let data = random.bytes(SIZE);
    let mut lines = String::new();
    for (name, block, kind, hash, salt, roots, changed) in VOLUMES {
        fs::write(path(name, "data"), &data).expect("write the data");
        let sizes = format!("--data-block-size {block} --hash-block-size {block}");
        let program = atrest("verity format --json")
            .words(&format!("{sizes} --format {kind} --hash {hash} --salt={salt}"));
        let program = match roots {
            Some(roots) => program.words(&format!("--fec-roots {roots} --fec-device")).arg(path(name, "fec")),
            None => program,
        };
        let made = program.arg(path(name, "data")).arg(path(name, "tree")).ok().json();
        let number = |field: &str| made[field].as_u64().expect(field);
        let (blocks, root) = (number("data_blocks"), made["root_hash"].as_str().expect("a root hash"));
        let covered = blocks + number("hash_blocks");
        let options = match roots {
            Some(roots) => {
                format!("8 use_fec_from_device FEC fec_roots {roots} fec_blocks {covered} fec_start 0")
            }
            None => String::new(),
        };
        // The superblock takes the first block of the tree's file.
        writeln!(lines, "{name} {blocks} {block} {block} 1 {kind} {hash} {root} {salt} {options}")
            .expect("a string");
        if let Some(block_number) = changed {
            let mut bytes = data.clone();
            bytes[block_number * *block as usize + 5] ^= 4;
            fs::write(path(name, "data"), &bytes).expect("write the changed data");
        }
    }
    fs::write(share.path("volumes"), lines).expect("write the list of volumes");
    let told = Kernel::script("verity.sh").share(share.as_path()).ok("").text();
    for (name, block, _, _, _, roots, changed) in VOLUMES {
        let read = fs::read(path(name, "read")).expect("what the kernel read");
        let (len, verdict) = match (changed, roots) {
            (Some(number), None) => (number * *block as usize, "C"),
            _ => (SIZE, "V"),
        };
        // Reading ahead may fail before the block before it was copied.
        assert!(read.len() <= len && (read.len() == len || verdict == "C"), "{name}: {} bytes", read.len());
        assert!(read == data[..read.len()], "{name}: other data");
        assert!(told.contains(&format!("{name}: {verdict}")), "{name}: {told}");
    }
}
