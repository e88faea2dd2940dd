//! Random histories of LUKS1 keyslots against a model: which passphrases open, in which keyslot, after each step.

use std::collections::BTreeMap;

use atrest_testkit::FaultDevice;
use atrest_testkit::property::hold;
use atrest_testkit::property::proptest::prelude::*;
use atrest_volume::luks1::{self, Luks1};
use atrest_volume::{ChangeError, Credential, KeyslotOptions, RestoreOptions, UnlockError, VolumeKey};

use crate::luks1::common::{fast, in_slot, key_bytes, opens, pass, small};

const SLOTS: u32 = 8;

/// A step. Passphrases that are there are named by a number, whatever their keyslot.
#[derive(Clone, Debug)]
enum Step {
    Add {
        with: usize,
        slot: Option<u32>,
    },
    AddByVolumeKey {
        slot: Option<u32>,
    },
    Change {
        which: usize,
        slot: Option<u32>,
    },
    /// In the keyslot where it is.
    Overwrite {
        which: usize,
    },
    Remove {
        which: usize,
        last_may_go: bool,
    },
    Kill {
        slot: u32,
        last_may_go: bool,
    },
    /// A passphrase that is gone, or was never there.
    TryAnother,
    Erase,
    /// What comes of a header backup that is restored over an erased volume.
    BackupEraseRestore,
    SetUuid(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let slot = || prop_oneof![2 => Just(None), 1 => (0..=SLOTS).prop_map(Some)];
    let which = || 0..SLOTS as usize;
    prop::collection::vec(
        prop_oneof![
            6 => (which(), slot()).prop_map(|(with, slot)| Step::Add { with, slot }),
            2 => slot().prop_map(|slot| Step::AddByVolumeKey { slot }),
            3 => (which(), slot()).prop_map(|(which, slot)| Step::Change { which, slot }),
            2 => which().prop_map(|which| Step::Overwrite { which }),
            3 => (which(), any::<bool>()).prop_map(|(which, last_may_go)| Step::Remove { which, last_may_go }),
            3 => (0..=SLOTS, any::<bool>()).prop_map(|(slot, last_may_go)| Step::Kill { slot, last_may_go }),
            1 => Just(Step::TryAnother),
            1 => Just(Step::Erase),
            1 => Just(Step::BackupEraseRestore),
            1 => any::<u8>().prop_map(Step::SetUuid),
        ],
        1..12,
    )
}

/// A volume, and what it should be.
struct History {
    device: FaultDevice,
    luks: Luks1,
    volume_key: VolumeKey,
    /// Of each keyslot in use, its passphrase.
    keys: BTreeMap<u32, String>,
    uuid: String,
    gone: Vec<String>,
    names: u32,
}

impl History {
    fn start() -> Self {
        let (device, luks) = small();
        let (_, volume_key) = luks.volume_key(&device, &pass("one"), None).expect("opens");
        let (keys, uuid) = (BTreeMap::from([(0, "one".to_owned())]), luks.uuid().to_owned());
        Self { device, luks, volume_key, keys, uuid, gone: Vec::new(), names: 0 }
    }

    /// A passphrase that was never there.
    fn new_name(&mut self) -> String {
        self.names += 1;
        format!("key{}", self.names)
    }

    fn some(&self, which: usize) -> Option<(u32, String)> {
        let (slot, key) = self.keys.iter().nth(which % self.keys.len().max(1))?;
        Some((*slot, key.clone()))
    }

    /// Where a new keyslot goes.
    fn place(&self, asked: Option<u32>) -> Result<u32, Refusal> {
        match asked {
            Some(slot) if slot >= SLOTS => Err(Refusal::NoSuchNumber),
            Some(slot) if self.keys.contains_key(&slot) => Err(Refusal::InUse(slot)),
            Some(slot) => Ok(slot),
            None => (0..SLOTS).find(|slot| !self.keys.contains_key(slot)).ok_or(Refusal::AllInUse),
        }
    }

    fn may_go(&self, slot: u32, last_may_go: bool) -> Result<(), Refusal> {
        match self.keys.get(&slot) {
            None => Err(Refusal::NotThere(slot)),
            Some(_) if self.keys.len() == 1 && !last_may_go => Err(Refusal::Last(slot)),
            Some(_) => Ok(()),
        }
    }

    fn forget(&mut self, slot: u32) {
        self.gone.extend(self.keys.remove(&slot));
    }

