//! Mappings of the kernel's dm-integrity: made, resized and removed.

use std::path::Path;

use atrest_attach::dm::integrity_table::{IntegrityLine, IntegrityTable, with_option};
use atrest_attach::dm::stacked::{self, Kind, NewMapping};
use atrest_attach::dm::{self, DmError};
use atrest_device::BlockDevice;
use atrest_engine::integrity::{self, Layout};
use atrest_engine::{Access, FileDevice};
use atrest_secret::SecretBytes;
use atrest_volume::integrity::HashSpec;

use super::args::Args;
use super::{failed, journal_cipher, key};
use crate::failure::Failure;
use crate::meter::Meter;
use crate::output::Output;
use crate::stacked::{find, name_of};

/// Bytes of zeros that are written at a time.
const STEP: usize = 1 << 20;

/// Opens a device as `/dev/mapper/NAME`.
pub fn open(path: &Path, name: &Path, args: &Args, output: &Output) -> Result<u8, Failure> {
    let name = name_of(name);
    dm::check_free(name)?;
    let access = if args.readonly { Access::ReadOnlyShared } else { Access::ReadWriteExclusive };
    let opened = |path: &Path| FileDevice::open(path, access).map_err(|error| Failure::from(error).at(path));
    let media = opened(path)?;
    let superblock = integrity::read_superblock(&media, 0).map_err(failed(path))?;
    let hash: HashSpec = args.integrity.parse().map_err(Failure::parameters)?;
    let hash_key = key(args.integrity_key_file.as_deref(), args.integrity_key_size, output)?;
    let mac: Option<HashSpec> =
        args.journal_integrity.as_ref().map(|name| name.parse()).transpose().map_err(Failure::parameters)?;
    let (hash_name, mac_name) = (hash.kernel_name(), mac.map(HashSpec::kernel_name));
    let mac_key = key(args.journal_integrity_key_file.as_deref(), args.journal_integrity_key_size, output)?;
    let cipher = journal_cipher(args, output)?;
    let bitmap = args.integrity_bitmap_mode;
    let table = IntegrityTable {
        tag_len: superblock.tag_len,
        data_unit: superblock.data_unit,
        mode: match (bitmap, args.kernel.integrity_recovery_mode, args.integrity_no_journal) {
            (true, ..) => 'B',
            (_, true, _) => 'R',
            (.., true) => 'D',
            _ => 'J',
        },
        hash: (&hash_name, hash_key.as_deref()),
        journal_mac: mac_name.as_deref().map(|name| (name, mac_key.as_deref())),
        journal_cipher: cipher.as_ref().map(|(cipher, key)| (cipher.kernel_name(), Some(&key[..]))),
        watermark: args.kernel.journal_watermark.filter(|_| !bitmap),
        commit_time: args.kernel.journal_commit_time.filter(|_| !bitmap),
        buffer_sectors: args.kernel.buffer_sectors,
        sectors_per_bit: args.bitmap_sectors_per_bit.filter(|_| bitmap),
        flush_time: args.bitmap_flush_time.filter(|_| bitmap),
        recalculate: args.integrity_recalculate,
        reset: args.integrity_recalculate_reset,
        legacy_recalculate: args.integrity_legacy_recalculate,
        discards: args.kernel.allow_discards,
    };
    let mut devices = vec![media];
    if let Some(data) = &args.data_device {
        devices.insert(0, opened(data)?);
    }
    let new = NewMapping {
        name,
        kind: Kind::Integrity,
        uuid: None,
        sectors: superblock.provided / 512,
        read_only: args.readonly,
        devices,
    };
    stacked::open(new, |numbers| match numbers {
        [data, tags] => table.line(data, Some(tags)),
        // cannot be none: there is one device at least.
        numbers => table.line(numbers.first().map_or("", String::as_str), None),
    })
    .map_err(|error| Failure::from(error).at(path))?;
    Ok(0)
}

/// Shows more or less of a mapping's device. The tags of what is new are computed by the kernel, or written with zeros.
pub fn resize(name: &Path, args: &Args, output: &Output) -> Result<(), Failure> {
    let found = find(Kind::Integrity, name)?.ok_or_else(|| {
        Failure::parameters(format!("{} is no mapping of dm-integrity", name.display()))
            .hint("what a process of ours serves is not resized: close it first")
    })?;
    let line = IntegrityLine::parse(&found.table).ok_or(DmError::Answer)?;
    let size_of = |numbers: &str| {
        let (path, file) = stacked::device(numbers);
        stacked::device_size(&path, file.is_some()).map(|size| (path, size))
    };
    let (device, size) = size_of(&line.device)?;
    let (tag_device, tag_size, data_size) = match &line.tag_device {
        None => (device, size, None),
        Some(tags) => {
            let (path, tag_size) = size_of(tags)?;
            (path, tag_size, Some(size))
        }
    };
    let media = FileDevice::open(&tag_device, Access::ReadOnly)
        .map_err(|error| Failure::from(error).at(&tag_device))?;
    let superblock = integrity::read_superblock(&media, 0).map_err(failed(&tag_device))?;
    let unit = u64::from(superblock.data_unit);
    // intended: no room is told as a size that does not fit.
    let room = Layout::room(&superblock, tag_size, data_size).unwrap_or(0);
    let asked = args.device_size.or(args.size.and_then(|sectors| sectors.checked_mul(512)));
    let wanted = asked.filter(|size| *size > 0).unwrap_or(room);
    if wanted == 0 || !wanted.is_multiple_of(unit) || wanted > room {
        return Err(DmError::Size { wanted, unit, room }.into());
    }
    let before = found.sectors * 512;
    let table = match wanted > before && !args.wipe {
        true => with_option(&found.table, "recalculate").ok_or(DmError::Answer)?,
        false => SecretBytes::copy_from(&found.table),
    };
    stacked::replace(&found, Kind::Integrity, wanted / 512, &table)?;
    if args.wipe && wanted > before {
        wipe(&Path::new("/dev/mapper").join(&found.name), before, wanted, output)?;
    }
    Ok(())
}

/// Writes zeros from one byte to another.
fn wipe(path: &Path, from: u64, to: u64, output: &Output) -> Result<(), Failure> {
    output.note("Wiping device to initialize integrity checksum.");
    let located = |error| Failure::from(error).at(path);
    let device = FileDevice::open(path, Access::ReadWrite).map_err(located)?;
    let mut meter = Meter::new(path, to - from, output);
    let zeros = vec![0; STEP];
    let mut at = from;
    while at < to {
        let len = (to - at).min(STEP as u64) as usize;
        device.write_at(at, &zeros[..len]).map_err(located)?;
        at += len as u64;
        meter.set(at - from);
    }
    meter.finish();
    device.flush().map_err(located)
}
