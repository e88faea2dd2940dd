use std::fs::OpenOptions;

use atrest_testkit::{Random, Scratch};

use super::Mapping;

const LEN: usize = 1 << 20;

fn file(scratch: &Scratch) -> (std::fs::File, Vec<u8>) {
    let bytes = Random::new(7).bytes(LEN);
    let path = scratch.file("mapped", &bytes);
    (OpenOptions::new().read(true).write(true).open(path).unwrap(), bytes)
}

fn read(mapping: &Mapping, offset: u64, len: usize) -> (bool, Vec<u8>) {
    let mut read = Vec::new();
    let whole = mapping.read(offset, len, |bytes| read.extend_from_slice(bytes));
    (whole, read)
}

#[test]
fn a_mapping_is_the_file_and_ends_where_it_does() {
    let scratch = Scratch::new();
    let (file, bytes) = file(&scratch);
    let mapping = Mapping::new(&file, LEN as u64).unwrap();
    for (offset, len) in [(0, LEN), (1, 5), (4095, 2), (LEN - 1, 1), (LEN, 0)] {
        assert_eq!(read(&mapping, offset as u64, len), (true, bytes[offset..offset + len].to_vec()));
    }
    for (offset, len) in [(LEN as u64, 1), (0, LEN + 1), (u64::MAX, 1), (u64::MAX, usize::MAX), (1, LEN)] {
        assert_eq!(read(&mapping, offset, len), (false, Vec::new()), "{offset} {len}");
    }
}

#[test]
fn what_was_cut_off_is_told_and_the_mapping_is_not_used_again() {
    let scratch = Scratch::new();
    let (file, bytes) = file(&scratch);
    let mapping = Mapping::new(&file, LEN as u64).unwrap();
    let other = Mapping::new(&file, LEN as u64).unwrap();
    file.set_len(LEN as u64 / 2).unwrap();
    let (whole, zeros) = read(&mapping, LEN as u64 / 2 - 10, 20);
    assert!(!whole);
    assert_eq!(zeros, [&bytes[LEN / 2 - 10..LEN / 2], &[0; 10]].concat());
    assert_eq!(read(&mapping, 0, 10), (false, Vec::new()), "where the file is whole, too");
    assert_eq!(read(&other, 0, 10), (true, bytes[..10].to_vec()), "one mark is one mapping's");
    assert!(!read(&other, LEN as u64 - 1, 1).0);
    drop((mapping, other));
    let again = Mapping::new(&file, LEN as u64).unwrap();
    assert!(read(&again, 0, 10).0, "a mark goes with its mapping");
}

#[test]
fn there_is_a_limit_of_mappings_and_places_are_used_again() {
    let scratch = Scratch::new();
    let (file, _) = file(&scratch);
    for _ in 0..3 {
        let mut all = Vec::new();
        let refused = loop {
            match Mapping::new(&file, LEN as u64) {
                Ok(mapping) => all.push(mapping),
                Err(error) => break error,
            }
            assert!(all.len() <= 16);
        };
        assert_eq!(refused.kind(), std::io::ErrorKind::QuotaExceeded);
    }
}

#[test]
fn many_threads_lose_pages_at_once() {
    let scratch = Scratch::new();
    let (file, _) = file(&scratch);
    for round in 0..50 {
        file.set_len(LEN as u64).unwrap();
        let mapping = Mapping::new(&file, LEN as u64).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for offset in (0..LEN as u64).step_by(4096) {
                        let _ = read(&mapping, offset, 4096);
                    }
                });
            }
            file.set_len(round * 4096).unwrap();
        });
        assert!(!read(&mapping, LEN as u64 - 1, 1).0);
    }
}

/// In a process of its own, which this is to end.
#[test]
fn another_bus_error_ends_the_process_as_before() {
    const CHILD: &str = "ATREST_TEST_BUS_ERROR";
    if std::env::var_os(CHILD).is_some() {
        let scratch = Scratch::new();
        let (file, _) = file(&scratch);
        let _watched = Mapping::new(&file, LEN as u64).unwrap();
        let outside = Mapping::new(&file, LEN as u64).unwrap();
        file.set_len(0).unwrap();
        let outside = std::mem::ManuallyDrop::new(outside);
        // SAFETY: it is mapped; that nothing is there is what is tested.
        let byte = unsafe {
            super::bus::forget_all();
            std::ptr::read_volatile(outside.start.as_ptr())
        };
        panic!("nothing ended this process: {byte}");
    }
    let name = "mapping::tests::another_bus_error_ends_the_process_as_before";
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&child.status);
    assert_eq!(signal, Some(libc::SIGBUS), "{}", String::from_utf8_lossy(&child.stderr));
}
