//! What a flash header says, as text and as JSON. No secrets.

use std::fmt::Write;

use atrest_engine::flash::{FlashVolume, sealed_layout};
use atrest_flash::CopyState;
use atrest_flash::sealed::RecordFields;
use atrest_kdf::Hash;
use atrest_keyslot::flash::{Freshness, KdfCost, Params, Protection, SLOTS, Slot, TicketPolicy};
use serde::Serialize;

use crate::amount::Bytes;
use crate::commands::text::counted;
use crate::failure::Failure;

/// Everything that the header says.
#[derive(Debug, Serialize)]
pub struct Info {
    format: &'static str,
    uuid: String,
    sequence: u64,
    cipher: &'static str,
    key_bits: u32,
    data_unit: u32,
    sealed: bool,
    /// Of a sealed volume.
    sealing: Option<Sealing>,
    read_size: u32,
    prog_size: u32,
    erase_size: u32,
    blocks: u64,
    size: u64,
    data_offset: u64,
    copies: Vec<Copy>,
    pub keyslots: Vec<Keyslot>,
}

/// How a volume is sealed.
#[derive(Debug, Serialize)]
struct Sealing {
    tag_size: u8,
    unit_size: u32,
    unit_stride: u32,
    units_per_block: u32,
    tickets: &'static str,
    trusted_store: &'static str,
    /// What the store that was named says.
    store: Option<Store>,
}

#[derive(Debug, Serialize)]
struct Store {
    closed: bool,
    anchor: u64,
    /// Number of the header that it names.
    header: u64,
    /// False: without a passphrase nobody can tell whether it is the volume's.
    verified: bool,
}

#[derive(Debug, Serialize)]
struct Copy {
    offset: u64,
    damage: Option<String>,
}

/// One keyslot in use.
#[derive(Debug, Serialize)]
pub struct Keyslot {
    id: usize,
    kdf: &'static str,
    iterations: Option<u32>,
    garlic: Option<u8>,
    memory_bytes: u64,
    needs_device: bool,
}

impl Info {
    /// What the header says, and the record of the store that was named.
    pub fn of(volume: &FlashVolume, record: Option<RecordFields>) -> Result<Self, Failure> {
        let header = volume.header()?;
        let params = header.params();
        let sizes = params.sizes;
        // cannot overflow: both copies were found to lie on the medium.
        let copy_len = sizes.blocks_per_copy().saturating_mul(sizes.erase_size.into());
        let copies = [0, copy_len].into_iter().zip(volume.copy_states());
        Ok(Self {
            format: "flash",
            uuid: uuid_text(&params.uuid),
            sequence: header.sequence(),
            cipher: params.cipher.name(),
            key_bits: u32::from(params.key_len) * 8,
            data_unit: params.data_unit,
            sealed: params.protection != Protection::Encrypted,
            sealing: Sealing::of(params, record)?,
            read_size: sizes.read_size,
            prog_size: sizes.prog_size,
            erase_size: sizes.erase_size,
            blocks: sizes.block_count,
            size: sizes.size(),
            // cannot overflow: both copies were found to lie on the medium.
            data_offset: copy_len.saturating_mul(2),
            copies: copies.map(|(offset, state)| Copy { offset, damage: damage(state) }).collect(),
            keyslots: (0..SLOTS).filter_map(|id| Some(Keyslot::of(id, &header.slot(id)?))).collect(),
        })
    }

    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |name: &str, value: String| {
            // Writing to a String can't fail.
            let _ = writeln!(out, "{name:>14}  {value}");
        };
        line("type", String::from(if self.sealed { "sealed flash" } else { "encrypted flash" }));
        line("UUID", self.uuid.clone());
        let units = match &self.sealing {
            None => format!("data units of {} bytes", self.data_unit),
            Some(sealing) => format!("tags of {} bytes", sealing.tag_size),
        };
        line("cipher", format!("{}, key of {} bits, {units}", self.cipher, self.key_bits));
        line(
            "medium",
            format!(
                "{}: {} blocks of {}, programmed by {}, read by {}",
                Bytes(self.size),
                self.blocks,
                self.erase_size,
                self.prog_size,
                self.read_size
            ),
        );
        line("data", format!("from {}", self.data_offset));
        if let Some(sealing) = &self.sealing {
            line("units", sealing.units_text());
            line("trusted store", sealing.store_text());
        }
        line("sequence", self.sequence.to_string());
        for copy in &self.copies {
            let state =
                copy.damage.as_deref().map_or(String::from("intact"), |damage| format!("DAMAGED: {damage}"));
            line("header copy", format!("at {}: {state}", copy.offset));
        }
        out + &keyslots_text(&self.keyslots)
    }
}

