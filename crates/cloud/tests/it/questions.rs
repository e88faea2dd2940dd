//! What the engine asks of every store. Each cloud's tests put these questions to a real server of it.

use std::sync::Arc;
use std::thread;

use atrest_device::BlockDevice;
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{Keys, Kind, names};
use atrest_sealedvolume::store::{ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::{self, Access, Freshness};
use atrest_secret::VolumeKey;

/// Bytes that do not repeat soon.
pub fn varied(len: u32) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Begins with an empty store. Leaves an empty map, and [`varied`] bytes, 9,000,000 of them, under the name of log 3.
pub fn objects_are_kept_listed_and_taken_away(store: &dyn ObjectStore) {
    let name = names::log(1);
    assert_eq!(store.get(&name, 100), Ok(None));
    assert_eq!(store.len_of(&name), Ok(None));
    assert_eq!(store.put_new(&name, b"first"), Ok(Put::Stored));
    assert_eq!(store.put_new(&name, b"other"), Ok(Put::Exists));
    assert_eq!(store.get(&name, 5), Ok(Some(b"first".to_vec())));
    assert_eq!(store.get(&name, 4), Err(StoreError::TooLong));
    assert_eq!(store.len_of(&name), Ok(Some(5)));
    for (offset, len, bytes) in
        [(0, 2, "fi"), (3, 10, "st"), (4, 1, "t"), (5, 1, ""), (100, 7, ""), (1, 0, "")]
    {
        assert_eq!(
            store.get_range(&name, offset, len),
            Ok(Some(bytes.as_bytes().to_vec())),
            "{offset} {len}"
        );
    }
    assert_eq!(store.get_range(&names::log(2), 0, 1), Ok(None));
    assert_eq!(store.put(&name, b"second"), Ok(()));
    assert_eq!(store.get(&name, 100), Ok(Some(b"second".to_vec())));
    the_longest_and_the_empty_are_kept(store);
    assert_eq!(store.list_after(Kind::Log, None), Ok(vec![names::log(1), names::log(3)]));
    assert_eq!(store.list_after(Kind::Log, Some(&names::log(1))), Ok(vec![names::log(3)]));
    assert_eq!(store.list_after(Kind::Log, Some(&names::log(2))), Ok(vec![names::log(3)]));
    assert_eq!(store.list_after(Kind::Log, Some(&names::log(3))), Ok(vec![]));
    assert_eq!(store.list_after(Kind::Header, None), Ok(vec![]));
    let lens = vec![(names::log(1), 6), (names::log(3), 9_000_000)];
    assert_eq!(store.list_lens_after(Kind::Log, None), Ok(lens));
    assert_eq!((store.delete(&name), store.delete(&name)), (Ok(()), Ok(())));
    assert_eq!(store.get(&name, 100), Ok(None));
    assert_eq!(store.get("x/0", 1), Err(StoreError::Name));
}

fn the_longest_and_the_empty_are_kept(store: &dyn ObjectStore) {
    let long = varied(9_000_000);
    assert_eq!(store.put_new(&names::log(3), &long), Ok(Put::Stored));
    assert_eq!(store.get(&names::log(3), 9_000_000).map(|read| read == Some(long.clone())), Ok(true));
    assert_eq!(store.get_range(&names::log(3), 8_999_990, 100), Ok(Some(long[8_999_990..].to_vec())));
    assert_eq!(store.get(&names::log(3), 100_000), Err(StoreError::TooLong));
    let empty = names::map(&[7; 16]);
    assert_eq!(store.put_new(&empty, b""), Ok(Put::Stored));
    assert_eq!(store.get(&empty, 0), Ok(Some(Vec::new())));
    for len in [5, 9] {
        assert_eq!(store.get_range(&empty, 0, len), Ok(Some(Vec::new())), "{len}");
    }
}

/// Begins with logs 0 to 1499 and with others' objects, of which more than come at once have names before the logs'.
pub fn a_long_list_comes_in_parts_and_others_names_are_left_out(store: &dyn ObjectStore) {
    let mut parts: Vec<Vec<String>> = Vec::new();
    loop {
        let last = parts.last().and_then(|part| part.last()).map(String::as_str);
        let some = store.list_after(Kind::Log, last).expect("a list");
        if some.is_empty() {
            break;
        }
        parts.push(some);
    }
    these_are_the_logs(&parts);
    let mut parts: Vec<Vec<String>> = Vec::new();
    loop {
        let last = parts.last().and_then(|part| part.last()).map(String::as_str);
        let some = store.list_some(Kind::Log, last).expect("a list");
        // None come at the end alone.
        assert!(!some.names.is_empty() || !some.more);
        parts.push(some.names);
        if !some.more {
            break;
        }
    }
    these_are_the_logs(&parts);
}

fn these_are_the_logs(parts: &[Vec<String>]) {
    let all = parts.concat();
    assert!(all.iter().cloned().eq((0..1500).map(names::log)), "{} names", all.len());
    assert!(parts.len() > 1, "it came at once");
}

pub fn of_those_who_make_an_object_at_once_one_is_told_that_it_did(store: &dyn ObjectStore) {
    assert_eq!((store.probe(), store.probe()), (Ok(()), Ok(())));
    for number in 0..30 {
        let name = names::log(number);
        let put = |byte: u8| store.put_new(&name, &[byte; 5000]).map(|put| (byte, put));
        let told: Vec<_> = thread::scope(|scope| {
            let all: Vec<_> = (0..6).map(|byte| scope.spawn(move || put(byte))).collect();
            all.into_iter().map(|one| one.join().expect("no panic").expect("an answer")).collect()
        });
        let winners: Vec<_> = told.iter().filter(|(_, put)| *put == Put::Stored).collect();
        assert_eq!(winners.len(), 1, "{told:?}");
        assert_eq!(store.get(&name, 5000), Ok(Some(vec![winners[0].0; 5000])));
    }
}

/// Begins with a store whose server does not know who asks.
pub fn who_is_not_known_is_refused(store: &dyn ObjectStore) {
    let refused = StoreError::Refused { status: 403 };
    assert_eq!(store.get(&names::log(1), 1), Err(refused));
    assert_eq!(store.put_new(&names::log(1), b"x"), Err(refused));
    assert_eq!(store.list_after(Kind::Log, None), Err(refused));
    assert!(!refused.may_pass());
}

/// Begins with a store whose bucket or container does not exist.
pub fn who_asks_for_no_bucket_is_refused(store: &dyn ObjectStore) {
    let none = StoreError::Refused { status: 404 };
    assert_eq!(store.get(&names::log(1), 1), Err(none));
    assert_eq!(store.get_range(&names::log(1), 0, 1), Err(none));
    assert_eq!(store.list_after(Kind::Log, None), Err(none));
    assert_eq!(store.delete(&names::log(1)), Err(none));
    assert_eq!(store.put_new(&names::log(1), b"x"), Err(none));
    assert!(!none.may_pass());
}

/// `away` stops the server, calls what it is given, and starts the server again.
pub fn a_server_that_was_away_is_silent_and_then_there_again_with_all_objects(
    store: &dyn ObjectStore,
    away: impl FnOnce(&mut dyn FnMut()),
) {
    assert_eq!(store.put_new(&names::log(1), b"first"), Ok(Put::Stored));
    let mut asked = 0;
    away(&mut || {
        assert!(store.get(&names::log(1), 5).is_err());
        asked += 1;
    });
    assert_eq!(asked, 1, "it was asked while it was away");
    // The connection that was kept is none any more.
    assert_eq!(store.get(&names::log(1), 5), Ok(Some(b"first".to_vec())));
    assert_eq!(store.put_new(&names::log(1), b"other"), Ok(Put::Exists));
}

/// The server is the same: one store trusts the authority that vouches for it, the other one trusts another.
pub fn it_is_asked_if_an_authority_that_is_trusted_vouches_for_it(
    trusting: &dyn ObjectStore,
    doubting: &dyn ObjectStore,
) {
    let long = vec![7; 3_000_000];
    assert_eq!(trusting.put_new(&names::log(1), &long), Ok(Put::Stored));
    assert_eq!(trusting.get(&names::log(1), long.len()).map(|read| read == Some(long)), Ok(true));
    assert_eq!(doubting.get(&names::log(1), 1), Err(StoreError::Untrusted));
}

pub fn a_volume_lives_on_it(store: impl ObjectStore + 'static) {
    let keys = Keys::new(&VolumeKey::copy_from(&[7; 32]), [1; 16]).expect("keys");
    let store: Arc<dyn ObjectStore> = Arc::new(store);
    let mut settings = volume::Settings::default();
    SealedVolume::format(store.clone(), keys.clone(), &mut Freshness::Nothing, (1 << 20, 32), &mut settings)
        .expect("a volume");
    let data = varied(10_000_000);
    let open = |access| {
        let settings = volume::Settings::default();
        SealedVolume::open(store.clone(), keys.clone(), Freshness::Nothing, access, settings)
    };
    let volume = open(Access::Write).expect("it opens");
    volume.write_at(1 << 30, &data).expect("written");
    volume.flush().expect("flushed");
    // Not closed: as after a crash.
    drop(volume);
    let volume = open(Access::Write).expect("it opens");
    let mut read = vec![0; data.len()];
    volume.read_at(1 << 30, &mut read).expect("read");
    assert!(read == data);
    volume.close().expect("closed");
    let volume = open(Access::Read).expect("it opens");
    // What the first reading left would pass for what this one reads.
    read.fill(0);
    volume.read_at(1 << 30, &mut read).expect("read");
    assert!(read == data);
}
