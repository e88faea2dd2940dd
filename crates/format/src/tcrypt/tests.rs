use atrest_codec::crc32;

use super::*;

/// A header of version 5 with the checksums that belong to it, decrypted.
fn sound(change: impl FnOnce(&mut [u8; ENCRYPTED_LEN])) -> [u8; ENCRYPTED_LEN] {
    let mut bytes = [0; ENCRYPTED_LEN];
    bytes[..4].copy_from_slice(b"VERA");
    bytes[4..8].copy_from_slice(&[0, 5, 1, 0x0b]);
    bytes[36..44].copy_from_slice(&0x9000_u64.to_be_bytes());
    bytes[44..52].copy_from_slice(&0x2_0000_u64.to_be_bytes());
    bytes[52..60].copy_from_slice(&0x9000_u64.to_be_bytes());
    bytes[64..68].copy_from_slice(&512_u32.to_be_bytes());
    for (byte, value) in bytes[192..].iter_mut().zip(0..=255) {
        *byte = value;
    }
    change(&mut bytes);
    let keys = !crc32(!0, &bytes[192..]);
    bytes[8..12].copy_from_slice(&keys.to_be_bytes());
    let all = !crc32(!0, &bytes[..188]);
    bytes[188..192].copy_from_slice(&all.to_be_bytes());
    bytes
}

fn read(change: impl FnOnce(&mut [u8; ENCRYPTED_LEN])) -> Result<Option<Header>, HeaderError> {
    Header::read(&sound(change))
}

fn header(change: impl FnOnce(&mut [u8; ENCRYPTED_LEN])) -> Header {
    read(change).expect("acceptable").expect("a header")
}

fn set(at: usize, value: u64) -> impl FnOnce(&mut [u8; ENCRYPTED_LEN]) {
    move |bytes| bytes[at..at + 8].copy_from_slice(&value.to_be_bytes())
}

#[test]
fn a_header_is_read_field_by_field() {
    let header = header(|_| {});
    assert_eq!((header.magic, header.version, header.program), (Magic::VeraCrypt, 5, 0x010b));
    assert_eq!((header.size, header.data_start, header.encrypted_size), (0x9000, 0x2_0000, 0x9000));
    assert_eq!((header.hidden_size, header.flags, header.sector_size), (0, 0, 512));
    assert_eq!((header.keys[0], header.keys[255]), (0, 255));
    let old = read(|bytes| bytes[..6].copy_from_slice(b"TRUE\0\x03")).expect("acceptable").expect("a header");
    assert_eq!((old.magic, old.version), (Magic::TrueCrypt, 3));
}

#[test]
fn a_header_is_written_as_it_was_read() {
    let bytes = sound(|bytes| {
        set(28, 0x3000)(bytes);
        bytes[63] = 2;
        bytes[64..68].copy_from_slice(&4096_u32.to_be_bytes());
    });
    let header = Header::read(&bytes).expect("acceptable").expect("a header");
    assert_eq!(*header.to_bytes(), bytes);
    let truecrypt = read(|bytes| bytes[..4].copy_from_slice(b"TRUE")).expect("acceptable").expect("a header");
    assert_eq!(truecrypt.to_bytes()[..4], *b"TRUE");
}

#[test]
fn a_header_with_one_defect_is_refused_by_its_field() {
    assert!(Header::read(&[0; ENCRYPTED_LEN]).expect("no header").is_none());
    assert!(read(|bytes| bytes[3] = b'a').expect("no header").is_none());
    // Any other bit that is turned over breaks a checksum: two cover all that is decrypted.
    for bit in 4 * 8..ENCRYPTED_LEN * 8 {
        let mut bytes = sound(|_| {});
        bytes[bit / 8] ^= 1 << (bit % 8);
        // From version 4 on. One that becomes 1 has no checksum of its own fields.
        let version = u16::from_be_bytes([bytes[4], bytes[5]]);
        match Header::read(&bytes) {
            Err(HeaderError::Checksum) => {}
            other => assert!(version < 4, "bit {bit}: {other:?}"),
        }
    }
    assert_eq!(read(|bytes| bytes[5] = 6).err(), Some(HeaderError::Version(6)));
    assert_eq!(read(|bytes| bytes[5] = 0).err(), Some(HeaderError::Version(0)));
    for sector in [511_u32, 513, 8192, u32::MAX] {
        let refused = read(|bytes| bytes[64..68].copy_from_slice(&sector.to_be_bytes()));
        assert_eq!(refused.err(), Some(HeaderError::SectorSize(sector)));
    }
    for sector in [0_u32, 512, 1536, 4096] {
        let header = header(|bytes| bytes[64..68].copy_from_slice(&sector.to_be_bytes()));
        assert_eq!(header.sector_size, sector.max(512));
    }
    assert_eq!(read(|bytes| bytes[63] = 4).err(), Some(HeaderError::Flags(4)));
    assert_eq!(header(|bytes| bytes[63] = 2).flags, Header::IN_PLACE);
}

