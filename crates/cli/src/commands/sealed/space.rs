//! `atrest snapshot`, `gc`, and the size and the objects of a sealed volume.

use std::path::Path;

use atrest_device::BlockDevice as _;
use atrest_open::sealed::{Place, SealedDevice};
use atrest_sealedvolume::format::{BLOCK_LEN, Kind};
use atrest_sealedvolume::store::StoreError;
use atrest_sealedvolume::volume::OpenError;
use serde::Serialize;
use serde_json::json;

use super::{Opened, clones};
use crate::amount::Bytes;
use crate::args::open::UnlockArgs;
use crate::args::sealed::{GcArgs, SnapshotCommand};
use crate::commands::text::counted;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress;

/// Blocks that a compaction moves at once.
const AT_ONCE: u64 = 1 << 16;

pub fn snapshot(command: &SnapshotCommand, output: &Output) -> Result<(), Failure> {
    match command {
        SnapshotCommand::Add(args) => {
            let opened = Opened::unlock(&args.path, &args.unlock, true, output)?;
            let failed =
                |error: atrest_sealedvolume::volume::VolumeError| Failure::from(error).at(&args.path);
            if opened.volume.snapshots().map_err(failed)?.iter().any(|one| one.name == args.name) {
                return Err(Failure::parameters(format!("there is a snapshot \"{}\" already", args.name))
                    .at(&args.path)
                    .hint("choose another name, or remove that one"));
            }
            let id = opened.volume.add_snapshot(&args.name).map_err(failed)?;
            opened.close(&args.path)?;
            output.done(
                &json!({ "id": id, "name": args.name }),
                &format!("{}: snapshot \"{}\" is kept", args.path.display(), args.name),
            )
        }
        SnapshotCommand::Remove(args) => {
            let opened = Opened::unlock(&args.path, &args.unlock, true, output)?;
            let failed =
                |error: atrest_sealedvolume::volume::VolumeError| Failure::from(error).at(&args.path);
            let all = opened.volume.snapshots().map_err(failed)?;
            let found = all.iter().find(|one| one.name == args.name);
            let id = found
                .map(|one| one.id)
                .ok_or_else(|| failed(atrest_sealedvolume::volume::VolumeError::NoSuchSnapshot))?;
            opened.volume.remove_snapshot(id).map_err(failed)?;
            opened.close(&args.path)?;
            output.done(
                &json!({ "id": id, "name": args.name }),
                &format!(
                    "{}: snapshot \"{}\" is given up; `atrest gc` frees its room",
                    args.path.display(),
                    args.name
                ),
            )
        }
        SnapshotCommand::Release(args) => {
            let clone = clones::identifier(&args.clone_id)?;
            let opened = Opened::unlock(&args.path, &args.unlock, true, output)?;
            output.confirm(&format!(
                "if the clone {} was neither flattened nor deleted, it is lost once the snapshot is removed",
                args.clone_id
            ))?;
            let released =
                opened.volume.release(clone).map_err(|error| Failure::from(error).at(&args.path))?;
            opened.close(&args.path)?;
            if released == 0 {
                return Err(Failure::parameters("no snapshot is kept for that clone")
                    .at(&args.path)
                    .hint("`atrest snapshot list` shows the clones that there are"));
            }
            output.done(
                &json!({ "clone": args.clone_id, "snapshots": released }),
                &format!("{}: nothing is kept for the clone {} any more", args.path.display(), args.clone_id),
            )
        }
        SnapshotCommand::List(args) => {
            let opened = Opened::unlock(&args.path, &args.unlock, false, output)?;
            let all = opened.volume.snapshots().map_err(|error| Failure::from(error).at(&args.path))?;
            let (mut rows, mut text) = (Vec::new(), String::new());
            for one in &all {
                let clones =
                    opened.volume.clones(one.id).map_err(|error| Failure::from(error).at(&args.path))?;
                let clones: Vec<String> = clones.iter().map(|clone| clones::shown(*clone)).collect();
                text += &format!("{:>12}  {}\n", one.id, one.name);
                text.extend(clones.iter().map(|clone| format!("{:>12}    kept for the clone {clone}\n", "")));
                rows.push(json!({ "id": one.id, "name": one.name, "clones": clones }));
            }
            if all.is_empty() {
                text.push_str("no snapshots\n");
            }
            output.report(&rows, &text)
        }
    }
}

