//! Signed FITs against Debian's mkimage, both ways.

use atrest_bootimage::fdt;
use atrest_bootimage::fit::{
    Fit, HashKind, PrivateKey, PublicKey, Report, SignSpec, SignatureState, build, build_signed, verify,
};
use atrest_testkit::oracle::Program;

use crate::uboot::{Uboot, spec};

fn private(uboot: &Uboot) -> PrivateKey {
    PrivateKey::from_pem(&uboot.read("keys/dev.key")).expect("a key")
}

/// The public key, as OpenSSL takes it from the certificate.
fn public(uboot: &Uboot) -> PublicKey {
    let certificate = uboot.path("keys/dev.crt");
    let pem = Program::named("openssl").words("x509 -pubkey -noout -in").arg(certificate).ok().stdout;
    PublicKey::from_pem(&pem).expect("a key")
}

fn sign(key: &PrivateKey, hash: HashKind, pss: bool) -> SignSpec<'_> {
    SignSpec { key, name: "dev".into(), hash, pss }
}

fn states(report: &Report) -> Vec<SignatureState> {
    report
        .configurations
        .iter()
        .flat_map(|config| &config.signatures)
        .map(|check| check.state.clone())
        .collect()
}

#[test]
fn we_verify_what_mkimage_signs_and_find_every_change_of_it() {
    let uboot = Uboot::new();
    let (ours, other) = (public(&uboot), Uboot::new());
    for (name, signatures) in [("08-signed", 1), ("09-signed-twice", 2)] {
        let file = uboot.mkimage_its(name);
        let fit = Fit::read(&file).expect("a FIT");
        let report = verify(&fit, std::slice::from_ref(&ours)).expect("verified");
        assert_eq!(states(&report), vec![SignatureState::Good; signatures], "{name}");
        assert!(report.is_authentic(), "{name}");
        let images: Vec<_> =
            report.images.iter().flat_map(|image| &image.signatures).map(|check| &check.state).collect();
        assert_eq!(images, vec![&SignatureState::Good; signatures - 1], "{name}: the image's own");
        let stranger = verify(&fit, &[public(&other)]).expect("verified");
        assert_eq!(states(&stranger), vec![SignatureState::Bad; signatures], "{name}");
        let nobody = verify(&fit, &[]).expect("verified");
        assert_eq!(states(&nobody), vec![SignatureState::NoKey; signatures], "{name}");
        assert!(nobody.is_good() && !nobody.is_authentic());
        let mut found = 0;
        // Every byte of the configurations, and a sample of the others.
        let configurations = file.windows(15).position(|piece| piece == b"configurations\0").expect("there");
        let others = (0..file.len()).step_by(13);
        for at in others.chain(configurations..configurations + 400) {
            let mut changed = file.clone();
            changed[at] ^= 0x20;
            let Ok(fit) = Fit::read(&changed) else { continue };
            let Ok(report) = verify(&fit, std::slice::from_ref(&ours)) else { continue };
            let was = Fit::read(&file).expect("a FIT");
            let images = fit.images().zip(was.images()).all(|(new, old)| {
                let (new, old) = (new.expect("there"), old.expect("there"));
                new.data == old.data && new.node.properties == old.node.properties
            });
            let configurations = fit
                .configurations()
                .iter()
                .zip(was.configurations())
                .all(|(new, old)| (&new.name, &new.properties) == (&old.name, &old.properties));
            let same = images && configurations && fit.configurations().len() == was.configurations().len();
            assert!(same || !report.is_authentic(), "{name}: byte {at} was changed and nobody saw it");
            found += usize::from(!report.is_authentic());
        }
        assert!(found > 400, "{name}: {found}");
    }
}

