//! The devices that belong together, and what their tree depends on.

use std::path::Path;
use std::sync::Arc;

use atrest_device::BlockDevice;
use atrest_engine::verity::{
    FecOptions, HashType, Layout, ParameterError, Parameters, Parts, Together, TreePlace, VerityError,
    open_with_room,
};
use atrest_engine::{Access, is_same};
use atrest_nbd::Uri;
use atrest_secret::{OsRandom, Random};
use atrest_volume::is_uuid;

use super::at;
use crate::args::verity::{TreeArgs, TreePlaceArgs, VerityFormatArgs};
use crate::commands::target::open_device;
use crate::failure::Failure;

const BLOCK: u32 = 4096;
const SALT_LEN: usize = 32;
const ROOTS: u32 = 2;

/// Devices that are open, and their layout.
pub struct Opened {
    pub parts: Parts,
    pub layout: Layout,
}

/// What is to be formatted. Nothing is written yet.
pub struct Planned {
    pub layout: Layout,
    pub together: Together,
}

/// Digits in pairs.
pub fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    // cannot be cut off: two digits are less than 256.
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? * 16 + digit(*low)?) as u8);
    pairs.iter().map(byte).collect::<Option<_>>().filter(|_| rest.is_empty())
}

pub fn uuid_text(uuid: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(uuid));
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// The UUID that was given, or a random one.
pub fn uuid(given: Option<&str>) -> Result<[u8; 16], Failure> {
    if let Some(text) = given {
        let digits = is_uuid(text).then(|| hex(&text.replace('-', ""))).flatten();
        let uuid = digits.and_then(|digits| digits.try_into().ok());
        return uuid.ok_or_else(|| {
            Failure::parameters(format!("{text} is no UUID"))
                .hint("a UUID is 32 hexadecimal digits: 8-4-4-4-12")
        });
    }
    let mut bytes = random::<16>()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(bytes)
}

fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    OsRandom.fill(&mut bytes).map_err(|error| Failure::parameters(error).with_code(Some(4)))?;
    Ok(bytes)
}

fn salt(given: Option<&str>) -> Result<Vec<u8>, Failure> {
    match given {
        None => Ok(random::<SALT_LEN>()?.into()),
        Some("-") => Ok(Vec::new()),
        Some(text) => hex(text).ok_or_else(|| {
            Failure::parameters("the salt is no hexadecimal number")
                .hint("it has two digits for each byte, or is - for none")
        }),
    }
}

/// Which of the files are the same.
fn together(data: &Path, tree: &Path, parity: Option<&Path>) -> Together {
    Together {
        data_tree: is_same(data, tree),
        data_parity: parity.is_some_and(|parity| is_same(parity, data)),
        tree_parity: parity.is_some_and(|parity| is_same(parity, tree)),
    }
}

fn place(args: &TreePlaceArgs) -> TreePlace {
    // intended: where it is in most files.
    TreePlace { offset: args.hash_offset.unwrap_or(0), superblock: !args.no_superblock }
}

/// The error correction that is asked for, if it is.
pub fn fec_options(args: &TreePlaceArgs) -> Option<FecOptions> {
    args.fec_device.as_ref()?;
    // intended: what veritysetup takes where nothing is said.
    Some(FecOptions { roots: args.fec_roots.unwrap_or(ROOTS), offset: args.fec_offset.unwrap_or(0) })
}

/// What the options say, or are silent about.
fn parameters(args: &TreeArgs, salt: &[u8], data_size: u64) -> Result<Parameters, Failure> {
    // intended: what veritysetup takes where nothing is said.
    let number = args.hash_type.unwrap_or(1);
    let hash_type = HashType::from_number(number).ok_or_else(|| {
        Failure::parameters(format!("there is no hash type {number}")).hint("it is 1, or 0")
    })?;
    let hash = args.hash.as_deref().unwrap_or("sha256").to_ascii_lowercase();
    // intended: what veritysetup takes where nothing is said.
    let sizes = (args.data_block_size.unwrap_or(BLOCK), args.hash_block_size.unwrap_or(BLOCK));
    if sizes.0 == 0 {
        return Err(VerityError::Parameter(ParameterError::Block { bytes: 0 }).into());
    }
    let blocks = match args.data_blocks {
        None | Some(0) => data_size / u64::from(sizes.0),
        Some(blocks) => blocks,
    };
    Parameters::check(hash_type, &hash, sizes, blocks, salt)
        .map_err(|error| VerityError::Parameter(error).into())
}

