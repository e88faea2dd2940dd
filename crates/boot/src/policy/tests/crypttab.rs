use core::time::Duration;

use atrest_volume::CryptFlags;

use super::*;

/// The one entry of a line that has nothing wrong with it.
/// An identifier of a volume key.
const KEY: &str = "000102030405060708090a0b0c0d0e0f";

fn one(text: &str) -> Entry {
    let read = crypttab(text);
    assert_eq!(messages(&read.notices), Vec::<String>::new(), "{text}");
    let [entry] = read.entries.as_slice() else { panic!("{text}: {:?}", read.entries) };
    entry.clone()
}

#[test]
fn fields_are_name_device_key_and_options() {
    let entry = one("root UUID=2505567a-9e27-4efe-a4d5-15ad146c258b");
    assert_eq!((entry.name.as_str(), &entry.key), ("root", &Key::Ask));
    assert_eq!(entry.source, DeviceSpec::Uuid("2505567a-9e27-4efe-a4d5-15ad146c258b".into()));
    assert_eq!((entry.options, entry.origin.to_string()), (Options::default(), "/etc/crypttab:1".into()));
    let file = |path: &str, device: Option<&str>| {
        let device = device.and_then(DeviceSpec::parse);
        Key::File { place: Place { path: Some(path.into()), device }, filesystem: None }
    };
    let device = |text: &str| Key::File {
        place: Place { path: None, device: DeviceSpec::parse(text) },
        filesystem: None,
    };
    let table = [
        ("none", Key::Ask),
        ("-", Key::Ask),
        ("/etc/keys/a", file("/etc/keys/a", None)),
        ("/keyfile:LABEL=keydev", file("/keyfile", Some("LABEL=keydev"))),
        ("/keyfile:/dev/sdb1", file("/keyfile", Some("/dev/sdb1"))),
        ("/key:file", file("/key:file", None)),
        ("/with\\040space", file("/with space", None)),
        ("/dev/sdb", device("/dev/sdb")),
        ("PARTUUID=1-2", device("PARTUUID=1-2")),
    ];
    for (key, expected) in table {
        assert_eq!(one(&format!("a /dev/sda {key}")).key, expected, "{key}");
    }
    assert_eq!(one("a /dev/sda /dev/urandom plain").key, Key::Random);
    assert!(one("\ta\t/dev/sda  none\tdiscard # why").options.flags.allow_discards);
    assert_eq!(crypttab("# only\n\n   # this\n").entries, []);
}

type Change = fn(&mut Options);

