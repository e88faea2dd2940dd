//! Protectors of google/fscrypt: from what a person has to the master keys of policies.

use core::fmt::{self, Display, Formatter};
use std::path::Path;

use atrest_filetree::{DisplayName, FileTree};
use atrest_kdf::KdfError;
use atrest_open::{MayBeWrongKey, Refused, try_keys};
use atrest_secret::Passphrase;
use atrest_tree::ecryptfs::{Keys, LowerTree};
use atrest_tree::fscrypt::metadata::{
    ChooseError, Link, Metadata, PolicyKey, Protector, ProtectorSource, UnlockError, Unlocked,
};

use super::policies;
use crate::args::fscrypt::FscryptProtector;
use crate::args::secrets::PassphraseArgs;
use crate::asked::Asked;
use crate::errors::too_much_work;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::secrets::Source;

/// How the passphrase of a protector is given without a terminal.
pub const INSTEAD: &str = "--fscrypt-protector NAME=FILE";

/// The master keys that these protectors unlock in a filesystem, in which `.fscrypt` lies in the root. `shown` is what the
/// filesystem is called.
pub fn unlock(
    tree: &dyn FileTree,
    shown: &Path,
    given: &[FscryptProtector],
    typed: &Source,
    output: &Output,
) -> Result<Vec<PolicyKey>, Failure> {
    let mut keys = Vec::new();
    if given.is_empty() {
        return Ok(keys);
    }
    let metadata = Metadata::read(tree).map_err(|error| Failure::from(error).at(shown))?;
    // All are looked up before anything is asked for.
    let chosen: Vec<Protector> =
        given.iter().map(|given| choose(&metadata, shown, given)).collect::<Result<_, _>>()?;
    for (given, protector) in given.iter().zip(&chosen) {
        let unlocked = unlock_one(&metadata, protector, given.file.as_deref(), typed, output)
            .map_err(|failure| failure.at(shown))?;
        for policy in &unlocked.damaged {
            let damaged = UnlockError::DamagedPolicyKey { policy: *policy };
            output.warn(format!("{}: {damaged}", shown.display()));
        }
        keys.extend(unlocked.keys);
    }
    Ok(keys)
}

/// The master keys that these protectors unlock in the filesystem that is mounted at `directory`. Without protectors nothing
/// is read.
pub fn unlock_mounted(
    directory: &Path,
    given: &[FscryptProtector],
    output: &Output,
) -> Result<Vec<PolicyKey>, Failure> {
    match given {
        [] => Ok(Vec::new()),
        given => {
            let typed = Source::typed(&PassphraseArgs::default(), INSTEAD);
            unlock(&mounted(directory)?, directory, given, &typed, output)
        }
    }
}

/// Files of this system as they are. Only `.fscrypt` is looked at.
fn mounted(directory: &Path) -> Result<LowerTree, Failure> {
    LowerTree::open(directory, Keys::new(), true).map_err(|error| Failure::from(error).at(directory))
}

fn choose(metadata: &Metadata, shown: &Path, given: &FscryptProtector) -> Result<Protector, Failure> {
    let elsewhere = match &given.place {
        Some(place) => Some((at_place(place)?, place.as_path())),
        None => None,
    };
    let (metadata, shown) = elsewhere.as_ref().map_or((metadata, shown), |(found, place)| (found, *place));
    let chosen = metadata.choose(given.protector.as_deref());
    chosen.cloned().map_err(|error| refused(&error, metadata, shown))
}

/// What another filesystem says: one that is mounted, or an image.
fn at_place(place: &Path) -> Result<Metadata, Failure> {
    let read = match place.is_dir() {
        true => Metadata::read(&mounted(place)?),
        false => Metadata::read(&*policies::filesystem(place, None)?),
    };
    read.map_err(|error| Failure::from(error).at(place))
}

