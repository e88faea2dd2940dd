//! Secrets of a user who may lock no memory. A process of its own, because it gives up its privileges.
#![cfg(target_os = "linux")]

use atrest_secret::{SecretBytes, unlocked_allocations};

/// Takes the right to lock memory away from this process.
fn forbid_locking() {
    let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit during the call, and neither call touches memory of ours.
    let forbidden = unsafe {
        let limited = libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit);
        // Root is not bound by the limit.
        let demoted = if libc::geteuid() == 0 { libc::seteuid(65534) } else { 0 };
        (limited, demoted)
    };
    assert_eq!(forbidden, (0, 0));
}

#[test]
fn secrets_that_can_not_be_locked_are_kept_and_counted() {
    drop(SecretBytes::zeroed(3 << 12));
    let before = unlocked_allocations();
    forbid_locking();
    let mut secrets: Vec<SecretBytes> = (1..4).map(|pages| SecretBytes::zeroed(pages << 16)).collect();
    assert_eq!(unlocked_allocations(), before + 3);
    for secret in &mut secrets {
        secret.fill(0xa5);
    }
    drop(secrets);
    drop(SecretBytes::zeroed(1 << 12));
    drop(SecretBytes::zeroed(1 << 12));
    assert_eq!(unlocked_allocations(), before + 5, "pages that are not locked are not used again");
}
