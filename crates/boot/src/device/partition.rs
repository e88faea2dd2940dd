//! UUID and name of a partition: what the kernel says of it, or else what its disk's table says.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

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
        return gpt(disk, &header, block, number);
    }
    let mut sector = [0; 512];
    disk.read_exact_at(&mut sector, 0).ok()?;
    if sector.get(510..512)? != [0x55, 0xaa] {
        return None;
    }
    let signature = u32::from_le_bytes(sector.get(440..444)?.try_into().ok()?);
    Some(Partition { uuid: format!("{signature:08x}-{number:02x}"), name: String::new() })
}

fn gpt(disk: &File, header: &[u8; 92], block: u64, number: u64) -> Option<Partition> {
    let start = u64::from_le_bytes(header.get(72..80)?.try_into().ok()?);
    let count = u32::from_le_bytes(header.get(80..84)?.try_into().ok()?);
    let size = u32::from_le_bytes(header.get(84..88)?.try_into().ok()?);
    if !(128..=4096).contains(&size) || number == 0 || number > u64::from(count).min(MOST_ENTRIES) {
        return None;
    }
    let at = start.checked_mul(block)?.checked_add(u64::from(size).checked_mul(number - 1)?)?;
    let mut entry = [0; 128];
    disk.read_exact_at(&mut entry, at).ok()?;
    // The first three fields of a GUID are stored with the lowest byte first.
    let order = [19, 18, 17, 16, 21, 20, 23, 22, 24, 25, 26, 27, 28, 29, 30, 31];
    let mut uuid = String::with_capacity(36);
    for (i, at) in order.into_iter().enumerate() {
        if [4, 6, 8, 10].contains(&i) {
            uuid.push('-');
        }
        uuid.push_str(&format!("{:02x}", entry.get(at)?));
    }
    let units = entry.get(56..)?.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    let name: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    Some(Partition { uuid, name: String::from_utf16_lossy(&name) })
}