/// Bytes of the device on which the header of [`sound`] fits.
const DEVICE: u64 = 0x2_0000 + 0x9000 + 0x2_0000;
/// Where the header of a system is.
const SYSTEM_HEADER: u64 = 31_744;

#[test]
fn data_lies_where_the_header_says_and_nowhere_else() {
    let layout = |header: &Header, place| header.layout(place, Mode::Xts, DEVICE);
    let expected = Layout { start: 0x2_0000, len: 0x9000, first_unit: 256 };
    for place in [Place::Normal, Place::Backup, Place::Hidden, Place::HiddenBackup] {
        assert_eq!(layout(&header(|_| {}), place), Ok(expected));
    }
    let outside = |change: &dyn Fn(&mut [u8; ENCRYPTED_LEN])| {
        matches!(layout(&header(change), Place::Normal), Err(LayoutError::Outside { .. }))
    };
    assert!(outside(&|bytes| set(44, DEVICE - 0x8000)(bytes)));
    assert!(outside(&|bytes| set(44, u64::MAX - 511)(bytes)));
    assert!(outside(&|bytes| set(44, 0x2_0001)(bytes)));
    assert!(outside(&|bytes| set(44, 0)(bytes)));
    assert!(outside(&|bytes| set(36, 0x9001)(bytes)));
    assert!(outside(&|bytes| set(36, 0)(bytes)));
    assert!(outside(&|bytes| set(36, DEVICE)(bytes)));
    let unfinished = layout(&header(set(52, 0x1000)), Place::Normal);
    assert_eq!(unfinished, Err(LayoutError::Unfinished { encrypted: 0x1000, size: 0x9000 }));
    assert_eq!(layout(&header(|bytes| bytes[63] = 1), Place::Normal), Err(LayoutError::System));
    assert_eq!(layout(&header(|_| {}), Place::System), Ok(expected));
    assert_eq!(layout(&header(|bytes| bytes[63] = 1), Place::System), Ok(expected));
}

#[test]
fn a_partition_lies_in_the_system_or_is_refused() {
    let system = header(|bytes| bytes[63] = 1);
    let layout = |start, len| system.layout_of_partition(Mode::Xts, start, len);
    let at = |len, first_unit| Ok(Layout { start: 0, len, first_unit });
    assert_eq!(layout(None, 0x9000), at(0x9000, 256));
    assert_eq!(layout(Some(0x2_0000), 0x9000), at(0x9000, 256));
    assert_eq!(layout(Some(0x2_0200), 0x8e00), at(0x8e00, 257));
    let refused = |start, len| {
        assert_eq!(
            layout(start, len),
            Err(LayoutError::Partition { start, len, system: 0x2_0000, size: 0x9000 })
        );
    };
    refused(None, 0x8e00);
    refused(Some(0x1_fe00), 0x9000);
    refused(Some(0x2_0200), 0x9000);
    refused(Some(0x2_0001), 0x200);
    refused(Some(0x2_0000), 0x201);
    refused(Some(0x2_0000), 0);
    refused(Some(u64::MAX - 511), 0x200);
    for mode in [Mode::Cbc, Mode::Lrw] {
        assert!(system.layout_of_partition(mode, None, 0x9000).is_err());
    }
    let old = header(|bytes| bytes[..6].copy_from_slice(b"TRUE\0\x03"));
    assert!(old.layout_of_partition(Mode::Xts, None, 0x9000).is_err());
    // A system whose data would begin with its own header.
    let over = header(set(44, SYSTEM_HEADER));
    assert!(over.layout_of_partition(Mode::Xts, None, 0x9000).is_err());
    assert!(header(set(44, SYSTEM_HEADER + 512)).layout_of_partition(Mode::Xts, None, 0x9000).is_ok());
    let unfinished = header(set(52, 0x1000)).layout_of_partition(Mode::Xts, None, 0x9000);
    assert_eq!(unfinished, Err(LayoutError::Unfinished { encrypted: 0x1000, size: 0x9000 }));
}

#[test]
fn old_headers_leave_the_size_to_the_device() {
    let old = |version, start| {
        header(move |bytes| {
            bytes[..6].copy_from_slice(&[b'T', b'R', b'U', b'E', 0, version]);
            set(44, start)(bytes);
            set(28, 0x3000)(bytes);
        })
    };
    let normal = |version, start, mode| old(version, start).layout(Place::Normal, mode, 0x9000);
    let whole = |first_unit| Ok(Layout { start: 512, len: 0x9000 - 512, first_unit });
    assert_eq!(normal(3, 512, Mode::Xts), whole(1));
    assert_eq!(normal(2, 0, Mode::Xts), whole(1));
    assert_eq!(normal(2, 0, Mode::Lrw), whole(0));
    assert_eq!(normal(1, 0, Mode::Cbc), whole(1));
    let hidden = |version, mode| old(version, 0x4000).layout(Place::OldHidden, mode, 0x9000);
    let behind = |first_unit| Ok(Layout { start: 0x9000 - 0x3000 - 1536, len: 0x3000, first_unit });
    assert_eq!(hidden(2, Mode::Lrw), behind(0));
    assert_eq!(hidden(2, Mode::Cbc), behind(0x4000 / 512));
    assert_eq!(hidden(3, Mode::Xts), behind((0x9000 - 0x3000 - 1536) / 512));
    let too_small = old(3, 512).layout(Place::OldHidden, Mode::Xts, 0x3000);
    assert!(matches!(too_small, Err(LayoutError::Outside { .. })));
}

