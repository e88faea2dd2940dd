use core::time::Duration;

use atrest_open::token::tpm2::BadTpmStore;
use atrest_volume::luks2::VolumeKeyId;

use super::*;

const A: &str = "11111111-9e27-4efe-a4d5-15ad146c258b";
const B: &str = "22222222-9e27-4efe-a4d5-15ad146c258b";

/// What a command line makes of a crypttab, as one line for each volume.
fn told(table: &str, words: &str) -> Vec<String> {
    let words = words.replace("$A", A).replace("$B", B);
    let table = table.replace("$A", A).replace("$B", B);
    let policy = Policy::new((!table.is_empty()).then(|| crypttab(&table)), Some(line(&words)));
    assert_eq!(messages(&policy.notices), Vec::<String>::new(), "{words}");
    policy.entries.iter().map(summary).collect()
}

fn summary(entry: &Entry) -> String {
    let place = |place: &Place| match (&place.path, &place.device) {
        (Some(path), None) => path.clone(),
        (Some(path), Some(device)) => format!("{path}:{device}"),
        (None, device) => device.as_ref().map(ToString::to_string).unwrap_or_default(),
    };
    let key = match &entry.key {
        Key::Ask => "ask".into(),
        Key::File { place: at, filesystem } => {
            format!(
                "{}{}",
                place(at),
                filesystem.as_ref().map(|name| format!(" ({name})")).unwrap_or_default()
            )
        }
        other => format!("{other:?}"),
    };
    let mut more = String::new();
    let options = &entry.options;
    if let Some(header) = &options.header {
        more += &format!(" header={}", place(header));
    }
    for (set, word) in [(options.flags.allow_discards, "discard"), (options.read_only, "read-only")] {
        more += &if set { format!(" {word}") } else { String::new() };
    }
    if let Some(size) = options.key_size {
        more += &format!(" {}+{size}", options.key_offset);
    }
    format!("{} {} {key}{more}", entry.name, entry.source)
        .replace(A, "$A")
        .replace(B, "$B")
        .replace("the LUKS volume whose UUID begins with ", "~")
}

