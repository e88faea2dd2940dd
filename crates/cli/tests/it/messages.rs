//! What people are told, word for word: what is wrong, and on the second line what to do.

use std::fs;

use crate::common::terminal::{Terminal, ends};
use crate::common::{CHEAP, Scratch};

/// Fails unless exactly this is said, and nothing on standard output.
#[track_caller]
fn says(scratch: &Scratch, words: &[&str], code: i32, what: &str, hint: &str) {
    let ran = scratch.atrest(words);
    let expected = format!("atrest: {what}\n  {hint}\n");
    assert_eq!(
        (ran.code, ran.stderr.as_str(), ran.stdout.as_str()),
        (code, expected.as_str(), ""),
        "{words:?}"
    );
}

/// Fails unless exactly this line is said on standard error. Standard output is not looked at.
#[track_caller]
fn says_only(scratch: &Scratch, words: &[&str], code: i32, what: &str) {
    let ran = scratch.atrest(words);
    assert_eq!((ran.code, ran.stderr), (code, format!("atrest: {what}\n")), "{words:?}");
}

fn format<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["format", "--size", "20M", "--key-file", "key", "new"], &CHEAP[..], more].concat()
}

#[test]
fn of_sizes_and_ciphers_that_do_not_fit() {
    let scratch = Scratch::new();
    scratch.file("key", "k");
    scratch.bash("truncate -s 1M plain").ok();
    let cases: [(&[&str], &str); 5] = [
        (&["--key-size", "128"], "new: the cipher has no keys of 128 bits; it takes 256, 384 or 512 bits"),
        (
            &["--cipher", "serpent-cbc-plain64", "--key-size", "512"],
            "new: the cipher has no keys of 512 bits; it takes 128, 192 or 256 bits",
        ),
        (
            &["--sector-size", "1000"],
            "new: sectors of 1000 bytes are not possible; they have 512, 1024, 2048 or 4096 bytes",
        ),
        (
            &["--type", "luks1", "--sector-size", "4096"],
            "new: sectors of 4096 bytes are not possible in LUKS1; they have 512 bytes",
        ),
        (
            &["--cipher", "xchacha12,aes-adiantum-plain64", "--key-size", "512"],
            "new: the cipher has no keys of 512 bits; it takes 256 bits",
        ),
    ];
    for (options, what) in cases {
        says_only(&scratch, &format(options), 1, what);
        assert!(!scratch.path("new").exists());
    }
    let plain = [
        "decrypt",
        "plain",
        "out",
        "--type",
        "plain",
        "-c",
        "aes-xts-plain64",
        "-s",
        "128",
        "--key-file",
        "key",
    ];
    says_only(
        &scratch,
        &plain,
        1,
        "plain: the cipher has no keys of 128 bits; it takes 256, 384 or 512 bits",
    );
    let ciphers = [
        (
            "aes-xts-plain65",
            "the cipher string names an unknown IV rule",
            "IV rules are null, plain, plain64, plain64be, benbi, essiv:HASH, eboiv, elephant, tcw and lmk, as in aes-xts-plain64",
        ),
        (
            "aes-xtc-plain64",
            "the cipher string names an unknown mode",
            "modes are xts, cbc, lrw, ctr, ecb, adiantum, hpolyc, hctr2 and xex1, as in aes-xts-plain64",
        ),
        (
            "rot-xts-plain64",
            "the cipher string names an unknown cipher",
            "write it as dm-crypt does, as in aes-xts-plain64; `atrest bench` lists the ciphers",
        ),
    ];
    for (cipher, what, hint) in ciphers {
        let what = format!("the cipher \"{cipher}\" can't be used: {what}");
        says(&scratch, &format(&["--cipher", cipher]), 1, &what, hint);
    }
}

