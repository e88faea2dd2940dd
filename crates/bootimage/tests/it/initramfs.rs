//! Initramfs files: what goes in, what is refused, and what Debian's kernel unpacks and loads.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use atrest_bootimage::compress::Compression;
use atrest_bootimage::cpio::{Archive, Content, Kind, Limits, Segment, read_chain};
use atrest_bootimage::initramfs::{AddOptions, Contents, InitramfsError, add, build};
use atrest_bootimage::modules;
use atrest_testkit::Scratch;
use atrest_testkit::oracle::{Program, tool, workspace};

/// Debian's kernel, its modules, and a static busybox.
struct Debian {
    kernel: PathBuf,
    modules: PathBuf,
    busybox: PathBuf,
    directory: Scratch,
}

impl Debian {
    fn new() -> Self {
        let oracle = workspace().join("scripts/kernel-oracle");
        let prepared = Program::at(tool("python3")).arg(oracle).arg("--prepare").ok().text();
        let mut lines = prepared.lines().map(PathBuf::from);
        let (kernel, archive) = (lines.next().expect("a kernel"), lines.next().expect("an archive"));
        let tree = kernel.with_extension("").join("usr/lib/modules");
        let modules =
            fs::read_dir(tree).expect("modules").next().expect("a version").expect("readable").path();
        let archive = fs::read(archive).expect("readable");
        let segments = read_chain(&archive, Limits::default()).expect("an initramfs");
        let directory = Scratch::new();
        let busybox = directory.path("busybox");
        fs::write(
            &busybox,
            content(&segments, "bin/busybox")
                .or_else(|| content(&segments, "usr/bin/busybox"))
                .expect("a busybox"),
        )
        .expect("written");
        fs::set_permissions(&busybox, PermissionsExt::from_mode(0o755)).expect("set");
        Self { kernel, modules, busybox, directory }
    }

    fn file(&self, name: &str, content: &[u8], mode: u32) -> PathBuf {
        let path = self.directory.path(name);
        fs::write(&path, content).expect("written");
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("set");
        path
    }

    /// Boots with an initramfs whose `/go` is run as the first process; what the console says.
    fn boot(&self, initramfs: &[u8]) -> String {
        let initramfs = self.file("initramfs", initramfs, 0o600);
        let qemu = Program::named("qemu-system-x86_64")
            .words(
                "-nodefaults -no-user-config -display none -no-reboot -machine pc -accel tcg -cpu max -m 512",
            )
            .words("-serial stdio -append")
            .arg("console=ttyS0 loglevel=4 panic=-1 random.trust_cpu=on cryptomgr.notests rdinit=/go")
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(&initramfs);
        qemu.ok().text().replace('\r', "")
    }
}

fn content(segments: &[Segment<'_>], name: &str) -> Option<Vec<u8>> {
    let found = |segment: &Segment<'_>| {
        let entry = segment.entries.iter().find(|entry| entry.name == name.as_bytes())?;
        (entry.kind() == Kind::File).then(|| segment.data(entry).to_vec())
    };
    segments.iter().rev().find_map(found)
}

/// Loads what the list says and tells what is there.
const GO: &str = "#!/bin/sh
export PATH=/bin
busybox mount -t proc proc /proc
kernel=$(busybox uname -r)
while read module; do
    busybox insmod /lib/modules/$kernel/$module 2>&1 || echo \"not loaded: $module\"
done < /etc/atrest/modules
echo \"LOADED $(busybox cut -d' ' -f1 /proc/modules | busybox sort | busybox tr '\\n' ' ')\"
for file in /init /usr/sbin/atrest-init /etc/crypttab /etc/keys/root.key /dev/console /dev/null /tmp /lib /usr/lib /etc/kept; do
    [ ! -e $file ] || echo \"FILE $file $(busybox stat -c '%a %u %g %F' $file)\"
done
echo \"KEY $(busybox od -An -tx1 /etc/keys/root.key)\"
busybox poweroff -f
";

fn contents(debian: &Debian) -> Contents {
    Contents {
        unlocker: Some(debian.busybox.clone()),
        modules_dir: Some(debian.modules.clone()),
        modules: ["virtio_blk", "virtio-pci", "fs-ext4", "crypto-xts"].map(String::from).to_vec(),
        default_modules: true,
        crypttab: Some(debian.file("crypttab", b"root UUID=x /etc/keys/root.key luks\n", 0o644)),
        keys: vec![(debian.file("key", &[0xde, 0xad, 0], 0o644), "/etc/keys/root.key".into())],
        busybox: Some(debian.busybox.clone()),
        files: vec![(debian.file("go", GO.as_bytes(), 0o755), "/go".into())],
    }
}

fn check_console(console: &str, modules: &[&str]) {
    // A module for instructions that this CPU lacks says so; a wrong order would be an unknown symbol.
    let failed: Vec<&str> =
        console.lines().filter(|line| line.contains("insmod") && !line.contains("No such device")).collect();
    assert_eq!(failed, Vec::<&str>::new(), "{console}");
    let loaded =
        console.lines().find(|line| line.starts_with("LOADED")).unwrap_or_else(|| panic!("{console}"));
    for module in modules {
        assert!(loaded.split(' ').any(|name| name == *module), "{module} is not in: {loaded}");
    }
}

