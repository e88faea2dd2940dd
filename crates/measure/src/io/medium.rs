//! Files or a device to measure on, and how their caches are dropped.

use std::cell::Cell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use atrest_cipher::CipherSpec;
use atrest_device::BlockDevice;
use atrest_secret::{OsRandom, Random, SecretBytes};
use atrest_volume::UnlockOptions;
use atrest_volume::plain::{self, PlainKey, PlainOptions};
use rustix::fs::{Advice, fadvise};

use super::Place;
use crate::BenchError;
use atrest_engine::{Access, Disk, DiskOptions, FileDevice};

const CIPHER: &str = "aes-xts-plain64";
const KEY_LEN: usize = 32;
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// How caches were dropped before reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forgot {
    /// All of the kernel's, by /proc/sys/vm/drop_caches.
    Everything,
    /// The pages of the file alone, for which no right is needed.
    Pages,
}

/// Where files are made.
pub struct Medium {
    place: Place,
    threads: usize,
    key: SecretBytes,
    forgot: Cell<Forgot>,
}

/// A file, which has no name any more, or the device.
#[derive(Clone)]
pub struct Target {
    /// As it is.
    pub plain: Arc<FileDevice>,
    /// For the advice to drop its pages.
    file: Arc<File>,
    size: u64,
}

impl Target {
    /// Bytes in it.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Makes the kernel forget the file's pages, which must be on the medium.
    pub fn forget_pages(&self) -> Result<(), BenchError> {
        fadvise(&self.file, 0, None, Advice::DontNeed).map_err(|error| BenchError::Place(error.kind()))
    }
}

impl Medium {
    /// Fails unless `largest` bytes fit.
    pub fn new(place: &Place, largest: u64, threads: usize) -> Result<Self, BenchError> {
        let has = match place {
            Place::Directory(directory) => {
                let free = rustix::fs::statvfs(directory).map_err(|error| BenchError::Place(error.kind()))?;
                // intended: what overflows is room enough.
                free.f_bavail.saturating_mul(free.f_frsize)
            }
            Place::Device(path) => {
                FileDevice::open(path, Access::ReadOnly).map_err(BenchError::Device)?.size()
            }
        };
        if has < largest {
            return Err(BenchError::Space { needs: largest, has });
        }
        let mut key = SecretBytes::zeroed(KEY_LEN);
        OsRandom.fill(&mut key).map_err(|_| BenchError::Random)?;
        Ok(Self { place: place.clone(), threads, key, forgot: Cell::new(Forgot::Everything) })
    }

    /// A new file of `size` bytes, or the device.
    pub fn target(&self, size: u64) -> Result<Target, BenchError> {
        let open = |path: &Path| File::open(path).map_err(|error| BenchError::Place(error.kind()));
        let (plain, file) = match &self.place {
            Place::Device(path) => {
                (FileDevice::open(path, Access::ReadWriteExclusive).map_err(BenchError::Device)?, open(path)?)
            }
            Place::Directory(directory) => {
                let path = unused(directory);
                let device = FileDevice::create(&path, size).map_err(BenchError::Device)?;
                let file = open(&path);
                // Whatever happens from here on, nothing is left behind.
                fs::remove_file(&path).map_err(|error| BenchError::Place(error.kind()))?;
                (device, file?)
            }
        };
        Ok(Target { plain: Arc::new(plain), file: Arc::new(file), size })
    }

    /// The bytes of `target` as a plain volume: what is written is encrypted, what is read is decrypted.
    pub fn encrypted(&self, target: &Target) -> Result<Disk, BenchError> {
        let cipher = CipherSpec::from_str(CIPHER).map_err(|_| BenchError::Random)?;
        let options = PlainOptions { size: Some(target.size / 512), ..PlainOptions::new(cipher, KEY_LEN) };
        let key = PlainKey::KeyFile(&self.key);
        let volume = plain::open(&*target.plain, &options, key, &UnlockOptions::default());
        let volume = volume.map_err(BenchError::Volume)?;
        let mut options = DiskOptions::default();
        options.threads = self.threads;
        Disk::new(target.plain.clone(), volume, options).map_err(BenchError::Disk)
    }

    /// Makes the kernel forget what it knows of the data. It must be on the medium.
    pub fn forget(&self, target: &Target) -> Result<(), BenchError> {
        if fs::write(DROP_CACHES, "3").is_err() {
            self.forgot.set(Forgot::Pages);
            target.forget_pages()?;
        }
        Ok(())
    }

    /// Whether all targets are the same device.
    pub fn is_device(&self) -> bool {
        matches!(self.place, Place::Device(_))
    }

    pub fn forgot(&self) -> Forgot {
        self.forgot.get()
    }
}

fn unused(directory: &Path) -> PathBuf {
    directory.join(format!(".atrest-bench-{}", std::process::id()))
}