#[test]
fn options_of_both_manual_pages_are_known() {
    let table: &[(&str, Change)] = &[
        ("luks", |_| {}),
        ("luks,discard,initramfs", |o| o.flags.allow_discards = true),
        ("tries=0", |o| o.tries = 0),
        ("tries=5,timeout=1min\\04030s", |o| (o.tries, o.timeout) = (5, Some(Duration::from_secs(90)))),
        ("timeout=30", |o| o.timeout = Some(Duration::from_secs(30))),
        ("timeout=0", |o| o.timeout = None),
        ("keyfile-offset=512,keyfile-size=64", |o| (o.key_offset, o.key_size) = (512, Some(64))),
        ("keyfile-timeout=10s", |o| o.key_timeout = Some(Duration::from_secs(10))),
        ("key-slot=3", |o| o.key_slot = Some(3)),
        ("keyslot=3", |o| o.key_slot = Some(3)),
        ("nofail,noauto", |o| (o.nofail, o.noauto) = (true, true)),
        ("read-only", |o| o.read_only = true),
        ("tpm2-measure-pcr=yes", |o| o.measured = Measured::Pcr(15)),
        ("tpm2-measure-pcr", |o| o.measured = Measured::Pcr(15)),
        ("tpm2-measure-pcr=1", |o| o.measured = Measured::Pcr(15)),
        ("tpm2-measure-pcr=12", |o| o.measured = Measured::Pcr(12)),
        ("tpm2-measure-pcr=no", |o| o.measured = Measured::No),
        ("tpm2-measure-pcr=0", |o| o.measured = Measured::No),
        ("expect-key=000102030405060708090a0b0c0d0e0f", |o| o.expected_key = KEY.parse().ok()),
        ("atrest-expect-key=000102030405060708090A0B0C0D0E0F", |o| o.expected_key = KEY.parse().ok()),
        ("header-policy=/etc/policy", |o| o.header_policy = Some(Ok("/etc/policy".into()))),
        ("atrest-header-policy=/etc/policy", |o| o.header_policy = Some(Ok("/etc/policy".into()))),
        ("header-store=tpm2:0x01800001", |o| o.header_store = Some("tpm2:0x01800001".parse())),
        ("atrest-header-store=tpm2:0x1800001", |o| o.header_store = Some("tpm2:0x01800001".parse())),
        ("fixate-volume-key=AA02030405060708090a0b0c0d0e0f10AA02030405060708090a0b0c0d0e0f10", |o| {
            o.fixed_key = Some("aa02030405060708090a0b0c0d0e0f10".repeat(2));
        }),
        ("readonly", |o| o.read_only = true),
        ("headless,try-empty-password=yes", |o| (o.headless, o.try_empty) = (true, true)),
        ("headless=no", |_| {}),
        ("password-cache=no", |o| o.shares_passphrases = false),
        ("password-cache=read-only", |_| {}),
        ("x-systemd.device-timeout=5", |o| o.device_timeout = Some(Duration::from_secs(5))),
        ("x-systemd.device-timeout=0", |o| o.device_timeout = Some(Duration::MAX)),
        ("x-systemd.automount,x-initrd.attach,_netdev", |_| {}),
        ("same-cpu-crypt,submit-from-crypt-cpus,no-read-workqueue,no-write-workqueue", |o| {
            o.flags = CryptFlags {
                same_cpu_crypt: true,
                submit_from_crypt_cpus: true,
                no_read_workqueue: true,
                no_write_workqueue: true,
                ..CryptFlags::default()
            };
        }),
        ("header=/boot/header.img", |o| {
            o.header = Some(Place { path: Some("/boot/header.img".into()), device: None });
        }),
        ("header=/header.img:UUID=12-34", |o| {
            let device = DeviceSpec::parse("UUID=12-34");
            o.header = Some(Place { path: Some("/header.img".into()), device });
        }),
        ("header=/dev/sdb1", |o| {
            o.header = Some(Place { path: None, device: DeviceSpec::parse("/dev/sdb1") });
        }),
        (
            "plain,cipher=aes-cbc-essiv:sha256,size=256,hash=ripemd160,offset=8,skip=16,sector-size=4096",
            |o| {
                o.kind = Kind::Plain;
                o.plain = Plain {
                    cipher: Some("aes-cbc-essiv:sha256".into()),
                    key_bits: Some(256),
                    hash: Some("ripemd160".into()),
                    offset: 8,
                    skip: 16,
                    sector_size: Some(4096),
                    sectors: None,
                };
            },
        ),
    ];
    for (text, change) in table.iter() {
        let mut expected = Options::default();
        change(&mut expected);
        assert_eq!(one(&format!("a /dev/sda none {text}")).options, expected, "{text}");
    }
}

#[test]
fn debians_scripts_are_done_without_them_and_others_are_run() {
    let entry =
        one("a /dev/sda /dev/disk/by-label/stick:/keys/a:7 luks,keyscript=/lib/cryptsetup/scripts/passdev");
    let place = Place { path: Some("/keys/a".into()), device: DeviceSpec::parse("LABEL=stick") };
    assert_eq!(entry.key, Key::File { place, filesystem: None });
    assert_eq!(entry.options.key_timeout, Some(Duration::from_secs(7)));
    assert_eq!(one("a /dev/sda shared keyscript=decrypt_keyctl").key, Key::Ask);
    let script = Key::Script { program: "/sbin/mykey".into(), argument: "an argument".into() };
    assert_eq!(one("a /dev/sda an\\040argument keyscript=/sbin/mykey").key, script);
}

