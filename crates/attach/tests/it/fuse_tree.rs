//! The files of a LittleFS or a FAT in a directory, used by the programs that people use.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::common::{run, try_run};
use crate::transport::by_transport;
use atrest_attach::fuse::{self, Mount, Options, UnmountError};
use atrest_device::{FlashDevice, FlashError, FlashGeometry};
use atrest_filetree::{FileTree, TreePath};
use atrest_inside::{Access, open_flash_tree, open_tree};
use atrest_littlefs::{FormatOptions, format};
use atrest_testkit::flash::EmulatedFlash;
use atrest_testkit::{FaultDevice, Scratch, wait_until};

#[derive(Clone)]
struct Shared(Arc<Mutex<EmulatedFlash>>);

impl FlashDevice for Shared {
    fn geometry(&self) -> FlashGeometry {
        self.0.lock().unwrap().geometry()
    }
    fn read(&mut self, address: u64, buf: &mut [u8]) -> Result<(), FlashError> {
        self.0.lock().unwrap().read(address, buf)
    }
    fn prog(&mut self, address: u64, data: &[u8]) -> Result<(), FlashError> {
        self.0.lock().unwrap().prog(address, data)
    }
    fn erase(&mut self, address: u64, len: u64) -> Result<(), FlashError> {
        self.0.lock().unwrap().erase(address, len)
    }
    fn sync(&mut self) -> Result<(), FlashError> {
        self.0.lock().unwrap().sync()
    }
}

fn medium() -> Shared {
    let geometry = FlashGeometry::new(16, 16, 4096, 256).unwrap();
    let shared = Shared(Arc::new(Mutex::new(EmulatedFlash::new(geometry))));
    format(shared.clone(), &FormatOptions::default()).unwrap();
    shared
}

fn tree(medium: &Shared, access: Access) -> Arc<dyn FileTree> {
    open_flash_tree(medium.clone(), access).unwrap().into()
}

/// A mount that goes away however the test ends.
struct Mounted {
    mount: Option<Mount>,
    point: PathBuf,
    host: Scratch,
}

fn mounted(tree: Arc<dyn FileTree>) -> Mounted {
    let host = Scratch::new();
    let point = host.path("m");
    fs::create_dir(&point).unwrap();
    let mount =
        by_transport(crate::RINGS, &Options::default(), |options| fuse::mount_tree(tree, &point, options));
    assert_eq!(mount.place(), point.canonicalize().unwrap());
    Mounted { mount: Some(mount), point, host }
}

impl Mounted {
    fn end(mut self) {
        let mount = self.mount.take().unwrap();
        wait_until("nobody uses the directory", || {
            !matches!(mount.unmounter().unmount(), Err(UnmountError::Busy))
        });
        mount.wait().unwrap();
    }