#[test]
fn mkimage_signs_to_the_same_value_as_we_do() {
    let uboot = Uboot::new();
    let key = private(&uboot);
    for (shape, hash, external) in [
        ((1, 1, 1), HashKind::Sha256, false),
        ((2, 3, 1), HashKind::Sha256, true),
        ((1, 0, 0), HashKind::Sha384, false),
        ((2, 2, 0), HashKind::Sha512, false),
        ((2, 3, 1), HashKind::Sha256, false),
    ] {
        let case = format!("{shape:?} {hash} {external}");
        let spec = spec(&uboot, shape, &[HashKind::Sha256, HashKind::Crc32], external, false);
        let ours = build_signed(&spec, &sign(&key, hash, false)).expect("signed");
        assert_eq!(
            ours,
            build_signed(&spec, &sign(&key, hash, false)).expect("signed"),
            "{case}: not the same twice"
        );
        assert!(
            verify(&Fit::read(&ours).expect("a FIT"), &[public(&uboot)]).expect("verified").is_authentic(),
            "{case}"
        );
        uboot.file("ours.itb", &ours);
        uboot.run_mkimage(if external { "-F -E -k keys -r ours.itb" } else { "-F -k keys -r ours.itb" });
        let theirs = uboot.read("ours.itb");
        if external {
            // mkimage takes the images in and puts them out again, which leaves one more name behind.
            let theirs = Fit::read(&theirs).expect("a FIT");
            assert!(
                verify(&theirs, &[public(&uboot)]).expect("verified").is_authentic(),
                "{case}: mkimage's"
            );
            continue;
        }
        let (ours, theirs) = (Fit::read(&ours).expect("a FIT"), Fit::read(&theirs).expect("a FIT"));
        let mut compared = 0;
        for (our, their) in ours.configurations().iter().zip(theirs.configurations()) {
            let (our, their) =
                (our.child("signature-1").expect("signed"), their.child("signature-1").expect("signed"));
            assert_eq!(their.text("signer-name"), Some("mkimage"), "{case}: mkimage did not sign");
            assert_eq!(our.texts("hashed-nodes"), their.texts("hashed-nodes"), "{case}");
            for name in ["hashed-strings", "value", "algo", "key-name-hint"] {
                assert_eq!(our.property(name), their.property(name), "{case}: {name}");
            }
            compared += 1;
        }
        assert_eq!(compared, spec.configurations.len(), "{case}");
    }
}

#[test]
fn u_boot_s_control_tree_gets_the_same_key_from_us_as_from_mkimage() {
    let uboot = Uboot::new();
    let key = private(&uboot);
    let spec = spec(&uboot, (1, 1, 1), &[HashKind::Sha256], false, false);
    uboot.file("ours.itb", &build_signed(&spec, &sign(&key, HashKind::Sha256, false)).expect("signed"));
    uboot.file("control.dtb", &uboot.board);
    uboot.run_mkimage("-F -k keys -K control.dtb -r ours.itb");
    let theirs = uboot.read("control.dtb");
    let mut tree = fdt::read(&uboot.board).expect("a device tree");
    key.public().add_to(&mut tree, "dev", key.scheme(HashKind::Sha256, false).expect("a scheme"));
    let ours = tree.to_blob().expect("written");
    assert_eq!(uboot.dtc(&ours), uboot.dtc(&theirs));
    for blob in [&ours, &theirs] {
        let keys = PublicKey::from_tree(&fdt::read(blob).expect("a device tree")).expect("keys");
        assert_eq!(keys, [public(&uboot)]);
    }
    assert!(PublicKey::from_tree(&fdt::read(&uboot.board).expect("a device tree")).is_err());
}