impl Sealing {
    fn of(params: &Params, record: Option<RecordFields>) -> Result<Option<Self>, Failure> {
        let Protection::Sealed { tag_len, store, tickets } = params.protection else { return Ok(None) };
        let layout = sealed_layout(params)?;
        Ok(Some(Self {
            tag_size: tag_len,
            unit_size: layout.payload(),
            unit_stride: layout.stride(),
            units_per_block: layout.units(),
            tickets: match tickets {
                TicketPolicy::Slot => "slot",
                TicketPolicy::Store => "store",
            },
            trusted_store: match store {
                Freshness::Nothing => "none",
                Freshness::Record => "record",
                Freshness::Counter => "counter",
            },
            store: record.map(|RecordFields { closed, anchor, header, .. }| Store {
                closed,
                anchor,
                header,
                verified: false,
            }),
        }))
    }

    fn units_text(&self) -> String {
        format!(
            "{} in a block, {} bytes each in {}; erases announced in the {}",
            self.units_per_block, self.unit_size, self.unit_stride, self.tickets
        )
    }

    fn store_text(&self) -> String {
        match &self.store {
            None => format!("a {}; --store shows what it says", self.trusted_store),
            Some(Store { closed, anchor, header, .. }) => {
                let how = if *closed { "closed in good order" } else { "NOT closed in good order" };
                format!(
                    "a {}: {how}, next serial {anchor} or later, header number {header} (unverified: `atrest key test --store` says whether it is this \
                     volume's)",
                    self.trusted_store
                )
            }
        }
    }
}

/// The keyslots, one line each.
pub fn keyslots_text(keyslots: &[Keyslot]) -> String {
    if keyslots.is_empty() {
        return format!("{:>14}  none: the volume was erased\n", "keyslots");
    }
    keyslots.iter().map(|slot| format!("{:>14}  {}\n", format!("keyslot {}", slot.id), slot.text())).collect()
}

impl Keyslot {
    fn of(id: usize, slot: &Slot<'_>) -> Self {
        let (iterations, garlic) = match slot.kdf {
            KdfCost::Pbkdf2 { iterations } => (Some(iterations), None),
            KdfCost::Catena(cost) => (None, Some(cost.garlic)),
            KdfCost::Argon2id { time, .. } => (Some(time), None),
        };
        let memory_bytes = match slot.kdf {
            KdfCost::Catena(cost) => cost.memory_bytes(Hash::Sha256),
            _ => slot.kdf.memory_bytes(),
        };
        Self { id, kdf: slot.kdf.name(), iterations, garlic, memory_bytes, needs_device: slot.needs_device }
    }

    fn text(&self) -> String {
        let mut text = String::from(self.kdf);
        if let Some(iterations) = self.iterations {
            let _ = write!(text, ", {}", counted(iterations.into(), "iteration", "iterations"));
        }
        if let Some(garlic) = self.garlic {
            let _ = write!(text, ", garlic {garlic}");
        }
        if self.memory_bytes > 0 {
            let _ = write!(text, ", {} KiB", self.memory_bytes / 1024);
        }
        if self.needs_device {
            text.push_str(", needs the chip's secret");
        }
        text
    }
}

/// What is wrong with a copy.
pub fn damage(state: CopyState) -> Option<String> {
    match state {
        CopyState::Current => None,
        CopyState::Outdated => Some(String::from("older than the other one: a change was cut short")),
        CopyState::Bad(error) => Some(error.to_string()),
        _ => Some(String::from("the medium can't read it")),
    }
}

/// A UUID as people write it.
pub fn uuid_text(uuid: &[u8; 16]) -> String {
    let mut text = String::new();
    for (index, byte) in uuid.iter().enumerate() {
        let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
        let _ = write!(text, "{dash}{byte:02x}");
    }
    text
}
