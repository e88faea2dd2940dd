//! What `atrest format --type flash|sealed` is asked for, checked before anything is written.

use atrest_device::FlashGeometry;
use atrest_engine::flash::{FlashOpenError, params, plain_geometry, sealed_payload};
use atrest_flash::{Existing, FormatOptions};
use atrest_inside::flash_tree_fits;
use atrest_keyslot::flash::{
    FlashCipher, FlashSizes, Freshness, KdfCost, Protection, SEALED_UNITS, TicketPolicy,
};

use crate::args::flash::{SealedArgs, SizesArgs, TicketsKind};
use crate::args::format::{FormatArgs, LuksType, PbkdfArgs, PbkdfKind};
use crate::commands::format::Place;
use crate::failure::Failure;

/// A garlic whose 128 KiB a microcontroller has.
const GARLIC: u8 = 12;
/// Iterations that a microcontroller does in a second or two.
const ITERATIONS: u32 = 10_000;
/// Argon2id, for cards that no chip has to open.
const ARGON2: (u32, u32, u32) = (3, 65536, 1);
/// Content of a unit: what leaves more than 92 % of erase blocks of 4 KiB and more, and on cards a sector with the smallest overhead.
const UNIT: (u32, u32) = (424, 476);

/// A volume that can be made.
pub struct Plan {
    pub geometry: FlashGeometry,
    pub options: FormatOptions,
    pub cost: KdfCost,
    /// What is inside.
    plain: FlashGeometry,
}

impl Plan {
    /// Looks whether all options go together, and with the place where the volume is to be.
    pub fn of(args: &FormatArgs, place: &Place<'_>) -> Result<Self, Failure> {
        refuse_luks(args)?;
        let sealed = args.kind == LuksType::Sealed;
        if !sealed {
            refuse_sealed(&args.flash.sealed)?;
        }
        let geometry = geometry(&args.flash, place)?;
        let cost = cost(&args.pbkdf)?;
        let options = match sealed {
            true => sealed_options(args, geometry, place.is_card())?,
            false => encrypted_options(args)?,
        };
        let plain = plain_geometry(&params(&options, geometry)).map_err(impossible)?;
        Ok(Self { geometry, options, cost, plain })
    }

    /// Looks whether a LittleFS would have room.
    pub fn check_filesystem(&self) -> Result<(), Failure> {
        flash_tree_fits(self.plain).map_err(Failure::from)
    }
}

const SMALLER: &str = "choose a smaller --prog-size or --erase-size";

/// Here it is the options that are wrong, not what is on a medium.
fn impossible(error: FlashOpenError) -> Failure {
    match error {
        FlashOpenError::UnitsTooLarge { .. } => Failure::parameters(error).hint(SMALLER),
        error => error.into(),
    }
}

/// Options that say something about flash with another --type are mistakes.
pub fn refuse_sizes(sizes: &SizesArgs) -> Result<(), Failure> {
    if sizes.erase_size.is_some() || sizes.prog_size.is_some() || sizes.read_size.is_some() || sizes.empty {
        return Err(Failure::parameters(
            "--erase-size, --prog-size, --read-size and --empty belong to --type flash and sealed",
        ));
    }
    refuse_sealed(&sizes.sealed)
}

fn refuse_sealed(args: &SealedArgs) -> Result<(), Failure> {
    let SealedArgs { store, aead, tag_size, unit_size, tickets } = args;
    if store.is_some() || aead.is_some() || tag_size.is_some() || unit_size.is_some() || tickets.is_some() {
        return Err(Failure::parameters(
            "--store, --aead, --tag-size, --unit-size and --tickets belong to --type sealed",
        ));
    }
    Ok(())
}

fn refuse_luks(args: &FormatArgs) -> Result<(), Failure> {
    let luks = args.label.is_some()
        || args.subsystem.is_some()
        || args.uuid.is_some()
        || args.key_slot.is_some()
        || args.luks2_metadata_size.is_some()
        || args.luks2_keyslots_size.is_some()
        || args.align_payload.is_some()
        || args.offset.is_some()
        || args.header.is_some()
        || args.integrity.is_some()
        || args.volume_key_file.is_some()
        || args.volume_key_keyring.is_some();
    if luks {
        return Err(Failure::parameters(
            "--label, --subsystem, --uuid, --key-slot, --luks2-…, --align-payload, --offset, --header, --integrity and \
             --volume-key-file belong to LUKS",
        )
        .hint("what authenticates flash is --type sealed"));
    }
    Ok(())
}

