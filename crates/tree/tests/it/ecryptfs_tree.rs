//! A lower directory as a tree that is read: what it shows, what a check finds in it, and what comes out of it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use atrest_filetree::{CopyError, Entry, FileTree, Kind, LowerError, MAX_DEPTH, Stop, TreeError, TreePath};
use atrest_secret::OsRandom;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Random, Scratch};
use atrest_tree::ecryptfs::{
    CheckSummary, EXTENT, EncryptedFile, ExportProgress, FileCipher, ForeignTree, HEADER_LEN, Keys,
    LowerFile, LowerTree, MetadataPlace, NameCipher, Problem, Survey, check, check_contents, export,
    repair_size, survey,
};

use crate::lower::{Made, OTHERS, OURS, options};

fn path(text: &str) -> TreePath {
    TreePath::parse(text).expect("a path")
}

fn encrypted(keys: &Made, name: &str) -> PathBuf {
    let names = NameCipher::new(&keys.0, keys.1[1], FileCipher::Aes128, 16).expect("a key for names");
    PathBuf::from(OsStr::from_bytes(&names.encode(name.as_bytes()).expect("short")))
}

/// An encrypted file at this path of the host.
fn write(keys: &Made, place: MetadataPlace, path: impl AsRef<Path>, contents: &[u8]) {
    let file = File::options().read(true).write(true).create_new(true).open(path).expect("a new file");
    let file = EncryptedFile::create(file, &keys.0, &options(keys, place), &mut OsRandom).expect("made");
    file.write_at(0, contents).expect("room");
}

fn tree(lower: &Path) -> LowerTree {
    LowerTree::open(lower, OURS.0.clone(), false).expect("a directory")
}

