//! How far the kernel reads ahead of who reads a mounted file in order.
//!
//! A server may ask for less than the 128 KiB that the kernel begins with, never for more; root can say more in
//! `/sys/class/bdi` once it is mounted (Linux, Documentation/ABI/testing/sysfs-class-bdi). Requests as large as the protocol
//! has them are worth it: fewer turns between the kernel and the server, and pieces that cores can share.

use std::fs;
use std::path::Path;

use rustix::fs::{major, minor};

/// KiB: the largest request.
const READ_AHEAD: u32 = 1 << 10;

/// Raises it for the mounted file system with this device number. Without root, or without sysfs, things stay as they are:
/// only slower.
pub(super) fn raise(device: u64) {
    raise_in(Path::new("/sys/class/bdi"), device);
}

fn raise_in(bdi: &Path, device: u64) {
    let setting = bdi.join(format!("{}:{}", major(device), minor(device))).join("read_ahead_kb");
    let now = fs::read_to_string(&setting).ok().and_then(|text| text.trim().parse::<u32>().ok());
    if now.is_some_and(|now| now < READ_AHEAD) {
        let _ = fs::write(&setting, READ_AHEAD.to_string());
    }
}

#[cfg(test)]
mod tests {
    use atrest_testkit::Scratch;

    use super::*;

    #[test]
    fn it_is_raised_and_never_lowered() {
        let bdi = Scratch::new();
        let setting = bdi.path("0:77").join("read_ahead_kb");
        raise_in(bdi.as_path(), 77);
        assert!(!setting.exists());
        fs::create_dir(bdi.path("0:77")).unwrap();
        for (before, after) in [("128\n", "1024"), ("4096\n", "4096\n")] {
            fs::write(&setting, before).unwrap();
            raise_in(bdi.as_path(), 77);
            assert_eq!(fs::read_to_string(&setting).unwrap(), after);
        }
    }
}