#[test]
fn headers_are_looked_for_on_the_device_only() {
    assert_eq!(Place::Normal.offset(511), None);
    assert_eq!(Place::Normal.offset(512), Some(0));
    assert_eq!(Place::Hidden.offset(65_536 + 511), None);
    assert_eq!(Place::Hidden.offset(65_536 + 512), Some(65_536));
    assert_eq!(Place::OldHidden.offset(1535), None);
    assert_eq!(Place::OldHidden.offset(4096), Some(4096 - 1536));
    assert_eq!(Place::Backup.offset(131_071), None);
    assert_eq!(Place::Backup.offset(299_008), Some(299_008 - 131_072));
    assert_eq!(Place::HiddenBackup.offset(65_536), Some(0));
    assert_eq!(Place::System.offset(31_744 + 511), None);
    assert_eq!(Place::System.offset(32_256), Some(31_744));
}

#[test]
fn keys_of_a_cascade_come_first_and_those_of_tweaks_behind_them() {
    let material: [u8; 256] = core::array::from_fn(|at| (at / 32) as u8);
    let parts = |chain: &Chain, index| {
        let (key, len) = chain.key(index, &material).expect("long enough");
        (key[0], key[32], len)
    };
    let find = |name: &str, mode| {
        CHAINS.into_iter().find(|chain| chain.name() == name && chain.mode == mode).expect(name)
    };
    let one = find("aes", Mode::Xts);
    assert_eq!(parts(&one, 0), (0, 1, 64));
    let two = find("twofish-aes", Mode::Xts);
    assert_eq!([parts(&two, 0), parts(&two, 1)], [(0, 2, 64), (1, 3, 64)]);
    let three = find("serpent-twofish-aes", Mode::Xts);
    assert_eq!([parts(&three, 0), parts(&three, 1), parts(&three, 2)], [(0, 3, 64), (1, 4, 64), (2, 5, 64)]);
    assert_eq!(three.spec(2).as_deref(), Some("aes-xts-plain64"));
    let lrw = find("twofish-aes", Mode::Lrw);
    assert_eq!([parts(&lrw, 0), parts(&lrw, 1)], [(1, 0, 48), (2, 0, 48)]);
    assert_eq!(lrw.spec(0).as_deref(), Some("twofish-lrw-benbi"));
    let narrow = find("blowfish_le", Mode::Lrw);
    let key = narrow.bare_key(0, &material).map(|key| (key[0], key.len()));
    assert_eq!((key, narrow.spec(0), narrow.is_narrow()), (Some((1, 56)), None, true));
    assert_eq!((narrow.mode_name(), lrw.is_narrow()), ("lrw-benbi", false));
    let cbc = find("aes", Mode::Cbc);
    assert_eq!((parts(&cbc, 0), cbc.spec(0).as_deref()), ((1, 0, 64), Some("aes-cbc-tcw")));
    // Keys of other lengths in CBC follow one another, and the seed is behind the last.
    let cbc = find("serpent-blowfish_le-aes", Mode::Cbc);
    let bytes: [u8; 256] = core::array::from_fn(|at| at as u8);
    let bare = [0, 1, 2].map(|index| cbc.bare_key(index, &bytes).map(|key| (key[0], key.len())));
    assert_eq!(bare, [Some((32, 32)), Some((64, 56)), Some((120, 32))]);
    assert_eq!(
        [0, 1, 2].map(|index| cbc.key(index, &bytes).map(|(_, len)| len)),
        [Some(32), Some(56), Some(64)]
    );
    assert_eq!((cbc.spec(0), cbc.mode_name()), (None, "cbc-tcrypt"));
    assert_eq!(cbc.in_cbc(), [0..1, 1..2, 2..3]);
    let outer = find("aes-twofish-serpent", Mode::Cbc);
    let chains = outer.in_cbc();
    assert_eq!((outer.mode_name(), chains.len(), chains.first()), ("cbci-tcrypt", 1, Some(&(0..3))));
    let short = find("cast5", Mode::Cbc);
    assert_eq!((short.spec(0).as_deref(), short.mode_name()), (Some("cast5-cbc-tcw"), "cbc-tcw"));
    assert_eq!(short.key(0, &bytes).map(|(key, len)| (key[0], key[16], len)), Some((32, 0, 40)));
    assert!(one.key(1, &material).is_none() && one.spec(1).is_none());
    assert!(three.key(2, &material[..191]).is_none());
}
