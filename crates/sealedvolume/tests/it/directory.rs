//! Objects as files.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use atrest_device::BlockDevice as _;
use atrest_sealedvolume::format::{Kind, names};
use atrest_sealedvolume::store::{DirectoryStore, MemoryStore, ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::Access;
use atrest_testkit::Scratch;

use crate::rig::plain::{Plain, settings};

#[test]
fn both_stores_keep_what_they_are_given() {
    let scratch = Scratch::new();
    let directory = DirectoryStore::open(scratch.as_path()).expect("a store");
    let stores: [&dyn ObjectStore; 2] = [&MemoryStore::new(), &directory];
    for store in stores {
        let name = names::log(3);
        assert_eq!(store.get(&name, 10), Ok(None));
        assert_eq!(store.get_range(&name, 0, 10), Ok(None));
        assert_eq!(store.put_new(&name, b"first"), Ok(Put::Stored));
        assert_eq!(store.put_new(&name, b"other"), Ok(Put::Exists));
        assert_eq!(store.get(&name, 5), Ok(Some(b"first".to_vec())));
        assert_eq!(store.get(&name, 4), Err(StoreError::TooLong));
        assert_eq!(store.get_range(&name, 1, 2), Ok(Some(b"ir".to_vec())));
        assert_eq!(store.get_range(&name, 4, 9), Ok(Some(b"t".to_vec())));
        assert_eq!(store.get_range(&name, 9, 9), Ok(Some(Vec::new())));
        assert_eq!(store.put(&name, b"second"), Ok(()));
        assert_eq!(store.get(&name, 10), Ok(Some(b"second".to_vec())));
        assert_eq!(store.put_new(&names::map(&[1; 16]), b"m"), Ok(Put::Stored));
        for number in [20, 7, 2000] {
            assert_eq!(store.put_new(&names::log(number), b""), Ok(Put::Stored));
        }
        let all = [3, 7, 20, 2000].map(names::log);
        assert_eq!(store.list_after(Kind::Log, None), Ok(all.to_vec()));
        assert_eq!(store.list_after(Kind::Log, Some(&all[1])), Ok(all[2..].to_vec()));
        assert_eq!(store.list_after(Kind::Checkpoint, None), Ok(Vec::new()));
        assert_eq!((store.delete(&name), store.delete(&name)), (Ok(()), Ok(())));
        assert_eq!(store.get(&name, 10), Ok(None));
        assert_eq!(store.put_new("l/../../escaped", b""), Err(StoreError::Name));
    }
    assert!(
        fs::read_dir(scratch.path("t")).expect("a directory").next().is_none(),
        "nothing is left unfinished"
    );
}

#[test]
fn what_the_page_cache_holds_is_read_at_once() {
    let scratch = Scratch::new();
    let store = DirectoryStore::open(scratch.as_path()).expect("a store");
    let name = names::log(1);
    store.put_new(&name, &[7; 100]).expect("stored");
    let mut read = [0; 60];
    assert_eq!(store.read_if_cached(&name, 0, &mut read), None, "nobody has opened it yet");
    store.get_range(&name, 0, 1).expect("the store answers");
    assert_eq!(store.read_if_cached(&name, 40, &mut read), Some(()));
    assert_eq!(read, [7; 60]);
    assert_eq!(store.read_if_cached(&name, 41, &mut read), None, "it ends there");
    fs::write(scratch.path("new"), [8; 100]).expect("a file");
    fs::rename(scratch.path("new"), scratch.path(&name)).expect("replaced");
    assert_eq!(store.read_if_cached(&name, 40, &mut read), None, "it is another file now");
}

#[test]
fn blocks_in_the_page_cache_are_read_at_once_and_damage_is_told_by_whoever_waits() {
    const BLOCKS: usize = 20;
    let scratch = Scratch::new();
    let plain = Plain::new(Arc::new(DirectoryStore::open(scratch.as_path()).expect("a store")), 64, 1);
    let data: Vec<u8> = (0..BLOCKS * 4096).map(|at| (at / 4096 + 1) as u8).collect();
    let writer = plain.open_with(Access::Write, settings(BLOCKS)).expect("it opens");
    writer.write_at(0, &data).expect("written");
    writer.close().expect("closed");

    let volume = plain.open(Access::Read).expect("it opens");
    let mut read = vec![0; data.len()];
    volume.read_at(0, &mut read).expect("read, as one run");
    assert!(read == data);
    // Some blocks of it, with a hole behind them.
    let mut few = vec![1; 5 * 4096];
    assert_eq!(volume.read_if_cached((BLOCKS as u64 - 3) * 4096, &mut few), Ok(true));
    assert!(few[..3 * 4096] == data[(BLOCKS - 3) * 4096..] && few[3 * 4096..] == [0; 2 * 4096]);

    let longest =
        plain.store.list_after(Kind::Log, None).expect("a list").into_iter().map(|name| scratch.path(name));
    let longest = longest.max_by_key(|path| path.metadata().expect("a file").len()).expect("an object");
    let mut bytes = fs::read(&longest).expect("its bytes");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&longest, bytes).expect("damaged in its place");
    let mut block = [0; 4096];
    let told: Vec<usize> = (0..BLOCKS)
        .filter(|at| {
            let offset = *at as u64 * 4096;
            let here = volume.read_if_cached(offset, &mut block).expect("it lies inside");
            assert!(!here || block == data[at * 4096..][..4096]);
            assert_eq!(volume.read_at(offset, &mut block).is_ok(), here, "block {at}");
            !here
        })
        .collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(volume.read_at(0, &mut read).is_err(), "one of them is damaged");
    let behind = told[0] + 1;
    volume.read_at(behind as u64 * 4096, &mut read[behind * 4096..]).expect("those behind it are whole");
    assert!(read[behind * 4096..] == data[behind * 4096..]);
}

