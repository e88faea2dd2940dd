//! What the engine asks of a store, against a real server of Azure Blob Storage.

use std::sync::Arc;
use std::thread;

use atrest_cloud::CloudError;
use atrest_cloud::azure::{AzureLocation, AzureStore, Settings};
use atrest_device::BlockDevice;
use atrest_sealedvolume::SealedVolume;
use atrest_sealedvolume::format::{Keys, Kind, names};
use atrest_sealedvolume::store::{ObjectStore, Put, StoreError};
use atrest_sealedvolume::volume::{self, Access, Freshness};
use atrest_secret::VolumeKey;
use atrest_testkit::{Azurite, Pki};

use crate::environment::service;

type Pairs<'a> = &'a [(&'a str, String)];

fn open(prefix: &str, environment: Pairs<'_>) -> Result<AzureStore, CloudError> {
    let settings = Settings::read(&|name| {
        environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    });
    AzureStore::open(&AzureLocation::parse(&format!("az://{}/{prefix}", Azurite::CONTAINER))?, settings?)
}

/// The store below a prefix, with settings that are others or more.
fn store_with(server: &Azurite, prefix: &str, others: Pairs<'_>) -> AzureStore {
    open(prefix, &[others, &server.environment()].concat()).expect("a store")
}

fn store(server: &Azurite, prefix: &str) -> AzureStore {
    store_with(server, prefix, &[])
}

#[test]
fn blobs_are_kept_listed_and_taken_away() {
    let server = Azurite::new();
    for prefix in ["a volume/of+mine", "ü%20'(x)&=~", ""] {
        let store = store(&server, prefix);
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
        let long: Vec<u8> =
            (0..9_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        assert_eq!(store.put_new(&names::log(3), &long), Ok(Put::Stored));
        assert_eq!(store.get(&names::log(3), 9_000_000).map(|read| read == Some(long.clone())), Ok(true));
        assert_eq!(store.get_range(&names::log(3), 8_999_990, 100), Ok(Some(long[8_999_990..].to_vec())));
        assert_eq!(store.get(&names::log(3), 100_000), Err(StoreError::TooLong));
        assert_eq!(store.put_new(&names::map(&[7; 16]), b""), Ok(Put::Stored));
        assert_eq!(store.get(&names::map(&[7; 16]), 0), Ok(Some(Vec::new())));
        assert_eq!(store.get_range(&names::map(&[7; 16]), 0, 5), Ok(Some(Vec::new())));
        assert_eq!(store.list_after(Kind::Log, None), Ok(vec![names::log(1), names::log(3)]));
        assert_eq!(store.list_after(Kind::Log, Some(&names::log(1))), Ok(vec![names::log(3)]));
        assert_eq!(store.list_after(Kind::Log, Some(&names::log(2))), Ok(vec![names::log(3)]));
        assert_eq!(store.list_after(Kind::Log, Some(&names::log(3))), Ok(vec![]));
        assert_eq!(store.list_after(Kind::Header, None), Ok(vec![]));
        assert_eq!(
            store.list_lens_after(Kind::Log, None),
            Ok(vec![(names::log(1), 6), (names::log(3), 9_000_000)])
        );
        assert_eq!((store.delete(&name), store.delete(&name)), (Ok(()), Ok(())));
        assert_eq!(store.get(&name, 100), Ok(None));
        assert_eq!(store.get("x/0", 1), Err(StoreError::Name));
    }
}

#[test]
fn a_long_list_comes_in_parts_and_others_names_are_left_out() {
    let server = Azurite::new();
    let store = store(&server, "v");
    // Before ours and behind them there are more of others than come at once.
    let others = (0..1100).flat_map(|number| [format!("v/l/-{number}"), format!("v/l/x{number}")]);
    let ours = (0..1500).map(|number| format!("v/{}", names::log(number)));
    server.put_all(&others.chain(ours).collect::<Vec<_>>());
    let mut all: Vec<String> = Vec::new();
    let mut asked = 0;
    loop {
        let some = store.list_some(Kind::Log, all.last().map(String::as_str)).expect("a list");
        // None come at the end alone.
        assert!(!some.names.is_empty() || !some.more);
        asked += 1;
        all.extend(some.names);
        if !some.more {
            break;
        }
    }
    assert!(all.iter().cloned().eq((0..1500).map(names::log)), "{} names", all.len());
    assert!(asked > 1, "it came at once");
    // Whoever begins in the middle has what is behind it, also what came later.
    server.put_all(&[format!("v/{}", names::log(5000))]);
    let behind = store.list_after(Kind::Log, Some(&names::log(1234))).expect("a list");
    assert!(behind.into_iter().eq((1235..1500).chain([5000]).map(names::log)));
}

#[test]
fn of_those_who_make_a_blob_at_once_one_is_told_that_it_did() {
    let server = Azurite::new();
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
fn who_is_not_known_or_asks_for_no_container_is_refused_and_not_told_that_nothing_is_there() {
    let server = Azurite::new();
    let wrong = store_with(&server, "v", &[("AZURE_STORAGE_KEY", "d3Jvbmc=".into())]);
    let refused = StoreError::Refused { status: 403 };
    assert_eq!(wrong.get(&names::log(1), 1), Err(refused));
    assert_eq!(wrong.put_new(&names::log(1), b"x"), Err(refused));
    assert_eq!(wrong.list_after(Kind::Log, None), Err(refused));
    server.remove_container();
    let none = StoreError::Refused { status: 404 };
    let right = store(&server, "v");
    assert_eq!(right.get(&names::log(1), 1), Err(none));
    assert_eq!(right.get_range(&names::log(1), 0, 1), Err(none));
    assert_eq!(right.put_new(&names::log(1), b"x"), Err(none));
    assert_eq!(right.delete(&names::log(1)), Err(none));
    assert_eq!(right.list_after(Kind::Log, None), Err(none));
    assert!(!none.may_pass() && !refused.may_pass());
}

#[test]
fn a_shared_access_signature_permits_what_it_says() {
    let server = Azurite::new();
    let with = |text: String| {
        let environment = [&server.place()[..], &[("AZURE_STORAGE_SAS_TOKEN", text)]].concat();
        open("a v", &environment).expect("a store")
    };
    let (all, reading) = (with(server.signature("rwdlc")), with(format!("?{}", server.signature("rl"))));
    let (name, refused) = (names::log(1), StoreError::Refused { status: 403 });
    assert_eq!(reading.put_new(&name, b"first"), Err(refused));
    assert_eq!(all.put_new(&name, b"first"), Ok(Put::Stored));
    assert_eq!(all.put_new(&name, b"other"), Ok(Put::Exists));
    assert_eq!(reading.get_range(&name, 1, 2), Ok(Some(b"ir".to_vec())));
    assert_eq!(reading.list_after(Kind::Log, None), Ok(vec![name.clone()]));
    assert_eq!(reading.list_after(Kind::Log, Some(&name)), Ok(vec![]));
    assert_eq!(reading.delete(&name), Err(refused));
    assert_eq!((all.delete(&name), reading.len_of(&name)), (Ok(()), Ok(None)));
    let forged = with(server.signature("rl").replace("sp=rl", "sp=rwdlc"));
    assert_eq!(forged.put_new(&name, b"first"), Err(refused));
}

#[test]
fn a_connection_string_has_all_that_is_needed() {
    let server = Azurite::new();
    let text = [("AZURE_STORAGE_CONNECTION_STRING", server.connection_string())];
    let store = open("v", &text).expect("a store");
    assert_eq!(store.put_new(&names::log(1), b"first"), Ok(Put::Stored));
    assert_eq!(store.get(&names::log(1), 5), Ok(Some(b"first".to_vec())));
}

#[test]
fn a_server_that_was_stopped_is_silent_and_then_there_again_with_all_blobs() {
    let mut server = Azurite::new();
    let store = store(&server, "v");
    assert_eq!(store.put_new(&names::log(1), b"first"), Ok(Put::Stored));
    server.stop();
    assert!(store.get(&names::log(1), 5).is_err());
    server.restart();
    // The connection that was kept is none any more.
    assert_eq!(store.get(&names::log(1), 5), Ok(Some(b"first".to_vec())));
    assert_eq!(store.put_new(&names::log(1), b"other"), Ok(Put::Exists));
}

/// A token that Azurite takes: it looks at what is said, and not at who has signed it.
fn token(audience: &str) -> String {
    use base64ct::{Base64UrlUnpadded, Encoding};
    let said = format!(
        "{{\"aud\":\"{audience}\",\"iss\":\"https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/\",\"nbf\":1500000000,\
         \"iat\":1500000000,\"exp\":32503680000,\"tid\":\"ab1f708d-50f6-404c-a006-d71b2ac7a606\"}}"
    );
    let part = |text: &str| Base64UrlUnpadded::encode_string(text.as_bytes());
    format!("{}.{}.{}", part("{\"alg\":\"HS256\",\"typ\":\"JWT\"}"), part(&said), part("signed by nobody"))
}

#[test]
fn by_tls_it_is_asked_if_an_authority_that_is_trusted_vouches_for_it() {
    let (ours, others) = (Pki::new(), Pki::new());
    let server = Azurite::with_tls(ours.server());
    let bundle = |pki: &Pki| ("REQUESTS_CA_BUNDLE", pki.nobody().join("ca-cert.pem").display().to_string());
    let long = vec![7; 3_000_000];
    let trusting = store_with(&server, "v", &[bundle(&ours)]);
    assert_eq!(trusting.put_new(&names::log(1), &long), Ok(Put::Stored));
    assert_eq!(trusting.get(&names::log(1), long.len()).map(|read| read == Some(long)), Ok(true));
    let doubting = store_with(&server, "v", &[bundle(&others)]);
    assert_eq!(doubting.get(&names::log(1), 1), Err(StoreError::Untrusted));
    // A machine is what its metadata service says.
    let identified = |audience: &str| {
        let metadata = service(vec![(
            "get /metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3a%2f%2fstorage.azure.com%2f ",
            "metadata: true\r\n",
            format!("{{\"access_token\":\"{}\",\"expires_in\":\"3599\"}}", token(audience)),
        )]);
        let more = [("AZURE_POD_IDENTITY_AUTHORITY_HOST", metadata), bundle(&ours)];
        open("v", &[&server.place()[..], &more].concat()).expect("a store")
    };
    let machine = identified("https://storage.azure.com");
    assert_eq!(machine.list_after(Kind::Log, None), Ok(vec![names::log(1)]));
    assert_eq!(machine.put_new(&names::log(2), b"x"), Ok(Put::Stored));
    assert_eq!(machine.list_after(Kind::Log, Some(&names::log(1))), Ok(vec![names::log(2)]));
    let elsewhere = identified("https://management.azure.com");
    assert!(matches!(elsewhere.list_after(Kind::Log, None), Err(StoreError::Refused { status: 401 | 403 })));
}

#[test]
fn a_volume_lives_on_it() {
    let server = Azurite::new();
    let keys = Keys::new(&VolumeKey::copy_from(&[7; 32]), [1; 16]).expect("keys");
    let store: Arc<dyn ObjectStore> = Arc::new(store(&server, "v"));
    let mut settings = volume::Settings::default();
    SealedVolume::format(store.clone(), keys.clone(), &mut Freshness::Nothing, (1 << 20, 32), &mut settings)
        .expect("a volume");
    let data: Vec<u8> = (0..10_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
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
    volume.read_at(1 << 30, &mut read).expect("read");
    assert!(read == data);
}
