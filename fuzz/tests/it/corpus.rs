//! The inputs that campaigns have found worth keeping: one archive for each target, made by `fuzz/corpus-pack`.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use lzma_rust2::XzReader;
use tar::Archive;

/// Longest input that is kept; `fuzz/run` makes none that are longer.
const LONGEST: u64 = 256 << 10;

/// The inputs of a target, ordered by name.
pub fn corpus(target: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("packed").join(format!("{target}.tar.xz"));
    let file = File::open(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; run fuzz/corpus-pack {target}", path.display()));
    let mut archive = Archive::new(XzReader::new(BufReader::new(file), false));
    let mut inputs = Vec::new();
    for entry in archive.entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        if entry.header().entry_type().is_dir() {
            continue;
        }
        assert!(entry.header().entry_type().is_file(), "{} holds more than files", path.display());
        assert!(entry.size() <= LONGEST, "{} holds {} bytes", path.display(), entry.size());
        let name = entry.path().expect("a name").into_owned();
        let mut input = Vec::new();
        entry.read_to_end(&mut input).expect("readable");
        inputs.push((name, input));
    }
    inputs.sort();
    inputs.into_iter().map(|(_, input)| input).collect()
}

#[test]
fn every_archive_is_of_a_target() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("packed");
    for entry in directory.read_dir().expect("a directory") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name in UTF-8");
        let target = name.strip_suffix(".tar.xz").unwrap_or_else(|| panic!("{name} is no archive"));
        assert!(
            atrest_fuzz::TARGETS.iter().any(|(known, _)| *known == target),
            "no target is called {target}"
        );
    }
}
