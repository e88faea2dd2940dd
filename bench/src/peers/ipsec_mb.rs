//! intel-ipsec-mb, through a few lines of C: AES-CBC of many data units side by side. It has no XTS.

use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::process::Command;

use super::library::Library;
use super::{Step, essiv};
use crate::case::{Case, Cipher};

#[derive(Clone, Copy)]
pub struct IpsecMb {
    new: unsafe extern "C" fn(*const u8, *const u8, c_int) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    ivs: unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> c_int,
    units: unsafe extern "C" fn(*mut c_void, *mut u8, *const u8, usize, usize) -> c_int,
}

impl IpsecMb {
    /// Builds the lines of C into `dir` and loads them with the library, whose version is returned too.
    pub fn load(dir: &Path) -> Result<(Self, String), Box<dyn Error>> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/ipsec_mb.c");
        let object = dir.join("ipsec_mb.so");
        let output = Command::new("cc")
            .args(["-O2", "-Wall", "-shared", "-fPIC", "-o"])
            .args([&object, &source])
            .arg("-lIPSec_MB")
            .output()
            .map_err(|error| format!("cc can't be run ({error}): run scripts/setup"))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(
                format!("{errors}intel-ipsec-mb (libipsec-mb-dev) is missing: run scripts/setup").into()
            );
        }
        let library = Library::open(&object, "libipsec-mb-dev")?;
        // SAFETY: these are the types of ipsec_mb.c.
        unsafe {
            let version: unsafe extern "C" fn() -> *const c_char = library.function("peer_version")?;
            let this = Self {
                new: library.function("peer_new")?,
                free: library.function("peer_free")?,
                ivs: library.function("peer_ivs")?,
                units: library.function("peer_units")?,
            };
            Ok((this, CStr::from_ptr(version()).to_string_lossy().into_owned()))
        }
    }

    /// What it makes of a run, if it has the cipher.
    pub fn step(self, case: &Case) -> Result<Option<Step<'static>>, Box<dyn Error>> {
        if case.cipher != Cipher::CbcEssiv {
            return Ok(None);
        }
        let peer = Peer::new(self, case)?;
        let (unit, mut ivs) = (case.unit, Vec::new());
        Ok(Some(Box::new(move |run| {
            essiv::numbers(&mut ivs, run.len() / unit);
            peer.run(&mut ivs, unit, run);
        })))
    }
}

/// A key made ready for one direction.
struct Peer {
    library: IpsecMb,
    peer: *mut c_void,
}

impl Peer {
    fn new(library: IpsecMb, case: &Case) -> Result<Self, Box<dyn Error>> {
        let (key, encrypt) = (case.cipher.key(), c_int::from(case.encrypt));
        assert_eq!(key.len(), 32, "AES-256");
        // SAFETY: both keys have the 32 bytes that are read.
        let peer = unsafe { (library.new)(key.as_ptr(), essiv::salt(&key).as_ptr(), encrypt) };
        if peer.is_null() {
            Err("intel-ipsec-mb can't be initialised".into())
        } else {
            Ok(Self { library, peer })
        }
    }

    fn run(&self, ivs: &mut [[u8; 16]], unit: usize, run: &mut [u8]) {
        assert_eq!(ivs.len() * unit, run.len(), "an IV for each data unit");
        // SAFETY: the peer is ours alone; there is an IV for each data unit, and the units fill the run.
        let failed = unsafe {
            (self.library.ivs)(self.peer, ivs.as_mut_ptr().cast(), ivs.len()) != 0
                || (self.library.units)(self.peer, run.as_mut_ptr(), ivs.as_ptr().cast(), unit, ivs.len())
                    != 0
        };
        assert!(!failed, "intel-ipsec-mb failed");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // SAFETY: it came from `peer_new` and is not used again.
        unsafe { (self.library.free)(self.peer) };
    }
}
