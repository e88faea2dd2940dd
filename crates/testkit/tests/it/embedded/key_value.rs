//! A key-value map on flash that is memory: the program `key_value` of `firmware/bench/src/bin`.

use std::fmt::Write as _;
use std::path::Path;

use atrest_testkit::firmware::{BOARDS, Board, Build, flash_size};

use crate::embedded::figures::{BUILDS, Figures, counted};

pub const PROGRAM: &str = "key_value";

/// Runs the program of one build.
pub fn count(board: &Board, build: &str, directory: &Path, figures: &mut Figures) {
    let path = directory.join(PROGRAM);
    figures.add(board, build, PROGRAM, "code", flash_size(&path) - flash_size(&directory.join("nothing")));
    for (what, figure) in counted(board, &path, 11, |_| 0) {
        figures.add(board, build, PROGRAM, &what, figure);
    }
}

/// Its part of docs/EMBEDDED.md.
pub fn document(figures: &Figures) -> String {
    let mut text = String::from(
        "\n# Key-value maps on microcontrollers\n\n\
         The table is for a map of 32 values of 64 bytes in 4 blocks of 4096 bytes, on a medium that is memory.\n\
         \n\
         * *set, dearest set, get, open:* executed instructions that the map costs above the flash below it.\n\
         * *dearest set:* it begins a block and moves the values of the oldest one.\n\
         * *code:* bytes of code with HMAC-SHA-256.\n\
         * *map:* bytes of the map without its table (20 bytes a name) and buffer.\n\
         * *stack:* bytes of stack.\n\
         \n\
         | board | build | set | dearest set | get | open | code | map | stack |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for board in &BOARDS {
        for build in BUILDS.map(Build::name) {
            let figure = |what: &str| figures.of(board, build, PROGRAM, what);
            let figures = ["set 64", "dearest set 64", "get 64", "open", "code", "map"].map(figure);
            let stack = figure("stack set").max(figure("stack get"));
            let cells: String = figures.iter().map(|figure| format!(" {figure} |")).collect();
            writeln!(text, "| {} | {build} |{cells} {stack} |", board.name).expect("a String");
        }
    }
    text
}
