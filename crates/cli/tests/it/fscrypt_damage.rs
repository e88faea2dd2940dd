//! ext4 with encrypted directories that is damaged, hostile or cut off, from the command line: each fault is told by the inode that
//! it is in, everything else stays readable, and memory stays small.

use crate::common::{Ran, Scratch};
use std::fs;

const BLOCK: usize = 4096;
/// Inodes below are the filesystem's own.
const FIRST: usize = 11;
/// Offsets in an inode of 256 bytes (kernel, Documentation/filesystems/ext4): sizes, flags, block map, attributes.
const SIZE: usize = 4;
const FLAGS: usize = 32;
const MAP: usize = 40;
const SIZE_HIGH: usize = 108;
const ATTRIBUTES: usize = 160;

/// An image with directories of three policies: `/a` and `/b` of version 2, `/v1` of version 1.
struct Image {
    scratch: Scratch,
    bytes: Vec<u8>,
    /// Where the inodes begin.
    table: usize,
}

impl Image {
    fn new() -> Self {
        let scratch = Scratch::new();
        scratch
            .bash("mkdir -p tree/a/sub tree/b tree/v1; echo hello > tree/a/hello; ln -s hello tree/a/link")
            .ok();
        scratch
            .bash(
                "echo two > tree/b/two; echo one > tree/v1/one; head -c 100000 /dev/urandom > tree/a/sub/big",
            )
            .ok();
        scratch.bash("umask 077; head -c 64 /dev/urandom > key; head -c 64 /dev/urandom > other; head -c 16 key > short").ok();
        scratch
            .atrest(&[
                "tree",
                "build",
                "tree",
                "img",
                "--fscrypt-key",
                "key",
                "--encrypt",
                "a=v2",
                "--encrypt",
                "b=v2:pad=4",
                "--encrypt",
                "v1=v1:key=0123456789abcdef",
            ])
            .ok();
        // What is damaged here has no checksum that says so: a hostile image would have the right one.
        scratch.tool("tune2fs", &["-O", "^metadata_csum", "img"]).ok();
        let bytes = fs::read(scratch.path("img")).expect("the image");
        let mut image = Self { scratch, bytes, table: 0 };
        let first = image.debugfs("imap <1>");
        let block =
            first.split_once("located at block ").and_then(|(_, place)| place.split_once(", offset 0x0000"));
        image.table = block.and_then(|(block, _)| block.parse::<usize>().ok()).expect("its place") * BLOCK;
        image
    }

    fn debugfs(&self, command: &str) -> String {
        let ran = self.scratch.tool("debugfs", &["-R", command, "img"]).ok();
        String::from_utf8_lossy(&ran.raw).into_owned()
    }

    /// Number of the first inode with this mode for which the rest is true. Its directory tells only an encrypted name.
    fn inode(&self, mode: u16, is_it: impl Fn(&usize) -> bool) -> usize {
        let field = |inode: &usize| {
            u16::from_le_bytes([self.bytes[self.at(*inode)], self.bytes[self.at(*inode) + 1]])
        };
        (FIRST..FIRST + 40).filter(|inode| field(inode) == mode).find(is_it).expect("it is there")
    }

    /// The file `/a/hello`, the only one of its size.
    fn hello(&self) -> usize {
        self.inode(0o100_644, |inode| self.bytes[self.at(*inode) + SIZE..][..4] == 6_u32.to_le_bytes())
    }

    /// Inode number of a directory whose name is in the clear.
    fn directory(&self, path: &str) -> usize {
        let shown = self.debugfs(&format!("stat {path}"));
        let number = shown.split_whitespace().nth(1).and_then(|number| number.parse().ok());
        number.expect("its number")
    }

    /// Where an inode lies: all of them follow each other.
    fn at(&self, inode: usize) -> usize {
        self.table + (inode - 1) * 256
    }

    /// The first block of a directory.
    fn block(&self, path: &str) -> usize {
        self.debugfs(&format!("bmap {path} 0")).trim().parse::<usize>().expect("a block") * BLOCK
    }

    /// Puts `bad.img` beside it, which is the same but for these bytes.
    fn damage(&self, changes: &[(usize, &[u8])]) -> &Self {
        let mut bytes = self.bytes.clone();
        for (at, new) in changes {
            bytes[*at..*at + new.len()].copy_from_slice(new);
        }
        self.scratch.file("bad.img", bytes);
        self
    }

    /// Runs atrest with the key, and with little memory.
    fn run(&self, command: &str) -> Ran {
        self.scratch.bash(&format!("ulimit -v 600000; $ATREST {command} --fscrypt-key key"))
    }

    #[track_caller]
    fn says(&self, command: &str, code: i32, what: &str) -> &Self {
        let ran = self.run(command).fails(code, what);
        assert!(ran.stdout.is_empty(), "{}", ran.stdout);
        self
    }

