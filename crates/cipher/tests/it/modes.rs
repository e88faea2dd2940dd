//! What holds for every mode: a new one fails here until it has a reference, a row in the docs and a case of the fuzz target.

use std::path::Path;

use crate::random::Random;
use crate::reference::whole;
use atrest_cipher::{
    BackendChoice, CipherSpec, DataUnitIndex, Mapper, MapperOptions, VectorChoice, internals,
};

/// A specification in each mode, and the parts of its name as the reference takes them.
const IN_EACH_MODE: [(&str, (&str, &str, &str)); 11] = [
    ("aes-xts-plain64", ("aes", "xts", "plain64")),
    ("aes-cbc-plain64", ("aes", "cbc", "plain64")),
    ("capi:cts(cbc(aes))-plain64", ("aes", "cts", "plain64")),
    ("aes-lrw-benbi", ("aes", "lrw", "benbi")),
    ("aes-ecb", ("aes", "ecb", "null")),
    ("aes-ctr-plain64", ("aes", "ctr", "plain64")),
    ("xchacha12,aes-adiantum-plain64", ("xchacha12,aes", "adiantum", "plain64")),
    ("xchacha12,aes-hpolyc-plain64", ("xchacha12,aes", "hpolyc", "plain64")),
    ("aes-hctr2-plain64", ("aes", "hctr2", "plain64")),
    ("aes-xex1-plain64", ("aes", "xex1", "plain64")),
    ("chacha20-stream-plain64", ("chacha20", "stream", "plain64")),
];

const UNIT: usize = 528;

#[test]
fn every_mode_prints_itself_and_agrees_with_the_reference() {
    let missing: Vec<_> = internals::modes_without(&IN_EACH_MODE.map(|(name, _)| name)).collect();
    assert!(missing.is_empty(), "IN_EACH_MODE has no specification for {missing:?}");
    let mut noise = Random::new(11);
    for (name, parts) in IN_EACH_MODE {
        let spec: CipherSpec = name.parse().expect(name);
        assert_eq!(spec.to_string(), name);
        for key_len in spec.key_lens() {
            let key = noise.bytes(*key_len);
            let plain = noise.bytes(3 * UNIT);
            let encrypted: Vec<u8> = plain
                .chunks(UNIT)
                .zip(5..)
                .flat_map(|(unit, number)| whole::data_unit(true, parts, &key, number, unit))
                .collect();
            for backend in BackendChoice::detected() {
                for vectors in VectorChoice::detected() {
                    let options = MapperOptions {
                        data_unit: UNIT,
                        single_snapshot: true,
                        backend: Some(backend),
                        vectors: Some(vectors),
                        ..MapperOptions::default()
                    };
                    let mapper = Mapper::new(&spec, &key, &options).expect(name);
                    let mut run = plain.clone();
                    mapper.encrypt(DataUnitIndex(5), &mut run).expect("whole units");
                    assert!(run == encrypted, "{name} with {key_len} bytes on {}", mapper.backend_name());
                    mapper.decrypt(DataUnitIndex(5), &mut run).expect("whole units");
                    assert!(run == plain, "{name} with {key_len} bytes on {}", mapper.backend_name());
                }
            }
        }
    }
}

/// The table of docs/CIPHERS.md says of each mode how long its keys are, and what it must not be used for.
#[test]
fn docs_have_a_row_for_every_mode_and_it_says_what_is_so() {
    let text = in_the_workspace("docs/CIPHERS.md");
    let mut named = Vec::new();
    for row in text.lines().skip_while(|line| !line.starts_with("| name |")).skip(2) {
        let Some(row) = row.strip_prefix('|') else { break };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let names = cells[0].split('`').skip(1).step_by(2);
        let specs: Vec<(&str, CipherSpec)> =
            names.filter_map(|name| Some((name, name.parse().ok()?))).collect();
        let (name, spec) = specs.first().unwrap_or_else(|| panic!("no specification in {row}"));
        let keys = cells[4];
        assert!(
            keys.contains("FORMATS.md") || keys.split(';').next() == Some(&bits(spec.key_lens())),
            "{name}: keys of {keys} bits"
        );
        assert_eq!(cells[2].contains("unsafe"), spec.is_single_snapshot(), "{name}: two snapshots");
        assert_eq!(cells[0].contains("not recommended"), spec.is_discouraged(), "{name}: not recommended");
        named.extend(specs.into_iter().map(|(name, _)| name));
    }
    let missing: Vec<_> = internals::modes_without(&named).collect();
    assert!(missing.is_empty(), "docs/CIPHERS.md has no row for {missing:?}");
}

#[test]
fn the_fuzz_target_for_modes_has_every_mode() {
    let text = in_the_workspace("fuzz/src/modes.rs");
    let quoted: Vec<&str> = text.split('"').skip(1).step_by(2).collect();
    let missing: Vec<_> = internals::modes_without(&quoted).collect();
    assert!(missing.is_empty(), "CASES of fuzz/src/modes.rs has none of {missing:?}");
}

fn in_the_workspace(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("read {file}: {error}"))
}

fn bits(lens: &[usize]) -> String {
    lens.iter().map(|len| (8 * len).to_string()).collect::<Vec<_>>().join(", ")
}