#[test]
fn of_directories_that_are_missing() {
    let scratch = Scratch::with_volume();
    let none = |path: &str| {
        (format!("{path}: there is no such directory"), format!("make it first: mkdir -p {path}"))
    };
    let make: [(&[&str], &str); 7] = [
        (&["header", "backup", "vol", "missing/x"], "missing"),
        (&["key", "export", "--yes", "--key-file", "key", "vol", "missing/x"], "missing"),
        (&["decrypt", "--key-file", "key", "--no-checkpoint", "vol", "missing/x"], "missing"),
        (&["format", "--size", "20M", "--key-file", "key", "missing/deep/new"], "missing/deep"),
        (&["info", "missing/vol"], "missing"),
        (&["open", "vol", "--key-file", "key", "--fuse", "nodir"], "nodir"),
        (&["mount", "vol", "no/dir", "--key-file", "key"], "no/dir"),
    ];
    for (words, path) in make {
        let (what, mut hint) = none(path);
        // A directory to mount on is made. A file may be one to read, and then its path is wrong.
        if !path.ends_with("dir") {
            hint = format!("is the path right? For a new file {hint}");
        }
        says(&scratch, words, 4, &what, &hint);
    }
    says_only(&scratch, &["info", "absent"], 4, "absent: there is no such file");
}

#[test]
fn of_a_file_that_is_both_sides() {
    let scratch = Scratch::with_volume();
    let before = fs::read(scratch.path("vol")).expect("the volume");
    scratch.bash("ln -s vol link").ok();
    for other in ["vol", "./vol", "link"] {
        says(
            &scratch,
            &["decrypt", "--yes", "--key-file", "key", "vol", other],
            1,
            &format!("{other}: the volume and the destination are the same file"),
            "name another destination; `atrest reencrypt --decrypt --header FILE` decrypts a volume where it is",
        );
        says(
            &scratch,
            &["encrypt", "--yes", "--key-file", "key", other, "vol"],
            1,
            "vol: the source and the volume are the same file",
            "--in-place encrypts a file or device where it is",
        );
    }
    assert!(!scratch.path("-").exists());
    assert!(fs::read(scratch.path("vol")).expect("the volume") == before);
    scratch.atrest(&["decrypt", "--key-file", "key", "vol", "./-"]).ok();
    assert!(scratch.path("-").exists());
}

#[test]
fn of_words_that_cryptsetup_knows() {
    let scratch = Scratch::with_volume();
    for (name, hint) in [
        (
            "luksOpen",
            "`atrest open` unlocks a volume: --fuse DIR, --nbd or, as cryptsetup does, --dm NAME; plain mode is --type plain",
        ),
        ("luksErase", "here: atrest erase vol"),
        ("luksDump", "`atrest info` shows the header"),
        ("isLuks", "`atrest is-luks` ends with code 4 if a file or device is not a LUKS volume"),
        ("luksSuspend", "here: atrest suspend vol"),
    ] {
        says(&scratch, &[name, "vol"], 1, &format!("there is no command {name}"), hint);
    }
    // Whole commands are answered with the whole command.
    for (words, ours) in [
        (
            &["luksAddKey", "-S", "3", "-d", "old key", "vol"][..],
            "here: atrest key add '--key-file=old key' --new-key-slot=3 vol",
        ),
        (&["--", "luksKillSlot", "-vol", "1"], "here: atrest key kill -- -vol 1"),
    ] {
        let name = words.iter().find(|word| word.starts_with("luks")).expect("a name");
        says(&scratch, words, 1, &format!("there is no command {name}"), ours);
    }
    for (option, name, hint) in [
        (
            "--tries=3",
            "--tries",
            "a passphrase can be typed three times; with --key-file or --passphrase-fd it is tried once",
        ),
        (
            "-T3",
            "-T",
            "a passphrase can be typed three times; with --key-file or --passphrase-fd it is tried once",
        ),
        ("--batch-mode", "--batch-mode", "--yes answers all questions in advance"),
        ("--test-passphrase", "--test-passphrase", "`atrest key test` tries a passphrase"),
    ] {
        says(&scratch, &["info", "vol", option], 1, &format!("{name} is no option of this command"), hint);
    }
    for kind in ["luks1", "luks2"] {
        says(
            &scratch,
            &["open", "--type", kind, "vol", "--nbd"],
            1,
            &format!("--type {kind} is for `atrest format`"),
            "leave it out: the header says whether it is LUKS1 or LUKS2",
        );
    }
    says(
        &scratch,
        &["open", "vol"],
        1,
        "how the volume is to be served is missing",
        "--fuse DIR shows it as the file DIR/volume, --nbd serves it over NBD, --vhost-user to a virtual machine, --dm NAME maps it as root; `atrest mount` shows the files \
         in it",
    );
    // What cryptsetup does not know either is left to the parser.
    scratch.atrest(&["infp", "vol"]).fails(1, "a similar subcommand exists: 'info'");
}