#[test]
fn what_is_wrong_is_told_with_file_and_line_and_costs_only_its_own_volume() {
    // The line, whether its volume stays, and the message.
    let table = [
        ("alone", false, "a line needs a name and a device"),
        ("a /dev/sda none luks extra", true, "more than four fields"),
        ("a/b /dev/sda", false, "\"a/b\" is not a name for a mapping"),
        ("a sda", false, "\"sda\" is no device"),
        ("a UUID=", false, "\"UUID=\" is no device"),
        ("a /dev/sda key", false, "\"key\" is no key file"),
        ("a /dev/sda /dev/urandom", false, "\"/dev/urandom\" is no key file"),
        ("a /dev/s\\9da", false, "a backslash begins"),
        ("a /dev/sda /key\\08", false, "a backslash begins"),
        ("a /dev/sda none header=/a\\", false, "a backslash begins"),
        ("a /dev/sda none tries=x", false, "tries=x makes no sense"),
        ("a /dev/sda none keyfile-offset=-1", false, "keyfile-offset=-1 makes no sense"),
        ("a /dev/sda none plain,size=250", false, "size=250 makes no sense"),
        ("a /dev/sda none plain,header=/h", false, "plain and header= don't go together"),
        ("a /dev/sda none luks,colour=red", true, "the option colour=red is not known and is ignored"),
        ("a /dev/sda none tpm2-device=auto", true, "tpm2-device can't be served here and is passed over"),
        ("a /dev/sda none fido2-device=auto", true, "fido2-device can't be served"),
        ("a /dev/sda none pkcs11-uri=auto", true, "pkcs11-uri can't be served"),
        ("a /dev/sda none tpm2-measure-pcr=24", false, "tpm2-measure-pcr=24 makes no sense"),
        ("a /dev/sda none tpm2-measure-pcr=x", false, "tpm2-measure-pcr=x makes no sense"),
        ("a /dev/sda none expect-key=00", false, "expect-key=00 makes no sense"),
        ("a /dev/sda none header-store=/root/store", false, "header-store=/root/store makes no sense"),
        ("a /dev/sda none header-store", false, "header-store= makes no sense"),
        ("a /dev/sda none expect-key", false, "expect-key= makes no sense"),
        ("a /dev/sda none fixate-volume-key=00", false, "fixate-volume-key=00 makes no sense"),
        ("a /dev/sda none header-policy=policy", false, "header-policy=policy makes no sense"),
        ("a /dev/sda none keyfile-erase", true, "keyfile-erase is not done here"),
        ("a /dev/sda /dev/urandom plain,swap", false, "the booted system makes swap space"),
        ("a /dev/sda /dev/urandom plain,tmp=ext4", false, "the booted system makes temporary space"),
        ("a /dev/sda none tcrypt-veracrypt", false, "cryptsetup opens TrueCrypt"),
        ("a /dev/sda none bitlk", false, "cryptsetup opens BitLocker"),
    ];
    for (text, stays, message) in table {
        let read = crypttab(&format!("# first\nbefore /dev/sdx\n{text}\nafter /dev/sdy\n"));
        let told = messages(&read.notices);
        assert_eq!(read.entries.len(), if stays { 3 } else { 2 }, "{text}: {told:?}");
        assert_eq!(told.len(), 1, "{text}: {told:?}");
        assert!(told[0].starts_with("/etc/crypttab:3: ") && told[0].contains(message), "{text}: {told:?}");
        assert_eq!(read.notices[0].drops_entry(), !stays, "{text}");
    }
}

#[test]
fn a_name_belongs_to_the_first_that_has_it() {
    let policy = Policy::new(Some(crypttab("a /dev/sda\nb /dev/sdb\na /dev/sdc\n")), None);
    assert_eq!(names(&policy), ["a", "b"]);
    assert_eq!(messages(&policy.notices), ["/etc/crypttab:3: a is defined already, at /etc/crypttab:1"]);
}

#[test]
fn what_is_needed_comes_first_and_cycles_are_told() {
    let text = "a /dev/mapper/b\nb /dev/sdb /key:/dev/mapper/c\nc /dev/sdc none header=/dev/mapper/d\nd /dev/sdd\ne /dev/sde\n";
    let policy = Policy::new(Some(crypttab(text)), None);
    assert_eq!(names(&policy), ["d", "c", "b", "a", "e"]);
    assert_eq!(messages(&policy.notices), Vec::<String>::new());
    let text = "own /dev/sda /key:/dev/mapper/own\nx /dev/mapper/y\ny /dev/sdb /key:/dev/mapper/x\nz /dev/mapper/x\nfine /dev/sdc\n";
    let policy = Policy::new(Some(crypttab(text)), None);
    assert_eq!(names(&policy), ["fine"]);
    let told = messages(&policy.notices);
    assert_eq!(told[0], "/etc/crypttab:1: these volumes need each other: own needs own");
    assert_eq!(told[1], "/etc/crypttab:2: these volumes need each other: x needs y needs x");
    assert_eq!(told[2], "/etc/crypttab:3: these volumes need each other: x needs y needs x");
    assert!(told[3].starts_with("/etc/crypttab:4: "), "{told:?}");
}
