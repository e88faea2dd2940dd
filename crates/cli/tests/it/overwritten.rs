//! `repair` tells of keyslot areas that something was written over. Debian's cryptsetup says where they lie, and which passphrases still open.

use crate::common::{CHEAP, Scratch};

/// The byte at which Debian's cryptsetup has the key material of a keyslot.
fn area(scratch: &Scratch, kind: &str, keyslot: usize) -> u64 {
    let dump = scratch.tool("cryptsetup", &["luksDump", "vol"]).stdout;
    let (name, unit) = if kind == "luks1" { ("Key material offset:", 512) } else { ("Area offset:", 1) };
    let mut offsets = dump.lines().filter_map(|line| line.trim().strip_prefix(name));
    let offset = offsets.nth(keyslot).expect("one of that number").trim().trim_end_matches(" [bytes]");
    unit * offset.parse::<u64>().expect("a number")
}

#[test]
fn a_keyslot_area_that_something_was_written_over_is_named() {
    for (kind, bits) in [("luks1", "256"), ("luks2", "512")] {
        let scratch = Scratch::new();
        scratch
            .bash("truncate -s 20M vol; umask 077; echo -n one > a; echo -n two > b; echo -n three > c")
            .ok();
        let made =
            [&["luksFormat", "-q", "--type", kind, "-s", bits][..], &CHEAP[..], &["vol", "a"]].concat();
        assert_eq!(scratch.tool("cryptsetup", &made).code, 0);
        for key in ["b", "c"] {
            let added = [&["luksAddKey", "-q", "-d", "a"][..], &CHEAP[..], &["vol", key]].concat();
            assert_eq!(scratch.tool("cryptsetup", &added).code, 0);
        }
        let whole = scratch.atrest(&["repair", "vol"]).reports(0);
        assert_eq!((whole.stdout.as_str(), whole.stderr.as_str()), ("vol: nothing needs repair\n", ""));
        // Behind the key material, nothing is written by a cipher, and nothing is missed.
        let (second, third) = (area(&scratch, kind, 1), area(&scratch, kind, 2));
        let used = bits.parse::<u64>().expect("bits") / 8 * 4000;
        let last = third + used - 512;
        let fill = |at: u64, count: u64| {
            format!("dd if=/dev/zero of=vol bs=512 seek={} count={count} conv=notrunc status=none", at / 512)
        };
        scratch
            .bash(&format!("{}; {}; {}", fill(second + 1024, 3), fill(last, 1), fill(third + used, 1)))
            .ok();
        let opens = |key| scratch.tool("cryptsetup", &["open", "--test-passphrase", "-d", key, "vol"]).code;
        assert_eq!(["a", "b", "c"].map(opens), [0, 2, 2], "{kind}: what Debian opens");
        let told = scratch.atrest(&["repair", "--json", "vol"]).ok();
        let report: serde_json::Value = serde_json::from_str(&told.stdout).expect("a report");
        let expected = serde_json::json!([
            { "keyslot": 1, "sectors": 3, "first": second + 1024 },
            { "keyslot": 2, "sectors": 1, "first": last },
        ]);
        assert_eq!(report["overwritten"], expected, "{kind}");
        assert_eq!(report["repaired"], false);
        let first = format!(
            "the area of keyslot 1: 3 sectors of it are not random, the first at byte {:#x}",
            second + 1024
        );
        assert!(told.stderr.contains(&first), "{}", told.stderr);
    }
}