/// What a new keyslot's derivation costs.
pub fn cost(args: &PbkdfArgs) -> Result<KdfCost, Failure> {
    let luks = args.hash.is_some()
        || args.iter_time.is_some()
        || args.for_memory.is_some()
        || args.for_time.is_some()
        || args.keyslot_cipher.is_some()
        || args.keyslot_key_size.is_some();
    if luks {
        return Err(Failure::parameters(
            "--hash, --iter-time, --for-memory, --for-time, --keyslot-cipher and --keyslot-key-size belong to LUKS",
        )
        .hint("what a chip needs for a derivation does not show here: choose by `atrest kdf cost`"));
    }
    let iterations = args.pbkdf_force_iterations;
    let (garlic, memory, lanes) = (args.garlic, args.pbkdf_memory, args.pbkdf_parallel);
    let cost = match args.pbkdf.unwrap_or(PbkdfKind::Catena) {
        PbkdfKind::Catena if iterations.is_none() && memory.is_none() && lanes.is_none() => {
            KdfCost::catena(garlic.unwrap_or(GARLIC))
        }
        PbkdfKind::Pbkdf2 if garlic.is_none() && memory.is_none() && lanes.is_none() => {
            KdfCost::Pbkdf2 { iterations: iterations.unwrap_or(ITERATIONS) }
        }
        PbkdfKind::Argon2id if garlic.is_none() => KdfCost::Argon2id {
            time: iterations.unwrap_or(ARGON2.0),
            memory_kib: memory.unwrap_or(ARGON2.1),
            lanes: lanes.unwrap_or(ARGON2.2),
        },
        PbkdfKind::Argon2i => {
            return Err(
                Failure::parameters("encrypted flash has no argon2i").hint("argon2id, catena or pbkdf2")
            );
        }
        _ => {
            return Err(Failure::parameters("these options do not go with this key derivation")
                .hint("--garlic is Catena's; --pbkdf-force-iterations PBKDF2's and Argon2's; --pbkdf-memory and --pbkdf-parallel Argon2's"));
        }
    };
    if cost.is_acceptable() {
        Ok(cost)
    } else {
        Err(Failure::parameters("the key derivation is absurdly dear, or impossible"))
    }
}

fn encrypted_options(args: &FormatArgs) -> Result<FormatOptions, Failure> {
    let name = args.cipher.as_deref().unwrap_or("aes-xts-plain64");
    let cipher = named(name, false)?;
    let key_len = key_len(cipher, args.key_size)?;
    let data_unit = args.sector_size.unwrap_or(512);
    if !matches!(data_unit, 512 | 1024 | 2048 | 4096) {
        return Err(Failure::parameters(format!("data units of {data_unit} bytes are not possible"))
            .hint("512, 1024, 2048 or 4096"));
    }
    // What is there was asked about.
    let (protection, existing) = (Protection::Encrypted, Existing::Replace);
    Ok(FormatOptions { cipher, key_len, data_unit, protection, existing })
}

