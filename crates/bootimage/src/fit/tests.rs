//! FITs by value, without other programs: what is written, and what is wrong with one that was changed.

use super::*;
use crate::fdt::{self, Tree};

const KERNEL: &[u8] = b"a kernel";
const RAMDISK: &[u8] = b"an initramfs";

fn board() -> Vec<u8> {
    Tree::default().to_blob().expect("a device tree")
}

/// A kernel, a device tree and an initramfs in one configuration.
fn spec(board: &[u8], external: bool) -> FitSpec<'_> {
    let image = |name: &str, kind, data, load| ImageSpec {
        name: name.into(),
        kind,
        data,
        compression: "none".into(),
        load,
        entry: None,
    };
    FitSpec {
        description: "a test".into(),
        arch: "arm64".into(),
        timestamp: 7,
        images: vec![
            image("kernel-1", ImageKind::Kernel, KERNEL, Some(0x8000)),
            image("fdt-1", ImageKind::Fdt, board, None),
            image("ramdisk-1", ImageKind::Ramdisk, RAMDISK, None),
        ],
        configurations: vec![ConfigSpec {
            name: "conf-1".into(),
            images: vec!["kernel-1".into(), "fdt-1".into(), "ramdisk-1".into()],
        }],
        default: "conf-1".into(),
        hashes: vec![HashKind::Sha256],
        external,
    }
}

/// A FIT of which somebody changed the tree.
fn changed(file: &[u8], change: &dyn Fn(&mut Tree<'_>)) -> Vec<u8> {
    let mut tree = fdt::read(file).expect("a device tree");
    let behind = &file[tree.len..];
    change(&mut tree);
    [&tree.to_blob().expect("written"), behind].concat()
}

#[test]
fn a_fit_says_of_its_images_what_they_are_and_where_they_go() {
    let board = board();
    for external in [false, true] {
        let file = build(&spec(&board, external)).expect("built");
        let fit = Fit::read(&file).expect("a FIT");
        let images: Vec<_> = fit.images().map(|image| image.expect("there")).collect();
        for (image, (name, kind, os, data)) in images.iter().zip([
            ("kernel-1", "kernel", Some("linux"), KERNEL),
            ("fdt-1", "flat_dt", None, &board),
            ("ramdisk-1", "ramdisk", Some("linux"), RAMDISK),
        ]) {
            assert_eq!((image.node.name.as_str(), image.data), (name, data), "{external}");
            let told = ["type", "os", "arch", "compression"].map(|name| image.node.text(name));
            assert_eq!(told, [Some(kind), os, Some("arm64"), Some("none")]);
        }
        assert_eq!((images.len(), file.len() % 4), (3, 0));
        let kernel = images[0].node;
        // Begun where it is loaded; the others are put where U-Boot likes.
        assert_eq!(kernel.property("load"), Some(&0x8000_u32.to_be_bytes()[..]));
        assert_eq!(kernel.property("entry"), kernel.property("load"));
        assert!(images[1..].iter().all(|image| image.node.property("entry").is_none()));
        assert_eq!(fit.tree.root.number("#address-cells"), Some(1));
        let configuration = &fit.configurations()[0];
        assert_eq!(configuration.text("description"), Some("Linux kernel, device tree, initramfs"));
        assert_eq!(fit.default(), Some("conf-1"));
        assert!(verify(&fit, &[]).expect("verified").is_good());
    }
}

#[test]
fn addresses_are_as_wide_as_the_widest_needs() {
    let board = board();
    for (load, entry, wide) in [
        (u64::from(u32::MAX), None, false),
        (1 << 32, None, true),
        (0x8000, Some(1 << 32), true),
        (0x8000, Some(0x9000), false),
    ] {
        let mut spec = spec(&board, false);
        (spec.images[0].load, spec.images[0].entry) = (Some(load), entry);
        spec.images[2].load = Some(0x4000);
        let file = build(&spec).expect("built");
        let fit = Fit::read(&file).expect("a FIT");
        assert_eq!(fit.tree.root.number("#address-cells"), Some(if wide { 2 } else { 1 }));
        let images = fit.tree.root.child("images").expect("images");
        let kernel = images.child("kernel-1").expect("a kernel");
        let ramdisk = images.child("ramdisk-1").expect("an initramfs");
        for (node, name, address) in
            [(kernel, "load", load), (kernel, "entry", entry.unwrap_or(load)), (ramdisk, "load", 0x4000)]
        {
            let bytes = address.to_be_bytes();
            let expected = if wide { &bytes[..] } else { &bytes[4..] };
            assert_eq!(node.property(name), Some(expected), "{load:#x} {entry:?} {name}");
        }
    }
}

#[test]
fn data_that_is_in_two_places_or_in_none_is_refused() {
    let board = board();
    let (inside, outside) = (spec(&board, false), spec(&board, true));
    let (inside, outside) = (build(&inside).expect("built"), build(&outside).expect("built"));
    let what = |file: &[u8], change: &dyn Fn(&mut fdt::Node<'_>)| {
        let file = changed(file, &|tree| change(tree.root.child_mut("images").child_mut("ramdisk-1")));
        let fit = Fit::read(&file).expect("a FIT");
        match verify(&fit, &[]) {
            Ok(report) => Err(report.is_good()),
            Err(FitError::Data { image, what }) => {
                assert_eq!(image, "ramdisk-1");
                Ok(what)
            }
            Err(other) => panic!("{other}"),
        }
    };
    let remove = |node: &mut fdt::Node<'_>, name: &str| node.properties.retain(|(known, _)| known != name);
    assert_eq!(what(&inside, &|node| remove(node, "data")), Ok("is not there"));
    assert_eq!(what(&inside, &|node| node.set_u32("data-size", 12)), Ok("is there twice"));
    assert_eq!(what(&outside, &|node| node.set("data", RAMDISK)), Ok("is there twice"));
    assert_eq!(what(&outside, &|node| remove(node, "data-offset")), Ok("has no place"));
    assert_eq!(what(&outside, &|node| node.set("data-size", &b"abc"[..])), Ok("has a size that is none"));
    assert_eq!(what(&outside, &|node| node.set("data-offset", &b"abc"[..])), Ok("has no place"));
    for name in ["data-size", "data-offset", "data-position"] {
        let far = |node: &mut fdt::Node<'_>| node.set_u32(name, u32::MAX);
        assert_eq!(what(&outside, &far), Ok("lies outside of the file"), "{name}");
        let farther = |node: &mut fdt::Node<'_>| node.set(name, vec![0xff; 8]);
        assert!(what(&outside, &farther).is_ok(), "{name}");
    }
    // A position counts from the file's beginning, and before an offset: here it is that of other bytes.
    assert_eq!(what(&outside, &|node| node.set_u32("data-position", 0)), Err(false));
    assert_eq!(what(&outside, &|_| ()), Err(true));
}

#[test]
fn each_wrong_thing_in_a_configuration_is_a_problem() {
    let board = board();
    let file = build(&spec(&board, false)).expect("built");
    let report = |change: &dyn Fn(&mut Tree<'_>)| {
        let file = changed(&file, change);
        verify(&Fit::read(&file).expect("a FIT"), &[]).expect("verified")
    };
    for reference in
        ["kernel", "fdt", "ramdisk", "loadables", "firmware", "standalone", "script", "fpga", "setup"]
    {
        let named = |value: &'static [u8]| {
            let report = report(&|tree| {
                tree.root.child_mut("configurations").child_mut("conf-1").set(reference, value);
            });
            assert!(!report.is_good());
            report.configurations[0].problems.clone()
        };
        assert_eq!(named(b"kernel-1\0gone\0"), [format!("{reference} \"gone\" is not there")]);
        assert_eq!(named(b"kernel-1"), [format!("{reference} is not a name")]);
    }
    let renamed = report(&|tree| tree.root.child_mut("images").children[2].name = "ramdisk@1".into());
    assert!(!renamed.is_good());
    assert_eq!(renamed.problems.len(), 1);
    assert!(renamed.problems[0].contains("\"ramdisk-1\""), "{:?}", renamed.problems);
    for (what, change, state) in [
        ("value", None, HashState::Malformed),
        ("value", Some(&[0; 32][..]), HashState::Bad),
        ("algo", None, HashState::Malformed),
        ("algo", Some(&b"sha3\0"[..]), HashState::Unknown),
        ("algo", Some(&b"sha384\0"[..]), HashState::Bad),
    ] {
        let report = report(&|tree| {
            let node = tree.root.child_mut("images").child_mut("kernel-1").child_mut("hash-1");
            match change {
                Some(value) => node.set(what, value),
                None => node.properties.retain(|(name, _)| name != what),
            }
        });
        assert!(!report.is_good());
        assert_eq!(report.images[0].hashes[0].state, state, "{what} {change:?}");
    }
}

