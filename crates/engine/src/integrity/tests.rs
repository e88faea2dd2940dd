use super::*;
use crate::{Access, FileDevice};
use atrest_device::BlockDevice;
use atrest_volume::integrity::{Checksum, Hash};
use std::sync::Arc;

#[test]
fn scratch_kernel() {
    let key = b"keykeykeykeykeykeykeykeykeykeyke";
    for (name, hash, jmac) in [
        ("crc32c-512", "crc32c", false),
        ("sha256-4096", "sha256", false),
        ("crc32-1024", "crc32", false),
        ("hmac-4096", "hmac-sha256", false),
        ("xxhash-512", "xxhash64", false),
        ("hmacmac-512", "hmac-sha256", true),
    ] {
        for kind in ["live", "closed"] {
            let dir = std::path::Path::new("/tmp/q/wtA/target/ex");
            for ro in [true, false] {
                std::fs::copy(dir.join(format!("{name}.{kind}")), dir.join("work")).unwrap();
                let media = Arc::new(
                    FileDevice::open(
                        &dir.join("work"),
                        if ro { Access::ReadOnly } else { Access::ReadWrite },
                    )
                    .unwrap(),
                );
                let sb = read_superblock(&*media, 0).unwrap();
                let spec: atrest_volume::integrity::HashSpec = hash.parse().unwrap();
                let hash = || Hash::new(spec, spec.is_keyed().then_some(&key[..])).unwrap();
                let sum = Checksum::new(hash(), sb.data_unit as usize, sb.tag_len as usize)
                    .unwrap()
                    .with_salt(sb.flags.fixed_hmac.then_some(sb.salt));
                let mut o = OpenOptions::default();
                o.read_only = ro;
                if jmac {
                    o.journal_hash = Some(hash());
                }
                let opened = Integrity::open(media, 0, Box::new(sum), o);
                let opened = match opened {
                    Ok(o) => o,
                    Err(e) => {
                        println!("{name} {kind} {e} {sb:?}");
                        continue;
                    }
                };
                let plain = std::fs::read(dir.join(format!("{name}.plain"))).unwrap();
                assert_eq!(plain.len() as u64, opened.size(), "{name}");
                let mut bad = 0;
                for at in (0..plain.len()).step_by(4096) {
                    let mut buf = [0; 4096];
                    match opened.read(at as u64, &mut buf) {
                        Ok(()) => {
                            if buf != plain[at..at + 4096] {
                                bad += 1000000
                            }
                        }
                        Err(e) => {
                            if bad == 0 {
                                println!("{e}");
                            }
                            bad += 1;
                        }
                    }
                }
                println!(
                    "{name} {kind} ro {ro} bad {bad} pending {:?}",
                    opened.shared.journal.as_ref().map(|j| j.lock().committing.as_ref().map(|b| b.len()))
                );
            }
        }
    }
}