#[test]
fn of_what_is_no_volume() {
    let scratch = Scratch::new();
    scratch.file("key", "k");
    let right = "is it the right file or device? A detached header is named by --header";
    let random = "a VeraCrypt or TrueCrypt volume looks like that: `atrest ls --type tcrypt` tries a password. So do loop-AES and plain \
                  dm-crypt: `atrest ls` with --type loopaes or --type plain tries a key. They only read. Of a LUKS volume with a \
                  detached header, name that by --header";
    let place = |at: usize, bytes: &[u8]| {
        let mut image = vec![0; 1 << 20];
        image[at..at + bytes.len()].copy_from_slice(bytes);
        image
    };
    let mut noise = vec![0; 1 << 20];
    fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut noise))
        .expect("random");
    let zfs = {
        let uberblock = 0x00ba_b10c_u64.to_le_bytes();
        let mut image = vec![0; 1 << 20];
        (0..4).for_each(|block| image[(128 << 10) + block * 1024..][..8].copy_from_slice(&uberblock));
        image
    };
    let bcachefs = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
    let part = "it is a part of another device, on which the volume may be: `lsblk` shows that";
    let images: [(Vec<u8>, (&str, &str)); 12] = [
        (
            place(0, b"integrt\0"),
            (
                "it is a dm-integrity device",
                "`integritysetup open` opens it; `atrest` does so under that name, too",
            ),
        ),
        (
            place(0, b"verity\0\0"),
            ("it is a dm-verity hash device", "`atrest verity` checks and reads the data that it protects"),
        ),
        (
            place(512, b"LABELONE"),
            (
                "it is an LVM physical volume",
                "its logical volumes are devices of their own: `vgchange -ay` makes them, `lvs` lists them",
            ),
        ),
        (place(4096, b"\xfc\x4e\x2b\xa9"), ("it is a Linux RAID member", part)),
        (
            zfs,
            (
                "it holds ZFS",
                "ZFS encrypts its datasets itself: `zpool import`, then `zfs load-key`, open them",
            ),
        ),
        (
            place(4120, bcachefs),
            ("it holds bcachefs", "bcachefs encrypts itself: `bcachefs unlock` and then `mount` open it"),
        ),
        (
            place(4086, b"S1SUSPEND\0"),
            (
                "it holds swap space with a hibernated system",
                "a system is asleep in it, and loses its memory if that is overwritten",
            ),
        ),
        (
            place(32, b"NXSB"),
            (
                "it holds APFS, which FileVault may encrypt",
                "macOS opens it; on Linux `fsapfsmount` of libfsapfs reads it, encrypted volumes too",
            ),
        ),
        (noise, ("no header was found, and what is there looks random", random)),
        (vec![0; 1 << 20], ("nothing is on it", right)),
        (Vec::new(), ("nothing is on it", right)),
        (b"some text\n".repeat(1000), ("no header was found", right)),
    ];
    let refused = |what: &str, hint: &str| {
        let what = format!("x: it is not a LUKS volume, nor encrypted flash: {what}");
        let commands: [&[&str]; 5] = [
            &["info", "x"],
            &["key", "test", "x", "--key-file", "key"],
            &["decrypt", "x", "out", "--key-file", "key"],
            &["open", "x", "--nbd", "--key-file", "key"],
            &["ls", "x", "--key-file", "key"],
        ];
        for command in commands {
            says(&scratch, command, 4, &what, hint);
        }
        // A key of a plain volume is never wrong, so nobody is sent there who may have something else.
        assert!(!hint.contains("--type plain") || what.contains("looks random"));
    };
    for (image, (what, hint)) in images {
        scratch.file("x", image);
        refused(what, hint);
    }
    scratch.bash("truncate -s 4M x && mke2fs -q -F -t ext4 x").ok();
    refused(
        "it holds ext4, which is not encrypted",
        "mount it as it is; `atrest encrypt --in-place` encrypts it",
    );
    scratch.bash("truncate -s 0 x; truncate -s 4M x && echo 'type=83' | sfdisk -q x").ok();
    refused(
        "it has a MBR partition table",
        "if the volume is in one of its partitions, name that: `lsblk` lists them",
    );
}

