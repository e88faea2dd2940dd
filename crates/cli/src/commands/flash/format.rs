//! `atrest format --type flash` and `atrest image`.

use std::path::Path;
use std::sync::Arc;

use atrest_device::{BlockDevice, FlashGeometry};
use atrest_engine::FileDevice;
use atrest_engine::flash::{self, FlashOpenError, FlashVolume};
use atrest_flash::{Existing, FormatOptions, NewSlot};
use atrest_inside::{CopyOptions, CopySummary, FileTree, TreePath, copy_in, make_flash_tree};
use atrest_keyslot::flash::{AnyKdf, FlashCipher, FlashKey, KdfCost, Protection};
use atrest_secret::{OsRandom, Passphrase};
use serde_json::json;

use super::info::uuid_text;
use crate::args::flash::{ImageArgs, SizesArgs};
use crate::args::format::{FormatArgs, LuksType, PbkdfArgs, PbkdfKind};
use crate::commands::format::{Media, Place};
use crate::commands::inside::{Listener, copy_failure};
use crate::failure::Failure;
use crate::output::{Output, path_text};
use crate::progress;
use crate::secrets::Source;

/// A garlic whose 128 KiB a microcontroller has.
const GARLIC: u8 = 12;
/// Iterations that a microcontroller does in a second or two.
const ITERATIONS: u32 = 10_000;
/// Argon2id, for cards that no chip has to open.
const ARGON2: (u32, u32, u32) = (3, 65536, 1);

pub fn format(args: &FormatArgs, output: &Output) -> Result<(), Failure> {
    let made = make(args, output)?;
    if !args.flash.empty {
        let tree = filesystem(made.volume, &made.key, &args.path)?;
        tree.flush().map_err(|error| Failure::from(error).at(&args.path))?;
    } else {
        flash::plaintext(made.volume, &made.key, true)
            .map_err(|error| Failure::from(error).at(&args.path))?;
    }
    made.media.appear()?;
    let uuid = made.uuid;
    output.done(
        &json!({ "path": path_text(&args.path), "type": "flash", "uuid": uuid }),
        &format!("{}: new encrypted flash, UUID {uuid}", args.path.display()),
    )
}

pub fn image(args: &ImageArgs, output: &Output) -> Result<(), Failure> {
    if args.format.kind != LuksType::Flash || args.format.flash.empty {
        return Err(Failure::parameters("an image of a directory is made for flash")
            .hint("--type flash, without --empty"));
    }
    // Before a passphrase is asked for.
    let listed = std::fs::read_dir(&args.source).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let mut entries: Vec<_> = listed
        .map_err(|error| Failure::io(&error).at(&args.source))?
        .into_iter()
        .map(|entry| entry.path())
        .collect();
    // The same order every time.
    entries.sort();
    let path = &args.format.path;
    let made = make(&args.format, output)?;
    let tree = filesystem(made.volume, &made.key, path)?;
    let options = CopyOptions { recursive: true, ..CopyOptions::default() };
    let mut done = CopySummary::default();
    for entry in entries {
        let copied = copy_in(&entry, &*tree, &TreePath::root(), &options, &mut Listener { output });
        let part = copied.map_err(copy_failure)?;
        done.files += part.files;
        done.directories += part.directories;
        done.bytes += part.bytes;
    }
    let space = tree.space().map_err(|error| Failure::from(error).at(path))?;
    tree.flush().map_err(|error| Failure::from(error).at(path))?;
    drop(tree);
    made.media.appear()?;
    let (uuid, CopySummary { files, directories, bytes, .. }) = (made.uuid, done);
    output.done(
        &json!({
            "path": path_text(path), "type": "flash", "uuid": uuid, "files": files, "directories": directories, "bytes": bytes,
            "free_blocks": space.free,
        }),
        &format!("{}: {files} files, {directories} directories, {bytes} bytes; UUID {uuid}", path.display()),
    )
}