/// A file that stays open is no longer read once another one has its name, or none has.
#[test]
fn what_was_read_before_and_was_replaced_or_taken_away_since_is_not_read_again() {
    let scratch = Scratch::new();
    let store = DirectoryStore::open(scratch.as_path()).expect("a store");
    // More than stay open.
    for number in 0..300 {
        store.put_new(&names::log(number), &[number as u8; 100]).expect("stored");
    }
    let open_before = fs::read_dir("/proc/self/fd").expect("open files").count();
    let read = |number: u64| store.get_range(&names::log(number), 98, 9);
    for number in (0..300).chain(30..40).chain([3, 39, 3]) {
        assert_eq!(read(number), Ok(Some(vec![number as u8; 2])));
    }
    let open = fs::read_dir("/proc/self/fd").expect("open files").count();
    // Other tests have files open, too.
    assert!(
        open < open_before + 290,
        "{open} files are open, {open_before} before: each has its directory, too"
    );
    let path = |number: u64| scratch.path(names::log(number));
    fs::write(scratch.path("new"), [77; 99]).expect("a file");
    fs::rename(scratch.path("new"), path(39)).expect("replaced");
    assert_eq!(read(39), Ok(Some(vec![77])));
    fs::remove_file(path(38)).expect("removed");
    assert_eq!(read(38), Ok(None));
    fs::write(path(38), [9; 100]).expect("a file");
    assert_eq!(read(38), Ok(Some(vec![9; 2])));
    store.put(&names::log(37), &[8; 100]).expect("stored");
    assert_eq!(read(37), Ok(Some(vec![8; 2])));
    store.delete(&names::log(36)).expect("deleted");
    assert_eq!(read(36), Ok(None));
    fs::remove_file(path(35)).expect("removed");
    symlink(scratch.path("elsewhere"), path(35)).expect("a link");
    fs::write(scratch.path("elsewhere"), [1; 100]).expect("a file");
    assert!(read(35).is_err());
    // The directory itself, in the place of which another one lies.
    fs::rename(scratch.path("l"), scratch.path("away")).expect("renamed");
    assert_eq!(read(34), Ok(Some(vec![34; 2])), "it is still there, by another name");
}

/// A name goes to one of those who ask at once.
#[test]
fn one_of_many_gets_a_name() {
    let scratch = Scratch::new();
    let directory = DirectoryStore::open(scratch.as_path()).expect("a store");
    let stores: [&dyn ObjectStore; 2] = [&MemoryStore::new(), &directory];
    for store in stores {
        for number in 0..20 {
            let name = names::log(number);
            let won: Vec<u8> = thread::scope(|scope| {
                let tries = [1, 2, 3, 4].map(|who| {
                    let name = &name;
                    scope.spawn(move || (who, store.put_new(name, &[who; 100]).expect("an answer")))
                });
                let tries = tries.map(|thread| thread.join().expect("a thread"));
                tries.into_iter().filter(|(_, put)| *put == Put::Stored).map(|(who, _)| who).collect()
            });
            assert_eq!(won.len(), 1);
            assert_eq!(store.get(&name, 100), Ok(Some(vec![won[0]; 100])));
        }
    }
}

