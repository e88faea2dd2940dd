//! The volume key of before in the header of a volume whose key is rotated.

use atrest_keyslot::flash::{
    FlashCipher, FlashKey, FlashSizes, Freshness, HEADER_LEN, Header, HeaderEdit, HeaderError, Params,
    Protection, SlotError, TicketPolicy, open_previous, seal_previous,
};
use atrest_secret::{Random, RandomError};

use crate::flash::resummed;

/// Bytes that count from here.
struct From(u8);

impl Random for From {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        (self.0..).zip(out).for_each(|(byte, to)| *to = byte);
        Ok(())
    }
}

/// The worked example of FORMATS.md, with this cipher.
fn params(cipher: FlashCipher, key_len: u8) -> Params {
    Params {
        cipher,
        key_len,
        protection: Protection::Sealed { tag_len: 16, store: Freshness::Record, tickets: TicketPolicy::Slot },
        uuid: core::array::from_fn(|i| 0x10 + i as u8),
        sizes: FlashSizes { read_size: 1, prog_size: 16, erase_size: 4096, block_count: 256 },
        data_unit: 264,
    }
}

fn key(params: &Params, first: u8) -> FlashKey {
    let mut key = FlashKey::empty();
    key.generate(params, &mut From(first)).expect("random bytes");
    key
}

/// A header with the key 20 21 … in keyslot 3, under 00 01 ….
fn header(params: &Params) -> [u8; HEADER_LEN] {
    let mut bytes = [0x55; HEADER_LEN];
    let mut edit = HeaderEdit::create(&mut bytes, params).expect("good parameters");
    let slot = seal_previous(params, &key(params, 0), &key(params, 0x20)).expect("a key");
    assert!(edit.put_slot(3, Some(&slot)));
    edit.finish(9);
    bytes
}

const SLOT: usize = 64 + 3 * 104;

/// Python's hmac and OpenSSL's key wrap give these bytes, with parameters that end in those of the worked example.
#[test]
fn the_key_of_before_is_wrapped_as_documented_under_the_new_one() {
    for (cipher, key_len, wrapped) in [
        (
            FlashCipher::ChaCha20Poly1305,
            32,
            "a7c074738a8e9504380130ee7bee03e0a6904c42847d6b72001154b2b4f2d8216ae506c612462bc8",
        ),
        (FlashCipher::Ascon128, 16, "68d2065ab3d1d671e9ccfa41cf3aeab601500fac28e8a9cb"),
    ] {
        let params = params(cipher, key_len);
        let bytes = header(&params);
        let hex: String =
            bytes[SLOT + 32..][..wrapped.len() / 2].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((bytes[SLOT], &*hex), (2, wrapped));
        let zeros = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        assert!(zeros(&bytes[SLOT + 1..SLOT + 32]) && zeros(&bytes[SLOT + 32 + wrapped.len() / 2..480]));
        let header = Header::parse(&bytes).expect("a header");
        let (number, found) = header.previous().expect("the key of before");
        assert_eq!((number, found.len()), (3, usize::from(key_len) + 8));
        // It is no key that a passphrase opens, and its keyslot is not free.
        assert_eq!((header.slot(3), header.slots_in_use().count()), (None, 0));
        assert_eq!([2, 3, 4].map(|number| header.is_free(number)), [true, false, false]);
        let mut previous = FlashKey::empty();
        open_previous(&params, found, &key(&params, 0), &mut previous).expect("the new key");
        assert_eq!((previous.expose(), previous.uuid()), (key(&params, 0x20).expose(), &params.uuid));
        for wrong in [1, 0x20] {
            let refused = open_previous(&params, found, &key(&params, wrong), &mut previous);
            assert_eq!((refused, previous.expose()), (Err(SlotError::WrongKey), &[][..]));
        }
        for bit in 0..found.len() * 8 {
            let mut changed = found.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            let refused = open_previous(&params, &changed, &key(&params, 0), &mut previous);
            assert_eq!(refused, Err(SlotError::WrongKey), "{bit}");
        }
        // What the volume is is part of the wrapping.
        let other = Params { data_unit: 268, ..params };
        let refused = open_previous(&other, found, &key(&params, 0), &mut previous);
        assert_eq!(refused, Err(SlotError::WrongKey));
    }
}

#[test]
fn keys_of_other_volumes_wrap_nothing_and_are_not_wrapped() {
    let params = params(FlashCipher::ChaCha20Poly1305, 32);
    let other = Params { uuid: [3; 16], ..params };
    let short = Params { cipher: FlashCipher::Ascon128, key_len: 16, ..params };
    let own = || key(&params, 1);
    for wrong in [FlashKey::empty(), key(&other, 1), key(&short, 1)] {
        let refused = Err(SlotError::OtherVolume);
        assert_eq!(seal_previous(&params, &wrong, &own()).map(drop), refused);
        assert_eq!(seal_previous(&params, &own(), &wrong).map(drop), refused);
        let mut previous = own();
        assert_eq!(open_previous(&params, &[0; 40], &wrong, &mut previous), refused);
        assert_eq!(previous.expose(), [0; 0]);
    }
}

#[test]
fn one_key_of_before_stands_in_the_header_of_what_is_sealed_and_nothing_beside_it() {
    let sealed = params(FlashCipher::ChaCha20Poly1305, 32);
    let bytes = header(&sealed);
    assert!(Header::parse(&bytes).is_ok());
    for at in (1..32).chain(72..104) {
        let junk = resummed(bytes, |bytes| bytes[SLOT + at] = 1);
        assert_eq!(Header::parse(&junk), Err(HeaderError::SlotJunk { slot: 3 }), "{at}");
    }
    let twice = resummed(bytes, |bytes| bytes.copy_within(SLOT..SLOT + 104, 64));
    assert_eq!(Header::parse(&twice), Err(HeaderError::Rotating { slot: 3 }));
    let encrypted =
        Params { cipher: FlashCipher::AesXts, protection: Protection::Encrypted, data_unit: 512, ..sealed };
    let mut moved = [0; HEADER_LEN];
    HeaderEdit::create(&mut moved, &encrypted).expect("good parameters").finish(9);
    let moved = resummed(moved, |moved| moved[SLOT..480].copy_from_slice(&bytes[SLOT..480]));
    assert_eq!(Header::parse(&moved), Err(HeaderError::Rotating { slot: 3 }));
}
