//! The ciphers that authenticate, and `SealedFlash` with each: a program of `firmware/bench/src/bin` for each.

use std::fmt::Write as _;
use std::path::Path;

use atrest_cipher::aead::{Aead, Aes128Ccm, Aes128Gcm, AsconAead128, ChaCha20Poly1305};
use atrest_device::FlashGeometry;
use atrest_flash::sealed::{SealedLayout, Tickets};
use atrest_testkit::firmware::{BOARDS, Board, Build, flash_size, fnv};

use crate::embedded::figures::{BUILDS, Figures, counted};

/// Bytes in a unit, and in a run of them.
const UNIT: u64 = 256;
const RUN: u64 = 4096;

/// A program, what its cipher is called, and what it must print about its ciphertext.
type Program = (&'static str, &'static str, fn() -> u64);

const AEADS: [Program; 4] = [
    ("ascon_aead128", AsconAead128::NAME, fingerprint::<AsconAead128>),
    ("chacha20_poly1305", ChaCha20Poly1305::NAME, fingerprint::<ChaCha20Poly1305>),
    ("aes_128_ccm", Aes128Ccm::NAME, fingerprint::<Aes128Ccm>),
    ("aes_128_gcm", Aes128Gcm::NAME, fingerprint::<Aes128Gcm>),
];

/// What they are called.
pub fn programs() -> impl Iterator<Item = &'static str> {
    AEADS.into_iter().map(|(program, ..)| program)
}

/// Runs the programs of one build.
pub fn count(board: &Board, build: &str, directory: &Path, figures: &mut Figures) {
    let empty = flash_size(&directory.join("nothing"));
    for (program, _, expected) in AEADS {
        let path = directory.join(program);
        figures.add(board, build, program, "code", flash_size(&path) - empty);
        for (what, figure) in counted(board, &path, 18, |_| expected()) {
            figures.add(board, build, program, &what, figure);
        }
    }
}

/// Ciphertext of a unit of zeros, and its tag.
fn fingerprint<A: Aead>() -> u64 {
    let key: Vec<u8> = (0..A::KEY_LEN).map(|i| i as u8).collect();
    let mut unit = [0; UNIT as usize];
    let cipher = A::new(&key).expect("a key");
    let tag = cipher.seal(&A::Nonce::default(), &[1; 14], &mut unit).expect("a short unit");
    fnv(&unit) ^ fnv(tag.as_ref())
}

/// Its part of docs/EMBEDDED.md.
pub fn document(figures: &Figures) -> String {
    let mut text = String::from(
        "\n# Sealed flash on microcontrollers\n\n\
         * *seal, open:* instructions executed per byte of one unit of 256 bytes by the cipher alone.\n\
         * *program, read:* the same through `SealedFlash`, for one unit / a run of 4096 bytes in sixteen units.\n\
         * *anchor:* instructions of anchoring a change of one block.\n\
         * *code:* bytes of code with `SealedFlash` and its keys.\n\
         * *stack:* bytes of stack at its deepest point (program, read, anchor).\n\
         \n\
         There are 14 bytes of associated data. The medium is memory, and nothing is read back, which would cost a read.\n\
         \n\
         | cipher | board | build | seal | open | program | read | anchor | code | stack |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (program, name, _) in AEADS {
        for board in &BOARDS {
            for build in BUILDS.map(Build::name) {
                let figure = |what: &str| figures.of(board, build, program, what);
                let rate = |what: &str, len: u64| figure(&format!("{what} {len}")) as f64 / len as f64;
                let stack = ["prog", "read", "anchor"].map(|what| figure(&format!("stack {what}")));
                writeln!(
                    text,
                    "| {name} | {} | {build} | {:.1} | {:.1} | {:.1} / {:.1} | {:.1} / {:.1} | {} | {} | {} |",
                    board.name,
                    rate("seal", UNIT),
                    rate("open", UNIT),
                    rate("prog", UNIT),
                    rate("prog", RUN),
                    rate("read", UNIT),
                    rate("read", RUN),
                    figure("anchor"),
                    figure("code"),
                    stack.into_iter().max().unwrap_or(0),
                )
                .expect("a String");
            }
        }
    }
    text
}

/// Rows of the table of costs in docs/SEALED-FLASH.md: instructions per byte of a program and a read of 4096 bytes, speed build.
pub fn costs(figures: &Figures) -> Vec<String> {
    let medium = FlashGeometry::new(1, 1, 4096, 4096).expect("a geometry");
    let row = |(program, name, _): Program| {
        let [m4, rv32] = BOARDS.each_ref().map(|board| {
            let rate = |what| figures.of(board, "speed", program, what) as f64 / RUN as f64;
            format!("{:.1} / {:.1}", rate("prog 4096"), rate("read 4096"))
        });
        let space = |payload, tickets| {
            let layout = SealedLayout::new(medium, payload, 16, tickets).expect("a layout");
            let used = layout.geometry().erase_size();
            format!("{:.1} %", f64::from(4096 - used) * 100.0 / 4096.0)
        };
        let (store, slot) = (space(292, Tickets::Store), space(316, Tickets::Slot));
        format!("| {name} | {store} | {slot} | {m4} | {rv32} |")
    };
    AEADS.into_iter().map(row).collect()
}
