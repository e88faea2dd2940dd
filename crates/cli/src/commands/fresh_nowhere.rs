//! `--store` in the program that takes cryptsetup's place: there are no trusted stores.

use core::marker::PhantomData;
use std::path::Path;

use atrest_open::Locked;
use atrest_secret::VolumeKey;
use atrest_volume::luks2::{Luks2, NewPin, PinCounter, PinError, PinRecord};

use super::flash;
use crate::args::open::UnlockArgs;
use crate::failure::Failure;
use crate::output::Output;

/// There is none.
pub enum Nothing {}

pub struct NewStore<'a>(Nothing, PhantomData<&'a Path>);

impl NewStore<'_> {
    pub fn pin(&self, _: &Luks2, _: &VolumeKey, _: bool, _: &Output) -> Result<NewPin, Failure> {
        match self.0 {}
    }

    pub fn make(&self, _: &Luks2, _: NewPin) -> Result<NewPin, Failure> {
        match self.0 {}
    }

    pub fn put(self, _: &Luks2, _: &VolumeKey) -> Result<(), Failure> {
        match self.0 {}
    }
}

pub fn new_store(_: &Path) -> Result<NewStore<'_>, Failure> {
    Err(refused())
}

pub struct Renewed<'a>(Nothing, PhantomData<&'a Path>);

impl Renewed<'_> {
    pub fn put(&mut self, _: &Luks2) -> Result<(), Failure> {
        match self.0 {}
    }
}

pub fn renewed<'a>(_: &'a Path, _: &mut Luks2) -> Result<Renewed<'a>, Failure> {
    Err(refused())
}

pub struct Seen<'a>(PhantomData<&'a Path>);

impl<'a> Seen<'a> {
    /// Whoever names one has been refused.
    pub fn of(_: &Path, _: &'a UnlockArgs, _: &dyn Locked) -> Result<Self, Failure> {
        Ok(Self(PhantomData))
    }

    pub fn by(_: &'a Path, _: impl FnOnce() -> Result<PinCounter, PinError>) -> Result<Self, Failure> {
        Err(refused())
    }

    pub fn record(&self) -> Option<PinRecord> {
        None
    }

    pub fn now(&self, _: &dyn Locked) -> Result<(), Failure> {
        Ok(())
    }
}

fn refused() -> Failure {
    // cannot be none: one is named.
    flash::refuse_store(true).err().unwrap_or_else(|| Failure::parameters("there are no trusted stores"))
}