/// What others put there is not taken for an object, and not waited for.
#[test]
fn other_files_are_nobodys_objects() {
    let scratch = Scratch::new();
    let store = DirectoryStore::open(scratch.as_path()).expect("a store");
    store.put_new(&names::log(1), b"one").expect("stored");
    fs::write(scratch.path("l/0000000000000001 (conflicted copy)"), "copy").expect("a file");
    fs::write(scratch.path("secret"), "elsewhere").expect("a file");
    symlink(scratch.path("secret"), scratch.path(names::log(2))).expect("a link");
    rustix::fs::mkfifoat(rustix::fs::CWD, scratch.path(names::log(4)), 0o600.into()).expect("a pipe");
    fs::create_dir(scratch.path(names::log(5))).expect("a directory");
    assert_eq!(store.list_after(Kind::Log, None).map(|names| names.len()), Ok(4));
    for number in [2, 4, 5] {
        assert!(store.get(&names::log(number), 100).is_err(), "{number}");
        assert!(store.get_range(&names::log(number), 0, 100).is_err(), "{number}");
    }
    assert_eq!(store.put_new(&names::log(2), b"two"), Ok(Put::Exists));
    assert_eq!(fs::read(scratch.path("secret")).expect("it is there"), b"elsewhere");
}

#[test]
fn what_was_left_unfinished_is_removed_a_day_later() {
    let scratch = Scratch::new();
    DirectoryStore::open(scratch.as_path()).expect("a store");
    for (name, age) in [("t/1-0", 25), ("t/2-0", 23)] {
        let file = fs::File::create(scratch.path(name)).expect("a file");
        file.set_modified(SystemTime::now() - Duration::from_secs(age * 3600)).expect("a time");
    }
    // One that can't be removed so keeps nobody out.
    fs::create_dir(scratch.path("t/3-0")).expect("a directory");
    let old = fs::File::open(scratch.path("t/3-0")).expect("it is there");
    old.set_modified(SystemTime::now() - Duration::from_secs(25 * 3600)).expect("a time");
    DirectoryStore::open(scratch.as_path()).expect("a store");
    assert!(!scratch.path("t/1-0").exists() && scratch.path("t/2-0").exists());
}

/// Whoever owns the directory links what is in it to other people's files: nothing is read, written or removed there.
#[test]
fn a_link_in_the_place_of_a_directory_is_refused_and_what_it_names_is_left_alone() {
    let old = SystemTime::now() - Duration::from_secs(48 * 3600);
    let no_directory = Some(StoreError::Os(rustix::io::Errno::NOTDIR.raw_os_error()));
    for name in ["h", "l", "m", "c", "t"] {
        let scratch = Scratch::new();
        let [store, theirs] = ["store", "theirs"].map(|name| scratch.path(name));
        fs::create_dir_all(&theirs).expect("a directory");
        fs::create_dir_all(&store).expect("a directory");
        let opened = DirectoryStore::open(&store).expect("a store");
        let object = match name {
            "m" => names::map(&[1; 16]),
            "t" => names::log(1),
            _ => names::log(1).replace('l', name),
        };
        let file = theirs.join(object.split_once('/').expect("a name").1);
        for file in [&file, &theirs.join("1-0")] {
            fs::File::create(file).and_then(|file| file.set_modified(old)).expect("a file");
        }
        fs::remove_dir(store.join(name)).expect("it is empty");
        symlink(&theirs, store.join(name)).expect("a link");
        // Of one that was open before, and of one that is opened then.
        assert_eq!(opened.put_new(&object, b"").err(), no_directory, "{name}");
        assert_eq!(opened.put(&object, b"").err(), no_directory, "{name}");
        assert_eq!(opened.hold().err(), no_directory, "{name}");
        if name != "t" {
            let kind = names::kind(&object).expect("a kind");
            assert_eq!(opened.get(&object, 10).err(), no_directory, "{name}");
            assert_eq!(opened.get_range(&object, 0, 10).err(), no_directory, "{name}");
            assert_eq!(opened.len_of(&object).err(), no_directory, "{name}");
            assert_eq!(opened.list_after(kind, None).err(), no_directory, "{name}");
            assert_eq!(opened.delete(&object).err(), no_directory, "{name}");
        }
        assert_eq!(DirectoryStore::open(&store).err(), no_directory, "{name}");
        assert_eq!(DirectoryStore::to_read(&store).err(), no_directory, "{name}");
        assert_eq!(fs::read_dir(&theirs).expect("a directory").count(), 2, "{name}");
        fs::remove_file(store.join(name)).expect("a link");
        fs::write(store.join(name), "").expect("a file");
        assert_eq!(DirectoryStore::to_read(&store).err(), no_directory, "{name}");
    }
}