/// Options that say something about flash with another --type are mistakes.
pub fn refuse_sizes(sizes: &SizesArgs) -> Result<(), Failure> {
    if sizes.erase_size.is_some() || sizes.prog_size.is_some() || sizes.read_size.is_some() || sizes.empty {
        return Err(Failure::parameters(
            "--erase-size, --prog-size, --read-size and --empty belong to --type flash",
        ));
    }
    Ok(())
}

/// What a new keyslot's derivation costs.
pub fn cost(args: &PbkdfArgs) -> Result<KdfCost, Failure> {
    let luks = args.hash.is_some()
        || args.iter_time.is_some()
        || args.keyslot_cipher.is_some()
        || args.keyslot_key_size.is_some();
    if luks {
        return Err(Failure::parameters(
            "--hash, --iter-time, --keyslot-cipher and --keyslot-key-size belong to LUKS",
        )
        .hint("what a chip needs for a derivation does not show here: choose by `atrest kdf cost`"));
    }
    let iterations = args.pbkdf_force_iterations;
    let (garlic, memory, lanes) = (args.garlic, args.pbkdf_memory, args.pbkdf_parallel);
    let cost = match args.pbkdf.unwrap_or(PbkdfKind::Catena) {
        PbkdfKind::Catena if iterations.is_none() && memory.is_none() && lanes.is_none() => {
            KdfCost::catena(garlic.unwrap_or(GARLIC))
        }
        PbkdfKind::Pbkdf2 if garlic.is_none() && memory.is_none() && lanes.is_none() => {
            KdfCost::Pbkdf2 { iterations: iterations.unwrap_or(ITERATIONS) }
        }
        PbkdfKind::Argon2id if garlic.is_none() => KdfCost::Argon2id {
            time: iterations.unwrap_or(ARGON2.0),
            memory_kib: memory.unwrap_or(ARGON2.1),
            lanes: lanes.unwrap_or(ARGON2.2),
        },
        PbkdfKind::Argon2i => {
            return Err(
                Failure::parameters("encrypted flash has no argon2i").hint("argon2id, catena or pbkdf2")
            );
        }
        _ => {
            return Err(Failure::parameters("these options do not go with this key derivation")
                .hint("--garlic is Catena's; --pbkdf-force-iterations PBKDF2's and Argon2's; --pbkdf-memory and --pbkdf-parallel Argon2's"));
        }
    };
    if cost.is_acceptable() {
        Ok(cost)
    } else {
        Err(Failure::parameters("the key derivation is absurdly dear, or impossible"))
    }
}

/// A volume that is made, not yet under its name.
struct Made<'a> {
    media: Media<'a>,
    volume: FlashVolume,
    key: FlashKey,
    uuid: String,
}

fn make<'a>(args: &'a FormatArgs, output: &Output) -> Result<Made<'a>, Failure> {
    refuse_luks(args)?;
    let options = options(args)?;
    let cost = cost(&args.pbkdf)?;
    let place = Place::look(&args.path, args.size)?;
    place.confirm(output)?;
    let prompt = format!("New passphrase for {}", args.path.display());
    let passphrase = Source::from(&args.passphrase).read_new(&prompt, output)?;
    let media = place.open()?;
    let device = media.shared();
    let geometry = geometry(&args.flash, &device).map_err(|failure| failure.at(&args.path))?;
    let (volume, key) = derive_and_write(device, geometry, &options, cost, &passphrase, output)
        .map_err(|error| Failure::from(error).at(&args.path))?;
    let header = volume.header().map_err(|error| Failure::from(error).at(&args.path))?;
    let uuid = uuid_text(&header.params().uuid);
    Ok(Made { media, volume, key, uuid })
}

fn derive_and_write(
    device: Arc<FileDevice>,
    geometry: FlashGeometry,
    options: &FormatOptions,
    cost: KdfCost,
    passphrase: &Passphrase,
    output: &Output,
) -> Result<(FlashVolume, FlashKey), FlashOpenError> {
    let spinner = progress::spinner("deriving the key", output);
    let first = NewSlot {
        passphrase: passphrase.expose(),
        cost,
        kdf: &mut AnyKdf,
        device: None,
        random: &mut OsRandom,
    };
    let made = flash::format(device, geometry, options, first);
    spinner.finish_and_clear();
    made
}

