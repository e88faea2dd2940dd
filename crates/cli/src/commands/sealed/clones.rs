//! `atrest clone` and `flatten`: a volume that begins with what a snapshot of another one holds.

use atrest_open::sealed::Place;
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::FormatId;
use atrest_sealedvolume::volume::VolumeError;
use atrest_secret::OsRandom;
use atrest_volume::{FormatError, FormatOptions, VolumeKey};
use serde_json::json;

use super::Opened;
use super::beginning::{Begun, KEY_LEN, NewVolume, WINDOW};
use super::format::{look, new_store};
use crate::args::sealed::{CloneArgs, FlattenArgs};
use crate::commands::options;
use crate::commands::text::counted;
use crate::failure::{Code, Failure};
use crate::output::{Output, path_text};
use crate::progress;
use crate::secrets::Source;

pub fn clone(args: &CloneArgs, output: &Output) -> Result<(), Failure> {
    let (path, to) = (&args.path, &args.to);
    let (of_parent, at) = (|failure: Failure| failure.at(path), |failure: Failure| failure.at(to));
    let place = Place::parse(to).map_err(|error| at(error.into()))?;
    let url = path.to_str().ok_or_else(|| of_parent(Failure::parameters("the URL is no UTF-8")))?;
    look(&place).map_err(at)?;
    let trusted = args.new_store.as_deref().map(|store| new_store(store, output)).transpose()?;
    let parent = Opened::unlock_with(path, args.keys.store.as_deref(), &args.keys.secret, output)?;
    let failed = |error: VolumeError| of_parent(error.into());
    let all = parent.volume.snapshots().map_err(failed)?;
    let found = all.iter().rev().find(|one| one.name == args.name);
    let snapshot = found.ok_or_else(|| failed(VolumeError::NoSuchSnapshot))?.id;
    let origin = parent.volume.origin(snapshot, &parent.key, url).map_err(failed)?;

    let key = VolumeKey::generate(KEY_LEN, &mut OsRandom).map_err(FormatError::from)?;
    let prompt = format!("New passphrase for {}", to.display());
    let passphrase = Source::from(&args.keys.new_passphrase).read_new(&prompt, output)?;
    let options = FormatOptions {
        keyslot: options::keyslot(&args.keys.pbkdf, None, None)?,
        ..FormatOptions::default()
    };
    let new = NewVolume { place: &place, key, passphrase, options, trusted };
    let made = new.begin(output, at, |begun| {
        // The snapshot is kept before there is anything that needs it.
        parent.volume.keep_for(snapshot, begun.format).map_err(failed)?;
        let Begun { store, keys, freshness, settings, .. } = begun;
        SealedVolume::format_clone(store, keys, freshness, (origin, WINDOW), settings)
            .map_err(|error| at(error.into()))
    })?;
    parent.close(path)?;
    if args.new_store.is_none() {
        output.warn(format_args!(
            "{}: without --new-store nobody notices that all of the objects are put back to an older state",
            to.display()
        ));
    }
    output.done(
        &json!({ "path": path_text(to), "uuid": made.uuid, "clone": shown(made.format), "snapshot": args.name,
                 "store": args.new_store.as_deref().map(path_text) }),
        &format!(
            "{}: clone of snapshot \"{}\" of {url}, which is kept for {}",
            to.display(),
            args.name,
            shown(made.format)
        ),
    )
}

pub fn flatten(args: &FlattenArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.path;
    let failed = |error: VolumeError| Failure::from(error).at(path);
    let opened = Opened::unlock(path, &args.unlock, true, output)?;
    let volume = &opened.volume;
    let origins = volume.origins().map_err(failed)?;
    if origins.is_empty() {
        return Err(Failure::parameters("it is no clone, or one that stands alone").at(path));
    }
    let spinner = progress::spinner("copying what the clone needs", output);
    let done = volume.rewrite().and_then(|rewritten| Ok((rewritten, volume.forget_keys()?)));
    spinner.finish_and_clear();
    let (rewritten, left) = done.map_err(failed)?;
    let snapshots = volume.snapshots().map_err(failed)?.len() as u64;
    let id = shown(opened.format);
    opened.close(path)?;
    if rewritten.left > 0 {
        return Err(Failure::new(Code::Device, "some of it can't be read")
            .at(path)
            .hint(format!("`atrest scrub` names {}", counted(rewritten.left, "the block", "the blocks"))));
    }
    if left > 0 {
        return Err(Failure::new(Code::Busy, "its snapshots still need the volume that it was made of")
            .at(path)
            .hint(format!(
                "remove {} and run flatten again",
                counted(snapshots, "the snapshot", "snapshots")
            )));
    }
    let parents: Vec<&str> = origins.iter().map(|(_, place)| place.as_str()).collect();
    output.done(
        &json!({ "copied_blocks": rewritten.blocks, "clone": id, "needed": parents }),
        &format!(
            "{}: {} copied; it stands alone. Of {}: `atrest snapshot release URL {id}`",
            path.display(),
            counted(rewritten.blocks, "block is", "blocks are"),
            parents.join(", ")
        ),
    )
}

/// An identifier, as people are shown it.
pub(super) fn shown(format: FormatId) -> String {
    format.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The identifier that was shown so.
pub(super) fn identifier(text: &str) -> Result<FormatId, Failure> {
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = digits.then(|| u128::from_str_radix(text, 16).ok()).flatten();
    number.map(u128::to_be_bytes).ok_or_else(|| {
        Failure::parameters("the identifier of a clone has 32 hexadecimal digits")
            .hint("`atrest snapshot list` shows it")
    })
}
