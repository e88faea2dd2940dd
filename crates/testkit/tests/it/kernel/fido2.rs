//! A security key in software as a device of a real kernel (`uhid`): systemd 252 and libfido2 of this machine's Debian find it by themselves, and so do we.

use std::path::Path;

use atrest_testkit::Scratch;
use atrest_testkit::atrest::binary;
use atrest_testkit::campaign::Campaign;
use atrest_testkit::kernel::Kernel;
use atrest_testkit::needs::skipped;
use atrest_testkit::oracle::Program;

#[test]
fn in_whole_campaigns_a_security_key_is_a_device_of_the_kernel_for_systemd_and_for_us() {
    if !Campaign::is_full() {
        return skipped("a guest that runs for minutes: ATREST_CAMPAIGN=full, or make test-full");
    }
    let place = Scratch::new();
    Program::named("strip").arg("-o").arg(place.path("atrest")).arg(binary()).ok();
    place.file("authenticator.py", include_str!("../../../src/authenticator.py"));
    place.file("uhid.py", include_str!("../../../src/uhid.py"));
    let kernel = Kernel::script("fido2.sh").module("uhid").module("hid-generic").share(Path::new("/"));
    let told = kernel.ok(place.as_path().to_str().expect("plain letters")).text();
    let good: Vec<&str> = told.lines().filter_map(|line| line.strip_suffix(": good")).collect();
    let parts = [
        "the kernel has the device",
        "what systemd enrols opens here",
        "what we enrol opens by systemd",
        "what we enrol with a PIN opens by systemd",
        "another key opens nothing",
    ];
    assert_eq!(good, parts, "{told}");
}