#[test]
fn a_scheme_is_one_that_u_boot_has_and_that_is_strong() {
    for hash in [HashKind::Sha256, HashKind::Sha384, HashKind::Sha512] {
        for bits in [2048, 3072, 4096] {
            for (padding, pss) in [(None, false), (Some("pkcs-1.5"), false), (Some("pss"), true)] {
                let scheme = Scheme { hash, bits, pss };
                assert_eq!(Scheme::parse(&scheme.algorithm(), padding), Some(scheme));
            }
        }
    }
    for algorithm in [
        "",
        "sha256",
        "sha256,",
        "sha256,rsa",
        "sha256,rsa1024",
        "sha256,rsa2047",
        "sha256,ecdsa256",
        "sha1,rsa2048",
        "crc32,rsa2048",
        "md5,rsa2048",
        ",rsa2048",
        "sha256,rsa2048,rsa2048",
    ] {
        assert_eq!(Scheme::parse(algorithm, None), None, "{algorithm:?}");
    }
    for padding in ["", "PSS", "pss ", "none"] {
        assert_eq!(Scheme::parse("sha256,rsa2048", Some(padding)), None, "{padding:?}");
    }
}

#[test]
fn a_script_has_a_title_of_31_bytes_at_most_and_no_zero() {
    let long = "t".repeat(31);
    assert_eq!(script(b"x", "arm64", &long, 0).expect("made")[32..64], [long.as_bytes(), &[0]].concat());
    for title in ["t".repeat(32), "a\0".into()] {
        assert_eq!(script(b"x", "arm64", &title, 0), Err(ScriptError::Title(title)));
    }
    assert_eq!(script(b"", "arm64", "", 0), Err(ScriptError::Empty));
    assert_eq!(script(b"ab\0", "arm64", "", 0), Err(ScriptError::Zero { offset: 2 }));
    assert_eq!(script(b"x", "z80", "", 0), Err(ScriptError::Architecture("z80".into())));
}
