//! A signed FIT in which somebody has changed what he likes, and put the hashes right: what is still authentic is what was signed.

use std::sync::OnceLock;

use arbitrary::{Result, Unstructured};
use atrest_bootimage::fdt::{self, Node, Tree};
use atrest_bootimage::fit::{Fit, HashKind, PublicKey, verify};

/// Made by `make-seeds` with a key that nobody has any more, and the tree that holds its public half.
const SIGNED: &[u8] = include_bytes!("../signed/fit");
const KEYS: &[u8] = include_bytes!("../signed/control-tree");

/// Properties by which a configuration names what it boots.
const REFERENCES: [&str; 9] =
    ["kernel", "fdt", "ramdisk", "loadables", "firmware", "standalone", "script", "fpga", "setup"];
/// Names and values that mean something in a FIT.
const NAMES: [&str; 22] = [
    "data",
    "data-size",
    "data-position",
    "data-offset",
    "load",
    "entry",
    "type",
    "arch",
    "compression",
    "algo",
    "value",
    "hashed-nodes",
    "hashed-strings",
    "sign-images",
    "key-name-hint",
    "padding",
    "description",
    "kernel",
    "fdt",
    "ramdisk",
    "loadables",
    "firmware",
];

/// Changes to the tree of a signed FIT, to its bytes, or both.
pub fn fit_edited(data: &[u8]) {
    // Where the input ends nothing more is changed.
    let _ = edited(&mut Unstructured::new(data));
}

fn keys() -> &'static [PublicKey] {
    static FOUND: OnceLock<Vec<PublicKey>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let tree = fdt::read(KEYS).expect("a tree");
        let keys = PublicKey::from_tree(&tree).expect("it holds a key");
        let fit = Fit::read(SIGNED).expect("a FIT");
        assert!(verify(&fit, &keys).expect("all data is there").is_authentic(), "the seed is not signed");
        // Written again it is the same, so that a change that changes nothing stays authentic.
        assert_eq!(fit.tree.to_blob().expect("a tree"), SIGNED[..fit.tree.len]);
        keys
    })
}

fn edited(u: &mut Unstructured<'_>) -> Result<()> {
    let mut tree = fdt::read(SIGNED).expect("a tree");
    for _ in 0..u.int_in_range(0..=4)? {
        edit(&mut tree, u)?;
    }
    if u.ratio(3, 4)? {
        put_right(&mut tree);
    }
    let Ok(mut blob) = tree.to_blob() else { return Ok(()) };
    // Data that lies behind the tree.
    let end = fdt::read(SIGNED).expect("a tree").len;
    blob.extend_from_slice(SIGNED.get(end..).unwrap_or(&[]));
    for _ in 0..u.int_in_range(0..=2)? {
        let at = u.choose_index(blob.len())?;
        blob[at] ^= 1 << u.int_in_range(0..=7)?;
    }
    check(&blob);
    Ok(())
}

/// All nodes by their paths.
fn paths(node: &Node<'_>, here: &mut Vec<usize>, found: &mut Vec<Vec<usize>>) {
    found.push(here.clone());
    for (number, child) in node.children.iter().enumerate() {
        here.push(number);
        paths(child, here, found);
        here.pop();
    }
}

fn node_at<'t, 'a>(root: &'t mut Node<'a>, path: &[usize]) -> &'t mut Node<'a> {
    path.iter().fold(root, |node, number| &mut node.children[*number])
}

fn edit(tree: &mut Tree<'_>, u: &mut Unstructured<'_>) -> Result<()> {
    let mut all = Vec::new();
    paths(&tree.root, &mut Vec::new(), &mut all);
    let (path, donor) = (u.choose(&all)?.clone(), u.choose(&all)?.clone());
    let donor = node_at(&mut tree.root, &donor).clone();
    let node = node_at(&mut tree.root, &path);
    let value = match donor.properties.is_empty() {
        false => donor.properties[u.choose_index(donor.properties.len())?].1.to_vec(),
        true => Vec::new(),
    };
    let count = node.properties.len();
    match u.int_in_range(0..=9)? {
        0 if count > 0 => {
            let number = u.choose_index(count)?;
            node.properties[number].1 = value.into();
        }
        1 | 2 if count > 0 => {
            let number = u.choose_index(count)?;
            let mut value = node.properties[number].1.to_vec();
            if !value.is_empty() {
                let at = u.choose_index(value.len())?;
                value[at] = u.arbitrary()?;
            }
            node.properties[number].1 = value.into();
        }
        3 if count > 0 => drop(node.properties.remove(u.choose_index(count)?)),
        4 => node.set(u.choose(&NAMES)?, value),
        5 if count > 1 => node.properties.rotate_left(1),
        6 if !node.children.is_empty() => {
            let number = u.choose_index(node.children.len())?;
            node.children.remove(number);
        }
        7 if !node.children.is_empty() => node.children.rotate_left(1),
        8 => {
            let mut copy = donor;
            copy.name = (*u.choose(&[
                "conf-1",
                "conf-2",
                "kernel-1",
                "kernel-2",
                "hash-1",
                "hash-2",
                "signature-2",
            ])?)
            .into();
            node.children.push(copy);
        }
        _ => node.name = donor.name,
    }
    Ok(())
}

/// Makes the hashes of all images right whose data lies in the tree.
fn put_right(tree: &mut Tree<'_>) {
    let Some(images) = tree.root.children.iter_mut().find(|node| node.name == "images") else { return };
    for image in &mut images.children {
        let Some(data) = image.property("data").map(<[u8]>::to_vec) else { continue };
        for hash in image.children.iter_mut().filter(|node| node.name.starts_with("hash")) {
            if let Some(kind) = hash.text("algo").and_then(HashKind::by_name) {
                hash.set("value", kind.of(&data));
            }
        }
    }
}

/// Names and values of properties.
type Properties = Vec<(String, Vec<u8>)>;
/// What a configuration boots: of each image its name and properties, and its data.
type Boots = Vec<(String, Properties, Vec<u8>)>;

/// All of a configuration that counts: its own properties, and what it boots.
fn booted(fit: &Fit<'_>, name: &str) -> Option<(Properties, Boots)> {
    let configuration = fit.configurations().iter().find(|node| node.name == name)?;
    let own = |node: &Node<'_>| {
        let counts = |name: &str| !name.starts_with("data");
        let mut all: Vec<_> = node
            .properties
            .iter()
            .filter(|(name, _)| counts(name))
            .map(|(name, value)| (name.clone(), value.to_vec()))
            .collect();
        all.sort();
        all
    };
    let mut boots = Vec::new();
    for name in REFERENCES.iter().filter_map(|reference| configuration.texts(reference)).flatten() {
        let image = fit.images().flatten().find(|image| image.node.name == name)?;
        boots.push((name.to_owned(), own(image.node), image.data.to_vec()));
    }
    Some((own(configuration), boots))
}

/// What is authentic is booted as it was signed. Without the key nothing is authentic.
fn check(blob: &[u8]) {
    let Ok(fit) = Fit::read(blob) else { return };
    if let Ok(report) = verify(&fit, &[]) {
        assert!(!report.is_authentic(), "authentic without a key");
    }
    let Ok(report) = verify(&fit, keys()) else { return };
    if !report.is_authentic() {
        return;
    }
    let signed = Fit::read(SIGNED).expect("a FIT");
    for configuration in fit.configurations() {
        let now = booted(&fit, &configuration.name);
        assert!(now.is_some(), "an authentic configuration boots what is not there");
        assert_eq!(now, booted(&signed, &configuration.name), "another {}", configuration.name);
    }
}