fn filesystem(volume: FlashVolume, key: &FlashKey, path: &Path) -> Result<Box<dyn FileTree>, Failure> {
    let plain = flash::plaintext(volume, key, true).map_err(|error| Failure::from(error).at(path))?;
    make_flash_tree(plain).map_err(|error| Failure::from(error).at(path))
}

fn refuse_luks(args: &FormatArgs) -> Result<(), Failure> {
    let luks = args.label.is_some()
        || args.subsystem.is_some()
        || args.uuid.is_some()
        || args.key_slot.is_some()
        || args.luks2_metadata_size.is_some()
        || args.luks2_keyslots_size.is_some()
        || args.align_payload.is_some()
        || args.offset.is_some()
        || args.header.is_some()
        || args.volume_key_file.is_some();
    if luks {
        return Err(Failure::parameters(
            "--label, --subsystem, --uuid, --key-slot, --luks2-…, --align-payload, --offset, --header and --volume-key-file \
             belong to LUKS",
        ));
    }
    Ok(())
}

fn options(args: &FormatArgs) -> Result<FormatOptions, Failure> {
    let name = args.cipher.as_deref().unwrap_or("aes-xts-plain64");
    let cipher = FlashCipher::from_name(name).filter(|cipher| !cipher.is_aead()).ok_or_else(|| {
        let known: Vec<&str> =
            FlashCipher::ALL.iter().filter(|cipher| !cipher.is_aead()).map(|cipher| cipher.name()).collect();
        Failure::parameters(format!("encrypted flash has no cipher \"{name}\""))
            .hint(format!("it has {}", known.join(", ")))
    })?;
    let longest = cipher.key_lens().last().copied().unwrap_or(0);
    let key_len = args.key_size.map_or(Some(longest), |bits| u8::try_from(bits / 8).ok());
    let key_len = key_len.filter(|len| cipher.key_lens().contains(len)).ok_or_else(|| {
        let known: Vec<String> =
            cipher.key_lens().iter().map(|len| (u32::from(*len) * 8).to_string()).collect();
        Failure::parameters(format!("{name} has no such key size"))
            .hint(format!("it has {} bits", known.join(", ")))
    })?;
    let data_unit = args.sector_size.unwrap_or(512);
    if !matches!(data_unit, 512 | 1024 | 2048 | 4096) {
        return Err(Failure::parameters(format!("data units of {data_unit} bytes are not possible"))
            .hint("512, 1024, 2048 or 4096"));
    }
    // What is there was asked about.
    let (protection, existing) = (Protection::Encrypted, Existing::Replace);
    Ok(FormatOptions { cipher, key_len, data_unit, protection, existing })
}

fn geometry(sizes: &SizesArgs, device: &FileDevice) -> Result<FlashGeometry, Failure> {
    let card = device.is_block_device();
    let size = |given: Option<u64>, default: u32| match given {
        None => Ok(default),
        Some(bytes) => u32::try_from(bytes)
            .map_err(|_| Failure::parameters(format!("{bytes} bytes are no unit of a flash"))),
    };
    let prog = size(sizes.prog_size, if card { 512 } else { 16 })?;
    let read = size(sizes.read_size, if card { 512 } else { 1 })?;
    let erase = size(sizes.erase_size, 4096)?;
    let blocks = device.size().checked_div(u64::from(erase)).unwrap_or(0);
    if erase != 0 && blocks.saturating_mul(u64::from(erase)) != device.size() && !card {
        return Err(Failure::parameters(format!(
            "{} bytes are no whole number of {erase}-byte erase blocks",
            device.size()
        ))
        .hint("choose --size and --erase-size that go together"));
    }
    let geometry = FlashGeometry::new(read, prog, erase, blocks);
    geometry.map_err(|error| FlashOpenError::Geometry(error).into())
}
