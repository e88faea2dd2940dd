//! Random operations on one file, each held against a model in memory; several files at once.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use atrest_testkit::Random;

use super::{Mounted, campaign, kind_and_operations};

const LARGEST: u64 = 600_000;
/// Changed at once, by a thread each.
const FILES: u64 = 3;

/// A process that maps files: safe Rust can't.
struct MappingProcess {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

const MAPPER: &str = "
import mmap, os, sys
for line in sys.stdin:
    path, offset, length, data = line.rstrip('\\n').split('\\t')
    offset, length = int(offset), int(length)
    f = os.open(path, os.O_RDWR)
    m = mmap.mmap(f, offset + length)
    if data:
        m[offset:offset + length] = bytes.fromhex(data)
        m.flush()
        print('done', flush=True)
    else:
        print(m[offset:offset + length].hex(), flush=True)
    m.close()
    os.close(f)
";

impl MappingProcess {
    fn new() -> Self {
        let mut child = Command::new("python3")
            .args(["-c", MAPPER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs (scripts/setup installs it)");
        let orders = child.stdin.take().expect("a pipe");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, orders, answers }
    }

    fn ask(&mut self, path: &Path, offset: u64, len: usize, data: &str) -> String {
        writeln!(self.orders, "{}\t{offset}\t{len}\t{data}", path.display()).expect("ask");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("an answer");
        answer.trim_end().to_owned()
    }
}

impl Drop for MappingProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).expect("open")
}

fn exercise(path: &Path, random: &mut Random, operations: usize) -> (usize, Vec<u8>) {
    let mut mapping = MappingProcess::new();
    let mut model: Vec<u8> = Vec::new();
    let mut file = open(path);
    for number in 0..operations {
        let offset = random.below(LARGEST);
        let len = match random.below(3) {
            0 => 1 + random.below(100),
            1 => 1 + random.below(10_000),
            _ => 1 + random.below(200_000),
        } as usize;
        let operation = random.below(11);
        let told = || format!("operation {number} ({operation}) at {offset} with {len} bytes");
        match operation {
            0..=2 => {
                let data = random.bytes(len);
                file.write_all_at(&data, offset).expect("write");
                let end = offset as usize + len;
                if model.len() < end {
                    model.resize(end, 0);
                }
                model[offset as usize..end].copy_from_slice(&data);
            }
            3..=4 => {
                let mut buf = vec![0; len];
                let mut read = 0;
                while let Ok(more @ 1..) = file.read_at(&mut buf[read..], offset + read as u64) {
                    read += more;
                }
                let from = model.len().min(offset as usize);
                let expected = &model[from..model.len().min(offset as usize + len)];
                assert!(buf[..read] == *expected, "{}", told());
            }
            5 => {
                file.set_len(offset).expect("truncate");
                model.resize(offset as usize, 0);
            }
            6 if model.len() < LARGEST as usize => {
                let data = random.bytes(len.min(9000));
                let appender = OpenOptions::new().append(true).open(path).expect("open");
                (&appender).write_all(&data).expect("append");
                model.extend(data);
            }
            7 if !model.is_empty() => {
                let at = random.below(model.len() as u64);
                let len = len.min(model.len() - at as usize).min(20_000);
                let data = random.bytes(len);
                assert_eq!(mapping.ask(path, at, len, &hex(&data)), "done");
                model[at as usize..][..len].copy_from_slice(&data);
            }
            8 if !model.is_empty() => {
                let at = random.below(model.len() as u64);
                let len = len.min(model.len() - at as usize).min(20_000);
                let seen = mapping.ask(path, at, len, "");
                assert!(seen == hex(&model[at as usize..][..len]), "mapped: {}", told());
            }
            9 => {
                drop(file);
                file = open(path);
            }
            _ => file.sync_data().expect("fdatasync"),
        }
        assert_eq!(file.metadata().expect("fstat").len(), model.len() as u64, "{}", told());
    }
    drop(file);
    assert!(std::fs::read(path).expect("read") == model, "the whole file");
    (operations, model)
}

#[test]
fn a_file_is_what_was_done_to_it() {
    let mut operations = 0;
    campaign("operations on files in a mount").run(|seed, _| {
        let (kind, each) = kind_and_operations(seed);
        println!("seed {seed}: {kind}, {FILES} files, {each} operations on each");
        let mut mounted = Mounted::new(kind);
        let paths: Vec<_> = (0..FILES).map(|n| mounted.path().join(format!("file{n}"))).collect();
        let models: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let files: Vec<_> = (0..)
                .zip(&paths)
                .map(|(n, path)| {
                    scope.spawn(move || exercise(path, &mut Random::new(seed * FILES + n), each))
                })
                .collect();
            let done = files.into_iter().map(|file| file.join().expect("no difference"));
            done.map(|(count, model)| {
                operations += count;
                model
            })
            .collect()
        });
        mounted.stop();
        mounted.start();
        for (path, model) in paths.iter().zip(models) {
            let found = std::fs::read(path).expect("read");
            assert!(found == model, "{} is another one after a new mount", path.display());
        }
        mounted.stop();
    });
    println!("{operations} operations on files, each held against a model");
}
