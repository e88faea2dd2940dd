//! What a process that holds secrets is like, and what the programs that it starts inherit. A process of its own, because
//! it changes itself.
#![cfg(target_os = "linux")]

/// The soft and the hard limit on core files.
fn core_limits() -> [String; 2] {
    let table = std::fs::read_to_string("/proc/self/limits").expect("Linux has /proc/self/limits");
    let line = table.lines().find_map(|line| line.strip_prefix("Max core file size")).expect("it is listed");
    let mut words = line.split_whitespace().map(String::from);
    [(); 2].map(|()| words.next().expect("a limit"))
}

#[test]
fn core_files_are_off_and_may_be_switched_on_again_by_what_it_starts() {
    let [_, hard] = core_limits();
    atrest_secret::forbid_core_dumps();
    assert_eq!(core_limits(), ["0".to_owned(), hard]);
    // SAFETY: PR_GET_DUMPABLE takes no argument and touches no memory of ours.
    let dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE) };
    assert_eq!(dumpable, 0, "other processes of the user could attach");
}
