//! Authenticated volumes through NBD, in dm-integrity's layout: against the same server with AES-XTS alone. Everything lies in files on tmpfs.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use atrest_cipher::{CipherSpec, Mapper, MapperOptions, Tagged, TaggedMapper, TaggedSpec};
use atrest_device::BlockDevice;
use atrest_engine::integrity::{Integrity, Mode, NewIntegrity, OpenOptions, create};
use atrest_engine::{Disk, DiskOptions, FileDevice};
use atrest_secret::Locked;

use crate::Plan;
use crate::faces::Ours;
use crate::measure::{Contender, medians};
use crate::report::{Report, verdict};
use crate::small::{Work, load};

const UNIT: usize = 4096;

/// Each with the words of a LUKS2 segment and the bytes of its key.
const CIPHERS: [(&str, &str, usize); 5] = [
    ("aegis128-random", "aead", 16),
    ("aes-gcm-random", "aead", 32),
    ("chacha20-random", "poly1305", 32),
    ("aes-xts-random", "hmac(sha256)", 96),
    ("aes-xts-plain64", "hmac(sha512)", 128),
];

const fn work(title: &'static str, rw: &'static str, block: &'static str, depth: u32) -> Work {
    Work { title, rw, block, depth, clients: 1, plain: None, luks: 0.0, identity: None, mapped: false }
}

/// With the ratio to reach by AEGIS-128 or GCM through the journal.
const WORKS: [(Work, Option<f64>); 4] = [
    (work("reads of 256 KiB in order, 8 at a time", "read", "256k", 8), Some(0.6)),
    (work("writes of 256 KiB in order, 8 at a time", "write", "256k", 8), Some(0.4)),
    (work("4 KiB reads, 16 at a time", "randread", "4k", 16), None),
    (work("4 KiB writes, 16 at a time", "randwrite", "4k", 16), None),
];

pub fn measure(plan: &Plan, dir: &Path, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let size = plan.size.min(256 << 20);
    let xts = Ours::start(Arc::new(by_xts(dir, size)?), dir.join("xts.sock"))?;
    for mode in [Mode::Journal, Mode::Direct] {
        let mut servers = Vec::new();
        for (number, (encryption, integrity, key_len)) in CIPHERS.iter().enumerate() {
            let file = dir.join(format!("tagged-{number}.img"));
            let disk = with_tags(&file, size, (encryption, integrity, *key_len), mode)?;
            servers.push(Ours::start(Arc::new(disk), dir.join(format!("tagged-{number}.sock")))?);
        }
        let mut rows = Vec::new();
        for (work, target) in &WORKS {
            let by = |socket: &Path| {
                let socket = socket.to_owned();
                move || load(work, &socket, size)
            };
            let mut contenders = vec![Contender::new("AES-XTS", by(&xts.socket))];
            for ((encryption, ..), server) in CIPHERS.iter().zip(&servers) {
                contenders.push(Contender::new(*encryption, by(&server.socket)));
            }
            let speeds = medians(&mut contenders, plan.rounds.min(5))?;
            let mut row = vec![work.title.to_owned(), format!("{:.0}", speeds[0])];
            for (number, speed) in speeds[1..].iter().enumerate() {
                let ratio = speed / speeds[0];
                // The goal is for the first two, through the journal.
                let goal = target.filter(|_| number < 2 && mode == Mode::Journal);
                row.push(match goal {
                    Some(goal) => format!("{speed:.0}: {ratio:.2} {}", verdict(ratio, goal)),
                    None => format!("{speed:.0}: {ratio:.2}"),
                });
            }
            rows.push(row);
        }
        let how = if mode == Mode::Journal { "through the journal" } else { "without a journal" };
        let names = CIPHERS.map(|(encryption, integrity, _)| format!("{encryption}, {integrity}"));
        let mut head = vec!["work", "AES-XTS alone"];
        head.extend(names.iter().map(String::as_str));
        report.table(
            &format!("NBD: authenticated volumes {how}, requests in a second, by fio"),
            "Data units of 4096 bytes in a file on tmpfs. Server and client share the cores. Behind each figure \
             is its ratio to AES-XTS alone.",
            &head,
            rows,
        );
        for server in servers {
            server.stop()?;
        }
    }
    xts.stop()
}

fn by_xts(dir: &Path, size: u64) -> Result<Disk, Box<dyn Error>> {
    let spec: CipherSpec = "aes-xts-plain64".parse()?;
    let options = MapperOptions { data_unit: UNIT, ..MapperOptions::default() };
    let mapper = Locked::new(Mapper::new(&spec, &key(64), &options)?);
    let file = Arc::new(FileDevice::create(dir.join("xts.img"), size)?);
    let disk = Disk::of_mapper(file, mapper, 0, size, DiskOptions::default())?;
    disk.write_zeroes(0, size)?;
    Ok(disk)
}

/// Laid out anew, with zeros everywhere.
fn with_tags(
    path: &Path,
    size: u64,
    (encryption, integrity, key_len): (&str, &str, usize),
    mode: Mode,
) -> Result<Disk, Box<dyn Error>> {
    let spec = TaggedSpec::new(encryption, integrity)?;
    let options = MapperOptions { data_unit: UNIT, ..MapperOptions::default() };
    let tagged = || -> Result<Box<dyn Tagged>, Box<dyn Error>> {
        Ok(Box::new(TaggedMapper::new(&spec, &key(key_len), None, &options)?))
    };
    // Room for the tags and the journal.
    let _ = std::fs::remove_file(path);
    let file: Arc<dyn BlockDevice> = Arc::new(FileDevice::create(path, size + size / 16 + (32 << 20))?);
    let mut new = NewIntegrity::default();
    (new.data_unit, new.tag_len) = (UNIT as u32, u16::try_from(spec.tag_len())?);
    create(Arc::clone(&file), 0, new)?;
    Integrity::wipe(Arc::clone(&file), 0, tagged()?, OpenOptions::default(), &mut |_, _| {})?;
    let mut how = OpenOptions::default();
    how.mode = mode;
    let opened = Integrity::open(Arc::clone(&file), 0, tagged()?, how)?;
    Ok(Disk::of_integrity(file, opened, DiskOptions::default())?)
}

/// Nothing secret.
fn key(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 37 + 11) as u8).collect()
}
