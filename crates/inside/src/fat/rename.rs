//! Renaming, in an order of writes that survives power loss: at any moment the old name is there, or the new one, or both.
//!
//! FAT can't change two sectors at once. A file changes its name in one write where old and new slots fit into one sector.
//! Elsewhere the new entry is made durable before the old one goes. A power loss between the two leaves two names for the
//! same clusters, of which a check (`fsck.fat`) keeps one. No cluster is freed before nothing refers to it any more.

use super::State;
use super::dir::{Directory, Found, Order, Place};
use atrest_filetree::{IfExists, TreeError, TreePath};

use crate::fault::Damage;

impl State {
    pub(super) fn rename(
        &mut self,
        from: &TreePath,
        to: &TreePath,
        if_exists: IfExists,
    ) -> Result<(), TreeError> {
        let (source, moved) = self.find(from)?;
        let (Some(parent), Some(name)) = (to.parent(), to.name()) else { return Err(TreeError::Exists) };
        let (target, way) = self.way(&parent)?;
        let inner = if moved.is_dir() { Some(self.behind(&moved)?) } else { None };
        if inner.as_ref().is_some_and(|inner| way.contains(&inner.number())) {
            return Err(TreeError::IntoItself);
        }
        let same_directory = source.number() == target.number();
        // One directory is one object, or the two would not know of each other's changes.
        let source = (!same_directory).then_some(source);
        let rename = Rename { moved, inner, source, target };
        match rename.target.find(name).cloned() {
            // Its own name, in other letters or the short one.
            Some(own)
                if same_directory && own.slot() == rename.moved.slot() && own.name.as_bytes() != name =>
            {
                rename.under_new_name(self, name)
            }
            Some(_) if if_exists == IfExists::Fail => Err(TreeError::Exists),
            Some(own) if same_directory && own.slot() == rename.moved.slot() => Ok(()),
            Some(there) => rename.over(self, &there),
            None => rename.under_new_name(self, name),
        }
    }

    fn behind(&mut self, found: &Found) -> Result<Directory, TreeError> {
        let place = Place::Chain(found.cluster(&self.table));
        let inner = Directory::read(&mut self.table, place)?;
        // What is no directory has no place for the way up.
        if inner.has_parent_entry() { Ok(inner) } else { Err(inner.damaged(1)) }
    }
}

struct Rename {
    moved: Found,
    /// The directory that is moved, if it is one.
    inner: Option<Directory>,
    /// The directory that the entry leaves, unless it stays where it is.
    source: Option<Directory>,
    target: Directory,
}

impl Rename {
    fn under_new_name(mut self, state: &mut State, name: &[u8]) -> Result<(), TreeError> {
        let own = self.source.is_none().then_some(&self.moved);
        let new = self.target.new_name(name, own)?;
        state.mark()?;
        // The contents first: who writes a file and renames it relies on that.
        state.table.settle()?;
        if let Some(start) = own.and_then(|own| self.target.room_beside(new.slots(), own)) {
            self.target.rewrite(&mut state.table, start, &new, &self.moved)?;
        } else {
            let start = self.target.reserve(&mut state.table, new.slots())?;
            state.table.settle()?;
            self.target.write_entry_in(&mut state.table, start, &new, self.moved.clone(), Order::Durable)?;
            state.table.settle()?;
            self.leave_old_name(state)?;
        }
        self.forget(state);
        state.table.settle()
    }

    /// Takes the place of what is there, whose name stays as it is written.
    fn over(mut self, state: &mut State, there: &Found) -> Result<(), TreeError> {
        let replaced = match (self.moved.is_dir(), there.is_dir()) {
            (true, true) => Some(state.empty(there)?),
            (true, false) => return Err(TreeError::NotADirectory),
            (false, true) => return Err(TreeError::IsADirectory),
            (false, false) => None,
        };
        // What was there is freed.
        state.check_unshared()?;
        state.mark()?;
        state.table.settle()?;
        self.target.take_over(&mut state.table, there, &self.moved)?;
        if self.source.is_some() || !Directory::in_one_sector(there, &self.moved) {
            state.table.settle()?;
        }
        self.leave_old_name(state)?;
        self.forget(state);
        if let Some(replaced) = replaced {
            state.entered.forget(&replaced);
        }
        state.table.settle()?;
        match there.cluster(&state.table) {
            0 => Ok(()),
            first => state.table.release(first),
        }
    }

    /// Takes the old name away, once the new one is durable.
    fn leave_old_name(&mut self, state: &mut State) -> Result<(), TreeError> {
        if let (Some(inner), Some(_)) = (&mut self.inner, &self.source) {
            let root = super::dir::root(&state.table);
            let parent = match (root, self.target.number()) {
                // The root is written as 0, wherever it is.
                (Place::Chain(root), number) if number == u64::from(root) => 0,
                (_, number) => u32::try_from(number).map_err(|_| Damage::FatStructure)?,
            };
            inner.set_parent(&mut state.table, parent)?;
        }
        let directory = self.source.as_mut().unwrap_or(&mut self.target);
        directory.remove_in(&mut state.table, &self.moved, Order::Durable)
    }

    /// The directory that was moved has another entry now.
    fn forget(&self, state: &mut State) {
        if let Some(inner) = &self.inner {
            state.entered.forget(inner);
        }
    }
}
