//! The map: where the blocks of a state lie. A tree of nodes that are never rewritten, of which those are in memory that were used last.
//!
//! Runs that are new go into the highest node. One that holds too many hands those of the node below that has the most of them down to
//! it, and so on. So a checkpoint writes few nodes, whatever the size of the volume, and a lookup reads one of each level at most.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::VolumeError;
use super::cache::Cache;
use super::extents::{Extents, Place};
use super::nodes::{Fetched, Lacks, Nodes};
use super::objects::Objects;
use super::random::Shared;
use crate::format::{FANOUT, Kind, Node, Prelude, Run, names, seal_node, span};

/// Bytes that a run, an object and a child take in memory, more or less.
const RUN: usize = 56;
const OBJECT: usize = 136;
const CHILD: usize = 160;

/// Runs that an object weighs as much as, whose identity stands beside them.
const OBJECT_WEIGHT: usize = 3;

/// Is told of a run that is stored: address, length, object and slot.
pub(crate) type Each<'a> = dyn FnMut(u64, u64, &Arc<Prelude>, u32) + 'a;

/// The map of a state, and the nodes that were read.
pub(crate) struct Map {
    pub(crate) top: Option<Prelude>,
    pub(crate) nodes: Arc<Nodes>,
}

/// A node in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loaded {
    /// By their numbers.
    children: BTreeMap<u64, Prelude>,
    runs: Extents,
}

/// What making nodes takes.
pub(crate) struct Making<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) random: &'a mut Shared,
    pub(crate) session: [u8; 32],
    /// Runs that a branch holds at most; an object counts as three.
    pub(crate) most: usize,
    /// Salts of the nodes that were stored.
    pub(crate) stored: Vec<[u8; 16]>,
}

impl Map {
    /// A cache of so many bytes.
    pub(crate) fn new(top: Option<Prelude>, cached: usize) -> Self {
        Self { top, nodes: Cache::new(cached) }
    }

    /// Where a block lies, and how many from it on lie one behind the other.
    pub(crate) fn find(&self, objects: &Objects, block: u64) -> Result<(u64, Place), VolumeError> {
        self.descend(block, |node| self.node(objects, node))
    }

    /// [`find`](Self::find) by the nodes that are in memory.
    pub(crate) fn find_here(&self, fetched: &Fetched, block: u64) -> Result<(u64, Place), Lacks> {
        self.descend(block, |node| fetched.find(&self.nodes, node).ok_or(Lacks::Node(*node)))
    }

    fn descend<E>(
        &self,
        block: u64,
        mut node: impl FnMut(&Prelude) -> Result<Arc<Loaded>, E>,
    ) -> Result<(u64, Place), E> {
        let mut alike = u64::MAX;
        let Some(mut at) = self.top.filter(|top| block < span(top.slots)) else {
            return Ok((alike, Place::Hole));
        };
        loop {
            let node = node(&at)?;
            match node.runs.find(block) {
                Ok((len, place)) => return Ok((len.min(alike), place)),
                Err(unknown) => alike = alike.min(unknown),
            }
            let below = span(at.slots.saturating_sub(1)); // intended: a leaf has nothing below, and ends where it ends.
            let number = block / below;
            alike = alike.min((number + 1) * below - block);
            match node.children.get(&number) {
                Some(child) => at = *child,
                None => return Ok((alike, Place::Hole)),
            }
        }
    }

    fn node(&self, objects: &Objects, node: &Prelude) -> Result<Arc<Loaded>, VolumeError> {
        self.nodes.get(objects, node)
    }

    /// The highest node of the map with newer runs over it. The nodes that differ are stored.
    pub(crate) fn with(
        &mut self,
        making: &mut Making<'_>,
        newer: &Extents,
    ) -> Result<Option<Prelude>, VolumeError> {
        let stored = |(start, len, place): (u64, u64, &Place)| match place {
            Place::Hole => 0,
            Place::Stored(..) => start + len,
        };
        let end = newer.iter().map(stored).max().unwrap_or(0); // intended: nothing ends nowhere.
        let mut top = self.top;
        let reaches = |node: &Prelude| span(node.slots) >= end;
        let mut level = top.map_or(0, |top| top.slots);
        while span(level) < end {
            level += 1;
            // A node above what is there, for as long as that describes too few blocks.
            if let Some(below) = top.filter(|top| !reaches(top)) {
                let children = BTreeMap::from([(0, below)]);
                top = Some(self.store(making, level, 0, Loaded { children, runs: Extents::default() })?);
            }
        }
        let inside = newer.within(0, span(level)).collect();
        self.merged(making, top, (level, 0), inside, false)
    }

