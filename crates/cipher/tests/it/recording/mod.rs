//! Writes down what these tests check, with the answers of the reference or of a publication, for a CPU on which they
//! can't run themselves. `tests/emulated-cpu` asks for it with ATREST_RECORD, the file to append to, and plays it back.
//!
//! A case is: 0 for a mapper or 1 for `Xts`; the specification and the key, each after its length in two bytes; then
//! little-endian the data unit (4 bytes), the IV offset (8), 1 if IVs count data units, 1 if equal halves are allowed, the
//! index of the first unit (8) or the tweak (16), 1 for encryption, the length (4), what goes in, what comes out.

use std::io::Write;
use std::sync::Mutex;

use atrest_cipher::MapperOptions;

/// Where a run starts.
pub enum Start {
    /// At the data unit of that index, for a mapper.
    Unit(u64),
    /// Under that tweak, for `Xts`.
    Tweak([u8; 16]),
}

/// Appends a case, if that is asked for.
pub fn record(
    spec: &str,
    key: &[u8],
    options: &MapperOptions,
    start: Start,
    encrypt: bool,
    (input, output): (&[u8], &[u8]),
) {
    static FILE: Mutex<()> = Mutex::new(());
    let Some(path) = std::env::var_os("ATREST_RECORD") else { return };
    assert_eq!(input.len(), output.len());
    let mut case = vec![matches!(start, Start::Tweak(_)) as u8];
    for bytes in [spec.as_bytes(), key] {
        case.extend_from_slice(&u16::try_from(bytes.len()).expect("a short text or key").to_le_bytes());
        case.extend_from_slice(bytes);
    }
    case.extend_from_slice(&u32::try_from(options.data_unit).expect("a small unit").to_le_bytes());
    case.extend_from_slice(&options.iv_offset.to_le_bytes());
    case.push(options.iv_large as u8);
    case.push(options.allow_equal_xts_halves as u8);
    match start {
        Start::Unit(first) => case.extend_from_slice(&first.to_le_bytes()),
        Start::Tweak(tweak) => case.extend_from_slice(&tweak),
    }
    case.push(encrypt as u8);
    case.extend_from_slice(&u32::try_from(input.len()).expect("a short run").to_le_bytes());
    case.extend_from_slice(input);
    case.extend_from_slice(output);
    let _alone = FILE.lock().expect("no test panics while it writes");
    let mut file =
        std::fs::File::options().create(true).append(true).open(path).expect("a file for the record");
    file.write_all(&case).expect("room for the record");
}
