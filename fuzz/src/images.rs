//! What a machine boots from: initramfs files, device trees and FIT images, the tables of kernel modules.

use std::path::Path;

use atrest_bootimage::cpio::{Limits, read_chain};
use atrest_bootimage::fdt;
use atrest_bootimage::fit::{Fit, PublicKey, verify};
use atrest_bootimage::modules::{Tables, resolve};

/// Bytes that an initramfs may unpack to here.
const UNPACKED: u64 = 4 << 20;

/// An initramfs file: archives, compressed or not.
pub fn initramfs(data: &[u8]) {
    let Ok(segments) = read_chain(data, Limits { unpacked: UNPACKED }) else { return };
    let (mut end, mut unpacked) = (0, 0);
    for segment in &segments {
        assert!(segment.offset >= end && segment.len > 0, "segments lie on one another");
        end = segment.offset + segment.len;
        unpacked += if segment.content.len() == segment.len { 0 } else { segment.content.len() as u64 };
        for entry in &segment.entries {
            assert!(segment.data(entry).len() <= segment.content.len());
            let _ = (entry.name_text(), entry.kind());
        }
    }
    assert!(end <= data.len(), "a segment is longer than the file");
    assert!(unpacked <= UNPACKED, "{unpacked} bytes");
}

/// A device tree, and what is said of it if it is a FIT.
pub fn fit(data: &[u8]) {
    if let Ok(tree) = fdt::read(data)
        && let Ok(blob) = tree.to_blob()
    {
        let again = fdt::read(&blob).expect("what was written can be read");
        assert_eq!(again.root, tree.root);
    }
    let Ok(fit) = Fit::read(data) else { return };
    for image in fit.images().flatten() {
        assert!(image.data.len() <= data.len());
    }
    let _ = (fit.default(), PublicKey::from_tree(&fit.tree));
    if let Ok(report) = verify(&fit, &[]) {
        assert!(!report.is_authentic(), "authentic without a key");
    }
}

/// The tables of modules, with zeros between them: who needs whom, what is built in, softer wishes, other names; in front of them the names
/// that are wanted.
pub fn modules(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.split('\0');
    let mut next = || parts.next().unwrap_or_default();
    let wanted: Vec<String> = next().split_whitespace().take(20).map(String::from).collect();
    let mut tables = Tables::default();
    if tables.read_dep(next()).is_err() {
        return;
    }
    tables.read_builtin(next());
    tables.read_softdep(next());
    tables.read_alias(next());
    tables.read_builtin_info(next().as_bytes());
    let Ok(plan) = resolve(&tables, &wanted, &["dm-crypt"], Path::new("/lib/modules/test")) else { return };
    for (i, path) in plan.load.iter().enumerate() {
        assert!(!plan.load[..i].contains(path), "{path} twice");
        assert!(!path.split('/').any(|part| part == ".."), "{path} leads elsewhere");
    }
}
