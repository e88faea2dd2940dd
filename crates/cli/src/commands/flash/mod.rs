//! The commands on encrypted flash: an image of a chip or card, or the card itself.

mod format;
mod hand_over;
mod info;
pub mod key;
mod options;
mod repair;
mod store;

use std::path::Path;
use std::sync::Arc;

use atrest_device::{BlockDevice, DeviceError, LockMode, Media};
use atrest_engine::flash::{DetectError, FlashVolume, detect, open, plaintext};
use atrest_engine::{Access, FileDevice};
use atrest_filetree::FileTree;
use atrest_flash::FlashHeaderError;
use atrest_inside::open_flash_tree;
use atrest_keyslot::flash::{AnyKdf, FlashKey};
use atrest_secret::Passphrase;
use serde_json::json;

use super::target::{open_file, with_passphrase};
use super::text::counted;
use super::{ecryptfs, fscrypt, pin};
use crate::args::header::{EraseArgs, InfoArgs};
use crate::args::inside::PartitionArgs;
use crate::args::key::TargetArgs;
use crate::args::open::{UnlockArgs, VolumeType};
use crate::args::secrets::{PassphraseArgs, TokenArgs};
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::secrets::Source;

pub use format::{format, image};
pub use hand_over::hand_over;
pub use options::refuse_sizes;
pub use repair::repair;
use store::{Freshness, HeldStore};

/// Whether this program has the commands for it: the linker leaves out what comes after.
const HERE: bool = cfg!(feature = "whole");

/// What to do with encrypted flash on a server.
pub const COPY_FIRST: &str =
    "encrypted flash is for images and cards: copy the export to a file (`nbdcopy`) and use that";

/// Whether there is a flash header on a device, whole or not.
pub fn is_on(device: &dyn BlockDevice) -> bool {
    HERE && !matches!(detect(device, None), Err(DetectError::NotFlash | DetectError::Device(_)))
}

/// Whether a command's target is encrypted flash, of which none is on a server. What can't be opened is reported by whoever needs it.
pub fn is_flash(target: &TargetArgs) -> bool {
    target.header.is_none() && is_at(&target.path)
}

/// Whether the volume that a command looks into is encrypted flash. It is not if the options name a detached header or
/// another type.
pub fn is_flash_volume(path: &Path, args: &UnlockArgs) -> bool {
    args.header.is_none() && args.kind == VolumeType::Luks && is_at(path)
}

fn is_at(path: &Path) -> bool {
    HERE && FileDevice::open(path, Access::ReadOnly).is_ok_and(|device| is_on(&device))
}

/// Fails if it is, for commands that encrypted flash does not have.
pub fn refuse(target: &TargetArgs) -> Result<(), Failure> {
    if is_flash(target) {
        return Err(Failure::new(Code::Device, "it is flash, for which there is no such command")
            .at(&target.path)
            .hint("it has info, key, erase, repair, ls, cat, cp, mkdir, rm, df and mount; whole copies of the image are its backup"));
    }
    Ok(())
}

/// Fails if a trusted store was named for a volume that has none.
pub fn refuse_store(named: bool) -> Result<(), Failure> {
    if named {
        return Err(Failure::parameters(
            "--store and --without-freshness are for the files and the keyslots of sealed flash; of a LUKS volume `header pin`, and what opens or changes a header that is pinned, take --store",
        )
        .hint("leave them out: the header of a sealed volume needs none, and nothing else has one; `atrest info` says what this is"));
    }
    Ok(())
}

/// Fails if a token was named, which LUKS2 alone has.
pub fn refuse_tokens(args: &TokenArgs, new: Option<u32>) -> Result<(), Failure> {
    match args.are_named() || new.is_some() {
        true => Err(Failure::parameters("encrypted flash has no tokens")
            .hint("leave --token-id, --token-type, --token-only and --new-token-id out")),
        false => Ok(()),
    }
}

/// A header that is being looked at or changed, under the metadata lock.
struct LockedHeader {
    device: Arc<FileDevice>,
    volume: FlashVolume,
}

impl LockedHeader {
    fn read(path: &Path) -> Result<Self, Failure> {
        Self::open(path, Access::ReadOnly, LockMode::Shared)
    }

    /// To be changed; the data may be in use meanwhile.
    fn change(path: &Path) -> Result<Self, Failure> {
        Self::open(path, Access::ReadWrite, LockMode::Exclusive)
    }

    fn open(path: &Path, access: Access, mode: LockMode) -> Result<Self, Failure> {
        let device = Arc::new(open_file(path, access, COPY_FIRST)?);
        let at = |error: DeviceError| Failure::from(error).at(path);
        device.lock_metadata(mode).map_err(at)?;
        let opened = open(Arc::clone(&device));
        match opened {
            Ok(volume) => Ok(Self { device, volume }),
            Err(error) => {
                device.unlock_metadata();
                Err(Failure::from(error).at(path))
            }
        }
    }
}

