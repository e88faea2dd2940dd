//! What the engine asks of a store, against a server that speaks Google's API.

use std::sync::Arc;
use std::thread;

use atrest_cloud::google::GoogleStore;
use atrest_device::BlockDevice;
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{Keys, Kind, names};
use atrest_sealedvolume::store::{ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::{self, Access, Freshness};
use atrest_secret::VolumeKey;
use atrest_testkit::{GcsServer, Pki, Scratch};

use super::open;

/// The store below a prefix.
fn store(server: &GcsServer, prefix: &str) -> GoogleStore {
    let url = format!("gs://{}/{prefix}", GcsServer::BUCKET);
    open(&[("STORAGE_EMULATOR_HOST", &server.url())], &url).expect("a store")
}

#[test]
fn objects_are_kept_listed_and_taken_away() {
    let server = GcsServer::new();
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
    assert_eq!(store.get_range(&names::map(&[7; 16]), 0, 9), Ok(Some(Vec::new())));
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
    let file = server.bucket().join("a volume/of+mine/l").join(&names::log(3)[2..]);
    assert!(std::fs::read(file).expect("it is there, under its own name") == long);
}

#[test]
fn a_long_list_comes_in_parts_and_others_names_are_left_out() {
    let server = GcsServer::new();
    let store = store(&server, "v");
    // Before ours there are more of others than come at once: what another program has stored, by a URL of its own making.
    let scratch = Scratch::new();
    let others: Vec<_> = (0..1100).map(|number| format!("v/l/{number:08}")).collect();
    let ours: Vec<_> = (0..1500).map(|number| format!("v/{}", names::log(number))).collect();
    let lines: String = others
        .iter()
        .chain(&ours)
        .map(|name| {
            let name = name.replace('/', "%2F");
            format!(
                "url = \"{}/upload/storage/v1/b/disks/o?uploadType=media&name={name}\"\ndata = \"\"\noutput = \"/dev/null\"\n",
                server.url()
            )
        })
        .collect();
    scratch.file("requests", lines);
    scratch.tool("curl").words("--silent --fail --config requests").ok();
    let mut all: Vec<String> = Vec::new();
    let mut lists = 0;
    loop {
        let some = store.list_after(Kind::Log, all.last().map(String::as_str)).expect("a list");
        if some.is_empty() {
            break;
        }
        lists += 1;
        all.extend(some);
    }
    assert!(all.iter().cloned().eq((0..1500).map(names::log)), "{} names", all.len());
    assert!(lists > 1, "it comes in parts");
}

#[test]
fn of_those_who_make_an_object_at_once_one_is_told_that_it_did() {
    let server = GcsServer::new();
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
fn who_asks_for_no_bucket_is_refused_and_not_told_that_nothing_is_there() {
    let server = GcsServer::new();
    let store = store(&server, "v");
    assert_eq!(store.get(&names::log(1), 1), Ok(None));
    std::fs::remove_dir_all(server.bucket()).expect("it goes");
    let none = StoreError::Refused { status: 404 };
    assert_eq!(store.get(&names::log(1), 1), Err(none));
    assert_eq!(store.get_range(&names::log(1), 0, 1), Err(none));
    assert_eq!(store.len_of(&names::log(1)), Err(none));
    assert_eq!(store.delete(&names::log(1)), Err(none));
    assert_eq!(store.list_after(Kind::Log, None), Err(none));
    assert_eq!(store.put_new(&names::log(1), b"x"), Err(none));
    assert!(!none.may_pass());
}

#[test]
fn a_server_that_was_killed_is_silent_and_then_there_again_with_all_objects() {
    let mut server = GcsServer::new();
    let store = store(&server, "v");
    assert_eq!(store.put_new(&names::log(1), b"first"), Ok(Put::Stored));
    server.kill();
    assert!(store.get(&names::log(1), 5).is_err());
    // What it was writing then.
    std::fs::write(server.bucket().join("v/l/.cut"), b"").expect("a file");
    server.restart();
    // The connection that was kept is none any more.
    assert_eq!(store.get(&names::log(1), 5), Ok(Some(b"first".to_vec())));
    assert_eq!(store.put_new(&names::log(1), b"other"), Ok(Put::Exists));
    assert_eq!(store.list_after(Kind::Log, None), Ok(vec![names::log(1)]));
}

#[test]
fn by_tls_it_is_asked_if_an_authority_that_is_trusted_vouches_for_it() {
    let (ours, others) = (Pki::new(), Pki::new());
    let server = GcsServer::with_tls(ours.server());
    let with = |pki: &Pki, url: &str| {
        let bundle = pki.nobody().join("ca-cert.pem").display().to_string();
        let environment = [("STORAGE_EMULATOR_HOST", url), ("CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", &bundle)];
        open(&environment, "gs://disks/v").expect("a store")
    };
    let long = vec![7; 3_000_000];
    let trusting = with(&ours, &server.url());
    assert_eq!(trusting.put_new(&names::log(1), &long), Ok(Put::Stored));
    assert_eq!(trusting.get(&names::log(1), long.len()).map(|read| read == Some(long)), Ok(true));
    assert_eq!(with(&others, &server.url()).get(&names::log(1), 1), Err(StoreError::Untrusted));
    // In the clear it is no server of Google's API for us, and nothing there is absent.
    let clear = format!("127.0.0.1:{}", server.port());
    assert!(with(&ours, &clear).get(&names::log(2), 1).is_err());
}

#[test]
fn a_volume_lives_on_it() {
    let server = GcsServer::new();
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
