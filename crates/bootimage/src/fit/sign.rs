//! Signed configurations: which bytes of a FIT a signature is over, making one and checking one, all as U-Boot does it.

use crate::fdt::{self, FdtError, Node};

use super::build::{append_external, of_kind, tree};
use super::key::{KeyError, PrivateKey, PublicKey, Scheme};
use super::verify::REFERENCES;
use super::{BuildError, Fit, FitSpec, HashKind, ImageKind, SignatureState};

/// Properties that are not signed: data is signed by its hash, and its place may change.
const WITHOUT: [&str; 4] = ["data", "data-size", "data-position", "data-offset"];
/// Name of the node that we write.
const NODE: &str = "signature-1";

/// How to sign.
#[derive(Debug)]
pub struct SignSpec<'a> {
    /// With what.
    pub key: &'a PrivateKey,
    /// Its name in U-Boot's control tree, without `key-`.
    pub name: String,
    /// The hash.
    pub hash: HashKind,
    /// Whether the padding is PSS, which makes every file another.
    pub pss: bool,
}

/// Makes a FIT with a signature for each configuration.
///
/// # Errors
/// Fails where [`build`](super::build()) does. [`BuildError::Empty`] if the images have no hash that a
/// signature can be over, [`BuildError::Sign`] if the key can't sign.
pub fn build_signed(spec: &FitSpec<'_>, sign: &SignSpec<'_>) -> Result<Vec<u8>, BuildError> {
    let failed = |error: KeyError| BuildError::Sign(error.to_string());
    let scheme = sign.key.scheme(sign.hash, sign.pss).map_err(failed)?;
    if !spec.hashes.iter().any(|hash| super::key::is_strong(*hash)) {
        return Err(BuildError::Empty(
            "sha256, sha384 or sha512, for the signature is over the hashes of the images",
        ));
    }
    let mut tree = tree(spec)?;
    // What the signature is over may not change with the signature: all of its node is there before.
    for configuration in &spec.configurations {
        let kinds = [ImageKind::Kernel, ImageKind::Fdt, ImageKind::Ramdisk].into_iter();
        let there: Vec<&str> = kinds
            .filter(|kind| !of_kind(spec, configuration, *kind).is_empty())
            .map(ImageKind::name)
            .collect();
        let parent =
            tree.root.child("configurations").and_then(|node| node.child(&configuration.name)).cloned();
        // intended: a tree without images has none in it.
        let images = tree.root.child("images").cloned().unwrap_or_default();
        // intended: a tree without configurations has none in it.
        let paths = paths(&parent.unwrap_or_default(), &images, &there);
        let node = tree.root.child_mut("configurations").child_mut(&configuration.name).child_mut(NODE);
        node.set_text("algo", &scheme.algorithm());
        node.set_text("key-name-hint", &sign.name);
        if sign.pss {
            node.set_text("padding", "pss");
        }
        node.set_texts("sign-images", &there);
        node.set("value", vec![0; scheme.bits / 8]);
        node.set_text("signer-name", "atrest");
        node.set_text("signer-version", env!("CARGO_PKG_VERSION"));
        node.set_u32("timestamp", spec.timestamp);
        node.set_texts("hashed-nodes", &paths);
        node.set("hashed-strings", vec![0; 8]);
    }
    let mut blob = tree.to_blob()?;
    let wrong = |error: FdtError| BuildError::Sign(error.to_string());
    // cannot fail: to_blob makes no tree of more than 2 GiB.
    let strings_len = u32::try_from(fdt::strings(&blob).map_err(wrong)?.len()).unwrap_or(0);
    for configuration in &spec.configurations {
        let path = format!("/configurations/{}/{NODE}", configuration.name);
        let node =
            tree.root.child("configurations").and_then(|node| node.child(&configuration.name)?.child(NODE));
        // cannot fail: set for each configuration above.
        let paths = node.and_then(|node| node.texts("hashed-nodes")).unwrap_or_default();
        let message = message(&blob, &paths, strings_len as usize).map_err(wrong)?;
        let value = sign.key.sign(scheme, &message).map_err(failed)?;
        let strings = [0, strings_len].map(u32::to_be_bytes).concat();
        for (name, bytes) in [("value", value), ("hashed-strings", strings)] {
            let place = fdt::value_of(&blob, &path, name).map_err(wrong)?;
            match place.and_then(|place| blob.get_mut(place)).filter(|place| place.len() == bytes.len()) {
                Some(place) => place.copy_from_slice(&bytes),
                None => return Err(failed(KeyError::Failed)),
            }
        }
    }
    append_external(&mut blob, spec);
    Ok(blob)
}