    /// The map again, of nodes that the present session makes, wherever one is to be replaced; nothing lies over anything else in it.
    pub(crate) fn renewed(
        &mut self,
        making: &mut Making<'_>,
        newer: &Extents,
    ) -> Result<Option<Prelude>, VolumeError> {
        let Some(top) = self.with(making, newer)? else { return Ok(None) };
        self.merged(making, Some(top), (top.slots, 0), Extents::default(), true)
    }

    /// A node with newer runs over it, of which as many stay in it as may. `whole`: none stays in a branch, and nodes that another key or another
    /// volume has made are made anew.
    fn merged(
        &mut self,
        making: &mut Making<'_>,
        at: Option<Prelude>,
        (level, number): (u32, u64),
        newer: Extents,
        whole: bool,
    ) -> Result<Option<Prelude>, VolumeError> {
        let own = at.is_some_and(|at| making.objects.made(&at));
        if level == 0 && own && newer.is_empty() {
            return Ok(at);
        }
        let mut node = match &at {
            Some(at) => Loaded::clone(&*self.node(making.objects, at)?),
            None => Loaded::default(),
        };
        let mut changed = !newer.is_empty() || whole && !own;
        node.runs.extend(newer.iter().map(|(start, len, place)| (start, len, place.clone())));
        if level == 0 {
            node.runs = node.runs.stored().collect();
        } else {
            let below = span(level - 1);
            changed |= node.drop_holes(below);
            let first = number * FANOUT;
            for child in node.fullest(below) {
                if !whole && !node.is_full(making.most) {
                    break;
                }
                debug_assert!((first..first + FANOUT).contains(&child));
                let (start, end) = (child * below, (child + 1) * below);
                let piece: Extents = node.runs.within(start, end).collect();
                node.runs.cut(start, end);
                let at = node.children.get(&child).copied();
                node.put(child, self.merged(making, at, (level - 1, child), piece, whole)?);
                changed = true;
            }
            if whole {
                for (child, at) in node.children.clone() {
                    let made = self.merged(making, Some(at), (level - 1, child), Extents::default(), true)?;
                    changed |= made != Some(at);
                    node.put(child, made);
                }
            }
        }
        if node.children.is_empty() && node.runs.is_empty() {
            return Ok(None);
        }
        if !changed {
            return Ok(at);
        }
        self.store(making, level, number, node).map(Some)
    }

    fn store(
        &mut self,
        making: &mut Making<'_>,
        level: u32,
        number: u64,
        node: Loaded,
    ) -> Result<Prelude, VolumeError> {
        let objects = making.objects;
        let prelude = objects.prelude(making.random, Kind::Map, number, making.session)?;
        let (prelude, bytes) =
            seal_node(&objects.keys, Prelude { slots: level, ..prelude }, &node.to_node())?;
        making.stored.push(prelude.salt);
        objects.put(&names::map(&prelude.salt), &bytes)?;
        self.nodes.keep(prelude.salt, node.bytes(), Arc::new(node));
        Ok(prelude)
    }

    /// Goes through the runs that count in the map of `top` with newer ones over it, by their addresses.
    /// What lies below a node that is in `known`, with nothing over it, is left out; nodes are added to it.
    pub(crate) fn walk(
        &mut self,
        objects: &Objects,
        top: Option<&Prelude>,
        newer: &Extents,
        known: &mut BTreeSet<[u8; 16]>,
        with: &mut Each<'_>,
    ) -> Result<(), VolumeError> {
        let reach = top.map_or(0, |top| span(top.slots));
        if let Some(top) = top {
            self.walk_node(objects, top, newer.within(0, reach).collect(), known, with)?;
        }
        each(newer.within(reach, u64::MAX), with);
        Ok(())
    }

    fn walk_node(
        &mut self,
        objects: &Objects,
        at: &Prelude,
        newer: Extents,
        known: &mut BTreeSet<[u8; 16]>,
        with: &mut Each<'_>,
    ) -> Result<(), VolumeError> {
        if newer.is_empty() && !known.insert(at.salt) {
            return Ok(());
        }
        let node = self.node(objects, at)?;
        let mut runs = node.runs.clone();
        runs.extend(newer.iter().map(|(start, len, place)| (start, len, place.clone())));
        drop(newer);
        let mut from = at.number * span(at.slots);
        let end = from + span(at.slots);
        for (number, child) in &node.children {
            let below = span(child.slots);
            let (first, behind) = (number * below, (number + 1) * below);
            each(runs.within(from, first), with);
            self.walk_node(objects, child, runs.within(first, behind).collect(), known, with)?;
            from = behind;
        }
        each(runs.within(from, end), with);
        Ok(())
    }