/// Lays out what is to be made.
pub fn plan(args: &VerityFormatArgs) -> Result<Planned, Failure> {
    let parity = args.place.fec_device.as_deref();
    if let Some(path) = [Some(&*args.tree), parity].into_iter().flatten().find(|path| Uri::is_meant(path)) {
        return Err(Failure::parameters("a tree can be written to a file or block device only").at(path));
    }
    let failed = at(&args.data, &args.tree, parity);
    let data = open_device(&args.data, Access::ReadOnly)?;
    let salt = salt(args.tree_args.salt.as_deref())?;
    let parameters = parameters(&args.tree_args, &salt, data.size())?;
    if parameters.data_len() > data.size() {
        let error = VerityError::TooShort {
            part: atrest_engine::verity::Part::Data,
            size: data.size(),
            needed: parameters.data_len(),
        };
        return Err(failed(error));
    }
    let together = together(&args.data, &args.tree, parity);
    let layout = Layout::new(parameters, place(&args.place)).map_err(&failed)?;
    let there = match args.tree.exists() {
        true => open_device(&args.tree, Access::ReadOnly)?.size(),
        false => 0,
    };
    let tree_size = there.max(layout.tree().end_bytes());
    let layout = match fec_options(&args.place) {
        Some(fec) => layout.with_fec(fec, tree_size, together).map_err(&failed)?,
        None => layout,
    };
    layout.check_overlap(together).map_err(&failed)?;
    Ok(Planned { layout, together })
}

impl Planned {
    /// Opens everything, and makes room for what is to be written.
    pub fn open(&self, args: &VerityFormatArgs) -> Result<Parts, Failure> {
        let room = |path: &Path, len: u64| -> Result<Arc<dyn BlockDevice>, Failure> {
            let device = open_with_room(path, len).map_err(|error| Failure::from(error).at(path))?;
            Ok(Arc::new(device))
        };
        let (tree_end, parity_end) =
            (self.layout.tree().needed_bytes(), self.layout.fec().map(|fec| fec.end()));
        // One device is opened once, as long as the longest part wants it.
        // intended: where there is no parity it takes no room.
        let with_parity = if self.together.tree_parity { parity_end.unwrap_or(0) } else { 0 };
        let tree = room(&args.tree, tree_end.max(with_parity))?;
        let parity = match (&args.place.fec_device, parity_end) {
            (Some(_), Some(_)) if self.together.tree_parity => Some(Arc::clone(&tree)),
            (Some(path), Some(end)) => Some(room(path, end)?),
            _ => None,
        };
        let data = match (self.together, &parity) {
            (Together { data_tree: true, .. }, _) => Arc::clone(&tree),
            (Together { data_parity: true, .. }, Some(parity)) => Arc::clone(parity),
            _ => Arc::new(open_device(&args.data, Access::ReadOnlyShared)?),
        };
        Ok(Parts { data, tree, parity })
    }
}

/// Opens what is there, to be read.
pub fn open(
    data: &Path,
    tree: &Path,
    tree_args: &TreeArgs,
    place_args: &TreePlaceArgs,
) -> Result<Opened, Failure> {
    let parity = place_args.fec_device.as_deref();
    let failed = at(data, tree, parity);
    let together = together(data, tree, parity);
    let open = |path: &Path| -> Result<Arc<dyn BlockDevice>, Failure> {
        Ok(Arc::new(open_device(path, Access::ReadOnlyShared)?))
    };
    let parts = Parts { data: open(data)?, tree: open(tree)?, parity: parity.map(open).transpose()? };
    let place = place(place_args);
    let layout = match place.superblock {
        true => Layout::read(&*parts.tree, place.offset).map_err(&failed)?.1,
        false => {
            let salt = match &tree_args.salt {
                Some(text) => salt(Some(text))?,
                None => {
                    return Err(Failure::parameters("without a superblock --salt is missing")
                        .hint("give the salt that `verity format` printed, or - if there was none"));
                }
            };
            Layout::new(parameters(tree_args, &salt, parts.data.size())?, place).map_err(&failed)?
        }
    };
    let layout = match fec_options(place_args) {
        Some(fec) => layout.with_fec(fec, parts.tree.size(), together).map_err(&failed)?,
        None => layout,
    };
    layout.check_sizes(&parts).map_err(&failed)?;
    Ok(Opened { parts, layout })
}

/// Refuses what a superblock says already.
pub fn refuse_beside_superblock(args: &TreeArgs, place: &TreePlaceArgs) -> Result<(), Failure> {
    let given = args.hash.is_some()
        || args.salt.is_some()
        || args.hash_type.is_some()
        || args.data_block_size.is_some()
        || args.hash_block_size.is_some()
        || args.data_blocks.is_some();
    match given && !place.no_superblock {
        true => Err(Failure::parameters("the superblock says what the tree depends on")
            .hint("leave these options out; they are for --no-superblock")),
        false => Ok(()),
    }
}
