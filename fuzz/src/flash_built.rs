//! The header of encrypted flash, made with any parameters and changed, while power fails.

use arbitrary::{Result, Unstructured};
use atrest_device::FlashGeometry;
use atrest_flash::sealed::SealedLayout;
use atrest_flash::{CopyState, Existing, FlashHeader, FlashHeaderError, FormatOptions, NewSlot};
use atrest_keyslot::flash::{
    AnyKdf, FlashCipher, FlashKey, Freshness, HEADER_LEN, Header, KdfCost, Protection, SLOTS, TicketPolicy,
};

use crate::flash::{Agrees, Fixed};
use crate::medium::{Keeps, Medium};

/// Keys that a header holds, by the passphrases that open them.
const PASSPHRASES: [&[u8]; 3] = [b"first", b"second", b"third"];
const SCRATCH: usize = 2048;

/// A header is made, and keyslots are added, changed and removed.
pub fn flash_header_built(data: &[u8]) {
    // Where the input ends nothing more is done.
    let _ = built(&mut Unstructured::new(data));
}

fn options(u: &mut Unstructured<'_>) -> Result<(FlashGeometry, FormatOptions)> {
    let prog = *u.choose(&[1, 16, 256, 512, 2048])?;
    let erase = prog * *u.choose(&[1, 2, 8])?;
    let geometry = FlashGeometry::new(1, prog, erase, u.int_in_range(1..=24)?).expect("no size is 0");
    let cipher = *u.choose(FlashCipher::ALL)?;
    let lens = if u.ratio(3, 4)? { cipher.key_lens() } else { &[0, 8, 16, 24, 32, 40, 64, 72, 255] };
    let units: &[u32] = &[512, 4096, 264, 16, 65532, 0, 511, u32::MAX];
    let tags: &[u8] = if u.ratio(3, 4)? && cipher.is_aead() { cipher.tag_lens() } else { &[0, 4, 12, 16] };
    let protection = if u.ratio(1, 8)? != cipher.is_aead() {
        Protection::Sealed {
            tag_len: *u.choose(tags)?,
            store: *u.choose(&[Freshness::Record, Freshness::Nothing, Freshness::Counter])?,
            tickets: *u.choose(&[TicketPolicy::Slot, TicketPolicy::Store])?,
        }
    } else {
        Protection::Encrypted
    };
    let existing = Existing::Refuse;
    let (key_len, data_unit) = (*u.choose(lens)?, *u.choose(units)?);
    Ok((geometry, FormatOptions { cipher, key_len, data_unit, protection, existing }))
}

fn slot<'a>(passphrase: &'a [u8], kdf: &'a mut AnyKdf, random: &'a mut Fixed) -> NewSlot<'a> {
    let cost = KdfCost::Pbkdf2 { iterations: 1 };
    NewSlot { passphrase, cost, kdf, device: None, random }
}

fn built(u: &mut Unstructured<'_>) -> Result<()> {
    let (geometry, options) = options(u)?;
    let mut medium = Medium::new(geometry, Keeps::Order);
    let mut key = FlashKey::empty();
    let (mut kdf, mut random) = (AnyKdf, Fixed);
    let first = slot(PASSPHRASES[0], &mut kdf, &mut random);
    let made = FlashHeader::format(&mut medium, [0; SCRATCH], &options, first, &mut key);
    if made.is_err() {
        assert_eq!(medium.writes, 0, "what is refused was written in part");
        return Ok(());
    }
    drop(made);
    let key = key.expose().to_vec();
    let header = FlashHeader::open(&mut medium, [0; SCRATCH]).expect("what was made");
    let params = *header.header().expect("it is open").params();
    assert_eq!((params.cipher, params.key_len), (options.cipher, options.key_len));
    assert_eq!((params.protection, params.data_unit), (options.protection, options.data_unit));
    assert_eq!(header.copy_states(), [CopyState::Current; 2]);
    let sealed = SealedLayout::of(&params);
    assert!(options.protection != Protection::Encrypted || sealed.is_err(), "a layout of what is not sealed");
    one_byte(&medium, u)?;

    let mut opens = vec![(0, PASSPHRASES[0])];
    for _ in 0..u.int_in_range(0..=6)? {
        medium.left = if u.ratio(1, 3)? { Some(u.int_in_range(0..=8)?) } else { None };
        opens = change(&mut medium, &key, opens, u)?;
        medium.restart(0);
        opens = check(&mut medium, &key, opens);
    }
    Ok(())
}

