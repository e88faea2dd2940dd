//! Commands that are killed where they write.

use std::fs;

use super::Scratch;

/// Kills a command at each of its writes, or at each `every`-th one, and calls `begin` before and `look` after each. Returns how often it was
/// killed.
pub fn killed_at_writes(
    scratch: &Scratch,
    line: &str,
    every: usize,
    mut begin: impl FnMut(),
    mut look: impl FnMut(&str),
) -> usize {
    const CALLS: [&str; 6] = ["fsync", "renameat", "linkat", "unlink", "pwrite64", "write"];
    begin();
    let traced = format!("strace -f -qq -s 0 -o trace -e trace={} $ATREST {line}", CALLS.join(","));
    scratch.bash(&traced).ok();
    let trace = fs::read_to_string(scratch.path("trace")).expect("the trace");
    let mut kills = 0;
    for call in CALLS {
        for number in (1..=trace.matches(&format!(" {call}(")).count()).step_by(every) {
            begin();
            let inject = format!("-e trace={call} -e inject={call}:signal=KILL:when={number}");
            let ran = scratch.bash(&format!("strace -f -qq -o killed {inject} $ATREST {line}; echo $?"));
            kills += usize::from(ran.stdout.ends_with("137\n"));
            look(&format!("{call} {number}"));
        }
    }
    kills
}
