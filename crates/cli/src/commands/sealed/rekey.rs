//! `atrest rekey`: another volume key, under which everything is sealed anew.

use atrest_device::BlockDevice as _;
use atrest_open::sealed::SealedDevice;
use atrest_sealedvolume::header::{NewHeader, Replaced};
use atrest_sealedvolume::volume::VolumeError;
use atrest_secret::OsRandom;
use atrest_volume::{FormatError, FormatOptions, LockedVolume, VolumeKey};
use serde_json::json;

use super::Opened;
use super::beginning::{KEY_LEN, fill};
use crate::args::sealed::RekeyArgs;
use crate::commands::options;
use crate::commands::text::counted;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::progress;
use crate::secrets::Source;

pub fn rekey(args: &RekeyArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.path;
    let at = |failure: Failure| failure.at(path);
    let failed = |error: VolumeError| at(error.into());
    let opened = Opened::unlock_with(path, args.keys.store.as_deref(), &args.keys.secret, output)?;
    let device = SealedDevice::open(path, true).map_err(|error| at(error.into()))?;
    // Those who read would miss what is deleted at the end.
    let _alone = device.store().hold_to_collect().map_err(|error| at(error.into()))?;
    let info = LockedVolume::read(device.header()).map_err(|error| at(error.into()))?.info();
    let (others, tokens) = (info.keyslots.len().saturating_sub(1), info.tokens.len()); // intended: a volume key may have opened it.
    if others + tokens > 0 {
        output.confirm(&format!(
            "{}: {} and {} are given up with the old key",
            path.display(),
            counted(others as u64, "other passphrase", "other passphrases"),
            counted(tokens as u64, "token", "tokens")
        ))?;
    }
    let prompt = format!("New passphrase for {}", path.display());
    let passphrase = Source::from(&args.keys.new_passphrase).read_new(&prompt, output)?;
    let key = VolumeKey::generate(KEY_LEN, &mut OsRandom).map_err(FormatError::from)?;
    let header = NewHeader::new();
    let options = FormatOptions {
        uuid: Some(info.uuid),
        label: Some(info.label).filter(|label| !label.is_empty()),
        subsystem: Some(info.subsystem).filter(|subsystem| !subsystem.is_empty()),
        keyslot: options::keyslot(&args.keys.pbkdf, None, None)?,
        ..FormatOptions::default()
    };
    fill(&header, (&key, opened.format), &passphrase, options, output).map_err(at)?;
    let mut bytes = vec![0; header.size() as usize]; // 2 MiB
    header.read_at(0, &mut bytes).map_err(|error| at(error.into()))?;

    let volume = &opened.volume;
    let mut replaced = Replaced::Gone;
    let store = || {
        device.header().write_at(0, &bytes).map_err(|error| error.cause)?;
        replaced = device.header().commit()?;
        Ok(())
    };
    volume.rekey(&opened.key, &key, store).map_err(failed)?;
    let spinner = progress::spinner("sealing everything anew", output);
    let done = (|| {
        let rewritten = volume.rewrite()?;
        // What was sealed with the old key goes, as far as no snapshot needs it, while that key still says what it is.
        for _ in 0..2 {
            volume.touch()?;
            match volume.collect(volume.garbage()?) {
                // It needs the old key as long as it is there.
                Err(VolumeError::Unreachable(error)) => return Ok((rewritten, Err(error))),
                collected => collected?,
            }
        }
        Ok((rewritten, Ok(volume.forget_keys()?)))
    })();
    spinner.finish_and_clear();
    let (rewritten, left) = done.map_err(failed)?;
    opened.close(path)?;
    if let Replaced::Stays(cause) = replaced {
        return Err(at(Failure::new(
            Code::Device,
            format!("it has a new key, but the earlier header could not be deleted, and opens copies of before with its passphrases ({cause})"),
        )
        .hint("may these credentials delete objects? Run it again when they may")));
    }
    let left = left.map_err(|error| {
        at(Failure::new(
            Code::Device,
            format!("it has a new key, but what the earlier one has sealed could not be deleted ({error})"),
        )
        .hint("`atrest gc` deletes it when that is possible again"))
    })?;
    if rewritten.left > 0 {
        return Err(at(Failure::new(
            Code::Device,
            "it has a new key; some of it can't be read, and was not sealed anew",
        )
        .hint(format!("`atrest scrub` names {}", counted(rewritten.left, "the block", "the blocks")))));
    }
    let kept = match left {
        0 => String::new(),
        _ => format!(
            "; {} kept, sealed by the new one, for snapshots or a parent",
            counted(left as u64, "earlier key is", "earlier keys are")
        ),
    };
    output.done(
        &json!({ "sealed_blocks": rewritten.blocks, "kept_keys": left }),
        &format!(
            "{}: a new volume key; {} sealed anew{kept}",
            path.display(),
            counted(rewritten.blocks, "block is", "blocks are")
        ),
    )
}
