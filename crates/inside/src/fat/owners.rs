//! Who owns a cluster. In a sound FAT each cluster belongs to one file or directory, but nothing in the format enforces that.
//!
//! [`Entered`] remembers by which entry each directory was entered, so that a directory has one path and no walk is endless.
//! [`survey`] follows every chain below a directory, before anything is freed or copied.

use std::collections::HashMap;

use super::dir::{Directory, Found, Place};
use super::table::{Table, clusters};
use atrest_filetree::{TreeError, TreePath, WalkError};

use crate::fault::Damage;

/// An entry, by its directory's first cluster (0: the fixed root directory) and its slot. The root has none.
type Owner = Option<(u64, usize)>;

/// The entries by which directories were entered.
#[derive(Default)]
pub(super) struct Entered(HashMap<u32, Owner>);

impl Entered {
    /// Notes that `entry` of `parent` leads to `directory`; no entry stands for the root.
    /// Fails if another one has led to any of its clusters.
    pub(super) fn enter(
        &mut self,
        directory: &Directory,
        entry: Option<(&Directory, &Found)>,
    ) -> Result<(), Damage> {
        let owner: Owner = entry.map(|(parent, found)| (parent.number(), found.slot()));
        for cluster in clusters(directory.runs()) {
            if *self.0.entry(cluster).or_insert(owner) != owner {
                return Err(Damage::SharedCluster(cluster));
            }
        }
        Ok(())
    }

    /// Forgets a directory that was removed or has another entry now.
    pub(super) fn forget(&mut self, directory: &Directory) {
        for cluster in clusters(directory.runs()) {
            self.0.remove(&cluster);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// What a survey starts from.
pub(super) enum Start {
    Directory(Place),
    File(u32),
}

/// Follows all chains from `start`, which lies at `path`. Fails if a cluster belongs to two of them.
pub(super) fn survey(table: &mut Table, path: &TreePath, start: &Start) -> Result<(), WalkError> {
    let mut taken = vec![0_u64; table.boot.clusters as usize / 64 + 1];
    let first_time = |cluster: u32| {
        let (word, bit) = (cluster as usize / 64, 1 << (cluster % 64));
        // Clusters are numbered from 2, and a chain holds none that does not exist.
        taken.get_mut(word).is_some_and(|word| core::mem::replace(word, *word | bit) & bit == 0)
    };
    let Some((cluster, second)) = visit(table, path, start, first_time)? else { return Ok(()) };
    // The walk is the same again: it comes to the first owner before the second.
    match visit(table, path, start, |other| other != cluster)? {
        Some((_, first)) if first != second => Err(WalkError::SharedCluster { cluster, first, second }),
        _ => Err(WalkError::Tree { path: second, error: Damage::EndlessChain.into() }),
    }
}

/// A directory on the list, by its parent on the list and its name.
struct Listed {
    parent: usize,
    name: String,
}

/// Calls `visit` with each cluster until it says no, and returns that cluster and the path of its owner.
fn visit(
    table: &mut Table,
    path: &TreePath,
    start: &Start,
    mut visit: impl FnMut(u32) -> bool,
) -> Result<Option<(u32, TreePath)>, WalkError> {
    let mut listed: Vec<Listed> = vec![Listed { parent: 0, name: String::new() }];
    let mut ahead: Vec<(usize, Place)> = Vec::new();
    match start {
        Start::Directory(place) => ahead.push((0, place.clone())),
        Start::File(cluster) => {
            let stopped = table.follow(*cluster, &mut visit).map_err(|error| failed(path.clone(), error))?;
            return Ok(stopped.map(|cluster| (cluster, path.clone())));
        }
    }
    while let Some((own, place)) = ahead.pop() {
        let directory =
            Directory::read(table, place).map_err(|error| failed(full_path(path, &listed, own), error))?;
        if let Some(cluster) = clusters(directory.runs()).find(|&cluster| !visit(cluster)) {
            return Ok(Some((cluster, full_path(path, &listed, own))));
        }
        for found in &directory.entries {
            let first = found.cluster(table);
            if found.is_dir() {
                ahead.push((listed.len(), Place::Chain(first)));
                listed.push(Listed { parent: own, name: found.name.clone() });
                continue;
            }
            let file = |listed: &[Listed]| {
                let directory = full_path(path, listed, own);
                directory.join(&found.name).unwrap_or(directory)
            };
            let stopped = table.follow(first, &mut visit).map_err(|error| failed(file(&listed), error))?;
            if let Some(cluster) = stopped {
                return Ok(Some((cluster, file(&listed))));
            }
        }
    }
    Ok(None)
}

fn failed(path: TreePath, error: TreeError) -> WalkError {
    WalkError::Tree { path, error }
}

fn full_path(start: &TreePath, listed: &[Listed], mut at: usize) -> TreePath {
    let mut names = Vec::new();
    while at > 0
        && let Some(entry) = listed.get(at)
    {
        names.push(&entry.name);
        at = entry.parent;
    }
    // Names were checked as they were read.
    names.iter().rev().fold(start.clone(), |path, name| path.join(name).unwrap_or(path))
}
