//! `atrest tree policies`.

use std::path::Path;
use std::sync::Arc;

use atrest_engine::Access as FileAccess;
use atrest_filetree::{DisplayName, FileTree, KeyName};
use atrest_inside::{Access, Unsupported, filesystem_device, open_tree};
use atrest_probe::FilesystemKind;
use atrest_tree::fscrypt::EncryptionMode;
use atrest_tree::fscrypt::metadata::{
    Damaged, Link, Metadata, MetadataError, Policy, Protector, ProtectorSource,
};
use serde_json::{Value, json};

use super::target::open_device;
use crate::args::tree::TreePoliciesArgs;
use crate::failure::{Code, Failure};
use crate::output::Output;

pub fn policies(args: &TreePoliciesArgs, output: &Output) -> Result<(), Failure> {
    let tree = filesystem(&args.image, args.partition.partition)?;
    let metadata = Metadata::read(&*tree).map_err(|error| Failure::from(error).at(&args.image))?;
    output.report(
        &json!({
            "policies": metadata.policies().iter().map(policy_json).collect::<Vec<_>>(),
            "protectors": metadata.protectors().iter().map(protector_json).collect::<Vec<_>>(),
            "links": metadata.links().iter().map(link_json).collect::<Vec<_>>(),
            "damaged": metadata.damaged().iter().map(damaged_json).collect::<Vec<_>>(),
        }),
        &text(&metadata),
    )
}

/// The filesystem of an image, which is not encrypted as a whole.
pub fn filesystem(image: &Path, partition: Option<u32>) -> Result<Box<dyn FileTree>, Failure> {
    let device = Arc::new(open_device(image, FileAccess::ReadOnly)?);
    let device = filesystem_device(device, partition).map_err(|error| Failure::from(error).at(image))?;
    open_tree(device, Access::ReadOnly).map_err(|error| {
        let unsupported = error.fault().copied();
        let failure = Failure::from(error).at(image);
        match unsupported {
            Some(Unsupported::Filesystem(FilesystemKind::Luks1 | FilesystemKind::Luks2)) => failure.hint(
                "`atrest open` serves what is in the volume as a file or device that can be named here",
            ),
            _ => failure,
        }
    })
}

impl From<MetadataError> for Failure {
    fn from(error: MetadataError) -> Self {
        match error {
            MetadataError::Tree(error) => error.into(),
            MetadataError::NotSetUp => Self::new(Code::Device, error)
                .hint("its encrypted directories, if there are any, were made without google/fscrypt"),
            error => Self::new(Code::Device, error),
        }
    }
}

fn text(metadata: &Metadata) -> String {
    let mut text = String::from(
        "POLICY                            VERSION  CONTENTS           NAMES            PADDING  PROTECTORS\n",
    );
    for policy in metadata.policies() {
        let protectors: Vec<String> = policy.keys.iter().map(|slot| slot.protector.to_string()).collect();
        text += &format!(
            "{:<32}  {:<7}  {:<17}  {:<15}  {:<7}  {}\n",
            policy.key_name.to_string(),
            version(policy),
            mode(policy.contents),
            mode(policy.filenames),
            policy.padding,
            protectors.join(", ")
        );
    }
    text += "\nPROTECTOR         UNLOCKED BY\n";
    for protector in metadata.protectors() {
        let by = match &protector.source {
            ProtectorSource::LoginPassphrase { uid, .. } => format!("login passphrase of user {uid}"),
            ProtectorSource::CustomPassphrase(_) => {
                format!("passphrase \"{}\"", DisplayName(protector.name.as_bytes()))
            }
            ProtectorSource::RawKey => format!("raw key \"{}\"", DisplayName(protector.name.as_bytes())),
        };
        text += &format!("{}  {by}\n", protector.descriptor);
    }
    for link in metadata.links() {
        text += &format!("{}  on another filesystem: {}\n", link.descriptor, target(link));
    }
    for damaged in metadata.damaged() {
        text += &format!("damaged: {}: {}\n", damaged.path, damaged.damage);
    }
    text
}

fn version(policy: &Policy) -> u8 {
    match policy.key_name {
        KeyName::Descriptor(_) => 1,
        KeyName::Identifier(_) => 2,
    }
}

/// The mode's name, or its number if it is none that we know.
fn mode(number: u8) -> String {
    EncryptionMode::from_number(number).map_or_else(|| number.to_string(), |mode| mode.to_string())
}

fn target(link: &Link) -> String {
    let lines: Vec<String> =
        link.target.lines().map(|line| DisplayName(line.as_bytes()).to_string()).collect();
    lines.join(", ")
}

fn policy_json(policy: &Policy) -> Value {
    json!({
        "descriptor": policy.key_name.to_string(),
        "version": version(policy),
        "contents": mode(policy.contents),
        "names": mode(policy.filenames),
        "padding": policy.padding,
        "protectors": policy.keys.iter().map(|slot| slot.protector.to_string()).collect::<Vec<_>>(),
    })
}

fn protector_json(protector: &Protector) -> Value {
    let (source, uid, hashing) = match &protector.source {
        ProtectorSource::LoginPassphrase { uid, hashing } => ("pam_passphrase", Some(*uid), Some(hashing)),
        ProtectorSource::CustomPassphrase(hashing) => ("custom_passphrase", None, Some(hashing)),
        ProtectorSource::RawKey => ("raw_key", None, None),
    };
    json!({
        "descriptor": protector.descriptor.to_string(),
        "source": source,
        "name": protector.name,
        "uid": uid,
        "argon2id": hashing.map(|hashing| json!({
            "time": hashing.cost.time, "memory_kib": hashing.cost.memory_kib, "lanes": hashing.cost.lanes,
        })),
    })
}

fn link_json(link: &Link) -> Value {
    json!({ "descriptor": link.descriptor.to_string(), "target": link.target })
}

fn damaged_json(damaged: &Damaged) -> Value {
    json!({ "path": damaged.path.to_string(), "reason": damaged.damage.to_string() })
}
