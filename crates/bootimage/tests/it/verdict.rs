//! What a report of a FIT comes down to: every part of it must be good, and no wrong one is passed over.

use atrest_bootimage::fdt;
use atrest_bootimage::fit::{
    BuildError, ConfigCheck, Fit, HashCheck, HashKind, HashState, ImageCheck, Report, SignatureCheck,
    SignatureState, build, verify,
};

use crate::uboot::{Uboot, spec};

fn hash(state: HashState) -> HashCheck {
    HashCheck { node: "hash-1".into(), algorithm: "sha256".into(), state }
}

fn signature(state: SignatureState) -> SignatureCheck {
    SignatureCheck {
        node: "signature-1".into(),
        algorithm: "sha256,rsa2048".into(),
        key: "key".into(),
        state,
    }
}

/// A report in which all is as it should be.
fn good() -> Report {
    Report {
        images: vec![ImageCheck {
            name: "kernel-1".into(),
            hashes: vec![hash(HashState::Good)],
            signatures: vec![],
        }],
        configurations: vec![ConfigCheck {
            name: "conf-1".into(),
            problems: vec![],
            signatures: vec![signature(SignatureState::Good)],
        }],
        problems: vec![],
    }
}

#[test]
fn only_a_report_of_which_every_part_is_good_is_good_and_authentic() {
    assert!(good().is_good() && good().is_authentic());
    type Change = fn(&mut Report);
    let spoilt: [(&str, Change, bool); 10] = [
        ("a problem of the whole", |report| report.problems.push("?".into()), false),
        ("an image without a hash", |report| report.images[0].hashes.clear(), false),
        ("a bad hash", |report| report.images[0].hashes[0].state = HashState::Bad, false),
        ("a bad hash beside a good one", |report| report.images[0].hashes.push(hash(HashState::Bad)), false),
        ("an unknown hash", |report| report.images[0].hashes[0].state = HashState::Unknown, false),
        ("a malformed hash", |report| report.images[0].hashes[0].state = HashState::Malformed, false),
        ("a problem of a configuration", |report| report.configurations[0].problems.push("?".into()), false),
        // These say nothing of the data, and everything of who made it.
        ("no configuration", |report| report.configurations.clear(), true),
        ("a configuration without a signature", |report| report.configurations[0].signatures.clear(), true),
        (
            "one configuration of two signed",
            |report| {
                let mut other = report.configurations[0].clone();
                other.signatures[0].state = SignatureState::Bad;
                report.configurations.push(other);
            },
            true,
        ),
    ];
    for (what, change, still_good) in spoilt {
        let mut report = good();
        change(&mut report);
        assert_eq!((report.is_good(), report.is_authentic()), (still_good, false), "{what}");
    }
    for state in [
        SignatureState::Bad,
        SignatureState::NoKey,
        SignatureState::Partial(vec![]),
        SignatureState::Unknown,
        SignatureState::Malformed,
    ] {
        let mut report = good();
        report.configurations[0].signatures[0].state = state.clone();
        assert!(report.is_good() && !report.is_authentic(), "{state:?}");
    }
}

/// The report of a FIT of which the tree was changed.
fn report_after(change: impl FnOnce(&mut fdt::Tree<'_>)) -> Report {
    let uboot = Uboot::new();
    let file = build(&spec(&uboot, (1, 1, 1), &[HashKind::Sha256], false, false)).expect("built");
    let mut tree = fdt::read(&file).expect("a device tree");
    change(&mut tree);
    let blob = tree.to_blob().expect("written");
    verify(&Fit::read(&blob).expect("a FIT"), &[]).expect("verified")
}

#[test]
fn what_is_wrong_with_a_fit_is_said() {
    assert!(report_after(|_| ()).is_good());
    let absent = report_after(|tree| tree.root.child_mut("configurations").set_text("default", "conf-9"));
    assert_eq!(absent.problems, ["the default configuration \"conf-9\" is not there"]);
    let kernel = |state: &str| {
        let report = report_after(|tree| {
            let node = tree.root.child_mut("images").child_mut("kernel-1").child_mut("hash-1");
            node.set_text("algo", state);
        });
        assert!(!report.is_good());
        report.images[0].hashes[0].state.clone()
    };
    assert_eq!(kernel("blake9"), HashState::Unknown);
    assert_eq!(kernel("sha1"), HashState::Bad);
    assert_eq!(kernel(""), HashState::Malformed);
}

#[test]
fn a_name_is_as_long_as_u_boot_takes_it_and_no_longer() {
    let uboot = Uboot::new();
    let named = |name: String| {
        let mut spec = spec(&uboot, (1, 1, 1), &[HashKind::Sha256], false, false);
        spec.default.clone_from(&name);
        spec.configurations[0].name = name;
        build(&spec).map(|_| ())
    };
    assert_eq!(named("n".repeat(100)), Ok(()));
    for name in ["n".repeat(101), String::new(), "a/b".into(), "a b".into()] {
        assert_eq!(named(name.clone()), Err(BuildError::Name(name)));
    }
}
