//! One wrong bit anywhere on a sealed card: the desk reads every file of the LittleFS inside, each time.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::common::Scratch;
use crate::common::sealed::{DATA, bytes, run, with_card};
use atrest_device::LockMode;
use atrest_engine::flash::{open, open_sealed_to_read};
use atrest_engine::{Access, FileDevice, TrustedFile};
use atrest_filetree::{FileTree, TreePath};
use atrest_inside::open_flash_tree;
use atrest_keyslot::flash::{AnyKdf, FlashKey};
use atrest_testkit::{Campaign, Random};

/// A card with files of some units each, in three directories.
fn card() -> (Scratch, Vec<(TreePath, Vec<u8>)>) {
    let scratch = with_card();
    let mut files = Vec::new();
    run(&scratch, "$ATREST mkdir $K card /a && $ATREST mkdir $K card /a/b").ok();
    for (number, directory) in (0_usize..12).zip(["/", "/a/", "/a/b/"].into_iter().cycle()) {
        let content = Random::new(number as u64).bytes(20 + 1_700 * number);
        let (name, path) = (format!("file{number}"), format!("{directory}file{number}"));
        scratch.file(&name, &content);
        run(&scratch, &format!("$ATREST cp $K {name} card:{path}")).ok();
        files.push((TreePath::parse(&path).expect("a path"), content));
    }
    (scratch, files)
}

fn device(path: &Path) -> Arc<FileDevice> {
    Arc::new(FileDevice::open(path, Access::ReadOnly).expect("the card"))
}

fn content(tree: &dyn FileTree, path: &TreePath, len: usize) -> Option<Vec<u8>> {
    let mut content = vec![0; len + 1];
    let mut at = 0;
    loop {
        match tree.read_at(path, at as u64, &mut content[at..]).ok()? {
            0 => break,
            read => at += read,
        }
    }
    content.truncate(at);
    Some(content)
}

#[test]
fn one_wrong_bit_anywhere_hides_no_file() {
    let (scratch, files) = card();
    let (path, store) = (scratch.path("card"), scratch.path("store"));
    let good = bytes(&scratch, "card");
    let used: Vec<usize> = (DATA..good.len()).filter(|byte| good[*byte] != 0xff).collect();
    let mut key = FlashKey::empty();
    open(device(&path))
        .expect("a header")
        .unlock(None, b"correct horse\n", &mut AnyKdf, None, &mut key)
        .expect("the passphrase");
    let medium = OpenOptions::new().write(true).open(&path).expect("the card");
    let [mut noticed, mut unnoticed] = [0_u64; 2];
    Campaign::new("sealed card below littlefs, one flipped bit", 150, 10_000).run(
        |_, random: &mut Random| {
            // Most of the card is blank: three of four bits are where something stands.
            let byte = match random.below(4) {
                0 => random.below(good.len() as u64) as usize,
                _ => *random.pick(&used),
            };
            let what = format!("bit of byte {byte}");
            let changed = [good[byte] ^ 1 << random.below(8)];
            medium.write_all_at(&changed, byte as u64).expect("a flip");
            let record = TrustedFile::open(&store, LockMode::Shared).expect("the store");
            let plain = open(device(&path)).and_then(|volume| open_sealed_to_read(volume, &key, &record));
            let plain = plain.unwrap_or_else(|error| panic!("{what}: {error}"));
            *(if plain.is_damaged() { &mut noticed } else { &mut unnoticed }) += 1;
            let tree = open_flash_tree(plain, atrest_inside::Access::ReadOnly);
            let tree = tree.unwrap_or_else(|error| panic!("{what}: {error}"));
            for (path, expected) in &files {
                assert!(content(&*tree, path, expected.len()).as_ref() == Some(expected), "{what}: {path}");
            }
            medium.write_all_at(&[good[byte]], byte as u64).expect("and back");
        },
    );
    println!(
        "{noticed} flips were noticed at opening, {unnoticed} not: in what nothing stands on, or in a salt"
    );
    assert!(noticed > unnoticed);
}
