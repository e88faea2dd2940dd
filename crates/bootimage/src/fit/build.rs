//! Makes a FIT. The same input gives the same bytes.

use std::collections::BTreeSet;

use crate::fdt::{self, Tree};

use super::uimage::ARCHITECTURES;
use super::{BuildError, HashKind};

/// Compressions that U-Boot's `bootm` may know, by its names.
pub const COMPRESSIONS: [&str; 7] = ["none", "gzip", "bzip2", "lzma", "lzo", "lz4", "zstd"];

/// What an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// A kernel.
    Kernel,
    /// A flattened device tree.
    Fdt,
    /// An initramfs.
    Ramdisk,
}

impl ImageKind {
    /// How a configuration calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Fdt => "fdt",
            Self::Ramdisk => "ramdisk",
        }
    }

    fn type_name(self) -> &'static str {
        match self {
            Self::Fdt => "flat_dt",
            other => other.name(),
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Kernel => "Linux kernel",
            Self::Fdt => "Flattened Device Tree blob",
            Self::Ramdisk => "initramfs",
        }
    }
}

/// An image to put in.
#[derive(Clone, Debug)]
pub struct ImageSpec<'a> {
    /// Name of its node, `kernel-1`.
    pub name: String,
    /// What it is.
    pub kind: ImageKind,
    /// Its bytes.
    pub data: &'a [u8],
    /// How a kernel is compressed, one of `none`, `gzip`, `bzip2`, `lzma`, `lzo`, `lz4`, `zstd`. Ramdisks are unpacked by the kernel: `none`.
    pub compression: String,
    /// Where U-Boot is to put it.
    pub load: Option<u64>,
    /// Where a kernel begins [default: where it is loaded].
    pub entry: Option<u64>,
}

/// A configuration: what is booted together.
#[derive(Clone, Debug)]
pub struct ConfigSpec {
    /// Name of its node, `conf-1`.
    pub name: String,
    /// Names of its images.
    pub images: Vec<String>,
}

/// A FIT to make.
#[derive(Clone, Debug)]
pub struct FitSpec<'a> {
    /// For people.
    pub description: String,
    /// U-Boot's name of the architecture.
    pub arch: String,
    /// Seconds since 1970.
    pub timestamp: u32,
    /// The images, in order.
    pub images: Vec<ImageSpec<'a>>,
    /// The configurations, in order.
    pub configurations: Vec<ConfigSpec>,
    /// The configuration that is booted when none is named.
    pub default: String,
    /// The hashes of each image.
    pub hashes: Vec<HashKind>,
    /// Whether the images lie behind the tree instead of in it (`mkimage -E`).
    pub external: bool,
}

/// Makes the FIT.
///
/// # Errors
/// [`BuildError`], which names what of `spec` U-Boot does not take, or what refers to nothing.
pub fn build(spec: &FitSpec<'_>) -> Result<Vec<u8>, BuildError> {
    let tree = tree(spec)?;
    let mut file = tree.to_blob()?;
    append_external(&mut file, spec);
    Ok(file)
}

/// Puts the images behind the tree, where [`tree`] says that they are.
pub(super) fn append_external(file: &mut Vec<u8>, spec: &FitSpec<'_>) {
    if spec.external {
        for image in &spec.images {
            file.resize(file.len().next_multiple_of(4), 0);
            file.extend_from_slice(image.data);
        }
        file.resize(file.len().next_multiple_of(4), 0);
    }
}

