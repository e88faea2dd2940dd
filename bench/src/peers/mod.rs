//! Who atrest is held against, each behind one interface: a step makes of a run in place what the case says.

mod authors;
mod essiv;
mod evp;
mod gcrypt;
#[cfg(target_arch = "x86_64")]
mod ipsec_mb;
mod library;
mod openssl4;
mod password;
mod rust;

use std::error::Error;
use std::path::PathBuf;

pub use authors::scaled;
pub use evp::Evp;
pub use gcrypt::Gcrypt;
pub use password::{LibArgon2, LibSodium};

use crate::case::{Case, Cipher, Place};

/// Encrypts or decrypts a run of data units in place, the first of which has the number 0.
pub type Step<'a> = Box<dyn FnMut(&mut [u8]) + 'a>;

pub const OPENSSL_3: &str = "OpenSSL 3.0";
pub const OPENSSL_4: &str = "OpenSSL 4.0";
pub const AWS_LC: &str = "AWS-LC";
pub const GCRYPT: &str = "libgcrypt";
pub const IPSEC_MB: &str = "intel-ipsec-mb";
pub const HCTR2_RS: &str = "`hctr2-rs`";

/// The libraries, loaded and, where that is needed, built.
pub struct Peers {
    pub openssl: [(&'static str, Evp); 3],
    pub gcrypt: Gcrypt,
    #[cfg(target_arch = "x86_64")]
    ipsec_mb: ipsec_mb::IpsecMb,
    /// What they call themselves.
    pub versions: Vec<String>,
}

impl Peers {
    pub fn load() -> Result<Self, Box<dyn Error>> {
        let dir = built()?;
        let (three, three_version) = Evp::load("libcrypto.so.3", "libssl3")?;
        let (four, four_version) = Evp::load(openssl4::build(&dir)?, "built by this benchmark")?;
        let (gcrypt, gcrypt_version) = Gcrypt::load()?;
        let mut versions = vec![three_version, four_version, format!("libgcrypt {gcrypt_version}")];
        #[cfg(target_arch = "x86_64")]
        let (ipsec_mb, ipsec_mb_version) = ipsec_mb::IpsecMb::load(&dir)?;
        #[cfg(target_arch = "x86_64")]
        versions.push(format!("intel-ipsec-mb {ipsec_mb_version}"));
        versions.push("AWS-LC and crates as in `bench/Cargo.lock`".to_owned());
        Ok(Self {
            openssl: [(OPENSSL_3, three), (OPENSSL_4, four), (AWS_LC, Evp::aws_lc())],
            gcrypt,
            #[cfg(target_arch = "x86_64")]
            ipsec_mb,
            versions,
        })
    }

    /// All who have the cipher.
    pub fn steps(&self, case: &Case) -> Result<Vec<(&'static str, Step<'static>)>, Box<dyn Error>> {
        let mut steps = Vec::new();
        for (name, library) in &self.openssl {
            steps.extend(library.step(case)?.map(|step| (*name, step)));
        }
        steps.extend(self.gcrypt.step(case)?.map(|step| (GCRYPT, step)));
        #[cfg(target_arch = "x86_64")]
        steps.extend(self.ipsec_mb.step(case)?.map(|step| (IPSEC_MB, step)));
        steps.extend(rust::step(case));
        Ok(steps)
    }

    /// OpenSSL 3.0's AES-256-XTS on units of the same size: what the authors' figures are scaled by.
    pub fn yardstick(&self, case: &Case) -> Result<Step<'static>, Box<dyn Error>> {
        let case = Case { cipher: Cipher::Aes256Xts, encrypt: true, place: Place::Cache, ..*case };
        let [(_, three), ..] = self.openssl;
        three.step(&case)?.ok_or_else(|| "OpenSSL has no AES-256-XTS".into())
    }
}

/// Where what is built when the benchmark runs is kept: beside its program, so that `cargo clean` removes it.
fn built() -> Result<PathBuf, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let dir = program.parent().ok_or("a program without a directory")?.join("peers");
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}