    #[track_caller]
    fn others_are_readable(&self) {
        assert_eq!(self.run("cat bad.img /b/two").ok().stdout, "two\n");
        self.run("cat bad.img /a/sub/big > out").ok();
        self.scratch.bash("cmp out tree/a/sub/big").ok();
    }
}

#[test]
fn keys_open_what_is_theirs_and_nothing_is_ever_garbage() {
    let image = Image::new();
    let scratch = &image.scratch;
    let cat = |path: &str, keys: &[&str]| {
        let keys: Vec<&str> = keys.iter().flat_map(|key| ["--fscrypt-key", key]).collect();
        scratch.atrest(&[&["cat", "img", path], &keys[..]].concat())
    };
    // Version 2 tells by the key itself, version 1 by what it is said to be.
    assert_eq!(cat("/b/two", &["other", "key"]).ok().stdout, "two\n");
    cat("/b/two", &["other"]).fails(2, "its key ").fails(2, "--fscrypt-protector");
    cat("/v1/one", &["key"]).fails(2, "its key 0123456789abcdef is not here");
    cat("/v1/one", &["0123456789abcdef=other"]).fails(2, "it is the wrong key").fails(2, "DESCRIPTOR");
    cat("/v1/one", &["0123456789abcdef=short"]).fails(2, "at least 64 bytes, not 16").fails(2, "whole");
    assert_eq!(cat("/v1/one", &["0123456789abcdef=key"]).ok().stdout, "one\n");
    // Of an image of several policies, what is open can be had although the rest is locked.
    image.says("cp -r img:/ out", 2, "its key 0123456789abcdef");
    scratch.bash("rm -rf out").ok();
    let copied = image.run("cp -r --keep-going --json img:/ out").fails(4, "/v1: inode");
    let copied = copied.json();
    assert_eq!((&copied["files"], &copied["failed"]), (&3.into(), &1.into()));
    scratch.bash("diff -r --no-dereference tree/a out/a && diff -r tree/b out/b && ! test -e out/v1").ok();
}

#[test]
fn contexts_that_are_missing_cut_or_of_another_policy_are_told_by_their_inode() {
    let image = Image::new();
    let (directory, hello) = (image.directory("/a"), image.hello());
    let (at, attributes) = (image.at(hello), image.at(hello) + ATTRIBUTES);
    let says = |changes: &[(usize, &[u8])], what: &str| {
        image.damage(changes).says("cat bad.img /a/hello", 4, &format!("/a/hello: inode {hello}: {what}"));
        image.others_are_readable();
    };
    says(&[(attributes, &[0; 4])], "it is encrypted but has no encryption context");
    // The attribute's size, behind the magic number and 8 bytes of its entry.
    says(&[(attributes + 12, &[20])], "its encryption context has 20 bytes");
    says(&[(attributes + 12, &[0])], "its encryption context has 0 bytes");
    let context = image.bytes[attributes..].windows(3).position(|bytes| bytes == [2, 1, 4]);
    let context = attributes + context.expect("a context of version 2");
    says(&[(context, &[3])], "its encryption context");
    says(&[(context + 1, &[77])], "encryption mode 77 for contents with 4 for names is not supported");
    says(&[(context + 2, &[1])], "encryption mode 1 for contents with 1 for names");
    says(&[(context + 3, &[0xff])], "encryption flags 0xff are not possible");
    says(&[(context + 5, &[1])], "reserved bytes");
    let other_key = [image.bytes[context + 8] ^ 1];
    let other_policy = format!("its encryption policy is not that of its directory, inode {directory}");
    says(&[(context + 8, &other_key)], &other_policy);
    says(&[(at + FLAGS, &0x8_0000_u32.to_le_bytes())], "it is not encrypted, but its directory");

    // The others of the directory are listed and copied, and it is said what was left out.
    image.damage(&[(context + 8, &other_key)]);
    let listed = image.run("ls -l bad.img /a").fails(4, &other_policy).stdout;
    assert!(
        listed.lines().count() == 3 && listed.contains("?????????? ") && listed.contains("link -> hello"),
        "{listed}"
    );
    let listed = image.run("ls --json bad.img /a").fails(4, &other_policy).json();
    assert!(listed[0]["error"].as_str().is_some_and(|error| error.contains(&other_policy)), "{listed}");
    image.says("cp -r bad.img:/a copy", 4, &format!("/a/hello: inode {hello}"));
    image.scratch.bash("rm -rf copy").ok();
    image.run("cp -r --keep-going bad.img:/a copy").fails(4, &other_policy);
    image.scratch.bash("! test -e copy/hello && cmp copy/sub/big tree/a/sub/big && test -L copy/link").ok();

    let directory_at = image.at(directory) + ATTRIBUTES;
    image.damage(&[(directory_at, &[0; 4])]).says("ls bad.img /a", 4, &format!("inode {directory}"));
    assert_eq!(image.run("cat bad.img /b/two").ok().stdout, "two\n");
}

