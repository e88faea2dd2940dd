use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::time::Duration;

use atrest_testkit::oracle::{Program, tool};
use atrest_testkit::{Scratch, needs};

use super::*;

/// Bytes of the sources here.
const TOTAL: u64 = 1 << 20;

fn checkpoint(path: &Path) -> Checkpoint<'_> {
    let binding = Binding {
        direction: Direction::Encrypt,
        volume: "volume -\nvolume-size 1048576\n".into(),
        source: "source-size 1048576\nmodified -\nfingerprint 00\n".into(),
    };
    Checkpoint::new(path, binding)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    names.sort();
    names
}

/// A file system in memory with room for so many pages.
struct SmallDisk<'a>(&'a Scratch);

impl<'a> SmallDisk<'a> {
    fn mount(point: &'a Scratch, pages: u32) -> Self {
        needs::root("mounting a small file system");
        let options = format!("size={}", pages * 4096);
        point.tool("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(point.as_path()).ok();
        Self(point)
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // Not from inside, or the directory would be in use.
        Program::at(tool("umount")).arg(self.0.as_path()).run();
    }
}

#[test]
fn on_a_full_disk_a_checkpoint_is_rewritten_in_place() {
    let scratch = Scratch::new();
    let _mounted = SmallDisk::mount(&scratch, 2);
    let path = scratch.path("c");
    let checkpoint = checkpoint(&path);
    checkpoint.save(0).expect("there is room");
    scratch.file("filler", [1; 4096]);
    let inode = || std::fs::metadata(&path).expect("the checkpoint").ino();
    let before = inode();
    for done in [4096, TOTAL, 0, 512] {
        checkpoint.save(done).expect("saved without room");
        assert_eq!(checkpoint.load(TOTAL), Ok(done));
        assert_eq!(inode(), before, "no new file");
        assert_eq!(names(scratch.as_path()), ["c", "filler"]);
    }

    // A file of another length is no checkpoint of this run. What is reported is what began it.
    for other in ["x", "something else"] {
        scratch.file("c", other);
        assert_eq!(checkpoint.save(0), Err(BulkError::CheckpointFile(Cause::NoSpace)));
        assert_eq!(scratch.read("c"), other.as_bytes());
    }
}

#[test]
fn nothing_but_a_full_disk_lets_a_checkpoint_be_rewritten_in_place() {
    let scratch = Scratch::new();
    let path = scratch.path("c");
    let checkpoint = checkpoint(&path);
    checkpoint.save(512).expect("saved");
    let before = scratch.read("c");
    scratch.directory("c.new");
    assert_eq!(checkpoint.save(1024), Err(BulkError::CheckpointFile(Cause::Os(libc::EISDIR))));
    assert_eq!(scratch.read("c"), before);
}

#[test]
fn a_checkpoint_is_its_owners_and_takes_the_place_of_what_a_killed_run_left() {
    let scratch = Scratch::new();
    let (path, victim) = (scratch.path("c"), scratch.file("victim", "contents"));
    // A name that anybody could have guessed leads nowhere.
    std::os::unix::fs::symlink(&victim, scratch.path("c.new")).expect("a link");
    checkpoint(&path).save(0).expect("saved");
    assert_eq!((scratch.mode("c"), scratch.read("victim")), (0o600, b"contents".to_vec()));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("opened to all");
    scratch.file("c.new", "half a checkp");
    checkpoint(&path).save(512).expect("saved");
    assert_eq!((scratch.mode("c"), checkpoint(&path).load(TOTAL)), (0o600, Ok(512)));
    assert_eq!(names(scratch.as_path()), ["c", "victim"]);
}

#[test]
fn a_checkpoint_that_cannot_be_put_in_its_place_leaves_nothing_beside_it() {
    let scratch = Scratch::new();
    let path = scratch.directory("c");
    let failed = BulkError::CheckpointFile(Cause::Os(libc::EISDIR));
    assert_eq!(checkpoint(&path).save(0), Err(failed));
    assert_eq!(names(scratch.as_path()), ["c"]);
    // Nor is it taken for one that is damaged, or for none.
    assert_eq!(checkpoint(&path).load(TOTAL), Err(failed));
    assert_eq!(remove(&path), Err(failed));
    assert_eq!(remove(&path.join("gone")), Ok(()), "nothing is there to be removed");
}

#[test]
fn more_than_all_of_a_source_is_never_done() {
    let scratch = Scratch::new();
    let path = scratch.path("c");
    for (done, loaded) in [(TOTAL, Ok(TOTAL)), (TOTAL + 1, Err(BulkError::CheckpointDamaged))] {
        checkpoint(&path).save(done).expect("saved");
        assert_eq!(checkpoint(&path).load(TOTAL), loaded);
    }
}

#[test]
fn the_directory_of_a_checkpoint_is_the_one_that_it_lies_in() {
    for (path, expected) in [("x", "."), ("a/x", "a"), ("/x", "/"), ("/a/b/x", "/a/b"), ("./x", ".")] {
        assert_eq!(directory(Path::new(path)), Path::new(expected), "{path}");
    }
}

/// A file with a time before 1970 that was changed since is another source.
#[test]
fn every_time_is_another_text() {
    let times = [-2_000_000_001_i64, -1, 0, 1, 2_000_000_001].map(|nanoseconds| {
        let distance = Duration::from_nanos(nanoseconds.unsigned_abs());
        if nanoseconds < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
    });
    let texts = times.map(since_1970);
    assert_eq!(texts, ["-2.000000001", "-0.000000001", "0.000000000", "0.000000001", "2.000000001"]);
}