/// Moves live blocks out of objects that are mostly dead, and deletes what nothing needs.
pub fn gc(args: &GcArgs, output: &Output) -> Result<(), Failure> {
    let path = &args.path;
    let failed = |error: atrest_sealedvolume::volume::VolumeError| Failure::from(error).at(path);
    let opened = Opened::unlock(path, &args.unlock, !args.dry_run, output)?;
    let volume = &opened.volume;
    let before = volume.usage().map_err(failed)?;
    // Those who read would miss what is deleted.
    let _alone = match args.dry_run {
        true => None,
        false => {
            let store = Place::parse(path).and_then(|place| place.store());
            let held = store.and_then(|store| Ok(store.hold_to_collect()?));
            held.map_err(|error| Failure::from(error).at(path))?
        }
    };
    if args.dry_run {
        let dead = before.stored - before.live;
        let share = dead * 100 / before.stored.max(1);
        return output.report(
            &json!({ "live_bytes": before.live * BLOCK_LEN as u64, "dead_bytes": dead * BLOCK_LEN as u64, "dead_percent": share }),
            &format!(
                "{} live, {} in the same objects are dead ({share} %)\n",
                Bytes(before.live * BLOCK_LEN as u64),
                Bytes(dead * BLOCK_LEN as u64)
            ),
        );
    }
    let spinner = progress::spinner("moving what is in use, and deleting what is not", output);
    let (mut moved, mut deleted) = (0, 0);
    let done = (|| -> Result<(), atrest_sealedvolume::volume::VolumeError> {
        loop {
            let some = volume.compact(args.most_live, AT_ONCE)?;
            moved += some;
            if some < AT_ONCE {
                break;
            }
        }
        // What the older of two checkpoints reaches stays until there are two newer ones.
        for _ in 0..3 {
            volume.touch()?;
            let garbage = volume.garbage()?;
            deleted += garbage.names().len();
            volume.collect(garbage)?;
        }
        volume.forget_keys()?;
        Ok(())
    })();
    spinner.finish_and_clear();
    done.map_err(failed)?;
    opened.close(path)?;
    output.done(
        &json!({ "moved_blocks": moved, "deleted_objects": deleted }),
        &format!(
            "{}: {} moved, {} deleted",
            path.display(),
            counted(moved, "block is", "blocks are"),
            counted(deleted as u64, "object is", "objects are")
        ),
    )
}

/// Gives a volume that is not open another size.
pub fn resize(path: &Path, size: Option<u64>, unlock: &UnlockArgs, output: &Output) -> Result<(), Failure> {
    let size = size.ok_or_else(|| {
        Failure::parameters("a sealed volume has room for whatever is asked: the size has to be said")
            .hint("--size SIZE")
    })?;
    if size == 0 || !size.is_multiple_of(BLOCK_LEN as u64) {
        return Err(Failure::from(OpenError::Size).at(path));
    }
    let opened = Opened::unlock(path, unlock, true, output)?;
    let before = opened.volume.size();
    if size < before {
        output.confirm(&format!(
            "{} has {before} bytes; what lies behind the first {size} is given up",
            path.display()
        ))?;
    }
    opened.volume.resize(size / BLOCK_LEN as u64).map_err(|error| Failure::from(error).at(path))?;
    opened.close(path)?;
    output.done(&json!({ "size": size }), &format!("{} has {size} bytes", path.display()))
}

/// What a store holds, as its owner sees it.
#[derive(Debug, Serialize)]
pub struct Stored {
    headers: Count,
    log_objects: Count,
    map_objects: Count,
    checkpoints: Count,
}

#[derive(Debug, Default, Serialize)]
struct Count {
    objects: u64,
    bytes: u64,
}

/// Counts the objects of a store, without its key.
pub fn stored(device: &SealedDevice) -> Result<Stored, StoreError> {
    let count = |kind| {
        let mut count = Count::default();
        let mut last: Option<String> = None;
        loop {
            let some = device.store().list_lens_after(kind, last.as_deref())?;
            let newest = some.last().map(|(name, _)| name.clone());
            let Some(newest) = newest.filter(|newest| last.as_ref().is_none_or(|last| last < newest)) else {
                return Ok(count);
            };
            for (_, len) in some {
                count.objects += 1;
                count.bytes += len;
            }
            last = Some(newest);
        }
    };
    Ok(Stored {
        headers: count(Kind::Header)?,
        log_objects: count(Kind::Log)?,
        map_objects: count(Kind::Map)?,
        checkpoints: count(Kind::Checkpoint)?,
    })
}

impl Stored {
    /// A line for each kind.
    pub fn text(&self) -> String {
        let line = |name: &str, count: &Count| {
            format!("{name:>14}  {}, {}\n", counted(count.objects, "object", "objects"), Bytes(count.bytes))
        };
        [
            line("headers", &self.headers),
            line("log", &self.log_objects),
            line("map", &self.map_objects),
            line("checkpoints", &self.checkpoints),
        ]
        .concat()
    }
}
