//! Process-wide protection of secrets.

/// Asks the system never to write this process's memory to a core file and not to let other processes of the same
/// user attach to it. Best effort: a system without the calls is left as it is.
pub fn forbid_core_dumps() {
    #[cfg(unix)]
    {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is a valid rlimit for the duration of both calls; the first fills it in, the second reads it.
        unsafe {
            libc::getrlimit(libc::RLIMIT_CORE, &mut limit);
            // The hard limit stays: a program that this one starts may want its own core files.
            limit.rlim_cur = 0;
            libc::setrlimit(libc::RLIMIT_CORE, &limit);
        }
    }
    #[cfg(target_os = "linux")]
    // SAFETY: PR_SET_DUMPABLE takes one integer argument and touches no memory of ours.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0)
    };
}
