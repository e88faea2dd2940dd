//! Seeds that a parser refuses at once would fuzz nothing: they must get as far as they are meant to.

use std::fs;
use std::path::Path;

use atrest_device::BlockDevice;
use atrest_filetree::{Kind, Stop, TreeError, TreePath};
use atrest_format::luks2::{CopyKind, Header, Metadata};
use atrest_fuzz::{Image, fscrypt_keyring, littlefs_listing};
use atrest_inside::{Access, open_tree, open_tree_with};
use atrest_probe::partition::partitions;
use atrest_volume::{Devices, LockedVolume, Passphrase, UnlockOptions};

fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let entries = fs::read_dir(directory).expect("the target has seeds");
    let read = |path: &Path| (path.display().to_string(), fs::read(path).expect("readable"));
    entries.map(|entry| read(&entry.expect("readable").path())).collect()
}

/// Each gets past the tag and the layout: the first byte says what it is.
#[test]
fn objects_of_a_sealed_volume_are_those_that_are_made() {
    let made = atrest_fuzz::sealed_volume_seeds();
    let there = seeds("sealed_volume");
    assert_eq!(there.len(), made.len());
    for (name, seed) in made {
        let kept = there.iter().find(|(path, _)| path.ends_with(&format!("/{name}")));
        assert_eq!(kept.map(|(_, kept)| kept), Some(&seed), "{name}: made by make-seeds sealed_volume");
        assert!(atrest_fuzz::sealed_volume_is_taken(&seed), "{name} is refused");
    }
}

#[test]
fn tokens_of_cards_and_of_several_factors_are_those_that_are_made_and_are_taken() {
    let made = atrest_fuzz::token_seeds();
    let there = seeds("token");
    for name in ["pkcs11", "shares"] {
        let made = made.iter().find(|(made, _)| *made == name).map(|(_, seed)| seed);
        let kept = there.iter().find(|(path, _)| path.ends_with(&format!("/{name}"))).map(|(_, kept)| kept);
        assert_eq!(kept, made, "{name}: made by make-seeds");
        let text = core::str::from_utf8(kept.expect("a seed")).expect("text");
        let taken = match name {
            "pkcs11" => atrest_open::token::pkcs11::check(text),
            _ => atrest_open::token::shares::check(text),
        };
        assert_eq!(taken, Ok(()), "{name}");
    }
}

#[test]
fn answers_of_google_are_those_that_are_made() {
    let there = seeds("google");
    let made = atrest_fuzz::google_seeds();
    assert_eq!(there.len(), made.len());
    for (name, seed) in made {
        let kept = there.iter().find(|(path, _)| path.ends_with(&format!("/{name}")));
        assert_eq!(kept.map(|(_, kept)| kept), Some(&seed), "{name}: made by make-seeds google");
    }
}

#[test]
fn answers_of_s3_are_those_that_are_made() {
    let there = seeds("s3");
    let made = atrest_fuzz::s3_seeds();
    assert_eq!(there.len(), made.len());
    for (name, seed) in made {
        let kept = there.iter().find(|(path, _)| path.ends_with(&format!("/{name}")));
        assert_eq!(kept.map(|(_, kept)| kept), Some(&seed), "{name}: made by make-seeds s3");
    }
}

#[test]
fn lists_of_azure_are_those_that_are_made() {
    let there = seeds("azure");
    let made = atrest_fuzz::azure_seeds();
    assert_eq!(there.len(), made.len());
    for (name, seed) in made {
        let kept = there.iter().find(|(path, _)| path.ends_with(&format!("/{name}")));
        assert_eq!(kept.map(|(_, kept)| kept), Some(&seed), "{name}: made by make-seeds azure");
    }
}

#[test]
fn filesystems_open_and_list() {
    for (name, seed) in seeds("ext4").into_iter().chain(seeds("fat")) {
        let (_, image) = Image::decode(&seed);
        let tree = open_tree(image, Access::ReadOnly).unwrap_or_else(|error| panic!("{name}: {error}"));
        let top = TreePath::parse("top").expect("a path");
        assert_eq!(tree.read_to(&top, &mut |_| Ok(())), Ok(40), "{name}");
        let long = TreePath::parse("a/b/a long name for a file.text").expect("a path");
        assert_eq!(tree.read_to(&long, &mut |_| Ok(())), Ok(9000), "{name}");
        let journal = name.contains("journal");
        assert_eq!(tree.about().notes.is_empty(), !journal, "{name}");
    }
}

#[test]
fn filesystems_that_a_driver_filled_open_and_list() {
    for (name, seed) in seeds("ntfs").into_iter().chain(seeds("exfat")) {
        let (_, image) = Image::decode(&seed);
        let tree = open_tree(image, Access::ReadOnly).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (file, len) in [("top", 90), ("a/file", 3000), ("a/b/other file with a long name", 20_000)] {
            let file = TreePath::parse(file).expect("a path");
            let same = |piece: &[u8]| if piece.iter().all(|byte| *byte == 0x42) { Ok(()) } else { Err(Stop) };
            assert_eq!(tree.read_to(&file, &mut |piece| same(piece)), Ok(len), "{name}: {file}");
        }
        let names = tree.list(&TreePath::parse("a/b").expect("a path")).expect("it lists");
        assert_eq!(names.len(), 13, "{name}");
    }
}

#[test]
fn a_journal_is_still_to_be_replayed_and_the_seed_is_the_one_that_is_made() {
    for (name, seed) in seeds("integrity") {
        assert_eq!(seed, atrest_fuzz::integrity_seed(), "{name}: made by make-seeds integrity");
        let (_, image) = Image::decode(&seed);
        atrest_fuzz::integrity(&seed);
        let superblock = atrest_engine::integrity::read_superblock(&*image, 0).expect("a superblock");
        assert_eq!((superblock.tag_len, superblock.journal_sections), (400, 2), "{name}");
    }
}