fn sealed_options(args: &FormatArgs, geometry: FlashGeometry, card: bool) -> Result<FormatOptions, Failure> {
    let wanted = &args.flash.sealed;
    if args.cipher.is_some() || args.sector_size.is_some() {
        return Err(Failure::parameters("--cipher and --sector-size belong to encrypted flash")
            .hint("what seals is chosen by --aead, --key-size, --tag-size and --unit-size"));
    }
    let name = wanted.aead.as_deref().unwrap_or("chacha20-poly1305");
    let cipher = named(name, true)?;
    let key_len = key_len(cipher, args.key_size)?;
    let tag_len = wanted.tag_size.unwrap_or(16);
    if !cipher.tag_lens().contains(&tag_len) {
        let known: Vec<String> = cipher.tag_lens().iter().map(ToString::to_string).collect();
        return Err(Failure::parameters(format!("{name} has no tags of {tag_len} bytes"))
            .hint(format!("it has {} bytes", known.join(", "))));
    }
    let default = if card { UNIT.1 } else { UNIT.0 };
    let unit = wanted.unit_size.unwrap_or(default.into());
    let unit = u32::try_from(unit).ok().filter(|unit| SEALED_UNITS.contains(unit)).ok_or_else(|| {
        let (least, most) = (SEALED_UNITS.start(), SEALED_UNITS.end());
        Failure::parameters(format!("units of {unit} bytes are not possible"))
            .hint(format!("{least} to {most}, and a unit fits into an erase block with its serial and tag"))
    })?;
    let tickets = match wanted.tickets.unwrap_or(TicketsKind::Slot) {
        TicketsKind::Slot => TicketPolicy::Slot,
        TicketsKind::Store => TicketPolicy::Store,
    };
    let protection = Protection::Sealed { tag_len, store: Freshness::Record, tickets };
    let existing = Existing::Replace;
    // Whole words come out of the layout again, and the header holds what came out.
    let mut options = FormatOptions { cipher, key_len, data_unit: unit & !3, protection, existing };
    options.data_unit = sealed_payload(&params(&options, geometry)).map_err(impossible)?;
    Ok(options)
}

fn named(name: &str, aead: bool) -> Result<FlashCipher, Failure> {
    let all = FlashCipher::ALL.iter().copied().filter(|cipher| cipher.is_aead() == aead);
    all.clone().find(|cipher| cipher.name() == name).ok_or_else(|| {
        let known: Vec<&str> = all.map(FlashCipher::name).collect();
        let what = if aead { "sealed" } else { "encrypted" };
        Failure::parameters(format!("{what} flash has no cipher \"{name}\""))
            .hint(format!("it has {}", known.join(", ")))
    })
}

fn key_len(cipher: FlashCipher, bits: Option<u32>) -> Result<u8, Failure> {
    // cannot be missing: every cipher has a key length.
    let longest = cipher.key_lens().last().copied().unwrap_or(0);
    let key_len = bits.map_or(Some(longest), |bits| u8::try_from(bits / 8).ok());
    key_len.filter(|len| cipher.key_lens().contains(len)).ok_or_else(|| {
        let known: Vec<String> =
            cipher.key_lens().iter().map(|len| (u32::from(*len) * 8).to_string()).collect();
        Failure::parameters(format!("{cipher} has no such key size"))
            .hint(format!("it has {} bits", known.join(", ")))
    })
}

fn geometry(sizes: &SizesArgs, place: &Place<'_>) -> Result<FlashGeometry, Failure> {
    let (card, bytes) = (place.is_card(), place.size());
    let size = |given: Option<u64>, default: u32| match given {
        None => Ok(default),
        Some(bytes) => u32::try_from(bytes)
            .map_err(|_| Failure::parameters(format!("{bytes} bytes are no unit of a flash")).hint(SMALLER)),
    };
    let prog = size(sizes.prog_size, if card { 512 } else { 16 })?;
    let read = size(sizes.read_size, if card { 512 } else { 1 })?;
    let erase = size(sizes.erase_size, 4096)?;
    // intended: with blocks of 0 bytes there are none, which is refused below.
    let blocks = bytes.checked_div(u64::from(erase)).unwrap_or(0);
    // cannot overflow: this is no more than the bytes that were divided.
    if erase != 0 && blocks.saturating_mul(u64::from(erase)) != bytes && !card {
        return Err(Failure::parameters(format!(
            "{bytes} bytes are no whole number of {erase}-byte erase blocks"
        ))
        .hint("choose --size and --erase-size that go together"));
    }
    let geometry = FlashGeometry::new(read, prog, erase, blocks)
        .map_err(|error| Failure::from(FlashOpenError::Geometry(error)))?;
    let header = FlashSizes { read_size: read, prog_size: prog, erase_size: erase, block_count: blocks };
    let first = header.first_data_block();
    if blocks <= first {
        return Err(Failure::parameters(format!(
            "{bytes} bytes have no room for a volume: the header alone takes {first} erase blocks of {erase} bytes"
        ))
        .hint("choose a larger --size, or a smaller --erase-size"));
    }
    Ok(geometry)
}