    fn host(&self, name: &str) -> String {
        self.host.path(name).to_str().unwrap().into()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(mount) = self.mount.take() {
            let _ = mount.unmounter().detach();
        }
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn programs_work_in_the_directory_and_all_is_there_after_another_mount() {
    let medium = medium();
    let here = mounted(tree(&medium, Access::ReadWrite));
    let point = here.point.clone();
    let source = here.host("source");
    fs::create_dir_all(format!("{source}/deep/er")).unwrap();
    let data: Vec<u8> = (0..150_000_u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    fs::write(format!("{source}/deep/er/data"), &data).unwrap();
    for number in 0..40 {
        fs::write(format!("{source}/deep/{number}"), format!("file {number}\n").repeat(number)).unwrap();
    }
    run("cp", &["-r", &source, text(&point)]);
    run("diff", &["-r", &source, text(&point.join("source"))]);
    run("mv", &[text(&point.join("source/deep")), text(&point.join("moved"))]);
    fs::rename(point.join("moved/7"), point.join("moved/8")).unwrap();
    assert!(fs::metadata(point.join("moved/7")).is_err());
    assert_eq!(fs::read(point.join("moved/8")).unwrap(), "file 7\n".repeat(7).as_bytes());
    run("rm", &[text(&point.join("moved/9"))]);
    assert!(fs::remove_dir(point.join("moved")).is_err(), "it is not empty");
    fs::remove_dir(point.join("source")).unwrap();
    // Appending, writing behind the end, cutting.
    let mut file = fs::OpenOptions::new().append(true).open(point.join("moved/1")).unwrap();
    file.write_all(b"more\n").unwrap();
    drop(file);
    assert_eq!(fs::read(point.join("moved/1")).unwrap(), b"file 1\nmore\n");
    let file = fs::OpenOptions::new().write(true).open(point.join("moved/2")).unwrap();
    file.set_len(5).unwrap();
    file.set_len(9000).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let grown = fs::read(point.join("moved/2")).unwrap();
    assert_eq!((&grown[..5], grown.len()), (&b"file "[..], 9000));
    assert!(grown[5..].iter().all(|byte| *byte == 0));
    assert_eq!(fs::read_dir(&point).unwrap().count(), 1);
    let space = run("stat", &["-f", "-c", "%S %b", text(&point)]);
    assert_eq!(space.trim(), "4096 256");
    assert!(!try_run("ln", &["-s", "x", text(&point.join("link"))]).is_ok(), "there are no links");
    here.end();

    let before = medium.0.lock().unwrap().image().to_bytes();
    let here = mounted(tree(&medium, Access::ReadOnly));
    assert_eq!(fs::read(here.point.join("moved/er/data")).unwrap(), data);
    assert_eq!(fs::read_dir(here.point.join("moved")).unwrap().count(), 39);
    assert!(fs::write(here.point.join("x"), b"x").is_err());
    assert!(fs::remove_file(here.point.join("moved/1")).is_err());
    here.end();
    assert!(medium.0.lock().unwrap().image().to_bytes() == before, "reading wrote");
}

#[test]
fn a_full_medium_is_told_to_programs() {
    let medium = medium();
    let here = mounted(tree(&medium, Access::ReadWrite));
    fs::write(here.point.join("keep"), b"kept").unwrap();
    let error = fs::write(here.point.join("large"), vec![1; 2 << 20]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(28));
    fs::remove_file(here.point.join("large")).unwrap();
    assert_eq!(fs::read(here.point.join("keep")).unwrap(), b"kept");
    fs::write(here.point.join("small"), vec![1; 100_000]).unwrap();
    here.end();
}

/// A FAT in memory, made by mkfs.vfat.
fn fat(host: &Scratch, kib: &str) -> Arc<FaultDevice> {
    let image = host.path("image");
    run("mkfs.vfat", &["-C", text(&image), kib]);
    Arc::new(FaultDevice::new(fs::read(&image).unwrap()))
}

/// fsck.fat finds nothing to mend.
fn assert_clean(host: &Scratch, device: &FaultDevice) {
    let image = host.path("checked");
    fs::write(&image, device.image()).unwrap();
    let checked = try_run("fsck.fat", &["-n", text(&image)]);
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.is_ok() && !said.contains("Dirty bit"), "{said}");
}

/// What people do in a directory that they take for an ordinary one.
fn work_in(point: &Path) {
    let script = r#"
        set -e
        cd "$1"
        printf 'one\ntwo\n' > notes.txt
        sed -i 's/two/three/' notes.txt
        printf 'one\nthree\n' | diff - notes.txt
        mv notes.txt Notes.txt
        mv Notes.txt 'a much longer name than it had.txt'
        mkdir -p from/deep to
        echo leaf > from/deep/leaf
        mv from/deep to/deeper
        echo new > to/new
        mv to/new to/deeper/leaf
        [ "$(cat to/deeper/leaf)" = new ]
        echo kept > kept; echo other > other
        mv -n other kept
        [ "$(cat kept) $(cat other)" = 'kept other' ]
        ! mv from to/deeper/leaf 2>/dev/null
        ! mv to to/deeper 2>/dev/null
        export HOME=$1 GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        git init -q repository
        cd repository
        for i in 1 2 3 4 5; do echo "$i" > "file number $i"; git add .; git commit -q -m "commit $i"; done
        sed -i s/5/five/ 'file number 5'
        git mv 'file number 4' four
        git commit -q -a -m renamed
        git gc -q
        git fsck --strict
        [ "$(git log --oneline | wc -l)" = 6 ]
        [ -z "$(git status --porcelain)" ]
    "#;
    run("bash", &["-c", script, "bash", text(point)]);
}

#[test]
fn a_fat_can_rename_so_that_editors_and_git_work() {
    let host = Scratch::new();
    let device = fat(&host, "20480");
    let here = mounted(open_tree(device.clone(), Access::ReadWrite).unwrap().into());
    work_in(&here.point);
    here.end();
    assert_clean(&host, &device);
    let here = mounted(open_tree(device.clone(), Access::ReadOnly).unwrap().into());
    assert_eq!(fs::read(here.point.join("to/deeper/leaf")).unwrap(), b"new\n");
    assert_eq!(fs::read(here.point.join("repository/file number 5")).unwrap(), b"five\n");
    here.end();
}

#[test]
fn a_littlefs_can_rename_so_that_editors_and_git_work() {
    let geometry = FlashGeometry::new(16, 16, 4096, 1024).unwrap();
    let medium = Shared(Arc::new(Mutex::new(EmulatedFlash::new(geometry))));
    format(medium.clone(), &FormatOptions::default()).unwrap();
    let here = mounted(tree(&medium, Access::ReadWrite));
    work_in(&here.point);
    here.end();
}

#[test]
fn find_and_rm_end_in_a_fat_whose_directories_contain_each_other() {
    let host = Scratch::new();
    let device = fat(&host, "1440");
    let tree = open_tree(device.clone(), Access::ReadWrite).unwrap();
    let mut above = String::new();
    for i in 0..16 {
        for kind in ["D", "E"] {
            tree.make_dir(&TreePath::parse(format!("{above}{kind}{i:02}")).unwrap()).unwrap();
        }
        above += &format!("D{i:02}/");
    }
    tree.flush().unwrap();
    drop(tree);
    let mut bytes = device.image();
    let entry = |bytes: &[u8], name: &str| {
        let short = format!("{name:11}");
        bytes.windows(11).position(|window| window == short.as_bytes()).unwrap() + 26
    };
    // E00 leads where D00 does and so on, and the last one back to the first.
    for (from, to) in (0..16).map(|i| (format!("E{i:02}"), format!("D{:02}", if i < 15 { i } else { 0 }))) {
        let (from, to) = (entry(&bytes, &from), entry(&bytes, &to));
        bytes.copy_within(to..to + 2, from);
    }
    let device = Arc::new(FaultDevice::new(bytes.clone()));
    let here = mounted(open_tree(device.clone(), Access::ReadWrite).unwrap().into());
    let found = try_run("timeout", &["60", "find", text(&here.point)]);
    assert_ne!(found.code, Some(124), "find does not end");
    let lines = String::from_utf8_lossy(&found.stdout).lines().count();
    assert!((17..=40).contains(&lines), "{lines} entries");
    let removed = try_run("timeout", &["60", "rm", "-r", text(&here.point.join("D00"))]);
    assert_eq!(removed.code, Some(1), "{removed:?}");
    here.end();
    assert!(device.image() == bytes, "something was removed");
}
