//! Whole volumes with file systems, between us and a real kernel: what it writes on volumes of ours and of its own we
//! read, and what we write by every way we have it checks, mounts and reads.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use atrest_testkit::Random;
use atrest_testkit::atrest::{FAST_PBKDF2, VolumeFile, atrest, write_key};
use atrest_testkit::kernel::Kernel;
use atrest_testkit::oracle::Program;
use atrest_testkit::{Campaign, Scratch};

/// Volumes by name, with the options of `luksFormat`, which are those of `atrest format`.
const VOLUMES: &[(&str, &str)] = &[
    (
        "argon2id-4k",
        "--type luks2 --sector-size 4096 --pbkdf argon2id --pbkdf-memory 4096 --pbkdf-parallel 2 --pbkdf-force-iterations 4",
    ),
    ("luks1-xts", "--type luks1 --cipher aes-xts-plain64 --key-size 256 --pbkdf-force-iterations 1000"),
    (
        "adiantum",
        "--type luks2 --sector-size 4096 --cipher xchacha12,aes-adiantum-plain64 --key-size 256 --pbkdf pbkdf2 --pbkdf-force-iterations 1000",
    ),
    (
        "serpent-xts",
        "--type luks2 --sector-size 512 --cipher serpent-xts-plain64 --key-size 512 --pbkdf pbkdf2 --pbkdf-force-iterations 1000",
    ),
    (
        "twofish-cbc-essiv",
        "--type luks1 --cipher twofish-cbc-essiv:sha256 --key-size 256 --pbkdf-force-iterations 1000",
    ),
    (
        "aes-lrw-benbi",
        "--type luks1 --cipher aes-lrw-benbi --key-size 384 --hash sha512 --pbkdf-force-iterations 1000",
    ),
    (
        "camellia-xts",
        "--type luks2 --sector-size 1024 --cipher camellia-xts-plain64 --key-size 512 --pbkdf argon2i --pbkdf-memory 1024 --pbkdf-parallel 1 --pbkdf-force-iterations 4",
    ),
    (
        "aes-cbc-essiv-wp256",
        "--type luks1 --cipher aes-cbc-essiv:wp256 --key-size 256 --pbkdf-force-iterations 1000",
    ),
    (
        "aes-xts-essiv",
        "--type luks2 --sector-size 4096 --cipher aes-xts-essiv:sha256 --key-size 512 --pbkdf pbkdf2 --pbkdf-force-iterations 1000",
    ),
    (
        "serpent-cbc-plain",
        "--type luks1 --cipher serpent-cbc-plain --key-size 256 --hash ripemd160 --pbkdf-force-iterations 1000",
    ),
    (
        "twofish-xts-128",
        "--type luks2 --sector-size 512 --cipher twofish-xts-plain64 --key-size 256 --hash sha1 --pbkdf pbkdf2 --pbkdf-force-iterations 1000",
    ),
    (
        "twofish-lrw",
        "--type luks2 --sector-size 512 --cipher twofish-lrw-benbi --key-size 256 --pbkdf pbkdf2 --pbkdf-force-iterations 1000",
    ),
    (
        "adiantum20-luks1",
        "--type luks1 --cipher xchacha20,aes-adiantum-plain64 --key-size 256 --pbkdf-force-iterations 1000",
    ),
    (
        "metadata-4m",
        "--type luks2 --luks2-metadata-size 4m --luks2-keyslots-size 4m --pbkdf pbkdf2 --pbkdf-force-iterations 1000",
    ),
];
const SAMPLE: usize = 3;
/// Bytes of a volume. Guests are slow: those that are read to their last byte are small.
const SIZE: u64 = 40 << 20;
const SMALL: u64 = 24 << 20;

struct Share {
    directory: Scratch,
    key: PathBuf,
}