/// The tree of the FIT, checked.
pub(super) fn tree<'a>(spec: &FitSpec<'a>) -> Result<Tree<'a>, BuildError> {
    check(spec)?;
    let mut tree = Tree::default();
    let root = &mut tree.root;
    let addresses = || spec.images.iter().flat_map(|image| [image.load, image.entry]).flatten();
    let wide = addresses().any(|address| u32::try_from(address).is_err());
    root.set_u32("timestamp", spec.timestamp);
    root.set_text("description", &spec.description);
    root.set_u32("#address-cells", if wide { 2 } else { 1 });

    let images = root.child_mut("images");
    let mut offset = 0_usize;
    for image in &spec.images {
        let node = images.child_mut(&image.name);
        node.set_text("description", image.kind.description());
        if spec.external {
            let number = |number| u32::try_from(number).map_err(|_| fdt::WriteError::TooLarge);
            node.set_u32("data-size", number(image.data.len())?);
            node.set_u32("data-offset", number(offset)?);
            // cannot overflow: bytes in memory.
            offset = offset.saturating_add(image.data.len()).next_multiple_of(4);
        } else {
            node.set("data", image.data);
        }
        node.set_text("type", image.kind.type_name());
        node.set_text("arch", &spec.arch);
        if image.kind != ImageKind::Fdt {
            node.set_text("os", "linux");
        }
        node.set_text("compression", &image.compression);
        let entry = image.entry.or(image.load).filter(|_| image.kind == ImageKind::Kernel);
        for (name, address) in [("load", image.load), ("entry", entry)] {
            match address {
                Some(address) if wide => node.set(name, address.to_be_bytes().to_vec()),
                // `wide` says that it fits.
                // cannot fail: `wide` says that it fits.
                Some(address) => node.set_u32(name, u32::try_from(address).unwrap_or(u32::MAX)),
                None => {}
            }
        }
        for (number, kind) in (1..).zip(&spec.hashes) {
            let hash = node.child_mut(&format!("hash-{number}"));
            hash.set("value", kind.of(image.data));
            hash.set_text("algo", kind.name());
        }
    }

    let configurations = root.child_mut("configurations");
    configurations.set_text("default", &spec.default);
    for configuration in &spec.configurations {
        let node = configurations.child_mut(&configuration.name);
        node.set_text("description", &describe(spec, configuration));
        for kind in [ImageKind::Kernel, ImageKind::Fdt, ImageKind::Ramdisk] {
            let names = of_kind(spec, configuration, kind);
            if !names.is_empty() {
                node.set_texts(kind.name(), &names);
            }
        }
    }
    Ok(tree)
}

/// The images of a kind in a configuration, in the order in which it names them.
pub(super) fn of_kind<'a>(
    spec: &'a FitSpec<'_>,
    configuration: &ConfigSpec,
    kind: ImageKind,
) -> Vec<&'a str> {
    let image = |name: &String| spec.images.iter().find(|image| image.name == *name && image.kind == kind);
    configuration.images.iter().filter_map(image).map(|image| image.name.as_str()).collect()
}

fn describe(spec: &FitSpec<'_>, configuration: &ConfigSpec) -> String {
    let kinds = [
        (ImageKind::Kernel, "Linux kernel"),
        (ImageKind::Fdt, "device tree"),
        (ImageKind::Ramdisk, "initramfs"),
    ];
    let there = kinds.into_iter().filter(|(kind, _)| !of_kind(spec, configuration, *kind).is_empty());
    there.map(|(_, name)| name).collect::<Vec<_>>().join(", ")
}

fn check(spec: &FitSpec<'_>) -> Result<(), BuildError> {
    let unknown = |what, name: &str| BuildError::Value { what, name: name.into() };
    for (empty, what) in [
        (spec.images.is_empty(), "an image"),
        (spec.configurations.is_empty(), "a configuration"),
        (spec.hashes.is_empty(), "a hash"),
    ] {
        if empty {
            return Err(BuildError::Empty(what));
        }
    }
    if !ARCHITECTURES.iter().any(|(name, _)| *name == spec.arch) {
        return Err(unknown("architecture", &spec.arch));
    }
    names(spec.images.iter().map(|image| &image.name))?;
    names(spec.configurations.iter().map(|configuration| &configuration.name))?;
    for image in &spec.images {
        if !COMPRESSIONS.contains(&image.compression.as_str()) {
            return Err(unknown("compression", &image.compression));
        }
        if image.kind == ImageKind::Kernel && image.load.is_none() {
            return Err(BuildError::NoLoad(image.name.clone()));
        }
        if image.kind == ImageKind::Fdt && image.compression == "none" {
            fdt::read(image.data).map_err(|cause| BuildError::NotFdt { image: image.name.clone(), cause })?;
        }
    }
    for configuration in &spec.configurations {
        let there = |name: &String| spec.images.iter().any(|image| image.name == *name);
        if let Some(name) = configuration.images.iter().find(|name| !there(name)) {
            return Err(BuildError::Unknown { by: configuration.name.clone(), name: name.clone() });
        }
        for kind in [ImageKind::Kernel, ImageKind::Ramdisk] {
            if of_kind(spec, configuration, kind).len() > 1 {
                return Err(BuildError::TwoOf {
                    configuration: configuration.name.clone(),
                    kind: kind.name(),
                });
            }
        }
    }
    if !spec.configurations.iter().any(|configuration| configuration.name == spec.default) {
        return Err(BuildError::Unknown { by: "the default".into(), name: spec.default.clone() });
    }
    Ok(())
}

/// U-Boot takes `@` for the mark of a forged name, and its paths have an end.
fn names<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), BuildError> {
    let mut seen = BTreeSet::new();
    for name in names {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b",._+-".contains(&byte);
        if name.is_empty() || name.len() > 100 || !name.bytes().all(good) {
            return Err(BuildError::Name(name.clone()));
        }
        if !seen.insert(name) {
            return Err(BuildError::Twice(name.clone()));
        }
    }
    Ok(())
}