#[test]
fn debian_s_kernel_unpacks_what_we_build_and_loads_the_modules_in_our_order() {
    let debian = Debian::new();
    let contents = contents(&debian);
    let image = build(&contents, Compression::Zstd, 0).expect("built");
    assert_eq!(image.file, build(&contents, Compression::Zstd, 0).expect("built").file, "not the same twice");
    let console = debian.boot(&image.file);
    check_console(
        &console,
        &["dm_crypt", "dm_mod", "ext4", "jbd2", "crc32c_generic", "virtio_blk", "xts", "xfs", "vfat"],
    );
    for line in [
        "FILE /init 755 0 0 regular file",
        "FILE /etc/crypttab 600 0 0 regular file",
        "FILE /etc/keys/root.key 400 0 0 regular file",
        "FILE /dev/console 600 0 0 character special file",
        "FILE /dev/null 666 0 0 character special file",
        "FILE /tmp 1777 0 0 directory",
        "KEY  de ad 00",
    ] {
        assert!(console.lines().any(|found| found == line), "{line:?} is missing:\n{console}");
    }
    let list = &image.report.modules;
    let place =
        |name: &str| list.iter().position(|path| path.ends_with(name)).unwrap_or_else(|| panic!("no {name}"));
    assert!(place("/dm-mod.ko") < place("/dm-crypt.ko") && place("/jbd2.ko") < place("/ext4.ko"));
}

#[test]
fn debian_s_kernel_unpacks_what_we_add_behind_what_it_had() {
    let debian = Debian::new();
    // Of another's making, merged as today's systems are, with microcode in front.
    let tree = debian.directory.path("tree");
    for directory in ["usr/lib", "usr/bin", "etc", "dev", "proc"] {
        fs::create_dir_all(tree.join(directory)).expect("made");
    }
    symlink("usr/lib", tree.join("lib")).expect("linked");
    symlink("usr/bin", tree.join("bin")).expect("linked");
    fs::copy(&debian.busybox, tree.join("usr/bin/busybox")).expect("copied");
    symlink("busybox", tree.join("usr/bin/sh")).expect("linked");
    symlink("/usr/bin/busybox", tree.join("init")).expect("linked");
    fs::write(tree.join("etc/kept"), b"kept").expect("written");
    let script = "find . | LC_ALL=C sort | cpio -o -H newc --quiet -R 0:0 | gzip -n";
    let theirs = Program::named("sh").args(["-c", script]).current_dir(&tree).ok().stdout;
    let mut early = Archive::new();
    early
        .add("kernel/x86/microcode/GenuineIntel.bin", 0o644, Content::File(vec![7; 999].into()), &|_| false)
        .expect("can be added");
    let mut existing = early.to_newc(0).to_vec();
    existing.resize(existing.len().next_multiple_of(512), 0);
    existing.extend_from_slice(&theirs);

    let mut first = contents(&debian);
    first.busybox = None;
    // Few modules: the other test has them all, and xz takes its time.
    first.default_modules = false;
    first.modules.push("dm-crypt".into());
    let go = first.files.split_off(0);
    let second = Contents { unlocker: Some(debian.busybox.clone()), files: go, ..Contents::default() };
    let options =
        |compression, replace_init| AddOptions { compression, replace_init, ..AddOptions::default() };
    let image = add(&existing, &first, options(Some(Compression::Xz), false)).expect("added");
    assert!(image.file.starts_with(&existing), "what was there has changed");
    let image = add(&image.file, &second, options(None, true)).expect("added");
    let segments = read_chain(&image.file, Limits::default()).expect("a chain");
    let compressions: Vec<Compression> = segments.iter().map(|segment| segment.compression).collect();
    assert_eq!(compressions, [Compression::None, Compression::Gzip, Compression::Xz, Compression::Xz]);

    let console = debian.boot(&image.file);
    check_console(&console, &["dm_crypt", "dm_mod", "ext4", "virtio_blk"]);
    for line in [
        "FILE /init 755 0 0 regular file",
        "FILE /usr/sbin/atrest-init 755 0 0 regular file",
        "FILE /lib 777 0 0 symbolic link",
        "FILE /usr/lib 755 0 0 directory",
        "FILE /etc/kept 644 0 0 regular file",
        "KEY  de ad 00",
    ] {
        assert!(console.lines().any(|found| found == line), "{line:?} is missing:\n{console}");
    }
}

