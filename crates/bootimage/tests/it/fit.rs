//! FITs and scripts against Debian's mkimage, dumpimage and dtc, both ways.

use crate::uboot;
use atrest_bootimage::fdt;
use atrest_bootimage::fit::{
    BuildError, ConfigSpec, Fit, FitSpec, HashKind, HashState, ImageKind, ImageSpec, build, script, verify,
};
use atrest_testkit::oracle::Program;

use crate::uboot::{EPOCH, Uboot, source, spec};

#[test]
fn we_read_every_fit_that_mkimage_writes() {
    let uboot = Uboot::new();
    for name in uboot::ITS {
        let file = uboot.mkimage_its(name);
        let fit = Fit::read(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        let images: Vec<_> =
            fit.images().collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{name}: {error}"));
        let listed = uboot.dumpimage_list(&file);
        let names: Vec<&str> = listed.lines().filter_map(|line| line.strip_prefix(" Image ")).collect();
        assert_eq!(images.len(), names.len(), "{name}: {listed}");
        let mut hashes = 0;
        for (number, image) in images.iter().enumerate() {
            assert_eq!(names[number], format!("{number} ({})", image.node.name), "{name}");
            assert_eq!(image.data, uboot.dumpimage_extract(&file, number), "{name}: {}", image.node.name);
            for node in image.node.children.iter().filter(|node| node.name.starts_with("hash")) {
                let value: String = node
                    .property("value")
                    .expect("a value")
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                let algorithm = node.text("algo").expect("an algorithm");
                let lines = format!("  Hash algo:    {algorithm}\n  Hash value:   {value}\n");
                assert!(listed.contains(&lines), "{name}: {lines} is not in\n{listed}");
                hashes += 1;
            }
        }
        let report = verify(&fit, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let states: Vec<_> = report.images.iter().flat_map(|image| &image.hashes).collect();
        assert_eq!((states.len(), hashes > 0), (hashes, true), "{name}");
        for hash in states {
            let expected = if hash.algorithm == "md5" { HashState::Unknown } else { HashState::Good };
            assert_eq!(hash.state, expected, "{name}: {hash:?}");
        }
        // MD5 is not known here, and names with @ are refused by U-Boot.
        let good = !["10-compressed", "11-old-names"].contains(&name);
        assert_eq!(report.is_good(), good, "{name}: {report:?}");
        // Written again, it is the same tree to dtc.
        let again = fit.tree.to_blob().expect("written");
        assert_eq!(uboot.dtc(&again), uboot.dtc(&file), "{name}");
    }
}

#[test]
fn mkimage_and_dtc_agree_with_us_on_every_fit_that_we_write() {
    let uboot = Uboot::new();
    let mut written = 0;
    for kernels in 1..=2 {
        for fdts in 0..=3 {
            for ramdisks in 0..=1 {
                for (hashes, external, wide) in [
                    (&[HashKind::Sha256][..], false, false),
                    (&[HashKind::Crc32, HashKind::Sha1], true, false),
                    (&HashKind::ALL, (kernels + fdts) % 2 == 0, true),
                ] {
                    let case = format!("{kernels} {fdts} {ramdisks} {hashes:?} {external} {wide}");
                    let spec = spec(&uboot, (kernels, fdts, ramdisks), hashes, external, wide);
                    let ours = build(&spec).expect("built");
                    assert_eq!(ours, build(&spec).expect("built"), "{case}: not the same twice");
                    let theirs = uboot.mkimage(&source(&uboot, &spec), if external { "-E" } else { "" });
                    assert_eq!(uboot.dtc(&ours), uboot.dtc(&theirs), "{case}");
                    let listed = uboot.dumpimage_list(&ours);
                    assert_eq!(listed, uboot.dumpimage_list(&theirs), "{case}");
                    for (number, image) in spec.images.iter().enumerate() {
                        assert_eq!(
                            uboot.dumpimage_extract(&ours, number),
                            image.data,
                            "{case}: {}",
                            image.name
                        );
                    }
                    let fit = Fit::read(&ours).expect("a FIT");
                    assert!(verify(&fit, &[]).expect("verified").is_good(), "{case}");
                    written += 1;
                }
            }
        }
    }
    assert_eq!(written, 48);
}

#[test]
fn a_changed_image_is_found_and_a_cut_one_refused() {
    let uboot = Uboot::new();
    for external in [false, true] {
        let spec = spec(&uboot, (1, 2, 1), &[HashKind::Sha256], external, false);
        let file = build(&spec).expect("built");
        for len in 0..file.len() {
            // The last image of an external FIT may lack its padding, and nothing else.
            let cut =
                Fit::read(&file[..len]).and_then(|fit| verify(&fit, &[]).map(|report| report.is_good()));
            assert!(cut.is_err() || file.len() - len <= 3, "{external}: {len} of {}", file.len());
        }
        let fit = Fit::read(&file).expect("a FIT");
        for image in fit.images() {
            let image = image.expect("there");
            let start = image.data.as_ptr() as usize - file.as_ptr() as usize;
            for at in [start, start + image.data.len() / 2, start + image.data.len() - 1] {
                let mut changed = file.clone();
                changed[at] ^= 0x10;
                let changed = Fit::read(&changed).expect("still a FIT");
                let report = verify(&changed, &[]).expect("verified");
                let bad: Vec<_> = report.images.iter().filter(|image| !image.is_good()).collect();
                assert_eq!(bad.len(), 1, "byte {at}");
                assert_eq!((&bad[0].name, &bad[0].hashes[0].state), (&image.node.name, &HashState::Bad));
            }
        }
        // Nothing in it makes the reader fall over.
        for at in 0..file.len().min(1500) {
            for bit in [0, 4, 7] {
                let mut changed = file.clone();
                changed[at] ^= 1 << bit;
                if let Ok(fit) = Fit::read(&changed) {
                    let _ = verify(&fit, &[]);
                    let _ = fit.tree.to_blob();
                }
            }
        }
    }
}

#[test]
fn boards_with_reserved_memory_labels_and_long_names_are_written_as_they_were() {
    let uboot = Uboot::new();
    let board = uboot.read("board.dtb");
    let mut tree = fdt::read(&board).expect("a device tree");
    assert_eq!(tree.reservations, [(0x1000_0000, 0x4000)]);
    tree.boot_cpu = 3;
    let blob = tree.to_blob().expect("written");
    assert_eq!(uboot.dtc(&blob), uboot.dtc(&board));
    assert_eq!(fdt::read(&blob).expect("a device tree"), fdt::Tree { len: blob.len(), ..tree });
}

#[test]
fn trees_that_could_be_read_in_two_ways_are_refused() {
    let uboot = Uboot::new();
    let deep =
        |depth: usize| format!("/dts-v1/;\n/ {{ {} {} }};\n", "n { ".repeat(depth), "}; ".repeat(depth));
    assert!(fdt::read(&uboot.compile(&deep(31))).is_ok());
    let error = fdt::read(&uboot.compile(&deep(32))).expect_err("too deep").to_string();
    assert!(error.ends_with("nodes are nested too deeply"), "{error}");
    let pair = uboot.compile("/dts-v1/;\n/ { ab { x = <1>; }; ac { y = <2>; }; };\n");
    let place = pair.windows(3).position(|window| window == b"ac\0").expect("there");
    let mut twice = pair.clone();
    twice[place + 1] = b'b';
    let error = fdt::read(&twice).expect_err("twice").to_string();
    assert!(error.ends_with("a second \"ab\" beside the first"), "{error}");
    for (field, what) in [(2, "structure"), (3, "block of names"), (4, "list of reserved memory")] {
        for value in [0_u32, 39, 0x7fff_fffc, u32::MAX] {
            let mut wrong = pair.clone();
            wrong[field * 4..field * 4 + 4].copy_from_slice(&value.to_be_bytes());
            let error = fdt::read(&wrong).expect_err("outside").to_string();
            assert!(error.contains(what), "{field} {value:#x}: {error}");
        }
    }
}

#[test]
fn what_u_boot_would_not_take_is_refused() {
    let uboot = Uboot::new();
    let good = spec(&uboot, (1, 1, 1), &[HashKind::Sha256], false, false);
    let wrong = |change: &dyn Fn(&mut FitSpec<'_>)| {
        let mut spec = good.clone();
        change(&mut spec);
        build(&spec).expect_err("refused")
    };
    assert_eq!(wrong(&|spec| spec.images[0].name = "kernel@1".into()), BuildError::Name("kernel@1".into()));
    assert_eq!(wrong(&|spec| spec.images[1].name = "kernel-1".into()), BuildError::Twice("kernel-1".into()));
    assert!(matches!(wrong(&|spec| spec.default = "x".into()), BuildError::Unknown { .. }));
    assert!(matches!(
        wrong(&|spec| spec.configurations[0].images.push("x".into())),
        BuildError::Unknown { .. }
    ));
    assert!(matches!(wrong(&|spec| spec.arch = "z80".into()), BuildError::Value { .. }));
    assert!(matches!(wrong(&|spec| spec.images[0].compression = "rar".into()), BuildError::Value { .. }));
    assert_eq!(wrong(&|spec| spec.images[0].load = None), BuildError::NoLoad("kernel-1".into()));
    assert_eq!(wrong(&|spec| spec.hashes.clear()), BuildError::Empty("a hash"));
    assert!(matches!(wrong(&|spec| spec.images[1].data = b"no device tree"), BuildError::NotFdt { .. }));
    let second = ImageSpec { name: "kernel-2".into(), ..good.images[0].clone() };
    let two = |spec: &mut FitSpec<'_>| {
        spec.configurations =
            vec![ConfigSpec { name: "conf-1".into(), images: vec!["kernel-1".into(), "kernel-2".into()] }];
    };
    let mut spec = FitSpec { images: vec![good.images[0].clone(), second], ..good.clone() };
    two(&mut spec);
    assert_eq!(
        build(&spec).expect_err("refused"),
        BuildError::TwoOf { configuration: "conf-1".into(), kind: ImageKind::Kernel.name() }
    );
}

#[test]
fn scripts_are_those_of_mkimage_byte_for_byte() {
    let uboot = Uboot::new();
    for (arch, title) in
        [("arm", ""), ("arm64", "boot"), ("riscv", "a title of thirty-one bytes, no m"), ("x86_64", "x")]
    {
        let title = &title[..title.len().min(31)];
        for text in ["bootm 0x10000000\n", "setenv bootargs \"root=/dev/mapper/root\"\nbootm ${addr}\n"] {
            let ours = script(text.as_bytes(), arch, title, EPOCH).expect("made");
            let input = uboot.file("boot.txt", text.as_bytes());
            let output = uboot.path("boot.scr");
            let program = Program::named("mkimage").env("SOURCE_DATE_EPOCH", EPOCH.to_string());
            let program = program.args(["-A", arch, "-T", "script", "-C", "none", "-n", title]);
            program.arg("-d").arg(&input).arg(&output).ok();
            assert_eq!(ours, uboot.read("boot.scr"), "{arch} {title:?} {text:?}");
        }
    }
    assert!(script(b"a\0b", "arm64", "", 0).is_err());
    assert!(script(b"", "arm64", "", 0).is_err());
    assert!(script(b"a", "z80", "", 0).is_err());
    assert!(script(b"a", "arm64", &"x".repeat(32), 0).is_err());
}
