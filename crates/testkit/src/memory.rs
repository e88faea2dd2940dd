//! The memory of this process, searched for keys that should lie in locked pages only, and that of another process, searched for keys
//! that should be gone.
//!
//! Of this process, use it in a test program of its own: other tests in the same process leave their keys there.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use atrest_secret::SecretBytes;
use memchr::memmem;

/// Bytes of a key or round key that are looked for at a time.
pub const PIECE: usize = 16;

/// Addresses outside of secrets' own pages at which one of the needles lies, each [`PIECE`] bytes long. The copies of memory
/// that the search makes are in such pages themselves.
pub fn found_outside(needles: &[SecretBytes]) -> Vec<u64> {
    found("self", &unprotected("self"), needles)
}

/// Searches another process like [`found_outside`] does this one. It must be one that this one may trace.
pub fn found_outside_in(process: u64, needles: &[SecretBytes]) -> Vec<u64> {
    let process = process.to_string();
    found(&process, &unprotected(&process), needles)
}

/// Addresses in all writable memory of a process at which one of the needles lies, each [`PIECE`] bytes long. The process must be one
/// that this one may trace.
pub fn found_in(process: u64, needles: &[SecretBytes]) -> Vec<u64> {
    let process = process.to_string();
    let all: Vec<_> = writable(&process).into_iter().map(|(region, _)| region).collect();
    found(&process, &all, needles)
}

fn found(process: &str, regions: &[(u64, usize)], needles: &[SecretBytes]) -> Vec<u64> {
    const WINDOW: usize = 1 << 20;
    let memory_file = File::open(format!("/proc/{process}/mem")).expect("memory that may be read");
    let mut window = SecretBytes::zeroed(WINDOW);
    let mut found = Vec::new();
    // A search keeps no copy of its needle, but two bytes of it.
    let searches: Vec<_> = needles.iter().map(|needle| memmem::Finder::new(&needle[..])).collect();
    for &(start, len) in regions {
        for skip in (0..len).step_by(WINDOW - PIECE) {
            let here = &mut window[..WINDOW.min(len - skip)];
            if memory_file.read_exact_at(here, start + skip as u64).is_err() {
                continue; // Guard pages and what was unmapped since.
            }
            for search in &searches {
                found.extend(search.find_iter(here).map(|at| start + (skip + at) as u64));
            }
        }
    }
    found
}

/// A key in pieces.
pub fn pieces(key: &[u8]) -> Vec<SecretBytes> {
    key.chunks_exact(PIECE).map(SecretBytes::copy_from).collect()
}

/// Everything in a keyed cipher that looks random: its round keys in the form in which its backend keeps them.
pub fn round_keys<C>(cipher: &C) -> Vec<SecretBytes> {
    let file = File::open("/proc/self/mem").expect("our own memory");
    let mut bytes = SecretBytes::zeroed(size_of_val(cipher));
    file.read_exact_at(&mut bytes, std::ptr::from_ref(cipher) as u64).expect("the cipher is mapped");
    bytes.chunks_exact(PIECE).filter(|piece| looks_random(piece)).map(SecretBytes::copy_from).collect()
}

fn looks_random(piece: &[u8]) -> bool {
    let distinct = (0..=u8::MAX).filter(|byte| piece.contains(byte)).count();
    distinct >= 11
}

/// Writable memory but for secrets' own pages: locked, or where the limit forbids that, at least left out of core dumps.
fn unprotected(process: &str) -> Vec<(u64, usize)> {
    writable(process).into_iter().filter_map(|(region, is_secret)| (!is_secret).then_some(region)).collect()
}

/// Writable memory, as start and length, and whether it is left out of core dumps.
fn writable(process: &str) -> Vec<((u64, usize), bool)> {
    let smaps = fs::read_to_string(format!("/proc/{process}/smaps")).expect("Linux has /proc/PID/smaps");
    let mut regions = Vec::new();
    let mut region = None;
    for line in smaps.lines() {
        let mut words = line.split(' ');
        // intended: a line without words names no region.
        let first = words.next().unwrap_or_default();
        if let Some((from, to)) = first.split_once('-') {
            let bound = |text| u64::from_str_radix(text, 16).expect("hexadecimal");
            let writable = words.next().is_some_and(|rights| rights.starts_with("rw"));
            region = writable.then(|| (bound(from), (bound(to) - bound(from)) as usize));
        } else if first == "VmFlags:"
            && let Some(region) = region
        {
            regions.push((region, line.split(' ').any(|flag| flag == "dd")));
        }
    }
    regions
}