fn refused(error: &ChooseError, metadata: &Metadata, shown: &Path) -> Failure {
    let failure = Failure::parameters(error).at(shown);
    match error {
        ChooseError::Linked(Link { descriptor, .. }) => failure.hint(format!(
            "--fscrypt-protector PLACE:{descriptor}, where PLACE is the directory in which that filesystem is mounted, or its image"
        )),
        ChooseError::Damaged(_) => failure.hint("another protector of the same policy opens it, too"),
        _ => {
            let names: Vec<String> = metadata.protectors().iter().map(called).collect();
            match names.is_empty() {
                true => failure.hint("no protector can be used; `atrest tree policies` shows what is there"),
                false => failure.hint(format!("there are: {}", names.join("; "))),
            }
        }
    }
}

fn unlock_one(
    metadata: &Metadata,
    protector: &Protector,
    file: Option<&Path>,
    typed: &Source,
    output: &Output,
) -> Result<Unlocked, Failure> {
    let source = match (file, &protector.source) {
        (Some(file), _) => Source::key_file(file),
        (None, ProtectorSource::RawKey) => {
            return Err(Failure::parameters(format!("{} wants a file", called(protector)))
                .hint(format!("--fscrypt-protector {}=FILE", protector.descriptor)));
        }
        (None, _) => typed.clone(),
    };
    let prompt = format!("Passphrase of {}", called(protector));
    let mut asked = Asked::new(&source, prompt, "that is not its passphrase", output, |secret| secret);
    let unlock = |secret: &Passphrase| metadata.unlock(protector, text(protector, secret));
    try_keys(&mut asked, |secret| unlock(secret).map_err(NotUnlocked)).map_err(|refused| match refused {
        Refused::Source(failure) => failure,
        Refused::Attempt(NotUnlocked(error)) => error.into(),
        // cannot happen: a source on the command line is read at least once.
        Refused::NoKey => Failure::parameters("there is no passphrase to try"),
    })
}

/// Why a protector was not unlocked, as the one who tries keys wants to know it.
struct NotUnlocked(UnlockError);

impl MayBeWrongKey for NotUnlocked {
    fn is_wrong_key(&self) -> bool {
        matches!(self.0, UnlockError::WrongSecret { .. })
    }
}

impl Display for NotUnlocked {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// fscrypt takes a line as the passphrase, without its end; a raw key is every byte.
fn text<'a>(protector: &Protector, secret: &'a Passphrase) -> &'a [u8] {
    let bytes = secret.expose();
    match protector.source {
        ProtectorSource::RawKey => bytes,
        _ => bytes.strip_suffix(b"\n").unwrap_or(bytes),
    }
}

/// A protector for people.
fn called(protector: &Protector) -> String {
    let (descriptor, name) = (&protector.descriptor, DisplayName(protector.name.as_bytes()));
    match &protector.source {
        ProtectorSource::LoginPassphrase { uid, .. } => {
            format!("protector {descriptor} (login passphrase of user {uid})")
        }
        ProtectorSource::CustomPassphrase(_) => format!("protector {descriptor} (passphrase \"{name}\")"),
        ProtectorSource::RawKey => format!("protector {descriptor} (raw key \"{name}\")"),
    }
}

impl From<UnlockError> for Failure {
    fn from(error: UnlockError) -> Self {
        match error {
            UnlockError::WrongSecret { .. } => Self::new(Code::Refused, error)
                .hint("`atrest tree policies` lists the protectors; each of a policy's opens it"),
            UnlockError::RawKeyLen { .. } => Self::parameters(error),
            UnlockError::Kdf(kdf @ KdfError::TooMuchWork { .. }) => too_much_work(kdf),
            UnlockError::Kdf(KdfError::NotEnoughMemory { .. } | KdfError::AllocationFailed { .. }) => {
                Self::new(Code::Memory, error)
                    .hint("close other programs, or use a machine (or container limit) with more memory")
            }
            UnlockError::ProtectsNothing { .. } => {
                Self::parameters(error).hint("`atrest tree policies` shows which protectors policies have")
            }
            UnlockError::DamagedPolicyKey { .. } => Self::new(Code::Device, error)
                .hint("another protector of the policy opens it, too; a backup of .fscrypt has the key"),
            _ => Self::new(Code::Device, error),
        }
    }
}
