//! All data and the whole tree against the root hash, on every core.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::build::Children;
use super::error::VerityError;
use super::hasher::Digest;
use super::layout::{Layout, Parts};
use super::trusted::{BlockPlace, Trusted, Untrusted};
use super::work::{Pace, each};

/// Bad and repaired blocks that a report names.
pub const MAX_NAMED: usize = 4096;

/// What a check has found. All is well if nothing is [`bad`](Self::is_good).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Blocks with a wrong hash that can't be repaired: the lowest heights and numbers, at most [`MAX_NAMED`].
    pub bad: BTreeSet<BlockPlace>,
    /// Blocks of the tree with other bytes than zeros where there is no hash: at most [`MAX_NAMED`].
    pub spare: BTreeSet<BlockPlace>,
    /// Blocks that error correction has repaired, at most [`MAX_NAMED`]. On their device they are as bad as before.
    pub repaired: BTreeSet<BlockPlace>,
    /// Bad blocks of data.
    pub bad_data: u64,
    /// The root hash that would vouch for everything as it is: the one that was given belongs to another tree.
    pub other_root: Option<Digest>,
    /// Blocks of data that nothing can be said of, because a block of the tree above them is bad.
    pub unknown: u64,
    /// Whether the check ended at a bad block: there may be more. The numbers count what was seen until then.
    pub ended_early: bool,
}

impl Report {
    /// Whether the root hash vouches for all data, as it is or repaired.
    pub fn is_good(&self) -> bool {
        self.bad.is_empty() && self.spare.is_empty()
    }

    /// Whether the block at the top is bad: the root hash belongs to another tree, or that block was changed.
    pub fn is_root_wrong(&self, layout: &Layout) -> bool {
        let top = layout.tree.levels().len();
        self.bad.iter().any(|place| usize::from(place.height) == top)
    }
}

/// How far a check goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Everything, whatever is found. Noise with parity takes hours: each of its blocks is tried to be repaired.
    All,
    /// Up to the first block that is bad and can't be repaired, or a few of them: each thread ends at its own.
    ToFirstBad,
}

/// Reads and hashes everything, or as far as `extent` says.
///
/// # Errors
/// [`VerityError::RootHashLen`] or [`VerityError::TooShort`] if the parts do not fit together,
/// [`VerityError::Device`] if one can't be read, and [`VerityError::Cancelled`] if it is stopped.
pub fn check(
    parts: Parts,
    layout: Layout,
    root: &[u8],
    extent: Extent,
    pace: &mut Pace<'_>,
) -> Result<Report, VerityError> {
    let mut report = check_against(parts.clone(), layout.clone(), root, extent, pace)?;
    if report.is_root_wrong(&layout) {
        // Was something changed, or is it the wrong root hash? Then all the rest fits together.
        let actual = super::build::root(&parts, &layout)?;
        pace.done = 0;
        if check_against(parts, layout, actual.as_bytes(), Extent::ToFirstBad, pace)?.is_good() {
            report.other_root = Some(actual);
        }
    }
    Ok(report)
}

fn check_against(
    parts: Parts,
    layout: Layout,
    root: &[u8],
    extent: Extent,
    pace: &mut Pace<'_>,
) -> Result<Report, VerityError> {
    let found = std::sync::Arc::new(Mutex::new(Report::default()));
    let repaired = {
        let found = std::sync::Arc::clone(&found);
        move |place| name(&mut lock(&found).repaired, place)
    };
    let trusted = Trusted::new(parts, layout, root, Some(Box::new(repaired)))?;
    let unknown = AtomicU64::new(0);
    let bad_data = AtomicU64::new(0);
    pace.total = trusted.layout.parameters.data_len();
    match trusted.layout.tree.levels().is_empty() {
        true => {
            let mut block = vec![0; trusted.layout.parameters.data_block() as usize];
            if !is_good(trusted.data(0, &mut block), &found)? {
                bad_data.store(1, Ordering::Relaxed);
            }
        }
        false => {
            let may_go_on = |found: &Mutex<Report>| extent == Extent::All || lock(found).is_good();
            check_data(&trusted, &found, (&bad_data, &unknown), &may_go_on, pace)?;
            if may_go_on(&found) {
                check_tree(&trusted, &found, &may_go_on, pace)?;
            }
        }
    }
    let is_one_block = trusted.layout.tree.levels().is_empty();
    drop(trusted);
    let mut report = lock(&found).clone();
    report.ended_early = extent == Extent::ToFirstBad && !is_one_block && !report.is_good();
    report.bad_data = bad_data.into_inner();
    report.unknown = unknown.into_inner();
    Ok(report)
}

