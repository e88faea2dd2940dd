//! What `df` says of ext4 and FAT inside a volume, held against what their own tools say of the same image.

use crate::common::{CHEAP, Scratch};
use serde_json::Value;

/// `df` of an image that was encrypted as a whole.
fn df(scratch: &Scratch, image: &str, volume_size: &str) -> Value {
    scratch.bash("rm -f vol").ok();
    let format = ["format", "--size", volume_size, "--key-file", "key", "vol"];
    scratch.atrest(&[&format[..], &CHEAP].concat()).ok();
    scratch.atrest(&["encrypt", "--key-file", "key", image, "vol"]).ok();
    scratch.atrest(&["df", "--json", "--key-file", "key", "vol"]).ok().json()
}

fn check(found: &Value, filesystem: &str, block_size: u64, blocks: u64, free: u64) {
    let number = |name: &str| found[name].as_u64().expect("a number");
    assert_eq!(found["filesystem"], filesystem);
    assert_eq!(
        [number("block_size"), number("blocks"), number("free_blocks")],
        [block_size, blocks, free],
        "block size, blocks and free blocks of {filesystem}"
    );
    assert_eq!(number("size"), blocks * block_size);
    assert_eq!(number("free"), free * block_size);
    assert_eq!(number("used"), (blocks - free) * block_size);
}

fn with_tree() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("key", b"k");
    scratch.bash("mkdir -p tree/d/e; head -c 700001 /dev/urandom > tree/d/large; for n in $(seq 40); do echo $n > tree/d/e/$n; done").ok();
    scratch
}

#[test]
fn of_ext_as_dumpe2fs_has_it() {
    let scratch = with_tree();
    for (kind, block) in
        [("ext4", "1024"), ("ext4", "2048"), ("ext4", "4096"), ("ext2", "1024"), ("ext3", "4096")]
    {
        scratch.bash("rm -f plain").ok();
        scratch.bash(&format!("mke2fs -q -t {kind} -b {block} -d tree plain 24M")).ok();
        let dump = scratch.tool("dumpe2fs", &["-h", "plain"]).ok().stdout;
        let field = |name: &str| -> u64 {
            let line = dump.lines().find_map(|line| line.strip_prefix(name)).expect(name);
            line.trim().parse().expect("a number")
        };
        let found = df(&scratch, "plain", "48M");
        let name = found["filesystem"].as_str().expect("a name").to_owned();
        assert!(name.starts_with("ext"), "{name}");
        check(&found, &name, field("Block size:"), field("Block count:"), field("Free blocks:"));
        // The groups have as many, counted from their bitmaps.
        let counted = scratch.bash("dumpe2fs plain 2> /dev/null | grep -o '[0-9]* free blocks' | awk '{ free += $1 } END { print free }'").ok();
        assert_eq!(counted.stdout.trim().parse(), Ok(field("Free blocks:")), "{kind}, {block}");
    }
}

#[test]
fn of_fat_as_fsck_has_it() {
    let scratch = with_tree();
    for (bits, sectors, size) in
        [("12", "4", "4M"), ("16", "4", "20M"), ("16", "16", "100M"), ("32", "1", "40M")]
    {
        scratch.bash(&format!("rm -f plain; truncate -s {size} plain; mkfs.fat -F {bits} -s {sectors} plain && mcopy -s -i plain tree/d ::/")).ok();
        let told = scratch.tool("fsck.fat", &["-n", "-v", "plain"]).ok().stdout;
        // "   512 bytes per cluster", "plain: 44 files, 1414/78609 clusters"
        let per_cluster = told.lines().find_map(|line| line.trim().strip_suffix(" bytes per cluster"));
        let cluster: u64 = per_cluster.and_then(|bytes| bytes.parse().ok()).expect("a number");
        let used = told.lines().rev().find_map(|line| line.strip_suffix(" clusters")?.rsplit(' ').next());
        let (used, all) = used.and_then(|used| used.split_once('/')).expect("used/all");
        let [used, all]: [u64; 2] = [used, all].map(|number| number.parse().expect("a number"));
        let found = df(&scratch, "plain", "150M");
        let name = found["filesystem"].as_str().expect("a name").to_owned();
        assert!(name.to_lowercase().contains("fat"), "{name}");
        check(&found, &name, cluster, all, all - used);
        // And mtools, which count in bytes: "     39 523 840 bytes free".
        let listed = scratch.bash("mdir -i plain ::/ | sed -n 's/ bytes free//p' | tr -d ' '").ok();
        assert_eq!(listed.stdout.trim().parse(), Ok((all - used) * cluster), "FAT{bits}");
    }
}
