//! Opening a sealed volume: the program `opening` of `firmware/bench/src/bin`, over a sixteenth of a MiB.

use std::fmt::Write as _;
use std::path::Path;

use atrest_testkit::firmware::{BOARDS, Board, Build};

use crate::embedded::figures::{BUILDS, Figures, counted};

const PROGRAM: &str = "opening";
/// Volumes of the program in a MiB.
const IN_A_MIB: u64 = 16;
/// What the program prints, and what it is called.
const OPENINGS: [(&str, &str); 3] = [
    ("every unit", "every unit read (`Verify::AtOpening`)"),
    ("serials", "by serials, after a close in good order"),
    ("power loss", "by serials, after a power loss, eight newer units in each 64 KiB"),
];
/// Bytes of the medium a second, nanoseconds a read, and instructions a second, of the seconds in the table.
const BUS: f64 = 10e6;
const READ: f64 = 2e-6;
const CLOCK: f64 = 100e6;
/// MiB of the medium for which the table has seconds.
const MIB: u64 = 16;

pub fn programs() -> impl Iterator<Item = &'static str> {
    [PROGRAM].into_iter()
}

/// Runs the program of one build.
pub fn count(board: &Board, build: &str, directory: &Path, figures: &mut Figures) {
    for (what, figure) in counted(board, &directory.join(PROGRAM), 10, |_| 0) {
        figures.add(board, build, PROGRAM, &what, figure);
    }
}

/// Instructions, bytes read and reads for a MiB of the medium.
fn per_mib(figures: &Figures, board: &Board, build: &str, opening: &str) -> [u64; 3] {
    [opening.to_owned(), format!("{opening} 1"), format!("{opening} 2")]
        .map(|what| figures.of(board, build, PROGRAM, &what) * IN_A_MIB)
}

/// Its part of docs/EMBEDDED.md.
pub fn document(figures: &Figures) -> String {
    let mut text = String::from(
        "\n# Opening per MiB\n\n\
         The table says what opening a sealed volume costs for each MiB of its medium.\n\
         The cipher is Ascon-AEAD128, erase blocks have 4 KiB, and every unit is in use.\n\
         Seconds are for a medium of 16 MiB, at 100 million instructions a second.\n\
         The bus has 10 MB/s and takes 2 µs for each read.\n\
         The formula is 16 × (instructions / 10^8 + bytes / 10^7 + reads × 2 × 10^-6).\n\
         \n\
         | opening | board | build | instructions | bytes read | reads | seconds for 16 MiB |\n|---|---|---|---:|---:|---:|---:|\n",
    );
    for (opening, name) in OPENINGS {
        for board in &BOARDS {
            for build in BUILDS.map(Build::name) {
                let [instructions, bytes, reads] = per_mib(figures, board, build, opening);
                let seconds = instructions as f64 / CLOCK + bytes as f64 / BUS + reads as f64 * READ;
                writeln!(
                    text,
                    "| {name} | {} | {build} | {instructions} | {bytes} | {reads} | {:.2} |",
                    board.name,
                    seconds * MIB as f64
                )
                .expect("a String");
            }
        }
    }
    text
}

/// A close in good order pays: at most a twentieth of the bytes, and a fifteenth of the instructions, most of which are the sum's.
pub fn check(figures: &Figures, board: &Board, build: &str) {
    let [every, serials] = ["every unit", "serials"].map(|what| per_mib(figures, board, build, what));
    assert!(serials[1] * 20 <= every[1], "{}: {} bytes of {}", board.name, serials[1], every[1]);
    assert!(serials[0] * 15 <= every[0], "{}: {} instructions of {}", board.name, serials[0], every[0]);
}