/// A copy with a byte that is another is none, and the other copy takes its place.
fn one_byte(medium: &Medium, u: &mut Unstructured<'_>) -> Result<()> {
    let (mut medium, writes) = (medium.copy(), medium.writes);
    let at = u.choose_index(HEADER_LEN)?;
    medium.bytes[at] ^= u.int_in_range(1..=255_u8)?;
    let copy = medium.bytes.first_chunk().expect("a header");
    assert!(Header::parse(copy).is_err(), "a byte of a header is another");
    let header = FlashHeader::open(&mut medium, [0; SCRATCH]).expect("the second copy");
    assert_ne!(header.copy_states()[0], CopyState::Current);
    assert_eq!(medium.writes, writes, "reading repairs");
    Ok(())
}

type Opens<'a> = Vec<(usize, &'a [u8])>;

/// One change of the keyslots. What may open then, if power has failed: before and after.
fn change<'p>(
    medium: &mut Medium,
    key: &[u8],
    opens: Opens<'p>,
    u: &mut Unstructured<'_>,
) -> Result<Opens<'p>> {
    let mut header = FlashHeader::open(&mut *medium, [0; SCRATCH]).expect("a header");
    let mut held = FlashKey::empty();
    let (number, passphrase) = *u.choose(&opens)?;
    let opened = header.unlock(Some(number), passphrase, &mut AnyKdf, None, &mut held);
    assert_eq!((opened, held.expose()), (Ok(number), key));
    let other = *u.choose(&PASSPHRASES)?;
    let (mut kdf, mut random) = (AnyKdf, Fixed);
    let new = slot(other, &mut kdf, &mut random);
    let (mut after, mut before) = (opens.clone(), opens);
    let done = match u.int_in_range(0..=3)? {
        0 => match header.add_key(None, &held, new, Some(&mut Agrees)) {
            Ok(added) => {
                after.push((added, other));
                Ok(())
            }
            // Nobody knows into which one it went.
            Err(error) => {
                after.extend((0..SLOTS).map(|number| (number, other)));
                Err(error)
            }
        },
        1 => {
            after.retain(|(kept, _)| *kept != number);
            after.push((number, other));
            header.change_key(number, &held, new, Some(&mut Agrees))
        }
        2 => {
            after.retain(|(kept, _)| *kept != number);
            let removed = header.remove_key(number, Some(&mut Agrees));
            if before.len() == 1 {
                assert_eq!(removed, Err(FlashHeaderError::LastKey { slot: number }));
                return Ok(before);
            }
            removed
        }
        _ => header.repair(),
    };
    match done {
        Ok(()) => Ok(after),
        // Where a power loss came nobody knows which of them it is.
        Err(_) if !medium.has_power => {
            before.extend(after);
            Ok(before)
        }
        Err(error) => {
            let full = before.len() == SLOTS;
            assert!(full, "refused: {error}");
            Ok(before)
        }
    }
}

/// Which of the passphrases open, and with the right key. The copies are brought in step.
fn check<'p>(medium: &mut Medium, key: &[u8], opens: Opens<'p>) -> Opens<'p> {
    let mut header = FlashHeader::open(&mut *medium, [0; SCRATCH]).expect("one copy is good at any time");
    header.repair().expect("a good medium");
    let mut found = Vec::new();
    for number in header.header().expect("it is open").slots_in_use() {
        let mut held = FlashKey::empty();
        let mut opened = opens.iter().filter(|(slot, _)| *slot == number).filter(|(_, passphrase)| {
            header.unlock(Some(number), passphrase, &mut AnyKdf, None, &mut held).is_ok()
        });
        let one = *opened.next().expect("a keyslot that nobody made");
        drop(opened);
        assert_eq!(held.expose(), key);
        found.push(one);
    }
    assert!(!found.is_empty(), "no keyslot is left");
    let wrong = header.unlock(None, b"wrong", &mut AnyKdf, None, &mut FlashKey::empty());
    assert!(wrong.is_err(), "any passphrase opens it");
    found
}
