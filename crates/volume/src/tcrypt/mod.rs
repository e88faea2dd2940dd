//! TrueCrypt and VeraCrypt volumes (TCRYPT): which headers there may be, which derivations may open them, and the volume that one opens.
//!
//! Nothing says what a header's hash and ciphers are, so that all are tried: a [`Trial`] is one derivation over one header. Whoever opens a
//! volume tries them in any order, on as many threads as there are; one derivation costs about a second, and all ciphers after it
//! nothing.

mod create;
mod error;
mod opened;
mod seal;

use atrest_cipher::CipherSpec;
use atrest_device::{BlockDevice, Media};
use atrest_format::tcrypt::{CHAINS, Chain, HEADER_LEN, Mode, Place, SALT_LEN};
use atrest_kdf::Hash;
use atrest_kdf::tcrypt::{Derivation, Family, KeyFiles, Password, derivations};

use crate::{Passphrase, UnlockError};

pub use create::{NewTcrypt, chain_named, create};
pub use error::{TcryptError, TcryptWriteError};
pub use opened::Opened;
pub use seal::NewPassword;

/// What is said of a volume that says nothing of itself.
#[derive(Clone, Debug, Default)]
pub struct TcryptOptions {
    /// Only volumes of this program.
    pub family: Option<Family>,
    /// The hidden volume.
    pub hidden: bool,
    /// The copy of the header near the end.
    pub backup: bool,
    /// An encrypted system. The device is its whole drive; or it is a partition, whose drive is the device of the header.
    pub system: bool,
    /// The byte of the drive with which the partition begins. Without it a partition has to be all of the system.
    pub partition: Option<u64>,
    /// Only derivations whose hash has this in its name.
    pub hash: Option<String>,
    /// Only ciphers, or cascades of them, that have this in their name.
    pub cipher: Option<String>,
    /// Personal iterations multiplier of VeraCrypt.
    pub pim: Option<u32>,
    /// Key files, mixed.
    pub key_files: KeyFiles,
}

/// A volume whose password is not known yet.
#[derive(Debug)]
pub struct LockedTcrypt {
    headers: Vec<(Place, Box<[u8; HEADER_LEN]>)>,
    device: u64,
    options: TcryptOptions,
    trials: Vec<Trial>,
    chains: Vec<Chain>,
}

/// A derivation over a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Which of the headers.
    header: usize,
    /// How its key may be derived.
    derivation: Derivation,
}

impl Trial {
    /// The hash of its derivation.
    pub fn hash(&self) -> Hash {
        self.derivation.hash
    }

    /// The iterations of its derivation.
    pub fn iterations(&self) -> u32 {
        self.derivation.iterations
    }
}

impl LockedTcrypt {
    /// Reads what may be headers. Nothing on the device shows whether they are.
    ///
    /// # Errors
    /// [`TcryptError::TooSmall`] if the device has no place for a header, [`TcryptError::NothingToTry`] if no derivation or cipher is
    /// left by the options, [`TcryptError::Argon2`] if that is the hash, [`TcryptError::Kdf`] if the PIM is too large. [`UnlockError::Device`] if the device can't be read.
    pub fn read(device: &dyn Media, options: &TcryptOptions) -> Result<Self, UnlockError> {
        let size = BlockDevice::size(device);
        let places: &[Place] = match (options.hidden, options.backup) {
            _ if options.system => &[Place::System],
            (false, false) => &[Place::Normal],
            (true, false) => &[Place::Hidden, Place::OldHidden],
            (false, true) => &[Place::Backup],
            (true, true) => &[Place::HiddenBackup],
        };
        let mut headers = Vec::new();
        for place in places {
            let Some(offset) = place.offset(size) else { continue };
            let mut header = Box::new([0; HEADER_LEN]);
            device.read_at(offset, &mut *header).map_err(UnlockError::Device)?;
            headers.push((*place, header));
        }
        if headers.is_empty() {
            return Err(TcryptError::TooSmall { has: size }.into());
        }
        let trials = trials(headers.len(), options)?;
        let wanted =
            |chain: &Chain| options.cipher.as_ref().is_none_or(|part| chain.name().contains(part.as_str()));
        let chains: Vec<_> = CHAINS.into_iter().filter(wanted).filter(is_built).collect();
        // intended: without a name all hashes are tried, and this one is none of them.
        let argon2 = options.hash.as_ref().is_some_and(|part| "argon2id".contains(part.as_str()));
        if trials.is_empty() && argon2 {
            return Err(TcryptError::Argon2.into());
        }
        if trials.is_empty() || chains.is_empty() {
            return Err(TcryptError::NothingToTry.into());
        }
        Ok(Self { headers, device: size, options: options.clone(), trials, chains })
    }

    /// What there is to try, the cheapest and likeliest first.
    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    /// Tries one derivation, and every cipher with what it yields; `None` if the header is none then.
    ///
    /// # Errors
    /// [`UnlockError::Kdf`] if the derivation is cancelled or takes too long, [`TcryptError::Header`] for a header that decrypts and is not
    /// acceptable. A password that is too long for the derivation's program yields `None`.
    pub fn attempt(&self, trial: &Trial, passphrase: &Passphrase) -> Result<Option<Opened>, UnlockError> {
        let derivation = trial.derivation;
        let Some((place, header)) = self.headers.get(trial.header) else { return Ok(None) };
        let password = Password::new(derivation.family, passphrase.expose(), &self.options.key_files);
        let Ok(password) = password else { return Ok(None) };
        let Some((salt, encrypted)) = header.split_first_chunk::<SALT_LEN>() else { return Ok(None) };
        let key = derivation.derive(&password, salt).map_err(UnlockError::Kdf)?;
        let found = opened::find(&self.chains, &*key, encrypted, derivation, *place)?;
        Ok(found.map(|opened| opened.of_partition(self.options.partition)))
    }

    /// Bytes of the device.
    pub fn device_size(&self) -> u64 {
        self.device
    }

    /// Checks that there is a program that could have taken a password as long as this one.
    ///
    /// # Errors
    /// [`TcryptError::Kdf`] with the limit.
    pub fn check_length(&self, passphrase: &Passphrase) -> Result<(), UnlockError> {
        let mut last = Ok(());
        for trial in &self.trials {
            match Password::new(trial.derivation.family, passphrase.expose(), &self.options.key_files) {
                Ok(_) => return Ok(()),
                Err(error) => last = Err(TcryptError::Kdf(error).into()),
            }
        }
        last
    }
}

/// Whether this build has the ciphers.
fn is_built(chain: &Chain) -> bool {
    let parses = |spec: String| spec.parse::<CipherSpec>().is_ok();
    let mut specs = (0..chain.ciphers.len()).map(|index| chain.spec(index));
    chain.mode != Mode::Xts || specs.all(|spec| spec.is_some_and(parses))
}

fn trials(headers: usize, options: &TcryptOptions) -> Result<Vec<Trial>, UnlockError> {
    let all = derivations(options.system, options.pim).map_err(TcryptError::Kdf)?;
    let wanted = all
        .filter(|one| options.family.is_none_or(|family| family == one.family))
        .filter(|one| options.hash.as_ref().is_none_or(|part| one.hash.name().contains(part.as_str())));
    Ok(wanted.flat_map(|derivation| (0..headers).map(move |header| Trial { header, derivation })).collect())
}
