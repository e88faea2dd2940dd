use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use atrest_testkit::Scratch;

const OLD: [u8; TRUSTED_RECORD_LEN] = [1; TRUSTED_RECORD_LEN];
const NEW: [u8; TRUSTED_RECORD_LEN] = [2; TRUSTED_RECORD_LEN];

/// A directory with a store in it.
fn with_store() -> (Scratch, PathBuf) {
    let directory = Scratch::new();
    let path = directory.path("card.trust");
    TrustedFile::open_or_new(&path).expect("a place").store(&OLD).expect("store");
    (directory, path)
}

fn names(directory: &Path) -> usize {
    directory.read_dir().expect("it").count()
}

fn refused(result: Result<TrustedFile, TrustedFileError>) -> TrustedFileError {
    result.map(drop).expect_err("refused")
}

#[test]
fn a_record_is_replaced_as_a_whole_and_anything_else_is_refused_by_what_it_is() {
    let (directory, path) = with_store();
    let open = || TrustedFile::open(&path, LockMode::Exclusive);
    assert_eq!(path.metadata().expect("it").permissions().mode() & 0o777, 0o600);
    let mut store = open().expect("open");
    assert_eq!((store.load(), TrustedFile::peek(&path)), (Ok(Some(OLD)), Ok(OLD)));
    store.store(&NEW).expect("store");
    assert_eq!((store.load(), TrustedFile::peek(&path)), (Ok(Some(NEW)), Ok(NEW)));
    store.store(&OLD).expect("store again");
    drop(store);
    assert_eq!(names(directory.as_path()), 1, "nothing is left beside");
    for len in [TRUSTED_RECORD_LEN - 1, TRUSTED_RECORD_LEN + 1, 1 << 20] {
        std::fs::write(&path, vec![0; len]).expect("write");
        let size = TrustedFileError::Size { len: len as u64 };
        assert_eq!((refused(open()), TrustedFile::peek(&path)), (size, Err(size)));
        assert_eq!(refused(TrustedFile::open_or_new(&path)), size);
    }
    std::fs::write(&path, b"").expect("write");
    assert_eq!(open().expect("open").load(), Ok(None));
    assert_eq!(TrustedFile::peek(&path), Err(TrustedFileError::Empty));
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(refused(open()), TrustedFileError::Missing);
    assert_eq!(TrustedFile::peek(directory.as_path()), Err(TrustedFileError::NotAFile));
    // Not by a program: between fork and exec it would hold the locks of the tests beside this one.
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).expect("a pipe");
    assert_eq!(refused(open()), TrustedFileError::NotAFile, "opening a pipe would wait");
}

#[test]
fn a_successor_has_the_permissions_of_the_file_it_replaces_and_no_more() {
    let (_directory, path) = with_store();
    let mode = || path.metadata().expect("it").permissions().mode() & 0o7777;
    let mut store = TrustedFile::open(&path, LockMode::Exclusive).expect("open");
    for before in [0o600, 0o640, 0o604, 0o666, 0o700] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(before)).expect("a mode");
        (0..2).for_each(|_| store.store(&NEW).expect("store"));
        assert_eq!(mode(), before);
    }
    // The middle digit of a file with a list is how far the list goes, and its group has less.
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o604)).expect("a mode");
    // Version, then tag, permissions and identifier of each entry: owner, user 65534, group, mask, others.
    let entries =
        [(1_u16, 6_u16, u32::MAX), (2, 6, 65534), (4, 0, u32::MAX), (16, 6, u32::MAX), (32, 4, u32::MAX)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, may, id) in entries {
        list.extend([&tag.to_le_bytes()[..], &may.to_le_bytes(), &id.to_le_bytes()].concat());
    }
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&path, "system.posix_acl_access", &list, flags).expect("a list");
    assert_eq!(mode(), 0o664);
    store.store(&NEW).expect("store");
    assert_eq!(mode(), 0o604);
}

#[test]
fn a_place_for_a_new_one_is_looked_at_and_left_as_it_was() {
    let directory = Scratch::new();
    let path = directory.path("new");
    let mut store = TrustedFile::open_or_new(&path).expect("a place");
    assert_eq!((store.load(), names(directory.as_path())), (Ok(None), 0));
    // Somebody else was faster.
    std::fs::write(&path, b"somebody's").expect("write");
    assert_eq!(store.store(&NEW), Err(TrustedStoreError::Driver(libc::EEXIST)));
    assert_eq!(std::fs::read(&path).expect("read"), b"somebody's");
    assert_eq!(names(directory.as_path()), 1, "nothing is left beside");
    std::fs::remove_file(&path).expect("removed");
    store.store(&NEW).expect("store");
    assert_eq!(TrustedFile::peek(&path), Ok(NEW));
    store.remove().expect("removed");
    assert_eq!(names(directory.as_path()), 0);
    let within = |path: &str| TrustedFile::open_or_new(directory.path(path));
    assert_eq!(refused(within("no/such")), TrustedFileError::Os(libc::ENOENT));
    std::fs::write(&path, b"").expect("write");
    assert_eq!(refused(within("new/such")), TrustedFileError::Os(libc::ENOTDIR));
    let missing = TrustedFile::open(directory.path("no/such"), LockMode::Shared);
    assert_eq!(refused(missing), TrustedFileError::Missing);
}