/// The file that holds the store for a writer is no way out either, and not waited for. Other files beside it are kept.
#[test]
fn what_has_the_name_of_the_lock_is_opened_only_if_it_is_a_file() {
    let scratch = Scratch::new();
    let store = DirectoryStore::open(scratch.as_path()).expect("a store");
    let other = fs::File::create(scratch.path("t/notes-1")).expect("a file");
    other.set_modified(SystemTime::now() - Duration::from_secs(48 * 3600)).expect("a time");
    symlink(scratch.path("made"), scratch.path("t/writer")).expect("a link");
    assert!(store.hold().is_err());
    assert!(!scratch.path("made").exists());
    fs::remove_file(scratch.path("t/writer")).expect("a link");
    rustix::fs::mkfifoat(rustix::fs::CWD, scratch.path("t/writer"), 0o600.into()).expect("a pipe");
    assert!(store.hold().is_err());
    let _reader =
        fs::OpenOptions::new().read(true).write(true).open(scratch.path("t/writer")).expect("a pipe");
    assert_eq!(store.hold().err(), Some(StoreError::Name));
    fs::remove_file(scratch.path("t/writer")).expect("a pipe");
    let held = store.hold().expect("it can be had");
    assert_eq!(store.hold().err(), Some(StoreError::Held));
    drop(held);
    assert!(scratch.path("t/notes-1").exists());
}

/// Who collects takes away what others still look for, so that they are kept apart, on one machine.
#[test]
fn readers_and_a_collection_keep_each_other_out() {
    let scratch = Scratch::new();
    let [one, other] = [(); 2].map(|()| DirectoryStore::open(scratch.as_path()).expect("a store"));
    let readers = [&one, &other].map(|store| store.hold_to_read().expect("both read").expect("a lock"));
    assert_eq!(other.hold_to_collect().err(), Some(StoreError::Read));
    let writer = other.hold().expect("readers are in no writer's way");
    drop(readers);
    let collects = other.hold_to_collect().expect("nobody reads").expect("a lock");
    assert_eq!(one.hold_to_read().err(), Some(StoreError::Held));
    drop((writer, collects));
    // Something else in its place keeps no reader out, and is no lock for a collection.
    fs::remove_file(scratch.path("t/readers")).expect("it is there");
    symlink(scratch.path("made"), scratch.path("t/readers")).expect("a link");
    assert!(one.hold_to_read().expect("it reads").is_none());
    assert!(one.hold_to_collect().is_err() && !scratch.path("made").exists());
    // Nor does a copy that lacks the directory.
    fs::remove_dir_all(scratch.path("t")).expect("it is there");
    assert!(one.hold_to_read().expect("it reads").is_none());
    assert!(!scratch.path("t").exists());
}

/// Directories that went while the store was open are made again.
#[test]
fn a_store_without_its_directories_takes_objects() {
    let scratch = Scratch::new();
    let store = DirectoryStore::to_read(scratch.as_path()).expect("a store");
    assert_eq!(store.put_new(&names::header(1), b"h"), Ok(Put::Stored));
    fs::remove_dir(scratch.path("l")).expect("it is empty");
    assert_eq!(store.put_new(&names::log(1), b"l"), Ok(Put::Stored));
}

/// A copy of the directory, made by any program, is the volume.
#[test]
fn a_volume_in_a_directory_is_there_after_it_was_closed_and_in_a_copy() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("a")).expect("a directory");
    let store = Arc::new(DirectoryStore::open(scratch.path("a")).expect("a store"));
    let plain = Plain::new(store, 1000, 5);
    let volume = plain.open(Access::Write).expect("it opens");
    for block in 0..100 {
        volume.write_at(block * 8192, &[block as u8; 4096]).expect("a write");
    }
    volume.close().expect("closed");
    atrest_testkit::oracle::Program::at("cp").words("-r").arg(scratch.path("a")).arg(scratch.path("b")).ok();
    let store = Arc::new(DirectoryStore::open(scratch.path("b")).expect("a store"));
    let copy = Plain { store, ..plain }.open(Access::Read).expect("it opens");
    for block in 0..100 {
        let mut read = [1; 8192];
        copy.read_at(block * 8192, &mut read).expect("a read");
        assert!(read[..4096] == [block as u8; 4096] && read[4096..] == [0; 4096]);
    }
}
