//! UUID and name of a partition: what the kernel says of it, or else what its disk's table says.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use atrest_codec::{Be, Le, Record, Rows, decode};

/// What a partition is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// In a GPT its own, in an MBR the disk's signature and the number.
    pub uuid: String,
    /// Its name, in a GPT.
    pub name: String,
}

/// Most entries of a GPT that are looked at; there are 128 of them as a rule.
const MOST_ENTRIES: u64 = 4096;

/// Looks at `/sys/class/block/NAME`; `None` if it is no partition.
pub fn partition(sys: &Path) -> Option<Partition> {
    let number: u64 = std::fs::read_to_string(sys.join("partition")).ok()?.trim().parse().ok()?;
    let event = std::fs::read_to_string(sys.join("uevent")).ok()?;
    let value = |name: &str| {
        let mut lines = event.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('=').map(String::from))
    };
    if let Some(uuid) = value("PARTUUID") {
        // intended: a partition need not have a name.
        return Some(Partition { uuid, name: value("PARTNAME").unwrap_or_default() });
    }
    // Kernels before 6.9 don't say it. The disk's directory is the one above the partition's.
    let sys = sys.canonicalize().ok()?;
    let disk = sys.parent()?;
    let name = disk.file_name()?.to_str()?.replace('!', "/");
    let block = std::fs::read_to_string(disk.join("queue/logical_block_size")).ok()?.trim().parse().ok()?;
    read_table(&File::open(Path::new("/dev").join(name)).ok()?, block, number)
}

/// Partition `number`, counted from 1, of a disk with logical blocks of `block` bytes.
pub fn read_table(disk: &File, block: u64, number: u64) -> Option<Partition> {
    if !matches!(block, 512..=65536) {
        return None;
    }
    let mut header = [0; 92];
    disk.read_exact_at(&mut header, block).ok()?;
    if header.starts_with(b"EFI PART") {
        return gpt(disk, Record::new(&header), block, number);
    }
    let mut sector = [0; 512];
    disk.read_exact_at(&mut sector, 0).ok()?;
    let sector = Record::new(&sector);
    if sector.be16::<510>() != 0x55aa {
        return None;
    }
    let signature = sector.le32::<440>();
    Some(Partition { uuid: format!("{signature:08x}-{number:02x}"), name: String::new() })
}

/// An entry: type, GUID, sectors and attributes, name. The first three fields of a GUID are stored with the lowest byte
/// first.
type Entry = ([u8; 16], (Le<u32>, Le<u16>, Le<u16>, Be<u16>, Be<u16>, Be<u32>), [u8; 24], Rows<Le<u16>, 36>);

fn gpt(disk: &File, header: Record<'_, 92>, block: u64, number: u64) -> Option<Partition> {
    let (start, count, size) = (header.le64::<72>(), header.le32::<80>(), header.le32::<84>());
    if !(128..=4096).contains(&size) || number == 0 || number > u64::from(count).min(MOST_ENTRIES) {
        return None;
    }
    let at = start.checked_mul(block)?.checked_add(u64::from(size).checked_mul(number - 1)?)?;
    let mut entry = [0; 128];
    disk.read_exact_at(&mut entry, at).ok()?;
    let (_, (Le(a), Le(b), Le(c), Be(d), Be(e), Be(f)), _, Rows(units)): Entry = decode(&entry);
    let uuid = format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:04x}{f:08x}");
    let name: Vec<u16> = units.into_iter().map(|Le(unit)| unit).take_while(|unit| *unit != 0).collect();
    Some(Partition { uuid, name: String::from_utf16_lossy(&name) })
}
