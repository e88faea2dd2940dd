//! Our mappers against the kernel's dm-crypt, byte for byte, over the tables of `tests/kernel/dmcrypt-tables`.

use std::fs;

use atrest_cipher::{CipherSpec, DataUnitIndex, Mapper, MapperOptions};
use atrest_testkit::Scratch;
use atrest_testkit::kernel::Kernel;
use atrest_testkit::oracle::workspace;

/// The kernel of Debian leaves HCTR2 out, so that its table cannot be asked. We must have it all the same.
const NOT_IN_THE_KERNEL: &[&str] = &["aes-hctr2-plain64"];

const SECTORS: usize = 128;

struct Table {
    name: String,
    cipher: String,
    key: Vec<u8>,
    iv_offset: u64,
    options: String,
}

impl Table {
    fn parse(line: &str) -> Self {
        let mut fields = line.split_whitespace();
        let mut field = || fields.next().unwrap_or_else(|| panic!("a table with too few fields: {line}"));
        let (name, cipher) = (field().to_string(), field().to_string());
        let key_len: usize = field().parse().expect("key bytes");
        let iv_offset = field().parse().expect("IV offset");
        let key = (0..key_len).map(|i| ((1 + 7 * i + 3 * (i / 256)) % 256) as u8).collect();
        Self { name, cipher, key, iv_offset, options: fields.collect::<Vec<_>>().join(" ") }
    }

    fn for_the_kernel(&self) -> String {
        let key: String = self.key.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{} {} {key} {} {}\n", self.name, self.cipher, self.iv_offset, self.options)
    }

    fn mapper(&self) -> Result<Mapper, String> {
        let spec: CipherSpec = self.cipher.parse().map_err(|error| format!("{error:?}"))?;
        let mut options =
            MapperOptions { iv_offset: self.iv_offset, single_snapshot: true, ..MapperOptions::default() };
        for option in self.options.split(' ') {
            if let Some(size) = option.strip_prefix("sector_size:") {
                options.data_unit = size.parse().expect("a sector size");
            }
            options.iv_large |= option == "iv_large_sectors";
        }
        if options.iv_large {
            // A table counts its offset in 512-byte sectors, a mapper in what its IVs count.
            options.iv_offset /= options.data_unit as u64 / 512;
        }
        Mapper::new(&spec, &self.key, &options).map_err(|error| format!("{error:?}"))
    }
}

fn tables() -> Vec<Table> {
    let text = fs::read_to_string(workspace().join("tests/kernel/dmcrypt-tables")).expect("read the tables");
    text.lines().filter(|line| !line.starts_with('#')).map(Table::parse).collect()
}

/// Sectors that all differ, so that a wrong sector number shows.
fn plaintext() -> Vec<u8> {
    let sector = |number: usize| {
        let mut sector = format!("sector {number:09}\n").repeat(28).into_bytes();
        sector.extend(0..(512 - sector.len()) as u8);
        sector
    };
    (0..SECTORS).flat_map(sector).collect()
}

#[test]
fn ciphertext_equals_the_kernels_for_every_table() {
    let share = Scratch::new();
    let plain = plaintext();
    fs::write(share.path("plain.bin"), &plain).expect("write the plaintext");
    fs::create_dir(share.path("ciphertext")).expect("make a directory");
    let tables = tables();
    assert_eq!(tables.len(), 65, "tables in tests/kernel/dmcrypt-tables");
    let asked: Vec<&Table> =
        tables.iter().filter(|table| !NOT_IN_THE_KERNEL.contains(&table.name.as_str())).collect();
    let lines: String = asked.iter().map(|table| table.for_the_kernel()).collect();
    fs::write(share.path("tables"), lines).expect("write the tables");
    Kernel::script("dmcrypt.sh").share(share.as_path()).ok("");

    let (mut agreed, mut wrong) = (0, Vec::new());
    for table in &asked {
        let kernels = fs::read(share.path("ciphertext").join(&table.name)).expect("the kernel's ciphertext");
        let mapper = match table.mapper() {
            Ok(mapper) => mapper,
            Err(error) => {
                wrong.push(format!("{}: refused: {error}", table.name));
                continue;
            }
        };
        let mut run = plain.clone();
        mapper.encrypt(DataUnitIndex(0), &mut run).expect("a run of whole data units");
        let encrypted = run == kernels;
        mapper.decrypt(DataUnitIndex(0), &mut run).expect("a run of whole data units");
        // A run that starts in the middle must continue the sequence of tweaks.
        let unit = mapper.data_unit();
        let from = SECTORS * 512 / unit / 2 + 1;
        let mut part = kernels[from * unit..].to_vec();
        mapper.decrypt(DataUnitIndex(from as u64), &mut part).expect("a run of whole data units");
        if encrypted && run == plain && part == plain[from * unit..] {
            agreed += 1;
        } else {
            wrong.push(format!("{}: encrypts differently ({})", table.name, mapper.backend_name()));
        }
    }
    println!("dm-crypt: {agreed} of {} tables agree byte for byte", tables.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(agreed + NOT_IN_THE_KERNEL.len(), tables.len());
}

#[test]
fn tables_that_the_kernel_cannot_be_asked_about_have_a_mapper() {
    let tables = tables();
    for name in NOT_IN_THE_KERNEL {
        let table =
            tables.iter().find(|table| table.name == *name).unwrap_or_else(|| panic!("no table {name}"));
        table.mapper().unwrap_or_else(|error| panic!("{name} is refused: {error}"));
    }
}