#[test]
fn partition_tables_have_partitions() {
    for (name, seed) in seeds("gpt").into_iter().chain(seeds("mbr")) {
        let (_, image) = Image::decode(&seed);
        let table = partitions(&*image).unwrap_or_else(|error| panic!("{name}: {error}")).expect("a table");
        assert!(table.partitions.len() >= 2, "{name}");
    }
}

#[test]
fn headers_parse_and_the_passphrase_opens_what_comes_with_its_area() {
    for (name, seed) in seeds("luks2_header") {
        let mut copy = seed.clone();
        let size = u64::from_be_bytes(seed[8..16].try_into().expect("8 bytes"));
        copy.resize(size as usize, 0);
        Header::parse(&copy, CopyKind::Primary, 0).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    for (name, seed) in seeds("luks2_json").into_iter().chain(seeds("luks2_volume")) {
        let size = [16384, 32768, 65536].map(|size| size - 4096);
        let parsed = size.into_iter().filter(|size| *size > seed.len()).any(|size| {
            let mut area = seed.clone();
            area.resize(size, 0);
            Metadata::parse(&area).is_ok()
        });
        assert!(parsed, "{name}");
    }
    let mut opened = 0;
    for (name, seed) in seeds("luks1_header") {
        let image = Image::new(64 << 20, &seed[..592]);
        image.write_at(4096, &seed[592..]).expect("inside");
        let volume = LockedVolume::read(&*image).unwrap_or_else(|error| panic!("{name}: {error}"));
        let passphrase = Passphrase::copy_from(b"fuzz");
        let unlocked = volume.unlock(Devices::together(&*image), &passphrase, &UnlockOptions::default());
        opened += usize::from(unlocked.is_ok());
    }
    // The one with the area of cryptsetup's keyslot, and the one of few stripes.
    assert_eq!(opened, 2);
}

#[test]
fn records_of_fscrypt_are_policies_and_protectors() {
    use atrest_tree::fscrypt::metadata::{parse_policy, parse_protector};
    let mut kinds = [0, 0];
    for (name, seed) in seeds("fscrypt_metadata") {
        match name.contains("policy") {
            true => kinds[0] += usize::from(parse_policy(&seed).is_ok_and(|policy| !policy.keys.is_empty())),
            false => kinds[1] += usize::from(parse_protector(&seed).is_ok()),
        }
    }
    assert_eq!(kinds, [3, 4]);
}

#[test]
fn encrypted_filesystems_are_read_with_the_key_alone() {
    let file = TreePath::parse("secret/file").expect("a path");
    let long = TreePath::parse("secret/inner/a long name for a file.text").expect("a path");
    let link = TreePath::parse("secret/link").expect("a path");
    for (name, seed) in seeds("ext4_encrypted") {
        let (_, image) = Image::decode(&seed);
        let tree = open_tree_with(image.clone(), Access::ReadOnly, Some(fscrypt_keyring().0))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut read = Vec::new();
        tree.read_to(&file, &mut |piece| {
            read.extend_from_slice(piece);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(read == [b'x'; 3000], "{name}");
        assert_eq!(tree.read_to(&long, &mut |_| Ok(())), Ok(9000), "{name}");
        assert_eq!(tree.read_link(&link).as_deref(), Ok(&b"inner/a long name for a file.text"[..]), "{name}");
        let locked = open_tree(image, Access::ReadOnly).unwrap_or_else(|error| panic!("{name}: {error}"));
        let secret = TreePath::parse("secret").expect("a path");
        let hidden = locked.list(&secret).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(hidden.len(), 3, "{name}");
        let one = hidden.iter().find(|entry| entry.kind == Kind::File).expect("a file");
        let one = secret.join(&one.name).expect("listed names are valid");
        let refused = locked.read_at(&one, 0, &mut [0; 16]);
        assert!(matches!(refused, Err(TreeError::Encrypted { .. })), "{name}: {refused:?}");
    }
}

#[test]
fn littlefs_passes_the_check_and_holds_what_was_put_in() {
    for (name, seed) in seeds("littlefs") {
        let found = littlefs_listing(&seed).unwrap_or_else(|| panic!("{name}: refused"));
        assert!(found.contains(&b"/a/b".to_vec()), "{name}: {found:?}");
        assert_eq!(found.contains(&b"/a/2".to_vec()), name.contains("many"), "{name}: {found:?}");
    }
}

#[test]
fn answers_of_the_kernel_hold_a_table_names_or_a_line() {
    use atrest_attach::dm::answer::{Answer, Line};
    let mut kinds = [0, 0, 0];
    for (name, seed) in seeds("dm_answer") {
        match Answer::read(&seed) {
            Some(answer) if answer.uuid.is_empty() => {
                assert_eq!(answer.names.map(|names| names.join(" ")).as_deref(), Some("root swap"), "{name}");
                kinds[0] += 1;
            }
            Some(answer) => {
                let targets = answer.targets.unwrap_or_else(|| panic!("{name}: no table"));
                assert!(
                    matches!(&targets[..], [(0, 2048, kind, line)] if kind == "crypt" && !line.is_empty())
                );
                kinds[1] += 1;
            }
            None => kinds[2] += usize::from(Line::read(&seed).is_some()),
        }
    }
    assert_eq!(kinds, [1, 1, 2]);
}

#[test]
fn trees_of_dm_verity_have_a_superblock_and_all_levels() {
    for (name, seed) in seeds("verity") {
        let image = Image::new(64 << 20, &seed);
        let (_, layout) =
            atrest_engine::verity::Layout::read(&*image, 0).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(layout.tree().end_bytes(), seed.len() as u64, "{name}");
    }
}