#[test]
fn the_dialects_are_understood() {
    // crypttab, command line, volumes.
    let table: &[(&str, &str, &[&str])] = &[
        // systemd-cryptsetup-generator(8)
        ("", "luks.uuid=$A", &["luks-$A UUID=$A ask"]),
        ("", "rd.luks.uuid=luks-$A", &["luks-$A UUID=$A ask"]),
        ("", "rd.luks.name=$A=root", &["root UUID=$A ask"]),
        ("", "luks.name=$A=root luks.uuid=$A", &["root UUID=$A ask"]),
        ("", "luks.name=$A=root luks.name=$B=home", &["root UUID=$A ask", "home UUID=$B ask"]),
        ("", "luks.uuid=$A luks.options=discard", &["luks-$A UUID=$A ask discard"]),
        (
            "",
            "luks.uuid=$A luks.uuid=$B luks.options=$A=discard luks.options=read-only",
            &["luks-$A UUID=$A ask discard", "luks-$B UUID=$B ask read-only"],
        ),
        ("", "luks.uuid=$A luks.key=/key", &["luks-$A UUID=$A /key"]),
        ("", "luks.uuid=$A luks.key=$A=/key:UUID=$B", &["luks-$A UUID=$A /key:UUID=$B"]),
        ("", "luks.uuid=$A luks.key=$A=/key:LABEL=stick", &["luks-$A UUID=$A /key:LABEL=stick"]),
        (
            "",
            "luks.name=$A=root luks.data=$A=/dev/sdb luks.options=$A=header=/h:UUID=$B",
            &["root /dev/sdb ask header=/h:UUID=$B"],
        ),
        ("", "luks.name=$A=root luks.data=$A=PARTUUID=1-2", &["root PARTUUID=1-2 ask header=UUID=$A"]),
        ("a UUID=$A /k\nb /dev/sdb", "quiet", &["a UUID=$A /k", "b /dev/sdb ask"]),
        ("a UUID=$A /k\nb /dev/sdb", "luks=no", &[]),
        ("a UUID=$A /k\nb /dev/sdb", "rd.luks=0", &[]),
        ("a UUID=$A /k\nb /dev/sdb", "rd.luks.crypttab=no", &[]),
        ("a UUID=$A /k\nb /dev/sdb", "rd.luks.crypttab=no rd.luks.uuid=$B", &["luks-$B UUID=$B ask"]),
        ("a UUID=$A /k\nb UUID=$B", "luks.uuid=$A", &["a UUID=$A /k"]),
        (
            "a UUID=$A /k read-only",
            "luks.uuid=$A luks.uuid=$B luks.options=discard",
            &["a UUID=$A /k read-only", "luks-$B UUID=$B ask discard"],
        ),
        ("a UUID=$A /k read-only", "luks.options=$A=discard", &["a UUID=$A /k discard"]),
        ("a UUID=$A", "luks.key=$A=/other", &["a UUID=$A /other"]),
        // dracut.cmdline(7)
        ("", "rd.luks.uuid=11111111", &["luks-11111111 ~11111111 ask"]),
        ("a UUID=$A", "rd.luks.uuid=luks-11111111", &["a UUID=$A ask"]),
        ("", "rd.luks.uuid=$A rd.luks.allow-discards", &["luks-$A UUID=$A ask discard"]),
        (
            "",
            "rd.luks.uuid=$A rd.luks.uuid=$B rd.luks.allow-discards=$B",
            &["luks-$A UUID=$A ask", "luks-$B UUID=$B ask discard"],
        ),
        ("", "rd.luks.uuid=$A rd.luks.key=/key:UUID=$B", &["luks-$A UUID=$A /key:UUID=$B"]),
        (
            "",
            "rd.luks.uuid=$A rd.luks.uuid=$B rd.luks.key=/key:LABEL=stick:UUID=$B",
            &["luks-$A UUID=$A ask", "luks-$B UUID=$B /key:LABEL=stick"],
        ),
        (
            "",
            "rd.luks.uuid=luks-11111111 rd.luks.key=/key:LABEL=stick:UUID=$A",
            &["luks-11111111 ~11111111 /key:LABEL=stick"],
        ),
        ("", "rd.luks.partuuid=3a-01", &["luks-3a-01 PARTUUID=3a-01 ask"]),
        // mkinitcpio's hook encrypt
        ("", "cryptdevice=/dev/sda2:root", &["root /dev/sda2 /crypto_keyfile.bin"]),
        (
            "",
            "cryptdevice=UUID=$A:cryptroot:allow-discards cryptkey=rootfs:/keys/a",
            &["cryptroot UUID=$A /keys/a discard"],
        ),
        (
            "",
            "cryptdevice=PARTLABEL=root:root cryptkey=UUID=$B:vfat:/keys/a",
            &["root PARTLABEL=root /keys/a:UUID=$B (vfat)"],
        ),
        ("", "cryptdevice=/dev/sda2:root cryptkey=LABEL=stick:auto:/a", &["root /dev/sda2 /a:LABEL=stick"]),
        ("", "cryptdevice=/dev/sda2:root cryptkey=/dev/sdb1:/a", &["root /dev/sda2 /a:/dev/sdb1"]),
        ("", "cryptdevice=/dev/sda2:root cryptkey=/dev/sdb:2048:64", &["root /dev/sda2 /dev/sdb 2048+64"]),
        ("", "\"cryptdevice=PARTLABEL=crypt root:root\"", &["root PARTLABEL=crypt root /crypto_keyfile.bin"]),
    ];
    for (tab, words, expected) in table {
        assert_eq!(told(tab, words), *expected, "{tab:?} {words}");
    }
}

#[test]
fn plain_volumes_of_mkinitcpio_are_described_whole() {
    let policy =
        Policy::new(None, Some(line("cryptdevice=/dev/sda:c crypto=sha512:aes-cbc-essiv:sha256:256:8:")));
    let [entry] = policy.entries.as_slice() else { panic!("{policy:?}") };
    let expected = Plain {
        cipher: Some("aes-cbc-essiv:sha256".into()),
        key_bits: Some(256),
        hash: Some("sha512".into()),
        offset: 8,
        ..Plain::default()
    };
    assert_eq!((entry.options.kind, &entry.options.plain), (Kind::Plain, &expected));
}