impl Share {
    /// An ext4 image with the files in it.
    fn ext4(&self, image: &Path) {
        // mke2fs gives small file systems blocks of 1024 bytes, which the kernel can't use on data units of 4096.
        let program = Program::named("mkfs.ext4").args(["-q", "-b", "4096", "-d"]);
        program.arg(self.tree()).arg(image).arg("16M").ok();
    }

    /// A directory with passphrases and a tree of files whose sizes are around those of blocks and extents.
    fn new() -> Self {
        let directory = Scratch::new();
        let key = write_key(directory.as_path(), "key", b"correct horse");
        write_key(directory.as_path(), "second", b"battery staple");
        let tree = directory.path("tree");
        fs::create_dir_all(tree.join("directory/deeper")).expect("make the tree");
        let mut random = Random::new(11);
        for size in [0, 1, 511, 512, 4095, 4096, 4097, 70_001, 1 << 20] {
            fs::write(tree.join(format!("file-{size}")), random.bytes(size)).expect("write the tree");
        }
        fs::write(tree.join("directory/inner.txt"), "inner\n").expect("write the tree");
        fs::write(tree.join("directory/deeper/last"), random.bytes(12345)).expect("write the tree");
        Self { directory, key }
    }

    fn path(&self) -> &Path {
        self.directory.as_path()
    }

    fn tree(&self) -> PathBuf {
        self.path().join("tree")
    }

    /// Paths of the tree's files, relative to it.
    fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut open = vec![self.tree()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).expect("list the tree") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    files.push(path.strip_prefix(self.tree()).expect("below the tree").to_path_buf());
                }
            }
        }
        files.sort();
        files
    }

    /// What `sha256sum -c` takes.
    fn sums(&self) -> String {
        Program::named("sha256sum").arg("--").args(self.files()).current_dir(self.tree()).ok().text()
    }

    fn volume(&self, name: &str) -> VolumeFile {
        VolumeFile { path: self.path().join(format!("{name}.img")), key: self.key.clone() }
    }

    fn format(&self, name: &str, size: u64, options: &str) -> VolumeFile {
        let volume = self.volume(name);
        volume.run("format", &format!("--yes --size {size} {options}")).expect_code(0);
        volume
    }

    /// Boots a script with these volumes as disks, each with its line's last word.
    fn boot(&self, script: &str, volumes: &[(String, String)]) {
        let mut kernel = Kernel::script(script).share(self.path());
        let mut lines = String::new();
        for ((name, word), letter) in volumes.iter().zip('a'..='z') {
            kernel = kernel.disk(&self.volume(name).path);
            writeln!(lines, "{name} /dev/vd{letter} {word}").expect("write to a string");
        }
        fs::write(self.path().join("volumes"), lines).expect("write the list of volumes");
        let outcome = kernel.ok("");
        assert_eq!(outcome.text().lines().count(), volumes.len(), "{}", outcome.text());
    }
}

fn chosen(campaign: &'static str) -> Vec<(&'static str, &'static str)> {
    Campaign::matrix(campaign, SAMPLE).chosen(VOLUMES)
}