    /// Whether every node is made by this volume, with its present key.
    pub(crate) fn is_made(&mut self, objects: &Objects) -> Result<bool, VolumeError> {
        let mut open: Vec<Prelude> = self.top.into_iter().collect();
        while let Some(at) = open.pop() {
            if !objects.made(&at) {
                return Ok(false);
            }
            if at.slots > 0 {
                open.extend(self.node(objects, &at)?.children.values().copied());
            }
        }
        Ok(true)
    }

    /// Adds the salts of all nodes of the map of `top`. Below those that are in `all` already nothing is looked for.
    pub(crate) fn nodes(
        &mut self,
        objects: &Objects,
        top: &Prelude,
        all: &mut BTreeSet<[u8; 16]>,
    ) -> Result<(), VolumeError> {
        if top.format != objects.keys.format() || !all.insert(top.salt) || top.slots == 0 {
            return Ok(());
        }
        let node = self.node(objects, top)?;
        node.children.values().try_for_each(|child| self.nodes(objects, child, all))
    }
}

fn each(runs: impl Iterator<Item = (u64, u64, Place)>, with: &mut Each<'_>) {
    for (start, len, place) in runs {
        if let Place::Stored(object, slot) = place {
            with(start, len, &object, slot);
        }
    }
}

impl Loaded {
    pub(crate) fn of(node: Node) -> Self {
        let mut shared = BTreeMap::<[u8; 16], Arc<Prelude>>::new();
        let mut runs = Extents::default();
        for Run { start, len, place } in node.runs {
            let place = match place {
                None => Place::Hole,
                Some((object, slot)) => {
                    let object = shared.entry(object.salt).or_insert_with(|| Arc::new(object));
                    Place::Stored(Arc::clone(object), slot)
                }
            };
            runs.insert(start, len, place);
        }
        Self { children: node.children.into_iter().map(|child| (child.number, child)).collect(), runs }
    }

    fn to_node(&self) -> Node {
        let run = |(start, len, place): (u64, u64, &Place)| match place {
            Place::Hole => Run { start, len, place: None },
            Place::Stored(object, slot) => Run { start, len, place: Some((**object, *slot)) },
        };
        Node {
            children: self.children.values().copied().collect(),
            runs: self.runs.iter().map(run).collect(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.runs.len() * RUN + self.runs.objects() * OBJECT + self.children.len() * CHILD
    }

    fn put(&mut self, number: u64, child: Option<Prelude>) {
        match child {
            Some(child) => self.children.insert(number, child),
            None => self.children.remove(&number),
        };
    }

    /// Holes over nothing are forgotten, and so are children under nothing but a hole. Whether there were any of those.
    fn drop_holes(&mut self, below: u64) -> bool {
        let hole = |(start, len, place): (u64, u64, &Place)| (*place == Place::Hole).then_some((start, len));
        let holes: Vec<(u64, u64)> = self.runs.iter().filter_map(hole).collect();
        let before = self.children.len();
        for (start, len) in holes {
            let end = start + len;
            self.runs.cut(start, end);
            self.children.retain(|number, _| number * below < start || (number + 1) * below > end);
            let touched: Vec<u64> =
                self.children.range(start / below..end.div_ceil(below)).map(|(number, _)| *number).collect();
            for number in touched {
                let (from, to) = (start.max(number * below), end.min((number + 1) * below));
                self.runs.insert(from, to - from, Place::Hole);
            }
        }
        self.children.len() < before
    }

    /// Whether there are more runs than a branch holds.
    fn is_full(&self, most: usize) -> bool {
        self.runs.len() > most || self.runs.len() + OBJECT_WEIGHT * self.runs.objects() > most
    }

    /// The children that have runs over them, those with the most first.
    fn fullest(&self, below: u64) -> Vec<u64> {
        let mut over = BTreeMap::<u64, usize>::new();
        for (start, len, _) in self.runs.iter() {
            for child in start / below..(start + len).div_ceil(below) {
                *over.entry(child).or_insert(0) += 1;
            }
        }
        let mut children: Vec<(u64, usize)> = over.into_iter().collect();
        children.sort_by_key(|(_, runs)| std::cmp::Reverse(*runs));
        children.into_iter().map(|(child, _)| child).collect()
    }
}