#[test]
fn what_init_needs_is_found() {
    let boot = line(
        "root=UUID=ab rootfstype=ext4 rootflags=noatime,data=journal rw init=/sbin/start rootwait quiet \
                     rd.emergency=reboot -- single",
    )
    .boot;
    let expected = Boot {
        root: DeviceSpec::parse("UUID=ab"),
        filesystem: Some("ext4".into()),
        flags: Some("noatime,data=journal".into()),
        writable: true,
        init: Some("/sbin/start".into()),
        wait: true,
        emergency: Emergency::Reboot,
        arguments: vec!["single".into()],
        ..Boot::default()
    };
    assert_eq!(boot, expected);
    assert!(!line("rw ro").boot.writable);
    assert_eq!(line("rd.timeout=20").boot.timeout, Some(Duration::from_secs(20)));
    let stages = [
        ("rd.break", Stage::Switch),
        ("rd.break=pre-mount", Stage::Mount),
        ("break=premount", Stage::Mount),
        ("rd.break=cmdline", Stage::Unlock),
    ];
    for (word, stage) in stages {
        let boot = line(word).boot;
        assert_eq!((boot.stop_at, boot.shell), (Some(stage), true), "{word}");
    }
    let shells = ["rd.shell", "rd.shell=1", "rd.rescue", "rd.shell=0", "quiet"];
    assert_eq!(shells.map(|word| line(word).boot.shell), [true, true, true, false, false]);
}

#[test]
fn parameters_that_make_no_sense_are_named() {
    let words = [
        "rd.luks.uuid=root",
        "luks.name=root",
        "luks.key=key",
        "rd.luks.serial=1",
        "luks=maybe",
        "root=sda1",
        "cryptkey=rootfs",
        "cryptkey=/dev/sdb:0:0",
        "crypto=aes",
        "rd.break=lunch",
        "rd.timeout=soon",
        "luks.uuid",
        "rd.luks.key=/a:/dev/b:/dev/c:/dev/d",
    ];
    for word in words {
        let read = line(&format!("quiet {word} ro"));
        assert_eq!(read.notices.len(), 1, "{word}: {:?}", messages(&read.notices));
        assert!(messages(&read.notices)[0].starts_with(&format!("/proc/cmdline: {word}: ")), "{word}");
        assert!(!read.notices[0].drops_entry(), "{word}");
    }
    let policy = Policy::new(None, Some(line("cryptdevice=sda2:root cryptkey=rootfs:/k")));
    assert_eq!(policy.entries, []);
    assert_eq!(messages(&policy.notices).len(), 1);
}

#[test]
fn the_expected_key_of_the_command_line_beats_that_of_crypttab() {
    let key = |digit: &str| digit.repeat(32);
    let expected = |table: &str, words: &str| {
        let table = table.replace("$A", A).replace("$B", B);
        let words = words.replace("$A", A).replace("$B", B);
        let policy = Policy::new((!table.is_empty()).then(|| crypttab(&table)), Some(line(&words)));
        assert_eq!(messages(&policy.notices), Vec::<String>::new(), "{words}");
        let keys = policy.entries.iter().map(|entry| entry.options.expected_key.map(|key| key.to_string()));
        keys.collect::<Vec<_>>()
    };
    let table = format!("a UUID=$A none expect-key={}\nb UUID=$B\nc /dev/sdc", key("1"));
    let words = |text: &str| text.replace("$2", &key("2")).replace("$3", &key("3"));
    assert_eq!(expected(&table, ""), [Some(key("1")), None, None]);
    assert_eq!(expected(&table, &words("luks.expect-key=$2")), [(); 3].map(|()| Some(key("2"))));
    assert_eq!(expected(&table, &words("rd.luks.expect-key=$B=$3")), [Some(key("1")), Some(key("3")), None]);
    assert_eq!(
        expected(&table, &words("rd.luks.expect-key=$2 rd.luks.expect-key=$A=$3")),
        [Some(key("3")), Some(key("2")), Some(key("2"))]
    );
    assert_eq!(expected("", &words("luks.uuid=$A luks.expect-key=$2")), [Some(key("2"))]);
    // What is mistyped lets no volume in.
    for bad in ["luks.expect-key=00", "luks.expect-key", "luks.expect-key=$A=00"] {
        let policy = Policy::new(None, Some(line(&format!("luks.uuid=$A {bad}").replace("$A", A))));
        assert_eq!(policy.notices.len(), 1, "{bad}");
        let expected: Vec<_> = policy.entries.iter().map(|entry| entry.options.expected_key).collect();
        assert_eq!(expected, [Some(VolumeKeyId::OF_NONE)], "{bad}");
    }
}

