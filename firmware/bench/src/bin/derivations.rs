//! What an iteration of PBKDF2-HMAC-SHA256 and a node of Catena over SHA-256 cost: whole derivations of a key of 32 bytes, in steps that
//! the counter has room for.
#![no_std]
#![no_main]

use core::hint::black_box;

use atrest_kdf::fixed::Sha256;
use atrest_kdf::{Catena, CatenaCost, CatenaGraph, CatenaInput, Pbkdf2, Progress};
use firmware_bench::{Memory, board, done, fingerprint};

/// Iterations or nodes between two looks at the counter.
const STEP: u32 = 500;
const PASSPHRASE: &[u8] = b"correct horse battery staple";
const SALT: &[u8] = b"a salt of 16 by.";

#[board::entry]
fn main() -> ! {
    // As much as Catena-BRG takes with garlic 12.
    static MEMORY: Memory<[u8; 128 << 10]> = Memory::new([0; 128 << 10]);
    // SAFETY: the entry point runs once.
    let memory = unsafe { MEMORY.take() };
    let (passphrase, salt) = (black_box(PASSPHRASE), black_box(SALT));
    let counter = board::Counter::start();
    board::print("calibration", 0, counter.instructions(|| board::steps(10_000)));
    let whole = |step: &mut dyn FnMut() -> Progress| {
        let mut sum = 0;
        let mut progress = None;
        while progress != Some(Progress::Done) {
            sum += counter.instructions(|| progress = Some(step()));
        }
        sum
    };
    let mut key = [0; 32];
    let mut pbkdf2 = done(Pbkdf2::<Sha256>::new(passphrase, salt, 1000, &mut key));
    let sum = whole(&mut || pbkdf2.step(STEP));
    drop(pbkdf2);
    board::print("pbkdf2", 1000, sum);
    board::print("fingerprint", 1000, fingerprint(&key));
    for (what, graph, garlic) in
        [("brg", CatenaGraph::BitReversal, 12), ("dbg", CatenaGraph::DoubleButterfly, 11)]
    {
        let cost = CatenaCost::new(graph, garlic);
        let input = CatenaInput { passphrase, salt, ..CatenaInput::default() };
        let mut catena = done(Catena::<Sha256>::new(&cost, &input, &mut memory[..], &mut key));
        let sum = whole(&mut || catena.step(STEP));
        drop(catena);
        board::print(what, garlic.into(), sum);
        board::print("fingerprint", garlic.into(), fingerprint(&key));
    }
    board::exit()
}
