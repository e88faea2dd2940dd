//! Process-wide protection of secrets.

/// Asks the system never to write this process's memory to a core file and not to let other processes of the same
/// user attach to it. Best effort: a system without the calls is left as it is.
pub fn forbid_core_dumps() {
    #[cfg(unix)]
    {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `none` is a valid rlimit for the duration of the call, which only reads it.
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
    }
    #[cfg(target_os = "linux")]
    // SAFETY: PR_SET_DUMPABLE takes one integer argument and touches no memory of ours.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0)
    };
}