#[test]
fn what_the_command_line_demands_of_headers_beats_crypttab_and_mistyped_lets_no_volume_in() {
    let demanded = |table: &str, words: &str| {
        let table = table.replace("$A", A).replace("$B", B);
        let policy = Policy::new(Some(crypttab(&table)), Some(line(&words.replace("$B", B))));
        let told = policy.entries.iter().map(|entry| {
            let store = entry.options.header_store.map(|store| store.map(|store| store.to_string()));
            (entry.options.header_policy.clone(), store)
        });
        (told.collect::<Vec<_>>(), policy.notices.len())
    };
    let table = "a UUID=$A none header-policy=/a,header-store=tpm2:0x01800001\nb UUID=$B";
    let policy = |path: &str| Some(Ok(path.to_owned()));
    let store = |index: &str| Some(Ok(format!("tpm2:0x018000{index}")));
    let (told, notices) = demanded(table, "luks.header-policy=/c luks.header-store=tpm2:0x01800002");
    assert_eq!((told, notices), (vec![(policy("/c"), store("02")), (policy("/c"), store("02"))], 0));
    let (told, notices) =
        demanded(table, "rd.luks.header-policy=$B=/d rd.luks.header-store=$B=tpm2:0x01800003");
    assert_eq!((told, notices), (vec![(policy("/a"), store("01")), (policy("/d"), store("03"))], 0));
    for bad in ["luks.header-store", "luks.header-store=tpm2:1", "luks.header-store=/file"] {
        let (told, notices) = demanded(table, bad);
        assert!(told.iter().all(|(_, store)| *store == Some(Err(BadTpmStore))), "{bad}: {told:?}");
        assert_eq!(notices, 1, "{bad}");
    }
    for (bad, text) in [("luks.header-policy", ""), ("luks.header-policy=name", "name")] {
        let (told, notices) = demanded(table, bad);
        let error = BadPolicyPath { text: text.into() };
        assert!(told.iter().all(|(policy, _)| *policy == Some(Err(error.clone()))), "{bad}: {told:?}");
        assert_eq!(notices, 1, "{bad}");
    }
    let error = BadPolicyPath { text: "name".into() };
    assert_eq!(error.to_string(), "\"name\" is no absolute path: write header-policy=/PATH");
}

/// What one volume is told to be, and how many notices there are.
fn demanded_of_one(table: &str, words: &str) -> (Option<String>, Option<String>, Option<String>, usize) {
    let words = words.replace("$A", A).replace("$B", B);
    let table = table.replace("$A", A).replace("$B", B);
    let policy = Policy::new((!table.is_empty()).then(|| crypttab(&table)), Some(line(&words)));
    let [entry] = policy.entries.as_slice() else { panic!("{words}: {policy:?}") };
    let options = &entry.options;
    (
        options.expected_key.map(|key| key.to_string()),
        options.header_policy.as_ref().map(|path| path.clone().unwrap_or_else(|_| "mistyped".into())),
        options.header_store.map(|store| store.map_or("mistyped".into(), |store| store.to_string())),
        policy.notices.len(),
    )
}

#[test]
fn what_is_demanded_holds_for_mkinitcpios_volume_too() {
    let some = |text: &str| Some(text.to_owned());
    let key = "2".repeat(32);
    for id in ["", "$A=", "11111111="] {
        for only in ["", "luks.uuid=$A rd.luks.crypttab=no"] {
            let device = if only.is_empty() { "cryptdevice=UUID=$A:root" } else { "" };
            let words = format!("{device} {only} luks.expect-key={id}{key} luks.header-policy={id}/p");
            let words = format!("{words} luks.header-store={id}tpm2:0x01800001");
            assert_eq!(
                demanded_of_one("", &words),
                (some(&key), some("/p"), some("tpm2:0x01800001"), 0),
                "{words}"
            );
            let words = format!(
                "{device} {only} luks.expect-key={id}0 luks.header-policy={id}p luks.header-store={id}1"
            );
            let none = VolumeKeyId::OF_NONE.to_string();
            assert_eq!(
                demanded_of_one("", &words),
                (Some(none), some("mistyped"), some("mistyped"), 3),
                "{words}"
            );
        }
    }
    // It is opened whatever is asked for by UUID.
    let policy =
        Policy::new(None, Some(line(&format!("luks.uuid={A} cryptdevice=UUID={B}:b luks.expect-key={key}"))));
    assert_eq!(names(&policy), [&format!("luks-{A}"), "b"]);
    assert!(policy.entries.iter().all(|entry| entry.options.expected_key.is_some()));
}

