//! `atrest repair` for flash: the header, and what a sealed volume holds.

use std::path::Path;
use std::sync::Arc;

use atrest_device::LockMode;
use atrest_engine::flash::{
    FlashOpenError, adopt_header, adopt_sealed, confirm_header, examine_sealed, open, open_sealed,
    open_sealed_to_read, put_right, wants_smaller_reserve,
};
use atrest_engine::{Access, TrustedFile};
use atrest_filetree::{TreeError, unreadable};
use atrest_flash::CopyState;
use atrest_inside::open_flash_tree;
use serde_json::json;

use super::COPY_FIRST;
use super::{LockedHeader, info, store, unlock};
use crate::args::header::RepairArgs;
use crate::commands::target::open_file;
use crate::commands::text::counted;
use crate::failure::{Code, Failure};
use crate::output::Output;

/// What was wrong with a sealed volume.
#[derive(Default)]
struct Contents {
    /// Erase block, unit, and whether it was restored.
    units: Vec<(u64, u32, bool)>,
    /// Files and directories that can't be read.
    files: Vec<String>,
    /// The store did not confirm the medium, and does now.
    adopted: bool,
    /// It did not confirm the header, and does now.
    header: bool,
    /// Power losses that the volume survives, if they are more than before.
    power_losses: Option<u64>,
}

pub fn repair(args: &RepairArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.target.path;
    let (damage, sealed) = header(path, output)?;
    let contents = match args.target.store.as_deref() {
        Some(_) if !sealed => return Err(Failure::from(FlashOpenError::NotSealed).at(path)),
        Some(store) => contents(args, store, output).map_err(|failure| failure.at(path))?,
        None => Contents::default(),
    };
    let lost = contents.units.iter().filter(|(_, _, restored)| !restored).count() as u64;
    let restored = contents.units.len() as u64 - lost;
    let mut said = Vec::new();
    if !damage.is_empty() {
        said.push("the header is whole again".to_owned());
    }
    if restored > 0 {
        said.push(format!("{} restored", counted(restored, "unit", "units")));
    }
    if contents.adopted {
        said.push("what it holds is anchored anew".to_owned());
    }
    if contents.header {
        said.push("its header is anchored anew".to_owned());
    }
    if let Some(losses) = contents.power_losses {
        said.push(format!("a power loss costs fewer serials: it survives {losses} of them"));
    }
    if said.is_empty() && lost == 0 {
        said.push("nothing needs repair".to_owned());
    }
    let units = contents.units.iter().map(|(block, unit, restored)| {
        json!({ "block": block, "unit": unit, "state": if *restored { "restored" } else { "lost" } })
    });
    let report = json!({
        "repaired": !damage.is_empty()
            || restored > 0
            || contents.adopted
            || contents.header
            || contents.power_losses.is_some(),
        "damage": damage,
        "units": units.collect::<Vec<_>>(),
        "files": contents.files,
        "anchored_anew": contents.adopted,
        "header_anchored_anew": contents.header,
        "power_losses_left": contents.power_losses,
    });
    let shown = path.display();
    if !said.is_empty() || output.is_json() {
        output.done(&report, &format!("{shown}: {}", said.join("; ")))?;
    }
    if lost == 0 && contents.files.is_empty() {
        return Ok(());
    }
    let what = match contents.files.len() as u64 {
        0 => "no file is in them".to_owned(),
        files => format!("{} can't be read", counted(files, "file or directory", "files or directories")),
    };
    Err(Failure::new(
        Code::Device,
        format!("{} can't be restored, and {what}", counted(lost, "unit", "units")),
    )
    .at(path)
    .hint("copy what can be read; a file that is removed or replaced needs its old contents no more"))
}

/// Mends the header. What was wrong with it, and whether the volume is sealed.
fn header(path: &Path, output: &Output) -> Result<(Vec<String>, bool), Failure> {
    let mut locked = LockedHeader::change(path)?;
    let sealed = store::is_sealed(&locked.volume).map_err(|failure| failure.at(path))?;
    let damage: Vec<String> =
        locked.volume.copy_states().iter().filter_map(|state| info::damage(*state)).collect();
    if locked.volume.copy_states() != [CopyState::Current; 2] {
        let shown = path.display();
        output.confirm(&format!("the header of {shown} is rewritten ({})", damage.join("; ")))?;
        locked.volume.repair().map_err(|error| Failure::from(error).at(path))?;
    }
    Ok((damage, sealed))
}

/// Mends what a sealed volume holds.
fn contents(args: &RepairArgs, store: &Path, output: &Output) -> Result<Contents, Failure> {
    let path = &args.target.path;
    let device = Arc::new(open_file(path, Access::ReadWriteExclusive, COPY_FIRST)?);
    let volume = || open(Arc::clone(&device));
    let mut file = TrustedFile::open(store, LockMode::Exclusive)
        .map_err(|error| Failure::from(FlashOpenError::Store(error)).at(store))?;
    let (_, key) = unlock(&volume()?, path, None, &args.secret, output)?;
    let examined = examine_sealed(volume, &key, &file)?;
    let mut contents = Contents {
        units: examined.units.iter().map(|unit| (unit.block, unit.unit, unit.bit.is_some())).collect(),
        files: Vec::new(),
        ..Contents::default()
    };
    if let Some(error) = examined.header {
        let shown = path.display();
        output.confirm(&format!(
            "{shown}: {error}. The header that is there is anchored: passphrases that were removed may open the volume again"
        ))?;
        adopt_header(&volume()?, &mut file)?;
        contents.header = true;
    } else {
        // A change of the header that was cut short is over.
        confirm_header(&volume()?, &mut file)?;
    }
    if examined.units.is_empty() && examined.refused.is_none() {
        if wants_smaller_reserve(&file)? {
            contents.power_losses = open_sealed(volume()?, &key, file)?.power_losses_left();
        }
        return Ok(contents);
    }
    contents.files = match open_flash_tree(examined.plain, atrest_inside::Access::ReadOnly) {
        Ok(tree) => {
            let files = unreadable(&*tree).map_err(|error| Failure::new(Code::Device, error))?;
            files.into_iter().map(|(path, _)| path.to_string()).collect()
        }
        Err(TreeError::UnknownFilesystem) => Vec::new(),
        Err(_) => vec!["/".to_owned()],
    };
    for (block, unit, restorable) in &contents.units {
        let what = if *restorable { "has one wrong bit" } else { "can't be restored" };
        output.note(format_args!("unit {unit} of erase block {block} {what}"));
    }
    for file in &contents.files {
        output.note(format_args!("{file} can't be read"));
    }
    let restorable = examined.units.iter().filter(|unit| unit.bit.is_some()).count() as u64;
    let shown = path.display();
    if restorable > 0 {
        let units = counted(restorable, "unit", "units");
        output.confirm(&format!(
            "{units} of {shown} with one wrong bit each: the bits are inverted on the medium"
        ))?;
        put_right(&device, &examined.units)?;
    }
    let confirmed = || open_sealed_to_read(volume()?, &key, &file).map(drop);
    if examined.refused.is_some() && confirmed().is_err() {
        output.confirm(&format!(
            "the trusted store does not confirm {shown}. What it holds is anchored as it is, and may be older than what was stored last"
        ))?;
        drop(adopt_sealed(volume()?, &key, file)?);
        contents.adopted = true;
    } else if wants_smaller_reserve(&file)? {
        contents.power_losses = open_sealed(volume()?, &key, file)?.power_losses_left();
    }
    Ok(contents)
}
