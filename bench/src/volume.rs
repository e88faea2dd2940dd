//! A LUKS1 volume, the one format that all peers read: made by cryptsetup, filled with random ciphertext.

use std::error::Error;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use atrest_device::BlockDevice;
use atrest_engine::{Access, Disk, DiskOptions, FileDevice};
use atrest_secret::Passphrase;
use atrest_volume::{Devices, LockedVolume, UnlockOptions};

/// Its passphrase; nothing secret is in it.
pub const PASSPHRASE: &str = "benchmark";

/// A volume in a file.
pub struct VolumeFile {
    pub path: PathBuf,
    /// Bytes of plaintext.
    pub size: u64,
}

/// Makes one with `size` bytes of plaintext. Any ciphertext is the encryption of something, so random bytes do, and
/// no peer can take them for zeros.
pub fn create(dir: &Path, size: u64) -> Result<VolumeFile, Box<dyn Error>> {
    const HEADER: u64 = 2 << 20;
    let path = dir.join("volume.luks");
    let file = FileDevice::create(&path, HEADER + size)?;
    drop(file);
    luks_format(&path, "luks1", &["--align-payload", "4096"])?;
    let file = FileDevice::open(&path, Access::ReadWriteExclusive)?;
    fill(&file, HEADER..HEADER + size)?;
    file.flush()?;
    let volume = VolumeFile { path, size };
    let found = volume.open()?.size();
    if found != size {
        return Err(format!("the volume holds {found} bytes instead of {size}").into());
    }
    Ok(volume)
}

/// Fills a range with bytes that nobody can take for zeros, or for a hole.
pub fn fill(file: &FileDevice, range: Range<u64>) -> Result<(), Box<dyn Error>> {
    let mut chunk = vec![0; 1 << 20];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for offset in range.clone().step_by(chunk.len()) {
        for word in chunk.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let len = (range.end - offset).min(chunk.len() as u64) as usize;
        file.write_at(offset, &chunk[..len])?;
    }
    Ok(())
}

/// Has cryptsetup make a volume, with its passphrase.
pub fn luks_format(path: &Path, kind: &str, options: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut child = Command::new("cryptsetup")
        .args([
            "luksFormat",
            "--batch-mode",
            "--type",
            kind,
            "--cipher",
            "aes-xts-plain64",
            "--key-size",
            "512",
        ])
        .args(["--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", "-"])
        .args(options)
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|_| "cryptsetup is missing: run scripts/setup")?;
    child.stdin.take().ok_or("no pipe")?.write_all(PASSPHRASE.as_bytes())?;
    match child.wait()?.success() {
        true => Ok(()),
        false => Err("cryptsetup luksFormat failed".into()),
    }
}

impl VolumeFile {
    /// Its plaintext, to read.
    pub fn open(&self) -> Result<Disk, Box<dyn Error>> {
        self.open_for(Access::ReadOnly)
    }

    /// Its plaintext, to read and write.
    pub fn open_to_write(&self) -> Result<Disk, Box<dyn Error>> {
        self.open_for(Access::ReadWrite)
    }

    /// Its plaintext, to read and write, decrypted from the mapped file.
    pub fn open_mapped(&self) -> Result<Disk, Box<dyn Error>> {
        let mut file = FileDevice::open(&self.path, Access::ReadWrite)?;
        file.map()?;
        Self::unlock(file)
    }

    fn open_for(&self, access: Access) -> Result<Disk, Box<dyn Error>> {
        Self::unlock(FileDevice::open(&self.path, access)?)
    }

    fn unlock(file: FileDevice) -> Result<Disk, Box<dyn Error>> {
        let passphrase = Passphrase::copy_from(PASSPHRASE.as_bytes());
        let volume = LockedVolume::read(&file)?.unlock(
            Devices::together(&file),
            &passphrase,
            &UnlockOptions::default(),
        )?;
        Ok(Disk::new(Arc::new(file), volume, DiskOptions::default())?)
    }

    /// The volume's file as it is, through the identity mapper.
    pub fn open_plain(&self) -> Result<Disk, Box<dyn Error>> {
        let file = FileDevice::open(&self.path, Access::ReadOnly)?;
        Ok(Disk::identity(Arc::new(file), DiskOptions::default())?)
    }
}