#[test]
fn what_is_said_of_a_uuid_and_of_its_beginning_is_said_of_one_volume() {
    let some = |text: &str| Some(text.to_owned());
    let words = [
        "rd.luks.uuid=luks-11111111 luks.header-store=$A=tpm2:0x01800001 luks.header-policy=1111=/p",
        "luks.header-store=$A=tpm2:0x01800001 rd.luks.uuid=luks-11111111 luks.header-policy=1111=/p",
        "rd.luks.uuid=$A luks.header-store=11111111=tpm2:0x01800001 luks.header-policy=1111=/p",
        "luks.header-policy=1111=/p luks.options=11111111=header-store=tpm2:0x01800001 rd.luks.uuid=$A",
        "rd.luks.uuid=11111111 luks.options=$A=header-store=tpm2:0x01800001,header-policy=/p",
    ];
    for words in words {
        for table in ["", "a UUID=$A", "a UUID=$A none header-policy=/q"] {
            let told = demanded_of_one(table, words);
            assert_eq!(told, (None, some("/p"), some("tpm2:0x01800001"), 0), "{table:?} {words}");
        }
    }
    // The whole UUID says more than its beginning, in whatever order.
    for words in [
        "luks.header-policy=$A=/whole luks.header-policy=11=/p",
        "luks.header-policy=11=/p luks.header-policy=$A=/whole",
    ] {
        assert_eq!(demanded_of_one("a UUID=$A", words).1, some("/whole"), "{words}");
    }
}

#[test]
fn a_demand_by_a_uuid_that_names_no_volume_is_told() {
    let key = "2".repeat(32);
    let notices = |table: &str, words: &str| {
        let table = table.replace("$A", A).replace("$B", B);
        let words = words.replace("$A", A).replace("$B", B);
        let policy = Policy::new(Some(crypttab(&table)), Some(line(&words)));
        policy.notices
    };
    // By a path, and by one wrong digit.
    for (table, id) in
        [("a /dev/nvme0n1p2", "$A"), ("a PARTUUID=$A", "$A"), ("a UUID=$A", "1111111f"), ("", "$A")]
    {
        let found = notices(table, &format!("luks.expect-key={id}={key}"));
        let [notice] = &found[..] else { panic!("{table}: {found:?}") };
        assert!(notice.problem == Problem::NamesNone && !notice.drops_entry(), "{notice}");
        assert!(notice.to_string().contains(&format!("luks.expect-key={}", id.replace("$A", A))), "{notice}");
    }
    let table = "a UUID=$A\nb UUID=$B\nc /dev/sdc none header=UUID=3333";
    let words = format!("luks.uuid=$B luks.expect-key=$A={key} luks.expect-key=3333={key}");
    assert_eq!(notices(table, &words), [], "volumes that are left out are named, too");
    assert_eq!(notices("", &format!("luks.uuid=$A luks.data=$A=/dev/sdb luks.expect-key=$A={key}")), []);
}

#[test]
fn networks_are_those_that_the_command_line_names_and_a_wrong_one_is_a_warning() {
    let policy = Policy::new(None, Some(line("ip=dhcp ip=10.0.0.7:::24::eth1:off ip=off ip=rarp quiet")));
    let all = &policy.boot.networks;
    let told: Vec<_> = all.iter().map(|network| (network.interface.as_deref(), network.address)).collect();
    let fixed = Address::Fixed { own: [10, 0, 0, 7].into(), prefix: 24, gateway: None };
    assert_eq!(told, [(None, Address::Dhcp), (Some("eth1"), fixed)]);
    let [notice] = &policy.notices[..] else { panic!("{:?}", policy.notices) };
    assert!(!notice.drops_entry() && notice.to_string().contains("rarp"), "{notice}");
}