#[test]
fn of_volumes_of_bitlocker_and_filevault_that_are_damaged() {
    let scratch = Scratch::new();
    scratch.file("key", "k");
    let mut jump = vec![0; 1 << 20];
    jump[3..11].copy_from_slice(b"-FVE-FS-");
    let mut to_go = vec![0; 1 << 20];
    to_go[3..11].copy_from_slice(b"MSWIN4.1");
    to_go[424..440].copy_from_slice(b"\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01");
    let mut core_storage = vec![0; 1 << 20];
    core_storage[88..90].copy_from_slice(b"CS");
    (core_storage[8], core_storage[10]) = (1, 0x10);
    scratch.file("x", core_storage);
    let what = "x: the FileVault volume can't be opened: the checksum of the header is wrong";
    for command in
        [&["info", "x"][..], &["open", "x", "--nbd", "--key-file", "key"], &["ls", "x", "--key-file", "key"]]
    {
        says_only(&scratch, command, 4, what);
    }
    for (image, what) in [
        (
            jump,
            "x: the BitLocker volume can't be opened: the boot sector begins with 00 00 00, as no known edition's does",
        ),
        (to_go, "x: no copy of BitLocker's metadata can be used; of the first one, the signature is missing"),
    ] {
        scratch.file("x", image);
        let commands: [&[&str]; 5] = [
            &["info", "x"],
            &["header", "backup", "x", "out"],
            &["decrypt", "x", "out", "--key-file", "key"],
            &["open", "x", "--nbd", "--key-file", "key"],
            &["ls", "x", "--key-file", "key"],
        ];
        for command in commands {
            let hint = "is the image whole? --header FILE takes what `atrest header backup` has written";
            says(&scratch, command, 4, what, hint);
        }
        says(
            &scratch,
            &["key", "test", "x", "--key-file", "key"],
            4,
            "x: it is not a LUKS volume, nor encrypted flash: it is encrypted by BitLocker, whose protectors Windows alone changes",
            "`atrest info` shows them, `atrest open` opens the volume",
        );
    }
}

#[test]
fn of_a_run_that_was_interrupted() {
    let scratch = Scratch::with_volume();
    scratch.file("source", "new");
    scratch.file("vol.atrest-checkpoint", "");
    scratch.file("out.atrest-checkpoint", "");
    scratch.file("out", "data");
    says(
        &scratch,
        &["decrypt", "--key-file", "key", "vol", "out"],
        1,
        "out holds data, which is overwritten; an interrupted run left out.atrest-checkpoint, and --resume goes on with it; there is no \
         terminal to ask on",
        "pass --yes if that is meant",
    );
    let ran = scratch.atrest(&["encrypt", "--key-file", "key", "source", "vol"]).ok();
    assert_eq!(
        ran.stderr,
        "atrest: warning: this run starts again; an interrupted run left vol.atrest-checkpoint, and --resume goes on with it\n"
    );
    // Over something that is known, the question says it.
    scratch.bash("truncate -s 4M fs && mke2fs -q -t ext4 fs").ok();
    scratch.atrest(&["encrypt", "--yes", "--key-file", "key", "fs", "vol"]).ok();
    scratch.file("vol.atrest-checkpoint", "");
    says(
        &scratch,
        &["encrypt", "--key-file", "key", "source", "vol"],
        1,
        "vol holds a filesystem (ext4), which is overwritten; an interrupted run left vol.atrest-checkpoint, and --resume goes on with it; \
         there is no terminal to ask on",
        "pass --yes if that is meant",
    );
}

#[test]
fn of_an_image_without_room_for_a_header() {
    let scratch = Scratch::new();
    scratch.file("key", "k");
    scratch.bash("truncate -s 40M image && mke2fs -q -t ext4 image").ok();
    let encrypt = [&["encrypt", "--in-place", "image", "--key-file", "key", "--yes"][..], &CHEAP].concat();
    says(
        &scratch,
        &encrypt,
        4,
        "image: the ext2/3/4 on it has 41943040 bytes and reaches into the last 33554432, which the header needs",
        "make the file longer, which changes nothing in it: truncate -s 75497472 image",
    );
    // The advice is good.
    scratch.bash("truncate -s 75497472 image").ok();
    scratch.atrest(&encrypt).ok();
    assert_eq!(scratch.atrest(&["ls", "image", "--key-file", "key"]).ok().stdout, "lost+found\n");
}