#[test]
fn modules_are_unpacked_whatever_the_distribution_packed_them_with() {
    let debian = Debian::new();
    let plain = modules::load(&debian.modules, &["dm_crypt".into()], false).expect("loaded");
    assert_eq!(plain.list(), "kernel/drivers/md/dm-mod.ko\nkernel/drivers/md/dm-crypt.ko\n");
    for (suffix, program) in
        [("gz", "gzip -c -n"), ("xz", "xz -c --check=crc32 --lzma2=dict=1MiB"), ("zst", "zstd -c -q -19")]
    {
        let directory = debian.directory.path(suffix).join("6.1.0-test");
        fs::create_dir_all(directory.join("kernel/drivers/md")).expect("made");
        for file in &plain.files {
            let from = debian.modules.join(&file.path);
            let script =
                format!("{program} < {} > {}.{suffix}", from.display(), directory.join(&file.path).display());
            Program::named("sh").args(["-c", script.as_str()]).ok();
        }
        let dep = format!(
            "kernel/drivers/md/dm-crypt.ko.{suffix}: kernel/drivers/md/dm-mod.ko.{suffix}\nkernel/drivers/md/dm-mod.ko.{suffix}:\n"
        );
        fs::write(directory.join("modules.dep"), dep).expect("written");
        let packed = modules::load(&directory, &["dm-crypt".into()], false).expect("loaded");
        assert_eq!(packed.list(), plain.list(), "{suffix}");
        assert!(
            packed.files.iter().zip(&plain.files).all(|(ours, plain)| ours.data == plain.data),
            "{suffix}"
        );
        assert_eq!((packed.version.as_str(), packed.machine), ("6.1.0-test", plain.machine));
    }
}

#[test]
fn what_could_not_boot_is_refused() {
    let debian = Debian::new();
    let message =
        |contents: &Contents| build(contents, Compression::None, 0).expect_err("refused").to_string();
    let program = |path: &Path| Contents { unlocker: Some(path.into()), ..contents(&debian) };
    let busybox = fs::read(&debian.busybox).expect("readable");

    let dynamic = message(&program(&tool("cpio")));
    assert!(dynamic.ends_with("it is not static; an initramfs has no libraries for it"), "{dynamic}");
    let script = debian.file("script", b"#!/bin/sh\n", 0o755);
    assert!(message(&program(&script)).ends_with("script: it is not an ELF program"));
    let mut other = busybox.clone();
    other[18] = 183;
    let other = debian.file("other", &other, 0o755);
    assert!(message(&program(&other)).ends_with("other: it is made for AArch64, the rest for x86-64"));
    for len in [4, 17, 40, 60, 70] {
        let cut = debian.file("cut", &busybox[..len], 0o755);
        assert!(message(&program(&cut)).ends_with("cut: it is not an ELF program"), "{len}");
    }

    let with = |modules: &[&str]| Contents {
        modules: modules.iter().map(|name| (*name).into()).collect(),
        ..contents(&debian)
    };
    assert_eq!(
        message(&with(&["dm-crypt", "no-such-module"])),
        format!(
            "there is no module \"no-such-module\" in {}, and nothing built in or called so",
            debian.modules.display()
        )
    );
    let image = build(&with(&["unix", "crypto-sha256-generic"]), Compression::None, 0).expect("built");
    assert_eq!(image.report.builtin, ["unix", "crypto-sha256-generic"], "{:?}", image.report);

    let absent = Contents { crypttab: Some("/nonexistent/crypttab".into()), ..contents(&debian) };
    assert!(message(&absent).starts_with("/nonexistent/crypttab: No such file"));
    for name in ["../../x", "a/../x", "/"] {
        let out = Contents { keys: vec![(script.clone(), name.into())], ..contents(&debian) };
        assert!(message(&out).ends_with("can't be the name of a file in an archive"));
    }
    let twice = Contents { keys: vec![(script.clone(), "/init".into())], ..contents(&debian) };
    assert_eq!(message(&twice), "two files would be \"init\"");
}

#[test]
fn what_adding_would_harm_is_told() {
    let debian = Debian::new();
    let tree = debian.directory.path("tree");
    fs::create_dir_all(tree.join("etc/crypttab")).expect("made");
    fs::copy(&debian.busybox, tree.join("init")).expect("copied");
    fs::hard_link(tree.join("init"), tree.join("sh")).expect("linked");
    let archive = Program::named("cpio")
        .words("-o -H newc --quiet")
        .current_dir(&tree)
        .stdin("etc\netc/crypttab\ninit\nsh\n")
        .ok();
    let unlocker = Contents { unlocker: Some(debian.busybox.clone()), ..Contents::default() };
    let options = AddOptions { replace_init: true, ..AddOptions::default() };
    let error = add(&archive.stdout, &unlocker, options).expect_err("harms").to_string();
    assert_eq!(error, "the initramfs has a file with several names, which would all change at /init");
    let crypttab = Contents { crypttab: Some(debian.file("crypttab", b"", 0o644)), ..Contents::default() };
    let error = add(&archive.stdout, &crypttab, AddOptions::default()).expect_err("harms").to_string();
    assert_eq!(error, "the initramfs has a directory at /etc/crypttab");
    let error = add(&archive.stdout[..500], &crypttab, AddOptions::default()).expect_err("cut off");
    assert!(matches!(error, InitramfsError::Existing(_)), "{error}");
}