#[test]
fn larger_keys_and_pss_are_verified_and_mkimage_takes_the_keys() {
    let uboot = Uboot::new();
    for bits in [3072, 4096] {
        let request =
            format!("req -batch -x509 -newkey rsa:{bits} -nodes -subj /CN=dev -keyout dev.key -out dev.crt");
        Program::named("openssl").words(&request).current_dir(uboot.path("keys")).ok();
        let key = private(&uboot);
        for pss in [false, true] {
            let spec = spec(&uboot, (1, 1, 1), &[HashKind::Sha256], false, false);
            let ours = build_signed(&spec, &sign(&key, HashKind::Sha256, pss)).expect("signed");
            let fit = Fit::read(&ours).expect("a FIT");
            assert!(verify(&fit, &[public(&uboot)]).expect("verified").is_authentic(), "{bits} {pss}");
            // The same tree signed by mkimage, with the same key and padding.
            uboot.file("theirs.itb", &ours);
            uboot.run_mkimage("-F -k keys -r theirs.itb");
            let theirs = uboot.read("theirs.itb");
            let fit = Fit::read(&theirs).expect("a FIT");
            assert!(
                verify(&fit, &[public(&uboot)]).expect("verified").is_authentic(),
                "{bits} {pss}: mkimage's"
            );
        }
    }
    // PKCS #1, as older OpenSSL wrote it.
    let old = Program::named("openssl")
        .words("rsa -traditional -in keys/dev.key")
        .current_dir(uboot.path(""))
        .ok()
        .stdout;
    assert_eq!(PrivateKey::from_pem(&old).expect("a key").public(), private(&uboot).public());
    Program::named("openssl").words("genrsa -out keys/dev.key 1024").current_dir(uboot.path("")).ok();
    let error = PrivateKey::from_pem(&uboot.read("keys/dev.key")).expect_err("too short").to_string();
    assert!(error.contains("not of 1024"), "{error}");
    assert!(PrivateKey::from_pem(b"no key").is_err());
}

#[test]
fn a_signature_that_leaves_something_out_is_none() {
    let uboot = Uboot::new();
    let keys = [public(&uboot)];
    // mkimage signs what it is told to: here all but the ramdisk.
    let source = std::fs::read_to_string(atrest_testkit::oracle::workspace().join("tests/fit/08-signed.its"))
        .expect("readable");
    let partial =
        source.replace("sign-images = \"kernel\", \"fdt\", \"ramdisk\"", "sign-images = \"kernel\", \"fdt\"");
    assert_ne!(source, partial);
    let file = uboot.mkimage(&partial, "-k keys");
    let report = verify(&Fit::read(&file).expect("a FIT"), &keys).expect("verified");
    let missing = vec!["/images/ramdisk-1".to_string(), "/images/ramdisk-1/hash-1".into()];
    assert_eq!(states(&report), [SignatureState::Partial(missing)]);
    assert!(report.is_good() && !report.is_authentic());
    // A checksum under a signature: anybody makes another image of it.
    let weak = source.replace("sha256\"; }", "crc32\"; }");
    assert_ne!(source, weak);
    let file = uboot.mkimage(&weak, "-k keys");
    let report = verify(&Fit::read(&file).expect("a FIT"), &keys).expect("verified");
    assert!(!report.is_authentic(), "{report:?}");
    // SHA-1 is not taken.
    let sha1 = uboot.mkimage(&source.replace("sha256,rsa2048", "sha1,rsa2048"), "-k keys");
    let report = verify(&Fit::read(&sha1).expect("a FIT"), &keys).expect("verified");
    assert_eq!(states(&report), [SignatureState::Unknown]);
    // Not signed at all.
    let plain = build(&spec(&uboot, (1, 1, 1), &[HashKind::Sha256], false, false)).expect("built");
    assert!(!verify(&Fit::read(&plain).expect("a FIT"), &keys).expect("verified").is_authentic());
    // Ours refuses to sign over checksums alone.
    let key = private(&uboot);
    let spec = spec(&uboot, (1, 1, 1), &[HashKind::Crc32], false, false);
    assert!(build_signed(&spec, &sign(&key, HashKind::Sha256, false)).is_err());
}