#[test]
fn of_files_that_can_not_be_made_in_ext4() {
    let scratch = Scratch::new();
    scratch.file("file", "new");
    scratch.bash("truncate -s 4M fs && mke2fs -q -t ext4 fs").ok();
    says(
        &scratch,
        &["cp", "file", "fs:/file"],
        2,
        "/file: the file tree is read-only",
        "ext4 is read here, and files in it are only overwritten; `atrest mount VOLUME DIR --driver` makes some, by fuse2fs. As root, \
         `atrest open VOLUME --fuse DIR` and mount -o loop DIR/volume /mnt do, too",
    );
    says(
        &scratch,
        &["mkdir", "fs:/new"],
        1,
        "fs: ext4 can only be read here; FAT and LittleFS can be written",
        "`atrest mount VOLUME DIR --driver` mounts it to be written, by fuse2fs",
    );
}

#[test]
fn of_passphrases_that_nobody_can_type() {
    let scratch = Scratch::with_volume();
    let none = "there is no terminal to ask for the passphrase on";
    let existing = "give it by --key-file FILE, --key-file - (standard input) or --passphrase-fd N";
    let new = "give it by --new-key-file FILE, --new-key-file - (standard input) or --new-passphrase-fd N";
    says(&scratch, &["open", "vol", "--nbd"], 1, none, existing);
    says(&scratch, &["key", "add", "vol"], 1, none, existing);
    says(&scratch, &["key", "add", "vol", "--key-file", "key"], 1, none, new);
    says(&scratch, &["key", "change", "vol", "--key-file", "key"], 1, none, new);
    // Tokens that might have opened it are named.
    scratch.file("tpm", r#"{"type":"ssh","keyslots":["0"]}"#);
    scratch.file("fido", r#"{"type":"systemd-fido2","keyslots":["0"]}"#);
    scratch.atrest(&["token", "import", "vol", "tpm"]).ok();
    let one = format!("{none}; token 0 (ssh): its type can't be used here");
    says(&scratch, &["open", "vol", "--nbd"], 1, &one, existing);
    // A recovery key is typed: that is no fault of its token.
    scratch.file("recovery", r#"{"type":"systemd-recovery","keyslots":["0"]}"#);
    scratch.atrest(&["token", "import", "vol", "recovery", "--token-id", "7"]).ok();
    let typed = "token 7 (systemd-recovery): a recovery key is typed in place of a passphrase, or given as a key file";
    says(&scratch, &["open", "vol", "--nbd"], 1, &format!("{one}; {typed}"), existing);
    scratch.atrest(&["token", "remove", "vol", "7"]).ok();
    scratch.atrest(&["token", "import", "vol", "fido"]).ok();
    let two = format!("{one}; token 1 (systemd-fido2): it does not have the fields of its type");
    says(&scratch, &["decrypt", "vol", "out"], 1, &two, existing);
}

#[test]
fn a_typo_in_words_is_asked_for_again() {
    let scratch = Scratch::new();
    scratch.file("key", "zoo zone abandon");
    scratch.atrest(&[&["format", "--size", "20M", "--key-file", "key", "vol"][..], &CHEAP].concat()).ok();
    let mut terminal = Terminal::new();
    let child = terminal.start(&scratch.atrest_command(&["key", "test", "vol", "--words"]));
    for (typed, shown) in [("zoo zxne abandon\n", "try again"), ("zoo zone aban\n", "keyslot 0 opens")] {
        terminal.shows("Passphrase for vol: ");
        terminal.hides();
        terminal.types(typed.as_bytes());
        terminal.shows(shown);
    }
    assert_eq!(ends(child).code(), Some(0));
    // Not for ever.
    let mut terminal = Terminal::new();
    let child = terminal.start(&scratch.atrest_command(&["key", "test", "vol", "--words"]));
    for _ in 0..3 {
        terminal.shows("Passphrase for vol: ");
        terminal.hides();
        terminal.types(b"zoo zxne abandon\n");
    }
    assert_eq!(ends(child).code(), Some(1));
}
