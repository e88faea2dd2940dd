//! A small system on an encrypted root file system, and what it says when it is reached.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use atrest_testkit::Scratch;
use atrest_testkit::atrest::{VolumeFile, atrest, write_key};
use atrest_testkit::board::{Board, Parts};
use atrest_testkit::oracle::Program;

/// What is typed.
pub const PASSPHRASE: &str = "correct horse";
/// What only somebody who reads the encrypted root can print.
pub const GREETING: &str = "a word from the encrypted root";
const INIT: &str = r#"#!/bin/busybox sh
echo "SYSTEM: $(busybox cat /etc/greeting), as process $$, on $(busybox grep ' / ' /proc/mounts)"
echo "SYSTEM: up for $(busybox cut -d' ' -f1 /proc/uptime) s"
busybox poweroff -f
"#;

/// A LUKS2 volume (argon2id) with a root file system, which a key file and a passphrase open; formatted and filled by the program under test.
pub struct System {
    pub directory: Scratch,
    pub volume: VolumeFile,
    pub uuid: String,
    /// The board's device tree.
    pub tree: PathBuf,
}

impl System {
    /// One for all tests. Boards leave their disks as they are.
    pub fn get() -> &'static Self {
        static SYSTEM: OnceLock<System> = OnceLock::new();
        SYSTEM.get_or_init(Self::make)
    }

    fn make() -> Self {
        let directory = Scratch::new();
        let at = |name: &str| directory.path(name);
        for place in ["bin", "sbin", "etc", "dev", "proc", "sys", "run"] {
            fs::create_dir_all(at("root").join(place)).expect("make the root");
        }
        fs::copy(Parts::get().busybox(), at("root/bin/busybox")).expect("copy busybox");
        fs::write(at("root/etc/greeting"), GREETING).expect("write the greeting");
        fs::write(at("root/sbin/init"), INIT).expect("write init");
        fs::set_permissions(at("root/sbin/init"), PermissionsExt::from_mode(0o755))
            .expect("make init a program");
        // The kernel reads no file system whose blocks are smaller than the volume's sectors.
        let mke2fs = Program::named("mke2fs").words("-q -t ext4 -b 4096 -E root_owner=0:0 -d");
        mke2fs.arg(at("root")).arg(at("root.ext4")).arg("24M").ok();

        let cost = "--pbkdf argon2id --pbkdf-memory 16384 --pbkdf-parallel 1 --pbkdf-force-iterations 4";
        let key: Vec<u8> = atrest_testkit::Random::new(8).bytes(64);
        let volume =
            VolumeFile { path: at("root.luks"), key: write_key(directory.as_path(), "root.key", &key) };
        volume.run("format", &format!("--yes --size 42M {cost}")).expect_code(0);
        let passphrase = write_key(directory.as_path(), "passphrase", PASSPHRASE.as_bytes());
        volume.program("key add", cost).arg("--new-key-file").arg(passphrase).ok();
        volume.encrypt(&at("root.ext4"));
        let info = atrest("info --json").arg(&volume.path).ok().json();
        let uuid = info["uuid"].as_str().expect("the volume has a UUID").to_string();
        let tree = at("board.dtb");
        Board::new().write_device_tree(&tree);
        Self { volume, uuid, tree, directory }
    }

    /// A board with the volume as its only disk.
    pub fn board(&self) -> Board {
        Board::new().disk(&self.volume.path)
    }
}
