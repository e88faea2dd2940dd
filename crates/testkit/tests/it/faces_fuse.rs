//! An open volume as a file through FUSE, used by the tools of file systems.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use atrest_testkit::atrest::{FAST_PBKDF2, Served, VolumeFile};
use atrest_testkit::oracle::Program;
use atrest_testkit::{Random, Scratch, needs};

struct Mounted {
    directory: Scratch,
    volume: VolumeFile,
    server: Option<Served>,
}

impl Mounted {
    fn new(options: &str, open: &str) -> Self {
        let directory = Scratch::new();
        let volume =
            VolumeFile::format(directory.as_path(), "volume.img", "48M", &format!("{FAST_PBKDF2} {options}"));
        fs::create_dir(directory.path("mount")).expect("make a directory");
        let mut mounted = Self { directory, volume, server: None };
        mounted.open(open);
        mounted
    }

    fn open(&mut self, options: &str) {
        let program = self.volume.program("open", options).arg("--fuse").arg(self.mount());
        self.server = Some(Served::start(program.env("XDG_RUNTIME_DIR", self.directory.as_path())));
    }

    fn close(&mut self) {
        self.server.take().expect("it is open").stop();
        assert!(
            fs::read_dir(self.mount()).expect("the directory").next().is_none(),
            "still mounted after SIGTERM"
        );
    }

    fn mount(&self) -> PathBuf {
        self.directory.path("mount")
    }

    /// The one file in the mounted directory.
    fn file(&self) -> PathBuf {
        let entries: Vec<_> = fs::read_dir(self.mount())
            .expect("list the mount")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries[0].clone()
    }

    fn plaintext(&self) -> Vec<u8> {
        let out = self.directory.path("plain.bin");
        let _ = fs::remove_file(&out);
        self.volume.decrypt(&out);
        fs::read(&out).expect("the plaintext")
    }
}

#[test]
fn the_file_has_the_plaintexts_size_and_bytes_and_is_its_owners_only() {
    let mut mounted = Mounted::new("", "");
    let metadata = fs::metadata(mounted.file()).expect("the file");
    assert!(metadata.is_file());
    assert_eq!(metadata.mode() & 0o077, 0, "others have rights: {:o}", metadata.mode());
    let seen = fs::read(mounted.file()).expect("read the file");
    assert_eq!(seen.len() as u64, metadata.len());
    mounted.close();
    assert!(mounted.plaintext() == seen, "FUSE and decrypt differ");
}

#[test]
fn another_user_does_not_see_the_plaintext() {
    needs::root("stepping down to another user");
    let mut mounted = Mounted::new("", "");
    let directory = mounted.directory.as_path();
    Program::named("chmod").arg("a+rx").arg(directory).ok();
    let refused = Program::named("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "ls", "-l"])
        .arg(mounted.mount())
        .run();
    assert!(!refused.is_ok(), "another user lists the mount: {}", refused.text());
    mounted.close();
}

#[test]
fn writes_at_odd_places_arrive_and_nothing_grows_or_shrinks() {
    let mut mounted = Mounted::new("--sector-size 4096", "");
    let file = fs::OpenOptions::new().read(true).write(true).open(mounted.file()).expect("open the file");
    let size = file.metadata().expect("its size").len();
    let mut expected = fs::read(mounted.file()).expect("read the file");
    let mut random = Random::new(5);
    for _ in 0..200 {
        let len = 1 + random.below(20_000);
        let offset = random.below(size - len);
        let bytes = random.bytes(len as usize);
        file.write_all_at(&bytes, offset).expect("write");
        expected[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
    file.sync_all().expect("fsync");
    assert!(fs::read(mounted.file()).expect("read the file") == expected);
    let mut end = &file;
    end.seek(SeekFrom::Start(size)).expect("seek");
    end.write_all(&[1]).expect_err("a write behind the end");
    file.set_len(size + 4096).expect_err("a volume does not grow");
    file.set_len(size - 4096).expect_err("a volume does not shrink");
    drop(file);
    mounted.close();
    assert!(mounted.plaintext() == expected, "decrypt sees other bytes than were written");
}

#[test]
fn mkfs_fsck_and_debugfs_work_on_it_and_a_loop_mount_too() {
    let mut mounted = Mounted::new("", "");
    let tree = mounted.directory.path("tree");
    fs::create_dir(&tree).expect("make a directory");
    let bytes = Random::new(3).bytes(300_000);
    fs::write(tree.join("first"), &bytes).expect("write a file");
    Program::named("mkfs.ext4").args(["-q", "-d"]).arg(&tree).arg(mounted.file()).ok();
    fsck(&mounted.file());
    let point = mounted.directory.path("point");
    fs::create_dir(&point).expect("make a directory");
    Program::named("mount").args(["-o", "loop"]).arg(mounted.file()).arg(&point).ok();
    let copied = fs::read(point.join("first")).expect("read through ext4") == bytes
        && fs::write(point.join("second"), &bytes).is_ok();
    Program::named("umount").arg(&point).ok();
    assert!(copied, "the loop mount has other bytes");
    fsck(&mounted.file());
    mounted.close();
    for name in ["/first", "/second"] {
        let ours = mounted.volume.program("cat", "").arg(name).ok().stdout;
        assert!(ours == bytes, "atrest cat {name}");
    }
    mounted.open("--read-only");
    fsck(&mounted.file());
    fs::OpenOptions::new()
        .write(true)
        .open(mounted.file())
        .expect_err("opened for writing although read-only");
    mounted.close();
}

#[test]
fn fio_verifies_parallel_random_writes() {
    let mut mounted = Mounted::new("--sector-size 512", "");
    Program::named("fio")
        .words("--name=verify --ioengine=psync --rw=randwrite --bsrange=512-128k --blockalign=512 --size=8m --offset_increment=8m")
        .words("--numjobs=3 --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=1 --fsync=32 --allow_file_create=0")
        .arg(format!("--filename={}", mounted.file().display()))
        .current_dir(mounted.directory.as_path())
        .ok();
    mounted.close();
}

#[test]
fn run_ends_with_the_status_of_the_command_and_unmounts() {
    let directory = Scratch::new();
    let volume = VolumeFile::format(directory.as_path(), "volume.img", "32M", FAST_PBKDF2);
    let mount = directory.path("mount");
    fs::create_dir(&mount).expect("make a directory");
    let run = |script: &str| {
        let program =
            volume.program("open", "").arg("--fuse").arg(&mount).args(["--run", "sh", "-c", script]);
        program.env("XDG_RUNTIME_DIR", directory.as_path()).run()
    };
    run("test -f \"$ATREST_PATH\" && mkfs.fat \"$ATREST_PATH\" > /dev/null").expect_code(0);
    run("exit 9").expect_code(9);
    assert!(fs::read_dir(&mount).expect("the directory").next().is_none(), "still mounted");
    Program::named("fsck.fat").arg("-n").arg(decrypted(&volume, directory.as_path())).ok();
}

fn decrypted(volume: &VolumeFile, directory: &Path) -> PathBuf {
    let out = directory.join("plain.bin");
    volume.decrypt(&out);
    out
}

fn fsck(file: &Path) {
    Program::named("e2fsck").args(["-f", "-n"]).arg(file).ok();
}
