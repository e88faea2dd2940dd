//! The smallest programs that encrypt flash, each built with nothing but what it uses: of how many packages they are made, and what they
//! take of three kinds of chip beyond a program that does nothing. Goals of docs/FIRMWARE.md are held here.

use std::collections::BTreeSet;
use std::fs;

use atrest_cipher::{CipherSpec, DataUnitIndex, Mapper, MapperOptions};
use atrest_testkit::campaign::Campaign;
use atrest_testkit::firmware::{
    BOARDS, Board, Build, CORTEX_M0, Counted, figure, flash_size, hold_table, is_blessed, static_ram,
};
use atrest_testkit::oracle::{Program, workspace};

/// Program, what people call it, the most packages, and the most bytes of code on a Cortex-M4.
const PROGRAMS: [(&str, &str, usize, u64); 2] = [
    ("xts", "AES-XTS over NOR flash", 25, 22 << 10),
    ("sealed", "sealed flash over NOR flash, Ascon-AEAD128", 25, 40 << 10),
];

/// What a board with its emulator adds to every program is not counted.
const EMPTY: &str = "empty";

const TABLE: &str =
    "| program | board | packages | code | static RAM | stack |\n|---|---|---:|---:|---:|---:|\n";

#[test]
fn the_smallest_programs_take_no_more_than_measured() {
    let chosen = chosen();
    let lines: String = chosen.iter().flat_map(|board| measured(board)).collect();
    let what = "board, program, bytes of code, of static RAM, of stack; packages";
    let committed = workspace().join("firmware/smallest.tsv");
    Counted { lines: &lines, names: 2, what }
        .hold_those(&committed, |name| chosen.iter().any(|board| name.starts_with(board.name)));
    let committed = fs::read_to_string(committed).expect("the figures");
    hold_table(&workspace().join("docs/FIRMWARE.md"), TABLE, &rows(&committed));
}

fn rows(figures: &str) -> String {
    let row = |line: &str| {
        let [board, program, code, ram, stack, packages] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let (_, name, ..) = PROGRAMS.iter().find(|(bin, ..)| *bin == program).expect("a program");
        format!("| {name} | {board} | {packages} | {code} | {ram} | {stack} |\n")
    };
    figures.lines().map(row).collect()
}

/// All three are built where figures are written, and in whole campaigns; else one of them, by the rotation of the commit.
fn chosen() -> Vec<&'static Board> {
    let all = [&CORTEX_M0, &BOARDS[0], &BOARDS[1]];
    if is_blessed() { all.to_vec() } else { Campaign::matrix("smallest programs", 1).chosen(&all) }
}

fn measured(board: &Board) -> Vec<String> {
    let empty = board.build_alone(Build::Compact, EMPTY, "");
    let before = packages(board, "");
    let (code, ram) = (flash_size(&empty), static_ram(&empty));
    PROGRAMS
        .iter()
        .map(|(name, _, most_packages, most_code)| {
            let program = board.build_alone(Build::Compact, &format!("smallest-{name}"), name);
            let output = board.count(&program);
            check(name, &output);
            // Its own package is in both.
            let packages = packages(board, name).difference(&before).count() + 1;
            let code = flash_size(&program) - code;
            assert!(packages <= *most_packages, "{name}: {packages} packages");
            assert!(board.name != "Cortex-M4" || code <= *most_code, "{name}: {code} bytes of code");
            let (ram, stack) = (static_ram(&program) - ram, figure(&output, "stack"));
            format!("{}\t{name}\t{code}\t{ram}\t{stack}\t{packages}\n", board.name)
        })
        .collect()
}

/// The programs have read what they wrote; and on the flash is what AES-XTS of the desk makes of it.
fn check(program: &str, output: &str) {
    let word = |bytes: &[u8]| u64::from(u32::from_le_bytes(bytes[..4].try_into().expect("4 bytes")));
    match program {
        "xts" => {
            assert_eq!(figure(output, "data"), word(b"thir"));
            let key: [u8; 32] = core::array::from_fn(|i| i as u8);
            let spec: CipherSpec = "aes-xts-plain64".parse().expect("a cipher");
            let desk = Mapper::new(&spec, &key, &MapperOptions::default()).expect("a mapper");
            let mut unit = [0; 512];
            unit[..32].copy_from_slice(b"thirty-two bytes of a settings!!");
            desk.encrypt(DataUnitIndex(4096 / 512), &mut unit).expect("a whole unit");
            assert_eq!(figure(output, "stored"), word(&unit));
        }
        _ => assert_eq!(figure(output, "data"), word(&[7; 4])),
    }
}

/// Names and versions of the packages in a program's tree, with those that only run at build time.
fn packages(board: &Board, features: &str) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = Program::at(cargo)
        .words("tree --locked --package firmware-smallest --edges normal,build --prefix none --format {p}")
        .args(["--features", features, "--target", board.target])
        .current_dir(workspace().join("firmware"))
        .ok()
        .text();
    let name = |line: &str| line.split(" (").next().map(str::to_owned);
    let packages: BTreeSet<String> = tree.lines().filter(|line| !line.is_empty()).filter_map(name).collect();
    assert!(packages.iter().any(|package| package.starts_with("firmware-smallest ")), "{tree}");
    packages
}

/// Each cipher and hash that a build was made without, and the feature that the error has to name.
const REFUSED: &[(&str, &str)] = &[
    ("blowfish-cbc-plain64", "cipher feature \"blowfish\""),
    ("camellia-xts-plain64", "cipher feature \"camellia\""),
    ("cast5-cbc-plain64", "cipher feature \"cast5\""),
    ("des3_ede-cbc-plain64", "cipher feature \"des\""),
    ("noekeon-cbc-plain64", "cipher feature \"noekeon\""),
    ("serpent-xts-plain64", "cipher feature \"serpent\""),
    ("speck128-xts-plain64", "cipher feature \"speck\""),
    ("twofish-xts-plain64", "cipher feature \"twofish\""),
    ("capi:xts(twofish)-plain64", "cipher feature \"twofish\""),
    ("aes-cbc-essiv:sha256", "cipher feature \"sha2\""),
    ("aes-cbc-essiv:sha3-256", "cipher feature \"sha3\""),
    ("aes-cbc-essiv:blake2s-256", "cipher feature \"blake2\""),
    ("aes-cbc-essiv:wp256", "cipher feature \"whirlpool\""),
    ("aes-cbc-essiv:rmd256", "cipher feature \"ripemd\""),
    ("serpent-cbc-essiv:sha1", "cipher feature \"serpent\""),
    ("blowfish", "cipher feature \"blowfish\""),
    ("cast5", "cipher feature \"cast5\""),
    ("cast6", "cipher feature \"cast6\""),
    ("des", "cipher feature \"des\""),
    ("twofish", "cipher feature \"twofish\""),
    ("SHA1", "kdf feature \"sha1\""),
    ("sha3-512", "kdf feature \"sha3\""),
    ("rmd160", "kdf feature \"ripemd\""),
    ("wp512", "kdf feature \"whirlpool\""),
    ("blake2b512", "kdf feature \"blake2\""),
    ("plain mode", "kdf feature \"ripemd\""),
    ("LUKS1", "kdf feature \"whirlpool\""),
];

#[test]
fn what_a_build_was_made_without_is_refused_by_the_name_of_its_feature() {
    let board = &BOARDS[0];
    let said = board.count(&board.build_alone(Build::Compact, "refused", "refused"));
    let expected = REFUSED
        .iter()
        .map(|(what, feature)| format!("{what}\tthis program was built without the {feature}\n"));
    assert_eq!(said, expected.collect::<String>());
}
