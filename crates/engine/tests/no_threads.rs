//! A system that refuses further threads: large requests and bulk copies are done all the same, on the calling thread.
//!
//! A test program of its own, because the limit is the whole process's.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use atrest_cipher::{Mapper, MapperOptions};
use atrest_device::BlockDevice;
use atrest_engine::bulk::{self, BulkOptions};
use atrest_engine::{Disk, DiskOptions};
use atrest_secret::Locked;
use atrest_testkit::FaultDevice;
use atrest_volume::{Segment, Volume, VolumeFormat};

const LEN: usize = 8 << 20;

/// Leaves room for what is mapped now and for less than a thread's stack.
fn refuse_threads() {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has /proc/self/status");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("a size");
    let kib: u64 = size.trim().trim_end_matches(" kB").parse().expect("a number");
    let bytes = (kib << 10) + (1 << 20);
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is a valid rlimit for the duration of the call, which only reads it.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

#[test]
fn large_requests_and_copies_need_no_thread() {
    let cipher = "aes-xts-plain64".parse().expect("a cipher");
    let key: Vec<u8> = (0..64).collect();
    let mapper = Locked::try_new_with(|| Mapper::new(&cipher, &key, &MapperOptions::default()));
    let segment =
        Segment { start: 0, len: LEN as u64, media_offset: 0, protection: mapper.expect("a mapper").into() };
    let volume = Volume::new(VolumeFormat::Plain, vec![segment]);
    let mut options = DiskOptions::default();
    options.threads = 4;
    let disk = Disk::new(Arc::new(FaultDevice::zeroed(LEN)), volume, options).expect("it fits");
    let data: Vec<u8> = (0..LEN).map(|at| (at / 512 % 251) as u8).collect();
    let mut read = vec![0; LEN];
    let source = FaultDevice::new(data.clone());

    refuse_threads();
    let big = || thread::Builder::new().stack_size(2 << 20).spawn(|| ());
    assert!(big().is_err(), "the limit does not keep threads from being started");
    let (begun, mut reports) = (Instant::now(), 0);
    let done = bulk::encrypt(&source, &disk, BulkOptions::default(), &mut |_: u64, _: u64| reports += 1);
    done.expect("copied without threads");
    // One at either end, and ten a second.
    assert!(reports <= 2 + begun.elapsed().as_millis() / 100, "{reports} reports");
    disk.read_at(0, &mut read).expect("read without threads");
    assert!(read == data, "pieces are missing");
}