#[test]
fn a_link_is_followed_once_and_leads_nowhere_else() {
    let (directory, path) = with_store();
    let link = directory.path("link");
    let place = directory.path("stick");
    std::fs::create_dir(&place).expect("a directory");
    std::fs::rename(&path, place.join("store")).expect("moved");
    symlink("stick/store", &link).expect("a link");
    let mut store = TrustedFile::open(&link, LockMode::Exclusive).expect("open");
    // The directory gets another name and the link another target: the store is where it was.
    let moved = directory.path("moved");
    std::fs::rename(&place, &moved).expect("renamed");
    std::fs::create_dir(&place).expect("a directory");
    std::fs::write(place.join("store"), b"somebody's").expect("write");
    store.store(&NEW).expect("store");
    assert_eq!(TrustedFile::peek(moved.join("store")), Ok(NEW));
    assert_eq!(std::fs::read(place.join("store")).expect("read"), b"somebody's");
    assert!(link.symlink_metadata().expect("it").is_symlink());
    drop(store);
    // A link to nothing is no place for a new one either.
    std::fs::remove_dir_all(&place).expect("removed");
    for opened in [TrustedFile::open(&link, LockMode::Shared), TrustedFile::open_or_new(&link)] {
        assert_eq!(refused(opened), TrustedFileError::LinkToNothing);
    }
    assert_eq!(TrustedFile::peek(&link), Err(TrustedFileError::LinkToNothing));
    assert!(!place.exists() && link.symlink_metadata().expect("it").is_symlink());
}

#[test]
fn a_store_that_is_removed_or_exchanged_while_it_is_open_ends_it() {
    let (directory, path) = with_store();
    let gone = TrustedStoreError::Driver(libc::ENOENT);
    let away = directory.path("away");
    let mut store = TrustedFile::open(&path, LockMode::Exclusive).expect("open");
    std::fs::rename(&path, &away).expect("moved away");
    assert_eq!((store.load(), store.store(&NEW)), (Err(gone), Err(gone)));
    std::fs::copy(&away, &path).expect("a copy under its name");
    assert_eq!((store.load(), store.store(&NEW)), (Err(gone), Err(gone)));
    assert_eq!(store.record(), Err(TrustedFileError::Replaced));
    std::fs::remove_file(&path).expect("removed");
    symlink("away", &path).expect("a link to itself");
    assert_eq!(store.store(&NEW), Err(gone), "not by a link either");
    std::fs::remove_file(&path).expect("removed");
    std::fs::rename(&away, &path).expect("back again");
    assert_eq!(store.load(), Ok(Some(OLD)));
    store.store(&NEW).expect("store");
    std::fs::copy(&path, &away).expect("copied");
    std::fs::rename(&away, &path).expect("exchanged");
    store.remove().expect("what is not ours stays");
    assert_eq!(TrustedFile::peek(&path), Ok(NEW));
    assert_eq!(names(directory.as_path()), 1, "nothing is left beside");
}

#[test]
fn names_beside_it_are_nobodys_and_a_link_there_is_not_followed() {
    let (directory, path) = with_store();
    let mine = directory.path("mine");
    std::fs::write(&mine, b"a file of somebody's").expect("write");
    symlink("mine", directory.path(".card.trust.new")).expect("a link");
    let mut store = TrustedFile::open_or_new(&path).expect("open");
    store.store(&NEW).expect("store");
    assert_eq!(std::fs::read(&mine).expect("read"), b"a file of somebody's");
    assert_eq!((TrustedFile::peek(&path), names(directory.as_path())), (Ok(NEW), 3));
}

#[test]
fn one_writes_or_several_read() {
    let (_directory, path) = with_store();
    let open = |mode| TrustedFile::open(&path, mode);
    let mut writer = open(LockMode::Exclusive).expect("open");
    for _ in 0..2 {
        for second in [open(LockMode::Exclusive), open(LockMode::Shared), TrustedFile::open_or_new(&path)] {
            assert_eq!(refused(second), TrustedFileError::Busy);
        }
        // The new file under the name is locked as the old one was.
        writer.store(&NEW).expect("store");
    }
    assert_eq!(TrustedFile::peek(&path), Ok(NEW), "looking is always possible");
    drop(writer);
    let mut readers = [open(LockMode::Shared), open(LockMode::Shared)].map(|reader| reader.expect("open"));
    assert_eq!(refused(open(LockMode::Exclusive)), TrustedFileError::Busy);
    assert_eq!(readers[0].store(&OLD), Err(TrustedStoreError::Driver(libc::EBADF)), "it only reads");
    drop(readers);
    open(LockMode::Exclusive).expect("nobody else has it");
}
