//! `--store` in the program that takes cryptsetup's place: there are no trusted stores.

use atrest_open::Locked;
use atrest_secret::VolumeKey;
use atrest_volume::UnlockOptions;
use atrest_volume::luks2::{Luks2, PinRecord};

use std::path::Path;

use super::flash;
use crate::args::header::HeaderPinArgs;
use crate::args::open::UnlockArgs;
use crate::failure::Failure;
use crate::output::Output;

/// There is none.
pub enum Store {}

impl Store {
    pub fn beyond(&self, _: &Luks2, _: &VolumeKey, _: bool, _: &Output) -> Result<u64, Failure> {
        match *self {}
    }

    pub fn put(&mut self, _: &PinRecord) -> Result<(), Failure> {
        match *self {}
    }
}

pub fn store(args: &HeaderPinArgs) -> Result<Option<Store>, Failure> {
    flash::refuse_store(args.target.store.is_some()).map(|()| None)
}

/// Whoever names one has been refused.
pub fn seen(_: &Path, _: &UnlockArgs) -> Result<Option<PinRecord>, Failure> {
    Ok(None)
}

pub fn now_seen(_: &UnlockArgs, _: &UnlockOptions, _: &dyn Locked) -> Result<(), Failure> {
    Ok(())
}
