//! Holds a FIT against its own hashes, and configurations against what U-Boot wants of them.

use crate::fdt::Node;

use super::key::{PublicKey, is_strong};
use super::{Fit, FitError, HashKind, Image, sign};

/// How a hash has turned out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashState {
    /// It is the hash of the data.
    Good,
    /// It is another.
    Bad,
    /// An algorithm that is not known here; U-Boot may know it.
    Unknown,
    /// There is no algorithm or no value.
    Malformed,
}

/// A hash in a FIT.
#[derive(Clone, Debug)]
pub struct HashCheck {
    /// Name of its node.
    pub node: String,
    /// The algorithm, as it is written.
    pub algorithm: String,
    /// How it has turned out.
    pub state: HashState,
}

/// How a signature has turned out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignatureState {
    /// It is by one of the keys, and over everything that counts.
    Good,
    /// It is by none of the keys, or what it is over has changed.
    Bad,
    /// There is no key to check it with.
    NoKey,
    /// It leaves out what the configuration boots: the paths.
    Partial(Vec<String>),
    /// An algorithm that is not known here, or that is too weak (SHA-1).
    Unknown,
    /// A part of it is missing.
    Malformed,
}

/// A signature in a FIT.
#[derive(Clone, Debug)]
pub struct SignatureCheck {
    /// Name of its node.
    pub node: String,
    /// The algorithm, as it is written.
    pub algorithm: String,
    /// The key's name, as it is written.
    pub key: String,
    /// How it has turned out.
    pub state: SignatureState,
}

/// What is known of an image.
#[derive(Clone, Debug)]
pub struct ImageCheck {
    /// Its name.
    pub name: String,
    /// Its hashes.
    pub hashes: Vec<HashCheck>,
    /// Its own signatures, which few images have.
    pub signatures: Vec<SignatureCheck>,
}

impl ImageCheck {
    /// Whether there is a hash, and each is good.
    pub fn is_good(&self) -> bool {
        !self.hashes.is_empty() && self.hashes.iter().all(|hash| hash.state == HashState::Good)
    }
}

/// What is known of a configuration.
#[derive(Clone, Debug)]
pub struct ConfigCheck {
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub problems: Vec<String>,
    /// Its signatures.
    pub signatures: Vec<SignatureCheck>,
}

impl ConfigCheck {
    /// Whether one of the keys stands for it.
    pub fn is_authentic(&self) -> bool {
        self.problems.is_empty() && self.signatures.iter().any(|check| check.state == SignatureState::Good)
    }
}

/// What is known of a FIT.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Of each image.
    pub images: Vec<ImageCheck>,
    /// Of each configuration.
    pub configurations: Vec<ConfigCheck>,
    /// What is wrong with the whole.
    pub problems: Vec<String>,
}

impl Report {
    /// Whether all is as it should be. That says nothing of who made it.
    pub fn is_good(&self) -> bool {
        self.problems.is_empty()
            && self.images.iter().all(ImageCheck::is_good)
            && self.configurations.iter().all(|configuration| configuration.problems.is_empty())
    }
}

impl Report {
    /// Whether it is good, and each configuration is signed by one of the keys.
    pub fn is_authentic(&self) -> bool {
        self.is_good()
            && !self.configurations.is_empty()
            && self.configurations.iter().all(ConfigCheck::is_authentic)
    }
}

/// Properties of a configuration that name images.
pub(super) const REFERENCES: [&str; 9] =
    ["kernel", "fdt", "ramdisk", "loadables", "firmware", "standalone", "script", "fpga", "setup"];