impl Drop for LockedHeader {
    fn drop(&mut self) {
        self.device.unlock_metadata();
    }
}

/// Asks for the passphrase: the keyslot that it opens, and the key in it.
fn unlock(
    volume: &FlashVolume,
    path: &Path,
    slot: Option<u32>,
    secret: &PassphraseArgs,
    output: &Output,
) -> Result<(usize, FlashKey), Failure> {
    unlock_keeping(volume, path, slot, secret, output).map(|(slot, key, _)| (slot, key))
}

/// Asks for the passphrase: the keyslot that it opens, the key in it, and the passphrase itself.
fn unlock_keeping(
    volume: &FlashVolume,
    path: &Path,
    slot: Option<u32>,
    secret: &PassphraseArgs,
    output: &Output,
) -> Result<(usize, FlashKey, Passphrase), Failure> {
    let mut key = FlashKey::empty();
    let slot = slot.map(|slot| slot as usize);
    let (number, passphrase) = with_passphrase(&Source::from(secret), path, output, |passphrase| {
        let opened = volume.unlock(slot, passphrase.expose(), &mut AnyKdf, None, &mut key)?;
        Ok::<_, FlashHeaderError>((opened, Passphrase::copy_from(passphrase.expose())))
    })?;
    Ok((number, key, passphrase))
}

/// The files inside.
pub fn tree(
    path: &Path,
    args: &UnlockArgs,
    partition: &PartitionArgs,
    write: bool,
    output: &Output,
) -> Result<Box<dyn FileTree>, Failure> {
    refuse_tokens(&args.tokens, None)?;
    pin::refuse(&args.expect, path)?;
    ecryptfs::refuse(&partition.ecryptfs)?;
    if !partition.fscrypt.are_none() {
        return Err(fscrypt::of_another_filesystem("LittleFS").at(path));
    }
    if partition.partition.is_some() || args.size.is_some() || args.secret.has_volume_key() {
        return Err(
            Failure::parameters("encrypted flash has no --partition, --size and --volume-key-file").at(path)
        );
    }
    let access = if write { Access::ReadWriteExclusive } else { Access::ReadOnlyShared };
    let at = |failure: Failure| failure.at(path);
    let volume = open(Arc::new(open_file(path, access, COPY_FIRST)?)).map_err(|error| at(error.into()))?;
    let freshness = Freshness::of(&volume, args, write).map_err(at)?;
    let (_, key) = unlock(&volume, path, args.key_slot, &args.secret.passphrase, output)?;
    let access = if write { atrest_inside::Access::ReadWrite } else { atrest_inside::Access::ReadOnly };
    let tree = match freshness {
        Freshness::Encrypted => {
            open_flash_tree(plaintext(volume, &key, false).map_err(|error| at(error.into()))?, access)
        }
        Freshness::Store(store) => {
            let plain = store::open_plaintext(volume, &key, store, write, path, output).map_err(at)?;
            open_flash_tree(plain, access)
        }
        Freshness::Without { assume_torn } => {
            let plain = store::open_unanchored(volume, &key, assume_torn, path, output).map_err(at)?;
            open_flash_tree(plain, access)
        }
    };
    let tree = tree.map_err(|error| at(error.into()))?;
    for note in tree.about().notes {
        output.warn(format!("{}: {note}", path.display()));
    }
    Ok(tree)
}

pub fn info(args: &InfoArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.target.path;
    let locked = LockedHeader::read(path)?;
    let record = store::look(&locked.volume, args.target.store.as_deref()).map_err(|error| error.at(path))?;
    let info = info::Info::of(&locked.volume, record).map_err(|error| error.at(path))?;
    output.report(&info, &info.text())
}

pub fn erase(args: &EraseArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.target.path;
    let mut locked = LockedHeader::change(path)?;
    let held = HeldStore::hold(&locked.volume, args.target.store.as_deref(), true);
    let held = held.and_then(|held| held.check_header(&locked.volume));
    let mut held = held.map_err(|error| error.at(path))?;
    let failed = |error: FlashHeaderError| Failure::from(error).at(path);
    let slots = locked.volume.header().map_err(failed)?.slots_in_use().count();
    let shown = path.display();
    output.confirm(&format!(
        "every keyslot of {shown} ({slots} in use) is wiped; its data can't be read afterwards"
    ))?;
    locked.volume.erase_keys(held.anchor()).map_err(failed)?;
    if locked.device.is_block_device() {
        output.warn("a card writes elsewhere than it erases: copies of the keyslots may remain in it");
    }
    output.done(
        &json!({ "erased": slots }),
        &format!("{shown}: {} wiped", counted(slots as u64, "keyslot", "keyslots")),
    )
}
