//! Long random histories of changes, compared with a model after each step and with cryptsetup at the end.

use std::collections::BTreeMap;

use atrest_device::BlockDevice;
use atrest_testkit::cryptsetup::Cryptsetup;
use atrest_testkit::{Campaign, FaultDevice, Random, Scratch};
use atrest_volume::luks2::{self, Luks2};
use atrest_volume::{ChangeError, Credential, Priority, RestoreOptions};

use crate::luks2::support::*;

/// What the volume should look like.
#[derive(Clone, Default)]
struct Model {
    keys: BTreeMap<u32, String>,
    tokens: BTreeMap<u32, String>,
    label: String,
}

impl Model {
    fn assert_describes(&self, luks: &Luks2, history: &[String]) {
        let slots: Vec<u32> = luks.metadata().keyslots().iter().map(|keyslot| keyslot.id).collect();
        assert_eq!(slots, self.keys.keys().copied().collect::<Vec<_>>(), "{history:#?}");
        for (id, text) in &self.tokens {
            assert_eq!(luks.token(*id).as_ref(), Some(text), "{history:#?}");
        }
        assert_eq!(luks.tokens().len(), self.tokens.len(), "{history:#?}");
        assert_eq!(luks.label(), self.label, "{history:#?}");
    }
}

struct History {
    device: FaultDevice,
    luks: Luks2,
    model: Model,
    gone: Vec<String>,
    log: Vec<String>,
    names: u32,
}

impl History {
    fn start() -> Self {
        let (device, luks) = volume();
        let model = Model { keys: BTreeMap::from([(0, "one".into())]), ..Model::default() };
        Self { device, luks, model, gone: Vec::new(), log: Vec::new(), names: 0 }
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("key{}", self.names)
    }

    fn any_key(&self, random: &mut Random) -> (u32, String) {
        let keys: Vec<(u32, String)> = self.model.keys.clone().into_iter().collect();
        random.pick(&keys).clone()
    }

    fn step(&mut self, random: &mut Random) {
        let (slot, key) = self.any_key(random);
        let (device, old) = (&self.device, passphrase(&key));
        match random.below(9) {
            0 | 1 => {
                let name = self.name();
                let (device, existing) = (&self.device, Credential::Passphrase(&old, None));
                match self.luks.add_key(device, existing, &passphrase(&name), &keyslot()) {
                    Ok(added) => assert_eq!(self.model.keys.insert(added, name), None),
                    Err(ChangeError::NoRoomForKeyslot { .. }) => assert_eq!(self.model.keys.len(), 8),
                    other => panic!("{other:?} after {:#?}", self.log),
                }
                self.log.push(format!("add with {key}"));
            }
            2 => {
                let name = self.name();
                match self.luks.change_key(&self.device, &old, None, &passphrase(&name), &keyslot()) {
                    Ok(changed) => {
                        assert_eq!(changed, slot);
                        self.model.keys.insert(slot, name);
                        self.gone.push(key);
                    }
                    Err(ChangeError::NoRoomForKeyslot { .. }) => assert_eq!(self.model.keys.len(), 8),
                    other => panic!("{other:?} after {:#?}", self.log),
                }
                self.log.push(format!("change {slot}"));
            }
            3 => {
                match self.luks.kill_slot(device, slot, false) {
                    Ok(()) => {
                        self.model.keys.remove(&slot);
                        self.gone.push(key);
                    }
                    Err(ChangeError::LastKeyslot { .. }) => assert_eq!(self.model.keys.len(), 1),
                    other => panic!("{other:?} after {:#?}", self.log),
                }
                self.log.push(format!("kill {slot}"));
            }
            4 => {
                let text = format!("{{\"type\":\"t{}\", \"keyslots\":[]}}", random.below(100));
                let id = self.luks.import_token(device, None, &text).expect("imports");
                self.model.tokens.insert(id, text);
                self.log.push(format!("token {id}"));
            }
            5 => {
                if let Some((id, _)) = self.model.tokens.pop_first() {
                    self.luks.remove_token(device, id).expect("removes");
                    self.log.push(format!("remove token {id}"));
                }
            }
            6 => {
                self.model.label = format!("label{}", random.below(100));
                self.luks.set_label(device, Some(&self.model.label), None).expect("sets");
                let priority = *random.pick(&[Priority::Normal, Priority::Prefer]);
                self.luks.set_priority(device, slot, priority).expect("sets");
                self.log.push("label and priority".into());
            }
            7 => {
                let at = *random.pick(&[0, 0x4000]) + random.below(400);
                device.write_at(at, &[0x55]).expect("writes");
                if random.below(2) == 0 {
                    match self.luks.repair(device) {
                        // The byte was 0x55 before.
                        Ok(()) | Err(ChangeError::NothingToRepair) => {}
                        other => panic!("{other:?}"),
                    }
                    self.log.push(format!("damage at {at}, repair"));
                } else {
                    self.luks.set_label(device, Some(&self.model.label), None).expect("sets");
                    self.log.push(format!("damage at {at}, write"));
                }
            }
            _ => {
                let backup = luks2::header_backup(device).expect("backs up");
                self.luks.erase(device).expect("erases");
                luks2::header_restore(device, &backup, RestoreOptions::default()).expect("restores");
                self.luks = Luks2::read(device).expect("reads");
                self.log.push("backup, erase, restore".into());
            }
        }
        let fresh = Luks2::read(&self.device).expect("reads");
        self.model.assert_describes(&fresh, &self.log);
        self.model.assert_describes(&self.luks, &self.log);
        let (slot, key) = self.any_key(random);
        assert_eq!(opens(&self.device, &key), Some(slot), "{:#?}", self.log);
        if let Some(gone) = self.gone.last() {
            assert_eq!(opens(&self.device, gone), None, "{:#?}", self.log);
        }
    }
}

#[test]
fn random_histories_leave_what_the_model_says_and_what_cryptsetup_reads() {
    Campaign::new("luks2-histories", 4, 100).run(|_, random| {
        let mut history = History::start();
        for _ in 0..25 {
            history.step(random);
        }
        let directory = Scratch::new();
        let path = save(&history.device, directory.as_path(), "history.img");
        for (slot, key) in &history.model.keys {
            let theirs = Cryptsetup::new(&path, &key_file(directory.as_path(), key));
            theirs.test(&format!("--key-slot {slot}")).expect_code(0);
        }
        if let Some(gone) = history.gone.last() {
            Cryptsetup::new(&path, &key_file(directory.as_path(), gone)).assert_refuses();
        }
    });
}