fn lock(found: &Mutex<Report>) -> std::sync::MutexGuard<'_, Report> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the lowest.
fn name(names: &mut BTreeSet<BlockPlace>, place: BlockPlace) {
    names.insert(place);
    if names.len() > MAX_NAMED {
        names.pop_last();
    }
}

/// Whether a block is right. That it is not is noted.
fn is_good<T>(outcome: Result<T, Untrusted>, found: &Mutex<Report>) -> Result<bool, VerityError> {
    match outcome {
        Ok(_) => Ok(true),
        Err(Untrusted::Wrong(place)) => {
            name(&mut lock(found).bad, place);
            Ok(false)
        }
        Err(Untrusted::Unreadable(part, error)) => Err(VerityError::Device { part, error }),
    }
}

/// The data, by the blocks that have its hashes.
fn check_data(
    trusted: &Trusted,
    found: &Mutex<Report>,
    (bad_data, unknown): (&AtomicU64, &AtomicU64),
    may_go_on: &(impl Fn(&Mutex<Report>) -> bool + Sync),
    pace: &mut Pace<'_>,
) -> Result<(), VerityError> {
    let layout = &trusted.layout;
    let children = Children::of(&trusted.parts, layout, 0);
    let parents = layout.tree.levels()[0].blocks;
    let at_once = children.parents_at_once();
    each(parents.div_ceil(at_once), pace, Vec::new, |item, piece: &mut Vec<u8>| {
        let mut bytes = 0;
        for parent in item * at_once..((item + 1) * at_once).min(parents) {
            if !may_go_on(found) {
                break;
            }
            let (first, count) = children.range(parent, 1);
            bytes += count * children.block as u64;
            if !is_good(trusted.tree_block(0, parent), found)? {
                unknown.fetch_add(count, Ordering::Relaxed);
                continue;
            }
            let mut wrong = Vec::new();
            let hashed = children.hash(first, count, piece, |block, digest| {
                let expected = trusted.expected(BlockPlace { height: 0, block });
                if !expected.is_ok_and(|expected| expected == digest) {
                    wrong.push(block);
                }
            });
            if hashed.is_err() {
                // Whichever it was is read again, and repaired if it can be.
                wrong = (first..first + count).collect();
            }
            for block in wrong {
                if !may_go_on(found) {
                    break;
                }
                piece.resize(children.block, 0);
                if !is_good(trusted.data(block, piece), found)? {
                    bad_data.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(bytes)
    })
}

/// What the tree has between and behind its hashes. Each block's hash was checked on the way down to the data.
fn check_tree(
    trusted: &Trusted,
    found: &Mutex<Report>,
    may_go_on: &(impl Fn(&Mutex<Report>) -> bool + Sync),
    pace: &mut Pace<'_>,
) -> Result<(), VerityError> {
    for (level, lies_in) in trusted.layout.tree.levels().iter().enumerate() {
        let children = Children::of(&trusted.parts, &trusted.layout, level);
        each(
            lies_in.blocks,
            pace,
            || (),
            |parent, ()| {
                if !may_go_on(found) {
                    return Ok(0);
                }
                let block = trusted.tree_block(level, parent);
                if is_good(block.as_ref().map_err(|error| *error), found)?
                    && let Ok(block) = block
                {
                    let (_, count) = children.range(parent, 1);
                    if has_spare_bytes(&trusted.layout, &block, count as usize) {
                        let place = BlockPlace { height: level as u8 + 1, block: parent };
                        name(&mut lock(found).spare, place);
                    }
                }
                Ok(0)
            },
        )?;
    }
    Ok(())
}

fn has_spare_bytes(layout: &Layout, block: &[u8], digests: usize) -> bool {
    let (stride, len) = (layout.tree.stride(), layout.tree.digest_len());
    let (hashes, rest) = block.split_at(digests * stride);
    let mut spare = hashes.chunks_exact(stride).flat_map(|slot| &slot[len..]).chain(rest);
    spare.any(|byte| *byte != 0)
}