#[test]
fn blocks_sizes_and_links_that_cannot_be_are_errors_in_little_memory() {
    let image = Image::new();
    let hello = image.at(image.hello());
    let link = image.at(image.inode(0o120_777, |_| true));
    let says = |changes: &[(usize, &[u8])], what: &str| {
        image.damage(changes).says("cat bad.img /a/hello", 4, what);
        image.others_are_readable();
    };
    // Behind the 12 bytes of the extents' header: first block, length, upper and lower half of the place.
    says(
        &[(hello + MAP + 20, &0x7fff_ffff_u32.to_le_bytes())],
        "block 2147483647 lies outside the filesystem",
    );
    says(&[(hello + MAP + 18, &[0xff; 2])], "lies outside the filesystem");
    says(&[(hello + MAP + 16, &[0xff, 0x7f])], "lies outside the filesystem");
    says(&[(hello + MAP, &[0])], "the block map of inode");
    says(&[(hello + MAP + 6, &[200])], "the block map of inode");
    says(&[(hello + SIZE_HIGH, &[0xff; 4])], "damaged");
    // What lies behind the blocks is a hole, however large: read as zeros, piece by piece.
    image.damage(&[(hello + SIZE, &[0xff; 4]), (hello + SIZE_HIGH, &[0xff, 0xf])]);
    let read = image
        .scratch
        .bash("ulimit -v 600000; $ATREST cat bad.img /a/hello --fscrypt-key key | head -c 50M | md5sum");
    let zeros = image.scratch.bash("(echo hello; head -c 50M /dev/zero) | head -c 50M | md5sum").ok().stdout;
    assert_eq!(read.ok().stdout, zeros);

    let says = |changes: &[(usize, &[u8])], what: &str| {
        image.damage(changes);
        let listed = image.run("ls -l bad.img /a").fails(4, what).stdout;
        assert_eq!(listed.lines().count(), 3, "{listed}");
        image.others_are_readable();
    };
    says(&[(link + MAP, &[0xff; 2])], "an encrypted name or link target can't have 65535 bytes");
    says(&[(link + MAP, &[0; 2])], "an encrypted name or link target can't have 0 bytes");
    says(&[(link + SIZE, &5000_u32.to_le_bytes())], "/a/link: the filesystem is damaged");
    says(&[(link + SIZE, &70_u32.to_le_bytes())], "/a/link: the filesystem is damaged");
}

#[test]
fn a_directory_in_itself_ends_a_copy() {
    let image = Image::new();
    let parent = image.directory("/a");
    let named = ["/a", "/b", "/v1", "/lost+found"].map(|path| image.directory(path));
    let sub = image.inode(0o040_755, |inode| !named.contains(inode));
    let block = image.block("/a");
    let mut at = block;
    let number = |at: usize| u32::from_le_bytes(image.bytes[at..at + 4].try_into().expect("four bytes"));
    while number(at) as usize != sub {
        at += usize::from(u16::from_le_bytes([image.bytes[at + 4], image.bytes[at + 5]]));
        assert!(at < block + BLOCK, "the entry is there");
    }
    image.damage(&[(at, &(parent as u32).to_le_bytes())]);
    let shared = format!("directory {parent} is found in more than one place");
    image.says("ls bad.img /a/sub/sub/sub", 4, &shared);
    image.says("cp -r bad.img:/a out", 4, "/a and /a/sub are the same directory");
    image.scratch.bash("rm -rf out").ok();
    image.run("cp -r --keep-going bad.img:/a out").fails(4, "/a and /a/sub are the same directory");
    image.scratch.bash("cmp out/hello tree/a/hello && test ! -e out/sub/hello").ok();
}

#[test]
fn images_that_are_cut_off_are_told_so() {
    let image = Image::new();
    for len in [0, 1, 1000, 1024, 2048, BLOCK, 100_000, image.bytes.len() / 2, image.bytes.len() - 1] {
        image.scratch.file("bad.img", &image.bytes[..len]);
        let ran = image.run("cat bad.img /b/two");
        assert!(
            ran.code == 4 && ran.stdout.is_empty() && ran.stderr.contains("bad.img"),
            "{len}: {}",
            ran.stderr
        );
        image.run("cp -r --keep-going bad.img:/ out").fails(4, "bad.img");
    }
    // Cut off and made as long as it was: what is there can be read, or is said to be damaged.
    let mut bytes = image.bytes.clone();
    let block = image.block("/a");
    bytes[block..].fill(0);
    image.scratch.file("bad.img", bytes);
    let ran = image.run("ls bad.img /a");
    assert!(ran.code == 4 && ran.stdout.is_empty(), "{} {}", ran.stdout, ran.stderr);
    image.run("ls bad.img /").ok();
}