    fn take(&mut self, step: &Step) {
        let name = self.new_name();
        let options = |slot: Option<u32>| slot.map_or_else(fast, in_slot);
        match *step {
            Step::Add { with, slot } => {
                let Some((_, key)) = self.some(with) else { return };
                let (key, options) = (pass(&key), options(slot));
                let by = Credential::Passphrase(&key, None);
                let added = self.luks.add_key(&self.device, by, &pass(&name), &options);
                self.added(added, slot, name);
            }
            Step::AddByVolumeKey { slot } => {
                let by = Credential::VolumeKey(&self.volume_key);
                let added = self.luks.add_key(&self.device, by, &pass(&name), &options(slot));
                self.added(added, slot, name);
            }
            Step::Change { which, slot } => {
                let Some((old, key)) = self.some(which) else { return };
                let slot = slot.filter(|slot| *slot != old);
                self.change(old, &key, self.place(slot), &options(slot), name);
            }
            Step::Overwrite { which } => {
                let Some((old, key)) = self.some(which) else { return };
                self.change(old, &key, Ok(old), &in_slot(old), name);
            }
            Step::Remove { which, last_may_go } => {
                let Some((slot, key)) = self.some(which) else { return };
                let removed = self.luks.remove_key(&self.device, &pass(&key), last_may_go);
                let expected = self.may_go(slot, last_may_go).map(|()| slot);
                assert_eq!(removed.map_err(Refusal::from), expected);
                if expected.is_ok() {
                    self.forget(slot);
                }
            }
            Step::Kill { slot, last_may_go } => {
                let killed = self.luks.kill_slot(&self.device, slot, last_may_go);
                let expected = self.may_go(slot, last_may_go);
                assert_eq!(killed.map_err(Refusal::from), expected);
                if expected.is_ok() {
                    self.forget(slot);
                }
            }
            Step::TryAnother => {
                let other = self.gone.last().unwrap_or(&name);
                let error =
                    if self.keys.is_empty() { UnlockError::NoKeyslot } else { UnlockError::WrongPassphrase };
                let by = pass(other);
                let refused =
                    self.luks.add_key(&self.device, Credential::Passphrase(&by, None), &pass("x"), &fast());
                let expected =
                    if self.keys.len() as u32 == SLOTS { Refusal::AllInUse } else { Refusal::Unlock(error) };
                assert_eq!(refused.map_err(Refusal::from), Err(expected));
            }
            Step::Erase => {
                self.luks.erase(&self.device).expect("erases");
                (0..SLOTS).for_each(|slot| self.forget(slot));
            }
            Step::BackupEraseRestore => {
                let backup = luks1::header_backup(&self.device).expect("backs up");
                self.luks.erase(&self.device).expect("erases");
                luks1::header_restore(&self.device, &backup, RestoreOptions::default()).expect("restores");
            }
            Step::SetUuid(number) => {
                self.uuid = format!("7d5e3c8e-54a9-4d6e-9f43-2f1c8a5f0b{number:02x}");
                self.luks.set_uuid(&self.device, &self.uuid).expect("sets");
            }
        }
    }

    fn added(&mut self, added: Result<u32, ChangeError>, asked: Option<u32>, name: String) {
        let place = self.place(asked);
        assert_eq!(added.map_err(Refusal::from), place);
        if let Ok(slot) = place {
            self.keys.insert(slot, name);
        }
    }

    fn change(
        &mut self,
        old: u32,
        key: &str,
        place: Result<u32, Refusal>,
        options: &KeyslotOptions,
        name: String,
    ) {
        let changed = self.luks.change_key(&self.device, &pass(key), None, &pass(&name), options);
        assert_eq!(changed.map_err(Refusal::from), place);
        if let Ok(slot) = place {
            self.forget(old);
            self.keys.insert(slot, name);
        }
    }

    /// What is in memory, what is on the medium, and who opens it.
    fn check(&self) {
        let fresh = Luks1::read(&self.device).expect("reads");
        let listed: Vec<u32> = fresh.info().keyslots.iter().map(|keyslot| keyslot.id).collect();
        assert_eq!(listed, Vec::from_iter(self.keys.keys().copied()));
        assert_eq!(fresh.uuid(), self.uuid);
        if let Some((slot, key)) = self.keys.last_key_value() {
            let (number, volume_key) = fresh.volume_key(&self.device, &pass(key), None).expect("opens");
            assert_eq!((number, key_bytes(&volume_key)), (*slot, key_bytes(&self.volume_key)));
        }
        if let Some(gone) = self.gone.last() {
            assert!(opens(&self.device, gone).is_err(), "{gone} opens still");
        }
    }
}

/// Why a step changes nothing.
#[derive(Clone, Debug, PartialEq)]
enum Refusal {
    NoSuchNumber,
    InUse(u32),
    AllInUse,
    NotThere(u32),
    Last(u32),
    Unlock(UnlockError),
}

impl From<ChangeError> for Refusal {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Option(_) => Self::NoSuchNumber,
            ChangeError::KeyslotInUse { slot } => Self::InUse(slot),
            ChangeError::NoFreeKeyslot => Self::AllInUse,
            ChangeError::NoSuchKeyslot { slot } => Self::NotThere(slot),
            ChangeError::LastKeyslot { slot } => Self::Last(slot),
            ChangeError::Unlock(error) => Self::Unlock(error),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn any_history_of_keyslots_leaves_what_the_model_says() {
    hold("luks1-histories", 24, 2000, steps(), |steps| {
        let mut history = History::start();
        for step in &steps {
            history.take(step);
            history.check();
        }
        for (slot, key) in &history.keys {
            assert_eq!(opens(&history.device, key), Ok(*slot));
        }
    });
}