fn read(tree: &LowerTree, name: &str) -> Result<Vec<u8>, TreeError> {
    let mut bytes = Vec::new();
    let len = tree.read_to(&path(name), &mut |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    assert_eq!(len, bytes.len() as u64);
    Ok(bytes)
}

fn lower_error(error: LowerError) -> TreeError {
    TreeError::Lower(error)
}

#[test]
fn a_tree_shows_what_is_encrypted_by_its_plain_names() {
    let scratch = Scratch::new();
    let inner = scratch.directory(encrypted(&OURS, "directory"));
    let long = Random::new(4).bytes(9_000_000);
    write(&OURS, MetadataPlace::File, inner.join(encrypted(&OURS, "file")), b"contents");
    write(&OURS, MetadataPlace::Xattr, scratch.path(encrypted(&OURS, "long")), &long);
    symlink(encrypted(&OURS, "the/target"), scratch.path(encrypted(&OURS, "link"))).expect("room");
    symlink("in/plain", scratch.path(encrypted(&OURS, "plain link"))).expect("room");
    let foreign_target = encrypted(&OTHERS, "the/target");
    symlink(&foreign_target, scratch.path(encrypted(&OURS, "foreign link"))).expect("room");
    let tree = tree(scratch.as_path());
    let about = tree.about();
    let stat = rustix::fs::statvfs(scratch.as_path()).expect("room");
    assert_eq!((about.name, about.writable), ("eCryptfs", false));
    assert_eq!(about.size, stat.f_blocks * stat.f_frsize);
    let space = tree.space().expect("room");
    assert_eq!((u64::from(space.block_size), space.blocks), (stat.f_frsize, stat.f_blocks));
    assert!(space.free.abs_diff(stat.f_bavail) <= stat.f_bavail / 4);
    let mut entries = tree.list(&TreePath::root()).expect("readable");
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let shown = |name: &str, kind| Entry {
        name: name.into(),
        kind,
        inode: fs::symlink_metadata(scratch.path(encrypted(&OURS, name))).expect("there").ino(),
    };
    let expected = [
        ("directory", Kind::Directory),
        ("foreign link", Kind::Link),
        ("link", Kind::Link),
        ("long", Kind::File),
        ("plain link", Kind::Link),
    ];
    assert_eq!(entries, expected.map(|(name, kind)| shown(name, kind)));
    assert_eq!(read(&tree, "directory/file"), Ok(b"contents".to_vec()));
    assert!(read(&tree, "long").expect("readable") == long);
    let stopped = tree.read_to(&path("long"), &mut |_| Err(Stop));
    assert_eq!(stopped, Err(TreeError::Stopped { at: 0 }));
    assert_eq!(tree.read_link(&path("link")), Ok(b"the/target".to_vec()));
    assert_eq!(tree.read_link(&path("plain link")), Ok(b"in/plain".to_vec()));
    let signature = OTHERS.1[1].0;
    assert_eq!(tree.read_link(&path("foreign link")), Err(lower_error(LowerError::NoKey { signature })));
    for (name, size) in [
        ("long", long.len()),
        ("link", 10),
        ("plain link", 8),
        // What the lower one has, where nothing else is known.
        ("foreign link", foreign_target.as_os_str().len()),
    ] {
        let lower = scratch.path(encrypted(&OURS, name));
        let (ours, theirs) = (tree.metadata(&path(name)).expect("it is shown"), fs::symlink_metadata(lower));
        let theirs = theirs.expect("there");
        assert_eq!(ours.size, size as u64, "{name}");
        assert_eq!(u32::from(ours.mode), theirs.mode() & 0o7777, "{name}");
        assert_eq!((ours.uid, ours.gid, u64::from(ours.links)), (theirs.uid(), theirs.gid(), theirs.nlink()));
        assert_eq!((ours.inode, ours.allocated), (theirs.ino(), theirs.blocks() * 512), "{name}");
        let modified = (ours.modified.seconds, i64::from(ours.modified.nanoseconds));
        assert_eq!(modified, (theirs.mtime(), theirs.mtime_nsec()), "{name}");
    }
    assert_eq!(tree.lower_path(&path("directory/file")).expect("it is there").components().count(), 2);
    assert_eq!(tree.metadata(&TreePath::root()).expect("the top").kind, Kind::Directory);
    for (name, error) in [("missing", TreeError::NotFound), ("long/below", TreeError::NotADirectory)] {
        assert_eq!(tree.metadata(&path(name)), Err(error), "{name}");
    }
    assert_eq!(read(&tree, "directory"), Err(TreeError::IsADirectory));
    assert_eq!(read(&tree, ""), Err(TreeError::IsADirectory));
    assert_eq!(read(&tree, "link"), Err(TreeError::NotAFile));
    assert_eq!(tree.read_link(&path("long")), Err(TreeError::NotALink));
    assert_eq!(tree.read_link(&TreePath::root()), Err(TreeError::NotALink));
    assert_eq!(tree.list(&path("long")), Err(TreeError::NotADirectory));
    let missing = LowerTree::open(&scratch.path("missing"), OURS.0.clone(), false);
    assert!(matches!(missing, Err(TreeError::NotFound)), "{missing:?}");
}

/// A link that somebody puts in the place of a directory is not followed; a plain name does not take an encrypted one's place.
#[test]
fn nothing_in_the_lower_directory_leads_out_of_it_or_hides_what_is_encrypted() {
    let scratch = Scratch::new();
    let (lower, outside) = (scratch.directory("lower"), scratch.directory("outside"));
    write(&OURS, MetadataPlace::File, outside.join("secret"), b"secret");
    symlink(&outside, lower.join("directory")).expect("room");
    symlink(outside.join("secret"), lower.join("file")).expect("room");
    Program::named("mkfifo").arg(lower.join("pipe")).ok();
    write(&OURS, MetadataPlace::File, lower.join(encrypted(&OURS, "both")), b"encrypted");
    write(&OURS, MetadataPlace::File, lower.join("both"), b"plain name");
    let tree = tree(&lower);
    assert_eq!(read(&tree, "file"), Err(TreeError::NotAFile));
    assert_eq!(read(&tree, "pipe"), Err(TreeError::NotAFile));
    assert_eq!(tree.list(&path("directory")), Err(TreeError::NotADirectory));
    assert_eq!(read(&tree, "directory/secret"), Err(TreeError::NotADirectory));
    assert_eq!(read(&tree, "both"), Ok(b"encrypted".to_vec()));
    let names = tree.list(&TreePath::root()).expect("readable");
    assert_eq!(names.iter().filter(|entry| entry.name == b"both").count(), 1);
    // Names that no directory has, but that decrypt well.
    for name in ["..", ".", "a/b", "a\u{1}/"] {
        let lower_name = encrypted(&OURS, name);
        write(&OURS, MetadataPlace::File, lower.join(&lower_name), b"");
        let entries = tree.list(&TreePath::root()).expect("readable");
        assert!(entries.iter().any(|entry| entry.name == lower_name.as_os_str().as_bytes()), "{name}");
        assert!(entries.iter().all(|entry| entry.name != name.as_bytes()), "{name}");
    }
    // A directory that turns into a link after it was looked at.
    let inner = scratch.directory("lower/inner");
    write(&OURS, MetadataPlace::File, inner.join("secret"), b"inner");
    let tree = self::tree(&lower);
    assert_eq!(read(&tree, "inner/secret"), Ok(b"inner".to_vec()));
    fs::rename(&inner, scratch.path("moved")).expect("ours");
    symlink(&outside, &inner).expect("room");
    assert_eq!(tree.list(&path("inner")), Err(TreeError::NotADirectory));
}

#[test]
fn what_is_not_encrypted_is_read_only_if_that_is_asked_for() {
    let scratch = Scratch::new();
    scratch.file("plain", b"not encrypted");
    write(&OTHERS, MetadataPlace::File, scratch.path("foreign"), b"of others");
    let refusing = tree(scratch.as_path());
    assert_eq!(read(&refusing, "plain"), Err(lower_error(LowerError::NoHeader { len: 13 })));
    assert_eq!(refusing.metadata(&path("plain")).expect("shown").size, 13);
    let passing = LowerTree::open(scratch.as_path(), OURS.0.clone(), true).expect("a directory");
    assert_eq!(read(&passing, "plain"), Ok(b"not encrypted".to_vec()));
    // Never what is encrypted under a key that is not there.
    let signature = OTHERS.1[0].0;
    for tree in [refusing, passing] {
        assert_eq!(read(&tree, "foreign"), Err(lower_error(LowerError::NoKey { signature })));
    }
}

/// More files and directories than are kept open or in mind.
#[test]
fn the_right_file_is_read_however_many_there_are() {
    let scratch = Scratch::new();
    for i in 0..300 {
        let directory = scratch.directory(format!("d{i}"));
        if i < 40 {
            write(&OURS, MetadataPlace::File, directory.join("file"), format!("file {i}").as_bytes());
        }
    }
    let tree = tree(scratch.as_path());
    for round in 0..2 {
        for i in (0..40).chain([0, 39, 20]) {
            let read = read(&tree, &format!("d{i}/file"));
            assert_eq!(read, Ok(format!("file {i}").into_bytes()), "{round}");
        }
        for i in 0..300 {
            let entries = tree.list(&path(&format!("d{i}"))).expect("a directory");
            assert_eq!(entries.len(), usize::from(i < 40), "{i}");
        }
    }
}

/// What a check says, by plain paths.
fn problems(summary: &CheckSummary) -> Vec<(String, Problem)> {
    let found = summary.findings.iter();
    let mut found: Vec<_> = found.map(|found| (found.path.to_string(), found.problem.clone())).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

#[test]
fn a_check_finds_what_is_wrong_and_nothing_else() {
    let scratch = Scratch::new();
    let make = |name: &str, len: usize| {
        write(&OURS, MetadataPlace::File, scratch.path(encrypted(&OURS, name)), &vec![1; len]);
        File::options().read(true).write(true).open(scratch.path(encrypted(&OURS, name))).expect("made")
    };
    make("sound", 10_000);
    make("nothing", 0);
    let extent = EXTENT as u64;
    make("short", 10_000).set_len(HEADER_LEN + extent + 100).expect("ours");
    make("headless", 10_000).set_len(HEADER_LEN - 100).expect("ours");
    make("behind", 10_000).set_len(HEADER_LEN + 3 * extent + 7).expect("ours");
    make("hole", 20_000).write_all_at(&[0; 2 * EXTENT], HEADER_LEN + extent).expect("ours");
    make("damaged", 10).write_all_at(&[9; 8], 20).expect("ours");
    scratch.file(encrypted(&OURS, "empty"), b"");
    scratch.file(encrypted(&OURS, "plain"), b"not encrypted");
    write(&OTHERS, MetadataPlace::File, scratch.path(encrypted(&OURS, "foreign")), b"of others");
    let name = encrypted(&OTHERS, "name of others");
    scratch.directory(&name);
    symlink(encrypted(&OTHERS, "target"), scratch.path(encrypted(&OURS, "link"))).expect("room");
    symlink("sound", scratch.path(encrypted(&OURS, "sound link"))).expect("room");
    let tree = tree(scratch.as_path());
    let mut summary = check(&tree);
    let (contents, names) = (OTHERS.1[0].0, OTHERS.1[1].0);
    let mut expected = vec![
        ("/behind".into(), Problem::Behind { bytes: 7 }),
        ("/damaged".into(), Problem::Unreadable(lower_error(LowerError::Header))),
        ("/empty".into(), Problem::Empty),
        ("/foreign".into(), Problem::Unreadable(lower_error(LowerError::NoKey { signature: contents }))),
        ("/headless".into(), Problem::SizeTooLarge { size: 10_000, there: 0 }),
        ("/link".into(), Problem::Target(lower_error(LowerError::NoKey { signature: names }))),
        ("/plain".into(), Problem::Unreadable(lower_error(LowerError::NoHeader { len: 13 }))),
        ("/short".into(), Problem::SizeTooLarge { size: 10_000, there: extent }),
        (format!("/{}", name.display()), Problem::Name),
    ];
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(problems(&summary), expected);
    assert_eq!((summary.files, summary.directories, summary.links), (10, 2, 2));
    // sound, nothing, short, headless, behind, hole.
    assert_eq!(summary.bytes, (3 + 1 + 3 + 5) * extent);
    for finding in &summary.findings {
        assert_eq!(tree.lower_path(&finding.path), Ok(finding.lower.clone()), "{:?}", finding.problem);
    }
    let read = AtomicU64::new(0);
    check_contents(&tree, &mut summary, &|bytes| {
        read.fetch_add(bytes, Ordering::Relaxed);
    });
    expected.push(("/hole".into(), Problem::Zeros { first: 1, extents: 2 }));
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(problems(&summary), expected);
    assert!(summary.findings.is_sorted_by_key(|finding| &finding.path));
    assert!(read.into_inner() >= summary.bytes);
    // Left over or seen twice is no damage; everything else is.
    for (_, problem) in expected {
        assert_eq!(problem.is_damage(), !matches!(problem, Problem::Behind { .. }), "{problem:?}");
    }
    assert!(!Problem::Twice.is_damage() && Problem::TooDeep { limit: 1 }.is_damage());
    let passing = LowerTree::open(scratch.as_path(), OURS.0.clone(), true).expect("a directory");
    assert!(problems(&check(&passing)).iter().all(|(path, _)| path != "/plain"));
}

#[test]
fn directories_that_are_too_deep_are_found() {
    let scratch = Scratch::new();
    let mut deep = PathBuf::new();
    (0..=MAX_DEPTH).for_each(|_| deep.push("d"));
    scratch.directory(&deep);
    let summary = check(&tree(scratch.as_path()));
    let found: Vec<_> = summary.findings.iter().map(|finding| &finding.problem).collect();
    assert_eq!(found, [&Problem::TooDeep { limit: MAX_DEPTH }]);
    assert_eq!(summary.findings[0].path.components().count(), MAX_DEPTH);
}

#[test]
fn a_repair_sets_the_size_to_what_is_there_and_touches_nothing_else() {
    let scratch = Scratch::new();
    for (name, place, front) in
        [("file", MetadataPlace::File, HEADER_LEN), ("attribute", MetadataPlace::Xattr, 0)]
    {
        let contents = Random::new(8).bytes(10_000);
        write(&OURS, place, scratch.path(name), &contents);
        let sound = scratch.read(name);
        let tree = tree(scratch.as_path());
        assert_eq!(repair_size(&tree, &path(name)), Ok(false), "{name}: nothing to repair");
        assert!(scratch.read(name) == sound);
        let file = File::options().write(true).open(scratch.path(name)).expect("ours");
        file.set_len(front + 2 * EXTENT as u64 + 1).expect("ours");
        assert_eq!(repair_size(&tree, &path(name)), Ok(true), "{name}");
        assert_eq!(problems(&check(&tree)), [], "{name}");
        assert_eq!(LowerFile::len(&file).expect("ours"), front + 2 * EXTENT as u64, "{name}");
        let tree = LowerTree::open(scratch.as_path(), OURS.0.clone(), false).expect("a directory");
        assert!(read(&tree, name).expect("readable") == contents[..2 * EXTENT], "{name}");
        fs::remove_file(scratch.path(name)).expect("ours");
    }
}

#[derive(Default)]
struct Told(AtomicU64, AtomicU64);

impl ExportProgress for Told {
    fn begins(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn advanced(&self, bytes: u64) {
        self.1.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[test]
fn an_export_has_everything_that_can_be_decrypted_and_names_the_rest() {
    let scratch = Scratch::new();
    let lower = scratch.directory("lower");
    let inner = lower.join(encrypted(&OURS, "directory"));
    fs::create_dir(&inner).expect("room");
    write(&OURS, MetadataPlace::File, inner.join(encrypted(&OURS, "file")), b"contents");
    write(&OURS, MetadataPlace::File, lower.join(encrypted(&OURS, "long")), &[7; 20_000]);
    write(&OTHERS, MetadataPlace::File, lower.join(encrypted(&OURS, "foreign")), b"of others");
    symlink(encrypted(&OURS, "target"), lower.join(encrypted(&OURS, "link"))).expect("room");
    Program::named("mkfifo").arg(lower.join(encrypted(&OURS, "pipe"))).ok();
    let modes = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(&inner, modes(0o751)).expect("ours");
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 5000);
    File::open(&inner).and_then(|inner| inner.set_modified(time)).expect("ours");
    let tree = tree(&lower);
    for preserve in [false, true] {
        let to = scratch.path(format!("out-{preserve}"));
        let told = Told::default();
        let summary = export(&tree, &to, preserve, &told).expect("room");
        let counts = (summary.files, summary.directories, summary.links, summary.bytes, summary.skipped);
        assert_eq!(counts, (2, 1, 1, 20_008, 1));
        let [(failed, CopyError::Tree { error, .. })] = &summary.failed[..] else { panic!("{summary:?}") };
        let signature = OTHERS.1[0].0;
        assert_eq!((failed, error), (&path("foreign"), &lower_error(LowerError::NoKey { signature })));
        assert_eq!(told.0.into_inner(), 5 * 4096 + 4096 + 4096, "room for contents");
        assert_eq!(told.1.into_inner(), 20_008);
        assert_eq!(fs::read(to.join("directory/file")).expect("copied"), b"contents");
        assert_eq!(fs::read(to.join("long")).expect("copied"), [7; 20_000]);
        assert_eq!(fs::read_link(to.join("link")).expect("copied"), Path::new("target"));
        assert!(!to.join("foreign").exists() && !to.join("pipe").exists());
        let directory = fs::metadata(to.join("directory")).expect("copied");
        assert_eq!(directory.modified().expect("a time"), time);
        // As far as the mask of the process lets: others get nothing unless that is asked for.
        let mode = directory.mode() & 0o777;
        assert_eq!(mode == 0o700, !preserve, "{mode:o}");
        assert_eq!((mode & 0o700, mode & !0o751), (0o700, 0), "{mode:o}");
        assert_eq!(fs::metadata(&to).expect("made").mode() & 0o777, 0o700);
        let again = export(&tree, &to, preserve, &Told::default());
        assert!(matches!(again, Err(CopyError::Host { errno: 17, .. })), "{again:?}");
    }
    // Too deep to be copied, and named.
    let mut deep = lower;
    (0..=MAX_DEPTH).for_each(|_| deep.push("d"));
    fs::create_dir_all(&deep).expect("room");
    let summary = export(&tree, &scratch.path("deep"), false, &Told::default()).expect("room");
    let failed = summary.failed.iter().find(|(path, _)| path.components().count() == MAX_DEPTH);
    assert!(matches!(failed, Some((_, CopyError::Walk(_)))), "{:?}", summary.failed);
}

#[test]
fn a_survey_tells_lower_directories_from_documents_and_from_other_programs() {
    let look = |scratch: &Scratch| survey(scratch.as_path()).expect("a directory");
    let scratch = Scratch::new();
    assert_eq!(look(&scratch), Survey::Empty);
    scratch.directory("inner/deeper");
    let plain = |entry: &str| Survey::Plain { entry: entry.into() };
    assert_eq!(look(&scratch), plain("inner"));
    scratch.file("inner/deeper/empty", b"");
    assert_eq!(look(&scratch), plain("inner"));
    write(&OURS, MetadataPlace::File, scratch.path("inner/deeper/file"), b"x");
    assert_eq!(look(&scratch), Survey::Ecryptfs);
    scratch.file("inner/note", b"a document");
    assert_eq!(look(&scratch), Survey::Mixed { plain: "inner/note".into() });
    fs::remove_file(scratch.path("inner/deeper/file")).expect("ours");
    assert_eq!(look(&scratch), plain("inner/note"));
    fs::remove_file(scratch.path("inner/note")).expect("ours");
    write(&OURS, MetadataPlace::Xattr, scratch.path("inner/attribute"), b"x");
    assert_eq!(look(&scratch), Survey::Ecryptfs);
    fs::remove_file(scratch.path("inner/attribute")).expect("ours");
    // No header, but a name: whatever has it.
    scratch.directory(encrypted(&OTHERS, "directory"));
    assert_eq!(look(&scratch), Survey::Ecryptfs);
    assert!(survey(&scratch.path("missing")).is_err());
    // A link to the directory is followed; one in it is not.
    symlink(scratch.as_path(), scratch.path("itself")).expect("room");
    assert_eq!(survey(&scratch.path("itself")).expect("a directory"), Survey::Ecryptfs);
    let pointing = Scratch::new();
    symlink(scratch.as_path(), pointing.path("link")).expect("room");
    assert_eq!(look(&pointing), plain("link"));
}

/// So many that a folder of documents is known for what it is, and no more.
#[test]
fn a_survey_ends_after_4096_entries() {
    let scratch = Scratch::new();
    let inner = scratch.directory("a");
    scratch.directory("a/b");
    scratch.file("a/b/document", b"a document");
    // With "a" and "b", the document is the last that is looked at.
    (0..4093).for_each(|i| drop(File::create(inner.join(i.to_string())).expect("room")));
    let look = || survey(scratch.as_path()).expect("a directory");
    assert_eq!(look(), Survey::Plain { entry: "a/b/document".into() });
    File::create(inner.join("one more")).expect("room");
    assert_eq!(look(), Survey::Plain { entry: "a".into() });
}

#[test]
fn a_survey_knows_other_programs_by_their_files() {
    for (name, program) in [
        ("gocryptfs.conf", ForeignTree::Gocryptfs),
        (".gocryptfs.reverse.conf", ForeignTree::Gocryptfs),
        (".encfs6.xml", ForeignTree::Encfs),
        (".encfs5", ForeignTree::Encfs),
        (".encfs4", ForeignTree::Encfs),
        ("cryfs.config", ForeignTree::Cryfs),
        (".securefs.json", ForeignTree::Securefs),
        ("vault.cryptomator", ForeignTree::Cryptomator),
        ("masterkey.cryptomator", ForeignTree::Cryptomator),
    ] {
        let scratch = Scratch::new();
        scratch.file("more", b"a document");
        // Only at the top, and only with contents.
        scratch.directory("inner");
        scratch.file(Path::new("inner").join(name), b"{}");
        let found = survey(scratch.as_path()).expect("a directory");
        assert!(matches!(found, Survey::Plain { .. }), "{name}: {found:?}");
        scratch.file(name, b"{}");
        assert_eq!(survey(scratch.as_path()).expect("a directory"), Survey::Foreign(program));
        write(&OURS, MetadataPlace::File, scratch.path("encrypted"), b"x");
        let found = survey(scratch.as_path()).expect("a directory");
        assert!(matches!(found, Survey::Mixed { .. }), "{name}: {found:?}");
    }
}

/// The system's file as a lower file.
#[test]
fn a_file_is_a_lower_file() {
    let scratch = Scratch::new();
    let file = File::options().read(true).write(true).create_new(true).open(scratch.path("file"));
    let file = file.expect("a new file");
    assert!(LowerFile::is_empty(&file).expect("ours"));
    LowerFile::write_at(&file, 3, b"contents").expect("room");
    assert_eq!(LowerFile::len(&file).expect("ours"), 11);
    assert!(!LowerFile::is_empty(&file).expect("ours"));
    let mut bytes = [9; 20];
    assert_eq!(LowerFile::read_at(&file, 1, &mut bytes).expect("ours"), 10);
    assert_eq!(&bytes[..11], b"\0\0contents\x09");
    LowerFile::set_len(&file, 5).expect("ours");
    LowerFile::sync(&file).expect("ours");
    assert_eq!(scratch.read("file"), b"\0\0\0co");
    assert_eq!(LowerFile::xattr(&file).expect("ours"), None);
    LowerFile::set_xattr(&file, b"attribute").expect("room");
    assert_eq!(LowerFile::xattr(&file).expect("ours"), Some(b"attribute".to_vec()));
    // Room for what is to be written, and no byte more in it.
    LowerFile::reserve(&file, 0, 0).expect("nothing");
    LowerFile::reserve(&file, 0, 300_000).expect("room");
    assert_eq!(LowerFile::len(&file).expect("ours"), 5);
    assert!(file.metadata().expect("ours").blocks() * 512 >= 300_000);
    for (offset, len) in [(0, 1 << 55), (1 << 62, 1 << 62), (u64::MAX, 1), (u64::MAX, u64::MAX)] {
        assert!(LowerFile::reserve(&file, offset, len).is_err(), "{offset} {len}");
    }
    assert!(file.metadata().expect("ours").blocks() * 512 < 1 << 30);
    // No attributes there, which is none.
    let proc = File::open("/proc/self/status").expect("it is there");
    assert_eq!(LowerFile::xattr(&proc).expect("none"), None);
    // What the system refuses is an error.
    let reading = File::open(scratch.path("file")).expect("ours");
    assert!(LowerFile::write_at(&reading, 0, b"x").is_err() && LowerFile::set_len(&reading, 0).is_err());
    let directory = File::open(scratch.as_path()).expect("ours");
    assert!(LowerFile::read_at(&directory, 0, &mut bytes).is_err());
    let flags = rustix::fs::OFlags::PATH;
    let place = rustix::fs::open(scratch.path("file"), flags, rustix::fs::Mode::empty()).expect("ours");
    let place = File::from(place);
    assert!(LowerFile::sync(&place).is_err() && LowerFile::xattr(&place).is_err());
    assert!(LowerFile::set_xattr(&place, b"x").is_err());
}

/// Numbers of another filesystem that is mounted below may be the same as ours.
#[test]
fn what_is_mounted_below_has_no_number() {
    let tree = LowerTree::open(Path::new("/"), Keys::new(), true).expect("a directory");
    let inode = |name: &str| tree.metadata(&path(name)).expect("it is there").inode;
    assert_eq!(inode(""), fs::metadata("/").expect("the top").ino());
    assert_eq!((inode("proc"), inode("proc/version")), (0, 0));
    let entries = tree.list(&path("proc")).expect("readable");
    assert!(entries.iter().any(|entry| entry.name == b"version" && entry.inode == 0));
}
