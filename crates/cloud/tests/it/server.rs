//! What the engine asks of a store, against a real server of S3.

use std::sync::Arc;
use std::thread;

use atrest_cloud::s3::{S3Location, S3Store, Settings};
use atrest_device::BlockDevice;
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{Keys, Kind, names};
use atrest_sealedvolume::store::{ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::{self, Access, Freshness};
use atrest_secret::VolumeKey;
use atrest_testkit::{Pki, S3Server};

/// The store below a prefix, with settings that are others or more.
fn store_with(server: &S3Server, prefix: &str, others: &[(&str, &str)]) -> S3Store {
    let environment = server.environment();
    let settings = Settings::read(&|name| match others.iter().find(|(other, _)| *other == name) {
        Some((_, value)) => Some((*value).to_owned()),
        None => environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone()),
    });
    let at = S3Location::parse(&format!("s3://{}/{prefix}", S3Server::BUCKET)).expect("a URL");
    S3Store::open(&at, settings.expect("settings")).expect("a store")
}

fn store(server: &S3Server, prefix: &str) -> S3Store {
    store_with(server, prefix, &[])
}

#[test]
fn objects_are_kept_listed_and_taken_away() {
    let server = S3Server::new();
    let store = store(&server, "a volume/of+mine");
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
    // The longest that there are, and one without bytes.
    let long: Vec<u8> = (0..9_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert_eq!(store.put_new(&names::log(3), &long), Ok(Put::Stored));
    assert_eq!(store.get(&names::log(3), 9_000_000).map(|read| read == Some(long.clone())), Ok(true));
    assert_eq!(store.get_range(&names::log(3), 8_999_990, 100), Ok(Some(long[8_999_990..].to_vec())));
    assert_eq!(store.get(&names::log(3), 100_000), Err(StoreError::TooLong));
    assert_eq!(store.put_new(&names::map(&[7; 16]), b""), Ok(Put::Stored));
    assert_eq!(store.get(&names::map(&[7; 16]), 0), Ok(Some(Vec::new())));
    assert_eq!(store.list_after(Kind::Log, None), Ok(vec![names::log(1), names::log(3)]));
    assert_eq!(store.list_after(Kind::Log, Some(&names::log(1))), Ok(vec![names::log(3)]));
    assert_eq!(store.list_after(Kind::Log, Some(&names::log(3))), Ok(vec![]));
    assert_eq!(store.list_after(Kind::Header, None), Ok(vec![]));
    assert_eq!((store.delete(&name), store.delete(&name)), (Ok(()), Ok(())));
    assert_eq!(store.get(&name, 100), Ok(None));
    assert_eq!(store.get("x/0", 1), Err(StoreError::Name));
    assert!(server.bucket().join("a volume/of+mine/l").join(&names::log(3)[2..]).exists());
}

#[test]
fn a_long_list_comes_in_parts_and_others_names_are_left_out() {
    let server = S3Server::new();
    let store = store(&server, "v");
    let directory = server.bucket().join("v/l");
    std::fs::create_dir_all(&directory).expect("a directory");
    // Before ours there are more of others than come at once.
    for number in 0..1100 {
        std::fs::write(directory.join(format!("{number:08}")), b"").expect("a file");
    }
    for number in 0..1500_u64 {
        std::fs::write(directory.join(&names::log(number)[2..]), b"").expect("a file");
    }
    let mut all: Vec<String> = Vec::new();
    loop {
        let some = store.list_after(Kind::Log, all.last().map(String::as_str)).expect("a list");
        if some.is_empty() {
            break;
        }
        all.extend(some);
    }
    assert!(all.iter().cloned().eq((0..1500).map(names::log)), "{} names", all.len());
}

#[test]
fn of_those_who_make_an_object_at_once_one_is_told_that_it_did() {
    let server = S3Server::new();
    let store = store(&server, "v");
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

#[test]
fn a_server_that_ignores_conditions_is_found_out() {
    let server = S3Server::without_conditions();
    let store = store(&server, "v");
    assert_eq!(store.put_new(&names::log(1), b"first"), Ok(Put::Stored));
    assert_eq!(store.put_new(&names::log(1), b"other"), Ok(Put::Stored));
    assert_eq!(store.probe(), Err(StoreError::Unconditional));
}

#[test]
fn who_is_not_known_or_asks_for_no_bucket_is_refused_and_not_told_that_nothing_is_there() {
    let server = S3Server::new();
    let wrong = store_with(&server, "v", &[("AWS_SECRET_ACCESS_KEY", "wrong")]);
    let refused = StoreError::Refused { status: 403 };
    assert_eq!(wrong.get(&names::log(1), 1), Err(refused));
    assert_eq!(wrong.put_new(&names::log(1), b"x"), Err(refused));
    assert_eq!(wrong.list_after(Kind::Log, None), Err(refused));
    std::fs::remove_dir_all(server.bucket()).expect("it goes");
    let none = StoreError::Refused { status: 404 };
    let right = store(&server, "v");
    assert_eq!(right.get(&names::log(1), 1), Err(none));
    assert_eq!(right.get_range(&names::log(1), 0, 1), Err(none));
    assert_eq!(right.list_after(Kind::Log, None), Err(none));
    assert!(!none.may_pass() && !refused.may_pass());
}

#[test]
fn a_server_that_was_killed_is_silent_and_then_there_again_with_all_objects() {
    let mut server = S3Server::new();
    let store = store(&server, "v");
    assert_eq!(store.put_new(&names::log(1), b"first"), Ok(Put::Stored));
    server.kill();
    assert!(store.get(&names::log(1), 5).is_err());
    server.restart();
    // The connection that was kept is none any more.
    assert_eq!(store.get(&names::log(1), 5), Ok(Some(b"first".to_vec())));
    assert_eq!(store.put_new(&names::log(1), b"other"), Ok(Put::Exists));
}

#[test]
fn by_tls_it_is_asked_if_an_authority_that_is_trusted_vouches_for_it() {
    let (ours, others) = (Pki::new(), Pki::new());
    let server = S3Server::with_tls(ours.server());
    let with = |pki: &Pki| {
        let bundle = pki.nobody().join("ca-cert.pem").display().to_string();
        store_with(&server, "v", &[("AWS_CA_BUNDLE", &bundle)])
    };
    let long = vec![7; 3_000_000];
    let trusting = with(&ours);
    assert_eq!(trusting.put_new(&names::log(1), &long), Ok(Put::Stored));
    assert_eq!(trusting.get(&names::log(1), long.len()).map(|read| read == Some(long)), Ok(true));
    assert_eq!(with(&others).get(&names::log(1), 1), Err(StoreError::Untrusted));
    // In the clear it is no server of S3 for us, and nothing there is absent.
    let clear = format!("http://127.0.0.1:{}", server.port());
    assert!(store_with(&server, "v", &[("AWS_ENDPOINT_URL_S3", &clear)]).get(&names::log(2), 1).is_err());
}

#[test]
fn a_volume_lives_on_it() {
    let server = S3Server::new();
    let keys = Keys::new(&VolumeKey::copy_from(&[7; 32]), [1; 16]).expect("keys");
    let store: Arc<dyn ObjectStore> = Arc::new(store(&server, "v"));
    let mut settings = volume::Settings::default();
    SealedVolume::format(store.clone(), keys.clone(), &mut Freshness::Nothing, (1 << 20, 32), &mut settings)
        .expect("a volume");
    let data: Vec<u8> = (0..10_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let open = |access| {
        SealedVolume::open(
            store.clone(),
            keys.clone(),
            Freshness::Nothing,
            access,
            volume::Settings::default(),
        )
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
    volume.read_at(1 << 30, &mut read).expect("read");
    assert!(read == data);
}