/// The paths that a signature is over: the root, the configuration, and of each image its node and its hashes.
fn paths(configuration: &Node<'_>, images: &Node<'_>, references: &[&str]) -> Vec<String> {
    let mut paths = vec!["/".to_string(), format!("/configurations/{}", configuration.name)];
    for reference in references {
        // intended: a configuration without such an image.
        for name in configuration.texts(reference).unwrap_or_default() {
            paths.push(format!("/images/{name}"));
            // intended: an image that is missing has no hashes; verifying finds it missing.
            let hashes = images.child(name).map(|image| image.children.as_slice()).unwrap_or_default();
            let hashes = hashes.iter().filter(|node| node.name.starts_with("hash"));
            paths.extend(hashes.map(|hash| format!("/images/{name}/{}", hash.name)));
        }
    }
    paths
}

/// The bytes that a signature is over.
fn message(blob: &[u8], paths: &[&str], strings_len: usize) -> Result<Vec<u8>, FdtError> {
    let strings = fdt::strings(blob)?;
    let names = blob.get(strings).and_then(|strings| strings.get(..strings_len));
    let names = names.ok_or(FdtError::Layout { block: "block of names" })?;
    let regions = fdt::regions(blob, paths, &WITHOUT)?;
    let mut message: Vec<u8> = Vec::new();
    for region in regions {
        message.extend_from_slice(blob.get(region).ok_or(FdtError::Layout { block: "structure" })?);
    }
    message.extend_from_slice(names);
    Ok(message)
}

/// Checks one signature of a configuration.
pub(super) fn check(
    fit: &Fit<'_>,
    configuration: &Node<'_>,
    node: &Node<'_>,
    keys: &[PublicKey],
) -> SignatureState {
    let Some(scheme) = node.text("algo").and_then(|algorithm| Scheme::parse(algorithm, padding(node))) else {
        return SignatureState::Unknown;
    };
    let (Some(value), Some(hashed), Some([0, 0, 0, 0, len @ ..])) =
        (node.property("value"), node.texts("hashed-nodes"), node.property("hashed-strings"))
    else {
        return SignatureState::Malformed;
    };
    let Ok(len) = <[u8; 4]>::try_from(len).map(u32::from_be_bytes) else { return SignatureState::Malformed };
    let Some(images) = fit.tree.root.child("images") else { return SignatureState::Malformed };
    // What U-Boot boots by this configuration must be signed, whatever the signature itself says that it is over.
    let missing: Vec<String> = paths(configuration, images, &REFERENCES)
        .into_iter()
        .filter(|path| !hashed.contains(&path.as_str()))
        .collect();
    if !missing.is_empty() {
        return SignatureState::Partial(missing);
    }
    let Ok(message) = message(fit.file(), &hashed, len as usize) else { return SignatureState::Malformed };
    state(scheme, &message, value, keys)
}

/// Checks one signature of an image, which is over its data.
pub(super) fn check_image(data: &[u8], node: &Node<'_>, keys: &[PublicKey]) -> SignatureState {
    let scheme = node.text("algo").and_then(|algorithm| Scheme::parse(algorithm, padding(node)));
    match (scheme, node.property("value")) {
        (None, _) => SignatureState::Unknown,
        (Some(_), None) => SignatureState::Malformed,
        (Some(scheme), Some(value)) => state(scheme, data, value, keys),
    }
}

fn padding<'n>(node: &'n Node<'_>) -> Option<&'n str> {
    // intended: what is no text is no padding that is known.
    node.property("padding").map(|_| node.text("padding").unwrap_or_default())
}

fn state(scheme: Scheme, message: &[u8], value: &[u8], keys: &[PublicKey]) -> SignatureState {
    match keys {
        [] => SignatureState::NoKey,
        keys if keys.iter().any(|key| key.verifies(scheme, message, value)) => SignatureState::Good,
        _ => SignatureState::Bad,
    }
}
