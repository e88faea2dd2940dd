//! The files of a LittleFS in a directory, used by the programs that people use.

mod common;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use atrest_attach::fuse::{self, Mount, Options, UnmountError};
use atrest_device::{FlashDevice, FlashError, FlashGeometry};
use atrest_inside::{Access, FileTree, open_flash_tree};
use atrest_littlefs::{FormatOptions, format};
use atrest_testkit::flash::EmulatedFlash;
use common::{run, try_run, wait_until};

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
    host: tempfile::TempDir,
}

fn mounted(tree: Arc<dyn FileTree>) -> Mounted {
    let host = tempfile::tempdir().unwrap();
    let point = host.path().join("m");
    fs::create_dir(&point).unwrap();
    let mount = fuse::mount_tree(tree, &point, &Options::default())
        .unwrap_or_else(|error| panic!("{error} (run scripts/setup)"));
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
        self.host.path().join(name).to_str().unwrap().into()
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
    assert!(!try_run("ln", &["-s", "x", text(&point.join("link"))]).status.success(), "there are no links");
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
