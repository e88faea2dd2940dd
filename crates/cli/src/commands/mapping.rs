//! `open --dm`, and mappings of the kernel for `close` and `status`.

use std::path::Path;

use atrest_attach::dm::{self, DmError, Mapping, Options};
use atrest_volume::CryptFlags;
use serde_json::json;

use super::unlock::{Use, open_if};
use crate::args::open::OpenArgs;
use crate::failure::Failure;
use crate::output::{Output, path_text};

pub fn open(name: &str, path: &Path, args: &OpenArgs, output: &Output) -> Result<u8, Failure> {
    dm::check_free(name)?;
    let wanted = Use { write: args.unlock.writes_unless(args.read_only), keep_key: true, ..Use::default() };
    let (held, volume) = open_if(path, &args.unlock, wanted, output, || Ok(()))?;
    if volume.read_only() && !args.read_only {
        output.warn("the volume can only be read");
    }
    let kernel = args.kernel;
    let options = Options {
        read_only: args.read_only,
        flags: CryptFlags {
            allow_discards: args.allow_discards,
            same_cpu_crypt: kernel.same_cpu_crypt,
            submit_from_crypt_cpus: kernel.submit_from_crypt_cpus,
            no_read_workqueue: kernel.no_read_workqueue,
            no_write_workqueue: kernel.no_write_workqueue,
            no_journal: kernel.no_journal,
        },
        disable_keyring: kernel.disable_keyring,
    };
    let (media, header) = held.into_devices();
    let media = media.into_file().map_err(|error| {
        let hint = "have the kernel connect first, and name its device: nbd-client -unix SOCKET /dev/nbd0";
        Failure::from(error).at(path).hint(hint)
    })?;
    let mapped = dm::open(name, &volume, media, options).map_err(|error| Failure::from(error).at(path))?;
    drop(header);
    let report = json!({ "event": "ready", "name": name, "path": path_text(&mapped) });
    output.done(&report, &format!("{} is open", mapped.display()))?;
    Ok(0)
}

/// Removes a mapping of that name; where there can be none, `otherwise` is why nothing was closed.
pub fn close(name: &Path, otherwise: Failure, output: &Output) -> Result<(), Failure> {
    let Some(name) = name.to_str().filter(|name| dm::check_name(name).is_ok()) else { return Err(otherwise) };
    match dm::close(name) {
        Ok(()) => output.done(&json!({ "closed": name }), &format!("{name} is closed")),
        Err(DmError::NotOpen { .. } | DmError::Control(_)) => Err(otherwise),
        Err(error) => Err(error.into()),
    }
}

/// All mappings; none for whoever may not see them.
pub fn list() -> Result<Vec<Mapping>, Failure> {
    match dm::list() {
        Err(DmError::Control(_)) => Ok(Vec::new()),
        listed => Ok(listed?),
    }
}

/// The mapping of that name, if there is one.
pub fn find(name: &Path) -> Result<Vec<Mapping>, Failure> {
    let Some(name) = name.to_str().filter(|name| dm::check_name(name).is_ok()) else { return Ok(Vec::new()) };
    match dm::find(name) {
        Err(DmError::Control(_)) => Ok(Vec::new()),
        found => Ok(found?.into_iter().collect()),
    }
}

pub fn line(mapping: &Mapping) -> String {
    let place = mapping.file.as_ref().unwrap_or(&mapping.device);
    let mode = if mapping.read_only { "read-only" } else { "read-write" };
    let used = if mapping.in_use { "in use" } else { "not in use" };
    let tags = mapping.tags.as_ref();
    let tags =
        // intended: without integrity there are no tags.
        tags.map(|tags| format!(", {}-byte tags in /dev/mapper/{}", tags.len, tags.name)).unwrap_or_default();
    format!(
        "{}: {} at /dev/mapper/{}, {mode}, {}, {}, {}-bit key{tags}, by the kernel, {used}\n",
        mapping.name,
        place.display(),
        mapping.name,
        mapping.kind,
        mapping.cipher,
        mapping.key_bits
    )
}