/// Checks all hashes, what configurations refer to, and the signatures by `keys`.
///
/// # Errors
/// [`FitError::Data`] if an image's data is not in the file. Whatever else is wrong is in the [`Report`].
pub fn verify(fit: &Fit<'_>, keys: &[PublicKey]) -> Result<Report, FitError> {
    let mut report = Report::default();
    let mut names = Vec::new();
    for image in fit.images() {
        let image = image?;
        names.push(image.node.name.as_str());
        report.images.push(check_image(&image, keys));
    }
    for configuration in fit.configurations() {
        let mut check = check_configuration(configuration, &names);
        check.signatures = signatures(configuration, |node| sign::check(fit, configuration, node, keys));
        if !keys.is_empty() {
            check.problems.extend(weak(configuration, &report.images));
        }
        report.configurations.push(check);
    }
    match fit.default() {
        Some(name) if !fit.configurations().iter().any(|node| node.name == name) => {
            report.problems.push(format!("the default configuration {name:?} is not there"));
        }
        _ => {}
    }
    if let Some(name) = unit_address(&fit.tree.root) {
        report.problems.push(format!(
            "U-Boot refuses names with @, as {name:?} is one; today's form is {:?}",
            name.replace('@', "-")
        ));
    }
    Ok(report)
}

fn check_image(image: &Image<'_>, keys: &[PublicKey]) -> ImageCheck {
    let hashes = image.node.children.iter().filter(|node| node.name.starts_with("hash"));
    let check = |node: &Node<'_>| {
        // intended: what is missing is no algorithm that is known.
        let algorithm = node.text("algo").unwrap_or_default();
        let state = match (HashKind::by_name(algorithm), node.property("value")) {
            (Some(kind), Some(value)) if kind.of(image.data) == value => HashState::Good,
            (Some(_), Some(_)) => HashState::Bad,
            (None, Some(_)) if !algorithm.is_empty() => HashState::Unknown,
            _ => HashState::Malformed,
        };
        HashCheck { node: node.name.clone(), algorithm: algorithm.into(), state }
    };
    let signatures = signatures(image.node, |node| sign::check_image(image.data, node, keys));
    ImageCheck { name: image.node.name.clone(), hashes: hashes.map(check).collect(), signatures }
}

fn check_configuration(node: &Node<'_>, images: &[&str]) -> ConfigCheck {
    let mut problems = Vec::new();
    for reference in REFERENCES {
        if node.property(reference).is_none() {
            continue;
        }
        match node.texts(reference) {
            None => problems.push(format!("{reference} is not a name")),
            Some(names) => {
                let missing = names.into_iter().filter(|name| !images.contains(name));
                problems.extend(missing.map(|name| format!("{reference} {name:?} is not there")));
            }
        }
    }
    ConfigCheck { name: node.name.clone(), problems, signatures: Vec::new() }
}

fn signatures(parent: &Node<'_>, state: impl Fn(&Node<'_>) -> SignatureState) -> Vec<SignatureCheck> {
    let nodes = parent.children.iter().filter(|node| node.name.starts_with("signature"));
    // intended: what is missing is no algorithm that is known.
    let text = |node: &Node<'_>, name| node.text(name).unwrap_or_default().to_string();
    let check = |node: &Node<'_>| SignatureCheck {
        node: node.name.clone(),
        algorithm: text(node, "algo"),
        key: text(node, "key-name-hint"),
        state: state(node),
    };
    nodes.map(check).collect()
}

/// Images of a configuration whose hashes anybody can find other data for: a signature over them says nothing.
fn weak(configuration: &Node<'_>, images: &[ImageCheck]) -> Vec<String> {
    let names = REFERENCES.iter().filter_map(|reference| configuration.texts(reference)).flatten();
    let strong = |image: &&ImageCheck| {
        image.hashes.iter().any(|hash| HashKind::by_name(&hash.algorithm).is_some_and(is_strong))
    };
    let weak = names.filter(|name| !images.iter().filter(strong).any(|image| image.name == *name));
    weak.map(|name| format!("{name:?} has no hash that a signature can rest on")).collect()
}

/// The first name with a unit address, in the parts that U-Boot looks at.
fn unit_address<'n>(node: &'n Node<'_>) -> Option<&'n str> {
    let inside = || node.children.iter().find_map(unit_address);
    if node.name.contains('@') { Some(&node.name) } else { inside() }
}