#[test]
fn we_read_what_the_kernel_wrote() {
    let share = Share::new();
    let mut volumes = Vec::new();
    let chosen = chosen("volumes that the kernel writes");
    for (name, options) in &chosen {
        let ours = format!("ours-{name}");
        share.format(&ours, SMALL, options);
        volumes.push((ours, "-".to_string()));
    }
    // cryptsetup's own volumes: half of them in the sample.
    for (name, options) in chosen.iter().step_by(if Campaign::is_full() { 1 } else { 2 }) {
        let theirs = format!("theirs-{name}");
        fs::File::create(share.volume(&theirs).path)
            .and_then(|file| file.set_len(SMALL))
            .expect("make an image");
        volumes.push((theirs, options.to_string()));
    }
    // A machine has room for so many disks.
    for part in volumes.chunks(20) {
        share.boot("write.sh", part);
    }
    for (name, _) in &volumes {
        let volume = share.volume(name);
        let plain = share.path().join("plain.img");
        volume.decrypt(&plain);
        let sum = Program::named("sha256sum").arg(&plain).ok().text();
        let expected =
            fs::read_to_string(share.path().join(format!("{name}.sha256"))).expect("the kernel's sum");
        assert_eq!(sum.split(' ').next(), expected.split('\n').next(), "{name}: the plaintexts differ");
        fs::remove_file(&plain).expect("remove the plaintext");
        for file in share.files() {
            let inside = Path::new("/").join(&file);
            let ours = volume.program("cat", "").arg(&inside).ok().stdout;
            assert!(
                ours == fs::read(share.tree().join(&file)).expect("the file"),
                "{name}: {} differs",
                inside.display()
            );
        }
        let link = volume.program("cat", "").arg("/link").ok();
        assert_eq!(link.text(), "inner\n", "{name}: the symbolic link");
        let listing = volume.program("ls", "").arg("/").ok().text();
        assert!(listing.contains("file-70001") && listing.contains("directory"), "{name}: {listing}");
        assert!(
            volume.opens_with(&share.path().join("second")),
            "{name}: the passphrase that the guest added"
        );
    }
    println!("kernel: {} volumes written by it were read by us", volumes.len());
}

#[test]
fn the_kernel_reads_what_we_wrote() {
    let share = Share::new();
    let mut volumes = Vec::new();
    for (name, options) in chosen("volumes that the kernel reads") {
        let ours = format!("ours-{name}");
        let volume = share.format(&ours, SIZE, options);
        let plain = share.path().join("plain.img");
        share.ext4(&plain);
        volume.encrypt(&plain);
        fs::remove_file(&plain).expect("remove the plaintext");
        volumes.push((ours, "ext4".to_string()));
    }
    // Through FUSE, by mkfs itself.
    let fuse = share.format("fuse", SIZE, FAST_PBKDF2);
    let mount = share.path().join("mount");
    fs::create_dir(&mount).expect("make a directory");
    // mke2fs gives small file systems blocks of 1024 bytes, which the kernel can't use on data units of 4096.
    let mkfs = format!("mkfs.ext4 -q -b 4096 -d {} \"$ATREST_PATH\"", share.tree().display());
    fuse.program("open", "").arg("--fuse").arg(&mount).args(["--run", "sh", "-c", &mkfs]).ok();
    volumes.push(("fuse".to_string(), "ext4".to_string()));
    // Through NBD, as an image.
    let nbd = share.format("nbd", SIZE, FAST_PBKDF2);
    let plain = share.path().join("plain.img");
    share.ext4(&plain);
    let copy = format!("nbdcopy {} \"$ATREST_URI\"", plain.display());
    nbd.program("open", "--nbd").args(["--run", "sh", "-c", &copy]).ok();
    volumes.push(("nbd".to_string(), "ext4".to_string()));
    // File by file, into FAT.
    let fat = share.format("fat", SIZE, &format!("{FAST_PBKDF2} --sector-size 512"));
    let plain = share.path().join("fat.plain");
    fs::File::create(&plain).and_then(|file| file.set_len(16 << 20)).expect("make an image");
    Program::named("mkfs.fat").arg(&plain).ok();
    fat.encrypt(&plain);
    for entry in fs::read_dir(share.tree()).expect("list the tree") {
        let path = entry.expect("an entry").path();
        let inside = format!("{}:/", fat.path.display());
        atrest("cp -r --key-file").arg(&fat.key).arg(&path).arg(inside).ok();
    }
    volumes.push(("fat".to_string(), "vfat".to_string()));

    for (name, _) in &volumes {
        fs::write(share.path().join(format!("{name}.sums")), share.sums()).expect("write the sums");
    }
    share.boot("read.sh", &volumes);
    for (name, _) in &volumes {
        let text = share.volume(name).program("cat", "").arg("/kernel.txt").ok().text();
        assert_eq!(text, "the kernel was here\n", "{name}: what the kernel added");
    }
    println!("kernel: {} volumes written by us were checked, mounted and read by it", volumes.len());
}
