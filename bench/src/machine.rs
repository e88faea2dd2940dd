//! Clock, cores and the machine's name.

use std::mem::MaybeUninit;

/// CPU time of this thread in seconds.
pub fn thread_time() -> f64 {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the clock exists on Linux and the call writes one timespec, for which zeros are valid too.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// CPU time of this process, and of those that it has started and waited for, in seconds.
pub fn processor_time() -> [f64; 2] {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].map(|who| {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the call writes one rusage, for which zeros are valid too.
        let usage = unsafe {
            libc::getrusage(who, usage.as_mut_ptr());
            usage.assume_init()
        };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    })
}

/// Runs `work`, and the threads that it starts, on the first `cores` cores of those that this thread may use.
pub fn on_cores<T>(cores: usize, work: impl FnOnce() -> T) -> T {
    let before = affinity();
    let mut fewer = before;
    let mut left = cores;
    for core in 0..libc::CPU_SETSIZE as usize {
        // SAFETY: `core` is below CPU_SETSIZE, the number of bits in a cpu_set_t.
        unsafe {
            if libc::CPU_ISSET(core, &before) && left > 0 {
                left -= 1;
            } else {
                libc::CPU_CLR(core, &mut fewer);
            }
        }
    }
    set_affinity(&fewer);
    let result = work();
    set_affinity(&before);
    result
}

fn affinity() -> libc::cpu_set_t {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: the size is that of the set, for which zeros are valid; 0 is the calling thread.
    unsafe {
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr());
        set.assume_init()
    }
}

fn set_affinity(set: &libc::cpu_set_t) {
    // SAFETY: the size is that of the set, which outlives the call; 0 is the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) };
}

/// The clock now, in GHz, from a chain of dependent additions, each of which takes a cycle.
#[cfg(target_arch = "x86_64")]
pub fn clock() -> Option<f64> {
    const ROUNDS: u64 = 200_000;
    let begun = thread_time();
    let mut sum = 1u64;
    for _ in 0..ROUNDS {
        // SAFETY: adds registers, touches no memory and no stack.
        unsafe {
            std::arch::asm!(
                "add {0}, {1}", "add {0}, {1}", "add {0}, {1}", "add {0}, {1}",
                "add {0}, {1}", "add {0}, {1}", "add {0}, {1}", "add {0}, {1}",
                "add {0}, {1}", "add {0}, {1}", "add {0}, {1}", "add {0}, {1}",
                "add {0}, {1}", "add {0}, {1}", "add {0}, {1}", "add {0}, {1}",
                inout(reg) sum, in(reg) ROUNDS, options(pure, nomem, nostack)
            );
        }
    }
    std::hint::black_box(sum);
    Some(ROUNDS as f64 * 16.0 / (thread_time() - begun) / 1e9)
}

/// The clock is not measured on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub fn clock() -> Option<f64> {
    None
}

/// The processor's name and the number of cores that may be used.
pub fn name() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let has = |flag: &str| info.split_whitespace().any(|word| word == flag);
    let features: Vec<&str> =
        ["aes", "vaes", "avx2", "avx512f"].into_iter().filter(|flag| has(flag)).collect();
    format!("{model}, {cores} cores ({})", features.join(", "))
}

/// How the system schedules this process.
pub fn scheduling() -> &'static str {
    // SAFETY: 0 is the calling process; the call touches no memory of ours.
    match unsafe { libc::sched_getscheduler(0) } {
        libc::SCHED_FIFO | libc::SCHED_RR => "real-time priority, before everything else on the machine",
        _ => "as usual",
    }
}