/// A FIT that we signed, the name of its one configuration, and the key that it verifies with.
fn signed() -> (Vec<u8>, String, PublicKey) {
    let uboot = Uboot::new();
    let spec = spec(&uboot, (1, 1, 1), &[HashKind::Sha256], false, false);
    let signed = build_signed(&spec, &sign(&private(&uboot), HashKind::Sha256, false)).expect("signed");
    (signed, spec.configurations[0].name.clone(), public(&uboot))
}

/// A signed FIT whose tree somebody changed without the key: the state of its signature.
fn after(signed: &[u8], key: &PublicKey, change: impl FnOnce(&mut fdt::Tree<'_>)) -> SignatureState {
    let mut tree = fdt::read(signed).expect("a device tree");
    change(&mut tree);
    let blob = tree.to_blob().expect("written");
    let report = verify(&Fit::read(&blob).expect("a FIT"), std::slice::from_ref(key)).expect("verified");
    assert!(!report.is_authentic());
    states(&report).remove(0)
}

#[test]
fn a_signature_does_not_say_itself_what_it_must_be_over() {
    let (signed, name, key) = signed();
    let name = name.as_str();
    let hashed = {
        let fit = Fit::read(&signed).expect("a FIT");
        let node = fit.configurations()[0].child("signature-1").expect("signed");
        let texts = node.texts("hashed-nodes").expect("names");
        texts.into_iter().map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(hashed[..2], ["/".to_string(), format!("/configurations/{name}")]);
    // Every one of the nodes is needed: root, configuration, images and their hashes.
    for left_out in &hashed {
        let others: Vec<&String> = hashed.iter().filter(|path| *path != left_out).collect();
        let state = after(&signed, &key, |tree| {
            let configurations = tree.root.child_mut("configurations");
            configurations.child_mut(name).child_mut("signature-1").set_texts("hashed-nodes", &others);
        });
        assert_eq!(state, SignatureState::Partial(vec![left_out.clone()]));
    }
    // So is whatever else U-Boot may take from a configuration.
    for reference in ["loadables", "firmware", "standalone", "script", "fpga", "setup"] {
        let state = after(&signed, &key, |tree| {
            let image = tree.root.child_mut("images").child_mut("extra-1");
            image.set_text("type", "firmware");
            image.set("data", b"anything".as_slice());
            image.child_mut("hash-1").set_text("algo", "sha256");
            tree.root.child_mut("configurations").child_mut(name).set_texts(reference, &["extra-1"]);
        });
        let missing = vec!["/images/extra-1".to_string(), "/images/extra-1/hash-1".into()];
        assert_eq!(state, SignatureState::Partial(missing), "{reference}");
    }
}

#[test]
fn a_signature_is_of_the_form_that_u_boot_makes_and_of_the_key_s_own_size() {
    let (signed, name, key) = signed();
    let name = name.as_str();
    let state = |property: &str, change: &dyn Fn(&mut Vec<u8>)| {
        after(&signed, &key, |tree| {
            let node = tree.root.child_mut("configurations").child_mut(name).child_mut("signature-1");
            let mut value = node.property(property).expect("there").to_vec();
            change(&mut value);
            node.set(property, value);
        })
    };
    // Names are signed from the first on.
    assert_eq!(state("hashed-strings", &|value| value[3] = 1), SignatureState::Malformed);
    assert_eq!(state("hashed-strings", &|value| value[0] = 1), SignatureState::Malformed);
    assert_eq!(state("hashed-strings", &|value| value.truncate(4)), SignatureState::Malformed);
    assert_eq!(state("hashed-strings", &|value| value.push(0)), SignatureState::Malformed);
    assert_eq!(state("hashed-strings", &|value| value[7] -= 1), SignatureState::Bad);
    assert_eq!(state("hashed-strings", &|value| value[4] = 1), SignatureState::Malformed);
    for algorithm in ["sha256,rsa3072", "sha256,rsa4096"] {
        let other = |value: &mut Vec<u8>| *value = [algorithm.as_bytes(), &[0]].concat();
        assert_eq!(state("algo", &other), SignatureState::Bad, "{algorithm}");
    }
}
